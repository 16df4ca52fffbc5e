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
#if defined(__x86_64__) && !defined(FORGE_REF_ONLY)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

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

#if defined(__x86_64__) && !defined(FORGE_REF_ONLY)
static bool is_level(const char *isa)
{
    const struct fg_kernels *k;
    struct fg_error err;
    return fg_kernels_get(&k, isa, &err) == 0;
}

// A level that its own check drops would be missed by no test of equality.
static void test_levels_of_this_cpu_are_all_there(void **state)
{
    (void)state;
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    bool vnni =
        avx512 && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
    assert_int_equal(is_level("avx2"), avx2);
    assert_int_equal(is_level("avx512"), avx512);
    assert_int_equal(is_level("avx512vnni"), vnni);

    enum { ARCH_GET_XCOMP_PERM = 0x1022, TILE_DATA = 18, AMX_INT8 = 1 << 25 };
    unsigned a, b, c, d = 0;
    uint64_t granted = 0;
    bool amx = vnni && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & AMX_INT8) &&
               syscall(SYS_arch_prctl, ARCH_GET_XCOMP_PERM, &granted) == 0 &&
               (granted >> TILE_DATA & 1);
    assert_int_equal(is_level("amx"), amx);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels_go_upward_from_ref),
        cmocka_unit_test(test_levels_lack_nothing),
#if defined(__x86_64__) && !defined(FORGE_REF_ONLY)
        cmocka_unit_test(test_levels_of_this_cpu_are_all_there),
#endif
        cmocka_unit_test(test_get_finds_every_level_by_name),
        cmocka_unit_test(test_get_refuses_what_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
