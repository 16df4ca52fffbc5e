// kernels/avx2/dot4.h: VPDPBUSD of AVX-VNNI as an expression; see avx512/dot4.h.
#ifndef FG_KERNELS_AVX2_DOT4_H
#define FG_KERNELS_AVX2_DOT4_H
#include "kernels/inline.h"
#include <immintrin.h>

// acc + the products of four unsigned bytes with four signed ones, in each lane.
FG_INLINE __m256i fg_dot4_avx2(__m256i acc, __m256i bytes, __m256i codes)
{
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(bytes), "x"(codes));
    return acc;
}
#endif
