// Statistics, runs between ceilings, reports and their comparison.
#include "eval/bench.h"
#include "base/file.h"
#include "base/json.h"
#include "support/scratch.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static struct scratch scratch;

static void test_stat(void **state)
{
    (void)state;
    double odd[] = {5, 1, 3};
    struct fg_bench_stat s = fg_bench_stat_of(odd, 3);
    assert_true(s.median == 3 && s.min == 1 && s.max == 5 && s.p90 == 5);
    double even[] = {4, 1, 2, 3};
    assert_true(fg_bench_stat_of(even, 4).median == 2.5);
    double one[] = {7};
    s = fg_bench_stat_of(one, 1);
    assert_true(s.median == 7 && s.p90 == 7);
    double ten[] = {10, 9, 8, 7, 6, 5, 4, 3, 2, 1};
    assert_true(fg_bench_stat_of(ten, 10).p90 == 9);
}

struct counts {
    int prepared, run, stop_at, fail_at;
};

static int prepare(void *ctx, struct fg_error *err)
{
    (void)err;
    struct counts *c = ctx;
    assert_int_equal(c->prepared, c->run);
    c->prepared++;
    return 0;
}

static int run(void *ctx, struct fg_error *err)
{
    struct counts *c = ctx;
    usleep(2000);
    return c->run++ == c->fail_at ? fg_fail(err, FG_EINPUT, "work", NULL, NULL, "a", "b") : 0;
}

static int stop(void *ctx)
{
    struct counts *c = ctx;
    return c->run >= c->stop_at;
}

static struct fg_bench bench_of(struct fg_bench_report *r, struct counts *c)
{
    struct fg_bench b = {.report = r, .roof_seconds = 0.0005, .runs = 4, .warmup = 2};
    struct fg_error err = {0};
    int n;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n);
    assert_int_equal(fg_roof_meter_new(&b.meter, 2, levels[n - 1]->isa, 1 << 20, &err), 0);
    b.stop = stop;
    b.ctx = c;
    return b;
}

static void test_measure(void **state)
{
    (void)state;
    struct fg_bench_report r = {.command = "rows"};
    struct counts c = {.stop_at = 100, .fail_at = -1};
    struct fg_bench b = bench_of(&r, &c);
    struct fg_error err = {0};
    struct fg_bench_figure *f = fg_bench_add(&r, "rows");
    assert_non_null(f);
    f->bytes = 1e6;
    f->mac[FG_ROOF_F32] = 1e6;
    struct fg_bench_work work = {prepare, run, &c, 2};
    assert_int_equal(fg_bench_measure(&b, &work, f, &err), 0);
    assert_int_equal(c.run, 6);
    assert_int_equal(c.prepared, 6);
    assert_int_equal(f->runs, 4);
    assert_true(f->seconds.min >= 0.001); // 2 ms cover two calls
    assert_true(f->seconds.min <= f->seconds.median && f->seconds.median <= f->seconds.p90);
    assert_true(f->roofs.read > 0 && f->read_share > 0);
    assert_true((f->share[FG_ROOF_F32] > 0) == (f->roofs.mac[FG_ROOF_F32] > 0));
    fg_roof_meter_free(b.meter);
    fg_bench_report_free(&r);
}

static void test_measure_ends(void **state)
{
    (void)state;
    struct fg_bench_report r = {.command = "rows"};
    struct counts c = {.stop_at = 100, .fail_at = 3};
    struct fg_bench b = bench_of(&r, &c);
    struct fg_error err = {0};
    struct fg_bench_figure f = {.name = "x"};
    struct fg_bench_work work = {prepare, run, &c, 1};
    assert_int_equal(fg_bench_measure(&b, &work, &f, &err), FG_EINPUT);
    c = (struct counts){.stop_at = 3, .fail_at = -1};
    assert_int_equal(fg_bench_measure(&b, &work, &f, &err), FG_EINTERRUPTED);
    assert_int_equal(c.run, 3);
    fg_roof_meter_free(b.meter);
}

static void fill(struct fg_bench_report *r, double one, double eight)
{
    *r = (struct fg_bench_report){.command = "rows", .isa = "ref", .numerics = "fast"};
    for (int i = 0; i < 2; i++) {
        struct fg_bench_figure *f = fg_bench_add(r, "rows");
        assert_non_null(f);
        f->rows = f->tokens = i ? 8 : 1;
        f->seconds.median = i ? eight : one;
    }
}

static void test_baseline(void **state)
{
    (void)state;
    struct fg_bench_report before, now;
    struct fg_jwrite w = {0};
    struct fg_error err = {0};
    fill(&before, 2, 6);
    before.figures[1].bytes = 12;
    fg_bench_json(&before, &w);
    assert_false(w.buf.failed);
    const char *path = scratch_path(&scratch, "before.json");
    assert_int_equal(fg_file_replace(path, w.buf.data, w.buf.len, &err), 0);
    struct fg_json doc;
    assert_int_equal(fg_json_parse(&doc, w.buf.data, w.buf.len, "report", &err), 0);
    fg_json_close(&doc);
    fg_jwrite_free(&w);

    fill(&now, 1, 12);
    now.figures[0].ctx = 5; // another figure
    assert_int_equal(fg_bench_baseline(&now, path, &err), 0);
    assert_true(now.figures[0].baseline_ratio == 0);
    assert_true(now.figures[1].baseline_ratio == 0.5);
    assert_true(fg_bench_token_rate(&now.figures[1]) == 8 / 12.0);
    now.command = "decode";
    assert_int_equal(fg_bench_baseline(&now, path, &err), FG_EINPUT);
    assert_int_equal(fg_bench_baseline(&now, scratch_path(&scratch, "none"), &err), FG_EINPUT);
    path = scratch_path(&scratch, "bad.json");
    now.command = "rows";
    static const char *const bad[] = {"", "[]", "{\"command\":\"rows\"}",
                                      "{\"command\":\"rows\",\"figures\":3}",
                                      "{\"command\":\"rows\",\"figures\":[{\"name\":5}]}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(fg_file_replace(path, bad[i], strlen(bad[i]), &err), 0);
        assert_int_equal(fg_bench_baseline(&now, path, &err), FG_EINPUT);
    }
    fg_bench_report_free(&before);
    fg_bench_report_free(&now);
}

static void test_ceilings(void **state)
{
    (void)state;
    int n;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n);
    for (int i = 0; i < n; i++) {
        struct fg_roof_loops loops;
        fg_roof_loops(&loops, levels[i]->isa);
        for (int kind = 0; kind < FG_ROOF_N_KINDS; kind++) {
            uint32_t sink = 0;
            if (loops.run[kind]) assert_true(loops.run[kind](&sink) > 0);
        }
        assert_true((strcmp(levels[i]->isa, "ref") == 0) == !loops.run[FG_ROOF_F32]);
    }
    struct fg_roof_loops none;
    fg_roof_loops(&none, "no such level");
    for (int kind = 0; kind < FG_ROOF_N_KINDS; kind++)
        assert_null(none.run[kind]);
    struct fg_roof_meter *m;
    struct fg_error err = {0};
    assert_int_equal(fg_roof_meter_new(&m, 0, "ref", 1 << 20, &err), FG_EINPUT);
    assert_null(m);
}

static void test_kernels(void **state)
{
    (void)state;
    struct fg_bench_report r = {.command = "kernels"};
    struct counts c = {.stop_at = 1 << 30, .fail_at = -1};
    struct fg_bench b = bench_of(&r, &c);
    struct fg_error err = {0};
    const struct fg_kernels *k;
    b.runs = 1;
    b.warmup = 0;
    assert_int_equal(fg_kernels_get(&k, NULL, &err), 0);
    assert_int_equal(fg_bench_kernels(&b, k, 2, 1 << 16, &err), 0);
    assert_true(r.n_figures > 40);
    for (int i = 0; i < r.n_figures; i++) {
        const struct fg_bench_figure *f = &r.figures[i];
        if (!(f->seconds.median > 0)) fail_msg("%s", f->name);
        if (!(f->bytes > 0 || f->mac[FG_ROOF_F32] > 0)) fail_msg("%s", f->name);
    }
    fg_roof_meter_free(b.meter);
    fg_bench_report_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stat),         cmocka_unit_test(test_measure),
        cmocka_unit_test(test_measure_ends), cmocka_unit_test(test_baseline),
        cmocka_unit_test(test_ceilings),     cmocka_unit_test(test_kernels),
    };
    scratch_open(&scratch);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close(&scratch);
    return rc;
}
