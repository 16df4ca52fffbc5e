// spec/sampler.h: from one row of logits to a token (specs: server 7.1, speculative 5.1, 5.2):
// penalties, temperature, top-k, top-p, min-p, and a draw by Gumbel-max with counter-based noise,
// so that the token at a position depends on the row, the history, the options and the seed alone.
#ifndef FG_SPEC_SAMPLER_H
#define FG_SPEC_SAMPLER_H
#include "base/error.h"
#include "forge/forge.h"
#include <stdint.h>

struct fg_sampler; // opaque: options, counts of the tokens so far, work memory for one row

// Errors: FG_EINPUT (a value out of range, named), FG_ERESOURCE.
int fg_sampler_new(struct fg_sampler **out, const struct forge_sampling *options, int64_t vocab,
                   struct fg_error *err);
void fg_sampler_free(struct fg_sampler *s); // NULL is fine

// Adds tokens to the history that penalties look at: the prompt (repetition only) or the output.
void fg_sampler_prompt(struct fg_sampler *s, const int32_t *ids, int64_t n);
void fg_sampler_accept(struct fg_sampler *s, int32_t id);

// The token for absolute position `pos` from row logits [vocab], which is not changed. NaN counts
// as -infinity.
int32_t fg_sampler_draw(struct fg_sampler *s, const float *logits, int64_t pos);

// The distribution that draw uses: ids [n] and probabilities [n], descending, lower id first among
// equals; arrays of the sampler's, valid until its next call. Greedy: one entry. Returns n.
int64_t fg_sampler_distribution(struct fg_sampler *s, const float *logits, const int32_t **ids,
                                const double **prob);
#endif
