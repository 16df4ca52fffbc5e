// format/package_impl.h: what reader and writer of packages share; not for other modules.
#ifndef FG_FORMAT_PACKAGE_IMPL_H
#define FG_FORMAT_PACKAGE_IMPL_H
#include "format/package.h"

#define FG_PACKAGE_WHAT "package"
#define FG_PACKAGE_FIELD_BYTES 384 // of the name of a field in an error
#define FG_PACKAGE_NAME_BYTES 128  // of the name of a tensor that a package may hold

// Arrays that a matrix may have, in the order of their suffixes' bytes.
enum fg_package_part {
    FG_PART_INT8,
    FG_PART_LR_A,
    FG_PART_LR_B,
    FG_PART_LR_SCALE,
    FG_PART_LUT,
    FG_PART_PIDX,
    FG_PART_SCALE,
    FG_PART_WEIGHT,
    FG_PACKAGE_N_PARTS
};

// Dtype, shape and name of one array of a matrix. why[k] is the key of forge.matrices that says
// extent k.
struct fg_package_array {
    const char *suffix; // ".pidx"
    enum fg_st_dtype dtype;
    int rank;
    uint64_t shape[2];
    const char *why[2];
};

// False when a matrix of this format, rank and kind of factors has no such array.
bool fg_package_array(const struct fg_qmat *m, enum fg_package_part part,
                      struct fg_package_array *out);
// The key of forge.matrices that says whether a matrix has the array: "format", "rank", "lr_dtype".
const char *fg_package_part_key(enum fg_package_part part);
// ".pidx" and so on.
const char *fg_package_suffix(enum fg_package_part part);

// "layers.N." at the start of a name: *layer = N, *rest = what follows. Canonical decimals below
// FG_PACKAGE_LAYERS_MAX only.
bool fg_package_layer_of(const char *name, int64_t *layer, const char **rest);

// The matrix of a layer whose input is rotated at `site`, NULL when none is; any one of several.
const struct fg_qset_mat *fg_package_mat_at_site(const struct fg_qset *set, int64_t layer,
                                                 const char *site);

// Checks that `set` holds exactly what such a package holds, with shapes that agree with each other
// and with *dims, where what was 0 is filled in. order[i] is the place in forge.matrices of matrix
// i (NULL: the same). is_linear as in struct fg_package_expect, n_layers its length. Errors:
// FG_EINPUT.
struct fg_package_range {
    enum fg_package_kind kind;
    int64_t first, last;
    const bool *is_linear;
    int64_t n_layers;
};
int fg_package_check_set(const struct fg_qset *set, const struct fg_package_range *range,
                         const uint64_t *order, struct fg_package_dims *dims, const char *file,
                         struct fg_error *err);

// Scales, tables, factors and small tensors: finite, scales above 0.
int fg_package_check_values(const struct fg_qset *set, const char *file, struct fg_error *err);
// Pad bits, INT8 codes, kept weights. order as above, not NULL.
int fg_package_check_slow(const struct fg_qset *set, const uint64_t *order, const char *file,
                          struct fg_error *err);

bool fg_package_is_digest(const char *hex); // 64 lower-case hexadecimal digits
#endif
