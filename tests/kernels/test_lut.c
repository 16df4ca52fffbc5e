// Products and decoding of quantized weights: every level against ref bit for bit, over layouts,
// shapes, ranges of groups and rows, scales that are zero and NaN, and sums at the bound of
// exactness; and ref against the text of lut.h.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/arena.h"
#include "base/size.h"
#include "kernels/kernels.h"
#include "kernels/numbers.h"
#include <math.h>
#include <string.h>

static const char *const layout_names[FG_N_LAYOUTS] = {"p6", "p4x2", "p4", "i8", "p6x1"};
#define CANARY 12345.678f

enum kind {
    RANDOM,
    LARGEST,  // table entries, codes and activations of largest magnitude and one sign
    OPPOSITE, // the same, of opposite signs
    SPARSE,   // blocks of zeros, a block whose scale is NaN
    N_KINDS
};

// One matrix and T rows of activations; tiles and codes end at a forbidden page.
struct lut_case {
    enum fg_layout layout;
    int64_t n_in, n_out, T, ldy;
    uint64_t seed;
    enum kind kind;
    uint8_t *index; // [rows of all groups][n_in]: what the tiles hold; FG_I8: code + 128
    struct fg_lut w;
    struct fg_act x;
    struct fenced tiles, codes;
    float *table, *scale;
    uint8_t *table_u8;
    float *y, *truth;
    void *scratch;
};

static int64_t rows_of(const struct lut_case *c)
{
    return fg_layout_groups(c->layout, c->n_out) * fg_layout_rows(c->layout);
}

// Writes the index of lane p, column k of a group as lut.h draws it.
static void put(enum fg_layout l, uint8_t *group, int p, int64_t k, unsigned v)
{
    uint8_t *unit = group + k / fg_layout_unit_cols(l) * fg_layout_unit_bytes(l);
    int c = (int)(k % fg_layout_unit_cols(l));
    if (l == FG_I8) {
        unit[4 * p + c] = (uint8_t)v;
    } else if (!fg_layout_is_six_bits(l)) {
        unit[4 * p + c % 4] |= (uint8_t)(c < 4 ? v : v << 4);
    } else if (c < 12) {
        unit[64 * (c / 4) + 4 * p + c % 4] |= (uint8_t)v;
    } else {
        for (int plane = 0; plane < 3; plane++)
            unit[64 * plane + 4 * p + c - 12] |= (uint8_t)((v >> 2 * plane & 3) << 6);
    }
}

static void fill_weights(struct lut_case *c, uint64_t *s)
{
    const int entries = fg_layout_is_six_bits(c->layout) ? 64 : 16;
    const int64_t rows = fg_layout_rows(c->layout), per_lane = rows / FG_LUT_LANES;
    for (int t = 0; t < 2; t++) {
        float most = 0;
        for (int i = 0; i < 64; i++) {
            float v = next_number(s, NUMBERS_UNIT);
            if (c->kind == LARGEST || c->kind == OPPOSITE) v = 0.75f;
            c->table[64 * t + i] = i < entries ? v : c->table[64 * t + i % entries];
            most = fmaxf(most, fabsf(v));
        }
        for (int i = 0; i < 64; i++)
            c->table_u8[64 * t + i] =
                (uint8_t)(128 + (int)rintf(c->table[64 * t + i] / (most / 127)));
    }
    for (int64_t r = 0; r < rows_of(c); r++)
        c->scale[r] = r < c->n_out ? next_number(s, NUMBERS_UNIT) : 0;
    memset(c->tiles.data, c->layout == FG_I8 ? 128 : 0,
           (size_t)(fg_layout_groups(c->layout, c->n_out) *
                    fg_layout_group_bytes(c->layout, c->n_in)));
    for (int64_t lane = 0; lane * per_lane < c->n_out; lane++) {
        uint8_t *group =
            c->tiles.data + lane / FG_LUT_LANES * fg_layout_group_bytes(c->layout, c->n_in);
        for (int64_t k = 0; k < c->n_in; k++) {
            unsigned v = next_u32(s) % (unsigned)entries;
            if (c->layout == FG_I8) v = c->kind == RANDOM ? 1 + next_u32(s) % 255 : 255;
            put(c->layout, group, (int)(lane % FG_LUT_LANES), k, v);
            for (int64_t i = 0; i < per_lane; i++)
                c->index[(lane * per_lane + i) * c->n_in + k] = (uint8_t)v;
        }
    }
}

static void fill_activations(struct lut_case *c, uint64_t *s)
{
    for (int64_t t = 0; t < c->T; t++) {
        for (int64_t b = 0; b < c->x.n_blocks; b++) {
            bool zero = c->kind == SPARSE && next_u32(s) % 3 == 0;
            int64_t at = t * c->x.n_blocks + b;
            c->x.sx[at] = zero ? 0 : fabsf(next_number(s, NUMBERS_UNIT));
            if (c->kind == SPARSE && next_u32(s) % 8 == 0) c->x.sx[at] = NAN, zero = true;
            for (int64_t k = b * FG_ACT_BLOCK; k < (b + 1) * FG_ACT_BLOCK && k < c->n_in; k++) {
                int v = zero ? 0 : (int)(next_u32(s) % 255) - 127;
                if (c->kind == LARGEST) v = 127;
                if (c->kind == OPPOSITE) v = -127;
                c->x.xc[t * c->x.ld + k] = (int8_t)v;
                c->x.sum[at] += v;
            }
        }
    }
}

static struct lut_case case_new(enum fg_layout l, int64_t n_in, int64_t n_out, int64_t T,
                                uint64_t seed, enum kind kind)
{
    struct lut_case c = {
        .layout = l, .n_in = n_in, .n_out = n_out, .T = T, .seed = seed, .kind = kind};
    uint64_t s = seed * 0x9E3779B97F4A7C15u + 1;
    c.ldy = n_out + (int64_t)(next_u32(&s) % 3) * 3;
    c.tiles = fenced_new((size_t)(fg_layout_groups(l, n_out) * fg_layout_group_bytes(l, n_in)));
    c.x.n = n_in;
    c.x.ld = (n_in + 63) / 64 * 64 + (int64_t)(next_u32(&s) % 2) * 64;
    c.x.n_blocks = (n_in + FG_ACT_BLOCK - 1) / FG_ACT_BLOCK;
    c.codes = fenced_new((size_t)(T * c.x.ld));
    c.x.xc = (int8_t *)c.codes.data;
    c.x.sx = fg_alloc_aligned((uint64_t)(T * c.x.n_blocks) * 4);
    c.x.sum = fg_alloc_aligned((uint64_t)(T * c.x.n_blocks) * 4);
    c.table = fg_alloc_aligned(128 * sizeof(float));
    c.table_u8 = fg_alloc_aligned(128);
    c.scale = fg_alloc_aligned((uint64_t)rows_of(&c) * 4);
    c.index = fg_alloc_aligned((uint64_t)(rows_of(&c) * n_in));
    c.y = fg_alloc_aligned((uint64_t)(T * c.ldy) * 4);
    c.truth = fg_alloc_aligned((uint64_t)(T * c.ldy) * 4);
    c.scratch = fg_alloc_aligned(fg_lut_scratch_bytes(n_in));
    assert_true(c.x.sx && c.x.sum && c.table && c.table_u8 && c.scale && c.index && c.y &&
                c.truth && c.scratch);
    memset(c.index, l == FG_I8 ? 128 : 0, (size_t)(rows_of(&c) * n_in));
    fill_weights(&c, &s);
    fill_activations(&c, &s);
    c.w = (struct fg_lut){.layout = l,
                          .n_out = n_out,
                          .n_in = n_in,
                          .tiles = c.tiles.data,
                          .table = l == FG_I8 ? NULL : c.table,
                          .table_u8 = l == FG_I8 ? NULL : c.table_u8,
                          .scale = c.scale,
                          .scale_ts = c.scale};
    return c;
}

static void case_free(struct lut_case *c)
{
    fenced_free(&c->tiles);
    fenced_free(&c->codes);
    free(c->x.sx);
    free(c->x.sum);
    free(c->table);
    free(c->table_u8);
    free(c->scale);
    free(c->index);
    free(c->y);
    free(c->truth);
    free(c->scratch);
}

static void run(const struct lut_case *c, const struct fg_kernels *k, float *y, int64_t g0,
                int64_t g1, int64_t t0, int64_t t1)
{
    // What an earlier call left in the scratch must not matter.
    memset(c->scratch, 0xFF, fg_lut_scratch_bytes(c->n_in));
    k->lut_gemm[c->layout](y, c->ldy, &c->w, g0, g1, &c->x, t0, t1, c->scratch);
}

static void clear(const struct lut_case *c, float *y)
{
    for (int64_t i = 0; i < c->T * c->ldy; i++)
        y[i] = CANARY;
}

static void fail_case(const struct lut_case *c, const struct fg_kernels *k, const char *how,
                      int64_t t, int64_t r, float got, float want)
{
    fail_msg("%s, %s, %s: n_in %lld, n_out %lld, T %lld, ld %lld, ldy %lld, seed %llu, kind %d: "
             "[%lld][%lld] is %a, expected %a",
             k->isa, layout_names[c->layout], how, (long long)c->n_in, (long long)c->n_out,
             (long long)c->T, (long long)c->x.ld, (long long)c->ldy, (unsigned long long)c->seed,
             (int)c->kind, (long long)t, (long long)r, (double)got, (double)want);
}

// y holds the truth in rows [t0, t1) x columns [r0, r1), and what clear left elsewhere.
static void expect_truth(const struct lut_case *c, const struct fg_kernels *k, const char *how,
                         int64_t r0, int64_t r1, int64_t t0, int64_t t1)
{
    for (int64_t t = 0; t < c->T; t++) {
        for (int64_t r = 0; r < c->ldy; r++) {
            bool inside = t >= t0 && t < t1 && r >= r0 && r < r1;
            float got = c->y[t * c->ldy + r], want = inside ? c->truth[t * c->ldy + r] : CANARY;
            if (!same_float(got, want)) fail_case(c, k, how, t, r, got, want);
        }
    }
}

static void check_decode(const struct lut_case *c)
{
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    const int64_t rows = fg_layout_rows(c->layout), ldo = c->n_in + 3;
    const int64_t per_lane = rows / FG_LUT_LANES;
    float *out = fg_alloc_aligned((uint64_t)(rows * ldo) * 4);
    assert_non_null(out);
    for (int i = 0; i < n_levels; i++) {
        for (int64_t g = 0; g < fg_layout_groups(c->layout, c->n_out); g++) {
            for (int64_t j = 0; j < rows * ldo; j++)
                out[j] = CANARY;
            levels[i]->lut_decode[c->layout](out, ldo, &c->w, g);
            for (int64_t r = 0; r < rows; r++) {
                for (int64_t k = 0; k < ldo; k++) {
                    float want = CANARY;
                    if (k < c->n_in) {
                        int v = c->index[(g * rows + r) * c->n_in + k];
                        want = c->layout == FG_I8 ? (float)(v - 128)
                                                  : c->table[64 * (r % per_lane) + v];
                    }
                    if (!same_float(out[r * ldo + k], want))
                        fail_case(c, levels[i], "decode", g * rows + r, k, out[r * ldo + k], want);
                }
            }
        }
    }
    free(out);
}

// Every level, whole and cut into groups and rows of activations, against ref.
static void check(enum fg_layout l, int64_t n_in, int64_t n_out, int64_t T, uint64_t seed,
                  enum kind kind)
{
    struct lut_case c = case_new(l, n_in, n_out, T, seed, kind);
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    const int64_t groups = fg_layout_groups(l, n_out), rows = fg_layout_rows(l);
    clear(&c, c.truth);
    run(&c, levels[0], c.truth, 0, groups, 0, T);
    for (int i = 1; i < n_levels; i++) {
        clear(&c, c.y);
        run(&c, levels[i], c.y, 0, groups, 0, T);
        expect_truth(&c, levels[i], "whole", 0, n_out, 0, T);

        // A part in the middle, and rows in another company.
        int64_t g0 = groups / 3, g1 = (2 * groups + 2) / 3;
        int64_t t0 = (int64_t)(seed % 5) * T / 9, t1 = T - (int64_t)(seed % 3) * T / 8;
        int64_t r1 = g1 * rows < n_out ? g1 * rows : n_out;
        clear(&c, c.y);
        run(&c, levels[i], c.y, g0, g1, t0, t1);
        expect_truth(&c, levels[i], "part", g0 * rows, r1, t0, t1);
        run(&c, levels[i], c.y, 0, groups, T / 2, T / 2 + 1);
        run(&c, levels[i], c.y, 0, groups, T / 2, T / 2); // no rows: nothing
        run(&c, levels[i], c.y, g0, g0, 0, T);            // no groups: nothing
        if (T / 2 >= t0 && T / 2 < t1)
            for (int64_t r = 0; r < n_out; r++)
                if (!same_float(c.y[T / 2 * c.ldy + r], c.truth[T / 2 * c.ldy + r]))
                    fail_case(&c, levels[i], "one row", T / 2, r, c.y[T / 2 * c.ldy + r],
                              c.truth[T / 2 * c.ldy + r]);
    }
    if (T <= 3) check_decode(&c);
    case_free(&c);
}

static const int64_t T_all[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  11, 12,
                                15, 16, 17, 31, 32, 33, 48, 64, 65, 100};
static const int64_t n_in_all[] = {1,   3,   4,   15,  16,   17,   63,   64,   65,
                                   129, 200, 576, 960, 1023, 1024, 1025, 1536, 2050};
static const int64_t n_out_all[] = {1,  2,  15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
                                    25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 65, 100};
#define PRODUCT_MAX 3000000 // multiply-adds of one case: ref is slow under sanitizers

// Each T with each n_in, n_out and kind drawn.
static void test_every_level_equals_ref(void **state)
{
    (void)state;
    uint64_t s = 11;
    for (int l = 0; l < FG_N_LAYOUTS; l++) {
        for (size_t i = 0; i < FG_COUNT(T_all); i++) {
            for (size_t j = 0; j < FG_COUNT(n_in_all); j++) {
                uint64_t seed = next_u32(&s) % 100000;
                int64_t n_out = n_out_all[next_u32(&s) % FG_COUNT(n_out_all)];
                if (T_all[i] * n_in_all[j] * n_out > PRODUCT_MAX) n_out = 17;
                if (next_u32(&s) % 2 && T_all[i] * n_in_all[j] > 20000) continue;
                enum kind kind = next_u32(&s) % 4 ? RANDOM : SPARSE;
                check((enum fg_layout)l, n_in_all[j], n_out, T_all[i], seed, kind);
            }
        }
    }
}

// n_out of every remainder, on few columns.
static void test_every_number_of_outputs_equals_ref(void **state)
{
    (void)state;
    for (int l = 0; l < FG_N_LAYOUTS; l++)
        for (size_t j = 0; j < FG_COUNT(n_out_all); j++)
            for (int64_t T = 1; T <= 20; T += 1 + T / 4)
                check((enum fg_layout)l, 70, n_out_all[j], T, j, RANDOM);
}

// More rows of activations than a block of them, over many groups.
static void test_many_rows_equal_ref(void **state)
{
    (void)state;
    for (int l = 0; l < FG_N_LAYOUTS; l++) {
        check((enum fg_layout)l, 66, 130, 300, 1, RANDOM);
        check((enum fg_layout)l, 1100, 20, 130, 2, SPARSE);
        check((enum fg_layout)l, 20, 20, 1500, 3, RANDOM);
    }
}

// The sums of whole blocks reach 1024 * 127 * 127 in magnitude.
static void test_largest_sums_are_exact(void **state)
{
    (void)state;
    for (int l = 0; l < FG_N_LAYOUTS; l++) {
        for (int64_t T = 1; T <= 33; T += T < 8 ? 1 : 5) {
            check((enum fg_layout)l, 2048, 18, T, 1, LARGEST);
            check((enum fg_layout)l, 1025, 18, T, 2, OPPOSITE);
        }
    }
    struct lut_case c = case_new(FG_P6, 1024, 2, 1, 1, LARGEST);
    c.x.sx[0] = 1, c.scale[0] = c.scale[1] = 1;
    run(&c, fg_kernels_levels(&(int){0})[0], c.y, 0, 1, 0, 1);
    assert_true(c.y[0] == 1024.0f * 127 * 127 && c.y[1] == c.y[0]);
    case_free(&c);
}

// ref against the text of lut.h, from the indices that went into the tiles.
static void test_ref_follows_the_written_order(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *ref = fg_kernels_levels(&n_levels)[0];
    for (int l = 0; l < FG_N_LAYOUTS; l++) {
        for (size_t j = 0; j < FG_COUNT(n_in_all); j++) {
            struct lut_case c = case_new((enum fg_layout)l, n_in_all[j], 35, 2, j, RANDOM);
            run(&c, ref, c.y, 0, fg_layout_groups(c.layout, c.n_out), 0, c.T);
            const int64_t per_lane = fg_layout_rows(c.layout) / FG_LUT_LANES;
            for (int64_t t = 0; t < c.T; t++) {
                for (int64_t r = 0; r < c.n_out; r++) {
                    float sum = 0;
                    for (int64_t b = 0; b < c.x.n_blocks; b++) {
                        int64_t acc = 0;
                        for (int64_t k = 1024 * b; k < 1024 * (b + 1) && k < c.n_in; k++) {
                            int v = c.index[r * c.n_in + k];
                            if (l != FG_I8) v = c.table_u8[64 * (r % per_lane) + v];
                            acc += (v - 128) * c.x.xc[t * c.x.ld + k];
                        }
                        sum = fmaf((float)acc, c.x.sx[t * c.x.n_blocks + b], sum);
                    }
                    float want = sum * c.scale[r], got = c.y[t * c.ldy + r];
                    if (!same_float(got, want)) fail_case(&c, ref, "text", t, r, got, want);
                }
            }
            case_free(&c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ref_follows_the_written_order),
        cmocka_unit_test(test_every_level_equals_ref),
        cmocka_unit_test(test_every_number_of_outputs_equals_ref),
        cmocka_unit_test(test_many_rows_equal_ref),
        cmocka_unit_test(test_largest_sums_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
