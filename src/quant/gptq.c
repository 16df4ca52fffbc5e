// quant/gptq.c: one matrix from scales to statistics. The pass is gptq_round.c's, refinement
// gptq_refine.c's; errors are measured from what is stored, a few rows at a time.
#include "quant/gptq.h"
#include "quant/dequant.h"
#include "quant/gptq_impl.h"
#include "quant/jobs.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define CHUNK 2048 // rows whose errors are in memory
#define ROWS_PER_ITEM 8
#define BLOCK 128
#define PANELS_MAX 4

struct measuring {
    const struct fg_qmat *m;
    const float *W;
    int64_t rows, row0; // of the chunk
    float *E;           // [rows][cols]
    double (*sum)[2];   // [rows] signal, noise
};

static void measure_item(void *ctx, int64_t item, int worker)
{
    const struct measuring *c = ctx;
    const int64_t cols = c->m->cols;
    (void)worker;
    for (int64_t r = item * ROWS_PER_ITEM; r < (item + 1) * ROWS_PER_ITEM && r < c->rows; r++) {
        const float *w = c->W + (c->row0 + r) * cols;
        float *e = c->E + r * cols;
        fg_qmat_dequantize(e, c->m, c->row0 + r, c->row0 + r + 1);
        fg_fit_compare(c->sum[r], w, 1.0f, e, cols);
        for (int64_t j = 0; j < cols; j++)
            e[j] = w[j] - e[j];
    }
}

// Of what m stores for W: the plain error, and tr(E H E^T) into *trace (may be NULL).
static int measure(struct fg_fit_error *e, double *trace, const struct fg_qmat *m, const float *W,
                   const struct fg_hessian *h, struct fg_pool *pool, struct fg_error *err)
{
    const int64_t most = m->rows < CHUNK ? m->rows : CHUNK;
    struct measuring c = {.m = m, .W = W};
    c.E = malloc((size_t)(most * m->cols) * sizeof *c.E);
    c.sum = malloc((size_t)most * sizeof *c.sum);
    int rc = 0;
    if (!c.E || !c.sum) rc = fg_fail_memory(err, "errors", (uint64_t)(most * m->cols) * 4);
    *e = (struct fg_fit_error){0};
    if (trace) *trace = 0;
    for (; c.row0 < m->rows && !rc; c.row0 += most) {
        c.rows = m->rows - c.row0 < most ? m->rows - c.row0 : most;
        fg_job_run(pool, (c.rows + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM, measure_item, &c);
        for (int64_t r = 0; r < c.rows; r++) {
            e->signal += c.sum[r][0];
            e->noise += c.sum[r][1];
        }
        if (!trace) continue;
        const double part = fg_hessian_error(h, c.E, c.rows, NULL, pool);
        if (isnan(part)) rc = fg_fail_memory(err, "errors", (uint64_t)c.rows * 8);
        *trace += part;
    }
    free(c.E);
    free(c.sum);
    return rc;
}

// tr(W H W^T).
static int measure_signal(double *signal, const float *W, int64_t rows, const struct fg_hessian *h,
                          struct fg_pool *pool, struct fg_error *err)
{
    *signal = fg_hessian_error(h, W, rows, NULL, pool);
    return isnan(*signal) ? fg_fail_memory(err, "errors", (uint64_t)rows * 8) : 0;
}

static int run(struct fg_fit_result *out, struct fg_gptq_stats *stats, bool want_rtn,
               const float *W, const struct fg_hessian *h, const struct fg_gptq_factor *factor,
               const struct fg_gptq_options *o, const struct fg_fit_options *fit,
               struct fg_error *err)
{
    struct fg_gptq_job job = {.fit = fit,
                              .W = W,
                              .scale = out->scale,
                              .data = out->data,
                              .rows = out->rows,
                              .cols = out->cols};
    const struct fg_qmat m = fg_fit_view(out);
    // Enough items for every thread, and then as many panels as share U.
    const int64_t panels = fg_gptq_panels(&job) / (4 * fg_job_threads(fit->pool));
    job.panels = panels < 1 ? 1 : panels > PANELS_MAX ? PANELS_MAX : panels;
    fg_rounder_init(&job.rounder, out->format, out->lut, fit->kernels);
    int rc;
    if (want_rtn) {
        if ((rc = fg_fit_round(out->data, NULL, out->format, W, out->scale, out->lut, out->rows,
                               out->cols, fit, err)))
            return rc;
        if ((rc = measure(&out->e, &stats->error_rtn, &m, W, h, fit->pool, err))) return rc;
    }
    if ((rc = fg_gptq_round(&job, factor, o->block > 0 ? o->block : BLOCK, err))) return rc;
    if ((rc = measure(&out->e, stats ? &stats->error : NULL, &m, W, h, fit->pool, err))) return rc;
    if (stats) stats->error_pass = stats->error;
    if (o->refine <= 0) return 0;
    int64_t moved;
    if ((rc = fg_gptq_refine(&job, &moved, h, factor->perm, o->refine, err))) return rc;
    if (stats) stats->moved = moved;
    return measure(&out->e, stats ? &stats->error : NULL, &m, W, h, fit->pool, err);
}

int fg_gptq(struct fg_fit_result *out, struct fg_gptq_stats *stats, bool want_rtn,
            enum fg_qformat f, const float *W, int64_t rows, int64_t cols,
            const struct fg_hessian *h, const struct fg_gptq_factor *factor, const uint16_t *table,
            const struct fg_gptq_options *o, struct fg_error *err)
{
    struct fg_fit_options fit = o->fit;
    assert(h->n == cols && factor->n == cols);
    fit.col_weight = o->aw ? factor->diag : NULL;
    fit.row_importance = o->row_importance;
    if (stats) *stats = (struct fg_gptq_stats){.error_rtn = NAN};
    int rc;
    if (fg_qformat_is_kept(f)) {
        if ((rc = fg_fit_rtn(out, f, W, rows, cols, &fit, err))) return rc;
        const struct fg_qmat m = fg_fit_view(out);
        if (stats) rc = measure(&out->e, &stats->error, &m, W, h, fit.pool, err);
        if (stats) stats->error_pass = stats->error;
        if (stats && want_rtn) stats->error_rtn = stats->error;
    } else {
        if ((rc = fg_fit_start(out, f, W, rows, cols, table, &fit, err))) return rc;
        rc = run(out, stats, want_rtn && stats, W, h, factor, o, &fit, err);
    }
    if (!rc && stats) rc = measure_signal(&stats->signal, W, rows, h, fit.pool, err);
    if (rc) fg_fit_free(out);
    return rc;
}
