// base/error.c: filling and printing struct fg_error.
#include "base/error.h"
#include "base/utf8.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

char *fg_escape(char *dst, size_t cap, const char *src, size_t n)
{
    size_t at = 0, i = 0;
    if (cap == 0) return dst;
    while (i < n) {
        char piece[8];
        bool valid;
        size_t len = fg_utf8_step((const unsigned char *)src + i, n - i, &valid, NULL);
        size_t take = valid ? len : 1;
        unsigned char c = (unsigned char)src[i];
        if (c == '\n') {
            memcpy(piece, "\\n", len = 2);
        } else if (c == '\t') {
            memcpy(piece, "\\t", len = 2);
        } else if (!valid || c < 0x20 || c == 0x7F) {
            len = (size_t)snprintf(piece, sizeof piece, "\\x%02X", c);
        } else {
            memcpy(piece, src + i, len);
        }
        if (at + len + 1 > cap) { // make room for the mark that something was cut
            size_t dots = cap > 3 ? 3 : cap - 1;
            while (at + dots + 1 > cap) {
                at--;
                while (at > 0 && ((unsigned char)dst[at] & 0xC0) == 0x80)
                    at--;
            }
            memcpy(dst + at, "...", dots);
            at += dots;
            break;
        }
        memcpy(dst + at, piece, len);
        at += len;
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
    memset(err, 0, sizeof *err);
    err->code = code;
    put(err->what, sizeof err->what, what);
    put(err->file, sizeof err->file, file);
    put(err->field, sizeof err->field, field);
    put(err->expected, sizeof err->expected, expected);
    if (found) {
        char text[1024];
        va_list ap;
        va_start(ap, found);
        vsnprintf(text, sizeof text, found, ap);
        va_end(ap);
        put(err->found, sizeof err->found, text);
    }
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
        errnum == ENFILE)
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
    size_t at = 0;
    bool any = false;
    const struct {
        const char *name, *value;
    } parts[] = {{"file", err->file}, {"field", err->field}, {"expected", err->expected}};
    if (cap == 0) return out;
    out[0] = '\0';
#define APPEND(...)                                                                                \
    do {                                                                                           \
        if (at < cap) {                                                                            \
            int len_ = snprintf(out + at, cap - at, __VA_ARGS__);                                  \
            at += len_ > 0 ? (size_t)len_ : 0;                                                     \
        }                                                                                          \
    } while (0)
    APPEND("%s", err->what);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!parts[i].value[0]) continue;
        APPEND("%s%s %s", any ? ", " : at ? ": " : "", parts[i].name, parts[i].value);
        any = true;
    }
    if (err->found[0]) {
        // "found" needs its word only beside an expectation; alone it is the whole message.
        APPEND("%s%s%s", any ? (err->expected[0] ? ", " : ": ") : (at ? ": " : ""),
               err->expected[0] ? "found " : "", err->found);
    }
#undef APPEND
    return out;
}
