// model/weights.c: binding.
#include "model/weights.h"
#include "base/num.h"
#include "kernels/ref/math.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 256

struct binder {
    const struct fg_config *cfg;
    const struct fg_tensor_source *src;
    struct fg_arena *arena;
    struct fg_error *err;
    const char *prefix; // of the text model's tensors
    int rc;             // first error; later calls do nothing
    uint64_t bound;     // tensors used
};

static int fail_tensor(struct binder *b, const char *name, const char *file, const char *expected,
                       const char *found)
{
    b->rc = fg_fail(b->err, FG_EINPUT, "weights", file ? file : b->src->path, name, expected, "%s",
                    found);
    return b->rc;
}

static void print_shape(char *out, size_t cap, int rank, const uint64_t *shape)
{
    size_t at = (size_t)snprintf(out, cap, "[");
    for (int i = 0; i < rank && at < cap; i++)
        at += (size_t)snprintf(out + at, cap - at, "%s%" PRIu64, i ? ", " : "", shape[i]);
    if (at < cap) snprintf(out + at, cap - at, "]");
}

// Finds `name`, checks dtype and shape. Returns false with b->rc set, or quietly when an earlier
// call failed.
static bool take(struct binder *b, const char *name, const char *kind, int rank,
                 const int64_t *shape, struct fg_tensor *t)
{
    if (b->rc) return false;
    if (!b->src->find(b->src->ctx, name, t)) {
        char expected[128];
        snprintf(expected, sizeof expected, "a tensor of the %s", kind);
        fail_tensor(b, name, NULL, expected, "no such tensor");
        return false;
    }
    if (!t->usable) {
        fail_tensor(b, name, t->file, "F32, F16 or BF16", t->dtype_name);
        return false;
    }
    bool same = t->rank == rank;
    for (int i = 0; same && i < rank; i++)
        same = t->shape[i] == (uint64_t)shape[i];
    if (!same) {
        char expected[96], found[96];
        uint64_t want[8] = {0};
        for (int i = 0; i < rank; i++)
            want[i] = (uint64_t)shape[i];
        print_shape(expected, sizeof expected, rank, want);
        print_shape(found, sizeof found, t->rank, t->shape);
        fail_tensor(b, name, t->file, expected, found);
        return false;
    }
    b->bound++;
    return true;
}

// Finds a quantized matrix by its Hugging Face name, which ends in ".weight". False when there is
// none, or with b->rc set.
static bool quantized(struct binder *b, const char *name, int64_t n_out, int64_t n_in,
                      struct fg_mat *out)
{
    char canonical[NAME_MAX_BYTES];
    const char *file;
    size_t skip = strncmp(name, b->prefix, strlen(b->prefix)) == 0 ? strlen(b->prefix) : 0;
    int n = (int)(strlen(name + skip) - strlen(".weight"));
    snprintf(canonical, sizeof canonical, "%.*s", n, name + skip);
    if (b->rc || !b->src->mat || !b->src->mat(b->src->ctx, canonical, out, &file)) return false;
    b->bound++;
    if (out->n_out == n_out && out->n_in == n_in) return true;
    char expected[96], found[96];
    print_shape(expected, sizeof expected, 2, (uint64_t[2]){(uint64_t)n_out, (uint64_t)n_in});
    print_shape(found, sizeof found, 2, (uint64_t[2]){(uint64_t)out->n_out, (uint64_t)out->n_in});
    fail_tensor(b, canonical, file, expected, found);
    return false;
}

static struct fg_mat matrix(struct binder *b, const char *name, const char *kind, int64_t n_out,
                            int64_t n_in)
{
    struct fg_mat m;
    struct fg_tensor t;
    int64_t shape[2] = {n_out, n_in};
    if (quantized(b, name, n_out, n_in, &m)) return m;
    if (!take(b, name, kind, 2, shape, &t)) return (struct fg_mat){0};
    return (struct fg_mat){.data = t.data,
                           .dtype = t.dtype,
                           .n_out = n_out,
                           .n_in = n_in,
                           .exact = b->src->mat != NULL};
}

// Matrices that share an input share its rotation: all quantized ones of a group, or none.
static void check_rotation(struct binder *b, int64_t layer, const char *input,
                           const struct fg_mat *const *group, int n)
{
    const struct fg_mat *first = NULL;
    char field[64];
    for (int i = 0; i < n && !b->rc; i++) {
        if (!group[i]->lut) continue;
        if (!first) first = group[i];
        if (group[i]->signs == first->signs && group[i]->block == first->block) continue;
        snprintf(field, sizeof field, "layer %lld, input of %s", (long long)layer, input);
        fail_tensor(b, field, NULL, "one rotation for all its quantized matrices", "several");
    }
}

static float element(const struct fg_tensor *t, int64_t i)
{
    const uint8_t *p = (const uint8_t *)t->data + (uint64_t)i * fg_dtype_bytes(t->dtype);
    if (t->dtype == FG_F32) {
        float f;
        memcpy(&f, p, sizeof f);
        return f;
    }
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return t->dtype == FG_F16 ? fg_f16_to_f32(h) : fg_bf16_to_f32(h);
}

// An FP32 copy of a tensor of n elements in all, `add` added to each.
static float *vector_shaped(struct binder *b, const char *name, const char *kind, int rank,
                            const int64_t *shape, int64_t n, float add)
{
    struct fg_tensor t;
    if (!take(b, name, kind, rank, shape, &t)) return NULL;
    float *v = fg_arena_alloc(b->arena, (uint64_t)n, sizeof *v);
    if (!v) {
        b->rc = fg_fail_memory(b->err, "weights", (uint64_t)n * sizeof *v);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++)
        v[i] = element(&t, i) + add;
    return v;
}

static float *vector(struct binder *b, const char *name, const char *kind, int64_t n, float add)
{
    return vector_shaped(b, name, kind, 1, &n, n, add);
}

// "P layers.N.rest" in one of two buffers' worth of static need: the caller's.
static const char *layer_name(const struct binder *b, char *out, int64_t layer, const char *rest)
{
    snprintf(out, NAME_MAX_BYTES, "%slayers.%lld.%s", b->prefix, (long long)layer, rest);
    return out;
}

// Layouts of other exporters, recognized before a missing tensor hides what the file is.
static void refuse_foreign_layouts(struct binder *b)
{
    for (uint64_t i = 0; i < b->src->count && !b->rc; i++) {
        struct fg_tensor t;
        b->src->at(b->src->ctx, i, &t);
        const char *dot = strrchr(t.name, '.'), *last = dot ? dot + 1 : t.name;
        size_t n = strlen(t.name), tail = strlen("_scale_inv");
        if (strstr(t.name, "in_proj_qkvz") || strstr(t.name, "in_proj_ba."))
            fail_tensor(b, t.name, t.file, "separate in_proj_qkv, in_proj_z, in_proj_b, in_proj_a",
                        "the fused Qwen3-Next layout");
        else if (strcmp(last, "scales") == 0 || strcmp(last, "weight_packed") == 0 ||
                 (n > tail && strcmp(t.name + n - tail, "_scale_inv") == 0))
            fail_tensor(b, t.name, t.file, "unquantized weights", "a quantized export");
    }
}

static void bind_full(struct binder *b, int64_t i, struct fg_layer *l)
{
    const struct fg_config *c = b->cfg;
    const char *kind = "full-attention layer";
    char name[NAME_MAX_BYTES];
    int64_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    int64_t q_rows = c->output_gate ? 2 * q : q;
    float one = c->norm_zero_centred ? 1 : 0;
    l->q = matrix(b, layer_name(b, name, i, "self_attn.q_proj.weight"), kind, q_rows, c->hidden);
    l->k = matrix(b, layer_name(b, name, i, "self_attn.k_proj.weight"), kind, kv, c->hidden);
    l->v = matrix(b, layer_name(b, name, i, "self_attn.v_proj.weight"), kind, kv, c->hidden);
    l->o = matrix(b, layer_name(b, name, i, "self_attn.o_proj.weight"), kind, c->hidden, q);
    if (c->qkv_bias) {
        l->q_bias = vector(b, layer_name(b, name, i, "self_attn.q_proj.bias"), kind, q_rows, 0);
        l->k_bias = vector(b, layer_name(b, name, i, "self_attn.k_proj.bias"), kind, kv, 0);
        l->v_bias = vector(b, layer_name(b, name, i, "self_attn.v_proj.bias"), kind, kv, 0);
    }
    if (c->o_bias)
        l->o_bias = vector(b, layer_name(b, name, i, "self_attn.o_proj.bias"), kind, c->hidden, 0);
    if (c->qk_norm) {
        l->q_norm =
            vector(b, layer_name(b, name, i, "self_attn.q_norm.weight"), kind, c->head_dim, one);
        l->k_norm =
            vector(b, layer_name(b, name, i, "self_attn.k_norm.weight"), kind, c->head_dim, one);
    }
}

static void bind_linear(struct binder *b, int64_t i, struct fg_layer *l)
{
    const struct fg_config *c = b->cfg;
    const char *kind = "linear-attention layer";
    char name[NAME_MAX_BYTES];
    struct fg_tensor t;
    int64_t channels = fg_config_conv_channels(c), nv = c->n_v_heads, val = nv * c->v_head_dim;
    l->qkv = matrix(b, layer_name(b, name, i, "linear_attn.in_proj_qkv.weight"), kind, channels,
                    c->hidden);
    l->z = matrix(b, layer_name(b, name, i, "linear_attn.in_proj_z.weight"), kind, val, c->hidden);
    l->b = matrix(b, layer_name(b, name, i, "linear_attn.in_proj_b.weight"), kind, nv, c->hidden);
    l->a = matrix(b, layer_name(b, name, i, "linear_attn.in_proj_a.weight"), kind, nv, c->hidden);
    layer_name(b, name, i, "linear_attn.conv1d.weight");
    if (!b->rc && b->src->find(b->src->ctx, name, &t) && t.rank == 3 &&
        t.shape[1] == (uint64_t)c->conv_kernel && t.shape[2] == 1 && c->conv_kernel != 1) {
        fail_tensor(b, name, t.file, "[channels, 1, kernel]",
                    "[channels, kernel, 1]: an MLX export, whose norms differ too");
        return;
    }
    int64_t conv_shape[3] = {channels, 1, c->conv_kernel};
    l->conv = vector_shaped(b, name, kind, 3, conv_shape, channels * c->conv_kernel, 0);
    l->dt_bias = vector(b, layer_name(b, name, i, "linear_attn.dt_bias"), kind, nv, 0);
    l->neg_exp_A = vector(b, layer_name(b, name, i, "linear_attn.A_log"), kind, nv, 0);
    if (l->neg_exp_A) {
        for (int64_t j = 0; j < nv; j++)
            l->neg_exp_A[j] = -fg_exp_f32(l->neg_exp_A[j]);
    }
    l->gated_norm =
        vector(b, layer_name(b, name, i, "linear_attn.norm.weight"), kind, c->v_head_dim, 0);
    l->out = matrix(b, layer_name(b, name, i, "linear_attn.out_proj.weight"), kind, c->hidden, val);
}

static void bind_layer(struct binder *b, int64_t i, struct fg_layer *l)
{
    const struct fg_config *c = b->cfg;
    char name[NAME_MAX_BYTES];
    const char *kind = "MLP";
    float one = c->norm_zero_centred ? 1 : 0;
    l->is_linear = c->is_linear[i];
    l->input_norm =
        vector(b, layer_name(b, name, i, "input_layernorm.weight"), "layer", c->hidden, one);
    l->post_norm = vector(b, layer_name(b, name, i, "post_attention_layernorm.weight"), "layer",
                          c->hidden, one);
    if (l->is_linear)
        bind_linear(b, i, l);
    else
        bind_full(b, i, l);
    l->gate =
        matrix(b, layer_name(b, name, i, "mlp.gate_proj.weight"), kind, c->intermediate, c->hidden);
    l->up =
        matrix(b, layer_name(b, name, i, "mlp.up_proj.weight"), kind, c->intermediate, c->hidden);
    l->down =
        matrix(b, layer_name(b, name, i, "mlp.down_proj.weight"), kind, c->hidden, c->intermediate);
    check_rotation(b, i, "the MLP", (const struct fg_mat *const[]){&l->gate, &l->up}, 2);
    check_rotation(b, i, "the mixer",
                   l->is_linear ? (const struct fg_mat *const[]){&l->qkv, &l->z, &l->a, &l->b}
                                : (const struct fg_mat *const[]){&l->q, &l->k, &l->v, &l->v},
                   4);
    if (c->mlp_bias) {
        l->gate_bias =
            vector(b, layer_name(b, name, i, "mlp.gate_proj.bias"), kind, c->intermediate, 0);
        l->up_bias =
            vector(b, layer_name(b, name, i, "mlp.up_proj.bias"), kind, c->intermediate, 0);
        l->down_bias = vector(b, layer_name(b, name, i, "mlp.down_proj.bias"), kind, c->hidden, 0);
    }
}

static void bind_head(struct binder *b, struct fg_weights *w, const struct fg_log *log)
{
    static const char *const names[] = {"lm_head.weight", "language_model.lm_head.weight"};
    const struct fg_config *c = b->cfg;
    struct fg_tensor t;
    // A quantized head is a matrix of its own, whatever the checkpoint tied it to.
    if (quantized(b, names[0], c->vocab, c->hidden, &w->head) || b->rc) return;
    for (size_t i = 0; i < 2 && !b->rc; i++) {
        if (!b->src->find(b->src->ctx, names[i], &t)) continue;
        if (!c->tied) {
            w->head = matrix(b, names[i], "model", c->vocab, c->hidden);
            return;
        }
        b->bound++;
        uint64_t bytes =
            (uint64_t)w->embed.n_out * (uint64_t)w->embed.n_in * fg_dtype_bytes(w->embed.dtype);
        bool same = t.bytes == bytes && t.data && w->embed.data &&
                    memcmp(t.data, w->embed.data, (size_t)bytes) == 0;
        if (!same)
            fg_log_warn(log,
                        "%s: %s differs from the embedding and is ignored: tie_word_embeddings "
                        "is true",
                        t.file, names[i]);
        break;
    }
    if (c->tied)
        w->head = w->embed;
    else if (!b->rc)
        fail_tensor(b, names[0], NULL, "a tensor of the model (tie_word_embeddings is false)",
                    "no such tensor");
}

static bool starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

// True when the name is one that binding asked for: the prefix is ours and the rest is in the lists
// of section 2.1.
static bool is_known(const struct binder *b, const char *name)
{
    static const char *const rests[] = {
        "input_layernorm.weight",
        "post_attention_layernorm.weight",
        "mlp.gate_proj.weight",
        "mlp.up_proj.weight",
        "mlp.down_proj.weight",
        "mlp.gate_proj.bias",
        "mlp.up_proj.bias",
        "mlp.down_proj.bias",
        "self_attn.q_proj.weight",
        "self_attn.k_proj.weight",
        "self_attn.v_proj.weight",
        "self_attn.o_proj.weight",
        "self_attn.q_proj.bias",
        "self_attn.k_proj.bias",
        "self_attn.v_proj.bias",
        "self_attn.o_proj.bias",
        "self_attn.q_norm.weight",
        "self_attn.k_norm.weight",
        "linear_attn.in_proj_qkv.weight",
        "linear_attn.in_proj_z.weight",
        "linear_attn.in_proj_b.weight",
        "linear_attn.in_proj_a.weight",
        "linear_attn.conv1d.weight",
        "linear_attn.dt_bias",
        "linear_attn.A_log",
        "linear_attn.norm.weight",
        "linear_attn.out_proj.weight",
    };
    const struct fg_config *c = b->cfg;
    if (strcmp(name, "lm_head.weight") == 0 || strcmp(name, "language_model.lm_head.weight") == 0)
        return true;
    if (!starts_with(name, b->prefix)) return false;
    name += strlen(b->prefix);
    if (strcmp(name, "embed_tokens.weight") == 0 || strcmp(name, "norm.weight") == 0) return true;
    long long layer = -1;
    int used = 0;
    if (sscanf(name, "layers.%lld.%n", &layer, &used) != 1 || used == 0) return false;
    if (layer < 0 || layer >= c->n_layers) return false;
    const char *rest = name + used;
    bool is_bias = strlen(rest) > 5 && strcmp(rest + strlen(rest) - 5, ".bias") == 0;
    if (starts_with(rest, "linear_attn.") && !c->is_linear[layer]) return false;
    if (starts_with(rest, "self_attn.") && c->is_linear[layer]) return false;
    if (is_bias) { // a bias that the config does not ask for would silently be left out
        if (starts_with(rest, "mlp.")) return c->mlp_bias;
        if (strcmp(rest, "self_attn.o_proj.bias") == 0) return c->o_bias;
        return c->qkv_bias && starts_with(rest, "self_attn.");
    }
    if (strstr(rest, "q_norm") || strstr(rest, "k_norm")) return c->qk_norm;
    for (size_t i = 0; i < sizeof rests / sizeof rests[0]; i++) {
        if (strcmp(rest, rests[i]) == 0) return true;
    }
    // Old Llama exports store the frequencies that the config gives anyway.
    return strcmp(rest, "self_attn.rotary_emb.inv_freq") == 0;
}

static void sort_rest(struct binder *b, struct fg_weights_rest *rest)
{
    *rest = (struct fg_weights_rest){0};
    for (uint64_t i = 0; i < b->src->count; i++) {
        struct fg_tensor t;
        b->src->at(b->src->ctx, i, &t);
        if (starts_with(t.name, "model.visual.") || starts_with(t.name, "visual.")) {
            rest->visual_count++;
            rest->visual_bytes += t.bytes;
        } else if (starts_with(t.name, "mtp.") || starts_with(t.name, "model.mtp.")) {
            rest->mtp_count++;
            rest->mtp_bytes += t.bytes;
        } else if (!is_known(b, t.name)) {
            if (rest->unknown_count < 3)
                fg_escape(rest->unknown[rest->unknown_count], sizeof rest->unknown[0], t.name,
                          strlen(t.name));
            rest->unknown_count++;
        }
    }
}

int fg_weights_bind(struct fg_weights *w, const struct fg_config *cfg,
                    const struct fg_tensor_source *src, bool strict, const struct fg_log *log,
                    struct fg_arena *arena, struct fg_weights_rest *rest, struct fg_error *err)
{
    static const char *const prefixes[] = {"model.language_model.", "model.",
                                           "language_model.model.", ""};
    struct binder binder = {.cfg = cfg, .src = src, .arena = arena, .err = err};
    struct binder *b = &binder;
    char name[NAME_MAX_BYTES];
    struct fg_tensor t;
    *w = (struct fg_weights){0};

    for (size_t i = 0; i < 4 && !b->prefix; i++) {
        snprintf(name, sizeof name, "%sembed_tokens.weight", prefixes[i]);
        if (src->find(src->ctx, name, &t)) b->prefix = prefixes[i];
    }
    if (!b->prefix) {
        fail_tensor(b, "model.embed_tokens.weight", NULL, "an embedding", "no such tensor");
        return b->rc;
    }
    refuse_foreign_layouts(b);
    w->embed = matrix(b, name, "model", cfg->vocab, cfg->hidden);
    snprintf(name, sizeof name, "%snorm.weight", b->prefix);
    w->final_norm = vector(b, name, "model", cfg->hidden, cfg->norm_zero_centred ? 1 : 0);
    if (!b->rc) bind_head(b, w, log);
    w->layers = fg_arena_alloc(arena, (uint64_t)cfg->n_layers, sizeof *w->layers);
    if (!b->rc && !w->layers)
        b->rc = fg_fail_memory(err, "weights", (uint64_t)cfg->n_layers * sizeof *w->layers);
    for (int64_t i = 0; i < cfg->n_layers && !b->rc; i++)
        bind_layer(b, i, &w->layers[i]);
    if (b->rc) return b->rc;

    sort_rest(b, rest);
    if (rest->unknown_count > 0) {
        char found[400];
        snprintf(found, sizeof found, "%" PRIu64 " unknown tensors: %s%s%s%s%s%s",
                 rest->unknown_count, rest->unknown[0], rest->unknown_count > 1 ? ", " : "",
                 rest->unknown[1], rest->unknown_count > 2 ? ", " : "", rest->unknown[2],
                 rest->unknown_count > 3 ? ", ..." : "");
        if (strict)
            return fg_fail(err, FG_EINPUT, "weights", src->path, "tensor names",
                           "only tensors of this architecture", "%s", found);
        fg_log_warn(log, "%s: %s (left out)", src->path, found);
    }
    return 0;
}
