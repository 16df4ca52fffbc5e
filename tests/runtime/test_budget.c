// What fits and what does not: the numbers of the 27B model by context and format, buffers beside
// what a workspace really has, and verdicts with numbers put in by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "model/graph.h"
#include "runtime/budget.h"
#include <stdio.h>
#include <string.h>

#define GIB (1ull << 30)
#define MIB (1ull << 20)

// The 27B's extents as far as memory goes.
static struct fg_config config(void)
{
    return (struct fg_config){.vocab = 248320,
                              .hidden = 5120,
                              .intermediate = 17408,
                              .n_layers = 64,
                              .n_linear = 48,
                              .n_full = 16,
                              .n_heads = 24,
                              .n_kv_heads = 4,
                              .head_dim = 256,
                              .output_gate = true,
                              .rot = 64,
                              .max_positions = 262144,
                              .conv_kernel = 4,
                              .n_k_heads = 16,
                              .n_v_heads = 48,
                              .k_head_dim = 128,
                              .v_head_dim = 128};
}

static const int64_t ladder[] = {8192, 16384, 32768, 65536, 98304, 131072, 196608};
#define N_LADDER 7

static struct fg_budget_options options(enum fg_kv_format kv)
{
    return (struct fg_budget_options){.weight_bytes = 10 * GIB,
                                      .quantized = true,
                                      .fast = true,
                                      .kv = kv,
                                      .entries = ladder,
                                      .n_entries = N_LADDER,
                                      .rows = 64,
                                      .threads = 2};
}

// The table of the specification (runtime 3.5).
static void test_table(void **state)
{
    (void)state;
    static const struct {
        enum fg_kv_format kv;
        uint64_t position, mib[N_LADDER];
    } want[] = {
        {FG_KV_FP16, 65536, {512, 1024, 2048, 4096, 6144, 8192, 12288}},
        {FG_KV_V8, 49280, {385, 770, 1540, 3080, 4620, 6160, 9240}},
        {FG_KV_KV8, 33024, {258, 516, 1032, 2064, 3096, 4128, 6192}},
        {FG_KV_F32, 131072, {1024, 2048, 4096, 8192, 12288, 16384, 24576}},
    };
    const struct fg_config c = config();
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        const struct fg_budget_options o = options(want[i].kv);
        struct fg_budget b;
        fg_budget_make(&b, &c, &o);
        assert_int_equal(b.kv_position, want[i].position);
        assert_int_equal(b.n_entries, N_LADDER);
        for (int e = 0; e < N_LADDER; e++) {
            assert_int_equal(b.entries[e].ctx, ladder[e]);
            assert_int_equal(b.entries[e].kv, want[i].mib[e] * MIB);
            assert_int_equal(b.entries[e].total,
                             b.weights + b.states + b.entries[e].kv + b.entries[e].scratch);
        }
    }
}

static void test_parts(void **state)
{
    (void)state;
    const struct fg_config c = config();
    struct fg_budget_options o = options(FG_KV_KV8);
    struct fg_budget b;
    fg_budget_make(&b, &c, &o);
    assert_int_equal(b.weights, 10 * GIB);
    const uint64_t states = 48ull * (48 * 128 * 128 + 3 * 10240) * 4;
    const uint64_t tried = 48ull * 8 * (16 * 128 + 48 * 128 + 48 + 10240) * 4;
    assert_int_equal(b.states, 2 * states + 2 * tried);
    assert_int_equal(b.reserve, 256 * MIB);
    assert_true(b.available > 0);
    assert_int_equal(fg_budget_need(&b, 2), b.entries[2].total + b.reserve);
    // Buffers follow the rows of a call, and a little the context.
    assert_true(b.entries[0].scratch > 20 * MIB && b.entries[0].scratch < 80 * MIB);
    assert_true(b.entries[6].scratch > b.entries[0].scratch);
    const uint64_t few = b.entries[0].scratch;
    o.rows = 512;
    fg_budget_make(&b, &c, &o);
    assert_true(b.entries[0].scratch > 4 * few);
    // A call has never more rows than the largest context.
    o.n_entries = 1;
    o.rows = 8192;
    fg_budget_make(&b, &c, &o);
    const uint64_t most = b.entries[0].scratch;
    o.rows = 100000;
    fg_budget_make(&b, &c, &o);
    assert_int_equal(b.entries[0].scratch, most);
    o.weight_bytes = UINT64_MAX - 5;
    fg_budget_make(&b, &c, &o);
    assert_int_equal(fg_budget_need(&b, 0), UINT64_MAX);
    assert_int_equal(b.entries[0].verdict, FG_BUDGET_NO);
}

// The estimate lists what a workspace allocates: within 5 %.
static void test_scratch_is_the_workspace(void **state)
{
    (void)state;
    static const char *const models[] = {"models/a-s0", "models/chat-tiny", "exports/hybrid",
                                         "exports/hybrid-i8", "exports/dense"};
    static const int64_t rows[] = {1, 8, 64, 500}, contexts[] = {600, 5000, 20000};
    for (size_t i = 0; i < sizeof models / sizeof models[0] * 12 * 2; i++) {
        const int64_t T = rows[i % 4], ctx = contexts[i / 4 % 3];
        const bool fast = i / 12 % 2;
        char path[512];
        struct fg_model *m;
        struct fg_workspace *ws;
        struct fg_pool *pool;
        struct fg_error err = {0};
        snprintf(path, sizeof path, FORGE_GOLDEN_DIR "/%s", models[i / 24]);
        assert_int_equal(fg_model_open(&m, path, false, NULL, &err), 0);
        assert_int_equal(fg_pool_new(&pool, 1 + (int)(i % 3), &err), 0);
        struct fg_workspace_options wo = {.pool = pool, .fast = fast, .T_max = T < 8 ? 8 : T};
        assert_int_equal(fg_kernels_get(&wo.kernels, NULL, &err), 0);
        assert_int_equal(fg_workspace_new(&ws, m, &wo, &err), 0);
        assert_int_equal(fg_workspace_fit(ws, m, ctx, &err), 0);
        const struct fg_budget_options o = {.quantized = m->quantized,
                                            .fast = fast,
                                            .rows = T,
                                            .entries = &ctx,
                                            .n_entries = 1,
                                            .threads = fg_pool_threads(pool)};
        const double real = (double)fg_workspace_bytes(ws);
        const double estimate = (double)fg_budget_workspace_bytes(&m->config, &o, ctx);
        if (estimate < 0.95 * real || estimate > 1.05 * real)
            fail_msg("%s, %s, %lld rows, %lld positions: %.0f bytes, estimated %.0f",
                     models[i / 24], fast ? "fast" : "exact", (long long)T, (long long)ctx, real,
                     estimate);
        fg_workspace_free(ws);
        fg_pool_free(pool);
        fg_model_close(m);
    }
}

struct lines {
    char text[1024];
    int n;
};

static void sink(void *ctx, enum fg_log_level level, const char *line)
{
    struct lines *l = ctx;
    assert_int_equal(level, FG_LOG_WARN);
    snprintf(l->text, sizeof l->text, "%s", line);
    l->n++;
}

static void test_verdicts(void **state)
{
    (void)state;
    struct fg_budget b = {.weights = 10 * GIB,
                          .reserve = GIB,
                          .n_entries = 2,
                          .entries = {{.ctx = 8192, .kv = GIB, .total = 11 * GIB},
                                      {.ctx = 16384, .kv = 2 * GIB, .total = 12 * GIB}}};
    struct fg_error err = {0};
    struct lines seen = {0};
    const struct fg_log log = {.level = FG_LOG_WARN, .sink = sink, .ctx = &seen};

    fg_budget_judge(&b, 20 * GIB);
    assert_int_equal(b.entries[1].verdict, FG_BUDGET_FITS);
    fg_budget_judge(&b, 13 * GIB);
    assert_int_equal(b.entries[0].verdict, FG_BUDGET_TIGHT);
    assert_int_equal(b.entries[1].verdict, FG_BUDGET_TIGHT);
    assert_int_equal(fg_budget_largest(&b), 1);
    assert_int_equal(fg_budget_check(&b, "m", false, &log, &err), 0);
    assert_int_equal(seen.n, 0);

    fg_budget_judge(&b, 13 * GIB - 1); // the smaller context
    assert_int_equal(b.entries[1].verdict, FG_BUDGET_NO);
    assert_int_equal(fg_budget_largest(&b), 0);
    assert_int_equal(fg_budget_check(&b, "m", false, &log, &err), 0);
    assert_int_equal(seen.n, 1);
    assert_non_null(strstr(seen.text, "context 16384 needs 13.0 GiB"));
    assert_non_null(strstr(seen.text, "the largest that fits is 8192"));

    fg_budget_judge(&b, 12 * GIB - 1); // none: the table, then the error
    assert_int_equal(fg_budget_largest(&b), -1);
    assert_int_equal(fg_budget_check(&b, "m", false, &log, &err), FG_ERESOURCE);
    assert_int_equal(seen.n, 3);
    assert_non_null(strstr(seen.text, "context 16384: weights 10.0 GiB + KV 2.00 GiB"));
    assert_non_null(strstr(seen.text, "does not fit"));
    assert_string_equal(err.expected, "12.0 GiB");
    assert_non_null(strstr(err.found, "available; the weights alone are 10.0 GiB"));
    assert_non_null(strstr(err.hint, "--allow-paging"));
    assert_int_equal(fg_budget_check(&b, "m", true, &log, &err), 0);
    assert_int_equal(seen.n, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_parts),
                                       cmocka_unit_test(test_scratch_is_the_workspace),
                                       cmocka_unit_test(test_verdicts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
