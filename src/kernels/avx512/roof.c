// kernels/avx512/roof.c: see kernels/roof.h, and avx2/roof.c for the empty asm.
#include "kernels/roof_loops.h"
#include <immintrin.h>

#define CHAINS 24

uint64_t fg_roof_f32_avx512(uint32_t *sink)
{
    __m512 acc[CHAINS], a = _mm512_set1_ps(1), b = _mm512_setzero_ps();
    for (int i = 0; i < CHAINS; i++)
        acc[i] = a;
    for (int r = 0; r < FG_ROOF_ROUNDS; r++) {
        __asm__ volatile("" : "+v"(a), "+v"(b));
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; i++)
            acc[i] = _mm512_fmadd_ps(acc[i], a, b);
    }
    for (int i = 1; i < CHAINS; i++)
        acc[0] = _mm512_add_ps(acc[0], acc[i]);
    *sink += (uint32_t)_mm512_cvtss_f32(acc[0]);
    return (uint64_t)FG_ROOF_ROUNDS * CHAINS * 16;
}
