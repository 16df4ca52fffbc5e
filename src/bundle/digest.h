// bundle/digest.h: the digest of weights (specs: quantization 6.9). One line "NAME DTYPE[SHAPE]
// SHA256" for each array as the runtime consumes it, sorted by name: indices with a byte each
// ("layers.0.mlp.gate_proj.idx U8[8704,5120] ..."), tables (.lut), scales (.scale), factors (.lr_a,
// .lr_b, INT8 ones with .lr_scale), codes (.int8), kept weights (.weight), sign bitmaps
// ("layers.0.rot.mlp_in") and small tensors. The root is the SHA-256 of the lines joined by "\n".
// Packing, chunks and specialization do not show in it; the embedding is not part of it.
#ifndef FG_BUNDLE_DIGEST_H
#define FG_BUNDLE_DIGEST_H
#include "base/error.h"
#include "base/hash.h"
#include "base/thread.h"
#include "format/qset.h"
#include <stdbool.h>
#include <stdint.h>

// Writes the indices of rows [row0, row0 + n_rows) of the index matrix (pairs of rows for the
// vector formats), one byte each, to out [n_rows][cols]; for int8 the codes. Called from several
// threads at once for different matrices.
typedef int (*fg_digest_unpack_fn)(void *ctx, const struct fg_qset_mat *mat, int64_t row0,
                                   int64_t n_rows, uint8_t *out, struct fg_error *err);
// done of total bytes are hashed; false stops the work (FG_EINTERRUPTED). Called from the thread
// that called, between matrices.
typedef bool (*fg_digest_progress_fn)(void *ctx, uint64_t done, uint64_t total);

// Zeroed is fine.
struct fg_digest_options {
    struct fg_pool *pool;       // NULL: one thread
    fg_digest_unpack_fn unpack; // NULL: from the matrices' own arrays
    void *unpack_ctx;
    fg_digest_progress_fn progress;
    void *progress_ctx;
    const char *only; // only arrays of this matrix or layer prefix ("layers.3."); NULL: all
    bool release;     // tell the kernel that the pages of a hashed matrix are not needed again
};

struct fg_digest {
    char hex[FG_SHA256_HEX];  // of all lines
    char head[FG_SHA256_HEX]; // of the lines of lm_head and norm.weight: the head's id
    char *lines;              // sorted, joined by "\n", NUL-terminated
    uint64_t n_lines;
};

// Digest of the union of n_sets sets: chunks and head of a build, or one export. A name in two sets
// is FG_EINPUT, as is an index out of its table; other errors come from unpack, FG_ERESOURCE,
// FG_EINTERRUPTED. On failure *out is zeroed.
int fg_digest_sets(struct fg_digest *out, const struct fg_qset *const *sets, uint64_t n_sets,
                   const struct fg_digest_options *o, struct fg_error *err);
void fg_digest_free(struct fg_digest *d); // zeroed is fine

// Compares with the lines of another digest (text of n bytes, any order of lines; a line
// with a root alone is passed over): calls `differs`
// for each name whose line is another (what: "differs", "missing" from d, "extra" in d) and counts
// them. FG_EINPUT when the text is no list of digest lines.
int fg_digest_compare(const struct fg_digest *d, const char *text, uint64_t n, const char *file,
                      void (*differs)(void *ctx, const char *name, const char *what), void *ctx,
                      uint64_t *n_differ, struct fg_error *err);
#endif
