#include "eval/logprob.h"
#include <math.h>

bool fg_lp_row(const float *x, int64_t vocab, double *lse, int64_t *best)
{
    int64_t at = 0;
    for (int64_t i = 1; i < vocab; i++)
        at = x[i] > x[at] ? i : at;
    double max = (double)x[at], sum[4] = {0};
    for (int64_t i = 0; i < vocab; i++)
        sum[i % 4] += exp((double)x[i] - max);
    *best = at;
    *lse = max + log((sum[0] + sum[1]) + (sum[2] + sum[3]));
    return isfinite(*lse) != 0;
}

// ---- the best: a heap whose root is the worst of those that are kept

// Does a come after b in the order of the result?
static inline bool worse(const float *x, int32_t a, int32_t b)
{
    return x[a] < x[b] || (x[a] == x[b] && a > b);
}

static void sift(const float *x, int32_t *heap, int64_t n, int64_t at)
{
    int32_t moved = heap[at];
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && worse(x, heap[child + 1], heap[child])) child++;
        if (!worse(x, heap[child], moved)) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

void fg_lp_top(const float *x, int64_t vocab, int64_t k, int32_t *ids)
{
    for (int64_t i = 0; i < k; i++)
        ids[i] = (int32_t)i;
    for (int64_t i = k / 2 - 1; i >= 0; i--)
        sift(x, ids, k, i);
    for (int64_t i = k; i < vocab; i++) { // an equal that comes later has a higher id
        if (!(x[i] > x[ids[0]])) continue;
        ids[0] = (int32_t)i;
        sift(x, ids, k, 0);
    }
    for (int64_t n = k - 1; n > 0; n--) { // the worst goes to the end
        int32_t last = ids[n];
        ids[n] = ids[0];
        ids[0] = last;
        sift(x, ids, n, 0);
    }
}
