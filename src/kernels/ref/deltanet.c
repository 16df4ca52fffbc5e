// kernels/ref/deltanet.c: what stands before the recurrence of DeltaNet (gdn.c): convolution and
// gates.
#include "kernels/ref/lanes.h"
#include "kernels/ref/math.h"
#include "kernels/ref/vector.h"

void fg_conv_silu_ref(float *y, int64_t ldy, const float *u, int64_t ldu, const float *hist,
                      const float *w, int64_t C, int64_t c0, int64_t c1, int K, int64_t T)
{
    for (int64_t t = 0; t < T; t++) {
        for (int64_t c = c0; c < c1; c++) {
            float acc = 0.0f;
            for (int j = 0; j < K; j++) {
                int64_t row = t - (K - 1) + j; // negative: in hist, whose row 0 is -(K - 1)
                float x = row < 0 ? hist[(row + K - 1) * C + c] : u[row * ldu + c];
                acc = fmaf(w[c * K + j], x, acc);
            }
            y[t * ldy + c] = fg_silu_f32(acc);
        }
    }
}

void fg_deltanet_gates_ref(float *alpha, float *beta, const float *a, const float *b,
                           const float *neg_exp_A, const float *dt_bias, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        alpha[i] = fg_exp_f32(neg_exp_A[i] * fg_softplus_f32(a[i] + dt_bias[i]));
        beta[i] = fg_sigmoid_f32(b[i]);
    }
}
