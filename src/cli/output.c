// cli/output.c: results, errors and warnings on their streams (specs: cli 1.3, 1.4).
#include "cli/cli.h"
#include "base/utf8.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

int fg_out_flush(struct fg_error *err)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
    int e = errno;
    if (e == 0) { // an earlier write failed, and its errno is gone: the stream still tells
        struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
        bool pipe = poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
        bool closed = (fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY; // see main.c
        e = pipe ? EPIPE : closed ? EBADF : ENOSPC;
    }
    return e == EPIPE ? FG_EXIT_PIPE : fg_fail_errno(err, "standard output", "write", e);
}

int fg_out_json(struct fg_jwrite *w, struct fg_error *err)
{
    int rc = 0;
    fg_buf_char(&w->buf, '\n');
    if (w->buf.failed) {
        rc = fg_fail_memory(err, "JSON output", w->buf.len);
    } else {
        fwrite(w->buf.data, 1, w->buf.len, stdout);
        rc = fg_out_flush(err);
    }
    fg_jwrite_free(w);
    return rc;
}

static const char *code_name(int code)
{
    switch (code) {
    case FG_EINPUT: return "invalid_input";
    case FG_EINTEGRITY: return "integrity";
    case FG_ENETWORK: return "network";
    case FG_ERESOURCE: return "resource";
    case FG_EBUSY: return "busy";
    case FG_EUNSUPPORTED: return "unsupported";
    case FG_EINTERRUPTED:
    case FG_EXIT_TERM: return "interrupted";
    default: return "failed";
    }
}

static void add_part(struct fg_jwrite *w, const char *key, const char *s)
{
    fg_jwrite_str(w, key, s[0] ? s : NULL);
}

void fg_out_error(const char *command, bool json, const struct fg_error *err)
{
    char line[sizeof *err + 64];
    fg_error_line(err, line, sizeof line);
    fflush(stdout);
    if (!json) {
        fprintf(stderr, "%s: %s\n", command, line);
        if (err->hint[0]) fprintf(stderr, "hint: %s\n", err->hint);
        return;
    }
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "error");
    fg_jwrite_object(&w, "error");
    fg_jwrite_str(&w, "code", code_name(err->code));
    fg_jwrite_str(&w, "message", line);
    add_part(&w, "file", err->file);
    add_part(&w, "field", err->field);
    add_part(&w, "expected", err->expected);
    add_part(&w, "found", err->found);
    add_part(&w, "hint", err->hint);
    fg_jwrite_end_object(&w);
    fg_jwrite_int(&w, "exit_code", err->code);
    fg_jwrite_end_object(&w);
    // A stream that can't be written can't tell of it either; one that nobody reads need not.
    int rc = fg_out_json(&w, NULL);
    if (rc && rc != FG_EXIT_PIPE) fprintf(stderr, "%s: %s\n", command, line);
}

void fg_out_warn(const struct fg_cli *cli, const char *fmt, ...)
{
    if (!fg_log_wants(&cli->log, FG_LOG_WARN)) return;
    va_list ap;
    va_start(ap, fmt);
    char line[FG_LOG_LINE_BYTES];
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fg_log_warn(&cli->log, "%s", line);
}

void fg_out_visible(struct fg_buf *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        bool valid;
        const unsigned char *at = (const unsigned char *)s + i;
        size_t len = fg_utf8_step(at, n - i, &valid, NULL);
        bool c0 = at[0] < 0x20 && at[0] != '\n' && at[0] != '\t';
        bool c1 = len == 2 && at[0] == 0xC2 && at[1] < 0xA0; // U+0080 to U+009F
        if (valid && !c0 && !c1 && at[0] != 0x7F) {
            fg_buf_add(out, s + i, len);
        } else {
            for (size_t j = 0; j < len; j++)
                fg_buf_printf(out, "\\x%02X", at[j]);
        }
        i += len;
    }
}
