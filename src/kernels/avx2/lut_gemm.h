// kernels/avx2/lut_gemm.h: the fast product of lut.h in 256-bit registers: with VPDPBUSD where the
// flags of the file that includes it have AVX-VNNI, with AVX2 alone elsewhere.
//
// A plane of 16 lanes is two halves of 8; a half of a block of FG_ACT_BLOCK columns is done at a
// time, so the second half finds its bytes in L1. Up to FUSED_MAX rows meet the weights as they
// are looked up; for more, a half of a block is looked up once into scratch and read by all.
#ifndef FG_KERNELS_AVX2_LUT_GEMM_H
#define FG_KERNELS_AVX2_LUT_GEMM_H
#include "kernels/avx2/dot4.h"
#include "kernels/avx2/math.h"
#include "kernels/inline.h"
#include "kernels/lut.h"
#include <string.h>

#ifdef __AVXVNNI__
#define FG_LUT_BIASED true // weights + 128 are the unsigned operand
#else
#define FG_LUT_BIASED false
#endif

// Where weights come from: a layout of lut.h, or what was looked up before, of pairs or of single
// rows: [columns / 4][components][8 lanes][4 columns].
enum { FG_LUT_PAIRS = FG_N_LAYOUTS, FG_LUT_SINGLES };

enum { FG_LUT_FUSED_MAX = 3, FG_LUT_T_MAX = 64 }; // rows: see above; of one pass over a group

FG_INLINE int fg_lut_components(const int source)
{
    return source == FG_P6 || source == FG_P4X2 || source == FG_LUT_PAIRS ? 2 : 1;
}

FG_INLINE int fg_lut_steps(const int source) // of four columns in a unit
{
    return fg_layout_is_six_bits((enum fg_layout)source) ? 4
           : source == FG_P4X2 || source == FG_P4        ? 2
                                                         : 1;
}

FG_INLINE int64_t fg_lut_stride(const int source) // bytes from unit to unit
{
    return fg_layout_is_six_bits((enum fg_layout)source) ? 192 : source == FG_LUT_SINGLES ? 32 : 64;
}

// Rows that share a pass over looked-up weights: as many sums as registers hold.
FG_INLINE int fg_lut_rows(const int source)
{
    return FG_LUT_BIASED && fg_lut_components(source) == 1 ? 8 : 4;
}

// A table of 64 bytes as four quarters that are xor-ed: where index i lies in quarter q, those of
// q .. 3 are taken, and each but the last holds its quarter xor the next.
struct fg_lut_tables {
    __m256i part[2][4]; // tables of 16 entries: part[][0] is the table
};

FG_INLINE struct fg_lut_tables fg_lut_load_tables(const int layout, const struct fg_lut *w)
{
    struct fg_lut_tables t;
    const __m256i bias = _mm256_set1_epi8(FG_LUT_BIASED ? 0 : -128);
    for (int c = 0; c < 2; c++) {
        __m256i quarter[5];
        quarter[4] = _mm256_setzero_si256();
        for (int q = 0; q < 4; q++) {
            const __m128i *from = (const __m128i *)(w->table_u8 + 64 * c + 16 * q);
            quarter[q] = _mm256_xor_si256(_mm256_broadcastsi128_si256(_mm_loadu_si128(from)), bias);
        }
        for (int q = 0; q < 4; q++)
            t.part[c][q] = fg_layout_is_six_bits((enum fg_layout)layout)
                               ? _mm256_xor_si256(quarter[q], quarter[q + 1])
                               : quarter[0];
    }
    return t;
}

// Entries of 32 indices below 64, of C components: VPSHUFB gives 0 where the top bit of an index is
// set.
FG_INLINE void fg_lut_look_up64(const int C, __m256i w[2], const struct fg_lut_tables *t,
                                __m256i index)
{
    __m256i in0 = _mm256_add_epi8(index, _mm256_set1_epi8(0x70));
    __m256i in1 = _mm256_add_epi8(index, _mm256_set1_epi8(0x60));
    __m256i in2 = _mm256_add_epi8(index, _mm256_set1_epi8(0x50));
    FG_UNROLL
    for (int c = 0; c < C; c++) {
        __m256i first = _mm256_xor_si256(_mm256_shuffle_epi8(t->part[c][0], in0),
                                         _mm256_shuffle_epi8(t->part[c][1], in1));
        __m256i second = _mm256_xor_si256(_mm256_shuffle_epi8(t->part[c][2], in2),
                                          _mm256_shuffle_epi8(t->part[c][3], index));
        w[c] = _mm256_xor_si256(first, second);
    }
}

FG_INLINE __m256i fg_lut_load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

// The weights of one half of a unit: w[step][component].
FG_INLINE void fg_lut_unit(const int source, __m256i w[4][2], const uint8_t *unit,
                           const struct fg_lut_tables *t)
{
    const __m256i six = _mm256_set1_epi8(63), four = _mm256_set1_epi8(15);
    switch (source) {
    case FG_P6:
    case FG_P6X1: {
        const int C = fg_lut_components(source);
        __m256i plane[3], index3;
        FG_UNROLL
        for (int x = 0; x < 3; x++)
            plane[x] = fg_lut_load(unit + 64 * x);
        index3 = _mm256_and_si256(_mm256_srli_epi16(plane[0], 6), _mm256_set1_epi8(0x03));
        index3 = _mm256_or_si256(
            index3, _mm256_and_si256(_mm256_srli_epi16(plane[1], 4), _mm256_set1_epi8(0x0C)));
        index3 = _mm256_or_si256(
            index3, _mm256_and_si256(_mm256_srli_epi16(plane[2], 2), _mm256_set1_epi8(0x30)));
        FG_UNROLL
        for (int x = 0; x < 3; x++)
            fg_lut_look_up64(C, w[x], t, _mm256_and_si256(plane[x], six));
        fg_lut_look_up64(C, w[3], t, index3);
        return;
    }
    case FG_P4X2:
    case FG_P4: {
        __m256i both = fg_lut_load(unit);
        __m256i low = _mm256_and_si256(both, four);
        __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), four);
        FG_UNROLL
        for (int c = 0; c < fg_lut_components(source); c++) {
            w[0][c] = _mm256_shuffle_epi8(t->part[c][0], low);
            w[1][c] = _mm256_shuffle_epi8(t->part[c][0], high);
        }
        return;
    }
    case FG_I8:
        w[0][0] = _mm256_xor_si256(fg_lut_load(unit), _mm256_set1_epi8(FG_LUT_BIASED ? 0 : -128));
        return;
    default: // looked up before
        FG_UNROLL
        for (int c = 0; c < fg_lut_components(source); c++)
            w[0][c] = fg_lut_load(unit + 32 * c);
    }
}

// acc + the products of four columns in each lane.
FG_INLINE __m256i fg_lut_dot4(__m256i acc, __m256i w, __m256i x)
{
#ifdef __AVXVNNI__
    return fg_dot4_avx2(acc, w, x);
#else
    // |w| is at most 128 and |x| 127, so two products fit 16 bits.
    __m256i two = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(two, _mm256_set1_epi16(1)));
#endif
}

// What a pass reads and adds to.
struct fg_lut_pass {
    const uint8_t *weights; // half of the first unit
    int64_t units;
    const struct fg_lut_tables *tables;
    const int8_t *x; // first row of activations, first column of the block
    int64_t ld;
    const float *sx; // first row, this block
    const int32_t *sum;
    int64_t n_blocks;
    float *y; // [T][2 halves][components][8]: sums so far, this half
};

FG_INLINE void fg_lut_pass(const int source, const int T, const struct fg_lut_pass *p)
{
    const int C = fg_lut_components(source), steps = fg_lut_steps(source);
    // VPDPBUSD has a latency of five: independent sums over units where rows are few.
    const int chains = !FG_LUT_BIASED || T * C > 3 ? 1 : T * C > 1 ? 2 : 4;
    __m256i acc[4][8][2];
    FG_UNROLL
    for (int i = 0; i < chains * T; i++)
        acc[i / T][i % T][0] = acc[i / T][i % T][1] = _mm256_setzero_si256();
    const uint8_t *unit = p->weights;
    const int8_t *x = p->x;
    int64_t left = p->units;
    while (left > 0) {
        FG_UNROLL
        for (int chain = 0; chain < chains; chain++) {
            if (chain > 0 && left <= chain) break;
            __m256i w[4][2];
            fg_lut_unit(source, w, unit, p->tables);
            FG_UNROLL
            for (int i = 0; i < steps * T; i++) {
                const int s = i / T, t = i % T;
                int32_t four;
                memcpy(&four, x + t * p->ld + 4 * s, sizeof four);
                __m256i xs = _mm256_set1_epi32(four);
                FG_UNROLL
                for (int c = 0; c < C; c++)
                    acc[chain][t][c] = fg_lut_dot4(acc[chain][t][c], w[s][c], xs);
            }
            unit += fg_lut_stride(source);
            x += 4 * steps;
        }
        left -= chains;
    }
    FG_UNROLL
    for (int t = 0; t < T; t++) {
        const __m256 sx = _mm256_set1_ps(p->sx[t * p->n_blocks]);
        FG_UNROLL
        for (int c = 0; c < C; c++) {
            __m256i total = acc[0][t][c];
            if (FG_LUT_BIASED)
                total = _mm256_add_epi32(total, _mm256_set1_epi32(-128 * p->sum[t * p->n_blocks]));
            FG_UNROLL
            for (int chain = 1; chain < chains; chain++)
                total = _mm256_add_epi32(total, acc[chain][t][c]);
            float *y = p->y + (t * 2 * C + c) * 8;
            _mm256_storeu_ps(y, _mm256_fmadd_ps(_mm256_cvtepi32_ps(total), sx, _mm256_loadu_ps(y)));
        }
    }
}

// T rows in passes of as many as registers allow.
FG_INLINE void fg_lut_rows_pass(const int source, int64_t T, struct fg_lut_pass p)
{
    while (T > 0) {
        int64_t rows = T < fg_lut_rows(source) ? T : fg_lut_rows(source);
        switch (rows) {
        case 1: fg_lut_pass(source, 1, &p); break;
        case 2: fg_lut_pass(source, 2, &p); break;
        case 3: fg_lut_pass(source, 3, &p); break;
        case 4: fg_lut_pass(source, 4, &p); break;
        case 5: fg_lut_pass(source, 5, &p); break;
        case 6: fg_lut_pass(source, 6, &p); break;
        case 7: fg_lut_pass(source, 7, &p); break;
        default: fg_lut_pass(source, 8, &p); break;
        }
        T -= rows;
        p.x += rows * p.ld;
        p.sx += rows * p.n_blocks;
        p.sum += rows * p.n_blocks;
        p.y += rows * 2 * fg_lut_components(source) * 8;
    }
}

// The weights of a half of a block, looked up. Returns how many units of the new source.
FG_INLINE int64_t fg_lut_expand(const int layout, uint8_t *to, const uint8_t *unit, int64_t units,
                                const struct fg_lut_tables *t)
{
    const int C = fg_lut_components(layout), steps = fg_lut_steps(layout);
    for (int64_t u = 0; u < units; u++) {
        __m256i w[4][2];
        fg_lut_unit(layout, w, unit + u * fg_lut_stride(layout), t);
        FG_UNROLL
        for (int i = 0; i < steps * C; i++)
            _mm256_store_si256((__m256i *)(to + (u * steps * C + i) * 32), w[i / C][i % C]);
    }
    return units * steps;
}

// Finished sums times scales to y: the rows of a group that there are.
FG_INLINE void fg_lut_finish(const int layout, float *y, int64_t ldy, const float *sums, int64_t T,
                             const float *scale, int64_t rows)
{
    const int C = fg_lut_components(layout);
    for (int64_t t = 0; t < T; t++) {
        for (int half = 0; half < 2; half++) {
            const float *from = sums + (t * 2 + half) * C * 8;
            __m256 part[2] = {_mm256_loadu_ps(from)};
            if (C == 2) { // even and odd rows
                __m256 odd = _mm256_loadu_ps(from + 8);
                __m256 low = _mm256_unpacklo_ps(part[0], odd);
                __m256 high = _mm256_unpackhi_ps(part[0], odd);
                part[0] = _mm256_permute2f128_ps(low, high, 0x20);
                part[1] = _mm256_permute2f128_ps(low, high, 0x31);
            }
            for (int c = 0; c < C; c++) {
                int64_t r = (half * C + c) * 8;
                if (r < rows)
                    fg_store_avx2(y + t * ldy + r, rows - r,
                                  _mm256_mul_ps(part[c], _mm256_loadu_ps(scale + r)));
            }
        }
    }
}

// Scratch: sums [FG_LUT_T_MAX][32], then looked-up weights of a half of a block.
FG_INLINE void fg_lut_gemm(const int layout, float *y, int64_t ldy, const struct fg_lut *w,
                           int64_t g0, int64_t g1, const struct fg_act *x, int64_t t0, int64_t t1,
                           void *scratch)
{
    const enum fg_layout l = (enum fg_layout)layout;
    const int64_t rows = fg_layout_rows(l), cols = fg_layout_unit_cols(l);
    float *sums = scratch;
    uint8_t *expanded = (uint8_t *)(sums + FG_LUT_T_MAX * 32);
    struct fg_lut_tables tables = {0};
    if (l != FG_I8) tables = fg_lut_load_tables(layout, w);
    for (int64_t g = g0; g < g1; g++) {
        const uint8_t *group = w->tiles + g * fg_layout_group_bytes(l, w->n_in);
        for (int64_t t = t0; t < t1; t += FG_LUT_T_MAX) {
            const int64_t T = t1 - t < FG_LUT_T_MAX ? t1 - t : FG_LUT_T_MAX;
            memset(sums, 0, (size_t)(T * rows) * sizeof *sums);
            for (int64_t b = 0; b < x->n_blocks; b++) {
                const int64_t k = b * FG_ACT_BLOCK;
                const int64_t n = w->n_in - k < FG_ACT_BLOCK ? w->n_in - k : FG_ACT_BLOCK;
                for (int half = 0; half < 2; half++) {
                    struct fg_lut_pass p = {
                        .weights = group + k / cols * fg_layout_unit_bytes(l) + 32 * half,
                        .units = (n + cols - 1) / cols,
                        .tables = &tables,
                        .x = x->xc + t * x->ld + k,
                        .ld = x->ld,
                        .sx = x->sx + t * x->n_blocks + b,
                        .sum = x->sum + t * x->n_blocks + b,
                        .n_blocks = x->n_blocks,
                        .y = sums + half * rows / 2,
                    };
                    if (l == FG_I8) {
                        fg_lut_rows_pass(FG_I8, T, p);
                    } else if (T == 1) {
                        fg_lut_pass(layout, 1, &p);
                    } else if (T == 2) {
                        fg_lut_pass(layout, 2, &p);
                    } else if (T == FG_LUT_FUSED_MAX) {
                        fg_lut_pass(layout, FG_LUT_FUSED_MAX, &p);
                    } else {
                        p.units = fg_lut_expand(layout, expanded, p.weights, p.units, &tables);
                        p.weights = expanded;
                        fg_lut_rows_pass(
                            fg_lut_components(layout) == 2 ? FG_LUT_PAIRS : FG_LUT_SINGLES, T, p);
                    }
                }
            }
            fg_lut_finish(layout, y + t * ldy + g * rows, ldy, sums, T, w->scale_ts + g * rows,
                          w->n_out - g * rows);
        }
    }
}
#endif
