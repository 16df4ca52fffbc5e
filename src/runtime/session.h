// runtime/session.h: one conversation's state over a shared model (specs: model 8): growth, forward
// calls in blocks, rewind, save and load. One caller at a time.
#ifndef FG_RUNTIME_SESSION_H
#define FG_RUNTIME_SESSION_H
#include "base/error.h"
#include "base/thread.h"
#include "kernels/kernels.h"
#include "model/graph.h"
#include "model/model.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_session; // opaque
struct fg_best;    // kernels/parallel.h

// An empty session of `capacity` positions (1 .. the model's max_positions), running at most
// `rows_max` rows per forward call. Key and value rows are reserved address space: memory is used
// as positions are. The model, kernels and pool must outlive it. Errors: FG_EINPUT, FG_ERESOURCE;
// *out is then NULL.
int fg_session_new(struct fg_session **out, const struct fg_model *m,
                   const struct fg_kernels *kernels, struct fg_pool *pool, bool fast,
                   int64_t capacity, int64_t rows_max, struct fg_error *err);
void fg_session_free(struct fg_session *s); // NULL is fine

// Called between blocks; other than 0 stops.
typedef int (*fg_session_progress_fn)(void *ctx, int64_t done, int64_t total);

// Runs ids[0, n) and writes the logits of the last n_logits rows to logits [n_logits][vocab] (may
// be NULL when n_logits is 0). Errors: FG_EINPUT before anything is changed (n < 1, an id outside
// the vocabulary, no room); FG_EINTERRUPTED with the blocks that ran.
int fg_session_run(struct fg_session *s, const int32_t *ids, int64_t n, float *logits,
                   int64_t n_logits, fg_session_progress_fn progress, void *ctx,
                   struct fg_error *err);

// The same, keeping the `k` best logits and log sum exp of the last n_best rows: arrays of *best as
// kernels/parallel.h has them for n_best rows; `work` is not used. Errors also: FG_EINPUT for k,
// FG_ERESOURCE.
int fg_session_run_best(struct fg_session *s, const int32_t *ids, int64_t n, struct fg_best *best,
                        int64_t n_best, fg_session_progress_fn progress, void *ctx,
                        struct fg_error *err);

int64_t fg_session_pos(const struct fg_session *s);
int64_t fg_session_capacity(const struct fg_session *s);
// The ids of the rows so far: [pos].
const int32_t *fg_session_ids(const struct fg_session *s);
// Keeps the first `pos` rows. False, and nothing changed, when a recurrent state would have to be
// undone; 0 always works.
bool fg_session_rewind(struct fg_session *s, int64_t pos);
// States, buffers and the cache rows in use.
uint64_t fg_session_bytes(const struct fg_session *s);
void fg_session_set_tap(struct fg_session *s, fg_tap_fn tap, void *ctx);

// Files: magic "FORGESES", version, model digest, numerics, position, ids, states, cache rows,
// SHA-256 of all before it. Save is atomic. Load replaces the content and needs the same model and
// numerics; after a failure the session is empty. Errors: FG_EINPUT (no such file, too long for the
// capacity), FG_EINTEGRITY (model, numerics or checksum differ).
int fg_session_save(const struct fg_session *s, const char *path, struct fg_error *err);
int fg_session_load(struct fg_session *s, const char *path, struct fg_error *err);
#endif
