// Which contexts and formats a build and a checkpoint offer, and what is picked of them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "runtime/contexts.h"
#include <string.h>

static struct fg_manifest manifest(const int64_t *ctxs, int n)
{
    struct fg_manifest m = {.model.head_dim = 256, .n_ctxs = n};
    fg_manifest_defaults(&m);
    for (int i = 0; i < n; i++)
        m.ctxs[i] = m.kv_len[i] = ctxs[i];
    return m;
}

static const int64_t ladder[] = {8192, 16384, 32768, 65536};

static void test_build(void **state)
{
    (void)state;
    const struct fg_manifest m = manifest(ladder, 4);
    struct fg_contexts c;
    struct fg_context x;
    struct fg_error err = {0};
    fg_contexts_of_build(&c, &m, 262144);
    assert_int_equal(fg_contexts_pick(&x, &c, 0, "m", &err), 0);
    assert_int_equal(x.entry, 16384);
    assert_int_equal(x.n_entries, 2);
    assert_int_equal(fg_contexts_pick(&x, &c, 65536, "m", &err), 0);
    assert_int_equal(x.capacity, 65536);
    assert_int_equal(x.n_entries, 4);
    assert_memory_equal(x.entries, ladder, sizeof ladder);
    assert_int_equal(fg_contexts_pick(&x, &c, 10000, "m", &err), FG_EINPUT);
    assert_string_equal(err.field, "ctx");
    assert_string_equal(err.expected, "8192, 16384, 32768, 65536");
    assert_string_equal(err.found, "10000");
    assert_int_equal(fg_contexts_holding(&c, 1), 8192);
    assert_int_equal(fg_contexts_holding(&c, 8192), 8192);
    assert_int_equal(fg_contexts_holding(&c, 8193), 16384);
    assert_int_equal(fg_contexts_holding(&c, 65537), 0);
    // Without any entry up to the default the smallest is it.
    const struct fg_manifest large = manifest(ladder + 2, 2);
    fg_contexts_of_build(&c, &large, 262144);
    assert_int_equal(fg_contexts_pick(&x, &c, 0, "m", &err), 0);
    assert_int_equal(x.entry, 32768);
}

// Entries that hold fewer rows than their name says, and a model shorter than its entries.
static void test_rows(void **state)
{
    (void)state;
    struct fg_manifest m = manifest(ladder, 4);
    struct fg_contexts c;
    struct fg_context x;
    struct fg_error err = {0};
    m.kv_len[3] = 65472;
    fg_contexts_of_build(&c, &m, 262144);
    assert_int_equal(fg_contexts_pick(&x, &c, 65536, "m", &err), 0);
    assert_int_equal(x.entry, 65536);
    assert_int_equal(x.capacity, 65472);
    assert_int_equal(fg_contexts_holding(&c, 65500), 0);
    fg_contexts_of_build(&c, &m, 9000);
    assert_int_equal(fg_contexts_pick(&x, &c, 32768, "m", &err), 0);
    assert_int_equal(x.capacity, 9000);
    assert_int_equal(x.n_entries, 2); // 8192, 9000
    assert_int_equal(x.entries[1], 9000);
}

static void test_formats(void **state)
{
    (void)state;
    struct fg_manifest m = manifest(ladder, 4);
    struct fg_contexts c;
    struct fg_error err = {0};
    enum fg_kv_format f;
    m.kv.offers[FG_KV_V8] = false;
    fg_contexts_of_build(&c, &m, 262144);
    assert_int_equal(fg_contexts_kv(&f, &c, NULL, "m", &err), 0);
    assert_int_equal(f, FG_KV_KV8);
    assert_true(c.rotated[FG_KV_KV8]);
    assert_false(c.rotated[FG_KV_FP16]);
    assert_int_equal(fg_contexts_kv(&f, &c, "auto", "m", &err), 0);
    assert_int_equal(f, FG_KV_KV8);
    assert_int_equal(fg_contexts_kv(&f, &c, "fp16", "m", &err), 0);
    assert_int_equal(f, FG_KV_FP16);
    assert_int_equal(fg_contexts_kv(&f, &c, "f32", "m", &err), 0);
    assert_int_equal(f, FG_KV_F32);
    assert_int_equal(fg_contexts_kv(&f, &c, "v8", "m", &err), FG_EINPUT);
    assert_string_equal(err.field, "kv_cache_dtype");
    assert_string_equal(err.expected, "auto, fp16, kv8, f32");
    assert_int_equal(fg_contexts_kv(&f, &c, "kv4", "m", &err), FG_EINPUT);
    // A manifest without the key offers fp16 alone.
    m.kv.given = false;
    fg_contexts_of_build(&c, &m, 262144);
    assert_int_equal(fg_contexts_kv(&f, &c, NULL, "m", &err), 0);
    assert_int_equal(f, FG_KV_FP16);
    assert_int_equal(fg_contexts_kv(&f, &c, "kv8", "m", &err), FG_EINPUT);
}

static void test_checkpoint(void **state)
{
    (void)state;
    struct fg_config cfg = {.max_positions = 40000, .head_dim = 64};
    struct fg_contexts c;
    struct fg_context x;
    struct fg_error err = {0};
    enum fg_kv_format f;
    fg_contexts_of_config(&c, &cfg, true);
    assert_int_equal(c.n, 4);
    assert_int_equal(c.entries[3], 40000);
    assert_int_equal(fg_contexts_pick(&x, &c, 0, "m", &err), 0);
    assert_int_equal(x.capacity, 16384);
    assert_int_equal(fg_contexts_pick(&x, &c, 9001, "m", &err), 0);
    assert_int_equal(x.capacity, 9001);
    assert_int_equal(x.n_entries, 2);
    assert_int_equal(fg_contexts_pick(&x, &c, 40001, "m", &err), FG_EINPUT);
    assert_non_null(strstr(err.expected, "40000, the model's maximum"));
    assert_int_equal(fg_contexts_holding(&c, 123), 123);
    assert_int_equal(fg_contexts_holding(&c, 40001), 0);
    assert_int_equal(fg_contexts_kv(&f, &c, NULL, "m", &err), 0);
    assert_int_equal(f, FG_KV_KV8);
    assert_true(c.rotated[FG_KV_KV8]);
    fg_contexts_of_config(&c, &cfg, false);
    assert_int_equal(fg_contexts_kv(&f, &c, "auto", "m", &err), 0);
    assert_int_equal(f, FG_KV_F32);
    static const int64_t plain[] = {4, 80, 96, 2048};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        cfg.head_dim = plain[i];
        fg_contexts_of_config(&c, &cfg, true);
        assert_false(c.rotated[FG_KV_KV8]);
    }
    cfg.max_positions = 100;
    fg_contexts_of_config(&c, &cfg, true);
    assert_int_equal(fg_contexts_pick(&x, &c, 0, "m", &err), 0);
    assert_int_equal(x.capacity, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_build), cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_formats),
                                       cmocka_unit_test(test_checkpoint)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
