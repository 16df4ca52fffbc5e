// format/embedding.c
#include "format/embedding.h"
#include "base/num.h"
#include "base/size.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WHAT "embedding"
#define ROWS_MAX INT32_MAX

static int refuse(const struct fg_embedding_int8 *e, const char *field, const char *expected,
                  const char *found, struct fg_error *err)
{
    return fg_fail(err, FG_EINPUT, WHAT, fg_st_file_path(e->file), field, expected, "%s", found);
}

static const struct fg_st_tensor *tensor(const struct fg_embedding_int8 *e, const char *name,
                                         enum fg_st_dtype dtype, int rank, int *rc,
                                         struct fg_error *err)
{
    const struct fg_st_tensor *t = fg_st_file_find(e->file, name);
    char expected[64], found[64];
    if (*rc) return NULL;
    if (!t) {
        *rc = refuse(e, name, "a tensor of an embedding in INT8", "none", err);
    } else if (t->dtype != dtype || t->rank != rank || t->shape[0] < 1 || t->shape[0] > ROWS_MAX ||
               (rank == 2 && (t->shape[1] < 1 || t->shape[1] > ROWS_MAX))) {
        snprintf(expected, sizeof expected, "%s of %d dimensions", fg_st_dtype_name(dtype), rank);
        snprintf(found, sizeof found, "%s of %d dimensions", fg_st_dtype_name(t->dtype), t->rank);
        *rc = refuse(e, name, expected, found, err);
    }
    return *rc ? NULL : t;
}

static int check_scales(const struct fg_embedding_int8 *e, struct fg_error *err)
{
    for (int64_t i = 0; i < e->vocab; i++) {
        const uint16_t h = (uint16_t)(e->scale[2 * i] | e->scale[2 * i + 1] << 8);
        if (h >= 0x0001 && h <= 0x7BFF) continue; // finite and above 0
        char field[64], found[32];
        snprintf(field, sizeof field, FG_EMBEDDING_SCALE "[%" PRId64 "]", i);
        snprintf(found, sizeof found, "%g", (double)fg_f16_to_f32(h));
        return refuse(e, field, "a finite number above 0", found, err);
    }
    return 0;
}

static int take(struct fg_embedding_int8 *e, struct fg_error *err)
{
    int rc = 0;
    const char *format = fg_st_file_metadata(e->file, "format");
    const struct fg_st_tensor *codes = tensor(e, FG_EMBEDDING_CODES, FG_ST_I8, 2, &rc, err);
    const struct fg_st_tensor *scale = tensor(e, FG_EMBEDDING_SCALE, FG_ST_F16, 1, &rc, err);
    if (rc) return rc;
    if (format && strcmp(format, "int8") != 0) return refuse(e, "format", "int8", format, err);
    if (scale->shape[0] != codes->shape[0]) {
        char expected[64], found[32];
        snprintf(expected, sizeof expected, "[%" PRIu64 "], one per row", codes->shape[0]);
        snprintf(found, sizeof found, "[%" PRIu64 "]", scale->shape[0]);
        return refuse(e, FG_EMBEDDING_SCALE, expected, found, err);
    }
    for (uint64_t i = 0; i < fg_st_file_count(e->file); i++) {
        const struct fg_st_tensor *t = fg_st_file_at(e->file, i);
        if (t != codes && t != scale && strncmp(t->name, FG_ST_PAD, strlen(FG_ST_PAD)) != 0)
            return refuse(e, t->name, "codes and scales alone", "another tensor", err);
    }
    e->codes = (const int8_t *)codes->data;
    e->scale = scale->data;
    e->vocab = (int64_t)codes->shape[0];
    e->hidden = (int64_t)codes->shape[1];
    e->path = fg_st_file_path(e->file);
    return check_scales(e, err);
}

int fg_embedding_int8_open(struct fg_embedding_int8 *out, const char *path, bool verify,
                           struct fg_error *err)
{
    *out = (struct fg_embedding_int8){0};
    int rc = fg_st_file_open(&out->file, WHAT, path, err);
    if (!rc) rc = take(out, err);
    if (!rc && verify) rc = fg_embedding_int8_check(out, err);
    if (rc) fg_embedding_int8_close(out);
    return rc;
}

void fg_embedding_int8_close(struct fg_embedding_int8 *e)
{
    fg_st_file_close(e->file);
    *e = (struct fg_embedding_int8){0};
}

int fg_embedding_int8_check(const struct fg_embedding_int8 *e, struct fg_error *err)
{
    const uint64_t n = (uint64_t)e->vocab * (uint64_t)e->hidden; // the file holds them
    const int8_t *bad = memchr(e->codes, 0x80, n);
    if (!bad) return 0;
    char field[64];
    snprintf(field, sizeof field, FG_EMBEDDING_CODES "[%" PRIu64 "]", (uint64_t)(bad - e->codes));
    return refuse(e, field, "-127 to 127", "-128", err);
}

int fg_embedding_int8_stream(struct fg_st_stream **out, const char *path, uint64_t vocab,
                             uint64_t hidden, const char *forge, struct fg_error *err)
{
    const struct fg_st_pair pairs[] = {{"forge", forge}, {"format", "int8"}};
    const struct fg_st_options o = {.metadata = pairs, .n_metadata = FG_COUNT(pairs)};
    const struct fg_st_blob blobs[] = {
        {.name = FG_EMBEDDING_CODES, .dtype = FG_ST_I8, .rank = 2, .shape = {vocab, hidden}},
        {.name = FG_EMBEDDING_SCALE, .dtype = FG_ST_F16, .rank = 1, .shape = {vocab}}};
    return fg_st_stream_open(out, path, blobs, FG_COUNT(blobs), &o, err);
}
