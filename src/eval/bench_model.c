// eval/bench_model.c: whole models through the public API: calls of few rows, prompts, decoding,
// and decoding beside a thread of somebody else. Token ids are arbitrary, as speed does not depend
// on them.
#include "eval/bench.h"
#include "base/progress.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PROMPT_ROWS 512 // per forward call, where nothing else is asked for
#define HISTORY_SEED 1  // of made-up positions

struct run {
    struct fg_bench *bench;
    struct forge_session *session;
    struct forge_engine_info info;
    int32_t *ids; // [n_ids]
    int64_t n_ids;
    float *logits; // [logits_rows_max][vocab]
    int64_t rows, logits_rows;
    int64_t ctx;     // positions before what is timed
    int64_t end;     // where a run must not go past; ctx comes again then
    int64_t repeats; // calls per run
    bool real;       // history comes from a prompt
};

static void run_free(struct run *r)
{
    forge_session_free(r->session);
    free(r->ids);
    free(r->logits);
}

// Room for `capacity` positions, calls of at most `rows`, logits of logits_rows.
static int run_new(struct run *r, struct fg_bench *b, struct forge_engine *e, int64_t capacity,
                   int64_t rows, int64_t logits_rows, struct fg_error *err)
{
    *r = (struct run){.bench = b, .n_ids = capacity};
    forge_engine_info(e, &r->info);
    const int64_t context = forge_context_for(e, capacity);
    if (context == 0)
        return fg_fail(err, FG_EINPUT, "bench", NULL, "positions", "what the model has room for",
                       "%lld of %lld", (long long)capacity,
                       (long long)r->info.entries[r->info.n_entries - 1]);
    r->ids = malloc((size_t)capacity * sizeof *r->ids);
    r->logits = malloc((size_t)(logits_rows * r->info.vocab) * sizeof *r->logits);
    if (!r->ids || !r->logits)
        return fg_fail_memory(err, "logits", (uint64_t)(logits_rows * r->info.vocab) * 4);
    for (int64_t i = 0; i < capacity; i++)
        r->ids[i] = (int32_t)((i * 7919 + 13) % r->info.vocab);
    struct forge_session_options so = {.capacity = context, .rows = rows};
    return forge_session_new(&r->session, e, &so, err);
}

static int on_block(void *ctx, int64_t done, int64_t total)
{
    (void)done;
    (void)total;
    const struct fg_bench *b = ctx;
    return b->stop ? b->stop(b->ctx) : 0;
}

static int forward(struct run *r, int64_t n, int64_t n_logits, struct fg_error *err)
{
    int64_t pos = forge_session_position(r->session);
    return forge_session_run(r->session, r->ids + pos, n, r->logits, n_logits, on_block, r->bench,
                             err);
}

// The session at ctx positions. Where it can't go back it is filled anew, unless it is at ctx or a
// little past it: then it stays, as a few positions more change nothing.
static int at_ctx(void *ctx, struct fg_error *err)
{
    struct run *r = ctx;
    int64_t pos = forge_session_position(r->session);
    if (r->ctx > 0 && pos >= r->ctx && pos + r->rows * r->repeats <= r->end) return 0;
    if (pos >= r->ctx && forge_session_rewind(r->session, r->ctx)) return 0;
    if (pos > 0) forge_session_reset(r->session);
    return r->real ? forward(r, r->ctx, 1, err)
                   : forge_session_pretend(r->session, r->ctx, HISTORY_SEED, err);
}

static int calls(void *ctx, struct fg_error *err)
{
    struct run *r = ctx;
    int rc = 0;
    for (int64_t i = 0; i < r->repeats && rc == 0; i++)
        rc = forward(r, r->rows, r->logits_rows, err);
    return rc;
}

// Bytes and multiply-adds of a call: weights once, keys and values of all positions that it sees,
// states read and written; every row through all matrices but the embedding, through the head only
// where logits are wanted.
static void fill_work(struct fg_bench_figure *f, const struct run *r)
{
    const struct forge_engine_info *info = &r->info;
    double vocab = (double)info->vocab, head = vocab * (double)info->hidden;
    bool tied = info->token_bytes >= info->weight_bytes;
    double body = (double)info->parameters - (tied ? 1 : 2) * head;
    f->bytes = (double)info->token_bytes + (double)info->state_bytes +
               (double)info->kv_bytes_per_position * (double)(r->ctx + r->rows);
    double mac = (double)r->rows * body + (double)r->logits_rows * head;
    for (int i = 0; i < FG_ROOF_N_KINDS; i++)
        f->mac[i] = mac;
}

static int measure(struct fg_bench *b, struct run *r, const char *name, struct fg_error *err)
{
    struct fg_bench_figure *f = fg_bench_add(b->report, name);
    if (!f) return fg_fail_memory(err, "report", sizeof *f);
    f->rows = r->rows;
    f->ctx = r->ctx;
    f->tokens = r->rows;
    fill_work(f, r);
    if (b->say) {
        char what[96];
        snprintf(what, sizeof what, "%s, %lld rows at position %lld", name, (long long)r->rows,
                 (long long)r->ctx);
        b->say(b->ctx, what);
    }
    struct fg_bench_work work = {at_ctx, calls, r, r->repeats};
    return fg_bench_measure(b, &work, f, err);
}

static int64_t largest(const int64_t *v, int n)
{
    int64_t most = v[0];
    for (int i = 1; i < n; i++)
        most = v[i] > most ? v[i] : most;
    return most;
}

static int64_t runs_of(const struct fg_bench *b)
{
    return (int64_t)b->runs + b->warmup;
}

int64_t fg_bench_rows_positions(const struct fg_bench *b, const struct fg_bench_model *m)
{
    return m->ctx + largest(m->sizes, m->n_sizes) * (m->ctx > 0 ? runs_of(b) : 1);
}

int fg_bench_rows(struct fg_bench *b, const struct fg_bench_model *m, struct fg_error *err)
{
    int64_t most = largest(m->sizes, m->n_sizes);
    int64_t verify = most < FG_BENCH_VERIFY_MAX ? most : FG_BENCH_VERIFY_MAX;
    struct run r;
    int rc = run_new(&r, b, m->engine, fg_bench_rows_positions(b, m), most,
                     m->last_only ? 1 : verify, err);
    r.ctx = m->ctx;
    r.repeats = 1;
    r.real = m->real_history;
    double one = 0;
    for (int i = 0; i < m->n_sizes && rc == 0; i++) {
        r.rows = m->sizes[i];
        r.end = m->ctx + r.rows * runs_of(b);
        r.logits_rows = m->last_only || r.rows > FG_BENCH_VERIFY_MAX ? 1 : r.rows;
        rc = measure(b, &r, "rows", err);
        if (rc) break;
        struct fg_bench_figure *f = &b->report->figures[b->report->n_figures - 1];
        if (r.rows == 1) one = f->seconds.median;
        if (one > 0) f->ratio = f->seconds.median / one;
    }
    run_free(&r);
    return rc;
}

int64_t fg_bench_prefill_positions(const struct fg_bench_model *m)
{
    return m->ctx + largest(m->sizes, m->n_sizes);
}

int fg_bench_prefill(struct fg_bench *b, const struct fg_bench_model *m, struct fg_error *err)
{
    struct run r;
    int rc = run_new(&r, b, m->engine, fg_bench_prefill_positions(m),
                     m->block_rows ? m->block_rows : PROMPT_ROWS, 1, err);
    r.ctx = m->ctx;
    r.repeats = 1;
    r.real = m->real_history;
    r.logits_rows = 1;
    for (int i = 0; i < m->n_sizes && rc == 0; i++) {
        r.rows = m->sizes[i];
        r.end = m->ctx + r.rows;
        rc = measure(b, &r, "prefill", err);
    }
    run_free(&r);
    return rc;
}

int64_t fg_bench_decode_positions(const struct fg_bench *b, const struct fg_bench_model *m)
{
    return largest(m->sizes, m->n_sizes) + m->tokens * runs_of(b);
}

int fg_bench_decode(struct fg_bench *b, const struct fg_bench_model *m, struct fg_error *err)
{
    struct run r;
    double first = 0;
    int rc = run_new(&r, b, m->engine, fg_bench_decode_positions(b, m),
                     m->block_rows ? m->block_rows : PROMPT_ROWS, 1, err);
    r.rows = r.logits_rows = 1;
    r.repeats = m->tokens;
    r.real = m->real_history;
    for (int i = 0; i < m->n_sizes && rc == 0; i++) {
        r.ctx = m->sizes[i];
        r.end = r.ctx + m->tokens * runs_of(b);
        rc = measure(b, &r, "decode", err);
        if (rc) break;
        struct fg_bench_figure *f = &b->report->figures[b->report->n_figures - 1];
        if (i == 0) first = f->seconds.median;
        f->ratio = f->seconds.median / first;
    }
    run_free(&r);
    return rc;
}

// ---- memory

// Weights are mapped and in memory once they have been read; keys and values when the entry is
// taken, all else when the session is made.
static int fill_context(struct fg_bench *b, const struct fg_bench_model *m,
                        struct fg_bench_memory *x, struct fg_error *err)
{
    const struct forge_session_options so = {.capacity = x->ctx};
    struct forge_session *s;
    struct forge_engine_info info;
    const int32_t id = 0;
    if (b->stop && b->stop(b->ctx))
        return fg_fail(err, FG_EINTERRUPTED, "bench", NULL, NULL, NULL, "stopped");
    forge_engine_info(m->engine, &info);
    int rc = forge_session_new(&s, m->engine, &so, err);
    if (rc) return rc;
    float *logits = malloc((size_t)info.vocab * sizeof *logits);
    if (!logits) rc = fg_fail_memory(err, "logits", (uint64_t)info.vocab * sizeof *logits);
    if (rc == 0) rc = forge_session_pretend(s, forge_session_capacity(s) - 1, HISTORY_SEED, err);
    if (rc == 0) rc = forge_session_run(s, &id, 1, logits, 1, NULL, NULL, err);
    const uint64_t now = fg_bench_rss(), before = b->report->rss_before;
    x->rss = now > before ? now - before : 0;
    free(logits);
    forge_session_free(s);
    return rc;
}

int fg_bench_memory(struct fg_bench *b, const struct fg_bench_model *m, struct fg_error *err)
{
    int rc = 0;
    for (int i = 0; i < b->report->n_memory && rc == 0; i++) {
        char what[64];
        snprintf(what, sizeof what, "memory, context %lld", (long long)b->report->memory[i].ctx);
        if (b->say) b->say(b->ctx, what);
        rc = fill_context(b, m, &b->report->memory[i], err);
    }
    return rc;
}

// ---- contention

struct foreign {
    atomic_bool stop;
    pthread_t thread;
    uint64_t kept;
};

static void *spin(void *ctx)
{
    struct foreign *f = ctx;
    uint64_t u = 1;
    while (!atomic_load_explicit(&f->stop, memory_order_relaxed)) {
        for (int i = 0; i < 4096; i++)
            u = u * 6364136223846793005u + 1442695040888963407u;
    }
    f->kept = u;
    return NULL;
}

static int start_foreign(struct foreign *f, struct fg_error *err)
{
    atomic_init(&f->stop, false);
    int rc = pthread_create(&f->thread, NULL, spin, f);
    return rc ? fg_fail(err, FG_ERESOURCE, "bench", NULL, "busy thread", "a thread", "error %d", rc)
              : 0;
}

static void stop_foreign(struct foreign *f)
{
    atomic_store(&f->stop, true);
    pthread_join(f->thread, NULL);
}

static int timed(struct run *r, double *seconds, struct fg_error *err)
{
    int rc = at_ctx(r, err);
    double start = fg_clock();
    if (rc == 0) rc = calls(r, err);
    *seconds = (fg_clock() - start) / (double)r->repeats;
    return rc;
}

int fg_bench_contention(struct fg_bench *b, const struct fg_bench_model *one,
                        struct forge_engine *all, struct fg_error *err)
{
    int64_t ctx = one->sizes[0], capacity = fg_bench_decode_positions(b, one);
    struct run r[2] = {{0}};
    double *v = malloc(3 * (size_t)b->runs * sizeof *v);
    if (!v) return fg_fail_memory(err, "bench", 3 * (uint64_t)b->runs * sizeof *v);
    double *alone = v, *beside = v + b->runs, *kept = v + 2 * (ptrdiff_t)b->runs;
    int rc = run_new(&r[0], b, one->engine, capacity, PROMPT_ROWS, 1, err);
    if (rc == 0) rc = run_new(&r[1], b, all, capacity, PROMPT_ROWS, 1, err);
    for (int i = 0; i < 2; i++) {
        r[i].ctx = ctx;
        r[i].end = ctx + one->tokens * runs_of(b);
        r[i].real = one->real_history;
        r[i].rows = r[i].logits_rows = 1;
        r[i].repeats = one->tokens;
    }
    for (int i = -b->warmup; i < b->runs && rc == 0; i++) {
        if (b->stop && b->stop(b->ctx))
            rc = fg_fail(err, FG_EINTERRUPTED, "bench", NULL, NULL, NULL, "stopped");
        double a = 0, c = 0;
        struct foreign foreign;
        if (rc == 0) rc = timed(&r[0], &a, err);
        if (rc == 0) rc = start_foreign(&foreign, err);
        if (rc) break;
        rc = timed(&r[1], &c, err);
        stop_foreign(&foreign);
        if (i < 0 || rc) continue;
        alone[i] = a;
        beside[i] = c;
        kept[i] = a / c;
    }
    if (rc == 0) {
        const char *names[] = {"one thread alone", "all, one foreign"};
        for (int i = 0; i < 2 && rc == 0; i++) {
            struct fg_bench_figure *f = fg_bench_add(b->report, names[i]);
            if (!f) {
                rc = fg_fail_memory(err, "report", sizeof *f);
                break;
            }
            f->rows = f->tokens = 1;
            f->ctx = ctx;
            f->runs = b->runs;
            f->seconds = fg_bench_stat_of(i == 0 ? alone : beside, b->runs);
            fill_work(f, &r[i]);
        }
        b->report->kept_share = fg_bench_stat_of(kept, b->runs).median;
    }
    run_free(&r[0]);
    run_free(&r[1]);
    free(v);
    return rc;
}
