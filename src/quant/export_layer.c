// quant/export_layer.c: one layer or head file: its metadata, rotations and the list of its
// matrices (specs: quantization 1.3, 2, appendix A).
#include "base/num.h"
#include "base/size.h"
#include "quant/export_impl.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// Families of matrices; a mixer is of one of two kinds.
enum family { MLP, LINEAR, FULL, HEAD };

// Matrices by their key in the file. Optional ones are kept weights that small.safetensors usually
// holds.
static const struct matrix_key {
    enum family family;
    const char *key;
    const char *brief; // short name, as in "out.format"
    const char *name;  // what follows "layers.I.", or the whole name
    int site;          // -1: none
    bool kv, optional;
} keys[] = {
    {MLP, "gate", "gate", "mlp.gate_proj", FG_SITE_MLP_IN, false, false},
    {MLP, "up", "up", "mlp.up_proj", FG_SITE_MLP_IN, false, false},
    {MLP, "down", "down", "mlp.down_proj", FG_SITE_MLP_MID, false, false},
    {LINEAR, "linear_attn.in_proj_qkv", "qkv", "linear_attn.in_proj_qkv", FG_SITE_MIX_IN, false,
     false},
    {LINEAR, "linear_attn.in_proj_z", "z", "linear_attn.in_proj_z", FG_SITE_MIX_IN, false, false},
    {LINEAR, "linear_attn.in_proj_a", "a", "linear_attn.in_proj_a", -1, false, true},
    {LINEAR, "linear_attn.in_proj_b", "b", "linear_attn.in_proj_b", -1, false, true},
    {LINEAR, "linear_attn.out_proj", "out", "linear_attn.out_proj", FG_SITE_MIX_OUT, false, false},
    {FULL, "self_attn.q_proj", "q", "self_attn.q_proj", FG_SITE_MIX_IN, false, false},
    {FULL, "self_attn.k_proj", "k", "self_attn.k_proj", FG_SITE_MIX_IN, true, false},
    {FULL, "self_attn.v_proj", "v", "self_attn.v_proj", FG_SITE_MIX_IN, true, false},
    {FULL, "self_attn.o_proj", "o", "self_attn.o_proj", FG_SITE_MIX_OUT, false, false},
    {HEAD, "lm_head", "head", "lm_head", -1, false, false},
};
// The head's tensors may also be called "head.*", or stand alone in their file.
static const char *const head_keys[] = {"lm_head", "head", ""};

static const char *const suffixes[] = {"pidx",   "idx",  "lut",  "scale",   "int8",
                                       "weight", "lr_a", "lr_b", "lr_scale"};

// Sites of the parts and what their metadata are called.
static const struct {
    enum fg_export_part part;
    const char *suffix; // of "seed_in", "block_in", "basis_in"
} sites[FG_EXPORT_SITES] = {
    [FG_SITE_MLP_IN] = {FG_PART_MLP, "in"},
    [FG_SITE_MLP_MID] = {FG_PART_MLP, "mid"},
    [FG_SITE_MIX_IN] = {FG_PART_MIXER, "in"},
    [FG_SITE_MIX_OUT] = {FG_PART_MIXER, "out"},
};

// The rotation of a site, when the first matrix needs it. Its width comes with that matrix.
static void read_rotation(struct fg_export_load *l, struct fg_export_file *f, int site)
{
    struct fg_export_rot *r = &f->rot[site];
    char key[32];
    if (r->on) return;
    snprintf(key, sizeof key, "block_%s", sites[site].suffix);
    const char *block = fg_export_meta(f->c, key);
    if (!block) {
        block = fg_export_meta(f->c, "block");
        snprintf(key, sizeof key, "block");
    }
    if (!block || !fg_parse_i64(block, &r->block) || r->block < 8 || r->block > 1024 ||
        (r->block & (r->block - 1)) != 0) {
        fg_export_refuse(l, f->path, key, "a power of two from 8 to 1024", "%s",
                         block ? block : "nothing");
        return;
    }
    snprintf(key, sizeof key, "seed_%s", sites[site].suffix);
    const char *seed = fg_export_meta(f->c, key);
    int64_t max = f->signs == FG_SIGNS_NUMPY ? UINT32_MAX : INT64_MAX;
    if (!seed || !fg_parse_i64(seed, &r->seed) || r->seed < 0 || r->seed > max) {
        fg_export_refuse(l, f->path, key, "a seed", "%s", seed ? seed : "nothing");
        return;
    }
    r->on = true;
}

static void read_signs(struct fg_export_load *l, struct fg_export_file *f)
{
    const char *signs = fg_export_meta(f->c, "signs"), *forge = fg_export_meta(f->c, "forge");
    f->original = !forge;
    f->signs = FG_SIGNS_NUMPY;
    if (forge) {
        l->own = true;
        if (!l->e->facts.forge) l->e->facts.forge = forge;
    }
    if (signs && strcmp(signs, fg_signs_name(FG_SIGNS_SPLITMIX64)) == 0)
        f->signs = FG_SIGNS_SPLITMIX64;
    else if (signs ? strcmp(signs, fg_signs_name(FG_SIGNS_NUMPY)) != 0 : !f->original)
        fg_export_refuse(l, f->path, "signs", "splitmix64 or numpy-pcg64", "%s",
                         signs ? signs : "nothing");
}

// Layers of one kind have the same shapes: a file under another layer's name would go unnoticed.
static void check_layer(struct fg_export_load *l, const struct fg_export_file *f)
{
    const char *layer = fg_export_meta(f->c, "layer");
    char want[24];
    snprintf(want, sizeof want, "%" PRId64, f->layer);
    if (layer && strcmp(layer, want) != 0) fg_export_refuse(l, f->path, "layer", want, "%s", layer);
}

// The family of a mixer, by its metadata and by what is in it.
static enum family mixer_family(struct fg_export_load *l, const struct fg_export_file *f)
{
    const char *kind = fg_export_meta(f->c, "kind");
    bool linear = false, full = false;
    for (uint64_t i = 0; i < fg_checkpoint_count(f->c); i++) {
        const char *name = fg_checkpoint_at(f->c, i)->name;
        if (strncmp(name, "linear_attn.", 12) == 0) linear = true;
        if (strncmp(name, "self_attn.", 10) == 0) full = true;
    }
    if (!kind && f->original && linear != full) return linear ? LINEAR : FULL;
    if (kind && strcmp(kind, "linear_attention") == 0) return LINEAR;
    if (!kind || strcmp(kind, "full_attention") != 0)
        fg_export_refuse(l, f->path, "kind", "linear_attention or full_attention", "%s",
                         kind ? kind : "nothing");
    return FULL;
}

// What the metadata say of one matrix: "KEY.NAME", by its long or its short key. NULL: nothing.
static const char *matrix_meta(const struct fg_export_file *f, const struct matrix_key *k,
                               const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", k->key, name);
    const char *value = fg_export_meta(f->c, key);
    if (value) return value;
    snprintf(key, sizeof key, "%s.%s", k->brief, name);
    return fg_export_meta(f->c, key);
}

static bool format_of(struct fg_export_load *l, const struct fg_export_file *f,
                      const struct matrix_key *k, const char *key, enum fg_qformat *format)
{
    char name[FG_EXPORT_NAME_MAX];
    const char *text = matrix_meta(f, k, "format");
    if (!text && k->kv) text = fg_export_meta(f->c, "kv_format");
    if (!text && k->optional) { // kept, in the dtype that it has
        snprintf(name, sizeof name, "%s.weight", key);
        const struct fg_st_tensor *t = fg_checkpoint_find(f->c, name);
        *format = !t || t->dtype == FG_ST_BF16 ? FG_Q_BF16
                  : t->dtype == FG_ST_F16      ? FG_Q_F16
                                               : FG_Q_F32;
        return true;
    }
    if (!text && !k->kv && k->family != MLP) text = fg_export_meta(f->c, "format");
    if (text && fg_qformat_of_name(text, format)) return true;
    snprintf(name, sizeof name, "%s.format", k->key);
    fg_export_refuse(l, f->path, name, "v2x16, v2x64, lut4, lut6, int8, bf16, f16 or f32", "%s",
                     text ? text : "nothing");
    return false;
}

// True when the matrix is stored in the rotated basis.
static bool is_online(struct fg_export_load *l, const struct fg_export_file *f,
                      const struct matrix_key *k, enum fg_qformat format)
{
    const char *basis = matrix_meta(f, k, "basis");
    if (!basis && (k->site < 0 || fg_qformat_is_kept(format))) return false;
    if (!basis) basis = fg_export_meta(f->c, "basis");
    if (!basis && f->original) return false; // mixers of release 0.1 say nothing
    if (!basis || (strcmp(basis, "plain") != 0 && strcmp(basis, "online") != 0) ||
        (k->site < 0 && strcmp(basis, "plain") != 0)) {
        fg_export_refuse(l, f->path, "basis", k->site < 0 ? "plain" : "online or plain", "%s",
                         basis ? basis : "nothing");
        return false;
    }
    return strcmp(basis, "online") == 0;
}

static bool has_matrix(const struct fg_export_file *f, const char *key)
{
    char name[FG_EXPORT_NAME_MAX];
    for (size_t i = 0; i < FG_COUNT(suffixes); i++) {
        snprintf(name, sizeof name, "%s%s%s", key, key[0] ? "." : "", suffixes[i]);
        if (fg_checkpoint_find(f->c, name)) return true;
    }
    return false;
}

// Which of the spellings this file uses for the matrix.
static const char *key_in_file(const struct fg_export_file *f, const struct matrix_key *k)
{
    for (size_t i = 0; k->family == HEAD && i < FG_COUNT(head_keys); i++) {
        if (has_matrix(f, head_keys[i])) return head_keys[i];
    }
    return k->key;
}

static bool is_suffix(const char *s)
{
    for (size_t i = 0; i < FG_COUNT(suffixes); i++) {
        if (strcmp(suffixes[i], s) == 0) return true;
    }
    return false;
}

// A tensor that nothing would read is a sign that the file means more than Forge understands.
static void refuse_strangers(struct fg_export_load *l, const struct fg_export_file *f,
                             enum family family)
{
    for (uint64_t i = 0; i < fg_checkpoint_count(f->c) && !l->rc; i++) {
        const char *name = fg_checkpoint_at(f->c, i)->name;
        const char *dot = strrchr(name, '.');
        size_t n = dot ? (size_t)(dot - name) : 0;
        bool known = false;
        for (int s = 0; s < FG_EXPORT_SITES && strncmp(name, "rot.", 4) == 0; s++) {
            known =
                known || (sites[s].part == f->part && strcmp(name + 4, fg_export_sites[s]) == 0);
        }
        for (size_t k = 0; k < FG_COUNT(keys) && is_suffix(dot ? dot + 1 : name); k++) {
            if (keys[k].family != family) continue;
            const char *key = key_in_file(f, &keys[k]);
            known = known || (strlen(key) == n && strncmp(name, key, n) == 0);
        }
        if (!known)
            fg_export_refuse(l, f->path, name, "only tensors of this layer's matrices",
                             "another tensor");
    }
}

// Lists the rotations that some matrix of the file used; a bitmap of another is a stranger.
static void add_rotations(struct fg_export_load *l, const struct fg_export_file *f)
{
    struct fg_export *e = l->e;
    for (int s = 0; s < FG_EXPORT_SITES && !l->rc; s++) {
        const struct fg_export_rot *r = &f->rot[s];
        char name[32];
        snprintf(name, sizeof name, "rot.%s", fg_export_sites[s]);
        if (!r->on) {
            if (fg_checkpoint_find(f->c, name))
                fg_export_refuse(l, f->path, name, "none: no matrix of the file is rotated there",
                                 "a bitmap");
            continue;
        }
        if (!fg_export_grow(l, (void **)&e->rots, e->n_rots, &e->cap_rots, sizeof *e->rots)) return;
        e->rots[e->n_rots++] = (struct fg_qset_rot){
            .layer = f->layer,
            .site = fg_export_sites[s],
            .n = r->n,
            .block = r->block,
            .bits = r->bits,
        };
        int64_t base = r->seed - f->layer;
        if (e->facts.seed_base[s] < 0) e->facts.seed_base[s] = base;
        if (e->facts.seed_base[s] != base || base < 0) e->facts.seeds_regular = false;
        if (r->block > e->facts.block) e->facts.block = r->block;
        if (e->facts.signs == FG_SIGNS_NONE) e->facts.signs = f->signs;
        if (e->facts.signs != f->signs)
            fg_export_refuse(l, f->path, "signs", fg_signs_name(e->facts.signs), "%s",
                             fg_signs_name(f->signs));
    }
}

// The head may say that it is the embedding too.
static void read_embed(struct fg_export_load *l, const struct fg_export_file *f)
{
    const char *embed = fg_export_meta(f->c, "embed");
    if (!embed) return;
    if (strcmp(embed, "head") != 0) {
        fg_export_refuse(l, f->path, "embed", "head, or no such key", "%s", embed);
        return;
    }
    l->e->embedding.kind = FG_EMBEDDING_HEAD;
    l->e->embedding.file = f->path;
}

void fg_export_read_file(struct fg_export_load *l, const char *path, enum fg_export_part part,
                         int64_t layer)
{
    struct fg_export_file file = {.part = part, .layer = layer}, *f = &file;
    char name[FG_EXPORT_NAME_MAX];
    f->c = fg_export_add_file(l, path);
    if (!f->c) return;
    f->path = fg_checkpoint_file(f->c, 0, NULL);
    enum family family = part == FG_PART_HEAD ? HEAD : MLP;
    read_signs(l, f);
    if (!l->rc && part == FG_PART_HEAD) read_embed(l, f);
    if (!l->rc && part != FG_PART_HEAD) check_layer(l, f);
    if (!l->rc && part == FG_PART_MIXER) family = mixer_family(l, f);
    if (!l->rc) refuse_strangers(l, f, family);
    for (size_t k = 0; k < FG_COUNT(keys) && !l->rc; k++) {
        if (keys[k].family != family) continue;
        const char *key = key_in_file(f, &keys[k]);
        const bool optional = keys[k].optional || l->o->allow_missing || l->o->fill;
        if (optional && !has_matrix(f, key)) continue;
        if (part == FG_PART_HEAD)
            snprintf(name, sizeof name, "%s", keys[k].name);
        else
            snprintf(name, sizeof name, "layers.%" PRId64 ".%s", layer, keys[k].name);
        enum fg_qformat format;
        if (!format_of(l, f, &keys[k], key, &format)) break;
        int site = is_online(l, f, &keys[k], format) ? keys[k].site : -1;
        if (!l->rc && site >= 0) read_rotation(l, f, site);
        if (!l->rc) fg_export_read_matrix(l, f, key, name, format, site);
    }
    if (!l->rc) add_rotations(l, f);
}
