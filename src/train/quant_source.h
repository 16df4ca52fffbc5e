// train/quant_source.h: the checkpoint or GGUF that is quantized, a tensor at a time: raw or as
// FP32, pages of the source's map given back behind the reader.
#ifndef FG_TRAIN_QUANT_SOURCE_H
#define FG_TRAIN_QUANT_SOURCE_H
#include "base/arena.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "format/safetensors.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_buf;
struct fg_model;
struct fg_import;
struct fg_import_tensor;

struct fg_quant_source {
    const struct fg_config *config;
    const char *path;
    bool gguf;
    char digest[FG_SHA256_HEX]; // tells sources apart: extents, names, shapes, edges of the data
    const char *prefix;         // of the text model's HF names

    struct fg_model *model;   // a checkpoint directory
    struct fg_import *import; // a GGUF
    struct fg_config parsed;  // of a GGUF
    struct fg_arena arena;
};

struct fg_quant_tensor {
    const char *name; // HF's
    enum fg_dtype dtype;
    int rank;
    uint64_t shape[FG_ST_RANK_MAX];
    uint64_t rows, cols;                // all dimensions but the last, and the last
    const uint8_t *data;                // in a checkpoint's map; NULL: import
    const struct fg_import_tensor *imp; // in a GGUF
    const char *file;
};

// Opens and checks everything that forge_engine_open would check. Errors: FG_EINPUT,
// FG_EUNSUPPORTED, FG_ERESOURCE.
int fg_quant_source_open(struct fg_quant_source *s, const char *path, const struct fg_log *log,
                         struct fg_error *err);
void fg_quant_source_close(struct fg_quant_source *s); // zeroed is fine

// The tensor of a canonical name (format/qset.h), a matrix without ".weight"; "embed_tokens" and
// "lm_head" too, the latter the embedding of a tied model. FG_EINPUT when there is none.
int fg_quant_source_find(const struct fg_quant_source *s, const char *name, bool is_mat,
                         struct fg_quant_tensor *out, struct fg_error *err);

// Rows [r0, r1) in the tensor's own dtype into dst [r1 - r0][cols].
int fg_quant_source_read(const struct fg_quant_source *s, const struct fg_quant_tensor *t,
                         uint64_t r0, uint64_t r1, void *dst, struct fg_error *err);
// Gives back the pages of the map that rows [r0, r1) are in. A hint.
void fg_quant_source_release(const struct fg_quant_source *s, const struct fg_quant_tensor *t,
                             uint64_t r0, uint64_t r1);

// Texts beside the weights, replacing out's content: config.json, tokenizer files and chat
// template. i counts from 0; false past the last. out is empty for a file that the source does not
// have. `name` receives the file's name.
#define FG_QUANT_CONFIG_NAME "config.json"
bool fg_quant_source_text(const struct fg_quant_source *s, int i, const char **name,
                          struct fg_buf *out, const struct fg_log *log, int *rc,
                          struct fg_error *err);

// Names of all texts that any source may have; NULL past the last.
const char *fg_quant_text_name(int i);

enum fg_st_dtype fg_quant_st_dtype(enum fg_dtype t);
#endif
