// kernels/neon/roof.c: see kernels/roof.h.
#include "kernels/roof_loops.h"
#include <arm_neon.h>

static int32_t first_f32(float32x4_t v)
{
    return (int32_t)vgetq_lane_f32(v, 0);
}

static int32_t first_s32(int32x4_t v)
{
    return vgetq_lane_s32(v, 0);
}

FG_ROOF_CHAINS(fg_roof_f32_neon, float32x4_t, float32x4_t, 16, "w", vdupq_n_f32(1), vdupq_n_f32(0),
               vdupq_n_f32(1), vfmaq_f32, vaddq_f32, first_f32, 4)
FG_ROOF_CHAINS(fg_roof_i8_neon, int32x4_t, int8x16_t, 16, "w", vdupq_n_s8(1), vdupq_n_s8(-1),
               vdupq_n_s32(0), vdotq_s32, vaddq_s32, first_s32, 16)
