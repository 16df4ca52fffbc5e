// One view over safetensors, GGUF and npy; statistics; token ids from text and files.
#include "eval/tensors.h"
#include "eval/logits.h"
#include "format/npy.h"
#include "support/scratch.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static struct scratch scratch;

static void test_npy(void **state)
{
    (void)state;
    static const float values[2][3] = {{1, -2, 0}, {NAN, INFINITY, 3}};
    static const uint64_t shape[2] = {2, 3};
    const char *path = scratch_path(&scratch, "a.npy");
    struct fg_error err;
    assert_int_equal(fg_npy_write(path, FG_NPY_F32, 2, shape, values, &err), 0);
    struct fg_tensors *t;
    assert_int_equal(fg_tensors_open(&t, path, &err), 0);
    assert_int_equal(fg_tensors_kind(t), FG_TENSORS_NPY);
    assert_int_equal(fg_tensors_count(t), 1);
    struct fg_tensor_view v;
    assert_true(fg_tensors_find(t, "array", &v));
    assert_false(fg_tensors_find(t, "other", &(struct fg_tensor_view){0}));
    assert_int_equal(v.rank, 2);
    assert_int_equal(v.shape[1], 3);
    double out[2];
    assert_int_equal(fg_tensors_read(t, &v, 1, 2, out, &err), 0);
    assert_true(out[0] == -2 && out[1] == 0);
    struct fg_tensor_stats s;
    assert_int_equal(fg_tensors_stats(t, &v, &s, &err), 0);
    assert_int_equal(s.n_nan, 1);
    assert_int_equal(s.n_inf, 1);
    assert_int_equal(s.n_zero, 1);
    assert_true(s.min == -2 && s.max == 3 && s.mean == 0.5);
    assert_true(fabs(s.std - sqrt(3.25)) < 1e-12); // of 1, -2, 0, 3
    fg_tensors_close(t);
}

static void test_integers(void **state)
{
    (void)state;
    static const int16_t values[3] = {-32768, 7, 32767};
    static const uint64_t shape[1] = {3};
    const char *path = scratch_path(&scratch, "i.npy");
    struct fg_error err;
    assert_int_equal(fg_npy_write(path, FG_NPY_I16, 1, shape, values, &err), 0);
    struct fg_tensors *t;
    assert_int_equal(fg_tensors_open(&t, path, &err), 0);
    struct fg_tensor_view v = fg_tensors_at(t, 0);
    double out[3];
    assert_int_equal(fg_tensors_read(t, &v, 0, 3, out, &err), 0);
    for (int i = 0; i < 3; i++)
        assert_true(out[i] == values[i]);
    fg_tensors_close(t);
}

static void test_safetensors(void **state)
{
    (void)state;
    static const char header[] =
        "{\"a.b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},"
        "\"c\":{\"dtype\":\"F8_E4M3\",\"shape\":[1,1],\"data_offsets\":[4,5]}}";
    char file[512] = {0};
    file[0] = (char)(sizeof header - 1);
    memcpy(file + 8, header, sizeof header - 1);
    static const uint8_t data[5] = {0x80, 0x3F, 0x00, 0xC0, 0x38}; // 1, -2, 1
    memcpy(file + 8 + sizeof header - 1, data, 5);
    const char *path = scratch_write(&scratch, "x.safetensors", file, 8 + sizeof header - 1 + 5);
    struct fg_error err;
    struct fg_tensors *t;
    assert_int_equal(fg_tensors_open(&t, path, &err), 0);
    struct fg_tensor_view v;
    double out[2];
    assert_true(fg_tensors_find(t, "a.b", &v));
    assert_string_equal(v.dtype, "BF16");
    assert_int_equal(fg_tensors_read(t, &v, 0, 2, out, &err), 0);
    assert_true(out[0] == 1 && out[1] == -2);
    assert_true(fg_tensors_find(t, "c", &v));
    assert_int_equal(fg_tensors_read(t, &v, 0, 1, out, &err), 0);
    assert_true(out[0] == 1);
    fg_tensors_close(t);
}

static void test_unknown_content(void **state)
{
    (void)state;
    struct fg_error err;
    struct fg_tensors *t;
    const char *path = scratch_write(&scratch, "readme.txt", "hello, world", 12);
    assert_int_equal(fg_tensors_open(&t, path, &err), FG_EINPUT);
    assert_null(t);
    assert_string_equal(err.expected, "safetensors, GGUF or npy");
    assert_int_equal(fg_tensors_open(&t, scratch_path(&scratch, "missing"), &err), FG_EINPUT);
}

static void test_patterns(void **state)
{
    (void)state;
    assert_true(fg_tensor_matches("layers.0.*", "model.layers.0.mlp.up_proj.weight"));
    assert_true(fg_tensor_matches("*", "a"));
    assert_true(fg_tensor_matches("weight", "model.norm.weight"));
    assert_true(fg_tensor_matches("blk.[01].attn_?.weight", "blk.1.attn_q.weight"));
    assert_false(fg_tensor_matches("layers.0.*", "model.layers.10.mlp"));
    assert_false(fg_tensor_matches("ayers.*", "model.layers.1"));
}

static void test_ids(void **state)
{
    (void)state;
    int32_t *ids;
    size_t n;
    struct fg_error err;
    assert_int_equal(fg_eval_parse_ids(" 1,2\n\t3,,2147483647 ", 20, NULL, &ids, &n, &err), 0);
    assert_int_equal(n, 4);
    assert_int_equal(ids[3], INT32_MAX);
    free(ids);
    static const char *const bad[] = {"",    ",",          "1;2", "-1",
                                      "1.0", "2147483648", "1 x", "99999999999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int rc = fg_eval_parse_ids(bad[i], strlen(bad[i]), NULL, &ids, &n, &err);
        if (rc != FG_EINPUT) print_error("'%s' is taken\n", bad[i]);
        assert_int_equal(rc, FG_EINPUT);
        assert_null(ids);
    }
    static const int64_t wide[2] = {5, (int64_t)1 << 31};
    static const uint64_t shape[1] = {2};
    const char *path = scratch_path(&scratch, "ids.npy");
    assert_int_equal(fg_npy_write(path, FG_NPY_I64, 1, shape, wide, &err), 0);
    assert_int_equal(fg_eval_read_ids(path, &ids, &n, &err), FG_EINPUT);
    assert_string_equal(err.field, "token 1");
    static const int32_t narrow[2] = {5, 6};
    assert_int_equal(fg_npy_write(path, FG_NPY_I32, 1, shape, narrow, &err), 0);
    assert_int_equal(fg_eval_read_ids(path, &ids, &n, &err), 0);
    assert_int_equal(n, 2);
    assert_memory_equal(ids, narrow, sizeof narrow);
    free(ids);
    assert_int_equal(fg_npy_write(path, FG_NPY_F32, 1, shape, narrow, &err), 0);
    assert_int_equal(fg_eval_read_ids(path, &ids, &n, &err), FG_EINPUT);
    assert_string_equal(err.field, "dtype");
}

static int group_setup(void **state)
{
    (void)state;
    scratch_open(&scratch);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    scratch_close(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npy),         cmocka_unit_test(test_integers),
        cmocka_unit_test(test_safetensors), cmocka_unit_test(test_unknown_content),
        cmocka_unit_test(test_patterns),    cmocka_unit_test(test_ids),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
