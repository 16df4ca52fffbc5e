// kernels/gemm_block.c: cache blocking of the exact GEMMs. No arithmetic here; it is in the tiles.
#include "kernels/gemm_block.h"

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// Elements of one part of k, a multiple of 16; n itself where one part will do.
static int64_t part_of(int64_t n)
{
    if (n <= FG_GEMM_K_WHOLE) return n;
    int64_t n_parts = (n + FG_GEMM_K_PART - 1) / FG_GEMM_K_PART;
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
    if (n > FG_GEMM_K_WHOLE)
        floats = FG_GEMM_ROWS * (panel_stride(FG_GEMM_K_PART) + FG_GEMM_T_BLOCK * 16);
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
                              ldx, cols, n, NULL, true, true);
            t += cols;
        }
    }
}

// Rows [r0, r1) of the panel times `T` rows of x over one part of k.
static void panel_times_x(const struct fg_gemm_tiles *tiles, float *y, int64_t ldy,
                          const float *panel, int64_t stride, int64_t n_rows, const float *x,
                          int64_t ldx, int64_t T, int64_t part, float *carry, bool first, bool last)
{
    for (int64_t t = 0; t < T; t += tiles->nr) {
        int cols = (int)min_i64(tiles->nr, T - t);
        for (int64_t r = 0; r < n_rows; r += tiles->mr) {
            int rows = (int)min_i64(tiles->mr, n_rows - r);
            tiles->tile[FG_F32](y + t * ldy + r, ldy, (const uint8_t *)(panel + r * stride),
                                stride * 4, rows, x + t * ldx, ldx, cols, part, carry, first, last);
            if (carry) carry += tiles->mr * tiles->nr * 16;
        }
    }
}

static void gemm_panel(const struct fg_gemm_tiles *tiles, enum fg_dtype type, float *y, int64_t ldy,
                       const uint8_t *w, int64_t n, int64_t r0, int64_t r1, const float *x,
                       int64_t ldx, int64_t T, float *scratch)
{
    int64_t elem = (int64_t)fg_dtype_bytes(type);
    int64_t part = part_of(n), stride = panel_stride(part);
    int64_t t_block = part < n ? FG_GEMM_T_BLOCK : T;
    float *panel = scratch;
    float *carry = part < n ? scratch + FG_GEMM_ROWS * stride : NULL;

    for (int64_t r = r0; r < r1; r += FG_GEMM_ROWS) {
        int64_t n_rows = min_i64(FG_GEMM_ROWS, r1 - r);
        for (int64_t t = 0; t < T; t += t_block) {
            for (int64_t k = 0; k < n; k += part) {
                int64_t len = min_i64(part, n - k);
                for (int64_t i = 0; i < n_rows; i++)
                    tiles->widen(panel + i * stride, w + ((r + i) * n + k) * elem, type, len);
                panel_times_x(tiles, y + t * ldy + r, ldy, panel, stride, n_rows, x + t * ldx + k,
                              ldx, min_i64(t_block, T - t), len, carry, k == 0, k + len == n);
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
