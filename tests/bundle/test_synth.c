// Synthetic bundles: the declared sizes of the 27B, and a small bundle that is written, opened,
// verified, resumed.
#include "bundle/synth.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/thread.h"
#include "format/build.h"
#include "quant/dequant.h"
#include "support/scratch.h"
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <sys/file.h>
#include <unistd.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static struct scratch scratch;

static int set_up(void **state)
{
    scratch_open(&scratch);
    *state = scratch.dir;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_close(&scratch);
    return 0;
}

static const char *const files[] = {
    "model/config.json",
    "model/embed_tokens_fp16.npy",
    "forge/chunk_L00-03.safetensors",
    "forge/chunk_L04-07.safetensors",
    "forge/head.safetensors",
    "forge/manifest.json",
};
#define N_FILES (sizeof files / sizeof files[0])

static struct fg_synth_options options(const char *dir)
{
    return (struct fg_synth_options){.shape = "tiny-hybrid", .dir = dir, .seed = 7};
}

static void write_bundle(const struct fg_synth_options *o, bool expect_written)
{
    struct fg_error err = {0};
    bool written = !expect_written;
    int rc = fg_synth_write(o, &written, &err);
    if (rc) print_message("%s %s %s %s\n", err.what, err.field, err.expected, err.found);
    assert_int_equal(rc, 0);
    assert_int_equal(written, expect_written);
}

static void hash_file(const char *dir, const char *name, char hex[FG_SHA256_HEX])
{
    struct fg_error err = {0};
    char *path = fg_path_join(dir, name);
    assert_int_equal(fg_sha256_file(path, hex, &err), 0);
    free(path);
}

static void hash_all(const char *dir, char hex[N_FILES][FG_SHA256_HEX])
{
    for (size_t i = 0; i < N_FILES; i++)
        hash_file(dir, files[i], hex[i]);
}

static void assert_same(const char *dir, char hex[N_FILES][FG_SHA256_HEX])
{
    for (size_t i = 0; i < N_FILES; i++) {
        char now[FG_SHA256_HEX];
        hash_file(dir, files[i], now);
        assert_string_equal(now, hex[i]);
    }
}

static void remove_file(const char *dir, const char *name)
{
    char *path = fg_path_join(dir, name);
    assert_int_equal(unlink(path), 0);
    free(path);
}

// The integers of specs: quantization 1.4.
static void test_27b_sizes(void **state)
{
    (void)state;
    struct fg_plan_list plan;
    struct fg_error err = {0};
    assert_int_equal(fg_synth_plan(&plan, "qwen3.8-27b", &err), 0);
    assert_int_equal(plan.weight_bytes, 10138907232u);
    assert_int_equal(plan.factor_bytes, 316669952u);
    assert_int_equal(plan.embed_bytes, 2542796800u);
    assert_int_equal(plan.weights, 25598361600u);
    uint64_t count[FG_Q_N_FORMATS] = {0};
    for (uint64_t i = 0; i < plan.n; i++)
        count[plan.mats[i].format]++;
    assert_int_equal(count[FG_Q_V2X64], 192); // three per layer
    assert_int_equal(count[FG_Q_V2X16], 18 * 3 + 6 * 2);
    assert_int_equal(count[FG_Q_LUT4], 30 * 3 + 10 * 2 + 1);
    assert_int_equal(count[FG_Q_INT8], 32);
    fg_plan_list_free(&plan);
}

static void test_unknown_shape(void **state)
{
    struct fg_error err = {0};
    struct fg_plan_list plan;
    assert_int_equal(fg_synth_plan(&plan, "qwen3.8-28b", &err), FG_EINPUT);
    struct fg_synth_options o = options(*state);
    o.shape = "";
    assert_int_equal(fg_synth_write(&o, NULL, &err), FG_EINPUT);
    assert_string_equal(fg_synth_shape_name(0), "qwen3.8-27b");
    assert_null(fg_synth_shape_name(2));
    assert_null(fg_synth_shape_name(-1));
}

// Root mean square of a dequantized matrix times the root of its width: about 1.
static void check_spread(const struct fg_qset_mat *mat)
{
    int64_t n = mat->m.rows * mat->m.cols;
    float *w = malloc((size_t)n * sizeof *w);
    assert_non_null(w);
    fg_qmat_dequantize(w, &mat->m, 0, mat->m.rows);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)w[i] * (double)w[i];
    double spread = sqrt(sum / (double)n) * sqrt((double)mat->m.cols);
    if (spread < 0.4 || spread > 1.7) fail_msg("%s: %g", mat->name, spread);
    free(w);
}

static void test_opens_and_verifies(void **state)
{
    const char *dir = *state;
    struct fg_synth_options o = options(dir);
    write_bundle(&o, true);
    struct fg_error err = {0};
    struct fg_build *build;
    int rc = fg_build_open(&build, dir, true, &err);
    if (rc) fail_msg("%s %s %s %s %s", err.what, err.file, err.field, err.expected, err.found);
    const struct fg_qset *set = fg_build_set(build);
    bool seen[FG_Q_N_FORMATS] = {false};
    for (uint64_t i = 0; i < set->n_mats; i++) {
        seen[set->mats[i].m.format] = true;
        check_spread(&set->mats[i]);
    }
    assert_true(seen[FG_Q_V2X16] && seen[FG_Q_V2X64] && seen[FG_Q_LUT4] && seen[FG_Q_INT8] &&
                seen[FG_Q_BF16]);
    assert_non_null(fg_qset_find_rot(set, 3, "mix_out"));
    const struct fg_build_embedding *e = fg_build_embedding(build);
    assert_int_equal(e->vocab, 1000);
    fg_build_close(build);
}

static void test_second_run_keeps(void **state)
{
    const char *dir = *state;
    char hex[N_FILES][FG_SHA256_HEX];
    struct fg_synth_options o = options(dir);
    write_bundle(&o, true);
    hash_all(dir, hex);
    write_bundle(&o, false);
    assert_same(dir, hex);
    remove_file(dir, files[3]);
    remove_file(dir, files[5]);
    write_bundle(&o, true);
    assert_same(dir, hex);
}

static int stop_after(void *ctx, uint64_t done, uint64_t total, const char *item)
{
    (void)item;
    assert_true(done <= total);
    int *left = ctx;
    return (*left)-- <= 0;
}

// Stopped at every call of progress in turn, a run goes on to the bytes of an undisturbed one; so
// does one with threads.
static void test_resumes_to_same_bytes(void **state)
{
    const char *dir = *state;
    char *whole = fg_path_join(dir, "whole"), *parts = fg_path_join(dir, "parts");
    char hex[N_FILES][FG_SHA256_HEX];
    struct fg_error err = {0};
    struct fg_synth_options o = options(whole);
    write_bundle(&o, true);
    hash_all(whole, hex);
    struct fg_pool *pool;
    assert_int_equal(fg_pool_new(&pool, 3, &err), 0);
    o.dir = parts;
    o.pool = pool;
    int rc = FG_EINTERRUPTED, rounds = 0;
    for (; rc == FG_EINTERRUPTED; rounds++) {
        int left = rounds;
        o.progress = stop_after;
        o.ctx = &left;
        rc = fg_synth_write(&o, NULL, &err);
        assert_true(rounds < 1000);
    }
    assert_int_equal(rc, 0);
    assert_true(rounds > 2);
    assert_same(parts, hex);
    fg_pool_free(pool);
    free(whole);
    free(parts);
}

static void test_seed_decides(void **state)
{
    const char *dir = *state;
    char *first = fg_path_join(dir, "first"), *second = fg_path_join(dir, "second");
    char a[FG_SHA256_HEX], b[FG_SHA256_HEX];
    struct fg_error err = {0};
    struct fg_synth_options o = options(first);
    write_bundle(&o, true);
    o.seed = 8;
    assert_int_equal(fg_synth_write(&o, NULL, &err), FG_EINPUT); // another one lies there
    o.dir = second;
    write_bundle(&o, true);
    hash_file(first, files[2], a);
    hash_file(second, files[2], b);
    assert_string_not_equal(a, b);
    free(first);
    free(second);
}

static void test_foreign_directory(void **state)
{
    const char *dir = *state;
    struct fg_error err = {0};
    char *model = fg_path_join(dir, "model"), *config = fg_path_join(model, "config.json");
    assert_int_equal(fg_dir_make(model, &err), 0);
    assert_int_equal(fg_file_replace(config, "{}", 2, &err), 0);
    struct fg_synth_options o = options(dir);
    assert_int_equal(fg_synth_write(&o, NULL, &err), FG_EINPUT);
    free(model);
    free(config);
}

static void test_lock(void **state)
{
    const char *dir = *state;
    struct fg_error err = {0};
    char *forge = fg_path_join(dir, ".forge"), *lock = fg_path_join(forge, "lock");
    assert_int_equal(fg_dir_make(forge, &err), 0);
    int fd = open(lock, O_RDWR | O_CREAT, 0666);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
    struct fg_synth_options o = options(dir);
    assert_int_equal(fg_synth_write(&o, NULL, &err), FG_EBUSY);
    close(fd);
    write_bundle(&o, true);
    free(forge);
    free(lock);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_27b_sizes), TEST(test_unknown_shape),
        TEST(test_opens_and_verifies),    TEST(test_second_run_keeps),
        TEST(test_resumes_to_same_bytes), TEST(test_seed_decides),
        TEST(test_foreign_directory),     TEST(test_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
