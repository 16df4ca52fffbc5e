// kernels/avx2/convert.c: rows between FP32 and narrower types.
#include "kernels/avx2/convert.h"

// As fg_bf16_of_f32, in the lower halves of eight 32-bit lanes.
FG_INLINE __m256i round8(__m256 f)
{
    __m256i u = _mm256_castps_si256(f);
    __m256 nan = _mm256_cmp_ps(f, f, _CMP_UNORD_Q);
    __m256i upper = _mm256_srli_epi32(u, 16);
    __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(u, bias), 16);
    __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
    return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(nan));
}

FG_INLINE __m256i to_bf16x16(const float *src)
{
    __m256i packed =
        _mm256_packus_epi32(round8(_mm256_loadu_ps(src)), round8(_mm256_loadu_ps(src + 8)));
    return _mm256_permute4x64_epi64(packed, _MM_SHUFFLE(3, 1, 2, 0));
}

void fg_to_bf16_avx2(uint16_t *dst, const float *src, int64_t n)
{
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(void *)(dst + i), to_bf16x16(src + i));
    if (i < n) {
        float in[16] = {0};
        uint16_t out[16];
        memcpy(in, src + i, (size_t)(n - i) * sizeof in[0]);
        _mm256_storeu_si256((__m256i *)(void *)out, to_bf16x16(in));
        memcpy(dst + i, out, (size_t)(n - i) * sizeof out[0]);
    }
}

FG_INLINE void widen(float *dst, const uint8_t *src, enum fg_dtype t, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, fg_load8(src, t, i));
    if (i < n) {
        struct fg_padded16 rest;
        fg_pad16(&rest, src, t, i, n - i);
        _mm256_maskstore_ps(dst + i, fg_mask8(n - i), fg_load8(rest.bytes, t, 0));
    }
}

void fg_widen_avx2(float *dst, const void *src, enum fg_dtype t, int64_t n)
{
    if (t == FG_F32)
        widen(dst, src, FG_F32, n);
    else if (t == FG_F16)
        widen(dst, src, FG_F16, n);
    else if (t == FG_BF16)
        widen(dst, src, FG_BF16, n);
    else
        widen(dst, src, FG_INT8, n);
}
