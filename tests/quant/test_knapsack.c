// The choice under budgets: the same as trying everything, on random instances of every kind; the
// bound; what happens when there are more partial sums than may be kept.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "quant/knapsack.h"
#include "quant/random.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define GROUPS_MAX 600
#define CHOICES_MAX (GROUPS_MAX * 4)

struct instance {
    struct fg_choice choices[CHOICES_MAX];
    uint64_t first[GROUPS_MAX + 1];
    struct fg_knapsack k;
};

static void begin(struct instance *t, uint64_t n_groups, uint64_t n_choices)
{
    for (uint64_t g = 0; g <= n_groups; g++)
        t->first[g] = g * n_choices;
    t->k = (struct fg_knapsack){
        .choices = t->choices, .first = t->first, .n_groups = n_groups, .ns_max = INFINITY};
}

// Sums of a choice; cost NaN when it is not within the budgets.
static struct fg_choice sum(const struct instance *t, const uint64_t *pick)
{
    struct fg_choice s = {0};
    for (uint64_t g = 0; g < t->k.n_groups; g++) {
        const struct fg_choice *c = &t->choices[t->first[g] + pick[g]];
        s.bytes += c->bytes;
        s.ns += c->ns;
        s.cost += c->cost;
    }
    if (s.bytes > t->k.bytes_max || s.ns > t->k.ns_max) s.cost = NAN;
    return s;
}

// The least cost of all choices; NaN: none is within the budgets.
static double brute_force(const struct instance *t)
{
    uint64_t pick[GROUPS_MAX] = {0};
    double best = NAN;
    for (;;) {
        const double cost = sum(t, pick).cost;
        if (!isnan(cost) && (isnan(best) || cost < best)) best = cost;
        uint64_t g = 0;
        while (g < t->k.n_groups && ++pick[g] == t->first[g + 1] - t->first[g])
            pick[g++] = 0;
        if (g == t->k.n_groups) return best;
    }
}

static void check(const struct instance *t, uint64_t seed)
{
    uint64_t pick[GROUPS_MAX];
    struct fg_knapsack_result r;
    struct fg_error err = {0};
    const double best = brute_force(t);
    const int rc = fg_knapsack_solve(pick, &r, &t->k, &err);
    if (isnan(best)) {
        assert_int_equal(rc, FG_EINPUT);
        assert_string_equal(err.field, "budget");
        return;
    }
    if (rc) fail_msg("seed %llu: rc %d", (unsigned long long)seed, rc);
    const struct fg_choice s = sum(t, pick);
    if (isnan(s.cost) || fabs(s.cost - best) > 1e-12 * fabs(best) || !r.exact)
        fail_msg("seed %llu: cost %.17g instead of %.17g", (unsigned long long)seed, s.cost, best);
    assert_int_equal(s.bytes, r.bytes);
    assert_true(s.cost == r.cost && s.ns == r.ns);
    assert_true(r.bound <= best + 1e-12 * fabs(best));
}

// Sizes of matrices in 2, 3 and 4 bits, costs that fall by about the ratios of 1.4.
static void like_a_model(struct instance *t, struct fg_random *r)
{
    static const double ratio[] = {1, 0.24, 0.08};
    const uint64_t n = t->k.n_groups;
    uint64_t least = 0, most = 0;
    for (uint64_t g = 0; g < n; g++) {
        const uint64_t weights = 64 * (16 + fg_random_below(r, 4096));
        const double scale = exp(4 * fg_random_u01(r)) * 1e-3;
        for (uint64_t i = 0; i < 3; i++)
            t->choices[3 * g + i] =
                (struct fg_choice){.bytes = weights * (2 + i) / 8 + (i == 1 ? 256 : 64),
                                   .cost = scale * ratio[i] * (0.7 + 0.6 * fg_random_u01(r))};
        least += t->choices[3 * g].bytes;
        most += t->choices[3 * g + 2].bytes;
    }
    t->k.bytes_max = least + fg_random_below(r, most - least + 1);
}

static void matrices_in_three_formats(void **state)
{
    static struct instance t;
    (void)state;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        struct fg_random r = fg_random_seeded(seed);
        begin(&t, 8, 3);
        like_a_model(&t, &r);
        check(&t, seed);
    }
}

// Ties, dominated choices, negative costs, equal sizes, budgets that nothing keeps.
static void awkward_numbers(void **state)
{
    static struct instance t;
    (void)state;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        struct fg_random r = fg_random_seeded(seed + 5000);
        const uint64_t n = 1 + fg_random_below(&r, 6), c = 1 + fg_random_below(&r, 4);
        const uint64_t grain = 1 + fg_random_below(&r, 3);
        begin(&t, n, c);
        for (uint64_t i = 0; i < n * c; i++)
            t.choices[i] = (struct fg_choice){.bytes = grain * fg_random_below(&r, 5),
                                              .cost = (double)fg_random_below(&r, 6) - 2};
        t.k.bytes_max = fg_random_below(&r, 4 * grain * n + 1);
        check(&t, seed);
    }
}

static void two_budgets(void **state)
{
    static struct instance t;
    int kept = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        struct fg_random r = fg_random_seeded(seed + 9000);
        begin(&t, 7, 3);
        like_a_model(&t, &r);
        double least = 0, most = 0;
        for (uint64_t g = 0; g < 7; g++) {
            double lo = INFINITY, hi = 0;
            for (uint64_t i = 3 * g; i < 3 * g + 3; i++) { // four bits may be faster than three
                t.choices[i].ns = (double)t.choices[i].bytes * (0.3 + fg_random_u01(&r));
                lo = fmin(lo, t.choices[i].ns);
                hi = fmax(hi, t.choices[i].ns);
            }
            least += lo;
            most += hi;
        }
        t.k.ns_max = least + (most - least) * fg_random_u01(&r);
        check(&t, seed);
        kept += !isnan(brute_force(&t));
    }
    assert_true(kept > 500 && kept < 1000);
}

// Nothing to choose, one group, one choice.
static void edges(void **state)
{
    static struct instance t;
    uint64_t pick[1] = {7};
    struct fg_knapsack_result r;
    struct fg_error err = {0};
    (void)state;
    begin(&t, 0, 1);
    assert_int_equal(fg_knapsack_solve(pick, &r, &t.k, &err), 0);
    assert_true(r.exact && r.bytes == 0 && r.cost == 0);
    begin(&t, 1, 1);
    t.choices[0] = (struct fg_choice){.bytes = 10, .cost = 1};
    t.k.bytes_max = 10;
    assert_int_equal(fg_knapsack_solve(pick, &r, &t.k, &err), 0);
    assert_int_equal(pick[0], 0);
    t.k.bytes_max = 9;
    assert_int_equal(fg_knapsack_solve(pick, &r, &t.k, &err), FG_EINPUT);
    assert_string_equal(err.expected, "at least 10 bytes");
    assert_string_equal(err.found, "9");
}

// A model's worth of matrices: exact, and more room is never worse.
static void many_matrices_are_exact_and_monotone(void **state)
{
    static struct instance t;
    static uint64_t pick[GROUPS_MAX];
    struct fg_random r = fg_random_seeded(3);
    struct fg_knapsack_result result;
    struct fg_error err = {0};
    (void)state;
    begin(&t, 500, 3);
    like_a_model(&t, &r);
    uint64_t least = 0, most = 0;
    for (uint64_t g = 0; g < 500; g++) {
        least += t.choices[3 * g].bytes;
        most += t.choices[3 * g + 2].bytes;
    }
    double before = INFINITY;
    for (int i = 0; i <= 40; i++) {
        t.k.bytes_max = least + (most - least) / 40 * (uint64_t)i;
        assert_int_equal(fg_knapsack_solve(pick, &result, &t.k, &err), 0);
        assert_true(result.exact);
        assert_true(result.cost <= before * (1 + 1e-12));
        assert_true(result.bytes <= t.k.bytes_max && sum(&t, pick).bytes == result.bytes);
        before = result.cost;
    }
}

// With room for few partial sums the choice is within the budget, close to the bound, and says that
// it may not be the best.
static void sums_are_joined_when_there_are_too_many(void **state)
{
    static struct instance t;
    static uint64_t pick[GROUPS_MAX];
    struct fg_knapsack_result all, few;
    struct fg_error err = {0};
    int joined = 0, worse = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct fg_random r = fg_random_seeded(seed + 70);
        begin(&t, 24, 4);
        for (uint64_t i = 0; i < 96; i++) { // costs almost as sizes: the bound proves little
            const uint64_t bytes = 1000 * (i % 4) + fg_random_below(&r, 900);
            t.choices[i] =
                (struct fg_choice){.bytes = bytes, .cost = -(double)bytes - 30 * fg_random_u01(&r)};
        }
        t.k.bytes_max = 36500;
        t.k.states_max = 0;
        assert_int_equal(fg_knapsack_solve(pick, &all, &t.k, &err), 0);
        assert_true(all.exact);
        t.k.states_max = 16;
        assert_int_equal(fg_knapsack_solve(pick, &few, &t.k, &err), 0);
        assert_true(few.bytes <= t.k.bytes_max && sum(&t, pick).cost == few.cost);
        assert_true(few.n_states <= 16);
        assert_true(few.cost >= all.cost && few.bound <= all.cost + 1e-6);
        assert_true(few.cost - few.bound <= 1000);
        assert_true(few.exact || few.bound < few.cost);
        joined += !few.exact;
        worse += few.cost > all.cost;
    }
    assert_true(joined > 30 && worse > 0);
}

// Of equal costs the fewest bytes are taken, of equal choices the first.
static void ties_take_fewer_bytes(void **state)
{
    static struct instance t;
    uint64_t pick[3];
    struct fg_knapsack_result r;
    struct fg_error err = {0};
    (void)state;
    begin(&t, 3, 3);
    for (uint64_t i = 0; i < 9; i++)
        t.choices[i] = (struct fg_choice){.bytes = i == 1             ? 4
                                                   : i == 3 || i == 4 ? 5
                                                                      : 9,
                                          .cost = 2};
    t.k.bytes_max = 100;
    assert_int_equal(fg_knapsack_solve(pick, &r, &t.k, &err), 0);
    assert_int_equal(pick[0], 1);
    assert_int_equal(pick[1], 0);
    assert_int_equal(pick[2], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_in_three_formats),
        cmocka_unit_test(awkward_numbers),
        cmocka_unit_test(two_budgets),
        cmocka_unit_test(edges),
        cmocka_unit_test(many_matrices_are_exact_and_monotone),
        cmocka_unit_test(sums_are_joined_when_there_are_too_many),
        cmocka_unit_test(ties_take_fewer_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
