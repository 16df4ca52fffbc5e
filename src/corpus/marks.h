// corpus/marks.h: what in a sequence of tokens is a template's and not the conversation's: tokens
// that are marks (added tokens), and the template's own words between them (specs: quantization
// 6.3, "template tokens excluded").
#ifndef FG_CORPUS_MARKS_H
#define FG_CORPUS_MARKS_H
#include "base/error.h"
#include "corpus/grams.h"
#include "forge/forge.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_marks {
    const struct forge_engine *engine;
    uint8_t *known; // [n] of each id: 0 not asked yet, 1 text, 2 mark
    size_t n;
    int window;               // tokens of a run
    struct fg_gram_set words; // runs that the template itself makes
};

// Renders conversations in several forms, with the letter "x" for all that is the conversation's.
// An engine without template gives no words. The engine must stay. Errors: FG_EINPUT (no
// tokenizer), FG_ERESOURCE; *m is then empty.
int fg_marks_open(struct fg_marks *m, const struct forge_engine *engine, int window,
                  struct fg_error *err);
void fg_marks_close(struct fg_marks *m); // zeroed is fine

// Is the token a mark? Errors: FG_EINPUT (no token has this id), FG_ERESOURCE.
int fg_marks_ask(struct fg_marks *m, int32_t id, bool *mark, struct fg_error *err);
// How many of the last `window` ids, ending at the newest, are free of marks is the caller's to
// count; this tells whether a run without marks, known by its hash, is the template's.
bool fg_marks_has(const struct fg_marks *m, uint64_t hash);
#endif
