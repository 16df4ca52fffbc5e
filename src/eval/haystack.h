// eval/haystack.h: texts in which a fact is hidden: sentences of a small grammar of our own, with
// lines that give access codes. The same seed gives the same text, and a longer text begins like a
// shorter one.
#ifndef FG_EVAL_HAYSTACK_H
#define FG_EVAL_HAYSTACK_H
#include "base/buf.h"
#include <stddef.h>
#include <stdint.h>

#define FG_NEEDLE_KEY 48
#define FG_NEEDLE_CODE 8 // seven digits, the first of them not 0, and the NUL
#define FG_NEEDLE_DISTRACTORS 3

// One fact: "The access code of the KEY is CODE."
struct fg_needle {
    char key[FG_NEEDLE_KEY]; // "amber lighthouse"
    char code[FG_NEEDLE_CODE];
};

struct fg_haystack {
    uint64_t seed;
    struct fg_needle needle;
    struct fg_needle others[FG_NEEDLE_DISTRACTORS]; // facts that are not asked for, all different
};
void fg_haystack_make(struct fg_haystack *h, uint64_t seed);

// Appends the text: an introduction, n sentences in paragraphs, the needle after the first
// `before` <= n of them, the others at places of their own, and the question. *needle_at receives
// the needle's first byte, counted from the start of the text. With `open` the text ends where a
// model that continues it would write the code (" CODE"); else an answer of the code alone is asked
// for.
void fg_haystack_text(struct fg_buf *out, const struct fg_haystack *h, int64_t n, int64_t before,
                      bool open, size_t *needle_at);
#endif
