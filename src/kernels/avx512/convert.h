// kernels/avx512/convert.h: sixteen elements to FP32, from any byte address.
#ifndef FG_KERNELS_AVX512_CONVERT_H
#define FG_KERNELS_AVX512_CONVERT_H
#include "kernels/inline.h"
#include "kernels/kernels.h"
#include <immintrin.h>

// The first n < 16 lanes.
FG_INLINE __mmask16 fg_mask16(int64_t n)
{
    return (__mmask16)((1u << n) - 1);
}

FG_INLINE __m512 fg_widen_bf16x16(__m256i h)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

// Elements k .. k+15 of a row of type t (a constant, so that one form remains).
FG_INLINE __m512 fg_load16(const uint8_t *row, enum fg_dtype t, int64_t k)
{
    if (t == FG_F32) return _mm512_loadu_ps(row + 4 * k);
    if (t == FG_INT8)
        return _mm512_cvtepi32_ps(
            _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(row + k))));
    __m256i h = _mm256_loadu_si256((const __m256i *)(row + 2 * k));
    return t == FG_F16 ? _mm512_cvtph_ps(h) : fg_widen_bf16x16(h);
}

// The same for the lanes of `mask`; the others are zero and not read.
FG_INLINE __m512 fg_load16_masked(const uint8_t *row, enum fg_dtype t, int64_t k, __mmask16 mask)
{
    if (t == FG_F32) return _mm512_maskz_loadu_ps(mask, row + 4 * k);
    if (t == FG_INT8)
        return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, row + k)));
    __m256i h = _mm256_maskz_loadu_epi16(mask, row + 2 * k);
    return t == FG_F16 ? _mm512_cvtph_ps(h) : fg_widen_bf16x16(h);
}

void fg_to_bf16_avx512(uint16_t *dst, const float *src, int64_t n);
void fg_widen_avx512(float *dst, const void *src, enum fg_dtype t, int64_t n);
#endif
