// Reading one safetensors file in the order of specs/runtime.md 1.4: size, length of the header,
// JSON, offsets. Memory grows with what has been read of the header, never with a number in it.
#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/size.h"
#include "format/json_scan.h"
#include "format/names.h"
#include "format/st_file.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    struct fg_st_tensor t;
    uint64_t begin, end; // from the start of the data
};

struct fg_st_file {
    const char *what;
    struct fg_arena arena; // strings
    struct fg_map map;
    struct entry *entries; // by place
    uint64_t n, cap;
    struct fg_name *names; // sorted
    struct fg_st_pair *metadata;
    uint64_t n_metadata, cap_metadata, metadata_bytes;
    uint64_t header_bytes, data_bytes;
};

#define FIELD_BYTES 192
#define KEY_BYTES_MAX 64 // of words that the format knows

// "PART of NAME" into out, which holds FIELD_BYTES.
static const char *field_of(char *out, const char *part, const char *name)
{
    snprintf(out, FIELD_BYTES, "%s of %s", part, name);
    return out;
}

// Gives an error of the scanner the name of the part that it was in. The scanner counts bytes from
// the start of the JSON; users count from the start of the file.
static int relabel(int rc, const char *part, const char *name, struct fg_error *err)
{
    unsigned long long at;
    if (rc != FG_EINPUT || !err || sscanf(err->field, "JSON byte %llu", &at) != 1) return rc;
    if (name) {
        char field[FIELD_BYTES];
        field_of(field, part, name);
        fg_escape(err->field, sizeof err->field, field, strlen(field));
    } else {
        snprintf(err->field, sizeof err->field, "%s (byte %llu)", part, at + 8);
    }
    return rc;
}

static bool grow(void **array, uint64_t n, uint64_t *cap, size_t element_bytes)
{
    if (n < *cap) return true;
    uint64_t more = *cap ? *cap + *cap / 2 : 64;
    void *p = realloc(*array, more * element_bytes);
    if (!p) return false;
    *array = p;
    *cap = more;
    return true;
}

// ---- header

// Refuses a string of more than `max` bytes, as they stand in the JSON, before it is copied.
static int check_length(const struct fg_st_file *f, struct fg_scan *s, uint64_t max,
                        const char *field, const char *expected, struct fg_error *err)
{
    if (fg_scan_peek(s) != '"') return 0; // the scanner tells what is wrong
    uint64_t n = 0;
    for (size_t i = s->at + 1; i < s->n && s->text[i] != '"' && n <= max; i++, n++) {
        if (s->text[i] != '\\') continue;
        i++;
        n++;
    }
    if (n <= max) return 0;
    return fg_fail(err, FG_EINPUT, f->what, f->map.path, field, expected, "more");
}

static int add_metadata(struct fg_st_file *f, struct fg_scan *s, struct fg_buf *text,
                        struct fg_error *err)
{
    struct fg_st_pair p;
    if (f->n_metadata == FG_ST_FILE_METADATA_MAX) {
        return fg_fail(err, FG_EINPUT, f->what, f->map.path, "__metadata__", "at most 1024 keys",
                       "more");
    }
    static const char expected[] = "keys and values of at most 4194304 bytes";
    uint64_t left = FG_ST_FILE_METADATA_BYTES_MAX - f->metadata_bytes;
    int rc = check_length(f, s, left, "__metadata__", expected, err);
    if (rc) return rc;
    if ((rc = fg_scan_key(s, text, err))) return relabel(rc, "header", NULL, err);
    left -= text->len;
    p.key = fg_arena_strdup(&f->arena, text->data, text->len);
    if (!p.key) return fg_fail_memory(err, f->what, text->len);
    if ((rc = check_length(f, s, left, "__metadata__", expected, err))) return rc;
    if ((rc = fg_scan_string(s, text, err))) return relabel(rc, "header", NULL, err);
    f->metadata_bytes = FG_ST_FILE_METADATA_BYTES_MAX - left + text->len;
    p.value = fg_arena_strdup(&f->arena, text->data, text->len);
    if (!p.value || !grow((void **)&f->metadata, f->n_metadata, &f->cap_metadata, sizeof p)) {
        return fg_fail_memory(err, f->what, text->len);
    }
    f->metadata[f->n_metadata++] = p;
    return 0;
}

static int scan_metadata(struct fg_st_file *f, struct fg_scan *s, struct fg_buf *text,
                         struct fg_error *err)
{
    bool first = true, more;
    int rc = fg_scan_char(s, '{', err);
    if (rc) return relabel(rc, "header", NULL, err);
    while ((rc = fg_scan_next(s, '}', &first, &more, err)) == 0 && more) {
        if ((rc = add_metadata(f, s, text, err))) return rc;
    }
    if (rc) return relabel(rc, "header", NULL, err);
    if (f->n_metadata == 0) return 0;
    struct fg_name *keys = malloc(f->n_metadata * sizeof *keys);
    if (!keys) return fg_fail_memory(err, f->what, f->n_metadata * sizeof *keys);
    for (uint64_t i = 0; i < f->n_metadata; i++) {
        keys[i] = (struct fg_name){f->metadata[i].key, i};
    }
    const char *twice = fg_names_sort(keys, f->n_metadata);
    free(keys);
    if (twice) {
        return fg_fail(err, FG_EINPUT, f->what, f->map.path, "__metadata__", "each key once",
                       "\"%s\" twice", twice);
    }
    return 0;
}

static int scan_shape(struct fg_st_file *f, struct fg_scan *s, struct fg_st_tensor *t,
                      struct fg_error *err)
{
    char field[FIELD_BYTES];
    bool first = true, more;
    int rc = fg_scan_char(s, '[', err);
    if (rc) return rc;
    field_of(field, "shape", t->name);
    while ((rc = fg_scan_next(s, ']', &first, &more, err)) == 0 && more) {
        if (t->rank == FG_ST_RANK_MAX) {
            return fg_fail(err, FG_EINPUT, f->what, f->map.path, field, "at most 8 dimensions",
                           "more");
        }
        uint64_t d;
        if ((rc = fg_scan_u64(s, &d, err))) return rc;
        if (d >= FG_ST_FILE_DIM_MAX) {
            return fg_fail(err, FG_EINPUT, f->what, f->map.path, field, "dimensions below 2^40",
                           "%" PRIu64, d);
        }
        t->shape[t->rank++] = d;
    }
    return rc;
}

static int scan_offsets(struct fg_scan *s, struct entry *e, struct fg_error *err)
{
    int rc = fg_scan_char(s, '[', err);
    if (!rc) rc = fg_scan_u64(s, &e->begin, err);
    if (!rc) rc = fg_scan_char(s, ',', err);
    if (!rc) rc = fg_scan_u64(s, &e->end, err);
    return rc ? rc : fg_scan_char(s, ']', err);
}

static int scan_dtype(struct fg_st_file *f, struct fg_scan *s, struct fg_st_tensor *t,
                      struct fg_buf *text, struct fg_error *err)
{
    static const char expected[] = "one of the format's, such as F16, BF16, F32, U8, I8";
    char field[FIELD_BYTES];
    field_of(field, "dtype", t->name);
    int rc = check_length(f, s, KEY_BYTES_MAX, field, expected, err);
    if (!rc) rc = fg_scan_string(s, text, err);
    if (rc || fg_st_dtype_of_name(text->data, &t->dtype)) return rc;
    return fg_fail(err, FG_EINPUT, f->what, f->map.path, field, expected, "\"%s\"", text->data);
}

// Range and shape of one entry against each other and the length of the data.
static int check_entry(const struct fg_st_file *f, struct entry *e, struct fg_error *err)
{
    char field[FIELD_BYTES], expected[96];
    uint64_t bytes = fg_st_dtype_bytes(e->t.dtype);
    for (int i = 0; i < e->t.rank; i++) {
        if (!fg_mul(&bytes, bytes, e->t.shape[i])) {
            return fg_fail(err, FG_EINPUT, f->what, f->map.path,
                           field_of(field, "shape", e->t.name), "a size below 2^64 bytes",
                           "a product that overflows");
        }
    }
    field_of(field, "data_offsets", e->t.name);
    if (e->end > f->data_bytes) {
        snprintf(expected, sizeof expected, "end <= data length %" PRIu64, f->data_bytes);
        return fg_fail(err, FG_EINPUT, f->what, f->map.path, field, expected, "end %" PRIu64,
                       e->end);
    }
    if (e->end < e->begin || e->end - e->begin != bytes) {
        snprintf(expected, sizeof expected, "end - begin = %" PRIu64 ", the size of the shape",
                 bytes);
        return fg_fail(err, FG_EINPUT, f->what, f->map.path, field, expected,
                       "[%" PRIu64 ", %" PRIu64 "]", e->begin, e->end);
    }
    e->t.bytes = bytes;
    return 0;
}

static int scan_tensor(struct fg_st_file *f, struct fg_scan *s, struct entry *e,
                       struct fg_buf *text, struct fg_error *err)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    char field[FIELD_BYTES];
    unsigned seen = 0;
    bool first = true, more;
    int rc = fg_scan_char(s, '{', err);
    if (rc) return relabel(rc, "header", NULL, err);
    snprintf(field, sizeof field, "tensor %s", e->t.name);
    while ((rc = fg_scan_next(s, '}', &first, &more, err)) == 0 && more) {
        rc = check_length(f, s, KEY_BYTES_MAX, field, "dtype, shape and data_offsets, once each",
                          err);
        if (!rc) rc = fg_scan_key(s, text, err);
        if (rc) return relabel(rc, "header", NULL, err);
        unsigned k = 0;
        while (k < FG_COUNT(keys) && strcmp(text->data, keys[k]) != 0) {
            k++;
        }
        if (k == FG_COUNT(keys) || (seen & 1u << k)) {
            return fg_fail(err, FG_EINPUT, f->what, f->map.path, field,
                           "dtype, shape and data_offsets, once each", "key \"%s\"", text->data);
        }
        seen |= 1u << k;
        if (k == 0) {
            rc = scan_dtype(f, s, &e->t, text, err);
        } else if (k == 1) {
            rc = scan_shape(f, s, &e->t, err);
        } else {
            rc = scan_offsets(s, e, err);
        }
        if (rc) return relabel(rc, keys[k], e->t.name, err);
    }
    if (rc) return relabel(rc, "header", NULL, err);
    for (unsigned k = 0; k < FG_COUNT(keys); k++) {
        if (seen & 1u << k) continue;
        return fg_fail(err, FG_EINPUT, f->what, f->map.path, field_of(field, keys[k], e->t.name),
                       "the key", "none");
    }
    return check_entry(f, e, err);
}

static int check_name(const struct fg_st_file *f, const struct fg_buf *name, struct fg_error *err)
{
    char field[FIELD_BYTES];
    snprintf(field, sizeof field, "tensor %.100s", name->data);
    if (name->len < 1 || name->len > FG_ST_FILE_NAME_MAX) {
        return fg_fail(err, FG_EINPUT, f->what, f->map.path, field, "a name of 1 to 256 bytes",
                       "%zu bytes", name->len);
    }
    for (size_t i = 0; i < name->len; i++) {
        unsigned char c = (unsigned char)name->data[i];
        if (c < 0x20 || c == 0x7F) {
            return fg_fail(err, FG_EINPUT, f->what, f->map.path, field,
                           "a name without control characters", "byte 0x%02X", c);
        }
    }
    return 0;
}

static int scan_header(struct fg_st_file *f, struct fg_buf *text, struct fg_error *err)
{
    struct fg_scan s;
    bool first = true, more, metadata_seen = false;
    int rc = fg_scan_begin(&s, (const char *)f->map.data + 8, (size_t)f->header_bytes, f->what,
                           f->map.path, err);
    if (!rc) rc = fg_scan_char(&s, '{', err);
    if (rc) return relabel(rc, "header", NULL, err);
    while ((rc = fg_scan_next(&s, '}', &first, &more, err)) == 0 && more) {
        rc = check_length(f, &s, 6 * FG_ST_FILE_NAME_MAX, "tensor name", "1 to 256 bytes", err);
        if (!rc) rc = fg_scan_key(&s, text, err);
        if (rc) break;
        if (strcmp(text->data, "__metadata__") == 0) {
            if (metadata_seen) {
                return fg_fail(err, FG_EINPUT, f->what, f->map.path, "__metadata__", "once",
                               "twice");
            }
            metadata_seen = true;
            if ((rc = scan_metadata(f, &s, text, err))) return rc;
            continue;
        }
        if ((rc = check_name(f, text, err))) return rc;
        if (f->n == FG_ST_FILE_TENSORS_MAX) {
            return fg_fail(err, FG_EINPUT, f->what, f->map.path, "header", "at most 100000 tensors",
                           "more");
        }
        struct entry e = {.t.file = f->map.path};
        e.t.name = fg_arena_strdup(&f->arena, text->data, text->len);
        if (!e.t.name || !grow((void **)&f->entries, f->n, &f->cap, sizeof e)) {
            return fg_fail_memory(err, f->what, sizeof e);
        }
        if ((rc = scan_tensor(f, &s, &e, text, err))) return rc;
        f->entries[f->n++] = e;
    }
    if (rc) return relabel(rc, "header", NULL, err);
    while (s.at < s.n && s.text[s.at] == ' ') {
        s.at++;
    }
    if (s.at < s.n) {
        char field[FIELD_BYTES];
        snprintf(field, sizeof field, "header (byte %zu)", s.at + 8);
        return fg_fail(err, FG_EINPUT, f->what, f->map.path, field, "spaces after the object",
                       "byte 0x%02X", (unsigned char)s.text[s.at]);
    }
    if (f->n == 0) {
        return fg_fail(err, FG_EINPUT, f->what, f->map.path, "header", "1 to 100000 tensors",
                       "none");
    }
    return 0;
}

// ---- tiling

static int by_place(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

// Names differ, and the ranges cover [0, data_bytes) with neither hole nor overlap.
static int check_tiling(struct fg_st_file *f, struct fg_error *err)
{
    char field[FIELD_BYTES], expected[FIELD_BYTES];
    qsort(f->entries, f->n, sizeof *f->entries, by_place);
    f->names = malloc(f->n * sizeof *f->names);
    if (!f->names) return fg_fail_memory(err, f->what, f->n * sizeof *f->names);
    for (uint64_t i = 0; i < f->n; i++) {
        f->names[i] = (struct fg_name){f->entries[i].t.name, i};
    }
    const char *twice = fg_names_sort(f->names, f->n);
    if (twice) {
        return fg_fail(err, FG_EINPUT, f->what, f->map.path, field_of(field, "data_offsets", twice),
                       "one tensor of that name", "%s twice", twice);
    }
    uint64_t at = 0;
    const char *before = "the start of the data";
    for (uint64_t i = 0; i < f->n; i++) {
        const struct entry *e = &f->entries[i];
        if (e->begin != at) {
            snprintf(expected, sizeof expected, "begin %" PRIu64 " (%s), behind %.100s", at,
                     e->begin < at ? "overlap" : "hole", before);
            return fg_fail(err, FG_EINPUT, f->what, f->map.path,
                           field_of(field, "data_offsets", e->t.name), expected,
                           "[%" PRIu64 ", %" PRIu64 "]", e->begin, e->end);
        }
        at = e->end;
        before = e->t.name;
    }
    if (at != f->data_bytes) {
        snprintf(expected, sizeof expected, "end of the last tensor = data length %" PRIu64,
                 f->data_bytes);
        return fg_fail(err, FG_EINPUT, f->what, f->map.path,
                       field_of(field, "data_offsets", before), expected, "end %" PRIu64, at);
    }
    return 0;
}

static int load(struct fg_st_file *f, struct fg_error *err)
{
    char expected[96];
    const struct fg_map *map = &f->map;
    if (map->bytes < 10) {
        return fg_fail(err, FG_EINPUT, f->what, map->path, "size", "at least 10 bytes", "%" PRIu64,
                       map->bytes);
    }
    int rc = fg_map_le64(map, 0, &f->header_bytes, err);
    if (rc) return rc;
    if (f->header_bytes < 2 || f->header_bytes > FG_ST_FILE_HEADER_MAX ||
        f->header_bytes > map->bytes - 8) {
        uint64_t most =
            map->bytes - 8 < FG_ST_FILE_HEADER_MAX ? map->bytes - 8 : FG_ST_FILE_HEADER_MAX;
        snprintf(expected, sizeof expected, "2 to %" PRIu64 " (file size %" PRIu64 ")", most,
                 map->bytes);
        return fg_fail(err, FG_EINPUT, f->what, map->path, "header_length", expected, "%" PRIu64,
                       f->header_bytes);
    }
    if (map->data[8] != '{') {
        return fg_fail(err, FG_EINPUT, f->what, map->path, "header (byte 8)", "'{'", "byte 0x%02X",
                       map->data[8]);
    }
    f->data_bytes = map->bytes - 8 - f->header_bytes;
    struct fg_buf text = {0};
    rc = scan_header(f, &text, err);
    fg_buf_free(&text);
    if (!rc) rc = check_tiling(f, err);
    if (rc) return rc;
    for (uint64_t i = 0; i < f->n; i++) {
        f->entries[i].t.data = map->data + 8 + f->header_bytes + f->entries[i].begin;
    }
    return 0;
}

int fg_st_file_open(struct fg_st_file **out, const char *what, const char *path,
                    struct fg_error *err)
{
    *out = NULL;
    struct fg_st_file *f = calloc(1, sizeof *f);
    if (!f) return fg_fail_memory(err, what, sizeof *f);
    f->what = what;
    fg_arena_init(&f->arena, 0);
    int rc = fg_map_open(&f->map, path, err);
    if (!rc) rc = load(f, err);
    if (rc) {
        fg_st_file_close(f);
        return rc;
    }
    *out = f;
    return 0;
}

void fg_st_file_close(struct fg_st_file *f)
{
    if (!f) return;
    fg_arena_free(&f->arena);
    fg_map_close(&f->map);
    free(f->entries);
    free(f->names);
    free(f->metadata);
    free(f);
}

const char *fg_st_file_path(const struct fg_st_file *f)
{
    return f->map.path;
}

uint64_t fg_st_file_bytes(const struct fg_st_file *f)
{
    return f->map.bytes;
}

uint64_t fg_st_file_count(const struct fg_st_file *f)
{
    return f->n;
}

const struct fg_st_tensor *fg_st_file_at(const struct fg_st_file *f, uint64_t i)
{
    return &f->entries[i].t;
}

const struct fg_st_tensor *fg_st_file_find(const struct fg_st_file *f, const char *name)
{
    uint64_t at = fg_names_find(f->names, f->n, name);
    return at == FG_NAME_NONE ? NULL : &f->entries[at].t;
}

uint64_t fg_st_file_n_metadata(const struct fg_st_file *f)
{
    return f->n_metadata;
}

struct fg_st_pair fg_st_file_metadata_at(const struct fg_st_file *f, uint64_t i)
{
    return f->metadata[i];
}

const char *fg_st_file_metadata(const struct fg_st_file *f, const char *key)
{
    for (uint64_t i = 0; i < f->n_metadata; i++) {
        if (strcmp(f->metadata[i].key, key) == 0) return f->metadata[i].value;
    }
    return NULL;
}
