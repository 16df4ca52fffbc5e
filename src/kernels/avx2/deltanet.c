#include "kernels/avx2/math.h"
#include "kernels/avx2/vector.h"
#include <stdbool.h>

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

// A head's S, q, k, v and gates; see fg_kernels.deltanet.
struct head {
    float *S;
    int64_t dk, dv;
    float *o;
    int64_t ldo;
    const float *q;
    int64_t ldq;
    const float *k;
    int64_t ldk;
    const float *v;
    int64_t ldv;
    const float *alpha, *beta;
    int64_t ldab, T;
};

// All rows through the n <= n_vec * 8 columns of S from j on; n_vec * 8 - 7 <= n. Columns do not
// meet, so a block of them stays in cache (and m, p, d in registers) over all rows; updating S by
// row t and reading it for row t + 1 are one pass.
static inline __attribute__((always_inline)) void columns(const struct head *h, int64_t j,
                                                          const int n_vec, int64_t n)
{
    float *const S = h->S + j;
    __m256 m[2], p[2], d[2];

    for (int c = 0; c < n_vec; c++)
        m[c] = p[c] = _mm256_setzero_ps();
    for (int64_t i = 0; i < h->dk && h->T > 0; i++) {
        __m256 ki = _mm256_set1_ps(h->k[i]), qi = _mm256_set1_ps(h->q[i]);
        for (int c = 0; c < n_vec; c++) {
            __m256 s = fg_load_avx2(S + i * h->dv + c * 8, n - c * 8);
            m[c] = _mm256_fmadd_ps(s, ki, m[c]);
            p[c] = _mm256_fmadd_ps(s, qi, p[c]);
        }
    }
    for (int64_t t = 0; t < h->T; t++) {
        const float *q = h->q + t * h->ldq, *k = h->k + t * h->ldk;
        const float *v = h->v + t * h->ldv + j;
        float *o = h->o + t * h->ldo + j;
        __m256 alpha = _mm256_set1_ps(h->alpha[t * h->ldab]);
        __m256 beta = _mm256_set1_ps(h->beta[t * h->ldab]);
        __m256 kq = _mm256_set1_ps(fg_dot_avx2(k, q, h->dk));
        for (int c = 0; c < n_vec; c++) {
            __m256 vc = fg_load_avx2(v + c * 8, n - c * 8);
            d[c] = _mm256_mul_ps(beta, _mm256_fnmadd_ps(alpha, m[c], vc));
            __m256 oc = _mm256_fmadd_ps(kq, d[c], _mm256_mul_ps(alpha, p[c]));
            fg_store_avx2(o + c * 8, n - c * 8, oc);
            m[c] = p[c] = _mm256_setzero_ps();
        }
        bool more = t + 1 < h->T;
        const float *k_next = more ? k + h->ldk : k, *q_next = more ? q + h->ldq : q;
        for (int64_t i = 0; i < h->dk; i++) {
            __m256 ki = _mm256_set1_ps(k[i]);
            __m256 ki_next = _mm256_set1_ps(k_next[i]), qi_next = _mm256_set1_ps(q_next[i]);
            for (int c = 0; c < n_vec; c++) {
                float *Sij = S + i * h->dv + c * 8;
                __m256 s = fg_load_avx2(Sij, n - c * 8);
                s = _mm256_fmadd_ps(ki, d[c], _mm256_mul_ps(alpha, s));
                fg_store_avx2(Sij, n - c * 8, s);
                m[c] = _mm256_fmadd_ps(s, ki_next, m[c]);
                p[c] = _mm256_fmadd_ps(s, qi_next, p[c]);
            }
        }
    }
}

void fg_deltanet_avx2(float *S, int64_t dk, int64_t dv, float *o, int64_t ldo, const float *q,
                      int64_t ldq, const float *k, int64_t ldk, const float *v, int64_t ldv,
                      const float *alpha, const float *beta, int64_t ldab, int64_t T,
                      float *scratch)
{
    (void)scratch; // everything fits in registers
    const struct head h = {.S = S,
                           .dk = dk,
                           .dv = dv,
                           .o = o,
                           .ldo = ldo,
                           .q = q,
                           .ldq = ldq,
                           .k = k,
                           .ldk = ldk,
                           .v = v,
                           .ldv = ldv,
                           .alpha = alpha,
                           .beta = beta,
                           .ldab = ldab,
                           .T = T};
    int64_t j = 0;
    for (; j + 16 <= dv; j += 16)
        columns(&h, j, 2, 16);
    for (; j < dv; j += 8)
        columns(&h, j, 1, dv - j);
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
