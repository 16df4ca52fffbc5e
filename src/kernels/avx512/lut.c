// kernels/avx512/lut.c: groups of quantized weights to FP32 rows (lut.h), for the exact product.
// Sixteen columns at a time: four index registers are transposed so that the sixteen indices of a
// lane lie side by side, then looked up in tables of 64 or 16 floats in registers.
#include "kernels/avx512/lut_index.h"
#include "kernels/levels.h"

#define COLS 16

// Both rows of a pair, or single ones, in four registers each; 16 entries in the first of them.
struct tables {
    __m512 t[2][4];
};

// Index registers of columns [k, k + 16) of a group; past the group's end zeros.
FG_INLINE void column_indices(const enum fg_layout l, __m512i index[4], const uint8_t *group,
                              int64_t k, int64_t n_in)
{
    const int64_t unit_cols = fg_layout_unit_cols(l), unit_bytes = fg_layout_unit_bytes(l);
    const int regs = regs_per_unit(l);
    FG_UNROLL_FULL
    for (int i = 0; i < 4; i += regs) {
        int64_t at = k + 4 * i;
        if (at < n_in) {
            unit_indices(l, index + i, group + at / unit_cols * unit_bytes);
        } else {
            FG_UNROLL_FULL
            for (int j = 0; j < regs; j++)
                index[i + j] = _mm512_setzero_si512();
        }
    }
}

// Quarter q of rows[i]: the 16 bytes of lane 4q + i.
FG_INLINE void transpose(__m512i rows[4], const __m512i index[4])
{
    __m512i ab_low = _mm512_unpacklo_epi32(index[0], index[1]);
    __m512i ab_high = _mm512_unpackhi_epi32(index[0], index[1]);
    __m512i cd_low = _mm512_unpacklo_epi32(index[2], index[3]);
    __m512i cd_high = _mm512_unpackhi_epi32(index[2], index[3]);
    rows[0] = _mm512_unpacklo_epi64(ab_low, cd_low);
    rows[1] = _mm512_unpackhi_epi64(ab_low, cd_low);
    rows[2] = _mm512_unpacklo_epi64(ab_high, cd_high);
    rows[3] = _mm512_unpackhi_epi64(ab_high, cd_high);
}

FG_INLINE __m512 values(const enum fg_layout l, __m128i bytes, const __m512 *table)
{
    __m512i i = _mm512_cvtepu8_epi32(bytes);
    if (l == FG_I8) return _mm512_cvtepi32_ps(_mm512_sub_epi32(i, _mm512_set1_epi32(128)));
    if (!fg_layout_is_six_bits(l)) return _mm512_permutexvar_ps(i, table[0]);
    __mmask16 high = _mm512_test_epi32_mask(i, _mm512_set1_epi32(32));
    return _mm512_mask_blend_ps(high, _mm512_permutex2var_ps(table[0], i, table[1]),
                                _mm512_permutex2var_ps(table[2], i, table[3]));
}

FG_INLINE void decode_columns(const enum fg_layout l, float *out, int64_t ldo, const uint8_t *group,
                              int64_t k, int64_t n_in, const struct tables *table, __mmask16 live)
{
    const int per_lane = (int)fg_layout_rows(l) / FG_LUT_LANES;
    __m512i index[4], rows[4];
    column_indices(l, index, group, k, n_in);
    transpose(rows, index);
    FG_UNROLL_FULL
    for (int i = 0; i < 4; i++) {
        const __m128i quarter[4] = {
            _mm512_castsi512_si128(rows[i]), _mm512_extracti32x4_epi32(rows[i], 1),
            _mm512_extracti32x4_epi32(rows[i], 2), _mm512_extracti32x4_epi32(rows[i], 3)};
        FG_UNROLL_FULL
        for (int q = 0; q < 4; q++) {
            FG_UNROLL_FULL
            for (int c = 0; c < per_lane; c++) {
                float *to = out + ((4 * q + i) * per_lane + c) * ldo + k;
                _mm512_mask_storeu_ps(to, live, values(l, quarter[q], table->t[c]));
            }
        }
    }
}

FG_INLINE void decode(const enum fg_layout l, float *out, int64_t ldo, const struct fg_lut *w,
                      int64_t g)
{
    const uint8_t *group = w->tiles + g * fg_layout_group_bytes(l, w->n_in);
    struct tables table;
    FG_UNROLL_FULL
    for (int i = 0; i < 8; i++)
        table.t[i / 4][i % 4] =
            l == FG_I8 ? _mm512_setzero_ps() : _mm512_load_ps(w->table + 16 * i);
    int64_t k = 0;
    for (; k + COLS <= w->n_in; k += COLS)
        decode_columns(l, out, ldo, group, k, w->n_in, &table, 0xFFFF);
    if (k < w->n_in)
        decode_columns(l, out, ldo, group, k, w->n_in, &table,
                       (__mmask16)((1u << (w->n_in - k)) - 1));
}

#define LAYOUT(name, l)                                                                            \
    static void fg_lut_decode_##name##_avx512(float *out, int64_t ldo, const struct fg_lut *w,     \
                                              int64_t g)                                           \
    {                                                                                              \
        decode(l, out, ldo, w, g);                                                                 \
    }
LAYOUT(p6, FG_P6)
LAYOUT(p4x2, FG_P4X2)
LAYOUT(p4, FG_P4)
LAYOUT(i8, FG_I8)
LAYOUT(p6x1, FG_P6X1)

void fg_fill_lut_avx512(struct fg_kernels *k)
{
    k->lut_decode[FG_P6] = fg_lut_decode_p6_avx512;
    k->lut_decode[FG_P4X2] = fg_lut_decode_p4x2_avx512;
    k->lut_decode[FG_P4] = fg_lut_decode_p4_avx512;
    k->lut_decode[FG_I8] = fg_lut_decode_i8_avx512;
    k->lut_decode[FG_P6X1] = fg_lut_decode_p6x1_avx512;
}
