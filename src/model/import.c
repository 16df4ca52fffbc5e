// model/import.c: opening, and the metadata of the model (section 11.3, 11.6).
#include "model/import.h"
#include "base/size.h"
#include "model/config.h"
#include "model/import_impl.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXTENT_MAX INT32_MAX // as config.c
#define HEADS_MAX 65536      // keeps products of heads and head sizes below 2^33

// Reads keys "ARCH.name", with the first error kept so that a list of reads is checked once.
struct reader {
    const struct fg_gguf *g;
    const char *arch;
    struct fg_error *err;
    int rc;
    char key[96];
};

static const char *key_of(struct reader *r, const char *name)
{
    snprintf(r->key, sizeof r->key, "%s.%s", r->arch, name);
    return r->key;
}

static int fail_key(struct reader *r, int code, const char *expected, const char *found)
{
    r->rc =
        fg_fail(r->err, code, FG_IMPORT_WHAT, fg_gguf_path(r->g), r->key, expected, "%s", found);
    return r->rc;
}

// A number, or an array of equal ones (files may list per layer). def < min: required.
static int64_t read_i64(struct reader *r, const char *name, int64_t def, int64_t min, int64_t max)
{
    int64_t *list = NULL, v = def;
    uint64_t n;
    if (r->rc) return def;
    r->rc = fg_gguf_i64s(r->g, key_of(r, name), min, max, &list, &n, r->err);
    if (r->rc) return def;
    if (n > 0) v = list[0];
    for (uint64_t i = 1; i < n && !r->rc; i++) {
        if (list[i] != v)
            fail_key(r, FG_EINPUT, "the same value for every layer", "different ones");
    }
    free(list);
    if (!r->rc && n == 0 && def < min) fail_key(r, FG_EINPUT, "a number", "nothing");
    return v;
}

static double read_f64(struct reader *r, const char *name, double def, double min)
{
    double v = def;
    bool given;
    if (r->rc) return def;
    r->rc = fg_gguf_f64(r->g, key_of(r, name), def, &v, &given, r->err);
    if (!r->rc && !(v >= min)) {
        char expected[48], found[48];
        snprintf(expected, sizeof expected, "a number of at least %g", min);
        snprintf(found, sizeof found, "%g", v);
        fail_key(r, FG_EINPUT, expected, given ? found : "nothing");
    }
    return v;
}

static bool str_is(struct fg_gguf_str s, const char *text)
{
    return s.s && s.n == strlen(text) && memcmp(s.s, text, s.n) == 0;
}

static int read_arch(struct fg_import *imp, struct fg_error *err)
{
    static const struct {
        const char *name;
        enum fg_import_arch arch;
    } known[] = {{"llama", FG_ARCH_LLAMA},
                 {"qwen2", FG_ARCH_QWEN2},
                 {"qwen3", FG_ARCH_QWEN3},
                 {"qwen35", FG_ARCH_QWEN35}};
    static const char key[] = "general.architecture";
    struct fg_gguf_str s;
    int rc = fg_gguf_string(imp->gguf, key, &s, err);
    if (rc) return rc;
    if (!s.s) return fg_fail(err, FG_EINPUT, FG_IMPORT_WHAT, imp->path, key, "a string", "nothing");
    for (size_t i = 0; i < FG_COUNT(known); i++) {
        if (!str_is(s, known[i].name)) continue;
        imp->params.arch = known[i].arch;
        imp->params.arch_name = known[i].name;
        return 0;
    }
    char found[64];
    fg_escape(found, sizeof found, s.s, (size_t)s.n);
    return fg_fail(err, FG_EUNSUPPORTED, FG_IMPORT_WHAT, imp->path, key,
                   "llama, qwen2, qwen3 or qwen35", "%s", found);
}

static void read_rope(struct reader *r, struct fg_import_params *p)
{
    struct fg_gguf_str type = {0};
    p->rope_theta = read_f64(r, "rope.freq_base", 10000, 1);
    p->rot = read_i64(r, "rope.dimension_count", p->head_dim, 2, p->head_dim);
    if (r->rc) return;
    if (p->rot % 2) {
        fail_key(r, FG_EINPUT, "an even number", "an odd one");
        return;
    }
    r->rc = fg_gguf_string(r->g, key_of(r, "rope.scaling.type"), &type, r->err);
    if (r->rc) return;
    p->rope_type = !type.s || str_is(type, "none") ? "default"
                   : str_is(type, "linear")        ? "linear"
                   : str_is(type, "yarn")          ? "yarn"
                                                   : NULL;
    if (!p->rope_type) {
        char found[64];
        fail_key(r, FG_EUNSUPPORTED, "none, linear or yarn",
                 fg_escape(found, sizeof found, type.s, (size_t)type.n));
        return;
    }
    p->rope_factor = read_f64(r, "rope.scaling.factor", 1, 1e-6);
    p->rope_original = read_i64(r, "rope.scaling.original_context_length", 0, 0, EXTENT_MAX);
    p->rope_beta_fast = read_f64(r, "rope.scaling.yarn_beta_fast", 32, 1e-6);
    p->rope_beta_slow = read_f64(r, "rope.scaling.yarn_beta_slow", 1, 1e-6);
    if (read_f64(r, "rope.scaling.attn_factor", 1, 0) != 1 && !r->rc) {
        fail_key(r, FG_EUNSUPPORTED, "1", "another factor");
    }
}

static void read_hybrid(struct reader *r, struct fg_import_params *p)
{
    p->full_interval = read_i64(r, "full_attention_interval", 4, 1, FG_CONFIG_LAYERS_MAX);
    p->conv_kernel = read_i64(r, "ssm.conv_kernel", 0, 2, FG_CONFIG_CONV_MAX);
    p->k_head_dim = read_i64(r, "ssm.state_size", 0, 1, HEADS_MAX);
    p->n_k_heads = read_i64(r, "ssm.group_count", 0, 1, HEADS_MAX);
    p->n_v_heads = read_i64(r, "ssm.time_step_rank", 0, 1, HEADS_MAX);
    if (!r->rc && p->n_v_heads % p->n_k_heads) {
        fail_key(r, FG_EINPUT, "a multiple of ssm.group_count", "none");
    }
    int64_t inner = read_i64(r, "ssm.inner_size", 0, 1, EXTENT_MAX);
    if (r->rc) return;
    if (inner % p->n_v_heads || inner / p->n_v_heads > HEADS_MAX) {
        fail_key(r, FG_EINPUT, "a multiple of ssm.time_step_rank", "none");
        return;
    }
    p->v_head_dim = inner / p->n_v_heads;

    int64_t *sections;
    uint64_t n;
    r->rc = fg_gguf_i64s(r->g, key_of(r, "rope.dimension_sections"), 0, HEADS_MAX, &sections, &n,
                         r->err);
    if (r->rc) return;
    // Files pad the list to four with a zero; text does not look at it.
    for (uint64_t i = 0; i < n && i < FG_COUNT(p->mrope) && (i < 3 || sections[i]); i++) {
        p->mrope[p->n_mrope++] = sections[i];
    }
    free(sections);
}

// Extra prediction layers stand at the end and are counted in block_count by the files that have
// their tensors there.
static void drop_prediction_layers(struct reader *r, struct fg_import *imp)
{
    struct fg_import_params *p = &imp->params;
    int64_t extra = read_i64(r, "nextn_predict_layers", 0, 0, FG_CONFIG_LAYERS_MAX);
    char name[FG_GGUF_TENSOR_NAME_MAX + 1];
    snprintf(name, sizeof name, "blk.%" PRId64 ".nextn.eh_proj.weight", p->n_layers - 1);
    if (r->rc || !extra || !fg_gguf_tensor_find(imp->gguf, name)) return;
    if (extra >= p->n_layers) {
        fail_key(r, FG_EINPUT, "fewer than block_count", "as many");
        return;
    }
    p->n_layers -= extra;
}

int fg_import_read_params(struct fg_import *imp, struct fg_error *err)
{
    struct fg_import_params *p = &imp->params;
    int rc = read_arch(imp, err);
    if (rc) return rc;
    struct reader reader = {.g = imp->gguf, .arch = p->arch_name, .err = err}, *r = &reader;

    if (read_i64(r, "expert_count", 0, 0, EXTENT_MAX) > 0) {
        return fail_key(r, FG_EUNSUPPORTED, "no experts", "a mixture of experts");
    }
    p->n_layers = read_i64(r, "block_count", 0, 1, FG_CONFIG_LAYERS_MAX);
    p->max_positions = read_i64(r, "context_length", 0, 1, EXTENT_MAX);
    p->hidden = read_i64(r, "embedding_length", 0, 1, EXTENT_MAX);
    p->intermediate = read_i64(r, "feed_forward_length", 0, 1, EXTENT_MAX);
    p->n_heads = read_i64(r, "attention.head_count", 0, 1, HEADS_MAX);
    p->n_kv_heads = read_i64(r, "attention.head_count_kv", p->n_heads, 1, HEADS_MAX);
    p->norm_eps = read_f64(r, "attention.layer_norm_rms_epsilon", -1, 0);
    if (r->rc) return r->rc;
    if (p->n_heads % p->n_kv_heads) {
        key_of(r, "attention.head_count_kv");
        return fail_key(r, FG_EINPUT, "a divisor of attention.head_count", "none");
    }
    // Without key_length the heads divide the width.
    int64_t share = p->hidden % p->n_heads ? 0 : p->hidden / p->n_heads;
    if (share > HEADS_MAX) share = 0;
    p->head_dim = read_i64(r, "attention.key_length", share, 1, HEADS_MAX);
    if (read_i64(r, "attention.value_length", p->head_dim, 1, HEADS_MAX) != p->head_dim && !r->rc) {
        return fail_key(r, FG_EINPUT, "attention.key_length", "another value");
    }
    if (!r->rc && p->arch == FG_ARCH_LLAMA && p->head_dim % 2) {
        key_of(r, "attention.key_length");
        return fail_key(r, FG_EINPUT, "an even number", "an odd one");
    }
    int64_t window = read_i64(r, "attention.sliding_window", 0, 0, EXTENT_MAX);
    if (!r->rc && window > 0 && window < p->max_positions) {
        return fail_key(r, FG_EUNSUPPORTED, "no window shorter than the context", "one");
    }
    if (!r->rc) read_rope(r, p);
    if (p->arch == FG_ARCH_QWEN35) {
        if (!r->rc) read_hybrid(r, p);
        if (!r->rc) drop_prediction_layers(r, imp);
    }
    return r->rc;
}

int fg_import_open(struct fg_import **out, const char *path, struct fg_error *err)
{
    *out = NULL;
    struct fg_import *imp = calloc(1, sizeof *imp);
    if (!imp) return fg_fail_memory(err, FG_IMPORT_WHAT, sizeof *imp);
    fg_arena_init(&imp->arena, 0);
    int rc = fg_gguf_open(&imp->gguf, path, err);
    if (!rc) {
        imp->path = fg_gguf_path(imp->gguf);
        rc = fg_import_read_params(imp, err);
    }
    if (!rc) rc = fg_import_bind(imp, err);
    if (rc) {
        fg_import_close(imp);
        return rc;
    }
    *out = imp;
    return 0;
}

void fg_import_close(struct fg_import *imp)
{
    if (!imp) return;
    fg_gguf_close(imp->gguf);
    fg_arena_free(&imp->arena);
    free(imp->tensors);
    free(imp->sources);
    free(imp->names);
    free(imp);
}

const struct fg_gguf *fg_import_gguf(const struct fg_import *imp)
{
    return imp->gguf;
}

uint64_t fg_import_count(const struct fg_import *imp)
{
    return imp->n;
}

const struct fg_import_tensor *fg_import_at(const struct fg_import *imp, uint64_t i)
{
    return &imp->tensors[i];
}

const struct fg_import_tensor *fg_import_find(const struct fg_import *imp, const char *name)
{
    uint64_t at = fg_names_find(imp->names, imp->n, name);
    return at == FG_NAME_NONE ? NULL : &imp->tensors[at];
}

uint64_t fg_import_n_warnings(const struct fg_import *imp)
{
    return imp->n_warnings;
}

const char *fg_import_warning(const struct fg_import *imp, uint64_t i)
{
    return imp->warnings[i];
}
