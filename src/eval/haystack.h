// eval/haystack.h: texts in which facts are hidden: sentences of a small grammar of our own, or any
// other text, with lines that give access codes (specs: quantization 7.4). The same seed gives the
// same keys, codes and sentences, and more sentences begin like fewer.
#ifndef FG_EVAL_HAYSTACK_H
#define FG_EVAL_HAYSTACK_H
#include "base/buf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FG_NEEDLES_MAX 16
#define FG_NEEDLE_DISTRACTORS 3
#define FG_NEEDLE_KEY 48
#define FG_NEEDLE_CODE 8  // seven digits, the first of them not 0, and the NUL
#define FG_NEEDLE_LINE 96 // of one fact, NUL included

struct fg_needle {
    char key[FG_NEEDLE_KEY]; // "amber lighthouse"
    char code[FG_NEEDLE_CODE];
};

// The facts of one text; keys and codes are all different.
struct fg_needles {
    int n; // that are asked for, 1 .. FG_NEEDLES_MAX
    struct fg_needle asked[FG_NEEDLES_MAX];
    struct fg_needle others[FG_NEEDLE_DISTRACTORS];
    double other_share[FG_NEEDLE_DISTRACTORS]; // of the haystack that stands before them, below 1
};
void fg_needles_make(struct fg_needles *f, uint64_t seed, int n);
// "The access code of the KEY is CODE." into out [FG_NEEDLE_LINE]. Returns out.
char *fg_needle_line(char *out, const struct fg_needle *needle);

// Appends whole sentences in paragraphs, in all at least `bytes` long.
void fg_haystack_sentences(struct fg_buf *out, uint64_t seed, size_t bytes);

// Appends the whole text: an introduction; the haystack [n], which ends between characters, with a
// line for each fact at its byte; the question. asked_at [f->n] and other_at
// [FG_NEEDLE_DISTRACTORS] are the bytes, 0 .. n, between characters too. With `open` the text ends
// where a model that continues it would write the codes (" CODE, CODE"); else an answer of the
// codes alone is asked for.
void fg_haystack_text(struct fg_buf *out, const struct fg_needles *f, const char *haystack,
                      size_t n, const size_t *asked_at, const size_t *other_at, bool open);

// What a reply is worth.
struct fg_needle_score {
    bool found[FG_NEEDLES_MAX]; // the code occurs
    int n_found;
    bool value;  // all of them do
    bool format; // the reply is as many groups of seven digits as codes were asked for, with blanks
                 // and commas between them, and nothing else but blanks around it
    bool exact;  // and these are the codes, in the order of the question
};
struct fg_needle_score fg_needle_score(const struct fg_needles *f, const char *reply);
#endif
