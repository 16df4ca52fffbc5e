// Fitting: scales, the specification's errors on Gaussian numbers, invariants of k-means and
// Lloyd, rounding against a search, and the same bytes for every number of threads and every level.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/size.h"
#include "quant/dequant.h"
#include "quant/fit.h"
#include "quant/tiles.h"
#include "quant/matrices.h"

static const enum fg_qformat luts[] = {FG_Q_V2X16, FG_Q_V2X64, FG_Q_LUT4, FG_Q_LUT6};

static struct fg_fit_options options(void)
{
    int n;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n);
    return fg_fit_defaults("layers.0.x", levels[n - 1], NULL);
}

static void scales(void **state)
{
    (void)state;
    struct fg_fit_options o = options();
    const float W[5][4] = {
        {1, -1, 1, -1}, {0, 0, 0, 0}, {3, 4, 0, 0}, {1e-9f, 0, 0, 0}, {254, -127, 1, 0}};
    uint16_t s[5];
    assert_int_equal(fg_fit_scales(s, FG_Q_LUT4, &W[0][0], 5, 4, &o, NULL), 0);
    assert_int_equal(s[0], fg_f16_of_f32(1));
    assert_int_equal(s[1], fg_f16_of_f32(1));
    assert_int_equal(s[2], fg_f16_of_f32(2.5f));
    assert_int_equal(s[3], fg_f16_of_f32(1)); // what rounds to 0 is 0
    assert_int_equal(fg_fit_scales(s, FG_Q_INT8, &W[0][0], 5, 4, &o, NULL), 0);
    assert_int_equal(s[0], fg_f16_of_f32(1.0f / 127));
    assert_int_equal(s[1], 1);
    assert_int_equal(s[3], 1);
    assert_int_equal(s[4], fg_f16_of_f32(2));
}

static void weights_that_are_refused(void **state)
{
    (void)state;
    struct fg_fit_options o = options();
    float *W = gauss_matrix(4, 20, 1, 1);
    for (int f = 0; f < FG_Q_N_FORMATS; f++) {
        struct fg_fit_result r;
        struct fg_error err = {0};
        static const float bad[] = {INFINITY, -INFINITY, NAN};
        for (int i = 0; i < 3; i++) {
            W[50] = bad[i];
            assert_int_equal(fg_fit_rtn(&r, (enum fg_qformat)f, W, 4, 20, &o, &err), FG_EINPUT);
            assert_string_equal(err.field, fg_qformat_is_kept((enum fg_qformat)f)
                                               ? "layers.0.x[50]"
                                               : "layers.0.x[2]");
            assert_null(r.data);
        }
        W[50] = 1e9f;
        const int fits = f == FG_Q_BF16 || f == FG_Q_F32;
        assert_int_equal(fg_fit_rtn(&r, (enum fg_qformat)f, W, 4, 20, &o, &err),
                         fits ? 0 : FG_EINPUT);
        fg_fit_free(&r);
        W[50] = 1;
        assert_int_equal(fg_fit_rtn(&r, (enum fg_qformat)f, W, 3, 20, &o, &err),
                         f <= FG_Q_V2X64 ? FG_EINPUT : 0);
        fg_fit_free(&r);
    }
    free(W);
}

// The specification's mean squared errors of unit Gaussian numbers; the table is fitted to one
// matrix and applied to another.
static void gaussian_errors(void **state)
{
    (void)state;
    static const struct {
        double mse, tolerance;
    } want[] = {{0.1085, 0.0015}, {0.0298, 0.0003}, {0.0095, 0.0002}, {0.00068, 0.00003}};
    const int64_t rows = 256, cols = 1024;
    struct fg_fit_options o = options();
    o.row_weight = false;
    float *train = gauss_matrix(rows, cols, 1, 1), *held = gauss_matrix(rows, cols, 1, 2);
    uint16_t scale[256], lut[128];
    uint8_t *out = malloc((size_t)(rows * cols));
    assert_non_null(out);
    for (int64_t r = 0; r < rows; r++)
        scale[r] = fg_f16_of_f32(1);
    for (size_t i = 0; i < FG_COUNT(luts); i++) {
        double inertia;
        struct fg_fit_error e;
        assert_int_equal(fg_fit_table(lut, &inertia, luts[i], train, scale, rows, cols, &o, NULL),
                         0);
        assert_int_equal(fg_fit_round(out, &e, luts[i], held, scale, lut, rows, cols, &o, NULL), 0);
        const double mse = e.noise / (double)(rows * cols);
        if (fabs(mse - want[i].mse) > want[i].tolerance)
            fail_msg("%s: mse %g", fg_qformat_name(luts[i]), mse);
        assert_true(fabs(fg_fit_snr_db(&e) - 10 * log10(e.signal / e.noise)) < 1e-12);
    }
    free(train);
    free(held);
    free(out);
}

// Tables as the kernels have them in INT8: fast numerics take nothing from them, and the error of
// the format rises by less than half a percent; of 64 values, whose steps are two of the grid's, by
// less than a fifth.
static void tables_on_the_grid(void **state)
{
    (void)state;
    const int64_t rows = 64, cols = 512;
    struct fg_fit_options o = options();
    float *W = gauss_matrix(rows, cols, 0.02, 9);
    for (size_t i = 0; i < FG_COUNT(luts); i++) {
        struct fg_fit_result r[2];
        for (int grid = 0; grid < 2; grid++) {
            o.int8_tables = grid != 0;
            assert_int_equal(fg_fit_rtn(&r[grid], luts[i], W, rows, cols, &o, NULL), 0);
        }
        assert_true(r[1].e.noise < r[0].e.noise * (luts[i] == FG_Q_LUT6 ? 1.2 : 1.005));
        const struct fg_qmat m = fg_fit_view(&r[1]);
        float table[2][64], ts[2];
        uint8_t u8[2][64];
        fg_tiles_tables(table, u8, ts, &m);
        for (int t = 0; t < fg_qformat_rows_per_index(luts[i]); t++)
            for (int e = 0; e < 64; e++)
                assert_true(fabsf(table[t][e] - ts[t] * (float)(u8[t][e] - 128)) <=
                            fabsf(table[t][e]) * 0x1p-10f);
        fg_fit_free(&r[0]);
        fg_fit_free(&r[1]);
    }
    free(W);
}

static void expect_same(const struct fg_fit_result *a, const struct fg_fit_result *b)
{
    assert_int_equal(a->data_bytes, b->data_bytes);
    assert_memory_equal(a->data, b->data, a->data_bytes);
    if (a->scale) assert_memory_equal(a->scale, b->scale, (size_t)a->rows * 2);
    const int entries = fg_qformat_entries(a->format) * fg_qformat_rows_per_index(a->format);
    if (a->lut) assert_memory_equal(a->lut, b->lut, (size_t)entries * 2);
    assert_true(a->inertia == b->inertia && a->e.signal == b->e.signal && a->e.noise == b->e.noise);
}

static void threads_and_levels(void **state)
{
    (void)state;
    const int64_t rows = 62, cols = 331;
    struct fg_fit_options o = options();
    float *W = gauss_matrix(rows, cols, 0.02, 4), *h = gauss_matrix(1, cols, 1, 5);
    for (int64_t j = 0; j < cols; j++)
        h[j] *= h[j];
    o.col_weight = h;
    o.vectors = 9000;
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    for (int f = 0; f < FG_Q_N_FORMATS; f++) {
        struct fg_fit_result first, r;
        o.pool = NULL;
        o.kernels = levels[0];
        assert_int_equal(fg_fit_rtn(&first, (enum fg_qformat)f, W, rows, cols, &o, NULL), 0);
        static const int threads[] = {1, 2, 8};
        for (size_t i = 0; i < FG_COUNT(threads); i++) {
            assert_int_equal(fg_pool_new(&o.pool, threads[i], NULL), 0);
            o.kernels = levels[n_levels - 1 - (int)i % n_levels];
            assert_int_equal(fg_fit_rtn(&r, (enum fg_qformat)f, W, rows, cols, &o, NULL), 0);
            expect_same(&first, &r);
            fg_fit_free(&r);
            fg_pool_free(o.pool);
        }
        fg_fit_free(&first);
    }
    free(W);
    free(h);
}

// What is stored is valid, has the errors that are reported, and no entry is nearer than the one
// that was taken.
static void rounding(void **state)
{
    (void)state;
    const int64_t rows = 10, cols = 77;
    float *W = gauss_matrix(rows, cols, 0.3, 6), *back = gauss_matrix(rows, cols, 1, 7);
    for (int64_t j = 0; j < cols; j++)
        W[3 * cols + j] *= 40; // a pair whose rows weigh differently
    for (int f = 0; f < FG_Q_N_FORMATS; f++) {
        for (int weighted = 0; weighted < 2; weighted++) {
            struct fg_fit_options o = options();
            struct fg_fit_result r;
            o.row_weight = weighted;
            assert_int_equal(fg_fit_rtn(&r, (enum fg_qformat)f, W, rows, cols, &o, NULL), 0);
            const struct fg_qmat m = fg_fit_view(&r);
            assert_int_equal(fg_qmat_check(&m, "x", NULL, true, NULL), 0);
            fg_qmat_dequantize(back, &m, 0, rows);
            double signal = 0, noise = 0;
            for (int64_t i = 0; i < rows * cols; i++) {
                signal += (double)W[i] * (double)W[i];
                noise += ((double)W[i] - (double)back[i]) * ((double)W[i] - (double)back[i]);
            }
            assert_true(fabs(signal - r.e.signal) <= 1e-12 * signal);
            assert_true(fabs(noise - r.e.noise) <= 1e-9 * noise);
            const int d = fg_qformat_rows_per_index(m.format), K = fg_qformat_entries(m.format);
            for (int64_t g = 0; K && g < rows / d; g++) {
                uint8_t idx[77];
                fg_qmat_row_indices(idx, &m, g);
                for (int64_t j = 0; j < cols; j++) {
                    double dist[64];
                    for (int e = 0; e < K; e++) {
                        dist[e] = 0;
                        for (int t = 0; t < d; t++) {
                            const float s = fg_f16_to_f32(m.scale[d * g + t]);
                            const float x = W[(d * g + t) * cols + j] / s;
                            const double a = (double)x - (double)fg_f16_to_f32(m.lut[e * d + t]);
                            dist[e] += a * a * (weighted ? (double)s * (double)s : 1);
                        }
                    }
                    for (int e = 0; e < K; e++) // FP32's rounding apart, none is nearer
                        assert_true(dist[idx[j]] <= dist[e] * (1 + 1e-5) + 1e-12);
                }
            }
            for (int64_t i = 0; m.codes && i < rows * cols; i++) {
                const float s = fg_f16_to_f32(m.scale[i / cols]);
                const float x = rintf(W[i] / s);
                assert_true((float)m.codes[i] == fminf(fmaxf(x, -127), 127));
            }
            for (int i = 0; i + 1 < K; i++) { // ascending, by the first component, then the second
                const float a = fg_f16_to_f32(m.lut[i * d]), b = fg_f16_to_f32(m.lut[(i + 1) * d]);
                assert_true(a < b || (a == b && (d == 1 || fg_f16_to_f32(m.lut[i * d + 1]) <=
                                                               fg_f16_to_f32(m.lut[i * d + 3]))));
            }
            fg_fit_free(&r);
        }
    }
    free(W);
    free(back);
}

// Values halfway between levels and equal levels take the lower index.
static void ties(void **state)
{
    (void)state;
    struct fg_fit_options o = options();
    uint16_t lut[16], scale[1] = {0x3C00};
    for (int k = 0; k < 16; k++)
        lut[k] = fg_f16_of_f32((float)(k < 5 ? k : k - 1)); // 4 is there twice
    const float W[6] = {0.5f, 3.5f, 4.0f, 4.5f, nextafterf(0.5f, 1), -9};
    uint8_t out[3], idx[6];
    assert_int_equal(fg_fit_round(out, NULL, FG_Q_LUT4, W, scale, lut, 1, 6, &o, NULL), 0);
    fg_unpack_indices(idx, out, 6, 4);
    assert_memory_equal(idx, ((uint8_t[]){0, 3, 4, 4, 1, 0}), 6);
    // Two entries whose middle no FP32 number is: 1 and 1 + 2^-10 scaled far apart in exponent.
    for (int k = 0; k < 16; k++)
        lut[k] = fg_f16_of_f32(k == 0 ? 0x1p-24f : 1024.0f + (float)k);
    const float mid = 512.5f; // the true middle of 2^-24 and 1025 lies above it by 2^-25
    const float V[2] = {mid, nextafterf(mid, 1e9f)};
    assert_int_equal(fg_fit_round(out, NULL, FG_Q_LUT4, V, scale, lut, 1, 2, &o, NULL), 0);
    fg_unpack_indices(idx, out, 2, 4);
    assert_memory_equal(idx, ((uint8_t[]){0, 1}), 2);
}

// More iterations never raise the inertia, and neither do more inits.
static void inertia_falls(void **state)
{
    (void)state;
    const int64_t rows = 64, cols = 256;
    float *W = gauss_matrix(rows, cols, 1, 8);
    struct fg_fit_options o = options();
    uint16_t scale[64], lut[128];
    assert_int_equal(fg_fit_scales(scale, FG_Q_V2X64, W, rows, cols, &o, NULL), 0);
    double before = INFINITY, now;
    o.inits = 1;
    for (o.iterations = 0; o.iterations < 60; o.iterations++) {
        assert_int_equal(fg_fit_table(lut, &now, FG_Q_V2X64, W, scale, rows, cols, &o, NULL), 0);
        assert_true(now <= before * (1 + 1e-7)); // distances are FP32
        before = now;
    }
    assert_true(now > 0);
    double single = before;
    o.iterations = 200;
    for (o.inits = 1; o.inits < 5; o.inits++) {
        assert_int_equal(fg_fit_table(lut, &now, FG_Q_V2X64, W, scale, rows, cols, &o, NULL), 0);
        assert_true(now <= single);
        single = now;
    }
    free(W);
}

// Tables that see every column do not depend on the columns' order.
static void order_of_columns(void **state)
{
    (void)state;
    const int64_t rows = 32, cols = 150;
    float *W = gauss_matrix(rows, cols, 1, 9), *V = gauss_matrix(rows, cols, 1, 9);
    float h[150], g[150];
    for (int64_t j = 0; j < cols; j++) {
        h[j] = (float)(1 + j % 7);
        g[(j * 7 + 3) % cols] = h[j];
        for (int64_t r = 0; r < rows; r++)
            V[r * cols + (j * 7 + 3) % cols] = W[r * cols + j];
    }
    for (size_t i = 0; i < FG_COUNT(luts); i++) {
        struct fg_fit_options a = options(), b = options();
        a.col_weight = h;
        b.col_weight = g;
        uint16_t scale[32], one[128], two[128];
        double u, v;
        assert_int_equal(fg_fit_scales(scale, luts[i], W, rows, cols, &a, NULL), 0);
        assert_int_equal(fg_fit_table(one, &u, luts[i], W, scale, rows, cols, &a, NULL), 0);
        assert_int_equal(fg_fit_table(two, &v, luts[i], V, scale, rows, cols, &b, NULL), 0);
        assert_true(u == v);
        assert_memory_equal(
            one, two,
            (size_t)(fg_qformat_entries(luts[i]) * fg_qformat_rows_per_index(luts[i])) * 2);
    }
    free(W);
    free(V);
}

static void twice_the_weights(void **state)
{
    (void)state;
    const int64_t rows = 20, cols = 100;
    float *W = gauss_matrix(rows, cols, 1, 10), *V = gauss_matrix(rows, cols, 1, 10);
    for (int64_t i = 0; i < rows * cols; i++)
        V[i] = 2 * W[i];
    struct fg_fit_options o = options();
    for (int f = 0; f <= FG_Q_INT8; f++) {
        struct fg_fit_result a, b;
        assert_int_equal(fg_fit_rtn(&a, (enum fg_qformat)f, W, rows, cols, &o, NULL), 0);
        assert_int_equal(fg_fit_rtn(&b, (enum fg_qformat)f, V, rows, cols, &o, NULL), 0);
        assert_memory_equal(a.data, b.data, a.data_bytes);
        for (int64_t r = 0; r < rows; r++)
            assert_true(fg_f16_to_f32(b.scale[r]) == 2 * fg_f16_to_f32(a.scale[r]));
        fg_fit_free(&a);
        fg_fit_free(&b);
    }
    free(W);
    free(V);
}

// As many different pairs (or values) as entries come back as they are.
static void as_many_as_entries(void **state)
{
    (void)state;
    float *pairs = gauss_matrix(64, 2, 1, 11);
    for (size_t i = 0; i < FG_COUNT(luts); i++) {
        const int K = fg_qformat_entries(luts[i]), d = fg_qformat_rows_per_index(luts[i]);
        const int64_t rows = 8, cols = 3 * K;
        float *W = gauss_matrix(rows, cols, 1, 12), *back = gauss_matrix(rows, cols, 1, 12);
        for (int64_t r = 0; r < rows; r++) // every row has every entry three times: one scale
            for (int64_t j = 0; j < cols; j++)
                W[r * cols + j] = pairs[(5 * j + 3 * (r / d)) % K * 2 + r % d];
        struct fg_fit_options o = options();
        o.int8_tables = false;
        struct fg_fit_result r;
        assert_int_equal(fg_fit_rtn(&r, luts[i], W, rows, cols, &o, NULL), 0);
        const struct fg_qmat m = fg_fit_view(&r);
        fg_qmat_dequantize(back, &m, 0, rows);
        for (int64_t j = 0; j < rows * cols; j++)
            assert_true(fabsf(back[j] - W[j]) <= 0x1p-11f * fabsf(W[j]) + 1e-6f);
        fg_fit_free(&r);
        free(W);
        free(back);
    }
    free(pairs);
}

// Fewer samples than entries, one weight, zeros alone, and inputs that were always 0.
static void small_and_dead(void **state)
{
    (void)state;
    struct fg_fit_options o = options();
    const float one[2] = {0.75f, -3}, zeros[12] = {0}, dead[6] = {0};
    for (size_t i = 0; i < FG_COUNT(luts); i++) {
        struct fg_fit_result r;
        float back[24];
        assert_int_equal(fg_fit_rtn(&r, luts[i], one, 2, 1, &o, NULL), 0);
        struct fg_qmat m = fg_fit_view(&r);
        fg_qmat_dequantize(back, &m, 0, 2);
        assert_true(fabsf(back[0] - 0.75f) < 1e-3f && fabsf(back[1] + 3) < 4e-3f);
        fg_fit_free(&r);

        assert_int_equal(fg_fit_rtn(&r, luts[i], zeros, 2, 6, &o, NULL), 0);
        assert_true(r.e.noise == 0 && r.e.signal == 0);
        assert_true(isinf(fg_fit_snr_db(&r.e)));
        fg_fit_free(&r);

        float *W = gauss_matrix(4, 6, 1, 13);
        o.col_weight = dead;
        assert_int_equal(fg_fit_rtn(&r, luts[i], W, 4, 6, &o, NULL), 0);
        m = fg_fit_view(&r);
        assert_int_equal(fg_qmat_check(&m, "x", NULL, true, NULL), 0);
        assert_true(fg_fit_snr_db(&r.e) > 15);
        o.col_weight = NULL;
        fg_fit_free(&r);
        free(W);
    }
}

// Weights of columns and rows move the error to where it costs less.
static void weights_count(void **state)
{
    (void)state;
    const int64_t rows = 128, cols = 256;
    float *W = gauss_matrix(rows, cols, 1, 14), h[256];
    for (int64_t r = 0; r < rows; r++) {
        const float s = (float)exp(0.3 * (double)(r % 5));
        for (int64_t j = 0; j < cols; j++)
            W[r * cols + j] *= s * (j < 32 ? 2.0f : 1.0f); // the heavy columns look different
    }
    for (int64_t j = 0; j < cols; j++)
        h[j] = j < 32 ? 100.0f : 1.0f;
    for (size_t i = 0; i < FG_COUNT(luts); i++) {
        double error[2];
        for (int heavy = 0; heavy < 2; heavy++) {
            struct fg_fit_options o = options();
            o.col_weight = heavy ? h : NULL;
            struct fg_fit_result r;
            assert_int_equal(fg_fit_rtn(&r, luts[i], W, rows, cols, &o, NULL), 0);
            float back[256];
            const struct fg_qmat m = fg_fit_view(&r);
            error[heavy] = 0;
            for (int64_t k = 0; k < rows; k++) {
                fg_qmat_dequantize(back, &m, k, k + 1);
                for (int64_t j = 0; j < cols; j++) {
                    const double e = (double)W[k * cols + j] - (double)back[j];
                    error[heavy] += e * e * (double)h[j];
                }
            }
            fg_fit_free(&r);
        }
        // 64 values lie on the grid of INT8 tables: not much is left to place.
        assert_true(error[1] < (luts[i] == FG_Q_LUT6 ? 0.98 : 0.95) * error[0]);
        double noise[2];
        for (int by_row = 0; by_row < 2; by_row++) {
            struct fg_fit_options o = options();
            o.row_weight = by_row;
            struct fg_fit_result r;
            assert_int_equal(fg_fit_rtn(&r, luts[i], W, rows, cols, &o, NULL), 0);
            noise[by_row] = r.e.noise;
            fg_fit_free(&r);
        }
        assert_true(noise[1] < noise[0] * (luts[i] >= FG_Q_LUT4 ? 1.01 : 0.99));
    }
    free(W);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales),
        cmocka_unit_test(weights_that_are_refused),
        cmocka_unit_test(gaussian_errors),
        cmocka_unit_test(tables_on_the_grid),
        cmocka_unit_test(threads_and_levels),
        cmocka_unit_test(rounding),
        cmocka_unit_test(ties),
        cmocka_unit_test(inertia_falls),
        cmocka_unit_test(order_of_columns),
        cmocka_unit_test(twice_the_weights),
        cmocka_unit_test(as_many_as_entries),
        cmocka_unit_test(small_and_dead),
        cmocka_unit_test(weights_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
