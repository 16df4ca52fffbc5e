// eval/bandwidth.c: summing a large buffer with all threads.
#include "eval/bandwidth.h"
#include "base/progress.h"
#include "base/thread.h"
#include <stdlib.h>

#define LANES 32 // independent sums, so that additions do not bound the rate
#define SLICE_BYTES (1 << 20)

struct job {
    uint64_t *data;
    uint64_t slice_words, n_slices;
    uint64_t *sums; // per slice: keeps the reads from being optimized away
};

static void fill_slice(void *ctx, int64_t item, int worker)
{
    (void)worker;
    struct job *j = ctx;
    uint64_t *p = j->data + (uint64_t)item * j->slice_words;
    for (uint64_t i = 0; i < j->slice_words; i++)
        p[i] = (uint64_t)item + i; // touched: untouched pages would all be the same zero page
}

// One body, compiled for each width of vectors: narrow loads leave a fifth of the rate unread.
static inline __attribute__((always_inline)) uint64_t sum_words(const uint64_t *p, uint64_t n)
{
    uint64_t sum[LANES] = {0};
    for (uint64_t i = 0; i < n; i += LANES) {
        for (int l = 0; l < LANES; l++)
            sum[l] += p[i + (uint64_t)l];
    }
    uint64_t total = 0;
    for (int l = 0; l < LANES; l++)
        total += sum[l];
    return total;
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static uint64_t sum_avx512(const uint64_t *p, uint64_t n)
{
    return sum_words(p, n);
}

__attribute__((target("avx2"))) static uint64_t sum_avx2(const uint64_t *p, uint64_t n)
{
    return sum_words(p, n);
}
#endif

uint64_t fg_bandwidth_sum(const void *data, uint64_t n)
{
    n /= sizeof(uint64_t);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return sum_avx512(data, n);
    if (__builtin_cpu_supports("avx2")) return sum_avx2(data, n);
#endif
    return sum_words(data, n);
}

static void read_slice(void *ctx, int64_t item, int worker)
{
    (void)worker;
    struct job *j = ctx;
    j->sums[item] = fg_bandwidth_sum(j->data + (uint64_t)item * j->slice_words,
                                     j->slice_words * sizeof *j->data);
}

int fg_bandwidth_read(uint64_t bytes, int n_threads, double seconds, double *rate,
                      struct fg_error *err)
{
    *rate = 0;
    struct job j = {.n_slices = bytes / SLICE_BYTES ? bytes / SLICE_BYTES : 1,
                    .slice_words = SLICE_BYTES / sizeof(uint64_t)};
    bytes = j.n_slices * SLICE_BYTES;
    struct fg_pool *pool = NULL;
    int rc = fg_pool_new(&pool, n_threads, err);
    if (rc) return rc;
    j.data = aligned_alloc(4096, bytes);
    j.sums = calloc(j.n_slices, sizeof *j.sums);
    if (!j.data || !j.sums) {
        rc = fg_fail_memory(err, "bandwidth buffer", bytes);
        goto done;
    }
    fg_pool_run(pool, (int64_t)j.n_slices, fill_slice, &j);
    double start = fg_clock(), now = start;
    while (now - start < seconds) {
        double before = now;
        fg_pool_run(pool, (int64_t)j.n_slices, read_slice, &j);
        now = fg_clock();
        double r = (double)bytes / (now - before);
        if (r > *rate) *rate = r;
    }
done:
    free(j.data);
    free(j.sums);
    fg_pool_free(pool);
    return rc;
}
