// Random numbers against the specification's values, and their ranges.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "quant/random.h"

static void splitmix64(void **state)
{
    (void)state;
    struct fg_random r = fg_random_seeded(0);
    assert_true(fg_random_next(&r) == 0xe220a8397b1dcdafu);
    r = fg_random_seeded(1000);
    assert_true(fg_random_next(&r) == 0x3c1eba8b4dccc148u);
    assert_true(fg_random_next(&r) == 0xd07a9d82d4f4bbafu);
}

static void named_streams(void **state)
{
    (void)state;
    // The empty tag hashes to FNV's offset; the stream starts at SplitMix64's first output.
    struct fg_random bare = fg_random_seeded(7 ^ 0xCBF29CE484222325u);
    struct fg_random named = fg_random_named(7, "");
    assert_true(named.state == fg_random_next(&bare));
    // FNV-1a of "a" is known.
    bare = fg_random_seeded(0xaf63dc4c8601ec8cu);
    assert_true(fg_random_named(0, "a").state == fg_random_next(&bare));
    assert_false(fg_random_named(0, "b").state == fg_random_named(0, "a").state);
}

static void ranges(void **state)
{
    (void)state;
    struct fg_random r = fg_random_seeded(3), same = r;
    for (int i = 0; i < 10000; i++) {
        uint64_t z = fg_random_next(&same);
        double u = fg_random_u01(&r);
        assert_true(u >= 0 && u < 1 && u == (double)(z >> 11) * 0x1p-53);
    }
    int seen[7] = {0};
    for (int i = 0; i < 10000; i++) {
        uint64_t v = fg_random_below(&r, 7);
        assert_in_range(v, 0, 6);
        seen[v]++;
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(seen[i], 1200, 1700);
    assert_int_equal(fg_random_below(&r, 1), 0);
    struct fg_random half = fg_random_seeded(0); // high half of z * 2^63 is z / 2
    assert_true(fg_random_below(&half, (uint64_t)1 << 63) == 0xe220a8397b1dcdafu / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splitmix64),
        cmocka_unit_test(named_streams),
        cmocka_unit_test(ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
