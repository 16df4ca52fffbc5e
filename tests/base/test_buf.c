// The growing buffer and its JSON strings.
#include "base/buf.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void test_append(void **state)
{
    (void)state;
    struct fg_buf b = {0};
    fg_buf_add(&b, "", 0);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.data, "");
    fg_buf_str(&b, "one");
    fg_buf_char(&b, '\0');
    fg_buf_printf(&b, "%s %d", "two", 3);
    fg_buf_add(&b, "xyz", 2);
    assert_int_equal(b.len, 11);
    assert_memory_equal(b.data, "one\0two 3xy", 12);
    assert_false(b.failed);
    size_t cap = b.cap;
    fg_buf_clear(&b);
    assert_int_equal(b.len, 0);
    assert_int_equal(b.cap, cap);
    assert_string_equal(b.data, "");
    fg_buf_free(&b);
    assert_null(b.data);
    assert_int_equal(b.cap, 0);
    fg_buf_clear(&b); // of an empty one
    fg_buf_free(&b);
}

static void test_growth_keeps_content(void **state)
{
    (void)state;
    struct fg_buf b = {0};
    for (int i = 0; i < 100000; i++) {
        fg_buf_char(&b, (char)('a' + i % 26));
        assert_int_equal(b.data[b.len], '\0');
    }
    fg_buf_printf(&b, "%0*d", 200000, 0); // longer than any block printed at once
    assert_int_equal(b.len, 300000);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(b.data[i], 'a' + i % 26);
    for (size_t i = 100000; i < b.len; i++)
        assert_int_equal(b.data[i], '0');
    fg_buf_free(&b);
}

static void test_reserve_gives_room_and_a_nul(void **state)
{
    (void)state;
    struct fg_buf b = {0};
    assert_true(fg_buf_reserve(&b, 0));
    assert_string_equal(b.data, "");
    fg_buf_str(&b, "abc");
    assert_true(fg_buf_reserve(&b, 5000));
    assert_true(b.cap - b.len > 5000);
    assert_string_equal(b.data, "abc");
    fg_buf_free(&b);
}

static void test_failure_sticks_and_keeps_content(void **state)
{
    (void)state;
    struct fg_buf b = {0};
    fg_buf_str(&b, "kept");
    assert_false(fg_buf_reserve(&b, SIZE_MAX));
    assert_true(b.failed);
    fg_buf_str(&b, "dropped");
    fg_buf_printf(&b, "%d", 1);
    fg_buf_char(&b, 'x');
    assert_false(fg_buf_reserve(&b, 1));
    assert_string_equal(b.data, "kept");
    assert_int_equal(b.len, 4);
    fg_buf_clear(&b);
    assert_false(b.failed);
    fg_buf_str(&b, "again");
    assert_string_equal(b.data, "again");
    assert_false(fg_buf_reserve(&b, SIZE_MAX / 2));
    fg_buf_free(&b);
}

static void test_json_strings(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        size_t n;
        const char *out;
    } cases[] = {
        {"", 0, "\"\""},
        {"plain", 5, "\"plain\""},
        {"\"\\/", 3, "\"\\\"\\\\/\""},
        {"\b\f\n\r\t", 5, "\"\\b\\f\\n\\r\\t\""},
        {"\0\x01\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\x7f\""},
        {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 9, "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\""},
        {"\xE2\x80\xA8", 3, "\"\xE2\x80\xA8\""}, // U+2028 is no special case
        // Each maximal invalid subpart becomes one U+FFFD.
        {"a\xFFz", 3, "\"a\xEF\xBF\xBDz\""},
        {"\xE2\x82", 2, "\"\xEF\xBF\xBD\""},
        {"\xE2\x82x", 3, "\"\xEF\xBF\xBDx\""},
        {"\xC0\x80", 2, "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"\xED\xA0\x80", 3, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"\xF0\x9F\x98", 3, "\"\xEF\xBF\xBD\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fg_buf b = {0};
        char *in = malloc(cases[i].n + 1); // exact, so that a read past the end is seen
        assert_non_null(in);
        memcpy(in, cases[i].in, cases[i].n);
        in = realloc(in, cases[i].n ? cases[i].n : 1);
        fg_buf_json_str(&b, in, cases[i].n);
        assert_string_equal(b.data, cases[i].out);
        assert_int_equal(b.len, strlen(cases[i].out));
        free(in);
        fg_buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_growth_keeps_content),
        cmocka_unit_test(test_reserve_gives_room_and_a_nul),
        cmocka_unit_test(test_failure_sticks_and_keeps_content),
        cmocka_unit_test(test_json_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
