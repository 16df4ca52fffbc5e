// format/package.h: package files (specs: runtime 1.3, 1.4): the weights of a range of layers, of
// the head or of a drafter, in canonical storage (format/qset.h). Reading checks everything that
// needs no other file; format/build.h compares packages with their manifest. Kernel order of
// weights is quant/'s tile files.
#ifndef FG_FORMAT_PACKAGE_H
#define FG_FORMAT_PACKAGE_H
#include "base/error.h"
#include "format/qset.h"
#include "format/st_file.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_PACKAGE_LAYERS_MAX 1024
#define FG_PACKAGE_RANK_MAX 65536 // of factors

enum fg_package_kind { FG_PACKAGE_CHUNK, FG_PACKAGE_HEAD, FG_PACKAGE_DRAFTER, FG_PACKAGE_N_KINDS };
const char *fg_package_kind_name(enum fg_package_kind kind); // "chunk", "head", "drafter"

// Sizes that the tensors of a model share; 0: not known.
struct fg_package_dims {
    int64_t hidden, intermediate, vocab;
    int64_t q_rows;   // of q_proj: attn_out, or twice that with an output gate
    int64_t kv_rows;  // of k_proj and v_proj
    int64_t attn_out; // columns of o_proj: heads times head_dim
    int64_t head_dim;
    int64_t conv_channels, conv_kernel; // of linear_attn.conv1d.weight [channels][1][kernel]
    int64_t value_dim;                  // rows of in_proj_z, columns of out_proj
    int64_t v_heads, v_head_dim;
    int64_t drafter_in;           // columns of a drafter's fc: taps times hidden
    int64_t conv_rows, conv_taps; // of a drafter's kernel_projection and base_kernel
    int64_t selector_rank;        // rows of candidate_selector.hidden_projection
};

// What a package must agree with when it is opened as part of a build.
struct fg_package_expect {
    struct fg_package_dims dims;
    const bool *is_linear; // [n_layers], by number in the model; NULL: not known
    int64_t n_layers;
};

struct fg_package_info {
    enum fg_package_kind kind;
    int64_t layer_first, layer_last; // head: -1, -1
    const char *weights_digest;      // 64 lower-case hexadecimal digits
    const char *export_digest;       // the same
    const char *layout;              // "canonical"
    const char *id;                  // of the head: digest of its tensors; NULL: not recorded
    const char *path;
    uint64_t bytes; // of the file
};

struct fg_package; // opaque

// Maps the file and checks container, metadata, the set of tensors (a chunk holds exactly what its
// layers need), shapes and formats, and that scales, tables, factors and small tensors are finite
// and scales positive. `expect` may be NULL: then the package has to agree with itself only.
// Errors: FG_EINPUT with the fields of st_file.h, "forge.KEY", "forge.matrices[i].KEY", "tensor
// NAME", "NAME[index]"; FG_EUNSUPPORTED for a layout that is not canonical; FG_ERESOURCE.
// *out is then NULL.
int fg_package_open(struct fg_package **out, const char *path, struct fg_error *err);
int fg_package_open_expecting(struct fg_package **out, const char *path,
                              const struct fg_package_expect *expect, struct fg_error *err);
void fg_package_close(struct fg_package *p); // NULL is fine; ends every pointer handed out

const struct fg_package_info *fg_package_info(const struct fg_package *p);
const struct fg_package_dims *fg_package_dims(const struct fg_package *p);
const struct fg_qset *fg_package_set(const struct fg_package *p);
const struct fg_st_file *fg_package_file(const struct fg_package *p);

// Reads everything that opening leaves: pad bits of packed rows are 0, INT8 codes above -128, kept
// weights finite. FG_EINPUT naming tensor and place.
int fg_package_verify(const struct fg_package *p, struct fg_error *err);

// ---- writing

// done of total bytes are written; false stops the job (FG_EINTERRUPTED).
typedef bool (*fg_package_progress_fn)(void *ctx, uint64_t done, uint64_t total);
// Fills the arrays of `m`, which comes with format, rows, cols, rank, site and block, right before
// they are written; they must last until the next call. May fail with any code.
typedef int (*fg_package_load_fn)(void *ctx, const char *name, struct fg_qmat *m,
                                  struct fg_error *err);

struct fg_package_spec {
    enum fg_package_kind kind;
    int64_t layer_first, layer_last; // chunk and drafter
    const char *weights_digest;      // 64 lower-case hexadecimal digits
    const char *export_digest;       // the same
    const char *id;                  // of a head; NULL: not recorded
    const struct fg_qset *set;       // the content of this package and nothing else
    fg_package_load_fn load;         // NULL: the arrays of the set are there
    void *load_ctx;
    fg_package_progress_fn progress; // may be NULL
    void *progress_ctx;
};

// Writes a package atomically, tensors sorted by name; index bytes (fg_qmat.idx) are packed on the
// way. Every array is read once, in order; beyond them a block of packed rows is held. The values
// are not checked but for the range of indices. written may be NULL (sha256 is filled). Errors:
// FG_EINPUT (the set is not what such a package holds, an index out of range), FG_EINTERRUPTED,
// FG_ERESOURCE, those of `load`; the old file is then as it was and nothing is left behind.
int fg_package_write(const char *path, const struct fg_package_spec *spec,
                     struct fg_st_written *written, struct fg_error *err);
// Bytes of the file that fg_package_write makes of the spec.
int fg_package_bytes(const struct fg_package_spec *spec, uint64_t *bytes, struct fg_error *err);
#endif
