// eval/niah_prompt.h: prompts of a length in tokens, with facts at token boundaries of a haystack
// (specs: quantization 7.4). The text itself is haystack.h's.
#ifndef FG_EVAL_NIAH_PROMPT_H
#define FG_EVAL_NIAH_PROMPT_H
#include "base/error.h"
#include "eval/haystack.h"
#include "forge/forge.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A text as tokens. The text is what the tokens say, which a tokenizer that normalizes may have
// changed.
struct fg_niah_hay {
    int32_t *ids; // [n]
    int64_t n;
    char *text; // [bytes]
    size_t bytes;
};
// At least n tokens of sentences of our own; or a copy of ids [n]. *hay is the caller's until
// fg_niah_hay_free. Errors: FG_EINPUT (no tokenizer), FG_ERESOURCE.
int fg_niah_hay_sentences(struct fg_niah_hay *hay, const struct forge_engine *e, uint64_t seed,
                          int64_t n, struct fg_error *err);
int fg_niah_hay_take(struct fg_niah_hay *hay, const struct forge_engine *e, const int32_t *ids,
                     int64_t n, struct fg_error *err);
void fg_niah_hay_free(struct fg_niah_hay *hay); // zeroed is fine

// What is hidden and how it is asked for.
struct fg_niah_ask {
    const struct forge_engine *engine;
    struct fg_needles facts;
    double share[FG_NEEDLES_MAX]; // of the haystack's tokens that stand before each, 0 .. 1
    bool raw;                     // without chat template: the model continues a sentence
};

struct fg_niah_prompt {
    int32_t *ids; // [n]
    int64_t n;
    int64_t hay_tokens; // of the haystack that are in it
    // Tokens before each fact's line: of the haystack, and of the whole prompt (as its text up to
    // there is tokenized).
    int64_t hay_at[FG_NEEDLES_MAX], at[FG_NEEDLES_MAX];
};
// The prompt with the most of the haystack that has at most `tokens` tokens, give or take the few
// that come and go where texts are joined. *p is the caller's until fg_niah_prompt_free. Errors:
// FG_EINPUT (not even without haystack; no template), FG_ERESOURCE, FG_EFAILED.
int fg_niah_prompt_fit(struct fg_niah_prompt *p, const struct fg_niah_ask *ask,
                       const struct fg_niah_hay *hay, int64_t tokens, struct fg_error *err);
void fg_niah_prompt_free(struct fg_niah_prompt *p); // zeroed is fine
#endif
