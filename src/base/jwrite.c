// base/jwrite.c: JSON text, value by value.
#include "base/jwrite.h"
#include "base/num.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

void fg_jwrite_free(struct fg_jwrite *w)
{
    fg_buf_free(&w->buf);
    w->comma = false;
}

static void begin(struct fg_jwrite *w, const char *key)
{
    if (w->comma) fg_buf_str(&w->buf, ", ");
    if (key) {
        fg_buf_json_str(&w->buf, key, strlen(key));
        fg_buf_str(&w->buf, ": ");
    }
    w->comma = true;
}

static void open_with(struct fg_jwrite *w, const char *key, char c)
{
    begin(w, key);
    fg_buf_char(&w->buf, c);
    w->comma = false;
}

static void close_with(struct fg_jwrite *w, char c)
{
    fg_buf_char(&w->buf, c);
    w->comma = true;
}

void fg_jwrite_object(struct fg_jwrite *w, const char *key)
{
    open_with(w, key, '{');
}

void fg_jwrite_array(struct fg_jwrite *w, const char *key)
{
    open_with(w, key, '[');
}

void fg_jwrite_end_object(struct fg_jwrite *w)
{
    close_with(w, '}');
}

void fg_jwrite_end_array(struct fg_jwrite *w)
{
    close_with(w, ']');
}

void fg_jwrite_text(struct fg_jwrite *w, const char *key, const char *s, size_t n)
{
    begin(w, key);
    if (s) {
        fg_buf_json_str(&w->buf, s, n);
    } else {
        fg_buf_str(&w->buf, "null");
    }
}

void fg_jwrite_str(struct fg_jwrite *w, const char *key, const char *s)
{
    fg_jwrite_text(w, key, s, s ? strlen(s) : 0);
}

void fg_jwrite_int(struct fg_jwrite *w, const char *key, int64_t v)
{
    begin(w, key);
    fg_buf_printf(&w->buf, "%" PRId64, v);
}

void fg_jwrite_uint(struct fg_jwrite *w, const char *key, uint64_t v)
{
    begin(w, key);
    fg_buf_printf(&w->buf, "%" PRIu64, v);
}

void fg_jwrite_num(struct fg_jwrite *w, const char *key, double v)
{
    char text[32];
    begin(w, key);
    fg_buf_str(&w->buf, isfinite(v) ? fg_format_f64(text, sizeof text, v) : "null");
}

void fg_jwrite_bool(struct fg_jwrite *w, const char *key, bool v)
{
    begin(w, key);
    fg_buf_str(&w->buf, v ? "true" : "false");
}

void fg_jwrite_null(struct fg_jwrite *w, const char *key)
{
    begin(w, key);
    fg_buf_str(&w->buf, "null");
}
