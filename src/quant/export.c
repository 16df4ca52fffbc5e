// quant/export.c: opening an export: its files, export.json, and the finished set. Layer files are
// export_layer.c's and export_matrix.c's, what lies outside them export_small.c's.
#include "quant/export.h"
#include "base/file.h"
#include "base/num.h"
#include "base/size.h"
#include "quant/dequant.h"
#include "quant/export_impl.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON_BYTES_MAX (64ull << 20)
#define LAYERS_MAX 1024

const char *const fg_export_sites[FG_EXPORT_SITES] = {"mlp_in", "mlp_mid", "mix_in", "mix_out"};

const char *fg_signs_name(enum fg_signs s)
{
    static const char *const names[] = {"none", "splitmix64", "numpy-pcg64"};
    return names[s];
}

// ---- what the readers share

void *fg_export_alloc(struct fg_export_load *l, uint64_t count, uint64_t bytes)
{
    void *p = fg_arena_alloc(&l->e->arena, count, bytes);
    if (!p && !l->rc) l->rc = fg_fail_memory(l->err, FG_EXPORT_WHAT, count * bytes);
    return p;
}

char *fg_export_strdup(struct fg_export_load *l, const char *s)
{
    char *p = fg_arena_strdup(&l->e->arena, s, strlen(s));
    if (!p && !l->rc) l->rc = fg_fail_memory(l->err, FG_EXPORT_WHAT, strlen(s));
    return p;
}

bool fg_export_grow(struct fg_export_load *l, void **array, uint64_t n, uint64_t *cap,
                    uint64_t element_bytes)
{
    if (n < *cap) return true;
    uint64_t more = *cap ? *cap * 2 : 64;
    void *p = realloc(*array, more * element_bytes);
    if (!p) {
        l->rc = fg_fail_memory(l->err, FG_EXPORT_WHAT, more * element_bytes);
        return false;
    }
    *array = p;
    *cap = more;
    return true;
}

struct fg_checkpoint *fg_export_add_file(struct fg_export_load *l, const char *path)
{
    struct fg_export *e = l->e;
    struct fg_checkpoint *c = NULL;
    if (!fg_export_grow(l, (void **)&e->files, e->n_files, &e->cap_files, sizeof(void *)))
        return NULL;
    l->rc = fg_checkpoint_open(&c, path, l->err);
    if (l->rc) return NULL;
    e->files[e->n_files++] = c;
    return c;
}

const char *fg_export_meta(const struct fg_checkpoint *c, const char *key)
{
    for (uint64_t i = 0; i < fg_checkpoint_n_metadata(c); i++) {
        const char *k, *value;
        fg_checkpoint_metadata(c, i, &k, &value);
        if (strcmp(k, key) == 0) return value;
    }
    return NULL;
}

static int by_need(const void *name, const void *need)
{
    return strcmp(name, ((const struct fg_export_need *)need)->name);
}

const struct fg_export_need *fg_export_need_of(const struct fg_export_load *l, const char *name)
{
    if (l->o->n_needs == 0) return NULL;
    return bsearch(name, l->o->needs, (size_t)l->o->n_needs, sizeof *l->o->needs, by_need);
}

int fg_export_refuse(struct fg_export_load *l, const char *file, const char *field,
                     const char *expected, const char *found, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, found);
    vsnprintf(text, sizeof text, found, ap);
    va_end(ap);
    l->rc = fg_fail(l->err, FG_EINPUT, FG_EXPORT_WHAT, file, field, expected, "%s", text);
    return l->rc;
}

char *fg_export_shape_text(char *out, size_t cap, int rank, const uint64_t *shape)
{
    size_t at = (size_t)snprintf(out, cap, "[");
    for (int i = 0; i < rank && at < cap; i++)
        at += (size_t)snprintf(out + at, cap - at, "%s%" PRIu64, i ? ", " : "", shape[i]);
    if (at < cap) snprintf(out + at, cap - at, "]");
    return out;
}

// ---- layer files

// Number of the layer in "layer_NN.safetensors" or "layer_NN_mixer.safetensors", -1 for other
// names.
static int64_t layer_of(const char *name)
{
    char again[64];
    long long i = -1;
    if (sscanf(name, "layer_%4lld", &i) != 1 || i < 0 || i >= LAYERS_MAX) return -1;
    snprintf(again, sizeof again, "layer_%02lld.safetensors", i);
    if (strcmp(name, again) == 0) return i;
    snprintf(again, sizeof again, "layer_%02lld_mixer.safetensors", i);
    return strcmp(name, again) == 0 ? i : -1;
}

// Layers from the needs, else from the largest number among the files.
static int64_t count_layers(struct fg_export_load *l)
{
    int64_t n = 0;
    for (uint64_t i = 0; i < l->o->n_needs; i++) {
        long long layer;
        if (sscanf(l->o->needs[i].name, "layers.%lld.", &layer) == 1 && layer >= n) n = layer + 1;
    }
    DIR *d = opendir(l->e->facts.dir);
    if (!d) {
        l->rc = fg_fail_errno(l->err, l->e->facts.dir, "read", errno);
        return 0;
    }
    int64_t found = 0;
    for (struct dirent *entry; (entry = readdir(d));) {
        int64_t i = layer_of(entry->d_name);
        if (i >= found) found = i + 1;
    }
    closedir(d);
    if (l->o->n_needs && found > n) {
        char name[64];
        snprintf(name, sizeof name, "layer_%02" PRId64 ".safetensors", found - 1);
        char expected[64];
        snprintf(expected, sizeof expected, "%" PRId64 " layers, as the model has", n);
        fg_export_refuse(l, l->e->facts.dir, name, expected, "layer %" PRId64, found - 1);
    }
    return l->o->n_needs ? n : found;
}

static void read_part(struct fg_export_load *l, const char *name, enum fg_export_part part,
                      int64_t layer)
{
    char *path = fg_path_join(l->e->facts.dir, name);
    if (!path) {
        l->rc = fg_fail_memory(l->err, FG_EXPORT_WHAT, strlen(name));
        return;
    }
    const bool optional = l->o->allow_missing || l->o->fill;
    if (!optional || fg_path_taken(path)) fg_export_read_file(l, path, part, layer);
    free(path);
}

static void read_layers(struct fg_export_load *l)
{
    char name[64];
    int64_t n = count_layers(l);
    if (!l->rc && n < 1)
        fg_export_refuse(l, l->e->facts.dir, NULL, "layer_00.safetensors and so on", "no layers");
    l->e->facts.n_layers = n;
    for (int64_t i = 0; i < n && !l->rc; i++) {
        snprintf(name, sizeof name, "layer_%02" PRId64 ".safetensors", i);
        read_part(l, name, FG_PART_MLP, i);
        snprintf(name, sizeof name, "layer_%02" PRId64 "_mixer.safetensors", i);
        if (!l->rc) read_part(l, name, FG_PART_MIXER, i);
    }
    if (!l->rc) read_part(l, "lm_head.safetensors", FG_PART_HEAD, -1);
}

// ---- export.json

static void read_json(struct fg_export_load *l)
{
    struct fg_export *e = l->e;
    struct fg_export_facts *f = &e->facts;
    char *path = fg_path_join(f->dir, "export.json");
    if (!path) {
        l->rc = fg_fail_memory(l->err, FG_EXPORT_WHAT, strlen(f->dir));
        return;
    }
    if (fg_path_taken(path)) {
        struct json_object *plan = NULL;
        l->rc = fg_json_open(&e->json, path, JSON_BYTES_MAX, l->err);
        const struct fg_json *j = &e->json;
        if (!l->rc) l->rc = fg_json_str(j, j->root, "", "digest", NULL, &f->digest, NULL, l->err);
        if (!l->rc)
            l->rc = fg_json_str(j, j->root, "", "head_digest", NULL, &f->head_digest, NULL, l->err);
        if (!l->rc && json_object_object_get_ex(j->root, "plan", &plan)) {
            f->plan = json_object_is_type(plan, json_type_string)
                          ? json_object_get_string(plan)
                          : json_object_to_json_string_ext(
                                plan, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
        }
        if (!l->rc)
            f->json = json_object_to_json_string_ext(j->root, JSON_C_TO_STRING_PLAIN |
                                                                  JSON_C_TO_STRING_NOSLASHESCAPE);
    }
    free(path);
}

// ---- the finished set

static int by_mat_name(const void *a, const void *b)
{
    return strcmp(((const struct fg_qset_mat *)a)->name, ((const struct fg_qset_mat *)b)->name);
}

static int by_small_name(const void *a, const void *b)
{
    return strcmp(((const struct fg_qset_small *)a)->name, ((const struct fg_qset_small *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const struct fg_qset_rot *x = a, *y = b;
    if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
    return strcmp(x->site, y->site);
}

// Sorts; then every need is there, each name once.
static void finish(struct fg_export_load *l)
{
    struct fg_export *e = l->e;
    if (e->n_mats) qsort(e->mats, (size_t)e->n_mats, sizeof *e->mats, by_mat_name);
    if (e->n_small) qsort(e->small, (size_t)e->n_small, sizeof *e->small, by_small_name);
    if (e->n_rots) qsort(e->rots, (size_t)e->n_rots, sizeof *e->rots, by_place);
    e->set = (struct fg_qset){.mats = e->mats,
                              .small = e->small,
                              .rots = e->rots,
                              .n_mats = e->n_mats,
                              .n_small = e->n_small,
                              .n_rots = e->n_rots};
    for (uint64_t i = 1; i < e->n_mats && !l->rc; i++) {
        if (strcmp(e->mats[i].name, e->mats[i - 1].name) == 0)
            fg_export_refuse(l, e->mats[i].file, e->mats[i].name, "each matrix once", "twice");
    }
    for (uint64_t i = 0; i < l->o->n_needs && !l->rc && !l->o->allow_missing; i++) {
        const struct fg_export_need *need = &l->o->needs[i];
        bool has = need->is_mat ? fg_qset_find_mat(&e->set, need->name) != NULL
                                : fg_qset_find_small(&e->set, need->name) != NULL;
        if (has) continue;
        fg_export_refuse(l, e->facts.dir, need->name, "a tensor of the model", "no such tensor");
        if (!l->o->model_dir) fg_error_hint(l->err, "give the checkpoint with --model");
    }
}

static void fill_facts(struct fg_export_load *l)
{
    struct fg_export *e = l->e;
    const char *dir = e->facts.dir, *end = dir + strlen(dir);
    while (end > dir + 1 && end[-1] == '/')
        end--;
    const char *start = end;
    while (start > dir && start[-1] != '/')
        start--;
    char *name = fg_arena_strdup(&e->arena, start, (size_t)(end - start));
    if (!name) l->rc = fg_fail_memory(l->err, FG_EXPORT_WHAT, strlen(dir));
    e->facts.name = name;
    e->facts.original = !l->own;
}

int fg_export_open(struct fg_export **out, const char *dir, const struct fg_export_options *o,
                   struct fg_error *err)
{
    static const struct fg_export_options none;
    struct fg_export_load load = {.o = o ? o : &none, .err = err}, *l = &load;
    *out = NULL;
    l->e = calloc(1, sizeof *l->e);
    if (!l->e) return fg_fail_memory(err, FG_EXPORT_WHAT, sizeof *l->e);
    l->e->facts.seeds_regular = true;
    for (int i = 0; i < FG_EXPORT_SITES; i++)
        l->e->facts.seed_base[i] = -1;
    l->e->facts.dir = fg_export_strdup(l, dir);
    if (!l->rc) read_layers(l);
    if (!l->rc) fill_facts(l);
    if (!l->rc) read_json(l);
    if (!l->rc) fg_export_read_small(l);
    if (!l->rc) finish(l);
    if (l->rc) {
        fg_export_close(l->e);
        return l->rc;
    }
    *out = l->e;
    return 0;
}

void fg_export_close(struct fg_export *e)
{
    if (!e) return;
    for (uint64_t i = 0; i < e->n_files; i++)
        fg_checkpoint_close(e->files[i]);
    free(e->files);
    free(e->mats);
    free(e->small);
    free(e->rots);
    fg_npy_close(&e->embed_npy);
    fg_embedding_int8_close(&e->embed_int8);
    fg_json_close(&e->json);
    fg_arena_free(&e->arena);
    free(e);
}

bool fg_export_is(const char *dir)
{
    static const char *const names[] = {"layer_00.safetensors", "export.json"};
    bool is = false;
    for (size_t i = 0; i < FG_COUNT(names) && !is; i++) {
        char *path = fg_path_join(dir, names[i]);
        is = path && fg_file_exists(path);
        free(path);
    }
    return is;
}

const struct fg_qset *fg_export_set(const struct fg_export *e)
{
    return &e->set;
}

int fg_export_check_codes(const struct fg_qset_mat *mat, struct fg_error *err)
{
    return fg_qmat_check(&mat->m, mat->name, mat->file, true, err);
}

const struct fg_export_embedding *fg_export_embedding(const struct fg_export *e)
{
    return &e->embedding;
}

const struct fg_export_facts *fg_export_facts(const struct fg_export *e)
{
    return &e->facts;
}
