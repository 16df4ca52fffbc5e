// Signs against the specification's tables, blocks and seeds of sites, rotation of weights.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/hash.h"
#include "base/size.h"
#include "quant/matrices.h"
#include "quant/signs.h"

static void splitmix64_table(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed;
        int64_t n;
        const char *first, *signs;
        int minus;
        const char *sha256;
    } rows[] = {
        {1000, 5120, "\x48\xc1\xcc\x4d\x8b\xba\x1e\x3c", "+++-++-+-+++++--", 2589,
         "9d5d2aeb2209d0cbc1d1dbb099547c9f1b5141f5d29f22d5f7ce91fcbf0e226f"},
        {2000, 17408, "\xd3\x92\x8f\x76\x4c\x3a\xdf\xbc", "--++-+--+-++-++-", 8626,
         "4cf0c79f8b0120506011e7ff9f1d809a8e7a24102aed55a5b3831fd98133134d"},
        {3000, 5120, "\x58\xcd\x7f\x3c\x01\xeb\x8d\x6f", "+++--+-+-+--++--", 2574,
         "220e8db74da50201507cb4fbdd87b51ec83462d057e2c0d1b5c3f116207b8863"},
        {4000, 6144, "\xd6\x48\x64\x6e\x37\x56\x6a\xec", "+--+-+--+++-++-+", 3062,
         "9d7f27be8a9f7d3eeb2b9ff85bb00cccbf6929ed9943bacd051ccee9a188b64d"},
    };
    for (size_t i = 0; i < FG_COUNT(rows); i++) {
        uint8_t bits[17408 / 8];
        const int64_t n = rows[i].n;
        fg_signs_splitmix64(bits, rows[i].seed, n);
        assert_memory_equal(bits, rows[i].first, 8);
        int minus = 0;
        for (int64_t j = 0; j < n; j++) {
            int bit = bits[j / 8] >> (j % 8) & 1;
            minus += bit;
            if (j < 16) assert_int_equal(bit ? '-' : '+', rows[i].signs[j]);
        }
        assert_int_equal(minus, rows[i].minus);
        char hex[FG_SHA256_HEX];
        assert_true(fg_sha256_hex(bits, (uint64_t)n / 8, hex));
        assert_string_equal(hex, rows[i].sha256);
    }
}

static void numpy_table(void **state)
{
    (void)state;
    static const struct {
        uint32_t seed;
        int64_t n;
        const char *sha256;
    } rows[] = {
        {1000, 5120, "5d15afd821dbc1fa9abf9f0cd1c57fb8185b703b29e2ecf9aa76e7a644bad48e"},
        {2000, 17408, "04873e873bb0f86d4feca4b63bd74c451460f567505a1f1802efab1051bcc2d4"},
        {4003, 6144, "cd32029cb967ba517a34543cd4a6e7db065822973a9d12a21dea036010c5d0b8"},
    };
    for (size_t i = 0; i < FG_COUNT(rows); i++) {
        uint8_t bits[17408 / 8];
        fg_signs_numpy_pcg64(bits, rows[i].seed, rows[i].n);
        char hex[FG_SHA256_HEX];
        assert_true(fg_sha256_hex(bits, (uint64_t)rows[i].n / 8, hex));
        assert_string_equal(hex, rows[i].sha256);
    }
}

// A shorter stream is the start of a longer one, and the rest of its last byte is 0.
static void any_length(void **state)
{
    (void)state;
    uint8_t all[32], some[33];
    for (int kind = 0; kind < 2; kind++) {
        for (int64_t n = 1; n <= 256; n++) {
            memset(some, 0xEE, sizeof some);
            if (kind) {
                fg_signs_numpy_pcg64(all, 5, 256);
                fg_signs_numpy_pcg64(some, 5, n);
            } else {
                fg_signs_splitmix64(all, 5, 256);
                fg_signs_splitmix64(some, 5, n);
            }
            for (int64_t j = 0; j < (n + 7) / 8 * 8; j++)
                assert_int_equal(some[j / 8] >> (j % 8) & 1, j < n ? all[j / 8] >> (j % 8) & 1 : 0);
            assert_int_equal(some[(n + 7) / 8], 0xEE);
        }
    }
}

static void blocks_and_seeds(void **state)
{
    (void)state;
    static const int64_t widths[][2] = {{5120, 1024}, {17408, 1024}, {6144, 1024}, {576, 64},
                                        {1536, 512},  {2048, 1024},  {8, 8},       {24, 8},
                                        {4, 0},       {12, 0},       {1, 0},       {0, 0}};
    for (size_t i = 0; i < FG_COUNT(widths); i++)
        assert_int_equal(fg_rotation_block(widths[i][0]), widths[i][1]);
    uint64_t seed = 0;
    assert_true(fg_rotation_seed(&seed, "mlp_in", 0) && seed == 1000);
    assert_true(fg_rotation_seed(&seed, "mlp_mid", 63) && seed == 2063);
    assert_true(fg_rotation_seed(&seed, "mix_in", 5) && seed == 3005);
    assert_true(fg_rotation_seed(&seed, "mix_out", 3) && seed == 4003);
    assert_false(fg_rotation_seed(&seed, "mlp", 0));
}

static const struct fg_kernels *best_level(void)
{
    int n;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n);
    return levels[n - 1];
}

static void check_values(void **state)
{
    (void)state;
    const struct fg_kernels *k = best_level();
    uint8_t bits[5120 / 8], plus[1] = {0};
    float ramp[8] = {0, 1, 2, 3, 4, 5, 6, 7}, x[5120];
    static const float want[8] = {28, -4, -8, 0, -16, 0, 0, 0};
    fg_rotate_rows(ramp, 1, 8, plus, 8, k, NULL);
    for (int i = 0; i < 8; i++)
        assert_true(ramp[i] == want[i] * (float)(1 / sqrt(8.0)));

    fg_signs_splitmix64(bits, 1000, 5120);
    for (int i = 0; i < 5120; i++)
        x[i] = (float)(i % 7 - 3);
    fg_rotate_rows(x, 1, 5120, bits, 1024, k, NULL);
    assert_true(x[0] == 2.09375f && x[1] == 1.09375f && x[2] == -2.21875f && x[3] == 0.03125f);
    double sum = 0;
    for (int i = 0; i < 1024; i++)
        sum += (double)x[i] * (double)x[i];
    assert_true(fabs(sum - 4101) < 1e-2);
}

// There and back; outputs are those of the unrotated matrix; every level, block and number of
// threads gives the same bits.
static void weights(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{5, 1024}, {37, 576}, {3, 1536}, {18, 40}, {1, 8}};
    struct fg_pool *pool;
    assert_int_equal(fg_pool_new(&pool, 2, NULL), 0);
    for (size_t i = 0; i < FG_COUNT(shapes); i++) {
        const int64_t rows = shapes[i][0], n = shapes[i][1], block = fg_rotation_block(n);
        float *w = gauss_matrix(rows, n, 1, i), *x = gauss_matrix(1, n, 1, 99);
        float *turned = gauss_matrix(rows, n, 1, i), *again = gauss_matrix(rows, n, 1, i);
        uint8_t bits[1536 / 8];
        fg_signs_splitmix64(bits, 2000 + i, n);
        int levels;
        const struct fg_kernels *const *k = fg_kernels_levels(&levels);
        fg_rotate_rows(turned, rows, n, bits, block, k[0], NULL);
        for (int l = 0; l < levels; l++) {
            memcpy(again, w, (size_t)(rows * n) * sizeof *w);
            fg_rotate_rows(again, rows, n, bits, block, k[l], pool);
            assert_memory_equal(again, turned, (size_t)(rows * n) * sizeof *w);
        }
        double error = 0, all = 0;
        float *y = gauss_matrix(1, n, 1, 99);
        fg_rotate_rows(y, 1, n, bits, block, k[0], NULL);
        for (int64_t r = 0; r < rows; r++) {
            double plain = 0, rotated = 0;
            for (int64_t j = 0; j < n; j++) {
                plain += (double)w[r * n + j] * (double)x[j];
                rotated += (double)turned[r * n + j] * (double)y[j];
            }
            error += (plain - rotated) * (plain - rotated);
            all += plain * plain;
        }
        assert_true(error <= 1e-10 * all);
        fg_unrotate_rows(turned, rows, n, bits, block, k[levels - 1], pool);
        for (int64_t j = 0; j < rows * n; j++)
            assert_true(fabsf(turned[j] - w[j]) < 1e-5f);
        free(w);
        free(x);
        free(y);
        free(turned);
        free(again);
    }
    fg_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splitmix64_table), cmocka_unit_test(numpy_table),
        cmocka_unit_test(any_length),       cmocka_unit_test(blocks_and_seeds),
        cmocka_unit_test(check_values),     cmocka_unit_test(weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
