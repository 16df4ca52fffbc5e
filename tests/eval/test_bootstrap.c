// Intervals by resampling sequences: small cases by enumeration of every draw, coverage of
// simulated data, what makes the numbers the same everywhere.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "eval/bootstrap.h"
#include "eval/ppl.h"
#include "quant/random.h"
#include <math.h>
#include <stdlib.h>

static struct fg_interval run(const double *num, const double *den, int64_t n, int64_t resamples,
                              uint64_t seed)
{
    struct fg_error err = {0};
    struct fg_interval out;
    assert_int_equal(fg_bootstrap(&out, num, den, n, resamples, seed, &err), 0);
    return out;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Two sequences give three outcomes with chances 1/4, 1/2, 1/4: 2.5 % and 97.5 % are the ends.
static void two_sequences(void **state)
{
    (void)state;
    const double a[] = {2, 8}, b[] = {1, 6};
    struct fg_interval i = run(b, a, 2, FG_BOOTSTRAP_RESAMPLES, 0);
    assert_true(i.value == 0.7);
    assert_true(i.lo == 0.5);
    assert_true(i.hi == 0.75);
    // One sequence has one outcome.
    i = run(b, a, 1, 100, 0);
    assert_true(i.value == 0.5 && i.lo == 0.5 && i.hi == 0.5);
}

// Every of the 4^4 draws of four sequences, as often as chance has it: the quantiles of the whole
// list are those of the resamples.
static void four_sequences(void **state)
{
    (void)state;
    const double num[] = {1, 4, 9, 2}, den[] = {4, 5, 7, 11};
    double all[256];
    for (int i = 0; i < 256; i++) {
        double x = 0, y = 0;
        for (int j = 0, at = i; j < 4; j++, at /= 4) {
            x += num[at % 4];
            y += den[at % 4];
        }
        all[i] = x / y;
    }
    qsort(all, 256, sizeof all[0], ascending);
    struct fg_interval i = run(num, den, 4, 200000, 3);
    assert_true(fabs(i.value - 16.0 / 27) < 1e-15);
    // Both ends lie inside steps of the distribution, so they are values of the list.
    bool lo = false, hi = false;
    for (int j = 0; j < 256; j++) {
        lo = lo || fabs(i.lo - all[j]) < 1e-15;
        hi = hi || fabs(i.hi - all[j]) < 1e-15;
    }
    assert_true(lo && hi);
    assert_true(i.lo >= all[4] && i.lo <= all[8]);     // 256 * 0.025 = 6.4
    assert_true(i.hi >= all[247] && i.hi <= all[251]); // 256 * 0.975 = 249.6
}

// The draws are those of the stream `bootstrap`, both sums from the same draw.
static void the_stream(void **state)
{
    (void)state;
    const double num[] = {1, 10, 100}, den[] = {1, 2, 4};
    struct fg_random r = fg_random_named(42, "bootstrap");
    double x = 0, y = 0;
    for (int j = 0; j < 3; j++) {
        uint64_t at = fg_random_below(&r, 3);
        x += num[at];
        y += den[at];
    }
    struct fg_interval i = run(num, den, 3, 1, 42);
    assert_true(i.lo == x / y && i.hi == x / y);
    double many[40], ones[40];
    for (int j = 0; j < 40; j++) {
        many[j] = sqrt(j);
        ones[j] = 1;
    }
    struct fg_interval other = run(many, ones, 40, 50, 43), same = run(many, ones, 40, 50, 42);
    struct fg_interval again = run(many, ones, 40, 50, 42);
    assert_true(same.lo == again.lo && same.hi == again.hi);
    assert_true(same.lo != other.lo && same.hi != other.hi);
}

static void no_error_at_all(void **state)
{
    (void)state;
    const double zero[] = {0, 0, 0}, some[] = {0, 1, 2};
    struct fg_interval i = run(zero, zero, 3, 200, 0);
    assert_true(i.value == 1 && i.lo == 1 && i.hi == 1);
    i = run(zero, some, 3, 200, 0);
    assert_true(i.value == 0 && i.hi == 1); // draws of the first alone are equal
}

static double gauss(struct fg_random *r)
{
    double u = fg_random_u01(r), v = fg_random_u01(r);
    return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}

// Sequences whose sums vary as KL does: the interval holds the true value in 95 of 100 sets.
static void coverage(void **state)
{
    (void)state;
    enum { SETS = 2000, N = 200, RESAMPLES = 400 };
    struct fg_random r = fg_random_named(7, "simulated");
    int holds_change = 0, holds_mean = 0;
    double a[N], b[N], n[N];
    for (int s = 0; s < SETS; s++) {
        for (int i = 0; i < N; i++) {
            n[i] = (double)(200 + fg_random_below(&r, 800)); // positions
            double hard = exp(0.5 * gauss(&r) - 0.125);      // mean 1
            a[i] = n[i] * 0.10 * hard;
            b[i] = n[i] * 0.09 * hard * exp(0.2 * gauss(&r) - 0.02);
        }
        struct fg_interval change = run(b, a, N, RESAMPLES, (uint64_t)s);
        struct fg_interval mean = run(a, n, N, RESAMPLES, (uint64_t)s);
        holds_change += change.lo <= 0.9 && 0.9 <= change.hi;
        holds_mean += mean.lo <= 0.10 && 0.10 <= mean.hi;
    }
    print_message("coverage: change %.2f %%, mean %.2f %%\n", 100.0 * holds_change / SETS,
                  100.0 * holds_mean / SETS);
    assert_in_range(holds_change, SETS * 93 / 100, SETS * 97 / 100);
    assert_in_range(holds_mean, SETS * 93 / 100, SETS * 97 / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_sequences), cmocka_unit_test(four_sequences),
        cmocka_unit_test(the_stream),    cmocka_unit_test(no_error_at_all),
        cmocka_unit_test(coverage),
    };
    return cmocka_run_group_tests_name("bootstrap", tests, NULL, NULL);
}
