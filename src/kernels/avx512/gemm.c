// kernels/avx512/gemm.c: exact GEMMs. A tile holds 4 weight rows by up to 6 rows of x, one register
// of 16 lanes for each of the 24 dot products; sixteen registers are then summed together by a tree
// that gives each of them exactly tree() of kernels.h.
#include "kernels/avx512/gemm_dot2.h"
#include "kernels/avx512/reduce.h"
#include "kernels/gemm_block.h"
#include "kernels/levels.h"
#include <assert.h>

#define MR 4
#define NR 6
static_assert(FG_GEMM_ROWS % MR == 0 && FG_GEMM_T_DIRECT >= NR, "whole tiles");

// All kinds of tile, for constant type, cols, ahead and out or no out. Missing weight rows repeat
// the last and are not stored in y. ahead: prefetch the rows after these; a decode step reads
// weights once, and rows are too short for the hardware's prefetchers to get going. out: NULL, or
// where the widened weights go.
FG_INLINE void tile(const enum fg_dtype type, float *y, int64_t ldy, const uint8_t *w,
                    int64_t row_bytes, int rows, const float *x, int64_t ldx, const int cols,
                    struct fg_part part, const bool ahead, float *out, int64_t ldo)
{
    int64_t n = part.n;
    int64_t o1 = rows > 1 ? ldo : 0, o2 = rows > 2 ? o1 + ldo : o1, o3 = rows > 3 ? o2 + ldo : o2;
    const uint8_t *w1 = w + (rows > 1 ? row_bytes : 0);
    const uint8_t *w2 = rows > 2 ? w1 + row_bytes : w1;
    const uint8_t *w3 = rows > 3 ? w2 + row_bytes : w2;
    __m512 acc[NR * MR];
    FG_UNROLL
    for (int i = 0; i < cols * MR; i++)
        acc[i] = part.first ? _mm512_setzero_ps() : _mm512_load_ps(part.carry + 16 * i);

    int64_t k = 0;
    for (; k + 16 <= n; k += 16) {
        __m512 a0 = fg_load16(w, type, k), a1 = fg_load16(w1, type, k);
        __m512 a2 = fg_load16(w2, type, k), a3 = fg_load16(w3, type, k);
        if (out) {
            _mm512_store_ps(out + k, a0);
            _mm512_store_ps(out + o1 + k, a1);
            _mm512_store_ps(out + o2 + k, a2);
            _mm512_store_ps(out + o3 + k, a3);
        }
        if (ahead) {
            int64_t at = MR * row_bytes + k * (int64_t)fg_dtype_bytes(type);
            _mm_prefetch((const char *)(w + at), _MM_HINT_T0);
            _mm_prefetch((const char *)(w1 + at), _MM_HINT_T0);
            _mm_prefetch((const char *)(w2 + at), _MM_HINT_T0);
            _mm_prefetch((const char *)(w3 + at), _MM_HINT_T0);
        }
        FG_UNROLL
        for (int c = 0; c < cols; c++) {
            __m512 b = _mm512_loadu_ps(x + c * ldx + k);
            acc[c * MR + 0] = _mm512_fmadd_ps(a0, b, acc[c * MR + 0]);
            acc[c * MR + 1] = _mm512_fmadd_ps(a1, b, acc[c * MR + 1]);
            acc[c * MR + 2] = _mm512_fmadd_ps(a2, b, acc[c * MR + 2]);
            acc[c * MR + 3] = _mm512_fmadd_ps(a3, b, acc[c * MR + 3]);
        }
    }
    if (k < n) { // masked lanes keep their sum: adding +0 would turn -0 into +0
        __mmask16 tail = fg_mask16(n - k);
        __m512 a0 = fg_load16_masked(w, type, k, tail), a1 = fg_load16_masked(w1, type, k, tail);
        __m512 a2 = fg_load16_masked(w2, type, k, tail), a3 = fg_load16_masked(w3, type, k, tail);
        if (out) { // panel rows are whole lines
            _mm512_store_ps(out + k, a0);
            _mm512_store_ps(out + o1 + k, a1);
            _mm512_store_ps(out + o2 + k, a2);
            _mm512_store_ps(out + o3 + k, a3);
        }
        FG_UNROLL
        for (int c = 0; c < cols; c++) {
            __m512 b = _mm512_maskz_loadu_ps(tail, x + c * ldx + k);
            acc[c * MR + 0] = _mm512_mask3_fmadd_ps(a0, b, acc[c * MR + 0], tail);
            acc[c * MR + 1] = _mm512_mask3_fmadd_ps(a1, b, acc[c * MR + 1], tail);
            acc[c * MR + 2] = _mm512_mask3_fmadd_ps(a2, b, acc[c * MR + 2], tail);
            acc[c * MR + 3] = _mm512_mask3_fmadd_ps(a3, b, acc[c * MR + 3], tail);
        }
    }

    if (!part.last) {
        FG_UNROLL
        for (int i = 0; i < cols * MR; i++)
            _mm512_store_ps(part.carry + 16 * i, acc[i]);
        return;
    }
    fg_store_sums4(y, ldy, rows, acc, cols < 4 ? cols : 4);
    if (cols > 4) fg_store_sums4(y + 4 * ldy, ldy, rows, acc + 16, cols - 4);
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
    DIRECT_TILE(name, type, 4)                                                                     \
    DIRECT_TILE(name, type, 5)                                                                     \
    DIRECT_TILE(name, type, 6)                                                                     \
    static void name(float *y, int64_t ldy, const uint8_t *w, int64_t row_bytes, int rows,         \
                     const float *x, int64_t ldx, int cols, int64_t n)                             \
    {                                                                                              \
        static const fg_tile_fn by_cols[NR] = {name##_1, name##_2, name##_3,                       \
                                               name##_4, name##_5, name##_6};                      \
        by_cols[cols - 1](y, ldy, w, row_bytes, rows, x, ldx, cols, n);                            \
    }
DIRECT_TILES(fg_tile_f32_f32_avx512, FG_F32)
DIRECT_TILES(fg_tile_f16_f32_avx512, FG_F16)
DIRECT_TILES(fg_tile_bf16_f32_avx512, FG_BF16)
DIRECT_TILES(fg_tile_int8_f32_avx512, FG_INT8)

// Tiles of weights of one type that leave a panel.
#define WIDEN_TILE(name, type)                                                                     \
    static void name(float *y, int64_t ldy, const uint8_t *w, int64_t row_bytes, int rows,         \
                     const float *x, int64_t ldx, struct fg_part part, float *panel, int64_t ldp)  \
    {                                                                                              \
        tile(type, y, ldy, w, row_bytes, rows, x, ldx, NR, part, true, panel, ldp);                \
    }
WIDEN_TILE(fg_tile_widen_f32_avx512, FG_F32)
WIDEN_TILE(fg_tile_widen_f16_avx512, FG_F16)
WIDEN_TILE(fg_tile_widen_bf16_avx512, FG_BF16)
WIDEN_TILE(fg_tile_widen_int8_avx512, FG_INT8)

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
PANEL_TILE(4)
PANEL_TILE(5)
PANEL_TILE(6)

static void fg_tile_panel_f32_avx512(float *y, int64_t ldy, const float *panel, int64_t ldp,
                                     int rows, const float *x, int64_t ldx, int cols,
                                     struct fg_part part)
{
    static const fg_panel_tile_fn by_cols[NR] = {panel_tile_1, panel_tile_2, panel_tile_3,
                                                 panel_tile_4, panel_tile_5, panel_tile_6};
    by_cols[cols - 1](y, ldy, panel, ldp, rows, x, ldx, cols, part);
}

static const struct fg_gemm_tiles tiles = {
    .tile = {[FG_F32] = fg_tile_f32_f32_avx512,
             [FG_F16] = fg_tile_f16_f32_avx512,
             [FG_BF16] = fg_tile_bf16_f32_avx512,
             [FG_INT8] = fg_tile_int8_f32_avx512},
    .widen = {[FG_F32] = fg_tile_widen_f32_avx512,
              [FG_F16] = fg_tile_widen_f16_avx512,
              [FG_BF16] = fg_tile_widen_bf16_avx512,
              [FG_INT8] = fg_tile_widen_int8_avx512},
    .panel = fg_tile_panel_f32_avx512,
    .mr = MR,
    .nr = NR,
};

static void fg_gemm_f32_f32_avx512(float *y, int64_t ldy, const void *w, int64_t n, int64_t r0,
                                   int64_t r1, const float *x, int64_t ldx, int64_t T,
                                   void *scratch)
{
    fg_gemm_blocked(&tiles, FG_F32, y, ldy, w, n, r0, r1, x, ldx, T, scratch);
}

static void fg_gemm_f16_f32_avx512(float *y, int64_t ldy, const void *w, int64_t n, int64_t r0,
                                   int64_t r1, const float *x, int64_t ldx, int64_t T,
                                   void *scratch)
{
    fg_gemm_blocked(&tiles, FG_F16, y, ldy, w, n, r0, r1, x, ldx, T, scratch);
}

static void fg_gemm_bf16_f32_avx512(float *y, int64_t ldy, const void *w, int64_t n, int64_t r0,
                                    int64_t r1, const float *x, int64_t ldx, int64_t T,
                                    void *scratch)
{
    fg_gemm_blocked(&tiles, FG_BF16, y, ldy, w, n, r0, r1, x, ldx, T, scratch);
}

static void fg_gemm_int8_f32_avx512(float *y, int64_t ldy, const void *w, int64_t n, int64_t r0,
                                    int64_t r1, const float *x, int64_t ldx, int64_t T,
                                    void *scratch)
{
    fg_gemm_blocked(&tiles, FG_INT8, y, ldy, w, n, r0, r1, x, ldx, T, scratch);
}

void fg_fill_dense_avx512(struct fg_kernels *k)
{
    k->gemm[FG_F32] = fg_gemm_f32_f32_avx512;
    k->gemm[FG_F16] = fg_gemm_f16_f32_avx512;
    k->gemm[FG_BF16] = fg_gemm_bf16_f32_avx512;
    k->gemm[FG_INT8] = fg_gemm_int8_f32_avx512;
    k->gemm_bf16_bf16 = fg_gemm_bf16_bf16_avx512;
    k->to_bf16 = fg_to_bf16_avx512;
    k->widen = fg_widen_avx512;
}
