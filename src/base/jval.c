// base/jval.c: a recursive-descent parser for JSON values. Strings are decoded in place in the
// document's own copy of the text (no escape is shorter than what it stands for), so the arena
// holds that copy and one array per non-empty array or object.
#include "base/jval.h"
#include "base/utf8.h"
#include <stdio.h>
#include <stdlib.h>

struct parser {
    const char *source; // as given, for positions in errors
    const char *name;
    char *text; // the copy, with a NUL at text[n]: a sentinel, since JSON has no raw NUL
    size_t n, at;
    struct fg_arena *arena;
    // Members (or items, keyless) of the arrays and objects that are still open.
    struct fg_jmember *open;
    size_t n_open, cap_open;
    struct fg_error *err;
};

// Bytes of the well-formed character at s (n > 0 bytes there), 0 when there is none.
static size_t character(const char *s, size_t n)
{
    bool valid;
    size_t length = fg_utf8_step((const unsigned char *)s, n, &valid, NULL);
    return valid ? length : 0;
}

// A Unicode scalar value as UTF-8; returns its bytes.
static size_t put_utf8(char out[4], uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)((0xF00 >> length & 0xFF) | code);
    return length;
}

static int fail_at(const struct parser *p, size_t at, const char *expected)
{
    char where[64], found[8];
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column++;
        if (p->source[i] == '\n') {
            line++;
            column = 1;
        }
    }
    snprintf(where, sizeof where, "%zu:%zu", line, column);
    if (at >= p->n)
        return fg_fail(p->err, FG_EINPUT, "json", p->name, where, expected, "the end of the text");
    size_t length = character(p->source + at, p->n - at);
    if (length == 0 || p->source[at] == '\0')
        return fg_fail(p->err, FG_EINPUT, "json", p->name, where, expected, "byte 0x%02X",
                       (unsigned)(unsigned char)p->source[at]);
    memcpy(found, p->source + at, length);
    found[length] = '\0';
    return fg_fail(p->err, FG_EINPUT, "json", p->name, where, expected, "%s", found);
}

static void skip_space(struct parser *p)
{
    while (p->text[p->at] == ' ' || p->text[p->at] == '\t' || p->text[p->at] == '\n' ||
           p->text[p->at] == '\r')
        p->at++;
}

static bool hex4(const char *s, uint32_t *out)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) { // the sentinel is no hex digit
        char c = s[i];
        if (c >= '0' && c <= '9')
            v = v << 4 | (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            v = v << 4 | (uint32_t)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F')
            v = v << 4 | (uint32_t)(c - 'A' + 10);
        else
            return false;
    }
    *out = v;
    return true;
}

// The escape at p->at (the backslash): decoded to `to`, which does not pass p->at.
static int parse_escape(struct parser *p, char **to)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char c = p->text[p->at + 1];
    const char *known = c ? strchr(names, c) : NULL;
    if (known) {
        *(*to)++ = values[known - names];
        p->at += 2;
        return 0;
    }
    if (c != 'u') return fail_at(p, p->at + 1, "one of \" \\ / b f n r t u after a backslash");
    uint32_t code, low;
    if (!hex4(p->text + p->at + 2, &code))
        return fail_at(p, p->at, "four hexadecimal digits after \\u");
    p->at += 6;
    if (code >= 0xD800 && code < 0xDC00 && p->text[p->at] == '\\' && p->text[p->at + 1] == 'u' &&
        hex4(p->text + p->at + 2, &low) && low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        p->at += 6;
    }
    if (code >= 0xD800 && code < 0xE000) code = 0xFFFD;
    *to += put_utf8(*to, code);
    return 0;
}

static int parse_string(struct parser *p, const char **text, size_t *n)
{
    p->at++; // the opening quote
    char *start = p->text + p->at, *to = start;
    while (p->text[p->at] != '"') {
        char c = p->text[p->at];
        if (c == '\\') {
            int rc = parse_escape(p, &to);
            if (rc) return rc;
            continue;
        }
        if (p->at < p->n && (unsigned char)c < 0x20)
            return fail_at(p, p->at, "no raw control character in a string");
        if (p->at == p->n) return fail_at(p, p->at, "the closing quote of a string");
        size_t length = character(p->text + p->at, p->n - p->at);
        if (length == 0) return fail_at(p, p->at, "valid UTF-8");
        memmove(to, p->text + p->at, length);
        to += length;
        p->at += length;
    }
    p->at++;
    *text = start;
    *n = (size_t)(to - start);
    return 0;
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static int parse_number(struct parser *p, struct fg_jval *out)
{
    size_t start = p->at;
    const char *t = p->text;
    if (t[p->at] == '-') p->at++;
    if (!digit(t[p->at])) return fail_at(p, p->at, "a digit");
    if (t[p->at] == '0')
        p->at++; // and no further digit: "01" fails at what follows the value
    else
        while (digit(t[p->at]))
            p->at++;
    if (t[p->at] == '.') {
        p->at++;
        if (!digit(t[p->at])) return fail_at(p, p->at, "a digit after the decimal point");
        while (digit(t[p->at]))
            p->at++;
    }
    if (t[p->at] == 'e' || t[p->at] == 'E') {
        p->at++;
        if (t[p->at] == '+' || t[p->at] == '-') p->at++;
        if (!digit(t[p->at])) return fail_at(p, p->at, "a digit in the exponent");
        while (digit(t[p->at]))
            p->at++;
    }
    *out = (struct fg_jval){.kind = FG_JNUMBER, .n = p->at - start, .text = t + start};
    return 0;
}

static int parse_word(struct parser *p, const char *word, struct fg_jval value, struct fg_jval *out)
{
    size_t n = strlen(word);
    if (strncmp(p->text + p->at, word, n) != 0) return fail_at(p, p->at, "a JSON value");
    p->at += n;
    *out = value;
    return 0;
}

static int by_key_then_place(const void *a, const void *b)
{
    const struct fg_jmember *x = *(const struct fg_jmember *const *)a,
                            *y = *(const struct fg_jmember *const *)b;
    size_t n = x->key_n < y->key_n ? x->key_n : y->key_n;
    int order = n ? memcmp(x->key, y->key, n) : 0;
    if (order) return order;
    if (x->key_n != y->key_n) return x->key_n < y->key_n ? -1 : 1;
    return x < y ? -1 : x > y;
}

// Repeated keys: first place, last value. By sorting, so that no choice of keys is slow.
static int unite_keys(struct parser *p, struct fg_jmember *members, size_t *n)
{
    if (*n < 2) return 0;
    struct fg_jmember **order = malloc(*n * sizeof *order); // *n members are in memory already
    if (!order) return fg_fail_memory(p->err, "json", *n * sizeof *order);
    for (size_t i = 0; i < *n; i++)
        order[i] = &members[i];
    qsort(order, *n, sizeof *order, by_key_then_place);
    struct fg_jmember *first = order[0];
    bool repeated = false;
    for (size_t i = 1; i < *n; i++) {
        struct fg_jmember *m = order[i];
        if (m->key_n == first->key_n && (m->key_n == 0 || !memcmp(m->key, first->key, m->key_n))) {
            first->value = m->value;
            m->key = NULL;
            repeated = true;
        } else {
            first = m;
        }
    }
    free(order);
    size_t kept = 0;
    for (size_t i = 0; repeated && i < *n; i++) {
        if (members[i].key) members[kept++] = members[i];
    }
    if (repeated) *n = kept;
    return 0;
}

static int push(struct parser *p, struct fg_jmember m)
{
    if (p->n_open == p->cap_open) {
        size_t cap = p->cap_open ? p->cap_open + p->cap_open / 2 : 32;
        struct fg_jmember *grown = realloc(p->open, cap * sizeof *grown); // cap < 2 n + 32
        if (!grown) return fg_fail_memory(p->err, "json", cap * sizeof *grown);
        p->open = grown;
        p->cap_open = cap;
    }
    p->open[p->n_open++] = m;
    return 0;
}

static int close_array(struct parser *p, size_t base, struct fg_jval *out)
{
    size_t n = p->n_open - base;
    struct fg_jval *items = n ? fg_arena_alloc(p->arena, n, sizeof *items) : NULL;
    if (n && !items) return fg_fail_memory(p->err, "json", n * sizeof *items);
    for (size_t i = 0; i < n; i++)
        items[i] = p->open[base + i].value;
    *out = fg_jval_array(items, n);
    return 0;
}

static int close_object(struct parser *p, size_t base, struct fg_jval *out)
{
    size_t n = p->n_open - base;
    struct fg_jmember *members = n ? fg_arena_alloc(p->arena, n, sizeof *members) : NULL;
    if (n && !members) return fg_fail_memory(p->err, "json", n * sizeof *members);
    if (n) memcpy(members, p->open + base, n * sizeof *members);
    int rc = unite_keys(p, members, &n);
    if (rc) return rc;
    *out = fg_jval_object(members, n);
    return 0;
}

static int parse_value(struct parser *p, int depth, struct fg_jval *out);

// The array or object at p->at; `depth` counts the ones around it.
static int parse_container(struct parser *p, int depth, struct fg_jval *out)
{
    bool object = p->text[p->at] == '{';
    char end = object ? '}' : ']';
    size_t base = p->n_open;
    int rc;
    _Static_assert(FG_JVAL_DEPTH_MAX == 128, "the message below names it");
    if (depth >= FG_JVAL_DEPTH_MAX) return fail_at(p, p->at, "at most 128 levels of nesting");
    p->at++;
    skip_space(p);
    for (bool first = true; p->text[p->at] != end; first = false) {
        if (!first) {
            if (p->text[p->at] != ',')
                return fail_at(p, p->at, object ? "',' or '}'" : "',' or ']'");
            p->at++;
            skip_space(p);
        }
        struct fg_jmember m = {.key = ""};
        if (object) {
            if (p->text[p->at] != '"') return fail_at(p, p->at, "a key in quotes");
            if ((rc = parse_string(p, &m.key, &m.key_n))) return rc;
            skip_space(p);
            if (p->text[p->at] != ':') return fail_at(p, p->at, "':' after a key");
            p->at++;
            skip_space(p);
        }
        if ((rc = parse_value(p, depth + 1, &m.value)) || (rc = push(p, m))) return rc;
        skip_space(p);
    }
    p->at++;
    rc = object ? close_object(p, base, out) : close_array(p, base, out);
    p->n_open = base;
    return rc;
}

static int parse_value(struct parser *p, int depth, struct fg_jval *out)
{
    switch (p->text[p->at]) {
    case '{':
    case '[': return parse_container(p, depth, out);
    case '"':
        *out = (struct fg_jval){.kind = FG_JSTRING};
        return parse_string(p, &out->text, &out->n);
    case 't': return parse_word(p, "true", fg_jval_bool(true), out);
    case 'f': return parse_word(p, "false", fg_jval_bool(false), out);
    case 'n': return parse_word(p, "null", (struct fg_jval){0}, out);
    case '-': return parse_number(p, out);
    default:
        if (digit(p->text[p->at])) return parse_number(p, out);
        return fail_at(p, p->at, "a JSON value");
    }
}

int fg_jdoc_parse(struct fg_jdoc *doc, const char *text, size_t n, const char *name,
                  struct fg_error *err)
{
    *doc = (struct fg_jdoc){0};
    fg_arena_init(&doc->arena, 0);
    struct parser p = {.source = text, .name = name, .n = n, .arena = &doc->arena, .err = err};
    int rc;
    p.text = fg_arena_strdup(&doc->arena, text, n);
    if (!p.text) {
        rc = fg_fail_memory(err, "json", n);
        goto fail;
    }
    skip_space(&p);
    if ((rc = parse_value(&p, 0, &doc->root))) goto fail;
    skip_space(&p);
    if (p.at != n) {
        rc = fail_at(&p, p.at, "nothing after the value");
        goto fail;
    }
    free(p.open);
    return 0;
fail:
    free(p.open);
    fg_jdoc_free(doc);
    return rc;
}

void fg_jdoc_free(struct fg_jdoc *doc)
{
    fg_arena_free(&doc->arena);
    doc->root = (struct fg_jval){0};
}

const struct fg_jval *fg_jval_get(const struct fg_jval *object, const char *key)
{
    if (!object || object->kind != FG_JOBJECT) return NULL;
    size_t n = strlen(key);
    for (size_t i = 0; i < object->n; i++) {
        const struct fg_jmember *m = &object->members[i];
        if (m->key_n == n && !memcmp(m->key, key, n)) return &m->value;
    }
    return NULL;
}

bool fg_jval_is(const struct fg_jval *v, const char *s)
{
    return v && v->kind == FG_JSTRING && v->n == strlen(s) &&
           (v->n == 0 || !memcmp(v->text, s, v->n));
}
