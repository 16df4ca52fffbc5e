// kernels/neon/math.h: exp of ref/math.h, 4 lanes at a time: the same operations in the same order.
#ifndef FG_KERNELS_NEON_MATH_H
#define FG_KERNELS_NEON_MATH_H
#include "kernels/ref/math.h"
#include <arm_neon.h>

// y * 2^n as fg_scale does it.
static inline float32x4_t fg_scale_neon(float32x4_t y, int32x4_t n)
{
    const int32x4_t bias = vdupq_n_s32(127);
    int32x4_t half = vshrq_n_s32(n, 1);
    int32x4_t first = vshlq_n_s32(vaddq_s32(half, bias), 23);
    int32x4_t second = vshlq_n_s32(vaddq_s32(vsubq_s32(n, half), bias), 23);
    y = vmulq_f32(y, vreinterpretq_f32_s32(first));
    return vmulq_f32(y, vreinterpretq_f32_s32(second));
}

static inline float32x4_t fg_exp_neon(float32x4_t x)
{
    x = vmaxq_f32(x, vdupq_n_f32(FG_EXP_MIN)); // NaN stays NaN
    x = vminq_f32(x, vdupq_n_f32(FG_EXP_MAX));
    const float32x4_t magic = vdupq_n_f32(FG_ROUND_MAGIC);
    float32x4_t shifted = vfmaq_f32(magic, x, vdupq_n_f32(FG_LOG2E));
    float32x4_t nf = vsubq_f32(shifted, magic);
    int32x4_t n = vsubq_s32(vreinterpretq_s32_f32(shifted), vreinterpretq_s32_f32(magic));
    float32x4_t r = vfmaq_f32(x, nf, vdupq_n_f32(-FG_LN2_HI));
    r = vfmaq_f32(r, nf, vdupq_n_f32(-FG_LN2_LO));
    float32x4_t poly = vfmaq_f32(vdupq_n_f32(FG_EXP_C5), vdupq_n_f32(FG_EXP_C6), r);
    poly = vfmaq_f32(vdupq_n_f32(FG_EXP_C4), poly, r);
    poly = vfmaq_f32(vdupq_n_f32(FG_EXP_C3), poly, r);
    poly = vfmaq_f32(vdupq_n_f32(FG_EXP_C2), poly, r);
    poly = vfmaq_f32(vdupq_n_f32(1.0f), poly, r);
    poly = vfmaq_f32(vdupq_n_f32(1.0f), poly, r);
    return fg_scale_neon(poly, n);
}
#endif
