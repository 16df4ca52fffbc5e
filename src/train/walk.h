// train/walk.h: the calibration rows on their way through the layers of a model, matrix by matrix
// (specs: quantization 4.2, 4.4): what each matrix reads when all before it are quantized, as H and
// as rows that are held out. Only the residual of all rows is kept; everything else is computed
// again where it is needed.
//
// A layer is passed in the order mix_in (qkv, z, or q, k, v), mix_out (out, o), mlp_in (gate, up),
// mlp_mid (down); the head comes last. Sums do not depend on threads or batches.
#ifndef FG_TRAIN_WALK_H
#define FG_TRAIN_WALK_H
#include "base/error.h"
#include "base/thread.h"
#include "format/qmat.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "quant/hessian.h"
#include "quant/plan.h"
#include "train/calib.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_walk; // opaque

struct fg_walk_options {
    const struct fg_model *model; // dense; its tensors' pages are given back behind the walk
    const struct fg_calib *calib;
    const struct fg_kernels *kernels;
    struct fg_pool *pool;
    bool bf16_state;             // the residual is kept in BF16
    int64_t batch;               // rows of calibration per forward call; 0: about 1,024 tokens
    const struct fg_qmat *embed; // the stream starts from its rows; NULL: from the model's. Read by
                                 // fg_walk_new alone
    double head_ridge;           // so much of mean(diag H) is added to the diagonal of the head's H
    // Asked between pieces of work, with what they are; other than 0 ends the call with it.
    int (*tick)(void *ctx, const char *item, struct fg_error *err);
    void *ctx;
};

// Starts at the entry of layer 0. Errors: FG_ERESOURCE and those of tick.
int fg_walk_new(struct fg_walk **out, const struct fg_walk_options *o, struct fg_error *err);
void fg_walk_free(struct fg_walk *w); // NULL is fine
// Bytes of memory at the peak: residual, buffers, a site of `width` columns.
uint64_t fg_walk_bytes(const struct fg_config *c, int64_t rows, int64_t seq, int64_t held,
                       bool bf16_state, int64_t batch, int64_t width);

// What a matrix reads, in the basis in which it is stored.
struct fg_walk_site {
    const struct fg_hessian *H;
    const float *held; // [n_held][cols]: rows that are held out; NULL where there are none
    int64_t n_held;
    int64_t serial; // a number of its own for every sum of H
};
// Passes the stream on to where m reads, if need be, and sums H. Valid until the next call that
// passes it on. Matrices must come in the order above; matrices of one input share the work.
// Errors: FG_ERESOURCE, FG_EFAILED (a row is not finite), those of tick.
int fg_walk_site(struct fg_walk *w, const struct fg_plan_mat *m, struct fg_walk_site *out,
                 struct fg_error *err);
// From here on the stream passes through W [rows][cols], malloc'd FP32 in the basis of the model,
// instead of matrix m; the walk takes it. Also for matrices whose site was never asked for.
int fg_walk_replace(struct fg_walk *w, const struct fg_plan_mat *m, float *W, struct fg_error *err);
// Ends the layer: the residual behind its MLP becomes the next one's entry, replacements are freed.
// *mlp_snr_db (may be NULL): output of the MLP on held-out rows against that of the model's own
// matrices on the same residual; NaN without held-out rows or replacements. No site needs to have
// been asked for.
int fg_walk_next(struct fg_walk *w, double *mlp_snr_db, struct fg_error *err);
int64_t fg_walk_layer(const struct fg_walk *w); // that the stream is in; n_layers: before the head

// The residual at the entry of the current layer as a file, and back; `id` tells jobs apart.
// Errors: those of writing; FG_EINPUT, FG_EINTEGRITY (damaged, of another job).
int fg_walk_save(const struct fg_walk *w, const char *path, const char *id, struct fg_error *err);
int fg_walk_load(struct fg_walk *w, const char *path, const char *id, struct fg_error *err);
#endif
