// Plans: the byte counts of specs/quantization.md 1.4, both forms of plan files, every refusal, and
// how keys resolve.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "model/plan_shape.h"
#include "quant/plan.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define GIB 1073741824.0

static struct fg_arena arena;
static struct fg_config config27;

static struct fg_plan_shape shape27(void)
{
    return fg_plan_shape_of(&config27);
}

static const bool kinds[] = {true, true, false, true, false, false};
static const struct fg_plan_shape small = {
    .architecture = "qwen3_5",
    .n_layers = 6,
    .hidden = 576,
    .intermediate = 1536,
    .vocab = 1001,
    .is_linear = kinds,
    .q_rows = 640,
    .kv_rows = 64,
    .o_cols = 320,
    .qkv_rows = 256,
    .z_rows = 128,
    .ab_rows = 4,
};

static struct fg_plan *open_plan(const char *name)
{
    struct fg_plan *p = NULL;
    struct fg_error err = {0};
    if (fg_plan_open(&p, name, &err)) fail_msg("%s: %s: %s", name, err.field, err.found);
    return p;
}

static struct fg_plan *parse(const char *text)
{
    struct fg_plan *p = NULL;
    struct fg_error err = {0};
    if (fg_plan_parse(&p, text, strlen(text), "p.json", &err))
        fail_msg("%s: %s: %s", text, err.field, err.found);
    return p;
}

static struct fg_plan_list resolve(const struct fg_plan *p, const struct fg_plan_shape *s)
{
    struct fg_plan_list l;
    struct fg_error err = {0};
    if (fg_plan_resolve(&l, p, s, &err))
        fail_msg("%s: expected %s, found %s", err.field, err.expected, err.found);
    return l;
}

static const struct fg_plan_mat *find(const struct fg_plan_list *l, const char *name)
{
    for (uint64_t i = 0; i < l->n; i++) {
        if (strcmp(l->mats[i].name, name) == 0) return &l->mats[i];
    }
    fail_msg("no matrix %s", name);
    return NULL;
}

static enum fg_qformat format_of(const struct fg_plan_list *l, const char *name)
{
    return find(l, name)->format;
}

// ---- sizes

static void bytes_of(const struct fg_plan_list *l, int64_t layer, bool mlp, uint64_t *bytes,
                     uint64_t *factors)
{
    *bytes = *factors = 0;
    for (uint64_t i = 0; i < l->n; i++) {
        const struct fg_plan_mat *m = &l->mats[i];
        if (m->layer != layer || fg_plan_part_is_mlp(m->part) != mlp) continue;
        *bytes += m->bytes;
        *factors += m->factor_bytes;
    }
}

static void release_02_has_the_bytes_of_the_table(void **state)
{
    static const struct {
        int64_t layer;
        bool mlp;
        uint64_t bytes, factors;
    } table[] = {
        {0, true, 100350720, 0},        {63, true, 100350720, 0},
        {0, false, 28879040, 4849664},  {22, false, 28879040, 4849664},
        {24, false, 57714784, 4849664}, {62, false, 57714784, 4849664},
        {3, false, 34117760, 5242880},  {23, false, 34117760, 5242880},
        {27, false, 57710656, 5242880}, {63, false, 57710656, 5242880},
    };
    static const struct {
        const char *name;
        uint64_t bytes;
    } mats[] = {
        {"layers.9.mlp.gate_proj", 33458432},
        {"layers.9.mlp.up_proj", 33458432},
        {"layers.9.mlp.down_proj", 33433856},
        {"layers.9.linear_attn.in_proj_qkv", 13127744},
        {"layers.9.linear_attn.in_proj_z", 7876672},
        {"layers.9.linear_attn.out_proj", 7874624},
        {"layers.24.linear_attn.in_proj_qkv", 26234912},
        {"layers.24.linear_attn.in_proj_z", 15740960},
        {"layers.24.linear_attn.out_proj", 15738912},
        {"layers.3.self_attn.q_proj", 15753280},
        {"layers.3.self_attn.k_proj", 5244928},
        {"layers.3.self_attn.v_proj", 5244928},
        {"layers.3.self_attn.o_proj", 7874624},
        {"layers.63.self_attn.q_proj", 31481888},
        {"layers.63.self_attn.o_proj", 15738912},
        {"lm_head", 636195872},
    };
    (void)state;
    struct fg_plan_shape s = shape27();
    struct fg_plan *p = open_plan("release-0.2");
    struct fg_plan_list l = resolve(p, &s);
    for (size_t i = 0; i < FG_COUNT(table); i++) {
        uint64_t bytes, factors;
        bytes_of(&l, table[i].layer, table[i].mlp, &bytes, &factors);
        assert_int_equal(bytes, table[i].bytes);
        assert_int_equal(factors, table[i].factors);
    }
    for (size_t i = 0; i < FG_COUNT(mats); i++)
        assert_int_equal(find(&l, mats[i].name)->bytes, mats[i].bytes);
    uint64_t mlp = 0, mixers = 0, head = find(&l, "lm_head")->bytes;
    for (uint64_t i = 0; i < l.n; i++) {
        if (l.mats[i].layer >= 0)
            *(fg_plan_part_is_mlp(l.mats[i].part) ? &mlp : &mixers) += l.mats[i].bytes;
    }
    assert_int_equal(mlp, 6422446080);
    assert_int_equal(mixers, 3033079360);
    assert_int_equal(l.ab_bytes, 47185920);
    assert_int_equal(l.weight_bytes, 10138907232);
    assert_int_equal(l.weight_bytes, mlp + mixers + head + l.ab_bytes);
    assert_int_equal(l.factor_bytes, 316669952);
    assert_int_equal(l.weight_bytes + l.factor_bytes, 10455577184);
    assert_int_equal(l.embed_bytes, 2542796800);
    assert_int_equal(l.weights, 25598361600);
    assert_int_equal(l.n, 64 * 3 + 48 * 3 + 16 * 4 + 1);
    fg_plan_list_free(&l);
    fg_plan_free(p);
}

static void older_releases_have_their_recorded_sizes(void **state)
{
    (void)state;
    struct fg_plan_shape s = shape27();
    struct fg_plan *p = open_plan("release-0.1");
    struct fg_plan_list l = resolve(p, &s);
    assert_true((double)l.weight_bytes / GIB == 9.069021373987198);
    assert_int_equal(l.factor_bytes, 316669952);
    assert_int_equal(format_of(&l, "layers.22.mlp.up_proj"), FG_Q_V2X16);
    assert_int_equal(format_of(&l, "layers.23.mlp.up_proj"), FG_Q_LUT4);
    assert_int_equal(format_of(&l, "layers.48.mlp.up_proj"), FG_Q_V2X16);
    assert_int_equal(format_of(&l, "layers.23.self_attn.o_proj"), FG_Q_V2X16);
    assert_int_equal(format_of(&l, "layers.24.linear_attn.out_proj"), FG_Q_LUT4);
    assert_string_equal(find(&l, "layers.0.mlp.down_proj")->site, "mlp_mid");
    assert_null(find(&l, "layers.0.linear_attn.out_proj")->site);
    uint64_t one = l.weight_bytes, lut4 = 0;
    for (uint64_t i = 0; i < l.n; i++)
        lut4 += l.mats[i].part == FG_PLAN_GATE && l.mats[i].format == FG_Q_LUT4;
    assert_int_equal(lut4, 26);
    fg_plan_list_free(&l);
    fg_plan_free(p);

    p = open_plan("u48"); // six more MLPs at four bits instead of two
    l = resolve(p, &s);
    uint64_t weights = 3ull * 17408 * 5120;
    assert_int_equal(l.weight_bytes - one, 6 * (weights / 4 - 3 * 32));
    fg_plan_list_free(&l);
    fg_plan_free(p);
}

static void built_in_plans_are_the_files(void **state)
{
    int n = 0;
    (void)state;
    for (; fg_plan_builtin(n); n++) {
        char path[512];
        struct fg_jwrite a = {0}, b = {0};
        snprintf(path, sizeof path, "%s/../../configs/plans/%s.json", FORGE_GOLDEN_DIR,
                 fg_plan_builtin(n));
        struct fg_plan *table = open_plan(fg_plan_builtin(n)), *file = open_plan(path);
        fg_plan_write(table, &a, NULL);
        fg_plan_write(file, &b, NULL);
        assert_string_equal(a.buf.data, b.buf.data);
        struct fg_plan *again = parse(a.buf.data);
        fg_jwrite_free(&b);
        fg_plan_write(again, &b, NULL);
        assert_string_equal(a.buf.data, b.buf.data);
        fg_jwrite_free(&a);
        fg_jwrite_free(&b);
        fg_plan_free(table);
        fg_plan_free(file);
        fg_plan_free(again);
    }
    assert_int_equal(n, 7);
}

// ---- resolution

static void keys_resolve_from_matrix_to_default(void **state)
{
    (void)state;
    struct fg_plan *p = parse(
        "{\"schema\": \"forge.plan/1\","
        " \"defaults\": {\"mlp\": \"v2x64\", \"mixer\": \"lut4\", \"kv\": \"int8\", \"head\": "
        "\"int8\","
        "  \"embed\": \"f16\", \"basis\": \"online\", \"lr_rank\": 8, \"lr_parts\": [\"gdn\"]},"
        " \"overrides\": {\"0.mlp\": \"lut4\", \"0.down\": \"v2x16\", \"1.mixer\": \"v2x16\","
        "  \"1.z\": \"bf16\", \"2.mixer\": \"v2x16\", \"2.v\": \"f16\", \"4.kv\": \"lut4\","
        "  \"4.k\": \"bf16\", \"5.basis\": \"plain\", \"3.lr_rank\": 0, \"head\": \"lut4\"},"
        " \"estimate\": {\"kl\": 0.05}, \"provenance\": {\"date\": \"today\"}}");
    struct fg_plan_list l = resolve(p, &small);
    assert_int_equal(format_of(&l, "layers.0.mlp.gate_proj"), FG_Q_LUT4);
    assert_int_equal(format_of(&l, "layers.0.mlp.down_proj"), FG_Q_V2X16);
    assert_int_equal(format_of(&l, "layers.1.mlp.down_proj"), FG_Q_V2X64);
    assert_int_equal(format_of(&l, "layers.1.linear_attn.in_proj_qkv"), FG_Q_V2X16);
    assert_int_equal(format_of(&l, "layers.1.linear_attn.in_proj_z"), FG_Q_BF16);
    assert_int_equal(format_of(&l, "layers.2.self_attn.q_proj"), FG_Q_V2X16);
    assert_int_equal(format_of(&l, "layers.2.self_attn.k_proj"), FG_Q_INT8); // never i.mixer
    assert_int_equal(format_of(&l, "layers.2.self_attn.v_proj"), FG_Q_F16);
    assert_int_equal(format_of(&l, "layers.4.self_attn.k_proj"), FG_Q_BF16);
    assert_int_equal(format_of(&l, "layers.4.self_attn.v_proj"), FG_Q_LUT4);
    assert_int_equal(format_of(&l, "layers.4.self_attn.o_proj"), FG_Q_LUT4);
    assert_int_equal(format_of(&l, "lm_head"), FG_Q_LUT4);

    const struct fg_plan_mat *m = find(&l, "layers.1.linear_attn.in_proj_qkv");
    assert_string_equal(m->site, "mix_in");
    assert_int_equal(m->block, 64); // 576 = 9 x 64
    assert_int_equal(m->seed, 3001);
    assert_int_equal(m->rank, 8);
    m = find(&l, "layers.1.linear_attn.in_proj_z"); // kept: plain, without factors
    assert_null(m->site);
    assert_int_equal(m->rank, 0);
    assert_int_equal(find(&l, "layers.3.linear_attn.out_proj")->rank, 0);
    assert_int_equal(find(&l, "layers.2.self_attn.q_proj")->rank, 0); // attn is not in lr_parts
    assert_null(find(&l, "layers.5.mlp.down_proj")->site);
    assert_null(find(&l, "layers.5.self_attn.o_proj")->site);
    assert_null(find(&l, "lm_head")->site);
    m = find(&l, "layers.2.mlp.down_proj");
    assert_string_equal(m->site, "mlp_mid");
    assert_int_equal(m->block, 512); // 1536 = 3 x 512
    assert_int_equal(m->seed, 2002);
    assert_int_equal(find(&l, "layers.4.self_attn.o_proj")->seed, 4004);
    fg_plan_list_free(&l);

    fg_plan_set_basis(p, FG_BASIS_ONLINE); // wins over the layer's
    fg_plan_set_mix_rot(p, FG_MIX_READERS);
    fg_plan_set_lr_rank(p, 5);
    fg_plan_set_lr_parts(p, FG_LR_GDN | FG_LR_ATTN | FG_LR_MLP);
    l = resolve(p, &small);
    assert_string_equal(find(&l, "layers.5.mlp.down_proj")->site, "mlp_mid");
    assert_string_equal(find(&l, "layers.5.self_attn.q_proj")->site, "mix_in");
    assert_null(find(&l, "layers.5.self_attn.o_proj")->site);
    assert_int_equal(find(&l, "layers.3.linear_attn.out_proj")->rank, 5);
    assert_int_equal(find(&l, "layers.3.mlp.up_proj")->rank, 5);
    assert_int_equal(find(&l, "lm_head")->rank, 0);
    fg_plan_list_free(&l);
    fg_plan_set_lr_rank(p, 1000); // cut to the smaller side
    l = resolve(p, &small);
    assert_int_equal(find(&l, "layers.5.self_attn.v_proj")->rank, 64);
    fg_plan_list_free(&l);
    fg_plan_free(p);
}

static void factors_in_int8_are_counted(void **state)
{
    (void)state;
    struct fg_plan *p = parse("{\"schema\": \"forge.plan/1\", \"defaults\": {\"lr_rank\": 8,"
                              " \"lr_dtype\": \"i8\"},"
                              " \"overrides\": {\"1.lr_dtype\": \"f16\", \"2.lr_rank\": 0}}");
    struct fg_plan_list l = resolve(p, &small);
    uint64_t total = 0;
    for (uint64_t i = 0; i < l.n; i++) {
        const struct fg_plan_mat *m = &l.mats[i];
        const uint64_t sides = (uint64_t)(m->rows + m->cols), rank = (uint64_t)m->rank;
        assert_int_equal(m->lr_dtype, rank && m->layer != 1 ? FG_LR_I8 : FG_LR_F16);
        assert_int_equal(m->factor_bytes,
                         m->lr_dtype == FG_LR_I8 ? rank * sides + 4 * rank : 2 * rank * sides);
        total += m->factor_bytes;
    }
    assert_int_equal(find(&l, "layers.0.linear_attn.out_proj")->lr_dtype, FG_LR_I8);
    assert_int_equal(find(&l, "layers.0.linear_attn.out_proj")->rank, 8);
    assert_int_equal(l.factor_bytes, total);

    // A plan written for the model says it again, its totals included.
    struct fg_plan *one = NULL, *other = NULL;
    struct fg_jwrite w = {0};
    struct fg_error err = {0};
    assert_int_equal(fg_plan_specialize(&one, p, &small, &err), 0);
    fg_plan_write(one, &w, NULL);
    assert_non_null(strstr(w.buf.data, "\"lr_dtype\": \"i8\""));
    assert_non_null(strstr(w.buf.data, "\"1.lr_dtype\": \"f16\""));
    struct fg_plan *again = parse(w.buf.data);
    struct fg_plan_list b = resolve(again, &small);
    assert_int_equal(b.factor_bytes, total);
    enum fg_qformat formats[64];
    assert_true(l.n <= 64);
    for (uint64_t i = 0; i < l.n; i++)
        formats[i] = l.mats[i].format;
    assert_int_equal(fg_plan_reformat(&other, one, &small, formats, l.n, "other", &err), 0);
    fg_plan_list_free(&b);
    b = resolve(other, &small);
    assert_int_equal(b.factor_bytes, total);
    fg_plan_list_free(&b);

    fg_plan_set_lr_dtype(p, FG_LR_F16); // wins over the layer's
    b = resolve(p, &small);
    for (uint64_t i = 0; i < b.n; i++)
        assert_int_equal(b.mats[i].lr_dtype, FG_LR_F16);
    fg_plan_list_free(&b);
    fg_jwrite_free(&w);
    fg_plan_write(p, &w, NULL); // what a plan never said it does not say
    assert_null(strstr(w.buf.data, "lr_dtype"));
    fg_jwrite_free(&w);

    // Half the bytes of the 27B's factors, and four for each of 64 components of 208 matrices.
    struct fg_plan *release = open_plan("release-0.2");
    fg_plan_set_lr_dtype(release, FG_LR_I8);
    struct fg_plan_shape whole = shape27();
    b = resolve(release, &whole);
    assert_int_equal(b.factor_bytes, 316669952 / 2 + 208 * 64 * 4);
    assert_int_equal(b.weight_bytes, 10138907232);
    fg_plan_list_free(&b);
    fg_plan_free(release);
    fg_plan_list_free(&l);
    fg_plan_free(one);
    fg_plan_free(other);
    fg_plan_free(again);
    fg_plan_free(p);
}

static void release_02_is_generic_for_other_models(void **state)
{
    (void)state;
    struct fg_plan *p = open_plan("release-0.2");
    struct fg_plan_list l = resolve(p, &small);
    assert_int_equal(format_of(&l, "layers.0.mlp.gate_proj"), FG_Q_V2X64);
    assert_int_equal(format_of(&l, "layers.0.linear_attn.out_proj"), FG_Q_LUT4);
    assert_int_equal(format_of(&l, "layers.2.self_attn.k_proj"), FG_Q_INT8);
    assert_int_equal(format_of(&l, "lm_head"), FG_Q_LUT4);
    for (uint64_t i = 0; i < l.n; i++) { // 2 r (rows + cols) <= 0.16 x lut4 bytes, multiple of 8
        const struct fg_plan_mat *m = &l.mats[i];
        uint64_t lut4, sum = (uint64_t)(m->rows + m->cols);
        if (fg_plan_part_is_mlp(m->part) || m->layer < 0) {
            assert_int_equal(m->rank, 0);
            continue;
        }
        assert_true(fg_qformat_bytes(FG_Q_LUT4, (uint64_t)m->rows, (uint64_t)m->cols, &lut4));
        assert_int_equal(m->rank % 8, 0);
        assert_true(200 * (uint64_t)m->rank * sum <= 16 * lut4);
        assert_true(m->rank == 64 || 200 * (uint64_t)(m->rank + 8) * sum > 16 * lut4);
    }
    assert_int_equal(find(&l, "layers.2.self_attn.q_proj")->rank, 8);
    fg_plan_list_free(&l);
    fg_plan_set_lr_rank(p, 64); // asked for, not the table's
    l = resolve(p, &small);
    assert_int_equal(find(&l, "layers.2.self_attn.q_proj")->rank, 64);
    fg_plan_list_free(&l);
    fg_plan_free(p);

    struct fg_plan_shape s = shape27();
    p = open_plan("all-v2x16"); // auto is the released rank but for k and v, 32 instead of 64
    l = resolve(p, &s);
    assert_int_equal(l.factor_bytes, 316669952 - 32 * 2 * 32 * (1024 + 5120));
    fg_plan_list_free(&l);
    fg_plan_free(p);
}

static void odd_widths_are_plain(void **state)
{
    (void)state;
    struct fg_plan_shape s = small;
    s.intermediate = 1540; // 4 x 385
    s.hidden = 48;
    struct fg_plan *p = open_plan("all-lut4");
    struct fg_plan_list l = resolve(p, &s);
    assert_null(find(&l, "layers.0.mlp.down_proj")->site);
    assert_int_equal(find(&l, "layers.0.mlp.up_proj")->block, 16);
    assert_int_equal(l.n_narrow, 1);
    assert_int_equal(l.narrow_width[0], 1540);
    fg_plan_list_free(&l);
    fg_plan_free(p);
}

static void the_flat_form_is_read(void **state)
{
    (void)state;
    struct fg_plan *p =
        parse("{\"0.gate\": \"vector 2x16 + pcs\", \"1.mixer\": \"vector 2x64 + pcs\","
              " \"0.basis\": \"online\", \"2.kv\": \"LUT4 per-tensor + pcs\","
              " \"2.o\": \"INT8 per-channel\"}");
    struct fg_plan_list l = resolve(p, &small);
    assert_int_equal(format_of(&l, "layers.0.mlp.gate_proj"), FG_Q_V2X16);
    assert_int_equal(format_of(&l, "layers.0.mlp.up_proj"), FG_Q_V2X64);
    assert_int_equal(format_of(&l, "layers.1.linear_attn.in_proj_z"), FG_Q_V2X64);
    assert_int_equal(format_of(&l, "layers.2.self_attn.k_proj"), FG_Q_LUT4);
    assert_int_equal(format_of(&l, "layers.2.self_attn.o_proj"), FG_Q_INT8);
    fg_plan_list_free(&l);
    fg_plan_free(p);
}

static void a_specialized_plan_means_the_same(void **state)
{
    (void)state;
    struct fg_plan *p = open_plan("release-0.2"), *one = NULL;
    struct fg_jwrite w = {0};
    struct fg_error err = {0};
    fg_plan_set_mix_rot(p, FG_MIX_READERS);
    assert_int_equal(fg_plan_specialize(&one, p, &small, &err), 0);
    fg_plan_write(one, &w, NULL);
    struct fg_plan *again = parse(w.buf.data);
    struct fg_plan_list a = resolve(p, &small), b = resolve(again, &small);
    assert_int_equal(a.n, b.n);
    for (uint64_t i = 0; i < a.n; i++) {
        assert_int_equal(a.mats[i].format, b.mats[i].format);
        assert_int_equal(a.mats[i].rank, b.mats[i].rank);
        assert_int_equal(a.mats[i].block, b.mats[i].block);
    }
    struct fg_plan_shape other = small;
    other.vocab++;
    fg_plan_list_free(&b);
    assert_int_equal(fg_plan_resolve(&b, again, &other, &err), FG_EINPUT);
    assert_string_equal(err.field, "model.vocab");
    fg_plan_list_free(&a);
    fg_jwrite_free(&w);
    fg_plan_free(p);
    fg_plan_free(one);
    fg_plan_free(again);
}

static struct fg_plan *written_and_read(const struct fg_plan *p)
{
    struct fg_jwrite w = {0};
    fg_plan_write(p, &w, NULL);
    struct fg_plan *again = parse(w.buf.data);
    fg_jwrite_free(&w);
    return again;
}

static void the_embedding_has_its_own_key(void **state)
{
    (void)state;
    static const uint64_t bytes[] = {[FG_PLAN_EMBED_F16] = 1001 * 576 * 2,
                                     [FG_PLAN_EMBED_INT8] = 1001 * 576 + 2 * 1001,
                                     [FG_PLAN_EMBED_HEAD] = 0};
    struct fg_plan_shape s = small;
    s.tied = true;
    for (int e = FG_PLAN_EMBED_F16; e <= FG_PLAN_EMBED_HEAD; e++) {
        const enum fg_plan_embed want = (enum fg_plan_embed)e;
        enum fg_plan_embed named;
        struct fg_plan *p = open_plan("all-lut4"), *one = NULL, *other = NULL;
        struct fg_error err = {0};
        assert_true(fg_plan_embed_of_name(fg_plan_embed_name(want), &named));
        fg_plan_set_embed(p, named);
        assert_int_equal(fg_plan_specialize(&one, p, &s, &err), 0);
        struct fg_plan *again = written_and_read(one);
        struct fg_plan_list l = resolve(again, &s), base = resolve(p, &s);
        assert_int_equal(l.embed, want);
        assert_int_equal(l.embed_bytes, bytes[e]);
        assert_int_equal(l.weight_bytes, base.weight_bytes);
        enum fg_qformat formats[64];
        for (uint64_t i = 0; i < l.n; i++)
            formats[i] = l.mats[i].format;
        assert_int_equal(fg_plan_reformat(&other, again, &s, formats, l.n, "other", &err), 0);
        fg_plan_list_free(&l);
        l = resolve(other, &s);
        assert_int_equal(l.embed, want);
        fg_plan_list_free(&l);
        fg_plan_list_free(&base);
        fg_plan_free(other);
        fg_plan_free(again);
        fg_plan_free(one);
        fg_plan_free(p);
    }
    enum fg_plan_embed none;
    assert_false(fg_plan_embed_of_name("bf16", &none));
}

// ---- refusals

static void refused(const char *text, const char *field)
{
    struct fg_plan *p = NULL;
    struct fg_plan_list l = {0};
    struct fg_error err = {0};
    int rc = fg_plan_parse(&p, text, strlen(text), "p.json", &err);
    if (!rc) rc = fg_plan_resolve(&l, p, &small, &err);
    if (rc != FG_EINPUT || strcmp(err.field, field) != 0 || strcmp(err.file, "p.json") != 0 ||
        l.mats)
        fail_msg("%s: rc %d, file %s, field %s, wanted %s", text, rc, err.file, err.field, field);
    fg_plan_free(p);
}

#define S "{\"schema\": \"forge.plan/1\", "

static void what_is_not_understood_is_named(void **state)
{
    (void)state;
    refused("{\"12.gatee\": \"lut4\"}", "12.gatee");
    refused("{\"gate\": \"lut4\"}", "gate");
    refused("{\"x.gate\": \"lut4\"}", "x.gate");
    refused("{\"-1.gate\": \"lut4\"}", "-1.gate");
    refused("{\"01.gate\": \"lut4\"}", "01.gate");
    refused("{\"99999999999999999999.gate\": \"lut4\"}", "99999999999999999999.gate");
    refused("{\"0.head\": \"lut4\"}", "0.head");
    refused("{\"0.gate\": \"lut5\"}", "0.gate");
    refused("{\"0.gate\": \"f32\"}", "0.gate");
    refused("{\"0.gate\": 4}", "0.gate");
    refused("{\"0.gate\": null}", "0.gate");
    refused(S "\"defaults\": {\"embed\": \"head\"}}", "defaults.embed"); // not tied
    refused("{\"0.basis\": \"lut4\"}", "0.basis");
    refused("{\"0.lr_rank\": -1}", "0.lr_rank");
    refused("{\"0.lr_dtype\": \"i4\"}", "0.lr_dtype");
    refused("{\"0.lr_dtype\": 8}", "0.lr_dtype");
    refused(S "\"defaults\": {\"lr_dtype\": \"bf16\"}}", "defaults.lr_dtype");
    refused("{\"0.lr_rank\": 1025}", "0.lr_rank");
    refused("{\"0.lr_rank\": \"64\"}", "0.lr_rank");
    refused("{\"6.gate\": \"lut4\"}", "6.gate"); // no such layer
    refused("{\"0.q\": \"lut4\"}", "0.q");       // layer 0 is linear attention
    refused("{\"0.kv\": \"lut4\"}", "0.kv");
    refused("{\"2.qkv\": \"lut4\"}", "2.qkv");
    refused("{\"head\": \"v2x64\"}", "head"); // 1001 rows
    refused("{\"schema\": \"forge.plan/2\"}", "schema");
    refused("{\"schema\": 1}", "schema");
    refused(S "\"default\": {}}", "default");
    refused(S "\"defaults\": {\"attn\": \"lut4\"}}", "defaults.attn");
    refused(S "\"defaults\": {\"mlp\": \"v2x32\"}}", "defaults.mlp");
    refused(S "\"defaults\": {\"embed\": \"bf16\"}}", "defaults.embed");
    refused(S "\"defaults\": {\"mix_rot\": \"writers\"}}", "defaults.mix_rot");
    refused(S "\"defaults\": {\"lr_parts\": \"gdn\"}}", "defaults.lr_parts");
    refused(S "\"defaults\": {\"lr_parts\": [\"gdn\", \"x\"]}}", "defaults.lr_parts");
    refused(S "\"defaults\": []}", "defaults");
    refused(S "\"overrides\": {\"0.mlq\": \"lut4\"}}", "0.mlq");
    refused(S "\"model\": {\"layer\": 6}}", "model.layer");
    refused(S "\"model\": {\"layers\": 7}}", "model.layers");
    refused(S "\"model\": {\"vocab\": 1000}}", "model.vocab");
    refused(S "\"model\": {\"architecture\": \"llama\"}}", "model.architecture");
    refused(S "\"bytes\": {\"weights\": 5}}", "bytes.factors");
    refused(S "\"bytes\": {\"weights\": 5, \"factors\": 5}}", "bytes.weights");
    refused(S "\"bytes\": {\"weights\": 5, \"all\": 5}}", "bytes.all");
    refused("[]", "");
    refused("null", "");
}

static void names_that_are_no_plan(void **state)
{
    (void)state;
    struct fg_plan *p = NULL;
    struct fg_error err = {0};
    assert_int_equal(fg_plan_open(&p, "release-0.3", &err), FG_EINPUT);
    assert_null(p);
    assert_non_null(strstr(err.hint, "all-v2x64"));
    p = open_plan("release-0.1"); // for 64 layers only
    struct fg_plan_list l;
    assert_int_equal(fg_plan_resolve(&l, p, &small, &err), FG_EINPUT);
    assert_string_equal(err.field, "model.layers");
    fg_plan_free(p);
}

static void values_by_name(void **state)
{
    int64_t rank = 0;
    unsigned set = 0;
    (void)state;
    assert_true(fg_plan_rank_of_name("auto", &rank));
    assert_int_equal(rank, FG_PLAN_RANK_AUTO);
    assert_true(fg_plan_rank_of_name("0", &rank));
    assert_false(fg_plan_rank_of_name("-1", &rank));
    assert_false(fg_plan_rank_of_name("1025", &rank));
    assert_false(fg_plan_rank_of_name("8x", &rank));
    assert_true(fg_plan_lr_parts_of_name("gdn,attn", &set));
    assert_int_equal(set, FG_LR_GDN | FG_LR_ATTN);
    assert_true(fg_plan_lr_parts_of_name("none", &set));
    assert_int_equal(set, 0);
    assert_false(fg_plan_lr_parts_of_name("gdn,", &set));
    assert_false(fg_plan_lr_parts_of_name("gdn attn", &set));
}

static int set_up(void **state)
{
    struct fg_json doc = {0};
    struct fg_error err = {0};
    (void)state;
    fg_arena_init(&arena, 0);
    int rc = fg_json_open(&doc, FORGE_GOLDEN_DIR "/configs/qwen3.8-27b.json", 1 << 20, &err);
    if (!rc) rc = fg_config_parse(&config27, &doc, &arena, &err);
    fg_json_close(&doc);
    return rc;
}

static int tear_down(void **state)
{
    (void)state;
    fg_arena_free(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(release_02_has_the_bytes_of_the_table),
        cmocka_unit_test(older_releases_have_their_recorded_sizes),
        cmocka_unit_test(built_in_plans_are_the_files),
        cmocka_unit_test(keys_resolve_from_matrix_to_default),
        cmocka_unit_test(factors_in_int8_are_counted),
        cmocka_unit_test(release_02_is_generic_for_other_models),
        cmocka_unit_test(odd_widths_are_plain),
        cmocka_unit_test(the_flat_form_is_read),
        cmocka_unit_test(a_specialized_plan_means_the_same),
        cmocka_unit_test(the_embedding_has_its_own_key),
        cmocka_unit_test(what_is_not_understood_is_named),
        cmocka_unit_test(names_that_are_no_plan),
        cmocka_unit_test(values_by_name),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
