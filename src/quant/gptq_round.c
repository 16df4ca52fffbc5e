// quant/gptq_round.c: the pass over the columns with error feedback. A thread takes a few panels
// of rows through all blocks of columns, so that a block of U is read once for them.
#include "quant/gptq_impl.h"
#include "quant/big.h"
#include "quant/jobs.h"
#include <cblas.h>
#include <stdlib.h>

struct pass {
    const struct fg_gptq_job *job;
    const struct fg_gptq_factor *factor;
    int64_t block;
    uint8_t *scratch; // of all threads
    int64_t scratch_bytes;
};

// One thread's.
struct scratch {
    float *w;      // [panels][cols][FG_LANES]: weights in the order of treatment, still to round
    float *errors; // [block][FG_LANES] of the block's columns, over U_ii
    float *x, *dist;
    struct fg_lanes *lanes; // [panels]
    uint8_t *codes;         // [panels][cols][FG_LANES / d], columns in natural order
    uint8_t *row;           // [cols]
};

static struct scratch split(const struct pass *p, int worker)
{
    const struct fg_gptq_job *job = p->job;
    struct scratch s;
    s.w = (float *)(void *)(p->scratch + worker * p->scratch_bytes);
    s.errors = s.w + job->panels * job->cols * FG_LANES;
    s.x = s.errors + p->block * FG_LANES;
    s.dist = s.x + FG_LANES;
    s.lanes = (struct fg_lanes *)(void *)(s.dist + FG_LANES);
    s.codes = (uint8_t *)(s.lanes + job->panels);
    s.row = s.codes + job->panels * job->cols * FG_LANES;
    return s;
}

static int64_t scratch_bytes(const struct fg_gptq_job *job, int64_t block)
{
    const int64_t floats = (job->panels * job->cols + block + 2) * FG_LANES;
    const int64_t bytes = job->panels * (int64_t)sizeof(struct fg_lanes) +
                          floats * (int64_t)sizeof(float) + job->panels * job->cols * FG_LANES +
                          job->cols;
    return (bytes + 63) / 64 * 64;
}

// w [later][FG_LANES] -= U[i0..i1, i1..i1 + later]^T errors [i1 - i0][FG_LANES].
static void feed_back(const struct pass *p, float *w, const float *errors, int64_t i0, int64_t i1,
                      int64_t later)
{
    if (later == 0) return;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)later, FG_LANES, (int)(i1 - i0),
                -1.0f, p->factor->U + i0 * p->job->cols + i1, (int)p->job->cols, errors, FG_LANES,
                1.0f, w, FG_LANES);
}

// Columns [c0, c1) of a panel.
static void round_block(const struct pass *p, const struct scratch *s, float *w, uint8_t *codes,
                        const struct fg_lanes *l, int64_t c0, int64_t c1)
{
    const int64_t n = p->job->cols,
                  n_codes = FG_LANES / fg_qformat_rows_per_index(p->job->rounder.format);
    for (int64_t s0 = c0; s0 < c1; s0 += FG_GPTQ_SUB) {
        const int64_t s1 = s0 + FG_GPTQ_SUB < c1 ? s0 + FG_GPTQ_SUB : c1;
        for (int64_t i = s0; i < s1; i++) {
            const float *U = p->factor->U + i * n;
            float *wi = w + i * FG_LANES, *e = s->errors + (i - c0) * FG_LANES;
            for (int k = 0; k < FG_LANES; k++)
                s->x[k] = wi[k] / l->scale[k];
            fg_lanes_round(codes + p->factor->perm[i] * n_codes, s->x, p->job, l, s->dist);
            for (int k = 0; k < FG_LANES; k++)
                e[k] = (wi[k] - l->scale[k] * s->x[k]) / U[i];
            for (int64_t j = i + 1; j < s1; j++)
                fg_lanes_subtract(w + j * FG_LANES, U[j], e);
        }
        feed_back(p, w + s1 * FG_LANES, s->errors + (s0 - c0) * FG_LANES, s0, s1, c1 - s1);
    }
}

static void pass_item(void *ctx, int64_t item, int worker)
{
    const struct pass *p = ctx;
    const struct fg_gptq_job *job = p->job;
    const struct scratch s = split(p, worker);
    const int64_t first = item * job->panels, left = fg_gptq_panels(job) - first,
                  n = left < job->panels ? left : job->panels;
    const int64_t panel = job->cols * FG_LANES;
    for (int64_t k = 0; k < n; k++) {
        fg_lanes_start(&s.lanes[k], job, first + k, false);
        fg_lanes_load(s.w + k * panel, job, &s.lanes[k], p->factor->perm);
    }
    for (int64_t c0 = 0; c0 < job->cols; c0 += p->block) {
        const int64_t c1 = c0 + p->block < job->cols ? c0 + p->block : job->cols;
        for (int64_t k = 0; k < n; k++) {
            float *w = s.w + k * panel;
            round_block(p, &s, w, s.codes + k * panel, &s.lanes[k], c0, c1);
            feed_back(p, w + c1 * FG_LANES, s.errors, c0, c1, job->cols - c1);
        }
    }
    for (int64_t k = 0; k < n; k++)
        fg_lanes_store_codes(s.codes + k * panel, job, &s.lanes[k], s.row);
}

int fg_gptq_round(const struct fg_gptq_job *job, const struct fg_gptq_factor *factor, int64_t block,
                  struct fg_error *err)
{
    struct pass p = {.job = job, .factor = factor};
    p.block = block < job->cols ? block : job->cols;
    p.scratch_bytes = scratch_bytes(job, p.block);
    const uint64_t bytes = (uint64_t)(p.scratch_bytes * fg_job_threads(job->fit->pool));
    p.scratch = fg_big_alloc(bytes);
    if (!p.scratch) return fg_fail_memory(err, "GPTQ", bytes);
    openblas_set_num_threads(1);
    fg_job_run(job->fit->pool, fg_gptq_items(job), pass_item, &p);
    free(p.scratch);
    return 0;
}
