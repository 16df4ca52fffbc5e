// Opening a build: manifest, config, packages, embedding, in that order. Everything stays mapped
// until fg_build_close.
#include "format/build.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "format/build_impl.h"
#include "format/npy.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define WHAT "build"
#define MODEL_DIR "../model"

struct fg_build {
    struct fg_arena arena;
    char *dir, *model_dir, *manifest_path;
    struct fg_manifest manifest;
    struct fg_package **packages;
    uint64_t n_packages;
    struct fg_npy npy;
    struct fg_embedding_int8 int8;
    struct fg_build_embedding embedding;
    struct fg_qset set;
};

// ---- files beside the manifest

// The path of `relative` seen from the build's directory, malloc'd, and the file's size. No part of
// it may be a symbolic link.
static int find_file(const struct fg_build *b, const char *relative, char **path, uint64_t *bytes,
                     struct fg_error *err)
{
    struct stat st;
    *path = fg_path_join(b->dir, relative);
    if (!*path) return fg_fail_memory(err, WHAT, strlen(relative));
    for (char *at = *path + strlen(*path) - strlen(relative);;) {
        size_t n = strcspn(at, "/");
        char kept = at[n];
        at[n] = '\0';
        if (lstat(*path, &st) != 0) return fg_fail_errno(err, *path, "open", errno);
        if (S_ISLNK(st.st_mode)) {
            return fg_fail(err, FG_EINPUT, WHAT, *path, NULL, "no symbolic link", "one");
        }
        at[n] = kept;
        if (!kept) break;
        at += n + 1;
    }
    if (!S_ISREG(st.st_mode)) {
        return fg_fail(err, FG_EINPUT, WHAT, *path, NULL, "a regular file", "something else");
    }
    *bytes = (uint64_t)st.st_size;
    return 0;
}

static int check_sha256(const char *path, const char *field, const char *want, struct fg_error *err)
{
    char hex[FG_SHA256_HEX];
    int rc = fg_sha256_file(path, hex, err);
    if (rc || strcmp(hex, want) == 0) return rc;
    return fg_fail(err, FG_EINTEGRITY, WHAT, path, field, want, "%s", hex);
}

static int find_manifest(struct fg_build *b, const char *dir, struct fg_error *err)
{
    b->dir = strdup(dir);
    for (int i = 0; i < 2; i++) {
        if (i) {
            free(b->dir);
            b->dir = fg_path_join(dir, "forge");
        }
        free(b->manifest_path);
        b->manifest_path = b->dir ? fg_path_join(b->dir, "manifest.json") : NULL;
        if (!b->manifest_path) return fg_fail_memory(err, WHAT, strlen(dir));
        if (fg_path_taken(b->manifest_path)) {
            b->model_dir = fg_path_join(b->dir, MODEL_DIR);
            return b->model_dir ? 0 : fg_fail_memory(err, WHAT, strlen(dir));
        }
    }
    return fg_fail(err, FG_EINPUT, WHAT, dir, NULL, "manifest.json or forge/manifest.json",
                   fg_dir_exists(dir) ? "neither" : "no such directory");
}

bool fg_build_is(const char *dir)
{
    static const char *const names[] = {"manifest.json", "forge/manifest.json"};
    bool is = false;
    for (size_t i = 0; i < FG_COUNT(names) && !is; i++) {
        char *path = fg_path_join(dir, names[i]);
        is = path && fg_path_taken(path);
        free(path);
    }
    return is;
}

static int check_config(const struct fg_build *b, struct fg_error *err)
{
    char *path;
    uint64_t bytes;
    int rc = find_file(b, MODEL_DIR "/config.json", &path, &bytes, err);
    if (!rc) {
        rc = check_sha256(path, "/model/config_sha256", b->manifest.model.config_sha256, err);
    }
    if (!rc) rc = fg_build_check_config(path, &b->manifest, b->manifest_path, err);
    free(path);
    return rc;
}

// ---- packages

static struct fg_package_expect expectation(const struct fg_manifest *m)
{
    const struct fg_manifest_model *model = &m->model;
    const struct fg_manifest_gdn *g = &model->gdn;
    struct fg_package_expect e = {
        .dims = {.hidden = model->hidden,
                 .intermediate = model->intermediate,
                 .vocab = model->vocab,
                 .kv_rows = model->n_kv_heads * model->head_dim,
                 .attn_out = model->n_heads * model->head_dim,
                 .head_dim = model->head_dim},
        .is_linear = model->is_linear,
        .n_layers = model->layers,
    };
    if (model->has_gdn) {
        e.dims.value_dim = g->v_heads * g->dv;
        e.dims.conv_channels = 2 * g->k_heads * g->dk + e.dims.value_dim;
        e.dims.conv_kernel = g->conv;
        e.dims.v_heads = g->v_heads;
        e.dims.v_head_dim = g->dv;
    }
    return e;
}

// What the manifest says of one package.
struct want {
    const char *pointer; // "/head", "/chunks/3"
    const char *file;
    uint64_t bytes;
    const char *sha256;
    enum fg_package_kind kind;
    int64_t first, last;
};

static int check_identity(const struct fg_build *b, const struct want *w,
                          const struct fg_package_info *info, struct fg_error *err)
{
    const struct fg_manifest *m = &b->manifest;
    char expected[64];
    if (info->kind != w->kind) {
        return fg_fail(err, FG_EINPUT, WHAT, info->path, "forge.kind",
                       fg_package_kind_name(w->kind), "%s", fg_package_kind_name(info->kind));
    }
    if (info->layer_first != w->first || info->layer_last != w->last) {
        snprintf(expected, sizeof expected, "%" PRId64 "-%" PRId64, w->first, w->last);
        return fg_fail(err, FG_EINPUT, WHAT, info->path, "forge.layers", expected,
                       "%" PRId64 "-%" PRId64, info->layer_first, info->layer_last);
    }
    if (strcmp(info->weights_digest, m->weights_digest) != 0) {
        return fg_fail(err, FG_EINTEGRITY, WHAT, info->path, "forge.weights_digest",
                       m->weights_digest, "%s", info->weights_digest);
    }
    if (strcmp(info->export_digest, m->export_digest) != 0) {
        return fg_fail(err, FG_EINTEGRITY, WHAT, info->path, "forge.export", m->export_digest, "%s",
                       info->export_digest);
    }
    if (w->kind == FG_PACKAGE_HEAD && info->id && strcmp(info->id, m->head.id) != 0) {
        return fg_fail(err, FG_EINTEGRITY, WHAT, info->path, "head.id", m->head.id, "%s", info->id);
    }
    return 0;
}

// Sites are rotated as the manifest says: in the largest block that divides the width.
static int check_rotations(const struct fg_build *b, const struct fg_package *p,
                           struct fg_error *err)
{
    const struct fg_manifest_rotation *r = &b->manifest.rotation;
    const struct fg_qset *set = fg_package_set(p);
    for (uint64_t i = 0; i < set->n_rots; i++) {
        const struct fg_qset_rot *rot = &set->rots[i];
        int64_t block = rot->n & -rot->n;
        if (block > r->block) block = r->block;
        if (r->given && rot->block == block) continue;
        char expected[96], field[64];
        snprintf(field, sizeof field, "layers.%" PRId64 ".rot.%s", rot->layer, rot->site);
        snprintf(expected, sizeof expected,
                 r->given ? "block %" PRId64 " by /rotation/block"
                          : "none, as /rotation is null (%" PRId64 ")",
                 block);
        return fg_fail(err, FG_EINPUT, WHAT, fg_package_info(p)->path, field, expected,
                       "block %" PRId64, rot->block);
    }
    return 0;
}

static int open_package(struct fg_build *b, const struct want *w, bool verify, struct fg_error *err)
{
    char *path, field[64], expected[32];
    uint64_t bytes;
    struct fg_package_expect expect = expectation(&b->manifest);
    int rc = find_file(b, w->file, &path, &bytes, err);
    if (!rc && bytes != w->bytes) {
        snprintf(field, sizeof field, "%s/bytes", w->pointer);
        snprintf(expected, sizeof expected, "%" PRIu64, w->bytes);
        rc = fg_fail(err, FG_EINTEGRITY, WHAT, path, field, expected, "%" PRIu64, bytes);
    }
    if (!rc && verify) {
        snprintf(field, sizeof field, "%s/sha256", w->pointer);
        rc = check_sha256(path, field, w->sha256, err);
    }
    struct fg_package **p = &b->packages[b->n_packages];
    if (!rc) rc = fg_package_open_expecting(p, path, &expect, err);
    free(path);
    if (rc) return rc;
    b->n_packages++;
    rc = check_identity(b, w, fg_package_info(*p), err);
    if (!rc) rc = check_rotations(b, *p, err);
    return rc || !verify ? rc : fg_package_verify(*p, err);
}

static int open_packages(struct fg_build *b, bool verify, struct fg_error *err)
{
    const struct fg_manifest *m = &b->manifest;
    b->packages = calloc((size_t)m->n_chunks + 1, sizeof(struct fg_package *));
    if (!b->packages) return fg_fail_memory(err, WHAT, (uint64_t)m->n_chunks);
    for (int64_t i = 0; i < m->n_chunks; i++) {
        const struct fg_manifest_chunk *k = &m->chunks[i];
        char pointer[32];
        snprintf(pointer, sizeof pointer, "/chunks/%" PRId64, i);
        struct want w = {pointer,          k->file,  k->bytes, k->sha256,
                         FG_PACKAGE_CHUNK, k->first, k->last};
        int rc = open_package(b, &w, verify, err);
        if (rc) return rc;
    }
    struct want w = {"/head", m->head.file, m->head.bytes, m->head.sha256, FG_PACKAGE_HEAD, -1, -1};
    return open_package(b, &w, verify, err);
}

// ---- one set of all

static int by_mat(const void *a, const void *b)
{
    return strcmp(((const struct fg_qset_mat *)a)->name, ((const struct fg_qset_mat *)b)->name);
}

static int by_small(const void *a, const void *b)
{
    return strcmp(((const struct fg_qset_small *)a)->name, ((const struct fg_qset_small *)b)->name);
}

// Layers ascend from package to package, so rotations are in order as they come.
static int merge(struct fg_build *b, struct fg_error *err)
{
    uint64_t n_mats = 0, n_small = 0, n_rots = 0;
    for (uint64_t i = 0; i < b->n_packages; i++) {
        const struct fg_qset *s = fg_package_set(b->packages[i]);
        n_mats += s->n_mats;
        n_small += s->n_small;
        n_rots += s->n_rots;
    }
    struct fg_qset_mat *mats = fg_arena_alloc(&b->arena, n_mats, sizeof *mats);
    struct fg_qset_small *small = fg_arena_alloc(&b->arena, n_small, sizeof *small);
    struct fg_qset_rot *rots = fg_arena_alloc(&b->arena, n_rots, sizeof *rots);
    if (!mats || !small || !rots) return fg_fail_memory(err, WHAT, n_mats * sizeof *mats);
    b->set = (struct fg_qset){.mats = mats, .small = small, .rots = rots};
    for (uint64_t i = 0; i < b->n_packages; i++) {
        const struct fg_qset *s = fg_package_set(b->packages[i]);
        for (uint64_t k = 0; k < s->n_mats; k++) {
            mats[b->set.n_mats++] = s->mats[k];
        }
        for (uint64_t k = 0; k < s->n_small; k++) {
            small[b->set.n_small++] = s->small[k];
        }
        for (uint64_t k = 0; k < s->n_rots; k++) {
            rots[b->set.n_rots++] = s->rots[k];
        }
    }
    qsort(mats, n_mats, sizeof *mats, by_mat);
    qsort(small, n_small, sizeof *small, by_small);
    return 0;
}

// ---- embedding

static int open_int8(struct fg_build *b, const char *path, bool verify, struct fg_error *err)
{
    const struct fg_manifest_model *m = &b->manifest.model;
    char expected[64];
    int rc = fg_embedding_int8_open(&b->int8, path, verify, err);
    if (rc) return rc;
    if (b->int8.vocab != m->vocab || b->int8.hidden != m->hidden) {
        snprintf(expected, sizeof expected, "[%" PRId64 ", %" PRId64 "]", m->vocab, m->hidden);
        return fg_fail(err, FG_EINPUT, WHAT, b->int8.path, "shape of " FG_EMBEDDING_CODES, expected,
                       "[%" PRId64 ", %" PRId64 "]", b->int8.vocab, b->int8.hidden);
    }
    b->embedding.data = b->int8.codes;
    b->embedding.scale = b->int8.scale;
    b->embedding.path = b->int8.path;
    return 0;
}

static int open_embedding(struct fg_build *b, bool verify, struct fg_error *err)
{
    const struct fg_manifest *m = &b->manifest;
    char *path, expected[64];
    uint64_t bytes;
    b->embedding = (struct fg_build_embedding){
        .kind = m->embedding.kind, .vocab = m->model.vocab, .hidden = m->model.hidden};
    if (m->embedding.kind == FG_EMBEDDING_HEAD) {
        b->embedding.path = fg_package_info(b->packages[b->n_packages - 1])->path;
        return 0;
    }
    int rc = find_file(b, m->embedding.file, &path, &bytes, err);
    if (!rc && verify) rc = check_sha256(path, "/embedding/sha256", m->embedding.sha256, err);
    if (!rc && m->embedding.kind == FG_EMBEDDING_INT8) {
        rc = open_int8(b, path, verify, err);
        free(path);
        return rc;
    }
    if (!rc) rc = fg_npy_open(&b->npy, path, err);
    free(path);
    if (rc) return rc;
    path = b->npy.map.path;
    if (b->npy.dtype != FG_NPY_F16) {
        return fg_fail(err, FG_EINPUT, WHAT, path, "descr", "<f2", "%s",
                       fg_npy_dtype_name(b->npy.dtype));
    }
    if (b->npy.rank != 2 || b->npy.shape[0] != (uint64_t)m->model.vocab ||
        b->npy.shape[1] != (uint64_t)m->model.hidden) {
        snprintf(expected, sizeof expected, "(%" PRId64 ", %" PRId64 ")", m->model.vocab,
                 m->model.hidden);
        return fg_fail(err, FG_EINPUT, WHAT, path, "shape", expected,
                       "rank %d, (%" PRIu64 ", %" PRIu64 ")", b->npy.rank, b->npy.shape[0],
                       b->npy.shape[1]);
    }
    if ((uintptr_t)b->npy.data % sizeof(uint16_t)) {
        return fg_fail(err, FG_EINPUT, WHAT, path, "header length", "an even number", "an odd one");
    }
    b->embedding.data = b->npy.data;
    b->embedding.path = path;
    return 0;
}

// ---- open

static int load(struct fg_build *b, const char *dir, bool verify, struct fg_error *err)
{
    int rc = find_manifest(b, dir, err);
    if (!rc) rc = fg_manifest_open(&b->manifest, b->manifest_path, err);
    if (!rc) rc = check_config(b, err);
    if (!rc) rc = open_packages(b, verify, err);
    if (!rc) rc = merge(b, err);
    return rc ? rc : open_embedding(b, verify, err);
}

int fg_build_open(struct fg_build **out, const char *dir, bool verify, struct fg_error *err)
{
    *out = NULL;
    struct fg_build *b = calloc(1, sizeof *b);
    if (!b) return fg_fail_memory(err, WHAT, sizeof *b);
    fg_arena_init(&b->arena, 0);
    int rc = load(b, dir, verify, err);
    if (rc) {
        fg_build_close(b);
        return rc;
    }
    *out = b;
    return 0;
}

void fg_build_close(struct fg_build *b)
{
    if (!b) return;
    for (uint64_t i = 0; i < b->n_packages; i++) {
        fg_package_close(b->packages[i]);
    }
    free(b->packages);
    fg_npy_close(&b->npy);
    fg_embedding_int8_close(&b->int8);
    fg_manifest_close(&b->manifest);
    fg_arena_free(&b->arena);
    free(b->dir);
    free(b->model_dir);
    free(b->manifest_path);
    free(b);
}

const struct fg_manifest *fg_build_manifest(const struct fg_build *b)
{
    return &b->manifest;
}

const char *fg_build_dir(const struct fg_build *b)
{
    return b->dir;
}

const char *fg_build_model_dir(const struct fg_build *b)
{
    return b->model_dir;
}

uint64_t fg_build_n_packages(const struct fg_build *b)
{
    return b->n_packages;
}

const struct fg_package *fg_build_package(const struct fg_build *b, uint64_t i)
{
    return b->packages[i];
}

const struct fg_build_embedding *fg_build_embedding(const struct fg_build *b)
{
    return &b->embedding;
}

const struct fg_qset *fg_build_set(const struct fg_build *b)
{
    return &b->set;
}
