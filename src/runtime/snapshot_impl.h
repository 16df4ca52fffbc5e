// runtime/snapshot_impl.h: a snapshot's insides, for snapshot*.c.
#ifndef FG_RUNTIME_SNAPSHOT_IMPL_H
#define FG_RUNTIME_SNAPSHOT_IMPL_H
#include "base/hash.h"
#include "runtime/session_impl.h"
#include "runtime/snapshot.h"

#define FG_SNAPSHOT_VERSION 1 // of what a snapshot and its file hold

// A page of keys and values of all layers and heads (runtime/kv.h), shared by reference.
struct fg_snapshot_page {
    int64_t refs;
    uint64_t bytes;
    uint8_t *data;
};

// What a snapshot and a session must agree in.
struct fg_snapshot_kind {
    uint8_t build_id[FG_SHA256_BYTES]; // of model, numerics, format of keys and values, version
    struct fg_kv_shape shape;          // zeroed without full attention layers
    int64_t n_linear;
    int64_t S_floats, conv_floats; // of one linear layer
};

struct fg_snapshot {
    struct fg_session *session; // that it belongs to, and is listed in; NULL: that is gone
    struct fg_snapshot *next;   // in session->snapshots, by descending pos
    enum fg_snapshot_rows rows;
    bool lost;
    int64_t pos;
    // The session's rows [0, live) are the snapshot's. Of the others there are copies: a page
    // without one has all its rows below `live`.
    int64_t live;
    struct fg_snapshot_page **pages; // [n_pages], NULL: no copy
    int64_t n_pages;                 // 0 without full attention layers
    int32_t *ids;                    // [pos]
    // Of all linear layers: S [nv][dk][dv], then convolution rows [K - 1][channels]. NULL: lost.
    float *states;
    struct fg_snapshot_kind kind;
};

// Errors: FG_ERESOURCE.
int fg_snapshot_kind_of(struct fg_snapshot_kind *kind, const struct fg_session *s,
                        struct fg_error *err);
uint64_t fg_snapshot_state_bytes(const struct fg_snapshot_kind *kind);

// One of `pos` rows that belongs to `s`. States, ids and rows are the caller's to fill: nothing is
// live, and there are no copies. Errors: FG_ERESOURCE; *out is then NULL.
int fg_snapshot_new(struct fg_snapshot **out, struct fg_session *s, int64_t pos,
                    struct fg_error *err);
// Memory for a page that has one reference, zeroed; NULL: there is none.
struct fg_snapshot_page *fg_snapshot_page_new(const struct fg_kv_shape *shape);

// Brings the session to the snapshot's position: entry, states, ids; keys and values of rows [row,
// pos) are then the caller's to write, and what they were is gone (after the write barrier). Errors
// as fg_snapshot_restore, with nothing changed.
int fg_snapshot_settle(struct fg_session *s, const struct fg_snapshot *snap, int64_t row,
                       int64_t rows_needed, struct fg_error *err);
// Of one whose rows are gone: FG_EFAILED.
int fg_snapshot_not_valid(struct fg_error *err);
#endif
