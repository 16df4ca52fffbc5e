// format/safetensors.h: checkpoints of safetensors files, read (specs: model 10) and written. Reads
// one file or a directory (model.safetensors, or shards under model.safetensors.index.json), maps
// the data and checks everything that the files declare. What the tensors mean is model/'s.
#ifndef FG_FORMAT_SAFETENSORS_H
#define FG_FORMAT_SAFETENSORS_H
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_ST_RANK_MAX 8
#define FG_ST_NAME_MAX 1024           // bytes
#define FG_ST_TENSORS_MAX (1u << 20)  // per checkpoint
#define FG_ST_SHARDS_MAX 4096         // files per checkpoint
#define FG_ST_HEADER_MAX 100000000ull // bytes, the format's own limit

enum fg_st_dtype {
    FG_ST_BOOL,
    FG_ST_U8,
    FG_ST_I8,
    FG_ST_F8_E4M3,
    FG_ST_F8_E5M2,
    FG_ST_I16,
    FG_ST_U16,
    FG_ST_F16,
    FG_ST_BF16,
    FG_ST_I32,
    FG_ST_U32,
    FG_ST_F32,
    FG_ST_I64,
    FG_ST_U64,
    FG_ST_F64,
    FG_ST_N_DTYPES
};

const char *fg_st_dtype_name(enum fg_st_dtype t); // "BF16"
uint64_t fg_st_dtype_bytes(enum fg_st_dtype t);   // per element
// False for a name that is none of the above.
bool fg_st_dtype_of_name(const char *name, enum fg_st_dtype *out);

// One tensor; belongs to the checkpoint. Row-major, little-endian, at any alignment.
struct fg_st_tensor {
    const char *name;
    enum fg_st_dtype dtype;
    int rank;
    uint64_t shape[FG_ST_RANK_MAX]; // entries past rank are 0
    const uint8_t *data;            // in the map; may be unaligned
    uint64_t bytes;
    const char *file; // path of the file that holds it
};

struct fg_checkpoint; // opaque

// Opens a .safetensors file or a directory. A directory with both model.safetensors and an index
// uses model.safetensors, as HF does, and gets a warning. Tensors that the index does not name are
// left out, with a warning. Errors: FG_EINPUT (anything malformed: file, tensor or byte), or
// FG_ERESOURCE; *out is then NULL.
int fg_checkpoint_open(struct fg_checkpoint **out, const char *path, struct fg_error *err);
void fg_checkpoint_close(struct fg_checkpoint *c); // NULL is fine; ends every pointer handed out

uint64_t fg_checkpoint_count(const struct fg_checkpoint *c);
// i < count; ordered by file name, then by place in the file.
const struct fg_st_tensor *fg_checkpoint_at(const struct fg_checkpoint *c, uint64_t i);
// By binary search; NULL when there is none of that name.
const struct fg_st_tensor *fg_checkpoint_find(const struct fg_checkpoint *c, const char *name);

uint64_t fg_checkpoint_n_files(const struct fg_checkpoint *c);
const char *fg_checkpoint_file(const struct fg_checkpoint *c, uint64_t i, uint64_t *bytes);
// String pairs of `__metadata__`, all files in order. key and value live in the checkpoint.
uint64_t fg_checkpoint_n_metadata(const struct fg_checkpoint *c);
void fg_checkpoint_metadata(const struct fg_checkpoint *c, uint64_t i, const char **key,
                            const char **value);
// What is odd but no error, one line each.
uint64_t fg_checkpoint_n_warnings(const struct fg_checkpoint *c);
const char *fg_checkpoint_warning(const struct fg_checkpoint *c, uint64_t i);

// ---- writing

struct fg_st_spec {
    const char *name;
    enum fg_st_dtype dtype;
    int rank;
    uint64_t shape[FG_ST_RANK_MAX];
};

struct fg_st_writer; // opaque

// Starts a checkpoint in the existing directory `dir`: n tensors in this order, cut into shards of
// at most shard_bytes_max data bytes (a larger tensor has a shard of its own; 0: never cut). One
// shard is model.safetensors; more are model-00001-of-0000N.safetensors and an index in HF's
// layout. Data start at a multiple of 64 in each file. `specs` and its names are copied. Errors:
// FG_EINPUT (duplicate or overlong name, rank, overflow), FG_ERESOURCE; *out is then NULL and
// nothing is left behind.
int fg_st_writer_open(struct fg_st_writer **out, const char *dir, const struct fg_st_spec *specs,
                      uint64_t n, uint64_t shard_bytes_max, struct fg_error *err);
// The next `bytes` of the tensors' data, in declared order, in pieces of any size that may span
// tensors. More than was declared: FG_EINPUT.
int fg_st_writer_add(struct fg_st_writer *w, const void *data, uint64_t bytes,
                     struct fg_error *err);
// Total of data bytes to be written.
uint64_t fg_st_writer_bytes(const struct fg_st_writer *w);
// Finishes: each shard gets its name when whole, the index comes last. Data missing: FG_EINPUT. On
// failure the writer must still be aborted; on success it is freed.
int fg_st_writer_commit(struct fg_st_writer *w, struct fg_error *err);
// Removes everything that this writer made, finished shards included, and frees it. NULL is fine.
void fg_st_writer_abort(struct fg_st_writer *w);
#endif
