// api/session.c: the public session over runtime/session.h.
#include "api/engine.h"
#include "kernels/parallel.h"
#include <stdlib.h>

static void forward_line(void *ctx, enum fg_log_level level, const char *line)
{
    const struct forge_session *s = ctx;
    s->log_fn(s->log_ctx, (enum forge_log_level)level, line);
}

// The log of a session: its own, or the engine's.
static struct fg_log log_of(struct forge_session *s, const struct forge_session_options *o)
{
    if (!o->log) return s->engine->log;
    s->log_fn = o->log;
    s->log_ctx = o->log_ctx;
    return (struct fg_log){
        .level = (enum fg_log_level)o->log_level, .sink = forward_line, .ctx = s};
}

static int check_options(const struct forge_session_options *o, struct fg_error *err)
{
    if (o->reserve_bytes < -1)
        return fg_fail(err, FG_EINPUT, "session", NULL, "reserve_bytes", "at least -1", "%lld",
                       (long long)o->reserve_bytes);
    if ((unsigned)o->attention > FORGE_ATTENTION_C2T)
        return fg_fail_range(err, "session", NULL, "attention", 0, FORGE_ATTENTION_C2T,
                             (int64_t)o->attention);
    return 0;
}

static int make(struct forge_session *s, const struct forge_session_options *o,
                struct fg_error *err)
{
    const struct forge_engine *e = s->engine;
    const struct fg_contexts *c = &e->contexts;
    struct fg_context context = e->context;
    enum fg_kv_format kv = e->kv;
    int rc = check_options(o, err);
    if (rc == 0 && o->capacity)
        rc = fg_contexts_pick(&context, c, o->capacity, e->model->path, err);
    if (rc == 0 && o->kv_cache_dtype)
        rc = fg_contexts_kv(&kv, c, o->kv_cache_dtype, e->model->path, err);
    if (rc) return rc;
    const struct fg_session_options options = {
        .kernels = e->kernels,
        .pool = e->pool,
        .fast = e->numerics == FORGE_FAST,
        .attention = (enum fg_attention)o->attention,
        .kv = kv,
        .rotated = c->rotated[kv] && !o->plain_kv,
        .entries = context.entries,
        .n_entries = context.n_entries,
        .capacity = context.capacity,
        .rows_max = o->rows ? o->rows : FORGE_ROWS_DEFAULT,
        .verify_max = o->verify_rows,
        .reserve_bytes = o->reserve_bytes == 0  ? FG_BUDGET_RESERVE
                         : o->reserve_bytes < 0 ? 0
                                                : (uint64_t)o->reserve_bytes,
        .log = log_of(s, o)};
    return fg_session_new(&s->run, e->model, &options, err);
}

int forge_session_new(struct forge_session **out, struct forge_engine *e,
                      const struct forge_session_options *o, struct fg_error *err)
{
    static const struct forge_session_options defaults;
    *out = NULL;
    if (!e->model || e->contexts.n == 0)
        return fg_fail(err, FG_EINPUT, "session", NULL, NULL, NULL,
                       "the engine was opened for text only");
    struct forge_session *s = calloc(1, sizeof *s);
    if (!s) return fg_fail_memory(err, "session", sizeof *s);
    s->engine = e;
    int rc = make(s, o ? o : &defaults, err);
    if (rc) {
        free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void forge_session_free(struct forge_session *s)
{
    if (!s) return;
    fg_session_free(s->run);
    free(s);
}

int64_t forge_session_position(const struct forge_session *s)
{
    return fg_session_pos(s->run);
}

int64_t forge_session_capacity(const struct forge_session *s)
{
    return fg_session_capacity(s->run);
}

int64_t forge_session_entry(const struct forge_session *s)
{
    return fg_session_entry(s->run);
}

int64_t forge_session_tried(const struct forge_session *s)
{
    return fg_session_tried(s->run);
}

void forge_session_reset(struct forge_session *s)
{
    fg_session_reset(s->run);
}

int forge_session_fit(struct forge_session *s, int64_t rows, struct fg_error *err)
{
    return fg_session_fit(s->run, rows, err);
}

uint64_t forge_session_bytes(const struct forge_session *s)
{
    return fg_session_bytes(s->run);
}

uint64_t forge_session_kv_bytes(const struct forge_session *s)
{
    return fg_session_kv_bytes(s->run);
}

// ---- calls

int forge_session_run(struct forge_session *s, const int32_t *ids, int64_t n, float *logits,
                      int64_t n_logits, forge_progress_fn progress, void *ctx, struct fg_error *err)
{
    return fg_session_run(s->run, ids, n, logits, logits ? n_logits : 0, progress, ctx, err);
}

static struct fg_best best_of(const struct forge_best *best)
{
    return (struct fg_best){
        .k = best->k, .ids = best->ids, .logits = best->logits, .lse = best->lse};
}

int forge_session_run_best(struct forge_session *s, const int32_t *ids, int64_t n,
                           struct forge_best *best, int64_t n_rows, forge_progress_fn progress,
                           void *ctx, struct fg_error *err)
{
    struct fg_best b = best_of(best);
    int rc = fg_session_run_best(s->run, ids, n, &b, n_rows, progress, ctx, err);
    if (rc == 0) best->nan = b.nan;
    return rc;
}

// The same call for the layer below; *best is room for what it needs.
static struct fg_feed feed_of(const struct forge_feed *f, struct fg_best *best)
{
    if (f->best) *best = best_of(f->best);
    return (struct fg_feed){.ids = f->ids,
                            .n = f->n,
                            .logits = f->logits,
                            .best = f->best ? best : NULL,
                            .n_out = f->logits || f->best ? f->n_out : 0,
                            .taps = f->taps,
                            .progress = f->progress,
                            .cancel = f->cancel,
                            .ctx = f->ctx};
}

static int give_best(int rc, const struct forge_feed *f, const struct fg_best *best)
{
    if (rc == 0 && f->best) f->best->nan = best->nan;
    return rc;
}

int forge_session_feed(struct forge_session *s, const struct forge_feed *f, struct fg_error *err)
{
    struct fg_best best;
    const struct fg_feed feed = feed_of(f, &best);
    return give_best(fg_session_feed(s->run, &feed, err), f, &best);
}

int forge_session_verify(struct forge_session *s, const struct forge_feed *f, struct fg_error *err)
{
    struct fg_best best;
    const struct fg_feed feed = feed_of(f, &best);
    return give_best(fg_session_verify(s->run, &feed, err), f, &best);
}

int forge_session_verify_batch(struct forge_session *const *sessions, const int64_t *n_rows,
                               int n_sessions, const struct forge_feed *f, struct fg_error *err)
{
    if (n_sessions < 1)
        return fg_fail(err, FG_EINPUT, "session", NULL, "sessions", "at least 1", "%d", n_sessions);
    struct fg_session **runs = malloc((size_t)n_sessions * sizeof *runs);
    if (!runs) return fg_fail_memory(err, "sessions", (uint64_t)n_sessions * sizeof *runs);
    for (int i = 0; i < n_sessions; i++)
        runs[i] = sessions[i]->run;
    struct fg_best best;
    const struct fg_feed feed = feed_of(f, &best);
    int rc = fg_session_verify_batch(runs, n_rows, n_sessions, &feed, err);
    free(runs);
    return give_best(rc, f, &best);
}

int forge_session_accept(struct forge_session *s, int64_t k, struct fg_error *err)
{
    return fg_session_accept(s->run, k, err);
}

void forge_session_flush(struct forge_session *s)
{
    fg_session_flush(s->run);
}

int forge_session_set_layer_taps(struct forge_session *s, const int64_t *layers, int64_t n,
                                 struct fg_error *err)
{
    return fg_session_set_layer_taps(s->run, layers, n, err);
}

void forge_session_tap(struct forge_session *s, forge_tap_fn tap, void *ctx)
{
    fg_session_set_tap(s->run, tap, ctx);
}

int forge_session_pretend(struct forge_session *s, int64_t pos, uint64_t seed, struct fg_error *err)
{
    return fg_session_pretend(s->run, pos, seed, err);
}

// ---- what it holds

int64_t forge_session_common_prefix(const struct forge_session *s, const int32_t *ids, int64_t n)
{
    const int32_t *held = fg_session_ids(s->run);
    int64_t pos = fg_session_pos(s->run), i = 0;
    while (i < pos && i < n && held[i] == ids[i])
        i++;
    return i;
}

bool forge_session_rewind(struct forge_session *s, int64_t pos)
{
    return fg_session_rewind(s->run, pos);
}

int forge_session_save(struct forge_session *s, const char *path, struct fg_error *err)
{
    return fg_session_save(s->run, path, err);
}

int forge_session_load(struct forge_session *s, const char *path, struct fg_error *err)
{
    return fg_session_load(s->run, path, err);
}
