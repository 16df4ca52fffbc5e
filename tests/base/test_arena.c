// Arenas: alignment, zeroing, no overlap, limits, release.
#include "base/arena.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// Requests near 2^64 must reach the code under test, not end the program.
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static void expect_zeroed(const void *p, size_t n)
{
    const unsigned char *b = p;
    for (size_t i = 0; i < n; i++)
        assert_int_equal(b[i], 0);
}

static void test_allocations_are_aligned_zeroed_and_apart(void **state)
{
    (void)state;
    // Small ones, ones that just fill a block, and ones larger than a block in between.
    static const size_t sizes[] = {1,     63,    64,       65, 4096,   65535,
                                   65536, 65537, 1u << 20, 8,  300000, 1};
    enum { N = 600 };
    static unsigned char *p[N];
    struct fg_arena a;
    fg_arena_init(&a, 0);
    for (int round = 0; round < 2; round++) { // the arena is usable again after a release
        uint64_t least = 0;
        for (int i = 0; i < N; i++) {
            size_t n = sizes[(size_t)i % (sizeof sizes / sizeof sizes[0])];
            p[i] = fg_arena_alloc(&a, n, 1);
            assert_non_null(p[i]);
            assert_int_equal((uintptr_t)p[i] % 64, 0);
            expect_zeroed(p[i], n);
            memset(p[i], i & 0xFF, n);
            least += n;
        }
        for (int i = 0; i < N; i++) {
            size_t n = sizes[(size_t)i % (sizeof sizes / sizeof sizes[0])];
            for (size_t k = 0; k<n; k += n> 100 ? 61 : 1)
                assert_int_equal(p[i][k], i & 0xFF);
        }
        assert_true(a.used_bytes >= least && a.used_bytes <= least + 64 * N);
        fg_arena_free(&a);
        assert_int_equal(a.used_bytes, 0);
    }
    fg_arena_free(&a); // twice is fine
}

static void test_a_count_of_zero_is_valid(void **state)
{
    (void)state;
    struct fg_arena a;
    fg_arena_init(&a, 0);
    void *p = fg_arena_alloc(&a, 0, 100), *q = fg_arena_alloc(&a, 100, 0);
    assert_non_null(p);
    assert_non_null(q);
    fg_arena_free(&a);
}

static void test_overflow_is_refused(void **state)
{
    (void)state;
    struct fg_arena a;
    fg_arena_init(&a, 0);
    assert_non_null(fg_arena_alloc(&a, 1, 1)); // a block that the failures must leave alone
    uint64_t used = a.used_bytes;
    assert_null(fg_arena_alloc(&a, UINT64_MAX, 2));
    assert_null(fg_arena_alloc(&a, UINT64_MAX, 1));
    assert_null(fg_arena_alloc(&a, UINT64_MAX - 63, 1));
    assert_null(fg_arena_alloc(&a, UINT64_MAX - 127, 1));
    assert_null(fg_arena_alloc(&a, 1ull << 32, 1ull << 32));
    assert_null(fg_arena_strdup(&a, "x", SIZE_MAX));
    assert_int_equal(a.used_bytes, used);
    assert_non_null(fg_arena_alloc(&a, 1, 1));
    fg_arena_free(&a);
    assert_null(fg_alloc_aligned(UINT64_MAX));
    assert_null(fg_alloc_aligned(UINT64_MAX - 64));
}

static void test_limit(void **state)
{
    (void)state;
    struct fg_arena a;
    fg_arena_init(&a, 256);
    assert_null(fg_arena_alloc(&a, 257, 1));
    assert_non_null(fg_arena_alloc(&a, 128, 1));
    assert_null(fg_arena_alloc(&a, 129, 1));
    assert_non_null(fg_arena_alloc(&a, 2, 64));
    assert_null(fg_arena_alloc(&a, 1, 1));
    assert_null(fg_arena_alloc(&a, 0, 1)); // even nothing takes an address
    fg_arena_free(&a);
    assert_non_null(fg_arena_alloc(&a, 256, 1)); // the limit stays, the use is over
    assert_null(fg_arena_alloc(&a, 1, 1));
    fg_arena_free(&a);
}

static void test_strdup_copies_any_bytes(void **state)
{
    (void)state;
    struct fg_arena a;
    fg_arena_init(&a, 0);
    const char text[] = {'a', '\0', 'b', 'c'};
    char *p = fg_arena_strdup(&a, text, 3);
    assert_memory_equal(p, "a\0b", 4); // with a NUL of its own
    assert_string_equal(fg_arena_strdup(&a, NULL, 0), "");
    fg_arena_free(&a);
}

static void test_alloc_aligned(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 300; n++) {
        void *p = fg_alloc_aligned(n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        expect_zeroed(p, n);
        free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations_are_aligned_zeroed_and_apart),
        cmocka_unit_test(test_a_count_of_zero_is_valid),
        cmocka_unit_test(test_overflow_is_refused),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_strdup_copies_any_bytes),
        cmocka_unit_test(test_alloc_aligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
