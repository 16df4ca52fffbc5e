// model/needs.c: the table of tensors and their shapes.
#include "model/needs.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYER_NEEDS_MAX 32
#define NAME_BYTES 96

struct lister {
    struct fg_export_need *needs;
    uint64_t n;
    struct fg_arena *arena;
    bool failed;
};

static void add(struct lister *l, int64_t layer, const char *name, bool is_mat, int rank,
                int64_t d0, int64_t d1, int64_t d2)
{
    char full[NAME_BYTES];
    int n = layer < 0 ? snprintf(full, sizeof full, "%s", name)
                      : snprintf(full, sizeof full, "layers.%" PRId64 ".%s", layer, name);
    char *copy = fg_arena_strdup(l->arena, full, (size_t)n);
    l->failed = l->failed || !copy;
    l->needs[l->n++] = (struct fg_export_need){
        .name = copy,
        .is_mat = is_mat,
        .rank = rank,
        .shape = {(uint64_t)d0, (uint64_t)d1, (uint64_t)d2},
    };
}

static void mat(struct lister *l, int64_t layer, const char *name, int64_t rows, int64_t cols)
{
    add(l, layer, name, true, 2, rows, cols, 0);
}

static void vec(struct lister *l, int64_t layer, const char *name, int64_t n)
{
    add(l, layer, name, false, 1, n, 0, 0);
}

static void add_full(struct lister *l, const struct fg_config *c, int64_t i)
{
    int64_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    int64_t q_rows = c->output_gate ? 2 * q : q;
    mat(l, i, "self_attn.q_proj", q_rows, c->hidden);
    mat(l, i, "self_attn.k_proj", kv, c->hidden);
    mat(l, i, "self_attn.v_proj", kv, c->hidden);
    mat(l, i, "self_attn.o_proj", c->hidden, q);
    if (c->qkv_bias) {
        vec(l, i, "self_attn.q_proj.bias", q_rows);
        vec(l, i, "self_attn.k_proj.bias", kv);
        vec(l, i, "self_attn.v_proj.bias", kv);
    }
    if (c->o_bias) vec(l, i, "self_attn.o_proj.bias", c->hidden);
    if (c->qk_norm) {
        vec(l, i, "self_attn.q_norm.weight", c->head_dim);
        vec(l, i, "self_attn.k_norm.weight", c->head_dim);
    }
}

static void add_linear(struct lister *l, const struct fg_config *c, int64_t i)
{
    int64_t channels = fg_config_conv_channels(c), nv = c->n_v_heads, val = nv * c->v_head_dim;
    mat(l, i, "linear_attn.in_proj_qkv", channels, c->hidden);
    mat(l, i, "linear_attn.in_proj_z", val, c->hidden);
    mat(l, i, "linear_attn.in_proj_a", nv, c->hidden);
    mat(l, i, "linear_attn.in_proj_b", nv, c->hidden);
    mat(l, i, "linear_attn.out_proj", c->hidden, val);
    add(l, i, "linear_attn.conv1d.weight", false, 3, channels, 1, c->conv_kernel);
    vec(l, i, "linear_attn.A_log", nv);
    vec(l, i, "linear_attn.dt_bias", nv);
    vec(l, i, "linear_attn.norm.weight", c->v_head_dim);
}

static void add_layer(struct lister *l, const struct fg_config *c, int64_t i)
{
    vec(l, i, "input_layernorm.weight", c->hidden);
    vec(l, i, "post_attention_layernorm.weight", c->hidden);
    if (c->is_linear[i])
        add_linear(l, c, i);
    else
        add_full(l, c, i);
    mat(l, i, "mlp.gate_proj", c->intermediate, c->hidden);
    mat(l, i, "mlp.up_proj", c->intermediate, c->hidden);
    mat(l, i, "mlp.down_proj", c->hidden, c->intermediate);
    if (c->mlp_bias) {
        vec(l, i, "mlp.gate_proj.bias", c->intermediate);
        vec(l, i, "mlp.up_proj.bias", c->intermediate);
        vec(l, i, "mlp.down_proj.bias", c->hidden);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct fg_export_need *)a)->name,
                  ((const struct fg_export_need *)b)->name);
}

int fg_model_needs(struct fg_export_need **out, uint64_t *n, const struct fg_config *cfg,
                   struct fg_arena *arena, struct fg_error *err)
{
    uint64_t most = (uint64_t)cfg->n_layers * LAYER_NEEDS_MAX + 2;
    struct lister list = {.arena = arena}, *l = &list;
    *out = NULL;
    *n = 0;
    l->needs = fg_arena_alloc(arena, most, sizeof *l->needs);
    if (!l->needs) return fg_fail_memory(err, "model", most * sizeof *l->needs);
    for (int64_t i = 0; i < cfg->n_layers; i++)
        add_layer(l, cfg, i);
    mat(l, -1, "lm_head", cfg->vocab, cfg->hidden);
    vec(l, -1, "norm.weight", cfg->hidden);
    if (l->failed) return fg_fail_memory(err, "model", most * NAME_BYTES);
    qsort(l->needs, (size_t)l->n, sizeof *l->needs, by_name);
    *out = l->needs;
    *n = l->n;
    return 0;
}
