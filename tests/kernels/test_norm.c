// rms_norm, rms_norm_gated, l2_norm: ref against formulas in double, every level against ref.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "kernels/kernels.h"
#include "kernels/numbers.h"
#include <math.h>
#include <string.h>

#define EPS 1e-6f

enum norm { RMS, RMS_GATED, L2, N_NORMS };
static const char *const names[] = {"rms_norm", "rms_norm_gated", "l2_norm"};

static void run(const struct fg_kernels *k, enum norm norm, float *y, const float *x,
                const float *w, const float *z, int64_t n)
{
    switch (norm) {
    case RMS: k->rms_norm(y, x, w, n, EPS); break;
    case RMS_GATED: k->rms_norm_gated(y, x, w, z, n, EPS); break;
    default: k->l2_norm(y, x, n, EPS, 0.25f); break;
    }
}

static double exact(enum norm norm, const float *x, const float *w, const float *z, int64_t n,
                    int64_t i)
{
    double squares = 0;
    for (int64_t j = 0; j < n; j++)
        squares += (double)x[j] * x[j];
    if (norm == L2) return x[i] / sqrt(squares + (double)EPS) * 0.25;
    double y = x[i] / sqrt(squares / (double)n + (double)EPS) * w[i];
    return norm == RMS ? y : y * z[i] / (1 + exp(-(double)z[i]));
}

static void test_formula(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *ref = fg_kernels_levels(&n_levels)[0];
    static const int64_t sizes[] = {1, 2, 3, 17, 64, 128, 576, 5120};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int64_t n = sizes[s];
        uint64_t seed = 77 + s;
        float x[5120], w[5120], z[5120], y[5120];
        fill_floats(x, n, &seed, NUMBERS_UNIT);
        fill_floats(w, n, &seed, NUMBERS_UNIT);
        fill_floats(z, n, &seed, NUMBERS_UNIT);
        for (enum norm norm = RMS; norm < N_NORMS; norm++) {
            // 1e-4: mean(x^2) at 1e-8 is below eps and must not be normalized away (specs: model
            // 14)
            for (int tiny = 0; tiny < 2; tiny++) {
                float xs[5120];
                for (int64_t i = 0; i < n; i++)
                    xs[i] = tiny ? x[i] * 1e-4f : x[i];
                run(ref, norm, y, xs, w, z, n);
                for (int64_t i = 0; i < n; i++) {
                    double want = exact(norm, xs, w, z, n, i);
                    if (!(fabs(y[i] - want) <= 2e-6 * fabs(want)))
                        fail_msg("%s, n %lld, tiny %d: y[%lld] is %.9g, expected %.9g", names[norm],
                                 (long long)n, tiny, (long long)i, (double)y[i], want);
                }
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
        static const int64_t large[] = {128, 256, 576, 1000, 5120};
        int64_t n = i < 70 ? i + 1 : large[i - 70];
        for (enum numbers kind = NUMBERS_UNIT; kind < N_NUMBERS; kind++) {
            uint64_t seed = (uint64_t)n * 31 + kind;
            size_t bytes = (size_t)n * sizeof(float);
            struct fenced fx = fenced_new(bytes), fw = fenced_new(bytes), fz = fenced_new(bytes);
            struct fenced fy = fenced_new(bytes);
            float *x = (float *)fx.data, *w = (float *)fw.data, *z = (float *)fz.data;
            float *y = (float *)fy.data, want[5120];
            fill_floats(x, n, &seed, kind);
            fill_floats(w, n, &seed, NUMBERS_UNIT);
            fill_floats(z, n, &seed, kind);
            for (enum norm norm = RMS; norm < N_NORMS; norm++) {
                run(levels[0], norm, want, x, w, z, n);
                for (int level = 1; level < 2 * n_levels; level++) { // then again in place
                    const struct fg_kernels *k = levels[level % n_levels];
                    const float *from = x;
                    if (level >= n_levels) from = memcpy(y, x, bytes);
                    run(k, norm, y, from, w, z, n);
                    for (int64_t j = 0; j < n; j++)
                        if (!same_float(y[j], want[j]))
                            fail_msg("%s, %s, n %lld, kind %d: y[%lld] is %a, ref has %a",
                                     names[norm], k->isa, (long long)n, (int)kind, (long long)j,
                                     (double)y[j], (double)want[j]);
                }
            }
            fenced_free(&fx);
            fenced_free(&fw);
            fenced_free(&fz);
            fenced_free(&fy);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formula),
        cmocka_unit_test(test_levels),
    };
    return cmocka_run_group_tests_name("kernels.norm", tests, NULL, NULL);
}
