// kernels/avx2/math.h: ref/math.h, 8 lanes at a time: the same operations in the same order.
#ifndef FG_KERNELS_AVX2_MATH_H
#define FG_KERNELS_AVX2_MATH_H
#include "kernels/ref/math.h"
#include <immintrin.h>

// All ones in the first n lanes, in all of them for n >= 8.
static inline __m256i fg_lanes_avx2(int64_t n)
{
    static const int32_t table[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(table + (n >= 8 ? 0 : 8 - n)));
}

// The first n floats at p (8 for n >= 8); the other lanes are zero.
static inline __m256 fg_load_avx2(const float *p, int64_t n)
{
    return n >= 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, fg_lanes_avx2(n));
}

static inline void fg_store_avx2(float *p, int64_t n, __m256 v)
{
    if (n >= 8)
        _mm256_storeu_ps(p, v);
    else
        _mm256_maskstore_ps(p, fg_lanes_avx2(n), v);
}

// fma(a, b, acc) in the first n lanes; the others keep acc: adding +0 would turn -0 into +0.
static inline __m256 fg_fma_lanes_avx2(__m256 a, __m256 b, __m256 acc, int64_t n)
{
    __m256 all = _mm256_fmadd_ps(a, b, acc);
    return _mm256_blendv_ps(acc, all, _mm256_castsi256_ps(fg_lanes_avx2(n)));
}

// tree(lane) of kernels.h; lo holds lanes 0-7, hi lanes 8-15.
static inline float fg_tree_avx2(__m256 lo, __m256 hi)
{
    __m256 v8 = _mm256_add_ps(lo, hi);
    __m128 v4 = _mm_add_ps(_mm256_castps256_ps128(v8), _mm256_extractf128_ps(v8, 1));
    __m128 v2 = _mm_add_ps(v4, _mm_movehl_ps(v4, v4));
    return _mm_cvtss_f32(_mm_add_ss(v2, _mm_movehdup_ps(v2)));
}

// dot(a, b, n) of kernels.h.
static inline float fg_dot_avx2(const float *a, const float *b, int64_t n)
{
    __m256 lo = _mm256_setzero_ps(), hi = lo;
    int64_t k = 0;
    for (; k + 16 <= n; k += 16) {
        lo = _mm256_fmadd_ps(_mm256_loadu_ps(a + k), _mm256_loadu_ps(b + k), lo);
        hi = _mm256_fmadd_ps(_mm256_loadu_ps(a + k + 8), _mm256_loadu_ps(b + k + 8), hi);
    }
    if (k < n)
        lo = fg_fma_lanes_avx2(fg_load_avx2(a + k, n - k), fg_load_avx2(b + k, n - k), lo, n - k);
    k += 8;
    if (k < n)
        hi = fg_fma_lanes_avx2(fg_load_avx2(a + k, n - k), fg_load_avx2(b + k, n - k), hi, n - k);
    return fg_tree_avx2(lo, hi);
}

// y * 2^n as fg_scale does it.
static inline __m256 fg_scale_avx2(__m256 y, __m256i n)
{
    const __m256i bias = _mm256_set1_epi32(127);
    __m256i half = _mm256_srai_epi32(n, 1);
    __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(n, half), bias), 23);
    y = _mm256_mul_ps(y, _mm256_castsi256_ps(first));
    return _mm256_mul_ps(y, _mm256_castsi256_ps(second));
}

// exp(x) = result * 2^n.
static inline __m256 fg_exp_parts_avx2(__m256i *n, __m256 x)
{
    x = _mm256_max_ps(_mm256_set1_ps(FG_EXP_MIN), x);
    x = _mm256_min_ps(_mm256_set1_ps(FG_EXP_MAX), x);
    const __m256 magic = _mm256_set1_ps(FG_ROUND_MAGIC);
    __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(FG_LOG2E), magic);
    __m256 nf = _mm256_sub_ps(shifted, magic);
    *n = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_castps_si256(magic));
    __m256 r = _mm256_fmadd_ps(nf, _mm256_set1_ps(-FG_LN2_HI), x);
    r = _mm256_fmadd_ps(nf, _mm256_set1_ps(-FG_LN2_LO), r);
    __m256 poly = _mm256_set1_ps(FG_EXP_C6);
    poly = _mm256_fmadd_ps(poly, r, _mm256_set1_ps(FG_EXP_C5));
    poly = _mm256_fmadd_ps(poly, r, _mm256_set1_ps(FG_EXP_C4));
    poly = _mm256_fmadd_ps(poly, r, _mm256_set1_ps(FG_EXP_C3));
    poly = _mm256_fmadd_ps(poly, r, _mm256_set1_ps(FG_EXP_C2));
    poly = _mm256_fmadd_ps(poly, r, _mm256_set1_ps(1.0f));
    return _mm256_fmadd_ps(poly, r, _mm256_set1_ps(1.0f));
}

static inline __m256 fg_exp_avx2(__m256 x)
{
    __m256i n;
    __m256 p = fg_exp_parts_avx2(&n, x);
    return fg_scale_avx2(p, n);
}

static inline __m256 fg_times_sigmoid_avx2(__m256 y, __m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    __m256i n;
    __m256 p = fg_exp_parts_avx2(&n, _mm256_or_ps(x, _mm256_set1_ps(-0.0f)));
    __m256 e = fg_scale_avx2(p, n);
    __m256 d = _mm256_add_ps(one, e);
    __m256 d_rest = _mm256_sub_ps(e, _mm256_sub_ps(d, one));
    __m256 inverse = _mm256_div_ps(one, d);
    __m256 negative = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ);
    __m256 numerator = _mm256_blendv_ps(y, _mm256_mul_ps(y, p), negative);
    __m256 q = _mm256_mul_ps(numerator, inverse);
    __m256 rest = _mm256_fnmadd_ps(q, d, numerator);
    rest = _mm256_fnmadd_ps(q, d_rest, rest);
    rest = _mm256_add_ps(rest, _mm256_and_ps(negative, _mm256_fmsub_ps(y, p, numerator)));
    q = _mm256_fmadd_ps(rest, inverse, q);
    q = _mm256_blendv_ps(q, y, _mm256_cmp_ps(x, _mm256_set1_ps(FG_SIGMOID_ONE), _CMP_GT_OQ));
    return _mm256_blendv_ps(q, fg_scale_avx2(q, n), negative);
}

static inline __m256 fg_sigmoid_avx2(__m256 x)
{
    return fg_times_sigmoid_avx2(_mm256_set1_ps(1.0f), x);
}

static inline __m256 fg_silu_avx2(__m256 x)
{
    x = _mm256_max_ps(_mm256_set1_ps(FG_EXP_MIN), x);
    return fg_times_sigmoid_avx2(x, x);
}

static inline __m256 fg_log1p_avx2(__m256 t)
{
    __m256 upper = _mm256_cmp_ps(t, _mm256_set1_ps(0.5f), _CMP_GT_OQ);
    __m256 reduced = _mm256_mul_ps(_mm256_sub_ps(t, _mm256_set1_ps(1.0f)), _mm256_set1_ps(0.5f));
    __m256 f = _mm256_blendv_ps(t, reduced, upper);
    __m256 poly = _mm256_set1_ps(FG_LOG1P_C8);
    poly = _mm256_fmadd_ps(poly, f, _mm256_set1_ps(FG_LOG1P_C7));
    poly = _mm256_fmadd_ps(poly, f, _mm256_set1_ps(FG_LOG1P_C6));
    poly = _mm256_fmadd_ps(poly, f, _mm256_set1_ps(FG_LOG1P_C5));
    poly = _mm256_fmadd_ps(poly, f, _mm256_set1_ps(FG_LOG1P_C4));
    poly = _mm256_fmadd_ps(poly, f, _mm256_set1_ps(FG_LOG1P_C3));
    poly = _mm256_fmadd_ps(poly, f, _mm256_set1_ps(FG_LOG1P_C2));
    poly = _mm256_fmadd_ps(poly, f, _mm256_set1_ps(FG_LOG1P_C1));
    poly = _mm256_fmadd_ps(poly, f, _mm256_set1_ps(FG_LOG1P_C0));
    __m256 log1p_f = _mm256_fmadd_ps(poly, _mm256_mul_ps(f, f), f);
    __m256 doubled =
        _mm256_add_ps(_mm256_set1_ps(FG_LN2), _mm256_add_ps(log1p_f, _mm256_set1_ps(FG_LN2_REST)));
    return _mm256_blendv_ps(log1p_f, doubled, upper);
}

static inline __m256 fg_softplus_avx2(__m256 x)
{
    __m256 positive = _mm256_max_ps(_mm256_setzero_ps(), x);
    __m256 e = fg_exp_avx2(_mm256_or_ps(x, _mm256_set1_ps(-0.0f)));
    return _mm256_add_ps(positive, fg_log1p_avx2(e));
}
#endif
