// bundle/synth.h: bundles of random weights in the shape of a real model, for measuring speed and
// memory where the real one is not at hand. Formats and sizes are those of a quantization plan
// (release 0.2 for the 27B); values are random but plausible: tables of Gaussian quantiles, scales
// of about 1 / sqrt(inputs), norms of about 1, so that activations stay finite through all layers.
// The same shape and seed give the same bytes. The digests that the files declare are no digests of
// weights but the SHA-256 of shape and seed, which stand for them.
#ifndef FG_BUNDLE_SYNTH_H
#define FG_BUNDLE_SYNTH_H
#include "base/error.h"
#include "quant/plan.h"
#include <stdbool.h>
#include <stdint.h>

// Name of shape i: "qwen3.8-27b", "tiny-hybrid" (small layers of all kinds and formats); NULL past
// the last.
const char *fg_synth_shape_name(int i);

// The matrices of a shape. Free with fg_plan_list_free. Errors: FG_EINPUT (no such shape),
// FG_ERESOURCE; *out is then empty.
int fg_synth_plan(struct fg_plan_list *out, const char *shape, struct fg_error *err);

struct fg_synth_options {
    const char *shape;
    const char *dir; // the bundle; made when missing
    uint64_t seed;
    struct fg_pool *pool; // NULL: one thread
    // Called with bytes done of all and the file at work; other than 0 stops. May be NULL.
    int (*progress)(void *ctx, uint64_t done, uint64_t total, const char *item);
    void *ctx;
};

// Writes model/config.json, model/embed_tokens_fp16.npy, and forge/ with packages of four layers,
// the head and, last, the manifest. Files that a former run with the same shape and seed finished
// are kept, so a stopped run goes on where it was; a whole bundle is left as it is, and *written
// (may be NULL) is then false.
// Errors: FG_EINPUT (shape, path; something else lies there), FG_ERESOURCE (memory; disk, checked
// before anything is written), FG_EBUSY (another run works there), FG_EINTERRUPTED.
int fg_synth_write(const struct fg_synth_options *options, bool *written, struct fg_error *err);
#endif
