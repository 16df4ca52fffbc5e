// kernels/avx512/math.h: ref/math.h, 16 lanes at a time: the same operations in the same order.
#ifndef FG_KERNELS_AVX512_MATH_H
#define FG_KERNELS_AVX512_MATH_H
#include "kernels/ref/math.h"
#include <immintrin.h>

// The first n >= 0 lanes, all of them for n >= 16.
static inline __mmask16 fg_lanes_avx512(int64_t n)
{
    return (__mmask16)(n >= 16 ? 0xffffu : (1u << (n & 15)) - 1u);
}

// tree(lane) of kernels.h.
static inline float fg_tree_avx512(__m512 v)
{
    __m256 v8 = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 v4 = _mm_add_ps(_mm256_castps256_ps128(v8), _mm256_extractf128_ps(v8, 1));
    __m128 v2 = _mm_add_ps(v4, _mm_movehl_ps(v4, v4));
    return _mm_cvtss_f32(_mm_add_ss(v2, _mm_movehdup_ps(v2)));
}

// dot(a, b, n) of kernels.h.
static inline float fg_dot_avx512(const float *a, const float *b, int64_t n)
{
    __m512 acc = _mm512_setzero_ps();
    int64_t k = 0;
    for (; k + 16 <= n; k += 16)
        acc = _mm512_fmadd_ps(_mm512_loadu_ps(a + k), _mm512_loadu_ps(b + k), acc);
    if (k < n) { // masked lanes keep acc: adding +0 would turn -0 into +0
        __mmask16 tail = fg_lanes_avx512(n - k);
        acc = _mm512_mask3_fmadd_ps(_mm512_maskz_loadu_ps(tail, a + k),
                                    _mm512_maskz_loadu_ps(tail, b + k), acc, tail);
    }
    return fg_tree_avx512(acc);
}

// exp(x) = result * 2^n. VSCALEFPS then does what fg_scale does, in one step.
static inline __m512 fg_exp_parts_avx512(__m512 *n, __m512 x)
{
    x = _mm512_max_ps(_mm512_set1_ps(FG_EXP_MIN), x);
    x = _mm512_min_ps(_mm512_set1_ps(FG_EXP_MAX), x);
    const __m512 magic = _mm512_set1_ps(FG_ROUND_MAGIC);
    *n = _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(FG_LOG2E), magic), magic);
    __m512 r = _mm512_fmadd_ps(*n, _mm512_set1_ps(-FG_LN2_HI), x);
    r = _mm512_fmadd_ps(*n, _mm512_set1_ps(-FG_LN2_LO), r);
    __m512 poly = _mm512_set1_ps(FG_EXP_C6);
    poly = _mm512_fmadd_ps(poly, r, _mm512_set1_ps(FG_EXP_C5));
    poly = _mm512_fmadd_ps(poly, r, _mm512_set1_ps(FG_EXP_C4));
    poly = _mm512_fmadd_ps(poly, r, _mm512_set1_ps(FG_EXP_C3));
    poly = _mm512_fmadd_ps(poly, r, _mm512_set1_ps(FG_EXP_C2));
    poly = _mm512_fmadd_ps(poly, r, _mm512_set1_ps(1.0f));
    return _mm512_fmadd_ps(poly, r, _mm512_set1_ps(1.0f));
}

static inline __m512 fg_exp_avx512(__m512 x)
{
    __m512 n, p = fg_exp_parts_avx512(&n, x);
    return _mm512_scalef_ps(p, n);
}

static inline __m512 fg_times_sigmoid_avx512(__m512 y, __m512 x)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    __m512 n, p = fg_exp_parts_avx512(&n, _mm512_or_ps(x, _mm512_set1_ps(-0.0f)));
    __m512 e = _mm512_scalef_ps(p, n);
    __m512 d = _mm512_add_ps(one, e);
    __m512 d_rest = _mm512_sub_ps(e, _mm512_sub_ps(d, one));
    __m512 inverse = _mm512_div_ps(one, d);
    __mmask16 negative = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
    __m512 numerator = _mm512_mask_mul_ps(y, negative, y, p);
    __m512 q = _mm512_mul_ps(numerator, inverse);
    __m512 rest = _mm512_fnmadd_ps(q, d, numerator);
    rest = _mm512_fnmadd_ps(q, d_rest, rest);
    rest = _mm512_add_ps(rest, _mm512_maskz_fmsub_ps(negative, y, p, numerator));
    q = _mm512_fmadd_ps(rest, inverse, q);
    q = _mm512_mask_mov_ps(q, _mm512_cmp_ps_mask(x, _mm512_set1_ps(FG_SIGMOID_ONE), _CMP_GT_OQ), y);
    return _mm512_mask_scalef_ps(q, negative, q, n);
}

static inline __m512 fg_sigmoid_avx512(__m512 x)
{
    return fg_times_sigmoid_avx512(_mm512_set1_ps(1.0f), x);
}

static inline __m512 fg_silu_avx512(__m512 x)
{
    x = _mm512_max_ps(_mm512_set1_ps(FG_EXP_MIN), x);
    return fg_times_sigmoid_avx512(x, x);
}

static inline __m512 fg_log1p_avx512(__m512 t)
{
    __mmask16 upper = _mm512_cmp_ps_mask(t, _mm512_set1_ps(0.5f), _CMP_GT_OQ);
    __m512 f =
        _mm512_mask_mul_ps(t, upper, _mm512_sub_ps(t, _mm512_set1_ps(1.0f)), _mm512_set1_ps(0.5f));
    __m512 poly = _mm512_set1_ps(FG_LOG1P_C8);
    poly = _mm512_fmadd_ps(poly, f, _mm512_set1_ps(FG_LOG1P_C7));
    poly = _mm512_fmadd_ps(poly, f, _mm512_set1_ps(FG_LOG1P_C6));
    poly = _mm512_fmadd_ps(poly, f, _mm512_set1_ps(FG_LOG1P_C5));
    poly = _mm512_fmadd_ps(poly, f, _mm512_set1_ps(FG_LOG1P_C4));
    poly = _mm512_fmadd_ps(poly, f, _mm512_set1_ps(FG_LOG1P_C3));
    poly = _mm512_fmadd_ps(poly, f, _mm512_set1_ps(FG_LOG1P_C2));
    poly = _mm512_fmadd_ps(poly, f, _mm512_set1_ps(FG_LOG1P_C1));
    poly = _mm512_fmadd_ps(poly, f, _mm512_set1_ps(FG_LOG1P_C0));
    __m512 log1p_f = _mm512_fmadd_ps(poly, _mm512_mul_ps(f, f), f);
    return _mm512_mask_add_ps(log1p_f, upper, _mm512_set1_ps(FG_LN2),
                              _mm512_add_ps(log1p_f, _mm512_set1_ps(FG_LN2_REST)));
}

static inline __m512 fg_softplus_avx512(__m512 x)
{
    __m512 positive = _mm512_max_ps(_mm512_setzero_ps(), x);
    __m512 e = fg_exp_avx512(_mm512_or_ps(x, _mm512_set1_ps(-0.0f)));
    return _mm512_add_ps(positive, fg_log1p_avx512(e));
}
#endif
