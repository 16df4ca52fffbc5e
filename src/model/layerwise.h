// model/layerwise.h: one layer of a model at a time over many sequences, for calibration (specs:
// quantization 4.2): the same graph as model/graph.h in exact numerics, keys and values in FP32,
// cut where quantization looks at the inputs of matrices. Rows are [sequences][seq], each sequence
// from an empty state; a row's values depend neither on the company nor on threads or kernels.
#ifndef FG_MODEL_LAYERWISE_H
#define FG_MODEL_LAYERWISE_H
#include "base/error.h"
#include "base/thread.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include <stdint.h>

struct fg_layerwise; // opaque

struct fg_layerwise_options {
    const struct fg_kernels *kernels;
    struct fg_pool *pool;
    int64_t seq;   // rows of a sequence
    int64_t batch; // sequences of a call, at most FG_CALL_SPANS_MAX
};
// `m` must outlive it and may change its layers' matrices between calls. Errors: FG_ERESOURCE.
int fg_layerwise_new(struct fg_layerwise **out, const struct fg_model *m,
                     const struct fg_layerwise_options *o, struct fg_error *err);
void fg_layerwise_free(struct fg_layerwise *lw); // NULL is fine
// Bytes of its buffers for such a config.
uint64_t fg_layerwise_bytes(const struct fg_config *c, int64_t seq, int64_t batch);

// Below: n sequences, 1 <= n <= batch, x [n * seq][hidden] the residual. What is returned is
// [n * seq][width] in the object's buffers, until the next call; it may be changed.

// x = rows of the embedding.
void fg_layerwise_embed(struct fg_layerwise *lw, const int32_t *ids, int64_t n, float *x);
// Norms of x: what mixer, MLP and head read; width hidden.
float *fg_layerwise_mixer_input(struct fg_layerwise *lw, int layer, const float *x, int64_t n);
float *fg_layerwise_mlp_input(struct fg_layerwise *lw, int layer, const float *x, int64_t n);
float *fg_layerwise_head_input(struct fg_layerwise *lw, const float *x, int64_t n);
// What the output projection of the mixer reads (its width: o's or out's), and the down projection
// (width intermediate; x is the residual behind the mixer).
float *fg_layerwise_mixer_inner(struct fg_layerwise *lw, int layer, const float *x, int64_t n);
float *fg_layerwise_mlp_inner(struct fg_layerwise *lw, int layer, const float *x, int64_t n);
// What mixer and MLP add to x; width hidden.
float *fg_layerwise_mixer(struct fg_layerwise *lw, int layer, const float *x, int64_t n);
float *fg_layerwise_mlp(struct fg_layerwise *lw, int layer, const float *x, int64_t n);
#endif
