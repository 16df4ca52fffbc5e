// bundle/digest.c: the lines of a digest: a list of arrays, hashed by the threads of a pool in
// batches, sorted by name.
#include "bundle/digest.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/size.h"
#include "format/names.h"
#include "quant/dequant.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "digest"
#define BLOCK_BYTES ((int64_t)1 << 20) // of indices unpacked at a time, per thread
#define BATCH 4                        // arrays per thread between two calls of progress
#define LINE_BYTES 512

// One array of the digest.
struct array {
    const char *name;
    const struct fg_qset_mat *mat; // its indices or codes, to be unpacked; NULL: data as it lies
    const void *data;
    uint64_t bytes;   // hashed
    bool from_file;   // data may be given back after reading
    const char *type; // "U8"
    int rank;
    uint64_t shape[FG_ST_RANK_MAX];
    char hex[FG_SHA256_HEX];
};

struct hasher {
    const struct fg_digest_options *o;
    struct fg_arena arena; // names
    struct array *arrays;
    uint64_t n, cap;
    uint8_t *scratch; // of all workers
    uint64_t scratch_bytes;
    struct array *batch;
    int rc; // first error of the list
    struct fg_error *err;
    struct worker_error {
        int rc;
        struct fg_error err;
    } * errors; // by item of the batch
};

// ---- the list

static bool is_wanted(const char *only, const char *name)
{
    if (!only) return true;
    size_t n = strlen(only);
    if (strncmp(name, only, n) != 0) return false;
    return name[n] == '\0' || name[n] == '.' || (n > 0 && only[n - 1] == '.');
}

static struct array *add(struct hasher *h, const char *name, const char *suffix)
{
    char full[LINE_BYTES];
    int n = snprintf(full, sizeof full, "%s%s", name, suffix);
    if (h->rc || !is_wanted(h->o->only, full)) return NULL;
    if (h->n == h->cap) {
        uint64_t more = h->cap ? 2 * h->cap : 256;
        struct array *p = realloc(h->arrays, more * sizeof *p);
        if (!p) {
            h->rc = fg_fail_memory(h->err, WHAT, more * sizeof *p);
            return NULL;
        }
        h->arrays = p;
        h->cap = more;
    }
    char *copy = n < (int)sizeof full ? fg_arena_strdup(&h->arena, full, (size_t)n) : NULL;
    if (!copy) {
        h->rc = fg_fail_memory(h->err, WHAT, (uint64_t)n);
        return NULL;
    }
    struct array *a = &h->arrays[h->n++];
    *a = (struct array){.name = copy};
    return a;
}

static void set_shape(struct array *a, const char *type, uint64_t element_bytes, uint64_t d0,
                      uint64_t d1)
{
    a->type = type;
    a->rank = d1 ? 2 : 1;
    a->shape[0] = d0;
    a->shape[1] = d1;
    a->bytes = element_bytes * d0 * (d1 ? d1 : 1); // extents of an open matrix
}

static void add_data(struct hasher *h, const char *name, const char *suffix, const char *type,
                     uint64_t element_bytes, uint64_t d0, uint64_t d1, const void *data)
{
    struct array *a = add(h, name, suffix);
    if (!a) return;
    set_shape(a, type, element_bytes, d0, d1);
    a->data = data;
}

static void add_mat(struct hasher *h, const struct fg_qset_mat *mat)
{
    const struct fg_qmat *m = &mat->m;
    const uint64_t rows = (uint64_t)m->rows, cols = (uint64_t)m->cols, rank = (uint64_t)m->rank;
    const uint64_t per = (uint64_t)fg_qformat_rows_per_index(m->format);
    if (fg_qformat_is_kept(m->format)) {
        struct array *a = add(h, mat->name, ".weight");
        if (!a) return;
        const bool wide = m->format == FG_Q_F32;
        set_shape(a,
                  wide                    ? "F32"
                  : m->format == FG_Q_F16 ? "F16"
                                          : "BF16",
                  wide ? 4 : 2, rows, cols);
        a->data = m->weight;
        a->from_file = true;
    } else {
        const bool lut = fg_qformat_is_lut(m->format);
        struct array *a = add(h, mat->name, lut ? ".idx" : ".int8");
        if (a) {
            set_shape(a, lut ? "U8" : "I8", 1, rows / per, cols);
            a->mat = mat;
        }
        if (lut)
            add_data(h, mat->name, ".lut", "F16", 2, (uint64_t)fg_qformat_entries(m->format), per,
                     m->lut);
        add_data(h, mat->name, ".scale", "F16", 2, rows, 0, m->scale);
    }
    if (rank) {
        const bool int8 = m->lr_dtype == FG_LR_I8;
        const char *type = int8 ? "I8" : "F16";
        const uint64_t bytes = fg_lr_dtype_bytes(m->lr_dtype);
        add_data(h, mat->name, ".lr_a", type, bytes, rows, rank, m->lr_a);
        add_data(h, mat->name, ".lr_b", type, bytes, rank, cols, m->lr_b);
        if (int8) add_data(h, mat->name, ".lr_scale", "F32", 4, rank, 0, m->lr_scale);
    }
}

static void add_set(struct hasher *h, const struct fg_qset *s)
{
    for (uint64_t i = 0; i < s->n_mats; i++)
        add_mat(h, &s->mats[i]);
    for (uint64_t i = 0; i < s->n_small; i++) {
        const struct fg_qset_small *small = &s->small[i];
        struct array *a = add(h, small->name, "");
        if (!a) continue;
        a->type = fg_st_dtype_name(small->dtype);
        a->rank = small->rank;
        memcpy(a->shape, small->shape, sizeof a->shape);
        a->data = small->data;
        a->bytes = small->bytes;
    }
    for (uint64_t i = 0; i < s->n_rots; i++) {
        char name[64];
        const struct fg_qset_rot *r = &s->rots[i];
        snprintf(name, sizeof name, "layers.%" PRId64 ".rot.%s", r->layer, r->site);
        struct array *a = add(h, name, "");
        if (!a) continue;
        set_shape(a, "U8", 1, ((uint64_t)r->n + 7) / 8, 0);
        a->data = r->bits;
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct array *)a)->name, ((const struct array *)b)->name);
}

// ---- hashing

// Rows of indices or codes as the matrix's own arrays have them, checked.
static int unpack(const struct fg_qset_mat *mat, int64_t row0, int64_t n_rows, uint8_t *out,
                  struct fg_error *err)
{
    const struct fg_qmat *m = &mat->m;
    const uint64_t n = (uint64_t)n_rows * (uint64_t)m->cols;
    if (m->format == FG_Q_INT8) {
        memcpy(out, m->codes + (uint64_t)row0 * (uint64_t)m->cols, n);
    } else if (m->idx) {
        memcpy(out, m->idx + (uint64_t)row0 * (uint64_t)m->cols, n);
    } else {
        for (int64_t r = 0; r < n_rows; r++)
            fg_qmat_row_indices(out + (uint64_t)r * (uint64_t)m->cols, m, row0 + r);
        return 0;
    }
    const bool codes = m->format == FG_Q_INT8;
    const uint8_t most = codes ? 0 : (uint8_t)(fg_qformat_entries(m->format) - 1);
    uint8_t bad = 0;
    for (uint64_t i = 0; i < n; i++)
        bad |= (uint8_t)(codes ? out[i] == 0x80 : out[i] > most);
    return bad ? fg_qmat_check(m, mat->name, mat->file, true, err) : 0;
}

static int hash_mat(const struct hasher *h, struct array *a, struct fg_sha256 *sha,
                    uint8_t *scratch, struct fg_error *err)
{
    const struct fg_qmat *m = &a->mat->m;
    const int64_t rows = (int64_t)a->shape[0], cols = m->cols;
    int64_t step = BLOCK_BYTES / cols > 0 ? BLOCK_BYTES / cols : 1;
    const uint64_t stored =
        m->pidx ? fg_qformat_row_bytes(m->format, (uint64_t)cols) : (uint64_t)cols;
    const uint8_t *data = m->pidx  ? m->pidx
                          : m->idx ? m->idx
                                   : (const uint8_t *)(const void *)m->codes;
    int rc = 0;
    for (int64_t r = 0; r < rows && !rc; r += step) {
        int64_t n = rows - r < step ? rows - r : step;
        rc = h->o->unpack ? h->o->unpack(h->o->unpack_ctx, a->mat, r, n, scratch, err)
                          : unpack(a->mat, r, n, scratch, err);
        if (!rc) fg_sha256_add(sha, scratch, (uint64_t)n * (uint64_t)cols);
    }
    if (h->o->release && data) fg_map_release(data, stored * (uint64_t)rows);
    return rc;
}

static void hash_one(void *ctx, int64_t item, int worker)
{
    struct hasher *h = ctx;
    struct array *a = &h->batch[item];
    struct worker_error *e = &h->errors[item];
    struct fg_sha256 *sha = fg_sha256_new();
    if (!sha) {
        e->rc = fg_fail_memory(&e->err, WHAT, 0);
        return;
    }
    if (a->mat) {
        e->rc = hash_mat(h, a, sha, h->scratch + (uint64_t)worker * h->scratch_bytes, &e->err);
    } else {
        fg_sha256_add(sha, a->data, a->bytes);
        if (h->o->release && a->from_file) fg_map_release(a->data, a->bytes);
    }
    fg_sha256_end(sha, a->hex);
}

static int hash_all(struct hasher *h)
{
    const int threads = h->o->pool ? fg_pool_threads(h->o->pool) : 1;
    const uint64_t batch = (uint64_t)threads * BATCH;
    uint64_t total = 0, done = 0, widest = 0;
    for (uint64_t i = 0; i < h->n; i++) {
        total += h->arrays[i].bytes;
        if (h->arrays[i].mat && h->arrays[i].shape[1] > widest) widest = h->arrays[i].shape[1];
    }
    h->scratch_bytes = widest > (uint64_t)BLOCK_BYTES ? widest : (uint64_t)BLOCK_BYTES;
    h->scratch = malloc((uint64_t)threads * h->scratch_bytes);
    h->errors = calloc(batch, sizeof *h->errors);
    if (!h->scratch || !h->errors)
        return fg_fail_memory(h->err, WHAT, (uint64_t)threads * h->scratch_bytes);
    for (uint64_t i = 0; i < h->n; i += batch) {
        uint64_t n = h->n - i < batch ? h->n - i : batch;
        if (h->o->progress && !h->o->progress(h->o->progress_ctx, done, total))
            return fg_fail(h->err, FG_EINTERRUPTED, WHAT, NULL, NULL, NULL, "stopped");
        h->batch = h->arrays + i;
        for (uint64_t k = 0; k < n && !h->o->pool; k++)
            hash_one(h, (int64_t)k, 0);
        if (h->o->pool) fg_pool_run(h->o->pool, (int64_t)n, hash_one, h);
        for (uint64_t k = 0; k < n; k++) {
            done += h->batch[k].bytes;
            if (!h->errors[k].rc) continue;
            if (h->err) *h->err = h->errors[k].err;
            return h->errors[k].rc;
        }
    }
    if (h->o->progress) h->o->progress(h->o->progress_ctx, done, total);
    return 0;
}

// ---- the result

static int write_lines(const struct hasher *h, struct fg_digest *out)
{
    struct fg_buf all = {0}, head = {0};
    for (uint64_t i = 0; i < h->n; i++) {
        const struct array *a = &h->arrays[i];
        struct fg_buf line = {0};
        fg_buf_printf(&line, "%s %s[", a->name, a->type);
        for (int k = 0; k < a->rank; k++)
            fg_buf_printf(&line, "%s%" PRIu64, k ? "," : "", a->shape[k]);
        fg_buf_printf(&line, "] %s", a->hex);
        all.failed = all.failed || line.failed;
        if (i) fg_buf_char(&all, '\n');
        fg_buf_add(&all, line.data, line.len);
        if (strncmp(a->name, "lm_head.", 8) == 0 || strcmp(a->name, "norm.weight") == 0) {
            if (head.len) fg_buf_char(&head, '\n');
            fg_buf_add(&head, line.data, line.len);
        }
        fg_buf_free(&line);
    }
    fg_buf_str(&all, ""); // ends the text of an empty digest
    bool ok = !all.failed && !head.failed && fg_sha256_hex(all.data, all.len, out->hex) &&
              fg_sha256_hex(head.data, head.len, out->head);
    fg_buf_free(&head);
    if (!ok) {
        fg_buf_free(&all);
        *out = (struct fg_digest){0};
        return fg_fail_memory(h->err, WHAT, 0);
    }
    out->lines = all.data;
    out->n_lines = h->n;
    return 0;
}

int fg_digest_sets(struct fg_digest *out, const struct fg_qset *const *sets, uint64_t n_sets,
                   const struct fg_digest_options *o, struct fg_error *err)
{
    static const struct fg_digest_options none;
    struct hasher hasher = {.o = o ? o : &none, .err = err}, *h = &hasher;
    *out = (struct fg_digest){0};
    fg_arena_init(&h->arena, 0);
    for (uint64_t i = 0; i < n_sets; i++)
        add_set(h, sets[i]);
    if (!h->rc && h->n) qsort(h->arrays, (size_t)h->n, sizeof *h->arrays, by_name);
    for (uint64_t i = 1; i < h->n && !h->rc; i++) {
        if (strcmp(h->arrays[i].name, h->arrays[i - 1].name) == 0)
            h->rc =
                fg_fail(err, FG_EINPUT, WHAT, NULL, h->arrays[i].name, "each array once", "twice");
    }
    if (!h->rc) h->rc = hash_all(h);
    if (!h->rc) h->rc = write_lines(h, out);
    free(h->arrays);
    free(h->scratch);
    free(h->errors);
    fg_arena_free(&h->arena);
    return h->rc;
}

void fg_digest_free(struct fg_digest *d)
{
    free(d->lines);
    *d = (struct fg_digest){0};
}

// ---- comparison

// Splits a copy of a digest's text into names and what follows them. *names is sorted and, like
// *copy, malloc'd; rests hold what stands behind the name of line `at`.
struct split {
    char *copy;
    struct fg_name *names;
    const char **rests;
    uint64_t n;
};

static void split_free(struct split *s)
{
    free(s->copy);
    free(s->names);
    free((void *)s->rests);
}

// The root alone, as `forge digest --list` prints it last.
static bool is_root(const char *line)
{
    return strspn(line, "0123456789abcdef") == 64 && line[64] == '\0';
}

// "NAME TYPE[SHAPE] SHA": two blanks and 64 hexadecimal digits.
static bool is_line(const char *line, char **blank)
{
    *blank = strchr(line, ' ');
    if (!*blank || *blank == line) return false;
    const char *second = strchr(*blank + 1, ' ');
    return second && strspn(second + 1, "0123456789abcdef") == 64 && second[65] == '\0';
}

static int split_lines(struct split *s, const char *text, uint64_t n, const char *file,
                       struct fg_error *err)
{
    uint64_t lines = 1;
    *s = (struct split){0};
    for (uint64_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    s->copy = malloc(n + 1);
    s->names = calloc(lines, sizeof *s->names);
    s->rests = calloc(lines, sizeof *s->rests);
    if (!s->copy || !s->names || !s->rests) return fg_fail_memory(err, WHAT, n);
    if (n) memcpy(s->copy, text, n);
    s->copy[n] = '\0';
    uint64_t number = 0;
    for (char *line = s->copy, *end = s->copy + n; line < end;) {
        char *stop = memchr(line, '\n', (size_t)(end - line)), *blank;
        if (!stop) stop = end;
        *stop = '\0';
        number++;
        if (line[0] != '\0' && !is_root(line)) {
            if (strlen(line) != (size_t)(stop - line) || !is_line(line, &blank)) {
                char field[32];
                snprintf(field, sizeof field, "line %" PRIu64, number);
                return fg_fail(err, FG_EINPUT, WHAT, file, field, "NAME TYPE[SHAPE] SHA256",
                               "another line");
            }
            *blank = '\0';
            s->rests[s->n] = blank + 1;
            s->names[s->n] = (struct fg_name){.name = line, .at = s->n};
            s->n++;
        }
        line = stop + 1;
    }
    const char *twice = fg_names_sort(s->names, s->n);
    return twice ? fg_fail(err, FG_EINPUT, WHAT, file, twice, "each name once", "twice") : 0;
}

int fg_digest_compare(const struct fg_digest *d, const char *text, uint64_t n, const char *file,
                      void (*differs)(void *ctx, const char *name, const char *what), void *ctx,
                      uint64_t *n_differ, struct fg_error *err)
{
    struct split ours = {0}, theirs = {0};
    *n_differ = 0;
    int rc = split_lines(&theirs, text, n, file, err);
    if (!rc) rc = split_lines(&ours, d->lines, strlen(d->lines), NULL, err);
    for (uint64_t i = 0, k = 0; !rc && (i < ours.n || k < theirs.n);) {
        int order = i == ours.n     ? 1
                    : k == theirs.n ? -1
                                    : strcmp(ours.names[i].name, theirs.names[k].name);
        const char *what = order < 0 ? "extra" : order > 0 ? "missing" : NULL;
        if (order == 0 &&
            strcmp(ours.rests[ours.names[i].at], theirs.rests[theirs.names[k].at]) != 0)
            what = "differs";
        if (what) {
            ++*n_differ;
            if (differs) differs(ctx, order > 0 ? theirs.names[k].name : ours.names[i].name, what);
        }
        i += order <= 0;
        k += order >= 0;
    }
    split_free(&ours);
    split_free(&theirs);
    return rc;
}
