// cli/chat.c: `forge chat`: a conversation on the terminal (specs: cli 10.2): reads, answers,
// shows. Slash commands are in chat_commands.c, editing in lineedit.c.
#include "cli/chat.h"
#include "base/file.h"
#include "cli/model_args.h"
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK "\"\"\"" // opens and closes a message of several lines

// ---- a reply on the terminal

static int on_text(void *ctx, bool reasoning, const char *text, size_t n)
{
    struct fg_chat *c = ctx;
    // Where nobody watches, only the answer is of use.
    if (reasoning && !isatty(STDOUT_FILENO)) return 0;
    bool color = c->cli->color_out;
    struct fg_buf visible = {0};
    fg_out_visible(&visible, text, n);
    if (!visible.data) return 0;
    if (reasoning) {
        if (!c->reasoning_shown && !color) fputs("<think>\n", stdout);
        printf("%s%s%s", color ? "\033[2m" : "", visible.data, color ? "\033[0m" : "");
    } else {
        if (c->reasoning_shown) fputs(color ? "\n\n" : "\n</think>\n\n", stdout);
        fwrite(visible.data, 1, visible.len, stdout);
    }
    c->reasoning_shown = reasoning;
    c->last_byte = visible.data[visible.len - 1];
    fg_buf_free(&visible);
    return fflush(stdout) != 0;
}

static void print_status(const struct fg_chat *c)
{
    const struct fg_reply *r = &c->last;
    if (!fg_log_wants(&c->cli->log, FG_LOG_WARN)) return;
    bool dim = c->cli->color_err;
    fprintf(stderr, "%s[%zu tok, %.1f tok/s, ctx %" PRId64 "/%" PRId64 ", cached %" PRId64 "]%s\n",
            dim ? "\033[2m" : "", r->n_tokens, fg_reply_rate(r), forge_session_position(c->session),
            forge_session_capacity(c->session), r->result.cached_tokens, dim ? "\033[0m" : "");
}

static int fail_full(struct fg_chat *c, size_t n_ids, struct fg_error *err)
{
    char expected[64];
    snprintf(expected, sizeof expected, "less than %" PRId64 " tokens",
             forge_session_capacity(c->session));
    int rc = fg_fail(err, FG_EINPUT, "context full", NULL, NULL, expected, "%zu", n_ids);
    fg_error_hint(err, "the conversation is kept without this message; /undo or /reset makes room");
    return rc;
}

// The conversation as token ids, the caller's to free.
static int encode(struct fg_chat *c, int32_t **ids, size_t *n, bool *inside, struct fg_error *err)
{
    struct fg_buf json = {0};
    char *text = NULL;
    size_t n_text = 0;
    const char *kwargs = fg_args_flag(&c->cli->args, "think") ? "{\"enable_thinking\": true}"
                                                              : "{\"enable_thinking\": false}";
    fg_chat_log_json(c->log, &json);
    int rc = json.failed
                 ? fg_fail_memory(err, "conversation", json.len)
                 : forge_render_chat(c->engine, json.data, json.len, kwargs, &text, &n_text, err);
    fg_buf_free(&json);
    if (rc == 0) rc = forge_tokenize(c->engine, text, n_text, true, ids, n, err);
    if (rc == 0) *inside = fg_reply_starts_inside(text, n_text);
    free(text);
    if (rc == 0 && (int64_t)*n >= forge_session_capacity(c->session)) rc = fail_full(c, *n, err);
    return rc;
}

// What the signal that ended a reply means for the program.
static void notice_end(struct fg_chat *c)
{
    int sig = c->last.signal;
    bool one_turn = fg_args_given(&c->cli->args, "prompt");
    if (sig == SIGINT && fg_lineedit_is_terminal(c->line) && !one_turn) {
        fg_signals_clear();
    } else if (sig) {
        c->quit = true;
        c->exit_code = fg_signals_exit_code(sig);
    }
}

static int keep_reply(struct fg_chat *c, bool inside, struct fg_error *err)
{
    const struct fg_reply *r = &c->last;
    const char *reasoning = r->reasoning.data ? r->reasoning.data : "";
    return fg_chat_log_add(c->log, "assistant", r->content.data ? r->content.data : "",
                           r->content.len, inside || r->reasoning.len ? reasoning : NULL,
                           r->reasoning.len, err);
}

int fg_chat_answer(struct fg_chat *c, struct fg_error *err)
{
    const struct fg_args *args = &c->cli->args;
    bool inside = false;
    int32_t *ids = NULL;
    size_t n = 0;
    int rc = encode(c, &ids, &n, &inside, err);
    if (rc == 0) {
        struct fg_reply_options o = {
            .sampling = fg_cli_sampling(args, fg_args_flag(args, "think"), c->seed),
            .max_tokens = fg_args_given(args, "tokens") ? fg_args_int(args, "tokens") : INT32_MAX,
            .logprobs = -1,
            .split = true,
            .in_think = inside,
            .open_id = c->open_id,
            .close_id = c->close_id,
            .on_text = on_text,
            .ctx = c,
        };
        c->reasoning_shown = false;
        c->last_byte = '\n';
        fg_reply_free(&c->last);
        rc = fg_reply_run(&c->last, c->cli, c->session, c->engine, ids, n, &o, err);
        if (c->last_byte != '\n') putchar('\n');
        fflush(stdout);
    }
    free(ids);
    if (rc) return rc;

    notice_end(c);
    if (c->last.n_tokens == 0 && c->last.signal) { // stopped before there was anything to keep
        fg_chat_log_cut(c->log, fg_chat_before_last_user(c));
        return 0;
    }
    rc = keep_reply(c, inside, err);
    print_status(c);
    if (c->last.result.finish == FORGE_FINISH_CONTEXT)
        fg_out_warn(c->cli, "context full: the reply ends here, the conversation is kept");
    const char *save = fg_args_text(args, "save");
    if (rc == 0 && save) rc = fg_chat_save(c, save, err);
    if (ferror(stdout)) { // nobody reads, or the disk is full: no reply would arrive
        c->quit = true;
        if (rc == 0) rc = fg_out_flush(err);
        c->exit_code = rc;
    }
    return rc;
}

int fg_chat_turn(struct fg_chat *c, const char *text, size_t n, struct fg_error *err)
{
    size_t before = fg_chat_log_count(c->log);
    int rc = fg_chat_log_add(c->log, "user", text, n, NULL, 0, err);
    if (rc == 0) rc = fg_chat_answer(c, err);
    // An answer that came but could not be saved stays.
    if (rc && fg_chat_log_count(c->log) == before + 1) fg_chat_log_cut(c->log, before);
    return rc;
}

// ---- the loop

// Moves the message that starts with *line on through its further lines: up to one that doesn't end
// in "\", or up to the closing quotes.
static enum fg_line_end read_message(struct fg_chat *c, struct fg_buf *message, bool *empty)
{
    struct fg_buf line = {0};
    enum fg_line_end end = fg_lineedit_read(c->line, "> ", &line, empty);
    fg_buf_clear(message);
    fg_buf_add(message, "", 0);
    bool block = end == FG_LINE_READ && line.len >= 3 && memcmp(line.data, BLOCK, 3) == 0;
    if (end == FG_LINE_READ)
        fg_buf_add(message, line.data + (block ? 3 : 0), line.len - (block ? 3 : 0));
    while (end == FG_LINE_READ && message->len) {
        size_t n = message->len;
        if (block && n >= 3 && memcmp(message->data + n - 3, BLOCK, 3) == 0) {
            message->len = n - 3;
            message->data[message->len] = '\0';
            break;
        }
        bool more = block || message->data[n - 1] == '\\';
        if (!more) break;
        if (!block) message->len--; // the backslash
        fg_buf_char(message, '\n');
        end = fg_lineedit_read(c->line, "... ", &line, empty);
        *empty = false;
        fg_buf_add(message, line.data, line.len);
    }
    // Input that ends in the middle of a message was still meant as one.
    if (end == FG_LINE_EOF && message->len) end = FG_LINE_READ;
    fg_buf_free(&line);
    return end;
}

static int take_message(struct fg_chat *c, const struct fg_buf *message, struct fg_error *err)
{
    if (message->len == 0) return 0;
    fg_lineedit_remember(c->line, message->data);
    if (message->data[0] == '/') return fg_chat_command(c, message->data, err);
    int rc = fg_cli_check_text(message->data, message->len, "standard input", NULL, err);
    return rc ? rc : fg_chat_turn(c, message->data, message->len, err);
}

static int loop(struct fg_chat *c, struct fg_error *err)
{
    struct fg_buf message = {0};
    bool terminal = fg_lineedit_is_terminal(c->line), interrupted = false;
    int rc = 0;
    while (!c->quit) {
        bool empty;
        enum fg_line_end end = read_message(c, &message, &empty);
        if (message.failed) rc = fg_fail_memory(err, "message", message.len);
        if (message.failed) break;
        if (end == FG_LINE_EOF) break;
        if (end == FG_LINE_STOPPED || (end == FG_LINE_INTERRUPTED && !terminal)) {
            int sig = fg_signals_pending();
            c->exit_code = fg_signals_exit_code(sig ? sig : SIGINT);
            break;
        }
        if (end == FG_LINE_INTERRUPTED) {
            fputs("^C\n", stdout);
            if (interrupted && empty) break;
            interrupted = empty;
            if (empty) fputs("Ctrl-C again, Ctrl-D or /quit leaves.\n", stderr);
            continue;
        }
        interrupted = false;
        struct fg_error turn = {0};
        int turn_rc = take_message(c, &message, &turn);
        if (turn_rc && turn.code) fg_out_error("forge chat", false, &turn);
        if (turn_rc && !terminal && !c->quit) { // a script must see that a turn failed
            c->exit_code = turn_rc;
            break;
        }
    }
    if (terminal && !c->quit) putchar('\n');
    fg_buf_free(&message);
    return rc;
}

static int set_system(struct fg_chat *c, struct fg_error *err)
{
    const char *system = fg_args_text(&c->cli->args, "system");
    if (!system) return 0;
    struct fg_buf text = {0};
    int rc = 0;
    if (system[0] == '@') {
        rc = fg_cli_read_text(system + 1, false, &text, err);
    } else {
        rc = fg_cli_check_text(system, strlen(system), NULL, "--system", err);
        fg_buf_str(&text, system);
    }
    if (rc == 0) rc = fg_chat_log_system(c->log, text.data, text.len, err);
    fg_buf_free(&text);
    return rc;
}

// A model that cannot render a conversation is better refused before the first message.
static int check_template(struct fg_chat *c, struct fg_error *err)
{
    static const char probe[] = "[{\"role\": \"user\", \"content\": \"x\"}]";
    char *text = NULL;
    size_t n;
    int rc = forge_render_chat(c->engine, probe, sizeof probe - 1, NULL, &text, &n, err);
    free(text);
    if (rc) fg_error_hint(err, "--chat-template names one; forge generate --raw needs none");
    return rc;
}

static int set_up(struct fg_chat *c, struct fg_error *err)
{
    struct fg_cli *cli = c->cli;
    char *state = NULL, *history = NULL;
    int rc = fg_cli_random_seed(&c->seed, err);
    c->log = fg_chat_log_new();
    if (rc == 0 && !c->log) rc = fg_fail_memory(err, "conversation", 0);
    const char *resume = fg_args_text(&cli->args, "resume");
    if (rc == 0 && resume) rc = fg_chat_load(c, resume, err);
    if (rc == 0) rc = set_system(c, err);
    if (rc == 0) rc = fg_cli_engine(cli, FG_CLI_ALL, &c->engine, err);
    if (rc == 0) rc = check_template(c, err);
    if (rc == 0) rc = fg_cli_think_ids(c->engine, &c->open_id, &c->close_id, err);
    if (rc == 0) rc = forge_session_new(&c->session, c->engine, NULL, err);
    if (rc == 0 && isatty(STDIN_FILENO) && !fg_args_given(&cli->args, "prompt")) {
        rc = fg_cli_state_dir(cli, true, &state, err);
        history = state ? fg_path_join(state, "history") : NULL;
        if (rc == 0 && !history) rc = fg_fail_memory(err, "history", 0);
    }
    if (rc == 0) fg_signals_catch();
    if (rc == 0) rc = fg_lineedit_open(&c->line, history, err);
    free(history);
    free(state);
    return rc;
}

static void greet(const struct fg_chat *c)
{
    struct forge_engine_info info;
    forge_engine_info(c->engine, &info);
    if (!fg_lineedit_is_terminal(c->line) || !fg_log_wants(&c->cli->log, FG_LOG_WARN)) return;
    fprintf(stderr, "%s, %s template, context %" PRId64 ". /help lists commands.\n", info.family,
            info.chat_template, forge_session_capacity(c->session));
}

static int run_chat(struct fg_cli *cli, struct fg_error *err)
{
    if (cli->json) {
        int rc = fg_fail(err, FG_EINPUT, "option", NULL, "--json", "a command with one result",
                         "a conversation");
        fg_error_hint(err, "forge generate --messages FILE --json answers one");
        return rc;
    }
    struct fg_chat c = {.cli = cli};
    const char *prompt = fg_args_text(&cli->args, "prompt");
    int rc = 0;
    if (prompt && !prompt[0])
        rc = fg_fail(err, FG_EINPUT, "prompt", NULL, "--prompt", "a text", "nothing");
    if (rc == 0 && prompt) rc = fg_cli_check_text(prompt, strlen(prompt), NULL, "--prompt", err);
    if (rc == 0) rc = set_up(&c, err);
    if (rc == 0 && prompt) {
        rc = fg_chat_turn(&c, prompt, strlen(prompt), err);
    } else if (rc == 0) {
        greet(&c);
        rc = loop(&c, err);
    }
    int close_rc = fg_lineedit_close(c.line, rc ? NULL : err);
    if (rc == 0) rc = close_rc;
    fg_reply_free(&c.last);
    fg_chat_log_free(c.log);
    forge_session_free(c.session);
    forge_engine_close(c.engine);
    return rc ? rc : c.exit_code;
}

static const struct fg_opt options[] = {
    {.name = "prompt",
     .letter = 'p',
     .kind = FG_OPT_TEXT,
     .value = "TEXT",
     .group = "Chat",
     .help = "one message, one reply, then exit"},
    {.name = "system",
     .kind = FG_OPT_TEXT,
     .value = "TEXT",
     .group = "Chat",
     .help = "system text, or @FILE"},
    {.name = "resume",
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .group = "Chat",
     .help = "go on with a saved conversation"},
    {.name = "save",
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .group = "Chat",
     .help = "write the conversation after every reply"},
    {.name = "tokens",
     .letter = 'n',
     .kind = FG_OPT_INT,
     .value = "N",
     .def_note = "what the context has room for",
     .min = 1,
     .max = INT32_MAX,
     .group = "Reply",
     .help = "longest reply"},
    {0},
};
static const struct fg_opt *const tables[] = {
    options,          fg_opts_think,
    fg_opts_sampling, fg_opts_model,
    fg_opts_memory,   fg_opts_numerics_fast,
    fg_opts_template, fg_opts_ctx,
    fg_opts_kv,       NULL,
};
static const char *const examples[] = {"forge chat -m model.gguf",
                                       "forge chat -m model/ --system @persona.txt --think", NULL};

const struct fg_command fg_cmd_chat = {
    .name = "chat",
    .group = "Use",
    .summary = "talk with a model",
    .about = "Type a message and Enter. Lines that start with / are commands; /help lists them. "
             "From a pipe, every line is a message.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_chat,
};
