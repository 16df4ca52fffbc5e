// format/rows.h: token ids that quantization, training and evaluation work on (specs: quantization
// 6.1): rows of one length, and traces (sequences of any length with the lengths of their prompts).
// Both are one safetensors file:
//   rows    ids I32 [rows][seq]; optional seq_id I32 [rows][seq] (-1: none), mask U8 [rows][seq];
//           metadata schema "forge.rows/1", tokenizer_sha256, source, split, seed
//   traces  ids I32 [sum of lengths], lengths I32 [n], plens I32 [n]; optional label U8 [n] with
//           metadata labels (a JSON array of names); metadata schema "forge.trace/1" and the same
// Rows are read from .npy too, int64 or int32 [rows][seq].
#ifndef FG_FORMAT_ROWS_H
#define FG_FORMAT_ROWS_H
#include "base/error.h"
#include "base/hash.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_ROWS_SCHEMA "forge.rows/1"
#define FG_TRACE_SCHEMA "forge.trace/1"
#define FG_ROWS_LABELS_MAX 64

// What a file says of itself. Strings are "" where it says nothing.
struct fg_rows_facts {
    char tokenizer_sha256[FG_SHA256_HEX];
    char source[1024];
    char split[32]; // "calib", "train", "valid", "dev", "select", "held", "sealed", ...
    uint64_t seed;
};

// Rows; arrays are the struct's, freed by fg_rows_free. Zeroed is empty.
struct fg_rows {
    int64_t n, seq;
    int32_t *ids;    // [n][seq]
    int32_t *seq_id; // [n][seq] or NULL
    uint8_t *mask;   // [n][seq] or NULL: positions that count
    struct fg_rows_facts facts;
    char sha256[FG_SHA256_HEX]; // of the file
};

// Opens rows. vocab > 0: ids outside [0, vocab) are refused, naming row and column; seq > 0: so is
// another length. tokenizer_sha256 (may be NULL): a file that names another tokenizer is refused
// ("made for tokenizer 3f2a..., the model has 91bc..."). Errors: FG_EINPUT, FG_ERESOURCE; *out is
// then empty.
int fg_rows_open(struct fg_rows *out, const char *path, int64_t vocab, int64_t seq,
                 const char *tokenizer_sha256, struct fg_error *err);
// Writes atomically; same content, same bytes. sha256 (may be NULL) receives that of the file.
int fg_rows_write(const char *path, const struct fg_rows *rows, char sha256[FG_SHA256_HEX],
                  struct fg_error *err);
void fg_rows_free(struct fg_rows *rows);

// Traces; likewise.
struct fg_trace {
    int64_t n;
    int64_t total; // sum of the lengths
    int64_t longest;
    int32_t *ids;     // [total]
    int32_t *lengths; // [n], each >= 2
    int32_t *plens;   // [n], tokens of the prompt, 0 .. length
    int64_t *starts;  // [n]: where each begins in ids
    uint8_t *label;   // [n] or NULL
    int n_labels;
    char labels[FG_ROWS_LABELS_MAX][32];
    struct fg_rows_facts facts;
    char sha256[FG_SHA256_HEX];
};

// Opens traces; a rows file is one too: every row a sequence without prompt. Errors as
// fg_rows_open.
int fg_trace_open(struct fg_trace *out, const char *path, int64_t vocab,
                  const char *tokenizer_sha256, struct fg_error *err);
int fg_trace_write(const char *path, const struct fg_trace *trace, char sha256[FG_SHA256_HEX],
                   struct fg_error *err);
void fg_trace_free(struct fg_trace *trace);
#endif
