// kernels/avx2/kv.h: what attn.c needs of kv.c.
#ifndef FG_KERNELS_AVX2_KV_H
#define FG_KERNELS_AVX2_KV_H
#include "kernels/avx2/math.h"
#include "kernels/kv.h"

bool fg_kv_store_avx2(const struct fg_kv_head *h, int64_t pos, const float *k, const float *v);

// Bits of the largest magnitude of x[n]; NaN stands above infinity. As integers, magnitudes order
// like floats.
static inline uint32_t fg_magnitude_bits_avx2(const float *x, int64_t n)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
    __m256i most8 = _mm256_setzero_si256();
    for (int64_t i = 0; i < n; i += 8) {
        __m256i v = _mm256_castps_si256(fg_load_avx2(x + i, n - i));
        most8 = _mm256_max_epi32(most8, _mm256_and_si256(v, magnitude));
    }
    __m128i most = _mm_max_epi32(_mm256_castsi256_si128(most8), _mm256_extracti128_si256(most8, 1));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4E));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0xB1));
    return (uint32_t)_mm_cvtsi128_si32(most);
}
#endif
