// kernels/gemm_block.h: the loops around a GEMM's register tile, the same for every instruction
// set. A tile multiplies a few weight rows by a few rows of x over all of k, or over a part of k
// with its lanes carried to the next part, so that blocking for the caches leaves the order of
// summation as kernels.h writes it.
#ifndef FG_KERNELS_GEMM_BLOCK_H
#define FG_KERNELS_GEMM_BLOCK_H
#include "kernels/kernels.h"

// With more than a few rows of x, a panel of FG_GEMM_ROWS weight rows is widened to FP32 once and
// used for all of them. Where n passes FG_GEMM_K_MAX, k is cut into parts of at most that and x
// into blocks of FG_GEMM_T_BLOCK rows, whose lanes wait in scratch between the parts. Sizes: a
// tile's rows of x and of the panel over one part of k are 40 KB, for L1; panel, lanes and the
// block of x together about 1 MB, for L2.
#define FG_GEMM_ROWS 64
#define FG_GEMM_K_MAX 1024
#define FG_GEMM_T_BLOCK 96
// Up to this many rows of x, widening in the tile costs less than a panel.
#define FG_GEMM_T_DIRECT 12

// Tiles: `rows` (1 .. mr) weight rows times `cols` (1 .. nr) rows of x, ldx apart, over n elements;
// y[c * ldy + r] = dot. A tile of weights as stored, row_bytes apart, that also prefetches the mr
// rows after them:
typedef void (*fg_tile_fn)(float *y, int64_t ldy, const uint8_t *w, int64_t row_bytes, int rows,
                           const float *x, int64_t ldx, int cols, int64_t n);
// A tile of one part of k, n elements; a part that is not the last has n a multiple of 16. carry:
// NULL, or mr * nr * 16 lanes, read unless `first` and written unless `last`; y is written when
// `last`.
struct fg_part {
    int64_t n;
    float *carry;
    bool first, last;
};
// Weights as stored times exactly nr rows of x; leaves the weights, widened, in panel rows ldp
// floats apart:
typedef void (*fg_widen_tile_fn)(float *y, int64_t ldy, const uint8_t *w, int64_t row_bytes,
                                 int rows, const float *x, int64_t ldx, struct fg_part part,
                                 float *panel, int64_t ldp);
// Such panel rows times `cols` rows of x:
typedef void (*fg_panel_tile_fn)(float *y, int64_t ldy, const float *panel, int64_t ldp, int rows,
                                 const float *x, int64_t ldx, int cols, struct fg_part part);

struct fg_gemm_tiles {
    fg_tile_fn tile[FG_N_DTYPES];
    fg_widen_tile_fn widen[FG_N_DTYPES];
    fg_panel_tile_fn panel;
    int mr, nr; // FG_GEMM_ROWS is a multiple of mr
};

// fg_gemm_fn for weights of type t. scratch as fg_gemm_scratch_bytes says.
void fg_gemm_blocked(const struct fg_gemm_tiles *tiles, enum fg_dtype t, float *y, int64_t ldy,
                     const void *w, int64_t n, int64_t r0, int64_t r1, const float *x, int64_t ldx,
                     int64_t T, void *scratch);

// A tile of BF16 times BF16 over all of k: y[c * ldy + r] = dot2(w row r, x row c) for rows (1 ..
// mr) and cols (1 .. nr).
typedef void (*fg_tile_bf16_fn)(float *y, int64_t ldy, const uint8_t *w, int64_t row_bytes,
                                int rows, const uint16_t *x, int64_t ldx, int cols, int64_t n);

// fg_gemm_bf16_fn on such tiles; no scratch.
void fg_gemm_bf16_blocked(fg_tile_bf16_fn tile, int mr, int nr, float *y, int64_t ldy,
                          const void *w, int64_t n, int64_t r0, int64_t r1, const uint16_t *x,
                          int64_t ldx, int64_t T);
#endif
