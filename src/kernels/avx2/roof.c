// kernels/avx2/roof.c: see kernels/roof.h. Twelve chains hide the latency of two ports.
#include "kernels/roof_loops.h"
#include <immintrin.h>

FG_ROOF_CHAINS(fg_roof_f32_avx2, __m256, __m256, 12, "x", _mm256_set1_ps(1), _mm256_setzero_ps(),
               _mm256_set1_ps(1), _mm256_fmadd_ps, _mm256_add_ps, _mm256_cvtss_f32, 8)

// Without VNNI a product of 32 pairs of bytes is vpmaddubsw, vpmaddwd with ones, vpaddd.
uint64_t fg_roof_i8_avx2(uint32_t *sink)
{
    enum { SUMS = 8 };
    __m256i acc[SUMS], a = _mm256_set1_epi8(1), b = _mm256_set1_epi8(-1);
    const __m256i ones = _mm256_set1_epi16(1);
    for (int i = 0; i < SUMS; i++)
        acc[i] = _mm256_setzero_si256();
    for (int r = 0; r < FG_ROOF_ROUNDS; r++) {
#pragma GCC unroll 8
        for (int i = 0; i < SUMS; i++) {
            __asm__ volatile("" : "+x"(a), "+x"(b)); // or the product is made once for all sums
            acc[i] = _mm256_add_epi32(acc[i], _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
        }
    }
    for (int i = 1; i < SUMS; i++)
        acc[0] = _mm256_add_epi32(acc[0], acc[i]);
    *sink += (uint32_t)_mm256_extract_epi32(acc[0], 0);
    return (uint64_t)FG_ROOF_ROUNDS * SUMS * 32;
}
