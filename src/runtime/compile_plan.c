// runtime/compile_plan.c: a build's plan as text and back, its key, and the sizes in it.
#include "runtime/compile_plan.h"
#include "base/file.h"
#include "base/json.h"
#include "base/jwrite.h"
#include "base/size.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FORMAT "forge-plan-1"
#define CTX_MAX (1 << 20)
#define ROWS_MAX 4096
#define TEXT_MAX 256 // of a name

// ---- key

// Features that a level stands for; none: plain C.
static const struct {
    const char *isa, *features;
} levels[] = {
    {"ref", ""},
    {"avx2", "avx2 f16c fma"},
    {"avx2vnni", "avx2 avxvnni f16c fma"},
    {"avx512", "avx2 avx512bw avx512dq avx512f avx512vl f16c fma"},
    {"avx512vnni", "avx2 avx512bw avx512dq avx512f avx512vbmi avx512vl avx512vnni f16c fma"},
    {"avx512bf16",
     "avx2 avx512bf16 avx512bw avx512dq avx512f avx512vbmi avx512vl avx512vnni f16c fma"},
    {"amx", "amxint8 amxtile avx2 avx512bf16 avx512bw avx512dq avx512f avx512vbmi avx512vl "
            "avx512vnni f16c fma"},
    {"neon", "asimddp"},
};

static const char *features_of(const char *isa)
{
    for (size_t i = 0; i < FG_COUNT(levels); i++)
        if (strcmp(levels[i].isa, isa) == 0) return levels[i].features;
    return "";
}

static void add_text(struct fg_sha256 *h, const char *s)
{
    fg_sha256_add(h, s, strlen(s) + 1);
}

static void add_number(struct fg_sha256 *h, int64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, v);
    add_text(h, text);
}

bool fg_compile_plan_set_key(struct fg_compile_plan *p)
{
    struct fg_sha256 *h = fg_sha256_new();
    if (!h) return false;
    add_text(h, FORMAT);
    for (uint64_t i = 0; i < p->n_packages; i++)
        add_text(h, p->packages[i].sha256);
    add_text(h, p->manifest_sha256);
    add_text(h, p->isa);
    add_text(h, features_of(p->isa));
    add_text(h, p->numerics);
    add_number(h, p->tile_abi);
    add_number(h, p->engine_abi);
    for (int i = 0; i < p->n_entries; i++)
        add_number(h, p->entries[i].ctx);
    char options[96];
    snprintf(options, sizeof options, "layout=%.32s rows=%" PRId64, p->layout, p->rows_floor);
    add_text(h, options);
    fg_sha256_end(h, p->key);
    return true;
}

// ---- writing

int fg_compile_plan_write(const struct fg_compile_plan *p, struct fg_buf *out, struct fg_error *err)
{
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "format", FORMAT);
    fg_jwrite_str(&w, "key", p->key);
    fg_jwrite_str(&w, "manifest_sha256", p->manifest_sha256);
    fg_jwrite_str(&w, "isa", p->isa);
    fg_jwrite_str(&w, "features", features_of(p->isa));
    fg_jwrite_str(&w, "numerics", p->numerics);
    fg_jwrite_str(&w, "layout", p->layout);
    fg_jwrite_int(&w, "tile_abi", p->tile_abi);
    fg_jwrite_int(&w, "engine_abi", p->engine_abi);
    fg_jwrite_int(&w, "rows_floor", p->rows_floor);
    fg_jwrite_array(&w, "entries");
    for (int i = 0; i < p->n_entries; i++) {
        fg_jwrite_object(&w, NULL);
        fg_jwrite_int(&w, "ctx", p->entries[i].ctx);
        fg_jwrite_int(&w, "prefill_rows", p->entries[i].prefill_rows);
        fg_jwrite_uint(&w, "scratch_bytes", p->entries[i].scratch_bytes);
        fg_jwrite_end_object(&w);
    }
    fg_jwrite_end_array(&w);
    fg_jwrite_array(&w, "packages");
    for (uint64_t i = 0; i < p->n_packages; i++) {
        fg_jwrite_object(&w, NULL);
        fg_jwrite_str(&w, "file", p->packages[i].file);
        fg_jwrite_str(&w, "sha256", p->packages[i].sha256);
        fg_jwrite_str(&w, "tiles", p->packages[i].tiles);
        fg_jwrite_uint(&w, "tile_bytes", p->packages[i].tile_bytes);
        fg_jwrite_end_object(&w);
    }
    fg_jwrite_end_array(&w);
    fg_jwrite_array(&w, "matrices");
    for (uint64_t i = 0; i < p->n_mats; i++) {
        fg_jwrite_object(&w, NULL);
        fg_jwrite_str(&w, "name", p->mats[i].name);
        fg_jwrite_str(&w, "format", p->mats[i].format);
        fg_jwrite_str(&w, "layout", p->mats[i].layout);
        fg_jwrite_end_object(&w);
    }
    fg_jwrite_end_array(&w);
    fg_jwrite_end_object(&w);
    fg_buf_clear(out);
    fg_buf_add(out, w.buf.data, w.buf.len);
    fg_buf_char(out, '\n');
    int rc = w.buf.failed || out->failed ? fg_fail_memory(err, "plan", w.buf.len) : 0;
    fg_jwrite_free(&w);
    return rc;
}

// ---- reading

struct reader {
    struct fg_json json;
    struct fg_arena *arena;
    struct fg_error *err;
};

// A required text of at most TEXT_MAX bytes, copied.
static int take_text(struct reader *r, struct json_object *obj, const char *where, const char *key,
                     const char **out)
{
    const char *s = NULL;
    size_t n = 0;
    int rc = fg_json_str(&r->json, obj, where, key, NULL, &s, &n, r->err);
    if (rc) return rc;
    char field[96];
    snprintf(field, sizeof field, "%s%s", where, key);
    if (!s) return fg_fail(r->err, FG_EINPUT, "plan", r->json.file, field, "a text", "nothing");
    if (n == 0 || n > TEXT_MAX || strlen(s) != n)
        return fg_fail(r->err, FG_EINPUT, "plan", r->json.file, field, "1 to 256 bytes", "%zu", n);
    char *copy = fg_arena_strdup(r->arena, s, n);
    if (!copy) return fg_fail_memory(r->err, "plan", n);
    *out = copy;
    return 0;
}

static int take_sha(struct reader *r, struct json_object *obj, const char *where, const char *key,
                    const char **out)
{
    int rc = take_text(r, obj, where, key, out);
    if (rc) return rc;
    if (strspn(*out, "0123456789abcdef") == 64 && strlen(*out) == 64) return 0;
    char field[96];
    snprintf(field, sizeof field, "%s%s", where, key);
    return fg_fail(r->err, FG_EINPUT, "plan", r->json.file, field,
                   "64 lower-case hexadecimal digits", "something else");
}

static int take_int(struct reader *r, struct json_object *obj, const char *where, const char *key,
                    int64_t min, int64_t max, int64_t *out)
{
    bool given = false;
    int rc = fg_json_i64(&r->json, obj, where, key, min, min, max, out, &given, r->err);
    if (rc == 0 && !given) {
        char field[96];
        snprintf(field, sizeof field, "%s%s", where, key);
        rc = fg_fail(r->err, FG_EINPUT, "plan", r->json.file, field, "a number", "nothing");
    }
    return rc;
}

static int take_bytes(struct reader *r, struct json_object *obj, const char *where, const char *key,
                      uint64_t *out)
{
    int64_t v = 0;
    int rc = take_int(r, obj, where, key, 0, INT64_MAX, &v);
    *out = (uint64_t)v;
    return rc;
}

static int take_array(struct reader *r, struct json_object *root, const char *key, uint64_t min,
                      uint64_t max, struct json_object **out, uint64_t *n)
{
    *n = 0;
    int rc = fg_json_arr(&r->json, root, "", key, out, r->err);
    if (rc) return rc;
    *n = *out ? json_object_array_length(*out) : 0;
    if (*n >= min && *n <= max) return 0;
    return fg_fail_range(r->err, "plan", r->json.file, key, (int64_t)min, (int64_t)max,
                         (int64_t)*n);
}

static int take_entries(struct reader *r, struct json_object *root, struct fg_compile_plan *p)
{
    struct json_object *list = NULL;
    uint64_t n = 0;
    int rc = take_array(r, root, "entries", 1, FG_COMPILE_PLAN_ENTRIES_MAX, &list, &n);
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        struct fg_compile_plan_entry *e = &p->entries[i];
        struct json_object *obj = json_object_array_get_idx(list, (size_t)i);
        char where[32];
        snprintf(where, sizeof where, "entries[%" PRIu64 "].", i);
        int64_t least = i ? p->entries[i - 1].ctx + 1 : 1;
        rc = take_int(r, obj, where, "ctx", least, CTX_MAX, &e->ctx);
        if (rc == 0) rc = take_int(r, obj, where, "prefill_rows", 1, ROWS_MAX, &e->prefill_rows);
        if (rc == 0) rc = take_bytes(r, obj, where, "scratch_bytes", &e->scratch_bytes);
    }
    p->n_entries = (int)n;
    return rc;
}

static int take_packages(struct reader *r, struct json_object *root, struct fg_compile_plan *p)
{
    struct json_object *list = NULL;
    int rc =
        take_array(r, root, "packages", 1, FG_COMPILE_PLAN_PACKAGES_MAX, &list, &p->n_packages);
    if (rc) return rc;
    struct fg_compile_plan_package *packages =
        fg_arena_alloc(r->arena, p->n_packages, sizeof *packages);
    if (!packages) return fg_fail_memory(r->err, "plan", p->n_packages);
    p->packages = packages;
    for (uint64_t i = 0; i < p->n_packages && rc == 0; i++) {
        struct json_object *obj = json_object_array_get_idx(list, (size_t)i);
        char where[32];
        snprintf(where, sizeof where, "packages[%" PRIu64 "].", i);
        rc = take_text(r, obj, where, "file", &packages[i].file);
        if (rc == 0) rc = take_sha(r, obj, where, "sha256", &packages[i].sha256);
        if (rc == 0) rc = take_text(r, obj, where, "tiles", &packages[i].tiles);
        if (rc == 0) rc = take_bytes(r, obj, where, "tile_bytes", &packages[i].tile_bytes);
        if (rc == 0 && (strchr(packages[i].tiles, '/') || packages[i].tiles[0] == '.'))
            rc = fg_fail(r->err, FG_EINPUT, "plan", r->json.file, "packages.tiles",
                         "the name of a file", "a path");
    }
    return rc;
}

static int take_mats(struct reader *r, struct json_object *root, struct fg_compile_plan *p)
{
    struct json_object *list = NULL;
    int rc = take_array(r, root, "matrices", 0, FG_COMPILE_PLAN_MATS_MAX, &list, &p->n_mats);
    if (rc) return rc;
    struct fg_compile_plan_mat *mats = fg_arena_alloc(r->arena, p->n_mats, sizeof *mats);
    if (!mats) return fg_fail_memory(r->err, "plan", p->n_mats);
    p->mats = mats;
    for (uint64_t i = 0; i < p->n_mats && rc == 0; i++) {
        struct json_object *obj = json_object_array_get_idx(list, (size_t)i);
        char where[32];
        snprintf(where, sizeof where, "matrices[%" PRIu64 "].", i);
        rc = take_text(r, obj, where, "name", &mats[i].name);
        if (rc == 0) rc = take_text(r, obj, where, "format", &mats[i].format);
        if (rc == 0) rc = take_text(r, obj, where, "layout", &mats[i].layout);
    }
    return rc;
}

static int take_plan(struct reader *r, struct fg_compile_plan *p)
{
    struct json_object *root = r->json.root;
    const char *format = NULL, *key = NULL;
    int rc = take_text(r, root, "", "format", &format);
    if (rc == 0 && strcmp(format, FORMAT) != 0)
        rc = fg_fail(r->err, FG_EINPUT, "plan", r->json.file, "format", FORMAT, "another one");
    if (rc == 0) rc = take_sha(r, root, "", "key", &key);
    if (rc == 0) rc = take_sha(r, root, "", "manifest_sha256", &p->manifest_sha256);
    if (rc == 0) rc = take_text(r, root, "", "isa", &p->isa);
    if (rc == 0) rc = take_text(r, root, "", "numerics", &p->numerics);
    if (rc == 0) rc = take_text(r, root, "", "layout", &p->layout);
    if (rc == 0) rc = take_int(r, root, "", "tile_abi", 0, UINT32_MAX, &p->tile_abi);
    if (rc == 0) rc = take_int(r, root, "", "engine_abi", 0, UINT32_MAX, &p->engine_abi);
    if (rc == 0) rc = take_int(r, root, "", "rows_floor", 1, ROWS_MAX, &p->rows_floor);
    if (rc == 0) rc = take_entries(r, root, p);
    if (rc == 0) rc = take_packages(r, root, p);
    if (rc == 0) rc = take_mats(r, root, p);
    if (rc) return rc;
    if (!fg_compile_plan_set_key(p)) return fg_fail_memory(r->err, "plan", sizeof *p);
    if (strcmp(p->key, key) != 0)
        return fg_fail(r->err, FG_EINTEGRITY, "plan", r->json.file, "key", p->key, "%s", key);
    return 0;
}

int fg_compile_plan_parse(struct fg_compile_plan_doc *doc, const char *text, size_t n,
                          const char *name, struct fg_error *err)
{
    *doc = (struct fg_compile_plan_doc){0};
    fg_arena_init(&doc->arena, 0);
    struct reader r = {.arena = &doc->arena, .err = err};
    int rc = fg_json_parse(&r.json, text, n, name, err);
    if (rc == 0) rc = take_plan(&r, &doc->plan);
    fg_json_close(&r.json);
    if (rc) fg_compile_plan_close(doc);
    return rc;
}

int fg_compile_plan_open(struct fg_compile_plan_doc *doc, const char *path, struct fg_error *err)
{
    struct fg_buf text = {0};
    *doc = (struct fg_compile_plan_doc){0};
    int rc = fg_file_load(&text, path, FG_COMPILE_PLAN_BYTES_MAX, err);
    if (rc == 0) rc = fg_compile_plan_parse(doc, text.data, text.len, path, err);
    fg_buf_free(&text);
    return rc;
}

void fg_compile_plan_close(struct fg_compile_plan_doc *doc)
{
    fg_arena_free(&doc->arena);
    *doc = (struct fg_compile_plan_doc){0};
}

// ---- sizes

uint64_t fg_compile_plan_scratch(const struct fg_compile_plan_shape *s, int64_t ctx, int64_t rows)
{
    const int64_t T = 8; // rows of a verify call
    int64_t head = s->n_heads * (s->head_dim + 2), segments = (ctx + s->segment - 1) / s->segment;
    int64_t per_row = 8 * s->hidden + 9 * s->intermediate + 4 * s->mixer_width + 4 * head;
    return (uint64_t)(rows * per_row + 4 * T * s->vocab + 4 * T * head * segments);
}

int64_t fg_compile_plan_rows(const struct fg_compile_plan_shape *s, const char *isa, int threads)
{
    // Nominal: 10^9 multiply-adds per second of one thread; bytes per second of one, and of all.
    static const struct {
        const char *isa;
        double macs;
    } rates[] = {{"ref", 2},          {"avx2", 60},        {"avx2vnni", 115}, {"avx512", 60},
                 {"avx512vnni", 115}, {"avx512bf16", 115}, {"amx", 2000},     {"neon", 60}};
    const double thread_bytes = 15, machine_bytes = 40;
    double macs = 2;
    for (size_t i = 0; i < FG_COUNT(rates); i++)
        if (strcmp(rates[i].isa, isa) == 0) macs = rates[i].macs;
    double bytes = threads * thread_bytes < machine_bytes ? threads * thread_bytes : machine_bytes;
    double read = (double)s->weight_bytes / bytes;
    double compute_of_row = (double)s->weights / (macs * threads);
    int64_t rows = 32;
    while (rows < 512 && read > 0.25 * compute_of_row * (double)rows)
        rows *= 2;
    return rows;
}
