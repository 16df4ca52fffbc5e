#include "kernels/avx512/math.h"
#include "kernels/avx512/vector.h"

void fg_add_avx512(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 in = fg_lanes_avx512(n - i);
        __m512 v =
            _mm512_add_ps(_mm512_maskz_loadu_ps(in, y + i), _mm512_maskz_loadu_ps(in, x + i));
        _mm512_mask_storeu_ps(y + i, in, v);
    }
}

void fg_silu_mul_avx512(float *y, const float *gate, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 in = fg_lanes_avx512(n - i);
        __m512 v = fg_silu_avx512(_mm512_maskz_loadu_ps(in, gate + i));
        _mm512_mask_storeu_ps(y + i, in, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(in, up + i)));
    }
}

void fg_sigmoid_mul_avx512(float *y, const float *x, const float *gate, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 in = fg_lanes_avx512(n - i);
        __m512 v = fg_sigmoid_avx512(_mm512_maskz_loadu_ps(in, gate + i));
        _mm512_mask_storeu_ps(y + i, in, _mm512_mul_ps(_mm512_maskz_loadu_ps(in, x + i), v));
    }
}

void fg_rope_avx512(float *x, const float *c, const float *s, int64_t rot)
{
    int64_t h = rot / 2;
    for (int64_t i = 0; i < h; i += 16) {
        __mmask16 in = fg_lanes_avx512(h - i);
        __m512 a = _mm512_maskz_loadu_ps(in, x + i), b = _mm512_maskz_loadu_ps(in, x + i + h);
        __m512 ci = _mm512_maskz_loadu_ps(in, c + i), si = _mm512_maskz_loadu_ps(in, s + i);
        _mm512_mask_storeu_ps(x + i, in, _mm512_fnmadd_ps(b, si, _mm512_mul_ps(a, ci)));
        _mm512_mask_storeu_ps(x + i + h, in, _mm512_fmadd_ps(a, si, _mm512_mul_ps(b, ci)));
    }
}

// The maximum first, then its first place: both passes are at the speed of the (cached) array.
int64_t fg_argmax_avx512(const float *x, int64_t n)
{
    const __m512 lowest = _mm512_set1_ps(-INFINITY);
    __m512 best = lowest;
    for (int64_t i = 0; i < n; i += 16) // VMAXPS gives its second operand when the first is NaN
        best = _mm512_max_ps(_mm512_mask_loadu_ps(lowest, fg_lanes_avx512(n - i), x + i), best);
    float max = _mm512_reduce_max_ps(best);
    if (max == -INFINITY) return 0; // nothing above it: NaN counts as much
    for (int64_t i = 0;; i += 16) {
        __mmask16 in = fg_lanes_avx512(n - i);
        __m512 v = _mm512_maskz_loadu_ps(in, x + i);
        __mmask16 hit = _mm512_mask_cmp_ps_mask(in, v, _mm512_set1_ps(max), _CMP_EQ_OQ);
        if (hit) return i + __builtin_ctz(hit);
    }
}
