// kernels/avx2/deltanet.c: what stands before the recurrence of DeltaNet (gdn.c): convolution and
// gates.
#include "kernels/avx2/math.h"
#include "kernels/avx2/vector.h"

#define CONV_BLOCK 32 // channels at a time
#define CONV_TAPS_MAX 8

void fg_conv_silu_avx2(float *y, int64_t ldy, const float *u, int64_t ldu, const float *hist,
                       const float *w, int64_t C, int64_t c0, int64_t c1, int K, int64_t T)
{
    for (int64_t c = c0; c < c1; c += CONV_BLOCK) {
        int64_t n = c1 - c < CONV_BLOCK ? c1 - c : CONV_BLOCK;
        _Alignas(32) float taps[CONV_TAPS_MAX][CONV_BLOCK] = {{0}};
        for (int64_t i = 0; i < n; i++)
            for (int j = 0; j < K; j++)
                taps[j][i] = w[(c + i) * K + j];

        for (int64_t t = 0; t < T; t++) {
            for (int64_t i = 0; i < n; i += 8) {
                __m256 acc = _mm256_setzero_ps();
                for (int j = 0; j < K; j++) {
                    int64_t row = t - (K - 1) + j; // negative: in hist, whose row 0 is -(K - 1)
                    const float *x = row < 0 ? hist + (row + K - 1) * C : u + row * ldu;
                    acc = _mm256_fmadd_ps(_mm256_load_ps(taps[j] + i),
                                          fg_load_avx2(x + c + i, n - i), acc);
                }
                fg_store_avx2(y + t * ldy + c + i, n - i, fg_silu_avx2(acc));
            }
        }
    }
}

void fg_deltanet_gates_avx2(float *alpha, float *beta, const float *a, const float *b,
                            const float *neg_exp_A, const float *dt_bias, int64_t n)
{
    for (int64_t i = 0; i < n; i += 8) {
        __m256 x = _mm256_add_ps(fg_load_avx2(a + i, n - i), fg_load_avx2(dt_bias + i, n - i));
        __m256 g = _mm256_mul_ps(fg_load_avx2(neg_exp_A + i, n - i), fg_softplus_avx2(x));
        fg_store_avx2(alpha + i, n - i, fg_exp_avx2(g));
        fg_store_avx2(beta + i, n - i, fg_sigmoid_avx2(fg_load_avx2(b + i, n - i)));
    }
}
