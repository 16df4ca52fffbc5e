// format/gguf.h: the GGUF container, versions 2 and 3, little-endian (specs: model 11.1). Maps a
// file, checks everything that it declares, and gives access to metadata by value and to tensors by
// name. Block formats are gguf_dequant.h's; what the tensors mean is model/import's.
#ifndef FG_FORMAT_GGUF_H
#define FG_FORMAT_GGUF_H
#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FG_GGUF_DIMS_MAX 4
#define FG_GGUF_TENSOR_NAME_MAX 64 // bytes
#define FG_GGUF_KEY_MAX 65535      // bytes
#define FG_GGUF_ARRAY_DEPTH_MAX 4  // nesting of arrays
#define FG_GGUF_KVS_MAX (1u << 20)
#define FG_GGUF_TENSORS_MAX (1u << 20)

// Ids of tensor types that this program decodes; see fg_gguf_type_name for the others.
enum fg_ggml_type {
    FG_GGML_F32 = 0,
    FG_GGML_F16 = 1,
    FG_GGML_Q4_0 = 2,
    FG_GGML_Q4_1 = 3,
    FG_GGML_Q5_0 = 6,
    FG_GGML_Q5_1 = 7,
    FG_GGML_Q8_0 = 8,
    FG_GGML_Q2_K = 10,
    FG_GGML_Q3_K = 11,
    FG_GGML_Q4_K = 12,
    FG_GGML_Q5_K = 13,
    FG_GGML_Q6_K = 14,
    FG_GGML_IQ2_XXS = 16,
    FG_GGML_IQ2_XS = 17,
    FG_GGML_IQ3_XXS = 18,
    FG_GGML_IQ4_NL = 20,
    FG_GGML_IQ3_S = 21,
    FG_GGML_IQ2_S = 22,
    FG_GGML_IQ4_XS = 23,
    FG_GGML_BF16 = 30
};

// "Q4_K", also for known types that are not decoded ("MXFP4"); "unknown" for other ids.
const char *fg_gguf_type_name(uint32_t type);
// Weights and bytes of one block. False for an unknown id.
bool fg_gguf_type_block(uint32_t type, uint64_t *weights, uint64_t *bytes);

enum fg_gguf_kind {
    FG_GGUF_U8,
    FG_GGUF_I8,
    FG_GGUF_U16,
    FG_GGUF_I16,
    FG_GGUF_U32,
    FG_GGUF_I32,
    FG_GGUF_F32,
    FG_GGUF_BOOL,
    FG_GGUF_STRING,
    FG_GGUF_ARRAY,
    FG_GGUF_U64,
    FG_GGUF_I64,
    FG_GGUF_F64,
    FG_GGUF_N_KINDS
};

// "u32", "string", ...
const char *fg_gguf_kind_name(enum fg_gguf_kind kind);

// Bytes in the map; not NUL-terminated, and not checked to be UTF-8.
struct fg_gguf_str {
    const char *s;
    uint64_t n;
};

// One metadata value. For an array, element is the kind of its n elements and data the first
// element's bytes; else n is 1 and data the value's bytes. Everything lies in the map, unaligned,
// checked to be inside the file.
struct fg_gguf_kv {
    const char *key; // C string
    enum fg_gguf_kind kind, element;
    uint64_t n;
    const uint8_t *data;
    uint64_t bytes; // of all elements
};

// One tensor. extent[0] is the fastest (columns), as the file has it; extents past n_dims are 1.
struct fg_gguf_tensor {
    const char *name;
    uint32_t type;
    int n_dims;
    uint64_t extent[FG_GGUF_DIMS_MAX];
    uint64_t n; // weights
    const uint8_t *data;
    uint64_t bytes;
};

struct fg_gguf; // opaque

// Errors: FG_EINPUT (file, field or tensor, expected, found) for anything that section 11.1 forbids
// and for tensors of an unknown type; FG_ERESOURCE. *out is then NULL.
int fg_gguf_open(struct fg_gguf **out, const char *path, struct fg_error *err);
void fg_gguf_close(struct fg_gguf *g); // NULL is fine; ends every pointer handed out

const char *fg_gguf_path(const struct fg_gguf *g);
uint32_t fg_gguf_version(const struct fg_gguf *g);
// The whole mapped file.
const uint8_t *fg_gguf_bytes(const struct fg_gguf *g, uint64_t *bytes);
uint64_t fg_gguf_alignment(const struct fg_gguf *g);

uint64_t fg_gguf_n_kvs(const struct fg_gguf *g);
const struct fg_gguf_kv *fg_gguf_kv_at(const struct fg_gguf *g, uint64_t i);        // in file order
const struct fg_gguf_kv *fg_gguf_kv_find(const struct fg_gguf *g, const char *key); // NULL: absent

uint64_t fg_gguf_n_tensors(const struct fg_gguf *g);
const struct fg_gguf_tensor *fg_gguf_tensor_at(const struct fg_gguf *g, uint64_t i);
const struct fg_gguf_tensor *fg_gguf_tensor_find(const struct fg_gguf *g, const char *name);

// Typed access by key. Absent: *out = def, *given (may be NULL) false, 0 is returned. Integers of
// any width and bools serve for i64, also a one-element array; floats of both widths and integers
// for f64. A wrong kind, a value outside [min, max] or a float that is not finite: FG_EINPUT.
int fg_gguf_i64(const struct fg_gguf *g, const char *key, int64_t def, int64_t min, int64_t max,
                int64_t *out, bool *given, struct fg_error *err);
int fg_gguf_f64(const struct fg_gguf *g, const char *key, double def, double *out, bool *given,
                struct fg_error *err);
int fg_gguf_bool(const struct fg_gguf *g, const char *key, bool def, bool *out, bool *given,
                 struct fg_error *err);
// Absent: out->s is NULL. Strings that hold NUL bytes are returned as they are.
int fg_gguf_string(const struct fg_gguf *g, const char *key, struct fg_gguf_str *out,
                   struct fg_error *err);
// Arrays: a malloc'd copy of the caller's, NULL with *n 0 when absent. Nested arrays: FG_EINPUT.
int fg_gguf_strings(const struct fg_gguf *g, const char *key, struct fg_gguf_str **out, uint64_t *n,
                    struct fg_error *err);
int fg_gguf_i64s(const struct fg_gguf *g, const char *key, int64_t min, int64_t max, int64_t **out,
                 uint64_t *n, struct fg_error *err);
// One element of a number or bool value or array as a double (inspection); i < kv->n.
double fg_gguf_kv_number(const struct fg_gguf_kv *kv, uint64_t i);
#endif
