// runtime/session.h: one conversation's state over a shared model (specs: runtime 3): the context
// ladder, calls that commit rows, calls that try them, acceptance, flush, reset. Snapshots are in
// snapshot.h. One caller at a time.
#ifndef FG_RUNTIME_SESSION_H
#define FG_RUNTIME_SESSION_H
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "kernels/kernels.h"
#include "model/graph.h"
#include "model/model.h"
#include "runtime/kv.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_session; // opaque
struct fg_best;    // kernels/parallel.h

#define FG_SESSION_ENTRIES_MAX 32
#define FG_SESSION_ROWS_MAX 8192
#define FG_SESSION_VERIFY 8 // rows of a verify call, where nothing else is asked for
#define FG_SESSION_VERIFY_MAX 16

struct fg_session_options {
    const struct fg_kernels *kernels;
    struct fg_pool *pool;
    bool fast;                   // numerics
    enum fg_attention attention; // not STORED: for evaluation, and verify is refused
    enum fg_kv_format kv;
    bool rotated; // keys and values; the head's width must be a power of two from 8 to 1024
    enum fg_kv_backing backing;
    // The ladder, ascending, each 1 .. the model's max_positions. NULL: fg_session_ladder of
    // `capacity`.
    const int64_t *entries;
    int n_entries;
    int64_t capacity;
    int64_t rows_max;       // rows per forward call
    int64_t verify_max;     // rows that verify takes; 0: FG_SESSION_VERIFY
    uint64_t reserve_bytes; // memory that growing leaves free; 0: growing does not ask
    struct fg_log log;      // a line at info for every move on the ladder
};

// The entries 8192, 16384, 32768, 65536, 98304, 131072, 196608 below `capacity`, then it itself.
// entries holds FG_SESSION_ENTRIES_MAX. Returns their number.
int fg_session_ladder(int64_t capacity, int64_t *entries);

// An empty session in its smallest entry. Model, kernels and pool must outlive it. Errors:
// FG_EINPUT, FG_ERESOURCE; *out is then NULL.
int fg_session_new(struct fg_session **out, const struct fg_model *m,
                   const struct fg_session_options *options, struct fg_error *err);
void fg_session_free(struct fg_session *s); // NULL is fine

// Called between blocks; other than 0 stops.
typedef int (*fg_session_progress_fn)(void *ctx, int64_t done, int64_t total);

struct fg_feed {
    const int32_t *ids; // [n]
    int64_t n;
    float *logits;        // of the last n_out rows [n_out][vocab]; NULL with `best` or n_out 0
    struct fg_best *best; // or the best of them; `work` is not used
    int64_t n_out;
    float *taps; // [n][n_taps][hidden] (fg_session_set_layer_taps), or NULL
    fg_session_progress_fn progress;
    bool (*cancel)(void *ctx); // asked between layers
    void *ctx;                 // of both
};
// Runs and commits rows in blocks, growing as needed; rows that were tried are dropped first.
// Errors: FG_EINPUT before anything is changed (n < 1, an id outside the vocabulary, no entry that
// is large enough), FG_ERESOURCE (no memory for growing) likewise; FG_EINTERRUPTED and FG_EFAILED
// (a row that is not finite) with the blocks that ran whole.
int fg_session_feed(struct fg_session *s, const struct fg_feed *feed, struct fg_error *err);
// The same, for those who want no more.
int fg_session_run(struct fg_session *s, const int32_t *ids, int64_t n, float *logits,
                   int64_t n_logits, fg_session_progress_fn progress, void *ctx,
                   struct fg_error *err);
int fg_session_run_best(struct fg_session *s, const int32_t *ids, int64_t n, struct fg_best *best,
                        int64_t n_best, fg_session_progress_fn progress, void *ctx,
                        struct fg_error *err);

// Tries ids[0, n), n <= verify_max, at the positions from pos on: feed's outputs for all n rows
// (n_out = n, or 0), nothing committed. Replaces what was tried before. Errors as feed, and
// FG_EINPUT where attention is not STORED; the session is then as it was before the call, but when
// the rows had begun (FG_EINTERRUPTED, FG_EFAILED) those that were tried before are gone.
int fg_session_verify(struct fg_session *s, const struct fg_feed *feed, struct fg_error *err);
// The same for rows of several different sessions of one model in one pass: ids, logits, best and
// taps have the sessions' rows one after the other. All or none. The first session's buffers and
// layer taps are used: the rows together may be at most its rows_max, or its verify_max where that
// is more. FG_EINPUT too: more than FG_CALL_SPANS_MAX sessions, other models or numerics, one
// session twice.
int fg_session_verify_batch(struct fg_session *const *sessions, const int64_t *n_rows,
                            int n_sessions, const struct fg_feed *feed, struct fg_error *err);
// Commits the first k of the rows that were tried and drops the others. Costs nothing: the next
// call applies them. FG_EINPUT: k is not in 0 .. their number.
int fg_session_accept(struct fg_session *s, int64_t k, struct fg_error *err);
void fg_session_flush(struct fg_session *s); // applies them now

// Makes sure that `rows` positions fit. Errors: FG_EINPUT (no entry is large enough), FG_ERESOURCE;
// nothing is changed then.
int fg_session_fit(struct fg_session *s, int64_t rows, struct fg_error *err);
// Empty, in the smallest entry, memory given back.
void fg_session_reset(struct fg_session *s);
// Keeps the first `pos` rows and drops what is tried. False, and nothing changed, when a recurrent
// state would have to be undone (rows that were accepted and not applied yet can be); 0 always
// works and is reset.
bool fg_session_rewind(struct fg_session *s, int64_t pos);

int64_t fg_session_pos(const struct fg_session *s);
int64_t fg_session_tried(const struct fg_session *s);      // rows that wait for accept
int64_t fg_session_capacity(const struct fg_session *s);   // of the largest entry
int64_t fg_session_entry(const struct fg_session *s);      // the entry it is in
const int32_t *fg_session_ids(const struct fg_session *s); // of the committed rows, [pos]
// Memory that the session has: states, buffers, keys and values of the entry.
uint64_t fg_session_bytes(const struct fg_session *s);
uint64_t fg_session_kv_bytes(const struct fg_session *s); // keys and values alone

void fg_session_set_tap(struct fg_session *s, fg_tap_fn tap, void *ctx);
// Layers whose residual goes to feed.taps: ascending, below the model's layers. FG_EINPUT.
int fg_session_set_layer_taps(struct fg_session *s, const int64_t *layers, int64_t n,
                              struct fg_error *err);

// For measurements: an empty session goes to `pos` with made-up keys, values and states.
int fg_session_pretend(struct fg_session *s, int64_t pos, uint64_t seed, struct fg_error *err);

// A snapshot into a file and back (snapshot.h). Save is atomic. Load replaces the content; after a
// failure the session is empty.
int fg_session_save(struct fg_session *s, const char *path, struct fg_error *err);
int fg_session_load(struct fg_session *s, const char *path, struct fg_error *err);
#endif
