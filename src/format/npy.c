// A file is: "\x93NUMPY", major, minor, header length (u16 in version 1, u32 in 2), the header (a
// Python dict literal padded with spaces to a multiple of 64), data.
#include "format/npy.h"
#include "base/buf.h"
#include "base/size.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define WHAT "npy"
#define HEADER_MAX 65535 // what version 1 can say; a plain array needs 200 bytes

static const struct {
    const char *name;
    uint64_t bytes;
} dtypes[FG_NPY_N_DTYPES] = {
    [FG_NPY_BOOL] = {"|b1", 1}, [FG_NPY_I8] = {"|i1", 1},  [FG_NPY_U8] = {"|u1", 1},
    [FG_NPY_I16] = {"<i2", 2},  [FG_NPY_U16] = {"<u2", 2}, [FG_NPY_I32] = {"<i4", 4},
    [FG_NPY_U32] = {"<u4", 4},  [FG_NPY_I64] = {"<i8", 8}, [FG_NPY_U64] = {"<u8", 8},
    [FG_NPY_F16] = {"<f2", 2},  [FG_NPY_F32] = {"<f4", 4}, [FG_NPY_F64] = {"<f8", 8},
};

const char *fg_npy_dtype_name(enum fg_npy_dtype t)
{
    return dtypes[t].name;
}

uint64_t fg_npy_dtype_bytes(enum fg_npy_dtype t)
{
    return dtypes[t].bytes;
}

// The header text while it is read.
struct text {
    const char *p;
    size_t at, n;
    const char *file;
};

static int fail_at(const struct text *t, const char *expected, struct fg_error *err)
{
    char found[24];
    size_t left = t->n - t->at;
    fg_escape(found, sizeof found, t->p + t->at, left < 16 ? left : 16);
    return fg_fail(err, FG_EINPUT, WHAT, t->file, "header", expected, "\"%s\" at header byte %zu",
                   found, t->at);
}

static char peek(struct text *t)
{
    while (t->at < t->n && (t->p[t->at] == ' ' || t->p[t->at] == '\n')) {
        t->at++;
    }
    return t->at < t->n ? t->p[t->at] : '\0';
}

static bool take(struct text *t, const char *word)
{
    size_t len = strlen(word);
    peek(t);
    if (t->n - t->at < len || memcmp(t->p + t->at, word, len) != 0) return false;
    t->at += len;
    return true;
}

// 'abc' or "abc" without escapes into out.
static bool take_string(struct text *t, char *out, size_t cap)
{
    char quote = peek(t);
    if (quote != '\'' && quote != '"') return false;
    const char *from = t->p + t->at + 1;
    const char *to = memchr(from, quote, t->n - t->at - 1);
    if (!to || (size_t)(to - from) >= cap) return false;
    memcpy(out, from, (size_t)(to - from));
    out[to - from] = '\0';
    t->at += (size_t)(to - from) + 2;
    return true;
}

static int read_descr(struct text *t, struct fg_npy *npy, struct fg_error *err)
{
    char descr[16];
    if (!take_string(t, descr, sizeof descr)) return fail_at(t, "a plain dtype such as '<f4'", err);
    for (int i = 0; i < FG_NPY_N_DTYPES; i++) {
        // One-byte types have no byte order: '|' is usual, '<' the same.
        if (strcmp(descr + 1, dtypes[i].name + 1) == 0 &&
            (descr[0] == dtypes[i].name[0] || (dtypes[i].bytes == 1 && descr[0] == '<'))) {
            npy->dtype = (enum fg_npy_dtype)i;
            return 0;
        }
    }
    return fg_fail(err, FG_EINPUT, WHAT, t->file, "descr", "a little-endian number type", "'%s'",
                   descr);
}

static int read_shape(struct text *t, struct fg_npy *npy, struct fg_error *err)
{
    if (!take(t, "(")) return fail_at(t, "'shape': a tuple", err);
    while (!take(t, ")")) {
        uint64_t v = 0;
        size_t start = (peek(t), t->at);
        while (t->at < t->n && t->p[t->at] >= '0' && t->p[t->at] <= '9') {
            if (!fg_mul(&v, v, 10) || !fg_add(&v, v, (uint64_t)(t->p[t->at] - '0'))) {
                return fail_at(t, "an extent below 2^64", err);
            }
            t->at++;
        }
        if (t->at == start) return fail_at(t, "an extent", err);
        if (npy->rank == FG_NPY_RANK_MAX) return fail_at(t, "rank at most 8", err);
        npy->shape[npy->rank++] = v;
        if (!take(t, ",") && peek(t) != ')') return fail_at(t, "',' or ')'", err);
    }
    return 0;
}

static int read_header(struct text *t, struct fg_npy *npy, struct fg_error *err)
{
    enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };
    unsigned seen = 0;
    if (!take(t, "{")) return fail_at(t, "'{'", err);
    while (!take(t, "}")) {
        char key[32];
        if (!take_string(t, key, sizeof key) || !take(t, ":")) return fail_at(t, "a key", err);
        unsigned bit = strcmp(key, "descr") == 0           ? DESCR
                       : strcmp(key, "fortran_order") == 0 ? ORDER
                       : strcmp(key, "shape") == 0         ? SHAPE
                                                           : 0;
        if (!bit || (seen & bit)) return fail_at(t, "descr, fortran_order, shape, once each", err);
        seen |= bit;
        int rc = bit == DESCR   ? read_descr(t, npy, err)
                 : bit == SHAPE ? read_shape(t, npy, err)
                                : 0;
        if (rc) return rc;
        if (bit == ORDER && !take(t, "False")) return fail_at(t, "'fortran_order': False", err);
        if (!take(t, ",") && peek(t) != '}') return fail_at(t, "',' or '}'", err);
    }
    if (seen != ALL) return fail_at(t, "descr, fortran_order, shape, once each", err);
    return peek(t) == '\0' && t->at == t->n ? 0 : fail_at(t, "spaces to the end", err);
}

// Elements and bytes of a shape.
static int measure(const char *path, enum fg_npy_dtype dtype, int rank, const uint64_t *shape,
                   uint64_t *n, uint64_t *bytes, struct fg_error *err)
{
    if (rank < 0 || rank > FG_NPY_RANK_MAX) {
        return fg_fail_range(err, WHAT, path, "rank", 0, FG_NPY_RANK_MAX, rank);
    }
    bool fits = true;
    *n = 1;
    for (int i = 0; i < rank && fits; i++) {
        fits = fg_mul(n, *n, shape[i]);
    }
    if (fits && fg_mul(bytes, *n, dtypes[dtype].bytes)) return 0;
    return fg_fail(err, FG_EINPUT, WHAT, path, "shape", "a size below 2^64", "overflow");
}

static int parse(struct fg_npy *npy, const char *path, struct fg_error *err)
{
    const struct fg_map *map = &npy->map;
    if (!fg_map_holds(map, 0, 12) || memcmp(map->data, "\x93NUMPY", 6) != 0) {
        return fg_fail(err, FG_EINPUT, WHAT, path, "magic (byte 0)", "\\x93NUMPY",
                       "something else");
    }
    unsigned major = map->data[6];
    if (major < 1 || major > 2) {
        return fg_fail(err, FG_EINPUT, WHAT, path, "version (byte 6)", "1 or 2", "%u", major);
    }
    uint64_t at = major == 1 ? 10 : 12;
    uint32_t len = (uint32_t)(map->data[8] | map->data[9] << 8);
    if (major == 2) {
        int rc = fg_map_le32(map, 8, &len, err);
        if (rc) return rc;
    }
    if (len > HEADER_MAX || !fg_map_holds(map, at, len)) {
        return fg_fail(err, FG_EINPUT, WHAT, path, "header length (byte 8)",
                       "inside the file and at most 65535", "%" PRIu32, len);
    }
    struct text t = {.p = (const char *)map->data + at, .n = len, .file = path};
    int rc = read_header(&t, npy, err);
    uint64_t bytes;
    if (!rc) rc = measure(path, npy->dtype, npy->rank, npy->shape, &npy->n, &bytes, err);
    if (rc) return rc;
    at += len;
    if (bytes != map->bytes - at) {
        char expected[64];
        snprintf(expected, sizeof expected, "%" PRIu64 " bytes", bytes);
        return fg_fail(err, FG_EINPUT, WHAT, path, "data", expected, "%" PRIu64, map->bytes - at);
    }
    npy->data = map->data + at;
    return 0;
}

int fg_npy_open(struct fg_npy *npy, const char *path, struct fg_error *err)
{
    *npy = (struct fg_npy){0};
    int rc = fg_map_open(&npy->map, path, err);
    if (rc) return rc;
    rc = parse(npy, path, err);
    if (rc) fg_npy_close(npy);
    return rc;
}

void fg_npy_close(struct fg_npy *npy)
{
    fg_map_close(&npy->map);
    *npy = (struct fg_npy){0};
}

int fg_npy_writer_open(struct fg_npy_writer *w, const char *path, enum fg_npy_dtype dtype, int rank,
                       const uint64_t *shape, struct fg_error *err)
{
    *w = (struct fg_npy_writer){.out.fd = -1};
    uint64_t n;
    int rc = measure(path, dtype, rank, shape, &n, &w->left_bytes, err);
    if (rc) return rc;

    struct fg_buf b = {0};
    fg_buf_add(&b, "\x93NUMPY\x01\0\0\0", 10);
    fg_buf_printf(&b, "{'descr': '%s', 'fortran_order': False, 'shape': (", dtypes[dtype].name);
    for (int i = 0; i < rank; i++) {
        fg_buf_printf(&b, rank == 1 ? "%" PRIu64 "," : i ? ", %" PRIu64 : "%" PRIu64, shape[i]);
    }
    fg_buf_str(&b, "), }");
    while ((b.len + 1) % 64 && !b.failed) {
        fg_buf_char(&b, ' ');
    }
    fg_buf_char(&b, '\n');
    if (b.failed) {
        rc = fg_fail_memory(err, WHAT, b.len);
        goto done;
    }
    b.data[8] = (char)(b.len - 10);
    b.data[9] = (char)((b.len - 10) >> 8);
    rc = fg_atomic_open(&w->out, path, err);
    if (!rc) rc = fg_atomic_write(&w->out, b.data, b.len, err);
    if (rc) fg_npy_writer_abort(w);
done:
    fg_buf_free(&b);
    return rc;
}

int fg_npy_writer_add(struct fg_npy_writer *w, const void *data, uint64_t bytes,
                      struct fg_error *err)
{
    if (bytes > w->left_bytes) {
        return fg_fail(err, FG_EINPUT, WHAT, w->out.path, "data", "as much as the shape holds",
                       "%" PRIu64 " bytes more", bytes - w->left_bytes);
    }
    w->left_bytes -= bytes;
    return fg_atomic_write(&w->out, data, bytes, err);
}

int fg_npy_writer_commit(struct fg_npy_writer *w, struct fg_error *err)
{
    if (w->left_bytes) {
        int rc = fg_fail(err, FG_EINPUT, WHAT, w->out.path, "data", "as much as the shape holds",
                         "%" PRIu64 " bytes less", w->left_bytes);
        fg_npy_writer_abort(w);
        return rc;
    }
    return fg_atomic_commit(&w->out, err);
}

void fg_npy_writer_abort(struct fg_npy_writer *w)
{
    if (w->out.path) fg_atomic_abort(&w->out);
    w->left_bytes = 0;
}

int fg_npy_write(const char *path, enum fg_npy_dtype dtype, int rank, const uint64_t *shape,
                 const void *data, struct fg_error *err)
{
    struct fg_npy_writer w;
    int rc = fg_npy_writer_open(&w, path, dtype, rank, shape, err);
    if (rc) return rc;
    rc = fg_npy_writer_add(&w, data, w.left_bytes, err);
    if (rc) {
        fg_npy_writer_abort(&w);
        return rc;
    }
    return fg_npy_writer_commit(&w, err);
}
