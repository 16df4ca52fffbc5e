// Perplexity over windows against the logits of every position; KL by hand; what is scored where
// windows overlap; settings that are compared.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "eval/logits.h"
#include "eval/ppl.h"
#include "eval/report.h"
#include "format/npy.h"
#include "support/scratch.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MODELS FORGE_GOLDEN_DIR "/models"
#define N 300

static struct scratch scratch;

static void check(int rc, const struct fg_error *err)
{
    char line[1024];
    if (rc) fail_msg("%s", fg_error_line(err, line, sizeof line));
}

static struct forge_engine *open_model(const char *name, enum forge_numerics numerics)
{
    char dir[512];
    struct fg_error err = {0};
    struct forge_engine *e;
    snprintf(dir, sizeof dir, MODELS "/%s", name);
    const struct forge_engine_options o = {
        .model = dir, .threads = 2, .numerics = numerics, .model_only = true};
    check(forge_engine_open(&e, &o, &err), &err);
    return e;
}

static int32_t *read_ids(const char *name)
{
    char path[512];
    struct fg_error err = {0};
    int32_t *ids;
    size_t n;
    snprintf(path, sizeof path, MODELS "/%s/tokens.npy", name);
    check(fg_eval_read_ids(path, &ids, &n, &err), &err);
    assert_true(n >= N);
    return ids;
}

static int64_t vocab_of(const struct forge_engine *e)
{
    struct forge_engine_info info;
    forge_engine_info(e, &info);
    return info.vocab;
}

// Logits [n][vocab] of ids from an empty session, by another way.
static float *logits_of(struct forge_engine *e, const int32_t *ids, int64_t n)
{
    struct fg_error err = {0};
    struct fg_npy npy;
    const char *path = scratch_path(&scratch, "logits.npy");
    const struct fg_eval_logits job = {.ids = ids, .n = (size_t)n, .rows = 8, .out = path};
    check(fg_eval_logits(e, &job, &err), &err);
    check(fg_npy_open(&npy, path, &err), &err);
    size_t bytes = (size_t)(n * vocab_of(e)) * sizeof(float);
    float *out = malloc(bytes);
    assert_non_null(out);
    memcpy(out, npy.data, bytes);
    fg_npy_close(&npy);
    return out;
}

// ln of every probability of a row, in long double.
static void log_softmax(long double *out, const float *x, int64_t n)
{
    long double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        max = (long double)x[i] > max ? (long double)x[i] : max;
    for (int64_t i = 0; i < n; i++)
        sum += expl((long double)x[i] - max);
    for (int64_t i = 0; i < n; i++)
        out[i] = (long double)x[i] - max - logl(sum);
}

static struct fg_eval_ppl_result run(const struct fg_eval_ppl *job)
{
    struct fg_error err = {0};
    struct fg_eval_ppl_result r;
    check(fg_eval_ppl(job, &r, &err), &err);
    return r;
}

static void the_row_of_the_specs(void **state)
{
    (void)state;
    // p = 0.7, q = 0.6 of two.
    const float p[2] = {(float)log(0.7), (float)log(0.3)},
                q[2] = {(float)log(0.6), (float)log(0.4)};
    double work[3];
    bool top1;
    assert_true(fabs(fg_eval_kl(p, q, 2, work, &top1) - 0.021601) < 5e-7);
    assert_true(top1);
    assert_true(fabs(fg_eval_nll(q, 2, 1) + log(0.4)) < 1e-7);
    assert_true(fg_eval_kl(p, p, 2, work, &top1) == 0);
    // What p leaves out adds nothing, whatever q has there; the lowest of equals is the likeliest.
    const float far[3] = {0, 0, -2000}, near[3] = {1, 0, 0}, equal[3] = {0, 0, -INFINITY};
    double kl = fg_eval_kl(far, near, 3, work, &top1);
    double expected = log(exp(1.0) + 2) - log(2.0) - 0.5;
    assert_true(fabs(kl - expected) < 1e-12 && top1);
    assert_true(isfinite(fg_eval_kl(equal, near, 3, work, &top1)) && top1);
    assert_true(isinf(fg_eval_kl(near, equal, 3, work, &top1)));
    const float second[3] = {0, 2, 0};
    fg_eval_kl(near, second, 3, work, &top1);
    assert_false(top1);
    // Large logits: shares of e^1000.
    const float large[2] = {1000, 999};
    assert_true(fabs(fg_eval_nll(large, 2, 1) - log(1 + exp(1.0))) < 1e-12);
}

static void quantiles(void **state)
{
    (void)state;
    static const double v[5] = {1, 2, 4, 8, 16};
    assert_true(fg_eval_quantile(v, 5, 0.5) == 4);
    assert_true(fg_eval_quantile(v, 4, 0.5) == 3);
    assert_true(fabs(fg_eval_quantile(v, 5, 0.99) - (8 + 8 * 0.96)) < 1e-12);
    assert_true(fg_eval_quantile(v, 5, 1) == 16 && fg_eval_quantile(v, 1, 0.99) == 1);
}

// Whole windows, no overlap: the mean over each window's tokens but the first.
static void windows_from_empty_sessions(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 7, 64, 100};
    struct forge_engine *e = open_model("a-s0", FORGE_EXACT);
    int32_t *ids = read_ids("a-s0");
    int64_t vocab = vocab_of(e);
    long double *lp = malloc((size_t)vocab * sizeof *lp), sum = 0, last = 0;
    int64_t n_last = 0;
    for (int64_t w = 0; w < 3; w++) {
        float *logits = logits_of(e, ids + w * 90, 90);
        for (int64_t t = 1; t < 90; t++) {
            log_softmax(lp, logits + (t - 1) * vocab, vocab);
            sum -= lp[ids[w * 90 + t]];
            if (t < 68) continue; // 90 * 3 / 4, rounded up
            last -= lp[ids[w * 90 + t]];
            n_last++;
        }
        free(logits);
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct fg_eval_ppl job = {
            .ids = ids, .n = N, .window = 90, .stride = 90, .rows = rows[i], .side = {.engine = e}};
        struct fg_eval_ppl_result r = run(&job);
        assert_int_equal(r.windows, 3);
        assert_int_equal(r.all.tokens, 3 * 89);
        assert_int_equal(r.last.tokens, n_last);
        assert_int_equal(r.tokens_left_out, N - 270);
        assert_int_equal(r.tokens_run, 3 * 89);
        assert_true(fabs(r.all.nll - (double)(sum / (3 * 89))) < 1e-12);
        assert_true(fabs(r.last.nll - (double)(last / n_last)) < 1e-12);
        assert_true(r.all.ppl == exp(r.all.nll) && r.all.ref_nll == 0 && !r.stopped);
    }
    free(lp);
    free(ids);
    forge_engine_close(e);
}

// Every token once, with the history that its window has.
static void overlapping_windows(void **state)
{
    (void)state;
    struct forge_engine *e = open_model("h-s0", FORGE_EXACT);
    int32_t *ids = read_ids("h-s0");
    int64_t vocab = vocab_of(e), scored = 0;
    long double *lp = malloc((size_t)vocab * sizeof *lp), sum = 0;
    for (int64_t start = 0; start + 80 <= 200; start += 30) {
        float *logits = logits_of(e, ids + start, 80);
        for (int64_t t = start ? 50 : 1; t < 80; t++) {
            log_softmax(lp, logits + (t - 1) * vocab, vocab);
            sum -= lp[ids[start + t]];
            scored++;
        }
        free(logits);
    }
    const struct fg_eval_ppl job = {
        .ids = ids, .n = 200, .window = 80, .stride = 30, .rows = 16, .side = {.engine = e}};
    int64_t rows;
    assert_int_equal(fg_eval_ppl_windows(&job, &rows), 5);
    assert_int_equal(rows, 5 * 79);
    struct fg_eval_ppl_result r = run(&job);
    assert_int_equal(r.all.tokens, scored);
    assert_int_equal(r.all.tokens, 199); // 5 windows end at token 200: all but the first token
    assert_int_equal(r.tokens_left_out, 0);
    assert_true(fabs(r.all.nll - (double)(sum / scored)) < 1e-12);
    free(lp);
    free(ids);
    forge_engine_close(e);
}

static void a_text_shorter_than_a_window(void **state)
{
    (void)state;
    struct forge_engine *e = open_model("a-s0", FORGE_EXACT);
    int32_t *ids = read_ids("a-s0");
    struct fg_eval_ppl job = {
        .ids = ids, .n = 40, .window = 90, .stride = 90, .rows = 64, .side = {.engine = e}};
    struct fg_eval_ppl_result r = run(&job);
    assert_int_equal(r.windows, 1);
    assert_int_equal(r.all.tokens, 39);
    assert_int_equal(r.last.tokens, 10);
    assert_int_equal(r.tokens_left_out, 0);
    job.n = 2;
    job.window = job.stride = 2;
    r = run(&job);
    assert_int_equal(r.all.tokens, 1);
    free(ids);
    forge_engine_close(e);
}

static void the_same_settings_have_no_distance(void **state)
{
    (void)state;
    static const char *const models[] = {"a-s0", "h-s0"};
    for (size_t i = 0; i < 2; i++) {
        struct forge_engine *e = open_model(models[i], FORGE_EXACT);
        int32_t *ids = read_ids(models[i]);
        const struct fg_eval_side same = {.engine = e, .session = {.kv_cache_dtype = "kv8"}};
        const struct fg_eval_ppl job = {.ids = ids,
                                        .n = N,
                                        .window = 150,
                                        .stride = 150,
                                        .rows = 32,
                                        .side = same,
                                        .against = &same};
        struct fg_eval_ppl_result r = run(&job);
        assert_true(r.all.kl_mean == 0 && r.all.kl_max == 0 && r.all.kl_median == 0);
        assert_true(r.all.top1 == 1 && r.all.nll == r.all.ref_nll && r.all.ppl == r.all.ref_ppl);
        assert_true(r.last.kl_max == 0 && r.last.tokens > 0);
        free(ids);
        forge_engine_close(e);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Two engines that differ in numerics, one window: every figure from the logits of both.
static void the_distance_of_two_settings(void **state)
{
    (void)state;
    struct forge_engine *fast = open_model("h-s0", FORGE_FAST),
                        *exact = open_model("h-s0", FORGE_EXACT);
    int32_t *ids = read_ids("h-s0");
    int64_t vocab = vocab_of(fast), n = 120;
    float *q = logits_of(fast, ids, n), *p = logits_of(exact, ids, n);
    long double *lp = malloc((size_t)vocab * sizeof *lp), *lq = malloc((size_t)vocab * sizeof *lq);
    double kl[120], mean = 0, nll = 0, ref_nll = 0;
    int64_t same = 0;
    for (int64_t t = 0; t < n - 1; t++) {
        log_softmax(lp, p + t * vocab, vocab);
        log_softmax(lq, q + t * vocab, vocab);
        long double sum = 0;
        int64_t top_p = 0, top_q = 0;
        for (int64_t i = 0; i < vocab; i++) {
            sum += expl(lp[i]) * (lp[i] - lq[i]);
            if (lp[i] > lp[top_p]) top_p = i;
            if (lq[i] > lq[top_q]) top_q = i;
        }
        kl[t] = (double)sum;
        mean += kl[t] / (double)(n - 1);
        nll -= (double)lq[ids[t + 1]] / (double)(n - 1);
        ref_nll -= (double)lp[ids[t + 1]] / (double)(n - 1);
        same += top_p == top_q;
    }
    qsort(kl, (size_t)n - 1, sizeof kl[0], by_value);
    const struct fg_eval_side against = {.engine = exact};
    const struct fg_eval_ppl job = {.ids = ids,
                                    .n = n,
                                    .window = n,
                                    .stride = n,
                                    .rows = 50,
                                    .side = {.engine = fast},
                                    .against = &against};
    struct fg_eval_ppl_result r = run(&job);
    assert_true(mean > 1e-12); // else nothing is compared here
    assert_true(fabs(r.all.kl_mean - mean) < 1e-6 * mean + 1e-15);
    assert_true(fabs(r.all.kl_median - kl[59]) < 1e-6 * kl[59] + 1e-15);
    assert_true(fabs(r.all.kl_max - kl[118]) < 1e-6 * kl[118]);
    assert_true(fabs(r.all.nll - nll) < 1e-12 && fabs(r.all.ref_nll - ref_nll) < 1e-12);
    assert_true(r.all.top1 == (double)same / (double)(n - 1));
    free(lp);
    free(lq);
    free(p);
    free(q);
    free(ids);
    forge_engine_close(fast);
    forge_engine_close(exact);
}

// Formats and modes reach the sessions: each is another distance from FP32.
static void settings_reach_the_sessions(void **state)
{
    (void)state;
    struct forge_engine *e = open_model("a-s0", FORGE_EXACT);
    int32_t *ids = read_ids("a-s0");
    const struct forge_session_options sides[] = {
        {.kv_cache_dtype = "fp16"},
        {.kv_cache_dtype = "v8"},
        {.kv_cache_dtype = "kv8", .plain_kv = true},
        {.kv_cache_dtype = "kv8"},
        {.kv_cache_dtype = "v8", .plain_kv = true, .attention = FORGE_ATTENTION_SEED},
        {.kv_cache_dtype = "v8", .plain_kv = true, .attention = FORGE_ATTENTION_C2T},
    };
    const int n = sizeof sides / sizeof sides[0];
    const struct fg_eval_side against = {.engine = e, .session = {.kv_cache_dtype = "f32"}};
    double kl[8];
    for (int i = 0; i < n; i++) {
        const struct fg_eval_ppl job = {.ids = ids,
                                        .n = N,
                                        .window = N,
                                        .stride = N,
                                        .rows = 16,
                                        .side = {.engine = e, .session = sides[i]},
                                        .against = &against};
        kl[i] = run(&job).all.kl_mean;
        assert_true(kl[i] > 0 && kl[i] < 0.1);
        for (int j = 0; j < i; j++)
            assert_true(kl[j] != kl[i]);
    }
    assert_true(kl[0] < kl[1] && kl[1] < kl[2]); // fp16, v8, kv8
    assert_true(kl[5] > kl[4]);                  // c2t is the coarsest
    free(ids);
    forge_engine_close(e);
}

static int stop_at(void *ctx, int64_t done, int64_t total)
{
    assert_true(done <= total);
    return done >= *(int64_t *)ctx;
}

static void stopping_keeps_what_is_done(void **state)
{
    (void)state;
    struct forge_engine *e = open_model("a-s0", FORGE_EXACT);
    int32_t *ids = read_ids("a-s0");
    int64_t at = 120;
    struct fg_eval_ppl job = {.ids = ids,
                              .n = N,
                              .window = 100,
                              .stride = 100,
                              .rows = 10,
                              .side = {.engine = e},
                              .progress = stop_at,
                              .ctx = &at};
    struct fg_eval_ppl_result r = run(&job);
    assert_true(r.stopped);
    assert_int_equal(r.windows, 1);
    assert_int_equal(r.tokens_run, 129); // 99 of the first window, 30 of the second
    assert_int_equal(r.all.tokens, 129);
    at = 1000;
    assert_false(run(&job).stopped);
    free(ids);
    forge_engine_close(e);
}

static void what_is_refused(void **state)
{
    (void)state;
    struct forge_engine *e = open_model("a-s0", FORGE_EXACT),
                        *other = open_model("chat-tiny", FORGE_EXACT);
    int32_t *ids = read_ids("a-s0");
    struct fg_error err = {0};
    struct fg_eval_ppl_result r;
    struct fg_eval_ppl job = {
        .ids = ids, .n = N, .window = 100, .stride = 100, .rows = 10, .side = {.engine = e}};
    job.n = 1;
    assert_int_equal(fg_eval_ppl(&job, &r, &err), FG_EINPUT);
    job.n = N;
    ids[7] = (int32_t)vocab_of(e);
    assert_int_equal(fg_eval_ppl(&job, &r, &err), FG_EINPUT);
    assert_string_equal(err.field, "token 7");
    ids[7] = -1;
    assert_int_equal(fg_eval_ppl(&job, &r, &err), FG_EINPUT);
    ids[7] = 0;
    const struct fg_eval_side against = {.engine = other};
    job.against = &against;
    assert_int_equal(fg_eval_ppl(&job, &r, &err), FG_EINPUT);
    job.against = NULL;
    int64_t n = (int64_t)1 << 21; // beyond every position
    int32_t *many = calloc((size_t)n, sizeof *many);
    assert_non_null(many);
    job.ids = many;
    job.n = job.window = job.stride = n;
    assert_int_equal(fg_eval_ppl(&job, &r, &err), FG_EINPUT);
    assert_string_equal(err.field, "window");
    free(many);
    free(ids);
    forge_engine_close(e);
    forge_engine_close(other);
}

static void identities(void **state)
{
    (void)state;
    struct fg_error err = {0};
    struct fg_eval_identity a, b, file;
    check(fg_eval_identify(&a, MODELS "/a-s0", NULL, NULL, &err), &err);
    check(fg_eval_identify(&b, MODELS "/a-s1", NULL, NULL, &err), &err);
    check(fg_eval_identify(&file, MODELS "/a-s0/config.json", NULL, NULL, &err), &err);
    assert_int_equal(strlen(a.hex), 64);
    assert_false(a.declared);
    assert_string_not_equal(a.hex, b.hex);
    assert_string_not_equal(a.hex, file.hex);
    assert_int_equal(fg_eval_identify(&a, scratch.dir, NULL, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_eval_identify(&a, MODELS "/none", NULL, NULL, &err), FG_EINPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_row_of_the_specs),
        cmocka_unit_test(quantiles),
        cmocka_unit_test(windows_from_empty_sessions),
        cmocka_unit_test(overlapping_windows),
        cmocka_unit_test(a_text_shorter_than_a_window),
        cmocka_unit_test(the_same_settings_have_no_distance),
        cmocka_unit_test(the_distance_of_two_settings),
        cmocka_unit_test(settings_reach_the_sessions),
        cmocka_unit_test(stopping_keeps_what_is_done),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(identities),
    };
    scratch_open(&scratch);
    int failed = cmocka_run_group_tests_name("ppl", tests, NULL, NULL);
    scratch_close(&scratch);
    return failed;
}
