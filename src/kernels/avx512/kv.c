// kernels/avx512/kv.c: a row of keys and values to its stored form (kv.h): computed 16 dims at a
// time into a row, which is then laid out in its page.
#include "kernels/avx512/attn.h"
#include "kernels/avx512/math.h"
#include <string.h>

#define CODE_MAX 127.0f
#define SCALE_MIN 1e-6f
#define F16_MAX 65504.0f
#define NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

static bool finite_row(const float *x, int64_t D)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    __m512i most = _mm512_setzero_si512();
    for (int64_t d = 0; d < D; d += 16) {
        __m512i v = _mm512_maskz_loadu_epi32(fg_lanes_avx512(D - d), x + d);
        most = _mm512_max_epi32(most, _mm512_and_si512(v, magnitude));
    }
    return _mm512_reduce_max_epi32(most) < 0x7F800000;
}

// 16 dims from d on of x [D] in FP16, zero from D on.
FG_INLINE __m256i halves(const float *x, int64_t d, int64_t D)
{
    const __mmask16 some = d < D ? fg_lanes_avx512(D - d) : 0;
    const __m512 most = _mm512_set1_ps(F16_MAX);
    __m512 v = _mm512_maskz_loadu_ps(some, x + d);
    v = _mm512_max_ps(_mm512_min_ps(v, most), _mm512_sub_ps(_mm512_setzero_ps(), most));
    return _mm512_cvtps_ph(v, NEAREST);
}

static void to_f16(uint16_t *row, const float *x, int64_t D)
{
    for (int64_t d = 0; d < fg_kv_width(D); d += 16)
        _mm256_storeu_si256((__m256i *)(row + d), halves(x, d, D));
}

// Codes [W]; returns the scale, in FP16.
static uint16_t to_codes(uint8_t *row, const float *x, int64_t D)
{
    __m512 most = _mm512_setzero_ps();
    for (int64_t d = 0; d < D; d += 16)
        most = _mm512_max_ps(most, _mm512_abs_ps(_mm512_cvtph_ps(halves(x, d, D))));
    const float s = _mm512_reduce_max_ps(most) / CODE_MAX;
    const uint16_t scale = (uint16_t)_cvtss_sh(s > SCALE_MIN ? s : SCALE_MIN, NEAREST);
    const __m512 divisor = _mm512_set1_ps(_cvtsh_ss(scale));
    const __m512i max = _mm512_set1_epi32(127), min = _mm512_set1_epi32(-127);
    for (int64_t d = 0; d < fg_kv_width(D); d += 16) {
        __m512 quotient = _mm512_div_ps(_mm512_cvtph_ps(halves(x, d, D)), divisor);
        __m512i code = _mm512_cvtps_epi32(quotient);
        code = _mm512_max_epi32(_mm512_min_epi32(code, max), min);
        _mm_storeu_si128((__m128i *)(row + d), _mm512_cvtepi32_epi8(code));
    }
    return scale;
}

// [16 blocks][W][16 tokens], elements of `bytes`.
FG_INLINE void put_keys(const size_t bytes, uint8_t *page, int64_t t, const void *row, int64_t W)
{
    uint8_t *to = page + ((size_t)(t / 16 * W) * 16 + (size_t)(t % 16)) * bytes;
    const uint8_t *from = row;
    for (int64_t d = 0; d < W; d++, to += 16 * bytes, from += bytes)
        memcpy(to, from, bytes);
}

static void put_key_codes(uint8_t *page, int64_t t, const uint8_t *row, int64_t W)
{
    uint8_t *to = page + t / 16 * W * 16 + t % 16 * 4;
    for (int64_t d = 0; d < W; d += 4, to += 64) {
        uint32_t fours;
        memcpy(&fours, row + d, sizeof fours);
        fours ^= 0x80808080u; // code + 128
        memcpy(to, &fours, sizeof fours);
    }
}

static void put_value_codes(uint8_t *page, int64_t t, const uint8_t *row, int64_t W)
{
    for (int64_t d = 0; d < W; d += ATTN_STRIPE, row += ATTN_STRIPE) {
        uint8_t *to = page + d * FG_KV_PAGE + t / 4 * 128 + t % 4;
        FG_UNROLL
        for (int i = 0; i < ATTN_STRIPE; i++)
            to[4 * i] = row[i];
    }
}

bool fg_kv_store_avx512(const struct fg_kv_head *h, int64_t pos, const float *k, const float *v)
{
    if (!finite_row(k, h->D) || !finite_row(v, h->D)) return false;
    union {
        float f32[FG_KV_WIDTH_MAX];
        uint16_t f16[FG_KV_WIDTH_MAX];
        uint8_t codes[FG_KV_WIDTH_MAX];
    } row;
    const int64_t D = h->D, W = fg_kv_width(D), page = pos / FG_KV_PAGE, t = pos % FG_KV_PAGE;
    uint8_t *k_page = h->k + page * fg_kv_k_page_bytes(h->format, D);
    uint8_t *v_page = h->v + page * fg_kv_v_page_bytes(h->format, D);
    if (h->format == FG_KV_F32) {
        memcpy(row.f32, k, (size_t)D * sizeof *k);
        memset(row.f32 + D, 0, (size_t)(W - D) * sizeof *k);
        put_keys(sizeof *k, k_page, t, row.f32, W);
        memcpy(row.f32, v, (size_t)D * sizeof *v);
        memcpy(v_page + (size_t)(t * W) * sizeof *v, row.f32, (size_t)W * sizeof *v);
        return true;
    }
    if (fg_kv_k8(h->format)) {
        h->ks[pos] = to_codes(row.codes, k, D);
        put_key_codes(k_page, t, row.codes, W);
    } else {
        to_f16(row.f16, k, D);
        put_keys(sizeof row.f16[0], k_page, t, row.f16, W);
    }
    if (fg_kv_v8(h->format)) {
        h->vs[pos] = to_codes(row.codes, v, D);
        put_value_codes(v_page, t, row.codes, W);
    } else {
        to_f16((uint16_t *)v_page + t * W, v, D);
    }
    return true;
}
