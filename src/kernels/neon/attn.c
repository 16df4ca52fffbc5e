// kernels/neon/attn.c: attention over stored keys and values, a tile at a time (kv.h). Up to six
// query rows share what is read of a page. Sums of floats are chains of one row and one token (of
// keys) or one dim (of values) to a lane; those of codes are exact, by SDOT.
//
// SDOT takes signed bytes, so the 15-bit weights P of the values become P - 16384 = 256 * hi + lo
// with both digits in a byte, and sum P v = 256 * sum hi v + sum lo v + 16384 * sum v, of which the
// last sum serves all rows.
#include "kernels/inline.h"
#include "kernels/levels.h"
#include "kernels/neon/kv.h"
#include "kernels/neon/math.h"
#include "kernels/ref/lanes.h"
#include <string.h>

enum { ROWS = 6, MIDDLE = 16384 };

// How keys or values are used: floats, codes times scale as floats, codes as integers.
enum part { F32, F16, READ, CODES };

// What becomes of a row's o: it takes the tile's, keeps its own, or both are combined.
enum fate { TAKE, KEEP, BOTH };

// Up to ROWS query rows in one tile.
struct work {
    enum part key, value;
    int64_t D, W;
    const uint8_t *k, *v;         // the page
    float *ks, *vs;               // [FG_KV_PAGE] scales of its tokens, as far as a row sees them
    const float *q;               // [rows][W]
    float scale;                  // of q
    const int8_t *qc;             // [rows][hi, lo][W]
    const float *qs;              // [rows]
    int seen[ROWS], common, most; // tokens that a row sees; that all do; that any does
    float *e;                     // [rows][FG_KV_PAGE] scores, exponentials, weights
    int8_t *hi, *lo;              // [rows][FG_KV_PAGE] the digits of P
    float m[ROWS], l[ROWS], unit[ROWS]; // of the tile; unit: of its integers
    enum fate fate[ROWS];
    float a[ROWS], b[ROWS]; // of combine
    float *o;               // [rows][W]
};

static int up16(int n)
{
    return (n + 15) / 16 * 16;
}

FG_INLINE int32x4_t dot4(int32x4_t sum, int8x16_t x, int8x16_t y, const int lane)
{
    switch (lane) { // the instruction holds it
    case 0: return vdotq_laneq_s32(sum, x, y, 0);
    case 1: return vdotq_laneq_s32(sum, x, y, 1);
    case 2: return vdotq_laneq_s32(sum, x, y, 2);
    default: return vdotq_laneq_s32(sum, x, y, 3);
    }
}

FG_INLINE float32x4_t from_f16(const uint8_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

// ---- scores -------------------------------------------------------------------------------------

// Dim d of 4 tokens of a block of keys, quarter h.
FG_INLINE float32x4_t key4(const int part, const uint8_t *block, int64_t d, int h, const float *ks)
{
    switch (part) {
    case F32: return vld1q_f32((const float *)block + d * 16 + 4 * h);
    case F16: return from_f16(block + d * 32 + 8 * h);
    default: {
        uint32x4_t four = vreinterpretq_u32_u8(vld1q_u8(block + d / 4 * 64 + 16 * h));
        uint32x4_t byte = vshlq_u32(four, vdupq_n_s32(-(int32_t)(d % 4 * 8)));
        int32x4_t code = vreinterpretq_s32_u32(vandq_u32(byte, vdupq_n_u32(255)));
        float32x4_t x = vcvtq_f32_s32(vsubq_s32(code, vdupq_n_s32(128)));
        return vmulq_f32(x, vld1q_f32(ks + 4 * h));
    }
    }
}

// Scores of R rows and the tokens of B blocks of 16 from block b on.
FG_INLINE void score_blocks(const struct work *w, int64_t b, const int part, const int R,
                            const int B)
{
    const int64_t bytes = w->W * 16 * (part == F32 ? 4 : part == F16 ? 2 : 1);
    const uint8_t *k = w->k + b * bytes;
    float32x4_t sum[24];
    FG_UNROLL_FULL
    for (int i = 0; i < R * B * 4; i++)
        sum[i] = vdupq_n_f32(0);
    for (int64_t d = 0; d < w->D; d++) {
        FG_UNROLL_FULL
        for (int i = 0; i < B * 4; i++) {
            float32x4_t key = key4(part, k + i / 4 * bytes, d, i % 4, w->ks + (b + i / 4) * 16);
            FG_UNROLL_FULL
            for (int r = 0; r < R; r++)
                sum[r * B * 4 + i] = vfmaq_n_f32(sum[r * B * 4 + i], key, w->q[r * w->W + d]);
        }
    }
    FG_UNROLL_FULL
    for (int r = 0; r < R; r++) {
        FG_UNROLL_FULL
        for (int i = 0; i < B * 4; i++)
            vst1q_f32(w->e + r * FG_KV_PAGE + b * 16 + i * 4,
                      vmulq_n_f32(sum[r * B * 4 + i], w->scale));
    }
}

FG_INLINE void score_floats(const struct work *w, const int part, const int R)
{
    enum { FEW = 1, MANY = 2 }; // blocks, so that at least 8 chains are under way
    const int64_t n = up16(w->most) / 16;
    int64_t b = 0;
    if (R == 1) {
        for (; b + MANY <= n; b += MANY)
            score_blocks(w, b, part, R, MANY);
    }
    for (; b < n; b++)
        score_blocks(w, b, part, R, FEW);
}

FG_INLINE void score_codes(const struct work *w, const int R)
{
    const int C = R > 4 ? 1 : R > 2 ? 2 : 4; // fours of tokens, so that both sums fit registers
    for (int t = 0; t < w->most; t += 4 * C) {
        const uint8_t *k = w->k + t / 16 * 16 * w->W + t % 16 * 4;
        const int8_t *q = w->qc;
        int32x4_t high[8], low[8]; // [R][C]
        FG_UNROLL_FULL
        for (int i = 0; i < R * C; i++)
            high[i] = low[i] = vdupq_n_s32(0);
        for (int64_t d = 0; d < w->W; d += 16, k += 256, q += 16) {
            int8x16_t hi[ROWS], lo[ROWS];
            FG_UNROLL_FULL
            for (int r = 0; r < R; r++) {
                hi[r] = vld1q_s8(q + 2 * r * w->W);
                lo[r] = vld1q_s8(q + (2 * r + 1) * w->W);
            }
            FG_UNROLL_FULL
            for (int i = 0; i < 4 * C; i++) { // four dims of four tokens
                uint8x16_t biased = vld1q_u8(k + i / C * 64 + i % C * 16);
                int8x16_t key = vreinterpretq_s8_u8(veorq_u8(biased, vdupq_n_u8(128)));
                FG_UNROLL_FULL
                for (int r = 0; r < R; r++) {
                    high[r * C + i % C] = dot4(high[r * C + i % C], key, hi[r], i / C);
                    low[r * C + i % C] = dot4(low[r * C + i % C], key, lo[r], i / C);
                }
            }
        }
        FG_UNROLL_FULL
        for (int i = 0; i < R * C; i++) {
            const int at = t + i % C * 4;
            float32x4_t s = vcvtq_f32_s32(vmlaq_n_s32(low[i], high[i], 255));
            s = vmulq_n_f32(s, w->qs[i / C]);
            vst1q_f32(w->e + i / C * FG_KV_PAGE + at, vmulq_f32(s, vld1q_f32(w->ks + at)));
        }
    }
}

FG_INLINE void score(const struct work *w, const int R)
{
    switch (w->key) {
    case F32: score_floats(w, F32, R); break;
    case F16: score_floats(w, F16, R); break;
    case READ: score_floats(w, READ, R); break;
    default: score_codes(w, R);
    }
}

// ---- softmax ------------------------------------------------------------------------------------

// Scores of row r to exponentials (0 up to a multiple of 16), m and l.
static void softmax(struct work *w, int r)
{
    float *e = w->e + r * FG_KV_PAGE, lane[16];
    const int n = w->seen[r], end = up16(n);
    for (int t = n; t < end; t++)
        e[t] = -INFINITY;
    float32x4_t most = vdupq_n_f32(-INFINITY);
    for (int t = 0; t < end; t += 4)
        most = vmaxnmq_f32(most, vld1q_f32(e + t)); // NaN in e leaves `most`
    const float m = vmaxnmvq_f32(most);

    float32x4_t sum[4];
    FG_UNROLL_FULL
    for (int i = 0; i < 4; i++)
        sum[i] = vdupq_n_f32(0);
    for (int t = 0; t < end; t += 16) {
        FG_UNROLL_FULL
        for (int i = 0; i < 4; i++) {
            float32x4_t x = fg_exp_neon(vsubq_f32(vld1q_f32(e + t + 4 * i), vdupq_n_f32(m)));
            vst1q_f32(e + t + 4 * i, x);
            sum[i] = vaddq_f32(sum[i], x);
        }
    }
    for (int i = 0; i < 4; i++)
        vst1q_f32(lane + 4 * i, sum[i]);
    w->m[r] = m;
    w->l[r] = fg_tree(lane);
}

// Exponentials of row r to the digits of integers P, which are 0 for tokens that it does not see,
// and their unit.
static void integer_weights(struct work *w, int r)
{
    const float P_MAX = 32767.0f;
    float *e = w->e + r * FG_KV_PAGE;
    int8_t *hi = w->hi + r * FG_KV_PAGE, *lo = w->lo + r * FG_KV_PAGE;
    const int n = w->seen[r], end = up16(n);
    float32x4_t most = vdupq_n_f32(0);
    for (int t = 0; t < end; t += 4) {
        float32x4_t x = vmulq_f32(vld1q_f32(e + t), vld1q_f32(w->vs + t));
        vst1q_f32(e + t, x);
        most = vmaxnmq_f32(most, x); // scales of tokens that it does not see give 0 or NaN
    }
    const float pm = vmaxnmvq_f32(most);
    w->unit[r] = pm / P_MAX;

    const float32x4_t factor = vdupq_n_f32(P_MAX / pm), limit = vdupq_n_f32(P_MAX);
    for (int t = 0; t < end; t += 8) {
        int16x4_t part[2];
        for (int i = 0; i < 2; i++) {
            float32x4_t x = vminnmq_f32(vmulq_f32(vld1q_f32(e + t + 4 * i), factor), limit);
            part[i] = vmovn_s32(vsubq_s32(vcvtnq_s32_f32(x), vdupq_n_s32(MIDDLE)));
        }
        int16x8_t p = vcombine_s16(part[0], part[1]);
        int16x8_t high = vrshrq_n_s16(p, 8);
        vst1_s8(hi + t, vmovn_s16(high));
        vst1_s8(lo + t, vmovn_s16(vsubq_s16(p, vshlq_n_s16(high, 8))));
    }
    const int some = pm == 0.0f ? 0 : n; // P = 0 from here on
    const size_t rest = (size_t)(up16(w->most) - some);
    memset(hi + some, -MIDDLE / 256, rest);
    memset(lo + some, 0, rest);
}

// ---- outputs ------------------------------------------------------------------------------------

// Dims d .. d + 3 of token t of a page of values.
FG_INLINE float32x4_t value4(const struct work *w, const int part, int t, int64_t d)
{
    switch (part) {
    case F32: return vld1q_f32((const float *)w->v + t * w->W + d);
    case F16: return from_f16(w->v + (t * w->W + d) * 2);
    default: {
        const uint8_t *v = w->v + d / 32 * 32 * FG_KV_PAGE + t / 4 * 128 + d % 32 * 4;
        int32x4_t code = vreinterpretq_s32_u8(vld1q_u8(v));
        code = vshrq_n_s32(vshlq_s32(code, vdupq_n_s32(24 - t % 4 * 8)), 24);
        return vmulq_n_f32(vcvtq_f32_s32(code), w->vs[t]);
    }
    }
}

// Combines dims d .. d + 3 of row r with the tile's.
FG_INLINE void fold(const struct work *w, int r, int64_t d, float32x4_t o2)
{
    float *o = w->o + r * w->W + d;
    if (w->fate[r] == KEEP) return;
    if (w->fate[r] == BOTH) o2 = vfmaq_n_f32(vmulq_n_f32(o2, w->b[r]), vld1q_f32(o), w->a[r]);
    vst1q_f32(o, o2);
}

// Dims d .. d + 4 * C - 1 of R rows.
FG_INLINE void output_columns(const struct work *w, int64_t d, const int part, const int R,
                              const int C)
{
    float32x4_t sum[24];
    FG_UNROLL_FULL
    for (int i = 0; i < R * C; i++)
        sum[i] = vdupq_n_f32(0);
    int t = 0;
    for (; t < w->common; t++) {
        FG_UNROLL_FULL
        for (int c = 0; c < C; c++) {
            float32x4_t v = value4(w, part, t, d + 4 * c);
            FG_UNROLL_FULL
            for (int r = 0; r < R; r++)
                sum[r * C + c] = vfmaq_n_f32(sum[r * C + c], v, w->e[r * FG_KV_PAGE + t]);
        }
    }
    for (; t < w->most; t++) { // not for all rows: the others keep their bits
        FG_UNROLL_FULL
        for (int r = 0; r < R; r++) {
            if (t >= w->seen[r]) continue;
            FG_UNROLL_FULL
            for (int c = 0; c < C; c++)
                sum[r * C + c] = vfmaq_n_f32(sum[r * C + c], value4(w, part, t, d + 4 * c),
                                             w->e[r * FG_KV_PAGE + t]);
        }
    }
    FG_UNROLL_FULL
    for (int i = 0; i < R * C; i++)
        fold(w, i / C, d + i % C * 4, sum[i]);
}

FG_INLINE void output_floats(const struct work *w, const int part, const int R)
{
    const int C = R == 1 ? 8 : 4; // registers of columns; W is a multiple of 32
    for (int64_t d = 0; d < w->W; d += 4 * C)
        output_columns(w, d, part, R, C);
}

FG_INLINE void output_codes(const struct work *w, const int R)
{
    const int end = up16(w->most); // P of what no row sees is 0
    for (int64_t d = 0; d < w->W; d += 4) {
        const uint8_t *v = w->v + d / 32 * 32 * FG_KV_PAGE + d % 32 * 4;
        int32x4_t high[ROWS], low[ROWS], all = vdupq_n_s32(0);
        FG_UNROLL_FULL
        for (int r = 0; r < R; r++)
            high[r] = low[r] = vdupq_n_s32(0);
        for (int t = 0; t < end; t += 16, v += 512) {
            int8x16_t hi[ROWS], lo[ROWS];
            FG_UNROLL_FULL
            for (int r = 0; r < R; r++) {
                hi[r] = vld1q_s8(w->hi + r * FG_KV_PAGE + t);
                lo[r] = vld1q_s8(w->lo + r * FG_KV_PAGE + t);
            }
            FG_UNROLL_FULL
            for (int i = 0; i < 4; i++) { // four tokens of four dims
                int8x16_t code = vreinterpretq_s8_u8(vld1q_u8(v + 128 * i));
                all = vdotq_s32(all, code, vdupq_n_s8(1));
                FG_UNROLL_FULL
                for (int r = 0; r < R; r++) {
                    high[r] = dot4(high[r], code, hi[r], i);
                    low[r] = dot4(low[r], code, lo[r], i);
                }
            }
        }
        FG_UNROLL_FULL
        for (int r = 0; r < R; r++) {
            int32x4_t sum = vmlaq_n_s32(low[r], high[r], 256);
            sum = vmlaq_n_s32(sum, all, MIDDLE);
            fold(w, r, d, vmulq_n_f32(vcvtq_f32_s32(sum), w->unit[r]));
        }
    }
}

FG_INLINE void output(const struct work *w, const int R)
{
    switch (w->value) {
    case F32: output_floats(w, F32, R); break;
    case F16: output_floats(w, F16, R); break;
    case READ: output_floats(w, READ, R); break;
    default: output_codes(w, R);
    }
}

// ---- triples ------------------------------------------------------------------------------------

// Combines m and l with later ones; a and b are then the factors of o where both count.
static enum fate combine(float *m, float *l, float m2, float l2, float *a, float *b)
{
    if (*m == -INFINITY) {
        *m = m2;
        *l = l2;
        return TAKE;
    }
    if (m2 == -INFINITY) return KEEP;
    const float M = *m > m2 ? *m : m2;
    *a = fg_exp_f32(*m - M);
    *b = fg_exp_f32(m2 - M);
    *m = M;
    *l = fmaf(*l, *a, l2 * *b);
    return BOTH;
}

static void attn_combine(const struct fg_attn_acc *acc, const struct fg_attn_acc *later, int64_t r0,
                         int64_t r1, int64_t W)
{
    for (int64_t r = r0; r < r1; r++) {
        float a, b, *o = acc->o + r * W;
        const float *o2 = later->o + r * W;
        switch (combine(&acc->m[r], &acc->l[r], later->m[r], later->l[r], &a, &b)) {
        case KEEP: break;
        case TAKE: memcpy(o, o2, (size_t)W * sizeof *o); break;
        case BOTH: {
            for (int64_t d = 0; d < W; d += 4) {
                float32x4_t x = vmulq_n_f32(vld1q_f32(o2 + d), b);
                vst1q_f32(o + d, vfmaq_n_f32(x, vld1q_f32(o + d), a));
            }
        }
        }
    }
}

static void attn_finish(float *out, const struct fg_attn_acc *acc, int64_t r, int64_t D)
{
    const float *o = acc->o + r * fg_kv_width(D), l = acc->l[r];
    int64_t d = 0;
    for (; d + 4 <= D; d += 4)
        vst1q_f32(out + d, vdivq_f32(vld1q_f32(o + d), vdupq_n_f32(l)));
    for (; d < D; d++)
        out[d] = o[d] / l;
}

// ---- tiles --------------------------------------------------------------------------------------

static void widen_scales(float *to, const uint16_t *from, int n)
{
    for (int t = 0; t < up16(n); t += 4)
        vst1q_f32(to + t, from_f16((const uint8_t *)(from + t)));
}

// Rows r .. r + n - 1, n <= ROWS, of which each sees something of the tile that begins at `first`.
static void rows_of_tile(struct work *w, const struct fg_attn_acc *acc,
                         const struct fg_attn_rows *rows, int64_t r, int n, int64_t first)
{
    w->q = rows->q + r * w->W;
    w->o = acc->o + r * w->W;
    for (int i = 0; i < n; i++) {
        const int64_t seen = rows->pos[r + i] + 1 - first;
        w->seen[i] = seen < FG_KV_PAGE ? (int)seen : FG_KV_PAGE;
    }
    w->common = w->seen[0];
    w->most = w->seen[n - 1];
    if (w->key == CODES) {
        w->qc = rows->qc + r * 2 * w->W;
        w->qs = rows->qs + r;
    }

    switch (n) {
    case 6: score(w, 6); break;
    case 4: score(w, 4); break;
    case 3: score(w, 3); break;
    case 2: score(w, 2); break;
    default: score(w, 1);
    }
    for (int i = 0; i < n; i++) {
        softmax(w, i);
        if (w->value == CODES) integer_weights(w, i);
        w->fate[i] = combine(&acc->m[r + i], &acc->l[r + i], w->m[i], w->l[i], &w->a[i], &w->b[i]);
    }
    switch (n) {
    case 6: output(w, 6); break;
    case 4: output(w, 4); break;
    case 3: output(w, 3); break;
    case 2: output(w, 2); break;
    default: output(w, 1);
    }
}

static enum part part_of(bool codes, bool f32, bool fast)
{
    return codes ? fast ? CODES : READ : f32 ? F32 : F16;
}

static void attn_tile(const struct fg_attn_acc *acc, const struct fg_kv_head *kv, int64_t tile,
                      const struct fg_attn_rows *rows, int64_t r0, int64_t r1, void *scratch,
                      bool fast)
{
    const int64_t first = tile * FG_KV_PAGE;
    while (r0 < r1 && rows->pos[r0] < first)
        r0++;
    if (r0 == r1) return;

    struct work w = {
        .key = part_of(fg_kv_k8(kv->format), kv->format == FG_KV_F32, fast),
        .value = part_of(fg_kv_v8(kv->format), kv->format == FG_KV_F32, fast),
        .D = kv->D,
        .W = fg_kv_width(kv->D),
        .k = kv->k + tile * fg_kv_k_page_bytes(kv->format, kv->D),
        .v = kv->v + tile * fg_kv_v_page_bytes(kv->format, kv->D),
        .scale = rows->scale,
        .e = scratch,
    };
    w.ks = w.e + ROWS * FG_KV_PAGE;
    w.vs = w.ks + FG_KV_PAGE;
    w.hi = (int8_t *)(w.vs + FG_KV_PAGE);
    w.lo = w.hi + ROWS * FG_KV_PAGE;
    const int64_t seen = rows->pos[r1 - 1] + 1 - first;
    const int n_tokens = seen < FG_KV_PAGE ? (int)seen : FG_KV_PAGE;
    if (fg_kv_k8(kv->format)) widen_scales(w.ks, kv->ks + first, n_tokens);
    if (fg_kv_v8(kv->format)) widen_scales(w.vs, kv->vs + first, n_tokens);

    for (int64_t r = r0, n; r < r1; r += n) {
        const int64_t left = r1 - r, blocks = (left + ROWS - 1) / ROWS;
        n = (left + blocks - 1) / blocks; // blocks of about one size
        if (n == 5) n = 3;                // and not of every size
        rows_of_tile(&w, acc, rows, r, (int)n, first);
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

void fg_fill_attn_neon(struct fg_kernels *k)
{
    k->kv_store = fg_kv_store_neon;
    k->attn_tile[0] = attn_tile_exact;
    k->attn_tile[1] = attn_tile_fast;
    k->attn_combine = attn_combine;
    k->attn_finish = attn_finish;
}
