// kernels/avx512/attn.h: how a block of query rows goes through a tile of keys and values (kv.h),
// for the levels from avx512 up. The walk is one (attn.c); a level has its own ways from codes to
// scores and from probabilities to outputs.
#ifndef FG_KERNELS_AVX512_ATTN_H
#define FG_KERNELS_AVX512_ATTN_H
#include "kernels/inline.h"
#include "kernels/kv.h"
#include <immintrin.h>

#define ATTN_TOKENS 64 // of a group: what is scored and weighed together
#define ATTN_GROUPS (FG_KV_PAGE / ATTN_TOKENS)
#define ATTN_BLOCKS (ATTN_TOKENS / 16) // registers of 16 tokens in a group
#define ATTN_STRIPE 32                 // dims of INT8 values that lie together
#define ATTN_STRIPE_BYTES (FG_KV_PAGE * ATTN_STRIPE)
#define ATTN_P_MAX 32767.0f

#define ATTN_ROWS_MAX 32 // of a block
#define ATTN_LD 272 // floats of a row of scores: of 256, and as many rows would meet in few sets

// Scratch: less for a row than it is made for, so it holds more rows.
struct attn_scratch {
    float ks[FG_KV_PAGE], vs[FG_KV_PAGE];
    // Scores, then e_t, then w_t. Then integer probabilities in the first 512 bytes of a row: for
    // VPDPBUSD and tiles [2][256] bytes, the high ones first; for VPMADDWD [64 quads][2] pairs of
    // 16 bits, of tokens 0, 2 and 1, 3.
    float s[ATTN_ROWS_MAX][ATTN_LD];
};

struct attn_block {
    const struct fg_attn_acc *acc;
    const struct fg_attn_rows *rows;
    struct attn_scratch *mem;
    const uint8_t *k, *v; // the tile's page
    enum fg_kv_format format;
    int64_t D, W;
    int64_t r0, n;               // query rows
    int64_t seen[ATTN_ROWS_MAX]; // tokens of the tile, ascending, the first at least 1
    int64_t groups;              // that any row sees
    // The first block of a tile brings what comes next into the cache: the page's next part, the
    // values, and the next page, where one will be read, else NULL.
    bool first;
    const uint8_t *next_k;
    // After the softmax: triples without o, pm / 32767, and how o goes into the running one:
    // fma(o, a, o2 * b), or o2 alone where `empty`, or nothing where `keep`.
    _Alignas(64) float m[ATTN_ROWS_MAX], l[ATTN_ROWS_MAX], unit[ATTN_ROWS_MAX];
    _Alignas(64) float a[ATTN_ROWS_MAX], b[ATTN_ROWS_MAX];
    uint32_t empty, keep; // bits
};

typedef void (*attn_part_fn)(struct attn_block *b);

// Scores of all rows into s, for all groups; what a row does not see is anything. Then the softmax.
// Then outputs, combined into the running triple.
struct attn_parts {
    attn_part_fn scores, softmax, outputs;
    int64_t rows; // of a block, at most
};

bool fg_kv_store_avx512(const struct fg_kv_head *h, int64_t pos, const float *k, const float *v);

void fg_attn_walk_avx512(const struct attn_parts *parts, const struct fg_attn_acc *acc,
                         const struct fg_kv_head *kv, int64_t tile, const struct fg_attn_rows *rows,
                         int64_t r0, int64_t r1, struct attn_scratch *mem);

void fg_attn_scores_f32_avx512(struct attn_block *b);
void fg_attn_scores_f16_avx512(struct attn_block *b);
void fg_attn_softmax_avx512(struct attn_block *b);
// The softmax to the bytes of integer probabilities.
void fg_attn_softmax_bytes_avx512(struct attn_block *b);
// attn_tile[0], and attn_tile[1] of formats without INT8.
void fg_attn_tile_avx512(const struct fg_attn_acc *acc, const struct fg_kv_head *kv, int64_t tile,
                         const struct fg_attn_rows *rows, int64_t r0, int64_t r1, void *scratch);
void fg_attn_tile_fast_avx512vnni(const struct fg_attn_acc *acc, const struct fg_kv_head *kv,
                                  int64_t tile, const struct fg_attn_rows *rows, int64_t r0,
                                  int64_t r1, void *scratch);

FG_INLINE uint8_t *attn_p(const struct attn_block *b, int64_t row)
{
    return (uint8_t *)b->mem->s[row];
}

// The sum of codes in two digits of base 255, from those of the digits.
FG_INLINE __m512i attn_two_digits(__m512i high, __m512i low)
{
    return _mm512_add_epi32(_mm512_sub_epi32(_mm512_slli_epi32(high, 8), high), low);
}

// Rows that go through the registers together, of n that are left: 6, 4, 3, 2 or 1.
static inline int64_t attn_together(int64_t n)
{
    return n == 5 ? 3 : n == 7 || n == 8 ? 4 : n < 6 ? n : 6;
}

// o[0..16) of row i of the block at dim d, given that of the tile.
FG_INLINE void attn_combine16(const struct attn_block *b, int64_t i, int64_t d, __m512 o2)
{
    if (b->keep >> i & 1) return;
    float *to = b->acc->o + (b->r0 + i) * b->W + d;
    const __mmask16 old = b->empty >> i & 1 ? 0 : 0xffff;
    __m512 o = _mm512_maskz_loadu_ps(old, to);
    o2 = _mm512_mul_ps(o2, _mm512_set1_ps(b->b[i]));
    _mm512_store_ps(to, _mm512_mask3_fmadd_ps(o, _mm512_set1_ps(b->a[i]), o2, old));
}

// The same from an exact integer.
FG_INLINE void attn_combine16_i32(const struct attn_block *b, int64_t i, int64_t d, __m512i sum)
{
    attn_combine16(b, i, d, _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(b->unit[i])));
}

// What is read soon comes into the second cache meanwhile, from four places at once: the core's own
// prefetchers then follow four streams, and have more lines on the way than prefetches alone can.

// Where it begins while `step` groups of INT8 keys from g on are read: as many after them, or the
// first values, in four places 16 * W apart for each group. NULL for all but the first block of a
// tile.
static inline const uint8_t *attn_ahead_of_group(const struct attn_block *b, int64_t g,
                                                 int64_t step)
{
    if (!b->first) return NULL;
    return g + step < ATTN_GROUPS ? b->k + (g + step) * ATTN_TOKENS * b->W : b->v;
}

// The same for a stripe of INT8 values: of the two stripes after this pair of stripes, or of the
// first keys of the next page, half of each of four places ATTN_AHEAD_BYTES apart.
#define ATTN_AHEAD_BYTES (ATTN_STRIPE_BYTES / 2)
static inline const uint8_t *attn_ahead_of_stripe(const struct attn_block *b, int64_t stripe)
{
    const int64_t stripes = b->W / ATTN_STRIPE, next = stripe - stripe % 2 + 2;
    const int64_t half = stripe % 2 * (ATTN_AHEAD_BYTES / 2);
    if (!b->first) return NULL;
    if (next < stripes) return b->v + next * ATTN_STRIPE_BYTES + half;
    return b->next_k ? b->next_k + half : NULL;
}

// Prefetches lines at each of four places.
FG_INLINE void attn_ahead(const uint8_t *at, int64_t apart, const int lines)
{
    FG_UNROLL_FULL
    for (int i = 0; i < 4 * lines; i++)
        _mm_prefetch((const char *)at + i % 4 * apart + i / 4 * 64, _MM_HINT_T1);
}
#endif
