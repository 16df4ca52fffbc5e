// Softmax attention, AVX2. A block of n_rows query rows meets a group of 8 / n_rows positions at a
// time, so the scores of a group are one register, lane = row * (8 / n_rows) + position in the
// group, and all per-row work of the softmax is done for the whole block.
#include "kernels/attn_scratch.h"
#include "kernels/inline.h"
#include "kernels/avx2/math.h"
#include "kernels/avx2/vector.h"

// What a block of rows needs to know of one K/V tile; positions count from the tile's start.
struct tile {
    const float *k, *v;
    int64_t ldk, ldv, D;
    float scale;
    int n;           // positions that some row of the block attends to, 1 .. FG_ATTN_TILE
    int n_common;    // positions that every row attends to, 0 .. n
    int32_t last[8]; // of each row: its own position (may lie before or after the tile)
};

// Lane l of the result is the row l / (8 / n_rows).
FG_INLINE __m256i row_of_lane(const int n_rows)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_srli_epi32(lane, n_rows == 4 ? 1 : n_rows == 2 ? 2 : 3);
}

// Partner lane at distance 1, 2 or 4 inside aligned groups of twice that.
FG_INLINE __m256 swap_lanes(__m256 x, const int distance)
{
    switch (distance) {
    case 1: return _mm256_permute_ps(x, _MM_SHUFFLE(2, 3, 0, 1));
    case 2: return _mm256_permute_ps(x, _MM_SHUFFLE(1, 0, 3, 2));
    default: return _mm256_permute2f128_ps(x, x, 1);
    }
}

// The steps 4, 2 and 1 of tree() for eight registers: lane i of the result is that of a[i].
FG_INLINE __m256 tree8(const __m256 a[8])
{
    __m256 four[4], two[2];
    FG_UNROLL
    for (int i = 0; i < 4; i++) // [a[i] | a[i + 4]], 4 lanes each
        four[i] = _mm256_add_ps(_mm256_permute2f128_ps(a[i], a[i + 4], 0x20),
                                _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
    FG_UNROLL
    for (int i = 0; i < 2; i++) // [a[2i] a[2i + 1] | ...], 2 lanes each
        two[i] =
            _mm256_add_ps(_mm256_shuffle_ps(four[2 * i], four[2 * i + 1], _MM_SHUFFLE(1, 0, 1, 0)),
                          _mm256_shuffle_ps(four[2 * i], four[2 * i + 1], _MM_SHUFFLE(3, 2, 3, 2)));
    return _mm256_add_ps(_mm256_shuffle_ps(two[0], two[1], _MM_SHUFFLE(2, 0, 2, 0)),
                         _mm256_shuffle_ps(two[0], two[1], _MM_SHUFFLE(3, 1, 3, 1)));
}

// e[g] for the groups g of the tile: scores, -infinity where a row does not attend.
FG_INLINE void score(float *e, const float *q, const struct tile *tile, const int n_rows)
{
    const int n_pos = 8 / n_rows;
    const __m256 never = _mm256_set1_ps(-INFINITY);
    const __m256i lane_pos =
        _mm256_and_si256(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(n_pos - 1));
    const __m256i last = _mm256_permutevar8x32_epi32(
        _mm256_loadu_si256((const __m256i *)tile->last), row_of_lane(n_rows));

    for (int p0 = 0; p0 < (tile->n + 15) / 16 * 16; p0 += n_pos, e += 8) {
        if (p0 >= tile->n) {
            _mm256_store_ps(e, never);
            continue;
        }
        const float *k[8];
        FG_UNROLL
        for (int p = 0; p < n_pos; p++) // rows beyond n may not exist: read the last again
            k[p] = tile->k + (p0 + p < tile->n ? p0 + p : tile->n - 1) * tile->ldk;

        __m256 half[2][8]; // lanes 0-7 and 8-15 of every dot product, one after the other
        for (int h = 0; h < 2; h++) {
            __m256 acc[8];
            FG_UNROLL
            for (int i = 0; i < 8; i++)
                acc[i] = _mm256_setzero_ps();
            const float *qi = q + 8 * h;
            int64_t d = 8 * h;
            for (; d + 8 <= tile->D; d += 16, qi += 16 * FG_ATTN_BLOCK) {
                __m256 kp[8];
                FG_UNROLL
                for (int p = 0; p < n_pos; p++)
                    kp[p] = _mm256_loadu_ps(k[p] + d);
                FG_UNROLL
                for (int r = 0; r < n_rows; r++) {
                    __m256 qr = _mm256_load_ps(qi + 16 * r);
                    __asm__("" : "+x"(qr)); // one load for n_pos uses: gcc would fold one into each
                    FG_UNROLL
                    for (int p = 0; p < n_pos; p++)
                        acc[r * n_pos + p] = _mm256_fmadd_ps(qr, kp[p], acc[r * n_pos + p]);
                }
            }
            if (d < tile->D) {
                int64_t n = tile->D - d;
                FG_UNROLL
                for (int i = 0; i < 8; i++)
                    acc[i] = fg_fma_lanes_avx2(_mm256_load_ps(qi + i / n_pos * 16),
                                               fg_load_avx2(k[i % n_pos] + d, n), acc[i], n);
            }
            FG_UNROLL
            for (int i = 0; i < 8; i++)
                half[h][i] = acc[i];
        }
        FG_UNROLL
        for (int i = 0; i < 8; i++)
            half[0][i] = _mm256_add_ps(half[0][i], half[1][i]);

        __m256i pos = _mm256_add_epi32(lane_pos, _mm256_set1_epi32(p0));
        __m256 s = _mm256_mul_ps(tree8(half[0]), _mm256_set1_ps(tile->scale));
        __m256 beyond = _mm256_castsi256_ps(_mm256_cmpgt_epi32(pos, last));
        _mm256_store_ps(e, _mm256_blendv_ps(s, never, beyond));
    }
}

// Turns e into exp(e - m') and carries m and l on; correction[r] = exp(m - m').
FG_INLINE void softmax(float *e, float *m, float *l, float *correction, int n, const int n_rows)
{
    const int n_pos = 8 / n_rows, n_groups = 16 / n_pos; // groups of 16 positions
    const __m256i spread = row_of_lane(n_rows);
    const __m256i gather =
        _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(n_pos));
    const int n16 = (n + 15) / 16;

    __m256 m_old = _mm256_permutevar8x32_ps(fg_load_avx2(m, n_rows), spread);
    __m256 l_old = _mm256_permutevar8x32_ps(fg_load_avx2(l, n_rows), spread);
    __m256 m_tile = _mm256_load_ps(e);
    for (int g = 1; g < n16 * n_groups; g++)
        m_tile = _mm256_max_ps(m_tile, _mm256_load_ps(e + 8 * g));
    FG_UNROLL
    for (int distance = n_pos / 2; distance >= 1; distance /= 2)
        m_tile = _mm256_max_ps(m_tile, swap_lanes(m_tile, distance));
    __m256 m_new = _mm256_max_ps(m_old, m_tile);
    __m256 c = fg_exp_avx2(_mm256_sub_ps(m_old, m_new));

    __m256 sum[8]; // sum[g]: lanes p mod 16 = g * n_pos .. of every row
    FG_UNROLL
    for (int g = 0; g < n_groups; g++)
        sum[g] = _mm256_setzero_ps();
    for (int i = 0; i < n16; i++) {
        FG_UNROLL
        for (int g = 0; g < n_groups; g++) {
            float *eg = e + 8 * (i * n_groups + g);
            __m256 x = fg_exp_avx2(_mm256_sub_ps(_mm256_load_ps(eg), m_new));
            _mm256_store_ps(eg, x);
            sum[g] = _mm256_add_ps(sum[g], x);
        }
    }
    FG_UNROLL
    for (int half = n_groups / 2; half >= 1; half /= 2) {
        FG_UNROLL
        for (int g = 0; g < half; g++)
            sum[g] = _mm256_add_ps(sum[g], sum[g + half]);
    }
    FG_UNROLL
    for (int distance = n_pos / 2; distance >= 1; distance /= 2)
        sum[0] = _mm256_add_ps(sum[0], swap_lanes(sum[0], distance));

    __m256 l_new = _mm256_fmadd_ps(l_old, c, sum[0]);
    fg_store_avx2(m, n_rows, _mm256_permutevar8x32_ps(m_new, gather));
    fg_store_avx2(l, n_rows, _mm256_permutevar8x32_ps(l_new, gather));
    fg_store_avx2(correction, n_rows, _mm256_permutevar8x32_ps(c, gather));
}

// acc = acc * correction + e V over n_vec registers of columns from d on; `width` is 8, or less for
// the last columns (n_vec is then 1).
FG_INLINE void accumulate(float *acc, int64_t stride, const float *e, const float *correction,
                          const struct tile *tile, int64_t d, const int n_rows, const int n_vec,
                          int64_t width)
{
    const int n_pos = 8 / n_rows;
    const float *v = tile->v + d;
    __m256 sum[8];
    FG_UNROLL
    for (int r = 0; r < n_rows; r++) {
        FG_UNROLL
        for (int c = 0; c < n_vec; c++)
            sum[r * n_vec + c] = _mm256_mul_ps(_mm256_load_ps(acc + r * stride + d + 8 * c),
                                               _mm256_set1_ps(correction[r]));
    }
    int p = 0;
    for (; p + n_pos <= tile->n_common; p += n_pos, e += 8) {
        FG_UNROLL
        for (int i = 0; i < n_pos; i++, v += tile->ldv) {
            __m256 vp[8];
            FG_UNROLL
            for (int c = 0; c < n_vec; c++)
                vp[c] = fg_load_avx2(v + 8 * c, width);
            FG_UNROLL
            for (int r = 0; r < n_rows; r++) {
                __m256 er = _mm256_set1_ps(e[r * n_pos + i]);
                FG_UNROLL
                for (int c = 0; c < n_vec; c++)
                    sum[r * n_vec + c] = _mm256_fmadd_ps(er, vp[c], sum[r * n_vec + c]);
            }
        }
    }
    for (; p < tile->n; p++, v += tile->ldv) { // not all rows: the others keep their bits
        FG_UNROLL
        for (int r = 0; r < n_rows; r++) {
            __m256 er = _mm256_set1_ps(e[r * n_pos + p % n_pos]);
            int64_t in = p <= tile->last[r] ? 8 : 0;
            FG_UNROLL
            for (int c = 0; c < n_vec; c++)
                sum[r * n_vec + c] =
                    fg_fma_lanes_avx2(er, fg_load_avx2(v + 8 * c, width), sum[r * n_vec + c], in);
        }
        if (p % n_pos == n_pos - 1) e += 8;
    }
    FG_UNROLL
    for (int r = 0; r < n_rows; r++) {
        FG_UNROLL
        for (int c = 0; c < n_vec; c++)
            _mm256_store_ps(acc + r * stride + d + 8 * c, sum[r * n_vec + c]);
    }
}

// Rows r .. r + n_rows - 1 of the scratch through one tile.
FG_INLINE void attend(const struct fg_attn_scratch *s, int64_t r, const struct tile *tile,
                      const int n_rows)
{
    float correction[4];
    score(s->e, fg_attn_q_row(s, r), tile, n_rows);
    softmax(s->e, s->m + r, s->l + r, correction, tile->n, n_rows);

    float *acc = s->acc + r * s->stride;
    const int n_vec = 8 / n_rows;
    int64_t d = 0;
    for (; d + 8 * n_vec <= tile->D; d += 8 * n_vec)
        accumulate(acc, s->stride, s->e, correction, tile, d, n_rows, n_vec, 8);
    for (; d < tile->D; d += 8)
        accumulate(acc, s->stride, s->e, correction, tile, d, n_rows, 1, tile->D - d);
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

void fg_attention_avx2(float *o, int64_t ldo, const float *q, int64_t ldq, const float *k,
                       int64_t ldk, const float *v, int64_t ldv, int64_t pos, int64_t T, int64_t G,
                       int64_t D, float scale, void *scratch)
{
    const struct fg_attn_scratch s = fg_attn_scratch(scratch, D);
    // Query rows (t, g) in the order t * G + g: neighbours have nearly the same positions.
    for (int64_t first = 0; first < T * G; first += FG_ATTN_ROWS) {
        int64_t n_rows = T * G - first < FG_ATTN_ROWS ? T * G - first : FG_ATTN_ROWS;
        for (int64_t r = 0; r < n_rows; r++) {
            const float *qr = q + (first + r) / G * ldq + (first + r) % G * D;
            float *packed = fg_attn_q_row(&s, r), *acc = s.acc + r * s.stride;
            for (int64_t d = 0; d < D; d += 8) {
                _mm256_store_ps(packed + d / 16 * 16 * FG_ATTN_BLOCK + d % 16,
                                fg_load_avx2(qr + d, D - d));
                _mm256_store_ps(acc + d, _mm256_setzero_ps());
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
                n = left >= 4 ? 4 : left >= 2 ? 2 : 1;
                int64_t lo = pos + (first + r) / G - p0, hi = pos + (first + r + n - 1) / G - p0;
                if (hi < 0) continue;
                tile.n = hi < FG_ATTN_TILE ? (int)hi + 1 : FG_ATTN_TILE;
                tile.n_common = lo < 0 ? 0 : lo < FG_ATTN_TILE ? (int)lo + 1 : FG_ATTN_TILE;
                for (int64_t i = 0; i < n; i++) {
                    int64_t last = pos + (first + r + i) / G - p0;
                    tile.last[i] = last < FG_ATTN_TILE ? (int32_t)last : FG_ATTN_TILE;
                }
                if (n == 4)
                    attend4(&s, r, &tile);
                else if (n == 2)
                    attend2(&s, r, &tile);
                else
                    attend1(&s, r, &tile);
            }
        }

        for (int64_t r = 0; r < n_rows; r++) {
            float *out = o + (first + r) / G * ldo + (first + r) % G * D;
            const __m256 l = _mm256_set1_ps(s.l[r]);
            for (int64_t d = 0; d < D; d += 8)
                fg_store_avx2(out + d, D - d,
                              _mm256_div_ps(_mm256_load_ps(s.acc + r * s.stride + d), l));
        }
    }
}
