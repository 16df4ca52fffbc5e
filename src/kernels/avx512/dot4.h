// kernels/avx512/dot4.h: VPDPBUSD as an expression. gcc 12 copies sums around the intrinsic, and
// with many of them has no registers left.
#ifndef FG_KERNELS_AVX512_DOT4_H
#define FG_KERNELS_AVX512_DOT4_H
#include "kernels/inline.h"
#include <immintrin.h>

// acc + the products of four unsigned bytes with four signed ones, in each lane.
FG_INLINE __m512i fg_dot4_avx512(__m512i acc, __m512i bytes, __m512i codes)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(bytes), "v"(codes));
    return acc;
}
#endif
