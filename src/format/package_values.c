// Values of a package's arrays (specs: runtime 1.4): what every open checks, and the rest, which
// takes reading all of the file.
#include "base/num.h"
#include "base/size.h"
#include "format/bits.h"
#include "format/package_impl.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WHAT FG_PACKAGE_WHAT
#define FIELD_BYTES FG_PACKAGE_FIELD_BYTES

// Index of the first of n 16-bit elements, at any alignment, with (element & mask) - sub >= limit
// (modulo 2^16); n when there is none.
static uint64_t first_at_least(const uint8_t *p, uint64_t n, uint16_t mask, uint16_t sub,
                               uint16_t limit)
{
    uint16_t block[1024];
    for (uint64_t at = 0; at < n; at += FG_COUNT(block)) {
        uint64_t m = n - at < FG_COUNT(block) ? n - at : FG_COUNT(block);
        unsigned hits = 0;
        memcpy(block, p + at * sizeof *block, m * sizeof *block);
        for (uint64_t i = 0; i < m; i++) {
            block[i] = (uint16_t)((block[i] & mask) - sub);
            hits |= block[i] >= limit;
        }
        for (uint64_t i = 0; hits && i < m; i++) {
            if (block[i] >= limit) return at + i;
        }
    }
    return n;
}

// Index of the first element that is not finite, or with `positive` (F16) not above 0; n when all
// are good.
static uint64_t first_bad(enum fg_st_dtype dtype, const uint8_t *p, uint64_t n, bool positive)
{
    if (positive) return first_at_least(p, n, 0xFFFF, 1, 0x7BFF); // 0x0001 .. 0x7BFF are good
    if (dtype == FG_ST_F16) return first_at_least(p, n, 0x7C00, 0, 0x7C00);
    if (dtype == FG_ST_BF16) return first_at_least(p, n, 0x7F80, 0, 0x7F80);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, p + i * sizeof u, sizeof u);
        if ((u & 0x7F800000u) == 0x7F800000u) return i;
    }
    return n;
}

static double value_at(enum fg_st_dtype dtype, const uint8_t *p, uint64_t i)
{
    uint16_t h;
    uint32_t u;
    if (dtype == FG_ST_F32) {
        memcpy(&u, p + i * sizeof u, sizeof u);
        return (double)fg_f32_of_bits(u);
    }
    memcpy(&h, p + i * sizeof h, sizeof h);
    return (double)(dtype == FG_ST_F16 ? fg_f16_to_f32(h) : fg_bf16_to_f32(h));
}

static int check_values(const char *file, const char *name, const char *suffix,
                        enum fg_st_dtype dtype, const void *data, uint64_t n, bool positive,
                        struct fg_error *err)
{
    if (!data) return 0;
    uint64_t bad = first_bad(dtype, data, n, positive);
    if (bad == n) return 0;
    char field[FIELD_BYTES];
    snprintf(field, sizeof field, "%s%s[%" PRIu64 "]", name, suffix, bad);
    return fg_fail(err, FG_EINPUT, WHAT, file, field,
                   positive ? "a finite number above 0" : "a finite number", "%g",
                   value_at(dtype, data, bad));
}

// The same for FP32 scales, above 0.
static int check_factor_scales(const struct fg_qset *set, const char *file, struct fg_error *err)
{
    for (uint64_t i = 0; i < set->n_mats; i++) {
        const struct fg_qset_mat *mat = &set->mats[i];
        const uint8_t *p = mat->m.lr_scale;
        for (uint64_t k = 0; p && k < (uint64_t)mat->m.rank; k++) {
            if (value_at(FG_ST_F32, p, k) > 0 && first_bad(FG_ST_F32, p + k * 4, 1, false) == 1)
                continue;
            char field[FIELD_BYTES];
            snprintf(field, sizeof field, "%s.lr_scale[%" PRIu64 "]", mat->name, k);
            return fg_fail(err, FG_EINPUT, WHAT, file, field, "a finite number above 0", "%g",
                           value_at(FG_ST_F32, p, k));
        }
    }
    return 0;
}

static int check_arrays(const struct fg_qset *set, const char *file, enum fg_package_part part,
                        bool positive, struct fg_error *err)
{
    for (uint64_t i = 0; i < set->n_mats; i++) {
        const struct fg_qset_mat *mat = &set->mats[i];
        struct fg_package_array a;
        if (!fg_package_array(&mat->m, part, &a) || a.dtype == FG_ST_I8) continue;
        const void *data = part == FG_PART_SCALE  ? mat->m.scale
                           : part == FG_PART_LUT  ? mat->m.lut
                           : part == FG_PART_LR_A ? mat->m.lr_a
                           : part == FG_PART_LR_B ? mat->m.lr_b
                                                  : mat->m.weight;
        uint64_t n = a.shape[0] * (a.rank > 1 ? a.shape[1] : 1);
        int rc = check_values(file, mat->name, a.suffix, a.dtype, data, n, positive, err);
        if (rc) return rc;
    }
    return 0;
}

int fg_package_check_values(const struct fg_qset *set, const char *file, struct fg_error *err)
{
    int rc = check_arrays(set, file, FG_PART_SCALE, true, err);
    if (!rc) rc = check_arrays(set, file, FG_PART_LUT, false, err);
    if (!rc) rc = check_arrays(set, file, FG_PART_LR_A, false, err);
    if (!rc) rc = check_arrays(set, file, FG_PART_LR_B, false, err);
    if (!rc) rc = check_factor_scales(set, file, err);
    for (uint64_t i = 0; i < set->n_small && !rc; i++) {
        const struct fg_qset_small *t = &set->small[i];
        rc = check_values(file, t->name, "", t->dtype, t->data,
                          t->bytes / fg_st_dtype_bytes(t->dtype), false, err);
    }
    return rc;
}

static int verify_pad(const struct fg_qset_mat *mat, uint64_t at, const char *file,
                      struct fg_error *err)
{
    const struct fg_qmat *m = &mat->m;
    int bits = fg_qformat_index_bits(m->format);
    uint64_t row_bytes = fg_qformat_row_bytes(m->format, (uint64_t)m->cols);
    uint64_t n_rows = (uint64_t)(m->rows / fg_qformat_rows_per_index(m->format));
    for (uint64_t r = 0; r < n_rows; r++) {
        const uint8_t *row = m->pidx + r * row_bytes;
        if (fg_bits_pad_is_zero(row, (uint64_t)m->cols, bits)) continue;
        char field[FIELD_BYTES], expected[FIELD_BYTES];
        snprintf(field, sizeof field, "%.150s.pidx row %" PRIu64, mat->name, r);
        snprintf(expected, sizeof expected,
                 "pad bits of 0 behind forge.matrices[%" PRIu64 "].cols = %" PRId64, at, m->cols);
        return fg_fail(err, FG_EINPUT, WHAT, file, field, expected, "byte 0x%02X",
                       row[row_bytes - 1]);
    }
    return 0;
}

static int verify_codes(const char *name, enum fg_package_part part, const void *codes, uint64_t n,
                        const char *file, struct fg_error *err)
{
    const int8_t *bad = memchr(codes, 0x80, n);
    if (!bad) return 0;
    char field[FIELD_BYTES];
    snprintf(field, sizeof field, "%.150s%s[%" PRIu64 "]", name, fg_package_suffix(part),
             (uint64_t)(bad - (const int8_t *)codes));
    return fg_fail(err, FG_EINPUT, WHAT, file, field, "-127 to 127", "-128");
}

int fg_package_check_slow(const struct fg_qset *set, const uint64_t *order, const char *file,
                          struct fg_error *err)
{
    int rc = 0;
    for (uint64_t i = 0; i < set->n_mats && !rc; i++) {
        const struct fg_qset_mat *mat = &set->mats[i];
        if (mat->m.pidx) rc = verify_pad(mat, order[i], file, err);
        const uint64_t rows = (uint64_t)mat->m.rows, cols = (uint64_t)mat->m.cols,
                       rank = (uint64_t)mat->m.rank;
        if (!rc && mat->m.codes)
            rc = verify_codes(mat->name, FG_PART_INT8, mat->m.codes, rows * cols, file, err);
        if (!mat->m.lr_scale) continue;
        if (!rc) rc = verify_codes(mat->name, FG_PART_LR_A, mat->m.lr_a, rows * rank, file, err);
        if (!rc) rc = verify_codes(mat->name, FG_PART_LR_B, mat->m.lr_b, rank * cols, file, err);
    }
    return rc ? rc : check_arrays(set, file, FG_PART_WEIGHT, false, err);
}
