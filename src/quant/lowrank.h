// quant/lowrank.h: factors A B of the error E = W - Q that a format leaves (specs: quantization
// 4.3), by a randomized singular value decomposition that gives the same bytes for any number of
// threads on one build of BLAS.
#ifndef FG_QUANT_LOWRANK_H
#define FG_QUANT_LOWRANK_H
#include "base/error.h"
#include "base/thread.h"
#include <stdbool.h>
#include <stdint.h>

// Which error the factors make least. `full` takes H damped by 0.01 * mean(diag H).
enum fg_lowrank_fit {
    FG_LOWRANK_PLAIN, // Frobenius norm
    FG_LOWRANK_DIAG,  // columns weighted by diag(H)
    FG_LOWRANK_FULL,  // tr(E H E^T), the closed-form optimum (QERA)
};

struct fg_lowrank_options {
    const char *name; // of the matrix: in errors and in the tag of its random stream
    uint64_t seed;
    enum fg_lowrank_fit fit;
    const float *diag;    // FG_LOWRANK_DIAG: [cols] diag(H), >= 0
    const double *H;      // FG_LOWRANK_FULL: [cols][cols] symmetric
    bool balanced;        // roots of the singular values on both sides, instead of all in A
    struct fg_pool *pool; // NULL: the caller's thread alone
};

// The largest multiple of 8, at most 64, whose factors take at most 16 % of the matrix's bytes in
// lut4; 0: none.
int64_t fg_lowrank_auto(int64_t rows, int64_t cols);

// lr_a [rows][rank], lr_b [rank][cols] of E [rows][cols] FP32 (not changed), 0 <= rank <= min(rows,
// cols). lr_scale NULL: both are F16. Else [rank] FP32, above 0, and both are INT8 codes in -127 ..
// 127 (format/qmat.h): the first is rounded, the second fitted to E again by least squares before
// it is rounded, each component with the step, of those up to its largest element, that leaves the
// least error; a component whose second factor vanishes has codes 0. *left (may be NULL) receives
// the share of the weighted error of E that remains with the rounded factors: 0 is none; NaN where
// E is zero. Errors: FG_EINPUT (a factor or an element of E not finite, an H that can't be
// factored), FG_ERESOURCE.
int fg_lowrank_svd(void *lr_a, void *lr_b, float *lr_scale, double *left, const float *E,
                   int64_t rows, int64_t cols, int64_t rank, const struct fg_lowrank_options *o,
                   struct fg_error *err);
#endif
