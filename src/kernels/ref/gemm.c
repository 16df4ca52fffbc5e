// kernels/ref/gemm.c: dense products in plain C, one dot product per output. This file is the truth
// for the GEMMs of every instruction set: it follows kernels.h word for word and is not meant to be
// fast.
#include "base/num.h"
#include "kernels/levels.h"
#include "kernels/ref/lanes.h"
#include <float.h>
#include <math.h>
#include <string.h>

// Element k of a row of type t at any byte address.
static inline float element(const uint8_t *row, enum fg_dtype t, int64_t k)
{
    if (t == FG_F32) {
        float f;
        memcpy(&f, row + 4 * k, sizeof f);
        return f;
    }
    if (t == FG_INT8) return (float)((const int8_t *)row)[k];
    uint16_t h;
    memcpy(&h, row + 2 * k, sizeof h);
    return t == FG_F16 ? fg_f16_to_f32(h) : fg_bf16_to_f32(h);
}

static inline float dot(const uint8_t *w, enum fg_dtype type, const float *x, int64_t n)
{
    float lane[16] = {0};
    for (int64_t k = 0; k < n; k++)
        lane[k % 16] = fmaf(element(w, type, k), x[k], lane[k % 16]);
    return fg_tree(lane);
}

static inline void gemm(float *y, int64_t ldy, const uint8_t *w, enum fg_dtype type, int64_t n,
                        int64_t r0, int64_t r1, const float *x, int64_t ldx, int64_t T)
{
    int64_t row_bytes = n * (int64_t)fg_dtype_bytes(type);
    for (int64_t r = r0; r < r1; r++)
        for (int64_t t = 0; t < T; t++)
            y[t * ldy + r] = dot(w + r * row_bytes, type, x + t * ldx, n);
}

static void fg_gemm_f32_f32_ref(float *y, int64_t ldy, const void *w, int64_t n, int64_t r0,
                                int64_t r1, const float *x, int64_t ldx, int64_t T, void *scratch)
{
    (void)scratch;
    gemm(y, ldy, w, FG_F32, n, r0, r1, x, ldx, T);
}

static void fg_gemm_f16_f32_ref(float *y, int64_t ldy, const void *w, int64_t n, int64_t r0,
                                int64_t r1, const float *x, int64_t ldx, int64_t T, void *scratch)
{
    (void)scratch;
    gemm(y, ldy, w, FG_F16, n, r0, r1, x, ldx, T);
}

static void fg_gemm_bf16_f32_ref(float *y, int64_t ldy, const void *w, int64_t n, int64_t r0,
                                 int64_t r1, const float *x, int64_t ldx, int64_t T, void *scratch)
{
    (void)scratch;
    gemm(y, ldy, w, FG_BF16, n, r0, r1, x, ldx, T);
}

static void fg_gemm_int8_f32_ref(float *y, int64_t ldy, const void *w, int64_t n, int64_t r0,
                                 int64_t r1, const float *x, int64_t ldx, int64_t T, void *scratch)
{
    (void)scratch;
    gemm(y, ldy, w, FG_INT8, n, r0, r1, x, ldx, T);
}

static float bf16_no_subnormal(uint16_t h)
{
    return fg_bf16_to_f32((h & 0x7F80) == 0 ? h & 0x8000 : h);
}

// fma with subnormal results flushed to zero of their sign. A result counts as subnormal when it
// is below FLT_MIN after rounding to 24 bits with an unbounded exponent, as x86 does it. fmaf
// rounds to a multiple of 2^-149 there, so a sum in the upper quarter of the last such step, below
// the midpoint of the last unbounded step, comes out as FLT_MIN though it is to be flushed. The
// sum in FP64 tells: a*b is exact, and a*b + c can't be rounded up to the threshold from below,
// for c is a multiple of 2^-149 and a*b has 16 bits.
static float fma_flush(float a, float b, float c)
{
    float r = fmaf(a, b, c);
    bool flush = fabsf(r) < FLT_MIN ||
                 (fabsf(r) == FLT_MIN && fabs((double)a * b + (double)c) < 0x1p-126 - 0x1p-151);
    return flush ? copysignf(0.0f, r) : r;
}

// dot2 of kernels.h. Lanes start at zero and flushed results are never subnormal, so only w and x
// need their subnormals read as zero.
static float dot2(const uint8_t *w, const uint16_t *x, int64_t n)
{
    float lane[16] = {0};
    for (int64_t k = 0; k < n; k += 2) {
        uint16_t wk[2] = {0, 0}, xk[2] = {0, 0};
        size_t count = k + 1 < n ? 2 : 1;
        memcpy(wk, w + 2 * k, 2 * count);
        memcpy(xk, x + k, 2 * count);
        float *acc = &lane[k / 2 % 16];
        *acc = fma_flush(bf16_no_subnormal(wk[1]), bf16_no_subnormal(xk[1]), *acc);
        *acc = fma_flush(bf16_no_subnormal(wk[0]), bf16_no_subnormal(xk[0]), *acc);
    }
    return fg_tree(lane);
}

static void fg_gemm_bf16_bf16_ref(float *y, int64_t ldy, const void *w, int64_t n, int64_t r0,
                                  int64_t r1, const uint16_t *x, int64_t ldx, int64_t T,
                                  void *scratch)
{
    (void)scratch;
    for (int64_t r = r0; r < r1; r++)
        for (int64_t t = 0; t < T; t++)
            y[t * ldy + r] = dot2((const uint8_t *)w + r * n * 2, x + t * ldx, n);
}

static void fg_to_bf16_ref(uint16_t *dst, const float *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = fg_bf16_of_f32(src[i]);
}

static void fg_widen_ref(float *dst, const void *src, enum fg_dtype t, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = element(src, t, i);
}

void fg_fill_dense_ref(struct fg_kernels *k)
{
    k->gemm[FG_F32] = fg_gemm_f32_f32_ref;
    k->gemm[FG_F16] = fg_gemm_f16_f32_ref;
    k->gemm[FG_BF16] = fg_gemm_bf16_f32_ref;
    k->gemm[FG_INT8] = fg_gemm_int8_f32_ref;
    k->gemm_bf16_bf16 = fg_gemm_bf16_bf16_ref;
    k->to_bf16 = fg_to_bf16_ref;
    k->widen = fg_widen_ref;
}
