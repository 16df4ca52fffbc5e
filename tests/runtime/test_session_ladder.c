// The ladder of entries: growing and shrinking change no bit, whatever the backing, give memory
// back, and may fail anywhere without harm.
#include "base/machine.h"
#include "runtime/session_case.h"
#include "runtime/snapshot.h"
#include <errno.h>
#include <sys/mman.h>

// ---- allocations that fail: the linker puts these in front of the C library's (CMakeLists.txt)

static int countdown; // 0: no failures; n: the n-th allocation from now fails
static bool failed;   // one did

static bool fails(void)
{
    if (countdown == 0 || --countdown > 0) return false;
    failed = true;
    errno = ENOMEM;
    return true;
}

static void fail_at(int n)
{
    countdown = n;
    failed = false;
}

void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
int __real_mprotect(void *at, size_t n, int prot);
int __real_madvise(void *at, size_t n, int advice);
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_aligned_alloc(size_t align, size_t n);

void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    return fails() ? MAP_FAILED : __real_mmap(at, n, prot, flags, fd, offset);
}

int __wrap_mprotect(void *at, size_t n, int prot)
{
    return fails() ? -1 : __real_mprotect(at, n, prot);
}

int __wrap_madvise(void *at, size_t n, int advice)
{
    return fails() ? -1 : __real_madvise(at, n, advice);
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return fails() ? NULL : __real_aligned_alloc(align, n);
}

// ----

static const enum fg_kv_backing backings[] = {FG_KV_EXTEND, FG_KV_COPY};
static const char *const models[] = {"a-s0", "b-s0", "e-s0", "h-s0"};

static void use_ladder(struct fixture *f, int64_t a, int64_t b, int64_t c)
{
    f->entries[0] = a;
    f->entries[1] = b;
    f->entries[2] = c;
    f->n_entries = 3;
}

static void the_ladder(void **state)
{
    (void)state;
    int64_t e[FG_SESSION_ENTRIES_MAX];
    assert_int_equal(fg_session_ladder(100, e), 1);
    assert_int_equal(e[0], 100);
    assert_int_equal(fg_session_ladder(8192, e), 1);
    assert_int_equal(e[0], 8192);
    assert_int_equal(fg_session_ladder(131072, e), 6);
    static const int64_t up_to_128k[] = {8192, 16384, 32768, 65536, 98304, 131072};
    assert_memory_equal(e, up_to_128k, sizeof up_to_128k);
    assert_int_equal(fg_session_ladder(262144, e), 8);
    assert_int_equal(e[6], 196608);
    assert_int_equal(e[7], 262144);
}

// A session is in the smallest entry that its rows fit.
static void check_entry(const struct fixture *f, const struct fg_session *s)
{
    int i = 0;
    while (f->entries[i] < fg_session_pos(s))
        i++;
    assert_int_equal(fg_session_entry(s), f->entries[i]);
    assert_int_equal(fg_session_capacity(s), f->entries[f->n_entries - 1]);
}

static void growing_changes_no_bit(void **state)
{
    (void)state;
    static const int64_t steps[] = {1, 100, 256, 300, 900};
    for (size_t i = 0; i < 2 * FG_COUNT(models); i++) {
        struct fixture f;
        open_case(&f, models[i / 2], kinds[(i * 2 + 1) % FG_COUNT(kinds)], 900, 0, 1);
        f.backing = backings[i % 2];
        if (i % 3)
            use_ladder(&f, 256, 512, 1024);
        else
            use_ladder(&f, 100, 301, 903); // pages that two entries share
        struct fg_session *s = session(&f, 64);
        for (size_t k = 0; k < FG_COUNT(steps); k++) {
            while (fg_session_pos(s) < 900) {
                int64_t to = fg_session_pos(s) + steps[k];
                feed_to(&f, s, to < 900 ? to : 900, steps[k]);
                check_entry(&f, s);
            }
            check_same(s, f.whole);
            fg_session_reset(s);
            check_entry(&f, s);
        }
        cycle_to(&f, s, 900, i);
        check_same(s, f.whole);
        fg_session_free(s);
        close_case(&f);
    }
}

static void growing_between_verify_and_accept(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * FG_COUNT(models); i++) {
        struct fixture f;
        struct fg_error err = {0};
        open_case(&f, models[i / 2], kinds[(i * 2) % FG_COUNT(kinds)], 600, 0, 1);
        f.backing = backings[i % 2];
        use_ladder(&f, 256, 512, 1024);
        struct fg_session *s = session(&f, 64);
        feed_to(&f, s, 240, 64);
        try_rows(&f, s, 8, 5);
        accept_rows(s, 5); // 245, and five to apply
        try_rows(&f, s, 8, 8);
        must(fg_session_fit(s, 512, &err), &err); // with rows that are tried
        assert_int_equal(fg_session_entry(s), 512);
        accept_rows(s, 7);                        // 252
        must(fg_session_fit(s, 513, &err), &err); // with rows that are pending
        feed_to(&f, s, 300, 5);
        feed_to(&f, s, 600, 64);
        check_same(s, f.whole);
        fg_session_reset(s);
        feed_to(&f, s, 251, 64);
        try_rows(&f, s, 4, 4);
        accept_rows(s, 3);
        try_rows(&f, s, 8, 4); // does not fit the entry
        assert_int_equal(fg_session_entry(s), 512);
        accept_rows(s, 4);
        cycle_to(&f, s, 600, i);
        check_same(s, f.whole);
        fg_session_free(s);
        close_case(&f);
    }
}

static void going_back_is_as_never_having_grown(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * FG_COUNT(models); i++) {
        struct fixture f;
        struct fg_error err = {0};
        struct fg_snapshot *early, *late;
        open_case(&f, models[i / 2], kinds[(i * 5 + 3) % FG_COUNT(kinds)], 800, 0, 1);
        f.backing = backings[i % 2];
        use_ladder(&f, 256, 512, 1024);
        struct fg_session *s = session(&f, 64), *never = session(&f, 64);
        feed_to(&f, never, 200, 64);
        feed_to(&f, s, 200, 64);
        must(fg_snapshot_take(&early, s, FG_SNAPSHOT_DETACH, &err), &err);
        feed_to(&f, s, 700, 64);
        must(fg_snapshot_take(&late, s, FG_SNAPSHOT_DETACH, &err), &err);
        assert_int_equal(fg_session_entry(s), 1024);
        must(fg_snapshot_restore(s, early, 0, &err), &err);
        assert_int_equal(fg_session_entry(s), 256);
        check_same(s, never);
        must(fg_snapshot_restore(s, late, 0, &err), &err); // its rows had been dropped
        assert_int_equal(fg_session_entry(s), 1024);
        feed_to(&f, s, 800, 64);
        check_same(s, f.whole);
        must(fg_snapshot_restore(s, early, 300, &err), &err);
        assert_int_equal(fg_session_entry(s), 512);
        feed_to(&f, s, 256, 9);
        feed_to(&f, never, 256, 9);
        check_same(s, never);
        cycle_to(&f, s, 800, i);
        check_same(s, f.whole);
        fg_session_reset(s); // shrink, then grow again
        feed_to(&f, s, 800, 200);
        check_same(s, f.whole);
        fg_snapshot_free(early);
        fg_snapshot_free(late);
        fg_session_free(s);
        fg_session_free(never);
        close_case(&f);
    }
}

// ---- memory

static int64_t rss(void)
{
    long long all, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lld %lld", &all, &resident), 2);
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static void check_rss(int64_t base, int64_t expected)
{
    const int64_t slack = 6 << 20, found = rss() - base;
    if (found < expected - slack || found > expected + slack)
        fail_msg("memory rose by %" PRId64 " KiB, expected %" PRId64, found >> 10, expected >> 10);
}

static void memory_follows_the_entry(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(backings); i++) {
        struct fixture f;
        struct fg_error err = {0};
        open_case(&f, "h-s0", kinds[0], 300, 65536, 1);
        f.backing = backings[i];
        use_ladder(&f, 256, 32768, 65536);
        struct fg_session *s = session(&f, 64);
        const uint64_t each = fg_session_kv_bytes(s) / 256, small = fg_session_bytes(s);
        assert_int_equal(each, 4 * 2 * 2 * 32 * 4); // layers, heads, keys and values, width, FP32
        for (int round = 0; round < 2; round++) {
            const int64_t base = rss();
            feed_to(&f, s, 250, 250);
            must(fg_session_fit(s, 32768, &err), &err);
            assert_int_equal(fg_session_kv_bytes(s), each * 32768);
            assert_in_range(fg_session_bytes(s), small + each * 32512,
                            small + each * 32512 + (1u << 20));
            check_rss(base, (int64_t)each * 32512);
            must(fg_session_fit(s, 32769, &err), &err); // the old rows go at once
            check_rss(base, (int64_t)each * 65280);
            feed_to(&f, s, 300, 50);
            check_same(s, f.whole);
            fg_session_reset(s);
            assert_int_equal(fg_session_bytes(s), small);
            check_rss(base, 0);
        }
        fg_session_free(s);
        close_case(&f);
    }
}

struct lines {
    char text[8][FG_LOG_LINE_BYTES];
    int n;
};

static void keep_line(void *ctx, enum fg_log_level level, const char *line)
{
    struct lines *l = ctx;
    assert_int_equal(level, FG_LOG_INFO);
    assert_true(l->n < 8);
    snprintf(l->text[l->n++], FG_LOG_LINE_BYTES, "%s", line);
}

static void moves_are_logged(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(backings); i++) {
        struct fixture f;
        struct lines lines = {.n = 0};
        open_case(&f, "h-s0", kinds[0], 260, 2048, 1);
        f.backing = backings[i];
        f.log = (struct fg_log){.level = FG_LOG_INFO, .sink = keep_line, .ctx = &lines};
        use_ladder(&f, 256, 1024, 2048);
        struct fg_session *s = session(&f, 64);
        assert_int_equal(lines.n, 0);
        feed_to(&f, s, 250, 64);
        feed_to(&f, s, 260, 64);
        fg_session_reset(s);
        assert_int_equal(lines.n, 2);
        static const char up[] = "[ctx] 256 -> 1K at pos 250, rows 250, ",
                          down[] = "[ctx] 1K -> 256 at pos 260, rows 256, ";
        assert_memory_equal(lines.text[0], up, sizeof up - 1);
        assert_memory_equal(lines.text[1], down, sizeof down - 1);
        // Old and new at once: 256 and 1024 positions of 2 KiB.
        assert_int_equal(strstr(lines.text[0], " ms, peak 2 MiB") != NULL, f.backing == FG_KV_COPY);
        fg_session_free(s);
        close_case(&f);
    }
}

static void growth_leaves_the_reserve(void **state)
{
    (void)state;
    struct fg_machine machine;
    struct fixture f;
    struct fg_error err = {0};
    char line[1024];
    fg_machine_probe(&machine);
    const uint64_t free_bytes = fg_machine_free_bytes(&machine);
    open_case(&f, "h-s0", kinds[0], 300, 4194304, 1);
    f.reserve_bytes = free_bytes > 2ull << 30 ? free_bytes - (1ull << 30) : free_bytes / 2;
    use_ladder(&f, 256, 512, 4194304); // the last is 8 GiB
    struct fg_session *s = session(&f, 64);
    feed_to(&f, s, 255, 64);
    try_rows(&f, s, 1, 1);
    assert_int_equal(fg_session_fit(s, 513, &err), FG_ERESOURCE);
    fg_error_line(&err, line, sizeof line);
    if (!strstr(line, "context 4194304 needs 8192 MiB KV cache, ") ||
        !strstr(line, " MiB available"))
        fail_msg("%s", line);
    assert_int_equal(fg_session_run(s, f.ids, 258, NULL, 0, NULL, NULL, &err), FG_ERESOURCE);
    assert_int_equal(fg_session_entry(s), 256);
    accept_rows(s, 1);
    feed_to(&f, s, 300, 64);
    check_same(s, f.whole);
    fg_session_free(s);
    struct fg_session *none;
    const int64_t large[] = {4194304};
    const struct fg_session_options o = {.kernels = f.kernels,
                                         .pool = f.pool,
                                         .kv = FG_KV_F32,
                                         .entries = large,
                                         .n_entries = 1,
                                         .rows_max = 16,
                                         .reserve_bytes = f.reserve_bytes};
    assert_int_equal(fg_session_new(&none, f.m, &o, &err), FG_ERESOURCE);
    assert_null(none);
    close_case(&f);
}

// ---- failures

// Growing with the n-th allocation failing: either it worked all the same, or nothing is changed.
static void grow_with_failure(const struct fixture *f, int n)
{
    struct fg_error err = {0};
    struct fg_snapshot *snap;
    struct fg_session *s = session(f, 64);
    feed_to(f, s, 100, 64);
    must(fg_snapshot_take(&snap, s, FG_SNAPSHOT_DETACH, &err), &err);
    feed_to(f, s, 240, 64);
    try_rows(f, s, 8, 8);
    accept_rows(s, 5);
    try_rows(f, s, 8, 8);
    const uint64_t bytes = fg_session_bytes(s);
    fail_at(n);
    int rc = fg_session_fit(s, 600, &err);
    countdown = 0;
    if (rc) {
        assert_int_equal(rc, FG_ERESOURCE);
        assert_true(failed);
        assert_int_equal(fg_session_entry(s), 256);
        assert_int_equal(fg_session_bytes(s), bytes);
    } else {
        assert_int_equal(fg_session_entry(s), 4096);
    }
    assert_int_equal(fg_session_pos(s), 245);
    assert_int_equal(fg_session_tried(s), 8);
    accept_rows(s, 8); // 253
    fail_at(n);
    rc = fg_session_run(s, f->ids + 253, 20, NULL, 0, NULL, NULL, &err);
    countdown = 0;
    assert_true(rc == 0 || rc == FG_ERESOURCE);
    assert_int_equal(fg_session_pos(s), rc ? 253 : 273);
    feed_to(f, s, 600, 64);
    check_same(s, f->whole);
    must(fg_snapshot_restore(s, snap, 0, &err), &err);
    feed_to(f, s, 600, 64);
    check_same(s, f->whole);
    fg_snapshot_free(snap);
    fg_session_free(s);
}

static void growing_may_fail_anywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * FG_COUNT(models); i++) {
        struct fixture f;
        int n = 0;
        open_case(&f, models[i / 2], kinds[(i * 2 + 5) % FG_COUNT(kinds)], 600, 8192, 1);
        f.backing = backings[i % 2];
        use_ladder(&f, 256, 4096, 8192); // of more than one segment of attention
        do {
            grow_with_failure(&f, ++n);
        } while (failed);
        assert_true(n > 1);
        close_case(&f);
    }
}

// In a pass over two sessions the second can't grow: the first has not grown either.
static void growing_together_may_fail_anywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(backings); i++) {
        struct fixture f;
        struct fg_error err = {0};
        open_case(&f, "a-s0", kinds[7], 300, 0, 1);
        f.backing = backings[i];
        use_ladder(&f, 256, 512, 1024);
        int rc = FG_ERESOURCE, failures = 0;
        for (int n = 1; rc; n++) {
            struct fg_session *s[2] = {session(&f, 64), session(&f, 64)};
            const int64_t rows[2] = {4, 5};
            int32_t ids[9];
            feed_to(&f, s[0], 254, 64);
            feed_to(&f, s[1], 253, 64);
            memcpy(ids, f.ids + 254, 4 * sizeof *ids);
            memcpy(ids + 4, f.ids + 253, 5 * sizeof *ids);
            fail_at(n);
            rc = fg_session_verify_batch(s, rows, 2, &(struct fg_feed){.ids = ids, .n = 9}, &err);
            countdown = 0;
            if (rc == 0 && failed)
                rc = FG_ERESOURCE; // of no consequence: go on
            else if (rc) {
                failures++;
                assert_int_equal(fg_session_entry(s[0]), 256);
                assert_int_equal(fg_session_entry(s[1]), 256);
            } else {
                accept_rows(s[0], 4);
                accept_rows(s[1], 5);
            }
            for (int j = 0; j < 2; j++) {
                feed_to(&f, s[j], 300, 64);
                check_same(s[j], f.whole);
                fg_session_free(s[j]);
            }
        }
        assert_true(failures > 1);
        close_case(&f);
    }
}

static void making_one_may_fail_anywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * FG_COUNT(models); i++) {
        struct fixture f;
        struct fg_error err = {0};
        open_case(&f, models[i / 2], kinds[(i * 2 + 1) % FG_COUNT(kinds)], 20, 0, 1);
        const struct fg_session_options o = {.kernels = f.kernels,
                                             .pool = f.pool,
                                             .fast = f.kind.fast,
                                             .kv = f.kind.kv,
                                             .rotated = f.kind.rotated,
                                             .backing = backings[i % 2],
                                             .capacity = 512,
                                             .rows_max = 16};
        int failures = 0;
        for (int n = 1;; n++) {
            struct fg_session *s;
            fail_at(n);
            int rc = fg_session_new(&s, f.m, &o, &err);
            countdown = 0;
            if (rc) {
                assert_int_equal(rc, FG_ERESOURCE);
                assert_null(s);
                failures++;
                continue;
            }
            must(fg_session_run(s, f.ids, 20, NULL, 0, NULL, NULL, &err), &err);
            check_same(s, f.whole);
            fg_session_free(s);
            if (!failed) break;
        }
        assert_true(failures > 1);
        close_case(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ladder),
        cmocka_unit_test(growing_changes_no_bit),
        cmocka_unit_test(growing_between_verify_and_accept),
        cmocka_unit_test(going_back_is_as_never_having_grown),
        cmocka_unit_test(memory_follows_the_entry),
        cmocka_unit_test(moves_are_logged),
        cmocka_unit_test(growth_leaves_the_reserve),
        cmocka_unit_test(growing_may_fail_anywhere),
        cmocka_unit_test(growing_together_may_fail_anywhere),
        cmocka_unit_test(making_one_may_fail_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
