// base/buf.c: the growing byte buffer.
#include "base/buf.h"
#include "base/utf8.h"
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fg_buf_free(struct fg_buf *b)
{
    free(b->data);
    *b = (struct fg_buf){0};
}

void fg_buf_clear(struct fg_buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data) b->data[0] = '\0';
}

bool fg_buf_reserve(struct fg_buf *b, size_t more)
{
    if (b->failed) return false;
    if (more > SIZE_MAX / 2 || b->len > SIZE_MAX / 2 - more) {
        b->failed = true;
        return false;
    }
    size_t need = b->len + more + 1;
    if (need <= b->cap) return true;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap += cap / 2;
    char *p = realloc(b->data, cap);
    if (!p) {
        b->failed = true;
        return false;
    }
    if (!b->data) p[0] = '\0';
    b->data = p;
    b->cap = cap;
    return true;
}

void fg_buf_add(struct fg_buf *b, const void *data, size_t n)
{
    if (!fg_buf_reserve(b, n)) return;
    if (n) memcpy(b->data + b->len, data, n);
    b->len += n;
    b->data[b->len] = '\0';
}

void fg_buf_str(struct fg_buf *b, const char *s)
{
    fg_buf_add(b, s, strlen(s));
}

void fg_buf_char(struct fg_buf *b, char c)
{
    fg_buf_add(b, &c, 1);
}

void fg_buf_printf(struct fg_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || !fg_buf_reserve(b, (size_t)n)) {
        b->failed = true;
        return;
    }
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

void fg_buf_json_str(struct fg_buf *b, const char *s, size_t n)
{
    fg_buf_char(b, '"');
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i];
        bool valid;
        size_t len = fg_utf8_step((const unsigned char *)s + i, n - i, &valid, NULL);
        if (!valid)
            fg_buf_str(b, "\xEF\xBF\xBD");
        else if (c == '"' || c == '\\')
            fg_buf_printf(b, "\\%c", c);
        else if (c == '\n')
            fg_buf_str(b, "\\n");
        else if (c == '\r')
            fg_buf_str(b, "\\r");
        else if (c == '\t')
            fg_buf_str(b, "\\t");
        else if (c == '\b')
            fg_buf_str(b, "\\b");
        else if (c == '\f')
            fg_buf_str(b, "\\f");
        else if (c < 0x20)
            fg_buf_printf(b, "\\u%04x", c);
        else
            fg_buf_add(b, s + i, len);
        i += len;
    }
    fg_buf_char(b, '"');
}
