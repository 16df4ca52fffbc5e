// quant/lowrank.c: factors of an error matrix. The large products are cut into tiles of a fixed
// size, each computed by one thread; BLAS itself never uses more than one.
#include "quant/lowrank.h"
#include "format/qmat.h"
#include "quant/dequant.h"
#include "quant/jobs.h"
#include "quant/random.h"
#include <cblas.h>
#include <float.h>
#include <lapacke.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TILE 512      // output rows of a product
#define DEPTH 4096    // columns of a product that BLAS sums in its own order
#define OVERSAMPLE 16 // columns of the random projection past the rank
#define POWERS 4      // rounds that sharpen it
#define DAMP 0.01     // of mean(diag H), for FG_LOWRANK_FULL
#define RANK_MAX_AUTO 64

int64_t fg_lowrank_auto(int64_t rows, int64_t cols)
{
    uint64_t bytes;
    if (rows <= 0 || cols <= 0 ||
        !fg_qformat_bytes(FG_Q_LUT4, (uint64_t)rows, (uint64_t)cols, &bytes))
        return 0;
    int64_t rank = RANK_MAX_AUTO;
    while (rank > 0 && 2.0 * (double)rank * (double)(rows + cols) > 0.16 * (double)bytes)
        rank -= 8;
    return rank;
}

// The work on one matrix.
struct svd {
    const struct fg_lowrank_options *o;
    int64_t rows, cols, k; // k: width of the projection
    const float *E;        // [rows][cols], its columns scaled or multiplied by R where the fit asks
    const float *left;     // the narrow operand of the product that runs
    float *out;
    bool transposed;   // E^T left [cols][k] instead of E left [rows][k]
    void *lr_a, *lr_b; // receive the factors
    float *lr_scale;   // of INT8 ones; NULL: F16
    double *sums;      // per tile, of square errors
    const float *A, *B;
    int64_t rank;
    float *scratch; // TILE * cols per thread
};

// out rows [512 * item, ...) of E left or E^T left, summed over depths of 4096.
static void product_item(void *ctx, int64_t item, int worker)
{
    const struct svd *s = ctx;
    const int64_t n_out = s->transposed ? s->cols : s->rows;
    const int64_t depth = s->transposed ? s->rows : s->cols;
    const int64_t r0 = item * TILE, n = n_out - r0 < TILE ? n_out - r0 : TILE;
    (void)worker;
    for (int64_t d0 = 0; d0 < depth; d0 += DEPTH) {
        const int64_t d = depth - d0 < DEPTH ? depth - d0 : DEPTH;
        const float *e = s->transposed ? s->E + d0 * s->cols + r0 : s->E + r0 * s->cols + d0;
        cblas_sgemm(CblasRowMajor, s->transposed ? CblasTrans : CblasNoTrans, CblasNoTrans, (int)n,
                    (int)s->k, (int)d, 1.0f, e, (int)s->cols, s->left + d0 * s->k, (int)s->k,
                    d0 ? 1.0f : 0.0f, s->out + r0 * s->k, (int)s->k);
    }
}

static void product(struct svd *s, float *out, const float *left, bool transposed)
{
    s->out = out;
    s->left = left;
    s->transposed = transposed;
    const int64_t n_out = transposed ? s->cols : s->rows;
    fg_job_run(s->o->pool, (n_out + TILE - 1) / TILE, product_item, s);
}

static int failed(struct fg_error *err, const struct fg_lowrank_options *o, const char *step,
                  lapack_int info)
{
    if (info == LAPACK_WORK_MEMORY_ERROR || info == LAPACK_TRANSPOSE_MEMORY_ERROR)
        return fg_fail_memory(err, "low-rank factors", 0);
    return fg_fail(err, FG_EFAILED, "low-rank factors", NULL, o->name, "finite numbers",
                   "%s stopped with %d", step, (int)info);
}

// Replaces y [n][k], k <= n, by an orthonormal basis of its columns. work [n][k] and tau [k] FP64.
static int orthonormal(float *y, int64_t n, int64_t k, double *work, double *tau,
                       const struct fg_lowrank_options *o, struct fg_error *err)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++)
            work[j * n + i] = (double)y[i * k + j]; // column-major, as LAPACK works
    lapack_int info = LAPACKE_dgeqrf(LAPACK_COL_MAJOR, (int)n, (int)k, work, (int)n, tau);
    if (info) return failed(err, o, "QR", info);
    info = LAPACKE_dorgqr(LAPACK_COL_MAJOR, (int)n, (int)k, (int)k, work, (int)n, tau);
    if (info) return failed(err, o, "QR", info);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++)
            y[i * k + j] = (float)work[j * n + i];
    return 0;
}

// ---- the metric: E times S, so that the plain norm of the product is the error that counts

// *out = [n][n] lower Cholesky factor of the damped H, row-major, malloc'd.
static int factor(double **out, const struct fg_lowrank_options *o, int64_t n, struct fg_error *err)
{
    double *R = malloc((size_t)(n * n) * sizeof *R), mean = 0;
    if (!R) return fg_fail_memory(err, "factor of H", (uint64_t)(n * n) * sizeof *R);
    memcpy(R, o->H, (size_t)(n * n) * sizeof *R);
    for (int64_t j = 0; j < n; j++)
        mean += R[j * n + j] / (double)n;
    for (int64_t j = 0; j < n; j++) {
        R[j * n + j] += DAMP * mean;
        for (int64_t i = j + 1; i < n; i++)
            R[j * n + i] = 0;
    }
    // Row-major lower is column-major upper: no transposition.
    const lapack_int info = LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'U', (int)n, R, (int)n);
    if (info) {
        free(R);
        return fg_fail(err, FG_EINPUT, "low-rank factors", NULL, o->name, "a positive definite H",
                       "a factorization that stops with %d", (int)info);
    }
    *out = R;
    return 0;
}

struct metric {
    const struct fg_lowrank_options *o;
    const float *E;
    float *out;
    int64_t rows, cols;
    const double *R; // FG_LOWRANK_FULL
    double *scratch; // TILE * cols per thread
};

static void metric_item(void *ctx, int64_t item, int worker)
{
    const struct metric *m = ctx;
    const int64_t r0 = item * TILE, n = m->rows - r0 < TILE ? m->rows - r0 : TILE;
    const float *e = m->E + r0 * m->cols;
    float *out = m->out + r0 * m->cols;
    if (!m->R) { // FG_LOWRANK_DIAG
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < m->cols; j++)
                out[i * m->cols + j] = e[i * m->cols + j] * sqrtf(m->o->diag[j]);
        return;
    }
    double *wide = m->scratch + worker * TILE * m->cols;
    for (int64_t i = 0; i < n * m->cols; i++)
        wide[i] = (double)e[i];
    cblas_dtrmm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (int)n,
                (int)m->cols, 1.0, m->R, (int)m->cols, wide, (int)m->cols);
    for (int64_t i = 0; i < n * m->cols; i++)
        out[i] = (float)wide[i];
}

// *out = E S, malloc'd.
static int scaled(float **out, const float *E, int64_t rows, int64_t cols, const double *R,
                  const struct fg_lowrank_options *o, struct fg_error *err)
{
    struct metric m = {.o = o, .E = E, .rows = rows, .cols = cols, .R = R};
    const int64_t wide = R ? (int64_t)fg_job_threads(o->pool) * TILE * cols : 0;
    *out = m.out = malloc((size_t)(rows * cols) * sizeof *m.out);
    if (R) m.scratch = malloc((size_t)wide * sizeof *m.scratch);
    if (!m.out || (R && !m.scratch)) {
        free(m.out);
        free(m.scratch);
        *out = NULL;
        return fg_fail_memory(err, "low-rank factors",
                              (uint64_t)(rows * cols) * 4 + (uint64_t)wide * 8);
    }
    fg_job_run(o->pool, (rows + TILE - 1) / TILE, metric_item, &m);
    free(m.scratch);
    return 0;
}

// B S^-1 in place, B [rank][cols].
static void unscale(double *B, int64_t rank, int64_t cols, const double *R,
                    const struct fg_lowrank_options *o)
{
    if (o->fit == FG_LOWRANK_FULL) {
        cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (int)rank,
                    (int)cols, 1.0, R, (int)cols, B, (int)cols);
        return;
    }
    for (int64_t i = 0; i < rank && o->fit == FG_LOWRANK_DIAG; i++) {
        for (int64_t j = 0; j < cols; j++) {
            const double root = sqrt((double)o->diag[j]);
            B[i * cols + j] = root > 0 ? B[i * cols + j] / root : 0; // errors there cost nothing
        }
    }
}

// ---- what the factors leave

static void left_item(void *ctx, int64_t item, int worker)
{
    const struct svd *s = ctx;
    const int64_t r0 = item * TILE, n = s->rows - r0 < TILE ? s->rows - r0 : TILE;
    float *rest = s->scratch + worker * TILE * s->cols;
    const float *e = s->E + r0 * s->cols;
    memcpy(rest, e, (size_t)(n * s->cols) * sizeof *rest);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)n, (int)s->cols, (int)s->rank,
                -1.0f, s->A + r0 * s->rank, (int)s->rank, s->B, (int)s->cols, 1.0f, rest,
                (int)s->cols);
    double all = 0, left = 0;
    for (int64_t i = 0; i < n * s->cols; i++) {
        all += (double)e[i] * (double)e[i];
        left += (double)rest[i] * (double)rest[i];
    }
    s->sums[2 * item] = all;
    s->sums[2 * item + 1] = left;
}

// Share of E S that A (B S) leaves, with A and B as stored. s->E is E S.
static int measure(double *share, struct svd *s, const double *R, struct fg_error *err)
{
    const int64_t tiles = (s->rows + TILE - 1) / TILE, n_a = s->rows * s->rank,
                  n_b = s->rank * s->cols, threads = fg_job_threads(s->o->pool);
    const uint64_t floats = (uint64_t)(n_a + n_b + threads * TILE * s->cols);
    float *A = malloc((size_t)floats * sizeof *A), *B = A ? A + n_a : NULL, *scaled_b = NULL;
    s->sums = calloc((size_t)tiles, 2 * sizeof *s->sums);
    int rc = 0;
    if (!A || !s->sums) {
        rc = fg_fail_memory(err, "low-rank factors", floats * sizeof *A);
        goto end;
    }
    const struct fg_qmat made = {.rows = s->rows,
                                 .cols = s->cols,
                                 .rank = s->rank,
                                 .lr_dtype = s->lr_scale ? FG_LR_I8 : FG_LR_F16,
                                 .lr_a = s->lr_a,
                                 .lr_b = s->lr_b,
                                 .lr_scale = s->lr_scale};
    for (int64_t i = 0; i < n_a; i++)
        A[i] = fg_qmat_lr_a(&made, i / s->rank, i % s->rank);
    fg_qmat_lr_b(B, &made);
    if (s->o->fit != FG_LOWRANK_PLAIN && s->rank) {
        if ((rc = scaled(&scaled_b, B, s->rank, s->cols, R, s->o, err))) goto end;
        memcpy(B, scaled_b, (size_t)n_b * sizeof *B);
    }
    s->A = A;
    s->B = B;
    s->scratch = B + n_b;
    fg_job_run(s->o->pool, tiles, left_item, s);
    double all = 0, left = 0;
    for (int64_t t = 0; t < tiles; t++) {
        all += s->sums[2 * t];
        left += s->sums[2 * t + 1];
    }
    *share = all > 0 ? left / all : NAN;
end:
    free(scaled_b);
    free(A);
    free(s->sums);
    return rc;
}

// ---- the decomposition

// Rounds n factors; FG_EINPUT naming the matrix when F16 does not hold one.
static int store(uint16_t *out, const double *values, int64_t n, const char *which,
                 const struct fg_lowrank_options *o, struct fg_error *err)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = fg_stored_f16((float)values[i]);
        if (!fg_f16_is_finite(out[i]))
            return fg_fail(err, FG_EINPUT, "low-rank factors", NULL, o->name,
                           "factors that F16 holds, at most 65504", "%g in %s", values[i], which);
    }
    return 0;
}

// ---- factors in INT8

#define STEPS 26       // tried for each component
#define STEP_LESS 0.02 // of the largest, from one to the next: half of it at the last

// One vector per item, rounded: elements v[k + i * stride] for by columns, v[k * stride + i] for by
// rows.
struct rounding {
    const double *v;
    int8_t *codes; // in the same order as v
    int64_t n, n_vectors;
    bool columns;
    const double *weights; // [n] of square errors; NULL: all the same
    double *steps;         // [n_vectors] as FP32 holds them; 0: all codes are 0
};

static double code_of(double v, double step)
{
    const double code = rint(v / step);
    return code > 127 ? 127 : code < -127 ? -127 : code;
}

static void round_item(void *ctx, int64_t k, int worker)
{
    const struct rounding *r = ctx;
    const int64_t first = r->columns ? k : k * r->n, stride = r->columns ? r->n_vectors : 1;
    double most = 0, least = INFINITY, best = 0;
    (void)worker;
    for (int64_t i = 0; i < r->n; i++)
        most = fmax(most, fabs(r->v[first + i * stride]));
    for (int t = 0; t < STEPS; t++) {
        const double step = (double)(float)(most / 127 * (1 - STEP_LESS * t));
        double error = 0;
        if (!(step >= (double)FLT_MIN) || !isfinite(step)) continue;
        for (int64_t i = 0; i < r->n; i++) {
            const double v = r->v[first + i * stride], e = v - step * code_of(v, step);
            error += (r->weights ? r->weights[i] : 1) * e * e;
        }
        if (!(error < least)) continue;
        least = error;
        best = step;
    }
    for (int64_t i = 0; i < r->n; i++) {
        const int64_t at = first + i * stride;
        r->codes[at] = best > 0 ? (int8_t)code_of(r->v[at], best) : 0;
    }
    r->steps[k] = best;
}

// The second factor in the metric, [rank][cols], that fits s->E best beside the codes of the first:
// (C^T C)^-1 C^T E S.
static int refit(double *B, struct svd *s, const int8_t *codes, struct fg_error *err)
{
    const int64_t rows = s->rows, cols = s->cols, rank = s->rank, k = s->k;
    const int64_t n = cols * rank + rank * rank;
    float *C = malloc((size_t)((rows + cols) * rank) * sizeof *C), *z = C ? C + rows * rank : NULL;
    double *x = calloc((size_t)n, sizeof *x), *G = x ? x + cols * rank : NULL;
    int rc = 0;
    if (!C || !x) {
        rc = fg_fail_memory(err, "low-rank factors", (uint64_t)n * sizeof *x);
        goto end;
    }
    for (int64_t i = 0; i < rows * rank; i++)
        C[i] = (float)codes[i];
    s->k = rank;
    product(s, z, C, true);
    s->k = k;
    for (int64_t i = 0; i < rows; i++) {
        const float *c = C + i * rank;
        for (int64_t a = 0; a < rank; a++)
            for (int64_t b = 0; b <= a; b++)
                G[a * rank + b] += (double)c[a] * c[b]; // whole numbers, exact
    }
    for (int64_t a = 0; a < rank; a++)
        if (G[a * rank + a] == 0) G[a * rank + a] = 1; // no codes: its row of B is 0
    for (int64_t i = 0; i < cols * rank; i++)
        x[i] = (double)z[i];
    // Row-major lower is column-major upper, and x as LAPACK sees it is [rank][cols].
    const lapack_int info =
        LAPACKE_dposv(LAPACK_COL_MAJOR, 'U', (int)rank, (int)cols, G, (int)rank, x, (int)rank);
    if (info) rc = failed(err, s->o, "least squares", info);
    for (int64_t j = 0; j < cols && !rc; j++)
        for (int64_t r = 0; r < rank; r++)
            B[r * cols + j] = x[j * rank + r];
end:
    free(C);
    free(x);
    return rc;
}

// Rounds A [rows][rank], makes B [rank][cols] anew and rounds it too. A's steps are in B, so that
// one scale for each component, that of B, belongs to both.
static int store_int8(struct svd *s, const double *A, double *B, const double *R,
                      struct fg_error *err)
{
    const struct fg_lowrank_options *o = s->o;
    const int64_t rank = s->rank, cols = s->cols;
    struct rounding r = {
        .v = A, .codes = s->lr_a, .n = s->rows, .n_vectors = rank, .columns = true};
    double *weights = malloc((size_t)(cols + rank) * sizeof *weights);
    if (!weights)
        return fg_fail_memory(err, "low-rank factors", (uint64_t)(cols + rank) * sizeof *weights);
    for (int64_t j = 0; j < cols; j++)
        weights[j] = o->fit == FG_LOWRANK_DIAG   ? (double)o->diag[j]
                     : o->fit == FG_LOWRANK_FULL ? o->H[j * cols + j]
                                                 : 1;
    r.steps = weights + cols;
    fg_job_run(o->pool, rank, round_item, &r);
    int rc = refit(B, s, r.codes, err);
    if (rc) goto end;
    unscale(B, rank, cols, R, o);
    for (int64_t i = 0; i < rank * cols; i++) {
        if (fabs(B[i]) <= (double)FLT_MAX) continue;
        rc = fg_fail(err, FG_EINPUT, "low-rank factors", NULL, o->name, "factors that F32 holds",
                     "%g in lr_b", B[i]);
        goto end;
    }
    r = (struct rounding){.v = B,
                          .codes = s->lr_b,
                          .n = cols,
                          .n_vectors = rank,
                          .weights = weights,
                          .steps = weights + cols};
    fg_job_run(o->pool, rank, round_item, &r);
    for (int64_t k = 0; k < rank; k++)
        s->lr_scale[k] = r.steps[k] > 0 ? (float)r.steps[k] : 1;
end:
    free(weights);
    return rc;
}

// Q [rows][k] holds an orthonormal basis of E's main columns and z [cols][k] = E^T Q. Singular
// values and vectors of Q^T E; then A = U S, B = V^T of the first `rank`.
static int finish(struct svd *s, const float *Q, const float *z, const double *R,
                  struct fg_error *err)
{
    const int64_t rows = s->rows, cols = s->cols, k = s->k, rank = s->rank;
    const int64_t n = cols * k + cols * k + k * k + k + rows * rank + rank * cols;
    double *zt = malloc((size_t)n * sizeof *zt);
    if (!zt) return fg_fail_memory(err, "low-rank factors", (uint64_t)n * sizeof *zt);
    double *V = zt + cols * k, *Ut = V + cols * k, *sigma = Ut + k * k, *A = sigma + k,
           *B = A + rows * rank;
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < k; i++)
            zt[i * cols + j] = (double)z[j * k + i];
    // zt as LAPACK sees it is [cols][k] = V sigma Ut.
    const lapack_int info = LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'S', (int)cols, (int)k, zt, (int)cols,
                                           sigma, V, (int)cols, Ut, (int)k);
    int rc = 0;
    if (info) {
        rc = failed(err, s->o, "SVD", info);
        goto end;
    }
    for (int64_t r = 0; r < rank; r++) {
        double most = 0, sign = 1;
        for (int64_t i = 0; i < rows; i++) {
            double u = 0;
            for (int64_t j = 0; j < k; j++)
                u += (double)Q[i * k + j] * Ut[j * k + r];
            A[i * rank + r] = u;
            if (fabs(u) <= most) continue;
            most = fabs(u);
            sign = u < 0 ? -1 : 1;
        }
        const double left = s->o->balanced ? sqrt(sigma[r]) : sigma[r];
        const double right = s->o->balanced ? sqrt(sigma[r]) : 1;
        for (int64_t i = 0; i < rows; i++)
            A[i * rank + r] *= sign * left;
        for (int64_t j = 0; j < cols; j++)
            B[r * cols + j] = V[r * cols + j] * sign * right;
    }
    if (s->lr_scale) {
        rc = store_int8(s, A, B, R, err);
        goto end;
    }
    unscale(B, rank, cols, R, s->o);
    rc = store(s->lr_a, A, rows * rank, "lr_a", s->o, err);
    if (!rc) rc = store(s->lr_b, B, rank * cols, "lr_b", s->o, err);
end:
    free(zt);
    return rc;
}

static int decompose(struct svd *s, const double *R, struct fg_error *err)
{
    const int64_t rows = s->rows, cols = s->cols, k = s->k, longest = rows > cols ? rows : cols;
    float *y = calloc((size_t)((rows + cols) * k), sizeof *y), *z = y ? y + rows * k : NULL;
    double *work = malloc((size_t)(longest * k + k) * sizeof *work);
    int rc = 0;
    if (!y || !work) {
        rc = fg_fail_memory(err, "low-rank factors",
                            (uint64_t)((rows + cols + 2 * longest) * k) * 4);
        goto end;
    }
    char tag[512];
    snprintf(tag, sizeof tag, "rsvd/%s", s->o->name);
    struct fg_random random = fg_random_named(s->o->seed, tag);
    uint64_t bits = 0;
    for (int64_t i = 0; i < cols * k; i++) {
        if (i % 64 == 0) bits = fg_random_next(&random);
        z[i] = bits >> (i % 64) & 1 ? -1.0f : 1.0f;
    }
    double *tau = work + longest * k;
    product(s, y, z, false);
    for (int round = 0; round < POWERS; round++) {
        if ((rc = orthonormal(y, rows, k, work, tau, s->o, err))) goto end;
        product(s, z, y, true);
        if ((rc = orthonormal(z, cols, k, work, tau, s->o, err))) goto end;
        product(s, y, z, false);
    }
    if ((rc = orthonormal(y, rows, k, work, tau, s->o, err))) goto end;
    product(s, z, y, true);
    rc = finish(s, y, z, R, err);
end:
    free(y);
    free(work);
    return rc;
}

// The first element of E that is not finite: FG_EINPUT.
static int check_finite(const float *E, int64_t n, const struct fg_lowrank_options *o,
                        struct fg_error *err)
{
    for (int64_t i = 0; i < n; i++)
        if ((fg_bits_of_f32(E[i]) & 0x7F800000) == 0x7F800000)
            return fg_fail(err, FG_EINPUT, "low-rank factors", NULL, o->name, "finite errors", "%g",
                           (double)E[i]);
    return 0;
}

int fg_lowrank_svd(void *lr_a, void *lr_b, float *lr_scale, double *left, const float *E,
                   int64_t rows, int64_t cols, int64_t rank, const struct fg_lowrank_options *o,
                   struct fg_error *err)
{
    const int64_t least = rows < cols ? rows : cols;
    struct svd s = {.o = o,
                    .rows = rows,
                    .cols = cols,
                    .E = E,
                    .rank = rank,
                    .lr_a = lr_a,
                    .lr_b = lr_b,
                    .lr_scale = lr_scale};
    s.k = rank + OVERSAMPLE < least ? rank + OVERSAMPLE : least;
    double *R = NULL;
    float *ES = NULL;
    int rc = check_finite(E, rows * cols, o, err);
    if (rc) return rc;
    openblas_set_num_threads(1);
    if (o->fit == FG_LOWRANK_FULL && (rc = factor(&R, o, cols, err))) return rc;
    if (o->fit != FG_LOWRANK_PLAIN) {
        if ((rc = scaled(&ES, E, rows, cols, R, o, err))) goto end;
        s.E = ES;
    }
    if (rank && (rc = decompose(&s, R, err))) goto end;
    if (left) rc = measure(left, &s, R, err);
end:
    free(R);
    free(ES);
    return rc;
}
