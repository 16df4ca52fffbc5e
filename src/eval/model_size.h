// eval/model_size.h: what a model's tensors take, so that quality is told against bytes (specs:
// quantization 7.5).
#ifndef FG_EVAL_MODEL_SIZE_H
#define FG_EVAL_MODEL_SIZE_H
#include "base/error.h"
#include "base/hash.h"
#include "base/thread.h"
#include <stdint.h>

struct fg_model_size {
    // Of exports and bundles: matrices with packed indices, tables and scales; low-rank factors;
    // embedding, 0 where it is the head; norms and the like. Of checkpoints and GGUF files the
    // embedding's tensor, and all others as weights.
    uint64_t weights, factors, embed, small;
    uint64_t total;
    char plan[FG_SHA256_HEX]; // of an export: name of its plan, else the plan's digest; "": unknown
};

// Errors: FG_EINPUT, FG_ERESOURCE.
int fg_model_size(struct fg_model_size *out, const char *path, struct fg_pool *pool,
                  struct fg_error *err);
#endif
