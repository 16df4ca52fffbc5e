// Quantized exports through the public API: logits against the Hugging Face implementation running
// the dequantized weights (tests/golden/exports, made by `forge quantize` and
// tests/reference/compare_export.py --save), the same bits however they are computed, fast numerics
// near exact ones, and the same from packages. hybrid-i8 has INT8 factors.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "bundle/convert.h"
#include "forge/forge.h"
#include "format/npy.h"
#include "support/scratch.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE 1e-4 // relative L2 per row
#define KL_MAX 1e-3    // nats, mean of fast from exact

static const char *const exports[] = {"hybrid", "hybrid-i8", "dense"};
static struct scratch scratch;

static void check(int rc, const struct fg_error *err)
{
    if (rc) fail_msg("%s: %s: %s, not %s", err->what, err->field, err->found, err->expected);
}

struct golden {
    char dir[512];
    struct fg_npy tokens, logits;
    int64_t n, vocab;
};

static void open_golden(struct golden *g, const char *name)
{
    char path[640];
    struct fg_error err = {0};
    snprintf(g->dir, sizeof g->dir, FORGE_GOLDEN_DIR "/exports/%s", name);
    snprintf(path, sizeof path, "%s/tokens.npy", g->dir);
    check(fg_npy_open(&g->tokens, path, &err), &err);
    snprintf(path, sizeof path, "%s/logits.npy", g->dir);
    check(fg_npy_open(&g->logits, path, &err), &err);
    g->n = (int64_t)g->logits.shape[0];
    g->vocab = (int64_t)g->logits.shape[1];
    assert_int_equal(g->tokens.n, g->n);
}

static void close_golden(struct golden *g)
{
    fg_npy_close(&g->tokens);
    fg_npy_close(&g->logits);
}

struct way {
    enum forge_numerics numerics;
    const char *isa; // NULL: the best
    int threads;
    int64_t rows;   // per call
    const char *kv; // NULL: the default
};

// Logits of all tokens, [n][vocab]; free them. best (may be NULL): ids of the likeliest.
static float *logits_of(const struct golden *g, const char *model, struct way w, int32_t *best)
{
    struct fg_error err = {0};
    struct forge_engine *e;
    struct forge_session *s;
    const struct forge_engine_options o = {.model = model,
                                           .threads = w.threads,
                                           .isa = w.isa,
                                           .numerics = w.numerics,
                                           .kv_cache_dtype = w.kv,
                                           .model_only = true};
    float *logits = malloc((size_t)(g->n * g->vocab) * sizeof *logits);
    assert_non_null(logits);
    check(forge_engine_open(&e, &o, &err), &err);
    const struct forge_session_options so = {.capacity = forge_context_for(e, g->n),
                                             .rows = w.rows};
    check(forge_session_new(&s, e, &so, &err), &err);
    check(forge_session_run(s, g->tokens.data, g->n, logits, g->n, NULL, NULL, &err), &err);
    if (best) {
        float *kept = malloc((size_t)g->n * 2 * sizeof *kept);
        assert_non_null(kept);
        struct forge_best b = {.k = 1, .ids = best, .logits = kept, .lse = kept + g->n};
        forge_session_reset(s);
        check(forge_session_run_best(s, g->tokens.data, g->n, &b, g->n, NULL, NULL, &err), &err);
        for (int64_t t = 0; t < g->n; t++)
            assert_true(kept[t] == logits[t * g->vocab + best[t]]);
        assert_false(b.nan);
        free(kept);
    }
    forge_session_free(s);
    forge_engine_close(e);
    return logits;
}

static int32_t argmax(const float *x, int64_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static void test_exact_logits_are_the_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof exports / sizeof exports[0]; i++) {
        struct golden g;
        open_golden(&g, exports[i]);
        int32_t *best = malloc((size_t)g.n * sizeof *best);
        assert_non_null(best);
        float *got = logits_of(&g, g.dir, (struct way){FORGE_EXACT, NULL, 2, 64, NULL}, best);
        const float *want = g.logits.data;
        for (int64_t t = 0; t < g.n; t++) {
            double d = 0, norm = 0;
            for (int64_t j = t * g.vocab; j < (t + 1) * g.vocab; j++) {
                d += ((double)got[j] - want[j]) * ((double)got[j] - want[j]);
                norm += (double)want[j] * want[j];
            }
            if (sqrt(d / norm) > TOLERANCE)
                fail_msg("%s, row %lld: relative L2 %g", exports[i], (long long)t, sqrt(d / norm));
            assert_int_equal(argmax(got + t * g.vocab, g.vocab),
                             argmax(want + t * g.vocab, g.vocab));
            assert_int_equal(best[t], argmax(got + t * g.vocab, g.vocab));
        }
        free(got);
        free(best);
        close_golden(&g);
    }
}

static void test_same_bits_in_every_way(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 4, 8, 64, 7};
    for (size_t i = 0; i < sizeof exports / sizeof exports[0]; i++) {
        for (int fast = 0; fast < 2; fast++) {
            struct golden g;
            open_golden(&g, exports[i]);
            enum forge_numerics numerics = fast ? FORGE_FAST : FORGE_EXACT;
            size_t bytes = (size_t)(g.n * g.vocab) * sizeof(float);
            float *first = logits_of(&g, g.dir, (struct way){numerics, "ref", 1, 64, NULL}, NULL);
            for (int level = 0; level < forge_isa_count(); level++) {
                for (int r = level % 5; r < level % 5 + 2; r++) {
                    struct way w = {numerics, forge_isa_name(level), 1 + r % 3, rows[r % 5], NULL};
                    float *again = logits_of(&g, g.dir, w, NULL);
                    if (memcmp(first, again, bytes) != 0)
                        fail_msg("%s, %s, %d threads, %lld rows: other bits", exports[i], w.isa,
                                 w.threads, (long long)w.rows);
                    free(again);
                }
            }
            free(first);
            close_golden(&g);
        }
    }
}

static void log_softmax(double *out, const float *x, int64_t n)
{
    double sum = 0, most = (double)x[argmax(x, n)];
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)x[i] - most);
    for (int64_t i = 0; i < n; i++)
        out[i] = (double)x[i] - most - log(sum);
}

static void test_fast_is_near_exact(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof exports / sizeof exports[0]; i++) {
        struct golden g;
        open_golden(&g, exports[i]);
        float *exact = logits_of(&g, g.dir, (struct way){FORGE_EXACT, NULL, 1, 64, NULL}, NULL);
        float *fast = logits_of(&g, g.dir, (struct way){FORGE_FAST, NULL, 1, 64, NULL}, NULL);
        double *p = malloc((size_t)g.vocab * 2 * sizeof *p), kl = 0;
        assert_non_null(p);
        assert_true(memcmp(exact, fast, (size_t)(g.n * g.vocab) * sizeof *fast) != 0);
        for (int64_t t = 0; t < g.n; t++) {
            log_softmax(p, exact + t * g.vocab, g.vocab);
            log_softmax(p + g.vocab, fast + t * g.vocab, g.vocab);
            for (int64_t j = 0; j < g.vocab; j++)
                kl += exp(p[j]) * (p[j] - p[g.vocab + j]) / (double)g.n;
        }
        if (!(kl < KL_MAX)) fail_msg("%s: KL %g", exports[i], kl);
        free(p);
        free(exact);
        free(fast);
        close_golden(&g);
    }
}

static void test_packages_give_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof exports / sizeof exports[0]; i++) {
        struct golden g;
        struct fg_error err = {0};
        struct fg_convert_result r;
        open_golden(&g, exports[i]);
        const struct fg_convert_options o = {0};
        check(fg_convert(&r, g.dir, scratch.dir, &o, &err), &err);
        size_t bytes = (size_t)(g.n * g.vocab) * sizeof(float);
        for (int fast = 0; fast < 2; fast++) {
            // By default a build has its manifest's format, an export that of the numerics.
            struct way w = {fast ? FORGE_FAST : FORGE_EXACT, NULL, 2, 8, fast ? "kv8" : "f32"};
            float *of_export = logits_of(&g, g.dir, w, NULL);
            float *of_bundle = logits_of(&g, r.dir, w, NULL);
            float *of_build = logits_of(&g, r.build, w, NULL);
            assert_memory_equal(of_export, of_bundle, bytes);
            assert_memory_equal(of_export, of_build, bytes);
            free(of_export);
            free(of_bundle);
            free(of_build);
        }
        fg_convert_result_free(&r);
        close_golden(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_logits_are_the_reference),
        cmocka_unit_test(test_same_bits_in_every_way),
        cmocka_unit_test(test_fast_is_near_exact),
        cmocka_unit_test(test_packages_give_the_same),
    };
    scratch_open(&scratch);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close(&scratch);
    return failed;
}
