// Embeddings that are not F16, from end to end: rows looked up are the canonical ones; an export
// computes what a checkpoint of the same values does, in any cut into calls and on any number of
// threads; calibration starts from what is stored; a head that serves twice is quantized first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/num.h"
#include "base/size.h"
#include "base/thread.h"
#include "bundle/convert.h"
#include "eval/model_size.h"
#include "format/build.h"
#include "format/rows.h"
#include "format/st_file.h"
#include "kernels/kernels.h"
#include "model/embed.h"
#include "model/graph.h"
#include "model/model.h"
#include "model/plan_shape.h"
#include "quant/dequant.h"
#include "quant/export.h"
#include "quant/random.h"
#include "runtime/compile.h"
#include "support/quantize.h"
#include "support/scratch.h"
#include "support/state.h"
#include "train/quantize.h"
#include "train/walk.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROWS 6
#define SEQ 24
#define TOLERANCE 1e-5 // relative L2: the same values, products in another order

static struct scratch tmp;
static struct fg_pool *pools[2]; // of one and two threads
static const struct fg_kernels *kernels;

static void check(int rc, const struct fg_error *err)
{
    char line[1024];
    if (rc) fail_msg("%s", fg_error_line(err, line, sizeof line));
}

static char *in_tmp(const char *name)
{
    return strdup(scratch_path(&tmp, name));
}

static char *golden(const char *name)
{
    char dir[512];
    snprintf(dir, sizeof dir, "%s/models/%s", FORGE_GOLDEN_DIR, name);
    return strdup(dir);
}

static struct fg_model *open_model(const char *dir)
{
    struct fg_model *m = NULL;
    struct fg_error err = {0};
    check(fg_model_open(&m, dir, false, NULL, &err), &err);
    return m;
}

static struct fg_plan *plan_of(const char *text)
{
    struct fg_plan *p = NULL;
    struct fg_error err = {0};
    check(fg_plan_parse(&p, text, strlen(text), "plan", &err), &err);
    return p;
}

// Nothing rotated, no factors: what is stored is what the model multiplies by.
static struct fg_plan *plain_plan(const char *head, const char *embed)
{
    char text[256];
    snprintf(
        text, sizeof text,
        "{\"schema\": \"forge.plan/1\", \"defaults\": {\"mlp\": \"int8\", \"mixer\": \"lut4\", "
        "\"head\": \"%s\", \"embed\": \"%s\", \"basis\": \"plain\", \"lr_rank\": 0}}",
        head, embed);
    return plan_of(text);
}

static struct fg_quantize_options options_of(const char *model, const char *out,
                                             const struct fg_plan *plan)
{
    return quantize_options(model, out, plan, SEQ, kernels, pools[0]);
}

static int run_job(const struct fg_quantize_options *o, struct fg_error *err)
{
    struct fg_quantize *q = NULL;
    int rc = fg_quantize_open(&q, o, err);
    if (!rc) rc = fg_quantize_run(q, err);
    fg_quantize_free(q);
    return rc;
}

static void quantize(const char *model, const char *out, const char *head, const char *embed)
{
    struct fg_plan *plan = plain_plan(head, embed);
    struct fg_quantize_options o = options_of(model, out, plan);
    struct fg_error err = {0};
    check(run_job(&o, &err), &err);
    fg_plan_free(plan);
}

static struct fg_export *open_export(const char *dir)
{
    struct fg_export *e = NULL;
    struct fg_error err = {0};
    check(fg_export_open(&e, dir, NULL, &err), &err);
    return e;
}

// The embedding of an export as a matrix in canonical storage.
static struct fg_qmat canonical(const struct fg_export *e)
{
    const struct fg_export_embedding *em = fg_export_embedding(e);
    if (em->kind == FG_EMBEDDING_HEAD) return fg_qset_find_mat(fg_export_set(e), "lm_head")->m;
    assert_int_equal(em->kind, FG_EMBEDDING_INT8);
    return (struct fg_qmat){.format = FG_Q_INT8,
                            .rows = em->vocab,
                            .cols = em->hidden,
                            .codes = em->data,
                            .scale = em->scale};
}

// ---- rows

static void same_rows(const char *dir)
{
    struct fg_model *m = open_model(dir);
    struct fg_export *e = open_export(dir);
    const struct fg_qmat q = canonical(e);
    const int64_t V = q.rows, H = q.cols;
    float *want = state_floats(V * H), *got = state_floats(V * H);
    int32_t *ids = calloc((size_t)V, sizeof *ids);
    assert_non_null(ids);
    assert_int_equal(m->weights.embed.n_out, V);
    for (int64_t t = 0; t < V; t++) {
        ids[t] = (int32_t)((t * 37 + 5) % V); // V is no multiple of 37
        fg_qmat_dequantize(want + t * H, &q, ids[t], ids[t] + 1);
    }
    for (int p = 0; p < 2; p++) {
        const struct fg_parallel par = {.kernels = kernels, .pool = pools[p]};
        memset(got, 0xFF, (size_t)(V * H) * sizeof *got);
        fg_embed_rows(got, &m->weights.embed, ids, V, &par);
        assert_memory_equal(got, want, (size_t)(V * H) * sizeof *got);
        for (int64_t t = 0; t < V; t++) {
            fg_embed_rows(got, &m->weights.embed, ids + t, 1, &par);
            assert_memory_equal(got, want + t * H, (size_t)H * sizeof *got);
        }
    }
    free(ids);
    free(want);
    free(got);
    fg_export_close(e);
    fg_model_close(m);
}

// ---- logits

struct run {
    struct fg_pool *pool;
    bool fast;
    int64_t T; // rows of a call
};

static float *logits_of_model(const struct fg_model *m, const struct run *r)
{
    struct fg_workspace *ws = NULL;
    struct fg_state state;
    const int64_t V = m->config.vocab;
    const struct fg_workspace_options o = {
        .kernels = kernels, .pool = r->pool, .fast = r->fast, .T_max = SEQ};
    float *logits = state_floats(SEQ * V);
    int32_t ids[SEQ];
    for (int i = 0; i < SEQ; i++)
        ids[i] = (int32_t)((i * 29 + 3) % V);
    state_new(&state, &m->config, SEQ, FG_KV_F32, false, 8);
    assert_int_equal(fg_workspace_new(&ws, m, &o, NULL), 0);
    assert_int_equal(fg_workspace_fit(ws, m, SEQ, NULL), 0);
    for (int64_t at = 0; at < SEQ; at += r->T) {
        const struct fg_span span = {&state, r->T};
        const struct fg_call call = {.ids = ids + at,
                                     .spans = &span,
                                     .n_spans = 1,
                                     .T = r->T,
                                     .n_out = r->T,
                                     .logits = logits + at * V};
        assert_int_equal(fg_forward(m, ws, &call, NULL), 0);
    }
    fg_workspace_free(ws);
    state_free(&state, &m->config);
    return logits;
}

static float *logits_of(const char *dir, const struct run *r)
{
    struct fg_model *m = open_model(dir);
    float *logits = logits_of_model(m, r);
    fg_model_close(m);
    return logits;
}

static double distance(const float *a, const float *b, int64_t n)
{
    double diff = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        diff += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += (double)a[i] * a[i];
    }
    return sqrt(diff / norm);
}

// ---- a checkpoint of the values that an export stands for

static void add(struct fg_arena *arena, struct fg_st_blob *blobs, uint64_t *n, const char *name,
                int rank, const uint64_t *shape, enum fg_st_dtype dtype, const void *data)
{
    struct fg_st_blob *b = &blobs[(*n)++];
    *b = (struct fg_st_blob){.name = fg_arena_strdup(arena, name, strlen(name)),
                             .dtype = dtype,
                             .rank = rank,
                             .data = data};
    memcpy(b->shape, shape, (size_t)rank * sizeof *shape);
}

// Not tied: embedding and head may differ.
static void write_config(const char *from, const char *to)
{
    struct fg_buf text = {0};
    char *in = fg_path_join(from, "config.json"), *out = fg_path_join(to, "config.json");
    assert_int_equal(fg_file_load(&text, in, 1 << 20, NULL), 0);
    char *key = strstr(text.data, "\"tie_word_embeddings\": true");
    if (key) memcpy(key, "\"tie_word_embeddings\":false", strlen("\"tie_word_embeddings\":false"));
    assert_int_equal(fg_file_replace(out, text.data, text.len, NULL), 0);
    fg_buf_free(&text);
    free(in);
    free(out);
}

static float *dequantized(struct fg_arena *arena, const struct fg_qmat *m)
{
    float *W = fg_arena_alloc(arena, (uint64_t)m->rows * (uint64_t)m->cols, sizeof *W);
    assert_non_null(W);
    fg_qmat_dequantize(W, m, 0, m->rows);
    return W;
}

static void write_checkpoint(const char *export_dir, const char *dir)
{
    struct fg_export *e = open_export(export_dir);
    const struct fg_qset *s = fg_export_set(e);
    struct fg_st_blob *blobs = calloc(s->n_mats + s->n_small + 1, sizeof *blobs);
    struct fg_arena arena;
    struct fg_error err = {0};
    char name[128];
    uint64_t n = 0;
    fg_arena_init(&arena, 0);
    assert_non_null(blobs);
    assert_int_equal(fg_dir_make(dir, &err), 0);
    write_config(export_dir, dir);
    for (uint64_t i = 0; i < s->n_small; i++) {
        const struct fg_qset_small *t = &s->small[i];
        snprintf(name, sizeof name, "model.%s", t->name);
        add(&arena, blobs, &n, name, t->rank, t->shape, t->dtype, t->data);
    }
    for (uint64_t i = 0; i < s->n_mats; i++) {
        const struct fg_qmat *m = &s->mats[i].m;
        const bool head = strcmp(s->mats[i].name, "lm_head") == 0;
        const uint64_t shape[] = {(uint64_t)m->rows, (uint64_t)m->cols};
        snprintf(name, sizeof name, "%s%s.weight", head ? "" : "model.", s->mats[i].name);
        add(&arena, blobs, &n, name, 2, shape, FG_ST_F32, dequantized(&arena, m));
    }
    const struct fg_qmat q = canonical(e);
    const uint64_t shape[] = {(uint64_t)q.rows, (uint64_t)q.cols};
    add(&arena, blobs, &n, "model.embed_tokens.weight", 2, shape, FG_ST_F32,
        dequantized(&arena, &q));
    char *path = fg_path_join(dir, "model.safetensors");
    check(fg_st_file_write(path, blobs, n, &(struct fg_st_options){0}, NULL, &err), &err);
    free(blobs);
    free(path);
    fg_arena_free(&arena);
    fg_export_close(e);
}

static void same_logits(const char *dir, const char *checkpoint)
{
    const struct run one = {pools[0], false, 1};
    float *want = logits_of(checkpoint, &one), *got = logits_of(dir, &one), *fast = NULL;
    struct fg_model *m = open_model(dir);
    const int64_t n = SEQ * m->config.vocab;
    fg_model_close(m);
    const double off = distance(want, got, n);
    if (!(off < TOLERANCE)) fail_msg("%s: logits are off by %g", dir, off);
    for (int k = 0; k < 8; k++) {
        const struct run r = {pools[k % 2], k & 4, k & 2 ? SEQ : 4};
        float *again = logits_of(dir, &r);
        if (!r.fast) assert_memory_equal(again, got, (size_t)n * sizeof *got);
        if (r.fast && fast) assert_memory_equal(again, fast, (size_t)n * sizeof *got);
        if (r.fast && !fast)
            fast = again;
        else
            free(again);
    }
    free(want);
    free(got);
    free(fast);
}

static bool find_tiles(const void *ctx, const char *name, struct fg_lut *out)
{
    return fg_compiled_lut(ctx, name, out);
}

// The bundle of an export, packed in memory and compiled.
static void same_in_packages(const char *dir)
{
    struct fg_error err = {0};
    struct fg_convert_result r;
    struct fg_build *build = NULL;
    struct fg_compiled *compiled = NULL;
    struct fg_model *m = NULL;
    char *out = in_tmp("bundles"), *state = in_tmp("compiled");
    const struct fg_convert_options co = {.pool = pools[1]};
    check(fg_convert(&r, dir, out, &co, &err), &err);
    check(fg_build_open(&build, r.dir, true, &err), &err);
    const struct fg_compile_options o = {.build = build, .state_dir = state, .numerics = "fast"};
    check(fg_compile(&compiled, &o, &err), &err);
    const struct fg_tile_source tiles = {.find = find_tiles, .ctx = compiled};
    const struct fg_model_options mo = {.tiles = &tiles, .pool = pools[1]};
    check(fg_model_open_with(&m, r.dir, &mo, &err), &err);
    const int64_t n = SEQ * m->config.vocab;
    for (int k = 0; k < 2; k++) {
        const struct run run = {pools[k], k == 1, SEQ / 2};
        float *want = logits_of(dir, &run), *packed = logits_of(r.dir, &run);
        float *mapped = logits_of_model(m, &run);
        assert_memory_equal(packed, want, (size_t)n * sizeof *want);
        assert_memory_equal(mapped, want, (size_t)n * sizeof *want);
        free(want);
        free(packed);
        free(mapped);
    }
    fg_model_close(m);
    fg_compiled_close(compiled);
    fg_build_close(build);
    struct fg_model_size a, b;
    check(fg_model_size(&a, dir, NULL, &err), &err);
    check(fg_model_size(&b, r.dir, NULL, &err), &err);
    assert_int_equal(a.embed, b.embed);
    assert_int_equal(a.total, b.total);
    fg_convert_result_free(&r);
    free(out);
    free(state);
}

static void exports_compute_what_they_say(void **state)
{
    (void)state;
    static const struct {
        const char *model, *head, *embed;
        uint64_t embed_bytes;
    } cases[] = {
        {"c-s0", "lut4", "head", 0},
        {"c-s0", "v2x64", "head", 0},
        {"c-s0", "v2x16", "head", 0},
        {"c-s0", "int8", "head", 0},
        {"c-s0", "f16", "head", 0},
        {"c-s0", "bf16", "head", 0},
        {"k-s0", "lut4", "head", 0},
        {"c-s0", "lut4", "int8", 112 * 32 + 2 * 112},
        {"a-s0", "v2x64", "int8", 96 * 32 + 2 * 96},
    };
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        char name[64];
        struct fg_model_size size;
        struct fg_error err = {0};
        snprintf(name, sizeof name, "export-%zu", i);
        char *model = golden(cases[i].model), *dir = in_tmp(name);
        quantize(model, dir, cases[i].head, cases[i].embed);
        snprintf(name, sizeof name, "checkpoint-%zu", i);
        char *checkpoint = in_tmp(name);
        write_checkpoint(dir, checkpoint);
        same_rows(dir);
        same_logits(dir, checkpoint);
        same_in_packages(dir);
        check(fg_model_size(&size, dir, NULL, &err), &err);
        assert_int_equal(size.embed, cases[i].embed_bytes);
        free(model);
        free(dir);
        free(checkpoint);
    }
}

// Rounding by rows: the scale is what the largest value of a row needs.
static void int8_rows_are_near_the_source(void **state)
{
    (void)state;
    char *model = golden("a-s0"), *dir = in_tmp("near");
    quantize(model, dir, "lut4", "int8");
    struct fg_export *e = open_export(dir);
    struct fg_model *m = open_model(model);
    const struct fg_qmat q = canonical(e);
    const struct fg_parallel par = {.kernels = kernels, .pool = pools[0]};
    float *row = state_floats(q.cols), *back = state_floats(q.cols);
    for (int32_t t = 0; t < q.rows; t++) {
        float most = 0;
        int code = 0;
        fg_embed_rows(row, &m->weights.embed, &t, 1, &par);
        fg_qmat_dequantize(back, &q, t, t + 1);
        for (int64_t k = 0; k < q.cols; k++)
            most = fmaxf(most, fabsf(row[k]));
        for (int64_t k = 0; k < q.cols; k++) {
            const int c = abs(q.codes[t * q.cols + k]);
            code = c > code ? c : code;
            assert_true(fabsf(row[k] - back[k]) <= most / 127.0f * 0.51f);
        }
        assert_int_equal(code, 127);
    }
    free(row);
    free(back);
    fg_model_close(m);
    fg_export_close(e);
    free(model);
    free(dir);
}

// ---- refusals

static void refused(const char *dir, const char *file, const char *field)
{
    struct fg_model *m = NULL;
    struct fg_error err = {0};
    char line[1024];
    int rc = fg_model_open(&m, dir, false, NULL, &err);
    fg_error_line(&err, line, sizeof line);
    if (rc != FG_EINPUT || m || !strstr(line, file) || !strstr(line, field))
        fail_msg("rc %d: %s; wanted %s, %s", rc, line, file, field);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    char *untied = golden("a-s0"), *tied = golden("c-s0"), *dir = in_tmp("refused");
    struct fg_plan *plan = plain_plan("lut4", "head");
    struct fg_quantize_options o = options_of(untied, dir, plan);
    struct fg_error err = {0};
    assert_int_equal(run_job(&o, &err), FG_EINPUT);
    assert_string_equal(err.field, "defaults.embed");
    assert_false(fg_path_taken(dir));
    fg_plan_free(plan);

    // An export whose config stopped tying them, and one whose head lost the word.
    quantize(tied, dir, "lut4", "head");
    write_config(tied, dir);
    refused(dir, dir, "tie");
    free(dir);
    dir = in_tmp("refused2");
    quantize(tied, dir, "lut4", "f16");
    char *path = fg_path_join(dir, "embed_tokens.safetensors");
    assert_int_equal(unlink(path), 0);
    refused(dir, "embed_tokens", "no such tensor");

    // An embedding in INT8 of another model.
    char *other = in_tmp("refused3"), *theirs = fg_path_join(other, "embed_tokens.safetensors");
    quantize(untied, other, "lut4", "int8");
    assert_int_equal(rename(theirs, path), 0);
    refused(dir, "embed_tokens.safetensors", "[112, 32]");
    free(theirs);
    free(other);
    free(path);
    free(dir);
    free(tied);
    free(untied);
}

// ---- calibration

static char *write_rows(int64_t vocab)
{
    int32_t ids[ROWS * SEQ];
    struct fg_rows rows = {.n = ROWS, .seq = SEQ, .ids = ids};
    struct fg_random r = fg_random_seeded(3);
    struct fg_error err = {0};
    char *path = in_tmp("rows");
    for (int i = 0; i < ROWS * SEQ; i++)
        ids[i] = (int32_t)fg_random_below(&r, (uint64_t)vocab);
    check(fg_rows_write(path, &rows, NULL, &err), &err);
    return path;
}

// The residual at the entry, as fg_walk_save writes it.
static void entry_of(const struct fg_walk_options *o, const char *name, struct fg_buf *out)
{
    struct fg_walk *w = NULL;
    struct fg_error err = {0};
    char *path = in_tmp(name);
    check(fg_walk_new(&w, o, &err), &err);
    check(fg_walk_save(w, path, "id", &err), &err);
    assert_int_equal(fg_file_load(out, path, 1 << 26, NULL), 0);
    fg_walk_free(w);
    free(path);
}

static void the_stream_starts_from_what_is_stored(void **state)
{
    (void)state;
    static const char *const embeds[] = {"head", "int8"};
    char *model = golden("c-s0");
    struct fg_model *m = open_model(model);
    char *path = write_rows(m->config.vocab);
    const struct fg_calib_source source = {.path = path};
    const struct fg_calib_options co = {.sources = &source,
                                        .n_sources = 1,
                                        .model = model,
                                        .vocab = m->config.vocab,
                                        .seq = SEQ,
                                        .holdout = 1};
    struct fg_calib cal;
    struct fg_error err = {0};
    check(fg_calib_open(&cal, &co, &err), &err);
    for (int i = 0; i < 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "stream-%s", embeds[i]);
        char *dir = in_tmp(name), *checkpoint = in_tmp("stream-checkpoint");
        struct fg_buf want = {0}, got = {0}, plain = {0};
        quantize(model, dir, "v2x64", embeds[i]);
        write_checkpoint(dir, checkpoint);
        struct fg_export *e = open_export(dir);
        struct fg_model *same = open_model(checkpoint);
        const struct fg_qmat q = canonical(e);
        struct fg_walk_options o = {
            .model = same, .calib = &cal, .kernels = kernels, .pool = pools[1], .batch = 2};
        entry_of(&o, "a", &want);
        o.model = m;
        entry_of(&o, "b", &plain);
        o.embed = &q;
        o.batch = 3;
        entry_of(&o, "c", &got);
        assert_int_equal(got.len, want.len);
        assert_memory_equal(got.data, want.data, want.len);
        assert_memory_not_equal(got.data, plain.data, want.len);
        fg_buf_free(&want);
        fg_buf_free(&got);
        fg_buf_free(&plain);
        fg_model_close(same);
        fg_export_close(e);
        free(dir);
        free(checkpoint);
    }
    fg_calib_free(&cal);
    fg_model_close(m);
    free(model);
    free(path);
}

static double *head_hessian(const struct fg_walk_options *o, const struct fg_plan_mat *head)
{
    struct fg_walk *w = NULL;
    struct fg_walk_site site;
    struct fg_error err = {0};
    const size_t n = (size_t)(head->cols * head->cols);
    double *H = calloc(n, sizeof *H);
    assert_non_null(H);
    check(fg_walk_new(&w, o, &err), &err);
    while (fg_walk_layer(w) < o->model->config.n_layers)
        check(fg_walk_next(w, NULL, &err), &err);
    check(fg_walk_site(w, head, &site, &err), &err);
    memcpy(H, site.H->H, n * sizeof *H);
    fg_walk_free(w);
    return H;
}

static void the_ridge_is_on_the_diagonal_of_the_head(void **state)
{
    (void)state;
    char *model = golden("c-s0");
    struct fg_model *m = open_model(model);
    char *path = write_rows(m->config.vocab);
    const struct fg_calib_source source = {.path = path};
    const struct fg_calib_options co = {
        .sources = &source, .n_sources = 1, .model = model, .vocab = m->config.vocab, .seq = SEQ};
    struct fg_calib cal;
    struct fg_plan_list list;
    struct fg_error err = {0};
    check(fg_calib_open(&cal, &co, &err), &err);
    struct fg_plan *plan = plain_plan("lut4", "head");
    const struct fg_plan_shape shape = fg_plan_shape_of(&m->config);
    check(fg_plan_resolve(&list, plan, &shape, &err), &err);
    const struct fg_plan_mat *head = &list.mats[list.n - 1];
    struct fg_walk_options o = {.model = m, .calib = &cal, .kernels = kernels, .pool = pools[0]};
    double *H = head_hessian(&o, head), trace = 0;
    o.head_ridge = 0.5;
    double *R = head_hessian(&o, head);
    const int64_t n = head->cols;
    for (int64_t i = 0; i < n; i++)
        trace += H[i * n + i];
    for (int64_t i = 0; i < n * n; i++) {
        const double want = H[i] + (i % (n + 1) == 0 ? 0.5 * trace / (double)n : 0);
        assert_true(fabs(R[i] - want) <= 1e-12 * trace);
    }
    free(H);
    free(R);
    fg_plan_list_free(&list);
    fg_plan_free(plan);
    fg_calib_free(&cal);
    fg_model_close(m);
    free(model);
    free(path);
}

// ---- a job that was stopped behind the head

struct stopper {
    char *head; // path
    int ticks;  // that it may still see
};

static bool stop_behind_head(void *ctx, uint64_t done, uint64_t total, const char *item)
{
    struct stopper *s = ctx;
    (void)done;
    (void)total;
    (void)item;
    return !s->head || !fg_file_exists(s->head) || s->ticks-- > 0;
}

static void load(const char *dir, const char *name, struct fg_buf *out)
{
    char *path = fg_path_join(dir, name);
    assert_int_equal(fg_file_load(out, path, 1 << 26, NULL), 0);
    free(path);
}

static void same_file(const char *a, const char *b, const char *name)
{
    struct fg_buf x = {0}, y = {0};
    load(a, name, &x);
    load(b, name, &y);
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    fg_buf_free(&x);
    fg_buf_free(&y);
}

static void the_head_is_kept_until_the_stream_has_started(void **state)
{
    (void)state;
    static const char *const heads[] = {"v2x64", "f16"};
    char *model = golden("c-s0");
    struct fg_model *m = open_model(model);
    char *rows = write_rows(m->config.vocab);
    const struct fg_calib_source source = {.path = rows};
    for (int k = 0; k < 6; k++) {
        char name[32];
        struct fg_error err = {0};
        struct stopper s = {0};
        snprintf(name, sizeof name, "kept-%d", k);
        char *dir = in_tmp(name), *whole = in_tmp(k % 2 ? "kept-whole-f16" : "kept-whole");
        struct fg_plan *plan = plain_plan(heads[k % 2], "head");
        struct fg_quantize_options o = options_of(model, whole, plan);
        o.method = FG_QUANTIZE_GPTQ;
        o.calib = &source;
        o.n_calib = 1;
        o.holdout = 1;
        o.progress = stop_behind_head;
        o.ctx = &s;
        check(run_job(&o, &err), &err);
        o.output = dir;
        s = (struct stopper){.head = fg_path_join(dir, "lm_head.safetensors"), .ticks = 2};
        assert_int_equal(run_job(&o, &err), FG_EINTERRUPTED);
        char *kept = fg_path_join(dir, "state/lm_head.safetensors");
        char *layer = fg_path_join(dir, "layer_00.safetensors");
        assert_true(fg_file_exists(kept));
        assert_false(fg_file_exists(layer)); // the head came first
        if (k / 2 == 1) assert_int_equal(unlink(kept), 0);
        if (k / 2 == 2) assert_int_equal(truncate(kept, 100), 0);
        free(s.head);
        s = (struct stopper){0};
        o.pool = pools[1];
        check(run_job(&o, &err), &err);
        assert_false(fg_file_exists(kept));
        same_file(dir, whole, "export.json");
        same_file(dir, whole, "lm_head.safetensors");
        same_file(dir, whole, "layer_00_mixer.safetensors");
        same_file(dir, whole, "layer_02.safetensors");
        free(kept);
        free(layer);
        free(dir);
        free(whole);
        fg_plan_free(plan);
    }
    fg_model_close(m);
    free(rows);
    free(model);
}

static int setup(void **state)
{
    (void)state;
    scratch_open(&tmp);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fg_pool_new(&pools[i], i + 1, NULL), 0);
    return fg_kernels_get(&kernels, NULL, NULL);
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        fg_pool_free(pools[i]);
    scratch_close(&tmp);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exports_compute_what_they_say),
        cmocka_unit_test(int8_rows_are_near_the_source),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(the_stream_starts_from_what_is_stored),
        cmocka_unit_test(the_ridge_is_on_the_diagonal_of_the_head),
        cmocka_unit_test(the_head_is_kept_until_the_stream_has_started),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
