// train/quantize_held.c: what a quantized matrix does: its outputs on rows that are held out
// (specs: quantization 4.6), and its weights as the stream passes through them.
#include "base/arena.h"
#include "base/num.h"
#include "quant/dequant.h"
#include "quant/signs.h"
#include "train/quantize_impl.h"
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TILE_ROWS 64    // of a matrix, per item; even
#define TILE_TOKENS 256 // of held-out rows, at a time

struct outputs {
    const struct fg_qmat *q; // with its factors
    const float *B;          // [rank][cols], widened; NULL without factors
    const float *W;          // [rows][cols]; NULL: only Q + A B is wanted
    const float *x;          // [n][cols]
    int64_t n;
    float *scratch;         // per worker
    uint64_t floats;        // of it
    double *signal, *noise; // per item
    double (*token)[2];     // [items][n]: the same per token; NULL: not wanted
    float *out;             // [rows][cols]: Q + A B
};

// to [r1 - r0][cols] = rows of Q + A B.
static void stored_rows(const struct outputs *o, int64_t r0, int64_t r1, float *to)
{
    const int64_t cols = o->q->cols;
    fg_qmat_dequantize(to, o->q, r0, r1);
    for (int64_t r = r0; r < r1; r++) {
        float *row = to + (r - r0) * cols;
        for (int64_t k = 0; k < o->q->rank; k++) {
            const float a = fg_qmat_lr_a(o->q, r, k);
            const float *b = o->B + k * cols;
            for (int64_t j = 0; j < cols; j++)
                row[j] += a * b[j];
        }
    }
}

static void product(const float *w, int64_t rows, const float *x, int64_t n, int64_t cols, float *y)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, (int)n, (int)cols, 1.0f, w,
                (int)cols, x, (int)cols, 0.0f, y, (int)n);
}

// Of outputs y [rows][n]; those of a token are added to token[j][which], where it is not NULL.
static double squares(const float *y, int64_t rows, int64_t n, double (*token)[2], int which)
{
    double sum = 0;
    for (int64_t i = 0; i < rows * n; i++) {
        const double square = (double)y[i] * y[i];
        sum += square;
        if (token) token[i % n][which] += square;
    }
    return sum;
}

static void compare_item(void *ctx, int64_t item, int worker)
{
    const struct outputs *o = ctx;
    const int64_t cols = o->q->cols, r0 = item * TILE_ROWS;
    const int64_t r1 = r0 + TILE_ROWS < o->q->rows ? r0 + TILE_ROWS : o->q->rows, rows = r1 - r0;
    float *e = o->scratch + (uint64_t)worker * o->floats, *y = e + TILE_ROWS * cols;
    const float *w = o->W + r0 * cols;
    stored_rows(o, r0, r1, e);
    for (int64_t i = 0; i < rows * cols; i++)
        e[i] = w[i] - e[i];
    o->signal[item] = o->noise[item] = 0;
    for (int64_t t = 0; t < o->n; t += TILE_TOKENS) {
        const int64_t n = o->n - t < TILE_TOKENS ? o->n - t : TILE_TOKENS;
        double(*token)[2] = o->token ? o->token + item * o->n + t : NULL;
        product(w, rows, o->x + t * cols, n, cols, y);
        o->signal[item] += squares(y, rows, n, token, 0);
        product(e, rows, o->x + t * cols, n, cols, y);
        o->noise[item] += squares(y, rows, n, token, 1);
    }
}

static void unpack_item(void *ctx, int64_t item, int worker)
{
    const struct outputs *o = ctx;
    const int64_t r0 = item * TILE_ROWS;
    const int64_t r1 = r0 + TILE_ROWS < o->q->rows ? r0 + TILE_ROWS : o->q->rows;
    (void)worker;
    stored_rows(o, r0, r1, o->out + r0 * o->q->cols);
}

static int64_t items_of(const struct fg_plan_mat *m)
{
    return (m->rows + TILE_ROWS - 1) / TILE_ROWS;
}

static int widen_factor(const struct fg_qmat *m, float **B, struct fg_error *err)
{
    const uint64_t n = (uint64_t)m->rank * (uint64_t)m->cols;
    *B = NULL;
    if (m->rank == 0) return 0;
    *B = fg_alloc_aligned(n * sizeof **B);
    if (!*B) return fg_fail_memory(err, FG_QUANTIZE_WHAT, n * sizeof **B);
    fg_qmat_lr_b(*B, m);
    return 0;
}

// Mean over tokens of the share that is lost of each; those without any output do not count.
static double mean_share(const struct outputs *o, int64_t items)
{
    double sum = 0;
    int64_t counted = 0;
    for (int64_t t = 0; t < o->n; t++) {
        double signal = 0, noise = 0;
        for (int64_t i = 0; i < items; i++) {
            signal += o->token[i * o->n + t][0];
            noise += o->token[i * o->n + t][1];
        }
        if (!(signal > 0)) continue;
        sum += noise / signal;
        counted++;
    }
    return counted ? sum / (double)counted : NAN;
}

int fg_quantize_held(const struct fg_fitter *f, const struct fg_quantize_result *r, double *snr_db,
                     double *rel_err_t, struct fg_error *err)
{
    const struct fg_plan_mat *m = f->m;
    struct fg_pool *pool = f->q->o.pool;
    const struct fg_qmat view = fg_quantize_view(m, r);
    const int64_t items = items_of(m);
    float *B = NULL;
    *snr_db = NAN;
    if (rel_err_t) *rel_err_t = NAN;
    if (!f->site->held) return 0;
    struct outputs o = {.q = &view,
                        .W = f->W,
                        .x = f->site->held,
                        .n = f->site->n_held,
                        .floats = (uint64_t)(TILE_ROWS * (m->cols + TILE_TOKENS))};
    o.floats = (o.floats + 15) / 16 * 16;
    int rc = widen_factor(&view, &B, err);
    o.B = B;
    o.scratch = fg_alloc_aligned((uint64_t)fg_pool_threads(pool) * o.floats * sizeof *o.scratch);
    o.signal = calloc((uint64_t)items, 2 * sizeof *o.signal);
    if (rel_err_t) o.token = calloc((uint64_t)(items * o.n), sizeof *o.token);
    if (!rc && (!o.scratch || !o.signal || (rel_err_t && !o.token)))
        rc = fg_fail_memory(err, FG_QUANTIZE_WHAT, o.floats * sizeof *o.scratch);
    if (!rc) {
        double signal = 0, noise = 0;
        o.noise = o.signal + items;
        openblas_set_num_threads(1);
        fg_pool_run(pool, items, compare_item, &o);
        for (int64_t i = 0; i < items; i++) {
            signal += o.signal[i];
            noise += o.noise[i];
        }
        *snr_db = fg_fit_snr_db(&(struct fg_fit_error){signal, noise});
        if (rel_err_t) *rel_err_t = mean_share(&o, items);
    }
    free(B);
    free(o.scratch);
    free(o.signal);
    free(o.token);
    return rc;
}

int fg_quantize_unpack(struct fg_quantize *q, const struct fg_plan_mat *m,
                       const struct fg_quantize_result *r, float **W, struct fg_error *err)
{
    const struct fg_qmat view = fg_quantize_view(m, r);
    const uint64_t n = (uint64_t)m->rows * (uint64_t)m->cols;
    float *B = NULL;
    uint8_t *signs = NULL;
    *W = fg_alloc_aligned(n * sizeof **W);
    int rc = *W ? widen_factor(&view, &B, err) : fg_fail_memory(err, FG_QUANTIZE_WHAT, 4 * n);
    if (!rc && m->site) {
        signs = malloc((uint64_t)(m->cols + 7) / 8);
        if (!signs) rc = fg_fail_memory(err, FG_QUANTIZE_WHAT, (uint64_t)m->cols);
    }
    if (!rc) {
        struct outputs o = {.q = &view, .B = B, .out = *W};
        fg_pool_run(q->o.pool, items_of(m), unpack_item, &o);
        if (signs) {
            fg_signs_splitmix64(signs, m->seed, m->cols);
            fg_unrotate_rows(*W, m->rows, m->cols, signs, m->block, q->o.kernels, q->o.pool);
        }
    } else {
        free(*W);
        *W = NULL;
    }
    free(B);
    free(signs);
    return rc;
}
