// Writing. The plan (which tensor in which shard, every header) is made when the writer opens, so
// data stream straight into the temporary file of the current shard.
#include "base/buf.h"
#include "base/file.h"
#include "base/size.h"
#include "format/names.h"
#include "format/safetensors.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WHAT "safetensors"
#define DATA_ALIGN 64 // of the first tensor in the file: a cache line, an AVX-512 register

struct tensor {
    struct fg_st_spec spec;
    uint64_t bytes;
    uint64_t shard;
};

struct fg_st_writer {
    char *dir;
    struct tensor *tensors;
    char *names; // all of them, NUL-terminated one after another
    uint64_t n, n_shards;
    uint64_t total_bytes;
    uint64_t shard;       // current
    uint64_t shard_left;  // data bytes missing in it
    uint64_t n_done;      // shards committed
    struct fg_atomic out; // current shard
};

static int check_spec(const char *dir, const struct fg_st_spec *s, uint64_t *bytes,
                      struct fg_error *err)
{
    *bytes = fg_st_dtype_bytes(s->dtype);
    if (strlen(s->name) > FG_ST_NAME_MAX || strcmp(s->name, "__metadata__") == 0) {
        return fg_fail(err, FG_EINPUT, WHAT, dir, s->name, "a tensor name of at most 1024 bytes",
                       "%zu bytes", strlen(s->name));
    }
    if (s->rank < 0 || s->rank > FG_ST_RANK_MAX) {
        return fg_fail_range(err, WHAT, dir, s->name, 0, FG_ST_RANK_MAX, s->rank);
    }
    for (int i = 0; i < s->rank; i++) {
        if (!fg_mul(bytes, *bytes, s->shape[i])) {
            return fg_fail(err, FG_EINPUT, WHAT, dir, s->name, "a size below 2^64",
                           "a shape whose product overflows");
        }
    }
    return 0;
}

static int check_unique(const struct fg_st_writer *w, struct fg_error *err)
{
    struct fg_name *names = malloc((w->n ? w->n : 1) * sizeof *names);
    if (!names) return fg_fail_memory(err, WHAT, w->n * sizeof *names);
    for (uint64_t i = 0; i < w->n; i++) {
        names[i] = (struct fg_name){w->tensors[i].spec.name, i};
    }
    const char *twice = fg_names_sort(names, w->n);
    free(names);
    if (!twice) return 0;
    return fg_fail(err, FG_EINPUT, WHAT, w->dir, twice, "one tensor of that name", "two");
}

// Copies and checks the specs and assigns the shards.
static int plan(struct fg_st_writer *w, const struct fg_st_spec *specs, uint64_t n,
                uint64_t shard_bytes_max, struct fg_error *err)
{
    uint64_t names_bytes = 1, in_shard = 0;
    for (uint64_t i = 0; i < n; i++) {
        names_bytes += strlen(specs[i].name) + 1;
    }
    w->tensors = calloc(n ? n : 1, sizeof *w->tensors);
    char *name = w->names = malloc(names_bytes);
    if (!w->tensors || !w->names) return fg_fail_memory(err, WHAT, names_bytes);
    for (uint64_t i = 0; i < n; i++) {
        struct tensor *t = &w->tensors[i];
        t->spec = specs[i];
        t->spec.name = strcpy(name, specs[i].name);
        name += strlen(name) + 1;
        int rc = check_spec(w->dir, &t->spec, &t->bytes, err);
        if (rc) return rc;
        if (!fg_add(&w->total_bytes, w->total_bytes, t->bytes)) {
            return fg_fail(err, FG_EINPUT, WHAT, w->dir, t->spec.name, "a total below 2^64",
                           "overflow");
        }
        // The sum is part of total_bytes: no overflow. An empty tensor never starts a shard, so
        // each shard has data and the stream decides when one ends.
        if (in_shard && t->bytes && shard_bytes_max && in_shard + t->bytes > shard_bytes_max) {
            w->n_shards++;
            in_shard = 0;
        }
        in_shard += t->bytes;
        t->shard = w->n_shards;
    }
    w->n = n;
    w->n_shards++;
    if (w->n_shards > FG_ST_SHARDS_MAX || n > FG_ST_TENSORS_MAX) {
        return fg_fail(err, FG_EINPUT, WHAT, w->dir, "plan",
                       "at most 4096 shards and 1048576 tensors",
                       "%" PRIu64 " shards, %" PRIu64 " tensors", w->n_shards, n);
    }
    return check_unique(w, err);
}

static void shard_name(const struct fg_st_writer *w, uint64_t shard, char out[64])
{
    if (w->n_shards == 1) {
        strcpy(out, "model.safetensors");
    } else {
        snprintf(out, 64, "model-%05" PRIu64 "-of-%05" PRIu64 ".safetensors", shard + 1,
                 w->n_shards);
    }
}

// The 8 length bytes and the header of a shard, padded with spaces so that data start aligned.
static int make_header(const struct fg_st_writer *w, uint64_t shard, struct fg_buf *b,
                       uint64_t *data_bytes, struct fg_error *err)
{
    uint64_t at = 0;
    fg_buf_add(b, "\0\0\0\0\0\0\0\0", 8);
    fg_buf_str(b, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (uint64_t i = 0; i < w->n; i++) {
        const struct tensor *t = &w->tensors[i];
        if (t->shard != shard) continue;
        fg_buf_char(b, ',');
        fg_buf_json_str(b, t->spec.name, strlen(t->spec.name));
        fg_buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", fg_st_dtype_name(t->spec.dtype));
        for (int k = 0; k < t->spec.rank; k++) {
            fg_buf_printf(b, "%s%" PRIu64, k ? "," : "", t->spec.shape[k]);
        }
        fg_buf_printf(b, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + t->bytes);
        at += t->bytes;
    }
    fg_buf_char(b, '}');
    while (b->len % DATA_ALIGN && !b->failed) {
        fg_buf_char(b, ' ');
    }
    if (b->failed) return fg_fail_memory(err, WHAT, b->len);
    uint64_t header_bytes = b->len - 8;
    if (header_bytes > FG_ST_HEADER_MAX) {
        return fg_fail(err, FG_EINPUT, WHAT, w->dir, "header", "at most 100000000 bytes",
                       "%" PRIu64, header_bytes);
    }
    for (int i = 0; i < 8; i++) {
        b->data[i] = (char)(header_bytes >> (8 * i) & 0xFF);
    }
    *data_bytes = at;
    return 0;
}

static int start_shard(struct fg_st_writer *w, struct fg_error *err)
{
    struct fg_buf header = {0};
    char name[64];
    char *path = NULL;
    int rc = make_header(w, w->shard, &header, &w->shard_left, err);
    if (rc) goto done;
    shard_name(w, w->shard, name);
    path = fg_path_join(w->dir, name);
    rc = path ? fg_atomic_open(&w->out, path, err) : fg_fail_memory(err, WHAT, 0);
    if (!rc) rc = fg_atomic_write(&w->out, header.data, header.len, err);
done:
    free(path);
    fg_buf_free(&header);
    return rc;
}

int fg_st_writer_open(struct fg_st_writer **out, const char *dir, const struct fg_st_spec *specs,
                      uint64_t n, uint64_t shard_bytes_max, struct fg_error *err)
{
    *out = NULL;
    struct fg_st_writer *w = calloc(1, sizeof *w);
    if (!w) return fg_fail_memory(err, WHAT, sizeof *w);
    w->out.fd = -1;
    w->dir = strdup(dir);
    int rc = w->dir ? plan(w, specs, n, shard_bytes_max, err) : fg_fail_memory(err, WHAT, 0);
    if (!rc) rc = start_shard(w, err);
    if (rc) {
        fg_st_writer_abort(w);
        return rc;
    }
    *out = w;
    return 0;
}

uint64_t fg_st_writer_bytes(const struct fg_st_writer *w)
{
    return w->total_bytes;
}

int fg_st_writer_add(struct fg_st_writer *w, const void *data, uint64_t bytes, struct fg_error *err)
{
    const uint8_t *p = data;
    while (bytes > 0) {
        if (w->shard_left == 0) {
            if (w->shard + 1 >= w->n_shards) {
                return fg_fail(err, FG_EINPUT, WHAT, w->dir, "data", "as much as was declared",
                               "%" PRIu64 " bytes more", bytes);
            }
            int rc = fg_atomic_commit(&w->out, err);
            if (rc) return rc;
            w->n_done = ++w->shard;
            if ((rc = start_shard(w, err))) return rc;
        }
        uint64_t n = bytes < w->shard_left ? bytes : w->shard_left;
        int rc = fg_atomic_write(&w->out, p, n, err);
        if (rc) return rc;
        p += n;
        bytes -= n;
        w->shard_left -= n;
    }
    return 0;
}

static int write_index(struct fg_st_writer *w, struct fg_error *err)
{
    struct fg_buf b = {0};
    fg_buf_printf(&b, "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n",
                  w->total_bytes);
    fg_buf_str(&b, "  \"weight_map\": {");
    for (uint64_t i = 0; i < w->n; i++) {
        char file[64];
        shard_name(w, w->tensors[i].shard, file);
        fg_buf_str(&b, i ? ",\n    " : "\n    ");
        fg_buf_json_str(&b, w->tensors[i].spec.name, strlen(w->tensors[i].spec.name));
        fg_buf_printf(&b, ": \"%s\"", file);
    }
    fg_buf_str(&b, "\n  }\n}\n");
    char *path = fg_path_join(w->dir, "model.safetensors.index.json");
    int rc = b.failed || !path ? fg_fail_memory(err, WHAT, b.len)
                               : fg_file_replace(path, b.data, b.len, err);
    free(path);
    fg_buf_free(&b);
    return rc;
}

static void writer_free(struct fg_st_writer *w)
{
    free(w->dir);
    free(w->tensors);
    free(w->names);
    free(w);
}

int fg_st_writer_commit(struct fg_st_writer *w, struct fg_error *err)
{
    if (w->shard_left > 0 || w->shard + 1 < w->n_shards) {
        return fg_fail(err, FG_EINPUT, WHAT, w->dir, "data", "as much as was declared",
                       "%" PRIu64 " bytes less in shard %" PRIu64, w->shard_left, w->shard + 1);
    }
    if (w->n_done < w->n_shards) {
        int rc = fg_atomic_commit(&w->out, err);
        if (rc) return rc;
        w->n_done++;
    }
    if (w->n_shards > 1) {
        int rc = write_index(w, err);
        if (rc) return rc;
    }
    writer_free(w);
    return 0;
}

void fg_st_writer_abort(struct fg_st_writer *w)
{
    if (!w) return;
    fg_atomic_abort(&w->out);
    for (uint64_t i = 0; i < w->n_done; i++) {
        char name[64];
        shard_name(w, i, name);
        char *path = fg_path_join(w->dir, name);
        if (path) unlink(path);
        free(path);
    }
    writer_free(w);
}
