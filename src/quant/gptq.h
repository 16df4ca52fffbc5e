// quant/gptq.h: scales, table and indices of a matrix with error feedback over its columns (specs:
// quantization 4.1; GPTQ, arXiv 2210.17323), and the refinement of indices after it (section 10 of
// the specification asks what wins at equal bytes). Same inputs give the same bytes for any number
// of threads and any instruction set, on one build of BLAS.
//
// W is [rows][cols] FP32, row-major, in the basis in which it is stored.
#ifndef FG_QUANT_GPTQ_H
#define FG_QUANT_GPTQ_H
#include "base/error.h"
#include "quant/fit.h"
#include "quant/hessian.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_gptq_options {
    struct fg_fit_options fit; // col_weight is set here where `aw` is
    bool aw;                   // columns of the table's fit weigh diag(H)
    // Importance of rows, [rows], > 0 (10.2): times scale^2 in every assignment where
    // fit.row_weight is on; NULL: all 1.
    const float *row_importance;
    int block; // columns between two updates of the rest; 0: 128
    // Sweeps of coordinate descent on tr(E H E^T) after the pass; 0: none. An index row whose error
    // (in the sense of row_importance) would be above that of the pass stays as it was.
    int refine;
};

struct fg_gptq_stats {
    double error;      // tr(E H E^T), undamped, E = W - Q
    double signal;     // tr(W H W^T)
    double error_rtn;  // tr(E H E^T) of rounding to nearest with the same table; NaN: not asked for
    double error_pass; // before refinement
    int64_t moved;     // indices that refinement changed
};

// Scales, table fitted to W, then the pass: out as fg_fit_rtn makes it, out->e the plain squared
// error. table (may be NULL) [entries][d] F16 replaces the fit of a table. stats may be NULL;
// want_rtn asks for error_rtn. bf16 and f16: plain rounding. Dead columns are rounded to nearest
// like the others. Errors: as fg_fit_rtn.
int fg_gptq(struct fg_fit_result *out, struct fg_gptq_stats *stats, bool want_rtn,
            enum fg_qformat f, const float *W, int64_t rows, int64_t cols,
            const struct fg_hessian *h, const struct fg_gptq_factor *factor, const uint16_t *table,
            const struct fg_gptq_options *o, struct fg_error *err);
// Bytes that fg_gptq takes at its peak beside W, H, the factor and its result.
uint64_t fg_gptq_bytes(int64_t rows, int64_t cols, int threads, bool refine);
#endif
