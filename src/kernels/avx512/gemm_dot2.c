// kernels/avx512/gemm_dot2.c: BF16 times BF16 by two FP32 FMAs for each VDPBF16PS. Flushing of
// subnormals is MXCSR's, set while the lanes are summed and restored before the tree, which does
// not flush. The summing function is not inlined, so that nothing moves across the changes of
// MXCSR.
#include "kernels/avx512/gemm_dot2.h"
#include "kernels/avx512/reduce.h"
#include "kernels/gemm_block.h"

#define MR 4
#define NR 4
#define FLUSH (_MM_FLUSH_ZERO_ON | 0x0040) // and subnormals read as zero

struct lanes {
    _Alignas(64) float at[NR * MR][16];
};

// Pairs as 32-bit lanes: the odd element's upper half is an FP32 in place, the even one's moves up.
FG_INLINE __m512 odd_of(__m512i pairs)
{
    return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(-0x10000)));
}

FG_INLINE __m512 even_of(__m512i pairs)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
}

// One step: the lanes of `live` of cols x 4 dot products.
FG_INLINE void step(__m512 *acc, const __m512i *w, const __m512i *x, const int cols, __mmask16 live)
{
    __m512 odd[MR], even[MR];
    FG_UNROLL
    for (int r = 0; r < MR; r++) {
        odd[r] = odd_of(w[r]);
        even[r] = even_of(w[r]);
    }
    FG_UNROLL
    for (int c = 0; c < cols; c++) {
        __m512 x_odd = odd_of(x[c]), x_even = even_of(x[c]);
        FG_UNROLL
        for (int r = 0; r < MR; r++) {
            __m512 *a = &acc[c * MR + r];
            *a = _mm512_mask3_fmadd_ps(odd[r], x_odd, *a, live);
            *a = _mm512_mask3_fmadd_ps(even[r], x_even, *a, live);
        }
    }
}

FG_INLINE void sum_of(struct lanes *out, const uint8_t *w, int64_t row_bytes, int rows,
                      const uint16_t *x, int64_t ldx, const int cols, int64_t n)
{
    __m512 acc[NR * MR];
    __m512i a[MR], b[NR];
    FG_UNROLL
    for (int i = 0; i < cols * MR; i++)
        acc[i] = _mm512_setzero_ps();
    int64_t at[MR];
    FG_UNROLL
    for (int r = 0; r < MR; r++)
        at[r] = (r < rows ? r : rows - 1) * row_bytes;

    int64_t k = 0;
    for (; k + 32 <= n; k += 32) {
        FG_UNROLL
        for (int r = 0; r < MR; r++)
            a[r] = _mm512_loadu_si512(w + at[r] + 2 * k);
        FG_UNROLL
        for (int c = 0; c < cols; c++)
            b[c] = _mm512_loadu_si512(x + c * ldx + k);
        step(acc, a, b, cols, 0xFFFF);
    }
    if (k < n) {
        __mmask32 elements = (__mmask32)((1u << (n - k)) - 1);
        FG_UNROLL
        for (int r = 0; r < MR; r++)
            a[r] = _mm512_maskz_loadu_epi16(elements, w + at[r] + 2 * k);
        FG_UNROLL
        for (int c = 0; c < cols; c++)
            b[c] = _mm512_maskz_loadu_epi16(elements, x + c * ldx + k);
        step(acc, a, b, cols, fg_mask16((n - k + 1) / 2));
    }
    FG_UNROLL
    for (int i = 0; i < cols * MR; i++)
        _mm512_store_ps(out->at[i], acc[i]);
}

static __attribute__((noinline)) void sum_lanes(struct lanes *out, const uint8_t *w,
                                                int64_t row_bytes, int rows, const uint16_t *x,
                                                int64_t ldx, int cols, int64_t n)
{
    switch (cols) {
    case 1: sum_of(out, w, row_bytes, rows, x, ldx, 1, n); break;
    case 2: sum_of(out, w, row_bytes, rows, x, ldx, 2, n); break;
    case 3: sum_of(out, w, row_bytes, rows, x, ldx, 3, n); break;
    default: sum_of(out, w, row_bytes, rows, x, ldx, 4, n); break;
    }
}

static void fg_tile_bf16_bf16_avx512(float *y, int64_t ldy, const uint8_t *w, int64_t row_bytes,
                                     int rows, const uint16_t *x, int64_t ldx, int cols, int64_t n)
{
    struct lanes lanes;
    unsigned csr = _mm_getcsr();
    _mm_setcsr(csr | FLUSH);
    sum_lanes(&lanes, w, row_bytes, rows, x, ldx, cols, n);
    _mm_setcsr(csr);

    for (int c = 0; c < cols; c++) {
        __m512 acc[MR];
        FG_UNROLL
        for (int r = 0; r < MR; r++)
            acc[r] = _mm512_load_ps(lanes.at[c * MR + r]);
        fg_store_sums4(y + c * ldy, ldy, rows, acc, 1);
    }
}

void fg_gemm_bf16_bf16_avx512(float *y, int64_t ldy, const void *w, int64_t n, int64_t r0,
                              int64_t r1, const uint16_t *x, int64_t ldx, int64_t T, void *scratch)
{
    (void)scratch;
    fg_gemm_bf16_blocked(fg_tile_bf16_bf16_avx512, MR, NR, y, ldy, w, n, r0, r1, x, ldx, T);
}
