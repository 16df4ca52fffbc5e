// Sessions through the public API on a small hybrid build: what a manifest offers and what else is
// refused before weights are read; the ladder; rows that are tried; taps; snapshots. Results are
// compared bit for bit with a session that did nothing but run.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "bundle/convert.h"
#include "forge/forge.h"
#include "support/scratch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT FORGE_GOLDEN_DIR "/exports/hybrid"
#define N 1024 // tokens that there are, whichever

static struct scratch scratch;
static char bundle[512], package[640]; // the build and one of its files
static int32_t ids[N];

static void check(int rc, const struct fg_error *err)
{
    if (rc) fail_msg("%s: %s: %s, not %s", err->what, err->field, err->found, err->expected);
}

static struct forge_engine_options engine_options(const char *model)
{
    return (struct forge_engine_options){.model = model, .threads = 2, .model_only = true};
}

static struct forge_engine *open_engine(const struct forge_engine_options *o)
{
    struct forge_engine *e;
    struct fg_error err = {0};
    check(forge_engine_open(&e, o, &err), &err);
    return e;
}

static struct forge_session *open_session(struct forge_engine *e,
                                          const struct forge_session_options *o)
{
    struct forge_session *s;
    struct fg_error err = {0};
    check(forge_session_new(&s, e, o, &err), &err);
    return s;
}

static float *rows_of(struct forge_engine *e, int64_t n, int64_t width)
{
    struct forge_engine_info info;
    forge_engine_info(e, &info);
    float *p = calloc((size_t)(n * (width ? width : info.vocab)), sizeof *p);
    assert_non_null(p);
    return p;
}

static void run(struct forge_session *s, int64_t from, int64_t n, float *logits)
{
    struct fg_error err = {0};
    check(forge_session_run(s, ids + from, n, logits, logits ? n : 0, NULL, NULL, &err), &err);
}

static void expect_refused(struct forge_engine_options o, const char *field, const char *expected)
{
    struct forge_engine *e;
    struct fg_error err = {0};
    assert_int_equal(forge_engine_open(&e, &o, &err), FG_EINPUT);
    assert_null(e);
    assert_string_equal(err.field, field);
    if (!strstr(err.expected, expected)) fail_msg("%s: expected %s", field, err.expected);
}

static void test_what_a_build_offers(void **state)
{
    (void)state;
    struct forge_engine_options o = engine_options(bundle);
    struct forge_engine *e = open_engine(&o);
    struct forge_engine_info info;
    forge_engine_info(e, &info);
    assert_true(info.of_build);
    assert_int_equal(info.n_entries, 3);
    assert_int_equal(info.entries[0], 256);
    assert_int_equal(info.ctx, 1024);
    assert_string_equal(info.kv_cache_dtype, "kv8");
    assert_true(info.state_bytes > 0 && info.kv_bytes_per_position > 0);
    assert_int_equal(forge_context_for(e, 257), 512);
    assert_int_equal(forge_context_for(e, 1025), 0);

    // A session's own choice.
    struct forge_session *s =
        open_session(e, &(struct forge_session_options){.capacity = 512, .kv_cache_dtype = "f32"});
    assert_int_equal(forge_session_capacity(s), 512);
    assert_int_equal(forge_session_entry(s), 256);
    forge_session_free(s);
    struct fg_error err = {0};
    const struct forge_session_options no_entry = {.capacity = 300};
    assert_int_equal(forge_session_new(&s, e, &no_entry, &err), FG_EINPUT);
    assert_string_equal(err.expected, "256, 512, 1024");
    const struct forge_session_options no_format = {.kv_cache_dtype = "v8"};
    assert_int_equal(forge_session_new(&s, e, &no_format, &err), FG_EINPUT);
    assert_string_equal(err.expected, "auto, fp16, kv8, f32");
    forge_engine_close(e);

    o.ctx = 512;
    o.kv_cache_dtype = "fp16";
    e = open_engine(&o);
    const uint64_t kv8 = info.kv_bytes_per_position;
    forge_engine_info(e, &info);
    assert_int_equal(info.ctx, 512);
    assert_string_equal(info.kv_cache_dtype, "fp16");
    assert_true(info.kv_bytes_per_position > kv8);
    s = open_session(e, NULL);
    assert_int_equal(forge_session_capacity(s), 512);
    forge_session_free(s);
    forge_engine_close(e);
}

// A package that could not be opened does not matter: nothing of it is read before that.
static void test_refused_before_weights(void **state)
{
    (void)state;
    struct forge_engine_options o = engine_options(bundle);
    o.ctx = 300;
    expect_refused(o, "ctx", "256, 512, 1024");
    o.ctx = 0;
    o.kv_cache_dtype = "v8";
    expect_refused(o, "kv_cache_dtype", "auto, fp16, kv8, f32");
    o.kv_cache_dtype = "kv4";
    expect_refused(o, "kv_cache_dtype", "auto, fp16, kv8, f32");
    o = engine_options(EXPORT);
    o.ctx = 1025;
    expect_refused(o, "ctx", "1024, the model's maximum");
    o.ctx = 0;
    o.kv_cache_dtype = "int8";
    expect_refused(o, "kv_cache_dtype", "auto, fp16, v8, kv8, f32");

    // One byte of a package's values: found by its hash, after what was asked for.
    FILE *f = fopen(package, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    int c = fgetc(f);
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    fputc(c ^ 1, f);
    assert_int_equal(fclose(f), 0);
    o = engine_options(bundle);
    o.ctx = 300;
    expect_refused(o, "ctx", "256, 512, 1024");
    struct forge_engine *e;
    struct fg_error err = {0};
    o.ctx = 0;
    assert_int_equal(forge_engine_open(&e, &o, &err), FG_EINTEGRITY);
    f = fopen(package, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    fputc(c, f);
    assert_int_equal(fclose(f), 0);
}

struct lines {
    char text[4][160];
    int n;
};

static void keep_line(void *ctx, enum forge_log_level level, const char *line)
{
    struct lines *l = ctx;
    assert_int_equal(level, FORGE_LOG_INFO);
    if (l->n < 4) snprintf(l->text[l->n], sizeof l->text[0], "%s", line);
    l->n++;
}

static void test_ladder(void **state)
{
    (void)state;
    struct forge_engine_options o = engine_options(bundle);
    struct forge_engine *e = open_engine(&o);
    struct lines lines = {0};
    struct forge_session *s =
        open_session(e, &(struct forge_session_options){
                            .log_level = FORGE_LOG_INFO, .log = keep_line, .log_ctx = &lines});
    struct fg_error err = {0};
    assert_int_equal(forge_session_entry(s), 256);
    const uint64_t small = forge_session_kv_bytes(s);
    run(s, 0, 256, NULL);
    assert_int_equal(forge_session_entry(s), 256);
    run(s, 256, 1, NULL);
    assert_int_equal(forge_session_entry(s), 512);
    assert_int_equal(forge_session_kv_bytes(s), 2 * small);
    assert_int_equal(lines.n, 1);
    assert_non_null(strstr(lines.text[0], "[ctx] 256 -> 512 at pos 256"));
    check(forge_session_fit(s, 600, &err), &err);
    assert_int_equal(forge_session_entry(s), 1024);
    assert_int_equal(forge_session_fit(s, 1025, &err), FG_EINPUT);
    forge_session_reset(s);
    assert_int_equal(forge_session_entry(s), 256);
    assert_int_equal(forge_session_kv_bytes(s), small);
    assert_int_equal(lines.n, 3);
    // More memory than any machine has must stay free: there is none for a conversation. Unless
    // nobody asks.
    struct forge_session *other;
    const struct forge_session_options poor = {.reserve_bytes = INT64_MAX};
    assert_int_equal(forge_session_new(&other, e, &poor, &err), FG_ERESOURCE);
    assert_non_null(strstr(err.found, "context 256 needs "));
    other = open_session(e, &(struct forge_session_options){.reserve_bytes = -1});
    forge_session_free(other);
    const struct forge_session_options wrong = {.reserve_bytes = -2};
    assert_int_equal(forge_session_new(&other, e, &wrong, &err), FG_EINPUT);
    forge_session_free(s);
    forge_engine_close(e);
}

static void test_tried_rows(void **state)
{
    (void)state;
    struct forge_engine_options o = engine_options(bundle);
    struct forge_engine *e = open_engine(&o);
    struct forge_session *plain = open_session(e, NULL), *s = open_session(e, NULL);
    struct fg_error err = {0};
    float *want = rows_of(e, 300, 0), *got = rows_of(e, 8, 0);
    struct forge_engine_info info;
    forge_engine_info(e, &info);
    const size_t row = (size_t)info.vocab * sizeof *want;
    run(plain, 0, 300, want);
    // Eight rows tried at a time, of which some are taken.
    int64_t pos = 0;
    for (int64_t k = 1; pos + 8 <= 300; k = k % 8 + 1) {
        int32_t best_ids[8];
        float best_logits[8], lse[8];
        const struct forge_feed feed = {.ids = ids + pos, .n = 8, .logits = got, .n_out = 8};
        struct forge_best best = {.k = 1, .ids = best_ids, .logits = best_logits, .lse = lse};
        const struct forge_feed again = {.ids = ids + pos, .n = 8, .best = &best, .n_out = 8};
        check(forge_session_verify(s, &feed, &err), &err);
        assert_int_equal(forge_session_tried(s), 8);
        assert_int_equal(forge_session_position(s), pos);
        assert_memory_equal(got, want + pos * info.vocab, 8 * row);
        check(forge_session_verify(s, &again, &err), &err);
        assert_false(best.nan);
        for (int t = 0; t < 8; t++)
            assert_true(best_logits[t] == got[t * info.vocab + best_ids[t]]);
        assert_int_equal(forge_session_accept(s, 9, &err), FG_EINPUT);
        check(forge_session_accept(s, k, &err), &err);
        if (k == 3) forge_session_flush(s);
        pos += k;
        assert_int_equal(forge_session_position(s), pos);
        assert_int_equal(forge_session_tried(s), 0);
    }
    const struct forge_feed nine = {.ids = ids, .n = 9};
    assert_int_equal(forge_session_verify(s, &nine, &err), FG_EINPUT);
    // Rows of two sessions in one pass.
    struct forge_session *other = open_session(e, NULL), *both[] = {s, other};
    const int64_t n_rows[] = {3, 4};
    int32_t mixed[7];
    memcpy(mixed, ids + pos, 3 * sizeof *ids);
    memcpy(mixed + 3, ids, 4 * sizeof *ids);
    const struct forge_feed feed = {.ids = mixed, .n = 7, .logits = got, .n_out = 7};
    check(forge_session_verify_batch(both, n_rows, 2, &feed, &err), &err);
    assert_memory_equal(got, want + pos * info.vocab, 3 * row);
    assert_memory_equal(got + 3 * info.vocab, want, 4 * row);
    free(want);
    free(got);
    forge_session_free(other);
    forge_session_free(plain);
    forge_session_free(s);
    forge_engine_close(e);
}

struct taken {
    float *rows; // [N][hidden] of layer_out of one layer
    int64_t hidden;
    int layer;
};

static void on_tap(void *ctx, const char *name, int layer, int64_t pos, int64_t n, int64_t width,
                   const float *data, int64_t stride)
{
    struct taken *t = ctx;
    if (layer != t->layer || strcmp(name, "layer_out") != 0) return;
    for (int64_t r = 0; r < n; r++)
        memcpy(t->rows + (pos + r) * t->hidden, data + r * stride, (size_t)width * sizeof *data);
}

static void test_layer_taps(void **state)
{
    (void)state;
    static const int64_t layers[] = {1, 3}, wrong[] = {3, 1};
    struct forge_engine_options o = engine_options(bundle);
    struct forge_engine *e = open_engine(&o);
    struct forge_session *s = open_session(e, &(struct forge_session_options){.rows = 7});
    struct forge_engine_info info;
    struct fg_error err = {0};
    forge_engine_info(e, &info);
    const int64_t H = info.hidden;
    struct taken t = {rows_of(e, 40, H), H, 3};
    float *taps = rows_of(e, 40, 2 * H);
    assert_int_equal(forge_session_set_layer_taps(s, wrong, 2, &err), FG_EINPUT);
    check(forge_session_set_layer_taps(s, layers, 2, &err), &err);
    forge_session_tap(s, on_tap, &t);
    const struct forge_feed feed = {.ids = ids, .n = 30, .taps = taps};
    check(forge_session_feed(s, &feed, &err), &err);
    const struct forge_feed tried = {.ids = ids + 30, .n = 8, .taps = taps + 30 * 2 * H};
    check(forge_session_verify(s, &tried, &err), &err);
    for (int64_t r = 0; r < 38; r++)
        assert_memory_equal(taps + (2 * r + 1) * H, t.rows + r * H, (size_t)H * sizeof *taps);
    free(taps);
    free(t.rows);
    forge_session_free(s);
    forge_engine_close(e);
}

struct countdown {
    int left;
};

static bool count_down(void *ctx)
{
    struct countdown *c = ctx;
    return c->left-- == 0;
}

static void test_cancel(void **state)
{
    (void)state;
    struct forge_engine_options o = engine_options(bundle);
    struct forge_engine *e = open_engine(&o);
    struct forge_session *s = open_session(e, &(struct forge_session_options){.rows = 16});
    struct forge_engine_info info;
    struct fg_error err = {0};
    forge_engine_info(e, &info);
    float *want = rows_of(e, 64, 0), *got = rows_of(e, 1, 0);
    run(s, 0, 64, want);
    forge_session_reset(s);
    // Stopped in the second block of four: the first stays.
    struct countdown c = {(int)info.n_layers + 2};
    const struct forge_feed feed = {
        .ids = ids, .n = 64, .logits = got, .n_out = 1, .cancel = count_down, .ctx = &c};
    assert_int_equal(forge_session_feed(s, &feed, &err), FG_EINTERRUPTED);
    assert_int_equal(forge_session_position(s), 16);
    c.left = 1;
    const struct forge_feed tried = {.ids = ids + 16, .n = 4, .cancel = count_down, .ctx = &c};
    assert_int_equal(forge_session_verify(s, &tried, &err), FG_EINTERRUPTED);
    assert_int_equal(forge_session_tried(s), 0);
    check(forge_session_run(s, ids + 16, 48, got, 1, NULL, NULL, &err), &err);
    assert_memory_equal(got, want + 63 * info.vocab, (size_t)info.vocab * sizeof *got);
    free(want);
    free(got);
    forge_session_free(s);
    forge_engine_close(e);
}

static void test_snapshots(void **state)
{
    (void)state;
    struct forge_engine_options o = engine_options(bundle);
    struct forge_engine *e = open_engine(&o);
    struct forge_session *s = open_session(e, NULL);
    struct forge_engine_info info;
    struct fg_error err = {0};
    struct forge_snapshot *at, *live, *read;
    forge_engine_info(e, &info);
    const size_t row = (size_t)info.vocab * sizeof(float);
    float *want = rows_of(e, 1, 0), *got = rows_of(e, 1, 0);
    run(s, 0, 300, NULL);
    check(forge_snapshot_take(&at, s, FORGE_SNAPSHOT_DETACH, &err), &err);
    check(forge_snapshot_take(&live, s, FORGE_SNAPSHOT_LIVE, &err), &err);
    assert_int_equal(forge_snapshot_pos(at), 300);
    assert_memory_equal(forge_snapshot_ids(at), ids, 300 * sizeof *ids);
    run(s, 300, 1, want);
    // Another conversation over the same rows: one copy is kept, the other snapshot is lost.
    forge_session_reset(s);
    run(s, 100, 400, NULL);
    assert_true(forge_snapshot_valid(at));
    assert_false(forge_snapshot_valid(live));
    assert_true(forge_snapshot_bytes(at) > 0);
    assert_int_equal(forge_snapshot_restore(s, live, 0, &err), FG_EFAILED);
    check(forge_snapshot_restore(s, at, 600, &err), &err);
    assert_int_equal(forge_session_position(s), 300);
    assert_int_equal(forge_session_entry(s), 1024);
    run(s, 300, 1, got);
    assert_memory_equal(want, got, row);

    // Through a file, into another session.
    const char *path = scratch_path(&scratch, "kept.fkc");
    check(forge_snapshot_write(at, path, &err), &err);
    struct forge_session *other = open_session(e, NULL);
    check(forge_snapshot_read(&read, other, path, &err), &err);
    assert_true(forge_snapshot_valid(read));
    check(forge_snapshot_restore(other, read, 0, &err), &err);
    memset(got, 0, row);
    run(other, 300, 1, got);
    assert_memory_equal(want, got, row);
    forge_session_free(other);

    // Save and load are the same file; another format is refused and leaves nothing.
    path = scratch_path(&scratch, "saved.fkc");
    check(forge_session_rewind(s, 0) ? 0 : 1, &err);
    run(s, 0, 300, NULL);
    check(forge_session_save(s, path, &err), &err);
    forge_session_reset(s);
    check(forge_session_load(s, path, &err), &err);
    assert_int_equal(forge_session_position(s), 300);
    memset(got, 0, row);
    run(s, 300, 1, got);
    assert_memory_equal(want, got, row);
    other = open_session(e, &(struct forge_session_options){.kv_cache_dtype = "fp16"});
    run(other, 0, 5, NULL);
    assert_int_equal(forge_session_load(other, path, &err), FG_EINTEGRITY);
    assert_int_equal(forge_session_position(other), 0);
    forge_session_free(other);

    // Wholly detached, one outlives its session.
    check(forge_snapshot_detach(at, 0, &err), &err);
    forge_session_free(s);
    s = open_session(e, NULL);
    check(forge_snapshot_restore(s, at, 0, &err), &err);
    memset(got, 0, row);
    run(s, 300, 1, got);
    assert_memory_equal(want, got, row);
    forge_snapshot_free(at);
    forge_snapshot_free(live);
    forge_snapshot_free(read);
    free(want);
    free(got);
    forge_session_free(s);
    forge_engine_close(e);
}

static void test_pretend(void **state)
{
    (void)state;
    struct forge_engine_options o = engine_options(bundle);
    struct forge_engine *e = open_engine(&o);
    struct forge_session *s = open_session(e, NULL);
    struct fg_error err = {0};
    check(forge_session_pretend(s, 700, 1, &err), &err);
    assert_int_equal(forge_session_position(s), 700);
    assert_int_equal(forge_session_entry(s), 1024);
    run(s, 0, 8, NULL);
    assert_int_equal(forge_session_position(s), 708);
    assert_int_equal(forge_session_pretend(s, 100, 1, &err), FG_EINPUT);
    forge_session_free(s);
    forge_engine_close(e);
}

static int set_up(void **state)
{
    (void)state;
    struct fg_error err = {0};
    struct fg_convert_result r;
    const struct fg_convert_options o = {
        .ctxs = {256, 512, 1024}, .n_ctxs = 3, .kv = FG_CONVERT_KV_FP16 | FG_CONVERT_KV_KV8};
    scratch_open(&scratch);
    check(fg_convert(&r, EXPORT, scratch.dir, &o, &err), &err);
    snprintf(bundle, sizeof bundle, "%s", r.dir);
    snprintf(package, sizeof package, "%s/head.safetensors", r.build);
    fg_convert_result_free(&r);
    struct forge_engine_options eo = engine_options(bundle);
    struct forge_engine *e = open_engine(&eo);
    struct forge_engine_info info;
    forge_engine_info(e, &info);
    for (int i = 0; i < N; i++)
        ids[i] = (int32_t)((i * 7919 + i * i + 13) % info.vocab);
    forge_engine_close(e);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_close(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_build_offers),
        cmocka_unit_test(test_refused_before_weights),
        cmocka_unit_test(test_ladder),
        cmocka_unit_test(test_tried_rows),
        cmocka_unit_test(test_layer_taps),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_snapshots),
        cmocka_unit_test(test_pretend),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
