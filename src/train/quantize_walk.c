// train/quantize_walk.c: the calibration rows beside a quantization by GPTQ: opening them, taking
// them through the layers as these are finished, and what a later run goes on from (specs:
// quantization 4.2, 4.5).
#include "base/file.h"
#include "model/model.h"
#include "train/quantize_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// A head that serves as the embedding too has errors in two places. As a head they count by the H
// of its inputs; as an embedding all columns count alike. GPTQ minimizes by H + a mean(diag H) I,
// which is H / mean(diag H) + a I but for a factor; this is a.
#define HEAD_RIDGE 0.25

int fg_quantize_open_calib(struct fg_quantize *q, struct fg_error *err)
{
    const struct fg_quantize_options *o = &q->o;
    const struct fg_calib_options co = {.sources = o->calib,
                                        .n_sources = o->n_calib,
                                        .model = o->model,
                                        .vocab = q->source.config->vocab,
                                        .seq = o->seq,
                                        .rows = o->calib_rows,
                                        .holdout = o->holdout,
                                        .log = o->log};
    if (o->n_calib < 1) {
        int rc = fg_fail(err, FG_EINPUT, FG_QUANTIZE_WHAT, NULL, "--calib",
                         "calibration rows or texts for --method gptq", "none");
        fg_error_hint(err, "--calib ROWS.safetensors, --text FILE, or --method rtn");
        return rc;
    }
    if (o->seq > q->source.config->max_positions)
        return fg_fail_range(err, FG_QUANTIZE_WHAT, NULL, "--seq", 2,
                             q->source.config->max_positions, o->seq);
    int rc = fg_calib_open(&q->calib, &co, err);
    if (rc) return rc;
    q->info.calib_rows = q->calib.n;
    q->info.calib_tokens = q->calib.tokens;
    q->info.held_rows = q->calib.n_held;
    for (uint64_t i = 0; i < q->list.n; i++) {
        if (q->list.mats[i].cols > q->info.widest) q->info.widest = q->list.mats[i].cols;
    }
    q->mlp_snr_db = malloc((uint64_t)q->source.config->n_layers * sizeof *q->mlp_snr_db);
    if (!q->mlp_snr_db) return fg_fail_memory(err, FG_QUANTIZE_WHAT, 0);
    for (int64_t i = 0; i < q->source.config->n_layers; i++)
        q->mlp_snr_db[i] = NAN;
    return 0;
}

void fg_quantize_close_walk(struct fg_quantize *q)
{
    fg_walk_free(q->walk);
    q->walk = NULL;
    fg_gptq_factor_free(&q->factor);
    fg_model_close(q->dense);
    q->dense = NULL;
    fg_calib_free(&q->calib);
    free(q->mlp_snr_db);
    q->mlp_snr_db = NULL;
}

static int on_tick(void *ctx, const char *item, struct fg_error *err)
{
    return fg_quantize_tick(ctx, item, err);
}

static char *residual_path(const struct fg_quantize *q, int64_t layer, struct fg_error *err)
{
    char name[48];
    snprintf(name, sizeof name, "state/h-%02" PRId64 ".safetensors", layer);
    char *path = fg_path_join(q->o.output, name);
    if (!path) fg_fail_memory(err, FG_QUANTIZE_WHAT, sizeof name);
    return path;
}

// `unquantized`: from the source's embedding, whatever the plan makes of it.
static int start_walk(struct fg_quantize *q, bool unquantized, struct fg_error *err)
{
    char id[FG_SHA256_HEX];
    int rc = 0;
    struct fg_quantize_rows rows = {0};
    if (q->source.gguf && !q->dense)
        rc = fg_model_open(&q->dense, q->o.model, false, q->o.log, err);
    if (!rc && !unquantized) rc = fg_quantize_open_rows(q, &rows, err);
    const struct fg_walk_options wo = {.model = q->dense ? q->dense : q->source.model,
                                       .calib = &q->calib,
                                       .kernels = q->o.kernels,
                                       .pool = q->o.pool,
                                       .bf16_state = q->o.bf16_state,
                                       .batch = q->o.batch,
                                       .embed = rows.given ? &rows.m : NULL,
                                       .head_ridge =
                                           q->list.embed == FG_PLAN_EMBED_HEAD ? HEAD_RIDGE : 0,
                                       .tick = on_tick,
                                       .ctx = q};
    if (!rc) rc = fg_walk_new(&q->walk, &wo, err);
    fg_quantize_close_rows(&rows);
    if (rc || unquantized || q->walked == 0) return rc;
    char *path = residual_path(q, q->walked, err);
    rc = path ? fg_quantize_job_id(q, id, err) : FG_ERESOURCE;
    if (!rc) rc = fg_walk_load(q->walk, path, id, err);
    free(path);
    return rc;
}

int fg_quantize_start_walk(struct fg_quantize *q, struct fg_error *err)
{
    return start_walk(q, false, err);
}

void fg_quantize_end_walk(struct fg_quantize *q)
{
    fg_walk_free(q->walk);
    q->walk = NULL;
    fg_gptq_factor_free(&q->factor); // the next walk counts its sites from the start
}

int fg_quantize_ready_walk(struct fg_quantize *q, struct fg_quantize_unit *u, struct fg_error *err)
{
    int rc = 0;
    if (q->o.method != FG_QUANTIZE_GPTQ || u->kind == FG_UNIT_SMALL || u->kind == FG_UNIT_EMBED)
        return 0;
    if (u->kind != FG_UNIT_HEAD || !fg_quantize_head_first(q))
        return q->walk ? 0 : fg_quantize_start_walk(q, err);
    if (u->done && q->walked == 0) rc = fg_quantize_head_kept(q, &u->done, err);
    if (rc || u->done || fg_qformat_is_kept(q->list.mats[u->first].format)) return rc;
    return start_walk(q, true, err);
}

int fg_quantize_walk_to(struct fg_quantize *q, int64_t layer, struct fg_error *err)
{
    int rc = 0;
    while (!rc && fg_walk_layer(q->walk) < layer)
        rc = fg_walk_next(q->walk, NULL, err);
    return rc;
}

int fg_quantize_walk_past(struct fg_quantize *q, const struct fg_plan_mat *m,
                          const struct fg_quantize_result *r, struct fg_error *err)
{
    float *W = NULL;
    if (m->layer < 0 || q->o.source_stream) return 0; // nothing reads the head's output
    int rc = fg_quantize_unpack(q, m, r, &W, err);
    return rc ? rc : fg_walk_replace(q->walk, m, W, err);
}

int fg_quantize_walk_restore(struct fg_quantize *q, const struct fg_quantize_unit *u, bool *found,
                             struct fg_error *err)
{
    int rc = fg_quantize_walk_to(q, u->layer, err);
    *found = true;
    for (uint64_t i = u->first; i < u->first + u->n && *found && !rc; i++) {
        struct fg_quantize_result r = {0};
        if (!q->chosen[i]) continue;
        rc = fg_quantize_load_mat(q, &q->list.mats[i], &r, found, err);
        if (!rc && *found) rc = fg_quantize_walk_past(q, &q->list.mats[i], &r, err);
        fg_quantize_result_free(&r);
    }
    return rc;
}

int fg_quantize_walk_leave(struct fg_quantize *q, int64_t layer, bool more, struct fg_error *err)
{
    char id[FG_SHA256_HEX];
    if (q->walked > layer || !more) return 0;
    int rc = fg_quantize_walk_to(q, layer, err);
    if (!rc) rc = fg_walk_next(q->walk, &q->mlp_snr_db[layer], err);
    if (!rc) rc = fg_quantize_job_id(q, id, err);
    if (rc) return rc;
    const int64_t before = q->walked;
    char *path = residual_path(q, layer + 1, err), *old = residual_path(q, before, err);
    rc = path && old ? fg_walk_save(q->walk, path, id, err) : FG_ERESOURCE;
    if (!rc) {
        q->walked = layer + 1;
        rc = fg_quantize_save_state(q, err);
    }
    if (!rc) {
        if (before > 0) unlink(old);
        if (before == 0) fg_quantize_drop_mats(q, -1); // the stream has started
        fg_quantize_drop_mats(q, layer);
    }
    free(path);
    free(old);
    return rc;
}
