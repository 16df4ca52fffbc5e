// bench/bench_gptq.c: what quantizing with calibration data takes, step by step: sums of a Hessian,
// its factor, the pass in each format, a sweep of refinement, and tr(E H E^T), beside products of
// BLAS as large and on as many threads.
// Usage: bench_gptq [--threads N] [--rows R] [--cols C]
#include "base/arena.h"
#include "base/num.h"
#include "base/size.h"
#include "quant/gptq_impl.h"
#include "quant/random.h"
#include "roof.h"
#include <cblas.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLABS 2
#define PRODUCT 2048

static void must(int rc, const struct fg_error *err)
{
    char line[512];
    if (!rc) return;
    fprintf(stderr, "bench_gptq: %s\n", fg_error_line(err, line, sizeof line));
    exit(rc);
}

static float *random_floats(int64_t n, const char *tag)
{
    struct fg_random r = fg_random_named(1, tag);
    float *x = malloc((size_t)n * sizeof *x);
    if (!x) must(5, NULL);
    for (int64_t i = 0; i < n; i++) // sums of four: near enough to normal
        x[i] = (float)(fg_random_u01(&r) + fg_random_u01(&r) + fg_random_u01(&r) +
                       fg_random_u01(&r) - 2);
    return x;
}

static void report(const char *what, int64_t rows, int64_t cols, double seconds, double flops,
                   double roof)
{
    printf("%-22s %6" PRId64 " %6" PRId64 "  %9.3f s  %8.1f GFLOP/s  %5.1f %%\n", what, rows, cols,
           seconds, flops / seconds * 1e-9, 100 * flops / seconds * 1e-9 / roof);
    fflush(stdout);
}

// Products on every thread at once, GFLOP/s of all: the roof of each number format.
struct products {
    const void *a, *b;
    uint8_t *out; // PRODUCT^2 per thread
    bool is_double;
};

static void product_item(void *ctx, int64_t item, int worker)
{
    const struct products *p = ctx;
    uint8_t *out =
        p->out + (uint64_t)worker * PRODUCT * PRODUCT * (p->is_double ? sizeof(double) : 4);
    (void)item;
    if (p->is_double)
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, PRODUCT, PRODUCT, PRODUCT, 1.0, p->a,
                    PRODUCT, p->b, PRODUCT, 0.0, (double *)(void *)out, PRODUCT);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, PRODUCT, PRODUCT, PRODUCT, 1.0f, p->a,
                    PRODUCT, p->b, PRODUCT, 0.0f, (float *)(void *)out, PRODUCT);
}

static double product_roof(struct fg_pool *pool, bool is_double)
{
    const int n = fg_pool_threads(pool);
    struct products p = {.is_double = is_double};
    p.a = p.b = fg_alloc_aligned((uint64_t)PRODUCT * PRODUCT * sizeof(double));
    p.out = fg_alloc_aligned((uint64_t)n * PRODUCT * PRODUCT * sizeof(double));
    if (!p.a || !p.out) must(5, NULL);
    double best = 1e30;
    openblas_set_num_threads(1);
    for (int i = 0; i < 4; i++) {
        const double t0 = bench_now();
        fg_pool_run(pool, n, product_item, &p);
        const double t = bench_now() - t0;
        best = t < best ? t : best;
    }
    free((void *)p.a);
    free(p.out);
    return 2.0 * PRODUCT * PRODUCT * PRODUCT * n / best * 1e-9;
}

static void bench_matrix(const struct fg_gptq_options *o, const struct fg_hessian *h,
                         const struct fg_gptq_factor *f, int64_t rows, double roof)
{
    static const enum fg_qformat formats[] = {FG_Q_V2X16, FG_Q_V2X64, FG_Q_LUT4, FG_Q_INT8};
    const int64_t cols = h->n;
    const double size = (double)rows * (double)cols * (double)cols;
    float *W = random_floats(rows * cols, "bench/weights");
    struct fg_error err = {0};
    for (size_t i = 0; i < FG_COUNT(formats); i++) {
        struct fg_fit_result r;
        char name[32];
        must(fg_fit_start(&r, formats[i], W, rows, cols, NULL, &o->fit, &err), &err);
        struct fg_gptq_job job = {.fit = &o->fit,
                                  .W = W,
                                  .scale = r.scale,
                                  .data = r.data,
                                  .rows = rows,
                                  .cols = cols,
                                  .panels = 2};
        fg_rounder_init(&job.rounder, formats[i], r.lut, o->fit.kernels);
        double t0 = bench_now();
        must(fg_gptq_round(&job, f, 128, &err), &err);
        snprintf(name, sizeof name, "pass %s", fg_qformat_name(formats[i]));
        report(name, rows, cols, bench_now() - t0, size, roof);
        if (formats[i] == FG_Q_V2X64) {
            t0 = bench_now();
            must(fg_gptq_refine(&job, h, f, 1, &err), &err);
            report("refine, 1 sweep", rows, cols, bench_now() - t0, 4 * size, roof);
        }
        fg_fit_free(&r);
    }
    const double t0 = bench_now();
    if (fg_hessian_error(h, W, rows, NULL, o->fit.pool) < 0) must(1, &err);
    report("tr(E H E^T)", rows, cols, bench_now() - t0, size, roof);
    free(W);
}

int main(int argc, char **argv)
{
    static const int64_t shapes[][2] = {{5120, 5120}, {1024, 17408}};
    int64_t threads = fg_threads_default(), rows = 0, cols = 0;
    for (int i = 1; i < argc; i++) {
        int64_t *value = strcmp(argv[i], "--threads") == 0 ? &threads
                         : strcmp(argv[i], "--rows") == 0  ? &rows
                         : strcmp(argv[i], "--cols") == 0  ? &cols
                                                           : NULL;
        if (!value || i + 1 == argc || !fg_parse_i64(argv[++i], value)) {
            fprintf(stderr, "usage: bench_gptq [--threads N] [--rows R] [--cols C]\n");
            return 2;
        }
    }
    struct fg_error err = {0};
    struct fg_gptq_options o = {.aw = false, .block = 128};
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    o.fit = fg_fit_defaults("bench", levels[n_levels - 1], NULL);
    must(fg_pool_new(&o.fit.pool, (int)threads, &err), &err);
    const double roof32 = product_roof(o.fit.pool, false), roof64 = product_roof(o.fit.pool, true);
    printf("%d threads; products of %d: FP32 %.1f GFLOP/s, FP64 %.1f GFLOP/s\n", (int)threads,
           PRODUCT, roof32, roof64);
    for (size_t s = 0; s < FG_COUNT(shapes); s++) {
        if (cols > 0 && s > 0) continue;
        const int64_t n = cols > 0 ? cols : shapes[s][1], m = rows > 0 ? rows : shapes[s][0];
        const double N = (double)n;
        struct fg_hessian h;
        struct fg_gptq_factor f;
        float *x = random_floats(FG_HESSIAN_SLAB * n, "bench/inputs");
        must(fg_hessian_new(&h, n, &err), &err);
        double t0 = bench_now();
        for (int i = 0; i < SLABS; i++)
            must(fg_hessian_add(&h, x, FG_HESSIAN_SLAB, o.fit.pool, &err), &err);
        report("Hessian, slabs", FG_HESSIAN_SLAB, n, (bench_now() - t0) / SLABS,
               N * N * FG_HESSIAN_SLAB, roof32);
        free(x);
        fg_hessian_finish(&h, o.fit.pool);
        t0 = bench_now();
        must(fg_gptq_factorize(&f, &h, FG_GPTQ_ORDER_ACT, 0.01, "bench", o.fit.pool, &err), &err);
        report("factor", n, n, bench_now() - t0, 2.0 / 3 * N * N * N, roof64);
        bench_matrix(&o, &h, &f, m, roof32);
        fg_gptq_factor_free(&f);
        fg_hessian_free(&h);
    }
    fg_pool_free(o.fit.pool);
    return 0;
}
