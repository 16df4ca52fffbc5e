// quant/hessian.c: see hessian.h. Everything is cut into tiles of 512 x 512 columns; a worker holds
// one of them in FP32.
#include "quant/hessian.h"
#include "base/arena.h"
#include "quant/big.h"
#include "quant/jobs.h"
#include <assert.h>
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TILE 512
#define DEPTH_TILES 8 // tiles of columns whose products are summed in FP32: 4096
#define BAND 64       // rows and columns of a mirrored square

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int fg_hessian_new(struct fg_hessian *h, int64_t n, struct fg_error *err)
{
    const uint64_t bytes = (uint64_t)n * (uint64_t)n * sizeof *h->H;
    *h = (struct fg_hessian){.n = n};
    h->H = fg_big_alloc(bytes);
    if (!h->H) return fg_fail_memory(err, "Hessian", bytes);
    memset(h->H, 0, (size_t)bytes);
    return 0;
}

void fg_hessian_free(struct fg_hessian *h)
{
    free(h->H);
    *h = (struct fg_hessian){0};
}

// ---- sums

struct adding {
    struct fg_hessian *h;
    const float *x;
    int64_t rows, tiles; // tiles per side
    float *scratch;      // TILE * TILE per worker
};

// The item-th tile (i, j) of an upper triangle of `tiles` per side, row after row.
static void upper_tile(int64_t item, int64_t tiles, int64_t *i, int64_t *j)
{
    int64_t row = 0;
    for (; item >= tiles - row; row++)
        item -= tiles - row;
    *i = row;
    *j = row + item;
}

static void add_tile(void *ctx, int64_t item, int worker)
{
    const struct adding *a = ctx;
    const int64_t n = a->h->n;
    float *sum = a->scratch + worker * (int64_t)(TILE * TILE);
    int64_t i0, j0;
    upper_tile(item, a->tiles, &i0, &j0);
    i0 *= TILE;
    j0 *= TILE;
    const int64_t ni = least(TILE, n - i0), nj = least(TILE, n - j0);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)ni, (int)nj, (int)a->rows, 1.0f,
                a->x + i0, (int)n, a->x + j0, (int)n, 0.0f, sum, TILE);
    for (int64_t i = 0; i < ni; i++) {
        double *out = a->h->H + (i0 + i) * n + j0;
        for (int64_t j = i0 == j0 ? i : 0; j < nj; j++)
            out[j] += (double)sum[i * TILE + j];
    }
}

int fg_hessian_add(struct fg_hessian *h, const float *x, int64_t rows, struct fg_pool *pool,
                   struct fg_error *err)
{
    assert(rows >= 1 && rows <= FG_HESSIAN_SLAB);
    struct adding a = {.h = h, .x = x, .rows = rows, .tiles = (h->n + TILE - 1) / TILE};
    const uint64_t bytes = (uint64_t)fg_job_threads(pool) * TILE * TILE * sizeof *a.scratch;
    a.scratch = malloc((size_t)bytes);
    if (!a.scratch) return fg_fail_memory(err, "tiles of a Hessian", bytes);
    openblas_set_num_threads(1);
    fg_job_run(pool, a.tiles * (a.tiles + 1) / 2, add_tile, &a);
    free(a.scratch);
    h->count += rows;
    return 0;
}

// Rows [64 * item, ...) from the diagonal on, and their mirror image.
static void finish_band(void *ctx, int64_t item, int worker)
{
    const struct fg_hessian *h = ctx;
    const int64_t n = h->n, i0 = item * BAND, i1 = least(i0 + BAND, n);
    const double N = h->count ? (double)h->count : 1;
    (void)worker;
    for (int64_t j0 = i0; j0 < n; j0 += BAND) {
        for (int64_t i = i0; i < i1; i++) {
            for (int64_t j = j0 > i ? j0 : i; j < least(j0 + BAND, n); j++) {
                const double v = h->H[i * n + j] / N;
                h->H[i * n + j] = v;
                h->H[j * n + i] = v;
            }
        }
    }
}

void fg_hessian_finish(struct fg_hessian *h, struct fg_pool *pool)
{
    fg_job_run(pool, (h->n + BAND - 1) / BAND, finish_band, h);
}

// ---- tr(E H E^T)

struct tracing {
    const struct fg_hessian *h;
    const float *E;
    int64_t rows, tiles; // tiles of columns
    float *scratch;      // two tiles per worker: of H, and of E H
    double *sum;         // [tiles][rows]: what the columns of a tile add
};

// Row tile item / tiles and a tile `to` of columns, the last first since it takes the most: by
// symmetry its E is multiplied with the tiles of H above the diagonal, twice, and on it, once.
static void trace_tile(void *ctx, int64_t item, int worker)
{
    const struct tracing *t = ctx;
    const int64_t n = t->h->n, r0 = item / t->tiles * TILE, rows = least(TILE, t->rows - r0);
    const int64_t to = t->tiles - 1 - item % t->tiles, j0 = to * TILE, nj = least(TILE, n - j0);
    float *h = t->scratch + worker * (int64_t)(2 * TILE * TILE), *product = h + TILE * TILE;
    double *sum = t->sum + to * t->rows + r0;
    for (int64_t from = 0; from <= to; from++) {
        const int64_t i0 = from * TILE, ni = least(TILE, n - i0);
        const float times = from < to ? 2.0f : 1.0f;
        for (int64_t i = 0; i < ni; i++) {
            const double *row = t->h->H + (i0 + i) * n + j0;
            for (int64_t j = 0; j < nj; j++)
                h[i * TILE + j] = times * (float)row[j];
        }
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, (int)nj, (int)ni, 1.0f,
                    t->E + r0 * n + i0, (int)n, h, TILE, from % DEPTH_TILES ? 1.0f : 0.0f, product,
                    TILE);
        if (from < to && from % DEPTH_TILES < DEPTH_TILES - 1) continue;
        for (int64_t r = 0; r < rows; r++) {
            const float *e = t->E + (r0 + r) * n + j0, *p = product + r * TILE;
            double lane[4] = {0};
            int64_t j = 0;
            for (; j + 4 <= nj; j += 4)
                for (int k = 0; k < 4; k++)
                    lane[k] += (double)e[j + k] * (double)p[j + k];
            for (int k = 0; j + k < nj; k++)
                lane[k] += (double)e[j + k] * (double)p[j + k];
            sum[r] += (lane[0] + lane[2]) + (lane[1] + lane[3]);
        }
    }
}

double fg_hessian_error(const struct fg_hessian *h, const float *E, int64_t rows, double *row_error,
                        struct fg_pool *pool)
{
    struct tracing t = {.h = h, .E = E, .rows = rows, .tiles = (h->n + TILE - 1) / TILE};
    t.scratch =
        fg_alloc_aligned((uint64_t)fg_job_threads(pool) * 2 * TILE * TILE * sizeof *t.scratch);
    t.sum = calloc((size_t)(t.tiles * rows), sizeof *t.sum);
    double total = NAN;
    if (t.scratch && t.sum) {
        openblas_set_num_threads(1);
        fg_job_run(pool, (rows + TILE - 1) / TILE * t.tiles, trace_tile, &t);
        total = 0;
        for (int64_t r = 0; r < rows; r++) {
            double one = 0;
            for (int64_t to = 0; to < t.tiles; to++)
                one += t.sum[to * rows + r];
            if (row_error) row_error[r] = one;
            total += one;
        }
    }
    free(t.scratch);
    free(t.sum);
    return total;
}
