// GPTQ: rounding to nearest where columns do not depend on each other, an oracle in NumPy, the best
// of all choices for two columns, the specification's synthetic reference, what must not matter
// (rows of a block, threads, instruction sets, the order of columns), refinement, and what is
// refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/size.h"
#include "format/safetensors.h"
#include "quant/dequant.h"
#include "quant/gptq_impl.h"
#include "quant/synthetic.h"
#include <stdio.h>

static const enum fg_qformat formats[] = {FG_Q_V2X16, FG_Q_V2X64, FG_Q_LUT4, FG_Q_LUT6, FG_Q_INT8};

static struct fg_gptq_options options(void)
{
    int n;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n);
    struct fg_gptq_options o = {
        .fit = fg_fit_defaults("layers.0.x", levels[n - 1], NULL), .aw = true, .block = 128};
    o.fit.inits = 1;
    o.fit.vectors = 20000;
    return o;
}

// A Hessian of n columns that depend on their neighbours, and its factor.
struct case_h {
    struct fg_hessian h;
    struct fg_gptq_factor f;
};

static void factorize(struct case_h *c, enum fg_gptq_order order, double damp)
{
    assert_int_equal(fg_gptq_factorize(&c->f, &c->h, order, damp, "x", NULL, NULL), 0);
}

static struct case_h correlated(int64_t n, int64_t samples, uint64_t seed)
{
    float *x = gauss_matrix(samples, n, 1, seed);
    for (int64_t t = 0; t < samples; t++)
        for (int64_t j = 0; j < n; j++)
            x[t * n + j] = (x[t * n + j] + (j ? 0.7f * x[t * n + j - 1] : 0)) / (float)(1 + j % 5);
    struct case_h c = {.h = synthetic_hessian(x, samples, n, NULL)};
    free(x);
    factorize(&c, FG_GPTQ_ORDER_ACT, 0.01);
    return c;
}

static struct case_h diagonal(const double *diag, int64_t n)
{
    struct case_h c;
    assert_int_equal(fg_hessian_new(&c.h, n, NULL), 0);
    for (int64_t j = 0; j < n; j++)
        c.h.H[j * n + j] = diag[j];
    factorize(&c, FG_GPTQ_ORDER_ACT, 0.01);
    return c;
}

static void case_free(struct case_h *c)
{
    fg_hessian_free(&c->h);
    fg_gptq_factor_free(&c->f);
}

static void expect_same(const struct fg_fit_result *a, const struct fg_fit_result *b)
{
    assert_int_equal(a->data_bytes, b->data_bytes);
    assert_memory_equal(a->data, b->data, a->data_bytes);
    if (a->scale) assert_memory_equal(a->scale, b->scale, (size_t)a->rows * 2);
    const int entries = fg_qformat_entries(a->format) * fg_qformat_rows_per_index(a->format);
    if (a->lut) assert_memory_equal(a->lut, b->lut, (size_t)entries * 2);
    assert_true(a->e.signal == b->e.signal && a->e.noise == b->e.noise);
}

// Index (or code) of row group g, column j.
static int code_at(const struct fg_fit_result *r, int64_t g, int64_t j)
{
    if (r->format == FG_Q_INT8) return (int8_t)r->data[g * r->cols + j];
    const int bits = fg_qformat_index_bits(r->format);
    const uint8_t *row = r->data + g * fg_pack_bytes(r->cols, bits);
    int code = 0;
    for (int64_t b = 0; b < bits; b++)
        code |= (row[(j * bits + b) / 8] >> ((j * bits + b) % 8) & 1) << b;
    return code;
}

// tr(E H E^T) in FP64 of what is stored, rows [r0, r1).
static double trace_of(const struct fg_fit_result *r, const float *W, const double *H, int64_t r0,
                       int64_t r1)
{
    const struct fg_qmat m = fg_fit_view(r);
    const int64_t n = r->cols;
    float *q = malloc((size_t)n * sizeof *q);
    double sum = 0;
    assert_non_null(q);
    for (int64_t i = r0; i < r1; i++) {
        fg_qmat_dequantize(q, &m, i, i + 1);
        for (int64_t a = 0; a < n; a++)
            for (int64_t b = 0; b < n; b++)
                sum += ((double)W[i * n + a] - (double)q[a]) * H[a * n + b] *
                       ((double)W[i * n + b] - (double)q[b]);
    }
    free(q);
    return sum;
}

// ---- where there is nothing to feed back

static void independent_columns(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{2, 1}, {62, 331}, {130, 128}, {258, 33}};
    for (size_t s = 0; s < FG_COUNT(shapes); s++) {
        const int64_t rows = shapes[s][0], cols = shapes[s][1];
        float *W = gauss_matrix(rows, cols, 0.02, 4 + s), *z = gauss_matrix(1, cols, 1, 5);
        double *diag = malloc((size_t)cols * sizeof *diag);
        assert_non_null(diag);
        for (int identity = 0; identity < 2; identity++) {
            for (int64_t j = 0; j < cols; j++) // a dead column among them
                diag[j] = identity ? 1 : j == 20 ? 0 : exp(2 * (double)z[j]);
            struct case_h c = diagonal(diag, cols);
            for (int f = 0; f < FG_Q_N_FORMATS; f++) {
                struct fg_gptq_options o = options();
                struct fg_fit_result rtn, r;
                struct fg_gptq_stats stats;
                o.fit.col_weight = c.f.diag;
                o.refine = 2;
                assert_int_equal(fg_fit_rtn(&rtn, (enum fg_qformat)f, W, rows, cols, &o.fit, NULL),
                                 0);
                assert_int_equal(fg_gptq(&r, &stats, true, (enum fg_qformat)f, W, rows, cols, &c.h,
                                         &c.f, NULL, &o, NULL),
                                 0);
                expect_same(&rtn, &r);
                assert_true(r.inertia == rtn.inertia);
                assert_true(stats.error == stats.error_rtn && stats.error == stats.error_pass);
                assert_int_equal(stats.moved, 0);
                fg_fit_free(&rtn);
                fg_fit_free(&r);
            }
            case_free(&c);
        }
        free(W);
        free(z);
        free(diag);
    }
}

// ---- the oracle

static const void *tensor(const struct fg_checkpoint *c, const char *name, uint64_t bytes)
{
    const struct fg_st_tensor *t = fg_checkpoint_find(c, name);
    if (t && t->bytes == bytes) return t->data;
    fail_msg("%s", name);
    return NULL;
}

static void same_as_the_paper(void **state)
{
    (void)state;
    enum { ROWS = 12, COLS = 40 };
    struct fg_checkpoint *ck;
    assert_int_equal(fg_checkpoint_open(&ck, FORGE_GOLDEN_DIR "/gptq/case.safetensors", NULL), 0);
    float W[ROWS * COLS], importance[ROWS];
    struct case_h c;
    assert_int_equal(fg_hessian_new(&c.h, COLS, NULL), 0);
    memcpy(W, tensor(ck, "W", sizeof W), sizeof W);
    memcpy(importance, tensor(ck, "importance", sizeof importance), sizeof importance);
    memcpy(c.h.H, tensor(ck, "H", COLS * COLS * 8), COLS * COLS * 8);
    int compared = 0;
    for (size_t i = 0; i < FG_COUNT(formats); i++) {
        const int d = fg_qformat_rows_per_index(formats[i]), K = fg_qformat_entries(formats[i]);
        const size_t lut_bytes = (size_t)K * (size_t)d * 2;
        const uint64_t n_codes = ROWS * COLS / (uint64_t)d;
        uint16_t lut[128];
        char name[64];
        snprintf(name, sizeof name, "%s.lut", fg_qformat_name(formats[i]));
        if (K) memcpy(lut, tensor(ck, name, lut_bytes), lut_bytes);
        for (int order = FG_GPTQ_ORDER_ACT; order <= FG_GPTQ_ORDER_NONE; order++) {
            factorize(&c, (enum fg_gptq_order)order, 0.01);
            for (int weighted = 0; weighted < d; weighted++) {
                static const int blocks[] = {1, 16, 33, 128, 0};
                char stem[48];
                snprintf(stem, sizeof stem, "%s.%s.%s", fg_qformat_name(formats[i]),
                         order == FG_GPTQ_ORDER_ACT ? "act" : "none",
                         weighted ? "weighted" : "plain");
                snprintf(name, sizeof name, "%s.codes", stem);
                const uint8_t *codes = tensor(ck, name, n_codes);
                double error;
                snprintf(name, sizeof name, "%s.error", stem);
                memcpy(&error, tensor(ck, name, sizeof error), sizeof error);
                for (size_t b = 0; b < FG_COUNT(blocks); b++) {
                    struct fg_gptq_options o = options();
                    struct fg_fit_result r;
                    struct fg_gptq_stats stats;
                    o.block = blocks[b];
                    o.row_importance = weighted ? importance : NULL;
                    assert_int_equal(fg_gptq(&r, &stats, false, formats[i], W, ROWS, COLS, &c.h,
                                             &c.f, lut, &o, NULL),
                                     0);
                    for (int64_t g = 0; g < ROWS / d; g++) {
                        for (int64_t j = 0; j < COLS; j++) {
                            const uint8_t want = codes[g * COLS + j];
                            if (code_at(&r, g, j) != (K ? (int)want : (int)(int8_t)want))
                                fail_msg("%s, block %d: code %d %d", stem, blocks[b], (int)g,
                                         (int)j);
                        }
                    }
                    if (K) assert_memory_equal(r.lut, lut, lut_bytes);
                    assert_true(r.inertia == 0);
                    assert_true(fabs(stats.error - error) <= 1e-5 * error);
                    assert_true(isnan(stats.error_rtn) && stats.error_pass == stats.error);
                    fg_fit_free(&r);
                    compared++;
                }
            }
            fg_gptq_factor_free(&c.f);
        }
    }
    assert_int_equal(compared, 5 * 2 * (2 + 2 + 1 + 1 + 1));
    case_free(&c);
    fg_checkpoint_close(ck);
}

// Two columns without damping: never worse than rounding to nearest, and never better than the best
// of all choices.
static void two_columns(void **state)
{
    (void)state;
    enum { ROWS = 4 };
    struct fg_random random = fg_random_named(1, "gptq/two");
    int better = 0, best = 0;
    for (int round = 0; round < 300; round++) {
        const enum fg_qformat f = round % 2 ? FG_Q_LUT4 : FG_Q_V2X16;
        const int d = fg_qformat_rows_per_index(f);
        float *W = gauss_matrix(ROWS, 2, 0.05, 1000 + (uint64_t)round);
        float *table = gauss_matrix(16, d, 1, 2000 + (uint64_t)round);
        uint16_t lut[32];
        for (int k = 0; k < 16; k++) // ascending where there is one component
            for (int t = 0; t < d; t++)
                lut[k * d + t] = fg_f16_of_f32(d == 1 ? 0.3f * (float)(k - 8) : table[k * d + t]);
        const double a = 0.1 + fg_random_u01(&random), b = 0.1 + fg_random_u01(&random);
        const double r = (2 * fg_random_u01(&random) - 1) * 0.99 * sqrt(a * b);
        struct case_h c;
        assert_int_equal(fg_hessian_new(&c.h, 2, NULL), 0);
        memcpy(c.h.H, (double[4]){a, r, r, b}, 4 * sizeof(double));
        factorize(&c, FG_GPTQ_ORDER_ACT, 0);
        struct fg_gptq_options o = options();
        struct fg_fit_result q;
        struct fg_gptq_stats stats;
        assert_int_equal(fg_gptq(&q, &stats, true, f, W, ROWS, 2, &c.h, &c.f, lut, &o, NULL), 0);
        double optimum = 0;
        for (int64_t g = 0; g < ROWS / d; g++) {
            double least = INFINITY;
            for (int one = 0; one < 16; one++) {
                for (int two = 0; two < 16; two++) {
                    double error = 0;
                    for (int t = 0; t < d; t++) {
                        const int64_t row = d * g + t;
                        const float s = fg_f16_to_f32(q.scale[row]);
                        const double x = (double)(W[2 * row] - s * fg_f16_to_f32(lut[one * d + t]));
                        const double y =
                            (double)(W[2 * row + 1] - s * fg_f16_to_f32(lut[two * d + t]));
                        error += a * x * x + 2 * r * x * y + b * y * y;
                    }
                    least = fmin(least, error);
                }
            }
            optimum += least;
        }
        assert_true(optimum <= stats.error * (1 + 1e-5));
        assert_true(stats.error <= stats.error_rtn * (1 + 1e-5));
        better += stats.error < 0.999 * stats.error_rtn;
        best += stats.error <= optimum * (1 + 1e-5);
        fg_fit_free(&q);
        case_free(&c);
        free(W);
        free(table);
    }
    if (!(better > 100 && best > 150 && best < 300)) fail_msg("better %d, best %d", better, best);
}

// ---- the synthetic reference

enum { DRAWS = 3, SIDE = 512, SAMPLES = 8192 };

static void synthetic_reference(void **state)
{
    (void)state;
    // Shares of the signal: to nearest; with feedback, in both orders.
    static const struct {
        const char *name;
        enum fg_qformat f;
        bool row_weight;
        double rtn, act, none;
        double left; // of the error at most, by four sweeps of refinement: ours
    } want[] = {{"v2x16", FG_Q_V2X16, false, 0.1117, 0.0452, 0.0462, 0.8955},
                {"v2x64", FG_Q_V2X64, false, 0.0304, 0.01215, 0.01238, 0.911},
                {"lut4", FG_Q_LUT4, false, 0.00974, 0.00386, 0.00392, 0.935},
                {"v2x64, row weight", FG_Q_V2X64, true, 0, 0.01147, 0, 0.9325}};
    double rtn[4] = {0}, error[4][2] = {{0}}, refined[4] = {0};
    struct fg_pool *pool;
    assert_int_equal(fg_pool_new(&pool, 2, NULL), 0);
    for (int draw = 0; draw < DRAWS; draw++) {
        char tag[64];
        snprintf(tag, sizeof tag, "gptq/inputs/%d", draw);
        float *x = synthetic_inputs(SAMPLES, SIDE, tag);
        snprintf(tag, sizeof tag, "gptq/weights/%d", draw);
        float *W = synthetic_weights(SIDE, SIDE, tag);
        struct case_h c = {.h = synthetic_hessian(x, SAMPLES, SIDE, pool)};
        uint16_t lut[4][128];
        for (int order = 0; order < 2; order++) {
            factorize(&c, (enum fg_gptq_order)order, 0.01);
            for (size_t i = 0; i < FG_COUNT(want); i++) {
                struct fg_gptq_options o = options();
                struct fg_fit_result r;
                struct fg_gptq_stats stats;
                o.fit.pool = pool;
                o.fit.row_weight = want[i].row_weight;
                o.refine = order == FG_GPTQ_ORDER_ACT ? 4 : 0;
                assert_int_equal(fg_gptq(&r, &stats, order == FG_GPTQ_ORDER_ACT, want[i].f, W, SIDE,
                                         SIDE, &c.h, &c.f, order ? lut[i] : NULL, &o, NULL),
                                 0);
                if (order == FG_GPTQ_ORDER_ACT) rtn[i] += stats.error_rtn / stats.signal / DRAWS;
                error[i][order] += stats.error_pass / stats.signal / DRAWS;
                if (o.refine) refined[i] += stats.error / stats.signal / DRAWS;
                const size_t entries = (size_t)fg_qformat_entries(want[i].f);
                memcpy(lut[i], r.lut,
                       entries * (size_t)fg_qformat_rows_per_index(want[i].f) * sizeof **lut);
                fg_fit_free(&r);
            }
            fg_gptq_factor_free(&c.f);
        }
        case_free(&c);
        free(x);
        free(W);
    }
    fg_pool_free(pool);
    for (size_t i = 0; i < FG_COUNT(want); i++) {
        print_message("%-18s rtn %.5f act %.5f none %.5f refined %.5f (%+.1f %%)\n", want[i].name,
                      rtn[i], error[i][0], error[i][1], refined[i],
                      100 * (refined[i] / error[i][0] - 1));
        if (want[i].rtn > 0) assert_true(fabs(rtn[i] / want[i].rtn - 1) <= 0.06);
        if (want[i].none > 0) assert_true(fabs(error[i][1] / want[i].none - 1) <= 0.06);
        assert_true(fabs(error[i][0] / want[i].act - 1) <= 0.06);
        assert_true(error[i][0] < error[i][1]);
        assert_true(error[i][0] < 0.5 * rtn[i]);
        assert_true(refined[i] < want[i].left * error[i][0]);
    }
    const double gap = (error[0][0] - error[1][0]) / (error[0][0] - error[2][0]);
    if (!(fabs(gap - 0.80) <= 0.02)) fail_msg("the gap is closed by %g", gap);
    const double gain = 1 - error[3][0] / error[1][0]; // of weights of rows: 5.6 %
    if (!(gain > 0.04 && gain < 0.08)) fail_msg("weights of rows gain %g", gain);
}

// ---- what must not matter

static void rows_of_a_block(void **state)
{
    (void)state;
    const int64_t rows = 5 * FG_LANES - 6, cols = 150;
    struct case_h c = correlated(cols, 400, 20);
    float *W = gauss_matrix(rows, cols, 0.05, 21);
    for (size_t i = 0; i < FG_COUNT(formats); i++) {
        struct fg_gptq_options o = options();
        struct fg_fit_result r;
        uint8_t *first[2] = {NULL, NULL};
        assert_int_equal(fg_fit_start(&r, formats[i], W, rows, cols, NULL, &o.fit, NULL), 0);
        static const int64_t panels[] = {1, 2, 3, 9};
        for (size_t p = 0; p < FG_COUNT(panels); p++) {
            struct fg_gptq_job job = {.fit = &o.fit,
                                      .W = W,
                                      .scale = r.scale,
                                      .data = r.data,
                                      .rows = rows,
                                      .cols = cols,
                                      .panels = panels[p]};
            fg_rounder_init(&job.rounder, formats[i], r.lut, o.fit.kernels);
            for (int step = 0; step < 2; step++) {
                assert_int_equal(step ? fg_gptq_refine(&job, &c.h, &c.f, 3, NULL)
                                      : fg_gptq_round(&job, &c.f, 64, NULL),
                                 0);
                if (p == 0) {
                    assert_non_null(first[step] = malloc((size_t)r.data_bytes));
                    memcpy(first[step], r.data, (size_t)r.data_bytes);
                } else {
                    assert_memory_equal(first[step], r.data, r.data_bytes);
                }
            }
        }
        assert_true(memcmp(first[0], first[1], (size_t)r.data_bytes) != 0);
        free(first[0]);
        free(first[1]);
        fg_fit_free(&r);
    }
    free(W);
    case_free(&c);
}

static void threads_and_levels(void **state)
{
    (void)state;
    const int64_t rows = 400, cols = 331;
    float *x = gauss_matrix(900, cols, 1, 30), *W = gauss_matrix(rows, cols, 0.02, 31);
    for (int64_t t = 0; t < 900; t++)
        for (int64_t j = 1; j < cols; j++)
            x[t * cols + j] += 0.8f * x[t * cols + j - 1];
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    for (size_t i = 0; i < FG_COUNT(formats); i++) {
        struct fg_fit_result first = {0}, r;
        struct fg_gptq_stats first_stats = {0}, stats;
        int runs = 0;
        for (int threads = 1; threads <= 3; threads++) {
            struct fg_pool *pool;
            assert_int_equal(fg_pool_new(&pool, threads, NULL), 0);
            struct case_h c = {.h = synthetic_hessian(x, 900, cols, pool)};
            assert_int_equal(
                fg_gptq_factorize(&c.f, &c.h, FG_GPTQ_ORDER_ACT, 0.01, "x", pool, NULL), 0);
            for (int l = 0; l < n_levels; l++) {
                struct fg_gptq_options o = options();
                o.fit.pool = pool;
                o.fit.kernels = levels[l];
                o.fit.vectors = 2000;
                o.refine = 2;
                assert_int_equal(fg_gptq(&r, &stats, true, formats[i], W, rows, cols, &c.h, &c.f,
                                         NULL, &o, NULL),
                                 0);
                if (runs++ == 0) {
                    first = r;
                    first_stats = stats;
                    continue;
                }
                expect_same(&first, &r);
                assert_true(stats.error == first_stats.error &&
                            stats.error_rtn == first_stats.error_rtn &&
                            stats.error_pass == first_stats.error_pass &&
                            stats.signal == first_stats.signal && stats.moved == first_stats.moved);
                fg_fit_free(&r);
            }
            case_free(&c);
            fg_pool_free(pool);
        }
        assert_true(stats.moved > 0 && stats.error < stats.error_pass);
        fg_fit_free(&first);
    }
    free(x);
    free(W);
}

// Columns in another order have the same codes, if no two are equally strong and sums are exact.
static void order_of_columns(void **state)
{
    (void)state;
    const int64_t rows = 32, cols = 150, samples = 300;
    struct fg_random r = fg_random_named(1, "gptq/order");
    float *x[2], *W[2];
    int64_t to[150];
    for (int i = 0; i < 2; i++) {
        x[i] = gauss_matrix(samples, cols, 0, 1);
        W[i] = gauss_matrix(rows, cols, 0, 1);
    }
    for (int64_t j = 0; j < cols; j++) {
        to[j] = (j * 7 + 3) % cols;
        for (int64_t t = 0; t < samples; t++)
            x[0][t * cols + j] =
                (float)((int)fg_random_below(&r, 15) - 7) + (j ? x[0][t * cols + j - 1] * 0.5f : 0);
        for (int64_t t = 0; t < samples; t++) // short enough for exact sums, and no two alike
            x[0][t * cols + j] = rintf(4 * x[0][t * cols + j]) / 4;
        x[0][j] += (float)j;
        for (int64_t i = 0; i < rows; i++)
            W[0][i * cols + j] = (float)((int)fg_random_below(&r, 255) - 127) / 64;
    }
    for (int64_t j = 0; j < cols; j++) {
        for (int64_t t = 0; t < samples; t++)
            x[1][t * cols + to[j]] = x[0][t * cols + j];
        for (int64_t i = 0; i < rows; i++)
            W[1][i * cols + to[j]] = W[0][i * cols + j];
    }
    struct case_h c[2];
    for (int i = 0; i < 2; i++) {
        c[i].h = synthetic_hessian(x[i], samples, cols, NULL);
        factorize(&c[i], FG_GPTQ_ORDER_ACT, 0.01);
    }
    for (int64_t i = 0; i < cols; i++) {
        assert_int_equal(c[1].f.perm[i], to[c[0].f.perm[i]]);
        for (int64_t j = 0; j < i; j++) // distinct
            assert_true(c[0].h.H[i * cols + i] != c[0].h.H[j * cols + j]);
    }
    for (size_t i = 0; i < FG_COUNT(formats); i++) {
        struct fg_fit_result q[2];
        struct fg_gptq_options o = options();
        for (int k = 0; k < 2; k++)
            assert_int_equal(fg_gptq(&q[k], NULL, false, formats[i], W[k], rows, cols, &c[k].h,
                                     &c[k].f, NULL, &o, NULL),
                             0);
        for (int64_t g = 0; g < rows / fg_qformat_rows_per_index(formats[i]); g++)
            for (int64_t j = 0; j < cols; j++)
                assert_int_equal(code_at(&q[0], g, j), code_at(&q[1], g, to[j]));
        fg_fit_free(&q[0]);
        fg_fit_free(&q[1]);
    }
    for (int i = 0; i < 2; i++) {
        free(x[i]);
        free(W[i]);
        case_free(&c[i]);
    }
}

// ---- what is reported

static void statistics(void **state)
{
    (void)state;
    const int64_t rows = 22, cols = 90;
    struct case_h c = correlated(cols, 200, 40);
    float *W = gauss_matrix(rows, cols, 0.3, 41), *zero = gauss_matrix(rows, cols, 0, 1);
    for (int f = 0; f < FG_Q_N_FORMATS; f++) {
        struct fg_fit_result r, rtn, none = {.format = FG_Q_F32, .rows = rows, .cols = cols};
        struct fg_gptq_options o = options();
        struct fg_gptq_stats stats;
        none.data = (uint8_t *)zero;
        assert_int_equal(fg_gptq(&r, &stats, true, (enum fg_qformat)f, W, rows, cols, &c.h, &c.f,
                                 NULL, &o, NULL),
                         0);
        o.fit.col_weight = c.f.diag;
        assert_int_equal(fg_fit_rtn(&rtn, (enum fg_qformat)f, W, rows, cols, &o.fit, NULL), 0);
        const double error = trace_of(&r, W, c.h.H, 0, rows),
                     to_nearest = trace_of(&rtn, W, c.h.H, 0, rows),
                     signal = trace_of(&none, W, c.h.H, 0, rows);
        assert_true(fabs(stats.error - error) <= 1e-5 * error);
        assert_true(fabs(stats.error_rtn - to_nearest) <= 1e-5 * to_nearest);
        assert_true(fabs(stats.signal - signal) <= 1e-5 * signal);
        assert_true(stats.error == stats.error_pass && stats.moved == 0);
        const struct fg_qmat m = fg_fit_view(&r);
        assert_int_equal(fg_qmat_check(&m, "x", NULL, true, NULL), 0);
        double plain = 0, all = 0;
        for (int64_t i = 0; i < rows; i++) {
            float q[90];
            fg_qmat_dequantize(q, &m, i, i + 1);
            for (int64_t j = 0; j < cols; j++) {
                const double w = (double)W[i * cols + j];
                plain += (w - (double)q[j]) * (w - (double)q[j]);
                all += w * w;
            }
        }
        assert_true(fabs(r.e.noise - plain) <= 1e-9 * plain);
        assert_true(fabs(r.e.signal - all) <= 1e-9 * all);
        if (!fg_qformat_is_kept((enum fg_qformat)f)) assert_true(error < 0.9 * to_nearest);
        fg_fit_free(&r);
        fg_fit_free(&rtn);
    }
    free(W);
    free(zero);
    case_free(&c);
}

// ---- refinement

// tr(E H E^T) per row.
static void errors_of_rows(double *row_error, const struct fg_fit_result *r, const float *W,
                           const struct fg_hessian *h)
{
    const struct fg_qmat m = fg_fit_view(r);
    float *E = malloc((size_t)(r->rows * r->cols) * sizeof *E);
    assert_non_null(E);
    fg_qmat_dequantize(E, &m, 0, r->rows);
    for (int64_t i = 0; i < r->rows * r->cols; i++)
        E[i] = W[i] - E[i];
    fg_hessian_error(h, E, r->rows, row_error, NULL);
    free(E);
}

// Every index row's error falls or stays, with few samples, correlated columns and dead ones, and
// weights of rows or none.
static void refinement_never_harms(void **state)
{
    (void)state;
    enum { rows = 140, cols = 200 };
    double row_error[2][rows];
    static const int64_t samples[] = {60, 210, 2000};
    for (size_t s = 0; s < FG_COUNT(samples); s++) {
        struct case_h c = correlated(cols, samples[s], 50);
        for (int64_t j = 0; j < cols; j++)
            c.h.H[17 * cols + j] = c.h.H[j * cols + 17] = 0;
        fg_gptq_factor_free(&c.f);
        factorize(&c, FG_GPTQ_ORDER_ACT, 0.01);
        float *W = gauss_matrix(rows, cols, 0.05, 51), *importance = gauss_matrix(1, rows, 1, 52);
        for (int64_t r = 0; r < rows; r++) {
            importance[r] = expf(2 * importance[r]);
            for (int64_t j = 0; j < cols; j++)
                W[r * cols + j] *= (float)(1 + r % 7);
        }
        for (size_t i = 0; i < FG_COUNT(formats); i++) {
            for (int weighted = 0; weighted < 3; weighted++) {
                const int d = fg_qformat_rows_per_index(formats[i]);
                struct fg_gptq_options o = options();
                struct fg_fit_result pass, r;
                struct fg_gptq_stats stats, again;
                o.fit.vectors = 3000;
                o.fit.row_weight = weighted;
                o.row_importance = weighted == 2 ? importance : NULL;
                assert_int_equal(fg_gptq(&pass, &stats, false, formats[i], W, rows, cols, &c.h,
                                         &c.f, NULL, &o, NULL),
                                 0);
                static const int sweeps[] = {1, 4, 9};
                for (size_t k = 0; k < FG_COUNT(sweeps); k++) {
                    o.refine = sweeps[k];
                    assert_int_equal(fg_gptq(&r, &again, false, formats[i], W, rows, cols, &c.h,
                                             &c.f, pass.lut, &o, NULL),
                                     0);
                    assert_true(again.error_pass == stats.error);
                    int64_t differ = 0;
                    errors_of_rows(row_error[0], &pass, W, &c.h);
                    errors_of_rows(row_error[1], &r, W, &c.h);
                    for (int64_t g = 0; g < rows / d; g++) {
                        double before = 0, after = 0;
                        for (int64_t row = d * g; row < d * g + d; row++) {
                            const double w = weighted == 2 ? (double)importance[row] : 1.0;
                            before += w * row_error[0][row];
                            after += w * row_error[1][row];
                        }
                        if (!(after <= before * (1 + 1e-6)))
                            fail_msg("%s, %d samples, %d sweeps: row %d from %g to %g",
                                     fg_qformat_name(formats[i]), (int)samples[s], sweeps[k],
                                     (int)g, before, after);
                        for (int64_t j = 0; j < cols; j++) {
                            const bool moved = code_at(&pass, g, j) != code_at(&r, g, j);
                            differ += moved;
                            assert_true(!moved || j != 17);
                        }
                    }
                    assert_int_equal(again.moved, differ);
                    assert_true(differ > 0);
                    const double most = samples[s] < 2000 || sweeps[k] == 1 ? 1 : 0.997;
                    if (weighted < 2 && !(again.error < most * again.error_pass))
                        fail_msg("%s, %d samples, %d sweeps: from %g to %g",
                                 fg_qformat_name(formats[i]), (int)samples[s], sweeps[k],
                                 again.error_pass, again.error);
                    fg_fit_free(&r);
                }
                fg_fit_free(&pass);
            }
        }
        free(W);
        free(importance);
        case_free(&c);
    }
}

// ---- weights of rows

// Equal importance changes nothing; a row that counts more has less error, its partner more.
static void importance_of_rows(void **state)
{
    (void)state;
    const int64_t rows = 128, cols = 120;
    struct case_h c = correlated(cols, 300, 60);
    float *W = gauss_matrix(rows, cols, 0.05, 61), equal[128], odd[128];
    for (int64_t r = 0; r < rows; r++) {
        equal[r] = 4;
        odd[r] = r % 2 ? 64.0f : 1.0f;
    }
    static const enum fg_qformat pairs[] = {FG_Q_V2X16, FG_Q_V2X64};
    for (size_t i = 0; i < FG_COUNT(pairs); i++) {
        struct fg_fit_result r[3];
        const float *const weights[3] = {NULL, equal, odd};
        for (int k = 0; k < 3; k++) {
            struct fg_gptq_options o = options();
            o.row_importance = weights[k];
            o.refine = 1;
            assert_int_equal(
                fg_gptq(&r[k], NULL, false, pairs[i], W, rows, cols, &c.h, &c.f, NULL, &o, NULL),
                0);
        }
        expect_same(&r[0], &r[1]);
        double error[2][2] = {{0}};
        for (int64_t row = 0; row < rows; row++)
            for (int k = 0; k < 2; k++)
                error[k][row % 2] += trace_of(&r[2 * k], W, c.h.H, row, row + 1);
        assert_true(error[1][1] < 0.7 * error[0][1]);
        assert_true(error[1][0] > error[0][0]);
        for (int k = 0; k < 3; k++)
            fg_fit_free(&r[k]);
    }
    free(W);
    case_free(&c);
}

// ---- what is refused

static void refused(void **state)
{
    (void)state;
    struct case_h c = correlated(20, 60, 70);
    float *W = gauss_matrix(4, 20, 1, 71);
    for (int f = 0; f < FG_Q_N_FORMATS; f++) {
        struct fg_gptq_options o = options();
        struct fg_fit_result r;
        struct fg_gptq_stats stats;
        struct fg_error err = {0};
        o.refine = 1;
        assert_int_equal(
            fg_gptq(&r, &stats, true, (enum fg_qformat)f, W, 3, 20, &c.h, &c.f, NULL, &o, &err),
            fg_qformat_rows_per_index((enum fg_qformat)f) == 2 ? FG_EINPUT : 0);
        fg_fit_free(&r);
        W[50] = INFINITY;
        assert_int_equal(
            fg_gptq(&r, &stats, true, (enum fg_qformat)f, W, 4, 20, &c.h, &c.f, NULL, &o, &err),
            FG_EINPUT);
        assert_null(r.data);
        W[50] = 1;
    }
    free(W);
    case_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(independent_columns),
        cmocka_unit_test(same_as_the_paper),
        cmocka_unit_test(two_columns),
        cmocka_unit_test(synthetic_reference),
        cmocka_unit_test(rows_of_a_block),
        cmocka_unit_test(threads_and_levels),
        cmocka_unit_test(order_of_columns),
        cmocka_unit_test(statistics),
        cmocka_unit_test(refinement_never_harms),
        cmocka_unit_test(importance_of_rows),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
