// tests/quant/synthetic.h: weights and inputs of the specification's synthetic reference (specs:
// quantization 9.4): Gaussian weights whose rows have log-normal scales, and inputs whose
// covariance has the eigenvalues 1 / (1 + j) in a random orthogonal basis. From named streams.
#ifndef FG_TESTS_QUANT_SYNTHETIC_H
#define FG_TESTS_QUANT_SYNTHETIC_H
#include "quant/hessian.h"
#include "quant/random.h"
#include "quant/matrices.h"
#include <cblas.h>

// malloc'd [n] of normal numbers from the stream `tag` of seed 1.
static inline float *synthetic_gauss(int64_t n, const char *tag)
{
    struct fg_random r = fg_random_named(1, tag);
    float *x = malloc((size_t)n * sizeof *x);
    if (!x) abort();
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)next_gauss(&r);
    return x;
}

// malloc'd [rows][cols], 0.02 times normal numbers times the row's exp(0.3 z).
static inline float *synthetic_weights(int64_t rows, int64_t cols, const char *tag)
{
    float *w = synthetic_gauss(rows * (cols + 1), tag), *z = w + rows * cols;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < cols; j++)
            w[r * cols + j] *= (float)(0.02 * exp(0.3 * (double)z[r]));
    return w;
}

// Replaces the rows of Q [n][n] by an orthonormal basis of what they span (Gram and Schmidt, each
// row twice).
static inline void synthetic_orthonormal(double *Q, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double *q = Q + i * n;
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t k = 0; k < i; k++)
                cblas_daxpy((int)n, -cblas_ddot((int)n, q, 1, Q + k * n, 1), Q + k * n, 1, q, 1);
            cblas_dscal((int)n, 1 / cblas_dnrm2((int)n, q, 1), q, 1);
        }
    }
}

// malloc'd [samples][n]: inputs. Other tags are other samples of the same distribution.
static inline float *synthetic_inputs(int64_t samples, int64_t n, const char *tag)
{
    float *g = synthetic_gauss(n * n, "synthetic/basis"), *z = synthetic_gauss(samples * n, tag);
    double *Q = malloc((size_t)(n * n) * sizeof *Q);
    float *x = malloc((size_t)(samples * n) * sizeof *x);
    if (!Q || !x) abort();
    openblas_set_num_threads(1);
    for (int64_t i = 0; i < n * n; i++)
        Q[i] = (double)g[i];
    synthetic_orthonormal(Q, n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            g[i * n + j] = (float)(Q[i * n + j] / sqrt((double)(1 + i)));
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)samples, (int)n, (int)n, 1, z,
                (int)n, g, (int)n, 0, x, (int)n);
    free(g);
    free(z);
    free(Q);
    return x;
}

// The finished Hessian of inputs.
static inline struct fg_hessian synthetic_hessian(const float *x, int64_t samples, int64_t n,
                                                  struct fg_pool *pool)
{
    struct fg_hessian h;
    if (fg_hessian_new(&h, n, NULL)) abort();
    for (int64_t r = 0; r < samples; r += FG_HESSIAN_SLAB) {
        const int64_t rows = samples - r < FG_HESSIAN_SLAB ? samples - r : FG_HESSIAN_SLAB;
        if (fg_hessian_add(&h, x + r * n, rows, pool, NULL)) abort();
    }
    fg_hessian_finish(&h, pool);
    return h;
}
#endif
