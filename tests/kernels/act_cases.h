// tests/kernels/act_cases.h: the kernels of activations (lut.h) of one level against ref's, bit for
// bit, on seeded inputs whose memory ends at a forbidden page. Each function is one case: true, or
// false and what differs in `what`.
#ifndef FG_TESTS_KERNELS_ACT_CASES_H
#define FG_TESTS_KERNELS_ACT_CASES_H
#include "kernels/numbers.h"
#include <math.h>

enum act_kind {           // after those of enum numbers
    ACT_HUGE = N_NUMBERS, // up to the largest float
    ACT_THRESHOLD,        // magnitudes about 2^-100
    ACT_TIES,             // codes halfway between two whole numbers
    N_ACT_KINDS
};

static const char *const act_kind_names[] = {"unit", "wide",      "small", "special",
                                             "huge", "threshold", "ties"};

struct act_case {
    const struct fg_kernels *kernels, *ref;
    int64_t n;
    int kind;
    uint64_t seed;
    char what[200];
};

static inline void act_fill(float *x, const struct act_case *c)
{
    uint64_t seed = c->seed;
    if (c->kind < N_NUMBERS) {
        fill_floats(x, c->n, &seed, (enum numbers)c->kind);
        return;
    }
    int exponent = 24 + (int)(next_u32(&seed) % 3);
    for (int64_t i = 0; i < c->n; i++) {
        uint32_t u = next_u32(&seed);
        switch (c->kind) {
        case ACT_HUGE: x[i] = fg_f32_of_bits((u & 0x80FFFFFF) | 0x7E000000); break;
        case ACT_THRESHOLD:
            x[i] = fg_f32_of_bits((u & 0x803FFFFF) | (uint32_t)exponent << 23);
            if (u >> 22 & 1) x[i] = i & 1 ? 0x1p-100f : 0x1.fffffep-101f;
            break;
        default: x[i] = (float)((int)(u % 255) - 127) * 0.5f;
        }
    }
    if (c->kind == ACT_TIES) x[c->n / 2] = 127.0f;
}

static inline bool act_differs(struct act_case *c, const char *op, int64_t at, double got,
                               double want)
{
    snprintf(c->what, sizeof c->what, "%s, %s, n %lld, %s, seed %llu: [%lld] is %a, ref has %a", op,
             c->kernels->isa, (long long)c->n, act_kind_names[c->kind], (unsigned long long)c->seed,
             (long long)at, got, want);
    return false;
}

static inline bool act_case_rotate(struct act_case *c, int64_t B, bool in_place)
{
    size_t bytes = (size_t)c->n * sizeof(float);
    struct fenced fx = fenced_new(bytes), fy = fenced_new(bytes), fs = fenced_new((size_t)c->n / 8);
    float *x = (float *)fx.data, *y = (float *)fy.data, *want = malloc(bytes);
    uint64_t seed = c->seed * 3 + 1;
    bool same = want;
    act_fill(x, c);
    for (int64_t i = 0; i < c->n / 8; i++)
        fs.data[i] = (uint8_t)next_u32(&seed);
    if (want) {
        c->ref->rotate(want, x, fs.data, c->n, B);
        if (in_place) memcpy(y, x, bytes);
        c->kernels->rotate(y, in_place ? y : x, fs.data, c->n, B);
    }
    for (int64_t i = 0; same && i < c->n; i++) {
        same = same_float(y[i], want[i]);
        if (!same) act_differs(c, "rotate", i, (double)y[i], (double)want[i]);
    }
    free(want);
    fenced_free(&fx);
    fenced_free(&fy);
    fenced_free(&fs);
    return same;
}

// n <= FG_ACT_BLOCK; digits 1: quantize, 2: quantize2.
static inline bool act_case_quantize(struct act_case *c, int digits)
{
    struct fenced fx = fenced_new((size_t)c->n * sizeof(float)), fc[2];
    float *x = (float *)fx.data, sx[2] = {0}, want_sx[2] = {0};
    int8_t want[2][FG_ACT_BLOCK];
    int32_t sum[2] = {0}, want_sum[2] = {0};
    bool same = true;
    for (int d = 0; d < 2; d++) {
        fc[d] = fenced_new((size_t)c->n);
        memset(fc[d].data, 0x55, (size_t)c->n);
    }
    int8_t *codes[2] = {(int8_t *)fc[0].data, (int8_t *)fc[1].data};
    act_fill(x, c);
    if (digits == 1) {
        c->ref->quantize(want[0], want_sx, want_sum, x, c->n);
        c->kernels->quantize(codes[0], sx, sum, x, c->n);
    } else {
        c->ref->quantize2(want[0], want[1], want_sx, want_sum, x, c->n);
        c->kernels->quantize2(codes[0], codes[1], sx, sum, x, c->n);
    }
    for (int d = 0; same && d < digits; d++) {
        const char *op = digits == 1 ? "codes" : d ? "lo digits" : "hi digits";
        for (int64_t i = 0; same && i < c->n; i++)
            if (codes[d][i] != want[d][i]) same = act_differs(c, op, i, codes[d][i], want[d][i]);
        if (same && sum[d] != want_sum[d]) same = act_differs(c, "sum", d, sum[d], want_sum[d]);
        if (same && !same_float(sx[d], want_sx[d]))
            same = act_differs(c, "scale", d, (double)sx[d], (double)want_sx[d]);
    }
    fenced_free(&fx);
    fenced_free(&fc[0]);
    fenced_free(&fc[1]);
    return same;
}

// `spread` widens the exponents, so that terms underflow.
static inline bool act_case_sum_exp(struct act_case *c, float spread)
{
    struct fenced fx = fenced_new((size_t)c->n * sizeof(float));
    float *x = (float *)fx.data, m = -INFINITY;
    act_fill(x, c);
    for (int64_t i = 0; i < c->n; i++) {
        x[i] *= spread;
        if (x[i] > m) m = x[i];
    }
    float want = c->ref->sum_exp(x, m, c->n), got = c->kernels->sum_exp(x, m, c->n);
    bool same = same_float(got, want);
    if (!same) act_differs(c, "sum_exp", 0, (double)got, (double)want);
    fenced_free(&fx);
    return same;
}
#endif
