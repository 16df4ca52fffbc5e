// Config parsing: published sizes (specs: model 1.4, 2.2, 8), defaults, rotary rules, and
// everything that must be refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs those first
#include <cmocka.h>

#include "base/json.h"
#include "model/config.h"
#include "model/rope.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static int parse(const char *text, struct fg_config *c, struct fg_arena *arena,
                 struct fg_error *err)
{
    struct fg_json doc;
    int rc = fg_json_parse(&doc, text, strlen(text), "config.json", err);
    if (rc) return rc;
    rc = fg_config_parse(c, &doc, arena, err);
    fg_json_close(&doc);
    return rc;
}

static void must_parse(const char *text, struct fg_config *c, struct fg_arena *arena)
{
    struct fg_error err = {0};
    char line[1024];
    int rc = parse(text, c, arena, &err);
    if (rc) fail_msg("%s: %s", text, fg_error_line(&err, line, sizeof line));
}

// What the Qwen3.5 family's files have in common, around the numbers of one size.
#define FAMILY                                                                                     \
    "\"model_type\":\"qwen3_5_text\",\"vocab_size\":248320,\"linear_conv_kernel_dim\":4,"          \
    "\"head_dim\":256,\"linear_key_head_dim\":128,\"linear_value_head_dim\":128,"                  \
    "\"rms_norm_eps\":1e-6,\"max_position_embeddings\":262144,\"rope_parameters\":{"               \
    "\"rope_theta\":10000000,\"partial_rotary_factor\":0.25,\"rope_type\":\"default\","            \
    "\"mrope_section\":[11,11,10],\"mrope_interleaved\":true},\"linear_num_key_heads\":16,"
#define NUMBERS(h, f, l, nq, nkv, nv, tied)                                                        \
    "{\"model_type\":\"qwen3_5\",\"tie_word_embeddings\":" tied ",\"text_config\":{" FAMILY        \
    "\"hidden_size\":" #h ",\"intermediate_size\":" #f ",\"num_hidden_layers\":" #l                \
    ",\"num_attention_heads\":" #nq ",\"num_key_value_heads\":" #nkv                               \
    ",\"linear_num_value_heads\":" #nv "}}"

static void published_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t parameters, S, conv, kv_values;
        int64_t n_linear, n_full;
    } sizes[] = {
        {NUMBERS(1024, 3584, 24, 8, 2, 16, "true"), 752393024, 18874368, 1327104, 6144, 18, 6},
        {NUMBERS(2048, 6144, 24, 8, 2, 16, "true"), 1881825088, 18874368, 1327104, 6144, 18, 6},
        {NUMBERS(2560, 9216, 32, 16, 4, 32, "true"), 4205751296, 50331648, 2359296, 16384, 24, 8},
        {NUMBERS(4096, 12288, 32, 16, 4, 32, "false"), 8953803264, 50331648, 2359296, 16384, 24, 8},
        {NUMBERS(5120, 17408, 64, 24, 4, 48, "false"), 26895998464, 150994944, 5898240, 32768, 48,
         16},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct fg_arena arena;
        struct fg_config c;
        fg_arena_init(&arena, 0);
        must_parse(sizes[i].text, &c, &arena);
        assert_int_equal(fg_config_parameters(&c), sizes[i].parameters);
        assert_int_equal(fg_config_state_bytes(&c), sizes[i].S);
        assert_int_equal(fg_config_conv_bytes(&c), sizes[i].conv);
        assert_int_equal(fg_config_kv_bytes_per_position(&c), sizes[i].kv_values * 4);
        assert_int_equal(c.n_linear, sizes[i].n_linear);
        assert_int_equal(c.n_full, sizes[i].n_full);
        assert_int_equal(c.rot, 64);
        assert_true(c.is_linear[0] && c.is_linear[2] && !c.is_linear[3]);
        fg_arena_free(&arena);
    }
}

static void frequencies_of_the_27b(void **state)
{
    (void)state;
    struct fg_arena arena;
    struct fg_config c, other;
    fg_arena_init(&arena, 0);
    must_parse(NUMBERS(5120, 17408, 64, 24, 4, 48, "false"), &c, &arena);
    static const struct {
        int i;
        float w;
    } want[] = {{0, 1.0f},          {1, 0.604296386f},    {2, 0.365174115f},
                {8, 0.0177827943f}, {16, 3.16227757e-4f}, {31, 1.65481708e-7f}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        assert_true(fabsf(c.inv_freq[want[i].i] - want[i].w) <= 1.2e-7f * want[i].w);

    // For text the sections of M-RoPE change nothing.
    char text[2048];
    snprintf(text, sizeof text, "%s", NUMBERS(5120, 17408, 64, 24, 4, 48, "false"));
    char *sections = strstr(text, "[11,11,10]");
    memcpy(sections, "[10,11,11]", 10);
    must_parse(text, &other, &arena);
    assert_memory_equal(c.inv_freq, other.inv_freq, 32 * sizeof(float));

    // The angle is the FP32 product, cosine and sine are those of that product.
    float cs[64], sn[64];
    fg_rope_table(&c, 196606, 2, cs, sn);
    float angle = 196607.0f * c.inv_freq[1];
    assert_true(cs[32 + 1] == (float)cos((double)angle));
    assert_true(sn[32 + 1] == (float)sin((double)angle));
    fg_arena_free(&arena);
}

static void defaults_of_every_family(void **state)
{
    (void)state;
    struct fg_arena arena;
    struct fg_config c;
    fg_arena_init(&arena, 0);
    must_parse("{\"model_type\":\"qwen3_5_text\"}", &c, &arena);
    assert_int_equal(c.vocab, 248320);
    assert_int_equal(c.hidden, 4096);
    assert_int_equal(c.intermediate, 12288);
    assert_int_equal(c.n_layers, 32);
    assert_int_equal(c.n_heads, 16);
    assert_int_equal(c.n_kv_heads, 4);
    assert_int_equal(c.head_dim, 256);
    assert_int_equal(c.n_k_heads, 16);
    assert_int_equal(c.n_v_heads, 32);
    assert_int_equal(c.k_head_dim, 128);
    assert_int_equal(c.v_head_dim, 128);
    assert_int_equal(c.conv_kernel, 4);
    assert_int_equal(c.rot, 64);
    assert_int_equal(c.max_positions, 32768);
    assert_true(c.norm_eps == 1e-6f && c.rope_theta == 10000);
    assert_true(c.norm_zero_centred && c.qk_norm && c.output_gate && !c.qkv_bias && !c.tied);

    must_parse("{\"model_type\":\"qwen3\",\"vocab_size\":100,\"hidden_size\":64,"
               "\"num_attention_heads\":4,\"num_key_value_heads\":2}",
               &c, &arena);
    assert_int_equal(c.head_dim, 128);
    assert_int_equal(c.rot, 128);
    assert_true(c.qk_norm && !c.norm_zero_centred && !c.output_gate && c.n_linear == 0);

    must_parse("{\"model_type\":\"llama\",\"vocab_size\":100,\"hidden_size\":64,"
               "\"num_attention_heads\":4,\"mlp_bias\":true,\"attention_bias\":true}",
               &c, &arena);
    assert_int_equal(c.head_dim, 16);
    assert_int_equal(c.n_kv_heads, 4);
    assert_true(!c.qk_norm && c.mlp_bias && c.qkv_bias && c.o_bias);

    must_parse("{\"model_type\":\"qwen2\",\"vocab_size\":100,\"hidden_size\":64,"
               "\"num_attention_heads\":4,\"num_key_value_heads\":4}",
               &c, &arena);
    assert_true(c.qkv_bias && !c.o_bias && !c.qk_norm);

    // Irregular layer kinds win over the interval; the type of the wrapper serves a text_config
    // without one.
    must_parse("{\"model_type\":\"qwen3_5\",\"text_config\":{\"num_hidden_layers\":3,"
               "\"full_attention_interval\":1,\"layer_types\":[\"full_attention\","
               "\"linear_attention\",\"linear_attention\"]}}",
               &c, &arena);
    assert_true(!c.is_linear[0] && c.is_linear[1] && c.is_linear[2]);
    fg_arena_free(&arena);
}

static void rotary_variants(void **state)
{
    (void)state;
    struct fg_arena arena;
    struct fg_config base, c;
    fg_arena_init(&arena, 0);
#define LLAMA(more)                                                                                \
    "{\"model_type\":\"llama\",\"vocab_size\":100,\"hidden_size\":64,\"num_attention_heads\":1,"   \
    "\"max_position_embeddings\":8192,\"rope_theta\":500000" more "}"
    must_parse(LLAMA(""), &base, &arena);
    must_parse(LLAMA(",\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}"), &c, &arena);
    for (int i = 0; i < 32; i++)
        assert_true(c.inv_freq[i] == base.inv_freq[i] / 4);

    must_parse(LLAMA(",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
                     "\"low_freq_factor\":1,\"high_freq_factor\":4,"
                     "\"original_max_position_embeddings\":8192}"),
               &c, &arena);
    for (int i = 0; i < 32; i++) {
        double length = 2 * M_PI / (double)base.inv_freq[i];
        if (length < 2048) assert_true(c.inv_freq[i] == base.inv_freq[i]);
        if (length > 8192)
            assert_true(fabsf(c.inv_freq[i] * 8 - base.inv_freq[i]) < 1e-6f * base.inv_freq[i]);
        assert_true(c.inv_freq[i] <= base.inv_freq[i] &&
                    c.inv_freq[i] >= base.inv_freq[i] / 8.001f);
    }

    must_parse(LLAMA(",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,"
                     "\"original_max_position_embeddings\":2048}"),
               &c, &arena);
    assert_true(c.inv_freq[0] == base.inv_freq[0]);
    assert_true(fabsf(c.inv_freq[31] * 4 - base.inv_freq[31]) < 1e-6f * base.inv_freq[31]);
    assert_true(fabs((double)c.rope_scale - (0.1 * log(4.0) + 1)) < 1e-7);

    // The unscaled context beside the rope object wins over the one inside.
    must_parse(LLAMA(",\"original_max_position_embeddings\":2048,\"rope_scaling\":{"
                     "\"rope_type\":\"yarn\",\"factor\":4,"
                     "\"original_max_position_embeddings\":64}"),
               &base, &arena);
    assert_memory_equal(base.inv_freq, c.inv_freq, 32 * sizeof(float));
    fg_arena_free(&arena);
}

static void bad_configs_are_refused(void **state)
{
    (void)state;
#define Q(more) "{\"model_type\":\"qwen3_5_text\"" more "}"
    static const struct {
        const char *text, *field; // field: part of what the error must name
    } bad[] = {
        {"[]", ""},
        {"{}", "model_type"},
        {"{\"model_type\":7}", "model_type"},
        {"{\"model_type\":\"qwen3_5_moe\"}", "model_type"},
        {"{\"model_type\":\"qwen3_next\"}", "model_type"},
        {"{\"model_type\":\"gpt2\"}", "model_type"},
        {"{\"model_type\":\"llama\"}", "vocab_size"},
        {Q(",\"text_config\":[]"), "text_config"},
        {Q(",\"hidden_size\":0"), "hidden_size"},
        {Q(",\"hidden_size\":-5"), "hidden_size"},
        {Q(",\"hidden_size\":2147483648"), "hidden_size"},
        {Q(",\"hidden_size\":99999999999999999999"), "hidden_size"},
        {Q(",\"hidden_size\":\"4096\""), "hidden_size"},
        {Q(",\"hidden_size\":1.5"), "hidden_size"},
        {Q(",\"num_hidden_layers\":100000"), "num_hidden_layers"},
        {Q(",\"num_attention_heads\":15"), "num_attention_heads"},
        {Q(",\"linear_num_value_heads\":33"), "linear_num_value_heads"},
        {Q(",\"linear_conv_kernel_dim\":1"), "linear_conv_kernel_dim"},
        {Q(",\"linear_conv_kernel_dim\":9"), "linear_conv_kernel_dim"},
        {Q(",\"rms_norm_eps\":1e999"), "rms_norm_eps"},
        {Q(",\"rms_norm_eps\":-1"), "rms_norm_eps"},
        {Q(",\"rms_norm_eps\":NaN"), ""},
        {Q(",\"hidden_act\":\"gelu\""), "hidden_act"},
        {Q(",\"attn_output_gate\":false"), "attn_output_gate"},
        {Q(",\"output_gate_type\":\"sigmoid\""), "output_gate_type"},
        {Q(",\"mlp_only_layers\":[1]"), "mlp_only_layers"},
        {Q(",\"num_experts\":8"), "num_experts"},
        {Q(",\"layer_types\":[\"full_attention\"]"), "layer_types"},
        {Q(",\"num_hidden_layers\":1,\"layer_types\":[\"mamba\"]"), "layer_types[0]"},
        {Q(",\"num_hidden_layers\":1,\"layer_types\":[7]"), "layer_types[0]"},
        {Q(",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4}"),
         "quantization_config"},
        {Q(",\"quantization\":{\"bits\":4}"), "quantization"},
        {Q(",\"rope_parameters\":{\"rope_theta\":1e999}"), "rope_theta"},
        {Q(",\"rope_parameters\":{\"rope_theta\":0}"), "rope_theta"},
        {Q(",\"rope_theta\":5,\"rope_parameters\":{\"rope_theta\":6}"), "rope_theta"},
        {Q(",\"rope_parameters\":{\"partial_rotary_factor\":0}"), "partial_rotary_factor"},
        {Q(",\"rope_parameters\":{\"partial_rotary_factor\":2}"), "partial_rotary_factor"},
        {Q(",\"head_dim\":100,\"rope_parameters\":{\"partial_rotary_factor\":0.25}"),
         "partial_rotary_factor"},
        {Q(",\"rope_parameters\":{\"rope_type\":\"longrope\"}"), "rope_type"},
        {Q(",\"rope_parameters\":{\"rope_type\":\"yarn\",\"type\":\"linear\"}"), "rope type"},
        {Q(",\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":0.5}"), "factor"},
        {"{\"model_type\":\"llama\",\"vocab_size\":9,\"rope_scaling\":{\"type\":\"llama3\"}}",
         "factor"},
        {"{\"model_type\":\"qwen2\",\"vocab_size\":9,\"use_sliding_window\":true,"
         "\"sliding_window\":5}",
         "sliding_window"},
        {"{\"model_type\":\"llama\",\"vocab_size\":9,\"pretraining_tp\":2}", "pretraining_tp"},
        {"{\"model_type\":\"llama\",\"vocab_size\":9,\"num_attention_heads\":40000,"
         "\"head_dim\":100000}",
         "head_dim"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct fg_arena arena;
        struct fg_config c;
        struct fg_error err = {0};
        fg_arena_init(&arena, 0);
        int rc = parse(bad[i].text, &c, &arena, &err);
        if (rc != FG_EINPUT || !strstr(err.field, bad[i].field) || !err.file[0])
            fail_msg("%s: rc %d, field '%s'", bad[i].text, rc, err.field);
        fg_arena_free(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_sizes),          cmocka_unit_test(frequencies_of_the_27b),
        cmocka_unit_test(defaults_of_every_family), cmocka_unit_test(rotary_variants),
        cmocka_unit_test(bad_configs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
