#include "kernels/ref/lanes.h"
#include "kernels/ref/math.h"
#include "kernels/ref/vector.h"

static float sumsq(const float *x, int64_t n)
{
    float lane[16] = {0};
    for (int64_t k = 0; k < n; k++)
        lane[k % 16] = fmaf(x[k], x[k], lane[k % 16]);
    return fg_tree(lane);
}

static float rms_scale(const float *x, int64_t n, float eps)
{
    return 1.0f / sqrtf(sumsq(x, n) / (float)n + eps);
}

void fg_rms_norm_ref(float *y, const float *x, const float *w, int64_t n, float eps)
{
    float s = rms_scale(x, n, eps);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * s * w[i];
}

void fg_rms_norm_gated_ref(float *y, const float *x, const float *w, const float *z, int64_t n,
                           float eps)
{
    float s = rms_scale(x, n, eps);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * s * w[i] * fg_silu_f32(z[i]);
}

void fg_l2_norm_ref(float *y, const float *x, int64_t n, float eps, float scale)
{
    float s = 1.0f / sqrtf(sumsq(x, n) + eps);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * s * scale;
}
