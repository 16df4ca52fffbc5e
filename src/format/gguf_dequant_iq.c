// format/gguf_dequant_iq.c: blocks of the IQ types. IQ4 looks single weights up in a curve of 16
// levels; IQ3 and IQ2 look 4 or 8 magnitudes at once up in a codebook and store signs beside them.
#include "format/gguf_dequant_impl.h"
#include "format/gguf_grids.h"

// Of IQ4_NL and IQ4_XS; part of the format, like the codebooks.
static const int8_t levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};

// 18 bytes: d, 16 bytes of nibbles; the low ones are weights 0..15, the high ones 16..31.
void fg_gguf_iq4_nl(const uint8_t *b, float *y)
{
    float d = fg_gguf_f16_at(b);
    for (int j = 0; j < 16; j++) {
        y[j] = d * (float)levels[b[2 + j] & 15];
        y[j + 16] = d * (float)levels[b[2 + j] >> 4];
    }
}

// 136 bytes: d, 2 bytes with the upper bit pairs of eight scales, 4 bytes with their lower nibbles,
// 128 bytes of nibbles: 8 groups of 32 weights, each as in IQ4_NL.
void fg_gguf_iq4_xs(const uint8_t *b, float *y)
{
    float d = fg_gguf_f16_at(b);
    int upper = fg_gguf_u16_at(b + 2);
    for (int g = 0; g < 8; g++) {
        int low = b[4 + g / 2] >> (4 * (g % 2)) & 15;
        float scale = d * (float)((low | (upper >> (2 * g) & 3) << 4) - 32);
        const uint8_t *q = b + 8 + 16 * g;
        for (int j = 0; j < 16; j++) {
            y[32 * g + j] = scale * (float)levels[q[j] & 15];
            y[32 * g + j + 16] = scale * (float)levels[q[j] >> 4];
        }
    }
}

// Seven sign bits and an eighth that makes the number of minus signs even.
static int even_signs(uint32_t seven)
{
    uint32_t fold = seven ^ seven >> 4;
    fold ^= fold >> 2;
    return (int)(seven | ((fold ^ fold >> 1) & 1) << 7);
}

// Four weights of an IQ3 entry; bit k of signs: weight k is negative.
static void put4(float *y, float scale, uint16_t entry, const uint8_t magnitudes[8], int signs)
{
    for (int k = 0; k < 4; k++) {
        float v = scale * (float)magnitudes[entry >> (4 * k) & 7];
        y[k] = signs >> k & 1 ? -v : v;
    }
}

// Eight weights of an IQ2 entry.
static void put8(float *y, float scale, uint16_t entry, int signs)
{
    static const uint8_t magnitudes[4] = {8, 25, 43, 0}; // no entry has the last
    for (int k = 0; k < 8; k++) {
        float v = scale * (float)magnitudes[entry >> (2 * k) & 3];
        y[k] = signs >> k & 1 ? -v : v;
    }
}

// 98 bytes: d, 64 entries, 8 words: four times 7 signs and a scale in the upper 4 bits, of a group
// of 32 weights each.
void fg_gguf_iq3_xxs(const uint8_t *b, float *y)
{
    static const uint8_t magnitudes[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    float d = fg_gguf_f16_at(b);
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = b + 2 + 8 * g;
        uint32_t word = fg_gguf_u32_at(b + 66 + 4 * g);
        float scale = d * (0.5f + (float)(word >> 28)) * 0.5f;
        for (int j = 0; j < 4; j++) {
            int signs = even_signs(word >> (7 * j) & 127);
            float *out = y + 32 * g + 8 * j;
            put4(out, scale, fg_gguf_grid_iq3_xxs[q[2 * j]], magnitudes, signs);
            put4(out + 4, scale, fg_gguf_grid_iq3_xxs[q[2 * j + 1]], magnitudes, signs >> 4);
        }
    }
}

// 110 bytes: d, 64 entries' lower bytes, 8 bytes with their ninth bits, 32 bytes of signs, 4 bytes
// of nibbles: the scales of 8 groups of 32 weights.
void fg_gguf_iq3_s(const uint8_t *b, float *y)
{
    static const uint8_t magnitudes[8] = {1, 3, 5, 7, 9, 11, 13, 15};
    float d = fg_gguf_f16_at(b);
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = b + 2 + 8 * g;
        int ninth = b[66 + g];
        float scale = d * (float)(1 + 2 * (b[106 + g / 2] >> (4 * (g % 2)) & 15));
        for (int j = 0; j < 8; j++) {
            int entry = q[j] | (ninth >> j & 1) << 8;
            int signs = b[74 + 4 * g + j / 2] >> (4 * (j % 2));
            put4(y + 32 * g + 4 * j, scale, fg_gguf_grid_iq3_s[entry], magnitudes, signs);
        }
    }
}

// 66 bytes: d, then for each of 8 groups of 32 weights 4 entries and a word as in IQ3_XXS.
void fg_gguf_iq2_xxs(const uint8_t *b, float *y)
{
    float d = fg_gguf_f16_at(b);
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = b + 2 + 8 * g;
        uint32_t word = fg_gguf_u32_at(q + 4);
        float scale = d * (0.5f + (float)(word >> 28)) * 0.25f;
        for (int j = 0; j < 4; j++) {
            put8(y + 32 * g + 8 * j, scale, fg_gguf_grid_iq2_xxs[q[j]],
                 even_signs(word >> (7 * j) & 127));
        }
    }
}

// Scale of weights 16k to 16k + 15: nibble k.
static float scale16(float d, const uint8_t *nibbles, int k)
{
    return d * (0.5f + (float)(nibbles[k / 2] >> (4 * (k % 2)) & 15)) * 0.25f;
}

// 74 bytes: d, 32 words: 9 bits of entry below 7 of signs, 8 bytes of scales.
void fg_gguf_iq2_xs(const uint8_t *b, float *y)
{
    float d = fg_gguf_f16_at(b);
    for (int j = 0; j < 32; j++) {
        uint32_t word = fg_gguf_u16_at(b + 2 + 2 * j);
        put8(y + 8 * j, scale16(d, b + 66, j / 2), fg_gguf_grid_iq2_xs[word & 511],
             even_signs(word >> 9));
    }
}

// 82 bytes: d, 32 entries' lower bytes, 32 bytes of signs, 8 bytes with the entries' upper bit
// pairs, 8 bytes of scales.
void fg_gguf_iq2_s(const uint8_t *b, float *y)
{
    float d = fg_gguf_f16_at(b);
    for (int j = 0; j < 32; j++) {
        int entry = b[2 + j] | (b[66 + j / 4] >> (2 * (j % 4)) & 3) << 8;
        put8(y + 8 * j, scale16(d, b + 74, j / 2), fg_gguf_grid_iq2_s[entry], b[34 + j]);
    }
}
