// cli/cli.h: what every subcommand shares: the parsed line, streams, log, signals, exit. The
// program's only globals are the signal flags in signals.c.
#ifndef FG_CLI_CLI_H
#define FG_CLI_CLI_H
#include "base/error.h"
#include "base/jwrite.h"
#include "base/log.h"
#include "base/progress.h"
#include "cli/args.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define FG_EXIT_PIPE 141 // the reader of stdout went away (128 + SIGPIPE)
#define FG_EXIT_TERM 143 // stopped by SIGTERM

struct fg_cli {
    struct fg_args args;
    const struct fg_command *root;
    fg_env_fn env;
    bool json;
    enum fg_progress_mode progress;
    bool color_out, color_err; // escape sequences may be written there
    int threads;               // 0: the engine's default
    const char *isa;           // NULL: the best
    struct fg_log log;
};

// ---- output (output.c). Results go to stdout, everything else to stderr.

// Writes a finished JSON text with a newline to stdout and frees it. FG_ERESOURCE when it is not
// whole.
int fg_out_json(struct fg_jwrite *w, struct fg_error *err);
// Flushes stdout. FG_EXIT_PIPE with err->code 0 when its reader went away, FG_ERESOURCE or
// FG_EFAILED when the bytes could not be written; 0.
int fg_out_flush(struct fg_error *err);
// "forge COMMAND: LINE" and the hint to stderr, or the JSON object of specs cli 1.4 to stdout.
void fg_out_error(const char *command, bool json, const struct fg_error *err);
// A warning on stderr, unless -q.
void fg_out_warn(const struct fg_cli *cli, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
// Appends n bytes of model output for a terminal: control characters other than newline and tab
// appear as \xNN, C1 controls and bytes that are no UTF-8 too.
void fg_out_visible(struct fg_buf *out, const char *s, size_t n);

// ---- signals (signals.c)

// From here on SIGINT, SIGTERM and SIGHUP set a flag instead of ending the program; a second SIGINT
// before the first was noticed ends it at once with 130. SIGPIPE is ignored from the start.
void fg_signals_catch(void);
// A mapped file that shrinks while it is in use ends the program with one line and exit code 1.
void fg_signals_guard_maps(void);
// The signal that arrived since the last clear, or 0.
int fg_signals_pending(void);
void fg_signals_clear(void);
bool fg_signals_resized(void); // the terminal's size changed since the last call
// 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP.
int fg_signals_exit_code(int sig);

// ---- help (help.c)

// Help of the command that args reached, to `out`.
void fg_help_print(FILE *out, const struct fg_args *args);
// The few lines that `forge` alone gets.
void fg_help_short(FILE *out, const struct fg_command *root);

extern const struct fg_command fg_root; // commands.c
extern const struct fg_command fg_cmd_doctor, fg_cmd_compile, fg_cmd_cache, fg_cmd_inspect,
    fg_cmd_generate, fg_cmd_chat, fg_cmd_tokenize, fg_cmd_import, fg_cmd_digest, fg_cmd_convert,
    fg_cmd_plan, fg_cmd_corpus, fg_cmd_quantize, fg_cmd_teacher, fg_cmd_eval, fg_cmd_bench,
    fg_cmd_help, fg_cmd_version;

// `forge --version`, with --json in its JSON form. Returns the exit code.
int fg_version_print(struct fg_cli *cli, struct fg_error *err);

// Adds the member "libraries": name and version of each.
void fg_version_libraries(struct fg_jwrite *w);

// The state directory (specs: cli 1.6): ANEMLL_FORGE_STATE, FORGE_STATE or ~/.anemll-forge, as a
// malloc'd string. Made with mode 0700 when `make`. Errors: FG_EINPUT, FG_ERESOURCE.
int fg_cli_state_dir(const struct fg_cli *cli, bool make, char **out, struct fg_error *err);
#endif
