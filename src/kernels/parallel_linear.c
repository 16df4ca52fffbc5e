// kernels/parallel_linear.c: products of one or more weight matrices with the rows of one input.
// Quantized matrices take the input rotated, in INT8 (fast) or FP32 (exact), and add their low-rank
// part; dense ones take it as it is.
#include "kernels/gemm_block.h"
#include "kernels/parallel_impl.h"

// Few rows of x: an item is a stretch of weights, long enough to stream and short enough that no
// thread waits long for the last one.
#define DECODE_T_MAX FG_GEMM_T_DIRECT
#define DECODE_ITEM_BYTES (96 << 10)
// Many rows: an item is a block of weight rows (what the GEMMs block by) times a block of x rows
// that stays in L2 while a thread goes through the weights.
#define PREFILL_T_MAX 192
#define PREFILL_T_MIN 48
#define ITEMS_PER_THREAD 8
// The same for quantized weights: INT8 activations of a block of rows.
#define LUT_ACT_BYTES (1 << 20)
#define LUT_T_MIN 64
// Rows of the second factors in an item.
#define RANK_GRAIN 16
// Blocks of the input in an item that makes it ready.
#define READY_GRAIN 8

// ---- input

static bool takes_bf16(const struct fg_parallel *par, const struct fg_linear *m)
{
    return par->fast && !m->lut && !m->exact && m->dtype == FG_BF16;
}

struct ready_job {
    const struct fg_ready *r;
    float *xr;
    int64_t n_blocks;
};

// Rotates and quantizes blocks of FG_ACT_BLOCK columns, counted over all rows.
static void ready_item(void *ctx, int64_t item, int worker)
{
    (void)worker;
    const struct ready_job *job = ctx;
    const struct fg_ready *r = job->r;
    const struct fg_input *in = r->in;
    const struct fg_kernels *kn = r->par->kernels;
    int64_t end = fg_min64((item + 1) * READY_GRAIN, r->T * job->n_blocks);
    for (int64_t i = item * READY_GRAIN; i < end; i++) {
        int64_t t = i / job->n_blocks, b = i % job->n_blocks;
        int64_t k = b * FG_ACT_BLOCK, n = fg_min64(FG_ACT_BLOCK, in->n - k);
        const float *x = in->x + t * in->ldx + k;
        if (in->signs) {
            float *xr = job->xr + t * in->n + k;
            kn->rotate(xr, x, in->signs + k / 8, n, in->block);
            x = xr;
        }
        if (!r->par->fast) continue;
        const struct fg_act *a = &r->act;
        int8_t *codes = a->xc + t * a->ld + k;
        float *sx = a->sx + t * a->n_blocks + b;
        int32_t *sum = a->sum + t * a->n_blocks + b;
        int64_t pad = k + n == in->n ? a->ld - in->n : 0;
        for (int64_t j = 0; j < pad; j++)
            codes[n + j] = 0;
        if (r->digits == 1) {
            kn->quantize(codes, sx, sum, x, n);
            continue;
        }
        int8_t *lo = codes + r->T * a->ld;
        float scales[2];
        int32_t sums[2];
        for (int64_t j = 0; j < pad; j++)
            lo[n + j] = 0;
        kn->quantize2(codes, lo, scales, sums, x, n);
        sx[0] = scales[0];
        sum[0] = sums[0];
        sx[r->T * a->n_blocks] = scales[1];
        sum[r->T * a->n_blocks] = sums[1];
    }
}

struct round_job {
    const struct fg_kernels *kernels;
    uint16_t *xh;
    const struct fg_input *in;
};

static void round_item(void *ctx, int64_t item, int worker)
{
    (void)worker;
    const struct round_job *job = ctx;
    job->kernels->to_bf16(job->xh + item * job->in->n, job->in->x + item * job->in->ldx,
                          job->in->n);
}

static enum fg_dtype factor_dtype(const struct fg_lut *w)
{
    return w->lr_scale ? FG_INT8 : FG_F16;
}

struct rank_job {
    const struct fg_ready *r;
    const struct fg_linear *mats;
};

// Items count RANK_GRAIN rows of the second factors, over all matrices.
static void rank_item(void *ctx, int64_t item, int worker)
{
    const struct rank_job *job = ctx;
    const struct fg_ready *r = job->r;
    int64_t at = 0;
    for (const struct fg_linear *m = job->mats;; m++) {
        if (!m->lut) continue;
        const struct fg_lut *w = m->lut;
        const int64_t rank = w->rank, n_items = fg_ceil_div(rank, RANK_GRAIN);
        if (item >= n_items) {
            item -= n_items;
            at += rank;
            continue;
        }
        int64_t r0 = item * RANK_GRAIN, r1 = fg_min64(r0 + RANK_GRAIN, rank);
        float *u = r->par->room.lr + at;
        r->par->kernels->gemm[factor_dtype(w)](u, r->rank_sum, w->lr_b, m->n_in, r0, r1, r->xq,
                                               r->ldq, r->T, fg_worker_scratch(r->par, worker));
        for (int64_t t = 0; w->lr_scale && t < r->T; t++)
            for (int64_t k = r0; k < r1; k++)
                u[t * r->rank_sum + k] *= w->lr_scale[k];
        return;
    }
}

void fg_input_ready(struct fg_ready *r, const struct fg_parallel *par, const struct fg_linear *mats,
                    int n_mats, const struct fg_input *in, int64_t T)
{
    const struct fg_room *room = &par->room;
    bool any_lut = false, any_bf16 = false;
    int64_t rank_items = 0;
    *r = (struct fg_ready){.par = par,
                           .in = in,
                           .T = T,
                           .xq = in->signs ? room->xr : in->x,
                           .ldq = in->signs ? in->n : in->ldx,
                           .digits = in->digits == 2 ? 2 : 1};
    for (int i = 0; i < n_mats; i++) {
        any_lut |= mats[i].lut != NULL;
        any_bf16 |= takes_bf16(par, &mats[i]);
        if (!mats[i].lut) continue;
        r->rank_sum += mats[i].lut->rank;
        rank_items += fg_ceil_div(mats[i].lut->rank, RANK_GRAIN);
    }
    int64_t n_blocks = fg_ceil_div(in->n, FG_ACT_BLOCK);
    if (any_lut)
        r->act = (struct fg_act){.n = in->n,
                                 .ld = fg_act_stride(in->n),
                                 .n_blocks = n_blocks,
                                 .xc = room->codes,
                                 .sx = room->sx,
                                 .sum = room->sum};
    if (any_lut && (in->signs || par->fast)) {
        struct ready_job job = {r, room->xr, n_blocks};
        fg_pool_run(par->pool, fg_ceil_div(T * n_blocks, READY_GRAIN), ready_item, &job);
    }
    if (any_bf16) {
        struct round_job job = {par->kernels, room->xh, in};
        fg_pool_run(par->pool, T, round_item, &job);
    }
    if (rank_items) {
        struct rank_job job = {r, mats};
        fg_pool_run(par->pool, rank_items, rank_item, &job);
    }
}

// ---- rows of a matrix

static uint64_t lines(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

// Rows [r0, r1) of a quantized matrix as a matrix of their own; r0 starts a group.
static struct fg_lut rows_of_lut(const struct fg_lut *w, int64_t r0, int64_t r1)
{
    int64_t g0 = r0 / fg_layout_rows(w->layout);
    struct fg_lut part = *w;
    part.n_out = r1 - r0;
    part.tiles += g0 * fg_layout_group_bytes(w->layout, w->n_in);
    part.scale += r0;
    part.scale_ts += r0;
    if (w->rank)
        part.lr_a =
            (const uint8_t *)w->lr_a + (uint64_t)(r0 * w->rank) * fg_dtype_bytes(factor_dtype(w));
    return part;
}

// Activation rows from t on.
static struct fg_act rows_of_act(const struct fg_act *a, int64_t t)
{
    struct fg_act part = *a;
    part.xc += t * a->ld;
    part.sx += t * a->n_blocks;
    part.sum += t * a->n_blocks;
    return part;
}

// The exact product of one group: decoded table values, then their row scales.
static void exact_group(const struct fg_ready *r, const struct fg_lut *w, int64_t t0, int64_t t1,
                        float *y, int64_t ldy, void *scratch)
{
    const struct fg_kernels *kn = r->par->kernels;
    const int64_t ldw = fg_round_up(w->n_in, 16);
    float *decoded = scratch;
    void *rest = (uint8_t *)scratch + lines((uint64_t)(2 * FG_LUT_LANES * ldw) * sizeof(float));
    kn->lut_decode[w->layout](decoded, w->n_in, w, 0);
    kn->gemm[FG_F32](y, ldy, decoded, w->n_in, 0, w->n_out, r->xq + t0 * r->ldq, r->ldq, t1 - t0,
                     rest);
    for (int64_t t = 0; t < t1 - t0; t++)
        for (int64_t i = 0; i < w->n_out; i++)
            y[t * ldy + i] *= w->scale[i];
}

// Two digits: the sums of the high and the low one.
static void two_digits(const struct fg_ready *r, const struct fg_lut *w, int64_t t0, int64_t t1,
                       float *y, int64_t ldy, void *scratch)
{
    const struct fg_kernels *kn = r->par->kernels;
    const int64_t T = t1 - t0;
    float *low = scratch;
    void *rest = (uint8_t *)scratch + lines((uint64_t)(T * w->n_out) * sizeof(float));
    const int64_t groups = fg_layout_groups(w->layout, w->n_out);
    struct fg_act hi = rows_of_act(&r->act, t0), lo = rows_of_act(&r->act, r->T + t0);
    kn->lut_gemm[w->layout](y, ldy, w, 0, groups, &hi, 0, T, rest);
    kn->lut_gemm[w->layout](low, w->n_out, w, 0, groups, &lo, 0, T, rest);
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < w->n_out; i++)
            y[t * ldy + i] += low[t * w->n_out + i];
}

static void add_low_rank(const struct fg_ready *r, const struct fg_lut *w, int64_t rank_at,
                         int64_t t0, int64_t t1, float *y, int64_t ldy, void *scratch)
{
    float *part = scratch;
    void *rest = (uint8_t *)scratch + lines((uint64_t)((t1 - t0) * w->n_out) * sizeof(float));
    r->par->kernels->gemm[factor_dtype(w)](part, w->n_out, w->lr_a, w->rank, 0, w->n_out,
                                           r->par->room.lr + t0 * r->rank_sum + rank_at,
                                           r->rank_sum, t1 - t0, rest);
    for (int64_t t = 0; t < t1 - t0; t++)
        for (int64_t i = 0; i < w->n_out; i++)
            y[t * ldy + i] += part[t * w->n_out + i];
}

static void lut_rows(const struct fg_ready *r, const struct fg_lut *w, int64_t rank_at, int64_t t0,
                     int64_t t1, float *y, int64_t ldy, void *scratch)
{
    const int64_t grain = fg_layout_rows(w->layout);
    if (r->par->fast && r->digits == 2) {
        two_digits(r, w, t0, t1, y, ldy, scratch);
    } else if (r->par->fast) {
        struct fg_act act = rows_of_act(&r->act, t0);
        r->par->kernels->lut_gemm[w->layout](y, ldy, w, 0, fg_ceil_div(w->n_out, grain), &act, 0,
                                             t1 - t0, scratch);
    }
    for (int64_t i = 0; !r->par->fast && i < w->n_out; i += grain) {
        struct fg_lut group = rows_of_lut(w, i, fg_min64(i + grain, w->n_out));
        exact_group(r, &group, t0, t1, y + i, ldy, scratch);
    }
    if (w->rank) add_low_rank(r, w, rank_at, t0, t1, y, ldy, scratch);
}

void fg_linear_rows(const struct fg_ready *r, const struct fg_linear *m, int64_t rank_at,
                    int64_t r0, int64_t r1, int64_t t0, int64_t t1, float *y, int64_t ldy,
                    void *scratch)
{
    const struct fg_kernels *kn = r->par->kernels;
    const struct fg_input *in = r->in;
    if (m->lut) {
        struct fg_lut part = rows_of_lut(m->lut, r0, r1);
        lut_rows(r, &part, rank_at, t0, t1, y, ldy, scratch);
    } else {
        const uint8_t *w =
            (const uint8_t *)m->w + (uint64_t)(r0 * m->n_in) * fg_dtype_bytes(m->dtype);
        if (takes_bf16(r->par, m))
            kn->gemm_bf16_bf16(y, ldy, w, m->n_in, 0, r1 - r0, r->par->room.xh + t0 * in->n, in->n,
                               t1 - t0, scratch);
        else
            kn->gemm[m->dtype](y, ldy, w, m->n_in, 0, r1 - r0, in->x + t0 * in->ldx, in->ldx,
                               t1 - t0, scratch);
    }
    for (int64_t t = 0; m->bias && t < t1 - t0; t++)
        for (int64_t i = r0; i < r1; i++)
            y[t * ldy + i - r0] += m->bias[i];
}

uint64_t fg_linear_scratch_bytes(const struct fg_parallel_sizes *s)
{
    uint64_t dense = fg_gemm_scratch_bytes(s->n, s->T);
    if (!s->quantized) return dense;
    uint64_t decoded =
        lines(2 * FG_LUT_LANES * (uint64_t)fg_round_up(s->n, 16) * sizeof(float)) + dense;
    // Blocks of rows of one item: the most that linear_job cuts.
    uint64_t rows = (uint64_t)fg_max64(fg_max64(PREFILL_T_MAX, LUT_ACT_BYTES / 64), 1);
    uint64_t T = (uint64_t)s->T;
    if (T < rows) rows = T;
    uint64_t digits = lines(rows * FG_LUT_ROWS * sizeof(float)) + fg_lut_scratch_bytes(s->n);
    uint64_t factors = lines(rows * FG_LUT_ROWS * sizeof(float)) +
                       fg_gemm_scratch_bytes(fg_max64(s->rank_sum, 1), s->T);
    uint64_t most = decoded > digits ? decoded : digits;
    return most > factors ? most : factors;
}

// ---- the job

struct linear_job {
    struct fg_ready ready;
    const struct fg_linear *mats;
    int64_t item_bytes; // decode: of weights
    int64_t t_block, n_row_items;
};

static int64_t row_bytes(const struct fg_linear *m)
{
    if (m->lut)
        return fg_layout_group_bytes(m->lut->layout, m->n_in) / fg_layout_rows(m->lut->layout);
    return m->n_in * (int64_t)fg_dtype_bytes(m->dtype);
}

// Weight rows of one item of m.
static int64_t rows_of(const struct linear_job *job, const struct fg_linear *m)
{
    int64_t grain = fg_linear_grain(m);
    if (job->ready.T > DECODE_T_MAX) return m->lut ? FG_LUT_ROWS : FG_GEMM_ROWS;
    int64_t rows = job->item_bytes / fg_max64(1, row_bytes(m)) / grain * grain;
    rows = fg_max64(grain, rows);
    return m->lut ? fg_min64(rows, FG_LUT_ROWS) : rows;
}

static void linear_item(void *ctx, int64_t item, int worker)
{
    const struct linear_job *job = ctx;
    int64_t row_item = item % job->n_row_items;
    int64_t t0 = item / job->n_row_items * job->t_block;
    int64_t t1 = fg_min64(t0 + job->t_block, job->ready.T);

    const struct fg_linear *m = job->mats;
    int64_t rows, n_items, rank_at = 0;
    for (;; m++, row_item -= n_items) {
        rows = rows_of(job, m);
        n_items = fg_ceil_div(m->n_out, rows);
        if (row_item < n_items) break;
        if (m->lut) rank_at += m->lut->rank;
    }
    int64_t r0 = row_item * rows, r1 = fg_min64(r0 + rows, m->n_out);
    fg_linear_rows(&job->ready, m, rank_at, r0, r1, t0, t1, m->y + t0 * m->ldy + r0, m->ldy,
                   fg_worker_scratch(job->ready.par, worker));
}

// Rows of x in an item: cut further where there would be too few items.
static int64_t cut_rows(const struct linear_job *job, bool any_lut, int64_t n_threads)
{
    int64_t T = job->ready.T, t_max = PREFILL_T_MAX, t_min = PREFILL_T_MIN, step = 6;
    if (any_lut) {
        step = 16;
        t_min = LUT_T_MIN;
        t_max = fg_max64(t_min, LUT_ACT_BYTES / job->ready.act.ld / step * step);
    }
    int64_t n_blocks = fg_max64(fg_ceil_div(T, t_max),
                                fg_ceil_div(n_threads * ITEMS_PER_THREAD, job->n_row_items));
    return fg_max64(t_min, fg_round_up(fg_ceil_div(T, n_blocks), step));
}

void fg_parallel_linear(const struct fg_parallel *par, const struct fg_linear *mats, int n_mats,
                        const struct fg_input *in, int64_t T)
{
    int64_t n_threads = fg_pool_threads(par->pool), total_bytes = 0;
    bool any_lut = false;
    for (int i = 0; i < n_mats; i++) {
        total_bytes += mats[i].n_out * row_bytes(&mats[i]);
        any_lut |= mats[i].lut != NULL;
    }
    struct linear_job job = {.ready.T = T, .mats = mats, .t_block = T};
    job.item_bytes = fg_min64(DECODE_ITEM_BYTES, total_bytes / (n_threads * ITEMS_PER_THREAD));
    for (int i = 0; i < n_mats; i++)
        job.n_row_items += fg_ceil_div(mats[i].n_out, rows_of(&job, &mats[i]));
    if (job.n_row_items == 0 || T == 0) return;

    fg_input_ready(&job.ready, par, mats, n_mats, in, T);
    if (T > DECODE_T_MAX) job.t_block = cut_rows(&job, any_lut, n_threads);
    const int64_t n_items = job.n_row_items * fg_ceil_div(T, job.t_block);
    if (any_lut) // tiles are one stream over a matrix, which pays the longer a thread stays on it
        fg_pool_run_near(par->pool, n_items, linear_item, &job);
    else
        fg_pool_run(par->pool, n_items, linear_item, &job);
}
