#include "eval/tune.h"
#include "base/progress.h"
#include <stdlib.h>

#define SECONDS_MAX 60
#define RUNS 5
#define RUNS_THREADS 3
#define ROWS_MAX 8
#define CONTEXT 256 // positions of the session that is measured

struct clock {
    const struct fg_tune *tune;
    double end;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Milliseconds of a call of `rows` rows from an empty session: the median of `runs`, after one that
// does not count.
static int measure(const struct clock *c, struct forge_session *s, int64_t rows, int runs,
                   double *ms, struct fg_error *err)
{
    int32_t ids[ROWS_MAX], best_ids[ROWS_MAX];
    float logits[ROWS_MAX], lse[ROWS_MAX];
    double seconds[RUNS];
    int n = 0;
    for (int64_t i = 0; i < rows; i++)
        ids[i] = (int32_t)i;
    for (int run = -1; run < runs; run++) {
        if (c->tune->stop && c->tune->stop(c->tune->ctx))
            return fg_fail(err, FG_EINTERRUPTED, "tuning", NULL, NULL, NULL, "stopped");
        if (run > 0 && fg_clock() > c->end) break;
        struct forge_best best = {.k = 1, .ids = best_ids, .logits = logits, .lse = lse};
        forge_session_reset(s);
        double start = fg_clock();
        int rc = forge_session_run_best(s, ids, rows, &best, rows, NULL, NULL, err);
        if (rc) return rc;
        if (run >= 0) seconds[n++] = fg_clock() - start;
    }
    qsort(seconds, (size_t)n, sizeof *seconds, by_value);
    *ms = 1e3 * seconds[n / 2];
    return 0;
}

static int open_session(const struct fg_tune *tune, int threads, struct forge_engine **e,
                        struct forge_session **s, struct fg_error *err)
{
    struct forge_engine_options o = tune->engine;
    o.threads = threads;
    o.model_only = true;
    *s = NULL;
    int rc = forge_engine_open(e, &o, err);
    if (rc) return rc;
    const struct forge_session_options session = {.capacity = forge_context_for(*e, CONTEXT),
                                                  .rows = ROWS_MAX};
    rc = forge_session_new(s, *e, &session, err);
    if (rc) forge_engine_close(*e);
    return rc;
}

// The number of threads, doubled from one to all, with the quickest call of one row.
static int pick_threads(const struct clock *c, int most, int *picked, struct fg_error *err)
{
    double least = 0;
    *picked = most;
    for (int threads = most; threads >= 1; threads /= 2) {
        struct forge_engine *e;
        struct forge_session *s;
        double ms = 0;
        int rc = open_session(c->tune, threads, &e, &s, err);
        if (rc) return rc;
        rc = measure(c, s, 1, RUNS_THREADS, &ms, err);
        forge_session_free(s);
        forge_engine_close(e);
        if (rc) return rc;
        if (least > 0 && ms > 1.5 * least) break; // fewer only get slower from here
        if (least == 0 || ms < least) {
            least = ms;
            *picked = threads;
        }
    }
    return 0;
}

int fg_tune_measure(struct fg_tuning *t, const struct fg_tune *tune, struct fg_error *err)
{
    double limit = tune->seconds_max > 0 ? tune->seconds_max : SECONDS_MAX;
    const struct clock c = {.tune = tune, .end = fg_clock() + limit};
    int most = tune->engine.threads > 0 ? tune->engine.threads : forge_threads_default();
    int threads;
    struct forge_engine *e;
    struct forge_session *s;
    int rc = pick_threads(&c, most, &threads, err);
    if (rc == 0) rc = open_session(tune, threads, &e, &s, err);
    if (rc) return rc;
    fg_tuning_default(t);
    t->threads = threads;
    for (int64_t rows = 1; rc == 0 && rows <= ROWS_MAX; rows++) {
        double ms = 0;
        rc = measure(&c, s, rows, RUNS, &ms, err);
        if (rc == 0) t->verify[t->n_verify++] = (struct fg_tuning_row){.rows = rows, .ms = ms};
    }
    forge_session_free(s);
    forge_engine_close(e);
    return rc;
}
