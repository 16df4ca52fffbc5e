// format/build.h: a build as it lies on disk: manifest, packages, config and embedding, opened and
// checked against each other (specs: runtime 1.1, 1.2, 1.4). Kernel order of the weights and the
// config's meaning are left to those above.
#ifndef FG_FORMAT_BUILD_H
#define FG_FORMAT_BUILD_H
#include "base/error.h"
#include "format/embedding.h"
#include "format/manifest.h"
#include "format/package.h"
#include "format/qset.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_build; // opaque

// Rows of token embeddings: [vocab][hidden] in a map.
struct fg_build_embedding {
    enum fg_embedding_kind kind; // never NONE
    const void *data;  // DENSE: F16, aligned to 2; INT8: codes; NULL: the head's matrix has them
    const void *scale; // INT8: [vocab] F16, any alignment
    int64_t vocab, hidden;
    const char *path;
};

// Opens `dir`: one that holds manifest.json, or a bundle with forge/manifest.json. Always checked:
// the manifest; sizes of the packages; every package as fg_package_open does, against the
// manifest's model; kinds, ranges, weights digest and export of all; the head's id where the
// package records it; SHA-256 of ../model/config.json, and its sizes against the manifest; header,
// shape and length of the embedding, its scales where it has some. With `verify` also SHA-256 of
// packages and embedding, and fg_package_verify. Errors: FG_EINPUT; FG_EINTEGRITY for sizes, hashes
// and identities that differ; FG_EUNSUPPORTED; FG_ERESOURCE. *out is then NULL.
int fg_build_open(struct fg_build **out, const char *dir, bool verify, struct fg_error *err);
void fg_build_close(struct fg_build *b); // NULL is fine; ends every pointer handed out
// True when fg_build_open would find a manifest there.
bool fg_build_is(const char *dir);

const struct fg_manifest *fg_build_manifest(const struct fg_build *b);
const char *fg_build_dir(const struct fg_build *b);       // that holds manifest.json
const char *fg_build_model_dir(const struct fg_build *b); // with config.json and the tokenizer
uint64_t fg_build_n_packages(const struct fg_build *b);
// Chunks in order of layers, then the head.
const struct fg_package *fg_build_package(const struct fg_build *b, uint64_t i);
const struct fg_build_embedding *fg_build_embedding(const struct fg_build *b);

// All packages as one set.
const struct fg_qset *fg_build_set(const struct fg_build *b);
static inline const struct fg_qset_mat *fg_build_find_mat(const struct fg_build *b,
                                                          const char *name)
{
    return fg_qset_find_mat(fg_build_set(b), name);
}
static inline const struct fg_qset_small *fg_build_find_small(const struct fg_build *b,
                                                              const char *name)
{
    return fg_qset_find_small(fg_build_set(b), name);
}
static inline const struct fg_qset_rot *fg_build_find_rot(const struct fg_build *b, int64_t layer,
                                                          const char *site)
{
    return fg_qset_find_rot(fg_build_set(b), layer, site);
}
#endif
