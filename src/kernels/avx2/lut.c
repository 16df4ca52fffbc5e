// kernels/avx2/lut.c: products of quantized weights with AVX2 alone, and decoding to FP32.
#include "kernels/avx2/lut_gemm.h"
#include "kernels/levels.h"

static uint32_t word(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

// table[index] of 8 indices; `few`: below 16, so two permutations each serve half of the table.
FG_INLINE __m256 look_up(const bool few, const float *table, __m256i index)
{
    if (!few) return _mm256_i32gather_ps(table, index, 4);
    __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), index);
    __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), index);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
}

// The indices of one lane of a unit, a byte each, ascending columns; FG_I8: code + 128.
FG_INLINE __m128i lane_indices(const enum fg_layout l, const uint8_t *p)
{
    uint32_t a = word(p);
    if (l == FG_I8) return _mm_cvtsi32_si128((int32_t)a);
    if (!fg_layout_is_six_bits(l)) {
        __m128i both = _mm_setr_epi32((int32_t)a, (int32_t)(a >> 4), 0, 0);
        return _mm_and_si128(both, _mm_set1_epi8(15));
    }
    uint32_t b = word(p + 64), c = word(p + 128);
    uint32_t d = (a >> 6 & 0x03030303) | (b >> 4 & 0x0C0C0C0C) | (c >> 2 & 0x30303030);
    __m128i all = _mm_setr_epi32((int32_t)a, (int32_t)b, (int32_t)c, (int32_t)d);
    return _mm_and_si128(all, _mm_set1_epi8(63));
}

FG_INLINE void decode(const enum fg_layout l, float *out, int64_t ldo, const struct fg_lut *w,
                      int64_t g)
{
    const int64_t cols = fg_layout_unit_cols(l), per_lane = fg_layout_rows(l) / FG_LUT_LANES;
    const uint8_t *unit = w->tiles + g * fg_layout_group_bytes(l, w->n_in);
    for (int64_t k = 0; k < w->n_in; k += cols, unit += fg_layout_unit_bytes(l)) {
        const int64_t n = w->n_in - k < cols ? w->n_in - k : cols;
        for (int64_t p = 0; p < FG_LUT_LANES; p++) {
            __m128i bytes = lane_indices(l, unit + 4 * p);
            for (int64_t i = 0; i < n; i += 8) {
                __m256i index = _mm256_cvtepu8_epi32(bytes);
                bytes = _mm_srli_si128(bytes, 8);
                for (int64_t c = 0; c < per_lane; c++) {
                    __m256 v =
                        l == FG_I8
                            ? _mm256_cvtepi32_ps(_mm256_sub_epi32(index, _mm256_set1_epi32(128)))
                            : look_up(!fg_layout_is_six_bits(l), w->table + 64 * c, index);
                    fg_store_avx2(out + (p * per_lane + c) * ldo + k + i, n - i, v);
                }
            }
        }
    }
}

#define LAYOUT(name, layout)                                                                       \
    static void fg_lut_gemm_##name##_avx2(float *y, int64_t ldy, const struct fg_lut *w,           \
                                          int64_t g0, int64_t g1, const struct fg_act *x,          \
                                          int64_t t0, int64_t t1, void *scratch)                   \
    {                                                                                              \
        fg_lut_gemm(layout, y, ldy, w, g0, g1, x, t0, t1, scratch);                                \
    }                                                                                              \
    static void fg_lut_decode_##name##_avx2(float *out, int64_t ldo, const struct fg_lut *w,       \
                                            int64_t g)                                             \
    {                                                                                              \
        decode(layout, out, ldo, w, g);                                                            \
    }
LAYOUT(p6, FG_P6)
LAYOUT(p4x2, FG_P4X2)
LAYOUT(p4, FG_P4)
LAYOUT(i8, FG_I8)
LAYOUT(p6x1, FG_P6X1)

void fg_fill_lut_avx2(struct fg_kernels *k)
{
    k->lut_gemm[FG_P6] = fg_lut_gemm_p6_avx2;
    k->lut_gemm[FG_P4X2] = fg_lut_gemm_p4x2_avx2;
    k->lut_gemm[FG_P4] = fg_lut_gemm_p4_avx2;
    k->lut_gemm[FG_I8] = fg_lut_gemm_i8_avx2;
    k->lut_gemm[FG_P6X1] = fg_lut_gemm_p6x1_avx2;
    k->lut_decode[FG_P6] = fg_lut_decode_p6_avx2;
    k->lut_decode[FG_P4X2] = fg_lut_decode_p4x2_avx2;
    k->lut_decode[FG_P4] = fg_lut_decode_p4_avx2;
    k->lut_decode[FG_I8] = fg_lut_decode_i8_avx2;
    k->lut_decode[FG_P6X1] = fg_lut_decode_p6x1_avx2;
}
