// tests/kernels/kv_cases.h: pages of one head for tests, and the numbers of the specification's
// worked examples.
#ifndef FG_TESTS_KERNELS_KV_CASES_H
#define FG_TESTS_KERNELS_KV_CASES_H
#include "kernels/numbers.h"
#include <string.h>

#define COUNT(a) (int64_t)(sizeof(a) / sizeof *(a))

static const char *const format_names[FG_KV_N_ALL] = {"fp16", "v8", "kv8", "f32"};

// Values of the name (specs: speculative 10.1), in [-scale, scale).
static inline void golden_values(double *x, int64_t n, const char *name, double scale)
{
    uint32_t state = 0x811C9DC5;
    for (const char *c = name; *c; c++)
        state = (state ^ (uint8_t)*c) * 0x01000193;
    for (int64_t i = 0; i < n; i++) {
        state = 1664525u * state + 1013904223u;
        x[i] = scale * (2.0 * (state >> 8) / 0x1p24 - 1.0);
    }
}

// The same of the name "PREFIX.t", as floats.
static inline void golden_row(float *x, int64_t n, const char *prefix, int64_t t, double scale)
{
    char name[32];
    double value[FG_KV_WIDTH_MAX];
    snprintf(name, sizeof name, "%s.%lld", prefix, (long long)t);
    golden_values(value, n, name, scale);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)value[i];
}

// Pages of a head. All memory ends at a forbidden page.
struct pages {
    struct fg_kv_head h;
    int64_t n; // pages
    struct fenced k, v, ks, vs;
};

static inline struct pages pages_new(enum fg_kv_format format, int64_t D, int64_t n)
{
    struct pages p = {.h = {.format = format, .D = D}, .n = n};
    p.k = fenced_new((size_t)(n * fg_kv_k_page_bytes(format, D)));
    p.v = fenced_new((size_t)(n * fg_kv_v_page_bytes(format, D)));
    p.ks = fenced_new((size_t)n * FG_KV_PAGE * 2);
    p.vs = fenced_new((size_t)n * FG_KV_PAGE * 2);
    p.h.k = p.k.data;
    p.h.v = p.v.data;
    if (fg_kv_k8(format)) p.h.ks = (uint16_t *)p.ks.data;
    if (fg_kv_v8(format)) p.h.vs = (uint16_t *)p.vs.data;
    return p;
}

static inline void pages_free(struct pages *p)
{
    fenced_free(&p->k);
    fenced_free(&p->v);
    fenced_free(&p->ks);
    fenced_free(&p->vs);
}

// Everything to one byte, scales to one FP16.
static inline void pages_fill(struct pages *p, int byte, uint16_t scale)
{
    memset(p->k.data, byte, (size_t)(p->n * fg_kv_k_page_bytes(p->h.format, p->h.D)));
    memset(p->v.data, byte, (size_t)(p->n * fg_kv_v_page_bytes(p->h.format, p->h.D)));
    for (int64_t t = 0; t < p->n * FG_KV_PAGE; t++) {
        ((uint16_t *)p->ks.data)[t] = scale;
        ((uint16_t *)p->vs.data)[t] = scale;
    }
}

// NULL, or what differs.
static inline const char *pages_differ(const struct pages *a, const struct pages *b)
{
    const size_t scales = (size_t)a->n * FG_KV_PAGE * 2;
    const enum fg_kv_format f = a->h.format;
    if (memcmp(a->k.data, b->k.data, (size_t)(a->n * fg_kv_k_page_bytes(f, a->h.D))) != 0)
        return "keys";
    if (memcmp(a->v.data, b->v.data, (size_t)(a->n * fg_kv_v_page_bytes(f, a->h.D))) != 0)
        return "values";
    if (memcmp(a->ks.data, b->ks.data, scales) != 0) return "scales of keys";
    if (memcmp(a->vs.data, b->vs.data, scales) != 0) return "scales of values";
    return NULL;
}
#endif
