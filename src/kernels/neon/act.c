// kernels/neon/act.c: rotation and quantization of activations (lut.h), 4 lanes at a time.
#include "kernels/butterflies.h"
#include "kernels/inline.h"
#include "kernels/levels.h"
#include "kernels/neon/math.h"
#include "kernels/ref/act.h"
#include "kernels/ref/lanes.h"
#include <math.h>
#include <string.h>

// The stages h = 1 and 2 inside a register. A fused multiply-add of the exchanged lanes and +-v
// rounds once, as the b + a and a - b that it stands for.
FG_INLINE float32x4_t inside(float32x4_t v)
{
    static const float pm1[4] = {1, -1, 1, -1}, pm2[4] = {1, 1, -1, -1};
    v = vfmaq_f32(vrev64q_f32(v), v, vld1q_f32(pm1));
    return vfmaq_f32(vextq_f32(v, v, 2), v, vld1q_f32(pm2));
}

// x[0..8) with the signs of one byte.
FG_INLINE void load_signed(float32x4_t v[2], const float *x, uint8_t signs)
{
    static const int32_t to_top[8] = {31, 30, 29, 28, 27, 26, 25, 24};
    FG_UNROLL
    for (int i = 0; i < 2; i++) {
        uint32x4_t flip = vshlq_u32(vdupq_n_u32(signs), vld1q_s32(to_top + 4 * i));
        flip = vandq_u32(flip, vdupq_n_u32(0x80000000));
        uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(x + 4 * i));
        v[i] = vreinterpretq_f32_u32(veorq_u32(bits, flip));
    }
}

FG_BUTTERFLIES(float32x4_t)

// Signs and the stages h < 4 * R of 4 * R columns, times scale when these are all.
FG_INLINE void first_stages(const int R, const bool all, float *y, const float *x,
                            const uint8_t *signs, float scale)
{
    float32x4_t v[16];
    FG_UNROLL
    for (int i = 0; i < R; i += 2) {
        load_signed(v + i, x + 4 * i, signs[i / 2]);
        v[i] = inside(v[i]);
        v[i + 1] = inside(v[i + 1]);
    }
    between(R, v);
    FG_UNROLL
    for (int i = 0; i < R; i++)
        vst1q_f32(y + 4 * i, all ? vmulq_n_f32(v[i], scale) : v[i]);
}

// The stages h, 2h .. below R * h of a block of B columns; with the last, times scale.
FG_INLINE void later_stages(const int R, const bool last, float *y, int64_t B, int64_t h,
                            float scale)
{
    for (int64_t at = 0; at < B; at += R * h) {
        for (int64_t i = at; i < at + h; i += 4) {
            float32x4_t v[16];
            FG_UNROLL
            for (int j = 0; j < R; j++)
                v[j] = vld1q_f32(y + i + j * h);
            between(R, v);
            FG_UNROLL
            for (int j = 0; j < R; j++)
                vst1q_f32(y + i + j * h, last ? vmulq_n_f32(v[j], scale) : v[j]);
        }
    }
}

static void fg_rotate_neon(float *y, const float *x, const uint8_t *signs, int64_t n, int64_t B)
{
    const float scale = (float)(1.0 / sqrt((double)B));
    if (B <= 64) {
        for (int64_t i = 0; i < n; i += B) {
            switch (B) {
            case 8: first_stages(2, true, y + i, x + i, signs + i / 8, scale); break;
            case 16: first_stages(4, true, y + i, x + i, signs + i / 8, scale); break;
            case 32: first_stages(8, true, y + i, x + i, signs + i / 8, scale); break;
            default: first_stages(16, true, y + i, x + i, signs + i / 8, scale); break;
            }
        }
        return;
    }
    for (int64_t at = 0; at < n; at += B) {
        for (int64_t i = at; i < at + B; i += 64)
            first_stages(16, false, y + i, x + i, signs + i / 8, scale);
        switch (B) {
        case 128: later_stages(2, true, y + at, B, 64, scale); break;
        case 256: later_stages(4, true, y + at, B, 64, scale); break;
        case 512: later_stages(8, true, y + at, B, 64, scale); break;
        default: later_stages(16, true, y + at, B, 64, scale); break;
        }
    }
}

// Largest magnitude, NaN when x holds NaN or infinity; as integers, magnitudes order like floats.
static float magnitude(const float *x, int64_t n)
{
    const uint32x4_t bits = vdupq_n_u32(0x7FFFFFFF);
    uint32x4_t most[2] = {vdupq_n_u32(0), vdupq_n_u32(0)};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        FG_UNROLL
        for (int j = 0; j < 2; j++) {
            uint32x4_t v = vreinterpretq_u32_f32(vld1q_f32(x + i + 4 * j));
            most[j] = vmaxq_u32(most[j], vandq_u32(v, bits));
        }
    }
    uint32_t m = vmaxvq_u32(vmaxq_u32(most[0], most[1]));
    for (; i < n; i++) {
        uint32_t u = fg_bits_of_f32(x[i]) & 0x7FFFFFFF;
        m = u > m ? u : m;
    }
    return fg_act_magnitude(m);
}

FG_INLINE int8x16_t pack(const int32x4_t c[4])
{
    int16x8_t low = vcombine_s16(vqmovn_s32(c[0]), vqmovn_s32(c[1]));
    int16x8_t high = vcombine_s16(vqmovn_s32(c[2]), vqmovn_s32(c[3]));
    return vcombine_s8(vqmovn_s16(low), vqmovn_s16(high));
}

// Codes of 16 values, added to the sums.
FG_INLINE int8x16_t codes16(int32x4_t *sum, const float *x, float inv)
{
    int32x4_t c[4];
    FG_UNROLL
    for (int j = 0; j < 4; j++) {
        c[j] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * j), inv));
        *sum = vaddq_s32(*sum, c[j]);
    }
    return pack(c);
}

static void fg_quantize_neon(int8_t *xc, float *sx, int32_t *sum, const float *x, int64_t n)
{
    const float m = magnitude(x, n);
    if (fg_act_empty(xc, sx, sum, n, m)) return;
    const float inv = 127.0f / m;
    int32x4_t total = vdupq_n_s32(0);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        vst1q_s8(xc + i, codes16(&total, x + i, inv));
    if (i < n) {
        float some[16] = {0};
        int8_t codes[16];
        memcpy(some, x + i, (size_t)(n - i) * sizeof *x);
        vst1q_s8(codes, codes16(&total, some, inv));
        memcpy(xc + i, codes, (size_t)(n - i));
    }
    *sum = vaddvq_s32(total);
    *sx = m / 127.0f;
}

// Two digits of base 255 of 16 values. Products and differences are whole numbers below 2^24, so
// exact.
FG_INLINE void digits16(int8_t *hi, int8_t *lo, int32x4_t sum[2], const float *x, float inv)
{
    int32x4_t h[4], l[4];
    FG_UNROLL
    for (int j = 0; j < 4; j++) {
        float32x4_t v = vrndnq_f32(vmulq_n_f32(vld1q_f32(x + 4 * j), inv));
        float32x4_t high = vrndnq_f32(vmulq_n_f32(v, 1.0f / 255.0f));
        h[j] = vcvtnq_s32_f32(high);
        l[j] = vcvtnq_s32_f32(vfmsq_f32(v, high, vdupq_n_f32(255.0f)));
        sum[0] = vaddq_s32(sum[0], h[j]);
        sum[1] = vaddq_s32(sum[1], l[j]);
    }
    vst1q_s8(hi, pack(h));
    vst1q_s8(lo, pack(l));
}

static void fg_quantize2_neon(int8_t *hi, int8_t *lo, float sx[2], int32_t sum[2], const float *x,
                              int64_t n)
{
    const float m = magnitude(x, n);
    if (fg_act_empty(hi, &sx[0], &sum[0], n, m)) {
        fg_act_empty(lo, &sx[1], &sum[1], n, m);
        return;
    }
    const float inv = 32512.0f / m;
    int32x4_t total[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        digits16(hi + i, lo + i, total, x + i, inv);
    if (i < n) {
        float some[16] = {0};
        int8_t h[16], l[16];
        memcpy(some, x + i, (size_t)(n - i) * sizeof *x);
        digits16(h, l, total, some, inv);
        memcpy(hi + i, h, (size_t)(n - i));
        memcpy(lo + i, l, (size_t)(n - i));
    }
    sum[0] = vaddvq_s32(total[0]);
    sum[1] = vaddvq_s32(total[1]);
    sx[1] = m / 32512.0f;
    sx[0] = 255.0f * sx[1];
}

static float fg_sum_exp_neon(const float *x, float m, int64_t n)
{
    float32x4_t sum[4];
    float lane[16];
    FG_UNROLL
    for (int j = 0; j < 4; j++)
        sum[j] = vdupq_n_f32(0);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        FG_UNROLL
        for (int j = 0; j < 4; j++) {
            float32x4_t v = vsubq_f32(vld1q_f32(x + i + 4 * j), vdupq_n_f32(m));
            sum[j] = vaddq_f32(sum[j], fg_exp_neon(v));
        }
    }
    for (int j = 0; j < 4; j++)
        vst1q_f32(lane + 4 * j, sum[j]);
    for (; i < n; i++)
        lane[i % 16] += fg_exp_f32(x[i] - m);
    return fg_tree(lane);
}

void fg_fill_act_neon(struct fg_kernels *k)
{
    k->rotate = fg_rotate_neon;
    k->quantize = fg_quantize_neon;
    k->quantize2 = fg_quantize2_neon;
    k->sum_exp = fg_sum_exp_neon;
}
