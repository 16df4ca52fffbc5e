// kernels/avx2/attn.c: attention over stored keys and values, a tile at a time (kv.h). Up to six
// query rows share what is read of a page. Sums of floats are chains of one row and one token (of
// keys) or one dim (of values) to a lane, as many at once as there are registers; those of codes
// are exact: keys and values widened to 16 bit, in pairs of dims or tokens, by VPMADDWD.
#include "kernels/avx2/kv.h"
#include "kernels/avx2/math.h"
#include "kernels/inline.h"
#include "kernels/levels.h"
#include <string.h>

enum { ROWS = 6 };

// How keys or values are used: floats, codes times scale as floats, codes as integers.
enum part { F32, F16, READ, CODES };

// What becomes of a row's o: it takes the tile's, keeps its own, or both are combined.
enum fate { TAKE, KEEP, BOTH };

// Up to ROWS query rows in one tile.
struct work {
    enum part key, value;
    int64_t D, W;
    const uint8_t *k, *v; // the page
    float *ks, *vs;       // [FG_KV_PAGE] scales of its tokens, as far as a row sees them
    const float *q;       // [rows][W]
    float scale;          // of q
    const float *qs;      // [rows]
    const int32_t *qsum;
    int16_t *q16;                       // [rows][FG_KV_WIDTH_MAX] codes c, in each four: 0 2 1 3
    int seen[ROWS], common, most;       // tokens that a row sees; that all do; that any does
    float *e;                           // [rows][FG_KV_PAGE] scores, exponentials, weights
    int16_t *p;                         // [rows][FG_KV_PAGE] P of kv.h, in each four: 0 2 1 3
    float m[ROWS], l[ROWS], unit[ROWS]; // of the tile; unit: of O
    enum fate fate[ROWS];
    float a[ROWS], b[ROWS]; // of combine
    float *o;               // [rows][W]
};

static int up16(int n)
{
    return (n + 15) / 16 * 16;
}

// Of each four: 0 2 1 3, so that the 32-bit halves of eight bytes are the factors of the even and
// of the odd bytes of a register.
FG_INLINE __m256i evens_first(__m256i x)
{
    x = _mm256_shufflelo_epi16(x, _MM_SHUFFLE(3, 1, 2, 0));
    return _mm256_shufflehi_epi16(x, _MM_SHUFFLE(3, 1, 2, 0));
}

// Two numbers to every 32-bit lane, straight from memory: from a register, gcc goes by way of
// shuffles, of which there is one a cycle.
FG_INLINE __m256i broadcast_pair(const int16_t *p)
{
    return _mm256_castps_si256(_mm256_broadcast_ss((const float *)p));
}

// sum + the products of the even and of the odd bytes with the four numbers at p.
FG_INLINE __m256i add_fours(__m256i sum, __m256i even, __m256i odd, const int16_t *p)
{
    __m256i x = _mm256_madd_epi16(even, broadcast_pair(p));
    __m256i y = _mm256_madd_epi16(odd, broadcast_pair(p + 2));
    return _mm256_add_epi32(_mm256_add_epi32(sum, x), y);
}

// ---- scores -------------------------------------------------------------------------------------

// Dim d of 8 tokens of a block of keys, half h.
FG_INLINE __m256 key8(const int part, const uint8_t *block, int64_t d, int h, const float *ks)
{
    switch (part) {
    case F32: return _mm256_load_ps((const float *)block + d * 16 + 8 * h);
    case F16: return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(block + d * 32 + 16 * h)));
    default: {
        __m256i four = _mm256_load_si256((const __m256i *)(block + d / 4 * 64 + 32 * h));
        __m128i down = _mm_cvtsi32_si128((int)(d % 4 * 8));
        __m256i code = _mm256_and_si256(_mm256_srl_epi32(four, down), _mm256_set1_epi32(255));
        code = _mm256_sub_epi32(code, _mm256_set1_epi32(128));
        return _mm256_mul_ps(_mm256_cvtepi32_ps(code), _mm256_load_ps(ks + 8 * h));
    }
    }
}

// Scores of R rows and the tokens of B blocks of 16 from block b on.
FG_INLINE void score_blocks(const struct work *w, int64_t b, const int part, const int R,
                            const int B)
{
    const int64_t bytes = w->W * 16 * (part == F32 ? 4 : part == F16 ? 2 : 1);
    const uint8_t *k = w->k + b * bytes;
    __m256 sum[12];
    FG_UNROLL_FULL
    for (int i = 0; i < R * B * 2; i++)
        sum[i] = _mm256_setzero_ps();
    for (int64_t d = 0; d < w->D; d++) {
        __m256 key[8];
        FG_UNROLL_FULL
        for (int i = 0; i < B * 2; i++)
            key[i] = key8(part, k + i / 2 * bytes, d, i % 2, w->ks + (b + i / 2) * 16);
        FG_UNROLL_FULL
        for (int r = 0; r < R; r++) {
            const __m256 q = _mm256_broadcast_ss(w->q + r * w->W + d);
            FG_UNROLL_FULL
            for (int i = 0; i < B * 2; i++)
                sum[r * B * 2 + i] = _mm256_fmadd_ps(q, key[i], sum[r * B * 2 + i]);
        }
    }
    const __m256 scale = _mm256_set1_ps(w->scale);
    FG_UNROLL_FULL
    for (int r = 0; r < R; r++) {
        FG_UNROLL_FULL
        for (int i = 0; i < B * 2; i++)
            _mm256_store_ps(w->e + r * FG_KV_PAGE + b * 16 + i * 8,
                            _mm256_mul_ps(sum[r * B * 2 + i], scale));
    }
}

FG_INLINE void score_floats(const struct work *w, const int part, const int R)
{
    enum { FEW = 1, SOME = 2, MANY = 4 }; // blocks, so that at least 8 chains are under way
    const int64_t n = up16(w->most) / 16;
    int64_t b = 0;
    if (R == 2) {
        for (; b + SOME <= n; b += SOME)
            score_blocks(w, b, part, R, SOME);
    } else if (R == 1) {
        for (; b + MANY <= n; b += MANY)
            score_blocks(w, b, part, R, MANY);
    }
    for (; b < n; b++)
        score_blocks(w, b, part, R, FEW);
}

FG_INLINE void score_codes(const struct work *w, const int R)
{
    const __m256i low_bytes = _mm256_set1_epi16(255);
    for (int t = 0; t < w->most; t += 8) {
        const uint8_t *k = w->k + t / 16 * 16 * w->W + t % 16 * 4;
        __m256i sum[ROWS];
        FG_UNROLL_FULL
        for (int r = 0; r < R; r++) // keys have 128 added; on the way sums may leave 32 bits
            sum[r] = _mm256_set1_epi32(-128 * w->qsum[r]);
        for (int64_t d = 0; d < w->W; d += 4, k += 64) {
            const __m256i key = _mm256_load_si256((const __m256i *)k);
            const __m256i even = _mm256_and_si256(key, low_bytes);
            const __m256i odd = _mm256_srli_epi16(key, 8);
            FG_UNROLL_FULL
            for (int r = 0; r < R; r++)
                sum[r] = add_fours(sum[r], even, odd, w->q16 + r * FG_KV_WIDTH_MAX + d);
        }
        const __m256 ks = _mm256_load_ps(w->ks + t);
        FG_UNROLL_FULL
        for (int r = 0; r < R; r++) {
            __m256 s = _mm256_mul_ps(_mm256_cvtepi32_ps(sum[r]), _mm256_set1_ps(w->qs[r]));
            _mm256_store_ps(w->e + r * FG_KV_PAGE + t, _mm256_mul_ps(s, ks));
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

static float max_lane(__m256 x)
{
    float lane[8];
    _mm256_storeu_ps(lane, x);
    for (int i = 1; i < 8; i++)
        lane[0] = lane[i] > lane[0] ? lane[i] : lane[0];
    return lane[0];
}

// Scores of row r to exponentials (0 up to a multiple of 16), m and l.
static void softmax(struct work *w, int r)
{
    float *e = w->e + r * FG_KV_PAGE;
    const int n = w->seen[r], end = up16(n);
    for (int t = n; t < end; t++)
        e[t] = -INFINITY;
    __m256 most = _mm256_set1_ps(-INFINITY);
    for (int t = 0; t < end; t += 8)
        most = _mm256_max_ps(_mm256_load_ps(e + t), most); // NaN in e leaves `most`
    const float m = max_lane(most);

    const __m256 m8 = _mm256_set1_ps(m);
    __m256 lo = _mm256_setzero_ps(), hi = lo;
    for (int t = 0; t < end; t += 16) {
        __m256 x = fg_exp_avx2(_mm256_sub_ps(_mm256_load_ps(e + t), m8));
        __m256 y = fg_exp_avx2(_mm256_sub_ps(_mm256_load_ps(e + t + 8), m8));
        _mm256_store_ps(e + t, x);
        _mm256_store_ps(e + t + 8, y);
        lo = _mm256_add_ps(lo, x);
        hi = _mm256_add_ps(hi, y);
    }
    w->m[r] = m;
    w->l[r] = fg_tree_avx2(lo, hi);
}

// The first n - t lanes of x, zero in the others.
FG_INLINE __m256 before(int n, int t, __m256 x)
{
    return _mm256_and_ps(x, _mm256_castsi256_ps(fg_lanes_avx2(n > t ? n - t : 0)));
}

// Exponentials of row r to integers P, zero for tokens that it does not see, and their unit.
static void integer_weights(struct work *w, int r)
{
    const float P_MAX = 32767.0f;
    float *e = w->e + r * FG_KV_PAGE;
    int16_t *p = w->p + r * FG_KV_PAGE;
    const int n = w->seen[r], end = up16(n);
    __m256 most = _mm256_setzero_ps();
    for (int t = 0; t < end; t += 8) {
        __m256 x = _mm256_mul_ps(_mm256_load_ps(e + t), _mm256_load_ps(w->vs + t));
        _mm256_store_ps(e + t, x);
        most = _mm256_max_ps(x, most); // scales of tokens that it does not see give 0 or NaN
    }
    const float pm = max_lane(most);
    w->unit[r] = pm / P_MAX;
    memset(p, 0, FG_KV_PAGE * sizeof *p);
    if (pm == 0.0f) return;

    const __m256 factor = _mm256_set1_ps(P_MAX / pm), limit = _mm256_set1_ps(P_MAX);
    for (int t = 0; t < end; t += 16) {
        __m256 x = _mm256_min_ps(_mm256_mul_ps(_mm256_load_ps(e + t), factor), limit);
        __m256 y = _mm256_min_ps(_mm256_mul_ps(_mm256_load_ps(e + t + 8), factor), limit);
        __m256i both = _mm256_packs_epi32(_mm256_cvtps_epi32(before(n, t, x)),
                                          _mm256_cvtps_epi32(before(n, t + 8, y)));
        both = _mm256_permute4x64_epi64(both, _MM_SHUFFLE(3, 1, 2, 0));
        _mm256_store_si256((__m256i *)(p + t), evens_first(both));
    }
}

// ---- outputs ------------------------------------------------------------------------------------

// Dims d .. d + 7 of token t of a page of values.
FG_INLINE __m256 value8(const struct work *w, const int part, int t, int64_t d)
{
    switch (part) {
    case F32: return _mm256_load_ps((const float *)w->v + t * w->W + d);
    case F16: return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(w->v + (t * w->W + d) * 2)));
    default: {
        const uint8_t *v = w->v + d / 32 * 32 * FG_KV_PAGE + t / 4 * 128 + d % 32 * 4;
        __m128i up = _mm_cvtsi32_si128(24 - t % 4 * 8);
        __m256i code = _mm256_sll_epi32(_mm256_load_si256((const __m256i *)v), up);
        code = _mm256_srai_epi32(code, 24);
        return _mm256_mul_ps(_mm256_cvtepi32_ps(code), _mm256_broadcast_ss(w->vs + t));
    }
    }
}

// Combines dims d .. d + 7 of row r with the tile's.
FG_INLINE void fold(const struct work *w, int r, int64_t d, __m256 o2)
{
    float *o = w->o + r * w->W + d;
    if (w->fate[r] == KEEP) return;
    if (w->fate[r] == BOTH)
        o2 = _mm256_fmadd_ps(_mm256_load_ps(o), _mm256_set1_ps(w->a[r]),
                             _mm256_mul_ps(o2, _mm256_set1_ps(w->b[r])));
    _mm256_store_ps(o, o2);
}

// Dims d .. d + 8 * C - 1 of R rows.
FG_INLINE void output_columns(const struct work *w, int64_t d, const int part, const int R,
                              const int C)
{
    __m256 sum[12];
    FG_UNROLL_FULL
    for (int i = 0; i < R * C; i++)
        sum[i] = _mm256_setzero_ps();
    int t = 0;
    for (; t < w->common; t++) {
        __m256 v[8];
        FG_UNROLL_FULL
        for (int c = 0; c < C; c++)
            v[c] = value8(w, part, t, d + 8 * c);
        FG_UNROLL_FULL
        for (int r = 0; r < R; r++) {
            const __m256 e = _mm256_broadcast_ss(w->e + r * FG_KV_PAGE + t);
            FG_UNROLL_FULL
            for (int c = 0; c < C; c++)
                sum[r * C + c] = _mm256_fmadd_ps(e, v[c], sum[r * C + c]);
        }
    }
    for (; t < w->most; t++) { // not for all rows: the others keep their bits
        FG_UNROLL_FULL
        for (int r = 0; r < R; r++) {
            if (t >= w->seen[r]) continue;
            const __m256 e = _mm256_broadcast_ss(w->e + r * FG_KV_PAGE + t);
            FG_UNROLL_FULL
            for (int c = 0; c < C; c++)
                sum[r * C + c] = _mm256_fmadd_ps(e, value8(w, part, t, d + 8 * c), sum[r * C + c]);
        }
    }
    FG_UNROLL_FULL
    for (int r = 0; r < R; r++) {
        FG_UNROLL_FULL
        for (int c = 0; c < C; c++)
            fold(w, r, d + 8 * c, sum[r * C + c]);
    }
}

FG_INLINE void output_floats(const struct work *w, const int part, const int R)
{
    enum { NARROW = 2, WIDE = 4, WIDEST = 8 }; // registers of columns; W is a multiple of 32
    int64_t d = 0;
    if (R == 1) {
        for (; d + 8 * WIDEST <= w->W; d += 8 * WIDEST)
            output_columns(w, d, part, R, WIDEST);
    }
    if (R <= 2) {
        for (; d < w->W; d += 8 * WIDE)
            output_columns(w, d, part, R, WIDE);
    } else {
        for (; d < w->W; d += 8 * NARROW)
            output_columns(w, d, part, R, NARROW);
    }
}

FG_INLINE void output_codes(const struct work *w, const int R)
{
    for (int64_t d = 0; d < w->W; d += 8) {
        const uint8_t *v = w->v + d / 32 * 32 * FG_KV_PAGE + d % 32 * 4;
        __m256i sum[ROWS];
        FG_UNROLL_FULL
        for (int r = 0; r < R; r++)
            sum[r] = _mm256_setzero_si256();
        for (int t = 0; t < w->most; t += 4, v += 128) {
            const __m256i code = _mm256_load_si256((const __m256i *)v);
            const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(code, 8), 8);
            const __m256i odd = _mm256_srai_epi16(code, 8);
            FG_UNROLL_FULL
            for (int r = 0; r < R; r++)
                sum[r] = add_fours(sum[r], even, odd, w->p + r * FG_KV_PAGE + t);
        }
        FG_UNROLL_FULL
        for (int r = 0; r < R; r++)
            fold(w, r, d, _mm256_mul_ps(_mm256_cvtepi32_ps(sum[r]), _mm256_set1_ps(w->unit[r])));
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
            const __m256 a8 = _mm256_set1_ps(a), b8 = _mm256_set1_ps(b);
            for (int64_t d = 0; d < W; d += 8) {
                __m256 x = _mm256_mul_ps(_mm256_load_ps(o2 + d), b8);
                _mm256_store_ps(o + d, _mm256_fmadd_ps(_mm256_load_ps(o + d), a8, x));
            }
        }
        }
    }
}

static void attn_finish(float *out, const struct fg_attn_acc *acc, int64_t r, int64_t D)
{
    const float *o = acc->o + r * fg_kv_width(D);
    const __m256 l = _mm256_set1_ps(acc->l[r]);
    for (int64_t d = 0; d < D; d += 8)
        fg_store_avx2(out + d, D - d, _mm256_div_ps(_mm256_load_ps(o + d), l));
}

// ---- tiles --------------------------------------------------------------------------------------

static void widen_scales(float *to, const uint16_t *from, int n)
{
    for (int t = 0; t < up16(n); t += 8)
        _mm256_store_ps(to + t, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + t))));
}

// Codes of two digits, at most 32512.
static void query_codes(int16_t *to, const int8_t *hi, const int8_t *lo, int64_t W)
{
    for (int64_t d = 0; d < W; d += 16) {
        const __m256i high = _mm256_cvtepi8_epi16(_mm_load_si128((const __m128i *)(hi + d)));
        const __m256i low = _mm256_cvtepi8_epi16(_mm_load_si128((const __m128i *)(lo + d)));
        const __m256i code =
            _mm256_add_epi16(_mm256_mullo_epi16(high, _mm256_set1_epi16(255)), low);
        _mm256_store_si256((__m256i *)(to + d), evens_first(code));
    }
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
        w->qs = rows->qs + r;
        w->qsum = rows->qsum + r;
        for (int i = 0; i < n; i++) {
            const int8_t *hi = rows->qc + (r + i) * 2 * w->W;
            query_codes(w->q16 + i * FG_KV_WIDTH_MAX, hi, hi + w->W, w->W);
        }
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
    w.p = (int16_t *)(w.vs + FG_KV_PAGE);
    w.q16 = w.p + ROWS * FG_KV_PAGE;
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

void fg_fill_attn_avx2(struct fg_kernels *k)
{
    k->kv_store = fg_kv_store_avx2;
    k->attn_tile[0] = attn_tile_exact;
    k->attn_tile[1] = attn_tile_fast;
    k->attn_combine = attn_combine;
    k->attn_finish = attn_finish;
}
