// format/gguf_dequant_impl.h: what gguf_dequant*.c share. A decoder takes one block at any
// alignment and writes its 32 or 256 weights.
#ifndef FG_FORMAT_GGUF_DEQUANT_IMPL_H
#define FG_FORMAT_GGUF_DEQUANT_IMPL_H
#include "base/num.h"

static inline uint16_t fg_gguf_u16_at(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t fg_gguf_u32_at(const uint8_t *p)
{
    return fg_gguf_u16_at(p) | (uint32_t)fg_gguf_u16_at(p + 2) << 16;
}

static inline float fg_gguf_f16_at(const uint8_t *p)
{
    return fg_f16_to_f32(fg_gguf_u16_at(p));
}

// gguf_dequant_iq.c
void fg_gguf_iq4_nl(const uint8_t *b, float *y);
void fg_gguf_iq4_xs(const uint8_t *b, float *y);
void fg_gguf_iq3_xxs(const uint8_t *b, float *y);
void fg_gguf_iq3_s(const uint8_t *b, float *y);
void fg_gguf_iq2_xxs(const uint8_t *b, float *y);
void fg_gguf_iq2_xs(const uint8_t *b, float *y);
void fg_gguf_iq2_s(const uint8_t *b, float *y);
#endif
