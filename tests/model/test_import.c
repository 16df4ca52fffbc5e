// GGUF as a checkpoint: names, shapes, row orders and undone changes of each architecture; texts;
// the writer and its directory; files that do not fit. The GGUF layout is made here from HF's by
// the converter's own direction, so no rule is used twice.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/file.h"
#include "base/json.h"
#include "base/num.h"
#include "format/gguf_dequant.h"
#include "format/safetensors.h"
#include "model/import.h"
#include "support/gguf_build.h"
#include "support/scratch.h"
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>

enum { V = 12, H = 32, F = 48, NQ = 4, NKV = 2, D = 8 };            // attention, all architectures
enum { NK = 2, R = 3, NV = NK * R, DK = 4, DV = 5, K = 4, C = 46 }; // DeltaNet; C = 2*NK*DK + NV*DV

static struct scratch tmp;

// ---- one change against a good file: a key or tensor that is left out or different

#define LEFT_OUT (-1)
static struct {
    const char *name;
    int64_t value; // LEFT_OUT, a key's value, a tensor's type, or its extent 0 when `shape`
    bool shape;
} change;

static bool changed(const char *name)
{
    return change.name && strcmp(change.name, name) == 0;
}

static void key(struct gguf_build *b, const char *arch, const char *name, uint32_t v)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", arch, name);
    if (changed(full) && change.value == LEFT_OUT) return;
    gb_u32(b, full, changed(full) ? (uint32_t)change.value : v);
}

// Value of HF tensor `id` at (row, col): different everywhere, exact in FP32 and FP16.
static float value(int id, uint64_t row, uint64_t col)
{
    return (float)((id * 37 + (int)row * 13 + (int)col * 5) % 1021 - 510) / 16;
}

// Row (or element of a vector) of HF's order for row g of the file.
typedef uint64_t (*hf_index)(uint64_t g);

static uint64_t same(uint64_t g)
{
    return g;
}

// The converter of llama files: [2][D/2] of a head becomes [D/2][2].
static uint64_t interleaved(uint64_t g)
{
    return g / D * D + g % 2 * (D / 2) + g % D / 2;
}

// The converter of qwen35 files: value heads [NK][R] become [R][NK].
static uint64_t tiled_heads(uint64_t g)
{
    return g % NK * R + g / NK;
}

static uint64_t tiled_rows(uint64_t g)
{
    return tiled_heads(g / DV) * DV + g % DV;
}

static uint64_t tiled_tail(uint64_t g)
{
    return g < 2 * NK * DK ? g : 2 * NK * DK + tiled_rows(g - 2 * NK * DK);
}

// Adds a tensor of rows x cols (rows 0: a vector) whose HF values are value(id, ...), put through
// `rows` and `cols`, plus `plus`; negate: -exp of it.
static void put(struct gguf_build *b, const char *name, int id, uint64_t rows, uint64_t cols,
                hf_index row_of, hf_index col_of, float plus, bool negate)
{
    float data[64 * 64];
    uint64_t n_rows = rows ? rows : 1;
    uint64_t extent[2] = {cols, n_rows};
    uint32_t type = FG_GGML_F32;
    if (changed(name) && change.value == LEFT_OUT) return;
    if (changed(name) && change.shape) extent[0] = (uint64_t)change.value;
    if (changed(name) && !change.shape) type = (uint32_t)change.value;
    for (uint64_t r = 0; r < n_rows; r++) {
        for (uint64_t c = 0; c < cols; c++) {
            float v = value(id, row_of(r), col_of(c));
            data[r * cols + c] = negate ? -expf(v / 16) : v + plus;
        }
    }
    gb_tensor(b, name, type, rows ? 2 : 1, extent, type == FG_GGML_F32 ? data : NULL);
}

static void put_plain(struct gguf_build *b, const char *name, int id, uint64_t rows, uint64_t cols)
{
    put(b, name, id, rows, cols, same, same, 0, false);
}

static const char *in_layer(int layer, const char *rest)
{
    static char name[4][64];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(name[turn], sizeof name[turn], "blk.%d.%s", layer, rest);
    return name[turn];
}

static void put_tokenizer(struct gguf_build *b, const char *pre)
{
    static const char *const tokens[] = {"<|end|>", "a",       "b",      "\xC4\xA0",
                                         "ab",      "<think>", "[PAD6]", "\"\\"};
    static const char *const merges[] = {"a b"};
    static const int32_t types[] = {3, 1, 1, 1, 1, 4, 5, 1};
    gb_str(b, "tokenizer.ggml.model", "gpt2");
    gb_str(b, "tokenizer.ggml.pre", pre);
    gb_strings(b, "tokenizer.ggml.tokens", tokens, 8);
    gb_i32s(b, "tokenizer.ggml.token_type", types, 8);
    gb_strings(b, "tokenizer.ggml.merges", merges, 1);
    key(b, "tokenizer.ggml", "eos_token_id", 0);
    key(b, "tokenizer.ggml", "eot_token_id", 4);
    gb_str(b, "tokenizer.chat_template", "{{ messages }}");
}

static void put_params(struct gguf_build *b, const char *arch, uint32_t layers)
{
    gb_begin(b);
    gb_str(b, "general.architecture", arch);
    key(b, arch, "block_count", layers);
    key(b, arch, "context_length", 128);
    key(b, arch, "embedding_length", H);
    key(b, arch, "feed_forward_length", F);
    key(b, arch, "attention.head_count", NQ);
    key(b, arch, "attention.head_count_kv", NKV);
    char eps[64];
    snprintf(eps, sizeof eps, "%s.attention.layer_norm_rms_epsilon", arch);
    if (!changed(eps)) gb_f32(b, eps, 1e-5f);
}

static void put_mlp(struct gguf_build *b, int layer, int id)
{
    put_plain(b, in_layer(layer, "ffn_gate.weight"), id + 1, F, H);
    put_plain(b, in_layer(layer, "ffn_up.weight"), id + 2, F, H);
    put_plain(b, in_layer(layer, "ffn_down.weight"), id + 3, H, F);
}

// Tensors have the ids 1 (embedding), 2 (norm), 3 (head), 100 * (layer + 1) + place.
static void build_dense(struct gguf_build *b, const char *arch, int layers)
{
    bool llama = strcmp(arch, "llama") == 0, bias = strcmp(arch, "qwen2") == 0;
    hf_index rows = llama ? interleaved : same;
    put_params(b, arch, (uint32_t)layers);
    put_tokenizer(b, llama ? "smollm" : "qwen2");
    put_plain(b, "token_embd.weight", 1, V, H);
    for (int i = 0; i < layers; i++) {
        int id = 100 * (i + 1);
        put_plain(b, in_layer(i, "attn_norm.weight"), id, 0, H);
        put(b, in_layer(i, "attn_q.weight"), id + 10, NQ * D, H, rows, same, 0, false);
        put(b, in_layer(i, "attn_k.weight"), id + 11, NKV * D, H, rows, same, 0, false);
        put_plain(b, in_layer(i, "attn_v.weight"), id + 12, NKV * D, H);
        put_plain(b, in_layer(i, "attn_output.weight"), id + 13, H, NQ * D);
        if (bias) {
            put_plain(b, in_layer(i, "attn_q.bias"), id + 14, 0, NQ * D);
            put_plain(b, in_layer(i, "attn_k.bias"), id + 15, 0, NKV * D);
            put_plain(b, in_layer(i, "attn_v.bias"), id + 16, 0, NKV * D);
        }
        if (strcmp(arch, "qwen3") == 0) {
            put_plain(b, in_layer(i, "attn_q_norm.weight"), id + 17, 0, D);
            put_plain(b, in_layer(i, "attn_k_norm.weight"), id + 18, 0, D);
        }
        put_plain(b, in_layer(i, "ffn_norm.weight"), id + 4, 0, H);
        put_mlp(b, i, id);
    }
    put_plain(b, "output_norm.weight", 2, 0, H);
}

static void build_hybrid(struct gguf_build *b)
{
    static const int32_t sections[] = {1, 1, 0, 0};
    put_params(b, "qwen35", 5); // four and a prediction layer
    key(b, "qwen35", "attention.key_length", D);
    key(b, "qwen35", "attention.value_length", D);
    key(b, "qwen35", "nextn_predict_layers", 1);
    key(b, "qwen35", "full_attention_interval", 4);
    key(b, "qwen35", "ssm.conv_kernel", K);
    key(b, "qwen35", "ssm.state_size", DK);
    key(b, "qwen35", "ssm.group_count", NK);
    key(b, "qwen35", "ssm.time_step_rank", NV);
    key(b, "qwen35", "ssm.inner_size", NV * DV);
    key(b, "qwen35", "rope.dimension_count", 4);
    gb_f32(b, "qwen35.rope.freq_base", 1e7f);
    gb_i32s(b, "qwen35.rope.dimension_sections", sections, 4);
    put_tokenizer(b, "qwen35");
    put_plain(b, "token_embd.weight", 1, V, H);
    for (int i = 0; i < 4; i++) {
        int id = 100 * (i + 1);
        put(b, in_layer(i, "attn_norm.weight"), id, 0, H, same, same, 1, false);
        if (i < 3) {
            put(b, in_layer(i, "attn_qkv.weight"), id + 20, C, H, tiled_tail, same, 0, false);
            put(b, in_layer(i, "attn_gate.weight"), id + 21, NV * DV, H, tiled_rows, same, 0,
                false);
            put(b, in_layer(i, "ssm_beta.weight"), id + 22, NV, H, tiled_heads, same, 0, false);
            put(b, in_layer(i, "ssm_alpha.weight"), id + 23, NV, H, tiled_heads, same, 0, false);
            put(b, in_layer(i, "ssm_conv1d.weight"), id + 24, C, K, tiled_tail, same, 0, false);
            put(b, in_layer(i, "ssm_dt.bias"), id + 25, 0, NV, same, tiled_heads, 0, false);
            put(b, in_layer(i, "ssm_a"), id + 26, 0, NV, same, tiled_heads, 0, true);
            put_plain(b, in_layer(i, "ssm_norm.weight"), id + 27, 0, DV);
            put(b, in_layer(i, "ssm_out.weight"), id + 28, H, NV * DV, same, tiled_rows, 0, false);
        } else {
            put_plain(b, in_layer(i, "attn_q.weight"), id + 10, 2 * NQ * D, H);
            put_plain(b, in_layer(i, "attn_k.weight"), id + 11, NKV * D, H);
            put_plain(b, in_layer(i, "attn_v.weight"), id + 12, NKV * D, H);
            put_plain(b, in_layer(i, "attn_output.weight"), id + 13, H, NQ * D);
            put(b, in_layer(i, "attn_q_norm.weight"), id + 17, 0, D, same, same, 1, false);
            put(b, in_layer(i, "attn_k_norm.weight"), id + 18, 0, D, same, same, 1, false);
        }
        put(b, in_layer(i, "post_attention_norm.weight"), id + 4, 0, H, same, same, 1, false);
        put_mlp(b, i, id);
    }
    put_plain(b, "blk.4.nextn.eh_proj.weight", 9, 4, H);
    put(b, "output_norm.weight", 2, 0, H, same, same, 1, false);
    put_plain(b, "output.weight", 3, V, H);
}

static int try_open(struct gguf_build *b, struct fg_import **imp, struct fg_error *err)
{
    struct fg_buf file = {0};
    gb_end(b, &file);
    int rc = fg_import_open(imp, scratch_write(&tmp, "m.gguf", file.data, file.len), err);
    fg_buf_free(&file);
    return rc;
}

static struct fg_import *opened(struct gguf_build *b)
{
    struct fg_import *imp;
    struct fg_error err = {0};
    char line[1024];
    if (try_open(b, &imp, &err)) fail_msg("%s", fg_error_line(&err, line, sizeof line));
    return imp;
}

// The tensor has this shape and, read as FP32, value(id, ...); `logged`: value / 16 within an ulp.
static void expect(const struct fg_import *imp, const char *name, int id, int rank, uint64_t s0,
                   uint64_t s1, bool logged)
{
    const struct fg_import_tensor *t = fg_import_find(imp, name);
    struct fg_error err = {0};
    float data[64 * 64];
    if (!t) fail_msg("no %s", name);
    assert_int_equal(t->rank, rank);
    assert_int_equal(t->shape[0], s0);
    assert_int_equal(t->shape[rank - 1], s1);
    if (rank == 3) assert_int_equal(t->shape[1], 1);
    // in two pieces, which must meet
    uint64_t half = t->rows / 2;
    assert_int_equal(fg_import_read(imp, t, 0, half, FG_F32, data, &err), 0);
    assert_int_equal(fg_import_read(imp, t, half, t->rows, FG_F32, data + half * t->cols, &err), 0);
    for (uint64_t r = 0; r < t->rows; r++) {
        for (uint64_t c = 0; c < t->cols; c++) {
            float want = value(id, r, c), have = data[r * t->cols + c];
            if (logged ? fabsf(have - want / 16) < 1e-5f : have == want) continue;
            fail_msg("%s row %d column %d: %g, wanted %g", name, (int)r, (int)c, (double)have,
                     (double)want);
        }
    }
    if (t->data) assert_memory_equal(t->data, data, t->rows * t->cols * 4);
}

static const char *hf_layer(int layer, const char *rest)
{
    static char name[96];
    snprintf(name, sizeof name, "model.layers.%d.%s", layer, rest);
    return name;
}

static void expect_mlp(const struct fg_import *imp, int i)
{
    int id = 100 * (i + 1);
    expect(imp, hf_layer(i, "input_layernorm.weight"), id, 1, H, H, false);
    expect(imp, hf_layer(i, "post_attention_layernorm.weight"), id + 4, 1, H, H, false);
    expect(imp, hf_layer(i, "mlp.gate_proj.weight"), id + 1, 2, F, H, false);
    expect(imp, hf_layer(i, "mlp.up_proj.weight"), id + 2, 2, F, H, false);
    expect(imp, hf_layer(i, "mlp.down_proj.weight"), id + 3, 2, H, F, false);
}

static void expect_attention(const struct fg_import *imp, int i, uint64_t q_rows)
{
    int id = 100 * (i + 1);
    expect(imp, hf_layer(i, "self_attn.q_proj.weight"), id + 10, 2, q_rows, H, false);
    expect(imp, hf_layer(i, "self_attn.k_proj.weight"), id + 11, 2, NKV * D, H, false);
    expect(imp, hf_layer(i, "self_attn.v_proj.weight"), id + 12, 2, NKV * D, H, false);
    expect(imp, hf_layer(i, "self_attn.o_proj.weight"), id + 13, 2, H, NQ * D, false);
}

static struct fg_json config_of(const struct fg_import *imp)
{
    struct fg_json doc;
    struct fg_buf text = {0};
    struct fg_error err = {0};
    assert_int_equal(fg_import_config(imp, NULL, &text, &err), 0);
    assert_int_equal(fg_json_parse(&doc, text.data, text.len, "config.json", &err), 0);
    fg_buf_free(&text);
    return doc;
}

static void expect_int(const struct fg_json *doc, const char *name, int64_t want)
{
    int64_t v;
    bool given;
    struct fg_error err = {0};
    assert_int_equal(
        fg_json_i64(doc, doc->root, "", name, 0, INT64_MIN, INT64_MAX, &v, &given, &err), 0);
    assert_true(given);
    assert_int_equal(v, want);
}

static void expect_number(const struct fg_json *doc, struct json_object *obj, const char *name,
                          double want)
{
    double v;
    bool given;
    struct fg_error err = {0};
    assert_int_equal(fg_json_f64(doc, obj, "", name, 0, &v, &given, &err), 0);
    assert_true(given && v == want);
}

static void dense_architectures(void **state)
{
    (void)state;
    static const char *const archs[] = {"llama", "qwen2", "qwen3"};
    for (int a = 0; a < 3; a++) {
        struct gguf_build b;
        build_dense(&b, archs[a], 2);
        struct fg_import *imp = opened(&b);
        static const uint64_t counts[] = {2 + 2 * 9, 2 + 2 * 12, 2 + 2 * 11};
        assert_int_equal(fg_import_count(imp), counts[a]);
        assert_int_equal(fg_import_n_warnings(imp), 0);
        expect(imp, "model.embed_tokens.weight", 1, 2, V, H, false);
        expect(imp, "model.norm.weight", 2, 1, H, H, false);
        assert_null(fg_import_find(imp, "lm_head.weight"));
        for (int i = 0; i < 2; i++) {
            int id = 100 * (i + 1);
            expect_mlp(imp, i);
            expect_attention(imp, i, NQ * D);
            if (a == 1) {
                expect(imp, hf_layer(i, "self_attn.q_proj.bias"), id + 14, 1, NQ * D, NQ * D,
                       false);
                expect(imp, hf_layer(i, "self_attn.v_proj.bias"), id + 16, 1, NKV * D, NKV * D,
                       false);
            } else if (a == 2) {
                expect(imp, hf_layer(i, "self_attn.q_norm.weight"), id + 17, 1, D, D, false);
                expect(imp, hf_layer(i, "self_attn.k_norm.weight"), id + 18, 1, D, D, false);
            }
        }
        // in place where nothing changes, and only there
        assert_non_null(fg_import_find(imp, hf_layer(0, "self_attn.v_proj.weight"))->data);
        assert_true((fg_import_find(imp, hf_layer(0, "self_attn.q_proj.weight"))->data == NULL) ==
                    (a == 0));
        struct fg_json doc = config_of(imp);
        expect_int(&doc, "vocab_size", V);
        expect_int(&doc, "num_hidden_layers", 2);
        expect_int(&doc, "num_key_value_heads", NKV);
        expect_int(&doc, "head_dim", D);
        expect_number(&doc, doc.root, "rms_norm_eps", 1e-5);
        expect_number(&doc, doc.root, "rope_theta", 10000);
        assert_false(fg_json_has(doc.root, "rope_scaling"));
        bool tied;
        struct fg_error err = {0};
        fg_json_bool(&doc, doc.root, "", "tie_word_embeddings", false, &tied, NULL, &err);
        assert_true(tied);
        fg_json_close(&doc);
        fg_import_close(imp);
    }
}

static void llama_biases(void **state)
{
    (void)state;
    struct gguf_build b;
    build_dense(&b, "llama", 1);
    put(&b, "blk.0.attn_q.bias", 14, 0, NQ * D, same, interleaved, 0, false);
    put(&b, "blk.0.attn_k.bias", 15, 0, NKV * D, same, interleaved, 0, false);
    put_plain(&b, "blk.0.attn_v.bias", 16, 0, NKV * D);
    put_plain(&b, "blk.0.attn_output.bias", 17, 0, H);
    struct fg_import *imp = opened(&b);
    expect(imp, hf_layer(0, "self_attn.q_proj.bias"), 14, 1, NQ * D, NQ * D, false);
    expect(imp, hf_layer(0, "self_attn.k_proj.bias"), 15, 1, NKV * D, NKV * D, false);
    expect(imp, hf_layer(0, "self_attn.o_proj.bias"), 17, 1, H, H, false);
    fg_import_close(imp);
}

static void hybrid_architecture(void **state)
{
    (void)state;
    struct gguf_build b;
    build_hybrid(&b);
    struct fg_import *imp = opened(&b);
    assert_int_equal(fg_import_count(imp), 3 + 3 * 14 + 11);
    assert_int_equal(fg_import_n_warnings(imp), 1);
    assert_non_null(strstr(fg_import_warning(imp, 0), "blk.4.nextn"));
    expect(imp, "model.embed_tokens.weight", 1, 2, V, H, false);
    expect(imp, "model.norm.weight", 2, 1, H, H, false);
    expect(imp, "lm_head.weight", 3, 2, V, H, false);
    for (int i = 0; i < 4; i++) {
        expect_mlp(imp, i);
    }
    for (int i = 0; i < 3; i++) {
        int id = 100 * (i + 1);
        expect(imp, hf_layer(i, "linear_attn.in_proj_qkv.weight"), id + 20, 2, C, H, false);
        expect(imp, hf_layer(i, "linear_attn.in_proj_z.weight"), id + 21, 2, NV * DV, H, false);
        expect(imp, hf_layer(i, "linear_attn.in_proj_b.weight"), id + 22, 2, NV, H, false);
        expect(imp, hf_layer(i, "linear_attn.in_proj_a.weight"), id + 23, 2, NV, H, false);
        expect(imp, hf_layer(i, "linear_attn.conv1d.weight"), id + 24, 3, C, K, false);
        expect(imp, hf_layer(i, "linear_attn.dt_bias"), id + 25, 1, NV, NV, false);
        expect(imp, hf_layer(i, "linear_attn.A_log"), id + 26, 1, NV, NV, true);
        expect(imp, hf_layer(i, "linear_attn.norm.weight"), id + 27, 1, DV, DV, false);
        expect(imp, hf_layer(i, "linear_attn.out_proj.weight"), id + 28, 2, H, NV * DV, false);
    }
    expect_attention(imp, 3, 2 * NQ * D);
    expect(imp, hf_layer(3, "self_attn.q_norm.weight"), 417, 1, D, D, false);

    struct fg_json doc = config_of(imp);
    struct json_object *rope, *kinds;
    struct fg_error err = {0};
    expect_int(&doc, "num_hidden_layers", 4);
    expect_int(&doc, "linear_num_value_heads", NV);
    expect_int(&doc, "linear_num_key_heads", NK);
    expect_int(&doc, "linear_key_head_dim", DK);
    expect_int(&doc, "linear_value_head_dim", DV);
    assert_int_equal(fg_json_obj(&doc, doc.root, "", "rope_parameters", &rope, &err), 0);
    expect_number(&doc, rope, "partial_rotary_factor", 0.5);
    expect_number(&doc, rope, "rope_theta", 1e7);
    assert_int_equal(fg_json_arr(&doc, doc.root, "", "layer_types", &kinds, &err), 0);
    assert_int_equal(json_object_array_length(kinds), 4);
    assert_string_equal(json_object_get_string(json_object_array_get_idx(kinds, 3)),
                        "full_attention");
    fg_json_close(&doc);
    fg_import_close(imp);
}

// Quantized rows move whole; half types stay what they are.
static void other_types(void **state)
{
    (void)state;
    struct gguf_build b;
    struct fg_error err = {0};
    change.name = "blk.0.attn_k.weight", change.value = FG_GGML_Q8_0, change.shape = false;
    build_dense(&b, "llama", 1);
    change.name = NULL;
    struct fg_import *imp = opened(&b);
    const struct fg_import_tensor *t =
        fg_import_find(imp, "model.layers.0.self_attn.k_proj.weight");
    const struct fg_gguf_tensor *src =
        fg_gguf_tensor_find(fg_import_gguf(imp), "blk.0.attn_k.weight");
    float have[NKV * D * H], want[H];
    assert_int_equal(t->dtype, FG_F32);
    assert_int_equal(fg_import_read(imp, t, 0, t->rows, FG_F32, have, &err), 0);
    for (uint64_t g = 0; g < NKV * D; g++) {
        fg_gguf_dequant_row(FG_GGML_Q8_0, src->data + g * 34, want, H);
        assert_memory_equal(have + interleaved(g) * H, want, sizeof want);
    }
    fg_import_close(imp);

    change.name = "blk.0.attn_v.weight", change.value = FG_GGML_BF16;
    build_dense(&b, "llama", 1);
    change.name = NULL;
    imp = opened(&b);
    t = fg_import_find(imp, "model.layers.0.self_attn.v_proj.weight");
    uint16_t half[NKV * D * H];
    assert_int_equal(t->dtype, FG_BF16);
    assert_non_null(t->data);
    assert_int_equal(fg_import_read(imp, t, 0, t->rows, FG_BF16, half, &err), 0);
    assert_memory_equal(half, t->data, sizeof half);
    assert_int_equal(fg_import_read(imp, t, 0, t->rows, FG_F32, have, &err), 0);
    assert_true(fg_bits_of_f32(have[7]) == (uint32_t)half[7] << 16);
    fg_import_close(imp);
}

static void rotary_divisors(void **state)
{
    (void)state;
    struct fg_error err = {0};
    // theta 10000, rot 8: wavelengths 6.3, 63, 628, 6283; llama3 with factor 8 over 8192 positions
    // divides only the last, whose wave stands between 8192/4 and 8192
    double t = (8192 / (2 * M_PI * 1000) - 1) / 3;
    float llama3[4] = {1, 1, 1, (float)(1 / ((1 - t) / 8 + t))};
    for (int known = 0; known < 2; known++) {
        // the last divisor of a real file is the factor itself: theta 500000 reaches that far
        float f[4] = {1, 1, 1, 8};
        double theta = 1e6;
        for (int i = 0; i < 4 && known; i++) {
            double wave = 2 * M_PI * pow(theta, i / 4.0);
            double u = (8192 / wave - 1) / 3;
            f[i] = wave < 2048 ? 1 : wave > 8192 ? 8 : (float)(1 / ((1 - u) / 8 + u));
        }
        struct gguf_build b;
        build_dense(&b, "llama", 1);
        gb_f32(&b, "llama.rope.freq_base", known ? (float)theta : 10000);
        uint64_t extent[] = {4};
        gb_tensor(&b, "rope_freqs.weight", FG_GGML_F32, 1, extent, known ? f : llama3);
        struct fg_import *imp = opened(&b);
        assert_int_equal(fg_import_n_warnings(imp), 0);
        struct fg_json doc = config_of(imp);
        struct json_object *obj;
        if (known) {
            assert_int_equal(fg_json_obj(&doc, doc.root, "", "rope_scaling", &obj, &err), 0);
            assert_non_null(obj);
            expect_number(&doc, obj, "factor", 8);
            assert_false(fg_json_has(doc.root, "forge_rope_freq_divisors"));
        } else {
            assert_int_equal(
                fg_json_arr(&doc, doc.root, "", "forge_rope_freq_divisors", &obj, &err), 0);
            assert_non_null(obj);
            assert_int_equal(json_object_array_length(obj), 4);
            assert_true((float)json_object_get_double(json_object_array_get_idx(obj, 3)) ==
                        llama3[3]);
        }
        fg_json_close(&doc);
        fg_import_close(imp);
    }
}

static void texts(void **state)
{
    (void)state;
    struct gguf_build b;
    struct fg_buf text = {0};
    struct fg_json doc;
    struct fg_error err = {0};
    struct json_object *model, *vocab, *list;
    int64_t id;
    build_dense(&b, "qwen2", 1);
    struct fg_import *imp = opened(&b);

    assert_int_equal(fg_import_tokenizer(imp, &text, &err), 0);
    assert_int_equal(fg_json_parse(&doc, text.data, text.len, "t", &err), 0);
    fg_json_obj(&doc, doc.root, "", "model", &model, &err);
    fg_json_obj(&doc, model, "", "vocab", &vocab, &err);
    assert_int_equal(json_object_object_length(vocab), 7); // without the unused one
    assert_int_equal(fg_json_i64(&doc, vocab, "", "\"\\", -1, 0, 99, &id, NULL, &err), 0);
    assert_int_equal(id, 7);
    fg_json_arr(&doc, doc.root, "", "added_tokens", &list, &err);
    assert_int_equal(json_object_array_length(list), 2);
    bool special;
    fg_json_bool(&doc, json_object_array_get_idx(list, 1), "", "special", true, &special, NULL,
                 &err);
    assert_false(special); // user-defined
    assert_true(fg_json_has(doc.root, "normalizer"));
    fg_json_close(&doc);

    assert_int_equal(fg_import_generation_config(imp, &text, &err), 0);
    assert_string_equal(text.data, "{\"eos_token_id\": [0, 4]}\n");
    assert_int_equal(fg_import_tokenizer_config(imp, &text, &err), 0);
    assert_non_null(strstr(text.data, "\"eos_token\": \"<|end|>\""));
    assert_int_equal(fg_import_chat_template(imp, &text, &err), 0);
    assert_string_equal(text.data, "{{ messages }}");
    fg_buf_free(&text);
    fg_import_close(imp);
}

static void bad_tokenizers(void **state)
{
    (void)state;
    static const char *const tokens[] = {"a", "b", "ab", "b"}, *const odd[] = {"a", "\xFF"};
    static const char *const merges[] = {"a b", "ab"};
    static const int32_t types[] = {1, 9};
    static const struct {
        int what;
        const char *part;
    } cases[] = {{0, "tokenizer.ggml.pre"},
                 {1, "tokens[3]"},
                 {2, "tokens[1]"},
                 {3, "merges[1]"},
                 {4, "token_type"},
                 {5, "tokenizer.ggml.model"},
                 {6, "tokenizer.ggml.tokens"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int what = cases[i].what;
        struct gguf_build b;
        struct fg_buf text = {0};
        struct fg_error err = {0};
        char line[1024];
        put_params(&b, "qwen2", 1);
        gb_str(&b, "tokenizer.ggml.model", what == 5 ? "llama" : "gpt2");
        gb_str(&b, "tokenizer.ggml.pre", what == 0 ? "klingon" : "qwen2");
        if (what != 6)
            gb_strings(&b, "tokenizer.ggml.tokens", what == 2 ? odd : tokens,
                       what == 1   ? 4
                       : what == 2 ? 2
                                   : 3);
        if (what == 3) gb_strings(&b, "tokenizer.ggml.merges", merges, 2);
        if (what == 4) gb_i32s(&b, "tokenizer.ggml.token_type", types, 2);
        struct gguf_build whole;
        build_dense(&whole, "qwen2", 1); // its tensors
        b.infos = whole.infos, b.data = whole.data, b.n_tensors = whole.n_tensors;
        fg_buf_free(&whole.kvs);
        struct fg_import *imp = opened(&b);
        int rc = fg_import_tokenizer(imp, &text, &err);
        fg_error_line(&err, line, sizeof line);
        if (rc != FG_EINPUT || text.len || !strstr(line, cases[i].part)) {
            fail_msg("case %d: rc %d, \"%s\", wanted \"%s\"", what, rc, line, cases[i].part);
        }
        fg_buf_free(&text);
        fg_import_close(imp);
    }
}

static void files_that_do_not_fit(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *name;
        int64_t value;
        bool shape;
        int rc;
        const char *part;
    } cases[] = {
        {"llama", "llama.block_count", LEFT_OUT, false, 2, "nothing"},
        {"llama", "llama.block_count", 0, false, 2, "block_count"},
        {"llama", "llama.block_count", 4000000000, false, 2, "block_count"},
        {"llama", "llama.block_count", 2, false, 2, "blk.1.attn_norm.weight"},
        {"llama", "llama.embedding_length", 0, false, 2, "embedding_length"},
        {"llama", "llama.embedding_length", 31, false, 2, "key_length"},
        {"llama", "llama.embedding_length", 64, false, 2, "token_embd.weight"},
        {"llama", "llama.attention.head_count", 0, false, 2, "head_count"},
        {"llama", "llama.attention.head_count_kv", 3, false, 2, "divisor"},
        {"llama", "llama.attention.layer_norm_rms_epsilon", LEFT_OUT, false, 2, "epsilon"},
        {"llama", "token_embd.weight", LEFT_OUT, false, 2, "token_embd.weight"},
        {"llama", "output_norm.weight", LEFT_OUT, false, 2, "output_norm.weight"},
        {"llama", "blk.0.attn_q.weight", LEFT_OUT, false, 2, "full-attention layer"},
        {"llama", "blk.0.ffn_down.weight", 13, false, 2, "blocks of 256"},
        {"llama", "blk.0.attn_q.weight", 9, false, 2, "Q8_1"},
        {"llama", "blk.0.attn_q.weight", 24, false, 2, "I8"},
        {"llama", "blk.0.attn_q.weight", 16, true, 2, "extents 32 x 32"},
        {"llama", "blk.0.attn_norm.weight", 16, true, 2, "attn_norm"},
        {"qwen2", "blk.0.attn_v.bias", LEFT_OUT, false, 2, "attn_v.bias"},
        {"qwen3", "blk.0.attn_k_norm.weight", LEFT_OUT, false, 2, "attn_k_norm"},
        {"qwen35", "qwen35.ssm.conv_kernel", LEFT_OUT, false, 2, "conv_kernel"},
        {"qwen35", "qwen35.ssm.conv_kernel", 9, false, 2, "conv_kernel"},
        {"qwen35", "qwen35.ssm.time_step_rank", 5, false, 2, "multiple"},
        {"qwen35", "qwen35.ssm.inner_size", 31, false, 2, "inner_size"},
        {"qwen35", "qwen35.rope.dimension_count", 3, false, 2, "even"},
        {"qwen35", "qwen35.rope.dimension_count", 9, false, 2, "dimension_count"},
        {"qwen35", "qwen35.attention.value_length", 7, false, 2, "value_length"},
        {"qwen35", "qwen35.full_attention_interval", 0, false, 2, "interval"},
        {"qwen35", "qwen35.full_attention_interval", 2, false, 2, "full-attention layer"},
        {"qwen35", "blk.1.ssm_a", LEFT_OUT, false, 2, "linear-attention layer"},
        {"qwen35", "qwen35.nextn_predict_layers", 5, false, 2, "nextn"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gguf_build b;
        struct fg_import *imp;
        struct fg_error err = {0};
        char line[1024];
        change.name = cases[i].name, change.value = cases[i].value, change.shape = cases[i].shape;
        if (strcmp(cases[i].arch, "qwen35") == 0) {
            build_hybrid(&b);
        } else {
            build_dense(&b, cases[i].arch, 1);
        }
        change.name = NULL;
        int rc = try_open(&b, &imp, &err);
        fg_error_line(&err, line, sizeof line);
        if (rc != cases[i].rc || imp || !strstr(line, cases[i].part) || !strstr(line, "m.gguf")) {
            fail_msg("%s: rc %d, \"%s\", wanted \"%s\"", cases[i].name, rc, line, cases[i].part);
        }
    }
    struct gguf_build b;
    struct fg_import *imp;
    struct fg_error err = {0};
    put_params(&b, "gpt-oss", 1);
    assert_int_equal(try_open(&b, &imp, &err), FG_EUNSUPPORTED);
    build_dense(&b, "llama", 1), gb_u32(&b, "llama.expert_count", 8);
    assert_int_equal(try_open(&b, &imp, &err), FG_EUNSUPPORTED);
    build_dense(&b, "llama", 1), put_plain(&b, "blk.0.attn_sinks.weight", 9, 0, NQ);
    assert_int_equal(try_open(&b, &imp, &err), FG_EINPUT);
    build_dense(&b, "llama", 1), put_plain(&b, "blk.0.attn_q.bias", 9, 0, NQ * D);
    assert_int_equal(try_open(&b, &imp, &err), FG_EINPUT);
    static const uint64_t three[] = {3}, four[] = {4};
    static const float divisors[] = {1, 1, 0, 8};
    build_dense(&b, "llama", 1), gb_tensor(&b, "rope_freqs.weight", FG_GGML_F32, 1, three, NULL);
    assert_int_equal(try_open(&b, &imp, &err), FG_EINPUT);
    build_dense(&b, "llama", 1);
    gb_tensor(&b, "rope_freqs.weight", FG_GGML_F32, 1, four, divisors);
    assert_int_equal(try_open(&b, &imp, &err), FG_EINPUT);
    assert_non_null(strstr(err.expected, "positive"));
    static const int32_t uneven[] = {2, 4};
    build_dense(&b, "qwen3", 1), gb_i32s(&b, "qwen3.attention.key_length", uneven, 2);
    assert_int_equal(try_open(&b, &imp, &err), FG_EINPUT);
    build_dense(&b, "llama", 1), put_plain(&b, "extra.weight", 9, 0, NQ);
    imp = opened(&b);
    assert_non_null(strstr(fg_import_warning(imp, 0), "extra.weight"));
    fg_import_close(imp);
}

// ---- writing

struct stop {
    int calls, at; // stops at call number `at`, 0: never
    uint64_t done, total;
};

static bool progress(void *ctx, uint64_t done, uint64_t total, const char *tensor)
{
    struct stop *s = ctx;
    assert_non_null(tensor);
    assert_true(done >= s->done && done <= total);
    s->done = done;
    s->total = total;
    return ++s->calls != s->at;
}

static int count_files(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strcmp(e->d_name, ".forge");
    }
    closedir(d);
    return n;
}

static void expect_written(const struct fg_import *imp, const char *dir, enum fg_import_dtype dtype)
{
    struct fg_checkpoint *c;
    struct fg_error err = {0};
    assert_int_equal(fg_checkpoint_open(&c, dir, &err), 0);
    assert_int_equal(fg_checkpoint_count(c), fg_import_count(imp));
    assert_int_equal(fg_checkpoint_n_warnings(c), 0);
    for (uint64_t i = 0; i < fg_import_count(imp); i++) {
        const struct fg_import_tensor *t = fg_import_at(imp, i);
        const struct fg_st_tensor *st = fg_checkpoint_find(c, t->name);
        assert_non_null(st);
        static const enum fg_dtype types[] = {
            [FG_IMPORT_BF16] = FG_BF16, [FG_IMPORT_F16] = FG_F16, [FG_IMPORT_F32] = FG_F32};
        enum fg_dtype d = dtype == FG_IMPORT_KEEP ? t->dtype : types[dtype];
        static const char *const names[] = {[FG_F32] = "F32", [FG_F16] = "F16", [FG_BF16] = "BF16"};
        assert_string_equal(fg_st_dtype_name(st->dtype), names[d]);
        assert_int_equal(st->rank, t->rank);
        assert_memory_equal(st->shape, t->shape, sizeof t->shape);
        uint8_t data[64 * 64 * 4];
        assert_int_equal(fg_import_read(imp, t, 0, t->rows, d, data, &err), 0);
        assert_memory_equal(st->data, data, st->bytes);
    }
    fg_checkpoint_close(c);
}

static void writes_checkpoints(void **state)
{
    (void)state;
    static const char *const names[] = {"keep", "bf16", "f16", "f32"};
    static const char *const torch[] = {"float32", "bfloat16", "float16", "float32"};
    struct gguf_build b;
    change.name = "blk.0.attn_v.weight", change.value = FG_GGML_F16, change.shape = false;
    build_dense(&b, "llama", 2);
    change.name = NULL;
    struct fg_import *imp = opened(&b);
    for (int i = 0; i < 4; i++) {
        struct stop s = {0};
        struct fg_import_options options = {
            .shard_bytes_max = i == 2 ? 8192 : 0, .progress = progress, .ctx = &s};
        struct fg_error err = {0};
        struct fg_buf config = {0};
        char dir[512], file[600];
        assert_true(fg_import_dtype_of_name(names[i], &options.dtype));
        strcpy(dir, scratch_path(&tmp, names[i]));
        for (int again = 0; again < 2; again++) { // the same job may run again
            s.done = 0;
            assert_int_equal(fg_import_write(imp, dir, &options, &err), 0);
            assert_int_equal(s.done, s.total);
            expect_written(imp, dir, options.dtype);
        }
        if (i != 2) assert_int_equal(count_files(dir), 6);
        snprintf(file, sizeof file, "%s/config.json", dir);
        assert_int_equal(fg_file_read(&config, file, 1 << 20, &err), 0);
        assert_non_null(strstr(config.data, torch[i]));
        fg_buf_free(&config);
    }
    enum fg_import_dtype d;
    assert_false(fg_import_dtype_of_name("q8", &d));
    fg_import_close(imp);
}

static void directory_rules(void **state)
{
    (void)state;
    struct gguf_build b;
    struct fg_error err = {0};
    struct stop s = {.at = 9};
    struct fg_import_options options = {
        .dtype = FG_IMPORT_F32, .shard_bytes_max = 4096, .progress = progress, .ctx = &s};
    char dir[512], path[600];
    build_dense(&b, "llama", 2);
    struct fg_import *imp = opened(&b);

    // stopped: nothing but the mark is left; the same job runs again; another one may not
    strcpy(dir, scratch_path(&tmp, "stopped"));
    assert_int_equal(fg_import_write(imp, dir, &options, &err), FG_EINTERRUPTED);
    assert_int_equal(count_files(dir), 0);
    options.dtype = FG_IMPORT_BF16;
    s = (struct stop){0};
    assert_int_equal(fg_import_write(imp, dir, &options, &err), FG_EINTEGRITY);
    options.dtype = FG_IMPORT_F32;
    // what killed runs leave goes, under the name that such a file really has
    static const char *const names[] = {"model.safetensors", "tokenizer.json", "config.json"};
    char left[3][600];
    for (int i = 0; i < 3; i++) {
        struct fg_atomic f;
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        assert_int_equal(fg_atomic_open(&f, path, &err), 0);
        snprintf(left[i], sizeof left[i], "%s", f.temp);
        fg_atomic_abort(&f);
        assert_int_equal(fg_file_replace(left[i], "x", 1, &err), 0);
    }
    snprintf(path, sizeof path, "%s/.model.notes", dir);
    assert_int_equal(fg_file_replace(path, "x", 1, &err), 0);
    assert_int_equal(fg_import_write(imp, dir, &options, &err), 0);
    for (int i = 0; i < 3; i++)
        assert_false(fg_path_taken(left[i]));
    assert_true(fg_path_taken(path));
    assert_int_equal(remove(path), 0);
    expect_written(imp, dir, options.dtype);

    // a second run at the same time
    snprintf(path, sizeof path, "%s/.forge/lock", dir);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
    s = (struct stop){0};
    assert_int_equal(fg_import_write(imp, dir, &options, &err), FG_EBUSY);
    close(fd);
    expect_written(imp, dir, options.dtype);

    // other content, a file in the way
    strcpy(dir, scratch_path(&tmp, "full"));
    assert_int_equal(mkdir(dir, 0777), 0);
    scratch_write(&tmp, "full/notes.txt", "x", 1);
    assert_int_equal(fg_import_write(imp, dir, &options, &err), FG_EINPUT);
    assert_int_equal(count_files(dir), 1);
    assert_int_equal(fg_import_write(imp, scratch_write(&tmp, "plain", "x", 1), &options, &err),
                     FG_EINPUT);
    fg_import_close(imp);
}

static void values_out_of_range(void **state)
{
    (void)state;
    struct gguf_build b;
    struct fg_error err = {0};
    uint16_t half[H];
    float big[H] = {1, 70000};
    uint64_t extent[] = {H};
    change.name = "output_norm.weight", change.value = LEFT_OUT;
    build_dense(&b, "llama", 1);
    change.name = NULL;
    gb_tensor(&b, "output_norm.weight", FG_GGML_F32, 1, extent, big);
    struct fg_import *imp = opened(&b);
    const struct fg_import_tensor *t = fg_import_find(imp, "model.norm.weight");
    assert_int_equal(fg_import_read(imp, t, 0, 1, FG_F16, half, &err), FG_EINPUT);
    assert_non_null(strstr(err.field, "column 1"));
    assert_int_equal(fg_import_read(imp, t, 0, 1, FG_BF16, half, &err), 0);
    // and a writer that fails leaves nothing
    struct fg_import_options options = {.dtype = FG_IMPORT_F16};
    char dir[512];
    strcpy(dir, scratch_path(&tmp, "range"));
    assert_int_equal(fg_import_write(imp, dir, &options, &err), FG_EINPUT);
    assert_int_equal(count_files(dir), 0);
    fg_import_close(imp);

    // A_log of a value that is not negative
    change.name = "blk.0.ssm_a", change.value = LEFT_OUT;
    build_hybrid(&b);
    change.name = NULL;
    float a[NV] = {-1, -1, 0, -1, -1, -1};
    uint64_t n_v[] = {NV};
    gb_tensor(&b, "blk.0.ssm_a", FG_GGML_F32, 1, n_v, a);
    imp = opened(&b);
    t = fg_import_find(imp, "model.layers.0.linear_attn.A_log");
    assert_int_equal(fg_import_read(imp, t, 0, 1, FG_F32, a, &err), FG_EINPUT);
    assert_non_null(strstr(err.expected, "below 0"));
    fg_import_close(imp);
}

// A file system that takes no more: the job fails and leaves nothing.
static void failing_writes(void **state)
{
    (void)state;
    struct gguf_build b;
    struct fg_error err = {0};
    struct rlimit old, small;
    build_dense(&b, "llama", 2);
    struct fg_import *imp = opened(&b);
    struct fg_import_options options = {.dtype = FG_IMPORT_F32};
    char dir[512];
    strcpy(dir, scratch_path(&tmp, "limited"));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    for (rlim_t bytes = 300; bytes < 50000; bytes += 2500) {
        small = (struct rlimit){bytes, old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        int rc = fg_import_write(imp, dir, &options, &err);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_not_equal(rc, 0);
        assert_int_equal(count_files(dir), 0);
    }
    assert_int_equal(fg_import_write(imp, dir, &options, &err), 0);
    expect_written(imp, dir, options.dtype);
    fg_import_close(imp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_architectures), cmocka_unit_test(llama_biases),
        cmocka_unit_test(hybrid_architecture), cmocka_unit_test(other_types),
        cmocka_unit_test(rotary_divisors),     cmocka_unit_test(texts),
        cmocka_unit_test(bad_tokenizers),      cmocka_unit_test(files_that_do_not_fit),
        cmocka_unit_test(writes_checkpoints),  cmocka_unit_test(directory_rules),
        cmocka_unit_test(values_out_of_range), cmocka_unit_test(failing_writes),
    };
    scratch_open(&tmp);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close(&tmp);
    return failed;
}
