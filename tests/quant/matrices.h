// tests/quant/matrices.h: matrices for tests of quantized weights: numbers from a named stream, and
// random matrices in canonical storage at an odd address.
#ifndef FG_TESTS_QUANT_MATRICES_H
#define FG_TESTS_QUANT_MATRICES_H
#include "base/num.h"
#include "format/qmat.h"
#include "quant/pack.h"
#include "quant/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Box and Muller; the draws matter to no golden.
static inline double next_gauss(struct fg_random *r)
{
    double u = 1 - fg_random_u01(r), v = fg_random_u01(r);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

// malloc'd [rows][cols] of normal numbers times `sigma`.
static inline float *gauss_matrix(int64_t rows, int64_t cols, double sigma, uint64_t seed)
{
    struct fg_random r = fg_random_seeded(seed);
    float *w = malloc((size_t)(rows * cols + 1) * sizeof *w);
    if (!w) abort();
    for (int64_t i = 0; i < rows * cols; i++)
        w[i] = (float)(sigma * next_gauss(&r));
    return w;
}

// A matrix whose arrays lie at odd addresses of one block.
struct stored {
    struct fg_qmat m;
    uint8_t *block;
    size_t used;
};

static inline uint8_t *stored_take(struct stored *s, size_t bytes)
{
    uint8_t *p = s->block + s->used;
    s->used += bytes;
    return p;
}

static inline uint8_t *stored_f16(struct stored *s, int64_t n, struct fg_random *r, bool positive)
{
    uint8_t *p = stored_take(s, (size_t)n * 2);
    for (int64_t i = 0; i < n; i++) {
        float v = (float)(positive ? 0.01 + fg_random_u01(r) : next_gauss(r));
        uint16_t h = fg_f16_of_f32(v);
        memcpy(p + 2 * i, &h, 2);
    }
    return p;
}

// bytes: indices in `idx` instead of `pidx`.
static inline struct stored stored_new(enum fg_qformat f, int64_t rows, int64_t cols, int64_t rank,
                                       bool bytes, uint64_t seed)
{
    struct fg_random r = fg_random_seeded(seed);
    const int64_t d = fg_qformat_rows_per_index(f), bits = fg_qformat_index_bits(f);
    struct stored s = {.m = {.format = f, .rows = rows, .cols = cols, .rank = rank}};
    s.block = malloc((size_t)(rows * cols * 4 + (rows + cols + 2) * (rank + 2) * 3 + 1024));
    if (!s.block) abort();
    s.used = 1;
    if (fg_qformat_is_lut(f)) {
        const int64_t n = rows / d, row_bytes = fg_pack_bytes(cols, (int)bits);
        uint8_t *idx = malloc((size_t)cols + 1);
        uint8_t *out = stored_take(&s, (size_t)(n * (bytes ? cols : row_bytes)));
        if (!idx) abort();
        for (int64_t g = 0; g < n; g++) {
            for (int64_t j = 0; j < cols; j++)
                idx[j] = (uint8_t)fg_random_below(&r, (uint64_t)fg_qformat_entries(f));
            if (bytes)
                memcpy(out + g * cols, idx, (size_t)cols);
            else
                fg_pack_indices(out + g * row_bytes, idx, cols, (int)bits);
        }
        free(idx);
        if (bytes)
            s.m.idx = out;
        else
            s.m.pidx = out;
        s.used |= 1;
        s.m.lut = (const void *)stored_f16(&s, fg_qformat_entries(f) * d, &r, false);
    } else if (f == FG_Q_INT8) {
        uint8_t *codes = stored_take(&s, (size_t)(rows * cols));
        for (int64_t i = 0; i < rows * cols; i++)
            codes[i] = (uint8_t)((int)fg_random_below(&r, 255) - 127);
        s.m.codes = (const int8_t *)codes;
    } else {
        const size_t size = f == FG_Q_F32 ? 4 : 2;
        uint8_t *w = stored_take(&s, (size_t)(rows * cols) * size);
        for (int64_t i = 0; i < rows * cols; i++) {
            float v = (float)next_gauss(&r);
            uint16_t h = f == FG_Q_BF16 ? fg_bf16_of_f32(v) : fg_f16_of_f32(v);
            memcpy(w + (size_t)i * size, size == 4 ? (void *)&v : (void *)&h, size);
        }
        s.m.weight = w;
    }
    s.used |= 1;
    if (!fg_qformat_is_kept(f)) s.m.scale = (const void *)stored_f16(&s, rows, &r, true);
    if (rank) {
        s.used |= 1;
        s.m.lr_a = (const void *)stored_f16(&s, rows * rank, &r, false);
        s.used |= 1;
        s.m.lr_b = (const void *)stored_f16(&s, rank * cols, &r, false);
    }
    return s;
}

static inline uint8_t *stored_codes(struct stored *s, int64_t n, struct fg_random *r)
{
    uint8_t *p = stored_take(s, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        p[i] = (uint8_t)((int)fg_random_below(r, 255) - 127);
    return p;
}

// Puts INT8 factors in the place of F16 ones.
static inline void stored_int8_factors(struct stored *s, uint64_t seed)
{
    struct fg_random r = fg_random_seeded(seed);
    s->m.lr_dtype = FG_LR_I8;
    s->m.lr_a = stored_codes(s, s->m.rows * s->m.rank, &r);
    s->m.lr_b = stored_codes(s, s->m.rank * s->m.cols, &r);
    s->used |= 1;
    uint8_t *scale = stored_take(s, (size_t)s->m.rank * sizeof(float));
    s->m.lr_scale = scale;
    for (int64_t k = 0; k < s->m.rank; k++) {
        const float v = (float)(1e-4 * (0.5 + fg_random_u01(&r)));
        memcpy(scale + (size_t)k * sizeof v, &v, sizeof v);
    }
}

static inline void stored_free(struct stored *s)
{
    free(s->block);
}

// Element (r, c) of the stored matrix without factors, bit by bit.
static inline float stored_at(const struct fg_qmat *m, int64_t r, int64_t c)
{
    uint16_t h, scale = 0;
    const int64_t at = r * m->cols + c;
    if (m->scale) memcpy(&scale, (const uint8_t *)m->scale + 2 * r, 2);
    if (m->format == FG_Q_INT8) return fg_f16_to_f32(scale) * (float)m->codes[at];
    if (m->format == FG_Q_F32) {
        float v;
        memcpy(&v, (const uint8_t *)m->weight + 4 * at, 4);
        return v;
    }
    if (fg_qformat_is_kept(m->format)) {
        memcpy(&h, (const uint8_t *)m->weight + 2 * at, 2);
        return m->format == FG_Q_BF16 ? fg_bf16_to_f32(h) : fg_f16_to_f32(h);
    }
    const int64_t d = fg_qformat_rows_per_index(m->format), bits = fg_qformat_index_bits(m->format);
    int64_t index = 0;
    if (m->idx) {
        index = m->idx[r / d * m->cols + c];
    } else {
        const uint8_t *row = m->pidx + r / d * ((m->cols * bits + 7) / 8);
        for (int64_t b = 0; b < bits; b++) {
            int64_t p = c * bits + b;
            index |= (int64_t)(row[p / 8] >> (p % 8) & 1) << b;
        }
    }
    memcpy(&h, (const uint8_t *)m->lut + 2 * (index * d + r % d), 2);
    return fg_f16_to_f32(scale) * fg_f16_to_f32(h);
}
#endif
