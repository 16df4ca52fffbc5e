// model/deltanet.c: Gated DeltaNet, recurrent form (specs: model 4).
#include "model/graph_impl.h"
#include <string.h>

#define L2_EPS 1e-6f // of the reference's l2norm; not the config's epsilon

struct job {
    const struct fg_config *c;
    const struct fg_layer *l;
    struct fg_layer_state *state;
    struct fg_workspace *ws;
    int64_t T;
};

static void conv_channels(void *ctx, const struct fg_kernels *kn, int64_t c0, int64_t c1)
{
    const struct job *j = ctx;
    int64_t channels = fg_config_conv_channels(j->c);
    kn->conv_silu(j->ws->conv, channels, j->ws->u, channels, j->state->conv, j->l->conv, channels,
                  c0, c1, (int)j->c->conv_kernel, j->T);
}

// Keeps the last K - 1 rows of (history, new rows): step 2's state.
static void keep_history(const struct job *j)
{
    int64_t channels = fg_config_conv_channels(j->c), rows = j->c->conv_kernel - 1, T = j->T;
    size_t row_bytes = (size_t)channels * sizeof(float);
    float *hist = j->state->conv;
    int64_t old = T < rows ? rows - T : 0; // rows of history that stay
    if (old) memmove(hist, hist + T * channels, (size_t)old * row_bytes);
    memcpy(hist + old * channels, j->ws->u + (T - (rows - old)) * channels,
           (size_t)(rows - old) * row_bytes);
}

// Query and key heads to unit length, the query scaled by dk^(-1/2); the gates of rows [t0, t1).
static void prepare_rows(void *ctx, const struct fg_kernels *kn, int64_t t0, int64_t t1)
{
    const struct job *j = ctx;
    const struct fg_config *c = j->c;
    struct fg_workspace *ws = j->ws;
    const int64_t dk = c->k_head_dim, nk = c->n_k_heads, nv = c->n_v_heads;
    const int64_t channels = fg_config_conv_channels(c);
    const float scale = (float)(1.0 / __builtin_sqrt((double)dk));
    for (int64_t t = t0; t < t1; t++) {
        float *q = ws->conv + t * channels, *k = q + nk * dk;
        for (int64_t h = 0; h < nk; h++) {
            kn->l2_norm(q + h * dk, q + h * dk, dk, L2_EPS, scale);
            kn->l2_norm(k + h * dk, k + h * dk, dk, L2_EPS, 1.0f);
        }
        kn->deltanet_gates(ws->alpha + t * nv, ws->beta + t * nv, ws->a + t * nv, ws->b + t * nv,
                           j->l->neg_exp_A, j->l->dt_bias, nv);
    }
}

static void norm_rows(void *ctx, const struct fg_kernels *kn, int64_t t0, int64_t t1)
{
    const struct job *j = ctx;
    const int64_t dv = j->c->v_head_dim, nv = j->c->n_v_heads;
    for (int64_t i = t0 * nv; i < t1 * nv; i++) {
        float *o = j->ws->gdn_o + i * dv;
        kn->rms_norm_gated(o, o, j->l->gated_norm, j->ws->z + i * dv, dv, j->c->norm_eps);
    }
}

void fg_graph_deltanet(const struct fg_model *m, const struct fg_layer *l, int layer,
                       struct fg_layer_state *state, int64_t pos, struct fg_workspace *ws,
                       int64_t T)
{
    const struct fg_config *c = &m->config;
    const int64_t dk = c->k_head_dim, dv = c->v_head_dim, nk = c->n_k_heads, nv = c->n_v_heads;
    const int64_t key = nk * dk, val = nv * dv, channels = fg_config_conv_channels(c);
    const struct fg_term in[4] = {
        {&l->qkv, NULL, ws->u}, {&l->z, NULL, ws->z}, {&l->b, NULL, ws->b}, {&l->a, NULL, ws->a}};
    fg_graph_linear(ws, in, 4, ws->h, T);
    fg_graph_tap(ws, "gdn_qkv", layer, pos, T, channels, ws->u, channels);
    fg_graph_tap(ws, "gdn_z", layer, pos, T, val, ws->z, val);
    fg_graph_tap(ws, "gdn_b", layer, pos, T, nv, ws->b, nv);
    fg_graph_tap(ws, "gdn_a", layer, pos, T, nv, ws->a, nv);

    struct job j = {c, l, state, ws, T};
    // A few thousand channel-rows per item, in whole vectors.
    int64_t grain = 16384 / T < 64 ? 64 : 16384 / T & ~(int64_t)15;
    fg_parallel_for(&ws->par, channels, grain, conv_channels, &j);
    keep_history(&j);
    fg_graph_tap(ws, "gdn_conv", layer, pos, T, channels, ws->conv, channels);

    fg_parallel_for(&ws->par, T, FG_GRAPH_ROWS_GRAIN, prepare_rows, &j);
    fg_graph_tap(ws, "gdn_q", layer, pos, T, key, ws->conv, channels);
    fg_graph_tap(ws, "gdn_k", layer, pos, T, key, ws->conv + key, channels);
    fg_graph_tap(ws, "gdn_alpha", layer, pos, T, nv, ws->alpha, nv);
    fg_graph_tap(ws, "gdn_beta", layer, pos, T, nv, ws->beta, nv);

    fg_parallel_deltanet(&ws->par, state->S, nk, nv, dk, dv, ws->gdn_o, ws->conv, channels,
                         ws->conv + key, channels, ws->conv + 2 * key, channels, ws->alpha,
                         ws->beta, T);
    fg_graph_tap(ws, "gdn_o", layer, pos, T, val, ws->gdn_o, val);
    fg_parallel_for(&ws->par, T, FG_GRAPH_ROWS_GRAIN, norm_rows, &j);
    fg_graph_tap(ws, "gdn_norm", layer, pos, T, val, ws->gdn_o, val);

    fg_graph_linear(ws, &(struct fg_term){&l->out, NULL, ws->y}, 1, ws->gdn_o, T);
}
