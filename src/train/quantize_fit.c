// train/quantize_fit.c: one matrix: read, rotate, round, and its factors fitted inside (specs:
// quantization 2, 3, 4.3).
#include "base/arena.h"
#include "base/num.h"
#include "base/size.h"
#include "quant/dequant.h"
#include "quant/lowrank.h"
#include "quant/signs.h"
#include "train/quantize_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define READ_BYTES (16ull << 20) // of the source between two releases of its pages
#define ROWS_PER_ITEM 32         // even: pairs of rows stay together
#define FIT_BYTES (48ull << 20)  // samples and their distances, at the most

void fg_quantize_result_free(struct fg_quantize_result *r)
{
    fg_fit_free(&r->fit);
    free(r->lr_a);
    free(r->lr_b);
    *r = (struct fg_quantize_result){0};
}

// ---- reading

struct widen {
    const struct fg_kernels *kernels;
    float *dst;
    const uint8_t *src;
    enum fg_dtype dtype;
    int64_t cols, rows;
};

static void widen_rows(void *ctx, int64_t item, int worker)
{
    const struct widen *w = ctx;
    int64_t r0 = item * ROWS_PER_ITEM, n = w->rows - r0;
    (void)worker;
    if (n > ROWS_PER_ITEM) n = ROWS_PER_ITEM;
    w->kernels->widen(w->dst + r0 * w->cols,
                      w->src + (uint64_t)(r0 * w->cols) * fg_dtype_bytes(w->dtype), w->dtype,
                      n * w->cols);
}

static int read_matrix(struct fg_quantize *q, const struct fg_plan_mat *m, float *W,
                       char sha256[FG_SHA256_HEX], struct fg_error *err)
{
    struct fg_quant_tensor t;
    int rc = fg_quant_source_find(&q->source, m->name, true, &t, err);
    if (rc) return rc;
    uint64_t row_bytes = t.cols * fg_dtype_bytes(t.dtype);
    uint64_t step = row_bytes < READ_BYTES ? READ_BYTES / row_bytes : 1;
    struct fg_sha256 *hash = fg_sha256_new();
    uint8_t *chunk = malloc(step * row_bytes);
    if (!hash || !chunk) rc = fg_fail_memory(err, FG_QUANTIZE_WHAT, step * row_bytes);
    for (uint64_t r = 0; r < t.rows && !rc; r += step) {
        uint64_t end = t.rows - r < step ? t.rows : r + step;
        rc = fg_quantize_tick(q, NULL, err);
        if (!rc) rc = fg_quant_source_read(&q->source, &t, r, end, chunk, err);
        if (rc) break;
        fg_sha256_add(hash, chunk, (end - r) * row_bytes);
        struct widen w = {.kernels = q->o.kernels,
                          .dst = W + r * t.cols,
                          .src = chunk,
                          .dtype = t.dtype,
                          .cols = (int64_t)t.cols,
                          .rows = (int64_t)(end - r)};
        fg_pool_run(q->o.pool, (w.rows + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM, widen_rows, &w);
        fg_quant_source_release(&q->source, &t, r, end);
        q->done_bytes += (end - r) * row_bytes / 2; // the other half is fitting
    }
    free(chunk);
    char unused[FG_SHA256_HEX];
    if (hash) fg_sha256_end(hash, rc ? unused : sha256);
    return rc;
}

static int rotate(struct fg_quantize *q, const struct fg_plan_mat *m, float *W,
                  struct fg_error *err)
{
    if (!m->site) return 0;
    uint8_t *signs = malloc((uint64_t)(m->cols + 7) / 8);
    if (!signs) return fg_fail_memory(err, FG_QUANTIZE_WHAT, (uint64_t)(m->cols + 7) / 8);
    fg_signs_splitmix64(signs, m->seed, m->cols);
    fg_rotate_rows(W, m->rows, m->cols, signs, m->block, q->o.kernels, q->o.pool);
    free(signs);
    return 0;
}

// ---- factors

struct rest {
    const struct fg_qmat *view;
    const float *W;
    float *out;        // [rows][cols]
    const uint16_t *A; // [rows][rank] F16
    const float *B;    // [rank][cols] FP32
    int64_t rank;
    double *row_energy; // [rows] sums of squares of out; NULL: not wanted
};

// out = W - Q of a block of rows.
static void subtract_quantized(void *ctx, int64_t item, int worker)
{
    const struct rest *s = ctx;
    int64_t cols = s->view->cols, r0 = item * ROWS_PER_ITEM, r1 = r0 + ROWS_PER_ITEM;
    (void)worker;
    if (r1 > s->view->rows) r1 = s->view->rows;
    fg_qmat_dequantize(s->out + r0 * cols, s->view, r0, r1);
    for (int64_t r = r0; r < r1; r++) {
        const float *w = s->W + r * cols;
        float *e = s->out + r * cols;
        double energy = 0;
        for (int64_t j = 0; j < cols; j++) {
            e[j] = w[j] - e[j];
            energy += (double)e[j] * e[j];
        }
        s->row_energy[r] = energy;
    }
}

// out = W - A B of a block of rows; sums over the rank ascending.
static void subtract_factors(void *ctx, int64_t item, int worker)
{
    const struct rest *s = ctx;
    int64_t cols = s->view->cols, r0 = item * ROWS_PER_ITEM, r1 = r0 + ROWS_PER_ITEM;
    (void)worker;
    if (r1 > s->view->rows) r1 = s->view->rows;
    for (int64_t r = r0; r < r1; r++) {
        float *out = s->out + r * cols;
        memcpy(out, s->W + r * cols, (uint64_t)cols * sizeof *out);
        for (int64_t k = 0; k < s->rank; k++) {
            float a = fg_f16_to_f32(s->A[r * s->rank + k]);
            const float *b = s->B + k * cols;
            for (int64_t j = 0; j < cols; j++)
                out[j] -= a * b[j];
        }
    }
}

struct loftq {
    struct fg_quantize *q;
    const struct fg_plan_mat *m;
    const struct fg_fit_options *fit;
    const float *W;
    float *T;             // [rows][cols]: W - A B, then W - Q
    float *B;             // [rank][cols]: lr_b widened
    double *row_energy;   // [rows]
    double signal, least; // squared norm of W; least error so far
    struct fg_quantize_result *best;
};

static int64_t items_of(const struct fg_plan_mat *m)
{
    return (m->rows + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM;
}

// One iteration: rounds T, which is W - A B of the last iterate, and fits factors to what is left.
// They stay in `now` for the next one.
static int iterate(struct loftq *l, struct fg_quantize_result *now, struct fg_error *err)
{
    const struct fg_plan_mat *m = l->m;
    struct fg_quantize *q = l->q;
    struct fg_lowrank_options lo = {.name = m->name, .seed = q->o.kmeans_seed, .pool = q->o.pool};
    fg_fit_free(&now->fit);
    int rc = fg_fit_rtn(&now->fit, m->format, l->T, m->rows, m->cols, l->fit, err);
    if (!rc) rc = fg_quantize_tick(q, NULL, err);
    if (rc) return rc;
    struct fg_qmat view = fg_fit_view(&now->fit);
    struct rest s = {.view = &view, .W = l->W, .out = l->T, .row_energy = l->row_energy};
    fg_pool_run(q->o.pool, items_of(m), subtract_quantized, &s);
    double energy = 0, left = 1;
    for (int64_t r = 0; r < m->rows; r++)
        energy += l->row_energy[r];
    rc = fg_lowrank_svd(now->lr_a, now->lr_b, &left, l->T, m->rows, m->cols, m->rank, &lo, err);
    if (rc) return rc;
    double error = energy > 0 ? energy * left : 0;
    now->lr_left = energy > 0 ? left : 1;
    now->weight_snr_db = fg_fit_snr_db(&(struct fg_fit_error){l->signal, error});
    if (l->best->fit.data && !(error < l->least)) return 0;

    // The iterate is kept: its matrix moves, its factors are needed here too.
    uint64_t a = (uint64_t)m->rows * (uint64_t)m->rank, b = (uint64_t)m->cols * (uint64_t)m->rank;
    struct fg_quantize_result *best = l->best;
    fg_fit_free(&best->fit);
    best->fit = now->fit;
    now->fit = (struct fg_fit_result){0};
    memcpy(best->lr_a, now->lr_a, a * sizeof *now->lr_a);
    memcpy(best->lr_b, now->lr_b, b * sizeof *now->lr_b);
    best->weight_snr_db = now->weight_snr_db;
    best->lr_left = now->lr_left;
    l->least = error;
    return 0;
}

static void next_target(struct loftq *l, const struct fg_quantize_result *now)
{
    const struct fg_plan_mat *m = l->m;
    struct fg_qmat shape = {.rows = m->rows, .cols = m->cols};
    for (int64_t i = 0; i < m->rank * m->cols; i++)
        l->B[i] = fg_f16_to_f32(now->lr_b[i]);
    struct rest s = {
        .view = &shape, .W = l->W, .out = l->T, .A = now->lr_a, .B = l->B, .rank = m->rank};
    fg_pool_run(l->q->o.pool, items_of(m), subtract_factors, &s);
}

static int make_factors(uint16_t **a, uint16_t **b, const struct fg_plan_mat *m,
                        struct fg_error *err)
{
    *a = calloc((uint64_t)m->rows * (uint64_t)m->rank, sizeof **a);
    *b = calloc((uint64_t)m->cols * (uint64_t)m->rank, sizeof **b);
    return *a && *b ? 0 : fg_fail_memory(err, FG_QUANTIZE_WHAT, m->factor_bytes);
}

static double squared_norm(struct loftq *l)
{
    double sum = 0;
    int64_t rows = l->m->rows, cols = l->m->cols;
    for (int64_t r = 0; r < rows; r++) {
        double row = 0;
        for (int64_t j = 0; j < cols; j++)
            row += (double)l->W[r * cols + j] * l->W[r * cols + j];
        sum += row;
    }
    return sum;
}

// Q <- round(W - A B), (A, B) <- best of W - Q, some times; the best iterate is the result (4.3).
static int fit_with_factors(struct fg_quantize *q, const struct fg_plan_mat *m,
                            const struct fg_fit_options *fit, const float *W,
                            struct fg_quantize_result *out, struct fg_error *err)
{
    uint64_t n = (uint64_t)m->rows * (uint64_t)m->cols; // the list's sizes were checked
    struct fg_quantize_result now = {0};
    struct loftq l = {.q = q, .m = m, .fit = fit, .W = W, .best = out};
    l.T = fg_alloc_aligned(n * sizeof *l.T);
    l.B = fg_alloc_aligned((uint64_t)m->rank * (uint64_t)m->cols * sizeof *l.B);
    l.row_energy = calloc((uint64_t)m->rows, sizeof *l.row_energy);
    int rc = l.T && l.B && l.row_energy ? 0 : fg_fail_memory(err, FG_QUANTIZE_WHAT, 4 * n);
    if (!rc) rc = make_factors(&now.lr_a, &now.lr_b, m, err);
    if (!rc) rc = make_factors(&out->lr_a, &out->lr_b, m, err);
    if (!rc) {
        memcpy(l.T, W, n * sizeof *W);
        l.signal = squared_norm(&l);
    }
    for (int i = 0; i < q->o.lr_iters && !rc; i++) {
        if (i > 0) next_target(&l, &now);
        rc = iterate(&l, &now, err);
    }
    fg_quantize_result_free(&now);
    free(l.T);
    free(l.B);
    free(l.row_energy);
    return rc;
}

uint64_t fg_quantize_fit_bytes(const struct fg_plan_mat *m)
{
    uint64_t n = (uint64_t)m->rows * (uint64_t)m->cols, rank = (uint64_t)m->rank;
    uint64_t peak = 4 * n + FIT_BYTES;
    // T, a second result, factors twice and widened, and FP64 work of the decomposition.
    if (rank)
        peak += 4 * n + m->bytes + 2 * m->factor_bytes +
                32 * (rank + 16) * (uint64_t)(m->rows + m->cols);
    return peak > READ_BYTES ? peak + READ_BYTES : 2 * READ_BYTES;
}

int fg_quantize_fit(struct fg_quantize *q, const struct fg_plan_mat *m,
                    struct fg_quantize_result *out, struct fg_error *err)
{
    struct fg_fit_options fit = fg_fit_defaults(m->name, q->o.kernels, q->o.pool);
    uint64_t n = (uint64_t)m->rows * (uint64_t)m->cols;
    *out = (struct fg_quantize_result){.lr_left = 1};
    fit.seed = q->o.kmeans_seed;
    fit.row_weight = q->o.row_weight;
    float *W = fg_alloc_aligned(n * sizeof *W);
    if (!W) return fg_fail_memory(err, FG_QUANTIZE_WHAT, n * sizeof *W);
    int rc = read_matrix(q, m, W, out->source_sha256, err);
    if (!rc) rc = rotate(q, m, W, err);
    if (!rc) rc = fg_quantize_tick(q, NULL, err);
    if (!rc && m->rank > 0) {
        rc = fit_with_factors(q, m, &fit, W, out, err);
    } else if (!rc) {
        rc = fg_fit_rtn(&out->fit, m->format, W, m->rows, m->cols, &fit, err);
        if (!rc) out->weight_snr_db = fg_fit_snr_db(&out->fit.e);
    }
    free(W);
    if (rc) fg_quantize_result_free(out);
    return rc;
}
