// Quantization jobs: an export stands for its source with the error that the log gives and that
// NumPy measured (golden/quantize.json, by tests/reference/check_export.py); any source of the same
// weights gives the same export; every tiny checkpoint goes through; stopping at any tick and going
// on gives the same bytes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/num.h"
#include "base/size.h"
#include "base/thread.h"
#include "format/gguf.h"
#include "format/gguf_dequant.h"
#include "kernels/kernels.h"
#include "model/import.h"
#include "quant/dequant.h"
#include "quant/export.h"
#include "quant/signs.h"
#include "support/gguf_build.h"
#include "support/quantize.h"
#include "support/scratch.h"
#include "train/quant_source.h"
#include "train/quantize.h"
#include <dirent.h>
#include <math.h>

static struct scratch tmp;
static struct fg_pool *pools[2]; // of one and two threads

static char *in_tmp(const char *name)
{
    return strdup(scratch_path(&tmp, name));
}

static struct fg_plan *plan_of(const char *text)
{
    struct fg_plan *p = NULL;
    struct fg_error err = {0};
    int rc = text[0] == '{' ? fg_plan_parse(&p, text, strlen(text), "plan", &err)
                            : fg_plan_open(&p, text, &err);
    if (rc) fail_msg("%s: %s: %s", text, err.field, err.found);
    return p;
}

static struct fg_quantize_options options_of(const char *model, const char *out,
                                             const struct fg_plan *plan)
{
    const struct fg_kernels *kernels;
    assert_int_equal(fg_kernels_get(&kernels, NULL, NULL), 0);
    return quantize_options(model, out, plan, 0, kernels, pools[0]);
}

static int run_job(const struct fg_quantize_options *o, struct fg_error *err)
{
    struct fg_quantize *q = NULL;
    int rc = fg_quantize_open(&q, o, err);
    if (!rc) rc = fg_quantize_check(q, err);
    if (!rc) rc = fg_quantize_run(q, err);
    fg_quantize_free(q);
    return rc;
}

static void succeeds(const struct fg_quantize_options *o)
{
    struct fg_error err = {0};
    char line[1024];
    if (run_job(o, &err)) fail_msg("%s: %s", o->model, fg_error_line(&err, line, sizeof line));
}

static struct fg_export *open_export(const char *dir)
{
    struct fg_export *e = NULL;
    struct fg_error err = {0};
    struct fg_export_options eo = {0};
    char line[1024];
    if (fg_export_open(&e, dir, &eo, &err)) fail_msg("%s", fg_error_line(&err, line, sizeof line));
    return e;
}

// The text of a member of export.json, malloc'd.
static char *member(const char *dir, const char *key)
{
    struct fg_json doc = {0};
    struct json_object *v = NULL;
    char *path = fg_path_join(dir, "export.json");
    assert_int_equal(fg_json_open(&doc, path, 1 << 24, NULL), 0);
    assert_true(json_object_object_get_ex(doc.root, key, &v));
    char *text = strdup(json_object_to_json_string(v));
    fg_json_close(&doc);
    free(path);
    return text;
}

// ---- against NumPy

// Q + A B in the basis of the source.
static float *reconstruct(const struct fg_qset *set, const struct fg_qset_mat *mat)
{
    const struct fg_qmat *m = &mat->m;
    const struct fg_kernels *kernels = NULL;
    float *q = malloc((size_t)(m->rows * m->cols) * sizeof *q);
    assert_non_null(q);
    assert_int_equal(fg_kernels_get(&kernels, "ref", NULL), 0);
    fg_qmat_dequantize(q, m, 0, m->rows);
    float *b = malloc((size_t)(m->rank * m->cols + 1) * sizeof *b);
    assert_non_null(b);
    fg_qmat_lr_b(b, m);
    for (int64_t r = 0; r < m->rows; r++) {
        for (int64_t j = 0; j < m->cols; j++) {
            double sum = q[r * m->cols + j];
            for (int64_t k = 0; k < m->rank; k++)
                sum += (double)fg_qmat_lr_a(m, r, k) * b[k * m->cols + j];
            q[r * m->cols + j] = (float)sum;
        }
    }
    free(b);
    if (m->site) {
        const struct fg_qset_rot *rot =
            fg_qset_find_rot(set, strtol(mat->name + strlen("layers."), NULL, 10), m->site);
        assert_non_null(rot);
        fg_unrotate_rows(q, m->rows, m->cols, rot->bits, rot->block, kernels, NULL);
    }
    return q;
}

static double number(struct json_object *obj, const char *key)
{
    struct json_object *v = NULL;
    assert_true(json_object_object_get_ex(obj, key, &v));
    return json_object_get_double(v);
}

// The error of what a matrix stands for, against the source.
static double measure(const struct fg_qset *set, const struct fg_quant_source *src,
                      const char *name)
{
    const struct fg_qset_mat *mat = fg_qset_find_mat(set, name);
    const struct fg_kernels *kernels = NULL;
    struct fg_quant_tensor t;
    double signal = 0, noise = 0;
    assert_non_null(mat);
    assert_int_equal(fg_kernels_get(&kernels, "ref", NULL), 0);
    assert_int_equal(fg_quant_source_find(src, name, true, &t, NULL), 0);
    int64_t n = mat->m.rows * mat->m.cols;
    assert_int_equal(t.rows * t.cols, n);
    float *q = reconstruct(set, mat), *w = malloc((size_t)n * sizeof *w);
    void *raw = malloc((size_t)n * sizeof(float));
    assert_true(w && raw);
    assert_int_equal(fg_quant_source_read(src, &t, 0, t.rows, raw, NULL), 0);
    kernels->widen(w, raw, t.dtype, n);
    for (int64_t i = 0; i < n; i++) {
        signal += (double)w[i] * w[i];
        noise += ((double)w[i] - q[i]) * ((double)w[i] - q[i]);
    }
    free(q);
    free(w);
    free(raw);
    return 10 * log10(signal / noise);
}

// Every matrix: the job's log, what the files stand for, and NumPy's figure for an export of the
// time when the golden was made, which another fit may miss by little.
static void compare(const struct fg_quantize *q, const char *model, const char *out,
                    struct json_object *golden)
{
    const struct fg_plan_list *l = fg_quantize_info(q)->list;
    struct fg_quant_source src;
    assert_int_equal(fg_quant_source_open(&src, model, NULL, NULL), 0);
    struct fg_export *e = open_export(out);
    assert_int_equal(json_object_object_length(golden), l->n);
    for (uint64_t i = 0; i < l->n; i++) {
        const char *name = l->mats[i].name;
        struct fg_quantize_mat m;
        struct json_object *want = NULL;
        assert_true(fg_quantize_result(q, i, &m));
        assert_true(json_object_object_get_ex(golden, name, &want));
        double snr = measure(fg_export_set(e), &src, name), numpy = number(want, "snr_db");
        if (fabs(m.weight_snr_db - snr) > 0.01 || fabs(snr - numpy) > 0.5)
            fail_msg("%s: %g dB, the log has %g, NumPy had %g", name, snr, m.weight_snr_db, numpy);
        assert_int_equal(strlen(m.source_sha256), 64);
    }
    fg_export_close(e);
    fg_quant_source_close(&src);
}

static void exports_stand_for_what_numpy_says(void **state)
{
    struct fg_json doc = {0};
    (void)state;
    assert_int_equal(fg_json_open(&doc, FORGE_GOLDEN_DIR "/quantize.json", 1 << 24, NULL), 0);
    json_object_object_foreach(doc.root, key, golden)
    {
        char model[512], name[128];
        const char *slash = strchr(key, '/');
        snprintf(model, sizeof model, "%s/models/%.*s", FORGE_GOLDEN_DIR, (int)(slash - key), key);
        snprintf(name, sizeof name, "golden-%.*s-%s", (int)(slash - key), key, slash + 1);
        char *out = in_tmp(name);
        struct fg_plan *plan = plan_of(slash + 1);
        if (strcmp(slash + 1, "all-v2x16") == 0) fg_plan_set_mix_rot(plan, FG_MIX_READERS);
        struct fg_quantize_options o = options_of(model, out, plan);
        struct fg_error err = {0};
        struct fg_quantize *q = NULL;
        assert_int_equal(fg_quantize_open(&q, &o, &err), 0);
        assert_int_equal(fg_quantize_run(q, &err), 0);
        compare(q, model, out, golden);
        fg_quantize_free(q);
        fg_plan_free(plan);
        free(out);
    }
    fg_json_close(&doc);
}

// Factors in INT8 take half the bytes, leave what those in F16 leave, and their log says so.
static void int8_factors_keep_the_gain(void **state)
{
    (void)state;
    static const char *const plans[] = {
        "{\"schema\": \"forge.plan/1\", \"defaults\": {\"lr_rank\": 8}}",
        "{\"schema\": \"forge.plan/1\", \"defaults\": {\"lr_rank\": 8, \"lr_dtype\": \"i8\"},"
        " \"overrides\": {\"1.lr_dtype\": \"f16\"}}"};
    char model[512];
    struct fg_quant_source src;
    struct fg_quantize *q[2] = {NULL};
    struct fg_error err = {0};
    int n = 0;
    snprintf(model, sizeof model, "%s/models/a-s0", FORGE_GOLDEN_DIR);
    assert_int_equal(fg_quant_source_open(&src, model, NULL, NULL), 0);
    for (int i = 0; i < 2; i++) {
        char *out = in_tmp(i ? "factors-i8" : "factors-f16");
        struct fg_plan *plan = plan_of(plans[i]);
        struct fg_quantize_options o = options_of(model, out, plan);
        assert_int_equal(fg_quantize_open(&q[i], &o, &err), 0);
        assert_int_equal(fg_quantize_run(q[i], &err), 0);
        fg_plan_free(plan);
        free(out);
    }
    char *out = in_tmp("factors-i8");
    struct fg_export *e = open_export(out);
    const struct fg_plan_list *l = fg_quantize_info(q[1])->list;
    double worse = 0;
    for (uint64_t i = 0; i < l->n; i++) {
        const struct fg_plan_mat *m = &l->mats[i];
        const struct fg_qmat *stored = &fg_qset_find_mat(fg_export_set(e), m->name)->m;
        const bool int8 = m->rank && m->layer != 1;
        struct fg_quantize_mat f16, i8;
        assert_true(fg_quantize_result(q[0], i, &f16) && fg_quantize_result(q[1], i, &i8));
        assert_int_equal(stored->lr_dtype, int8 ? FG_LR_I8 : FG_LR_F16);
        assert_int_equal(stored->rank, m->rank);
        if (!int8) continue;
        assert_int_equal(m->factor_bytes, m->rank * (m->rows + m->cols + 4));
        const double snr = measure(fg_export_set(e), &src, m->name);
        if (fabs(i8.weight_snr_db - snr) > 0.01)
            fail_msg("%s: %g dB, the log has %g", m->name, snr, i8.weight_snr_db);
        if (fabs(i8.lr_left - f16.lr_left) > 0.05) // rounding twice may end elsewhere
            fail_msg("%s: left %g, in F16 %g", m->name, i8.lr_left, f16.lr_left);
        worse += f16.weight_snr_db - i8.weight_snr_db;
        n++;
    }
    assert_true(n >= 10 && worse / n < 0.05);
    char *text = member(out, "matrices");
    assert_non_null(strstr(text, "\"lr_dtype\": \"i8\""));
    free(text);
    free(out);
    fg_export_close(e);
    fg_quantize_free(q[0]);
    fg_quantize_free(q[1]);
    fg_quant_source_close(&src);
}

// ---- every source

static void every_tiny_checkpoint_goes_through(void **state)
{
    int n = 0;
    (void)state;
    DIR *d = opendir(FORGE_GOLDEN_DIR "/models");
    assert_non_null(d);
    struct fg_plan *plan = plan_of("release-0.2");
    for (struct dirent *e; (e = readdir(d));) {
        char model[512], out[64];
        snprintf(model, sizeof model, "%s/models/%s", FORGE_GOLDEN_DIR, e->d_name);
        if (e->d_name[0] == '.' || !fg_dir_exists(model)) continue;
        snprintf(out, sizeof out, "tiny-%.40s", e->d_name);
        char *path = in_tmp(out);
        struct fg_quantize_options o = options_of(model, path, plan);
        succeeds(&o);
        struct fg_export *x = open_export(path);
        const struct fg_export_embedding *em = fg_export_embedding(x);
        assert_non_null(em->data);
        assert_int_equal(em->dtype, FG_ST_F16);
        assert_non_null(fg_qset_find_mat(fg_export_set(x), "lm_head"));
        for (uint64_t i = 0; i < fg_export_set(x)->n_mats; i++)
            assert_int_equal(fg_export_check_codes(&fg_export_set(x)->mats[i], NULL), 0);
        fg_export_close(x);
        free(path);
        n++;
    }
    closedir(d);
    fg_plan_free(plan);
    assert_int_equal(n, 18);
}

enum { V = 21, H = 24, F = 40, NQ = 3, D = 8 }; // odd vocabulary: lut4 and int8 alone

static void put(struct gguf_build *b, const char *name, uint64_t rows, uint64_t cols)
{
    static float data[F * H];
    uint64_t extent[2] = {cols, rows ? rows : 1};
    static uint32_t seed = 1;
    for (uint64_t i = 0; i < extent[0] * extent[1]; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (float)((int)(seed >> 16) % 2001 - 1000) / 1024; // exact in FP16
    }
    gb_tensor(b, name, FG_GGML_F32, rows ? 2 : 1, extent, data);
}

static char *write_gguf(void)
{
    struct gguf_build b;
    struct fg_buf file = {0};
    gb_begin(&b);
    gb_str(&b, "general.architecture", "llama");
    gb_u32(&b, "llama.block_count", 1);
    gb_u32(&b, "llama.context_length", 128);
    gb_u32(&b, "llama.embedding_length", H);
    gb_u32(&b, "llama.feed_forward_length", F);
    gb_u32(&b, "llama.attention.head_count", NQ);
    gb_u32(&b, "llama.attention.head_count_kv", NQ);
    gb_f32(&b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    put(&b, "token_embd.weight", V, H);
    put(&b, "output_norm.weight", 0, H);
    put(&b, "blk.0.attn_norm.weight", 0, H);
    put(&b, "blk.0.ffn_norm.weight", 0, H);
    put(&b, "blk.0.attn_q.weight", NQ * D, H);
    put(&b, "blk.0.attn_k.weight", NQ * D, H);
    put(&b, "blk.0.attn_v.weight", NQ * D, H);
    put(&b, "blk.0.attn_output.weight", H, NQ * D);
    put(&b, "blk.0.ffn_gate.weight", F, H);
    put(&b, "blk.0.ffn_up.weight", F, H);
    put(&b, "blk.0.ffn_down.weight", H, F);
    gb_end(&b, &file);
    char *path = strdup(scratch_write(&tmp, "m.gguf", file.data, file.len));
    fg_buf_free(&file);
    return path;
}

// The checkpoint that `forge import` would make, but for the tokenizer, which this file lacks.
static char *import_tensors(const char *gguf)
{
    char *dir = in_tmp("imported"), *config = NULL;
    struct fg_import *imp = NULL;
    struct fg_error err = {0};
    struct fg_st_spec specs[32] = {0};
    struct fg_buf text = {0};
    struct fg_st_writer *w = NULL;
    float data[F * H];
    assert_int_equal(fg_import_open(&imp, gguf, &err), 0);
    uint64_t n = fg_import_count(imp);
    assert_true(n < FG_COUNT(specs));
    for (uint64_t i = 0; i < n; i++) {
        const struct fg_import_tensor *t = fg_import_at(imp, i);
        specs[i] = (struct fg_st_spec){.name = t->name, .dtype = FG_ST_F32, .rank = t->rank};
        memcpy(specs[i].shape, t->shape, sizeof t->shape);
    }
    assert_int_equal(fg_dir_make(dir, &err), 0);
    assert_int_equal(fg_st_writer_open(&w, dir, specs, n, 0, &err), 0);
    for (uint64_t i = 0; i < n; i++) {
        const struct fg_import_tensor *t = fg_import_at(imp, i);
        assert_int_equal(fg_import_read(imp, t, 0, t->rows, FG_F32, data, &err), 0);
        assert_int_equal(fg_st_writer_add(w, data, t->rows * t->cols * sizeof *data, &err), 0);
    }
    assert_int_equal(fg_st_writer_commit(w, &err), 0);
    assert_int_equal(fg_import_config(imp, NULL, &text, &err), 0);
    config = fg_path_join(dir, "config.json");
    assert_int_equal(fg_file_replace(config, text.data, text.len, &err), 0);
    fg_buf_free(&text);
    fg_import_close(imp);
    free(config);
    return dir;
}

static void a_gguf_gives_the_export_of_its_checkpoint(void **state)
{
    (void)state;
    char *gguf = write_gguf(), *dir = import_tensors(gguf);
    char *a = in_tmp("of-gguf"), *b = in_tmp("of-checkpoint");
    struct fg_plan *plan = plan_of("{\"0.mixer\": \"v2x16\", \"0.lr_rank\": 3}");
    struct fg_quantize_options o = options_of(gguf, a, plan);
    succeeds(&o);
    o = options_of(dir, b, plan);
    succeeds(&o);
    char *da = member(a, "digest"), *db = member(b, "digest");
    assert_string_equal(da, db);
    free(da);
    free(db);
    da = member(a, "matrices");
    db = member(b, "matrices");
    assert_string_equal(da, db);
    free(da);
    free(db);
    // A tied head is a matrix of its own; the file says nothing of a tokenizer, so there is none.
    char *tokenizer = fg_path_join(a, "tokenizer.json"), *config = fg_path_join(a, "config.json");
    assert_false(fg_path_taken(tokenizer));
    assert_true(fg_file_exists(config));
    free(tokenizer);
    free(config);
    struct fg_error err = {0};
    fg_plan_free(plan);
    plan = plan_of("{\"head\": \"v2x64\"}"); // 21 rows
    o.plan = plan;
    assert_int_equal(run_job(&o, &err), FG_EINPUT);
    assert_string_equal(err.field, "head");
    fg_plan_free(plan);
    free(gguf);
    free(dir);
    free(a);
    free(b);
}

// ---- stopping

struct stopper {
    int ticks, stop_at;
};

static bool stop_at(void *ctx, uint64_t done, uint64_t total, const char *item)
{
    struct stopper *s = ctx;
    (void)item;
    assert_true(done <= total);
    return s->ticks++ != s->stop_at;
}

// Digest over names and bytes of what a job wrote, without times.
static void digest_dir(const char *dir, char hex[FG_SHA256_HEX])
{
    static const char *const names[] = {"config.json",       "embed_tokens.safetensors",
                                        "export.json",       "lm_head.safetensors",
                                        "small.safetensors", "state/progress.json"};
    struct fg_sha256 *h = fg_sha256_new();
    struct fg_buf b = {0};
    char name[64];
    for (int i = 0; i < 4 + (int)FG_COUNT(names); i++) {
        if (i < 4)
            snprintf(name, sizeof name, "layer_%02d%s.safetensors", i / 2, i % 2 ? "_mixer" : "");
        else
            snprintf(name, sizeof name, "%s", names[i - 4]);
        char *path = fg_path_join(dir, name);
        if (fg_file_load(&b, path, 1 << 24, NULL)) fail_msg("%s is missing", path);
        fg_sha256_add(h, name, strlen(name));
        fg_sha256_add(h, b.data, b.len);
        free(path);
    }
    fg_buf_free(&b);
    fg_sha256_end(h, hex);
}

static void stopped_at_any_tick_it_goes_on(void **state)
{
    (void)state;
    char *whole = in_tmp("whole"), model[512], want[FG_SHA256_HEX], got[FG_SHA256_HEX];
    struct fg_plan *plan =
        plan_of("{\"0.lr_rank\": 2, \"1.mlp\": \"v2x16\", \"0.down\": \"bf16\"}");
    struct stopper s = {.stop_at = -1};
    snprintf(model, sizeof model, "%s/models/chat-tiny", FORGE_GOLDEN_DIR);
    struct fg_quantize_options o = options_of(model, whole, plan);
    o.progress = stop_at;
    o.ctx = &s;
    succeeds(&o);
    digest_dir(whole, want);
    int ticks = s.ticks;
    assert_true(ticks > 30);
    for (int at = 0; at + 1 < ticks; at += 9) {
        char name[32];
        snprintf(name, sizeof name, "stopped-%d", at);
        char *out = in_tmp(name);
        struct fg_error err = {0};
        o.output = out;
        o.pool = pools[at % 2];
        s = (struct stopper){.stop_at = at};
        int rc = run_job(&o, &err);
        if (rc != FG_EINTERRUPTED) fail_msg("stopped at tick %d of %d: %d", at, ticks, rc);
        s = (struct stopper){.stop_at = -1};
        o.pool = pools[(at + 1) % 2];
        succeeds(&o);
        assert_true(s.ticks <= ticks);
        digest_dir(out, got);
        if (strcmp(got, want) != 0) fail_msg("stopped at tick %d of %d: other bytes", at, ticks);
        free(out);
    }
    fg_plan_free(plan);
    free(whole);
}

// Weights that no format holds are refused by name, and nothing is written under a final name.
static void refused_for(const char *name, const char *part)
{
    char *gguf = write_gguf(), *dir = import_tensors(gguf), *out = in_tmp(name);
    char *file = fg_path_join(dir, "model.safetensors"), *made = fg_path_join(out, "export.json");
    struct fg_plan *plan = plan_of("all-lut4");
    struct fg_quantize_options o = options_of(dir, out, plan);
    struct fg_checkpoint *c = NULL;
    struct fg_buf b = {0};
    struct fg_error err = {0};
    assert_int_equal(fg_checkpoint_open(&c, file, NULL), 0);
    const struct fg_st_tensor *t = fg_checkpoint_find(c, name);
    assert_non_null(t);
    assert_int_equal(fg_file_load(&b, file, 1 << 24, NULL), 0);
    const struct fg_st_tensor *first = fg_checkpoint_at(c, 0);
    uint64_t total = 0;
    for (uint64_t i = 0; i < fg_checkpoint_count(c); i++)
        total += fg_checkpoint_at(c, i)->bytes;
    memcpy(b.data + (b.len - total) + (t->data - first->data) + 40, "\0\0\x80\x7f",
           4); // infinity
    fg_checkpoint_close(c);
    assert_int_equal(fg_file_replace(file, b.data, b.len, NULL), 0);
    fg_buf_free(&b);
    assert_int_equal(run_job(&o, &err), FG_EINPUT);
    assert_non_null(strstr(err.field, part));
    assert_false(fg_path_taken(made));
    fg_plan_free(plan);
    free(gguf);
    free(dir);
    free(out);
    free(file);
    free(made);
}

static void what_is_not_finite_is_refused(void **state)
{
    (void)state;
    refused_for("model.layers.0.mlp.up_proj.weight", "layers.0.mlp.up_proj");
    refused_for("model.layers.0.input_layernorm.weight", "layers.0.input_layernorm.weight[10]");
}

static int set_up(void **state)
{
    (void)state;
    scratch_open(&tmp);
    return fg_pool_new(&pools[0], 1, NULL) || fg_pool_new(&pools[1], 2, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    fg_pool_free(pools[0]);
    fg_pool_free(pools[1]);
    scratch_close(&tmp);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exports_stand_for_what_numpy_says),
        cmocka_unit_test(int8_factors_keep_the_gain),
        cmocka_unit_test(every_tiny_checkpoint_goes_through),
        cmocka_unit_test(a_gguf_gives_the_export_of_its_checkpoint),
        cmocka_unit_test(stopped_at_any_tick_it_goes_on),
        cmocka_unit_test(what_is_not_finite_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
