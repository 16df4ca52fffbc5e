// eval/matrix_ns.h: how long one row takes through a matrix of a format on this machine: what a
// planner adds up when a plan has a budget of time (specs: quantization 5.3, `--speed`).
#ifndef FG_EVAL_MATRIX_NS_H
#define FG_EVAL_MATRIX_NS_H
#include "base/error.h"
#include "base/thread.h"
#include "format/qmat.h"
#include "kernels/kernels.h"
#include <stdint.h>

// Nanoseconds of y = W x for one row of x [cols], W [rows][cols] with made-up weights, in fast
// numerics: the median over runs through enough different matrices that they come from memory and
// not from caches. Without rotation and factors, which do not depend on the format. Errors:
// FG_EINPUT (pairs of an odd number of rows), FG_ERESOURCE.
int fg_matrix_ns(double *ns, enum fg_qformat f, int64_t rows, int64_t cols,
                 const struct fg_kernels *kernels, struct fg_pool *pool, struct fg_error *err);
#endif
