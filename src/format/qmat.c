// format/qmat.c: the table of formats.
#include "format/qmat.h"
#include "base/size.h"
#include <string.h>

static const struct {
    const char *name;
    const char *alias; // in plan files of the original
    int index_bits, rows_per_index, entries;
    uint64_t weight_bytes; // of kept formats
} formats[FG_Q_N_FORMATS] = {
    [FG_Q_V2X16] = {"v2x16", "vector 2x16 + pcs", 4, 2, 16, 0},
    [FG_Q_V2X64] = {"v2x64", "vector 2x64 + pcs", 6, 2, 64, 0},
    [FG_Q_LUT4] = {"lut4", "LUT4 per-tensor + pcs", 4, 1, 16, 0},
    [FG_Q_LUT6] = {"lut6", "LUT6 per-tensor + pcs", 6, 1, 64, 0},
    [FG_Q_INT8] = {"int8", "INT8 per-channel", 8, 1, 0, 0},
    [FG_Q_BF16] = {"bf16", NULL, 0, 1, 0, 2},
    [FG_Q_F16] = {"f16", NULL, 0, 1, 0, 2},
    [FG_Q_F32] = {"f32", NULL, 0, 1, 0, 4},
};

const char *fg_qformat_name(enum fg_qformat f)
{
    return formats[f].name;
}

bool fg_qformat_of_name(const char *name, enum fg_qformat *out)
{
    for (int i = 0; i < FG_Q_N_FORMATS; i++) {
        if (strcmp(name, formats[i].name) != 0 &&
            (!formats[i].alias || strcmp(name, formats[i].alias) != 0))
            continue;
        *out = (enum fg_qformat)i;
        return true;
    }
    return false;
}

bool fg_qformat_is_lut(enum fg_qformat f)
{
    return formats[f].entries > 0;
}

bool fg_qformat_is_kept(enum fg_qformat f)
{
    return formats[f].weight_bytes > 0;
}

int fg_qformat_index_bits(enum fg_qformat f)
{
    return formats[f].index_bits;
}

int fg_qformat_rows_per_index(enum fg_qformat f)
{
    return formats[f].rows_per_index;
}

int fg_qformat_entries(enum fg_qformat f)
{
    return formats[f].entries;
}

uint64_t fg_qformat_row_bytes(enum fg_qformat f, uint64_t cols)
{
    // Eight indices take index_bits whole bytes: no product of cols that could overflow.
    const uint64_t bits = (uint64_t)formats[f].index_bits;
    return cols / 8 * bits + (cols % 8 * bits + 7) / 8;
}

bool fg_qformat_bytes(enum fg_qformat f, uint64_t rows, uint64_t cols, uint64_t *bytes)
{
    uint64_t n, scales;
    const uint64_t per_index = (uint64_t)formats[f].rows_per_index;
    if (fg_qformat_is_kept(f))
        return fg_mul(&n, rows, cols) && fg_mul(bytes, n, formats[f].weight_bytes);
    const uint64_t table = (uint64_t)formats[f].entries * per_index * 2;
    return rows % per_index == 0 && fg_mul(&n, rows / per_index, fg_qformat_row_bytes(f, cols)) &&
           fg_mul(&scales, rows, 2) && fg_add(&n, n, scales) && fg_add(bytes, n, table);
}

static const char *const lr_dtypes[FG_LR_N_DTYPES] = {[FG_LR_F16] = "f16", [FG_LR_I8] = "i8"};

const char *fg_lr_dtype_name(enum fg_lr_dtype t)
{
    return lr_dtypes[t];
}

bool fg_lr_dtype_of_name(const char *name, enum fg_lr_dtype *out)
{
    for (int i = 0; i < FG_LR_N_DTYPES; i++) {
        if (strcmp(name, lr_dtypes[i]) != 0) continue;
        *out = (enum fg_lr_dtype)i;
        return true;
    }
    return false;
}

bool fg_lr_bytes(enum fg_lr_dtype t, uint64_t rows, uint64_t cols, uint64_t rank, uint64_t *bytes)
{
    uint64_t n, scales = 0;
    return fg_add(&n, rows, cols) && fg_mul(&n, n, fg_lr_dtype_bytes(t)) &&
           (t == FG_LR_F16 || fg_mul(&scales, rank, sizeof(float))) && fg_mul(&n, n, rank) &&
           fg_add(bytes, n, scales);
}
