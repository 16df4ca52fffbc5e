// runtime/compile_package.c: one package to its tile file: quantized matrices in the order of the
// package's set, group after group, while another thread hashes what is read.
#include "base/arena.h"
#include "base/progress.h"
#include "base/size.h"
#include "quant/tiles.h"
#include "runtime/compile_impl.h"
#include <stdlib.h>
#include <string.h>

#define STEP_BYTES (4u << 20) // of tiles that are made and written at a time
#define HASH_BYTES (4u << 20) // hashed between looks at `stop`

// ---- hashing

void fg_compile_package_bytes(const struct fg_package *p, const uint8_t **data, uint64_t *bytes)
{
    // Tensors tile the data up to the end of the file, so the last one shows where the map ends.
    const struct fg_st_file *f = fg_package_file(p);
    const struct fg_st_tensor *last = fg_st_file_at(f, fg_st_file_count(f) - 1);
    *bytes = fg_st_file_bytes(f);
    *data = (const uint8_t *)last->data + last->bytes - *bytes;
}

static void *hash(void *ctx)
{
    struct fg_hasher *h = ctx;
    struct fg_sha256 *sha = fg_sha256_new();
    for (uint64_t at = 0; sha && at < h->bytes && !atomic_load(&h->stop); at += HASH_BYTES)
        fg_sha256_add(sha, h->data + at, h->bytes - at < HASH_BYTES ? h->bytes - at : HASH_BYTES);
    if (sha) fg_sha256_end(sha, h->sha256);
    if (sha && h->package && !atomic_load(&h->stop)) h->rc = fg_package_verify(h->package, &h->err);
    atomic_store(&h->done, true);
    return NULL;
}

int fg_hasher_start(struct fg_hasher *h, struct fg_error *err)
{
    int e = pthread_create(&h->thread, NULL, hash, h);
    if (e) return fg_fail_errno(err, NULL, "start a thread", e);
    h->started = true;
    return 0;
}

int fg_hasher_join(struct fg_hasher *h, struct fg_compile_job *j, struct fg_error *err)
{
    int rc = 0;
    if (!h->started) return 0;
    while (rc == 0 && !atomic_load(&h->done)) {
        rc = fg_compile_tick(j, err);
        if (rc == 0) fg_compile_nap();
    }
    if (rc) atomic_store(&h->stop, true);
    pthread_join(h->thread, NULL);
    h->started = false;
    if (rc) return rc;
    if (!h->sha256[0]) return fg_fail_memory(err, "sha256", h->bytes);
    if (h->rc && err) *err = h->err;
    return h->rc;
}

// Ends it without a result.
static void drop(struct fg_hasher *h)
{
    if (!h->started) return;
    atomic_store(&h->stop, true);
    pthread_join(h->thread, NULL);
    h->started = false;
}

// ---- packing

// Quantized matrices of a package, as the writer wants them. *mats is the caller's.
static int list_mats(const struct fg_package *p, struct fg_tilefile_mat **mats, uint64_t *n,
                     struct fg_error *err)
{
    const struct fg_qset *set = fg_package_set(p);
    *n = 0;
    *mats = calloc((size_t)set->n_mats + 1, sizeof **mats);
    if (!*mats) return fg_fail_memory(err, "compile", set->n_mats * sizeof **mats);
    for (uint64_t i = 0; i < set->n_mats; i++) {
        const struct fg_qmat *m = &set->mats[i].m;
        enum fg_layout layout = fg_layout_of_format(m->format);
        if (layout == FG_N_LAYOUTS) continue;
        (*mats)[(*n)++] = (struct fg_tilefile_mat){.name = set->mats[i].name,
                                                   .layout = layout,
                                                   .n_out = m->rows,
                                                   .n_in = m->cols,
                                                   .rank = m->rank,
                                                   .lr_dtype = m->lr_dtype};
    }
    return 0;
}

int fg_compile_package_size(const struct fg_package *p, uint64_t *bytes, struct fg_error *err)
{
    struct fg_tilefile_mat *mats;
    uint64_t n;
    int rc = list_mats(p, &mats, &n, err);
    if (rc) return rc;
    *bytes = fg_tilefile_bytes(mats, n);
    free(mats);
    return 0;
}

struct packing {
    const struct fg_qmat *m;
    uint8_t *out;
    int64_t g0;
    uint64_t group_bytes;
};

static void pack_group(void *ctx, int64_t item, int worker)
{
    struct packing *k = ctx;
    (void)worker;
    fg_tiles_pack(k->out + (uint64_t)item * k->group_bytes, k->m, k->g0 + item, k->g0 + item + 1);
}

static int write_tiles(struct fg_tilefile_writer *w, const struct fg_qmat *m, enum fg_layout layout,
                       struct fg_compile_job *j, struct fg_error *err)
{
    uint64_t group_bytes = (uint64_t)fg_layout_group_bytes(layout, m->cols);
    int64_t groups = fg_layout_groups(layout, m->rows);
    int64_t step = group_bytes < STEP_BYTES ? (int64_t)(STEP_BYTES / group_bytes) : 1;
    if (step > groups) step = groups;
    uint8_t *out = fg_alloc_aligned((uint64_t)step * group_bytes);
    if (!out) return fg_fail_memory(err, "compile", (uint64_t)step * group_bytes);
    int rc = 0;
    for (int64_t g = 0; g < groups && rc == 0; g += step) {
        int64_t n = groups - g < step ? groups - g : step;
        struct packing k = {.m = m, .out = out, .g0 = g, .group_bytes = group_bytes};
        if (j->o->pool) {
            fg_pool_run(j->o->pool, n, pack_group, &k);
        } else {
            for (int64_t i = 0; i < n; i++)
                pack_group(&k, i, 0);
        }
        rc = fg_tilefile_write(w, out, (uint64_t)n * group_bytes, err);
        if (rc == 0) rc = fg_compile_tick(j, err);
    }
    free(out);
    return rc;
}

static int write_scales(struct fg_tilefile_writer *w, const struct fg_qmat *m,
                        enum fg_layout layout, const float ts[2], struct fg_error *err)
{
    uint64_t n = (uint64_t)(fg_layout_groups(layout, m->rows) * fg_layout_rows(layout));
    float *scale = fg_alloc_aligned(2 * n * sizeof *scale);
    if (!scale) return fg_fail_memory(err, "compile", 2 * n * sizeof *scale);
    fg_tiles_scales(scale, scale + n, m, ts);
    int rc = fg_tilefile_write(w, scale, 2 * n * sizeof *scale, err); // both sections
    free(scale);
    return rc;
}

static int write_mat(struct fg_tilefile_writer *w, const struct fg_tilefile_mat *t,
                     const struct fg_qmat *m, struct fg_compile_job *j, struct fg_error *err)
{
    float table[2][64], ts[2] = {0, 0};
    uint8_t table_u8[2][64];
    int rc = write_tiles(w, m, t->layout, j, err);
    if (rc == 0 && t->layout != FG_I8) {
        fg_tiles_tables(table, table_u8, ts, m);
        rc = fg_tilefile_write(w, table, sizeof table, err);
        if (rc == 0) rc = fg_tilefile_write(w, table_u8, sizeof table_u8, err);
    }
    if (rc == 0) rc = write_scales(w, m, t->layout, ts, err);
    if (rc || t->rank == 0) return rc;
    const bool int8 = t->lr_dtype == FG_LR_I8;
    const uint64_t a = fg_tilefile_section_bytes(t, int8 ? FG_TILE_LR_A8 : FG_TILE_LR_A);
    const uint64_t b = fg_tilefile_section_bytes(t, int8 ? FG_TILE_LR_B8 : FG_TILE_LR_B);
    rc = fg_tilefile_write(w, m->lr_a, a, err);
    if (rc == 0) rc = fg_tilefile_write(w, m->lr_b, b, err);
    if (rc == 0 && int8)
        rc = fg_tilefile_write(w, m->lr_scale, (uint64_t)t->rank * sizeof(float), err);
    return rc;
}

int fg_compile_package(const char *path, const struct fg_package *p, const char *sha256,
                       bool *changed, struct fg_compile_job *j, struct fg_error *err)
{
    struct fg_tilefile_mat *mats;
    struct fg_tilefile_writer *w = NULL;
    struct fg_hasher h = {.package = p};
    uint64_t n;
    *changed = false;
    fg_compile_package_bytes(p, &h.data, &h.bytes);
    int rc = list_mats(p, &mats, &n, err);
    if (rc) return rc;
    rc = fg_tilefile_create(&w, path, sha256, mats, n, err);
    if (rc == 0) rc = fg_hasher_start(&h, err);
    const struct fg_qset *set = fg_package_set(p);
    for (uint64_t i = 0, at = 0; i < set->n_mats && rc == 0; i++)
        if (fg_layout_of_format(set->mats[i].m.format) != FG_N_LAYOUTS)
            rc = write_mat(w, &mats[at++], &set->mats[i].m, j, err);
    if (rc)
        drop(&h);
    else
        rc = fg_hasher_join(&h, j, err);
    if (rc == 0 && strcmp(h.sha256, sha256) != 0) *changed = true;
    if (rc || *changed)
        fg_tilefile_abort(w);
    else
        rc = fg_tilefile_commit(w, err);
    free(mats);
    return rc;
}
