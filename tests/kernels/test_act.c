// rotate, quantize, quantize2, sum_exp: ref against the check values of the specification and
// against their definitions, every level against ref.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "kernels/act_cases.h"
#include "kernels/kernels.h"
#include <float.h>
#include <math.h>
#include <string.h>

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

// Specs: quantization 2.2 and 2.3.
static void test_rotation_values(void **state)
{
    (void)state;
    static const uint8_t no_signs[128], first[8] = {0x48, 0xc1, 0xcc, 0x4d, 0x8b, 0xba, 0x1e, 0x3c};
    static const float hadamard8[8] = {28, -4, -8, 0, -16, 0, 0, 0};
    uint8_t signs[128];
    uint64_t seed = 1000;
    for (int i = 0; i < 16; i++) {
        uint64_t bits = splitmix64(&seed);
        memcpy(signs + 8 * i, &bits, 8);
    }
    assert_memory_equal(signs, first, 8);
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    for (int level = 0; level < n_levels; level++) {
        const struct fg_kernels *k = levels[level];
        float x[1024], y[1024], back[1024];
        for (int i = 0; i < 8; i++)
            x[i] = (float)i;
        k->rotate(y, x, no_signs, 8, 8);
        for (int i = 0; i < 8; i++) // one product with 1 / sqrt(8), as the contract says
            assert_true(y[i] == hadamard8[i] * (float)(1 / sqrt(8.0)));

        double before = 0, after = 0;
        for (int i = 0; i < 1024; i++)
            x[i] = (float)(i % 7 - 3);
        k->rotate(y, x, signs, 1024, 1024);
        assert_true(y[0] == 2.09375f && y[1] == 1.09375f && y[2] == -2.21875f && y[3] == 0.03125f);
        for (int i = 0; i < 1024; i++) {
            before += (double)x[i] * x[i];
            after += (double)y[i] * y[i];
        }
        assert_true(before == 4101 && after == 4101);

        k->rotate(back, y, no_signs, 1024, 1024);
        for (int i = 0; i < 1024; i++) {
            float sign = signs[i / 8] >> (i % 8) & 1 ? -1.0f : 1.0f;
            assert_true(back[i] * sign == x[i]); // whole numbers over 32: exact
        }
    }
}

// x -> x' -> x for every block size: within an ulp per stage of the largest value.
static void test_involution(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *ref = fg_kernels_levels(&n_levels)[0];
    static const uint8_t none[384];
    for (int64_t B = 8; B <= 1024; B *= 2) {
        float x[3072], y[3072];
        uint8_t signs[384];
        uint64_t seed = (uint64_t)B;
        fill_floats(x, 3072, &seed, NUMBERS_UNIT);
        for (int i = 0; i < 384; i++)
            signs[i] = (uint8_t)next_u32(&seed);
        ref->rotate(y, x, signs, 3072, B);
        ref->rotate(y, y, none, 3072, B);
        for (int64_t i = 0; i < 3072; i++) {
            float sign = signs[i / 8] >> (i % 8) & 1 ? -1.0f : 1.0f;
            if (!(fabsf(y[i] * sign - x[i]) <= 20 * FLT_EPSILON))
                fail_msg("block %lld: [%lld] is %.9g, expected %.9g", (long long)B, (long long)i,
                         (double)(y[i] * sign), (double)x[i]);
        }
    }
}

// The definition in whole numbers and doubles.
static void test_quantize_definition(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *ref = fg_kernels_levels(&n_levels)[0];
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct act_case c = {.n = 1 + (int64_t)(seed * 37 % FG_ACT_BLOCK), .seed = seed};
        float x[FG_ACT_BLOCK], sx[3];
        int8_t codes[3][FG_ACT_BLOCK];
        int32_t sum[3], want_sum[3] = {0};
        act_fill(x, &c);
        ref->quantize(codes[0], &sx[0], &sum[0], x, c.n);
        ref->quantize2(codes[1], codes[2], &sx[1], &sum[1], x, c.n);
        float m = 0;
        for (int64_t i = 0; i < c.n; i++) {
            if (fabsf(x[i]) > m) m = fabsf(x[i]);
            for (int d = 0; d < 3; d++) {
                assert_in_range(codes[d][i] + 127, 0, 254);
                want_sum[d] += codes[d][i];
            }
            double one = (double)codes[0][i] * sx[0];
            double two = (double)codes[1][i] * sx[1] + (double)codes[2][i] * sx[2];
            // half a step, and the rounding of the product by 127 / m or 32512 / m
            assert_true(fabs(one - x[i]) <= (double)sx[0] * 0.50002);
            assert_true(fabs(two - x[i]) <= (double)sx[2] * 0.51);
        }
        assert_true(sx[0] == m / 127.0f && sx[2] == m / 32512.0f && sx[1] == 255.0f * sx[2]);
        for (int d = 0; d < 3; d++)
            assert_int_equal(sum[d], want_sum[d]);
    }
}

static void test_quantize_edges(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    static const struct {
        float x[4];
        bool empty, bad;
        int8_t codes[4];
    } rows[] = {
        {{0, -0.0f, 0, 0}, true, false, {0}},
        {{0x1.fffffep-101f, -0x1p-140f, 0, 0}, true, false, {0}},
        {{0x1p-100f, -0x1p-100f, 0x1p-101f, 0}, false, false, {127, -127, 64, 0}},
        {{FLT_MAX, -FLT_MAX, 1, -0.0f}, false, false, {127, -127, 0, 0}},
        {{1, INFINITY, 2, 3}, true, true, {0}},
        {{1, 2, 3, -INFINITY}, true, true, {0}},
        {{1, NAN, 2, 3}, true, true, {0}},
        {{-127, 0.5f, 1.5f, -2.5f}, false, false, {-127, 0, 2, -2}}, // half to even
    };
    for (int level = 0; level < n_levels; level++) {
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            int8_t codes[2][4];
            float sx[2];
            int32_t sum[2], want_sum = 0;
            for (int i = 0; i < 4; i++)
                want_sum += rows[r].codes[i];
            levels[level]->quantize(codes[0], sx, sum, rows[r].x, 4);
            assert_memory_equal(codes[0], rows[r].codes, 4);
            assert_int_equal(sum[0], want_sum);
            assert_true(rows[r].bad ? isnan(sx[0]) : (sx[0] == 0) == rows[r].empty);
            levels[level]->quantize2(codes[0], codes[1], sx, sum, rows[r].x, 4);
            for (int d = 0; d < 2; d++) {
                assert_true(rows[r].bad ? isnan(sx[d]) : (sx[d] == 0) == rows[r].empty);
                for (int i = 0; i < 4 && rows[r].empty; i++)
                    assert_int_equal(codes[d][i], 0);
            }
        }
    }
}

static void test_sum_exp_definition(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *ref = fg_kernels_levels(&n_levels)[0];
    for (int64_t n = 1; n < 200; n++) {
        float x[200], m = -1;
        uint64_t seed = (uint64_t)n;
        double want = 0;
        fill_floats(x, n, &seed, NUMBERS_UNIT);
        for (int64_t i = 0; i < n; i++)
            m = x[i] > m ? x[i] : m;
        for (int64_t i = 0; i < n; i++)
            want += exp((double)x[i] - m);
        assert_true(fabs(ref->sum_exp(x, m, n) - want) <= 1e-6 * want);
        x[n / 2] = -INFINITY;
        assert_true(ref->sum_exp(x, 1, n) >= 0);
    }
}

static void test_levels(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    for (int level = 1; level < n_levels; level++) {
        struct act_case c = {.kernels = levels[level], .ref = levels[0]};
        for (c.kind = 0; c.kind < N_ACT_KINDS; c.kind++) {
            for (int64_t B = 8; B <= 1024; B *= 2) {
                for (int64_t blocks = 1; blocks <= 5; blocks += 2) {
                    c.n = B * blocks;
                    c.seed = (uint64_t)(B * 10 + blocks);
                    if (!act_case_rotate(&c, B, blocks == 3)) fail_msg("B %d: %s", (int)B, c.what);
                }
            }
            for (int64_t i = 0; i < 150; i++) {
                static const int64_t large[] = {191, 576, 767, 1000, 1023, 1024};
                c.n = i < 144 ? i + 1 : large[i - 144];
                c.seed = (uint64_t)(c.n * 7 + c.kind);
                if (!act_case_quantize(&c, 1) || !act_case_quantize(&c, 2) ||
                    !act_case_sum_exp(&c, 1) || !act_case_sum_exp(&c, 200))
                    fail_msg("%s", c.what);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rotation_values),     cmocka_unit_test(test_involution),
        cmocka_unit_test(test_quantize_definition), cmocka_unit_test(test_quantize_edges),
        cmocka_unit_test(test_sum_exp_definition),  cmocka_unit_test(test_levels),
    };
    return cmocka_run_group_tests_name("kernels.act", tests, NULL, NULL);
}
