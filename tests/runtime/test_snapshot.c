// Snapshots: whatever the session did since, one that says it is valid brings back the same bits,
// and one that can't says so. Files: test_snapshot_file.c.
#include "runtime/session_case.h"
#include "runtime/snapshot.h"
#include <errno.h>
#include <sys/mman.h>

#define N 640 // tokens of a conversation, most often
#define N_MAX 1000

// ---- allocations that fail (see CMakeLists.txt)

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
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t n);

void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    return fails() ? MAP_FAILED : __real_mmap(at, n, prot, flags, fd, offset);
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

static const char *const models[] = {"a-s0", "b-s0", "e-s0", "h-s0"};
static const struct kind kv8 = {true, FG_KV_KV8, true};

static struct fg_snapshot *take(struct fg_session *s, enum fg_snapshot_rows rows)
{
    struct fg_snapshot *snap;
    struct fg_error err = {0};
    const int64_t pos = fg_session_pos(s);
    must(fg_snapshot_take(&snap, s, rows, &err), &err);
    assert_true(fg_snapshot_valid(snap));
    assert_int_equal(fg_snapshot_pos(snap), pos);
    assert_int_equal(fg_session_pos(s), pos);
    assert_memory_equal(fg_snapshot_ids(snap), fg_session_ids(s), (size_t)pos * sizeof(int32_t));
    return snap;
}

static void restore(struct fg_session *s, struct fg_snapshot *snap)
{
    struct fg_error err = {0};
    must(fg_snapshot_restore(s, snap, 0, &err), &err);
    assert_int_equal(fg_session_pos(s), fg_snapshot_pos(snap));
    assert_int_equal(fg_session_tried(s), 0);
    assert_true(fg_snapshot_valid(snap));
}

// Restoring fails, and the session goes on as if nobody had tried.
static void refused(struct fg_session *s, struct fg_snapshot *snap, int64_t rows_needed, int code)
{
    struct fg_error err = {0};
    const int64_t pos = fg_session_pos(s), tried = fg_session_tried(s);
    const int64_t entry = fg_session_entry(s);
    assert_int_equal(fg_snapshot_restore(s, snap, rows_needed, &err), code);
    assert_true(err.field[0] || err.found[0]);
    assert_int_equal(fg_session_pos(s), pos);
    assert_int_equal(fg_session_tried(s), tried);
    assert_int_equal(fg_session_entry(s), entry);
}

// Other text over the rows from pos to `to`.
static void feed_other(const struct fixture *f, struct fg_session *s, int64_t to)
{
    struct fg_error err = {0};
    int32_t ids[N_MAX];
    const int64_t at = fg_session_pos(s), n = to - at;
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)((f->ids[at + i] + 1) % f->m->config.vocab);
    must(fg_session_run(s, ids, n, NULL, 0, NULL, NULL, &err), &err);
}

// Nothing of what the session had is left.
static void leave(const struct fixture *f, struct fg_session *s)
{
    fg_session_reset(s);
    feed_other(f, s, 1);
    fg_session_reset(s);
}

// The session has what the text gives, and goes on like it.
static void goes_on(const struct fixture *f, struct fg_session *s)
{
    fg_snapshots_before_write(s, fg_session_pos(s)); // as the first of the calls would
    poison(s);
    feed_to(f, s, f->n, 97);
    check_same(s, f->whole);
}

static uint64_t page_bytes(const struct fg_session *s)
{
    return s->kv ? fg_kv_page_bytes(s->kv) : 0;
}

static uint64_t own_bytes(const struct fixture *f, const struct fg_snapshot *snap)
{
    return fg_config_state_bytes(&f->m->config) + fg_config_conv_bytes(&f->m->config) +
           (uint64_t)fg_snapshot_pos(snap) * sizeof(int32_t);
}

// ---- rows that are written over

// A conversation of n tokens with snapshots after the first at_a and at_b of them.
static void written_over(const char *model, struct kind kind, enum fg_snapshot_rows rows,
                         int64_t at_a, int64_t at_b, int64_t n)
{
    const uint64_t pages = (uint64_t)((at_b + 255) / 256 - at_a / 256); // with rows of b from a on
    struct fixture f;
    struct fg_error err = {0};
    open_case(&f, model, kind, n, 0, 1);
    struct fg_session *s = session(&f, 64);
    feed_to(&f, s, at_a, 64);
    struct fg_snapshot *a = take(s, rows);
    feed_to(&f, s, at_b, 64);
    struct fg_snapshot *b = take(s, rows);
    assert_int_equal(fg_snapshot_bytes(a), own_bytes(&f, a)); // rows are where they were

    restore(s, a);
    assert_true(fg_snapshot_valid(b)); // rows that nobody has touched
    restore(s, b);
    goes_on(&f, s);
    restore(s, a);
    goes_on(&f, s); // the same text over the same rows: gone too, for whoever does not compare
    assert_int_equal(fg_snapshot_valid(b), rows == FG_SNAPSHOT_DETACH);
    restore(s, a);
    feed_other(&f, s, at_b);
    assert_true(fg_snapshot_valid(a));
    if (rows == FG_SNAPSHOT_LIVE) {
        assert_false(fg_snapshot_valid(b));
        refused(s, b, 0, FG_EFAILED);
        assert_int_equal(fg_snapshot_detach(b, 0, &err), FG_EFAILED);
        assert_int_equal(fg_snapshot_write(b, "/tmp/none", &err), FG_EFAILED);
        assert_int_equal(fg_snapshot_bytes(b), (uint64_t)at_b * sizeof(int32_t));
    } else {
        assert_int_equal(fg_snapshot_bytes(b), own_bytes(&f, b) + pages * page_bytes(s));
        restore(s, b);
        goes_on(&f, s);
        restore(s, a);
        feed_other(&f, s, (at_a + at_b) / 2);
        restore(s, b); // again
        goes_on(&f, s);
    }
    restore(s, a);
    goes_on(&f, s);
    fg_snapshot_free(b);
    restore(s, a);
    fg_session_reset(s);
    restore(s, a); // forgotten, but still there
    leave(&f, s);
    assert_int_equal(fg_snapshot_valid(a), rows == FG_SNAPSHOT_DETACH);
    if (rows == FG_SNAPSHOT_DETACH) {
        feed_other(&f, s, 300);
        restore(s, a);
        goes_on(&f, s);
    }
    fg_snapshot_free(a);
    fg_session_free(s);
    close_case(&f);
}

static void rows_that_are_written_over_are_noticed(void **state)
{
    (void)state;
    written_over("a-s0", kv8, FG_SNAPSHOT_LIVE, 500, 900, N_MAX);
    written_over("a-s0", kv8, FG_SNAPSHOT_DETACH, 500, 900, N_MAX);
    for (size_t i = 1; i < FG_COUNT(models); i++) {
        written_over(models[i], kv8, FG_SNAPSHOT_LIVE, 260, 520, 540);
        written_over(models[i], kv8, FG_SNAPSHOT_DETACH, 260, 520, 540);
    }
    for (size_t i = 0; i < FG_COUNT(kinds); i++)
        written_over("a-s0", kinds[i], FG_SNAPSHOT_DETACH, 200, 300, 330);
}

// Rows that were only tried lie in the memory of keys and values as well.
static void tried_rows_count(void **state)
{
    (void)state;
    struct fixture f;
    struct fg_error err = {0};
    open_case(&f, "a-s0", kv8, N, 0, 1);
    struct fg_session *s = session(&f, 64);
    feed_to(&f, s, 300, 64);
    struct fg_snapshot *a = take(s, FG_SNAPSHOT_LIVE);
    try_rows(&f, s, 8, 0); // beyond its rows
    assert_true(fg_snapshot_valid(a));
    feed_to(&f, s, 560, 64);
    struct fg_snapshot *b = take(s, FG_SNAPSHOT_LIVE);
    restore(s, a);
    try_rows(&f, s, 1, 1);
    assert_false(fg_snapshot_valid(b));
    restore(s, a); // drops what is tried
    assert_int_equal(fg_session_accept(s, 1, &err), FG_EINPUT);
    goes_on(&f, s);

    // Taken in the middle of trying: what is pending is applied, what is tried is dropped.
    for (uint64_t seed = 1; seed < 5; seed++) {
        restore(s, a);
        cycle_to(&f, s, 380, seed);
        try_rows(&f, s, 8, 4);
        accept_rows(s, (int64_t)seed % 5);
        if (seed % 2) try_rows(&f, s, 3, 1);
        struct fg_snapshot *c = take(s, FG_SNAPSHOT_DETACH);
        assert_int_equal(fg_session_tried(s), 0);
        cycle_to(&f, s, 420, seed);
        restore(s, a);
        feed_other(&f, s, 410);
        restore(s, c);
        cycle_to(&f, s, 440, seed + 1);
        fg_snapshot_free(c);
        goes_on(&f, s);
    }
    fg_snapshot_free(b);
    fg_session_free(s); // before the snapshot
    assert_false(fg_snapshot_valid(a));
    fg_snapshot_free(a);
    fg_snapshot_free(NULL);
    close_case(&f);
}

// Putting rows back writes over others.
static void restoring_is_writing(void **state)
{
    (void)state;
    struct fixture f;
    struct fg_error err = {0};
    open_case(&f, "a-s0", kv8, N, 0, 1);
    struct fg_session *s = session(&f, 64), *t = session(&f, 64);
    feed_to(&f, s, 500, 64);
    struct fg_snapshot *a = take(s, FG_SNAPSHOT_DETACH);
    leave(&f, s);
    feed_other(&f, s, 600);
    struct fg_snapshot *live = take(s, FG_SNAPSHOT_LIVE), *copied = take(s, FG_SNAPSHOT_DETACH);
    try_rows(&f, s, 8, 0);
    accept_rows(s, 8); // they are pending, and go
    restore(s, a);
    assert_false(fg_snapshot_valid(live));
    assert_int_equal(fg_snapshot_bytes(copied), own_bytes(&f, copied) + 3 * page_bytes(s));
    goes_on(&f, s);
    restore(s, copied);
    feed_other(&f, t, 600);
    check_same(s, t);

    // In a session that never had them, they are there from then on.
    must(fg_snapshot_detach(a, 0, &err), &err);
    fg_session_free(t);
    t = session(&f, 64);
    restore(t, a);
    fg_snapshot_free(live);
    live = take(t, FG_SNAPSHOT_LIVE);
    fg_session_reset(t);
    feed_other(&f, t, 5);
    assert_false(fg_snapshot_valid(live));
    fg_snapshot_free(live);
    fg_snapshot_free(copied);
    fg_snapshot_free(a);
    fg_session_free(s);
    fg_session_free(t);
    close_case(&f);
}

// ---- pages

static void pages_are_shared(void **state)
{
    (void)state;
    struct fixture f;
    open_case(&f, "a-s0", kv8, N, 0, 1);
    struct fg_session *s = session(&f, 64);
    const uint64_t page = page_bytes(s);
    feed_to(&f, s, 500, 64);
    struct fg_snapshot *a = take(s, FG_SNAPSHOT_DETACH);
    feed_to(&f, s, 600, 64);
    struct fg_snapshot *b = take(s, FG_SNAPSHOT_DETACH), *c = take(s, FG_SNAPSHOT_DETACH);
    const uint64_t own = own_bytes(&f, a) + own_bytes(&f, b) + own_bytes(&f, c);
    leave(&f, s);
    const uint64_t left = 6; // of divisions
    uint64_t all = fg_snapshot_bytes(a) + fg_snapshot_bytes(b) + fg_snapshot_bytes(c);
    assert_in_range(all, own + 3 * page - left, own + 3 * page);
    assert_in_range(fg_snapshot_bytes(a), own_bytes(&f, a) + 2 * page / 3 - 2,
                    own_bytes(&f, a) + 2 * page / 3);
    fg_snapshot_free(b); // its share goes to the others
    all = fg_snapshot_bytes(a) + fg_snapshot_bytes(c);
    assert_int_equal(all, own - own_bytes(&f, c) + 3 * page);

    // A conversation that begins like another and goes its own way shares the beginning.
    restore(s, a);
    feed_other(&f, s, 630);
    struct fg_snapshot *d = take(s, FG_SNAPSHOT_DETACH);
    leave(&f, s);
    all = fg_snapshot_bytes(a) + fg_snapshot_bytes(c) + fg_snapshot_bytes(d);
    const uint64_t rest = own - own_bytes(&f, c) + own_bytes(&f, d);
    assert_in_range(all, rest + (3 + 2) * page - left, rest + (3 + 2) * page);

    // What it shares is what it had.
    restore(s, d);
    struct fg_session *t = session(&f, 64);
    feed_to(&f, t, 500, 64);
    feed_other(&f, t, 630);
    check_same(s, t);
    fg_session_free(t);
    restore(s, c);
    goes_on(&f, s);
    restore(s, a);
    goes_on(&f, s);
    fg_snapshot_free(a);
    fg_snapshot_free(c);
    fg_snapshot_free(d);
    fg_session_free(s);
    close_case(&f);
}

static void pages_are_copied_when_asked(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(models); i++) {
        struct fixture f;
        struct fg_error err = {0};
        open_case(&f, models[i], kv8, N, 0, 1);
        struct fg_session *s = session(&f, 64);
        feed_to(&f, s, 560, 64);
        struct fg_snapshot *a = take(s, FG_SNAPSHOT_LIVE);
        must(fg_snapshot_detach(a, 560, &err), &err); // none
        assert_int_equal(fg_snapshot_bytes(a), own_bytes(&f, a));
        must(fg_snapshot_detach(a, 530, &err), &err);
        assert_int_equal(fg_snapshot_bytes(a), own_bytes(&f, a) + page_bytes(s));
        must(fg_snapshot_detach(a, 300, &err), &err);
        assert_int_equal(fg_snapshot_bytes(a), own_bytes(&f, a) + 2 * page_bytes(s));
        leave(&f, s);
        assert_int_equal(fg_snapshot_valid(a), s->kv == NULL); // the first page was not
        fg_snapshot_free(a);

        feed_to(&f, s, 300, 64);
        struct fg_snapshot *b = take(s, FG_SNAPSHOT_LIVE);
        feed_to(&f, s, 560, 64);
        a = take(s, FG_SNAPSHOT_LIVE);
        must(fg_snapshot_detach(a, 300, &err), &err);
        restore(s, b);
        feed_other(&f, s, 630);
        restore(s, a);
        goes_on(&f, s);
        fg_snapshot_free(a);
        fg_snapshot_free(b);
        fg_session_free(s);
        close_case(&f);
    }
}

static void sessions_that_are_gone_and_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(models); i++) {
        struct fixture f;
        struct fg_error err = {0};
        open_case(&f, models[i], kv8, N, 0, 1);
        struct fg_session *s = session(&f, 64);
        f.backing = FG_KV_COPY;
        f.verify_max = 3;
        f.n_entries = 3;
        memcpy(f.entries, (int64_t[]){100, 500, 700}, 3 * sizeof *f.entries);
        struct fg_session *t = session(&f, 33);
        feed_to(&f, s, 400, 64);
        struct fg_snapshot *a = take(s, FG_SNAPSHOT_DETACH), *b = take(s, FG_SNAPSHOT_DETACH);
        feed_other(&f, t, 50);
        if (s->kv) refused(t, a, 0, FG_EFAILED); // its rows are in s
        must(fg_snapshot_detach(a, 0, &err), &err);
        must(fg_snapshot_restore(t, a, 600, &err), &err);
        assert_int_equal(fg_session_entry(t), 700);
        goes_on(&f, t);
        restore(t, a);
        assert_int_equal(fg_session_entry(t), 500);
        goes_on(&f, t);
        assert_int_equal(fg_session_pos(s), 400);
        goes_on(&f, s);

        // Other numerics, other formats, other models.
        struct fixture g;
        for (size_t k = 0; k < FG_COUNT(kinds); k++) {
            if (kinds[k].kv == kv8.kv && kinds[k].fast && kinds[k].rotated == f.kind.rotated)
                continue;
            f.kind = kinds[k];
            struct fg_session *other = session(&f, 64);
            refused(other, a, 0, FG_EFAILED);
            fg_session_free(other);
        }
        open_case(&g, "a-s1", kv8, 20, 0, 1);
        refused(g.whole, a, 0, FG_EFAILED);
        close_case(&g);

        fg_session_free(s);
        assert_true(fg_snapshot_valid(a));
        assert_int_equal(fg_snapshot_valid(b), t->kv == NULL);
        restore(t, a);
        goes_on(&f, t);
        fg_session_free(t);
        fg_snapshot_free(a);
        fg_snapshot_free(b);
        close_case(&f);
    }
}

// ---- entries

static void the_smallest_entry_that_holds_it(void **state)
{
    (void)state;
    for (int backing = FG_KV_EXTEND; backing <= FG_KV_COPY; backing++) {
        struct fixture f;
        struct fg_error err = {0};
        open_case(&f, "b-s0", kv8, N, 0, 1);
        f.backing = (enum fg_kv_backing)backing;
        f.n_entries = 3;
        memcpy(f.entries, (int64_t[]){256, 512, 640}, 3 * sizeof *f.entries);
        struct fg_session *s = session(&f, 64);
        feed_to(&f, s, 249, 64);
        struct fg_snapshot *a = take(s, FG_SNAPSHOT_DETACH);
        feed_to(&f, s, 560, 64);
        struct fg_snapshot *b = take(s, FG_SNAPSHOT_DETACH);
        assert_int_equal(fg_session_entry(s), N);
        refused(s, a, N + 1, FG_EINPUT);
        restore(s, a); // 249 and 8 rows to try
        assert_int_equal(fg_session_entry(s), 512);
        feed_to(&f, s, 300, 64);
        must(fg_snapshot_restore(s, a, 600, &err), &err);
        assert_int_equal(fg_session_entry(s), N);
        goes_on(&f, s);
        assert_int_equal(fg_session_pos(s), N); // full
        struct fg_snapshot *full = take(s, FG_SNAPSHOT_DETACH);
        fg_session_reset(s);
        assert_int_equal(fg_session_entry(s), 256);

        // Growing that fails leaves the session as it was.
        feed_to(&f, s, 100, 64);
        try_rows(&f, s, 8, 4);
        s->options.reserve_bytes = UINT64_MAX / 2;
        refused(s, b, 0, FG_ERESOURCE);
        s->options.reserve_bytes = 0;
        accept_rows(s, 4);
        feed_to(&f, s, 130, 1);
        restore(s, b);
        assert_int_equal(fg_session_entry(s), N);
        goes_on(&f, s);
        fg_session_reset(s);
        restore(s, full); // no room for rows to try
        check_same(s, f.whole);
        restore(s, a);
        goes_on(&f, s);
        fg_snapshot_free(a);
        fg_snapshot_free(b);
        fg_snapshot_free(full);
        fg_session_free(s);
        close_case(&f);
    }
}

// ---- out of memory

static void without_memory_snapshots_are_lost_not_sessions(void **state)
{
    (void)state;
    struct fixture f;
    int lost = 0, kept = 0;
    open_case(&f, "a-s0", kv8, N, 0, 1);
    struct fg_session *s = session(&f, 64);
    for (int n = 1;; n++) {
        fg_session_reset(s);
        feed_to(&f, s, 260, 64);
        struct fg_snapshot *a = take(s, FG_SNAPSHOT_DETACH);
        feed_to(&f, s, 300, 64);
        struct fg_snapshot *b = take(s, FG_SNAPSHOT_DETACH);
        feed_to(&f, s, 560, 64);
        struct fg_snapshot *c = take(s, FG_SNAPSHOT_DETACH);
        struct fg_snapshot *const all[] = {c, a, b};
        restore(s, a);
        fail_at(n);
        fg_snapshots_before_write(s, 100); // as before rows from 100 on go
        countdown = 0;
        const bool one_failed = failed;
        for (int i = 0; i < 3; i++)
            fg_snapshot_valid(all[i]) ? kept++ : lost++;
        if (!one_failed)
            for (int i = 0; i < 3; i++)
                assert_true(fg_snapshot_valid(all[i]));
        feed_to(&f, s, 270, 64); // the session does not notice
        fg_session_reset(s);
        feed_other(&f, s, 40);
        for (int i = 0; i < 3; i++) {
            if (fg_snapshot_valid(all[i])) {
                restore(s, all[i]);
                feed_to(&f, s, fg_session_pos(s) + 10, 64);
            } else {
                refused(s, all[i], 0, FG_EFAILED);
            }
        }
        for (int i = 0; i < 3; i++)
            fg_snapshot_free(all[i]);
        if (!one_failed) break;
    }
    assert_true(lost > 5 && kept > 5);
    fg_session_free(s);
    close_case(&f);
}

static void calls_without_memory_change_nothing(void **state)
{
    (void)state;
    struct fixture f;
    struct fg_error err = {0};
    open_case(&f, "a-s0", kv8, N, 0, 1);
    struct fg_session *s = session(&f, 64), *t = session(&f, 64);
    feed_to(&f, s, 600, 64);
    struct fg_snapshot *a = NULL, *b = take(s, FG_SNAPSHOT_LIVE);
    int n = 0, rc;
    do { // take
        fail_at(++n);
        rc = fg_snapshot_take(&a, s, FG_SNAPSHOT_LIVE, &err);
        countdown = 0;
        assert_int_equal(rc, failed ? FG_ERESOURCE : 0);
        assert_int_equal(rc == 0, a != NULL);
        assert_int_equal(fg_session_pos(s), 600);
    } while (rc);
    assert_true(n > 4);
    const uint64_t bytes = fg_snapshot_bytes(a);
    n = 0;
    do { // detach
        fail_at(++n);
        rc = fg_snapshot_detach(a, 0, &err);
        countdown = 0;
        assert_int_equal(rc, failed ? FG_ERESOURCE : 0);
        assert_true(fg_snapshot_valid(a));
        if (rc) assert_int_equal(fg_snapshot_bytes(a), bytes);
    } while (rc);
    assert_true(n > 6);
    n = 0;
    do { // restore, in a session that has to grow
        fg_session_reset(t);
        feed_to(&f, t, 30, 30);
        fail_at(++n);
        rc = fg_snapshot_restore(t, a, 0, &err);
        countdown = 0;
        if (rc) {
            assert_int_equal(rc, FG_ERESOURCE);
            assert_int_equal(fg_session_pos(t), 30);
            feed_to(&f, t, 60, 30);
        }
    } while (rc);
    goes_on(&f, t);
    leave(&f, s);
    assert_false(fg_snapshot_valid(b));
    restore(s, a);
    goes_on(&f, s);
    fg_snapshot_free(a);
    fg_snapshot_free(b);
    fg_session_free(s);
    fg_session_free(t);
    close_case(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_are_written_over_are_noticed),
        cmocka_unit_test(tried_rows_count),
        cmocka_unit_test(restoring_is_writing),
        cmocka_unit_test(pages_are_shared),
        cmocka_unit_test(pages_are_copied_when_asked),
        cmocka_unit_test(sessions_that_are_gone_and_others),
        cmocka_unit_test(the_smallest_entry_that_holds_it),
        cmocka_unit_test(without_memory_snapshots_are_lost_not_sessions),
        cmocka_unit_test(calls_without_memory_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
