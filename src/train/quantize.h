// train/quantize.h: `forge quantize`: a checkpoint or GGUF becomes a quantized export (specs:
// quantization 1.3, 4), one matrix after the other, by rounding to nearest or by GPTQ over
// calibration rows. Formats and fits are quant/'s, the choice of formats is the plan's.
//
// OUTPUT DIRECTORY. NN is the layer with at least two digits.
//   layer_NN.safetensors        tensors gate.*, up.*, down.*, rot.mlp_in, rot.mlp_mid
//   layer_NN_mixer.safetensors  linear_attn.in_proj_qkv.* ..., self_attn.q_proj.* ..., rot.mix_in,
//                               rot.mix_out
//   lm_head.safetensors         lm_head.*
//   small.safetensors           norms, biases, convolutions, gates, in_proj_a and in_proj_b under
//                               their HF names, unchanged
//   embed_tokens.safetensors    embed_tokens.weight F16 [vocab][hidden], or in INT8 as
//                               format/embedding.h says, or not there: lm_head.safetensors then has
//                               the metadata embed = head
//   config.json and tokenizer files as the source has them (a GGUF's as model/import.h makes them)
//   export.json                 plan, options, identity of the source, log per matrix, digests; the
//                               last file to appear. Of a job for some matrices only (--layers,
//                               --only) small, embedding and digests are left out
//   state/progress.json         finished files and what export.json needs of them
//   state/h-NN.safetensors      GPTQ: the calibration rows' residual at the entry of layer NN,
//   which
//                               progress.json names; older ones are deleted behind it
//   state/MATRIX.safetensors    GPTQ: finished matrices of that layer, until its files are there
//   state/timing.json           seconds per matrix: the only bytes that differ between two runs
// Metadata (strings): forge, signs on all; layer on all but the head; MLP: basis, block, seed_in,
// seed_mid, {gate,up,down} .format; mixer: kind, format, kv_format, basis, block, seed_in,
// seed_out; head: format. `block` is there when all rotated sites of the file agree, else block_in,
// block_mid, block_out. `basis` is "online" when a site of the file is rotated. What one matrix has
// different from its file is said by NAME.format and NAME.basis, which every matrix carries.
#ifndef FG_TRAIN_QUANTIZE_H
#define FG_TRAIN_QUANTIZE_H
#include "base/error.h"
#include "base/log.h"
#include "quant/hessian.h"
#include "quant/lowrank.h"
#include "quant/plan.h"
#include "train/calib.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_kernels;
struct fg_pool;
struct fg_quantize; // opaque

enum fg_quantize_method { FG_QUANTIZE_RTN, FG_QUANTIZE_GPTQ };

struct fg_quantize_options {
    enum fg_quantize_method method;
    const char *model;          // checkpoint directory or GGUF file
    const char *output;         // new, empty, or of the same job; NULL: nothing will be run
    const struct fg_plan *plan; // after the changes that the user asked for
    bool row_weight;            // 3.2
    int lr_iters;               // LoftQ iterations, at least 1 (4.3)
    bool lr_balanced;           // roots of the singular values in both factors
    // The rest of the method, of GPTQ alone but for FG_LOWRANK_PLAIN.
    enum fg_lowrank_fit lr_fit;
    const struct fg_calib_source *calib; // [n_calib]
    int n_calib;
    int64_t calib_rows, seq, holdout; // at most so many rows (0: all), their length, held-out ones
    int64_t batch;                    // rows per forward call; 0: about 1,024 tokens
    double damp;                      // share of the mean of diag(H)
    enum fg_gptq_order order;
    bool aw;         // columns weigh diag(H) when tables are fitted (3.2)
    int refine;      // sweeps over the indices after the pass
    bool bf16_state; // the residual is kept in BF16
    // Every matrix reads what it does in the source, not what quantized ones leave: for measuring
    // each on its own (5.2).
    bool source_stream;
    uint64_t kmeans_seed;
    int64_t layer_first, layer_last;  // only these layers, and no head; -1, -1: all and the head
    const char *only;                 // only matrices whose short ("3.gate") or canonical name this
                                      // glob matches; NULL: all
    bool unpacked;                    // one byte per index
    bool restart;                     // drop what an earlier run left
    uint64_t memory_limit;            // bytes; 0: what the machine has
    const struct fg_kernels *kernels; // results do not depend on them
    struct fg_pool *pool;
    const struct fg_log *log; // may be NULL
    // Called before each matrix and each piece of work inside, with bytes of source weights done;
    // returning false stops the job. NULL is fine.
    bool (*progress)(void *ctx, uint64_t done, uint64_t total, const char *item);
    void *ctx;
};

// What a job is going to do.
struct fg_quantize_info {
    const struct fg_plan_list *list; // all matrices of the model, chosen or not
    uint64_t n_mats;                 // chosen
    uint64_t source_weights;         // elements of the chosen
    uint64_t source_bytes;           // what progress counts to
    uint64_t weight_bytes, factor_bytes, embed_bytes, small_bytes; // to be written by the whole job
    uint64_t disk_bytes;                         // that this run still writes, headers included
    uint64_t peak_bytes;                         // of memory, estimated from the sizes
    uint64_t n_files, n_done;                    // finished ones by an earlier run
    int64_t calib_rows, calib_tokens, held_rows; // of GPTQ
    int64_t widest; // columns of the widest matrix: fewer tokens leave H without full rank
    bool whole;     // every matrix is chosen: the export can be converted
    bool finished;  // export.json is there too
    char model_digest[65];
    double seconds; // of fg_quantize_run
};

// Opens the source, resolves the plan and looks at the output directory; writes nothing. Options
// are copied, what they point to must outlive the job. Errors: FG_EINPUT, FG_ERESOURCE,
// FG_EINTEGRITY when the directory holds a job of other options (naming the first and both values).
int fg_quantize_open(struct fg_quantize **out, const struct fg_quantize_options *o,
                     struct fg_error *err);
void fg_quantize_free(struct fg_quantize *q); // NULL is fine
const struct fg_quantize_info *fg_quantize_info(const struct fg_quantize *q);

// Memory and disk are enough for the job: 0 or FG_ERESOURCE.
int fg_quantize_check(const struct fg_quantize *q, struct fg_error *err);

// Does the work, or what an earlier run left of it. Every file appears whole. The bytes depend on
// the source and the options alone, not on threads or interruptions. Errors: those of the parts;
// FG_EBUSY when another run holds <output>/.forge/lock, FG_EINTERRUPTED when stopped: what is
// finished stays for the next run.
int fg_quantize_run(struct fg_quantize *q, struct fg_error *err);

// What is known of a finished matrix; i indexes the plan's list. False: not chosen or not done.
// NaN: not measured.
struct fg_quantize_mat {
    double weight_snr_db; // of Q + A B against W, in the basis of the stored Q; infinite: exact
    double lr_left;       // error with factors / error without, squared norms (GPTQ: of the
                          // outputs); 1 without factors
    double err_h;         // tr(E H E^T), H undamped, E = W - Q - A B
    double rel_err_h;     // that / tr(W H W^T)
    double rel_err_h_rtn; // of rounding to nearest with the same table, without factors
    double held_snr_db;   // of outputs on held-out rows
    double damp;
    double seconds; // of this run; 0 when an earlier run did it
    char source_sha256[65];
};
bool fg_quantize_result(const struct fg_quantize *q, uint64_t i, struct fg_quantize_mat *out);

// The report of a job: the content of export.json plus times. Errors: FG_ERESOURCE and those of
// writing.
int fg_quantize_report(const struct fg_quantize *q, const char *path, struct fg_error *err);
#endif
