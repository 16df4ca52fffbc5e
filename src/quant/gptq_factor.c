// quant/gptq_factor.c: the Hessian in the order of treatment, damped, and its factor. One array of
// n x n FP64 is gathered, factored, inverted and narrowed to FP32, all in place.
#include "quant/hessian.h"
#include "quant/big.h"
#include "quant/factor.h"
#include "quant/jobs.h"
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 4     // the damping asked for, and three times ten times as much
#define BAND 64      // rows of an item
#define STRETCH 4096 // numbers narrowed as one item
// What an element of the diagonal of U may be: FP32 products of it with weights and errors then
// stay in range.
#define DIAGONAL_MIN 1e-15
#define DIAGONAL_MAX 1e15

struct key {
    double h;
    int32_t column;
};

static int descending(const void *pa, const void *pb)
{
    const struct key *a = pa, *b = pb;
    if (a->h != b->h) return a->h > b->h ? -1 : 1;
    return (a->column > b->column) - (a->column < b->column);
}

struct gathering {
    const struct fg_hessian *h;
    const struct fg_gptq_factor *f;
    double *A;
    double add;               // to the diagonal
    _Atomic bool is_bad;      // there are numbers that are not finite
    _Atomic bool is_too_wide; // FP32 can't work with this factor
};

static void gather_band(void *ctx, int64_t item, int worker)
{
    struct gathering *g = ctx;
    const int64_t n = g->h->n, i1 = (item + 1) * BAND < n ? (item + 1) * BAND : n;
    const int32_t *perm = g->f->perm;
    (void)worker;
    for (int64_t i = item * BAND; i < i1; i++) {
        const double *from = g->h->H + perm[i] * n;
        double *to = g->A + i * n, sum = 0;
        memset(to, 0, (size_t)i * sizeof *to);
        for (int64_t j = i; j < n; j++) {
            to[j] = from[perm[j]];
            sum += to[j] * 0; // 0, or NaN
        }
        if (sum != 0) atomic_store(&g->is_bad, true);
        to[i] = (g->f->dead[perm[i]] ? 1 : to[i]) + g->add;
    }
}

struct narrowing {
    double *A;
    int64_t begin, end;
};

static void narrow_stretch(void *ctx, int64_t item, int worker)
{
    const struct narrowing *s = ctx;
    const int64_t t0 = s->begin + item * STRETCH,
                  t1 = t0 + STRETCH < s->end ? t0 + STRETCH : s->end;
    float part[STRETCH];
    (void)worker;
    for (int64_t t = t0; t < t1; t++)
        part[t - t0] = (float)s->A[t];
    memcpy((char *)s->A + t0 * (int64_t)sizeof *part, part, (size_t)(t1 - t0) * sizeof *part);
}

// The first n numbers of A become FP32 at its start. Numbers [begin, 2 * begin) land where
// [begin / 2, begin) were, which have moved: their stretches may go in any order.
static void narrow(double *A, int64_t n, struct fg_pool *pool)
{
    struct narrowing s = {.A = A, .end = n < STRETCH ? n : STRETCH};
    while (s.begin < n) {
        fg_job_run(pool, (s.end - s.begin + STRETCH - 1) / STRETCH, narrow_stretch, &s);
        s.begin = s.end;
        s.end = 2 * s.end < n ? 2 * s.end : n;
    }
}

// Rows of the factor that FP32 does not hold.
static void check_band(void *ctx, int64_t item, int worker)
{
    struct gathering *g = ctx;
    const int64_t n = g->h->n, i1 = (item + 1) * BAND < n ? (item + 1) * BAND : n;
    (void)worker;
    for (int64_t i = item * BAND; i < i1; i++) {
        const double *row = g->A + i * n;
        double most = 0;
        for (int64_t j = i; j < n; j++)
            most = fabs(row[j]) <= most ? most : fabs(row[j]);
        if (!(row[i] >= DIAGONAL_MIN && most <= DIAGONAL_MAX)) atomic_store(&g->is_too_wide, true);
    }
}

// perm, diag, dead; *mean of the diagonal with dead columns as 1.
static int order_columns(struct fg_gptq_factor *f, double *mean, const struct fg_hessian *h,
                         enum fg_gptq_order order, const char *name, struct fg_error *err)
{
    const int64_t n = h->n;
    struct key *keys = malloc((size_t)n * sizeof *keys);
    if (!keys) return fg_fail_memory(err, "order of columns", (uint64_t)n * sizeof *keys);
    int rc = 0;
    for (int64_t j = 0; j < n && !rc; j++) {
        const double d = h->H[j * n + j];
        if (!(d >= 0) || isinf(d))
            rc = fg_fail(err, FG_EINPUT, "Hessian", NULL, name,
                         "a diagonal of finite numbers, 0 and more", "%g at column %" PRId64, d, j);
        f->diag[j] = (float)d;
        f->dead[j] = d == 0;
        f->n_dead += d == 0;
        keys[j] = (struct key){d == 0 ? 1 : d, (int32_t)j};
    }
    if (!rc && order == FG_GPTQ_ORDER_ACT) qsort(keys, (size_t)n, sizeof *keys, descending);
    // In this order, the mean of permuted columns is the same number.
    *mean = 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        f->perm[i] = keys[i].column;
        *mean += keys[i].h;
    }
    *mean /= (double)n;
    free(keys);
    return rc;
}

int fg_gptq_factorize(struct fg_gptq_factor *out, const struct fg_hessian *h,
                      enum fg_gptq_order order, double damp, const char *name, struct fg_pool *pool,
                      struct fg_error *err)
{
    const int64_t n = h->n, bands = (n + BAND - 1) / BAND;
    const uint64_t cells = (uint64_t)n * (uint64_t)n;
    *out = (struct fg_gptq_factor){.n = n, .damp = damp};
    struct gathering g = {.h = h, .f = out};
    double *scratch = fg_big_alloc((uint64_t)n * FG_FACTOR_BLOCK * sizeof *scratch), mean = 0;
    g.A = fg_big_alloc(cells * sizeof *g.A);
    out->perm = malloc((size_t)n * sizeof *out->perm);
    out->diag = malloc((size_t)n * sizeof *out->diag);
    out->dead = malloc((size_t)n * sizeof *out->dead);
    int rc = 0;
    if (!scratch || !g.A || !out->perm || !out->diag || !out->dead) {
        rc = fg_fail_memory(err, "factorization", fg_gptq_factorize_bytes(n));
        goto fail;
    }
    if ((rc = order_columns(out, &mean, h, order, name, err))) goto fail;
    bool done = false;
    for (int round = 0; round < ROUNDS && !done; round++) {
        if (round && damp == 0) break; // ten times as much is as little
        if (round) out->damp *= 10;
        g.add = out->damp * mean;
        g.is_too_wide = false;
        fg_job_run(pool, bands, gather_band, &g);
        if (g.is_bad) {
            rc = fg_fail(err, FG_EINPUT, "Hessian", NULL, name, "finite numbers", "others");
            goto fail;
        }
        done = fg_factor_inverse(g.A, n, scratch, pool);
        if (!done) continue;
        fg_job_run(pool, bands, check_band, &g);
        done = !g.is_too_wide;
    }
    if (!done) {
        rc = fg_fail(err, FG_EINPUT, "Hessian", NULL, name, "a positive definite matrix",
                     "no factor even with %g of the diagonal's mean added", out->damp);
        goto fail;
    }
    free(scratch);
    narrow(g.A, (int64_t)cells, pool);
    float *U = realloc(g.A, (size_t)cells * sizeof *U); // smaller: only a courtesy
    out->U = U ? U : (float *)(void *)g.A;
    return 0;
fail:
    free(scratch);
    free(g.A);
    fg_gptq_factor_free(out);
    return rc;
}

void fg_gptq_factor_free(struct fg_gptq_factor *f)
{
    free(f->perm);
    free(f->U);
    free(f->diag);
    free(f->dead);
    *f = (struct fg_gptq_factor){0};
}

uint64_t fg_gptq_factorize_bytes(int64_t n)
{
    const uint64_t N = (uint64_t)n;
    return N * N * sizeof(double) + N * FG_FACTOR_BLOCK * sizeof(double) + N * sizeof(struct key) +
           N * (sizeof(int32_t) + sizeof(float) + 1) + 2 * FG_BIG_PAGE;
}
