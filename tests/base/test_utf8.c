// UTF-8 steps: every code point, every two-byte start, and the maximal subparts of Unicode 15,
// chapter 3, tables 3-8 and following.
#include "base/utf8.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static size_t encode(uint32_t c, unsigned char out[4])
{
    if (c < 0x80) {
        out[0] = (unsigned char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (unsigned char)(0xC0 | c >> 6);
        out[1] = (unsigned char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (unsigned char)(0xE0 | c >> 12);
        out[1] = (unsigned char)(0x80 | (c >> 6 & 63));
        out[2] = (unsigned char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (unsigned char)(0xF0 | c >> 18);
    out[1] = (unsigned char)(0x80 | (c >> 12 & 63));
    out[2] = (unsigned char)(0x80 | (c >> 6 & 63));
    out[3] = (unsigned char)(0x80 | (c & 63));
    return 4;
}

static void test_every_code_point(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x1FFFFF; c++) {
        unsigned char s[4];
        size_t n = encode(c, s);
        bool surrogate = c >= 0xD800 && c < 0xE000, legal = c <= 0x10FFFF && !surrogate;
        bool valid, cut;
        size_t step = fg_utf8_step(s, n, &valid, &cut);
        if (valid != legal || step != (legal ? n : 1) || cut)
            fail_msg("U+%X: valid %d, step %zu, cut %d", c, valid, step, cut);
        for (size_t k = 1; legal && k < n; k++) { // cut short
            step = fg_utf8_step(s, k, &valid, &cut);
            if (valid || !cut || step != k)
                fail_msg("U+%X cut to %zu: valid %d, step %zu, cut %d", c, k, valid, step, cut);
        }
    }
}

static void test_maximal_subparts(void **state)
{
    (void)state;
    // Lengths of the pieces, upper case valid: U+FFFD for each lower-case one.
    static const struct {
        const char *text, *pieces;
    } cases[] = {
        {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", "aaaaaaaaA"},
        {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", "aaaaaaaaA"},
        {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", "aaaaaAaaA"},
        {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", "bacbA"},
        {"\xF0\x9F\x98\x80\xE2\x82\xAC\xC3\xA9z", "DCBA"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const unsigned char *s = (const unsigned char *)cases[i].text;
        size_t n = strlen(cases[i].text);
        char got[16];
        size_t k = 0;
        while (n > 0) {
            bool valid;
            size_t step = fg_utf8_step(s, n, &valid, NULL);
            got[k++] = (char)((valid ? 'A' : 'a') + (int)step - 1);
            s += step;
            n -= step;
        }
        got[k] = '\0';
        assert_string_equal(got, cases[i].pieces);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_point),
        cmocka_unit_test(test_maximal_subparts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
