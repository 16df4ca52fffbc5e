// The worker pool: every item exactly once, for many shapes of job and under contention.
#include "base/thread.h"
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

struct job {
    int n_threads;
    _Atomic int *times;     // [n] how often an item ran
    int64_t *squares;       // [n] results
    _Atomic int *inside;    // [n_threads] 1 while a worker runs an item
    _Atomic int bad_worker; // a number out of range, or one in use twice at a time
};

static void item(void *ctx, int64_t i, int worker)
{
    struct job *j = ctx;
    if (worker < 0 || worker >= j->n_threads || atomic_exchange(&j->inside[worker], 1) != 0) {
        atomic_store(&j->bad_worker, 1);
        return;
    }
    atomic_fetch_add(&j->times[i], 1);
    j->squares[i] = i * i;
    atomic_store(&j->inside[worker], 0);
}

static void check_job(const struct job *j, int64_t n)
{
    assert_int_equal(j->bad_worker, 0);
    for (int64_t i = 0; i < n; i++) {
        if (j->times[i] != 1 || j->squares[i] != i * i) // plain reads: the run has ended
            fail_msg("%d threads, %lld items: item %lld ran %d times", j->n_threads, (long long)n,
                     (long long)i, j->times[i]);
    }
    assert_int_equal(j->times[n], 0); // and none beyond
}

static void run_and_check(struct fg_pool *pool, int64_t n)
{
    int n_threads = fg_pool_threads(pool);
    struct job j = {.n_threads = n_threads,
                    .times = calloc((size_t)n + 1, sizeof(_Atomic int)),
                    .squares = calloc((size_t)n + 1, sizeof(int64_t)),
                    .inside = calloc((size_t)n_threads, sizeof(_Atomic int))};
    assert_true(j.times && j.squares && j.inside);
    for (int near = 0; near < 2; near++) {
        memset(j.times, 0, (size_t)(n + 1) * sizeof(_Atomic int));
        memset(j.squares, 0, (size_t)(n + 1) * sizeof(int64_t));
        if (near)
            fg_pool_run_near(pool, n, item, &j);
        else
            fg_pool_run(pool, n, item, &j);
        check_job(&j, n);
    }
    free(j.times);
    free(j.squares);
    free(j.inside);
}
static void test_every_item_once(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 1, 2, 3, 7, 8, 9, 1000, 65536};
    for (int n_threads = 1; n_threads <= 8; n_threads++) {
        struct fg_pool *pool;
        struct fg_error err;
        assert_int_equal(fg_pool_new(&pool, n_threads, &err), 0);
        assert_int_equal(fg_pool_threads(pool), n_threads);
        for (int round = 0; round < 3; round++) {
            for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
                run_and_check(pool, counts[i]);
            if (round == 1) usleep(20000); // long enough for the workers to sleep
        }
        fg_pool_free(pool);
    }
}

static void add(void *ctx, int64_t i, int worker)
{
    (void)worker;
    atomic_fetch_add((_Atomic int64_t *)ctx, i + 1);
}

static void test_many_tiny_jobs(void **state)
{
    (void)state;
    for (int n_threads = 2; n_threads <= 4; n_threads += 2) {
        struct fg_pool *pool;
        struct fg_error err;
        assert_int_equal(fg_pool_new(&pool, n_threads, &err), 0);
        for (int k = 0; k < 100000; k++) {
            int64_t n = 2 + k % 5;
            _Atomic int64_t sum = 0;
            fg_pool_run(pool, n, add, &sum); // sum lives only as long as the job
            if (sum != n * (n + 1) / 2)
                fail_msg("%d threads, job %d: sum %lld", n_threads, k, (long long)sum);
        }
        fg_pool_free(pool);
    }
}

// Jobs write plain memory in turn; each must see what the one before wrote.
struct chain {
    int64_t *from, *to;
};

static void next_of(void *ctx, int64_t i, int worker)
{
    (void)worker;
    struct chain *c = ctx;
    c->to[i] = c->from[(i + 1) % 64] + 1;
}

static void test_a_job_sees_the_results_of_the_last(void **state)
{
    (void)state;
    struct fg_pool *pool;
    struct fg_error err;
    int64_t a[64] = {0}, b[64] = {0};
    assert_int_equal(fg_pool_new(&pool, 4, &err), 0);
    for (int k = 0; k < 10000; k++) {
        struct chain c = {k % 2 ? b : a, k % 2 ? a : b};
        fg_pool_run(pool, 64, next_of, &c);
    }
    for (int i = 0; i < 64; i++)
        assert_int_equal(a[i], 10000);
    fg_pool_free(pool);
}

// One slow item must not keep the others waiting: they are handed out as threads get free.
struct slow {
    _Atomic int others;
    _Atomic bool seen_all;
};

static void slow_first(void *ctx, int64_t i, int worker)
{
    (void)worker;
    struct slow *s = ctx;
    if (i != 0) {
        atomic_fetch_add(&s->others, 1);
        return;
    }
    for (int wait = 0; wait < 10000 && atomic_load(&s->others) < 99; wait++)
        usleep(1000);
    atomic_store(&s->seen_all, atomic_load(&s->others) == 99);
}

static void test_a_slow_item_delays_only_itself(void **state)
{
    (void)state;
    struct fg_pool *pool;
    struct fg_error err;
    assert_int_equal(fg_pool_new(&pool, 2, &err), 0);
    struct slow s = {0};
    fg_pool_run(pool, 100, slow_first, &s);
    assert_true(s.seen_all);
    fg_pool_free(pool);
}

static _Atomic bool stop_busy;

static void *busy(void *arg)
{
    (void)arg;
    while (!atomic_load_explicit(&stop_busy, memory_order_relaxed)) {
    }
    return NULL;
}

// Foreign threads that take the CPUs away make workers sleep and wake at odd moments.
static void test_under_foreign_load(void **state)
{
    (void)state;
    pthread_t foreign[3];
    struct fg_pool *pools[2];
    struct fg_error err;
    atomic_store(&stop_busy, false);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&foreign[i], NULL, busy, NULL), 0);
    alarm(100); // a deadlock ends the test
    assert_int_equal(fg_pool_new(&pools[0], 4, &err), 0);
    assert_int_equal(fg_pool_new(&pools[1], 3, &err), 0); // two pools do not meet
    for (int k = 0; k < 60; k++) {
        run_and_check(pools[k % 2], 2 + k * 7);
        if (k % 20 == 0) usleep(3000);
    }
    alarm(0);
    atomic_store(&stop_busy, true);
    for (int i = 0; i < 3; i++)
        pthread_join(foreign[i], NULL);
    fg_pool_free(pools[0]);
    fg_pool_free(pools[1]);
}

static void test_pools_come_and_go(void **state)
{
    (void)state;
    struct fg_pool *pool;
    struct fg_error err;
    for (int k = 0; k < 300; k++) {
        assert_int_equal(fg_pool_new(&pool, 1 + k % 6, &err), 0);
        if (k % 3) run_and_check(pool, k % 17);
        fg_pool_free(pool); // perhaps before the workers have started
    }
    fg_pool_free(NULL);
}

static void test_bad_counts(void **state)
{
    (void)state;
    static const int bad[] = {0, -1, 1025, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct fg_pool *pool = (struct fg_pool *)&bad;
        struct fg_error err;
        assert_int_equal(fg_pool_new(&pool, bad[i], &err), FG_EINPUT);
        assert_null(pool);
    }
}

static void own_mask(void *ctx, int64_t i, int worker)
{
    (void)i;
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    if (worker > 0 && !sigismember(&mask, SIGINT)) atomic_store((_Atomic int *)ctx, 1);
    usleep(100);
}

static void test_workers_leave_signals_to_the_caller(void **state)
{
    (void)state;
    struct fg_pool *pool;
    struct fg_error err;
    sigset_t before, after;
    _Atomic int unblocked = 0;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    assert_int_equal(fg_pool_new(&pool, 3, &err), 0);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    assert_int_equal(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
    fg_pool_run(pool, 100, own_mask, &unblocked);
    assert_int_equal(unblocked, 0);
    fg_pool_free(pool);
}

static void test_default_respects_affinity(void **state)
{
    (void)state;
    cpu_set_t old, one;
    int n = fg_threads_default();
    assert_true(n >= 1 && n <= sysconf(_SC_NPROCESSORS_ONLN));
    assert_int_equal(sched_getaffinity(0, sizeof old, &old), 0);
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &old)) {
            CPU_SET(cpu, &one);
            break;
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(fg_threads_default(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof old, &old), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_item_once),
        cmocka_unit_test(test_many_tiny_jobs),
        cmocka_unit_test(test_a_job_sees_the_results_of_the_last),
        cmocka_unit_test(test_a_slow_item_delays_only_itself),
        cmocka_unit_test(test_under_foreign_load),
        cmocka_unit_test(test_pools_come_and_go),
        cmocka_unit_test(test_bad_counts),
        cmocka_unit_test(test_workers_leave_signals_to_the_caller),
        cmocka_unit_test(test_default_respects_affinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
