// quant/dequant.c: canonical storage to numbers, and the check of its values.
#include "quant/dequant.h"
#include "base/num.h"
#include "format/qmat.h"
#include "quant/pack.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PIECE 512 // columns unpacked at a time: a multiple of 8, on the stack

// Indices [c0, c0 + n) of an index row; c0 is a multiple of 8.
static void indices(uint8_t *idx, const struct fg_qmat *m, int64_t row, int64_t c0, int64_t n)
{
    if (m->idx) {
        memcpy(idx, m->idx + row * m->cols + c0, (size_t)n);
        return;
    }
    const int bits = fg_qformat_index_bits(m->format);
    const int64_t row_bytes = fg_pack_bytes(m->cols, bits);
    fg_unpack_indices(idx, m->pidx + row * row_bytes + c0 / 8 * bits, n, bits);
}

void fg_qmat_row_indices(uint8_t *idx, const struct fg_qmat *m, int64_t index_row)
{
    indices(idx, m, index_row, 0, m->cols);
}

static void dequantize_lut(float *out, const struct fg_qmat *m, int64_t row)
{
    const int d = fg_qformat_rows_per_index(m->format), entries = fg_qformat_entries(m->format);
    const float scale = fg_f16_to_f32(fg_le16_at(m->scale, row));
    float value[64];
    for (int i = 0; i < entries; i++)
        value[i] = scale * fg_f16_to_f32(fg_le16_at(m->lut, i * d + row % d));
    uint8_t idx[PIECE];
    for (int64_t c0 = 0; c0 < m->cols; c0 += PIECE) {
        int64_t n = m->cols - c0 < PIECE ? m->cols - c0 : PIECE;
        indices(idx, m, row / d, c0, n);
        for (int64_t j = 0; j < n; j++)
            out[c0 + j] = value[idx[j]];
    }
}

static void widen(float *out, const struct fg_qmat *m, int64_t row)
{
    const int64_t at = row * m->cols;
    if (m->format == FG_Q_F32) {
        memcpy(out, (const uint8_t *)m->weight + 4 * at, (size_t)m->cols * 4);
        return;
    }
    for (int64_t j = 0; j < m->cols; j++) {
        uint16_t h = fg_le16_at(m->weight, at + j);
        out[j] = m->format == FG_Q_BF16 ? fg_bf16_to_f32(h) : fg_f16_to_f32(h);
    }
}

void fg_qmat_dequantize(float *out, const struct fg_qmat *m, int64_t r0, int64_t r1)
{
    for (int64_t r = r0; r < r1; r++, out += m->cols) {
        if (fg_qformat_is_lut(m->format)) {
            dequantize_lut(out, m, r);
        } else if (m->format == FG_Q_INT8) {
            const float scale = fg_f16_to_f32(fg_le16_at(m->scale, r));
            for (int64_t j = 0; j < m->cols; j++)
                out[j] = scale * (float)m->codes[r * m->cols + j];
        } else {
            widen(out, m, r);
        }
    }
}

float fg_qmat_lr_scale(const struct fg_qmat *m, int64_t k)
{
    float scale;
    memcpy(&scale, (const uint8_t *)m->lr_scale + (size_t)k * sizeof scale, sizeof scale);
    return scale;
}

void fg_qmat_lr_b(float *out, const struct fg_qmat *m)
{
    const int8_t *codes = m->lr_b;
    for (int64_t k = 0; k < m->rank; k++, out += m->cols) {
        const float scale = m->lr_dtype == FG_LR_I8 ? fg_qmat_lr_scale(m, k) : 1;
        for (int64_t j = 0; j < m->cols; j++) {
            const int64_t i = k * m->cols + j;
            out[j] = m->lr_dtype == FG_LR_I8 ? scale * (float)codes[i]
                                             : fg_f16_to_f32(fg_le16_at(m->lr_b, i));
        }
    }
}

// ---- values

// FG_EINPUT for NAME.ARRAY[i].
static int bad(struct fg_error *err, const char *name, const char *file, const char *array,
               int64_t i, const char *expected, const char *found)
{
    char field[320];
    snprintf(field, sizeof field, "%.256s.%s[%" PRId64 "]", name, array, i);
    return fg_fail(err, FG_EINPUT, NULL, file, field, expected, "%s", found);
}

static int bad_number(struct fg_error *err, const char *name, const char *file, const char *array,
                      int64_t i, const char *expected, float found)
{
    char text[32];
    return bad(err, name, file, array, i, expected, fg_format_f64(text, sizeof text, found));
}

static bool f16_is_finite(uint16_t h)
{
    return (h & 0x7C00) != 0x7C00;
}

static int check_f16(const void *p, int64_t n, const char *name, const char *file,
                     const char *array, struct fg_error *err)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = fg_le16_at(p, i);
        if (!f16_is_finite(h))
            return bad_number(err, name, file, array, i, "a finite number", fg_f16_to_f32(h));
    }
    return 0;
}

static int check_scales(const struct fg_qmat *m, const char *name, const char *file,
                        struct fg_error *err)
{
    for (int64_t r = 0; r < m->rows; r++) {
        uint16_t h = fg_le16_at(m->scale, r);
        if (h == 0 || h >= 0x7C00) // zeros, infinities, NaN, everything negative
            return bad_number(err, name, file, "scale", r, "a finite number above 0",
                              fg_f16_to_f32(h));
    }
    return 0;
}

static int check_indices(const struct fg_qmat *m, const char *name, const char *file,
                         struct fg_error *err)
{
    const int64_t rows = m->rows / fg_qformat_rows_per_index(m->format);
    char text[32];
    if (m->idx) {
        const int entries = fg_qformat_entries(m->format);
        char expected[32];
        snprintf(expected, sizeof expected, "below %d", entries);
        for (int64_t i = 0; i < rows * m->cols; i++) {
            if (m->idx[i] < entries) continue;
            snprintf(text, sizeof text, "%d", m->idx[i]);
            return bad(err, name, file, "idx", i, expected, text);
        }
        return 0;
    }
    const int bits = fg_qformat_index_bits(m->format);
    const int64_t row_bytes = fg_pack_bytes(m->cols, bits);
    for (int64_t r = 0; r < rows; r++) {
        const uint8_t *row = m->pidx + r * row_bytes;
        if (fg_pack_pad_is_zero(row, m->cols, bits)) continue;
        snprintf(text, sizeof text, "0x%02x", row[row_bytes - 1]);
        return bad(err, name, file, "pidx", (r + 1) * row_bytes - 1, "pad bits 0", text);
    }
    return 0;
}

static int check_codes(const int8_t *codes, int64_t n, const char *name, const char *file,
                       const char *array, struct fg_error *err)
{
    for (int64_t i = 0; i < n; i++)
        if (codes[i] == -128) return bad(err, name, file, array, i, "in -127 .. 127", "-128");
    return 0;
}

static int check_factors(const struct fg_qmat *m, const char *name, const char *file, bool codes,
                         struct fg_error *err)
{
    const int64_t n_a = m->rows * m->rank, n_b = m->rank * m->cols;
    int rc = 0;
    if (m->lr_dtype == FG_LR_F16) {
        rc = check_f16(m->lr_a, n_a, name, file, "lr_a", err);
        return rc ? rc : check_f16(m->lr_b, n_b, name, file, "lr_b", err);
    }
    for (int64_t k = 0; k < m->rank; k++) {
        const float scale = fg_qmat_lr_scale(m, k);
        if (!(scale > 0) || (fg_bits_of_f32(scale) & 0x7F800000) == 0x7F800000)
            return bad_number(err, name, file, "lr_scale", k, "a finite number above 0", scale);
    }
    if (codes) rc = check_codes(m->lr_a, n_a, name, file, "lr_a", err);
    if (codes && !rc) rc = check_codes(m->lr_b, n_b, name, file, "lr_b", err);
    return rc;
}

static int check_kept(const struct fg_qmat *m, const char *name, const char *file,
                      struct fg_error *err)
{
    if (m->format == FG_Q_F16)
        return check_f16(m->weight, m->rows * m->cols, name, file, "weight", err);
    for (int64_t i = 0; i < m->rows * m->cols; i++) {
        float v;
        if (m->format == FG_Q_BF16)
            v = fg_bf16_to_f32(fg_le16_at(m->weight, i));
        else
            memcpy(&v, (const uint8_t *)m->weight + 4 * i, 4);
        if ((fg_bits_of_f32(v) & 0x7F800000) == 0x7F800000)
            return bad_number(err, name, file, "weight", i, "a finite number", v);
    }
    return 0;
}

int fg_qmat_check(const struct fg_qmat *m, const char *name, const char *file, bool pads,
                  struct fg_error *err)
{
    int rc = 0;
    if (fg_qformat_is_kept(m->format)) {
        rc = pads ? check_kept(m, name, file, err) : 0;
    } else {
        const int64_t values =
            (int64_t)fg_qformat_entries(m->format) * fg_qformat_rows_per_index(m->format);
        if (fg_qformat_is_lut(m->format)) rc = check_f16(m->lut, values, name, file, "lut", err);
        if (!rc) rc = check_scales(m, name, file, err);
        if (!rc && fg_qformat_is_lut(m->format) && (pads || m->idx))
            rc = check_indices(m, name, file, err);
        if (!rc && m->format == FG_Q_INT8 && pads)
            rc = check_codes(m->codes, m->rows * m->cols, name, file, "int8", err);
    }
    return rc || !m->rank ? rc : check_factors(m, name, file, pads, err);
}
