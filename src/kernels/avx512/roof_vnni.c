// kernels/avx512/roof_vnni.c: see kernels/roof.h, and avx2/roof.c for the empty asm.
#include "kernels/roof_loops.h"
#include <immintrin.h>

#define CHAINS 24

uint64_t fg_roof_i8_avx512vnni(uint32_t *sink)
{
    __m512i acc[CHAINS], a = _mm512_set1_epi8(1), b = _mm512_set1_epi8(-1);
    for (int i = 0; i < CHAINS; i++)
        acc[i] = _mm512_setzero_si512();
    for (int r = 0; r < FG_ROOF_ROUNDS; r++) {
        __asm__ volatile("" : "+v"(a), "+v"(b));
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; i++)
            acc[i] = _mm512_dpbusd_epi32(acc[i], a, b);
    }
    for (int i = 1; i < CHAINS; i++)
        acc[0] = _mm512_add_epi32(acc[0], acc[i]);
    *sink += (uint32_t)_mm_cvtsi128_si32(_mm512_castsi512_si128(acc[0]));
    return (uint64_t)FG_ROOF_ROUNDS * CHAINS * 64;
}
