// corpus/sequences.h: what a model made of prompts, a line for each in `sequences.jsonl` of a
// directory (specs: quantization 6.3), and `generate.json`, which says how:
//
//   {"id": "code-00012", "kind": "code", "finish": "stop", "prompt": [1, 2], "reply": [3, 4]}
//
// A line is appended when its sequence is whole; what a killed run left of one is dropped.
#ifndef FG_CORPUS_SEQUENCES_H
#define FG_CORPUS_SEQUENCES_H
#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FG_SEQUENCES_FILE "sequences.jsonl"
#define FG_SEQUENCES_ABOUT "generate.json"
#define FG_SEQUENCES_SCHEMA "forge.generate/1"
#define FG_SEQUENCE_TOKENS_MAX (1 << 24)

struct fg_sequence {
    char *id, *kind;
    char finish[16];  // "stop", "length", "context"
    int32_t *ids;     // [n] the prompt, then the reply with the token that ended it
    int64_t n_prompt; // >= 1
    int64_t n;        // > n_prompt
};

struct fg_sequences {
    struct fg_sequence *item; // [n]
    size_t n, cap;
};
void fg_sequences_free(struct fg_sequences *s); // zeroed is fine
// Copies. False: out of memory.
bool fg_sequences_add(struct fg_sequences *s, const char *id, const char *kind, const char *finish,
                      const int32_t *ids, int64_t n_prompt, int64_t n);
// Appends the line of a sequence with its end.
void fg_sequence_line(struct fg_buf *out, const struct fg_sequence *s);
// Reads whole lines; a last one without its end is left out, *whole_bytes tells where it starts.
// Ids are at least 0. Errors: FG_EINPUT (line and field), FG_ERESOURCE; *out is then empty.
int fg_sequences_read(struct fg_sequences *out, uint64_t *whole_bytes, const char *path,
                      struct fg_error *err);

// What generate.json says.
struct fg_sequences_about {
    bool complete;
    char tokenizer_sha256[FG_SHA256_HEX];
    char model_digest[FG_SHA256_HEX];
    char prompts_sha256[FG_SHA256_HEX];
    int64_t prompts;
    uint64_t seed;
};
// Errors: FG_EINPUT, FG_ERESOURCE.
int fg_sequences_about(struct fg_sequences_about *out, const char *dir, struct fg_error *err);
#endif
