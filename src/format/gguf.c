// A file is: "GGUF", version, counts, key-value pairs, tensor infos, padding, data; everything
// before the data is read once through a cursor that cannot leave the file.
#include "format/gguf.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/size.h"
#include "format/names.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "gguf"

static const struct {
    const char *name;
    uint16_t weights, bytes;
} types[] = {
    [0] = {"F32", 1, 4},         [1] = {"F16", 1, 2},         [2] = {"Q4_0", 32, 18},
    [3] = {"Q4_1", 32, 20},      [6] = {"Q5_0", 32, 22},      [7] = {"Q5_1", 32, 24},
    [8] = {"Q8_0", 32, 34},      [9] = {"Q8_1", 32, 40},      [10] = {"Q2_K", 256, 84},
    [11] = {"Q3_K", 256, 110},   [12] = {"Q4_K", 256, 144},   [13] = {"Q5_K", 256, 176},
    [14] = {"Q6_K", 256, 210},   [15] = {"Q8_K", 256, 292},   [16] = {"IQ2_XXS", 256, 66},
    [17] = {"IQ2_XS", 256, 74},  [18] = {"IQ3_XXS", 256, 98}, [19] = {"IQ1_S", 256, 50},
    [20] = {"IQ4_NL", 32, 18},   [21] = {"IQ3_S", 256, 110},  [22] = {"IQ2_S", 256, 82},
    [23] = {"IQ4_XS", 256, 136}, [24] = {"I8", 1, 1},         [25] = {"I16", 1, 2},
    [26] = {"I32", 1, 4},        [27] = {"I64", 1, 8},        [28] = {"F64", 1, 8},
    [29] = {"IQ1_M", 256, 56},   [30] = {"BF16", 1, 2},       [34] = {"TQ1_0", 256, 54},
    [35] = {"TQ2_0", 256, 66},   [39] = {"MXFP4", 32, 17},    [40] = {"NVFP4", 64, 36},
    [41] = {"Q1_0", 128, 18},
};

const char *fg_gguf_type_name(uint32_t type)
{
    return type < FG_COUNT(types) && types[type].name ? types[type].name : "unknown";
}

bool fg_gguf_type_block(uint32_t type, uint64_t *weights, uint64_t *bytes)
{
    if (type >= FG_COUNT(types) || !types[type].name) return false;
    *weights = types[type].weights;
    *bytes = types[type].bytes;
    return true;
}

// Bytes of one element; 0 for strings and arrays, whose length is in the file.
static const struct {
    const char *name;
    uint64_t bytes;
} kinds[FG_GGUF_N_KINDS] = {
    [FG_GGUF_U8] = {"u8", 1},       [FG_GGUF_I8] = {"i8", 1},     [FG_GGUF_U16] = {"u16", 2},
    [FG_GGUF_I16] = {"i16", 2},     [FG_GGUF_U32] = {"u32", 4},   [FG_GGUF_I32] = {"i32", 4},
    [FG_GGUF_F32] = {"f32", 4},     [FG_GGUF_BOOL] = {"bool", 1}, [FG_GGUF_STRING] = {"string", 0},
    [FG_GGUF_ARRAY] = {"array", 0}, [FG_GGUF_U64] = {"u64", 8},   [FG_GGUF_I64] = {"i64", 8},
    [FG_GGUF_F64] = {"f64", 8},
};

const char *fg_gguf_kind_name(enum fg_gguf_kind kind)
{
    return kinds[kind].name;
}

struct fg_gguf {
    struct fg_map map;
    struct fg_arena arena; // keys and names
    uint32_t version;
    uint64_t alignment, data_at;
    struct fg_gguf_kv *kvs;
    struct fg_gguf_tensor *tensors;
    struct fg_name *kv_names, *tensor_names; // sorted
    uint64_t n_kvs, n_tensors;
};

// Where the header is read; at never passes the end of the file.
struct cursor {
    const struct fg_map *map;
    uint64_t at;
};

// Fails when fewer than n bytes are left; `field` is what is read.
static int need(const struct cursor *c, uint64_t n, const char *field, struct fg_error *err)
{
    if (fg_map_holds(c->map, c->at, n)) return 0;
    char expected[96];
    snprintf(expected, sizeof expected, "%" PRIu64 " bytes at byte %" PRIu64, n, c->at);
    return fg_fail(err, FG_EINPUT, WHAT, c->map->path, field, expected, "%" PRIu64 " left",
                   c->map->bytes - c->at);
}

static int take_u32(struct cursor *c, uint32_t *out, const char *field, struct fg_error *err)
{
    int rc = need(c, 4, field, err);
    if (!rc) rc = fg_map_le32(c->map, c->at, out, err);
    if (!rc) c->at += 4;
    return rc;
}

static int take_u64(struct cursor *c, uint64_t *out, const char *field, struct fg_error *err)
{
    int rc = need(c, 8, field, err);
    if (!rc) rc = fg_map_le64(c->map, c->at, out, err);
    if (!rc) c->at += 8;
    return rc;
}

static int take_string(struct cursor *c, struct fg_gguf_str *out, const char *field,
                       struct fg_error *err)
{
    int rc = take_u64(c, &out->n, field, err);
    if (!rc) rc = need(c, out->n, field, err);
    if (rc) return rc;
    out->s = (const char *)c->map->data + c->at;
    c->at += out->n;
    return 0;
}

// A string that names something, as a C string in the arena: at most `max` bytes, no NUL.
static int take_name(struct fg_gguf *g, struct cursor *c, uint64_t max, const char *field,
                     const char **out, struct fg_error *err)
{
    struct fg_gguf_str s;
    uint64_t at = c->at;
    int rc = take_string(c, &s, field, err);
    if (rc) return rc;
    char place[64];
    snprintf(place, sizeof place, "%s (byte %" PRIu64 ")", field, at);
    if (s.n > max) {
        return fg_fail_range(err, WHAT, g->map.path, place, 0, (int64_t)max,
                             s.n > INT64_MAX ? INT64_MAX : (int64_t)s.n);
    }
    if (s.n && memchr(s.s, '\0', (size_t)s.n)) {
        return fg_fail(err, FG_EINPUT, WHAT, g->map.path, place, "text without NUL bytes", "one");
    }
    *out = fg_arena_strdup(&g->arena, s.s, (size_t)s.n);
    return *out ? 0 : fg_fail_memory(err, WHAT, s.n);
}

// Moves the cursor over n elements of a kind.
static int skip_elements(struct cursor *c, uint32_t kind, uint64_t n, int depth, const char *key,
                         struct fg_error *err)
{
    if (kind >= FG_GGUF_N_KINDS) {
        return fg_fail_range(err, WHAT, c->map->path, key, 0, FG_GGUF_N_KINDS - 1, (int64_t)kind);
    }
    if (kinds[kind].bytes) {
        uint64_t bytes;
        if (!fg_mul(&bytes, n, kinds[kind].bytes)) bytes = UINT64_MAX;
        int rc = need(c, bytes, key, err);
        if (!rc) c->at += bytes;
        return rc;
    }
    for (uint64_t i = 0; i < n; i++) {
        int rc;
        struct fg_gguf_str s;
        if (kind == FG_GGUF_STRING) {
            rc = take_string(c, &s, key, err);
        } else if (depth >= FG_GGUF_ARRAY_DEPTH_MAX) {
            rc = fg_fail(err, FG_EINPUT, WHAT, c->map->path, key, "arrays nested at most 4 deep",
                         "deeper");
        } else {
            uint32_t element;
            uint64_t count;
            rc = take_u32(c, &element, key, err);
            if (!rc) rc = take_u64(c, &count, key, err);
            if (!rc) rc = skip_elements(c, element, count, depth + 1, key, err);
        }
        if (rc) return rc;
    }
    return 0;
}

static int read_kv(struct fg_gguf *g, struct cursor *c, struct fg_gguf_kv *kv, struct fg_error *err)
{
    uint32_t kind, element;
    int rc = take_name(g, c, FG_GGUF_KEY_MAX, "metadata key", &kv->key, err);
    if (!rc) rc = take_u32(c, &kind, kv->key, err);
    if (rc) return rc;
    kv->n = 1;
    element = kind;
    int depth = 0;
    if (kind == FG_GGUF_ARRAY) {
        if ((rc = take_u32(c, &element, kv->key, err))) return rc;
        if ((rc = take_u64(c, &kv->n, kv->key, err))) return rc;
        depth = 1;
    }
    uint64_t at = c->at;
    if ((rc = skip_elements(c, element, kv->n, depth, kv->key, err))) return rc;
    kv->kind = (enum fg_gguf_kind)kind;
    kv->element = (enum fg_gguf_kind)element;
    kv->data = g->map.data + at;
    kv->bytes = c->at - at;
    for (uint64_t i = 0; element == FG_GGUF_BOOL && i < kv->n; i++) {
        if (kv->data[i] > 1) {
            return fg_fail_range(err, WHAT, g->map.path, kv->key, 0, 1, kv->data[i]);
        }
    }
    return 0;
}

static int read_kvs(struct fg_gguf *g, struct cursor *c, struct fg_error *err)
{
    g->kvs = calloc(g->n_kvs ? g->n_kvs : 1, sizeof *g->kvs);
    g->kv_names = malloc((g->n_kvs ? g->n_kvs : 1) * sizeof *g->kv_names);
    if (!g->kvs || !g->kv_names) return fg_fail_memory(err, WHAT, g->n_kvs * sizeof *g->kvs);
    for (uint64_t i = 0; i < g->n_kvs; i++) {
        int rc = read_kv(g, c, &g->kvs[i], err);
        if (rc) return rc;
        g->kv_names[i] = (struct fg_name){g->kvs[i].key, i};
    }
    const char *twice = fg_names_sort(g->kv_names, g->n_kvs);
    if (!twice) return 0;
    return fg_fail(err, FG_EINPUT, WHAT, g->map.path, twice, "one value of that key", "two");
}

// Fills all but data; *offset is from the start of the data.
static int read_info(struct fg_gguf *g, struct cursor *c, struct fg_gguf_tensor *t,
                     uint64_t *offset, struct fg_error *err)
{
    uint32_t n_dims;
    int rc = take_name(g, c, FG_GGUF_TENSOR_NAME_MAX, "tensor name", &t->name, err);
    if (!rc) rc = take_u32(c, &n_dims, t->name, err);
    if (rc) return rc;
    if (n_dims < 1 || n_dims > FG_GGUF_DIMS_MAX) {
        char field[128];
        snprintf(field, sizeof field, "tensor %s: n_dims", t->name);
        return fg_fail_range(err, WHAT, g->map.path, field, 1, FG_GGUF_DIMS_MAX, (int64_t)n_dims);
    }
    t->n_dims = (int)n_dims;
    t->n = 1;
    for (int i = 0; i < FG_GGUF_DIMS_MAX; i++) {
        t->extent[i] = 1;
        if (i < t->n_dims && (rc = take_u64(c, &t->extent[i], t->name, err))) return rc;
        if (!fg_mul(&t->n, t->n, t->extent[i])) {
            return fg_fail(err, FG_EINPUT, WHAT, g->map.path, t->name, "a size below 2^64",
                           "extents whose product overflows");
        }
    }
    if ((rc = take_u32(c, &t->type, t->name, err))) return rc;
    if ((rc = take_u64(c, offset, t->name, err))) return rc;

    uint64_t weights, bytes;
    if (!fg_gguf_type_block(t->type, &weights, &bytes)) {
        return fg_fail(err, FG_EINPUT, WHAT, g->map.path, t->name, "a known tensor type",
                       "type %" PRIu32, t->type);
    }
    if (t->extent[0] % weights) {
        char expected[96];
        snprintf(expected, sizeof expected, "columns in blocks of %" PRIu64 " (%s)", weights,
                 fg_gguf_type_name(t->type));
        return fg_fail(err, FG_EINPUT, WHAT, g->map.path, t->name, expected, "%" PRIu64,
                       t->extent[0]);
    }
    if (!fg_mul(&t->bytes, t->n / weights, bytes)) {
        return fg_fail(err, FG_EINPUT, WHAT, g->map.path, t->name, "a size below 2^64",
                       "extents whose product overflows");
    }
    return 0;
}

struct region {
    uint64_t begin, end; // from the start of the data
    const char *name;
};

static int by_begin(const void *a, const void *b)
{
    const struct region *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int check_overlap(struct fg_gguf *g, struct region *r, struct fg_error *err)
{
    if (g->n_tensors > 1) qsort(r, g->n_tensors, sizeof *r, by_begin);
    for (uint64_t i = 1; i < g->n_tensors; i++) {
        if (r[i].begin >= r[i - 1].end) continue;
        char expected[160];
        snprintf(expected, sizeof expected, "an offset past %s (%" PRIu64 ")", r[i - 1].name,
                 r[i - 1].end);
        return fg_fail(err, FG_EINPUT, WHAT, g->map.path, r[i].name, expected,
                       "%" PRIu64 ": they overlap", r[i].begin);
    }
    return 0;
}

static int read_tensors(struct fg_gguf *g, struct cursor *c, struct fg_error *err)
{
    uint64_t n = g->n_tensors;
    struct region *regions = malloc((n ? n : 1) * sizeof *regions);
    g->tensors = calloc(n ? n : 1, sizeof *g->tensors);
    g->tensor_names = malloc((n ? n : 1) * sizeof *g->tensor_names);
    int rc = 0;
    if (!regions || !g->tensors || !g->tensor_names) {
        rc = fg_fail_memory(err, WHAT, n * sizeof *g->tensors);
        goto done;
    }
    for (uint64_t i = 0; i < n; i++) {
        if ((rc = read_info(g, c, &g->tensors[i], &regions[i].begin, err))) goto done;
        regions[i].name = g->tensors[i].name;
        g->tensor_names[i] = (struct fg_name){g->tensors[i].name, i};
    }
    const char *twice = fg_names_sort(g->tensor_names, n);
    if (twice) {
        rc = fg_fail(err, FG_EINPUT, WHAT, g->map.path, twice, "one tensor of that name", "two");
        goto done;
    }
    // c->at is inside the file, so rounding it up cannot overflow
    if (!fg_align_up(&g->data_at, c->at, g->alignment)) g->data_at = UINT64_MAX;
    for (uint64_t i = 0; i < n; i++) {
        struct fg_gguf_tensor *t = &g->tensors[i];
        uint64_t at;
        if (regions[i].begin % g->alignment) {
            char expected[96];
            snprintf(expected, sizeof expected, "an offset that is a multiple of %" PRIu64,
                     g->alignment);
            rc = fg_fail(err, FG_EINPUT, WHAT, g->map.path, t->name, expected, "%" PRIu64,
                         regions[i].begin);
            goto done;
        }
        if (!fg_add(&at, g->data_at, regions[i].begin) || !fg_map_holds(&g->map, at, t->bytes)) {
            char expected[96];
            snprintf(expected, sizeof expected, "%" PRIu64 " bytes inside the file", t->bytes);
            rc = fg_fail(err, FG_EINPUT, WHAT, g->map.path, t->name, expected,
                         "offset %" PRIu64 " in data from byte %" PRIu64 " of %" PRIu64,
                         regions[i].begin, g->data_at, g->map.bytes);
            goto done;
        }
        regions[i].end = regions[i].begin + t->bytes;
        t->data = g->map.data + at;
    }
    rc = check_overlap(g, regions, err);
done:
    free(regions);
    return rc;
}

// A count whose elements need at least min_bytes each.
static int check_count(const struct cursor *c, const char *field, uint64_t n, uint64_t limit,
                       uint64_t min_bytes, struct fg_error *err)
{
    uint64_t fit = (c->map->bytes - c->at) / min_bytes;
    uint64_t most = fit < limit ? fit : limit;
    if (n <= most) return 0;
    char expected[96];
    snprintf(expected, sizeof expected, "at most %" PRIu64 " in a file of this size", most);
    return fg_fail(err, FG_EINPUT, WHAT, c->map->path, field, expected, "%" PRIu64, n);
}

static int read_all(struct fg_gguf *g, struct fg_error *err)
{
    struct cursor c = {.map = &g->map};
    const char *path = g->map.path;
    int rc = need(&c, 8, "magic", err);
    if (rc) return rc;
    if (memcmp(g->map.data, "GGUF", 4) != 0) {
        char found[24];
        fg_escape(found, sizeof found, (const char *)g->map.data, 4);
        return fg_fail(err, FG_EINPUT, WHAT, path, "magic (byte 0)", "GGUF", "\"%s\"", found);
    }
    c.at = 4;
    if ((rc = take_u32(&c, &g->version, "version", err))) return rc;
    if (g->version != 2 && g->version != 3) {
        bool swapped = g->version == 2u << 24 || g->version == 3u << 24;
        return fg_fail(err, FG_EINPUT, WHAT, path, "version (byte 4)", "2 or 3, little-endian",
                       swapped ? "0x%08" PRIX32 ": a big-endian file" : "%" PRIu32, g->version);
    }
    if ((rc = take_u64(&c, &g->n_tensors, "tensor count", err))) return rc;
    if ((rc = take_u64(&c, &g->n_kvs, "metadata count", err))) return rc;
    // least sizes: key length, type, one byte; name length, n_dims, one extent, type, offset
    uint64_t n_tensors = g->n_tensors, n_kvs = g->n_kvs;
    g->n_tensors = g->n_kvs = 0;
    if ((rc = check_count(&c, "tensor count", n_tensors, FG_GGUF_TENSORS_MAX, 32, err))) return rc;
    if ((rc = check_count(&c, "metadata count", n_kvs, FG_GGUF_KVS_MAX, 13, err))) return rc;
    g->n_tensors = n_tensors;
    g->n_kvs = n_kvs;
    if ((rc = read_kvs(g, &c, err))) return rc;

    int64_t alignment;
    rc = fg_gguf_i64(g, "general.alignment", 32, 8, 1 << 20, &alignment, NULL, err);
    if (rc) return rc;
    if (alignment & (alignment - 1)) {
        return fg_fail(err, FG_EINPUT, WHAT, path, "general.alignment", "a power of two",
                       "%" PRId64, alignment);
    }
    g->alignment = (uint64_t)alignment;
    return read_tensors(g, &c, err);
}

int fg_gguf_open(struct fg_gguf **out, const char *path, struct fg_error *err)
{
    *out = NULL;
    struct fg_gguf *g = calloc(1, sizeof *g);
    if (!g) return fg_fail_memory(err, WHAT, sizeof *g);
    fg_arena_init(&g->arena, 0);
    int rc = fg_map_open(&g->map, path, err);
    if (!rc) rc = read_all(g, err);
    if (rc) {
        fg_gguf_close(g);
        return rc;
    }
    *out = g;
    return 0;
}

void fg_gguf_close(struct fg_gguf *g)
{
    if (!g) return;
    free(g->kvs);
    free(g->tensors);
    free(g->kv_names);
    free(g->tensor_names);
    fg_arena_free(&g->arena);
    fg_map_close(&g->map);
    free(g);
}

const char *fg_gguf_path(const struct fg_gguf *g)
{
    return g->map.path;
}

uint32_t fg_gguf_version(const struct fg_gguf *g)
{
    return g->version;
}

const uint8_t *fg_gguf_bytes(const struct fg_gguf *g, uint64_t *bytes)
{
    *bytes = g->map.bytes;
    return g->map.data;
}

uint64_t fg_gguf_alignment(const struct fg_gguf *g)
{
    return g->alignment;
}

uint64_t fg_gguf_n_kvs(const struct fg_gguf *g)
{
    return g->n_kvs;
}

const struct fg_gguf_kv *fg_gguf_kv_at(const struct fg_gguf *g, uint64_t i)
{
    return &g->kvs[i];
}

const struct fg_gguf_kv *fg_gguf_kv_find(const struct fg_gguf *g, const char *key)
{
    uint64_t at = fg_names_find(g->kv_names, g->n_kvs, key);
    return at == FG_NAME_NONE ? NULL : &g->kvs[at];
}

uint64_t fg_gguf_n_tensors(const struct fg_gguf *g)
{
    return g->n_tensors;
}

const struct fg_gguf_tensor *fg_gguf_tensor_at(const struct fg_gguf *g, uint64_t i)
{
    return &g->tensors[i];
}

const struct fg_gguf_tensor *fg_gguf_tensor_find(const struct fg_gguf *g, const char *name)
{
    uint64_t at = fg_names_find(g->tensor_names, g->n_tensors, name);
    return at == FG_NAME_NONE ? NULL : &g->tensors[at];
}

// ---- values

static uint64_t bits(const uint8_t *p, uint64_t n)
{
    uint64_t v = 0;
    for (uint64_t i = 0; i < n; i++) {
        v |= (uint64_t)p[i] << (8 * i);
    }
    return v;
}

// Element i as an integer. False when it is none, or a u64 past the range of int64_t.
static bool integer_at(const struct fg_gguf_kv *kv, uint64_t i, int64_t *out)
{
    uint64_t n = kinds[kv->element].bytes;
    const uint8_t *p = kv->data + i * n;
    switch (kv->element) {
    case FG_GGUF_I8: *out = (int64_t)(bits(p, 1) ^ 0x80) - 0x80; return true; // sign extended
    case FG_GGUF_I16: *out = (int16_t)bits(p, 2); return true;
    case FG_GGUF_I32: *out = (int32_t)bits(p, 4); return true;
    case FG_GGUF_I64: *out = (int64_t)bits(p, 8); return true;
    case FG_GGUF_BOOL:
    case FG_GGUF_U8:
    case FG_GGUF_U16:
    case FG_GGUF_U32:
    case FG_GGUF_U64: *out = (int64_t)bits(p, n); return *out >= 0;
    default: return false;
    }
}

double fg_gguf_kv_number(const struct fg_gguf_kv *kv, uint64_t i)
{
    const uint8_t *p = kv->data + i * kinds[kv->element].bytes;
    int64_t v;
    if (kv->element == FG_GGUF_F32) {
        float f;
        memcpy(&f, p, sizeof f);
        return (double)f;
    }
    if (kv->element == FG_GGUF_F64) {
        double d;
        memcpy(&d, p, sizeof d);
        return d;
    }
    if (integer_at(kv, i, &v)) return (double)v;
    return kv->element == FG_GGUF_U64 ? (double)bits(p, 8) : (double)NAN;
}

static int wrong_kind(const struct fg_gguf *g, const struct fg_gguf_kv *kv, const char *expected,
                      struct fg_error *err)
{
    return fg_fail(err, FG_EINPUT, WHAT, g->map.path, kv->key, expected, "%s%s of %" PRIu64,
                   kv->kind == FG_GGUF_ARRAY ? "array of " : "", kinds[kv->element].name, kv->n);
}

// Element i of kv in [min, max].
static int integer_in(const struct fg_gguf *g, const struct fg_gguf_kv *kv, uint64_t i, int64_t min,
                      int64_t max, int64_t *out, struct fg_error *err)
{
    int64_t v;
    if (!integer_at(kv, i, &v)) {
        if (kv->element != FG_GGUF_U64) return wrong_kind(g, kv, "integers", err);
        v = INT64_MAX;
    }
    if (v < min || v > max) return fg_fail_range(err, WHAT, g->map.path, kv->key, min, max, v);
    *out = v;
    return 0;
}

int fg_gguf_i64(const struct fg_gguf *g, const char *key, int64_t def, int64_t min, int64_t max,
                int64_t *out, bool *given, struct fg_error *err)
{
    const struct fg_gguf_kv *kv = fg_gguf_kv_find(g, key);
    *out = def;
    if (given) *given = kv != NULL;
    if (!kv) return 0;
    if (kv->n != 1) return wrong_kind(g, kv, "one integer", err);
    return integer_in(g, kv, 0, min, max, out, err);
}

int fg_gguf_f64(const struct fg_gguf *g, const char *key, double def, double *out, bool *given,
                struct fg_error *err)
{
    const struct fg_gguf_kv *kv = fg_gguf_kv_find(g, key);
    *out = def;
    if (given) *given = kv != NULL;
    if (!kv) return 0;
    if (kv->n != 1 || !kinds[kv->element].bytes || kv->element == FG_GGUF_BOOL) {
        return wrong_kind(g, kv, "one number", err);
    }
    double v = fg_gguf_kv_number(kv, 0);
    if (!isfinite(v)) {
        return fg_fail(err, FG_EINPUT, WHAT, g->map.path, key, "a finite number", "%g", v);
    }
    *out = v;
    return 0;
}

int fg_gguf_bool(const struct fg_gguf *g, const char *key, bool def, bool *out, bool *given,
                 struct fg_error *err)
{
    int64_t v;
    int rc = fg_gguf_i64(g, key, def, 0, 1, &v, given, err);
    *out = rc ? def : v != 0;
    return rc;
}

int fg_gguf_string(const struct fg_gguf *g, const char *key, struct fg_gguf_str *out,
                   struct fg_error *err)
{
    const struct fg_gguf_kv *kv = fg_gguf_kv_find(g, key);
    *out = (struct fg_gguf_str){0};
    if (!kv) return 0;
    if (kv->kind != FG_GGUF_STRING) return wrong_kind(g, kv, "a string", err);
    *out = (struct fg_gguf_str){(const char *)kv->data + 8, kv->bytes - 8};
    return 0;
}

int fg_gguf_strings(const struct fg_gguf *g, const char *key, struct fg_gguf_str **out, uint64_t *n,
                    struct fg_error *err)
{
    const struct fg_gguf_kv *kv = fg_gguf_kv_find(g, key);
    *out = NULL;
    *n = 0;
    if (!kv) return 0;
    if (kv->kind != FG_GGUF_ARRAY || kv->element != FG_GGUF_STRING) {
        return wrong_kind(g, kv, "an array of strings", err);
    }
    // 8 bytes of the file each at least, so the product is bounded by twice the file
    struct fg_gguf_str *list = malloc((kv->n ? kv->n : 1) * sizeof *list);
    if (!list) return fg_fail_memory(err, WHAT, kv->n * sizeof *list);
    const uint8_t *p = kv->data;
    for (uint64_t i = 0; i < kv->n; i++) {
        list[i] = (struct fg_gguf_str){(const char *)p + 8, bits(p, 8)};
        p += 8 + list[i].n;
    }
    *out = list;
    *n = kv->n;
    return 0;
}

int fg_gguf_i64s(const struct fg_gguf *g, const char *key, int64_t min, int64_t max, int64_t **out,
                 uint64_t *n, struct fg_error *err)
{
    const struct fg_gguf_kv *kv = fg_gguf_kv_find(g, key);
    *out = NULL;
    *n = 0;
    if (!kv) return 0;
    if (!kinds[kv->element].bytes) return wrong_kind(g, kv, "integers", err);
    int64_t *list = malloc((kv->n ? kv->n : 1) * sizeof *list);
    if (!list) return fg_fail_memory(err, WHAT, kv->n * sizeof *list);
    for (uint64_t i = 0; i < kv->n; i++) {
        int rc = integer_in(g, kv, i, min, max, &list[i], err);
        if (rc) {
            free(list);
            return rc;
        }
    }
    *out = list;
    *n = kv->n;
    return 0;
}
