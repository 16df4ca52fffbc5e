// Quantization by GPTQ over calibration rows: what the walk hands to a matrix is what the model
// computes; the errors in the log are those of the files; the same bytes for any number of threads,
// batches and interruptions, also when files of the state are gone or damaged.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "base/thread.h"
#include "format/rows.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "model/plan_shape.h"
#include "quant/random.h"
#include "quant/signs.h"
#include "support/quantize.h"
#include "support/scratch.h"
#include "support/state.h"
#include "train/quantize.h"
#include "train/walk.h"
#include <dirent.h>
#include <math.h>
#include <unistd.h>

#define ROWS 10
#define SEQ 24
#define HELD 2

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

static char *model_dir(const char *name)
{
    char dir[512];
    snprintf(dir, sizeof dir, "%s/models/%s", FORGE_GOLDEN_DIR, name);
    return strdup(dir);
}

// Rows of random tokens, as a file.
static char *write_rows(const char *name, int64_t n, int64_t vocab, uint64_t seed)
{
    int32_t *ids = calloc((size_t)(n * SEQ), sizeof *ids);
    struct fg_rows rows = {.n = n, .seq = SEQ, .ids = ids};
    struct fg_random r = fg_random_seeded(seed);
    struct fg_error err = {0};
    char *path = in_tmp(name);
    assert_non_null(ids);
    for (int64_t i = 0; i < n * SEQ; i++)
        ids[i] = (int32_t)fg_random_below(&r, (uint64_t)vocab);
    check(fg_rows_write(path, &rows, NULL, &err), &err);
    free(ids);
    return path;
}

static struct fg_plan *plan_of(const char *text)
{
    struct fg_plan *p = NULL;
    struct fg_error err = {0};
    check(text[0] == '{' ? fg_plan_parse(&p, text, strlen(text), "plan", &err)
                         : fg_plan_open(&p, text, &err),
          &err);
    return p;
}

static struct fg_quantize_options options_of(const char *model, const char *out,
                                             const struct fg_plan *plan,
                                             const struct fg_calib_source *source)
{
    struct fg_quantize_options o = quantize_options(model, out, plan, SEQ, kernels, pools[0]);
    o.method = FG_QUANTIZE_GPTQ;
    o.calib = source;
    o.n_calib = 1;
    o.holdout = HELD;
    return o;
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
    check(run_job(o, &err), &err);
}

// ---- the walk against whole passes

struct kept {
    const char *name;
    int layer;
    float *data; // [SEQ][width]
};

static void keep(void *ctx, const char *name, int layer, int64_t pos, int64_t T, int64_t width,
                 const float *data, int64_t ld)
{
    struct kept *k = ctx;
    (void)pos;
    if (strcmp(name, k->name) != 0 || layer != k->layer) return;
    for (int64_t t = 0; t < T; t++)
        memcpy(k->data + t * width, data + t * ld, (size_t)width * sizeof *data);
}

static void whole(const struct fg_model *m, const int32_t *ids, const char *name, int layer,
                  float *out)
{
    struct fg_workspace *ws = NULL;
    const struct fg_workspace_options o = {.kernels = kernels, .pool = pools[1], .T_max = SEQ};
    struct fg_state state;
    struct kept k = {name, layer, out};
    float *logits = state_floats(SEQ * m->config.vocab);
    state_new(&state, &m->config, SEQ, FG_KV_F32, false, 8);
    assert_int_equal(fg_workspace_new(&ws, m, &o, NULL), 0);
    assert_int_equal(fg_workspace_fit(ws, m, SEQ, NULL), 0);
    fg_workspace_set_tap(ws, keep, &k);
    const struct fg_span span = {&state, SEQ};
    const struct fg_call call = {
        .ids = ids, .spans = &span, .n_spans = 1, .T = SEQ, .n_out = SEQ, .logits = logits};
    assert_int_equal(fg_forward(m, ws, &call, NULL), 0);
    fg_workspace_free(ws);
    state_free(&state, &m->config);
    free(logits);
}

static const char *tap_of(const struct fg_config *c, const struct fg_plan_mat *m)
{
    switch (m->part) {
    case FG_PLAN_OUT: return "gdn_norm";
    case FG_PLAN_O: return c->output_gate ? "attn_gated" : "attn_o";
    case FG_PLAN_GATE:
    case FG_PLAN_UP: return "mlp_norm";
    case FG_PLAN_DOWN: return "mlp_act";
    case FG_PLAN_HEAD: return "final_norm";
    default: return "attn_norm";
    }
}

// H and held-out rows of a matrix from whole passes over `m`, in FP64.
static void compare_site(const struct fg_model *m, const struct fg_calib *cal,
                         const struct fg_plan_mat *mat, const struct fg_walk_site *site)
{
    const int64_t n = mat->cols;
    double *H = calloc((size_t)(n * n), sizeof *H), worst = 0, largest = 0;
    float *x = state_floats(SEQ * n);
    uint8_t *signs = calloc((size_t)n / 8 + 1, 1);
    int64_t held = 0;
    if (mat->site) fg_signs_splitmix64(signs, mat->seed, n);
    for (int64_t i = 0; i < cal->n; i++) {
        whole(m, cal->ids + i * SEQ, tap_of(&m->config, mat), (int)mat->layer, x);
        if (mat->site) fg_rotate_rows(x, SEQ, n, signs, mat->block, kernels, NULL);
        if (cal->held[i]) {
            assert_memory_equal(x, site->held + held++ * SEQ * n, (size_t)(SEQ * n) * sizeof *x);
            continue;
        }
        for (int64_t t = 0; t < SEQ; t++)
            for (int64_t a = 0; a < n; a++)
                for (int64_t b = 0; b < n; b++)
                    H[a * n + b] += (double)x[t * n + a] * x[t * n + b] / (double)cal->tokens;
    }
    assert_int_equal(held * SEQ, site->n_held);
    for (int64_t i = 0; i < n * n; i++) {
        if (fabs(H[i]) > largest) largest = fabs(H[i]);
        if (fabs(H[i] - site->H->H[i]) > worst) worst = fabs(H[i] - site->H->H[i]);
    }
    if (!(worst < 1e-5 * largest)) fail_msg("%s: H is off by %g of %g", mat->name, worst, largest);
    free(H);
    free(x);
    free(signs);
}

// Matrices in the order of the walk.
static const struct fg_plan_mat *in_order(const struct fg_plan_list *l, uint64_t i)
{
    const struct fg_plan_mat *m = &l->mats[i];
    uint64_t first = i, n = 0, mlp = 0;
    if (m->layer < 0) return m;
    while (first > 0 && l->mats[first - 1].layer == m->layer)
        first--;
    while (first + n < l->n && l->mats[first + n].layer == m->layer) {
        mlp += fg_plan_part_is_mlp(l->mats[first + n].part);
        n++;
    }
    const uint64_t at = i - first;
    return &l->mats[first + (at < n - mlp ? at + mlp : at - (n - mlp))];
}

static struct fg_mat *bound(struct fg_layer *l, enum fg_plan_part part)
{
    struct fg_mat *const all[] = {&l->gate, &l->up, &l->down, &l->qkv, &l->z,
                                  &l->out,  &l->q,  &l->k,    &l->v,   &l->o};
    return all[part];
}

// A matrix that differs from the model's, so that what comes behind it differs.
static float *changed(const struct fg_mat *w)
{
    const int64_t n = w->n_out * w->n_in;
    float *W = fg_alloc_aligned((uint64_t)n * sizeof *W);
    assert_non_null(W);
    kernels->widen(W, w->data, w->dtype, n);
    for (int64_t i = 0; i < n; i++)
        W[i] *= 1.0f + 0.05f * (float)(i % 7 - 3);
    return W;
}

static void walks(const char *name, bool bf16_state)
{
    char *dir = model_dir(name), *path;
    struct fg_model *m = NULL, *view = NULL;
    struct fg_error err = {0};
    struct fg_calib cal;
    struct fg_walk *w = NULL;
    struct fg_plan *plan = plan_of("{\"0.basis\": \"plain\"}");
    struct fg_plan_list list;
    check(fg_model_open(&m, dir, true, NULL, &err), &err);
    check(fg_model_open(&view, dir, true, NULL, &err), &err);
    path = write_rows(name, ROWS, m->config.vocab, 5);
    const struct fg_calib_source source = {.path = path};
    const struct fg_calib_options co = {.sources = &source,
                                        .n_sources = 1,
                                        .model = dir,
                                        .vocab = m->config.vocab,
                                        .seq = SEQ,
                                        .holdout = HELD};
    check(fg_calib_open(&cal, &co, &err), &err);
    const struct fg_plan_shape shape = fg_plan_shape_of(&m->config);
    check(fg_plan_resolve(&list, plan, &shape, &err), &err);
    const struct fg_walk_options wo = {.model = m,
                                       .calib = &cal,
                                       .kernels = kernels,
                                       .pool = pools[1],
                                       .bf16_state = bf16_state,
                                       .batch = 3};
    check(fg_walk_new(&w, &wo, &err), &err);
    for (uint64_t i = 0; i < list.n; i++) {
        const struct fg_plan_mat *mat = in_order(&list, i);
        const int64_t layer = mat->layer < 0 ? m->config.n_layers : mat->layer;
        struct fg_walk_site site;
        double snr = 0;
        while (fg_walk_layer(w) < layer)
            check(fg_walk_next(w, &snr, &err), &err);
        check(fg_walk_site(w, mat, &site, &err), &err);
        if (!bf16_state) compare_site(view, &cal, mat, &site);
        if (mat->layer < 0) break;
        // From here on both pass through another matrix.
        struct fg_mat *b = bound(&view->weights.layers[mat->layer], mat->part);
        float *W = changed(b), *copy = changed(b);
        *b = (struct fg_mat){.data = copy, .dtype = FG_F32, .n_out = mat->rows, .n_in = mat->cols};
        check(fg_walk_replace(w, mat, W, &err), &err);
    }
    for (int64_t l = 0; l < m->config.n_layers; l++)
        for (int p = 0; p <= FG_PLAN_O; p++) {
            struct fg_mat *b = bound(&view->weights.layers[l], (enum fg_plan_part)p);
            if (b->dtype == FG_F32 &&
                b->data != bound(&m->weights.layers[l], (enum fg_plan_part)p)->data)
                free((void *)(uintptr_t)b->data);
        }
    fg_walk_free(w);
    fg_calib_free(&cal);
    fg_plan_list_free(&list);
    fg_plan_free(plan);
    fg_model_close(m);
    fg_model_close(view);
    free(dir);
    free(path);
}

static void test_walk(void **state)
{
    (void)state;
    walks("chat-tiny", false);
    walks("a-s0", false);
    walks("a-s0", true);
}

// ---- jobs

// Digest over names and bytes of all files of a directory but timing.json.
static void add_dir(struct fg_sha256 *h, const char *dir)
{
    struct dirent **names;
    int n = scandir(dir, &names, NULL, alphasort);
    assert_true(n >= 0);
    for (int i = 0; i < n; i++) {
        char *path = fg_path_join(dir, names[i]->d_name);
        struct fg_buf b = {0};
        if (names[i]->d_name[0] != '.' && strcmp(names[i]->d_name, "timing.json") != 0) {
            fg_sha256_add(h, names[i]->d_name, strlen(names[i]->d_name));
            if (fg_dir_exists(path)) {
                add_dir(h, path);
            } else {
                assert_int_equal(fg_file_load(&b, path, 1 << 26, NULL), 0);
                fg_sha256_add(h, b.data, b.len);
            }
        }
        fg_buf_free(&b);
        free(path);
        free(names[i]);
    }
    free(names);
}

static void digest_dir(const char *dir, char hex[FG_SHA256_HEX])
{
    struct fg_sha256 *h = fg_sha256_new();
    assert_non_null(h);
    add_dir(h, dir);
    fg_sha256_end(h, hex);
}

static const char mixed[] = "{\"0.lr_rank\": 2, \"1.mlp\": \"v2x16\", \"0.down\": \"bf16\","
                            " \"1.lr_rank\": 3, \"1.lr_dtype\": \"i8\"}";

static void better_than_rounding(void **state)
{
    (void)state;
    static const char *const names[] = {"a-s0", "chat-tiny"};
    static const char *const plans[] = {"all-v2x16", "all-v2x64", "all-lut4", "all-lut6", mixed};
    for (size_t k = 0; k < FG_COUNT(names) * FG_COUNT(plans); k++) {
        char *dir = model_dir(names[k / FG_COUNT(plans)]), name[32];
        struct fg_model *m = NULL;
        struct fg_error err = {0};
        check(fg_model_open(&m, dir, true, NULL, &err), &err);
        char *rows = write_rows("rows", ROWS, m->config.vocab, 7);
        fg_model_close(m);
        snprintf(name, sizeof name, "better-%zu", k);
        char *out = in_tmp(name);
        const struct fg_calib_source source = {.path = rows};
        struct fg_plan *plan = plan_of(plans[k % FG_COUNT(plans)]);
        struct fg_quantize_options o = options_of(dir, out, plan, &source);
        struct fg_quantize *q = NULL;
        check(fg_quantize_open(&q, &o, &err), &err);
        check(fg_quantize_run(q, &err), &err);
        const struct fg_plan_list *l = fg_quantize_info(q)->list;
        double gain = 0;
        int n = 0;
        for (uint64_t i = 0; i < l->n; i++) {
            struct fg_quantize_mat r;
            assert_true(fg_quantize_result(q, i, &r));
            if (fg_qformat_is_kept(l->mats[i].format)) {
                assert_true(isnan(r.rel_err_h));
                continue;
            }
            // Matrices of 16 columns have little to feed errors back to.
            if (!(r.rel_err_h < r.rel_err_h_rtn * 1.15 && r.rel_err_h > 0))
                fail_msg("%s: %g, to nearest %g", l->mats[i].name, r.rel_err_h, r.rel_err_h_rtn);
            gain += log(r.rel_err_h_rtn / r.rel_err_h);
            n++;
            assert_true(r.held_snr_db > 1 && r.held_snr_db < 80);
            assert_true(r.damp >= 0.01);
        }
        if (!(gain / n > 0.1))
            fail_msg("%s, %s: mean gain %g", names[k / FG_COUNT(plans)], plans[k % FG_COUNT(plans)],
                     gain / n);
        fg_quantize_free(q);
        fg_plan_free(plan);
        free(dir);
        free(rows);
        free(out);
    }
}

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

static void stop_and_go_on(const char *model, const char *text)
{
    char *dir = model_dir(model), *whole_out = in_tmp("whole"), *rows;
    char want[FG_SHA256_HEX], got[FG_SHA256_HEX];
    struct fg_model *m = NULL;
    assert_int_equal(fg_model_open(&m, dir, true, NULL, NULL), 0);
    rows = write_rows("stop-rows", ROWS, m->config.vocab, 9);
    fg_model_close(m);
    const struct fg_calib_source source = {.path = rows};
    struct fg_plan *plan = plan_of(text);
    struct stopper s = {.stop_at = -1};
    struct fg_quantize_options o = options_of(dir, whole_out, plan, &source);
    o.progress = stop_at;
    o.ctx = &s;
    o.restart = true; // of an earlier call of this function
    succeeds(&o);
    o.restart = false;
    digest_dir(whole_out, want);
    const int ticks = s.ticks;
    assert_true(ticks > 50);
    for (int at = 1; at + 1 < ticks; at += ticks / 24 + 1) {
        char name[64];
        snprintf(name, sizeof name, "stopped-%.8s-%zu-%d", model, strlen(text), at);
        char *out = in_tmp(name);
        struct fg_error err = {0};
        o.output = out;
        o.pool = pools[at % 2];
        o.batch = at % 3;
        s = (struct stopper){.stop_at = at};
        int rc = run_job(&o, &err);
        // More threads tell of the digest at the end less often: there may be no such tick.
        if (rc != FG_EINTERRUPTED && (rc || s.ticks > at))
            fail_msg("stopped at tick %d of %d: %d", at, ticks, rc);
        s = (struct stopper){.stop_at = -1};
        o.pool = pools[(at + 1) % 2];
        o.batch = (at + 1) % 3;
        succeeds(&o);
        digest_dir(out, got);
        if (strcmp(got, want) != 0) fail_msg("stopped at tick %d of %d: other bytes", at, ticks);
        free(out);
    }
    fg_plan_free(plan);
    free(dir);
    free(whole_out);
    free(rows);
}

#define EMBED(what)                                                                                \
    "{\"schema\": \"forge.plan/1\", \"defaults\": {\"mixer\": \"v2x16\", \"embed\": \"" what "\"}" \
    "}"

static void stopped_at_any_tick_it_goes_on(void **state)
{
    (void)state;
    stop_and_go_on("a-s0", mixed);
    stop_and_go_on("c-s0", EMBED("head"));
    stop_and_go_on("a-s0", EMBED("int8"));
}

static void spoil(const char *dir, const char *start, bool gone)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (strncmp(e->d_name, start, strlen(start)) != 0) continue;
        char *path = fg_path_join(dir, e->d_name);
        struct fg_buf b = {0};
        assert_int_equal(fg_file_load(&b, path, 1 << 26, NULL), 0);
        b.data[b.len - 3] ^= 0x10;
        assert_int_equal(gone ? unlink(path) : fg_file_replace(path, b.data, b.len, NULL), 0);
        fg_buf_free(&b);
        free(path);
    }
    closedir(d);
}

// Stops in layer 1, where the state has a residual and matrices.
static void state_files_are_checked(void **state)
{
    (void)state;
    char *dir = model_dir("chat-tiny"), *rows, want[FG_SHA256_HEX], got[FG_SHA256_HEX];
    struct fg_model *m = NULL;
    assert_int_equal(fg_model_open(&m, dir, true, NULL, NULL), 0);
    rows = write_rows("spoil-rows", ROWS, m->config.vocab, 11);
    fg_model_close(m);
    const struct fg_calib_source source = {.path = rows};
    struct fg_plan *plan = plan_of("all-v2x64");
    struct stopper s = {.stop_at = -1};
    char *out = in_tmp("spoil-whole");
    struct fg_quantize_options o = options_of(dir, out, plan, &source);
    o.progress = stop_at;
    o.ctx = &s;
    succeeds(&o);
    digest_dir(out, want);
    const int ticks = s.ticks;
    free(out);
    for (int k = 0; k < 4; k++) {
        char name[32];
        struct fg_error err = {0};
        snprintf(name, sizeof name, "spoil-%d", k);
        o.output = out = in_tmp(name);
        o.restart = false;
        s = (struct stopper){.stop_at = ticks * 8 / 10};
        assert_int_equal(run_job(&o, &err), FG_EINTERRUPTED);
        char *dir_state = fg_path_join(out, "state");
        spoil(dir_state, k < 2 ? "layers." : "h-", k % 2);
        s = (struct stopper){.stop_at = -1};
        int rc = run_job(&o, &err);
        if (k >= 2) {
            assert_int_equal(rc, k == 2 ? FG_EINTEGRITY : FG_EINPUT);
            o.restart = true;
            rc = run_job(&o, &err);
        }
        check(rc, &err);
        digest_dir(out, got);
        if (strcmp(got, want) != 0) fail_msg("other bytes after damage of kind %d", k);
        free(dir_state);
        free(out);
    }
    fg_plan_free(plan);
    free(dir);
    free(rows);
}

static void refusals(void **state)
{
    (void)state;
    char *dir = model_dir("chat-tiny"), *out = in_tmp("refused"), *rows, *text;
    struct fg_model *m = NULL;
    struct fg_error err = {0};
    assert_int_equal(fg_model_open(&m, dir, true, NULL, NULL), 0);
    rows = write_rows("few-rows", HELD, m->config.vocab, 13);
    text = strdup(scratch_write(&tmp, "short.txt", "a few words", 11));
    fg_model_close(m);
    struct fg_calib_source source = {.path = rows};
    struct fg_plan *plan = plan_of("all-lut4");
    struct fg_quantize_options o = options_of(dir, out, plan, &source);
    assert_int_equal(run_job(&o, &err), FG_EINPUT); // all rows would be held out
    assert_string_equal(err.field, "rows");
    source.n = HELD + 1;
    assert_int_equal(run_job(&o, &err), FG_EINPUT);
    assert_string_equal(err.field, "rows");
    source = (struct fg_calib_source){.path = text, .text = true};
    assert_int_equal(run_job(&o, &err), FG_EINPUT);
    assert_string_equal(err.field, "rows");
    o.n_calib = 0;
    assert_int_equal(run_job(&o, &err), FG_EINPUT);
    assert_string_equal(err.field, "--calib");
    assert_false(fg_dir_exists(out));
    fg_plan_free(plan);
    free(dir);
    free(out);
    free(rows);
    free(text);
}

static int set_up(void **state)
{
    (void)state;
    scratch_open(&tmp);
    return fg_kernels_get(&kernels, NULL, NULL) || fg_pool_new(&pools[0], 1, NULL) ||
           fg_pool_new(&pools[1], 2, NULL);
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
        cmocka_unit_test(test_walk),
        cmocka_unit_test(better_than_rounding),
        cmocka_unit_test(stopped_at_any_tick_it_goes_on),
        cmocka_unit_test(state_files_are_checked),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
