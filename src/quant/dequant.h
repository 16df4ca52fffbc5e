// quant/dequant.h: what the stored arrays of a matrix mean, in plain C (specs: quantization 1.1),
// and the check of their values (1.2, Validation). Arrays of a struct fg_qmat may lie at any
// alignment; that their sizes fit the format, rows and columns was checked by whoever opened them.
#ifndef FG_QUANT_DEQUANT_H
#define FG_QUANT_DEQUANT_H
#include "base/error.h"
#include "base/num.h"
#include "format/qmat.h"
#include <stdbool.h>
#include <stdint.h>

// Element i of an array of little-endian 16-bit numbers at any alignment.
static inline uint16_t fg_le16_at(const void *p, int64_t i)
{
    const uint8_t *b = (const uint8_t *)p + 2 * i;
    return (uint16_t)(b[0] | b[1] << 8);
}

// idx [cols] = indices of row `index_row` (below rows / rows_per_index) of a LUT format, from pidx
// or idx.
void fg_qmat_row_indices(uint8_t *idx, const struct fg_qmat *m, int64_t index_row);

// out [r1 - r0][cols] FP32 = rows [r0, r1) of the stored matrix without its factors: one FP32
// product scale * table value or scale * code; kept weights widened. Every row range, odd ones of
// pairs too. No allocation.
void fg_qmat_dequantize(float *out, const struct fg_qmat *m, int64_t r0, int64_t r1);

// Element [row][k] of the first factor, widened: an INT8 code as the whole number that it is.
static inline float fg_qmat_lr_a(const struct fg_qmat *m, int64_t row, int64_t k)
{
    const int64_t i = row * m->rank + k;
    if (m->lr_dtype == FG_LR_I8) return (float)((const int8_t *)m->lr_a)[i];
    return fg_f16_to_f32(fg_le16_at(m->lr_a, i));
}

// Scale of component k of INT8 factors.
float fg_qmat_lr_scale(const struct fg_qmat *m, int64_t k);
// out [rank][cols] = the second factor, widened; INT8: one FP32 product scale * code. With it the
// factors' part of the matrix is sum over k of fg_qmat_lr_a(row, k) * out[k][col].
void fg_qmat_lr_b(float *out, const struct fg_qmat *m);

// Values of a matrix `name` of `file`: table, scales and factors finite, scales (of rows and of
// INT8 factors) above 0, bytes of idx below the number of entries; with `pads` also what takes a
// pass over all weights and can harm no reader: pad bits of pidx 0, codes (of INT8 factors too) not
// -128, kept weights finite. Errors: FG_EINPUT; the field is NAME.ARRAY[index], as
// "layers.0.mlp.up_proj.scale[17]".
int fg_qmat_check(const struct fg_qmat *m, const char *name, const char *file, bool pads,
                  struct fg_error *err);
#endif
