// format/st_file.h: one safetensors file: read with the limits that specs/runtime.md 1.4 sets for
// Forge's own files (package, selector), and written, whole or as a stream. Checkpoints of others,
// in shards, are safetensors.h's; what the tensors of a package mean is package.h's.
//
//   u64 N | N bytes of JSON, padded with spaces | data
#ifndef FG_FORMAT_ST_FILE_H
#define FG_FORMAT_ST_FILE_H
#include "base/error.h"
#include "base/hash.h"
#include "format/safetensors.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_ST_FILE_HEADER_MAX (64ull << 20) // bytes of JSON
#define FG_ST_FILE_TENSORS_MAX 100000
#define FG_ST_FILE_NAME_MAX 256 // bytes
#define FG_ST_FILE_DIM_MAX (1ull << 40)
#define FG_ST_FILE_METADATA_MAX 1024               // keys
#define FG_ST_FILE_METADATA_BYTES_MAX (4ull << 20) // of all keys and values, as JSON
#define FG_ST_PAD "~pad."                          // start of the names of padding tensors

struct fg_st_pair {
    const char *key, *value;
};

// ---- reading

struct fg_st_file; // opaque

// Opens, maps and checks the container: lengths, JSON, names, dtypes, shapes, and that the tensors'
// ranges tile the data exactly. `what` names the kind of file in errors ("package"); it must stay.
// Errors: FG_EINPUT with one of the fields "size", "header_length", "header (byte N)", "dtype of
// NAME", "shape of NAME", "data_offsets of NAME", "tensor NAME"; FG_ERESOURCE. *out is then NULL.
int fg_st_file_open(struct fg_st_file **out, const char *what, const char *path,
                    struct fg_error *err);
void fg_st_file_close(struct fg_st_file *f); // NULL is fine; ends every pointer handed out

const char *fg_st_file_path(const struct fg_st_file *f);
uint64_t fg_st_file_bytes(const struct fg_st_file *f); // of the whole file
uint64_t fg_st_file_count(const struct fg_st_file *f);
// i < count; by place in the file.
const struct fg_st_tensor *fg_st_file_at(const struct fg_st_file *f, uint64_t i);
const struct fg_st_tensor *fg_st_file_find(const struct fg_st_file *f, const char *name);
uint64_t fg_st_file_n_metadata(const struct fg_st_file *f);
struct fg_st_pair fg_st_file_metadata_at(const struct fg_st_file *f, uint64_t i);
const char *fg_st_file_metadata(const struct fg_st_file *f, const char *key); // NULL: absent

// ---- writing

struct fg_st_blob {
    const char *name;
    enum fg_st_dtype dtype;
    int rank;
    uint64_t shape[FG_ST_RANK_MAX];
    const void *data; // row-major, little-endian, any alignment
};

// Zeroed: no metadata, data start at a multiple of 64, tensors without gaps.
struct fg_st_options {
    const struct fg_st_pair *metadata; // written in this order
    uint64_t n_metadata;
    uint64_t header_align; // data start at a multiple of it in the file; 0: 64; else a power of two
    uint64_t tensor_align; // each tensor starts at a multiple of it, behind a U8 tensor "~pad.N"
                           // where needed; 0: none; else a power of two up to header_align
    bool hash;             // count SHA-256 while writing
};

struct fg_st_written {
    uint64_t bytes;             // of the file
    char sha256[FG_SHA256_HEX]; // empty without options.hash
};

// Writes the file atomically, tensors in the given order. The same arguments give the same bytes.
// written may be NULL. Errors: FG_EINPUT (a name twice, overlong or of padding, rank, overflow,
// path), FG_ERESOURCE; the old file is then as it was and nothing is left behind.
int fg_st_file_write(const char *path, const struct fg_st_blob *blobs, uint64_t n,
                     const struct fg_st_options *o, struct fg_st_written *written,
                     struct fg_error *err);

// Size of that file, without writing it.
int fg_st_file_size(const struct fg_st_blob *blobs, uint64_t n, const struct fg_st_options *o,
                    uint64_t *bytes, struct fg_error *err);

// Writing for data that are made one after the other: `data` of the blobs is not looked at, blobs
// and options are copied as far as they are needed later.
struct fg_st_stream; // opaque
int fg_st_stream_open(struct fg_st_stream **out, const char *path, const struct fg_st_blob *blobs,
                      uint64_t n, const struct fg_st_options *o, struct fg_error *err);
uint64_t fg_st_stream_bytes(const struct fg_st_stream *s); // of the finished file
// The next bytes of the tensors, in declared order, in pieces of any size that may span tensors;
// padding is put in between. More than was declared: FG_EINPUT.
int fg_st_stream_add(struct fg_st_stream *s, const void *data, uint64_t bytes,
                     struct fg_error *err);
// Gives the file its name and frees s, also on failure (data missing: FG_EINPUT; nothing is then
// left behind).
int fg_st_stream_commit(struct fg_st_stream *s, struct fg_st_written *written,
                        struct fg_error *err);
void fg_st_stream_abort(struct fg_st_stream *s); // removes what was written; NULL is fine
#endif
