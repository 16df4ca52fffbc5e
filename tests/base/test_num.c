// Narrow floats, exhaustively or against a rounding rule written independently in double; numbers
// from and to text under several locales.
#include "base/num.h"
#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// A format as a table of its non-negative finite values, in order; index = bit pattern.
struct format {
    const char *name;
    uint32_t n;         // finite values
    uint32_t sign, nan; // bits
    bool saturates;     // overflow gives the largest value, not infinity
    const double *value;
    uint32_t (*of)(float);
};

static uint32_t bf16_of(float f)
{
    return fg_bf16_of_f32(f);
}
static uint32_t f16_of(float f)
{
    return fg_f16_of_f32(f);
}
static uint32_t f8_of(float f)
{
    return fg_f8e4m3_of_f32(f);
}

// Values by the definition of the format: exponent field e, mantissa field m of `man` bits.
static double by_definition(uint32_t bits, int man, int bias)
{
    int e = (int)(bits >> man);
    double m = (double)(bits & ((1u << man) - 1)) / (1 << man);
    return e == 0 ? ldexp(m, 1 - bias) : ldexp(1 + m, e - bias);
}

static double bf16_values[0x7F80], f16_values[0x7C00], f8_values[0x7F];
static const struct format formats[] = {
    {"bf16", 0x7F80, 0x8000, 0x7FC0, false, bf16_values, bf16_of},
    {"f16", 0x7C00, 0x8000, 0x7E00, false, f16_values, f16_of},
    {"f8e4m3", 0x7F, 0x80, 0x7F, true, f8_values, f8_of},
};
enum { N_FORMATS = 3 };

static int setup(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 0x7F80; i++)
        bf16_values[i] = by_definition(i, 7, 127);
    for (uint32_t i = 0; i < 0x7C00; i++)
        f16_values[i] = by_definition(i, 10, 15);
    for (uint32_t i = 0; i < 0x7F; i++)
        f8_values[i] = by_definition(i, 3, 7);
    return 0;
}

static void test_every_pattern_widens_to_its_value(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint32_t m = h & 0x7FFF;
        double s = h & 0x8000 ? -1 : 1;
        float b = fg_bf16_to_f32((uint16_t)h), f = fg_f16_to_f32((uint16_t)h);
        if (m > 0x7F80 ? !isnan(b) : b != (m == 0x7F80 ? s * INFINITY : s * bf16_values[m]))
            fail_msg("bf16 %04x gives %a", h, (double)b);
        if (m > 0x7C00 ? !isnan(f) : f != (m == 0x7C00 ? s * INFINITY : s * f16_values[m]))
            fail_msg("f16 %04x gives %a", h, (double)f);
        assert_int_equal(signbit(b) != 0, h >> 15);
        assert_int_equal(signbit(f) != 0, h >> 15);
    }
    for (uint32_t v = 0; v < 256; v++) {
        uint32_t m = v & 0x7F;
        float f = fg_f8e4m3_to_f32((uint8_t)v);
        if (m == 0x7F ? !isnan(f) : f != (v & 0x80 ? -1 : 1) * f8_values[m])
            fail_msg("f8e4m3 %02x gives %a", v, (double)f);
        assert_int_equal(signbit(f) != 0, v >> 7);
    }
    assert_true(f8_values[0x7E] == 448 && f8_values[1] == 0x1p-9 && f16_values[0x7BFF] == 65504);
}

static void test_every_pattern_comes_back(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint16_t b = fg_bf16_of_f32(fg_bf16_to_f32((uint16_t)h));
        uint16_t f = fg_f16_of_f32(fg_f16_to_f32((uint16_t)h));
        // NaN keeps its payload and becomes quiet.
        uint32_t want_b = (h & 0x7FFF) > 0x7F80 ? h | 0x40 : h;
        uint32_t want_f = (h & 0x7FFF) > 0x7C00 ? h | 0x200 : h;
        if (b != want_b) fail_msg("bf16 %04x comes back as %04x", h, b);
        if (f != want_f) fail_msg("f16 %04x comes back as %04x", h, f);
    }
    for (uint32_t v = 0; v < 256; v++)
        assert_int_equal(fg_f8e4m3_of_f32(fg_f8e4m3_to_f32((uint8_t)v)), v);
}

// Nearest value of the table, ties to the even pattern; the value after the last finite one decides
// about overflow as if the format went on.
static uint32_t rounded(const struct format *fmt, float f)
{
    if (isnan(f)) return fmt->nan;
    double a = fabs((double)f);
    uint32_t lo = 0, hi = fmt->n - 1;
    double past = 2 * fmt->value[hi] - fmt->value[hi - 1];
    if (a > fmt->value[hi]) {
        double half = (fmt->value[hi] + past) / 2;
        if (fmt->saturates) return hi;
        return a < half || (a == half && hi % 2 == 0) ? hi : hi + 1;
    }
    while (hi - lo > 1) { // value[lo] <= a <= value[hi]
        uint32_t mid = (lo + hi) / 2;
        if (fmt->value[mid] <= a)
            lo = mid;
        else
            hi = mid;
    }
    double down = a - fmt->value[lo], up = fmt->value[hi] - a; // exact: both have few bits
    if (down != up) return down < up ? lo : hi;
    return lo % 2 == 0 ? lo : hi;
}

static void check(float f)
{
    for (int k = 0; k < N_FORMATS; k++) {
        uint32_t got = formats[k].of(f), want = rounded(&formats[k], f);
        if (signbit(f)) want |= formats[k].sign;
        bool same = isnan(f) ? (got & formats[k].nan) == formats[k].nan &&
                                   !(got & formats[k].sign) == !signbit(f)
                             : got == want;
        if (!same)
            fail_msg("%s of %a (%08x): got %x, want %x", formats[k].name, (double)f,
                     fg_bits_of_f32(f), got, want);
    }
}

static void test_rounding_at_every_boundary(void **state)
{
    (void)state;
    // Each value, each middle between two, and the FP32 neighbours of both.
    for (int k = 0; k < N_FORMATS; k++) {
        for (uint32_t i = 0; i + 1 < formats[k].n; i++) {
            const double *v = formats[k].value;
            float points[2] = {(float)v[i], (float)((v[i] + v[i + 1]) / 2)};
            for (int p = 0; p < 2; p++) {
                check(points[p]);
                check(-points[p]);
                check(nextafterf(points[p], INFINITY));
                check(nextafterf(points[p], -INFINITY));
            }
        }
    }
    static const float more[] = {448,      464,      480,        481,      1e30f,    65504,
                                 65519,    65520,    65536,      FLT_MAX,  FLT_MIN,  0x1p-149f,
                                 0x1p-25f, 0x1p-24f, 0x1.8p-25f, 0x1p-26f, 0x1p-10f, 0x1p-11f};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        check(more[i]);
        check(-more[i]);
    }
    check(INFINITY);
    check(-INFINITY);
    for (uint32_t payload = 1; payload < 0x800000; payload = payload * 2 + 1) {
        check(fg_f32_of_bits(0x7F800000u | payload));
        check(fg_f32_of_bits(0xFF800000u | payload));
    }
}

static void test_rounding_at_random(void **state)
{
    (void)state;
    uint64_t x = 88172645463325252u; // xorshift64 with this seed
    for (int i = 0; i < 2000000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        check(fg_f32_of_bits((uint32_t)(x >> 16)));
    }
}

// Locales with a comma, other grouping, other case rules; those that are not installed are left
// out.
static const char *const locales[] = {
    "C",           "de_DE.UTF-8", "de_DE.utf8", "tr_TR.UTF-8", "tr_TR.ISO-8859-9",
    "fr_FR.UTF-8", "ps_AF.UTF-8", "ps_AF"};

static void for_each_locale(void (*test)(void))
{
    for (size_t i = 0; i < sizeof locales / sizeof locales[0]; i++) {
        if (setlocale(LC_ALL, locales[i])) test();
    }
    setlocale(LC_ALL, "C");
}

static void integers(void)
{
    static const struct {
        const char *text;
        bool ok;
        int64_t value;
    } signed_cases[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"+7", true, 7},
        {"-12", true, -12},
        {"007", true, 7},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {"+-1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"1\n", false, 0},
        {"1.0", false, 0},
        {"1e3", false, 0},
        {"0x10", false, 0},
        {"1,000", false, 0},
        {"1.000", false, 0},
        {"12a", false, 0},
        {"\xD9\xA1", false, 0}, // an Arabic digit
    };
    for (size_t i = 0; i < sizeof signed_cases / sizeof signed_cases[0]; i++) {
        int64_t v = 99;
        bool ok = fg_parse_i64(signed_cases[i].text, &v);
        if (ok != signed_cases[i].ok || v != (ok ? signed_cases[i].value : 99))
            fail_msg("i64 \"%s\": ok %d, %" PRId64, signed_cases[i].text, ok, v);
    }
    uint64_t u = 99;
    assert_true(fg_parse_u64("18446744073709551615", &u));
    assert_true(u == UINT64_MAX);
    u = 99;
    assert_false(fg_parse_u64("18446744073709551616", &u));
    assert_false(fg_parse_u64("-1", &u));
    assert_false(fg_parse_u64("+1", &u));
    assert_false(fg_parse_u64("", &u));
    assert_false(fg_parse_u64("1x", &u));
    assert_int_equal(u, 99);
}

static void test_parse_integers(void **state)
{
    (void)state;
    for_each_locale(integers);
}

static void doubles(void)
{
    static const struct {
        const char *text;
        bool ok;
        double value;
    } cases[] = {
        {"0", true, 0},
        {"-1.5", true, -1.5},
        {"+2.5e3", true, 2500},
        {".5", true, .5},
        {"1e-5", true, 1e-5},
        {"1E5", true, 1e5},
        {"0.1", true, 0.1},
        {"1.7976931348623157e308", true, DBL_MAX},
        {"4.9e-324", true, 0x1p-1074},
        {"1e-400", true, 0},
        {"1e309", false, 0},
        {"-1e309", false, 0},
        {"nan", false, 0},
        {"NaN", false, 0},
        {"inf", false, 0},
        {"-Infinity", false, 0},
        {"0x10", false, 0},
        {"-0x1p3", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {".", false, 0},
        {"1,5", false, 0},
        {"1.5 ", false, 0},
        {" 1.5", false, 0},
        {"1e", false, 0},
        {"1.2.3", false, 0},
        {"1_000", false, 0},
        {"--1", false, 0},
        {"1f", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double v = 99;
        bool ok = fg_parse_f64(cases[i].text, &v);
        if (ok != cases[i].ok || v != (ok ? cases[i].value : 99))
            fail_msg("f64 \"%s\": ok %d, %a", cases[i].text, ok, v);
    }
}

static void test_parse_doubles(void **state)
{
    (void)state;
    for_each_locale(doubles);
}

static void sizes(void)
{
    static const struct {
        const char *text;
        bool ok;
        uint64_t value;
    } cases[] = {
        {"0", true, 0},
        {"512", true, 512},
        {"512b", true, 512},
        {"16K", true, 16384},
        {"16k", true, 16384},
        {"16kb", true, 16384},
        {"16KiB", true, 16384},
        {"16kIB", true, 16384},
        {"2m", true, 2u << 20},
        {"1.5GiB", true, 3ull << 29},
        {"1.5g", true, 3ull << 29},
        {"0.5K", true, 512},
        {"1.1K", true, 1126},
        {"2T", true, 2ull << 40},
        {"16777215T", true, 16777215ull << 40},
        {"16777216T", false, 0},
        {"18446744073709551615", true, UINT64_MAX},
        {"18446744073709551616", false, 0},
        {"99999999.5T", false, 0},
        {"", false, 0},
        {"K", false, 0},
        {"-1K", false, 0},
        {"+1K", false, 0},
        {"1.5", false, 0},
        {"1.5B", false, 0},
        {"1..5K", false, 0},
        {"1,5K", false, 0},
        {"16 K", false, 0},
        {"16Ki", false, 0},
        {"16iB", false, 0},
        {"16KK", false, 0},
        {"16KBB", false, 0},
        {"16P", false, 0},
        {"1e3K", false, 0},
        {"00000000000000000000000000000000000000001K", false, 0}, // longer than any size
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t v = 99;
        bool ok = fg_parse_bytes(cases[i].text, &v);
        if (ok != cases[i].ok || v != (ok ? cases[i].value : 99))
            fail_msg("bytes \"%s\": ok %d, %" PRIu64, cases[i].text, ok, v);
    }
}

static void test_parse_bytes(void **state)
{
    (void)state;
    for_each_locale(sizes);
}

// golden/base/repr.txt: "HEX repr" per line, by tests/reference/make_repr.py.
static void golden_reprs(void)
{
    FILE *f = fopen(FORGE_GOLDEN_DIR "/base/repr.txt", "re");
    assert_non_null(f);
    uint64_t bits;
    char want[64], got[64];
    int n = 0;
    while (fscanf(f, "%16" SCNx64 " %63s", &bits, want) == 2) {
        double v, back;
        memcpy(&v, &bits, sizeof v);
        fg_format_f64(got, 32, v);
        if (strcmp(got, want) != 0)
            fail_msg("%016" PRIx64 ": got %s, Python prints %s", bits, got, want);
        if (isfinite(v) && (!fg_parse_f64(got, &back) || back != v))
            fail_msg("%s does not read back", got);
        n++;
    }
    assert_true(feof(f));
    assert_true(n > 2000);
    fclose(f);
}

static void test_format_like_python(void **state)
{
    (void)state;
    for_each_locale(golden_reprs);
}

static void test_format_keeps_the_locale(void **state)
{
    (void)state;
    char out[32];
    locale_t before = uselocale((locale_t)0);
    fg_format_f64(out, sizeof out, 1.5);
    assert_true(uselocale((locale_t)0) == before);
    assert_string_equal(out, "1.5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pattern_widens_to_its_value),
        cmocka_unit_test(test_every_pattern_comes_back),
        cmocka_unit_test(test_rounding_at_every_boundary),
        cmocka_unit_test(test_rounding_at_random),
        cmocka_unit_test(test_parse_integers),
        cmocka_unit_test(test_parse_doubles),
        cmocka_unit_test(test_parse_bytes),
        cmocka_unit_test(test_format_like_python),
        cmocka_unit_test(test_format_keeps_the_locale),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
