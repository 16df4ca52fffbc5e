// NumPy arrays: written files read back and have NumPy's exact bytes; bad headers are refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/error.h"
#include "format/npy.h"
#include "support/scratch.h"

static struct scratch tmp;

static const char *write_file(int major, const char *header, size_t data_bytes)
{
    struct fg_buf b = {0};
    size_t n = strlen(header);
    fg_buf_add(&b, "\x93NUMPY", 6);
    fg_buf_char(&b, (char)major);
    fg_buf_char(&b, 0);
    for (int i = 0; i < (major == 1 ? 2 : 4); i++) {
        fg_buf_char(&b, (char)(n >> (8 * i) & 0xFF));
    }
    fg_buf_str(&b, header);
    for (size_t i = 0; i < data_bytes; i++) {
        fg_buf_char(&b, (char)i);
    }
    const char *path = scratch_write(&tmp, "raw.npy", b.data, b.len);
    fg_buf_free(&b);
    return path;
}

static void refused(const char *path, const char *part)
{
    struct fg_npy npy;
    struct fg_error err = {0};
    char line[1024];
    int rc = fg_npy_open(&npy, path, &err);
    fg_error_line(&err, line, sizeof line);
    if (rc != FG_EINPUT || npy.data || !strstr(line, part) || !strstr(line, path)) {
        fail_msg("rc %d, \"%s\", wanted \"%s\"", rc, line, part);
    }
}

static void round_trips(void **state)
{
    (void)state;
    static const struct {
        int rank;
        uint64_t shape[4];
    } shapes[] = {{0, {0}}, {1, {5}}, {2, {3, 4}}, {4, {2, 1, 3, 2}}, {2, {0, 9}}};
    uint8_t data[12 * 8];
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (uint8_t)(i * 5 + 3);
    }
    for (int t = 0; t < FG_NPY_N_DTYPES; t++) {
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            struct fg_npy npy;
            struct fg_error err = {0};
            const char *path = scratch_path(&tmp, "trip.npy");
            enum fg_npy_dtype dtype = (enum fg_npy_dtype)t;
            assert_int_equal(fg_npy_write(path, dtype, shapes[i].rank, shapes[i].shape, data, &err),
                             0);
            assert_int_equal(fg_npy_open(&npy, path, &err), 0);
            assert_int_equal(npy.dtype, t);
            assert_int_equal(npy.rank, shapes[i].rank);
            for (int k = 0; k < npy.rank; k++) {
                assert_int_equal(npy.shape[k], shapes[i].shape[k]);
            }
            assert_int_equal((uintptr_t)npy.data % 64, 0);
            assert_memory_equal(npy.data, data, npy.n * fg_npy_dtype_bytes(dtype));
            fg_npy_close(&npy);
        }
    }
}

// numpy.save of a [2][3] float32 array gives this header.
static void writes_as_numpy(void **state)
{
    (void)state;
    static const char header[] =
        "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
        "                                                          \n";
    static const uint64_t shape[] = {2, 3};
    float data[6] = {1, 2, 3, 4, 5, 6};
    struct fg_error err = {0};
    struct fg_map map;
    const char *path = scratch_path(&tmp, "numpy.npy");
    assert_int_equal(fg_npy_write(path, FG_NPY_F32, 2, shape, data, &err), 0);
    assert_int_equal(fg_map_open(&map, path, &err), 0);
    assert_int_equal(map.bytes, 128 + sizeof data);
    assert_memory_equal(map.data, header, 128);
    assert_memory_equal(map.data + 128, data, sizeof data);
    fg_map_close(&map);
}

static void reads_other_writers(void **state)
{
    (void)state;
    struct fg_npy npy;
    struct fg_error err = {0};
    const char *path =
        write_file(2, "{\"shape\":(2,3,),\"descr\":\"<u2\",\"fortran_order\":False}\n", 12);
    assert_int_equal(fg_npy_open(&npy, path, &err), 0);
    assert_int_equal(npy.n, 6);
    assert_int_equal(npy.dtype, FG_NPY_U16);
    fg_npy_close(&npy);
    path = write_file(1, "{'descr': '<i1', 'fortran_order': False, 'shape': (), } \n", 1);
    assert_int_equal(fg_npy_open(&npy, path, &err), 0);
    assert_int_equal(npy.rank, 0);
    assert_int_equal(npy.n, 1);
    fg_npy_close(&npy);
}

static void refuses_bad_files(void **state)
{
    (void)state;
#define H(descr, order, shape)                                                                     \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape "}"
    static const struct {
        const char *header;
        size_t data;
        const char *part;
    } cases[] = {
        {H("'>f4'", "False", "(2,)"), 8, "little-endian"},
        {H("'<c8'", "False", "(2,)"), 16, "little-endian"},
        {H("'|O'", "False", "(2,)"), 16, "little-endian"},
        {H("''", "False", "(2,)"), 16, "little-endian"},
        {H("[('a', '<f4')]", "False", "(2,)"), 8, "plain dtype"},
        {H("'<f4'", "True", "(2,)"), 8, "fortran_order"},
        {H("'<f4'", "False", "(2,)"), 7, "8 bytes"},
        {H("'<f4'", "False", "(2,)"), 9, "8 bytes"},
        {H("'<f4'", "False", "(-2,)"), 8, "extent"},
        {H("'<f4'", "False", "(2 3)"), 24, "',' or ')'"},
        {H("'<f4'", "False", "2"), 8, "tuple"},
        {H("'<f4'", "False", "(4294967296, 4294967296)"), 0, "overflow"},
        {H("'<f8'", "False", "(4611686018427387904,)"), 0, "overflow"},
        {H("'<f4'", "False", "(99999999999999999999,)"), 0, "below 2^64"},
        {H("'<f4'", "False", "(1,1,1,1,1,1,1,1,1)"), 4, "rank"},
        {"{'descr': '<f4', 'descr': '<f4'}", 4, "once each"},
        {"{'descr': '<f4', 'shape': (1,)}", 4, "once each"},
        {"{'x': 1}", 4, "once each"},
        {"{'descr", 4, "a key"},
        {H("'<f4'", "False", "(1,)") " x", 4, "spaces"},
        {H("'<f4'", "False", "(1,"), 4, "an extent"},
        {"", 4, "'{'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        refused(write_file(1, cases[i].header, cases[i].data), cases[i].part);
    }
    refused(write_file(3, "{}", 0), "version");
    refused(write_file(0, "{}", 0), "version");
    refused(scratch_write(&tmp, "raw.npy", "\x93NUMPX\x01\0\x02\0{}", 12), "magic");
    refused(scratch_write(&tmp, "raw.npy", "\x93NUMPY\x02\0\xFF\xFF\xFF\xFF{}", 14), "length");
    refused(scratch_write(&tmp, "raw.npy", "\x93NUMPY\x01\0\xFF\xFF{}", 12), "length");
    char whole[256];
    static const char good[] = H("'<f4'", "False", "(3,)");
    FILE *f = fopen(write_file(1, good, 12), "rb");
    size_t n = fread(whole, 1, sizeof whole, f);
    fclose(f);
    for (size_t i = 0; i < n; i++) {
        refused(scratch_write(&tmp, "raw.npy", whole, i), "npy");
    }
}

static void stream_is_counted(void **state)
{
    (void)state;
    static const uint64_t shape[] = {3, 2};
    static const uint64_t vast[] = {1ull << 40, 1ull << 40};
    float row[2] = {1, 2};
    struct fg_npy_writer w;
    struct fg_npy npy;
    struct fg_error err = {0};
    const char *path = scratch_path(&tmp, "stream.npy");
    assert_int_equal(fg_npy_writer_open(&w, path, FG_NPY_F32, 2, shape, &err), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fg_npy_writer_add(&w, row, sizeof row, &err), 0);
    }
    assert_int_equal(fg_npy_writer_commit(&w, &err), FG_EINPUT);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(fg_npy_writer_open(&w, path, FG_NPY_F32, 2, shape, &err), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fg_npy_writer_add(&w, row, sizeof row, &err), 0);
    }
    assert_int_equal(fg_npy_writer_add(&w, row, 1, &err), FG_EINPUT);
    assert_int_equal(fg_npy_writer_commit(&w, &err), 0);
    assert_int_equal(fg_npy_open(&npy, path, &err), 0);
    assert_memory_equal((const float *)npy.data + 4, row, sizeof row);
    fg_npy_close(&npy);
    assert_int_equal(fg_npy_writer_open(&w, path, FG_NPY_F32, 2, vast, &err), FG_EINPUT);
    assert_int_equal(fg_npy_writer_open(&w, path, FG_NPY_F32, 9, shape, &err), FG_EINPUT);
    fg_npy_writer_abort(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),         cmocka_unit_test(writes_as_numpy),
        cmocka_unit_test(reads_other_writers), cmocka_unit_test(refuses_bad_files),
        cmocka_unit_test(stream_is_counted),
    };
    scratch_open(&tmp);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close(&tmp);
    return failed;
}
