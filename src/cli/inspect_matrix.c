// cli/inspect_matrix.c: matrices and small tensors of quantized weights, listed or one at a time:
// format, tables, histogram of the indices, statistics of what they stand for.
#include "base/num.h"
#include "base/progress.h"
#include "bundle/source.h"
#include "cli/inspect.h"
#include "eval/tensors.h"
#include "quant/dequant.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CODES_MAX 256

// What the statistics are about.
struct stats {
    uint64_t n, n_nan, n_inf, n_zero;
    double min, max, sum, sum2; // of the finite ones
    uint64_t codes[CODES_MAX];  // how often each index occurs; int8: code + 128
    uint64_t n_codes;
};

static uint64_t bytes_of(const struct fg_qmat *m)
{
    const uint64_t rows = (uint64_t)m->rows, cols = (uint64_t)m->cols;
    uint64_t bytes = 0, factors = 0;
    fg_qformat_bytes(m->format, rows, cols, &bytes);
    fg_lr_bytes(m->lr_dtype, rows, cols, (uint64_t)m->rank, &factors);
    return bytes + factors;
}

static void shape_text(const struct fg_qset_small *s, char *out, size_t cap)
{
    size_t at = (size_t)snprintf(out, cap, "[");
    for (int i = 0; i < s->rank && at < cap; i++)
        at += (size_t)snprintf(out + at, cap - at, "%s%" PRIu64, i ? ", " : "", s->shape[i]);
    if (at < cap) snprintf(out + at, cap - at, "]");
}

// ---- the list

static void json_mat(struct fg_jwrite *w, const struct fg_qset_mat *mat)
{
    fg_jwrite_str(w, "name", mat->name);
    fg_jwrite_str(w, "format", fg_qformat_name(mat->m.format));
    fg_jwrite_array(w, "shape");
    fg_jwrite_int(w, NULL, mat->m.rows);
    fg_jwrite_int(w, NULL, mat->m.cols);
    fg_jwrite_end_array(w);
    fg_jwrite_uint(w, "bytes", bytes_of(&mat->m));
    fg_jwrite_int(w, "rank", mat->m.rank);
    if (mat->m.rank) fg_jwrite_str(w, "lr_dtype", fg_lr_dtype_name(mat->m.lr_dtype));
    fg_jwrite_str(w, "rotation", mat->m.site);
    fg_jwrite_int(w, "block", mat->m.block);
    fg_jwrite_str(w, "file", mat->file);
}

static void json_small(struct fg_jwrite *w, const struct fg_qset_small *s)
{
    fg_jwrite_str(w, "name", s->name);
    fg_jwrite_str(w, "format", fg_st_dtype_name(s->dtype));
    fg_jwrite_array(w, "shape");
    for (int i = 0; i < s->rank; i++)
        fg_jwrite_uint(w, NULL, s->shape[i]);
    fg_jwrite_end_array(w);
    fg_jwrite_uint(w, "bytes", s->bytes);
    fg_jwrite_str(w, "file", s->file);
}

static void print_mat(const struct fg_qset_mat *mat)
{
    char bytes[32], shape[64], rest[64] = "";
    snprintf(shape, sizeof shape, "[%" PRId64 ", %" PRId64 "]", mat->m.rows, mat->m.cols);
    if (mat->m.rank)
        snprintf(rest, sizeof rest, "  rank %" PRId64 "%s", mat->m.rank,
                 mat->m.lr_dtype == FG_LR_I8 ? " in INT8" : "");
    printf("%-6s %-18s %10s  %s%s%s%s\n", fg_qformat_name(mat->m.format), shape,
           fg_format_bytes(bytes, sizeof bytes, bytes_of(&mat->m)), mat->name,
           mat->m.site ? "  rotated at " : "", mat->m.site ? mat->m.site : "", rest);
}

static void print_small(const struct fg_qset_small *s)
{
    char bytes[32], shape[192];
    shape_text(s, shape, sizeof shape);
    printf("%-6s %-18s %10s  %s\n", fg_st_dtype_name(s->dtype), shape,
           fg_format_bytes(bytes, sizeof bytes, s->bytes), s->name);
}

int fg_inspect_matrices(struct fg_cli *cli, const struct fg_source *source, const char *pattern,
                        struct fg_error *err)
{
    const struct fg_qset *s = fg_source_set(source);
    struct fg_jwrite w = {0};
    bool any = false;
    fg_jwrite_object(&w, NULL);
    fg_jwrite_array(&w, "tensors");
    for (uint64_t i = 0; i < s->n_mats + s->n_small; i++) {
        const bool mat = i < s->n_mats;
        const struct fg_qset_small *small = mat ? NULL : &s->small[i - s->n_mats];
        if (pattern[0] && !fg_tensor_matches(pattern, mat ? s->mats[i].name : small->name))
            continue;
        any = true;
        if (!cli->json && mat) print_mat(&s->mats[i]);
        if (!cli->json && !mat) print_small(small);
        if (!cli->json) continue;
        fg_jwrite_object(&w, NULL);
        if (mat)
            json_mat(&w, &s->mats[i]);
        else
            json_small(&w, small);
        fg_jwrite_end_object(&w);
    }
    fg_jwrite_end_array(&w);
    fg_jwrite_end_object(&w);
    if (!any && pattern[0]) {
        char shown[256];
        fg_out_warn(cli, "no tensor matches %s",
                    fg_escape(shown, sizeof shown, pattern, strlen(pattern)));
    }
    if (cli->json) return fg_out_json(&w, err);
    fg_jwrite_free(&w);
    return fg_out_flush(err);
}

// ---- one matrix

static void count_value(struct stats *s, double v)
{
    s->n++;
    if (isnan(v)) {
        s->n_nan++;
    } else if (isinf(v)) {
        s->n_inf++;
    } else {
        if (s->n == s->n_nan + s->n_inf + 1 || v < s->min) s->min = v;
        if (s->n == s->n_nan + s->n_inf + 1 || v > s->max) s->max = v;
        s->n_zero += v == 0;
        s->sum += v;
        s->sum2 += v * v;
    }
}

static double mean_of(const struct stats *s)
{
    uint64_t n = s->n - s->n_nan - s->n_inf;
    return n ? s->sum / (double)n : 0;
}

static double deviation_of(const struct stats *s)
{
    uint64_t n = s->n - s->n_nan - s->n_inf;
    double mean = mean_of(s), variance = n ? s->sum2 / (double)n - mean * mean : 0;
    return variance > 0 ? sqrt(variance) : 0;
}

// Bits that an ideal code would need per index.
static double entropy_of(const struct stats *s)
{
    double bits = 0;
    for (int i = 0; i < CODES_MAX; i++) {
        double p = s->n_codes ? (double)s->codes[i] / (double)s->n_codes : 0;
        if (p > 0) bits -= p * log2(p);
    }
    return bits;
}

// Streams over the rows; `row` has room for one in FP32, `idx` for its indices.
static void gather(struct stats *s, const struct fg_qmat *m, float *row, uint8_t *idx)
{
    *s = (struct stats){0};
    for (int64_t r = 0; r < m->rows; r++) {
        fg_qmat_dequantize(row, m, r, r + 1);
        for (int64_t j = 0; j < m->cols; j++)
            count_value(s, (double)row[j]);
        if (m->format == FG_Q_INT8) {
            for (int64_t j = 0; j < m->cols; j++)
                s->codes[(uint8_t)m->codes[r * m->cols + j] ^ 0x80]++;
            s->n_codes += (uint64_t)m->cols;
        } else if (fg_qformat_is_lut(m->format) && r % fg_qformat_rows_per_index(m->format) == 0) {
            fg_qmat_row_indices(idx, m, r / fg_qformat_rows_per_index(m->format));
            for (int64_t j = 0; j < m->cols; j++)
                s->codes[idx[j]]++;
            s->n_codes += (uint64_t)m->cols;
        }
    }
}

static int entries_of(const struct fg_qmat *m)
{
    return m->lut ? fg_qformat_entries(m->format) : 0;
}

static double table_value(const struct fg_qmat *m, int entry, int component)
{
    int64_t per = fg_qformat_rows_per_index(m->format);
    return (double)fg_f16_to_f32(fg_le16_at(m->lut, entry * per + component));
}

static void print_one(const struct fg_qset_mat *mat, const struct stats *s, const double *head,
                      int64_t n_head)
{
    const struct fg_qmat *m = &mat->m;
    char bytes[32];
    printf("%s\n%s [%" PRId64 ", %" PRId64 "], %s, %.4g bits per weight\n", mat->name,
           fg_qformat_name(m->format), m->rows, m->cols,
           fg_format_bytes(bytes, sizeof bytes, bytes_of(m)),
           8.0 * (double)bytes_of(m) / ((double)m->rows * (double)m->cols));
    if (m->site) printf("rotation %s, blocks of %" PRId64 "\n", m->site, m->block);
    if (m->rank)
        printf("factors of rank %" PRId64 "%s\n", m->rank,
               m->lr_dtype == FG_LR_I8 ? " in INT8" : "");
    for (int i = 0; i < entries_of(m); i++) {
        printf("table %2d  %12.6g", i, table_value(m, i, 0));
        if (fg_qformat_rows_per_index(m->format) == 2) printf(" %12.6g", table_value(m, i, 1));
        if (s) printf("  %10" PRIu64 " times", s->codes[i]);
        printf("\n");
    }
    if (s) {
        printf("min %.9g, max %.9g, mean %.9g, std %.9g; %" PRIu64 " zeros, %" PRIu64
               " NaN, %" PRIu64 " infinite\n",
               s->min, s->max, mean_of(s), deviation_of(s), s->n_zero, s->n_nan, s->n_inf);
        if (s->n_codes) printf("entropy %.4f bits per index\n", entropy_of(s));
    }
    for (int64_t i = 0; i < n_head; i++)
        printf("%.9g\n", head[i]);
}

static void json_one(struct fg_jwrite *w, const struct fg_qset_mat *mat, const struct stats *s,
                     const double *head, int64_t n_head)
{
    const struct fg_qmat *m = &mat->m;
    fg_jwrite_object(w, NULL);
    json_mat(w, mat);
    fg_jwrite_array(w, "table");
    for (int i = 0; i < entries_of(m); i++) {
        fg_jwrite_array(w, NULL);
        for (int t = 0; t < fg_qformat_rows_per_index(m->format); t++)
            fg_jwrite_num(w, NULL, table_value(m, i, t));
        fg_jwrite_end_array(w);
    }
    fg_jwrite_end_array(w);
    if (s) {
        fg_jwrite_object(w, "stats");
        fg_jwrite_num(w, "min", s->min);
        fg_jwrite_num(w, "max", s->max);
        fg_jwrite_num(w, "mean", mean_of(s));
        fg_jwrite_num(w, "std", deviation_of(s));
        fg_jwrite_uint(w, "zeros", s->n_zero);
        fg_jwrite_uint(w, "nan", s->n_nan);
        fg_jwrite_uint(w, "infinite", s->n_inf);
        fg_jwrite_num(w, "entropy_bits", entropy_of(s));
        int first = m->format == FG_Q_INT8 ? -128 : 0,
            n = m->format == FG_Q_INT8 ? CODES_MAX : fg_qformat_entries(m->format);
        fg_jwrite_int(w, "first_code", first);
        fg_jwrite_array(w, "codes");
        for (int i = 0; i < n; i++)
            fg_jwrite_uint(w, NULL, s->codes[i]);
        fg_jwrite_end_array(w);
        fg_jwrite_end_object(w);
    }
    fg_jwrite_array(w, "head");
    for (int64_t i = 0; i < n_head; i++)
        fg_jwrite_num(w, NULL, head[i]);
    fg_jwrite_end_array(w);
    fg_jwrite_end_object(w);
}

// A small tensor is shown as a kept matrix of one row.
static bool find(const struct fg_qset *s, const char *name, struct fg_qset_mat *out)
{
    const struct fg_qset_mat *mat = fg_qset_find_mat(s, name);
    if (mat) {
        *out = *mat;
        return true;
    }
    const struct fg_qset_small *small = fg_qset_find_small(s, name);
    if (!small || small->bytes == 0) return false;
    enum fg_qformat format = small->dtype == FG_ST_F32   ? FG_Q_F32
                             : small->dtype == FG_ST_F16 ? FG_Q_F16
                                                         : FG_Q_BF16;
    *out = (struct fg_qset_mat){.name = small->name, .file = small->file};
    out->m = (struct fg_qmat){.format = format,
                              .rows = 1,
                              .cols = (int64_t)(small->bytes / fg_st_dtype_bytes(small->dtype)),
                              .weight = small->data};
    return true;
}

int fg_inspect_matrix(struct fg_cli *cli, const struct fg_source *source, const char *name,
                      struct fg_error *err)
{
    const bool stats = fg_args_flag(&cli->args, "stats");
    struct fg_qset_mat mat;
    struct stats s;
    if (!find(fg_source_set(source), name, &mat)) {
        int rc = fg_fail(err, FG_EINPUT, "inspect", fg_source_path(source), name,
                         "a matrix or tensor of these weights", "none of this name");
        fg_error_hint(err, "--tensors lists them");
        return rc;
    }
    const struct fg_qmat *m = &mat.m;
    int64_t n_head = fg_args_int(&cli->args, "head");
    if (n_head > m->rows * m->cols) n_head = m->rows * m->cols;
    float *row = malloc((size_t)m->cols * sizeof *row);
    uint8_t *idx = malloc((size_t)m->cols);
    double *head = malloc((size_t)(n_head + 1) * sizeof *head);
    int rc = row && idx && head ? 0 : fg_fail_memory(err, "inspect", (uint64_t)m->cols * 5);
    // Stored tables end at their entries: indices are checked before they lead anywhere.
    if (!rc && !fg_qformat_is_kept(m->format)) rc = fg_qmat_check(m, name, mat.file, true, err);
    for (int64_t i = 0; i < n_head && !rc; i++) {
        if (i % m->cols == 0) fg_qmat_dequantize(row, m, i / m->cols, i / m->cols + 1);
        head[i] = (double)row[i % m->cols];
    }
    if (!rc && stats) gather(&s, m, row, idx);
    struct fg_jwrite w = {0};
    if (!rc && cli->json) {
        json_one(&w, &mat, stats ? &s : NULL, head, n_head);
        rc = fg_out_json(&w, err);
    } else if (!rc) {
        print_one(&mat, stats ? &s : NULL, head, n_head);
        rc = fg_out_flush(err);
    }
    free(row);
    free(idx);
    free(head);
    return rc;
}
