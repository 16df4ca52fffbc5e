// text/vocab.h: the tables of a byte-level BPE: tokens by id and by bytes, merges by pair, added
// tokens (specs: model 12.1, 12.2). The loaders (tokenizer_json.c, tokenizer_gguf.c) fill it, in
// the order add, seal, merge; bpe.c and tokenizer.c read it.
//
// Inside, a token is known by its index in the table sorted by id, which is the id itself when the
// ids have no gaps.
#ifndef FG_TEXT_VOCAB_H
#define FG_TEXT_VOCAB_H
#include "base/buf.h"
#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FG_VOCAB_NONE UINT32_MAX
#define FG_TOKEN_ID_MAX (INT32_MAX - 1) // so that the number of ids fits
#define FG_ADDED_BYTES_MAX 1024 // length of an added token's text: bounds the search for them
#define FG_ADDED_MAX 100000

struct fg_vocab_token {
    uint32_t at;      // the token's bytes in `blob`, the byte alphabet undone
    uint32_t n_bytes; //
    int32_t id;
    uint32_t added; // index in `added`, or FG_VOCAB_NONE
    bool base;      // an entry of the model's vocabulary
    bool literal;   // its string is not in the byte alphabet: `bytes` are its own UTF-8
};

enum {
    FG_ADDED_SPECIAL = 1,     // left out by FG_TOK_SKIP_SPECIAL
    FG_ADDED_NORMALIZED = 2,  // looked for in normalized text
    FG_ADDED_LSTRIP = 4,      // takes the white space before it
    FG_ADDED_RSTRIP = 8,      // takes the white space after it
    FG_ADDED_SINGLE_WORD = 16 // not inside a word
};

struct fg_vocab_added {
    uint32_t at; // its text in `blob`
    uint32_t n_bytes;
    uint32_t token; // index in `tokens`, after sealing
    unsigned flags;
};

struct fg_merge {
    uint32_t left, right; // token indices; left FG_VOCAB_NONE: empty slot
    uint32_t rank;        // lower merges first
    uint32_t result;
};

#define FG_VOCAB_PENDING 16

// A part or the result of a merge that waits for being looked up.
struct fg_vocab_key {
    uint32_t at, n_bytes; // in blob, behind the tokens
    bool literal;
    uint64_t hash;
};

struct fg_vocab_slot {
    uint32_t token; // index; FG_VOCAB_NONE: empty
    uint32_t tag;   // of its bytes' hash
};

struct fg_vocab {
    const char *file; // for errors; the caller's, needed until the last merge is added
    struct fg_buf blob;
    struct fg_vocab_token *tokens; // sorted by id after sealing
    uint32_t n_tokens, cap_tokens;
    struct fg_vocab_added *added;
    uint32_t n_added, cap_added;
    struct fg_vocab_slot *slots; // the model's vocabulary by bytes, open addressing
    uint32_t slot_mask;
    struct fg_merge *merges; // by pair, open addressing
    uint32_t merge_mask;
    uint32_t n_merges;
    uint64_t seed; // of both tables, from the content
    // Merges are entered some at a time, so that the look-ups, which are cache misses, overlap.
    struct fg_vocab_key pending[FG_VOCAB_PENDING][3]; // left, right, result
    uint32_t n_pending;
    size_t pending_at; // begin of their bytes in blob
    // Tokens of the 256 bytes. Published vocabularies lack some control characters and some bytes
    // that UTF-8 never uses or uses for empty planes: FG_VOCAB_NONE here, and left out of the ids.
    uint32_t byte_token[256];
    uint32_t n_bytes_missing;
};

void fg_vocab_free(struct fg_vocab *v); // and zeroes it

// Undoes the byte alphabet: appends the bytes of s[0, n) (valid UTF-8) to *out and returns true, or
// appends s itself and returns false when a character is not in the alphabet.
bool fg_vocab_undo_alphabet(struct fg_buf *out, const char *s, size_t n);

// An entry of the model's vocabulary, its string as in the file. `where` names it in errors. `id`
// is checked here, repetitions by the seal.
int fg_vocab_add(struct fg_vocab *v, const char *s, size_t n, int64_t id, struct fg_error *err);
// An added token with FG_ADDED flags. The same token again (same id and text) is ignored, its first
// flags count; so is an empty text.
int fg_vocab_add_added(struct fg_vocab *v, const char *s, size_t n, int64_t id, unsigned flags,
                       struct fg_error *err);

// Sorts and checks what was added. FG_EINPUT: repeated ids or strings, an added token whose id or
// text belongs to another entry, a byte of ordinary text without a token, an empty vocabulary.
// n_merges is an upper bound of the merges to come.
int fg_vocab_seal(struct fg_vocab *v, uint64_t n_merges, struct fg_error *err);

// Gives the bytes without a token this one.
void fg_vocab_set_unknown(struct fg_vocab *v, uint32_t index);

// The next merge in rank order, as strings of the file. FG_EINPUT, perhaps only from a later merge
// or from fg_vocab_merges_end: a part or the result is not in the vocabulary, a part is empty, or
// the pair was there before.
int fg_vocab_merge(struct fg_vocab *v, const char *a, size_t n_a, const char *b, size_t n_b,
                   struct fg_error *err);
// The same for "a b", split at the first space.
int fg_vocab_merge_line(struct fg_vocab *v, const char *s, size_t n, struct fg_error *err);
// After the last merge; nothing is looked up before.
int fg_vocab_merges_end(struct fg_vocab *v, struct fg_error *err);

// Index of the token with this id; FG_VOCAB_NONE when there is none.
static inline uint32_t fg_vocab_index(const struct fg_vocab *v, int32_t id)
{
    if (id < 0) return FG_VOCAB_NONE;
    if ((uint32_t)id < v->n_tokens && v->tokens[id].id == id) return (uint32_t)id;
    uint32_t lo = 0, hi = v->n_tokens;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (v->tokens[mid].id < id) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo < v->n_tokens && v->tokens[lo].id == id ? lo : FG_VOCAB_NONE;
}

// Index of the model's vocabulary entry that consists of these bytes; FG_VOCAB_NONE.
uint32_t fg_vocab_find(const struct fg_vocab *v, const char *bytes, size_t n, bool literal);

static inline uint32_t fg_merge_slot(const struct fg_vocab *v, uint32_t left, uint32_t right)
{
    // Multiplicative hashing with an odd factor that the file's content decides.
    uint64_t key = (uint64_t)left << 32 | right;
    uint64_t h = (key ^ key >> 29) * (v->seed | 1);
    return (uint32_t)(h >> 32) & v->merge_mask;
}

// The merge of two neighbouring tokens; NULL when there is none.
static inline const struct fg_merge *fg_vocab_pair(const struct fg_vocab *v, uint32_t left,
                                                   uint32_t right)
{
    for (uint32_t i = fg_merge_slot(v, left, right);; i = (i + 1) & v->merge_mask) {
        const struct fg_merge *m = &v->merges[i];
        if (m->left == left && m->right == right) return m;
        if (m->left == FG_VOCAB_NONE) return NULL;
    }
}
#endif
