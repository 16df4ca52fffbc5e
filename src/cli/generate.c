// cli/generate.c: `forge generate`: one prompt, one reply (specs: cli 10.1).
#include "cli/cli.h"
#include "base/file.h"
#include "base/progress.h"
#include "cli/model_args.h"
#include "cli/reply.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOGPROB_MIN (-9999.0) // what minus infinity is written as

struct generate {
    struct fg_cli *cli;
    struct forge_engine *engine;
    struct forge_session *session;
    struct fg_buf given; // prompt text, or JSON of messages
    int32_t *ids;        // the prompt
    size_t n_ids;
    uint64_t seed;
    bool in_think;
    bool pipe_closed;     // nobody reads stdout any more
    bool reasoning_shown; // on the terminal
    char last;            // last byte of stdout
};

// The prompt as it was given, by exactly one of the three options.
static int read_prompt(struct generate *g, struct fg_error *err)
{
    const struct fg_args *args = &g->cli->args;
    bool text = fg_args_given(args, "prompt"), file = fg_args_given(args, "prompt-file");
    bool messages = fg_args_given(args, "messages"),
         replace = fg_args_flag(args, "replace-invalid");
    if (text + file + messages != 1) {
        int rc = fg_fail(err, FG_EINPUT, "option", NULL, "--prompt",
                         "one of --prompt, --prompt-file and --messages", "%s",
                         (text + file + messages) ? "several" : "none");
        return rc;
    }
    int rc;
    if (text) {
        const char *prompt = fg_args_text(args, "prompt");
        fg_buf_str(&g->given, prompt);
        if (g->given.failed) return fg_fail_memory(err, "prompt", strlen(prompt));
        rc = replace ? 0 : fg_cli_check_text(prompt, strlen(prompt), NULL, "--prompt", err);
    } else {
        rc = fg_cli_read_text(fg_args_text(args, file ? "prompt-file" : "messages"), replace,
                              &g->given, err);
    }
    if (rc == 0 && g->given.len == 0) {
        rc = fg_fail(err, FG_EINPUT, "prompt",
                     text ? NULL : fg_args_text(args, file ? "prompt-file" : "messages"), NULL,
                     "a text", "nothing");
    }
    return rc;
}

// A prompt text as the JSON of a conversation of one message.
static int wrap_prompt(struct generate *g, struct fg_error *err)
{
    const char *system = fg_args_text(&g->cli->args, "system");
    struct fg_jwrite w = {0};
    fg_jwrite_array(&w, NULL);
    if (system) {
        fg_jwrite_object(&w, NULL);
        fg_jwrite_str(&w, "role", "system");
        fg_jwrite_str(&w, "content", system);
        fg_jwrite_end_object(&w);
    }
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "role", "user");
    fg_jwrite_text(&w, "content", g->given.data, g->given.len);
    fg_jwrite_end_object(&w);
    fg_jwrite_end_array(&w);
    if (w.buf.failed) {
        fg_jwrite_free(&w);
        return fg_fail_memory(err, "prompt", g->given.len);
    }
    fg_buf_free(&g->given);
    g->given = w.buf;
    return 0;
}

static int encode_prompt(struct generate *g, struct fg_error *err)
{
    const struct fg_args *args = &g->cli->args;
    if (fg_args_flag(args, "raw"))
        return forge_tokenize(g->engine, g->given.data, g->given.len, true, &g->ids, &g->n_ids,
                              err);
    struct forge_engine_info info;
    forge_engine_info(g->engine, &info);
    int rc = fg_args_given(args, "messages") ? 0 : wrap_prompt(g, err);
    if (rc) return rc;
    const char *kwargs = fg_args_flag(args, "think") ? "{\"enable_thinking\": true}"
                                                     : "{\"enable_thinking\": false}";
    char *text = NULL;
    size_t n = 0;
    rc =
        fg_cli_render(g->engine, &g->given, fg_args_text(args, "messages"), kwargs, &text, &n, err);
    if (rc && !info.chat_template && err)
        fg_error_hint(err, "--raw continues the prompt as plain text, --chat-template names one");
    if (rc == 0) {
        g->in_think = fg_reply_starts_inside(text, n);
        rc = forge_tokenize(g->engine, text, n, true, &g->ids, &g->n_ids, err);
    }
    free(text);
    return rc;
}

// Streams content to stdout. Reasoning is no result: it is shown, dim, where a person watches.
static int on_text(void *ctx, bool reasoning, const char *text, size_t n)
{
    struct generate *g = ctx;
    struct fg_buf visible = {0};
    if (reasoning) {
        if (!g->cli->color_err || !isatty(STDERR_FILENO)) return 0;
        fg_out_visible(&visible, text, n);
        fprintf(stderr, "\033[2m%s\033[0m", visible.data ? visible.data : "");
        fflush(stderr);
        g->reasoning_shown = true;
    } else {
        if (g->reasoning_shown) fprintf(stderr, "\n\n");
        g->reasoning_shown = false;
        bool tty = isatty(STDOUT_FILENO);
        if (tty) fg_out_visible(&visible, text, n);
        fwrite(tty ? visible.data : text, 1, tty ? visible.len : n, stdout);
        g->pipe_closed = fflush(stdout) != 0;
        g->last = text[n - 1];
    }
    fg_buf_free(&visible);
    return g->pipe_closed;
}

static void json_token(struct fg_jwrite *w, const struct generate *g, int32_t id, double logprob)
{
    char *text;
    size_t n;
    fg_jwrite_int(w, "id", id);
    if (forge_detokenize(g->engine, &id, 1, false, &text, &n, NULL) == 0) {
        fg_jwrite_text(w, "token", text, n);
        free(text);
    } else {
        fg_jwrite_null(w, "token"); // a padding row of the vocabulary
    }
    fg_jwrite_num(w, "logprob", isinf(logprob) ? LOGPROB_MIN : logprob);
}

static void json_logprobs(struct fg_jwrite *w, const struct generate *g, const struct fg_reply *r,
                          int k)
{
    fg_jwrite_array(w, "logprobs");
    for (size_t i = 0; i < r->n_tokens; i++) {
        const struct fg_reply_token *t = &r->tokens[i];
        fg_jwrite_object(w, NULL);
        json_token(w, g, t->id, t->logprob);
        fg_jwrite_array(w, "top_logprobs");
        for (int j = 0; j < k; j++) {
            fg_jwrite_object(w, NULL);
            json_token(w, g, t->top_ids[j], t->top_logprobs[j]);
            fg_jwrite_end_object(w);
        }
        fg_jwrite_end_array(w);
        fg_jwrite_end_object(w);
    }
    fg_jwrite_end_array(w);
}

static int print_json(const struct generate *g, const struct fg_reply *r, int logprobs,
                      struct fg_error *err)
{
    struct forge_engine_info info;
    forge_engine_info(g->engine, &info);
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_text(&w, "text", r->content.data ? r->content.data : "", r->content.len);
    fg_jwrite_text(&w, "reasoning", r->reasoning.len ? r->reasoning.data : NULL, r->reasoning.len);
    fg_jwrite_array(&w, "tokens");
    for (size_t i = 0; i < r->n_tokens; i++)
        fg_jwrite_int(&w, NULL, r->tokens[i].id);
    fg_jwrite_end_array(&w);
    if (logprobs >= 0) json_logprobs(&w, g, r, logprobs);
    fg_jwrite_str(&w, "finish_reason", forge_finish_name(r->result.finish));
    fg_jwrite_int(&w, "seed", (int64_t)g->seed);
    fg_jwrite_object(&w, "usage");
    fg_jwrite_int(&w, "prompt_tokens", r->result.prompt_tokens);
    fg_jwrite_int(&w, "completion_tokens", (int64_t)r->n_tokens);
    fg_jwrite_int(&w, "reasoning_tokens", (int64_t)r->reasoning_tokens);
    fg_jwrite_int(&w, "total_tokens", r->result.prompt_tokens + (int64_t)r->n_tokens);
    fg_jwrite_end_object(&w);
    fg_jwrite_object(&w, "timings");
    fg_jwrite_num(&w, "load_seconds", info.load_seconds);
    fg_jwrite_num(&w, "prompt_seconds", r->result.prompt_seconds);
    fg_jwrite_num(&w, "generate_seconds", r->result.generate_seconds);
    fg_jwrite_num(&w, "prompt_tokens_per_second", fg_reply_prompt_rate(r));
    fg_jwrite_num(&w, "tokens_per_second", fg_reply_rate(r));
    fg_jwrite_end_object(&w);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

static void print_stats(const struct generate *g, const struct fg_reply *r)
{
    struct forge_engine_info info;
    forge_engine_info(g->engine, &info);
    char load[32], prompt[32], reply[32], memory[32];
    fg_format_seconds(load, sizeof load, info.load_seconds);
    fg_format_seconds(prompt, sizeof prompt, r->result.prompt_seconds);
    fg_format_seconds(reply, sizeof reply, r->result.generate_seconds);
    fg_format_bytes(memory, sizeof memory, forge_session_bytes(g->session));
    fprintf(stderr,
            "load %s; prompt %" PRId64 " tokens in %s, %.1f tok/s; reply %zu tokens in %s, %.1f "
            "tok/s, ended by %s; session %s; seed %" PRId64 "; %s, %d threads, %s\n",
            load, r->result.prompt_tokens, prompt, fg_reply_prompt_rate(r), r->n_tokens, reply,
            fg_reply_rate(r), forge_finish_name(r->result.finish), memory, (int64_t)g->seed,
            info.isa, info.threads, info.numerics == FORGE_EXACT ? "exact" : "fast");
}

static int reply(struct generate *g, struct fg_error *err)
{
    const struct fg_args *args = &g->cli->args;
    const struct fg_opt_slot *stop = fg_args_slot(args, "stop");
    bool raw = fg_args_flag(args, "raw");
    struct fg_reply_options o = {
        .sampling = fg_cli_sampling(args, fg_args_flag(args, "think"), g->seed),
        .max_tokens = fg_args_int(args, "tokens"),
        .ignore_stop_tokens = fg_args_flag(args, "ignore-eos"),
        .stop = stop->list,
        .n_stop = (size_t)stop->n_list,
        .logprobs = fg_args_given(args, "logprobs") ? (int)fg_args_int(args, "logprobs") : -1,
        .split = !raw,
        .in_think = g->in_think,
        .on_text = g->cli->json ? NULL : on_text,
        .ctx = g,
    };
    g->seed = o.sampling.seed;
    int rc = raw ? 0 : fg_cli_think_ids(g->engine, &o.open_id, &o.close_id, err);
    struct fg_reply r = {0};
    if (rc == 0) rc = fg_reply_run(&r, g->cli, g->session, g->engine, g->ids, g->n_ids, &o, err);
    if (rc == 0 && g->cli->json) {
        rc = print_json(g, &r, o.logprobs, err);
    } else if (!g->cli->json) {
        if (r.n_tokens && g->last != '\n' && !g->pipe_closed) putchar('\n');
        if (rc == 0) rc = fg_out_flush(err);
    }
    if (rc == 0 && fg_args_flag(args, "stats")) print_stats(g, &r);
    if (rc == 0 && r.signal) rc = fg_signals_exit_code(r.signal);
    fg_reply_free(&r);
    return rc;
}

static int check_options(const struct fg_cli *cli, struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    const struct fg_opt_slot *stop = fg_args_slot(args, "stop");
    for (int i = 0; i < stop->n_list; i++) {
        if (!stop->list[i][0])
            return fg_fail(err, FG_EINPUT, "option", NULL, "--stop", "a text", "an empty text");
    }
    if (fg_args_given(args, "logprobs") && !cli->json)
        return fg_fail(err, FG_EINPUT, "option", NULL, "--logprobs", "--json with it", "no --json");
    int rc = fg_args_exclusive(args, "raw", "messages", err);
    if (rc == 0) rc = fg_args_exclusive(args, "raw", "system", err);
    if (rc == 0) rc = fg_args_exclusive(args, "raw", "think", err);
    if (rc == 0) rc = fg_args_exclusive(args, "messages", "system", err);
    return rc;
}

static int run_generate(struct fg_cli *cli, struct fg_error *err)
{
    struct generate g = {.cli = cli};
    int rc = check_options(cli, err);
    if (rc == 0) rc = read_prompt(&g, err);
    if (rc == 0) rc = fg_cli_random_seed(&g.seed, err);
    if (rc == 0) rc = fg_cli_engine(cli, FG_CLI_ALL, &g.engine, err);
    if (rc == 0) rc = encode_prompt(&g, err);
    if (rc == 0) rc = forge_session_new(&g.session, g.engine, NULL, err);
    if (rc == 0) fg_signals_catch();
    if (rc == 0) rc = reply(&g, err);
    forge_session_free(g.session);
    forge_engine_close(g.engine);
    free(g.ids);
    fg_buf_free(&g.given);
    return rc;
}

static const struct fg_opt options[] = {
    {.name = "prompt",
     .letter = 'p',
     .kind = FG_OPT_TEXT,
     .value = "TEXT",
     .group = "Prompt",
     .help = "the prompt"},
    {.name = "prompt-file",
     .letter = 'f',
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .group = "Prompt",
     .help = "read the prompt from a file; - is standard input"},
    {.name = "messages",
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .group = "Prompt",
     .help = "a conversation as JSON: messages, or an object with messages and tools"},
    {.name = "system",
     .kind = FG_OPT_TEXT,
     .value = "TEXT",
     .group = "Prompt",
     .help = "system text before the prompt"},
    {.name = "raw",
     .kind = FG_OPT_FLAG,
     .group = "Prompt",
     .help = "continue the prompt as it is, without chat template"},
    {.name = "replace-invalid",
     .kind = FG_OPT_FLAG,
     .group = "Prompt",
     .help = "read bytes that are not UTF-8 as U+FFFD"},
    {.name = "tokens",
     .letter = 'n',
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "256",
     .min = 1,
     .max = INT32_MAX,
     .group = "Reply",
     .help = "longest reply"},
    {.name = "stop",
     .kind = FG_OPT_TEXTS,
     .value = "TEXT",
     .group = "Reply",
     .help = "end the reply before this text"},
    {.name = "ignore-eos",
     .kind = FG_OPT_FLAG,
     .group = "Reply",
     .help = "go on past the tokens that end a turn"},
    {.name = "logprobs",
     .kind = FG_OPT_INT,
     .value = "K",
     .min = 0,
     .max = 20,
     .group = "Reply",
     .help = "log probability of every token, and of the K likeliest; with --json"},
    {.name = "stats",
     .kind = FG_OPT_FLAG,
     .group = "Reply",
     .help = "times, rates and the seed on standard error"},
    {0},
};
static const struct fg_opt *const tables[] = {
    options,          fg_opts_think,
    fg_opts_sampling, fg_opts_model,
    fg_opts_memory,   fg_opts_numerics_fast,
    fg_opts_template, fg_opts_ctx,
    fg_opts_kv,       NULL,
};
static const char *const examples[] = {
    "forge generate -m model.gguf -p 'The capital of France is' --raw -n 20",
    "forge generate -m model/ -f prompt.txt --seed 1 --json", NULL};

const struct fg_command fg_cmd_generate = {
    .name = "generate",
    .group = "Use",
    .summary = "answer one prompt",
    .about = "The reply goes to standard output as it comes. Ctrl-C ends it and keeps what is "
             "there.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_generate,
};
