// SHA-256 on the vectors of FIPS 180-4 and the NIST example values; FNV-1a on its published ones.
#include "base/hash.h"
#include "support/scratch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const struct {
    const char *text, *hex;
} vectors[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
     "lmnopqrsmnopqrstnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
};
static const char million_a[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

static void test_vectors(void **state)
{
    (void)state;
    char hex[FG_SHA256_HEX];
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        assert_true(fg_sha256_hex(vectors[i].text, strlen(vectors[i].text), hex));
        assert_string_equal(hex, vectors[i].hex);
    }
    assert_true(fg_sha256_hex(NULL, 0, hex)); // what an empty map gives
    assert_string_equal(hex, vectors[0].hex);
}

static void test_pieces_of_any_length(void **state)
{
    (void)state;
    char block[1000], hex[FG_SHA256_HEX];
    memset(block, 'a', sizeof block);
    for (uint64_t piece = 1; piece <= 1000; piece += 37) {
        struct fg_sha256 *h = fg_sha256_new();
        assert_non_null(h);
        for (uint64_t done = 0; done < 1000000; done += piece)
            fg_sha256_add(h, block, 1000000 - done < piece ? 1000000 - done : piece);
        fg_sha256_add(h, block, 0);
        fg_sha256_end(h, hex);
        assert_string_equal(hex, million_a);
    }
}

static void test_bytes_are_what_the_digits_say(void **state)
{
    (void)state;
    struct fg_sha256 *h = fg_sha256_new();
    uint8_t digest[FG_SHA256_BYTES];
    char hex[FG_SHA256_HEX];
    assert_non_null(h);
    fg_sha256_add(h, "abc", 3);
    fg_sha256_end_bytes(h, digest);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(hex, vectors[1].hex);
}

static void test_files(void **state)
{
    struct scratch *s = *state;
    char hex[FG_SHA256_HEX];
    struct fg_error err;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        const char *path = scratch_write(s, "v", vectors[i].text, strlen(vectors[i].text));
        assert_int_equal(fg_sha256_file(path, hex, &err), 0);
        assert_string_equal(hex, vectors[i].hex);
    }
    assert_int_equal(fg_sha256_file(scratch_path(s, "none"), hex, &err), FG_EINPUT);
    assert_string_equal(hex, "");
    assert_int_equal(fg_sha256_file(s->dir, hex, &err), FG_EINPUT);
}

// Files are read in steps of 16 MiB.
static void test_a_file_of_two_steps(void **state)
{
    struct scratch *s = *state;
    char hex[FG_SHA256_HEX], want[FG_SHA256_HEX];
    struct fg_error err;
    const size_t n = ((size_t)16 << 20) + 5;
    char *data = malloc(n);
    assert_non_null(data);
    for (size_t i = 0; i < n; i++)
        data[i] = (char)(i * 7 + (i >> 13));
    assert_true(fg_sha256_hex(data, n, want));
    assert_int_equal(fg_sha256_file(scratch_write(s, "big", data, n), hex, &err), 0);
    assert_string_equal(hex, want);
    free(data);
}

// 5 GiB of zeros that take no space on disk: sizes beyond 32 bits. The value is sha256sum's. Half a
// minute: only on request.
static void test_a_file_beyond_4_gib(void **state)
{
    struct scratch *s = *state;
    char hex[FG_SHA256_HEX];
    struct fg_error err;
    if (!getenv("FORGE_TEST_SLOW")) skip();
    const char *path = scratch_write(s, "big", "", 0);
    assert_int_equal(truncate(path, (off_t)5 << 30), 0);
    assert_int_equal(fg_sha256_file(path, hex, &err), 0);
    assert_string_equal(hex, "7f06c62352aebd8125b2a1841e2b9e1ffcbed602f381c3dcb3200200e383d1d5");
}

static void test_fnv1a(void **state)
{
    (void)state;
    assert_true(fg_fnv1a("", 0) == 0xCBF29CE484222325u);
    assert_true(fg_fnv1a("a", 1) == 0xAF63DC4C8601EC8Cu);
    assert_true(fg_fnv1a("foobar", 6) == 0x85944171F73967E8u);
}

static int setup(void **state)
{
    static struct scratch s;
    scratch_open(&s);
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    scratch_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_pieces_of_any_length),
        cmocka_unit_test(test_bytes_are_what_the_digits_say),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_a_file_of_two_steps),
        cmocka_unit_test(test_a_file_beyond_4_gib),
        cmocka_unit_test(test_fnv1a),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
