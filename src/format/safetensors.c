// Reading. A file is: u64 header length N, N bytes of JSON, data. The header is scanned once, every
// number checked, and the regions sorted by their begin must tile the data exactly.
#include "format/safetensors.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/size.h"
#include "format/json_scan.h"
#include "format/names.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "safetensors"
#define INDEX_NAME "model.safetensors.index.json"
#define INDEX_MAX (256ull << 20)
#define METADATA_MAX 65536

static const struct {
    const char *name;
    uint64_t bytes;
} dtypes[FG_ST_N_DTYPES] = {
    [FG_ST_BOOL] = {"BOOL", 1},       [FG_ST_U8] = {"U8", 1},   [FG_ST_I8] = {"I8", 1},
    [FG_ST_F8_E4M3] = {"F8_E4M3", 1}, [FG_ST_I16] = {"I16", 2}, [FG_ST_U16] = {"U16", 2},
    [FG_ST_F8_E5M2] = {"F8_E5M2", 1}, [FG_ST_F16] = {"F16", 2}, [FG_ST_BF16] = {"BF16", 2},
    [FG_ST_I32] = {"I32", 4},         [FG_ST_U32] = {"U32", 4}, [FG_ST_F32] = {"F32", 4},
    [FG_ST_I64] = {"I64", 8},         [FG_ST_U64] = {"U64", 8}, [FG_ST_F64] = {"F64", 8},
};

const char *fg_st_dtype_name(enum fg_st_dtype t)
{
    return dtypes[t].name;
}

uint64_t fg_st_dtype_bytes(enum fg_st_dtype t)
{
    return dtypes[t].bytes;
}

bool fg_st_dtype_of_name(const char *name, enum fg_st_dtype *out)
{
    for (int t = 0; t < FG_ST_N_DTYPES; t++) {
        if (strcmp(dtypes[t].name, name) == 0) {
            *out = (enum fg_st_dtype)t;
            return true;
        }
    }
    return false;
}

struct pair {
    const char *key, *value;
};

// One tensor as its header declares it, before the offsets are known to be good.
struct entry {
    struct fg_st_tensor t;
    uint64_t begin, end; // from the start of the data
    uint64_t file;       // index of the map
};

struct fg_checkpoint {
    struct fg_arena arena; // every string
    struct fg_map *files;
    uint64_t n_files;
    struct fg_st_tensor *tensors;
    struct fg_name *names; // sorted
    uint64_t n;
    struct pair *metadata;
    uint64_t n_metadata;
    const char **warnings;
    uint64_t n_warnings;
};

// What opening needs and the open checkpoint does not.
struct loader {
    struct fg_checkpoint *c;
    struct entry *entries;
    uint64_t n, cap;
    struct fg_buf text; // scratch
};

// Makes room for one more element behind *array. False when out of memory.
static bool grow(void **array, uint64_t n, uint64_t *cap, size_t element_bytes)
{
    if (n < *cap) return true;
    uint64_t more = *cap ? *cap * 2 : 64;
    void *p = realloc(*array, more * element_bytes);
    if (!p) return false;
    *array = p;
    *cap = more;
    return true;
}

static int warn(struct fg_checkpoint *c, const char *text, struct fg_error *err)
{
    const char **more = realloc(c->warnings, (c->n_warnings + 1) * sizeof *more);
    if (!more) return fg_fail_memory(err, WHAT, 0);
    c->warnings = more;
    char *copy = fg_arena_strdup(&c->arena, text, strlen(text));
    if (!copy) return fg_fail_memory(err, WHAT, strlen(text));
    c->warnings[c->n_warnings++] = copy;
    return 0;
}

static int scan_metadata(struct loader *l, struct fg_scan *s, struct fg_error *err)
{
    struct fg_checkpoint *c = l->c;
    uint64_t n0 = c->n_metadata, cap = c->n_metadata;
    bool first = true, more;
    int rc = fg_scan_char(s, '{', err);
    if (rc) return rc;
    while ((rc = fg_scan_next(s, '}', &first, &more, err)) == 0 && more) {
        struct pair p;
        if (c->n_metadata - n0 >= METADATA_MAX) {
            return fg_fail(err, FG_EINPUT, WHAT, s->file, "__metadata__", "at most 65536 keys",
                           "more");
        }
        if ((rc = fg_scan_key(s, &l->text, err))) return rc;
        p.key = fg_arena_strdup(&c->arena, l->text.data, l->text.len);
        if ((rc = fg_scan_string(s, &l->text, err))) return rc;
        p.value = fg_arena_strdup(&c->arena, l->text.data, l->text.len);
        if (!p.key || !p.value || !grow((void **)&c->metadata, c->n_metadata, &cap, sizeof p)) {
            return fg_fail_memory(err, WHAT, l->text.len);
        }
        c->metadata[c->n_metadata++] = p;
    }
    return rc;
}

static int scan_shape(struct fg_scan *s, struct fg_st_tensor *t, struct fg_error *err)
{
    bool first = true, more;
    int rc = fg_scan_char(s, '[', err);
    if (rc) return rc;
    while ((rc = fg_scan_next(s, ']', &first, &more, err)) == 0 && more) {
        if (t->rank == FG_ST_RANK_MAX) {
            return fg_fail(err, FG_EINPUT, WHAT, s->file, t->name, "rank at most 8", "more");
        }
        if ((rc = fg_scan_u64(s, &t->shape[t->rank++], err))) return rc;
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

// Bytes of shape times dtype against the declared region.
static int check_bytes(const char *file, struct entry *e, struct fg_error *err)
{
    uint64_t bytes = fg_st_dtype_bytes(e->t.dtype);
    for (int i = 0; i < e->t.rank; i++) {
        if (!fg_mul(&bytes, bytes, e->t.shape[i])) {
            return fg_fail(err, FG_EINPUT, WHAT, file, e->t.name, "a size below 2^64",
                           "a shape whose product overflows");
        }
    }
    if (e->end < e->begin || e->end - e->begin != bytes) {
        char expected[96];
        snprintf(expected, sizeof expected, "data_offsets %" PRIu64 " bytes apart", bytes);
        return fg_fail(err, FG_EINPUT, WHAT, file, e->t.name, expected,
                       "[%" PRIu64 ", %" PRIu64 "]", e->begin, e->end);
    }
    e->t.bytes = bytes;
    return 0;
}

static int scan_tensor(struct loader *l, struct fg_scan *s, struct entry *e, struct fg_error *err)
{
    enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4, ALL = 7 };
    unsigned seen = 0;
    bool first = true, more;
    int rc = fg_scan_char(s, '{', err);
    if (rc) return rc;
    while ((rc = fg_scan_next(s, '}', &first, &more, err)) == 0 && more) {
        if ((rc = fg_scan_key(s, &l->text, err))) return rc;
        unsigned key = strcmp(l->text.data, "dtype") == 0          ? DTYPE
                       : strcmp(l->text.data, "shape") == 0        ? SHAPE
                       : strcmp(l->text.data, "data_offsets") == 0 ? OFFSETS
                                                                   : 0;
        if (!key || (seen & key)) {
            return fg_fail(err, FG_EINPUT, WHAT, s->file, e->t.name,
                           "dtype, shape and data_offsets, once each", "key \"%s\"", l->text.data);
        }
        seen |= key;
        if (key == DTYPE) {
            if ((rc = fg_scan_string(s, &l->text, err))) return rc;
            if (!fg_st_dtype_of_name(l->text.data, &e->t.dtype)) {
                return fg_fail(err, FG_EINPUT, WHAT, s->file, e->t.name, "a known dtype", "\"%s\"",
                               l->text.data);
            }
        } else if (key == SHAPE) {
            rc = scan_shape(s, &e->t, err);
        } else {
            rc = scan_offsets(s, e, err);
        }
        if (rc) return rc;
    }
    if (rc) return rc;
    if (seen != ALL) {
        const char *missing = !(seen & DTYPE)   ? "dtype"
                              : !(seen & SHAPE) ? "shape"
                                                : "data_offsets";
        return fg_fail(err, FG_EINPUT, WHAT, s->file, e->t.name, missing, "no such key");
    }
    return check_bytes(s->file, e, err);
}

static int by_place(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

// The entries of one file tile [0, data_bytes) and have different names.
static int check_entries(const char *file, struct entry *entries, uint64_t n, uint64_t data_bytes,
                         struct fg_error *err)
{
    if (n > 1) qsort(entries, n, sizeof *entries, by_place);
    uint64_t at = 0;
    for (uint64_t i = 0; i < n; i++) {
        char expected[96];
        if (entries[i].begin != at) {
            snprintf(expected, sizeof expected, "data_offsets from %" PRIu64 " (%s)", at,
                     entries[i].begin < at ? "overlap" : "hole");
            return fg_fail(err, FG_EINPUT, WHAT, file, entries[i].t.name, expected, "%" PRIu64,
                           entries[i].begin);
        }
        at = entries[i].end;
        if (at > data_bytes) {
            snprintf(expected, sizeof expected, "data_offsets up to %" PRIu64 " (end of file)",
                     data_bytes);
            return fg_fail(err, FG_EINPUT, WHAT, file, entries[i].t.name, expected, "%" PRIu64, at);
        }
    }
    if (at != data_bytes) {
        char expected[96];
        snprintf(expected, sizeof expected, "%" PRIu64 " bytes of data", at);
        return fg_fail(err, FG_EINPUT, WHAT, file, "end of file", expected, "%" PRIu64, data_bytes);
    }
    struct fg_name *names = malloc((n ? n : 1) * sizeof *names);
    if (!names) return fg_fail_memory(err, WHAT, n * sizeof *names);
    for (uint64_t i = 0; i < n; i++) {
        names[i] = (struct fg_name){entries[i].t.name, i};
    }
    const char *twice = fg_names_sort(names, n);
    free(names);
    if (twice) {
        return fg_fail(err, FG_EINPUT, WHAT, file, twice, "one tensor of that name", "two");
    }
    return 0;
}

static int scan_header(struct loader *l, const struct fg_map *map, uint64_t file,
                       uint64_t header_bytes, struct fg_error *err)
{
    struct fg_scan s;
    bool first = true, more, metadata_seen = false;
    int rc =
        fg_scan_begin(&s, (const char *)map->data + 8, (size_t)header_bytes, WHAT, map->path, err);
    if (!rc) rc = fg_scan_char(&s, '{', err);
    if (rc) return rc;
    while ((rc = fg_scan_next(&s, '}', &first, &more, err)) == 0 && more) {
        if ((rc = fg_scan_key(&s, &l->text, err))) return rc;
        if (strcmp(l->text.data, "__metadata__") == 0) {
            if (metadata_seen) {
                return fg_fail(err, FG_EINPUT, WHAT, map->path, "__metadata__", "once", "twice");
            }
            metadata_seen = true;
            if ((rc = scan_metadata(l, &s, err))) return rc;
            continue;
        }
        if (l->text.len > FG_ST_NAME_MAX) {
            return fg_fail(err, FG_EINPUT, WHAT, map->path, l->text.data,
                           "a tensor name of at most 1024 bytes", "%zu bytes", l->text.len);
        }
        if (l->n == FG_ST_TENSORS_MAX) {
            return fg_fail(err, FG_EINPUT, WHAT, map->path, l->text.data, "at most 1048576 tensors",
                           "more");
        }
        struct entry e = {.file = file, .t.file = map->path};
        e.t.name = fg_arena_strdup(&l->c->arena, l->text.data, l->text.len);
        if (!e.t.name || !grow((void **)&l->entries, l->n, &l->cap, sizeof e)) {
            return fg_fail_memory(err, WHAT, sizeof e);
        }
        if ((rc = scan_tensor(l, &s, &e, err))) return rc;
        l->entries[l->n++] = e;
    }
    return rc ? rc : fg_scan_end(&s, err);
}

// Maps one file into the next free place of c->files and appends its tensors.
static int load_file(struct loader *l, const char *path, struct fg_error *err)
{
    uint64_t file = l->c->n_files, n0 = l->n;
    struct fg_map *map = &l->c->files[file];
    int rc = fg_map_open(map, path, err);
    if (rc) return rc;
    l->c->n_files++;

    uint64_t header_bytes;
    if (map->bytes < 10) {
        return fg_fail(err, FG_EINPUT, WHAT, path, "size", "at least 10 bytes", "%" PRIu64,
                       map->bytes);
    }
    if ((rc = fg_map_le64(map, 0, &header_bytes, err))) return rc;
    if (header_bytes < 2 || header_bytes > FG_ST_HEADER_MAX || header_bytes > map->bytes - 8) {
        char expected[96];
        uint64_t most = map->bytes - 8 < FG_ST_HEADER_MAX ? map->bytes - 8 : FG_ST_HEADER_MAX;
        snprintf(expected, sizeof expected, "2 to %" PRIu64, most);
        return fg_fail(err, FG_EINPUT, WHAT, path, "header length (byte 0)", expected, "%" PRIu64,
                       header_bytes);
    }
    if (map->data[8] != '{') {
        return fg_fail(err, FG_EINPUT, WHAT, path, "header (byte 8)", "'{'", "byte 0x%02X",
                       map->data[8]);
    }
    if ((rc = scan_header(l, map, file, header_bytes, err))) return rc;
    uint64_t data_at = 8 + header_bytes;
    if (!l->entries) // none yet: a file without tensors
        return check_entries(path, NULL, 0, map->bytes - data_at, err);
    rc = check_entries(path, l->entries + n0, l->n - n0, map->bytes - data_at, err);
    for (uint64_t i = n0; i < l->n; i++) {
        l->entries[i].t.data = map->data + data_at + l->entries[i].begin;
    }
    return rc;
}

// ---- the index of a sharded checkpoint

struct want {
    const char *tensor, *file;
    uint64_t file_at;
    bool found;
};

struct index {
    struct want *wants;
    uint64_t n, cap;
    uint64_t n_files; // different shards
};

static bool is_plain_name(const char *s)
{
    return s[0] && strlen(s) <= 255 && strcmp(s, ".") != 0 && !strstr(s, "..") &&
           !strpbrk(s, "/\\");
}

static int scan_weight_map(struct loader *l, struct fg_scan *s, struct index *ix,
                           struct fg_error *err)
{
    struct fg_arena *arena = &l->c->arena;
    bool first = true, more;
    int rc = fg_scan_char(s, '{', err);
    if (rc) return rc;
    while ((rc = fg_scan_next(s, '}', &first, &more, err)) == 0 && more) {
        struct want w = {0};
        if ((rc = fg_scan_key(s, &l->text, err))) return rc;
        w.tensor = fg_arena_strdup(arena, l->text.data, l->text.len);
        if ((rc = fg_scan_string(s, &l->text, err))) return rc;
        w.file = fg_arena_strdup(arena, l->text.data, l->text.len);
        if (!w.tensor || !w.file || !grow((void **)&ix->wants, ix->n, &ix->cap, sizeof w)) {
            return fg_fail_memory(err, WHAT, sizeof w);
        }
        if (!is_plain_name(w.file)) {
            return fg_fail(err, FG_EINPUT, WHAT, s->file, w.tensor,
                           "a plain file name in the same directory", "\"%s\"", w.file);
        }
        if (ix->n == FG_ST_TENSORS_MAX) {
            return fg_fail(err, FG_EINPUT, WHAT, s->file, "weight_map", "at most 1048576 tensors",
                           "more");
        }
        ix->wants[ix->n++] = w;
    }
    return rc;
}

static int scan_index(struct loader *l, const char *text, size_t n, const char *path,
                      struct index *ix, struct fg_error *err)
{
    struct fg_scan s;
    bool first = true, more, seen = false;
    int rc = fg_scan_begin(&s, text, n, WHAT, path, err);
    if (!rc) rc = fg_scan_char(&s, '{', err);
    if (rc) return rc;
    while ((rc = fg_scan_next(&s, '}', &first, &more, err)) == 0 && more) {
        if ((rc = fg_scan_key(&s, &l->text, err))) return rc;
        if (strcmp(l->text.data, "weight_map") != 0) {
            rc = fg_scan_skip(&s, err); // metadata.total_size is informative, a float in some
        } else if (seen) {
            return fg_fail(err, FG_EINPUT, WHAT, path, "weight_map", "once", "twice");
        } else {
            seen = true;
            rc = scan_weight_map(l, &s, ix, err);
        }
        if (rc) return rc;
    }
    if (!rc) rc = fg_scan_end(&s, err);
    if (rc) return rc;
    if (!seen || ix->n == 0) {
        return fg_fail(err, FG_EINPUT, WHAT, path, "weight_map", "names of tensors", "none");
    }
    return 0;
}

static int want_by_file(const void *a, const void *b)
{
    return strcmp(((const struct want *)a)->file, ((const struct want *)b)->file);
}

// Numbers the different shard names of the index, in order of name.
static int number_files(const char *path, struct index *ix, struct fg_error *err)
{
    qsort(ix->wants, ix->n, sizeof *ix->wants, want_by_file);
    for (uint64_t i = 0; i < ix->n; i++) {
        if (i == 0 || strcmp(ix->wants[i - 1].file, ix->wants[i].file) != 0) ix->n_files++;
        ix->wants[i].file_at = ix->n_files - 1;
    }
    if (ix->n_files > FG_ST_SHARDS_MAX) {
        return fg_fail_range(err, WHAT, path, "number of shards", 1, FG_ST_SHARDS_MAX,
                             (int64_t)ix->n_files);
    }
    return 0;
}

// One warning per shard about tensors that the index does not name.
static int warn_extras(struct fg_checkpoint *c, const char *path, uint64_t n,
                       const char *const names[3], struct fg_error *err)
{
    char line[1024], name[160];
    int len = snprintf(line, sizeof line, "%.400s: %" PRIu64 " tensors not in the index:", path, n);
    for (uint64_t i = 0; i < n && i < 3 && len > 0 && (size_t)len < sizeof line; i++) {
        fg_escape(name, sizeof name, names[i], strlen(names[i]));
        len += snprintf(line + len, sizeof line - (size_t)len, "%s %s", i ? "," : "", name);
    }
    return warn(c, line, err);
}

// Keeps the entries that the index names in their shard; the others become warnings.
static int match_index(struct loader *l, struct index *ix, const struct fg_name *names,
                       struct fg_error *err)
{
    uint64_t kept = 0, n_extra = 0;
    const char *extra[3] = {0};
    for (uint64_t i = 0; i < l->n; i++) {
        struct entry e = l->entries[i];
        uint64_t at = fg_names_find(names, ix->n, e.t.name);
        if (at != FG_NAME_NONE && ix->wants[at].file_at == e.file) {
            ix->wants[at].found = true;
            l->entries[kept++] = e;
        } else {
            if (n_extra < 3) extra[n_extra] = e.t.name;
            n_extra++;
        }
        if (n_extra && (i + 1 == l->n || l->entries[i + 1].file != e.file)) {
            int rc = warn_extras(l->c, e.t.file, n_extra, extra, err);
            if (rc) return rc;
            n_extra = 0;
        }
    }
    l->n = kept;
    for (uint64_t i = 0; i < ix->n; i++) {
        if (ix->wants[i].found) continue;
        return fg_fail(err, FG_EINPUT, WHAT, l->c->files[ix->wants[i].file_at].path,
                       ix->wants[i].tensor, "the tensor, as the index says", "no such tensor");
    }
    return 0;
}

static int load_shards(struct loader *l, const char *dir, struct index *ix, const char *index_path,
                       struct fg_error *err)
{
    struct fg_checkpoint *c = l->c;
    struct fg_name *names = NULL;
    int rc = number_files(index_path, ix, err);
    if (rc) return rc;
    c->files = calloc(ix->n_files, sizeof *c->files);
    names = malloc(ix->n * sizeof *names);
    if (!c->files || !names) {
        rc = fg_fail_memory(err, WHAT, ix->n * sizeof *names);
        goto done;
    }
    for (uint64_t i = 0; i < ix->n; i++) {
        names[i] = (struct fg_name){ix->wants[i].tensor, i};
    }
    const char *twice = fg_names_sort(names, ix->n);
    if (twice) {
        rc = fg_fail(err, FG_EINPUT, WHAT, index_path, twice, "one entry of that name", "two");
        goto done;
    }
    for (uint64_t i = 0; i < ix->n; i++) {
        if (ix->wants[i].file_at != c->n_files) continue;
        char *path = fg_path_join(dir, ix->wants[i].file);
        rc = path ? load_file(l, path, err) : fg_fail_memory(err, WHAT, 0);
        free(path);
        if (rc) goto done;
    }
    rc = match_index(l, ix, names, err);
done:
    free(names);
    return rc;
}

static int load_index(struct loader *l, const char *dir, const char *index_path,
                      struct fg_error *err)
{
    struct fg_buf text = {0};
    struct index ix = {0};
    int rc = fg_file_load(&text, index_path, INDEX_MAX, err);
    if (!rc) rc = scan_index(l, text.data ? text.data : "", text.len, index_path, &ix, err);
    if (!rc) rc = load_shards(l, dir, &ix, index_path, err);
    fg_buf_free(&text);
    free(ix.wants);
    return rc;
}

static int load_single(struct loader *l, const char *path, struct fg_error *err)
{
    l->c->files = calloc(1, sizeof *l->c->files);
    return l->c->files ? load_file(l, path, err) : fg_fail_memory(err, WHAT, 0);
}

static int load_dir(struct loader *l, const char *dir, struct fg_error *err)
{
    int rc;
    char *single = fg_path_join(dir, "model.safetensors");
    char *index = fg_path_join(dir, INDEX_NAME);
    if (!single || !index) {
        rc = fg_fail_memory(err, WHAT, 0);
    } else if (fg_path_taken(single)) {
        rc = load_single(l, single, err);
        if (!rc && fg_path_taken(index)) {
            rc = warn(l->c, "model.safetensors is used; " INDEX_NAME " beside it is not", err);
        }
    } else if (fg_path_taken(index)) {
        rc = load_index(l, dir, index, err);
    } else {
        rc =
            fg_fail(err, FG_EINPUT, WHAT, dir, NULL, "model.safetensors or " INDEX_NAME, "neither");
    }
    free(single);
    free(index);
    return rc;
}

// Moves the checked entries into the checkpoint.
static int finish(struct loader *l, struct fg_error *err)
{
    struct fg_checkpoint *c = l->c;
    c->tensors = malloc((l->n ? l->n : 1) * sizeof *c->tensors);
    c->names = malloc((l->n ? l->n : 1) * sizeof *c->names);
    if (!c->tensors || !c->names) return fg_fail_memory(err, WHAT, l->n * sizeof *c->tensors);
    for (uint64_t i = 0; i < l->n; i++) {
        c->tensors[i] = l->entries[i].t;
        c->names[i] = (struct fg_name){c->tensors[i].name, i};
    }
    c->n = l->n;
    fg_names_sort(c->names, c->n);
    return 0;
}

int fg_checkpoint_open(struct fg_checkpoint **out, const char *path, struct fg_error *err)
{
    *out = NULL;
    struct loader l = {.c = calloc(1, sizeof *l.c)};
    if (!l.c) return fg_fail_memory(err, WHAT, sizeof *l.c);
    fg_arena_init(&l.c->arena, 0);
    int rc = fg_dir_exists(path) ? load_dir(&l, path, err) : load_single(&l, path, err);
    if (!rc) rc = finish(&l, err);
    free(l.entries);
    fg_buf_free(&l.text);
    if (rc) {
        fg_checkpoint_close(l.c);
        return rc;
    }
    *out = l.c;
    return 0;
}

void fg_checkpoint_close(struct fg_checkpoint *c)
{
    if (!c) return;
    for (uint64_t i = 0; i < c->n_files; i++) {
        fg_map_close(&c->files[i]);
    }
    free(c->files);
    free(c->tensors);
    free(c->names);
    free(c->metadata);
    free(c->warnings);
    fg_arena_free(&c->arena);
    free(c);
}

uint64_t fg_checkpoint_count(const struct fg_checkpoint *c)
{
    return c->n;
}

const struct fg_st_tensor *fg_checkpoint_at(const struct fg_checkpoint *c, uint64_t i)
{
    return &c->tensors[i];
}

const struct fg_st_tensor *fg_checkpoint_find(const struct fg_checkpoint *c, const char *name)
{
    uint64_t at = fg_names_find(c->names, c->n, name);
    return at == FG_NAME_NONE ? NULL : &c->tensors[at];
}

uint64_t fg_checkpoint_n_files(const struct fg_checkpoint *c)
{
    return c->n_files;
}

const char *fg_checkpoint_file(const struct fg_checkpoint *c, uint64_t i, uint64_t *bytes)
{
    if (bytes) *bytes = c->files[i].bytes;
    return c->files[i].path;
}

uint64_t fg_checkpoint_n_metadata(const struct fg_checkpoint *c)
{
    return c->n_metadata;
}

void fg_checkpoint_metadata(const struct fg_checkpoint *c, uint64_t i, const char **key,
                            const char **value)
{
    *key = c->metadata[i].key;
    *value = c->metadata[i].value;
}

uint64_t fg_checkpoint_n_warnings(const struct fg_checkpoint *c)
{
    return c->n_warnings;
}

const char *fg_checkpoint_warning(const struct fg_checkpoint *c, uint64_t i)
{
    return c->warnings[i];
}
