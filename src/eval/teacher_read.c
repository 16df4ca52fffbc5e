// eval/teacher_read.c: the index of a teacher cache and its shards, when they are needed.
#include "base/file.h"
#include "base/json.h"
#include "base/num.h"
#include "base/size.h"
#include "eval/teacher_impl.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_BYTES_MAX (64u << 20)
#define VOCAB_MAX (1 << 24)
#define SEQ_MAX (1 << 24)
#define N_MAX INT32_MAX
#define SHARDS_MAX 99999

struct entry {
    int64_t first, n, positions; // sequences
    int64_t bytes;
    char sha256[FG_SHA256_HEX];
    bool open;
    struct fg_teacher_shard shard;
};

struct fg_teacher {
    char *dir;
    struct fg_teacher_facts facts;
    struct entry *shards;
};

// ---- the index

static int hex_of(const struct fg_json *doc, struct json_object *obj, const char *where,
                  const char *key, bool may_miss, char out[FG_SHA256_HEX], struct fg_error *err)
{
    const char *s;
    char field[64], found[80];
    int rc = fg_json_str(doc, obj, where, key, "", &s, NULL, err);
    if (rc) return rc;
    size_t n = strlen(s);
    if ((n == 0 && may_miss) || (n == FG_SHA256_HEX - 1 && strspn(s, "0123456789abcdef") == n)) {
        memcpy(out, s, n + 1);
        return 0;
    }
    snprintf(field, sizeof field, "%s%s", where, key);
    return fg_fail(err, FG_EINPUT, FG_TEACHER_WHAT, doc->file, field, "64 hexadecimal digits", "%s",
                   n ? fg_escape(found, sizeof found, s, n) : "nothing");
}

// A member that is one of two words.
static int one_of(const struct fg_json *doc, const char *key, const char *a, const char *b,
                  bool *is_a, struct fg_error *err)
{
    const char *s;
    char expected[48], found[48];
    int rc = fg_json_str(doc, doc->root, "", key, "", &s, NULL, err);
    if (rc) return rc;
    *is_a = strcmp(s, a) == 0;
    if (*is_a || (b && strcmp(s, b) == 0)) return 0;
    snprintf(expected, sizeof expected, "%s%s%s", a, b ? " or " : "", b ? b : "");
    return fg_fail(err, FG_EINPUT, FG_TEACHER_WHAT, doc->file, key, expected, "%s",
                   *s ? fg_escape(found, sizeof found, s, strlen(s)) : "nothing");
}

static int integer(const struct fg_json *doc, struct json_object *obj, const char *where,
                   const char *key, int64_t max, int64_t *out, struct fg_error *err)
{
    bool given = false;
    char field[64];
    int rc = fg_json_i64(doc, obj, where, key, 0, 1, max, out, &given, err);
    if (rc || given) return rc;
    snprintf(field, sizeof field, "%s%s", where, key);
    return fg_fail(err, FG_EINPUT, FG_TEACHER_WHAT, doc->file, field, "a number", "nothing");
}

static int short_text(const struct fg_json *doc, const char *key, char *out, size_t cap,
                      struct fg_error *err)
{
    const char *s;
    int rc = fg_json_str(doc, doc->root, "", key, "", &s, NULL, err);
    if (!rc) fg_escape(out, cap, s, strlen(s));
    return rc;
}

static int read_facts(const struct fg_json *doc, struct fg_teacher_facts *f, struct fg_error *err)
{
    struct json_object *root = doc->root;
    bool known, f32 = true;
    int rc = one_of(doc, "schema", FG_TEACHER_SCHEMA, NULL, &known, err);
    if (!rc) rc = one_of(doc, "kind", "rows", "trace", &f->rows, err);
    if (!rc) rc = one_of(doc, "lp", "f32", "f16", &f32, err);
    f->f16 = !f32;
    if (!rc) rc = integer(doc, root, "", "vocab", VOCAB_MAX, &f->vocab, err);
    if (!rc)
        rc = integer(doc, root, "", "k", f->vocab < FG_TEACHER_K_MAX ? f->vocab : FG_TEACHER_K_MAX,
                     &f->k, err);
    if (!rc && f->rows) rc = integer(doc, root, "", "seq", SEQ_MAX, &f->seq, err);
    if (!rc && f->rows && f->seq < 2)
        rc = fg_fail_range(err, FG_TEACHER_WHAT, doc->file, "seq", 2, SEQ_MAX, f->seq);
    if (!rc) rc = integer(doc, root, "", "sequences", N_MAX, &f->n, err);
    if (!rc) rc = integer(doc, root, "", "positions", INT64_MAX, &f->positions, err);
    if (!rc) rc = hex_of(doc, root, "", "model_digest", false, f->model, err);
    if (!rc) rc = hex_of(doc, root, "", "tokenizer_sha256", true, f->tokenizer, err);
    if (!rc) rc = hex_of(doc, root, "", "rows_sha256", false, f->rows_sha256, err);
    if (!rc) rc = short_text(doc, "numerics", f->numerics, sizeof f->numerics, err);
    if (!rc) rc = short_text(doc, "kv_cache", f->kv_cache, sizeof f->kv_cache, err);
    return rc;
}

static int read_shard(struct fg_teacher *t, const struct fg_json *doc, struct json_object *obj,
                      int64_t i, struct fg_error *err)
{
    struct entry *e = &t->shards[i];
    char where[32];
    snprintf(where, sizeof where, "shards[%" PRId64 "].", i);
    int rc = integer(doc, obj, where, "sequences", N_MAX, &e->n, err);
    if (!rc) rc = integer(doc, obj, where, "positions", INT64_MAX, &e->positions, err);
    if (!rc) rc = integer(doc, obj, where, "bytes", INT64_MAX, &e->bytes, err);
    if (!rc) rc = hex_of(doc, obj, where, "sha256", false, e->sha256, err);
    return rc;
}

// The shards, which together hold the sequences and positions of the index.
static int read_shards(struct fg_teacher *t, const struct fg_json *doc, struct fg_error *err)
{
    struct fg_teacher_facts *f = &t->facts;
    struct json_object *list = NULL;
    uint64_t n = 0, positions = 0;
    int rc = fg_json_arr(doc, doc->root, "", "shards", &list, err);
    if (rc) return rc;
    f->n_shards = list ? (int64_t)json_object_array_length(list) : 0;
    if (f->n_shards < 1 || f->n_shards > SHARDS_MAX)
        return fg_fail_range(err, FG_TEACHER_WHAT, doc->file, "shards", 1, SHARDS_MAX, f->n_shards);
    t->shards = calloc((size_t)f->n_shards, sizeof *t->shards);
    if (!t->shards)
        return fg_fail_memory(err, FG_TEACHER_WHAT, (uint64_t)f->n_shards * sizeof *t->shards);
    for (int64_t i = 0; i < f->n_shards && !rc; i++) {
        struct entry *e = &t->shards[i];
        rc = read_shard(t, doc, json_object_array_get_idx(list, (size_t)i), i, err);
        e->first = (int64_t)n;
        bool fits = !rc && fg_add(&n, n, (uint64_t)e->n) &&
                    fg_add(&positions, positions, (uint64_t)e->positions) && n <= N_MAX;
        if (!rc && f->rows) fits = fits && e->positions == e->n * (f->seq - 1);
        if (!rc && !fits)
            rc = fg_fail(err, FG_EINPUT, FG_TEACHER_WHAT, doc->file, "shards",
                         "sequences and positions that fit the others",
                         "%" PRId64 " and %" PRId64 " in shard %" PRId64, e->n, e->positions, i);
    }
    if (!rc && (n != (uint64_t)f->n || positions != (uint64_t)f->positions)) {
        char expected[80];
        snprintf(expected, sizeof expected, "%" PRId64 " sequences with %" PRId64 " positions",
                 f->n, f->positions);
        rc = fg_fail(err, FG_EINPUT, FG_TEACHER_WHAT, doc->file, "shards", expected,
                     "%" PRIu64 " with %" PRIu64, n, positions);
    }
    return rc;
}

int fg_teacher_open(struct fg_teacher **out, const char *dir, struct fg_error *err)
{
    struct fg_json doc = {0};
    struct fg_teacher *t = calloc(1, sizeof *t);
    char *path = fg_path_join(dir, "index.json");
    *out = NULL;
    int rc = t && path && (t->dir = strdup(dir)) ? 0 : fg_fail_memory(err, FG_TEACHER_WHAT, 0);
    if (!rc && fg_dir_exists(dir) && !fg_path_taken(path)) {
        rc = fg_fail(err, FG_EINPUT, FG_TEACHER_WHAT, path, NULL, "a finished teacher cache",
                     "no such file");
        fg_error_hint(err, "forge teacher makes it, or goes on with one that was stopped");
    }
    if (!rc) rc = fg_json_open(&doc, path, INDEX_BYTES_MAX, err);
    if (!rc) rc = fg_sha256_file(path, t->facts.sha256, err);
    if (!rc) rc = read_facts(&doc, &t->facts, err);
    if (!rc) rc = read_shards(t, &doc, err);
    fg_json_close(&doc);
    free(path);
    if (rc) {
        fg_teacher_close(t);
        return rc;
    }
    *out = t;
    return 0;
}

void fg_teacher_close(struct fg_teacher *t)
{
    if (!t) return;
    for (int64_t i = 0; t->shards && i < t->facts.n_shards; i++)
        fg_teacher_shard_close(&t->shards[i].shard);
    free(t->shards);
    free(t->dir);
    free(t);
}

const struct fg_teacher_facts *fg_teacher_facts(const struct fg_teacher *t)
{
    return &t->facts;
}

int fg_teacher_check_set(const struct fg_teacher *t, const struct fg_eval_set *set,
                         struct fg_error *err)
{
    if (strcmp(t->facts.rows_sha256, set->sha256) == 0 && t->facts.n == set->n &&
        t->facts.positions == set->positions)
        return 0;
    char expected[96];
    snprintf(expected, sizeof expected, "%.16s..., the sequences given", set->sha256);
    int rc = fg_fail(err, FG_EINTEGRITY, FG_TEACHER_WHAT, t->dir, "rows_sha256", expected,
                     "%.16s...", t->facts.rows_sha256);
    fg_error_hint(err, "the cache was made from other files, or from these in another order");
    return rc;
}

// ---- shards

static int differs(const char *path, const char *field, const char *expected, const char *found,
                   struct fg_error *err)
{
    return fg_fail(err, FG_EINTEGRITY, FG_TEACHER_WHAT, path, field, expected, "%s", found);
}

static int check_file(const struct entry *e, const char *path, uint64_t bytes, struct fg_error *err)
{
    char hex[FG_SHA256_HEX], expected[32], found[32];
    if (bytes != (uint64_t)e->bytes) {
        snprintf(expected, sizeof expected, "%" PRId64 " bytes", e->bytes);
        snprintf(found, sizeof found, "%" PRIu64, bytes);
        return differs(path, "size", expected, found, err);
    }
    int rc = fg_sha256_file(path, hex, err);
    if (rc || strcmp(hex, e->sha256) == 0) return rc;
    return differs(path, "sha256", e->sha256, hex, err);
}

static int open_shard(struct fg_teacher *t, int64_t i, struct fg_error *err)
{
    struct entry *e = &t->shards[i];
    const struct fg_teacher_facts *f = &t->facts;
    const struct fg_teacher_shape shape = {.rows = f->rows,
                                           .f16 = f->f16,
                                           .k = f->k,
                                           .vocab = f->vocab,
                                           .seq = f->seq,
                                           .n = e->n,
                                           .positions = e->positions};
    char name[FG_TEACHER_NAME_BYTES];
    struct fg_map map;
    fg_teacher_shard_name(name, i);
    char *path = fg_path_join(t->dir, name);
    if (!path) return fg_fail_memory(err, FG_TEACHER_WHAT, strlen(t->dir));
    int rc = fg_map_open(&map, path, err);
    if (!rc) {
        rc = check_file(e, path, map.bytes, err);
        fg_map_close(&map);
    }
    if (!rc) rc = fg_teacher_shard_open(&e->shard, path, &shape, err);
    e->open = !rc;
    free(path);
    return rc;
}

// The shard of sequence i, open.
static int shard_of(struct fg_teacher *t, int64_t i, struct entry **out, struct fg_error *err)
{
    int64_t lo = 0, hi = t->facts.n_shards - 1;
    assert(i >= 0 && i < t->facts.n);
    while (lo < hi) {
        int64_t mid = lo + (hi - lo + 1) / 2;
        if (t->shards[mid].first <= i) {
            lo = mid;
        } else {
            hi = mid - 1;
        }
    }
    *out = &t->shards[lo];
    return t->shards[lo].open ? 0 : open_shard(t, lo, err);
}

int fg_teacher_positions(struct fg_teacher *t, int64_t i, int64_t *n, struct fg_error *err)
{
    struct entry *e;
    int rc = shard_of(t, i, &e, err);
    if (rc) return rc;
    const int64_t *at = e->shard.starts + (i - e->first);
    *n = at[1] - at[0];
    return 0;
}

int fg_teacher_read(struct fg_teacher *t, int64_t i, int64_t from, int64_t n, int32_t *ids,
                    float *lp, float *nll, struct fg_error *err)
{
    struct entry *e;
    int rc = shard_of(t, i, &e, err);
    if (rc) return rc;
    const int64_t *starts = e->shard.starts + (i - e->first);
    int64_t k = t->facts.k, at = starts[0] + from;
    assert(from >= 0 && n >= 0 && at + n <= starts[1]);
    size_t entries = (size_t)(n * k);
    if (ids) memcpy(ids, e->shard.ids->data + 4 * at * k, entries * sizeof *ids);
    if (lp && !t->facts.f16) memcpy(lp, e->shard.lp->data + 4 * at * k, entries * sizeof *lp);
    for (size_t j = 0; lp && t->facts.f16 && j < entries; j++) {
        uint16_t half;
        memcpy(&half, e->shard.lp->data + 2 * (at * k + (int64_t)j), sizeof half);
        lp[j] = fg_f16_to_f32(half);
    }
    if (nll) memcpy(nll, e->shard.nll->data + 4 * at, (size_t)n * sizeof *nll);
    return 0;
}
