// corpus/check.h: is what a model learns from apart from what it is measured on (specs:
// quantization 6.3)? Prompts against the prompts of evaluation and against each other, rows against
// traces.
#ifndef FG_CORPUS_CHECK_H
#define FG_CORPUS_CHECK_H
#include "base/error.h"
#include "forge/forge.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FG_CHECK_WINDOW 13   // tokens of a run
#define FG_CHECK_SHARE 0.005 // of a trace's runs that rows may have

struct fg_check_job {
    const char *const *prompts; // files, format as corpus/prompts.h
    int n_prompts;
    const char *const *against; // files of evaluation prompts, besides Forge's own sets
    int n_against;
    const char *const *rows, *const *traces; // files, format/rows.h
    int n_rows, n_traces;
    const struct forge_engine *engine; // tokenizer and template, for rows and traces; else NULL
    double share_max;
    bool (*stop)(void *ctx); // asked between files and sequences; may be NULL
    void *ctx;
};

// A prompt and what it is too close to.
struct fg_check_pair {
    char *id, *other; // other: "ID", or "ID of FILE" for evaluation prompts of a file
    double likeness;  // Jaccard of word 3-grams; 0: a shared run of 8 words
};

struct fg_check_trace {
    const char *path;         // the job's
    int64_t windows, present; // runs without template tokens; those that the rows have
    double share;
    bool good;
};

struct fg_check_result {
    size_t n_prompts, n_against; // compared
    struct fg_check_pair *pair;  // [n_pairs] violations, in order of the prompts
    size_t n_pairs;
    struct fg_check_trace *trace; // [n_traces]
    int n_traces;
    int64_t rows, row_tokens;
    bool good; // no violation
};

// Errors: FG_EINPUT (files, tokenizers that differ), FG_ERESOURCE, FG_EINTERRUPTED; *result is then
// empty. Violations are no error.
int fg_check_run(const struct fg_check_job *job, struct fg_check_result *result,
                 struct fg_error *err);
void fg_check_free(struct fg_check_result *r); // zeroed is fine
#endif
