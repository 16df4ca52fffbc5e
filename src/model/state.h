// model/state.h: what a conversation leaves behind in the layers of a model, as the graph sees it
// (specs: runtime 3.2, 6.2). Memory belongs to runtime/session.h.
//
// Recurrent layers have two buffers. A call reads [cur], writes the other, and what is read next
// changes only when the whole call has succeeded, so a call that is stopped or fails leaves the
// conversation as it was. Rows that were tried (verify) stand aside in rows[pend]; those of them
// that are accepted are applied by the next call.
#ifndef FG_MODEL_STATE_H
#define FG_MODEL_STATE_H
#include "kernels/kv.h"
#include <stdbool.h>
#include <stdint.h>

// What rows leave that were tried in a linear layer: enough to apply any first part of them.
struct fg_tried_rows {
    float *k;   // [rows_max][nk * dk], normalized
    float *d;   // [rows_max][nv * dv]
    float *g;   // [rows_max][nv]
    float *raw; // [rows_max][channels], before the convolution
};

// The unused parts of a layer's kind are NULL.
struct fg_layer_state {
    const struct fg_kv_head *kv; // [n_kv_heads]
    float *S[2];                 // [nv][dk][dv]
    float *conv[2]; // [K - 1][channels]: last rows before the convolution, oldest first
    struct fg_tried_rows rows[2]; // of the last two calls of verify
};

struct fg_state {
    enum fg_kv_format format;
    bool rotated;      // keys, values and queries are rotated (Hadamard over the head's width)
    int64_t capacity;  // positions that keys and values have room for
    int64_t tried_max; // rows that rows[] have room for
    int64_t pos;       // committed rows
    int cur;           // S[cur], conv[cur]: the state after pos - n_pending rows
    int pend;          // rows[pend]: what was tried last
    int64_t n_pending; // the first so many of them are committed and not in S yet
    int64_t n_tried;   // rows of the last verify that nobody has accepted or replaced
    struct fg_layer_state *layers;
};
#endif
