// Philox known answers, the goldens of specs: speculative 5.2, the order of the sampling steps, and
// the drawn distribution.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// cmocka needs those four first
#include <cmocka.h>

#include "spec/random.h"
#include "spec/sampler.h"

static void philox_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < 3; i++) {
        uint32_t out[4];
        fg_philox(out, cases[i].counter, cases[i].key);
        assert_memory_equal(out, cases[i].out, sizeof out);
    }
}

static void uniform_and_gumbel_goldens(void **state)
{
    (void)state;
    static const double u[] = {0.127207951819, 0.620832336394, 0.249172738051, 0.711526527568};
    static const double g[] = {-0.723643463, 0.740880035, -0.329022338, 1.077802586};
    for (uint32_t t = 0; t < 4; t++) {
        assert_true(fabs(fg_random_uniform(1234, t, 0, FG_RANDOM_TARGET) - u[t]) < 1e-11);
        assert_true(fabs(fg_random_gumbel(1234, t, 0, FG_RANDOM_TARGET) - g[t]) < 1e-8);
    }
    // The largest possible noise stays below the bound that the draw's early exit relies on.
    assert_true(-fg_ln(-fg_ln(1 - 0x1p-53)) <= FG_GUMBEL_MAX);
}

static void logarithm_and_exponential_are_accurate(void **state)
{
    (void)state;
    for (int i = 1; i < 200000; i++) {
        double u = fg_random_uniform(7, (uint32_t)i, 3, FG_RANDOM_TARGET);
        double x = i % 3 == 0 ? u : i % 3 == 1 ? u * 1e-280 : u * 1e250;
        assert_true(fabs(fg_ln(x) - log(x)) <= 2e-16 + 1e-15 * fabs(log(x)));
        double y = -700 * u;
        assert_true(fabs(fg_exp_neg(y) - exp(y)) <= 1e-15 * exp(y));
    }
    assert_true(fg_ln(1.0) == 0);
    assert_true(fg_exp_neg(0) == 1);
    assert_true(fg_exp_neg(-1e9) == 0);
    assert_true(fg_exp_neg(-INFINITY) == 0);
}

static struct fg_sampler *sampler(struct forge_sampling o, int64_t vocab)
{
    struct fg_sampler *s;
    struct fg_error err;
    assert_int_equal(fg_sampler_new(&s, &o, vocab, &err), 0);
    return s;
}

static void draws_follow_the_golden_sequence(void **state)
{
    (void)state;
    static const float logits[] = {1.0f, 2.0f, 0.5f, 1.5f};
    static const int32_t want[] = {1, 1, 3, 2, 1, 3, 0, 1, 0, 0, 3, 1, 3, 0, 1, 0};
    struct fg_sampler *s = sampler((struct forge_sampling){.temperature = 1, .seed = 1234}, 4);
    for (int pos = 0; pos < 16; pos++)
        assert_int_equal(fg_sampler_draw(s, logits, pos), want[pos]);
    // No state: asking again, in another order, gives the same.
    for (int pos = 15; pos >= 0; pos--)
        assert_int_equal(fg_sampler_draw(s, logits, pos), want[pos]);
    fg_sampler_free(s);
}

static void frequencies_match_probabilities(void **state)
{
    (void)state;
    enum { V = 6, N = 60000 };
    static const float logits[V] = {0.3f, -1.0f, 1.2f, 0.0f, 2.0f, -3.0f};
    struct fg_sampler *s = sampler((struct forge_sampling){.temperature = 0.8, .seed = 99}, V);
    const int32_t *ids;
    const double *prob;
    double p[V] = {0}, chi = 0;
    int count[V] = {0};
    assert_int_equal(fg_sampler_distribution(s, logits, &ids, &prob), V);
    for (int i = 0; i < V; i++)
        p[ids[i]] = prob[i];
    for (int pos = 0; pos < N; pos++)
        count[fg_sampler_draw(s, logits, pos)]++;
    for (int i = 0; i < V; i++)
        chi += pow(count[i] - N * p[i], 2) / (N * p[i]);
    assert_true(chi < 20.5); // 5 degrees of freedom: p = 0.001
    fg_sampler_free(s);
}

static void steps_come_in_their_order(void **state)
{
    (void)state;
    enum { V = 8 };
    const int32_t *ids;
    const double *prob;
    // Ties of top-k go to the lower id; NaN counts as nothing.
    const float ties[V] = {1, 3, 3, 3, NAN, 2, 3, 0};
    struct fg_sampler *s = sampler((struct forge_sampling){.temperature = 1, .top_k = 3}, V);
    assert_int_equal(fg_sampler_distribution(s, ties, &ids, &prob), 3);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 2);
    assert_int_equal(ids[2], 3);
    assert_true(fabs(prob[0] - 1.0 / 3) < 1e-15);
    fg_sampler_free(s);

    // Greedy: lowest id on ties, penalties do not apply.
    s = sampler((struct forge_sampling){.presence = 100}, V);
    fg_sampler_accept(s, 1);
    assert_int_equal(fg_sampler_draw(s, ties, 5), 1);
    fg_sampler_free(s);

    // Penalties change the set that top-k kept, and do not bring others in.
    const float two[V] = {5, 4.9f, 1, 1, 1, 1, 1, 1};
    s = sampler((struct forge_sampling){.temperature = 1, .top_k = 2, .presence = 50}, V);
    fg_sampler_accept(s, 0);
    fg_sampler_accept(s, 1);
    assert_int_equal(fg_sampler_distribution(s, two, &ids, &prob), 2);
    assert_int_equal(ids[0], 0);
    fg_sampler_free(s);

    // Repetition looks at the prompt too; presence and frequency do not.
    s = sampler((struct forge_sampling){.temperature = 1, .repetition = 10, .presence = 50}, V);
    int32_t prompt = 0;
    fg_sampler_prompt(s, &prompt, 1);
    fg_sampler_distribution(s, two, &ids, &prob);
    assert_int_equal(ids[0], 1);
    fg_sampler_free(s);

    // top-p keeps the shortest prefix that reaches the mass; min-p cuts against the largest.
    const float p[4] = {logf(0.5f), logf(0.3f), logf(0.15f), logf(0.05f)};
    s = sampler((struct forge_sampling){.temperature = 1, .top_p = 0.79}, 4);
    assert_int_equal(fg_sampler_distribution(s, p, &ids, &prob), 2);
    assert_true(fabs(prob[0] - 0.625) < 1e-6);
    fg_sampler_free(s);
    s = sampler((struct forge_sampling){.temperature = 1, .min_p = 0.2}, 4);
    assert_int_equal(fg_sampler_distribution(s, p, &ids, &prob), 3);
    fg_sampler_free(s);
    s = sampler((struct forge_sampling){.temperature = 1, .top_p = 1e-9}, 4);
    assert_int_equal(fg_sampler_distribution(s, p, &ids, &prob), 1);
    fg_sampler_free(s);
}

static void broken_rows_still_give_a_token(void **state)
{
    (void)state;
    const float nothing[3] = {-INFINITY, NAN, -INFINITY};
    const float infinite[3] = {0, INFINITY, INFINITY};
    struct fg_sampler *s = sampler((struct forge_sampling){.temperature = 1}, 3);
    assert_int_equal(fg_sampler_draw(s, nothing, 0), 0);
    int32_t id = fg_sampler_draw(s, infinite, 0);
    assert_true(id == 1 || id == 2);
    fg_sampler_free(s);
}

static void options_out_of_range_are_named(void **state)
{
    (void)state;
    const struct {
        struct forge_sampling o;
        const char *field;
    } bad[] = {
        {{.temperature = -1}, "temperature"},
        {{.temperature = NAN}, "temperature"},
        {{.top_p = 1.5}, "top_p"},
        {{.min_p = -0.1}, "min_p"},
        {{.top_k = -1}, "top_k"},
        {{.repetition = -1}, "repetition"},
        {{.presence = 1e9}, "presence"},
        {{.frequency = -1e9}, "frequency"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct fg_sampler *s;
        struct fg_error err;
        assert_int_equal(fg_sampler_new(&s, &bad[i].o, 4, &err), FG_EINPUT);
        assert_null(s);
        assert_string_equal(err.field, bad[i].field);
    }
}

// Against a plain sort of everything, on random rows with many ties.
static void top_k_equals_a_full_sort(void **state)
{
    (void)state;
    enum { V = 257 };
    float row[V];
    for (uint32_t seed = 0; seed < 200; seed++) {
        for (uint32_t i = 0; i < V; i++)
            row[i] = floorf((float)fg_random_uniform(seed, i, 0, FG_RANDOM_TARGET) * 20);
        int32_t k = 1 + (int32_t)(seed % 40);
        struct fg_sampler *a = sampler((struct forge_sampling){.temperature = 1, .top_k = k}, V);
        struct fg_sampler *b = sampler((struct forge_sampling){.temperature = 1}, V);
        const int32_t *ia, *ib;
        const double *p;
        assert_int_equal(fg_sampler_distribution(a, row, &ia, &p), k);
        fg_sampler_distribution(b, row, &ib, &p);
        assert_memory_equal(ia, ib, (size_t)k * sizeof *ia);
        for (int32_t i = 0; i + 1 < V; i++)
            assert_true(row[ib[i]] > row[ib[i + 1]] ||
                        (row[ib[i]] == row[ib[i + 1]] && ib[i] < ib[i + 1]));
        fg_sampler_free(a);
        fg_sampler_free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(uniform_and_gumbel_goldens),
        cmocka_unit_test(logarithm_and_exponential_are_accurate),
        cmocka_unit_test(draws_follow_the_golden_sequence),
        cmocka_unit_test(frequencies_match_probabilities),
        cmocka_unit_test(steps_come_in_their_order),
        cmocka_unit_test(broken_rows_still_give_a_token),
        cmocka_unit_test(options_out_of_range_are_named),
        cmocka_unit_test(top_k_equals_a_full_sort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
