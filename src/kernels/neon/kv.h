// kernels/neon/kv.h: what attn.c needs of kv.c.
#ifndef FG_KERNELS_NEON_KV_H
#define FG_KERNELS_NEON_KV_H
#include "base/num.h"
#include "kernels/kv.h"
#include "kernels/neon/math.h"

bool fg_kv_store_neon(const struct fg_kv_head *h, int64_t pos, const float *k, const float *v);

// Bits of the largest magnitude of x[n], n a multiple of 4; NaN stands above infinity. As integers,
// magnitudes order like floats.
static inline uint32_t fg_magnitude_bits_neon(const float *x, int64_t n)
{
    uint32x4_t most = vdupq_n_u32(0);
    for (int64_t i = 0; i < n; i += 4) {
        uint32x4_t v = vreinterpretq_u32_f32(vld1q_f32(x + i));
        most = vmaxq_u32(most, vandq_u32(v, vdupq_n_u32(0x7FFFFFFF)));
    }
    return vmaxvq_u32(most);
}

// x[D] with zeros up to W.
static inline void fg_pad_row_neon(float row[FG_KV_WIDTH_MAX], const float *x, int64_t D, int64_t W)
{
    memcpy(row, x, (size_t)D * sizeof *x);
    memset(row + D, 0, (size_t)(W - D) * sizeof *x);
}

// Codes of 8 numbers: rint(x / s), half to even, within +-127.
static inline int8x8_t fg_codes_neon(float32x4_t x, float32x4_t y, float32x4_t s)
{
    int16x4_t lo = vqmovn_s32(vcvtnq_s32_f32(vdivq_f32(x, s)));
    int16x4_t hi = vqmovn_s32(vcvtnq_s32_f32(vdivq_f32(y, s)));
    return vmax_s8(vqmovn_s16(vcombine_s16(lo, hi)), vdup_n_s8(-127));
}
#endif
