// Exports: the original's layout, made by NumPy (tests/reference/make_foreign_export.py), means
// what NumPy says; Forge's own layout reads back; damage is named by file and tensor.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/hash.h"
#include "format/qset.h"
#include "quant/dequant.h"
#include "quant/export.h"
#include "support/export_build.h"
#include "support/foreign.h"
#include "support/scratch.h"

static struct scratch tmp;
static struct foreign model;

static int setup(void **state)
{
    (void)state;
    scratch_open(&tmp);
    foreign_init(&model);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    foreign_free(&model);
    scratch_close(&tmp);
    return 0;
}

static struct fg_export *open_at(const char *dir, const char *from, struct fg_pool *pool)
{
    return foreign_open(&model, dir, from, pool);
}

// ---- the original's layout

// SHA-256 of the matrix in FP32, turned back into the basis of the model.
static void hash_weight(const struct fg_export *e, const char *name, char hex[FG_SHA256_HEX])
{
    int n_levels;
    const struct fg_qset_mat *mat = fg_qset_find_mat(fg_export_set(e), name);
    assert_non_null(mat);
    const struct fg_qmat *m = &mat->m;
    float *w = malloc((size_t)(m->rows * m->cols) * sizeof *w);
    assert_non_null(w);
    fg_qmat_dequantize(w, m, 0, m->rows);
    if (m->site) {
        long long layer;
        assert_int_equal(sscanf(name, "layers.%lld", &layer), 1);
        const struct fg_qset_rot *rot = fg_qset_find_rot(fg_export_set(e), layer, m->site);
        assert_non_null(rot);
        assert_int_equal(rot->n, m->cols);
        assert_int_equal(rot->block, m->block);
        fg_unrotate_rows(w, m->rows, m->cols, rot->bits, m->block, fg_kernels_levels(&n_levels)[0],
                         NULL);
    }
    fg_sha256_hex(w, (uint64_t)(m->rows * m->cols) * sizeof *w, hex);
    free(w);
}

static void means_what_numpy_says(void **state)
{
    (void)state;
    struct fg_pool *pool;
    struct fg_error err = {0};
    assert_int_equal(fg_pool_new(&pool, 2, &err), 0);
    struct fg_export *e = open_at(FOREIGN_DIR, FOREIGN_MODEL, pool);
    FILE *f = fopen(FOREIGN_DIR "/expected.txt", "r");
    assert_non_null(f);
    char name[128], what[16], want[80], found[FG_SHA256_HEX];
    int n = 0;
    while (fscanf(f, "%127s %15s %79s", name, what, want) == 3) {
        if (strcmp(what, "weight") == 0) {
            hash_weight(e, name, found);
        } else {
            const struct fg_qmat *m = &fg_qset_find_mat(fg_export_set(e), name)->m;
            fg_sha256_hex(m->lr_b, (uint64_t)(m->rank * m->cols) * 2, found);
        }
        if (strcmp(want, found) != 0) fail_msg("%s %s", name, what);
        n++;
    }
    fclose(f);
    assert_int_equal(n, 4 * 3 + 3 * 3 * 2 + 4 * 2 + 1);
    fg_export_close(e);
    fg_pool_free(pool);
}

static void tells_facts_of_the_original(void **state)
{
    (void)state;
    struct fg_export *e = open_at(FOREIGN_DIR, FOREIGN_MODEL, NULL);
    const struct fg_export_facts *f = fg_export_facts(e);
    assert_string_equal(f->name, "foreign");
    assert_true(f->original);
    assert_int_equal(f->signs, FG_SIGNS_NUMPY);
    assert_int_equal(f->n_layers, 4);
    assert_int_equal(f->n_files, 9);
    assert_int_equal(f->block, 16);
    assert_true(f->seeds_regular);
    assert_int_equal(f->seed_base[0], 1000);
    assert_int_equal(f->seed_base[3], 4000);
    assert_string_equal(f->config, FOREIGN_MODEL "/config.json");
    assert_null(f->json);
    const struct fg_qset *s = fg_export_set(e);
    assert_int_equal(s->n_mats, 4 * 3 + 3 * 5 + 4 + 1); // in_proj_a and in_proj_b are kept ones
    assert_int_equal(s->n_rots, 4 * 2 + 3 * 2);
    // Release 0.1 mixers are plain.
    assert_null(fg_qset_find_mat(s, "layers.0.linear_attn.in_proj_z")->m.site);
    assert_string_equal(fg_qset_find_mat(s, "layers.1.linear_attn.in_proj_z")->m.site, "mix_in");
    assert_int_equal(fg_qset_find_mat(s, "layers.3.self_attn.k_proj")->m.format, FG_Q_INT8);
    assert_int_equal(fg_qset_find_mat(s, "layers.0.linear_attn.in_proj_a")->m.format, FG_Q_BF16);
    assert_int_equal(fg_export_embedding(e)->vocab, 96);
    fg_export_close(e);
}

static void opens_without_a_model(void **state)
{
    (void)state;
    struct fg_export *e;
    struct fg_error err = {0};
    // Alone it is an export without small tensors: fine to look at, not enough for a model.
    assert_int_equal(fg_export_open(&e, FOREIGN_DIR, NULL, &err), 0);
    assert_int_equal(fg_export_set(e)->n_small, 0);
    assert_null(fg_export_embedding(e)->data);
    fg_export_close(e);
    const struct fg_export_options o = {.needs = model.needs, .n_needs = model.n_needs};
    assert_int_equal(fg_export_open(&e, FOREIGN_DIR, &o, &err), FG_EINPUT);
    assert_null(e);
    assert_string_equal(err.field, "layers.0.input_layernorm.weight");
}

// ---- Forge's own layout

static void same_qmat(const struct fg_qset_mat *a, const struct fg_qset_mat *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->m.format, b->m.format);
    assert_int_equal(a->m.rows, b->m.rows);
    assert_int_equal(a->m.cols, b->m.cols);
    assert_int_equal(a->m.rank, b->m.rank);
    assert_int_equal(a->m.block, b->m.block);
    if (a->m.rank) assert_memory_equal(a->m.lr_b, b->m.lr_b, (size_t)(a->m.rank * a->m.cols) * 2);
    size_t n = (size_t)(a->m.rows * a->m.cols);
    float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
    assert_true(x && y);
    fg_qmat_dequantize(x, &a->m, 0, a->m.rows);
    fg_qmat_dequantize(y, &b->m, 0, b->m.rows);
    assert_memory_equal(x, y, n * sizeof *x);
    free(x);
    free(y);
}

static void own_layout_reads_back(void **state)
{
    (void)state;
    struct fg_error err = {0};
    struct fg_export *from = open_at(FOREIGN_DIR, FOREIGN_MODEL, NULL);
    for (int variant = 0; variant < 4; variant++) {
        const bool numpy = variant & 1, bytes = variant & 2;
        struct export_build b;
        char dir[300];
        eb_from(&b, from, numpy, bytes);
        snprintf(dir, sizeof dir, "%s/own-%d", tmp.dir, variant);
        assert_int_equal(eb_write(&b, dir, &err), 0);
        eb_free(&b);
        struct fg_export *e = open_at(dir, NULL, NULL);
        const struct fg_qset *x = fg_export_set(from), *y = fg_export_set(e);
        assert_int_equal(x->n_mats, y->n_mats);
        assert_int_equal(x->n_small, y->n_small);
        assert_int_equal(x->n_rots, y->n_rots);
        for (uint64_t i = 0; i < x->n_mats; i++) {
            same_qmat(&x->mats[i], &y->mats[i]);
            assert_true(fg_qformat_is_lut(y->mats[i].m.format) ? (y->mats[i].m.idx != NULL) == bytes
                                                               : y->mats[i].m.pidx == NULL);
            assert_int_equal(fg_export_check_codes(&y->mats[i], &err), 0);
        }
        for (uint64_t i = 0; i < x->n_rots; i++) {
            bool same = memcmp(x->rots[i].bits, y->rots[i].bits, (size_t)x->rots[i].n / 8) == 0;
            if (numpy) assert_true(same);
        }
        assert_false(fg_export_facts(e)->original);
        assert_int_equal(fg_export_facts(e)->signs, numpy ? FG_SIGNS_NUMPY : FG_SIGNS_SPLITMIX64);
        assert_int_equal(fg_export_embedding(e)->hidden, 32);
        fg_export_close(e);
        // Without the model's sizes the columns come from the files; all widths here are whole.
        assert_int_equal(fg_export_open(&e, dir, NULL, &err), 0);
        for (uint64_t i = 0; i < x->n_mats; i++)
            same_qmat(&x->mats[i], &fg_export_set(e)->mats[i]);
        fg_export_close(e);
    }
    fg_export_close(from);
}

// INT8 factors mean what the F16 ones mean that they were rounded from, and are not touched.
static void int8_factors_read_back(void **state)
{
    (void)state;
    static const char *const names[] = {"layers.3.self_attn.q_proj", "layers.3.self_attn.o_proj"};
    struct fg_error err = {0};
    struct fg_export *from = open_at(FOREIGN_DIR, FOREIGN_MODEL, NULL), *e;
    struct export_build b;
    char dir[300];
    eb_from(&b, from, true, false);
    struct eb_file *f = eb_file(&b, "layer_03_mixer.safetensors");
    for (int i = 0; i < 2; i++)
        assert_true(eb_int8_factors(&b, f, names[i] + strlen("layers.3.")));
    snprintf(dir, sizeof dir, "%s/int8-factors", tmp.dir);
    assert_int_equal(eb_write(&b, dir, &err), 0);
    e = open_at(dir, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        const struct fg_qmat *x = &fg_qset_find_mat(fg_export_set(from), names[i])->m;
        const struct fg_qmat *y = &fg_qset_find_mat(fg_export_set(e), names[i])->m;
        assert_int_equal(x->lr_dtype, FG_LR_F16);
        assert_null(x->lr_scale);
        assert_int_equal(y->lr_dtype, FG_LR_I8);
        assert_int_equal(y->rank, x->rank);
        char key[64];
        snprintf(key, sizeof key, "%s.lr_scale", names[i] + strlen("layers.3."));
        assert_memory_equal(y->lr_scale, eb_data(f, key), (size_t)y->rank * 4);
        float *p = malloc((size_t)(x->rank * x->cols) * sizeof *p);
        float *q = malloc((size_t)(x->rank * x->cols) * sizeof *q);
        assert_true(p && q);
        fg_qmat_lr_b(p, x);
        fg_qmat_lr_b(q, y);
        double all = 0, off = 0;
        for (int64_t r = 0; r < x->rows; r++) {
            for (int64_t j = 0; j < x->cols; j++) {
                double v = 0, w = 0;
                for (int64_t k = 0; k < x->rank; k++) {
                    v += (double)fg_qmat_lr_a(x, r, k) * (double)p[k * x->cols + j];
                    w += (double)fg_qmat_lr_a(y, r, k) * (double)q[k * x->cols + j];
                }
                all += v * v;
                off += (v - w) * (v - w);
            }
        }
        assert_true(off > 0 && off < 1e-3 * all);
        free(p);
        free(q);
    }
    const struct fg_qset_mat *other =
        fg_qset_find_mat(fg_export_set(e), "layers.3.self_attn.v_proj");
    assert_int_equal(other->m.lr_dtype, FG_LR_F16);
    fg_export_close(e);

    // The original has none: its second factors are to be rotated.
    eb_meta(&b, f, "forge", NULL);
    assert_int_equal(eb_write(&b, dir, &err), 0);
    const struct fg_export_options o = {.needs = model.needs, .n_needs = model.n_needs};
    assert_int_equal(fg_export_open(&e, dir, &o, &err), FG_EINPUT);
    eb_free(&b);
    fg_export_close(from);
}

// ---- damage

struct damage {
    const char *file;                     // that the error names
    const char *field;                    // part of the error's line
    const char *found;                    // another part
    void (*harm)(struct export_build *b); // NULL: the file's metadata `key` becomes `value`
    const char *key, *value;              // NULL value: it goes
};

static void drop_mlp(struct export_build *b)
{
    eb_file(b, "layer_02.safetensors")->left_out = true;
}
static void drop_mixer(struct export_build *b)
{
    eb_file(b, "layer_03_mixer.safetensors")->left_out = true;
}
static void drop_head(struct export_build *b)
{
    eb_file(b, "lm_head.safetensors")->left_out = true;
}
static void extra_layer(struct export_build *b)
{
    struct eb_file *f = eb_file(b, "layer_04.safetensors");
    eb_add(b, f, "gate.scale", FG_ST_F16, 2, 0, NULL);
}
static void drop_scale(struct export_build *b)
{
    eb_remove(eb_file(b, "layer_00.safetensors"), "up.scale");
}
static void drop_matrix(struct export_build *b)
{
    struct eb_file *f = eb_file(b, "layer_01_mixer.safetensors");
    static const char *const parts[] = {"pidx", "lut", "scale", "lr_a", "lr_b"};
    for (int i = 0; i < 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "linear_attn.in_proj_z.%s", parts[i]);
        eb_remove(f, name);
    }
}
static void both_indices(struct export_build *b)
{
    eb_add(b, eb_file(b, "layer_00.safetensors"), "gate.idx", FG_ST_U8, 24, 32, NULL);
}
static void odd_tensor(struct export_build *b)
{
    eb_add(b, eb_file(b, "layer_00.safetensors"), "gate.perm", FG_ST_I32, 32, 0, NULL);
}
static void foreign_part(struct export_build *b)
{
    eb_add(b, eb_file(b, "layer_00.safetensors"), "gate.int8", FG_ST_I8, 48, 32, NULL);
}
static void lut_shape(struct export_build *b)
{
    eb_find(eb_file(b, "layer_00.safetensors"), "gate.lut")->shape[0] = 63;
}
static void lut_dtype(struct export_build *b)
{
    eb_find(eb_file(b, "layer_00.safetensors"), "gate.lut")->dtype = FG_ST_BF16;
}
static void index_rows(struct export_build *b)
{
    eb_find(eb_file(b, "layer_00.safetensors"), "gate.pidx")->shape[0] = 23;
}
static void index_width(struct export_build *b)
{
    eb_find(eb_file(b, "layer_00.safetensors"), "gate.pidx")->shape[1] = 23;
}
static void model_shape(struct export_build *b) // all of one matrix, but not the model's
{
    struct eb_file *f = eb_file(b, "lm_head.safetensors");
    eb_find(f, "lm_head.pidx")->shape[0] = 95;
    eb_find(f, "lm_head.scale")->shape[0] = 95;
}
static void scale_nan(struct export_build *b)
{
    eb_data(eb_file(b, "layer_02.safetensors"), "down.scale")[2 * 5 + 1] = 0x7E;
}
static void scale_zero(struct export_build *b)
{
    memset(eb_data(eb_file(b, "layer_01.safetensors"), "gate.scale") + 2 * 7, 0, 2);
}
static void scale_negative(struct export_build *b)
{
    eb_data(eb_file(b, "layer_01.safetensors"), "gate.scale")[1] |= 0x80;
}
static void lut_infinite(struct export_build *b)
{
    memcpy(eb_data(eb_file(b, "lm_head.safetensors"), "lm_head.lut") + 2 * 3, "\x00\x7C", 2);
}
static void factor_nan(struct export_build *b)
{
    memcpy(eb_data(eb_file(b, "layer_03_mixer.safetensors"), "self_attn.o_proj.lr_b") + 2 * 4,
           "\x01\xFE", 2);
}
static void one_factor(struct export_build *b)
{
    eb_remove(eb_file(b, "layer_03_mixer.safetensors"), "self_attn.q_proj.lr_a");
}
static void other_rank(struct export_build *b)
{
    eb_find(eb_file(b, "layer_03_mixer.safetensors"), "self_attn.q_proj.lr_a")->shape[1] = 2;
}
static struct eb_file *in_int8(struct export_build *b)
{
    struct eb_file *f = eb_file(b, "layer_03_mixer.safetensors");
    if (!eb_int8_factors(b, f, "self_attn.q_proj")) abort();
    return f;
}
static void int8_without_scale(struct export_build *b)
{
    eb_remove(in_int8(b), "self_attn.q_proj.lr_scale");
}
static void int8_scale_dtype(struct export_build *b)
{
    eb_find(in_int8(b), "self_attn.q_proj.lr_scale")->dtype = FG_ST_I32;
}
static void int8_scale_shape(struct export_build *b)
{
    eb_find(in_int8(b), "self_attn.q_proj.lr_scale")->shape[0] = 2;
}
static void int8_scale_nan(struct export_build *b)
{
    memcpy(eb_data(in_int8(b), "self_attn.q_proj.lr_scale") + 4, "\x01\x00\xC0\x7F", 4);
}
static void int8_scale_zero(struct export_build *b)
{
    memset(eb_data(in_int8(b), "self_attn.q_proj.lr_scale") + 8, 0, 4);
}
static void int8_scale_negative(struct export_build *b)
{
    eb_data(in_int8(b), "self_attn.q_proj.lr_scale")[3] |= 0x80;
}
static void int8_and_f16(struct export_build *b)
{
    struct fg_st_blob *blob = eb_find(in_int8(b), "self_attn.q_proj.lr_b");
    blob->dtype = FG_ST_F16;
    blob->shape[1] /= 2;
}
static void f16_and_int8(struct export_build *b)
{
    struct eb_file *f = in_int8(b);
    struct fg_st_blob *blob = eb_find(f, "self_attn.q_proj.lr_a");
    blob->dtype = FG_ST_F16;
    blob->shape[0] /= 2;
    eb_remove(f, "self_attn.q_proj.lr_scale");
}
static void scale_beside_f16(struct export_build *b)
{
    eb_add(b, eb_file(b, "layer_03_mixer.safetensors"), "self_attn.q_proj.lr_scale", FG_ST_F32, 3,
           0, NULL);
}
static void scale_alone(struct export_build *b)
{
    struct eb_file *f = in_int8(b);
    eb_remove(f, "self_attn.q_proj.lr_a");
    eb_remove(f, "self_attn.q_proj.lr_b");
}
static void no_basis(struct export_build *b)
{
    struct eb_file *f = eb_file(b, "layer_00.safetensors");
    eb_meta(b, f, "gate.basis", NULL);
    eb_meta(b, f, "basis", NULL);
}
static void other_bitmap(struct export_build *b)
{
    eb_data(eb_file(b, "layer_01.safetensors"), "rot.mlp_mid")[3] ^= 0x10;
}
static void no_bitmap(struct export_build *b)
{
    eb_remove(eb_file(b, "layer_01.safetensors"), "rot.mlp_in");
}
static void short_bitmap(struct export_build *b)
{
    eb_find(eb_file(b, "layer_01.safetensors"), "rot.mlp_in")->shape[0] = 3;
}
static void spare_bitmap(struct export_build *b)
{
    eb_add(b, eb_file(b, "layer_00_mixer.safetensors"), "rot.mix_in", FG_ST_U8, 4, 0, NULL);
}
static void drop_norm(struct export_build *b)
{
    eb_remove(eb_file(b, "small.safetensors"), "model.layers.1.input_layernorm.weight");
}
static void norm_shape(struct export_build *b)
{
    eb_find(eb_file(b, "small.safetensors"), "model.norm.weight")->shape[0] = 31;
}
static void norm_nan(struct export_build *b)
{
    memcpy(eb_data(eb_file(b, "small.safetensors"), "model.norm.weight") + 2 * 6, "\xC0\x7F", 2);
}
static void norm_dtype(struct export_build *b)
{
    eb_find(eb_file(b, "small.safetensors"), "model.norm.weight")->dtype = FG_ST_I16;
}
static void embedding_shape(struct export_build *b)
{
    eb_find(eb_file(b, "embed_tokens.safetensors"), "embed_tokens.weight")->shape[0] = 95;
}
static void embedding_dtype(struct export_build *b)
{
    eb_find(eb_file(b, "embed_tokens.safetensors"), "embed_tokens.weight")->dtype = FG_ST_I16;
}

static void embedding_beside_the_head(struct export_build *b)
{
    eb_meta(b, eb_file(b, "lm_head.safetensors"), "embed", "head");
}
static struct eb_file *embedding_int8(struct export_build *b)
{
    struct eb_file *f = eb_file(b, "embed_tokens.safetensors");
    eb_remove(f, "embed_tokens.weight");
    eb_add(b, f, FG_EMBEDDING_CODES, FG_ST_I8, 96, 32, NULL);
    uint8_t *scale = eb_add(b, f, FG_EMBEDDING_SCALE, FG_ST_F16, 96, 0, NULL);
    for (int i = 0; i < 96; i++)
        scale[2 * i] = (uint8_t)(i + 1);
    return f;
}
static void embed_scale_zero(struct export_build *b)
{
    eb_data(embedding_int8(b), FG_EMBEDDING_SCALE)[2 * 17] = 0;
}
static void int8_scale_count(struct export_build *b)
{
    eb_find(embedding_int8(b), FG_EMBEDDING_SCALE)->shape[0] = 95;
}
static void embed_without_scale(struct export_build *b)
{
    eb_remove(embedding_int8(b), FG_EMBEDDING_SCALE);
}
static void int8_shape(struct export_build *b)
{
    eb_find(embedding_int8(b), FG_EMBEDDING_CODES)->shape[1] = 31;
}
static void int8_stranger(struct export_build *b)
{
    eb_add(b, embedding_int8(b), "embed_tokens.lut", FG_ST_F16, 16, 0, NULL);
}
static void int8_dtype(struct export_build *b)
{
    eb_find(embedding_int8(b), FG_EMBEDDING_CODES)->dtype = FG_ST_U8;
}

static const struct damage damages[] = {
    {"layer_02.safetensors", "", "", .harm = drop_mlp},
    {"layer_03_mixer.safetensors", "", "", .harm = drop_mixer},
    {"lm_head.safetensors", "", "", .harm = drop_head},
    {"layer_04.safetensors", "4 layers", "layer 4", .harm = extra_layer},
    {"layer_00.safetensors", "up.scale", "no such tensor", .harm = drop_scale},
    {"layer_01_mixer.safetensors", "linear_attn.in_proj_z", "no such tensor", .harm = drop_matrix},
    {"layer_00.safetensors", "gate.idx", "both", .harm = both_indices},
    {"layer_00.safetensors", "gate.perm", "another tensor", .harm = odd_tensor},
    {"layer_00.safetensors", "gate.int8", "v2x64", .harm = foreign_part},
    {"layer_00.safetensors", "shape of gate.lut: expected [64, 2]", "[63, 2]", .harm = lut_shape},
    {"layer_00.safetensors", "dtype of gate.lut: expected F16", "BF16", .harm = lut_dtype},
    {"layer_00.safetensors", "shape of gate.pidx: expected [24, 24]", "[23, 24]",
     .harm = index_rows},
    {"layer_00.safetensors", "shape of gate.pidx: expected [24, 24]", "[24, 23]",
     .harm = index_width},
    {"lm_head.safetensors", "lm_head", "[95, 32]", .harm = model_shape},
    {"layer_02.safetensors", "down.scale[5]", "nan", .harm = scale_nan},
    {"layer_01.safetensors", "gate.scale[7]", "0", .harm = scale_zero},
    {"layer_01.safetensors", "gate.scale[0]", "-", .harm = scale_negative},
    {"lm_head.safetensors", "lm_head.lut[3]", "inf", .harm = lut_infinite},
    {"layer_03_mixer.safetensors", "self_attn.o_proj.lr_b[4]", "nan", .harm = factor_nan},
    {"layer_03_mixer.safetensors", "self_attn.q_proj.lr_a", "no such tensor", .harm = one_factor},
    {"layer_03_mixer.safetensors", "shape of self_attn.q_proj.lr_b: expected [2, 32]", "[3, 32]",
     .harm = other_rank},
#define INT8_FACTORS "layer_03_mixer.safetensors"
    {INT8_FACTORS, "self_attn.q_proj.lr_scale", "no such tensor", .harm = int8_without_scale},
    {INT8_FACTORS, "dtype of self_attn.q_proj.lr_scale: expected F32", "I32",
     .harm = int8_scale_dtype},
    {INT8_FACTORS, "shape of self_attn.q_proj.lr_scale: expected [3]", "[2]",
     .harm = int8_scale_shape},
    {INT8_FACTORS, "self_attn.q_proj.lr_scale[1]", "nan", .harm = int8_scale_nan},
    {INT8_FACTORS, "self_attn.q_proj.lr_scale[2]", "found 0", .harm = int8_scale_zero},
    {INT8_FACTORS, "self_attn.q_proj.lr_scale[0]", "-", .harm = int8_scale_negative},
    {INT8_FACTORS, "dtype of self_attn.q_proj.lr_b: expected I8", "F16", .harm = int8_and_f16},
    {INT8_FACTORS, "dtype of self_attn.q_proj.lr_b: expected F16", "I8", .harm = f16_and_int8},
    {INT8_FACTORS, "self_attn.q_proj.lr_scale", "no factors in I8", .harm = scale_beside_f16},
    {INT8_FACTORS, "self_attn.q_proj.lr_scale", "no factors in I8", .harm = scale_alone},
    {"layer_00.safetensors", "gate.format", "v2x32", .key = "gate.format", .value = "v2x32"},
    {"layer_00.safetensors", "gate.format", "nothing", .key = "gate.format", .value = NULL},
    {"layer_00.safetensors", "shape of gate.lut: expected [16, 2]", "[64, 2]", .key = "gate.format",
     .value = "v2x16"},
    {"layer_00.safetensors", "basis", "turned", .key = "gate.basis", .value = "turned"},
    {"layer_00.safetensors", "basis", "nothing", .harm = no_basis},
    {"layer_00.safetensors", "block", "nothing", .key = "block_in", .value = NULL},
    {"layer_00.safetensors", "block_in", "24", .key = "block_in", .value = "24"},
    {"layer_00.safetensors", "block", "64 for 32 columns", .key = "block_in", .value = "64"},
    {"layer_01_mixer.safetensors", "seed_out", "nothing", .key = "seed_out", .value = NULL},
    {"layer_01_mixer.safetensors", "seed_out", "4001x", .key = "seed_out", .value = "4001x"},
    {"layer_01_mixer.safetensors", "layer: expected 1", "0", .key = "layer", .value = "0"},
    {"layer_01_mixer.safetensors", "kind", "convolution", .key = "kind", .value = "convolution"},
    {"layer_01_mixer.safetensors", "linear_attn", "another tensor", .key = "kind",
     .value = "full_attention"},
    {"layer_01.safetensors", "signs", "mt19937", .key = "signs", .value = "mt19937"},
    {"layer_01.safetensors", "rot.mlp_in[0]", "0x", .key = "signs", .value = "numpy-pcg64"},
    {"layer_01.safetensors", "rot.mlp_mid[3]", "0x", .harm = other_bitmap},
    {"layer_01.safetensors", "rot.mlp_in", "no such tensor", .harm = no_bitmap},
    {"layer_01.safetensors", "rot.mlp_in", "[3]", .harm = short_bitmap},
    {"layer_00_mixer.safetensors", "rot.mix_in", "a bitmap", .harm = spare_bitmap},
    {"", "layers.1.input_layernorm.weight", "no such tensor", .harm = drop_norm},
    {"small.safetensors", "shape of model.norm.weight: expected [32]", "[31]", .harm = norm_shape},
    {"small.safetensors", "model.norm.weight[6]", "nan", .harm = norm_nan},
    {"small.safetensors", "model.norm.weight", "I16", .harm = norm_dtype},
    {"embed_tokens.safetensors", "[96, 32]", "[95, 32]", .harm = embedding_shape},
    {"embed_tokens.safetensors", "embed_tokens.weight", "I16", .harm = embedding_dtype},
    {"embed_tokens.safetensors", "no embedding beside a head", "a file",
     .harm = embedding_beside_the_head},
    {"lm_head.safetensors", "embed", "table", .key = "embed", .value = "table"},
    {"embed_tokens.safetensors", "embed_tokens.scale[17]", "0", .harm = embed_scale_zero},
    {"embed_tokens.safetensors", "embed_tokens.scale", "[95]", .harm = int8_scale_count},
    {"embed_tokens.safetensors", "embed_tokens.scale", "none", .harm = embed_without_scale},
    {"embed_tokens.safetensors", "[96, 32]", "[96, 31]", .harm = int8_shape},
    {"embed_tokens.safetensors", "embed_tokens.lut", "another tensor", .harm = int8_stranger},
    {"embed_tokens.safetensors", "embed_tokens.int8", "U8", .harm = int8_dtype},
};

static void names_what_is_damaged(void **state)
{
    (void)state;
    struct fg_export *from = open_at(FOREIGN_DIR, FOREIGN_MODEL, NULL);
    char dir[300];
    snprintf(dir, sizeof dir, "%s/bad", tmp.dir);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        const struct damage *d = &damages[i];
        struct export_build b;
        struct fg_export *e;
        struct fg_error err = {0};
        char line[1024];
        eb_from(&b, from, false, false);
        if (d->harm)
            d->harm(&b);
        else
            eb_meta(&b, eb_file(&b, d->file), d->key, d->value);
        assert_int_equal(eb_write(&b, dir, &err), 0);
        const struct fg_export_options o = {.needs = model.needs, .n_needs = model.n_needs};
        int rc = fg_export_open(&e, dir, &o, &err);
        fg_error_line(&err, line, sizeof line);
        if (rc != FG_EINPUT || e || !strstr(line, d->file) || !strstr(line, d->field) ||
            !strstr(line, d->found))
            fail_msg("damage %zu: rc %d, \"%s\", wanted \"%s\", \"%s\" and \"%s\"", i, rc, line,
                     d->file, d->field, d->found);
        for (uint64_t k = 0; k < b.n_files; k++) { // the next one has files of its own
            char path[400];
            snprintf(path, sizeof path, "%s/%s", dir, b.files[k].name);
            remove(path);
        }
        eb_free(&b);
    }
    fg_export_close(from);
}

static void other_embeddings_are_read(void **state)
{
    (void)state;
    struct fg_export *from = open_at(FOREIGN_DIR, FOREIGN_MODEL, NULL), *e;
    struct export_build b;
    struct fg_error err = {0};
    char dir[300];
    snprintf(dir, sizeof dir, "%s/int8", tmp.dir);
    eb_from(&b, from, false, false);
    eb_data(embedding_int8(&b), FG_EMBEDDING_CODES)[32 * 95 + 31] = 0x81;
    assert_int_equal(eb_write(&b, dir, &err), 0);
    eb_free(&b);
    e = open_at(dir, NULL, NULL);
    const struct fg_export_embedding *em = fg_export_embedding(e);
    assert_int_equal(em->kind, FG_EMBEDDING_INT8);
    assert_int_equal(em->dtype, FG_ST_I8);
    assert_int_equal(em->vocab, 96);
    assert_int_equal(((const int8_t *)em->data)[32 * 95 + 31], -127);
    assert_int_equal(((const uint8_t *)em->scale)[2 * 95], 96);
    fg_export_close(e);

    snprintf(dir, sizeof dir, "%s/head", tmp.dir);
    eb_from(&b, from, false, false);
    eb_meta(&b, eb_file(&b, "lm_head.safetensors"), "embed", "head");
    struct eb_file *rows = eb_file(&b, "embed_tokens.safetensors");
    rows->left_out = true;
    assert_int_equal(eb_write(&b, dir, &err), 0);
    eb_free(&b);
    e = open_at(dir, NULL, NULL);
    em = fg_export_embedding(e);
    assert_int_equal(em->kind, FG_EMBEDDING_HEAD);
    assert_null(em->data);
    assert_int_equal(em->vocab, 96);
    assert_int_equal(em->hidden, 32);
    fg_export_close(e);
    e = open_at(dir, FOREIGN_MODEL, NULL); // the model's is not looked at
    assert_int_equal(fg_export_embedding(e)->kind, FG_EMBEDDING_HEAD);
    fg_export_close(e);
    fg_export_close(from);
}

// Values of indices and codes are looked at when they are used.
static void checks_codes_when_asked(void **state)
{
    (void)state;
    struct fg_export *from = open_at(FOREIGN_DIR, FOREIGN_MODEL, NULL), *e;
    struct export_build b;
    struct fg_error err = {0};
    char dir[300];
    snprintf(dir, sizeof dir, "%s/codes", tmp.dir);
    eb_from(&b, from, false, true);
    eb_data(eb_file(&b, "layer_00.safetensors"), "gate.idx")[33] = 64;
    eb_data(eb_file(&b, "layer_02.safetensors"), "down.int8")[50] = 0x80;
    assert_int_equal(eb_write(&b, dir, &err), 0);
    eb_free(&b);
    e = open_at(dir, NULL, NULL);
    const struct fg_qset *s = fg_export_set(e);
    assert_int_equal(fg_export_check_codes(fg_qset_find_mat(s, "layers.0.mlp.gate_proj"), &err),
                     FG_EINPUT);
    assert_string_equal(err.field, "layers.0.mlp.gate_proj.idx[33]");
    assert_int_equal(fg_export_check_codes(fg_qset_find_mat(s, "layers.2.mlp.down_proj"), &err),
                     FG_EINPUT);
    assert_string_equal(err.field, "layers.2.mlp.down_proj.int8[50]");
    assert_int_equal(fg_export_check_codes(fg_qset_find_mat(s, "layers.1.mlp.up_proj"), &err), 0);
    fg_export_close(e);
    fg_export_close(from);
}

// What is there of an export in the making can be looked at.
static void opens_what_is_there(void **state)
{
    (void)state;
    struct fg_export *from = open_at(FOREIGN_DIR, FOREIGN_MODEL, NULL), *e;
    struct export_build b;
    struct fg_error err = {0};
    char dir[300];
    snprintf(dir, sizeof dir, "%s/part", tmp.dir);
    eb_from(&b, from, false, false);
    for (uint64_t i = 0; i < b.n_files; i++)
        b.files[i].left_out = strcmp(b.files[i].name, "layer_01.safetensors") != 0;
    assert_int_equal(eb_write(&b, dir, &err), 0);
    eb_free(&b);
    const struct fg_export_options o = {
        .needs = model.needs, .n_needs = model.n_needs, .allow_missing = true};
    assert_int_equal(fg_export_open(&e, dir, &o, &err), 0);
    assert_int_equal(fg_export_set(e)->n_mats, 3);
    assert_string_equal(fg_export_set(e)->mats[0].name, "layers.1.mlp.down_proj");
    fg_export_close(e);
    fg_export_close(from);
}

static void reads_export_json(void **state)
{
    (void)state;
    struct fg_export *from = open_at(FOREIGN_DIR, FOREIGN_MODEL, NULL), *e;
    struct export_build b;
    struct fg_error err = {0};
    char dir[300], path[400];
    snprintf(dir, sizeof dir, "%s/json", tmp.dir);
    eb_from(&b, from, true, false);
    assert_int_equal(eb_write(&b, dir, &err), 0);
    eb_free(&b);
    snprintf(path, sizeof path, "%s/export.json", dir);
    static const char text[] = "{\"schema\": \"forge.export/1\", \"plan\": {\"name\": \"p\"},"
                               " \"digest\": \"00\", \"head_digest\": \"11\"}";
    assert_int_equal(fg_file_replace(path, text, strlen(text), &err), 0);
    e = open_at(dir, NULL, NULL);
    const struct fg_export_facts *f = fg_export_facts(e);
    assert_string_equal(f->plan, "{\"name\":\"p\"}");
    assert_string_equal(f->digest, "00");
    assert_string_equal(f->head_digest, "11");
    assert_string_equal(f->forge, "0.1.0");
    fg_export_close(e);
    assert_int_equal(fg_file_replace(path, "{\"digest\": 5}", 13, &err), 0);
    assert_int_equal(fg_export_open(&e, dir, NULL, &err), FG_EINPUT);
    assert_string_equal(err.field, "digest");
    fg_export_close(from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_what_numpy_says),   cmocka_unit_test(tells_facts_of_the_original),
        cmocka_unit_test(opens_without_a_model),   cmocka_unit_test(own_layout_reads_back),
        cmocka_unit_test(int8_factors_read_back),  cmocka_unit_test(names_what_is_damaged),
        cmocka_unit_test(checks_codes_when_asked), cmocka_unit_test(other_embeddings_are_read),
        cmocka_unit_test(opens_what_is_there),     cmocka_unit_test(reads_export_json),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
