// model/import_impl.h: what import*.c share.
#ifndef FG_MODEL_IMPORT_IMPL_H
#define FG_MODEL_IMPORT_IMPL_H
#include "base/arena.h"
#include "base/jwrite.h"
#include "format/gguf.h"
#include "format/names.h"
#include "model/import.h"

#define FG_IMPORT_WHAT "import"

enum fg_import_arch {
    FG_ARCH_LLAMA = 1,
    FG_ARCH_QWEN2 = 2,
    FG_ARCH_QWEN3 = 4,
    FG_ARCH_QWEN35 = 8,
};

// Metadata of the model, checked. Names as in model/config.h.
struct fg_import_params {
    enum fg_import_arch arch;
    const char *arch_name; // the prefix of its keys
    int64_t vocab, hidden, intermediate, n_layers, max_positions;
    int64_t n_heads, n_kv_heads, head_dim, rot;
    double norm_eps, rope_theta;
    bool tied, qkv_bias, o_bias, mlp_bias;

    const char *rope_type; // "default", "linear", "yarn"
    double rope_factor, rope_beta_fast, rope_beta_slow;
    int64_t rope_original; // original_max_position_embeddings; 0: not given

    // qwen35
    int64_t full_interval, conv_kernel, n_k_heads, n_v_heads, k_head_dim, v_head_dim;
    int64_t mrope[4];
    uint64_t n_mrope;
};

// How an index of HF's order finds its place in GGUF's.
enum fg_import_order {
    FG_ORDER_SAME,
    FG_ORDER_ROTARY, // halves of each head of `block` interleaved (11.5)
    FG_ORDER_VALUE,  // heads of `block` from index `from` on stored tiled (11.6)
};

struct fg_import_perm {
    enum fg_import_order order;
    bool columns; // of each row, not of the rows
    uint64_t block, from;
    uint64_t n_k, ratio; // FG_ORDER_VALUE: key heads, value heads per key head
};

enum fg_import_change { FG_CHANGE_NONE, FG_CHANGE_MINUS_ONE, FG_CHANGE_LOG_NEGATIVE };

// Behind each public tensor.
struct fg_import_source {
    const struct fg_gguf_tensor *tensor;
    struct fg_import_perm perm;
    enum fg_import_change change;
};

struct fg_import {
    struct fg_gguf *gguf;
    const char *path;
    struct fg_arena arena; // names, warnings
    struct fg_import_params params;
    struct fg_import_tensor *tensors;
    struct fg_import_source *sources; // parallel to tensors
    struct fg_name *names;            // sorted
    uint64_t n, cap;
    const struct fg_gguf_tensor *rope_freqs; // [rot / 2] divisors, FP32; NULL: none
    const char *warnings[4];
    uint64_t n_warnings;
};

// import.c: reads the metadata into imp->params.
int fg_import_read_params(struct fg_import *imp, struct fg_error *err);
// import_tensors.c: makes the list of tensors.
int fg_import_bind(struct fg_import *imp, struct fg_error *err);
// import_config.c: ends the outermost object, adds a newline and hands the text to out; with rc !=
// 0 out is emptied. Returns rc, or FG_ERESOURCE when the text is not whole. Frees w.
int fg_import_hand_over(struct fg_jwrite *w, int rc, struct fg_buf *out, struct fg_error *err);
// Layer i has full attention.
static inline bool fg_import_is_full(const struct fg_import_params *p, int64_t i)
{
    return p->arch != FG_ARCH_QWEN35 || (i + 1) % p->full_interval == 0;
}
#endif
