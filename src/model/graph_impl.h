// model/graph_impl.h: what the parts of the graph share: the buffers of a block and the loops over
// its rows. For model/*.c alone.
#ifndef FG_MODEL_GRAPH_IMPL_H
#define FG_MODEL_GRAPH_IMPL_H
#include "base/arena.h"
#include <stdatomic.h>
#include "kernels/parallel.h"
#include "model/attention_reference.h"
#include "model/graph.h"

// Rows per item of an elementwise loop: one row of a few thousand floats is a few microseconds.
#define FG_GRAPH_ROWS_GRAIN 8

struct fg_workspace {
    struct fg_arena arena;
    int64_t T_max;
    struct fg_parallel par;
    enum fg_attention attention;
    uint64_t partials_bytes;
    atomic_bool not_finite; // a row of this call could not be stored
    fg_tap_fn tap;
    void *tap_ctx;

    // [T_max][...], row-major.
    float *x, *h, *y;           // residual; normed input of a mixer or MLP; its output. [hidden]
    float *gate, *up;           // [intermediate]
    float *rope_cos, *rope_sin; // [rot / 2]
    float *q_proj; // [n_heads][2][head_dim] with an output gate, else [n_heads][head_dim]
    float *q, *o;  // [n_heads][head_dim]
    float *k, *v;  // [n_kv_heads][head_dim]
    // Queries of a span as attention takes them: [n_kv_heads][T * G][W], see kernels/kv.h.
    float *qx;
    int8_t *qc;        // [n_kv_heads][T * G][2][W]
    float *qs;         // [n_kv_heads][T * G]
    int32_t *qsum;     // the same
    uint8_t *no_signs; // rotation without signs: [head_dim / 8] zeros
    // Of attention_reference.h, NULL where attention is STORED: [n_kv_heads][reference_bytes].
    uint8_t *reference;
    uint64_t reference_bytes;
    struct fg_c2t_units c2t;
    float *u, *conv;             // [channels], before and after the convolution
    float *z, *gdn_o;            // [nv][dv]
    float *b, *a, *alpha, *beta; // [nv]
};

static inline void fg_graph_tap(const struct fg_workspace *ws, const char *name, int layer,
                                int64_t pos, int64_t T, int64_t width, const float *data,
                                int64_t ld)
{
    if (ws->tap) ws->tap(ws->tap_ctx, name, layer, pos, T, width, data, ld);
}

// One matrix of a job.
struct fg_term {
    const struct fg_mat *w;
    const float *bias; // or NULL
    float *y;          // [T][n_out]
};
#define FG_GRAPH_TERMS_MAX 4
// y of each of the n terms from the rows x [T][n_in]. Quantized ones share one rotation.
void fg_graph_linear(struct fg_workspace *ws, const struct fg_term *terms, int n, const float *x,
                     int64_t T);

// Rows of n: y = norm(x) with weights w; y += x.
void fg_graph_norm(struct fg_workspace *ws, float *y, const float *x, const float *w, int64_t n,
                   int64_t T, float eps);
void fg_graph_add(struct fg_workspace *ws, float *y, const float *x, int64_t n, int64_t T);

// Rows of one conversation in a call, with where they begin among the call's rows.
struct fg_part {
    struct fg_state *state;
    int64_t t0, T;
};

// The mixers: ws->h to ws->y for all T rows. Keys and values are stored; what else changes in a
// layer goes to the buffers that are not current (model/state.h).
struct fg_mixer {
    const struct fg_model *m;
    int layer;
    const struct fg_part *parts; // [n_parts], in order
    int n_parts;
    int64_t T;
    bool verify;
    bool inner; // ends before the output projection, whose input is left in ws->o or ws->gdn_o
};
void fg_graph_attention(struct fg_workspace *ws, const struct fg_mixer *x);
void fg_graph_deltanet(struct fg_workspace *ws, const struct fg_mixer *x);
// The MLP of a layer: ws->h to ws->gate, the input of the down projection; and that to ws->y.
void fg_graph_mlp_inner(struct fg_workspace *ws, const struct fg_model *m, int layer, int64_t pos,
                        int64_t T);
void fg_graph_mlp(struct fg_workspace *ws, const struct fg_model *m, int layer, int64_t pos,
                  int64_t T);
// Applies what is pending in a linear layer of one state.
void fg_graph_deltanet_flush(struct fg_workspace *ws, const struct fg_model *m, int layer,
                             const struct fg_state *state);
#endif
