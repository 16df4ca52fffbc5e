// format/npy.h: NumPy's array files, versions 1 and 2, little-endian, C order: read through a map,
// written whole or as a stream. For golden data, logits, statistics.
#ifndef FG_FORMAT_NPY_H
#define FG_FORMAT_NPY_H
#include "base/error.h"
#include "base/file.h"
#include <stdint.h>

#define FG_NPY_RANK_MAX 8

enum fg_npy_dtype {
    FG_NPY_BOOL,
    FG_NPY_I8,
    FG_NPY_U8,
    FG_NPY_I16,
    FG_NPY_U16, // also what carries BF16, which NumPy does not know
    FG_NPY_I32,
    FG_NPY_U32,
    FG_NPY_I64,
    FG_NPY_U64,
    FG_NPY_F16,
    FG_NPY_F32,
    FG_NPY_F64,
    FG_NPY_N_DTYPES
};

const char *fg_npy_dtype_name(enum fg_npy_dtype t); // NumPy's descr: "<f4"
uint64_t fg_npy_dtype_bytes(enum fg_npy_dtype t);   // per element

// An open array. shape entries past rank are 0; rank 0 is a scalar.
struct fg_npy {
    struct fg_map map;
    enum fg_npy_dtype dtype;
    int rank;
    uint64_t shape[FG_NPY_RANK_MAX];
    uint64_t n;       // elements
    const void *data; // row-major in the map; NumPy aligns it to 16 or 64, other writers may not
};

// FG_EINPUT: not an npy file, another version, big-endian, Fortran order, a structured or unknown
// dtype, or a size that differs from what the shape needs; FG_ERESOURCE. On failure *npy is zeroed.
int fg_npy_open(struct fg_npy *npy, const char *path, struct fg_error *err);
void fg_npy_close(struct fg_npy *npy); // zeroed is fine

// Writes a whole array atomically; data is row-major, n = product of shape elements.
int fg_npy_write(const char *path, enum fg_npy_dtype dtype, int rank, const uint64_t *shape,
                 const void *data, struct fg_error *err);

// A stream into a file whose shape is known up front: [T][V] logits, row after row.
struct fg_npy_writer {
    struct fg_atomic out;
    uint64_t left_bytes; // data still to be written
};
// Errors: FG_EINPUT (rank, overflow, path), FG_ERESOURCE; nothing is then left behind.
int fg_npy_writer_open(struct fg_npy_writer *w, const char *path, enum fg_npy_dtype dtype, int rank,
                       const uint64_t *shape, struct fg_error *err);
// The next bytes of data, in pieces of any size. More than the shape holds: FG_EINPUT.
int fg_npy_writer_add(struct fg_npy_writer *w, const void *data, uint64_t bytes,
                      struct fg_error *err);
// Gives the file its name. Data missing: FG_EINPUT. On failure the old file is untouched and
// nothing is left behind.
int fg_npy_writer_commit(struct fg_npy_writer *w, struct fg_error *err);
void fg_npy_writer_abort(struct fg_npy_writer *w); // after commit, or zeroed: nothing happens
#endif
