// Hessians and what GPTQ makes of them: sums, traces and factors against plain FP64 loops, the
// order of columns, dead ones, damping that grows, numbers that are refused, and the same bytes for
// every number of threads.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/arena.h"
#include "base/size.h"
#include "quant/factor.h"
#include "quant/hessian.h"
#include "quant/synthetic.h"
#include <float.h>

static const int thread_counts[] = {1, 2, 3};

static struct fg_pool *pool_of(int threads)
{
    struct fg_pool *pool;
    assert_int_equal(fg_pool_new(&pool, threads, NULL), 0);
    return pool;
}

// A finished Hessian with these values; the caller's.
static struct fg_hessian hessian_of(const double *H, int64_t n)
{
    struct fg_hessian h;
    assert_int_equal(fg_hessian_new(&h, n, NULL), 0);
    memcpy(h.H, H, (size_t)(n * n) * sizeof *H);
    return h;
}

static void expect_same(const void *a, const void *b, uint64_t bytes)
{
    if (memcmp(a, b, (size_t)bytes) != 0) fail_msg("other bytes with other threads");
}

// ---- sums

static void sums(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{1, 1}, {5, 3}, {64, 200}, {513, 37}, {700, 300}};
    for (size_t s = 0; s < FG_COUNT(shapes); s++) {
        const int64_t n = shapes[s][0], rows = shapes[s][1], first = rows / 3;
        float *x = gauss_matrix(rows, n, 1, 1 + s);
        for (int64_t t = 0; t < rows; t++)
            for (int64_t j = 1; j < n; j++)
                x[t * n + j] += 0.9f * x[t * n + j - 1];
        struct fg_hessian h;
        assert_int_equal(fg_hessian_new(&h, n, NULL), 0);
        assert_int_equal((uintptr_t)h.H % 64, 0);
        if (first) assert_int_equal(fg_hessian_add(&h, x, first, NULL, NULL), 0);
        assert_int_equal(fg_hessian_add(&h, x + first * n, rows - first, NULL, NULL), 0);
        assert_int_equal(h.count, rows);
        fg_hessian_finish(&h, NULL);
        double *want = calloc((size_t)(n * n), sizeof *want);
        assert_non_null(want);
        for (int64_t t = 0; t < rows; t++)
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < n; j++)
                    want[i * n + j] += (double)x[t * n + i] * (double)x[t * n + j] / (double)rows;
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < n; j++) {
                const double scale = sqrt(want[i * n + i] * want[j * n + j]);
                if (!(fabs(h.H[i * n + j] - want[i * n + j]) <= 2e-6 * scale))
                    fail_msg("n %d: H[%d][%d] = %g, not %g", (int)n, (int)i, (int)j, h.H[i * n + j],
                             want[i * n + j]);
                assert_true(h.H[i * n + j] == h.H[j * n + i]);
            }
        }
        fg_hessian_free(&h);
        assert_null(h.H);
        free(x);
        free(want);
    }
}

// What one slab adds does not drown in what is there: in FP32, 2^24 + 2^-8 is 2^24.
static void slabs_add_in_fp64(void **state)
{
    (void)state;
    struct fg_hessian h;
    assert_int_equal(fg_hessian_new(&h, 1, NULL), 0);
    const float big = 4096, small = 0.0625f;
    assert_int_equal(fg_hessian_add(&h, &big, 1, NULL, NULL), 0);
    for (int i = 0; i < 15; i++)
        assert_int_equal(fg_hessian_add(&h, &small, 1, NULL, NULL), 0);
    fg_hessian_finish(&h, NULL);
    assert_true(h.H[0] == (4096.0 * 4096.0 + 15 * 0.0625 * 0.0625) / 16);
    fg_hessian_free(&h);
    assert_int_equal(fg_hessian_new(&h, 3, NULL), 0); // no rows: zeros, not NaN
    fg_hessian_finish(&h, NULL);
    for (int i = 0; i < 9; i++)
        assert_true(h.H[i] == 0);
    fg_hessian_free(&h);
}

static void sums_and_traces_by_threads(void **state)
{
    (void)state;
    const int64_t n = 1100, rows = 600;
    float *x = gauss_matrix(2 * rows, n, 1, 3), *E = gauss_matrix(rows, n, 0.1, 4);
    struct fg_hessian first = {0};
    double error = 0, *row_error[2];
    for (int i = 0; i < 2; i++)
        assert_non_null(row_error[i] = malloc((size_t)rows * sizeof **row_error));
    for (size_t t = 0; t < FG_COUNT(thread_counts); t++) {
        struct fg_pool *pool = pool_of(thread_counts[t]);
        struct fg_hessian h;
        assert_int_equal(fg_hessian_new(&h, n, NULL), 0);
        assert_int_equal(fg_hessian_add(&h, x, rows, pool, NULL), 0);
        assert_int_equal(fg_hessian_add(&h, x + rows * n, rows, pool, NULL), 0);
        fg_hessian_finish(&h, pool);
        const double e = fg_hessian_error(&h, E, rows, row_error[t != 0], pool);
        fg_pool_free(pool);
        if (t == 0) {
            first = h;
            error = e;
            continue;
        }
        expect_same(first.H, h.H, (uint64_t)(n * n) * sizeof *h.H);
        expect_same(row_error[0], row_error[1], (uint64_t)rows * sizeof **row_error);
        assert_true(e == error);
        fg_hessian_free(&h);
    }
    fg_hessian_free(&first);
    for (int i = 0; i < 2; i++)
        free(row_error[i]);
    free(x);
    free(E);
}

// ---- tr(E H E^T)

// Symmetric, with both signs, cheap and without a pattern that tiles would hide.
static double entry(int64_t i, int64_t j)
{
    const uint64_t lo = (uint64_t)(i < j ? i : j), hi = (uint64_t)(i < j ? j : i);
    const uint64_t z = (lo * 0x9E3779B97F4A7C15u ^ hi * 0xBF58476D1CE4E5B9u) >> 40;
    return (double)(z % 2001) / 1000 - 1 + (i == j ? 30.0 : 0.0);
}

static void traces(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{1, 1}, {7, 130}, {515, 600}, {3, 4700}};
    for (size_t s = 0; s < FG_COUNT(shapes); s++) {
        const int64_t rows = shapes[s][0], n = shapes[s][1];
        struct fg_hessian h;
        assert_int_equal(fg_hessian_new(&h, n, NULL), 0);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                h.H[i * n + j] = entry(i, j);
        float *E = gauss_matrix(rows, n, 0.1, 9);
        double *row_error = malloc((size_t)rows * sizeof *row_error), total = 0;
        assert_non_null(row_error);
        const double got = fg_hessian_error(&h, E, rows, row_error, NULL);
        for (int64_t r = 0; r < rows; r++) {
            double want = 0, size = 0;
            for (int64_t i = 0; i < n; i++) {
                double sum = 0;
                for (int64_t j = 0; j < n; j++)
                    sum += h.H[i * n + j] * (double)E[r * n + j];
                want += sum * (double)E[r * n + i];
                size += fabs(sum * (double)E[r * n + i]);
            }
            assert_true(fabs(row_error[r] - want) <= 1e-6 * size);
            total += row_error[r];
        }
        assert_true(total == got);
        assert_true(fg_hessian_error(&h, E, rows, NULL, NULL) == got);
        fg_hessian_free(&h);
        free(E);
        free(row_error);
    }
}

// ---- factors

// malloc'd symmetric [n][n] with eigenvalues from 1 down to 1 / condition, geometrically.
static double *conditioned(int64_t n, double condition)
{
    float *g = synthetic_gauss(n * n, "hessian/basis");
    double *Q = malloc((size_t)(n * n) * sizeof *Q), *H = calloc((size_t)(n * n), sizeof *H);
    assert_non_null(Q);
    assert_non_null(H);
    for (int64_t i = 0; i < n * n; i++)
        Q[i] = (double)g[i];
    free(g);
    synthetic_orthonormal(Q, n);
    for (int64_t k = 0; k < n; k++) {
        const double value = pow(condition, -(double)k / (double)(n > 1 ? n - 1 : 1));
        for (int64_t i = 0; i < n; i++)
            cblas_daxpy((int)n, value * Q[k * n + i], Q + k * n, 1, H + i * n, 1);
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            H[i * n + j] = H[j * n + i];
    free(Q);
    return H;
}

static double *upper_of(const double *H, int64_t n)
{
    double *A = malloc((size_t)(n * n) * sizeof *A);
    assert_non_null(A);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            A[i * n + j] = j >= i ? H[i * n + j] : 0;
    return A;
}

// The largest element of U^T U H - 1.
static double distance_from_inverse(const double *U, const double *H, int64_t n)
{
    double *T = calloc((size_t)(n * n), sizeof *T), *P = calloc((size_t)(n * n), sizeof *P);
    assert_non_null(T);
    assert_non_null(P);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)n, (int)n, (int)n, 1, U, (int)n, H,
                (int)n, 0, T, (int)n);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)n, (int)n, (int)n, 1, U, (int)n, T,
                (int)n, 0, P, (int)n);
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            most = fmax(most, fabs(P[i * n + j] - (i == j ? 1.0 : 0.0)));
    free(T);
    free(P);
    return most;
}

static void inverse_factor(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 255, 256, 257, 300, 777};
    for (size_t s = 0; s < FG_COUNT(sizes); s++) {
        const int64_t n = sizes[s];
        double *H = conditioned(n, 1e6), *scratch, *first = NULL;
        assert_non_null(scratch = malloc((size_t)(n * FG_FACTOR_BLOCK) * sizeof *scratch));
        for (size_t t = 0; t < FG_COUNT(thread_counts); t++) {
            struct fg_pool *pool = pool_of(thread_counts[t]);
            double *U = upper_of(H, n);
            assert_true(fg_factor_inverse(U, n, scratch, pool));
            fg_pool_free(pool);
            for (int64_t i = 0; i < n; i++) {
                assert_true(U[i * n + i] > 0);
                for (int64_t j = 0; j < i; j++)
                    assert_true(U[i * n + j] == 0);
            }
            if (first) {
                expect_same(first, U, (uint64_t)(n * n) * sizeof *U);
                free(U);
                continue;
            }
            const double distance = distance_from_inverse(U, H, n);
            if (!(distance <= 1e-9)) fail_msg("n %d: U^T U H is off by %g", (int)n, distance);
            first = U;
        }
        // A pivot that is not positive, in any block, is seen.
        for (int64_t at = 0; at < n; at += n < 100 ? 1 : 43) {
            double *A = upper_of(H, n);
            A[at * n + at] -= 1.5; // no diagonal element is above 1
            assert_false(fg_factor_inverse(A, n, scratch, NULL));
            free(A);
        }
        free(H);
        free(first);
        free(scratch);
    }
}

// U against H in the order of treatment with `damp` times the mean added.
static void expect_factor(const struct fg_gptq_factor *f, const double *H, double tolerance)
{
    const int64_t n = f->n;
    double mean = 0, *P = malloc((size_t)(n * n) * sizeof *P), *U = malloc((size_t)(n * n) * 8);
    assert_non_null(P);
    assert_non_null(U);
    for (int64_t i = 0; i < n; i++)
        mean += (f->dead[i] ? 1 : H[i * n + i]) / (double)n;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            P[i * n + j] = H[f->perm[i] * n + f->perm[j]];
            if (i == j) P[i * n + j] += f->damp * mean + (f->dead[f->perm[i]] ? 1 : 0);
            U[i * n + j] = (double)f->U[i * n + j];
            assert_true(j >= i || U[i * n + j] == 0);
        }
    }
    const double distance = distance_from_inverse(U, P, n);
    if (!(distance <= tolerance)) fail_msg("n %d: off by %g", (int)n, distance);
    free(P);
    free(U);
}

static void factors(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 3, 64, 65, 300};
    for (size_t s = 0; s < FG_COUNT(sizes); s++) {
        const int64_t n = sizes[s];
        double *H = conditioned(n, 1e3);
        struct fg_hessian h = hessian_of(H, n);
        for (int order = FG_GPTQ_ORDER_ACT; order <= FG_GPTQ_ORDER_NONE; order++) {
            struct fg_gptq_factor f, g;
            assert_int_equal(
                fg_gptq_factorize(&f, &h, (enum fg_gptq_order)order, 0.01, "x", NULL, NULL), 0);
            assert_int_equal(f.n, n);
            assert_true(f.damp == 0.01 && f.n_dead == 0);
            assert_memory_equal(h.H, H, (size_t)(n * n) * sizeof *H);
            for (int64_t i = 0; i < n; i++) {
                assert_true(f.diag[i] == (float)H[i * n + i] && !f.dead[i]);
                if (order == FG_GPTQ_ORDER_NONE)
                    assert_int_equal(f.perm[i], i);
                else if (i)
                    assert_true(H[f.perm[i] * (n + 1)] <= H[f.perm[i - 1] * (n + 1)]);
            }
            expect_factor(&f, H, 1e-4);
            struct fg_pool *pool = pool_of(3);
            assert_int_equal(
                fg_gptq_factorize(&g, &h, (enum fg_gptq_order)order, 0.01, "x", pool, NULL), 0);
            fg_pool_free(pool);
            expect_same(f.U, g.U, (uint64_t)(n * n) * sizeof *f.U);
            fg_gptq_factor_free(&f);
            fg_gptq_factor_free(&g);
        }
        fg_hessian_free(&h);
        free(H);
    }
}

// Equal elements of the diagonal stay in their order.
static void equal_columns(void **state)
{
    (void)state;
    double H[64] = {0};
    static const double diag[8] = {2, 5, 2, 1, 5, 5, 1, 2};
    static const int32_t want[8] = {1, 4, 5, 0, 2, 7, 3, 6};
    for (int i = 0; i < 8; i++)
        H[9 * i] = diag[i];
    struct fg_hessian h = hessian_of(H, 8);
    struct fg_gptq_factor f;
    assert_int_equal(fg_gptq_factorize(&f, &h, FG_GPTQ_ORDER_ACT, 0, "x", NULL, NULL), 0);
    assert_memory_equal(f.perm, want, sizeof want);
    for (int i = 0; i < 8; i++)
        assert_true(fabs((double)f.U[9 * i] - 1 / sqrt(diag[want[i]])) < 1e-7);
    fg_gptq_factor_free(&f);
    fg_hessian_free(&h);
}

static void dead_columns(void **state)
{
    (void)state;
    const int64_t n = 70;
    double *H = conditioned(n, 100);
    static const int64_t dead[] = {0, 33, 69};
    for (size_t k = 0; k < FG_COUNT(dead); k++)
        for (int64_t i = 0; i < n; i++)
            H[dead[k] * n + i] = H[i * n + dead[k]] = 0;
    struct fg_hessian h = hessian_of(H, n);
    struct fg_gptq_factor f;
    assert_int_equal(fg_gptq_factorize(&f, &h, FG_GPTQ_ORDER_ACT, 0.01, "x", NULL, NULL), 0);
    assert_int_equal(f.n_dead, FG_COUNT(dead));
    int found = 0;
    for (int64_t i = 0; i < n; i++) {
        const bool is_dead = f.perm[i] == 0 || f.perm[i] == 33 || f.perm[i] == 69;
        assert_int_equal(f.dead[f.perm[i]], is_dead);
        assert_true((f.diag[f.perm[i]] == 0) == is_dead);
        for (int64_t j = 0; is_dead && j < n; j++)
            if (j != i) assert_true(f.U[i * n + j] == 0 && f.U[j * n + i] == 0);
        found += is_dead;
    }
    assert_int_equal(found, 3);
    expect_factor(&f, H, 1e-4);
    fg_gptq_factor_free(&f);
    memset(H, 0, (size_t)(n * n) * sizeof *H); // all of them
    memcpy(h.H, H, (size_t)(n * n) * sizeof *H);
    assert_int_equal(fg_gptq_factorize(&f, &h, FG_GPTQ_ORDER_ACT, 0.01, "x", NULL, NULL), 0);
    assert_int_equal(f.n_dead, n);
    fg_gptq_factor_free(&f);
    fg_hessian_free(&h);
    free(H);
}

// Eigenvalues 2 + x and -x in two columns of ones: the damping has to be above x.
static void damping_grows(void **state)
{
    (void)state;
    static const struct {
        double below, asked, got; // got 0: none
    } cases[] = {{-0.1, 0.01, 0.01}, {0.05, 0.01, 0.1}, {0.5, 0.01, 1}, {5, 0.01, 10},
                 {50, 0.01, 0},      {0.05, 0.1, 0.1},  {0, 0, 0},      {-0.1, 0, 0}};
    const int64_t n = 200;
    double *H = calloc((size_t)(n * n), sizeof *H);
    assert_non_null(H);
    for (int64_t i = 0; i < n; i++)
        H[i * n + i] = 1;
    for (size_t c = 0; c < FG_COUNT(cases); c++) {
        H[20 * n + 150] = H[150 * n + 20] = 1 + cases[c].below;
        struct fg_hessian h = hessian_of(H, n);
        struct fg_gptq_factor f;
        struct fg_error err = {0};
        const int rc = fg_gptq_factorize(&f, &h, FG_GPTQ_ORDER_ACT, cases[c].asked, "layers.0.down",
                                         NULL, &err);
        const bool fails = cases[c].got == 0 && cases[c].below >= 0;
        if (rc != (fails ? FG_EINPUT : 0)) fail_msg("case %d: %d", (int)c, rc);
        if (fails) {
            assert_string_equal(err.field, "layers.0.down");
            assert_null(f.U);
            assert_null(f.perm);
        } else {
            assert_true(fabs(f.damp - cases[c].got) <= 1e-12);
            expect_factor(&f, H, 1e-3);
        }
        fg_gptq_factor_free(&f);
        fg_hessian_free(&h);
    }
    free(H);
}

static void numbers_that_are_refused(void **state)
{
    (void)state;
    const int64_t n = 150;
    static const struct {
        int64_t i, j;
        double value;
    } cases[] = {{3, 3, NAN},   {149, 149, INFINITY}, {70, 70, -1e-9},
                 {2, 140, NAN}, {0, 1, INFINITY},     {148, 149, -INFINITY}};
    for (size_t c = 0; c < FG_COUNT(cases); c++) {
        double *H = conditioned(n, 100);
        H[cases[c].i * n + cases[c].j] = H[cases[c].j * n + cases[c].i] = cases[c].value;
        struct fg_hessian h = hessian_of(H, n);
        for (int order = FG_GPTQ_ORDER_ACT; order <= FG_GPTQ_ORDER_NONE; order++) {
            struct fg_gptq_factor f;
            struct fg_error err = {0};
            assert_int_equal(fg_gptq_factorize(&f, &h, (enum fg_gptq_order)order, 0.01,
                                               "layers.7.q", NULL, &err),
                             FG_EINPUT);
            assert_string_equal(err.field, "layers.7.q");
            assert_string_equal(err.expected, cases[c].i == cases[c].j
                                                  ? "a diagonal of finite numbers, 0 and more"
                                                  : "finite numbers");
            assert_null(f.U);
        }
        fg_hessian_free(&h);
        free(H);
    }
    // Finite in FP64, but FP32 has neither such a factor nor its inverse.
    static const double sizes[] = {1e-60, 1e60};
    for (size_t c = 0; c < FG_COUNT(sizes); c++) {
        struct fg_hessian h = hessian_of(&sizes[c], 1);
        struct fg_gptq_factor f;
        assert_int_equal(fg_gptq_factorize(&f, &h, FG_GPTQ_ORDER_ACT, 0.01, "x", NULL, NULL),
                         FG_EINPUT);
        fg_hessian_free(&h);
    }
}

static void bytes(void **state)
{
    (void)state;
    // The specification's largest: one FP64 copy of H and little else.
    const uint64_t most = fg_gptq_factorize_bytes(17408);
    assert_true(most >= 17408ull * 17408 * 8 && most < 17408ull * 17408 * 8 * 102 / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
        cmocka_unit_test(slabs_add_in_fp64),
        cmocka_unit_test(sums_and_traces_by_threads),
        cmocka_unit_test(traces),
        cmocka_unit_test(inverse_factor),
        cmocka_unit_test(factors),
        cmocka_unit_test(equal_columns),
        cmocka_unit_test(dead_columns),
        cmocka_unit_test(damping_grows),
        cmocka_unit_test(numbers_that_are_refused),
        cmocka_unit_test(bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
