// bundle/synth_shape.c: the shapes that synth knows, as config.json and plan.
#include "bundle/synth_impl.h"
#include "base/json.h"
#include "base/jwrite.h"
#include "base/size.h"
#include "model/plan_shape.h"
#include <stdio.h>
#include <string.h>

struct shape {
    const char *name;
    int64_t vocab, hidden, intermediate, layers, max_positions;
    int64_t heads, kv_heads, head_dim;
    int64_t k_heads, v_heads, k_head_dim, v_head_dim;
    double theta;
    const char *plan; // a built-in one, or the text of a plan file
    int64_t ctxs[9];  // 0 past the last
};

#define LAYERS_PER_FULL 4 // three DeltaNet layers, one of full attention
#define CONV_KERNEL 4
#define ROTARY_SHARE 0.25

static const struct shape shapes[] = {
    {"qwen3.8-27b",
     248320,
     5120,
     17408,
     64,
     262144,
     24,
     4,
     256,
     16,
     48,
     128,
     128,
     1e7,
     "release-0.2",
     {8192, 16384, 32768, 65536, 98304, 131072, 196608, 0}},
    {"tiny-hybrid",
     1000,
     256,
     640,
     8,
     1024,
     6,
     2,
     64,
     2,
     6,
     32,
     32,
     1e6,
     "{\"schema\":\"forge.plan/1\",\"defaults\":{\"mlp\":\"v2x64\",\"mixer\":\"lut4\","
     "\"kv\":\"int8\",\"head\":\"lut4\",\"basis\":\"online\",\"lr_rank\":8,"
     "\"lr_parts\":[\"gdn\",\"attn\"]},\"overrides\":{\"0.mixer\":\"v2x16\","
     "\"3.mixer\":\"v2x16\",\"1.mlp\":\"lut6\"}}",
     {256, 512, 1024, 0}},
};

const char *fg_synth_shape_name(int i)
{
    return i >= 0 && (size_t)i < FG_COUNT(shapes) ? shapes[i].name : NULL;
}

static const struct shape *find(const char *name)
{
    for (size_t i = 0; i < FG_COUNT(shapes); i++) {
        if (strcmp(shapes[i].name, name) == 0) return &shapes[i];
    }
    return NULL;
}

static void write_config(const struct shape *s, struct fg_jwrite *w)
{
    fg_jwrite_object(w, NULL);
    fg_jwrite_array(w, "architectures");
    fg_jwrite_str(w, NULL, "Qwen3_5ForCausalLM");
    fg_jwrite_end_array(w);
    fg_jwrite_str(w, "model_type", "qwen3_5_text");
    fg_jwrite_str(w, "dtype", "bfloat16");
    fg_jwrite_int(w, "vocab_size", s->vocab);
    fg_jwrite_int(w, "hidden_size", s->hidden);
    fg_jwrite_int(w, "intermediate_size", s->intermediate);
    fg_jwrite_int(w, "num_hidden_layers", s->layers);
    fg_jwrite_int(w, "max_position_embeddings", s->max_positions);
    fg_jwrite_array(w, "layer_types");
    for (int64_t i = 1; i <= s->layers; i++)
        fg_jwrite_str(w, NULL, i % LAYERS_PER_FULL ? "linear_attention" : "full_attention");
    fg_jwrite_end_array(w);
    fg_jwrite_int(w, "num_attention_heads", s->heads);
    fg_jwrite_int(w, "num_key_value_heads", s->kv_heads);
    fg_jwrite_int(w, "head_dim", s->head_dim);
    fg_jwrite_bool(w, "attention_bias", false);
    fg_jwrite_int(w, "linear_num_key_heads", s->k_heads);
    fg_jwrite_int(w, "linear_num_value_heads", s->v_heads);
    fg_jwrite_int(w, "linear_key_head_dim", s->k_head_dim);
    fg_jwrite_int(w, "linear_value_head_dim", s->v_head_dim);
    fg_jwrite_int(w, "linear_conv_kernel_dim", CONV_KERNEL);
    fg_jwrite_str(w, "hidden_act", "silu");
    fg_jwrite_num(w, "rms_norm_eps", 1e-6);
    fg_jwrite_object(w, "rope_parameters");
    fg_jwrite_str(w, "rope_type", "default");
    fg_jwrite_num(w, "rope_theta", s->theta);
    fg_jwrite_num(w, "partial_rotary_factor", ROTARY_SHARE);
    fg_jwrite_end_object(w);
    fg_jwrite_bool(w, "tie_word_embeddings", false);
    fg_jwrite_end_object(w);
    fg_buf_char(&w->buf, '\n');
}

static int open_plan(struct fg_plan **out, const struct shape *s, struct fg_error *err)
{
    return s->plan[0] == '{' ? fg_plan_parse(out, s->plan, strlen(s->plan), s->name, err)
                             : fg_plan_open(out, s->plan, err);
}

int fg_synth_model_new(struct fg_synth_model *m, const char *shape, struct fg_error *err)
{
    *m = (struct fg_synth_model){0};
    fg_arena_init(&m->arena, 0);
    const struct shape *s = find(shape);
    if (!s) {
        char known[128] = "";
        for (size_t i = 0, at = 0; i < FG_COUNT(shapes) && at < sizeof known; i++)
            at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? " or " : "",
                                   shapes[i].name);
        char found[64];
        return fg_fail(err, FG_EINPUT, "synthetic bundle", NULL, "shape", known, "%s",
                       fg_escape(found, sizeof found, shape, strlen(shape)));
    }
    m->name = s->name;
    m->ctxs = s->ctxs;
    struct fg_jwrite w = {0};
    write_config(s, &w);
    m->config = w.buf;
    if (m->config.failed) {
        fg_synth_model_free(m);
        return fg_fail_memory(err, "config", sizeof shapes);
    }
    struct fg_json doc = {0};
    struct fg_plan *plan = NULL;
    int rc = fg_json_parse(&doc, m->config.data, m->config.len, s->name, err);
    if (rc == 0) rc = fg_config_parse(&m->cfg, &doc, &m->arena, err);
    if (rc == 0) rc = open_plan(&plan, s, err);
    if (rc == 0) {
        struct fg_plan_shape wants = fg_plan_shape_of(&m->cfg);
        rc = fg_plan_resolve(&m->plan, plan, &wants, err);
    }
    fg_plan_free(plan);
    fg_json_close(&doc);
    if (rc) fg_synth_model_free(m);
    return rc;
}

void fg_synth_model_free(struct fg_synth_model *m)
{
    fg_plan_list_free(&m->plan);
    fg_buf_free(&m->config);
    fg_arena_free(&m->arena);
    *m = (struct fg_synth_model){0};
}

int fg_synth_plan(struct fg_plan_list *out, const char *shape, struct fg_error *err)
{
    *out = (struct fg_plan_list){0};
    struct fg_synth_model m;
    int rc = fg_synth_model_new(&m, shape, err);
    if (rc) return rc;
    *out = m.plan;
    m.plan = (struct fg_plan_list){0};
    fg_synth_model_free(&m);
    return 0;
}
