// base/num.h: number formats narrower than FP32, exactly and in plain C, and numbers from text.
// Kernels have their own vector forms; these are the truth for them. Rounding is to nearest, ties
// to even; NaN stays NaN (quiet); overflow gives infinity.
#ifndef FG_BASE_NUM_H
#define FG_BASE_NUM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline float fg_f32_of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint32_t fg_bits_of_f32(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

// BF16: the upper half of an FP32.
static inline float fg_bf16_to_f32(uint16_t h)
{
    return fg_f32_of_bits((uint32_t)h << 16);
}

uint16_t fg_bf16_of_f32(float f);
float fg_f16_to_f32(uint16_t h); // IEEE 754 binary16, subnormals included
uint16_t fg_f16_of_f32(float f);
float fg_f8e4m3_to_f32(uint8_t v); // FP8 E4M3FN: no infinity, 0x7F and 0xFF are NaN, maximum 448
// Overflow and infinity saturate to 448, as the OCP "saturating" conversion does.
uint8_t fg_f8e4m3_of_f32(float f);

// Whole-text numbers, locale-independent; trailing characters, NaN, infinity and overflow are
// refused (false).
bool fg_parse_i64(const char *s, int64_t *out);
bool fg_parse_u64(const char *s, uint64_t *out);
bool fg_parse_f64(const char *s, double *out);
// Bytes with optional K M G T (x1024, any case, optional "iB" or "B"), as 16K or 1.5GiB; a fraction
// of a byte is dropped when there is a unit and refused when there is none.
bool fg_parse_bytes(const char *s, uint64_t *out);
// Shortest decimal text that reads back as the same double ("1.5", "1e-05", "inf", "nan"),
// locale-independent, as Python's repr prints it. cap >= 32. Returns out.
char *fg_format_f64(char *out, size_t cap, double v);
#endif
