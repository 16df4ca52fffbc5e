// tests/support/state.h: states of the graph (model/state.h) in plain memory, without the runtime.
#ifndef FG_TESTS_STATE_H
#define FG_TESTS_STATE_H
#include "base/arena.h"
#include "model/graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline void *state_memory(int64_t n, size_t bytes)
{
    void *p = fg_alloc_aligned((uint64_t)n * bytes);
    assert_non_null(p);
    return p;
}

static inline float *state_floats(int64_t n)
{
    return state_memory(n, sizeof(float));
}

static inline int64_t state_S_floats(const struct fg_config *c)
{
    return c->n_v_heads * c->k_head_dim * c->v_head_dim;
}

static inline int64_t state_conv_floats(const struct fg_config *c)
{
    return (c->conv_kernel - 1) * fg_config_conv_channels(c);
}

// Keys and values in `format`, garbage where nothing is stored; room for tried_max tried rows.
static inline void state_new(struct fg_state *s, const struct fg_config *c, int64_t capacity,
                             enum fg_kv_format format, bool rotated, int64_t tried_max)
{
    const int64_t pages = (capacity + FG_KV_PAGE - 1) / FG_KV_PAGE, rows = pages * FG_KV_PAGE;
    const int64_t k_bytes = pages * fg_kv_k_page_bytes(format, c->head_dim);
    const int64_t v_bytes = pages * fg_kv_v_page_bytes(format, c->head_dim);
    *s = (struct fg_state){
        .format = format, .rotated = rotated, .capacity = capacity, .tried_max = tried_max};
    s->layers = calloc((size_t)c->n_layers, sizeof *s->layers);
    assert_non_null(s->layers);
    for (int64_t i = 0; i < c->n_layers; i++) {
        struct fg_layer_state *l = &s->layers[i];
        for (int b = 0; b < 2 && c->is_linear[i]; b++) {
            l->S[b] = state_floats(state_S_floats(c));
            l->conv[b] = state_floats(state_conv_floats(c));
            l->rows[b] =
                (struct fg_tried_rows){.k = state_floats(tried_max * c->n_k_heads * c->k_head_dim),
                                       .d = state_floats(tried_max * c->n_v_heads * c->v_head_dim),
                                       .g = state_floats(tried_max * c->n_v_heads),
                                       .raw = state_floats(tried_max * fg_config_conv_channels(c))};
        }
        if (c->is_linear[i]) continue;
        struct fg_kv_head *heads = calloc((size_t)c->n_kv_heads, sizeof *heads);
        assert_non_null(heads);
        for (int64_t h = 0; h < c->n_kv_heads; h++) {
            heads[h] = (struct fg_kv_head){.format = format,
                                           .D = c->head_dim,
                                           .k = state_memory(k_bytes, 1),
                                           .v = state_memory(v_bytes, 1),
                                           .ks = state_memory(rows, 2),
                                           .vs = state_memory(rows, 2)};
            memset(heads[h].k, 0xFF, (size_t)k_bytes); // NaN where they are floats
            memset(heads[h].v, 0xFF, (size_t)v_bytes);
            memset(heads[h].ks, 0x7E, (size_t)rows * 2);
            memset(heads[h].vs, 0x7E, (size_t)rows * 2);
        }
        l->kv = heads;
    }
}

static inline void state_free(struct fg_state *s, const struct fg_config *c)
{
    for (int64_t i = 0; i < c->n_layers; i++) {
        struct fg_layer_state *l = &s->layers[i];
        for (int b = 0; b < 2; b++) {
            void *all[] = {l->S[b],      l->conv[b],   l->rows[b].k,
                           l->rows[b].d, l->rows[b].g, l->rows[b].raw};
            for (size_t j = 0; j < sizeof all / sizeof all[0]; j++)
                free(all[j]);
        }
        for (int64_t h = 0; h < c->n_kv_heads && l->kv; h++) {
            free(l->kv[h].k);
            free(l->kv[h].v);
            free(l->kv[h].ks);
            free(l->kv[h].vs);
        }
        free((void *)l->kv);
    }
    free(s->layers);
}

// Stored rows [0, n) of a head as bytes; *bytes is their number, the array the caller's.
static inline uint8_t *state_rows(const struct fg_kv_head *h, int64_t n, size_t *bytes)
{
    const size_t k = (size_t)(n * h->D) * 4, s = (size_t)n * 2;
    uint8_t *p = state_memory((int64_t)(2 * k + 2 * s), 1);
    const bool k8 = fg_kv_k8(h->format), v8 = fg_kv_v8(h->format);
    fg_kv_export(h, 0, n, p, k8 ? (uint16_t *)(void *)(p + 2 * k) : NULL, p + k,
                 v8 ? (uint16_t *)(void *)(p + 2 * k + s) : NULL);
    *bytes = 2 * k + 2 * s;
    return p;
}

// dst has the same positions as src, whatever the capacities. Nothing may be pending in src.
static inline void state_copy(struct fg_state *dst, const struct fg_state *src,
                              const struct fg_config *c)
{
    assert_int_equal(src->n_pending, 0);
    dst->pos = src->pos;
    for (int64_t i = 0; i < c->n_layers; i++) {
        struct fg_layer_state *d = &dst->layers[i], *s = &src->layers[i];
        if (c->is_linear[i]) {
            memcpy(d->S[dst->cur], s->S[src->cur], (size_t)state_S_floats(c) * sizeof(float));
            memcpy(d->conv[dst->cur], s->conv[src->cur],
                   (size_t)state_conv_floats(c) * sizeof(float));
            continue;
        }
        for (int64_t h = 0; h < c->n_kv_heads; h++) {
            const size_t k = (size_t)(src->pos * c->head_dim) * 4, n = (size_t)src->pos * 2;
            size_t bytes;
            uint8_t *p = state_rows(&s->kv[h], src->pos, &bytes);
            const bool k8 = fg_kv_k8(src->format), v8 = fg_kv_v8(src->format);
            fg_kv_import(&d->kv[h], 0, src->pos, p, k8 ? (uint16_t *)(void *)(p + 2 * k) : NULL,
                         p + k, v8 ? (uint16_t *)(void *)(p + 2 * k + n) : NULL);
            free(p);
        }
    }
}

// The same position, recurrent state and stored rows, bit for bit.
static inline bool state_same(const struct fg_state *a, const struct fg_state *b,
                              const struct fg_config *c)
{
    bool same = a->pos == b->pos && a->n_pending == 0 && b->n_pending == 0;
    for (int64_t i = 0; i < c->n_layers && same; i++) {
        const struct fg_layer_state *la = &a->layers[i], *lb = &b->layers[i];
        if (c->is_linear[i]) {
            same =
                !memcmp(la->S[a->cur], lb->S[b->cur], (size_t)state_S_floats(c) * sizeof(float)) &&
                !memcmp(la->conv[a->cur], lb->conv[b->cur],
                        (size_t)state_conv_floats(c) * sizeof(float));
            continue;
        }
        for (int64_t h = 0; h < c->n_kv_heads && same; h++) {
            size_t n;
            uint8_t *ra = state_rows(&la->kv[h], a->pos, &n);
            uint8_t *rb = state_rows(&lb->kv[h], b->pos, &n);
            same = !memcmp(ra, rb, n);
            free(ra);
            free(rb);
        }
    }
    return same;
}
#endif
