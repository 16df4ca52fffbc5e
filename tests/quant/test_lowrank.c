// Low-rank factors: exact ranks come back, each fit is the best in its own metric, ranks 0 and
// full, the rule for small models, and the same bytes for every number of threads.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/size.h"
#include "quant/lowrank.h"
#include "quant/matrices.h"
#include <stdio.h>

static struct fg_lowrank_options options(void)
{
    return (struct fg_lowrank_options){.name = "layers.0.x", .seed = 1};
}

// Of E - A B.
static double error_at(const float *E, const uint16_t *a, const uint16_t *b, int64_t cols,
                       int64_t rank, int64_t i, int64_t j)
{
    double e = (double)E[i * cols + j];
    for (int64_t r = 0; r < rank; r++)
        e -= (double)fg_f16_to_f32(a[i * rank + r]) * (double)fg_f16_to_f32(b[r * cols + j]);
    return e;
}

// Sum of (E - A B) H (E - A B)^T's diagonal; H NULL: the plain norm.
static double output_error(const float *E, const uint16_t *a, const uint16_t *b, int64_t rows,
                           int64_t cols, int64_t rank, const double *H)
{
    double sum = 0, *e = malloc((size_t)cols * sizeof *e);
    assert_non_null(e);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++)
            e[j] = error_at(E, a, b, cols, rank, i, j);
        for (int64_t j = 0; j < cols; j++) {
            if (!H) sum += e[j] * e[j];
            for (int64_t k = 0; H && k < cols; k++)
                sum += e[j] * H[j * cols + k] * e[k];
        }
    }
    free(e);
    return sum;
}

static uint16_t *factors(int64_t n)
{
    uint16_t *p = malloc((size_t)(n + 1) * sizeof *p);
    assert_non_null(p);
    return p;
}

// E [rows][cols] of rank `rank`.
static float *of_rank(int64_t rows, int64_t cols, int64_t rank, uint64_t seed)
{
    float *a = gauss_matrix(rows, rank, 0.1, seed), *b = gauss_matrix(rank, cols, 1, seed + 1);
    float *e = gauss_matrix(rows, cols, 0, 0);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            double sum = 0;
            for (int64_t r = 0; r < rank; r++)
                sum += (double)a[i * rank + r] * (double)b[r * cols + j];
            e[i * cols + j] = (float)sum;
        }
    }
    free(a);
    free(b);
    return e;
}

// Rows, columns, and the rank that a matrix has.
static const int64_t exact_shapes[][3] = {{60, 90, 8},  {700, 33, 5}, {20, 1100, 1},
                                          {16, 16, 16}, {3, 50, 3},   {1, 1, 1}};

static void exact_ranks(void **state)
{
    (void)state;
    for (size_t s = 0; s < FG_COUNT(exact_shapes); s++) {
        const int64_t rows = exact_shapes[s][0], cols = exact_shapes[s][1],
                      rank = exact_shapes[s][2];
        float *E = of_rank(rows, cols, rank, 10 + s);
        uint16_t *a = factors(rows * rank), *b = factors(rank * cols);
        for (int balanced = 0; balanced < 2; balanced++) {
            struct fg_lowrank_options o = options();
            double left;
            o.balanced = balanced;
            assert_int_equal(fg_lowrank_svd(a, b, NULL, &left, E, rows, cols, rank, &o, NULL), 0);
            double all = 0;
            for (int64_t i = 0; i < rows * cols; i++)
                all += (double)E[i] * (double)E[i];
            const double rest = output_error(E, a, b, rows, cols, rank, NULL);
            assert_true(rest <= 1e-6 * all); // F16 is good for 2^-11
            assert_true(fabs(left - rest / all) <= 1e-3 * left + 1e-12);
            // All of the scale is in A, or it is shared; the largest of each column of A is above
            // 0.
            for (int64_t r = 0; r < rank; r++) {
                double norm_a = 0, norm_b = 0, most = 0, at = 0;
                for (int64_t i = 0; i < rows; i++) {
                    const double v = (double)fg_f16_to_f32(a[i * rank + r]);
                    norm_a += v * v;
                    if (fabs(v) > most) {
                        most = fabs(v);
                        at = v;
                    }
                }
                for (int64_t j = 0; j < cols; j++) {
                    const double v = (double)fg_f16_to_f32(b[r * cols + j]);
                    norm_b += v * v;
                }
                assert_true(at > 0);
                assert_true(fabs(norm_b - (balanced ? norm_a : 1)) < 0.01 * norm_b);
            }
        }
        free(E);
        free(a);
        free(b);
    }
}

// A symmetric positive [n][n] with a steep diagonal and correlated columns.
static double *hessian(int64_t n, uint64_t seed)
{
    float *x = gauss_matrix(3 * n, n, 1, seed);
    double *H = calloc((size_t)(n * n), sizeof *H);
    assert_non_null(H);
    for (int64_t t = 0; t < 3 * n; t++) {
        float *row = x + t * n;
        for (int64_t j = 0; j < n; j++)
            row[j] = (row[j] + 0.7f * row[j > 0 ? j - 1 : 0]) / (float)(1 + j % 9);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                H[i * n + j] += (double)row[i] * (double)row[j] / (double)(3 * n);
    }
    free(x);
    return H;
}

static void each_is_best_in_its_metric(void **state)
{
    (void)state;
    const int64_t rows = 80, cols = 60, rank = 10;
    float *E = gauss_matrix(rows, cols, 0.05, 20), diag[60];
    double *H = hessian(cols, 21), *D = calloc((size_t)(cols * cols), sizeof *D);
    assert_non_null(D);
    for (int64_t j = 0; j < cols; j++) {
        diag[j] = (float)H[j * cols + j];
        D[j * cols + j] = H[j * cols + j];
    }
    double plain[3], diagonal[3], full[3];
    for (int fit = FG_LOWRANK_PLAIN; fit <= FG_LOWRANK_FULL; fit++) {
        struct fg_lowrank_options o = options();
        uint16_t *a = factors(rows * rank), *b = factors(rank * cols);
        double left;
        o.fit = (enum fg_lowrank_fit)fit;
        o.diag = fit == FG_LOWRANK_DIAG ? diag : NULL;
        o.H = fit == FG_LOWRANK_FULL ? H : NULL;
        assert_int_equal(fg_lowrank_svd(a, b, NULL, &left, E, rows, cols, rank, &o, NULL), 0);
        plain[fit] = output_error(E, a, b, rows, cols, rank, NULL);
        diagonal[fit] = output_error(E, a, b, rows, cols, rank, D);
        full[fit] = output_error(E, a, b, rows, cols, rank, H);
        if (fit == FG_LOWRANK_DIAG) {
            const double all = output_error(E, a, b, rows, cols, 0, D);
            assert_true(fabs(left - diagonal[fit] / all) < 1e-4 * left);
        }
        assert_true(left > 0 && left < 1);
        free(a);
        free(b);
    }
    assert_true(plain[0] < plain[1] && plain[0] < plain[2]);
    assert_true(diagonal[1] < diagonal[0] && diagonal[1] < diagonal[2]);
    assert_true(full[2] < full[1] && full[1] < full[0]);
    free(E);
    free(H);
    free(D);
}

// The plain fit comes close to the best there is: the sum of squares of the other singular values,
// which for a matrix with orthogonal rows are the norms of the rows.
static void close_to_the_optimum(void **state)
{
    (void)state;
    const int64_t n = 64, rank = 8;
    float *E = gauss_matrix(n, n, 0, 0);
    double want = 0, left;
    for (int64_t i = 0; i < n; i++) {
        const double sigma = 1 / (double)(1 + i);
        for (int64_t j = 0; j < n; j++)
            E[i * n + j] = (float)(__builtin_popcountll((uint64_t)(i & j)) % 2 ? -sigma : sigma);
        if (i >= rank) want += sigma * sigma * (double)n;
    }
    struct fg_lowrank_options o = options();
    uint16_t *a = factors(n * rank), *b = factors(n * rank);
    assert_int_equal(fg_lowrank_svd(a, b, NULL, &left, E, n, n, rank, &o, NULL), 0);
    const double got = output_error(E, a, b, n, n, rank, NULL);
    assert_true(got >= want * 0.999 && got <= want * 1.002);
    free(E);
    free(a);
    free(b);
}

static void none_all_and_nothing(void **state)
{
    (void)state;
    struct fg_lowrank_options o = options();
    float *E = gauss_matrix(9, 12, 1, 30), zeros[20] = {0};
    uint16_t *a = factors(9 * 9), *b = factors(9 * 12);
    double left = 0;
    assert_int_equal(fg_lowrank_svd(a, b, NULL, &left, E, 9, 12, 0, &o, NULL), 0);
    assert_true(left == 1);
    assert_int_equal(fg_lowrank_svd(a, b, NULL, &left, E, 9, 12, 9, &o, NULL), 0);
    assert_true(left < 1e-6);
    assert_int_equal(fg_lowrank_svd(a, b, NULL, &left, zeros, 4, 5, 2, &o, NULL), 0);
    assert_true(isnan(left));
    for (int i = 0; i < 8; i++)
        assert_int_equal(a[i], 0);

    // A column that no input ever reached costs nothing and gets nothing.
    float diag[12];
    for (int j = 0; j < 12; j++)
        diag[j] = j == 5 ? 0 : 1;
    o.fit = FG_LOWRANK_DIAG;
    o.diag = diag;
    assert_int_equal(fg_lowrank_svd(a, b, NULL, &left, E, 9, 12, 4, &o, NULL), 0);
    for (int r = 0; r < 4; r++)
        assert_int_equal(b[r * 12 + 5], 0);
    free(E);
    free(a);
    free(b);
}

static void what_is_refused(void **state)
{
    (void)state;
    struct fg_lowrank_options o = options();
    struct fg_error err = {0};
    float *E = gauss_matrix(9, 12, 1, 31);
    uint16_t *a = factors(9 * 9), *b = factors(9 * 12);
    E[40] = NAN;
    assert_int_equal(fg_lowrank_svd(a, b, NULL, NULL, E, 9, 12, 2, &o, &err), FG_EINPUT);
    assert_string_equal(err.field, "layers.0.x");
    E[40] = 1e7f; // no F16 in A
    assert_int_equal(fg_lowrank_svd(a, b, NULL, NULL, E, 9, 12, 2, &o, &err), FG_EINPUT);
    assert_string_equal(err.field, "layers.0.x");
    E[40] = 1;
    double *H = hessian(12, 32);
    H[0] = -5;
    o.fit = FG_LOWRANK_FULL;
    o.H = H;
    assert_int_equal(fg_lowrank_svd(a, b, NULL, NULL, E, 9, 12, 2, &o, &err), FG_EINPUT);
    assert_string_equal(err.field, "layers.0.x");
    free(H);
    free(E);
    free(a);
    free(b);
}

// More than one tile of rows and columns, and more than one depth.
static void threads(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{1100, 700}, {20, 4200}, {4200, 20}};
    for (size_t s = 0; s < FG_COUNT(shapes); s++) {
        const int64_t rows = shapes[s][0], cols = shapes[s][1], rank = 6;
        float *E = gauss_matrix(rows, cols, 0.1, 40 + s);
        uint16_t *a = factors(rows * rank), *b = factors(rank * cols);
        uint16_t *c = factors(rows * rank), *d = factors(rank * cols);
        struct fg_lowrank_options o = options();
        double one, many;
        assert_int_equal(fg_lowrank_svd(a, b, NULL, &one, E, rows, cols, rank, &o, NULL), 0);
        assert_true(one > 0.5 && one < 1);
        const double rest = output_error(E, a, b, rows, cols, rank, NULL);
        const double all = output_error(E, a, b, rows, cols, 0, NULL);
        assert_true(fabs(one - rest / all) < 1e-4);
        for (int n = 2; n <= 8; n *= 4) {
            assert_int_equal(fg_pool_new(&o.pool, n, NULL), 0);
            assert_int_equal(fg_lowrank_svd(c, d, NULL, &many, E, rows, cols, rank, &o, NULL), 0);
            assert_memory_equal(a, c, (size_t)(rows * rank) * 2);
            assert_memory_equal(b, d, (size_t)(rank * cols) * 2);
            assert_true(one == many);
            fg_pool_free(o.pool);
        }
        free(E);
        free(a);
        free(b);
        free(c);
        free(d);
    }
}

// ---- INT8

struct int8_factors {
    int8_t *a, *b;
    float *scale;
};

static struct int8_factors int8_new(int64_t rows, int64_t cols, int64_t rank)
{
    struct int8_factors f = {malloc((size_t)(rows * rank + 1)), malloc((size_t)(rank * cols + 1)),
                             malloc((size_t)(rank + 1) * sizeof *f.scale)};
    assert_true(f.a && f.b && f.scale);
    memset(f.a, 0x80, (size_t)(rows * rank + 1));
    memset(f.b, 0x80, (size_t)(rank * cols + 1));
    return f;
}

static void int8_free(struct int8_factors *f)
{
    free(f->a);
    free(f->b);
    free(f->scale);
}

// E - A B [rows][cols].
static float *int8_rest(const float *E, const struct int8_factors *f, int64_t rows, int64_t cols,
                        int64_t rank)
{
    float *rest = gauss_matrix(rows, cols, 0, 0);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            double e = (double)E[i * cols + j];
            for (int64_t r = 0; r < rank; r++)
                e -= (double)f->scale[r] * f->a[i * rank + r] * f->b[r * cols + j];
            rest[i * cols + j] = (float)e;
        }
    return rest;
}

// A matrix of that rank comes back to within what 127 steps allow: with r = the largest over the
// root mean square of a vector, rounding leaves r^2 / (12 * 127^2) of its energy, once for A, which
// B makes up for in part, and once for B.
static void int8_rounding(void **state)
{
    (void)state;
    for (size_t s = 0; s < FG_COUNT(exact_shapes); s++) {
        const int64_t rows = exact_shapes[s][0], cols = exact_shapes[s][1],
                      rank = exact_shapes[s][2];
        float *E = of_rank(rows, cols, rank, 10 + s);
        struct int8_factors f = int8_new(rows, cols, rank);
        const struct fg_lowrank_options o = options();
        double left, all = output_error(E, NULL, NULL, rows, cols, 0, NULL), most = 0;
        assert_int_equal(fg_lowrank_svd(f.a, f.b, f.scale, &left, E, rows, cols, rank, &o, NULL),
                         0);
        for (int64_t r = 0; r < rank; r++) {
            double peak[2] = {0}, energy[2] = {0};
            for (int64_t i = 0; i < rows; i++) {
                assert_true(f.a[i * rank + r] >= -127);
                peak[0] = fmax(peak[0], abs(f.a[i * rank + r]));
                energy[0] += f.a[i * rank + r] * f.a[i * rank + r];
            }
            for (int64_t j = 0; j < cols; j++) {
                assert_true(f.b[r * cols + j] >= -127);
                peak[1] = fmax(peak[1], abs(f.b[r * cols + j]));
                energy[1] += f.b[r * cols + j] * f.b[r * cols + j];
            }
            // No step is so wide that codes stay unused.
            assert_true(peak[0] >= 126 && peak[1] >= 126);
            assert_true(f.scale[r] > 0 && isfinite(f.scale[r]));
            const double share = (double)rows / energy[0] / 12 + (double)cols / energy[1] / 12;
            most = fmax(most, share);
        }
        float *rest = int8_rest(E, &f, rows, cols, rank);
        const double error = output_error(rest, NULL, NULL, rows, cols, 0, NULL);
        assert_true(error <= 1.2 * most * all);
        assert_true(fabs(left - error / all) <= 1e-3 * left + 1e-12);
        free(rest);
        free(E);
        int8_free(&f);
    }
}

// In its own metric each fit loses next to nothing of what the same factors in F16 gain.
static void int8_gains_as_much(void **state)
{
    (void)state;
    const int64_t rows = 200, cols = 120, rank = 12;
    float *E = gauss_matrix(rows, cols, 0.05, 20), *low = of_rank(rows, cols, rank, 50), diag[120];
    double *H = hessian(cols, 21);
    for (int64_t i = 0; i < rows * cols; i++)
        E[i] += 0.1f * low[i];
    for (int64_t j = 0; j < cols; j++)
        diag[j] = (float)H[j * cols + j];
    for (int fit = FG_LOWRANK_PLAIN; fit <= FG_LOWRANK_FULL; fit++) {
        struct fg_lowrank_options o = options();
        uint16_t *a = factors(rows * rank), *b = factors(rank * cols);
        struct int8_factors f = int8_new(rows, cols, rank);
        double in_f16, in_int8;
        o.fit = (enum fg_lowrank_fit)fit;
        o.diag = fit == FG_LOWRANK_DIAG ? diag : NULL;
        o.H = fit == FG_LOWRANK_FULL ? H : NULL;
        assert_int_equal(fg_lowrank_svd(a, b, NULL, &in_f16, E, rows, cols, rank, &o, NULL), 0);
        assert_int_equal(fg_lowrank_svd(f.a, f.b, f.scale, &in_int8, E, rows, cols, rank, &o, NULL),
                         0);
        print_message("fit %d: left %.6f in F16, %.6f in INT8: %.4f %% of the gain\n", fit, in_f16,
                      in_int8, 100 * (in_int8 - in_f16) / (1 - in_f16));
        assert_true(in_int8 - in_f16 < 0.005 * (1 - in_f16));
        free(a);
        free(b);
        int8_free(&f);
    }
    free(E);
    free(low);
    free(H);
}

static void int8_of_little(void **state)
{
    (void)state;
    struct fg_lowrank_options o = options();
    float *E = gauss_matrix(9, 12, 1, 30), zeros[20] = {0};
    struct int8_factors f = int8_new(9, 12, 9);
    double left = 0;
    assert_int_equal(fg_lowrank_svd(f.a, f.b, f.scale, &left, E, 9, 12, 0, &o, NULL), 0);
    assert_true(left == 1);
    // Nothing to make up for: the product is 0, whatever the first factor holds.
    assert_int_equal(fg_lowrank_svd(f.a, f.b, f.scale, &left, zeros, 4, 5, 2, &o, NULL), 0);
    assert_true(isnan(left));
    for (int i = 0; i < 10; i++)
        assert_int_equal(f.b[i], 0);
    assert_true(f.scale[0] == 1 && f.scale[1] == 1);
    // As much as FP32 holds, where F16 holds nothing any more.
    for (int i = 0; i < 9 * 12; i++)
        E[i] *= 0x1p-60f;
    assert_int_equal(fg_lowrank_svd(f.a, f.b, f.scale, &left, E, 9, 12, 9, &o, NULL), 0);
    assert_true(left < 1e-3);

    float diag[12];
    for (int j = 0; j < 12; j++)
        diag[j] = j == 5 ? 0 : 1;
    o.fit = FG_LOWRANK_DIAG;
    o.diag = diag;
    assert_int_equal(fg_lowrank_svd(f.a, f.b, f.scale, &left, E, 9, 12, 4, &o, NULL), 0);
    for (int r = 0; r < 4; r++)
        assert_int_equal(f.b[r * 12 + 5], 0);
    free(E);
    int8_free(&f);
}

static void int8_threads(void **state)
{
    (void)state;
    const int64_t rows = 1100, cols = 700, rank = 6;
    float *E = gauss_matrix(rows, cols, 0.1, 40);
    struct int8_factors f = int8_new(rows, cols, rank), g = int8_new(rows, cols, rank);
    struct fg_lowrank_options o = options();
    double one, many;
    assert_int_equal(fg_lowrank_svd(f.a, f.b, f.scale, &one, E, rows, cols, rank, &o, NULL), 0);
    for (int n = 2; n <= 8; n *= 4) {
        assert_int_equal(fg_pool_new(&o.pool, n, NULL), 0);
        assert_int_equal(fg_lowrank_svd(g.a, g.b, g.scale, &many, E, rows, cols, rank, &o, NULL),
                         0);
        assert_memory_equal(f.a, g.a, (size_t)(rows * rank));
        assert_memory_equal(f.b, g.b, (size_t)(rank * cols));
        assert_memory_equal(f.scale, g.scale, (size_t)rank * sizeof *f.scale);
        assert_true(one == many);
        fg_pool_free(o.pool);
    }
    free(E);
    int8_free(&f);
    int8_free(&g);
}

static void rank_of_small_models(void **state)
{
    (void)state;
    assert_int_equal(fg_lowrank_auto(10240, 5120), 64); // 16 % would allow more
    // 576 x 576: lut4 is 165,888 + 32 + 1,152 bytes; 16 % is 26,731; 2 * 1,152 * r <= that: 11.6.
    assert_int_equal(fg_lowrank_auto(576, 576), 8);
    assert_int_equal(fg_lowrank_auto(64, 64), 0);
    assert_int_equal(fg_lowrank_auto(0, 64), 0);
    for (int64_t n = 8; n < 3000; n += 56) {
        const int64_t r = fg_lowrank_auto(n, n);
        const double share = 0.16 * ((double)(n * n) / 2 + 32 + (double)(2 * n));
        assert_true(r % 8 == 0 && 4.0 * (double)(r * n) <= share);
        assert_true(r == 64 || 4.0 * (double)((r + 8) * n) > share);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_ranks),          cmocka_unit_test(each_is_best_in_its_metric),
        cmocka_unit_test(close_to_the_optimum), cmocka_unit_test(none_all_and_nothing),
        cmocka_unit_test(what_is_refused),      cmocka_unit_test(threads),
        cmocka_unit_test(int8_rounding),        cmocka_unit_test(int8_gains_as_much),
        cmocka_unit_test(int8_of_little),       cmocka_unit_test(int8_threads),
        cmocka_unit_test(rank_of_small_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
