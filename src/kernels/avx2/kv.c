// kernels/avx2/kv.c: rows of keys and values to their stored form (kv.h). A row is converted as a
// whole; where its elements go in the page is plain stores, each of its own bytes only, since other
// threads may store their rows beside them.
#include "kernels/avx2/kv.h"
#include "base/num.h"
#include "kernels/avx2/math.h"
#include "kernels/inline.h"
#include <string.h>

#define NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define F16_MAX 65504.0f

FG_INLINE __m128i to_f16(__m256 x)
{
    const __m256 most = _mm256_set1_ps(F16_MAX);
    x = _mm256_max_ps(_mm256_min_ps(x, most), _mm256_sub_ps(_mm256_setzero_ps(), most));
    return _mm256_cvtps_ph(x, NEAREST);
}

// h [W] from x [D], zeros from D on.
static void round_row(uint16_t *h, const float *x, int64_t D, int64_t W)
{
    for (int64_t d = 0; d < W; d += 8) {
        __m256 v = d < D ? fg_load_avx2(x + d, D - d) : _mm256_setzero_ps();
        _mm_storeu_si128((__m128i *)(h + d), to_f16(v));
    }
}

FG_INLINE __m256 wide(const uint16_t *h)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)h));
}

// Codes [W] of x [D], zeros from D on; returns the scale. Codes are clamped because scales this
// side of the smallest normal FP16 are coarse.
static uint16_t quantize_row(int8_t *code, const float *x, int64_t D, int64_t W)
{
    uint16_t h[FG_KV_WIDTH_MAX];
    float a[8];
    round_row(h, x, D, W);
    __m256 most = _mm256_setzero_ps();
    for (int64_t d = 0; d < W; d += 8)
        most = _mm256_max_ps(most, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), wide(h + d)));
    _mm256_storeu_ps(a, most);
    for (int i = 1; i < 8; i++)
        a[0] = a[i] > a[0] ? a[i] : a[0];
    const float least = a[0] / 127.0f;
    const uint16_t scale = fg_f16_of_f32(least > 1e-6f ? least : 1e-6f);

    const __m256 s = _mm256_set1_ps(fg_f16_to_f32(scale));
    for (int64_t d = 0; d < W; d += 32) {
        __m256i c[4];
        FG_UNROLL
        for (int j = 0; j < 4; j++)
            c[j] = _mm256_cvtps_epi32(_mm256_div_ps(wide(h + d + 8 * j), s));
        __m256i bytes =
            _mm256_packs_epi16(_mm256_packs_epi32(c[0], c[1]), _mm256_packs_epi32(c[2], c[3]));
        bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        bytes = _mm256_max_epi8(bytes, _mm256_set1_epi8(-127));
        _mm256_storeu_si256((__m256i *)(code + d), bytes);
    }
    return scale;
}

static void store_keys(const struct fg_kv_head *h, int64_t pos, const float *x)
{
    const int64_t D = h->D, W = fg_kv_width(D), t = pos % FG_KV_PAGE;
    uint8_t *page = h->k + pos / FG_KV_PAGE * fg_kv_k_page_bytes(h->format, D);
    if (fg_kv_k8(h->format)) {
        int8_t code[FG_KV_WIDTH_MAX];
        h->ks[pos] = quantize_row(code, x, D, W);
        uint8_t *to = page + t / 16 * W * 16 + t % 16 * 4;
        for (int64_t d = 0; d < W; d += 4) {
            uint32_t four;
            memcpy(&four, code + d, 4);
            four ^= 0x80808080;
            memcpy(to + d * 16, &four, 4);
        }
    } else if (h->format == FG_KV_F32) {
        float *to = (float *)page + t / 16 * W * 16 + t % 16;
        for (int64_t d = 0; d < W; d++)
            to[d * 16] = d < D ? x[d] : 0.0f;
    } else {
        uint16_t row[FG_KV_WIDTH_MAX], *to = (uint16_t *)page + t / 16 * W * 16 + t % 16;
        round_row(row, x, D, W);
        for (int64_t d = 0; d < W; d++)
            to[d * 16] = row[d];
    }
}

static void store_values(const struct fg_kv_head *h, int64_t pos, const float *x)
{
    const int64_t D = h->D, W = fg_kv_width(D), t = pos % FG_KV_PAGE;
    uint8_t *page = h->v + pos / FG_KV_PAGE * fg_kv_v_page_bytes(h->format, D);
    if (fg_kv_v8(h->format)) {
        int8_t code[FG_KV_WIDTH_MAX];
        h->vs[pos] = quantize_row(code, x, D, W);
        uint8_t *to = page + t / 4 * 128 + t % 4;
        for (int64_t d0 = 0; d0 < W; d0 += 32, to += FG_KV_PAGE * 32)
            for (int64_t d = 0; d < 32; d++)
                to[d * 4] = (uint8_t)code[d0 + d];
    } else if (h->format == FG_KV_F32) {
        float *to = (float *)page + t * W;
        for (int64_t d = 0; d < W; d += 8)
            _mm256_store_ps(to + d, d < D ? fg_load_avx2(x + d, D - d) : _mm256_setzero_ps());
    } else {
        round_row((uint16_t *)page + t * W, x, D, W);
    }
}
static bool is_finite(const float *x, int64_t n)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
    __m256i most = _mm256_setzero_si256(); // magnitudes as integers order like floats
    for (int64_t i = 0; i < n; i += 8) {
        __m256i v = _mm256_castps_si256(fg_load_avx2(x + i, n - i));
        most = _mm256_max_epi32(most, _mm256_and_si256(v, magnitude));
    }
    most = _mm256_cmpgt_epi32(most, _mm256_set1_epi32(0x7F7FFFFF));
    return _mm256_testz_si256(most, most);
}

bool fg_kv_store_avx2(const struct fg_kv_head *h, int64_t pos, const float *k, const float *v)
{
    if (!is_finite(k, h->D) || !is_finite(v, h->D)) return false;
    store_keys(h, pos, k);
    store_values(h, pos, v);
    return true;
}
