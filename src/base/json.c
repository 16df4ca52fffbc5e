// base/json.c: json-c behind limits and typed access.
#include "base/json.h"
#include "base/buf.h"
#include "base/file.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Line and column (in bytes, from 1) of byte `at`.
static void position(const char *text, size_t at, char *out, size_t cap)
{
    size_t line = 1, col = 1;
    for (size_t i = 0; i < at; i++) {
        if (text[i] == '\n') {
            line++;
            col = 1;
        } else {
            col++;
        }
    }
    snprintf(out, cap, "line %zu:%zu", line, col);
}

int fg_json_parse(struct fg_json *doc, const char *text, size_t n, const char *file,
                  struct fg_error *err)
{
    char where[64];
    int rc = 0;
    *doc = (struct fg_json){0};
    if (n >= INT32_MAX)
        return fg_fail(err, FG_EINPUT, "json", file, NULL, "less than 2 GiB", "%zu bytes", n);
    struct json_tokener *tok = json_tokener_new_ex(FG_JSON_DEPTH_MAX);
    doc->file = strdup(file);
    if (!tok || !doc->file) {
        if (tok) json_tokener_free(tok);
        fg_json_close(doc);
        return fg_fail_memory(err, "json", n);
    }
    json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8 |
                                    JSON_TOKENER_ALLOW_TRAILING_CHARS);
    doc->root = json_tokener_parse_ex(tok, text, (int)n);
    enum json_tokener_error e = json_tokener_get_error(tok);
    // A number at the very end leaves the parser waiting for more digits; a NUL ends it.
    if (e == json_tokener_continue && !doc->root) {
        doc->root = json_tokener_parse_ex(tok, "", 1);
        if (json_tokener_get_error(tok) == json_tokener_success) e = json_tokener_success;
    }
    size_t at = json_tokener_get_parse_end(tok);
    if (e == json_tokener_continue) {
        position(text, n, where, sizeof where);
        rc = fg_fail(err, FG_EINPUT, "json", file, where, "a complete JSON value",
                     "the end of the text");
    } else if (e != json_tokener_success) {
        position(text, at < n ? at : n, where, sizeof where);
        rc = fg_fail(err, FG_EINPUT, "json", file, where, "JSON", "%s", json_tokener_error_desc(e));
    } else {
        while (at < n &&
               (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t'))
            at++;
        if (at < n) {
            position(text, at, where, sizeof where);
            rc = fg_fail(err, FG_EINPUT, "json", file, where, "the end of the text", "'%c'",
                         text[at]);
        }
    }
    json_tokener_free(tok);
    if (rc) fg_json_close(doc);
    return rc;
}

int fg_json_open(struct fg_json *doc, const char *path, uint64_t max_bytes, struct fg_error *err)
{
    struct fg_buf text = {0};
    *doc = (struct fg_json){0};
    int rc = fg_file_read(&text, path, max_bytes, err);
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
        n = json_object_get_int64(v); // saturates, and the range check below refuses the ends
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
