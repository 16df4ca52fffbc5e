// quant/hessian.h: H = X^T X / N of the inputs of a matrix (specs: quantization 0, 4.1, 4.4), and
// what GPTQ makes of it. Sums are the same bytes for any number of threads on one build of BLAS:
// products are cut into tiles of 512 x 512 columns over one slab of rows, each tile by one thread
// and single-threaded BLAS, slabs added in FP64 in order.
#ifndef FG_QUANT_HESSIAN_H
#define FG_QUANT_HESSIAN_H
#include "base/error.h"
#include "base/thread.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_HESSIAN_SLAB 4096 // rows whose products are summed in FP32

struct fg_hessian {
    int64_t n;     // columns
    int64_t count; // rows added, N
    double *H; // [n][n] row-major, 64-byte aligned. While adding: the sum, upper triangle alone;
               // after fg_hessian_finish: both, divided by N
};

// Errors: FG_ERESOURCE, naming the bytes.
int fg_hessian_new(struct fg_hessian *h, int64_t n, struct fg_error *err);
void fg_hessian_free(struct fg_hessian *h); // zeroed is fine
// Adds x [rows][n] FP32, row-major, 1 <= rows <= FG_HESSIAN_SLAB: one slab. Errors: FG_ERESOURCE.
int fg_hessian_add(struct fg_hessian *h, const float *x, int64_t rows, struct fg_pool *pool,
                   struct fg_error *err);
// Divides by N (at least 1) and mirrors.
void fg_hessian_finish(struct fg_hessian *h, struct fg_pool *pool);

// tr(E H E^T) of E [rows][n] FP32 with a finished H: products in FP32 tiles, sums in FP64 in order.
// Per row into row_error [rows] (may be NULL). NaN when memory is out.
double fg_hessian_error(const struct fg_hessian *h, const float *E, int64_t rows, double *row_error,
                        struct fg_pool *pool);

enum fg_gptq_order { FG_GPTQ_ORDER_ACT, FG_GPTQ_ORDER_NONE };

// The factor U, upper, H^-1 = U^T U, of H in the order of treatment and damped (4.1, 2 to 4).
struct fg_gptq_factor {
    int64_t n;
    int32_t *perm; // [n]: column perm[i] is treated i-th; stable by diag(H) descending
    float *U;      // [n][n] row-major, below the diagonal 0
    float *diag;   // [n] diag(H), undamped, natural order: weights of the table's fit
    uint8_t *dead; // [n], natural order: H_jj was 0, and counts as 1
    int64_t n_dead;
    double damp; // that succeeded: the asked-for, or 10, 100, 1000 times as much
};
// H is not changed. damp: share of mean(diag H), 0 and more. Errors: FG_EINPUT (not finite, not
// symmetric positive even with 1000 times the damping; `name` is the matrix's), FG_ERESOURCE.
int fg_gptq_factorize(struct fg_gptq_factor *out, const struct fg_hessian *h,
                      enum fg_gptq_order order, double damp, const char *name, struct fg_pool *pool,
                      struct fg_error *err);
void fg_gptq_factor_free(struct fg_gptq_factor *f); // zeroed is fine
// Bytes that factorizing holds at its peak, H not counted.
uint64_t fg_gptq_factorize_bytes(int64_t n);
#endif
