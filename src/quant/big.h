// quant/big.h: large arrays on large pages. BLAS reads tiles of matrices whose rows are tens of
// kilobytes apart, a page each: with small pages a factorization takes a third more time.
#ifndef FG_QUANT_BIG_H
#define FG_QUANT_BIG_H
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define FG_BIG_PAGE ((uint64_t)2 << 20)
#define FG_BIG_LINE ((uint64_t)64)

// Bytes of memory, not cleared, 64-byte aligned or better; released by free. NULL when memory is
// out. bytes is the product of sizes that were checked: far below 2^63.
static inline void *fg_big_alloc(uint64_t bytes)
{
    const uint64_t align = bytes < 2 * FG_BIG_PAGE ? FG_BIG_LINE : FG_BIG_PAGE,
                   size = (bytes + align) / align * align;
    void *p = aligned_alloc((size_t)align, (size_t)size);
    if (p && align == FG_BIG_PAGE) madvise(p, (size_t)size, MADV_HUGEPAGE); // a hint
    return p;
}
#endif
