#include "kernels/ref/math.h"
#include "kernels/ref/vector.h"

void fg_add_ref(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

void fg_silu_mul_ref(float *y, const float *gate, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = fg_silu_f32(gate[i]) * up[i];
}

void fg_sigmoid_mul_ref(float *y, const float *x, const float *gate, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * fg_sigmoid_f32(gate[i]);
}

void fg_rope_ref(float *x, const float *c, const float *s, int64_t rot)
{
    int64_t h = rot / 2;
    for (int64_t i = 0; i < h; i++) {
        float a = x[i], b = x[i + h];
        x[i] = fmaf(-b, s[i], a * c[i]);
        x[i + h] = fmaf(a, s[i], b * c[i]);
    }
}

int64_t fg_argmax_ref(const float *x, int64_t n)
{
    int64_t best = 0;
    float best_value = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        if (x[i] > best_value) { // never true for NaN
            best_value = x[i];
            best = i;
        }
    }
    return best;
}
