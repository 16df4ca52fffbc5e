// add, silu_mul, sigmoid_mul, rope, argmax: ref against formulas, every level against ref.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "kernels/kernels.h"
#include "kernels/numbers.h"
#include <math.h>
#include <string.h>

#define N_MAX 5120

enum op { ADD, SILU_MUL, SIGMOID_MUL, ROPE, N_OPS };
static const char *const names[] = {"add", "silu_mul", "sigmoid_mul", "rope"};

// y starts as a; ROPE takes its cosines and sines from b and c (n / 2 each).
static void run(const struct fg_kernels *k, enum op op, float *y, const float *a, const float *b,
                const float *c, int64_t n)
{
    memcpy(y, a, (size_t)n * sizeof *y);
    switch (op) {
    case ADD: k->add(y, b, n); break;
    case SILU_MUL: k->silu_mul(y, y, b, n); break;
    case SIGMOID_MUL: k->sigmoid_mul(y, y, b, n); break;
    default: k->rope(y, b, c, n / 2 * 2); break;
    }
}

static double exact(enum op op, const float *a, const float *b, const float *c, int64_t n,
                    int64_t i)
{
    int64_t h = n / 2;
    switch (op) {
    case ADD: return (double)a[i] + b[i];
    case SILU_MUL: return a[i] / (1 + exp(-(double)a[i])) * b[i];
    case SIGMOID_MUL: return a[i] / (1 + exp(-(double)b[i]));
    default:
        if (i >= 2 * h) return a[i];
        return i < h ? (double)a[i] * b[i] - (double)a[i + h] * c[i]
                     : (double)a[i] * b[i - h] + (double)a[i - h] * c[i - h];
    }
}

static void test_formula(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *ref = fg_kernels_levels(&n_levels)[0];
    for (int64_t n = 1; n < 70; n++) {
        uint64_t seed = 5 + (uint64_t)n;
        float a[70], b[70], c[70], y[70];
        fill_floats(a, n, &seed, NUMBERS_UNIT);
        fill_floats(b, n, &seed, NUMBERS_UNIT);
        fill_floats(c, n, &seed, NUMBERS_UNIT);
        for (enum op op = ADD; op < N_OPS; op++) {
            run(ref, op, y, a, b, c, n);
            for (int64_t i = 0; i < n; i++) {
                double want = exact(op, a, b, c, n, i);
                if (!(fabs(y[i] - want) <= 3e-7))
                    fail_msg("%s, n %lld: y[%lld] is %.9g, expected %.9g", names[op], (long long)n,
                             (long long)i, (double)y[i], want);
            }
        }
    }
}

static void test_levels(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    for (int64_t i = 0; i < 75; i++) {
        static const int64_t large[] = {128, 256, 576, 1000, N_MAX};
        int64_t n = i < 70 ? i + 1 : large[i - 70];
        for (enum numbers kind = NUMBERS_UNIT; kind < N_NUMBERS; kind++) {
            uint64_t seed = (uint64_t)n * 37 + kind;
            size_t bytes = (size_t)n * sizeof(float), half = (size_t)(n / 2) * sizeof(float);
            struct fenced fa = fenced_new(bytes), fb = fenced_new(bytes), fy = fenced_new(bytes);
            struct fenced fc = fenced_new(half), fs = fenced_new(half);
            float *a = (float *)fa.data, *b = (float *)fb.data, *y = (float *)fy.data;
            float *c = (float *)fc.data, *s = (float *)fs.data, want[N_MAX];
            fill_floats(a, n, &seed, kind);
            fill_floats(b, n, &seed, kind);
            fill_floats(c, n / 2, &seed, kind);
            fill_floats(s, n / 2, &seed, kind);
            for (enum op op = ADD; op < N_OPS; op++) {
                run(levels[0], op, want, a, op == ROPE ? c : b, s, n);
                for (int level = 1; level < n_levels; level++) {
                    run(levels[level], op, y, a, op == ROPE ? c : b, s, n);
                    for (int64_t j = 0; j < n; j++)
                        if (!same_float(y[j], want[j]))
                            fail_msg("%s, %s, n %lld, kind %d: y[%lld] is %a, ref has %a",
                                     names[op], levels[level]->isa, (long long)n, (int)kind,
                                     (long long)j, (double)y[j], (double)want[j]);
                }
            }
            fenced_free(&fa);
            fenced_free(&fb);
            fenced_free(&fy);
            fenced_free(&fc);
            fenced_free(&fs);
        }
    }
}

static void expect_argmax(const float *x, int64_t n, int64_t want)
{
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    for (int level = 0; level < n_levels; level++) {
        int64_t got = levels[level]->argmax(x, n);
        if (got != want)
            fail_msg("argmax, %s, n %lld: %lld, expected %lld", levels[level]->isa, (long long)n,
                     (long long)got, (long long)want);
    }
}

static void test_argmax(void **state)
{
    (void)state;
    uint64_t seed = 99;
    for (int64_t n = 1; n < 300; n++) {
        struct fenced f = fenced_new((size_t)n * sizeof(float));
        float *x = (float *)f.data;
        fill_floats(x, n, &seed, NUMBERS_UNIT);
        int64_t at = next_u32(&seed) % n, again = next_u32(&seed) % n;
        int64_t first = at < again ? at : again;
        x[at] = x[again] = 2.0f;
        expect_argmax(x, n, first);
        x[at] = x[again] = INFINITY;
        expect_argmax(x, n, first);
        x[next_u32(&seed) % n] = NAN;
        x[first] = INFINITY;
        expect_argmax(x, n, first);

        for (int64_t i = 0; i < n; i++) // zeros of both signs are equal
            x[i] = i % 3 ? -0.0f : 0.0f;
        expect_argmax(x, n, 0);
        for (int64_t i = 0; i < n; i++) // NaN counts as -infinity
            x[i] = i % 3 ? -INFINITY : NAN;
        expect_argmax(x, n, 0);
        x[at] = -3.0e38f;
        expect_argmax(x, n, at);
        for (int64_t i = 0; i < n; i++)
            x[i] = NAN;
        expect_argmax(x, n, 0);
        fenced_free(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formula),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_argmax),
    };
    return cmocka_run_group_tests_name("kernels.elementwise", tests, NULL, NULL);
}
