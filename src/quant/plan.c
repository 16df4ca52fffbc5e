// quant/plan.c: a plan in memory and its resolution for one model.
#include "base/size.h"
#include "quant/lowrank.h"
#include "quant/plan_impl.h"
#include "quant/signs.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *key, *site;
} parts[FG_PLAN_N_PARTS] = {
    [FG_PLAN_GATE] = {"gate", "mlp.gate_proj", "mlp_in"},
    [FG_PLAN_UP] = {"up", "mlp.up_proj", "mlp_in"},
    [FG_PLAN_DOWN] = {"down", "mlp.down_proj", "mlp_mid"},
    [FG_PLAN_QKV] = {"qkv", "linear_attn.in_proj_qkv", "mix_in"},
    [FG_PLAN_Z] = {"z", "linear_attn.in_proj_z", "mix_in"},
    [FG_PLAN_OUT] = {"out", "linear_attn.out_proj", "mix_out"},
    [FG_PLAN_Q] = {"q", "self_attn.q_proj", "mix_in"},
    [FG_PLAN_K] = {"k", "self_attn.k_proj", "mix_in"},
    [FG_PLAN_V] = {"v", "self_attn.v_proj", "mix_in"},
    [FG_PLAN_O] = {"o", "self_attn.o_proj", "mix_out"},
    [FG_PLAN_HEAD] = {"head", "lm_head", NULL},
};

const char *fg_plan_part_name(enum fg_plan_part p)
{
    return parts[p].name;
}

const char *fg_plan_part_key(enum fg_plan_part p)
{
    return parts[p].key;
}

const char *fg_plan_site(enum fg_plan_part p)
{
    return parts[p].site;
}

const char *fg_plan_what_name(int what)
{
    static const char *const names[] = {"mlp", "mixer", "kv", "basis", "lr_rank", "lr_dtype"};
    return what < FG_PLAN_N_PARTS ? parts[what].name : names[what - FG_PLAN_N_PARTS];
}

// ---- the plan itself

struct fg_plan *fg_plan_new(const char *name)
{
    struct fg_plan *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->name = strdup(name);
    if (!p->name) {
        free(p);
        return NULL;
    }
    p->mlp = FG_Q_V2X64;
    p->mixer = FG_Q_LUT4;
    p->kv = FG_Q_INT8;
    p->head = FG_Q_LUT4;
    p->basis = FG_BASIS_ONLINE;
    p->mix_rot = FG_MIX_BOTH;
    p->lr_rank = FG_PLAN_RANK_AUTO;
    p->lr_parts = FG_LR_GDN | FG_LR_ATTN;
    p->embed = FG_PLAN_EMBED_F16;
    p->notes = fg_plan_no_notes();
    return p;
}

void fg_plan_free(struct fg_plan *p)
{
    if (!p) return;
    free(p->overrides);
    free(p->name);
    free(p);
}

const char *fg_plan_name(const struct fg_plan *p)
{
    return p->name;
}

bool fg_plan_add(struct fg_plan *p, int64_t layer, int what, int64_t value)
{
    if (p->n == p->cap) {
        uint64_t cap = p->cap ? 2 * p->cap : 64;
        if (cap > FG_PLAN_OVERRIDES_MAX) return false;
        struct fg_plan_override *grown = realloc(p->overrides, cap * sizeof *grown);
        if (!grown) return false;
        p->overrides = grown;
        p->cap = cap;
    }
    p->overrides[p->n++] = (struct fg_plan_override){.layer = layer, .what = what, .value = value};
    return true;
}

static int order(const struct fg_plan_override *a, const struct fg_plan_override *b)
{
    if (a->layer != b->layer) return a->layer < b->layer ? -1 : 1;
    return (a->what > b->what) - (a->what < b->what);
}

// Insertion from the back: plans come nearly sorted, and equal pairs keep their order.
void fg_plan_sort(struct fg_plan *p)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < p->n; i++) {
        struct fg_plan_override one = p->overrides[i];
        uint64_t at = n;
        while (at > 0 && order(&p->overrides[at - 1], &one) > 0)
            at--;
        if (at > 0 && order(&p->overrides[at - 1], &one) == 0) {
            p->overrides[at - 1] = one;
            continue;
        }
        memmove(&p->overrides[at + 1], &p->overrides[at], (n - at) * sizeof one);
        p->overrides[at] = one;
        n++;
    }
    p->n = n;
}

const struct fg_plan_override *fg_plan_find(const struct fg_plan *p, int64_t layer, int what)
{
    struct fg_plan_override key = {.layer = layer, .what = what};
    uint64_t lo = 0, hi = p->n;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        int c = order(&p->overrides[mid], &key);
        if (c == 0) return &p->overrides[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static void drop(struct fg_plan *p, int what)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < p->n; i++) {
        if (p->overrides[i].what != what) p->overrides[n++] = p->overrides[i];
    }
    p->n = n;
}

// Declared totals hold for what was declared; formats, which cannot be set, decide the weights'.
static void forget_bytes(struct fg_plan *p)
{
    p->has_bytes = false;
    p->weight_bytes = p->factor_bytes = 0;
}

void fg_plan_set_basis(struct fg_plan *p, enum fg_plan_basis basis)
{
    p->basis = basis;
    drop(p, FG_WHAT_BASIS);
}

void fg_plan_set_mix_rot(struct fg_plan *p, enum fg_plan_mix_rot mix_rot)
{
    p->mix_rot = mix_rot;
}

void fg_plan_set_lr_rank(struct fg_plan *p, int64_t rank)
{
    p->lr_rank = rank;
    p->rank_set = true;
    drop(p, FG_WHAT_RANK);
    forget_bytes(p);
}

void fg_plan_set_lr_parts(struct fg_plan *p, unsigned lr_parts)
{
    p->lr_parts = lr_parts;
    forget_bytes(p);
}

void fg_plan_set_lr_dtype(struct fg_plan *p, enum fg_lr_dtype dtype)
{
    p->lr_dtype = dtype;
    drop(p, FG_WHAT_LR_DTYPE);
    forget_bytes(p);
}

void fg_plan_set_embed(struct fg_plan *p, enum fg_plan_embed embed)
{
    p->embed = embed;
}

// ---- resolution

struct resolver {
    const struct fg_plan *plan;
    const struct fg_plan_shape *shape;
    struct fg_plan_list *list;
    uint64_t cap;
    struct fg_error *err;
};

static int refuse(const struct resolver *r, const char *field, const char *expected,
                  const char *found)
{
    return fg_fail(r->err, FG_EINPUT, FG_PLAN_WHAT, r->plan->name, field, expected, "%s", found);
}

static void key_of(char *out, size_t cap, int64_t layer, int what)
{
    if (layer < 0)
        snprintf(out, cap, "%s", fg_plan_what_name(what));
    else
        snprintf(out, cap, "%" PRId64 ".%s", layer, fg_plan_what_name(what));
}

static bool is_linear_part(int what)
{
    return what >= FG_PLAN_QKV && what <= FG_PLAN_OUT;
}

static bool is_full_part(int what)
{
    return (what >= FG_PLAN_Q && what <= FG_PLAN_O) || what == FG_WHAT_KV;
}

// An override that nothing of the model would ever ask for is a mistake.
static int check_overrides(const struct resolver *r)
{
    char field[64], expected[96];
    for (uint64_t i = 0; i < r->plan->n; i++) {
        const struct fg_plan_override *o = &r->plan->overrides[i];
        if (o->layer < 0) continue;
        key_of(field, sizeof field, o->layer, o->what);
        if (o->layer >= r->shape->n_layers) {
            snprintf(expected, sizeof expected, "a layer from 0 to %" PRId64,
                     r->shape->n_layers - 1);
            int rc = refuse(r, field, expected, "no such layer");
            if (r->plan->builtin)
                fg_error_hint(r->err,
                              "release-0.2, all-v2x16, all-v2x64, all-lut4 and all-lut6 fit any "
                              "number of layers");
            return rc;
        }
        bool linear = r->shape->is_linear[o->layer];
        if (linear ? is_full_part(o->what) : is_linear_part(o->what))
            return refuse(r, field,
                          linear ? "a matrix of a linear-attention layer: qkv z out"
                                 : "a matrix of a full-attention layer: q k v o",
                          "a matrix of the other kind");
    }
    return 0;
}

static int check_model(const struct resolver *r)
{
    const struct fg_plan_for *m = &r->plan->model;
    const struct fg_plan_shape *s = r->shape;
    const struct {
        const char *field;
        int64_t plan, model;
    } extents[] = {
        {"model.layers", m->layers, s->n_layers},
        {"model.hidden", m->hidden, s->hidden},
        {"model.intermediate", m->intermediate, s->intermediate},
        {"model.vocab", m->vocab, s->vocab},
    };
    char expected[64], found[64];
    if (m->architecture[0] && strcmp(m->architecture, s->architecture) != 0) {
        snprintf(expected, sizeof expected, "%s, as the model has", s->architecture);
        return refuse(r, "model.architecture", expected, m->architecture);
    }
    for (size_t i = 0; i < FG_COUNT(extents); i++) {
        if (!extents[i].plan || extents[i].plan == extents[i].model) continue;
        snprintf(expected, sizeof expected, "%" PRId64 ", as the model has", extents[i].model);
        snprintf(found, sizeof found, "%" PRId64, extents[i].plan);
        int rc = refuse(r, extents[i].field, expected, found);
        fg_error_hint(r->err,
                      "release-0.2, all-v2x16, all-v2x64, all-lut4 and all-lut6 are plans by name "
                      "that fit any model");
        return rc;
    }
    return 0;
}

static enum fg_qformat format_of(const struct fg_plan *p, int64_t layer, enum fg_plan_part part)
{
    const struct fg_plan_override *o = fg_plan_find(p, layer, (int)part);
    bool kv = part == FG_PLAN_K || part == FG_PLAN_V;
    if (part == FG_PLAN_HEAD) return o ? (enum fg_qformat)o->value : p->head;
    int group = fg_plan_part_is_mlp(part) ? FG_WHAT_MLP : kv ? FG_WHAT_KV : FG_WHAT_MIXER;
    if (!o) o = fg_plan_find(p, layer, group);
    if (o) return (enum fg_qformat)o->value;
    return group == FG_WHAT_MLP ? p->mlp : kv ? p->kv : p->mixer;
}

static int64_t rank_of(const struct fg_plan *p, const struct fg_plan_mat *m)
{
    unsigned kind = fg_plan_part_is_mlp(m->part)   ? FG_LR_MLP
                    : is_linear_part((int)m->part) ? FG_LR_GDN
                                                   : FG_LR_ATTN;
    if (m->part == FG_PLAN_HEAD || fg_qformat_is_kept(m->format) || !(p->lr_parts & kind)) return 0;
    const struct fg_plan_override *o = fg_plan_find(p, m->layer, FG_WHAT_RANK);
    int64_t rank = o ? o->value : p->lr_rank;
    if (rank == FG_PLAN_RANK_AUTO) rank = fg_lowrank_auto(m->rows, m->cols);
    int64_t most = m->rows < m->cols ? m->rows : m->cols;
    return rank < most ? rank : most;
}

static enum fg_lr_dtype lr_dtype_of(const struct fg_plan *p, const struct fg_plan_mat *m)
{
    const struct fg_plan_override *o = fg_plan_find(p, m->layer, FG_WHAT_LR_DTYPE);
    if (m->rank == 0) return FG_LR_F16;
    return o ? (enum fg_lr_dtype)o->value : p->lr_dtype;
}

static void note_narrow(struct fg_plan_list *l, int64_t width)
{
    for (int i = 0; i < l->n_narrow; i++) {
        if (l->narrow_width[i] == width) return;
    }
    l->narrow_width[l->n_narrow++] = width;
}

static void choose_basis(const struct resolver *r, struct fg_plan_mat *m)
{
    const struct fg_plan *p = r->plan;
    const char *site = fg_plan_site(m->part);
    if (!site || fg_qformat_is_kept(m->format)) return;
    const struct fg_plan_override *o = fg_plan_find(p, m->layer, FG_WHAT_BASIS);
    enum fg_plan_basis basis = o ? (enum fg_plan_basis)o->value : p->basis;
    if (basis == FG_BASIS_PLAIN) return;
    if (!fg_plan_part_is_mlp(m->part)) {
        bool writer = m->part == FG_PLAN_OUT || m->part == FG_PLAN_O;
        if (p->mix_rot == FG_MIX_NONE || (writer && p->mix_rot == FG_MIX_READERS)) return;
    }
    int64_t block = fg_rotation_block(m->cols);
    if (block == 0) {
        note_narrow(r->list, m->cols);
        return;
    }
    m->site = site;
    m->block = block;
    fg_rotation_seed(&m->seed, site, m->layer);
}

static int add_up(const struct resolver *r, uint64_t *total, uint64_t bytes)
{
    if (fg_add(total, *total, bytes)) return 0;
    return refuse(r, "bytes", "a total below 2^64", "more");
}

static int add_mat(struct resolver *r, int64_t layer, enum fg_plan_part part, int64_t rows,
                   int64_t cols)
{
    struct fg_plan_list *l = r->list;
    struct fg_plan_mat *m = &l->mats[l->n];
    char field[64], found[64];
    *m = (struct fg_plan_mat){.layer = layer, .part = part, .rows = rows, .cols = cols};
    if (layer < 0)
        snprintf(m->name, sizeof m->name, "%s", parts[part].key);
    else
        snprintf(m->name, sizeof m->name, "layers.%" PRId64 ".%s", layer, parts[part].key);
    m->format = format_of(r->plan, layer, part);
    key_of(field, sizeof field, layer, (int)part);
    if (rows % fg_qformat_rows_per_index(m->format)) {
        snprintf(found, sizeof found, "%s for %" PRId64 " rows", fg_qformat_name(m->format), rows);
        return refuse(r, field, "lut4, lut6, int8, bf16 or f16: the number of rows is odd", found);
    }
    choose_basis(r, m);
    m->rank = rank_of(r->plan, m);
    m->lr_dtype = lr_dtype_of(r->plan, m);
    uint64_t count;
    if (!fg_qformat_bytes(m->format, (uint64_t)rows, (uint64_t)cols, &m->bytes) ||
        !fg_mul(&count, (uint64_t)rows, (uint64_t)cols) ||
        !fg_lr_bytes(m->lr_dtype, (uint64_t)rows, (uint64_t)cols, (uint64_t)m->rank,
                     &m->factor_bytes))
        return refuse(r, field, "a size below 2^64", "more");
    l->n++;
    int rc = add_up(r, &l->weight_bytes, m->bytes);
    if (!rc) rc = add_up(r, &l->factor_bytes, m->factor_bytes);
    if (!rc) rc = add_up(r, &l->weights, count);
    return rc;
}

static int add_layer(struct resolver *r, int64_t i)
{
    const struct fg_plan_shape *s = r->shape;
    int rc = add_mat(r, i, FG_PLAN_GATE, s->intermediate, s->hidden);
    if (!rc) rc = add_mat(r, i, FG_PLAN_UP, s->intermediate, s->hidden);
    if (!rc) rc = add_mat(r, i, FG_PLAN_DOWN, s->hidden, s->intermediate);
    if (rc) return rc;
    if (!s->is_linear[i]) {
        rc = add_mat(r, i, FG_PLAN_Q, s->q_rows, s->hidden);
        if (!rc) rc = add_mat(r, i, FG_PLAN_K, s->kv_rows, s->hidden);
        if (!rc) rc = add_mat(r, i, FG_PLAN_V, s->kv_rows, s->hidden);
        if (!rc) rc = add_mat(r, i, FG_PLAN_O, s->hidden, s->o_cols);
        return rc;
    }
    uint64_t ab = 0;
    rc = add_mat(r, i, FG_PLAN_QKV, s->qkv_rows, s->hidden);
    if (!rc) rc = add_mat(r, i, FG_PLAN_Z, s->z_rows, s->hidden);
    if (!rc) rc = add_mat(r, i, FG_PLAN_OUT, s->hidden, s->z_rows);
    if (!rc && !fg_mul(&ab, 4 * (uint64_t)s->ab_rows, (uint64_t)s->hidden))
        rc = refuse(r, "bytes", "a size below 2^64", "more");
    if (!rc) rc = add_up(r, &r->list->ab_bytes, ab);
    if (!rc) rc = add_up(r, &r->list->weight_bytes, ab);
    return rc;
}

static int check_bytes(const struct resolver *r)
{
    const struct fg_plan *p = r->plan;
    const struct fg_plan_list *l = r->list;
    char expected[64], found[64];
    if (!p->has_bytes) return 0;
    bool weights = p->weight_bytes != l->weight_bytes;
    if (!weights && p->factor_bytes == l->factor_bytes) return 0;
    snprintf(expected, sizeof expected, "%" PRIu64 ", as the plan gives for this model",
             weights ? l->weight_bytes : l->factor_bytes);
    snprintf(found, sizeof found, "%" PRIu64, weights ? p->weight_bytes : p->factor_bytes);
    return refuse(r, weights ? "bytes.weights" : "bytes.factors", expected, found);
}

static int add_embedding(struct resolver *r)
{
    const struct fg_plan_shape *s = r->shape;
    const enum fg_plan_embed embed = r->list->embed = r->plan->embed;
    if (embed == FG_PLAN_EMBED_HEAD && !s->tied) {
        int rc = refuse(r, "defaults.embed",
                        "f16 or int8: the model's config does not tie its "
                        "embedding to its head",
                        "head");
        fg_error_hint(r->err, "--embed f16 or --embed int8");
        return rc;
    }
    if (embed == FG_PLAN_EMBED_HEAD) return 0;
    if (fg_qformat_bytes(embed == FG_PLAN_EMBED_INT8 ? FG_Q_INT8 : FG_Q_F16, (uint64_t)s->vocab,
                         (uint64_t)s->hidden, &r->list->embed_bytes))
        return 0;
    return refuse(r, "embed", "a size below 2^64", "more");
}

static bool is_27b(const struct fg_plan_shape *s)
{
    return strcmp(s->architecture, "qwen3_5") == 0 && s->n_layers == 64 && s->hidden == 5120 &&
           s->intermediate == 17408 && s->vocab == 248320;
}

// A view of the plan as it stands for this model; shares the overrides of p.
static struct fg_plan plan_for(const struct fg_plan *p, const struct fg_plan_shape *shape)
{
    struct fg_plan one = *p;
    if (p->builtin && strcmp(p->name, "release-0.2") == 0 && !is_27b(shape)) {
        one.n = 0;
        one.model = (struct fg_plan_for){0};
        one.has_bytes = false;
        if (!p->rank_set) one.lr_rank = FG_PLAN_RANK_AUTO;
    }
    return one;
}

int fg_plan_specialize(struct fg_plan **out, const struct fg_plan *p,
                       const struct fg_plan_shape *shape, struct fg_error *err)
{
    struct fg_plan one = plan_for(p, shape);
    struct fg_plan_list list;
    *out = NULL;
    int rc = fg_plan_resolve(&list, p, shape, err);
    if (rc) return rc;
    struct fg_plan *made = fg_plan_new(p->name);
    bool ok = made != NULL;
    for (uint64_t i = 0; i < one.n && ok; i++)
        ok = fg_plan_add(made, one.overrides[i].layer, one.overrides[i].what,
                         one.overrides[i].value);
    if (ok) {
        one.name = made->name;
        one.builtin = false;
        one.overrides = made->overrides;
        one.cap = made->cap;
        one.model = (struct fg_plan_for){"", shape->n_layers, shape->hidden, shape->intermediate,
                                         shape->vocab};
        snprintf(one.model.architecture, sizeof one.model.architecture, "%s", shape->architecture);
        one.has_bytes = true;
        one.weight_bytes = list.weight_bytes;
        one.factor_bytes = list.factor_bytes;
        *made = one;
        *out = made;
    } else {
        fg_plan_free(made);
        rc = fg_fail_memory(err, FG_PLAN_WHAT, sizeof *made);
    }
    fg_plan_list_free(&list);
    return rc;
}

int fg_plan_resolve(struct fg_plan_list *out, const struct fg_plan *p,
                    const struct fg_plan_shape *shape, struct fg_error *err)
{
    struct fg_plan one = plan_for(p, shape);
    struct resolver r = {.plan = &one, .shape = shape, .list = out, .err = err};
    *out = (struct fg_plan_list){0};
    int rc = check_model(&r);
    if (!rc) rc = check_overrides(&r);
    if (rc) return rc;
    if (shape->n_layers > FG_PLAN_LAYERS_MAX)
        return refuse(&r, "model.layers", "at most 1024 layers", "more");
    uint64_t most = (uint64_t)shape->n_layers * 7 + 1;
    out->mats = calloc(most, sizeof *out->mats);
    if (!out->mats) return fg_fail_memory(err, FG_PLAN_WHAT, most * sizeof *out->mats);
    for (int64_t i = 0; i < shape->n_layers && !rc; i++)
        rc = add_layer(&r, i);
    if (!rc) rc = add_mat(&r, -1, FG_PLAN_HEAD, shape->vocab, shape->hidden);
    if (!rc) rc = add_embedding(&r);
    if (!rc) rc = check_bytes(&r);
    if (rc) fg_plan_list_free(out);
    return rc;
}

void fg_plan_list_free(struct fg_plan_list *l)
{
    free(l->mats);
    *l = (struct fg_plan_list){0};
}
