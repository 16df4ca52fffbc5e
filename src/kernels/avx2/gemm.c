// kernels/avx2/gemm.c: exact GEMMs. A tile holds 2 weight rows by up to 3 rows of x; the sixteen
// lanes of a dot product are two registers, so twelve of the sixteen registers are sums.
#include "kernels/avx2/gemm_dot2.h"
#include "kernels/avx2/reduce.h"
#include "kernels/gemm_block.h"
#include "kernels/levels.h"
#include <assert.h>

#define MR 2
#define NR 3
static_assert(FG_GEMM_ROWS % MR == 0 && FG_GEMM_T_DIRECT >= NR, "whole tiles");

// All kinds of tile, for constant type, cols, ahead and out or no out, as in avx512/gemm.c. A
// missing weight row repeats the other and is not stored in y.
FG_INLINE void tile(const enum fg_dtype type, float *y, int64_t ldy, const uint8_t *w,
                    int64_t row_bytes, int rows, const float *x, int64_t ldx, const int cols,
                    struct fg_part part, const bool ahead, float *out, int64_t ldo)
{
    int64_t n = part.n, o1 = rows > 1 ? ldo : 0;
    const uint8_t *w1 = w + (rows > 1 ? row_bytes : 0);
    __m256 acc[NR][2][2]; // column, row, half
#pragma GCC unroll 32
    for (int i = 0; i < cols * 4; i++)
        acc[i / 4][i / 2 % 2][i % 2] =
            part.first ? _mm256_setzero_ps() : _mm256_load_ps(part.carry + 8 * i);

    int64_t k = 0;
    for (; k + 16 <= n; k += 16) {
        if (ahead) {
            int64_t at = MR * row_bytes + k * (int64_t)fg_dtype_bytes(type);
            _mm_prefetch((const char *)(w + at), _MM_HINT_T0);
            _mm_prefetch((const char *)(w1 + at), _MM_HINT_T0);
        }
#pragma GCC unroll 32
        for (int h = 0; h < 2; h++) {
            __m256 a0 = fg_load8(w, type, k + 8 * h), a1 = fg_load8(w1, type, k + 8 * h);
            if (out) {
                _mm256_store_ps(out + k + 8 * h, a0);
                _mm256_store_ps(out + o1 + k + 8 * h, a1);
            }
#pragma GCC unroll 32
            for (int c = 0; c < cols; c++) {
                __m256 b = _mm256_loadu_ps(x + c * ldx + k + 8 * h);
                acc[c][0][h] = _mm256_fmadd_ps(a0, b, acc[c][0][h]);
                acc[c][1][h] = _mm256_fmadd_ps(a1, b, acc[c][1][h]);
            }
        }
    }
    if (k < n) { // lanes past n keep their sum: adding +0 would turn -0 into +0
        struct fg_padded16 pad[2];
        fg_pad16(&pad[0], w, type, k, n - k);
        fg_pad16(&pad[1], w1, type, k, n - k);
#pragma GCC unroll 32
        for (int h = 0; h < 2; h++) {
            __m256i live = fg_mask8(n - k - 8 * h);
            if (out) { // panel rows are whole lines
                _mm256_store_ps(out + k + 8 * h, fg_load8(pad[0].bytes, type, 8 * h));
                _mm256_store_ps(out + o1 + k + 8 * h, fg_load8(pad[1].bytes, type, 8 * h));
            }
#pragma GCC unroll 32
            for (int c = 0; c < cols; c++) {
                __m256 b = _mm256_maskload_ps(x + c * ldx + k + 8 * h, live);
#pragma GCC unroll 32
                for (int r = 0; r < 2; r++) {
                    __m256 sum =
                        _mm256_fmadd_ps(fg_load8(pad[r].bytes, type, 8 * h), b, acc[c][r][h]);
                    acc[c][r][h] = _mm256_blendv_ps(acc[c][r][h], sum, _mm256_castsi256_ps(live));
                }
            }
        }
    }

    if (part.last)
        fg_store_sums2(y, ldy, rows, acc, cols);
    else
#pragma GCC unroll 32
        for (int i = 0; i < cols * 4; i++)
            _mm256_store_ps(part.carry + 8 * i, acc[i / 4][i / 2 % 2][i % 2]);
}

FG_INLINE void direct(const enum fg_dtype type, float *y, int64_t ldy, const uint8_t *w,
                      int64_t row_bytes, int rows, const float *x, int64_t ldx, const int cols,
                      int64_t n)
{
    struct fg_part whole = {n, NULL, true, true};
    tile(type, y, ldy, w, row_bytes, rows, x, ldx, cols, whole, true, NULL, 0);
}

// Tiles of weights of one type.
#define DIRECT_TILES(name, type)                                                                   \
    static void name(float *y, int64_t ldy, const uint8_t *w, int64_t row_bytes, int rows,         \
                     const float *x, int64_t ldx, int cols, int64_t n)                             \
    {                                                                                              \
        switch (cols) {                                                                            \
        case 1: direct(type, y, ldy, w, row_bytes, rows, x, ldx, 1, n); break;                     \
        case 2: direct(type, y, ldy, w, row_bytes, rows, x, ldx, 2, n); break;                     \
        default: direct(type, y, ldy, w, row_bytes, rows, x, ldx, 3, n); break;                    \
        }                                                                                          \
    }
DIRECT_TILES(fg_tile_f32_f32_avx2, FG_F32)
DIRECT_TILES(fg_tile_f16_f32_avx2, FG_F16)
DIRECT_TILES(fg_tile_bf16_f32_avx2, FG_BF16)

// Tiles of weights of one type that leave a panel.
#define WIDEN_TILE(name, type)                                                                     \
    static void name(float *y, int64_t ldy, const uint8_t *w, int64_t row_bytes, int rows,         \
                     const float *x, int64_t ldx, struct fg_part part, float *panel, int64_t ldp)  \
    {                                                                                              \
        tile(type, y, ldy, w, row_bytes, rows, x, ldx, NR, part, true, panel, ldp);                \
    }
WIDEN_TILE(fg_tile_widen_f32_avx2, FG_F32)
WIDEN_TILE(fg_tile_widen_f16_avx2, FG_F16)
WIDEN_TILE(fg_tile_widen_bf16_avx2, FG_BF16)

FG_INLINE void panel_tile(float *y, int64_t ldy, const float *panel, int64_t ldp, int rows,
                          const float *x, int64_t ldx, const int cols, struct fg_part part)
{
    tile(FG_F32, y, ldy, (const uint8_t *)panel, 4 * ldp, rows, x, ldx, cols, part, false, NULL, 0);
}

static void fg_tile_panel_f32_avx2(float *y, int64_t ldy, const float *panel, int64_t ldp, int rows,
                                   const float *x, int64_t ldx, int cols, struct fg_part part)
{
    switch (cols) {
    case 1: panel_tile(y, ldy, panel, ldp, rows, x, ldx, 1, part); break;
    case 2: panel_tile(y, ldy, panel, ldp, rows, x, ldx, 2, part); break;
    default: panel_tile(y, ldy, panel, ldp, rows, x, ldx, 3, part); break;
    }
}

static const struct fg_gemm_tiles tiles = {
    .tile = {[FG_F32] = fg_tile_f32_f32_avx2,
             [FG_F16] = fg_tile_f16_f32_avx2,
             [FG_BF16] = fg_tile_bf16_f32_avx2},
    .widen = {[FG_F32] = fg_tile_widen_f32_avx2,
              [FG_F16] = fg_tile_widen_f16_avx2,
              [FG_BF16] = fg_tile_widen_bf16_avx2},
    .panel = fg_tile_panel_f32_avx2,
    .mr = MR,
    .nr = NR,
};

static void fg_gemm_f32_f32_avx2(float *y, int64_t ldy, const void *w, int64_t n, int64_t r0,
                                 int64_t r1, const float *x, int64_t ldx, int64_t T, void *scratch)
{
    fg_gemm_blocked(&tiles, FG_F32, y, ldy, w, n, r0, r1, x, ldx, T, scratch);
}

static void fg_gemm_f16_f32_avx2(float *y, int64_t ldy, const void *w, int64_t n, int64_t r0,
                                 int64_t r1, const float *x, int64_t ldx, int64_t T, void *scratch)
{
    fg_gemm_blocked(&tiles, FG_F16, y, ldy, w, n, r0, r1, x, ldx, T, scratch);
}

static void fg_gemm_bf16_f32_avx2(float *y, int64_t ldy, const void *w, int64_t n, int64_t r0,
                                  int64_t r1, const float *x, int64_t ldx, int64_t T, void *scratch)
{
    fg_gemm_blocked(&tiles, FG_BF16, y, ldy, w, n, r0, r1, x, ldx, T, scratch);
}

void fg_fill_dense_avx2(struct fg_kernels *k)
{
    k->gemm[FG_F32] = fg_gemm_f32_f32_avx2;
    k->gemm[FG_F16] = fg_gemm_f16_f32_avx2;
    k->gemm[FG_BF16] = fg_gemm_bf16_f32_avx2;
    k->gemm_bf16_bf16 = fg_gemm_bf16_bf16_avx2;
    k->to_bf16 = fg_to_bf16_avx2;
    k->widen = fg_widen_avx2;
}
