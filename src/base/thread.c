// base/thread.c: the worker pool.
//
// A job is published in one 64-bit word, the ticket: generation in the upper half, next item in the
// lower. Claiming an item is a compare-and-swap of the ticket, so a worker that slept through a
// job, or was preempted while it looked at one, can only fail to claim; the caller waits for
// claimed items alone and never for a worker that holds none. While the job's description is
// rewritten the ticket's lower half is CLOSED.
#include "base/thread.h"
#include "base/machine.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLOSED UINT32_MAX
// A pause is 40 to 140 cycles: some tens of microseconds before a waiting thread sleeps.
#define SPINS 1500
#define THREADS_MAX 1024

struct worker {
    struct fg_pool *pool;
    pthread_t thread;
    int index; // 1 .. n_threads - 1
};

// What is left of a thread's items in fg_pool_run_near; `next` may pass `end`.
struct stretch {
    _Alignas(64) _Atomic int64_t next;
    int64_t end;
};

struct fg_pool {
    int n_threads, n_started;
    struct stretch *stretches; // [n_threads]
    struct worker *workers;

    _Alignas(64) _Atomic uint64_t ticket;
    _Atomic(fg_job_fn) fn; // the job: stable while the ticket is open
    _Atomic(void *) ctx;
    _Atomic uint32_t n_items;

    _Alignas(64) _Atomic uint32_t wake; // futex word of sleeping workers: counts jobs
    _Atomic int sleepers;
    _Atomic bool stop;

    _Alignas(64) _Atomic uint32_t done; // futex word of the sleeping caller: items finished
    _Atomic bool caller_sleeps;
};

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Claims and runs items until none is left; returns how many.
static uint32_t drain(struct fg_pool *p, int worker)
{
    uint32_t n = 0;
    uint64_t t = atomic_load_explicit(&p->ticket, memory_order_acquire);
    for (;;) {
        uint32_t item = (uint32_t)t;
        // Acquire: whoever saw a field of the next job has seen the ticket closed before it, and
        // the exchange below fails.
        fg_job_fn fn = atomic_load_explicit(&p->fn, memory_order_acquire);
        void *ctx = atomic_load_explicit(&p->ctx, memory_order_acquire);
        uint32_t n_items = atomic_load_explicit(&p->n_items, memory_order_acquire);
        if (item == CLOSED || item >= n_items) return n;
        if (!atomic_compare_exchange_weak_explicit(&p->ticket, &t, t + 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        fn(ctx, item, worker);
        n++;
        t = atomic_load_explicit(&p->ticket, memory_order_acquire);
    }
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct fg_pool *p = w->pool;
    uint32_t seen = 0;
    for (;;) {
        uint32_t now = atomic_load_explicit(&p->wake, memory_order_acquire);
        for (int i = 0; now == seen && i < SPINS; i++) {
            relax();
            now = atomic_load_explicit(&p->wake, memory_order_acquire);
        }
        while (now == seen) {
            atomic_fetch_add(&p->sleepers, 1);
            futex_wait(&p->wake, seen);
            atomic_fetch_sub(&p->sleepers, 1);
            now = atomic_load_explicit(&p->wake, memory_order_acquire);
        }
        seen = now;
        if (atomic_load_explicit(&p->stop, memory_order_relaxed)) return NULL;
        uint32_t n = drain(p, w->index);
        if (n > 0) {
            atomic_fetch_add(&p->done, n);
            if (atomic_load(&p->caller_sleeps)) futex_wake(&p->done, 1);
        }
    }
}

int fg_pool_new(struct fg_pool **out, int n_threads, struct fg_error *err)
{
    *out = NULL;
    if (n_threads < 1 || n_threads > THREADS_MAX)
        return fg_fail_range(err, "threads", NULL, "number of threads", 1, THREADS_MAX, n_threads);
    struct fg_pool *p = aligned_alloc(64, sizeof *p);
    if (!p) return fg_fail_memory(err, "threads", sizeof *p);
    memset(p, 0, sizeof *p);
    p->n_threads = n_threads;
    atomic_store(&p->ticket, CLOSED);
    p->workers = calloc((size_t)n_threads, sizeof *p->workers);
    p->stretches = aligned_alloc(64, (size_t)n_threads * sizeof *p->stretches);
    if (!p->workers || !p->stretches) {
        free(p->workers);
        free(p->stretches);
        free(p);
        return fg_fail_memory(err, "threads", (uint64_t)n_threads * sizeof *p->workers);
    }
    // Workers take no signals: Ctrl-C must interrupt the thread that reads the terminal.
    sigset_t all, old;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); // comes from what a worker itself does: it must reach the handler
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (int i = 1; i < n_threads; i++) {
        struct worker *w = &p->workers[i];
        *w = (struct worker){.pool = p, .index = i};
        if (pthread_create(&w->thread, NULL, worker_main, w) != 0) break;
        p->n_started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (p->n_started < n_threads - 1) {
        int started = p->n_started;
        fg_pool_free(p);
        return fg_fail(err, FG_ERESOURCE, "threads", NULL, "start of a thread", NULL,
                       "thread %d of %d could not be started", started + 2, n_threads);
    }
    *out = p;
    return 0;
}

void fg_pool_free(struct fg_pool *p)
{
    if (!p) return;
    atomic_store(&p->stop, true);
    atomic_fetch_add(&p->wake, 1);
    futex_wake(&p->wake, INT_MAX);
    for (int i = 1; i <= p->n_started; i++)
        pthread_join(p->workers[i].thread, NULL);
    free(p->workers);
    free(p->stretches);
    free(p);
}

int fg_pool_threads(const struct fg_pool *p)
{
    return p->n_threads;
}

static void run_slice(struct fg_pool *p, uint32_t n_items, fg_job_fn fn, void *ctx)
{
    uint64_t gen = (atomic_load(&p->ticket) >> 32) + 1;
    atomic_store_explicit(&p->ticket, gen << 32 | CLOSED, memory_order_release);
    atomic_store_explicit(&p->fn, fn, memory_order_release);
    atomic_store_explicit(&p->ctx, ctx, memory_order_release);
    atomic_store_explicit(&p->n_items, n_items, memory_order_release);
    atomic_store(&p->done, 0);
    atomic_store(&p->ticket, gen << 32);
    atomic_fetch_add(&p->wake, 1);
    if (atomic_load(&p->sleepers) > 0) futex_wake(&p->wake, INT_MAX);

    uint32_t mine = drain(p, 0), done = atomic_fetch_add(&p->done, mine) + mine;
    for (int i = 0; done != n_items && i < SPINS; i++) {
        relax();
        done = atomic_load_explicit(&p->done, memory_order_acquire);
    }
    if (done == n_items) return;
    atomic_store(&p->caller_sleeps, true);
    while ((done = atomic_load(&p->done)) != n_items)
        futex_wait(&p->done, done);
    atomic_store(&p->caller_sleeps, false);
}

// The job of one slice of a range too long for the ticket's lower half.
struct slice {
    fg_job_fn fn;
    void *ctx;
    int64_t first;
};

static void slice_item(void *ctx, int64_t item, int worker)
{
    const struct slice *s = ctx;
    s->fn(s->ctx, s->first + item, worker);
}

void fg_pool_run(struct fg_pool *p, int64_t n_items, fg_job_fn fn, void *ctx)
{
    const int64_t most = INT32_MAX;
    if (n_items <= 1 || p->n_threads == 1) {
        for (int64_t i = 0; i < n_items; i++)
            fn(ctx, i, 0);
    } else if (n_items <= most) {
        run_slice(p, (uint32_t)n_items, fn, ctx);
    } else {
        for (int64_t first = 0; first < n_items; first += most) {
            struct slice s = {fn, ctx, first};
            int64_t n = n_items - first < most ? n_items - first : most;
            run_slice(p, (uint32_t)n, slice_item, &s);
        }
    }
}

struct near_job {
    struct fg_pool *pool;
    fg_job_fn fn;
    void *ctx;
};

static int64_t left(const struct stretch *s)
{
    return s->end - atomic_load_explicit(&s->next, memory_order_relaxed);
}

// A ticket is good for one item, whichever: there are as many tickets as items, so a thread that
// holds one finds one.
static void near_item(void *ctx, int64_t ticket, int worker)
{
    const struct near_job *job = ctx;
    struct stretch *all = job->pool->stretches, *s = &all[worker];
    (void)ticket;
    for (;;) {
        if (left(s) <= 0) {
            s = all;
            for (int i = 1; i < job->pool->n_threads; i++)
                if (left(&all[i]) > left(s)) s = &all[i];
        }
        int64_t item = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
        if (item >= s->end) continue;
        job->fn(job->ctx, item, worker);
        return;
    }
}

void fg_pool_run_near(struct fg_pool *p, int64_t n_items, fg_job_fn fn, void *ctx)
{
    if (n_items <= p->n_threads || p->n_threads == 1) {
        fg_pool_run(p, n_items, fn, ctx);
        return;
    }
    const int64_t n = p->n_threads, each = n_items / n, more = n_items % n;
    for (int64_t i = 0, first = 0; i < n; i++) {
        atomic_store_explicit(&p->stretches[i].next, first, memory_order_relaxed);
        first += each + (i < more);
        p->stretches[i].end = first;
    }
    struct near_job job = {p, fn, ctx};
    fg_pool_run(p, n_items, near_item, &job);
}

// First number of a sysfs list such as "0,4" or "0-1"; -1 when it can't be read.
static int first_sibling(int cpu)
{
    char path[96];
    int first = -1;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *f = fopen(path, "re");
    if (!f) return -1;
    if (fscanf(f, "%d", &first) != 1) first = -1;
    fclose(f);
    return first;
}

int fg_threads_default(void)
{
    cpu_set_t set;
    int n = 0;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        bool taken[CPU_SETSIZE] = {false};
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (!CPU_ISSET((size_t)cpu, &set)) continue;
            int core = first_sibling(cpu);
            if (core < 0 || core >= CPU_SETSIZE) core = cpu;
            if (!taken[core]) n++;
            taken[core] = true;
        }
    }
    if (n < 1) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        n = online > 0 ? (int)online : 1;
    }
    double granted = fg_cgroup_cpus();
    if (granted > 0 && granted < n) n = (int)granted + (granted > (int)granted); // rounded up
    return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : n;
}
