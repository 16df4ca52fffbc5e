// What fits and what does not, with numbers put in by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "runtime/budget.h"
#include <stdio.h>
#include <string.h>

#define GIB (1ull << 30)

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
                              .conv_kernel = 4,
                              .n_k_heads = 16,
                              .n_v_heads = 48,
                              .k_head_dim = 128,
                              .v_head_dim = 128};
}

struct lines {
    char text[512];
    int n;
};

static void sink(void *ctx, enum fg_log_level level, const char *line)
{
    struct lines *l = ctx;
    assert_int_equal(level, FG_LOG_WARN);
    snprintf(l->text, sizeof l->text, "%s", line);
    l->n++;
}

static void test_parts(void **state)
{
    (void)state;
    struct fg_config c = config();
    struct fg_budget b;
    fg_budget_make(&b, &c, 10 * GIB, 8192, 64);
    assert_int_equal(b.weights, 10 * GIB);
    assert_int_equal(b.states, 48ull * (48 * 128 * 128 + 3 * 10240) * 4);
    assert_int_equal(b.kv, 8192ull * 16 * 2 * 4 * 256 * 4); // FP32 in this step
    assert_true(b.scratch > 64 * (5120 + 17408) * 4 && b.scratch < 128ull << 20);
    assert_true(b.available > 0);
    assert_int_equal(fg_budget_need(&b), b.weights + b.states + b.kv + b.scratch + b.reserve);
    b.weights = UINT64_MAX - 5;
    assert_int_equal(fg_budget_need(&b), UINT64_MAX);
}

static void test_verdicts(void **state)
{
    (void)state;
    struct fg_config c = config();
    struct fg_budget b = {.weights = 10 * GIB, .kv = 2 * GIB, .reserve = GIB};
    struct fg_error err = {0};
    struct lines seen = {0};
    const struct fg_log log = {.level = FG_LOG_WARN, .sink = sink, .ctx = &seen};

    b.available = 13 * GIB;
    assert_int_equal(fg_budget_check(&b, &c, "m", false, &log, &err), 0);
    assert_int_equal(seen.n, 0);

    b.available = 12 * GIB; // half of the context
    assert_int_equal(fg_budget_check(&b, &c, "m", false, &log, &err), 0);
    assert_int_equal(seen.n, 1);
    assert_non_null(strstr(seen.text, "8192 positions"));

    b.available = 11 * GIB - 1;
    assert_int_equal(fg_budget_check(&b, &c, "m", false, &log, &err), FG_ERESOURCE);
    assert_string_equal(err.expected, "11.0 GiB");
    assert_non_null(strstr(err.found, "available; the weights alone are 10.0 GiB"));
    assert_non_null(strstr(err.hint, "--allow-paging"));
    assert_int_equal(seen.n, 1);
    assert_int_equal(fg_budget_check(&b, &c, "m", true, &log, &err), 0);
    assert_int_equal(seen.n, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts),
                                       cmocka_unit_test(test_verdicts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
