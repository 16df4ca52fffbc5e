// Every product below is one rounding and no product is fused with a sum (-ffp-contract=off).
#include "format/gguf_dequant.h"
#include "format/gguf.h"
#include "format/gguf_dequant_impl.h"

// 18 bytes: d, 16 bytes of nibbles; the low ones are weights 0..15, the high ones 16..31.
static void q4_0(const uint8_t *b, float *y)
{
    float d = fg_gguf_f16_at(b);
    for (int j = 0; j < 16; j++) {
        y[j] = d * (float)((b[2 + j] & 15) - 8);
        y[j + 16] = d * (float)((b[2 + j] >> 4) - 8);
    }
}

// 20 bytes: d, m, nibbles as in Q4_0.
static void q4_1(const uint8_t *b, float *y)
{
    float d = fg_gguf_f16_at(b), m = fg_gguf_f16_at(b + 2);
    for (int j = 0; j < 16; j++) {
        y[j] = d * (float)(b[4 + j] & 15) + m;
        y[j + 16] = d * (float)(b[4 + j] >> 4) + m;
    }
}

// 22 bytes: d, a word of fifth bits, nibbles as in Q4_0.
static void q5_0(const uint8_t *b, float *y)
{
    float d = fg_gguf_f16_at(b);
    uint32_t fifth = fg_gguf_u32_at(b + 2);
    for (int j = 0; j < 16; j++) {
        int low = (b[6 + j] & 15) | (int)(fifth >> j & 1) << 4;
        int high = b[6 + j] >> 4 | (int)(fifth >> (j + 16) & 1) << 4;
        y[j] = d * (float)(low - 16);
        y[j + 16] = d * (float)(high - 16);
    }
}

// 24 bytes: d, m, fifth bits and nibbles as in Q5_0.
static void q5_1(const uint8_t *b, float *y)
{
    float d = fg_gguf_f16_at(b), m = fg_gguf_f16_at(b + 2);
    uint32_t fifth = fg_gguf_u32_at(b + 4);
    for (int j = 0; j < 16; j++) {
        int low = (b[8 + j] & 15) | (int)(fifth >> j & 1) << 4;
        int high = b[8 + j] >> 4 | (int)(fifth >> (j + 16) & 1) << 4;
        y[j] = d * (float)low + m;
        y[j + 16] = d * (float)high + m;
    }
}

// 34 bytes: d, 32 signed bytes.
static void q8_0(const uint8_t *b, float *y)
{
    float d = fg_gguf_f16_at(b);
    for (int j = 0; j < 32; j++) {
        y[j] = d * (float)(int8_t)b[2 + j];
    }
}

// 84 bytes: 16 bytes of nibbles (scale low, minimum high) of 16 weights each, 64 bytes of bit
// pairs, d, dmin. Byte l of each half of 32 holds weight l of four runs of 32, lowest bits first.
static void q2_k(const uint8_t *b, float *y)
{
    float d = fg_gguf_f16_at(b + 80), dmin = fg_gguf_f16_at(b + 82);
    for (int i = 0; i < 16; i++) { // half a run
        const uint8_t *q = b + 16 + 32 * (i / 8) + 16 * (i % 2);
        float scale = d * (float)(b[i] & 15), min = dmin * (float)(b[i] >> 4);
        for (int l = 0; l < 16; l++) {
            y[16 * i + l] = scale * (float)(q[l] >> (2 * (i / 2 % 4)) & 3) - min;
        }
    }
}

// 110 bytes: 32 bytes whose bit r is the third bit of run r, 64 bytes of bit pairs as in Q2_K, 12
// bytes with 16 scales of 6 bits (lower nibbles of 0..7 and 8..15, then upper pairs of every fourth
// one), d. The third bit stands for 0 when set, for -4 when clear.
static void q3_k(const uint8_t *b, float *y)
{
    float d = fg_gguf_f16_at(b + 108);
    for (int i = 0; i < 16; i++) { // half a run
        const uint8_t *third = b + 16 * (i % 2), *q = b + 32 + 32 * (i / 8) + 16 * (i % 2);
        const uint8_t *s = b + 96;
        int low = s[i % 8] >> (4 * (i / 8)) & 15, high = s[8 + i % 4] >> (2 * (i / 4)) & 3;
        float scale = d * (float)((low | high << 4) - 32);
        for (int l = 0; l < 16; l++) {
            int code = (q[l] >> (2 * (i / 2 % 4)) & 3) - (third[l] >> (i / 2) & 1 ? 0 : 4);
            y[16 * i + l] = scale * (float)code;
        }
    }
}

// Pair j of the eight (scale, min) pairs of 6 bits that Q4_K and Q5_K keep in 12 bytes.
static void scale_min(const uint8_t *s, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *min = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
}

// Q4_K, 144 bytes: d, dmin, 12 bytes of scales, 128 bytes of nibbles. Bytes 32i..32i+31 of the
// nibbles hold group 2i (low) and group 2i+1 (high). Q5_K, 176 bytes, has 32 bytes before the
// nibbles whose bit j is the fifth bit of group j.
static void q45_k(const uint8_t *b, const uint8_t *fifth, const uint8_t *nibbles, float *y)
{
    float d = fg_gguf_f16_at(b), dmin = fg_gguf_f16_at(b + 2);
    for (int j = 0; j < 8; j++) {
        int c, m;
        scale_min(b + 4, j, &c, &m);
        float scale = d * (float)c, min = dmin * (float)m;
        const uint8_t *q = nibbles + 32 * (j / 2);
        for (int k = 0; k < 32; k++) {
            int code = q[k] >> (4 * (j % 2)) & 15;
            if (fifth) code |= (fifth[k] >> j & 1) << 4;
            y[32 * j + k] = scale * (float)code - min;
        }
    }
}

static void q4_k(const uint8_t *b, float *y)
{
    q45_k(b, NULL, b + 16, y);
}

static void q5_k(const uint8_t *b, float *y)
{
    q45_k(b, b + 16, b + 48, y);
}

// 210 bytes: 128 bytes of low nibbles, 64 bytes of upper bit pairs, 16 signed scales, d. Each half
// of 128 weights has four runs of 32, whose codes share the bytes ql[l], ql[l+32] and qh[l].
static void q6_k(const uint8_t *b, float *y)
{
    float d = fg_gguf_f16_at(b + 208);
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

typedef void (*block_decoder)(const uint8_t *block, float *weights);

// NULL for types that are not blocks or not decoded.
static block_decoder decoder_of(uint32_t type)
{
    switch (type) {
    case FG_GGML_Q4_0: return q4_0;
    case FG_GGML_Q4_1: return q4_1;
    case FG_GGML_Q5_0: return q5_0;
    case FG_GGML_Q5_1: return q5_1;
    case FG_GGML_Q8_0: return q8_0;
    case FG_GGML_Q2_K: return q2_k;
    case FG_GGML_Q3_K: return q3_k;
    case FG_GGML_Q4_K: return q4_k;
    case FG_GGML_Q5_K: return q5_k;
    case FG_GGML_Q6_K: return q6_k;
    case FG_GGML_IQ2_XXS: return fg_gguf_iq2_xxs;
    case FG_GGML_IQ2_XS: return fg_gguf_iq2_xs;
    case FG_GGML_IQ2_S: return fg_gguf_iq2_s;
    case FG_GGML_IQ3_XXS: return fg_gguf_iq3_xxs;
    case FG_GGML_IQ3_S: return fg_gguf_iq3_s;
    case FG_GGML_IQ4_NL: return fg_gguf_iq4_nl;
    case FG_GGML_IQ4_XS: return fg_gguf_iq4_xs;
    default: return NULL;
    }
}

bool fg_gguf_can_dequant(uint32_t type)
{
    return type == FG_GGML_F32 || type == FG_GGML_F16 || type == FG_GGML_BF16 || decoder_of(type);
}

void fg_gguf_dequant_row(uint32_t type, const void *src, float *dst, uint64_t n)
{
    const uint8_t *p = src;
    if (type == FG_GGML_F32) {
        memcpy(dst, src, n * sizeof *dst);
        return;
    }
    if (type == FG_GGML_F16 || type == FG_GGML_BF16) {
        for (uint64_t i = 0; i < n; i++) {
            uint16_t h = fg_gguf_u16_at(p + 2 * i);
            dst[i] = type == FG_GGML_F16 ? fg_f16_to_f32(h) : fg_bf16_to_f32(h);
        }
        return;
    }
    block_decoder decode = decoder_of(type);
    uint64_t weights, bytes;
    if (!decode || !fg_gguf_type_block(type, &weights, &bytes)) return;
    for (uint64_t i = 0; i < n; i += weights) {
        decode(p, dst + i);
        p += bytes;
    }
}
