// train/sensitivity.h: what each format would do to each matrix of a model (specs: quantization
// 5.2, kind `err`): errors of outputs by GPTQ without factors, over calibration rows that pass
// through the model as it is.
#ifndef FG_TRAIN_SENSITIVITY_H
#define FG_TRAIN_SENSITIVITY_H
#include "base/error.h"
#include "format/qmat.h"
#include "quant/plan.h"
#include "train/quantize.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_sensitivity_result {
    const struct fg_plan_mat *mat; // the plan's, whose format counts for nothing
    enum fg_qformat format;
    double rel_err_h, err_h; // tr(E H E^T) over tr(W H W^T), and itself; H the mean over tokens
    double rel_err_h_rtn;    // of rounding to nearest with the same table
    // On held-out rows: the mean over tokens of |E x|^2 / |W x|^2. Every token counts alike, where
    // in rel_err_h one with huge activations can be all. NaN without held-out rows.
    double rel_err_t;
    int64_t tokens;
    char calib_sha256[FG_SHA256_HEX];
};

struct fg_sensitivity_options {
    // As for a quantization by GPTQ: model, plan (rotations), calibration, fit, layers and only,
    // kernels, pool, log, progress. `output` is not used.
    struct fg_quantize_options quantize;
    const enum fg_qformat *formats; // [n_formats], none of the kept ones
    int n_formats;
    // Is the figure known already? NULL: none is. Formats that do not fit a matrix (pairs of an odd
    // number of rows) are left out.
    bool (*known)(void *ctx, const struct fg_plan_mat *m, enum fg_qformat f);
    // A figure; other than 0 ends the run with it.
    int (*result)(void *ctx, const struct fg_sensitivity_result *r, struct fg_error *err);
    void *ctx;
};
// Errors: those of fg_quantize_open and fg_quantize_run.
int fg_sensitivity_run(const struct fg_sensitivity_options *o, struct fg_error *err);
#endif
