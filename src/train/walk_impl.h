// train/walk_impl.h: the walk itself; shared by walk*.c.
#ifndef FG_TRAIN_WALK_IMPL_H
#define FG_TRAIN_WALK_IMPL_H
#include "train/walk.h"

enum fg_walk_group {
    FG_WALK_NONE,
    FG_WALK_MIX_IN,
    FG_WALK_MIX_OUT,
    FG_WALK_MLP_IN,
    FG_WALK_MLP_MID,
    FG_WALK_HEAD
};

#define FG_WALK_REPLACED_MAX 8 // matrices of a layer

struct fg_walk {
    struct fg_walk_options o;
    struct fg_model view; // the model with layers of our own, in which matrices are replaced
    struct fg_layerwise *lw;
    float *h;      // [n][seq][hidden]: the residual, or
    uint16_t *h16; // in BF16, with
    float *x;      // [batch][seq][hidden] for what is being worked on
    bool *bad;     // per chunk of a batch
    int64_t layer;
    bool mixed; // the residual is behind the mixer of `layer`
    float *replaced[FG_WALK_REPLACED_MAX];
    int n_replaced;
    float *mlp_reference; // [n_held][seq][hidden]; NULL: none

    // Of the site that was summed last.
    enum fg_walk_group group;
    bool rotated;
    struct fg_hessian hessian;
    float *held; // [n_held * seq][width]
    int64_t serial;
};
#endif
