// model/state.h: what a conversation leaves behind in the layers of a model, as the graph sees it
// (specs: runtime 3.2, 6.2). Memory belongs to runtime/session.h.
//
// Recurrent layers have two buffers. A call reads [cur], writes the other if anything, and what is
// read next changes only when the whole call has succeeded, so a call that is stopped or fails
// leaves the conversation as it was. Rows that were tried (verify), and those of small calls that
// commit, stand aside in rows[pend], behind those that are pending there: what is accepted is
// applied by each call that follows, and written into S once there is no room for more. For S is
// as large as a few layers of a row's weights, and writing it costs more than applying rows.
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
    struct fg_tried_rows rows[2]; // pending rows, then those that are tried
};

struct fg_state {
    enum fg_kv_format format;
    bool rotated;      // keys, values and queries are rotated (Hadamard over the head's width)
    int64_t capacity;  // positions that keys and values have room for
    int64_t tried_max; // rows that rows[] have room for
    int64_t pos;       // committed rows
    int cur;           // S[cur], conv[cur]: the state after pos - n_pending rows
    int pend;          // rows[pend] counts
    int64_t n_pending; // rows there that are committed and not in S
    int64_t n_tried;   // rows behind them, of the last verify, not accepted or replaced yet
    struct fg_layer_state *layers;
};
// Calls that commit at most so many rows leave them pending if there is room.
#define FG_STATE_ASIDE_MAX 4

// Do the T rows of a call stand aside, and not go into S?
static inline bool fg_state_aside(const struct fg_state *s, int64_t T, bool verify)
{
    return verify || (T <= FG_STATE_ASIDE_MAX && s->n_pending + T <= s->tried_max);
}

// Does a call of T rows write S (what is pending, or the rows themselves)? Otherwise S stays, and
// the rows stand behind those that are pending.
static inline bool fg_state_writes(const struct fg_state *s, int64_t T, bool verify)
{
    return !fg_state_aside(s, T, verify) || s->n_pending + T > s->tried_max;
}
#endif
