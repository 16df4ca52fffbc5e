// Sessions on the committed checkpoints: continuity over every way of cutting a conversation, save
// and load, rewind, errors.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs those first
#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "runtime/session.h"
#include "support/scratch.h"
#include <stdlib.h>
#include <string.h>

#define N 200 // tokens of a conversation

struct fixture {
    struct fg_model *m;
    struct fg_pool *pool;
    const struct fg_kernels *kernels;
    int32_t ids[N];
    float *whole; // [N][vocab]: logits of one call per 64 rows
};

static struct fg_session *session(const struct fixture *f, int64_t capacity, int64_t rows)
{
    struct fg_session *s;
    struct fg_error err;
    assert_int_equal(fg_session_new(&s, f->m, f->kernels, f->pool, false, capacity, rows, &err), 0);
    return s;
}

static void open_fixture(struct fixture *f, const char *name)
{
    struct fg_error err = {0};
    char path[512], line[1024];
    snprintf(path, sizeof path, "%s/models/%s", FORGE_GOLDEN_DIR, name);
    if (fg_model_open(&f->m, path, true, NULL, &err))
        fail_msg("%s", fg_error_line(&err, line, sizeof line));
    assert_int_equal(fg_pool_new(&f->pool, 2, &err), 0);
    assert_int_equal(fg_kernels_get(&f->kernels, NULL, &err), 0);
    for (int i = 0; i < N; i++)
        f->ids[i] = (int32_t)((i * 7919 + i * i) % f->m->config.vocab);
    f->whole = calloc(N * (size_t)f->m->config.vocab, sizeof(float));
    struct fg_session *s = session(f, N, 64);
    assert_int_equal(fg_session_run(s, f->ids, N, f->whole, N, NULL, NULL, &err), 0);
    fg_session_free(s);
}

static void close_fixture(struct fixture *f)
{
    free(f->whole);
    fg_model_close(f->m);
    fg_pool_free(f->pool);
}

static const char *const models[] = {"a-s0", "b-s0", "e-s0", "h-s0"};

// Runs ids[from, to) in calls of `step` tokens and compares every row's logits with the whole run,
// bit for bit.
static void run_and_compare(const struct fixture *f, struct fg_session *s, int64_t from, int64_t to,
                            int64_t step)
{
    struct fg_error err;
    size_t V = (size_t)f->m->config.vocab;
    float *out = malloc((size_t)step * V * sizeof *out);
    for (int64_t at = from; at < to; at += step) {
        int64_t n = to - at < step ? to - at : step;
        assert_int_equal(fg_session_run(s, f->ids + at, n, out, n, NULL, NULL, &err), 0);
        assert_memory_equal(out, f->whole + (size_t)at * V, (size_t)n * V * sizeof *out);
    }
    free(out);
}

static void any_split_gives_the_same_bits(void **state)
{
    (void)state;
    static const int64_t steps[] = {1, 2, 3, 5, 17, 64, 130, 200};
    static const int64_t rows[] = {1, 4, 8, 33, 64, 200};
    for (size_t i = 0; i < 4; i++) {
        struct fixture f;
        open_fixture(&f, models[i]);
        for (size_t a = 0; a < sizeof steps / sizeof steps[0]; a++) {
            struct fg_session *s = session(&f, N, rows[a % 6]);
            run_and_compare(&f, s, 0, N, steps[a]);
            // Again in the same memory, after a reset.
            assert_true(fg_session_rewind(s, 0));
            run_and_compare(&f, s, 0, N, steps[7 - a]);
            fg_session_free(s);
        }
        close_fixture(&f);
    }
}

static void a_saved_session_goes_on_bit_for_bit(void **state)
{
    (void)state;
    struct scratch tmp;
    scratch_open(&tmp);
    char path[400];
    snprintf(path, sizeof path, "%s/s.bin", tmp.dir);
    static const int64_t cuts[] = {0, 1, 2, 3, 64, 131};
    for (size_t i = 0; i < 4; i++) {
        struct fixture f;
        struct fg_error err;
        open_fixture(&f, models[i]);
        for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
            struct fg_session *s = session(&f, N, 64);
            run_and_compare(&f, s, 0, cuts[c], 50);
            assert_int_equal(fg_session_save(s, path, &err), 0);
            fg_session_free(s);
            s = session(&f, N + 56, 16); // another capacity and block size
            run_and_compare(&f, s, 0, 9, 9);
            assert_int_equal(fg_session_load(s, path, &err), 0);
            assert_int_equal(fg_session_pos(s), cuts[c]);
            assert_memory_equal(fg_session_ids(s), f.ids, (size_t)cuts[c] * sizeof(int32_t));
            run_and_compare(&f, s, cuts[c], N, 23);
            fg_session_free(s);
        }
        close_fixture(&f);
    }
    scratch_close(&tmp);
}

static void bad_session_files_are_refused(void **state)
{
    (void)state;
    struct scratch tmp;
    struct fixture f, other;
    struct fg_error err;
    struct fg_buf good = {0};
    char path[400];
    scratch_open(&tmp);
    snprintf(path, sizeof path, "%s/s.bin", tmp.dir);
    open_fixture(&f, "a-s0");
    open_fixture(&other, "a-s1");
    struct fg_session *s = session(&f, N, 64), *o = session(&other, N, 64);
    run_and_compare(&f, s, 0, 40, 40);
    assert_int_equal(fg_session_save(s, path, &err), 0);
    assert_int_equal(fg_file_read(&good, path, 1u << 30, &err), 0);

    assert_int_equal(fg_session_load(o, path, &err), FG_EINTEGRITY); // same shapes, other weights
    assert_string_equal(err.field, "model");

    struct fg_session *small = session(&f, 39, 39);
    assert_int_equal(fg_session_load(small, path, &err), FG_EINPUT);
    assert_string_equal(err.field, "position");
    fg_session_free(small);

    struct fg_session *fast;
    assert_int_equal(fg_session_new(&fast, f.m, f.kernels, f.pool, true, N, 64, &err), 0);
    assert_int_equal(fg_session_load(fast, path, &err), FG_EINTEGRITY);
    assert_string_equal(err.field, "numerics");
    fg_session_free(fast);

    for (int i = 0; i < 64; i++) { // truncated
        assert_int_equal(fg_file_replace(path, good.data, good.len * (size_t)i / 64, &err), 0);
        assert_int_equal(fg_session_load(s, path, &err), FG_EINPUT);
        assert_int_equal(fg_session_pos(s), 0);
    }
    for (size_t at = 0; at < good.len; at += 1 + good.len / 97) { // a flipped bit anywhere
        good.data[at] ^= 4;
        assert_int_equal(fg_file_replace(path, good.data, good.len, &err), 0);
        int rc = fg_session_load(s, path, &err);
        if (rc != FG_EINPUT && rc != FG_EINTEGRITY) fail_msg("byte %zu: rc %d", at, rc);
        assert_int_equal(fg_session_pos(s), 0);
        good.data[at] ^= 4;
    }
    run_and_compare(&f, s, 0, N, 64); // and the session still works
    assert_int_equal(fg_session_load(s, tmp.dir, &err), FG_EINPUT);
    fg_buf_free(&good);
    fg_session_free(s);
    fg_session_free(o);
    close_fixture(&f);
    close_fixture(&other);
    scratch_close(&tmp);
}

static void dense_sessions_rewind_anywhere_hybrids_to_zero(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, "h-s0");
    struct fg_session *s = session(&f, N, 64);
    run_and_compare(&f, s, 0, 150, 64);
    assert_true(fg_session_rewind(s, 70));
    assert_int_equal(fg_session_pos(s), 70);
    run_and_compare(&f, s, 70, N, 31);
    assert_false(fg_session_rewind(s, N + 1));
    assert_false(fg_session_rewind(s, -1));
    fg_session_free(s);
    close_fixture(&f);

    open_fixture(&f, "a-s0");
    s = session(&f, N, 64);
    run_and_compare(&f, s, 0, 150, 64);
    assert_false(fg_session_rewind(s, 70));
    assert_int_equal(fg_session_pos(s), 150);
    run_and_compare(&f, s, 150, N, 31); // nothing was changed
    assert_true(fg_session_rewind(s, N));
    assert_true(fg_session_rewind(s, 0));
    run_and_compare(&f, s, 0, N, 64);
    fg_session_free(s);
    close_fixture(&f);
}

static int stop_after(void *ctx, int64_t done, int64_t total)
{
    (void)total;
    return done >= *(int64_t *)ctx;
}

static void bad_calls_change_nothing(void **state)
{
    (void)state;
    struct fixture f;
    struct fg_error err;
    open_fixture(&f, "a-s0");
    struct fg_session *s = session(&f, 100, 16), *none;
    run_and_compare(&f, s, 0, 60, 60);
    int32_t bad[2] = {1, (int32_t)f.m->config.vocab};
    assert_int_equal(fg_session_run(s, bad, 2, NULL, 0, NULL, NULL, &err), FG_EINPUT);
    assert_string_equal(err.field, "token 1");
    bad[1] = -1;
    assert_int_equal(fg_session_run(s, bad, 2, NULL, 0, NULL, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_session_run(s, f.ids, 41, NULL, 0, NULL, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_session_run(s, f.ids, 0, NULL, 0, NULL, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_session_pos(s), 60);
    int64_t stop = 16;
    assert_int_equal(fg_session_run(s, f.ids + 60, 40, NULL, 0, stop_after, &stop, &err),
                     FG_EINTERRUPTED);
    assert_int_equal(fg_session_pos(s), 76);
    run_and_compare(&f, s, 76, 100, 24);
    fg_session_free(s);

    int64_t max = f.m->config.max_positions;
    assert_int_equal(fg_session_new(&none, f.m, f.kernels, f.pool, false, max + 1, 16, &err),
                     FG_EINPUT);
    assert_null(none);
    assert_int_equal(fg_session_new(&none, f.m, f.kernels, f.pool, false, 10, 0, &err), FG_EINPUT);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_split_gives_the_same_bits),
        cmocka_unit_test(a_saved_session_goes_on_bit_for_bit),
        cmocka_unit_test(bad_session_files_are_refused),
        cmocka_unit_test(dense_sessions_rewind_anywhere_hybrids_to_zero),
        cmocka_unit_test(bad_calls_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
