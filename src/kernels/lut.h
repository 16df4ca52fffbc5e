// kernels/lut.h: products of quantized weights, and what stands around them: rotation of the
// activations and their INT8 form (specs: runtime 7, quantization 1 and 2). Members of struct
// fg_kernels of these types follow the written orders below in every instruction set.
//
// WEIGHTS IN TILES. One layout for all instruction sets. A lane is a pair of neighbouring output
// rows where one index yields two weights (v2x64, v2x16), one row else; 16 lanes are a group. A
// group is one contiguous stream of units, ascending along the columns; lanes past n_out and
// columns past n_in have index 0 (code 0 for INT8), and what they give is dropped or meets
// activation 0.
//   FG_P6    192 bytes, 16 pairs x 16 columns: planes A, B, C of 64 bytes. Byte 4p + c of plane
//            X in 0..2: low six bits = index of pair p, column 4X + c; high two bits = bits 2X,
//            2X + 1 of the index of pair p, column 12 + c.
//   FG_P4X2  64 bytes, 16 pairs x 8 columns; byte 4p + c: low nibble column c, high nibble 4 + c.
//   FG_P4    64 bytes, 16 rows x 8 columns, the same.
//   FG_I8    64 bytes, 16 rows x 4 columns; byte 4p + c: code + 128.
//   FG_P6X1  192 bytes, 16 rows x 16 columns, as FG_P6.
//
// FAST PRODUCT of row r and an activation row, blocks b of FG_ACT_BLOCK columns ascending:
//   acc_b = sum over k in b of q[k] * xc[k]       an integer, exact: |acc_b| < 2^24
//   y = 0;  y = fma((float)acc_b, sx_b, y) for each b;  result y * scale_ts[r]
// where q is the table entry in INT8 (table_u8 - 128), or the code itself for FG_I8.
// EXACT PRODUCT: dot (kernels.h) of the decoded FP32 table values and x, then times scale[r].
#ifndef FG_KERNELS_LUT_H
#define FG_KERNELS_LUT_H
#include <stdbool.h>
#include <stdint.h>

// Tile files hold these numbers.
enum fg_layout { FG_P6, FG_P4X2, FG_P4, FG_I8, FG_P6X1, FG_N_LAYOUTS };

#define FG_LUT_LANES 16
#define FG_ACT_BLOCK 1024 // columns that share an activation scale; the last block may be shorter

static inline bool fg_layout_is_six_bits(enum fg_layout l) // planes, tables of 64 entries
{
    return l == FG_P6 || l == FG_P6X1;
}

static inline int64_t fg_layout_rows(enum fg_layout l) // output rows of a group
{
    return l == FG_P6 || l == FG_P4X2 ? 2 * FG_LUT_LANES : FG_LUT_LANES;
}

static inline int64_t fg_layout_unit_cols(enum fg_layout l)
{
    return fg_layout_is_six_bits(l) ? 16 : l == FG_I8 ? 4 : 8;
}

static inline int64_t fg_layout_unit_bytes(enum fg_layout l)
{
    return fg_layout_is_six_bits(l) ? 192 : 64;
}

static inline int64_t fg_layout_group_bytes(enum fg_layout l, int64_t n_in)
{
    int64_t cols = fg_layout_unit_cols(l);
    return (n_in + cols - 1) / cols * fg_layout_unit_bytes(l);
}

static inline int64_t fg_layout_groups(enum fg_layout l, int64_t n_out)
{
    int64_t rows = fg_layout_rows(l);
    return (n_out + rows - 1) / rows;
}

// A matrix [n_out][n_in] in tiles. Arrays are 64-byte aligned and belong to whoever made them.
// Component t is 0 for the even row of a pair and for single rows, 1 for the odd row.
struct fg_lut {
    enum fg_layout layout;
    int64_t n_out, n_in;
    const uint8_t *tiles;    // fg_layout_groups * fg_layout_group_bytes
    const float *table;      // [2][64] FP32 values; tables of 16 entries four times over; of single
                             // rows the second half is unused. FG_I8: unused, may be NULL
    const uint8_t *table_u8; // [2][64] rint(table / ts) + 128, ts = max |table| / 127 per component
    const float *scale;      // [groups * rows of a group], 0 past n_out
    const float *scale_ts;   // the same times ts of the row's component; FG_I8: equal to scale
    int rank;                // of the low-rank factors; 0: none
    const void *lr_a;        // [n_out][rank] F16, in the basis of the stored weights
    const void *lr_b;        // [rank][n_in] F16
    const float *lr_scale;   // NULL; or [rank], and both factors are INT8 codes
};

// T rows of INT8 activations. A row is ld codes, a multiple of 64, 0 from n on.
struct fg_act {
    int64_t n, ld, n_blocks; // n_blocks = ceil(n / FG_ACT_BLOCK)
    int8_t *xc;              // [T][ld], 64-byte aligned
    float *sx;               // [T][n_blocks]
    int32_t *sum;            // [T][n_blocks]: sum of the codes of a block
};

// y[t * ldy + r] = FAST PRODUCT of row r and activation row t, for the rows r < n_out of groups
// [g0, g1) and t in [t0, t1). scratch: fg_lut_scratch_bytes(n_in) of the caller's, 64-byte aligned,
// one per thread.
typedef void (*fg_lut_gemm_fn)(float *y, int64_t ldy, const struct fg_lut *w, int64_t g0,
                               int64_t g1, const struct fg_act *x, int64_t t0, int64_t t1,
                               void *scratch);

// out[i * ldo + k] = FP32 table value (FG_I8: code) of row i of group g, column k, unscaled, for
// i < fg_layout_rows and k in [0, n_in).
typedef void (*fg_lut_decode_fn)(float *out, int64_t ldo, const struct fg_lut *w, int64_t g);

// Block Hadamard rotation of one row: y = FWHT_B(x * sign) / sqrt(B) per block of B columns.
//   signs: n bits, least significant first, 1 = -1. B a power of two from 8 to 1024 that divides n.
//   Stages h = 1, 2, 4 .. B/2 of butterflies (a + b, a - b), sign first, then one product with
//   (float)(1 / sqrt(B)). y may be x.
typedef void (*fg_rotate_fn)(float *y, const float *x, const uint8_t *signs, int64_t n, int64_t B);

// One block of n <= FG_ACT_BLOCK activations to INT8 codes and their scale.
//   m = max |x|;  m below 2^-100: all codes 0, *sx = 0;  m infinite or NaN among x: all codes 0,
//   *sx = NaN;  else code = rint(x * (127 / m)) (half to even), *sx = m / 127.  *sum = sum of
//   codes.
typedef void (*fg_quantize_fn)(int8_t *xc, float *sx, int32_t *sum, const float *x, int64_t n);
// The same in two digits of base 255: v = rint(x * (32512 / m)), hi = the integer nearest v / 255,
// lo = v - 255 * hi, both in -127 .. 127. s = m / 32512; sx[0] = 255 * s of the row of hi digits,
// sx[1] = s of lo. sum likewise.
typedef void (*fg_quantize2_fn)(int8_t *hi, int8_t *lo, float sx[2], int32_t sum[2], const float *x,
                                int64_t n);

// sum (kernels.h: 16 lanes, tree) of exp(x[i] - m) for m >= every x[i]; exp is ref/math.h's.
typedef float (*fg_sum_exp_fn)(const float *x, float m, int64_t n);

uint64_t fg_lut_scratch_bytes(int64_t n_in);
#endif
