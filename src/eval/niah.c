// eval/niah.c: one case after the other through one session.
#include "eval/niah.h"
#include "base/progress.h"
#include "eval/niah_prompt.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_TOKENS 16 // of a code and what parts it from the next, at most
#define SCORE_ROWS 16    // whose logits are in memory at once

struct run {
    const struct fg_niah *job;
    struct forge_session *session;
    struct fg_niah_hay hay; // of the job's text; else empty
    float *logits;          // [SCORE_ROWS][vocab]
    int64_t vocab;
    int64_t before, total; // tokens of the cases that are done, of all
    int64_t case_tokens;   // of the case at work
    bool stopped;
    struct fg_buf reply;
};

// ---- prompts

static int codes_of(const struct fg_niah *job)
{
    return job->multi ? job->multi : 1;
}

static int depths_of(const struct fg_niah *job)
{
    return job->multi ? 1 : job->n_depths;
}

int fg_niah_cases(const struct fg_niah *job)
{
    return job->n_lengths * depths_of(job) * job->trials;
}

static int64_t longest(const struct fg_niah *job)
{
    int64_t n = 0;
    for (int i = 0; i < job->n_lengths; i++)
        n = job->lengths[i] > n ? job->lengths[i] : n;
    return n;
}

// Tokens that a prompt leaves free: for the reply, and for the answer that is tried.
static int64_t room(const struct fg_niah *job)
{
    int64_t answer = (int64_t)ANSWER_TOKENS * codes_of(job);
    return job->reply_max > answer ? job->reply_max : answer;
}

static struct fg_niah_ask ask_of(const struct fg_niah *job, uint64_t seed, int depth)
{
    struct fg_niah_ask ask = {.engine = job->side.engine, .raw = job->raw};
    int n = codes_of(job);
    fg_needles_make(&ask.facts, seed, n);
    for (int i = 0; i < n; i++)
        ask.share[i] = job->multi ? (2 * i + 1) / (2.0 * n) : depth / 100.0;
    return ask;
}

// What can be known before hours of work: every length has room for its question, and the text is
// long enough for every one of them.
static int check_prompts(const struct fg_niah *job, const struct fg_niah_hay *hay,
                         struct fg_error *err)
{
    const struct fg_niah_hay none = {.text = ""};
    for (int t = 0; t < job->trials; t++) {
        struct fg_niah_ask ask = ask_of(job, job->seed + (uint64_t)t, 0);
        struct fg_niah_prompt bare;
        int rc = fg_niah_prompt_fit(&bare, &ask, &none, INT32_MAX, err);
        if (rc) return rc;
        int64_t needed = bare.n + room(job), text = longest(job) - needed;
        fg_niah_prompt_free(&bare);
        char expected[96];
        for (int i = 0; i < job->n_lengths; i++) {
            if (job->lengths[i] >= needed) continue;
            snprintf(expected, sizeof expected, "at least %lld tokens", (long long)needed);
            return fg_fail(err, FG_EINPUT, "needle", NULL, "length", expected, "%lld",
                           (long long)job->lengths[i]);
        }
        if (job->text_name && hay->n < text) {
            snprintf(expected, sizeof expected, "at least %lld tokens for length %lld",
                     (long long)text, (long long)longest(job));
            return fg_fail(err, FG_EINPUT, "needle", job->text_name, "text", expected, "%lld",
                           (long long)hay->n);
        }
    }
    return 0;
}

static int make_prompt(const struct run *r, struct fg_niah_case *c, struct fg_niah_prompt *p,
                       struct fg_niah_ask *ask, struct fg_error *err)
{
    const struct fg_niah *job = r->job;
    struct fg_niah_hay sentences = {0};
    *ask = ask_of(job, c->seed, c->depth);
    int rc = job->text_name
                 ? 0
                 : fg_niah_hay_sentences(&sentences, job->side.engine, c->seed, c->length, err);
    if (rc == 0)
        rc = fg_niah_prompt_fit(p, ask, job->text_name ? &r->hay : &sentences,
                                c->length - room(job), err);
    fg_niah_hay_free(&sentences);
    if (rc) return rc;
    c->prompt_tokens = p->n;
    c->hay_tokens = p->hay_tokens;
    for (int i = 0; i < c->n_facts; i++)
        c->facts[i] = (struct fg_niah_fact){
            .needle = ask->facts.asked[i], .hay_at = p->hay_at[i], .at = p->at[i]};
    if (fg_sha256_hex(p->ids, (uint64_t)p->n * sizeof *p->ids, c->prompt_hex)) return 0;
    fg_niah_prompt_free(p);
    return fg_fail_memory(err, "digest", (uint64_t)p->n);
}

// ---- cases

static int on_prompt(void *ctx, int64_t done, int64_t total)
{
    struct run *r = ctx;
    (void)total;
    if (r->job->progress && r->job->progress(r->job->ctx, r->before + done, r->total) != 0)
        r->stopped = true;
    return r->stopped;
}

static int on_token(void *ctx, int32_t id, const char *text, size_t n, const float *logits)
{
    struct run *r = ctx;
    (void)id;
    (void)logits;
    fg_buf_add(&r->reply, text, n);
    return on_prompt(r, r->case_tokens, r->case_tokens);
}

// The prompt's last token and all of the answer but its last, whose logits say what the answer's
// tokens are worth.
static int run_answer(struct run *r, struct fg_niah_case *c, int32_t last, const int32_t *answer,
                      int64_t n, struct fg_error *err)
{
    int rc = 0;
    for (int64_t at = 0; at < n && rc == 0; at += SCORE_ROWS) {
        int32_t ids[SCORE_ROWS];
        int64_t rows = n - at < SCORE_ROWS ? n - at : SCORE_ROWS;
        for (int64_t i = 0; i < rows; i++)
            ids[i] = at + i == 0 ? last : answer[at + i - 1];
        rc = forge_session_run(r->session, ids, rows, r->logits, rows, NULL, NULL, err);
        for (int64_t i = 0; i < rows && rc == 0; i++)
            c->logprob -= fg_eval_nll(r->logits + i * r->vocab, r->vocab, answer[at + i]);
    }
    return rc;
}

// The right answer's probability; the session is then where it was.
static int score_answer(struct run *r, struct fg_niah_case *c, const struct fg_niah_prompt *p,
                        struct fg_error *err)
{
    struct fg_buf text = {0};
    for (int i = 0; i < c->n_facts; i++)
        fg_buf_printf(&text, "%s%s", i ? ", " : r->job->raw ? " " : "", c->facts[i].needle.code);
    int32_t *answer = NULL;
    size_t n = 0;
    int rc = text.failed ? fg_fail_memory(err, "answer", text.len)
                         : forge_tokenize(r->job->side.engine, text.data, text.len, false, &answer,
                                          &n, err);
    fg_buf_free(&text);
    if (rc) return rc;
    struct forge_snapshot *here = NULL;
    int64_t most = (int64_t)ANSWER_TOKENS * c->n_facts;
    c->answer_tokens = (int)n;
    if (n == 0 || (int64_t)n > most)
        rc = fg_fail_range(err, "needle", NULL, "tokens of an answer", 1, most, (int64_t)n);
    if (rc == 0) rc = forge_snapshot_take(&here, r->session, FORGE_SNAPSHOT_LIVE, err);
    if (rc == 0) rc = run_answer(r, c, p->ids[p->n - 1], answer, (int64_t)n, err);
    if (rc == 0) rc = forge_snapshot_restore(r->session, here, 0, err);
    forge_snapshot_free(here);
    free(answer);
    return rc;
}

static int score_reply(struct run *r, struct fg_niah_case *c, const struct fg_needles *facts,
                       struct fg_error *err)
{
    fg_buf_add(&r->reply, "", 0); // not NULL
    c->reply = r->reply.failed ? NULL : strdup(r->reply.data);
    if (!c->reply) return fg_fail_memory(err, "reply", r->reply.len);
    struct fg_needle_score score = fg_needle_score(facts, c->reply);
    for (int i = 0; i < c->n_facts; i++)
        c->facts[i].found = score.found[i];
    c->n_found = score.n_found;
    c->exact = score.exact;
    c->value = score.value;
    c->format = score.format;
    return 0;
}

static int run_prompt(struct run *r, struct fg_niah_case *c, const struct fg_niah_prompt *p,
                      const struct fg_needles *facts, struct fg_error *err)
{
    // A sentence that the model continues ends where the next one would begin.
    static const char *const ends[] = {".", "\n"};
    double start = fg_clock();
    forge_session_reset(r->session);
    int rc =
        p->n == 1 ? 0 : forge_session_run(r->session, p->ids, p->n - 1, NULL, 0, on_prompt, r, err);
    if (rc == 0) rc = score_answer(r, c, p, err);
    c->prompt_seconds = fg_clock() - start;
    if (rc) return rc;
    const struct forge_generate_options o = {.max_tokens = r->job->reply_max,
                                             .stop = ends,
                                             .n_stop = r->job->raw ? 2 : 0,
                                             .on_token = on_token,
                                             .ctx = r};
    struct forge_generate_result result;
    fg_buf_clear(&r->reply);
    r->case_tokens = p->n;
    rc = forge_generate(r->session, p->ids, p->n, &o, &result, err);
    c->reply_seconds = result.generate_seconds;
    return rc ? rc : score_reply(r, c, facts, err);
}

static int run_case(struct run *r, struct fg_niah_case *c, struct fg_error *err)
{
    struct fg_niah_ask ask;
    struct fg_niah_prompt p;
    c->n_facts = codes_of(r->job);
    c->facts = calloc((size_t)c->n_facts, sizeof *c->facts);
    if (!c->facts) return fg_fail_memory(err, "facts", (uint64_t)c->n_facts * sizeof *c->facts);
    int rc = make_prompt(r, c, &p, &ask, err);
    if (rc) return rc;
    rc = run_prompt(r, c, &p, &ask.facts, err);
    fg_niah_prompt_free(&p);
    r->before += c->length;
    return rc;
}

static int open_session(struct run *r, struct fg_error *err)
{
    const struct fg_niah *job = r->job;
    struct forge_session_options o = job->side.session;
    struct forge_engine_info info;
    forge_engine_info(job->side.engine, &info);
    r->vocab = info.vocab;
    int64_t holds = o.capacity ? o.capacity : info.entries[info.n_entries - 1];
    if (longest(job) > holds) {
        char expected[48];
        snprintf(expected, sizeof expected, "at most %lld, the context", (long long)holds);
        return fg_fail(err, FG_EINPUT, "needle", NULL, "length", expected, "%lld",
                       (long long)longest(job));
    }
    if (o.capacity == 0) o.capacity = forge_context_for(job->side.engine, longest(job));
    r->logits = calloc((size_t)r->vocab * SCORE_ROWS, sizeof *r->logits);
    if (!r->logits) return fg_fail_memory(err, "logits", (uint64_t)r->vocab * SCORE_ROWS * 4);
    return forge_session_new(&r->session, job->side.engine, &o, err);
}

static int run_cases(struct run *r, struct fg_niah_result *result, int n, struct fg_error *err)
{
    const struct fg_niah *job = r->job;
    int depths = depths_of(job), rc = 0;
    for (int i = 0; i < job->n_lengths; i++)
        r->total += job->lengths[i] * depths * job->trials;
    for (int i = 0; i < n && rc == 0 && !r->stopped; i++) {
        struct fg_niah_case *c = &result->cases[i];
        c->length = job->lengths[i / (depths * job->trials)];
        c->depth = job->multi ? -1 : job->depths[i / job->trials % depths];
        c->seed = job->seed + (uint64_t)(i % job->trials);
        rc = run_case(r, c, err);
        if (rc == 0 && !r->stopped) {
            result->n_cases++;
        } else { // what the result does not count, it does not own
            free(c->facts);
            free(c->reply);
        }
    }
    result->stopped = r->stopped;
    return rc == FG_EINTERRUPTED && r->stopped ? 0 : rc;
}

int fg_niah_run(const struct fg_niah *job, struct fg_niah_result *result, struct fg_error *err)
{
    struct run r = {.job = job};
    int n = fg_niah_cases(job);
    *result = (struct fg_niah_result){.cases = calloc((size_t)n, sizeof *result->cases)};
    if (!result->cases) return fg_fail_memory(err, "cases", (uint64_t)n * sizeof *result->cases);
    int rc = job->text_name
                 ? fg_niah_hay_take(&r.hay, job->side.engine, job->text, job->n_text, err)
                 : 0;
    if (rc == 0) rc = check_prompts(job, &r.hay, err);
    if (rc == 0) rc = open_session(&r, err);
    if (rc == 0) rc = run_cases(&r, result, n, err);
    forge_session_free(r.session);
    fg_niah_hay_free(&r.hay);
    fg_buf_free(&r.reply);
    free(r.logits);
    return rc;
}

void fg_niah_free(struct fg_niah_result *result)
{
    for (int i = 0; i < result->n_cases; i++) {
        free(result->cases[i].facts);
        free(result->cases[i].reply);
    }
    free(result->cases);
    *result = (struct fg_niah_result){0};
}

struct fg_niah_cell fg_niah_cell(const struct fg_niah_result *r, int64_t length, int depth)
{
    struct fg_niah_cell cell = {0};
    for (int i = 0; i < r->n_cases; i++) {
        const struct fg_niah_case *c = &r->cases[i];
        if (c->length != length || c->depth != depth) continue;
        cell.cases++;
        cell.exact += c->exact;
        cell.value += c->value;
        cell.format += c->format;
        cell.found += c->n_found;
        cell.codes += c->n_facts;
        cell.logprob += c->logprob;
    }
    if (cell.cases) cell.logprob /= cell.cases;
    return cell;
}
