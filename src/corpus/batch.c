// corpus/batch.c: slots with a session each; one row of every slot per pass.
#include "corpus/batch.h"
#include "base/size.h"
#include "spec/sampler.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "generate"
// Replies that may wait for an older one: they are lost when the run is killed.
#define WAITING_PER_SLOT 4

struct slot {
    struct forge_session *session;
    struct fg_sampler *sampler;
    size_t prompt;
    bool busy;
    int32_t drawn; // not run yet
};

// A reply from its start until it is taken.
struct reply {
    struct fg_ids ids;
    bool done;
    enum forge_finish finish;
};

struct run {
    const struct fg_batch_job *job;
    struct fg_error *err;
    int64_t vocab;
    struct slot slots[FG_BATCH_MAX];
    struct reply *replies; // [job->n]
    size_t next;           // the first prompt that has not been started
    size_t taken;          // prompts that are done with
    float *logits;         // [at_once][vocab]
};

// ---- one token

static bool is_stop(const struct run *r, int32_t id)
{
    const int32_t *ids;
    size_t n = forge_stop_ids(r->job->engine, &ids);
    for (size_t i = 0; i < n; i++) {
        if (ids[i] == id) return true;
    }
    return false;
}

static void end(struct run *r, struct slot *s, enum forge_finish finish)
{
    r->replies[s->prompt].done = true;
    r->replies[s->prompt].finish = finish;
    s->busy = false;
    fg_sampler_free(s->sampler);
    s->sampler = NULL;
}

// Draws the token that follows what the slot's session holds.
static int draw(struct run *r, struct slot *s, const float *logits)
{
    struct fg_ids *ids = &r->replies[s->prompt].ids;
    int64_t pos = forge_session_position(s->session);
    s->drawn = fg_sampler_draw(s->sampler, logits, pos);
    if (!isfinite(logits[s->drawn]))
        return fg_fail(r->err, FG_EFAILED, WHAT, NULL, "logits", "finite numbers",
                       "none at position %" PRId64, pos);
    fg_sampler_accept(s->sampler, s->drawn);
    if (!fg_ids_add(ids, &s->drawn, 1)) return fg_fail_memory(r->err, WHAT, ids->n);
    int64_t made = (int64_t)(ids->n - r->job->prompts[s->prompt].n);
    if (is_stop(r, s->drawn))
        end(r, s, FORGE_FINISH_STOP);
    else if (made >= r->job->max_new)
        end(r, s, FORGE_FINISH_LENGTH);
    else if (pos + 1 > forge_session_capacity(s->session))
        end(r, s, FORGE_FINISH_CONTEXT);
    return 0;
}

// ---- prompts

static int tell(struct run *r)
{
    size_t oldest = r->taken;
    while (oldest < r->next && r->replies[oldest].done)
        oldest++;
    if (!r->job->progress || oldest == r->next) return 0;
    int64_t n = (int64_t)r->replies[oldest].ids.n, prompt = (int64_t)r->job->prompts[oldest].n;
    return r->job->progress(r->job->ctx, oldest, n > prompt ? n - prompt : 0);
}

static int on_prompt(void *ctx, int64_t done, int64_t total)
{
    (void)done;
    (void)total;
    return tell(ctx);
}

// Runs the next prompt in a free slot; what its session holds of it already is kept.
static int start(struct run *r, struct slot *s)
{
    const struct fg_batch_job *job = r->job;
    const struct fg_ids *p = &job->prompts[r->next];
    struct forge_sampling sampling = job->sampling;
    const int64_t n = (int64_t)p->n;
    s->prompt = r->next;
    sampling.seed = job->seeds[s->prompt];
    if (!fg_ids_add(&r->replies[s->prompt].ids, p->data, p->n))
        return fg_fail_memory(r->err, WHAT, p->n);
    int rc = fg_sampler_new(&s->sampler, &sampling, r->vocab, r->err);
    if (rc) return rc;
    r->next++;
    s->busy = true;
    int64_t common = forge_session_common_prefix(s->session, p->data, n);
    if (common == n) common = n - 1; // the last one's logits are needed
    if (!forge_session_rewind(s->session, common)) {
        forge_session_rewind(s->session, 0);
        common = 0;
    }
    const struct forge_feed feed = {.ids = p->data + common,
                                    .n = n - common,
                                    .logits = r->logits,
                                    .n_out = 1,
                                    .progress = on_prompt,
                                    .ctx = r};
    rc = forge_session_feed(s->session, &feed, r->err);
    if (rc) return rc;
    fg_sampler_prompt(s->sampler, p->data, n);
    return draw(r, s, r->logits);
}

static int fill(struct run *r)
{
    const struct fg_batch_job *job = r->job;
    const size_t ahead = (size_t)job->at_once * (1 + WAITING_PER_SLOT);
    int rc = 0;
    for (int i = 0; i < job->at_once && !rc; i++) {
        while (r->slots[i].session && !r->slots[i].busy && r->next < job->n &&
               r->next - r->taken < ahead && !rc)
            rc = start(r, &r->slots[i]);
    }
    return rc;
}

// ---- passes

// One row of every busy slot. *any tells whether there was one.
static int pass(struct run *r, bool *any)
{
    struct forge_session *sessions[FG_BATCH_MAX];
    struct slot *busy[FG_BATCH_MAX];
    int64_t rows[FG_BATCH_MAX];
    int32_t ids[FG_BATCH_MAX];
    int n = 0;
    for (int i = 0; i < r->job->at_once; i++) {
        if (!r->slots[i].busy) continue;
        busy[n] = &r->slots[i];
        sessions[n] = busy[n]->session;
        ids[n] = busy[n]->drawn;
        rows[n++] = 1;
    }
    *any = n > 0;
    if (n == 0) return 0;
    const struct forge_feed feed = {.ids = ids, .n = n, .logits = r->logits, .n_out = n};
    int rc = forge_session_verify_batch(sessions, rows, n, &feed, r->err);
    for (int i = 0; i < n && !rc; i++)
        rc = forge_session_accept(sessions[i], 1, r->err);
    for (int i = 0; i < n && !rc; i++)
        rc = draw(r, busy[i], r->logits + i * r->vocab);
    return rc;
}

static int take(struct run *r)
{
    int rc = 0;
    while (r->taken < r->next && r->replies[r->taken].done && !rc) {
        struct reply *reply = &r->replies[r->taken];
        rc = r->job->take(r->job->ctx, r->taken, &reply->ids, reply->finish, r->err);
        fg_ids_free(&reply->ids);
        r->taken++;
    }
    return rc;
}

static int loop(struct run *r)
{
    bool any = true;
    int rc = 0;
    while (any && !rc) {
        rc = fill(r);
        if (!rc) rc = take(r);
        if (!rc && tell(r) != 0)
            rc = fg_fail(r->err, FG_EINTERRUPTED, WHAT, NULL, NULL, NULL, "stopped");
        if (!rc) rc = pass(r, &any);
        if (!rc) rc = take(r);
        any = any || r->taken < r->job->n;
    }
    return rc;
}

int fg_batch_run(const struct fg_batch_job *job, struct fg_error *err)
{
    struct run r = {.job = job, .err = err};
    struct forge_engine_info info;
    struct forge_session_options session = job->session;
    uint64_t bytes;
    int rc = 0;
    forge_engine_info(job->engine, &info);
    r.vocab = info.vocab;
    session.verify_rows = 1;
    if (!fg_mul(&bytes, (uint64_t)info.vocab * (uint64_t)job->at_once, sizeof *r.logits))
        return fg_fail_memory(err, WHAT, UINT64_MAX);
    r.logits = malloc(bytes);
    r.replies = calloc(job->n ? job->n : 1, sizeof *r.replies);
    if (!r.logits || !r.replies) rc = fg_fail_memory(err, WHAT, bytes);
    for (int i = 0; i < job->at_once && (size_t)i < job->n && !rc; i++)
        rc = forge_session_new(&r.slots[i].session, job->engine, &session, err);
    if (!rc && job->n > 0) rc = loop(&r);
    for (int i = 0; i < job->at_once; i++) {
        fg_sampler_free(r.slots[i].sampler);
        forge_session_free(r.slots[i].session);
    }
    for (size_t i = 0; r.replies && i < job->n; i++)
        fg_ids_free(&r.replies[i].ids);
    free(r.replies);
    free(r.logits);
    return rc;
}
