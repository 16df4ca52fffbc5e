// kernels/neon/lut.c: products of quantized weights and their decoding with Advanced SIMD and its
// dot product instructions.
//
// A plane of 16 lanes is four quarters of 4; a quarter of a block of FG_ACT_BLOCK columns is done
// at a time, so the next finds its bytes in L1. Up to FUSED_MAX rows meet the weights as they are
// looked up; for more, a quarter of a block is looked up once into scratch and read by all.
#include "kernels/inline.h"
#include "kernels/levels.h"
#include <arm_neon.h>
#include <string.h>

// Where weights come from: a layout of lut.h, or what was looked up before, of pairs or of single
// rows: units of 16 columns, [4 steps][components][4 lanes][4 columns].
enum { PAIRS = FG_N_LAYOUTS, SINGLES };

enum { FUSED_MAX = 3, T_MAX = 64 }; // rows: see above; of one pass over a group

FG_INLINE int components(const int source)
{
    return source == FG_P6 || source == FG_P4X2 || source == PAIRS ? 2 : 1;
}

FG_INLINE int steps(const int source) // of four columns in a unit
{
    return source == FG_I8 ? 1 : source == FG_P4X2 || source == FG_P4 ? 2 : 4;
}

FG_INLINE int64_t stride(const int source) // bytes from unit to unit
{
    return fg_layout_is_six_bits((enum fg_layout)source) ? 192 : source == PAIRS ? 128 : 64;
}

// Rows that share a pass: as many sums as registers hold.
FG_INLINE int rows_max(const int source)
{
    return components(source) == 2 ? 4 : 8;
}

struct tables {
    int8x16x4_t part[2]; // signed entries; of tables of 16, part[].val[0] is the table
};

static struct tables load_tables(const struct fg_lut *w)
{
    struct tables t;
    for (int c = 0; c < 2; c++) {
        for (int q = 0; q < 4; q++) {
            uint8x16_t biased = vld1q_u8(w->table_u8 + 64 * c + 16 * q);
            t.part[c].val[q] = vreinterpretq_s8_u8(veorq_u8(biased, vdupq_n_u8(128)));
        }
    }
    return t;
}

// The index whose bits are the high two of three planes, lowest first.
FG_INLINE uint8x16_t fourth_index(uint8x16_t a, uint8x16_t b, uint8x16_t c)
{
    return vshrq_n_u8(vsriq_n_u8(vsriq_n_u8(c, b, 2), a, 4), 2);
}

// The weights of a quarter of a unit: w[step][component].
FG_INLINE void load_unit(const int source, int8x16_t w[4][2], const uint8_t *unit,
                         const struct tables *t)
{
    switch (source) {
    case FG_P6:
    case FG_P6X1: {
        uint8x16_t index[4];
        FG_UNROLL
        for (int x = 0; x < 3; x++)
            index[x] = vld1q_u8(unit + 64 * x);
        index[3] = fourth_index(index[0], index[1], index[2]);
        FG_UNROLL
        for (int s = 0; s < 4; s++) {
            uint8x16_t in = s < 3 ? vandq_u8(index[s], vdupq_n_u8(63)) : index[3];
            FG_UNROLL
            for (int c = 0; c < components(source); c++)
                w[s][c] = vqtbl4q_s8(t->part[c], in);
        }
        return;
    }
    case FG_P4X2:
    case FG_P4: {
        uint8x16_t both = vld1q_u8(unit);
        uint8x16_t low = vandq_u8(both, vdupq_n_u8(15)), high = vshrq_n_u8(both, 4);
        FG_UNROLL
        for (int c = 0; c < components(source); c++) {
            w[0][c] = vqtbl1q_s8(t->part[c].val[0], low);
            w[1][c] = vqtbl1q_s8(t->part[c].val[0], high);
        }
        return;
    }
    case FG_I8: w[0][0] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(unit), vdupq_n_u8(128))); return;
    default: // looked up before
        FG_UNROLL
        for (int i = 0; i < 4 * components(source); i++)
            w[i / components(source)][i % components(source)] =
                vreinterpretq_s8_u8(vld1q_u8(unit + 16 * i));
    }
}

// The activations of a unit, four columns to a 32-bit lane.
FG_INLINE int8x16_t load_activations(const int source, const int8_t *x)
{
    if (steps(source) == 4) return vld1q_s8(x);
    if (steps(source) == 2) return vcombine_s8(vld1_s8(x), vdup_n_s8(0));
    int32_t four;
    memcpy(&four, x, sizeof four);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

FG_INLINE int32x4_t dot4(int32x4_t acc, int8x16_t w, int8x16_t x, const int step)
{
    switch (step) { // the instruction holds the lane
    case 0: return vdotq_laneq_s32(acc, w, x, 0);
    case 1: return vdotq_laneq_s32(acc, w, x, 1);
    case 2: return vdotq_laneq_s32(acc, w, x, 2);
    default: return vdotq_laneq_s32(acc, w, x, 3);
    }
}

// What a pass reads and adds to.
struct pass {
    const uint8_t *weights; // quarter of the first unit
    int64_t units;
    const struct tables *tables;
    const int8_t *x; // first row of activations, first column of the block
    int64_t ld;
    const float *sx; // first row, this block
    int64_t n_blocks;
    float *y; // [T][4 quarters][components][4]: sums so far, this quarter
};

FG_INLINE void run_pass(const int source, const int T, const struct pass *p)
{
    const int C = components(source);
    int32x4_t acc[8][2];
    FG_UNROLL
    for (int t = 0; t < T; t++)
        acc[t][0] = acc[t][1] = vdupq_n_s32(0);
    const uint8_t *unit = p->weights;
    const int8_t *x = p->x;
    for (int64_t u = 0; u < p->units; u++) {
        int8x16_t w[4][2];
        load_unit(source, w, unit, p->tables);
        FG_UNROLL
        for (int t = 0; t < T; t++) {
            int8x16_t xs = load_activations(source, x + t * p->ld);
            FG_UNROLL
            for (int i = 0; i < steps(source) * C; i++)
                acc[t][i % C] = dot4(acc[t][i % C], w[i / C][i % C], xs, i / C);
        }
        unit += stride(source);
        x += 4 * steps(source);
    }
    FG_UNROLL
    for (int t = 0; t < T; t++) {
        FG_UNROLL
        for (int c = 0; c < C; c++) {
            float *y = p->y + (t * 4 * C + c) * 4;
            float32x4_t total = vcvtq_f32_s32(acc[t][c]);
            vst1q_f32(y, vfmaq_n_f32(vld1q_f32(y), total, p->sx[t * p->n_blocks]));
        }
    }
}

// T rows in passes of as many as registers allow.
FG_INLINE void run_rows(const int source, int64_t T, struct pass p)
{
    while (T > 0) {
        int64_t rows = T < rows_max(source) ? T : rows_max(source);
        switch (rows) {
        case 1: run_pass(source, 1, &p); break;
        case 2: run_pass(source, 2, &p); break;
        case 3: run_pass(source, 3, &p); break;
        case 4: run_pass(source, 4, &p); break;
        case 5: run_pass(source, 5, &p); break;
        case 6: run_pass(source, 6, &p); break;
        case 7: run_pass(source, 7, &p); break;
        default: run_pass(source, 8, &p); break;
        }
        T -= rows;
        p.x += rows * p.ld;
        p.sx += rows * p.n_blocks;
        p.y += rows * 4 * components(source) * 4;
    }
}

// The weights of a quarter of a block, looked up. Returns how many units of 16 columns; what the
// last holds past the block meets activations of 0.
FG_INLINE int64_t expand(const int layout, int8_t *to, const uint8_t *unit, int64_t units,
                         const struct tables *t)
{
    const int n = steps(layout) * components(layout);
    for (int64_t u = 0; u < units; u++) {
        int8x16_t w[4][2];
        load_unit(layout, w, unit + u * stride(layout), t);
        FG_UNROLL
        for (int i = 0; i < n; i++)
            vst1q_s8(to + (u * n + i) * 16, w[i / components(layout)][i % components(layout)]);
    }
    return (units * steps(layout) + 3) / 4;
}

// Finished sums times scales to y: the rows of a group that there are.
FG_INLINE void finish(const int layout, float *y, int64_t ldy, const float *sums, int64_t T,
                      const float *scale, int64_t rows)
{
    const int C = components(layout);
    for (int64_t t = 0; t < T; t++) {
        for (int quarter = 0; quarter < 4; quarter++) {
            const float *from = sums + (t * 4 + quarter) * C * 4;
            float32x4_t part[2] = {vld1q_f32(from)};
            if (C == 2) { // even and odd rows
                float32x4_t even = part[0], odd = vld1q_f32(from + 4);
                part[0] = vzip1q_f32(even, odd);
                part[1] = vzip2q_f32(even, odd);
            }
            for (int c = 0; c < C; c++) {
                const int64_t r = (quarter * C + c) * 4;
                float done[4];
                if (r >= rows) break;
                vst1q_f32(done, vmulq_f32(part[c], vld1q_f32(scale + r)));
                memcpy(y + t * ldy + r, done, (size_t)(rows - r < 4 ? rows - r : 4) * sizeof *done);
            }
        }
    }
}

// Scratch: sums [T_MAX][32], then looked-up weights of a quarter of a block.
FG_INLINE void gemm(const int layout, float *y, int64_t ldy, const struct fg_lut *w, int64_t g0,
                    int64_t g1, const struct fg_act *x, int64_t t0, int64_t t1, void *scratch)
{
    const enum fg_layout l = (enum fg_layout)layout;
    const int64_t rows = fg_layout_rows(l), cols = fg_layout_unit_cols(l);
    float *sums = scratch;
    int8_t *expanded = (int8_t *)(sums + T_MAX * 32);
    struct tables tables = {0};
    if (l != FG_I8) tables = load_tables(w);
    for (int64_t g = g0; g < g1; g++) {
        const uint8_t *group = w->tiles + g * fg_layout_group_bytes(l, w->n_in);
        for (int64_t t = t0; t < t1; t += T_MAX) {
            const int64_t T = t1 - t < T_MAX ? t1 - t : T_MAX;
            memset(sums, 0, (size_t)(T * rows) * sizeof *sums);
            for (int64_t b = 0; b < x->n_blocks; b++) {
                const int64_t k = b * FG_ACT_BLOCK;
                const int64_t n = w->n_in - k < FG_ACT_BLOCK ? w->n_in - k : FG_ACT_BLOCK;
                for (int quarter = 0; quarter < 4; quarter++) {
                    struct pass p = {
                        .weights = group + k / cols * fg_layout_unit_bytes(l) + 16 * quarter,
                        .units = (n + cols - 1) / cols,
                        .tables = &tables,
                        .x = x->xc + t * x->ld + k,
                        .ld = x->ld,
                        .sx = x->sx + t * x->n_blocks + b,
                        .n_blocks = x->n_blocks,
                        .y = sums + quarter * rows / 4,
                    };
                    if (l == FG_I8) {
                        run_rows(FG_I8, T, p);
                    } else if (T == 1) {
                        run_pass(layout, 1, &p);
                    } else if (T == 2) {
                        run_pass(layout, 2, &p);
                    } else if (T == FUSED_MAX) {
                        run_pass(layout, FUSED_MAX, &p);
                    } else {
                        p.units = expand(layout, expanded, p.weights, p.units, &tables);
                        p.weights = (const uint8_t *)expanded;
                        run_rows(components(layout) == 2 ? PAIRS : SINGLES, T, p);
                    }
                }
            }
            finish(layout, y + t * ldy + g * rows, ldy, sums, T, w->scale_ts + g * rows,
                   w->n_out - g * rows);
        }
    }
}

// The indices of one lane of a unit, a byte each, ascending columns.
FG_INLINE uint8x16_t lane_indices(const enum fg_layout l, const uint8_t *p)
{
    uint32_t words[4] = {0};
    for (int x = 0; x < (fg_layout_is_six_bits(l) ? 3 : 1); x++)
        memcpy(words + x, p + 64 * x, sizeof *words);
    if (fg_layout_is_six_bits(l)) {
        words[3] = (words[0] >> 6 & 0x03030303) | (words[1] >> 4 & 0x0C0C0C0C) |
                   (words[2] >> 2 & 0x30303030);
    } else {
        words[1] = words[0] >> 4;
    }
    return vandq_u8(vreinterpretq_u8_u32(vld1q_u32(words)),
                    vdupq_n_u8(fg_layout_is_six_bits(l) ? 63 : 15));
}

// The FP32 tables as four tables of bytes, lowest first, which TBL can look up.
static void split_table(uint8x16x4_t bytes[4], const float *table)
{
    for (int q = 0; q < 4; q++) {
        uint8x16x4_t part = vld4q_u8((const uint8_t *)(table + 16 * q));
        for (int i = 0; i < 4; i++)
            bytes[i].val[q] = part.val[i];
    }
}

FG_INLINE void decode(const enum fg_layout l, float *out, int64_t ldo, const struct fg_lut *w,
                      int64_t g)
{
    const int64_t cols = fg_layout_unit_cols(l), per_lane = fg_layout_rows(l) / FG_LUT_LANES;
    const uint8_t *group = w->tiles + g * fg_layout_group_bytes(l, w->n_in);
    for (int64_t r = 0; r < fg_layout_rows(l); r++) {
        uint8x16x4_t table[4];
        split_table(table, w->table + 64 * (r % per_lane));
        const uint8_t *unit = group + 4 * (r / per_lane);
        for (int64_t k = 0; k < w->n_in; k += cols, unit += fg_layout_unit_bytes(l)) {
            uint8x16_t index = lane_indices(l, unit);
            uint8x16x4_t bytes;
            for (int i = 0; i < 4; i++)
                bytes.val[i] = vqtbl4q_u8(table[i], index);
            if (w->n_in - k >= 16 && cols == 16) {
                vst4q_u8((uint8_t *)(out + r * ldo + k), bytes);
            } else {
                float some[16];
                vst4q_u8((uint8_t *)some, bytes);
                memcpy(out + r * ldo + k, some,
                       (size_t)(w->n_in - k < cols ? w->n_in - k : cols) * sizeof *some);
            }
        }
    }
}

static void fg_lut_decode_i8_neon(float *out, int64_t ldo, const struct fg_lut *w, int64_t g)
{
    const uint8_t *group = w->tiles + g * fg_layout_group_bytes(FG_I8, w->n_in);
    for (int64_t r = 0; r < FG_LUT_LANES; r++) {
        const uint8_t *unit = group + 4 * r;
        for (int64_t k = 0; k < w->n_in; k++) {
            out[r * ldo + k] = (float)(unit[k % 4] - 128);
            if (k % 4 == 3) unit += 64;
        }
    }
}

#define GEMM(name, layout)                                                                         \
    static void fg_lut_gemm_##name##_neon(float *y, int64_t ldy, const struct fg_lut *w,           \
                                          int64_t g0, int64_t g1, const struct fg_act *x,          \
                                          int64_t t0, int64_t t1, void *scratch)                   \
    {                                                                                              \
        gemm(layout, y, ldy, w, g0, g1, x, t0, t1, scratch);                                       \
    }
#define DECODE(name, layout)                                                                       \
    static void fg_lut_decode_##name##_neon(float *out, int64_t ldo, const struct fg_lut *w,       \
                                            int64_t g)                                             \
    {                                                                                              \
        decode(layout, out, ldo, w, g);                                                            \
    }
GEMM(p6, FG_P6)
GEMM(p4x2, FG_P4X2)
GEMM(p4, FG_P4)
GEMM(i8, FG_I8)
GEMM(p6x1, FG_P6X1)
DECODE(p6, FG_P6)
DECODE(p4x2, FG_P4X2)
DECODE(p4, FG_P4)
DECODE(p6x1, FG_P6X1)

void fg_fill_lut_neon(struct fg_kernels *k)
{
    k->lut_gemm[FG_P6] = fg_lut_gemm_p6_neon;
    k->lut_gemm[FG_P4X2] = fg_lut_gemm_p4x2_neon;
    k->lut_gemm[FG_P4] = fg_lut_gemm_p4_neon;
    k->lut_gemm[FG_I8] = fg_lut_gemm_i8_neon;
    k->lut_gemm[FG_P6X1] = fg_lut_gemm_p6x1_neon;
    k->lut_decode[FG_P6] = fg_lut_decode_p6_neon;
    k->lut_decode[FG_P4X2] = fg_lut_decode_p4x2_neon;
    k->lut_decode[FG_P4] = fg_lut_decode_p4_neon;
    k->lut_decode[FG_I8] = fg_lut_decode_i8_neon;
    k->lut_decode[FG_P6X1] = fg_lut_decode_p6x1_neon;
}
