// train/quantize_files.c: the files of an export (quantize.h), each written whole.
#include "base/file.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/size.h"
#include "forge/forge.h"
#include "quant/dequant.h"
#include "quant/pack.h"
#include "quant/signs.h"
#include "train/quantize_impl.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MATS_MAX 4                   // of a file
#define BLOBS_MAX (MATS_MAX * 6 + 2) // with INT8 factors; two bitmaps
#define PAIRS_MAX 24
#define COPY_BYTES (8ull << 20)

static char *path_of(const struct fg_quantize *q, const char *name, struct fg_error *err)
{
    char *path = fg_path_join(q->o.output, name);
    if (!path) fg_fail_memory(err, FG_QUANTIZE_WHAT, strlen(name));
    return path;
}

// ---- layer files and the head

// One file under construction. Texts of names and metadata live here too.
struct bundle {
    struct fg_quantize *q;
    const struct fg_quantize_unit *unit;
    const struct fg_plan_mat *mats[MATS_MAX];
    struct fg_quantize_result results[MATS_MAX];
    uint8_t *unpacked[MATS_MAX];
    uint8_t *signs[2]; // of the sites of this kind of file
    int n;
    struct fg_st_blob blobs[BLOBS_MAX];
    char names[BLOBS_MAX][64];
    uint64_t n_blobs;
    struct fg_st_pair pairs[PAIRS_MAX];
    char keys[PAIRS_MAX][64], values[PAIRS_MAX][32];
    uint64_t n_pairs;
};

// "gate", as MLP files call them; "linear_attn.in_proj_qkv"; "lm_head".
static const char *file_key(const struct fg_plan_mat *m)
{
    return fg_plan_part_is_mlp(m->part) ? fg_plan_part_name(m->part) : fg_plan_part_key(m->part);
}

static void add_blob(struct bundle *b, const char *key, const char *suffix, enum fg_st_dtype dtype,
                     int rank, uint64_t d0, uint64_t d1, const void *data)
{
    char *name = b->names[b->n_blobs];
    snprintf(name, sizeof b->names[0], "%s.%s", key, suffix);
    b->blobs[b->n_blobs++] = (struct fg_st_blob){
        .name = name, .dtype = dtype, .rank = rank, .shape = {d0, d1}, .data = data};
}

static void add_pair(struct bundle *b, const char *key, const char *suffix, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void add_pair(struct bundle *b, const char *key, const char *suffix, const char *fmt, ...)
{
    va_list ap;
    snprintf(b->keys[b->n_pairs], sizeof b->keys[0], "%s%s", key, suffix);
    va_start(ap, fmt);
    vsnprintf(b->values[b->n_pairs], sizeof b->values[0], fmt, ap);
    va_end(ap);
    b->pairs[b->n_pairs] = (struct fg_st_pair){b->keys[b->n_pairs], b->values[b->n_pairs]};
    b->n_pairs++;
}

static int unpack(struct bundle *b, int i, struct fg_error *err)
{
    const struct fg_plan_mat *m = b->mats[i];
    int64_t rows = m->rows / fg_qformat_rows_per_index(m->format);
    uint64_t row_bytes = fg_qformat_row_bytes(m->format, (uint64_t)m->cols);
    uint64_t bytes = (uint64_t)rows * (uint64_t)m->cols;
    b->unpacked[i] = malloc(bytes);
    if (!b->unpacked[i]) return fg_fail_memory(err, FG_QUANTIZE_WHAT, bytes);
    for (int64_t r = 0; r < rows; r++)
        fg_unpack_indices(b->unpacked[i] + r * m->cols,
                          b->results[i].fit.data + (uint64_t)r * row_bytes, m->cols,
                          fg_qformat_index_bits(m->format));
    return 0;
}

static int add_matrix(struct bundle *b, int i, struct fg_error *err)
{
    const struct fg_plan_mat *m = b->mats[i];
    const struct fg_quantize_result *r = &b->results[i];
    const char *key = file_key(m);
    enum fg_qformat f = m->format;
    uint64_t rows = (uint64_t)m->rows, cols = (uint64_t)m->cols, rank = (uint64_t)m->rank;
    uint64_t d = (uint64_t)fg_qformat_rows_per_index(f);
    int rc = 0;
    if (fg_qformat_is_kept(f)) {
        add_blob(b, key, "weight", f == FG_Q_BF16 ? FG_ST_BF16 : FG_ST_F16, 2, rows, cols,
                 r->fit.data);
        return 0;
    }
    if (f == FG_Q_INT8) {
        add_blob(b, key, "int8", FG_ST_I8, 2, rows, cols, r->fit.data);
    } else if (b->q->o.unpacked) {
        rc = unpack(b, i, err);
        add_blob(b, key, "idx", FG_ST_U8, 2, rows / d, cols, b->unpacked[i]);
    } else {
        add_blob(b, key, "pidx", FG_ST_U8, 2, rows / d, fg_qformat_row_bytes(f, cols), r->fit.data);
    }
    if (r->fit.lut)
        add_blob(b, key, "lut", FG_ST_F16, 2, (uint64_t)fg_qformat_entries(f), d, r->fit.lut);
    add_blob(b, key, "scale", FG_ST_F16, 1, rows, 0, r->fit.scale);
    if (rank) {
        const enum fg_st_dtype type = m->lr_dtype == FG_LR_I8 ? FG_ST_I8 : FG_ST_F16;
        add_blob(b, key, "lr_a", type, 2, rows, rank, r->lr_a);
        add_blob(b, key, "lr_b", type, 2, rank, cols, r->lr_b);
    }
    if (r->lr_scale) add_blob(b, key, "lr_scale", FG_ST_F32, 1, rank, 0, r->lr_scale);
    return rc;
}

// The two sites of an MLP or a mixer: the first is read by the readers, the second by the writer.
struct sites {
    const struct fg_plan_mat *at[2]; // a matrix of this file that is rotated so; NULL: none
    const char *suffix[2];
};

static struct sites sites_of(const struct bundle *b)
{
    bool mlp = b->unit->kind == FG_UNIT_MLP;
    struct sites s = {.suffix = {"in", mlp ? "mid" : "out"}};
    for (int i = 0; i < b->n; i++) {
        const char *site = b->mats[i]->site;
        if (!site) continue;
        bool second = strcmp(site, "mlp_mid") == 0 || strcmp(site, "mix_out") == 0;
        if (!s.at[second]) s.at[second] = b->mats[i];
    }
    return s;
}

static int add_rotations(struct bundle *b, const struct sites *s, struct fg_error *err)
{
    for (int i = 0; i < 2; i++) {
        const struct fg_plan_mat *m = s->at[i];
        if (!m) continue;
        uint64_t bytes = ((uint64_t)m->cols + 7) / 8;
        b->signs[i] = malloc(bytes);
        if (!b->signs[i]) return fg_fail_memory(err, FG_QUANTIZE_WHAT, bytes);
        fg_signs_splitmix64(b->signs[i], m->seed, m->cols);
        add_blob(b, "rot", m->site, FG_ST_U8, 1, bytes, 0, b->signs[i]);
    }
    return 0;
}

static void add_basis(struct bundle *b, const struct sites *s)
{
    const struct fg_plan_mat *first = s->at[0] ? s->at[0] : s->at[1];
    bool same_basis = !s->at[0] == !s->at[1];
    bool same_block = !s->at[0] || !s->at[1] || s->at[0]->block == s->at[1]->block;
    add_pair(b, "basis", "", "%s", first ? "online" : "plain");
    if (first && same_block) add_pair(b, "block", "", "%" PRId64, first->block);
    for (int i = 0; i < 2; i++) {
        const struct fg_plan_mat *m = s->at[i];
        char suffix[8];
        snprintf(suffix, sizeof suffix, "_%s", s->suffix[i]);
        if (!same_basis) add_pair(b, "basis", suffix, "%s", m ? "online" : "plain");
        if (m && !same_block) add_pair(b, "block", suffix, "%" PRId64, m->block);
        if (m) add_pair(b, "seed", suffix, "%" PRIu64, m->seed);
    }
}

static void add_metadata(struct bundle *b, const struct sites *s)
{
    const struct fg_quantize_unit *u = b->unit;
    add_pair(b, "forge", "", "%s", forge_version());
    add_pair(b, "signs", "", "splitmix64");
    if (u->kind == FG_UNIT_HEAD) {
        add_pair(b, "format", "", "%s", fg_qformat_name(b->mats[0]->format));
        if (b->q->list.embed == FG_PLAN_EMBED_HEAD) add_pair(b, "embed", "", "head");
        return;
    }
    add_pair(b, "layer", "", "%" PRId64, u->layer);
    if (u->kind == FG_UNIT_MIXER) {
        const struct fg_plan_mat *main = NULL, *kv = NULL; // the first of either
        for (int i = b->n - 1; i >= 0; i--) {
            bool is_kv = b->mats[i]->part == FG_PLAN_K || b->mats[i]->part == FG_PLAN_V;
            *(is_kv ? &kv : &main) = b->mats[i];
        }
        add_pair(b, "kind", "", "%s",
                 b->q->source.config->is_linear[u->layer] ? "linear_attention" : "full_attention");
        if (main) add_pair(b, "format", "", "%s", fg_qformat_name(main->format));
        if (kv) add_pair(b, "kv_format", "", "%s", fg_qformat_name(kv->format));
    }
    add_basis(b, s);
    for (int i = 0; i < b->n; i++) {
        const struct fg_plan_mat *m = b->mats[i];
        add_pair(b, file_key(m), ".format", "%s", fg_qformat_name(m->format));
        add_pair(b, file_key(m), ".basis", "%s", m->site ? "online" : "plain");
    }
}

static void free_bundle(struct bundle *b)
{
    for (int i = 0; i < MATS_MAX; i++) {
        fg_quantize_result_free(&b->results[i]);
        free(b->unpacked[i]);
    }
    free(b->signs[0]);
    free(b->signs[1]);
    free(b);
}

// From the source, or from what an earlier run left of this layer; then past the calibration rows.
static int make_matrix(struct fg_quantize *q, const struct fg_plan_mat *m,
                       struct fg_quantize_result *r, struct fg_error *err)
{
    bool found = false;
    const double start = fg_clock();
    const bool keep = m->layer < 0 ? fg_quantize_head_first(q) : q->walk != NULL;
    int rc = 0;
    if (keep) rc = fg_quantize_load_mat(q, m, r, &found, err);
    if (rc || found) return rc;
    if (q->walk && m->layer < 0) rc = fg_quantize_walk_to(q, q->source.config->n_layers, err);
    if (!rc) rc = fg_quantize_fit(q, m, r, err);
    r->log.seconds = fg_clock() - start;
    if (!rc && keep) rc = fg_quantize_save_mat(q, m, r, err);
    return rc;
}

static int fit_matrix(struct bundle *b, uint64_t at, struct fg_error *err)
{
    struct fg_quantize *q = b->q;
    const struct fg_plan_mat *m = &q->list.mats[at];
    struct fg_quantize_result *r = &b->results[b->n];
    uint64_t before = q->done_bytes;
    int rc = fg_quantize_tick(q, m->name, err);
    if (!rc && q->walk && m->layer >= 0) rc = fg_quantize_walk_to(q, m->layer, err);
    if (!rc) rc = make_matrix(q, m, r, err);
    if (!rc && q->walk) rc = fg_quantize_walk_past(q, m, r, err);
    if (rc) return rc;
    b->mats[b->n] = m;
    q->log[at] = r->log;
    b->n++;
    q->done_bytes += q->done_bytes - before; // the half that was left for fitting
    return 0;
}

static int write_mats(struct fg_quantize *q, struct fg_quantize_unit *u, const char *path,
                      struct fg_error *err)
{
    struct fg_st_written written;
    struct bundle *b = calloc(1, sizeof *b);
    if (!b) return fg_fail_memory(err, FG_QUANTIZE_WHAT, sizeof *b);
    b->q = q;
    b->unit = u;
    int rc = 0;
    for (uint64_t i = 0; i < u->n && !rc; i++) {
        if (q->chosen[u->first + i]) rc = fit_matrix(b, u->first + i, err);
    }
    for (int i = 0; i < b->n && !rc; i++)
        rc = add_matrix(b, i, err);
    struct sites s = sites_of(b);
    if (!rc) rc = add_rotations(b, &s, err);
    if (!rc) {
        add_metadata(b, &s);
        struct fg_st_options o = {.metadata = b->pairs, .n_metadata = b->n_pairs};
        rc = fg_st_file_write(path, b->blobs, b->n_blobs, &o, &written, err);
    }
    free_bundle(b);
    if (rc) return rc;
    u->bytes = written.bytes;
    for (uint64_t i = 0; i < u->n; i++)
        q->log[u->first + i].done = q->chosen[u->first + i];
    return 0;
}

// ---- small tensors

// Exponent of all ones: infinite or no number.
static bool is_finite(const uint8_t *data, enum fg_dtype dtype, uint64_t i)
{
    uint32_t wide;
    if (dtype == FG_F32) {
        memcpy(&wide, data + i * sizeof wide, sizeof wide);
        return (wide & 0x7F800000u) != 0x7F800000u;
    }
    uint16_t mask = dtype == FG_F16 ? 0x7C00 : 0x7F80;
    return (fg_le16_at(data, (int64_t)i) & mask) != mask;
}

static int check_finite(const struct fg_quant_tensor *t, const uint8_t *data, uint64_t first,
                        uint64_t n, struct fg_error *err)
{
    for (uint64_t i = 0; i < n; i++) {
        if (is_finite(data, t->dtype, i)) continue;
        char field[160];
        snprintf(field, sizeof field, "%s[%" PRIu64 "]", t->name, first + i);
        return fg_fail(err, FG_EINPUT, FG_QUANTIZE_WHAT, t->file, field, "a finite number",
                       "another value");
    }
    return 0;
}

static int copy_tensor(struct fg_quantize *q, struct fg_st_stream *s,
                       const struct fg_quant_tensor *t, struct fg_error *err)
{
    uint64_t row_bytes = t->cols * fg_dtype_bytes(t->dtype);
    uint64_t step = row_bytes && row_bytes < COPY_BYTES ? COPY_BYTES / row_bytes : 1;
    if (step > t->rows) step = t->rows;
    uint8_t *chunk = malloc(step * row_bytes + 1);
    int rc = chunk ? 0 : fg_fail_memory(err, FG_QUANTIZE_WHAT, step * row_bytes);
    for (uint64_t r = 0; r < t->rows && !rc; r += step) {
        uint64_t end = t->rows - r < step ? t->rows : r + step;
        rc = fg_quantize_tick(q, NULL, err);
        if (!rc) rc = fg_quant_source_read(&q->source, t, r, end, chunk, err);
        if (!rc) rc = check_finite(t, chunk, r * t->cols, (end - r) * t->cols, err);
        if (!rc) rc = fg_st_stream_add(s, chunk, (end - r) * row_bytes, err);
    }
    free(chunk);
    return rc;
}

static int write_small(struct fg_quantize *q, struct fg_quantize_unit *u, const char *path,
                       struct fg_error *err)
{
    const struct fg_st_pair pairs[] = {{"forge", forge_version()}};
    struct fg_st_options o = {.metadata = pairs, .n_metadata = FG_COUNT(pairs)};
    struct fg_st_written written;
    struct fg_st_stream *s = NULL;
    struct fg_st_blob *blobs = calloc(q->n_small + 1, sizeof *blobs);
    struct fg_quant_tensor *tensors = calloc(q->n_small + 1, sizeof *tensors);
    int rc = blobs && tensors ? 0 : fg_fail_memory(err, FG_QUANTIZE_WHAT, q->n_small);
    for (uint64_t i = 0; i < q->n_small && !rc; i++) {
        struct fg_quant_tensor *t = &tensors[i];
        rc = fg_quant_source_find(&q->source, q->small[i].canonical, q->small[i].is_mat, t, err);
        blobs[i] = (struct fg_st_blob){
            .name = t->name, .dtype = fg_quant_st_dtype(t->dtype), .rank = t->rank};
        memcpy(blobs[i].shape, t->shape, sizeof t->shape);
    }
    if (!rc) rc = fg_st_stream_open(&s, path, blobs, q->n_small, &o, err);
    for (uint64_t i = 0; i < q->n_small && !rc; i++)
        rc = copy_tensor(q, s, &tensors[i], err);
    free(blobs);
    free(tensors);
    if (rc)
        fg_st_stream_abort(s);
    else
        rc = fg_st_stream_commit(s, &written, err);
    if (!rc) u->bytes = written.bytes;
    return rc;
}

// ---- embedding

struct narrow {
    const struct fg_kernels *kernels;
    const uint8_t *src;
    enum fg_dtype dtype;
    uint16_t *dst;
    float *wide;  // [rows][cols]
    uint8_t *bad; // [rows]: some value is not finite in F16
    uint64_t cols;
};

static void narrow_row(void *ctx, int64_t item, int worker)
{
    const struct narrow *c = ctx;
    uint64_t at = (uint64_t)item * c->cols;
    (void)worker;
    c->kernels->widen(c->wide + at, c->src + at * fg_dtype_bytes(c->dtype), c->dtype,
                      (int64_t)c->cols);
    c->bad[item] = 0;
    for (uint64_t j = 0; j < c->cols; j++) {
        uint16_t h = fg_f16_of_f32(c->wide[at + j]);
        c->dst[at + j] = h;
        if ((h & 0x7C00) == 0x7C00) c->bad[item] = 1;
    }
}

static int refuse_row(const struct fg_quant_tensor *t, uint64_t row, struct fg_error *err)
{
    char field[128];
    snprintf(field, sizeof field, "%s[%" PRIu64 "]", t->name, row);
    return fg_fail(err, FG_EINPUT, FG_QUANTIZE_WHAT, t->file, field,
                   "finite values in the range of F16", "another value");
}

static int narrow_rows(struct fg_quantize *q, struct fg_st_stream *s,
                       const struct fg_quant_tensor *t, uint64_t step, uint8_t *raw,
                       struct narrow *c, struct fg_error *err)
{
    int rc = 0;
    for (uint64_t r = 0; r < t->rows && !rc; r += step) {
        uint64_t end = t->rows - r < step ? t->rows : r + step, n = end - r;
        rc = fg_quantize_tick(q, NULL, err);
        if (!rc) rc = fg_quant_source_read(&q->source, t, r, end, raw, err);
        if (rc) break;
        c->src = raw;
        fg_pool_run(q->o.pool, (int64_t)n, narrow_row, c);
        for (uint64_t i = 0; i < n && !rc; i++) {
            if (c->bad[i]) rc = refuse_row(t, r + i, err);
        }
        if (!rc) rc = fg_st_stream_add(s, c->dst, n * t->cols * sizeof *c->dst, err);
        fg_quant_source_release(&q->source, t, r, end);
        q->done_bytes += n * t->cols * fg_dtype_bytes(t->dtype);
    }
    return rc;
}

static int write_embedding(struct fg_quantize *q, struct fg_quantize_unit *u, const char *path,
                           struct fg_error *err)
{
    const struct fg_st_pair pairs[] = {{"forge", forge_version()}};
    struct fg_st_options o = {.metadata = pairs, .n_metadata = FG_COUNT(pairs)};
    struct fg_st_written written;
    struct fg_st_stream *s = NULL;
    struct fg_quant_tensor t;
    int rc = fg_quantize_tick(q, "embed_tokens", err);
    if (!rc) rc = fg_quant_source_find(&q->source, "embed_tokens", true, &t, err);
    if (rc) return rc;
    struct fg_st_blob blob = {
        .name = "embed_tokens.weight", .dtype = FG_ST_F16, .rank = 2, .shape = {t.rows, t.cols}};
    rc = fg_st_stream_open(&s, path, &blob, 1, &o, err);
    if (rc) return rc;
    uint64_t row_bytes = t.cols * sizeof(float);
    uint64_t step = row_bytes < COPY_BYTES ? COPY_BYTES / row_bytes : 1;
    uint8_t *raw = malloc(step * row_bytes);
    struct narrow c = {.kernels = q->o.kernels,
                       .dtype = t.dtype,
                       .dst = malloc(step * row_bytes),
                       .wide = malloc(step * row_bytes),
                       .bad = malloc(step),
                       .cols = t.cols};
    if (!raw || !c.dst || !c.wide || !c.bad)
        rc = fg_fail_memory(err, FG_QUANTIZE_WHAT, step * row_bytes);
    if (!rc) rc = narrow_rows(q, s, &t, step, raw, &c, err);
    free(raw);
    free(c.dst);
    free(c.wide);
    free(c.bad);
    if (rc)
        fg_st_stream_abort(s);
    else
        rc = fg_st_stream_commit(s, &written, err);
    if (!rc) u->bytes = written.bytes;
    return rc;
}

// ---- any unit, and the texts

int fg_quantize_write_unit(struct fg_quantize *q, struct fg_quantize_unit *u, struct fg_error *err)
{
    char *path = path_of(q, u->file, err);
    if (!path) return FG_ERESOURCE;
    int rc = u->kind == FG_UNIT_SMALL ? write_small(q, u, path, err)
             : u->kind == FG_UNIT_EMBED
                 ? q->list.embed == FG_PLAN_EMBED_INT8
                       ? fg_quantize_write_embed_int8(q, path, &u->bytes, err)
                       : write_embedding(q, u, path, err)
                 : write_mats(q, u, path, err);
    free(path);
    u->done = rc == 0;
    return rc;
}

int fg_quantize_write_texts(struct fg_quantize *q, struct fg_error *err)
{
    struct fg_buf text = {0};
    const char *name;
    int rc = 0;
    for (int i = 0; !rc && fg_quant_source_text(&q->source, i, &name, &text, q->o.log, &rc, err);
         i++) {
        if (rc || text.len == 0) continue;
        char *path = path_of(q, name, err);
        rc = path ? fg_file_replace(path, text.data, text.len, err) : FG_ERESOURCE;
        free(path);
    }
    fg_buf_free(&text);
    return rc;
}
