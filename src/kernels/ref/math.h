// kernels/ref/math.h: exp, sigmoid, SiLU, softplus in FP32. The sequence of operations written here
// is part of the contract of kernels.h: avx2/math.h and avx512/math.h do the same operations in the
// same order, so all give the same bits on every machine (libm promises neither).
//
// Errors against exact values over all floats, subnormal results included: exp, sigmoid, SiLU
// and log1p below 2 ulp (tests/kernels/test_math.c prints and checks the figures). NaN gives NaN.
// Polynomials: minimax in relative error, fitted for these intervals with the leading terms fixed
// and the coefficients rounded to FP32 one after the other.
#ifndef FG_KERNELS_REF_MATH_H
#define FG_KERNELS_REF_MATH_H
#include <math.h>
#include <stdint.h>
#include <string.h>

// Below the first, x * exp(x) rounds to zero; above the second, exp(x) overflows.
#define FG_EXP_MIN (-110.0f)
#define FG_EXP_MAX 89.0f
// sigmoid(x) rounds to 1 above this.
#define FG_SIGMOID_ONE 20.0f
#define FG_LOG2E 0x1.715476p+0f
// 1.5 * 2^23: adding it rounds to an integer, which then stands in the low bits.
#define FG_ROUND_MAGIC 12582912.0f
#define FG_ROUND_MAGIC_BITS 0x4b400000u
// ln 2 in two parts; the first has 9 bits, so n * FG_LN2_HI is exact.
#define FG_LN2_HI 0.693359375f
#define FG_LN2_LO (-0x1.bd0106p-13f)
// exp(r) = 1 + r + r^2 * (C2 + C3 r + ... + C6 r^4) on |r| <= 0.3475; relative error 3.2e-9.
#define FG_EXP_C2 0x1.fffffcp-2f
#define FG_EXP_C3 0x1.555492p-3f
#define FG_EXP_C4 0x1.5558bep-5f
#define FG_EXP_C5 0x1.1239e0p-7f
#define FG_EXP_C6 0x1.6a3fb6p-10f
// log1p(f) = f + f^2 * (C0 + C1 f + ... + C8 f^8) on -0.25 <= f <= 0.5; relative error 2.8e-9 of
// what it is used for.
#define FG_LOG1P_C0 (-0x1.000004p-1f)
#define FG_LOG1P_C1 0x1.5555bep-2f
#define FG_LOG1P_C2 (-0x1.fffc34p-3f)
#define FG_LOG1P_C3 0x1.995b9ep-3f
#define FG_LOG1P_C4 (-0x1.553ebep-3f)
#define FG_LOG1P_C5 0x1.29b17ep-3f
#define FG_LOG1P_C6 (-0x1.0c5f7ap-3f)
#define FG_LOG1P_C7 0x1.9ca2ecp-4f
#define FG_LOG1P_C8 (-0x1.539044p-5f)
// ln 2 as the nearest float and the rest.
#define FG_LN2 0x1.62e430p-1f
#define FG_LN2_REST (-0x1.05c610p-29f)

// exp(x) = *p * 2^n, p in [0.7, 1.42], returning n. x is clamped to [FG_EXP_MIN, FG_EXP_MAX].
static inline int32_t fg_exp_parts(float *p, float x)
{
    x = FG_EXP_MIN > x ? FG_EXP_MIN : x; // NaN stays x
    x = FG_EXP_MAX < x ? FG_EXP_MAX : x;
    float shifted = fmaf(x, FG_LOG2E, FG_ROUND_MAGIC);
    float n = shifted - FG_ROUND_MAGIC;
    float r = fmaf(n, -FG_LN2_HI, x);
    r = fmaf(n, -FG_LN2_LO, r);
    float poly = fmaf(FG_EXP_C6, r, FG_EXP_C5);
    poly = fmaf(poly, r, FG_EXP_C4);
    poly = fmaf(poly, r, FG_EXP_C3);
    poly = fmaf(poly, r, FG_EXP_C2);
    poly = fmaf(poly, r, 1.0f);
    *p = fmaf(poly, r, 1.0f);
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    return (int32_t)(bits - FG_ROUND_MAGIC_BITS);
}

// 2^n for -126 <= n <= 127; any bits for other n.
static inline float fg_pow2(int32_t n)
{
    uint32_t bits = ((uint32_t)n + 127u) << 23;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

// y * 2^n, rounded once, for -160 <= n <= 128 and |y| in [2^-1, 2^8]: in two steps because 2^n
// alone may not be a float; the first is exact.
static inline float fg_scale(float y, int32_t n)
{
    int32_t half = n >> 1;
    return y * fg_pow2(half) * fg_pow2(n - half);
}

static inline float fg_exp_f32(float x)
{
    float p;
    int32_t n = fg_exp_parts(&p, x);
    return fg_scale(p, n);
}

// y / (1 + exp(-x)) as y / (1 + e) or y * e / (1 + e) with e = exp(-|x|). The roundings of
// 1 + e and y * e are made good by one Newton step on the quotient, and the power of two of e in
// the numerator is applied last, so a subnormal result is rounded only there.
static inline float fg_times_sigmoid(float y, float x)
{
    float p;
    int32_t n = fg_exp_parts(&p, -fabsf(x));
    float e = fg_scale(p, n);
    float d = 1.0f + e;
    float d_rest = e - (d - 1.0f);
    float inverse = 1.0f / d;
    float numerator = x < 0.0f ? y * p : y;
    float q = numerator * inverse;
    float rest = fmaf(-q, d, numerator);
    rest = fmaf(-q, d_rest, rest);
    rest += x < 0.0f ? fmaf(y, p, -numerator) : 0.0f;
    q = fmaf(rest, inverse, q);
    q = x > FG_SIGMOID_ONE ? y : q; // also keeps infinity out of the Newton step
    return x < 0.0f ? fg_scale(q, n) : q;
}

static inline float fg_sigmoid_f32(float x)
{
    return fg_times_sigmoid(1.0f, x);
}

static inline float fg_silu_f32(float x)
{
    x = FG_EXP_MIN > x ? FG_EXP_MIN : x; // the result is -0 from here on down
    return fg_times_sigmoid(x, x);
}

// log(1 + t) for t in [0, 1]. Above 1/2, f = (t - 1) / 2 is exact and 1 + t = 2 * (1 + f).
static inline float fg_log1p_f32(float t)
{
    float f = t > 0.5f ? (t - 1.0f) * 0.5f : t;
    float poly = fmaf(FG_LOG1P_C8, f, FG_LOG1P_C7);
    poly = fmaf(poly, f, FG_LOG1P_C6);
    poly = fmaf(poly, f, FG_LOG1P_C5);
    poly = fmaf(poly, f, FG_LOG1P_C4);
    poly = fmaf(poly, f, FG_LOG1P_C3);
    poly = fmaf(poly, f, FG_LOG1P_C2);
    poly = fmaf(poly, f, FG_LOG1P_C1);
    poly = fmaf(poly, f, FG_LOG1P_C0);
    float log1p_f = fmaf(poly, f * f, f);
    return t > 0.5f ? FG_LN2 + (log1p_f + FG_LN2_REST) : log1p_f;
}

// max(x, 0) + log1p(exp(-|x|)): no overflow for any x (specs: model 14).
static inline float fg_softplus_f32(float x)
{
    float positive = 0.0f > x ? 0.0f : x;
    return positive + fg_log1p_f32(fg_exp_f32(-fabsf(x)));
}
#endif
