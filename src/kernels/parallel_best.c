// kernels/parallel_best.c: the head's best logits. The vocabulary is cut into fixed segments; an
// item computes a segment's logits for a few rows in its scratch and keeps what counts of them, the
// caller folds the segments in order.
#include "kernels/parallel_impl.h"
#include <math.h>
#include <string.h>

#define ROWS 8 // of x in an item: [ROWS][FG_HEAD_SEGMENT] logits stay in L2

// Best of one segment and one row: k entries in `work`, and
struct part {
    float m, s; // maximum, sum of exp(logit - m)
    int32_t n;  // entries kept
    int32_t nan;
};

struct best_job {
    struct fg_ready ready;
    const struct fg_linear *m;
    struct fg_best *best;
    int64_t n_segments;
};

static struct part *parts(const struct fg_best *b)
{
    return b->work;
}

static uint64_t parts_bytes(int64_t n_segments, int64_t T)
{
    return ((uint64_t)(n_segments * T) * sizeof(struct part) + 63) / 64 * 64;
}

static float *kept_logits(const struct best_job *job, int64_t at)
{
    uint8_t *base = (uint8_t *)job->best->work + parts_bytes(job->n_segments, job->ready.T);
    return (float *)base + at * 2 * job->best->k;
}

uint64_t fg_best_work_bytes(int64_t n_out, int64_t T, int64_t k)
{
    int64_t n_segments = fg_ceil_div(n_out, FG_HEAD_SEGMENT);
    return parts_bytes(n_segments, T) + (uint64_t)(n_segments * T * 2 * k) * sizeof(float);
}

// True when (a, i) stands before (b, j).
static bool before(float a, int32_t i, float b, int32_t j)
{
    return a > b || (a == b && i < j);
}

// Puts (v, id) into a descending list of n <= k; returns its new length.
static int64_t insert(float *logits, int32_t *ids, int64_t n, int64_t k, float v, int32_t id)
{
    if (n == k && !before(v, id, logits[n - 1], ids[n - 1])) return n;
    int64_t i = n < k ? n : k - 1;
    for (; i > 0 && before(v, id, logits[i - 1], ids[i - 1]); i--) {
        logits[i] = logits[i - 1];
        ids[i] = ids[i - 1];
    }
    logits[i] = v;
    ids[i] = id;
    return n < k ? n + 1 : k;
}

static void keep_best(const struct best_job *job, int64_t segment, int64_t t, float *y, int64_t n)
{
    const struct fg_kernels *kn = job->ready.par->kernels;
    const int64_t at = segment * job->ready.T + t, k = job->best->k;
    struct part p = {.m = -INFINITY};
    float *logits = kept_logits(job, at);
    int32_t *ids = (int32_t *)(logits + k);
    for (int64_t i = 0; i < n; i++) {
        if (isnan(y[i])) {
            p.nan = 1;
            y[i] = -INFINITY;
        }
        if (p.n == k && y[i] <= logits[k - 1]) continue; // ids ascend: an equal one comes later
        p.n = (int32_t)insert(logits, ids, p.n, k, y[i], (int32_t)(segment * FG_HEAD_SEGMENT + i));
    }
    p.m = logits[0];
    p.s = isfinite(p.m) ? kn->sum_exp(y, p.m, n) : 0;
    parts(job->best)[at] = p;
}

static void best_item(void *ctx, int64_t item, int worker)
{
    const struct best_job *job = ctx;
    const int64_t n_out = job->m->n_out, T = job->ready.T;
    int64_t segment = item % job->n_segments, t0 = item / job->n_segments * ROWS;
    int64_t t1 = fg_min64(t0 + ROWS, T), first = segment * FG_HEAD_SEGMENT;
    int64_t end = fg_min64(first + FG_HEAD_SEGMENT, n_out);
    float *y = fg_worker_scratch(job->ready.par, worker);
    for (int64_t r = first; r < end; r += FG_LUT_ROWS)
        fg_linear_rows(&job->ready, job->m, 0, r, fg_min64(r + FG_LUT_ROWS, end), t0, t1,
                       y + r - first, FG_HEAD_SEGMENT, y + ROWS * FG_HEAD_SEGMENT);
    for (int64_t t = t0; t < t1; t++)
        keep_best(job, segment, t, y + (t - t0) * FG_HEAD_SEGMENT, end - first);
}

// Segments in order: what was kept, and the sums of exponentials.
static void fold(const struct best_job *job, int64_t t)
{
    struct fg_best *b = job->best;
    const struct fg_kernels *kn = job->ready.par->kernels;
    float m = -INFINITY, s = 0;
    float *logits = b->logits + t * b->k;
    int32_t *ids = b->ids + t * b->k;
    int64_t n = 0;
    for (int64_t segment = 0; segment < job->n_segments; segment++) {
        const int64_t at = segment * job->ready.T + t;
        const struct part *p = &parts(b)[at];
        const float *of = kept_logits(job, at);
        const int32_t *of_ids = (const int32_t *)(of + b->k);
        b->nan |= p->nan != 0;
        for (int64_t i = 0; i < p->n; i++)
            n = insert(logits, ids, n, b->k, of[i], of_ids[i]);
        if (p->m == -INFINITY) continue;
        float most = m > p->m ? m : p->m;
        float old = m == -INFINITY ? 0 : s * kn->sum_exp(&m, most, 1);
        s = old + p->s * kn->sum_exp(&p->m, most, 1);
        m = most;
    }
    b->lse[t] = (float)((double)m + log((double)s));
}

void fg_parallel_best(const struct fg_parallel *par, const struct fg_linear *mat,
                      const struct fg_input *in, int64_t T, struct fg_best *best)
{
    struct best_job job = {
        .m = mat, .best = best, .n_segments = fg_ceil_div(mat->n_out, FG_HEAD_SEGMENT)};
    best->nan = false;
    if (T == 0) return;
    fg_input_ready(&job.ready, par, mat, 1, in, T);
    fg_pool_run(par->pool, job.n_segments * fg_ceil_div(T, ROWS), best_item, &job);
    for (int64_t t = 0; t < T; t++)
        fold(&job, t);
}

uint64_t fg_best_scratch_bytes(const struct fg_parallel_sizes *s)
{
    return ROWS * FG_HEAD_SEGMENT * sizeof(float) + fg_linear_scratch_bytes(s);
}
