// bundle/synth.c: which files a synthetic bundle has, in what order they are written, and how a
// stopped run goes on. Values are synth_values.c's, shapes synth_shape.c's.
#include "bundle/synth.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/jwrite.h"
#include "base/machine.h"
#include "base/size.h"
#include "bundle/synth_impl.h"
#include "format/manifest.h"
#include "format/npy.h"
#include "format/package.h"
#include "model/needs.h"
#include "quant/signs.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define WHAT "synthetic bundle"
#define CHUNK_LAYERS 4
#define SITES 4
#define MARGIN_BYTES ((uint64_t)1 << 30)    // of disk that stays free
#define EMBEDDING_PIECE ((uint64_t)4 << 20) // elements written at once
#define PREFILL_ROWS_SHORT 64 // contexts up to PREFILL_CTX_SHORT; 32 beyond (specs: runtime 1.2)
#define PREFILL_ROWS_LONG 32
#define PREFILL_CTX_SHORT 98304
#define MARK_BYTES_MAX 4096

// One package: a set whose arrays are made when they are written.
struct part {
    char *path, *file;   // file: its name alone
    int64_t first, last; // layers; head: -1
    struct fg_qset set;
    uint64_t bytes;
    struct fg_st_written written;
};

struct job {
    const struct fg_synth_options *o;
    struct fg_synth_model model;
    struct fg_synth_source source;
    struct fg_export_need *needs;
    uint64_t n_needs;
    char identity[FG_SHA256_HEX]; // of shape and seed
    char config_sha[FG_SHA256_HEX], embedding_sha[FG_SHA256_HEX];
    char *mark_path, *lock_path, *config_path, *embedding_path, *manifest_path;
    struct part *parts; // chunks, then the head
    int64_t n_parts;
    uint64_t embedding_bytes; // of the file's data
    uint64_t done, total;     // of all files
    const char *item;
    int lock_fd;
};

// ---- paths and identity

static char *path_of(struct job *j, const char *format, ...) __attribute__((format(printf, 2, 3)));

static char *path_of(struct job *j, const char *format, ...)
{
    struct fg_buf b = {0};
    fg_buf_printf(&b, "%s/", j->o->dir);
    char name[128];
    va_list ap;
    va_start(ap, format);
    vsnprintf(name, sizeof name, format, ap);
    va_end(ap);
    fg_buf_str(&b, name);
    char *path = b.failed ? NULL : fg_arena_strdup(&j->model.arena, b.data, b.len);
    fg_buf_free(&b);
    return path;
}

static bool identify(struct job *j)
{
    char text[160];
    int n = snprintf(text, sizeof text, "forge-synthetic-1 %s %" PRIu64, j->model.name, j->o->seed);
    return fg_sha256_hex(text, (uint64_t)n, j->identity) &&
           fg_sha256_hex(j->model.config.data, j->model.config.len, j->config_sha);
}

// ---- content of the packages

static int by_mat_name(const void *a, const void *b)
{
    return strcmp(((const struct fg_qset_mat *)a)->name, ((const struct fg_qset_mat *)b)->name);
}

static int by_small_name(const void *a, const void *b)
{
    return strcmp(((const struct fg_qset_small *)a)->name, ((const struct fg_qset_small *)b)->name);
}

static int by_layer_site(const void *a, const void *b)
{
    const struct fg_qset_rot *x = a, *y = b;
    if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
    return strcmp(x->site, y->site);
}

// Layer of a canonical name, -1 for what is in none.
static int64_t layer_of(const char *name)
{
    int layer;
    return sscanf(name, "layers.%d.", &layer) == 1 ? layer : -1;
}

static bool in_part(const struct part *p, int64_t layer)
{
    return layer >= p->first && layer <= p->last;
}

static const struct fg_plan_mat *planned(const struct job *j, const char *name)
{
    for (uint64_t i = 0; i < j->model.plan.n; i++) {
        if (strcmp(j->model.plan.mats[i].name, name) == 0) return &j->model.plan.mats[i];
    }
    return NULL;
}

static bool add_small(struct job *j, const struct fg_export_need *need, struct fg_qset_small *out)
{
    uint64_t n = 1;
    *out = (struct fg_qset_small){.name = need->name, .dtype = FG_ST_BF16, .rank = need->rank};
    for (int i = 0; i < need->rank; i++) {
        out->shape[i] = need->shape[i];
        n *= need->shape[i];
    }
    uint16_t *data = fg_arena_alloc(&j->model.arena, n, sizeof *data);
    if (!data) return false;
    fg_synth_small(&j->source, need->name, j->model.cfg.norm_zero_centred, data, n);
    out->data = data;
    out->bytes = n * sizeof *data;
    return true;
}

static void add_mat(const struct job *j, const struct fg_export_need *need, struct fg_qset_mat *out)
{
    const struct fg_plan_mat *plan = planned(j, need->name);
    *out = (struct fg_qset_mat){.name = need->name};
    out->m = (struct fg_qmat){.format = FG_Q_BF16, // what no plan names is kept
                              .rows = (int64_t)need->shape[0],
                              .cols = (int64_t)need->shape[1]};
    if (!plan) return;
    out->m.format = plan->format;
    out->m.rank = plan->rank;
    out->m.site = plan->site;
    out->m.block = plan->block;
}

static bool add_rot(struct job *j, const struct fg_plan_mat *mat, struct fg_qset_rot *rots,
                    uint64_t *n)
{
    for (uint64_t i = 0; i < *n; i++) {
        if (rots[i].layer == mat->layer && strcmp(rots[i].site, mat->site) == 0) return true;
    }
    uint8_t *bits = fg_arena_alloc(&j->model.arena, ((uint64_t)mat->cols + 7) / 8, 1);
    if (!bits) return false;
    fg_signs_splitmix64(bits, mat->seed, mat->cols);
    rots[(*n)++] = (struct fg_qset_rot){mat->layer, mat->site, mat->cols, mat->block, bits};
    return true;
}

static int fill_part(struct job *j, struct part *p, struct fg_error *err)
{
    struct fg_arena *arena = &j->model.arena;
    uint64_t n_layers = (uint64_t)(p->last - p->first + 1);
    struct fg_qset_mat *mats = fg_arena_alloc(arena, j->n_needs, sizeof *mats);
    struct fg_qset_small *small = fg_arena_alloc(arena, j->n_needs, sizeof *small);
    struct fg_qset_rot *rots = fg_arena_alloc(arena, n_layers * SITES, sizeof *rots);
    bool ok = mats && small && rots;
    for (uint64_t i = 0; i < j->n_needs && ok; i++) {
        const struct fg_export_need *need = &j->needs[i];
        if (!in_part(p, layer_of(need->name))) continue;
        if (need->is_mat)
            add_mat(j, need, &mats[p->set.n_mats++]);
        else
            ok = add_small(j, need, &small[p->set.n_small++]);
    }
    for (uint64_t i = 0; i < j->model.plan.n && ok; i++) {
        const struct fg_plan_mat *mat = &j->model.plan.mats[i];
        if (mat->site && in_part(p, mat->layer)) ok = add_rot(j, mat, rots, &p->set.n_rots);
    }
    if (!ok) return fg_fail_memory(err, WHAT, j->n_needs * sizeof *mats);
    qsort(mats, p->set.n_mats, sizeof *mats, by_mat_name);
    qsort(small, p->set.n_small, sizeof *small, by_small_name);
    qsort(rots, p->set.n_rots, sizeof *rots, by_layer_site);
    p->set.mats = mats;
    p->set.small = small;
    p->set.rots = rots;
    return 0;
}

static int load_matrix(void *ctx, const char *name, struct fg_qmat *m, struct fg_error *err)
{
    struct job *j = ctx;
    return fg_synth_matrix(&j->source, name, m, err);
}

static bool on_package(void *ctx, uint64_t done, uint64_t total)
{
    (void)total;
    const struct job *j = ctx;
    return !j->o->progress || j->o->progress(j->o->ctx, j->done + done, j->total, j->item) == 0;
}

static struct fg_package_spec spec_of(struct job *j, const struct part *p)
{
    return (struct fg_package_spec){
        .kind = p->first < 0 ? FG_PACKAGE_HEAD : FG_PACKAGE_CHUNK,
        .layer_first = p->first,
        .layer_last = p->last,
        .weights_digest = j->identity,
        .export_digest = j->identity,
        .id = p->first < 0 ? j->identity : NULL,
        .set = &p->set,
        .load = load_matrix,
        .load_ctx = j,
        .progress = on_package,
        .progress_ctx = j,
    };
}

static int make_parts(struct job *j, struct fg_error *err)
{
    int64_t n_layers = j->model.cfg.n_layers;
    j->n_parts = (n_layers + CHUNK_LAYERS - 1) / CHUNK_LAYERS + 1;
    j->parts = fg_arena_alloc(&j->model.arena, (uint64_t)j->n_parts, sizeof *j->parts);
    if (!j->parts) return fg_fail_memory(err, WHAT, sizeof *j->parts);
    for (int64_t i = 0; i < j->n_parts; i++) {
        struct part *p = &j->parts[i];
        bool head = i == j->n_parts - 1;
        p->first = head ? -1 : i * CHUNK_LAYERS;
        p->last = head ? -1 : p->first + CHUNK_LAYERS - 1;
        if (p->last >= n_layers) p->last = n_layers - 1;
        p->path = head ? path_of(j, "forge/head.safetensors")
                       : path_of(j, "forge/chunk_L%02" PRId64 "-%02" PRId64 ".safetensors",
                                 p->first, p->last);
        if (!p->path) return fg_fail_memory(err, WHAT, sizeof *p);
        p->file = strrchr(p->path, '/') + 1;
        int rc = fill_part(j, p, err);
        struct fg_package_spec spec = spec_of(j, p);
        if (rc == 0) rc = fg_package_bytes(&spec, &p->bytes, err);
        if (rc) return rc;
        j->total += p->bytes;
    }
    return 0;
}

// ---- files

static int write_config(struct job *j, struct fg_error *err)
{
    if (fg_file_exists(j->config_path)) return 0;
    return fg_file_replace(j->config_path, j->model.config.data, j->model.config.len, err);
}

static int write_embedding(struct job *j, bool *written, struct fg_error *err)
{
    j->item = "embed_tokens_fp16.npy";
    if (fg_file_exists(j->embedding_path)) {
        int rc = fg_sha256_file(j->embedding_path, j->embedding_sha, err);
        j->done += j->embedding_bytes;
        return rc;
    }
    uint64_t shape[2] = {(uint64_t)j->model.cfg.vocab, (uint64_t)j->model.cfg.hidden};
    uint64_t n = shape[0] * shape[1], piece = n < EMBEDDING_PIECE ? n : EMBEDDING_PIECE;
    uint16_t *rows = malloc(piece * sizeof *rows);
    struct fg_npy_writer w = {0};
    int rc = rows ? 0 : fg_fail_memory(err, WHAT, piece * sizeof *rows);
    if (rc == 0) rc = fg_npy_writer_open(&w, j->embedding_path, FG_NPY_F16, 2, shape, err);
    for (uint64_t at = 0; at < n && rc == 0; at += piece) {
        uint64_t now = n - at < piece ? n - at : piece;
        fg_synth_embedding(&j->source, at, rows, now);
        rc = fg_npy_writer_add(&w, rows, now * sizeof *rows, err);
        j->done += now * sizeof *rows;
        if (rc == 0 && !on_package(j, 0, 0))
            rc = fg_fail(err, FG_EINTERRUPTED, WHAT, j->embedding_path, NULL, NULL, "stopped");
    }
    if (rc == 0) rc = fg_npy_writer_commit(&w, err);
    fg_npy_writer_abort(&w);
    free(rows);
    if (rc == 0) rc = fg_sha256_file(j->embedding_path, j->embedding_sha, err);
    *written = true;
    return rc;
}

static int write_part(struct job *j, struct part *p, bool *written, struct fg_error *err)
{
    j->item = p->file;
    int rc;
    if (fg_file_exists(p->path)) { // whole, as it has its name; of this identity, as the mark says
        rc = fg_sha256_file(p->path, p->written.sha256, err);
        p->written.bytes = p->bytes;
    } else {
        struct fg_package_spec spec = spec_of(j, p);
        rc = fg_package_write(p->path, &spec, &p->written, err);
        *written = true;
    }
    j->done += p->bytes;
    if (rc == 0 && !on_package(j, 0, 0))
        rc = fg_fail(err, FG_EINTERRUPTED, WHAT, p->path, NULL, NULL, "stopped");
    return rc;
}

static void fill_model(const struct job *j, struct fg_manifest_model *m)
{
    const struct fg_config *c = &j->model.cfg;
    *m = (struct fg_manifest_model){
        .layers = c->n_layers,
        .hidden = c->hidden,
        .intermediate = c->intermediate,
        .vocab = c->vocab,
        .is_linear = c->is_linear,
        .n_heads = c->n_heads,
        .n_kv_heads = c->n_kv_heads,
        .head_dim = c->head_dim,
        .rotary_dims = c->rot,
        .rope_theta = c->rope_theta,
        .rms_eps = 1e-6, // as the config says; FP32 there
        .has_gdn = true,
        .gdn = {c->n_k_heads, c->n_v_heads, c->k_head_dim, c->v_head_dim, c->conv_kernel},
        .config_sha256 = j->config_sha,
    };
}

static int write_manifest(struct job *j, struct fg_error *err)
{
    static const int64_t taps[] = {5, 19, 33, 47, 61};
    uint64_t n_chunks = (uint64_t)j->n_parts - 1;
    struct fg_manifest_chunk *chunks = fg_arena_alloc(&j->model.arena, n_chunks, sizeof *chunks);
    if (!chunks) return fg_fail_memory(err, WHAT, n_chunks * sizeof *chunks);
    for (uint64_t i = 0; i < n_chunks; i++) {
        const struct part *p = &j->parts[i];
        chunks[i] = (struct fg_manifest_chunk){p->file, p->first, p->last, p->written.bytes,
                                               p->written.sha256};
    }
    struct fg_manifest m = {0};
    fg_manifest_defaults(&m);
    char name[64];
    snprintf(name, sizeof name, "synthetic-%s", j->model.name);
    m.release_name = m.export_name = m.upstream_id = name;
    m.upstream_revision = "random";
    m.weights_digest = m.export_digest = j->identity;
    m.graph_id = name;
    m.arch = fg_family_name(j->model.cfg.family);
    m.numerics_abi = 1;
    fill_model(j, &m.model);
    m.taps = taps;
    while (m.n_taps < (int64_t)FG_COUNT(taps) && taps[m.n_taps] < m.model.layers)
        m.n_taps++;
    for (int i = 0; j->model.ctxs[i]; i++) {
        int64_t ctx = j->model.ctxs[i];
        m.ctxs[i] = m.kv_len[i] = m.pctxs[i] = m.pkv_len[i] = ctx;
        m.prefill_rows[i] = ctx <= PREFILL_CTX_SHORT ? PREFILL_ROWS_SHORT : PREFILL_ROWS_LONG;
        m.n_ctxs = m.n_pctxs = i + 1;
    }
    m.rotation.given = true;
    m.rotation.block = FG_ACT_BLOCK;
    fg_rotation_seed(&m.rotation.seed_mlp_in, "mlp_in", 0);
    fg_rotation_seed(&m.rotation.seed_mlp_mid, "mlp_mid", 0);
    fg_rotation_seed(&m.rotation.seed_mix_in, "mix_in", 0);
    fg_rotation_seed(&m.rotation.seed_mix_out, "mix_out", 0);
    m.chunks = chunks;
    m.n_chunks = (int64_t)n_chunks;
    const struct part *head = &j->parts[n_chunks];
    m.head.file = head->file;
    m.head.bytes = head->written.bytes;
    m.head.sha256 = head->written.sha256;
    m.head.id = j->identity;
    m.head.rms1p = j->model.cfg.norm_zero_centred;
    m.embedding.file = "../model/embed_tokens_fp16.npy";
    m.embedding.sha256 = j->embedding_sha;
    return fg_manifest_write(&m, j->manifest_path, err);
}

// ---- the run

static int take_lock(struct job *j, struct fg_error *err)
{
    j->lock_fd = open(j->lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (j->lock_fd < 0) return fg_fail_errno(err, j->lock_path, "open", errno);
    if (flock(j->lock_fd, LOCK_EX | LOCK_NB) == 0) return 0;
    if (errno != EWOULDBLOCK) return fg_fail_errno(err, j->lock_path, "lock", errno);
    return fg_fail(err, FG_EBUSY, WHAT, j->o->dir, NULL, "no other run there", "one at work");
}

// What lies in the directory must come from this shape and seed, or be nothing.
static int check_mark(struct job *j, struct fg_error *err)
{
    struct fg_buf mark = {0};
    if (!fg_path_taken(j->mark_path)) {
        if (fg_path_taken(j->config_path) || fg_path_taken(j->manifest_path))
            return fg_fail(err, FG_EINPUT, WHAT, j->o->dir, NULL,
                           "a new or empty directory, or one of this shape and seed",
                           "something else");
        fg_buf_printf(&mark, "%s\n", j->identity);
        int rc = mark.failed ? fg_fail_memory(err, WHAT, FG_SHA256_HEX)
                             : fg_file_replace(j->mark_path, mark.data, mark.len, err);
        fg_buf_free(&mark);
        return rc;
    }
    int rc = fg_file_load(&mark, j->mark_path, MARK_BYTES_MAX, err);
    if (rc == 0 && (mark.len != FG_SHA256_HEX || strncmp(mark.data, j->identity, 64) != 0)) {
        rc = fg_fail(err, FG_EINPUT, WHAT, j->o->dir, NULL, "a bundle of this shape and seed",
                     "another one");
        fg_error_hint(err, "choose another directory, or remove it");
    }
    fg_buf_free(&mark);
    return rc;
}

static int check_disk(const struct job *j, struct fg_error *err)
{
    uint64_t missing = fg_file_exists(j->embedding_path) ? 0 : j->embedding_bytes;
    for (int64_t i = 0; i < j->n_parts; i++)
        missing += fg_file_exists(j->parts[i].path) ? 0 : j->parts[i].bytes;
    uint64_t have = fg_disk_free_bytes(j->o->dir);
    if (missing == 0 || missing + MARGIN_BYTES <= have) return 0;
    char need[64];
    snprintf(need, sizeof need, "%" PRIu64 " bytes free", missing + MARGIN_BYTES);
    return fg_fail(err, FG_ERESOURCE, WHAT, j->o->dir, "disk", need, "%" PRIu64, have);
}

static int set_up(struct job *j, struct fg_error *err)
{
    int rc = fg_synth_model_new(&j->model, j->o->shape, err);
    if (rc) return rc;
    j->source.seed = j->o->seed;
    j->source.pool = j->o->pool;
    j->embedding_bytes =
        (uint64_t)j->model.cfg.vocab * (uint64_t)j->model.cfg.hidden * sizeof(uint16_t);
    j->total = j->embedding_bytes;
    j->mark_path = path_of(j, ".forge/synthetic");
    j->lock_path = path_of(j, ".forge/lock");
    j->config_path = path_of(j, "model/config.json");
    j->embedding_path = path_of(j, "model/embed_tokens_fp16.npy");
    j->manifest_path = path_of(j, "forge/manifest.json");
    if (!identify(j) || !j->mark_path || !j->lock_path || !j->config_path || !j->embedding_path ||
        !j->manifest_path)
        return fg_fail_memory(err, WHAT, sizeof *j);
    rc = fg_model_needs(&j->needs, &j->n_needs, &j->model.cfg, &j->model.arena, err);
    return rc ? rc : make_parts(j, err);
}

static int make_dirs(struct job *j, struct fg_error *err)
{
    static const char *const dirs[] = {".forge", "model", "forge"};
    int rc = 0;
    for (size_t i = 0; i < FG_COUNT(dirs) && rc == 0; i++) {
        char *path = path_of(j, "%s", dirs[i]);
        rc = path ? fg_dir_make(path, err) : fg_fail_memory(err, WHAT, sizeof *j);
    }
    return rc;
}

static int work(struct job *j, bool *written, struct fg_error *err)
{
    int rc = make_dirs(j, err);
    if (rc == 0) rc = take_lock(j, err);
    if (rc == 0) rc = check_mark(j, err);
    if (rc || fg_file_exists(j->manifest_path)) return rc;
    rc = check_disk(j, err);
    if (rc == 0) rc = write_config(j, err);
    if (rc == 0) rc = write_embedding(j, written, err);
    for (int64_t i = 0; i < j->n_parts && rc == 0; i++)
        rc = write_part(j, &j->parts[i], written, err);
    if (rc == 0) rc = write_manifest(j, err);
    *written |= rc == 0;
    return rc;
}

int fg_synth_write(const struct fg_synth_options *options, bool *written, struct fg_error *err)
{
    struct job j = {.o = options, .lock_fd = -1};
    bool any = false;
    int rc = set_up(&j, err);
    if (rc == 0) rc = work(&j, &any, err);
    if (j.lock_fd >= 0) close(j.lock_fd); // and gives the lock back
    fg_synth_source_free(&j.source);
    fg_synth_model_free(&j.model);
    if (written) *written = any;
    return rc;
}
