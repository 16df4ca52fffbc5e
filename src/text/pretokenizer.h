// text/pretokenizer.h: cuts text into the pieces within which BPE merges (specs: model 12.4).
// The patterns run in PCRE2; stretches of ASCII, most of English and of code, are cut by a
// hand-written matcher that gives the same pieces.
#ifndef FG_TEXT_PRETOKENIZER_H
#define FG_TEXT_PRETOKENIZER_H
#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>

enum fg_pretok_kind {
    FG_PRETOK_QWEN2,   // Qwen2, 2.5, 3
    FG_PRETOK_QWEN35,  // Qwen3.5 and later: marks belong to words
    FG_PRETOK_GPT2,    // GPT-2
    FG_PRETOK_SMOLLM2, // every numeric character alone, then GPT-2
    FG_PRETOK_LLAMA3,  // Llama 3: as qwen2, with up to three digits in a piece
    FG_PRETOK_COUNT
};

const char *fg_pretok_name(enum fg_pretok_kind kind); // "qwen2", ...
// The kind whose published Split pattern is exactly regex[0, n). False when there is none.
bool fg_pretok_of_regex(const char *regex, size_t n, enum fg_pretok_kind *kind);

struct fg_pretok;      // a compiled pattern; immutable, shared between threads
struct fg_pretok_work; // match data and stack of one thread

// Errors: FG_ERESOURCE; FG_EFAILED when PCRE2 refuses the pattern (a build without Unicode).
int fg_pretok_new(struct fg_pretok **out, enum fg_pretok_kind kind, struct fg_error *err);
void fg_pretok_free(struct fg_pretok *p); // NULL is fine
int fg_pretok_work_new(struct fg_pretok_work **out, const struct fg_pretok *p,
                       struct fg_error *err);
void fg_pretok_work_free(struct fg_pretok_work *work); // NULL is fine

// Finds the piece that begins at text + at: *end gets its end, at < *end <= n. text[0, n) is valid
// UTF-8 and is what look-ahead sees; 0 <= at < n is the begin of a character and the end of the
// piece before. Every byte belongs to a piece. Errors: FG_ERESOURCE, FG_EFAILED.
int fg_pretok_next(const struct fg_pretok *p, struct fg_pretok_work *work, const char *text,
                   size_t n, size_t at, size_t *end, struct fg_error *err);
// The same without the ASCII matcher, for tests.
int fg_pretok_next_regex(const struct fg_pretok *p, struct fg_pretok_work *work, const char *text,
                         size_t n, size_t at, size_t *end, struct fg_error *err);
#endif
