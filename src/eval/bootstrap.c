#include "eval/bootstrap.h"
#include "eval/ppl.h"
#include "quant/random.h"
#include <assert.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double ratio(double num, double den)
{
    return num == 0 && den == 0 ? 1 : num / den;
}

int fg_bootstrap(struct fg_interval *out, const double *num, const double *den, int64_t n,
                 int64_t resamples, uint64_t seed, struct fg_error *err)
{
    assert(n >= 1 && resamples >= 1);
    double *v = malloc((size_t)resamples * sizeof *v), a = 0, b = 0;
    if (!v) return fg_fail_memory(err, "bootstrap", (uint64_t)resamples * sizeof *v);
    struct fg_random r = fg_random_named(seed, "bootstrap");
    for (int64_t i = 0; i < resamples; i++) {
        double sum_num = 0, sum_den = 0;
        for (int64_t j = 0; j < n; j++) {
            uint64_t at = fg_random_below(&r, (uint64_t)n);
            sum_num += num[at];
            sum_den += den[at];
        }
        v[i] = ratio(sum_num, sum_den);
    }
    for (int64_t j = 0; j < n; j++) {
        a += num[j];
        b += den[j];
    }
    qsort(v, (size_t)resamples, sizeof *v, ascending);
    *out = (struct fg_interval){.value = ratio(a, b),
                                .lo = fg_eval_quantile(v, resamples, 0.025),
                                .hi = fg_eval_quantile(v, resamples, 0.975)};
    free(v);
    return 0;
}
