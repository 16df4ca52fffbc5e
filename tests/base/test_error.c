// Error records and their line (specs: cli 1.4).
#include "base/error.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const char *line_of(const struct fg_error *err)
{
    static char line[4096];
    return fg_error_line(err, line, sizeof line);
}

static void test_line_names_all_parts(void **state)
{
    (void)state;
    struct fg_error err;
    int rc = fg_fail(&err, FG_EINPUT, "manifest", "coreai/manifest.json", "entries[2].ctx", "65536",
                     "%d", 65535);
    assert_int_equal(rc, FG_EINPUT);
    assert_int_equal(err.code, FG_EINPUT);
    assert_string_equal(line_of(&err), "manifest: file coreai/manifest.json, field entries[2].ctx: "
                                       "expected 65536, found 65535");
}

static void test_line_leaves_absent_parts_out(void **state)
{
    (void)state;
    static const struct {
        const char *what, *file, *field, *expected, *found, *line;
    } cases[] = {
        {"open", "a.bin", NULL, NULL, "No such file", "open: file a.bin: No such file"},
        {"open", "a", NULL, "a regular file", "a directory",
         "open: file a: expected a regular file, found a directory"},
        {"json", "a", "line 1:2", "JSON", NULL, "json: file a, field line 1:2: expected JSON"},
        {"option", NULL, "--ctx", "a number", "x",
         "option: field --ctx: expected a number, found x"},
        {"threads", NULL, NULL, NULL, "none left", "threads: none left"},
        {"threads", NULL, NULL, "1", "2", "threads: expected 1, found 2"},
        {"busy", NULL, NULL, NULL, NULL, "busy"},
        {NULL, "f", "g", NULL, NULL, "file f, field g"},
        {NULL, NULL, NULL, NULL, "just this", "just this"},
        {NULL, NULL, NULL, NULL, NULL, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fg_error err;
        if (cases[i].found)
            fg_fail(&err, 1, cases[i].what, cases[i].file, cases[i].field, cases[i].expected, "%s",
                    cases[i].found);
        else
            fg_fail(&err, 1, cases[i].what, cases[i].file, cases[i].field, cases[i].expected, NULL);
        assert_string_equal(line_of(&err), cases[i].line);
        assert_string_equal(err.hint, "");
    }
}

static void test_error_may_be_null(void **state)
{
    (void)state;
    assert_int_equal(fg_fail(NULL, FG_EBUSY, "x", "y", "z", "e", "%d", 1), FG_EBUSY);
    assert_int_equal(fg_fail_range(NULL, "x", "y", "z", 1, 2, 3), FG_EINPUT);
    assert_int_equal(fg_fail_memory(NULL, "x", 1), FG_ERESOURCE);
    fg_error_hint(NULL, "hint %d", 1);
}

static void test_helpers_fill_code_and_text(void **state)
{
    (void)state;
    struct fg_error err;
    fg_fail_range(&err, "config", "c.json", "n_heads", 1, 1024, INT64_MIN);
    assert_int_equal(err.code, FG_EINPUT);
    assert_string_equal(line_of(&err), "config: file c.json, field n_heads: expected 1 to 1024, "
                                       "found -9223372036854775808");
    fg_fail_memory(&err, "weights", UINT64_MAX);
    assert_int_equal(err.code, FG_ERESOURCE);
    assert_non_null(strstr(line_of(&err), "18446744073709551615 bytes"));

    static const struct {
        int errnum, code;
    } cases[] = {{ENOSPC, FG_ERESOURCE}, {EROFS, FG_ERESOURCE},  {EDQUOT, FG_ERESOURCE},
                 {ENOMEM, FG_ERESOURCE}, {EMFILE, FG_ERESOURCE}, {ENFILE, FG_ERESOURCE},
                 {EFBIG, FG_ERESOURCE},  {EIO, FG_EFAILED},      {ENOENT, FG_EINPUT},
                 {EACCES, FG_EINPUT},    {EISDIR, FG_EINPUT}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(fg_fail_errno(&err, "f", "read", cases[i].errnum), cases[i].code);
        assert_string_equal(err.what, "read");
        assert_string_equal(err.file, "f");
        assert_string_equal(err.found, strerror(cases[i].errnum));
    }
}

static void test_hint_is_added(void **state)
{
    (void)state;
    struct fg_error err;
    fg_fail(&err, FG_EINPUT, "a", NULL, NULL, NULL, "b");
    fg_error_hint(&err, "try %s\n", "this");
    assert_string_equal(err.hint, "try this\\n");
    assert_string_equal(line_of(&err), "a: b");
    fg_fail(&err, FG_EINPUT, "a", NULL, NULL, NULL, "c"); // the next failure starts afresh
    assert_string_equal(err.hint, "");
}

static void test_arguments_may_be_parts_of_the_same_error(void **state)
{
    (void)state;
    struct fg_error err;
    fg_fail(&err, FG_EINPUT, "inner", "f", "g", NULL, "deep");
    fg_fail(&err, FG_EFAILED, err.what, err.file, err.field, NULL, "while reading: %s", err.found);
    assert_string_equal(line_of(&err), "inner: file f, field g: while reading: deep");
}

static void test_every_part_is_escaped_and_cut(void **state)
{
    (void)state;
    struct fg_error err;
    char longer[2000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    fg_fail(&err, 1, longer, longer, longer, longer, "%s", longer);
    fg_error_hint(&err, "%s", longer);
    const char *const parts[] = {err.what, err.file, err.field, err.expected, err.found, err.hint};
    const size_t caps[] = {sizeof err.what,     sizeof err.file,  sizeof err.field,
                           sizeof err.expected, sizeof err.found, sizeof err.hint};
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(strlen(parts[i]), caps[i] - 1);
        assert_string_equal(parts[i] + caps[i] - 4, "...");
    }
    fg_fail(&err, 1, "a\nb", "c\x1b[31m", "d\r", "e\t", "%s", "f\x7f");
    assert_string_equal(line_of(&err),
                        "a\\nb: file c\\x1B[31m, field d\\x0D: expected e\\t, found f\\x7F");
}

static void test_line_is_cut_to_its_room(void **state)
{
    (void)state;
    struct fg_error err;
    fg_fail(&err, 1, "w", "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", NULL, NULL, "f"); // e acute, 4 times
    const char *whole = "w: file \xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9: f";
    char out[64];
    for (size_t cap = 0; cap < sizeof out; cap++) {
        memset(out, '#', sizeof out);
        assert_ptr_equal(fg_error_line(&err, out, cap), out);
        assert_int_equal(out[cap], '#'); // nothing beyond
        if (cap == 0) continue;
        size_t n = strlen(out);
        assert_true(n < cap);
        if (cap > strlen(whole)) {
            assert_string_equal(out, whole);
        } else if (cap > 3) {
            assert_true(n >= cap - 2); // no more than half a character is lost
            assert_memory_equal(out, whole, n - 3);
            assert_string_equal(out + n - 3, "...");
            assert_true(((unsigned char)whole[n - 3] & 0xC0) != 0x80); // between characters
        }
    }
}

static void test_escape(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        size_t n;
        const char *out;
    } cases[] = {
        {"plain", 5, "plain"},
        {"", 0, ""},
        {"a\0b", 3, "a\\x00b"},
        {"\n\t\r\x1b\x7f", 5, "\\n\\t\\x0D\\x1B\\x7F"},
        {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 9, "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"},
        {"\xC2\x9B", 2, "\\xC2\\x9B"}, // U+009B, which terminals may take for ESC [
        {"\xC2\xA0", 2, "\xC2\xA0"},
        {"\xFF\xC3", 2, "\\xFF\\xC3"},
        {"\xE2\x82", 2, "\\xE2\\x82"},                   // cut off
        {"\xC0\x80", 2, "\\xC0\\x80"},                   // overlong
        {"\xED\xA0\x80", 3, "\\xED\\xA0\\x80"},          // surrogate
        {"\xF4\x90\x80\x80", 4, "\\xF4\\x90\\x80\\x80"}, // past U+10FFFF
    };
    char out[128];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(fg_escape(out, sizeof out, cases[i].in, cases[i].n), cases[i].out);
}

static void test_escape_cuts_between_pieces(void **state)
{
    (void)state;
    const char in[] = "ab\x01\xE2\x82\xAC\xF0\x9F\x98\x80\nz";
    const char whole[] = "ab\\x01\xE2\x82\xAC\xF0\x9F\x98\x80\\nz";
    const size_t starts[] = {0, 1, 2, 6, 9, 13, 15, 16}; // where pieces of `whole` begin
    char out[40];
    for (size_t cap = 1; cap < sizeof out; cap++) {
        memset(out, '#', sizeof out);
        fg_escape(out, cap, in, sizeof in - 1);
        assert_int_equal(out[cap], '#');
        size_t n = strlen(out);
        assert_true(n < cap);
        if (cap > strlen(whole)) {
            assert_string_equal(out, whole);
            continue;
        }
        size_t dots = cap > 3 ? 3 : cap - 1, kept = n - dots;
        assert_memory_equal(out, whole, kept);
        assert_memory_equal(out + kept, "...", dots);
        int at_start = 0;
        for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
            at_start |= starts[i] == kept;
        assert_true(at_start);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_names_all_parts),
        cmocka_unit_test(test_line_leaves_absent_parts_out),
        cmocka_unit_test(test_error_may_be_null),
        cmocka_unit_test(test_helpers_fill_code_and_text),
        cmocka_unit_test(test_hint_is_added),
        cmocka_unit_test(test_arguments_may_be_parts_of_the_same_error),
        cmocka_unit_test(test_every_part_is_escaped_and_cut),
        cmocka_unit_test(test_line_is_cut_to_its_room),
        cmocka_unit_test(test_escape),
        cmocka_unit_test(test_escape_cuts_between_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
