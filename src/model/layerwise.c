// model/layerwise.c: single layers over sequences. All layers of a kind share one memory of keys,
// values and states, since they run one after the other.
#include "model/layerwise.h"
#include "base/arena.h"
#include "base/size.h"
#include "model/embed.h"
#include "model/graph_impl.h"
#include "model/rope.h"
#include <stdlib.h>
#include <string.h>

struct fg_layerwise {
    const struct fg_model *m;
    struct fg_workspace *ws;
    struct fg_arena arena;
    int64_t seq, batch;
    struct fg_state *states;  // [batch]
    struct fg_kv_head *heads; // [batch][n_kv_heads]
};

static uint64_t pages_of(int64_t seq)
{
    return (uint64_t)(seq + FG_KV_PAGE - 1) / FG_KV_PAGE;
}

static uint64_t head_bytes(const struct fg_config *c, int64_t seq)
{
    return pages_of(seq) * (uint64_t)(fg_kv_k_page_bytes(FG_KV_F32, c->head_dim) +
                                      fg_kv_v_page_bytes(FG_KV_F32, c->head_dim));
}

static bool alloc_heads(struct fg_layerwise *lw, int64_t slot)
{
    const struct fg_config *c = &lw->m->config;
    const uint64_t pages = pages_of(lw->seq);
    for (int64_t h = 0; h < c->n_kv_heads; h++) {
        struct fg_kv_head *head = &lw->heads[slot * c->n_kv_heads + h];
        *head = (struct fg_kv_head){.format = FG_KV_F32, .D = c->head_dim};
        head->k =
            fg_arena_alloc(&lw->arena, pages, (uint64_t)fg_kv_k_page_bytes(FG_KV_F32, c->head_dim));
        head->v =
            fg_arena_alloc(&lw->arena, pages, (uint64_t)fg_kv_v_page_bytes(FG_KV_F32, c->head_dim));
        if (!head->k || !head->v) return false;
    }
    return true;
}

// S[0] and conv[0] stay zero: every sequence begins with them.
static bool alloc_recurrent(struct fg_layerwise *lw, struct fg_layer_state *l)
{
    const struct fg_config *c = &lw->m->config;
    for (int b = 0; b < 2; b++) {
        l->S[b] = fg_arena_alloc(&lw->arena, (uint64_t)(c->n_v_heads * c->k_head_dim),
                                 (uint64_t)c->v_head_dim * sizeof(float));
        l->conv[b] = fg_arena_alloc(&lw->arena, (uint64_t)fg_config_conv_channels(c),
                                    (uint64_t)c->conv_kernel * sizeof(float));
        if (!l->S[b] || !l->conv[b]) return false;
    }
    return true;
}

static bool alloc_states(struct fg_layerwise *lw)
{
    const struct fg_config *c = &lw->m->config;
    lw->states = fg_arena_alloc(&lw->arena, (uint64_t)lw->batch, sizeof *lw->states);
    lw->heads = fg_arena_alloc(&lw->arena, (uint64_t)lw->batch * (uint64_t)(c->n_kv_heads + 1),
                               sizeof *lw->heads);
    if (!lw->states || !lw->heads) return false;
    for (int64_t i = 0; i < lw->batch; i++) {
        struct fg_layer_state recurrent = {0};
        struct fg_state *s = &lw->states[i];
        *s = (struct fg_state){.format = FG_KV_F32, .capacity = lw->seq};
        s->layers = fg_arena_alloc(&lw->arena, (uint64_t)c->n_layers, sizeof *s->layers);
        if (!s->layers || (c->n_full > 0 && !alloc_heads(lw, i)) ||
            (c->n_linear > 0 && !alloc_recurrent(lw, &recurrent)))
            return false;
        for (int64_t l = 0; l < c->n_layers; l++) {
            if (c->is_linear[l])
                s->layers[l] = recurrent;
            else
                s->layers[l] = (struct fg_layer_state){.kv = lw->heads + i * c->n_kv_heads};
        }
    }
    return true;
}

int fg_layerwise_new(struct fg_layerwise **out, const struct fg_model *m,
                     const struct fg_layerwise_options *o, struct fg_error *err)
{
    *out = NULL;
    struct fg_layerwise *lw = calloc(1, sizeof *lw);
    if (!lw) return fg_fail_memory(err, "layers", sizeof *lw);
    lw->m = m;
    lw->seq = o->seq;
    lw->batch = o->batch;
    fg_arena_init(&lw->arena, 0);
    const struct fg_workspace_options wo = {.kernels = o->kernels,
                                            .pool = o->pool,
                                            .attention = FG_ATTENTION_STORED,
                                            .T_max = o->seq * o->batch};
    int rc = fg_workspace_new(&lw->ws, m, &wo, err);
    if (!rc) rc = fg_workspace_fit(lw->ws, m, o->seq, err);
    if (!rc && !alloc_states(lw)) rc = fg_fail_memory(err, "layers", lw->arena.used_bytes);
    if (rc) {
        fg_layerwise_free(lw);
        return rc;
    }
    *out = lw;
    return 0;
}

void fg_layerwise_free(struct fg_layerwise *lw)
{
    if (!lw) return;
    fg_workspace_free(lw->ws);
    fg_arena_free(&lw->arena);
    free(lw);
}

uint64_t fg_layerwise_bytes(const struct fg_config *c, int64_t seq, int64_t batch)
{
    const uint64_t rows = (uint64_t)(seq * batch), q = (uint64_t)(c->n_heads * c->head_dim);
    const uint64_t kv = (uint64_t)(c->n_kv_heads * c->head_dim);
    const uint64_t val = (uint64_t)(c->n_v_heads * c->v_head_dim);
    const uint64_t channels = (uint64_t)fg_config_conv_channels(c);
    uint64_t width = 3 * (uint64_t)c->hidden + 2 * (uint64_t)c->intermediate;
    uint64_t each = 0; // sequence
    if (c->n_full > 0) {
        width += 5 * q + 2 * kv;
        each += (uint64_t)c->n_kv_heads * head_bytes(c, seq);
    }
    if (c->n_linear > 0) {
        width += 2 * channels + 2 * val;
        each += 8 * (uint64_t)c->k_head_dim * val + 8 * channels * (uint64_t)c->conv_kernel;
    }
    return 4 * rows * width + (uint64_t)batch * each;
}

// ---- pieces

static void parts_of(const struct fg_layerwise *lw, int64_t n, struct fg_part *parts)
{
    for (int64_t i = 0; i < n; i++)
        parts[i] = (struct fg_part){&lw->states[i], i * lw->seq, lw->seq};
}

void fg_layerwise_embed(struct fg_layerwise *lw, const int32_t *ids, int64_t n, float *x)
{
    fg_embed_rows(x, &lw->m->weights.embed, ids, n * lw->seq, &lw->ws->par);
}

static float *norm(struct fg_layerwise *lw, const float *x, const float *w, int64_t n)
{
    const struct fg_config *c = &lw->m->config;
    fg_graph_norm(lw->ws, lw->ws->h, x, w, c->hidden, n * lw->seq, c->norm_eps);
    return lw->ws->h;
}

float *fg_layerwise_mixer_input(struct fg_layerwise *lw, int layer, const float *x, int64_t n)
{
    return norm(lw, x, lw->m->weights.layers[layer].input_norm, n);
}

float *fg_layerwise_mlp_input(struct fg_layerwise *lw, int layer, const float *x, int64_t n)
{
    return norm(lw, x, lw->m->weights.layers[layer].post_norm, n);
}

float *fg_layerwise_head_input(struct fg_layerwise *lw, const float *x, int64_t n)
{
    return norm(lw, x, lw->m->weights.final_norm, n);
}

static void run_mixer(struct fg_layerwise *lw, int layer, const float *x, int64_t n, bool inner)
{
    struct fg_workspace *ws = lw->ws;
    const struct fg_config *c = &lw->m->config;
    struct fg_part parts[FG_CALL_SPANS_MAX];
    const struct fg_mixer mixer = {.m = lw->m,
                                   .layer = layer,
                                   .parts = parts,
                                   .n_parts = (int)n,
                                   .T = n * lw->seq,
                                   .inner = inner};
    parts_of(lw, n, parts);
    fg_layerwise_mixer_input(lw, layer, x, n);
    if (c->is_linear[layer]) {
        fg_graph_deltanet(ws, &mixer);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = i * lw->seq * (c->rot / 2);
        fg_rope_table(c, 0, lw->seq, ws->rope_cos + at, ws->rope_sin + at);
    }
    fg_graph_attention(ws, &mixer);
}

float *fg_layerwise_mixer_inner(struct fg_layerwise *lw, int layer, const float *x, int64_t n)
{
    run_mixer(lw, layer, x, n, true);
    return lw->m->config.is_linear[layer] ? lw->ws->gdn_o : lw->ws->o;
}

float *fg_layerwise_mixer(struct fg_layerwise *lw, int layer, const float *x, int64_t n)
{
    run_mixer(lw, layer, x, n, false);
    return lw->ws->y;
}

float *fg_layerwise_mlp_inner(struct fg_layerwise *lw, int layer, const float *x, int64_t n)
{
    fg_layerwise_mlp_input(lw, layer, x, n);
    fg_graph_mlp_inner(lw->ws, lw->m, layer, 0, n * lw->seq);
    return lw->ws->gate;
}

float *fg_layerwise_mlp(struct fg_layerwise *lw, int layer, const float *x, int64_t n)
{
    fg_layerwise_mlp_input(lw, layer, x, n);
    fg_graph_mlp(lw->ws, lw->m, layer, 0, n * lw->seq);
    return lw->ws->y;
}
