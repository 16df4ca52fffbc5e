// runtime/session_impl.h: the session's insides, for session.c and session_file.c.
#ifndef FG_RUNTIME_SESSION_IMPL_H
#define FG_RUNTIME_SESSION_IMPL_H
#include "base/arena.h"
#include "runtime/session.h"

#define FG_SESSION_ROWS_MAX 8192

struct fg_session {
    const struct fg_model *model;
    bool fast;
    int64_t rows_max;
    struct fg_arena arena; // states, ids, layers
    struct fg_state state;
    struct fg_workspace *ws;
    int32_t *ids;  // [capacity]
    float *states; // all linear layers: S, then convolution rows; one stretch, so it is saved and
                   // cleared as one
    uint64_t state_floats;
    float *cache; // all full layers: keys, then values, [n_kv_heads][capacity][head_dim] each;
                  // reserved
    uint64_t cache_bytes;
    void *best_work; // of fg_parallel_best
    uint64_t best_bytes;
};
#endif
