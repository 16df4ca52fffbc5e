// quant/plan.h: which format, rotation and factors each matrix gets (specs: quantization 1.4, 2.1,
// 4.3, 5.1): plan files, the built-in plans, and their resolution to a list of matrices for one
// model. Measuring and solving plans is the planner's.
#ifndef FG_QUANT_PLAN_H
#define FG_QUANT_PLAN_H
#include "base/error.h"
#include "base/jwrite.h"
#include "format/qmat.h"
#include <stdbool.h>
#include <stdint.h>

// Matrices by short name, in the order of resolution within a layer.
enum fg_plan_part {
    FG_PLAN_GATE,
    FG_PLAN_UP,
    FG_PLAN_DOWN,
    FG_PLAN_QKV,
    FG_PLAN_Z,
    FG_PLAN_OUT,
    FG_PLAN_Q,
    FG_PLAN_K,
    FG_PLAN_V,
    FG_PLAN_O,
    FG_PLAN_HEAD,
    FG_PLAN_N_PARTS
};

const char *fg_plan_part_name(enum fg_plan_part p); // "gate" ... "head"
// What follows "layers.I." in the canonical name: "mlp.gate_proj", "linear_attn.in_proj_qkv";
// "lm_head" for the head, which is in no layer.
const char *fg_plan_part_key(enum fg_plan_part p);
static inline bool fg_plan_part_is_mlp(enum fg_plan_part p)
{
    return p <= FG_PLAN_DOWN;
}

// What a plan has to know of a model; model/plan_shape.h fills it from a config. Matrices are
// [rows][cols] = [out][in]. Parts that the model does not have are 0.
struct fg_plan_shape {
    const char *architecture; // "qwen3_5", "qwen3", "qwen2", "llama"
    int64_t n_layers, hidden, intermediate, vocab;
    const bool *is_linear;   // [n_layers]: Gated DeltaNet, else full attention
    int64_t q_rows, kv_rows; // q, k and v of a full-attention layer, from hidden
    int64_t o_cols;          // o: [hidden][o_cols]
    int64_t qkv_rows;        // in_proj_qkv of a DeltaNet layer, from hidden
    int64_t z_rows;          // in_proj_z from hidden; out_proj is [hidden][z_rows]
    int64_t ab_rows;         // in_proj_a and in_proj_b, each from hidden: kept, never in a plan
    bool tied;               // the head is the embedding
};

// What becomes of the embedding. int8: codes with one F16 scale per row, by 3.1's rule. head: none
// is stored, its rows are those of the dequantized head; of tied models alone.
enum fg_plan_embed { FG_PLAN_EMBED_F16, FG_PLAN_EMBED_INT8, FG_PLAN_EMBED_HEAD };

// One matrix of a model under a plan.
struct fg_plan_mat {
    int64_t layer; // -1: the head
    enum fg_plan_part part;
    char name[64];      // canonical (format/qset.h): "layers.3.mlp.gate_proj", "lm_head"
    int64_t rows, cols; // out, in
    enum fg_qformat format;
    const char *site;          // rotation of its input, "mlp_in" ...; NULL: plain
    int64_t block;             // of that rotation, 0 when plain
    uint64_t seed;             // of its signs, 0 when plain
    int64_t rank;              // of the factors, 0: none
    enum fg_lr_dtype lr_dtype; // of the factors
    uint64_t bytes;            // storage (1.2) without factors
    uint64_t factor_bytes;
};

// A resolved plan. Free with fg_plan_list_free.
struct fg_plan_list {
    struct fg_plan_mat *mats; // layers in order, parts in the order of the enum; the head last
    uint64_t n;
    uint64_t weight_bytes; // all matrices, in_proj_a/b at 2 bytes per weight included
    uint64_t factor_bytes; // all factors
    uint64_t ab_bytes;     // in_proj_a and in_proj_b
    enum fg_plan_embed embed;
    uint64_t embed_bytes;    // of the embedding, in none of the above; 0 when it is the head
    uint64_t weights;        // elements of the matrices in the list: a/b in bytes, not in weights
    int64_t narrow_width[4]; // input widths that a plan wants rotated, but whose largest
                             // power-of-two divisor is below 8: plain
    int n_narrow;
};

struct fg_plan; // opaque

// Opens a built-in plan by name (release-0.1, release-0.2, u48, all-v2x16, all-v2x64, all-lut4,
// all-lut6) or a plan file, in the form "forge.plan/1" or the original's flat one. A name of the
// former wins over a file of that name; "./NAME" is the file. Errors: FG_EINPUT naming the key that
// is unknown or whose value is not understood; FG_ERESOURCE. *out is then NULL.
int fg_plan_open(struct fg_plan **out, const char *path_or_name, struct fg_error *err);
// The same from text; `file` is its name for errors.
int fg_plan_parse(struct fg_plan **out, const char *text, size_t n, const char *file,
                  struct fg_error *err);
void fg_plan_free(struct fg_plan *p); // NULL is fine

// Names of the built-in plans; NULL past the last.
const char *fg_plan_builtin(int i);

// Name or path that the plan was opened by.
const char *fg_plan_name(const struct fg_plan *p);
// The plan as a "forge.plan/1" object, without its notes: same plans give the same text. `key` as
// in base/jwrite.h.
void fg_plan_write(const struct fg_plan *p, struct fg_jwrite *w, const char *key);

// What a plan file says about where it comes from and how good it is ("estimate", "provenance"); it
// decides nothing. Numbers that it does not say are NaN, texts "".
#define FG_PLAN_INPUTS_MAX 16
struct fg_plan_notes {
    double kl;          // predicted, in nats per token
    double rho;         // that the costs were multiplied by (5.3)
    char unit[16];      // what kl is: "kl", "delta_nll"; "relative": a figure without unit
    double verified_kl; // of the quantized model, measured
    double verified_ci95[2];
    double verified_rho; // for the next plan: rho times verified over predicted KL
    int64_t verified_tokens;
    char verified_trace[65]; // SHA-256 of what it was measured on
    char verified_date[32];
    int n_inputs;
    char inputs[FG_PLAN_INPUTS_MAX][128]; // files that it was made of, with their SHA-256
    char command[1024], date[32];
};
const struct fg_plan_notes *fg_plan_notes(const struct fg_plan *p);
void fg_plan_set_notes(struct fg_plan *p, const struct fg_plan_notes *notes);
struct fg_plan_notes fg_plan_no_notes(void);

// The object with its notes.
void fg_plan_write_whole(const struct fg_plan *p, struct fg_jwrite *w, const char *key);
// That to a file, whole or not at all. Errors: those of writing; FG_ERESOURCE.
int fg_plan_save(const struct fg_plan *p, const char *path, struct fg_error *err);

enum fg_plan_basis { FG_BASIS_PLAIN, FG_BASIS_ONLINE };
enum fg_plan_mix_rot { FG_MIX_NONE, FG_MIX_READERS, FG_MIX_BOTH }; // readers: q k v qkv z

#define FG_PLAN_RANK_AUTO (-1) // rule of 4.3
#define FG_PLAN_RANK_MAX 1024
enum { FG_LR_GDN = 1, FG_LR_ATTN = 2, FG_LR_MLP = 4 }; // set of parts that get factors

// False for a text that means none of these. "none", "readers", "readers+writers"; "64", "auto";
// "gdn,attn" ("" or "none": no part).
bool fg_plan_basis_of_name(const char *s, enum fg_plan_basis *out);
bool fg_plan_mix_rot_of_name(const char *s, enum fg_plan_mix_rot *out);
bool fg_plan_rank_of_name(const char *s, int64_t *out);
bool fg_plan_lr_parts_of_name(const char *s, unsigned *out);
bool fg_plan_embed_of_name(const char *s, enum fg_plan_embed *out); // "f16", "int8", "head"
const char *fg_plan_embed_name(enum fg_plan_embed e);

// Replaces what the plan says, overrides of single layers included.
void fg_plan_set_basis(struct fg_plan *p, enum fg_plan_basis basis);
void fg_plan_set_mix_rot(struct fg_plan *p, enum fg_plan_mix_rot mix_rot);
void fg_plan_set_lr_rank(struct fg_plan *p, int64_t rank); // or FG_PLAN_RANK_AUTO
void fg_plan_set_lr_parts(struct fg_plan *p, unsigned parts);
void fg_plan_set_lr_dtype(struct fg_plan *p, enum fg_lr_dtype dtype);
void fg_plan_set_embed(struct fg_plan *p, enum fg_plan_embed embed);

// The matrices of a model under the plan. Resolution of matrix i.x: the override i.x, then i.mlp or
// i.mixer (k and v: i.kv, never i.mixer), then the default. Rotation: block = largest power of two
// <= 1024 that divides the input's width; below 8 the matrix is plain. Seeds: 1000, 2000, 3000,
// 4000 + layer for mlp_in, mlp_mid, mix_in, mix_out. Kept matrices (bf16, f16) are plain and have
// no factors; the head is plain and has none. A rank is cut to min(rows, cols); the rule for `auto`
// does not depend on how factors are stored. "release-0.2" on a
// model other than the 64-layer 27B is the generic plan: MLP v2x64, mixers lut4, k and v int8, head
// lut4, rank auto.
// Errors: FG_EINPUT: a layer or matrix that the model does not have, a v2x format for an odd number
// of rows, a plan whose "model" or "bytes" describe another one, "embed" that is the head of a
// model that does not tie them; FG_ERESOURCE. *out is then empty.
int fg_plan_resolve(struct fg_plan_list *out, const struct fg_plan *p,
                    const struct fg_plan_shape *shape, struct fg_error *err);
// The plan as it stands for this model, with the model's extents and the totals of bytes: a plan
// file made of it means the same again. The caller frees *out. Errors: as fg_plan_resolve.
int fg_plan_specialize(struct fg_plan **out, const struct fg_plan *p,
                       const struct fg_plan_shape *shape, struct fg_error *err);
// Another plan for this model: rotations, ranks, storage and parts with factors of `base`, but
// these formats [n], in the order of the list that `base` resolves to. What most matrices of a kind
// have becomes the default, the rest overrides, whole MLPs and mixers where they agree. It resolves
// to exactly these formats. No notes. The caller frees *out. Errors: as fg_plan_resolve of either.
int fg_plan_reformat(struct fg_plan **out, const struct fg_plan *base,
                     const struct fg_plan_shape *shape, const enum fg_qformat *formats, uint64_t n,
                     const char *name, struct fg_error *err);
void fg_plan_list_free(struct fg_plan_list *l); // zeroed is fine

// The rotation site that a matrix reads: "mlp_in"; NULL for the head.
const char *fg_plan_site(enum fg_plan_part part);
#endif
