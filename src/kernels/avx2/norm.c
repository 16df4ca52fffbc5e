#include "kernels/avx2/math.h"
#include "kernels/avx2/vector.h"

static float rms_scale(const float *x, int64_t n, float eps)
{
    return 1.0f / sqrtf(fg_dot_avx2(x, x, n) / (float)n + eps);
}

void fg_rms_norm_avx2(float *y, const float *x, const float *w, int64_t n, float eps)
{
    __m256 s = _mm256_set1_ps(rms_scale(x, n, eps));
    for (int64_t i = 0; i < n; i += 8) {
        __m256 v = _mm256_mul_ps(fg_load_avx2(x + i, n - i), s);
        fg_store_avx2(y + i, n - i, _mm256_mul_ps(v, fg_load_avx2(w + i, n - i)));
    }
}

void fg_rms_norm_gated_avx2(float *y, const float *x, const float *w, const float *z, int64_t n,
                            float eps)
{
    __m256 s = _mm256_set1_ps(rms_scale(x, n, eps));
    for (int64_t i = 0; i < n; i += 8) {
        __m256 v = _mm256_mul_ps(fg_load_avx2(x + i, n - i), s);
        v = _mm256_mul_ps(v, fg_load_avx2(w + i, n - i));
        v = _mm256_mul_ps(v, fg_silu_avx2(fg_load_avx2(z + i, n - i)));
        fg_store_avx2(y + i, n - i, v);
    }
}

void fg_l2_norm_avx2(float *y, const float *x, int64_t n, float eps, float scale)
{
    __m256 s = _mm256_set1_ps(1.0f / sqrtf(fg_dot_avx2(x, x, n) + eps));
    for (int64_t i = 0; i < n; i += 8) {
        __m256 v = _mm256_mul_ps(fg_load_avx2(x + i, n - i), s);
        fg_store_avx2(y + i, n - i, _mm256_mul_ps(v, _mm256_set1_ps(scale)));
    }
}
