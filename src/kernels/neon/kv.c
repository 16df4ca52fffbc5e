// kernels/neon/kv.c: rows of keys and values to their stored form (kv.h). A row is converted as a
// whole; where its elements go in the page is plain stores, each of its own bytes only, since other
// threads may store their rows beside them.
#include "kernels/neon/kv.h"
#include "base/num.h"
#include "kernels/neon/math.h"
#include <string.h>

#define F16_MAX 65504.0f

// h [W] of x [W].
static void round_row(uint16_t *h, const float *x, int64_t W)
{
    const float32x4_t most = vdupq_n_f32(F16_MAX);
    for (int64_t d = 0; d < W; d += 4) {
        float32x4_t v = vmaxq_f32(vminq_f32(vld1q_f32(x + d), most), vnegq_f32(most));
        vst1_u16(h + d, vreinterpret_u16_f16(vcvt_f16_f32(v)));
    }
}

// Codes of 8 numbers: rint(x / s), half to even, within +-127.
static int8x8_t codes8(float32x4_t x, float32x4_t y, float32x4_t s)
{
    int16x4_t lo = vqmovn_s32(vcvtnq_s32_f32(vdivq_f32(x, s)));
    int16x4_t hi = vqmovn_s32(vcvtnq_s32_f32(vdivq_f32(y, s)));
    return vmax_s8(vqmovn_s16(vcombine_s16(lo, hi)), vdup_n_s8(-127));
}

// Codes [W] of x [W]; returns the scale. Codes need their limits because scales below the smallest
// normal FP16 are coarse.
static uint16_t quantize_row(int8_t *code, const float *x, int64_t W)
{
    uint16_t h[FG_KV_WIDTH_MAX];
    float wide[FG_KV_WIDTH_MAX];
    round_row(h, x, W);
    float32x4_t most = vdupq_n_f32(0);
    for (int64_t d = 0; d < W; d += 4) {
        float32x4_t v = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(h + d)));
        vst1q_f32(wide + d, v);
        most = vmaxq_f32(most, vabsq_f32(v));
    }
    const float least = vmaxvq_f32(most) / 127.0f;
    const uint16_t scale = fg_f16_of_f32(least > 1e-6f ? least : 1e-6f);
    const float32x4_t s = vdupq_n_f32(fg_f16_to_f32(scale));
    for (int64_t d = 0; d < W; d += 8)
        vst1_s8(code + d, codes8(vld1q_f32(wide + d), vld1q_f32(wide + d + 4), s));
    return scale;
}

static void store_keys(const struct fg_kv_head *h, int64_t pos, const float *x)
{
    const int64_t W = fg_kv_width(h->D), t = pos % FG_KV_PAGE;
    uint8_t *page = h->k + pos / FG_KV_PAGE * fg_kv_k_page_bytes(h->format, h->D);
    if (fg_kv_k8(h->format)) {
        int8_t code[FG_KV_WIDTH_MAX];
        h->ks[pos] = quantize_row(code, x, W);
        uint8_t *to = page + t / 16 * W * 16 + t % 16 * 4;
        for (int64_t d = 0; d < W; d += 4) {
            uint32_t four;
            memcpy(&four, code + d, 4);
            four ^= 0x80808080;
            memcpy(to + d * 16, &four, 4);
        }
    } else if (h->format == FG_KV_F32) {
        float *to = (float *)page + t / 16 * W * 16 + t % 16;
        for (int64_t d = 0; d < W; d++)
            to[d * 16] = x[d];
    } else {
        uint16_t row[FG_KV_WIDTH_MAX], *to = (uint16_t *)page + t / 16 * W * 16 + t % 16;
        round_row(row, x, W);
        for (int64_t d = 0; d < W; d++)
            to[d * 16] = row[d];
    }
}

static void store_values(const struct fg_kv_head *h, int64_t pos, const float *x)
{
    const int64_t W = fg_kv_width(h->D), t = pos % FG_KV_PAGE;
    uint8_t *page = h->v + pos / FG_KV_PAGE * fg_kv_v_page_bytes(h->format, h->D);
    if (fg_kv_v8(h->format)) {
        int8_t code[FG_KV_WIDTH_MAX];
        h->vs[pos] = quantize_row(code, x, W);
        uint8_t *to = page + t / 4 * 128 + t % 4;
        for (int64_t d0 = 0; d0 < W; d0 += 32, to += FG_KV_PAGE * 32)
            for (int64_t d = 0; d < 32; d++)
                to[d * 4] = (uint8_t)code[d0 + d];
    } else if (h->format == FG_KV_F32) {
        memcpy(page + t * W * 4, x, (size_t)W * sizeof *x);
    } else {
        round_row((uint16_t *)page + t * W, x, W);
    }
}
// x[D] with zeros up to W. False when a number is NaN or infinite.
static bool pad_row(float row[FG_KV_WIDTH_MAX], const float *x, int64_t D, int64_t W)
{
    memcpy(row, x, (size_t)D * sizeof *x);
    memset(row + D, 0, (size_t)(W - D) * sizeof *x);
    uint32x4_t most = vdupq_n_u32(0); // magnitudes as integers order like floats
    for (int64_t i = 0; i < W; i += 4) {
        uint32x4_t v = vreinterpretq_u32_f32(vld1q_f32(row + i));
        most = vmaxq_u32(most, vandq_u32(v, vdupq_n_u32(0x7FFFFFFF)));
    }
    return vmaxvq_u32(most) < 0x7F800000;
}

bool fg_kv_store_neon(const struct fg_kv_head *h, int64_t pos, const float *k, const float *v)
{
    const int64_t W = fg_kv_width(h->D);
    float keys[FG_KV_WIDTH_MAX], values[FG_KV_WIDTH_MAX];
    if (!pad_row(keys, k, h->D, W) || !pad_row(values, v, h->D, W)) return false;
    store_keys(h, pos, keys);
    store_values(h, pos, values);
    return true;
}
