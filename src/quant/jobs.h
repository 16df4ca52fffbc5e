// quant/jobs.h: jobs that run on a pool or, without one, on the caller's thread alone; and the F16
// of stored numbers.
#ifndef FG_QUANT_JOBS_H
#define FG_QUANT_JOBS_H
#include "base/num.h"
#include "base/thread.h"
#include <stdbool.h>

static inline int fg_job_threads(const struct fg_pool *pool)
{
    return pool ? fg_pool_threads(pool) : 1;
}

static inline void fg_job_run(struct fg_pool *pool, int64_t n_items, fg_job_fn fn, void *ctx)
{
    if (pool) {
        fg_pool_run(pool, n_items, fn, ctx);
        return;
    }
    for (int64_t i = 0; i < n_items; i++)
        fn(ctx, i, 0);
}

// Minus zero is stored as zero, so that equal numbers are equal bytes.
static inline uint16_t fg_stored_f16(float v)
{
    const uint16_t h = fg_f16_of_f32(v);
    return h == 0x8000 ? 0 : h;
}

static inline bool fg_f16_is_finite(uint16_t h)
{
    return (h & 0x7C00) != 0x7C00;
}
#endif
