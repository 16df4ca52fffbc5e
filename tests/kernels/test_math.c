// exp, sigmoid, SiLU, log1p and softplus of kernels/ref/math.h against libm in double, over a sweep
// of all floats; then every level against ref, bit for bit.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/num.h"
#include "kernels/kernels.h"
#include "kernels/numbers.h"
#include "kernels/ref/math.h"
#include <float.h>
#include <math.h>
#include <string.h>

// Every float whose bits are a multiple of this prime, all exponents and both signs, and no NaN.
#define SWEEP_STEP 4099u
#define SWEEP_MAX (UINT32_MAX / SWEEP_STEP + 1)

static uint32_t sweep_floats(float *x)
{
    uint32_t n = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += SWEEP_STEP) {
        float f = fg_f32_of_bits((uint32_t)bits);
        if (f == f) x[n++] = f;
    }
    return n;
}

// |got - want| in units of the last place of a float at want; infinities must be met exactly.
static double ulps(float got, double want)
{
    if (fabs(want) >= 0x1.ffffffp127) // rounds to infinity
        return isinf(got) && (got > 0) == (want > 0) ? 0 : INFINITY;
    int exponent = want == 0 ? -149 : ilogb(want) - 23;
    return fabs((double)got - want) / ldexp(1, exponent < -149 ? -149 : exponent);
}

static double exact_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double exact_silu(double x)
{
    return x == -INFINITY ? -0.0 : x / (1 + exp(-x));
}

static double exact_softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static void expect_accuracy(const char *name, float (*f)(float), double (*exact)(double), float lo,
                            float hi, double ulps_max)
{
    double worst = 0;
    float worst_at = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 1021) {
        float x = fg_f32_of_bits((uint32_t)bits);
        if (!(x >= lo && x <= hi)) continue;
        double e = ulps(f(x), exact(x));
        if (!(e <= worst)) worst = e, worst_at = x;
    }
    print_message("%s: at most %.3f ulp, at %a\n", name, worst, (double)worst_at);
    if (!(worst <= ulps_max))
        fail_msg("%s(%a): %.3f ulp, allowed %.3f", name, (double)worst_at, worst, ulps_max);
}

static void test_accuracy(void **state)
{
    (void)state;
    expect_accuracy("exp", fg_exp_f32, exp, -INFINITY, INFINITY, 1.0);
    expect_accuracy("sigmoid", fg_sigmoid_f32, exact_sigmoid, -INFINITY, INFINITY, 1.6);
    expect_accuracy("silu", fg_silu_f32, exact_silu, -INFINITY, INFINITY, 1.6);
    expect_accuracy("log1p", fg_log1p_f32, log1p, 0.0f, 1.0f, 1.0);
    expect_accuracy("softplus", fg_softplus_f32, exact_softplus, -INFINITY, INFINITY, 1.6);
}

static void test_special_values(void **state)
{
    (void)state;
    assert_true(fg_exp_f32(-INFINITY) == 0.0f);
    assert_true(fg_exp_f32(INFINITY) == INFINITY);
    assert_true(fg_exp_f32(0.0f) == 1.0f && fg_exp_f32(-0.0f) == 1.0f);
    assert_true(fg_exp_f32(-FLT_MAX) == 0.0f && fg_exp_f32(FLT_MAX) == INFINITY);
    assert_true(fg_sigmoid_f32(INFINITY) == 1.0f && fg_sigmoid_f32(-INFINITY) == 0.0f);
    assert_true(fg_sigmoid_f32(0.0f) == 0.5f);
    assert_true(fg_silu_f32(INFINITY) == INFINITY && fg_silu_f32(-INFINITY) == 0.0f);
    assert_true(fg_silu_f32(FLT_MAX) == FLT_MAX && fg_silu_f32(-FLT_MAX) == 0.0f);
    assert_true(fg_silu_f32(0.0f) == 0.0f);
    assert_true(fg_log1p_f32(0.0f) == 0.0f);
    assert_true(fg_softplus_f32(1000.0f) == 1000.0f && fg_softplus_f32(-1000.0f) == 0.0f);
    assert_true(fg_softplus_f32(INFINITY) == INFINITY && fg_softplus_f32(-INFINITY) == 0.0f);
    assert_true(isnan(fg_exp_f32(NAN)) && isnan(fg_sigmoid_f32(NAN)) && isnan(fg_silu_f32(NAN)) &&
                isnan(fg_softplus_f32(NAN)));
}

static void expect_bits(const char *what, const char *isa, const float *x, const float *got,
                        const float *want, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!same_float(got[i], want[i]))
            fail_msg("%s, %s: input %a gives %a, ref %a", what, isa, (double)x[i], (double)got[i],
                     (double)want[i]);
    }
}

// Each level's kernels on the sweep, through the members of fg_kernels that show one function.
static void test_levels(void **state)
{
    (void)state;
    float *buffers = malloc(sizeof(float) * 6 * SWEEP_MAX);
    assert_non_null(buffers);
    float *x = buffers, *one = x + SWEEP_MAX, *zero = one + SWEEP_MAX, *got = zero + SWEEP_MAX;
    float *got2 = got + SWEEP_MAX, *want = got2 + SWEEP_MAX;
    uint32_t n = sweep_floats(x);
    for (uint32_t i = 0; i < n; i++) {
        one[i] = 1.0f;
        zero[i] = 0.0f;
    }
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    for (int level = 0; level < n_levels; level++) {
        const struct fg_kernels *k = levels[level];
        k->silu_mul(got, x, one, n);
        for (uint32_t i = 0; i < n; i++)
            want[i] = fg_silu_f32(x[i]);
        expect_bits("silu", k->isa, x, got, want, n);

        k->sigmoid_mul(got, one, x, n);
        for (uint32_t i = 0; i < n; i++)
            want[i] = fg_sigmoid_f32(x[i]);
        expect_bits("sigmoid", k->isa, x, got, want, n);

        for (uint32_t i = 0; i < n; i++) // several decays
            one[i] = -fg_exp_f32((float)(i % 7) - 3.0f);
        k->deltanet_gates(got, got2, x, x, one, zero, n);
        expect_bits("beta", k->isa, x, got2, want, n);
        for (uint32_t i = 0; i < n; i++)
            want[i] = fg_exp_f32(one[i] * fg_softplus_f32(x[i]));
        expect_bits("alpha", k->isa, x, got, want, n);
        for (uint32_t i = 0; i < n; i++)
            one[i] = 1.0f;
    }
    free(buffers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accuracy),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_levels),
    };
    return cmocka_run_group_tests_name("kernels.math", tests, NULL, NULL);
}
