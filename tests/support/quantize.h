// support/quantize.h: the options of a quantization job as most tests want them.
#ifndef FG_TESTS_SUPPORT_QUANTIZE_H
#define FG_TESTS_SUPPORT_QUANTIZE_H
#include "train/quantize.h"

// Round to nearest, everything; what the command line defaults to otherwise, but for calibration.
static inline struct fg_quantize_options quantize_options(const char *model, const char *out,
                                                          const struct fg_plan *plan, int64_t seq,
                                                          const struct fg_kernels *kernels,
                                                          struct fg_pool *pool)
{
    return (struct fg_quantize_options){.method = FG_QUANTIZE_RTN,
                                        .model = model,
                                        .output = out,
                                        .plan = plan,
                                        .row_weight = true,
                                        .aw = true,
                                        .lr_iters = 2,
                                        .kmeans_seed = 1,
                                        .layer_first = -1,
                                        .layer_last = -1,
                                        .seq = seq,
                                        .damp = 0.01,
                                        .kernels = kernels,
                                        .pool = pool};
}
#endif
