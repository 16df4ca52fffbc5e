// train/quantize_embed.c: embeddings that are not F16 (quant/plan.h, "embed"): the file of one in
// INT8, and the rows that the calibration stream starts from.
#include "base/arena.h"
#include "base/file.h"
#include "base/size.h"
#include "forge/forge.h"
#include "format/embedding.h"
#include "train/quantize_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES (8ull << 20) // of a chunk of rows in FP32
#define F16_MAX 65504.0f

// ---- the file of one in INT8

struct chunk {
    struct fg_quantize *q;
    const struct fg_quant_tensor *t;
    struct fg_fit_options fit;
    uint8_t *raw;
    float *wide; // [step][cols]
    int8_t *codes;
    uint16_t *scale; // [rows] of all
};

static int check_rows(const struct chunk *c, uint64_t first, uint64_t n, struct fg_error *err)
{
    for (uint64_t i = 0; i < n * c->t->cols; i++) {
        if (fabsf(c->wide[i]) <= 127 * F16_MAX) continue; // also false for NaN
        char field[160];
        snprintf(field, sizeof field, "%s[%" PRIu64 "]", c->t->name, first + i / c->t->cols);
        return fg_fail(err, FG_EINPUT, FG_QUANTIZE_WHAT, c->t->file, field,
                       "finite values whose scale F16 holds", "another value");
    }
    return 0;
}

static int round_rows(struct chunk *c, uint64_t r, uint64_t n, struct fg_st_stream *s,
                      struct fg_error *err)
{
    const struct fg_quant_tensor *t = c->t;
    struct fg_quantize *q = c->q;
    int rc = fg_quantize_tick(q, NULL, err);
    if (!rc) rc = fg_quant_source_read(&q->source, t, r, r + n, c->raw, err);
    if (rc) return rc;
    q->o.kernels->widen(c->wide, c->raw, t->dtype, (int64_t)(n * t->cols));
    rc = check_rows(c, r, n, err);
    if (!rc)
        rc = fg_fit_scales(c->scale + r, FG_Q_INT8, c->wide, (int64_t)n, (int64_t)t->cols, &c->fit,
                           err);
    if (!rc)
        rc = fg_fit_round((uint8_t *)c->codes, NULL, FG_Q_INT8, c->wide, c->scale + r, NULL,
                          (int64_t)n, (int64_t)t->cols, &c->fit, err);
    if (!rc) rc = fg_st_stream_add(s, c->codes, n * t->cols, err);
    fg_quant_source_release(&q->source, t, r, r + n);
    q->done_bytes += n * t->cols * fg_dtype_bytes(t->dtype);
    return rc;
}

int fg_quantize_write_embed_int8(struct fg_quantize *q, const char *path, uint64_t *bytes,
                                 struct fg_error *err)
{
    struct fg_quant_tensor t;
    struct fg_st_stream *s = NULL;
    struct fg_st_written written;
    int rc = fg_quantize_tick(q, "embed_tokens", err);
    if (!rc) rc = fg_quant_source_find(&q->source, "embed_tokens", true, &t, err);
    if (!rc) rc = fg_embedding_int8_stream(&s, path, t.rows, t.cols, forge_version(), err);
    if (rc) return rc;
    const uint64_t row_bytes = t.cols * sizeof(float);
    const uint64_t step = row_bytes < CHUNK_BYTES ? CHUNK_BYTES / row_bytes : 1;
    struct chunk c = {.q = q,
                      .t = &t,
                      .fit = fg_fit_defaults("embed_tokens", q->o.kernels, q->o.pool),
                      .raw = malloc(step * row_bytes),
                      .wide = fg_alloc_aligned(step * row_bytes),
                      .codes = malloc(step * t.cols),
                      .scale = calloc(t.rows, sizeof *c.scale)};
    if (!c.raw || !c.wide || !c.codes || !c.scale)
        rc = fg_fail_memory(err, FG_QUANTIZE_WHAT, step * row_bytes);
    for (uint64_t r = 0; r < t.rows && !rc; r += step)
        rc = round_rows(&c, r, t.rows - r < step ? t.rows - r : step, s, err);
    if (!rc) rc = fg_st_stream_add(s, c.scale, t.rows * sizeof *c.scale, err);
    free(c.raw);
    free(c.wide);
    free(c.codes);
    free(c.scale);
    if (rc)
        fg_st_stream_abort(s);
    else
        rc = fg_st_stream_commit(s, &written, err);
    if (!rc) *bytes = written.bytes;
    return rc;
}

// ---- what the stream starts from

static const struct fg_plan_mat *head_of(const struct fg_quantize *q)
{
    return &q->list.mats[q->list.n - 1];
}

bool fg_quantize_head_first(const struct fg_quantize *q)
{
    return q->list.embed == FG_PLAN_EMBED_HEAD && q->chosen[q->list.n - 1] &&
           q->o.method == FG_QUANTIZE_GPTQ && !q->o.source_stream;
}

int fg_quantize_head_kept(const struct fg_quantize *q, bool *found, struct fg_error *err)
{
    struct fg_quantize_result r = {0};
    int rc = fg_quantize_load_mat(q, head_of(q), &r, found, err);
    fg_quantize_result_free(&r);
    return rc;
}

int fg_quantize_open_rows(struct fg_quantize *q, struct fg_quantize_rows *out, struct fg_error *err)
{
    *out = (struct fg_quantize_rows){0};
    if (q->walked > 0 || q->o.source_stream) return 0;
    if (fg_quantize_head_first(q)) {
        bool found;
        int rc = fg_quantize_load_mat(q, head_of(q), &out->head, &found, err);
        if (!rc && !found)
            rc = fg_fail(err, FG_EINTEGRITY, FG_QUANTIZE_WHAT, q->o.output, "state/lm_head",
                         "the head that was just quantized", "none");
        if (rc) return rc;
        out->m = fg_fit_view(&out->head.fit);
        out->given = true;
    } else if (q->list.embed == FG_PLAN_EMBED_INT8 && q->info.whole) {
        char *path = fg_path_join(q->o.output, FG_QUANTIZE_EMBED_FILE);
        int rc = path ? fg_embedding_int8_open(&out->int8, path, true, err)
                      : fg_fail_memory(err, FG_QUANTIZE_WHAT, 0);
        free(path);
        if (!rc && (out->int8.vocab != q->source.config->vocab ||
                    out->int8.hidden != q->source.config->hidden))
            rc = fg_fail(err, FG_EINTEGRITY, FG_QUANTIZE_WHAT, out->int8.path, FG_EMBEDDING_CODES,
                         "the shape of the model's embedding", "another");
        if (rc) return rc;
        out->m = (struct fg_qmat){.format = FG_Q_INT8,
                                  .rows = out->int8.vocab,
                                  .cols = out->int8.hidden,
                                  .codes = out->int8.codes,
                                  .scale = (const void *)out->int8.scale};
        out->given = true;
    }
    return 0;
}

void fg_quantize_close_rows(struct fg_quantize_rows *r)
{
    fg_quantize_result_free(&r->head);
    fg_embedding_int8_close(&r->int8);
    r->given = false;
}
