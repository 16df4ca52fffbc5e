// kernels/avx2/reduce.h: tree() of kernels.h for up to six dot products at once; the sixteen lanes
// of one are two registers, low (0-7) and high (8-15). See avx512/reduce.h for why packing keeps
// the bits.
#ifndef FG_KERNELS_AVX2_REDUCE_H
#define FG_KERNELS_AVX2_REDUCE_H
#include "kernels/avx2/convert.h"

// y[c * ldy + r] = tree of acc[(c * 2 + r) * 2] (low) and the next (high), for r < rows <= 2,
// c < cols <= 3; cols is a constant.
FG_INLINE void fg_store_sums2(float *y, int64_t ldy, int rows, const __m256 *acc, const int cols)
{
    __m256 half[2][2]; // of row r: [column 0 | column 1] and [column 2 | column 2], 4 lanes each
    FG_UNROLL
    for (int r = 0; r < 2; r++) {
        __m256 c0 = _mm256_add_ps(acc[2 * r], acc[2 * r + 1]);
        __m256 c1 = cols > 1 ? _mm256_add_ps(acc[4 + 2 * r], acc[5 + 2 * r]) : c0;
        __m256 c2 = cols > 2 ? _mm256_add_ps(acc[8 + 2 * r], acc[9 + 2 * r]) : c0;
        half[r][0] = _mm256_add_ps(_mm256_permute2f128_ps(c0, c1, 0x20),
                                   _mm256_permute2f128_ps(c0, c1, 0x31));
        half[r][1] = _mm256_add_ps(_mm256_permute2f128_ps(c2, c2, 0x20),
                                   _mm256_permute2f128_ps(c2, c2, 0x31));
    }
    __m256 pair[2]; // in each half: [row 0, row 1], 2 lanes each
    FG_UNROLL
    for (int i = 0; i < 2; i++)
        pair[i] = _mm256_add_ps(_mm256_shuffle_ps(half[0][i], half[1][i], _MM_SHUFFLE(1, 0, 1, 0)),
                                _mm256_shuffle_ps(half[0][i], half[1][i], _MM_SHUFFLE(3, 2, 3, 2)));
    __m256 sums = _mm256_hadd_ps(pair[0], pair[1]); // [c0r0 c0r1 c2r0 c2r1 | c1r0 c1r1 ...]

    float out[8];
    _mm256_storeu_ps(out, sums);
    for (int r = 0; r < rows; r++) {
        y[r] = out[r];
        if (cols > 1) y[ldy + r] = out[4 + r];
        if (cols > 2) y[2 * ldy + r] = out[2 + r];
    }
}
#endif
