// eval/niah.h: can a model find facts in a long prompt (specs: quantization 7.4)? Prompts of given
// lengths with one code at given depths, or with several spread over them; the reply is greedy, and
// the right answer's probability is taken too, which says something of weak models as well. Not a
// RULER score.
#ifndef FG_EVAL_NIAH_H
#define FG_EVAL_NIAH_H
#include "base/error.h"
#include "base/hash.h"
#include "eval/haystack.h"
#include "eval/ppl.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_NIAH_NOTE "prompts of Forge's own: this is not a RULER score"

struct fg_niah {
    struct fg_eval_side side; // capacity 0: the smallest context that holds the longest length;
                              // verify_rows is not used
    const int64_t *lengths;   // [n_lengths] tokens of prompt and reply together
    int n_lengths;
    const int *depths; // [n_depths] percent of the haystack's tokens before the fact, 0 .. 100;
                       // with `multi` NULL and 0
    int n_depths;
    int multi;  // 0: one code; 2 .. FG_NEEDLES_MAX: so many in one prompt, after odd multiples of
                // 1 / (2 multi) of the haystack, all asked for at once
    int trials; // keys, codes and sentences of seeds seed, seed + 1, ...
    uint64_t seed;
    const char *text_name; // of a text that is the haystack, for errors; NULL: sentences by seed
    const int32_t *text;   // [n_text] its tokens, cut from their start as the prompt needs
    int64_t n_text;
    int64_t reply_max; // tokens of a reply, >= 1
    bool raw;          // without chat template: the model continues a sentence
    // Called between blocks with tokens that have run, of all cases; other than 0 stops.
    int (*progress)(void *ctx, int64_t done, int64_t total);
    void *ctx;
};

struct fg_niah_fact {
    struct fg_needle needle;
    int64_t hay_at; // tokens of the haystack before it
    int64_t at;     // tokens of the prompt before it
    bool found;     // the code occurs in the reply
};

struct fg_niah_case {
    int64_t length;
    int depth; // percent; -1 of several codes
    uint64_t seed;
    struct fg_niah_fact *facts; // [n_facts], in the order of the question; the result's
    int n_facts, n_found;
    int64_t prompt_tokens, hay_tokens; // hay_tokens: of the haystack, in the prompt
    char prompt_hex[FG_SHA256_HEX];    // of the prompt's ids, as int32
    bool exact, value, format;         // as in struct fg_needle_score
    double logprob;                    // ln of the probability of the right answer's tokens
    int answer_tokens;
    char *reply; // the result's
    double prompt_seconds, reply_seconds;
};

struct fg_niah_result {
    struct fg_niah_case *cases; // [n_cases], by length, then depth, then seed
    int n_cases;                // that have run whole
    bool stopped;               // by `progress`
};

// Every case starts from an empty session. Prompts differ in nothing but settings that don't show
// in them: a case has the same prompt, reply and probability in every context that holds it.
// Errors, those of all prompts before any is run: FG_EINPUT (no tokenizer or template, a length too
// short for the question or beyond the context, a text too short for a length), FG_ERESOURCE,
// FG_EFAILED. What has run is in *result in every case.
int fg_niah_run(const struct fg_niah *job, struct fg_niah_result *result, struct fg_error *err);
void fg_niah_free(struct fg_niah_result *result); // zeroed is fine

// Prompts that the job has: lengths, depths (several codes: one), trials.
int fg_niah_cases(const struct fg_niah *job);

// Of the cases of one length and depth (-1: several codes): their number, how many are exact, have
// all values, have the form; the codes that were found, of all; and the mean logprob.
struct fg_niah_cell {
    int cases, exact, value, format, found, codes;
    double logprob;
};
struct fg_niah_cell fg_niah_cell(const struct fg_niah_result *r, int64_t length, int depth);
#endif
