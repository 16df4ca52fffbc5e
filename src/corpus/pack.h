// corpus/pack.h: generated sequences (corpus/generate.h) as rows for training, or as a trace
// (specs: quantization 6.3). Sequences are taken in the order of directories and lines.
#ifndef FG_CORPUS_PACK_H
#define FG_CORPUS_PACK_H
#include "base/error.h"
#include "corpus/sequences.h"
#include "format/rows.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_pack_job {
    const char *const *dirs;
    int n_dirs;
    int64_t seq;       // tokens per row
    double holdout;    // share of the prompts whose sequences are held out, in [0, 1)
    bool partial;      // directories of runs that have not finished are taken too
    const char *split; // of the rows or the trace; held-out rows have "SPLIT-holdout"
};

struct fg_pack_facts {
    int64_t sequences, held; // of them held out
    int64_t tokens;
};

// Rows of the sequences, back to back, and of those that are held out, packed apart: a sequence is
// in one of the two. seq_id numbers the sequences; a last row that is not full is dropped. Held out
// are prompts whose tokens' SHA-256, its first 8 bytes as a big-endian fraction of 2^64, is below
// `holdout`. Errors: FG_EINPUT (unreadable, unfinished, other tokenizers, no full row),
// FG_ERESOURCE; *rows and *held are then empty.
int fg_pack_rows(struct fg_rows *rows, struct fg_rows *held, struct fg_pack_facts *facts,
                 const struct fg_pack_job *job, struct fg_error *err);
// All sequences as a trace: lengths of prompts, kinds as labels. seq and holdout are not looked at.
// Errors as above, FG_EINPUT also for more than 64 kinds or a kind without name.
int fg_pack_trace(struct fg_trace *trace, struct fg_pack_facts *facts,
                  const struct fg_pack_job *job, struct fg_error *err);
// Whether a prompt is held out.
bool fg_pack_is_held(const int32_t *prompt, int64_t n, double share);
#endif
