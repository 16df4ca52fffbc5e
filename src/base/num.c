// base/num.c: narrow floats exactly; numbers from and to text.
#include "base/num.h"
#include "base/size.h"
#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

uint16_t fg_bf16_of_f32(float f)
{
    uint32_t u = fg_bits_of_f32(f);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(u >> 16 | 0x40u); // NaN, made quiet
    return (uint16_t)((u + 0x7FFFu + (u >> 16 & 1u)) >> 16);
}

float fg_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exp = h >> 10 & 31u, man = h & 0x3FFu;
    if (exp == 31) return fg_f32_of_bits(sign | 0x7F800000u | man << 13 | (man ? 0x400000u : 0u));
    if (exp == 0) {
        float v = (float)man * 0x1p-24f; // exact: man has 10 bits
        return fg_f32_of_bits(fg_bits_of_f32(v) | sign);
    }
    return fg_f32_of_bits(sign | (exp + 112u) << 23 | man << 13);
}

// Rounds |f| (finite bits u) to a format with `man` mantissa bits and minimum normal exponent e_min
// (unbiased); returns the integer that counts units of the last place from zero: for monotone
// formats this is the bit pattern without sign.
static uint32_t round_bits(uint32_t u, int man, int e_min)
{
    int e = (int)(u >> 23) - 127;
    if (u < 0x00800000u)
        return 0; // FP32 subnormals lie far below half the smallest subnormal of both formats
    uint32_t m = (u & 0x7FFFFFu) | 0x800000u;
    int shift = 23 - man + (e < e_min ? e_min - e : 0);
    if (shift > 25) return 0;
    uint32_t half = 1u << (shift - 1), low = m & ((1u << shift) - 1u), q = m >> shift;
    if (low > half || (low == half && (q & 1u))) q++;
    // q carries the implicit bit when normal: adding it to the exponent field just below gives
    // carry for free.
    return e < e_min ? q : q + ((uint32_t)(e - e_min) << man);
}

uint16_t fg_f16_of_f32(float f)
{
    uint32_t u = fg_bits_of_f32(f), sign = u >> 16 & 0x8000u, a = u & 0x7FFFFFFFu;
    if (a > 0x7F800000u) return (uint16_t)(sign | 0x7E00u | (a >> 13 & 0x3FFu));
    uint32_t r = a == 0x7F800000u ? 0x7C00u : round_bits(a, 10, -14);
    return (uint16_t)(sign | (r > 0x7C00u ? 0x7C00u : r));
}

float fg_f8e4m3_to_f32(uint8_t v)
{
    uint32_t sign = (uint32_t)(v & 0x80u) << 24, exp = v >> 3 & 15u, man = v & 7u;
    if ((v & 0x7Fu) == 0x7Fu) return fg_f32_of_bits(sign | 0x7FC00000u);
    float mag = exp == 0 ? (float)man * 0x1p-9f : fg_f32_of_bits((exp + 120u) << 23 | man << 20);
    return fg_f32_of_bits(fg_bits_of_f32(mag) | sign);
}

uint8_t fg_f8e4m3_of_f32(float f)
{
    uint32_t u = fg_bits_of_f32(f), sign = u >> 24 & 0x80u, a = u & 0x7FFFFFFFu;
    if (a > 0x7F800000u) return (uint8_t)(sign | 0x7Fu);
    uint32_t r = a == 0x7F800000u ? 0x7Eu : round_bits(a, 3, -6);
    return (uint8_t)(sign | (r > 0x7Eu ? 0x7Eu : r));
}

bool fg_parse_i64(const char *s, int64_t *out)
{
    char *end;
    if (!(isdigit((unsigned char)s[0]) ||
          ((s[0] == '-' || s[0] == '+') && isdigit((unsigned char)s[1]))))
        return false;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (errno || *end) return false;
    *out = v;
    return true;
}

bool fg_parse_u64(const char *s, uint64_t *out)
{
    char *end;
    if (!isdigit((unsigned char)s[0])) return false;
    errno = 0;
    unsigned long long v = strtoull(s, &end, 10);
    if (errno || *end) return false;
    *out = v;
    return true;
}

// strtod of the current locale would take "1,5" in some; the C locale's form is made once per call
// and not cached, since nothing that parses numbers is hot.
static double strtod_c(const char *s, char **end)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c) return strtod(s, end);
    double v = strtod_l(s, end, c);
    freelocale(c);
    return v;
}

bool fg_parse_f64(const char *s, double *out)
{
    char *end;
    const char *p = s + (s[0] == '-' || s[0] == '+');
    if (!(isdigit((unsigned char)p[0]) || (p[0] == '.' && isdigit((unsigned char)p[1]))))
        return false;
    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) return false;
    double v = strtod_c(s, &end);
    if (*end || !isfinite(v)) return false;
    *out = v;
    return true;
}

// tolower knows other letters in other locales.
static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

bool fg_parse_bytes(const char *s, uint64_t *out)
{
    size_t n = strspn(s, "0123456789.");
    char digits[32];
    if (n == 0 || n >= sizeof digits) return false;
    memcpy(digits, s, n);
    digits[n] = '\0';
    const char *unit = s + n;
    int shift = 0;
    switch (lower(unit[0])) {
    case 'k': shift = 10; break;
    case 'm': shift = 20; break;
    case 'g': shift = 30; break;
    case 't': shift = 40; break;
    default: break;
    }
    if (shift) {
        unit++;
        if (lower(unit[0]) == 'i' && lower(unit[1]) == 'b') unit++;
    }
    if (lower(unit[0]) == 'b') unit++;
    if (*unit) return false;
    uint64_t whole;
    double v;
    if (fg_parse_u64(digits, &whole)) return fg_mul(out, whole, (uint64_t)1 << shift);
    if (!shift || !fg_parse_f64(digits, &v)) return false; // no fractions of a byte
    v = ldexp(v, shift);
    if (v >= 0x1p63) return false;
    *out = (uint64_t)v;
    return true;
}

// The shortest digits that read back as v (finite): "d.ddde[+-]XX" in text, in the locale of the
// thread, which is C.
static void shortest(double v, char *text, size_t cap)
{
    int exponent;
    // Below a power of two doubles are twice as dense, so that the decimal that reads back need not
    // be the nearest one but may be the next one up.
    bool power_of_two = fabs(frexp(v, &exponent)) == 0.5;
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, cap, "%.*e", digits - 1, v);
        if (strtod(text, NULL) == v) return;
        char *last = strchr(text, 'e') - 1;
        if (power_of_two && *last != '9') {
            ++*last;
            if (strtod(text, NULL) == v) return;
        }
    }
}

char *fg_format_f64(char *out, size_t cap, double v)
{
    if (!isfinite(v)) {
        snprintf(out, cap, "%s", isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
        return out;
    }
    char text[40];
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), old = uselocale(c);
    shortest(v, text, sizeof text);
    uselocale(old);
    if (c) freelocale(c);
    // Lay the digits out the way Python's repr does.
    const char *e = strchr(text, 'e');
    int exp = (int)strtol(e + 1, NULL, 10);
    char mant[24];
    int nm = 0, neg = text[0] == '-';
    for (const char *p = text + neg; p < e; p++) {
        if (*p != '.') mant[nm++] = *p;
    }
    mant[nm] = '\0';
    char body[48];
    if (exp < -4 || exp >= 16)
        snprintf(body, sizeof body, "%c%s%se%c%02d", mant[0], nm > 1 ? "." : "", mant + 1,
                 exp < 0 ? '-' : '+', abs(exp));
    else if (exp < 0)
        snprintf(body, sizeof body, "0.%.*s%s", -exp - 1, "0000", mant);
    else if (nm <= exp + 1)
        snprintf(body, sizeof body, "%s%.*s.0", mant, exp + 1 - nm, "0000000000000000");
    else
        snprintf(body, sizeof body, "%.*s.%s", exp + 1, mant, mant + exp + 1);
    snprintf(out, cap, "%s%s", neg ? "-" : "", body);
    return out;
}
