// bundle/convert_impl.h: a conversion at work; shared by convert*.c.
#ifndef FG_BUNDLE_CONVERT_IMPL_H
#define FG_BUNDLE_CONVERT_IMPL_H
#include "base/arena.h"
#include "bundle/convert.h"
#include "bundle/digest.h"
#include "bundle/source.h"
#include "format/manifest.h"
#include "quant/export.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_CONVERT_WHAT "convert"
#define FG_CONVERT_EMBEDDING "embed_tokens_fp16.npy"
#define FG_CONVERT_EMBEDDING_INT8 "embed_tokens_int8.safetensors"

// A file of the bundle, in the journal once it is whole.
struct fg_convert_file {
    const char *name; // from the bundle's directory: "forge/chunk_L00-03.safetensors"
    char *path;
    uint64_t bytes; // expected, then of the file
    char sha256[FG_SHA256_HEX];
    bool done; // whole, by this run or an earlier one
    // What it is made of: a copy of this file, or layers [first, last] of the export, the head
    // (first -1), or the embedding (first -2).
    const char *source;
    int64_t first, last;
};

struct fg_convert_job {
    const struct fg_convert_options *o;
    struct fg_error *err;
    struct fg_arena arena;
    struct fg_source *source;
    const struct fg_export *export;
    const struct fg_config *config;
    struct fg_digest digest;
    const char *name;                 // of the bundle
    char *dir, *model, *build, *mark; // directories: the bundle, /model, /forge, /.forge
    char *journal;                    // path
    char identity[FG_SHA256_HEX];     // of inputs and options
    int lock;                         // file descriptor, -1: none
    struct fg_convert_file *files;
    uint64_t n_files, cap_files;
    uint64_t n_kept;
    uint64_t total, done; // bytes to write in all; of finished files
    const char *item;     // at work
};

// FG_EINTERRUPTED when the caller wants to stop; `at` bytes of the file at work are written.
int fg_convert_tick(struct fg_convert_job *j, uint64_t at);

// convert_model.c: the files of model/, and writing one of them.
int fg_convert_list_model(struct fg_convert_job *j);
// The embedding's file in model/; NULL where the head is the embedding.
const char *fg_convert_embedding_file(const struct fg_convert_job *j);
int fg_convert_copy(struct fg_convert_job *j, struct fg_convert_file *f);
int fg_convert_embedding(struct fg_convert_job *j, struct fg_convert_file *f);

// convert_build.c: the packages, and writing one; the manifest, when all files are there.
int fg_convert_list_build(struct fg_convert_job *j);
int fg_convert_package(struct fg_convert_job *j, struct fg_convert_file *f);
int fg_convert_manifest(struct fg_convert_job *j, const char *path);

// Adds a file to the list; NULL when out of memory (the error is set).
struct fg_convert_file *fg_convert_add_file(struct fg_convert_job *j, const char *dir,
                                            const char *name);
// The file of that name in the list, which must be there.
const struct fg_convert_file *fg_convert_find(const struct fg_convert_job *j, const char *name);
#endif
