// kernels/avx2/gemm.c: exact GEMMs. A tile holds 2 weight rows by up to 3 rows of x; the sixteen
// lanes of a dot product are two registers, so twelve of the sixteen registers are sums.
#include "kernels/avx2/gemm_dot2.h"
#include "kernels/avx2/reduce.h"
#include "kernels/gemm_block.h"
#include "kernels/levels.h"
#include <assert.h>

#define MR 2
#define NR 3
static_assert(FG_GEMM_ROWS % MR == 0 && FG_GEMM_T_BLOCK % NR == 0, "whole tiles");

// fg_tile_fn for constant cols and type. A missing weight row repeats the other and is not stored.
FG_INLINE void tile(const enum fg_dtype type, float *y, int64_t ldy, const uint8_t *w,
                    int64_t row_bytes, int rows, const float *x, int64_t ldx, const int cols,
                    int64_t n, float *carry, bool first, bool last)
{
    const uint8_t *w1 = w + (rows > 1 ? row_bytes : 0);
    __m256 acc[NR][2][2]; // column, row, half
#pragma GCC unroll 32
    for (int i = 0; i < cols * 4; i++)
        acc[i / 4][i / 2 % 2][i % 2] = first ? _mm256_setzero_ps() : _mm256_load_ps(carry + 8 * i);

    int64_t k = 0;
    for (; k + 16 <= n; k += 16) {
#pragma GCC unroll 32
        for (int h = 0; h < 2; h++) {
            __m256 a0 = fg_load8(w, type, k + 8 * h), a1 = fg_load8(w1, type, k + 8 * h);
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

    if (last)
        fg_store_sums2(y, ldy, rows, acc, cols);
    else
#pragma GCC unroll 32
        for (int i = 0; i < cols * 4; i++)
            _mm256_store_ps(carry + 8 * i, acc[i / 4][i / 2 % 2][i % 2]);
}

#define TILES_OF(type_name, type)                                                                  \
    static void fg_tile_##type_name##_f32_avx2(                                                    \
        float *y, int64_t ldy, const uint8_t *w, int64_t row_bytes, int rows, const float *x,      \
        int64_t ldx, int cols, int64_t n, float *carry, bool first, bool last)                     \
    {                                                                                              \
        switch (cols) {                                                                            \
        case 1: tile(type, y, ldy, w, row_bytes, rows, x, ldx, 1, n, carry, first, last); break;   \
        case 2: tile(type, y, ldy, w, row_bytes, rows, x, ldx, 2, n, carry, first, last); break;   \
        default: tile(type, y, ldy, w, row_bytes, rows, x, ldx, 3, n, carry, first, last); break;  \
        }                                                                                          \
    }
TILES_OF(f32, FG_F32)
TILES_OF(f16, FG_F16)
TILES_OF(bf16, FG_BF16)

static const struct fg_gemm_tiles tiles = {
    .tile = {[FG_F32] = fg_tile_f32_f32_avx2,
             [FG_F16] = fg_tile_f16_f32_avx2,
             [FG_BF16] = fg_tile_bf16_f32_avx2},
    .widen = fg_widen_avx2,
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
