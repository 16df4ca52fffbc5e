// quant/fit.h: scales, tables and indices of a weight matrix by rounding to nearest (specs:
// quantization 3): k-means for pairs of rows, Lloyd for single values, INT8 per row. Same inputs
// give the same bytes for any number of threads and any instruction set.
//
// W is [rows][cols] FP32, row-major, in the basis in which it is stored. d = rows per index (2 for
// the vector formats, else 1) divides rows.
#ifndef FG_QUANT_FIT_H
#define FG_QUANT_FIT_H
#include "base/error.h"
#include "base/thread.h"
#include "format/qmat.h"
#include "kernels/kernels.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_fit_options {
    const char *name;        // of the matrix: in errors and in the tags of its random streams
    uint64_t seed;           // --kmeans-seed
    const float *col_weight; // [cols], >= 0 and finite: diag(H); NULL: all 1 (--aw 0)
    bool row_weight;         // errors count in the original scale: weight s[o]^2 per row
    // [rows], > 0 and finite: times s[o]^2 where row_weight is on (10.2); NULL: all 1.
    const float *row_importance;
    int64_t vectors;       // at most so many samples for k-means
    int64_t values;        // and for Lloyd (--lut4-samples)
    int inits, iterations; // of k-means
    bool int8_tables; // table values on the grid that INT8 kernels have: multiples of max / 127 per
                      // component (before rounding to F16), so that fast numerics take nothing
                      // from them
    const struct fg_kernels *kernels;
    struct fg_pool *pool; // NULL: the caller's thread alone
};

// The defaults of the specification: seed 1, no column weights, row weights, 300,000 and 65,536
// samples, 3 inits, 200 iterations. Tables on the INT8 grid are our addition: rounding 64 values to
// it costs a thousandth of the error of three bits, and only once, before indices are chosen.
struct fg_fit_options fg_fit_defaults(const char *name, const struct fg_kernels *kernels,
                                      struct fg_pool *pool);

// scale [rows] F16: root mean square of the row for LUT formats (0 becomes 1), max / 127 for int8
// (0 becomes the smallest subnormal). Errors: FG_EINPUT for a weight that is not finite or a scale
// past F16, naming NAME[row].
int fg_fit_scales(uint16_t *scale, enum fg_qformat f, const float *W, int64_t rows, int64_t cols,
                  const struct fg_fit_options *o, struct fg_error *err);

// lut [entries][d] F16, ascending, fitted to samples of W / scale for a LUT format. *inertia (may
// be NULL) receives the weighted squared error of the fit over the samples, before rounding to F16.
// Errors: FG_ERESOURCE, and FG_EINPUT for a value that F16 does not hold.
int fg_fit_table(uint16_t *lut, double *inertia, enum fg_qformat f, const float *W,
                 const uint16_t *scale, int64_t rows, int64_t cols, const struct fg_fit_options *o,
                 struct fg_error *err);

// Sums of squares of a matrix and of what rounding took from it.
struct fg_fit_error {
    double signal, noise;
};

// out [rows / d][row bytes] = indices of the nearest entries (in the metric of the options, lowest
// index among equals), packed; for int8 the codes, one byte each. *e (may be NULL) compares W with
// what the format gives back. Errors: FG_ERESOURCE.
int fg_fit_round(uint8_t *out, struct fg_fit_error *e, enum fg_qformat f, const float *W,
                 const uint16_t *scale, const uint16_t *lut, int64_t rows, int64_t cols,
                 const struct fg_fit_options *o, struct fg_error *err);

// A matrix in a format, its arrays malloc'd.
struct fg_fit_result {
    enum fg_qformat format;
    int64_t rows, cols;
    uint8_t *data; // pidx, codes or kept weights
    uint16_t *lut; // NULL where the format has none
    uint16_t *scale;
    uint64_t data_bytes;
    double inertia;        // of the table's fit; 0 without one
    struct fg_fit_error e; // over the whole matrix
};

// Scales, table and rounding in one: round to nearest, no calibration data. Kept formats are
// rounded to BF16 or F16, or copied. Errors: as above; FG_EINPUT where d does not divide rows;
// *out is then zeroed.
int fg_fit_rtn(struct fg_fit_result *out, enum fg_qformat f, const float *W, int64_t rows,
               int64_t cols, const struct fg_fit_options *o, struct fg_error *err);
void fg_fit_free(struct fg_fit_result *r); // zeroed results are fine

// View of a result, without factors and rotation.
struct fg_qmat fg_fit_view(const struct fg_fit_result *r);

// 10 log10(signal / noise): infinite without noise.
double fg_fit_snr_db(const struct fg_fit_error *e);
#endif
