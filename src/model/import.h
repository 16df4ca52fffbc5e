// model/import.h: a GGUF file seen as a Hugging Face checkpoint (specs: model 11.3 to 11.7): its
// tensors under HF names, shapes and row order, and the texts of config.json and the tokenizer
// files; and the same written to a directory. The container is format/gguf's.
#ifndef FG_MODEL_IMPORT_H
#define FG_MODEL_IMPORT_H
#include "base/error.h"
#include "kernels/kernels.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_buf;
struct fg_gguf;
struct fg_import; // opaque

// One tensor of the checkpoint; belongs to the import.
struct fg_import_tensor {
    const char *name;        // HF's
    const char *source_name; // GGUF's
    uint32_t source_type;    // enum fg_ggml_type
    int rank;
    uint64_t shape[3];
    uint64_t rows, cols; // rows * cols elements; a vector is one row
    enum fg_dtype dtype; // that holds every value exactly: the file's own, FP32 for quantized types
                         // and for tensors whose values change
    const void *data;    // [rows][cols] of dtype in the map, any alignment; NULL when the rows have
                         // to be made: fg_import_read
};

// Opens a GGUF of architecture llama, qwen2, qwen3 or qwen35. Checks metadata, and that every
// tensor of the architecture is there with its shape and a type that can be decoded. Errors:
// FG_EINPUT (file, key or tensor, expected, found), FG_EUNSUPPORTED (another architecture, mixture
// of experts), FG_ERESOURCE; *out is then NULL.
int fg_import_open(struct fg_import **out, const char *path, struct fg_error *err);
void fg_import_close(struct fg_import *imp); // NULL is fine; ends every pointer handed out

// The open file, for fg_tokenizer_open_gguf and inspection.
const struct fg_gguf *fg_import_gguf(const struct fg_import *imp);

uint64_t fg_import_count(const struct fg_import *imp);
// i < count; embedding, layers in order, final norm, head.
const struct fg_import_tensor *fg_import_at(const struct fg_import *imp, uint64_t i);
// NULL when there is none of that name.
const struct fg_import_tensor *fg_import_find(const struct fg_import *imp, const char *name);

// Rows [row0, row1) of t, in HF's order, as `dtype` into dst [row1 - row0][cols]. Quantized blocks
// become FP32 as section 11.2 says, then `dtype` by rounding to nearest, ties to even. Errors:
// FG_EINPUT when a value has no logarithm (A_log of qwen35) or is finite and beyond FP16's range,
// FG_ERESOURCE.
int fg_import_read(const struct fg_import *imp, const struct fg_import_tensor *t, uint64_t row0,
                   uint64_t row1, enum fg_dtype dtype, void *dst, struct fg_error *err);

// What is odd or left out, one line each.
uint64_t fg_import_n_warnings(const struct fg_import *imp);
const char *fg_import_warning(const struct fg_import *imp, uint64_t i);

// Texts of the checkpoint's files, replacing out's content. On failure out is empty.
// config.json. torch_dtype is `dtype`, or with NULL the embedding's stored dtype. Divisors of the
// rotary frequencies (rope_freqs.weight) become HF's llama3 scaling where its usual parameters give
// these divisors, else the list "forge_rope_freq_divisors", which HF does not read.
int fg_import_config(const struct fg_import *imp, const enum fg_dtype *dtype, struct fg_buf *out,
                     struct fg_error *err);
// tokenizer.json. FG_EINPUT also for a tokenizer that is not byte-level BPE of a known kind.
int fg_import_tokenizer(const struct fg_import *imp, struct fg_buf *out, struct fg_error *err);
int fg_import_tokenizer_config(const struct fg_import *imp, struct fg_buf *out,
                               struct fg_error *err);
int fg_import_generation_config(const struct fg_import *imp, struct fg_buf *out,
                                struct fg_error *err);
// chat_template.jinja; out is empty when the file has none.
int fg_import_chat_template(const struct fg_import *imp, struct fg_buf *out, struct fg_error *err);

enum fg_import_dtype { FG_IMPORT_KEEP, FG_IMPORT_BF16, FG_IMPORT_F16, FG_IMPORT_F32 };
// False for a name that is none of keep, bf16, f16, f32.
bool fg_import_dtype_of_name(const char *name, enum fg_import_dtype *out);

struct fg_import_options {
    enum fg_import_dtype dtype; // KEEP: each tensor's own
    uint64_t shard_bytes_max;   // data per safetensors file; 0: 5 GB
    // Called now and then with data bytes written; returning false stops the job. NULL is fine.
    bool (*progress)(void *ctx, uint64_t done, uint64_t total, const char *tensor);
    void *ctx;
};

// Writes the checkpoint into `dir`, which is made, must be empty, or must hold this same job,
// interrupted or finished (then everything is written again). Every file appears whole, config.json
// last. Errors: those above; FG_EINPUT for a directory with other content, FG_EINTEGRITY for one of
// another import, FG_EBUSY when a second run holds its lock, FG_EINTERRUPTED when stopped. After a
// failure no temporary file and no config.json is left.
int fg_import_write(const struct fg_import *imp, const char *dir,
                    const struct fg_import_options *options, struct fg_error *err);
#endif
