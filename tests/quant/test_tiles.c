// Tiles: the specification's goldens, the way there and back for every format and odd sizes, and
// kernels on what is built.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/hash.h"
#include "base/size.h"
#include "kernels/kernels.h"
#include "quant/dequant.h"
#include "quant/matrices.h"
#include "quant/tiles.h"

static void expect_unit(const uint8_t *unit, int64_t bytes, const char *first, const char *sha256)
{
    char hex[FG_SHA256_HEX];
    assert_memory_equal(unit, first, 16);
    assert_true(fg_sha256_hex(unit, (uint64_t)bytes, hex));
    hex[16] = '\0';
    assert_string_equal(hex, sha256);
}

static void goldens(void **state)
{
    (void)state;
    uint8_t idx[16][16], unit[192];
    for (int p = 0; p < 16; p++)
        for (int c = 0; c < 16; c++)
            idx[p][c] = (uint8_t)((7 * p + 5 * c + 3) % 64);
    struct fg_qmat m = {.format = FG_Q_V2X64, .rows = 32, .cols = 16, .idx = &idx[0][0]};
    fg_tiles_pack(unit, &m, 0, 1);
    expect_unit(unit, 192, "\xc3\x08\x4d\x92\x8a\xcf\x14\x59\x51\x96\xdb\x20\x18\x5d\xa2\xe7",
                "7925ffdceddc358f");
    m = (struct fg_qmat){.format = FG_Q_LUT6, .rows = 16, .cols = 16, .idx = &idx[0][0]};
    memset(unit, 0, sizeof unit);
    fg_tiles_pack(unit, &m, 0, 1); // the same unit, a row where a pair was
    expect_unit(unit, 192, "\xc3\x08\x4d\x92\x8a\xcf\x14\x59\x51\x96\xdb\x20\x18\x5d\xa2\xe7",
                "7925ffdceddc358f");
    uint8_t rows[16][8];
    for (int r = 0; r < 16; r++)
        for (int c = 0; c < 8; c++)
            rows[r][c] = (uint8_t)((3 * r + 5 * c + 1) % 16);
    m = (struct fg_qmat){.format = FG_Q_LUT4, .rows = 16, .cols = 8, .idx = &rows[0][0]};
    fg_tiles_pack(unit, &m, 0, 1);
    expect_unit(unit, 64, "\x51\xa6\xfb\x40\x84\xd9\x2e\x73\xb7\x0c\x51\xa6\xea\x3f\x84\xd9",
                "bb6296325ef7ef0d");
}

static const enum fg_qformat tiled[] = {FG_Q_V2X16, FG_Q_V2X64, FG_Q_LUT4, FG_Q_LUT6, FG_Q_INT8};
static const int64_t shapes[][2] = {{2, 1},    {32, 16},  {34, 17},  {30, 15},
                                    {98, 260}, {66, 511}, {2, 1024}, {64, 1033}};

static void there_and_back(void **state)
{
    (void)state;
    assert_int_equal(fg_layout_of_format(FG_Q_BF16), FG_N_LAYOUTS);
    for (size_t f = 0; f < FG_COUNT(tiled); f++) {
        const enum fg_layout l = fg_layout_of_format(tiled[f]);
        for (size_t i = 0; i < FG_COUNT(shapes); i++) {
            const int64_t rows = shapes[i][0], cols = shapes[i][1];
            struct stored s = stored_new(tiled[f], rows, cols, 0, i % 2, i);
            const int64_t groups = fg_layout_groups(l, rows), step = fg_layout_group_bytes(l, cols);
            const uint64_t bytes = fg_tiles_bytes(l, rows, cols);
            assert_int_equal(bytes, groups * step);
            uint8_t *tiles = malloc(bytes + 1);
            assert_non_null(tiles);
            memset(tiles, 0xEE, bytes + 1);
            for (int64_t g = 0; g < groups; g++)
                fg_tiles_pack(tiles + g * step, &s.m, g, g + 1);
            assert_int_equal(tiles[bytes], 0xEE);
            const int64_t padded = step / fg_layout_unit_bytes(l) * fg_layout_unit_cols(l);
            uint8_t *got = malloc((size_t)padded), *want = malloc((size_t)padded);
            assert_true(got && want);
            for (int64_t lane = 0; lane < groups * FG_LUT_LANES; lane++) {
                memset(want, tiled[f] == FG_Q_INT8 ? 128 : 0, (size_t)padded);
                if (lane < rows / fg_qformat_rows_per_index(tiled[f])) {
                    if (tiled[f] != FG_Q_INT8) fg_qmat_row_indices(want, &s.m, lane);
                    for (int64_t j = 0; tiled[f] == FG_Q_INT8 && j < cols; j++)
                        want[j] = (uint8_t)(s.m.codes[lane * cols + j] + 128);
                }
                fg_tiles_unpack_indices(got, tiles + lane / FG_LUT_LANES * step, l,
                                        (int)(lane % FG_LUT_LANES), padded);
                assert_memory_equal(got, want, (size_t)padded);
            }
            free(got);
            free(want);
            free(tiles);
            stored_free(&s);
        }
    }
}

// What the kernels decode from a built matrix is what its canonical storage says; tables, scales
// and factors as lut.h says.
static void built(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *const *k = fg_kernels_levels(&n_levels);
    for (size_t f = 0; f < FG_COUNT(tiled); f++) {
        for (size_t i = 0; i < FG_COUNT(shapes); i++) {
            const int64_t rows = shapes[i][0], cols = shapes[i][1], rank = (int64_t)i % 3;
            struct stored s = stored_new(tiled[f], rows, cols, rank, i % 2, i);
            const bool int8_factors = rank && (f + i) % 2;
            if (int8_factors) stored_int8_factors(&s, i);
            struct fg_arena arena;
            fg_arena_init(&arena, 0);
            struct fg_lut w;
            assert_int_equal(fg_lut_build(&w, &s.m, &arena, NULL), 0);
            assert_true(w.n_out == rows && w.n_in == cols && w.rank == rank);
            const int64_t per_group = fg_layout_rows(w.layout);
            const int64_t n = fg_layout_groups(w.layout, rows) * per_group;
            const int64_t d = fg_qformat_rows_per_index(tiled[f]);
            float *out = malloc((size_t)(per_group * cols) * sizeof *out);
            assert_non_null(out);
            for (int level = 0; level < n_levels; level++) {
                for (int64_t g = 0; g < n / per_group; g++) {
                    k[level]->lut_decode[w.layout](out, cols, &w, g);
                    for (int64_t r = g * per_group; r < rows && r < (g + 1) * per_group; r++)
                        for (int64_t c = 0; c < cols; c++)
                            assert_true(w.scale[r] * out[(r - g * per_group) * cols + c] ==
                                        stored_at(&s.m, r, c));
                }
            }
            for (int64_t r = rows; r < n; r++)
                assert_true(w.scale[r] == 0 && w.scale_ts[r] == 0);
            for (int64_t t = 0; t < d && tiled[f] != FG_Q_INT8; t++) {
                float most = 0;
                for (int e = 0; e < 64; e++)
                    most = fmaxf(most, fabsf(w.table[64 * t + e]));
                const float ts = most / 127.0f;
                int extreme = 0;
                for (int e = 0; e < 64; e++) {
                    int q = w.table_u8[64 * t + e] - 128;
                    assert_int_equal(q, (int)rintf(w.table[64 * t + e] / ts));
                    if (abs(q) == 127) extreme = 1;
                }
                assert_true(extreme);
                for (int64_t r = t; r < rows; r += d)
                    assert_true(w.scale_ts[r] == w.scale[r] * ts);
            }
            if (tiled[f] == FG_Q_INT8) assert_memory_equal(w.scale, w.scale_ts, (size_t)n * 4);
            assert_true((w.lr_scale != NULL) == int8_factors);
            if (rank) {
                const size_t bytes = int8_factors ? 1 : 2;
                assert_memory_equal(w.lr_a, s.m.lr_a, (size_t)(rows * rank) * bytes);
                assert_memory_equal(w.lr_b, s.m.lr_b, (size_t)(rank * cols) * bytes);
                if (int8_factors)
                    assert_memory_equal(w.lr_scale, s.m.lr_scale, (size_t)rank * sizeof(float));
            }
            free(out);
            fg_arena_free(&arena);
            stored_free(&s);
        }
    }
}

static void a_table_of_zeros(void **state)
{
    (void)state;
    const uint16_t lut[16] = {0}, scale[1] = {0x3C00};
    const uint8_t idx[1] = {0};
    const struct fg_qmat m = {
        .format = FG_Q_LUT4, .rows = 1, .cols = 1, .idx = idx, .lut = lut, .scale = scale};
    float table[2][64], ts[2];
    uint8_t table_u8[2][64];
    fg_tiles_tables(table, table_u8, ts, &m);
    assert_true(ts[0] == 0 && ts[1] == 0);
    for (int i = 0; i < 64; i++)
        assert_true(table[0][i] == 0 && table_u8[0][i] == 128);
}

static void no_memory(void **state)
{
    (void)state;
    struct stored s = stored_new(FG_Q_V2X64, 64, 64, 4, false, 1);
    for (uint64_t limit = 64; limit < 20000; limit += 64) {
        struct fg_arena arena;
        fg_arena_init(&arena, limit);
        struct fg_lut w = {.rank = 7};
        struct fg_error err = {0};
        int rc = fg_lut_build(&w, &s.m, &arena, &err);
        assert_true(rc == 0 || (rc == FG_ERESOURCE && !w.tiles && w.rank == 0));
        fg_arena_free(&arena);
        if (rc == 0) break;
        assert_true(limit < 19000);
    }
    stored_int8_factors(&s, 2);
    for (uint64_t limit = 64; limit < 20000; limit += 64) {
        struct fg_arena arena;
        fg_arena_init(&arena, limit);
        struct fg_lut w = {.rank = 7};
        int rc = fg_lut_build(&w, &s.m, &arena, NULL);
        assert_true(rc == 0 || (rc == FG_ERESOURCE && !w.tiles && !w.lr_scale && w.rank == 0));
        fg_arena_free(&arena);
        if (rc == 0) break;
        assert_true(limit < 19000);
    }
    stored_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goldens),   cmocka_unit_test(there_and_back),
        cmocka_unit_test(built),     cmocka_unit_test(a_table_of_zeros),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
