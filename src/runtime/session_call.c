// runtime/session_call.c: calls over a session: rows that are committed, rows that are tried, and
// what becomes of them.
#include "base/arena.h"
#include "kernels/parallel.h"
#include "runtime/session.h"
#include "runtime/session_impl.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- checks, before anything is touched

static int check_ids(const struct fg_session *s, const int32_t *ids, int64_t n,
                     struct fg_error *err)
{
    const int64_t vocab = s->model->config.vocab;
    char expected[64], field[48];
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] >= 0 && ids[i] < vocab) continue;
        snprintf(field, sizeof field, "token %" PRId64, i);
        snprintf(expected, sizeof expected, "an id from 0 to %" PRId64, vocab - 1);
        return fg_fail(err, FG_EINPUT, "session", NULL, field, expected, "%" PRId32, ids[i]);
    }
    return 0;
}

static int check_room(const struct fg_session *s, int64_t n, struct fg_error *err)
{
    const int64_t capacity = fg_session_capacity(s), room = capacity - s->state.pos;
    char expected[64];
    if (n < 1)
        return fg_fail(err, FG_EINPUT, "session", NULL, "number of tokens", "at least 1",
                       "%" PRId64, n);
    if (n <= room) return 0;
    snprintf(expected, sizeof expected, "at most %" PRId64 " (context of %" PRId64 ")", room,
             capacity);
    return fg_fail(err, FG_EINPUT, "session", NULL, "number of tokens", expected, "%" PRId64, n);
}

// Outputs of the last n_out of n rows, at most rows_max of them in one call; makes room for the
// best of them.
static int check_outputs(struct fg_session *s, const struct fg_feed *feed, int64_t rows_max,
                         struct fg_error *err)
{
    if (feed->n_out < 0 || feed->n_out > feed->n)
        return fg_fail_range(err, "session", NULL, "rows with logits", 0, feed->n, feed->n_out);
    if (!feed->best || feed->n_out == 0) return 0;
    const int64_t vocab = s->model->config.vocab;
    const int64_t k_max = vocab < FG_HEAD_TOP_MAX ? vocab : FG_HEAD_TOP_MAX;
    if (feed->best->k < 1 || feed->best->k > k_max)
        return fg_fail_range(err, "session", NULL, "best logits", 1, k_max, feed->best->k);
    const int64_t rows = feed->n_out < rows_max ? feed->n_out : rows_max;
    const uint64_t bytes = fg_best_work_bytes(vocab, rows, feed->best->k);
    if (bytes <= s->best_bytes) return 0; // once for a number of rows: a decode step allocates
    void *work = fg_alloc_aligned(bytes); // nothing
    if (!work) return fg_fail_memory(err, "best logits", bytes);
    free(s->best_work);
    s->best_work = work;
    s->best_bytes = bytes;
    return 0;
}

// ---- rows

static void drop_tried(struct fg_session *s)
{
    if (s->state.n_tried) fg_accept(&s->state, 0);
}

// Rows of a call are about to be written from pos on.
static void begin_rows(struct fg_session *s, const int32_t *ids, int64_t T)
{
    const int64_t pos = s->state.pos;
    drop_tried(s); // their keys and values go
    if (pos < s->hi) fg_snapshots_before_write(s, pos);
    if (s->hi < pos + T) s->hi = pos + T;
    memcpy(s->ids + pos, ids, (size_t)T * sizeof *ids);
}

static struct fg_best best_from(const struct fg_session *s, const struct fg_best *best, int64_t row)
{
    struct fg_best part = *best;
    part.ids += row * best->k;
    part.logits += row * best->k;
    part.lse += row;
    part.work = s->best_work;
    part.nan = false;
    return part;
}

static int stopped(int64_t done, int64_t n, struct fg_error *err)
{
    return fg_fail(err, FG_EINTERRUPTED, "session", NULL, NULL, NULL,
                   "stopped after %" PRId64 " of %" PRId64 " tokens", done, n);
}

// Commits rows [done, done + T) of the feed; *nan is set as the best of it say.
static int feed_block(struct fg_session *s, const struct fg_feed *feed, int64_t done, int64_t T,
                      bool *nan, struct fg_error *err)
{
    const int64_t first = feed->n - feed->n_out; // first row with outputs
    const int64_t from = first > done ? first : done;
    const int64_t with = done + T > from ? done + T - from : 0, at = with ? from - first : 0;
    const struct fg_config *c = &s->model->config;
    const struct fg_span span = {.state = &s->state, .T = T};
    struct fg_call call = {.ids = feed->ids + done,
                           .spans = &span,
                           .n_spans = 1,
                           .T = T,
                           .n_out = with,
                           .cancel = feed->cancel,
                           .cancel_ctx = feed->ctx};
    struct fg_best part = {0};
    if (with && feed->best) {
        part = best_from(s, feed->best, at);
        call.best = &part;
    } else if (with && feed->logits) {
        call.logits = feed->logits + at * c->vocab;
    } else {
        call.n_out = 0;
    }
    if (feed->taps && s->n_taps) {
        call.tap_layers = s->taps;
        call.n_taps = s->n_taps;
        call.taps = feed->taps + done * s->n_taps * c->hidden;
    }
    begin_rows(s, call.ids, T);
    int rc = fg_forward(s->model, s->ws, &call, err);
    if (rc == FG_EINTERRUPTED) return stopped(done, feed->n, err);
    if (rc == 0 && call.best) *nan |= part.nan;
    return rc;
}

int fg_session_feed(struct fg_session *s, const struct fg_feed *feed, struct fg_error *err)
{
    const int64_t n = feed->n, block = s->options.rows_max;
    bool nan = false;
    int rc = check_room(s, n, err);
    if (rc == 0) rc = check_ids(s, feed->ids, n, err);
    if (rc == 0) rc = check_outputs(s, feed, block, err);
    if (rc == 0) rc = fg_session_fit(s, s->state.pos + n, err);
    if (rc) return rc;
    for (int64_t done = 0; done < n;) {
        const int64_t T = n - done < block ? n - done : block;
        rc = feed_block(s, feed, done, T, &nan, err);
        if (rc) return rc;
        done += T;
        if (feed->progress && feed->progress(feed->ctx, done, n) != 0 && done < n)
            return stopped(done, n, err);
    }
    if (feed->best) feed->best->nan = nan;
    return 0;
}

int fg_session_run(struct fg_session *s, const int32_t *ids, int64_t n, float *logits,
                   int64_t n_logits, fg_session_progress_fn progress, void *ctx,
                   struct fg_error *err)
{
    const struct fg_feed feed = {
        .ids = ids, .n = n, .logits = logits, .n_out = n_logits, .progress = progress, .ctx = ctx};
    return fg_session_feed(s, &feed, err);
}

int fg_session_run_best(struct fg_session *s, const int32_t *ids, int64_t n, struct fg_best *best,
                        int64_t n_best, fg_session_progress_fn progress, void *ctx,
                        struct fg_error *err)
{
    const struct fg_feed feed = {
        .ids = ids, .n = n, .best = best, .n_out = n_best, .progress = progress, .ctx = ctx};
    return fg_session_feed(s, &feed, err);
}

// ---- rows that are tried

static int check_member(const struct fg_session *first, const struct fg_session *s, int64_t rows,
                        struct fg_error *err)
{
    if (s->model != first->model || s->options.fast != first->options.fast)
        return fg_fail(err, FG_EINPUT, "session", NULL, "rows of several sessions",
                       "one model and one mode of numerics", NULL);
    if (s->options.attention != FG_ATTENTION_STORED)
        return fg_fail(err, FG_EINPUT, "session", NULL, "attention",
                       "keys and values as stored, for rows that are tried", NULL);
    if (rows > s->state.tried_max)
        return fg_fail_range(err, "session", NULL, "rows to try", 1, s->state.tried_max, rows);
    return check_room(s, rows, err);
}

static int check_batch(struct fg_session *const *sessions, const int64_t *n_rows, int n_sessions,
                       const struct fg_feed *feed, struct fg_error *err)
{
    struct fg_session *first = sessions[0];
    const int64_t rows_max = first->options.rows_max > first->state.tried_max
                                 ? first->options.rows_max
                                 : first->state.tried_max;
    int64_t n = 0;
    for (int i = 0; i < n_sessions; i++) {
        int rc = check_member(first, sessions[i], n_rows[i], err);
        if (rc) return rc;
        for (int j = 0; j < i; j++)
            if (sessions[j] == sessions[i])
                return fg_fail(err, FG_EINPUT, "session", NULL, "rows of several sessions",
                               "different sessions", "one twice");
        n += n_rows[i];
    }
    if (n != feed->n || n > rows_max)
        return fg_fail_range(err, "session", NULL, "rows of all sessions", n,
                             n < rows_max ? n : rows_max, feed->n);
    if (feed->n_out != 0 && feed->n_out != n)
        return fg_fail(err, FG_EINPUT, "session", NULL, "rows with logits", "all or none",
                       "%" PRId64 " of %" PRId64, feed->n_out, n);
    int rc = check_ids(first, feed->ids, n, err);
    return rc ? rc : check_outputs(first, feed, n, err);
}

// Room for the rows in every session, and for the largest in the first one's buffers; or nothing
// is changed.
static int fit_batch(struct fg_session *const *sessions, const int64_t *n_rows, int n_sessions,
                     struct fg_error *err)
{
    int before[FG_CALL_SPANS_MAX], done = 0, rc = 0;
    int64_t capacity = 0;
    while (done < n_sessions && rc == 0) {
        struct fg_session *s = sessions[done];
        before[done] = s->entry;
        rc = fg_session_fit(s, s->state.pos + n_rows[done], err);
        if (rc) break;
        if (s->state.capacity > capacity) capacity = s->state.capacity;
        done++;
    }
    if (rc == 0 && capacity > sessions[0]->state.capacity)
        rc = fg_workspace_fit(sessions[0]->ws, sessions[0]->model, capacity, err);
    for (int i = 0; i < done && rc; i++) // down or nowhere: can't fail
        (void)fg_session_move(sessions[i], before[i], sessions[i]->hi, NULL);
    return rc;
}

int fg_session_verify_batch(struct fg_session *const *sessions, const int64_t *n_rows,
                            int n_sessions, const struct fg_feed *feed, struct fg_error *err)
{
    struct fg_span spans[FG_CALL_SPANS_MAX];
    if (n_sessions < 1 || n_sessions > FG_CALL_SPANS_MAX)
        return fg_fail_range(err, "session", NULL, "number of sessions", 1, FG_CALL_SPANS_MAX,
                             n_sessions);
    int rc = check_batch(sessions, n_rows, n_sessions, feed, err);
    if (rc == 0) rc = fit_batch(sessions, n_rows, n_sessions, err);
    if (rc) return rc;

    struct fg_session *first = sessions[0];
    struct fg_call call = {.ids = feed->ids,
                           .spans = spans,
                           .n_spans = n_sessions,
                           .T = feed->n,
                           .verify = true,
                           .n_out = feed->best || feed->logits ? feed->n_out : 0,
                           .logits = feed->logits,
                           .cancel = feed->cancel,
                           .cancel_ctx = feed->ctx};
    struct fg_best part = {0};
    if (call.n_out && feed->best) {
        part = best_from(first, feed->best, 0);
        call.best = &part;
    }
    if (feed->taps && first->n_taps) {
        call.tap_layers = first->taps;
        call.n_taps = first->n_taps;
        call.taps = feed->taps;
    }
    int64_t at = 0;
    for (int i = 0; i < n_sessions; i++) {
        spans[i] = (struct fg_span){.state = &sessions[i]->state, .T = n_rows[i]};
        begin_rows(sessions[i], feed->ids + at, n_rows[i]);
        at += n_rows[i];
    }
    rc = fg_forward(first->model, first->ws, &call, err);
    if (rc == FG_EINTERRUPTED) return stopped(0, feed->n, err);
    if (rc == 0 && feed->best) feed->best->nan = call.best && part.nan;
    return rc;
}

int fg_session_verify(struct fg_session *s, const struct fg_feed *feed, struct fg_error *err)
{
    return fg_session_verify_batch(&s, &feed->n, 1, feed, err);
}

int fg_session_accept(struct fg_session *s, int64_t k, struct fg_error *err)
{
    if (k < 0 || k > s->state.n_tried)
        return fg_fail_range(err, "session", NULL, "rows to accept", 0, s->state.n_tried, k);
    if (s->state.n_tried) fg_accept(&s->state, k); // else those that are pending stay
    return 0;
}

void fg_session_flush(struct fg_session *s)
{
    fg_flush(s->model, s->ws, &s->state);
}

bool fg_session_rewind(struct fg_session *s, int64_t pos)
{
    struct fg_state *st = &s->state;
    if (pos < 0 || pos > st->pos) return false;
    if (pos == 0) {
        fg_session_reset(s);
        return true;
    }
    const int64_t undo = st->pos - pos;
    if (s->model->config.n_linear > 0 && undo > st->n_pending) return false;
    drop_tried(s);
    st->n_pending = undo < st->n_pending ? st->n_pending - undo : 0;
    st->pos = pos;
    return true;
}
