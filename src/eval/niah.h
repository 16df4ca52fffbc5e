// eval/niah.h: can a model find a fact in a long prompt (specs: quantization 7.4)? Prompts of given
// lengths with a needle at given depths; the reply is greedy, and the right answer's probability is
// taken too, which says something of weak models as well. Not a RULER score.
#ifndef FG_EVAL_NIAH_H
#define FG_EVAL_NIAH_H
#include "base/error.h"
#include "eval/haystack.h"
#include "eval/ppl.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_NIAH_REPLY 512 // bytes that are kept of a reply

struct fg_niah {
    struct fg_eval_side side; // capacity 0: the smallest context that holds the longest length;
                              // verify_rows is not used
    const int64_t *lengths;   // [n_lengths] tokens of prompt and reply together
    int n_lengths;
    const int *depths; // [n_depths] percent of the sentences that stand before the needle, 0 .. 100
    int n_depths;
    int trials; // texts, of seeds seed, seed + 1, ...
    uint64_t seed;
    int64_t reply_max; // tokens of a reply, >= 1
    bool raw;          // without chat template: the model continues a sentence
    // Called between blocks with tokens that have run, of all cases; other than 0 stops.
    int (*progress)(void *ctx, int64_t done, int64_t total);
    void *ctx;
};

struct fg_niah_case {
    int64_t length;
    int depth;
    uint64_t seed;
    struct fg_needle needle;
    int64_t prompt_tokens, needle_at; // needle_at: tokens before the needle
    bool exact;                       // the reply, without blanks around it, is the code
    bool value;                       // the code occurs in it
    bool format;                      // it is seven digits and nothing else
    double logprob;                   // ln of the probability of the right answer's tokens
    int answer_tokens;
    char reply[FG_NIAH_REPLY];
    double prompt_seconds, reply_seconds;
};

struct fg_niah_result {
    struct fg_niah_case *cases; // [n_cases], by length, then depth, then seed
    int n_cases;                // that have run whole
    bool stopped;               // by `progress`
};

// Prompts differ in nothing but settings that don't show in them: a case has the same prompt, reply
// and probability in every context that holds it. Errors: FG_EINPUT (no tokenizer or template, a
// length too short for the question or beyond the context), FG_ERESOURCE, FG_EFAILED. What has run
// is in *result in every case.
int fg_niah_run(const struct fg_niah *job, struct fg_niah_result *result, struct fg_error *err);
void fg_niah_free(struct fg_niah_result *result); // zeroed is fine

// Of the cases of one length and depth: their number, how many are exact, how many have the value,
// and the mean logprob.
struct fg_niah_cell {
    int cases, exact, value;
    double logprob;
};
struct fg_niah_cell fg_niah_cell(const struct fg_niah_result *r, int64_t length, int depth);
#endif
