// quant/factor.h: the upper factor U of an inverse, A^-1 = U^T U, in place, in FP64 (specs:
// quantization 4.1, step 4). Tiles over the pool, each by one thread and single-threaded BLAS: the
// same bytes for any number of threads.
#ifndef FG_QUANT_FACTOR_H
#define FG_QUANT_FACTOR_H
#include "base/thread.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_FACTOR_BLOCK 256

// A [n][n] row-major, n >= 1: the upper triangle of a symmetric matrix, below it zeros, becomes U,
// below it zeros. scratch [n][FG_FACTOR_BLOCK]. False when a pivot is not positive: A is then
// spoiled. No NaN or infinity in.
bool fg_factor_inverse(double *A, int64_t n, double *scratch, struct fg_pool *pool);
#endif
