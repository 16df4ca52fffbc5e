// quant/gptq.c: one matrix from scales to statistics. The pass is gptq_round.c's, refinement
// gptq_refine.c's; errors are measured from what is stored, a few rows at a time.
#include "quant/gptq.h"
#include "quant/dequant.h"
#include "quant/gptq_impl.h"
#include "quant/jobs.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

// Of what m stores for W: the plain error, and tr(E H E^T) into *trace (may be NULL), per row into
// row_error [rows] (may be NULL).
static int measure(struct fg_fit_error *e, double *trace, double *row_error,
                   const struct fg_qmat *m, const float *W, const struct fg_hessian *h,
                   struct fg_pool *pool, struct fg_error *err)
{
    const int64_t most = m->rows < CHUNK ? m->rows : CHUNK;
    struct measuring c = {.m = m, .W = W};
    c.E = malloc((size_t)(most * m->cols) * sizeof *c.E);
    c.sum = calloc((size_t)most, sizeof *c.sum);
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
        const double part =
            fg_hessian_error(h, c.E, c.rows, row_error ? row_error + c.row0 : NULL, pool);
        if (isnan(part)) rc = fg_fail_memory(err, "errors", (uint64_t)c.rows * 8);
        *trace += part;
    }
    free(c.E);
    free(c.sum);
    return rc;
}

// ---- what refinement did

struct settling {
    const struct fg_gptq_job *job;
    const uint8_t *before;     // data of the pass
    const double *was, *now;   // [rows] errors of the pass and now
    const float *importance;   // of rows; or NULL
    int64_t *moved, *returned; // per item: new codes, and index rows that got worse
    uint8_t *scratch;          // two rows of codes per thread
};

static void settle_item(void *ctx, int64_t item, int worker)
{
    const struct settling *s = ctx;
    const struct fg_gptq_job *job = s->job;
    const int64_t cols = job->cols, bytes = fg_gptq_row_bytes(job);
    const int d = fg_qformat_rows_per_index(job->rounder.format);
    uint8_t *a = s->scratch + worker * 2 * cols, *b = a + cols;
    s->moved[item] = s->returned[item] = 0;
    for (int64_t g = item * ROWS_PER_ITEM; g < (item + 1) * ROWS_PER_ITEM && g < job->rows / d;
         g++) {
        double gain = 0;
        for (int64_t r = d * g; r < d * g + d; r++)
            gain += (s->was[r] - s->now[r]) * (s->importance ? (double)s->importance[r] : 1);
        if (!(gain >= 0)) {
            memcpy(job->data + g * bytes, s->before + g * bytes, (size_t)bytes);
            s->returned[item]++;
            continue;
        }
        fg_gptq_unpack(a, s->before + g * bytes, job);
        fg_gptq_unpack(b, job->data + g * bytes, job);
        for (int64_t j = 0; j < cols; j++)
            s->moved[item] += a[j] != b[j];
    }
}

// Refines, and takes back what an index row is worse off with. *e and the errors of *stats, which
// are asked for, become those of what is stored.
static int refine(const struct fg_gptq_job *job, struct fg_gptq_stats *stats,
                  struct fg_fit_error *e, const struct fg_qmat *m, const struct fg_hessian *h,
                  const struct fg_gptq_factor *factor, int sweeps, struct fg_error *err)
{
    struct fg_pool *pool = job->fit->pool;
    const int64_t groups = job->rows / fg_qformat_rows_per_index(job->rounder.format),
                  items = (groups + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM;
    const size_t data_bytes = (size_t)(groups * fg_gptq_row_bytes(job));
    double *errors = calloc((size_t)job->rows, 2 * sizeof *errors);
    int64_t *counts = malloc((size_t)items * 2 * sizeof *counts), returned = 0;
    uint8_t *before = malloc(data_bytes);
    struct settling s = {.job = job, .before = before, .was = errors, .moved = counts};
    s.scratch = malloc((size_t)(fg_job_threads(pool) * 2 * job->cols));
    s.importance = job->fit->row_weight ? job->fit->row_importance : NULL;
    int rc = 0;
    if (!errors || !counts || !before || !s.scratch) {
        rc = fg_fail_memory(err, "refinement", data_bytes);
        goto end;
    }
    memcpy(before, job->data, data_bytes);
    s.now = errors + job->rows;
    s.returned = counts + items;
    if ((rc = measure(e, &stats->error_pass, errors, m, job->W, h, pool, err))) goto end;
    if ((rc = fg_gptq_refine(job, h, factor, sweeps, err))) goto end;
    if ((rc = measure(e, &stats->error, errors + job->rows, m, job->W, h, pool, err))) goto end;
    fg_job_run(pool, items, settle_item, &s);
    for (int64_t i = 0; i < items; i++) {
        stats->moved += s.moved[i];
        returned += s.returned[i];
    }
    if (returned) rc = measure(e, &stats->error, NULL, m, job->W, h, pool, err);
end:
    free(errors);
    free(counts);
    free(before);
    free(s.scratch);
    return rc;
}

// ---- everything

// The pass and what is to follow it, for a result whose scales and table are there. traced: the
// errors of *stats are wanted.
static int round_matrix(struct fg_fit_result *out, struct fg_gptq_stats *stats, bool traced,
                        bool want_rtn, const float *W, const struct fg_hessian *h,
                        const struct fg_gptq_factor *factor, const struct fg_gptq_options *o,
                        const struct fg_fit_options *fit, struct fg_error *err)
{
    struct fg_gptq_job job = {.fit = fit,
                              .W = W,
                              .scale = out->scale,
                              .data = out->data,
                              .rows = out->rows,
                              .cols = out->cols};
    const struct fg_qmat m = fg_fit_view(out);
    // Two items for every thread at least; beyond that, panels that share what they read of U and
    // H.
    const int64_t panels = fg_gptq_panels(&job) / (2 * fg_job_threads(fit->pool));
    job.panels = panels < 1 ? 1 : panels > PANELS_MAX ? PANELS_MAX : panels;
    fg_rounder_init(&job.rounder, out->format, out->lut, fit->kernels);
    int rc;
    if (traced && want_rtn) {
        if ((rc = fg_fit_round(out->data, NULL, out->format, W, out->scale, out->lut, out->rows,
                               out->cols, fit, err)))
            return rc;
        if ((rc = measure(&out->e, &stats->error_rtn, NULL, &m, W, h, fit->pool, err))) return rc;
    }
    if ((rc = fg_gptq_round(&job, factor, o->block > 0 ? o->block : BLOCK, err))) return rc;
    if (o->refine > 0) return refine(&job, stats, &out->e, &m, h, factor, o->refine, err);
    rc = measure(&out->e, traced ? &stats->error : NULL, NULL, &m, W, h, fit->pool, err);
    stats->error_pass = stats->error;
    return rc;
}

uint64_t fg_gptq_bytes(int64_t rows, int64_t cols, int threads, bool refine)
{
    const uint64_t N = (uint64_t)cols, R = (uint64_t)rows,
                   chunk = (R < CHUNK ? R : CHUNK) * (N * sizeof(float) + 2 * sizeof(double)),
                   sums = (N / 512 + 1) * R * sizeof(double), // of fg_hessian_error
        panels = PANELS_MAX * N * FG_LANES * (sizeof(float) * (refine ? 2 : 1) + 1);
    // Refining keeps the indices of the pass, at most a byte for each weight, and errors of rows.
    const uint64_t before = refine ? N * R + 2 * R * sizeof(double) : 0;
    return chunk + sums + before + (uint64_t)threads * (panels + FG_GPTQ_SMALL_BYTES);
}

int fg_gptq(struct fg_fit_result *out, struct fg_gptq_stats *stats, bool want_rtn,
            enum fg_qformat f, const float *W, int64_t rows, int64_t cols,
            const struct fg_hessian *h, const struct fg_gptq_factor *factor, const uint16_t *table,
            const struct fg_gptq_options *o, struct fg_error *err)
{
    struct fg_fit_options fit = o->fit;
    struct fg_gptq_stats s = {.error_rtn = NAN};
    assert(h->n == cols && factor->n == cols);
    fit.col_weight = o->aw ? factor->diag : NULL;
    fit.row_importance = o->row_importance;
    int rc;
    if (fg_qformat_is_kept(f)) {
        if ((rc = fg_fit_rtn(out, f, W, rows, cols, &fit, err))) return rc;
        const struct fg_qmat m = fg_fit_view(out);
        if (stats) rc = measure(&out->e, &s.error, NULL, &m, W, h, fit.pool, err);
        s.error_pass = s.error;
        if (want_rtn) s.error_rtn = s.error;
    } else {
        if ((rc = fg_fit_start(out, f, W, rows, cols, table, &fit, err))) return rc;
        rc = round_matrix(out, &s, stats != NULL, want_rtn, W, h, factor, o, &fit, err);
    }
    if (!rc && stats) {
        s.signal = fg_hessian_error(h, W, rows, NULL, fit.pool);
        if (isnan(s.signal)) rc = fg_fail_memory(err, "errors", (uint64_t)rows * sizeof(double));
        *stats = s;
    }
    if (rc) fg_fit_free(out);
    return rc;
}
