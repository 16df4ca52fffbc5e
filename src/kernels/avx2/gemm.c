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

// Eight lanes, half h, of 2 weight rows times cols rows of x at x: acc[(c * MR + r) * 2 + h].
FG_INLINE void half(__m256 *acc, const int h, __m256 a0, __m256 a1, const float *x, int64_t ldx,
                    const int cols)
{
    FG_UNROLL
    for (int c = 0; c < cols; c++) {
        __m256 b = _mm256_loadu_ps(x + c * ldx);
#if !defined(__clang__)
        __asm__("" : "+x"(b)); // one load for both: gcc would fold it into each FMA
#endif
        acc[c * 4 + h] = _mm256_fmadd_ps(a0, b, acc[c * 4 + h]);
        acc[c * 4 + 2 + h] = _mm256_fmadd_ps(a1, b, acc[c * 4 + 2 + h]);
    }
}

// The same for the first `count` lanes; the others keep their sum: adding +0 would turn -0 into +0.
FG_INLINE void half_masked(__m256 *acc, const int h, __m256 a0, __m256 a1, const float *x,
                           int64_t ldx, const int cols, int64_t count)
{
    __m256i live = fg_mask8(count);
    __m256 mask = _mm256_castsi256_ps(live);
    FG_UNROLL
    for (int c = 0; c < cols; c++) {
        __m256 b = _mm256_maskload_ps(x + c * ldx, live);
        __m256 *s0 = &acc[c * 4 + h], *s1 = &acc[c * 4 + 2 + h];
        *s0 = _mm256_blendv_ps(*s0, _mm256_fmadd_ps(a0, b, *s0), mask);
        *s1 = _mm256_blendv_ps(*s1, _mm256_fmadd_ps(a1, b, *s1), mask);
    }
}

// All kinds of tile, for constant type, cols, ahead and out or no out, as in avx512/gemm.c. A
// missing weight row repeats the other and is not stored in y.
FG_INLINE void tile(const enum fg_dtype type, float *y, int64_t ldy, const uint8_t *w,
                    int64_t row_bytes, int rows, const float *x, int64_t ldx, const int cols,
                    struct fg_part part, const bool ahead, float *out, int64_t ldo)
{
    int64_t n = part.n, o1 = rows > 1 ? ldo : 0;
    const uint8_t *w1 = w + (rows > 1 ? row_bytes : 0);
    __m256 acc[NR * MR * 2];
    FG_UNROLL
    for (int i = 0; i < cols * MR * 2; i++)
        acc[i] = part.first ? _mm256_setzero_ps() : _mm256_load_ps(part.carry + 8 * i);

    int64_t k = 0;
    for (; k + 16 <= n; k += 16) {
        if (ahead) {
            int64_t at = MR * row_bytes + k * (int64_t)fg_dtype_bytes(type);
            _mm_prefetch((const char *)(w + at), _MM_HINT_T0);
            _mm_prefetch((const char *)(w1 + at), _MM_HINT_T0);
        }
        __m256 a0 = fg_load8(w, type, k), a1 = fg_load8(w1, type, k);
        half(acc, 0, a0, a1, x + k, ldx, cols);
        if (out) {
            _mm256_store_ps(out + k, a0);
            _mm256_store_ps(out + o1 + k, a1);
        }
        a0 = fg_load8(w, type, k + 8), a1 = fg_load8(w1, type, k + 8);
        half(acc, 1, a0, a1, x + k + 8, ldx, cols);
        if (out) {
            _mm256_store_ps(out + k + 8, a0);
            _mm256_store_ps(out + o1 + k + 8, a1);
        }
    }
    if (k < n) {
        struct fg_padded16 p0, p1;
        fg_pad16(&p0, w, type, k, n - k);
        fg_pad16(&p1, w1, type, k, n - k);
        __m256 a0 = fg_load8(p0.bytes, type, 0), a1 = fg_load8(p1.bytes, type, 0);
        __m256 b0 = fg_load8(p0.bytes, type, 8), b1 = fg_load8(p1.bytes, type, 8);
        half_masked(acc, 0, a0, a1, x + k, ldx, cols, n - k);
        half_masked(acc, 1, b0, b1, x + k + 8, ldx, cols, n - k - 8);
        if (out) { // panel rows are whole lines
            _mm256_store_ps(out + k, a0);
            _mm256_store_ps(out + o1 + k, a1);
            _mm256_store_ps(out + k + 8, b0);
            _mm256_store_ps(out + o1 + k + 8, b1);
        }
    }

    if (part.last) {
        fg_store_sums2(y, ldy, rows, acc, cols);
        return;
    }
    FG_UNROLL
    for (int i = 0; i < cols * MR * 2; i++)
        _mm256_store_ps(part.carry + 8 * i, acc[i]);
}

FG_INLINE void direct(const enum fg_dtype type, float *y, int64_t ldy, const uint8_t *w,
                      int64_t row_bytes, int rows, const float *x, int64_t ldx, const int cols,
                      int64_t n)
{
    struct fg_part whole = {n, NULL, true, true};
    tile(type, y, ldy, w, row_bytes, rows, x, ldx, cols, whole, true, NULL, 0);
}

// Tiles of weights of one type: a function for each cols, for in one function compilers join their
// loops again.
#define DIRECT_TILE(name, type, cols)                                                              \
    static void name##_##cols(float *y, int64_t ldy, const uint8_t *w, int64_t row_bytes,          \
                              int rows, const float *x, int64_t ldx, int cols_, int64_t n)         \
    {                                                                                              \
        (void)cols_;                                                                               \
        direct(type, y, ldy, w, row_bytes, rows, x, ldx, cols, n);                                 \
    }
#define DIRECT_TILES(name, type)                                                                   \
    DIRECT_TILE(name, type, 1)                                                                     \
    DIRECT_TILE(name, type, 2)                                                                     \
    DIRECT_TILE(name, type, 3)                                                                     \
    static void name(float *y, int64_t ldy, const uint8_t *w, int64_t row_bytes, int rows,         \
                     const float *x, int64_t ldx, int cols, int64_t n)                             \
    {                                                                                              \
        static const fg_tile_fn by_cols[NR] = {name##_1, name##_2, name##_3};                      \
        by_cols[cols - 1](y, ldy, w, row_bytes, rows, x, ldx, cols, n);                            \
    }
DIRECT_TILES(fg_tile_f32_f32_avx2, FG_F32)
DIRECT_TILES(fg_tile_f16_f32_avx2, FG_F16)
DIRECT_TILES(fg_tile_bf16_f32_avx2, FG_BF16)
DIRECT_TILES(fg_tile_int8_f32_avx2, FG_INT8)

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
WIDEN_TILE(fg_tile_widen_int8_avx2, FG_INT8)

#define PANEL_TILE(cols)                                                                           \
    static void panel_tile_##cols(float *y, int64_t ldy, const float *panel, int64_t ldp,          \
                                  int rows, const float *x, int64_t ldx, int cols_,                \
                                  struct fg_part part)                                             \
    {                                                                                              \
        (void)cols_;                                                                               \
        tile(FG_F32, y, ldy, (const uint8_t *)panel, 4 * ldp, rows, x, ldx, cols, part, false,     \
             NULL, 0);                                                                             \
    }
PANEL_TILE(1)
PANEL_TILE(2)
PANEL_TILE(3)

static void fg_tile_panel_f32_avx2(float *y, int64_t ldy, const float *panel, int64_t ldp, int rows,
                                   const float *x, int64_t ldx, int cols, struct fg_part part)
{
    static const fg_panel_tile_fn by_cols[NR] = {panel_tile_1, panel_tile_2, panel_tile_3};
    by_cols[cols - 1](y, ldy, panel, ldp, rows, x, ldx, cols, part);
}

static const struct fg_gemm_tiles tiles = {
    .tile = {[FG_F32] = fg_tile_f32_f32_avx2,
             [FG_F16] = fg_tile_f16_f32_avx2,
             [FG_BF16] = fg_tile_bf16_f32_avx2,
             [FG_INT8] = fg_tile_int8_f32_avx2},
    .widen = {[FG_F32] = fg_tile_widen_f32_avx2,
              [FG_F16] = fg_tile_widen_f16_avx2,
              [FG_BF16] = fg_tile_widen_bf16_avx2,
              [FG_INT8] = fg_tile_widen_int8_avx2},
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

static void fg_gemm_int8_f32_avx2(float *y, int64_t ldy, const void *w, int64_t n, int64_t r0,
                                  int64_t r1, const float *x, int64_t ldx, int64_t T, void *scratch)
{
    fg_gemm_blocked(&tiles, FG_INT8, y, ldy, w, n, r0, r1, x, ldx, T, scratch);
}

void fg_fill_dense_avx2(struct fg_kernels *k)
{
    k->gemm[FG_F32] = fg_gemm_f32_f32_avx2;
    k->gemm[FG_F16] = fg_gemm_f16_f32_avx2;
    k->gemm[FG_BF16] = fg_gemm_bf16_f32_avx2;
    k->gemm[FG_INT8] = fg_gemm_int8_f32_avx2;
    k->gemm_bf16_bf16 = fg_gemm_bf16_bf16_avx2;
    k->to_bf16 = fg_to_bf16_avx2;
    k->widen = fg_widen_avx2;
}
