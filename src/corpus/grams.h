// corpus/grams.h: runs of n words or tokens as sets of hashes, for near duplicates and
// contamination (specs: quantization 6.3). A run is known by 64 bits of its hash: two different
// runs meet with probability 2^-64 a pair, and a report is no proof.
#ifndef FG_CORPUS_GRAMS_H
#define FG_CORPUS_GRAMS_H
#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Words of a text: lower-cased stretches of word characters (fg_is_word), with an apostrophe
// between letters inside; each character of a script that is written without blanks (Han, kana,
// Thai, Lao, Khmer, Burmese) is a word of its own, with the marks that follow it.
struct fg_words {
    uint64_t *hash; // [n], in order
    size_t n, cap;
};
// Appends the words of text[0, n), which must be valid UTF-8. False: out of memory.
bool fg_words_add(struct fg_words *w, const char *text, size_t n);
void fg_words_free(struct fg_words *w); // zeroed is fine

// A set of runs: ascending, each once.
struct fg_grams {
    uint64_t *item; // [n]
    size_t n;
};
// The runs of `order` words; of fewer words, one run of all of them; of none, no run. False: out of
// memory, *out is then empty.
bool fg_grams_of(struct fg_grams *out, const struct fg_words *words, int order);
void fg_grams_free(struct fg_grams *g);
// Shared runs / all runs of both; 0 when both are empty.
double fg_grams_jaccard(const struct fg_grams *a, const struct fg_grams *b);

// Which of many sets hold a run. Sets have numbers 0, 1, ... in the order of adding.
struct fg_gram_index {
    uint64_t *key;        // [cap] open addressing
    uint32_t *head;       // [cap] first posting + 1; 0: free
    size_t cap, used;     // cap is 0 or a power of two
    uint32_t *set, *next; // postings: a set, the next posting + 1
    size_t n_post, cap_post;
    uint32_t *size; // runs of each set
    size_t n_sets, cap_sets;
};
// False: out of memory, or more than 2^32 - 2 postings; the index is then only to be freed.
bool fg_gram_index_add(struct fg_gram_index *x, const struct fg_grams *g);
void fg_gram_index_free(struct fg_gram_index *x);
// The set that is most like g by Jaccard, the lowest number among equals; *likeness (may be NULL)
// gets it. -1 when none shares a run. FG_ERESOURCE only.
int fg_gram_index_like(const struct fg_gram_index *x, const struct fg_grams *g, int64_t *set,
                       double *likeness, struct fg_error *err);
// The lowest set that shares a run with g, -1: none.
int64_t fg_gram_index_first(const struct fg_gram_index *x, const struct fg_grams *g);

// A hash of n token ids.
uint64_t fg_gram_ids(const int32_t *ids, size_t n);
// A set of hashes that is asked often.
struct fg_gram_set {
    uint64_t *key; // [cap]; 0: free (a hash of 0 counts as 1)
    size_t cap, used;
};
bool fg_gram_set_add(struct fg_gram_set *s, uint64_t hash); // false: out of memory
bool fg_gram_set_has(const struct fg_gram_set *s, uint64_t hash);
void fg_gram_set_free(struct fg_gram_set *s);
#endif
