// A manifest's model against config.json: what the config says must be what the manifest says. Keys
// that the config leaves out, and what they then mean, are model/config.c's.
#include "base/json.h"
#include "base/size.h"
#include "format/build_impl.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CONFIG_BYTES_MAX (16ull << 20)

struct check {
    const struct fg_json *doc;
    struct json_object *text; // the text model's object
    const struct fg_manifest_model *m;
    const char *manifest; // path
    struct fg_error *err;
};

static int fail(const struct check *c, const char *field, const char *expected, const char *found)
{
    return fg_fail(c->err, FG_EINPUT, FG_MANIFEST_WHAT, c->manifest, field, expected, "%s", found);
}

static int check_ints(const struct check *c)
{
    const struct fg_manifest_model *m = c->m;
    const struct {
        const char *key, *field;
        int64_t value;
    } ints[] = {
        {"num_hidden_layers", "/model/layers", m->layers},
        {"hidden_size", "/model/hidden", m->hidden},
        {"intermediate_size", "/model/intermediate", m->intermediate},
        {"vocab_size", "/model/vocab", m->vocab},
        {"num_attention_heads", "/model/n_heads", m->n_heads},
        {"num_key_value_heads", "/model/n_kv_heads", m->n_kv_heads},
        {"head_dim", "/model/head_dim", m->head_dim},
        {"linear_num_key_heads", "/model/gdn/k_heads", m->gdn.k_heads},
        {"linear_num_value_heads", "/model/gdn/v_heads", m->gdn.v_heads},
        {"linear_key_head_dim", "/model/gdn/dk", m->gdn.dk},
        {"linear_value_head_dim", "/model/gdn/dv", m->gdn.dv},
        {"linear_conv_kernel_dim", "/model/gdn/conv", m->gdn.conv},
    };
    for (size_t i = 0; i < FG_COUNT(ints); i++) {
        int64_t v;
        bool given;
        char expected[64], found[32];
        int rc = fg_json_i64(c->doc, c->text, "", ints[i].key, 0, 0, INT64_MAX, &v, &given, c->err);
        if (rc) return rc;
        if (!given || v == ints[i].value) continue;
        snprintf(expected, sizeof expected, "%" PRId64 ", as config.json says", v);
        snprintf(found, sizeof found, "%" PRId64, ints[i].value);
        return fail(c, ints[i].field, expected, found);
    }
    return 0;
}

static int check_real(const struct check *c, struct json_object *obj, const char *key,
                      const char *field, double value)
{
    double v;
    bool given;
    char expected[64], found[64];
    int rc = fg_json_f64(c->doc, obj, "", key, 0, &v, &given, c->err);
    if (rc || !given || v == value) return rc;
    snprintf(expected, sizeof expected, "%g, as config.json says", v);
    snprintf(found, sizeof found, "%g", value);
    return fail(c, field, expected, found);
}

// Components of a head that are rotated: head_dim * partial_rotary_factor, cut (model/rope.c).
static int check_rotary(const struct check *c, struct json_object *obj)
{
    double share;
    bool given;
    char expected[64], found[32];
    int rc = fg_json_f64(c->doc, obj, "", "partial_rotary_factor", 0, &share, &given, c->err);
    if (rc || !given || !(share > 0 && share <= 1)) return rc;
    int64_t dims = (int64_t)((double)c->m->head_dim * share);
    if (dims == c->m->rotary_dims) return 0;
    snprintf(expected, sizeof expected, "%" PRId64 ", as config.json says", dims);
    snprintf(found, sizeof found, "%" PRId64, c->m->rotary_dims);
    return fail(c, "/model/rotary_dims", expected, found);
}

static int check_layers(const struct check *c)
{
    struct json_object *types;
    int64_t interval;
    bool given;
    int rc = fg_json_arr(c->doc, c->text, "", "layer_types", &types, c->err);
    if (!rc) {
        rc = fg_json_i64(c->doc, c->text, "", "full_attention_interval", 0, 1, INT64_MAX, &interval,
                         &given, c->err);
    }
    if (rc || (!types && !given)) return rc;
    if (types && json_object_array_length(types) != (size_t)c->m->layers) {
        return fail(c, "/model/layer_types", "as many as in config.json", "another number");
    }
    for (int64_t i = 0; i < c->m->layers; i++) {
        bool linear = types == NULL && (i + 1) % interval != 0;
        if (types) {
            const char *s = json_object_get_string(json_object_array_get_idx(types, (size_t)i));
            linear = s && strcmp(s, "linear_attention") == 0;
        }
        if (linear == c->m->is_linear[i]) continue;
        char field[64];
        snprintf(field, sizeof field, "/model/layer_types/%" PRId64, i);
        return fail(c, field,
                    linear ? "linear_attention, as in config.json"
                           : "full_attention, as in config.json",
                    linear ? "full_attention" : "linear_attention");
    }
    return 0;
}

int fg_build_check_config(const char *path, const struct fg_manifest *m, const char *manifest,
                          struct fg_error *err)
{
    struct fg_json doc;
    struct json_object *rope;
    int rc = fg_json_open(&doc, path, CONFIG_BYTES_MAX, err);
    if (rc) return rc;
    struct check c = {.doc = &doc, .m = &m->model, .manifest = manifest, .err = err};
    rc = fg_json_obj(&doc, doc.root, "", "text_config", &c.text, err);
    if (!c.text) c.text = doc.root;
    if (!rc) rc = check_ints(&c);
    if (!rc) rc = check_real(&c, c.text, "rms_norm_eps", "/model/rms_eps", m->model.rms_eps);
    if (!rc) rc = check_real(&c, c.text, "rope_theta", "/model/rope_theta", m->model.rope_theta);
    if (!rc) rc = fg_json_obj(&doc, c.text, "", "rope_parameters", &rope, err);
    if (!rc) rc = check_real(&c, rope, "rope_theta", "/model/rope_theta", m->model.rope_theta);
    if (!rc && !rope) rc = check_rotary(&c, c.text);
    if (!rc) rc = check_rotary(&c, rope);
    if (!rc) rc = check_layers(&c);
    fg_json_close(&doc);
    return rc;
}
