// model/graph.h: the forward pass: one graph for T rows, whatever T is (specs: model 3 to 7).
// Prefill, decode and evaluation all run this; kernels differ by T, the graph and its results do
// not (DESIGN, determinism contract).
#ifndef FG_MODEL_GRAPH_H
#define FG_MODEL_GRAPH_H
#include "base/error.h"
#include "base/thread.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include <stdint.h>

// What a conversation leaves behind in one layer. All FP32. The unused parts of a layer's kind are
// NULL.
struct fg_layer_state {
    float *k, *v; // [n_kv_heads][capacity][head_dim]: keys after norm and rotary, values
    float *S;     // [nv][dk][dv]: recurrent state
    float *conv;  // [K - 1][channels]: last rows before the convolution, oldest first
};

struct fg_state {
    int64_t capacity; // positions
    int64_t pos;      // rows so far
    struct fg_layer_state *layers;
};

// Every intermediate of a block by name, for comparison with the reference. `data` is [T][width]
// with row stride ld, rows at absolute positions pos .. pos + T - 1; layer -1: not of a layer.
// Valid during the call only.
//   embed; attn_norm; gdn_qkv gdn_z gdn_b gdn_a gdn_conv gdn_q gdn_k gdn_alpha gdn_beta gdn_o
//   gdn_norm; q_proj k_proj v q_rope k_rope attn_o attn_gated; mixer_out; mid (residual); mlp_norm
//   mlp_gate mlp_up mlp_act mlp_out; layer_out; final_norm logits
typedef void (*fg_tap_fn)(void *ctx, const char *name, int layer, int64_t pos, int64_t T,
                          int64_t width, const float *data, int64_t ld);

// Buffers of a forward pass of up to T_max rows; one caller at a time.
struct fg_workspace; // opaque

// `scratch` and threads come from `par_pool`; fast: see fg_parallel. Errors: FG_ERESOURCE.
int fg_workspace_new(struct fg_workspace **out, const struct fg_model *m,
                     const struct fg_kernels *kernels, struct fg_pool *pool, bool fast,
                     int64_t T_max, struct fg_error *err);
void fg_workspace_free(struct fg_workspace *ws); // NULL is fine
uint64_t fg_workspace_bytes(const struct fg_workspace *ws);
void fg_workspace_set_tap(struct fg_workspace *ws, fg_tap_fn tap, void *ctx); // NULL: none

// Runs ids[0, T) at positions state->pos ..., advances the state by T, and writes the logits of the
// last n_logits rows (0 <= n_logits <= T) to logits [n_logits][vocab]. Requires 1 <= T <= T_max,
// every id in [0, vocab), pos + T <= capacity. Cannot fail.
void fg_forward(const struct fg_model *m, struct fg_state *state, struct fg_workspace *ws,
                const int32_t *ids, int64_t T, float *logits, int64_t n_logits);
// The same, but keeps only the best logits of the last n_best rows (kernels/parallel.h).
struct fg_best;
void fg_forward_best(const struct fg_model *m, struct fg_state *state, struct fg_workspace *ws,
                     const int32_t *ids, int64_t T, struct fg_best *best, int64_t n_best);
#endif
