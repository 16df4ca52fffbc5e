// Softmax attention, AVX-512. A block of n_rows query rows meets a group of 16 / n_rows positions
// at a time, so the scores of a group are one register, lane = row * (16 / n_rows) + position in
// the group, and all per-row work of the softmax is done for the whole block.
#include "kernels/attn_scratch.h"
#include "kernels/inline.h"
#include "kernels/avx512/math.h"
#include "kernels/avx512/reduce.h"
#include "kernels/avx512/vector.h"

// What a block of rows needs to know of one K/V tile; positions count from the tile's start.
struct tile {
    const float *k, *v;
    int64_t ldk, ldv, D;
    float scale;
    int n;        // positions that some row of the block attends to, 1 .. FG_ATTN_TILE
    int n_common; // positions that every row attends to, 0 .. n
    int32_t last[FG_ATTN_BLOCK]; // of each row: its own position (may lie before or after the tile)
};

// Lane l of the result holds table[l / (16 / n_rows)].
FG_INLINE __m512i row_of_lane(const int n_rows)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_srli_epi32(lane, n_rows == 8 ? 1 : n_rows == 4 ? 2 : n_rows == 2 ? 3 : 4);
}

// Partner lane at distance 1, 2, 4 or 8 inside aligned groups of twice that.
FG_INLINE __m512 swap_lanes(__m512 x, const int distance)
{
    switch (distance) {
    case 1: return _mm512_permute_ps(x, _MM_SHUFFLE(2, 3, 0, 1));
    case 2: return _mm512_permute_ps(x, _MM_SHUFFLE(1, 0, 3, 2));
    case 4: return _mm512_shuffle_f32x4(x, x, _MM_SHUFFLE(2, 3, 0, 1));
    default: return _mm512_shuffle_f32x4(x, x, _MM_SHUFFLE(1, 0, 3, 2));
    }
}

// Lane i of the result is tree(a[i]).
FG_INLINE __m512 tree16(const __m512 a[16])
{
    __m512 four[4]; // lanes 4 j .. 4 j + 3: what is left of a[i + 4 j]
    FG_UNROLL
    for (int i = 0; i < 4; i++)
        four[i] = fg_fold4(fg_fold8(a[i], a[i + 4]), fg_fold8(a[i + 8], a[i + 12]));
    return fg_fold1(fg_fold2(four[0], four[1]), fg_fold2(four[2], four[3]));
}

// e[g] for the groups g of the tile: scores, -infinity where a row does not attend.
FG_INLINE void score(float *e, const float *q, const struct tile *tile, const int n_rows)
{
    const int n_pos = 16 / n_rows;
    const __m512 never = _mm512_set1_ps(-INFINITY);
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i lane_pos = _mm512_and_epi32(lane, _mm512_set1_epi32(n_pos - 1));
    const __m512i last = _mm512_permutexvar_epi32(
        row_of_lane(n_rows),
        _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)tile->last)));
    const int64_t whole = tile->D / 16;
    const __mmask16 tail = fg_lanes_avx512(tile->D % 16);

    for (int p0 = 0; p0 < (tile->n + 15) / 16 * 16; p0 += n_pos, e += 16) {
        if (p0 >= tile->n) {
            _mm512_store_ps(e, never);
            continue;
        }
        const float *k[16];
        FG_UNROLL
        for (int p = 0; p < n_pos; p++) // rows beyond n may not exist: read the last again
            k[p] = tile->k + (p0 + p < tile->n ? p0 + p : tile->n - 1) * tile->ldk;

        __m512 acc[16];
        FG_UNROLL
        for (int i = 0; i < 16; i++)
            acc[i] = _mm512_setzero_ps();
        const float *qi = q;
        int64_t d = 0;
        for (int64_t i = 0; i < whole; i++, d += 16, qi += 16 * FG_ATTN_BLOCK) {
            __m512 kp[16];
            FG_UNROLL
            for (int p = 0; p < n_pos; p++)
                kp[p] = _mm512_loadu_ps(k[p] + d);
            FG_UNROLL
            for (int r = 0; r < n_rows; r++) {
                __m512 qr = _mm512_load_ps(qi + 16 * r);
                __asm__("" : "+v"(qr)); // one load for n_pos uses: gcc would fold one into each
                FG_UNROLL
                for (int p = 0; p < n_pos; p++)
                    acc[r * n_pos + p] = _mm512_fmadd_ps(qr, kp[p], acc[r * n_pos + p]);
            }
        }
        if (tail) {
            FG_UNROLL
            for (int p = 0; p < n_pos; p++) {
                __m512 kp = _mm512_maskz_loadu_ps(tail, k[p] + d);
                FG_UNROLL
                for (int r = 0; r < n_rows; r++)
                    acc[r * n_pos + p] = _mm512_mask3_fmadd_ps(_mm512_load_ps(qi + 16 * r), kp,
                                                               acc[r * n_pos + p], tail);
            }
        }
        __m512i pos = _mm512_add_epi32(lane_pos, _mm512_set1_epi32(p0));
        __m512 s = _mm512_mul_ps(tree16(acc), _mm512_set1_ps(tile->scale));
        _mm512_store_ps(e, _mm512_mask_mov_ps(never, _mm512_cmple_epi32_mask(pos, last), s));
    }
}

// Turns e into exp(e - m') and carries m and l on; correction[r] = exp(m - m').
FG_INLINE void softmax(float *e, float *m, float *l, float *correction, int n, const int n_rows)
{
    const int n_pos = 16 / n_rows;
    const __mmask16 rows = fg_lanes_avx512(n_rows);
    const __m512i spread = row_of_lane(n_rows);
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i gather = _mm512_mullo_epi32(lane, _mm512_set1_epi32(n_pos));
    const int n16 = (n + 15) / 16;

    __m512 m_old = _mm512_permutexvar_ps(spread, _mm512_maskz_loadu_ps(rows, m));
    __m512 l_old = _mm512_permutexvar_ps(spread, _mm512_maskz_loadu_ps(rows, l));
    __m512 m_tile = _mm512_load_ps(e);
    for (int g = 1; g < n16 * n_rows; g++)
        m_tile = _mm512_max_ps(m_tile, _mm512_load_ps(e + 16 * g));
    FG_UNROLL
    for (int distance = n_pos / 2; distance >= 1; distance /= 2)
        m_tile = _mm512_max_ps(m_tile, swap_lanes(m_tile, distance));
    __m512 m_new = _mm512_max_ps(m_old, m_tile);
    __m512 c = fg_exp_avx512(_mm512_sub_ps(m_old, m_new));

    __m512 sum[8]; // sum[g]: lanes p mod 16 = g * n_pos .. of every row
    FG_UNROLL
    for (int g = 0; g < n_rows; g++)
        sum[g] = _mm512_setzero_ps();
    for (int i = 0; i < n16; i++) {
        FG_UNROLL
        for (int g = 0; g < n_rows; g++) {
            float *eg = e + 16 * (i * n_rows + g);
            __m512 x = fg_exp_avx512(_mm512_sub_ps(_mm512_load_ps(eg), m_new));
            _mm512_store_ps(eg, x);
            sum[g] = _mm512_add_ps(sum[g], x);
        }
    }
    FG_UNROLL
    for (int half = n_rows / 2; half >= 1; half /= 2) {
        FG_UNROLL
        for (int g = 0; g < half; g++)
            sum[g] = _mm512_add_ps(sum[g], sum[g + half]);
    }
    FG_UNROLL
    for (int distance = n_pos / 2; distance >= 1; distance /= 2)
        sum[0] = _mm512_add_ps(sum[0], swap_lanes(sum[0], distance));

    __m512 l_new = _mm512_fmadd_ps(l_old, c, sum[0]);
    _mm512_mask_storeu_ps(m, rows, _mm512_permutexvar_ps(gather, m_new));
    _mm512_mask_storeu_ps(l, rows, _mm512_permutexvar_ps(gather, l_new));
    _mm512_mask_storeu_ps(correction, rows, _mm512_permutexvar_ps(gather, c));
}

// acc = acc * correction + e V over n_vec registers of columns from d on.
FG_INLINE void accumulate(float *acc, int64_t stride, const float *e, const float *correction,
                          const struct tile *tile, int64_t d, const int n_rows, const int n_vec)
{
    const int n_pos = 16 / n_rows;
    const __mmask16 last = fg_lanes_avx512(tile->D - d - 16 * (n_vec - 1));
    const float *v = tile->v + d;
    __m512 sum[16];
    FG_UNROLL
    for (int r = 0; r < n_rows; r++) {
        FG_UNROLL
        for (int c = 0; c < n_vec; c++)
            sum[r * n_vec + c] = _mm512_mul_ps(_mm512_load_ps(acc + r * stride + d + 16 * c),
                                               _mm512_set1_ps(correction[r]));
    }
    int p = 0;
    for (; p + n_pos <= tile->n_common; p += n_pos, e += 16) {
        FG_UNROLL
        for (int i = 0; i < n_pos; i++, v += tile->ldv) {
            __m512 vp[16];
            FG_UNROLL
            for (int c = 0; c < n_vec; c++)
                vp[c] = _mm512_maskz_loadu_ps(c == n_vec - 1 ? last : 0xffff, v + 16 * c);
            FG_UNROLL
            for (int r = 0; r < n_rows; r++) {
                __m512 er = _mm512_set1_ps(e[r * n_pos + i]);
                FG_UNROLL
                for (int c = 0; c < n_vec; c++)
                    sum[r * n_vec + c] = _mm512_fmadd_ps(er, vp[c], sum[r * n_vec + c]);
            }
        }
    }
    for (; p < tile->n; p++, v += tile->ldv) { // not all rows: a masked row keeps its bits
        const float *ep = e + p % n_pos;
        FG_UNROLL
        for (int r = 0; r < n_rows; r++) {
            __mmask16 in = p <= tile->last[r] ? 0xffff : 0;
            __m512 er = _mm512_set1_ps(ep[r * n_pos]);
            FG_UNROLL
            for (int c = 0; c < n_vec; c++) {
                __mmask16 columns = c == n_vec - 1 ? last : 0xffff;
                sum[r * n_vec + c] = _mm512_mask3_fmadd_ps(
                    er, _mm512_maskz_loadu_ps(columns, v + 16 * c), sum[r * n_vec + c], in);
            }
        }
        if (p % n_pos == n_pos - 1) e += 16;
    }
    FG_UNROLL
    for (int r = 0; r < n_rows; r++) {
        FG_UNROLL
        for (int c = 0; c < n_vec; c++)
            _mm512_store_ps(acc + r * stride + d + 16 * c, sum[r * n_vec + c]);
    }
}

// Rows r .. r + n_rows - 1 of the scratch through one tile.
FG_INLINE void attend(const struct fg_attn_scratch *s, int64_t r, const struct tile *tile,
                      const int n_rows)
{
    float correction[FG_ATTN_BLOCK];
    score(s->e, fg_attn_q_row(s, r), tile, n_rows);
    softmax(s->e, s->m + r, s->l + r, correction, tile->n, n_rows);

    float *acc = s->acc + r * s->stride;
    int64_t d = 0;
#define ACCUMULATE(n_vec)                                                                          \
    if (n_rows * (n_vec) <= 16)                                                                    \
        for (; d + 16 * (n_vec) <= s->stride; d += 16 * (n_vec))                                   \
    accumulate(acc, s->stride, s->e, correction, tile, d, n_rows, n_vec)
    ACCUMULATE(8);
    ACCUMULATE(4);
    ACCUMULATE(2);
    ACCUMULATE(1);
#undef ACCUMULATE
}

static void attend8(const struct fg_attn_scratch *s, int64_t r, const struct tile *tile)
{
    attend(s, r, tile, 8);
}

static void attend4(const struct fg_attn_scratch *s, int64_t r, const struct tile *tile)
{
    attend(s, r, tile, 4);
}

static void attend2(const struct fg_attn_scratch *s, int64_t r, const struct tile *tile)
{
    attend(s, r, tile, 2);
}

static void attend1(const struct fg_attn_scratch *s, int64_t r, const struct tile *tile)
{
    attend(s, r, tile, 1);
}

void fg_attention_avx512(float *o, int64_t ldo, const float *q, int64_t ldq, const float *k,
                         int64_t ldk, const float *v, int64_t ldv, int64_t pos, int64_t T,
                         int64_t G, int64_t D, float scale, void *scratch)
{
    const struct fg_attn_scratch s = fg_attn_scratch(scratch, D);
    // Query rows (t, g) in the order t * G + g: neighbours have nearly the same positions.
    for (int64_t first = 0; first < T * G; first += FG_ATTN_ROWS) {
        int64_t n_rows = T * G - first < FG_ATTN_ROWS ? T * G - first : FG_ATTN_ROWS;
        for (int64_t r = 0; r < n_rows; r++) {
            const float *qr = q + (first + r) / G * ldq + (first + r) % G * D;
            float *packed = fg_attn_q_row(&s, r), *acc = s.acc + r * s.stride;
            for (int64_t d = 0; d < D; d += 16, packed += 16 * FG_ATTN_BLOCK) {
                _mm512_store_ps(packed, _mm512_maskz_loadu_ps(fg_lanes_avx512(D - d), qr + d));
                _mm512_store_ps(acc + d, _mm512_setzero_ps());
            }
            s.m[r] = -INFINITY;
            s.l[r] = 0.0f;
        }

        int64_t end = pos + (first + n_rows - 1) / G + 1;
        for (int64_t p0 = 0; p0 < end; p0 += FG_ATTN_TILE) {
            struct tile tile = {.k = k + p0 * ldk,
                                .v = v + p0 * ldv,
                                .ldk = ldk,
                                .ldv = ldv,
                                .D = D,
                                .scale = scale};
            for (int64_t r = 0, n; r < n_rows; r += n) {
                int64_t left = n_rows - r;
                n = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
                int64_t lo = pos + (first + r) / G - p0, hi = pos + (first + r + n - 1) / G - p0;
                if (hi < 0) continue;
                tile.n = hi < FG_ATTN_TILE ? (int)hi + 1 : FG_ATTN_TILE;
                tile.n_common = lo < 0 ? 0 : lo < FG_ATTN_TILE ? (int)lo + 1 : FG_ATTN_TILE;
                for (int64_t i = 0; i < n; i++) {
                    int64_t last = pos + (first + r + i) / G - p0;
                    tile.last[i] = last < FG_ATTN_TILE ? (int32_t)last : FG_ATTN_TILE;
                }
                if (n == 8)
                    attend8(&s, r, &tile);
                else if (n == 4)
                    attend4(&s, r, &tile);
                else if (n == 2)
                    attend2(&s, r, &tile);
                else
                    attend1(&s, r, &tile);
            }
        }

        for (int64_t r = 0; r < n_rows; r++) {
            float *out = o + (first + r) / G * ldo + (first + r) % G * D;
            const __m512 l = _mm512_set1_ps(s.l[r]);
            for (int64_t d = 0; d < D; d += 16)
                _mm512_mask_storeu_ps(out + d, fg_lanes_avx512(D - d),
                                      _mm512_div_ps(_mm512_load_ps(s.acc + r * s.stride + d), l));
        }
    }
}
