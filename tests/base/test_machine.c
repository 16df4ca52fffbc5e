// What the machine tells about itself: plausible, and never a failure.
#include "base/machine.h"
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

static void test_probe(void **state)
{
    (void)state;
    struct fg_machine m;
    fg_machine_probe(&m);
    assert_true(m.kernel[0] && m.arch[0] && m.libc[0]);
    assert_true(m.sockets >= 1 && m.cores >= m.sockets && m.threads >= 1);
    assert_true(m.allowed >= 1);
    assert_true(m.ram_bytes > (uint64_t)1 << 24);
    assert_true(m.available_bytes <= m.ram_bytes);
    assert_true(fg_machine_free_bytes(&m) <= m.available_bytes);
    assert_true(m.open_files > 0);
    assert_true(m.numa_nodes >= 1);
#if defined(__x86_64__)
    for (int i = 0; i < FG_CPU_FEATURES; i++) {
        const char *name = fg_cpu_feature_name(i);
        if (strcmp(name, "avx2") == 0)
            assert_int_equal(m.feature[i], __builtin_cpu_supports("avx2") != 0);
        if (strcmp(name, "avx512f") == 0)
            assert_int_equal(m.feature[i], __builtin_cpu_supports("avx512f") != 0);
    }
#endif
}

static void test_affinity(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    struct fg_machine m;
    fg_machine_probe(&m);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(m.allowed, 1);
}

static void test_cgroup_limit_counts(void **state)
{
    (void)state;
    struct fg_machine m = {.available_bytes = 1000};
    assert_int_equal(fg_machine_free_bytes(&m), 1000);
    m.cgroup_bytes = 600;
    m.cgroup_used_bytes = 100;
    assert_int_equal(fg_machine_free_bytes(&m), 500);
    m.cgroup_used_bytes = 700;
    assert_int_equal(fg_machine_free_bytes(&m), 0);
}

static void test_disk(void **state)
{
    (void)state;
    assert_true(fg_disk_free_bytes("/") > 0);
    assert_true(fg_disk_free_bytes("/no/such/folder/at/all") > 0);
    assert_true(fg_disk_free_bytes("no-such-file") > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_affinity),
        cmocka_unit_test(test_cgroup_limit_counts),
        cmocka_unit_test(test_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
