// Writing one safetensors file. A plan of segments (tensors and the padding before them) is made
// first; the header follows from it, and the data run through it.
#include "base/buf.h"
#include "base/file.h"
#include "base/size.h"
#include "format/names.h"
#include "format/st_file.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "safetensors"

// A run of data bytes that the caller gives, behind `pad` zero bytes of their own tensor.
struct segment {
    uint64_t pad, bytes;
};

struct fg_st_stream {
    struct fg_atomic out;
    char *path;
    struct segment *segments;
    uint64_t n, at;      // segments; the one under way
    uint64_t left_bytes; // of that segment
    uint64_t file_bytes; // when finished
    struct fg_sha256 *sha;
};

static int check_blob(const char *path, const struct fg_st_blob *b, uint64_t *bytes,
                      struct fg_error *err)
{
    size_t len = strlen(b->name);
    if (len < 1 || len > FG_ST_FILE_NAME_MAX) {
        return fg_fail(err, FG_EINPUT, WHAT, path, "tensor name", "1 to 256 bytes", "%zu", len);
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)b->name[i] < 0x20 || b->name[i] == 0x7F) {
            return fg_fail(err, FG_EINPUT, WHAT, path, b->name, "a name without control characters",
                           "byte 0x%02X", (unsigned char)b->name[i]);
        }
    }
    if (strncmp(b->name, FG_ST_PAD, strlen(FG_ST_PAD)) == 0 ||
        strcmp(b->name, "__metadata__") == 0) {
        return fg_fail(err, FG_EINPUT, WHAT, path, b->name, "another name", "a reserved one");
    }
    if (b->rank < 0 || b->rank > FG_ST_RANK_MAX) {
        return fg_fail_range(err, WHAT, path, b->name, 0, FG_ST_RANK_MAX, b->rank);
    }
    *bytes = fg_st_dtype_bytes(b->dtype);
    for (int i = 0; i < b->rank; i++) {
        if (b->shape[i] >= FG_ST_FILE_DIM_MAX || !fg_mul(bytes, *bytes, b->shape[i])) {
            return fg_fail(err, FG_EINPUT, WHAT, path, b->name, "dimensions and size in range",
                           "%" PRIu64, b->shape[i]);
        }
    }
    return 0;
}

static int check_names(const char *path, const struct fg_st_blob *blobs, uint64_t n,
                       struct fg_error *err)
{
    struct fg_name *names = calloc(n, sizeof *names);
    if (!names) return fg_fail_memory(err, WHAT, n * sizeof *names);
    for (uint64_t i = 0; i < n; i++) {
        names[i] = (struct fg_name){blobs[i].name, i};
    }
    const char *twice = fg_names_sort(names, n);
    free(names);
    if (!twice) return 0;
    return fg_fail(err, FG_EINPUT, WHAT, path, twice, "one tensor of that name", "two");
}

static void put_entry(struct fg_buf *b, const char *name, enum fg_st_dtype dtype, int rank,
                      const uint64_t *shape, uint64_t begin, uint64_t end)
{
    if (b->len && b->data[b->len - 1] != '{') fg_buf_char(b, ',');
    fg_buf_json_str(b, name, strlen(name));
    fg_buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", fg_st_dtype_name(dtype));
    for (int k = 0; k < rank; k++) {
        fg_buf_printf(b, "%s%" PRIu64, k ? "," : "", shape[k]);
    }
    fg_buf_printf(b, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, end);
}

// Fills the segments and the header, whose first eight bytes are its length.
static int plan(struct fg_st_stream *s, struct fg_buf *b, const struct fg_st_blob *blobs,
                const struct fg_st_options *o, struct fg_error *err)
{
    uint64_t at = 0, n_pads = 0;
    fg_buf_add(b, "\0\0\0\0\0\0\0\0{", 9);
    if (o->n_metadata) {
        fg_buf_str(b, "\"__metadata__\":{");
        for (uint64_t i = 0; i < o->n_metadata; i++) {
            if (i) fg_buf_char(b, ',');
            fg_buf_json_str(b, o->metadata[i].key, strlen(o->metadata[i].key));
            fg_buf_char(b, ':');
            fg_buf_json_str(b, o->metadata[i].value, strlen(o->metadata[i].value));
        }
        fg_buf_char(b, '}');
    }
    for (uint64_t i = 0; i < s->n && !b->failed; i++) {
        struct segment *g = &s->segments[i];
        uint64_t start = at;
        int rc = check_blob(s->path, &blobs[i], &g->bytes, err);
        if (rc) return rc;
        bool fits = !o->tensor_align || fg_align_up(&start, at, o->tensor_align);
        g->pad = start - at;
        if (g->pad) {
            char name[32];
            snprintf(name, sizeof name, FG_ST_PAD "%" PRIu64, n_pads++);
            put_entry(b, name, FG_ST_U8, 1, &g->pad, at, start);
        }
        if (!fits || !fg_add(&at, start, g->bytes)) {
            return fg_fail(err, FG_EINPUT, WHAT, s->path, blobs[i].name, "data below 2^64 bytes",
                           "more");
        }
        put_entry(b, blobs[i].name, blobs[i].dtype, blobs[i].rank, blobs[i].shape, start, at);
    }
    fg_buf_char(b, '}');
    uint64_t align = o->header_align ? o->header_align : 64, end = b->len;
    if (!fg_align_up(&end, b->len, align) || !fg_buf_reserve(b, (size_t)(end - b->len))) {
        return fg_fail_memory(err, WHAT, end);
    }
    while (b->len < end) {
        fg_buf_char(b, ' ');
    }
    if (b->failed) return fg_fail_memory(err, WHAT, b->len);
    if (b->len - 8 > FG_ST_FILE_HEADER_MAX) {
        return fg_fail(err, FG_EINPUT, WHAT, s->path, "header", "at most 67108864 bytes", "%zu",
                       b->len - 8);
    }
    for (int i = 0; i < 8; i++) {
        b->data[i] = (char)((b->len - 8) >> (8 * i) & 0xFF);
    }
    if (!fg_add(&s->file_bytes, at, b->len)) {
        return fg_fail(err, FG_EINPUT, WHAT, s->path, "size", "below 2^64 bytes", "more");
    }
    return 0;
}

static int put(struct fg_st_stream *s, const void *data, uint64_t n, struct fg_error *err)
{
    if (s->sha) fg_sha256_add(s->sha, data, n);
    return fg_atomic_write(&s->out, data, n, err);
}

// Writes the padding of segment `at` and of the empty ones behind it, until one wants data.
static int enter(struct fg_st_stream *s, struct fg_error *err)
{
    static const uint8_t zeros[4096];
    while (s->at < s->n) {
        const struct segment *g = &s->segments[s->at];
        for (uint64_t pad = g->pad; pad > 0;) {
            uint64_t n = pad < sizeof zeros ? pad : sizeof zeros;
            int rc = put(s, zeros, n, err);
            if (rc) return rc;
            pad -= n;
        }
        s->left_bytes = g->bytes;
        if (g->bytes) return 0;
        s->at++;
    }
    return 0;
}

static bool is_alignment(uint64_t a)
{
    return (a & (a - 1)) == 0 && a <= 1u << 20;
}

// Everything that comes before the file is made.
static int prepare(struct fg_st_stream *s, struct fg_buf *header, const char *path,
                   const struct fg_st_blob *blobs, uint64_t n, const struct fg_st_options *o,
                   struct fg_error *err)
{
    if (!is_alignment(o->header_align) || !is_alignment(o->tensor_align) ||
        o->tensor_align > (o->header_align ? o->header_align : 64)) {
        return fg_fail(err, FG_EINPUT, WHAT, path, "alignment", "powers of two",
                       "%" PRIu64 " and %" PRIu64, o->header_align, o->tensor_align);
    }
    if (n < 1 || n > FG_ST_FILE_TENSORS_MAX) {
        return fg_fail_range(err, WHAT, path, "tensors", 1, FG_ST_FILE_TENSORS_MAX, (int64_t)n);
    }
    s->path = strdup(path);
    s->segments = calloc(n, sizeof *s->segments);
    if (!s->path || !s->segments) return fg_fail_memory(err, WHAT, n * sizeof *s->segments);
    s->n = n;
    int rc = check_names(path, blobs, n, err);
    return rc ? rc : plan(s, header, blobs, o, err);
}

static int start(struct fg_st_stream *s, const char *path, const struct fg_st_blob *blobs,
                 uint64_t n, const struct fg_st_options *o, struct fg_error *err)
{
    struct fg_buf header = {0};
    int rc = prepare(s, &header, path, blobs, n, o, err);
    if (!rc && o->hash && !(s->sha = fg_sha256_new())) rc = fg_fail_memory(err, WHAT, 0);
    if (!rc) rc = fg_atomic_open(&s->out, path, err);
    if (!rc) rc = put(s, header.data, header.len, err);
    fg_buf_free(&header);
    return rc ? rc : enter(s, err);
}

int fg_st_stream_open(struct fg_st_stream **out, const char *path, const struct fg_st_blob *blobs,
                      uint64_t n, const struct fg_st_options *o, struct fg_error *err)
{
    *out = NULL;
    struct fg_st_stream *s = calloc(1, sizeof *s);
    if (!s) return fg_fail_memory(err, WHAT, sizeof *s);
    s->out.fd = -1;
    int rc = start(s, path, blobs, n, o, err);
    if (rc) {
        fg_st_stream_abort(s);
        return rc;
    }
    *out = s;
    return 0;
}

int fg_st_file_size(const struct fg_st_blob *blobs, uint64_t n, const struct fg_st_options *o,
                    uint64_t *bytes, struct fg_error *err)
{
    struct fg_buf header = {0};
    struct fg_st_stream *s = calloc(1, sizeof *s);
    if (!s) return fg_fail_memory(err, WHAT, sizeof *s);
    s->out.fd = -1;
    int rc = prepare(s, &header, "", blobs, n, o, err);
    if (!rc) *bytes = s->file_bytes;
    fg_buf_free(&header);
    fg_st_stream_abort(s);
    return rc;
}

uint64_t fg_st_stream_bytes(const struct fg_st_stream *s)
{
    return s->file_bytes;
}

int fg_st_stream_add(struct fg_st_stream *s, const void *data, uint64_t bytes, struct fg_error *err)
{
    const uint8_t *p = data;
    while (bytes > 0) {
        if (s->at == s->n) {
            return fg_fail(err, FG_EINPUT, WHAT, s->path, "data", "as much as was declared",
                           "%" PRIu64 " bytes more", bytes);
        }
        uint64_t n = bytes < s->left_bytes ? bytes : s->left_bytes;
        int rc = put(s, p, n, err);
        if (rc) return rc;
        p += n;
        bytes -= n;
        s->left_bytes -= n;
        if (s->left_bytes == 0) {
            s->at++;
            if ((rc = enter(s, err))) return rc;
        }
    }
    return 0;
}

static void stream_free(struct fg_st_stream *s)
{
    char hex[FG_SHA256_HEX];
    if (s->sha) fg_sha256_end(s->sha, hex);
    free(s->path);
    free(s->segments);
    free(s);
}

int fg_st_stream_commit(struct fg_st_stream *s, struct fg_st_written *written, struct fg_error *err)
{
    struct fg_st_written w = {.bytes = s->file_bytes};
    int rc = 0;
    if (s->at < s->n) {
        rc = fg_fail(err, FG_EINPUT, WHAT, s->path, "data", "as much as was declared",
                     "%" PRIu64 " bytes less in tensor %" PRIu64, s->left_bytes, s->at);
    }
    if (!rc) rc = fg_atomic_commit(&s->out, err);
    if (!rc && s->sha) {
        fg_sha256_end(s->sha, w.sha256);
        s->sha = NULL;
    }
    if (rc) {
        fg_st_stream_abort(s);
        return rc;
    }
    if (written) *written = w;
    stream_free(s);
    return 0;
}

void fg_st_stream_abort(struct fg_st_stream *s)
{
    if (!s) return;
    fg_atomic_abort(&s->out);
    stream_free(s);
}

int fg_st_file_write(const char *path, const struct fg_st_blob *blobs, uint64_t n,
                     const struct fg_st_options *o, struct fg_st_written *written,
                     struct fg_error *err)
{
    struct fg_st_stream *s;
    int rc = fg_st_stream_open(&s, path, blobs, n, o, err);
    if (rc) return rc;
    for (uint64_t i = 0; i < n; i++) {
        rc = fg_st_stream_add(s, blobs[i].data, s->segments[i].bytes, err);
        if (rc) {
            fg_st_stream_abort(s);
            return rc;
        }
    }
    return fg_st_stream_commit(s, written, err);
}
