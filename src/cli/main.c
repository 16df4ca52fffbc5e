// cli/main.c: the program: parses the line, sets up what commands share, runs one, and turns its
// error into text and an exit code. What commands do is in their own files.
#include "cli/cli.h"
#include "forge/forge.h"
#include "kernels/kernels.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *environment(const char *name)
{
    return getenv(name);
}

// Errors of the line itself must know before it is parsed.
static bool wants_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0) return true;
    }
    return false;
}

static bool wants_color(const struct fg_cli *cli, int fd)
{
    const char *when = fg_args_text(&cli->args, "color");
    if (strcmp(when, "auto") != 0) return strcmp(when, "always") == 0;
    const char *no = cli->env("NO_COLOR"), *term = cli->env("TERM");
    return isatty(fd) && (!no || !no[0]) && term && strcmp(term, "dumb") != 0;
}

// The kernel path is checked for every command, as the options are.
static int take_isa(struct fg_cli *cli, struct fg_error *err)
{
    const char *isa = cli->env("FORGE_ISA");
    if (!isa) return 0;
    const struct fg_kernels *k;
    struct fg_error inner = {0};
    int rc = isa[0] ? fg_kernels_get(&k, isa, &inner) : FG_EINPUT;
    if (rc == 0) {
        cli->isa = isa;
        return 0;
    }
    char found[64];
    fg_escape(found, sizeof found, isa, strlen(isa));
    rc = fg_fail(err, rc, "environment", NULL, "FORGE_ISA",
                 rc == FG_EUNSUPPORTED ? "a kernel path of this machine" : "a kernel path", "%s",
                 isa[0] ? found : "an empty text");
    fg_error_hint(err, "forge version lists the usable ones");
    return rc;
}

static enum fg_progress_mode progress_mode(const struct fg_args *args)
{
    const char *text = fg_args_text(args, "progress");
    return strcmp(text, "plain") == 0  ? FG_PROGRESS_PLAIN
           : strcmp(text, "json") == 0 ? FG_PROGRESS_JSON
           : strcmp(text, "none") == 0 ? FG_PROGRESS_NONE
                                       : FG_PROGRESS_AUTO;
}

static int set_up(struct fg_cli *cli, struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    int64_t verbose = fg_args_int(args, "verbose");
    cli->log.sink = fg_log_file_sink;
    cli->log.ctx = stderr;
    cli->log.level = fg_args_flag(args, "quiet") ? FG_LOG_ERROR
                     : verbose == 0              ? FG_LOG_WARN
                     : verbose == 1              ? FG_LOG_INFO
                                                 : FG_LOG_DEBUG;
    cli->progress = fg_args_flag(args, "quiet") ? FG_PROGRESS_NONE : progress_mode(args);
    cli->color_out = wants_color(cli, STDOUT_FILENO);
    cli->color_err = wants_color(cli, STDERR_FILENO);
    cli->threads = (int)fg_args_int(args, "threads");
    return take_isa(cli, err);
}

static int run(struct fg_cli *cli, struct fg_error *err)
{
    const struct fg_command *c = fg_args_command(&cli->args);
    if (cli->args.help) {
        fg_help_print(stdout, &cli->args);
        return fg_out_flush(err);
    }
    if (cli->args.version) return fg_version_print(cli, err);
    if (!c->run) {
        if (cli->json)
            return fg_fail(err, FG_EINPUT, "command", NULL, NULL, "the name of a command",
                           "nothing");
        if (c == cli->root) {
            fg_help_short(stderr, c);
        } else {
            fg_help_print(stderr, &cli->args);
        }
        return FG_EINPUT;
    }
    int rc = set_up(cli, err);
    return rc ? rc : c->run(cli, err);
}

// A standard stream that is closed would give its number to the next file that is opened, and
// output meant for the stream would end up in it. Results that nobody can get are an error, so
// stdout becomes something that cannot be written.
static void keep_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
    }
}

int main(int argc, char **argv)
{
    keep_streams();
    fg_signals_guard_maps();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); // a write past the size limit fails like one on a full disk
    struct fg_cli cli = {.root = &fg_root, .env = environment, .json = wants_json(argc, argv)};
    struct fg_error err = {0};
    int rc = fg_args_parse(&cli.args, &fg_root, argc, (const char *const *)argv, environment, &err);
    if (rc == 0) rc = run(&cli, &err);
    if (err.code && rc) err.code = rc; // a signal's code is known here only
    if (err.code) {
        char name[64];
        fg_out_error(fg_args_name(&cli.args, name, sizeof name), cli.json, &err);
    }
    fg_args_free(&cli.args);
    return rc;
}
