// corpus/batch.h: replies to many prompts, several at a time through one pass over the weights. A
// reply is the one that forge_generate draws from the same seed, with the stop token that ended it,
// whatever goes beside it: rows do not depend on their company (docs/architecture.md).
#ifndef FG_CORPUS_BATCH_H
#define FG_CORPUS_BATCH_H
#include "base/error.h"
#include "forge/forge.h"
#include "text/tokenizer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FG_BATCH_MAX 64

struct fg_batch_job {
    struct forge_engine *engine;
    struct forge_session_options session;
    struct forge_sampling sampling; // its seed is not looked at
    const struct fg_ids *prompts;   // [n] each of at least one token, shorter than the context
    const uint64_t *seeds;          // [n]
    size_t n;
    int at_once;     // replies at the same time, 1 .. FG_BATCH_MAX
    int64_t max_new; // tokens of a reply, >= 1
    // Called for every prompt, in order, when its reply and those before it are whole: ids are the
    // prompt and the reply; finish is FORGE_FINISH_STOP, LENGTH or CONTEXT. Other than 0 ends the
    // run with this code.
    int (*take)(void *ctx, size_t prompt, const struct fg_ids *ids, enum forge_finish finish,
                struct fg_error *err);
    // Called between passes: the oldest prompt at work and the tokens that it has. Other than 0
    // stops. May be NULL.
    int (*progress)(void *ctx, size_t prompt, int64_t tokens);
    void *ctx;
};

// Errors: those of sessions; FG_EFAILED (logits that are not finite), FG_EINTERRUPTED, and what
// `take` returns. Replies that were not taken are lost.
int fg_batch_run(const struct fg_batch_job *job, struct fg_error *err);
#endif
