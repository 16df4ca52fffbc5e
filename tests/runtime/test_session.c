// Sessions on the committed checkpoints: any way of cutting a conversation into calls, rows that
// are tried and accepted, calls that are stopped, several sessions at once: always the same bits.
#include "runtime/session_case.h"
#include "kernels/parallel.h"

static const char *const models[] = {"a-s0", "b-s0", "e-s0", "f-s0", "h-s0", "k-s0"};
static const struct kind kv8 = {true, FG_KV_KV8, true}, f32 = {false, FG_KV_F32, false};

// ---- splits

static void any_split_of(const char *model, struct kind kind, int64_t n, int64_t positions,
                         const int64_t *steps, size_t n_steps)
{
    static const int64_t rows_max[] = {1, 8, 33, 64, 200};
    struct fixture f;
    open_case(&f, model, kind, n, positions, 1);
    for (size_t i = 0; i < n_steps; i++) {
        struct fg_session *s = session(&f, steps[i] > 64 ? steps[i] : rows_max[i % 5]);
        feed_to(&f, s, n, steps[i]);
        check_same(s, f.whole);
        fg_session_free(s);
    }
    struct fg_session *s = session(&f, 64);
    struct fg_random r = fg_random_seeded(17);
    while (fg_session_pos(s) < n) {
        int64_t left = n - fg_session_pos(s), step = 1 + (int64_t)fg_random_below(&r, 400);
        feed_to(&f, s, fg_session_pos(s) + (step < left ? step : left), step);
    }
    check_same(s, f.whole);
    fg_session_reset(s); // again in the same memory
    cycle_to(&f, s, n, 18);
    check_same(s, f.whole);
    fg_session_free(s);
    close_case(&f);
}

static void any_split_gives_the_same_bits(void **state)
{
    (void)state;
    static const int64_t steps[] = {1, 2, 7, 8, 63, 64, 65, 255, 256, 257}, some[] = {1, 63, 256};
    any_split_of("a-s0", kv8, 3000, 4096, steps, FG_COUNT(steps));
    any_split_of("i-s0", kv8, 3000, 4096, some, FG_COUNT(some));
    any_split_of("a-s0", f32, 3000, 4096, some + 1, 1);
    any_split_of("i-s0", (struct kind){false, FG_KV_KV8, true}, 3000, 4096, some + 2, 1);
}

static void any_split_of_every_kind(void **state)
{
    (void)state;
    static const int64_t steps[] = {1, 5, 64, 130};
    for (size_t i = 0; i < FG_COUNT(models); i++)
        for (size_t k = 0; k < FG_COUNT(kinds); k++)
            any_split_of(models[i], kinds[k], 290, 0, steps, FG_COUNT(steps));
}

// ---- rows that are tried

static void accepted_rows_are_as_if_they_had_run(void **state)
{
    (void)state;
    static const int64_t starts[] = {0, 1, 2, 3, 5, 251, 256};
    for (size_t i = 0; i < FG_COUNT(models); i++) {
        struct fixture f;
        struct kind kind = kinds[(i * 3 + 1) % FG_COUNT(kinds)];
        open_case(&f, models[i], kind, 280, 0, 1);
        for (int64_t T = 8; T <= 16; T += 8) {
            f.verify_max = T;
            for (int64_t k = 0; k <= T; k++) {
                const int64_t at = starts[(size_t)(k + T) % FG_COUNT(starts)];
                struct fg_session *s = session(&f, 64);
                if (at) feed_to(&f, s, at, 64);
                if (k % 3 == 1) try_rows(&f, s, T - 1, 2); // without accept: replaced
                try_rows(&f, s, T, k);
                accept_rows(s, k);
                if (k % 4 == 3) fg_session_flush(s);
                if (k % 2) {
                    feed_to(&f, s, at + k + 3, 1); // decode
                    feed_to(&f, s, 280, 64);
                } else {
                    cycle_to(&f, s, 280, (uint64_t)k);
                }
                check_same(s, f.whole);
                fg_session_free(s);
            }
        }
        close_case(&f);
    }
}

static void rows_that_are_dropped_leave_nothing(void **state)
{
    (void)state;
    struct fixture f;
    struct fg_error err = {0};
    open_case(&f, "a-s0", kv8, 100, 0, 1);
    struct fg_session *s = session(&f, 64), *t = session(&f, 64);
    feed_to(&f, s, 20, 20);
    feed_to(&f, t, 20, 20);
    try_rows(&f, s, 8, 8);
    assert_int_equal(fg_session_accept(s, 9, &err), FG_EINPUT);
    assert_int_equal(fg_session_accept(s, -1, &err), FG_EINPUT);
    assert_int_equal(fg_session_tried(s), 8);
    accept_rows(s, 0);
    assert_int_equal(fg_session_accept(s, 1, &err), FG_EINPUT); // nothing is tried
    check_same(s, t);
    try_rows(&f, s, 5, 5);
    feed_to(&f, s, 40, 20); // drops them
    assert_int_equal(fg_session_tried(s), 0);
    try_rows(&f, s, 4, 4);
    accept_rows(s, 4);
    accept_rows(s, 0); // those that wait to be applied stay
    try_rows(&f, s, 8, 3);
    fg_session_flush(s); // drops them, too
    assert_int_equal(fg_session_tried(s), 0);
    feed_to(&f, s, 90, 9);
    for (int i = 0; i < 2; i++) { // and so does emptying
        try_rows(&f, s, 8, 8);
        accept_rows(s, 5);
        if (i) try_rows(&f, s, 8, 5);
        fg_session_reset(s);
        assert_int_equal(fg_session_pos(s), 0);
        assert_int_equal(fg_session_tried(s), 0);
        feed_to(&f, s, i ? 100 : 90, 9);
    }
    check_same(s, f.whole);
    fg_session_free(s);
    fg_session_free(t);
    close_case(&f);
}

// What is stored from pos on is of no consequence, whatever it is.
static void rows_behind_the_end_are_never_seen(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(models); i++) {
        for (size_t k = i % 2; k < FG_COUNT(kinds); k += 2) {
            struct fixture f;
            open_case(&f, models[i], kinds[k], 270, 0, 1);
            struct fg_session *s = session(&f, 64);
            static const int64_t steps[] = {1, 7, 33, 64, 1, 90, 60, 14};
            for (size_t j = 0; j < FG_COUNT(steps); j++) {
                poison(s);
                feed_to(&f, s, fg_session_pos(s) + steps[j], steps[j]);
            }
            check_same(s, f.whole);
            fg_session_reset(s);
            while (fg_session_pos(s) < 250) {
                poison(s);
                try_rows(&f, s, 8, 5);
                accept_rows(s, 5);
            }
            poison(s);
            feed_to(&f, s, 270, 11);
            check_same(s, f.whole);
            fg_session_free(s);
            close_case(&f);
        }
    }
}

// ---- calls that are stopped

struct countdown {
    int64_t at, asked;
};

static bool cancel_at(void *ctx)
{
    struct countdown *c = ctx;
    return c->asked++ == c->at;
}

// True when the call was over before the `at`-th question. The session has rows that are pending.
static bool stop_once(const struct fixture *f, bool verify, int64_t at)
{
    struct fg_error err = {0};
    struct countdown c = {.at = at};
    struct fg_session *s = session(f, 16);
    feed_to(f, s, 50, 50);
    try_rows(f, s, 8, 6);
    accept_rows(s, 3);
    if (at % 2) try_rows(f, s, 8, 8);
    const size_t bytes = (size_t)s->state_floats * sizeof(float);
    const int cur = s->state.cur;
    const int64_t pending = s->state.n_pending;
    float *before = malloc(bytes + 1);
    memcpy(before, s->states[cur], bytes);
    const struct fg_feed feed = {
        .ids = f->ids + fg_session_pos(s), .n = verify ? 8 : 16, .cancel = cancel_at, .ctx = &c};
    int rc = verify ? fg_session_verify(s, &feed, &err) : fg_session_feed(s, &feed, &err);
    if (rc == 0) {
        assert_true(c.asked >= f->m->config.n_layers);
    } else {
        assert_int_equal(rc, FG_EINTERRUPTED);
        assert_int_equal(fg_session_pos(s), 53);
        assert_int_equal(fg_session_tried(s), 0);
        assert_int_equal(s->state.cur, cur);
        assert_int_equal(s->state.n_pending, pending);
        assert_memory_equal(s->states[cur], before, bytes);
    }
    if (rc == 0 && verify) accept_rows(s, 8);
    if (at % 3) try_rows(f, s, 8, 8);
    feed_to(f, s, f->n, 13);
    check_same(s, f->whole);
    free(before);
    fg_session_free(s);
    return rc == 0;
}

static void a_stopped_call_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(models); i++) {
        struct fixture f;
        open_case(&f, models[i], kinds[(i * 2 + 1) % FG_COUNT(kinds)], 110, 0, 2);
        for (int verify = 0; verify < 2; verify++) {
            int64_t at = 0;
            while (!stop_once(&f, verify, at))
                at++;
            assert_true(at >= f.m->config.n_layers);
        }
        close_case(&f);
    }
}

static int stop_after(void *ctx, int64_t done, int64_t total)
{
    struct countdown *c = ctx;
    (void)total;
    return done >= c->at;
}

static void a_feed_stops_between_blocks(void **state)
{
    (void)state;
    struct fixture f;
    struct fg_error err = {0};
    struct countdown c = {.at = 32};
    open_case(&f, "a-s0", f32, 100, 0, 1);
    struct fg_session *s = session(&f, 16);
    struct fg_feed feed = {.ids = f.ids, .n = 100, .progress = stop_after, .ctx = &c};
    assert_int_equal(fg_session_feed(s, &feed, &err), FG_EINTERRUPTED);
    assert_string_equal(err.found, "stopped after 32 of 100 tokens");
    assert_int_equal(fg_session_pos(s), 32);
    c = (struct countdown){.at = f.m->config.n_layers + 1}; // in the second block
    feed = (struct fg_feed){.ids = f.ids + 32, .n = 68, .cancel = cancel_at, .ctx = &c};
    assert_int_equal(fg_session_feed(s, &feed, &err), FG_EINTERRUPTED);
    assert_string_equal(err.found, "stopped after 16 of 68 tokens");
    assert_int_equal(fg_session_pos(s), 48);
    c = (struct countdown){.at = 52}; // what is done can't be stopped any more
    feed = (struct fg_feed){.ids = f.ids + 48, .n = 52, .progress = stop_after, .ctx = &c};
    must(fg_session_feed(s, &feed, &err), &err);
    check_same(s, f.whole);
    fg_session_free(s);
    close_case(&f);
}

// The embedding of token 95 becomes NaN in the copy of a checkpoint.
static void spoil_token(const struct fixture *f)
{
    struct fg_error err = {0};
    struct fg_buf b = {0};
    char path[600];
    uint64_t header, from, to;
    snprintf(path, sizeof path, "%s/model.safetensors", f->tmp.dir);
    must(fg_file_read(&b, path, 1u << 24, &err), &err);
    memcpy(&header, b.data, sizeof header);
    fg_buf_add(&b, "", 1);
    const char *at = strstr((const char *)b.data + 8, "embed_tokens.weight\"");
    assert_non_null(at);
    at = strstr(at, "\"data_offsets\":[");
    assert_non_null(at);
    char *end;
    from = strtoull(at + 16, &end, 10);
    to = strtoull(end + 1, NULL, 10);
    const uint64_t row = (to - from) / 96;
    memset(b.data + 8 + header + from + 95 * row, 0xFF, row);
    must(fg_file_replace(path, b.data, b.len - 1, &err), &err);
    fg_buf_free(&b);
}

static void rows_that_are_not_finite_are_refused(void **state)
{
    (void)state;
    static const char *const spoilt[] = {"a-s0", "h-s0"};
    for (size_t i = 0; i < 2 * FG_COUNT(spoilt); i++) {
        struct fixture f;
        struct fg_error err = {0};
        open_case(&f, spoilt[i / 2], i % 2 ? kv8 : f32, 60, 2048, 1);
        spoil_token(&f);
        struct fg_model *good = f.m;
        must(fg_model_open(&f.m, f.tmp.dir, true, NULL, &err), &err);
        struct fg_session *s = session(&f, 16);
        int32_t ids[60];
        memcpy(ids, f.ids, sizeof ids);
        for (int t = 0; t < 60; t++)
            if (ids[t] == 95) ids[t] = 94;
        must(fg_session_run(s, ids, 20, NULL, 0, NULL, NULL, &err), &err);
        must(fg_session_verify(s, &(struct fg_feed){.ids = ids + 20, .n = 8}, &err), &err);
        accept_rows(s, 5);
        const int32_t bad[3] = {1, 95, 2};
        assert_int_equal(fg_session_verify(s, &(struct fg_feed){.ids = bad, .n = 3}, &err),
                         FG_EFAILED);
        assert_string_equal(err.what, "numerical error");
        assert_int_equal(fg_session_run(s, bad, 3, NULL, 0, NULL, NULL, &err), FG_EFAILED);
        assert_int_equal(fg_session_pos(s), 25);
        assert_int_equal(fg_session_tried(s), 0);
        must(fg_session_run(s, ids + 25, 35, NULL, 0, NULL, NULL, &err), &err);
        struct fg_session *t = session(&f, 60);
        must(fg_session_run(t, ids, 60, NULL, 0, NULL, NULL, &err), &err);
        check_same(s, t);
        fg_session_free(s);
        fg_session_free(t);
        fg_model_close(f.m);
        f.m = good;
        close_case(&f);
    }
}

// ---- several sessions, several threads

#define BATCH 4

// Sessions in one pass against twins that try the same rows alone.
static void check_batch(const struct fixture *f, struct fg_session **together,
                        struct fg_session **alone, struct fg_random *r)
{
    struct fg_error err = {0};
    int64_t n[BATCH], right[BATCH], sum = 0, at = 0;
    int32_t ids[BATCH * 8];
    float *out = calloc(BATCH * 8 * vocab(f), sizeof *out);
    float *taps = calloc(BATCH * 8 * tap_floats(f), sizeof *taps), *twin = calloc(8, vocab(f) * 4);
    for (int i = 0; i < BATCH; i++) {
        const int64_t pos = fg_session_pos(together[i]);
        n[i] = 1 + (int64_t)fg_random_below(r, 8);
        right[i] = (int64_t)fg_random_below(r, (uint64_t)n[i] + 1);
        for (int64_t t = 0; t < n[i]; t++) {
            int32_t id = f->ids[pos + t];
            ids[sum + t] = t < right[i] ? id : (int32_t)((id + 1) % f->m->config.vocab);
        }
        sum += n[i];
    }
    const struct fg_feed feed = {.ids = ids, .n = sum, .logits = out, .n_out = sum, .taps = taps};
    must(fg_session_verify_batch(together, n, BATCH, &feed, &err), &err);
    for (int i = 0; i < BATCH; i++) {
        const struct fg_feed one = {.ids = ids + at, .n = n[i], .logits = twin, .n_out = n[i]};
        check_rows(f, fg_session_pos(together[i]), right[i], out + (size_t)at * vocab(f),
                   taps + (size_t)at * tap_floats(f));
        must(fg_session_verify(alone[i], &one, &err), &err);
        assert_memory_equal(out + (size_t)at * vocab(f), twin,
                            (size_t)n[i] * vocab(f) * sizeof(float));
        accept_rows(together[i], right[i]);
        accept_rows(alone[i], right[i]);
        at += n[i];
    }
    free(out);
    free(taps);
    free(twin);
}

static void sessions_together_are_as_each_alone(void **state)
{
    (void)state;
    static const int64_t starts[BATCH] = {0, 100, 258, 3};
    for (size_t i = 0; i < FG_COUNT(models); i++) {
        struct fixture f;
        struct fg_session *together[BATCH], *alone[BATCH];
        struct fg_random r = fg_random_seeded(i);
        open_case(&f, models[i], kinds[(i * 4 + 3) % FG_COUNT(kinds)], 380, 0, 2);
        f.entries[0] = 256;
        f.entries[1] = 512;
        f.n_entries = 2;
        for (int b = 0; b < BATCH; b++) {
            together[b] = session(&f, 64);
            alone[b] = session(&f, 64);
            if (starts[b] == 0) continue;
            feed_to(&f, together[b], starts[b], 64);
            feed_to(&f, alone[b], starts[b], 50);
        }
        for (int round = 0; round < 10; round++) {
            check_batch(&f, together, alone, &r);
            feed_to(&f, together[round % BATCH], fg_session_pos(together[round % BATCH]) + 2, 2);
            feed_to(&f, alone[round % BATCH], fg_session_pos(alone[round % BATCH]) + 2, 1);
        }
        for (int b = 0; b < BATCH; b++) {
            check_same(together[b], alone[b]);
            fg_session_free(together[b]);
            fg_session_free(alone[b]);
        }
        close_case(&f);
    }
}

static void bad_batches_change_nothing(void **state)
{
    (void)state;
    struct fixture f, other;
    struct fg_error err = {0};
    open_case(&f, "a-s0", f32, 300, 0, 1);
    open_case(&other, "a-s1", f32, 10, 0, 1);
    f.entries[0] = 256;
    f.entries[1] = 300;
    f.n_entries = 2;
    struct fg_session *s[3] = {session(&f, 16), session(&f, 16), session(&other, 16)};
    const int64_t n[3] = {8, 8, 4};
    feed_to(&f, s[0], 252, 16);
    feed_to(&f, s[1], 295, 16);
    struct fg_feed feed = {.ids = f.ids, .n = 16};
    assert_int_equal(fg_session_verify_batch(s, n, 2, &feed, &err),
                     FG_EINPUT); // no room in the 2nd
    assert_int_equal(fg_session_entry(s[0]), 256);
    const int64_t fits[3] = {8, 5, 4};
    feed.n = 13;
    assert_int_equal(fg_session_verify_batch(s, fits, 0, &feed, &err), FG_EINPUT);
    feed.n = 14;
    assert_int_equal(fg_session_verify_batch(s, fits, 2, &feed, &err), FG_EINPUT);
    feed.n = 13;
    feed.n_out = 3;
    assert_int_equal(fg_session_verify_batch(s, fits, 2, &feed, &err), FG_EINPUT);
    feed = (struct fg_feed){.ids = f.ids, .n = 12};
    struct fg_session *twice[2] = {s[0], s[0]}, *foreign[2] = {s[0], s[2]};
    const int64_t four[2] = {8, 4};
    assert_int_equal(fg_session_verify_batch(twice, four, 2, &feed, &err), FG_EINPUT);
    assert_int_equal(fg_session_verify_batch(foreign, four, 2, &feed, &err), FG_EINPUT);
    feed.n = 20;
    const int64_t many[2] = {15, 5};
    assert_int_equal(fg_session_verify_batch(s, many, 2, &feed, &err), FG_EINPUT); // verify_max
    feed.n = 13;
    must(fg_session_verify_batch(s, fits, 2, &feed, &err), &err);
    assert_int_equal(fg_session_entry(s[0]), 300);
    feed_to(&f, s[0], 300, 48);
    feed_to(&f, s[1], 300, 5);
    check_same(s[0], s[1]);
    for (int i = 0; i < 3; i++)
        fg_session_free(s[i]);
    close_case(&f);
    close_case(&other);
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 3, 5};
    const int64_t n = 2200; // more than a segment of attention
    for (int i = 0; i < 2; i++) {
        const char *model = i ? "i-s0" : "a-s0";
        struct kind kind = i ? (struct kind){false, FG_KV_V8, true} : kv8;
        struct fixture first, f;
        open_case(&first, model, kind, n, 4096, 1);
        for (size_t t = 1; t < FG_COUNT(threads); t++) {
            open_case(&f, model, kind, n, 4096, threads[t]);
            check_rows(&first, 0, n, f.logits, f.taps);
            struct fg_session *s = session(&f, 512);
            feed_to(&f, s, n - 40, 512);
            cycle_to(&f, s, n, (uint64_t)t);
            check_same(s, first.whole);
            fg_session_free(s);
            close_case(&f);
        }
        close_case(&first);
    }
}

// ---- outputs

static void taps_of_chosen_layers(void **state)
{
    (void)state;
    struct fixture f;
    struct fg_error err = {0};
    open_case(&f, "b-s0", kv8, 60, 0, 2);
    const size_t H = (size_t)f.m->config.hidden, L = (size_t)f.m->config.n_layers;
    struct fg_session *s = session(&f, 16);
    const int64_t layers[] = {1, 3}, bad[] = {3, 1}, outside[] = {(int64_t)L};
    float taps[60 * 2 * 64];
    assert_true(H <= 64);
    assert_int_equal(fg_session_set_layer_taps(s, bad, 2, &err), FG_EINPUT);
    assert_int_equal(fg_session_set_layer_taps(s, outside, 1, &err), FG_EINPUT);
    assert_int_equal(fg_session_set_layer_taps(s, layers, 65, &err), FG_EINPUT);
    must(fg_session_set_layer_taps(s, layers, 2, &err), &err);
    struct fg_feed feed = {.ids = f.ids, .n = 40, .taps = taps};
    must(fg_session_feed(s, &feed, &err), &err); // prefill in blocks
    feed = (struct fg_feed){.ids = f.ids + 40, .n = 8, .taps = taps + 40 * 2 * H};
    must(fg_session_verify(s, &feed, &err), &err);
    accept_rows(s, 8);
    for (int64_t t = 48; t < 60; t++) { // decode
        feed = (struct fg_feed){.ids = f.ids + t, .n = 1, .taps = taps + (size_t)t * 2 * H};
        must(fg_session_feed(s, &feed, &err), &err);
    }
    for (size_t t = 0; t < 60; t++)
        for (size_t i = 0; i < 2; i++)
            assert_memory_equal(taps + (t * 2 + i) * H, f.taps + (t * L + (size_t)layers[i]) * H,
                                H * sizeof(float));
    must(fg_session_set_layer_taps(s, NULL, 0, &err), &err);
    fg_session_free(s);
    close_case(&f);
}

static void logits_and_the_best_of_them(void **state)
{
    (void)state;
    struct fixture f;
    struct fg_error err = {0};
    open_case(&f, "h-s0", f32, 90, 0, 1);
    const int64_t V = f.m->config.vocab;
    struct fg_session *s = session(&f, 16);
    float *out = calloc(37 * vocab(&f), sizeof *out);
    must(fg_session_run(s, f.ids, 60, out, 37, NULL, NULL, &err), &err); // rows over three blocks
    check_rows(&f, 60 - 37, 37, out, NULL);
    int32_t ids[30 * 3];
    float logits[30 * 3], lse[30];
    struct fg_best best = {.k = 3, .ids = ids, .logits = logits, .lse = lse};
    struct fg_feed feed = {.ids = f.ids + 60, .n = 8, .best = &best, .n_out = 8};
    must(fg_session_verify(s, &feed, &err), &err);
    for (int t = 0; t < 8; t++)
        assert_int_equal(ids[t * 3], f.kernels->argmax(f.logits + (60 + t) * V, V));
    must(fg_session_run_best(s, f.ids + 60, 30, &best, 30, NULL, NULL, &err), &err);
    for (int t = 0; t < 30; t++) {
        const float *row = f.logits + (60 + t) * V;
        assert_int_equal(ids[t * 3], f.kernels->argmax(row, V));
        for (int i = 0; i < 3; i++)
            assert_memory_equal(&logits[t * 3 + i], &row[ids[t * 3 + i]], sizeof(float));
    }
    assert_false(best.nan);
    best.k = V + 1;
    assert_int_equal(fg_session_run_best(s, f.ids, 1, &best, 1, NULL, NULL, &err), FG_EINPUT);
    free(out);
    fg_session_free(s);
    close_case(&f);
}

// ---- the rest

static void dense_sessions_rewind_anywhere_hybrids_to_zero(void **state)
{
    (void)state;
    struct fixture f;
    open_case(&f, "h-s0", kv8, 200, 0, 1);
    struct fg_session *s = session(&f, 64);
    feed_to(&f, s, 150, 64);
    assert_true(fg_session_rewind(s, 70));
    assert_int_equal(fg_session_pos(s), 70);
    try_rows(&f, s, 8, 8);
    accept_rows(s, 8);
    assert_true(fg_session_rewind(s, 75));
    feed_to(&f, s, 200, 31);
    check_same(s, f.whole);
    assert_false(fg_session_rewind(s, 201));
    assert_false(fg_session_rewind(s, -1));
    fg_session_free(s);
    close_case(&f);

    open_case(&f, "a-s0", kv8, 200, 0, 1);
    s = session(&f, 64);
    feed_to(&f, s, 150, 64);
    assert_false(fg_session_rewind(s, 149));
    try_rows(&f, s, 8, 6);
    accept_rows(s, 6);
    assert_false(fg_session_rewind(s, 149));
    assert_int_equal(fg_session_pos(s), 156); // nothing was changed
    assert_true(fg_session_rewind(s, 156));
    assert_true(fg_session_rewind(s, 154)); // these have not been applied
    assert_true(fg_session_rewind(s, 152));
    try_rows(&f, s, 8, 8);
    accept_rows(s, 4);
    assert_false(fg_session_rewind(s, 151));
    assert_true(fg_session_rewind(s, 152));
    feed_to(&f, s, 200, 31);
    check_same(s, f.whole);
    assert_true(fg_session_rewind(s, 0));
    feed_to(&f, s, 200, 64);
    check_same(s, f.whole);
    fg_session_free(s);
    close_case(&f);
}

static void bad_calls_change_nothing(void **state)
{
    (void)state;
    struct fixture f;
    struct fg_error err = {0};
    open_case(&f, "a-s0", f32, 100, 0, 1);
    f.entries[0] = 100;
    struct fg_session *s = session(&f, 16);
    feed_to(&f, s, 60, 60);
    try_rows(&f, s, 4, 4);
    int32_t bad[2] = {1, (int32_t)f.m->config.vocab};
    assert_int_equal(fg_session_run(s, bad, 2, NULL, 0, NULL, NULL, &err), FG_EINPUT);
    assert_string_equal(err.field, "token 1");
    bad[1] = -1;
    assert_int_equal(fg_session_run(s, bad, 2, NULL, 0, NULL, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_session_verify(s, &(struct fg_feed){.ids = bad, .n = 2}, &err), FG_EINPUT);
    assert_int_equal(fg_session_run(s, f.ids, 41, NULL, 0, NULL, NULL, &err), FG_EINPUT);
    assert_string_equal(err.expected, "at most 40 (context of 100)");
    assert_int_equal(fg_session_run(s, f.ids, 0, NULL, 0, NULL, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_session_run(s, f.ids, INT64_MAX, NULL, 0, NULL, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_session_run(s, f.ids, 3, NULL, 4, NULL, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_session_verify(s, &(struct fg_feed){.ids = f.ids, .n = 9}, &err),
                     FG_EINPUT);
    assert_int_equal(fg_session_verify(s, &(struct fg_feed){.ids = f.ids, .n = 0}, &err),
                     FG_EINPUT);
    assert_int_equal(fg_session_fit(s, 101, &err), FG_EINPUT);
    assert_int_equal(fg_session_pos(s), 60);
    assert_int_equal(fg_session_tried(s), 4);
    accept_rows(s, 4);
    feed_to(&f, s, 100, 24);
    check_same(s, f.whole);
    fg_session_free(s);
    close_case(&f);
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct fg_error err = {0};
    open_case(&f, "f-s0", f32, 4, 0, 1);
    const int64_t max = f.m->config.max_positions, falling[] = {512, 256}, large[] = {256, max + 1},
                  zero[] = {0, 256};
    const struct fg_session_options good = {
        .kernels = f.kernels, .pool = f.pool, .capacity = 64, .rows_max = 16};
    struct fg_session_options o[10];
    for (int i = 0; i < 10; i++)
        o[i] = good;
    o[0].capacity = max + 1;
    o[1].capacity = 0;
    o[2].rows_max = 0;
    o[3].rows_max = FG_SESSION_ROWS_MAX + 1;
    o[4].verify_max = FG_SESSION_VERIFY_MAX + 1;
    o[5].rotated = true; // a head width of 24
    o[6].entries = falling;
    o[7].entries = large;
    o[8].entries = zero;
    o[6].n_entries = o[7].n_entries = o[8].n_entries = 2;
    o[9].entries = falling;
    o[9].n_entries = 0;
    for (int i = 0; i < 10; i++) {
        struct fg_session *s = (struct fg_session *)&f;
        assert_int_equal(fg_session_new(&s, f.m, &o[i], &err), FG_EINPUT);
        assert_null(s);
    }
    struct fg_session *s;
    must(fg_session_new(&s, f.m, &good, &err), &err);
    assert_int_equal(fg_session_capacity(s), 64);
    fg_session_free(s);
    // Arithmetic of the original: rows can be committed, not tried.
    struct fg_session_options seed = good;
    seed.attention = FG_ATTENTION_SEED;
    must(fg_session_new(&s, f.m, &seed, &err), &err);
    must(fg_session_run(s, f.ids, 4, NULL, 0, NULL, NULL, &err), &err);
    assert_int_equal(fg_session_verify(s, &(struct fg_feed){.ids = f.ids, .n = 2}, &err),
                     FG_EINPUT);
    assert_int_equal(fg_session_pos(s), 4);
    fg_session_free(s);
    close_case(&f);
}

static void numerics_have_an_identity(void **state)
{
    (void)state;
    struct fixture f;
    uint8_t id[FG_COUNT(kinds)][32], again[32];
    open_case(&f, "a-s0", f32, 4, 0, 1);
    for (size_t i = 0; i < FG_COUNT(kinds); i++) {
        f.kind = kinds[i];
        struct fg_session *s = session(&f, 16), *t = session(&f, 8);
        fg_session_numerics_id(s, id[i]);
        fg_session_numerics_id(t, again);
        assert_memory_equal(id[i], again, 32);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(id[i], id[j], 32);
        fg_session_free(s);
        fg_session_free(t);
    }
    close_case(&f);
}

static void made_up_sessions_work(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(models); i++) {
        struct fixture f;
        struct fg_error err = {0};
        open_case(&f, models[i], kinds[(i + 5) % FG_COUNT(kinds)], 40, 0, 2);
        struct fg_session *s = session(&f, 64), *t = session(&f, 64);
        float *a = calloc(20 * vocab(&f), sizeof *a), *b = calloc(20 * vocab(&f), sizeof *b);
        assert_int_equal(fg_session_pretend(s, f.m->config.max_positions + 1, 1, &err), FG_EINPUT);
        try_rows(&f, s, 3, 3);
        must(fg_session_pretend(s, 700, 1, &err), &err);
        assert_int_equal(fg_session_tried(s), 0);
        must(fg_session_pretend(t, 700, 1, &err), &err);
        assert_int_equal(fg_session_pos(s), 700);
        assert_int_equal(fg_session_pretend(s, 10, 1, &err), FG_EINPUT);
        must(fg_session_run(s, f.ids, 20, a, 20, NULL, NULL, &err), &err);
        for (int64_t at = 0; at < 20; at += 5)
            must(fg_session_run(t, f.ids + at, 5, b + (size_t)at * vocab(&f), 5, NULL, NULL, &err),
                 &err);
        assert_memory_equal(a, b, 20 * vocab(&f) * sizeof(float));
        check_same(s, t);
        fg_session_reset(s);
        feed_to(&f, s, 40, 7);
        check_same(s, f.whole);
        fg_session_free(s);
        fg_session_free(t);
        free(a);
        free(b);
        close_case(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_split_gives_the_same_bits),
        cmocka_unit_test(any_split_of_every_kind),
        cmocka_unit_test(accepted_rows_are_as_if_they_had_run),
        cmocka_unit_test(rows_that_are_dropped_leave_nothing),
        cmocka_unit_test(rows_behind_the_end_are_never_seen),
        cmocka_unit_test(a_stopped_call_changes_nothing),
        cmocka_unit_test(a_feed_stops_between_blocks),
        cmocka_unit_test(rows_that_are_not_finite_are_refused),
        cmocka_unit_test(sessions_together_are_as_each_alone),
        cmocka_unit_test(bad_batches_change_nothing),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(taps_of_chosen_layers),
        cmocka_unit_test(logits_and_the_best_of_them),
        cmocka_unit_test(dense_sessions_rewind_anywhere_hybrids_to_zero),
        cmocka_unit_test(bad_calls_change_nothing),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(numerics_have_an_identity),
        cmocka_unit_test(made_up_sessions_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
