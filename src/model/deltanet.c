// model/deltanet.c: Gated DeltaNet, recurrent form (specs: model 4, runtime 6): rows that are
// committed, rows that are tried, and applying those that were accepted.
#include "model/graph_impl.h"
#include <string.h>

#define L2_EPS 1e-6f // of the reference's l2norm; not the config's epsilon

// One span of one layer.
struct job {
    const struct fg_config *c;
    const struct fg_layer *l;
    struct fg_workspace *ws;
    const struct fg_layer_state *state;
    int64_t t0, T;
    const float *hist; // [K - 1][channels] before the span's first row
};

// out [rows][channels] = the last `rows` of (hist [rows][channels], then u [T][channels]); out may
// be hist.
static void last_rows(float *out, const float *hist, const float *u, int64_t T, int64_t rows,
                      int64_t channels)
{
    const size_t row_bytes = (size_t)channels * sizeof(float);
    const int64_t old = T < rows ? rows - T : 0; // rows of history that stay
    if (old > 0) memmove(out, hist + (rows - old) * channels, (size_t)old * row_bytes);
    if (rows > old)
        memcpy(out + old * channels, u + (T - (rows - old)) * channels,
               (size_t)(rows - old) * row_bytes);
}

// History after what is pending; when something is, the buffer that is not current receives it.
static const float *history(const struct fg_config *c, const struct fg_state *s,
                            const struct fg_layer_state *l)
{
    if (s->n_pending == 0) return l->conv[s->cur];
    last_rows(l->conv[!s->cur], l->conv[s->cur], l->rows[s->pend].raw, s->n_pending,
              c->conv_kernel - 1, fg_config_conv_channels(c));
    return l->conv[!s->cur];
}

static void conv_channels(void *ctx, const struct fg_kernels *kn, int64_t c0, int64_t c1)
{
    const struct job *j = ctx;
    const int64_t channels = fg_config_conv_channels(j->c), at = j->t0 * channels;
    kn->conv_silu(j->ws->conv + at, channels, j->ws->u + at, channels, j->hist, j->l->conv,
                  channels, c0, c1, (int)j->c->conv_kernel, j->T);
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

// The call of a span; rows NULL: only what is pending.
static struct fg_gdn_call recurrence(const struct fg_config *c, const struct fg_state *s,
                                     const struct fg_layer_state *l)
{
    const int64_t nk = c->n_k_heads, nv = c->n_v_heads, dk = c->k_head_dim, dv = c->v_head_dim;
    const struct fg_tried_rows *p = &l->rows[s->pend];
    struct fg_gdn_call call = {
        .S = l->S[s->cur], .S_out = l->S[!s->cur], .nk = nk, .nv = nv, .dk = dk, .dv = dv};
    if (s->n_pending > 0)
        call.pending = (struct fg_gdn_pending){.k = p->k,
                                               .d = p->d,
                                               .g = p->g,
                                               .ldk = nk * dk,
                                               .ldd = nv * dv,
                                               .ldg = nv,
                                               .n = s->n_pending};
    return call;
}

// What applying rows of this span will take, from row `at` on: k, g and the rows before the
// convolution (d comes from the kernel).
static void keep_rows(const struct job *j, const struct fg_tried_rows *out, int64_t at)
{
    const struct fg_config *c = j->c;
    const struct fg_workspace *ws = j->ws;
    const int64_t nv = c->n_v_heads, key = c->n_k_heads * c->k_head_dim;
    const int64_t channels = fg_config_conv_channels(c);
    memcpy(out->raw + at * channels, ws->u + j->t0 * channels,
           (size_t)(j->T * channels) * sizeof(float));
    memcpy(out->g + at * nv, ws->alpha + j->t0 * nv, (size_t)(j->T * nv) * sizeof(float));
    for (int64_t t = 0; t < j->T; t++)
        memcpy(out->k + (at + t) * key, ws->conv + (j->t0 + t) * channels + key,
               (size_t)key * sizeof(float));
}

static void run_span(const struct job *j, const struct fg_state *s, bool verify)
{
    const struct fg_config *c = j->c;
    struct fg_workspace *ws = j->ws;
    const int64_t nv = c->n_v_heads, key = c->n_k_heads * c->k_head_dim, val = nv * c->v_head_dim;
    const int64_t channels = fg_config_conv_channels(c);
    const float *q = ws->conv + j->t0 * channels;
    struct fg_gdn_call call = recurrence(c, s, j->state);
    call.rows = (struct fg_gdn_rows){.q = q,
                                     .k = q + key,
                                     .v = q + 2 * key,
                                     .g = ws->alpha + j->t0 * nv,
                                     .beta = ws->beta + j->t0 * nv,
                                     .ldq = channels,
                                     .ldk = channels,
                                     .ldv = channels,
                                     .ldg = nv,
                                     .T = j->T};
    call.o = ws->gdn_o + j->t0 * val;
    if (fg_state_aside(s, j->T, verify)) {
        // What is pending stays in its buffer as long as it is not in S that counts.
        const bool writes = fg_state_writes(s, j->T, verify);
        const struct fg_tried_rows *out = &j->state->rows[writes ? !s->pend : s->pend];
        const int64_t at = writes ? 0 : s->n_pending;
        call.d = out->d + at * val;
        if (!writes) call.S_out = NULL;
        keep_rows(j, out, at);
    } else {
        last_rows(j->state->conv[!s->cur], j->hist, ws->u + j->t0 * channels, j->T,
                  c->conv_kernel - 1, channels);
    }
    fg_parallel_gdn(&ws->par, &call);
}

void fg_graph_deltanet_flush(struct fg_workspace *ws, const struct fg_model *m, int layer,
                             const struct fg_state *state)
{
    history(&m->config, state, &state->layers[layer]);
    const struct fg_gdn_call call = recurrence(&m->config, state, &state->layers[layer]);
    fg_parallel_gdn(&ws->par, &call);
}

void fg_graph_deltanet(struct fg_workspace *ws, const struct fg_mixer *x)
{
    const struct fg_config *c = &x->m->config;
    const struct fg_layer *l = &x->m->weights.layers[x->layer];
    const int64_t nv = c->n_v_heads, key = c->n_k_heads * c->k_head_dim, val = nv * c->v_head_dim;
    const int64_t channels = fg_config_conv_channels(c), T = x->T, pos = x->parts[0].state->pos;
    const int layer = x->layer;
    const struct fg_term in[4] = {
        {&l->qkv, NULL, ws->u}, {&l->z, NULL, ws->z}, {&l->b, NULL, ws->b}, {&l->a, NULL, ws->a}};
    fg_graph_linear(ws, in, 4, ws->h, T);
    fg_graph_tap(ws, "gdn_qkv", layer, pos, T, channels, ws->u, channels);
    fg_graph_tap(ws, "gdn_z", layer, pos, T, val, ws->z, val);
    fg_graph_tap(ws, "gdn_b", layer, pos, T, nv, ws->b, nv);
    fg_graph_tap(ws, "gdn_a", layer, pos, T, nv, ws->a, nv);

    for (int i = 0; i < x->n_parts; i++) {
        const struct fg_part *p = &x->parts[i];
        const struct fg_layer_state *ls = &p->state->layers[layer];
        struct job j = {c, l, ws, ls, p->t0, p->T, history(c, p->state, ls)};
        // A few thousand channel-rows per item, in whole vectors.
        int64_t grain = 16384 / p->T < 64 ? 64 : 16384 / p->T & ~(int64_t)15;
        fg_parallel_for(&ws->par, channels, grain, conv_channels, &j);
    }
    fg_graph_tap(ws, "gdn_conv", layer, pos, T, channels, ws->conv, channels);

    struct job all = {.c = c, .l = l, .ws = ws, .T = T};
    fg_parallel_for(&ws->par, T, FG_GRAPH_ROWS_GRAIN, prepare_rows, &all);
    fg_graph_tap(ws, "gdn_q", layer, pos, T, key, ws->conv, channels);
    fg_graph_tap(ws, "gdn_k", layer, pos, T, key, ws->conv + key, channels);
    fg_graph_tap(ws, "gdn_alpha", layer, pos, T, nv, ws->alpha, nv);
    fg_graph_tap(ws, "gdn_beta", layer, pos, T, nv, ws->beta, nv);

    for (int i = 0; i < x->n_parts; i++) {
        const struct fg_part *p = &x->parts[i];
        const struct fg_layer_state *ls = &p->state->layers[layer];
        const float *hist =
            p->state->n_pending > 0 ? ls->conv[!p->state->cur] : ls->conv[p->state->cur];
        const struct job j = {c, l, ws, ls, p->t0, p->T, hist};
        run_span(&j, p->state, x->verify);
    }
    fg_graph_tap(ws, "gdn_o", layer, pos, T, val, ws->gdn_o, val);
    fg_parallel_for(&ws->par, T, FG_GRAPH_ROWS_GRAIN, norm_rows, &all);
    fg_graph_tap(ws, "gdn_norm", layer, pos, T, val, ws->gdn_o, val);

    if (!x->inner) fg_graph_linear(ws, &(struct fg_term){&l->out, NULL, ws->y}, 1, ws->gdn_o, T);
}
