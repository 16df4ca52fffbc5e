// quant/factor.c: A = V V^T with V upper, from the last block of columns to the first, then U =
// V^-1 from the first to the last; A^-1 = V^-T V^-1. Both look back: a block of columns takes one
// long product with everything that is done, and so each element is summed in one call of BLAS.
// Products are as wide as a block: what BLAS copies of the rows it reads is then little beside
// them.
//
//   factor   A[0..k, k] -= V[0..k, later] V[k, later]^T; U_kk = factor(A_kk)^-1;
//            V[0..k, k] = A[0..k, k] U_kk^T
//   invert   U[0..k, k] = -U[0..k, 0..k] V[0..k, k] U_kk
#include "quant/factor.h"
#include "quant/jobs.h"
#include <cblas.h>
#include <lapacke.h>
#include <string.h>

#define BLOCK FG_FACTOR_BLOCK
#define TILE 256 // rows of a block of columns that one thread computes

struct factor {
    double *A, *scratch;
    int64_t n;
    int64_t k0, nk; // the block of columns at work
    int64_t rows;   // of it, from the top
};

static int64_t tile_rows(const struct factor *f, int64_t r0)
{
    return f->rows - r0 < TILE ? f->rows - r0 : TILE;
}

static void run(struct factor *f, int64_t rows, fg_job_fn fn, struct fg_pool *pool)
{
    f->rows = rows;
    fg_job_run(pool, (rows + TILE - 1) / TILE, fn, f);
}

// A[tile, k] -= V[tile, later] V[k, later]^T.
static void subtract_tile(void *ctx, int64_t item, int worker)
{
    const struct factor *f = ctx;
    const int64_t n = f->n, r0 = item * TILE, later = f->k0 + f->nk;
    (void)worker;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)tile_rows(f, r0), (int)f->nk,
                (int)(n - later), -1.0, f->A + r0 * n + later, (int)n, f->A + f->k0 * n + later,
                (int)n, 1.0, f->A + r0 * n + f->k0, (int)n);
}

// x [rows][nk], `ld` apart, times U_kk or its transpose.
static void times_diagonal(const struct factor *f, double *x, int64_t ld, int64_t rows,
                           CBLAS_TRANSPOSE transposed)
{
    cblas_dtrmm(CblasRowMajor, CblasRight, CblasUpper, transposed, CblasNonUnit, (int)rows,
                (int)f->nk, 1.0, f->A + f->k0 * f->n + f->k0, (int)f->n, x, (int)ld);
}

// A[tile, k] = A[tile, k] U_kk^T.
static void divide_tile(void *ctx, int64_t item, int worker)
{
    const struct factor *f = ctx;
    const int64_t r0 = item * TILE;
    (void)worker;
    times_diagonal(f, f->A + r0 * f->n + f->k0, f->n, tile_rows(f, r0), CblasTrans);
}

// scratch[tile] = V[tile, k] U_kk.
static void multiply_tile(void *ctx, int64_t item, int worker)
{
    const struct factor *f = ctx;
    const int64_t r0 = item * TILE, r1 = r0 + tile_rows(f, r0);
    (void)worker;
    for (int64_t r = r0; r < r1; r++)
        memcpy(f->scratch + r * BLOCK, f->A + r * f->n + f->k0, (size_t)f->nk * sizeof *f->A);
    times_diagonal(f, f->scratch + r0 * BLOCK, BLOCK, r1 - r0, CblasNoTrans);
}

// U[tile, k] = -U[tile, tile..k] scratch[tile..k]: zeros stand below the diagonal.
static void invert_tile(void *ctx, int64_t item, int worker)
{
    const struct factor *f = ctx;
    const int64_t n = f->n, r0 = item * TILE;
    (void)worker;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)tile_rows(f, r0), (int)f->nk,
                (int)(f->k0 - r0), -1.0, f->A + r0 * n + r0, (int)n, f->scratch + r0 * BLOCK, BLOCK,
                0.0, f->A + r0 * n + f->k0, (int)n);
}

// A_kk becomes U_kk. LAPACK knows lower times transposed: that is the same with rows and columns
// in reverse, where the lower triangle of rows is the upper of columns.
static bool diagonal(const struct factor *f)
{
    double *A = f->A + f->k0 * f->n + f->k0, *b = f->scratch;
    const int64_t m = f->nk;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < m; j++)
            b[(m - 1 - i) * m + m - 1 - j] = j >= i ? A[i * f->n + j] : 0;
    }
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (int)m, b, (int)m)) return false;
    if (LAPACKE_dtrtri_work(LAPACK_COL_MAJOR, 'U', 'N', (int)m, b, (int)m)) return false;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < m; j++)
            A[i * f->n + j] = j >= i ? b[(m - 1 - i) * m + m - 1 - j] : 0;
    }
    return true;
}

bool fg_factor_inverse(double *A, int64_t n, double *scratch, struct fg_pool *pool)
{
    struct factor f = {.A = A, .scratch = scratch, .n = n};
    openblas_set_num_threads(1);
    for (f.k0 = (n - 1) / BLOCK * BLOCK; f.k0 >= 0; f.k0 -= BLOCK) {
        f.nk = n - f.k0 < BLOCK ? n - f.k0 : BLOCK;
        if (f.k0 + f.nk < n) run(&f, f.k0 + f.nk, subtract_tile, pool);
        if (!diagonal(&f)) return false;
        run(&f, f.k0, divide_tile, pool);
    }
    for (f.k0 = BLOCK; f.k0 < n; f.k0 += BLOCK) {
        f.nk = n - f.k0 < BLOCK ? n - f.k0 : BLOCK;
        run(&f, f.k0, multiply_tile, pool);
        run(&f, f.k0, invert_tile, pool);
    }
    return true;
}
