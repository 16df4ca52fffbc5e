// Checked arithmetic: against 128-bit arithmetic on boundary values, all pairs.
#include "base/size.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const uint64_t values[] = {0,
                                  1,
                                  2,
                                  3,
                                  63,
                                  64,
                                  65,
                                  UINT32_MAX - 1ull,
                                  UINT32_MAX,
                                  UINT32_MAX + 1ull,
                                  INT64_MAX - 1ull,
                                  INT64_MAX,
                                  INT64_MAX + 1ull,
                                  UINT64_MAX - 64,
                                  UINT64_MAX - 63,
                                  UINT64_MAX - 1,
                                  UINT64_MAX};

typedef unsigned __int128 wide;

static void expect(bool ok, uint64_t out, wide truth, uint64_t a, uint64_t b)
{
    const uint64_t untouched = 0x1234;
    if (ok != (truth <= UINT64_MAX) || out != (ok ? (uint64_t)truth : untouched))
        fail_msg("a=%llu b=%llu ok=%d out=%llu", (unsigned long long)a, (unsigned long long)b, ok,
                 (unsigned long long)out);
}

static void test_all_pairs(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(values); i++) {
        for (size_t j = 0; j < FG_COUNT(values); j++) {
            uint64_t a = values[i], b = values[j], out = 0x1234;
            bool ok = fg_mul(&out, a, b);
            expect(ok, out, (wide)a * b, a, b);
            out = 0x1234;
            ok = fg_add(&out, a, b);
            expect(ok, out, (wide)a + b, a, b);
            out = 0x1234;
            ok = fg_sub(&out, a, b);
            expect(ok, out, b > a ? (wide)UINT64_MAX + 1 : (wide)(a - b), a, b);
        }
        for (uint64_t align = 1; align <= 4096; align *= 2) {
            uint64_t out = 0x1234;
            bool ok = fg_align_up(&out, values[i], align);
            expect(ok, out, ((wide)values[i] + align - 1) / align * align, values[i], align);
        }
    }
}

static void test_results_may_overwrite_operands(void **state)
{
    (void)state;
    uint64_t n = 10;
    assert_true(fg_mul(&n, n, n));
    assert_int_equal(n, 100);
    assert_true(fg_add(&n, n, n));
    assert_int_equal(n, 200);
    assert_true(fg_align_up(&n, n, 64));
    assert_int_equal(n, 256);
    assert_true(fg_sub(&n, n, n));
    assert_int_equal(n, 0);
}

static void test_to_size(void **state)
{
    (void)state;
    size_t n = 7;
    assert_true(fg_to_size(&n, SIZE_MAX));
    assert_true(n == SIZE_MAX);
#if SIZE_MAX < UINT64_MAX
    n = 7;
    assert_false(fg_to_size(&n, (uint64_t)SIZE_MAX + 1));
    assert_int_equal(n, 7);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_pairs),
        cmocka_unit_test(test_results_may_overwrite_operands),
        cmocka_unit_test(test_to_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
