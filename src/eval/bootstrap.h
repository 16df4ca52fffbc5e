// eval/bootstrap.h: percentile intervals by resampling whole sequences (specs: quantization 7.2).
#ifndef FG_EVAL_BOOTSTRAP_H
#define FG_EVAL_BOOTSTRAP_H
#include "base/error.h"
#include <stdint.h>

#define FG_BOOTSTRAP_RESAMPLES 10000

struct fg_interval {
    double value;  // of the sample itself
    double lo, hi; // 2.5 % and 97.5 % of the resamples, interpolated as fg_eval_quantile does
};

// Interval of sum(num) / sum(den) over n >= 1 sequences: each resample draws n of them with
// replacement, by stream `bootstrap` of the seed (quant/random.h), and takes both sums of the same
// draw. 0 / 0 counts as 1, so that two sets without any error are equal. Of one model: num the sums
// of KL, den the positions; of a pair: the sums of b over those of a, less 1, is the change.
// Errors: FG_ERESOURCE.
int fg_bootstrap(struct fg_interval *out, const double *num, const double *den, int64_t n,
                 int64_t resamples, uint64_t seed, struct fg_error *err);
#endif
