// kernels/avx512/attn.c: attention over stored keys and values (kv.h), 16 lanes at a time. Keys
// have tokens as lanes, values dims, so no sum goes across lanes but that of l. Blocks of query
// rows go through a tile together: each register of keys or values is widened once for up to six
// rows, whose sums are independent chains.
#include "kernels/avx512/attn.h"
#include "kernels/avx512/math.h"
#include "kernels/levels.h"
#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#define BLOCK_ROWS 12 // two times six
#define VALUE_REGS 8  // dims that few rows take through the tokens at once, in registers

// At most fg_attn_tile_scratch_bytes: 16 rows for any W, all for W >= 64.
#define SCRATCH_BYTES(W)                                                                           \
    (FG_ATTN_BLOCK_MAX * (FG_KV_PAGE * 6 + 16) + 2 * FG_KV_PAGE * 4 + 256 * (W))
static_assert(offsetof(struct attn_scratch, s[FG_ATTN_BLOCK_MAX]) <= SCRATCH_BYTES(32), "few rows");
static_assert(sizeof(struct attn_scratch) <= SCRATCH_BYTES(64), "all rows");

// Bytes j, j + 4, ... of 16 fours of signed codes.
FG_INLINE __m512 widen_codes(__m512i fours, const unsigned j)
{
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(fours, 24 - 8 * j), 24));
}

// Dim d = 4 * quads + j of the 16 tokens of a block of keys; ks: their scales.
FG_INLINE __m512 key16(const enum fg_kv_format f, const uint8_t *block, int64_t d, const unsigned j,
                       const float *ks)
{
    if (f == FG_KV_F32) return _mm512_load_ps(block + 64 * d);
    if (f == FG_KV_FP16)
        return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(block + 32 * d)));
    const __m512i fours = _mm512_load_si512(block + 64 * (d / 4));
    return _mm512_mul_ps(widen_codes(_mm512_xor_si512(fours, _mm512_set1_epi8(-128)), j),
                         _mm512_load_ps(ks));
}

// One dim of R rows and `regs` blocks.
FG_INLINE void score_dim(const enum fg_kv_format f, const int R, const int regs, __m512 *acc,
                         const uint8_t *k, int64_t stride, const float *q, int64_t W, int64_t d,
                         const unsigned j, const float *ks)
{
    __m512 kd[2 * ATTN_BLOCKS];
    FG_UNROLL_FULL
    for (int c = 0; c < regs; c++)
        kd[c] = key16(f, k + c * stride, d, j, ks + 16 * c);
    FG_UNROLL_FULL
    for (int r = 0; r < R; r++) {
        const __m512 qd = _mm512_set1_ps(q[r * W + d]);
        FG_UNROLL_FULL
        for (int c = 0; c < regs; c++)
            acc[r * regs + c] = _mm512_fmadd_ps(qd, kd[c], acc[r * regs + c]);
    }
}

// FP32 scores of R rows from `row` on and C groups of tokens from g on.
FG_INLINE void score(const enum fg_kv_format f, const int R, const int C,
                     const struct attn_block *b, int64_t row, int64_t g, const uint8_t *ahead)
{
    const int regs = C * ATTN_BLOCKS, bytes = f == FG_KV_F32 ? 64 : f == FG_KV_FP16 ? 32 : 16;
    const int64_t stride = b->W * bytes, D = b->D, W = b->W;
    const uint8_t *k = b->k + g * ATTN_BLOCKS * stride;
    const float *q = b->rows->q + (b->r0 + row) * W, *ks = b->mem->ks + g * ATTN_TOKENS;
    __m512 acc[24];
    FG_UNROLL_FULL
    for (int i = 0; i < R * regs; i++)
        acc[i] = _mm512_setzero_ps();
    int64_t d = 0;
    for (; d + 4 <= D; d += 4) {
        FG_UNROLL_FULL
        for (int c = 0; ahead && c < regs; c += 4)
            attn_ahead(ahead + d * bytes + c * stride, stride, bytes / 16);
        FG_UNROLL_FULL
        for (unsigned j = 0; j < 4; j++)
            score_dim(f, R, regs, acc, k, stride, q, W, d + j, j, ks);
    }
    for (unsigned j = 0; d < D; d++, j++) // not to W: adding +0 would turn -0 into +0
        score_dim(f, R, regs, acc, k, stride, q, W, d, j, ks);
    FG_UNROLL_FULL
    for (int i = 0; i < R * regs; i++)
        _mm512_store_ps(b->mem->s[row + i / regs] + g * ATTN_TOKENS + i % regs * 16,
                        _mm512_mul_ps(acc[i], _mm512_set1_ps(b->rows->scale)));
}

FG_INLINE void scores(const enum fg_kv_format f, struct attn_block *b)
{
    const int64_t bytes = f == FG_KV_F32 ? 4 : f == FG_KV_FP16 ? 2 : 1;
    int64_t step;
    for (int64_t g = 0; g < b->groups; g += step) {
        step = b->n <= 2 && g + 2 <= b->groups ? 2 : 1;
        const uint8_t *ahead = NULL;
        if (b->first)
            ahead = g + step < ATTN_GROUPS ? b->k + (g + step) * ATTN_TOKENS * b->W * bytes : b->v;
        for (int64_t i = 0, R; i < b->n; i += R, ahead = NULL) {
            R = attn_together(b->n - i);
            if (R == 6) score(f, 6, 1, b, i, g, ahead);
            if (R == 4) score(f, 4, 1, b, i, g, ahead);
            if (R == 3) score(f, 3, 1, b, i, g, ahead);
            if (R == 2 && step == 2) score(f, 2, 2, b, i, g, ahead);
            if (R == 2 && step == 1) score(f, 2, 1, b, i, g, ahead);
            if (R == 1 && step == 2) score(f, 1, 2, b, i, g, ahead);
            if (R == 1 && step == 1) score(f, 1, 1, b, i, g, ahead);
        }
    }
}

void fg_attn_scores_f32_avx512(struct attn_block *b)
{
    scores(FG_KV_F32, b);
}

void fg_attn_scores_f16_avx512(struct attn_block *b)
{
    scores(FG_KV_FP16, b);
}

static void scores_codes_exact(struct attn_block *b)
{
    scores(FG_KV_KV8, b);
}

// Fours of codes as pairs of 16 bits: of bytes 0 and 2, and of bytes 1 and 3.
FG_INLINE __m512i even_codes(__m512i fours)
{
    return _mm512_srai_epi16(_mm512_slli_epi16(fours, 8), 8);
}

FG_INLINE __m512i odd_codes(__m512i fours)
{
    return _mm512_srai_epi16(fours, 8);
}

// a + x0 * y0 + x1 * y1 in each lane.
FG_INLINE __m512i add_pairs(__m512i a, __m512i x, __m512i y)
{
    return _mm512_add_epi32(a, _mm512_madd_epi16(x, y));
}

// Codes of two digits: at most 32512.
FG_INLINE __m512i two_digits(__m512i high, __m512i low)
{
    return _mm512_add_epi16(_mm512_sub_epi16(_mm512_slli_epi16(high, 8), high), low);
}

// Codes of query row i for VPMADDWD, [W / 4][2] pairs of 16 bits, of dims 0, 2 and 1, 3. They lie
// after the rows of scores, and take 24 W bytes at most.
FG_INLINE int32_t *query_pairs(const struct attn_block *b, int64_t i)
{
    return (int32_t *)b->mem->s[BLOCK_ROWS] + i * b->W / 2;
}

// Scores of codes by VPMADDWD, R rows from `row` on, one group of tokens.
FG_INLINE void score_codes(const int R, const struct attn_block *b, int64_t row, int64_t g)
{
    const int64_t quads = b->W / 4, stride = 64 * quads;
    const uint8_t *k = b->k + g * ATTN_BLOCKS * stride;
    const int32_t *q = query_pairs(b, row);
    __m512i acc[24];
    FG_UNROLL_FULL
    for (int i = 0; i < R * ATTN_BLOCKS; i++)
        acc[i] = _mm512_setzero_si512();
    for (int64_t j = 0; j < quads; j++, k += 64, q += 2) {
        FG_UNROLL_FULL
        for (int c = 0; c < ATTN_BLOCKS; c++) {
            const __m512i fours =
                _mm512_xor_si512(_mm512_load_si512(k + c * stride), _mm512_set1_epi8(-128));
            const __m512i even = even_codes(fours), odd = odd_codes(fours);
            FG_UNROLL_FULL
            for (int r = 0; r < R; r++) {
                __m512i *a = &acc[r * ATTN_BLOCKS + c];
                *a = add_pairs(*a, even, _mm512_set1_epi32(q[r * 2 * quads]));
                *a = add_pairs(*a, odd, _mm512_set1_epi32(q[r * 2 * quads + 1]));
            }
        }
    }
    FG_UNROLL_FULL
    for (int i = 0; i < R * ATTN_BLOCKS; i++) {
        const int64_t r = row + i / ATTN_BLOCKS, t = g * ATTN_TOKENS + i % ATTN_BLOCKS * 16;
        __m512 s = _mm512_cvtepi32_ps(acc[i]);
        s = _mm512_mul_ps(s, _mm512_set1_ps(b->rows->qs[b->r0 + r]));
        _mm512_store_ps(b->mem->s[r] + t, _mm512_mul_ps(s, _mm512_load_ps(b->mem->ks + t)));
    }
}

FG_INLINE __m512i half(const int8_t *p)
{
    return _mm512_castsi256_si512(_mm256_load_si256((const __m256i *)p));
}

static void scores_codes(struct attn_block *b)
{
    for (int64_t i = 0; i < b->n; i++) {
        const int8_t *qc = b->rows->qc + (b->r0 + i) * 2 * b->W;
        int32_t *q = query_pairs(b, i);
        for (int64_t d = 0; d < b->W; d += 32, q += 16) { // a half of a register is 8 fours
            const __m512i high = half(qc + d), low = half(qc + b->W + d);
            const __m512i even = two_digits(even_codes(high), even_codes(low));
            const __m512i odd = two_digits(odd_codes(high), odd_codes(low));
            const __m512i pairs =
                _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            _mm512_store_si512(q, _mm512_permutex2var_epi32(even, pairs, odd));
        }
    }
    for (int64_t g = 0; g < b->groups; g++) {
        for (int64_t i = 0, R; i < b->n; i += R) {
            R = attn_together(b->n - i);
            if (R == 6) score_codes(6, b, i, g);
            if (R == 4) score_codes(4, b, i, g);
            if (R == 3) score_codes(3, b, i, g);
            if (R == 2) score_codes(2, b, i, g);
            if (R == 1) score_codes(1, b, i, g);
        }
    }
}

// How the triples of the tile go into the running ones, 16 rows from i on; updates those but for o.
FG_INLINE void combine_sums(struct attn_block *b, int64_t i)
{
    const __mmask16 rows = fg_lanes_avx512(b->n - i);
    const __m512 none = _mm512_set1_ps(-INFINITY), one = _mm512_set1_ps(1.0f);
    float *m_at = b->acc->m + b->r0 + i, *l_at = b->acc->l + b->r0 + i;
    const __m512 m = _mm512_mask_loadu_ps(none, rows, m_at), l = _mm512_maskz_loadu_ps(rows, l_at);
    const __m512 m2 = _mm512_load_ps(b->m + i), l2 = _mm512_load_ps(b->l + i);
    const __mmask16 empty = _mm512_cmp_ps_mask(m, none, _CMP_EQ_OQ);
    const __mmask16 keep = _mm512_mask_cmp_ps_mask(_knot_mask16(empty), m2, none, _CMP_EQ_OQ);
    const __m512 M = _mm512_max_ps(m, m2);
    const __m512 a = fg_exp_avx512(_mm512_sub_ps(m, M));
    const __m512 e = fg_exp_avx512(_mm512_sub_ps(m2, M));
    const __m512 sum = _mm512_fmadd_ps(l, a, _mm512_mul_ps(l2, e));
    _mm512_store_ps(b->a + i, a);
    _mm512_store_ps(b->b + i, _mm512_mask_mov_ps(e, empty, one));
    const __mmask16 changed = _kandn_mask16(keep, rows);
    _mm512_mask_storeu_ps(m_at, changed, M);
    _mm512_mask_storeu_ps(l_at, changed, _mm512_mask_mov_ps(sum, empty, l2));
    b->empty |= (uint32_t)empty << i;
    b->keep |= (uint32_t)keep << i;
}

// Tokens of group g's register c that a row sees.
FG_INLINE __mmask16 in_sight(const bool whole, int64_t seen, int64_t t)
{
    return whole ? 0xffff : seen > t ? fg_lanes_avx512(seen - t) : 0;
}

FG_INLINE void row_most(const bool whole, struct attn_block *b, int64_t i)
{
    const float *s = b->mem->s[i];
    const __m512 none = _mm512_set1_ps(-INFINITY);
    __m512 most[ATTN_BLOCKS] = {none, none, none, none};
    for (int64_t g = 0; g < b->groups; g++) {
        FG_UNROLL_FULL
        for (int c = 0; c < ATTN_BLOCKS; c++) { // NaN as the first operand counts as nothing
            const int64_t t = g * ATTN_TOKENS + c * 16;
            const __mmask16 in = in_sight(whole, b->seen[i], t);
            most[c] = _mm512_max_ps(_mm512_mask_loadu_ps(none, in, s + t), most[c]);
        }
    }
    most[0] = _mm512_max_ps(_mm512_max_ps(most[0], most[1]), _mm512_max_ps(most[2], most[3]));
    b->m[i] = _mm512_reduce_max_ps(most[0]);
}

// Scores to e_t and l, and, with scales, to w_t and unit = pm.
FG_INLINE void row_exp(const bool whole, const bool scales, struct attn_block *b, int64_t i)
{
    float *s = b->mem->s[i];
    const __m512 m = _mm512_set1_ps(b->m[i]);
    __m512 sum = _mm512_setzero_ps(), most = sum;
    for (int64_t t = 0; t < b->groups * ATTN_TOKENS; t += 16) {
        const __mmask16 in = in_sight(whole, b->seen[i], t);
        __m512 e = fg_exp_avx512(_mm512_sub_ps(_mm512_load_ps(s + t), m));
        sum = _mm512_mask_add_ps(sum, in, sum, e);
        e = _mm512_maskz_mov_ps(in, e);
        if (scales) {
            e = _mm512_maskz_mul_ps(in, e, _mm512_load_ps(b->mem->vs + t));
            most = _mm512_max_ps(e, most);
        }
        _mm512_store_ps(s + t, e);
    }
    b->l[i] = fg_tree_avx512(sum);
    if (scales) b->unit[i] = _mm512_reduce_max_ps(most);
}

FG_INLINE void softmax(const bool scales, struct attn_block *b)
{
    const bool whole = b->seen[0] >= b->groups * ATTN_TOKENS;
    for (int64_t i = 0; i < b->n; i++) {
        if (whole)
            row_most(true, b, i);
        else
            row_most(false, b, i);
    }
    for (int64_t i = 0; i < b->n; i++) {
        if (whole)
            row_exp(true, scales, b, i);
        else
            row_exp(false, scales, b, i);
    }
    b->empty = b->keep = 0;
    for (int64_t i = 0; i < b->n; i += 16)
        combine_sums(b, i);
}

void fg_attn_softmax_avx512(struct attn_block *b)
{
    softmax(false, b);
}

// From w_t to P_t of a row.
struct quotient {
    __m512 factor;
    __mmask16 any; // none where pm = 0
};

FG_INLINE struct quotient quotient(struct attn_block *b, int64_t i)
{
    const float pm = b->unit[i];
    b->unit[i] = pm / ATTN_P_MAX;
    return (struct quotient){_mm512_set1_ps(ATTN_P_MAX / pm), pm == 0.0f ? 0 : 0xffff};
}

FG_INLINE __m512i probabilities(const float *w, struct quotient by)
{
    const __m512 p = _mm512_mul_ps(_mm512_load_ps(w), by.factor);
    return _mm512_maskz_cvtps_epi32(by.any, _mm512_min_ps(p, _mm512_set1_ps(ATTN_P_MAX)));
}

void fg_attn_softmax_bytes_avx512(struct attn_block *b)
{
    softmax(true, b);
    const __m512i low = _mm512_set1_epi16(255);
    // Packing keeps to quarters of registers: dword 4 q + c is quad q of register c.
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (int64_t i = 0; i < b->n; i++) {
        const struct quotient by = quotient(b, i);
        const float *w = b->mem->s[i];
        __m512i high[ATTN_GROUPS], some[ATTN_GROUPS]; // all, before they take the place of w
        FG_UNROLL_FULL
        for (int g = 0; g < ATTN_GROUPS; g++, w += ATTN_TOKENS) {
            high[g] = some[g] = _mm512_setzero_si512();
            if (g >= b->groups) continue;
            const __m512i a = _mm512_packus_epi32(probabilities(w, by), probabilities(w + 16, by));
            const __m512i c =
                _mm512_packus_epi32(probabilities(w + 32, by), probabilities(w + 48, by));
            high[g] = _mm512_packus_epi16(_mm512_srli_epi16(a, 8), _mm512_srli_epi16(c, 8));
            some[g] = _mm512_packus_epi16(_mm512_and_si512(a, low), _mm512_and_si512(c, low));
        }
        FG_UNROLL_FULL
        for (int g = 0; g < ATTN_GROUPS; g++) {
            uint8_t *to = attn_p(b, i) + g * ATTN_TOKENS;
            _mm512_store_si512(to, _mm512_permutexvar_epi32(order, high[g]));
            _mm512_store_si512(to + FG_KV_PAGE, _mm512_permutexvar_epi32(order, some[g]));
        }
    }
}

static void softmax_pairs(struct attn_block *b)
{
    softmax(true, b);
    for (int64_t i = 0; i < b->n; i++) {
        const struct quotient by = quotient(b, i);
        for (int64_t t = 0; t < b->groups * ATTN_TOKENS; t += 16) {
            __m512i p = probabilities(b->mem->s[i] + t, by);
            p = _mm512_or_si512(p, _mm512_slli_epi32(_mm512_shuffle_epi32(p, _MM_PERM_DCDC), 16));
            p = _mm512_maskz_compress_epi64(0x55, p); // takes the place of half of its w
            _mm256_store_si256((__m256i *)(attn_p(b, i) + 2 * t), _mm512_castsi512_si256(p));
        }
    }
}

// Dims d .. d + 15 of the values of token t, j = t mod 4.
FG_INLINE __m512 value16(const enum fg_kv_format f, const struct attn_block *b, int64_t d,
                         int64_t t, const unsigned j)
{
    if (f == FG_KV_F32) return _mm512_load_ps(b->v + 4 * (t * b->W + d));
    if (f == FG_KV_FP16)
        return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(b->v + 2 * (t * b->W + d))));
    const __m512i fours = _mm512_load_si512(b->v + d / ATTN_STRIPE * ATTN_STRIPE_BYTES +
                                            t / 4 * 128 + d % ATTN_STRIPE * 4);
    return _mm512_mul_ps(widen_codes(fours, j), _mm512_set1_ps(b->mem->vs[t]));
}

// One token of R rows and `regs` registers of dims; in: NULL or the rows that see it.
FG_INLINE void weigh_token(const enum fg_kv_format f, const int R, const int regs, __m512 *acc,
                           const struct attn_block *b, int64_t row, int64_t d, int64_t t,
                           const unsigned j, const __mmask16 *in)
{
    __m512 v[VALUE_REGS];
    FG_UNROLL_FULL
    for (int c = 0; c < regs; c++)
        v[c] = value16(f, b, d + 16 * c, t, j);
    FG_UNROLL_FULL
    for (int r = 0; r < R; r++) {
        const __m512 e = _mm512_set1_ps(b->mem->s[row + r][t]);
        FG_UNROLL_FULL
        for (int c = 0; c < regs; c++) {
            __m512 *a = &acc[r * regs + c];
            *a = in ? _mm512_mask3_fmadd_ps(e, v[c], *a, in[r]) : _mm512_fmadd_ps(e, v[c], *a);
        }
    }
}

// Outputs of R rows from `row` on, dims d .. d + 16 * regs - 1. Rows see `least` tokens each.
FG_INLINE void weigh(const enum fg_kv_format f, const int R, const int regs, struct attn_block *b,
                     int64_t row, int64_t d)
{
    const int64_t least = b->seen[row], most = b->seen[row + R - 1];
    __m512 acc[24];
    FG_UNROLL_FULL
    for (int i = 0; i < R * regs; i++)
        acc[i] = _mm512_setzero_ps();
    // Of each token, what the next dims want, or of the next page as much.
    const int bytes = f == FG_KV_F32 ? 4 : 2, lines = regs * bytes / 4;
    const bool more = d + 16 * regs < b->W;
    const uint8_t *ahead = f == FG_KV_KV8 || !b->first || row > 0 ? NULL
                           : more                                 ? b->v + (d + 16 * regs) * bytes
                                                                  : b->next_k;
    const int64_t apart = more ? b->W * bytes : 16 * regs * bytes;
    int64_t t = 0;
    for (; t + 4 <= least; t += 4) {
        if (ahead) attn_ahead(ahead + t * apart, apart, lines);
        FG_UNROLL_FULL
        for (unsigned j = 0; j < 4; j++)
            weigh_token(f, R, regs, acc, b, row, d, t + j, j, NULL);
    }
    for (; t < most; t++) { // a masked row keeps its bits: adding +0 would turn -0 into +0
        __mmask16 in[6];
        FG_UNROLL_FULL
        for (int r = 0; r < R; r++)
            in[r] = t < b->seen[row + r] ? 0xffff : 0;
        weigh_token(f, R, regs, acc, b, row, d, t, (unsigned)(t % 4), in);
    }
    FG_UNROLL_FULL
    for (int i = 0; i < R * regs; i++)
        attn_combine16(b, row + i / regs, d + i % regs * 16, acc[i]);
}

// As many dims at once as registers hold, then by stripes.
FG_INLINE void outputs(const enum fg_kv_format f, struct attn_block *b)
{
    for (int64_t i = 0, R; i < b->n; i += R) {
        int64_t d = 0;
        R = attn_together(b->n - i);
#define WEIGH(rows, regs)                                                                          \
    if (R == (rows))                                                                               \
        for (; d + 16 * (regs) <= b->W; d += 16 * (regs))                                          \
            weigh(f, rows, regs, b, i, d);
        WEIGH(6, 4)
        WEIGH(6, 2)
        WEIGH(4, 4)
        WEIGH(4, 2)
        WEIGH(3, 4)
        WEIGH(3, 2)
        WEIGH(2, 8)
        WEIGH(2, 2)
        WEIGH(1, 8)
        WEIGH(1, 2)
#undef WEIGH
    }
}

static void outputs_f32(struct attn_block *b)
{
    outputs(FG_KV_F32, b);
}

static void outputs_f16(struct attn_block *b)
{
    outputs(FG_KV_FP16, b);
}

static void outputs_codes_exact(struct attn_block *b)
{
    outputs(FG_KV_KV8, b);
}

// Outputs of codes by VPMADDWD, R rows from `row` on, one stripe of dims.
FG_INLINE void weigh_codes(const int R, struct attn_block *b, int64_t row, int64_t stripe)
{
    const uint8_t *v = b->v + stripe * ATTN_STRIPE_BYTES, *p = attn_p(b, row);
    __m512i acc[12];
    FG_UNROLL_FULL
    for (int i = 0; i < R * 2; i++)
        acc[i] = _mm512_setzero_si512();
    for (int64_t j = 0; j < b->groups * ATTN_TOKENS / 4; j++, v += 128, p += 8) {
        FG_UNROLL_FULL
        for (int half = 0; half < 2; half++) {
            const __m512i fours = _mm512_load_si512(v + 64 * half);
            const __m512i even = even_codes(fours), odd = odd_codes(fours);
            FG_UNROLL_FULL
            for (int r = 0; r < R; r++) {
                int32_t pair[2];
                memcpy(pair, p + r * 4 * ATTN_LD, sizeof pair);
                __m512i *a = &acc[r * 2 + half];
                *a = add_pairs(*a, even, _mm512_set1_epi32(pair[0]));
                *a = add_pairs(*a, odd, _mm512_set1_epi32(pair[1]));
            }
        }
    }
    FG_UNROLL_FULL
    for (int i = 0; i < R * 2; i++)
        attn_combine16_i32(b, row + i / 2, stripe * ATTN_STRIPE + i % 2 * 16, acc[i]);
}

static void outputs_codes(struct attn_block *b)
{
    for (int64_t d = 0; d < b->W / ATTN_STRIPE; d++) {
        for (int64_t i = 0, R; i < b->n; i += R) {
            R = attn_together(b->n - i);
            if (R == 6) weigh_codes(6, b, i, d);
            if (R == 4) weigh_codes(4, b, i, d);
            if (R == 3) weigh_codes(3, b, i, d);
            if (R == 2) weigh_codes(2, b, i, d);
            if (R == 1) weigh_codes(1, b, i, d);
        }
    }
}

static void widen_scales(float *to, const uint16_t *from)
{
    if (!from) return;
    for (int64_t t = 0; t < FG_KV_PAGE; t += 16)
        _mm512_store_ps(to + t, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(from + t))));
}

void fg_attn_walk_avx512(const struct attn_parts *parts, const struct fg_attn_acc *acc,
                         const struct fg_kv_head *kv, int64_t tile, const struct fg_attn_rows *rows,
                         int64_t r0, int64_t r1, struct attn_scratch *mem)
{
    const int64_t start = tile * FG_KV_PAGE, k_bytes = fg_kv_k_page_bytes(kv->format, kv->D);
    while (r0 < r1 && rows->pos[r0] < start)
        r0++;
    if (r0 == r1) return;
    struct attn_block b = {.acc = acc,
                           .rows = rows,
                           .mem = mem,
                           .k = kv->k + tile * k_bytes,
                           .v = kv->v + tile * fg_kv_v_page_bytes(kv->format, kv->D),
                           .format = kv->format,
                           .D = kv->D,
                           .W = fg_kv_width(kv->D),
                           .first = true};
    if ((tile + 1) % FG_KV_TILES != 0 && rows->pos[r1 - 1] >= start + FG_KV_PAGE)
        b.next_k = b.k + k_bytes;
    widen_scales(mem->ks, kv->ks ? kv->ks + start : NULL);
    widen_scales(mem->vs, kv->vs ? kv->vs + start : NULL);
    for (b.r0 = r0; b.r0 < r1; b.r0 += b.n) {
        b.n = r1 - b.r0 < parts->rows ? r1 - b.r0 : parts->rows;
        for (int64_t i = 0; i < b.n; i++) {
            const int64_t seen = rows->pos[b.r0 + i] + 1 - start;
            b.seen[i] = seen < FG_KV_PAGE ? seen : FG_KV_PAGE;
        }
        b.groups = (b.seen[b.n - 1] + ATTN_TOKENS - 1) / ATTN_TOKENS;
        parts->scores(&b);
        parts->softmax(&b);
        parts->outputs(&b);
        b.first = false;
    }
}

static const attn_part_fn exact_scores[FG_KV_N_ALL] = {
    [FG_KV_F32] = fg_attn_scores_f32_avx512,
    [FG_KV_FP16] = fg_attn_scores_f16_avx512,
    [FG_KV_V8] = fg_attn_scores_f16_avx512,
    [FG_KV_KV8] = scores_codes_exact,
};
static const attn_part_fn exact_outputs[FG_KV_N_ALL] = {
    [FG_KV_F32] = outputs_f32,
    [FG_KV_FP16] = outputs_f16,
    [FG_KV_V8] = outputs_codes_exact,
    [FG_KV_KV8] = outputs_codes_exact,
};

void fg_attn_tile_avx512(const struct fg_attn_acc *acc, const struct fg_kv_head *kv, int64_t tile,
                         const struct fg_attn_rows *rows, int64_t r0, int64_t r1, void *scratch)
{
    const struct attn_parts parts = {exact_scores[kv->format], fg_attn_softmax_avx512,
                                     exact_outputs[kv->format], BLOCK_ROWS};
    fg_attn_walk_avx512(&parts, acc, kv, tile, rows, r0, r1, scratch);
}

static void attn_tile_fast(const struct fg_attn_acc *acc, const struct fg_kv_head *kv, int64_t tile,
                           const struct fg_attn_rows *rows, int64_t r0, int64_t r1, void *scratch)
{
    struct attn_parts parts = {exact_scores[kv->format], fg_attn_softmax_avx512,
                               exact_outputs[kv->format], BLOCK_ROWS};
    if (fg_kv_k8(kv->format)) parts.scores = scores_codes;
    if (fg_kv_v8(kv->format)) {
        parts.softmax = softmax_pairs;
        parts.outputs = outputs_codes;
    }
    fg_attn_walk_avx512(&parts, acc, kv, tile, rows, r0, r1, scratch);
}

static void attn_combine(const struct fg_attn_acc *acc, const struct fg_attn_acc *later, int64_t r0,
                         int64_t r1, int64_t W)
{
    for (int64_t r = r0; r < r1; r++) {
        float *o = acc->o + r * W;
        const float *o2 = later->o + r * W, m = acc->m[r], m2 = later->m[r];
        if (m == -INFINITY) {
            acc->m[r] = m2;
            acc->l[r] = later->l[r];
            memcpy(o, o2, (size_t)W * sizeof *o);
            continue;
        }
        if (m2 == -INFINITY) continue;
        const float M = m > m2 ? m : m2, a = fg_exp_f32(m - M), b = fg_exp_f32(m2 - M);
        acc->m[r] = M;
        acc->l[r] = fmaf(acc->l[r], a, later->l[r] * b);
        const __m512 va = _mm512_set1_ps(a), vb = _mm512_set1_ps(b);
        for (int64_t d = 0; d < W; d += 16) {
            const __m512 add = _mm512_mul_ps(_mm512_load_ps(o2 + d), vb);
            _mm512_store_ps(o + d, _mm512_fmadd_ps(_mm512_load_ps(o + d), va, add));
        }
    }
}

static void attn_finish(float *out, const struct fg_attn_acc *acc, int64_t r, int64_t D)
{
    const float *o = acc->o + r * fg_kv_width(D);
    const __m512 l = _mm512_set1_ps(acc->l[r]);
    for (int64_t d = 0; d < D; d += 16)
        _mm512_mask_storeu_ps(out + d, fg_lanes_avx512(D - d),
                              _mm512_div_ps(_mm512_load_ps(o + d), l));
}

void fg_fill_attn_avx512(struct fg_kernels *k)
{
    k->kv_store = fg_kv_store_avx512;
    k->attn_tile[0] = fg_attn_tile_avx512;
    k->attn_tile[1] = attn_tile_fast;
    k->attn_combine = attn_combine;
    k->attn_finish = attn_finish;
}
