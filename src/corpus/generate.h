// corpus/generate.h: samples of a model on prompts (specs: quantization 6.3), kept sequence by
// sequence in a directory (corpus/sequences.h). The random numbers of a sequence come from the seed
// and the prompt's id alone, so a run that was stopped or killed goes on to the same bytes.
#ifndef FG_CORPUS_GENERATE_H
#define FG_CORPUS_GENERATE_H
#include "base/error.h"
#include "corpus/prompts.h"
#include "forge/forge.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fg_generate_job {
    struct forge_engine *engine;
    const struct fg_prompts *prompts;
    const char *dir; // new, empty, or of the same job
    bool restart;    // drop what an earlier run left
    bool dry_run;    // only turn the prompts into tokens and count them; dir is not touched
    uint64_t seed;
    struct forge_sampling sampling; // its seed is not looked at
    int64_t max_new;                // tokens of a reply, >= 1
    bool think;                     // templates that can: with thinking
    bool raw;                       // plain text instead of the template, for base models
    int at_once; // replies at the same time, 1 .. FG_BATCH_MAX; they do not depend on it
    struct forge_session_options session;
    const char *model_digest; // identity of the model; "": unknown
    // Called between tokens and blocks of a prompt: sequences that are done, and tokens of the
    // oldest at work. Other than 0 stops; what is done is kept. May be NULL.
    int (*progress)(void *ctx, size_t done, const char *id, int64_t tokens);
    void *ctx;
};

struct fg_generate_result {
    size_t found, made;                  // sequences of earlier runs, of this one
    int64_t prompt_tokens, reply_tokens; // of all
    int64_t made_tokens;                 // replies of this run
    size_t ended;                        // replies that the model ended
    double seconds;
};

// Errors: FG_EINPUT (a prompt that the template refuses or the context does not hold, before
// anything is sampled; other content in dir), FG_EINTEGRITY (another job's dir), FG_EBUSY,
// FG_ERESOURCE, FG_EFAILED, FG_EINTERRUPTED. *result says in every case what is there.
int fg_generate_run(const struct fg_generate_job *job, struct fg_generate_result *result,
                    struct fg_error *err);

// The seed of a prompt's random numbers: the first number of the stream "generate/ID".
uint64_t fg_generate_seed(uint64_t seed, const char *id);

// A prompt as plain text: system text, tools as JSON, messages, parted by empty lines, an empty
// line at the end. FG_EINPUT: content that is no text.
struct fg_buf;
int fg_generate_plain(struct fg_buf *out, const struct fg_prompt *prompt, struct fg_error *err);
#endif
