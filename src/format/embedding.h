// format/embedding.h: how the embedding of a quantized model is kept, and the file of one in INT8:
// a safetensors file with
//   embed_tokens.int8   I8 [vocab][hidden], codes in -127 .. 127
//   embed_tokens.scale  F16 [vocab], above 0
// and the metadata forge (version) and format = int8. Row t is scale[t] * codes[t][:]. Exports call
// it embed_tokens.safetensors, bundles model/embed_tokens_int8.safetensors.
#ifndef FG_FORMAT_EMBEDDING_H
#define FG_FORMAT_EMBEDDING_H
#include "base/error.h"
#include "format/st_file.h"
#include <stdbool.h>
#include <stdint.h>

// DENSE: 16 or 32 bits a value. HEAD: no matrix is kept; row t is row t of the dequantized head.
enum fg_embedding_kind {
    FG_EMBEDDING_NONE,
    FG_EMBEDDING_DENSE,
    FG_EMBEDDING_INT8,
    FG_EMBEDDING_HEAD
};

#define FG_EMBEDDING_CODES "embed_tokens.int8"
#define FG_EMBEDDING_SCALE "embed_tokens.scale"

struct fg_embedding_int8 {
    struct fg_st_file *file;
    const int8_t *codes;  // [vocab][hidden] in the file's map
    const uint8_t *scale; // [vocab] F16, little-endian, any alignment
    int64_t vocab, hidden;
    const char *path;
};

// Opens and maps; checks names, dtypes, shapes and scales, with `verify` the codes too (a pass over
// the file). Errors: FG_EINPUT naming the tensor, FG_ERESOURCE; *out is then zeroed.
int fg_embedding_int8_open(struct fg_embedding_int8 *out, const char *path, bool verify,
                           struct fg_error *err);
void fg_embedding_int8_close(struct fg_embedding_int8 *e); // zeroed is fine
// FG_EINPUT at the first code of -128.
int fg_embedding_int8_check(const struct fg_embedding_int8 *e, struct fg_error *err);

// Starts such a file: all codes go into the stream, row by row, then all scales. `forge` is the
// version that writes. Errors: those of writing.
int fg_embedding_int8_stream(struct fg_st_stream **out, const char *path, uint64_t vocab,
                             uint64_t hidden, const char *forge, struct fg_error *err);
#endif
