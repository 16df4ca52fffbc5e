// api/session.c: the public session over runtime/session.h.
#include "api/engine.h"
#include "kernels/parallel.h"
#include <stdlib.h>

#define ROWS_DEFAULT 512
#define CAPACITY_DEFAULT 16384

int forge_session_new(struct forge_session **out, struct forge_engine *e,
                      const struct forge_session_options *o, struct fg_error *err)
{
    *out = NULL;
    if (!e->model)
        return fg_fail(err, FG_EINPUT, "session", NULL, NULL, NULL,
                       "the engine was opened for text only");
    const int64_t max = e->model->config.max_positions;
    int64_t capacity = o && o->capacity         ? o->capacity
                       : CAPACITY_DEFAULT < max ? CAPACITY_DEFAULT
                                                : max;
    int64_t rows = o && o->rows ? o->rows : ROWS_DEFAULT;
    struct forge_session *s = calloc(1, sizeof *s);
    if (!s) return fg_fail_memory(err, "session", sizeof *s);
    s->engine = e;
    int rc = fg_session_new(&s->run, e->model, e->kernels, e->pool, e->numerics == FORGE_FAST,
                            capacity, rows, err);
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

void forge_session_reset(struct forge_session *s)
{
    fg_session_rewind(s->run, 0);
}

uint64_t forge_session_bytes(const struct forge_session *s)
{
    return fg_session_bytes(s->run);
}

int forge_session_run(struct forge_session *s, const int32_t *ids, int64_t n, float *logits,
                      int64_t n_logits, forge_progress_fn progress, void *ctx, struct fg_error *err)
{
    return fg_session_run(s->run, ids, n, logits, logits ? n_logits : 0, progress, ctx, err);
}

int forge_session_run_best(struct forge_session *s, const int32_t *ids, int64_t n,
                           struct forge_best *best, int64_t n_rows, forge_progress_fn progress,
                           void *ctx, struct fg_error *err)
{
    struct fg_best b = {.k = best->k, .ids = best->ids, .logits = best->logits, .lse = best->lse};
    int rc = fg_session_run_best(s->run, ids, n, &b, n_rows, progress, ctx, err);
    if (rc == 0) best->nan = b.nan;
    return rc;
}

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

int forge_session_save(const struct forge_session *s, const char *path, struct fg_error *err)
{
    return fg_session_save(s->run, path, err);
}

int forge_session_load(struct forge_session *s, const char *path, struct fg_error *err)
{
    return fg_session_load(s->run, path, err);
}

void forge_session_tap(struct forge_session *s, forge_tap_fn tap, void *ctx)
{
    fg_session_set_tap(s->run, tap, ctx);
}
