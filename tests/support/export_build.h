// tests/support/export_build.h: a quantized export in Forge's layout (specs: quantization 1.3),
// made in memory from another one, written to a directory. A test changes what it likes in between.
#ifndef FG_TESTS_EXPORT_BUILD_H
#define FG_TESTS_EXPORT_BUILD_H
#include "base/arena.h"
#include "base/file.h"
#include "base/num.h"
#include "format/st_file.h"
#include "quant/export.h"
#include "quant/pack.h"
#include "quant/signs.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EB_FILES_MAX 24
#define EB_BLOBS_MAX 64
#define EB_META_MAX 32

struct eb_file {
    char name[64];
    bool left_out;
    struct fg_st_pair meta[EB_META_MAX];
    uint64_t n_meta;
    struct fg_st_blob blobs[EB_BLOBS_MAX];
    uint64_t n_blobs;
};

struct export_build {
    struct eb_file files[EB_FILES_MAX];
    uint64_t n_files;
    struct fg_arena arena;
    bool bytes; // a byte per index
};

static inline char *eb_text(struct export_build *b, const char *s)
{
    char *copy = fg_arena_strdup(&b->arena, s, strlen(s));
    if (!copy) abort();
    return copy;
}

static inline struct eb_file *eb_file(struct export_build *b, const char *name)
{
    for (uint64_t i = 0; i < b->n_files; i++) {
        if (strcmp(b->files[i].name, name) == 0) return &b->files[i];
    }
    if (b->n_files == EB_FILES_MAX) abort();
    struct eb_file *f = &b->files[b->n_files++];
    *f = (struct eb_file){.meta = {{"forge", "0.1.0"}, {"signs", "splitmix64"}}, .n_meta = 2};
    snprintf(f->name, sizeof f->name, "%s", name);
    return f;
}

// Sets a metadata value; NULL removes it.
static inline void eb_meta(struct export_build *b, struct eb_file *f, const char *key,
                           const char *value)
{
    uint64_t i = 0;
    while (i < f->n_meta && strcmp(f->meta[i].key, key) != 0)
        i++;
    if (!value) {
        if (i == f->n_meta) abort();
        f->meta[i] = f->meta[--f->n_meta];
        return;
    }
    if (i == EB_META_MAX) abort();
    f->meta[i] = (struct fg_st_pair){eb_text(b, key), eb_text(b, value)};
    if (i == f->n_meta) f->n_meta++;
}

static inline struct fg_st_blob *eb_find(struct eb_file *f, const char *name)
{
    for (uint64_t i = 0; i < f->n_blobs; i++) {
        if (strcmp(f->blobs[i].name, name) == 0) return &f->blobs[i];
    }
    return NULL;
}

static inline void eb_remove(struct eb_file *f, const char *name)
{
    struct fg_st_blob *blob = eb_find(f, name);
    if (!blob) abort();
    *blob = f->blobs[--f->n_blobs];
}

// Adds a tensor with a copy of its data, which may be changed later. d1 0: one dimension.
static inline uint8_t *eb_add(struct export_build *b, struct eb_file *f, const char *name,
                              enum fg_st_dtype dtype, uint64_t d0, uint64_t d1, const void *data)
{
    uint64_t bytes = d0 * (d1 ? d1 : 1) * fg_st_dtype_bytes(dtype);
    uint8_t *copy = fg_arena_alloc(&b->arena, bytes, 1);
    if (!copy || f->n_blobs == EB_BLOBS_MAX) abort();
    if (data) memcpy(copy, data, bytes);
    f->blobs[f->n_blobs++] = (struct fg_st_blob){.name = eb_text(b, name),
                                                 .dtype = dtype,
                                                 .rank = d1 ? 2 : 1,
                                                 .shape = {d0, d1},
                                                 .data = copy};
    return copy;
}

static inline uint8_t *eb_data(struct eb_file *f, const char *name)
{
    struct fg_st_blob *blob = eb_find(f, name);
    if (!blob) abort();
    uint8_t *data; // a copy that eb_add made
    memcpy(&data, &blob->data, sizeof data);
    return data;
}

static inline void eb_add_mat(struct export_build *b, struct eb_file *f, const char *key,
                              const struct fg_qmat *m)
{
    char name[128];
    const uint64_t rows = (uint64_t)m->rows, cols = (uint64_t)m->cols, rank = (uint64_t)m->rank;
    const uint64_t per = (uint64_t)fg_qformat_rows_per_index(m->format);
    const int bits = fg_qformat_index_bits(m->format);
#define EB_NAME(suffix) (snprintf(name, sizeof name, "%s." suffix, key), name)
    snprintf(name, sizeof name, "%s.format", key);
    eb_meta(b, f, name, fg_qformat_name(m->format));
    snprintf(name, sizeof name, "%s.basis", key);
    eb_meta(b, f, name, m->site ? "online" : "plain");
    if (m->idx && b->bytes) {
        eb_add(b, f, EB_NAME("idx"), FG_ST_U8, rows / per, cols, m->idx);
    } else if (m->idx) {
        uint64_t row = fg_qformat_row_bytes(m->format, cols);
        uint8_t *packed = eb_add(b, f, EB_NAME("pidx"), FG_ST_U8, rows / per, row, NULL);
        for (uint64_t r = 0; r < rows / per; r++)
            fg_pack_indices(packed + r * row, m->idx + r * cols, m->cols, bits);
    }
    if (m->pidx)
        eb_add(b, f, EB_NAME("pidx"), FG_ST_U8, rows / per, fg_qformat_row_bytes(m->format, cols),
               m->pidx);
    if (m->codes) eb_add(b, f, EB_NAME("int8"), FG_ST_I8, rows, cols, m->codes);
    if (m->lut)
        eb_add(b, f, EB_NAME("lut"), FG_ST_F16, (uint64_t)fg_qformat_entries(m->format), per,
               m->lut);
    eb_add(b, f, EB_NAME("scale"), FG_ST_F16, rows, 0, m->scale);
    if (rank) {
        const enum fg_st_dtype type = m->lr_dtype == FG_LR_I8 ? FG_ST_I8 : FG_ST_F16;
        eb_add(b, f, EB_NAME("lr_a"), type, rows, rank, m->lr_a);
        eb_add(b, f, EB_NAME("lr_b"), type, rank, cols, m->lr_b);
        if (m->lr_scale) eb_add(b, f, EB_NAME("lr_scale"), FG_ST_F32, rank, 0, m->lr_scale);
    }
#undef EB_NAME
}

// The largest magnitude of n F16 numbers, `stride` apart.
static inline float eb_most(const uint16_t *p, uint64_t n, uint64_t stride)
{
    float most = 0;
    for (uint64_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(fg_f16_to_f32(p[i * stride])));
    return most;
}

// Rounds the F16 factors of a matrix of the file to INT8 ones; false when it has none.
static inline bool eb_int8_factors(struct export_build *b, struct eb_file *f, const char *key)
{
    char name[3][128];
    snprintf(name[0], sizeof name[0], "%s.lr_a", key);
    snprintf(name[1], sizeof name[1], "%s.lr_b", key);
    snprintf(name[2], sizeof name[2], "%s.lr_scale", key);
    struct fg_st_blob *blob = eb_find(f, name[0]);
    if (!blob) return false;
    const uint64_t rows = blob->shape[0], rank = blob->shape[1];
    const uint64_t cols = eb_find(f, name[1])->shape[1];
    const uint16_t *a = (const void *)eb_data(f, name[0]), *v = (const void *)eb_data(f, name[1]);
    eb_remove(f, name[0]);
    eb_remove(f, name[1]);
    int8_t *codes_a = (int8_t *)eb_add(b, f, name[0], FG_ST_I8, rows, rank, NULL);
    int8_t *codes_b = (int8_t *)eb_add(b, f, name[1], FG_ST_I8, rank, cols, NULL);
    float *scale = (float *)(void *)eb_add(b, f, name[2], FG_ST_F32, rank, 0, NULL);
    for (uint64_t k = 0; k < rank; k++) {
        const float most_a = eb_most(a + k, rows, rank), most_b = eb_most(v + k * cols, cols, 1);
        scale[k] = most_a * most_b / (127 * 127);
        for (uint64_t i = 0; i < rows; i++)
            codes_a[i * rank + k] = (int8_t)rintf(fg_f16_to_f32(a[i * rank + k]) / most_a * 127);
        for (uint64_t j = 0; j < cols; j++)
            codes_b[k * cols + j] = (int8_t)rintf(fg_f16_to_f32(v[k * cols + j]) / most_b * 127);
    }
    return true;
}

// The file and the key in it of a canonical name.
static inline struct eb_file *eb_place(struct export_build *b, const char *name, const char **key)
{
    char file[64];
    long long layer;
    int used = 0;
    *key = name;
    if (sscanf(name, "layers.%lld.%n", &layer, &used) != 1)
        return eb_file(b, "lm_head.safetensors");
    *key = name + used;
    bool mlp = strncmp(*key, "mlp.", 4) == 0;
    snprintf(file, sizeof file, "layer_%02lld%s.safetensors", layer, mlp ? "" : "_mixer");
    if (mlp) *key = strstr(*key, "gate") ? "gate" : strstr(*key, "up_") ? "up" : "down";
    return eb_file(b, file);
}

// Everything of an open export. bytes: a byte per index, as far as it has them so. numpy: its signs
// are kept, else those of splitmix64 take their place (and the weights mean something else).
static inline void eb_from(struct export_build *b, const struct fg_export *e, bool numpy,
                           bool bytes)
{
    const struct fg_qset *s = fg_export_set(e);
    const struct fg_export_facts *facts = fg_export_facts(e);
    const struct fg_export_embedding *em = fg_export_embedding(e);
    const char *key;
    char name[128], value[32];
    *b = (struct export_build){.bytes = bytes};
    fg_arena_init(&b->arena, 0);
    struct eb_file *small = eb_file(b, "small.safetensors");
    for (uint64_t i = 0; i < s->n_mats; i++) {
        const struct fg_qset_mat *mat = &s->mats[i];
        if (fg_qformat_is_kept(mat->m.format)) {
            snprintf(name, sizeof name, "model.%s.weight", mat->name);
            eb_add(b, small, name, FG_ST_BF16, (uint64_t)mat->m.rows, (uint64_t)mat->m.cols,
                   mat->m.weight);
            continue;
        }
        struct eb_file *f = eb_place(b, mat->name, &key);
        if (strncmp(key, "linear_attn.", 12) == 0) eb_meta(b, f, "kind", "linear_attention");
        if (strncmp(key, "self_attn.", 10) == 0) eb_meta(b, f, "kind", "full_attention");
        eb_add_mat(b, f, key, &mat->m);
    }
    for (uint64_t i = 0; i < s->n_small; i++) {
        const struct fg_qset_small *t = &s->small[i];
        snprintf(name, sizeof name, "model.%s", t->name);
        eb_add(b, small, name, t->dtype, t->bytes / fg_st_dtype_bytes(t->dtype), 0, t->data);
        struct fg_st_blob *blob = &small->blobs[small->n_blobs - 1];
        blob->rank = t->rank;
        memcpy(blob->shape, t->shape, sizeof blob->shape);
    }
    for (uint64_t i = 0; i < s->n_rots; i++) {
        const struct fg_qset_rot *r = &s->rots[i];
        snprintf(name, sizeof name, "layers.%" PRId64 ".%s.x", r->layer,
                 strncmp(r->site, "mlp", 3) == 0 ? "mlp" : "mix");
        struct eb_file *f = eb_place(b, name, &key);
        int site = 0;
        while (strcmp(fg_export_sites[site], r->site) != 0)
            site++;
        int64_t seed = facts->seed_base[site] + r->layer;
        const char *end = strchr(r->site, '_') + 1;
        snprintf(name, sizeof name, "rot.%s", r->site);
        uint8_t *bits = eb_add(b, f, name, FG_ST_U8, (uint64_t)(r->n + 7) / 8, 0, r->bits);
        if (!numpy) fg_signs_splitmix64(bits, (uint64_t)seed, r->n);
        eb_meta(b, f, "signs", numpy ? "numpy-pcg64" : "splitmix64");
        snprintf(name, sizeof name, "seed_%s", end);
        snprintf(value, sizeof value, "%" PRId64, seed);
        eb_meta(b, f, name, value);
        snprintf(name, sizeof name, "block_%s", end);
        snprintf(value, sizeof value, "%" PRId64, r->block);
        eb_meta(b, f, name, value);
        eb_meta(b, f, "basis", "online");
    }
    if (em->data)
        eb_add(b, eb_file(b, "embed_tokens.safetensors"), "embed_tokens.weight", em->dtype,
               (uint64_t)em->vocab, (uint64_t)em->hidden, em->data);
}

static inline void eb_free(struct export_build *b)
{
    fg_arena_free(&b->arena);
}

static inline int eb_write(const struct export_build *b, const char *dir, struct fg_error *err)
{
    int rc = fg_dir_make(dir, err);
    for (uint64_t i = 0; i < b->n_files && !rc; i++) {
        const struct eb_file *f = &b->files[i];
        const struct fg_st_options o = {.metadata = f->meta, .n_metadata = f->n_meta};
        char *path = fg_path_join(dir, f->name);
        if (!path) abort();
        remove(path);
        if (!f->left_out) rc = fg_st_file_write(path, f->blobs, f->n_blobs, &o, NULL, err);
        free(path);
    }
    return rc;
}
#endif
