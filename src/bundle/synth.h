// bundle/synth.h: bundles of random weights in the shape of a real model, for measuring speed and
// memory where the real one is not at hand. Formats and sizes are those of the release-0.2
// allocation (specs: quantization 1.4); values are random but plausible, so that activations stay
// finite through all layers. The same shape and seed give the same bytes.
#ifndef FG_BUNDLE_SYNTH_H
#define FG_BUNDLE_SYNTH_H
#include "base/error.h"
#include "format/qmat.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_synth_shape {
    const char *name;
    int64_t vocab, hidden, intermediate, n_layers, max_positions;
    int64_t full_every; // layer i is full attention when (i + 1) % full_every == 0
    int64_t n_heads, n_kv_heads, head_dim, rotary_dims;
    int64_t n_k_heads, n_v_heads, k_head_dim, v_head_dim, conv_kernel;
    double rope_theta;
    int64_t two_bit_layers;   // mixers of layers below it are v2x16, the others lut4
    int64_t rank;             // of the factors of every mixer matrix
    int64_t layers_per_chunk; // layers in one package
    int64_t ctx_max;          // largest entry of the manifest
};

// "qwen3.8-27b", "tiny-hybrid" (12 small layers of all kinds); NULL for other names.
const struct fg_synth_shape *fg_synth_shape_find(const char *name);
// The names, NULL at the end.
const char *const *fg_synth_shape_names(void);

// One matrix of the declaration.
struct fg_synth_matrix {
    char name[64]; // canonical: "layers.0.mlp.gate_proj", "lm_head"
    enum fg_qformat format;
    int64_t rows, cols;
    int64_t rank;
    const char *site; // rotation of its input; NULL: none
    int64_t block;    // of that rotation
};
#define FG_SYNTH_LAYER_MATRICES_MAX 12
// Matrices of layer `layer`, or of the head when layer == n_layers, in writing order; returns how
// many.
int fg_synth_matrices(const struct fg_synth_shape *shape, int64_t layer,
                      struct fg_synth_matrix out[FG_SYNTH_LAYER_MATRICES_MAX]);

// Sums of the declaration, in bytes.
struct fg_synth_bytes {
    uint64_t mlp, mixers, head, kept; // kept: in_proj_a and in_proj_b
    uint64_t quantized;               // the four together
    uint64_t factors;
    uint64_t embedding;
    uint64_t files; // about what the bundle takes on disk
};
void fg_synth_bytes(const struct fg_synth_shape *shape, struct fg_synth_bytes *out);

struct fg_synth_options {
    const struct fg_synth_shape *shape;
    const char *dir; // the bundle; made when missing
    uint64_t seed;
    int n_threads; // >= 1
    // Called with bytes done of all; other than 0 stops. May be NULL.
    int (*progress)(void *ctx, uint64_t done, uint64_t total, const char *item);
    void *ctx;
};

// Writes the bundle: model/config.json, model/embed_tokens_fp16.npy, forge/ packages and manifest.
// Files that a former run with the same shape and seed finished are kept, so a stopped run goes on
// where it was; the manifest comes last. *written tells whether anything was.
// Errors: FG_EINPUT (path; another shape or seed lies there), FG_ERESOURCE (disk space is checked
// before anything is written), FG_EBUSY (another run works there), FG_EINTERRUPTED.
int fg_synth_write(const struct fg_synth_options *options, bool *written, struct fg_error *err);
#endif
