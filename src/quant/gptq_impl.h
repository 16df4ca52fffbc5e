// quant/gptq_impl.h: what the pass (gptq_round.c), the refinement (gptq_refine.c) and gptq.c share.
//
// Both work on panels: 128 rows of the matrix, one lane each, columns in their natural order of
// rows in memory:
//
//   panel [cols][128]   a column is contiguous, so that rounding it is one loop over lanes, and
//                       every product with the rest of the matrix has the same width
//
// Lanes of formats with pairs of rows: first the even rows, then the odd ones; lane g and lane
// 64 + g are one index. Lanes past the last row are zero weights of scale 1. What comes out for a
// row depends on its panel alone, however many panels a thread takes at a time.
#ifndef FG_QUANT_GPTQ_IMPL_H
#define FG_QUANT_GPTQ_IMPL_H
#include "quant/fit_impl.h"
#include "quant/gptq.h"

#define FG_LANES 128
#define FG_GPTQ_SMALL_BYTES ((uint64_t)4 << 20) // of a thread's scratch: all but panels
#define FG_GPTQ_SUB 32 // columns between two updates of the rest of a block

struct fg_gptq_job {
    const struct fg_fit_options *fit;
    struct fg_rounder rounder;
    const float *W;        // [rows][cols]
    const uint16_t *scale; // [rows]
    uint8_t *data;         // packed indices or codes
    int64_t rows, cols;
    int64_t panels; // that a thread takes at a time; no result depends on it
};

// Lanes of one panel.
struct fg_lanes {
    int64_t row0; // of the matrix
    int n_codes;  // index rows that the matrix has here
    float scale[FG_LANES];
    float weight[FG_LANES]; // of an error in units of the scale
};

static inline int64_t fg_gptq_panels(const struct fg_gptq_job *job)
{
    return (job->rows + FG_LANES - 1) / FG_LANES;
}

// Panels [begin, end) are the item-th that a thread takes.
static inline int64_t fg_gptq_items(const struct fg_gptq_job *job)
{
    return (fg_gptq_panels(job) + job->panels - 1) / job->panels;
}

// The row of the matrix that a lane holds; may be past the last.
static inline int64_t fg_lane_row(const struct fg_gptq_job *job, const struct fg_lanes *l, int lane)
{
    if (fg_qformat_rows_per_index(job->rounder.format) == 1) return l->row0 + lane;
    return l->row0 + lane % (FG_LANES / 2) * 2 + lane / (FG_LANES / 2);
}

// Scales and weights of a panel. by_scale: weights are squares of scales even where the options
// have none, so that they measure the error itself.
void fg_lanes_start(struct fg_lanes *l, const struct fg_gptq_job *job, int64_t panel,
                    bool by_scale);

// out [cols][FG_LANES] = weights of the panel, row i from column perm[i]; perm NULL: from i.
void fg_lanes_load(float *out, const struct fg_gptq_job *job, const struct fg_lanes *l,
                   const int32_t *perm);

// Packs codes [cols][FG_LANES / d] into job->data, and the reverse. row [cols] is scratch.
void fg_lanes_store_codes(const uint8_t *codes, const struct fg_gptq_job *job,
                          const struct fg_lanes *l, uint8_t *row);
void fg_lanes_load_codes(uint8_t *codes, const struct fg_gptq_job *job, const struct fg_lanes *l,
                         uint8_t *row);

// Bytes of one index row in job->data.
static inline int64_t fg_gptq_row_bytes(const struct fg_gptq_job *job)
{
    const enum fg_qformat f = job->rounder.format;
    return f == FG_Q_INT8 ? job->cols : (int64_t)fg_qformat_row_bytes(f, (uint64_t)job->cols);
}

// row [cols] = codes of an index row in job->data or, as it lies there, elsewhere.
void fg_gptq_unpack(uint8_t *row, const uint8_t *data, const struct fg_gptq_job *job);

// Rounds x [FG_LANES], in units of the scale: codes and, into x, what they stand for. dist
// [FG_LANES] is scratch.
void fg_lanes_round(uint8_t *code, float *x, const struct fg_gptq_job *job,
                    const struct fg_lanes *l, float *dist);

// y -= a * x over the lanes.
static inline void fg_lanes_subtract(float *y, float a, const float *x)
{
    for (int i = 0; i < FG_LANES; i++)
        y[i] -= a * x[i];
}

// Codes of the whole matrix into job->data: the loop of 4.1. `block` columns, at least 1, between
// two updates of the rest. Errors: FG_ERESOURCE.
int fg_gptq_round(const struct fg_gptq_job *job, const struct fg_gptq_factor *factor, int64_t block,
                  struct fg_error *err);

// Sweeps, at least 1, of coordinate descent from the codes in job->data. Errors: FG_ERESOURCE.
int fg_gptq_refine(const struct fg_gptq_job *job, const struct fg_hessian *h,
                   const struct fg_gptq_factor *factor, int sweeps, struct fg_error *err);
#endif
