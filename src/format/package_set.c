// Which tensors each kind of package holds, and how their shapes hang together (specs: runtime 1.3,
// speculative 1.2). One table serves reader and writer.
#include "base/size.h"
#include "format/package_impl.h"
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define WHAT FG_PACKAGE_WHAT
#define FIELD_BYTES FG_PACKAGE_FIELD_BYTES
#define NAME_BYTES FG_PACKAGE_NAME_BYTES

const char *fg_package_kind_name(enum fg_package_kind kind)
{
    static const char *const names[FG_PACKAGE_N_KINDS] = {"chunk", "head", "drafter"};
    return names[kind];
}

bool fg_package_is_digest(const char *hex)
{
    size_t n = strspn(hex, "0123456789abcdef");
    return n == 64 && hex[n] == '\0';
}

// ---- arrays of a matrix

const char *fg_package_suffix(enum fg_package_part part)
{
    static const char *const suffixes[FG_PACKAGE_N_PARTS] = {
        ".int8", ".lr_a", ".lr_b", ".lr_scale", ".lut", ".pidx", ".scale", ".weight"};
    return suffixes[part];
}

const char *fg_package_part_key(enum fg_package_part part)
{
    return part == FG_PART_LR_SCALE                       ? "lr_dtype"
           : part == FG_PART_LR_A || part == FG_PART_LR_B ? "rank"
                                                          : "format";
}

bool fg_package_array(const struct fg_qmat *m, enum fg_package_part part,
                      struct fg_package_array *out)
{
    static const enum fg_st_dtype kept[FG_Q_N_FORMATS] = {
        [FG_Q_BF16] = FG_ST_BF16, [FG_Q_F16] = FG_ST_F16, [FG_Q_F32] = FG_ST_F32};
    uint64_t rows = (uint64_t)m->rows, cols = (uint64_t)m->cols, rank = (uint64_t)m->rank;
    uint64_t per_index = (uint64_t)fg_qformat_rows_per_index(m->format);
    bool lut = fg_qformat_is_lut(m->format), int8_factors = m->lr_dtype == FG_LR_I8;
    *out = (struct fg_package_array){
        .suffix = fg_package_suffix(part), .dtype = FG_ST_F16, .rank = 2, .why = {"rows", "cols"}};
    switch (part) {
    case FG_PART_INT8:
        out->dtype = FG_ST_I8;
        out->shape[0] = rows;
        out->shape[1] = cols;
        return m->format == FG_Q_INT8;
    case FG_PART_LR_A:
        if (int8_factors) out->dtype = FG_ST_I8;
        out->shape[0] = rows;
        out->shape[1] = rank;
        out->why[1] = "rank";
        return rank > 0;
    case FG_PART_LR_B:
        if (int8_factors) out->dtype = FG_ST_I8;
        out->shape[0] = rank;
        out->shape[1] = cols;
        out->why[0] = "rank";
        return rank > 0;
    case FG_PART_LR_SCALE:
        out->dtype = FG_ST_F32;
        out->rank = 1;
        out->shape[0] = rank;
        out->why[0] = "rank";
        return rank > 0 && int8_factors;
    case FG_PART_LUT:
        out->shape[0] = (uint64_t)fg_qformat_entries(m->format);
        out->shape[1] = per_index;
        out->why[0] = out->why[1] = "format";
        return lut;
    case FG_PART_PIDX:
        out->dtype = FG_ST_U8;
        out->shape[0] = rows / per_index;
        out->shape[1] = fg_qformat_row_bytes(m->format, cols);
        return lut;
    case FG_PART_SCALE:
        out->rank = 1;
        out->shape[0] = rows;
        return lut || m->format == FG_Q_INT8;
    default:
        out->dtype = kept[m->format];
        out->shape[0] = rows;
        out->shape[1] = cols;
        return fg_qformat_is_kept(m->format);
    }
}

// ---- what a package holds

// Where a tensor belongs.
enum { LINEAR = 1, FULL = 2, DRAFT = 4, IN_LAYER = 7, TOP_HEAD = 8, TOP_DRAFT = 16 };
// Tensors that a model has all of or none of, in all its layers.
enum group { NEEDED, QK_NORM, QKV_BIAS, O_BIAS, MLP_BIAS, CONVS, SELECTOR, OWN_HEAD, N_GROUPS };

// An extent: the offset of a member of struct fg_package_dims, or, negative, a fixed number.
#define D(member) ((int)offsetof(struct fg_package_dims, member))
#define FIXED(n) (-(n))

struct item {
    const char *key; // what follows "layers.I."
    int where;
    enum group group;
    bool mat, kept; // kept: only formats without a table
    const char *site;
    int rank;
    int extent[3];
};

#define MAT(key, where, group, site, rows, cols)                                                   \
    {                                                                                              \
        key, where, group, true, false, site, 2,                                                   \
        {                                                                                          \
            D(rows), D(cols)                                                                       \
        }                                                                                          \
    }
#define VEC(key, where, group, n)                                                                  \
    {                                                                                              \
        key, where, group, false, false, NULL, 1,                                                  \
        {                                                                                          \
            D(n)                                                                                   \
        }                                                                                          \
    }

// The first to name an extent says what it is: norms come before matrices.
static const struct item items[] = {
    VEC("input_layernorm.weight", IN_LAYER, NEEDED, hidden),
    VEC("post_attention_layernorm.weight", IN_LAYER, NEEDED, hidden),
    MAT("mlp.gate_proj", IN_LAYER, NEEDED, "mlp_in", intermediate, hidden),
    MAT("mlp.up_proj", IN_LAYER, NEEDED, "mlp_in", intermediate, hidden),
    MAT("mlp.down_proj", IN_LAYER, NEEDED, "mlp_mid", hidden, intermediate),
    VEC("mlp.gate_proj.bias", FULL, MLP_BIAS, intermediate),
    VEC("mlp.up_proj.bias", FULL, MLP_BIAS, intermediate),
    VEC("mlp.down_proj.bias", FULL, MLP_BIAS, hidden),

    MAT("linear_attn.in_proj_qkv", LINEAR, NEEDED, "mix_in", conv_channels, hidden),
    MAT("linear_attn.in_proj_z", LINEAR, NEEDED, "mix_in", value_dim, hidden),
    {"linear_attn.in_proj_a", LINEAR, NEEDED, true, true, NULL, 2, {D(v_heads), D(hidden)}},
    {"linear_attn.in_proj_b", LINEAR, NEEDED, true, true, NULL, 2, {D(v_heads), D(hidden)}},
    MAT("linear_attn.out_proj", LINEAR, NEEDED, "mix_out", hidden, value_dim),
    {"linear_attn.conv1d.weight",
     LINEAR,
     NEEDED,
     false,
     false,
     NULL,
     3,
     {D(conv_channels), FIXED(1), D(conv_kernel)}},
    VEC("linear_attn.A_log", LINEAR, NEEDED, v_heads),
    VEC("linear_attn.dt_bias", LINEAR, NEEDED, v_heads),
    VEC("linear_attn.norm.weight", LINEAR, NEEDED, v_head_dim),

    MAT("self_attn.q_proj", FULL | DRAFT, NEEDED, "mix_in", q_rows, hidden),
    MAT("self_attn.k_proj", FULL | DRAFT, NEEDED, "mix_in", kv_rows, hidden),
    MAT("self_attn.v_proj", FULL | DRAFT, NEEDED, "mix_in", kv_rows, hidden),
    MAT("self_attn.o_proj", FULL | DRAFT, NEEDED, "mix_out", hidden, attn_out),
    VEC("self_attn.q_norm.weight", FULL | DRAFT, QK_NORM, head_dim),
    VEC("self_attn.k_norm.weight", FULL | DRAFT, QK_NORM, head_dim),
    VEC("self_attn.q_proj.bias", FULL, QKV_BIAS, q_rows),
    VEC("self_attn.k_proj.bias", FULL, QKV_BIAS, kv_rows),
    VEC("self_attn.v_proj.bias", FULL, QKV_BIAS, kv_rows),
    VEC("self_attn.o_proj.bias", FULL, O_BIAS, hidden),

    MAT("attention_conv.kernel_projection", DRAFT, CONVS, NULL, conv_rows, hidden),
    MAT("mlp_conv.kernel_projection", DRAFT, CONVS, NULL, conv_rows, hidden),
    {"attention_conv.base_kernel",
     DRAFT,
     CONVS,
     false,
     false,
     NULL,
     3,
     {FIXED(2), D(conv_taps), D(hidden)}},
    {"mlp_conv.base_kernel",
     DRAFT,
     CONVS,
     false,
     false,
     NULL,
     3,
     {FIXED(2), D(conv_taps), D(hidden)}},

    VEC("norm.weight", TOP_HEAD | TOP_DRAFT, NEEDED, hidden),
    MAT("lm_head", TOP_HEAD, NEEDED, NULL, vocab, hidden),
    MAT("lm_head", TOP_DRAFT, OWN_HEAD, NULL, vocab, hidden),
    MAT("fc", TOP_DRAFT, NEEDED, NULL, hidden, drafter_in),
    VEC("hidden_norm.weight", TOP_DRAFT, NEEDED, hidden),
    MAT("candidate_selector.hidden_projection", TOP_DRAFT, SELECTOR, NULL, selector_rank, hidden),
};

bool fg_package_layer_of(const char *name, int64_t *layer, const char **rest)
{
    static const char start[] = "layers.";
    const char *p = name + sizeof start - 1;
    if (strncmp(name, start, sizeof start - 1) != 0) return false;
    int64_t n = 0;
    const char *digits = p;
    while (*p >= '0' && *p <= '9' && n < FG_PACKAGE_LAYERS_MAX) {
        n = n * 10 + (*p++ - '0');
    }
    if (p == digits || *p != '.' || n >= FG_PACKAGE_LAYERS_MAX ||
        (*digits == '0' && p > digits + 1)) {
        return false;
    }
    *layer = n;
    *rest = p + 1;
    return true;
}

// "layers.N.KEY", or KEY for what is in no layer, into out.
static void name_of(char out[NAME_BYTES], int64_t layer, const char *key)
{
    if (layer < 0) {
        snprintf(out, NAME_BYTES, "%s", key);
    } else {
        snprintf(out, NAME_BYTES, "layers.%" PRId64 ".%s", layer, key);
    }
}

const struct fg_qset_mat *fg_package_mat_at_site(const struct fg_qset *set, int64_t layer,
                                                 const char *site)
{
    for (size_t i = 0; i < FG_COUNT(items); i++) {
        if (!items[i].site || strcmp(items[i].site, site) != 0) continue;
        char name[NAME_BYTES];
        name_of(name, layer, items[i].key);
        const struct fg_qset_mat *mat = fg_qset_find_mat(set, name);
        if (mat && mat->m.site && strcmp(mat->m.site, site) == 0) return mat;
    }
    return NULL;
}

// ---- the check

struct check {
    const struct fg_qset *set;
    const struct fg_package_range *range;
    const uint64_t *order;
    struct fg_package_dims *dims;
    const char *file;
    struct fg_error *err;
    enum { UNKNOWN, ABSENT, PRESENT } groups[N_GROUPS];
};

static int fail_tensor(const struct check *c, const char *name, const char *expected,
                       const char *found)
{
    char field[FIELD_BYTES];
    snprintf(field, sizeof field, "tensor %s", name);
    return fg_fail(c->err, FG_EINPUT, WHAT, c->file, field, expected, "%s", found);
}

static void matrix_field(const struct check *c, const struct fg_qset_mat *mat, const char *key,
                         char out[FIELD_BYTES])
{
    uint64_t i = (uint64_t)(mat - c->set->mats);
    snprintf(out, FIELD_BYTES, "forge.matrices[%" PRIu64 "].%s", c->order ? c->order[i] : i, key);
}

// The bit of enum LINEAR .. DRAFT of a layer.
static int layer_kind(const struct check *c, int64_t layer)
{
    const struct fg_package_range *r = c->range;
    if (r->kind == FG_PACKAGE_DRAFTER) return DRAFT;
    if (r->is_linear && layer < r->n_layers) return r->is_linear[layer] ? LINEAR : FULL;
    char name[NAME_BYTES];
    for (size_t i = 0; i < FG_COUNT(items); i++) {
        if (items[i].where != LINEAR) continue;
        name_of(name, layer, items[i].key);
        if (fg_qset_find_mat(c->set, name) || fg_qset_find_small(c->set, name)) return LINEAR;
    }
    return FULL;
}

static int top_kind(const struct check *c)
{
    return c->range->kind == FG_PACKAGE_HEAD      ? TOP_HEAD
           : c->range->kind == FG_PACKAGE_DRAFTER ? TOP_DRAFT
                                                  : 0;
}

static bool has_layer(const struct check *c, int64_t layer)
{
    return c->range->kind != FG_PACKAGE_HEAD && layer >= c->range->first && layer <= c->range->last;
}

static int check_known(const struct check *c, const char *name, bool mat)
{
    int64_t layer = -1;
    const char *key = name;
    int where = top_kind(c);
    if (fg_package_layer_of(name, &layer, &key)) {
        where = has_layer(c, layer) ? layer_kind(c, layer) : 0;
    }
    for (size_t i = 0; i < FG_COUNT(items); i++) {
        if ((items[i].where & where) && items[i].mat == mat && strcmp(items[i].key, key) == 0) {
            return 0;
        }
    }
    char expected[96];
    if (c->range->kind == FG_PACKAGE_HEAD) {
        snprintf(expected, sizeof expected, "only lm_head and norm.weight");
    } else {
        snprintf(expected, sizeof expected,
                 "only what layers %" PRId64 " to %" PRId64 " of a %s need", c->range->first,
                 c->range->last, fg_package_kind_name(c->range->kind));
    }
    return fail_tensor(c, name, expected, mat ? "a matrix" : "a tensor");
}

// One extent of a tensor against what the others say; the first to be seen counts.
static bool extent_is(const struct check *c, int extent, int64_t found)
{
    if (extent < 0) return found == -extent;
    int64_t *known = (int64_t *)((char *)c->dims + extent);
    if (*known == 0 && found > 0) *known = found;
    return *known == found;
}

static int fail_shape(const struct check *c, const struct item *it, const char *field,
                      const uint64_t *found)
{
    char expected[96] = "[", shape[96] = "[";
    size_t e = 1, f = 1;
    for (int k = 0; k < it->rank; k++) {
        int64_t want =
            it->extent[k] < 0 ? -it->extent[k] : *(int64_t *)((char *)c->dims + it->extent[k]);
        const char *comma = k ? ", " : "";
        e += (size_t)snprintf(expected + e, sizeof expected - e, "%s%" PRId64, comma, want);
        f += (size_t)snprintf(shape + f, sizeof shape - f, "%s%" PRIu64, comma, found[k]);
    }
    return fg_fail(c->err, FG_EINPUT, WHAT, c->file, field, strcat(expected, "]"), "%s]", shape);
}

static int check_mat(const struct check *c, const struct item *it, const struct fg_qset_mat *mat)
{
    static const char *const axis[2] = {"rows", "cols"};
    const struct fg_qmat *m = &mat->m;
    const uint64_t shape[FG_ST_RANK_MAX] = {(uint64_t)m->rows, (uint64_t)m->cols};
    char field[FIELD_BYTES], key[FIELD_BYTES];
    for (int k = 0; k < 2; k++) {
        if (extent_is(c, it->extent[k], (int64_t)shape[k])) continue;
        matrix_field(c, mat, axis[k], key);
        snprintf(field, sizeof field, "shape of %.100s (%.80s)", mat->name, key);
        return fail_shape(c, it, field, shape);
    }
    if (m->rows % fg_qformat_rows_per_index(m->format) != 0) {
        matrix_field(c, mat, "rows", field);
        return fg_fail(c->err, FG_EINPUT, WHAT, c->file, field, "an even number", "%" PRId64,
                       m->rows);
    }
    if (it->kept && !fg_qformat_is_kept(m->format)) {
        matrix_field(c, mat, "format", field);
        return fg_fail(c->err, FG_EINPUT, WHAT, c->file, field, "bf16, f16 or f32", "\"%s\"",
                       fg_qformat_name(m->format));
    }
    if (m->rank < 0 || m->rank > FG_PACKAGE_RANK_MAX) {
        matrix_field(c, mat, "rank", field);
        return fg_fail_range(c->err, WHAT, c->file, field, 0, FG_PACKAGE_RANK_MAX, m->rank);
    }
    if (m->lr_dtype != FG_LR_F16 && m->rank == 0) {
        matrix_field(c, mat, "lr_dtype", field);
        return fg_fail(c->err, FG_EINPUT, WHAT, c->file, field, "none, as rank is 0", "\"%s\"",
                       fg_lr_dtype_name(m->lr_dtype));
    }
    if (!m->site) return 0;
    matrix_field(c, mat, "basis", field);
    if (!it->site || strcmp(m->site, it->site) != 0) {
        return fg_fail(c->err, FG_EINPUT, WHAT, c->file, field,
                       it->site ? it->site : "null: this input is not rotated", "\"%s\"", m->site);
    }
    if (m->block < 8 || m->block > 1024 || (m->block & (m->block - 1)) || m->cols % m->block) {
        return fg_fail(c->err, FG_EINPUT, WHAT, c->file, field,
                       "a power of two from 8 to 1024 that divides cols", "block %" PRId64,
                       m->block);
    }
    return 0;
}

static int check_small(const struct check *c, const struct item *it, const struct fg_qset_small *t)
{
    char field[FIELD_BYTES];
    if (t->dtype != FG_ST_F16 && t->dtype != FG_ST_BF16 && t->dtype != FG_ST_F32) {
        snprintf(field, sizeof field, "dtype of %s", t->name);
        return fg_fail(c->err, FG_EINPUT, WHAT, c->file, field, "F32, BF16 or F16", "%s",
                       fg_st_dtype_name(t->dtype));
    }
    snprintf(field, sizeof field, "shape of %s", t->name);
    if (t->rank != it->rank) {
        char expected[32];
        snprintf(expected, sizeof expected, "%d dimensions", it->rank);
        return fg_fail(c->err, FG_EINPUT, WHAT, c->file, field, expected, "%d", t->rank);
    }
    for (int k = 0; k < it->rank; k++) {
        if (!extent_is(c, it->extent[k], (int64_t)t->shape[k])) {
            return fail_shape(c, it, field, t->shape);
        }
    }
    return 0;
}

// The tensors of one layer, or with layer -1 of none.
static int check_items(struct check *c, int64_t layer, int where)
{
    for (size_t i = 0; i < FG_COUNT(items); i++) {
        const struct item *it = &items[i];
        if (!(it->where & where)) continue;
        char name[NAME_BYTES];
        name_of(name, layer, it->key);
        const struct fg_qset_mat *mat = it->mat ? fg_qset_find_mat(c->set, name) : NULL;
        const struct fg_qset_small *small = it->mat ? NULL : fg_qset_find_small(c->set, name);
        bool present = mat || small;
        if (it->group != NEEDED && c->groups[it->group] == UNKNOWN) {
            c->groups[it->group] = present ? PRESENT : ABSENT;
        }
        bool wanted = it->group == NEEDED || c->groups[it->group] == PRESENT;
        if (present != wanted) {
            return wanted
                       ? fail_tensor(c, name,
                                     it->mat ? "a matrix of forge.matrices" : "to be there", "none")
                       : fail_tensor(c, name, "none, as for its like", "one");
        }
        int rc = mat ? check_mat(c, it, mat) : small ? check_small(c, it, small) : 0;
        if (rc) return rc;
    }
    return 0;
}

// Signs for every site that a matrix names, and for no other.
static int check_rots(const struct check *c)
{
    char field[FIELD_BYTES], name[NAME_BYTES];
    for (uint64_t i = 0; i < c->set->n_mats; i++) {
        const struct fg_qset_mat *mat = &c->set->mats[i];
        int64_t layer;
        const char *key;
        if (!mat->m.site || !fg_package_layer_of(mat->name, &layer, &key)) continue;
        const struct fg_qset_rot *rot = fg_qset_find_rot(c->set, layer, mat->m.site);
        snprintf(name, sizeof name, "layers.%" PRId64 ".rot.%s", layer, mat->m.site);
        if (!rot) return fail_tensor(c, name, "to be there", "none");
        if (rot->n != mat->m.cols || rot->block != mat->m.block) {
            char expected[96];
            matrix_field(c, mat, "basis", field);
            snprintf(expected, sizeof expected, "block %" PRId64 " of %" PRId64 " columns",
                     rot->block, rot->n);
            return fg_fail(c->err, FG_EINPUT, WHAT, c->file, field, expected,
                           "block %" PRId64 " of %" PRId64, mat->m.block, mat->m.cols);
        }
    }
    for (uint64_t i = 0; i < c->set->n_rots; i++) {
        const struct fg_qset_rot *rot = &c->set->rots[i];
        if (fg_package_mat_at_site(c->set, rot->layer, rot->site)) continue;
        snprintf(name, sizeof name, "layers.%" PRId64 ".rot.%s", rot->layer, rot->site);
        return fail_tensor(c, name, "signs of a matrix's basis", "signs that no matrix uses");
    }
    return 0;
}

// Relations between extents that are not equalities.
static int check_products(const struct check *c)
{
    const struct fg_package_dims *d = c->dims;
    if (d->q_rows && d->q_rows != d->attn_out && d->q_rows / 2 != d->attn_out) {
        return fg_fail(c->err, FG_EINPUT, WHAT, c->file, "shape of self_attn.q_proj",
                       "as many rows as o_proj has columns, or twice as many",
                       "%" PRId64 " rows, %" PRId64 " columns", d->q_rows, d->attn_out);
    }
    if (d->head_dim && (d->attn_out % d->head_dim || d->kv_rows % d->head_dim)) {
        return fg_fail(c->err, FG_EINPUT, WHAT, c->file, "shape of self_attn.q_norm.weight",
                       "a divisor of the rows of k_proj and the columns of o_proj", "%" PRId64,
                       d->head_dim);
    }
    if (d->v_heads && (d->value_dim % d->v_heads || d->value_dim / d->v_heads != d->v_head_dim)) {
        return fg_fail(c->err, FG_EINPUT, WHAT, c->file, "shape of linear_attn.in_proj_z",
                       "rows of in_proj_a times length of linear_attn.norm", "%" PRId64 " rows",
                       d->value_dim);
    }
    return 0;
}

int fg_package_check_set(const struct fg_qset *set, const struct fg_package_range *range,
                         const uint64_t *order, struct fg_package_dims *dims, const char *file,
                         struct fg_error *err)
{
    struct check c = {
        .set = set, .range = range, .order = order, .dims = dims, .file = file, .err = err};
    int rc = 0;
    for (uint64_t i = 0; i < set->n_mats && !rc; i++) {
        rc = check_known(&c, set->mats[i].name, true);
    }
    for (uint64_t i = 0; i < set->n_small && !rc; i++) {
        rc = check_known(&c, set->small[i].name, false);
    }
    if (!rc && range->kind != FG_PACKAGE_CHUNK) rc = check_items(&c, -1, top_kind(&c));
    if (range->kind == FG_PACKAGE_HEAD) return rc ? rc : check_rots(&c);
    for (int64_t layer = range->first; layer <= range->last && !rc; layer++) {
        rc = check_items(&c, layer, layer_kind(&c, layer));
    }
    if (!rc) rc = check_rots(&c);
    return rc ? rc : check_products(&c);
}
