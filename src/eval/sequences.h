// eval/sequences.h: the token sequences that models are compared on: rows and traces
// (format/rows.h), from one file or several.
#ifndef FG_EVAL_SEQUENCES_H
#define FG_EVAL_SEQUENCES_H
#include "base/error.h"
#include "format/rows.h"
#include <stdint.h>

struct fg_eval_set {
    struct fg_trace *files; // [n_files]
    int n_files;
    int64_t n;                  // sequences of all files
    int64_t longest, shortest;  // tokens
    int64_t positions;          // sum of the lengths - 1: predicted tokens
    char sha256[FG_SHA256_HEX]; // of the one file; of several, of the lines "SHA256\n"
};

struct fg_eval_seq {
    const int32_t *ids; // [length]
    int64_t length;     // >= 2
    int64_t plen;       // tokens of the prompt
    const char *label;  // domain, or NULL
};

// Opens the files in the given order, each checked against `vocab`; tokenizer ("": unknown) must be
// the one that they name. Errors: FG_EINPUT, FG_ERESOURCE, FG_EINTEGRITY (tokenizer); *set is then
// empty.
int fg_eval_set_open(struct fg_eval_set *set, const char *const *paths, int n, int64_t vocab,
                     const char *tokenizer, struct fg_error *err);
void fg_eval_set_free(struct fg_eval_set *set); // zeroed is fine
// Sequence i of all, 0 <= i < n.
struct fg_eval_seq fg_eval_set_at(const struct fg_eval_set *set, int64_t i);
#endif
