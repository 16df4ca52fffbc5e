// kernels/gemm_block.c: cache blocking of the exact GEMMs. No arithmetic here; it is in the tiles.
#include "kernels/gemm_block.h"

#define NR_MAX 6 // of any level's tiles: a block's last tile takes room for a whole one

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

// Elements of one part of k, a multiple of 16; n itself where one part will do.
static int64_t part_of(int64_t n)
{
    if (n <= FG_GEMM_K_MAX) return n;
    int64_t n_parts = (n + FG_GEMM_K_MAX - 1) / FG_GEMM_K_MAX;
    return ((n + n_parts - 1) / n_parts + 15) / 16 * 16;
}

// Floats between rows of the panel: whole cache lines, and an odd number of them, so that the rows
// of a tile don't fall into the same sets of L1.
static int64_t panel_stride(int64_t part)
{
    return ((part + 15) / 16 | 1) * 16;
}

uint64_t fg_gemm_scratch_bytes(int64_t n, int64_t T)
{
    if (T <= FG_GEMM_T_DIRECT) return 0;
    int64_t floats = FG_GEMM_ROWS * panel_stride(n); // monotone, so that the largest n serves all
    if (n > FG_GEMM_K_MAX)
        floats = FG_GEMM_ROWS * (panel_stride(FG_GEMM_K_MAX) + (FG_GEMM_T_BLOCK + NR_MAX) * 16);
    return (uint64_t)floats * sizeof(float);
}

// Few rows of x: every weight is read once from memory, so the tiles take them as they are.
static void gemm_direct(const struct fg_gemm_tiles *tiles, enum fg_dtype type, float *y,
                        int64_t ldy, const uint8_t *w, int64_t n, int64_t r0, int64_t r1,
                        const float *x, int64_t ldx, int64_t T)
{
    int64_t row_bytes = n * (int64_t)fg_dtype_bytes(type);
    int64_t n_groups = (T + tiles->nr - 1) / tiles->nr;
    for (int64_t r = r0; r < r1; r += tiles->mr) {
        int rows = (int)min_i64(tiles->mr, r1 - r);
        for (int64_t g = 0, t = 0; g < n_groups; g++) { // groups of nearly equal size
            int cols = (int)((T - t + n_groups - g - 1) / (n_groups - g));
            tiles->tile[type](y + t * ldy + r, ldy, w + r * row_bytes, row_bytes, rows, x + t * ldx,
                              ldx, cols, n);
            t += cols;
        }
    }
}

// One panel, of n_rows weight rows and one part of k, times T >= nr rows of x: the first nr rows of
// x meet the weights as they come from memory and leave them widened for the others.
static void gemm_part(const struct fg_gemm_tiles *tiles, enum fg_dtype type, float *y, int64_t ldy,
                      const uint8_t *w, int64_t row_bytes, int64_t n_rows, const float *x,
                      int64_t ldx, int64_t T, struct fg_part part, float *panel, int64_t ldp)
{
    for (int64_t t = 0; t < T; t += tiles->nr) {
        int cols = (int)min_i64(tiles->nr, T - t);
        for (int64_t r = 0; r < n_rows; r += tiles->mr) {
            int rows = (int)min_i64(tiles->mr, n_rows - r);
            float *at = y + t * ldy + r;
            if (t == 0)
                tiles->widen[type](at, ldy, w + r * row_bytes, row_bytes, rows, x, ldx, part,
                                   panel + r * ldp, ldp);
            else
                tiles->panel(at, ldy, panel + r * ldp, ldp, rows, x + t * ldx, ldx, cols, part);
            if (part.carry) part.carry += tiles->mr * tiles->nr * 16;
        }
    }
}

static void gemm_panel(const struct fg_gemm_tiles *tiles, enum fg_dtype type, float *y, int64_t ldy,
                       const uint8_t *w, int64_t n, int64_t r0, int64_t r1, const float *x,
                       int64_t ldx, int64_t T, float *scratch)
{
    int64_t elem = (int64_t)fg_dtype_bytes(type);
    int64_t len = part_of(n), ldp = panel_stride(len);
    int64_t n_blocks = len < n ? ceil_div(T, FG_GEMM_T_BLOCK) : 1;
    float *carry = len < n ? scratch + FG_GEMM_ROWS * ldp : NULL;

    for (int64_t r = r0; r < r1; r += FG_GEMM_ROWS) {
        int64_t n_rows = min_i64(FG_GEMM_ROWS, r1 - r);
        for (int64_t b = 0; b < n_blocks; b++) {
            int64_t t0 = T * b / n_blocks, t1 = T * (b + 1) / n_blocks;
            for (int64_t k = 0; k < n; k += len) {
                struct fg_part part = {min_i64(len, n - k), carry, k == 0, k + len >= n};
                gemm_part(tiles, type, y + t0 * ldy + r, ldy, w + (r * n + k) * elem, n * elem,
                          n_rows, x + t0 * ldx + k, ldx, t1 - t0, part, scratch, ldp);
            }
        }
    }
}

void fg_gemm_blocked(const struct fg_gemm_tiles *tiles, enum fg_dtype t, float *y, int64_t ldy,
                     const void *w, int64_t n, int64_t r0, int64_t r1, const float *x, int64_t ldx,
                     int64_t T, void *scratch)
{
    if (T <= FG_GEMM_T_DIRECT)
        gemm_direct(tiles, t, y, ldy, w, n, r0, r1, x, ldx, T);
    else
        gemm_panel(tiles, t, y, ldy, w, n, r0, r1, x, ldx, T, scratch);
}

void fg_gemm_bf16_blocked(fg_tile_bf16_fn tile, int mr, int nr, float *y, int64_t ldy,
                          const void *w, int64_t n, int64_t r0, int64_t r1, const uint16_t *x,
                          int64_t ldx, int64_t T)
{
    const uint8_t *bytes = w;
    int64_t row_bytes = 2 * n;
    // A block of weight rows is read from memory once and stays in L2 for all rows of x; with few
    // of those, one tile's rows stay in L1.
    int64_t block = T <= FG_GEMM_T_DIRECT ? mr : FG_GEMM_ROWS;
    int64_t n_groups = (T + nr - 1) / nr;
    for (int64_t b = r0; b < r1; b += block) {
        int64_t b1 = min_i64(b + block, r1);
        for (int64_t g = 0, t = 0; g < n_groups; g++) {
            int cols = (int)((T - t + n_groups - g - 1) / (n_groups - g));
            for (int64_t r = b; r < b1; r += mr)
                tile(y + t * ldy + r, ldy, bytes + r * row_bytes, row_bytes,
                     (int)min_i64(mr, b1 - r), x + t * ldx, ldx, cols, n);
            t += cols;
        }
    }
}
