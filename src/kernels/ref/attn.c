// kernels/ref/attn.c: the plain C truth of attention over stored keys and values, one tile at a
// time (kernels/kv.h). Query rows go through a tile FG_ATTN_BLOCK_MAX at once, so that each token
// is read from its page once for all of them; what a row gets does not depend on that.
#include "base/num.h"
#include "kernels/levels.h"
#include "kernels/ref/kv.h"
#include "kernels/ref/lanes.h"
#include "kernels/ref/math.h"
#include <math.h>
#include <string.h>

#define BLOCK FG_ATTN_BLOCK_MAX
#define P_MAX 32767.0f

// Query rows r0 .. r0 + n - 1 in one tile.
struct block {
    int64_t r0, n, W;
    int64_t seen[BLOCK], tokens; // that a row sees, at least 0; that any sees
    float m[BLOCK], l[BLOCK];
    float (*e)[FG_KV_PAGE]; // [n]: scores, their exponentials, weights of the values
    float *o;               // [n][W]
    int32_t *sum;           // [n][W]
};

uint64_t fg_attn_tile_scratch_bytes(int64_t D)
{
    // Enough for every instruction set: scores, integer probabilities and three scales of each row,
    // both scales of each token, 16 tokens of keys and of values widened, and the outputs of the
    // rows as floats and as integers. Each is a multiple of 64 bytes.
    const uint64_t W = (uint64_t)fg_kv_width(D);
    const uint64_t rows = BLOCK * (FG_KV_PAGE * (sizeof(float) + sizeof(int16_t)) + 16);
    const uint64_t scales = 2 * FG_KV_PAGE * sizeof(float);
    const uint64_t widened = 2 * 16 * W * sizeof(float);
    const uint64_t outputs = BLOCK * W * (sizeof(float) + sizeof(int32_t));
    return rows + scales + widened + outputs;
}

void fg_attn_query(const struct fg_kernels *kn, int8_t *qc, float *qs, int32_t *qsum,
                   const float *q, int64_t D, float scale)
{
    static_assert(FG_KV_WIDTH_MAX <= FG_ACT_BLOCK, "a row is one block");
    const int64_t W = fg_kv_width(D);
    float s[2];
    int32_t sums[2];
    kn->quantize2(qc, qc + W, s, sums, q, D);
    memset(qc + D, 0, (size_t)(W - D));
    memset(qc + W + D, 0, (size_t)(W - D));
    *qs = s[1] * scale;
    *qsum = 255 * sums[0] + sums[1];
}

// s_t from keys as they are read back.
static void scores(struct block *b, const struct fg_kv_head *kv, int64_t pos,
                   const struct fg_attn_rows *rows)
{
    float k[FG_KV_WIDTH_MAX];
    for (int64_t t = 0; t < b->tokens; t++) {
        fg_kv_read(kv, pos + t, 1, k, NULL);
        for (int64_t i = 0; i < b->n; i++) {
            if (t >= b->seen[i]) continue;
            const float *q = rows->q + (b->r0 + i) * b->W;
            float sum = 0.0f;
            for (int64_t d = 0; d < kv->D; d++)
                sum = fmaf(q[d], k[d], sum);
            b->e[i][t] = sum * rows->scale;
        }
    }
}

// s_t from codes of keys and queries.
static void scores_of_codes(struct block *b, const struct fg_kv_head *kv, int64_t pos,
                            const struct fg_attn_rows *rows)
{
    int8_t k[FG_KV_WIDTH_MAX];
    for (int64_t t = 0; t < b->tokens; t++) {
        fg_kv_row(k, kv, true, pos + t);
        const float ks = fg_f16_to_f32(kv->ks[pos + t]);
        for (int64_t i = 0; i < b->n; i++) {
            if (t >= b->seen[i]) continue;
            const int8_t *hi = rows->qc + (b->r0 + i) * 2 * b->W, *lo = hi + b->W;
            int32_t sum = 0;
            for (int64_t d = 0; d < kv->D; d++)
                sum += k[d] * (255 * hi[d] + lo[d]);
            b->e[i][t] = (float)sum * rows->qs[b->r0 + i] * ks;
        }
    }
}

static void softmax(struct block *b)
{
    for (int64_t i = 0; i < b->n; i++) {
        float *e = b->e[i], m = -INFINITY, lane[16] = {0};
        for (int64_t t = 0; t < b->seen[i]; t++)
            m = e[t] > m ? e[t] : m;
        for (int64_t t = 0; t < b->seen[i]; t++) {
            e[t] = fg_exp_f32(e[t] - m);
            lane[t % 16] += e[t];
        }
        b->m[i] = m;
        b->l[i] = fg_tree(lane);
    }
}

// o from values as they are read back.
static void outputs(struct block *b, const struct fg_kv_head *kv, int64_t pos)
{
    float v[FG_KV_WIDTH_MAX];
    memset(b->o, 0, (size_t)(b->n * b->W) * sizeof *b->o);
    for (int64_t t = 0; t < b->tokens; t++) {
        fg_kv_read(kv, pos + t, 1, NULL, v);
        for (int64_t i = 0; i < b->n; i++) {
            if (t >= b->seen[i]) continue;
            float *o = b->o + i * b->W;
            for (int64_t d = 0; d < kv->D; d++)
                o[d] = fmaf(b->e[i][t], v[d], o[d]);
        }
    }
}

// The integers P_t of a row in place of its e_t, given the scales of the values; returns pm.
static float integer_weights(float *e, int64_t n, const uint16_t *vs)
{
    float pm = 0.0f;
    for (int64_t t = 0; t < n; t++) {
        e[t] *= fg_f16_to_f32(vs[t]);
        pm = e[t] > pm ? e[t] : pm;
    }
    const float factor = P_MAX / pm;
    for (int64_t t = 0; t < n; t++) {
        const float p = e[t] * factor;
        e[t] = pm == 0.0f ? 0.0f : rintf(p < P_MAX ? p : P_MAX);
    }
    return pm;
}

// o from codes of values.
static void outputs_of_codes(struct block *b, const struct fg_kv_head *kv, int64_t pos)
{
    int8_t v[FG_KV_WIDTH_MAX];
    float pm[BLOCK];
    memset(b->sum, 0, (size_t)(b->n * b->W) * sizeof *b->sum);
    for (int64_t i = 0; i < b->n; i++)
        pm[i] = integer_weights(b->e[i], b->seen[i], kv->vs + pos);
    for (int64_t t = 0; t < b->tokens; t++) {
        fg_kv_row(v, kv, false, pos + t);
        for (int64_t i = 0; i < b->n; i++) {
            if (t >= b->seen[i]) continue;
            const int32_t p = (int32_t)b->e[i][t];
            for (int64_t d = 0; d < kv->D; d++)
                b->sum[i * b->W + d] += p * v[d];
        }
    }
    for (int64_t i = 0; i < b->n; i++)
        for (int64_t d = 0; d < b->W; d++)
            b->o[i * b->W + d] = (float)b->sum[i * b->W + d] * (pm[i] / P_MAX);
}

// One row's (m, l, o) with a later one.
static void combine(const struct fg_attn_acc *acc, int64_t r, float m2, float l2, const float *o2,
                    int64_t W)
{
    float *o = acc->o + r * W, m = acc->m[r];
    if (m == -INFINITY) {
        acc->m[r] = m2;
        acc->l[r] = l2;
        memcpy(o, o2, (size_t)W * sizeof *o);
        return;
    }
    if (m2 == -INFINITY) return;
    const float M = m > m2 ? m : m2;
    const float a = fg_exp_f32(m - M), b = fg_exp_f32(m2 - M);
    acc->m[r] = M;
    acc->l[r] = fmaf(acc->l[r], a, l2 * b);
    for (int64_t d = 0; d < W; d++)
        o[d] = fmaf(o[d], a, o2[d] * b);
}

static void attn_tile(const struct fg_attn_acc *acc, const struct fg_kv_head *kv, int64_t tile,
                      const struct fg_attn_rows *rows, int64_t r0, int64_t r1, void *scratch,
                      bool fast)
{
    const int64_t pos = tile * FG_KV_PAGE;
    struct block b = {.W = fg_kv_width(kv->D), .e = scratch};
    b.o = b.e[BLOCK];
    b.sum = (int32_t *)(b.o + BLOCK * b.W);
    for (b.r0 = r0; b.r0 < r1; b.r0 += BLOCK) {
        b.n = r1 - b.r0 < BLOCK ? r1 - b.r0 : BLOCK;
        b.tokens = 0;
        for (int64_t i = 0; i < b.n; i++) {
            const int64_t n = rows->pos[b.r0 + i] + 1 - pos;
            b.seen[i] = n < 0 ? 0 : n < FG_KV_PAGE ? n : FG_KV_PAGE;
            b.tokens = b.seen[i] > b.tokens ? b.seen[i] : b.tokens;
        }
        (fast && fg_kv_k8(kv->format) ? scores_of_codes : scores)(&b, kv, pos, rows);
        softmax(&b);
        (fast && fg_kv_v8(kv->format) ? outputs_of_codes : outputs)(&b, kv, pos);
        for (int64_t i = 0; i < b.n; i++)
            if (b.seen[i] > 0) combine(acc, b.r0 + i, b.m[i], b.l[i], b.o + i * b.W, b.W);
    }
}

static void attn_tile_exact(const struct fg_attn_acc *acc, const struct fg_kv_head *kv,
                            int64_t tile, const struct fg_attn_rows *rows, int64_t r0, int64_t r1,
                            void *scratch)
{
    attn_tile(acc, kv, tile, rows, r0, r1, scratch, false);
}

static void attn_tile_fast(const struct fg_attn_acc *acc, const struct fg_kv_head *kv, int64_t tile,
                           const struct fg_attn_rows *rows, int64_t r0, int64_t r1, void *scratch)
{
    attn_tile(acc, kv, tile, rows, r0, r1, scratch, true);
}

static void attn_combine(const struct fg_attn_acc *acc, const struct fg_attn_acc *later, int64_t r0,
                         int64_t r1, int64_t W)
{
    for (int64_t r = r0; r < r1; r++)
        combine(acc, r, later->m[r], later->l[r], later->o + r * W, W);
}

static void attn_finish(float *out, const struct fg_attn_acc *acc, int64_t r, int64_t D)
{
    const float *o = acc->o + r * fg_kv_width(D);
    for (int64_t d = 0; d < D; d++)
        out[d] = o[d] / acc->l[r];
}

void fg_fill_attn_ref(struct fg_kernels *k)
{
    k->kv_store = fg_kv_store_ref;
    k->attn_tile[0] = attn_tile_exact;
    k->attn_tile[1] = attn_tile_fast;
    k->attn_combine = attn_combine;
    k->attn_finish = attn_finish;
}
