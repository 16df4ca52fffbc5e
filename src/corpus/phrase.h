// corpus/phrase.h: texts from templates and word lists. A template is text with slots:
//
//   @{list}      an item of the list, expanded itself; the same slot again gives the same item
//   @{list#2}    another item of the list than @{list} and @{list#1} have
//   @{A:list}    as @{list}, its first letter (ASCII) in upper case
//   @{*list}     any item, drawn for this place alone; @{*A:list} too
//   @{n:LO:HI}   a whole number; @{n:LO:HI#a} again gives the same number
//   @{hex:N} @{digits:N} @{b64:N} @{uuid}   N characters of that kind; with #a as above
//
// Templates and lists are our own tables; a slot that nobody knows is a mistake in them, which
// `failed` tells and a test looks for.
#ifndef FG_CORPUS_PHRASE_H
#define FG_CORPUS_PHRASE_H
#include "base/buf.h"
#include "quant/random.h"
#include <stdbool.h>
#include <stddef.h>

struct fg_phrase_list {
    const char *name;
    const char *const *item; // [n]
    size_t n;
};
// For tables of lists, which end with a zeroed entry.
#define FG_PHRASE_LIST(array)                                                                      \
    {                                                                                              \
#array, array, sizeof(array) / sizeof((array)[0])                                          \
    }

#define FG_PHRASE_BOUND_MAX 96
#define FG_PHRASE_DEPTH_MAX 6

struct fg_phrase {
    struct fg_random *random;
    const struct fg_phrase_list *const *scopes; // tables, NULL at the end; the first that has a
                                                // name counts
    struct {
        const struct fg_phrase_list *list; // NULL: a drawn text
        const char *slot;                  // in the template
        size_t n;                          // bytes of slot
        size_t pick;                       // of list
        uint64_t seed;                     // that the text was drawn with
    } bound[FG_PHRASE_BOUND_MAX];
    int n_bound;
    bool failed; // unknown slot, list used up, nesting
};

// Appends the expanded template. What slots are bound to stays in p.
void fg_phrase_put(struct fg_phrase *p, struct fg_buf *out, const char *text);
// An item of the list, drawn without binding; NULL, and failed, when there is no such list.
const char *fg_phrase_pick(struct fg_phrase *p, const char *list);
#endif
