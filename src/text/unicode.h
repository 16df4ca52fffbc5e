// text/unicode.h: what the tokenizer needs to know about characters: UTF-8 in and out, white space,
// word characters, NFC. Pre-tokenizer classes live in pretokenizer.c (PCRE2's tables).
#ifndef FG_TEXT_UNICODE_H
#define FG_TEXT_UNICODE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fg_buf;

// The character at s, which must be the begin of valid UTF-8; *n_bytes gets its length, 1 to 4.
static inline uint32_t fg_utf8_get(const char *s, size_t *n_bytes)
{
    const unsigned char *p = (const unsigned char *)s;
    if (p[0] < 0x80) {
        *n_bytes = 1;
        return p[0];
    }
    if (p[0] < 0xE0) {
        *n_bytes = 2;
        return (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
    }
    if (p[0] < 0xF0) {
        *n_bytes = 3;
        return (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    }
    *n_bytes = 4;
    return (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
}

// Writes c (a scalar value) to out[0, 4); returns the number of bytes.
size_t fg_utf8_put(char *out, uint32_t c);
// Number of leading bytes of s[0, n) that are ASCII.
size_t fg_ascii_prefix(const char *s, size_t n);
// Appends s[0, n) to *out with each maximal invalid subpart replaced by U+FFFD. Appends nothing and
// returns false when all of it is valid.
bool fg_utf8_repair(struct fg_buf *out, const char *s, size_t n);

bool fg_is_space(uint32_t c);  // Unicode White_Space
bool fg_is_word(uint32_t c);   // \w of UTS 18: alphabetic, mark, decimal digit, connector, joiner
uint32_t fg_lower(uint32_t c); // simple lower-case mapping; c itself where there is none

// NFC of s[0, n), valid UTF-8. Appends it to *out and returns true when it differs from s or may
// differ; appends nothing and returns false when s is known to be its own NFC. Linear up to the
// sorting of runs of marks (n log n). Tables: utf8proc, with what was assigned after Unicode 9 left
// as it is, because the library that the models were trained with does so (specs: model 12.3).
// out->failed tells when memory ran out.
bool fg_nfc(struct fg_buf *out, const char *s, size_t n);
#endif
