// kernels/avx512/reduce.h: tree() of kernels.h for sixteen registers of 16 lanes at once. Each step
// adds the upper half of every register's lanes to the lower half, as tree() does, and packs two
// registers into one, so fifteen steps leave one register of sixteen sums. FP32 addition commutes,
// so where a step adds upper + lower instead of lower + upper the bits are the same.
#ifndef FG_KERNELS_AVX512_REDUCE_H
#define FG_KERNELS_AVX512_REDUCE_H
#include "kernels/avx512/convert.h"

// Lanes j and j+8: [a 8 lanes | b 8 lanes].
FG_INLINE __m512 fg_fold8(__m512 a, __m512 b)
{
    __m512 straight = _mm512_mask_blend_ps(0xFF00, a, b);
    __m512 crossed = _mm512_shuffle_f32x4(a, b, _MM_SHUFFLE(1, 0, 3, 2));
    return _mm512_add_ps(straight, crossed);
}

// Lanes j and j+4 of two registers that hold two each: [a0 | a1 | b0 | b1], 4 lanes each.
FG_INLINE __m512 fg_fold4(__m512 a, __m512 b)
{
    __m512 lower = _mm512_shuffle_f32x4(a, b, _MM_SHUFFLE(2, 0, 2, 0));
    __m512 upper = _mm512_shuffle_f32x4(a, b, _MM_SHUFFLE(3, 1, 3, 1));
    return _mm512_add_ps(lower, upper);
}

// Lanes j and j+2, in every quarter: [a 2 lanes, b 2 lanes].
FG_INLINE __m512 fg_fold2(__m512 a, __m512 b)
{
    __m512 straight = _mm512_mask_blend_ps(0xCCCC, a, b);
    __m512 crossed = _mm512_shuffle_ps(a, b, _MM_SHUFFLE(1, 0, 3, 2));
    return _mm512_add_ps(straight, crossed);
}

// Lanes 0 and 1, in every quarter: [a0, a1, b0, b1].
FG_INLINE __m512 fg_fold1(__m512 a, __m512 b)
{
    __m512 lower = _mm512_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0));
    __m512 upper = _mm512_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1));
    return _mm512_add_ps(lower, upper);
}

// y[c * ldy + r] = tree(acc[c * 4 + r]) for r < rows <= 4, c < cols <= 4; cols is a constant.
FG_INLINE void fg_store_sums4(float *y, int64_t ldy, int rows, const __m512 *acc, const int cols)
{
    __m512 quarter[4]; // of row r: lanes 0-3 of columns 0 .. 3
    FG_UNROLL
    for (int r = 0; r < 4; r++) {
        __m512 c0 = acc[r];
        __m512 c1 = cols > 1 ? acc[4 + r] : c0;
        __m512 c2 = cols > 2 ? acc[8 + r] : c0;
        __m512 c3 = cols > 3 ? acc[12 + r] : c2;
        __m512 low = fg_fold8(c0, c1);
        quarter[r] = fg_fold4(low, cols > 2 ? fg_fold8(c2, c3) : low);
    }
    __m512 sums = fg_fold1(fg_fold2(quarter[0], quarter[1]), fg_fold2(quarter[2], quarter[3]));
    __mmask8 mask = (__mmask8)((1u << rows) - 1);
    _mm_mask_storeu_ps(y, mask, _mm512_castps512_ps128(sums));
    if (cols > 1) _mm_mask_storeu_ps(y + ldy, mask, _mm512_extractf32x4_ps(sums, 1));
    if (cols > 2) _mm_mask_storeu_ps(y + 2 * ldy, mask, _mm512_extractf32x4_ps(sums, 2));
    if (cols > 3) _mm_mask_storeu_ps(y + 3 * ldy, mask, _mm512_extractf32x4_ps(sums, 3));
}
#endif
