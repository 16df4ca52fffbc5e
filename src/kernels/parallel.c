// kernels/parallel.c: attention, DeltaNet and loops over threads, and the memory that jobs need.
#include "kernels/gemm_block.h"
#include "kernels/parallel_impl.h"

// ---- attention

#define ATTN_ROWS_MIN 8
#define ITEMS_PER_THREAD 8

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
    job->par->kernels->attention(
        job->o + at, ld, job->q + at, ld, job->k + kv * job->capacity * job->D, job->D,
        job->v + kv * job->capacity * job->D, job->D, job->pos + t0,
        fg_min64(job->t_block, job->T - t0), fg_min64(job->g_block, G - g0), job->D, job->scale,
        fg_worker_scratch(job->par, worker));
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
    job.t_block = T / fg_ceil_div(wanted, n_kv);
    job.t_block = fg_min64(FG_ATTN_ROWS_MAX, fg_max64(ATTN_ROWS_MIN, job.t_block));
    job.n_t_blocks = fg_ceil_div(T, job.t_block);
    int64_t n_threads = fg_pool_threads(par->pool), n_items = n_kv * job.n_t_blocks;
    bool even = n_items % n_threads == 0 || n_items >= 4 * n_threads;
    int64_t g_parts = even ? 1 : fg_min64(G, fg_ceil_div(4 * n_threads, n_items));
    job.g_block = fg_ceil_div(G, g_parts);
    job.n_g_blocks = fg_ceil_div(G, job.g_block);
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
    job->par->kernels->deltanet(job->S + j * job->dk * job->dv, job->dk, job->dv,
                                job->o + j * job->dv, job->nv * job->dv, job->q + head * job->dk,
                                job->ldq, job->k + head * job->dk, job->ldk, job->v + j * job->dv,
                                job->ldv, job->alpha + j, job->beta + j, job->nv, job->T,
                                fg_worker_scratch(job->par, worker));
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
    job->fn(job->ctx, job->kernels, i0, fg_min64(i0 + job->grain, job->n));
}

void fg_parallel_for(const struct fg_parallel *par, int64_t n, int64_t grain,
                     void (*fn)(void *ctx, const struct fg_kernels *k, int64_t i0, int64_t i1),
                     void *ctx)
{
    if (n == 0) return;
    struct for_job job = {par->kernels, n, grain, fn, ctx};
    fg_pool_run(par->pool, fg_ceil_div(n, grain), for_item, &job);
}

uint64_t fg_parallel_scratch_bytes(const struct fg_parallel_sizes *s)
{
    uint64_t linear = fg_linear_scratch_bytes(s);
    uint64_t best = fg_best_scratch_bytes(s);
    uint64_t attn = fg_attn_scratch_bytes(fg_min64(s->T, FG_ATTN_ROWS_MAX), s->G, s->D);
    uint64_t deltanet = 3 * (uint64_t)s->dv * sizeof(float);
    uint64_t most = linear > best ? linear : best;
    if (attn > most) most = attn;
    if (deltanet > most) most = deltanet;
    return (most + 63) / 64 * 64;
}

bool fg_parallel_alloc(struct fg_parallel *par, const struct fg_parallel_sizes *s,
                       struct fg_arena *arena)
{
    struct fg_room *room = &par->room;
    const uint64_t T = (uint64_t)s->T, n = (uint64_t)s->n;
    par->scratch_bytes_per_worker = fg_parallel_scratch_bytes(s);
    par->scratch =
        fg_arena_alloc(arena, (uint64_t)fg_pool_threads(par->pool), par->scratch_bytes_per_worker);
    bool ok = par->scratch != NULL;
    if (ok && par->fast && !s->quantized) {
        room->xh = fg_arena_alloc(arena, T * n, sizeof *room->xh);
        ok = room->xh != NULL;
    }
    if (ok && s->quantized) {
        room->xr = fg_arena_alloc(arena, T * n, sizeof *room->xr);
        room->lr = fg_arena_alloc(arena, T * (uint64_t)s->rank_sum, sizeof *room->lr);
        ok = room->xr && room->lr;
    }
    if (ok && s->quantized && par->fast) {
        uint64_t two = s->n_digits ? 2 * T : 0, rows = two ? two : T;
        uint64_t codes = T * (uint64_t)fg_act_stride(s->n);
        uint64_t two_codes = two * (uint64_t)fg_act_stride(s->n_digits);
        uint64_t scales = rows * (uint64_t)fg_ceil_div(s->n, FG_ACT_BLOCK);
        room->codes = fg_arena_alloc(arena, codes > two_codes ? codes : two_codes, 1);
        room->sx = fg_arena_alloc(arena, scales, sizeof *room->sx);
        room->sum = fg_arena_alloc(arena, scales, sizeof *room->sum);
        ok = room->codes && room->sx && room->sum;
    }
    return ok;
}
