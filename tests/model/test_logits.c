// The forward pass against logits and intermediates of the reference (tests/golden/models, made by
// tests/reference/make_checkpoints.py), and its determinism: the same bits for every cut of the
// prompt into calls, every number of threads and every kernel level.
#include "base/arena.h"
#include "base/thread.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include "kernels/kernels.h"
#include "model/graph.h"
#include "support/scratch.h"
#include "support/state.h"
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#define MODELS FORGE_GOLDEN_DIR "/models"
#define N_CHECKPOINTS 17 // what make_checkpoints.py --small writes
#define TOLERANCE 1e-4   // relative L2 per row, against the reference in FP32
#define N_TOKENS 600
#define T_MAX N_TOKENS

// ---- checkpoints

struct fixture {
    char dir[512];
    struct fg_model *model;
    struct fg_npy tokens, rows, logits;
    const int32_t *ids;
};

static void check(int rc, const struct fg_error *err)
{
    if (!rc) return;
    char line[1024];
    fail_msg("%s", fg_error_line(err, line, sizeof line));
}

static void open_npy(struct fg_npy *npy, const char *dir, const char *name)
{
    char path[640];
    struct fg_error err = {0};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    check(fg_npy_open(npy, path, &err), &err);
}

static void open_fixture(struct fixture *f, const char *dir)
{
    struct fg_error err = {0};
    *f = (struct fixture){0};
    snprintf(f->dir, sizeof f->dir, "%s", dir);
    check(fg_model_open(&f->model, dir, true, NULL, &err), &err);
    open_npy(&f->tokens, dir, "tokens.npy");
    open_npy(&f->rows, dir, "rows.npy");
    open_npy(&f->logits, dir, "logits.npy");
    assert_int_equal(f->tokens.dtype, FG_NPY_I32);
    assert_int_equal(f->tokens.n, N_TOKENS);
    assert_int_equal(f->rows.dtype, FG_NPY_I32);
    assert_int_equal(f->logits.dtype, FG_NPY_F32);
    assert_int_equal(f->logits.n, f->rows.n * (uint64_t)f->model->config.vocab);
    f->ids = f->tokens.data;
}

static void close_fixture(struct fixture *f)
{
    fg_npy_close(&f->tokens);
    fg_npy_close(&f->rows);
    fg_npy_close(&f->logits);
    fg_model_close(f->model);
}

static int is_checkpoint(const struct dirent *e)
{
    return strstr(e->d_name, "-s") != NULL;
}

// Runs fn on every committed checkpoint; with first_seed, on one of each configuration.
static void for_each(bool first_seed, void (*fn)(const struct fixture *f))
{
    struct dirent **names;
    int n = scandir(MODELS, &names, is_checkpoint, alphasort);
    assert_int_equal(n, N_CHECKPOINTS);
    for (int i = 0; i < n; i++) {
        char dir[512];
        snprintf(dir, sizeof dir, "%s/%s", MODELS, names[i]->d_name);
        if (!first_seed || strstr(names[i]->d_name, "-s0")) {
            struct fixture f;
            open_fixture(&f, dir);
            fn(&f);
            close_fixture(&f);
        }
        free(names[i]);
    }
    free(names);
}

// ---- states

static float *floats(int64_t n)
{
    return state_floats(n);
}

static void new_state(struct fg_state *s, const struct fg_config *c, int64_t capacity)
{
    state_new(s, c, capacity, FG_KV_F32, false, 8);
}

static struct fg_workspace *new_workspace(const struct fg_model *m, const struct fg_kernels *kn,
                                          struct fg_pool *pool, bool fast, int64_t T_max)
{
    struct fg_error err = {0};
    struct fg_workspace *ws;
    const struct fg_workspace_options o = {
        .kernels = kn, .pool = pool, .fast = fast, .T_max = T_max};
    check(fg_workspace_new(&ws, m, &o, &err), &err);
    check(fg_workspace_fit(ws, m, N_TOKENS + 64, &err), &err);
    return ws;
}

// Commits T rows; logits of the last n_logits.
static void run_call(const struct fg_model *m, struct fg_workspace *ws, struct fg_state *state,
                     const int32_t *ids, int64_t T, float *logits, int64_t n_logits)
{
    struct fg_error err = {0};
    const struct fg_span span = {state, T};
    const struct fg_call call = {
        .ids = ids, .spans = &span, .n_spans = 1, .T = T, .n_out = n_logits, .logits = logits};
    check(fg_forward(m, ws, &call, &err), &err);
}

// ---- runs

// Cuts of a prompt into calls, repeated to its end.
struct cut {
    const char *name;
    int64_t rows[8];
};
static const struct cut blocks_of_64 = {"64", {64}};

struct run {
    const struct fg_kernels *kernels;
    int threads;
    bool fast;
    const struct cut *cut;
};

// First of the levels to compare: plain C. Sanitizers slow it down so much that they start at the
// next one, if there is one; the tests of the kernels compare all levels in every build.
static int first_level(int n_levels)
{
#if defined(__SANITIZE_ADDRESS__)
    return n_levels > 1;
#else
    (void)n_levels;
    return 0;
#endif
}

static const struct fg_kernels *best_kernels(void)
{
    int n;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n);
    return levels[n - 1];
}

// Runs tokens [state->pos, end) of the prompt and writes the logits of every row to logits[pos].
static void forward(const struct fixture *f, const struct run *r, struct fg_state *state,
                    int64_t end, float *logits)
{
    struct fg_error err = {0};
    struct fg_pool *pool;
    struct fg_workspace *ws;
    check(fg_pool_new(&pool, r->threads, &err), &err);
    ws = new_workspace(f->model, r->kernels, pool, r->fast, T_MAX);
    for (int i = 0; state->pos < end; i++) {
        int64_t T = r->cut->rows[i % 8];
        if (T == 0) {
            i = -1;
            continue;
        }
        if (T > end - state->pos) T = end - state->pos;
        int64_t pos = state->pos;
        run_call(f->model, ws, state, f->ids + pos, T, logits + pos * f->model->config.vocab, T);
        assert_int_equal(state->pos, pos + T);
    }
    fg_flush(f->model, ws, state);
    fg_workspace_free(ws);
    fg_pool_free(pool);
}

static float *new_logits(const struct fixture *f)
{
    return floats(N_TOKENS * f->model->config.vocab);
}

static double row_error(const float *got, const float *want, int64_t n)
{
    double d = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        d += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        norm += (double)want[i] * want[i];
    }
    return norm > 0 ? sqrt(d / norm) : sqrt(d);
}

static int64_t argmax(const float *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

// ---- tests

static void compare_with_reference(const struct fixture *f)
{
    const int64_t V = f->model->config.vocab;
    const int32_t *rows = f->rows.data;
    struct run r = {best_kernels(), 2, false, &blocks_of_64};
    struct fg_state state;
    new_state(&state, &f->model->config, N_TOKENS);
    float *logits = new_logits(f);
    double worst = 0;
    forward(f, &r, &state, N_TOKENS, logits);
    for (uint64_t i = 0; i < f->rows.n; i++) {
        const float *got = logits + rows[i] * V;
        const float *want = (const float *)f->logits.data + (int64_t)i * V;
        double error = row_error(got, want, V);
        worst = error > worst ? error : worst;
        if (!(error <= TOLERANCE) || argmax(got, V) != argmax(want, V))
            fail_msg("%s, row %d: relative L2 %.3g, top-1 %lld, reference %lld", f->dir, rows[i],
                     error, (long long)argmax(got, V), (long long)argmax(want, V));
    }
    print_message("%s: relative L2 at most %.2g\n", strrchr(f->dir, '/') + 1, worst);
    free(logits);
    state_free(&state, &f->model->config);
}

static void test_reference(void **unused)
{
    (void)unused;
    for_each(false, compare_with_reference);
}

// The run's logits and final state must be those of the first level, one thread, calls of 64.
static void expect_same(const struct fixture *f, const struct run *r, const float *want,
                        const struct fg_state *want_state)
{
    struct fg_state state;
    new_state(&state, &f->model->config, N_TOKENS + 7); // the capacity must not matter
    float *logits = new_logits(f);
    forward(f, r, &state, N_TOKENS, logits);
    const int64_t V = f->model->config.vocab;
    for (int64_t t = 0; t < N_TOKENS; t++) {
        if (memcmp(logits + t * V, want + t * V, (size_t)V * sizeof *want) != 0)
            fail_msg("%s, %s, %d threads, calls of %s rows%s: row %lld has other bits "
                     "(relative L2 %.3g)",
                     f->dir, r->kernels->isa, r->threads, r->cut->name, r->fast ? ", fast" : "",
                     (long long)t, row_error(logits + t * V, want + t * V, V));
    }
    if (!state_same(&state, want_state, &f->model->config))
        fail_msg("%s, %s, %d threads, calls of %s rows%s: the state has other bits", f->dir,
                 r->kernels->isa, r->threads, r->cut->name, r->fast ? ", fast" : "");
    free(logits);
    state_free(&state, &f->model->config);
}

static void compare_bits(const struct fixture *f)
{
    static const struct cut cuts[] = {
        {"1", {1}},     {"4", {4}},
        {"8", {8}},     {"64", {64}},
        {"600", {600}}, {"1, 2, 3, 5, 63, 64, 65, 130", {1, 2, 3, 5, 63, 64, 65, 130}}};
    const int n_cuts = (int)(sizeof cuts / sizeof cuts[0]);
    const struct cut *odd = &cuts[n_cuts - 1];
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    bool has_fast = f->model->weights.layers[0].gate.dtype == FG_BF16;
    for (int fast = 0; fast < 1 + has_fast; fast++) {
        struct run base = {levels[first_level(n_levels)], 1, fast != 0, &blocks_of_64};
        struct fg_state state;
        new_state(&state, &f->model->config, N_TOKENS);
        float *logits = new_logits(f);
        forward(f, &base, &state, N_TOKENS, logits);
        for (int i = 0; i < n_cuts; i++) {
            struct run r = {best_kernels(), 1 + i % 2, fast != 0, &cuts[i]};
            expect_same(f, &r, logits, &state);
        }
        for (int i = first_level(n_levels) + fast; i < n_levels; i++) { // the first is the base
            struct run r = {levels[i], 2, fast != 0, odd};
            expect_same(f, &r, logits, &state);
        }
        free(logits);
        state_free(&state, &f->model->config);
    }
}

static void test_same_bits(void **unused)
{
    (void)unused;
    for_each(true, compare_bits);
}

// A state copied in the middle, into one of another capacity, continues with the same bits; so does
// one that was left behind in a buffer of other data.
static void continue_from_copy(const struct fixture *f)
{
    const struct fg_config *c = &f->model->config;
    static const struct cut odd = {"37", {37}};
    struct run r = {best_kernels(), 1, false, &odd};
    struct fg_state whole, half, copy;
    new_state(&whole, c, N_TOKENS);
    new_state(&half, c, 301);
    new_state(&copy, c, N_TOKENS + 64);
    float *want = new_logits(f), *got = new_logits(f);
    forward(f, &r, &whole, N_TOKENS, want);
    forward(f, &r, &half, 301, got);
    state_copy(&copy, &half, c);
    forward(f, &r, &copy, N_TOKENS, got);
    assert_memory_equal(got, want, (size_t)(N_TOKENS * c->vocab) * sizeof *want);
    assert_true(state_same(&copy, &whole, c));
    free(want);
    free(got);
    state_free(&whole, c);
    state_free(&half, c);
    state_free(&copy, c);
}

static void test_continue(void **unused)
{
    (void)unused;
    for_each(true, continue_from_copy);
}

// Asking for fewer rows of logits changes nothing in those that are given, nor in the state.
static void ask_for_fewer(const struct fixture *f)
{
    const struct fg_config *c = &f->model->config;
    const int64_t V = c->vocab, T = 70;
    struct fg_error err = {0};
    struct fg_pool *pool;
    struct fg_workspace *ws;
    struct fg_state all, few;
    new_state(&all, c, T);
    new_state(&few, c, T);
    check(fg_pool_new(&pool, 1, &err), &err);
    ws = new_workspace(f->model, best_kernels(), pool, false, T);
    float *want = floats(T * V), *got = floats(3 * V);
    run_call(f->model, ws, &all, f->ids, T, want, T);
    run_call(f->model, ws, &few, f->ids, 30, NULL, 0);
    run_call(f->model, ws, &few, f->ids + 30, T - 30, got, 3);
    assert_memory_equal(got, want + (T - 3) * V, (size_t)(3 * V) * sizeof *want);
    assert_true(state_same(&few, &all, c));
    free(want);
    free(got);
    fg_workspace_free(ws);
    fg_pool_free(pool);
    state_free(&all, c);
    state_free(&few, c);
}

static void test_fewer_logits(void **unused)
{
    (void)unused;
    for_each(true, ask_for_fewer);
}

// The fast mode differs from the exact one, and not by much.
static void compare_fast(const struct fixture *f)
{
    const struct fg_config *c = &f->model->config;
    if (f->model->weights.layers[0].gate.dtype != FG_BF16) return; // only BF16 weights have one
    struct fg_state exact_state, fast_state;
    new_state(&exact_state, c, N_TOKENS);
    new_state(&fast_state, c, N_TOKENS);
    float *exact = new_logits(f), *fast = new_logits(f);
    struct run r = {best_kernels(), 1, false, &blocks_of_64};
    forward(f, &r, &exact_state, N_TOKENS, exact);
    r.fast = true;
    forward(f, &r, &fast_state, N_TOKENS, fast);
    double sum = 0;
    for (int64_t t = 0; t < N_TOKENS; t++)
        sum += row_error(fast + t * c->vocab, exact + t * c->vocab, c->vocab);
    if (!(sum > 0 && sum / N_TOKENS < 0.1))
        fail_msg("%s: fast against exact, mean relative L2 %.3g", f->dir, sum / N_TOKENS);
    free(exact);
    free(fast);
    state_free(&exact_state, c);
    state_free(&fast_state, c);
}

static void test_fast_mode(void **unused)
{
    (void)unused;
    for_each(true, compare_fast);
}

// ---- intermediates by name

struct taps {
    struct fg_checkpoint *golden;
    const float *rows; // which rows of the prompt the golden tensors hold
    int64_t n_rows;
    uint64_t seen;
    const char *dir;
};

static void compare_tap(void *ctx, const char *name, int layer, int64_t pos, int64_t T,
                        int64_t width, const float *data, int64_t ld)
{
    struct taps *taps = ctx;
    char key[96];
    if (strcmp(name, "logits") == 0) return; // test_reference
    if (layer < 0)
        snprintf(key, sizeof key, "%s", name);
    else
        snprintf(key, sizeof key, "layers.%d.%s", layer, name);
    const struct fg_st_tensor *t = fg_checkpoint_find(taps->golden, key);
    if (!t) fail_msg("the graph hands out %s, the golden file has no such tensor", key);
    assert_int_equal(t->rank, 2);
    if (t->shape[1] != (uint64_t)width)
        fail_msg("%s has width %lld, in the reference %llu", key, (long long)width,
                 (unsigned long long)t->shape[1]);
    float *want = floats(width);
    for (int64_t i = 0; i < taps->n_rows; i++) {
        int64_t row = (int64_t)taps->rows[i];
        if (row < pos || row >= pos + T) continue;
        memcpy(want, t->data + (size_t)(i * width) * sizeof *want, (size_t)width * sizeof *want);
        double error = row_error(data + (row - pos) * ld, want, width);
        if (!(error <= TOLERANCE))
            fail_msg("%s, row %lld: relative L2 %.3g", key, (long long)row, error);
        taps->seen++;
    }
    free(want);
}

static void test_taps(void **unused)
{
    (void)unused;
    enum { N = 65 }; // as in make_checkpoints.py
    struct fg_error err = {0};
    struct fixture f;
    struct taps taps = {0};
    struct fg_pool *pool;
    struct fg_workspace *ws;
    struct fg_state state;
    open_fixture(&f, MODELS "/a-s0");
    check(fg_checkpoint_open(&taps.golden, MODELS "/taps-a.safetensors", &err), &err);
    const struct fg_st_tensor *rows = fg_checkpoint_find(taps.golden, "rows");
    assert_non_null(rows);
    float row_list[N];
    assert_true(rows->bytes <= sizeof row_list);
    memcpy(row_list, rows->data, rows->bytes);
    taps.rows = row_list;
    taps.n_rows = (int64_t)rows->shape[0];

    new_state(&state, &f.model->config, N);
    check(fg_pool_new(&pool, 1, &err), &err);
    ws = new_workspace(f.model, best_kernels(), pool, false, 33);
    fg_workspace_set_tap(ws, compare_tap, &taps);
    float *logits = floats(33 * f.model->config.vocab);
    run_call(f.model, ws, &state, f.ids, 33, logits, 33);
    run_call(f.model, ws, &state, f.ids + 33, N - 33, logits, N - 33);
    assert_int_equal(taps.seen, (fg_checkpoint_count(taps.golden) - 1) * (uint64_t)taps.n_rows);
    free(logits);
    fg_workspace_free(ws);
    fg_pool_free(pool);
    state_free(&state, &f.model->config);
    fg_checkpoint_close(taps.golden);
    close_fixture(&f);
}

// ---- M-RoPE sections say nothing about text (specs: model 6)

static void test_mrope_section(void **unused)
{
    (void)unused;
    struct scratch s;
    struct fixture f;
    scratch_open(&s);
    open_fixture(&f, MODELS "/a-s0");
    char text[4096];
    FILE *file = fopen(MODELS "/a-s0/config.json", "rb");
    assert_non_null(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    char *section = strstr(text, "\"mrope_section\"");
    assert_non_null(section);
    char *first = strchr(section, '2'), *second = strchr(section, '1');
    assert_true(first && second && second - first < 32); // [2, 1, 1] becomes [1, 2, 1]
    *first = '1';
    *second = '2';
    scratch_write(&s, "config.json", text, n);
    assert_int_equal(
        symlink(MODELS "/a-s0/model.safetensors", scratch_path(&s, "model.safetensors")), 0);

    struct fixture permuted = f;
    struct fg_error err = {0};
    check(fg_model_open(&permuted.model, s.dir, true, NULL, &err), &err);
    struct run r = {best_kernels(), 1, false, &blocks_of_64};
    struct fg_state state;
    new_state(&state, &f.model->config, N_TOKENS);
    float *logits = new_logits(&f);
    forward(&f, &r, &state, N_TOKENS, logits);
    expect_same(&permuted, &r, logits, &state);
    free(logits);
    state_free(&state, &f.model->config);
    fg_model_close(permuted.model);
    close_fixture(&f);
    scratch_close(&s);
}

// An argument selects tests by name, as tests/mutation/run.sh does.
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),     cmocka_unit_test(test_taps),
        cmocka_unit_test(test_same_bits),     cmocka_unit_test(test_continue),
        cmocka_unit_test(test_fewer_logits),  cmocka_unit_test(test_fast_mode),
        cmocka_unit_test(test_mrope_section),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
