// text/bpe.h: byte-pair merging of one piece (specs: model 12.3).
#ifndef FG_TEXT_BPE_H
#define FG_TEXT_BPE_H
#include "text/vocab.h"

// Scratch memory, grown to the longest piece seen. Zeroed is empty.
struct fg_bpe_work {
    uint32_t *symbols; // tokens of the piece: input and result
    struct fg_bpe_link *links;
    uint64_t *heap;
    size_t cap; // bytes of a piece that all of it has room for
};
void fg_bpe_work_free(struct fg_bpe_work *work);

// Merges the n > 0 bytes of a piece: again and again the neighbouring pair of lowest rank, leftmost
// first among equals. work->symbols gets the token indices, *n_symbols (possibly 0) their number.
// O(n^2) for short pieces and O(n log n) for long ones. Errors: FG_ERESOURCE.
int fg_bpe_merge(const struct fg_vocab *v, struct fg_bpe_work *work, const char *bytes, size_t n,
                 size_t *n_symbols, struct fg_error *err);
#endif
