// model/import_config.c: config.json and generation_config.json of an imported GGUF (sections 1.2,
// 11.3, 11.4).
#include "base/num.h"
#include "model/import_impl.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Metadata are mostly FP32: 1e-5 arrives as 9.99999974737875e-06. The shortest decimal that gives
// the same FP32 is what the model's author wrote.
static double as_written(double v)
{
    for (int digits = 1; digits <= 9; digits++) {
        double unit = pow(10, digits - 1 - floor(log10(fabs(v))));
        double rounded = round(v * unit) / unit;
        if (isfinite(rounded) && (float)rounded == (float)v) {
            // The quotient may be an ulp off the decimal's own double: take that of the text.
            char text[40];
            double exact;
            snprintf(text, sizeof text, "%.*e", digits - 1, rounded);
            return fg_parse_f64(text, &exact) && (float)exact == (float)v ? exact : rounded;
        }
    }
    return v;
}

static void number(struct fg_jwrite *w, const char *key, double v)
{
    fg_jwrite_num(w, key, v == 0 || (double)(float)v != v ? v : as_written(v));
}

// int(head_dim * factor) must give rot back.
static double partial_factor(const struct fg_import_params *p)
{
    double f = (double)p->rot / (double)p->head_dim;
    while ((int64_t)((double)p->head_dim * f) < p->rot) {
        f = nextafter(f, 2);
    }
    return f;
}

// HF's llama3 scaling with the parameters that every published file has: do they give these
// divisors?
static bool is_llama3(const struct fg_import *imp, double *factor)
{
    const struct fg_import_params *p = &imp->params;
    const uint64_t n = imp->rope_freqs->n;
    const double low = 1, high = 4, original = 8192;
    float f;
    memcpy(&f, imp->rope_freqs->data + 4 * (n - 1), sizeof f); // the longest wave: all of it
    *factor = (double)f;
    if (*factor <= 1) return false;
    for (uint64_t i = 0; i < n; i++) {
        double wave = 2 * M_PI * pow(p->rope_theta, 2 * (double)i / (double)p->rot);
        double t = (original / wave - low) / (high - low);
        double want = wave < original / high  ? 1
                      : wave > original / low ? *factor
                                              : 1 / ((1 - t) / *factor + t);
        memcpy(&f, imp->rope_freqs->data + 4 * i, sizeof f);
        if (fabs((double)f / want - 1) > 1e-5) return false;
    }
    return true;
}

static void write_scaling(struct fg_jwrite *w, const struct fg_import *imp)
{
    const struct fg_import_params *p = &imp->params;
    double factor;
    if (strcmp(p->rope_type, "default") != 0) {
        fg_jwrite_object(w, "rope_scaling");
        fg_jwrite_str(w, "rope_type", p->rope_type);
        number(w, "factor", p->rope_factor);
        if (p->rope_original > 0) {
            fg_jwrite_int(w, "original_max_position_embeddings", p->rope_original);
        }
        if (strcmp(p->rope_type, "yarn") == 0) {
            number(w, "beta_fast", p->rope_beta_fast);
            number(w, "beta_slow", p->rope_beta_slow);
        }
        fg_jwrite_end_object(w);
    } else if (imp->rope_freqs && is_llama3(imp, &factor)) {
        fg_jwrite_object(w, "rope_scaling");
        fg_jwrite_str(w, "rope_type", "llama3");
        number(w, "factor", factor);
        number(w, "low_freq_factor", 1);
        number(w, "high_freq_factor", 4);
        fg_jwrite_int(w, "original_max_position_embeddings", 8192);
        fg_jwrite_end_object(w);
        return;
    }
    if (!imp->rope_freqs) return;
    fg_jwrite_array(w, "forge_rope_freq_divisors");
    for (uint64_t i = 0; i < imp->rope_freqs->n; i++) {
        float f;
        memcpy(&f, imp->rope_freqs->data + 4 * i, sizeof f);
        fg_jwrite_num(w, NULL, (double)f);
    }
    fg_jwrite_end_array(w);
}

static void write_rope(struct fg_jwrite *w, const struct fg_import *imp)
{
    const struct fg_import_params *p = &imp->params;
    if (p->arch != FG_ARCH_QWEN35 || strcmp(p->rope_type, "default") != 0) {
        number(w, "rope_theta", p->rope_theta);
        if (p->rot != p->head_dim) {
            fg_jwrite_num(w, "partial_rotary_factor", partial_factor(p));
        }
        write_scaling(w, imp);
        return;
    }
    fg_jwrite_object(w, "rope_parameters");
    fg_jwrite_str(w, "rope_type", "default");
    number(w, "rope_theta", p->rope_theta);
    fg_jwrite_num(w, "partial_rotary_factor", partial_factor(p));
    if (p->n_mrope > 0) {
        fg_jwrite_bool(w, "mrope_interleaved", true);
        fg_jwrite_array(w, "mrope_section");
        for (uint64_t i = 0; i < p->n_mrope; i++) {
            fg_jwrite_int(w, NULL, p->mrope[i]);
        }
        fg_jwrite_end_array(w);
    }
    fg_jwrite_end_object(w);
    write_scaling(w, imp);
}

static void write_hybrid(struct fg_jwrite *w, const struct fg_import_params *p)
{
    fg_jwrite_int(w, "full_attention_interval", p->full_interval);
    fg_jwrite_array(w, "layer_types");
    for (int64_t i = 0; i < p->n_layers; i++) {
        fg_jwrite_str(w, NULL, fg_import_is_full(p, i) ? "full_attention" : "linear_attention");
    }
    fg_jwrite_end_array(w);
    fg_jwrite_int(w, "linear_conv_kernel_dim", p->conv_kernel);
    fg_jwrite_int(w, "linear_key_head_dim", p->k_head_dim);
    fg_jwrite_int(w, "linear_value_head_dim", p->v_head_dim);
    fg_jwrite_int(w, "linear_num_key_heads", p->n_k_heads);
    fg_jwrite_int(w, "linear_num_value_heads", p->n_v_heads);
    fg_jwrite_bool(w, "attn_output_gate", true);
}

// A token id of the metadata, absent when the file has none.
static int write_id(struct fg_jwrite *w, const struct fg_import *imp, const char *name,
                    const char *key, struct fg_error *err)
{
    int64_t id;
    bool given;
    int rc = fg_gguf_i64(imp->gguf, key, 0, 0, imp->params.vocab - 1, &id, &given, err);
    if (!rc && given) fg_jwrite_int(w, name, id);
    return rc;
}

int fg_import_hand_over(struct fg_jwrite *w, int rc, struct fg_buf *out, struct fg_error *err)
{
    fg_jwrite_end_object(w);
    fg_buf_char(&w->buf, '\n');
    if (!rc && w->buf.failed) rc = fg_fail_memory(err, FG_IMPORT_WHAT, w->buf.len);
    fg_buf_free(out);
    if (!rc) {
        *out = w->buf;
        w->buf = (struct fg_buf){0};
    }
    fg_jwrite_free(w);
    return rc;
}

int fg_import_config(const struct fg_import *imp, const enum fg_dtype *dtype, struct fg_buf *out,
                     struct fg_error *err)
{
    static const char *const dtype_names[] = {
        [FG_F32] = "float32", [FG_F16] = "float16", [FG_BF16] = "bfloat16"};
    const struct fg_import_params *p = &imp->params;
    const char *model = p->arch == FG_ARCH_LLAMA   ? "llama"
                        : p->arch == FG_ARCH_QWEN2 ? "qwen2"
                        : p->arch == FG_ARCH_QWEN3 ? "qwen3"
                                                   : "qwen3_5_text";
    const char *class = p->arch == FG_ARCH_LLAMA   ? "LlamaForCausalLM"
                        : p->arch == FG_ARCH_QWEN2 ? "Qwen2ForCausalLM"
                        : p->arch == FG_ARCH_QWEN3 ? "Qwen3ForCausalLM"
                                                   : "Qwen3_5ForCausalLM";
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_array(&w, "architectures");
    fg_jwrite_str(&w, NULL, class);
    fg_jwrite_end_array(&w);
    fg_jwrite_str(&w, "model_type", model);
    fg_jwrite_int(&w, "vocab_size", p->vocab);
    fg_jwrite_int(&w, "hidden_size", p->hidden);
    fg_jwrite_int(&w, "intermediate_size", p->intermediate);
    fg_jwrite_int(&w, "num_hidden_layers", p->n_layers);
    fg_jwrite_int(&w, "num_attention_heads", p->n_heads);
    fg_jwrite_int(&w, "num_key_value_heads", p->n_kv_heads);
    fg_jwrite_int(&w, "head_dim", p->head_dim);
    fg_jwrite_str(&w, "hidden_act", "silu");
    number(&w, "rms_norm_eps", p->norm_eps);
    fg_jwrite_int(&w, "max_position_embeddings", p->max_positions);
    write_rope(&w, imp);
    if (p->arch != FG_ARCH_QWEN2) fg_jwrite_bool(&w, "attention_bias", p->qkv_bias);
    if (p->arch == FG_ARCH_LLAMA) fg_jwrite_bool(&w, "mlp_bias", p->mlp_bias);
    if (p->arch == FG_ARCH_QWEN35) write_hybrid(&w, p);
    fg_jwrite_bool(&w, "tie_word_embeddings", p->tied);
    int rc = write_id(&w, imp, "bos_token_id", "tokenizer.ggml.bos_token_id", err);
    if (!rc) rc = write_id(&w, imp, "eos_token_id", "tokenizer.ggml.eos_token_id", err);
    if (!rc) rc = write_id(&w, imp, "pad_token_id", "tokenizer.ggml.padding_token_id", err);
    fg_jwrite_str(&w, "torch_dtype", dtype_names[dtype ? *dtype : imp->tensors[0].dtype]);
    return fg_import_hand_over(&w, rc, out, err);
}

int fg_import_generation_config(const struct fg_import *imp, struct fg_buf *out,
                                struct fg_error *err)
{
    static const char *const stops[] = {"tokenizer.ggml.eos_token_id",
                                        "tokenizer.ggml.eot_token_id"};
    int64_t ids[2];
    size_t n = 0;
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    int rc = write_id(&w, imp, "bos_token_id", "tokenizer.ggml.bos_token_id", err);
    for (size_t i = 0; i < 2 && !rc; i++) {
        bool given;
        rc = fg_gguf_i64(imp->gguf, stops[i], 0, 0, imp->params.vocab - 1, &ids[n], &given, err);
        if (!rc && given && (n == 0 || ids[0] != ids[n])) n++;
    }
    if (n == 1) fg_jwrite_int(&w, "eos_token_id", ids[0]);
    if (n == 2) {
        fg_jwrite_array(&w, "eos_token_id");
        fg_jwrite_int(&w, NULL, ids[0]);
        fg_jwrite_int(&w, NULL, ids[1]);
        fg_jwrite_end_array(&w);
    }
    if (!rc) rc = write_id(&w, imp, "pad_token_id", "tokenizer.ggml.padding_token_id", err);
    return fg_import_hand_over(&w, rc, out, err);
}
