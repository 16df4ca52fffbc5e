// text/added.h: finds added tokens in text (specs: model 12.2, 12.3). A trie over bytes; the search
// costs at most FG_ADDED_BYTES_MAX steps for a byte of text, and one for text in which no token
// begins.
#ifndef FG_TEXT_ADDED_H
#define FG_TEXT_ADDED_H
#include "text/vocab.h"

struct fg_added_node; // opaque

struct fg_added_trie {
    struct fg_added_node *nodes;
    uint32_t n_nodes, cap_nodes;
    uint32_t root[256]; // node of the first byte; 0: no token begins with it
};

// Holds the added tokens of v whose FG_ADDED_NORMALIZED flag is as given. Errors: FG_EINPUT when
// two ids have one text, FG_ERESOURCE; *trie is then empty.
int fg_added_build(struct fg_added_trie *trie, const struct fg_vocab *v, bool normalized,
                   struct fg_error *err);
void fg_added_free(struct fg_added_trie *trie);

// A match: text[begin, end) without the white space that its flags take along.
struct fg_added_match {
    size_t begin, end;
    uint32_t added; // index in v->added
};

// The leftmost, and of those the longest, token in text[from, n). False when there is none.
bool fg_added_find(const struct fg_added_trie *trie, const char *text, size_t n, size_t from,
                   struct fg_added_match *match);
// Index in v->added of the token that is exactly text[0, n); FG_VOCAB_NONE.
uint32_t fg_added_exact(const struct fg_added_trie *trie, const char *text, size_t n);
#endif
