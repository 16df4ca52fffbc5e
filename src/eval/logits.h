// eval/logits.h: the logits of every position of a token sequence, streamed into an npy file, for
// comparison with a reference.
#ifndef FG_EVAL_LOGITS_H
#define FG_EVAL_LOGITS_H
#include "base/error.h"
#include "forge/forge.h"
#include <stddef.h>
#include <stdint.h>

// Token ids from a text of numbers separated by commas or white space, n bytes; `file` names the
// source in errors (NULL: none). *ids is the caller's. Errors: FG_EINPUT (not a number, none at
// all, past 2^31 - 1), FG_ERESOURCE.
int fg_eval_parse_ids(const char *text, size_t n, const char *file, int32_t **ids, size_t *n_ids,
                      struct fg_error *err);
// The same from a file: npy of int32 or int64 (any shape, read flat), else such a text. "-" is
// standard input.
int fg_eval_read_ids(const char *path, int32_t **ids, size_t *n_ids, struct fg_error *err);

struct fg_eval_logits {
    const int32_t *ids; // [n]
    size_t n;
    int64_t rows;    // per forward call; results do not depend on it
    int64_t context; // of the session; 0: the smallest with room
    const char *out;
    const char *tap; // NULL: logits; else the intermediate of this name (model/graph.h)
    int tap_layer;   // -1: of no layer
    // Called between blocks with positions that are done; other than 0 stops.
    int (*progress)(void *ctx, int64_t done, int64_t total);
    void *ctx;
};

// Runs the ids through a fresh session of `e` and writes float32 [n][vocab] (or [n][width] of the
// tap), row t from positions 0..t, to job->out. The file appears whole or not at all; memory holds
// one block. Errors: FG_EINPUT (ids outside the vocabulary, more than the context has room for, a
// tap that never came), FG_ERESOURCE, FG_EINTERRUPTED.
int fg_eval_logits(struct forge_engine *e, const struct fg_eval_logits *job, struct fg_error *err);
#endif
