// quant/export_matrix.c: one matrix of an export: its tensors, their shapes, its rotation, and its
// factors in the basis of the stored weights (specs: quantization 1.2, 2, appendix A).
#include "base/num.h"
#include "base/size.h"
#include "quant/dequant.h"
#include "quant/export_impl.h"
#include "quant/pack.h"
#include "quant/signs.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXTENT_MAX ((uint64_t)1 << 40) // rows and columns, so that products of two stay below 2^63
#define ELEMENTS_MAX ((uint64_t)1 << 62)

struct reader {
    struct fg_export_load *l;
    struct fg_export_file *f;
    const char *key;
    char name[FG_EXPORT_NAME_MAX]; // of the tensor looked at last
};

static const struct fg_st_tensor *find(struct reader *r, const char *suffix)
{
    snprintf(r->name, sizeof r->name, "%s%s%s", r->key, r->key[0] ? "." : "", suffix);
    return fg_checkpoint_find(r->f->c, r->name);
}

// The tensor, of this dtype; NULL with the load's rc set.
static const struct fg_st_tensor *take(struct reader *r, const char *suffix, enum fg_st_dtype dtype)
{
    const struct fg_st_tensor *t = find(r, suffix);
    if (!t) {
        fg_export_refuse(r->l, r->f->path, r->name, "a tensor", "no such tensor");
    } else if (t->dtype != dtype) {
        char field[FG_EXPORT_NAME_MAX + 16];
        snprintf(field, sizeof field, "dtype of %s", r->name);
        fg_export_refuse(r->l, r->f->path, field, fg_st_dtype_name(dtype), "%s",
                         fg_st_dtype_name(t->dtype));
        return NULL;
    }
    return t;
}

// True when the shape is [a][b]; `loose`: also [a] where b is 1.
static bool has_shape(struct reader *r, const struct fg_st_tensor *t, uint64_t a, uint64_t b,
                      bool loose)
{
    if (t->rank == 2 && t->shape[0] == a && t->shape[1] == b) return true;
    if (loose && b == 1 && t->rank == 1 && t->shape[0] == a) return true;
    char field[FG_EXPORT_NAME_MAX + 16], expected[64], found[192];
    uint64_t want[2] = {a, b};
    snprintf(field, sizeof field, "shape of %s", t->name);
    fg_export_shape_text(expected, sizeof expected, loose && b == 1 ? 1 : 2, want);
    fg_export_refuse(r->l, r->f->path, field, expected, "%s",
                     fg_export_shape_text(found, sizeof found, t->rank, t->shape));
    return false;
}

// Tensors that the format has no use for.
static bool refuse_others(struct reader *r, enum fg_qformat format)
{
    static const char *const all[] = {"pidx", "idx", "lut", "scale", "int8", "weight"};
    const bool lut = fg_qformat_is_lut(format), kept = fg_qformat_is_kept(format);
    const bool used[] = {lut, lut, lut, !kept, format == FG_Q_INT8, kept};
    for (size_t i = 0; i < FG_COUNT(all); i++) {
        if (used[i] || !find(r, all[i])) continue;
        fg_export_refuse(r->l, r->f->path, r->name, "no such tensor",
                         "one, although the format is %s", fg_qformat_name(format));
        return false;
    }
    return true;
}

// Columns of packed rows: the model's, the factors', the rotation's or else the most that fit.
static uint64_t packed_cols(struct reader *r, const char *name, int site, enum fg_qformat format,
                            uint64_t row_bytes)
{
    const struct fg_export_need *need = fg_export_need_of(r->l, name);
    if (need && need->rank == 2) return need->shape[1];
    const struct fg_st_tensor *t = find(r, "lr_b");
    if (t && t->rank == 2) return t->shape[1];
    if (site >= 0) { // its block, at least 8, divides the width
        char rot[32];
        snprintf(rot, sizeof rot, "rot.%s", fg_export_sites[site]);
        t = fg_checkpoint_find(r->f->c, rot);
        if (t && t->rank == 1 && t->bytes < EXTENT_MAX / 8) return t->bytes * 8;
    }
    uint64_t bits = 0;
    if (!fg_mul(&bits, row_bytes, 8)) return 0;
    return bits / (uint64_t)fg_qformat_index_bits(format);
}

static bool read_scale(struct reader *r, struct fg_qmat *m)
{
    const struct fg_st_tensor *t = take(r, "scale", FG_ST_F16);
    if (!t || t->rank < 1 || !has_shape(r, t, t->rank ? t->shape[0] : 0, 1, true)) return false;
    if (t->shape[0] < 1 || t->shape[0] > EXTENT_MAX) {
        fg_export_refuse(r->l, r->f->path, r->name, "rows", "%" PRIu64, t->shape[0]);
        return false;
    }
    m->rows = (int64_t)t->shape[0];
    m->scale = (const void *)t->data;
    return true;
}

static bool read_lut(struct reader *r, const char *name, int site, struct fg_qmat *m)
{
    const uint64_t per = (uint64_t)fg_qformat_rows_per_index(m->format);
    if (!read_scale(r, m)) return false;
    const struct fg_st_tensor *lut = take(r, "lut", FG_ST_F16);
    if (!lut || !has_shape(r, lut, (uint64_t)fg_qformat_entries(m->format), per, true))
        return false;
    m->lut = (const void *)lut->data;
    if ((uint64_t)m->rows % per != 0) {
        find(r, "scale");
        fg_export_refuse(r->l, r->f->path, r->name, "an even number of rows", "%" PRId64, m->rows);
        return false;
    }
    const struct fg_st_tensor *packed = find(r, "pidx"), *bytes = find(r, "idx");
    if (packed && bytes) {
        fg_export_refuse(r->l, r->f->path, r->name, "either packed or byte indices", "both");
        return false;
    }
    const struct fg_st_tensor *t = take(r, packed ? "pidx" : "idx", FG_ST_U8);
    if (!t) return false;
    uint64_t width = t->rank == 2 ? t->shape[1] : 0;
    uint64_t cols = packed ? packed_cols(r, name, site, m->format, width) : width;
    find(r, packed ? "pidx" : "idx");
    if (cols < 1 || cols > EXTENT_MAX) {
        fg_export_refuse(r->l, r->f->path, r->name, "rows of indices", "%" PRIu64 " columns", cols);
        return false;
    }
    uint64_t row_bytes = packed ? fg_qformat_row_bytes(m->format, cols) : cols;
    if (!has_shape(r, t, (uint64_t)m->rows / per, row_bytes, false)) return false;
    m->cols = (int64_t)cols;
    if (packed)
        m->pidx = t->data;
    else
        m->idx = t->data;
    return true;
}

// int8, or a kept matrix.
static bool read_rows(struct reader *r, struct fg_qmat *m)
{
    const bool codes = m->format == FG_Q_INT8;
    const enum fg_st_dtype dtype = codes                    ? FG_ST_I8
                                   : m->format == FG_Q_BF16 ? FG_ST_BF16
                                   : m->format == FG_Q_F16  ? FG_ST_F16
                                                            : FG_ST_F32;
    if (codes && !read_scale(r, m)) return false;
    const struct fg_st_tensor *t = take(r, codes ? "int8" : "weight", dtype);
    if (!t) return false;
    uint64_t rows = codes ? (uint64_t)m->rows : t->rank == 2 ? t->shape[0] : 0;
    uint64_t cols = t->rank == 2 ? t->shape[1] : 0;
    if (!has_shape(r, t, rows, cols, false)) return false;
    if (rows < 1 || rows > EXTENT_MAX || cols < 1 || cols > EXTENT_MAX) {
        fg_export_refuse(r->l, r->f->path, r->name, "rows and columns", "none");
        return false;
    }
    m->rows = (int64_t)rows;
    m->cols = (int64_t)cols;
    if (codes)
        m->codes = (const void *)t->data;
    else
        m->weight = t->data;
    return true;
}

static bool read_factors(struct reader *r, struct fg_qmat *m)
{
    const struct fg_st_tensor *a = find(r, "lr_a"), *b = find(r, "lr_b"), *scale;
    scale = find(r, "lr_scale");
    if (!a && !b && !scale) return true;
    // The first factor says which kind they are; the other arrays have to agree. The original's are
    // F16, to be rotated.
    const bool int8 = a && a->dtype == FG_ST_I8 && !r->f->original;
    if (scale && !int8) {
        find(r, "lr_scale");
        fg_export_refuse(r->l, r->f->path, r->name, "no such tensor",
                         "one, although there are no factors in I8");
        return false;
    }
    a = take(r, "lr_a", int8 ? FG_ST_I8 : FG_ST_F16);
    b = a ? take(r, "lr_b", int8 ? FG_ST_I8 : FG_ST_F16) : NULL;
    if (b && int8) scale = take(r, "lr_scale", FG_ST_F32);
    if (!b || (int8 && !scale)) return false;
    uint64_t rank = a->rank == 2 ? a->shape[1] : 0;
    if (rank < 1 || rank > (uint64_t)(m->rows > m->cols ? m->rows : m->cols)) {
        find(r, "lr_a");
        fg_export_refuse(r->l, r->f->path, r->name, "a rank of at least 1", "%" PRIu64, rank);
        return false;
    }
    if (!has_shape(r, a, (uint64_t)m->rows, rank, false) ||
        !has_shape(r, b, rank, (uint64_t)m->cols, false) ||
        (int8 && !has_shape(r, scale, rank, 1, true)))
        return false;
    m->rank = (int64_t)rank;
    m->lr_dtype = int8 ? FG_LR_I8 : FG_LR_F16;
    m->lr_a = a->data;
    m->lr_b = b->data;
    if (int8) m->lr_scale = scale->data;
    return true;
}

// Bits of the site: made from the seed for the original's, else the stored ones, which must be
// those of the seed.
static bool read_bits(struct reader *r, int site, int64_t n)
{
    struct fg_export_rot *rot = &r->f->rot[site];
    char name[32];
    snprintf(name, sizeof name, "rot.%s", fg_export_sites[site]);
    if (rot->bits) {
        if (rot->n == n) return true;
        fg_export_refuse(r->l, r->f->path, r->key, "the width of the other matrices of its input",
                         "%" PRId64 " and %" PRId64 " columns", rot->n, n);
        return false;
    }
    if (n % rot->block != 0) {
        fg_export_refuse(r->l, r->f->path, "block", "a divisor of the width",
                         "%" PRId64 " for %" PRId64 " columns of %s", rot->block, n, r->key);
        return false;
    }
    uint64_t bytes = (uint64_t)n / 8;
    uint8_t *bits = fg_export_alloc(r->l, bytes, 1);
    if (!bits) return false;
    if (r->f->signs == FG_SIGNS_NUMPY)
        fg_signs_numpy_pcg64(bits, (uint32_t)rot->seed, n);
    else
        fg_signs_splitmix64(bits, (uint64_t)rot->seed, n);
    const struct fg_st_tensor *t = fg_checkpoint_find(r->f->c, name);
    if (!t && !r->f->original) {
        fg_export_refuse(r->l, r->f->path, name, "a sign bitmap", "no such tensor");
        return false;
    }
    if (t && (t->dtype != FG_ST_U8 || t->rank != 1 || t->shape[0] != bytes)) {
        char expected[48], found[192];
        snprintf(expected, sizeof expected, "U8 [%" PRIu64 "]", bytes);
        fg_export_shape_text(found, sizeof found, t->rank, t->shape);
        fg_export_refuse(r->l, r->f->path, name, expected, "%s %s", fg_st_dtype_name(t->dtype),
                         found);
        return false;
    }
    for (uint64_t i = 0; t && i < bytes; i++) {
        if (t->data[i] == bits[i]) continue;
        char expected[64];
        snprintf(name, sizeof name, "rot.%s[%" PRIu64 "]", fg_export_sites[site], i);
        snprintf(expected, sizeof expected, "0x%02x, the signs of seed %" PRId64, bits[i],
                 rot->seed);
        fg_export_refuse(r->l, r->f->path, name, expected, "0x%02x", t->data[i]);
        return false;
    }
    rot->bits = t ? t->data : bits;
    rot->n = n;
    return true;
}

// The original keeps lr_b in the basis of the unrotated weights: B' = B M, rounded to F16.
static bool rotate_factor(struct reader *r, struct fg_qmat *m, const struct fg_export_rot *rot)
{
    const struct fg_export_options *o = r->l->o;
    const struct fg_kernels *kernels = o->kernels;
    if (!kernels) {
        int n;
        const struct fg_kernels *const *levels = fg_kernels_levels(&n);
        kernels = levels[n - 1];
    }
    const uint64_t n = (uint64_t)m->rank * (uint64_t)m->cols; // both are extents of an open tensor
    float *w = fg_alloc_aligned(n * sizeof *w);
    uint16_t *out = fg_export_alloc(r->l, n, sizeof *out);
    if (!w || !out) {
        if (!r->l->rc) r->l->rc = fg_fail_memory(r->l->err, FG_EXPORT_WHAT, n * sizeof *w);
        free(w);
        return false;
    }
    for (uint64_t i = 0; i < n; i++)
        w[i] = fg_f16_to_f32(fg_le16_at(m->lr_b, (int64_t)i));
    fg_rotate_rows(w, m->rank, m->cols, rot->bits, rot->block, kernels, o->pool);
    for (uint64_t i = 0; i < n; i++)
        out[i] = fg_f16_of_f32(w[i]);
    free(w);
    m->lr_b = out;
    return true;
}

static bool check_need(struct reader *r, const char *name, const struct fg_qmat *m)
{
    const struct fg_export_need *need = fg_export_need_of(r->l, name);
    if (!need && r->l->o->n_needs == 0) return true;
    if (!need) {
        fg_export_refuse(r->l, r->f->path, r->key, "a matrix of the model", "%s", name);
        return false;
    }
    if (need->rank == 2 && need->shape[0] == (uint64_t)m->rows &&
        need->shape[1] == (uint64_t)m->cols)
        return true;
    char field[FG_EXPORT_NAME_MAX + 16], expected[192];
    snprintf(field, sizeof field, "shape of %s", r->key);
    fg_export_shape_text(expected, sizeof expected, need->rank, need->shape);
    fg_export_refuse(r->l, r->f->path, field, expected, "[%" PRId64 ", %" PRId64 "]", m->rows,
                     m->cols);
    return false;
}

// Pad bits of packed rows; a handful of bytes where there are any.
static bool check_pads(struct reader *r, const struct fg_qmat *m)
{
    const int bits = fg_qformat_index_bits(m->format);
    if (!m->pidx || m->cols % 8 * bits % 8 == 0) return true;
    const uint64_t row_bytes = fg_qformat_row_bytes(m->format, (uint64_t)m->cols);
    for (int64_t i = 0; i < m->rows / fg_qformat_rows_per_index(m->format); i++) {
        const uint8_t *row = m->pidx + (uint64_t)i * row_bytes;
        if (fg_pack_pad_is_zero(row, m->cols, bits)) continue;
        char field[FG_EXPORT_NAME_MAX + 32];
        find(r, "pidx");
        snprintf(field, sizeof field, "%s[%" PRId64 "]", r->name, i);
        fg_export_refuse(r->l, r->f->path, field, "pad bits 0", "others");
        return false;
    }
    return true;
}

void fg_export_read_matrix(struct fg_export_load *l, struct fg_export_file *f, const char *key,
                           const char *name, enum fg_qformat format, int site)
{
    struct fg_export *e = l->e;
    struct reader reader = {.l = l, .f = f, .key = key}, *r = &reader;
    struct fg_qmat m = {.format = format};
    if (!refuse_others(r, format)) return;
    bool ok = fg_qformat_is_lut(format) ? read_lut(r, name, site, &m) : read_rows(r, &m);
    if (!ok || !check_need(r, name, &m) || !read_factors(r, &m) || !check_pads(r, &m)) return;
    uint64_t elements;
    if (!fg_mul(&elements, (uint64_t)m.rows, (uint64_t)m.cols) || elements > ELEMENTS_MAX) {
        fg_export_refuse(l, f->path, key, "a matrix that fits in memory", "more");
        return;
    }
    if (site >= 0) {
        if (!read_bits(r, site, m.cols)) return;
        m.site = fg_export_sites[site];
        m.block = f->rot[site].block;
        if (m.rank && f->original && !rotate_factor(r, &m, &f->rot[site])) return;
    }
    struct fg_qmat values = m; // indices are read when they are used: fg_export_check_codes
    values.idx = NULL;
    l->rc = fg_qmat_check(&values, key, f->path, false, l->err);
    if (l->rc || !fg_export_grow(l, (void **)&e->mats, e->n_mats, &e->cap_mats, sizeof *e->mats))
        return;
    char *copy = fg_export_strdup(l, name);
    if (!copy) return;
    e->mats[e->n_mats++] = (struct fg_qset_mat){.name = copy, .m = m, .file = f->path};
}
