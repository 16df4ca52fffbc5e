// cli/chat_commands.c: the slash commands of `forge chat` (specs: cli 10.2).
#include "base/file.h"
#include "base/num.h"
#include "base/progress.h"
#include "cli/chat.h"
#include "cli/model_args.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NEAR 2 // edits up to which a name is suggested

size_t fg_chat_before_last_user(const struct fg_chat *c)
{
    struct fg_jval messages = fg_chat_log_messages(c->log);
    for (size_t i = messages.n; i > 0; i--) {
        if (fg_jval_is(fg_jval_get(&messages.items[i - 1], "role"), "user")) return i - 1;
    }
    return messages.n;
}

int fg_chat_save(struct fg_chat *c, const char *path, struct fg_error *err)
{
    struct fg_buf text = {0};
    fg_buf_str(&text, "{\"messages\": ");
    fg_chat_log_json(c->log, &text);
    fg_buf_str(&text, "}\n");
    int rc = text.failed ? fg_fail_memory(err, "conversation", text.len)
                         : fg_file_replace(path, text.data, text.len, err);
    fg_buf_free(&text);
    return rc;
}

int fg_chat_load(struct fg_chat *c, const char *path, struct fg_error *err)
{
    struct fg_buf text = {0};
    int rc = fg_cli_read_text(path, false, &text, err);
    if (rc == 0) rc = fg_chat_log_parse(c->log, text.data, text.len, path, err);
    fg_buf_free(&text);
    return rc;
}

static int need_argument(const char *arg, const char *what, struct fg_error *err)
{
    if (arg[0]) return 0;
    return fg_fail(err, FG_EINPUT, "command", NULL, NULL, what, "nothing");
}

// The argument as a path, "~" replaced; the caller frees it. NULL with *rc set.
static char *path_argument(const struct fg_chat *c, const char *arg, int *rc, struct fg_error *err)
{
    *rc = need_argument(arg, "a file name", err);
    char *path = *rc ? NULL : fg_path_expand(arg, c->cli->env("HOME"));
    if (*rc == 0 && !path) *rc = fg_fail_memory(err, "path", strlen(arg));
    return path;
}

static int do_quit(struct fg_chat *c, const char *arg, struct fg_error *err)
{
    (void)arg;
    (void)err;
    c->quit = true;
    return 0;
}

static int do_system(struct fg_chat *c, const char *arg, struct fg_error *err)
{
    return fg_chat_log_system(c->log, arg, strlen(arg), err);
}

static int do_reset(struct fg_chat *c, const char *arg, struct fg_error *err)
{
    (void)arg;
    (void)err;
    struct fg_jval messages = fg_chat_log_messages(c->log);
    bool system = messages.n > 0 && fg_jval_is(fg_jval_get(&messages.items[0], "role"), "system");
    fg_chat_log_cut(c->log, system);
    forge_session_reset(c->session);
    return 0;
}

static int do_think(struct fg_chat *c, const char *arg, struct fg_error *err)
{
    return fg_args_set(&c->cli->args, "think", arg, "command", err);
}

// What /set and /show know: the sampling options and the length of a reply.
static bool is_setting(const char *name)
{
    for (const struct fg_opt *o = fg_opts_sampling; o->name; o++) {
        if (strcmp(o->name, name) == 0) return true;
    }
    return strcmp(name, "tokens") == 0;
}

static int do_set(struct fg_chat *c, const char *arg, struct fg_error *err)
{
    char name[32];
    size_t n = strcspn(arg, " \t");
    const char *value = arg + n + strspn(arg + n, " \t");
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : 0), arg);
    if (is_setting(name)) return fg_args_set(&c->cli->args, name, value, "command", err);
    char names[160] = "tokens";
    size_t at = strlen(names);
    for (const struct fg_opt *o = fg_opts_sampling; o->name; o++)
        at += (size_t)snprintf(names + at, sizeof names - at, ", %s", o->name);
    char found[48];
    return fg_fail(err, FG_EINPUT, "command", NULL, "/set NAME VALUE", names, "%s",
                   arg[0] ? fg_escape(found, sizeof found, arg, n) : "nothing");
}

static int do_show(struct fg_chat *c, const char *arg, struct fg_error *err)
{
    (void)arg;
    (void)err;
    const struct fg_args *args = &c->cli->args;
    bool think = fg_args_flag(args, "think");
    struct forge_sampling s = fg_cli_sampling(args, think, c->seed);
    char t[32], p[32], m[32], r[32], pr[32], f[32];
    fprintf(stderr, "think %s\ntokens ", think ? "on" : "off");
    if (fg_args_given(args, "tokens")) {
        fprintf(stderr, "%" PRId64 "\n", fg_args_int(args, "tokens"));
    } else {
        fprintf(stderr, "as the context allows\n");
    }
    fprintf(stderr,
            "temperature %s\ntop-p %s\ntop-k %d\nmin-p %s\nrepetition %s\npresence %s\n"
            "frequency %s\nseed %" PRId64 "\n",
            fg_format_f64(t, sizeof t, s.temperature), fg_format_f64(p, sizeof p, s.top_p),
            s.top_k ? s.top_k : -1, fg_format_f64(m, sizeof m, s.min_p),
            fg_format_f64(r, sizeof r, s.repetition), fg_format_f64(pr, sizeof pr, s.presence),
            fg_format_f64(f, sizeof f, s.frequency), (int64_t)s.seed);
    return 0;
}

static int do_read(struct fg_chat *c, const char *arg, struct fg_error *err)
{
    int rc;
    char *path = path_argument(c, arg, &rc, err);
    struct fg_buf text = {0};
    if (path) rc = fg_cli_read_text(path, false, &text, err);
    if (rc == 0 && text.len == 0)
        rc = fg_fail(err, FG_EINPUT, "command", path, NULL, "a text", "an empty file");
    if (rc == 0) rc = fg_chat_turn(c, text.data, text.len, err);
    fg_buf_free(&text);
    free(path);
    return rc;
}

static int need_exchange(const struct fg_chat *c, struct fg_error *err)
{
    if (fg_chat_before_last_user(c) < fg_chat_log_count(c->log)) return 0;
    return fg_fail(err, FG_EINPUT, "command", NULL, NULL, "a message that was asked before",
                   "none");
}

static int do_retry(struct fg_chat *c, const char *arg, struct fg_error *err)
{
    (void)arg;
    int rc = need_exchange(c, err);
    if (rc) return rc;
    // The same seed would give the same reply; one that the user chose stays.
    if (!fg_args_given(&c->cli->args, "seed")) c->seed++;
    fg_chat_log_cut(c->log, fg_chat_before_last_user(c) + 1);
    return fg_chat_answer(c, err);
}

static int do_undo(struct fg_chat *c, const char *arg, struct fg_error *err)
{
    (void)arg;
    int rc = need_exchange(c, err);
    if (rc == 0) fg_chat_log_cut(c->log, fg_chat_before_last_user(c));
    return rc;
}

static void say_count(const struct fg_chat *c, const char *done)
{
    size_t n = fg_chat_log_count(c->log);
    fprintf(stderr, "%zu message%s %s\n", n, n == 1 ? "" : "s", done);
}

static int do_save(struct fg_chat *c, const char *arg, struct fg_error *err)
{
    int rc;
    char *path = path_argument(c, arg, &rc, err);
    if (path) rc = fg_chat_save(c, path, err);
    if (rc == 0) say_count(c, "saved");
    free(path);
    return rc;
}

static int do_load(struct fg_chat *c, const char *arg, struct fg_error *err)
{
    int rc;
    char *path = path_argument(c, arg, &rc, err);
    if (path) rc = fg_chat_load(c, path, err);
    if (rc == 0) say_count(c, "loaded");
    free(path);
    return rc;
}

static int do_stats(struct fg_chat *c, const char *arg, struct fg_error *err)
{
    (void)arg;
    (void)err;
    struct forge_engine_info info;
    forge_engine_info(c->engine, &info);
    const struct forge_generate_result *r = &c->last.result;
    char load[32], prompt[32], reply[32], weights[32], session[32], kv[32];
    fprintf(stderr, "model loaded in %s, %s of weights, %s kernels, %d threads\n",
            fg_format_seconds(load, sizeof load, info.load_seconds),
            fg_format_bytes(weights, sizeof weights, info.weight_bytes), info.isa, info.threads);
    if (r->prompt_tokens)
        fprintf(stderr,
                "last prompt: %" PRId64 " tokens, %" PRId64
                " of them kept from before, %s, %.1f tok/s\n"
                "last reply: %" PRId64 " tokens, %s, %.1f tok/s, ended by %s\n",
                r->prompt_tokens, r->cached_tokens,
                fg_format_seconds(prompt, sizeof prompt, r->prompt_seconds),
                fg_reply_prompt_rate(&c->last), r->generated_tokens,
                fg_format_seconds(reply, sizeof reply, r->generate_seconds),
                fg_reply_rate(&c->last), forge_finish_name(r->finish));
    fprintf(stderr, "session: %s, %s of them keys and values (%s)\n",
            fg_format_bytes(session, sizeof session, forge_session_bytes(c->session)),
            fg_format_bytes(kv, sizeof kv, forge_session_kv_bytes(c->session)),
            info.kv_cache_dtype);
    return 0;
}

static int do_ctx(struct fg_chat *c, const char *arg, struct fg_error *err)
{
    (void)arg;
    (void)err;
    struct forge_engine_info info;
    forge_engine_info(c->engine, &info);
    fprintf(stderr,
            "%" PRId64 " of %" PRId64 " positions in use, memory for %" PRId64 "; the model has "
            "%" PRId64 "; %zu messages\ncontexts:",
            forge_session_position(c->session), forge_session_capacity(c->session),
            forge_session_entry(c->session), info.max_positions, fg_chat_log_count(c->log));
    for (int i = 0; i < info.n_entries; i++)
        fprintf(stderr, "%s %" PRId64, i ? "," : "", info.entries[i]);
    fputc('\n', stderr);
    return 0;
}

static int do_help(struct fg_chat *c, const char *arg, struct fg_error *err);

static const struct {
    const char *name, *args, *help;
    int (*run)(struct fg_chat *c, const char *arg, struct fg_error *err);
} commands[] = {
    {"help", "", "this list", do_help},
    {"quit", "", "leave; so does Ctrl-D", do_quit},
    {"system", "TEXT", "a new system text; without TEXT none", do_system},
    {"reset", "", "forget the conversation, keep the system text", do_reset},
    {"think", "on|off", "reason before answering, where the template can", do_think},
    {"set", "NAME VALUE", "change a sampling value or the length of replies (tokens)", do_set},
    {"show", "", "the values in force", do_show},
    {"read", "FILE", "send a file as your message", do_read},
    {"retry", "", "answer the last message again", do_retry},
    {"undo", "", "drop the last message and its reply", do_undo},
    {"save", "FILE", "write the conversation as JSON", do_save},
    {"load", "FILE", "go on with a conversation that was saved", do_load},
    {"stats", "", "times and memory", do_stats},
    {"ctx", "", "how full the context is", do_ctx},
};
#define N_COMMANDS (sizeof commands / sizeof commands[0])

static int do_help(struct fg_chat *c, const char *arg, struct fg_error *err)
{
    (void)c;
    (void)arg;
    (void)err;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        char head[32];
        snprintf(head, sizeof head, "/%s %s", commands[i].name, commands[i].args);
        fprintf(stderr, "  %-18s %s\n", head, commands[i].help);
    }
    fprintf(stderr, "A line that ends in \\ goes on in the next; \"\"\" opens and closes a block "
                    "of lines.\nCtrl-C stops a reply, twice at an empty prompt it leaves.\n");
    return 0;
}

int fg_chat_command(struct fg_chat *c, const char *line, struct fg_error *err)
{
    const char *name = line + 1;
    size_t n = strcspn(name, " \t");
    const char *arg = name + n + strspn(name + n, " \t");
    const char *best = NULL;
    int least = NEAR + 1;
    char given[48];
    fg_escape(given, sizeof given, name, n);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strlen(commands[i].name) == n && memcmp(commands[i].name, name, n) == 0)
            return commands[i].run(c, arg, err);
        int d = fg_edit_distance(given, commands[i].name);
        if (d < least) least = d, best = commands[i].name;
    }
    int rc = fg_fail(err, FG_EINPUT, "command", NULL, NULL, "a command", "/%s", given);
    if (best) {
        fg_error_hint(err, "did you mean /%s?", best);
    } else {
        fg_error_hint(err, "/help lists the commands");
    }
    return rc;
}
