// base/json.c: json-c behind limits and typed access.
#include "base/json.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail_at(struct fg_error *err, const char *file, const char *text, size_t at,
                   const char *expected, const char *found)
{
    size_t line = 1, column = 1; // columns in bytes, both from 1
    for (size_t i = 0; i < at; i++) {
        column++;
        if (text[i] == '\n') {
            line++;
            column = 1;
        }
    }
    char where[64];
    snprintf(where, sizeof where, "line %zu:%zu", line, column);
    return fg_fail(err, FG_EINPUT, "json", file, where, expected, "%s", found);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static size_t digits(const char *s, size_t n, size_t at)
{
    while (at < n && is_digit(s[at]))
        at++;
    return at;
}

// Bytes of the number at s, 0 when there is none; a leading zero ends it.
static size_t number(const char *s, size_t n)
{
    size_t at = s[0] == '-', next = digits(s, n, at);
    if (next == at) return 0;
    at = s[at] == '0' ? at + 1 : next;
    if (at < n && s[at] == '.') {
        next = digits(s, n, at + 1);
        if (next == at + 1) return 0;
        at = next;
    }
    if (at < n && (s[at] == 'e' || s[at] == 'E')) {
        at++;
        if (at < n && (s[at] == '+' || s[at] == '-')) at++;
        next = digits(s, n, at);
        if (next == at) return 0;
        at = next;
    }
    return at;
}

// Refuses what json-c lets through and RFC 8259 doesn't: NaN and Infinity, raw control characters,
// ill-formed UTF-8 (json-c looks at the lead bytes only), numbers such as "00" and "1."; and counts
// depth, which json-c counts differently for empty containers.
static int check_text(const char *text, size_t n, const char *file, struct fg_error *err)
{
    bool in_string = false;
    int depth = 0;
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)text[i];
        bool valid;
        size_t len = fg_utf8_step((const unsigned char *)text + i, n - i, &valid, NULL);
        if (!valid) return fail_at(err, file, text, i, "valid UTF-8", "an invalid byte sequence");
        if (c < 0x20 && (in_string || !is_space(text[i])))
            return fail_at(err, file, text, i, "JSON", "a control character");
        if (c == '"') {
            in_string = !in_string;
        } else if (in_string) {
            // The character after a backslash is no closing quote; json-c judges the escape.
            if (c == '\\' && i + 1 < n && text[i + 1] > 0x20) len = 2;
        } else if (c == '[' || c == '{') {
            if (++depth > FG_JSON_DEPTH_MAX)
                return fail_at(err, file, text, i, "at most 64 levels of nesting", "more");
        } else if (c == ']' || c == '}') {
            depth--;
        } else if (c == 'N' || c == 'I' || c == 'i') {
            return fail_at(err, file, text, i, "JSON", "NaN, Infinity or another word");
        } else if (c == '-' || is_digit(text[i])) {
            len = number(text + i, n - i);
            if (len == 0 || (i + len < n && is_digit(text[i + len])))
                return fail_at(err, file, text, i, "a JSON number", "another form");
        }
        i += len;
    }
    return 0;
}

int fg_json_parse(struct fg_json *doc, const char *text, size_t n, const char *file,
                  struct fg_error *err)
{
    *doc = (struct fg_json){0};
    if (n >= INT32_MAX)
        return fg_fail(err, FG_EINPUT, "json", file, NULL, "less than 2 GiB", "%zu bytes", n);
    int rc = check_text(text, n, file, err);
    if (rc) return rc;
    struct json_tokener *tok = json_tokener_new_ex(FG_JSON_DEPTH_MAX + 1);
    doc->file = strdup(file);
    if (!tok || !doc->file) {
        if (tok) json_tokener_free(tok);
        fg_json_close(doc);
        return fg_fail_memory(err, "json", n);
    }
    json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_ALLOW_TRAILING_CHARS);
    doc->root = json_tokener_parse_ex(tok, text, (int)n);
    enum json_tokener_error e = json_tokener_get_error(tok);
    size_t at = json_tokener_get_parse_end(tok), start = 0;
    // A scalar at the very end leaves the parser waiting for more of it; a NUL ends it.
    if (e == json_tokener_continue) {
        doc->root = json_tokener_parse_ex(tok, "", 1);
        if (json_tokener_get_error(tok) == json_tokener_success) e = json_tokener_success;
        at = n;
    }
    while (e == json_tokener_success && at < n && is_space(text[at]))
        at++;
    while (start < n && is_space(text[start]))
        start++;
    if (e == json_tokener_continue)
        rc = fail_at(err, file, text, n, "a complete JSON value", "the end of the text");
    else if (e != json_tokener_success)
        rc = fail_at(err, file, text, at < n ? at : n, "JSON", json_tokener_error_desc(e));
    else if (!doc->root && text[start] != 'n') // how json-c reports that memory is out
        rc = fg_fail_memory(err, "json", n);
    else if (at < n)
        rc = fail_at(err, file, text, at, "the end of the text", (char[]){text[at], '\0'});
    json_tokener_free(tok);
    if (rc) fg_json_close(doc);
    return rc;
}

int fg_json_open(struct fg_json *doc, const char *path, uint64_t max_bytes, struct fg_error *err)
{
    struct fg_buf text = {0};
    *doc = (struct fg_json){0};
    int rc = fg_file_load(&text, path, max_bytes, err);
    if (rc) return rc;
    rc = fg_json_parse(doc, text.data ? text.data : "", text.len, path, err);
    fg_buf_free(&text);
    return rc;
}

void fg_json_close(struct fg_json *doc)
{
    if (doc->root) json_object_put(doc->root);
    free(doc->file);
    *doc = (struct fg_json){0};
}

static int wrong(const struct fg_json *doc, const char *where, const char *key,
                 const char *expected, struct json_object *v, struct fg_error *err)
{
    char field[160];
    snprintf(field, sizeof field, "%s%s", where, key);
    return fg_fail(err, FG_EINPUT, "config", doc->file, field, expected, "%.100s",
                   v ? json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN |
                                                             JSON_C_TO_STRING_NOSLASHESCAPE)
                     : "null");
}

bool fg_json_has(struct json_object *obj, const char *key)
{
    struct json_object *v;
    return json_object_object_get_ex(obj, key, &v) && v != NULL;
}

int fg_json_i64(const struct fg_json *doc, struct json_object *obj, const char *where,
                const char *key, int64_t def, int64_t min, int64_t max, int64_t *out, bool *given,
                struct fg_error *err)
{
    struct json_object *v = NULL;
    *out = def;
    if (given) *given = false;
    if (!json_object_object_get_ex(obj, key, &v) || !v) return 0;
    int64_t n;
    if (json_object_is_type(v, json_type_int)) {
        n = json_object_get_int64(v);
        // Numbers outside 64 bits saturate. Those above are held unsigned; below, the smallest one
        // stands for all.
        if (json_object_get_uint64(v) > INT64_MAX || n == INT64_MIN)
            return wrong(doc, where, key, "an integer of 64 bits", v, err);
    } else if (json_object_is_type(v, json_type_double)) {
        double d = json_object_get_double(v);
        if (!(fabs(d) <= 0x1p53) || d != floor(d))
            return wrong(doc, where, key, "an integer", v, err);
        n = (int64_t)d;
    } else {
        return wrong(doc, where, key, "an integer", v, err);
    }
    if (n < min || n > max) {
        char expected[64];
        snprintf(expected, sizeof expected, "%" PRId64 " to %" PRId64, min, max);
        return wrong(doc, where, key, expected, v, err);
    }
    *out = n;
    if (given) *given = true;
    return 0;
}

int fg_json_f64(const struct fg_json *doc, struct json_object *obj, const char *where,
                const char *key, double def, double *out, bool *given, struct fg_error *err)
{
    struct json_object *v = NULL;
    *out = def;
    if (given) *given = false;
    if (!json_object_object_get_ex(obj, key, &v) || !v) return 0;
    if (!json_object_is_type(v, json_type_int) && !json_object_is_type(v, json_type_double))
        return wrong(doc, where, key, "a number", v, err);
    double d = json_object_get_double(v);
    if (!isfinite(d)) return wrong(doc, where, key, "a finite number", v, err);
    *out = d;
    if (given) *given = true;
    return 0;
}

int fg_json_bool(const struct fg_json *doc, struct json_object *obj, const char *where,
                 const char *key, bool def, bool *out, bool *given, struct fg_error *err)
{
    struct json_object *v = NULL;
    *out = def;
    if (given) *given = false;
    if (!json_object_object_get_ex(obj, key, &v) || !v) return 0;
    if (!json_object_is_type(v, json_type_boolean))
        return wrong(doc, where, key, "true or false", v, err);
    *out = json_object_get_boolean(v);
    if (given) *given = true;
    return 0;
}

int fg_json_str(const struct fg_json *doc, struct json_object *obj, const char *where,
                const char *key, const char *def, const char **out, size_t *n, struct fg_error *err)
{
    struct json_object *v = NULL;
    *out = def;
    if (n) *n = def ? strlen(def) : 0;
    if (!json_object_object_get_ex(obj, key, &v) || !v) return 0;
    if (!json_object_is_type(v, json_type_string))
        return wrong(doc, where, key, "a string", v, err);
    *out = json_object_get_string(v);
    if (n) *n = (size_t)json_object_get_string_len(v);
    return 0;
}

static int container(const struct fg_json *doc, struct json_object *obj, const char *where,
                     const char *key, enum json_type type, const char *expected,
                     struct json_object **out, struct fg_error *err)
{
    struct json_object *v = NULL;
    *out = NULL;
    if (!json_object_object_get_ex(obj, key, &v) || !v) return 0;
    if (!json_object_is_type(v, type)) return wrong(doc, where, key, expected, v, err);
    *out = v;
    return 0;
}

int fg_json_obj(const struct fg_json *doc, struct json_object *obj, const char *where,
                const char *key, struct json_object **out, struct fg_error *err)
{
    return container(doc, obj, where, key, json_type_object, "an object", out, err);
}

int fg_json_arr(const struct fg_json *doc, struct json_object *obj, const char *where,
                const char *key, struct json_object **out, struct fg_error *err)
{
    return container(doc, obj, where, key, json_type_array, "an array", out, err);
}
