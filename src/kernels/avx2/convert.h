// kernels/avx2/convert.h: eight elements to FP32, from any byte address.
#ifndef FG_KERNELS_AVX2_CONVERT_H
#define FG_KERNELS_AVX2_CONVERT_H
#include "kernels/inline.h"
#include "kernels/kernels.h"
#include <immintrin.h>
#include <string.h>

// All ones in the first n lanes; n may be negative or above 8.
FG_INLINE __m256i fg_mask8(int64_t n)
{
    int count = n < 0 ? 0 : n > 8 ? 8 : (int)n;
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// Elements k .. k+7 of a row of type t (a constant, so that one form remains).
FG_INLINE __m256 fg_load8(const uint8_t *row, enum fg_dtype t, int64_t k)
{
    if (t == FG_F32) return _mm256_loadu_ps((const float *)(const void *)(row + 4 * k));
    if (t == FG_INT8) return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadu_si64(row + k)));
    __m128i h = _mm_loadu_si128((const __m128i *)(const void *)(row + 2 * k));
    if (t == FG_F16) return _mm256_cvtph_ps(h);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

// Elements k .. k+count-1 of a row, count < 16, as 16 zero-padded elements of the same type.
struct fg_padded16 {
    _Alignas(32) uint8_t bytes[64];
};

FG_INLINE void fg_pad16(struct fg_padded16 *p, const uint8_t *row, enum fg_dtype t, int64_t k,
                        int64_t count)
{
    size_t elem = (size_t)fg_dtype_bytes(t);
    *p = (struct fg_padded16){{0}};
    memcpy(p->bytes, row + (size_t)k * elem, (size_t)count * elem);
}

void fg_to_bf16_avx2(uint16_t *dst, const float *src, int64_t n);
void fg_widen_avx2(float *dst, const void *src, enum fg_dtype t, int64_t n);
#endif
