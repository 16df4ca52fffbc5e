// quant/fit.c: scales, rounding to the nearest entry, and both with a table as one call. Every row
// or pair of rows is on its own; sums of squares are kept per row and added in order.
#include "quant/fit_impl.h"
#include "base/arena.h"
#include "quant/jobs.h"
#include "quant/pack.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_PER_ITEM 8 // an even number: pairs stay together

struct fg_fit_options fg_fit_defaults(const char *name, const struct fg_kernels *kernels,
                                      struct fg_pool *pool)
{
    return (struct fg_fit_options){.name = name,
                                   .seed = 1,
                                   .row_weight = true,
                                   .vectors = 300000,
                                   .values = 65536,
                                   .inits = 3,
                                   .iterations = 200,
                                   .int8_tables = true,
                                   .kernels = kernels,
                                   .pool = pool};
}

static double sum_lanes(const double lane[8])
{
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

// Eight sums side by side, for the compiler to make vectors of.
static double sum_of_squares(const float *x, int64_t n)
{
    double lane[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++)
            lane[j] += (double)x[i + j] * (double)x[i + j];
    for (int j = 0; i + j < n; j++)
        lane[j] += (double)x[i + j] * (double)x[i + j];
    return sum_lanes(lane);
}

// Of w - s * value, the product as dequantization forms it.
static double sum_of_errors(const float *w, float s, const float *value, int64_t n)
{
    double lane[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int j = 0; j < 8; j++) {
            const double e = (double)w[i + j] - (double)(s * value[i + j]);
            lane[j] += e * e;
        }
    }
    for (int j = 0; i + j < n; j++) {
        const double e = (double)w[i + j] - (double)(s * value[i + j]);
        lane[j] += e * e;
    }
    return sum_lanes(lane);
}

// FG_EINPUT for NAME[i].
static int bad(struct fg_error *err, const struct fg_fit_options *o, int64_t i,
               const char *expected, double found)
{
    char field[192], text[32];
    snprintf(field, sizeof field, "%.150s[%" PRId64 "]", o->name, i);
    return fg_fail(err, FG_EINPUT, "quantize", NULL, field, expected, "%s",
                   fg_format_f64(text, sizeof text, found));
}

// ---- scales

struct scaling {
    const float *W;
    int64_t rows, cols;
    bool is_int8;
    uint16_t *scale;
    double *sum; // [rows] of squares: infinite or NaN where a weight is
};

static void scale_item(void *ctx, int64_t item, int worker)
{
    const struct scaling *s = ctx;
    (void)worker;
    for (int64_t r = item * ROWS_PER_ITEM; r < (item + 1) * ROWS_PER_ITEM && r < s->rows; r++) {
        const float *row = s->W + r * s->cols;
        s->sum[r] = sum_of_squares(row, s->cols);
        if (!s->is_int8) {
            s->scale[r] = fg_f16_of_f32((float)sqrt(s->sum[r] / (double)s->cols));
            if (s->scale[r] == 0) s->scale[r] = 0x3C00;
            continue;
        }
        float most = 0;
        for (int64_t j = 0; j < s->cols; j++) {
            const float a = fabsf(row[j]);
            most = a > most ? a : most;
        }
        s->scale[r] = fg_f16_of_f32(fmaxf(most / 127.0f, 1e-12f));
        if (s->scale[r] == 0) s->scale[r] = 1;
    }
}

int fg_fit_scales(uint16_t *scale, enum fg_qformat f, const float *W, int64_t rows, int64_t cols,
                  const struct fg_fit_options *o, struct fg_error *err)
{
    struct scaling s = {W, rows, cols, f == FG_Q_INT8, scale, NULL};
    s.sum = calloc((size_t)rows, sizeof *s.sum);
    if (!s.sum) return fg_fail_memory(err, "scales", (uint64_t)rows * sizeof *s.sum);
    fg_job_run(o->pool, (rows + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM, scale_item, &s);
    int rc = 0;
    for (int64_t r = 0; r < rows && !rc; r++) {
        if (!isfinite(s.sum[r]))
            rc = bad(err, o, r, "finite weights in this row", s.sum[r]);
        else if (!fg_f16_is_finite(scale[r]))
            rc = bad(err, o, r, "a row whose scale F16 holds, at most 65504",
                     s.is_int8 ? INFINITY : sqrt(s.sum[r] / (double)cols));
    }
    free(s.sum);
    return rc;
}

// ---- rounding

struct rounding {
    const struct fg_fit_options *o;
    enum fg_qformat f;
    int64_t rows, cols, row_bytes;
    const float *W;
    const uint16_t *scale;
    struct fg_rounder rounder; // of quantized formats
    uint8_t *out;
    double (*error)[2];    // [rows] signal, noise; or NULL
    uint8_t *scratch;      // of all threads
    int64_t scratch_bytes; // of one
};

// The last number that is not nearer to `above` than to `below`. Both are F16: the sum is exact.
static float threshold(float below, float above)
{
    if (below == above) return INFINITY; // the lower index has it all
    const double mid = ((double)below + (double)above) / 2;
    const float t = (float)mid;
    return (double)t > mid ? nextafterf(t, -INFINITY) : t;
}

void fg_rounder_init(struct fg_rounder *r, enum fg_qformat f, const uint16_t *lut,
                     const struct fg_kernels *kernels)
{
    *r = (struct fg_rounder){.format = f, .kernels = kernels};
    const int d = fg_qformat_rows_per_index(f), K = r->entries = fg_qformat_entries(f);
    for (int i = 0; i < K; i++)
        for (int t = 0; t < d; t++)
            r->c[t * K + i] = fg_f16_to_f32(lut[i * d + t]);
    for (int k = 1; k < K && d == 1; k++)
        r->threshold[k] = threshold(r->c[k - 1], r->c[k]);
}

// K is a constant where this is called: the loops become vectors.
static inline void nearest(const int K, uint8_t *code, const float *threshold, const float *x,
                           int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int at = 0;
        for (int k = 1; k < K; k++)
            at = x[i] > threshold[k] ? k : at;
        code[i] = (uint8_t)at;
    }
}

void fg_rounder_codes(const struct fg_rounder *r, uint8_t *code, float *dist,
                      const float *const x[2], const float *const w[2], int64_t n)
{
    if (r->format == FG_Q_INT8) {
        for (int64_t i = 0; i < n; i++)
            code[i] = (uint8_t)(int8_t)rintf(fminf(fmaxf(x[0][i], -127.0f), 127.0f));
        return;
    }
    if (fg_qformat_rows_per_index(r->format) == 2)
        r->kernels->nearest2(code, dist, x[0], x[1], w[0], w[1], r->c, r->entries, n);
    else if (r->entries == 16)
        nearest(16, code, r->threshold, x[0], n);
    else
        nearest(64, code, r->threshold, x[0], n);
}

void fg_fit_compare(double e[2], const float *w, float scale, const float *value, int64_t n)
{
    e[0] = sum_of_squares(w, n);
    e[1] = sum_of_errors(w, scale, value, n);
}

// Sums of a row and of what rounding took from it. `value` is what comes back, before the scale.
static void compare_row(const struct rounding *r, int64_t row, float scale, const float *value)
{
    if (r->error) fg_fit_compare(r->error[row], r->W + row * r->cols, scale, value, r->cols);
}

// Index row g, the d rows of one index: x are five rows of scratch.
static void round_rows(const struct rounding *r, int64_t g, float *const x[5], uint8_t *code)
{
    const int64_t n = r->cols;
    const int d = fg_qformat_rows_per_index(r->f);
    float s[2];
    for (int t = 0; t < d; t++) {
        const float *w = r->W + (d * g + t) * n;
        s[t] = fg_f16_to_f32(r->scale[d * g + t]);
        const float weight = fg_fit_row_weight(r->o, d * g + t, s[t]);
        for (int64_t j = 0; j < n; j++) {
            x[t][j] = w[j] / s[t];
            x[2 + t][j] = weight;
        }
    }
    fg_rounder_codes(&r->rounder, code, x[4], (const float *const[2]){x[0], x[1]},
                     (const float *const[2]){x[2], x[3]}, n);
    if (r->f == FG_Q_INT8)
        memcpy(r->out + g * n, code, (size_t)n);
    else
        fg_pack_indices(r->out + g * r->row_bytes, code, n, fg_qformat_index_bits(r->f));
    for (int t = 0; r->error && t < d; t++) {
        for (int64_t j = 0; j < n; j++)
            x[0][j] = fg_rounder_value(&r->rounder, t, code[j]);
        compare_row(r, d * g + t, s[t], x[0]);
    }
}

static void keep(const struct rounding *r, int64_t row, float *x)
{
    const int64_t n = r->cols;
    const float *w = r->W + row * n;
    uint8_t *out = r->out + row * n * (r->f == FG_Q_F32 ? 4 : 2);
    if (r->f == FG_Q_F32) memcpy(out, w, (size_t)n * 4);
    for (int64_t j = 0; j < n; j++) {
        x[j] = w[j];
        if (r->f == FG_Q_F32) continue;
        const uint16_t h = r->f == FG_Q_BF16 ? fg_bf16_of_f32(w[j]) : fg_f16_of_f32(w[j]);
        x[j] = r->f == FG_Q_BF16 ? fg_bf16_to_f32(h) : fg_f16_to_f32(h);
        memcpy(out + 2 * j, &h, 2);
    }
    compare_row(r, row, 1.0f, x);
}

static void round_item(void *ctx, int64_t item, int worker)
{
    const struct rounding *r = ctx;
    uint8_t *scratch = r->scratch + worker * r->scratch_bytes;
    float *x[5];
    for (int i = 0; i < 5; i++)
        x[i] = (float *)(void *)scratch + i * r->cols;
    uint8_t *idx = scratch + 5 * r->cols * (int64_t)sizeof(float);
    const int64_t end = (item + 1) * ROWS_PER_ITEM, d = fg_qformat_rows_per_index(r->f);
    for (int64_t row = item * ROWS_PER_ITEM; row < end && row < r->rows; row += d) {
        if (fg_qformat_is_kept(r->f))
            keep(r, row, x[0]);
        else
            round_rows(r, row / d, x, idx);
    }
}

int fg_fit_round(uint8_t *out, struct fg_fit_error *e, enum fg_qformat f, const float *W,
                 const uint16_t *scale, const uint16_t *lut, int64_t rows, int64_t cols,
                 const struct fg_fit_options *o, struct fg_error *err)
{
    struct rounding r = {.o = o, .f = f, .rows = rows, .cols = cols, .W = W, .scale = scale};
    r.row_bytes = (int64_t)fg_qformat_row_bytes(f, (uint64_t)cols);
    r.out = out;
    r.scratch_bytes = (cols * 21 + 63) / 64 * 64;
    const uint64_t bytes = (uint64_t)(r.scratch_bytes * fg_job_threads(o->pool));
    r.scratch = fg_alloc_aligned(bytes);
    if (e) r.error = calloc((size_t)rows, sizeof *r.error);
    int rc = 0;
    if (!r.scratch || (e && !r.error)) {
        rc = fg_fail_memory(err, "rounding", bytes + (uint64_t)rows * sizeof *r.error);
    } else {
        fg_rounder_init(&r.rounder, f, lut, o->kernels);
        fg_job_run(o->pool, (rows + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM, round_item, &r);
        if (e) *e = (struct fg_fit_error){0};
        for (int64_t i = 0; e && i < rows; i++) {
            e->signal += r.error[i][0];
            e->noise += r.error[i][1];
        }
    }
    free(r.error);
    free(r.scratch);
    return rc;
}

// ---- everything

// The first weight that a kept format does not hold.
static int check_kept(const struct fg_fit_result *q, const float *W, const struct fg_fit_options *o,
                      struct fg_error *err)
{
    if (isfinite(q->e.noise) && isfinite(q->e.signal)) return 0;
    const float most = q->format == FG_Q_F16 ? 65504.0f : FLT_MAX;
    int64_t i = 0;
    while (i < q->rows * q->cols - 1 && fabsf(W[i]) <= most)
        i++;
    return bad(err, o, i, q->format == FG_Q_F16 ? "at most 65504" : "a finite number",
               (double)W[i]);
}

int fg_fit_start(struct fg_fit_result *out, enum fg_qformat f, const float *W, int64_t rows,
                 int64_t cols, const uint16_t *table, const struct fg_fit_options *o,
                 struct fg_error *err)
{
    const int d = fg_qformat_rows_per_index(f), entries = fg_qformat_entries(f);
    *out = (struct fg_fit_result){.format = f, .rows = rows, .cols = cols};
    if (rows % d)
        return fg_fail(err, FG_EINPUT, "quantize", NULL, o->name,
                       "an even number of rows for this format", "%" PRId64 " rows", rows);
    const uint64_t per_row = f == FG_Q_F32           ? 4 * (uint64_t)cols
                             : fg_qformat_is_kept(f) ? 2 * (uint64_t)cols
                                                     : fg_qformat_row_bytes(f, (uint64_t)cols);
    const size_t lut_bytes = (size_t)entries * (size_t)d * sizeof *out->lut;
    int rc = 0;
    out->data_bytes = per_row * (uint64_t)(rows / d);
    out->data = malloc((size_t)out->data_bytes);
    if (entries) out->lut = malloc(lut_bytes);
    if (!fg_qformat_is_kept(f)) out->scale = calloc((size_t)rows, sizeof *out->scale);
    if (!out->data || (entries && !out->lut) || (!fg_qformat_is_kept(f) && !out->scale)) {
        rc = fg_fail_memory(err, "quantized matrix", out->data_bytes);
        goto fail;
    }
    if (out->scale && (rc = fg_fit_scales(out->scale, f, W, rows, cols, o, err))) goto fail;
    if (out->lut && table)
        memcpy(out->lut, table, lut_bytes);
    else if (out->lut &&
             (rc = fg_fit_table(out->lut, &out->inertia, f, W, out->scale, rows, cols, o, err)))
        goto fail;
    return 0;
fail:
    fg_fit_free(out);
    return rc;
}

int fg_fit_rtn(struct fg_fit_result *out, enum fg_qformat f, const float *W, int64_t rows,
               int64_t cols, const struct fg_fit_options *o, struct fg_error *err)
{
    int rc = fg_fit_start(out, f, W, rows, cols, NULL, o, err);
    if (rc) return rc;
    rc = fg_fit_round(out->data, &out->e, f, W, out->scale, out->lut, rows, cols, o, err);
    if (!rc && fg_qformat_is_kept(f)) rc = check_kept(out, W, o, err);
    if (rc) fg_fit_free(out);
    return rc;
}

void fg_fit_free(struct fg_fit_result *r)
{
    free(r->data);
    free(r->lut);
    free(r->scale);
    *r = (struct fg_fit_result){0};
}

struct fg_qmat fg_fit_view(const struct fg_fit_result *r)
{
    struct fg_qmat m = {.format = r->format, .rows = r->rows, .cols = r->cols};
    m.lut = r->lut;
    m.scale = r->scale;
    if (fg_qformat_is_lut(r->format))
        m.pidx = r->data;
    else if (r->format == FG_Q_INT8)
        m.codes = (const int8_t *)r->data;
    else
        m.weight = r->data;
    return m;
}

double fg_fit_snr_db(const struct fg_fit_error *e)
{
    return e->noise > 0 ? 10 * log10(e->signal / e->noise) : INFINITY;
}
