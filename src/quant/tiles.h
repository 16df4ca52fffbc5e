// quant/tiles.h: canonical storage (format/qmat.h) to the tiles and tables that the kernels read
// (kernels/lut.h, specs: runtime 2.4 with 16 lanes on every instruction set), and back.
#ifndef FG_QUANT_TILES_H
#define FG_QUANT_TILES_H
#include "base/arena.h"
#include "base/error.h"
#include "format/qmat.h"
#include "kernels/lut.h"
#include <stdint.h>

// FG_N_LAYOUTS for kept formats, which have no tiles.
enum fg_layout fg_layout_of_format(enum fg_qformat f);

// Bytes of all groups of a matrix. rows * cols < 2^62.
uint64_t fg_tiles_bytes(enum fg_layout l, int64_t rows, int64_t cols);

// Groups [g0, g1) of a matrix whose format has a layout; out points at group g0 and receives
// (g1 - g0) * fg_layout_group_bytes bytes, each written: lanes past the last row and columns past
// the last have index 0 (code 0).
void fg_tiles_pack(uint8_t *out, const struct fg_qmat *m, int64_t g0, int64_t g1);

// idx [cols] of lane `lane` in [0, 16) of one group: indices, or code + 128 of FG_I8.
void fg_tiles_unpack_indices(uint8_t *idx, const uint8_t *group, enum fg_layout l, int lane,
                             int64_t cols);

// The table members of struct fg_lut, and ts, for a LUT format. ts = max |table| / 127 in FP32; a
// component that is zero everywhere has ts 0 and bytes 128.
void fg_tiles_tables(float table[2][64], uint8_t table_u8[2][64], float ts[2],
                     const struct fg_qmat *m);

// scale and scale_ts of struct fg_lut, fg_layout_groups * fg_layout_rows each, 0 past the last row.
// int8 does not read ts (NULL is fine): both arrays are equal.
void fg_tiles_scales(float *scale, float *scale_ts, const struct fg_qmat *m, const float ts[2]);

// Everything of *out for a matrix whose format has a layout, in memory of the arena; the factors
// are copied. Errors: FG_ERESOURCE; *out is then zeroed.
int fg_lut_build(struct fg_lut *out, const struct fg_qmat *m, struct fg_arena *arena,
                 struct fg_error *err);
#endif
