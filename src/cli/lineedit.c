// cli/lineedit.c: libedit behind an interface of our own. Characters come in through read_char and
// not through libedit's reader, which swallows the first interruption of a read.
#include "cli/lineedit.h"
#include "base/file.h"
#include "cli/cli.h"
#include "format/json_scan.h"
#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#define HISTORY_ENTRIES 1000
#define HISTORY_BYTES_MAX ((uint64_t)1 << 30)

struct fg_lineedit {
    EditLine *el; // NULL: not a terminal
    History *history;
    char *history_path;
    const char *prompt;
    mbstate_t mb; // between the bytes of a character
    bool interrupted, was_empty, eof;
    struct fg_buf pending; // bytes read and not yet given out, when there is no terminal
};

static char *give_prompt(EditLine *el)
{
    struct fg_lineedit *l;
    el_get(el, EL_CLIENTDATA, &l);
    return (char *)l->prompt; // libedit wants it writable, and only reads it
}

// Waits for input. False when a signal came instead. Signals are let in only while waiting, so none
// slips through between the look at the flag and the wait.
static bool wait_input(EditLine *el)
{
    sigset_t stops, old;
    sigemptyset(&stops);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGHUP);
    sigaddset(&stops, SIGWINCH);
    sigprocmask(SIG_BLOCK, &stops, &old);
    bool ready = false;
    while (!ready && !fg_signals_pending()) {
        if (fg_signals_resized() && el) el_resize(el);
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        ready = ppoll(&in, 1, NULL, &old) > 0;
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    return ready;
}

// One character for libedit: 1, 0 at the end of input, -1 when a signal came.
static int read_char(EditLine *el, wchar_t *out)
{
    struct fg_lineedit *l;
    el_get(el, EL_CLIENTDATA, &l);
    for (;;) {
        if (!wait_input(el)) {
            const LineInfo *line = el_line(el);
            l->interrupted = true;
            l->was_empty = line->lastchar == line->buffer;
            errno = EINTR;
            return -1;
        }
        char byte;
        ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n == 0) l->eof = true;
        if (n == 0) return 0;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        size_t used = mbrtowc(out, &byte, 1, &l->mb);
        if (used == (size_t)-2) continue; // more bytes of this character to come
        if (used == (size_t)-1) l->mb = (mbstate_t){0};
        if (used == (size_t)-1) continue; // not a character here: ignored
        if (used == 0) *out = L'\0';
        return 1;
    }
}

// The history's file has a line per message, where \n and \\ stand for newline and backslash.
// libedit has a format of its own, but its reader runs past its buffer at a damaged escape, and its
// writer wants a FILE.
static void enter_lines(History *h, char *text)
{
    HistEvent ev;
    for (char *line = text, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end) *end++ = '\0';
        char *to = line;
        for (const char *from = line; *from; from++) {
            bool escape = from[0] == '\\' && (from[1] == 'n' || from[1] == '\\');
            if (escape) from++;
            *to++ = (char)(escape && *from == 'n' ? '\n' : *from);
        }
        *to = '\0';
        if (to > line && fg_utf8_valid_bytes(line, (size_t)(to - line)) == (size_t)(to - line))
            history(h, &ev, H_ENTER, line);
    }
}

static void add_lines(History *h, struct fg_buf *out)
{
    HistEvent ev; // libedit counts from the newest
    for (int rc = history(h, &ev, H_LAST); rc != -1; rc = history(h, &ev, H_PREV)) {
        for (const char *s = ev.str; *s; s++) {
            if (*s == '\n' || *s == '\\') fg_buf_char(out, '\\');
            fg_buf_char(out, *s == '\n' ? 'n' : *s);
        }
        fg_buf_char(out, '\n');
    }
}

static int open_history(struct fg_lineedit *l, const char *path, struct fg_error *err)
{
    HistEvent ev;
    l->history = history_init();
    if (!l->history) return fg_fail_memory(err, "history", 0);
    history(l->history, &ev, H_SETSIZE, HISTORY_ENTRIES);
    history(l->history, &ev, H_SETUNIQUE, 1);
    if (!path) return 0;
    l->history_path = strdup(path);
    if (!l->history_path) return fg_fail_memory(err, "history", strlen(path));
    // Made here for its mode. O_NONBLOCK: fg_file_load is to refuse a FIFO, not this to wait at it.
    int fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd >= 0) close(fd);
    struct fg_buf text = {0};
    int rc = fg_file_load(&text, path, HISTORY_BYTES_MAX, err);
    if (rc == 0 && text.data) enter_lines(l->history, text.data);
    fg_buf_free(&text);
    return rc;
}

int fg_lineedit_open(struct fg_lineedit **out, const char *path, struct fg_error *err)
{
    *out = NULL;
    struct fg_lineedit *l = calloc(1, sizeof *l);
    if (!l) return fg_fail_memory(err, "line editor", sizeof *l);
    int rc = 0;
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
        // Only the character type: numbers are read and written in the C locale everywhere.
        if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");
        rc = open_history(l, path, err);
        if (rc == 0) l->el = el_init("forge", stdin, stdout, stderr);
        if (rc == 0 && !l->el) rc = fg_fail_memory(err, "line editor", 0);
    }
    if (l->el) {
        el_set(l->el, EL_CLIENTDATA, l);
        el_set(l->el, EL_PROMPT, give_prompt);
        el_set(l->el, EL_EDITOR, "emacs");
        el_set(l->el, EL_SIGNAL, 0);
        el_set(l->el, EL_HIST, history, l->history);
        el_set(l->el, EL_GETCFN, read_char);
        el_source(l->el, NULL); // the user's ~/.editrc
    }
    if (rc) {
        fg_lineedit_close(l, NULL);
        return rc;
    }
    *out = l;
    return 0;
}

static int save_history(struct fg_lineedit *l, struct fg_error *err)
{
    struct fg_buf text = {0};
    add_lines(l->history, &text);
    int rc = text.failed ? fg_fail_memory(err, "history", text.len)
                         : fg_file_replace(l->history_path, text.data, text.len, err);
    fg_buf_free(&text);
    return rc;
}

int fg_lineedit_close(struct fg_lineedit *l, struct fg_error *err)
{
    if (!l) return 0;
    int rc = l->el && l->history_path ? save_history(l, err) : 0;
    if (l->el) el_end(l->el);
    if (l->history) history_end(l->history);
    free(l->history_path);
    fg_buf_free(&l->pending);
    free(l);
    return rc;
}

bool fg_lineedit_is_terminal(const struct fg_lineedit *l)
{
    return l->el != NULL;
}

static enum fg_line_end end_of_signal(void)
{
    if (fg_signals_pending() != SIGINT) return FG_LINE_STOPPED;
    fg_signals_clear();
    return FG_LINE_INTERRUPTED;
}

// A line from a pipe or file.
static enum fg_line_end read_plain(struct fg_lineedit *l, struct fg_buf *line)
{
    for (;;) {
        struct fg_buf *p = &l->pending;
        char *newline = p->len ? memchr(p->data, '\n', p->len) : NULL;
        if (newline || (l->eof && p->len)) {
            size_t n = newline ? (size_t)(newline - p->data) : p->len;
            size_t used = n + (newline != NULL);
            fg_buf_add(line, p->data, n);
            memmove(p->data, p->data + used, p->len - used + 1);
            p->len -= used;
            return FG_LINE_READ;
        }
        if (l->eof) return FG_LINE_EOF;
        if (!wait_input(NULL)) return end_of_signal();
        char block[4096];
        ssize_t n = read(STDIN_FILENO, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) l->eof = true;
        if (n > 0) fg_buf_add(p, block, (size_t)n);
        if (p->failed) l->eof = true;
    }
}

enum fg_line_end fg_lineedit_read(struct fg_lineedit *l, const char *prompt, struct fg_buf *line,
                                  bool *empty)
{
    fg_buf_clear(line);
    fg_buf_add(line, "", 0);
    *empty = true;
    if (!l->el) return read_plain(l, line);
    l->prompt = prompt;
    l->interrupted = l->eof = false;
    l->mb = (mbstate_t){0};
    int n = 0;
    const char *text = el_gets(l->el, &n);
    if (l->interrupted) {
        *empty = l->was_empty;
        el_reset(l->el);
        return end_of_signal();
    }
    if (!text || n <= 0) return FG_LINE_EOF;
    size_t len = (size_t)n;
    while (len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    fg_buf_add(line, text, len);
    return FG_LINE_READ;
}

void fg_lineedit_remember(struct fg_lineedit *l, const char *text)
{
    HistEvent ev;
    if (l->history && text[0]) history(l->history, &ev, H_ENTER, text);
}
