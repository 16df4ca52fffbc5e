// Binding of tensors to the config: every tensor of the architecture is needed with its shape and a
// usable dtype, foreign layouts are named, what is not of the text model is counted.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs those first
#include <cmocka.h>

#include "base/file.h"
#include "base/num.h"
#include "format/safetensors.h"
#include "model/model.h"
#include "support/scratch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char CONFIG[] =
    "{\"model_type\":\"qwen3_5_text\",\"vocab_size\":24,\"hidden_size\":16,"
    "\"intermediate_size\":20,\"num_hidden_layers\":2,\"full_attention_interval\":2,"
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":8,"
    "\"linear_num_key_heads\":1,\"linear_num_value_heads\":2,\"linear_key_head_dim\":4,"
    "\"linear_value_head_dim\":6,\"linear_conv_kernel_dim\":3,\"tie_word_embeddings\":false%s}";

#define TENSORS_MAX 48

struct set {
    struct fg_st_spec specs[TENSORS_MAX];
    char names[TENSORS_MAX][96];
    uint64_t n;
};

static void add(struct set *s, const char *name, enum fg_st_dtype dtype, int rank, uint64_t a,
                uint64_t b, uint64_t c)
{
    assert_true(s->n < TENSORS_MAX);
    snprintf(s->names[s->n], sizeof s->names[0], "%s", name);
    s->specs[s->n] = (struct fg_st_spec){.dtype = dtype, .rank = rank, .shape = {a, b, c}};
    s->n++;
}

// The tensors of CONFIG in mixed dtypes: H 16, F 20, C = 2*4 + 12 = 20, val 12.
static void full_set(struct set *s)
{
    s->n = 0;
    add(s, "model.embed_tokens.weight", FG_ST_BF16, 2, 24, 16, 0);
    add(s, "model.norm.weight", FG_ST_F32, 1, 16, 0, 0);
    add(s, "lm_head.weight", FG_ST_F16, 2, 24, 16, 0);
    for (int i = 0; i < 2; i++) {
        char p[96];
#define LAYER(rest, dtype, rank, a, b, c)                                                          \
    (snprintf(p, sizeof p, "model.layers.%d." rest, i), add(s, p, dtype, rank, a, b, c))
        LAYER("input_layernorm.weight", FG_ST_BF16, 1, 16, 0, 0);
        LAYER("post_attention_layernorm.weight", FG_ST_F16, 1, 16, 0, 0);
        LAYER("mlp.gate_proj.weight", FG_ST_BF16, 2, 20, 16, 0);
        LAYER("mlp.up_proj.weight", FG_ST_F32, 2, 20, 16, 0);
        LAYER("mlp.down_proj.weight", FG_ST_F16, 2, 16, 20, 0);
        if (i == 0) {
            LAYER("linear_attn.in_proj_qkv.weight", FG_ST_BF16, 2, 20, 16, 0);
            LAYER("linear_attn.in_proj_z.weight", FG_ST_BF16, 2, 12, 16, 0);
            LAYER("linear_attn.in_proj_b.weight", FG_ST_BF16, 2, 2, 16, 0);
            LAYER("linear_attn.in_proj_a.weight", FG_ST_BF16, 2, 2, 16, 0);
            LAYER("linear_attn.conv1d.weight", FG_ST_BF16, 3, 20, 1, 3);
            LAYER("linear_attn.dt_bias", FG_ST_BF16, 1, 2, 0, 0);
            LAYER("linear_attn.A_log", FG_ST_F32, 1, 2, 0, 0);
            LAYER("linear_attn.norm.weight", FG_ST_F32, 1, 6, 0, 0);
            LAYER("linear_attn.out_proj.weight", FG_ST_BF16, 2, 16, 12, 0);
        } else {
            LAYER("self_attn.q_proj.weight", FG_ST_BF16, 2, 32, 16, 0);
            LAYER("self_attn.k_proj.weight", FG_ST_BF16, 2, 8, 16, 0);
            LAYER("self_attn.v_proj.weight", FG_ST_BF16, 2, 8, 16, 0);
            LAYER("self_attn.o_proj.weight", FG_ST_BF16, 2, 16, 16, 0);
            LAYER("self_attn.q_norm.weight", FG_ST_BF16, 1, 8, 0, 0);
            LAYER("self_attn.k_norm.weight", FG_ST_BF16, 1, 8, 0, 0);
        }
    }
}

// Writes the set (data bytes 1, 2, 3, ... mod 61) with `more` appended to the config, and opens it.
static int open_set(struct set *s, const char *more, bool strict, const struct fg_log *log,
                    struct fg_model **m, struct fg_error *err)
{
    struct scratch tmp;
    struct fg_st_writer *w;
    char path[400], text[2048];
    scratch_open(&tmp);
    for (uint64_t i = 0; i < s->n; i++)
        s->specs[i].name = s->names[i];
    assert_int_equal(fg_st_writer_open(&w, tmp.dir, s->specs, s->n, 0, err), 0);
    uint64_t bytes = fg_st_writer_bytes(w);
    uint8_t *data = malloc(bytes);
    for (uint64_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(i % 61);
    assert_int_equal(fg_st_writer_add(w, data, bytes, err), 0);
    assert_int_equal(fg_st_writer_commit(w, err), 0);
    free(data);
    snprintf(path, sizeof path, "%s/config.json", tmp.dir);
    int n = snprintf(text, sizeof text, CONFIG, more);
    assert_int_equal(fg_file_replace(path, text, (uint64_t)n, err), 0);
    int rc = fg_model_open(m, tmp.dir, strict, log, err);
    scratch_close(&tmp); // maps outlive their names
    return rc;
}

static void every_tensor_is_needed(void **state)
{
    (void)state;
    struct set all, s;
    struct fg_model *m;
    struct fg_error err = {0};
    full_set(&all);
    assert_int_equal(open_set(&all, "", true, NULL, &m, &err), 0);
    assert_int_equal(fg_config_parameters(&m->config) > 0, 1);
    fg_model_close(m);
    for (uint64_t drop = 0; drop < all.n; drop++) {
        s = all;
        memmove(&s.specs[drop], &s.specs[drop + 1], (all.n - drop - 1) * sizeof s.specs[0]);
        memmove(&s.names[drop], &s.names[drop + 1], (all.n - drop - 1) * sizeof s.names[0]);
        s.n--;
        int rc = open_set(&s, "", true, NULL, &m, &err);
        if (rc != FG_EINPUT || strcmp(err.field, all.names[drop]) != 0)
            fail_msg("without %s: rc %d, field %s", all.names[drop], rc, err.field);
    }
}

static void shapes_and_dtypes_are_checked(void **state)
{
    (void)state;
    struct set all, s;
    struct fg_model *m;
    struct fg_error err = {0};
    full_set(&all);
    for (uint64_t i = 0; i < all.n; i++) {
        for (int way = 0; way < 4; way++) {
            s = all;
            if (way == 0) s.specs[i].shape[0]++;
            if (way == 1) s.specs[i].shape[s.specs[i].rank - 1] *= 2;
            if (way == 2) s.specs[i].shape[s.specs[i].rank++] = 1;
            if (way == 3) s.specs[i].dtype = i % 2 ? FG_ST_I32 : FG_ST_F64;
            int rc = open_set(&s, "", true, NULL, &m, &err);
            if (rc != FG_EINPUT || strcmp(err.field, all.names[i]) != 0 || !err.expected[0] ||
                !err.found[0])
                fail_msg("%s way %d: rc %d, field %s", all.names[i], way, rc, err.field);
        }
    }
}

static void foreign_layouts_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *name, *found;
    } extra[] = {
        {"model.layers.0.linear_attn.in_proj_qkvz.weight", "fused"},
        {"model.layers.0.linear_attn.in_proj_ba.weight", "fused"},
        {"model.layers.0.mlp.up_proj.scales", "quantized"},
        {"model.layers.0.mlp.up_proj.weight_scale_inv", "quantized"},
        {"model.layers.0.mlp.up_proj.weight_packed", "quantized"},
    };
    struct set s;
    struct fg_model *m;
    struct fg_error err = {0};
    for (size_t i = 0; i < sizeof extra / sizeof extra[0]; i++) {
        full_set(&s);
        add(&s, extra[i].name, FG_ST_BF16, 1, 4, 0, 0);
        assert_int_equal(open_set(&s, "", false, NULL, &m, &err), FG_EINPUT);
        assert_string_equal(err.field, extra[i].name);
        assert_non_null(strstr(err.found, extra[i].found));
    }
    full_set(&s);
    for (uint64_t i = 0; i < s.n; i++) {
        if (!strstr(s.names[i], "conv1d")) continue;
        s.specs[i].shape[1] = 3;
        s.specs[i].shape[2] = 1;
    }
    assert_int_equal(open_set(&s, "", false, NULL, &m, &err), FG_EINPUT);
    assert_non_null(strstr(err.found, "MLX"));
}

struct lines {
    int n;
    char last[512];
};

static void count_line(void *ctx, enum fg_log_level level, const char *line)
{
    struct lines *l = ctx;
    (void)level;
    l->n++;
    snprintf(l->last, sizeof l->last, "%s", line);
}

static void the_rest_is_counted(void **state)
{
    (void)state;
    struct set s;
    struct fg_model *m;
    struct fg_error err = {0};
    struct lines lines = {0};
    struct fg_log log = {FG_LOG_WARN, count_line, &lines};
    full_set(&s);
    add(&s, "model.visual.blocks.0.weight", FG_ST_BF16, 2, 3, 5, 0);
    add(&s, "mtp.fc.weight", FG_ST_F32, 2, 3, 5, 0);
    assert_int_equal(open_set(&s, "", true, &log, &m, &err), 0);
    assert_int_equal(m->rest.visual_count, 1);
    assert_int_equal(m->rest.visual_bytes, 30);
    assert_int_equal(m->rest.mtp_count, 1);
    assert_int_equal(m->rest.mtp_bytes, 60);
    assert_int_equal(lines.n, 0);
    fg_model_close(m);

    add(&s, "model.layers.0.self_attn.q_proj.weight", FG_ST_BF16, 2, 32, 16, 0); // a linear layer
    add(&s, "model.layers.2.input_layernorm.weight", FG_ST_BF16, 1, 16, 0, 0);
    add(&s, "model.layers.1.self_attn.q_proj.bias", FG_ST_BF16, 1, 32, 0, 0);
    assert_int_equal(open_set(&s, "", false, &log, &m, &err), 0);
    assert_int_equal(m->rest.unknown_count, 3);
    assert_int_equal(lines.n, 1);
    fg_model_close(m);
    assert_int_equal(open_set(&s, "", true, &log, &m, &err), FG_EINPUT);
    assert_non_null(strstr(err.found, "3 unknown tensors"));
}

static void tied_heads_use_the_embedding(void **state)
{
    (void)state;
    struct set s;
    struct fg_model *m;
    struct fg_error err = {0};
    struct lines lines = {0};
    struct fg_log log = {FG_LOG_WARN, count_line, &lines};
    full_set(&s); // the stored head differs from the embedding
    assert_int_equal(open_set(&s, ",\"tie_word_embeddings\":true", true, &log, &m, &err), 0);
    assert_ptr_equal(m->weights.head.data, m->weights.embed.data);
    assert_int_equal(lines.n, 1);
    assert_non_null(strstr(lines.last, "lm_head.weight"));
    fg_model_close(m);
}

static void norms_are_stored_with_one_added(void **state)
{
    (void)state;
    struct set s;
    struct fg_model *m;
    struct fg_error err = {0};
    full_set(&s);
    assert_int_equal(open_set(&s, "", true, NULL, &m, &err), 0);
    const struct fg_st_tensor *t = fg_checkpoint_find(m->checkpoint, "model.norm.weight");
    float w;
    memcpy(&w, t->data, sizeof w);
    assert_true(m->weights.final_norm[0] == w + 1);
    t = fg_checkpoint_find(m->checkpoint, "model.layers.0.linear_attn.norm.weight");
    memcpy(&w, t->data, sizeof w);
    assert_true(m->weights.layers[0].gated_norm[0] == w); // plain
    fg_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tensor_is_needed),
        cmocka_unit_test(shapes_and_dtypes_are_checked),
        cmocka_unit_test(foreign_layouts_are_named),
        cmocka_unit_test(the_rest_is_counted),
        cmocka_unit_test(tied_heads_use_the_embedding),
        cmocka_unit_test(norms_are_stored_with_one_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
