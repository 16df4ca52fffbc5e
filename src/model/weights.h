// model/weights.h: the tensors of a text model, found by name, checked against the config and bound
// (specs: model 2, 9, 10). Matrices stay where the source has them, in their dtype; small vectors
// become FP32 copies.
#ifndef FG_MODEL_WEIGHTS_H
#define FG_MODEL_WEIGHTS_H
#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include <stdbool.h>
#include <stdint.h>

// A matrix [n_out][n_in]: dense, of the source's, or quantized.
struct fg_mat {
    const void *data; // row-major, any alignment; NULL when quantized
    enum fg_dtype dtype;
    int64_t n_out, n_in;
    const struct fg_lut *lut; // quantized
    const uint8_t *signs;     // rotation of its input (kernels/lut.h); NULL: none
    int64_t block;
    bool exact; // dense beside quantized ones: FP32 activations in fast mode too
    // An embedding in INT8: data are codes [n_out][n_in], and this one F16 per row; any alignment.
    // NULL: none. Products do not know it.
    const void *row_scale;
};

// One layer; parts that its kind does not have are NULL. Vectors are FP32, norms with 1 already
// added where the family stores them zero-centred.
struct fg_layer {
    bool is_linear;
    float *input_norm, *post_norm; // [hidden]

    // Full attention.
    struct fg_mat q, k, v, o; // q has 2 * n_heads * head_dim rows with an output gate: query and
                              // gate of a head in turn
    float *q_bias, *k_bias, *v_bias, *o_bias;
    float *q_norm, *k_norm; // [head_dim]

    // Gated DeltaNet.
    struct fg_mat qkv, z, b, a, out;
    float *conv;       // [channels][K]
    float *neg_exp_A;  // [nv]: -exp(A_log)
    float *dt_bias;    // [nv]
    float *gated_norm; // [dv], plain

    struct fg_mat gate, up, down;
    float *gate_bias, *up_bias, *down_bias;
};

struct fg_weights {
    struct fg_mat embed,
        head; // head is embed when tied, and when a quantized head is the embedding
    float *final_norm;
    struct fg_layer *layers; // [n_layers]
};

// A named tensor wherever it comes from (safetensors, GGUF).
struct fg_tensor {
    const char *name;
    const char *dtype_name; // as the source calls it
    bool usable;            // dtype below is one of ours
    enum fg_dtype dtype;
    int rank;
    uint64_t shape[8];
    const void *data;
    uint64_t bytes;
    const char *file;
};

// Where tensors come from. find: false when there is none of that name. at: i < count. mat: a
// quantized matrix by canonical name ("layers.0.mlp.up_proj", "lm_head", and "embed_tokens" for one
// that is looked up in codes or in the head's tiles), and its file; NULL: there are none.
struct fg_tensor_source {
    const void *ctx;
    uint64_t count;
    bool (*find)(const void *ctx, const char *name, struct fg_tensor *out);
    void (*at)(const void *ctx, uint64_t i, struct fg_tensor *out);
    bool (*mat)(const void *ctx, const char *name, struct fg_mat *out, const char **file);
    const char *path; // for errors
};

// What the source holds besides the text model; for `forge inspect` and warnings.
struct fg_weights_rest {
    uint64_t visual_count, visual_bytes; // model.visual.*, visual.*: no image input
    uint64_t mtp_count, mtp_bytes;       // multi-token prediction layers
    uint64_t unknown_count;
    char unknown[3][96]; // the first names
};

// Binds every tensor of section 2.1 (or 9). FP32 copies come from `arena`. With `strict`, unknown
// tensors are an error. Errors: FG_EINPUT naming tensor, expected and found; FG_ERESOURCE.
int fg_weights_bind(struct fg_weights *w, const struct fg_config *cfg,
                    const struct fg_tensor_source *src, bool strict, const struct fg_log *log,
                    struct fg_arena *arena, struct fg_weights_rest *rest, struct fg_error *err);
#endif
