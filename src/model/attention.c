// model/attention.c: full attention, gated (qwen3_5) or plain (specs: model 5, 9), over keys and
// values as they are stored (specs: runtime 4, 5).
#include "model/attention_reference.h"
#include "model/graph_impl.h"
#include <string.h>

// One span of one layer.
struct job {
    const struct fg_config *c;
    const struct fg_layer *l;
    struct fg_workspace *ws;
    const struct fg_state *state;
    const struct fg_kv_head *kv;
    int64_t t0, T, G, W;
    bool codes; // queries become codes too
    float scale;
};

// Query head h of row t: rotated if the cache is, then laid out by KV heads.
static void place_query(const struct job *j, const struct fg_kernels *kn, int64_t t, int64_t h,
                        const float *q)
{
    struct fg_workspace *ws = j->ws;
    const int64_t D = j->c->head_dim, n_heads = j->c->n_heads, W = j->W;
    const int64_t row = j->t0 * n_heads + h / j->G * j->T * j->G + t * j->G + h % j->G;
    float *qx = ws->qx + row * W;
    if (j->state->rotated)
        kn->rotate(qx, q, ws->no_signs, D, D);
    else
        memcpy(qx, q, (size_t)D * sizeof *q);
    for (int64_t d = D; d < W; d++)
        qx[d] = 0.0f;
    if (j->codes)
        fg_attn_query(kn, ws->qc + row * 2 * W, &ws->qs[row], &ws->qsum[row], qx, D, j->scale);
}

static void store(const struct job *j, const struct fg_kernels *kn, int64_t t, int64_t h,
                  const float *k, const float *v)
{
    const int64_t D = j->c->head_dim;
    const float *q = j->ws->qx + (j->t0 * j->c->n_heads + (h * j->T + t) * j->G) * j->W;
    float kr[FG_KV_WIDTH_MAX], vr[FG_KV_WIDTH_MAX];
    if (j->state->rotated) {
        kn->rotate(kr, k, j->ws->no_signs, D, D);
        kn->rotate(vr, v, j->ws->no_signs, D, D);
        k = kr;
        v = vr;
    }
    if (!kn->kv_store(&j->kv[h], j->state->pos + t, k, v))
        atomic_store_explicit(&j->ws->not_finite, true, memory_order_relaxed);
    else if (j->ws->attention == FG_ATTENTION_STORED)
        fg_kv_shape_key(&j->kv[h], j->state->pos + t, k, q, j->G, j->W);
}

// Query and key heads of rows [t0, t1) of the span: norm, rotary; keys and values into the cache.
static void prepare_rows(void *ctx, const struct fg_kernels *kn, int64_t t0, int64_t t1)
{
    const struct job *j = ctx;
    const struct fg_config *c = j->c;
    struct fg_workspace *ws = j->ws;
    const int64_t D = c->head_dim, q_row = c->n_heads * D, kv_row = c->n_kv_heads * D;
    const int64_t q_step = c->output_gate ? 2 * D : D; // from one query head to the next in q_proj
    for (int64_t i = t0; i < t1; i++) {
        const int64_t t = j->t0 + i; // among the call's rows
        const float *cs = ws->rope_cos + t * (c->rot / 2), *sn = ws->rope_sin + t * (c->rot / 2);
        for (int64_t h = 0; h < c->n_heads; h++) {
            const float *src = ws->q_proj + t * c->n_heads * q_step + h * q_step;
            float *q = ws->q + t * q_row + h * D;
            if (c->qk_norm)
                kn->rms_norm(q, src, j->l->q_norm, D, c->norm_eps);
            else
                memcpy(q, src, (size_t)D * sizeof *q);
            kn->rope(q, cs, sn, c->rot);
            place_query(j, kn, i, h, q);
        }
        for (int64_t h = 0; h < c->n_kv_heads; h++) {
            float *k = ws->k + t * kv_row + h * D;
            if (c->qk_norm) kn->rms_norm(k, k, j->l->k_norm, D, c->norm_eps);
            kn->rope(k, cs, sn, c->rot);
            store(j, kn, i, h, k, ws->v + t * kv_row + h * D);
        }
    }
}

// Outputs of rows [t0, t1) of the span back from the basis of the cache.
static void rotate_back(void *ctx, const struct fg_kernels *kn, int64_t t0, int64_t t1)
{
    const struct job *j = ctx;
    const int64_t D = j->c->head_dim, n_heads = j->c->n_heads;
    for (int64_t i = (j->t0 + t0) * n_heads; i < (j->t0 + t1) * n_heads; i++)
        kn->rotate(j->ws->o + i * D, j->ws->o + i * D, j->ws->no_signs, D, D);
}

static void gate_rows(void *ctx, const struct fg_kernels *kn, int64_t t0, int64_t t1)
{
    const struct job *j = ctx;
    const int64_t D = j->c->head_dim, n_heads = j->c->n_heads;
    for (int64_t i = t0 * n_heads; i < t1 * n_heads; i++) {
        float *o = j->ws->o + i * D;
        kn->sigmoid_mul(o, o, j->ws->q_proj + (2 * i + 1) * D, D);
    }
}

// The original's arithmetic, KV heads [h0, h1).
static void refer(void *ctx, const struct fg_kernels *kn, int64_t h0, int64_t h1)
{
    (void)kn;
    const struct job *j = ctx;
    const struct fg_config *c = j->c;
    struct fg_workspace *ws = j->ws;
    const int64_t D = c->head_dim, q_row = c->n_heads * D, kv_row = c->n_kv_heads * D;
    for (int64_t h = h0; h < h1; h++) {
        const int64_t q_at = j->t0 * q_row + h * j->G * D, kv_at = j->t0 * kv_row + h * D;
        fg_attention_reference(ws->o + q_at, q_row, ws->q + q_at, q_row, ws->k + kv_at, kv_row,
                               ws->v + kv_at, kv_row, &j->kv[h], j->state->pos, j->T, j->G,
                               ws->attention, &ws->c2t,
                               ws->reference + (uint64_t)h * ws->reference_bytes);
    }
}

static void attend(const struct job *j)
{
    struct fg_workspace *ws = j->ws;
    const struct fg_config *c = j->c;
    const int64_t rows = j->t0 * c->n_heads;
    const struct fg_attn_call call = {.o = ws->o + rows * c->head_dim,
                                      .kv = j->kv,
                                      .q = ws->qx + rows * j->W,
                                      .qc = j->codes ? ws->qc + rows * 2 * j->W : NULL,
                                      .qs = j->codes ? ws->qs + rows : NULL,
                                      .qsum = j->codes ? ws->qsum + rows : NULL,
                                      .pos = j->state->pos,
                                      .T = j->T,
                                      .n_heads = c->n_heads,
                                      .n_kv = c->n_kv_heads,
                                      .D = c->head_dim,
                                      .scale = j->scale};
    fg_parallel_attention(&ws->par, &call);
}

void fg_graph_attention(struct fg_workspace *ws, const struct fg_mixer *x)
{
    const struct fg_config *c = &x->m->config;
    const struct fg_layer *l = &x->m->weights.layers[x->layer];
    const int64_t D = c->head_dim, q_row = c->n_heads * D, kv_row = c->n_kv_heads * D, T = x->T;
    const int64_t pos = x->parts[0].state->pos;
    const struct fg_term in[3] = {
        {&l->q, l->q_bias, ws->q_proj}, {&l->k, l->k_bias, ws->k}, {&l->v, l->v_bias, ws->v}};
    fg_graph_linear(ws, in, 3, ws->h, T);
    fg_graph_tap(ws, "q_proj", x->layer, pos, T, l->q.n_out, ws->q_proj, l->q.n_out);
    fg_graph_tap(ws, "k_proj", x->layer, pos, T, kv_row, ws->k, kv_row);
    fg_graph_tap(ws, "v", x->layer, pos, T, kv_row, ws->v, kv_row);

    for (int i = 0; i < x->n_parts; i++) {
        const struct fg_part *p = &x->parts[i];
        // D^(-1/2) in double, rounded once: a power of two for the widths in use.
        struct job j = {.c = c,
                        .l = l,
                        .ws = ws,
                        .state = p->state,
                        .kv = p->state->layers[x->layer].kv,
                        .t0 = p->t0,
                        .T = p->T,
                        .G = c->n_heads / c->n_kv_heads,
                        .W = fg_kv_width(D),
                        .codes = ws->par.fast && fg_kv_k8(p->state->format),
                        .scale = (float)(1.0 / __builtin_sqrt((double)D))};
        fg_parallel_for(&ws->par, p->T, FG_GRAPH_ROWS_GRAIN, prepare_rows, &j);
        if (ws->attention == FG_ATTENTION_STORED) {
            attend(&j);
            if (p->state->rotated)
                fg_parallel_for(&ws->par, p->T, FG_GRAPH_ROWS_GRAIN, rotate_back, &j);
        } else {
            fg_parallel_for(&ws->par, c->n_kv_heads, 1, refer, &j);
        }
    }
    fg_graph_tap(ws, "q_rope", x->layer, pos, T, q_row, ws->q, q_row);
    fg_graph_tap(ws, "k_rope", x->layer, pos, T, kv_row, ws->k, kv_row);

    fg_graph_tap(ws, "attn_o", x->layer, pos, T, q_row, ws->o, q_row);
    if (c->output_gate) {
        struct job j = {.c = c, .ws = ws};
        fg_parallel_for(&ws->par, T, FG_GRAPH_ROWS_GRAIN, gate_rows, &j);
        fg_graph_tap(ws, "attn_gated", x->layer, pos, T, q_row, ws->o, q_row);
    }
    if (!x->inner) fg_graph_linear(ws, &(struct fg_term){&l->o, l->o_bias, ws->y}, 1, ws->o, T);
}
