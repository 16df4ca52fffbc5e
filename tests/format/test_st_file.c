// One safetensors file: what is written reads back, in pieces of any size; nothing is left behind
// when writing fails; packed indices.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/error.h"
#include "base/file.h"
#include "format/bits.h"
#include "format/st_file.h"
#include "support/scratch.h"
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

static struct scratch tmp;

static int files_in_scratch(void)
{
    int n = 0;
    DIR *d = opendir(tmp.dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    }
    closedir(d);
    return n;
}

static const uint8_t bytes[300] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, [299] = 77};
static const struct fg_st_blob blobs[] = {
    {.name = "b", .dtype = FG_ST_U8, .rank = 1, .shape = {7}, .data = bytes},
    {.name = "a", .dtype = FG_ST_F16, .rank = 2, .shape = {3, 50}, .data = bytes},
    {.name = "none", .dtype = FG_ST_F32, .rank = 2, .shape = {0, 9}, .data = bytes},
    {.name = "\xC3\xA9 \"x\"", .dtype = FG_ST_I8, .rank = 0, .data = bytes + 299},
};
static const struct fg_st_pair pairs[] = {{"k", "v\n\"\xC3\xA9"}, {"empty", ""}};
static const struct fg_st_options padded = {
    .metadata = pairs, .n_metadata = 2, .header_align = 4096, .tensor_align = 64, .hash = true};

static void check_file(const char *path, uint64_t align)
{
    struct fg_st_file *f;
    struct fg_error err = {0};
    char line[1024];
    if (fg_st_file_open(&f, "test", path, &err)) fail_msg("%s", fg_error_line(&err, line, 1024));
    const uint8_t *first = fg_st_file_at(f, 0)->data;
    for (size_t i = 0; i < 4; i++) {
        const struct fg_st_tensor *t = fg_st_file_find(f, blobs[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, blobs[i].dtype);
        assert_int_equal(t->rank, blobs[i].rank);
        assert_memory_equal(t->shape, blobs[i].shape, sizeof t->shape);
        assert_memory_equal(t->data, blobs[i].data, t->bytes);
        assert_int_equal((uint64_t)(t->data - first) % align, 0);
    }
    assert_int_equal(fg_st_file_n_metadata(f), 2);
    assert_string_equal(fg_st_file_metadata(f, "k"), pairs[0].value);
    assert_string_equal(fg_st_file_metadata(f, "empty"), "");
    assert_null(fg_st_file_metadata(f, "other"));
    assert_string_equal(fg_st_file_metadata_at(f, 0).key, "k");
    assert_null(fg_st_file_find(f, "c"));
    assert_string_equal(fg_st_file_path(f), path);
    fg_st_file_close(f);
}

static void writes_and_reads(void **state)
{
    (void)state;
    struct fg_error err = {0};
    struct fg_st_written w, again;
    char path[512], sha[FG_SHA256_HEX];
    uint64_t size;
    snprintf(path, sizeof path, "%s/x", tmp.dir);
    assert_int_equal(fg_st_file_write(path, blobs, 4, &padded, &w, &err), 0);
    check_file(path, 64);
    assert_int_equal(fg_sha256_file(path, sha, &err), 0);
    assert_string_equal(sha, w.sha256);
    assert_int_equal(fg_st_file_size(blobs, 4, &padded, &size, &err), 0);
    assert_int_equal(size, w.bytes);
    assert_int_equal(w.bytes, 4096 + 64 + 320 + 1);
    // Any size of piece gives the same bytes.
    static const uint8_t all[] = {1, 2, 3, 4, 5, 6, 7};
    uint8_t data[308];
    memcpy(data, all, 7);
    memcpy(data + 7, bytes, 300);
    data[307] = 77;
    for (uint64_t piece = 1; piece < 400; piece = piece * 3 + 1) {
        struct fg_st_stream *s;
        assert_int_equal(fg_st_stream_open(&s, path, blobs, 4, &padded, &err), 0);
        assert_int_equal(fg_st_stream_bytes(s), w.bytes);
        for (uint64_t at = 0; at < 308; at += piece) {
            uint64_t n = 308 - at < piece ? 308 - at : piece;
            assert_int_equal(fg_st_stream_add(s, data + at, n, &err), 0);
        }
        assert_int_equal(fg_st_stream_commit(s, &again, &err), 0);
        assert_string_equal(again.sha256, w.sha256);
    }
    // Without alignment: no padding tensors, data at 64, no hash.
    struct fg_st_options plain = {.metadata = pairs, .n_metadata = 2};
    assert_int_equal(fg_st_file_write(path, blobs, 4, &plain, &again, &err), 0);
    check_file(path, 1);
    assert_string_equal(again.sha256, "");
    struct fg_st_file *f;
    assert_int_equal(fg_st_file_open(&f, "test", path, &err), 0);
    assert_int_equal(fg_st_file_count(f), 4);
    assert_int_equal(fg_st_file_bytes(f), again.bytes);
    fg_st_file_close(f);
    unlink(path);
}

static void refuses_to_write(void **state)
{
    (void)state;
    struct fg_error err = {0};
    struct fg_st_options plain = {0}, odd = {.tensor_align = 48}, wide = {.tensor_align = 128};
    struct fg_st_blob bad[2] = {blobs[0], blobs[1]};
    char path[512], name[300];
    snprintf(path, sizeof path, "%s/x", tmp.dir);
    memset(name, 'n', sizeof name);
    name[257] = '\0';
    assert_int_equal(fg_st_file_write(path, bad, 2, &odd, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_st_file_write(path, bad, 2, &wide, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_st_file_write(path, bad, 0, &plain, NULL, &err), FG_EINPUT);
    const char *const names[] = {"a", "", name, "~pad.0", "__metadata__", "a\nb"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        bad[0].name = names[i];
        assert_int_equal(fg_st_file_write(path, bad, 2, &plain, NULL, &err), FG_EINPUT);
    }
    bad[0] = blobs[0];
    bad[0].rank = 9;
    assert_int_equal(fg_st_file_write(path, bad, 2, &plain, NULL, &err), FG_EINPUT);
    bad[0].rank = 1;
    bad[0].shape[0] = 1ull << 40;
    assert_int_equal(fg_st_file_write(path, bad, 2, &plain, NULL, &err), FG_EINPUT);
    bad[0] = (struct fg_st_blob){"x", FG_ST_F64, 3, {1ull << 39, 1ull << 39, 2}, NULL};
    assert_int_equal(fg_st_file_write(path, bad, 2, &plain, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_st_file_write("/nowhere/x", blobs, 2, &plain, NULL, &err), FG_EINPUT);
    assert_int_equal(files_in_scratch(), 0);
}

static void leaves_nothing(void **state)
{
    (void)state;
    struct fg_error err = {0};
    struct fg_st_stream *s;
    char path[512];
    snprintf(path, sizeof path, "%s/x", tmp.dir);
    scratch_write(&tmp, "x", "old", 3);
    assert_int_equal(fg_st_stream_open(&s, path, blobs, 4, &padded, &err), 0);
    assert_int_equal(fg_st_stream_add(s, bytes, 200, &err), 0);
    assert_int_equal(fg_st_stream_commit(s, NULL, &err), FG_EINPUT); // 108 bytes are missing
    assert_int_equal(fg_st_stream_open(&s, path, blobs, 4, &padded, &err), 0);
    assert_int_equal(fg_st_stream_add(s, bytes, 300, &err), 0);
    assert_int_equal(fg_st_stream_add(s, bytes, 9, &err), FG_EINPUT); // one too many
    fg_st_stream_abort(s);
    fg_st_stream_abort(NULL);
    char old[4] = {0};
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(old, 1, 4, f), 3);
    fclose(f);
    assert_string_equal(old, "old");
    assert_int_equal(files_in_scratch(), 1);
    unlink(path);
}

// Writing that fails at any byte leaves the old file and nothing else.
static void survives_write_errors(void **state)
{
    (void)state;
    struct fg_error err = {0};
    struct rlimit was, small;
    char path[512];
    snprintf(path, sizeof path, "%s/x", tmp.dir);
    scratch_write(&tmp, "x", "old", 3);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    for (rlim_t limit = 0; limit < 4481; limit += 640) {
        small = (struct rlimit){limit, was.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        int rc = fg_st_file_write(path, blobs, 4, &padded, NULL, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
        assert_int_not_equal(rc, 0);
        assert_int_equal(files_in_scratch(), 1);
    }
    signal(SIGXFSZ, handler);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 3);
    unlink(path);
}

static void packs_bits(void **state)
{
    (void)state;
    static const struct {
        int b, n;
        uint8_t idx[8], packed[6];
    } golden[] = {
        {6, 8, {1, 2, 3, 4, 5, 6, 7, 8}, {0x81, 0x30, 0x10, 0x85, 0x71, 0x20}},
        {6, 4, {1, 2, 3, 63}, {0x81, 0x30, 0xFC}},
        {4, 5, {1, 2, 15, 8, 7}, {0x21, 0x8F, 0x07}},
        {4, 2, {5, 10}, {0xA5}},
        {3, 8, {1, 2, 3, 4, 5, 6, 7, 0}, {0xD1, 0x58, 0x1F}},
    };
    uint8_t packed[300], idx[256], back[256];
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        uint64_t n = (uint64_t)golden[i].n;
        assert_true(fg_bits_pack(packed, golden[i].idx, n, golden[i].b));
        assert_memory_equal(packed, golden[i].packed, fg_bits_bytes(n, golden[i].b));
    }
    for (int b = 1; b <= 8; b++) {
        for (uint64_t n = 0; n <= 200; n++) {
            uint64_t size = fg_bits_bytes(n, b);
            for (uint64_t i = 0; i < n; i++) {
                idx[i] = (uint8_t)((i * 37 + n) & ((1u << b) - 1));
            }
            memset(packed, 0xEE, sizeof packed);
            assert_true(fg_bits_pack(packed, idx, n, b));
            assert_int_equal(packed[size], 0xEE);
            assert_true(fg_bits_pad_is_zero(packed, n, b));
            memset(back, 0xEE, sizeof back);
            fg_bits_unpack(back, packed, n, b);
            assert_memory_equal(back, idx, n);
            assert_int_equal(back[n], 0xEE);
            if (n * (uint64_t)b % 8) {
                packed[size - 1] |= 0x80;
                assert_false(fg_bits_pad_is_zero(packed, n, b));
            }
            if (n && b < 8) {
                idx[n / 2] = (uint8_t)(1u << b);
                assert_false(fg_bits_pack(packed, idx, n, b));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_and_reads), cmocka_unit_test(refuses_to_write),
        cmocka_unit_test(leaves_nothing),   cmocka_unit_test(survives_write_errors),
        cmocka_unit_test(packs_bits),
    };
    scratch_open(&tmp);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close(&tmp);
    return failed;
}
