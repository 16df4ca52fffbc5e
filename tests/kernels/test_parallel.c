// Jobs over a pool: the same bits as single kernel calls, for every number of threads.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/arena.h"
#include "base/size.h"
#include "kernels/parallel.h"
#include "kernels/numbers.h"
#include <math.h>
#include <stdatomic.h>
#include <string.h>

static const int threads_all[] = {1, 2, 3, 5, 16};

static void *alloc(uint64_t bytes)
{
    void *p = fg_alloc_aligned(bytes);
    assert_non_null(p);
    return p;
}

static float *floats(int64_t n, uint64_t *seed)
{
    float *p = alloc((uint64_t)n * 4);
    fill_floats(p, n, seed, NUMBERS_UNIT);
    return p;
}

// Scratch filled with a pattern, so that a kernel that trusts it fails.
static struct fg_parallel parallel_new(int n_threads, uint64_t scratch_bytes)
{
    struct fg_error err;
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    struct fg_parallel par = {.kernels = levels[n_levels - 1],
                              .scratch_bytes_per_worker = scratch_bytes};
    assert_int_equal(fg_pool_new(&par.pool, n_threads, &err), 0);
    par.scratch = alloc(scratch_bytes * (uint64_t)n_threads);
    memset(par.scratch, 0xFF, scratch_bytes * (uint64_t)n_threads);
    return par;
}

static void parallel_free(struct fg_parallel *par)
{
    fg_pool_free(par->pool);
    free(par->scratch);
}

static void expect_same(const float *got, const float *want, int64_t n, const char *what,
                        int n_threads, int64_t T)
{
    for (int64_t i = 0; i < n; i++)
        if (!same_float(got[i], want[i]))
            fail_msg("%s: threads %d, T %lld, element %lld: %a instead of %a", what, n_threads,
                     (long long)T, (long long)i, (double)got[i], (double)want[i]);
}

// Three matrices of different types and heights, one with a bias, x with a stride.
static void linear(int64_t n, int64_t T, int n_threads, bool fast)
{
    static const int64_t n_out[3] = {133, 1, 70};
    static const enum fg_dtype types[3] = {FG_BF16, FG_F32, FG_F16};
    uint64_t seed = (uint64_t)(n * 1000 + T);
    int64_t ldx = n + 3;
    float *x = floats(T * ldx, &seed);
    uint16_t *xh = alloc((uint64_t)(T * n) * 2), *xh_true = alloc((uint64_t)(T * n) * 2);
    const struct fg_parallel_sizes sizes = {.T = T, .n = n, .G = 1, .D = 1, .dv = 1};
    struct fg_parallel par = parallel_new(n_threads, fg_parallel_scratch_bytes(&sizes));
    par.fast = fast;
    par.room.xh = xh;
    const struct fg_kernels *ref = fg_kernels_levels(&(int){0})[0];
    void *scratch = alloc(fg_gemm_scratch_bytes(n, T));
    for (int64_t t = 0; t < T; t++)
        ref->to_bf16(xh_true + t * n, x + t * ldx, n);

    struct fg_linear mats[3];
    float *truth[3];
    for (int i = 0; i < 3; i++) {
        uint8_t *w = alloc((uint64_t)(n_out[i] * n) * 4);
        fill_elements(w, types[i], n_out[i] * n, &seed, NUMBERS_UNIT);
        float *bias = i == 0 ? floats(n_out[i], &seed) : NULL;
        int64_t ldy = n_out[i] + i;
        float *y = floats(T * ldy, &seed);
        truth[i] = alloc((uint64_t)(T * ldy) * 4);
        memcpy(truth[i], y, (size_t)(T * ldy) * 4);
        if (fast && types[i] == FG_BF16)
            ref->gemm_bf16_bf16(truth[i], ldy, w, n, 0, n_out[i], xh_true, n, T, scratch);
        else
            ref->gemm[types[i]](truth[i], ldy, w, n, 0, n_out[i], x, ldx, T, scratch);
        for (int64_t t = 0; bias && t < T; t++)
            for (int64_t r = 0; r < n_out[i]; r++)
                truth[i][t * ldy + r] += bias[r];
        mats[i] = (struct fg_linear){.w = w,
                                     .dtype = types[i],
                                     .n_out = n_out[i],
                                     .n_in = n,
                                     .bias = bias,
                                     .y = y,
                                     .ldy = ldy};
    }
    const struct fg_input in = {.x = x, .ldx = ldx, .n = n};
    fg_parallel_linear(&par, mats, 3, &in, T);
    for (int i = 0; i < 3; i++) {
        expect_same(mats[i].y, truth[i], T * mats[i].ldy, fast ? "linear, fast" : "linear",
                    n_threads, T);
        free((void *)(uintptr_t)mats[i].w);
        free((void *)(uintptr_t)mats[i].bias);
        free(mats[i].y);
        free(truth[i]);
    }
    free(x);
    free(xh);
    free(xh_true);
    free(scratch);
    parallel_free(&par);
}

static void test_linear_equals_single_kernel_calls(void **state)
{
    (void)state;
    static const int64_t T_all[] = {1, 2, 8, 12, 13, 97, 200};
    for (size_t j = 0; j < FG_COUNT(threads_all); j++) {
        for (size_t i = 0; i < FG_COUNT(T_all); i++) {
            linear(83, T_all[i], threads_all[j], false);
            linear(83, T_all[i], threads_all[j], true);
        }
        linear(2000, 1, threads_all[j], false);
        linear(1600, 11, threads_all[j], false);
    }
}

static void test_linear_of_nothing_does_nothing(void **state)
{
    (void)state;
    struct fg_parallel par = parallel_new(2, 64);
    float x = 1, y = 5;
    struct fg_linear m = {.w = &x, .dtype = FG_F32, .n_in = 1, .y = &y, .ldy = 1};
    const struct fg_input in = {.x = &x, .ldx = 1, .n = 1};
    fg_parallel_linear(&par, &m, 1, &in, 1);
    fg_parallel_linear(&par, &m, 0, &in, 1);
    m.n_out = 1;
    fg_parallel_linear(&par, &m, 1, &in, 0);
    assert_true(y == 5);
    parallel_free(&par);
}

static void attention(int64_t pos, int64_t T, int64_t n_heads, int64_t n_kv, int n_threads)
{
    enum { D = 16 };
    uint64_t seed = (uint64_t)(pos * 31 + T + n_heads);
    int64_t capacity = pos + T + 5, G = n_heads / n_kv, ld = n_heads * D;
    float *q = floats(T * ld, &seed), *o = floats(T * ld, &seed);
    float *k = floats(n_kv * capacity * D, &seed), *v = floats(n_kv * capacity * D, &seed);
    float *truth = alloc((uint64_t)(T * ld) * 4);
    void *scratch = alloc(fg_attn_scratch_bytes(T, G, D));
    struct fg_parallel par =
        parallel_new(n_threads, fg_parallel_scratch_bytes(&(struct fg_parallel_sizes){
                                    .T = T, .n = 1, .G = G, .D = D, .dv = 1}));
    for (int64_t h = 0; h < n_kv; h++)
        par.kernels->attention(truth + h * G * D, ld, q + h * G * D, ld, k + h * capacity * D, D,
                               v + h * capacity * D, D, pos, T, G, D, 0.25f, scratch);
    fg_parallel_attention(&par, o, q, k, v, capacity, pos, T, n_heads, n_kv, D, 0.25f);
    expect_same(o, truth, T * ld, "attention", n_threads, T);
    free(q);
    free(o);
    free(k);
    free(v);
    free(truth);
    free(scratch);
    parallel_free(&par);
}

static void test_attention_equals_single_kernel_calls(void **state)
{
    (void)state;
    for (size_t j = 0; j < FG_COUNT(threads_all); j++) {
        attention(0, 1, 6, 2, threads_all[j]);
        attention(200, 1, 9, 1, threads_all[j]);
        attention(63, 5, 4, 4, threads_all[j]);
        attention(0, 150, 6, 2, threads_all[j]);
        attention(77, 67, 7, 1, threads_all[j]);
    }
}

static void deltanet(int64_t nk, int64_t nv, int64_t T, int n_threads)
{
    enum { DK = 16, DV = 24 };
    uint64_t seed = (uint64_t)(nk * 100 + nv * 10 + T);
    int64_t ldq = nk * DK + 2, ldk = nk * DK + 4, ldv = nv * DV + 6;
    float *S = floats(nv * DK * DV, &seed), *S_true = alloc((uint64_t)(nv * DK * DV) * 4);
    memcpy(S_true, S, (size_t)(nv * DK * DV) * 4);
    float *q = floats(T * ldq, &seed), *k = floats(T * ldk, &seed), *v = floats(T * ldv, &seed);
    float *alpha = floats(T * nv, &seed), *beta = floats(T * nv, &seed);
    float *o = floats(T * nv * DV, &seed), *o_true = alloc((uint64_t)(T * nv * DV) * 4);
    float *scratch = alloc(3 * DV * 4);
    struct fg_parallel par =
        parallel_new(n_threads, fg_parallel_scratch_bytes(&(struct fg_parallel_sizes){
                                    .T = T, .n = 1, .G = 1, .D = 1, .dv = DV}));
    for (int64_t j = 0; j < nv; j++)
        par.kernels->deltanet(S_true + j * DK * DV, DK, DV, o_true + j * DV, nv * DV,
                              q + j / (nv / nk) * DK, ldq, k + j / (nv / nk) * DK, ldk, v + j * DV,
                              ldv, alpha + j, beta + j, nv, T, scratch);
    fg_parallel_deltanet(&par, S, nk, nv, DK, DV, o, q, ldq, k, ldk, v, ldv, alpha, beta, T);
    expect_same(o, o_true, T * nv * DV, "deltanet", n_threads, T);
    expect_same(S, S_true, nv * DK * DV, "deltanet state", n_threads, T);
    float *all[] = {S, S_true, q, k, v, alpha, beta, o, o_true, scratch};
    for (size_t i = 0; i < FG_COUNT(all); i++)
        free(all[i]);
    parallel_free(&par);
}

static void test_deltanet_equals_single_kernel_calls(void **state)
{
    (void)state;
    for (size_t j = 0; j < FG_COUNT(threads_all); j++) {
        deltanet(2, 6, 1, threads_all[j]);
        deltanet(1, 1, 9, threads_all[j]);
        deltanet(3, 3, 40, threads_all[j]);
    }
}

struct visits {
    atomic_int at[100];
    int64_t grain;
};

static void visit(void *ctx, const struct fg_kernels *k, int64_t i0, int64_t i1)
{
    struct visits *v = ctx;
    (void)k;
    if (i1 - i0 > v->grain || i0 % v->grain != 0) atomic_fetch_add(&v->at[0], 1000);
    for (int64_t i = i0; i < i1; i++)
        atomic_fetch_add(&v->at[i], 1);
}

static void test_for_visits_each_index_once(void **state)
{
    (void)state;
    for (size_t j = 0; j < FG_COUNT(threads_all); j++) {
        struct fg_parallel par = parallel_new(threads_all[j], 64);
        for (int64_t n = 0; n <= 100; n += 10) {
            for (int64_t grain = 1; grain < 130; grain = grain * 2 + 1) {
                struct visits v = {.grain = grain};
                fg_parallel_for(&par, n, grain, visit, &v);
                for (int i = 0; i < 100; i++)
                    assert_int_equal(v.at[i], i < n);
            }
        }
        parallel_free(&par);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear_equals_single_kernel_calls),
        cmocka_unit_test(test_linear_of_nothing_does_nothing),
        cmocka_unit_test(test_attention_equals_single_kernel_calls),
        cmocka_unit_test(test_deltanet_equals_single_kernel_calls),
        cmocka_unit_test(test_for_visits_each_index_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
