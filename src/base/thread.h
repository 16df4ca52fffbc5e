// base/thread.h: a pool of worker threads that share the items of one job at a time. Items are
// handed out dynamically, so a slow or preempted thread delays only what it holds; waiting threads
// spin for a few microseconds and then sleep. No result may depend on which thread runs an item or
// on how many threads there are.
#ifndef FG_BASE_THREAD_H
#define FG_BASE_THREAD_H
#include "base/error.h"
#include <stdint.h>

struct fg_pool; // opaque

// One item [0, n_items) of a job. `worker` in [0, n_threads) names a thread for per-thread scratch;
// 0 is the caller.
typedef void (*fg_job_fn)(void *ctx, int64_t item, int worker);

// n_threads >= 1 including the caller; n_threads - 1 are started, with all signals blocked. Errors:
// FG_EINPUT (below 1 or above 1024), FG_ERESOURCE; *out is then NULL.
int fg_pool_new(struct fg_pool **out, int n_threads, struct fg_error *err);
void fg_pool_free(struct fg_pool *pool); // joins; NULL is fine
int fg_pool_threads(const struct fg_pool *pool);

// Runs fn for every item and returns when all are done. The caller takes part. One job at a time
// per pool, one caller at a time; fn must not call fg_pool_run on the same pool. n_items <= 1 runs
// inline.
void fg_pool_run(struct fg_pool *pool, int64_t n_items, fg_job_fn fn, void *ctx);

// The same, for items that are neighbours in memory: each thread goes through a stretch of its own,
// item after item, and then helps where most is left. n_threads streams are read faster than as
// many threads that take turns on one.
void fg_pool_run_near(struct fg_pool *pool, int64_t n_items, fg_job_fn fn, void *ctx);

// CPUs this process may use: affinity mask, then the cgroup quota rounded up; SMT siblings count
// once. At least 1.
int fg_threads_default(void);
#endif
