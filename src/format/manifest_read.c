// Reading manifest.json: one pass of the pull reader, driven by tables of fields, with the JSON
// pointer of the value at hand for errors. Types and presence are checked here, the rules between
// values by fg_manifest_check.
#include "base/buf.h"
#include "base/file.h"
#include "base/size.h"
#include "format/json_fields.h"
#include "format/manifest.h"
#include "format/manifest_impl.h"
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT FG_MANIFEST_WHAT

// What is compared with derived values once everything is read.
struct chunk_lists {
    const int64_t *gdn, *att, *taps;
    int64_t n_gdn, n_att, n_taps;
};

struct row_map { // context entry to rows, in the file's order
    int64_t n;
    int64_t ctx[FG_MANIFEST_CTXS_MAX], rows[FG_MANIFEST_CTXS_MAX];
};

// What the reader has beside the manifest: struct fg_fields.ctx.
struct extra {
    struct fg_manifest *m;
    struct fg_manifest_chunk *chunks;
    struct chunk_lists *lists; // of each chunk
    int64_t n_layer_types;
    struct row_map kv_len, pkv_len, prefill_rows;
};

static struct extra *extra_of(const struct fg_fields *r)
{
    return r->ctx;
}

// Rows of the tables below.
#define FIELD(name, type, structure, member)                                                       \
    {                                                                                              \
        .key = (name), .kind = FG_FIELD_##type, .at = offsetof(structure, member)                  \
    }
#define NUMBER(name, structure, member, least, most)                                               \
    {                                                                                              \
        .key = (name), .kind = FG_FIELD_INTEGER, .at = offsetof(structure, member),                \
        .min = (least), .max = (most)                                                              \
    }
#define CONSTANT(name, value)                                                                      \
    {                                                                                              \
        .key = (name), .kind = FG_FIELD_INTEGER, .at = FG_FIELD_NOWHERE, .min = (value),           \
        .max = (value)                                                                             \
    }
#define WORD(name, word)                                                                           \
    {                                                                                              \
        .key = (name), .kind = FG_FIELD_SAME, .is = (word)                                         \
    }
#define OBJECT(name, reader)                                                                       \
    {                                                                                              \
        .key = (name), .read = (reader)                                                            \
    }
#define MAYBE(name, reader)                                                                        \
    {                                                                                              \
        .key = (name), .read = (reader), .optional = true                                          \
    }

// ---- the parts of a manifest

static int read_upstream(struct fg_fields *r, void *base)
{
    static const struct fg_field fields[] = {
        FIELD("id", MAYBE_TEXT, struct fg_manifest, upstream_id),
        FIELD("revision", MAYBE_TEXT, struct fg_manifest, upstream_revision),
    };
    return fg_fields_object(r, fields, FG_COUNT(fields), false, base);
}

static int read_release(struct fg_fields *r, void *base)
{
    static const struct fg_field fields[] = {
        FIELD("name", TEXT, struct fg_manifest, release_name),
        FIELD("weights_digest", TEXT, struct fg_manifest, weights_digest),
        OBJECT("upstream", read_upstream),
    };
    return fg_fields_object(r, fields, FG_COUNT(fields), false, base);
}

static int read_export(struct fg_fields *r, void *base)
{
    static const struct fg_field fields[] = {
        FIELD("name", TEXT, struct fg_manifest, export_name),
        FIELD("digest", TEXT, struct fg_manifest, export_digest),
    };
    return fg_fields_object(r, fields, FG_COUNT(fields), false, base);
}

static int read_graph(struct fg_fields *r, void *base)
{
    static const struct fg_field fields[] = {
        FIELD("id", TEXT, struct fg_manifest, graph_id),
        FIELD("arch", TEXT, struct fg_manifest, arch),
        NUMBER("numerics_abi", struct fg_manifest, numerics_abi, 1, INT32_MAX),
    };
    return fg_fields_object(r, fields, FG_COUNT(fields), false, base);
}

static int read_layer_types(struct fg_fields *r, void *base)
{
    struct fg_manifest_model *model = base;
    bool kinds[FG_MANIFEST_LAYERS_MAX];
    bool first = true, more;
    int64_t n = 0;
    int rc = fg_fields_enter(r, '[');
    if (rc) return rc;
    while ((rc = fg_scan_next(&r->s, ']', &first, &more, r->err)) == 0 && more) {
        size_t before = fg_fields_push_index(r, n);
        if (n == FG_MANIFEST_LAYERS_MAX) return fg_fields_fail(r, "at most 1024 layers", "more");
        if ((rc = fg_scan_string(&r->s, &r->text, r->err))) return fg_fields_here(r, rc);
        kinds[n] = strcmp(r->text.data, "linear_attention") == 0;
        if (!kinds[n] && strcmp(r->text.data, "full_attention") != 0) {
            return fg_fields_fail(r, "linear_attention or full_attention", r->text.data);
        }
        n++;
        fg_fields_pop(r, before);
    }
    if (rc) return fg_fields_here(r, rc);
    fg_fields_leave(r);
    bool *copy = fg_arena_alloc(r->arena, (uint64_t)n, sizeof *copy);
    if (!copy) return fg_fail_memory(r->err, WHAT, (uint64_t)n);
    if (n) memcpy(copy, kinds, (size_t)n * sizeof *copy);
    model->is_linear = copy;
    extra_of(r)->n_layer_types = n;
    return 0;
}

#define SIZE(key, member) NUMBER(key, struct fg_manifest_model, member, 1, INT64_MAX)

static int read_gdn(struct fg_fields *r, void *base)
{
    static const struct fg_field fields[] = {
        SIZE("k_heads", gdn.k_heads), SIZE("v_heads", gdn.v_heads), SIZE("dk", gdn.dk),
        SIZE("dv", gdn.dv),           SIZE("conv", gdn.conv),
    };
    struct fg_manifest_model *model = base;
    bool is_null;
    int rc = fg_scan_null(&r->s, &is_null, r->err);
    if (rc || is_null) return fg_fields_here(r, rc);
    model->has_gdn = true;
    return fg_fields_object(r, fields, FG_COUNT(fields), false, base);
}

static int read_model(struct fg_fields *r, void *base)
{
    static const struct fg_field fields[] = {
        NUMBER("layers", struct fg_manifest_model, layers, 1, FG_MANIFEST_LAYERS_MAX),
        SIZE("hidden", hidden),
        SIZE("intermediate", intermediate),
        SIZE("vocab", vocab),
        OBJECT("layer_types", read_layer_types),
        SIZE("n_heads", n_heads),
        SIZE("n_kv_heads", n_kv_heads),
        SIZE("head_dim", head_dim),
        NUMBER("rotary_dims", struct fg_manifest_model, rotary_dims, 0, INT64_MAX),
        FIELD("rope_theta", REAL, struct fg_manifest_model, rope_theta),
        OBJECT("gdn", read_gdn),
        FIELD("rms_eps", REAL, struct fg_manifest_model, rms_eps),
        FIELD("config_sha256", TEXT, struct fg_manifest_model, config_sha256),
    };
    struct fg_manifest *m = base;
    int rc = fg_fields_object(r, fields, FG_COUNT(fields), false, &m->model);
    if (rc || extra_of(r)->n_layer_types == m->model.layers) return rc;
    fg_fields_push(r, "layer_types");
    char expected[64], found[64];
    snprintf(expected, sizeof expected, "%" PRId64 " layers", m->model.layers);
    snprintf(found, sizeof found, "%" PRId64, extra_of(r)->n_layer_types);
    return fg_fields_fail(r, expected, found);
}

static int read_taps(struct fg_fields *r, void *base)
{
    struct fg_manifest *m = base;
    return fg_fields_ints(r, &m->taps, &m->n_taps);
}

static int read_ladder(struct fg_fields *r, int64_t ctxs[FG_MANIFEST_CTXS_MAX], int *out)
{
    const int64_t *values;
    int64_t n;
    int rc = fg_fields_ints(r, &values, &n);
    if (rc) return rc;
    if (n > FG_MANIFEST_CTXS_MAX) return fg_fields_fail(r, "at most 32 contexts", "more");
    if (n) memcpy(ctxs, values, (size_t)n * sizeof *ctxs);
    *out = (int)n;
    return 0;
}

static int read_ctxs(struct fg_fields *r, void *base)
{
    struct fg_manifest *m = base;
    return read_ladder(r, m->ctxs, &m->n_ctxs);
}

static int read_pctxs(struct fg_fields *r, void *base)
{
    struct fg_manifest *m = base;
    return read_ladder(r, m->pctxs, &m->n_pctxs);
}

// {"8192":8192, ...}
static int read_map(struct fg_fields *r, struct row_map *map)
{
    bool first = true, more;
    int rc = fg_fields_enter(r, '{');
    if (rc) return rc;
    while ((rc = fg_scan_next(&r->s, '}', &first, &more, r->err)) == 0 && more) {
        char again[32];
        if ((rc = fg_scan_key(&r->s, &r->text, r->err))) return fg_fields_here(r, rc);
        size_t before = fg_fields_push(r, r->text.data);
        int64_t ctx = strtoll(r->text.data, NULL, 10); // saturates, and prints otherwise then
        snprintf(again, sizeof again, "%" PRId64, ctx);
        if (strcmp(again, r->text.data) != 0 || ctx < 1) {
            return fg_fields_fail(r, "a context as key", "another");
        }
        for (int64_t i = 0; i < map->n; i++) {
            if (map->ctx[i] == ctx) return fg_fields_fail(r, "the key once", "twice");
        }
        if (map->n == FG_MANIFEST_CTXS_MAX) return fg_fields_fail(r, "at most 32 contexts", "more");
        if ((rc = fg_fields_int(r, 0, INT64_MAX, &map->rows[map->n]))) return rc;
        map->ctx[map->n++] = ctx;
        fg_fields_pop(r, before);
    }
    if (rc) return fg_fields_here(r, rc);
    fg_fields_leave(r);
    return 0;
}

static int read_kv_len(struct fg_fields *r, void *base)
{
    (void)base;
    return read_map(r, &extra_of(r)->kv_len);
}

static int read_pkv_len(struct fg_fields *r, void *base)
{
    (void)base;
    return read_map(r, &extra_of(r)->pkv_len);
}

static int read_prefill_rows(struct fg_fields *r, void *base)
{
    (void)base;
    return read_map(r, &extra_of(r)->prefill_rows);
}

// ---- kv_cache

static int read_kv_name(struct fg_fields *r, enum fg_kv_format *out)
{
    return fg_kv_format_of_name(r->text.data, out) && *out < FG_KV_N_FORMATS
               ? 0
               : fg_fields_fail(r, "fp16, v8 or kv8", r->text.data);
}

static int read_kv_default(struct fg_fields *r, void *base)
{
    struct fg_manifest_kv *kv = base;
    int rc = fg_scan_string(&r->s, &r->text, r->err);
    return rc ? fg_fields_here(r, rc) : read_kv_name(r, &kv->def);
}

struct kv_object {
    const char *format, *keys, *values, *scales, *granularity;
    bool stable;
};

static int read_stable(struct fg_fields *r, void *base)
{
    struct kv_object *o = base;
    return fg_fields_here(r, fg_scan_bool(&r->s, &o->stable, r->err));
}

static int check_kv_word(struct fg_fields *r, const char *key, const char *want, const char *found)
{
    if ((!want && !found) || (want && found && strcmp(want, found) == 0)) return 0;
    fg_fields_push(r, key);
    return fg_fields_fail(r, want ? want : "null", found ? found : "null");
}

static int read_kv_object(struct fg_fields *r, struct fg_manifest_kv *kv, enum fg_kv_format f)
{
    static const struct fg_field fields[] = {
        FIELD("format", TEXT, struct kv_object, format),
        FIELD("keys", TEXT, struct kv_object, keys),
        FIELD("values", TEXT, struct kv_object, values),
        FIELD("scales", MAYBE_TEXT, struct kv_object, scales),
        FIELD("scale_granularity", MAYBE_TEXT, struct kv_object, granularity),
        OBJECT("stable_attention", read_stable),
    };
    const struct fg_kv_description *d = &fg_kv_descriptions[f];
    struct kv_object o = {0};
    int rc = fg_fields_object(r, fields, FG_COUNT(fields), true, &o);
    if (!rc) rc = check_kv_word(r, "format", fg_kv_format_name(f), o.format);
    if (!rc) rc = check_kv_word(r, "keys", d->keys, o.keys);
    if (!rc) rc = check_kv_word(r, "values", d->values, o.values);
    if (!rc) rc = check_kv_word(r, "scales", d->scales, o.scales);
    if (!rc) rc = check_kv_word(r, "scale_granularity", d->granularity, o.granularity);
    if (rc) return rc;
    kv->offers[f] = true;
    kv->stable_attention[f] = o.stable;
    return 0;
}

// One object with a key per format; `read` takes the value.
static int read_per_format(struct fg_fields *r, struct fg_manifest_kv *kv,
                           int (*read)(struct fg_fields *, struct fg_manifest_kv *,
                                       enum fg_kv_format))
{
    bool seen[FG_KV_N_FORMATS] = {false};
    bool first = true, more;
    int rc = fg_fields_enter(r, '{');
    if (rc) return rc;
    while ((rc = fg_scan_next(&r->s, '}', &first, &more, r->err)) == 0 && more) {
        enum fg_kv_format f;
        if ((rc = fg_scan_key(&r->s, &r->text, r->err))) return fg_fields_here(r, rc);
        size_t before = fg_fields_push(r, r->text.data);
        if ((rc = read_kv_name(r, &f))) return rc;
        if (seen[f]) return fg_fields_fail(r, "the key once", "twice");
        seen[f] = true;
        if ((rc = read(r, kv, f))) return rc;
        fg_fields_pop(r, before);
    }
    if (rc) return fg_fields_here(r, rc);
    fg_fields_leave(r);
    return 0;
}

static int read_kv_formats(struct fg_fields *r, void *base)
{
    return read_per_format(r, base, read_kv_object);
}

static int read_kv_rotation(struct fg_fields *r, struct fg_manifest_kv *kv, enum fg_kv_format f)
{
    int rc = fg_scan_string(&r->s, &r->text, r->err);
    if (rc) return fg_fields_here(r, rc);
    kv->hadamard[f] = strcmp(r->text.data, "hadamard") == 0;
    return kv->hadamard[f] || strcmp(r->text.data, "none") == 0
               ? 0
               : fg_fields_fail(r, "hadamard or none", r->text.data);
}

static int read_kv_rotations(struct fg_fields *r, void *base)
{
    return read_per_format(r, base, read_kv_rotation);
}

static int read_key_layout(struct fg_fields *r, void *base)
{
    struct fg_manifest_kv *kv = base;
    int rc = fg_scan_string(&r->s, &r->text, r->err);
    if (rc) return fg_fields_here(r, rc);
    kv->dim_token = strcmp(r->text.data, "dim_token") == 0;
    return kv->dim_token || strcmp(r->text.data, "token_dim") == 0
               ? 0
               : fg_fields_fail(r, "token_dim or dim_token", r->text.data);
}

static int read_kv_cache(struct fg_fields *r, void *base)
{
    static const struct fg_field fields[] = {
        WORD("format", "selectable"),         OBJECT("default", read_kv_default),
        OBJECT("formats", read_kv_formats),   MAYBE("key_layout", read_key_layout),
        MAYBE("rotation", read_kv_rotations),
    };
    struct fg_manifest *m = base;
    m->kv = (struct fg_manifest_kv){.given = true};
    m->kv.hadamard[FG_KV_KV8] = true; // where the file does not say
    int rc = fg_fields_object(r, fields, FG_COUNT(fields), true, &m->kv);
    m->kv.hadamard[FG_KV_KV8] &= m->kv.offers[FG_KV_KV8];
    return rc;
}

// ---- rotation, numerics

static int read_seeds(struct fg_fields *r, void *base)
{
    static const struct fg_field fields[] = {
        FIELD("mlp_in", U64, struct fg_manifest_rotation, seed_mlp_in),
        FIELD("mlp_mid", U64, struct fg_manifest_rotation, seed_mlp_mid),
        FIELD("mix_in", U64, struct fg_manifest_rotation, seed_mix_in),
        FIELD("mix_out", U64, struct fg_manifest_rotation, seed_mix_out),
    };
    return fg_fields_object(r, fields, FG_COUNT(fields), true, base);
}

static int read_signs(struct fg_fields *r, void *base)
{
    struct fg_manifest_rotation *rotation = base;
    int rc = fg_scan_string(&r->s, &r->text, r->err);
    if (rc) return fg_fields_here(r, rc);
    rotation->numpy = strcmp(r->text.data, "numpy-pcg64") == 0;
    return rotation->numpy || strcmp(r->text.data, "splitmix64") == 0
               ? 0
               : fg_fields_fail(r, "splitmix64 or numpy-pcg64", r->text.data);
}

static int read_rotation(struct fg_fields *r, void *base)
{
    static const struct fg_field fields[] = {
        WORD("type", "block_hadamard"),
        NUMBER("block", struct fg_manifest_rotation, block, 8, 1024),
        OBJECT("seeds", read_seeds),
        OBJECT("signs", read_signs),
    };
    struct fg_manifest *m = base;
    bool is_null;
    int rc = fg_scan_null(&r->s, &is_null, r->err);
    if (rc || is_null) return fg_fields_here(r, rc);
    m->rotation.given = true;
    return fg_fields_object(r, fields, FG_COUNT(fields), true, &m->rotation);
}

#define NUMERIC(key, member) NUMBER(key, struct fg_manifest_numerics, member, 1, 1 << 20)

static int read_attention(struct fg_fields *r, void *base)
{
    static const struct fg_field fields[] = {
        FIELD("mode", TEXT, struct fg_manifest_numerics, attention_mode),
        NUMERIC("tile", tile),
        NUMERIC("segment", segment),
    };
    return fg_fields_object(r, fields, FG_COUNT(fields), true, base);
}

static int read_c2t(struct fg_fields *r, void *base)
{
    static const struct fg_field fields[] = {
        FIELD("unit_s8", REAL, struct fg_manifest_numerics, unit_s8),
        FIELD("unit_s8b", REAL, struct fg_manifest_numerics, unit_s8b),
        FIELD("unit_pf8", REAL, struct fg_manifest_numerics, unit_pf8),
        NUMERIC("tile_verify", tile_verify),
        NUMERIC("tile_prefill", tile_prefill),
    };
    return fg_fields_object(r, fields, FG_COUNT(fields), true, base);
}

static int read_numerics(struct fg_fields *r, void *base)
{
    static const struct fg_field fields[] = {
        OBJECT("attention", read_attention),
        NUMERIC("act_block", act_block),
        OBJECT("c2t", read_c2t),
    };
    struct fg_manifest *m = base;
    return fg_fields_object(r, fields, FG_COUNT(fields), true, &m->numerics);
}

// ---- chunks, head, embedding

static int read_chunk_range(struct fg_fields *r, void *base)
{
    (void)base;
    const int64_t *range;
    int64_t n;
    int rc = fg_fields_ints(r, &range, &n);
    if (rc) return rc;
    if (n != 2) return fg_fields_fail(r, "[first, last]", "another length");
    struct fg_manifest_chunk *k = &extra_of(r)->chunks[extra_of(r)->m->n_chunks];
    k->first = range[0];
    k->last = range[1];
    return 0;
}

static int read_gdn_j(struct fg_fields *r, void *base)
{
    (void)base;
    struct chunk_lists *l = &extra_of(r)->lists[extra_of(r)->m->n_chunks];
    return fg_fields_ints(r, &l->gdn, &l->n_gdn);
}

static int read_att_j(struct fg_fields *r, void *base)
{
    (void)base;
    struct chunk_lists *l = &extra_of(r)->lists[extra_of(r)->m->n_chunks];
    return fg_fields_ints(r, &l->att, &l->n_att);
}

static int read_chunk_taps(struct fg_fields *r, void *base)
{
    (void)base;
    struct chunk_lists *l = &extra_of(r)->lists[extra_of(r)->m->n_chunks];
    return fg_fields_ints(r, &l->taps, &l->n_taps);
}

// Names kept from the original; nothing depends on them.
static int read_entries(struct fg_fields *r, void *base)
{
    (void)base;
    bool first = true, more;
    int rc = fg_fields_enter(r, '[');
    if (rc) return rc;
    for (int64_t n = 0; (rc = fg_scan_next(&r->s, ']', &first, &more, r->err)) == 0 && more; n++) {
        size_t before = fg_fields_push_index(r, n);
        if ((rc = fg_scan_string(&r->s, &r->text, r->err))) return fg_fields_here(r, rc);
        fg_fields_pop(r, before);
    }
    if (rc) return fg_fields_here(r, rc);
    fg_fields_leave(r);
    return 0;
}

static int read_chunk(struct fg_fields *r)
{
    static const struct fg_field fields[] = {
        FIELD("file", TEXT, struct fg_manifest_chunk, file),
        OBJECT("layers", read_chunk_range),
        OBJECT("gdn_j", read_gdn_j),
        OBJECT("att_j", read_att_j),
        OBJECT("taps", read_chunk_taps),
        OBJECT("entries", read_entries),
        FIELD("bytes", U64, struct fg_manifest_chunk, bytes),
        FIELD("sha256", TEXT, struct fg_manifest_chunk, sha256),
    };
    return fg_fields_object(r, fields, FG_COUNT(fields), false,
                            &extra_of(r)->chunks[extra_of(r)->m->n_chunks]);
}

static int read_chunks(struct fg_fields *r, void *base)
{
    struct fg_manifest *m = base;
    bool first = true, more;
    int rc = fg_fields_enter(r, '[');
    if (rc) return rc;
    extra_of(r)->chunks =
        fg_arena_alloc(r->arena, FG_MANIFEST_LAYERS_MAX, sizeof *extra_of(r)->chunks);
    extra_of(r)->lists =
        fg_arena_alloc(r->arena, FG_MANIFEST_LAYERS_MAX, sizeof *extra_of(r)->lists);
    if (!extra_of(r)->chunks || !extra_of(r)->lists)
        return fg_fail_memory(r->err, WHAT, FG_MANIFEST_LAYERS_MAX);
    m->chunks = extra_of(r)->chunks;
    while ((rc = fg_scan_next(&r->s, ']', &first, &more, r->err)) == 0 && more) {
        size_t before = fg_fields_push_index(r, m->n_chunks);
        if (m->n_chunks == FG_MANIFEST_LAYERS_MAX) {
            return fg_fields_fail(r, "at most 1024 chunks", "more");
        }
        if ((rc = read_chunk(r))) return rc;
        m->n_chunks++;
        fg_fields_pop(r, before);
    }
    if (rc) return fg_fields_here(r, rc);
    fg_fields_leave(r);
    return 0;
}

static int read_norm(struct fg_fields *r, void *base)
{
    struct fg_manifest *m = base;
    int rc = fg_scan_string(&r->s, &r->text, r->err);
    if (rc) return fg_fields_here(r, rc);
    m->head.rms1p = strcmp(r->text.data, "rms1p") == 0;
    return m->head.rms1p || strcmp(r->text.data, "rms") == 0
               ? 0
               : fg_fields_fail(r, "rms1p or rms", r->text.data);
}

static int read_head(struct fg_fields *r, void *base)
{
    static const struct fg_field fields[] = {
        FIELD("file", TEXT, struct fg_manifest, head.file),
        FIELD("bytes", U64, struct fg_manifest, head.bytes),
        FIELD("sha256", TEXT, struct fg_manifest, head.sha256),
        FIELD("id", TEXT, struct fg_manifest, head.id),
        OBJECT("norm", read_norm),
        WORD("logits", "h8"),
    };
    return fg_fields_object(r, fields, FG_COUNT(fields), false, base);
}

static int read_embedding_dtype(struct fg_fields *r, void *base)
{
    const char *dtype;
    int rc = fg_fields_text(r, &dtype);
    if (rc) return rc;
    for (int i = FG_EMBEDDING_DENSE; i <= FG_EMBEDDING_HEAD; i++) {
        if (strcmp(dtype, fg_manifest_embedding_dtype((enum fg_embedding_kind)i)) != 0) continue;
        ((struct fg_manifest *)base)->embedding.kind = (enum fg_embedding_kind)i;
        return 0;
    }
    return fg_fields_fail(r, "f16, int8 or head", dtype);
}

// Which of file and sha256 are there is fg_manifest_check's: the dtype may come behind them.
static int read_embedding(struct fg_fields *r, void *base)
{
    static const struct fg_field fields[] = {
        {.key = "file",
         .kind = FG_FIELD_TEXT,
         .optional = true,
         .at = offsetof(struct fg_manifest, embedding.file)},
        OBJECT("dtype", read_embedding_dtype),
        {.key = "sha256",
         .kind = FG_FIELD_TEXT,
         .optional = true,
         .at = offsetof(struct fg_manifest, embedding.sha256)},
    };
    return fg_fields_object(r, fields, FG_COUNT(fields), false, base);
}

// ---- what follows from other values

static int check_list(struct fg_fields *r, int64_t chunk, const char *key, const int64_t *found,
                      int64_t n_found, const int64_t *want, int64_t n_want)
{
    if (n_found == n_want &&
        (n_want == 0 || memcmp(found, want, (size_t)n_want * sizeof *want) == 0)) {
        return 0;
    }
    fg_fields_push(r, "chunks");
    fg_fields_push_index(r, chunk);
    fg_fields_push(r, key);
    return fg_fields_fail(
        r, strcmp(key, "taps") == 0 ? "the taps in its layers" : "as layer_types say", "others");
}

static int check_lists(struct fg_fields *r)
{
    const struct fg_manifest *m = extra_of(r)->m;
    int64_t gdn[FG_MANIFEST_LAYERS_MAX], att[FG_MANIFEST_LAYERS_MAX], taps[FG_MANIFEST_LAYERS_MAX];
    for (int64_t i = 0; i < m->n_chunks; i++) {
        const struct chunk_lists *l = &extra_of(r)->lists[i];
        int64_t n_gdn = 0, n_att = 0, n_taps = 0;
        for (int64_t layer = m->chunks[i].first; layer <= m->chunks[i].last; layer++) {
            if (m->model.is_linear[layer]) {
                gdn[n_gdn++] = layer - m->chunks[i].first;
            } else {
                att[n_att++] = layer - m->chunks[i].first;
            }
        }
        for (int64_t k = 0; k < m->n_taps; k++) {
            if (m->taps[k] >= m->chunks[i].first && m->taps[k] <= m->chunks[i].last) {
                taps[n_taps++] = m->taps[k];
            }
        }
        int rc = check_list(r, i, "gdn_j", l->gdn, l->n_gdn, gdn, n_gdn);
        if (!rc) rc = check_list(r, i, "att_j", l->att, l->n_att, att, n_att);
        if (!rc) rc = check_list(r, i, "taps", l->taps, l->n_taps, taps, n_taps);
        if (rc) return rc;
    }
    return 0;
}

// Values of `map` for each context; it may have no others.
static int take_map(struct fg_fields *r, const char *key, const struct row_map *map,
                    const int64_t *ctxs, int n, int64_t *out)
{
    int64_t found = 0;
    for (int i = 0; i < n; i++) {
        int64_t k = 0;
        while (k < map->n && map->ctx[k] != ctxs[i]) {
            k++;
        }
        if (k == map->n) {
            fg_fields_push(r, key);
            fg_fields_push_index(r, ctxs[i]);
            return fg_fields_fail(r, "the key", "none");
        }
        out[i] = map->rows[k];
        found++;
    }
    if (found == map->n) return 0;
    fg_fields_push(r, key);
    return fg_fields_fail(r, "the contexts that are offered and no others", "others");
}

// ---- the whole

// Before anything else: what kind of manifest it is.
static int check_version(struct fg_fields *r)
{
    struct fg_scan s = r->s;
    bool first = true, more;
    int rc = fg_scan_char(&r->s, '{', r->err);
    while (!rc && (rc = fg_scan_next(&r->s, '}', &first, &more, r->err)) == 0 && more) {
        rc = fg_scan_key(&r->s, &r->text, r->err);
        if (rc) break;
        fg_fields_push(r, r->text.data);
        if (strcmp(r->text.data, "version") == 0) {
            if ((rc = fg_scan_string(&r->s, &r->text, r->err))) return fg_fields_here(r, rc);
            if (strcmp(r->text.data, "coreai1") == 0) {
                rc = fg_fail(r->err, FG_EUNSUPPORTED, WHAT, s.file, r->pointer, "\"forge1\"",
                             "\"coreai1\"");
                fg_error_hint(r->err, "forge convert makes packages that this program runs");
                return rc;
            }
            if (strcmp(r->text.data, "forge1") != 0)
                return fg_fields_fail(r, "\"forge1\"", r->text.data);
            fg_fields_pop(r, 0);
            r->s = s;
            return 0;
        }
        rc = fg_fields_here(r, fg_scan_skip_within(&r->s, FG_MANIFEST_DEPTH_MAX - 1, r->err));
        fg_fields_pop(r, 0);
    }
    if (rc) return fg_fields_here(r, rc);
    fg_fields_push(r, "version");
    return fg_fields_fail(r, "\"forge1\"", "none");
}

static int read_manifest(struct fg_fields *r)
{
    static const struct fg_field fields[] = {
        WORD("version", "forge1"),         OBJECT("release", read_release),
        OBJECT("export", read_export),     OBJECT("graph", read_graph),
        OBJECT("model", read_model),       CONSTANT("T", FG_MANIFEST_T),
        CONSTANT("TP", FG_MANIFEST_TP),    CONSTANT("pend", FG_MANIFEST_T),
        OBJECT("taps", read_taps),         OBJECT("ctxs", read_ctxs),
        OBJECT("pctxs", read_pctxs),       OBJECT("kv_len", read_kv_len),
        OBJECT("pkv_len", read_pkv_len),   OBJECT("prefill_rows", read_prefill_rows),
        MAYBE("kv_cache", read_kv_cache),  OBJECT("rotation", read_rotation),
        OBJECT("numerics", read_numerics), OBJECT("chunks", read_chunks),
        OBJECT("head", read_head),         OBJECT("embedding", read_embedding),
    };
    struct fg_manifest *m = extra_of(r)->m;
    m->kv.offers[FG_KV_FP16] = true; // without the key
    int rc = check_version(r);
    if (!rc) rc = fg_fields_object(r, fields, FG_COUNT(fields), false, m);
    if (!rc) rc = fg_fields_here(r, fg_scan_end(&r->s, r->err));
    if (!rc) rc = fg_manifest_check_entries(m, r->s.file, r->err);
    if (!rc) rc = take_map(r, "kv_len", &extra_of(r)->kv_len, m->ctxs, m->n_ctxs, m->kv_len);
    if (!rc) rc = take_map(r, "pkv_len", &extra_of(r)->pkv_len, m->pctxs, m->n_pctxs, m->pkv_len);
    if (!rc) {
        rc = take_map(r, "prefill_rows", &extra_of(r)->prefill_rows, m->pctxs, m->n_pctxs,
                      m->prefill_rows);
    }
    if (!rc) rc = fg_manifest_check(m, r->s.file, r->err);
    return rc ? rc : check_lists(r);
}

int fg_manifest_parse(struct fg_manifest *m, const char *text, size_t n, const char *file,
                      struct fg_error *err)
{
    *m = (struct fg_manifest){0};
    fg_arena_init(&m->arena, 0);
    struct extra extra = {.m = m};
    struct fg_fields r = {
        .arena = &m->arena, .err = err, .depth_max = FG_MANIFEST_DEPTH_MAX, .ctx = &extra};
    if (n > FG_MANIFEST_BYTES_MAX) {
        return fg_fail(err, FG_EINPUT, WHAT, file, "size", "at most 4194304 bytes", "%zu", n);
    }
    int rc = fg_scan_begin(&r.s, text, n, WHAT, file, err);
    if (!rc) rc = read_manifest(&r);
    memcpy(m->ignored, r.ignored, sizeof m->ignored);
    m->n_ignored = r.n_ignored;
    fg_buf_free(&r.text);
    if (rc) fg_manifest_close(m);
    return rc;
}

int fg_manifest_open(struct fg_manifest *m, const char *path, struct fg_error *err)
{
    struct fg_buf text = {0};
    *m = (struct fg_manifest){0};
    int rc = fg_file_load(&text, path, FG_MANIFEST_BYTES_MAX, err);
    if (!rc) rc = fg_manifest_parse(m, text.data ? text.data : "", text.len, path, err);
    fg_buf_free(&text);
    return rc;
}

void fg_manifest_close(struct fg_manifest *m)
{
    fg_arena_free(&m->arena);
    *m = (struct fg_manifest){0};
}
