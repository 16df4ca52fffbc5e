#include "text/unicode.h"
#include "base/buf.h"
#include "base/size.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

size_t fg_utf8_put(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

size_t fg_ascii_prefix(const char *s, size_t n)
{
    size_t i = 0;
    for (uint64_t w; i + 8 <= n; i += 8) {
        memcpy(&w, s + i, 8);
        if (w & 0x8080808080808080u) break;
    }
    while (i < n && (unsigned char)s[i] < 0x80)
        i++;
    return i;
}

bool fg_utf8_repair(struct fg_buf *out, const char *s, size_t n)
{
    size_t kept = 0; // s[0, kept) is in out
    bool found = false;
    for (size_t i = fg_ascii_prefix(s, n); i < n;) {
        bool valid;
        size_t step = fg_utf8_step((const unsigned char *)s + i, n - i, &valid, NULL);
        if (!valid) {
            found = true;
            fg_buf_add(out, s + kept, i - kept);
            fg_buf_str(out, "\xEF\xBF\xBD");
            kept = i + step;
        }
        i += step;
    }
    if (found) fg_buf_add(out, s + kept, n - kept);
    return found;
}

bool fg_is_space(uint32_t c)
{
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool fg_is_word(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default:
        // joiners, and the circled letters, which are alphabetic symbols
        return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
               (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
               (c >= 0x1F170 && c <= 0x1F189);
    }
}

uint32_t fg_lower(uint32_t c)
{
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
}

// Characters that take part in normalization but were assigned after Unicode 9: combining marks,
// and composites with their parts' last member. They are starters that compose with nothing here.
// Found by comparing the HF library's NFC with Unicode 18 over all marks and all composites
// (tests/reference/make_tokenizer_nfc.py).
static const struct {
    uint32_t first, last;
} frozen[] = {
    {0x5C8, 0x5C9},     {0x7FD, 0x7FD},     {0x897, 0x89F},     {0x8CA, 0x8D3},
    {0x9FE, 0x9FE},     {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},
    {0x1715, 0x1715},   {0x1ABF, 0x1AF0},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},
    {0x105C9, 0x105C9}, {0x105E4, 0x105E4}, {0x10D24, 0x10D27}, {0x10D69, 0x10D6D},
    {0x10EAB, 0x10EAC}, {0x10ECB, 0x10ECF}, {0x10EF0, 0x10EFB}, {0x10EFD, 0x10EFF},
    {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B},
    {0x11383, 0x11383}, {0x11385, 0x11385}, {0x1138E, 0x1138E}, {0x11391, 0x11391},
    {0x113C5, 0x113C5}, {0x113C7, 0x113C8}, {0x113CE, 0x113D0}, {0x1145E, 0x1145E},
    {0x11839, 0x1183A}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943},
    {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99},
    {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
    {0x16121, 0x16128}, {0x1612F, 0x1612F}, {0x16D68, 0x16D6A}, {0x16FF0, 0x16FF1},
    {0x1D127, 0x1D128}, {0x1D250, 0x1D252}, {0x1D25B, 0x1D25C}, {0x1D25F, 0x1D25F},
    {0x1D280, 0x1D281}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}, {0x1E6E3, 0x1E6E3},
    {0x1E6E6, 0x1E6E6}, {0x1E6EE, 0x1E6EF}, {0x1E6F5, 0x1E6F5},
};

static bool is_frozen(uint32_t c)
{
    size_t lo = 0, hi = FG_COUNT(frozen);
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (c > frozen[mid].last) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo < FG_COUNT(frozen) && c >= frozen[lo].first;
}

static unsigned combining_class(uint32_t c)
{
    if (c < 0x300) return 0;
    unsigned ccc = (unsigned)utf8proc_get_property((utf8proc_int32_t)c)->combining_class;
    return ccc && !is_frozen(c) ? ccc : 0;
}

// Canonical decomposition of c, complete. Returns the number of characters, 1 to 4.
static size_t decompose(uint32_t c, uint32_t out[4])
{
    out[0] = c;
    if (c < 0xC0 || is_frozen(c)) return 1;
    utf8proc_int32_t d[4];
    int last_class = 0;
    utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)c, d, 4, UTF8PROC_DECOMPOSE, &last_class);
    if (n < 1 || n > 4) return 1; // no character has more; an error code for what is none
    for (utf8proc_ssize_t i = 0; i < n; i++)
        out[i] = (uint32_t)d[i];
    return (size_t)n;
}

// The primary composite of a and b; 0 when there is none.
static uint32_t compose(uint32_t a, uint32_t b)
{
    utf8proc_int32_t pair[2] = {(utf8proc_int32_t)a, (utf8proc_int32_t)b};
    utf8proc_ssize_t n = utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    return n == 1 && !is_frozen((uint32_t)pair[0]) ? (uint32_t)pair[0] : 0;
}

// True when c may change or combine with what stands before it; the others are boundaries that
// normalization does not cross. Errs towards true.
static bool is_active(uint32_t c)
{
    if (c < 0x300 || (c >= 0x3400 && c < 0xA000) || (c >= 0xAC00 && c < 0xD7A4)) return false;
    if (c >= 0x1161 && c < 0x1200) return true; // vowels and trailing consonants of Hangul
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)c);
    if (p->category == UTF8PROC_CATEGORY_MN || p->category == UTF8PROC_CATEGORY_MC) return true;
    uint32_t d[4];
    return decompose(c, d) > 1 || d[0] != c;
}

struct mark {
    uint32_t c;
    unsigned ccc;
};

// Stable sort by combining class: insertion for the few marks of real text, else by merging, so
// that a megabyte of marks does not take quadratic time. tmp has room for n.
static void sort_marks(struct mark *m, struct mark *tmp, size_t n)
{
    if (n <= 16) {
        for (size_t i = 1; i < n; i++) {
            struct mark x = m[i];
            size_t k = i;
            for (; k > 0 && m[k - 1].ccc > x.ccc; k--)
                m[k] = m[k - 1];
            m[k] = x;
        }
        return;
    }
    size_t half = n / 2;
    sort_marks(m, tmp, half);
    sort_marks(m + half, tmp, n - half);
    memcpy(tmp, m, half * sizeof *m);
    size_t a = 0, b = half, to = 0;
    while (a < half)
        m[to++] = b < n && m[b].ccc < tmp[a].ccc ? m[b++] : tmp[a++];
}

// NFC of one stretch between boundaries, appended to *out.
static void normalize_stretch(struct fg_buf *out, const char *s, size_t n)
{
    // A character becomes at most 4, and at least one byte stands for each.
    struct mark small[3 * 64], *m = small;
    size_t cap = n * 4;
    if (cap > 64) {
        if (n > SIZE_MAX / (12 * sizeof *m) || !(m = malloc(cap * 2 * sizeof *m))) {
            out->failed = true;
            return;
        }
    }
    struct mark *tmp = m + cap;
    size_t n_marks = 0;
    for (size_t i = 0, step; i < n; i += step) {
        uint32_t d[4];
        size_t n_d = decompose(fg_utf8_get(s + i, &step), d);
        for (size_t k = 0; k < n_d; k++)
            m[n_marks++] = (struct mark){d[k], combining_class(d[k])};
    }
    for (size_t i = 0; i < n_marks;) {
        size_t end = i;
        while (end < n_marks && m[end].ccc)
            end++;
        if (end - i > 1) sort_marks(m + i, tmp, end - i);
        i = end + 1;
    }
    // Canonical composition (UAX 15): each character with the last starter, unless one of the same
    // or a higher class, or another starter, stands between.
    size_t to = 0, starter = SIZE_MAX;
    unsigned last = 0; // class of the character before, when it did not compose
    for (size_t i = 0; i < n_marks; i++) {
        bool adjacent = starter != SIZE_MAX && starter + 1 == to;
        if (starter != SIZE_MAX && (adjacent || (last && last < m[i].ccc))) {
            uint32_t c = compose(m[starter].c, m[i].c);
            if (c) {
                m[starter].c = c;
                continue;
            }
        }
        if (!m[i].ccc) starter = to;
        last = m[i].ccc;
        m[to++] = m[i];
    }
    for (size_t i = 0; i < to; i++) {
        char b[4];
        fg_buf_add(out, b, fg_utf8_put(b, m[i].c));
    }
    if (m != small) free(m);
}

bool fg_nfc(struct fg_buf *out, const char *s, size_t n)
{
    size_t i = fg_ascii_prefix(s, n);
    size_t kept = 0;                 // s[0, kept) is in out
    size_t boundary = i ? i - 1 : 0; // the last boundary seen
    bool changed = false;
    while (i < n) {
        size_t step;
        uint32_t c = fg_utf8_get(s + i, &step);
        if (!is_active(c)) {
            boundary = i;
            i += step;
            continue;
        }
        size_t end = i + step;
        while (end < n && is_active(fg_utf8_get(s + end, &step)))
            end += step;
        fg_buf_add(out, s + kept, boundary - kept);
        normalize_stretch(out, s + boundary, end - boundary);
        kept = boundary = i = end;
        changed = true;
    }
    if (changed) fg_buf_add(out, s + kept, n - kept);
    return changed;
}
