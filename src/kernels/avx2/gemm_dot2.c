// kernels/avx2/gemm_dot2.c: BF16 times BF16 in the order of dot2, by two FP32 FMAs for each pair.
// See avx512/gemm_dot2.c for MXCSR.
#include "kernels/avx2/gemm_dot2.h"
#include "kernels/avx2/reduce.h"
#include "kernels/gemm_block.h"

#define MR 2
#define NR 2
#define FLUSH (_MM_FLUSH_ZERO_ON | 0x0040) // and subnormals read as zero

struct lanes {
    _Alignas(32) float at[NR * MR * 2][8]; // column, row, half
};

FG_INLINE __m256i load_pairs(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

FG_INLINE __m256 odd_of(__m256i pairs)
{
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-0x10000)));
}

FG_INLINE __m256 even_of(__m256i pairs)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}

// acc plus one pair in each of eight lanes.
FG_INLINE __m256 add_pairs(__m256 acc, __m256i w, __m256i x)
{
    acc = _mm256_fmadd_ps(odd_of(w), odd_of(x), acc);
    return _mm256_fmadd_ps(even_of(w), even_of(x), acc);
}

FG_INLINE void sum_of(struct lanes *out, const uint8_t *w, int64_t row_bytes, int rows,
                      const uint16_t *x, int64_t ldx, const int cols, int64_t n)
{
    __m256 acc[NR * MR * 2];
    FG_UNROLL
    for (int i = 0; i < cols * MR * 2; i++)
        acc[i] = _mm256_setzero_ps();
    int64_t at[MR] = {0, rows > 1 ? row_bytes : 0};

    int64_t k = 0;
    for (; k + 32 <= n; k += 32) {
        FG_UNROLL
        for (int i = 0; i < cols * MR * 2; i++) {
            int c = i / (MR * 2), r = i / 2 % MR, h = i % 2;
            acc[i] = add_pairs(acc[i], load_pairs(w + at[r] + 2 * (k + 16 * h)),
                               load_pairs(x + c * ldx + k + 16 * h));
        }
    }
    if (k < n) {
        uint16_t pw[MR][32] = {0}, px[NR][32] = {0};
        FG_UNROLL
        for (int r = 0; r < MR; r++)
            memcpy(pw[r], w + at[r] + 2 * k, 2 * (size_t)(n - k));
        FG_UNROLL
        for (int c = 0; c < cols; c++)
            memcpy(px[c], x + c * ldx + k, 2 * (size_t)(n - k));
        FG_UNROLL
        for (int i = 0; i < cols * MR * 2; i++) {
            int c = i / (MR * 2), r = i / 2 % MR, h = i % 2;
            __m256 live = _mm256_castsi256_ps(fg_mask8((n - k + 1) / 2 - 8 * h));
            __m256 sum = add_pairs(acc[i], load_pairs(pw[r] + 16 * h), load_pairs(px[c] + 16 * h));
            acc[i] = _mm256_blendv_ps(acc[i], sum, live);
        }
    }
    FG_UNROLL
    for (int i = 0; i < cols * MR * 2; i++)
        _mm256_store_ps(out->at[i], acc[i]);
}

static __attribute__((noinline)) void sum_lanes(struct lanes *out, const uint8_t *w,
                                                int64_t row_bytes, int rows, const uint16_t *x,
                                                int64_t ldx, int cols, int64_t n)
{
    if (cols == 1)
        sum_of(out, w, row_bytes, rows, x, ldx, 1, n);
    else
        sum_of(out, w, row_bytes, rows, x, ldx, 2, n);
}

static void fg_tile_bf16_bf16_avx2(float *y, int64_t ldy, const uint8_t *w, int64_t row_bytes,
                                   int rows, const uint16_t *x, int64_t ldx, int cols, int64_t n)
{
    struct lanes lanes;
    unsigned csr = _mm_getcsr();
    _mm_setcsr(csr | FLUSH);
    sum_lanes(&lanes, w, row_bytes, rows, x, ldx, cols, n);
    _mm_setcsr(csr);

    for (int c = 0; c < cols; c++) {
        __m256 acc[MR * 2];
        FG_UNROLL
        for (int i = 0; i < MR * 2; i++)
            acc[i] = _mm256_load_ps(lanes.at[c * MR * 2 + i]);
        fg_store_sums2(y + c * ldy, ldy, rows, acc, 1);
    }
}

void fg_gemm_bf16_bf16_avx2(float *y, int64_t ldy, const void *w, int64_t n, int64_t r0, int64_t r1,
                            const uint16_t *x, int64_t ldx, int64_t T, void *scratch)
{
    (void)scratch;
    fg_gemm_bf16_blocked(fg_tile_bf16_bf16_avx2, MR, NR, y, ldy, w, n, r0, r1, x, ldx, T);
}
