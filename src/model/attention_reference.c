// model/attention_reference.c: tiles of the history, then the call's own rows, each folded into
// every row's running maximum, denominator and numerator; o holds the numerators. In plain C.
#include "model/attention_reference.h"
#include "base/num.h"
#include "kernels/ref/math.h"
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define BLOCK 32         // tokens whose scores are summed side by side; dims likewise
#define PIECE FG_KV_PAGE // tokens that are read from the cache at once
#define VERIFY_ROWS_MAX 8
#define FP16_MAX 65504.0f
#define FOLD 128.0f // codes and scales meet as code / 128 and scale * 128
#define VALUE_SCALE_MIN 1e-4f

struct fg_c2t_units fg_c2t_units_default(void)
{
    return (struct fg_c2t_units){
        .s8 = 0.25f, .s8b = 0.25f, .pf8 = 1.0f / 64, .tile_verify = 2048, .tile_prefill = 4096};
}

// The tokens at work, and what is kept of each row.
struct tile {
    int64_t D, Dp; // Dp: D in whole blocks
    int64_t n;
    float *k;       // [n / BLOCK][D][BLOCK]
    float *v;       // [n][Dp], zero from D on
    float *ks, *vs; // [n] scales * 128, of parts in INT8 in mode c2t
    bool has_ks, has_vs;
    float *s;                // [n] a row's scores, then its probabilities
    float *sum;              // [Dp] a row's numerator of the tile
    float *m, *l;            // [rows] running maximum (-infinity: nothing yet) and denominator
    float *k_in, *v_in;      // [PIECE][D] as read back
    uint16_t *k_codes;       // [PIECE][D] bytes or halves
    int8_t *v_codes;         // [PIECE][D]
    uint16_t *ks_in, *vs_in; // [PIECE]
};

static int64_t in_blocks(int64_t n)
{
    return (n + BLOCK - 1) / BLOCK * BLOCK;
}

static int64_t tokens_max(const struct fg_c2t_units *u)
{
    return in_blocks(u->tile_verify > u->tile_prefill ? u->tile_verify : u->tile_prefill);
}

// The next n elements of `bytes` each, in whole cache lines.
static void *take(uint8_t *base, uint64_t *at, int64_t n, uint64_t bytes)
{
    uint8_t *p = base ? base + *at : NULL;
    *at += ((uint64_t)n * bytes + 63) / 64 * 64;
    return p;
}

// Lays the parts out from `base` on (NULL: only counts). Returns their bytes.
static uint64_t lay_out(struct tile *t, uint8_t *base, int64_t D, int64_t rows, int64_t tokens)
{
    uint64_t at = 0;
    t->D = D;
    t->Dp = in_blocks(D);
    t->k = take(base, &at, tokens * D, sizeof *t->k);
    t->v = take(base, &at, tokens * t->Dp, sizeof *t->v);
    t->ks = take(base, &at, tokens, sizeof *t->ks);
    t->vs = take(base, &at, tokens, sizeof *t->vs);
    t->s = take(base, &at, tokens, sizeof *t->s);
    t->sum = take(base, &at, t->Dp, sizeof *t->sum);
    t->m = take(base, &at, rows, sizeof *t->m);
    t->l = take(base, &at, rows, sizeof *t->l);
    t->k_in = take(base, &at, PIECE * D, sizeof *t->k_in);
    t->v_in = take(base, &at, PIECE * D, sizeof *t->v_in);
    t->k_codes = take(base, &at, PIECE * D, sizeof *t->k_codes);
    t->v_codes = take(base, &at, PIECE * D, sizeof *t->v_codes);
    t->ks_in = take(base, &at, PIECE, sizeof *t->ks_in);
    t->vs_in = take(base, &at, PIECE, sizeof *t->vs_in);
    return at;
}

uint64_t fg_attention_reference_scratch_bytes(int64_t D, int64_t T, int64_t G,
                                              const struct fg_c2t_units *units)
{
    struct tile t;
    return lay_out(&t, NULL, D, T * G, tokens_max(units));
}

// ---- tokens into the tile

static void put_key(const struct tile *t, int64_t i, const float *k)
{
    float *to = t->k + i / BLOCK * BLOCK * t->D + i % BLOCK;
    for (int64_t d = 0; d < t->D; d++)
        to[d * BLOCK] = k[d];
}

static void put_value(const struct tile *t, int64_t i, const float *v)
{
    float *to = t->v + i * t->Dp;
    memcpy(to, v, (size_t)t->D * sizeof *v);
    memset(to + t->D, 0, (size_t)(t->Dp - t->D) * sizeof *v);
}

static void codes_to_floats(float *out, const int8_t *codes, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)codes[i] / FOLD;
}

static void load_history(struct tile *t, const struct fg_kv_head *kv, int64_t from, int64_t n,
                         bool c2t)
{
    t->n = n;
    t->has_ks = c2t && fg_kv_k8(kv->format);
    t->has_vs = c2t && fg_kv_v8(kv->format);
    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t m = n - at < PIECE ? n - at : PIECE;
        fg_kv_read(kv, from + at, m, t->has_ks ? NULL : t->k_in, t->has_vs ? NULL : t->v_in);
        if (t->has_vs) // keys in INT8 come with values in INT8
            fg_kv_export(kv, from + at, m, t->k_codes, t->has_ks ? t->ks_in : NULL, t->v_codes,
                         t->vs_in);
        if (t->has_ks) codes_to_floats(t->k_in, (const int8_t *)t->k_codes, m * t->D);
        if (t->has_vs) codes_to_floats(t->v_in, t->v_codes, m * t->D);
        for (int64_t i = 0; i < m; i++) {
            put_key(t, at + i, t->k_in + i * t->D);
            put_value(t, at + i, t->v_in + i * t->D);
            if (t->has_ks) t->ks[at + i] = fg_f16_to_f32(t->ks_in[i]) * FOLD;
            if (t->has_vs) t->vs[at + i] = fg_f16_to_f32(t->vs_in[i]) * FOLD;
        }
    }
}

static void to_fp16(float *out, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float kept = x[i] < -FP16_MAX ? -FP16_MAX : x[i] > FP16_MAX ? FP16_MAX : x[i];
        out[i] = fg_f16_to_f32(fg_f16_of_f32(kept));
    }
}

static void load_own(struct tile *t, const float *k, int64_t ldk, const float *v, int64_t ldv,
                     int64_t n)
{
    t->n = n;
    t->has_ks = t->has_vs = false;
    for (int64_t i = 0; i < n; i++) {
        to_fp16(t->k_in, k + i * ldk, t->D);
        to_fp16(t->v_in, v + i * ldv, t->D);
        put_key(t, i, t->k_in);
        put_value(t, i, t->v_in);
    }
}

// ---- one row and the tile's first n tokens

static void scores(const struct tile *t, const float *q, int64_t n)
{
    float scale = 1.0f / sqrtf((float)t->D);
    for (int64_t b = 0; b < n; b += BLOCK) {
        const float *k = t->k + b * t->D;
        float sum[BLOCK] = {0};
        for (int64_t d = 0; d < t->D; d++, k += BLOCK) {
            for (int i = 0; i < BLOCK; i++)
                sum[i] += q[d] * k[i];
        }
        for (int i = 0; i < BLOCK; i++) // tokens past n: unused
            t->s[b + i] = sum[i] * scale;
    }
    for (int64_t i = 0; t->has_ks && i < n; i++)
        t->s[i] *= t->ks[i];
}

static float step(float s, float u)
{
    float x = s / u;
    x = x < -128.0f ? -128.0f : x > 127.0f ? 127.0f : x;
    return u * ((x + FG_ROUND_MAGIC) - FG_ROUND_MAGIC); // half to even
}

static float fp8(float p, float u)
{
    return fg_f8e4m3_to_f32(fg_f8e4m3_of_f32(p / u)) * u;
}

static float largest(const float *x, int64_t n)
{
    float max = x[0];
    for (int64_t i = 1; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

// In several lanes, so that a long sum does not lose its small terms.
static float sum_of(const float *x, int64_t n)
{
    float lanes[BLOCK] = {0}, sum = 0;
    for (int64_t i = 0; i < n; i++)
        lanes[i % BLOCK] += x[i];
    for (int i = 0; i < BLOCK; i++)
        sum += lanes[i];
    return sum;
}

// Scores to probabilities of FP8; *l receives the sum before the value scales, *vm what the
// numerator is yet to be multiplied by. The tile's maximum is returned.
static float c2t_probabilities(const struct tile *t, int64_t n, const struct fg_c2t_units *u,
                               float *l, float *vm)
{
    for (int64_t i = 0; i < n; i++) {
        // Before the key scales a step would be as large as they are: left out there.
        if (!t->has_ks) t->s[i] = step(t->s[i], u->s8);
        t->s[i] = step(t->s[i], u->s8b);
    }
    float m = largest(t->s, n);
    for (int64_t i = 0; i < n; i++)
        t->s[i] = fp8(fg_exp_f32(t->s[i] - m), u->pf8);
    *l = sum_of(t->s, n);
    *vm = 1;
    if (t->has_vs) {
        float max = largest(t->vs, n);
        *vm = max > VALUE_SCALE_MIN ? max : VALUE_SCALE_MIN;
        for (int64_t i = 0; i < n; i++)
            t->s[i] = fp8(t->s[i] * (t->vs[i] / *vm), u->pf8);
    }
    return m;
}

static float plain_probabilities(const struct tile *t, int64_t n, float *l)
{
    float m = largest(t->s, n);
    for (int64_t i = 0; i < n; i++)
        t->s[i] = fg_exp_f32(t->s[i] - m);
    *l = sum_of(t->s, n);
    return m;
}

static void weigh_values(const struct tile *t, int64_t n)
{
    for (int64_t b = 0; b < t->Dp; b += BLOCK) {
        float sum[BLOCK] = {0};
        const float *v = t->v + b;
        for (int64_t i = 0; i < n; i++, v += t->Dp) {
            for (int d = 0; d < BLOCK; d++)
                sum[d] += t->s[i] * v[d];
        }
        memcpy(t->sum + b, sum, sizeof sum);
    }
}

// units NULL: not in mode c2t, or the call's own rows.
static void fold(const struct tile *t, int64_t row, float *o, const float *q, int64_t n,
                 const struct fg_c2t_units *units)
{
    float l, vm = 1;
    scores(t, q, n);
    float m = units ? c2t_probabilities(t, n, units, &l, &vm) : plain_probabilities(t, n, &l);
    weigh_values(t, n);
    float max = m > t->m[row] ? m : t->m[row];
    float old = fg_exp_f32(t->m[row] - max), new = fg_exp_f32(m - max);
    t->l[row] = t->l[row] * old + l * new;
    for (int64_t d = 0; d < t->D; d++)
        o[d] = o[d] * old + t->sum[d] * new *vm;
    t->m[row] = max;
}

void fg_attention_reference(float *o, int64_t ldo, const float *q, int64_t ldq, const float *k,
                            int64_t ldk, const float *v, int64_t ldv, const struct fg_kv_head *kv,
                            int64_t pos, int64_t T, int64_t G, enum fg_attention mode,
                            const struct fg_c2t_units *units, void *scratch)
{
    assert(mode != FG_ATTENTION_STORED);
    bool c2t = mode == FG_ATTENTION_C2T;
    int64_t tokens = T <= VERIFY_ROWS_MAX ? units->tile_verify : units->tile_prefill;
    struct tile t;
    lay_out(&t, scratch, kv->D, T * G, tokens_max(units));
    for (int64_t row = 0; row < T * G; row++) {
        t.m[row] = -INFINITY;
        t.l[row] = 0;
        memset(o + row / G * ldo + row % G * t.D, 0, (size_t)t.D * sizeof *o);
    }
    for (int64_t from = 0; from < pos; from += tokens) {
        load_history(&t, kv, from, pos - from < tokens ? pos - from : tokens, c2t);
        for (int64_t row = 0; row < T * G; row++) {
            int64_t at = row % G * t.D;
            fold(&t, row, o + row / G * ldo + at, q + row / G * ldq + at, t.n, c2t ? units : NULL);
        }
    }
    for (int64_t from = 0; from < T; from += tokens) {
        load_own(&t, k + from * ldk, ldk, v + from * ldv, ldv,
                 T - from < tokens ? T - from : tokens);
        for (int64_t row = from * G; row < T * G; row++) {
            int64_t seen = row / G + 1 - from, at = row % G * t.D;
            fold(&t, row, o + row / G * ldo + at, q + row / G * ldq + at, seen < t.n ? seen : t.n,
                 NULL);
        }
    }
    for (int64_t row = 0; row < T * G; row++) {
        float *out = o + row / G * ldo + row % G * t.D;
        for (int64_t d = 0; d < t.D; d++)
            out[d] /= t.l[row];
    }
}
