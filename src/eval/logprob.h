// eval/logprob.h: one row of logits as log-probabilities in FP64, and its best entries (specs:
// quantization 6.4, 7.1).
#ifndef FG_EVAL_LOGPROB_H
#define FG_EVAL_LOGPROB_H
#include <stdbool.h>
#include <stdint.h>

// ln sum exp of x [vocab], shifted by the maximum: four sums over i mod 4, then (0 + 1) + (2 + 3);
// *best: the lowest id of the largest. False when a logit is NaN or +infinity, or all are
// -infinity. The log-probability of id v is (double)x[v] - *lse.
bool fg_lp_row(const float *x, int64_t vocab, double *lse, int64_t *best);
// The k largest of a row without NaN, descending, lower id first among equals. ids [k],
// 1 <= k <= vocab.
void fg_lp_top(const float *x, int64_t vocab, int64_t k, int32_t *ids);
#endif
