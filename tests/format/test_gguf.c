// GGUF: metadata by value, tensors, dequantization against the reference decoder's values, and
// every check of specs/model.md 11.1.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/num.h"
#include "format/gguf.h"
#include "format/gguf_dequant.h"
#include "support/gguf_build.h"
#include "support/scratch.h"
#include <math.h>

static struct scratch tmp;

static void refused_bytes(const void *data, size_t n, const char *part)
{
    struct fg_gguf *g;
    struct fg_error err = {0};
    char line[1024];
    const char *path = scratch_write(&tmp, "bad.gguf", data, n);
    int rc = fg_gguf_open(&g, path, &err);
    fg_error_line(&err, line, sizeof line);
    if (rc != FG_EINPUT || g || !strstr(line, part) || !strstr(line, path)) {
        fail_msg("rc %d, \"%s\", wanted \"%s\"", rc, line, part);
    }
}

static void refused(struct gguf_build *b, const char *part)
{
    struct fg_buf file = {0};
    gb_end(b, &file);
    refused_bytes(file.data, file.len, part);
    fg_buf_free(&file);
}

static struct fg_gguf *opened(struct gguf_build *b)
{
    struct fg_buf file = {0};
    struct fg_gguf *g;
    struct fg_error err = {0};
    gb_end(b, &file);
    int rc = fg_gguf_open(&g, scratch_write(&tmp, "good.gguf", file.data, file.len), &err);
    if (rc) fail_msg("%s: expected %s, found %s", err.field, err.expected, err.found);
    fg_buf_free(&file);
    return g;
}

static const uint64_t two_by_32[] = {32, 2};

// A good file with a bit of everything, two tensors: "first" (Q8_0) and "second" (F32).
static void build_good(struct gguf_build *b)
{
    static const char *const words[] = {"alpha", "", "gamma"};
    static const int32_t numbers[] = {-1, 2, 3};
    gb_begin(b);
    gb_str(b, "general.architecture", "llama");
    gb_u32(b, "general.alignment", 32);
    gb_strings(b, "words", words, 3);
    gb_i32s(b, "numbers", numbers, 3);
    gb_tensor(b, "first", FG_GGML_Q8_0, 2, two_by_32, NULL);
    gb_tensor(b, "second", FG_GGML_F32, 2, two_by_32, NULL);
}

static void values_of_every_width(void **state)
{
    (void)state;
    static const struct {
        enum fg_gguf_kind kind;
        int bytes;
        int64_t v;
    } ints[] = {
        {FG_GGUF_U8, 1, 255},        {FG_GGUF_I8, 1, -128},        {FG_GGUF_U16, 2, 65535},
        {FG_GGUF_I16, 2, -32768},    {FG_GGUF_U32, 4, 4294967295}, {FG_GGUF_I32, 4, INT32_MIN},
        {FG_GGUF_U64, 8, INT64_MAX}, {FG_GGUF_I64, 8, INT64_MIN},  {FG_GGUF_BOOL, 1, 1}};
    struct gguf_build b;
    struct fg_error err = {0};
    char key[32];
    gb_begin(&b);
    for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++) {
        snprintf(key, sizeof key, "int.%zu", i);
        gb_int(&b, key, ints[i].kind, ints[i].v, ints[i].bytes);
    }
    gb_int(&b, "huge", FG_GGUF_U64, -1, 8);
    gb_f32(&b, "f32", 0.5f);
    gb_f32(&b, "inf", INFINITY);
    double d = 1e-300;
    int64_t d_bits;
    memcpy(&d_bits, &d, sizeof d);
    gb_int(&b, "f64", FG_GGUF_F64, d_bits, 8);
    gb_str(&b, "text", "h\xC3\xA9");
    static const char *const words[] = {"alpha", "", "gamma"};
    static const int32_t numbers[] = {-1, 2, 3};
    gb_strings(&b, "words", words, 3);
    gb_i32s(&b, "numbers", numbers, 3);
    gb_array(&b, "nested", FG_GGUF_ARRAY, 1);
    gb_le(&b.kvs, FG_GGUF_U8, 4);
    gb_le(&b.kvs, 2, 8);
    gb_le(&b.kvs, 7, 2);
    struct fg_gguf *g = opened(&b);

    int64_t v;
    bool given, flag;
    for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++) {
        snprintf(key, sizeof key, "int.%zu", i);
        assert_int_equal(fg_gguf_i64(g, key, 9, INT64_MIN, INT64_MAX, &v, &given, &err), 0);
        assert_true(given && v == ints[i].v);
        assert_true(fg_gguf_kv_number(fg_gguf_kv_find(g, key), 0) == (double)v);
    }
    assert_int_equal(fg_gguf_i64(g, "absent", 9, 0, 1, &v, &given, &err), 0);
    assert_true(!given && v == 9);
    assert_int_equal(fg_gguf_i64(g, "int.0", 9, 0, 254, &v, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_gguf_i64(g, "huge", 9, 0, INT64_MAX - 1, &v, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_gguf_i64(g, "f32", 9, 0, 9, &v, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_gguf_i64(g, "numbers", 9, 0, 9, &v, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_gguf_bool(g, "int.8", false, &flag, NULL, &err), 0);
    assert_true(flag);
    assert_int_equal(fg_gguf_f64(g, "f32", 0, &d, NULL, &err), 0);
    assert_true(d == 0.5);
    assert_int_equal(fg_gguf_f64(g, "f64", 0, &d, NULL, &err), 0);
    assert_true(d == 1e-300);
    assert_int_equal(fg_gguf_f64(g, "int.4", 0, &d, NULL, &err), 0);
    assert_true(d == 4294967295.0);
    assert_int_equal(fg_gguf_f64(g, "inf", 0, &d, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_gguf_f64(g, "text", 0, &d, NULL, &err), FG_EINPUT);

    struct fg_gguf_str s, *list;
    int64_t *ids;
    uint64_t n;
    assert_int_equal(fg_gguf_string(g, "text", &s, &err), 0);
    assert_true(s.n == 3 && memcmp(s.s, "h\xC3\xA9", 3) == 0);
    assert_int_equal(fg_gguf_string(g, "absent", &s, &err), 0);
    assert_null(s.s);
    assert_int_equal(fg_gguf_string(g, "words", &s, &err), FG_EINPUT);
    assert_int_equal(fg_gguf_strings(g, "words", &list, &n, &err), 0);
    assert_true(n == 3 && list[1].n == 0 && list[2].n == 5 && !memcmp(list[2].s, "gamma", 5));
    free(list);
    assert_int_equal(fg_gguf_strings(g, "numbers", &list, &n, &err), FG_EINPUT);
    assert_int_equal(fg_gguf_i64s(g, "numbers", -1, 3, &ids, &n, &err), 0);
    assert_true(n == 3 && ids[0] == -1 && ids[2] == 3);
    free(ids);
    assert_int_equal(fg_gguf_i64s(g, "numbers", 0, 3, &ids, &n, &err), FG_EINPUT);
    assert_null(ids);
    assert_int_equal(fg_gguf_i64s(g, "nested", 0, 3, &ids, &n, &err), FG_EINPUT);
    assert_int_equal(fg_gguf_kv_find(g, "nested")->n, 1);
    fg_gguf_close(g);
}

static void dequantizes_as_the_reference(void **state)
{
    (void)state;
    struct fg_gguf *g;
    struct fg_error err = {0};
    int n_types = 0;
    float row[256];
    assert_int_equal(fg_gguf_open(&g, FORGE_GOLDEN_DIR "/gguf/dequant.gguf", &err), 0);
    for (uint64_t i = 0; i < fg_gguf_n_tensors(g); i++) {
        const struct fg_gguf_tensor *t = fg_gguf_tensor_at(g, i);
        if (strchr(t->name, '.')) continue;
        char name[80];
        snprintf(name, sizeof name, "%s.expected", t->name);
        const struct fg_gguf_tensor *expected = fg_gguf_tensor_find(g, name);
        assert_non_null(expected);
        assert_string_equal(fg_gguf_type_name(t->type), t->name);
        assert_true(fg_gguf_can_dequant(t->type));
        assert_int_equal(t->extent[0], 256);
        assert_true(t->extent[1] >= 8); // more where a codebook is gone through
        for (uint64_t r = 0; r < t->extent[1]; r++) {
            fg_gguf_dequant_row(t->type, t->data + r * (t->bytes / t->extent[1]), row, 256);
            for (int k = 0; k < 256; k++) {
                float want;
                memcpy(&want, expected->data + (r * 256 + (uint64_t)k) * 4, 4);
                if (fg_bits_of_f32(row[k]) == fg_bits_of_f32(want)) continue;
                if (isnan(row[k]) && isnan(want)) continue;
                fail_msg("%s row %d column %d: %a, reference %a", t->name, (int)r, k,
                         (double)row[k], (double)want);
            }
        }
        n_types++;
    }
    assert_int_equal(n_types, 20);
    assert_false(fg_gguf_can_dequant(15)); // Q8_K, not a type of files
    assert_false(fg_gguf_can_dequant(39));
    assert_false(fg_gguf_can_dequant(1000));
    fg_gguf_close(g);
}

static void reads_tensors(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        struct gguf_build b;
        build_good(&b);
        b.version = version;
        struct fg_gguf *g = opened(&b);
        assert_int_equal(fg_gguf_version(g), version);
        assert_int_equal(fg_gguf_n_tensors(g), 2);
        const struct fg_gguf_tensor *t = fg_gguf_tensor_find(g, "second");
        assert_int_equal(t->n, 64);
        assert_int_equal(t->bytes, 256);
        assert_int_equal(t->n_dims, 2);
        assert_int_equal(t->extent[2], 1);
        assert_int_equal(t->data[5], 5);
        assert_null(fg_gguf_tensor_find(g, "third"));
        fg_gguf_close(g);
    }
}

static void refuses_bad_files(void **state)
{
    (void)state;
    struct gguf_build b;
    static const uint64_t ones[] = {1, 1, 1, 1, 1};
    static const uint64_t odd[] = {33, 2};
    static const uint64_t no_super_block[] = {576, 2};
    static const uint64_t two_blocks[] = {256, 2};
    static const uint64_t vast[] = {1ull << 32, 1ull << 32};
    static const uint64_t vast_bytes[] = {1ull << 62};

    build_good(&b), b.version = 1;
    refused(&b, "version");
    build_good(&b), b.version = 4;
    refused(&b, "version");
    build_good(&b), b.version = 3u << 24;
    refused(&b, "big-endian");

    build_good(&b), b.n_tensors = UINT64_MAX;
    refused(&b, "tensor count");
    build_good(&b), b.n_tensors = 3;
    refused(&b, "n_dims"); // of the padding, read as a third info
    build_good(&b), b.n_kvs = 1ull << 40;
    refused(&b, "metadata count");

    gb_begin(&b), gb_u32(&b, "general.alignment", 48);
    refused(&b, "power of two");
    gb_begin(&b), gb_u32(&b, "general.alignment", 4);
    refused(&b, "general.alignment");
    gb_begin(&b), gb_u32(&b, "general.alignment", 0);
    refused(&b, "general.alignment");
    gb_begin(&b), gb_str(&b, "general.alignment", "32");
    refused(&b, "found string");

    gb_begin(&b), gb_u32(&b, "twin", 1), gb_u32(&b, "twin", 1);
    refused(&b, "two");
    gb_begin(&b), gb_int(&b, "odd", 13, 0, 4);
    refused(&b, "odd");
    gb_begin(&b), gb_int(&b, "flag", FG_GGUF_BOOL, 2, 1);
    refused(&b, "flag");
    gb_begin(&b), gb_array(&b, "long", FG_GGUF_U64, 1ull << 61);
    refused(&b, "long");
    gb_begin(&b), gb_array(&b, "long", FG_GGUF_STRING, UINT64_MAX);
    refused(&b, "long");
    gb_begin(&b), gb_key(&b, "text", FG_GGUF_STRING), gb_le(&b.kvs, UINT64_MAX, 8);
    refused(&b, "text");
    gb_begin(&b), gb_le(&b.kvs, 65536, 8);
    for (int i = 0; i < 65536; i++) {
        fg_buf_char(&b.kvs, 'k');
    }
    gb_le(&b.kvs, FG_GGUF_U8, 4), gb_le(&b.kvs, 1, 1), b.n_kvs = 1;
    refused(&b, "metadata key");

    for (int depth = 4; depth <= 5; depth++) {
        gb_begin(&b), gb_array(&b, "nested", FG_GGUF_ARRAY, 1);
        for (int i = 2; i < depth; i++) {
            gb_le(&b.kvs, FG_GGUF_ARRAY, 4), gb_le(&b.kvs, 1, 8);
        }
        gb_le(&b.kvs, FG_GGUF_U8, 4), gb_le(&b.kvs, 1, 8), gb_le(&b.kvs, 1, 1);
        if (depth == 5) {
            refused(&b, "nested at most 4");
        } else {
            fg_gguf_close(opened(&b));
        }
    }

    gb_begin(&b), gb_tensor(&b, "t", FG_GGML_F32, 0, ones, NULL);
    refused(&b, "n_dims");
    gb_begin(&b), gb_tensor(&b, "t", FG_GGML_F32, 5, ones, NULL);
    refused(&b, "n_dims");
    gb_begin(&b), gb_tensor(&b, "t", 99, 1, ones, NULL);
    refused(&b, "type 99");
    gb_begin(&b), gb_tensor(&b, "t", FG_GGML_Q4_0, 2, odd, NULL);
    refused(&b, "blocks of 32");
    static const uint32_t super_blocks[] = {FG_GGML_Q2_K,    FG_GGML_Q3_K,   FG_GGML_Q5_K,
                                            FG_GGML_IQ2_XXS, FG_GGML_IQ2_XS, FG_GGML_IQ2_S,
                                            FG_GGML_IQ3_XXS, FG_GGML_IQ3_S,  FG_GGML_IQ4_XS};
    for (size_t i = 0; i < sizeof super_blocks / sizeof super_blocks[0]; i++) {
        gb_begin(&b), gb_tensor(&b, "t", super_blocks[i], 2, no_super_block, NULL);
        refused(&b, "blocks of 256");
        struct fg_buf file = {0};
        gb_begin(&b), gb_tensor(&b, "t", super_blocks[i], 2, two_blocks, NULL);
        gb_end(&b, &file);
        refused_bytes(file.data, file.len - 1, "inside the file");
        fg_buf_free(&file);
    }
    gb_begin(&b), gb_tensor(&b, "t", FG_GGML_F32, 2, vast, ones);
    refused(&b, "overflows");
    gb_begin(&b), gb_tensor(&b, "t", FG_GGML_F32, 1, vast_bytes, ones);
    refused(&b, "overflows");
    build_good(&b), gb_tensor(&b, "first", FG_GGML_F32, 1, ones, NULL);
    refused(&b, "two");
    gb_begin(&b);
    gb_tensor(&b, "a name of more than the sixty-four bytes that the format gives a tensor",
              FG_GGML_F32, 1, ones, NULL);
    refused(&b, "tensor name");
}

// Changes the offset of a tensor of the good file.
static void refused_offset(const char *tensor, uint64_t offset, const char *part)
{
    struct gguf_build b;
    struct fg_buf file = {0};
    build_good(&b);
    gb_end(&b, &file);
    char *at = memmem(file.data, file.len, tensor, strlen(tensor));
    assert_non_null(at);
    at += strlen(tensor) + 4 + 16 + 4;
    for (int i = 0; i < 8; i++) {
        at[i] = (char)(offset >> (8 * i) & 0xFF);
    }
    refused_bytes(file.data, file.len, part);
    fg_buf_free(&file);
}

static void refuses_bad_offsets(void **state)
{
    (void)state;
    refused_offset("second", 32, "overlap");
    refused_offset("first", 96, "overlap");
    refused_offset("second", 97, "multiple of 32");
    refused_offset("second", 128, "inside the file");
    refused_offset("second", 1ull << 40, "inside the file");
    refused_offset("second", UINT64_MAX - 31, "inside the file");
}

static void refuses_every_truncation(void **state)
{
    (void)state;
    struct gguf_build b;
    struct fg_buf file = {0};
    build_good(&b);
    gb_end(&b, &file);
    for (size_t n = 0; n < file.len; n++) {
        refused_bytes(file.data, n, "gguf");
    }
    memcpy(file.data, "GGML", 4);
    refused_bytes(file.data, file.len, "magic");
    memset(file.data, 0, file.len);
    refused_bytes(file.data, file.len, "magic");
    fg_buf_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_every_width), cmocka_unit_test(dequantizes_as_the_reference),
        cmocka_unit_test(reads_tensors),         cmocka_unit_test(refuses_bad_files),
        cmocka_unit_test(refuses_bad_offsets),   cmocka_unit_test(refuses_every_truncation),
    };
    scratch_open(&tmp);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close(&tmp);
    return failed;
}
