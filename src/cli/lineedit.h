// cli/lineedit.h: lines from a person: edited on a terminal (libedit), read as they are elsewhere.
#ifndef FG_CLI_LINEEDIT_H
#define FG_CLI_LINEEDIT_H
#include "base/buf.h"
#include "base/error.h"
#include <stdbool.h>

struct fg_lineedit; // opaque

enum fg_line_end {
    FG_LINE_READ,
    FG_LINE_EOF,         // Ctrl-D, or the input ended
    FG_LINE_INTERRUPTED, // Ctrl-C; *empty tells whether anything had been typed
    FG_LINE_STOPPED      // SIGTERM or SIGHUP: fg_signals_pending tells which
};

// history: a file of earlier lines, made with mode 0600 when missing; NULL: none is kept. Signals
// must be caught already (fg_signals_catch). On a terminal the C library's character type becomes
// that of the environment, or UTF-8. Errors: FG_ERESOURCE, FG_EINPUT (history); *out is then NULL.
int fg_lineedit_open(struct fg_lineedit **out, const char *path, struct fg_error *err);
// Writes the history back and frees. NULL is fine. Errors: of writing the file.
int fg_lineedit_close(struct fg_lineedit *l, struct fg_error *err);
bool fg_lineedit_is_terminal(const struct fg_lineedit *l);

// The next line without its newline, replacing *line. `prompt` is shown on terminals.
enum fg_line_end fg_lineedit_read(struct fg_lineedit *l, const char *prompt, struct fg_buf *line,
                                  bool *empty);
// Adds an entry, of one or more lines, to the history.
void fg_lineedit_remember(struct fg_lineedit *l, const char *text);
#endif
