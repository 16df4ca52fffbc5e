// quant/export_small.c: what an export has outside its layer files, in its own directory or in the
// model's: norms, convolutions, gates, kept projections, embedding, config (specs: quantization
// 1.3; model 2.1 for the spellings of names).
#include "base/file.h"
#include "base/num.h"
#include "base/size.h"
#include "quant/dequant.h"
#include "quant/export_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const prefixes[] = {"model.language_model.", "model.", "language_model.model.",
                                       ""};

// Kept projections, matrices of the set.
static const char *const kept[] = {"linear_attn.in_proj_a.weight", "linear_attn.in_proj_b.weight"};

static bool starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static const struct fg_st_tensor *find_prefixed(const struct fg_checkpoint *c, const char *name)
{
    char full[FG_EXPORT_NAME_MAX];
    for (size_t i = 0; c && i < FG_COUNT(prefixes); i++) {
        snprintf(full, sizeof full, "%s%s", prefixes[i], name);
        const struct fg_st_tensor *t = fg_checkpoint_find(c, full);
        if (t) return t;
    }
    return NULL;
}

static double element(const struct fg_st_tensor *t, uint64_t i)
{
    if (t->dtype == FG_ST_F32) {
        float f;
        memcpy(&f, t->data + i * sizeof f, sizeof f);
        return (double)f;
    }
    uint16_t h = fg_le16_at(t->data, (int64_t)i);
    return (double)(t->dtype == FG_ST_F16 ? fg_f16_to_f32(h) : fg_bf16_to_f32(h));
}

static bool is_float(struct fg_export_load *l, const struct fg_st_tensor *t)
{
    if (t->dtype == FG_ST_F32 || t->dtype == FG_ST_F16 || t->dtype == FG_ST_BF16) return true;
    fg_export_refuse(l, t->file, t->name, "F32, F16 or BF16", "%s", fg_st_dtype_name(t->dtype));
    return false;
}

// F32, F16 or BF16, and every element finite.
static bool is_sound(struct fg_export_load *l, const struct fg_st_tensor *t)
{
    if (!is_float(l, t)) return false;
    const uint64_t n = t->bytes / fg_st_dtype_bytes(t->dtype);
    for (uint64_t i = 0; i < n; i++) {
        if (isfinite(element(t, i))) continue;
        char field[FG_EXPORT_NAME_MAX + 32];
        snprintf(field, sizeof field, "%s[%" PRIu64 "]", t->name, i);
        fg_export_refuse(l, t->file, field, "a finite number", "%g", element(t, i));
        return false;
    }
    return true;
}

static bool fits(struct fg_export_load *l, const struct fg_st_tensor *t,
                 const struct fg_export_need *need)
{
    bool same = t->rank == need->rank;
    for (int i = 0; same && i < t->rank; i++)
        same = t->shape[i] == need->shape[i];
    if (same) return true;
    char field[FG_EXPORT_NAME_MAX + 16], expected[192], found[192];
    snprintf(field, sizeof field, "shape of %s", t->name);
    fg_export_refuse(l, t->file, field,
                     fg_export_shape_text(expected, sizeof expected, need->rank, need->shape), "%s",
                     fg_export_shape_text(found, sizeof found, t->rank, t->shape));
    return false;
}

static void add_small(struct fg_export_load *l, const struct fg_st_tensor *t, const char *name)
{
    struct fg_export *e = l->e;
    if (!is_sound(l, t)) return;
    if (!fg_export_grow(l, (void **)&e->small, e->n_small, &e->cap_small, sizeof *e->small)) return;
    struct fg_qset_small s = {.name = fg_export_strdup(l, name),
                              .dtype = t->dtype,
                              .rank = t->rank,
                              .data = t->data,
                              .bytes = t->bytes,
                              .file = t->file};
    memcpy(s.shape, t->shape, sizeof s.shape);
    if (s.name) e->small[e->n_small++] = s;
}

// `name` without ".weight". Values of a checkpoint's large matrices are not looked at, as when the
// checkpoint itself is opened.
static void add_kept(struct fg_export_load *l, const struct fg_st_tensor *t, const char *name,
                     bool look)
{
    struct fg_export *e = l->e;
    if (!(look ? is_sound(l, t) : is_float(l, t))) return;
    if (t->rank != 2 || t->shape[0] < 1 || t->shape[1] < 1) {
        fg_export_refuse(l, t->file, t->name, "a matrix", "%d dimensions", t->rank);
        return;
    }
    if (!fg_export_grow(l, (void **)&e->mats, e->n_mats, &e->cap_mats, sizeof *e->mats)) return;
    struct fg_qset_mat mat = {.name = fg_export_strdup(l, name), .file = t->file};
    mat.m = (struct fg_qmat){.format = t->dtype == FG_ST_BF16  ? FG_Q_BF16
                                       : t->dtype == FG_ST_F16 ? FG_Q_F16
                                                               : FG_Q_F32,
                             .rows = (int64_t)t->shape[0],
                             .cols = (int64_t)t->shape[1],
                             .weight = t->data};
    if (mat.name) e->mats[e->n_mats++] = mat;
}

static bool has_mat(const struct fg_export *e, const char *name)
{
    for (uint64_t i = 0; i < e->n_mats; i++) { // not sorted yet
        if (strcmp(e->mats[i].name, name) == 0) return true;
    }
    return false;
}

// What the model needs and the layer files do not have.
static void read_needs(struct fg_export_load *l, const struct fg_checkpoint *own,
                       const struct fg_checkpoint *model)
{
    char name[FG_EXPORT_NAME_MAX];
    for (uint64_t i = 0; i < l->o->n_needs && !l->rc; i++) {
        const struct fg_export_need *need = &l->o->needs[i];
        snprintf(name, sizeof name, "%s%s", need->name, need->is_mat ? ".weight" : "");
        bool small = !need->is_mat;
        for (size_t k = 0; k < FG_COUNT(kept); k++)
            small = small || ends_with(name, kept[k]);
        if (!small && !l->o->fill) continue;
        if (need->is_mat && has_mat(l->e, need->name)) continue;
        const struct fg_st_tensor *t = small ? find_prefixed(own, name) : NULL;
        if (!t) t = find_prefixed(model, name);
        if (!t && l->o->fill && strcmp(need->name, "lm_head") == 0)
            t = find_prefixed(model, "embed_tokens.weight");
        if (!t || !fits(l, t, need)) continue; // a missing one is noticed when the set is whole
        if (need->is_mat)
            add_kept(l, t, need->name, small);
        else
            add_small(l, t, need->name);
    }
}

// Without needs: whatever small.safetensors holds of the text model.
static void read_all(struct fg_export_load *l, const struct fg_checkpoint *own)
{
    for (uint64_t i = 0; i < fg_checkpoint_count(own) && !l->rc; i++) {
        const struct fg_st_tensor *t = fg_checkpoint_at(own, i);
        const char *name = t->name;
        for (size_t k = 0; k < FG_COUNT(prefixes); k++) {
            if (!starts_with(t->name, prefixes[k])) continue;
            name += strlen(prefixes[k]);
            break;
        }
        if (!starts_with(name, "layers.") && strcmp(name, "norm.weight") != 0) continue;
        bool matrix = false;
        for (size_t k = 0; k < FG_COUNT(kept); k++)
            matrix = matrix || ends_with(name, kept[k]);
        if (!matrix) {
            add_small(l, t, name);
            continue;
        }
        char shorter[FG_EXPORT_NAME_MAX];
        snprintf(shorter, sizeof shorter, "%.*s", (int)(strlen(name) - strlen(".weight")), name);
        if (!has_mat(l->e, shorter)) add_kept(l, t, shorter, true);
    }
}

// ---- embedding

static void take_embedding(struct fg_export_load *l, const struct fg_st_tensor *t)
{
    if (t->rank != 2 ||
        (t->dtype != FG_ST_F16 && t->dtype != FG_ST_BF16 && t->dtype != FG_ST_F32)) {
        char found[192];
        fg_export_shape_text(found, sizeof found, t->rank, t->shape);
        fg_export_refuse(l, t->file, t->name, "F16, BF16 or F32 [vocab, hidden]", "%s %s",
                         fg_st_dtype_name(t->dtype), found);
        return;
    }
    l->e->embedding = (struct fg_export_embedding){.kind = FG_EMBEDDING_DENSE,
                                                   .data = t->data,
                                                   .dtype = t->dtype,
                                                   .vocab = (int64_t)t->shape[0],
                                                   .hidden = (int64_t)t->shape[1],
                                                   .file = t->file};
}

static void take_int8(struct fg_export_load *l, const char *path)
{
    struct fg_embedding_int8 *q = &l->e->embed_int8;
    l->rc = fg_embedding_int8_open(q, path, false, l->err);
    if (l->rc) return;
    l->e->embedding = (struct fg_export_embedding){.kind = FG_EMBEDDING_INT8,
                                                   .data = q->codes,
                                                   .dtype = FG_ST_I8,
                                                   .scale = q->scale,
                                                   .vocab = q->vocab,
                                                   .hidden = q->hidden,
                                                   .file = q->path};
}

// The head is the embedding: then it is there, and no other is.
static void take_head(struct fg_export_load *l, const char *other)
{
    struct fg_export_embedding *em = &l->e->embedding;
    if (other) fg_export_refuse(l, other, NULL, "no embedding beside a head that is one", "a file");
    for (uint64_t i = 0; i < l->e->n_mats; i++) {
        const struct fg_qset_mat *mat = &l->e->mats[i];
        if (strcmp(mat->name, "lm_head") != 0 || mat->file != em->file) continue;
        em->vocab = mat->m.rows;
        em->hidden = mat->m.cols;
    }
    if (!l->rc && em->vocab == 0)
        fg_export_refuse(l, em->file, "lm_head", "the head, which is the embedding too", "none");
}

static void take_npy(struct fg_export_load *l, const char *path)
{
    struct fg_npy *npy = &l->e->embed_npy;
    l->rc = fg_npy_open(npy, path, l->err);
    if (l->rc) return;
    if (npy->rank != 2 || npy->dtype != FG_NPY_F16) {
        fg_export_refuse(l, path, "array", "<f2 [vocab, hidden]", "%s, %d dimensions",
                         fg_npy_dtype_name(npy->dtype), npy->rank);
        return;
    }
    l->e->embedding = (struct fg_export_embedding){.kind = FG_EMBEDDING_DENSE,
                                                   .data = npy->data,
                                                   .dtype = FG_ST_F16,
                                                   .vocab = (int64_t)npy->shape[0],
                                                   .hidden = (int64_t)npy->shape[1],
                                                   .file = npy->map.path};
}

// The head has a row for each token, over the same width.
static void check_embedding(struct fg_export_load *l)
{
    const struct fg_export_embedding *em = &l->e->embedding;
    for (uint64_t i = 0; i < l->e->n_mats && em->data; i++) {
        const struct fg_qset_mat *mat = &l->e->mats[i];
        if (strcmp(mat->name, "lm_head") != 0) continue;
        if (mat->m.rows == em->vocab && mat->m.cols == em->hidden) continue;
        char expected[64];
        snprintf(expected, sizeof expected, "[%" PRId64 ", %" PRId64 "], as lm_head has",
                 mat->m.rows, mat->m.cols);
        fg_export_refuse(l, em->file, "embedding", expected, "[%" PRId64 ", %" PRId64 "]",
                         em->vocab, em->hidden);
    }
}

// ---- files

// Path of dir/name in the arena when that exists, else NULL.
static const char *existing(struct fg_export_load *l, const char *dir, const char *name)
{
    if (!dir || l->rc) return NULL;
    char *path = fg_path_join(dir, name);
    const char *copy = path && fg_path_taken(path) ? fg_export_strdup(l, path) : NULL;
    if (!path) l->rc = fg_fail_memory(l->err, FG_EXPORT_WHAT, strlen(dir));
    free(path);
    return copy;
}

static const struct fg_checkpoint *open_model(struct fg_export_load *l)
{
    const char *dir = l->o->model_dir;
    if (!existing(l, dir, "model.safetensors") && !existing(l, dir, "model.safetensors.index.json"))
        return NULL;
    return fg_export_add_file(l, dir);
}

void fg_export_read_small(struct fg_export_load *l)
{
    struct fg_export *e = l->e;
    const char *dir = e->facts.dir, *path = existing(l, dir, "small.safetensors");
    const struct fg_checkpoint *own = path ? fg_export_add_file(l, path) : NULL, *rows = NULL;
    const char *rows_path = existing(l, dir, "embed_tokens.safetensors");
    if (rows_path && !l->rc) rows = fg_export_add_file(l, rows_path);
    e->facts.n_files = e->n_files;
    for (uint64_t i = 0; i < e->n_files && !l->rc; i++) {
        uint64_t bytes;
        fg_checkpoint_file(e->files[i], 0, &bytes);
        e->facts.bytes += bytes;
    }
    const struct fg_checkpoint *model = l->rc ? NULL : open_model(l);
    if (l->rc) return;
    if (l->o->n_needs)
        read_needs(l, own, model);
    else if (own)
        read_all(l, own);
    e->facts.config = existing(l, dir, "config.json");
    if (!e->facts.config) e->facts.config = existing(l, l->o->model_dir, "config.json");
    path = existing(l, l->o->model_dir, "embed_tokens_fp16.npy");
    if (l->rc) return;
    if (e->embedding.kind == FG_EMBEDDING_HEAD) {
        take_head(l, rows_path);
        return;
    }
    if (rows && fg_checkpoint_find(rows, FG_EMBEDDING_CODES)) {
        take_int8(l, rows_path);
        if (!l->rc) check_embedding(l);
        return;
    }
    const struct fg_st_tensor *t =
        rows && fg_checkpoint_count(rows) ? fg_checkpoint_at(rows, 0) : NULL;
    if (!t && !path) t = find_prefixed(model, "embed_tokens.weight");
    if (t)
        take_embedding(l, t);
    else if (path)
        take_npy(l, path);
    if (!l->rc) check_embedding(l);
}
