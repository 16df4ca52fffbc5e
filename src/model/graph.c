// model/graph.c: the forward pass and its buffers. Layers' mixers are in attention.c and
// deltanet.c.
#include "model/graph.h"
#include "model/graph_impl.h"
#include "model/rope.h"
#include <stdlib.h>
#include <string.h>

// Inputs narrower than this take two digits of INT8: small models have few columns to average
// errors over, and products cheap enough to be done twice.
#define DIGITS_BELOW 1024

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int fg_workspace_new(struct fg_workspace **out, const struct fg_model *m,
                     const struct fg_kernels *kernels, struct fg_pool *pool, bool fast,
                     int64_t T_max, struct fg_error *err)
{
    const struct fg_config *c = &m->config;
    *out = NULL;
    struct fg_workspace *ws = calloc(1, sizeof *ws);
    if (!ws) return fg_fail_memory(err, "workspace", sizeof *ws);
    fg_arena_init(&ws->arena, 0);
    ws->T_max = T_max;

    int64_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    int64_t channels = fg_config_conv_channels(c), val = c->n_v_heads * c->v_head_dim;
    int64_t n_in_max = max64(max64(c->hidden, c->intermediate), max64(c->n_full ? q : 0, val));
    uint64_t T = (uint64_t)T_max;
    ws->par = (struct fg_parallel){.kernels = kernels, .pool = pool, .fast = fast};
    const struct fg_parallel_sizes sizes = {.T = T_max,
                                            .n = n_in_max,
                                            .quantized = m->quantized,
                                            .rank_sum = m->rank_sum_max,
                                            .n_digits = max64(c->hidden, DIGITS_BELOW),
                                            .G = c->n_heads / c->n_kv_heads,
                                            .D = c->head_dim,
                                            .dv = c->v_head_dim};

    // One list of what is needed, allocated in one sweep. Buffers of the two mixers are never in
    // use together.
    const struct {
        float **p;
        int64_t width; // floats per row
        bool wanted;
    } need[] = {
        {&ws->x, c->hidden, true},
        {&ws->h, c->hidden, true},
        {&ws->y, c->hidden, true},
        {&ws->gate, c->intermediate, true},
        {&ws->up, c->intermediate, true},
        {&ws->rope_cos, c->rot / 2, c->n_full > 0},
        {&ws->rope_sin, c->rot / 2, c->n_full > 0},
        {&ws->q_proj, c->output_gate ? 2 * q : q, c->n_full > 0},
        {&ws->q, q, c->n_full > 0},
        {&ws->k, kv, c->n_full > 0},
        {&ws->v, kv, c->n_full > 0},
        {&ws->o, q, c->n_full > 0},
        {&ws->u, channels, c->n_linear > 0},
        {&ws->conv, channels, c->n_linear > 0},
        {&ws->z, val, c->n_linear > 0},
        {&ws->gdn_o, val, c->n_linear > 0},
        {&ws->b, c->n_v_heads, c->n_linear > 0},
        {&ws->a, c->n_v_heads, c->n_linear > 0},
        {&ws->alpha, c->n_v_heads, c->n_linear > 0},
        {&ws->beta, c->n_v_heads, c->n_linear > 0},
    };
    bool ok = true;
    for (size_t i = 0; i < sizeof need / sizeof need[0] && ok; i++) {
        if (!need[i].wanted) continue;
        *need[i].p = fg_arena_alloc(&ws->arena, T * (uint64_t)need[i].width, sizeof(float));
        ok = *need[i].p != NULL;
    }
    ok = ok && fg_parallel_alloc(&ws->par, &sizes, &ws->arena);
    if (!ok) {
        uint64_t bytes = ws->arena.used_bytes;
        fg_workspace_free(ws);
        return fg_fail_memory(err, "workspace", bytes);
    }
    *out = ws;
    return 0;
}

void fg_workspace_free(struct fg_workspace *ws)
{
    if (!ws) return;
    fg_arena_free(&ws->arena);
    free(ws);
}

uint64_t fg_workspace_bytes(const struct fg_workspace *ws)
{
    return ws->arena.used_bytes;
}

void fg_workspace_set_tap(struct fg_workspace *ws, fg_tap_fn tap, void *ctx)
{
    ws->tap = tap;
    ws->tap_ctx = ctx;
}

// ---- loops over rows

struct rows {
    float *y;
    const float *x, *w;
    int64_t ld_y, ld_x, n;
    float eps;
};

static void norm_rows(void *ctx, const struct fg_kernels *k, int64_t i0, int64_t i1)
{
    const struct rows *r = ctx;
    for (int64_t i = i0; i < i1; i++)
        k->rms_norm(r->y + i * r->ld_y, r->x + i * r->ld_x, r->w, r->n, r->eps);
}

void fg_graph_norm(struct fg_workspace *ws, float *y, const float *x, const float *w, int64_t n,
                   int64_t T, float eps)
{
    struct rows r = {.y = y, .x = x, .w = w, .ld_y = n, .ld_x = n, .n = n, .eps = eps};
    fg_parallel_for(&ws->par, T, FG_GRAPH_ROWS_GRAIN, norm_rows, &r);
}

static void add_rows(void *ctx, const struct fg_kernels *k, int64_t i0, int64_t i1)
{
    const struct rows *r = ctx;
    k->add(r->y + i0 * r->n, r->x + i0 * r->n, (i1 - i0) * r->n);
}

void fg_graph_add(struct fg_workspace *ws, float *y, const float *x, int64_t n, int64_t T)
{
    struct rows r = {.y = y, .x = x, .n = n};
    fg_parallel_for(&ws->par, T, FG_GRAPH_ROWS_GRAIN, add_rows, &r);
}

static void silu_rows(void *ctx, const struct fg_kernels *k, int64_t i0, int64_t i1)
{
    const struct rows *r = ctx;
    k->silu_mul(r->y + i0 * r->n, r->y + i0 * r->n, r->x + i0 * r->n, (i1 - i0) * r->n);
}

// ---- the graph

static struct fg_linear linear_of(const struct fg_term *t)
{
    const struct fg_mat *w = t->w;
    return (struct fg_linear){.w = w->data,
                              .dtype = w->dtype,
                              .n_out = w->n_out,
                              .n_in = w->n_in,
                              .bias = t->bias,
                              .y = t->y,
                              .ldy = w->n_out,
                              .lut = w->lut,
                              .exact = w->exact};
}

void fg_graph_linear(struct fg_workspace *ws, const struct fg_term *terms, int n, const float *x,
                     int64_t T)
{
    struct fg_linear mats[FG_GRAPH_TERMS_MAX];
    const int64_t n_in = terms[0].w->n_in;
    struct fg_input in = {.x = x, .ldx = n_in, .n = n_in, .digits = n_in < DIGITS_BELOW ? 2 : 1};
    for (int i = 0; i < n; i++) {
        mats[i] = linear_of(&terms[i]);
        if (!terms[i].w->signs) continue;
        in.signs = terms[i].w->signs;
        in.block = terms[i].w->block;
    }
    fg_parallel_linear(&ws->par, mats, n, &in, T);
}

static void mlp(const struct fg_model *m, const struct fg_layer *l, int layer, int64_t pos,
                struct fg_workspace *ws, int64_t T)
{
    const struct fg_config *c = &m->config;
    const int64_t F = c->intermediate;
    const struct fg_term in[2] = {{&l->gate, l->gate_bias, ws->gate}, {&l->up, l->up_bias, ws->up}};
    fg_graph_linear(ws, in, 2, ws->h, T);
    fg_graph_tap(ws, "mlp_gate", layer, pos, T, F, ws->gate, F);
    fg_graph_tap(ws, "mlp_up", layer, pos, T, F, ws->up, F);
    struct rows r = {.y = ws->gate, .x = ws->up, .n = F};
    fg_parallel_for(&ws->par, T, FG_GRAPH_ROWS_GRAIN, silu_rows, &r);
    fg_graph_tap(ws, "mlp_act", layer, pos, T, F, ws->gate, F);
    fg_graph_linear(ws, &(struct fg_term){&l->down, l->down_bias, ws->y}, 1, ws->gate, T);
    fg_graph_tap(ws, "mlp_out", layer, pos, T, c->hidden, ws->y, c->hidden);
}

// All layers; leaves the residual in ws->x and advances the state.
static void run_layers(const struct fg_model *m, struct fg_state *state, struct fg_workspace *ws,
                       const int32_t *ids, int64_t T)
{
    const struct fg_config *c = &m->config;
    const struct fg_weights *w = &m->weights;
    const int64_t H = c->hidden, pos = state->pos;
    const uint64_t row_bytes = (uint64_t)H * fg_dtype_bytes(w->embed.dtype);
    for (int64_t t = 0; t < T; t++)
        ws->par.kernels->widen(ws->x + t * H,
                               (const uint8_t *)w->embed.data + (uint64_t)ids[t] * row_bytes,
                               w->embed.dtype, H);
    fg_graph_tap(ws, "embed", -1, pos, T, H, ws->x, H);
    if (c->n_full > 0) fg_rope_table(c, pos, T, ws->rope_cos, ws->rope_sin);

    for (int i = 0; i < (int)c->n_layers; i++) {
        const struct fg_layer *l = &w->layers[i];
        fg_graph_norm(ws, ws->h, ws->x, l->input_norm, H, T, c->norm_eps);
        fg_graph_tap(ws, "attn_norm", i, pos, T, H, ws->h, H);
        if (l->is_linear)
            fg_graph_deltanet(m, l, i, &state->layers[i], pos, ws, T);
        else
            fg_graph_attention(m, l, i, &state->layers[i], state->capacity, pos, ws, T);
        fg_graph_tap(ws, "mixer_out", i, pos, T, H, ws->y, H);
        fg_graph_add(ws, ws->x, ws->y, H, T);
        fg_graph_tap(ws, "mid", i, pos, T, H, ws->x, H);
        fg_graph_norm(ws, ws->h, ws->x, l->post_norm, H, T, c->norm_eps);
        fg_graph_tap(ws, "mlp_norm", i, pos, T, H, ws->h, H);
        mlp(m, l, i, pos, ws, T);
        fg_graph_add(ws, ws->x, ws->y, H, T);
        fg_graph_tap(ws, "layer_out", i, pos, T, H, ws->x, H);
    }
    state->pos = pos + T;
}

// The input of the head for the last n of T rows: their final norm, in ws->h. Its INT8 form has two
// digits: it is not rotated, and it decides the argmax.
static struct fg_input head_input(const struct fg_model *m, const struct fg_state *state,
                                  struct fg_workspace *ws, int64_t T, int64_t n)
{
    const int64_t H = m->config.hidden;
    fg_graph_norm(ws, ws->h, ws->x + (T - n) * H, m->weights.final_norm, H, n, m->config.norm_eps);
    fg_graph_tap(ws, "final_norm", -1, state->pos - n, n, H, ws->h, H);
    return (struct fg_input){.x = ws->h, .ldx = H, .n = H, .digits = 2};
}

void fg_forward(const struct fg_model *m, struct fg_state *state, struct fg_workspace *ws,
                const int32_t *ids, int64_t T, float *logits, int64_t n_logits)
{
    const int64_t V = m->config.vocab;
    run_layers(m, state, ws, ids, T);
    if (n_logits == 0) return;
    const struct fg_input in = head_input(m, state, ws, T, n_logits);
    const struct fg_linear head = linear_of(&(struct fg_term){&m->weights.head, NULL, logits});
    fg_parallel_linear(&ws->par, &head, 1, &in, n_logits);
    fg_graph_tap(ws, "logits", -1, state->pos - n_logits, n_logits, V, logits, V);
}

void fg_forward_best(const struct fg_model *m, struct fg_state *state, struct fg_workspace *ws,
                     const int32_t *ids, int64_t T, struct fg_best *best, int64_t n_best)
{
    run_layers(m, state, ws, ids, T);
    if (n_best == 0) return;
    const struct fg_input in = head_input(m, state, ws, T, n_best);
    const struct fg_linear head = linear_of(&(struct fg_term){&m->weights.head, NULL, NULL});
    fg_parallel_best(&ws->par, &head, &in, n_best, best);
}
