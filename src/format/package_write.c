// Writing packages: the set becomes a list of tensors sorted by name, and their arrays are copied,
// or packed, into the stream one after the other.
#include "base/arena.h"
#include "base/buf.h"
#include "base/size.h"
#include "format/bits.h"
#include "format/package_impl.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT FG_PACKAGE_WHAT
#define FIELD_BYTES FG_PACKAGE_FIELD_BYTES
#define PIECE_BYTES (8u << 20) // between two calls of progress
#define PACK_BYTES (1u << 20)  // of packed rows that are held

// One tensor of the file, and where its data come from.
struct source {
    struct fg_st_blob blob;
    uint64_t bytes;
    const struct fg_qset_mat *mat; // NULL: blob.data are the data
    enum fg_package_part part;
};

struct writer {
    const char *path;
    const struct fg_package_spec *spec;
    struct fg_error *err;
    struct fg_arena arena;
    struct source *sources;
    struct fg_st_blob *blobs;
    uint64_t n;
    struct fg_buf matrices; // forge.matrices
    char layers[64];
    struct fg_st_pair metadata[9];
    struct fg_st_options options;
    struct fg_st_stream *stream;
    uint64_t done_bytes;
    const struct fg_qset_mat *loaded; // whose arrays `now` has
    struct fg_qmat now;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct source *)a)->blob.name, ((const struct source *)b)->blob.name);
}

static int check_spec(struct writer *w)
{
    const struct fg_package_spec *spec = w->spec;
    struct fg_package_dims dims = {0};
    struct fg_package_range range = {
        .kind = spec->kind, .first = spec->layer_first, .last = spec->layer_last};
    if (!fg_package_is_digest(spec->weights_digest)) {
        return fg_fail(w->err, FG_EINPUT, WHAT, w->path, "forge.weights_digest",
                       "64 lower-case hexadecimal digits", "\"%s\"", spec->weights_digest);
    }
    if (!fg_package_is_digest(spec->export_digest)) {
        return fg_fail(w->err, FG_EINPUT, WHAT, w->path, "forge.export",
                       "64 lower-case hexadecimal digits", "\"%s\"", spec->export_digest);
    }
    if (spec->id && !fg_package_is_digest(spec->id)) {
        return fg_fail(w->err, FG_EINPUT, WHAT, w->path, "forge.id",
                       "64 lower-case hexadecimal digits", "\"%s\"", spec->id);
    }
    if (spec->kind != FG_PACKAGE_HEAD && (spec->layer_first < 0 || range.last < range.first ||
                                          range.last >= FG_PACKAGE_LAYERS_MAX)) {
        return fg_fail(w->err, FG_EINPUT, WHAT, w->path, "forge.layers", "a range inside 0 to 1023",
                       "%" PRId64 "-%" PRId64, range.first, range.last);
    }
    return fg_package_check_set(spec->set, &range, NULL, &dims, w->path, w->err);
}

static int add_source(struct writer *w, const char *stem, const char *suffix, struct source src)
{
    char name[FG_PACKAGE_NAME_BYTES];
    int len = snprintf(name, sizeof name, "%s%s", stem, suffix);
    src.blob.name = fg_arena_strdup(&w->arena, name, (size_t)len);
    if (!src.blob.name) return fg_fail_memory(w->err, WHAT, (uint64_t)len);
    src.bytes = fg_st_dtype_bytes(src.blob.dtype);
    for (int k = 0; k < src.blob.rank; k++) {
        if (!fg_mul(&src.bytes, src.bytes, src.blob.shape[k])) {
            return fg_fail(w->err, FG_EINPUT, WHAT, w->path, src.blob.name, "below 2^64 bytes",
                           "more");
        }
    }
    w->sources[w->n++] = src;
    return 0;
}

static int list_sources(struct writer *w)
{
    const struct fg_qset *set = w->spec->set;
    uint64_t n = set->n_mats * FG_PACKAGE_N_PARTS + set->n_small + set->n_rots;
    int rc = 0;
    w->sources = fg_arena_alloc(&w->arena, n, sizeof *w->sources);
    w->blobs = fg_arena_alloc(&w->arena, n, sizeof *w->blobs);
    if (!w->sources || !w->blobs) return fg_fail_memory(w->err, WHAT, n);
    for (uint64_t i = 0; i < set->n_mats; i++) {
        for (int k = 0; k < FG_PACKAGE_N_PARTS && !rc; k++) {
            struct source src = {.mat = &set->mats[i], .part = (enum fg_package_part)k};
            struct fg_package_array a;
            if (!fg_package_array(&src.mat->m, src.part, &a)) continue;
            src.blob.dtype = a.dtype;
            src.blob.rank = a.rank;
            memcpy(src.blob.shape, a.shape, sizeof a.shape);
            rc = add_source(w, src.mat->name, a.suffix, src);
        }
    }
    for (uint64_t i = 0; i < set->n_small && !rc; i++) {
        const struct fg_qset_small *t = &set->small[i];
        struct source src = {.blob = {.dtype = t->dtype, .rank = t->rank, .data = t->data}};
        memcpy(src.blob.shape, t->shape, sizeof t->shape);
        rc = add_source(w, t->name, "", src);
    }
    for (uint64_t i = 0; i < set->n_rots && !rc; i++) {
        const struct fg_qset_rot *r = &set->rots[i];
        struct source src = {.blob = {.dtype = FG_ST_U8, .rank = 1, .data = r->bits}};
        char stem[FG_PACKAGE_NAME_BYTES];
        src.blob.shape[0] = ((uint64_t)r->n + 7) / 8;
        snprintf(stem, sizeof stem, "layers.%" PRId64 ".rot.", r->layer);
        rc = add_source(w, stem, r->site, src);
    }
    if (rc) return rc;
    if (w->n > 1) qsort(w->sources, w->n, sizeof *w->sources, by_name);
    for (uint64_t i = 0; i < w->n; i++) {
        w->blobs[i] = w->sources[i].blob;
    }
    return 0;
}

static void describe_matrix(struct fg_buf *b, const struct fg_qset_mat *mat)
{
    const struct fg_qmat *m = &mat->m;
    fg_buf_str(b, "{\"name\":");
    fg_buf_json_str(b, mat->name, strlen(mat->name));
    fg_buf_printf(b, ",\"format\":\"%s\",\"rows\":%" PRId64 ",\"cols\":%" PRId64,
                  fg_qformat_name(m->format), m->rows, m->cols);
    if (m->site) {
        fg_buf_printf(b, ",\"basis\":{\"site\":\"%s\",\"block\":%" PRId64 "}", m->site, m->block);
    } else {
        fg_buf_str(b, ",\"basis\":null");
    }
    fg_buf_printf(b, ",\"rank\":%" PRId64, m->rank);
    if (m->lr_dtype != FG_LR_F16)
        fg_buf_printf(b, ",\"lr_dtype\":\"%s\"", fg_lr_dtype_name(m->lr_dtype));
    fg_buf_char(b, '}');
}

static int make_options(struct writer *w)
{
    const struct fg_package_spec *spec = w->spec;
    struct fg_buf *b = &w->matrices;
    fg_buf_char(b, '[');
    for (uint64_t i = 0; i < spec->set->n_mats; i++) {
        if (i) fg_buf_char(b, ',');
        describe_matrix(b, &spec->set->mats[i]);
    }
    fg_buf_char(b, ']');
    if (b->failed) return fg_fail_memory(w->err, WHAT, b->len);

    struct fg_st_pair *at = w->metadata;
    *at++ = (struct fg_st_pair){"forge.format", "package"};
    *at++ = (struct fg_st_pair){"forge.version", "1"};
    *at++ = (struct fg_st_pair){"forge.kind", fg_package_kind_name(spec->kind)};
    if (spec->kind != FG_PACKAGE_HEAD) {
        snprintf(w->layers, sizeof w->layers, "%" PRId64 "-%" PRId64, spec->layer_first,
                 spec->layer_last);
        *at++ = (struct fg_st_pair){"forge.layers", w->layers};
    }
    *at++ = (struct fg_st_pair){"forge.weights_digest", spec->weights_digest};
    *at++ = (struct fg_st_pair){"forge.export", spec->export_digest};
    if (spec->id) *at++ = (struct fg_st_pair){"forge.id", spec->id};
    *at++ = (struct fg_st_pair){"forge.layout", "canonical"};
    *at++ = (struct fg_st_pair){"forge.matrices", b->data};
    w->options = (struct fg_st_options){.metadata = w->metadata,
                                        .n_metadata = (uint64_t)(at - w->metadata),
                                        .header_align = 4096,
                                        .tensor_align = 64,
                                        .hash = true};
    return 0;
}

// ---- data

static int put(struct writer *w, const void *data, uint64_t bytes)
{
    const uint8_t *p = data;
    while (bytes > 0) {
        uint64_t n = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
        int rc = fg_st_stream_add(w->stream, p, n, w->err);
        if (rc) return rc;
        p += n;
        bytes -= n;
        w->done_bytes += n;
        if (w->spec->progress && !w->spec->progress(w->spec->progress_ctx, w->done_bytes,
                                                    fg_st_stream_bytes(w->stream))) {
            return fg_fail(w->err, FG_EINTERRUPTED, WHAT, w->path, NULL, NULL, "stopped");
        }
    }
    return 0;
}

// Index bytes of the matrix at hand, packed a block of rows at a time.
static int put_packed(struct writer *w)
{
    const struct fg_qmat *m = &w->now;
    int bits = fg_qformat_index_bits(m->format);
    uint64_t cols = (uint64_t)m->cols, row_bytes = fg_qformat_row_bytes(m->format, cols);
    uint64_t n_rows = (uint64_t)(m->rows / fg_qformat_rows_per_index(m->format));
    uint64_t step = PACK_BYTES / row_bytes;
    if (step < 1) step = 1;
    if (step > n_rows) step = n_rows;
    const uint64_t bytes = step * row_bytes;
    uint8_t *packed = malloc(bytes ? bytes : 1);
    if (!packed) return fg_fail_memory(w->err, WHAT, bytes);
    int rc = 0;
    for (uint64_t r = 0; r < n_rows && !rc; r += step) {
        uint64_t n = n_rows - r < step ? n_rows - r : step;
        bool good = true;
        for (uint64_t i = 0; i < n; i++) {
            good &= fg_bits_pack(packed + i * row_bytes, m->idx + (r + i) * cols, cols, bits);
        }
        if (!good) {
            char field[FIELD_BYTES], expected[64];
            snprintf(field, sizeof field, "%s.idx, rows %" PRIu64 " to %" PRIu64, w->loaded->name,
                     r, r + n - 1);
            snprintf(expected, sizeof expected, "indices below %d", fg_qformat_entries(m->format));
            rc = fg_fail(w->err, FG_EINPUT, WHAT, w->loaded->file, field, expected,
                         "an index past the table");
        } else {
            rc = put(w, packed, n * row_bytes);
        }
    }
    free(packed);
    return rc;
}

static int load_matrix(struct writer *w, const struct fg_qset_mat *mat)
{
    if (w->loaded == mat) return 0;
    w->loaded = mat;
    w->now = mat->m;
    return w->spec->load ? w->spec->load(w->spec->load_ctx, mat->name, &w->now, w->err) : 0;
}

static int put_source(struct writer *w, const struct source *src)
{
    if (!src->mat) return put(w, src->blob.data, src->bytes);
    int rc = load_matrix(w, src->mat);
    if (rc) return rc;
    const void *const arrays[FG_PACKAGE_N_PARTS] = {
        [FG_PART_INT8] = w->now.codes,  [FG_PART_LR_A] = w->now.lr_a,
        [FG_PART_LR_B] = w->now.lr_b,   [FG_PART_LR_SCALE] = w->now.lr_scale,
        [FG_PART_LUT] = w->now.lut,     [FG_PART_PIDX] = w->now.pidx,
        [FG_PART_SCALE] = w->now.scale, [FG_PART_WEIGHT] = w->now.weight};
    if (src->part == FG_PART_PIDX && w->now.idx) return put_packed(w);
    if (!arrays[src->part]) {
        return fg_fail(w->err, FG_EINPUT, WHAT, src->mat->file, src->blob.name, "data", "none");
    }
    return put(w, arrays[src->part], src->bytes);
}

static int prepare(struct writer *w)
{
    int rc = check_spec(w);
    if (!rc) rc = list_sources(w);
    return rc ? rc : make_options(w);
}

static void writer_free(struct writer *w)
{
    fg_st_stream_abort(w->stream);
    fg_buf_free(&w->matrices);
    fg_arena_free(&w->arena);
}

int fg_package_bytes(const struct fg_package_spec *spec, uint64_t *bytes, struct fg_error *err)
{
    struct writer w = {.path = "", .spec = spec, .err = err};
    int rc = prepare(&w);
    if (!rc) rc = fg_st_file_size(w.blobs, w.n, &w.options, bytes, err);
    writer_free(&w);
    return rc;
}

int fg_package_write(const char *path, const struct fg_package_spec *spec,
                     struct fg_st_written *written, struct fg_error *err)
{
    struct writer w = {.path = path, .spec = spec, .err = err};
    int rc = prepare(&w);
    if (!rc) rc = fg_st_stream_open(&w.stream, path, w.blobs, w.n, &w.options, err);
    for (uint64_t i = 0; i < w.n && !rc; i++) {
        rc = put_source(&w, &w.sources[i]);
    }
    if (!rc) {
        struct fg_st_stream *s = w.stream;
        w.stream = NULL;
        rc = fg_st_stream_commit(s, written, err);
    }
    writer_free(&w);
    return rc;
}
