// train/walk_file.c: the residual at the entry of a layer as a safetensors file (specs:
// quantization 4.5): tensor h [rows][seq][hidden], metadata layer, id, crc32c of the data.
#include "base/crc32c.h"
#include "base/file.h"
#include "format/st_file.h"
#include "train/walk_impl.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "calibration state"
#define SCHEMA "forge.walk/1"

static struct fg_st_blob blob_of(const struct fg_walk *w)
{
    return (struct fg_st_blob){.name = "h",
                               .dtype = w->h ? FG_ST_F32 : FG_ST_BF16,
                               .rank = 3,
                               .shape = {(uint64_t)w->o.calib->n, (uint64_t)w->o.calib->seq,
                                         (uint64_t)w->o.model->config.hidden},
                               .data = w->h ? (const void *)w->h : w->h16};
}

static uint64_t bytes_of(const struct fg_st_blob *b)
{
    return b->shape[0] * b->shape[1] * b->shape[2] * (b->dtype == FG_ST_F32 ? 4 : 2);
}

int fg_walk_save(const struct fg_walk *w, const char *path, const char *id, struct fg_error *err)
{
    const struct fg_st_blob blob = blob_of(w);
    char layer[24], crc[16];
    snprintf(layer, sizeof layer, "%" PRId64, w->layer);
    snprintf(crc, sizeof crc, "%08" PRIx32, fg_crc32c(0, blob.data, bytes_of(&blob)));
    const struct fg_st_pair pairs[] = {
        {"schema", SCHEMA}, {"layer", layer}, {"id", id}, {"crc32c", crc}};
    const struct fg_st_options o = {.metadata = pairs, .n_metadata = 4};
    return fg_st_file_write(path, &blob, 1, &o, NULL, err);
}

static int check_field(const struct fg_st_file *f, const char *key, const char *expected, int code,
                       struct fg_error *err)
{
    const char *found = fg_st_file_metadata(f, key);
    if (found && strcmp(found, expected) == 0) return 0;
    return fg_fail(err, code, WHAT, fg_st_file_path(f), key, expected, "%s",
                   found ? found : "nothing");
}

static int read_into(struct fg_walk *w, const struct fg_st_file *f, const char *id,
                     struct fg_error *err)
{
    const struct fg_st_blob blob = blob_of(w);
    const struct fg_st_tensor *t = fg_st_file_find(f, "h");
    char crc[16];
    int64_t layer = -1;
    int rc = check_field(f, "schema", SCHEMA, FG_EINPUT, err);
    if (!rc) rc = check_field(f, "id", id, FG_EINTEGRITY, err);
    if (rc) return rc;
    if (!t || t->dtype != blob.dtype || t->rank != 3 ||
        memcmp(t->shape, blob.shape, 3 * sizeof t->shape[0]) != 0)
        return fg_fail(err, FG_EINPUT, WHAT, fg_st_file_path(f), "h",
                       "the residual of this job's rows", "another tensor");
    const char *text = fg_st_file_metadata(f, "layer");
    if (!text || sscanf(text, "%" SCNd64, &layer) != 1 || layer < 0 ||
        layer > w->o.model->config.n_layers)
        return fg_fail_range(err, WHAT, fg_st_file_path(f), "layer", 0, w->o.model->config.n_layers,
                             layer);
    snprintf(crc, sizeof crc, "%08" PRIx32, fg_crc32c(0, t->data, t->bytes));
    rc = check_field(f, "crc32c", crc, FG_EINTEGRITY, err);
    if (rc) return rc;
    memcpy(w->h ? (void *)w->h : w->h16, t->data, t->bytes);
    w->layer = layer;
    return 0;
}

int fg_walk_load(struct fg_walk *w, const char *path, const char *id, struct fg_error *err)
{
    struct fg_st_file *f = NULL;
    int rc = fg_st_file_open(&f, WHAT, path, err);
    if (!rc) rc = read_into(w, f, id, err);
    fg_st_file_close(f);
    return rc;
}
