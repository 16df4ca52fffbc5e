// model/needs.h: every tensor that a model of this config has, by canonical name (format/qset.h),
// with its shape (specs: model 2.1, 9; runtime 1.3). Not the embedding.
#ifndef FG_MODEL_NEEDS_H
#define FG_MODEL_NEEDS_H
#include "base/arena.h"
#include "base/error.h"
#include "model/config.h"
#include "quant/export.h"
#include <stdint.h>

// The list, sorted by name, in `arena`. A tied head is a matrix of its own here. Errors:
// FG_ERESOURCE.
int fg_model_needs(struct fg_export_need **out, uint64_t *n, const struct fg_config *cfg,
                   struct fg_arena *arena, struct fg_error *err);
#endif
