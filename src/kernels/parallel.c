// kernels/parallel.c: attention, DeltaNet and loops over threads, and the memory that jobs need.
#include "kernels/gemm_block.h"
#include "kernels/parallel_impl.h"
#include <math.h>

// ---- attention

// Query rows of a KV head that go through the history together, at most: their running triples fit
// into a core's L2.
#define GROUP_ROWS_MAX 384
#define ITEMS_PER_THREAD 4

struct attention_job {
    const struct fg_parallel *par;
    const struct fg_attn_call *call;
    fg_attn_tile_fn tile;
    int64_t G, R, W;    // query heads of a KV head; rows of one, T * G; width
    int64_t n_segments; // few rows
    int64_t group,
        n_groups; // rows of a KV head that an item takes; items per KV head (and segment)
};

// Triples of n rows in memory for n * (W + 2) floats.
static struct fg_attn_acc acc_at(float *p, int64_t n, int64_t W)
{
    return (struct fg_attn_acc){.o = p, .m = p + n * W, .l = p + n * W + n};
}

static uint64_t acc_floats(int64_t n, int64_t W)
{
    return (uint64_t)fg_round_up(n * (W + 2), 16);
}

static void acc_clear(const struct fg_attn_acc *acc, int64_t r0, int64_t r1)
{
    for (int64_t r = r0; r < r1; r++)
        acc->m[r] = -INFINITY;
}

// Rows [r0, r1) of a KV head, the positions of which are in pos [r1 - r0].
static struct fg_attn_rows rows_of(const struct attention_job *job, int64_t kv, int64_t r0,
                                   int64_t r1, int64_t *pos)
{
    const struct fg_attn_call *c = job->call;
    const int64_t at = kv * job->R + r0;
    for (int64_t r = r0; r < r1; r++)
        pos[r - r0] = c->pos + r / job->G;
    return (struct fg_attn_rows){.n = r1 - r0,
                                 .q = c->q + at * job->W,
                                 .qc = c->qc ? c->qc + at * 2 * job->W : NULL,
                                 .qs = c->qs ? c->qs + at : NULL,
                                 .qsum = c->qsum ? c->qsum + at : NULL,
                                 .pos = pos,
                                 .scale = c->scale};
}

// The tiles of segment `segment` that some row sees, into acc.
static void run_segment(const struct attention_job *job, const struct fg_attn_acc *acc, int64_t kv,
                        const struct fg_attn_rows *rows, int64_t segment, void *scratch)
{
    const int64_t last = rows->pos[rows->n - 1];
    int64_t r0 = 0; // rows before it see nothing of the tile
    for (int64_t i = 0; i < FG_KV_TILES; i++) {
        const int64_t tile = segment * FG_KV_TILES + i;
        if (tile * FG_KV_PAGE > last) break;
        while (rows->pos[r0] < tile * FG_KV_PAGE)
            r0++;
        job->tile(acc, &job->call->kv[kv], tile, rows, r0, rows->n, scratch);
    }
}

static void finish_row(const struct attention_job *job, const struct fg_attn_acc *acc, int64_t kv,
                       int64_t r, int64_t r_of_acc)
{
    const struct fg_attn_call *c = job->call;
    const int64_t t = r / job->G, head = kv * job->G + r % job->G;
    job->par->kernels->attn_finish(c->o + (t * c->n_heads + head) * c->D, acc, r_of_acc, c->D);
}

// Few rows: where the triples of a KV head's rows in a segment are.
static struct fg_attn_acc partial(const struct attention_job *job, int64_t kv, int64_t segment)
{
    float *p = job->par->partials;
    p += (uint64_t)(kv * job->n_segments + segment) * acc_floats(job->R, job->W);
    return acc_at(p, job->R, job->W);
}

static void segment_item(void *ctx, int64_t item, int worker)
{
    const struct attention_job *job = ctx;
    const int64_t r0 = item % job->n_groups * job->group;
    const int64_t r1 = fg_min64(r0 + job->group, job->R);
    item /= job->n_groups;
    const int64_t kv = item / job->n_segments, segment = item % job->n_segments;
    int64_t pos[GROUP_ROWS_MAX] = {0};
    const struct fg_attn_rows rows = rows_of(job, kv, r0, r1, pos);
    struct fg_attn_acc acc = partial(job, kv, segment);
    acc = (struct fg_attn_acc){acc.m + r0, acc.l + r0, acc.o + r0 * job->W};
    acc_clear(&acc, 0, rows.n);
    run_segment(job, &acc, kv, &rows, segment, fg_worker_scratch(job->par, worker));
}

// Folds the segments of one row.
static void fold_item(void *ctx, int64_t item, int worker)
{
    (void)worker;
    const struct attention_job *job = ctx;
    const int64_t kv = item / job->R, r = item % job->R;
    const struct fg_attn_acc acc = partial(job, kv, 0);
    for (int64_t s = 1; s < job->n_segments; s++) {
        const struct fg_attn_acc later = partial(job, kv, s);
        job->par->kernels->attn_combine(&acc, &later, r, r + 1, job->W);
    }
    finish_row(job, &acc, kv, r, r);
}

// Many rows: a group of them goes through the whole history, segment by segment. Later rows see
// more, so their groups come first and the short ones fill the gaps at the end.
static void group_item(void *ctx, int64_t item, int worker)
{
    const struct attention_job *job = ctx;
    const int64_t n_kv = job->call->n_kv, kv = item % n_kv;
    const int64_t r0 = (job->n_groups - 1 - item / n_kv) * job->group;
    const int64_t r1 = fg_min64(r0 + job->group, job->R);
    int64_t pos[GROUP_ROWS_MAX] = {0};
    const struct fg_attn_rows rows = rows_of(job, kv, r0, r1, pos);
    float *p = fg_worker_scratch(job->par, worker);
    const uint64_t floats = acc_floats(GROUP_ROWS_MAX, job->W);
    const struct fg_attn_acc acc = acc_at(p, rows.n, job->W);
    const struct fg_attn_acc later = acc_at(p + floats, rows.n, job->W);
    void *scratch = p + 2 * floats;
    acc_clear(&acc, 0, rows.n);
    run_segment(job, &acc, kv, &rows, 0, scratch);
    for (int64_t s = 1; s * FG_KV_SEGMENT <= pos[rows.n - 1]; s++) {
        acc_clear(&later, 0, rows.n);
        run_segment(job, &later, kv, &rows, s, scratch);
        job->par->kernels->attn_combine(&acc, &later, 0, rows.n, job->W);
    }
    for (int64_t r = 0; r < rows.n; r++)
        finish_row(job, &acc, kv, r0 + r, r);
}

void fg_parallel_attention(const struct fg_parallel *par, const struct fg_attn_call *call)
{
    const int64_t n_threads = fg_pool_threads(par->pool);
    struct attention_job job = {.par = par,
                                .call = call,
                                .tile = par->kernels->attn_tile[par->fast],
                                .G = call->n_heads / call->n_kv,
                                .W = fg_kv_width(call->D)};
    job.R = call->T * job.G;
    job.n_segments = fg_ceil_div(call->pos + call->T, FG_KV_SEGMENT);
    const bool few = call->T <= FG_ATTN_FEW_MAX;
    // What a KV head's rows read is shared by those of an item: rows are cut only where the items
    // would not go evenly into the threads.
    const int64_t whole = call->n_kv * (few ? job.n_segments : 1);
    const bool even = whole % n_threads == 0 || whole >= ITEMS_PER_THREAD * n_threads;
    int64_t parts = even ? 1 : fg_ceil_div(ITEMS_PER_THREAD * n_threads, whole);
    parts = fg_max64(parts, fg_ceil_div(job.R, GROUP_ROWS_MAX));
    job.group = fg_ceil_div(job.R, fg_min64(parts, job.R));
    job.n_groups = fg_ceil_div(job.R, job.group);
    if (few) {
        fg_pool_run_near(par->pool, whole * job.n_groups, segment_item, &job);
        fg_pool_run(par->pool, call->n_kv * job.R, fold_item, &job);
    } else {
        fg_pool_run(par->pool, call->n_kv * job.n_groups, group_item, &job);
    }
}

uint64_t fg_attn_partial_floats(int64_t capacity, int64_t n_heads, int64_t n_kv, int64_t D)
{
    const uint64_t segments = (uint64_t)fg_ceil_div(capacity, FG_KV_SEGMENT);
    return segments * (uint64_t)n_kv *
           acc_floats(FG_ATTN_FEW_MAX * (n_heads / n_kv), fg_kv_width(D));
}

static uint64_t attention_scratch_bytes(int64_t D)
{
    return 2 * acc_floats(GROUP_ROWS_MAX, fg_kv_width(D)) * sizeof(float) +
           fg_attn_tile_scratch_bytes(D);
}

// ---- DeltaNet

struct gdn_job {
    const struct fg_parallel *par;
    const struct fg_gdn_call *call;
};

static void gdn_item(void *ctx, int64_t j, int worker)
{
    const struct gdn_job *job = ctx;
    const struct fg_gdn_call *c = job->call;
    const int64_t head = j / (c->nv / c->nk), ld = c->nv * c->dv, at = j * c->dk * c->dv;
    struct fg_gdn_pending pending = c->pending;
    struct fg_gdn_rows rows = c->rows;
    if (pending.n > 0) {
        pending.k += head * c->dk;
        pending.d += j * c->dv;
        pending.g += j;
    }
    if (rows.T > 0) {
        rows.q += head * c->dk;
        rows.k += head * c->dk;
        rows.v += j * c->dv;
        rows.g += j;
        rows.beta += j;
    }
    job->par->kernels->gdn(c->S + at, c->S_out ? c->S_out + at : NULL, c->dk, c->dv, &pending,
                           &rows, c->o ? c->o + j * c->dv : NULL, ld,
                           c->d ? c->d + j * c->dv : NULL, ld, fg_worker_scratch(job->par, worker));
}

void fg_parallel_gdn(const struct fg_parallel *par, const struct fg_gdn_call *call)
{
    struct gdn_job job = {par, call};
    fg_pool_run(par->pool, call->nv, gdn_item, &job);
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
    uint64_t attn = s->D ? attention_scratch_bytes(s->D) : 0;
    uint64_t deltanet = s->dv ? fg_gdn_scratch_bytes(s->dk, s->dv) : 0;
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
