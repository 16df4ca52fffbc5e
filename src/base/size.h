// base/size.h: checked arithmetic on sizes that come from files (STYLE: sizes are uint64_t,
// narrowed once).
#ifndef FG_BASE_SIZE_H
#define FG_BASE_SIZE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// *out = a * b, a + b or a - b. False, and *out untouched, when the result does not fit.
static inline bool fg_mul(uint64_t *out, uint64_t a, uint64_t b)
{
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static inline bool fg_add(uint64_t *out, uint64_t a, uint64_t b)
{
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static inline bool fg_sub(uint64_t *out, uint64_t a, uint64_t b)
{
    if (b > a) return false;
    *out = a - b;
    return true;
}

// *out = n rounded up to a multiple of `align`, a power of two.
static inline bool fg_align_up(uint64_t *out, uint64_t n, uint64_t align)
{
    uint64_t r;
    if (__builtin_add_overflow(n, align - 1, &r)) return false;
    *out = r & ~(align - 1);
    return true;
}

// Narrows to size_t. False when it does not fit.
static inline bool fg_to_size(size_t *out, uint64_t n)
{
    if (n > SIZE_MAX) return false;
    *out = (size_t)n;
    return true;
}

#define FG_COUNT(a) (sizeof(a) / sizeof((a)[0]))
#endif
