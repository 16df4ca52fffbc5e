// runtime/session.c: memory of a conversation and forward calls over it.
#include "runtime/session.h"
#include "base/size.h"
#include "kernels/parallel.h"
#include "runtime/session_impl.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// Zeroed address space that costs memory only where it is touched; NULL when out of it.
static void *reserve(uint64_t bytes)
{
    size_t n;
    if (!fg_to_size(&n, bytes) || n == 0) return NULL;
    void *p =
        mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static uint64_t floats_of_cache(const struct fg_session *s)
{
    const struct fg_config *c = &s->model->config;
    return (uint64_t)c->n_full * 2 * (uint64_t)c->n_kv_heads * (uint64_t)c->head_dim *
           (uint64_t)s->state.capacity;
}

static int make_buffers(struct fg_session *s, struct fg_error *err)
{
    const struct fg_config *c = &s->model->config;
    const int64_t conv = c->n_linear ? (c->conv_kernel - 1) * fg_config_conv_channels(c) : 0;
    const int64_t S = c->n_v_heads * c->k_head_dim * c->v_head_dim;
    const int64_t cache = c->n_kv_heads * c->head_dim * s->state.capacity;
    s->state_floats = (uint64_t)c->n_linear * (uint64_t)(conv + S);
    uint64_t cache_bytes = floats_of_cache(s) * sizeof(float);
    s->state.layers = fg_arena_alloc(&s->arena, (uint64_t)c->n_layers, sizeof *s->state.layers);
    s->ids = fg_arena_alloc(&s->arena, (uint64_t)s->state.capacity, sizeof *s->ids);
    s->states = fg_arena_alloc(&s->arena, s->state_floats, sizeof(float));
    if (!s->state.layers || !s->ids || !s->states)
        return fg_fail_memory(err, "session", s->state_floats * sizeof(float));
    if (cache_bytes) {
        s->cache = reserve(cache_bytes);
        if (!s->cache) return fg_fail_memory(err, "key/value cache", cache_bytes);
        s->cache_bytes = cache_bytes;
    }
    float *state_at = s->states, *cache_at = s->cache;
    for (int64_t i = 0; i < c->n_layers; i++) {
        struct fg_layer_state *l = &s->state.layers[i];
        if (c->is_linear[i]) {
            l->S = state_at;
            l->conv = state_at + S;
            state_at += S + conv;
        } else {
            l->k = cache_at;
            l->v = cache_at + cache;
            cache_at += 2 * cache;
        }
    }
    return 0;
}

int fg_session_new(struct fg_session **out, const struct fg_model *m,
                   const struct fg_kernels *kernels, struct fg_pool *pool, bool fast,
                   int64_t capacity, int64_t rows_max, struct fg_error *err)
{
    const struct fg_config *c = &m->config;
    *out = NULL;
    if (capacity < 1 || capacity > c->max_positions)
        return fg_fail_range(err, "session", NULL, "context", 1, c->max_positions, capacity);
    if (rows_max < 1 || rows_max > FG_SESSION_ROWS_MAX)
        return fg_fail_range(err, "session", NULL, "rows", 1, FG_SESSION_ROWS_MAX, rows_max);
    struct fg_session *s = calloc(1, sizeof *s);
    if (!s) return fg_fail_memory(err, "session", sizeof *s);
    fg_arena_init(&s->arena, 0);
    s->model = m;
    s->fast = fast;
    s->rows_max = rows_max < capacity ? rows_max : capacity;
    s->state.capacity = capacity;
    int rc = make_buffers(s, err);
    if (rc == 0) rc = fg_workspace_new(&s->ws, m, kernels, pool, fast, s->rows_max, err);
    if (rc) {
        fg_session_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void fg_session_free(struct fg_session *s)
{
    if (!s) return;
    if (s->cache) munmap(s->cache, (size_t)s->cache_bytes);
    fg_workspace_free(s->ws);
    free(s->best_work);
    fg_arena_free(&s->arena);
    free(s);
}

static int check_run(const struct fg_session *s, const int32_t *ids, int64_t n, int64_t n_logits,
                     struct fg_error *err)
{
    const int64_t room = s->state.capacity - s->state.pos, vocab = s->model->config.vocab;
    char expected[64], field[48];
    if (n < 1 || n_logits < 0 || n_logits > n)
        return fg_fail(err, FG_EINPUT, "session", NULL, "number of tokens", "at least 1",
                       "%" PRId64, n);
    if (n > room) {
        snprintf(expected, sizeof expected, "at most %" PRId64 " (context of %" PRId64 ")", room,
                 s->state.capacity);
        return fg_fail(err, FG_EINPUT, "session", NULL, "number of tokens", expected, "%" PRId64,
                       n);
    }
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] >= 0 && ids[i] < vocab) continue;
        snprintf(field, sizeof field, "token %" PRId64, i);
        snprintf(expected, sizeof expected, "an id from 0 to %" PRId64, vocab - 1);
        return fg_fail(err, FG_EINPUT, "session", NULL, field, expected, "%" PRId32, ids[i]);
    }
    return 0;
}

// One block: logits, or with `best` the best of them, of its last `with` rows.
static void run_block(struct fg_session *s, const int32_t *ids, int64_t T, float *logits,
                      struct fg_best *best, int64_t with)
{
    memcpy(s->ids + s->state.pos, ids, (size_t)T * sizeof *ids);
    if (best)
        fg_forward_best(s->model, &s->state, s->ws, ids, T, best, with);
    else
        fg_forward(s->model, &s->state, s->ws, ids, T, logits, with);
}

// n_out rows of logits [n_out][vocab], or of *best.
static int run(struct fg_session *s, const int32_t *ids, int64_t n, float *logits,
               struct fg_best *best, int64_t n_out, fg_session_progress_fn progress, void *ctx,
               struct fg_error *err)
{
    int rc = check_run(s, ids, n, n_out, err);
    if (rc) return rc;
    const int64_t vocab = s->model->config.vocab, first = n - n_out; // first row with logits
    bool nan = false;
    for (int64_t done = 0; done < n;) {
        int64_t T = n - done < s->rows_max ? n - done : s->rows_max;
        int64_t with = done + T > first ? done + T - (done > first ? done : first) : 0;
        int64_t at = with ? done + T - with - first : 0;
        if (best) {
            struct fg_best part = *best;
            part.ids += at * best->k;
            part.logits += at * best->k;
            part.lse += at;
            run_block(s, ids + done, T, NULL, &part, with);
            nan |= with && part.nan;
        } else {
            run_block(s, ids + done, T, with ? logits + at * vocab : NULL, NULL, with);
        }
        done += T;
        if (progress && progress(ctx, done, n) != 0 && done < n)
            return fg_fail(err, FG_EINTERRUPTED, "session", NULL, NULL, NULL,
                           "stopped after %" PRId64 " of %" PRId64 " tokens", done, n);
    }
    if (best) best->nan = nan;
    return 0;
}

int fg_session_run(struct fg_session *s, const int32_t *ids, int64_t n, float *logits,
                   int64_t n_logits, fg_session_progress_fn progress, void *ctx,
                   struct fg_error *err)
{
    return run(s, ids, n, logits, NULL, n_logits, progress, ctx, err);
}

int fg_session_run_best(struct fg_session *s, const int32_t *ids, int64_t n, struct fg_best *best,
                        int64_t n_best, fg_session_progress_fn progress, void *ctx,
                        struct fg_error *err)
{
    int64_t k_max =
        s->model->config.vocab < FG_HEAD_TOP_MAX ? s->model->config.vocab : FG_HEAD_TOP_MAX;
    if (best->k < 1 || best->k > k_max)
        return fg_fail_range(err, "session", NULL, "best logits", 1, k_max, best->k);
    int64_t rows = n_best < s->rows_max ? n_best : s->rows_max;
    uint64_t bytes = fg_best_work_bytes(s->model->config.vocab, rows > 0 ? rows : 0, best->k);
    if (bytes > s->best_bytes) { // once for a number of rows: a decode step allocates nothing
        free(s->best_work);
        s->best_work = fg_alloc_aligned(bytes);
        s->best_bytes = s->best_work ? bytes : 0;
        if (!s->best_work) return fg_fail_memory(err, "best logits", bytes);
    }
    best->work = s->best_work;
    return run(s, ids, n, NULL, best, n_best, progress, ctx, err);
}

int64_t fg_session_pos(const struct fg_session *s)
{
    return s->state.pos;
}

int64_t fg_session_capacity(const struct fg_session *s)
{
    return s->state.capacity;
}

const int32_t *fg_session_ids(const struct fg_session *s)
{
    return s->ids;
}

bool fg_session_rewind(struct fg_session *s, int64_t pos)
{
    if (pos < 0 || pos > s->state.pos) return false;
    if (pos == s->state.pos) return true;
    if (pos > 0 && s->model->config.n_linear > 0) return false;
    if (pos == 0) {
        memset(s->states, 0, s->state_floats * sizeof(float));
        // Gives the pages back; they read as zero when they are used again.
        if (s->cache) madvise(s->cache, (size_t)s->cache_bytes, MADV_DONTNEED);
    }
    s->state.pos = pos;
    return true;
}

uint64_t fg_session_bytes(const struct fg_session *s)
{
    return s->arena.used_bytes + fg_workspace_bytes(s->ws) +
           fg_config_kv_bytes_per_position(&s->model->config) * (uint64_t)s->state.pos;
}

void fg_session_set_tap(struct fg_session *s, fg_tap_fn tap, void *ctx)
{
    fg_workspace_set_tap(s->ws, tap, ctx);
}
