// kernels/avx512/lut_vnni.c: the fast product of quantized weights (lut.h) by VPERMB and VPDPBUSD.
// Lanes are output rows, so sums need no adding across. Weights are looked up with 128 added, as
// unsigned bytes, and meet four activations of a row from memory; 128 times the sum of the
// activations comes off at the end of a block. Up to 16 accumulators: so many rows times components
// in one pass over a block, or several sets of sums for few rows, whose chains hide the latency.
#include "kernels/avx512/lut_vnni.h"
#include "kernels/avx512/dot4.h"
#include "kernels/avx512/lut_tile.h"
#include "kernels/levels.h"
#include <string.h>

#define ACCS 16
#define SETS_MAX 8
#define PREFETCH_BYTES 4096 // a page: what the cores' own prefetchers stop at
#define CHUNK 2048          // rows of activations whose sums lie in scratch

// One block of columns for T rows: sums[t][component][lane] = fma(acc, sx, sums).
struct block {
    float *sums;
    const uint8_t *units;
    int64_t n_units;
    const int8_t *x; // [T], stride ld
    const float *sx; // [T], stride n_blocks, and so is sum
    const int32_t *sum;
    int64_t ld, n_blocks;
    const struct fg_lut *w;
};
typedef void (*block_fn)(const struct block *b);

// Adds one unit to the accumulators [set][t][component]; `first` is the number of its first index
// register, which decides the set.
FG_INLINE void add_unit(const enum fg_layout l, const int T, const int sets, __m512i *acc,
                        const int first, const uint8_t *unit, const int8_t *x, int64_t ld,
                        const __m512i table[2])
{
    const int regs = regs_per_unit(l), comps = rows_per_lane(l);
    __m512i index[LUT_REGS_MAX];
    unit_indices(l, index, unit);
    FG_UNROLL_FULL
    for (int line = 0; line < fg_layout_unit_bytes(l); line += 64)
        _mm_prefetch((const char *)unit + line + PREFETCH_BYTES, _MM_HINT_T1);
    FG_UNROLL_FULL
    for (int j = 0; j < regs; j++) {
        __m512i *a = acc + (first + j) % sets * T * comps;
        const __m512i q[2] = {look_up(l, index[j], table[0]),
                              comps == 2 ? look_up(l, index[j], table[1]) : table[1]};
        FG_UNROLL_FULL
        for (int i = 0; i < T * comps; i++) {
            int32_t four;
            memcpy(&four, x + i / comps * ld + 4 * j, sizeof four);
            a[i] = fg_dot4_avx512(a[i], q[i % comps], _mm512_set1_epi32(four));
        }
    }
}

FG_INLINE void add_block(const enum fg_layout l, const int T, const struct block *b)
{
    const int regs = regs_per_unit(l), comps = rows_per_lane(l);
    const int unit_bytes = (int)fg_layout_unit_bytes(l), unit_cols = 4 * regs;
    const int room = ACCS / (T * comps);
    // Sets only where few sums leave the chains short of work; of units of four registers no more
    // than make eight sums of few rows, which clang 14 keeps in registers.
    const int sets = room < 4                       ? 1
                     : T == 1 && room >= SETS_MAX   ? SETS_MAX
                     : regs == 4 && room < SETS_MAX ? 2
                                                    : 4;
    const int at_once = sets > regs ? sets / regs : 1;
    __m512i table[2], acc[ACCS];
    load_tables(l, table, b->w);
    FG_UNROLL_FULL
    for (int i = 0; i < sets * T * comps; i++)
        acc[i] = _mm512_setzero_si512();
    const uint8_t *unit = b->units, *end = unit + b->n_units * unit_bytes;
    const int8_t *x = b->x;
    for (; end - unit >= at_once * unit_bytes; unit += at_once * unit_bytes) {
        FG_UNROLL_FULL
        for (int u = 0; u < at_once; u++)
            add_unit(l, T, sets, acc, u * regs, unit + u * unit_bytes, x + u * unit_cols, b->ld,
                     table);
        x += at_once * unit_cols;
    }
    for (; unit < end; unit += unit_bytes, x += unit_cols)
        add_unit(l, T, sets, acc, 0, unit, x, b->ld, table);
    FG_UNROLL_FULL
    for (int i = 0; i < T * comps; i++) {
        __m512i exact = _mm512_set1_epi32(-128 * b->sum[i / comps * b->n_blocks]);
        FG_UNROLL_FULL
        for (int s = 0; s < sets; s++)
            exact = _mm512_add_epi32(exact, acc[s * T * comps + i]);
        __m512 sx = _mm512_set1_ps(b->sx[i / comps * b->n_blocks]);
        float *sums = b->sums + i * FG_LUT_LANES;
        _mm512_store_ps(sums, _mm512_fmadd_ps(_mm512_cvtepi32_ps(exact), sx, _mm512_load_ps(sums)));
    }
}

#define BLOCK(name, l, T)                                                                          \
    static void block_##name##_##T(const struct block *b)                                          \
    {                                                                                              \
        add_block(l, T, b);                                                                        \
    }
#define BLOCKS_8(name, l)                                                                          \
    BLOCK(name, l, 1)                                                                              \
    BLOCK(name, l, 2)                                                                              \
    BLOCK(name, l, 3)                                                                              \
    BLOCK(name, l, 4)                                                                              \
    BLOCK(name, l, 5)                                                                              \
    BLOCK(name, l, 6)                                                                              \
    BLOCK(name, l, 7)                                                                              \
    BLOCK(name, l, 8)
BLOCKS_8(p6, FG_P6)
BLOCKS_8(p4x2, FG_P4X2)
BLOCKS_8(p4, FG_P4)
BLOCK(p4, FG_P4, 12)
BLOCK(p4, FG_P4, 16)
BLOCKS_8(i8, FG_I8)
BLOCK(i8, FG_I8, 12)
BLOCK(i8, FG_I8, 16)
BLOCKS_8(p6x1, FG_P6X1)
BLOCK(p6x1, FG_P6X1, 12)
BLOCK(p6x1, FG_P6X1, 16)

#define NAMES_8(name)                                                                              \
    NULL, block_##name##_1, block_##name##_2, block_##name##_3, block_##name##_4,                  \
        block_##name##_5, block_##name##_6, block_##name##_7, block_##name##_8
static const block_fn blocks[FG_N_LAYOUTS][ACCS + 1] = {
    [FG_P6] = {NAMES_8(p6)},
    [FG_P4X2] = {NAMES_8(p4x2)},
    [FG_P4] = {NAMES_8(p4), [12] = block_p4_12, [16] = block_p4_16},
    [FG_I8] = {NAMES_8(i8), [12] = block_i8_12, [16] = block_i8_16},
    [FG_P6X1] = {NAMES_8(p6x1), [12] = block_p6x1_12, [16] = block_p6x1_16},
};

// Rows of the next pass when `left` remain: few passes, of even size.
FG_INLINE int64_t pass_rows(const enum fg_layout l, int64_t left)
{
    if (left <= 8) return left;
    if (rows_per_lane(l) == 2) return left >= 16 ? 8 : (left + 1) / 2;
    return left >= 16 ? 16 : left >= 12 ? 12 : (left + 1) / 2;
}

FG_INLINE void gemm_chunk(const enum fg_layout l, float *y, int64_t ldy, const struct fg_lut *w,
                          int64_t g0, int64_t g1, const struct fg_act *x, int64_t t0, int64_t T,
                          float *sums)
{
    const int64_t rows = fg_layout_rows(l), unit_cols = fg_layout_unit_cols(l);
    for (int64_t g = g0; g < g1; g++) {
        const uint8_t *group = w->tiles + g * fg_layout_group_bytes(l, w->n_in);
        memset(sums, 0, (size_t)(T * rows) * sizeof *sums);
        for (int64_t at = 0, i = 0; at < w->n_in; at += FG_ACT_BLOCK, i++) {
            int64_t cols = w->n_in - at < FG_ACT_BLOCK ? w->n_in - at : FG_ACT_BLOCK;
            struct block b = {.units = group + at / unit_cols * fg_layout_unit_bytes(l),
                              .n_units = (cols + unit_cols - 1) / unit_cols,
                              .ld = x->ld,
                              .n_blocks = x->n_blocks,
                              .w = w};
            for (int64_t t = 0, n; t < T; t += n) {
                n = pass_rows(l, T - t);
                b.sums = sums + t * rows;
                b.x = x->xc + (t0 + t) * x->ld + at;
                b.sx = x->sx + (t0 + t) * x->n_blocks + i;
                b.sum = x->sum + (t0 + t) * x->n_blocks + i;
                blocks[l][n](&b);
            }
        }
        for (int64_t t = 0; t < T; t++)
            store_rows(l, y + (t0 + t) * ldy + g * rows, w->scale_ts + g * rows, sums + t * rows,
                       w->n_out - g * rows);
    }
}

FG_INLINE void gemm(const enum fg_layout l, float *y, int64_t ldy, const struct fg_lut *w,
                    int64_t g0, int64_t g1, const struct fg_act *x, int64_t t0, int64_t t1,
                    void *scratch)
{
    for (int64_t t = t0; t < t1; t += CHUNK)
        gemm_chunk(l, y, ldy, w, g0, g1, x, t, t1 - t < CHUNK ? t1 - t : CHUNK, scratch);
}

#define LAYOUT(name, l)                                                                            \
    void fg_lut_gemm_##name##_avx512vnni(float *y, int64_t ldy, const struct fg_lut *w,            \
                                         int64_t g0, int64_t g1, const struct fg_act *x,           \
                                         int64_t t0, int64_t t1, void *scratch)                    \
    {                                                                                              \
        gemm(l, y, ldy, w, g0, g1, x, t0, t1, scratch);                                            \
    }
LAYOUT(p6, FG_P6)
LAYOUT(p4x2, FG_P4X2)
LAYOUT(p4, FG_P4)
LAYOUT(i8, FG_I8)
LAYOUT(p6x1, FG_P6X1)

void fg_fill_lut_avx512vnni(struct fg_kernels *k)
{
    k->lut_gemm[FG_P6] = fg_lut_gemm_p6_avx512vnni;
    k->lut_gemm[FG_P4X2] = fg_lut_gemm_p4x2_avx512vnni;
    k->lut_gemm[FG_P4] = fg_lut_gemm_p4_avx512vnni;
    k->lut_gemm[FG_I8] = fg_lut_gemm_i8_avx512vnni;
    k->lut_gemm[FG_P6X1] = fg_lut_gemm_p6x1_avx512vnni;
}
