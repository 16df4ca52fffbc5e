// eval/bench.c: runs between ceilings, and the statistics of a figure. What is measured is
// bench_model.c's and bench_kernels.c's; how it is shown, bench_report.c's.
#include "eval/bench.h"
#include "base/progress.h"
#include "base/size.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct fg_bench_stat fg_bench_stat_of(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, compare);
    int p90 = (9 * n + 9) / 10 - 1;
    return (struct fg_bench_stat){
        .median = n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2,
        .min = v[0],
        .max = v[n - 1],
        .p90 = v[p90],
    };
}

void fg_bench_report_free(struct fg_bench_report *r)
{
    free(r->figures);
    r->figures = NULL;
    r->n_figures = r->cap_figures = 0;
}

struct fg_bench_figure *fg_bench_add(struct fg_bench_report *r, const char *name)
{
    if (r->n_figures == r->cap_figures) {
        int cap = r->cap_figures ? 2 * r->cap_figures : 32;
        struct fg_bench_figure *more = realloc(r->figures, (size_t)cap * sizeof *more);
        if (!more) return NULL;
        r->figures = more;
        r->cap_figures = cap;
    }
    struct fg_bench_figure *f = &r->figures[r->n_figures++];
    *f = (struct fg_bench_figure){0};
    snprintf(f->name, sizeof f->name, "%s", name);
    return f;
}

// Values of all runs, one array after the other.
struct samples {
    double *seconds, *read, *mac[FG_ROOF_N_KINDS];   // [runs]
    double *read_share, *mac_share[FG_ROOF_N_KINDS]; // [runs]
    double *all;
};

static bool samples_new(struct samples *s, int runs)
{
    const size_t n_arrays = 3 + 2 * FG_ROOF_N_KINDS;
    s->all = calloc(n_arrays * (size_t)runs, sizeof *s->all);
    if (!s->all) return false;
    double *at = s->all;
    double **arrays[] = {&s->seconds, &s->read, &s->read_share};
    for (size_t i = 0; i < FG_COUNT(arrays); i++, at += runs)
        *arrays[i] = at;
    for (int i = 0; i < FG_ROOF_N_KINDS; i++, at += 2 * (size_t)runs) {
        s->mac[i] = at;
        s->mac_share[i] = at + runs;
    }
    return true;
}

static bool moved(double a, double b)
{
    return fmin(a, b) * (1 + FG_BENCH_CHANGED) < fmax(a, b);
}

// One run between its two ceilings.
static void take_sample(struct samples *s, int i, double seconds, const struct fg_roofs *before,
                        const struct fg_roofs *after, struct fg_bench_figure *f)
{
    s->seconds[i] = seconds;
    s->read[i] = (before->read + after->read) / 2;
    s->read_share[i] = f->bytes / seconds / s->read[i];
    f->memory_changed |= moved(before->read, after->read);
    for (int kind = 0; kind < FG_ROOF_N_KINDS; kind++) {
        double roof = (before->mac[kind] + after->mac[kind]) / 2;
        s->mac[kind][i] = roof;
        s->mac_share[kind][i] = roof > 0 ? f->mac[kind] / seconds / roof : 0;
        f->clock_changed |= moved(before->mac[kind], after->mac[kind]);
    }
}

static int one_run(const struct fg_bench *b, const struct fg_bench_work *work, double *seconds,
                   struct fg_error *err)
{
    if (b->stop && b->stop(b->ctx))
        return fg_fail(err, FG_EINTERRUPTED, "bench", NULL, NULL, NULL, "stopped");
    int rc = work->prepare ? work->prepare(work->ctx, err) : 0;
    if (rc) return rc;
    double start = fg_clock();
    rc = work->run(work->ctx, err);
    *seconds = (fg_clock() - start) / (double)work->calls;
    return rc;
}

int fg_bench_measure(struct fg_bench *b, const struct fg_bench_work *work,
                     struct fg_bench_figure *f, struct fg_error *err)
{
    double seconds;
    for (int i = 0; i < b->warmup; i++) {
        int rc = one_run(b, work, &seconds, err);
        if (rc) return rc;
    }
    struct samples s = {0};
    if (!samples_new(&s, b->runs))
        return fg_fail_memory(err, "bench", (uint64_t)b->runs * sizeof *s.all);
    struct fg_roofs before, after;
    fg_roof_measure(b->meter, b->roof_seconds, &before);
    int rc = 0;
    for (int i = 0; i < b->runs && rc == 0; i++) {
        rc = one_run(b, work, &seconds, err);
        if (rc) break;
        fg_roof_measure(b->meter, b->roof_seconds, &after);
        take_sample(&s, i, seconds, &before, &after, f);
        before = after;
    }
    if (rc == 0) {
        f->runs = b->runs;
        f->seconds = fg_bench_stat_of(s.seconds, b->runs);
        f->roofs.read = fg_bench_stat_of(s.read, b->runs).median;
        f->read_share = fg_bench_stat_of(s.read_share, b->runs).median;
        for (int kind = 0; kind < FG_ROOF_N_KINDS; kind++) {
            f->roofs.mac[kind] = fg_bench_stat_of(s.mac[kind], b->runs).median;
            f->share[kind] = fg_bench_stat_of(s.mac_share[kind], b->runs).median;
        }
    }
    free(s.all);
    return rc;
}
