// model/graph.c: the forward pass and its buffers. Layers' mixers are in attention.c and
// deltanet.c.
#include "model/graph.h"
#include "model/embed.h"
#include "model/graph_impl.h"
#include "model/rope.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Inputs narrower than this take two digits of INT8: small models have few columns to average
// errors over, and products cheap enough to be done twice.
#define DIGITS_BELOW 1024

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool alloc_reference(struct fg_workspace *ws, const struct fg_config *c)
{
    ws->c2t = fg_c2t_units_default();
    if (ws->attention == FG_ATTENTION_STORED || c->n_full == 0) return true;
    ws->reference_bytes = fg_attention_reference_scratch_bytes(
        c->head_dim, ws->T_max, c->n_heads / c->n_kv_heads, &ws->c2t);
    ws->reference_bytes = (ws->reference_bytes + 63) / 64 * 64;
    ws->reference = fg_arena_alloc(&ws->arena, (uint64_t)c->n_kv_heads, ws->reference_bytes);
    return ws->reference != NULL;
}

// Queries as attention takes them.
static bool alloc_queries(struct fg_workspace *ws, const struct fg_config *c)
{
    if (c->n_full == 0) return true;
    const uint64_t rows = (uint64_t)(ws->T_max * c->n_heads),
                   W = (uint64_t)fg_kv_width(c->head_dim);
    ws->qx = fg_arena_alloc(&ws->arena, rows * W, sizeof *ws->qx);
    ws->no_signs = fg_arena_alloc(&ws->arena, (uint64_t)(c->head_dim + 7) / 8, 1);
    if (!ws->par.fast) return ws->qx && ws->no_signs;
    ws->qc = fg_arena_alloc(&ws->arena, rows * 2 * W, sizeof *ws->qc);
    ws->qs = fg_arena_alloc(&ws->arena, rows, sizeof *ws->qs);
    ws->qsum = fg_arena_alloc(&ws->arena, rows, sizeof *ws->qsum);
    return ws->qx && ws->no_signs && ws->qc && ws->qs && ws->qsum;
}

int fg_workspace_new(struct fg_workspace **out, const struct fg_model *m,
                     const struct fg_workspace_options *options, struct fg_error *err)
{
    const struct fg_config *c = &m->config;
    *out = NULL;
    struct fg_workspace *ws = calloc(1, sizeof *ws);
    if (!ws) return fg_fail_memory(err, "workspace", sizeof *ws);
    fg_arena_init(&ws->arena, 0);
    ws->T_max = options->T_max;
    ws->attention = options->attention;

    int64_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    int64_t channels = fg_config_conv_channels(c), val = c->n_v_heads * c->v_head_dim;
    int64_t n_in_max = max64(max64(c->hidden, c->intermediate), max64(c->n_full ? q : 0, val));
    uint64_t T = (uint64_t)options->T_max;
    ws->par = (struct fg_parallel){
        .kernels = options->kernels, .pool = options->pool, .fast = options->fast};
    const struct fg_parallel_sizes sizes = {.T = options->T_max,
                                            .n = n_in_max,
                                            .quantized = m->quantized,
                                            .rank_sum = m->rank_sum_max,
                                            .n_digits = max64(c->hidden, DIGITS_BELOW),
                                            .D = c->n_full ? c->head_dim : 0,
                                            .dk = c->k_head_dim,
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
    ok = ok && alloc_queries(ws, c) && alloc_reference(ws, c);
    ok = ok && fg_parallel_alloc(&ws->par, &sizes, &ws->arena);
    if (!ok) {
        uint64_t bytes = ws->arena.used_bytes;
        fg_workspace_free(ws);
        return fg_fail_memory(err, "workspace", bytes);
    }
    *out = ws;
    return 0;
}

int fg_workspace_fit(struct fg_workspace *ws, const struct fg_model *m, int64_t capacity,
                     struct fg_error *err)
{
    const struct fg_config *c = &m->config;
    if (c->n_full == 0) return 0;
    const uint64_t bytes =
        fg_attn_partial_floats(capacity, c->n_heads, c->n_kv_heads, c->head_dim) * sizeof(float);
    if (bytes == ws->partials_bytes) return 0;
    float *p = fg_alloc_aligned(bytes);
    if (!p) return fg_fail_memory(err, "attention over segments", bytes);
    free(ws->par.partials);
    ws->par.partials = p;
    ws->partials_bytes = bytes;
    return 0;
}

void fg_workspace_free(struct fg_workspace *ws)
{
    if (!ws) return;
    free(ws->par.partials);
    fg_arena_free(&ws->arena);
    free(ws);
}

uint64_t fg_workspace_bytes(const struct fg_workspace *ws)
{
    return ws->arena.used_bytes + ws->partials_bytes;
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

void fg_graph_mlp_inner(struct fg_workspace *ws, const struct fg_model *m, int layer, int64_t pos,
                        int64_t T)
{
    const struct fg_layer *l = &m->weights.layers[layer];
    const int64_t F = m->config.intermediate;
    const struct fg_term in[2] = {{&l->gate, l->gate_bias, ws->gate}, {&l->up, l->up_bias, ws->up}};
    fg_graph_linear(ws, in, 2, ws->h, T);
    fg_graph_tap(ws, "mlp_gate", layer, pos, T, F, ws->gate, F);
    fg_graph_tap(ws, "mlp_up", layer, pos, T, F, ws->up, F);
    struct rows r = {.y = ws->gate, .x = ws->up, .n = F};
    fg_parallel_for(&ws->par, T, FG_GRAPH_ROWS_GRAIN, silu_rows, &r);
    fg_graph_tap(ws, "mlp_act", layer, pos, T, F, ws->gate, F);
}

void fg_graph_mlp(struct fg_workspace *ws, const struct fg_model *m, int layer, int64_t pos,
                  int64_t T)
{
    const struct fg_layer *l = &m->weights.layers[layer];
    const int64_t H = m->config.hidden;
    fg_graph_mlp_inner(ws, m, layer, pos, T);
    fg_graph_linear(ws, &(struct fg_term){&l->down, l->down_bias, ws->y}, 1, ws->gate, T);
    fg_graph_tap(ws, "mlp_out", layer, pos, T, H, ws->y, H);
}

static void copy_taps(const struct fg_call *call, const float *x, int64_t H, int64_t layer)
{
    for (int64_t i = 0; i < call->n_taps; i++) {
        if (call->tap_layers[i] != layer) continue;
        for (int64_t t = 0; t < call->T; t++)
            memcpy(call->taps + (t * call->n_taps + i) * H, x + t * H, (size_t)H * sizeof *x);
    }
}

static int stopped(struct fg_error *err)
{
    return fg_fail(err, FG_EINTERRUPTED, "forward pass", NULL, NULL, NULL, "stopped");
}

// All layers; leaves the residual in ws->x.
static int run_layers(const struct fg_model *m, struct fg_workspace *ws, const struct fg_call *call,
                      const struct fg_part *parts, struct fg_error *err)
{
    const struct fg_config *c = &m->config;
    const struct fg_weights *w = &m->weights;
    const int64_t H = c->hidden, T = call->T, pos = call->spans[0].state->pos;
    fg_embed_rows(ws->x, &w->embed, call->ids, T, &ws->par);
    fg_graph_tap(ws, "embed", -1, pos, T, H, ws->x, H);
    for (int i = 0; i < call->n_spans && c->n_full > 0; i++) {
        const int64_t at = parts[i].t0 * (c->rot / 2);
        fg_rope_table(c, parts[i].state->pos, parts[i].T, ws->rope_cos + at, ws->rope_sin + at);
    }

    struct fg_mixer mixer = {
        .m = m, .parts = parts, .n_parts = call->n_spans, .T = T, .verify = call->verify};
    for (int i = 0; i < (int)c->n_layers; i++) {
        const struct fg_layer *l = &w->layers[i];
        if (call->cancel && call->cancel(call->cancel_ctx)) return stopped(err);
        mixer.layer = i;
        fg_graph_norm(ws, ws->h, ws->x, l->input_norm, H, T, c->norm_eps);
        fg_graph_tap(ws, "attn_norm", i, pos, T, H, ws->h, H);
        if (l->is_linear)
            fg_graph_deltanet(ws, &mixer);
        else
            fg_graph_attention(ws, &mixer);
        fg_graph_tap(ws, "mixer_out", i, pos, T, H, ws->y, H);
        fg_graph_add(ws, ws->x, ws->y, H, T);
        fg_graph_tap(ws, "mid", i, pos, T, H, ws->x, H);
        fg_graph_norm(ws, ws->h, ws->x, l->post_norm, H, T, c->norm_eps);
        fg_graph_tap(ws, "mlp_norm", i, pos, T, H, ws->h, H);
        fg_graph_mlp(ws, m, i, pos, T);
        fg_graph_add(ws, ws->x, ws->y, H, T);
        fg_graph_tap(ws, "layer_out", i, pos, T, H, ws->x, H);
        copy_taps(call, ws->x, H, i);
    }
    return 0;
}

// Everything that a row computes ends in its residual, so what is not finite shows there.
static bool all_finite(const struct fg_workspace *ws, int64_t n)
{
    float sum = 0.0f;
    for (int64_t i = 0; i < n; i++)
        sum += ws->x[i] * 0.0f; // NaN and infinity give NaN
    return sum == 0.0f && !atomic_load_explicit(&ws->not_finite, memory_order_relaxed);
}

// The head over the final norm of the last n_out rows, in ws->h. Its INT8 form has two digits: it
// is not rotated, and it decides the argmax.
static void run_head(const struct fg_model *m, struct fg_workspace *ws, const struct fg_call *call,
                     int64_t pos)
{
    const int64_t H = m->config.hidden, V = m->config.vocab, n = call->n_out, at = call->T - n;
    fg_graph_norm(ws, ws->h, ws->x + at * H, m->weights.final_norm, H, n, m->config.norm_eps);
    fg_graph_tap(ws, "final_norm", -1, pos + at, n, H, ws->h, H);
    const struct fg_input in = {.x = ws->h, .ldx = H, .n = H, .digits = 2};
    const struct fg_linear head =
        linear_of(&(struct fg_term){&m->weights.head, NULL, call->logits});
    if (call->best) {
        fg_parallel_best(&ws->par, &head, &in, n, call->best);
        return;
    }
    fg_parallel_linear(&ws->par, &head, 1, &in, n);
    fg_graph_tap(ws, "logits", -1, pos + at, n, V, call->logits, V);
}

// What the call has computed becomes the state.
static void publish(struct fg_state *s, int64_t T, bool verify)
{
    const bool aside = fg_state_aside(s, T, verify);
    if (fg_state_writes(s, T, verify)) {
        s->cur = !s->cur;
        if (aside) s->pend = !s->pend;
        s->n_pending = 0;
    }
    s->n_tried = verify ? T : 0;
    if (verify) return;
    s->pos += T;
    if (aside) s->n_pending += T;
}

int fg_forward(const struct fg_model *m, struct fg_workspace *ws, const struct fg_call *call,
               struct fg_error *err)
{
    struct fg_part parts[FG_CALL_SPANS_MAX];
    int64_t t0 = 0;
    for (int i = 0; i < call->n_spans; i++) {
        parts[i] = (struct fg_part){call->spans[i].state, t0, call->spans[i].T};
        t0 += call->spans[i].T;
    }
    atomic_store_explicit(&ws->not_finite, false, memory_order_relaxed);
    const int64_t pos = call->spans[0].state->pos;
    int rc = run_layers(m, ws, call, parts, err);
    if (rc) return rc;
    if (!all_finite(ws, call->T * m->config.hidden))
        return fg_fail(err, FG_EFAILED, "numerical error", NULL, NULL, "finite values in every row",
                       "NaN or infinity from position %lld on", (long long)pos);
    if (call->n_out > 0) run_head(m, ws, call, pos);
    for (int i = 0; i < call->n_spans; i++)
        publish(parts[i].state, parts[i].T, call->verify);
    return 0;
}

void fg_flush(const struct fg_model *m, struct fg_workspace *ws, struct fg_state *state)
{
    if (state->n_pending > 0) {
        for (int i = 0; i < (int)m->config.n_layers; i++)
            if (m->config.is_linear[i]) fg_graph_deltanet_flush(ws, m, i, state);
        state->cur = !state->cur;
    }
    state->n_pending = state->n_tried = 0;
}

void fg_accept(struct fg_state *state, int64_t k)
{
    state->pos += k;
    state->n_pending += k;
    state->n_tried = 0;
}
