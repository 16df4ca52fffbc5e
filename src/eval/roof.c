// eval/roof.c: ceilings by loops on registers and by summing a large buffer, on all threads.
#include "eval/roof.h"
#include "base/arena.h"
#include "base/progress.h"
#include "base/thread.h"
#include "eval/bandwidth.h"
#include <stdlib.h>
#include <sys/mman.h>

#define SLICE_BYTES ((uint64_t)1 << 20)
// Items of computing per thread and second asked for: several passes of a few milliseconds.
#define ITEMS_PER_SECOND 400
#define LINE_BYTES 64 // threads' sinks are apart

struct fg_roof_meter {
    struct fg_pool *pool;
    struct fg_roof_loops loops;
    uint8_t *data;
    uint64_t bytes, n_slices;
    uint64_t *sinks; // one line of cache per thread: keeps the work from being left out
};

struct job {
    struct fg_roof_meter *m;
    fg_roof_fn run;
};

static uint64_t *sink_of(struct fg_roof_meter *m, int worker)
{
    return m->sinks + (uint64_t)worker * (LINE_BYTES / sizeof(uint64_t));
}

static void fill_item(void *ctx, int64_t item, int worker)
{
    (void)worker;
    struct fg_roof_meter *m = ctx;
    uint64_t *p = (uint64_t *)(void *)(m->data + (uint64_t)item * SLICE_BYTES);
    for (uint64_t i = 0; i < SLICE_BYTES / sizeof *p; i++)
        p[i] = (uint64_t)item + i; // touched: untouched pages would all be the same zero page
}

static void read_item(void *ctx, int64_t item, int worker)
{
    struct fg_roof_meter *m = ctx;
    *sink_of(m, worker) += fg_bandwidth_sum(m->data + (uint64_t)item * SLICE_BYTES, SLICE_BYTES);
}

static void compute_item(void *ctx, int64_t item, int worker)
{
    (void)item;
    struct job *j = ctx;
    uint32_t sink = 0;
    uint64_t *macs = sink_of(j->m, worker);
    macs[0] += j->run(&sink);
    macs[1] += sink;
}

int fg_roof_meter_new(struct fg_roof_meter **out, int n_threads, const char *isa, uint64_t bytes,
                      struct fg_error *err)
{
    *out = NULL;
    struct fg_roof_meter *m = calloc(1, sizeof *m);
    if (!m) return fg_fail_memory(err, "ceilings", sizeof *m);
    m->n_slices = bytes / SLICE_BYTES ? bytes / SLICE_BYTES : 1;
    m->bytes = m->n_slices * SLICE_BYTES;
    fg_roof_loops(&m->loops, isa);
    int rc = fg_pool_new(&m->pool, n_threads, err);
    if (rc) goto fail;
    m->sinks = fg_alloc_aligned((uint64_t)n_threads * LINE_BYTES);
    void *data = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data != MAP_FAILED) m->data = data;
    if (!m->sinks || !m->data) {
        rc = fg_fail_memory(err, "buffer of the read ceiling", m->bytes);
        goto fail;
    }
    madvise(m->data, m->bytes, MADV_HUGEPAGE); // a hint: fewer misses of the TLB
    fg_pool_run(m->pool, (int64_t)m->n_slices, fill_item, m);
    *out = m;
    return 0;
fail:
    fg_roof_meter_free(m);
    return rc;
}

void fg_roof_meter_free(struct fg_roof_meter *m)
{
    if (!m) return;
    if (m->data) munmap(m->data, m->bytes);
    free(m->sinks);
    fg_pool_free(m->pool);
    free(m);
}

static double measure_read(struct fg_roof_meter *m, double seconds)
{
    double best = 0, start = fg_clock(), now = start;
    do {
        double before = now;
        fg_pool_run(m->pool, (int64_t)m->n_slices, read_item, m);
        now = fg_clock();
        double rate = (double)m->bytes / (now - before);
        if (rate > best) best = rate;
    } while (now - start < seconds);
    return best;
}

static double measure_compute(struct fg_roof_meter *m, fg_roof_fn run, double seconds)
{
    if (!run) return 0;
    struct job job = {m, run};
    int n_threads = fg_pool_threads(m->pool);
    int64_t items = n_threads * (int64_t)(seconds * ITEMS_PER_SECOND);
    if (items < n_threads) items = n_threads;
    double best = 0, start = fg_clock(), now;
    do {
        for (int i = 0; i < n_threads; i++)
            *sink_of(m, i) = 0;
        double before = fg_clock();
        fg_pool_run(m->pool, items, compute_item, &job);
        now = fg_clock();
        double macs = 0;
        for (int i = 0; i < n_threads; i++)
            macs += (double)*sink_of(m, i);
        if (macs / (now - before) > best) best = macs / (now - before);
    } while (now - start < seconds);
    return best;
}

void fg_roof_measure(struct fg_roof_meter *m, double seconds, struct fg_roofs *out)
{
    out->read = measure_read(m, seconds);
    for (int i = 0; i < FG_ROOF_N_KINDS; i++)
        out->mac[i] = measure_compute(m, m->loops.run[i], seconds);
}
