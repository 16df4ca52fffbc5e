// kernels/avx512/convert.c: rows between FP32 and narrower types.
#include "kernels/avx512/convert.h"

// As fg_bf16_of_f32. Not VCVTNEPS2BF16, which reads subnormals as zero.
FG_INLINE __m256i to_bf16x16(__m512 f)
{
    __m512i u = _mm512_castps_si512(f);
    __mmask16 nan = _mm512_cmp_ps_mask(f, f, _CMP_UNORD_Q);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i bias = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF));
    __m512i r = _mm512_srli_epi32(_mm512_add_epi32(u, bias), 16);
    __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(r, nan, quiet));
}

void fg_to_bf16_avx512(uint16_t *dst, const float *src, int64_t n)
{
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(dst + i), to_bf16x16(_mm512_loadu_ps(src + i)));
    if (i < n) {
        __mmask16 tail = fg_mask16(n - i);
        _mm256_mask_storeu_epi16(dst + i, tail, to_bf16x16(_mm512_maskz_loadu_ps(tail, src + i)));
    }
}

FG_INLINE void widen(float *dst, const uint8_t *src, enum fg_dtype t, int64_t n)
{
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(dst + i, fg_load16(src, t, i));
    if (i < n) {
        __mmask16 tail = fg_mask16(n - i);
        _mm512_mask_storeu_ps(dst + i, tail, fg_load16_masked(src, t, i, tail));
    }
}

void fg_widen_avx512(float *dst, const void *src, enum fg_dtype t, int64_t n)
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
