// NFC against the Hugging Face library (tests/golden/nfc.jsonl), UTF-8 repair, character classes.
#include "text/unicode.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/jval.h"
#include "base/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void check_nfc(const char *s, size_t n, const char *want, size_t n_want)
{
    struct fg_buf out = {0};
    bool changed = fg_nfc(&out, s, n);
    assert_false(out.failed);
    const char *got = changed ? out.data : s;
    size_t n_got = changed ? out.len : n;
    if (n_got != n_want || memcmp(got, want, n_got) != 0) {
        struct fg_buf line = {0};
        fg_buf_json_str(&line, s, n);
        fg_buf_str(&line, " gives ");
        fg_buf_json_str(&line, got, n_got);
        fg_buf_str(&line, " for ");
        fg_buf_json_str(&line, want, n_want);
        fail_msg("%s", line.data);
    }
    if (!changed) assert_int_equal(out.len, 0);
    fg_buf_free(&out);
}

static void nfc_golden(void **state)
{
    (void)state;
    struct fg_buf file = {0};
    const char *path = FORGE_GOLDEN_DIR "/nfc.jsonl";
    assert_int_equal(fg_file_read(&file, path, 1 << 20, NULL), 0);
    int n_lines = 0;
    for (char *line = file.data; *line; n_lines++) {
        size_t n = strcspn(line, "\n");
        struct fg_jdoc doc;
        assert_int_equal(fg_jdoc_parse(&doc, line, n, path, NULL), 0);
        const struct fg_jval *text = fg_jval_get(&doc.root, "text");
        const struct fg_jval *nfc = fg_jval_get(&doc.root, "nfc");
        check_nfc(text->text, text->n, nfc->text, nfc->n);
        check_nfc(nfc->text, nfc->n, nfc->text, nfc->n);
        fg_jdoc_free(&doc);
        line += n + (line[n] == '\n');
    }
    fg_buf_free(&file);
    assert_int_equal(n_lines, 605);
}

static void nfc_examples(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},
        {"plain", "plain"},
        {"e\xCC\x81", "\xC3\xA9"},                    // e and acute
        {"xyz e\xCC\x81 w", "xyz \xC3\xA9 w"},        //
        {"\xE2\x84\xAB", "\xC3\x85"},                 // Angstrom sign
        {"\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC"}, // U+0958, excluded from composition
        {"\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "\xED\x95\x9C"}, // Hangul
        {"\xEF\xA4\x80", "\xE8\xB1\x88"},                         // U+F900
        {"a\xCC\xA7\xCC\x81", "\xC3\xA1\xCC\xA7"}, // cedilla, acute: the second composes
        {"a\xCC\x81\xCC\x81", "\xC3\xA1\xCC\x81"}, // the second of one class is blocked
        {"\xCC\x81", "\xCC\x81"},                  // begins with a mark
        {"\xF0\x91\xA4\xB5\xF0\x91\xA4\xB0",
         "\xF0\x91\xA4\xB5\xF0\x91\xA4\xB0"}, // Unicode 13: left
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_nfc(cases[i][0], strlen(cases[i][0]), cases[i][1], strlen(cases[i][1]));
    }
}

// A megabyte of marks in alternating classes, which must be sorted stably and not in quadratic
// time.
static void nfc_many_marks(void **state)
{
    (void)state;
    enum { N = 1 << 18 };
    struct fg_buf text = {0}, want = {0};
    fg_buf_char(&text, 'q');
    fg_buf_char(&want, 'q');
    for (int i = 0; i < N; i++)
        fg_buf_str(&text, i % 2 ? "\xCC\xA7" : "\xCC\x81"); // 202 and 230
    for (int i = 0; i < N; i++)
        fg_buf_str(&want, i < N / 2 ? "\xCC\xA7" : "\xCC\x81");
    check_nfc(text.data, text.len, want.data, want.len);
    fg_buf_free(&text);
    fg_buf_free(&want);
}

#define R "\xEF\xBF\xBD"

static void repair(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"\xFF", R},
        {"a\x80z", "a" R "z"},
        {"\xE2\x82", R},      // cut: one subpart
        {"\xE2\x82x", R "x"}, //
        {"\xF0\x9F\x98", R},  //
        {"\xF0\x9F\x98\xF0\x9F\x98\x80", R "\xF0\x9F\x98\x80"},
        {"\xC0\xAF", R R},             // overlong
        {"\xED\xA0\x80", R R R},       // a surrogate
        {"\xF4\x90\x80\x80", R R R R}, // past U+10FFFF
        {"\xE0\x80", R R},             //
        {"12345678\xC3", "12345678" R},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fg_buf out = {0};
        assert_true(fg_utf8_repair(&out, cases[i][0], strlen(cases[i][0])));
        assert_string_equal(out.data, cases[i][1]);
        size_t len = out.len;
        assert_false(fg_utf8_repair(&out, cases[i][1], strlen(cases[i][1])));
        assert_int_equal(out.len, len);
        fg_buf_free(&out);
    }
}

static void put_and_get(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xD800 && c < 0xE000) continue;
        char s[4];
        size_t n = fg_utf8_put(s, c), step;
        assert_int_equal(fg_utf8_get(s, &step), c);
        assert_int_equal(step, n);
    }
}

static void classes(void **state)
{
    (void)state;
    int n_spaces = 0;
    for (uint32_t c = 0; c < 0x110000; c++)
        n_spaces += fg_is_space(c);
    assert_int_equal(n_spaces, 25); // White_Space has 25 characters
    assert_false(fg_is_space(0x180E));
    assert_false(fg_is_space(0x1C));
    assert_true(fg_is_word('_') && fg_is_word('9') && fg_is_word(0xE9) && fg_is_word(0x301));
    assert_true(fg_is_word(0x4E2D) && fg_is_word(0x24B6) && fg_is_word(0x200D));
    assert_false(fg_is_word('-') || fg_is_word(' ') || fg_is_word(0xB2) || fg_is_word(0x3002));
    assert_true(fg_lower('A') == 'a' && fg_lower('a') == 'a' && fg_lower('1') == '1');
    assert_true(fg_lower(0x416) == 0x436 && fg_lower(0x3A3) == 0x3C3 && fg_lower(0x4E2D) == 0x4E2D);
    assert_int_equal(fg_ascii_prefix("12345678\xC3\xA9", 10), 8);
    assert_int_equal(fg_ascii_prefix("123456\xC3\xA9", 8), 6);
    assert_int_equal(fg_ascii_prefix("abc", 3), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nfc_golden),     cmocka_unit_test(nfc_examples),
        cmocka_unit_test(nfc_many_marks), cmocka_unit_test(repair),
        cmocka_unit_test(put_and_get),    cmocka_unit_test(classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
