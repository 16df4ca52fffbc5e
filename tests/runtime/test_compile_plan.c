// Plans of compiled builds: text and back, what the key depends on, refused input; the sizes of the
// 27B (specs: runtime 2.2). Files of measurements.
#include "base/file.h"
#include "runtime/compile_plan.h"
#include "runtime/tuning.h"
#include "support/scratch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define SHA_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SHA_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define ID "0123456789abcdef"

static const struct fg_compile_plan_package packages[] = {
    {"chunk_L00-03.safetensors", SHA_A, "aaaaaaaaaaaaaaaaaaaaaaaa-p16-a1.fgt", 1000},
    {"head.safetensors", SHA_B, "bbbbbbbbbbbbbbbbbbbbbbbb-p16-a1.fgt", 2000},
};
static const struct fg_compile_plan_mat mats[] = {{"layers.0.mlp.up_proj", "v2x64", "p6"},
                                                  {"lm_head", "lut4", "p4"}};

static struct fg_compile_plan make(void)
{
    struct fg_compile_plan p = {.manifest_sha256 = SHA_B,
                                .isa = "avx2",
                                .numerics = "fast",
                                .layout = "p16",
                                .tile_abi = 1,
                                .engine_abi = 1,
                                .rows_floor = 64,
                                .packages = packages,
                                .mats = mats,
                                .n_packages = 2,
                                .n_mats = 2,
                                .entries = {{8192, 64, 28000000}, {16384, 64, 29000000}},
                                .n_entries = 2};
    assert_true(fg_compile_plan_set_key(&p));
    return p;
}

static void test_text_and_back(void **state)
{
    (void)state;
    struct fg_compile_plan p = make();
    struct fg_compile_plan_doc doc;
    struct fg_buf one = {0}, two = {0};
    assert_int_equal(fg_compile_plan_write(&p, &one, NULL), 0);
    assert_int_equal(fg_compile_plan_parse(&doc, one.data, one.len, "plan", NULL), 0);
    assert_string_equal(doc.plan.key, p.key);
    assert_string_equal(doc.plan.packages[1].tiles, packages[1].tiles);
    assert_int_equal(doc.plan.packages[1].tile_bytes, 2000);
    assert_string_equal(doc.plan.mats[1].layout, "p4");
    assert_int_equal(doc.plan.entries[1].scratch_bytes, 29000000);
    assert_int_equal(fg_compile_plan_write(&doc.plan, &two, NULL), 0);
    assert_int_equal(one.len, two.len);
    assert_memory_equal(one.data, two.data, one.len);
    fg_compile_plan_close(&doc);
    fg_buf_free(&one);
    fg_buf_free(&two);
}

static void test_key(void **state)
{
    (void)state;
    char keys[12][FG_SHA256_HEX];
    int n = 0;
    struct fg_compile_plan_package swapped[] = {packages[1], packages[0]};
    for (int i = 0; i < 10; i++) {
        struct fg_compile_plan p = make();
        switch (i) {
        case 1: p.manifest_sha256 = SHA_A; break;
        case 2: p.isa = "avx512vnni"; break;
        case 3: p.numerics = "exact"; break;
        case 4: p.tile_abi = 2; break;
        case 5: p.engine_abi = 2; break;
        case 6: p.n_entries = 1; break;
        case 7: p.packages = swapped; break;
        case 8: p.rows_floor = 128; break;
        case 9: p.n_packages = 1; break;
        default: break;
        }
        assert_true(fg_compile_plan_set_key(&p));
        memcpy(keys[n++], p.key, FG_SHA256_HEX);
        for (int j = 0; j + 1 < n; j++)
            assert_string_not_equal(keys[n - 1], keys[j]);
    }
    struct fg_compile_plan p = make(); // names and sizes follow from the packages
    struct fg_compile_plan_package renamed[] = {packages[0], packages[1]};
    renamed[0].file = "other.safetensors";
    p.packages = renamed;
    assert_true(fg_compile_plan_set_key(&p));
    assert_string_equal(p.key, keys[0]);
}

// The text with the first `from` replaced; must be refused.
static void refuse(const struct fg_buf *good, const char *from, const char *to, int code)
{
    struct fg_compile_plan_doc doc;
    struct fg_error err = {0};
    struct fg_buf b = {0};
    char *at = strstr(good->data, from);
    assert_non_null(at);
    fg_buf_add(&b, good->data, (size_t)(at - good->data));
    fg_buf_str(&b, to);
    fg_buf_str(&b, at + strlen(from));
    int rc = fg_compile_plan_parse(&doc, b.data, b.len, "plan.json", &err);
    if (rc != code) print_error("%s -> %s: code %d\n", from, to, rc);
    assert_int_equal(rc, code);
    assert_string_equal(err.file, "plan.json");
    assert_int_equal(doc.plan.n_packages, 0);
    fg_buf_free(&b);
}

static void test_refused(void **state)
{
    (void)state;
    struct fg_compile_plan p = make();
    struct fg_buf good = {0};
    assert_int_equal(fg_compile_plan_write(&p, &good, NULL), 0);
    static const char *const input[][2] = {
        {"forge-plan-1", "forge-plan-2"},
        {"{\"format\"", "[\"format\""},
        {"\"isa\": \"avx2\"", "\"isa\": 2"},
        {"\"isa\": \"avx2\"", "\"isa\": \"\""},
        {"\"numerics\"", "\"numeric\""},
        {"\"ctx\": 16384", "\"ctx\": 8192"},
        {"\"ctx\": 16384", "\"ctx\": 2097152"},
        {"\"prefill_rows\": 64", "\"prefill_rows\": 0"},
        {"\"scratch_bytes\": 28000000", "\"scratch_bytes\": -1"},
        {"\"tiles\": \"aaaa", "\"tiles\": \"../aaaa"},
        {"\"tiles\": \"aaaa", "\"tiles\": \".aaaa"},
        {"\"sha256\": \"aaaa", "\"sha256\": \"AAAA"},
        {"\"sha256\": \"aaaa", "\"sha256\": \"aaa"},
        {"\"entries\": [", "\"entries\": [], \"more\": ["},
        {"\"packages\": [", "\"packages\": [], \"more\": ["},
        {"\"matrices\": [", "\"matrices\": 7, \"more\": ["},
        {"\"layout\": \"p6\"", "\"layout\": null"},
    };
    for (size_t i = 0; i < sizeof input / sizeof input[0]; i++)
        refuse(&good, input[i][0], input[i][1], FG_EINPUT);
    // Sound, but not what its key says.
    refuse(&good, "\"isa\": \"avx2\"", "\"isa\": \"ref\"", FG_EINTEGRITY);
    refuse(&good, "\"sha256\": \"aaaa", "\"sha256\": \"aaab", FG_EINTEGRITY);
    refuse(&good, "\"tile_abi\": 1", "\"tile_abi\": 2", FG_EINTEGRITY);
    struct fg_compile_plan_doc doc;
    for (size_t n = 0; n + 1 < good.len; n += 7)
        assert_int_equal(fg_compile_plan_parse(&doc, good.data, n, "cut", NULL), FG_EINPUT);
    fg_buf_free(&good);
}

// Megabytes of 10^6 bytes, rounded.
static int64_t mb(uint64_t bytes)
{
    return (int64_t)((bytes + 500000) / 1000000);
}

static void test_sizes_of_27b(void **state)
{
    (void)state;
    const struct fg_compile_plan_shape s = {.hidden = 5120,
                                            .intermediate = 17408,
                                            .vocab = 248320,
                                            .mixer_width = 10240 + 6144 + 6144,
                                            .n_heads = 24,
                                            .head_dim = 256,
                                            .segment = 2048,
                                            .weights = UINT64_C(25598361600),
                                            .weight_bytes = UINT64_C(10083369600)};
    uint64_t partials =
        fg_compile_plan_scratch(&s, 196608, 64) - fg_compile_plan_scratch(&s, 2048, 64);
    assert_int_equal(mb(fg_compile_plan_scratch(&s, 2048, 64)), 28);
    assert_int_equal(mb(fg_compile_plan_scratch(&s, 2048, 256)), 88);
    assert_int_equal(mb(partials), 19);
    assert_int_equal(fg_compile_plan_rows(&s, "avx512vnni", 2), 32); // the manifest wants 64
    assert_int_equal(fg_compile_plan_rows(&s, "avx512vnni", 16), 128);
    assert_int_equal(fg_compile_plan_rows(&s, "amx", 16), 512);
    assert_int_equal(fg_compile_plan_rows(&s, "ref", 1), 32);
}

static void test_tuning(void **state)
{
    (void)state;
    struct scratch dir;
    scratch_open(&dir);
    const char *path = scratch_path(&dir, "t.json");
    struct fg_error err;
    struct fg_tuning in = {.threads = 2,
                           .prefetch_bytes = 512,
                           .prefill_rows = 128,
                           .verify = {{1, 300.25, 1.5}, {2, 301, 2.0 / 3}},
                           .draft = {{1024, 20}, {8192, 1e-3}},
                           .n_verify = 2,
                           .n_draft = 2},
                     out;
    assert_int_equal(fg_tuning_read(&out, path, ID, &err), FG_EINPUT);
    assert_int_equal(out.prefetch_bytes, 1024);
    assert_int_equal(fg_tuning_write(&in, path, ID, &err), 0);
    assert_int_equal(fg_tuning_read(&out, path, ID, &err), 0);
    assert_memory_equal(&in, &out, sizeof in);
    assert_int_equal(fg_tuning_read(&out, path, "fedcba9876543210", &err), FG_EINTEGRITY);
    assert_int_equal(out.threads, 0);
    static const char *const bad[] = {
        "{}",
        "[]",
        "{\"format\":\"forge-tuning-1\",\"id\":\"" ID "\",\"threads\":1025}",
        "{\"format\":\"forge-tuning-1\",\"id\":\"" ID "\",\"verify\":[{\"rows\":2},{\"rows\":2}]}",
        "{\"format\":\"forge-tuning-1\",\"id\":\"" ID "\",\"verify\":[{\"rows\":1,\"ms\":-1}]}",
        "{\"format\":\"forge-tuning-1\",\"id\":\"" ID "\",\"verify\":[3]}",
        "{\"format\":\"forge-tuning-1\",\"id\":\"" ID "\",\"draft\":[{\"ctx\":0}]}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        scratch_write(&dir, "t.json", bad[i], strlen(bad[i]));
        int rc = fg_tuning_read(&out, path, ID, &err);
        if (rc != FG_EINPUT) print_error("%s: code %d\n", bad[i], rc);
        assert_int_equal(rc, FG_EINPUT);
        assert_int_equal(out.n_verify, 0);
    }
    char a[17], b[17];
    assert_true(fg_tuning_id("avx2", SHA_A, a));
    assert_true(fg_tuning_id("avx2", SHA_A, b));
    assert_string_equal(a, b);
    assert_int_equal(strlen(a), 16);
    assert_true(fg_tuning_id("avx2", SHA_B, b));
    assert_string_not_equal(a, b);
    scratch_close(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_and_back), cmocka_unit_test(test_key),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_sizes_of_27b),
        cmocka_unit_test(test_tuning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
