// corpus/prompts.h: prompts that models are sampled on (specs: quantization 6.3, 7.1): made from
// our own templates, and as files. A file has one JSON object per line:
//
//   {"id": "code-00012", "kind": "code", "messages": [...], "tools": [...]}
//
// messages and tools are what a chat template takes; tools may be absent, and so may kind ("").
#ifndef FG_CORPUS_PROMPTS_H
#define FG_CORPUS_PROMPTS_H
#include "base/error.h"
#include "base/hash.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FG_PROMPTS_MAX 1000000
#define FG_PROMPT_ID_MAX 128  // bytes
#define FG_PROMPT_KIND_MAX 31 // bytes, as labels of a trace
// Of two texts whose sets of word 3-grams have at least this Jaccard likeness, one is dropped.
#define FG_PROMPTS_LIKENESS 0.6
#define FG_PROMPTS_LIKE_ORDER 3
// A prompt that shares a run of so many words with an evaluation prompt is dropped.
#define FG_PROMPTS_RUN_ORDER 8

struct fg_prompt {
    char *id;
    char *kind; // may be ""
    char *json; // the line, without its end
    char *said; // what its user says: the text of its user messages, "\n" between them
};

struct fg_prompts {
    struct fg_prompt *item; // [n], ids differ
    size_t n, cap;
};
void fg_prompts_free(struct fg_prompts *p); // zeroed is fine

// The sets of evaluation, and the prompts of training.
enum fg_prompt_set {
    FG_PROMPTS_DEV,    // 64 prompts: to look at while working
    FG_PROMPTS_SELECT, // 128: chooses among steps and plans
    FG_PROMPTS_HELD,   // 128: reported
    FG_PROMPTS_SEALED, // 128: opened once per release
    FG_PROMPTS_TRAIN
};
const char *fg_prompt_set_name(enum fg_prompt_set set); // "dev", ..., "train"

// n prompts for training: 30 % code, 20 % agentic, 20 % multilingual, 15 % math, 15 % rare tokens,
// mixed. The same seed gives the same prompts, and fewer of them are the first of more. None shares
// 8 words with an evaluation prompt, no two are near duplicates. Errors: FG_EINPUT (the templates
// give no more), FG_ERESOURCE; *out is then empty.
int fg_prompts_train(struct fg_prompts *out, uint64_t seed, size_t n, struct fg_error *err);

// The prompts of an evaluation set (FG_PROMPTS_TRAIN is none), always the same. kind is the domain:
// code, math, science, writing, agentic, multilingual, reasoning. Sets share no prompt and no 8
// words. Errors: FG_ERESOURCE.
int fg_prompts_eval(struct fg_prompts *out, enum fg_prompt_set set, struct fg_error *err);

// Reads a file ("-": standard input). Errors: FG_EINPUT (line and field), FG_ERESOURCE; *out is
// then empty.
int fg_prompts_read(struct fg_prompts *out, const char *path, struct fg_error *err);
// Writes atomically.
int fg_prompts_write(const char *path, const struct fg_prompts *p, struct fg_error *err);
// SHA-256 of the file that they would make. False: out of memory.
bool fg_prompts_digest(const struct fg_prompts *p, char hex[FG_SHA256_HEX]);

// Appends a prompt; the strings are copied. False: out of memory.
bool fg_prompts_add(struct fg_prompts *p, const char *id, const char *kind, const char *json,
                    const char *said);
#endif
