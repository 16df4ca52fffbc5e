// quant/fit_impl.h: what rounding to nearest and rounding with error feedback share: the search for
// the nearest entry, weights of rows, a result's arrays, scales and table, and its plain error.
#ifndef FG_QUANT_FIT_IMPL_H
#define FG_QUANT_FIT_IMPL_H
#include "quant/fit.h"

#define FG_FIT_ENTRIES_MAX 64

// A table as the search wants it. Codes are indices of entries or, for int8, the code's byte.
struct fg_rounder {
    enum fg_qformat format;
    const struct fg_kernels *kernels;
    int entries;                     // 0: int8
    float c[2 * FG_FIT_ENTRIES_MAX]; // first components, then second
    // Of single values: one above [k] is nearer to k than to k - 1.
    float threshold[FG_FIT_ENTRIES_MAX];
};

// lut [entries][d] F16 of a LUT format; int8 has none.
void fg_rounder_init(struct fg_rounder *r, enum fg_qformat f, const uint16_t *lut,
                     const struct fg_kernels *kernels);

// code[i] = nearest to (x[0][i], x[1][i]) with weights w[0][i], w[1][i], the lowest index among
// equals; formats of one row per index take x[0] alone. No NaN. dist [n] is scratch.
void fg_rounder_codes(const struct fg_rounder *r, uint8_t *code, float *dist,
                      const float *const x[2], const float *const w[2], int64_t n);

// What component t of a code stands for, before the scale.
static inline float fg_rounder_value(const struct fg_rounder *r, int t, uint8_t code)
{
    return r->entries ? r->c[t * r->entries + code] : (float)(int8_t)code;
}

// How much an error of a row in units of its scale counts.
static inline float fg_fit_row_weight(const struct fg_fit_options *o, int64_t row, float scale)
{
    if (!o->row_weight) return 1.0f;
    return o->row_importance ? scale * scale * o->row_importance[row] : scale * scale;
}

// e[0] = sum of w^2, e[1] = sum of (w - scale * value)^2, over n columns.
void fg_fit_compare(double e[2], const float *w, float scale, const float *value, int64_t n);

// Everything of a result but its data, which is allocated: scales, and the table, which is fitted
// where `table` [entries][d] F16 is NULL. Errors: as fg_fit_rtn; *out is then zeroed.
int fg_fit_start(struct fg_fit_result *out, enum fg_qformat f, const float *W, int64_t rows,
                 int64_t cols, const uint16_t *table, const struct fg_fit_options *o,
                 struct fg_error *err);
#endif
