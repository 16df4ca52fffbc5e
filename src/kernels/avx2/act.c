// kernels/avx2/act.c: rotation and quantization of activations (lut.h), 8 lanes at a time.
#include "kernels/avx2/math.h"
#include "kernels/butterflies.h"
#include "kernels/inline.h"
#include "kernels/levels.h"
#include "kernels/ref/act.h"
#include <math.h>
#include <string.h>

// One stage of butterflies inside a register: `other` has a's and b's lanes exchanged, `plus_minus`
// is 1 in a's lanes and -1 in b's. b + a and a - b with one rounding, as two instructions do it.
FG_INLINE __m256 butterflies(__m256 v, __m256 other, __m256 plus_minus)
{
    return _mm256_fmadd_ps(v, plus_minus, other);
}

// x[0..8) with the signs of one byte.
FG_INLINE __m256 load_signed(const float *x, uint8_t signs)
{
    const __m256i to_top = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
    __m256i bits = _mm256_sllv_epi32(_mm256_set1_epi32(signs), to_top);
    __m256 flip = _mm256_and_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(-0.0f));
    return _mm256_xor_ps(_mm256_loadu_ps(x), flip);
}

FG_BUTTERFLIES(__m256)

// Signs and the stages h < 8 * R of 8 * R columns, times scale when these are all.
FG_INLINE void first_stages(const int R, const bool all, float *y, const float *x,
                            const uint8_t *signs, float scale)
{
    const __m256 pm1 = _mm256_setr_ps(1, -1, 1, -1, 1, -1, 1, -1);
    const __m256 pm2 = _mm256_setr_ps(1, 1, -1, -1, 1, 1, -1, -1);
    const __m256 pm4 = _mm256_setr_ps(1, 1, 1, 1, -1, -1, -1, -1);
    __m256 v[8];
    FG_UNROLL
    for (int i = 0; i < R; i++) {
        v[i] = load_signed(x + 8 * i, signs[i]);
        v[i] = butterflies(v[i], _mm256_permute_ps(v[i], 0xB1), pm1);
        v[i] = butterflies(v[i], _mm256_permute_ps(v[i], 0x4E), pm2);
        v[i] = butterflies(v[i], _mm256_permute2f128_ps(v[i], v[i], 1), pm4);
    }
    between(R, v);
    FG_UNROLL
    for (int i = 0; i < R; i++) {
        if (all) v[i] = _mm256_mul_ps(v[i], _mm256_set1_ps(scale));
        _mm256_storeu_ps(y + 8 * i, v[i]);
    }
}

// The stages h, 2h .. below R * h of a block of B columns; with the last, times scale.
FG_INLINE void later_stages(const int R, const bool last, float *y, int64_t B, int64_t h,
                            float scale)
{
    for (int64_t at = 0; at < B; at += R * h) {
        for (int64_t i = at; i < at + h; i += 8) {
            __m256 v[8];
            FG_UNROLL
            for (int j = 0; j < R; j++)
                v[j] = _mm256_loadu_ps(y + i + j * h);
            between(R, v);
            FG_UNROLL
            for (int j = 0; j < R; j++) {
                if (last) v[j] = _mm256_mul_ps(v[j], _mm256_set1_ps(scale));
                _mm256_storeu_ps(y + i + j * h, v[j]);
            }
        }
    }
}

static void fg_rotate_avx2(float *y, const float *x, const uint8_t *signs, int64_t n, int64_t B)
{
    const float scale = (float)(1.0 / sqrt((double)B));
    if (B <= 64) {
        for (int64_t at = 0; at < n; at += B) {
            switch (B) {
            case 8: first_stages(1, true, y + at, x + at, signs + at / 8, scale); break;
            case 16: first_stages(2, true, y + at, x + at, signs + at / 8, scale); break;
            case 32: first_stages(4, true, y + at, x + at, signs + at / 8, scale); break;
            default: first_stages(8, true, y + at, x + at, signs + at / 8, scale); break;
            }
        }
        return;
    }
    for (int64_t at = 0; at < n; at += B) {
        for (int64_t i = at; i < at + B; i += 64)
            first_stages(8, false, y + i, x + i, signs + i / 8, scale);
        switch (B) {
        case 128: later_stages(2, true, y + at, B, 64, scale); break;
        case 256: later_stages(4, true, y + at, B, 64, scale); break;
        case 512: later_stages(8, true, y + at, B, 64, scale); break;
        default:
            later_stages(4, false, y + at, B, 64, scale);
            later_stages(4, true, y + at, B, 256, scale);
        }
    }
}

// Largest magnitude, NaN when x holds NaN or infinity; as integers, magnitudes order like floats.
static float magnitude(const float *x, int64_t n)
{
    const __m256i bits = _mm256_set1_epi32(0x7FFFFFFF);
    __m256i most8[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        for (int j = 0; j < 2; j++) {
            __m256i v = _mm256_loadu_si256((const __m256i *)(x + i + 8 * j));
            most8[j] = _mm256_max_epi32(most8[j], _mm256_and_si256(v, bits));
        }
    }
    for (; i < n; i += 8) {
        __m256i v = _mm256_castps_si256(fg_load_avx2(x + i, n - i));
        most8[0] = _mm256_max_epi32(most8[0], _mm256_and_si256(v, bits));
    }
    most8[0] = _mm256_max_epi32(most8[0], most8[1]);
    __m128i most =
        _mm_max_epi32(_mm256_castsi256_si128(most8[0]), _mm256_extracti128_si256(most8[0], 1));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4E));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0xB1));
    return fg_act_magnitude((uint32_t)_mm_cvtsi128_si32(most));
}

static int32_t sum_lanes(__m256i v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1));
    return _mm_cvtsi128_si32(s);
}

// Four registers of codes to 32 bytes, in order.
FG_INLINE void store_codes(int8_t *dst, __m256i c0, __m256i c1, __m256i c2, __m256i c3)
{
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(c0, c1), _mm256_packs_epi32(c2, c3));
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)dst, bytes);
}

// The first n <= 8 codes of a register.
FG_INLINE void store_few(int8_t *dst, __m256i codes, int64_t n)
{
    int8_t bytes[32];
    store_codes(bytes, codes, codes, codes, codes);
    memcpy(dst, bytes, (size_t)(n < 8 ? n : 8));
}

FG_INLINE __m256i code(__m256 x, __m256 inv)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(x, inv));
}

static void fg_quantize_avx2(int8_t *xc, float *sx, int32_t *sum, const float *x, int64_t n)
{
    const float m = magnitude(x, n);
    if (fg_act_empty(xc, sx, sum, n, m)) return;
    const __m256 inv = _mm256_set1_ps(127.0f / m);
    __m256i total = _mm256_setzero_si256();
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i c[4];
        FG_UNROLL
        for (int j = 0; j < 4; j++) {
            c[j] = code(_mm256_loadu_ps(x + i + 8 * j), inv);
            total = _mm256_add_epi32(total, c[j]);
        }
        store_codes(xc + i, c[0], c[1], c[2], c[3]);
    }
    for (; i < n; i += 8) {
        __m256i c = code(fg_load_avx2(x + i, n - i), inv);
        total = _mm256_add_epi32(total, c);
        store_few(xc + i, c, n - i);
    }
    *sum = sum_lanes(total);
    *sx = m / 127.0f;
}

#define NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

// Two digits of base 255. Products and differences are whole numbers below 2^24, so exact.
FG_INLINE void digits(__m256i *hi, __m256i *lo, __m256 x, __m256 inv)
{
    __m256 v = _mm256_round_ps(_mm256_mul_ps(x, inv), NEAREST);
    __m256 h = _mm256_round_ps(_mm256_mul_ps(v, _mm256_set1_ps(1.0f / 255.0f)), NEAREST);
    *hi = _mm256_cvtps_epi32(h);
    *lo = _mm256_cvtps_epi32(_mm256_fnmadd_ps(_mm256_set1_ps(255.0f), h, v));
}

static void fg_quantize2_avx2(int8_t *hi, int8_t *lo, float sx[2], int32_t sum[2], const float *x,
                              int64_t n)
{
    const float m = magnitude(x, n);
    if (fg_act_empty(hi, &sx[0], &sum[0], n, m)) {
        fg_act_empty(lo, &sx[1], &sum[1], n, m);
        return;
    }
    const __m256 inv = _mm256_set1_ps(32512.0f / m);
    __m256i total_hi = _mm256_setzero_si256(), total_lo = total_hi;
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i h[4], l[4];
        FG_UNROLL
        for (int j = 0; j < 4; j++) {
            digits(&h[j], &l[j], _mm256_loadu_ps(x + i + 8 * j), inv);
            total_hi = _mm256_add_epi32(total_hi, h[j]);
            total_lo = _mm256_add_epi32(total_lo, l[j]);
        }
        store_codes(hi + i, h[0], h[1], h[2], h[3]);
        store_codes(lo + i, l[0], l[1], l[2], l[3]);
    }
    for (; i < n; i += 8) {
        __m256i h, l;
        digits(&h, &l, fg_load_avx2(x + i, n - i), inv);
        total_hi = _mm256_add_epi32(total_hi, h);
        total_lo = _mm256_add_epi32(total_lo, l);
        store_few(hi + i, h, n - i);
        store_few(lo + i, l, n - i);
    }
    sum[0] = sum_lanes(total_hi);
    sum[1] = sum_lanes(total_lo);
    sx[1] = m / 32512.0f;
    sx[0] = 255.0f * sx[1];
}

static float fg_sum_exp_avx2(const float *x, float m, int64_t n)
{
    const __m256 most = _mm256_set1_ps(m);
    __m256 lo = _mm256_setzero_ps(), hi = lo;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        lo = _mm256_add_ps(lo, fg_exp_avx2(_mm256_sub_ps(_mm256_loadu_ps(x + i), most)));
        hi = _mm256_add_ps(hi, fg_exp_avx2(_mm256_sub_ps(_mm256_loadu_ps(x + i + 8), most)));
    }
    for (; i < n; i += 8) { // at most one round for each half of the lanes
        __m256 e = fg_exp_avx2(_mm256_sub_ps(fg_load_avx2(x + i, n - i), most));
        e = _mm256_and_ps(e, _mm256_castsi256_ps(fg_lanes_avx2(n - i)));
        if (i % 16 == 0)
            lo = _mm256_add_ps(lo, e);
        else
            hi = _mm256_add_ps(hi, e);
    }
    return fg_tree_avx2(lo, hi);
}

void fg_fill_act_avx2(struct fg_kernels *k)
{
    k->rotate = fg_rotate_avx2;
    k->quantize = fg_quantize_avx2;
    k->quantize2 = fg_quantize2_avx2;
    k->sum_exp = fg_sum_exp_avx2;
}
