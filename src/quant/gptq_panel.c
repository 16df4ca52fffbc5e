// quant/gptq_panel.c: panels of 128 rows, a column contiguous: see gptq_impl.h.
#include "quant/gptq_impl.h"
#include "quant/jobs.h"
#include "quant/pack.h"
#include <string.h>

#define GROUP 16 // lanes that are loaded together: a cache line

void fg_lanes_start(struct fg_lanes *l, const struct fg_gptq_job *job, int64_t panel, bool by_scale)
{
    l->row0 = panel * FG_LANES;
    const int64_t left = job->rows - l->row0, rows = left < FG_LANES ? left : FG_LANES;
    l->n_codes = (int)rows / fg_qformat_rows_per_index(job->rounder.format);
    for (int i = 0; i < FG_LANES; i++) {
        const int64_t row = fg_lane_row(job, l, i);
        l->scale[i] = l->weight[i] = 1;
        if (row >= job->rows) continue;
        const float s = l->scale[i] = fg_f16_to_f32(job->scale[row]);
        l->weight[i] =
            by_scale && !job->fit->row_weight ? s * s : fg_fit_row_weight(job->fit, row, s);
    }
}

void fg_lanes_load(float *out, const struct fg_gptq_job *job, const struct fg_lanes *l,
                   const int32_t *perm)
{
    for (int l0 = 0; l0 < FG_LANES; l0 += GROUP) {
        const float *row[GROUP];
        for (int k = 0; k < GROUP; k++) {
            const int64_t r = fg_lane_row(job, l, l0 + k);
            row[k] = r < job->rows ? job->W + r * job->cols : NULL;
        }
        for (int64_t i = 0; i < job->cols; i++) {
            float *to = out + i * FG_LANES + l0;
            const int64_t j = perm ? perm[i] : i;
            for (int k = 0; k < GROUP; k++)
                to[k] = row[k] ? row[k][j] : 0;
        }
    }
}

// Codes of index row g of the panel.
static uint8_t *data_at(const struct fg_gptq_job *job, const struct fg_lanes *l, int g)
{
    return job->data +
           (l->row0 / fg_qformat_rows_per_index(job->rounder.format) + g) * fg_gptq_row_bytes(job);
}

void fg_gptq_unpack(uint8_t *row, const uint8_t *data, const struct fg_gptq_job *job)
{
    if (job->rounder.entries)
        fg_unpack_indices(row, data, job->cols, fg_qformat_index_bits(job->rounder.format));
    else
        memcpy(row, data, (size_t)job->cols);
}

void fg_lanes_store_codes(const uint8_t *codes, const struct fg_gptq_job *job,
                          const struct fg_lanes *l, uint8_t *row)
{
    const int d = fg_qformat_rows_per_index(job->rounder.format);
    for (int g = 0; g < l->n_codes; g++) {
        uint8_t *data = data_at(job, l, g);
        for (int64_t j = 0; j < job->cols; j++)
            row[j] = codes[j * (FG_LANES / d) + g];
        if (job->rounder.entries)
            fg_pack_indices(data, row, job->cols, fg_qformat_index_bits(job->rounder.format));
        else
            memcpy(data, row, (size_t)job->cols);
    }
}

void fg_lanes_load_codes(uint8_t *codes, const struct fg_gptq_job *job, const struct fg_lanes *l,
                         uint8_t *row)
{
    const int d = fg_qformat_rows_per_index(job->rounder.format);
    memset(codes, 0, (size_t)(job->cols * (FG_LANES / d)));
    for (int g = 0; g < l->n_codes; g++) {
        fg_gptq_unpack(row, data_at(job, l, g), job);
        for (int64_t j = 0; j < job->cols; j++)
            codes[j * (FG_LANES / d) + g] = row[j];
    }
}

void fg_lanes_round(uint8_t *code, float *x, const struct fg_gptq_job *job,
                    const struct fg_lanes *l, float *dist)
{
    const struct fg_rounder *r = &job->rounder;
    const int n = FG_LANES / fg_qformat_rows_per_index(r->format);
    fg_rounder_codes(r, code, dist, (const float *const[2]){x, x + FG_LANES / 2},
                     (const float *const[2]){l->weight, l->weight + FG_LANES / 2}, n);
    for (int t = 0; t * n < FG_LANES; t++)
        for (int i = 0; i < n; i++)
            x[t * n + i] = fg_rounder_value(r, t, code[i]);
}
