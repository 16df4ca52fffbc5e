#include "kernels/avx512/math.h"
#include "kernels/avx512/vector.h"

static float sumsq(const float *x, int64_t n)
{
    __m512 acc = _mm512_setzero_ps();
    for (int64_t k = 0; k < n; k += 16) { // lanes hold no -0, so adding +0 in the tail is exact
        __m512 v = _mm512_maskz_loadu_ps(fg_lanes_avx512(n - k), x + k);
        acc = _mm512_fmadd_ps(v, v, acc);
    }
    return fg_tree_avx512(acc);
}

static float rms_scale(const float *x, int64_t n, float eps)
{
    return 1.0f / sqrtf(sumsq(x, n) / (float)n + eps);
}

void fg_rms_norm_avx512(float *y, const float *x, const float *w, int64_t n, float eps)
{
    __m512 s = _mm512_set1_ps(rms_scale(x, n, eps));
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 in = fg_lanes_avx512(n - i);
        __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(in, x + i), s);
        _mm512_mask_storeu_ps(y + i, in, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(in, w + i)));
    }
}

void fg_rms_norm_gated_avx512(float *y, const float *x, const float *w, const float *z, int64_t n,
                              float eps)
{
    __m512 s = _mm512_set1_ps(rms_scale(x, n, eps));
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 in = fg_lanes_avx512(n - i);
        __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(in, x + i), s);
        v = _mm512_mul_ps(v, _mm512_maskz_loadu_ps(in, w + i));
        v = _mm512_mul_ps(v, fg_silu_avx512(_mm512_maskz_loadu_ps(in, z + i)));
        _mm512_mask_storeu_ps(y + i, in, v);
    }
}

void fg_l2_norm_avx512(float *y, const float *x, int64_t n, float eps, float scale)
{
    __m512 s = _mm512_set1_ps(1.0f / sqrtf(sumsq(x, n) + eps));
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 in = fg_lanes_avx512(n - i);
        __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(in, x + i), s);
        _mm512_mask_storeu_ps(y + i, in, _mm512_mul_ps(v, _mm512_set1_ps(scale)));
    }
}
