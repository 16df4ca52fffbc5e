// Writing manifest.json: members in the order of the table in specs/runtime.md 1.2.
#include "base/file.h"
#include "base/jwrite.h"
#include "format/manifest.h"
#include "format/manifest_impl.h"
#include <inttypes.h>
#include <stdio.h>

#define WHAT FG_MANIFEST_WHAT

static void write_identity(struct fg_jwrite *w, const struct fg_manifest *m)
{
    fg_jwrite_str(w, "version", "forge1");
    fg_jwrite_object(w, "release");
    fg_jwrite_str(w, "name", m->release_name);
    fg_jwrite_str(w, "weights_digest", m->weights_digest);
    fg_jwrite_object(w, "upstream");
    fg_jwrite_str(w, "id", m->upstream_id);
    fg_jwrite_str(w, "revision", m->upstream_revision);
    fg_jwrite_end_object(w);
    fg_jwrite_end_object(w);
    fg_jwrite_object(w, "export");
    fg_jwrite_str(w, "name", m->export_name);
    fg_jwrite_str(w, "digest", m->export_digest);
    fg_jwrite_end_object(w);
    fg_jwrite_object(w, "graph");
    fg_jwrite_str(w, "id", m->graph_id);
    fg_jwrite_str(w, "arch", m->arch);
    fg_jwrite_int(w, "numerics_abi", m->numerics_abi);
    fg_jwrite_end_object(w);
}

static void write_model(struct fg_jwrite *w, const struct fg_manifest_model *m)
{
    fg_jwrite_object(w, "model");
    fg_jwrite_int(w, "layers", m->layers);
    fg_jwrite_int(w, "hidden", m->hidden);
    fg_jwrite_int(w, "intermediate", m->intermediate);
    fg_jwrite_int(w, "vocab", m->vocab);
    fg_jwrite_array(w, "layer_types");
    for (int64_t i = 0; i < m->layers; i++) {
        fg_jwrite_str(w, NULL, m->is_linear[i] ? "linear_attention" : "full_attention");
    }
    fg_jwrite_end_array(w);
    fg_jwrite_int(w, "n_heads", m->n_heads);
    fg_jwrite_int(w, "n_kv_heads", m->n_kv_heads);
    fg_jwrite_int(w, "head_dim", m->head_dim);
    fg_jwrite_int(w, "rotary_dims", m->rotary_dims);
    fg_jwrite_num(w, "rope_theta", m->rope_theta);
    if (m->has_gdn) {
        fg_jwrite_object(w, "gdn");
        fg_jwrite_int(w, "k_heads", m->gdn.k_heads);
        fg_jwrite_int(w, "v_heads", m->gdn.v_heads);
        fg_jwrite_int(w, "dk", m->gdn.dk);
        fg_jwrite_int(w, "dv", m->gdn.dv);
        fg_jwrite_int(w, "conv", m->gdn.conv);
        fg_jwrite_end_object(w);
    } else {
        fg_jwrite_null(w, "gdn");
    }
    fg_jwrite_num(w, "rms_eps", m->rms_eps);
    fg_jwrite_str(w, "config_sha256", m->config_sha256);
    fg_jwrite_end_object(w);
}

static void write_ints(struct fg_jwrite *w, const char *key, const int64_t *v, int64_t n)
{
    fg_jwrite_array(w, key);
    for (int64_t i = 0; i < n; i++) {
        fg_jwrite_int(w, NULL, v[i]);
    }
    fg_jwrite_end_array(w);
}

static void write_map(struct fg_jwrite *w, const char *key, const int64_t *ctxs, int n,
                      const int64_t *rows)
{
    fg_jwrite_object(w, key);
    for (int i = 0; i < n; i++) {
        char ctx[32];
        snprintf(ctx, sizeof ctx, "%" PRId64, ctxs[i]);
        fg_jwrite_int(w, ctx, rows[i]);
    }
    fg_jwrite_end_object(w);
}

static void write_contexts(struct fg_jwrite *w, const struct fg_manifest *m)
{
    fg_jwrite_int(w, "T", FG_MANIFEST_T);
    fg_jwrite_int(w, "TP", FG_MANIFEST_TP);
    fg_jwrite_int(w, "pend", FG_MANIFEST_T);
    write_ints(w, "taps", m->taps, m->n_taps);
    write_ints(w, "ctxs", m->ctxs, m->n_ctxs);
    write_ints(w, "pctxs", m->pctxs, m->n_pctxs);
    write_map(w, "kv_len", m->ctxs, m->n_ctxs, m->kv_len);
    write_map(w, "pkv_len", m->pctxs, m->n_pctxs, m->pkv_len);
    write_map(w, "prefill_rows", m->pctxs, m->n_pctxs, m->prefill_rows);
}

static void write_kv(struct fg_jwrite *w, const struct fg_manifest_kv *kv)
{
    if (!kv->given) return;
    fg_jwrite_object(w, "kv_cache");
    fg_jwrite_str(w, "format", "selectable");
    fg_jwrite_str(w, "default", fg_kv_format_name(kv->def));
    fg_jwrite_object(w, "formats");
    for (int f = 0; f < FG_KV_N_FORMATS; f++) {
        const struct fg_kv_description *d = &fg_kv_descriptions[f];
        if (!kv->offers[f]) continue;
        fg_jwrite_object(w, fg_kv_format_name((enum fg_kv_format)f));
        fg_jwrite_str(w, "format", fg_kv_format_name((enum fg_kv_format)f));
        fg_jwrite_str(w, "keys", d->keys);
        fg_jwrite_str(w, "values", d->values);
        fg_jwrite_str(w, "scales", d->scales);
        fg_jwrite_str(w, "scale_granularity", d->granularity);
        fg_jwrite_bool(w, "stable_attention", kv->stable_attention[f]);
        fg_jwrite_end_object(w);
    }
    fg_jwrite_end_object(w);
    fg_jwrite_str(w, "key_layout", kv->dim_token ? "dim_token" : "token_dim");
    fg_jwrite_object(w, "rotation");
    for (int f = 0; f < FG_KV_N_FORMATS; f++) {
        if (!kv->offers[f]) continue;
        fg_jwrite_str(w, fg_kv_format_name((enum fg_kv_format)f),
                      kv->hadamard[f] ? "hadamard" : "none");
    }
    fg_jwrite_end_object(w);
    fg_jwrite_end_object(w);
}

static void write_arithmetic(struct fg_jwrite *w, const struct fg_manifest *m)
{
    const struct fg_manifest_rotation *r = &m->rotation;
    const struct fg_manifest_numerics *n = &m->numerics;
    if (r->given) {
        fg_jwrite_object(w, "rotation");
        fg_jwrite_str(w, "type", "block_hadamard");
        fg_jwrite_int(w, "block", r->block);
        fg_jwrite_object(w, "seeds");
        fg_jwrite_uint(w, "mlp_in", r->seed_mlp_in);
        fg_jwrite_uint(w, "mlp_mid", r->seed_mlp_mid);
        fg_jwrite_uint(w, "mix_in", r->seed_mix_in);
        fg_jwrite_uint(w, "mix_out", r->seed_mix_out);
        fg_jwrite_end_object(w);
        fg_jwrite_str(w, "signs", r->numpy ? "numpy-pcg64" : "splitmix64");
        fg_jwrite_end_object(w);
    } else {
        fg_jwrite_null(w, "rotation");
    }
    fg_jwrite_object(w, "numerics");
    fg_jwrite_object(w, "attention");
    fg_jwrite_str(w, "mode", n->attention_mode);
    fg_jwrite_int(w, "tile", n->tile);
    fg_jwrite_int(w, "segment", n->segment);
    fg_jwrite_end_object(w);
    fg_jwrite_int(w, "act_block", n->act_block);
    fg_jwrite_object(w, "c2t");
    fg_jwrite_num(w, "unit_s8", n->unit_s8);
    fg_jwrite_num(w, "unit_s8b", n->unit_s8b);
    fg_jwrite_num(w, "unit_pf8", n->unit_pf8);
    fg_jwrite_int(w, "tile_verify", n->tile_verify);
    fg_jwrite_int(w, "tile_prefill", n->tile_prefill);
    fg_jwrite_end_object(w);
    fg_jwrite_end_object(w);
}

// "v8_16k": 8 rows at 16384; contexts that are no multiple of 1024 stand as they are.
static void write_entry(struct fg_jwrite *w, char kind, int64_t rows, int64_t ctx)
{
    char name[64];
    snprintf(name, sizeof name, "%c%" PRId64 "_%" PRId64 "%s", kind, rows,
             ctx % 1024 ? ctx : ctx / 1024, ctx % 1024 ? "" : "k");
    fg_jwrite_str(w, NULL, name);
}

static void write_chunk(struct fg_jwrite *w, const struct fg_manifest *m,
                        const struct fg_manifest_chunk *k)
{
    fg_jwrite_object(w, NULL);
    fg_jwrite_str(w, "file", k->file);
    fg_jwrite_array(w, "layers");
    fg_jwrite_int(w, NULL, k->first);
    fg_jwrite_int(w, NULL, k->last);
    fg_jwrite_end_array(w);
    for (int linear = 1; linear >= 0; linear--) {
        fg_jwrite_array(w, linear ? "gdn_j" : "att_j");
        for (int64_t i = k->first; i <= k->last; i++) {
            if (m->model.is_linear[i] == (linear != 0)) fg_jwrite_int(w, NULL, i - k->first);
        }
        fg_jwrite_end_array(w);
    }
    fg_jwrite_array(w, "taps");
    for (int64_t i = 0; i < m->n_taps; i++) {
        if (m->taps[i] >= k->first && m->taps[i] <= k->last) fg_jwrite_int(w, NULL, m->taps[i]);
    }
    fg_jwrite_end_array(w);
    fg_jwrite_array(w, "entries");
    for (int i = 0; i < m->n_ctxs; i++) {
        write_entry(w, 'v', FG_MANIFEST_T, m->ctxs[i]);
    }
    for (int i = 0; i < m->n_pctxs; i++) {
        write_entry(w, 'p', m->prefill_rows[i], m->pctxs[i]);
    }
    fg_jwrite_end_array(w);
    fg_jwrite_uint(w, "bytes", k->bytes);
    fg_jwrite_str(w, "sha256", k->sha256);
    fg_jwrite_end_object(w);
}

static void write_files(struct fg_jwrite *w, const struct fg_manifest *m)
{
    fg_jwrite_array(w, "chunks");
    for (int64_t i = 0; i < m->n_chunks; i++) {
        write_chunk(w, m, &m->chunks[i]);
    }
    fg_jwrite_end_array(w);
    fg_jwrite_object(w, "head");
    fg_jwrite_str(w, "file", m->head.file);
    fg_jwrite_uint(w, "bytes", m->head.bytes);
    fg_jwrite_str(w, "sha256", m->head.sha256);
    fg_jwrite_str(w, "id", m->head.id);
    fg_jwrite_str(w, "norm", m->head.rms1p ? "rms1p" : "rms");
    fg_jwrite_str(w, "logits", "h8");
    fg_jwrite_end_object(w);
    fg_jwrite_object(w, "embedding");
    if (m->embedding.file) fg_jwrite_str(w, "file", m->embedding.file);
    fg_jwrite_str(w, "dtype", fg_manifest_embedding_dtype(m->embedding.kind));
    if (m->embedding.sha256) fg_jwrite_str(w, "sha256", m->embedding.sha256);
    fg_jwrite_end_object(w);
}

int fg_manifest_write(const struct fg_manifest *m, const char *path, struct fg_error *err)
{
    int rc = fg_manifest_check(m, path, err);
    if (rc) return rc;
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    write_identity(&w, m);
    write_model(&w, &m->model);
    write_contexts(&w, m);
    write_kv(&w, &m->kv);
    write_arithmetic(&w, m);
    write_files(&w, m);
    fg_jwrite_end_object(&w);
    fg_buf_char(&w.buf, '\n');
    if (w.buf.failed) {
        rc = fg_fail_memory(err, WHAT, w.buf.len);
    } else if (w.buf.len > FG_MANIFEST_BYTES_MAX) {
        rc = fg_fail(err, FG_EINPUT, WHAT, path, "size", "at most 4194304 bytes", "%zu", w.buf.len);
    } else {
        rc = fg_file_replace(path, w.buf.data, w.buf.len, err);
    }
    fg_jwrite_free(&w);
    return rc;
}
