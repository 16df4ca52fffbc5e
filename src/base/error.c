// base/error.c: filling and printing struct fg_error.
#include "base/error.h"
#include "base/size.h"
#include "base/utf8.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#undef fg_fail
#undef fg_fail_range
#undef fg_fail_errno
#undef fg_fail_memory

char *fg_escape(char *dst, size_t cap, const char *src, size_t n)
{
    size_t at = 0, i = 0;
    if (cap == 0) return dst;
    size_t dots = cap > 3 ? 3 : cap - 1, keep = 0; // keep: where the mark of a cut would go
    while (i < n) {
        char piece[8];
        bool valid;
        size_t len = fg_utf8_step((const unsigned char *)src + i, n - i, &valid, NULL);
        unsigned char c = (unsigned char)src[i];
        // U+0080 to U+009F steer some terminals as ESC does.
        if (len == 2 && c == 0xC2 && (unsigned char)src[i + 1] < 0xA0) valid = false;
        size_t take = valid ? len : 1;
        if (c == '\n') {
            memcpy(piece, "\\n", len = 2);
        } else if (c == '\t') {
            memcpy(piece, "\\t", len = 2);
        } else if (!valid || c < 0x20 || c == 0x7F) {
            len = (size_t)snprintf(piece, sizeof piece, "\\x%02X", c);
        } else {
            memcpy(piece, src + i, len);
        }
        if (at + len + 1 > cap) {
            memcpy(dst + keep, "...", dots);
            at = keep + dots;
            break;
        }
        memcpy(dst + at, piece, len);
        at += len;
        if (at + dots + 1 <= cap) keep = at;
        i += take;
    }
    dst[at] = '\0';
    return dst;
}

static void put(char *dst, size_t cap, const char *s)
{
    if (s) fg_escape(dst, cap, s, strlen(s));
}

int fg_fail(struct fg_error *err, int code, const char *what, const char *file, const char *field,
            const char *expected, const char *found, ...)
{
    if (!err) return code;
    struct fg_error e = {.code = code}; // the arguments may be parts of *err
    put(e.what, sizeof e.what, what);
    put(e.file, sizeof e.file, file);
    put(e.field, sizeof e.field, field);
    put(e.expected, sizeof e.expected, expected);
    if (found) {
        char text[1024];
        va_list ap;
        va_start(ap, found);
        vsnprintf(text, sizeof text, found, ap);
        va_end(ap);
        put(e.found, sizeof e.found, text);
    }
    *err = e;
    return code;
}

int fg_fail_range(struct fg_error *err, const char *what, const char *file, const char *field,
                  int64_t min, int64_t max, int64_t found)
{
    char expected[64];
    snprintf(expected, sizeof expected, "%" PRId64 " to %" PRId64, min, max);
    return fg_fail(err, FG_EINPUT, what, file, field, expected, "%" PRId64, found);
}

int fg_fail_errno(struct fg_error *err, const char *file, const char *action, int errnum)
{
    int code = FG_EINPUT;
    if (errnum == ENOSPC || errnum == EDQUOT || errnum == ENOMEM || errnum == EMFILE ||
        errnum == ENFILE || errnum == EFBIG || errnum == EROFS)
        code = FG_ERESOURCE;
    else if (errnum == EIO)
        code = FG_EFAILED;
    char buf[128];
    return fg_fail(err, code, action, file, NULL, NULL, "%s",
                   strerror_r(errnum, buf, sizeof buf)); // the GNU form returns the text
}

int fg_fail_memory(struct fg_error *err, const char *what, uint64_t bytes)
{
    return fg_fail(err, FG_ERESOURCE, what, NULL, "memory", NULL,
                   "out of memory asking for %" PRIu64 " bytes", bytes);
}

void fg_error_hint(struct fg_error *err, const char *hint, ...)
{
    if (!err) return;
    char text[512];
    va_list ap;
    va_start(ap, hint);
    vsnprintf(text, sizeof text, hint, ap);
    va_end(ap);
    put(err->hint, sizeof err->hint, text);
}

char *fg_error_line(const struct fg_error *err, char *out, size_t cap)
{
    // "found" needs its word only beside an expectation; alone it is the whole message.
    const struct {
        const char *before, *name, *value;
    } parts[] = {
        {"", "", err->what},
        {": ", "file ", err->file},
        {err->file[0] ? ", " : ": ", "field ", err->field},
        {": ", "expected ", err->expected},
        {err->expected[0] ? ", " : ": ", err->expected[0] ? "found " : "", err->found},
    };
    char line[sizeof *err + 64];
    size_t at = 0;
    line[0] = '\0';
    for (size_t i = 0; i < FG_COUNT(parts); i++) {
        if (!parts[i].value[0]) continue;
        at += (size_t)snprintf(line + at, sizeof line - at, "%s%s%s", at ? parts[i].before : "",
                               parts[i].name, parts[i].value);
    }
    return fg_escape(out, cap, line, at); // nothing is left to escape; it cuts between characters
}
