// runtime/session_impl.h: the session's insides, for session*.c and snapshot*.c.
#ifndef FG_RUNTIME_SESSION_IMPL_H
#define FG_RUNTIME_SESSION_IMPL_H
#include "base/arena.h"
#include "base/hash.h"
#include "runtime/session.h"
#include "runtime/snapshot.h"

// Rises with every change of arithmetic that can alter a bit of any output: part of what a snapshot
// must agree in.
#define FG_NUMERICS_ABI 3

struct fg_session {
    const struct fg_model *model;
    struct fg_session_options options; // entries point to `entries`
    int64_t entries[FG_SESSION_ENTRIES_MAX];
    int n_entries;
    int entry;             // index of the one it is in
    struct fg_arena arena; // states, ids, layers
    struct fg_state state;
    struct fg_workspace *ws;
    struct fg_kv *kv; // NULL: no full attention layers
    int64_t hi;       // rows of keys and values that are physically there
    int32_t *ids;     // [largest entry]: of committed rows, then of those that are tried
    // All linear layers: S, then convolution rows; one stretch for each of the two buffers, so it
    // is copied and cleared as one.
    float *states[2];
    uint64_t state_floats;
    int64_t taps[64]; // layers
    int64_t n_taps;
    void *best_work; // of fg_parallel_best
    uint64_t best_bytes;
    struct fg_snapshot *snapshots; // list of those taken from it
    uint8_t numerics_id[FG_SHA256_BYTES];
};

// Where a layer's S and convolution rows lie in `states`, in floats; layer < n_layers, linear.
uint64_t fg_session_S_at(const struct fg_session *s, int64_t layer);
uint64_t fg_session_conv_at(const struct fg_session *s, int64_t layer);
// SHA-256 of what results depend on beside the weights: mode, numerics ABI (which stands for the
// digits of activations too: they follow from it and the weights), KV format and rotation, kind of
// attention. Snapshots of one are refused by another.
void fg_session_numerics_id(const struct fg_session *s, uint8_t id[32]);

// Moves to entries[entry], up or down; the caller keeps pos within it. Rows from `keep` on, and
// those that the entry has no room for, are dropped after fg_snapshots_before_write. The first
// `keep` rows stay: hi to keep all. Errors, going up alone: FG_ERESOURCE (no memory, or less than
// options.reserve_bytes would be left); nothing but dropped rows has changed then.
int fg_session_move(struct fg_session *s, int entry, int64_t keep, struct fg_error *err);
// Index of the smallest entry that holds `rows`, -1: none does.
int fg_session_entry_for(const struct fg_session *s, int64_t rows);

// The write barrier (specs: runtime 3.3), in snapshot.c. Before rows from `row` on are overwritten
// or dropped: snapshots that have them live copy their pages, or are lost. Cannot fail: one that
// finds no memory is lost.
void fg_snapshots_before_write(struct fg_session *s, int64_t row);
void fg_snapshots_orphan(struct fg_session *s); // before the session goes
#endif
