// kernels/avx512/lut_tile.h: what the VNNI and AMX products of quantized weights share, for AVX-512
// VBMI: look-ups of bytes in a table of one register, and the end of a product.
#ifndef FG_KERNELS_AVX512_LUT_TILE_H
#define FG_KERNELS_AVX512_LUT_TILE_H
#include "kernels/avx512/lut_index.h"

FG_INLINE int rows_per_lane(const enum fg_layout l)
{
    return (int)fg_layout_rows(l) / FG_LUT_LANES;
}

// table[t]: the entries of component t (struct fg_lut), all that VPERMB can choose from.
FG_INLINE void load_tables(const enum fg_layout l, __m512i table[2], const struct fg_lut *w)
{
    FG_UNROLL_FULL
    for (int t = 0; t < 2; t++)
        table[t] = l == FG_I8 ? _mm512_setzero_si512() : _mm512_load_si512(w->table_u8 + 64 * t);
}

// Weights + 128 of an index register. VPERMB looks at six bits of an index alone; tables of 16
// entries stand four times, so four of them matter there.
FG_INLINE __m512i look_up(const enum fg_layout l, __m512i index, __m512i table)
{
    return l == FG_I8 ? index : _mm512_permutexvar_epi8(index, table);
}

// y[r] = sum * scale[r] for the rows r < left of one group; sums[c]: 16 lanes of component c.
FG_INLINE void store_rows(const enum fg_layout l, float *y, const float *scale, const float *sums,
                          int64_t left)
{
    __m512 a = _mm512_load_ps(sums);
    if (rows_per_lane(l) == 2) {
        const __m512i low =
            _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
        const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
        __m512 b = _mm512_load_ps(sums + 16), odd = _mm512_permutex2var_ps(a, high, b);
        a = _mm512_permutex2var_ps(a, low, b);
        if (left > 16) {
            __mmask16 live = (__mmask16)(left < 32 ? (1u << (left - 16)) - 1 : 0xFFFF);
            _mm512_mask_storeu_ps(y + 16, live, _mm512_mul_ps(odd, _mm512_load_ps(scale + 16)));
        }
    }
    __mmask16 live = (__mmask16)(left < 16 ? (1u << left) - 1 : 0xFFFF);
    _mm512_mask_storeu_ps(y, live, _mm512_mul_ps(a, _mm512_load_ps(scale)));
}
#endif
