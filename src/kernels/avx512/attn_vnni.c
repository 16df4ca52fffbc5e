// kernels/avx512/attn_vnni.c: the INT8 parts of attention (kv.h) by VPDPBUSD, 64 products an
// instruction. Scores: lanes are tokens, the unsigned side is keys with 128 added, which comes off
// by where the sums begin. Outputs: lanes are dims, the unsigned side is the high and the low byte
// of a probability, in sums of their own. Up to 24 sums are in registers: what fewer rows leave
// free goes to more tokens, for few chains would wait for themselves.
#include "base/num.h"
#include "kernels/avx512/attn.h"
#include "kernels/avx512/dot4.h"
#include "kernels/levels.h"
#include <string.h>

FG_INLINE __m512i four(const void *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm512_set1_epi32(v);
}

// R rows from `row` on, C groups of tokens from g on. A row has two sums, of its digits.
FG_INLINE void score(const int R, const int C, const struct attn_block *b, int64_t row, int64_t g,
                     const uint8_t *ahead)
{
    const int regs = C * ATTN_BLOCKS;
    const int64_t quads = b->W / 4, stride = 64 * quads;
    const uint8_t *k = b->k + g * ATTN_BLOCKS * stride;
    const int8_t *q = b->rows->qc + (b->r0 + row) * 2 * b->W;
    __m512i acc[24]; // [R][high, low][tokens]
    FG_UNROLL_FULL
    for (int i = 0; i < 2 * R * regs; i++) {
        const int32_t bias = -128 * b->rows->qsum[b->r0 + row + i / regs / 2];
        acc[i] = _mm512_set1_epi32(i / regs % 2 ? bias : 0);
    }
    for (int64_t j = 0; j < quads; j++, k += 64, q += 4) {
        __m512i kj[2 * ATTN_BLOCKS];
        FG_UNROLL_FULL
        for (int c = 0; c < regs; c++)
            kj[c] = _mm512_load_si512(k + c * stride);
        FG_UNROLL_FULL
        for (int c = 0; ahead && c < regs; c += 4)
            attn_ahead(ahead + 64 * j + c * stride, stride, 1);
        FG_UNROLL_FULL
        for (int r = 0; r < 2 * R; r++) {
            __m512i qr = four(q + r * b->W);
            FG_UNROLL_FULL
            for (int c = 0; c < regs; c++)
                acc[r * regs + c] = fg_dot4_avx512(acc[r * regs + c], kj[c], qr);
        }
    }
    FG_UNROLL_FULL
    for (int r = 0; r < R; r++) {
        const __m512 qs = _mm512_set1_ps(b->rows->qs[b->r0 + row + r]);
        FG_UNROLL_FULL
        for (int c = 0; c < regs; c++) {
            const __m512i sum = attn_two_digits(acc[2 * r * regs + c], acc[(2 * r + 1) * regs + c]);
            const int64_t t = g * ATTN_TOKENS + 16 * c;
            const __m512 s = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), qs);
            _mm512_store_ps(b->mem->s[row + r] + t,
                            _mm512_mul_ps(s, _mm512_load_ps(b->mem->ks + t)));
        }
    }
}

// Rows go together by three at most, as each has twice the sums.
static void scores(struct attn_block *b)
{
    int64_t step;
    for (int64_t g = 0; g < b->groups; g += step) {
        step = b->n == 1 && g + 2 <= b->groups ? 2 : 1;
        const uint8_t *ahead = attn_ahead_of_group(b, g, step);
        for (int64_t i = 0, R; i < b->n; i += R, ahead = NULL) {
            const int64_t left = b->n - i;
            R = left == 4 ? 2 : left < 3 ? left : 3;
            if (R == 3) score(3, 1, b, i, g, ahead);
            if (R == 2) score(2, 1, b, i, g, ahead);
            if (R == 1 && step == 2) score(1, 2, b, i, g, ahead);
            if (R == 1 && step == 1) score(1, 1, b, i, g, ahead);
        }
    }
}

// R rows from `row` on, one stripe of dims; S: quads of tokens with sums of their own.
FG_INLINE void weigh(const int R, const int S, const struct attn_block *b, int64_t row,
                     int64_t stripe, const uint8_t *ahead)
{
    const uint8_t *v = b->v + stripe * ATTN_STRIPE_BYTES, *p = attn_p(b, row);
    const int64_t quads = b->groups * ATTN_TOKENS / 4;
    __m512i acc[24]; // [R][S][high, low][32 dims]
    FG_UNROLL_FULL
    for (int i = 0; i < R * S * 4; i++)
        acc[i] = _mm512_setzero_si512();
    for (int64_t j = 0; j < quads; j += S, v += 128 * S, p += 4 * S) {
        if (ahead && j % 2 == 0) attn_ahead(ahead + 32 * j, ATTN_AHEAD_BYTES, S < 2 ? 1 : S / 2);
        FG_UNROLL_FULL
        for (int s = 0; s < S; s++) {
            const __m512i v0 = _mm512_load_si512(v + 128 * s);
            const __m512i v1 = _mm512_load_si512(v + 128 * s + 64);
            FG_UNROLL_FULL
            for (int r = 0; r < R; r++) {
                __m512i *a = acc + (r * S + s) * 4;
                const uint8_t *pr = p + r * 4 * ATTN_LD + 4 * s;
                const __m512i high = four(pr), low = four(pr + FG_KV_PAGE);
                a[0] = fg_dot4_avx512(a[0], high, v0);
                a[1] = fg_dot4_avx512(a[1], high, v1);
                a[2] = fg_dot4_avx512(a[2], low, v0);
                a[3] = fg_dot4_avx512(a[3], low, v1);
            }
        }
    }
    FG_UNROLL_FULL
    for (int i = 0; i < R * 2; i++) {
        const int r = i / 2, half = i % 2;
        __m512i high = acc[r * S * 4 + half], low = acc[r * S * 4 + 2 + half];
        FG_UNROLL_FULL
        for (int s = 1; s < S; s++) {
            high = _mm512_add_epi32(high, acc[(r * S + s) * 4 + half]);
            low = _mm512_add_epi32(low, acc[(r * S + s) * 4 + 2 + half]);
        }
        __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(high, 8), low);
        attn_combine16_i32(b, row + r, stripe * ATTN_STRIPE + half * 16, sum);
    }
}

static void outputs(struct attn_block *b)
{
    const int64_t stripes = b->W / ATTN_STRIPE;
    for (int64_t d = 0; d < stripes; d++) {
        const uint8_t *ahead = attn_ahead_of_stripe(b, d);
        for (int64_t i = 0, R; i < b->n; i += R, ahead = NULL) {
            R = attn_together(b->n - i);
            if (R == 6) weigh(6, 1, b, i, d, ahead);
            if (R == 4) weigh(4, 1, b, i, d, ahead);
            if (R == 3) weigh(3, 1, b, i, d, ahead);
            if (R == 2) weigh(2, 2, b, i, d, ahead);
            if (R == 1) weigh(1, 4, b, i, d, ahead);
        }
    }
}

void fg_attn_tile_fast_avx512vnni(const struct fg_attn_acc *acc, const struct fg_kv_head *kv,
                                  int64_t tile, const struct fg_attn_rows *rows, int64_t r0,
                                  int64_t r1, void *scratch)
{
    static const struct attn_parts parts[] = {
        [FG_KV_V8] = {fg_attn_scores_f16_avx512, fg_attn_softmax_bytes_avx512, outputs, 12},
        [FG_KV_KV8] = {scores, fg_attn_softmax_bytes_avx512, outputs, 12},
    };
    if (fg_kv_v8(kv->format))
        fg_attn_walk_avx512(&parts[kv->format], acc, kv, tile, rows, r0, r1, scratch);
    else
        fg_attn_tile_avx512(acc, kv, tile, rows, r0, r1, scratch);
}

void fg_fill_attn_avx512vnni(struct fg_kernels *k)
{
    k->attn_tile[1] = fg_attn_tile_fast_avx512vnni;
}
