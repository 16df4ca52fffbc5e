// cli/reply.c: the callbacks around forge_generate.
#include "cli/reply.h"
#include "base/progress.h"
#include "text/think.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BAR_AFTER_SECONDS 1.0 // a prompt that takes longer gets a progress bar

struct run {
    struct fg_reply *reply;
    const struct fg_cli *cli;
    const struct fg_reply_options *o;
    int64_t vocab;
    struct fg_think think;
    size_t reasoning_shown, content_shown;
    bool out_of_memory;
    double start;
    struct fg_progress *bar;
    bool bar_done;
};

static int on_prompt(void *ctx, int64_t done, int64_t total)
{
    struct run *run = ctx;
    bool wanted = run->cli->progress == FG_PROGRESS_AUTO && !run->bar_done && isatty(STDERR_FILENO);
    if (wanted && !run->bar && fg_clock() - run->start > BAR_AFTER_SECONDS && done < total)
        run->bar =
            fg_progress_new(stderr, FG_PROGRESS_AUTO, "prompt", (uint64_t)total, FG_PROGRESS_COUNT);
    if (run->bar) fg_progress_set(run->bar, (uint64_t)done, NULL);
    return fg_signals_pending() != 0;
}

static void end_bar(struct run *run)
{
    if (run->bar) fg_progress_end(run->bar, true);
    run->bar = NULL;
    run->bar_done = true;
}

static bool keep_token(struct run *run, int32_t id, const float *logits)
{
    struct fg_reply *r = run->reply;
    if (r->n_tokens == r->cap_tokens) {
        size_t cap = r->cap_tokens ? 2 * r->cap_tokens : 256;
        struct fg_reply_token *tokens = realloc(r->tokens, cap * sizeof *tokens);
        if (!tokens) return false;
        r->tokens = tokens;
        r->cap_tokens = cap;
    }
    struct fg_reply_token *t = &r->tokens[r->n_tokens++];
    *t = (struct fg_reply_token){.id = id};
    int k = run->o->logprobs;
    if (k < 0) return true;
    forge_logprobs(logits, run->vocab, &id, 1, &t->logprob);
    if (k == 0) return true;
    t->top_ids = malloc((size_t)k * sizeof *t->top_ids);
    t->top_logprobs = malloc((size_t)k * sizeof *t->top_logprobs);
    if (!t->top_ids || !t->top_logprobs) return false;
    forge_top_ids(logits, run->vocab, k, t->top_ids);
    forge_logprobs(logits, run->vocab, t->top_ids, (size_t)k, t->top_logprobs);
    return true;
}

// Hands out what the buffers have gained since the last time.
static int show(struct run *run)
{
    struct fg_reply *r = run->reply;
    int stop = 0;
    if (run->o->on_text && r->reasoning.len > run->reasoning_shown)
        stop = run->o->on_text(run->o->ctx, true, r->reasoning.data + run->reasoning_shown,
                               r->reasoning.len - run->reasoning_shown);
    run->reasoning_shown = r->reasoning.len;
    if (!stop && run->o->on_text && r->content.len > run->content_shown)
        stop = run->o->on_text(run->o->ctx, false, r->content.data + run->content_shown,
                               r->content.len - run->content_shown);
    run->content_shown = r->content.len;
    return stop;
}

static int on_token(void *ctx, int32_t id, const char *text, size_t n, const float *logits)
{
    struct run *run = ctx;
    struct fg_reply *r = run->reply;
    end_bar(run);
    if (id >= 0 && !keep_token(run, id, logits)) run->out_of_memory = true;
    if (id >= 0 && run->think.inside) r->reasoning_tokens++;
    if (run->o->split) {
        fg_think_push(&run->think, id, text, n, &r->reasoning, &r->content);
    } else {
        fg_buf_add(&r->content, text, n);
    }
    if (r->reasoning.failed || r->content.failed) run->out_of_memory = true;
    return show(run) || run->out_of_memory || fg_signals_pending() != 0;
}

int fg_reply_run(struct fg_reply *r, const struct fg_cli *cli, struct forge_session *s,
                 const struct forge_engine *e, const int32_t *ids, size_t n,
                 const struct fg_reply_options *o, struct fg_error *err)
{
    *r = (struct fg_reply){0};
    struct forge_engine_info info;
    forge_engine_info(e, &info);
    struct run run = {.reply = r, .cli = cli, .o = o, .vocab = info.vocab, .start = fg_clock()};
    fg_think_init(&run.think, o->open_id, o->close_id, o->in_think);
    struct forge_generate_options options = {
        .max_tokens = o->max_tokens,
        .sampling = o->sampling,
        .ignore_stop_tokens = o->ignore_stop_tokens,
        .stop = o->stop,
        .n_stop = o->n_stop,
        .keep_logits = o->logprobs >= 0,
        .progress = on_prompt,
        .on_token = on_token,
        .ctx = &run,
    };
    int rc = forge_generate(s, ids, (int64_t)n, &options, &r->result, err);
    end_bar(&run);
    r->signal = fg_signals_pending();
    if (rc == FG_EINTERRUPTED && r->signal) {
        rc = 0; // during the prompt: a reply of no tokens
        r->result.finish = FORGE_FINISH_CANCELLED;
        if (err) *err = (struct fg_error){0};
    }
    if (rc == 0 && o->split) {
        bool cut = r->result.finish != FORGE_FINISH_STOP ||
                   r->result.generated_tokens == (int64_t)r->n_tokens;
        fg_think_end(&run.think, cut, &r->reasoning, &r->content);
        show(&run);
    }
    if (run.out_of_memory || r->content.failed || r->reasoning.failed)
        rc = fg_fail_memory(err, "reply", r->content.len + r->reasoning.len);
    fg_think_free(&run.think);
    return rc;
}

void fg_reply_free(struct fg_reply *r)
{
    for (size_t i = 0; i < r->n_tokens; i++) {
        free(r->tokens[i].top_ids);
        free(r->tokens[i].top_logprobs);
    }
    free(r->tokens);
    fg_buf_free(&r->reasoning);
    fg_buf_free(&r->content);
    *r = (struct fg_reply){0};
}

double fg_reply_rate(const struct fg_reply *r)
{
    double s = r->result.generate_seconds;
    return s > 0 ? (double)r->result.generated_tokens / s : 0;
}

double fg_reply_prompt_rate(const struct fg_reply *r)
{
    double s = r->result.prompt_seconds;
    return s > 0 ? (double)(r->result.prompt_tokens - r->result.cached_tokens) / s : 0;
}

bool fg_reply_starts_inside(const char *prompt, size_t n)
{
    static const char mark[] = "<think>\n";
    return n >= sizeof mark - 1 &&
           memcmp(prompt + n - (sizeof mark - 1), mark, sizeof mark - 1) == 0;
}
