// kernels/avx2/roof_vnni.c: see kernels/roof.h.
#include "kernels/roof_loops.h"
#include <immintrin.h>

#define CHAINS 12

uint64_t fg_roof_i8_avx2vnni(uint32_t *sink)
{
    __m256i acc[CHAINS], a = _mm256_set1_epi8(1), b = _mm256_set1_epi8(-1);
    for (int i = 0; i < CHAINS; i++)
        acc[i] = _mm256_setzero_si256();
    for (int r = 0; r < FG_ROOF_ROUNDS; r++) {
        __asm__ volatile("" : "+x"(a), "+x"(b));
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            acc[i] = _mm256_dpbusd_avx_epi32(acc[i], a, b);
    }
    for (int i = 1; i < CHAINS; i++)
        acc[0] = _mm256_add_epi32(acc[0], acc[i]);
    *sink += (uint32_t)_mm256_extract_epi32(acc[0], 0);
    return (uint64_t)FG_ROOF_ROUNDS * CHAINS * 32;
}
