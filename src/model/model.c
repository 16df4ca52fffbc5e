// model/model.c: opening a model from a checkpoint, a GGUF file, an export or a build.
#include "model/model.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "format/gguf.h"
#include "format/qmat.h"
#include "format/safetensors.h"
#include "base/progress.h"
#include "model/import.h"
#include <stdlib.h>
#include <string.h>

#define CONFIG_BYTES_MAX (16u << 20)
#define DIGEST_EDGE_BYTES 4096u

static bool dtype_of(enum fg_st_dtype t, enum fg_dtype *out)
{
    switch (t) {
    case FG_ST_F32: *out = FG_F32; return true;
    case FG_ST_F16: *out = FG_F16; return true;
    case FG_ST_BF16: *out = FG_BF16; return true;
    default: return false;
    }
}

static void of_safetensors(const struct fg_st_tensor *t, struct fg_tensor *out)
{
    *out = (struct fg_tensor){.name = t->name,
                              .dtype_name = fg_st_dtype_name(t->dtype),
                              .rank = t->rank,
                              .data = t->data,
                              .bytes = t->bytes,
                              .file = t->file};
    out->usable = dtype_of(t->dtype, &out->dtype);
    _Static_assert(sizeof out->shape == sizeof t->shape, "same rank limit");
    memcpy(out->shape, t->shape, sizeof out->shape);
}

static bool find_safetensors(const void *ctx, const char *name, struct fg_tensor *out)
{
    const struct fg_st_tensor *t = fg_checkpoint_find(ctx, name);
    if (t) of_safetensors(t, out);
    return t != NULL;
}

static void at_safetensors(const void *ctx, uint64_t i, struct fg_tensor *out)
{
    of_safetensors(fg_checkpoint_at(ctx, i), out);
}

// A GGUF's tensors in HF's names and order; `data` holds those that had to be made (quantized,
// permuted, undone).
struct gguf_source {
    const struct fg_import *import;
    const void **data; // [count]
};

static void of_gguf(const struct gguf_source *g, uint64_t i, struct fg_tensor *out)
{
    const struct fg_import_tensor *t = fg_import_at(g->import, i);
    *out = (struct fg_tensor){.name = t->name,
                              .dtype_name = fg_gguf_type_name(t->source_type),
                              .usable = true,
                              .dtype = t->dtype,
                              .rank = t->rank,
                              .data = g->data[i],
                              .bytes = t->rows * t->cols * fg_dtype_bytes(t->dtype),
                              .file = fg_gguf_path(fg_import_gguf(g->import))};
    memcpy(out->shape, t->shape, sizeof t->shape);
}

static bool find_gguf(const void *ctx, const char *name, struct fg_tensor *out)
{
    const struct gguf_source *g = ctx;
    for (uint64_t i = 0; i < fg_import_count(g->import); i++) {
        if (strcmp(fg_import_at(g->import, i)->name, name) != 0) continue;
        of_gguf(g, i, out);
        return true;
    }
    return false;
}

static void at_gguf(const void *ctx, uint64_t i, struct fg_tensor *out)
{
    of_gguf(ctx, i, out);
}

static void make_digest(struct fg_model *m, const struct fg_tensor_source *src)
{
    struct fg_sha256 *h = fg_sha256_new();
    if (!h) return; // an empty digest equals only itself
    const struct fg_config *c = &m->config;
    const int64_t extents[] = {c->family,      c->vocab,     c->hidden,     c->intermediate,
                               c->n_layers,    c->n_heads,   c->n_kv_heads, c->head_dim,
                               c->conv_kernel, c->n_k_heads, c->n_v_heads,  c->k_head_dim,
                               c->v_head_dim,  c->rot};
    fg_sha256_add(h, extents, sizeof extents);
    fg_sha256_add(h, c->inv_freq, (uint64_t)c->rot / 2 * sizeof *c->inv_freq);
    fg_sha256_add(h, c->is_linear, (uint64_t)c->n_layers * sizeof *c->is_linear);
    for (uint64_t i = 0; i < src->count; i++) {
        struct fg_tensor t;
        src->at(src->ctx, i, &t);
        uint64_t edge = t.bytes < DIGEST_EDGE_BYTES ? t.bytes : DIGEST_EDGE_BYTES;
        fg_sha256_add(h, t.name, strlen(t.name) + 1);
        fg_sha256_add(h, t.dtype_name, strlen(t.dtype_name) + 1);
        fg_sha256_add(h, t.shape, sizeof t.shape);
        fg_sha256_add(h, t.data, edge);
        fg_sha256_add(h, (const uint8_t *)t.data + (t.bytes - edge), edge);
    }
    fg_sha256_end(h, m->digest);
}

// As stored: a quantized matrix's tiles, row scales and factors.
static uint64_t mat_bytes(const struct fg_mat *w)
{
    uint64_t rows = (uint64_t)w->n_out, cols = (uint64_t)w->n_in;
    if (w->row_scale) return rows * (cols + 2);
    if (!w->lut) return rows * cols * fg_dtype_bytes(w->dtype);
    enum fg_layout l = w->lut->layout;
    uint64_t tiles = (uint64_t)(fg_layout_groups(l, w->n_out) * fg_layout_group_bytes(l, w->n_in));
    uint64_t rank = (uint64_t)w->lut->rank, factors = 0;
    fg_lr_bytes(w->lut->lr_scale ? FG_LR_I8 : FG_LR_F16, rows, cols, rank, &factors);
    return tiles + rows * sizeof(float) + factors;
}

static int64_t rank_of(const struct fg_mat *w)
{
    return w->lut ? w->lut->rank : 0;
}

static void count_bytes(struct fg_model *m)
{
    const struct fg_weights *w = &m->weights;
    m->token_bytes = mat_bytes(&w->head);
    m->quantized = m->packaged != NULL;
    m->rank_sum_max = rank_of(&w->head);
    for (int64_t i = 0; i < m->config.n_layers; i++) {
        const struct fg_layer *l = &w->layers[i];
        const struct fg_mat *mats[] = {&l->q, &l->k, &l->v,   &l->o,    &l->qkv, &l->z,
                                       &l->b, &l->a, &l->out, &l->gate, &l->up,  &l->down};
        int64_t ranks[] = {rank_of(&l->q) + rank_of(&l->k) + rank_of(&l->v),
                           rank_of(&l->qkv) + rank_of(&l->z) + rank_of(&l->b) + rank_of(&l->a),
                           rank_of(&l->gate) + rank_of(&l->up),
                           rank_of(&l->o),
                           rank_of(&l->out),
                           rank_of(&l->down)};
        for (size_t j = 0; j < sizeof mats / sizeof mats[0]; j++)
            m->token_bytes += mat_bytes(mats[j]); // absent ones are 0 x 0
        for (size_t j = 0; j < sizeof ranks / sizeof ranks[0]; j++)
            if (ranks[j] > m->rank_sum_max) m->rank_sum_max = ranks[j];
    }
    bool shared =
        w->head.lut ? w->head.lut == w->embed.lut : w->head.data && w->head.data == w->embed.data;
    m->weight_bytes = m->token_bytes + (shared ? 0 : mat_bytes(&w->embed));
}

static int open_checkpoint(struct fg_model *m, const struct fg_log *log, struct fg_json *config,
                           struct fg_tensor_source *src, struct fg_error *err)
{
    char *config_path = fg_path_join(m->path, "config.json");
    if (!config_path) return fg_fail_memory(err, "model", strlen(m->path));
    int rc = fg_json_open(config, config_path, CONFIG_BYTES_MAX, err);
    free(config_path);
    if (rc) return rc;
    rc = fg_config_parse(&m->config, config, &m->arena, err);
    if (rc) return rc;
    rc = fg_checkpoint_open(&m->checkpoint, m->path, err);
    if (rc) return rc;
    for (uint64_t i = 0; i < fg_checkpoint_n_warnings(m->checkpoint); i++)
        fg_log_warn(log, "%s", fg_checkpoint_warning(m->checkpoint, i));
    *src = (struct fg_tensor_source){.ctx = m->checkpoint,
                                     .count = fg_checkpoint_count(m->checkpoint),
                                     .find = find_safetensors,
                                     .at = at_safetensors,
                                     .path = m->path};
    return 0;
}

// Quantized tensors become FP32 in memory, which is for looking at a file; import it first to run
// it lean.
static int expand_gguf(struct fg_model *m, struct gguf_source *g, const struct fg_log *log,
                       struct fg_error *err)
{
    uint64_t count = fg_import_count(g->import), expanded = 0;
    g->data = fg_arena_alloc(&m->arena, count, sizeof *g->data);
    if (!g->data) return fg_fail_memory(err, "model", count * sizeof *g->data);
    for (uint64_t i = 0; i < count; i++) {
        const struct fg_import_tensor *t = fg_import_at(g->import, i);
        g->data[i] = t->data;
        if (t->data) continue;
        uint64_t bytes = t->rows * t->cols * fg_dtype_bytes(t->dtype);
        void *made = fg_arena_alloc(&m->arena, bytes, 1);
        if (!made) return fg_fail_memory(err, t->name, bytes);
        int rc = fg_import_read(g->import, t, 0, t->rows, t->dtype, made, err);
        if (rc) return rc;
        g->data[i] = made;
        expanded += bytes;
    }
    char text[32];
    if (expanded > 0)
        fg_log_info(log, "%s: %s of tensors were expanded in memory; `forge import` avoids that",
                    m->path, fg_format_bytes(text, sizeof text, expanded));
    return 0;
}

static int open_gguf(struct fg_model *m, const struct fg_log *log, struct fg_json *config,
                     struct fg_tensor_source *src, struct fg_error *err)
{
    struct fg_buf text = {0};
    int rc = fg_import_open(&m->import, m->path, err);
    if (rc) return rc;
    for (uint64_t i = 0; i < fg_import_n_warnings(m->import); i++)
        fg_log_warn(log, "%s", fg_import_warning(m->import, i));
    rc = fg_import_config(m->import, NULL, &text, err);
    if (rc == 0) rc = fg_json_parse(config, text.data, text.len, m->path, err);
    if (rc == 0) rc = fg_config_parse(&m->config, config, &m->arena, err);
    fg_buf_free(&text);
    if (rc) return rc;
    struct gguf_source *g = fg_arena_alloc(&m->arena, 1, sizeof *g);
    if (!g) return fg_fail_memory(err, "model", sizeof *g);
    g->import = m->import;
    rc = expand_gguf(m, g, log, err);
    *src = (struct fg_tensor_source){.ctx = g,
                                     .count = fg_import_count(m->import),
                                     .find = find_gguf,
                                     .at = at_gguf,
                                     .path = m->path};
    return rc;
}

// A regular file must be a GGUF; everything else is treated as a directory, whose reader explains
// what is missing.
static int is_gguf(const char *path, bool *out, struct fg_error *err)
{
    struct fg_map map;
    *out = false;
    if (!fg_file_exists(path)) return 0;
    int rc = fg_map_open(&map, path, err);
    if (rc) return rc;
    *out = fg_map_holds(&map, 0, 4) && memcmp(map.data, "GGUF", 4) == 0;
    fg_map_close(&map);
    if (!*out)
        rc = fg_fail(err, FG_EINPUT, "model", path, NULL, "a checkpoint directory or a GGUF file",
                     "another file");
    return rc;
}

// Opens what stands at m->path; *src then gives its tensors.
static int open_files(struct fg_model *m, const struct fg_model_options *o, struct fg_json *config,
                      struct fg_tensor_source *src, struct fg_error *err)
{
    bool gguf = false;
    if (fg_packaged_is(m->path)) {
        int rc = fg_packaged_open(&m->packaged, &m->config, m->path, o->model_dir, o->fill,
                                  o->tiles, o->pool, o->log, &m->arena, err);
        if (rc) return rc;
        *src = *fg_packaged_source(m->packaged);
        m->text_dir = fg_packaged_text_dir(m->packaged);
        return 0;
    }
    int rc = is_gguf(m->path, &gguf, err);
    if (rc) return rc;
    if (gguf) return open_gguf(m, o->log, config, src, err);
    m->text_dir = m->path;
    return open_checkpoint(m, o->log, config, src, err);
}

int fg_model_open_with(struct fg_model **out, const char *path, const struct fg_model_options *o,
                       struct fg_error *err)
{
    struct fg_json config = {0};
    struct fg_tensor_source src;
    *out = NULL;
    struct fg_model *m = calloc(1, sizeof *m);
    if (!m) return fg_fail_memory(err, "model", sizeof *m);
    fg_arena_init(&m->arena, 0);
    m->path = strdup(path);
    int rc =
        m->path ? open_files(m, o, &config, &src, err) : fg_fail_memory(err, "model", strlen(path));
    if (rc == 0)
        rc = fg_weights_bind(&m->weights, &m->config, &src, o->strict, o->log, &m->arena, &m->rest,
                             err);
    fg_json_close(&config);
    if (rc) {
        fg_model_close(m);
        return rc;
    }
    make_digest(m, &src);
    count_bytes(m);
    *out = m;
    return 0;
}

int fg_model_open(struct fg_model **out, const char *path, bool strict, const struct fg_log *log,
                  struct fg_error *err)
{
    const struct fg_model_options o = {.strict = strict, .log = log};
    return fg_model_open_with(out, path, &o, err);
}

void fg_model_close(struct fg_model *m)
{
    if (!m) return;
    fg_packaged_close(m->packaged);
    fg_checkpoint_close(m->checkpoint);
    fg_import_close(m->import);
    fg_arena_free(&m->arena);
    free(m->path);
    free(m);
}
