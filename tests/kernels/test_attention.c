// attention: every level against a plain softmax in double and against ref bit for bit; rows depend
// neither on what stands behind them nor on their company.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/arena.h"
#include "kernels/kernels.h"
#include "kernels/numbers.h"
#include <math.h>
#include <string.h>

#define CANARY 12345.678f

struct problem {
    int64_t pos, T, G, D, ldq, ldo, ldk, ldv;
    float scale;
    uint64_t seed;
    enum numbers kind;
    struct fenced q, k, v; // end at a forbidden page: nothing behind the last row may be read
    float *o, *truth;
    void *scratch;
};

static struct problem problem_new(int64_t pos, int64_t T, int64_t G, int64_t D, uint64_t seed,
                                  enum numbers kind)
{
    struct problem p = {.pos = pos, .T = T, .G = G, .D = D, .seed = seed, .kind = kind};
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
    p.ldq = G * D + (int64_t)(next_u32(&state) % 3) * 5;
    p.ldo = G * D + (int64_t)(next_u32(&state) % 3) * 3;
    p.ldk = D + (int64_t)(next_u32(&state) % 3) * 7;
    p.ldv = D + (int64_t)(next_u32(&state) % 3) * 9;
    p.scale = 1.0f / sqrtf((float)D);
    int64_t n_q = (T - 1) * p.ldq + G * D;
    int64_t n_k = (pos + T - 1) * p.ldk + D, n_v = (pos + T - 1) * p.ldv + D;
    p.q = fenced_new((size_t)n_q * 4);
    p.k = fenced_new((size_t)n_k * 4);
    p.v = fenced_new((size_t)n_v * 4);
    fill_floats((float *)p.q.data, n_q, &state, kind);
    fill_floats((float *)p.k.data, n_k, &state, kind);
    fill_floats((float *)p.v.data, n_v, &state, kind);
    if (kind == NUMBERS_UNIT) // a softmax that is far from flat
        for (int64_t i = 0; i < n_q; i++)
            ((float *)p.q.data)[i] *= 8.0f;
    p.o = fg_alloc_aligned((uint64_t)(T * p.ldo) * 4);
    p.truth = fg_alloc_aligned((uint64_t)(T * p.ldo) * 4);
    p.scratch = fg_alloc_aligned(fg_attn_scratch_bytes(T, G, D));
    assert_true(p.o && p.truth && p.scratch);
    for (int64_t i = 0; i < T * p.ldo; i++)
        p.o[i] = p.truth[i] = CANARY;
    return p;
}

static void problem_free(struct problem *p)
{
    fenced_free(&p->q);
    fenced_free(&p->k);
    fenced_free(&p->v);
    free(p->o);
    free(p->truth);
    free(p->scratch);
}

// Rows [t0, t1) of the problem.
static void run(const struct problem *p, const struct fg_kernels *k, float *o, int64_t t0,
                int64_t t1)
{
    memset(p->scratch, 0xff, fg_attn_scratch_bytes(t1 - t0, p->G, p->D)); // NaN
    k->attention(o + t0 * p->ldo, p->ldo, (float *)p->q.data + t0 * p->ldq, p->ldq,
                 (float *)p->k.data, p->ldk, (float *)p->v.data, p->ldv, p->pos + t0, t1 - t0, p->G,
                 p->D, p->scale, p->scratch);
}

static void expect_truth(const struct problem *p, const char *isa, const char *how)
{
    for (int64_t t = 0; t < p->T; t++) {
        for (int64_t i = 0; i < p->ldo; i++) {
            float got = p->o[t * p->ldo + i], want = p->truth[t * p->ldo + i];
            if (!same_float(got, want))
                fail_msg("%s, %s: pos %lld, T %lld, G %lld, D %lld, seed %llu, kind %d: "
                         "o[%lld][%lld] is %a, expected %a",
                         isa, how, (long long)p->pos, (long long)p->T, (long long)p->G,
                         (long long)p->D, (unsigned long long)p->seed, (int)p->kind, (long long)t,
                         (long long)i, (double)got, (double)want);
        }
    }
}

// Largest error of p->o against a softmax in double, relative to the largest |v| attended to.
static double error_against_double(const struct problem *p)
{
    double worst = 0, *s = malloc((size_t)(p->pos + p->T) * sizeof *s);
    assert_non_null(s);
    for (int64_t t = 0; t < p->T; t++) {
        for (int64_t g = 0; g < p->G; g++) {
            const float *q = (float *)p->q.data + t * p->ldq + g * p->D;
            const float *k = (float *)p->k.data, *v = (float *)p->v.data;
            int64_t n = p->pos + t + 1;
            double max = -INFINITY, sum = 0;
            for (int64_t j = 0; j < n; j++) {
                s[j] = 0;
                for (int64_t d = 0; d < p->D; d++)
                    s[j] += (double)q[d] * k[j * p->ldk + d];
                s[j] *= p->scale;
                max = fmax(max, s[j]);
            }
            for (int64_t j = 0; j < n; j++)
                sum += s[j] = exp(s[j] - max);
            for (int64_t d = 0; d < p->D; d++) {
                double o = 0, largest = 0;
                for (int64_t j = 0; j < n; j++) {
                    o += s[j] / sum * v[j * p->ldv + d];
                    largest = fmax(largest, fabs((double)v[j * p->ldv + d]));
                }
                double e = fabs(p->o[t * p->ldo + g * p->D + d] - o) / largest;
                if (!(e <= worst)) worst = e;
            }
        }
    }
    free(s);
    return worst;
}

// Every value in every list with a few of the others.
static const int64_t positions[] = {0, 1, 15, 16, 63, 64, 65, 500};
static const int64_t widths[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 64, 65};
static const int64_t groups[] = {1, 3, 6};
static const int64_t dims[] = {16, 32, 64, 80, 128, 256, 24, 5, 100};
#define COUNT(a) (int64_t)(sizeof(a) / sizeof *(a))

// Calls f with a sample of the product of the lists; `keep` of 97 combinations.
static void for_shapes(unsigned keep, void (*f)(struct problem *p, enum numbers kind))
{
    uint64_t pick = 4242;
    for (int64_t a = 0; a < COUNT(positions); a++)
        for (int64_t b = 0; b < COUNT(widths); b++)
            for (int64_t c = 0; c < COUNT(groups); c++)
                for (int64_t d = 0; d < COUNT(dims); d++) {
                    if (next_u32(&pick) % 97 >= keep) continue;
                    enum numbers kind = next_u32(&pick) % N_NUMBERS;
                    struct problem p = problem_new(positions[a], widths[b], groups[c], dims[d],
                                                   pick % 1000000, kind);
                    f(&p, kind);
                    problem_free(&p);
                }
}

static void check_levels(struct problem *p, enum numbers kind)
{
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    run(p, levels[0], p->truth, 0, p->T);
    memcpy(p->o, p->truth, (size_t)(p->T * p->ldo) * 4);
    if (kind == NUMBERS_UNIT && p->T * p->G < 60) {
        double e = error_against_double(p);
        if (!(e <= 4e-6)) {
            expect_truth(p, "ref", "");
            fail_msg("ref: pos %lld, T %lld, G %lld, D %lld, seed %llu: error %g against double",
                     (long long)p->pos, (long long)p->T, (long long)p->G, (long long)p->D,
                     (unsigned long long)p->seed, e);
        }
    }
    for (int level = 1; level < n_levels; level++) {
        for (int64_t i = 0; i < p->T * p->ldo; i++)
            p->o[i] = CANARY;
        run(p, levels[level], p->o, 0, p->T);
        expect_truth(p, levels[level]->isa, "whole call");
    }
}

static void test_levels(void **state)
{
    (void)state;
    for_shapes(8, check_levels);
}

// Split into calls of uneven widths, and K and V behind each call's last row poisoned.
static void check_company(struct problem *p, enum numbers kind)
{
    (void)kind;
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    const struct fg_kernels *k = levels[n_levels - 1];
    run(p, k, p->truth, 0, p->T);

    size_t k_bytes = (size_t)((p->pos + p->T - 1) * p->ldk + p->D) * 4;
    size_t v_bytes = (size_t)((p->pos + p->T - 1) * p->ldv + p->D) * 4;
    float *whole_k = malloc(k_bytes), *whole_v = malloc(v_bytes);
    assert_true(whole_k && whole_v);
    memcpy(whole_k, p->k.data, k_bytes);
    memcpy(whole_v, p->v.data, v_bytes);
    for (int level = 0; level < n_levels; level++) {
        uint64_t state = p->seed + 9;
        for (int64_t t = 0, n; t < p->T; t += n) {
            n = 1 + next_u32(&state) % 5;
            if (n > p->T - t) n = p->T - t;
            memset(p->k.data, 0xff, k_bytes);
            memset(p->v.data, 0xff, v_bytes);
            size_t rows = (size_t)(p->pos + t + n);
            memcpy(p->k.data, whole_k, ((rows - 1) * (size_t)p->ldk + (size_t)p->D) * 4);
            memcpy(p->v.data, whole_v, ((rows - 1) * (size_t)p->ldv + (size_t)p->D) * 4);
            run(p, levels[level], p->o, t, t + n);
        }
        expect_truth(p, levels[level]->isa, "split calls");
    }
    // In one call too, a row may not feel a later one.
    memcpy(p->k.data, whole_k, k_bytes);
    memcpy(p->v.data, whole_v, v_bytes);
    memset((float *)p->k.data + (p->pos + p->T - 1) * p->ldk, 0xff, (size_t)p->D * 4);
    memset((float *)p->v.data + (p->pos + p->T - 1) * p->ldv, 0xff, (size_t)p->D * 4);
    for (int64_t i = 0; i < p->G * p->D; i++)
        p->truth[(p->T - 1) * p->ldo + i] = NAN;
    for (int level = 0; level < n_levels; level++) {
        run(p, levels[level], p->o, 0, p->T);
        expect_truth(p, levels[level]->isa, "last position poisoned");
    }
    free(whole_k);
    free(whole_v);
}

static void test_company(void **state)
{
    (void)state;
    for_shapes(2, check_company);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_company),
    };
    return cmocka_run_group_tests_name("kernels.attention", tests, NULL, NULL);
}
