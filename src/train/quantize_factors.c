// train/quantize_factors.c: a matrix with low-rank factors that are fitted inside (specs:
// quantization 4.3, LoftQ): Q <- round(W - A B), (A, B) <- best of W - Q, some times; the iterate
// with the least error stays. The error is that of the outputs where H is known, else of the
// weights.
#include "base/arena.h"
#include "base/num.h"
#include "quant/dequant.h"
#include "quant/lowrank.h"
#include "train/quantize_impl.h"
#include <stdlib.h>
#include <string.h>

#define ROWS_PER_ITEM 32 // even: pairs of rows stay together

struct loftq {
    struct fg_fitter *f;
    float *T;           // [rows][cols]: W - A B, then W - Q
    float *B;           // [rank][cols]: the second factor, widened
    double *row_energy; // [rows]
    double signal;      // squared norm of W
    double signal_h;    // tr(W H W^T)
    double least;       // error so far
    struct fg_quantize_result *best;
};

struct rest {
    const struct fg_qmat *view; // its factors where they are what is subtracted
    const float *W;
    float *out;         // [rows][cols]
    const float *B;     // [rank][cols] FP32
    double *row_energy; // [rows] sums of squares of out; NULL: not wanted
};

static double energy_of(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += (double)x[j] * x[j];
    return sum;
}

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
        for (int64_t j = 0; j < cols; j++)
            e[j] = w[j] - e[j];
        if (s->row_energy) s->row_energy[r] = energy_of(e, cols);
    }
}

// out = W - A B of a block of rows; sums over the rank ascending. W may be out.
static void subtract_factors(void *ctx, int64_t item, int worker)
{
    const struct rest *s = ctx;
    int64_t cols = s->view->cols, r0 = item * ROWS_PER_ITEM, r1 = r0 + ROWS_PER_ITEM;
    (void)worker;
    if (r1 > s->view->rows) r1 = s->view->rows;
    for (int64_t r = r0; r < r1; r++) {
        float *out = s->out + r * cols;
        if (s->W != s->out) memcpy(out, s->W + r * cols, (uint64_t)cols * sizeof *out);
        for (int64_t k = 0; k < s->view->rank; k++) {
            float a = fg_qmat_lr_a(s->view, r, k);
            const float *b = s->B + k * cols;
            for (int64_t j = 0; j < cols; j++)
                out[j] -= a * b[j];
        }
        if (s->row_energy) s->row_energy[r] = energy_of(out, cols);
    }
}

static void run(const struct loftq *l, struct rest *s, fg_job_fn fn)
{
    fg_pool_run(l->f->q->o.pool, (l->f->m->rows + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM, fn, s);
}

static double sum_rows(const struct loftq *l)
{
    double sum = 0;
    for (int64_t r = 0; r < l->f->m->rows; r++)
        sum += l->row_energy[r];
    return sum;
}

// T = from - A B of an iterate, with its rows' energies.
static void without_factors(struct loftq *l, const float *from,
                            const struct fg_quantize_result *now)
{
    const struct fg_plan_mat *m = l->f->m;
    const struct fg_qmat factors = {.rows = m->rows,
                                    .cols = m->cols,
                                    .rank = m->rank,
                                    .lr_dtype = m->lr_dtype,
                                    .lr_a = now->lr_a,
                                    .lr_b = now->lr_b,
                                    .lr_scale = now->lr_scale};
    fg_qmat_lr_b(l->B, &factors);
    struct rest s = {
        .view = &factors, .W = from, .out = l->T, .B = l->B, .row_energy = l->row_energy};
    run(l, &s, subtract_factors);
}

// Factors of E = W - Q in T, and the error that they leave, into now->log.
static int fit_factors(struct loftq *l, struct fg_quantize_result *now, double *error,
                       struct fg_error *err)
{
    struct fg_fitter *f = l->f;
    const struct fg_plan_mat *m = f->m;
    const struct fg_quantize *q = f->q;
    const struct fg_hessian *H = f->site ? f->site->H : NULL;
    const struct fg_lowrank_options lo = {.name = m->name,
                                          .seed = q->o.kmeans_seed,
                                          .fit = q->o.lr_fit,
                                          .diag = H ? q->factor.diag : NULL,
                                          .H = H ? H->H : NULL,
                                          .balanced = q->o.lr_balanced,
                                          .pool = q->o.pool};
    const double energy = sum_rows(l);
    double before = H ? fg_hessian_error(H, l->T, m->rows, NULL, q->o.pool) : energy, left = 1;
    int rc = fg_lowrank_svd(now->lr_a, now->lr_b, now->lr_scale, &left, l->T, m->rows, m->cols,
                            m->rank, &lo, err);
    if (rc) return rc;
    if (H) {
        without_factors(l, l->T, now);
        *error = fg_hessian_error(H, l->T, m->rows, NULL, q->o.pool);
        now->log.lr_left = before > 0 ? *error / before : 1;
        now->log.err_h = *error;
        now->log.rel_err_h = *error / l->signal_h;
        now->log.weight_snr_db = fg_fit_snr_db(&(struct fg_fit_error){l->signal, sum_rows(l)});
    } else {
        *error = energy > 0 ? energy * left : 0;
        now->log.lr_left = energy > 0 ? left : 1;
        now->log.weight_snr_db = fg_fit_snr_db(&(struct fg_fit_error){l->signal, *error});
    }
    return 0;
}

// One iteration: rounds T, which is W - A B of the last iterate, and fits factors to what is left.
// They stay in `now` for the next one.
static int iterate(struct loftq *l, struct fg_quantize_result *now, bool first,
                   struct fg_error *err)
{
    struct fg_fitter *f = l->f;
    const struct fg_plan_mat *m = f->m;
    struct fg_gptq_stats stats = {0};
    double error = 0;
    fg_fit_free(&now->fit);
    int rc = fg_quantize_round(f, l->T, first, &now->fit, &stats, err);
    if (!rc) rc = fg_quantize_tick(f->q, NULL, err);
    if (rc) return rc;
    if (first && f->site) {
        l->signal_h = stats.signal;
        now->log.rel_err_h_rtn = stats.error_rtn / stats.signal;
    }
    struct fg_qmat view = fg_fit_view(&now->fit);
    struct rest s = {.view = &view, .W = f->W, .out = l->T, .row_energy = l->row_energy};
    run(l, &s, subtract_quantized);
    rc = fit_factors(l, now, &error, err);
    if (rc) return rc;
    if (l->best->fit.data && !(error < l->least)) return 0;

    // The iterate is kept: its matrix moves, its factors are needed here too.
    const uint64_t bytes = (uint64_t)m->rank * fg_lr_dtype_bytes(m->lr_dtype);
    struct fg_quantize_result *best = l->best;
    fg_fit_free(&best->fit);
    best->fit = now->fit;
    now->fit = (struct fg_fit_result){0};
    memcpy(best->lr_a, now->lr_a, bytes * (uint64_t)m->rows);
    memcpy(best->lr_b, now->lr_b, bytes * (uint64_t)m->cols);
    if (now->lr_scale)
        memcpy(best->lr_scale, now->lr_scale, (uint64_t)m->rank * sizeof *now->lr_scale);
    memcpy(now->log.source_sha256, best->log.source_sha256, sizeof now->log.source_sha256);
    best->log = now->log;
    l->least = error;
    return 0;
}

static int make_factors(struct fg_quantize_result *r, const struct fg_plan_mat *m,
                        struct fg_error *err)
{
    const uint64_t bytes = (uint64_t)m->rank * fg_lr_dtype_bytes(m->lr_dtype);
    const bool int8 = m->lr_dtype == FG_LR_I8;
    r->lr_a = calloc((uint64_t)m->rows, bytes);
    r->lr_b = calloc((uint64_t)m->cols, bytes);
    if (int8) r->lr_scale = calloc((uint64_t)m->rank, sizeof *r->lr_scale);
    return r->lr_a && r->lr_b && (r->lr_scale || !int8)
               ? 0
               : fg_fail_memory(err, FG_QUANTIZE_WHAT, m->factor_bytes);
}

static double squared_norm(const struct fg_fitter *f)
{
    double sum = 0;
    for (int64_t r = 0; r < f->m->rows; r++)
        sum += energy_of(f->W + r * f->m->cols, f->m->cols);
    return sum;
}

int fg_quantize_factors(struct fg_fitter *f, struct fg_quantize_result *out, struct fg_error *err)
{
    const struct fg_plan_mat *m = f->m;
    uint64_t n = (uint64_t)m->rows * (uint64_t)m->cols; // the list's sizes were checked
    struct fg_quantize_result now = {.log = fg_quantize_log_empty()};
    struct loftq l = {.f = f, .best = out};
    l.T = fg_alloc_aligned(n * sizeof *l.T);
    l.B = fg_alloc_aligned((uint64_t)m->rank * (uint64_t)m->cols * sizeof *l.B);
    l.row_energy = calloc((uint64_t)m->rows, sizeof *l.row_energy);
    int rc = l.T && l.B && l.row_energy ? 0 : fg_fail_memory(err, FG_QUANTIZE_WHAT, 4 * n);
    if (!rc) rc = make_factors(&now, m, err);
    if (!rc) rc = make_factors(out, m, err);
    if (!rc) {
        memcpy(l.T, f->W, n * sizeof *f->W);
        l.signal = squared_norm(f);
    }
    for (int i = 0; i < f->q->o.lr_iters && !rc; i++) {
        if (i > 0) without_factors(&l, f->W, &now);
        rc = iterate(&l, &now, i == 0, err);
    }
    fg_quantize_result_free(&now);
    free(l.T);
    free(l.B);
    free(l.row_energy);
    return rc;
}
