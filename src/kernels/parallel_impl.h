// kernels/parallel_impl.h: what the parallel_*.c files share.
#ifndef FG_KERNELS_PARALLEL_IMPL_H
#define FG_KERNELS_PARALLEL_IMPL_H
#include "kernels/parallel.h"

static inline int64_t fg_min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t fg_max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t fg_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t fg_round_up(int64_t n, int64_t to)
{
    return fg_ceil_div(n, to) * to;
}

static inline void *fg_worker_scratch(const struct fg_parallel *par, int worker)
{
    return par->scratch + (uint64_t)worker * par->scratch_bytes_per_worker;
}

// Codes from one row of INT8 activations to the next: whole lines, and an odd number of them, so
// that a tile's rows don't fall into the same sets of L1.
static inline int64_t fg_act_stride(int64_t n)
{
    return (fg_ceil_div(n, 64) | 1) * 64;
}

// ---- the parts of a linear job (parallel_linear.c)

// An input made ready: rotated, rounded or quantized, multiplied by the second factors.
struct fg_ready {
    const struct fg_parallel *par;
    const struct fg_input *in;
    int64_t T;
    const float *xq; // [T][ldq] FP32 input of the quantized matrices
    int64_t ldq;
    struct fg_act act; // fast; two digits: rows t and T + t
    int digits;
    int64_t rank_sum;
};

// Prepares the input for the matrices; runs jobs on the pool.
void fg_input_ready(struct fg_ready *r, const struct fg_parallel *par, const struct fg_linear *mats,
                    int n_mats, const struct fg_input *in, int64_t T);
// y[(t - t0) * ldy + (row - r0)] for rows [r0, r1) of m (r0 a multiple of fg_linear_grain) and t in
// [t0, t1), bias and low-rank part included. rank_at: ranks of the matrices before m.
void fg_linear_rows(const struct fg_ready *r, const struct fg_linear *m, int64_t rank_at,
                    int64_t r0, int64_t r1, int64_t t0, int64_t t1, float *y, int64_t ldy,
                    void *scratch);
uint64_t fg_linear_scratch_bytes(const struct fg_parallel_sizes *s);

uint64_t fg_best_scratch_bytes(const struct fg_parallel_sizes *s); // parallel_best.c

// Rows of weights that an item of a quantized matrix has at most.
#define FG_LUT_ROWS 128

// Rows that belong together: a group of tiles, or the rows that a tile of a GEMM takes.
static inline int64_t fg_linear_grain(const struct fg_linear *m)
{
    return m->lut ? fg_layout_rows(m->lut->layout) : 8;
}
#endif
