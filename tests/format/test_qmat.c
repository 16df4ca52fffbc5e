// Formats of quantized weights: names, sizes to the byte for the 27B's layers and releases, and
// look-up in a set.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/size.h"
#include "format/qset.h"
#include <stdint.h>

static void names_and_aliases(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum fg_qformat f;
    } cases[] = {{"v2x16", FG_Q_V2X16},
                 {"v2x64", FG_Q_V2X64},
                 {"lut4", FG_Q_LUT4},
                 {"lut6", FG_Q_LUT6},
                 {"int8", FG_Q_INT8},
                 {"bf16", FG_Q_BF16},
                 {"f16", FG_Q_F16},
                 {"f32", FG_Q_F32},
                 {"vector 2x16 + pcs", FG_Q_V2X16},
                 {"vector 2x64 + pcs", FG_Q_V2X64},
                 {"LUT4 per-tensor + pcs", FG_Q_LUT4},
                 {"LUT6 per-tensor + pcs", FG_Q_LUT6},
                 {"INT8 per-channel", FG_Q_INT8}};
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        enum fg_qformat f = FG_Q_N_FORMATS;
        assert_true(fg_qformat_of_name(cases[i].name, &f));
        assert_int_equal(f, cases[i].f);
        if (i < FG_Q_N_FORMATS) assert_string_equal(fg_qformat_name(f), cases[i].name);
    }
    enum fg_qformat f = FG_Q_N_FORMATS;
    assert_false(fg_qformat_of_name("V2X16", &f));
    assert_false(fg_qformat_of_name("", &f));
    assert_int_equal(f, FG_Q_N_FORMATS);
}

static void properties(void **state)
{
    (void)state;
    static const int bits[] = {4, 6, 4, 6, 8, 0, 0, 0}, rows[] = {2, 2, 1, 1, 1, 1, 1, 1},
                     entries[] = {16, 64, 16, 64, 0, 0, 0, 0};
    for (int i = 0; i < FG_Q_N_FORMATS; i++) {
        enum fg_qformat f = (enum fg_qformat)i;
        assert_int_equal(fg_qformat_index_bits(f), bits[i]);
        assert_int_equal(fg_qformat_rows_per_index(f), rows[i]);
        assert_int_equal(fg_qformat_entries(f), entries[i]);
        assert_int_equal(fg_qformat_is_lut(f), i <= FG_Q_LUT6);
        assert_int_equal(fg_qformat_is_kept(f), i >= FG_Q_BF16);
    }
    assert_int_equal(fg_qformat_row_bytes(FG_Q_V2X64, 5), 4); // 30 bits
    assert_int_equal(fg_qformat_row_bytes(FG_Q_V2X64, 12), 9);
    assert_int_equal(fg_qformat_row_bytes(FG_Q_LUT4, 3), 2);
    assert_int_equal(fg_qformat_row_bytes(FG_Q_INT8, 3), 3);
}

static uint64_t bytes_of(enum fg_qformat f, uint64_t rows, uint64_t cols)
{
    uint64_t bytes = 0;
    assert_true(fg_qformat_bytes(f, rows, cols, &bytes));
    return bytes;
}

static void sizes_of_matrices(void **state)
{
    (void)state;
    assert_int_equal(bytes_of(FG_Q_V2X64, 17408, 5120), 33458432);
    assert_int_equal(bytes_of(FG_Q_V2X64, 5120, 17408), 33433856);
    assert_int_equal(bytes_of(FG_Q_V2X16, 10240, 5120), 13127744);
    assert_int_equal(bytes_of(FG_Q_V2X16, 6144, 5120), 7876672);
    assert_int_equal(bytes_of(FG_Q_V2X16, 5120, 6144), 7874624);
    assert_int_equal(bytes_of(FG_Q_LUT4, 10240, 5120), 26234912);
    assert_int_equal(bytes_of(FG_Q_LUT4, 6144, 5120), 15740960);
    assert_int_equal(bytes_of(FG_Q_LUT4, 5120, 6144), 15738912);
    assert_int_equal(bytes_of(FG_Q_V2X16, 12288, 5120), 15753280);
    assert_int_equal(bytes_of(FG_Q_LUT4, 12288, 5120), 31481888);
    assert_int_equal(bytes_of(FG_Q_INT8, 1024, 5120), 5244928);
    assert_int_equal(bytes_of(FG_Q_LUT4, 248320, 5120), 636195872);
    assert_int_equal(bytes_of(FG_Q_F16, 248320, 5120), 2542796800);
    assert_int_equal(bytes_of(FG_Q_BF16, 48, 5120), 491520);
    assert_int_equal(bytes_of(FG_Q_F32, 3, 5), 60);
    assert_int_equal(bytes_of(FG_Q_V2X64, 2, 5), 4 + 256 + 4); // rows of indices end on a byte
}

// Mixer of one layer of the 27B: vectors below layer 24, scalars from there on.
static uint64_t mixer_bytes(int layer)
{
    const enum fg_qformat f = layer < 24 ? FG_Q_V2X16 : FG_Q_LUT4;
    if (layer % 4 == 3)
        return bytes_of(f, 12288, 5120) + 2 * bytes_of(FG_Q_INT8, 1024, 5120) +
               bytes_of(f, 5120, 6144);
    return bytes_of(f, 10240, 5120) + bytes_of(f, 6144, 5120) + bytes_of(f, 5120, 6144);
}

static uint64_t mlp_bytes(enum fg_qformat f)
{
    return 2 * bytes_of(f, 17408, 5120) + bytes_of(f, 5120, 17408);
}

static void sizes_of_releases(void **state)
{
    (void)state;
    assert_int_equal(mlp_bytes(FG_Q_V2X64), 100350720);
    assert_int_equal(mixer_bytes(0), 28879040);
    assert_int_equal(mixer_bytes(24), 57714784);
    assert_int_equal(mixer_bytes(3), 34117760);
    assert_int_equal(mixer_bytes(27), 57710656);

    uint64_t mixers = 0, factors = 0;
    for (int i = 0; i < 64; i++) {
        mixers += mixer_bytes(i);
        const uint64_t sides = i % 4 == 3 ? (12288 + 5120) + 2 * (1024 + 5120) + (5120 + 6144)
                                          : (10240 + 5120) + (6144 + 5120) + (5120 + 6144);
        assert_int_equal(2 * 64 * sides, i % 4 == 3 ? 5242880 : 4849664);
        factors += 2 * 64 * sides;
    }
    const uint64_t head = bytes_of(FG_Q_LUT4, 248320, 5120);
    const uint64_t kept = 48 * 2 * bytes_of(FG_Q_BF16, 48, 5120);
    assert_int_equal(mixers, 3033079360);
    assert_int_equal(factors, 316669952);
    assert_int_equal(kept, 47185920);
    assert_int_equal(64 * mlp_bytes(FG_Q_V2X64), 6422446080);

    const uint64_t release_0_2 = 64 * mlp_bytes(FG_Q_V2X64) + mixers + head + kept;
    assert_int_equal(release_0_2, 10138907232);
    assert_int_equal(release_0_2 + factors, 10455577184);

    const uint64_t release_0_1 =
        38 * mlp_bytes(FG_Q_V2X16) + 26 * mlp_bytes(FG_Q_LUT4) + mixers + head + kept;
    assert_true((double)release_0_1 / 0x1p30 == 9.069021373987198);
}

static void sizes_that_do_not_fit(void **state)
{
    (void)state;
    uint64_t bytes = 77;
    assert_false(fg_qformat_bytes(FG_Q_V2X64, 3, 8, &bytes)); // no pairs
    assert_false(fg_qformat_bytes(FG_Q_BF16, UINT64_MAX / 4, 4, &bytes));
    assert_false(fg_qformat_bytes(FG_Q_F32, UINT64_MAX / 4, 2, &bytes));
    assert_false(fg_qformat_bytes(FG_Q_LUT4, UINT64_MAX / 2, 8, &bytes));
    assert_false(fg_qformat_bytes(FG_Q_INT8, UINT64_MAX, 1, &bytes));
    assert_int_equal(bytes, 77);
    assert_int_equal(fg_qformat_row_bytes(FG_Q_V2X64, UINT64_MAX), UINT64_MAX / 8 * 6 + 6);
}

static void look_up(void **state)
{
    (void)state;
    static const struct fg_qset_mat mats[] = {
        {.name = "layers.0.mlp.down_proj"}, {.name = "layers.10.mlp.up_proj"}, {.name = "lm_head"}};
    static const struct fg_qset_small small[] = {{.name = "layers.0.input_layernorm.weight"},
                                                 {.name = "norm.weight"}};
    static const struct fg_qset_rot rots[] = {{.layer = 2, .site = "mix_out"},
                                              {.layer = 2, .site = "mlp_in"},
                                              {.layer = 10, .site = "mix_in"}};
    const struct fg_qset s = {mats, small, rots, 3, 2, 3};
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(fg_qset_find_mat(&s, mats[i].name), &mats[i]);
    for (int i = 0; i < 2; i++)
        assert_ptr_equal(fg_qset_find_small(&s, small[i].name), &small[i]);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(fg_qset_find_rot(&s, rots[i].layer, rots[i].site), &rots[i]);
    assert_null(fg_qset_find_mat(&s, "layers.1.mlp.down_proj"));
    assert_null(fg_qset_find_mat(&s, "lm_head.weight"));
    assert_null(fg_qset_find_small(&s, "lm_head"));
    assert_null(fg_qset_find_rot(&s, 2, "mix_in"));
    assert_null(fg_qset_find_rot(&s, 3, "mlp_in"));

    const struct fg_qset none = {0};
    assert_null(fg_qset_find_mat(&none, "lm_head"));
    assert_null(fg_qset_find_small(&none, "norm.weight"));
    assert_null(fg_qset_find_rot(&none, 0, "mlp_in"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_aliases),     cmocka_unit_test(properties),
        cmocka_unit_test(sizes_of_matrices),     cmocka_unit_test(sizes_of_releases),
        cmocka_unit_test(sizes_that_do_not_fit), cmocka_unit_test(look_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
