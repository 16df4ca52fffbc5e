// train/calib.h: the rows that a quantization is calibrated on (specs: quantization 4.6, 6.2, 8):
// from row files and from texts, which rows are held out, and what tells one set from another.
#ifndef FG_TRAIN_CALIB_H
#define FG_TRAIN_CALIB_H
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_CALIB_SOURCES_MAX 64

// The first `n` rows of a row file (format/rows.h), or of a text that is tokenized from its start
// without BOS and cut into rows. n 0: all there are.
struct fg_calib_source {
    char *path; // malloc'd by fg_calib_parse, never changed
    int64_t n;
    bool text;
};

struct fg_calib_options {
    const struct fg_calib_source *sources;
    int n_sources;
    const char *model; // whose tokenizer: a checkpoint directory or a GGUF file
    int64_t vocab;
    int64_t seq;     // tokens per row, at least 2
    int64_t rows;    // at most so many in all, sources in order; 0: all
    int64_t holdout; // rows that take no part in any H: the last of each source in turn
    const struct fg_log *log;
};

struct fg_calib {
    int64_t n, seq;
    int32_t *ids;  // [n][seq]
    uint8_t *held; // [n]
    int64_t n_held;
    int64_t tokens;             // of rows that are not held out
    char sha256[FG_SHA256_HEX]; // of extents, ids and held: equal sets have equal ones
};

// "FILE:N" or "FILE" into *source, whose path is malloc'd. A text behind the last colon that is no
// number belongs to the path. FG_EINPUT for N < 1 or an empty path.
int fg_calib_parse(struct fg_calib_source *source, const char *text, const char *field,
                   struct fg_error *err);
// Errors: FG_EINPUT (a source with fewer rows than asked for, a token outside the vocabulary,
// another length of rows, no row left beside those held out), FG_ERESOURCE; *out is then empty.
int fg_calib_open(struct fg_calib *out, const struct fg_calib_options *o, struct fg_error *err);
void fg_calib_free(struct fg_calib *c); // zeroed is fine
#endif
