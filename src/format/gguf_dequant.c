// Every product below is one rounding and no product is fused with a sum (-ffp-contract=off).
#include "format/gguf_dequant.h"
#include "base/num.h"
#include "format/gguf.h"

bool fg_gguf_can_dequant(uint32_t type)
{
    switch (type) {
    case FG_GGML_F32:
    case FG_GGML_F16:
    case FG_GGML_BF16:
    case FG_GGML_Q4_0:
    case FG_GGML_Q4_1:
    case FG_GGML_Q8_0:
    case FG_GGML_Q4_K:
    case FG_GGML_Q6_K: return true;
    default: return false;
    }
}

static uint16_t u16_at(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static float f16_at(const uint8_t *p)
{
    return fg_f16_to_f32(u16_at(p));
}

// 18 bytes: d, 16 bytes of nibbles; the low ones are weights 0..15, the high ones 16..31.
static void q4_0(const uint8_t *b, float *y)
{
    float d = f16_at(b);
    for (int j = 0; j < 16; j++) {
        y[j] = d * (float)((b[2 + j] & 15) - 8);
        y[j + 16] = d * (float)((b[2 + j] >> 4) - 8);
    }
}

// 20 bytes: d, m, nibbles as in Q4_0.
static void q4_1(const uint8_t *b, float *y)
{
    float d = f16_at(b), m = f16_at(b + 2);
    for (int j = 0; j < 16; j++) {
        y[j] = d * (float)(b[4 + j] & 15) + m;
        y[j + 16] = d * (float)(b[4 + j] >> 4) + m;
    }
}

// 34 bytes: d, 32 signed bytes.
static void q8_0(const uint8_t *b, float *y)
{
    float d = f16_at(b);
    for (int j = 0; j < 32; j++) {
        y[j] = d * (float)(int8_t)b[2 + j];
    }
}

// 144 bytes: d, dmin, 12 bytes of eight 6-bit (scale, min) pairs, 128 bytes of nibbles. Bytes
// 32i..32i+31 of the nibbles hold group 2i (low) and group 2i+1 (high).
static void q4_k(const uint8_t *b, float *y)
{
    float d = f16_at(b), dmin = f16_at(b + 2);
    const uint8_t *s = b + 4, *q = b + 16;
    for (int j = 0; j < 8; j++) {
        int c, m;
        if (j < 4) {
            c = s[j] & 63;
            m = s[j + 4] & 63;
        } else {
            c = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
            m = s[j + 4] >> 4 | (s[j] >> 6) << 4;
        }
        float scale = d * (float)c, min = dmin * (float)m;
        const uint8_t *group = q + 32 * (j / 2);
        int shift = j % 2 ? 4 : 0;
        for (int k = 0; k < 32; k++) {
            y[32 * j + k] = scale * (float)(group[k] >> shift & 15) - min;
        }
    }
}

// 210 bytes: 128 bytes of low nibbles, 64 bytes of upper bit pairs, 16 signed scales, d. Each half
// of 128 weights has four runs of 32, whose codes share the bytes ql[l], ql[l+32] and qh[l].
static void q6_k(const uint8_t *b, float *y)
{
    float d = f16_at(b + 208);
    for (int half = 0; half < 2; half++) {
        const uint8_t *ql = b + 64 * half, *qh = b + 128 + 32 * half, *sc = b + 192 + 8 * half;
        for (int run = 0; run < 4; run++) {
            for (int l = 0; l < 32; l++) {
                int low = ql[l + 32 * (run & 1)] >> (run >= 2 ? 4 : 0) & 15;
                int code = (low | (qh[l] >> (2 * run) & 3) << 4) - 32;
                float scale = d * (float)(int8_t)sc[l / 16 + 2 * run];
                y[128 * half + 32 * run + l] = scale * (float)code;
            }
        }
    }
}

void fg_gguf_dequant_row(uint32_t type, const void *src, float *dst, uint64_t n)
{
    const uint8_t *p = src;
    void (*block)(const uint8_t *, float *) = NULL;
    uint64_t weights = 1, bytes = 0;
    fg_gguf_type_block(type, &weights, &bytes);
    switch (type) {
    case FG_GGML_F32: memcpy(dst, src, n * sizeof *dst); return;
    case FG_GGML_F16:
        for (uint64_t i = 0; i < n; i++) {
            dst[i] = f16_at(p + 2 * i);
        }
        return;
    case FG_GGML_BF16:
        for (uint64_t i = 0; i < n; i++) {
            dst[i] = fg_bf16_to_f32(u16_at(p + 2 * i));
        }
        return;
    case FG_GGML_Q4_0: block = q4_0; break;
    case FG_GGML_Q4_1: block = q4_1; break;
    case FG_GGML_Q8_0: block = q8_0; break;
    case FG_GGML_Q4_K: block = q4_k; break;
    case FG_GGML_Q6_K: block = q6_k; break;
    default: return;
    }
    for (uint64_t i = 0; i < n; i += weights) {
        block(p, dst + i);
        p += bytes;
    }
}
