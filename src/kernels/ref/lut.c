// kernels/ref/lut.c: the plain C truth of kernels/lut.h.
#include "base/num.h"
#include "kernels/inline.h"
#include "kernels/levels.h"
#include "kernels/ref/lanes.h"
#include "kernels/ref/math.h"
#include <math.h>
#include <string.h>

// Index (FG_I8: code + 128) of lane p, column k of a group's stream.
FG_INLINE int entry(const enum fg_layout l, const uint8_t *group, int p, int64_t k)
{
    const uint8_t *unit = group + k / fg_layout_unit_cols(l) * fg_layout_unit_bytes(l) + 4 * p;
    int c = (int)(k % fg_layout_unit_cols(l));
    switch (l) {
    case FG_P6:
    case FG_P6X1:
        if (c < 12) return unit[64 * (c / 4) + c % 4] & 63;
        c -= 12;
        return unit[c] >> 6 | unit[64 + c] >> 6 << 2 | unit[128 + c] >> 6 << 4;
    case FG_I8: return unit[c];
    default: return c < 4 ? unit[c] & 15 : unit[c - 4] >> 4;
    }
}

FG_INLINE void gemm(const enum fg_layout l, float *y, int64_t ldy, const struct fg_lut *w,
                    int64_t g0, int64_t g1, const struct fg_act *x, int64_t t0, int64_t t1)
{
    const int64_t rows = fg_layout_rows(l), per_lane = rows / FG_LUT_LANES;
    for (int64_t r = g0 * rows; r < g1 * rows && r < w->n_out; r++) {
        const uint8_t *group = w->tiles + r / rows * fg_layout_group_bytes(l, w->n_in);
        const int p = (int)(r % rows / per_lane), c = (int)(r % per_lane);
        for (int64_t t = t0; t < t1; t++) {
            float sum = 0;
            for (int64_t b = 0; b < x->n_blocks; b++) {
                int64_t end = b * FG_ACT_BLOCK + FG_ACT_BLOCK;
                int32_t acc = 0;
                for (int64_t k = b * FG_ACT_BLOCK; k < end && k < w->n_in; k++) {
                    int i = entry(l, group, p, k);
                    int q = (l == FG_I8 ? i : w->table_u8[64 * c + i]) - 128;
                    acc += q * x->xc[t * x->ld + k];
                }
                sum = fmaf((float)acc, x->sx[t * x->n_blocks + b], sum);
            }
            y[t * ldy + r] = sum * w->scale_ts[r];
        }
    }
}

FG_INLINE void decode(const enum fg_layout l, float *out, int64_t ldo, const struct fg_lut *w,
                      int64_t g)
{
    const int64_t rows = fg_layout_rows(l), per_lane = rows / FG_LUT_LANES;
    const uint8_t *group = w->tiles + g * fg_layout_group_bytes(l, w->n_in);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t k = 0; k < w->n_in; k++) {
            int i = entry(l, group, (int)(r / per_lane), k);
            out[r * ldo + k] = l == FG_I8 ? (float)(i - 128) : w->table[64 * (r % per_lane) + i];
        }
    }
}

#define LAYOUT(name, l)                                                                            \
    static void fg_lut_gemm_##name##_ref(float *y, int64_t ldy, const struct fg_lut *w,            \
                                         int64_t g0, int64_t g1, const struct fg_act *x,           \
                                         int64_t t0, int64_t t1, void *scratch)                    \
    {                                                                                              \
        (void)scratch;                                                                             \
        gemm(l, y, ldy, w, g0, g1, x, t0, t1);                                                     \
    }                                                                                              \
    static void fg_lut_decode_##name##_ref(float *out, int64_t ldo, const struct fg_lut *w,        \
                                           int64_t g)                                              \
    {                                                                                              \
        decode(l, out, ldo, w, g);                                                                 \
    }
LAYOUT(p6, FG_P6)
LAYOUT(p4x2, FG_P4X2)
LAYOUT(p4, FG_P4)
LAYOUT(i8, FG_I8)
LAYOUT(p6x1, FG_P6X1)

static void fg_rotate_ref(float *y, const float *x, const uint8_t *signs, int64_t n, int64_t B)
{
    const float scale = (float)(1.0 / sqrt((double)B));
    for (int64_t i = 0; i < n; i++)
        y[i] = signs[i / 8] >> (i % 8) & 1 ? -x[i] : x[i];
    for (int64_t at = 0; at < n; at += B) {
        float *v = y + at;
        for (int64_t h = 1; h < B; h *= 2) {
            for (int64_t i = 0; i < B; i++) {
                if (i & h) continue;
                float a = v[i], b = v[i + h];
                v[i] = a + b;
                v[i + h] = a - b;
            }
        }
        for (int64_t i = 0; i < B; i++)
            v[i] *= scale;
    }
}

#define TINY 0x1p-100f

// Largest magnitude; NaN when x holds NaN or infinity. As integers, magnitudes order like floats.
static float magnitude(const float *x, int64_t n)
{
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = fg_bits_of_f32(x[i]) & 0x7FFFFFFF;
        if (u > most) most = u;
    }
    return most >= 0x7F800000 ? NAN : fg_f32_of_bits(most);
}

static void fg_quantize_ref(int8_t *xc, float *sx, int32_t *sum, const float *x, int64_t n)
{
    const float m = magnitude(x, n);
    *sum = 0;
    if (!(m >= TINY)) {
        memset(xc, 0, (size_t)n);
        *sx = isnan(m) ? m : 0;
        return;
    }
    const float inv = 127.0f / m;
    for (int64_t i = 0; i < n; i++) {
        xc[i] = (int8_t)rintf(x[i] * inv);
        *sum += xc[i];
    }
    *sx = m / 127.0f;
}

static void fg_quantize2_ref(int8_t *hi, int8_t *lo, float sx[2], int32_t sum[2], const float *x,
                             int64_t n)
{
    const float m = magnitude(x, n);
    sum[0] = sum[1] = 0;
    if (!(m >= TINY)) {
        memset(hi, 0, (size_t)n);
        memset(lo, 0, (size_t)n);
        sx[0] = sx[1] = isnan(m) ? m : 0;
        return;
    }
    const float inv = 32512.0f / m;
    for (int64_t i = 0; i < n; i++) {
        float v = rintf(x[i] * inv);
        float h = rintf(v * (1.0f / 255.0f)); // v is whole, so v / 255 is never halfway
        hi[i] = (int8_t)h;
        lo[i] = (int8_t)(v - 255.0f * h);
        sum[0] += hi[i];
        sum[1] += lo[i];
    }
    sx[1] = m / 32512.0f;
    sx[0] = 255.0f * sx[1];
}

static float fg_sum_exp_ref(const float *x, float m, int64_t n)
{
    float lane[16] = {0};
    for (int64_t i = 0; i < n; i++)
        lane[i % 16] += fg_exp_f32(x[i] - m);
    return fg_tree(lane);
}

void fg_fill_lut_ref(struct fg_kernels *k)
{
    k->lut_gemm[FG_P6] = fg_lut_gemm_p6_ref;
    k->lut_gemm[FG_P4X2] = fg_lut_gemm_p4x2_ref;
    k->lut_gemm[FG_P4] = fg_lut_gemm_p4_ref;
    k->lut_gemm[FG_I8] = fg_lut_gemm_i8_ref;
    k->lut_gemm[FG_P6X1] = fg_lut_gemm_p6x1_ref;
    k->lut_decode[FG_P6] = fg_lut_decode_p6_ref;
    k->lut_decode[FG_P4X2] = fg_lut_decode_p4x2_ref;
    k->lut_decode[FG_P4] = fg_lut_decode_p4_ref;
    k->lut_decode[FG_I8] = fg_lut_decode_i8_ref;
    k->lut_decode[FG_P6X1] = fg_lut_decode_p6x1_ref;
}

void fg_fill_act_ref(struct fg_kernels *k)
{
    k->rotate = fg_rotate_ref;
    k->quantize = fg_quantize_ref;
    k->quantize2 = fg_quantize2_ref;
    k->sum_exp = fg_sum_exp_ref;
}

uint64_t fg_lut_scratch_bytes(int64_t n_in)
{
    // A group decoded to FP32 for the exact product is the most that anyone needs; AMX takes tiles
    // of weights and sums of a block of rows.
    uint64_t exact = 2 * FG_LUT_LANES * (uint64_t)((n_in + 15) / 16 * 16) * sizeof(float);
    uint64_t amx = 512 << 10;
    return exact > amx ? exact : amx;
}
