// eval/niah.c: prompts cut to their length, one case after the other through one session.
#include "eval/niah.h"
#include "base/jwrite.h"
#include "base/progress.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MAX 16      // tokens: what a session can try at once
#define SENTENCE_TOKENS 20 // the first guess

// ---- prompts

struct prompt {
    int32_t *ids; // [n]
    size_t n;
    size_t needle_at; // tokens
};

static void prompt_free(struct prompt *p)
{
    free(p->ids);
    *p = (struct prompt){0};
}

// As the template has it, or as it is. *text is the caller's.
static int render(const struct fg_niah *job, const struct fg_buf *body, char **text, size_t *n,
                  struct fg_error *err)
{
    struct fg_jwrite w = {0};
    fg_jwrite_array(&w, NULL);
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "role", "user");
    fg_jwrite_text(&w, "content", body->data, body->len);
    fg_jwrite_end_object(&w);
    fg_jwrite_end_array(&w);
    int rc = w.buf.failed ? fg_fail_memory(err, "prompt", body->len)
                          : forge_render_chat(job->side.engine, w.buf.data, w.buf.len,
                                              "{\"enable_thinking\": false}", text, n, err);
    fg_jwrite_free(&w);
    return rc;
}

static int encode(struct prompt *p, const struct fg_niah *job, const struct fg_haystack *h,
                  const struct fg_buf *body, size_t needle_at, struct fg_error *err)
{
    if (body->failed) return fg_fail_memory(err, "prompt", body->len);
    char *rendered = NULL;
    const char *text = body->data;
    size_t n = body->len, n_before;
    int32_t *before;
    int rc = 0;
    if (!job->raw) {
        rc = render(job, body, &rendered, &n, err);
        if (rc) return rc;
        text = rendered;
        // The template puts its own text before ours.
        char start[FG_NEEDLE_KEY + 32];
        snprintf(start, sizeof start, "The access code of the %s is ", h->needle.key);
        const char *found = strstr(rendered, start);
        needle_at = found ? (size_t)(found - rendered) : 0;
    }
    rc = forge_tokenize(job->side.engine, text, n, true, &p->ids, &p->n, err);
    if (rc == 0)
        rc = forge_tokenize(job->side.engine, text, needle_at, true, &before, &n_before, err);
    if (rc == 0) {
        p->needle_at = n_before;
        free(before);
    }
    free(rendered);
    if (rc) prompt_free(p);
    return rc;
}

static int prompt_of(struct prompt *p, const struct fg_niah *job, const struct fg_haystack *h,
                     int64_t sentences, int depth, struct fg_error *err)
{
    struct fg_buf body = {0};
    size_t at = 0;
    fg_haystack_text(&body, h, sentences, (sentences * depth + 50) / 100, job->raw, &at);
    int rc = encode(p, job, h, &body, at, err);
    fg_buf_free(&body);
    return rc;
}

// Tokens that a prompt leaves free: for the reply, and for the answer that is tried.
static int64_t room(const struct fg_niah *job)
{
    return job->reply_max > ANSWER_MAX ? job->reply_max : ANSWER_MAX;
}

// The prompt with the most sentences that leaves room in `length`.
static int prompt_fit(struct prompt *p, const struct fg_niah *job, const struct fg_haystack *h,
                      int64_t length, int depth, struct fg_error *err)
{
    int64_t tokens = length - room(job), fits = 0, too_many = tokens;
    int rc = prompt_of(p, job, h, 0, depth, err);
    if (rc) return rc;
    if ((int64_t)p->n > tokens) {
        char expected[48];
        snprintf(expected, sizeof expected, "at least %lld tokens",
                 (long long)p->n + (long long)room(job));
        prompt_free(p);
        return fg_fail(err, FG_EINPUT, "needle", NULL, "length", expected, "%lld",
                       (long long)length);
    }
    double per_sentence = SENTENCE_TOKENS, base = (double)p->n;
    while (too_many - fits > 1) {
        int64_t next = fits + (int64_t)((double)(tokens - (int64_t)p->n) / per_sentence);
        if (next <= fits) next = fits + 1;
        if (next >= too_many) next = too_many - 1;
        struct prompt q = {0};
        rc = prompt_of(&q, job, h, next, depth, err);
        if (rc) break;
        double measured = ((double)q.n - base) / (double)next;
        if (measured > 1) per_sentence = measured;
        if ((int64_t)q.n <= tokens) {
            prompt_free(p);
            *p = q;
            fits = next;
        } else {
            prompt_free(&q);
            too_many = next;
        }
    }
    if (rc) prompt_free(p);
    return rc;
}

// ---- cases

struct run {
    const struct fg_niah *job;
    struct forge_session *session;
    float *logits; // [ANSWER_MAX][vocab]
    int64_t vocab;
    int64_t before, total; // tokens of the cases that are done, of all
    int64_t case_tokens;   // of the case at work
    bool stopped;
    struct fg_niah_case *at_work;
    size_t reply_len;
};

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
    size_t left = FG_NIAH_REPLY - 1 - r->reply_len;
    if (n > left) n = left;
    if (n) memcpy(r->at_work->reply + r->reply_len, text, n);
    r->reply_len += n;
    return on_prompt(r, r->case_tokens, r->case_tokens);
}

// The right answer's probability: all of it is tried at once after the prompt, and dropped.
static int score_answer(struct run *r, struct fg_niah_case *c, const struct prompt *p,
                        struct fg_error *err)
{
    char text[FG_NEEDLE_CODE + 1];
    int32_t *answer, tried[ANSWER_MAX];
    size_t n;
    snprintf(text, sizeof text, "%s%s", r->job->raw ? " " : "", c->needle.code);
    int rc = forge_tokenize(r->job->side.engine, text, strlen(text), false, &answer, &n, err);
    if (rc) return rc;
    if (n == 0 || n > ANSWER_MAX) {
        free(answer);
        return fg_fail_range(err, "needle", NULL, "tokens of a code", 1, ANSWER_MAX, (int64_t)n);
    }
    tried[0] = p->ids[p->n - 1];
    for (size_t i = 1; i < n; i++)
        tried[i] = answer[i - 1];
    const struct forge_feed feed = {
        .ids = tried, .n = (int64_t)n, .logits = r->logits, .n_out = (int64_t)n};
    rc = forge_session_verify(r->session, &feed, err);
    c->answer_tokens = (int)n;
    for (size_t i = 0; i < n && rc == 0; i++)
        c->logprob -= fg_eval_nll(r->logits + (int64_t)i * r->vocab, r->vocab, answer[i]);
    free(answer);
    return rc ? rc : forge_session_accept(r->session, 0, err);
}

static void score_reply(struct fg_niah_case *c)
{
    const char *text = c->reply;
    while (isspace((unsigned char)*text))
        text++;
    size_t n = strlen(text);
    while (n && isspace((unsigned char)text[n - 1]))
        n--;
    size_t digits = strspn(text, "0123456789");
    c->exact = n == strlen(c->needle.code) && memcmp(text, c->needle.code, n) == 0;
    c->value = strstr(text, c->needle.code) != NULL;
    c->format = n == FG_NEEDLE_CODE - 1 && digits >= n;
}

static int run_prompt(struct run *r, struct fg_niah_case *c, const struct prompt *p,
                      struct fg_error *err)
{
    // A sentence that the model continues ends where the next one would begin.
    static const char *const ends[] = {".", "\n"};
    double start = fg_clock();
    forge_session_reset(r->session);
    int rc = p->n == 1 ? 0
                       : forge_session_run(r->session, p->ids, (int64_t)p->n - 1, NULL, 0,
                                           on_prompt, r, err);
    if (rc == 0) rc = score_answer(r, c, p, err);
    c->prompt_seconds = fg_clock() - start;
    if (rc) return rc;
    const struct forge_generate_options o = {.max_tokens = r->job->reply_max,
                                             .stop = ends,
                                             .n_stop = r->job->raw ? 2 : 0,
                                             .on_token = on_token,
                                             .ctx = r};
    struct forge_generate_result result;
    r->at_work = c;
    r->reply_len = 0;
    r->case_tokens = (int64_t)p->n;
    rc = forge_generate(r->session, p->ids, (int64_t)p->n, &o, &result, err);
    c->reply_seconds = result.generate_seconds;
    c->reply[r->reply_len] = '\0';
    if (rc == 0) score_reply(c);
    return rc;
}

static int run_case(struct run *r, struct fg_niah_case *c, struct fg_error *err)
{
    struct fg_haystack h;
    struct prompt p = {0};
    fg_haystack_make(&h, c->seed);
    c->needle = h.needle;
    int rc = prompt_fit(&p, r->job, &h, c->length, c->depth, err);
    if (rc) return rc;
    c->prompt_tokens = (int64_t)p.n;
    c->needle_at = (int64_t)p.needle_at;
    rc = run_prompt(r, c, &p, err);
    prompt_free(&p);
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
    int64_t longest = 0;
    for (int i = 0; i < job->n_lengths; i++)
        longest = job->lengths[i] > longest ? job->lengths[i] : longest;
    int64_t holds = o.capacity ? o.capacity : info.entries[info.n_entries - 1];
    if (longest > holds) {
        char expected[48];
        snprintf(expected, sizeof expected, "at most %lld, the context", (long long)holds);
        return fg_fail(err, FG_EINPUT, "needle", NULL, "length", expected, "%lld",
                       (long long)longest);
    }
    if (o.capacity == 0) o.capacity = forge_context_for(job->side.engine, longest);
    o.verify_rows = ANSWER_MAX;
    r->logits = calloc((size_t)r->vocab * ANSWER_MAX, sizeof *r->logits);
    if (!r->logits) return fg_fail_memory(err, "logits", (uint64_t)r->vocab * ANSWER_MAX * 4);
    return forge_session_new(&r->session, job->side.engine, &o, err);
}

int fg_niah_run(const struct fg_niah *job, struct fg_niah_result *result, struct fg_error *err)
{
    struct run r = {.job = job};
    int n = job->n_lengths * job->n_depths * job->trials;
    *result = (struct fg_niah_result){.cases = calloc((size_t)n, sizeof *result->cases)};
    if (!result->cases) return fg_fail_memory(err, "cases", (uint64_t)n * sizeof *result->cases);
    int rc = open_session(&r, err);
    for (int i = 0; i < job->n_lengths; i++)
        r.total += job->lengths[i] * job->n_depths * job->trials;
    for (int i = 0; i < n && rc == 0 && !r.stopped; i++) {
        struct fg_niah_case *c = &result->cases[i];
        c->length = job->lengths[i / (job->n_depths * job->trials)];
        c->depth = job->depths[i / job->trials % job->n_depths];
        c->seed = job->seed + (uint64_t)(i % job->trials);
        rc = run_case(&r, c, err);
        if (rc == 0 && !r.stopped) result->n_cases++;
    }
    result->stopped = r.stopped;
    if (rc == FG_EINTERRUPTED && r.stopped) rc = 0;
    forge_session_free(r.session);
    free(r.logits);
    return rc;
}

void fg_niah_free(struct fg_niah_result *result)
{
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
        cell.logprob += c->logprob;
    }
    if (cell.cases) cell.logprob /= cell.cases;
    return cell;
}
