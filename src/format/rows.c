// Reading and writing rows and traces. Both sides share the checks of what a file may hold, so that
// what is written reads back. Ids are copied out of the map: callers shuffle and cut them.
#include "format/rows.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/jval.h"
#include "base/num.h"
#include "base/size.h"
#include "format/npy.h"
#include "format/st_file.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT_ROWS "rows"
#define WHAT_TRACE "trace"
#define N_MAX (1ll << 31)   // rows or sequences
#define SEQ_MAX (1ll << 24) // tokens of one
#define FACTS 6             // metadata pairs, labels included

// ---- what a file says of itself

static bool is_sha256(const char *s)
{
    return strlen(s) == FG_SHA256_HEX - 1 && strspn(s, "0123456789abcdef") == FG_SHA256_HEX - 1;
}

static int copy_fact(const struct fg_st_file *f, const char *what, const char *key, char *out,
                     size_t cap, struct fg_error *err)
{
    const char *value = fg_st_file_metadata(f, key);
    size_t n = value ? strlen(value) : 0;
    if (n >= cap) {
        char expected[48];
        snprintf(expected, sizeof expected, "at most %zu bytes", cap - 1);
        return fg_fail(err, FG_EINPUT, what, fg_st_file_path(f), key, expected, "%zu", n);
    }
    memcpy(out, n ? value : "", n + 1);
    return 0;
}

static int read_facts(const struct fg_st_file *f, const char *what, const char *schema,
                      struct fg_rows_facts *facts, struct fg_error *err)
{
    const char *path = fg_st_file_path(f), *found = fg_st_file_metadata(f, "schema");
    if (!found || strcmp(found, schema) != 0) {
        return fg_fail(err, FG_EINPUT, what, path, "schema", schema, "%s", found ? found : "none");
    }
    char seed[24];
    int rc = copy_fact(f, what, "tokenizer_sha256", facts->tokenizer_sha256,
                       sizeof facts->tokenizer_sha256, err);
    if (!rc) rc = copy_fact(f, what, "source", facts->source, sizeof facts->source, err);
    if (!rc) rc = copy_fact(f, what, "split", facts->split, sizeof facts->split, err);
    if (!rc) rc = copy_fact(f, what, "seed", seed, sizeof seed, err);
    if (rc) return rc;
    if (seed[0] && !fg_parse_u64(seed, &facts->seed)) {
        return fg_fail(err, FG_EINPUT, what, path, "seed", "a number below 2^64", "%s", seed);
    }
    return 0;
}

static int check_facts(const struct fg_rows_facts *facts, const char *what, const char *path,
                       struct fg_error *err)
{
    if (facts->tokenizer_sha256[0] && !is_sha256(facts->tokenizer_sha256)) {
        return fg_fail(err, FG_EINPUT, what, path, "tokenizer_sha256", "64 hexadecimal digits",
                       "%s", facts->tokenizer_sha256);
    }
    return 0;
}

static int check_tokenizer(const struct fg_rows_facts *facts, const char *what, const char *path,
                           const char *model, struct fg_error *err)
{
    const char *made = facts->tokenizer_sha256;
    if (!model || !made[0] || strcmp(made, model) == 0) return 0;
    char expected[80];
    snprintf(expected, sizeof expected, "the model's tokenizer %.12s", model);
    int rc = fg_fail(err, FG_EINPUT, what, path, "tokenizer_sha256", expected,
                     "made for tokenizer %.12s, the model has %.12s", made, model);
    fg_error_hint(err, "make the file again with this model");
    return rc;
}

static uint64_t put_facts(const struct fg_rows_facts *facts, const char *schema, char seed[24],
                          struct fg_st_pair pairs[FACTS])
{
    snprintf(seed, 24, "%" PRIu64, facts->seed);
    uint64_t n = 0;
    pairs[n++] = (struct fg_st_pair){"schema", schema};
    pairs[n++] = (struct fg_st_pair){"tokenizer_sha256", facts->tokenizer_sha256};
    pairs[n++] = (struct fg_st_pair){"source", facts->source};
    pairs[n++] = (struct fg_st_pair){"split", facts->split};
    pairs[n++] = (struct fg_st_pair){"seed", seed};
    return n;
}

// ---- tensors

struct known {
    const char *name;
    enum fg_st_dtype dtype;
    int rank;
    bool required;
};

// Every tensor of the file is one of the known ones, and the required ones are there.
static int check_tensors(const struct fg_st_file *f, const char *what, const struct known *known,
                         size_t n_known, struct fg_error *err)
{
    const char *path = fg_st_file_path(f);
    for (uint64_t i = 0; i < fg_st_file_count(f); i++) {
        const struct fg_st_tensor *t = fg_st_file_at(f, i);
        size_t k = 0;
        while (k < n_known && strcmp(known[k].name, t->name) != 0)
            k++;
        if (k < n_known) {
            if (t->dtype == known[k].dtype && t->rank == known[k].rank) continue;
            char expected[48];
            snprintf(expected, sizeof expected, "%s of rank %d", fg_st_dtype_name(known[k].dtype),
                     known[k].rank);
            return fg_fail(err, FG_EINPUT, what, path, t->name, expected, "%s of rank %d",
                           fg_st_dtype_name(t->dtype), t->rank);
        }
        if (strncmp(t->name, FG_ST_PAD, strlen(FG_ST_PAD)) == 0) continue;
        struct fg_buf list = {0};
        for (k = 0; k < n_known; k++)
            fg_buf_printf(&list, k ? ", %s" : "one of %s", known[k].name);
        int rc = fg_fail(err, FG_EINPUT, what, path, t->name, list.data, "an unknown tensor");
        fg_buf_free(&list);
        return rc;
    }
    for (size_t k = 0; k < n_known; k++) {
        if (known[k].required && !fg_st_file_find(f, known[k].name)) {
            return fg_fail(err, FG_EINPUT, what, path, known[k].name, "this tensor", "none");
        }
    }
    return 0;
}

// A copy of the tensor's data into *out; absent tensors leave it NULL. Its size is that of bytes
// of the file, so it needs no limit of its own.
static int copy_tensor(const struct fg_st_file *f, const char *what, const char *name, void *out,
                       struct fg_error *err)
{
    const struct fg_st_tensor *t = fg_st_file_find(f, name);
    void *copy = NULL;
    if (t) {
        copy = malloc(t->bytes ? t->bytes : 1);
        if (!copy) return fg_fail_memory(err, what, t->bytes);
        memcpy(copy, t->data, t->bytes);
    }
    memcpy(out, &copy, sizeof copy);
    return 0;
}

// ---- rows

static int check_shape(int64_t n, int64_t seq, const char *path, struct fg_error *err)
{
    if (n < 1 || n > N_MAX) {
        return fg_fail_range(err, WHAT_ROWS, path, "ids: rows", 1, N_MAX, n);
    }
    if (seq < 1 || seq > SEQ_MAX) {
        return fg_fail_range(err, WHAT_ROWS, path, "ids: tokens per row", 1, SEQ_MAX, seq);
    }
    return 0;
}

static int fail_id(const char *what, const char *path, const char *of, int64_t id, int64_t row,
                   int64_t column, int64_t vocab, struct fg_error *err)
{
    char expected[48];
    if (vocab > 0) {
        snprintf(expected, sizeof expected, "tokens below %" PRId64, vocab);
    } else {
        snprintf(expected, sizeof expected, "tokens from 0 on");
    }
    return fg_fail(err, FG_EINPUT, what, path, "ids", expected,
                   "token %" PRId64 " at %s %" PRId64 ", column %" PRId64, id, of, row, column);
}

static int check_rows(const struct fg_rows *rows, const char *path, int64_t vocab,
                      struct fg_error *err)
{
    int rc = check_shape(rows->n, rows->seq, path, err);
    if (!rc) rc = check_facts(&rows->facts, WHAT_ROWS, path, err);
    if (rc) return rc;
    for (int64_t i = 0; i < rows->n * rows->seq; i++) {
        int64_t row = i / rows->seq, column = i % rows->seq, id = rows->ids[i];
        if (id < 0 || (vocab > 0 && id >= vocab)) {
            return fail_id(WHAT_ROWS, path, "row", id, row, column, vocab, err);
        }
        if (rows->seq_id && rows->seq_id[i] < -1) {
            return fg_fail(err, FG_EINPUT, WHAT_ROWS, path, "seq_id", "-1 or more",
                           "%" PRId32 " at row %" PRId64 ", column %" PRId64, rows->seq_id[i], row,
                           column);
        }
        if (rows->mask && rows->mask[i] > 1) {
            return fg_fail(err, FG_EINPUT, WHAT_ROWS, path, "mask", "0 or 1",
                           "%d at row %" PRId64 ", column %" PRId64, rows->mask[i], row, column);
        }
    }
    return 0;
}

static int same_shape(const struct fg_st_file *f, const char *name, const struct fg_rows *rows,
                      struct fg_error *err)
{
    const struct fg_st_tensor *t = fg_st_file_find(f, name);
    if (!t || (t->shape[0] == (uint64_t)rows->n && t->shape[1] == (uint64_t)rows->seq)) return 0;
    char expected[64];
    snprintf(expected, sizeof expected, "the shape of ids, [%" PRId64 ", %" PRId64 "]", rows->n,
             rows->seq);
    return fg_fail(err, FG_EINPUT, WHAT_ROWS, fg_st_file_path(f), name, expected,
                   "[%" PRIu64 ", %" PRIu64 "]", t->shape[0], t->shape[1]);
}

static int read_rows(struct fg_rows *rows, const struct fg_st_file *f, struct fg_error *err)
{
    static const struct known known[] = {
        {"ids", FG_ST_I32, 2, true}, {"seq_id", FG_ST_I32, 2, false}, {"mask", FG_ST_U8, 2, false}};
    int rc = read_facts(f, WHAT_ROWS, FG_ROWS_SCHEMA, &rows->facts, err);
    if (!rc) rc = check_tensors(f, WHAT_ROWS, known, FG_COUNT(known), err);
    if (rc) return rc;
    const struct fg_st_tensor *ids = fg_st_file_find(f, "ids");
    rows->n = (int64_t)ids->shape[0]; // below FG_ST_FILE_DIM_MAX
    rows->seq = (int64_t)ids->shape[1];
    rc = check_shape(rows->n, rows->seq, fg_st_file_path(f), err);
    if (!rc) rc = same_shape(f, "seq_id", rows, err);
    if (!rc) rc = same_shape(f, "mask", rows, err);
    if (!rc) rc = copy_tensor(f, WHAT_ROWS, "ids", &rows->ids, err);
    if (!rc) rc = copy_tensor(f, WHAT_ROWS, "seq_id", &rows->seq_id, err);
    if (!rc) rc = copy_tensor(f, WHAT_ROWS, "mask", &rows->mask, err);
    return rc;
}

static int read_npy(struct fg_rows *rows, const char *path, struct fg_error *err)
{
    struct fg_npy npy;
    int rc = fg_npy_open(&npy, path, err);
    if (rc) return rc;
    bool wide = npy.dtype == FG_NPY_I64;
    if ((!wide && npy.dtype != FG_NPY_I32) || npy.rank != 2) {
        rc = fg_fail(err, FG_EINPUT, WHAT_ROWS, path, "array", "<i8 or <i4 of rank 2",
                     "%s of rank %d", fg_npy_dtype_name(npy.dtype), npy.rank);
        goto done;
    }
    // An extent past the limit must not become negative; with one of 0 the data say nothing of it.
    rows->n = npy.shape[0] > N_MAX ? N_MAX + 1 : (int64_t)npy.shape[0];
    rows->seq = npy.shape[1] > SEQ_MAX ? SEQ_MAX + 1 : (int64_t)npy.shape[1];
    if ((rc = check_shape(rows->n, rows->seq, path, err))) goto done;
    rows->ids = malloc(npy.n * sizeof *rows->ids);
    if (!rows->ids) {
        rc = fg_fail_memory(err, WHAT_ROWS, npy.n * sizeof *rows->ids);
        goto done;
    }
    if (!wide) {
        memcpy(rows->ids, npy.data, npy.n * sizeof *rows->ids);
        goto done;
    }
    for (uint64_t i = 0; i < npy.n; i++) {
        int64_t id;
        memcpy(&id, (const char *)npy.data + i * sizeof id, sizeof id);
        if (id < 0 || id > INT32_MAX) {
            rc = fail_id(WHAT_ROWS, path, "row", id, (int64_t)i / rows->seq, (int64_t)i % rows->seq,
                         id < 0 ? 0 : 1ll << 31, err);
            goto done;
        }
        rows->ids[i] = (int32_t)id;
    }
done:
    fg_npy_close(&npy);
    return rc;
}

static int is_npy(const char *path, bool *out, struct fg_error *err)
{
    struct fg_map map;
    int rc = fg_map_open(&map, path, err);
    if (rc) return rc;
    *out = map.bytes >= 6 && memcmp(map.data, "\x93NUMPY", 6) == 0;
    fg_map_close(&map);
    return 0;
}

int fg_rows_open(struct fg_rows *out, const char *path, int64_t vocab, int64_t seq,
                 const char *tokenizer_sha256, struct fg_error *err)
{
    *out = (struct fg_rows){0};
    bool npy;
    struct fg_st_file *f = NULL;
    int rc = is_npy(path, &npy, err);
    if (rc) return rc;
    if (npy) {
        rc = read_npy(out, path, err);
    } else {
        rc = fg_st_file_open(&f, WHAT_ROWS, path, err);
        if (!rc) rc = read_rows(out, f, err);
    }
    if (!rc && seq > 0 && out->seq != seq) {
        char expected[48];
        snprintf(expected, sizeof expected, "%" PRId64 " tokens per row", seq);
        rc = fg_fail(err, FG_EINPUT, WHAT_ROWS, path, "ids", expected, "%" PRId64, out->seq);
    }
    // Another tokenizer explains ids out of range better than they do.
    if (!rc) rc = check_tokenizer(&out->facts, WHAT_ROWS, path, tokenizer_sha256, err);
    if (!rc) rc = check_rows(out, path, vocab, err);
    if (!rc) rc = fg_sha256_file(path, out->sha256, err);
    fg_st_file_close(f);
    if (rc) fg_rows_free(out);
    return rc;
}

static int write_file(const char *path, const struct fg_st_blob *blobs, uint64_t n,
                      const struct fg_st_pair *pairs, uint64_t n_pairs, char sha256[FG_SHA256_HEX],
                      struct fg_error *err)
{
    struct fg_st_options o = {.metadata = pairs, .n_metadata = n_pairs, .hash = sha256 != NULL};
    struct fg_st_written written;
    int rc = fg_st_file_write(path, blobs, n, &o, &written, err);
    if (!rc && sha256) memcpy(sha256, written.sha256, FG_SHA256_HEX);
    return rc;
}

int fg_rows_write(const char *path, const struct fg_rows *rows, char sha256[FG_SHA256_HEX],
                  struct fg_error *err)
{
    int rc = check_rows(rows, path, 0, err);
    if (rc) return rc;
    uint64_t n = (uint64_t)rows->n, seq = (uint64_t)rows->seq, n_blobs = 0;
    struct fg_st_blob blobs[3];
    blobs[n_blobs++] = (struct fg_st_blob){"ids", FG_ST_I32, 2, {n, seq}, rows->ids};
    if (rows->seq_id) {
        blobs[n_blobs++] = (struct fg_st_blob){"seq_id", FG_ST_I32, 2, {n, seq}, rows->seq_id};
    }
    if (rows->mask) {
        blobs[n_blobs++] = (struct fg_st_blob){"mask", FG_ST_U8, 2, {n, seq}, rows->mask};
    }
    char seed[24];
    struct fg_st_pair pairs[FACTS];
    uint64_t n_pairs = put_facts(&rows->facts, FG_ROWS_SCHEMA, seed, pairs);
    return write_file(path, blobs, n_blobs, pairs, n_pairs, sha256, err);
}

void fg_rows_free(struct fg_rows *rows)
{
    free(rows->ids);
    free(rows->seq_id);
    free(rows->mask);
    *rows = (struct fg_rows){0};
}

// ---- traces

static int check_labels(const struct fg_trace *t, const char *path, struct fg_error *err)
{
    if (!t->label != (t->n_labels == 0)) {
        return fg_fail(err, FG_EINPUT, WHAT_TRACE, path, "labels", "names with the tensor label",
                       "%s", t->label ? "no names" : "no tensor");
    }
    if (t->n_labels < 0 || t->n_labels > FG_ROWS_LABELS_MAX) {
        return fg_fail_range(err, WHAT_TRACE, path, "labels", 0, FG_ROWS_LABELS_MAX, t->n_labels);
    }
    for (int i = 0; i < t->n_labels; i++) {
        bool good = t->labels[i][0] != '\0';
        for (int k = 0; k < i && good; k++)
            good = strcmp(t->labels[i], t->labels[k]) != 0;
        if (!good) {
            return fg_fail(err, FG_EINPUT, WHAT_TRACE, path, "labels", "names, each once",
                           "\"%s\" at %d", t->labels[i], i);
        }
    }
    for (int64_t i = 0; t->label && i < t->n; i++) {
        if (t->label[i] >= t->n_labels) {
            return fg_fail(err, FG_EINPUT, WHAT_TRACE, path, "label", "the number of a name",
                           "%d at sequence %" PRId64 " (%d names)", t->label[i], i, t->n_labels);
        }
    }
    return 0;
}

static int check_lengths(const struct fg_trace *t, const char *path, struct fg_error *err)
{
    int64_t total = 0;
    for (int64_t i = 0; i < t->n; i++) {
        if (t->lengths[i] < 2 || t->lengths[i] > SEQ_MAX) {
            return fg_fail(err, FG_EINPUT, WHAT_TRACE, path, "lengths", "2 to 16777216 tokens",
                           "%" PRId32 " at sequence %" PRId64, t->lengths[i], i);
        }
        if (t->plens[i] < 0 || t->plens[i] > t->lengths[i]) {
            return fg_fail(err, FG_EINPUT, WHAT_TRACE, path, "plens",
                           "from 0 to the sequence's length",
                           "%" PRId32 " at sequence %" PRId64 " of %" PRId32 " tokens", t->plens[i],
                           i, t->lengths[i]);
        }
        total += t->lengths[i]; // below N_MAX * SEQ_MAX = 2^55
    }
    if (total == t->total) return 0;
    char expected[48];
    snprintf(expected, sizeof expected, "a sum of %" PRId64 ", as ids has", t->total);
    return fg_fail(err, FG_EINPUT, WHAT_TRACE, path, "lengths", expected, "%" PRId64, total);
}

static int check_trace(const struct fg_trace *t, const char *path, int64_t vocab,
                       struct fg_error *err)
{
    if (t->n < 1 || t->n > N_MAX) {
        return fg_fail_range(err, WHAT_TRACE, path, "sequences", 1, N_MAX, t->n);
    }
    int rc = check_facts(&t->facts, WHAT_TRACE, path, err);
    if (!rc) rc = check_lengths(t, path, err);
    if (!rc) rc = check_labels(t, path, err);
    for (int64_t i = 0, at = 0; !rc && i < t->n; at += t->lengths[i++]) {
        for (int64_t k = 0; k < t->lengths[i]; k++) {
            int64_t id = t->ids[at + k];
            if (id < 0 || (vocab > 0 && id >= vocab)) {
                return fail_id(WHAT_TRACE, path, "sequence", id, i, k, vocab, err);
            }
        }
    }
    return rc;
}

static int read_labels(struct fg_trace *t, const struct fg_st_file *f, struct fg_error *err)
{
    const char *text = fg_st_file_metadata(f, "labels"), *path = fg_st_file_path(f);
    if (!text || !text[0]) return 0;
    struct fg_jdoc doc;
    int rc = fg_jdoc_parse(&doc, text, strlen(text), path, err);
    if (rc) return rc;
    const struct fg_jval *root = &doc.root;
    if (root->kind != FG_JARRAY || root->n > FG_ROWS_LABELS_MAX) {
        rc = fg_fail(err, FG_EINPUT, WHAT_TRACE, path, "labels", "an array of at most 64 names",
                     root->kind == FG_JARRAY ? "%zu names" : "another value (%zu)", root->n);
        goto done;
    }
    for (size_t i = 0; i < root->n; i++) {
        const struct fg_jval *v = &root->items[i];
        if (v->kind != FG_JSTRING || v->n >= sizeof t->labels[i] || memchr(v->text, 0, v->n)) {
            rc = fg_fail(err, FG_EINPUT, WHAT_TRACE, path, "labels", "names of at most 31 bytes",
                         "item %zu", i);
            goto done;
        }
        memcpy(t->labels[i], v->text, v->n);
    }
    t->n_labels = (int)root->n;
done:
    fg_jdoc_free(&doc);
    return rc;
}

static int read_trace(struct fg_trace *t, const struct fg_st_file *f, struct fg_error *err)
{
    static const struct known known[] = {{"ids", FG_ST_I32, 1, true},
                                         {"lengths", FG_ST_I32, 1, true},
                                         {"plens", FG_ST_I32, 1, true},
                                         {"label", FG_ST_U8, 1, false}};
    int rc = read_facts(f, WHAT_TRACE, FG_TRACE_SCHEMA, &t->facts, err);
    if (!rc) rc = check_tensors(f, WHAT_TRACE, known, FG_COUNT(known), err);
    if (rc) return rc;
    uint64_t n = fg_st_file_find(f, "lengths")->shape[0];
    for (size_t k = 2; k < FG_COUNT(known); k++) {
        const struct fg_st_tensor *other = fg_st_file_find(f, known[k].name);
        if (!other || other->shape[0] == n) continue;
        char expected[64];
        snprintf(expected, sizeof expected, "as many as lengths, %" PRIu64, n);
        return fg_fail(err, FG_EINPUT, WHAT_TRACE, fg_st_file_path(f), other->name, expected,
                       "%" PRIu64, other->shape[0]);
    }
    t->n = (int64_t)n; // below FG_ST_FILE_DIM_MAX
    t->total = (int64_t)fg_st_file_find(f, "ids")->shape[0];
    rc = read_labels(t, f, err);
    if (!rc) rc = copy_tensor(f, WHAT_TRACE, "ids", &t->ids, err);
    if (!rc) rc = copy_tensor(f, WHAT_TRACE, "lengths", &t->lengths, err);
    if (!rc) rc = copy_tensor(f, WHAT_TRACE, "plens", &t->plens, err);
    if (!rc) rc = copy_tensor(f, WHAT_TRACE, "label", &t->label, err);
    return rc;
}

// Every row a sequence of its own.
static int trace_of_rows(struct fg_trace *t, const char *path, int64_t vocab,
                         const char *tokenizer_sha256, struct fg_error *err)
{
    struct fg_rows rows;
    int rc = fg_rows_open(&rows, path, vocab, 0, tokenizer_sha256, err);
    if (rc) return rc;
    t->n = rows.n;
    t->total = rows.n * rows.seq;
    t->facts = rows.facts;
    t->lengths = malloc((size_t)rows.n * sizeof *t->lengths);
    t->plens = calloc((size_t)rows.n, sizeof *t->plens);
    if (!t->lengths || !t->plens) {
        fg_rows_free(&rows);
        return fg_fail_memory(err, WHAT_TRACE, (uint64_t)t->n * 2 * sizeof *t->lengths);
    }
    for (int64_t i = 0; i < rows.n; i++)
        t->lengths[i] = (int32_t)rows.seq; // at most SEQ_MAX
    t->ids = rows.ids;
    rows.ids = NULL;
    fg_rows_free(&rows);
    return 0;
}

// Whether the file is rows, in either form.
static int is_rows(const char *path, bool *out, struct fg_st_file **f, struct fg_error *err)
{
    int rc = is_npy(path, out, err);
    if (rc || *out) return rc;
    rc = fg_st_file_open(f, WHAT_TRACE, path, err);
    if (rc) return rc;
    const char *schema = fg_st_file_metadata(*f, "schema");
    *out = schema && strcmp(schema, FG_ROWS_SCHEMA) == 0;
    return 0;
}

int fg_trace_open(struct fg_trace *out, const char *path, int64_t vocab,
                  const char *tokenizer_sha256, struct fg_error *err)
{
    *out = (struct fg_trace){0};
    bool rows;
    struct fg_st_file *f = NULL;
    int rc = is_rows(path, &rows, &f, err);
    if (!rc && rows) rc = trace_of_rows(out, path, vocab, tokenizer_sha256, err);
    if (!rc && !rows) rc = read_trace(out, f, err);
    fg_st_file_close(f);
    if (!rc) rc = check_tokenizer(&out->facts, WHAT_TRACE, path, tokenizer_sha256, err);
    if (!rc) rc = check_trace(out, path, vocab, err);
    if (!rc) rc = fg_sha256_file(path, out->sha256, err);
    if (!rc && !(out->starts = malloc((size_t)out->n * sizeof *out->starts))) {
        rc = fg_fail_memory(err, WHAT_TRACE, (uint64_t)out->n * sizeof *out->starts);
    }
    if (rc) {
        fg_trace_free(out);
        return rc;
    }
    for (int64_t i = 0, at = 0; i < out->n; at += out->lengths[i++]) {
        out->starts[i] = at;
        if (out->lengths[i] > out->longest) out->longest = out->lengths[i];
    }
    return 0;
}

int fg_trace_write(const char *path, const struct fg_trace *trace, char sha256[FG_SHA256_HEX],
                   struct fg_error *err)
{
    int rc = check_trace(trace, path, 0, err);
    if (rc) return rc;
    uint64_t n = (uint64_t)trace->n, total = (uint64_t)trace->total, n_blobs = 0;
    struct fg_st_blob blobs[4];
    blobs[n_blobs++] = (struct fg_st_blob){"ids", FG_ST_I32, 1, {total}, trace->ids};
    blobs[n_blobs++] = (struct fg_st_blob){"lengths", FG_ST_I32, 1, {n}, trace->lengths};
    blobs[n_blobs++] = (struct fg_st_blob){"plens", FG_ST_I32, 1, {n}, trace->plens};
    char seed[24];
    struct fg_st_pair pairs[FACTS];
    uint64_t n_pairs = put_facts(&trace->facts, FG_TRACE_SCHEMA, seed, pairs);
    struct fg_buf names = {0};
    if (trace->label) {
        blobs[n_blobs++] = (struct fg_st_blob){"label", FG_ST_U8, 1, {n}, trace->label};
        for (int i = 0; i < trace->n_labels; i++) {
            fg_buf_char(&names, i ? ',' : '[');
            fg_buf_json_str(&names, trace->labels[i], strlen(trace->labels[i]));
        }
        fg_buf_char(&names, ']');
        if (names.failed) {
            rc = fg_fail_memory(err, WHAT_TRACE, names.len);
            goto done;
        }
        pairs[n_pairs++] = (struct fg_st_pair){"labels", names.data};
    }
    rc = write_file(path, blobs, n_blobs, pairs, n_pairs, sha256, err);
done:
    fg_buf_free(&names);
    return rc;
}

void fg_trace_free(struct fg_trace *trace)
{
    free(trace->ids);
    free(trace->lengths);
    free(trace->plens);
    free(trace->starts);
    free(trace->label);
    *trace = (struct fg_trace){0};
}
