// model/graph.h: the forward pass: one graph for T rows, whatever T is (specs: model 3 to 7).
// Prefill, decode and evaluation all run this; kernels differ by T, the graph and its results do
// not (DESIGN, determinism contract).
#ifndef FG_MODEL_GRAPH_H
#define FG_MODEL_GRAPH_H
#include "base/error.h"
#include "base/thread.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "model/state.h"
#include <stdbool.h>
#include <stdint.h>

// Every intermediate of a block by name, for comparison with the reference. `data` is [T][width]
// with row stride ld, rows at absolute positions pos .. pos + T - 1; layer -1: not of a layer.
// Valid during the call only.
//   embed; attn_norm; gdn_qkv gdn_z gdn_b gdn_a gdn_conv gdn_q gdn_k gdn_alpha gdn_beta gdn_o
//   gdn_norm; q_proj k_proj v q_rope k_rope attn_o attn_gated; mixer_out; mid (residual); mlp_norm
//   mlp_gate mlp_up mlp_act mlp_out; layer_out; final_norm logits
typedef void (*fg_tap_fn)(void *ctx, const char *name, int layer, int64_t pos, int64_t T,
                          int64_t width, const float *data, int64_t ld);

// How attention treats keys and values (specs: runtime 5.1). The first is the product; the others
// repeat arithmetic of the original, for comparison: there a row's value depends on the block that
// it came in.
enum fg_attention {
    FG_ATTENTION_STORED, // as stored, the block's own rows too
    FG_ATTENTION_SEED,   // own block in FP16, history as stored, FP32 arithmetic
    FG_ATTENTION_C2T     // own block in FP16; INT8 score steps, FP8 E4M3 probabilities
};

// Buffers of a forward pass of up to T_max rows; one caller at a time.
struct fg_workspace; // opaque

struct fg_workspace_options {
    const struct fg_kernels *kernels;
    struct fg_pool *pool;
    bool fast; // numerics
    enum fg_attention attention;
    int64_t T_max; // rows of a call
};
// Errors: FG_ERESOURCE.
int fg_workspace_new(struct fg_workspace **out, const struct fg_model *m,
                     const struct fg_workspace_options *options, struct fg_error *err);
void fg_workspace_free(struct fg_workspace *ws); // NULL is fine
// Makes room for calls over `capacity` positions. Before the first call, and whenever a state has
// grown. On failure (FG_ERESOURCE) the workspace is as it was.
int fg_workspace_fit(struct fg_workspace *ws, const struct fg_model *m, int64_t capacity,
                     struct fg_error *err);
uint64_t fg_workspace_bytes(const struct fg_workspace *ws);
void fg_workspace_set_tap(struct fg_workspace *ws, fg_tap_fn tap, void *ctx); // NULL: none

// Conversations of one call, at most.
#define FG_CALL_SPANS_MAX 64

// Rows of one conversation in a call.
struct fg_span {
    struct fg_state *state;
    int64_t T;
};

struct fg_best; // kernels/parallel.h
struct fg_call {
    const int32_t *ids;          // [T], the spans' rows one after the other
    const struct fg_span *spans; // [n_spans], different states, T >= 1 each
    int n_spans;
    int64_t T; // sum of the spans'
    // The rows are tried, not committed: positions stay, and what accepting them takes is kept in
    // the states (at most tried_max rows of a span).
    bool verify;
    int64_t n_out;        // the last so many rows give logits, or the best of them
    float *logits;        // [n_out][vocab], or NULL with `best`
    struct fg_best *best; // of n_out rows
    // Residual after the layers tap_layers [n_taps], ascending: taps [T][n_taps][hidden]. Or 0.
    const int64_t *tap_layers;
    int64_t n_taps;
    float *taps;
    bool (*cancel)(void *ctx); // asked between layers; NULL: never
    void *cancel_ctx;
};

// Runs the rows of each span at positions state->pos and on, after applying what its state has
// pending. Requires 1 <= T <= T_max, ids in [0, vocab), state->pos + T <= capacity for each, and
// fg_workspace_fit for the largest. Success: what was tried before is gone; the rows are committed
// (state->pos advances), or with `verify` they are what is tried now
// (n_tried = T). Rows of small calls may stay pending, see model/state.h. Errors: FG_EINTERRUPTED,
// and FG_EFAILED when a row is not finite
// ("numerical error"); every state is then as it was, but for stored keys and values from its pos
// on.
int fg_forward(const struct fg_model *m, struct fg_workspace *ws, const struct fg_call *call,
               struct fg_error *err);
// Applies what is pending, so that nothing is; drops what is tried.
void fg_flush(const struct fg_model *m, struct fg_workspace *ws, struct fg_state *state);
// Commits the first k rows that were tried, 0 <= k <= n_tried, and drops the others.
void fg_accept(struct fg_state *state, int64_t k);
#endif
