// model/config.c: config.json to struct fg_config.
#include "model/config.h"
#include "base/json.h"
#include "base/size.h"
#include "kernels/kv.h"
#include "model/rope.h"
#include <stdio.h>
#include <string.h>

#define HEAD_DIM_MAX FG_KV_WIDTH_MAX
#define EXTENT_MAX INT32_MAX // 2^31 - 1: larger extents are refused (section 10)

// The fields of one JSON object, with the first error kept so that a list of reads is checked once.
struct reader {
    const struct fg_json *doc;
    struct json_object *obj;
    const char *where; // "text_config." or ""
    struct fg_error *err;
    int rc;
};

static int64_t read_i64(struct reader *r, const char *key, int64_t def, int64_t min)
{
    int64_t v = def;
    if (r->rc == 0)
        r->rc = fg_json_i64(r->doc, r->obj, r->where, key, def, min, EXTENT_MAX, &v, NULL, r->err);
    return v;
}

static bool read_bool(struct reader *r, const char *key, bool def)
{
    bool v = def;
    if (r->rc == 0) r->rc = fg_json_bool(r->doc, r->obj, r->where, key, def, &v, NULL, r->err);
    return v;
}

static double read_f64(struct reader *r, const char *key, double def)
{
    double v = def;
    if (r->rc == 0) r->rc = fg_json_f64(r->doc, r->obj, r->where, key, def, &v, NULL, r->err);
    return v;
}

static const char *read_str(struct reader *r, const char *key, const char *def)
{
    const char *v = def;
    if (r->rc == 0) r->rc = fg_json_str(r->doc, r->obj, r->where, key, def, &v, NULL, r->err);
    return v;
}

static int refuse(struct reader *r, int code, const char *key, const char *expected,
                  const char *found)
{
    char field[128];
    snprintf(field, sizeof field, "%s%s", r->where, key);
    r->rc = fg_fail(r->err, code, "config", r->doc->file, field, expected, "%s", found);
    return r->rc;
}

const char *fg_family_name(enum fg_family family)
{
    static const char *const names[] = {"qwen3_5", "qwen3", "qwen2", "llama"};
    return names[family];
}

static int read_family(struct reader *r, struct json_object *root, enum fg_family *family)
{
    static const struct {
        const char *name;
        enum fg_family family;
    } known[] = {
        {"qwen3_5_text", FG_FAMILY_QWEN35}, {"qwen3_5", FG_FAMILY_QWEN35},
        {"qwen3", FG_FAMILY_QWEN3},         {"qwen2", FG_FAMILY_QWEN2},
        {"llama", FG_FAMILY_LLAMA},
    };
    struct json_object *type = NULL;
    // A text_config without a type of its own takes the wrapper's.
    if (!json_object_object_get_ex(r->obj, "model_type", &type) || !type)
        json_object_object_get_ex(root, "model_type", &type);
    if (!type || !json_object_is_type(type, json_type_string))
        return refuse(r, FG_EINPUT, "model_type", "qwen3_5, qwen3, qwen2 or llama",
                      type ? "not a string" : "nothing");
    const char *name = json_object_get_string(type);
    for (size_t i = 0; i < FG_COUNT(known); i++) {
        if (strcmp(name, known[i].name) == 0) {
            *family = known[i].family;
            return 0;
        }
    }
    refuse(r, FG_EINPUT, "model_type", "qwen3_5, qwen3, qwen2 or llama", name);
    if (strncmp(name, "qwen3_5_moe", 11) == 0 || strcmp(name, "qwen3_next") == 0 ||
        strncmp(name, "qwen4", 5) == 0)
        fg_error_hint(r->err, "mixture of experts / fused projections are not supported");
    return r->rc;
}

// Things that would change the forward pass and that Forge does not compute.
static int refuse_variants(struct reader *r, const struct fg_config *cfg)
{
    static const char *const quant_keys[] = {"quantization_config", "quantization"};
    for (size_t i = 0; i < FG_COUNT(quant_keys); i++) {
        struct json_object *q = NULL, *method = NULL;
        if (!json_object_object_get_ex(r->obj, quant_keys[i], &q) || !q) continue;
        char found[96] = "a quantized checkpoint";
        if (json_object_is_type(q, json_type_object) &&
            (json_object_object_get_ex(q, "quant_method", &method) ||
             json_object_object_get_ex(q, "bits", &method)))
            snprintf(found, sizeof found, "a quantized checkpoint (%.60s)",
                     json_object_get_string(method));
        return refuse(r, FG_EINPUT, quant_keys[i], "unquantized weights", found);
    }
    const char *act = read_str(r, "hidden_act", "silu");
    if (r->rc == 0 && strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        return refuse(r, FG_EINPUT, "hidden_act", "silu", act);
    if (cfg->family == FG_FAMILY_QWEN35) {
        if (!read_bool(r, "attn_output_gate", true) && r->rc == 0)
            return refuse(r, FG_EINPUT, "attn_output_gate", "true", "false");
        const char *gate = read_str(r, "output_gate_type", "silu");
        if (r->rc == 0 && strcmp(gate, "silu") != 0 && strcmp(gate, "swish") != 0)
            return refuse(r, FG_EINPUT, "output_gate_type", "silu or swish", gate);
    }
    struct json_object *list = NULL;
    if (r->rc == 0) r->rc = fg_json_arr(r->doc, r->obj, r->where, "mlp_only_layers", &list, r->err);
    if (r->rc == 0 && list && json_object_array_length(list) > 0)
        return refuse(r, FG_EINPUT, "mlp_only_layers", "[]", "a list of layers");
    static const char *const experts[] = {"num_experts", "num_local_experts", "n_routed_experts"};
    for (size_t i = 0; i < FG_COUNT(experts) && r->rc == 0; i++) {
        if (read_i64(r, experts[i], 0, 0) > 0)
            return refuse(r, FG_EINPUT, experts[i], "none: a dense MLP", "a mixture of experts");
    }
    if (read_i64(r, "pretraining_tp", 1, 0) > 1)
        return refuse(r, FG_EINPUT, "pretraining_tp", "1", "more");
    if (read_bool(r, "use_sliding_window", false) && r->rc == 0) {
        int64_t window = read_i64(r, "sliding_window", 0, 0);
        if (r->rc == 0 && window > 0 && window < cfg->max_positions)
            return refuse(r, FG_EINPUT, "sliding_window", "none, or the whole context",
                          "a shorter window");
    }
    return r->rc;
}

static int read_layer_types(struct reader *r, struct fg_config *cfg)
{
    struct json_object *list = NULL;
    bool hybrid = cfg->family == FG_FAMILY_QWEN35;
    int64_t interval = hybrid ? read_i64(r, "full_attention_interval", 4, 1) : 1;
    if (r->rc == 0) r->rc = fg_json_arr(r->doc, r->obj, r->where, "layer_types", &list, r->err);
    if (r->rc) return r->rc;
    if (list && (int64_t)json_object_array_length(list) != cfg->n_layers) {
        char expected[64], found[64];
        snprintf(expected, sizeof expected, "%lld entries (num_hidden_layers)",
                 (long long)cfg->n_layers);
        snprintf(found, sizeof found, "%zu", json_object_array_length(list));
        return refuse(r, FG_EINPUT, "layer_types", expected, found);
    }
    for (int64_t i = 0; i < cfg->n_layers; i++) {
        if (list) {
            struct json_object *v = json_object_array_get_idx(list, (size_t)i);
            const char *s = v && json_object_is_type(v, json_type_string)
                                ? json_object_get_string(v)
                                : "not a string";
            char field[48];
            snprintf(field, sizeof field, "layer_types[%lld]", (long long)i);
            cfg->is_linear[i] = strcmp(s, "linear_attention") == 0;
            if (!cfg->is_linear[i] && strcmp(s, "full_attention") != 0)
                return refuse(r, FG_EINPUT, field, "linear_attention or full_attention", s);
            if (cfg->is_linear[i] && !hybrid)
                return refuse(r, FG_EINPUT, field, "full_attention in this family", s);
        } else {
            cfg->is_linear[i] = hybrid && (i + 1) % interval != 0;
        }
        if (cfg->is_linear[i])
            cfg->n_linear++;
        else
            cfg->n_full++;
    }
    return 0;
}

static int divides(struct reader *r, const char *key, int64_t a, const char *by, int64_t b)
{
    if (a % b == 0) return 0;
    char expected[96], found[48];
    snprintf(expected, sizeof expected, "a multiple of %s = %lld", by, (long long)b);
    snprintf(found, sizeof found, "%lld", (long long)a);
    return refuse(r, FG_EINPUT, key, expected, found);
}

int fg_config_parse(struct fg_config *cfg, const struct fg_json *doc, struct fg_arena *arena,
                    struct fg_error *err)
{
    *cfg = (struct fg_config){0};
    struct json_object *root = doc->root, *text = NULL;
    if (!root || !json_object_is_type(root, json_type_object))
        return fg_fail(err, FG_EINPUT, "config", doc->file, NULL, "a JSON object", "another value");
    int rc = fg_json_obj(doc, root, "", "text_config", &text, err);
    if (rc) return rc;
    struct reader reader = {doc, text ? text : root, text ? "text_config." : "", err, 0};
    struct reader *r = &reader;
    if (read_family(r, root, &cfg->family)) return r->rc;
    const bool q35 = cfg->family == FG_FAMILY_QWEN35;

    cfg->vocab = read_i64(r, "vocab_size", q35 ? 248320 : 0, 1);
    cfg->hidden = read_i64(r, "hidden_size", 4096, 1);
    cfg->intermediate = read_i64(r, "intermediate_size", 12288, 1);
    cfg->n_layers = read_i64(r, "num_hidden_layers", 32, 1);
    cfg->n_heads = read_i64(r, "num_attention_heads", q35 ? 16 : 32, 1);
    cfg->n_kv_heads = read_i64(r, "num_key_value_heads", q35 ? 4 : cfg->n_heads, 1);
    cfg->max_positions = read_i64(r, "max_position_embeddings", 32768, 1);
    if (r->rc) return r->rc;
    if (cfg->vocab == 0) return refuse(r, FG_EINPUT, "vocab_size", "a positive number", "nothing");
    if (cfg->n_layers > FG_CONFIG_LAYERS_MAX)
        return refuse(r, FG_EINPUT, "num_hidden_layers", "at most 1024", "more");
    int64_t head_dim_default = q35                              ? 256
                               : cfg->family == FG_FAMILY_QWEN3 ? 128
                               : cfg->hidden / cfg->n_heads > 0 ? cfg->hidden / cfg->n_heads
                                                                : 1;
    cfg->head_dim = read_i64(r, "head_dim", head_dim_default, 1);
    if (r->rc == 0 && cfg->head_dim > HEAD_DIM_MAX)
        return refuse(r, FG_EINPUT, "head_dim", "at most 512", "more");

    double eps = read_f64(r, "rms_norm_eps", 1e-6);
    cfg->norm_eps = (float)eps;
    if (r->rc == 0 && !(eps >= 0 && eps < 1))
        return refuse(r, FG_EINPUT, "rms_norm_eps", "at least 0 and below 1", "another number");
    cfg->norm_zero_centred = q35;
    cfg->qk_norm = q35 || cfg->family == FG_FAMILY_QWEN3;
    cfg->output_gate = q35;
    bool bias = read_bool(r, "attention_bias", false);
    cfg->qkv_bias = cfg->family == FG_FAMILY_QWEN2 || bias;
    cfg->o_bias = cfg->family != FG_FAMILY_QWEN2 && bias;
    cfg->mlp_bias = cfg->family == FG_FAMILY_LLAMA && read_bool(r, "mlp_bias", false);
    if (text && !fg_json_has(text, "tie_word_embeddings")) {
        if (r->rc == 0)
            r->rc =
                fg_json_bool(doc, root, "", "tie_word_embeddings", false, &cfg->tied, NULL, err);
    } else {
        cfg->tied = read_bool(r, "tie_word_embeddings", false);
    }
    if (q35) {
        cfg->conv_kernel = read_i64(r, "linear_conv_kernel_dim", 4, 1);
        cfg->k_head_dim = read_i64(r, "linear_key_head_dim", 128, 1);
        cfg->v_head_dim = read_i64(r, "linear_value_head_dim", 128, 1);
        cfg->n_k_heads = read_i64(r, "linear_num_key_heads", 16, 1);
        cfg->n_v_heads = read_i64(r, "linear_num_value_heads", 32, 1);
        if (r->rc == 0 && (cfg->conv_kernel < 2 || cfg->conv_kernel > FG_CONFIG_CONV_MAX))
            return refuse(r, FG_EINPUT, "linear_conv_kernel_dim", "2 to 8", "another number");
    }
    if (r->rc) return r->rc;
    if (divides(r, "num_attention_heads", cfg->n_heads, "num_key_value_heads", cfg->n_kv_heads))
        return r->rc;
    if (q35 && divides(r, "linear_num_value_heads", cfg->n_v_heads, "linear_num_key_heads",
                       cfg->n_k_heads))
        return r->rc;
    // Products of these become array lengths: each must stay far below 2^63, and one row below 2^31
    // elements.
    if (cfg->n_heads * cfg->head_dim > EXTENT_MAX / 2)
        return refuse(r, FG_EINPUT, "head_dim", "num_attention_heads * head_dim below 2^30",
                      "more");
    if (q35 && (cfg->n_k_heads * cfg->k_head_dim > EXTENT_MAX / 8 ||
                cfg->n_v_heads * cfg->v_head_dim > EXTENT_MAX / 8))
        return refuse(r, FG_EINPUT, "linear_value_head_dim", "heads * head dim below 2^28", "more");
    if (refuse_variants(r, cfg)) return r->rc;

    cfg->is_linear = fg_arena_alloc(arena, (uint64_t)cfg->n_layers, sizeof *cfg->is_linear);
    if (!cfg->is_linear) return fg_fail_memory(err, "config", (uint64_t)cfg->n_layers);
    if (read_layer_types(r, cfg)) return r->rc;
    return fg_rope_parse(cfg, doc, r->obj, r->where, arena, err);
}

int64_t fg_config_conv_channels(const struct fg_config *c)
{
    return 2 * c->n_k_heads * c->k_head_dim + c->n_v_heads * c->v_head_dim;
}

uint64_t fg_config_parameters(const struct fg_config *c)
{
    uint64_t h = (uint64_t)c->hidden, f = (uint64_t)c->intermediate, d = (uint64_t)c->head_dim;
    uint64_t q = (uint64_t)c->n_heads * d, kv = (uint64_t)c->n_kv_heads * d;
    uint64_t channels = (uint64_t)fg_config_conv_channels(c), nv = (uint64_t)c->n_v_heads;
    uint64_t val = nv * (uint64_t)c->v_head_dim;
    uint64_t q_rows = c->output_gate ? 2 * q : q;
    uint64_t full = h * (q_rows + 2 * kv) + h * q + (c->qk_norm ? 2 * d : 0) +
                    (c->qkv_bias ? q_rows + 2 * kv : 0) + (c->o_bias ? h : 0);
    uint64_t linear = h * (channels + val + 2 * nv) + channels * (uint64_t)c->conv_kernel + 2 * nv +
                      (uint64_t)c->v_head_dim + h * val;
    uint64_t mlp = 3 * h * f + (c->mlp_bias ? 2 * f + h : 0);
    return (uint64_t)c->vocab * h * (c->tied ? 1 : 2) + h + (uint64_t)c->n_layers * (mlp + 2 * h) +
           (uint64_t)c->n_full * full + (uint64_t)c->n_linear * linear;
}

uint64_t fg_config_state_bytes(const struct fg_config *c)
{
    return (uint64_t)c->n_linear * (uint64_t)c->n_v_heads * (uint64_t)c->k_head_dim *
           (uint64_t)c->v_head_dim * sizeof(float);
}

uint64_t fg_config_conv_bytes(const struct fg_config *c)
{
    return c->n_linear ? (uint64_t)c->n_linear * (uint64_t)(c->conv_kernel - 1) *
                             (uint64_t)fg_config_conv_channels(c) * sizeof(float)
                       : 0;
}

uint64_t fg_config_kv_bytes_per_position(const struct fg_config *c)
{
    return (uint64_t)c->n_full * 2 * (uint64_t)c->n_kv_heads * (uint64_t)c->head_dim *
           sizeof(float);
}
