// quant/plan_file.c: plans from JSON and as JSON.
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/num.h"
#include "base/size.h"
#include "quant/plan_impl.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FILE_BYTES_MAX (4u << 20)
#define SCHEMA "forge.plan/1"
#define FORMATS "v2x16, v2x64, lut4, lut6, int8, bf16 or f16"

// ---- values by name

static const char *const basis_names[] = {[FG_BASIS_PLAIN] = "plain", [FG_BASIS_ONLINE] = "online"};
static const char *const mix_rot_names[] = {
    [FG_MIX_NONE] = "none", [FG_MIX_READERS] = "readers", [FG_MIX_BOTH] = "readers+writers"};
static const char *const embed_names[] = {
    [FG_PLAN_EMBED_F16] = "f16", [FG_PLAN_EMBED_INT8] = "int8", [FG_PLAN_EMBED_HEAD] = "head"};
static const struct {
    const char *name;
    unsigned bit;
} lr_part_names[] = {{"gdn", FG_LR_GDN}, {"attn", FG_LR_ATTN}, {"mlp", FG_LR_MLP}};

const char *fg_plan_basis_name(enum fg_plan_basis b)
{
    return basis_names[b];
}

const char *fg_plan_mix_rot_name(enum fg_plan_mix_rot m)
{
    return mix_rot_names[m];
}

bool fg_plan_basis_of_name(const char *s, enum fg_plan_basis *out)
{
    for (size_t i = 0; i < FG_COUNT(basis_names); i++) {
        if (strcmp(s, basis_names[i]) != 0) continue;
        *out = (enum fg_plan_basis)i;
        return true;
    }
    return false;
}

bool fg_plan_mix_rot_of_name(const char *s, enum fg_plan_mix_rot *out)
{
    for (size_t i = 0; i < FG_COUNT(mix_rot_names); i++) {
        if (strcmp(s, mix_rot_names[i]) != 0) continue;
        *out = (enum fg_plan_mix_rot)i;
        return true;
    }
    return false;
}

const char *fg_plan_embed_name(enum fg_plan_embed e)
{
    return embed_names[e];
}

bool fg_plan_embed_of_name(const char *s, enum fg_plan_embed *out)
{
    for (size_t i = 0; i < FG_COUNT(embed_names); i++) {
        if (strcmp(s, embed_names[i]) != 0) continue;
        *out = (enum fg_plan_embed)i;
        return true;
    }
    return false;
}

bool fg_plan_rank_of_name(const char *s, int64_t *out)
{
    int64_t rank;
    if (strcmp(s, "auto") == 0) {
        *out = FG_PLAN_RANK_AUTO;
        return true;
    }
    if (!fg_parse_i64(s, &rank) || rank < 0 || rank > FG_PLAN_RANK_MAX) return false;
    *out = rank;
    return true;
}

static bool add_lr_part(const char *s, size_t n, unsigned *set)
{
    for (size_t i = 0; i < FG_COUNT(lr_part_names); i++) {
        if (strlen(lr_part_names[i].name) != n || strncmp(lr_part_names[i].name, s, n) != 0)
            continue;
        *set |= lr_part_names[i].bit;
        return true;
    }
    return false;
}

bool fg_plan_lr_parts_of_name(const char *s, unsigned *out)
{
    unsigned set = 0;
    if (*s && strcmp(s, "none") != 0) {
        for (;;) {
            size_t n = strcspn(s, ",");
            if (!add_lr_part(s, n, &set)) return false;
            if (!s[n]) break;
            s += n + 1;
        }
    }
    *out = set;
    return true;
}

// The head's and the matrices' formats; f32 is a format of packages, not of plans.
static bool format_of_name(const char *s, enum fg_qformat *out)
{
    return fg_qformat_of_name(s, out) && *out != FG_Q_F32;
}

// ---- reading

struct parser {
    struct fg_json doc;
    struct fg_plan *plan;
    struct fg_error *err;
    int rc; // first error
};

static void refuse(struct parser *p, const char *field, const char *expected, const char *found)
{
    char text[96], key[96];
    if (p->rc) return;
    fg_escape(text, sizeof text, found, strlen(found));
    fg_escape(key, sizeof key, field, strlen(field));
    p->rc = fg_fail(p->err, FG_EINPUT, FG_PLAN_WHAT, p->doc.file, key, expected, "%s", text);
}

// A string value; other types are refused by what they are.
static const char *text_of(struct parser *p, const char *field, struct json_object *v,
                           const char *expected)
{
    if (v && json_object_is_type(v, json_type_string)) return json_object_get_string(v);
    refuse(p, field, expected, v ? json_type_to_name(json_object_get_type(v)) : "null");
    return NULL;
}

static enum fg_qformat read_format(struct parser *p, const char *field, struct json_object *v)
{
    enum fg_qformat f = FG_Q_LUT4;
    const char *s = text_of(p, field, v, FORMATS);
    if (s && !format_of_name(s, &f)) refuse(p, field, FORMATS, s);
    return f;
}

static enum fg_plan_basis read_basis(struct parser *p, const char *field, struct json_object *v)
{
    enum fg_plan_basis b = FG_BASIS_ONLINE;
    const char *s = text_of(p, field, v, "online or plain");
    if (s && !fg_plan_basis_of_name(s, &b)) refuse(p, field, "online or plain", s);
    return b;
}

static int64_t read_rank(struct parser *p, const char *field, struct json_object *v)
{
    static const char expected[] = "\"auto\" or a whole number from 0 to 1024";
    int64_t rank = 0;
    if (v && json_object_is_type(v, json_type_int)) {
        rank = json_object_get_int64(v);
        if (rank < 0 || rank > FG_PLAN_RANK_MAX)
            refuse(p, field, expected, json_object_get_string(v));
        return rank;
    }
    const char *s = text_of(p, field, v, expected);
    if (s && (strcmp(s, "auto") != 0 || !fg_plan_rank_of_name(s, &rank)))
        refuse(p, field, expected, s);
    return rank;
}

static enum fg_lr_dtype read_lr_dtype(struct parser *p, const char *field, struct json_object *v)
{
    enum fg_lr_dtype t = FG_LR_F16;
    const char *s = text_of(p, field, v, "f16 or i8");
    if (s && !fg_lr_dtype_of_name(s, &t)) refuse(p, field, "f16 or i8", s);
    return t;
}

static unsigned read_lr_parts(struct parser *p, const char *field, struct json_object *v)
{
    static const char expected[] = "a list of gdn, attn, mlp";
    unsigned set = 0;
    if (!v || !json_object_is_type(v, json_type_array)) {
        refuse(p, field, expected, v ? json_type_to_name(json_object_get_type(v)) : "null");
        return 0;
    }
    for (size_t i = 0; i < json_object_array_length(v) && !p->rc; i++) {
        const char *s = text_of(p, field, json_object_array_get_idx(v, i), expected);
        if (s && !add_lr_part(s, strlen(s), &set)) refuse(p, field, expected, s);
    }
    return set;
}

// The number before the first dot, written as numbers are; -1: none.
static int64_t layer_of(const char *key, const char **rest)
{
    int64_t layer = 0;
    const char *s = key;
    if (*s == '0' && s[1] != '.') return -1;
    for (; *s >= '0' && *s <= '9'; s++) {
        layer = 10 * layer + (*s - '0');
        if (layer >= FG_PLAN_LAYERS_MAX) return -1;
    }
    *rest = s + 1;
    return s == key || *s != '.' ? -1 : layer;
}

static int what_of(const char *name)
{
    for (int what = 0; what < FG_N_WHATS; what++) {
        if (what != FG_PLAN_HEAD && strcmp(fg_plan_what_name(what), name) == 0) return what;
    }
    return -1;
}

static void read_override(struct parser *p, const char *key, struct json_object *v)
{
    const char *rest = "";
    int64_t layer = -1, value;
    int what = FG_PLAN_HEAD;
    if (strcmp(key, "head") != 0) {
        layer = layer_of(key, &rest);
        if (layer < 0) {
            refuse(p, key, "LAYER.MATRIX with a layer from 0 to 1023, or head", "another key");
            return;
        }
        what = what_of(rest);
        if (what < 0) {
            refuse(p, key, "gate up down qkv z out q k v o mlp mixer kv basis lr_rank lr_dtype",
                   "unknown matrix");
            return;
        }
    }
    if (what == FG_WHAT_BASIS)
        value = read_basis(p, key, v);
    else if (what == FG_WHAT_RANK)
        value = read_rank(p, key, v);
    else if (what == FG_WHAT_LR_DTYPE)
        value = read_lr_dtype(p, key, v);
    else
        value = read_format(p, key, v);
    if (!p->rc && !fg_plan_add(p->plan, layer, what, value))
        p->rc = fg_fail_memory(p->err, FG_PLAN_WHAT, 0);
}

static void read_overrides(struct parser *p, struct json_object *obj)
{
    json_object_object_foreach(obj, key, v)
    {
        if (!p->rc) read_override(p, key, v);
    }
}

static void read_defaults(struct parser *p, struct json_object *obj)
{
    struct fg_plan *plan = p->plan;
    json_object_object_foreach(obj, key, v)
    {
        char field[64];
        if (p->rc) return;
        snprintf(field, sizeof field, "defaults.%s", key);
        if (strcmp(key, "mlp") == 0) {
            plan->mlp = read_format(p, field, v);
        } else if (strcmp(key, "mixer") == 0) {
            plan->mixer = read_format(p, field, v);
        } else if (strcmp(key, "kv") == 0) {
            plan->kv = read_format(p, field, v);
        } else if (strcmp(key, "head") == 0) {
            plan->head = read_format(p, field, v);
        } else if (strcmp(key, "embed") == 0) {
            const char *s = text_of(p, field, v, "f16, int8 or head");
            if (s && !fg_plan_embed_of_name(s, &plan->embed))
                refuse(p, field, "f16, int8 or head", s);
        } else if (strcmp(key, "basis") == 0) {
            plan->basis = read_basis(p, field, v);
        } else if (strcmp(key, "mix_rot") == 0) {
            const char *s = text_of(p, field, v, "none, readers or readers+writers");
            if (s && !fg_plan_mix_rot_of_name(s, &plan->mix_rot))
                refuse(p, field, "none, readers or readers+writers", s);
        } else if (strcmp(key, "lr_rank") == 0) {
            plan->lr_rank = read_rank(p, field, v);
        } else if (strcmp(key, "lr_parts") == 0) {
            plan->lr_parts = read_lr_parts(p, field, v);
        } else if (strcmp(key, "lr_dtype") == 0) {
            plan->lr_dtype = read_lr_dtype(p, field, v);
        } else {
            refuse(p, field, "mlp mixer kv head embed basis mix_rot lr_rank lr_parts lr_dtype",
                   "unknown key");
        }
    }
}

static void read_i64(struct parser *p, struct json_object *obj, const char *where, const char *key,
                     int64_t max, int64_t *out)
{
    if (!p->rc) p->rc = fg_json_i64(&p->doc, obj, where, key, *out, 0, max, out, NULL, p->err);
}

static void check_keys(struct parser *p, struct json_object *obj, const char *where,
                       const char *const *known, const char *expected)
{
    json_object_object_foreach(obj, key, v)
    {
        bool found = false;
        (void)v;
        for (const char *const *k = known; *k && !found; k++)
            found = strcmp(*k, key) == 0;
        char field[96];
        snprintf(field, sizeof field, "%s%s", where, key);
        if (!found) refuse(p, field, expected, "unknown key");
    }
}

static void read_model(struct parser *p, struct json_object *obj)
{
    static const char *const known[] = {"architecture", "layers",        "hidden", "intermediate",
                                        "vocab",        "config_sha256", NULL};
    struct fg_plan_for *m = &p->plan->model;
    const char *arch = "";
    check_keys(p, obj, "model.", known,
               "architecture layers hidden intermediate vocab config_sha256");
    if (!p->rc)
        p->rc = fg_json_str(&p->doc, obj, "model.", "architecture", "", &arch, NULL, p->err);
    if (!p->rc && strlen(arch) >= sizeof m->architecture)
        refuse(p, "model.architecture", "qwen3_5, qwen3, qwen2 or llama", arch);
    if (!p->rc) snprintf(m->architecture, sizeof m->architecture, "%s", arch);
    read_i64(p, obj, "model.", "layers", FG_PLAN_LAYERS_MAX, &m->layers);
    read_i64(p, obj, "model.", "hidden", INT32_MAX, &m->hidden);
    read_i64(p, obj, "model.", "intermediate", INT32_MAX, &m->intermediate);
    read_i64(p, obj, "model.", "vocab", INT32_MAX, &m->vocab);
}

static void read_bytes(struct parser *p, struct json_object *obj)
{
    static const char *const known[] = {"weights", "factors", NULL};
    int64_t weights = -1, factors = -1;
    check_keys(p, obj, "bytes.", known, "weights factors");
    read_i64(p, obj, "bytes.", "weights", INT64_MAX - 1, &weights);
    read_i64(p, obj, "bytes.", "factors", INT64_MAX - 1, &factors);
    if (p->rc) return;
    if (weights < 0 || factors < 0) {
        refuse(p, weights < 0 ? "bytes.weights" : "bytes.factors", "a number of bytes", "nothing");
        return;
    }
    p->plan->has_bytes = true;
    p->plan->weight_bytes = (uint64_t)weights;
    p->plan->factor_bytes = (uint64_t)factors;
}

static void read_schema_form(struct parser *p, struct json_object *root)
{
    static const char *const known[] = {"schema", "model",    "defaults",   "overrides",
                                        "bytes",  "estimate", "provenance", NULL};
    struct json_object *model = NULL, *defaults = NULL, *overrides = NULL, *bytes = NULL;
    const char *schema = "";
    p->rc = fg_json_str(&p->doc, root, "", "schema", "", &schema, NULL, p->err);
    if (!p->rc && strcmp(schema, SCHEMA) != 0) refuse(p, "schema", SCHEMA, schema);
    check_keys(p, root, "", known, "schema model defaults overrides bytes estimate provenance");
    if (!p->rc) p->rc = fg_json_obj(&p->doc, root, "", "model", &model, p->err);
    if (!p->rc) p->rc = fg_json_obj(&p->doc, root, "", "defaults", &defaults, p->err);
    if (!p->rc) p->rc = fg_json_obj(&p->doc, root, "", "overrides", &overrides, p->err);
    if (!p->rc) p->rc = fg_json_obj(&p->doc, root, "", "bytes", &bytes, p->err);
    if (!p->rc && model) read_model(p, model);
    if (!p->rc && defaults) read_defaults(p, defaults);
    if (!p->rc && overrides) read_overrides(p, overrides);
    if (!p->rc && bytes) read_bytes(p, bytes);
    if (!p->rc) p->rc = fg_plan_read_notes(&p->plan->notes, &p->doc, p->err);
}

int fg_plan_parse(struct fg_plan **out, const char *text, size_t n, const char *file,
                  struct fg_error *err)
{
    struct parser p = {.err = err};
    *out = NULL;
    int rc = fg_json_parse(&p.doc, text, n, file, err);
    if (rc) return rc;
    p.plan = fg_plan_new(file);
    struct json_object *root = p.doc.root;
    if (!p.plan)
        p.rc = fg_fail_memory(err, FG_PLAN_WHAT, sizeof *p.plan);
    else if (!root || !json_object_is_type(root, json_type_object))
        p.rc = fg_fail(err, FG_EINPUT, FG_PLAN_WHAT, file, NULL, "a JSON object", "%s",
                       root ? json_type_to_name(json_object_get_type(root)) : "null");
    else if (fg_json_has(root, "schema"))
        read_schema_form(&p, root);
    else
        read_overrides(&p, root);
    fg_json_close(&p.doc);
    if (p.rc) {
        fg_plan_free(p.plan);
        return p.rc;
    }
    fg_plan_sort(p.plan);
    *out = p.plan;
    return 0;
}

int fg_plan_open(struct fg_plan **out, const char *path_or_name, struct fg_error *err)
{
    struct fg_buf text = {0};
    *out = NULL;
    if (fg_plan_make_builtin(out, path_or_name))
        return *out ? 0 : fg_fail_memory(err, FG_PLAN_WHAT, sizeof(struct fg_plan));
    int rc = fg_file_read(&text, path_or_name, FILE_BYTES_MAX, err);
    if (rc == FG_EINPUT && !fg_path_taken(path_or_name))
        fg_error_hint(err, "plans by name: release-0.1, release-0.2, u48, all-v2x16, all-v2x64, "
                           "all-lut4, all-lut6");
    if (!rc) rc = fg_plan_parse(out, text.len ? text.data : "", text.len, path_or_name, err);
    fg_buf_free(&text);
    return rc;
}

// ---- writing

static void write_rank(struct fg_jwrite *w, const char *key, int64_t rank)
{
    if (rank == FG_PLAN_RANK_AUTO)
        fg_jwrite_str(w, key, "auto");
    else
        fg_jwrite_int(w, key, rank);
}

static void write_defaults(const struct fg_plan *p, struct fg_jwrite *w)
{
    fg_jwrite_object(w, "defaults");
    fg_jwrite_str(w, "mlp", fg_qformat_name(p->mlp));
    fg_jwrite_str(w, "mixer", fg_qformat_name(p->mixer));
    fg_jwrite_str(w, "kv", fg_qformat_name(p->kv));
    fg_jwrite_str(w, "head", fg_qformat_name(p->head));
    fg_jwrite_str(w, "embed", fg_plan_embed_name(p->embed));
    fg_jwrite_str(w, "basis", fg_plan_basis_name(p->basis));
    fg_jwrite_str(w, "mix_rot", fg_plan_mix_rot_name(p->mix_rot));
    write_rank(w, "lr_rank", p->lr_rank);
    fg_jwrite_array(w, "lr_parts");
    for (size_t i = 0; i < FG_COUNT(lr_part_names); i++) {
        if (p->lr_parts & lr_part_names[i].bit) fg_jwrite_str(w, NULL, lr_part_names[i].name);
    }
    fg_jwrite_end_array(w);
    if (p->lr_dtype != FG_LR_F16) fg_jwrite_str(w, "lr_dtype", fg_lr_dtype_name(p->lr_dtype));
    fg_jwrite_end_object(w);
}

static void write_overrides(const struct fg_plan *p, struct fg_jwrite *w)
{
    fg_jwrite_object(w, "overrides");
    for (uint64_t i = 0; i < p->n; i++) {
        const struct fg_plan_override *o = &p->overrides[i];
        char key[48];
        if (o->layer < 0)
            snprintf(key, sizeof key, "%s", fg_plan_what_name(o->what));
        else
            snprintf(key, sizeof key, "%" PRId64 ".%s", o->layer, fg_plan_what_name(o->what));
        if (o->what == FG_WHAT_BASIS)
            fg_jwrite_str(w, key, fg_plan_basis_name((enum fg_plan_basis)o->value));
        else if (o->what == FG_WHAT_RANK)
            write_rank(w, key, o->value);
        else if (o->what == FG_WHAT_LR_DTYPE)
            fg_jwrite_str(w, key, fg_lr_dtype_name((enum fg_lr_dtype)o->value));
        else
            fg_jwrite_str(w, key, fg_qformat_name((enum fg_qformat)o->value));
    }
    fg_jwrite_end_object(w);
}

static void write_plan(const struct fg_plan *p, struct fg_jwrite *w, const char *key, bool notes)
{
    const struct fg_plan_for *m = &p->model;
    fg_jwrite_object(w, key);
    fg_jwrite_str(w, "schema", SCHEMA);
    if (m->architecture[0] || m->layers || m->hidden || m->intermediate || m->vocab) {
        fg_jwrite_object(w, "model");
        if (m->architecture[0]) fg_jwrite_str(w, "architecture", m->architecture);
        if (m->layers) fg_jwrite_int(w, "layers", m->layers);
        if (m->hidden) fg_jwrite_int(w, "hidden", m->hidden);
        if (m->intermediate) fg_jwrite_int(w, "intermediate", m->intermediate);
        if (m->vocab) fg_jwrite_int(w, "vocab", m->vocab);
        fg_jwrite_end_object(w);
    }
    write_defaults(p, w);
    write_overrides(p, w);
    if (p->has_bytes) {
        fg_jwrite_object(w, "bytes");
        fg_jwrite_uint(w, "weights", p->weight_bytes);
        fg_jwrite_uint(w, "factors", p->factor_bytes);
        fg_jwrite_end_object(w);
    }
    if (notes) fg_plan_write_notes(&p->notes, w);
    fg_jwrite_end_object(w);
}

void fg_plan_write(const struct fg_plan *p, struct fg_jwrite *w, const char *key)
{
    write_plan(p, w, key, false);
}

void fg_plan_write_whole(const struct fg_plan *p, struct fg_jwrite *w, const char *key)
{
    write_plan(p, w, key, true);
}

int fg_plan_save(const struct fg_plan *p, const char *path, struct fg_error *err)
{
    struct fg_jwrite w = {0};
    fg_plan_write_whole(p, &w, NULL);
    fg_buf_char(&w.buf, '\n');
    int rc = w.buf.failed ? fg_fail_memory(err, FG_PLAN_WHAT, w.buf.len)
                          : fg_file_replace(path, w.buf.data, w.buf.len, err);
    fg_jwrite_free(&w);
    return rc;
}
