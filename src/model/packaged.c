// model/packaged.c: from the files of an export or a build to tensors by Hugging Face name and
// matrices in tiles.
#include "model/packaged.h"
#include "base/file.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/progress.h"
#include "format/build.h"
#include "model/needs.h"
#include "quant/export.h"
#include "quant/tiles.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_BYTES_MAX (16u << 20)
#define PREFIX "model."

struct fg_packaged {
    struct fg_export *export_; // one of the two
    struct fg_build *build;
    const struct fg_qset *set;
    struct fg_tensor_source source;
    struct fg_tensor *tensors; // sorted by name; matrices too, for the digest and unknown names
    uint64_t n_tensors;
    struct packed {
        const char *name; // canonical
        const char *file;
        struct fg_mat mat;
        struct fg_lut lut;
    } * packed;         // in the set's order, hence sorted; kept matrices have mat.lut NULL
    struct fg_mat int8; // an embedding in INT8; row_scale NULL: another
    const char *text_dir;
};

bool fg_packaged_is(const char *path)
{
    return fg_build_is(path) || fg_export_is(path);
}

// ---- tensors by Hugging Face name

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct fg_tensor *)a)->name, ((const struct fg_tensor *)b)->name);
}

static bool find_tensor(const void *ctx, const char *name, struct fg_tensor *out)
{
    const struct fg_packaged *p = ctx;
    const struct fg_tensor key = {.name = name};
    const struct fg_tensor *t =
        bsearch(&key, p->tensors, (size_t)p->n_tensors, sizeof key, by_name);
    if (t) *out = *t;
    return t != NULL;
}

static void tensor_at(const void *ctx, uint64_t i, struct fg_tensor *out)
{
    *out = ((const struct fg_packaged *)ctx)->tensors[i];
}

static enum fg_embedding_kind embedding_kind(const struct fg_packaged *p)
{
    return p->build ? fg_build_embedding(p->build)->kind : fg_export_embedding(p->export_)->kind;
}

static bool find_mat(const void *ctx, const char *name, struct fg_mat *out, const char **file)
{
    const struct fg_packaged *p = ctx;
    if (strcmp(name, "embed_tokens") == 0) {
        if (p->int8.row_scale) {
            *out = p->int8;
            *file = p->build ? fg_build_embedding(p->build)->path
                             : fg_export_embedding(p->export_)->file;
            return true;
        }
        if (embedding_kind(p) != FG_EMBEDDING_HEAD) return false;
        name = "lm_head"; // a kept one is found among the tensors
    }
    const struct fg_qset_mat *m = fg_qset_find_mat(p->set, name);
    if (!m) return false;
    const struct packed *packed = &p->packed[m - p->set->mats];
    *out = packed->mat;
    *file = packed->file;
    return out->lut != NULL;
}

static bool dtype_of(enum fg_st_dtype t, enum fg_dtype *out)
{
    *out = t == FG_ST_F32 ? FG_F32 : t == FG_ST_F16 ? FG_F16 : FG_BF16;
    return t == FG_ST_F32 || t == FG_ST_F16 || t == FG_ST_BF16;
}

// "model.NAMEsuffix"; names outside the text model have no prefix. NULL when memory is out.
static char *hf_name(struct fg_arena *arena, const char *name, const char *suffix)
{
    char text[320];
    const char *prefix = strcmp(name, "lm_head") == 0 ? "" : PREFIX;
    int n = snprintf(text, sizeof text, "%s%s%s", prefix, name, suffix);
    return fg_arena_strdup(arena, text, (size_t)n);
}

static struct fg_tensor of_small(const struct fg_qset_small *s)
{
    struct fg_tensor t = {.dtype_name = fg_st_dtype_name(s->dtype),
                          .rank = s->rank,
                          .data = s->data,
                          .bytes = s->bytes,
                          .file = s->file};
    t.usable = dtype_of(s->dtype, &t.dtype);
    memcpy(t.shape, s->shape, sizeof t.shape);
    return t;
}

static struct fg_tensor of_mat(const struct fg_qset_mat *s)
{
    const struct fg_qmat *m = &s->m;
    const uint64_t rows = (uint64_t)m->rows / (uint64_t)fg_qformat_rows_per_index(m->format);
    struct fg_tensor t = {.dtype_name = fg_qformat_name(m->format),
                          .usable = fg_qformat_is_kept(m->format),
                          .rank = 2,
                          .shape = {(uint64_t)m->rows, (uint64_t)m->cols},
                          .file = s->file};
    if (m->weight) {
        t.dtype = m->format == FG_Q_BF16 ? FG_BF16 : m->format == FG_Q_F16 ? FG_F16 : FG_F32;
        t.data = m->weight;
        t.bytes = (uint64_t)m->rows * (uint64_t)m->cols * fg_dtype_bytes(t.dtype);
    } else if (m->codes) {
        t.data = m->codes;
        t.bytes = (uint64_t)m->rows * (uint64_t)m->cols;
    } else if (m->idx) {
        t.data = m->idx;
        t.bytes = rows * (uint64_t)m->cols;
    } else {
        t.data = m->pidx;
        t.bytes = rows * fg_qformat_row_bytes(m->format, (uint64_t)m->cols);
    }
    return t;
}

// For one that is the head: the head's tensor under another name.
static struct fg_tensor of_embedding(struct fg_packaged *p)
{
    struct fg_tensor t = {.usable = true, .rank = 2};
    const enum fg_embedding_kind kind = embedding_kind(p);
    if (kind == FG_EMBEDDING_HEAD) return of_mat(fg_qset_find_mat(p->set, "lm_head"));
    if (p->build) {
        const struct fg_build_embedding *e = fg_build_embedding(p->build);
        t.dtype = FG_F16;
        t.data = e->data;
        p->int8.row_scale = e->scale;
        t.file = e->path;
        t.shape[0] = (uint64_t)e->vocab;
        t.shape[1] = (uint64_t)e->hidden;
    } else {
        const struct fg_export_embedding *e = fg_export_embedding(p->export_);
        t.usable = dtype_of(e->dtype, &t.dtype);
        t.data = e->data;
        p->int8.row_scale = e->scale;
        t.file = e->file;
        t.shape[0] = (uint64_t)e->vocab;
        t.shape[1] = (uint64_t)e->hidden;
    }
    t.dtype_name = t.dtype == FG_F32 ? "F32" : t.dtype == FG_F16 ? "F16" : "BF16";
    t.bytes = t.shape[0] * t.shape[1] * fg_dtype_bytes(t.dtype);
    if (kind != FG_EMBEDDING_INT8) return t;
    t.usable = false;
    t.dtype_name = "int8";
    t.bytes = t.shape[0] * t.shape[1];
    p->int8.data = t.data;
    p->int8.n_out = (int64_t)t.shape[0];
    p->int8.n_in = (int64_t)t.shape[1];
    return t;
}

static int list_tensors(struct fg_packaged *p, struct fg_arena *arena, struct fg_error *err)
{
    const struct fg_qset *set = p->set;
    uint64_t n = set->n_small + set->n_mats + 1;
    p->tensors = fg_arena_alloc(arena, n, sizeof *p->tensors);
    if (!p->tensors) return fg_fail_memory(err, "weights", n * sizeof *p->tensors);
    struct fg_tensor *t = p->tensors;
    bool named = true;
    for (uint64_t i = 0; i < set->n_small; i++, t++) {
        *t = of_small(&set->small[i]);
        t->name = hf_name(arena, set->small[i].name, "");
        named &= t->name != NULL;
    }
    for (uint64_t i = 0; i < set->n_mats; i++, t++) {
        *t = of_mat(&set->mats[i]);
        t->name = hf_name(arena, set->mats[i].name, ".weight");
        named &= t->name != NULL;
    }
    bool has_embedding = embedding_kind(p) != FG_EMBEDDING_NONE;
    if (has_embedding) {
        *t = of_embedding(p);
        t++->name = PREFIX "embed_tokens.weight";
    }
    if (!named) return fg_fail_memory(err, "weights", n * sizeof *p->tensors);
    p->n_tensors = (uint64_t)(t - p->tensors);
    qsort(p->tensors, (size_t)p->n_tensors, sizeof *p->tensors, by_name);
    p->source = (struct fg_tensor_source){.ctx = p,
                                          .count = p->n_tensors,
                                          .find = find_tensor,
                                          .at = tensor_at,
                                          .mat = find_mat,
                                          .path = p->text_dir};
    return 0;
}

// ---- matrices in tiles

// The signs of a matrix's input; a site without them in the layer is an error.
static int find_signs(const struct fg_packaged *p, const struct fg_qset_mat *m, struct fg_mat *mat,
                      struct fg_error *err)
{
    long long layer = -1;
    if (!m->m.site) return 0;
    const struct fg_qset_rot *rot = NULL;
    if (sscanf(m->name, "layers.%lld.", &layer) == 1)
        rot = fg_qset_find_rot(p->set, layer, m->m.site);
    if (!rot || rot->n != m->m.cols || rot->block != m->m.block)
        return fg_fail(err, FG_EINPUT, "weights", m->file, m->name, "the signs of its rotation",
                       rot ? "signs of another width or block at %s" : "none at %s", m->m.site);
    mat->signs = rot->bits;
    mat->block = rot->block;
    return 0;
}

static int take_tiles(struct fg_packaged *p, uint64_t i, const struct fg_tile_source *tiles,
                      struct fg_arena *arena, struct fg_error *err)
{
    const struct fg_qset_mat *m = &p->set->mats[i];
    struct packed *packed = &p->packed[i];
    packed->name = m->name;
    packed->file = m->file;
    if (fg_qformat_is_kept(m->m.format)) return 0;
    int rc = 0;
    if (!tiles) {
        if (p->export_) rc = fg_export_check_codes(m, err);
        if (rc == 0) rc = fg_lut_build(&packed->lut, &m->m, arena, err);
    } else if (!tiles->find(tiles->ctx, m->name, &packed->lut) || packed->lut.n_out != m->m.rows ||
               packed->lut.n_in != m->m.cols) {
        rc = fg_fail(err, FG_EINTEGRITY, "weights", m->file, m->name, "compiled tiles", "none");
    }
    if (rc) return rc;
    packed->mat = (struct fg_mat){.n_out = m->m.rows, .n_in = m->m.cols, .lut = &packed->lut};
    return find_signs(p, m, &packed->mat, err);
}

// Packing takes as much memory as the tiles: refused before it starts where that is not there.
static int check_memory(const struct fg_packaged *p, struct fg_error *err)
{
    char need[32], found[32];
    struct fg_machine machine;
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < p->set->n_mats; i++) {
        const struct fg_qmat *m = &p->set->mats[i].m;
        if (!fg_qformat_is_kept(m->format))
            bytes += fg_tiles_bytes(fg_layout_of_format(m->format), m->rows, m->cols);
    }
    fg_machine_probe(&machine);
    uint64_t available = fg_machine_free_bytes(&machine);
    if (bytes <= available) return 0;
    return fg_fail(err, FG_ERESOURCE, "memory", p->text_dir, "quantized matrices",
                   fg_format_bytes(need, sizeof need, bytes), "%s available",
                   fg_format_bytes(found, sizeof found, available));
}

// ---- opening

static int read_config(struct fg_config *cfg, const char *path, struct fg_arena *arena,
                       struct fg_error *err)
{
    struct fg_json doc;
    int rc = fg_json_open(&doc, path, CONFIG_BYTES_MAX, err);
    if (rc) return rc;
    rc = fg_config_parse(cfg, &doc, arena, err);
    fg_json_close(&doc);
    return rc;
}

static int open_build(struct fg_packaged *p, struct fg_config *cfg, const char *path,
                      struct fg_arena *arena, struct fg_error *err)
{
    int rc = fg_build_open(&p->build, path, false, err);
    if (rc) return rc;
    p->set = fg_build_set(p->build);
    p->text_dir = fg_build_model_dir(p->build);
    char *config = fg_path_join(p->text_dir, "config.json");
    if (!config) return fg_fail_memory(err, "model", strlen(p->text_dir));
    rc = read_config(cfg, config, arena, err);
    free(config);
    return rc;
}

// The config says what the export must hold, and the export where its config is.
static int open_export(struct fg_packaged *p, struct fg_config *cfg, const char *path,
                       const char *model_dir, bool fill, struct fg_pool *pool,
                       const struct fg_log *log, struct fg_arena *arena, struct fg_error *err)
{
    struct fg_export_need *needs;
    struct fg_export_options o = {.model_dir = model_dir, .fill = fill, .pool = pool, .log = log};
    char *config = fg_path_join(path, "config.json");
    bool own = config && fg_file_exists(config);
    if (!own && model_dir) {
        free(config);
        config = fg_path_join(model_dir, "config.json");
    }
    if (!config) return fg_fail_memory(err, "model", strlen(path));
    int rc = read_config(cfg, config, arena, err);
    free(config);
    if (rc == 0) rc = fg_model_needs(&needs, &o.n_needs, cfg, arena, err);
    if (rc) return rc;
    o.needs = needs;
    rc = fg_export_open(&p->export_, path, &o, err);
    if (rc) return rc;
    p->set = fg_export_set(p->export_);
    p->text_dir = fg_arena_strdup(arena, own || !model_dir ? path : model_dir,
                                  strlen(own || !model_dir ? path : model_dir));
    return p->text_dir ? 0 : fg_fail_memory(err, "model", strlen(path));
}

int fg_packaged_open(struct fg_packaged **out, struct fg_config *cfg, const char *path,
                     const char *model_dir, bool fill, const struct fg_tile_source *tiles,
                     struct fg_pool *pool, const struct fg_log *log, struct fg_arena *arena,
                     struct fg_error *err)
{
    *out = NULL;
    struct fg_packaged *p = calloc(1, sizeof *p);
    if (!p) return fg_fail_memory(err, "model", sizeof *p);
    int rc = fg_build_is(path) ? open_build(p, cfg, path, arena, err)
                               : open_export(p, cfg, path, model_dir, fill, pool, log, arena, err);
    if (rc == 0 && embedding_kind(p) == FG_EMBEDDING_HEAD && !cfg->tied)
        rc = fg_fail(err, FG_EINPUT, "weights", path, "embedding",
                     "one of its own: the config does not tie it to the head", "the head");
    if (rc == 0 && !tiles) rc = check_memory(p, err);
    if (rc == 0) {
        p->packed = fg_arena_alloc(arena, p->set->n_mats, sizeof *p->packed);
        if (!p->packed) rc = fg_fail_memory(err, "weights", p->set->n_mats * sizeof *p->packed);
    }
    for (uint64_t i = 0; rc == 0 && i < p->set->n_mats; i++)
        rc = take_tiles(p, i, tiles, arena, err);
    if (rc == 0) rc = list_tensors(p, arena, err);
    if (rc) {
        fg_packaged_close(p);
        return rc;
    }
    *out = p;
    return 0;
}

void fg_packaged_close(struct fg_packaged *p)
{
    if (!p) return;
    fg_export_close(p->export_);
    fg_build_close(p->build);
    free(p);
}

const struct fg_tensor_source *fg_packaged_source(const struct fg_packaged *p)
{
    return &p->source;
}

const char *fg_packaged_text_dir(const struct fg_packaged *p)
{
    return p->text_dir;
}
