// kernels/avx512/deltanet.c: what stands before the recurrence of DeltaNet (gdn.c): convolution and
// gates.
#include "kernels/avx512/math.h"
#include "kernels/avx512/vector.h"

#define CONV_BLOCK 64 // channels at a time
#define CONV_TAPS_MAX 8

void fg_conv_silu_avx512(float *y, int64_t ldy, const float *u, int64_t ldu, const float *hist,
                         const float *w, int64_t C, int64_t c0, int64_t c1, int K, int64_t T)
{
    for (int64_t c = c0; c < c1; c += CONV_BLOCK) {
        int64_t n = c1 - c < CONV_BLOCK ? c1 - c : CONV_BLOCK;
        _Alignas(64) float taps[CONV_TAPS_MAX][CONV_BLOCK] = {{0}};
        for (int64_t i = 0; i < n; i++)
            for (int j = 0; j < K; j++)
                taps[j][i] = w[(c + i) * K + j];

        for (int64_t t = 0; t < T; t++) {
            for (int64_t i = 0; i < n; i += 16) {
                __mmask16 in = fg_lanes_avx512(n - i);
                __m512 acc = _mm512_setzero_ps();
                for (int j = 0; j < K; j++) {
                    int64_t row = t - (K - 1) + j; // negative: in hist, whose row 0 is -(K - 1)
                    const float *x = row < 0 ? hist + (row + K - 1) * C : u + row * ldu;
                    acc = _mm512_fmadd_ps(_mm512_load_ps(taps[j] + i),
                                          _mm512_maskz_loadu_ps(in, x + c + i), acc);
                }
                _mm512_mask_storeu_ps(y + t * ldy + c + i, in, fg_silu_avx512(acc));
            }
        }
    }
}

void fg_deltanet_gates_avx512(float *alpha, float *beta, const float *a, const float *b,
                              const float *neg_exp_A, const float *dt_bias, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 in = fg_lanes_avx512(n - i);
        __m512 x =
            _mm512_add_ps(_mm512_maskz_loadu_ps(in, a + i), _mm512_maskz_loadu_ps(in, dt_bias + i));
        __m512 g = _mm512_mul_ps(_mm512_maskz_loadu_ps(in, neg_exp_A + i), fg_softplus_avx512(x));
        _mm512_mask_storeu_ps(alpha + i, in, fg_exp_avx512(g));
        __m512 bi = _mm512_maskz_loadu_ps(in, b + i);
        _mm512_mask_storeu_ps(beta + i, in, fg_sigmoid_avx512(bi));
    }
}
