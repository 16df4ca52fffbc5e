// kernels/ref/act.h: what the quantizers of every instruction set do with the magnitude of a block
// (lut.h, fg_quantize_fn).
#ifndef FG_KERNELS_REF_ACT_H
#define FG_KERNELS_REF_ACT_H
#include "base/num.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

// The largest magnitude from its bits; NaN when they are those of infinity or NaN.
static inline float fg_act_magnitude(uint32_t bits)
{
    return bits >= 0x7F800000 ? NAN : fg_f32_of_bits(bits);
}

// True, and one row of n codes filled in, when magnitude m leaves nothing to quantize.
static inline bool fg_act_empty(int8_t *xc, float *sx, int32_t *sum, int64_t n, float m)
{
    if (m >= 0x1p-100f) return false;
    memset(xc, 0, (size_t)n);
    *sum = 0;
    *sx = isnan(m) ? m : 0;
    return true;
}
#endif
