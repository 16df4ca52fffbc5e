// model/model.h: a loaded model: config, bound weights, and the files they live in. Read-only after
// opening, shared by any number of sessions and threads.
#ifndef FG_MODEL_MODEL_H
#define FG_MODEL_MODEL_H
#include "base/error.h"
#include "base/log.h"
#include "model/config.h"
#include "model/packaged.h"
#include "model/weights.h"
#include <stdbool.h>

struct fg_model {
    struct fg_config config;
    struct fg_weights weights;
    struct fg_weights_rest rest;
    char *path;
    char digest[65]; // SHA-256 over the config's extents, tensor names, shapes, dtypes and ends of
                     // data: tells models apart for saved sessions; not an integrity check
    uint64_t weight_bytes; // of the text model's matrices
    uint64_t token_bytes;  // of these, read per decoded token: all but an untied embedding
    bool quantized;        // some matrices are (struct fg_lut)
    int64_t rank_sum_max;  // of the low-rank factors of matrices that share an input
    struct fg_arena arena; // small vectors; tensors that a GGUF import had to change
    struct fg_checkpoint *checkpoint;
    struct fg_import *import;
    struct fg_packaged *packaged;
    const char *text_dir; // directory with tokenizer and chat template; NULL: a GGUF has them
};

struct fg_model_options {
    bool strict;                        // tensors that the architecture does not have are an error
    const char *model_dir;              // for exports without small tensors; NULL: none
    bool fill;                          // matrices that an export lacks are model_dir's
    const struct fg_tile_source *tiles; // of a compiled build; NULL: packed in memory
    struct fg_pool *pool;               // for work at opening; NULL: the caller alone
    const struct fg_log *log;           // used during the call only; may be NULL
};

// Opens a checkpoint directory (config.json and safetensors), a GGUF file, a quantized export or a
// build of packages (or the bundle it is in). Errors: FG_EINPUT, FG_EINTEGRITY, FG_EUNSUPPORTED,
// FG_ERESOURCE; *out is then NULL.
int fg_model_open_with(struct fg_model **out, const char *path, const struct fg_model_options *o,
                       struct fg_error *err);
// The same with strict and log alone.
int fg_model_open(struct fg_model **out, const char *path, bool strict, const struct fg_log *log,
                  struct fg_error *err);
void fg_model_close(struct fg_model *m); // NULL is fine; no session may be left
#endif
