// kernels/amx/lut.c: the fast product of quantized weights (lut.h) by TDPBSUD, for several rows of
// activations. The unit of work is a panel, two sets of 16 output rows (both components of a group,
// or two groups of single rows), times one block of columns, times up to 32 activation rows:
//
//              set 0   set 1       A: 16 activation rows x 64 columns, as struct fg_act holds them
//              [B0 ]   [B1 ]       B: 16 x 64 bytes; row i = what the look-up gives for one index
//   rows 0-15  [A0 ][C00]   [C01]     register: columns 4i .. 4i+3 of 16 lanes, weights + 128
//   16-31      [A1 ][C10]   [C11]  C: sums of 16 rows x 16 lanes
//
// Weights are looked up one strip of 64 columns ahead of the products, once per block, and serve
// all rows; FG_I8 has its B tiles in memory as they are.
#include "kernels/avx512/lut_tile.h"
#include "kernels/avx512/lut_vnni.h"
#include "kernels/levels.h"
#include <assert.h>
#include <string.h>

#define TILE_BYTES 1024
#define TILE_ROWS 16
#define STRIP_COLS 64
#define STRIPS (FG_ACT_BLOCK / STRIP_COLS)
#define PASS_ROWS (2 * TILE_ROWS)
#define SETS 2
#define AHEAD 3 // strips between look-up and product
// Activation rows that a thread's cache keeps while panels go by, and weights while rows do.
#define CHUNK_BYTES (1 << 20)
#define CHUNK_ROWS_MIN 64
#define CHUNK_ROWS_MAX 1024
#define GROUPS_BYTES (512 << 10)
#define PREFETCH_BYTES 4096

// Tile registers; macros, because gcc's intrinsics make their names from the text.
#define C00 0
#define C01 1
#define C10 2
#define C11 3
#define A0 4
#define A1 5
#define B0 6
#define B1 7
#define TILES 8

struct scratch {
    uint8_t weights[STRIPS][SETS][TILE_BYTES];       // of a block, looked up
    int32_t exact[2][SETS][PASS_ROWS][FG_LUT_LANES]; // of a block, of one pass and the one before
    float sums[CHUNK_ROWS_MAX][SETS][FG_LUT_LANES];
};
static_assert(sizeof(struct scratch) <= 512 << 10, "no more than fg_lut_scratch_bytes");

// Layout of LDTILECFG's operand, palette 1.
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

// A pass has `rows` activation rows, the first 16 in A0.
static void configure(int64_t rows)
{
    struct tile_config c = {.palette = 1};
    uint8_t first = (uint8_t)(rows < TILE_ROWS ? rows : TILE_ROWS);
    uint8_t second = (uint8_t)(rows > TILE_ROWS ? rows - TILE_ROWS : rows);
    for (int i = 0; i < TILES; i++) {
        c.row_bytes[i] = STRIP_COLS;
        c.rows[i] = TILE_ROWS;
    }
    c.rows[C00] = c.rows[C01] = c.rows[A0] = first;
    c.rows[C10] = c.rows[C11] = c.rows[A1] = second;
    // gcc's intrinsic tells of the first eight bytes alone.
    __asm__ volatile("" : : "r"(&c) : "memory");
    _tile_loadconfig(&c);
}

// One block of columns of a panel, and the one after it.
struct panel {
    const uint8_t *stream[SETS]; // of each group at the block's first column; pairs use the first
    int64_t n_units;             // from there to the end of the group
    int64_t n_strips;            // of this block
    __m512i table[2];
    struct scratch *s;
};

FG_INLINE void look_up_unit(const enum fg_layout l, const int sets, const struct panel *p,
                            uint8_t (*to)[TILE_BYTES], int64_t unit, const int row)
{
    const int regs = regs_per_unit(l), bytes = (int)fg_layout_unit_bytes(l);
    const int streams = rows_per_lane(l) == 2 ? 1 : sets;
    FG_UNROLL_FULL
    for (int g = 0; g < streams; g++) {
        const uint8_t *from = p->stream[g] + unit * bytes;
        __m512i index[LUT_REGS_MAX];
        unit_indices(l, index, from);
        FG_UNROLL_FULL
        for (int line = 0; line < bytes; line += 64)
            _mm_prefetch((const char *)from + line + PREFETCH_BYTES, _MM_HINT_T1);
        FG_UNROLL_FULL
        for (int j = 0; j < regs; j++) {
            FG_UNROLL_FULL
            for (int c = 0; c < rows_per_lane(l); c++)
                _mm512_store_si512(to[g + c] + 64 * (row + j), look_up(l, index[j], p->table[c]));
        }
    }
}

// Strip i as B tiles; past the block's last strip it is the next block's. What a short strip leaves
// as it was meets activations of 0.
FG_INLINE void look_up_strip(const enum fg_layout l, const int sets, const struct panel *p,
                             int64_t i)
{
    const int regs = regs_per_unit(l), units = TILE_ROWS / regs;
    uint8_t(*to)[TILE_BYTES] = p->s->weights[i % STRIPS];
    int64_t first = i * units, n = p->n_units - first;
    if (n >= units) {
        if (l == FG_I8) return;
        FG_UNROLL_FULL
        for (int u = 0; u < units; u++)
            look_up_unit(l, sets, p, to, first + u, u * regs);
        return;
    }
    for (int u = 0; u < n; u++)
        look_up_unit(l, sets, p, to, first + u, u * regs);
}

FG_INLINE const uint8_t *tile_b(const enum fg_layout l, const struct panel *p, int64_t strip,
                                const int set)
{
    if (l == FG_I8 && (strip + 1) * TILE_ROWS <= p->n_units)
        return p->stream[set] + strip * TILE_BYTES;
    return p->s->weights[strip % STRIPS][set];
}

// One strip onto the sums; first: in a pass of one half, onto those of the first half's registers.
FG_INLINE void multiply_strip(const enum fg_layout l, const int sets, const int halves,
                              const int first, const struct panel *p, int64_t i, const int8_t *x,
                              int64_t ld)
{
    // gcc's tile loads do not say that they read memory: stores must stay before, and those of
    // later strips after them.
    __asm__ volatile("" : : : "memory");
    const int8_t *at = x + i * STRIP_COLS;
    if (first) _tile_stream_loadd(A0, at, ld);
    if (!first || halves == 2) _tile_stream_loadd(A1, at + (halves - 1) * TILE_ROWS * ld, ld);
    _tile_loadd(B0, tile_b(l, p, i, 0), 64);
    if (sets == 2) _tile_loadd(B1, tile_b(l, p, i, 1), 64);
    __asm__ volatile("" : : : "memory");
    if (first) {
        _tile_dpbsud(C00, A0, B0);
        if (sets == 2) _tile_dpbsud(C01, A0, B1);
    }
    if (!first || halves == 2) {
        _tile_dpbsud(C10, A1, B0);
        if (sets == 2) _tile_dpbsud(C11, A1, B1);
    }
}

// Sums of a pass that wait to be folded: row by row between the products of the next pass, which
// they do not keep waiting that way.
struct waiting {
    int32_t (*exact)[PASS_ROWS][FG_LUT_LANES]; // [SETS]
    float (*sums)[SETS][FG_LUT_LANES];         // of the pass's rows
    const int32_t *sum;                        // of the pass's first row and block, n_blocks apart
    const float *sx;
    int64_t n_blocks, at, end; // rows [at, end) are left
};

// sums = fma(exact - 128 * sum, sx, sums) for the next row.
FG_INLINE void fold_row(const int sets, const int halves, struct waiting *w)
{
    if (w->at >= w->end) return;
    const int64_t i = w->at++;
    __m512i bias = _mm512_set1_epi32(128 * w->sum[i * w->n_blocks]);
    __m512 sx = _mm512_set1_ps(w->sx[i * w->n_blocks]);
    FG_UNROLL_FULL
    for (int c = 0; c < sets; c++) {
        __m512i acc = _mm512_load_si512(w->exact[c][i]);
        if (halves == 1) acc = _mm512_add_epi32(acc, _mm512_load_si512(w->exact[c][i + TILE_ROWS]));
        acc = _mm512_sub_epi32(acc, bias);
        float *sum = w->sums[i][c];
        _mm512_store_ps(sum, _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc), sx, _mm512_load_ps(sum)));
    }
}

// A block's products with the rows of a pass, into exact. x: the pass's first row at the block's
// first column. look: AHEAD strips before they are multiplied, those of this block from `look_from`
// and up to, not including, look_to are looked up. A product takes longer to finish than four take
// to start, so a pass of one half uses all four sums in turn.
FG_INLINE void multiply(const enum fg_layout l, const int sets, const int halves,
                        const struct panel *p, int32_t (*exact)[PASS_ROWS][FG_LUT_LANES],
                        const int8_t *x, int64_t ld, int64_t look_from, int64_t look_to,
                        struct waiting *w)
{
    _tile_zero(C00);
    _tile_zero(C01);
    _tile_zero(C10);
    _tile_zero(C11);
    for (int64_t i = 0; i < p->n_strips; i++) {
        if (i + AHEAD >= look_from && i + AHEAD < look_to) look_up_strip(l, sets, p, i + AHEAD);
        if (halves == 2 || i % 2 == 0)
            multiply_strip(l, sets, halves, 1, p, i, x, ld);
        else
            multiply_strip(l, sets, halves, 0, p, i, x, ld);
        fold_row(sets, halves, w);
        if (halves == 2) fold_row(sets, halves, w);
    }
    while (w->at < w->end)
        fold_row(sets, halves, w);
    _tile_stored(C00, exact[0], 64);
    _tile_stored(C10, exact[0] + TILE_ROWS, 64);
    if (sets == 2) _tile_stored(C01, exact[1], 64);
    if (sets == 2) _tile_stored(C11, exact[1] + TILE_ROWS, 64);
}

FG_INLINE int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// Block b of a panel for T rows from t0 on, in passes of pass_rows; where that does not divide T,
// the last begins early and leaves out the rows that the one before has had. last: no block
// follows.
FG_INLINE void block_product(const enum fg_layout l, const int sets, const int halves,
                             const struct panel *p, const struct fg_act *x, int64_t b, int64_t t0,
                             int64_t T, int64_t pass_rows, bool last, struct waiting *w)
{
    struct scratch *s = p->s;
    for (int64_t done = 0; done < T;) {
        const int64_t t = min_i64(done, T - pass_rows), at = (t0 + t) * x->n_blocks + b;
        const bool final = t + pass_rows >= T;
        int32_t(*exact)[PASS_ROWS][FG_LUT_LANES] =
            w->exact == s->exact[0] ? s->exact[1] : s->exact[0];
        multiply(l, sets, halves, p, exact, x->xc + (t0 + t) * x->ld + b * FG_ACT_BLOCK, x->ld,
                 done == 0 ? AHEAD : p->n_strips,
                 final && !last ? p->n_strips + AHEAD
                 : done == 0    ? p->n_strips
                                : 0,
                 w);
        *w = (struct waiting){.exact = exact,
                              .sums = s->sums + t,
                              .sum = x->sum + at,
                              .sx = x->sx + at,
                              .n_blocks = x->n_blocks,
                              .at = done - t,
                              .end = pass_rows};
        done = t + pass_rows;
    }
}

// Rows [t0, t0 + T) of a panel that starts at group g.
FG_INLINE void panel_product(const enum fg_layout l, const int sets, const int halves, float *y,
                             int64_t ldy, const struct fg_lut *w, int64_t g, const struct fg_act *x,
                             int64_t t0, int64_t T, int64_t pass_rows, struct scratch *s)
{
    const int64_t unit_cols = fg_layout_unit_cols(l), unit_bytes = fg_layout_unit_bytes(l);
    const int64_t group_bytes = fg_layout_group_bytes(l, w->n_in), rows = fg_layout_rows(l);
    const uint8_t *group = w->tiles + g * group_bytes;
    struct panel p = {.s = s};
    struct waiting wait = {.exact = NULL};
    load_tables(l, p.table, w);
    memset(s->sums, 0, (size_t)T * sizeof s->sums[0]);
    for (int64_t b = 0; b < x->n_blocks; b++) {
        int64_t at = b * FG_ACT_BLOCK, cols = min_i64(w->n_in - at, FG_ACT_BLOCK);
        p.n_units = (w->n_in - at + unit_cols - 1) / unit_cols;
        p.n_strips = (cols + STRIP_COLS - 1) / STRIP_COLS;
        p.stream[0] = group + at / unit_cols * unit_bytes;
        p.stream[1] = p.stream[0] + group_bytes;
        for (int64_t i = 0; b == 0 && i < AHEAD && i < p.n_strips; i++)
            look_up_strip(l, sets, &p, i);
        block_product(l, sets, halves, &p, x, b, t0, T, pass_rows, b + 1 == x->n_blocks, &wait);
    }
    while (wait.at < wait.end)
        fold_row(sets, halves, &wait);
    for (int64_t t = 0; t < T; t++) {
        float *to = y + (t0 + t) * ldy + g * rows;
        store_rows(l, to, w->scale_ts + g * rows, s->sums[t][0], w->n_out - g * rows);
        if (rows_per_lane(l) == 1 && sets == 2)
            store_rows(l, to + rows, w->scale_ts + (g + 1) * rows, s->sums[t][1],
                       w->n_out - (g + 1) * rows);
    }
}

FG_INLINE void gemm_chunk(const enum fg_layout l, float *y, int64_t ldy, const struct fg_lut *w,
                          int64_t g0, int64_t g1, const struct fg_act *x, int64_t t0, int64_t T,
                          struct scratch *s)
{
    const int64_t passes = (T + PASS_ROWS - 1) / PASS_ROWS, pass_rows = (T + passes - 1) / passes;
    const int64_t groups = rows_per_lane(l) == 2 ? 1 : SETS;
    configure(pass_rows);
    int64_t g = g0;
    for (; g + groups <= g1; g += groups) {
        if (pass_rows <= TILE_ROWS)
            panel_product(l, SETS, 1, y, ldy, w, g, x, t0, T, pass_rows, s);
        else
            panel_product(l, SETS, 2, y, ldy, w, g, x, t0, T, pass_rows, s);
    }
    if (rows_per_lane(l) == 2 || g >= g1) return;
    if (pass_rows <= TILE_ROWS)
        panel_product(l, 1, 1, y, ldy, w, g, x, t0, T, pass_rows, s);
    else
        panel_product(l, 1, 2, y, ldy, w, g, x, t0, T, pass_rows, s);
}

// For fewer rows VPDPBUSD is faster than the way through memory to tiles, the more so where a
// panel's bytes to look up come from two groups.
FG_INLINE int64_t rows_min(const enum fg_layout l)
{
    return l == FG_P4 || l == FG_P6X1 ? 5 : 3;
}

FG_INLINE int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

FG_INLINE void gemm(const enum fg_layout l, float *y, int64_t ldy, const struct fg_lut *w,
                    int64_t g0, int64_t g1, const struct fg_act *x, int64_t t0, int64_t t1,
                    void *scratch)
{
    int64_t chunk = clamp(CHUNK_BYTES / x->ld, CHUNK_ROWS_MIN, CHUNK_ROWS_MAX);
    chunk -= chunk % PASS_ROWS;
    const int64_t group_bytes = fg_layout_group_bytes(l, w->n_in);
    int64_t groups = t1 - t0 <= chunk ? g1 - g0 : clamp(GROUPS_BYTES / group_bytes, SETS, g1 - g0);
    groups += groups % SETS;
    for (int64_t g = g0; g < g1; g += groups) {
        for (int64_t t = t0; t < t1; t += chunk)
            gemm_chunk(l, y, ldy, w, g, g1 - g < groups ? g1 : g + groups, x, t,
                       t1 - t < chunk ? t1 - t : chunk, scratch);
    }
    _tile_release();
}

#define LAYOUT(name, l)                                                                            \
    static void fg_lut_gemm_##name##_amx(float *y, int64_t ldy, const struct fg_lut *w,            \
                                         int64_t g0, int64_t g1, const struct fg_act *x,           \
                                         int64_t t0, int64_t t1, void *scratch)                    \
    {                                                                                              \
        if (t1 - t0 < rows_min(l))                                                                 \
            fg_lut_gemm_##name##_avx512vnni(y, ldy, w, g0, g1, x, t0, t1, scratch);                \
        else                                                                                       \
            gemm(l, y, ldy, w, g0, g1, x, t0, t1, scratch);                                        \
    }
LAYOUT(p6, FG_P6)
LAYOUT(p4x2, FG_P4X2)
LAYOUT(p4, FG_P4)
LAYOUT(i8, FG_I8)
LAYOUT(p6x1, FG_P6X1)

void fg_fill_lut_amx(struct fg_kernels *k)
{
    k->lut_gemm[FG_P6] = fg_lut_gemm_p6_amx;
    k->lut_gemm[FG_P4X2] = fg_lut_gemm_p4x2_amx;
    k->lut_gemm[FG_P4] = fg_lut_gemm_p4_amx;
    k->lut_gemm[FG_I8] = fg_lut_gemm_i8_amx;
    k->lut_gemm[FG_P6X1] = fg_lut_gemm_p6x1_amx;
}
