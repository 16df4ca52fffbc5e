// text/tokenizer_parts.h: what the files of the tokenizer share: tokenizer.c (life, look-ups,
// decoding), tokenizer_encode.c, and the loaders tokenizer_json.c and tokenizer_gguf.c. Not for
// others.
#ifndef FG_TEXT_TOKENIZER_PARTS_H
#define FG_TEXT_TOKENIZER_PARTS_H
#include "text/added.h"
#include "text/pretokenizer.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

#define FG_WRAP_MAX 8 // ids put before or after a text

struct fg_wrap {
    int32_t ids[FG_WRAP_MAX];
    size_t n;
};

struct fg_tokenizer {
    struct fg_vocab vocab;
    enum fg_pretok_kind kind;
    struct fg_pretok *pretok;
    struct fg_added_trie raw, normalized; // added tokens by where they are looked for
    bool nfc;
    bool ignore_merges; // a piece that is a vocabulary entry is not merged (Llama 3)
    int32_t bos, eos, pad;
    struct fg_wrap before, after; // FG_TOK_WRAP
    struct fg_ids stop;           // ascending, each once
};

// An empty tokenizer for a loader; NULL when out of memory.
struct fg_tokenizer *fg_tokenizer_empty(void);
// After vocabulary, merges, kind and the rest are set: compiles the pattern, builds the tries,
// completes and sorts the stop ids. Errors: FG_EINPUT (an added text with two ids), FG_ERESOURCE,
// FG_EFAILED.
int fg_tokenizer_finish(struct fg_tokenizer *tok, struct fg_error *err);
#endif
