#include "format/json_fields.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

size_t fg_fields_push(struct fg_fields *r, const char *key)
{
    size_t before = r->pointer_n;
    if (before + 1 < sizeof r->pointer) r->pointer[r->pointer_n++] = '/';
    for (; *key && r->pointer_n + 2 < sizeof r->pointer; key++) {
        if (*key == '~' || *key == '/') { // RFC 6901
            r->pointer[r->pointer_n++] = '~';
            r->pointer[r->pointer_n++] = *key == '~' ? '0' : '1';
        } else {
            r->pointer[r->pointer_n++] = *key;
        }
    }
    r->pointer[r->pointer_n] = '\0';
    return before;
}

size_t fg_fields_push_index(struct fg_fields *r, int64_t i)
{
    char key[32];
    snprintf(key, sizeof key, "%" PRId64, i);
    return fg_fields_push(r, key);
}

void fg_fields_pop(struct fg_fields *r, size_t before)
{
    r->pointer_n = before;
    r->pointer[before] = '\0';
}

int fg_fields_fail(const struct fg_fields *r, const char *expected, const char *found)
{
    return fg_fail(r->err, FG_EINPUT, r->s.what, r->s.file, r->pointer_n ? r->pointer : "/",
                   expected, "%s", found);
}

int fg_fields_here(const struct fg_fields *r, int rc)
{
    if (rc != FG_EINPUT || !r->err || strncmp(r->err->field, "JSON byte", 9) != 0) return rc;
    char at[64], field[FG_POINTER_BYTES + 80];
    snprintf(at, sizeof at, "%.63s", r->err->field);
    snprintf(field, sizeof field, "%.120s (%s)", r->pointer_n ? r->pointer : "/", at);
    fg_escape(r->err->field, sizeof r->err->field, field, strlen(field));
    return rc;
}

int fg_fields_enter(struct fg_fields *r, char open)
{
    int rc = fg_scan_char(&r->s, open, r->err);
    if (rc) return fg_fields_here(r, rc);
    if (r->depth == r->depth_max)
        return fg_fields_fail(r, "values that are not nested so deep", "more");
    r->depth++;
    return 0;
}

int fg_fields_text(struct fg_fields *r, const char **out)
{
    int rc = fg_scan_string(&r->s, &r->text, r->err);
    if (rc) return fg_fields_here(r, rc);
    *out = fg_arena_strdup(r->arena, r->text.data, r->text.len);
    return *out ? 0 : fg_fail_memory(r->err, r->s.what, r->text.len);
}

int fg_fields_int(struct fg_fields *r, int64_t min, int64_t max, int64_t *out)
{
    uint64_t v;
    int rc = fg_scan_u64(&r->s, &v, r->err);
    if (rc) return fg_fields_here(r, rc);
    int64_t n = v > INT64_MAX ? INT64_MAX : (int64_t)v;
    if (n < min || n > max) {
        return fg_fail_range(r->err, r->s.what, r->s.file, r->pointer, min, max, n);
    }
    *out = n;
    return 0;
}

void fg_fields_leave(struct fg_fields *r)
{
    r->depth--;
}

static int read_field(struct fg_fields *r, const struct fg_field *f, void *base)
{
    void *out = (char *)base + (f->at == FG_FIELD_NOWHERE ? 0 : f->at);
    int64_t constant;
    bool is_null;
    int rc;
    switch (f->kind) {
    case FG_FIELD_TEXT: return fg_fields_text(r, out);
    case FG_FIELD_MAYBE_TEXT:
        rc = fg_scan_null(&r->s, &is_null, r->err);
        return rc || is_null ? fg_fields_here(r, rc) : fg_fields_text(r, out);
    case FG_FIELD_INTEGER:
        return fg_fields_int(r, f->min, f->max, f->at == FG_FIELD_NOWHERE ? &constant : out);
    case FG_FIELD_U64: return fg_fields_here(r, fg_scan_u64(&r->s, out, r->err));
    case FG_FIELD_REAL: return fg_fields_here(r, fg_scan_f64(&r->s, out, r->err));
    case FG_FIELD_SAME:
        rc = fg_scan_string(&r->s, &r->text, r->err);
        if (rc) return fg_fields_here(r, rc);
        return strcmp(r->text.data, f->is) == 0 ? 0 : fg_fields_fail(r, f->is, r->text.data);
    default: return f->read(r, base);
    }
}

// A key of no table. Remembered for the debug log, skipped.
static int ignore(struct fg_fields *r)
{
    if (r->n_ignored < FG_FIELDS_IGNORED_MAX) {
        const char *copy = fg_arena_strdup(r->arena, r->pointer, r->pointer_n);
        if (!copy) return fg_fail_memory(r->err, r->s.what, r->pointer_n);
        r->ignored[r->n_ignored++] = copy;
    }
    return fg_fields_here(r, fg_scan_skip_within(&r->s, r->depth_max - r->depth, r->err));
}

int fg_fields_object(struct fg_fields *r, const struct fg_field *fields, size_t n, bool strict,
                     void *base)
{
    uint32_t seen = 0;
    bool first = true, more;
    int rc = fg_fields_enter(r, '{');
    if (rc) return rc;
    while ((rc = fg_scan_next(&r->s, '}', &first, &more, r->err)) == 0 && more) {
        if ((rc = fg_scan_key(&r->s, &r->text, r->err))) return fg_fields_here(r, rc);
        size_t k = 0, before = fg_fields_push(r, r->text.data);
        while (k < n && strcmp(fields[k].key, r->text.data) != 0) {
            k++;
        }
        if (k < n && (seen & 1u << k)) return fg_fields_fail(r, "the key once", "twice");
        if (k < n) {
            seen |= 1u << k;
            rc = read_field(r, &fields[k], base);
        } else {
            rc = strict ? fg_fields_fail(r, "a key that is known here", "another") : ignore(r);
        }
        if (rc) return rc;
        fg_fields_pop(r, before);
    }
    if (rc) return fg_fields_here(r, rc);
    fg_fields_leave(r);
    for (size_t k = 0; k < n; k++) {
        if (fields[k].optional || (seen & 1u << k)) continue;
        fg_fields_push(r, fields[k].key);
        return fg_fields_fail(r, "the key", "none");
    }
    return 0;
}

int fg_fields_ints(struct fg_fields *r, const int64_t **out, int64_t *n)
{
    int64_t values[FG_FIELDS_INTS_MAX];
    bool first = true, more;
    int rc = fg_fields_enter(r, '[');
    if (rc) return rc;
    *n = 0;
    while ((rc = fg_scan_next(&r->s, ']', &first, &more, r->err)) == 0 && more) {
        size_t before = fg_fields_push_index(r, *n);
        if (*n == FG_FIELDS_INTS_MAX) return fg_fields_fail(r, "at most 1024 elements", "more");
        if ((rc = fg_fields_int(r, 0, INT64_MAX, &values[*n]))) return rc;
        ++*n;
        fg_fields_pop(r, before);
    }
    if (rc) return fg_fields_here(r, rc);
    fg_fields_leave(r);
    int64_t *copy = fg_arena_alloc(r->arena, (uint64_t)*n, sizeof *copy);
    if (!copy) return fg_fail_memory(r->err, r->s.what, (uint64_t)*n * sizeof *copy);
    if (*n) memcpy(copy, values, (size_t)*n * sizeof *copy);
    *out = copy;
    return 0;
}
