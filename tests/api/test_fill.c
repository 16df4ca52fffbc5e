// Exports that have some matrices of a model, filled with the rest of its checkpoint: kept matrices
// give the checkpoint's own logits, quantized ones those of a whole export whose other matrices are
// kept.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/file.h"
#include "base/thread.h"
#include "forge/forge.h"
#include "kernels/kernels.h"
#include "support/scratch.h"
#include "train/quantize.h"
#include <math.h>
#include <unistd.h>

#define IDS 12

static struct scratch tmp;
static struct fg_pool *pool;

static void quantize(const char *model, const char *out, const char *plan_text)
{
    struct fg_plan *plan = NULL;
    struct fg_quantize *q = NULL;
    struct fg_error err = {0};
    int rc = fg_plan_parse(&plan, plan_text, strlen(plan_text), "plan", &err);
    struct fg_quantize_options o = {.method = FG_QUANTIZE_RTN,
                                    .model = model,
                                    .output = out,
                                    .plan = plan,
                                    .row_weight = true,
                                    .lr_iters = 2,
                                    .lr_fit = FG_LOWRANK_PLAIN,
                                    .kmeans_seed = 1,
                                    .layer_first = -1,
                                    .layer_last = -1,
                                    .pool = pool};
    if (!rc) rc = fg_kernels_get(&o.kernels, NULL, &err);
    if (!rc) rc = fg_quantize_open(&q, &o, &err);
    if (!rc) rc = fg_quantize_run(q, &err);
    fg_quantize_free(q);
    fg_plan_free(plan);
    if (rc) fail_msg("%s: %s: expected %s, found %s", model, err.field, err.expected, err.found);
}

static void copy(const char *from_dir, const char *to_dir, const char *name)
{
    char from[1024], to[1024];
    snprintf(from, sizeof from, "%s/%s", from_dir, name);
    snprintf(to, sizeof to, "%s/%s", to_dir, name);
    assert_int_equal(symlink(from, to), 0);
}

static struct forge_engine *try_open(const char *path, const char *model_dir, bool fill,
                                     struct fg_error *err)
{
    struct forge_engine *e = NULL;
    const struct forge_engine_options o = {.model = path,
                                           .model_dir = model_dir,
                                           .fill = fill,
                                           .threads = 1,
                                           .numerics = FORGE_EXACT,
                                           .model_only = true};
    forge_engine_open(&e, &o, err);
    return e;
}

// Logits of the last of some tokens, malloc'd; *n of them.
static float *logits(const char *path, const char *model_dir, size_t *n)
{
    struct fg_error err = {0};
    struct forge_engine *e = try_open(path, model_dir, model_dir != NULL, &err);
    struct forge_session *s = NULL;
    struct forge_engine_info info;
    int32_t ids[IDS];
    if (!e) fail_msg("%s: %s: expected %s, found %s", path, err.field, err.expected, err.found);
    forge_engine_info(e, &info);
    for (int i = 0; i < IDS; i++)
        ids[i] = (int32_t)((i * 37 + 5) % info.vocab);
    *n = (size_t)info.vocab;
    float *out = malloc(*n * sizeof *out);
    const struct forge_session_options o = {.rows = IDS};
    assert_int_equal(forge_session_new(&s, e, &o, &err), 0);
    assert_int_equal(forge_session_run(s, ids, IDS, out, 1, NULL, NULL, &err), 0);
    forge_session_free(s);
    forge_engine_close(e);
    return out;
}

static double distance(const float *a, const float *b, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

#define KEPT(rest)                                                                                 \
    "{\"schema\": \"forge.plan/1\", \"defaults\": {\"mlp\": \"bf16\", \"mixer\": \"bf16\", "       \
    "\"kv\": \"bf16\", \"head\": \"bf16\"}, \"overrides\": {" rest "}}"
#define QUANTIZED                                                                                  \
    "{\"schema\": \"forge.plan/1\", \"defaults\": {\"mlp\": \"v2x16\", \"mixer\": \"v2x16\", "     \
    "\"kv\": \"int8\", \"head\": \"lut4\", \"lr_rank\": 0}}"

static void part_by_part(const char *name)
{
    char model[512], path[768];
    snprintf(model, sizeof model, "%s/models/%s", FORGE_GOLDEN_DIR, name);
    char dirs[6][320];
    static const char *const names[] = {"kept", "some", "full", "mlp", "head", "mixer"};
    for (int i = 0; i < 6; i++) {
        snprintf(dirs[i], sizeof dirs[i], "%s/%s-%s", tmp.dir, name, names[i]);
        if (i == 1 || i >= 3) assert_int_equal(fg_dir_make(dirs[i], NULL), 0);
    }
    size_t n, m;
    float *dense = logits(model, NULL, &n);

    quantize(model, dirs[0], KEPT(""));
    copy(dirs[0], dirs[1], "layer_00.safetensors");
    copy(dirs[0], dirs[1], "layer_01_mixer.safetensors");
    float *some = logits(dirs[1], model, &m);
    assert_int_equal(n, m);
    assert_memory_equal(some, dense, n * sizeof *some); // the same bits

    quantize(model, dirs[2], QUANTIZED);
    static const struct {
        const char *file, *plan;
    } parts[] = {
        {"layer_01.safetensors", KEPT("\"1.mlp\": \"v2x16\"")},
        {"lm_head.safetensors", KEPT("\"head\": \"lut4\"")},
        {"layer_01_mixer.safetensors", KEPT("\"1.mixer\": \"v2x16\", \"1.lr_rank\": 0")},
    };
    for (int i = 0; i < 3; i++) {
        char whole[320];
        if (i == 2 && (name[0] == 'h' || name[0] == 'k')) continue; // k and v are another format
        copy(dirs[2], dirs[3 + i], parts[i].file);
        // What an export is told by; layer_00 is not there.
        copy(dirs[0], dirs[3 + i], "export.json");
        snprintf(whole, sizeof whole, "%s/%s-whole-%d", tmp.dir, name, i);
        quantize(model, whole, parts[i].plan);
        float *filled = logits(dirs[3 + i], model, &m);
        float *expected = logits(whole, NULL, &m);
        // The export's embedding is F16: where BF16 has smaller numbers, a little is lost.
        const double off = distance(filled, expected, n), moved = distance(filled, dense, n);
        if (!(moved > 1e-3) || off > 1e-3 * moved)
            fail_msg("%s: %s: %g from the whole export, %g from the checkpoint", name,
                     parts[i].file, off, moved);
        free(filled);
        free(expected);
    }
    // Without being asked to fill, what is missing is an error.
    struct fg_error err = {0};
    assert_null(try_open(dirs[3], model, false, &err));
    assert_int_equal(err.code, FG_EINPUT);
    snprintf(path, sizeof path, "%s/nowhere", tmp.dir);
    assert_null(try_open(dirs[3], path, true, &err));
    free(dense);
    free(some);
}

static void hybrid_model(void **state)
{
    (void)state;
    part_by_part("a-s0");
}

static void tied_head(void **state)
{
    (void)state;
    part_by_part("k-s0");
}

static void biases_and_norms(void **state)
{
    (void)state;
    part_by_part("e-s0");
    part_by_part("h-s0");
}

static int set_up(void **state)
{
    (void)state;
    scratch_open(&tmp);
    return fg_pool_new(&pool, 1, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    fg_pool_free(pool);
    scratch_close(&tmp);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hybrid_model),
        cmocka_unit_test(tied_head),
        cmocka_unit_test(biases_and_norms),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
