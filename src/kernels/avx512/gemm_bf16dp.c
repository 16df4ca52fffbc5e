// kernels/avx512/gemm_bf16dp.c: BF16 times BF16 by VDPBF16PS, whose order dot2 of kernels.h writes
// down. The instruction ignores MXCSR: it always flushes and rounds to nearest.
#include "kernels/avx512/reduce.h"
#include "kernels/gemm_block.h"
#include "kernels/levels.h"

#define MR 4
#define NR 6

FG_INLINE __m512bh load32(const void *p)
{
    return (__m512bh)_mm512_loadu_si512(p);
}

FG_INLINE __m512bh load32_masked(const void *p, __mmask32 mask)
{
    return (__m512bh)_mm512_maskz_loadu_epi16(mask, p);
}

// fg_tile_bf16_fn for constant cols. Missing weight rows repeat the last and are not stored.
FG_INLINE void tile(float *y, int64_t ldy, const uint8_t *w, int64_t row_bytes, int rows,
                    const uint16_t *x, int64_t ldx, const int cols, int64_t n)
{
    const uint8_t *w1 = w + (rows > 1 ? row_bytes : 0);
    const uint8_t *w2 = rows > 2 ? w1 + row_bytes : w1;
    const uint8_t *w3 = rows > 3 ? w2 + row_bytes : w2;
    __m512 acc[NR * MR];
    FG_UNROLL
    for (int i = 0; i < cols * MR; i++)
        acc[i] = _mm512_setzero_ps();

    int64_t k = 0;
    for (; k + 32 <= n; k += 32) {
        __m512bh a0 = load32(w + 2 * k), a1 = load32(w1 + 2 * k);
        __m512bh a2 = load32(w2 + 2 * k), a3 = load32(w3 + 2 * k);
        int64_t ahead = MR * row_bytes + 2 * k; // the rows after these, as in gemm.c
        _mm_prefetch((const char *)(w + ahead), _MM_HINT_T0);
        _mm_prefetch((const char *)(w1 + ahead), _MM_HINT_T0);
        _mm_prefetch((const char *)(w2 + ahead), _MM_HINT_T0);
        _mm_prefetch((const char *)(w3 + ahead), _MM_HINT_T0);
        FG_UNROLL
        for (int c = 0; c < cols; c++) {
            __m512bh b = load32(x + c * ldx + k);
            acc[c * MR + 0] = _mm512_dpbf16_ps(acc[c * MR + 0], a0, b);
            acc[c * MR + 1] = _mm512_dpbf16_ps(acc[c * MR + 1], a1, b);
            acc[c * MR + 2] = _mm512_dpbf16_ps(acc[c * MR + 2], a2, b);
            acc[c * MR + 3] = _mm512_dpbf16_ps(acc[c * MR + 3], a3, b);
        }
    }
    if (k < n) { // masked lanes keep their sum: adding +0 would turn -0 into +0
        __mmask32 some = (__mmask32)((1u << (n - k)) - 1);
        __mmask16 live = fg_mask16((n - k + 1) / 2);
        __m512bh a0 = load32_masked(w + 2 * k, some), a1 = load32_masked(w1 + 2 * k, some);
        __m512bh a2 = load32_masked(w2 + 2 * k, some), a3 = load32_masked(w3 + 2 * k, some);
        FG_UNROLL
        for (int c = 0; c < cols; c++) {
            __m512bh b = load32_masked(x + c * ldx + k, some);
            acc[c * MR + 0] = _mm512_mask_dpbf16_ps(acc[c * MR + 0], live, a0, b);
            acc[c * MR + 1] = _mm512_mask_dpbf16_ps(acc[c * MR + 1], live, a1, b);
            acc[c * MR + 2] = _mm512_mask_dpbf16_ps(acc[c * MR + 2], live, a2, b);
            acc[c * MR + 3] = _mm512_mask_dpbf16_ps(acc[c * MR + 3], live, a3, b);
        }
    }
    fg_store_sums4(y, ldy, rows, acc, cols < 4 ? cols : 4);
    if (cols > 4) fg_store_sums4(y + 4 * ldy, ldy, rows, acc + 16, cols - 4);
}

static void fg_tile_bf16_bf16_avx512bf16(float *y, int64_t ldy, const uint8_t *w, int64_t row_bytes,
                                         int rows, const uint16_t *x, int64_t ldx, int cols,
                                         int64_t n)
{
    switch (cols) {
    case 1: tile(y, ldy, w, row_bytes, rows, x, ldx, 1, n); break;
    case 2: tile(y, ldy, w, row_bytes, rows, x, ldx, 2, n); break;
    case 3: tile(y, ldy, w, row_bytes, rows, x, ldx, 3, n); break;
    case 4: tile(y, ldy, w, row_bytes, rows, x, ldx, 4, n); break;
    case 5: tile(y, ldy, w, row_bytes, rows, x, ldx, 5, n); break;
    default: tile(y, ldy, w, row_bytes, rows, x, ldx, 6, n); break;
    }
}

static void fg_gemm_bf16_bf16_avx512bf16(float *y, int64_t ldy, const void *w, int64_t n,
                                         int64_t r0, int64_t r1, const uint16_t *x, int64_t ldx,
                                         int64_t T, void *scratch)
{
    (void)scratch;
    fg_gemm_bf16_blocked(fg_tile_bf16_bf16_avx512bf16, MR, NR, y, ldy, w, n, r0, r1, x, ldx, T);
}

void fg_fill_dense_avx512bf16(struct fg_kernels *k)
{
    k->gemm_bf16_bf16 = fg_gemm_bf16_bf16_avx512bf16;
}
