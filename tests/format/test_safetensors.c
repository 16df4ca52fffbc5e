// Checkpoints: what is written reads back; every check of specs/model.md section 10 is reached.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "format/safetensors.h"
#include "support/scratch.h"
#include <dirent.h>

static struct scratch tmp;

static const char *write_raw(const char *name, uint64_t header_bytes, const char *header,
                             size_t data_bytes)
{
    struct fg_buf b = {0};
    for (int i = 0; i < 8; i++) {
        fg_buf_char(&b, (char)(header_bytes >> (8 * i) & 0xFF));
    }
    fg_buf_str(&b, header);
    for (size_t i = 0; i < data_bytes; i++) {
        fg_buf_char(&b, (char)i);
    }
    const char *path = scratch_write(&tmp, name, b.data, b.len);
    fg_buf_free(&b);
    return path;
}

static const char *write_file(const char *name, const char *header, size_t data_bytes)
{
    return write_raw(name, strlen(header), header, data_bytes);
}

// Opening fails with FG_EINPUT and a line that names the file and holds `part`.
static void refused(const char *path, const char *part)
{
    struct fg_checkpoint *c;
    struct fg_error err = {0};
    char line[1024];
    int rc = fg_checkpoint_open(&c, path, &err);
    fg_error_line(&err, line, sizeof line);
    if (rc != FG_EINPUT || c || !strstr(line, part) || !strstr(line, tmp.dir)) {
        fail_msg("rc %d, \"%s\", wanted \"%s\"", rc, line, part);
    }
}

static void reads_every_dtype(void **state)
{
    (void)state;
    struct fg_buf h = {0};
    uint64_t at = 0;
    fg_buf_str(&h, "{ \"__metadata__\" : {\"format\":\"pt\", \"k\\u00e9\\ud83d\\ude00\": \"v\"}");
    for (int t = FG_ST_N_DTYPES - 1; t >= 0; t--) {
        uint64_t bytes = 6 * fg_st_dtype_bytes((enum fg_st_dtype)t);
        fg_buf_printf(&h, ",\n\"t%d\":{\"data_offsets\":[%d,%d],\"shape\":[2,3],\"dtype\":\"%s\"}",
                      t, (int)at, (int)(at + bytes), fg_st_dtype_name((enum fg_st_dtype)t));
        at += bytes;
    }
    fg_buf_printf(&h, ",\"scalar\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[%d,%d]}",
                  (int)at, (int)at + 1);
    fg_buf_str(&h, ",\"none\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[0,0]}}    ");
    const char *path = write_file("all.safetensors", h.data, at + 1);

    struct fg_checkpoint *c;
    struct fg_error err = {0};
    assert_int_equal(fg_checkpoint_open(&c, path, &err), 0);
    assert_int_equal(fg_checkpoint_count(c), FG_ST_N_DTYPES + 2);
    at = 0;
    for (int t = FG_ST_N_DTYPES - 1; t >= 0; t--) {
        char name[16];
        snprintf(name, sizeof name, "t%d", t);
        const struct fg_st_tensor *x = fg_checkpoint_find(c, name);
        assert_non_null(x);
        assert_int_equal(x->dtype, t);
        assert_int_equal(x->rank, 2);
        assert_int_equal(x->shape[0], 2);
        assert_int_equal(x->shape[1], 3);
        assert_int_equal(x->data[0], at & 0xFF);
        assert_int_equal(x->bytes, 6 * fg_st_dtype_bytes(x->dtype));
        assert_string_equal(x->file, path);
        at += x->bytes;
    }
    assert_int_equal(fg_checkpoint_find(c, "scalar")->rank, 0);
    assert_int_equal(fg_checkpoint_find(c, "none")->bytes, 0);
    assert_null(fg_checkpoint_find(c, "t99"));
    assert_null(fg_checkpoint_find(c, ""));
    const char *key, *value;
    assert_int_equal(fg_checkpoint_n_metadata(c), 2);
    fg_checkpoint_metadata(c, 1, &key, &value);
    assert_string_equal(key, "k\xC3\xA9\xF0\x9F\x98\x80");
    assert_string_equal(value, "v");
    fg_checkpoint_close(c);
    fg_buf_free(&h);
}

#define T(name, dtype, shape, a, b)                                                                \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" a "," b "]}"

static void refuses_bad_headers(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *part;
    } cases[] = {
        {"{" T("a", "F32", "[2]", "0", "8") "," T("b", "F32", "[2]", "4", "12") "}", 12, "overlap"},
        {"{" T("a", "F32", "[2]", "0", "8") "," T("b", "F32", "[1]", "12", "16") "}", 16, "hole"},
        {"{" T("a", "F32", "[2]", "4", "12") "}", 12, "hole"},
        {"{" T("a", "F32", "[2]", "0", "8") "}", 12, "end of file"},
        {"{" T("a", "F32", "[2]", "0", "8") "}", 7, "end of file"},
        {"{" T("a", "F32", "[3]", "0", "8") "}", 8, "12 bytes apart"},
        {"{" T("a", "F32", "[2]", "8", "0") "}", 8, "8 bytes apart"},
        {"{" T("a", "F31", "[2]", "0", "8") "}", 8, "known dtype"},
        {"{" T("a", "F32", "[4294967296,4294967296]", "0", "0") "}", 0, "overflow"},
        {"{" T("a", "F32", "[4611686018427387904]", "0", "0") "}", 0, "overflow"},
        {"{" T("a", "F32", "[18446744073709551616]", "0", "0") "}", 0, "integer"},
        {"{" T("a", "F32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, "rank"},
        {"{" T("a", "F32", "[2.0]", "0", "8") "}", 8, "integer"},
        {"{" T("a", "F32", "[-2]", "0", "8") "}", 8, "integer"},
        {"{" T("a", "F32", "[02]", "0", "8") "}", 8, "integer"},
        {"{" T("a", "F32", "[2,]", "0", "8") "}", 8, "value after ','"},
        {"{" T("a", "F32", "[2]", "0", "18446744073709551615") "}", 8, "apart"},
        {"{" T("a", "F32", "[1]", "0", "4") "," T("a", "F32", "[1]", "4", "8") "}", 8, "two"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]}}", 2,
         "once"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, "\"x\""},
        {"{\"a\":[1]}", 0, "'{'"},
        {"{\"a\":{\"dtype\":7}}", 0, "a string"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "a string"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice"},
        {"{} x", 0, "nothing more"},
        {"{  ", 0, "a string"},
        {"[]  ", 0, "'{'"},
        {" {}", 0, "'{'"},
        {"{\"a\xFF\":1}", 0, "UTF-8"},
        {"{\"a\\u0000\":1}", 0, "u0001"},
        {"{\"a\\ud800\":1}", 0, "surrogate"},
        {"{\"a\\q\":1}", 0, "escape"},
        {"{\"a\nb\":1}", 0, "JSON byte"},
        {"{\"a", 0, "end of the text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        refused(write_file("bad.safetensors", cases[i].header, cases[i].data), cases[i].part);
    }
    char *name = malloc(2000);
    memset(name, 'n', 2000);
    memcpy(name, "{\"", 2);
    strcpy(name + 1900, "\":{}}");
    refused(write_file("bad.safetensors", name, 0), "1024");
    free(name);
}

static void refuses_bad_lengths(void **state)
{
    (void)state;
    static const char header[] = "{" T("a", "U8", "[9]", "0", "9") "}";
    refused(write_raw("len.safetensors", UINT64_MAX, header, 9), "header length");
    refused(write_raw("len.safetensors", 1ull << 63, header, 9), "header length");
    refused(write_raw("len.safetensors", 100000001, header, 9), "header length");
    refused(write_raw("len.safetensors", sizeof header - 1 + 10, header, 9), "header length");
    refused(write_raw("len.safetensors", 0, header, 9), "header length");
    refused(write_raw("len.safetensors", 1, header, 9), "header length");
    refused(write_raw("len.safetensors", sizeof header - 2, header, 9), "JSON byte");
    refused(scratch_write(&tmp, "len.safetensors", "", 0), "size");
    refused(scratch_path(&tmp, "missing.safetensors"), "open");
    refused(tmp.dir, "neither");
}

static void refuses_every_truncation(void **state)
{
    (void)state;
    struct fg_buf whole = {0};
    struct fg_error err = {0};
    write_file("whole.safetensors",
               "{" T("a", "F32", "[2,2]", "0", "16") "," T("b", "BF16", "[5]", "16", "26") "}   ",
               26);
    assert_int_equal(fg_file_read(&whole, tmp.path, 1 << 20, &err), 0);
    for (size_t n = 0; n < whole.len; n++) {
        refused(scratch_write(&tmp, "cut.safetensors", whole.data, n), "safetensors");
    }
    fg_buf_free(&whole);
}

static int count_files(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
    }
    closedir(d);
    return n;
}

// Writes three tensors in pieces of `step` bytes and reads them back.
static void round_trip(const char *name, uint64_t shard_bytes_max, size_t step, uint64_t n_files)
{
    static const struct fg_st_spec specs[] = {
        {"model.a", FG_ST_F32, 2, {3, 5}},
        {"model.\"b\" \xC3\xA9", FG_ST_BF16, 1, {7}},
        {"model.empty", FG_ST_U8, 1, {0}},
        {"model.c", FG_ST_I64, 3, {1, 2, 3}},
    };
    uint8_t data[60 + 14 + 48];
    struct fg_st_writer *w;
    struct fg_error err = {0};
    char dir[512];
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (uint8_t)(i * 7 + 1);
    }
    strcpy(dir, scratch_path(&tmp, name));
    assert_int_equal(mkdir(dir, 0777), 0);
    assert_int_equal(fg_st_writer_open(&w, dir, specs, 4, shard_bytes_max, &err), 0);
    assert_int_equal(fg_st_writer_bytes(w), sizeof data);
    for (size_t i = 0; i < sizeof data; i += step) {
        size_t n = sizeof data - i < step ? sizeof data - i : step;
        assert_int_equal(fg_st_writer_add(w, data + i, n, &err), 0);
    }
    assert_int_equal(fg_st_writer_add(w, data, 1, &err), FG_EINPUT);
    assert_int_equal(fg_st_writer_commit(w, &err), 0);
    assert_int_equal(count_files(dir), n_files > 1 ? n_files + 1 : 1);

    struct fg_checkpoint *c;
    assert_int_equal(fg_checkpoint_open(&c, dir, &err), 0);
    assert_int_equal(fg_checkpoint_count(c), 4);
    assert_int_equal(fg_checkpoint_n_files(c), n_files);
    assert_int_equal(fg_checkpoint_n_warnings(c), 0);
    size_t at = 0;
    for (int i = 0; i < 4; i++) {
        const struct fg_st_tensor *t = fg_checkpoint_find(c, specs[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, specs[i].dtype);
        assert_int_equal(t->rank, specs[i].rank);
        assert_memory_equal(t->shape, specs[i].shape, sizeof t->shape);
        assert_memory_equal(t->data, data + at, t->bytes);
        at += t->bytes;
    }
    assert_int_equal((uintptr_t)fg_checkpoint_find(c, "model.a")->data % 64, 0);
    fg_checkpoint_close(c);
}

static void writes_what_it_reads(void **state)
{
    (void)state;
    round_trip("one", 0, 1000, 1);
    round_trip("bytes", 0, 1, 1);
    round_trip("shards", 64, 1000, 2);
    round_trip("shards_bytes", 1, 3, 3);
}

static void abort_leaves_nothing(void **state)
{
    (void)state;
    static const struct fg_st_spec specs[] = {{"a", FG_ST_U8, 1, {4}}, {"b", FG_ST_U8, 1, {4}}};
    static const struct fg_st_spec twins[] = {{"a", FG_ST_U8, 1, {4}}, {"a", FG_ST_U8, 1, {4}}};
    static const struct fg_st_spec vast[] = {{"a", FG_ST_F64, 2, {1ull << 40, 1ull << 40}}};
    struct fg_st_writer *w;
    struct fg_error err = {0};
    char dir[512];
    strcpy(dir, scratch_path(&tmp, "abort"));
    assert_int_equal(mkdir(dir, 0777), 0);
    assert_int_equal(fg_st_writer_open(&w, dir, specs, 2, 4, &err), 0);
    assert_int_equal(fg_st_writer_add(w, "abcdef", 6, &err), 0);
    assert_int_equal(count_files(dir), 2);
    assert_int_equal(fg_st_writer_commit(w, &err), FG_EINPUT);
    fg_st_writer_abort(w);
    assert_int_equal(count_files(dir), 0);
    assert_int_equal(fg_st_writer_open(&w, dir, twins, 2, 0, &err), FG_EINPUT);
    assert_int_equal(fg_st_writer_open(&w, dir, vast, 1, 0, &err), FG_EINPUT);
    assert_null(w);
    assert_int_equal(count_files(dir), 0);
    fg_st_writer_abort(NULL);
}

static void index_is_checked(void **state)
{
    (void)state;
    struct {
        const char *index, *part;
    } cases[] = {
        {"{\"weight_map\":{\"a\":\"x.safetensors\",\"b\":\"y.safetensors\"}}", "no such tensor"},
        {"{\"weight_map\":{\"a\":\"x.safetensors\",\"a\":\"y.safetensors\"}}", "two"},
        {"{\"weight_map\":{\"a\":\"../x.safetensors\"}}", "plain file name"},
        {"{\"weight_map\":{\"a\":\"sub/x.safetensors\"}}", "plain file name"},
        {"{\"weight_map\":{\"a\":\"\"}}", "plain file name"},
        {"{\"weight_map\":{\"a\":\"..\"}}", "plain file name"},
        {"{\"weight_map\":{\"a\":\"z.safetensors\"}}", "z.safetensors"},
        {"{\"weight_map\":{\"a\":7}}", "a string"},
        {"{\"weight_map\":{},\"weight_map\":{}}", "twice"},
        {"{\"weight_map\":{}}", "weight_map"},
        {"{\"metadata\":{}}", "weight_map"},
        {"[]", "'{'"},
        {"", "'{'"},
        {"{\"metadata\":{\"a\":[1,{\"b\":nul}]}}", "JSON"},
    };
    char dir[512];
    strcpy(dir, scratch_path(&tmp, "sharded"));
    assert_int_equal(mkdir(dir, 0777), 0);
    write_file("sharded/x.safetensors",
               "{" T("a", "U8", "[2]", "0", "2") "," T("extra", "U8", "[1]", "2", "3") "}", 3);
    write_file("sharded/y.safetensors",
               "{" T("a", "U8", "[1]", "0", "1") "," T("c", "U8", "[2]", "1", "3") "}", 3);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        scratch_write(&tmp, "sharded/model.safetensors.index.json", cases[i].index,
                      strlen(cases[i].index));
        refused(dir, cases[i].part);
    }
    struct fg_buf deep = {0};
    fg_buf_str(&deep, "{\"metadata\":");
    for (int i = 0; i < 100000; i++) {
        fg_buf_char(&deep, '[');
    }
    scratch_write(&tmp, "sharded/model.safetensors.index.json", deep.data, deep.len);
    refused(dir, "nested");
    fg_buf_free(&deep);

    static const char good[] = "{\"metadata\":{\"total_size\":5.0e0,\"x\":[true,null,-1.5E+3]},"
                               "\"weight_map\":{\"c\":\"y.safetensors\",\"a\":\"x.safetensors\"}}";
    scratch_write(&tmp, "sharded/model.safetensors.index.json", good, sizeof good - 1);
    struct fg_checkpoint *c;
    struct fg_error err = {0};
    assert_int_equal(fg_checkpoint_open(&c, dir, &err), 0);
    assert_int_equal(fg_checkpoint_count(c), 2);
    assert_int_equal(fg_checkpoint_find(c, "a")->bytes, 2); // of x, not of y
    assert_null(fg_checkpoint_find(c, "extra"));
    assert_int_equal(fg_checkpoint_n_warnings(c), 2);
    assert_non_null(strstr(fg_checkpoint_warning(c, 0), "extra"));
    fg_checkpoint_close(c);

    write_file("sharded/model.safetensors", "{" T("s", "U8", "[2]", "0", "2") "}", 2);
    assert_int_equal(fg_checkpoint_open(&c, dir, &err), 0);
    assert_non_null(fg_checkpoint_find(c, "s"));
    assert_int_equal(fg_checkpoint_n_warnings(c), 1);
    fg_checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_dtype),    cmocka_unit_test(refuses_bad_headers),
        cmocka_unit_test(refuses_bad_lengths),  cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(writes_what_it_reads), cmocka_unit_test(abort_leaves_nothing),
        cmocka_unit_test(index_is_checked),
    };
    scratch_open(&tmp);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close(&tmp);
    return failed;
}
