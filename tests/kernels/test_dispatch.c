// Levels of kernels: order, names, completeness, and errors for what can't be had.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/size.h"
#include "kernels/kernels.h"
#include <assert.h>
#include <stdint.h>
#include <string.h>

static const char *const order[] = {"ref",        "avx2",       "avx2vnni", "avx512",
                                    "avx512vnni", "avx512bf16", "amx",      "neon"};

static int place(const char *isa)
{
    for (int i = 0; i < (int)FG_COUNT(order); i++)
        if (strcmp(order[i], isa) == 0) return i;
    return -1;
}

static void test_levels_go_upward_from_ref(void **state)
{
    (void)state;
    int n, again;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n);
    assert_true(n >= 1);
    assert_string_equal(levels[0]->isa, "ref");
    for (int i = 1; i < n; i++)
        assert_true(place(levels[i]->isa) > place(levels[i - 1]->isa));
    assert_ptr_equal(fg_kernels_levels(&again), levels);
    assert_int_equal(again, n);
}

static void test_levels_lack_nothing(void **state)
{
    (void)state;
    int n;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n);
    for (int i = 0; i < n; i++) {
        // All members but isa are function pointers.
        static_assert(sizeof(struct fg_kernels) % sizeof(void (*)(void)) == 0, "no padding");
        void (*member[sizeof(struct fg_kernels) / sizeof(void (*)(void))])(void);
        memcpy(member, levels[i], sizeof member);
        for (size_t j = 0; j < FG_COUNT(member); j++)
            if (!member[j]) fail_msg("%s: member %zu is missing", levels[i]->isa, j);
    }
}

static void test_get_finds_every_level_by_name(void **state)
{
    (void)state;
    int n;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n);
    const struct fg_kernels *k;
    struct fg_error err;
    for (int i = 0; i < n; i++) {
        assert_int_equal(fg_kernels_get(&k, levels[i]->isa, &err), 0);
        assert_ptr_equal(k, levels[i]);
    }
    assert_int_equal(fg_kernels_get(&k, NULL, &err), 0);
    assert_ptr_equal(k, levels[n - 1]);
    assert_int_equal(fg_kernels_get(&k, "", &err), 0);
    assert_ptr_equal(k, levels[n - 1]);
}

static void test_get_refuses_what_is_not_there(void **state)
{
    (void)state;
    int n;
    fg_kernels_levels(&n);
    const struct fg_kernels *const *levels = fg_kernels_levels(&n);
    const struct fg_kernels *k;
    struct fg_error err = {0};
    static const char *const unknown[] = {"sse9", "AVX2", "avx", "avx512bf16 ", "ref\n"};
    for (size_t i = 0; i < FG_COUNT(unknown); i++) {
        assert_int_equal(fg_kernels_get(&k, unknown[i], &err), FG_EINPUT);
        assert_null(k);
        assert_string_equal(err.field, "isa");
        assert_non_null(strstr(err.expected, "avx512bf16"));
    }
    for (size_t i = 0; i < FG_COUNT(order); i++) {
        bool here = false;
        for (int j = 0; j < n; j++)
            here |= strcmp(levels[j]->isa, order[i]) == 0;
        if (!here) assert_int_equal(fg_kernels_get(&k, order[i], &err), FG_EUNSUPPORTED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels_go_upward_from_ref),
        cmocka_unit_test(test_levels_lack_nothing),
        cmocka_unit_test(test_get_finds_every_level_by_name),
        cmocka_unit_test(test_get_refuses_what_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
