#include "format/json_scan.h"
#include "base/num.h"
#include "base/utf8.h"
#include <stdio.h>
#include <string.h>

size_t fg_utf8_valid_bytes(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t word; // eight ASCII bytes at a time where they are
        while (n - i >= 8 && (memcpy(&word, s + i, 8), !(word & 0x8080808080808080u))) {
            i += 8;
        }
        if (i == n) break;
        bool valid;
        size_t step = fg_utf8_step((const unsigned char *)s + i, n - i, &valid, NULL);
        if (!valid) break;
        i += step;
    }
    return i;
}

static int fail_at(const struct fg_scan *s, const char *expected, struct fg_error *err)
{
    char field[64], found[8];
    snprintf(field, sizeof field, "JSON byte %zu", s->at);
    if (s->at >= s->n) {
        return fg_fail(err, FG_EINPUT, s->what, s->file, field, expected, "the end of the text");
    }
    fg_escape(found, sizeof found, s->text + s->at, 1);
    return fg_fail(err, FG_EINPUT, s->what, s->file, field, expected, "'%s'", found);
}

int fg_scan_begin(struct fg_scan *s, const char *text, size_t n, const char *what, const char *file,
                  struct fg_error *err)
{
    *s = (struct fg_scan){.text = text, .n = n, .what = what, .file = file};
    size_t good = fg_utf8_valid_bytes(text, n);
    if (good == n) return 0;
    char field[64];
    snprintf(field, sizeof field, "JSON byte %zu", good);
    return fg_fail(err, FG_EINPUT, what, file, field, "UTF-8", "byte 0x%02X",
                   (unsigned)(unsigned char)text[good]);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

char fg_scan_peek(struct fg_scan *s)
{
    while (s->at < s->n && is_space(s->text[s->at])) {
        s->at++;
    }
    return s->at < s->n ? s->text[s->at] : '\0';
}

int fg_scan_end(struct fg_scan *s, struct fg_error *err)
{
    fg_scan_peek(s);
    return s->at == s->n ? 0 : fail_at(s, "nothing more", err);
}

int fg_scan_char(struct fg_scan *s, char c, struct fg_error *err)
{
    char expected[4] = {'\'', c, '\'', '\0'};
    if (fg_scan_peek(s) != c || s->at == s->n) return fail_at(s, expected, err);
    s->at++;
    return 0;
}

int fg_scan_next(struct fg_scan *s, char close, bool *first, bool *more, struct fg_error *err)
{
    if (fg_scan_peek(s) == close) {
        s->at++;
        *more = false;
        return 0;
    }
    *more = true;
    if (!*first) {
        int rc = fg_scan_char(s, ',', err);
        if (rc) return rc;
        if (fg_scan_peek(s) == close) return fail_at(s, "a value after ','", err);
    }
    *first = false;
    return 0;
}

static bool hex4(const struct fg_scan *s, size_t at, unsigned *out)
{
    if (s->n - at < 4) return false;
    unsigned v = 0;
    for (size_t i = at; i < at + 4; i++) {
        char c = s->text[i];
        unsigned digit;
        if (c >= '0' && c <= '9') {
            digit = (unsigned)(c - '0');
        } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
            digit = (unsigned)((c | 0x20) - 'a') + 10;
        } else {
            return false;
        }
        v = v << 4 | digit;
    }
    *out = v;
    return true;
}

static void add_code_point(struct fg_buf *out, unsigned c)
{
    char b[4];
    size_t n = 0;
    if (c < 0x80) {
        b[n++] = (char)c;
    } else if (c < 0x800) {
        b[n++] = (char)(0xC0 | c >> 6);
        b[n++] = (char)(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        b[n++] = (char)(0xE0 | c >> 12);
        b[n++] = (char)(0x80 | (c >> 6 & 0x3F));
        b[n++] = (char)(0x80 | (c & 0x3F));
    } else {
        b[n++] = (char)(0xF0 | c >> 18);
        b[n++] = (char)(0x80 | (c >> 12 & 0x3F));
        b[n++] = (char)(0x80 | (c >> 6 & 0x3F));
        b[n++] = (char)(0x80 | (c & 0x3F));
    }
    fg_buf_add(out, b, n);
}

// The escape whose backslash stands at s->at. Consumes it.
static int escape(struct fg_scan *s, struct fg_buf *out, struct fg_error *err)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = s->at + 1 < s->n ? s->text[s->at + 1] : '\0';
    if (c == 'u') {
        unsigned hi, lo;
        if (!hex4(s, s->at + 2, &hi) || hi == 0) return fail_at(s, "\\u0001 to \\uFFFF", err);
        if (hi < 0xD800 || hi > 0xDFFF) {
            add_code_point(out, hi);
            s->at += 6;
            return 0;
        }
        bool pair = hi < 0xDC00 && s->n - s->at >= 12 && s->text[s->at + 6] == '\\' &&
                    s->text[s->at + 7] == 'u' && hex4(s, s->at + 8, &lo) && lo >= 0xDC00 &&
                    lo <= 0xDFFF;
        if (!pair) return fail_at(s, "a surrogate pair", err);
        add_code_point(out, 0x10000 + ((hi - 0xD800) << 10) + (lo - 0xDC00));
        s->at += 12;
        return 0;
    }
    const char *known = c ? strchr(from, c) : NULL;
    if (!known) return fail_at(s, "a JSON escape", err);
    fg_buf_char(out, to[known - from]);
    s->at += 2;
    return 0;
}

int fg_scan_string(struct fg_scan *s, struct fg_buf *out, struct fg_error *err)
{
    fg_buf_clear(out);
    fg_buf_add(out, "", 0);
    if (fg_scan_peek(s) != '"') return fail_at(s, "a string", err);
    s->at++;
    for (;;) {
        size_t run = s->at;
        while (run < s->n && s->text[run] != '"' && s->text[run] != '\\' &&
               (unsigned char)s->text[run] >= 0x20) {
            run++;
        }
        fg_buf_add(out, s->text + s->at, run - s->at);
        s->at = run;
        if (run == s->n || (unsigned char)s->text[run] < 0x20) return fail_at(s, "'\"'", err);
        if (s->text[run] == '"') break;
        int rc = escape(s, out, err);
        if (rc) return rc;
    }
    s->at++;
    return out->failed ? fg_fail_memory(err, s->what, out->len) : 0;
}

int fg_scan_key(struct fg_scan *s, struct fg_buf *out, struct fg_error *err)
{
    int rc = fg_scan_string(s, out, err);
    return rc ? rc : fg_scan_char(s, ':', err);
}

static bool is_digit(const struct fg_scan *s, size_t at)
{
    return at < s->n && s->text[at] >= '0' && s->text[at] <= '9';
}

int fg_scan_u64(struct fg_scan *s, uint64_t *out, struct fg_error *err)
{
    static const char expected[] = "an integer from 0 to 2^64-1";
    fg_scan_peek(s);
    size_t i = s->at;
    uint64_t v = 0;
    if (!is_digit(s, i) || (s->text[i] == '0' && is_digit(s, i + 1))) {
        return fail_at(s, expected, err);
    }
    for (; is_digit(s, i); i++) {
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(s->text[i] - '0'), &v)) {
            return fail_at(s, expected, err);
        }
    }
    if (i < s->n && memchr(".eE", s->text[i], 3)) return fail_at(s, expected, err);
    s->at = i;
    *out = v;
    return 0;
}

static int skip_number(struct fg_scan *s, struct fg_error *err)
{
    size_t i = s->at;
    if (s->text[i] == '-') i++;
    if (!is_digit(s, i)) return fail_at(s, "a JSON value", err);
    if (s->text[i] == '0') {
        i++;
    } else {
        while (is_digit(s, i)) {
            i++;
        }
    }
    if (i < s->n && s->text[i] == '.') {
        if (!is_digit(s, ++i)) return fail_at(s, "a JSON number", err);
        while (is_digit(s, i)) {
            i++;
        }
    }
    if (i < s->n && (s->text[i] == 'e' || s->text[i] == 'E')) {
        i++;
        if (i < s->n && (s->text[i] == '+' || s->text[i] == '-')) i++;
        if (!is_digit(s, i)) return fail_at(s, "a JSON number", err);
        while (is_digit(s, i)) {
            i++;
        }
    }
    s->at = i;
    return 0;
}

// Consumes the word where it stands.
static bool take_word(struct fg_scan *s, const char *word)
{
    size_t len = strlen(word);
    fg_scan_peek(s);
    if (s->n - s->at < len || memcmp(s->text + s->at, word, len) != 0) return false;
    s->at += len;
    return true;
}

int fg_scan_f64(struct fg_scan *s, double *out, struct fg_error *err)
{
    char text[64];
    fg_scan_peek(s);
    size_t start = s->at;
    if (start == s->n) return fail_at(s, "a JSON number", err);
    int rc = skip_number(s, err);
    if (rc) return rc;
    size_t n = s->at - start;
    if (n < sizeof text) {
        memcpy(text, s->text + start, n);
        text[n] = '\0';
        if (fg_parse_f64(text, out)) return 0;
    }
    s->at = start;
    return fail_at(s, "a number of fewer than 64 digits in a double's range", err);
}

int fg_scan_bool(struct fg_scan *s, bool *out, struct fg_error *err)
{
    *out = take_word(s, "true");
    return *out || take_word(s, "false") ? 0 : fail_at(s, "true or false", err);
}

int fg_scan_null(struct fg_scan *s, bool *was_null, struct fg_error *err)
{
    *was_null = fg_scan_peek(s) == 'n';
    return !*was_null || take_word(s, "null") ? 0 : fail_at(s, "null", err);
}

static int skip_value(struct fg_scan *s, struct fg_buf *scratch, int levels, struct fg_error *err)
{
    char c = fg_scan_peek(s);
    if (c == '"') return fg_scan_string(s, scratch, err);
    if (c == '{' || c == '[') {
        if (levels == 0) return fail_at(s, "a value that is not nested so deep", err);
        char close = c == '{' ? '}' : ']';
        bool first = true, more;
        int rc;
        s->at++;
        while ((rc = fg_scan_next(s, close, &first, &more, err)) == 0 && more) {
            if (c == '{' && (rc = fg_scan_key(s, scratch, err))) return rc;
            if ((rc = skip_value(s, scratch, levels - 1, err))) return rc;
        }
        return rc;
    }
    if (take_word(s, "true") || take_word(s, "false") || take_word(s, "null")) return 0;
    if (s->at == s->n) return fail_at(s, "a JSON value", err);
    return skip_number(s, err);
}

int fg_scan_skip_within(struct fg_scan *s, int levels, struct fg_error *err)
{
    struct fg_buf scratch = {0};
    int rc = skip_value(s, &scratch, levels, err);
    fg_buf_free(&scratch);
    return rc;
}

int fg_scan_skip(struct fg_scan *s, struct fg_error *err)
{
    return fg_scan_skip_within(s, FG_SCAN_DEPTH_MAX, err);
}
