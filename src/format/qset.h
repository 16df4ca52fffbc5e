// format/qset.h: a view of quantized weights by canonical name, whatever file they come from:
// packages (format/package.h) or an export (quant/export.h). Digests, conversion, compilation and
// the model's binding work on it.
//
// Canonical names: "layers.I." and what follows "layers.I." in the Hugging Face name, without the
// text model's prefix. Matrices have no suffix ("layers.0.mlp.gate_proj", "lm_head"); small tensors
// keep theirs ("layers.0.input_layernorm.weight", "layers.0.linear_attn.A_log", "norm.weight").
#ifndef FG_FORMAT_QSET_H
#define FG_FORMAT_QSET_H
#include "format/qmat.h"
#include "format/safetensors.h"
#include <stdbool.h>
#include <stdint.h>

// A matrix; kept ones (bf16, f16, f32) are listed too when they are two-dimensional weights of
// products: in_proj_a and in_proj_b.
struct fg_qset_mat {
    const char *name;
    struct fg_qmat m;
    const char *file;
};

// A norm, convolution, gate parameter or bias, as the checkpoint has it.
struct fg_qset_small {
    const char *name;
    enum fg_st_dtype dtype; // F32, F16 or BF16
    int rank;
    uint64_t shape[FG_ST_RANK_MAX];
    const void *data;
    uint64_t bytes;
    const char *file;
};

// Signs of one rotation site of one layer.
struct fg_qset_rot {
    int64_t layer;
    const char *site;    // "mlp_in", "mlp_mid", "mix_in", "mix_out"
    int64_t n, block;    // width; block divides it
    const uint8_t *bits; // [ceil(n / 8)], least significant first, 1 = -1
};

// Sorted by name (strcmp); rotations by layer, then site. Everything belongs to the owner of the
// set and is in maps or its arena.
struct fg_qset {
    const struct fg_qset_mat *mats;
    const struct fg_qset_small *small;
    const struct fg_qset_rot *rots;
    uint64_t n_mats, n_small, n_rots;
};

// NULL when there is none. Binary search.
const struct fg_qset_mat *fg_qset_find_mat(const struct fg_qset *s, const char *name);
const struct fg_qset_small *fg_qset_find_small(const struct fg_qset *s, const char *name);
const struct fg_qset_rot *fg_qset_find_rot(const struct fg_qset *s, int64_t layer,
                                           const char *site);
#endif
