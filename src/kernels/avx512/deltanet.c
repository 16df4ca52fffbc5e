#include "kernels/avx512/math.h"
#include "kernels/avx512/vector.h"
#include <stdbool.h>

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

// Lanes of vector c of n_vec, of which the last is partial.
static inline __mmask16 lanes(int c, int n_vec, __mmask16 last)
{
    return c == n_vec - 1 ? last : (__mmask16)0xffff;
}

// All rows through the n_vec * 16 columns of S from j on, of which the last vector has the lanes
// `last`. Columns do not meet, so a block of them stays in cache (and m, p, d in registers) over
// all rows; updating S by row t and reading it for row t + 1 are one pass.
static inline __attribute__((always_inline)) void columns(const struct head *h, int64_t j,
                                                          const int n_vec, __mmask16 last)
{
    float *const S = h->S + j;
    __m512 m[4], p[4], d[4];

    for (int c = 0; c < n_vec; c++)
        m[c] = p[c] = _mm512_setzero_ps();
    for (int64_t i = 0; i < h->dk && h->T > 0; i++) {
        __m512 ki = _mm512_set1_ps(h->k[i]), qi = _mm512_set1_ps(h->q[i]);
        for (int c = 0; c < n_vec; c++) {
            __m512 s = _mm512_maskz_loadu_ps(lanes(c, n_vec, last), S + i * h->dv + c * 16);
            m[c] = _mm512_fmadd_ps(s, ki, m[c]);
            p[c] = _mm512_fmadd_ps(s, qi, p[c]);
        }
    }
    for (int64_t t = 0; t < h->T; t++) {
        const float *q = h->q + t * h->ldq, *k = h->k + t * h->ldk;
        const float *v = h->v + t * h->ldv + j;
        float *o = h->o + t * h->ldo + j;
        __m512 alpha = _mm512_set1_ps(h->alpha[t * h->ldab]);
        __m512 beta = _mm512_set1_ps(h->beta[t * h->ldab]);
        __m512 kq = _mm512_set1_ps(fg_dot_avx512(k, q, h->dk));
        for (int c = 0; c < n_vec; c++) {
            __m512 vc = _mm512_maskz_loadu_ps(lanes(c, n_vec, last), v + c * 16);
            d[c] = _mm512_mul_ps(beta, _mm512_fnmadd_ps(alpha, m[c], vc));
            __m512 oc = _mm512_fmadd_ps(kq, d[c], _mm512_mul_ps(alpha, p[c]));
            _mm512_mask_storeu_ps(o + c * 16, lanes(c, n_vec, last), oc);
            m[c] = p[c] = _mm512_setzero_ps();
        }
        bool more = t + 1 < h->T;
        const float *k_next = more ? k + h->ldk : k, *q_next = more ? q + h->ldq : q;
        for (int64_t i = 0; i < h->dk; i++) {
            __m512 ki = _mm512_set1_ps(k[i]);
            __m512 ki_next = _mm512_set1_ps(k_next[i]), qi_next = _mm512_set1_ps(q_next[i]);
            for (int c = 0; c < n_vec; c++) {
                float *Sij = S + i * h->dv + c * 16;
                __m512 s = _mm512_maskz_loadu_ps(lanes(c, n_vec, last), Sij);
                s = _mm512_fmadd_ps(ki, d[c], _mm512_mul_ps(alpha, s));
                _mm512_mask_storeu_ps(Sij, lanes(c, n_vec, last), s);
                m[c] = _mm512_fmadd_ps(s, ki_next, m[c]);
                p[c] = _mm512_fmadd_ps(s, qi_next, p[c]);
            }
        }
    }
}

void fg_deltanet_avx512(float *S, int64_t dk, int64_t dv, float *o, int64_t ldo, const float *q,
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
    for (; j + 64 <= dv; j += 64)
        columns(&h, j, 4, 0xffff);
    for (; j < dv; j += 16)
        columns(&h, j, 1, fg_lanes_avx512(dv - j));
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
