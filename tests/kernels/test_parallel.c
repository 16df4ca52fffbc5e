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
    const struct fg_parallel_sizes sizes = {.T = T, .n = n, .D = 1, .dk = 1, .dv = 1};
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

// Pages of n rows, with garbage behind them.
static struct fg_kv_head stored(const struct fg_kernels *kn, enum fg_kv_format format, int64_t D,
                                int64_t n, uint64_t *seed)
{
    const uint64_t pages = (uint64_t)(n + FG_KV_PAGE - 1) / FG_KV_PAGE;
    const uint64_t k_bytes = pages * (uint64_t)fg_kv_k_page_bytes(format, D);
    const uint64_t v_bytes = pages * (uint64_t)fg_kv_v_page_bytes(format, D);
    struct fg_kv_head h = {.format = format,
                           .D = D,
                           .k = alloc(k_bytes),
                           .v = alloc(v_bytes),
                           .ks = alloc(pages * FG_KV_PAGE * 2),
                           .vs = alloc(pages * FG_KV_PAGE * 2)};
    memset(h.k, 0xFF, k_bytes);
    memset(h.v, 0xFF, v_bytes);
    memset(h.ks, 0x7E, pages * FG_KV_PAGE * 2);
    memset(h.vs, 0x7E, pages * FG_KV_PAGE * 2);
    float *k = floats(n * D, seed), *v = floats(n * D, seed);
    for (int64_t t = 0; t < n; t++)
        assert_true(kn->kv_store(&h, t, k + t * D, v + t * D));
    free(k);
    free(v);
    return h;
}

// One row over its history as kernels/kv.h folds it, with nothing shared.
static void attend_alone(const struct fg_kernels *kn, float *o, const struct fg_kv_head *kv,
                         const float *q, int64_t pos, float scale, bool fast)
{
    const int64_t D = kv->D, W = fg_kv_width(D);
    int32_t qsum;
    float qs, m[2], l[2];
    int8_t *qc = alloc(2 * (uint64_t)W);
    float *rows = alloc((uint64_t)(2 * W) * 4);
    void *scratch = alloc(fg_attn_tile_scratch_bytes(D));
    fg_attn_query(kn, qc, &qs, &qsum, q, D, scale);
    const struct fg_attn_rows query = {
        .n = 1, .q = q, .qc = qc, .qs = &qs, .qsum = &qsum, .pos = &pos, .scale = scale};
    const struct fg_attn_acc row = {&m[0], &l[0], rows}, segment = {&m[1], &l[1], rows + W};
    m[0] = -INFINITY;
    for (int64_t tile = 0; tile * FG_KV_PAGE <= pos; tile++) {
        if (tile % FG_KV_TILES == 0) m[1] = -INFINITY;
        kn->attn_tile[fast](&segment, kv, tile, &query, 0, 1, scratch);
        bool last = (tile + 1) * FG_KV_PAGE > pos;
        if (last || (tile + 1) % FG_KV_TILES == 0) kn->attn_combine(&row, &segment, 0, 1, W);
    }
    kn->attn_finish(o, &row, 0, D);
    free(qc);
    free(rows);
    free(scratch);
}

struct shape {
    int64_t pos, T, n_heads, n_kv;
};

static void attention(const struct shape *shape, enum fg_kv_format format, bool fast, int n_threads)
{
    enum { D = 24 };
    const int64_t W = fg_kv_width(D), T = shape->T, pos = shape->pos, n_heads = shape->n_heads;
    const int64_t n_kv = shape->n_kv, G = n_heads / n_kv, R = T * G;
    const float scale = 0.25f;
    uint64_t seed = (uint64_t)(pos * 31 + T + n_heads);
    struct fg_parallel par =
        parallel_new(n_threads, fg_parallel_scratch_bytes(&(struct fg_parallel_sizes){
                                    .T = T, .n = 1, .D = D, .dk = 1, .dv = 1}));
    par.fast = fast;
    par.partials = alloc(fg_attn_partial_floats(pos + T, n_heads, n_kv, D) * 4);
    struct fg_kv_head kv[8];
    float *qx = alloc((uint64_t)(n_kv * R * W) * 4), *o = floats(T * n_heads * D, &seed);
    float *truth = alloc((uint64_t)(T * n_heads * D) * 4);
    int8_t *qc = alloc((uint64_t)(n_kv * R * 2 * W));
    float *qs = alloc((uint64_t)(n_kv * R) * 4);
    int32_t *qsum = alloc((uint64_t)(n_kv * R) * 4);
    for (int64_t h = 0; h < n_kv; h++)
        kv[h] = stored(par.kernels, format, D, pos + T, &seed);
    for (int64_t r = 0; r < n_kv * R; r++) {
        fill_floats(qx + r * W, D, &seed, NUMBERS_UNIT);
        fg_attn_query(par.kernels, qc + r * 2 * W, &qs[r], &qsum[r], qx + r * W, D, scale);
        const int64_t h = r / R, t = r % R / G, g = r % G;
        attend_alone(par.kernels, truth + (t * n_heads + h * G + g) * D, &kv[h], qx + r * W,
                     pos + t, scale, fast);
    }
    const struct fg_attn_call call = {.o = o,
                                      .kv = kv,
                                      .q = qx,
                                      .qc = qc,
                                      .qs = qs,
                                      .qsum = qsum,
                                      .pos = pos,
                                      .T = T,
                                      .n_heads = n_heads,
                                      .n_kv = n_kv,
                                      .D = D,
                                      .scale = scale};
    fg_parallel_attention(&par, &call);
    expect_same(o, truth, T * n_heads * D, "attention", n_threads, T);
    for (int64_t h = 0; h < n_kv; h++) {
        void *parts[] = {kv[h].k, kv[h].v, kv[h].ks, kv[h].vs};
        for (size_t i = 0; i < FG_COUNT(parts); i++)
            free(parts[i]);
    }
    void *all[] = {qx, o, truth, qc, qs, qsum, par.partials};
    for (size_t i = 0; i < FG_COUNT(all); i++)
        free(all[i]);
    parallel_free(&par);
}

static void test_attention_equals_rows_alone(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {0, 1, 6, 2},     {0, 150, 6, 2},  {200, 1, 9, 1},    {255, 5, 4, 4},   {77, 67, 7, 1},
        {2040, 16, 6, 2}, {2047, 1, 6, 3}, {2040, 17, 12, 2}, {4100, 3, 40, 1}, {1900, 230, 8, 2}};
    for (size_t i = 0; i < FG_COUNT(shapes); i++)
        for (int f = 0; f < FG_KV_N_ALL; f++)
            for (int fast = 0; fast < 2; fast++)
                attention(&shapes[i], (enum fg_kv_format)f, fast,
                          threads_all[(i + (size_t)f) % FG_COUNT(threads_all)]);
}

// nv heads with `pending` rows to apply and T rows, tried or committed.
static void deltanet(int64_t nk, int64_t nv, int64_t T, int64_t pending, bool tried, int n_threads)
{
    enum { DK = 16, DV = 24 };
    uint64_t seed = (uint64_t)(nk * 100 + nv * 10 + T);
    const int64_t ldq = nk * DK + 2, ldk = nk * DK + 4, ldv = nv * DV + 6, n_S = nv * DK * DV;
    float *S = floats(n_S, &seed), *S_out = floats(n_S, &seed), *S_true = alloc((uint64_t)n_S * 4);
    memcpy(S_true, S_out, (size_t)n_S * 4);
    float *q = floats(T * ldq, &seed), *k = floats(T * ldk, &seed), *v = floats(T * ldv, &seed);
    float *g = floats(T * nv, &seed), *beta = floats(T * nv, &seed);
    float *o = floats(T * nv * DV, &seed), *o_true = alloc((uint64_t)(T * nv * DV) * 4);
    float *d = floats(T * nv * DV, &seed), *d_true = alloc((uint64_t)(T * nv * DV) * 4);
    float *pk = floats(pending * nk * DK, &seed), *pd = floats(pending * nv * DV, &seed);
    float *pg = floats(pending * nv, &seed);
    float *scratch = alloc(fg_gdn_scratch_bytes(DK, DV));
    struct fg_parallel par = parallel_new(
        n_threads,
        fg_parallel_scratch_bytes(&(struct fg_parallel_sizes){.T = T, .n = 1, .dk = DK, .dv = DV}));
    const struct fg_gdn_call call = {.S = S,
                                     .S_out = tried && pending == 0 ? NULL : S_out,
                                     .nk = nk,
                                     .nv = nv,
                                     .dk = DK,
                                     .dv = DV,
                                     .pending = {pk, pd, pg, nk * DK, nv * DV, nv, pending},
                                     .rows = {q, k, v, g, beta, ldq, ldk, ldv, nv, T},
                                     .o = o,
                                     .d = tried ? d : NULL};
    for (int64_t j = 0; j < nv; j++) {
        const int64_t h = j / (nv / nk);
        const struct fg_gdn_pending p = {pk + h * DK, pd + j * DV, pg + j, nk * DK,
                                         nv * DV,     nv,          pending};
        const struct fg_gdn_rows rows = {q + h * DK, k + h * DK, v + j * DV, g + j, beta + j,
                                         ldq,        ldk,        ldv,        nv,    T};
        par.kernels->gdn(S + j * DK * DV, call.S_out ? S_true + j * DK * DV : NULL, DK, DV, &p,
                         &rows, o_true + j * DV, nv * DV, tried ? d_true + j * DV : NULL, nv * DV,
                         scratch);
    }
    fg_parallel_gdn(&par, &call);
    expect_same(o, o_true, T * nv * DV, "deltanet", n_threads, T);
    if (tried) expect_same(d, d_true, T * nv * DV, "deltanet's d", n_threads, T);
    if (call.S_out) expect_same(S_out, S_true, n_S, "deltanet state", n_threads, T);
    void *all[] = {S, S_out, S_true, q, k, v, g, beta, o, o_true, d, d_true, pk, pd, pg, scratch};
    for (size_t i = 0; i < FG_COUNT(all); i++)
        free(all[i]);
    parallel_free(&par);
}

static void test_deltanet_equals_single_kernel_calls(void **state)
{
    (void)state;
    for (size_t j = 0; j < FG_COUNT(threads_all); j++) {
        for (int tried = 0; tried < 2; tried++) {
            deltanet(2, 6, 1, 1, tried, threads_all[j]);
            deltanet(1, 1, 9, 0, tried, threads_all[j]);
            deltanet(3, 3, 40, 5, tried, threads_all[j]);
        }
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
        cmocka_unit_test(test_attention_equals_rows_alone),
        cmocka_unit_test(test_deltanet_equals_single_kernel_calls),
        cmocka_unit_test(test_for_visits_each_index_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
