// kernels/avx2/fit.c: see kernels.h, nearest2. Two vectors of samples at a time, against the
// latency of the comparison.
#include "kernels/avx2/math.h"
#include "kernels/levels.h"
#include <math.h>

#define BLOCK 16

static inline void closer(__m256 *best, __m256i *best_idx, __m256 d, __m256i e)
{
    const __m256 less = _mm256_cmp_ps(d, *best, _CMP_LT_OQ);
    *best = _mm256_blendv_ps(*best, d, less);
    *best_idx = _mm256_castps_si256(
        _mm256_blendv_ps(_mm256_castsi256_ps(*best_idx), _mm256_castsi256_ps(e), less));
}

static inline __m256 distance(__m256 x0, __m256 x1, __m256 w0, __m256 w1, __m256 c0, __m256 c1)
{
    const __m256 d0 = _mm256_sub_ps(x0, c0), d1 = _mm256_sub_ps(x1, c1);
    return _mm256_add_ps(_mm256_mul_ps(_mm256_mul_ps(w0, d0), d0),
                         _mm256_mul_ps(_mm256_mul_ps(w1, d1), d1));
}

static void fg_nearest2_avx2(uint8_t *idx, float *dist, const float *x0, const float *x1,
                             const float *w0, const float *w1, const float *c, int K, int64_t n)
{
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t m = n - i, rest = m > 8 ? m - 8 : 0; // of the second vector
        const int64_t i8 = rest ? i + 8 : i;               // never past the arrays
        __m256 a0 = fg_load_avx2(x0 + i, m), a1 = fg_load_avx2(x1 + i, m);
        __m256 b0 = fg_load_avx2(x0 + i8, rest), b1 = fg_load_avx2(x1 + i8, rest);
        __m256 u0 = fg_load_avx2(w0 + i, m), u1 = fg_load_avx2(w1 + i, m);
        __m256 v0 = fg_load_avx2(w0 + i8, rest), v1 = fg_load_avx2(w1 + i8, rest);
        __m256 best_a = _mm256_set1_ps(INFINITY), best_b = best_a;
        __m256i idx_a = _mm256_setzero_si256(), idx_b = idx_a;
        for (int e = 0; e < K; e++) {
            const __m256 c0 = _mm256_broadcast_ss(c + e), c1 = _mm256_broadcast_ss(c + K + e);
            const __m256i here = _mm256_set1_epi32(e);
            closer(&best_a, &idx_a, distance(a0, a1, u0, u1, c0, c1), here);
            closer(&best_b, &idx_b, distance(b0, b1, v0, v1, c0, c1), here);
        }
        int32_t found[BLOCK];
        _mm256_storeu_si256((__m256i *)found, idx_a);
        _mm256_storeu_si256((__m256i *)(found + 8), idx_b);
        fg_store_avx2(dist + i, m, best_a);
        if (rest) fg_store_avx2(dist + i8, rest, best_b);
        for (int j = 0; j < BLOCK && j < m; j++)
            idx[i + j] = (uint8_t)found[j];
    }
}

void fg_fill_fit_avx2(struct fg_kernels *k)
{
    k->nearest2 = fg_nearest2_avx2;
}
