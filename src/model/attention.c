// model/attention.c: full attention, gated (qwen3_5) or plain (specs: model 5, 9).
#include "model/graph_impl.h"
#include <string.h>

struct job {
    const struct fg_config *c;
    const struct fg_layer *l;
    struct fg_layer_state *state;
    struct fg_workspace *ws;
    int64_t capacity, pos;
};

// Query and key heads of rows [t0, t1): norm, rotary; keys and values into the cache.
static void prepare_rows(void *ctx, const struct fg_kernels *kn, int64_t t0, int64_t t1)
{
    const struct job *j = ctx;
    const struct fg_config *c = j->c;
    struct fg_workspace *ws = j->ws;
    const int64_t D = c->head_dim, q_row = c->n_heads * D, kv_row = c->n_kv_heads * D;
    const int64_t q_step = c->output_gate ? 2 * D : D; // from one query head to the next in q_proj
    for (int64_t t = t0; t < t1; t++) {
        const float *cs = ws->rope_cos + t * (c->rot / 2), *sn = ws->rope_sin + t * (c->rot / 2);
        for (int64_t h = 0; h < c->n_heads; h++) {
            const float *src = ws->q_proj + t * c->n_heads * q_step + h * q_step;
            float *q = ws->q + t * q_row + h * D;
            if (c->qk_norm)
                kn->rms_norm(q, src, j->l->q_norm, D, c->norm_eps);
            else
                memcpy(q, src, (size_t)D * sizeof *q);
            kn->rope(q, cs, sn, c->rot);
        }
        for (int64_t h = 0; h < c->n_kv_heads; h++) {
            float *k = ws->k + t * kv_row + h * D;
            int64_t at = (h * j->capacity + j->pos + t) * D;
            if (c->qk_norm) kn->rms_norm(k, k, j->l->k_norm, D, c->norm_eps);
            kn->rope(k, cs, sn, c->rot);
            memcpy(j->state->k + at, k, (size_t)D * sizeof *k);
            memcpy(j->state->v + at, ws->v + t * kv_row + h * D, (size_t)D * sizeof *k);
        }
    }
}

static void gate_rows(void *ctx, const struct fg_kernels *kn, int64_t t0, int64_t t1)
{
    const struct job *j = ctx;
    const int64_t D = j->c->head_dim;
    for (int64_t i = t0 * j->c->n_heads; i < t1 * j->c->n_heads; i++)
        kn->sigmoid_mul(j->ws->o + i * D, j->ws->o + i * D, j->ws->q_proj + (2 * i + 1) * D, D);
}

void fg_graph_attention(const struct fg_model *m, const struct fg_layer *l, int layer,
                        struct fg_layer_state *state, int64_t capacity, int64_t pos,
                        struct fg_workspace *ws, int64_t T)
{
    const struct fg_config *c = &m->config;
    const int64_t D = c->head_dim, q_row = c->n_heads * D, kv_row = c->n_kv_heads * D;
    const struct fg_term in[3] = {
        {&l->q, l->q_bias, ws->q_proj}, {&l->k, l->k_bias, ws->k}, {&l->v, l->v_bias, ws->v}};
    fg_graph_linear(ws, in, 3, ws->h, T);
    fg_graph_tap(ws, "q_proj", layer, pos, T, l->q.n_out, ws->q_proj, l->q.n_out);
    fg_graph_tap(ws, "k_proj", layer, pos, T, kv_row, ws->k, kv_row);
    fg_graph_tap(ws, "v", layer, pos, T, kv_row, ws->v, kv_row);

    struct job j = {c, l, state, ws, capacity, pos};
    fg_parallel_for(&ws->par, T, FG_GRAPH_ROWS_GRAIN, prepare_rows, &j);
    fg_graph_tap(ws, "q_rope", layer, pos, T, q_row, ws->q, q_row);
    fg_graph_tap(ws, "k_rope", layer, pos, T, kv_row, ws->k, kv_row);

    // D^(-1/2) in double, rounded once: a power of two for the widths in use.
    float scale = (float)(1.0 / __builtin_sqrt((double)D));
    fg_parallel_attention(&ws->par, ws->o, ws->q, state->k, state->v, capacity, pos, T, c->n_heads,
                          c->n_kv_heads, D, scale);
    fg_graph_tap(ws, "attn_o", layer, pos, T, q_row, ws->o, q_row);
    if (c->output_gate) {
        fg_parallel_for(&ws->par, T, FG_GRAPH_ROWS_GRAIN, gate_rows, &j);
        fg_graph_tap(ws, "attn_gated", layer, pos, T, q_row, ws->o, q_row);
    }
    fg_graph_linear(ws, &(struct fg_term){&l->o, l->o_bias, ws->y}, 1, ws->o, T);
}
