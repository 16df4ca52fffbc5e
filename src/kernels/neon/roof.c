// kernels/neon/roof.c: see kernels/roof.h, and avx2/roof.c for the empty asm.
#include "kernels/roof_loops.h"
#include <arm_neon.h>

#define CHAINS 16

uint64_t fg_roof_f32_neon(uint32_t *sink)
{
    float32x4_t acc[CHAINS], a = vdupq_n_f32(1), b = vdupq_n_f32(0);
    for (int i = 0; i < CHAINS; i++)
        acc[i] = a;
    for (int r = 0; r < FG_ROOF_ROUNDS; r++) {
        __asm__ volatile("" : "+w"(a), "+w"(b));
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++)
            acc[i] = vfmaq_f32(acc[i], a, b);
    }
    for (int i = 1; i < CHAINS; i++)
        acc[0] = vaddq_f32(acc[0], acc[i]);
    *sink += (uint32_t)vgetq_lane_f32(acc[0], 0);
    return (uint64_t)FG_ROOF_ROUNDS * CHAINS * 4;
}

uint64_t fg_roof_i8_neon(uint32_t *sink)
{
    int8x16_t a = vdupq_n_s8(1), b = vdupq_n_s8(-1);
    int32x4_t acc[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        acc[i] = vdupq_n_s32(0);
    for (int r = 0; r < FG_ROOF_ROUNDS; r++) {
        __asm__ volatile("" : "+w"(a), "+w"(b));
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++)
            acc[i] = vdotq_s32(acc[i], a, b);
    }
    for (int i = 1; i < CHAINS; i++)
        acc[0] = vaddq_s32(acc[0], acc[i]);
    *sink += (uint32_t)vgetq_lane_s32(acc[0], 0);
    return (uint64_t)FG_ROOF_ROUNDS * CHAINS * 16;
}
