// eval/tensors.h: the tensors of a file or directory of any kind that Forge reads, seen alike: for
// inspection.
#ifndef FG_EVAL_TENSORS_H
#define FG_EVAL_TENSORS_H
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_checkpoint;
struct fg_gguf;
struct fg_npy;

enum fg_tensors_kind { FG_TENSORS_SAFETENSORS, FG_TENSORS_GGUF, FG_TENSORS_NPY };

// "safetensors", "gguf", "npy".
const char *fg_tensors_kind_name(enum fg_tensors_kind kind);

struct fg_tensors; // opaque

// One tensor; what it points to belongs to the object.
struct fg_tensor_view {
    const char *name;  // "array" for npy
    const char *dtype; // as its format calls it
    int rank;
    uint64_t shape[8]; // slowest first, in every format
    uint64_t n;        // elements
    const uint8_t *data;
    uint64_t bytes;
    const char *file;
    uint64_t at; // index, for fg_tensors_read
};

// A file is what its first bytes say; a directory holds safetensors. Errors: FG_EINPUT (damaged,
// or nothing that is known), FG_ERESOURCE; *out is then NULL.
int fg_tensors_open(struct fg_tensors **out, const char *path, struct fg_error *err);
void fg_tensors_close(struct fg_tensors *t); // NULL is fine

enum fg_tensors_kind fg_tensors_kind(const struct fg_tensors *t);
// The object behind it; NULL when it is of another kind.
const struct fg_checkpoint *fg_tensors_checkpoint(const struct fg_tensors *t);
const struct fg_gguf *fg_tensors_gguf(const struct fg_tensors *t);

uint64_t fg_tensors_count(const struct fg_tensors *t);
struct fg_tensor_view fg_tensors_at(const struct fg_tensors *t, uint64_t i);
// False when there is none of that name.
bool fg_tensors_find(const struct fg_tensors *t, const char *name, struct fg_tensor_view *out);

// Elements [from, from + n) of v as FP64, in order of storage; quantized ones as their dequantized
// values. Integers beyond 2^53 are rounded. Errors: FG_EUNSUPPORTED for a type without decoder,
// FG_ERESOURCE.
int fg_tensors_read(const struct fg_tensors *t, const struct fg_tensor_view *v, uint64_t from,
                    uint64_t n, double *out, struct fg_error *err);

struct fg_tensor_stats {
    uint64_t n_nan, n_inf, n_zero;
    double min, max, mean, std; // of the finite elements; 0 when there are none
};
int fg_tensors_stats(const struct fg_tensors *t, const struct fg_tensor_view *v,
                     struct fg_tensor_stats *out, struct fg_error *err);

// True when the glob `pattern` matches the whole name, or what follows one of its dots: layers.0.*
// finds model.layers.0.mlp.up_proj.weight.
bool fg_tensor_matches(const char *pattern, const char *name);
#endif
