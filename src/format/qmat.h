// format/qmat.h: the formats of quantized weights and a view of one matrix in canonical storage
// (specs: quantization 1.1, 1.2). What the numbers mean is quant/'s.
#ifndef FG_FORMAT_QMAT_H
#define FG_FORMAT_QMAT_H
#include <stdbool.h>
#include <stdint.h>

enum fg_qformat {
    FG_Q_V2X16, // 16 vectors of two rows, 4-bit indices: 2 bits per weight
    FG_Q_V2X64, // 64 vectors of two rows, 6-bit indices: 3 bits per weight
    FG_Q_LUT4,  // 16 values, 4-bit indices
    FG_Q_LUT6,  // 64 values, 6-bit indices
    FG_Q_INT8,  // codes in -127 .. 127
    FG_Q_BF16,  // kept
    FG_Q_F16,
    FG_Q_F32,
    FG_Q_N_FORMATS
};

// "v2x16", "v2x64", "lut4", "lut6", "int8", "bf16", "f16", "f32".
const char *fg_qformat_name(enum fg_qformat f);
// Also the original's names: "vector 2x16 + pcs", "LUT4 per-tensor + pcs", "INT8 per-channel" ...
bool fg_qformat_of_name(const char *name, enum fg_qformat *out);

bool fg_qformat_is_lut(enum fg_qformat f);        // the first four
bool fg_qformat_is_kept(enum fg_qformat f);       // the last three
int fg_qformat_index_bits(enum fg_qformat f);     // 4, 6, 4, 6; 8 for int8; 0 for kept
int fg_qformat_rows_per_index(enum fg_qformat f); // 2, 2; 1 for the others
int fg_qformat_entries(enum fg_qformat f);        // 16, 64, 16, 64; 0 for the others
// Bytes of `cols` packed indices: one row of pidx.
uint64_t fg_qformat_row_bytes(enum fg_qformat f, uint64_t cols);
// Storage of a matrix without its factors: indices, table and scales, or codes and scales, or the
// kept weights. False on overflow, and for an odd number of rows in pairs.
bool fg_qformat_bytes(enum fg_qformat f, uint64_t rows, uint64_t cols, uint64_t *bytes);

// How low-rank factors are stored. INT8: codes in -127 .. 127, one FP32 scale for each component
// of the rank, which belongs to the product of the two factors, not to one of them.
enum fg_lr_dtype { FG_LR_F16, FG_LR_I8, FG_LR_N_DTYPES };

// "f16", "i8".
const char *fg_lr_dtype_name(enum fg_lr_dtype t);
bool fg_lr_dtype_of_name(const char *name, enum fg_lr_dtype *out);
// Bytes of the elements of a factor: 2 or 1.
static inline uint64_t fg_lr_dtype_bytes(enum fg_lr_dtype t)
{
    return t == FG_LR_F16 ? 2 : 1;
}
// Storage of both factors: 2 * rank * (rows + cols), or rank * (rows + cols) + 4 * rank. False on
// overflow.
bool fg_lr_bytes(enum fg_lr_dtype t, uint64_t rows, uint64_t cols, uint64_t rank, uint64_t *bytes);

// One matrix [rows][cols], its arrays as files hold them (little-endian, any alignment). Exactly
// one of pidx, idx, codes, weight is set.
struct fg_qmat {
    enum fg_qformat format;
    int64_t rows, cols;
    const uint8_t *pidx;   // [rows / rows_per_index][row_bytes]
    const uint8_t *idx;    // [rows / rows_per_index][cols], one byte per index: exports only
    const int8_t *codes;   // [rows][cols]
    const void *weight;    // [rows][cols] in BF16, F16 or F32
    const uint16_t *lut;   // [entries][rows_per_index] F16
    const uint16_t *scale; // [rows] F16
    int64_t rank;          // of the factors; 0: none
    enum fg_lr_dtype lr_dtype;
    const void *lr_a;     // [rows][rank] F16 or INT8
    const void *lr_b;     // [rank][cols] F16 or INT8, in the basis of the stored matrix
    const void *lr_scale; // [rank] FP32, above 0; NULL with F16
    const char *site; // rotation of its input: "mlp_in", "mlp_mid", "mix_in", "mix_out"; NULL: none
    int64_t block;    // of that rotation
};
#endif
