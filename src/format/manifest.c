// The rules of specs/runtime.md 1.2 for a manifest in memory, whether it was read or made by hand.
#include "format/manifest.h"
#include "base/size.h"
#include "format/manifest_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WHAT FG_MANIFEST_WHAT
#define SIZE_MAX_OF_MODEL (1ll << 31) // of any extent
#define PATH_BYTES_MAX 1024

const struct fg_kv_description fg_kv_descriptions[FG_KV_N_FORMATS] = {
    [FG_KV_FP16] = {"float16", "float16", NULL, NULL},
    [FG_KV_V8] = {"float16", "int8", "float16", "token_head"},
    [FG_KV_KV8] = {"int8", "int8", "float16", "token_head"},
};

const char *fg_manifest_embedding_dtype(enum fg_embedding_kind kind)
{
    static const char *const names[] = {
        [FG_EMBEDDING_DENSE] = "f16", [FG_EMBEDDING_INT8] = "int8", [FG_EMBEDDING_HEAD] = "head"};
    return names[kind];
}

void fg_manifest_defaults(struct fg_manifest *m)
{
    m->embedding.kind = FG_EMBEDDING_DENSE;
    m->numerics_abi = 1;
    m->numerics = (struct fg_manifest_numerics){.attention_mode = "stored",
                                                .tile = 256,
                                                .segment = 2048,
                                                .act_block = 1024,
                                                .unit_s8 = 0.25,
                                                .unit_s8b = 0.25,
                                                .unit_pf8 = 0.015625,
                                                .tile_verify = 2048,
                                                .tile_prefill = 4096};
    m->kv = (struct fg_manifest_kv){.given = true, .def = FG_KV_KV8};
    for (int f = 0; f < FG_KV_N_FORMATS; f++) {
        m->kv.offers[f] = true;
        m->kv.stable_attention[f] = true;
    }
    m->kv.hadamard[FG_KV_KV8] =
        m->model.head_dim > 0 && (m->model.head_dim & (m->model.head_dim - 1)) == 0;
}

// ---- check

struct check {
    const struct fg_manifest *m;
    const char *file;
    struct fg_error *err;
};

// Fails with a JSON pointer of the given format.
static int fail_at(const struct check *c, const char *expected, const char *found,
                   const char *pointer, ...) __attribute__((format(printf, 4, 5)));
static int fail_at(const struct check *c, const char *expected, const char *found,
                   const char *pointer, ...)
{
    char field[192];
    va_list args;
    va_start(args, pointer);
    vsnprintf(field, sizeof field, pointer, args);
    va_end(args);
    return fg_fail(c->err, FG_EINPUT, WHAT, c->file, field, expected, "%s", found);
}

static int fail_number(const struct check *c, const char *pointer, const char *expected, int64_t v)
{
    char found[32];
    snprintf(found, sizeof found, "%" PRId64, v);
    return fail_at(c, expected, found, "%s", pointer);
}

static int in_range(const struct check *c, const char *pointer, int64_t min, int64_t max, int64_t v)
{
    if (v >= min && v <= max) return 0;
    return fg_fail_range(c->err, WHAT, c->file, pointer, min, max, v);
}

static int is_text(const struct check *c, const char *pointer, const char *s)
{
    return s && s[0] ? 0
                     : fail_at(c, "a string that is not empty", s ? "\"\"" : "none", "%s", pointer);
}

static int is_digest(const struct check *c, const char *pointer, const char *s)
{
    if (s && strspn(s, "0123456789abcdef") == 64 && !s[64]) return 0;
    return fail_at(c, "64 lower-case hexadecimal digits", s ? s : "none", "%s", pointer);
}

static bool is_power_of_two(int64_t v)
{
    return v > 0 && (v & (v - 1)) == 0;
}

// Relative, in its shortest form, without anything that a shell or another system could read
// differently.
static bool is_clean_path(const char *p)
{
    size_t len = strlen(p);
    if (len > PATH_BYTES_MAX) return false;
    for (size_t i = 0; i < len; i++) {
        unsigned char ch = (unsigned char)p[i];
        if (ch < 0x20 || ch == 0x7F || strchr("\\*?[]", ch)) return false;
    }
    for (const char *at = p;;) {
        size_t n = strcspn(at, "/");
        if (n == 0 || (n == 1 && at[0] == '.') || (n == 2 && at[0] == '.' && at[1] == '.')) {
            return false;
        }
        if (!at[n]) return true;
        at += n + 1;
    }
}

static int is_path(const struct check *c, const char *pointer, const char *p)
{
    if (p && is_clean_path(p)) return 0;
    return fail_at(c, "a relative path without '..'", p ? p : "none", "%s", pointer);
}

static int check_model(const struct check *c)
{
    static const char *const archs[] = {"qwen3_5", "qwen3", "qwen2", "llama"};
    const struct fg_manifest_model *m = &c->m->model;
    const struct {
        const char *pointer;
        int64_t min, max, value;
    } numbers[] = {
        {"/model/layers", 1, FG_MANIFEST_LAYERS_MAX, m->layers},
        {"/model/hidden", 1, SIZE_MAX_OF_MODEL, m->hidden},
        {"/model/intermediate", 1, SIZE_MAX_OF_MODEL, m->intermediate},
        {"/model/vocab", 1, SIZE_MAX_OF_MODEL, m->vocab},
        {"/model/n_heads", 1, 65536, m->n_heads},
        {"/model/n_kv_heads", 1, m->n_heads, m->n_kv_heads},
        {"/model/head_dim", 1, 65536, m->head_dim},
        {"/model/rotary_dims", 0, m->head_dim, m->rotary_dims},
        {"/model/gdn/k_heads", m->has_gdn, 65536, m->gdn.k_heads},
        {"/model/gdn/v_heads", m->has_gdn, 65536, m->gdn.v_heads},
        {"/model/gdn/dk", m->has_gdn, 65536, m->gdn.dk},
        {"/model/gdn/dv", m->has_gdn, 65536, m->gdn.dv},
        {"/model/gdn/conv", m->has_gdn, 256, m->gdn.conv},
        {"/graph/numerics_abi", 1, INT32_MAX, c->m->numerics_abi},
    };
    size_t known = 0;
    int rc = is_text(c, "/graph/id", c->m->graph_id);
    if (!rc) rc = is_text(c, "/graph/arch", c->m->arch);
    if (rc) return rc;
    while (known < FG_COUNT(archs) && strcmp(archs[known], c->m->arch) != 0) {
        known++;
    }
    if (known == FG_COUNT(archs)) {
        return fail_at(c, "qwen3_5, qwen3, qwen2 or llama", c->m->arch, "/graph/arch");
    }
    for (size_t i = 0; i < FG_COUNT(numbers) && !rc; i++) {
        rc = in_range(c, numbers[i].pointer, numbers[i].min, numbers[i].max, numbers[i].value);
    }
    if (rc) return rc;
    if (m->n_heads % m->n_kv_heads) {
        return fail_number(c, "/model/n_kv_heads", "a divisor of n_heads", m->n_kv_heads);
    }
    if (m->rotary_dims % 2) {
        return fail_number(c, "/model/rotary_dims", "an even number", m->rotary_dims);
    }
    if (m->has_gdn && m->gdn.v_heads % m->gdn.k_heads) {
        return fail_number(c, "/model/gdn/k_heads", "a divisor of v_heads", m->gdn.k_heads);
    }
    if (!m->is_linear) return fail_at(c, "an array", "none", "/model/layer_types");
    for (int64_t i = 0; i < m->layers; i++) {
        if (!m->is_linear[i] || m->has_gdn) continue;
        return fail_at(c, "full_attention, as gdn is null", "linear_attention",
                       "/model/layer_types/%" PRId64, i);
    }
    if (!(m->rope_theta > 0) || !isfinite(m->rope_theta)) {
        return fail_at(c, "a number above 0", "another", "/model/rope_theta");
    }
    if (!(m->rms_eps > 0) || !isfinite(m->rms_eps)) {
        return fail_at(c, "a number above 0", "another", "/model/rms_eps");
    }
    return is_digest(c, "/model/config_sha256", m->config_sha256);
}

static int check_taps(const struct check *c)
{
    const struct fg_manifest *m = c->m;
    int rc = in_range(c, "/taps", 0, m->model.layers, m->n_taps);
    for (int64_t i = 0; i < m->n_taps && !rc; i++) {
        char found[32];
        snprintf(found, sizeof found, "%" PRId64, m->taps[i]);
        if (m->taps[i] < 0 || m->taps[i] >= m->model.layers) {
            rc = fail_at(c, "a layer of the model", found, "/taps/%" PRId64, i);
        } else if (i > 0 && m->taps[i] <= m->taps[i - 1]) {
            rc = fail_at(c, "ascending layers", found, "/taps/%" PRId64, i);
        }
    }
    return rc;
}

static int check_ladder(const struct check *c, const char *pointer, const int64_t *ctxs, int n)
{
    for (int i = 0; i < n; i++) {
        char found[32];
        snprintf(found, sizeof found, "%" PRId64, ctxs[i]);
        if (ctxs[i] < FG_MANIFEST_CTX_STEP || ctxs[i] > FG_MANIFEST_CTX_MAX ||
            ctxs[i] % FG_MANIFEST_CTX_STEP) {
            return fail_at(c, "a multiple of 256 up to 1048576", found, "%s/%d", pointer, i);
        }
        if (i > 0 && ctxs[i] <= ctxs[i - 1]) {
            return fail_at(c, "ascending contexts", found, "%s/%d", pointer, i);
        }
    }
    return 0;
}

// Values of a map from context entries to rows.
static int check_rows(const struct check *c, const char *pointer, const int64_t *ctxs, int n,
                      const int64_t *rows, int64_t max)
{
    for (int i = 0; i < n; i++) {
        int64_t most = max ? max : ctxs[i];
        if (rows[i] >= 1 && rows[i] <= most) continue;
        char field[64];
        snprintf(field, sizeof field, "%s/%" PRId64, pointer, ctxs[i]);
        return fg_fail_range(c->err, WHAT, c->file, field, 1, most, rows[i]);
    }
    return 0;
}

static int check_entries(const struct check *c)
{
    const struct fg_manifest *m = c->m;
    int rc = in_range(c, "/ctxs", 1, FG_MANIFEST_CTXS_MAX, m->n_ctxs);
    if (!rc) rc = check_ladder(c, "/ctxs", m->ctxs, m->n_ctxs);
    if (!rc) rc = in_range(c, "/pctxs", 0, m->n_ctxs, m->n_pctxs);
    if (!rc) rc = check_ladder(c, "/pctxs", m->pctxs, m->n_pctxs);
    if (rc) return rc;
    for (int i = 0, at = 0; i < m->n_pctxs; i++) {
        while (at < m->n_ctxs && m->ctxs[at] < m->pctxs[i]) {
            at++;
        }
        if (at == m->n_ctxs || m->ctxs[at] != m->pctxs[i]) {
            char found[32];
            snprintf(found, sizeof found, "%" PRId64, m->pctxs[i]);
            return fail_at(c, "one of ctxs", found, "/pctxs/%d", i);
        }
    }
    return 0;
}

static int check_contexts(const struct check *c)
{
    const struct fg_manifest *m = c->m;
    int rc = check_entries(c);
    if (!rc) rc = check_rows(c, "/kv_len", m->ctxs, m->n_ctxs, m->kv_len, 0);
    if (!rc) rc = check_rows(c, "/pkv_len", m->pctxs, m->n_pctxs, m->pkv_len, 0);
    if (!rc) {
        rc = check_rows(c, "/prefill_rows", m->pctxs, m->n_pctxs, m->prefill_rows, FG_MANIFEST_TP);
    }
    return rc;
}

static int check_kv(const struct check *c)
{
    const struct fg_manifest_kv *kv = &c->m->kv;
    if (!kv->offers[kv->def]) {
        return fail_at(c, "one of kv_cache.formats", fg_kv_format_name(kv->def),
                       "/kv_cache/default");
    }
    for (int f = 0; f < FG_KV_N_FORMATS; f++) {
        if (!kv->offers[f] || !kv->hadamard[f] || is_power_of_two(c->m->model.head_dim)) continue;
        return fail_at(c, "none, as head_dim is no power of two", "hadamard",
                       "/kv_cache/rotation/%s", fg_kv_format_name((enum fg_kv_format)f));
    }
    return 0;
}

static int check_arithmetic(const struct check *c)
{
    const struct fg_manifest_rotation *r = &c->m->rotation;
    const struct fg_manifest_numerics *n = &c->m->numerics;
    if (r->given && (r->block < 8 || r->block > 1024 || !is_power_of_two(r->block))) {
        return fail_number(c, "/rotation/block", "a power of two from 8 to 1024", r->block);
    }
    if (!n->attention_mode || strcmp(n->attention_mode, "stored") != 0) {
        return fail_at(c, "\"stored\"", n->attention_mode ? n->attention_mode : "none",
                       "/numerics/attention/mode");
    }
    if (n->tile < 16 || n->tile > 65536 || !is_power_of_two(n->tile)) {
        return fail_number(c, "/numerics/attention/tile", "a power of two from 16 to 65536",
                           n->tile);
    }
    if (n->segment < n->tile || n->segment > 1 << 20 || n->segment % n->tile) {
        return fail_number(c, "/numerics/attention/segment", "a multiple of tile up to 1048576",
                           n->segment);
    }
    if (n->act_block < 8 || n->act_block > 65536 || !is_power_of_two(n->act_block)) {
        return fail_number(c, "/numerics/act_block", "a power of two from 8 to 65536",
                           n->act_block);
    }
    const struct {
        const char *pointer;
        double value;
    } units[] = {{"/numerics/c2t/unit_s8", n->unit_s8},
                 {"/numerics/c2t/unit_s8b", n->unit_s8b},
                 {"/numerics/c2t/unit_pf8", n->unit_pf8}};
    for (size_t i = 0; i < FG_COUNT(units); i++) {
        if (!(units[i].value > 0) || !isfinite(units[i].value)) {
            return fail_at(c, "a number above 0", "another", "%s", units[i].pointer);
        }
    }
    int rc = in_range(c, "/numerics/c2t/tile_verify", 1, 1 << 20, n->tile_verify);
    return rc ? rc : in_range(c, "/numerics/c2t/tile_prefill", 1, 1 << 20, n->tile_prefill);
}

static int check_chunks(const struct check *c)
{
    const struct fg_manifest *m = c->m;
    int64_t next = 0;
    int rc = in_range(c, "/chunks", 1, m->model.layers, m->n_chunks);
    for (int64_t i = 0; i < m->n_chunks && !rc; i++) {
        const struct fg_manifest_chunk *k = &m->chunks[i];
        char field[64], expected[64], found[64];
        snprintf(field, sizeof field, "/chunks/%" PRId64 "/layers", i);
        if (k->first != next || k->last < k->first || k->last >= m->model.layers) {
            snprintf(expected, sizeof expected, "[%" PRId64 ", at most %" PRId64 "]", next,
                     m->model.layers - 1);
            snprintf(found, sizeof found, "[%" PRId64 ", %" PRId64 "]", k->first, k->last);
            return fail_at(c, expected, found, "%s", field);
        }
        next = k->last + 1;
        snprintf(field, sizeof field, "/chunks/%" PRId64 "/file", i);
        rc = is_path(c, field, k->file);
        for (int64_t j = 0; j < i && !rc; j++) {
            if (strcmp(k->file, m->chunks[j].file) == 0) {
                rc = fail_at(c, "a file of its own", k->file, "%s", field);
            }
        }
        snprintf(field, sizeof field, "/chunks/%" PRId64 "/sha256", i);
        if (!rc) rc = is_digest(c, field, k->sha256);
    }
    if (!rc && next != m->model.layers) {
        rc = fail_at(c, "chunks that cover every layer", "the last layers in none", "/chunks");
    }
    return rc;
}

static int check_head(const struct check *c)
{
    static const char model_dir[] = "../model/";
    const struct fg_manifest *m = c->m;
    int rc = is_path(c, "/head/file", m->head.file);
    for (int64_t j = 0; j < m->n_chunks && !rc; j++) {
        if (strcmp(m->head.file, m->chunks[j].file) == 0) {
            rc = fail_at(c, "a file of its own", m->head.file, "/head/file");
        }
    }
    if (!rc) rc = is_digest(c, "/head/sha256", m->head.sha256);
    if (!rc) rc = is_digest(c, "/head/id", m->head.id);
    if (rc) return rc;
    const char *file = m->embedding.file;
    if (m->embedding.kind == FG_EMBEDDING_HEAD) {
        if (file) return fail_at(c, "no file, as dtype is head", file, "/embedding/file");
        if (!m->embedding.sha256) return 0;
        return fail_at(c, "none, as dtype is head", m->embedding.sha256, "/embedding/sha256");
    }
    size_t n = sizeof model_dir - 1;
    if (!file || strncmp(file, model_dir, n) != 0 || !is_clean_path(file + n)) {
        return fail_at(c, "\"../model/NAME\"", file ? file : "none", "/embedding/file");
    }
    return is_digest(c, "/embedding/sha256", m->embedding.sha256);
}

int fg_manifest_check_entries(const struct fg_manifest *m, const char *file, struct fg_error *err)
{
    const struct check c = {m, file, err};
    return check_entries(&c);
}

int fg_manifest_check(const struct fg_manifest *m, const char *file, struct fg_error *err)
{
    const struct check c = {m, file, err};
    int rc = is_text(&c, "/release/name", m->release_name);
    if (!rc) rc = is_digest(&c, "/release/weights_digest", m->weights_digest);
    if (!rc) rc = is_text(&c, "/export/name", m->export_name);
    if (!rc) rc = is_digest(&c, "/export/digest", m->export_digest);
    if (!rc) rc = check_model(&c);
    if (!rc) rc = check_taps(&c);
    if (!rc) rc = check_contexts(&c);
    if (!rc) rc = check_kv(&c);
    if (!rc) rc = check_arithmetic(&c);
    if (!rc) rc = check_chunks(&c);
    return rc ? rc : check_head(&c);
}
