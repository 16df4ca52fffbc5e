// bundle/synth_impl.h: between the files of synth.
#ifndef FG_BUNDLE_SYNTH_IMPL_H
#define FG_BUNDLE_SYNTH_IMPL_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/thread.h"
#include "bundle/synth.h"
#include "format/qset.h"
#include "model/config.h"

// ---- synth_shape.c

// A shape with everything that follows from it.
struct fg_synth_model {
    const char *name;
    struct fg_buf config; // text of config.json
    struct fg_config cfg;
    struct fg_plan_list plan;
    const int64_t *ctxs; // entries of the manifest, 0 past the last
    struct fg_arena arena;
};
// Errors as fg_synth_plan.
int fg_synth_model_new(struct fg_synth_model *m, const char *shape, struct fg_error *err);
void fg_synth_model_free(struct fg_synth_model *m); // zeroed is fine

// ---- synth_values.c

// Makes arrays of random values; each depends on the seed and its name alone.
struct fg_synth_source {
    uint64_t seed;
    struct fg_pool *pool;                     // NULL: the caller alone
    struct fg_buf indices, scale, lr_a, lr_b; // of the matrix made last
    uint16_t table[64 * 2];
};
void fg_synth_source_free(struct fg_synth_source *s);

// Fills the arrays of m, which comes with format, rows, cols and rank; they last until the next
// call. Errors: FG_ERESOURCE.
int fg_synth_matrix(struct fg_synth_source *s, const char *name, struct fg_qmat *m,
                    struct fg_error *err);
// out [n] BF16: a norm, convolution or gate parameter, by the end of its name. zero_centred: norms
// are stored as w of (1 + w).
void fg_synth_small(const struct fg_synth_source *s, const char *name, bool zero_centred,
                    uint16_t *out, uint64_t n);
// out [n] F16: elements [first, first + n) of the embedding, first a multiple of 4.
void fg_synth_embedding(const struct fg_synth_source *s, uint64_t first, uint16_t *out, uint64_t n);
#endif
