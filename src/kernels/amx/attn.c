// kernels/amx/attn.c: the INT8 parts of attention (kv.h) by TDPBSUD and TDPBUSD, for blocks of up
// to 32 query rows. Pages are stored as the B tiles of both products:
//
//   scores   A: [rows][64 dims] of high or low digits of queries
//            B: 16 tokens of keys, [16 fours of dims][16 tokens]; C: [rows][16 tokens]
//   outputs  A: [rows][64 tokens] of high or low bytes of probabilities
//            B: 16 dims of values, [16 fours of tokens][16 dims]; C: [rows][16 dims]
//
// A product takes longer to finish than four take to start, so four sums take turns, high and low.
// With up to 16 rows these are of 32 tokens or dims. With more they are of two sets of rows and
// half as much of the page: its lines come from the second cache more slowly than the products want
// them, and so serve as many of these as they can.
#include "kernels/avx512/attn.h"
#include "kernels/levels.h"

#define TILE_ROWS 16
#define TILE_BYTES 1024
#define ROWS_MIN 3 // for fewer, VPDPBUSD is as fast

// Tile registers; macros, because gcc's intrinsics make their names from the text.
#define C0 0
#define C1 1
#define C2 2
#define C3 3
#define A0 4
#define A1 5
#define B0 6
#define B1 7
#define TILES 8

// gcc's tile loads and stores do not say what memory they use.
#define MEMORY_ORDER() __asm__ volatile("" : : : "memory")

// Layout of LDTILECFG's operand, palette 1.
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

// For n rows. Up to 16 are in all A and C, else the first 16 in C0, C1 and A0, the others in C2, C3
// and A1. half: A1 and B1 have 32 bytes of a row, or 8 fours.
static void configure(int64_t n, bool half)
{
    struct tile_config c = {.palette = 1};
    const uint8_t first = (uint8_t)(n < TILE_ROWS ? n : TILE_ROWS);
    const uint8_t second = (uint8_t)(n > TILE_ROWS ? n - TILE_ROWS : n);
    for (int i = 0; i < TILES; i++)
        c.row_bytes[i] = 64;
    c.rows[C0] = c.rows[C1] = c.rows[A0] = first;
    c.rows[C2] = c.rows[C3] = c.rows[A1] = second;
    c.rows[B0] = c.rows[B1] = TILE_ROWS;
    if (half) {
        c.row_bytes[A1] = 32;
        c.rows[B1] = TILE_ROWS / 2;
    }
    // gcc's intrinsic tells of the first eight bytes alone.
    __asm__ volatile("" : : "r"(&c) : "memory");
    _tile_loadconfig(&c);
}

static void zero_sums(void)
{
    _tile_zero(C0);
    _tile_zero(C1);
    _tile_zero(C2);
    _tile_zero(C3);
    MEMORY_ORDER();
}

// Exact sums of a step, of both digits or bytes: 32 tokens or dims of up to 16 rows, [half][row],
// or 16 of more rows.
struct sums {
    int32_t high[2 * TILE_ROWS][16], low[2 * TILE_ROWS][16];
};

// Sums of scores that wait for the next step's products: row by row they become scores between
// these, which are not kept waiting that way. Rows [at, end) are left.
struct raw {
    const struct sums *from;
    float *s; // of row `at` at the step's tokens
    const float *ks;
    int64_t at, end;
};

// 16 * regs tokens of the next row: (sum - 128 * qsum) * qs * ks.
FG_INLINE void scale_row(const int regs, const int32_t *qsum, const float *qs, struct raw *w)
{
    if (w->at >= w->end) return;
    const __m512i bias = _mm512_set1_epi32(128 * qsum[w->at]);
    FG_UNROLL_FULL
    for (int c = 0; c < regs; c++) {
        const __m512i high = _mm512_load_si512(w->from->high[c * TILE_ROWS + w->at]);
        const __m512i low = _mm512_load_si512(w->from->low[c * TILE_ROWS + w->at]);
        const __m512i sum = _mm512_sub_epi32(attn_two_digits(high, low), bias);
        __m512 score = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(qs[w->at]));
        score = _mm512_mul_ps(score, _mm512_load_ps(w->ks + 16 * c));
        _mm512_store_ps(w->s + 16 * c, score);
    }
    w->at++;
    w->s += ATTN_LD;
}

// Sums of up to 16 rows and two blocks of tokens.
static void score_few(const struct attn_block *b, int64_t step, struct sums *to,
                      const uint8_t *ahead, struct raw *waiting)
{
    const int64_t W = b->W, ld = 2 * W, stride = W * 16; // of rows, of blocks
    const uint8_t *k = b->k + step * 2 * stride;
    const int8_t *hi = b->rows->qc + b->r0 * ld, *lo = hi + W;
    const int32_t *qsum = b->rows->qsum + b->r0;
    const float *qs = b->rows->qs + b->r0;
    struct raw w = *waiting;
    int64_t d = 0;
    zero_sums();
    for (; d + 64 <= W; d += 64, k += TILE_BYTES) {
        _tile_loadd(A0, hi + d, ld);
        _tile_loadd(B0, k, 64);
        _tile_dpbsud(C0, A0, B0);
        if (ahead) attn_ahead(ahead + d * 16, stride, 8);
        scale_row(2, qsum, qs, &w);
        _tile_loadd(A0, lo + d, ld);
        _tile_dpbsud(C2, A0, B0);
        scale_row(2, qsum, qs, &w);
        _tile_loadd(B0, k + stride, 64);
        _tile_dpbsud(C3, A0, B0);
        scale_row(2, qsum, qs, &w);
        _tile_loadd(A0, hi + d, ld);
        _tile_dpbsud(C1, A0, B0);
        scale_row(2, qsum, qs, &w);
    }
    if (d < W) {
        _tile_loadd(A1, hi + d, ld);
        _tile_loadd(B1, k, 64);
        _tile_dpbsud(C0, A1, B1);
        _tile_loadd(A1, lo + d, ld);
        _tile_dpbsud(C2, A1, B1);
        _tile_loadd(B1, k + stride, 64);
        _tile_dpbsud(C3, A1, B1);
        _tile_loadd(A1, hi + d, ld);
        _tile_dpbsud(C1, A1, B1);
    }
    while (w.at < w.end)
        scale_row(2, qsum, qs, &w);
    _tile_stored(C0, to->high[0], 64);
    _tile_stored(C1, to->high[TILE_ROWS], 64);
    _tile_stored(C2, to->low[0], 64);
    _tile_stored(C3, to->low[TILE_ROWS], 64);
    MEMORY_ORDER();
    *waiting = (struct raw){to, b->mem->s[0] + step * 32, b->mem->ks + step * 32, 0, b->n};
}

// The same of more rows and one block of tokens; W is a multiple of 64.
static void score_many(const struct attn_block *b, int64_t step, struct sums *to,
                       const uint8_t *ahead, struct raw *waiting)
{
    const int64_t W = b->W, ld = 2 * W, stride = W * 16;
    const uint8_t *k = b->k + step * stride;
    const int8_t *hi = b->rows->qc + b->r0 * ld, *lo = hi + W;
    const int32_t *qsum = b->rows->qsum + b->r0;
    const float *qs = b->rows->qs + b->r0;
    struct raw w = *waiting;
    zero_sums();
    for (int64_t d = 0; d < W; d += 64, k += TILE_BYTES) {
        _tile_loadd(B0, k, 64);
        _tile_loadd(A0, hi + d, ld);
        _tile_dpbsud(C0, A0, B0);
        scale_row(1, qsum, qs, &w);
        scale_row(1, qsum, qs, &w);
        _tile_loadd(A1, hi + d + TILE_ROWS * ld, ld);
        _tile_dpbsud(C2, A1, B0);
        if (ahead) attn_ahead(ahead + d * 16, stride, 4);
        scale_row(1, qsum, qs, &w);
        scale_row(1, qsum, qs, &w);
        _tile_loadd(A0, lo + d, ld);
        _tile_dpbsud(C1, A0, B0);
        scale_row(1, qsum, qs, &w);
        scale_row(1, qsum, qs, &w);
        _tile_loadd(A1, lo + d + TILE_ROWS * ld, ld);
        _tile_dpbsud(C3, A1, B0);
        scale_row(1, qsum, qs, &w);
        scale_row(1, qsum, qs, &w);
    }
    while (w.at < w.end)
        scale_row(1, qsum, qs, &w);
    _tile_stored(C0, to->high[0], 64);
    _tile_stored(C1, to->low[0], 64);
    _tile_stored(C2, to->high[TILE_ROWS], 64);
    _tile_stored(C3, to->low[TILE_ROWS], 64);
    MEMORY_ORDER();
    *waiting = (struct raw){to, b->mem->s[0] + step * 16, b->mem->ks + step * 16, 0, b->n};
}

static void scores(struct attn_block *b)
{
    const int32_t *qsum = b->rows->qsum + b->r0;
    const float *qs = b->rows->qs + b->r0;
    _Alignas(64) struct sums sums[2];
    struct raw w = {&sums[0], NULL, NULL, 0, 0};
    configure(b->n, b->W % 64 != 0);
    for (int64_t g = 0; g < b->groups; g++) {
        const uint8_t *ahead = attn_ahead_of_group(b, g, 1);
        for (int64_t i = 0; i < 2 && b->n <= TILE_ROWS; i++)
            score_few(b, 2 * g + i, &sums[i], ahead ? ahead + 512 * i : NULL, &w);
        for (int64_t i = 0; i < 4 && b->n > TILE_ROWS; i++)
            score_many(b, 4 * g + i, &sums[i % 2], ahead ? ahead + 256 * i : NULL, &w);
    }
    while (w.at < w.end && b->n <= TILE_ROWS)
        scale_row(2, qsum, qs, &w);
    while (w.at < w.end)
        scale_row(1, qsum, qs, &w);
}

// Sums that wait for the next step's products: rows [at, end) are left.
struct fold {
    const struct sums *from;
    float *o; // of row `at` at the step's dims
    int64_t at, end;
};

// 16 * regs dims of the next row. plain: each row's o is combined. Sums are no -0.
FG_INLINE void fold_row(const bool plain, const int regs, const struct attn_block *b, int64_t W,
                        struct fold *f)
{
    if (f->at >= f->end) return;
    const int64_t i = f->at;
    FG_UNROLL_FULL
    for (int c = 0; c < regs; c++) {
        const __m512i high = _mm512_load_si512(f->from->high[c * TILE_ROWS + i]);
        const __m512i low = _mm512_load_si512(f->from->low[c * TILE_ROWS + i]);
        const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(high, 8), low);
        __m512 o2 = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(b->unit[i]));
        if (!plain) {
            attn_combine16(b, i, f->o + 16 * c - b->acc->o - (b->r0 + i) * W, o2);
            continue;
        }
        o2 = _mm512_mul_ps(o2, _mm512_set1_ps(b->b[i]));
        const __m512 o = _mm512_load_ps(f->o + 16 * c);
        _mm512_store_ps(f->o + 16 * c, _mm512_fmadd_ps(o, _mm512_set1_ps(b->a[i]), o2));
    }
    f->at++;
    f->o += W;
}

// Sums of a step from the page's next dims, and what waits.
FG_INLINE void weigh_few(const bool plain, const struct attn_block *b, int64_t step,
                         struct sums *to, const uint8_t *ahead, struct fold *waiting)
{
    const uint8_t *v = b->v + step * ATTN_STRIPE_BYTES, *p = attn_p(b, 0);
    const int64_t stride = sizeof b->mem->s[0], W = b->W, groups = b->groups;
    struct fold f = *waiting;
    zero_sums();
    for (int64_t g = 0; g < groups; g++, v += 2048, p += ATTN_TOKENS) {
        _tile_loadd(A0, p, stride);
        _tile_loadd(B0, v, 128);
        _tile_dpbusd(C0, A0, B0);
        if (ahead) attn_ahead(ahead + 512 * g, ATTN_AHEAD_BYTES, 8);
        fold_row(plain, 2, b, W, &f);
        _tile_loadd(B1, v + 64, 128);
        _tile_dpbusd(C1, A0, B1);
        fold_row(plain, 2, b, W, &f);
        _tile_loadd(A1, p + FG_KV_PAGE, stride);
        _tile_dpbusd(C2, A1, B0);
        fold_row(plain, 2, b, W, &f);
        _tile_dpbusd(C3, A1, B1);
        fold_row(plain, 2, b, W, &f);
    }
    while (f.at < f.end)
        fold_row(plain, 2, b, W, &f);
    _tile_stored(C0, to->high[0], 64);
    _tile_stored(C1, to->high[TILE_ROWS], 64);
    _tile_stored(C2, to->low[0], 64);
    _tile_stored(C3, to->low[TILE_ROWS], 64);
    MEMORY_ORDER();
    *waiting = (struct fold){to, b->acc->o + b->r0 * W + step * 32, 0, b->n};
}

FG_INLINE void weigh_many(const bool plain, const struct attn_block *b, int64_t step,
                          struct sums *to, const uint8_t *ahead, struct fold *waiting)
{
    const uint8_t *v = b->v + step / 2 * ATTN_STRIPE_BYTES + step % 2 * 64;
    const uint8_t *p = attn_p(b, 0);
    const int64_t stride = sizeof b->mem->s[0], W = b->W, groups = b->groups;
    struct fold f = *waiting;
    zero_sums();
    for (int64_t g = 0; g < groups; g++, v += 2048, p += ATTN_TOKENS) {
        const uint8_t *p2 = p + TILE_ROWS * stride;
        _tile_loadd(B0, v, 128);
        _tile_loadd(A0, p, stride);
        _tile_dpbusd(C0, A0, B0);
        fold_row(plain, 1, b, W, &f);
        fold_row(plain, 1, b, W, &f);
        _tile_loadd(A1, p2, stride);
        _tile_dpbusd(C2, A1, B0);
        if (ahead) attn_ahead(ahead + 512 * g, ATTN_AHEAD_BYTES, 4);
        fold_row(plain, 1, b, W, &f);
        fold_row(plain, 1, b, W, &f);
        _tile_loadd(A0, p + FG_KV_PAGE, stride);
        _tile_dpbusd(C1, A0, B0);
        fold_row(plain, 1, b, W, &f);
        fold_row(plain, 1, b, W, &f);
        _tile_loadd(A1, p2 + FG_KV_PAGE, stride);
        _tile_dpbusd(C3, A1, B0);
        fold_row(plain, 1, b, W, &f);
        fold_row(plain, 1, b, W, &f);
    }
    while (f.at < f.end)
        fold_row(plain, 1, b, W, &f);
    _tile_stored(C0, to->high[0], 64);
    _tile_stored(C1, to->low[0], 64);
    _tile_stored(C2, to->high[TILE_ROWS], 64);
    _tile_stored(C3, to->low[TILE_ROWS], 64);
    MEMORY_ORDER();
    *waiting = (struct fold){to, b->acc->o + b->r0 * W + step * 16, 0, b->n};
}

FG_INLINE void weigh(const bool plain, const struct attn_block *b)
{
    _Alignas(64) struct sums sums[2];
    struct fold f = {&sums[0], NULL, 0, 0};
    for (int64_t i = 0; i < b->W / ATTN_STRIPE; i++) {
        const uint8_t *ahead = attn_ahead_of_stripe(b, i);
        if (b->n <= TILE_ROWS) {
            weigh_few(plain, b, i, &sums[i % 2], ahead, &f);
            continue;
        }
        weigh_many(plain, b, 2 * i, &sums[0], ahead, &f);
        weigh_many(plain, b, 2 * i + 1, &sums[1], ahead ? ahead + 256 : NULL, &f);
    }
    while (f.at < f.end && b->n <= TILE_ROWS)
        fold_row(plain, 2, b, b->W, &f);
    while (f.at < f.end)
        fold_row(plain, 1, b, b->W, &f);
}

static void outputs(struct attn_block *b)
{
    configure(b->n, false);
    if (b->empty == 0 && b->keep == 0)
        weigh(true, b);
    else
        weigh(false, b);
}

static void attn_tile_fast(const struct fg_attn_acc *acc, const struct fg_kv_head *kv, int64_t tile,
                           const struct fg_attn_rows *rows, int64_t r0, int64_t r1, void *scratch)
{
    const int64_t n = r1 - r0;
    if (n < ROWS_MIN || !fg_kv_v8(kv->format)) {
        fg_attn_tile_fast_avx512vnni(acc, kv, tile, rows, r0, r1, scratch);
        return;
    }
    // Blocks of even size.
    const int64_t most = fg_kv_width(kv->D) % 64 == 0 ? 2 * TILE_ROWS : TILE_ROWS;
    const int64_t blocks = (n + most - 1) / most;
    const struct attn_parts parts = {
        .scores = fg_kv_k8(kv->format) ? scores : fg_attn_scores_f16_avx512,
        .softmax = fg_attn_softmax_bytes_avx512,
        .outputs = outputs,
        .rows = (n + blocks - 1) / blocks,
    };
    fg_attn_walk_avx512(&parts, acc, kv, tile, rows, r0, r1, scratch);
    _tile_release();
}

void fg_fill_attn_amx(struct fg_kernels *k)
{
    k->attn_tile[1] = attn_tile_fast;
}
