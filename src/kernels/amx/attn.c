// kernels/amx/attn.c: the INT8 parts of attention (kv.h) by TDPBSUD and TDPBUSD, for up to 16 query
// rows at once. Pages are stored as the B tiles of both products:
//
//   scores   A: [rows][64 dims] of query codes; B: 16 tokens of keys, [16 fours of dims][16 tokens]
//            C: [rows][16 tokens]
//   outputs  A: [rows][64 tokens] of high or low bytes of probabilities
//            B: 16 dims of values, [16 fours of tokens][16 dims]; C: [rows][16 dims]
//
// A product takes longer to finish than four take to start, so four sums take turns: four blocks of
// 16 tokens; two times 16 dims, high and low.
#include "kernels/avx512/attn.h"
#include "kernels/levels.h"

#define TILE_ROWS 16
#define ROWS_MIN 3 // for fewer, VPDPBUSD is as fast

// Tile registers; macros, because gcc's intrinsics make their names from the text. The last 32
// dims of keys where W is an odd multiple of that, have tiles of half the width.
#define C0 0
#define C1 1
#define C2 2
#define C3 3
#define A0 4
#define A1 5
#define A_HALF 5
#define B0 6
#define B1 7
#define B_HALF 7
#define TILES 8

// Layout of LDTILECFG's operand, palette 1.
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static void configure(int64_t rows, bool half)
{
    struct tile_config c = {.palette = 1};
    for (int i = 0; i < TILES; i++) {
        c.row_bytes[i] = 64;
        c.rows[i] = (uint8_t)(i == B0 || i == B1 ? TILE_ROWS : rows);
    }
    if (half) {
        c.row_bytes[A_HALF] = 32;
        c.rows[B_HALF] = TILE_ROWS / 2;
    }
    // gcc's intrinsic tells of the first eight bytes alone.
    __asm__ volatile("" : : "r"(&c) : "memory");
    _tile_loadconfig(&c);
}

// gcc's tile loads and stores do not say what memory they use.
#define MEMORY_ORDER() __asm__ volatile("" : : : "memory")

// Exact scores of one group of tokens, plus 128 * qsum, as integers into s.
static void score(const struct attn_block *b, int64_t g, const uint8_t *ahead)
{
    const int64_t stride = b->W * 16; // of blocks
    const uint8_t *k = b->k + g * ATTN_BLOCKS * stride;
    const int8_t *q = b->rows->qc + b->r0 * b->W;
    _tile_zero(C0);
    _tile_zero(C1);
    _tile_zero(C2);
    _tile_zero(C3);
    MEMORY_ORDER();
#define PRODUCT(c, B, A, block)                                                                    \
    _tile_loadd(B, k + (block)*stride, 64);                                                        \
    _tile_dpbsud(c, A, B)
    int64_t d = 0;
    for (; d + 64 <= b->W; d += 64, k += 1024, q += 64) {
        _tile_loadd(A0, q, b->W);
        PRODUCT(C0, B0, A0, 0);
        if (ahead) attn_ahead(ahead + d * 64, 16);
        PRODUCT(C1, B0, A0, 1);
        if (ahead) attn_ahead(ahead + d * 64 + 1024, 16);
        PRODUCT(C2, B0, A0, 2);
        if (ahead) attn_ahead(ahead + d * 64 + 2048, 16);
        PRODUCT(C3, B0, A0, 3);
        if (ahead) attn_ahead(ahead + d * 64 + 3072, 16);
    }
    if (d < b->W) {
        _tile_loadd(A_HALF, q, b->W);
        PRODUCT(C0, B_HALF, A_HALF, 0);
        PRODUCT(C1, B_HALF, A_HALF, 1);
        PRODUCT(C2, B_HALF, A_HALF, 2);
        PRODUCT(C3, B_HALF, A_HALF, 3);
    }
#undef PRODUCT
    float *s = b->mem->s[0] + g * ATTN_TOKENS;
    _tile_stored(C0, s, sizeof b->mem->s[0]);
    _tile_stored(C1, s + 16, sizeof b->mem->s[0]);
    _tile_stored(C2, s + 32, sizeof b->mem->s[0]);
    _tile_stored(C3, s + 48, sizeof b->mem->s[0]);
    MEMORY_ORDER();
}

static void scores(struct attn_block *b)
{
    configure(b->n, b->W % 64 != 0);
    for (int64_t g = 0; g < b->groups; g++) {
        score(b, g, attn_ahead_of_group(b, g, 1));
    }
    for (int64_t i = 0; i < b->n; i++) {
        float *s = b->mem->s[i];
        const __m512i bias = _mm512_set1_epi32(128 * b->rows->qsum[b->r0 + i]);
        const __m512 qs = _mm512_set1_ps(b->rows->qs[b->r0 + i]);
        for (int64_t t = 0; t < b->groups * ATTN_TOKENS; t += 16) {
            __m512i sum = _mm512_sub_epi32(_mm512_load_si512(s + t), bias);
            __m512 score = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), qs);
            _mm512_store_ps(s + t, _mm512_mul_ps(score, _mm512_load_ps(b->mem->ks + t)));
        }
    }
}

// Sums of a stripe: high and low, of its two halves.
struct sums {
    int32_t high[2][TILE_ROWS][16], low[2][TILE_ROWS][16];
};

// Exact sums of one stripe of dims.
static void weigh(const struct attn_block *b, int64_t stripe, struct sums *to, const uint8_t *ahead)
{
    const uint8_t *v = b->v + stripe * ATTN_STRIPE_BYTES, *p = b->mem->p[0];
    _tile_zero(C0);
    _tile_zero(C1);
    _tile_zero(C2);
    _tile_zero(C3);
    MEMORY_ORDER();
    for (int64_t g = 0; g < b->groups; g++, v += 2048, p += ATTN_TOKENS) {
        _tile_loadd(A0, p, sizeof b->mem->p[0]);
        _tile_loadd(B0, v, 128);
        _tile_dpbusd(C0, A0, B0);
        if (ahead) attn_ahead(ahead + 2048 * g, 16);
        _tile_loadd(B1, v + 64, 128);
        _tile_dpbusd(C1, A0, B1);
        _tile_loadd(A1, p + FG_KV_PAGE, sizeof b->mem->p[0]);
        _tile_dpbusd(C2, A1, B0);
        if (ahead) attn_ahead(ahead + 2048 * g + 1024, 16);
        _tile_dpbusd(C3, A1, B1);
    }
    _tile_stored(C0, to->high[0], 64);
    _tile_stored(C1, to->high[1], 64);
    _tile_stored(C2, to->low[0], 64);
    _tile_stored(C3, to->low[1], 64);
    MEMORY_ORDER();
}

static void fold(const struct attn_block *b, int64_t stripe, const struct sums *from)
{
    for (int64_t i = 0; i < b->n; i++) {
        FG_UNROLL_FULL
        for (int half = 0; half < 2; half++) {
            const __m512i high = _mm512_load_si512(from->high[half][i]);
            const __m512i low = _mm512_load_si512(from->low[half][i]);
            attn_combine16_i32(b, i, stripe * ATTN_STRIPE + half * 16,
                               _mm512_add_epi32(_mm512_slli_epi32(high, 8), low));
        }
    }
}

// Sums are folded one stripe late, for the products of the next then run meanwhile.
static void outputs(struct attn_block *b)
{
    _Alignas(64) struct sums sums[2];
    const int64_t stripes = b->W / ATTN_STRIPE;
    configure(b->n, false);
    for (int64_t d = 0; d < stripes; d++) {
        weigh(b, d, &sums[d % 2], attn_ahead_of_stripe(b, d));
        if (d > 0) fold(b, d - 1, &sums[(d - 1) % 2]);
    }
    fold(b, stripes - 1, &sums[(stripes - 1) % 2]);
}

static void attn_tile_fast(const struct fg_attn_acc *acc, const struct fg_kv_head *kv, int64_t tile,
                           const struct fg_attn_rows *rows, int64_t r0, int64_t r1, void *scratch)
{
    if (r1 - r0 < ROWS_MIN || !fg_kv_v8(kv->format)) {
        fg_attn_tile_fast_avx512vnni(acc, kv, tile, rows, r0, r1, scratch);
        return;
    }
    // Blocks of even size.
    const int64_t blocks = (r1 - r0 + TILE_ROWS - 1) / TILE_ROWS;
    const struct attn_parts parts = {
        .scores = fg_kv_k8(kv->format) ? scores : fg_attn_scores_f16_avx512,
        .softmax = fg_attn_softmax_bytes_avx512,
        .outputs = outputs,
        .rows = (r1 - r0 + blocks - 1) / blocks,
    };
    fg_attn_walk_avx512(&parts, acc, kv, tile, rows, r0, r1, scratch);
    _tile_release();
}

void fg_fill_attn_amx(struct fg_kernels *k)
{
    k->attn_tile[1] = attn_tile_fast;
}
