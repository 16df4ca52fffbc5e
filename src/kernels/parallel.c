// kernels/parallel.c: cuts jobs into items for a thread pool; the only place where kernels meet
// threads. An item is a range of outputs, and every output is computed whole by one kernel call, so
// results depend neither on the cut nor on the number of threads. Which thread runs an item decides
// its scratch and nothing else.
#include "kernels/gemm_block.h"

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static void *worker_scratch(const struct fg_parallel *par, int worker)
{
    return par->scratch + (uint64_t)worker * par->scratch_bytes_per_worker;
}

// ---- linear

// Few rows of x: an item is a stretch of weights, long enough to stream and short enough that no
// thread waits long for the last one.
#define DECODE_T_MAX FG_GEMM_T_DIRECT
#define DECODE_ITEM_BYTES (96 << 10)
// Many rows: an item is a block of weight rows (what the GEMMs block by) times a block of x rows
// that stays in L2 while a thread goes through the weights.
#define PREFILL_ROWS FG_GEMM_ROWS
#define PREFILL_T_MAX 192
#define PREFILL_T_MIN 48
#define ITEMS_PER_THREAD 8
#define ROWS_GRAIN 8

struct linear_job {
    const struct fg_parallel *par;
    const struct fg_linear *mats;
    const float *x;
    const uint16_t *xh;
    int64_t ldx, T;
    int64_t item_bytes; // decode: of weights
    int64_t t_block, n_row_items;
};

static int64_t weight_bytes(const struct fg_linear *m)
{
    return m->n_out * m->n_in * (int64_t)fg_dtype_bytes(m->dtype);
}

static bool takes_bf16(const struct fg_parallel *par, const struct fg_linear *m)
{
    return par->fast && m->dtype == FG_BF16;
}

// Weight rows of one item of m.
static int64_t rows_of(const struct linear_job *job, const struct fg_linear *m)
{
    if (job->T > DECODE_T_MAX) return PREFILL_ROWS;
    int64_t row_bytes = max_i64(1, m->n_in * (int64_t)fg_dtype_bytes(m->dtype));
    return max_i64(1, job->item_bytes / row_bytes / ROWS_GRAIN) * ROWS_GRAIN;
}

static void linear_item(void *ctx, int64_t item, int worker)
{
    const struct linear_job *job = ctx;
    const struct fg_parallel *par = job->par;
    int64_t row_item = item % job->n_row_items;
    int64_t t0 = item / job->n_row_items * job->t_block;
    int64_t T = min_i64(job->t_block, job->T - t0);

    const struct fg_linear *m = job->mats;
    int64_t rows, n_items;
    for (;; m++, row_item -= n_items) {
        rows = rows_of(job, m);
        n_items = ceil_div(m->n_out, rows);
        if (row_item < n_items) break;
    }
    int64_t r0 = row_item * rows, r1 = min_i64(r0 + rows, m->n_out);
    float *y = m->y + t0 * m->ldy;
    void *scratch = worker_scratch(par, worker);
    if (takes_bf16(par, m))
        par->kernels->gemm_bf16_bf16(y, m->ldy, m->w, m->n_in, r0, r1, job->xh + t0 * m->n_in,
                                     m->n_in, T, scratch);
    else
        par->kernels->gemm[m->dtype](y, m->ldy, m->w, m->n_in, r0, r1, job->x + t0 * job->ldx,
                                     job->ldx, T, scratch);
    if (!m->bias) return;
    for (int64_t t = 0; t < T; t++)
        for (int64_t r = r0; r < r1; r++)
            y[t * m->ldy + r] += m->bias[r];
}

struct round_job {
    const struct fg_kernels *kernels;
    uint16_t *xh;
    const float *x;
    int64_t ldx, n;
};

static void round_item(void *ctx, int64_t item, int worker)
{
    (void)worker;
    const struct round_job *job = ctx;
    job->kernels->to_bf16(job->xh + item * job->n, job->x + item * job->ldx, job->n);
}

void fg_parallel_linear(const struct fg_parallel *par, const struct fg_linear *mats, int n_mats,
                        const float *x, int64_t ldx, int64_t T, uint16_t *xh)
{
    int n_threads = fg_pool_threads(par->pool);
    int64_t total_bytes = 0;
    bool any_bf16 = false;
    for (int i = 0; i < n_mats; i++) {
        total_bytes += weight_bytes(&mats[i]);
        any_bf16 |= takes_bf16(par, &mats[i]);
    }
    struct linear_job job = {
        .par = par, .mats = mats, .x = x, .xh = xh, .ldx = ldx, .T = T, .t_block = T};
    job.item_bytes =
        min_i64(DECODE_ITEM_BYTES, total_bytes / ((int64_t)n_threads * ITEMS_PER_THREAD));
    for (int i = 0; i < n_mats; i++)
        job.n_row_items += ceil_div(mats[i].n_out, rows_of(&job, &mats[i]));
    if (job.n_row_items == 0 || T == 0) return;

    if (T > DECODE_T_MAX) { // cut x further where there would be too few items
        int64_t n_blocks =
            max_i64(ceil_div(T, PREFILL_T_MAX),
                    ceil_div((int64_t)n_threads * ITEMS_PER_THREAD, job.n_row_items));
        job.t_block = max_i64(PREFILL_T_MIN, ceil_div(ceil_div(T, n_blocks), 6) * 6);
    }

    if (any_bf16) {
        struct round_job round = {par->kernels, xh, x, ldx, mats[0].n_in};
        fg_pool_run(par->pool, T, round_item, &round);
    }
    fg_pool_run(par->pool, job.n_row_items * ceil_div(T, job.t_block), linear_item, &job);
}

// ---- attention

#define ATTN_ROWS_MAX 32
#define ATTN_ROWS_MIN 8

struct attention_job {
    const struct fg_parallel *par;
    float *o;
    const float *q, *k, *v;
    int64_t capacity, pos, T, n_heads, n_kv, D;
    float scale;
    int64_t t_block, n_t_blocks;
    int64_t g_block, n_g_blocks; // query heads of one KV head
};

// Later rows attend to more positions, so their blocks come first and the short ones fill the gaps
// at the end.
static void attention_item(void *ctx, int64_t item, int worker)
{
    const struct attention_job *job = ctx;
    int64_t per_block = job->n_kv * job->n_g_blocks;
    int64_t t0 = (job->n_t_blocks - 1 - item / per_block) * job->t_block;
    int64_t kv = item % per_block / job->n_g_blocks;
    int64_t g0 = item % job->n_g_blocks * job->g_block;

    int64_t G = job->n_heads / job->n_kv, ld = job->n_heads * job->D;
    int64_t at = t0 * ld + (kv * G + g0) * job->D;
    job->par->kernels->attention(job->o + at, ld, job->q + at, ld,
                                 job->k + kv * job->capacity * job->D, job->D,
                                 job->v + kv * job->capacity * job->D, job->D, job->pos + t0,
                                 min_i64(job->t_block, job->T - t0), min_i64(job->g_block, G - g0),
                                 job->D, job->scale, worker_scratch(job->par, worker));
}

void fg_parallel_attention(const struct fg_parallel *par, float *o, const float *q, const float *k,
                           const float *v, int64_t capacity, int64_t pos, int64_t T,
                           int64_t n_heads, int64_t n_kv, int64_t D, float scale)
{
    if (T == 0) return;
    int64_t wanted = (int64_t)fg_pool_threads(par->pool) * ITEMS_PER_THREAD;
    int64_t G = n_heads / n_kv;
    struct attention_job job = {.par = par,
                                .o = o,
                                .q = q,
                                .k = k,
                                .v = v,
                                .capacity = capacity,
                                .pos = pos,
                                .T = T,
                                .n_heads = n_heads,
                                .n_kv = n_kv,
                                .D = D,
                                .scale = scale};
    // Rows and heads that share a block share the reading of keys and values: cut into rows first,
    // and into heads only where the items would not go evenly into the threads.
    job.t_block = T / ceil_div(wanted, n_kv);
    job.t_block = min_i64(ATTN_ROWS_MAX, max_i64(ATTN_ROWS_MIN, job.t_block));
    job.n_t_blocks = ceil_div(T, job.t_block);
    int64_t n_threads = fg_pool_threads(par->pool), n_items = n_kv * job.n_t_blocks;
    bool even = n_items % n_threads == 0 || n_items >= 4 * n_threads;
    int64_t g_parts = even ? 1 : min_i64(G, ceil_div(4 * n_threads, n_items));
    job.g_block = ceil_div(G, g_parts);
    job.n_g_blocks = ceil_div(G, job.g_block);
    fg_pool_run(par->pool, n_kv * job.n_g_blocks * job.n_t_blocks, attention_item, &job);
}

// ---- DeltaNet

struct deltanet_job {
    const struct fg_parallel *par;
    float *S, *o;
    const float *q, *k, *v, *alpha, *beta;
    int64_t nk, nv, dk, dv, ldq, ldk, ldv, T;
};

static void deltanet_item(void *ctx, int64_t j, int worker)
{
    const struct deltanet_job *job = ctx;
    int64_t head = j / (job->nv / job->nk);
    job->par->kernels->deltanet(
        job->S + j * job->dk * job->dv, job->dk, job->dv, job->o + j * job->dv, job->nv * job->dv,
        job->q + head * job->dk, job->ldq, job->k + head * job->dk, job->ldk, job->v + j * job->dv,
        job->ldv, job->alpha + j, job->beta + j, job->nv, job->T, worker_scratch(job->par, worker));
}

void fg_parallel_deltanet(const struct fg_parallel *par, float *S, int64_t nk, int64_t nv,
                          int64_t dk, int64_t dv, float *o, const float *q, int64_t ldq,
                          const float *k, int64_t ldk, const float *v, int64_t ldv,
                          const float *alpha, const float *beta, int64_t T)
{
    if (T == 0) return;
    struct deltanet_job job = {par, S, o, q, k, v, alpha, beta, nk, nv, dk, dv, ldq, ldk, ldv, T};
    fg_pool_run(par->pool, nv, deltanet_item, &job);
}

// ---- any loop

struct for_job {
    const struct fg_kernels *kernels;
    int64_t n, grain;
    void (*fn)(void *ctx, const struct fg_kernels *k, int64_t i0, int64_t i1);
    void *ctx;
};

static void for_item(void *ctx, int64_t item, int worker)
{
    (void)worker;
    const struct for_job *job = ctx;
    int64_t i0 = item * job->grain;
    job->fn(job->ctx, job->kernels, i0, min_i64(i0 + job->grain, job->n));
}

void fg_parallel_for(const struct fg_parallel *par, int64_t n, int64_t grain,
                     void (*fn)(void *ctx, const struct fg_kernels *k, int64_t i0, int64_t i1),
                     void *ctx)
{
    if (n == 0) return;
    struct for_job job = {par->kernels, n, grain, fn, ctx};
    fg_pool_run(par->pool, ceil_div(n, grain), for_item, &job);
}

uint64_t fg_parallel_scratch_bytes(int64_t n_in_max, int64_t T_max, int64_t G, int64_t D,
                                   int64_t dv)
{
    uint64_t gemm = fg_gemm_scratch_bytes(n_in_max, T_max);
    uint64_t attn = fg_attn_scratch_bytes(min_i64(T_max, ATTN_ROWS_MAX), G, D);
    uint64_t deltanet = 3 * (uint64_t)dv * sizeof(float);
    uint64_t most = gemm > attn ? gemm : attn;
    if (deltanet > most) most = deltanet;
    return (most + 63) / 64 * 64;
}
