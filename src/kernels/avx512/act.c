// kernels/avx512/act.c: rotation and quantization of activations (lut.h), 16 lanes at a time.
#include "kernels/avx512/math.h"
#include "kernels/butterflies.h"
#include "kernels/inline.h"
#include "kernels/levels.h"
#include "kernels/ref/act.h"
#include <math.h>
#include <string.h>

// 1 where bit h of the lane is clear, else -1.
FG_INLINE __m512 plus_minus(__mmask16 minus)
{
    return _mm512_mask_blend_ps(minus, _mm512_set1_ps(1.0f), _mm512_set1_ps(-1.0f));
}

// The stages h = 1, 2, 4 and, when asked for, 8 inside a register. A fused multiply-add of the
// exchanged lanes and +-v rounds once, as the b + a and a - b that it stands for.
FG_INLINE __m512 inside(const bool stage8, __m512 v)
{
    v = _mm512_fmadd_ps(v, plus_minus(0xAAAA), _mm512_permute_ps(v, 0xB1));
    v = _mm512_fmadd_ps(v, plus_minus(0xCCCC), _mm512_permute_ps(v, 0x4E));
    v = _mm512_fmadd_ps(v, plus_minus(0xF0F0), _mm512_shuffle_f32x4(v, v, 0xB1));
    if (stage8) v = _mm512_fmadd_ps(v, plus_minus(0xFF00), _mm512_shuffle_f32x4(v, v, 0x4E));
    return v;
}

// x[0..16) or its first half, with the signs of two bytes or one.
FG_INLINE __m512 load_signed(const float *x, const uint8_t *signs, bool half)
{
    const __m512 flip = _mm512_set1_ps(-0.0f);
    if (half) {
        __m512 v = _mm512_maskz_loadu_ps(0xFF, x);
        return _mm512_mask_xor_ps(v, signs[0], v, flip);
    }
    uint16_t bits;
    memcpy(&bits, signs, sizeof bits);
    __m512 v = _mm512_loadu_ps(x);
    return _mm512_mask_xor_ps(v, bits, v, flip);
}

FG_BUTTERFLIES(__m512)

// Signs and the stages h < 16 * R of 16 * R columns, times scale when these are all.
FG_INLINE void first_stages(const int R, const bool all, float *y, const float *x,
                            const uint8_t *signs, float scale)
{
    __m512 v[16];
    FG_UNROLL
    for (int i = 0; i < R; i++)
        v[i] = inside(true, load_signed(x + 16 * i, signs + 2 * i, false));
    between(R, v);
    FG_UNROLL
    for (int i = 0; i < R; i++) {
        if (all) v[i] = _mm512_mul_ps(v[i], _mm512_set1_ps(scale));
        _mm512_storeu_ps(y + 16 * i, v[i]);
    }
}

// The stages 256 .. below 256 * R of a block of 256 * R columns, then times scale.
FG_INLINE void later_stages(const int R, float *y, float scale)
{
    for (int64_t i = 0; i < 256; i += 16) {
        __m512 v[16];
        FG_UNROLL
        for (int j = 0; j < R; j++)
            v[j] = _mm512_loadu_ps(y + i + 256 * j);
        between(R, v);
        FG_UNROLL
        for (int j = 0; j < R; j++)
            _mm512_storeu_ps(y + i + 256 * j, _mm512_mul_ps(v[j], _mm512_set1_ps(scale)));
    }
}

// Blocks of 8: two at a time, and an odd last one.
static void rotate8(float *y, const float *x, const uint8_t *signs, int64_t n, float scale)
{
    for (int64_t i = 0; i < n; i += 16) {
        bool half = n - i < 16;
        __m512 v = inside(false, load_signed(x + i, signs + i / 8, half));
        v = _mm512_mul_ps(v, _mm512_set1_ps(scale));
        _mm512_mask_storeu_ps(y + i, half ? 0xFF : 0xFFFF, v);
    }
}

static void fg_rotate_avx512(float *y, const float *x, const uint8_t *signs, int64_t n, int64_t B)
{
    const float scale = (float)(1.0 / sqrt((double)B));
    if (B == 8) {
        rotate8(y, x, signs, n, scale);
        return;
    }
    if (B <= 256) {
        for (int64_t i = 0; i < n; i += B) {
            switch (B) {
            case 16: first_stages(1, true, y + i, x + i, signs + i / 8, scale); break;
            case 32: first_stages(2, true, y + i, x + i, signs + i / 8, scale); break;
            case 64: first_stages(4, true, y + i, x + i, signs + i / 8, scale); break;
            case 128: first_stages(8, true, y + i, x + i, signs + i / 8, scale); break;
            default: first_stages(16, true, y + i, x + i, signs + i / 8, scale); break;
            }
        }
        return;
    }
    for (int64_t at = 0; at < n; at += B) {
        for (int64_t i = at; i < at + B; i += 256)
            first_stages(16, false, y + i, x + i, signs + i / 8, scale);
        if (B == 512)
            later_stages(2, y + at, scale);
        else
            later_stages(4, y + at, scale);
    }
}

// Largest magnitude, NaN when x holds NaN or infinity; as integers, magnitudes order like floats.
static float magnitude(const float *x, int64_t n)
{
    const __m512i bits = _mm512_set1_epi32(0x7FFFFFFF);
    __m512i most[4];
    for (int j = 0; j < 4; j++)
        most[j] = _mm512_setzero_si512();
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
        FG_UNROLL
        for (int j = 0; j < 4; j++) {
            __m512i v = _mm512_loadu_si512(x + i + 16 * j);
            most[j] = _mm512_max_epi32(most[j], _mm512_and_si512(v, bits));
        }
    }
    for (; i < n; i += 16) {
        __m512i v = _mm512_maskz_loadu_epi32(fg_lanes_avx512(n - i), x + i);
        most[0] = _mm512_max_epi32(most[0], _mm512_and_si512(v, bits));
    }
    __m512i all =
        _mm512_max_epi32(_mm512_max_epi32(most[0], most[1]), _mm512_max_epi32(most[2], most[3]));
    return fg_act_magnitude((uint32_t)_mm512_reduce_max_epi32(all));
}

// Four registers of codes to 64 bytes, in order.
FG_INLINE void store_codes(int8_t *dst, const __m512i c[4])
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i bytes =
        _mm512_packs_epi16(_mm512_packs_epi32(c[0], c[1]), _mm512_packs_epi32(c[2], c[3]));
    _mm512_storeu_si512(dst, _mm512_permutexvar_epi32(order, bytes));
}

FG_INLINE __m512i code(__m512 x, __m512 inv)
{
    return _mm512_cvtps_epi32(_mm512_mul_ps(x, inv));
}

static void fg_quantize_avx512(int8_t *xc, float *sx, int32_t *sum, const float *x, int64_t n)
{
    const float m = magnitude(x, n);
    if (fg_act_empty(xc, sx, sum, n, m)) return;
    const __m512 inv = _mm512_set1_ps(127.0f / m);
    __m512i total = _mm512_setzero_si512();
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512i c[4];
        FG_UNROLL
        for (int j = 0; j < 4; j++)
            c[j] = code(_mm512_loadu_ps(x + i + 16 * j), inv);
        __m512i both = _mm512_add_epi32(_mm512_add_epi32(c[0], c[1]), _mm512_add_epi32(c[2], c[3]));
        total = _mm512_add_epi32(total, both);
        store_codes(xc + i, c);
    }
    for (; i < n; i += 16) {
        __mmask16 some = fg_lanes_avx512(n - i);
        __m512i c = code(_mm512_maskz_loadu_ps(some, x + i), inv);
        total = _mm512_add_epi32(total, c);
        _mm_mask_storeu_epi8(xc + i, some, _mm512_cvtepi32_epi8(c));
    }
    *sum = _mm512_reduce_add_epi32(total);
    *sx = m / 127.0f;
}

#define NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

// Two digits of base 255. Products and differences are whole numbers below 2^24, so exact.
FG_INLINE void digits(__m512i *hi, __m512i *lo, __m512 x, __m512 inv)
{
    __m512 v = _mm512_roundscale_ps(_mm512_mul_ps(x, inv), NEAREST);
    __m512 h = _mm512_roundscale_ps(_mm512_mul_ps(v, _mm512_set1_ps(1.0f / 255.0f)), NEAREST);
    *hi = _mm512_cvtps_epi32(h);
    *lo = _mm512_cvtps_epi32(_mm512_fnmadd_ps(_mm512_set1_ps(255.0f), h, v));
}

static void fg_quantize2_avx512(int8_t *hi, int8_t *lo, float sx[2], int32_t sum[2], const float *x,
                                int64_t n)
{
    const float m = magnitude(x, n);
    if (fg_act_empty(hi, &sx[0], &sum[0], n, m)) {
        fg_act_empty(lo, &sx[1], &sum[1], n, m);
        return;
    }
    const __m512 inv = _mm512_set1_ps(32512.0f / m);
    __m512i total_hi = _mm512_setzero_si512(), total_lo = total_hi;
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512i h[4], l[4];
        FG_UNROLL
        for (int j = 0; j < 4; j++) {
            digits(&h[j], &l[j], _mm512_loadu_ps(x + i + 16 * j), inv);
            total_hi = _mm512_add_epi32(total_hi, h[j]);
            total_lo = _mm512_add_epi32(total_lo, l[j]);
        }
        store_codes(hi + i, h);
        store_codes(lo + i, l);
    }
    for (; i < n; i += 16) {
        __mmask16 some = fg_lanes_avx512(n - i);
        __m512i h, l;
        digits(&h, &l, _mm512_maskz_loadu_ps(some, x + i), inv);
        total_hi = _mm512_add_epi32(total_hi, h);
        total_lo = _mm512_add_epi32(total_lo, l);
        _mm_mask_storeu_epi8(hi + i, some, _mm512_cvtepi32_epi8(h));
        _mm_mask_storeu_epi8(lo + i, some, _mm512_cvtepi32_epi8(l));
    }
    sum[0] = _mm512_reduce_add_epi32(total_hi);
    sum[1] = _mm512_reduce_add_epi32(total_lo);
    sx[1] = m / 32512.0f;
    sx[0] = 255.0f * sx[1];
}

static float fg_sum_exp_avx512(const float *x, float m, int64_t n)
{
    const __m512 most = _mm512_set1_ps(m);
    __m512 sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 some = fg_lanes_avx512(n - i);
        __m512 e = fg_exp_avx512(_mm512_sub_ps(_mm512_maskz_loadu_ps(some, x + i), most));
        sum = _mm512_mask_add_ps(sum, some, sum, e);
    }
    return fg_tree_avx512(sum);
}

void fg_fill_act_avx512(struct fg_kernels *k)
{
    k->rotate = fg_rotate_avx512;
    k->quantize = fg_quantize_avx512;
    k->quantize2 = fg_quantize2_avx512;
    k->sum_exp = fg_sum_exp_avx512;
}
