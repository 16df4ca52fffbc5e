// Nearest entries: every level against a scalar search, over counts, tables and ties.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/size.h"
#include "kernels/kernels.h"
#include "kernels/numbers.h"

static int search(float *least, float x0, float x1, float w0, float w1, const float *c, int K)
{
    int found = 0;
    for (int e = 0; e < K; e++) {
        float a = x0 - c[e], b = x1 - c[K + e];
        float p = w0 * a, q = w1 * b;
        p *= a;
        q *= b;
        float d = p + q;
        if (e == 0 || d < *least) {
            *least = d;
            found = e;
        }
    }
    return found;
}

static void nearest2(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    static const int tables[] = {1, 2, 16, 17, 64};
    uint64_t seed = 5;
    for (size_t t = 0; t < FG_COUNT(tables); t++) {
        const int K = tables[t];
        for (int64_t n = 0; n <= 80; n++) {
            struct fenced in[4], dist = fenced_new((size_t)n * 4), idx = fenced_new((size_t)n);
            float c[128];
            const int grid = n % 3 == 0; // few values: ties within and between entries
            for (int j = 0; j < 2 * K; j++)
                c[j] = grid ? (float)(next_u32(&seed) % 4) : next_number(&seed, NUMBERS_UNIT);
            for (int a = 0; a < 4; a++) {
                in[a] = fenced_new((size_t)n * 4);
                float *x = (float *)(void *)in[a].data;
                for (int64_t i = 0; i < n; i++) {
                    float v = next_number(&seed, n % 3 == 1 ? NUMBERS_WIDE : NUMBERS_UNIT);
                    x[i] = a >= 2 ? (v < 0 ? -v : v) : v;
                    if (grid) x[i] = a >= 2 ? 1.0f : (float)(next_u32(&seed) % 7) * 0.5f;
                }
            }
            const float *x0 = (const void *)in[0].data, *x1 = (const void *)in[1].data;
            const float *w0 = (const void *)in[2].data, *w1 = (const void *)in[3].data;
            for (int l = 0; l < n_levels; l++) {
                float *d = (float *)(void *)dist.data;
                levels[l]->nearest2(idx.data, d, x0, x1, w0, w1, c, K, n);
                for (int64_t i = 0; i < n; i++) {
                    float least = 0;
                    int want = search(&least, x0[i], x1[i], w0[i], w1[i], c, K);
                    if (idx.data[i] != want || !same_float(d[i], least))
                        fail_msg("%s, K %d, n %d, sample %d: %d at %a, not %d at %a",
                                 levels[l]->isa, K, (int)n, (int)i, idx.data[i], d[i], want, least);
                }
            }
            for (int a = 0; a < 4; a++)
                fenced_free(&in[a]);
            fenced_free(&dist);
            fenced_free(&idx);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nearest2)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
