// api/generate.c: prompt, draw, decode, stop. The loop that every caller shares.
#include "api/engine.h"
#include "base/buf.h"
#include "base/progress.h"
#include "kernels/parallel.h"
#include "spec/random.h"
#include "spec/sampler.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *forge_finish_name(enum forge_finish f)
{
    static const char *const names[] = {"stop", "length", "context", "cancelled"};
    return names[f];
}

// Text that has been decoded but may still turn into a stop string is held back.
struct stream {
    struct fg_tok_stream decode;
    struct fg_buf held;
    const char *const *stop;
    size_t n_stop;
    bool stopped;
};

// Looks for a stop string in what is held; returns how many bytes may be given out now.
static size_t settle(struct stream *s)
{
    size_t first = s->held.len, keep = 0;
    for (size_t i = 0; i < s->n_stop; i++) {
        size_t m = strlen(s->stop[i]);
        if (m == 0) continue;
        for (size_t at = 0; at < s->held.len; at++) {
            size_t n = s->held.len - at < m ? s->held.len - at : m;
            if (memcmp(s->held.data + at, s->stop[i], n) != 0) continue;
            if (n == m) {
                s->stopped = true;
                if (at < first) first = at;
            } else if (s->held.len - at > keep) {
                keep = s->held.len - at;
            }
            break; // the earliest match of this string decides
        }
    }
    return s->stopped ? first : s->held.len - keep;
}

static void drop_front(struct fg_buf *b, size_t n)
{
    if (n == 0) return; // an empty buffer has no memory
    memmove(b->data, b->data + n, b->len - n + 1);
    b->len -= n;
}

// Pushes a token's text (or, with id -1, the end of the stream) and tells the caller.
static int deliver(struct stream *s, int32_t id, const float *logits,
                   const struct forge_generate_options *o, int *cancelled, struct fg_error *err)
{
    int rc = id < 0 ? fg_tok_stream_flush(&s->decode, &s->held, err)
                    : fg_tok_stream_push(&s->decode, id, &s->held, err);
    if (rc) return rc;
    if (s->held.failed) return fg_fail_memory(err, "text", s->held.len);
    size_t n = settle(s);
    if (id < 0 && !s->stopped) n = s->held.len; // what could have become a stop string did not
    if (id < 0 && n == 0) return 0;
    if (o->on_token && o->on_token(o->ctx, id, n ? s->held.data : "", n, logits) != 0)
        *cancelled = 1;
    drop_front(&s->held, n);
    return 0;
}

// Keeps the longest prefix of ids that the session holds, but leaves the last token to be run: its
// logits are needed.
static int64_t keep_prefix(struct forge_session *s, const int32_t *ids, int64_t n)
{
    int64_t common = forge_session_common_prefix(s, ids, n);
    if (common == n) common = n - 1;
    if (!fg_session_rewind(s->run, common)) {
        fg_session_rewind(s->run, 0);
        common = 0;
    }
    return common;
}

// The last row of a run: all its logits, or, where only the best one is asked for, that one.
struct last_row {
    float *logits; // [vocab]; NULL: best
    int32_t id;
    float logit, lse;
};

static int run(struct forge_session *s, const int32_t *ids, int64_t n, struct last_row *row,
               forge_progress_fn progress, void *ctx, struct fg_error *err)
{
    struct fg_best best = {.k = 1, .ids = &row->id, .logits = &row->logit, .lse = &row->lse};
    if (row->logits) return fg_session_run(s->run, ids, n, row->logits, 1, progress, ctx, err);
    return fg_session_run_best(s->run, ids, n, &best, 1, progress, ctx, err);
}

// Room for one more row. None, or no memory for the next step of the ladder, ends the reply.
static int make_room(struct forge_session *s, int64_t rows, struct forge_generate_result *r,
                     struct fg_error *err)
{
    struct fg_error why = {0};
    if (rows > fg_session_capacity(s->run)) {
        r->finish = FORGE_FINISH_CONTEXT;
        return 0;
    }
    int rc = fg_session_fit(s->run, rows, &why);
    if (rc == FG_ERESOURCE) {
        fg_log_warn(&s->engine->log, "%s: the reply ends here", why.found);
        r->finish = FORGE_FINISH_CONTEXT;
        return 0;
    }
    if (rc && err) *err = why;
    return rc;
}

// FG_EINPUT for a prompt that is longer than the session, with a way out where there is one.
static int fail_long(const struct forge_session *s, int64_t n, struct fg_error *err)
{
    char expected[64];
    const int64_t larger = forge_context_for(s->engine, n);
    snprintf(expected, sizeof expected, "at most %lld tokens (the context)",
             (long long)fg_session_capacity(s->run));
    int rc = fg_fail(err, FG_EINPUT, "generate", NULL, "prompt", expected, "%lld", (long long)n);
    if (larger)
        fg_error_hint(err, "--ctx %lld has room for it", (long long)larger);
    else
        fg_error_hint(err, "no context of this model has room for it");
    return rc;
}

static int decode_loop(struct forge_session *s, struct fg_sampler *sampler, struct stream *text,
                       struct last_row *row, const struct forge_generate_options *o,
                       struct forge_generate_result *r, struct fg_error *err)
{
    const struct fg_tokenizer *tok = s->engine->tok;
    const float *logits = row->logits;
    int cancelled = 0, rc;
    r->finish = FORGE_FINISH_LENGTH;
    for (;;) {
        int64_t pos = fg_session_pos(s->run);
        int32_t id = logits ? fg_sampler_draw(sampler, logits, pos) : row->id;
        // Nothing to choose from: broken weights, not a token.
        if (!isfinite(logits ? logits[id] : row->logit))
            return fg_fail(err, FG_EFAILED, "generate", NULL, "logits", "finite numbers",
                           "none at position %lld", (long long)pos);
        r->generated_tokens++;
        fg_sampler_accept(sampler, id);
        if (!o->ignore_stop_tokens && fg_tokenizer_is_stop(tok, id)) {
            r->finish = FORGE_FINISH_STOP;
            return 0;
        }
        // Padding rows of the head have no token: they decode to nothing.
        const char *bytes;
        size_t n;
        if (fg_tokenizer_token(tok, id, &bytes, &n)) {
            rc = deliver(text, id, logits, o, &cancelled, err);
            if (rc) return rc;
        } else if (o->on_token && o->on_token(o->ctx, id, "", 0, logits) != 0) {
            cancelled = 1;
        }
        if (text->stopped) r->finish = FORGE_FINISH_STOP;
        if (text->stopped) return 0;
        if (cancelled) r->finish = FORGE_FINISH_CANCELLED;
        if (cancelled || r->generated_tokens >= o->max_tokens) return 0;
        rc = make_room(s, pos + 1, r, err);
        if (rc || r->finish == FORGE_FINISH_CONTEXT) return rc;
        rc = run(s, &id, 1, row, NULL, NULL, err);
        if (rc) return rc;
    }
}

int forge_generate(struct forge_session *s, const int32_t *ids, int64_t n,
                   const struct forge_generate_options *o, struct forge_generate_result *r,
                   struct fg_error *err)
{
    const int64_t vocab = s->engine->model->config.vocab;
    struct fg_sampler *sampler = NULL;
    struct stream text = {.stop = o->stop, .n_stop = o->n_stop};
    *r = (struct forge_generate_result){.prompt_tokens = n};
    int rc = forge_need_tokenizer(s->engine, err);
    if (rc) return rc;
    if (n < 1)
        return fg_fail(err, FG_EINPUT, "generate", NULL, "prompt", "at least one token", "none");
    if (o->max_tokens < 1)
        return fg_fail(err, FG_EINPUT, "generate", NULL, "tokens", "at least 1", "%lld",
                       (long long)o->max_tokens);
    if (n > fg_session_capacity(s->run)) return fail_long(s, n, err);
    struct last_row row = {0};
    if (o->sampling.temperature > 0 || o->keep_logits) {
        row.logits = malloc((size_t)vocab * sizeof *row.logits);
        if (!row.logits) return fg_fail_memory(err, "logits", (uint64_t)vocab * sizeof *row.logits);
    }
    rc = fg_sampler_new(&sampler, &o->sampling, vocab, err);
    if (rc) goto out;
    fg_tok_stream_init(&text.decode, s->engine->tok, o->keep_special ? 0 : FG_TOK_SKIP_SPECIAL);

    double start = fg_clock();
    r->cached_tokens = keep_prefix(s, ids, n);
    rc = run(s, ids + r->cached_tokens, n - r->cached_tokens, &row, o->progress, o->ctx, err);
    r->prompt_seconds = fg_clock() - start;
    if (rc) goto out;
    fg_sampler_prompt(sampler, ids, n);

    start = fg_clock();
    rc = decode_loop(s, sampler, &text, &row, o, r, err);
    if (rc == 0 && !text.stopped) {
        int ignored = 0;
        rc = deliver(&text, -1, NULL, o, &ignored, err);
    }
    r->generate_seconds = fg_clock() - start;
out:
    fg_buf_free(&text.held);
    fg_sampler_free(sampler);
    free(row.logits);
    return rc;
}

void forge_logprobs(const float *logits, int64_t vocab, const int32_t *ids, size_t n, double *out)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < vocab; i++) {
        if ((double)logits[i] > max) max = logits[i];
    }
    for (int64_t i = 0; i < vocab; i++) {
        if (!isnan(logits[i])) sum += fg_exp_neg((double)logits[i] - max);
    }
    double ln_sum = fg_ln(sum);
    for (size_t i = 0; i < n; i++)
        out[i] = (double)logits[ids[i]] - max - ln_sum;
}

void forge_top_ids(const float *logits, int64_t vocab, int32_t k, int32_t *ids)
{
    int32_t n = 0; // insertion into a sorted list: k is small
    for (int32_t id = 0; id < vocab; id++) {
        if (isnan(logits[id])) continue;
        int32_t at = n;
        while (at > 0 && logits[id] > logits[ids[at - 1]])
            at--;
        if (at >= k) continue;
        int32_t last = n < k ? n++ : k - 1;
        memmove(ids + at + 1, ids + at, (size_t)(last - at) * sizeof *ids);
        ids[at] = id;
    }
    while (n < k)
        ids[n++] = 0;
}
