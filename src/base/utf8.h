// base/utf8.h: one step over UTF-8 that may be invalid (Unicode 15.0, D93b: maximal subparts).
#ifndef FG_BASE_UTF8_H
#define FG_BASE_UTF8_H
#include <stdbool.h>
#include <stddef.h>

// Bytes of the next piece at s (n > 0 bytes): a whole character (*valid true, 1 to 4 bytes) or a
// maximal invalid subpart (*valid false, 1 to 3 bytes; the piece a decoder replaces by one U+FFFD).
// *cut (may be NULL) is set when the piece is invalid only because the text ends inside it.
static inline size_t fg_utf8_step(const unsigned char *s, size_t n, bool *valid, bool *cut)
{
    unsigned char c = s[0], lo = 0x80, hi = 0xBF;
    if (cut) *cut = false;
    *valid = true;
    if (c < 0x80) return 1;
    *valid = false;
    if (c < 0xC2 || c > 0xF4) return 1;
    size_t len = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    if (c == 0xE0) lo = 0xA0;
    if (c == 0xED) hi = 0x9F;
    if (c == 0xF0) lo = 0x90;
    if (c == 0xF4) hi = 0x8F;
    for (size_t i = 1; i < len; i++) {
        if (i >= n) {
            if (cut) *cut = true;
            return i;
        }
        if (s[i] < lo || s[i] > hi) return i;
        lo = 0x80;
        hi = 0xBF;
    }
    *valid = true;
    return len;
}
#endif
