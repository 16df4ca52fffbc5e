#include "kernels/avx2/math.h"
#include "kernels/avx2/vector.h"

void fg_add_avx2(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += 8) {
        __m256 v = _mm256_add_ps(fg_load_avx2(y + i, n - i), fg_load_avx2(x + i, n - i));
        fg_store_avx2(y + i, n - i, v);
    }
}

void fg_silu_mul_avx2(float *y, const float *gate, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i += 8) {
        __m256 v = fg_silu_avx2(fg_load_avx2(gate + i, n - i));
        fg_store_avx2(y + i, n - i, _mm256_mul_ps(v, fg_load_avx2(up + i, n - i)));
    }
}

void fg_sigmoid_mul_avx2(float *y, const float *x, const float *gate, int64_t n)
{
    for (int64_t i = 0; i < n; i += 8) {
        __m256 v = fg_sigmoid_avx2(fg_load_avx2(gate + i, n - i));
        fg_store_avx2(y + i, n - i, _mm256_mul_ps(fg_load_avx2(x + i, n - i), v));
    }
}

void fg_rope_avx2(float *x, const float *c, const float *s, int64_t rot)
{
    int64_t h = rot / 2;
    for (int64_t i = 0; i < h; i += 8) {
        __m256 a = fg_load_avx2(x + i, h - i), b = fg_load_avx2(x + i + h, h - i);
        __m256 ci = fg_load_avx2(c + i, h - i), si = fg_load_avx2(s + i, h - i);
        fg_store_avx2(x + i, h - i, _mm256_fnmadd_ps(b, si, _mm256_mul_ps(a, ci)));
        fg_store_avx2(x + i + h, h - i, _mm256_fmadd_ps(a, si, _mm256_mul_ps(b, ci)));
    }
}

// The maximum first, then its first place: both passes are at the speed of the (cached) array.
int64_t fg_argmax_avx2(const float *x, int64_t n)
{
    const int64_t whole = n / 8 * 8;
    __m256 best8 = _mm256_set1_ps(-INFINITY);
    for (int64_t i = 0; i < whole; i += 8) // VMAXPS gives its second operand when the first is NaN
        best8 = _mm256_max_ps(_mm256_loadu_ps(x + i), best8);
    float lane[8], best = -INFINITY;
    _mm256_storeu_ps(lane, best8);
    for (int i = 0; i < 8; i++)
        best = lane[i] > best ? lane[i] : best;
    for (int64_t i = whole; i < n; i++)
        best = x[i] > best ? x[i] : best;

    if (best == -INFINITY) return 0; // nothing above it: NaN counts as much
    for (int64_t i = 0; i < whole; i += 8) {
        __m256 hit = _mm256_cmp_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(best), _CMP_EQ_OQ);
        int bits = _mm256_movemask_ps(hit);
        if (bits) return i + __builtin_ctz((unsigned)bits);
    }
    int64_t i = whole;
    while (x[i] != best)
        i++;
    return i;
}
