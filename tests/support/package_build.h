// tests/support/package_build.h: small sets of quantized weights in the shapes of a hybrid or dense
// model, random but valid, for tests of packages and builds.
#ifndef FG_TESTS_PACKAGE_BUILD_H
#define FG_TESTS_PACKAGE_BUILD_H
#include "base/arena.h"
#include "base/num.h"
#include "format/bits.h"
#include "format/package.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PB_DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define PB_EXPORT "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define PB_ID "00000000000000000000000000000000000000000000000000000000000000ab"

struct pb_model {
    int64_t hidden, intermediate, vocab, n_heads, n_kv_heads, head_dim;
    int64_t k_heads, v_heads, dk, dv, conv; // 0 in dense models
    bool qk_norm, gate, bias, rotated;
};

static const struct pb_model pb_hybrid = {.hidden = 32,
                                          .intermediate = 48,
                                          .vocab = 40,
                                          .n_heads = 2,
                                          .n_kv_heads = 1,
                                          .head_dim = 8,
                                          .k_heads = 1,
                                          .v_heads = 2,
                                          .dk = 4,
                                          .dv = 8,
                                          .conv = 4,
                                          .qk_norm = true,
                                          .gate = true,
                                          .rotated = true};
// Odd widths: rows of indices have pad bits.
static const struct pb_model pb_dense = {.hidden = 14,
                                         .intermediate = 26,
                                         .vocab = 11,
                                         .n_heads = 2,
                                         .n_kv_heads = 2,
                                         .head_dim = 7,
                                         .bias = true};

struct pb_set {
    struct fg_qset set;
    struct fg_qset_mat mats[128];
    struct fg_qset_small small[128];
    struct fg_qset_rot rots[64];
    struct fg_arena arena;
    uint32_t seed;
    bool as_idx; // matrices come with a byte per index
};

static inline uint32_t pb_random(struct pb_set *s)
{
    s->seed = s->seed * 1664525u + 1013904223u;
    return s->seed >> 8;
}

static inline void *pb_alloc(struct pb_set *s, int64_t n, size_t bytes)
{
    void *p = fg_arena_alloc(&s->arena, (uint64_t)n, bytes);
    if (!p) abort();
    return p;
}

static inline uint16_t *pb_f16(struct pb_set *s, int64_t n, bool positive)
{
    uint16_t *p = pb_alloc(s, n, sizeof *p);
    for (int64_t i = 0; i < n; i++) {
        float v = (float)(pb_random(s) % 2000 + 1) / 1000.0f;
        p[i] = fg_f16_of_f32(positive ? v : v - 1.0f);
    }
    return p;
}

static inline char *pb_name(struct pb_set *s, int64_t layer, const char *key)
{
    char name[128];
    if (layer < 0) {
        snprintf(name, sizeof name, "%s", key);
    } else {
        snprintf(name, sizeof name, "layers.%d.%s", (int)layer, key);
    }
    char *copy = fg_arena_strdup(&s->arena, name, strlen(name));
    if (!copy) abort();
    return copy;
}

// The largest power of two up to 1024 that divides n; 0 below 8.
static inline int64_t pb_block(int64_t n)
{
    int64_t b = n & -n;
    if (b > 1024) b = 1024;
    return b < 8 ? 0 : b;
}

static inline struct fg_qmat *pb_mat(struct pb_set *s, int64_t layer, const char *key,
                                     enum fg_qformat format, int64_t rows, int64_t cols,
                                     const char *site, int64_t rank)
{
    struct fg_qset_mat *mat = &s->mats[s->set.n_mats++];
    struct fg_qmat *m = &mat->m;
    int64_t per = fg_qformat_rows_per_index(format), n = rows / per;
    *mat = (struct fg_qset_mat){.name = pb_name(s, layer, key), .file = "memory"};
    *m = (struct fg_qmat){.format = format, .rows = rows, .cols = cols, .rank = rank};
    if (site && pb_block(cols)) {
        m->site = site;
        m->block = pb_block(cols);
    }
    if (fg_qformat_is_lut(format)) {
        int entries = fg_qformat_entries(format), bits = fg_qformat_index_bits(format);
        uint64_t row_bytes = fg_qformat_row_bytes(format, (uint64_t)cols);
        uint8_t *idx = pb_alloc(s, n * cols, 1), *pidx = pb_alloc(s, n * (int64_t)row_bytes, 1);
        for (int64_t i = 0; i < n * cols; i++) {
            idx[i] = (uint8_t)(pb_random(s) % (uint32_t)entries);
        }
        for (int64_t r = 0; r < n; r++) {
            fg_bits_pack(pidx + (uint64_t)r * row_bytes, idx + r * cols, (uint64_t)cols, bits);
        }
        if (s->as_idx) {
            m->idx = idx;
        } else {
            m->pidx = pidx;
        }
        m->lut = pb_f16(s, entries * per, false);
    } else if (format == FG_Q_INT8) {
        int8_t *codes = pb_alloc(s, rows * cols, 1);
        for (int64_t i = 0; i < rows * cols; i++) {
            codes[i] = (int8_t)((int)(pb_random(s) % 255) - 127);
        }
        m->codes = codes;
    } else if (format == FG_Q_F32) {
        float *w = pb_alloc(s, rows * cols, sizeof *w);
        for (int64_t i = 0; i < rows * cols; i++) {
            w[i] = (float)i;
        }
        m->weight = w;
    } else {
        m->weight = pb_f16(s, rows * cols, false); // finite as BF16 too
    }
    if (!fg_qformat_is_kept(format)) m->scale = pb_f16(s, rows, true);
    if (rank) {
        m->lr_a = pb_f16(s, rows * rank, false);
        m->lr_b = pb_f16(s, rank * cols, false);
    }
    return m;
}

// The same factors in INT8.
static inline void pb_int8_factors(struct pb_set *s, struct fg_qmat *m)
{
    const int64_t n[2] = {m->rows * m->rank, m->rank * m->cols};
    int8_t *codes[2];
    for (int i = 0; i < 2; i++) {
        codes[i] = pb_alloc(s, n[i], 1);
        for (int64_t k = 0; k < n[i]; k++)
            codes[i][k] = (int8_t)((int)(pb_random(s) % 255) - 127);
    }
    float *scale = pb_alloc(s, m->rank, sizeof *scale);
    for (int64_t k = 0; k < m->rank; k++)
        scale[k] = (float)(pb_random(s) % 1000 + 1) * 1e-7f;
    m->lr_dtype = FG_LR_I8;
    m->lr_a = codes[0];
    m->lr_b = codes[1];
    m->lr_scale = scale;
}

static inline void pb_small(struct pb_set *s, int64_t layer, const char *key,
                            enum fg_st_dtype dtype, int rank, int64_t a, int64_t b, int64_t c)
{
    struct fg_qset_small *t = &s->small[s->set.n_small++];
    *t = (struct fg_qset_small){.name = pb_name(s, layer, key), .dtype = dtype, .rank = rank};
    int64_t extent[3] = {a, b, c}, n = 1;
    for (int k = 0; k < rank; k++) {
        t->shape[k] = (uint64_t)extent[k];
        n *= extent[k];
    }
    t->bytes = (uint64_t)n * fg_st_dtype_bytes(dtype);
    t->data = pb_f16(s, n * (int64_t)fg_st_dtype_bytes(dtype) / 2, true); // finite in each type
    t->file = "memory";
}

static inline void pb_vec(struct pb_set *s, int64_t layer, const char *key, int64_t n)
{
    pb_small(s, layer, key, FG_ST_F32, 1, n, 0, 0);
}

static inline void pb_rot(struct pb_set *s, int64_t layer, const char *site, int64_t n)
{
    if (!pb_block(n)) return;
    uint8_t *bits = pb_alloc(s, (n + 7) / 8, 1);
    for (int64_t i = 0; i < (n + 7) / 8; i++) {
        bits[i] = (uint8_t)pb_random(s);
    }
    s->rots[s->set.n_rots++] = (struct fg_qset_rot){
        .layer = layer, .site = site, .n = n, .block = pb_block(n), .bits = bits};
}

static inline int pb_by_mat(const void *a, const void *b)
{
    return strcmp(((const struct fg_qset_mat *)a)->name, ((const struct fg_qset_mat *)b)->name);
}

static inline int pb_by_small(const void *a, const void *b)
{
    return strcmp(((const struct fg_qset_small *)a)->name, ((const struct fg_qset_small *)b)->name);
}

static inline int pb_by_rot(const void *a, const void *b)
{
    const struct fg_qset_rot *x = a, *y = b;
    if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
    return strcmp(x->site, y->site);
}

static inline void pb_begin(struct pb_set *s, uint32_t seed)
{
    memset(s, 0, sizeof *s);
    fg_arena_init(&s->arena, 0);
    s->seed = seed;
    s->set.mats = s->mats;
    s->set.small = s->small;
    s->set.rots = s->rots;
}

static inline void pb_end(struct pb_set *s)
{
    qsort(s->mats, s->set.n_mats, sizeof *s->mats, pb_by_mat);
    qsort(s->small, s->set.n_small, sizeof *s->small, pb_by_small);
    qsort(s->rots, s->set.n_rots, sizeof *s->rots, pb_by_rot);
}

static inline void pb_free(struct pb_set *s)
{
    fg_arena_free(&s->arena);
}

static inline void pb_layer(struct pb_set *s, const struct pb_model *m, int64_t i, bool linear)
{
    int64_t H = m->hidden, F = m->intermediate, D = m->head_dim;
    int64_t out = m->n_heads * D, q = out * (m->gate ? 2 : 1), kv = m->n_kv_heads * D;
    int64_t V = m->v_heads * m->dv, C = 2 * m->k_heads * m->dk + V;
    const char *mlp_in = m->rotated ? "mlp_in" : NULL, *mlp_mid = m->rotated ? "mlp_mid" : NULL;
    const char *mix_in = m->rotated ? "mix_in" : NULL, *mix_out = m->rotated ? "mix_out" : NULL;
    pb_mat(s, i, "mlp.gate_proj", FG_Q_V2X64, F, H, mlp_in, 0);
    pb_mat(s, i, "mlp.up_proj", FG_Q_V2X16, F, H, mlp_in, 0);
    pb_mat(s, i, "mlp.down_proj", FG_Q_LUT4, H, F, mlp_mid, 3);
    pb_vec(s, i, "input_layernorm.weight", H);
    pb_small(s, i, "post_attention_layernorm.weight", FG_ST_BF16, 1, H, 0, 0);
    if (linear) {
        pb_mat(s, i, "linear_attn.in_proj_qkv", FG_Q_V2X64, C, H, mix_in, 4);
        pb_int8_factors(s, pb_mat(s, i, "linear_attn.in_proj_z", FG_Q_LUT4, V, H, mix_in, 1));
        pb_mat(s, i, "linear_attn.in_proj_a", FG_Q_BF16, m->v_heads, H, NULL, 0);
        pb_mat(s, i, "linear_attn.in_proj_b", FG_Q_F32, m->v_heads, H, NULL, 0);
        pb_mat(s, i, "linear_attn.out_proj", FG_Q_INT8, H, V, mix_out, 0);
        pb_small(s, i, "linear_attn.conv1d.weight", FG_ST_F16, 3, C, 1, m->conv);
        pb_vec(s, i, "linear_attn.A_log", m->v_heads);
        pb_vec(s, i, "linear_attn.dt_bias", m->v_heads);
        pb_vec(s, i, "linear_attn.norm.weight", m->dv);
    } else {
        pb_mat(s, i, "self_attn.q_proj", FG_Q_V2X16, q, H, mix_in, 2);
        pb_int8_factors(s, pb_mat(s, i, "self_attn.k_proj", FG_Q_INT8, kv, H, mix_in, 2));
        pb_mat(s, i, "self_attn.v_proj", FG_Q_F16, kv, H, mix_in, 0);
        pb_mat(s, i, "self_attn.o_proj", FG_Q_LUT6, H, out, mix_out, 0);
        if (m->qk_norm) {
            pb_vec(s, i, "self_attn.q_norm.weight", D);
            pb_vec(s, i, "self_attn.k_norm.weight", D);
        }
        if (m->bias) {
            pb_vec(s, i, "self_attn.q_proj.bias", q);
            pb_vec(s, i, "self_attn.k_proj.bias", kv);
            pb_vec(s, i, "self_attn.v_proj.bias", kv);
        }
    }
    if (!m->rotated) return;
    pb_rot(s, i, "mlp_in", H);
    pb_rot(s, i, "mlp_mid", F);
    pb_rot(s, i, "mix_in", H);
    pb_rot(s, i, "mix_out", linear ? V : out);
}

static inline void pb_head(struct pb_set *s, const struct pb_model *m)
{
    pb_mat(s, -1, "lm_head", FG_Q_LUT4, m->vocab, m->hidden, NULL, 0);
    pb_vec(s, -1, "norm.weight", m->hidden);
}

// A drafter of one layer in the shapes of `m`, with convolutions and selector.
static inline void pb_drafter(struct pb_set *s, const struct pb_model *m)
{
    struct pb_model own = *m;
    own.gate = false;
    own.rotated = false;
    pb_layer(s, &own, 0, false);
    pb_mat(s, 0, "attention_conv.kernel_projection", FG_Q_INT8, 8, m->hidden, NULL, 0);
    pb_mat(s, 0, "mlp_conv.kernel_projection", FG_Q_INT8, 8, m->hidden, NULL, 0);
    pb_small(s, 0, "attention_conv.base_kernel", FG_ST_BF16, 3, 2, 2, m->hidden);
    pb_small(s, 0, "mlp_conv.base_kernel", FG_ST_BF16, 3, 2, 2, m->hidden);
    pb_mat(s, -1, "fc", FG_Q_V2X64, m->hidden, 3 * m->hidden, NULL, 0);
    pb_mat(s, -1, "candidate_selector.hidden_projection", FG_Q_F16, 6, m->hidden, NULL, 0);
    pb_vec(s, -1, "hidden_norm.weight", m->hidden);
    pb_vec(s, -1, "norm.weight", m->hidden);
}

static inline struct fg_package_spec pb_spec(const struct pb_set *s, enum fg_package_kind kind,
                                             int64_t first, int64_t last)
{
    return (struct fg_package_spec){.kind = kind,
                                    .layer_first = first,
                                    .layer_last = last,
                                    .weights_digest = PB_DIGEST,
                                    .export_digest = PB_EXPORT,
                                    .id = kind == FG_PACKAGE_HEAD ? PB_ID : NULL,
                                    .set = &s->set};
}
#endif
