// model/embed.h: rows of the embedding in FP32, however they are stored: dense; INT8 codes with one
// scale per row; or the tiles of a head that serves as the embedding too (quant/plan.h, "embed").
// Values are those of canonical dequantization: one FP32 product of scale and table value or code.
#ifndef FG_MODEL_EMBED_H
#define FG_MODEL_EMBED_H
#include "kernels/parallel.h"
#include "model/weights.h"
#include <stdint.h>

// x [T][n_in] = rows ids [T] of the embedding. Rows that have to be decoded are shared among the
// threads of `par`.
void fg_embed_rows(float *x, const struct fg_mat *embed, const int32_t *ids, int64_t T,
                   const struct fg_parallel *par);
#endif
