// The pull reader of JSON headers and the sorted name list.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "format/json_scan.h"
#include "format/names.h"
#include <string.h>

static int skip_all(const char *text, size_t n)
{
    struct fg_scan s;
    struct fg_error err = {0};
    int rc = fg_scan_begin(&s, text, n, "test", "file", &err);
    if (!rc) rc = fg_scan_skip(&s, &err);
    return rc ? rc : fg_scan_end(&s, &err);
}

static void values(void **state)
{
    (void)state;
    static const char *const good[] = {
        "null",
        " true ",
        "false",
        "0",
        "-0",
        "12",
        "-1.5e+10",
        "1E5",
        "0.25",
        "\"\"",
        "\"\\u0041\\n\"",
        "[]",
        "[1, 2 ,[3]]",
        "{}",
        "{\"a\" : {\"b\":[{}]} , \"c\":null}",
        "\"\\ud83d\\ude00\"",
    };
    static const char *const bad[] = {
        "",
        " ",
        "nul",
        "truex",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "+1",
        "0x1",
        "NaN",
        "Infinity",
        "\"a",
        "\"\\x\"",
        "\"\t\"",
        "[1,]",
        "[1 2]",
        "[",
        "]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:2}",
        "1 2",
        "\"\\ud83d\"",
        "\"\\ude00\"",
        "\"\\u12g4\"",
        "\"\xC0\x80\"",
        "\"\xED\xA0\x80\"",
        "// x\n1",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (skip_all(good[i], strlen(good[i]))) fail_msg("refused %s", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (skip_all(bad[i], strlen(bad[i])) != FG_EINPUT) fail_msg("accepted %s", bad[i]);
    }
    assert_int_equal(skip_all("1\0", 2), FG_EINPUT);
}

static void depth(void **state)
{
    (void)state;
    char text[2 * FG_SCAN_DEPTH_MAX + 2];
    for (size_t n = FG_SCAN_DEPTH_MAX; n <= FG_SCAN_DEPTH_MAX + 1; n++) {
        memset(text, '[', n);
        memset(text + n, ']', n);
        assert_int_equal(skip_all(text, 2 * n), n > FG_SCAN_DEPTH_MAX ? FG_EINPUT : 0);
    }
}

static void strings_and_numbers(void **state)
{
    (void)state;
    static const char text[] = "\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20ac\\ud83d\\ude00z\" "
                               "18446744073709551615 0 18446744073709551616";
    struct fg_scan s;
    struct fg_buf out = {0};
    struct fg_error err = {0};
    uint64_t v;
    assert_int_equal(fg_scan_begin(&s, text, sizeof text - 1, "test", "file", &err), 0);
    assert_int_equal(fg_scan_string(&s, &out, &err), 0);
    assert_string_equal(out.data, "a\"\\/\b\f\n\r\t\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z");
    assert_int_equal(fg_scan_u64(&s, &v, &err), 0);
    assert_true(v == UINT64_MAX);
    assert_int_equal(fg_scan_u64(&s, &v, &err), 0);
    assert_int_equal(v, 0);
    assert_int_equal(fg_scan_u64(&s, &v, &err), FG_EINPUT);
    assert_non_null(strstr(err.field, "JSON byte"));
    fg_buf_free(&out);
}

static struct fg_scan scan_of(const char *text)
{
    struct fg_scan s;
    struct fg_error err = {0};
    assert_int_equal(fg_scan_begin(&s, text, strlen(text), "test", "file", &err), 0);
    return s;
}

static void reals_and_words(void **state)
{
    (void)state;
    struct fg_error err = {0};
    double v;
    bool b;
    struct fg_scan s = scan_of(" -1.5e-3 0 1e308 7,");
    static const double want[] = {-1.5e-3, 0, 1e308, 7};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        assert_int_equal(fg_scan_f64(&s, &v, &err), 0);
        assert_true(v == want[i]);
    }
    assert_int_equal(fg_scan_f64(&s, &v, &err), FG_EINPUT);
    static const char *const bad[] = {"",      "-",    ".5",   "1.",  "1e",   "nan", "\"1\"",
                                      "1e400", "true", "null", "inf", "0x10", "[1]"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        s = scan_of(bad[i]);
        int rc = fg_scan_f64(&s, &v, &err);
        if (!rc) rc = fg_scan_end(&s, &err);
        if (rc != FG_EINPUT) fail_msg("%s", bad[i]);
    }
    char digits[80];
    memset(digits, '1', sizeof digits);
    digits[79] = '\0';
    s = scan_of(digits);
    assert_int_equal(fg_scan_f64(&s, &v, &err), FG_EINPUT);
    s = scan_of(" true\tfalse null nul");
    assert_int_equal(fg_scan_bool(&s, &b, &err), 0);
    assert_true(b);
    assert_int_equal(fg_scan_null(&s, &b, &err), 0);
    assert_false(b);
    assert_int_equal(fg_scan_bool(&s, &b, &err), 0);
    assert_false(b);
    assert_int_equal(fg_scan_bool(&s, &b, &err), FG_EINPUT);
    assert_int_equal(fg_scan_null(&s, &b, &err), 0);
    assert_true(b);
    assert_int_equal(fg_scan_null(&s, &b, &err), FG_EINPUT);
    s = scan_of("[[1, {}]]");
    assert_int_equal(fg_scan_skip_within(&s, 2, &err), FG_EINPUT);
    s = scan_of("[[1, {}]]");
    assert_int_equal(fg_scan_skip_within(&s, 3, &err), 0);
    s = scan_of("7");
    assert_int_equal(fg_scan_skip_within(&s, 0, &err), 0);
}

static void names(void **state)
{
    (void)state;
    struct fg_name list[] = {{"b", 0}, {"", 1}, {"ab", 2}, {"a", 3}};
    assert_null(fg_names_sort(list, 4));
    assert_int_equal(fg_names_find(list, 4, "ab"), 2);
    assert_int_equal(fg_names_find(list, 4, ""), 1);
    assert_int_equal(fg_names_find(list, 4, "b"), 0);
    assert_true(fg_names_find(list, 4, "abc") == FG_NAME_NONE);
    assert_true(fg_names_find(NULL, 0, "a") == FG_NAME_NONE);
    struct fg_name twins[] = {{"b", 0}, {"a", 1}, {"b", 2}};
    assert_string_equal(fg_names_sort(twins, 3), "b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(depth),
        cmocka_unit_test(strings_and_numbers),
        cmocka_unit_test(reals_and_words),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
