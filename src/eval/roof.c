// eval/roof.c: read bandwidth by a sum that the compiler can make vectors of.
#include "eval/roof.h"
#include "base/arena.h"
#include "base/progress.h"
#include <stdlib.h>
#include <string.h>

#define ITEM_BYTES (1u << 20)
#define BYTES_MIN (64ull << 20)

struct job {
    const uint64_t *data;
    uint64_t *sums; // [items]: kept, so that the reading can't be left out
};

static void read_item(void *ctx, int64_t item, int worker)
{
    (void)worker;
    const struct job *j = ctx;
    const uint64_t *p = j->data + (uint64_t)item * (ITEM_BYTES / sizeof *p);
    uint64_t s[16] = {0};
    for (size_t i = 0; i < ITEM_BYTES / sizeof *p; i += 16) {
        for (size_t k = 0; k < 16; k++)
            s[k] += p[i + k];
    }
    uint64_t sum = 0;
    for (size_t k = 0; k < 16; k++)
        sum += s[k];
    j->sums[item] = sum;
}

int fg_roof_read(double *bytes_per_second, struct fg_pool *pool, uint64_t bytes, double seconds,
                 struct fg_error *err)
{
    if (bytes < BYTES_MIN) bytes = BYTES_MIN;
    int64_t items = (int64_t)(bytes / ITEM_BYTES);
    uint8_t *data = fg_alloc_aligned((uint64_t)items * ITEM_BYTES);
    uint64_t *sums = calloc((size_t)items, sizeof *sums);
    if (!data || !sums) {
        free(data);
        free(sums);
        return fg_fail_memory(err, "bandwidth measurement", bytes);
    }
    memset(data, 1, (size_t)items * ITEM_BYTES); // fresh pages may all be the one zero page
    struct job job = {(const uint64_t *)(const void *)data, sums};
    double best = 0, start = fg_clock(), now = start;
    do {
        double begin = now;
        fg_pool_run(pool, items, read_item, &job);
        now = fg_clock();
        double rate = (double)items * ITEM_BYTES / (now - begin);
        if (rate > best) best = rate;
    } while (now - start < seconds);
    free(data);
    free(sums);
    *bytes_per_second = best;
    return 0;
}
