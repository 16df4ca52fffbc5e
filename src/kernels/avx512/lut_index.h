// kernels/avx512/lut_index.h: from the bytes of a tile unit to index registers, for AVX-512 BW.
// An index register holds 16 lanes x 4 columns, lane p in bytes 4p..4p+3; register j of a unit has
// columns 4j..4j+3. Only the bits of the index count: a look-up must ignore those above (4 for
// FG_P4 and FG_P4X2, 6 for FG_P6 and FG_P6X1), which belong to other columns.
#ifndef FG_KERNELS_AVX512_LUT_INDEX_H
#define FG_KERNELS_AVX512_LUT_INDEX_H
#include "kernels/inline.h"
#include "kernels/lut.h"
#include <immintrin.h>

#define LUT_REGS_MAX 4

FG_INLINE int regs_per_unit(const enum fg_layout l)
{
    return (int)fg_layout_unit_cols(l) / 4;
}

FG_INLINE void unit_indices(const enum fg_layout l, __m512i *index, const uint8_t *unit)
{
    index[0] = _mm512_loadu_si512(unit);
    if (l == FG_P4 || l == FG_P4X2) index[1] = _mm512_srli_epi16(index[0], 4);
    if (fg_layout_is_six_bits(l)) {
        index[1] = _mm512_loadu_si512(unit + 64);
        index[2] = _mm512_loadu_si512(unit + 128);
        // The high two bits of each byte become bits 0-1, 2-3, 4-5; 0xD8 picks its second operand
        // where the third has ones, else the first.
        const __m512i low2 = _mm512_set1_epi8(0x03), low4 = _mm512_set1_epi8(0x0F);
        __m512i a = _mm512_srli_epi16(index[0], 6);
        __m512i b = _mm512_srli_epi16(index[1], 4);
        __m512i c = _mm512_srli_epi16(index[2], 2);
        b = _mm512_ternarylogic_epi32(b, a, low2, 0xD8);
        index[3] = _mm512_ternarylogic_epi32(c, b, low4, 0xD8);
    }
}
#endif
