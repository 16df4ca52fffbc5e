// bundle/convert_build.c: the packages of a bundle and their manifest (specs: runtime 1.2, 1.3).
#include "base/file.h"
#include "base/num.h"
#include "base/size.h"
#include "bundle/convert_impl.h"
#include "format/package.h"
#include "quant/signs.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_FILE "head.safetensors"

// Contexts that a build offers unless told otherwise (specs: runtime 3.1).
static const int64_t ladder[] = {8192, 16384, 32768, 65536, 98304, 131072, 196608};
#define ROWS_LONG_FROM 131072 // entries from here on prefill in shorter blocks
#define ROWS_SHORT 64
#define ROWS_LONG 32

// Layers whose outputs the drafter of the 64-layer model reads.
static const int64_t taps_64[] = {5, 19, 33, 47, 61};

// ---- packages

// The part of the export's set that one package holds; arrays are the caller's to free.
struct part {
    struct fg_qset set;
    struct fg_qset_mat *mats;
    struct fg_qset_small *small;
    const struct fg_qset_mat *last; // written last; its pages can go
    struct fg_convert_job *j;
};

static void part_free(struct part *p)
{
    free(p->mats);
    free(p->small);
}

static bool belongs(const char *name, int64_t first, int64_t last)
{
    long long layer;
    if (sscanf(name, "layers.%lld.", &layer) != 1) return first < 0;
    return layer >= first && layer <= last;
}

static int part_make(struct part *p, struct fg_convert_job *j, const struct fg_convert_file *f)
{
    const struct fg_qset *all = fg_export_set(j->export);
    *p = (struct part){.j = j};
    p->mats = calloc(all->n_mats + 1, sizeof *p->mats);
    p->small = calloc(all->n_small + 1, sizeof *p->small);
    if (!p->mats || !p->small) return fg_fail_memory(j->err, FG_CONVERT_WHAT, all->n_mats);
    for (uint64_t i = 0; i < all->n_mats; i++) {
        if (belongs(all->mats[i].name, f->first, f->last)) p->mats[p->set.n_mats++] = all->mats[i];
    }
    for (uint64_t i = 0; i < all->n_small; i++) {
        if (belongs(all->small[i].name, f->first, f->last))
            p->small[p->set.n_small++] = all->small[i];
    }
    p->set.mats = p->mats;
    p->set.small = p->small;
    for (uint64_t i = 0; i < all->n_rots; i++) { // sorted by layer: one run
        if (all->rots[i].layer < f->first || all->rots[i].layer > f->last) continue;
        if (p->set.n_rots++ == 0) p->set.rots = &all->rots[i];
    }
    return 0;
}

// Stands for the digests while only the size of a file is asked for.
static const char no_digest[] = "0000000000000000000000000000000000000000000000000000000000000000";

static void spec_of(struct fg_package_spec *spec, struct part *p, const struct fg_convert_file *f)
{
    const bool known = p->j->digest.lines != NULL;
    const char *hex = known ? p->j->digest.hex : no_digest;
    *spec = (struct fg_package_spec){
        .kind = f->first < 0 ? FG_PACKAGE_HEAD : FG_PACKAGE_CHUNK,
        .layer_first = f->first,
        .layer_last = f->last,
        .weights_digest = hex,
        .export_digest = hex,
        .id = f->first >= 0 ? NULL
              : known       ? p->j->digest.head
                            : no_digest,
        .set = &p->set,
    };
}

static void release(const struct fg_qset_mat *mat)
{
    if (!mat) return;
    const struct fg_qmat *m = &mat->m;
    const uint64_t rows = (uint64_t)(m->rows / fg_qformat_rows_per_index(m->format));
    const uint64_t cols = (uint64_t)m->cols;
    if (m->pidx) fg_map_release(m->pidx, rows * fg_qformat_row_bytes(m->format, cols));
    if (m->idx) fg_map_release(m->idx, rows * cols);
    if (m->codes) fg_map_release(m->codes, rows * cols);
    if (m->weight) fg_map_release(m->weight, rows * cols * (m->format == FG_Q_F32 ? 4 : 2));
}

// The arrays lie in maps; what this is for is to give back those that are written.
static int load(void *ctx, const char *name, struct fg_qmat *m, struct fg_error *err)
{
    struct part *p = ctx;
    const struct fg_qset_mat *mat = fg_qset_find_mat(&p->set, name);
    (void)err;
    if (mat != p->last) release(p->last);
    p->last = mat;
    if (mat) *m = mat->m;
    return 0;
}

static bool on_written(void *ctx, uint64_t done, uint64_t total)
{
    struct part *p = ctx;
    (void)total;
    return fg_convert_tick(p->j, done) == 0;
}

int fg_convert_package(struct fg_convert_job *j, struct fg_convert_file *f)
{
    struct part part;
    struct fg_package_spec spec;
    struct fg_st_written written;
    int rc = part_make(&part, j, f);
    if (!rc) {
        spec_of(&spec, &part, f);
        spec.load = load;
        spec.load_ctx = &part;
        spec.progress = on_written;
        spec.progress_ctx = &part;
        rc = fg_package_write(f->path, &spec, &written, j->err);
        release(part.last);
    }
    if (!rc) {
        f->bytes = written.bytes;
        memcpy(f->sha256, written.sha256, sizeof f->sha256);
    }
    part_free(&part);
    return rc;
}

static int add_package(struct fg_convert_job *j, const char *name, int64_t first, int64_t last)
{
    struct part part;
    struct fg_package_spec spec;
    struct fg_convert_file *f = fg_convert_add_file(j, "forge", name);
    if (!f) return FG_ERESOURCE;
    f->first = first;
    f->last = last;
    int rc = part_make(&part, j, f);
    if (!rc) {
        spec_of(&spec, &part, f);
        rc = fg_package_bytes(&spec, &f->bytes, j->err);
    }
    part_free(&part);
    return rc;
}

// The manifest has one seed and one block for all layers (specs: runtime 1.2): the block of a width
// is its largest power-of-two divisor up to that.
static int check_rotations(const struct fg_convert_job *j)
{
    const struct fg_export_facts *f = fg_export_facts(j->export);
    const struct fg_qset *s = fg_export_set(j->export);
    if (!f->seeds_regular)
        return fg_fail(j->err, FG_EINPUT, FG_CONVERT_WHAT, f->dir, "seeds of the rotations",
                       "a base plus the layer, for each site", "another rule");
    for (uint64_t i = 0; i < s->n_rots; i++) {
        const struct fg_qset_rot *r = &s->rots[i];
        int64_t block = fg_rotation_block(r->n);
        if (block > f->block) block = f->block;
        if (r->block == block) continue;
        char field[64], expected[64];
        snprintf(field, sizeof field, "block of layers.%" PRId64 ".rot.%s", r->layer, r->site);
        snprintf(expected, sizeof expected, "%" PRId64 " for a width of %" PRId64, block, r->n);
        return fg_fail(j->err, FG_EINPUT, FG_CONVERT_WHAT, f->dir, field, expected, "%" PRId64,
                       r->block);
    }
    return 0;
}

int fg_convert_list_build(struct fg_convert_job *j)
{
    char name[64];
    const int64_t n = j->config->n_layers;
    int rc = check_rotations(j);
    for (int64_t first = 0; first < n && !rc; first += FG_CONVERT_CHUNK_LAYERS) {
        int64_t last = first + FG_CONVERT_CHUNK_LAYERS - 1;
        if (last >= n) last = n - 1;
        snprintf(name, sizeof name, "chunk_L%02" PRId64 "-%02" PRId64 ".safetensors", first, last);
        rc = add_package(j, name, first, last);
    }
    return rc ? rc : add_package(j, HEAD_FILE, -1, -1);
}

// ---- manifest

// The double that a person wrote for this float.
static double short_double(float v)
{
    char text[48];
    double d = (double)v;
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, (double)v);
        for (char *p = text; *p; p++) { // whatever the locale puts for the point
            if (!strchr("0123456789e+-", *p)) *p = '.';
        }
        if (fg_parse_f64(text, &d) && (float)d == v) return d;
    }
    return (double)v;
}

static void fill_model(struct fg_manifest_model *m, const struct fg_convert_job *j)
{
    const struct fg_config *c = j->config;
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
        .rms_eps = short_double(c->norm_eps),
        .has_gdn = c->n_linear > 0,
        .config_sha256 = fg_convert_find(j, "model/config.json")->sha256,
    };
    if (!m->has_gdn) return;
    m->gdn = (struct fg_manifest_gdn){.k_heads = c->n_k_heads,
                                      .v_heads = c->n_v_heads,
                                      .dk = c->k_head_dim,
                                      .dv = c->v_head_dim,
                                      .conv = c->conv_kernel};
}

static void add_ctx(struct fg_manifest *m, int64_t ctx)
{
    m->kv_len[m->n_ctxs] = ctx;
    m->ctxs[m->n_ctxs++] = ctx;
}

static void fill_contexts(struct fg_manifest *m, const struct fg_convert_job *j)
{
    const struct fg_convert_options *o = j->o;
    const int64_t most = j->config->max_positions;
    for (int i = 0; i < o->n_ctxs; i++)
        add_ctx(m, o->ctxs[i]);
    for (size_t i = 0; i < FG_COUNT(ladder) && o->n_ctxs == 0 && ladder[i] <= most; i++)
        add_ctx(m, ladder[i]);
    if (m->n_ctxs == 0) { // a model shorter than the ladder's first step
        int64_t whole = most / FG_MANIFEST_CTX_STEP * FG_MANIFEST_CTX_STEP;
        add_ctx(m, whole > 0 ? whole : FG_MANIFEST_CTX_STEP);
    }
    const int64_t *from = o->n_pctxs > 0 ? o->pctxs : m->ctxs;
    int n = o->n_pctxs > 0 ? o->n_pctxs : o->n_pctxs < 0 ? 0 : m->n_ctxs;
    for (int i = 0; i < n; i++) {
        m->pctxs[i] = m->pkv_len[i] = from[i];
        m->prefill_rows[i] = from[i] < ROWS_LONG_FROM ? ROWS_SHORT : ROWS_LONG;
    }
    m->n_pctxs = n;
}

static void fill_kv(struct fg_manifest *m, const struct fg_convert_options *o)
{
    static const int flags[FG_KV_N_FORMATS] = {[FG_KV_FP16] = FG_CONVERT_KV_FP16,
                                               [FG_KV_V8] = FG_CONVERT_KV_V8,
                                               [FG_KV_KV8] = FG_CONVERT_KV_KV8};
    int offered = o->kv ? o->kv : FG_CONVERT_KV_FP16 | FG_CONVERT_KV_V8 | FG_CONVERT_KV_KV8;
    m->kv.given = true;
    for (int i = 0; i < FG_KV_N_FORMATS; i++) {
        m->kv.offers[i] = (offered & flags[i]) != 0;
        if (!m->kv.offers[i]) m->kv.hadamard[i] = false;
        if (o->kv_default ? o->kv_default == flags[i] : m->kv.offers[i])
            m->kv.def = (enum fg_kv_format)i;
    }
}

static void fill_rotation(struct fg_manifest *m, const struct fg_convert_job *j)
{
    static const int64_t usual[FG_EXPORT_SITES] = {1000, 2000, 3000, 4000};
    const struct fg_export_facts *f = fg_export_facts(j->export);
    uint64_t seeds[FG_EXPORT_SITES];
    if (f->block == 0) return;
    for (int i = 0; i < FG_EXPORT_SITES; i++)
        seeds[i] = (uint64_t)(f->seed_base[i] < 0 ? usual[i] : f->seed_base[i]);
    m->rotation = (struct fg_manifest_rotation){.given = true,
                                                .block = f->block,
                                                .seed_mlp_in = seeds[0],
                                                .seed_mlp_mid = seeds[1],
                                                .seed_mix_in = seeds[2],
                                                .seed_mix_out = seeds[3],
                                                .numpy = f->signs == FG_SIGNS_NUMPY};
}

static int fill_files(struct fg_manifest *m, const struct fg_convert_job *j)
{
    struct fg_manifest_chunk *chunks = calloc(j->n_files, sizeof *chunks);
    if (!chunks) return fg_fail_memory(j->err, FG_CONVERT_WHAT, j->n_files * sizeof *chunks);
    m->chunks = chunks;
    for (uint64_t i = 0; i < j->n_files; i++) {
        const struct fg_convert_file *f = &j->files[i];
        if (f->source || f->first < 0) continue;
        chunks[m->n_chunks++] = (struct fg_manifest_chunk){.file = strchr(f->name, '/') + 1,
                                                           .first = f->first,
                                                           .last = f->last,
                                                           .bytes = f->bytes,
                                                           .sha256 = f->sha256};
    }
    const struct fg_convert_file *head = fg_convert_find(j, "forge/" HEAD_FILE);
    m->head.file = HEAD_FILE;
    m->head.bytes = head->bytes;
    m->head.sha256 = head->sha256;
    m->head.id = j->digest.head;
    m->head.rms1p = j->config->norm_zero_centred;
    m->embedding.kind = fg_export_embedding(j->export)->kind;
    if (m->embedding.kind == FG_EMBEDDING_HEAD) return 0;
    const char *name = fg_convert_embedding_file(j);
    char listed[64];
    snprintf(listed, sizeof listed, "model/%s", name);
    m->embedding.file = m->embedding.kind == FG_EMBEDDING_INT8
                            ? "../model/" FG_CONVERT_EMBEDDING_INT8
                            : "../model/" FG_CONVERT_EMBEDDING;
    m->embedding.sha256 = fg_convert_find(j, listed)->sha256;
    return 0;
}

int fg_convert_manifest(struct fg_convert_job *j, const char *path)
{
    const struct fg_config *c = j->config;
    struct fg_manifest m = {0};
    fill_model(&m.model, j);
    fg_manifest_defaults(&m); // of this model
    m.release_name = j->name;
    m.weights_digest = j->digest.hex;
    m.upstream_id = j->o->upstream_id;
    m.upstream_revision = j->o->upstream_revision;
    m.export_name = fg_export_facts(j->export)->name;
    m.export_digest = j->digest.hex;
    m.arch = fg_family_name(c->family);
    if (!m.graph_id) m.graph_id = m.arch;
    if (c->n_layers == 64 && c->n_linear > 0) {
        m.taps = taps_64;
        m.n_taps = (int64_t)FG_COUNT(taps_64);
    }
    fill_contexts(&m, j);
    fill_kv(&m, j->o);
    fill_rotation(&m, j);
    int rc = fill_files(&m, j);
    if (!rc) rc = fg_manifest_write(&m, path, j->err);
    free((void *)m.chunks);
    return rc;
}
