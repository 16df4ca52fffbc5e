// spec/sampler.c: one distribution function and the draw.
#include "spec/sampler.h"
#include "base/arena.h"
#include "base/num.h"
#include "spec/random.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fg_sampler {
    struct forge_sampling opt;
    int64_t vocab;
    struct fg_arena arena;
    int32_t *ids;     // [vocab]: candidates of the row at hand
    double *z;        // [vocab]: their logits, then probabilities
    uint32_t *output; // [vocab]: times drawn
    uint8_t *seen;    // [vocab]: in prompt or output
};

static int check(const struct forge_sampling *o, struct fg_error *err)
{
    const struct {
        const char *name;
        double v, min, max;
    } ranges[] = {
        {"temperature", o->temperature, 0, 100},
        {"top_p", o->top_p, 0, 1},
        {"min_p", o->min_p, 0, 1},
        {"repetition", o->repetition, 0, 100},
        {"presence", o->presence, -100, 100},
        {"frequency", o->frequency, -100, 100},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (ranges[i].v >= ranges[i].min && ranges[i].v <= ranges[i].max) continue;
        char expected[64], lo[32], hi[32], found[32];
        snprintf(expected, sizeof expected, "%s to %s", fg_format_f64(lo, sizeof lo, ranges[i].min),
                 fg_format_f64(hi, sizeof hi, ranges[i].max));
        return fg_fail(err, FG_EINPUT, "sampling", NULL, ranges[i].name, expected, "%s",
                       fg_format_f64(found, sizeof found, ranges[i].v));
    }
    if (o->top_k < 0)
        return fg_fail(err, FG_EINPUT, "sampling", NULL, "top_k", "at least 0", "%d",
                       (int)o->top_k);
    return 0;
}

int fg_sampler_new(struct fg_sampler **out, const struct forge_sampling *options, int64_t vocab,
                   struct fg_error *err)
{
    *out = NULL;
    int rc = check(options, err);
    if (rc) return rc;
    struct fg_sampler *s = calloc(1, sizeof *s);
    if (!s) return fg_fail_memory(err, "sampler", sizeof *s);
    s->opt = *options;
    s->vocab = vocab;
    fg_arena_init(&s->arena, 0);
    s->ids = fg_arena_alloc(&s->arena, (uint64_t)vocab, sizeof *s->ids);
    s->z = fg_arena_alloc(&s->arena, (uint64_t)vocab, sizeof *s->z);
    s->output = fg_arena_alloc(&s->arena, (uint64_t)vocab, sizeof *s->output);
    s->seen = fg_arena_alloc(&s->arena, (uint64_t)vocab, sizeof *s->seen);
    if (!s->ids || !s->z || !s->output || !s->seen) {
        fg_sampler_free(s);
        return fg_fail_memory(err, "sampler", (uint64_t)vocab * 17);
    }
    *out = s;
    return 0;
}

void fg_sampler_free(struct fg_sampler *s)
{
    if (!s) return;
    fg_arena_free(&s->arena);
    free(s);
}

void fg_sampler_prompt(struct fg_sampler *s, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] >= 0 && ids[i] < s->vocab) s->seen[ids[i]] = 1;
    }
}

void fg_sampler_accept(struct fg_sampler *s, int32_t id)
{
    if (id < 0 || id >= s->vocab) return;
    s->seen[id] = 1;
    if (s->output[id] < UINT32_MAX) s->output[id]++;
}

// A total order: larger value first, then lower id. NaN sorts as -infinity.
static bool before(double za, int32_t a, double zb, int32_t b)
{
    return za > zb || (za == zb && a < b);
}

static double value(const float *logits, int32_t id)
{
    return isnan(logits[id]) ? -INFINITY : (double)logits[id];
}

// Sifts entry i of the heap [0, n) whose top is the last in order.
static void sift(int32_t *ids, double *z, int64_t n, int64_t i)
{
    for (;;) {
        int64_t worst = i, l = 2 * i + 1, r = l + 1;
        if (l < n && before(z[worst], ids[worst], z[l], ids[l])) worst = l;
        if (r < n && before(z[worst], ids[worst], z[r], ids[r])) worst = r;
        if (worst == i) return;
        int32_t id = ids[i];
        double v = z[i];
        ids[i] = ids[worst];
        z[i] = z[worst];
        ids[worst] = id;
        z[worst] = v;
        i = worst;
    }
}

// Sorts ids, z [n] by `before` with a heap.
static void sort(int32_t *ids, double *z, int64_t n)
{
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sift(ids, z, n, i);
    for (int64_t end = n - 1; end > 0; end--) {
        int32_t id = ids[0];
        double v = z[0];
        ids[0] = ids[end];
        z[0] = z[end];
        ids[end] = id;
        z[end] = v;
        sift(ids, z, end, 0);
    }
}

// The k first of the row in order, into ids and z; not sorted. A heap of k over the row: fast for
// small k.
static int64_t top_k(struct fg_sampler *s, const float *logits, int64_t k)
{
    if (k <= 0 || k > s->vocab) k = s->vocab;
    for (int64_t i = 0; i < k; i++) {
        s->ids[i] = (int32_t)i;
        s->z[i] = value(logits, (int32_t)i);
    }
    if (k == s->vocab) return k;
    for (int64_t i = k / 2 - 1; i >= 0; i--)
        sift(s->ids, s->z, k, i);
    for (int32_t id = (int32_t)k; id < s->vocab; id++) {
        if (!((double)logits[id] > s->z[0])) continue; // ids ascend: an equal value loses
        s->ids[0] = id;
        s->z[0] = logits[id];
        sift(s->ids, s->z, k, 0);
    }
    return k;
}

static void penalize(struct fg_sampler *s, int64_t n)
{
    const struct forge_sampling *o = &s->opt;
    for (int64_t i = 0; i < n; i++) {
        int32_t id = s->ids[i];
        if (o->repetition > 0 && s->seen[id])
            s->z[i] = s->z[i] > 0 ? s->z[i] / o->repetition : s->z[i] * o->repetition;
        if (s->output[id]) s->z[i] -= o->presence + o->frequency * s->output[id];
    }
}

int64_t fg_sampler_distribution(struct fg_sampler *s, const float *logits, const int32_t **ids,
                                const double **prob)
{
    const struct forge_sampling *o = &s->opt;
    *ids = s->ids;
    *prob = s->z;
    if (o->temperature <= 0) {
        int32_t best = 0;
        for (int32_t i = 1; i < s->vocab; i++) {
            if (value(logits, i) > value(logits, best)) best = i;
        }
        s->ids[0] = best;
        s->z[0] = 1;
        return 1;
    }
    int64_t n = top_k(s, logits, o->top_k);
    penalize(s, n);
    sort(s->ids, s->z, n);

    double max = s->z[0], sum = 0;
    if (max == -INFINITY) max = 0; // a row of nothing: every entry gets probability 0 below
    for (int64_t i = 0; i < n; i++) {
        s->z[i] = s->z[i] == INFINITY && max == INFINITY
                      ? 1
                      : fg_exp_neg((s->z[i] - max) / o->temperature);
        sum += s->z[i];
    }
    if (!(sum > 0)) { // no finite logit at all: the first in order
        s->z[0] = 1;
        return 1;
    }
    for (int64_t i = 0; i < n; i++)
        s->z[i] /= sum;
    if (o->top_p > 0 && o->top_p < 1) {
        double mass = 0;
        int64_t keep = 0;
        while (keep < n && mass < o->top_p)
            mass += s->z[keep++];
        n = keep;
    }
    double floor_p = o->min_p * s->z[0];
    while (n > 1 && (s->z[n - 1] < floor_p || s->z[n - 1] < 1e-300))
        n--;
    sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += s->z[i];
    for (int64_t i = 0; i < n; i++)
        s->z[i] /= sum;
    return n;
}

int32_t fg_sampler_draw(struct fg_sampler *s, const float *logits, int64_t pos)
{
    const int32_t *ids;
    const double *prob;
    int64_t n = fg_sampler_distribution(s, logits, &ids, &prob);
    int32_t best_id = ids[0];
    double best = -INFINITY;
    for (int64_t i = 0; i < n && n > 1; i++) {
        double lp = fg_ln(prob[i]);
        if (lp + FG_GUMBEL_MAX < best) break; // probabilities descend: nothing behind can win
        double g = lp + fg_random_gumbel(s->opt.seed, (uint32_t)ids[i], pos, FG_RANDOM_TARGET);
        if (g > best || (g == best && ids[i] < best_id)) {
            best = g;
            best_id = ids[i];
        }
    }
    return best_id;
}
