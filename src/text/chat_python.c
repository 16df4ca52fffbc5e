// text/chat_python.c: Python's behaviour where the templates depend on it.
#include "text/chat_python.h"
#include "base/num.h"
#include <math.h>
#include <string.h>

static bool space_byte(unsigned char c)
{
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
}

// White space outside ASCII, in UTF-8. A lead byte starts each, so a match read backwards from the
// end of valid text is one character too.
static bool space2(const char *s)
{
    return memcmp(s, "\xC2\x85", 2) == 0 || memcmp(s, "\xC2\xA0", 2) == 0; // U+0085, U+00A0
}

static bool space3(const char *s)
{
    const unsigned char *u = (const unsigned char *)s;
    if (u[0] == 0xE2 && u[1] == 0x80) // U+2000-200A, 2028, 2029, 202F
        return (u[2] >= 0x80 && u[2] <= 0x8A) || u[2] == 0xA8 || u[2] == 0xA9 || u[2] == 0xAF;
    return memcmp(s, "\xE1\x9A\x80", 3) == 0 || memcmp(s, "\xE2\x81\x9F", 3) == 0 ||
           memcmp(s, "\xE3\x80\x80", 3) == 0; // U+1680, 205F, 3000
}

void fg_chat_strip(const char *s, size_t n, size_t *from, size_t *to)
{
    size_t a = 0, b = n;
    for (;;) {
        if (a < b && space_byte((unsigned char)s[a]))
            a++;
        else if (b - a >= 2 && space2(s + a))
            a += 2;
        else if (b - a >= 3 && space3(s + a))
            a += 3;
        else
            break;
    }
    for (;;) {
        if (a < b && space_byte((unsigned char)s[b - 1]))
            b--;
        else if (b - a >= 2 && space2(s + b - 2))
            b -= 2;
        else if (b - a >= 3 && space3(s + b - 3))
            b -= 3;
        else
            break;
    }
    *from = a;
    *to = b;
}

static bool is_integer(const struct fg_jval *v)
{
    for (size_t i = 0; i < v->n; i++) {
        if (v->text[i] == '.' || v->text[i] == 'e' || v->text[i] == 'E') return false;
    }
    return true;
}

// The double that a number's text reads as; past the largest one, an infinity. The text is copied,
// since it ends without a NUL. False when memory is out.
static bool to_double(const struct fg_jval *v, double *out)
{
    struct fg_buf text = {0};
    fg_buf_add(&text, v->text, v->n);
    bool ok = !text.failed;
    if (ok && !fg_parse_f64(text.data, out))
        *out = v->text[0] == '-' ? -HUGE_VAL : HUGE_VAL; // valid JSON: only overflow is refused
    fg_buf_free(&text);
    return ok;
}

static void number(struct fg_buf *b, const struct fg_jval *v, const char *infinity)
{
    double d;
    char text[40];
    if (is_integer(v)) {
        if (v->n == 2 && memcmp(v->text, "-0", 2) == 0)
            fg_buf_char(b, '0');
        else
            fg_buf_add(b, v->text, v->n);
    } else if (!to_double(v, &d)) {
        b->failed = true;
    } else if (isinf(d)) {
        fg_buf_printf(b, "%s%s", d < 0 ? "-" : "", infinity);
    } else {
        fg_buf_str(b, fg_format_f64(text, sizeof text, d));
    }
}

void fg_chat_json(struct fg_buf *b, const struct fg_jval *v)
{
    switch (v->kind) {
    case FG_JNULL: fg_buf_str(b, "null"); break;
    case FG_JBOOL: fg_buf_str(b, v->truth ? "true" : "false"); break;
    case FG_JNUMBER: number(b, v, "Infinity"); break;
    case FG_JSTRING: fg_buf_json_str(b, v->text, v->n); break;
    case FG_JARRAY:
        fg_buf_char(b, '[');
        for (size_t i = 0; i < v->n; i++) {
            if (i) fg_buf_str(b, ", ");
            fg_chat_json(b, &v->items[i]);
        }
        fg_buf_char(b, ']');
        break;
    case FG_JOBJECT:
        fg_buf_char(b, '{');
        for (size_t i = 0; i < v->n; i++) {
            if (i) fg_buf_str(b, ", ");
            fg_buf_json_str(b, v->members[i].key, v->members[i].key_n);
            fg_buf_str(b, ": ");
            fg_chat_json(b, &v->members[i].value);
        }
        fg_buf_char(b, '}');
        break;
    }
}

void fg_chat_str(struct fg_buf *b, const struct fg_jval *v)
{
    switch (v->kind) {
    case FG_JNULL: fg_buf_str(b, "None"); break;
    case FG_JBOOL: fg_buf_str(b, v->truth ? "True" : "False"); break;
    case FG_JNUMBER: number(b, v, "inf"); break;
    case FG_JSTRING: fg_buf_add(b, v->text, v->n); break;
    case FG_JARRAY:
    case FG_JOBJECT: fg_chat_json(b, v); break;
    }
}

bool fg_chat_truth(const struct fg_jval *v)
{
    if (!v) return false;
    switch (v->kind) {
    case FG_JNULL: return false;
    case FG_JBOOL: return v->truth;
    case FG_JNUMBER: break;
    default: return v->n > 0;
    }
    // By its double, since 1e-400 is zero too.
    double d;
    return !to_double(v, &d) || d != 0;
}
