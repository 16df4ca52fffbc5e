// runtime/compile.c: what of a build is specialized already, what is missing, and making it. The
// steps of specs: runtime 2.2; each of them is another compile_*.c.
#include "runtime/compile.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/machine.h"
#include "base/progress.h"
#include "base/size.h"
#include "format/build.h"
#include "quant/tiles.h"
#include "runtime/compile_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RATE 0.5e9 // bytes of tiles per second, before the first package is measured
#define DISK_MARGIN ((64ull << 20) + (1ull << 30))
#define CTX_DEFAULT 16384
#define HEARTBEAT_S 30

struct fg_compiled {
    struct fg_arena arena;
    struct fg_compile_plan plan;
    struct fg_tuning tuning;
    struct fg_tilefile **tiles;
    uint64_t n;
};

struct package {
    const struct fg_package *p;
    const char *sha256; // of the manifest
    char name[FG_STORE_NAME_MAX];
    char *path;
    char stem[96]; // file name without its ending, for people
    uint64_t bytes;
    struct fg_tilefile *tiles; // NULL: to be made
    bool purged;               // a damaged one was removed in this run
    struct fg_store_lock lock;
};

struct run {
    const struct fg_compile_options *o;
    struct fg_build *own; // when it was opened here
    const struct fg_build *build;
    const struct fg_manifest *manifest;
    struct fg_store store;
    struct fg_hashes hashes;
    struct fg_compile_job job;
    const struct fg_kernels *kernels;
    struct package *packages;
    uint64_t n;
    struct fg_compiled *c;
    char manifest_sha256[FG_SHA256_HEX];
    uint64_t made;
};

// ---- the build

static void stem_of(char stem[96], const char *file)
{
    const char *slash = strrchr(file, '/');
    const char *name = slash ? slash + 1 : file;
    const char *dot = strrchr(name, '.');
    size_t n = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    fg_escape(stem, 96, name, n);
}

static int list_packages(struct run *r, struct fg_error *err)
{
    const struct fg_manifest *m = r->manifest;
    r->n = fg_build_n_packages(r->build);
    r->packages = calloc((size_t)r->n + 1, sizeof *r->packages);
    if (!r->packages) return fg_fail_memory(err, "compile", r->n * sizeof *r->packages);
    for (uint64_t i = 0; i < r->n; i++)
        r->packages[i].lock.fd = -1;
    for (uint64_t i = 0; i < r->n; i++) {
        struct package *k = &r->packages[i];
        bool chunk = i < (uint64_t)m->n_chunks;
        k->p = fg_build_package(r->build, i);
        k->sha256 = chunk ? m->chunks[i].sha256 : m->head.sha256;
        stem_of(k->stem, chunk ? m->chunks[i].file : m->head.file);
        fg_store_tile_name(k->name, k->sha256);
        k->path = fg_path_join(r->store.tiles, k->name);
        if (!k->path) return fg_fail_memory(err, "compile", FG_STORE_NAME_MAX);
        int rc = fg_compile_package_size(k->p, &k->bytes, err);
        if (rc) return rc;
        for (uint64_t j = 0; j < i; j++)
            if (strcmp(r->packages[j].name, k->name) == 0)
                return fg_fail(err, FG_EINTEGRITY, "manifest", fg_build_dir(r->build), "sha256",
                               "packages that differ", "%s and %s", r->packages[j].stem, k->stem);
    }
    return 0;
}

static int open_build(struct run *r, struct fg_error *err)
{
    int rc = 0;
    r->build = r->o->build;
    if (!r->build) {
        rc = fg_build_open(&r->own, r->o->build_dir, false, err);
        if (rc) return rc;
        r->build = r->own;
    }
    r->manifest = fg_build_manifest(r->build);
    char *path = fg_path_join(fg_build_dir(r->build), "manifest.json");
    if (!path) return fg_fail_memory(err, "compile", 1);
    rc = fg_sha256_file(path, r->manifest_sha256, err);
    free(path);
    return rc ? rc : list_packages(r, err);
}

// The level asked for, or the best whose kernels work.
static int pick_kernels(struct run *r, struct fg_error *err)
{
    int n;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n);
    if (r->o->isa && r->o->isa[0]) {
        int rc = fg_kernels_get(&r->kernels, r->o->isa, err);
        return rc ? rc : fg_compile_smoke(r->kernels, &r->job, err);
    }
    for (int i = n - 1;; i--) {
        struct fg_error inner = {0};
        int rc = fg_compile_smoke(levels[i], &r->job, &inner);
        r->kernels = levels[i];
        if (rc == 0) return 0;
        if (rc != FG_EUNSUPPORTED || i == 0) {
            if (err) *err = inner;
            return rc;
        }
        char line[512];
        r->job.event.isa = levels[i - 1]->isa;
        r->job.event.text = fg_error_line(&inner, line, sizeof line);
        fg_compile_say(&r->job, FG_COMPILE_LOWER);
        r->job.event.text = NULL;
    }
}

// ---- the plan

// Index of the largest entry to use.
static int pick_ctx(const struct run *r, int *last, struct fg_error *err)
{
    const struct fg_manifest *m = r->manifest;
    *last = 0;
    for (int i = 0; i < m->n_ctxs; i++) {
        if (r->o->ctx == m->ctxs[i]) {
            *last = i;
            return 0;
        }
        if (r->o->ctx == 0 && m->ctxs[i] <= CTX_DEFAULT) *last = i;
    }
    if (r->o->ctx == 0) return 0;
    char list[160] = "";
    size_t n = 0;
    for (int i = 0; i < m->n_ctxs && n < sizeof list - 24; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%" PRId64, i ? ", " : "", m->ctxs[i]);
    return fg_fail(err, FG_EINPUT, "context", NULL, "ctx", list, "%" PRId64, r->o->ctx);
}

// Sum of the widths of what the mixer of each layer computes, of the widest.
static int64_t mixer_width(const struct fg_qset *set)
{
    static const char *const parts[] = {"linear_attn.in_proj_qkv", "linear_attn.in_proj_z",
                                        "linear_attn.out_proj",    "self_attn.q_proj",
                                        "self_attn.k_proj",        "self_attn.v_proj",
                                        "self_attn.o_proj"};
    int64_t width[FG_PACKAGE_LAYERS_MAX] = {0}, most = 0;
    for (uint64_t i = 0; i < set->n_mats; i++) {
        char *part;
        if (strncmp(set->mats[i].name, "layers.", 7) != 0) continue;
        long layer = strtol(set->mats[i].name + 7, &part, 10);
        if (layer < 0 || layer >= FG_PACKAGE_LAYERS_MAX || *part != '.') continue;
        for (size_t k = 0; k < FG_COUNT(parts); k++) {
            if (strcmp(part + 1, parts[k]) != 0) continue;
            bool out = k == 2 || k == 6; // what enters it is what the mixer made
            width[layer] += out ? set->mats[i].m.cols : set->mats[i].m.rows;
        }
        if (width[layer] > most) most = width[layer];
    }
    return most;
}

static struct fg_compile_plan_shape shape_of(const struct run *r)
{
    const struct fg_manifest_model *m = &r->manifest->model;
    const struct fg_qset *set = fg_build_set(r->build);
    struct fg_compile_plan_shape s = {.hidden = m->hidden,
                                      .intermediate = m->intermediate,
                                      .vocab = m->vocab,
                                      .mixer_width = mixer_width(set),
                                      .n_heads = m->n_heads,
                                      .head_dim = m->head_dim,
                                      .segment = r->manifest->numerics.segment};
    for (uint64_t i = 0; i < set->n_mats; i++) {
        const struct fg_qmat *q = &set->mats[i].m;
        enum fg_layout l = fg_layout_of_format(q->format);
        if (l == FG_N_LAYOUTS) continue;
        s.weights += (uint64_t)q->rows * (uint64_t)q->cols;
        s.weight_bytes += fg_tiles_bytes(l, q->rows, q->cols);
    }
    return s;
}

static int list_plan_mats(struct run *r, struct fg_error *err)
{
    static const char *const layouts[FG_N_LAYOUTS] = {"p6", "p4x2", "p4", "i8", "p6x1"};
    const struct fg_qset *set = fg_build_set(r->build);
    struct fg_arena *arena = &r->c->arena;
    struct fg_compile_plan_mat *mats = fg_arena_alloc(arena, set->n_mats, sizeof *mats);
    if (!mats) return fg_fail_memory(err, "plan", set->n_mats);
    uint64_t n = 0;
    for (uint64_t i = 0; i < set->n_mats; i++) {
        enum fg_layout l = fg_layout_of_format(set->mats[i].m.format);
        if (l == FG_N_LAYOUTS) continue;
        const char *name = fg_arena_strdup(arena, set->mats[i].name, strlen(set->mats[i].name));
        if (!name) return fg_fail_memory(err, "plan", set->n_mats);
        mats[n++] = (struct fg_compile_plan_mat){
            .name = name, .format = fg_qformat_name(set->mats[i].m.format), .layout = layouts[l]};
    }
    r->c->plan.mats = mats;
    r->c->plan.n_mats = n;
    return 0;
}

static int list_plan_packages(struct run *r, struct fg_error *err)
{
    const struct fg_manifest *m = r->manifest;
    struct fg_arena *arena = &r->c->arena;
    struct fg_compile_plan_package *list = fg_arena_alloc(arena, r->n, sizeof *list);
    if (!list) return fg_fail_memory(err, "plan", r->n);
    for (uint64_t i = 0; i < r->n; i++) {
        const char *file = i < (uint64_t)m->n_chunks ? m->chunks[i].file : m->head.file;
        const struct package *k = &r->packages[i];
        list[i].file = fg_arena_strdup(arena, file, strlen(file));
        list[i].sha256 = fg_arena_strdup(arena, k->sha256, strlen(k->sha256));
        list[i].tiles = fg_arena_strdup(arena, k->name, strlen(k->name));
        list[i].tile_bytes = k->bytes;
        if (!list[i].file || !list[i].sha256 || !list[i].tiles)
            return fg_fail_memory(err, "plan", r->n);
    }
    r->c->plan.packages = list;
    r->c->plan.n_packages = r->n;
    return 0;
}

// Entries up to `last`, and the key.
static int set_entries(struct run *r, int last, const struct fg_compile_plan_shape *s,
                       struct fg_error *err)
{
    const struct fg_manifest *m = r->manifest;
    struct fg_compile_plan *p = &r->c->plan;
    p->n_entries = last + 1;
    for (int i = 0; i <= last; i++) {
        int64_t rows = FG_MANIFEST_TP;
        for (int j = 0; j < m->n_pctxs; j++)
            if (m->pctxs[j] == m->ctxs[i]) rows = m->prefill_rows[j];
        if (rows < p->rows_floor) rows = p->rows_floor;
        p->entries[i] = (struct fg_compile_plan_entry){
            .ctx = m->ctxs[i],
            .prefill_rows = rows,
            .scratch_bytes = fg_compile_plan_scratch(s, m->ctxs[i], rows)};
    }
    return fg_compile_plan_set_key(p) ? 0 : fg_fail_memory(err, "plan", sizeof *p);
}

static int plan_path(const struct run *r, char **path, struct fg_error *err)
{
    if (asprintf(path, "%s/%s.json", r->store.plans, r->c->plan.key) >= 0) return 0;
    *path = NULL;
    return fg_fail_memory(err, "plan", 1);
}

// True when the plan's file is there with exactly this content.
static int plan_is_there(const struct run *r, bool *there, struct fg_error *err)
{
    struct fg_buf want = {0}, found = {0};
    char *path;
    *there = false;
    int rc = plan_path(r, &path, err);
    if (rc) return rc;
    rc = fg_compile_plan_write(&r->c->plan, &want, err);
    if (rc == 0 && fg_file_load(&found, path, FG_COMPILE_PLAN_BYTES_MAX, NULL) == 0)
        *there = found.len == want.len && memcmp(found.data, want.data, want.len) == 0;
    fg_buf_free(&want);
    fg_buf_free(&found);
    free(path);
    return rc;
}

static int derive_plan(struct run *r, struct fg_error *err)
{
    struct fg_compile_plan *p = &r->c->plan;
    struct fg_compile_plan_shape s = shape_of(r);
    int threads = r->o->threads ? r->o->threads : fg_threads_default();
    int last;
    p->isa = r->kernels->isa;
    p->numerics = r->job.event.numerics;
    p->layout = FG_TILE_LAYOUT;
    p->tile_abi = FG_TILE_ABI;
    p->engine_abi = FG_ENGINE_ABI;
    p->rows_floor = fg_compile_plan_rows(&s, p->isa, threads);
    p->manifest_sha256 = fg_arena_strdup(&r->c->arena, r->manifest_sha256, FG_SHA256_HEX - 1);
    if (!p->manifest_sha256) return fg_fail_memory(err, "plan", FG_SHA256_HEX);
    int rc = pick_ctx(r, &last, err);
    if (rc == 0) rc = list_plan_packages(r, err);
    if (rc == 0) rc = list_plan_mats(r, err);
    bool there = false;
    for (int i = last; rc == 0 && !there && r->o->wait && i < r->manifest->n_ctxs; i++) {
        rc = set_entries(r, i, &s, err);
        if (rc == 0) rc = plan_is_there(r, &there, err);
    }
    if (rc == 0 && !there) rc = set_entries(r, last, &s, err);
    return rc;
}

static void sweep_small(const struct run *r)
{
    fg_store_sweep(r->store.plans, NULL);
    fg_store_sweep(r->store.tuning, NULL);
    fg_store_sweep(r->store.root, NULL);
}

// Writes plan and hashes where they are not there yet.
static int save_small(struct run *r, struct fg_error *err)
{
    struct fg_store_lock lock;
    struct fg_buf text = {0};
    char *path = NULL;
    bool there;
    int rc = plan_is_there(r, &there, err);
    if (rc || (there && !r->hashes.changed)) return rc;
    rc = fg_store_lock_small(&r->store, &lock, err);
    if (rc) return there ? 0 : rc; // hashes only save time: a folder that can't be written may do
    sweep_small(r);
    rc = plan_path(r, &path, err);
    if (rc == 0 && !there) rc = fg_compile_plan_write(&r->c->plan, &text, err);
    if (rc == 0 && !there) rc = fg_file_replace(path, text.data, text.len, err);
    if (rc == 0 && r->hashes.changed) fg_hashes_save(&r->hashes, r->store.hashes, NULL);
    fg_store_unlock(&lock);
    fg_buf_free(&text);
    free(path);
    return rc;
}

// ---- tile files

// Opens a package's tile file where it is there and sound; k->tiles stays NULL where it is not.
static int open_tiles(struct run *r, struct package *k, struct fg_error *err)
{
    struct fg_tilefile_expect expect = {.sha256 = k->sha256, .memory = r->o->memory};
    enum fg_tilefile_verify verify = r->o->dry_run ? FG_TILEFILE_HEADER : r->o->verify;
    struct fg_error inner = {0};
    if (!fg_path_taken(k->path)) return 0;
    int rc = fg_tilefile_open(&k->tiles, k->path, &expect, verify, r->o->pool, &inner);
    if (rc == 0) return 0;
    if (rc != FG_EINTEGRITY && rc != FG_EINPUT) {
        if (err) *err = inner;
        return rc;
    }
    if (!fg_path_taken(k->path)) return 0; // somebody else removed it
    if (k->purged) return 0;
    k->purged = true;
    char line[512];
    r->job.event.name = k->stem;
    r->job.event.text = fg_error_line(&inner, line, sizeof line);
    fg_compile_say(&r->job, FG_COMPILE_PURGED);
    r->job.event.name = r->job.event.text = NULL;
    return 0;
}

static int open_present(struct run *r, struct fg_error *err)
{
    int rc = 0;
    for (uint64_t i = 0; i < r->n && rc == 0; i++) {
        rc = fg_compile_tick(&r->job, err);
        if (rc == 0) rc = open_tiles(r, &r->packages[i], err);
    }
    return rc;
}

static uint64_t n_missing(const struct run *r, uint64_t *bytes)
{
    uint64_t n = 0;
    *bytes = 0;
    for (uint64_t i = 0; i < r->n; i++)
        if (!r->packages[i].tiles) {
            n++;
            *bytes += r->packages[i].bytes;
        }
    return n;
}

static int other_package(const struct package *k, const char *found, struct fg_error *err)
{
    int rc = fg_fail(err, FG_EINTEGRITY, "package", fg_package_info(k->p)->path, "sha256",
                     k->sha256, "%s", found);
    fg_error_hint(err, "the file is not the one that the manifest names");
    return rc;
}

static int hash_package(struct run *r, struct package *k, struct fg_error *err)
{
    struct fg_hasher h = {0};
    fg_compile_package_bytes(k->p, &h.data, &h.bytes);
    int rc = fg_hasher_start(&h, err);
    if (rc == 0) rc = fg_hasher_join(&h, &r->job, err);
    if (rc) return rc;
    if (strcmp(h.sha256, k->sha256) != 0) return other_package(k, h.sha256, err);
    fg_hashes_put(&r->hashes, fg_package_info(k->p)->path, h.sha256);
    return 0;
}

// Packages that have tile files already: are they still what the manifest says?
static int check_hashes(struct run *r, struct fg_error *err)
{
    uint64_t n = 0, bytes = 0;
    int rc = 0;
    for (int pass = 0; pass < 2 && rc == 0; pass++) {
        if (pass == 1 && n == 0) break;
        if (pass == 1) {
            r->job.event.packages = n;
            r->job.event.bytes = bytes;
            fg_compile_say(&r->job, FG_COMPILE_HASHING);
            r->job.event.packages = r->n;
            r->job.event.bytes = 0;
        }
        for (uint64_t i = 0; i < r->n && rc == 0; i++) {
            struct package *k = &r->packages[i];
            const char *known = fg_hashes_find(&r->hashes, fg_package_info(k->p)->path);
            if (!k->tiles) continue;
            if (known && strcmp(known, k->sha256) != 0) return other_package(k, known, err);
            if (known) continue;
            if (pass == 0) {
                n++;
                bytes += fg_package_info(k->p)->bytes;
            } else {
                rc = hash_package(r, k, err);
            }
        }
    }
    return rc;
}

static int remove_file(const char *path, struct fg_error *err)
{
    if (unlink(path) == 0 || errno == ENOENT) return 0;
    int e = errno;
    // A tile file that can't go can't be made anew either.
    return fg_fail(err, FG_EFAILED, "compile", path, NULL, "a file that can be replaced", "%s",
                   strerror(e));
}

// Takes the locks of the missing tile files, in order of their names, so that two builds that share
// packages never wait for each other.
static int lock_package(struct run *r, struct package *k, struct fg_error *err)
{
    double began = fg_clock(), said = 0;
    for (;;) {
        long pid;
        struct fg_error inner = {0};
        int rc = fg_store_lock(&k->lock, k->path, &pid, &inner);
        if (rc == 0) return 0;
        if (rc != FG_EBUSY || !r->o->wait) {
            if (rc == FG_EBUSY && pid)
                fg_error_hint(&inner, "process %ld compiles this build; it can be waited for", pid);
            if (rc == FG_EINPUT && k->purged) inner.code = rc = FG_EFAILED; // can't be mended
            if (err) *err = inner;
            return rc;
        }
        double now = fg_clock();
        if (said == 0 || now - said >= r->job.heartbeat_s) {
            said = now;
            r->job.event.name = k->stem;
            r->job.event.pid = pid;
            r->job.event.seconds = now - began;
            fg_compile_say(&r->job, FG_COMPILE_WAITING);
            r->job.event.name = NULL;
            r->job.event.pid = 0;
        }
        rc = fg_compile_tick(&r->job, err);
        if (rc) return rc;
        fg_compile_nap();
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct package *const *)a)->name, (*(struct package *const *)b)->name);
}

static int lock_missing(struct run *r, bool all, struct fg_error *err)
{
    struct package **order = calloc((size_t)r->n + 1, sizeof *order);
    if (!order) return fg_fail_memory(err, "compile", r->n * sizeof *order);
    uint64_t n = 0;
    for (uint64_t i = 0; i < r->n; i++)
        if (all || !r->packages[i].tiles) order[n++] = &r->packages[i];
    qsort(order, (size_t)n, sizeof *order, by_name);
    int rc = 0;
    for (uint64_t i = 0; i < n && rc == 0; i++)
        rc = lock_package(r, order[i], err);
    for (uint64_t i = 0; i < n && rc == 0; i++)
        fg_store_sweep(r->store.tiles, order[i]->name);
    free(order);
    return rc;
}

static void unlock_all(struct run *r)
{
    for (uint64_t i = 0; i < r->n; i++)
        fg_store_unlock(&r->packages[i].lock);
}

static int check_disk(struct run *r, uint64_t bytes, struct fg_error *err)
{
    uint64_t need, free_bytes = fg_disk_free_bytes(r->store.tiles);
    char want[64], have[64], text[96];
    r->job.event.free_bytes = free_bytes;
    if (fg_add(&need, bytes, DISK_MARGIN) && need <= free_bytes) return 0;
    fg_format_bytes(want, sizeof want, bytes + DISK_MARGIN);
    fg_format_bytes(have, sizeof have, free_bytes);
    snprintf(text, sizeof text, "%s free", want);
    return fg_fail(err, FG_ERESOURCE, "disk", r->store.tiles, NULL, text, "%s", have);
}

// ---- making them

// Rates of the packages made in this run.
struct learned {
    double measured, estimated;
};

static double estimate(const struct learned *l, uint64_t bytes)
{
    double ratio = l->estimated > 0 ? l->measured / l->estimated : 1;
    return (double)bytes / RATE * ratio;
}

static int check_and_open(struct run *r, struct package *k, struct fg_error *err)
{
    int *fds = calloc((size_t)r->n + 1, sizeof *fds);
    if (!fds) return fg_fail_memory(err, "compile", r->n * sizeof *fds);
    uint64_t n = 0;
    for (uint64_t i = 0; i < r->n; i++)
        if (r->packages[i].lock.fd >= 0) fds[n++] = r->packages[i].lock.fd;
    int rc = fg_compile_check(k->path, k->p, k->sha256, r->kernels, fds, n, &r->job, err);
    free(fds);
    if (rc) return rc;
    struct fg_tilefile_expect expect = {.sha256 = k->sha256, .memory = r->o->memory};
    return fg_tilefile_open(&k->tiles, k->path, &expect, r->o->verify, r->o->pool, err);
}

// Writes, checks and opens one tile file: once more if the package changed meanwhile, and once more
// if what was written is not sound and no damaged file was purged before.
static int make_package(struct run *r, struct package *k, struct fg_error *err)
{
    bool changed_before = false;
    for (;;) {
        bool changed;
        int rc = fg_compile_package(k->path, k->p, k->sha256, &changed, &r->job, err);
        if (rc) return rc;
        if (changed && changed_before) return other_package(k, "another one, twice", err);
        if (changed) {
            changed_before = true;
            fg_compile_say(&r->job, FG_COMPILE_CHANGED);
            continue;
        }
        struct fg_error inner = {0};
        rc = check_and_open(r, k, &inner);
        if (rc == 0) {
            fg_hashes_put(&r->hashes, fg_package_info(k->p)->path, k->sha256);
            return 0;
        }
        if (rc != FG_EINTEGRITY || k->purged) {
            if (rc == FG_EINTEGRITY) {
                unlink(k->path);
                inner.code = rc = FG_EFAILED;
                fg_error_hint(&inner, "made anew, and damaged again: memory or disk may be faulty");
            }
            if (err) *err = inner;
            return rc;
        }
        char line[512];
        k->purged = true;
        r->job.event.text = fg_error_line(&inner, line, sizeof line);
        fg_compile_say(&r->job, FG_COMPILE_PURGED);
        r->job.event.text = NULL;
        rc = remove_file(k->path, err);
        if (rc) return rc;
    }
}

static int make_all(struct run *r, uint64_t missing, uint64_t bytes, struct fg_error *err)
{
    struct fg_compile_event *e = &r->job.event;
    struct learned learned = {0};
    int rc = 0;
    e->missing = missing;
    for (uint64_t i = 0; i < r->n && rc == 0; i++) {
        struct package *k = &r->packages[i];
        if (k->tiles) continue;
        r->job.began = r->job.beat = fg_clock();
        r->job.expected_s = e->expected_s = estimate(&learned, k->bytes);
        r->job.left_s = e->left_s = estimate(&learned, bytes);
        e->name = k->stem;
        e->index++;
        fg_compile_say(&r->job, FG_COMPILE_PACKAGE);
        rc = make_package(r, k, err);
        if (rc) break;
        double seconds = fg_clock() - r->job.began, raw = (double)k->bytes / RATE;
        if (seconds >= 0.1 * raw) { // else most of it was there before
            learned.measured += seconds;
            learned.estimated += raw;
        }
        bytes -= k->bytes;
        r->made++;
        e->seconds = seconds;
        e->left_s = estimate(&learned, bytes);
        fg_compile_say(&r->job, FG_COMPILE_PACKAGE_DONE);
        fg_store_unlock(&k->lock);
    }
    e->name = NULL;
    e->index = 0;
    return rc;
}

static void say_plan(struct run *r, uint64_t missing, uint64_t bytes)
{
    struct fg_compile_event *e = &r->job.event;
    e->missing = missing;
    e->bytes = bytes;
    e->free_bytes = fg_disk_free_bytes(r->store.tiles);
    fg_compile_say(&r->job, FG_COMPILE_PLAN);
    e->expected_s = (double)bytes / RATE;
    if (missing) fg_compile_say(&r->job, FG_COMPILE_ESTIMATE);
}

static int make_missing(struct run *r, struct fg_error *err)
{
    uint64_t bytes;
    if (n_missing(r, &bytes) == 0) return 0;
    int rc = lock_missing(r, false, err);
    // Who had the locks before may have made the files.
    for (uint64_t i = 0; i < r->n && rc == 0; i++) {
        struct package *k = &r->packages[i];
        if (k->tiles) continue;
        rc = open_tiles(r, k, err);
        if (rc == 0 && k->tiles) fg_store_unlock(&k->lock);
        if (rc == 0 && !k->tiles && k->purged) rc = remove_file(k->path, err);
    }
    uint64_t missing = n_missing(r, &bytes);
    if (rc == 0 && missing) {
        say_plan(r, missing, bytes);
        rc = check_disk(r, bytes, err);
        if (rc == 0) rc = make_all(r, missing, bytes, err);
    }
    unlock_all(r);
    return rc;
}

// Everything of this build on this machine goes, except under the feet of running processes, which
// keep what they have mapped.
static int drop_all(struct run *r, struct fg_error *err)
{
    char id[17], *path = NULL;
    int rc = lock_missing(r, true, err);
    for (uint64_t i = 0; i < r->n && rc == 0; i++)
        rc = remove_file(r->packages[i].path, err);
    if (rc == 0) rc = plan_path(r, &path, err);
    if (rc == 0) rc = remove_file(path, err);
    free(path);
    if (rc == 0 && fg_tuning_id(r->kernels->isa, r->manifest->weights_digest, id)) {
        path = fg_tuning_path(r->o->state_dir, id);
        rc = path ? remove_file(path, err) : fg_fail_memory(err, "compile", 1);
        free(path);
    }
    unlock_all(r);
    return rc;
}

// Locks whose owner was killed, and what it had begun. Where that fails they stay: they harm
// nobody.
static void tidy(struct run *r)
{
    struct fg_store_lock lock;
    for (uint64_t i = 0; i < r->n; i++) {
        char *path;
        long pid;
        if (asprintf(&path, "%s.lock", r->packages[i].path) < 0) return;
        if (fg_path_taken(path) && fg_store_lock(&lock, r->packages[i].path, &pid, NULL) == 0) {
            fg_store_sweep(r->store.tiles, r->packages[i].name);
            fg_store_unlock(&lock);
        }
        free(path);
    }
    char *small = fg_path_join(r->store.root, FG_STORE_LOCK);
    if (small && fg_path_taken(small) && fg_store_lock_small(&r->store, &lock, NULL) == 0) {
        sweep_small(r);
        fg_store_unlock(&lock);
    }
    free(small);
}

// ---- tuning

static int tune(struct run *r, struct fg_error *err)
{
    char id[17];
    if (!fg_tuning_id(r->kernels->isa, r->manifest->weights_digest, id))
        return fg_fail_memory(err, "tuning", sizeof id);
    char *path = fg_tuning_path(r->o->state_dir, id);
    if (!path) return fg_fail_memory(err, "tuning", 1);
    int rc = fg_tuning_read(&r->c->tuning, path, id, NULL);
    bool measure = r->o->measure && (rc || r->o->force);
    rc = 0;
    if (measure) {
        struct fg_tuning t;
        struct fg_store_lock lock;
        fg_compile_say(&r->job, FG_COMPILE_TUNING);
        fg_tuning_default(&t);
        rc = r->o->measure(r->o->ctx_event, r->c, &t, err);
        if (rc == 0) rc = fg_store_lock_small(&r->store, &lock, err);
        if (rc == 0) {
            rc = fg_tuning_write(&t, path, id, err);
            fg_store_unlock(&lock);
        }
        if (rc == 0) r->c->tuning = t;
    }
    free(path);
    return rc;
}

// ---- all of it

static int hand_over(struct run *r, struct fg_error *err)
{
    struct fg_compiled *c = r->c;
    c->tiles = fg_arena_alloc(&c->arena, r->n, sizeof(void *));
    if (!c->tiles) return fg_fail_memory(err, "compile", r->n);
    char *path;
    for (uint64_t i = 0; i < r->n; i++) {
        c->tiles[i] = r->packages[i].tiles;
        r->packages[i].tiles = NULL;
        utimensat(AT_FDCWD, r->packages[i].path, NULL, 0); // its last use, for `forge cache`
    }
    c->n = r->n;
    int rc = plan_path(r, &path, err);
    if (rc) return rc;
    utimensat(AT_FDCWD, path, NULL, 0);
    free(path);
    return 0;
}

static int start(struct run *r, struct fg_error *err)
{
    const struct fg_compile_options *o = r->o;
    const char *numerics = o->numerics ? o->numerics : "fast";
    if (strcmp(numerics, "fast") != 0 && strcmp(numerics, "exact") != 0)
        return fg_fail(err, FG_EINPUT, "compile", NULL, "numerics", "fast or exact", "%s",
                       numerics);
    r->c = calloc(1, sizeof *r->c);
    if (!r->c) return fg_fail_memory(err, "compile", sizeof *r->c);
    fg_arena_init(&r->c->arena, 0);
    fg_tuning_default(&r->c->tuning);
    r->job.o = o;
    r->job.heartbeat_s = o->heartbeat_s > 0 ? o->heartbeat_s : HEARTBEAT_S;
    r->job.event.numerics = strcmp(numerics, "fast") == 0 ? "fast" : "exact";
    r->job.event.plan = &r->c->plan;
    int rc = fg_store_init(&r->store, o->state_dir, err);
    if (rc == 0) rc = open_build(r, err);
    if (rc == 0) rc = pick_kernels(r, err);
    if (rc) return rc;
    r->job.event.packages = r->n;
    r->job.event.isa = r->kernels->isa;
    return derive_plan(r, err);
}

static int finish(struct run *r, double began, struct fg_error *err)
{
    tidy(r);
    int rc = save_small(r, err);
    if (rc == 0) rc = hand_over(r, err);
    if (rc == 0) rc = tune(r, err);
    if (rc) return rc;
    r->job.event.missing = r->made;
    r->job.event.seconds = fg_clock() - began;
    fg_compile_say(&r->job, FG_COMPILE_DONE);
    return 0;
}

int fg_compile(struct fg_compiled **out, const struct fg_compile_options *o, struct fg_error *err)
{
    struct run r = {.o = o};
    double began = fg_clock();
    uint64_t bytes;
    *out = NULL;
    int rc = start(&r, err);
    if (rc == 0 && !o->dry_run) rc = fg_store_make(&r.store, err);
    if (rc == 0 && !o->dry_run && o->force) rc = drop_all(&r, err);
    if (rc == 0 && !(o->dry_run && o->force)) rc = open_present(&r, err);
    if (rc == 0 && o->dry_run) {
        uint64_t missing = n_missing(&r, &bytes);
        say_plan(&r, missing, bytes);
        rc = missing ? check_disk(&r, bytes, err) : 0;
    } else if (rc == 0) {
        fg_hashes_load(&r.hashes, r.store.hashes);
        rc = check_hashes(&r, err);
        if (rc == 0) rc = make_missing(&r, err);
        if (rc == 0) rc = finish(&r, began, err);
    }
    if (rc == 0 && !o->dry_run) {
        *out = r.c;
        r.c = NULL;
    }
    for (uint64_t i = 0; i < r.n && r.packages; i++) {
        fg_tilefile_close(r.packages[i].tiles);
        fg_store_unlock(&r.packages[i].lock);
        free(r.packages[i].path);
    }
    free(r.packages);
    fg_hashes_free(&r.hashes);
    fg_compiled_close(r.c);
    fg_store_free(&r.store);
    fg_build_close(r.own);
    return rc;
}

void fg_compiled_close(struct fg_compiled *c)
{
    if (!c) return;
    for (uint64_t i = 0; i < c->n; i++)
        fg_tilefile_close(c->tiles[i]);
    fg_arena_free(&c->arena);
    free(c);
}

const struct fg_compile_plan *fg_compiled_plan(const struct fg_compiled *c)
{
    return &c->plan;
}

const struct fg_tuning *fg_compiled_tuning(const struct fg_compiled *c)
{
    return &c->tuning;
}

uint64_t fg_compiled_count(const struct fg_compiled *c)
{
    return c->n;
}

const struct fg_tilefile *fg_compiled_tiles(const struct fg_compiled *c, uint64_t i)
{
    return c->tiles[i];
}

bool fg_compiled_lut(const struct fg_compiled *c, const char *name, struct fg_lut *out)
{
    for (uint64_t i = 0; i < c->n; i++)
        if (fg_tilefile_lut(c->tiles[i], name, out)) return true;
    return false;
}

uint64_t fg_compiled_bytes(const struct fg_compiled *c)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < c->n; i++)
        bytes += fg_tilefile_size(c->tiles[i]);
    return bytes;
}
