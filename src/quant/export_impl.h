// quant/export_impl.h: an export while it is read; shared by export*.c.
#ifndef FG_QUANT_EXPORT_IMPL_H
#define FG_QUANT_EXPORT_IMPL_H
#include "base/arena.h"
#include "base/json.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include "quant/export.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_EXPORT_WHAT "export"
#define FG_EXPORT_NAME_MAX 256

enum fg_export_site { FG_SITE_MLP_IN, FG_SITE_MLP_MID, FG_SITE_MIX_IN, FG_SITE_MIX_OUT };
enum fg_export_part { FG_PART_MLP, FG_PART_MIXER, FG_PART_HEAD };

struct fg_export {
    struct fg_arena arena;
    struct fg_checkpoint **files;
    uint64_t n_files, cap_files;
    struct fg_npy embed_npy;
    struct fg_embedding_int8 embed_int8;
    struct fg_json json;
    struct fg_qset_mat *mats;
    struct fg_qset_small *small;
    struct fg_qset_rot *rots;
    uint64_t n_mats, n_small, n_rots, cap_mats, cap_small, cap_rots;
    struct fg_qset set;
    struct fg_export_embedding embedding;
    struct fg_export_facts facts;
};

// What opening needs and the open export does not. The first error stays in rc; later calls do
// nothing.
struct fg_export_load {
    struct fg_export *e;
    const struct fg_export_options *o;
    struct fg_error *err;
    int rc;
    bool own; // some file was written by Forge
    bool seeds_seen;
};

// One open layer or head file.
struct fg_export_file {
    const struct fg_checkpoint *c;
    const char *path;
    enum fg_export_part part;
    int64_t layer; // -1: the head
    bool original; // signs from the seeds, factors in the original basis
    enum fg_signs signs;
    struct fg_export_rot { // by FG_SITE
        bool on;
        int64_t block, seed;
        const uint8_t *bits; // NULL until the width is known
        int64_t n;
    } rot[FG_EXPORT_SITES];
};

// Memory of the export's arena; NULL with l->rc set.
void *fg_export_alloc(struct fg_export_load *l, uint64_t count, uint64_t bytes);
char *fg_export_strdup(struct fg_export_load *l, const char *s);
// Room for one more element of a growing array. False with l->rc set.
bool fg_export_grow(struct fg_export_load *l, void **array, uint64_t n, uint64_t *cap,
                    uint64_t element_bytes);
// Opens a checkpoint file or directory that the export then owns. NULL with l->rc set.
struct fg_checkpoint *fg_export_add_file(struct fg_export_load *l, const char *path);
// NULL when absent.
const char *fg_export_meta(const struct fg_checkpoint *c, const char *key);
// By name among the needs; NULL when absent or when there are no needs.
const struct fg_export_need *fg_export_need_of(const struct fg_export_load *l, const char *name);
// FG_EINPUT that names tensor `field` of `file`.
int fg_export_refuse(struct fg_export_load *l, const char *file, const char *field,
                     const char *expected, const char *found, ...)
    __attribute__((format(printf, 5, 6)));
// "[2, 3]" into out; returns out.
char *fg_export_shape_text(char *out, size_t cap, int rank, const uint64_t *shape);

// export_layer.c: everything of one layer or head file into the set.
void fg_export_read_file(struct fg_export_load *l, const char *path, enum fg_export_part part,
                         int64_t layer);
// export_matrix.c: the matrix whose tensors are KEY.* in the file, rotated at `site` (f->rot; -1:
// plain).
void fg_export_read_matrix(struct fg_export_load *l, struct fg_export_file *f, const char *key,
                           const char *name, enum fg_qformat format, int site);
// export_small.c: small tensors and kept matrices outside the layer files, then the embedding.
void fg_export_read_small(struct fg_export_load *l);
#endif
