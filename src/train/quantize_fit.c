// train/quantize_fit.c: one matrix: read, rotate, round (specs: quantization 2, 3, 4.1). Factors
// are quantize_factors.c's.
#include "base/arena.h"
#include "base/num.h"
#include "base/size.h"
#include "quant/signs.h"
#include "train/quantize_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define READ_BYTES (16ull << 20) // of the source between two releases of its pages
#define ROWS_PER_ITEM 32         // even: pairs of rows stay together
#define FIT_BYTES (48ull << 20)  // samples and their distances, at the most

struct fg_qmat fg_quantize_view(const struct fg_plan_mat *m, const struct fg_quantize_result *r)
{
    struct fg_qmat view = fg_fit_view(&r->fit);
    view.rank = m->rank;
    view.lr_dtype = m->lr_dtype;
    view.lr_a = r->lr_a;
    view.lr_b = r->lr_b;
    view.lr_scale = r->lr_scale;
    return view;
}

void fg_quantize_result_free(struct fg_quantize_result *r)
{
    fg_fit_free(&r->fit);
    free(r->lr_a);
    free(r->lr_b);
    free(r->lr_scale);
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

int fg_quantize_read(struct fg_quantize *q, const struct fg_plan_mat *m, float **W,
                     char sha256[FG_SHA256_HEX], struct fg_error *err)
{
    const uint64_t n = (uint64_t)m->rows * (uint64_t)m->cols; // the list's sizes were checked
    *W = fg_alloc_aligned(n * sizeof **W);
    if (!*W) return fg_fail_memory(err, FG_QUANTIZE_WHAT, n * sizeof **W);
    int rc = read_matrix(q, m, *W, sha256, err);
    if (!rc) rc = rotate(q, m, *W, err);
    if (!rc) return 0;
    free(*W);
    *W = NULL;
    return rc;
}

// ---- rounding

struct fg_fit_options fg_quantize_fit_options(const struct fg_quantize *q,
                                              const struct fg_plan_mat *m)
{
    struct fg_fit_options fit = fg_fit_defaults(m->name, q->o.kernels, q->o.pool);
    fit.seed = q->o.kmeans_seed;
    fit.row_weight = q->o.row_weight;
    return fit;
}

int fg_quantize_round(struct fg_fitter *f, const float *T, bool want_rtn, struct fg_fit_result *out,
                      struct fg_gptq_stats *stats, struct fg_error *err)
{
    const struct fg_plan_mat *m = f->m;
    const struct fg_quantize_options *o = &f->q->o;
    if (!f->site) return fg_fit_rtn(out, m->format, T, m->rows, m->cols, &f->fit, err);
    const struct fg_gptq_options g = {
        .fit = f->fit, .aw = o->aw, .block = FG_QUANTIZE_BLOCK, .refine = o->refine};
    return fg_gptq(out, stats, want_rtn, m->format, T, m->rows, m->cols, f->site->H, &f->q->factor,
                   NULL, &g, err);
}

// W in the format alone.
static int fit_plain(struct fg_fitter *f, struct fg_quantize_result *out, struct fg_error *err)
{
    struct fg_gptq_stats stats = {0};
    int rc = fg_quantize_round(f, f->W, true, &out->fit, &stats, err);
    if (rc) return rc;
    out->log.weight_snr_db = fg_fit_snr_db(&out->fit.e);
    if (!f->site) return 0;
    out->log.err_h = stats.error;
    out->log.rel_err_h = stats.error / stats.signal;
    out->log.rel_err_h_rtn = stats.error_rtn / stats.signal;
    return 0;
}

int fg_quantize_site(struct fg_quantize *q, const struct fg_plan_mat *m, struct fg_walk_site *site,
                     struct fg_error *err)
{
    int rc = fg_walk_site(q->walk, m, site, err);
    if (rc || (q->factor.n == m->cols && q->factor_serial == site->serial)) return rc;
    fg_gptq_factor_free(&q->factor);
    rc = fg_gptq_factorize(&q->factor, site->H, q->o.order, q->o.damp, m->name, q->o.pool, err);
    q->factor_serial = rc ? -1 : site->serial;
    if (!rc && q->factor.damp != q->o.damp)
        fg_log_warn(q->o.log, "%s: H could be factored with a damping of %g only", m->name,
                    q->factor.damp);
    return rc;
}

uint64_t fg_quantize_fit_bytes(const struct fg_quantize *q, const struct fg_plan_mat *m)
{
    uint64_t n = (uint64_t)m->rows * (uint64_t)m->cols, rank = (uint64_t)m->rank;
    uint64_t cols = (uint64_t)m->cols;
    uint64_t peak = 4 * n + FIT_BYTES;
    // T, a second result, factors twice and widened, and FP64 work of the decomposition.
    if (rank)
        peak += 4 * n + m->bytes + 2 * m->factor_bytes +
                32 * (rank + 16) * (uint64_t)(m->rows + m->cols);
    if (m->lr_dtype == FG_LR_I8) // the second factor's least squares
        peak += 16 * rank * (uint64_t)(m->rows + m->cols);
    // The factor of H beside H, or then U with what is being rounded.
    if (q->o.method == FG_QUANTIZE_GPTQ) {
        uint64_t factoring = fg_gptq_factorize_bytes(m->cols),
                 rounding =
                     4 * cols * cols +
                     fg_gptq_bytes(m->rows, m->cols, fg_pool_threads(q->o.pool), q->o.refine > 0);
        peak += factoring > rounding ? factoring : rounding;
    }
    return peak > READ_BYTES ? peak + READ_BYTES : 2 * READ_BYTES;
}

int fg_quantize_fit(struct fg_quantize *q, const struct fg_plan_mat *m,
                    struct fg_quantize_result *out, struct fg_error *err)
{
    struct fg_fitter f = {.q = q, .m = m};
    struct fg_walk_site site;
    float *W = NULL;
    int rc = 0;
    *out = (struct fg_quantize_result){.log = fg_quantize_log_empty()};
    f.fit = fg_quantize_fit_options(q, m);
    if (q->walk && !fg_qformat_is_kept(m->format)) {
        rc = fg_quantize_site(q, m, &site, err);
        f.site = &site;
    }
    if (!rc) rc = fg_quantize_read(q, m, &W, out->log.source_sha256, err);
    f.W = W;
    if (!rc) rc = fg_quantize_tick(q, NULL, err);
    if (!rc) rc = m->rank > 0 ? fg_quantize_factors(&f, out, err) : fit_plain(&f, out, err);
    if (!rc && f.site) {
        out->log.damp = q->factor.damp;
        rc = fg_quantize_held(&f, out, &out->log.held_snr_db, NULL, err);
    }
    free(W);
    if (rc) fg_quantize_result_free(out);
    return rc;
}
