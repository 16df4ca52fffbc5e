// kernels/avx512/fit.c: see kernels.h, nearest2. Two vectors of samples at a time, against the
// latency of the comparison.
#include "kernels/levels.h"
#include <immintrin.h>
#include <math.h>

#define BLOCK 32

static inline void closer(__m512 *best, __m512i *best_idx, __m512 d, __m512i e)
{
    const __mmask16 less = _mm512_cmp_ps_mask(d, *best, _CMP_LT_OQ);
    *best = _mm512_mask_mov_ps(*best, less, d);
    *best_idx = _mm512_mask_mov_epi32(*best_idx, less, e);
}

static inline __m512 distance(__m512 x0, __m512 x1, __m512 w0, __m512 w1, __m512 c0, __m512 c1)
{
    const __m512 d0 = _mm512_sub_ps(x0, c0), d1 = _mm512_sub_ps(x1, c1);
    return _mm512_add_ps(_mm512_mul_ps(_mm512_mul_ps(w0, d0), d0),
                         _mm512_mul_ps(_mm512_mul_ps(w1, d1), d1));
}

static void fg_nearest2_avx512(uint8_t *idx, float *dist, const float *x0, const float *x1,
                               const float *w0, const float *w1, const float *c, int K, int64_t n)
{
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t m = n - i;
        const uint32_t mask = m >= BLOCK ? UINT32_MAX : (1u << m) - 1;
        const __mmask16 ma = (__mmask16)mask, mb = (__mmask16)(mask >> 16);
        const int64_t j = mb ? i + 16 : i; // never past the arrays
        __m512 a0 = _mm512_maskz_loadu_ps(ma, x0 + i), a1 = _mm512_maskz_loadu_ps(ma, x1 + i);
        __m512 b0 = _mm512_maskz_loadu_ps(mb, x0 + j), b1 = _mm512_maskz_loadu_ps(mb, x1 + j);
        __m512 u0 = _mm512_maskz_loadu_ps(ma, w0 + i), u1 = _mm512_maskz_loadu_ps(ma, w1 + i);
        __m512 v0 = _mm512_maskz_loadu_ps(mb, w0 + j), v1 = _mm512_maskz_loadu_ps(mb, w1 + j);
        __m512 best_a = _mm512_set1_ps(INFINITY), best_b = best_a;
        __m512i idx_a = _mm512_setzero_si512(), idx_b = idx_a;
        for (int e = 0; e < K; e++) {
            const __m512 c0 = _mm512_set1_ps(c[e]), c1 = _mm512_set1_ps(c[K + e]);
            const __m512i here = _mm512_set1_epi32(e);
            closer(&best_a, &idx_a, distance(a0, a1, u0, u1, c0, c1), here);
            closer(&best_b, &idx_b, distance(b0, b1, v0, v1, c0, c1), here);
        }
        _mm512_mask_storeu_ps(dist + i, ma, best_a);
        _mm512_mask_storeu_ps(dist + j, mb, best_b);
        _mm512_mask_cvtepi32_storeu_epi8(idx + i, ma, idx_a);
        _mm512_mask_cvtepi32_storeu_epi8(idx + j, mb, idx_b);
    }
}

void fg_fill_fit_avx512(struct fg_kernels *k)
{
    k->nearest2 = fg_nearest2_avx512;
}
