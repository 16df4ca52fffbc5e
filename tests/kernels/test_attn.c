// Attention over stored keys and values: the worked example of the specification, a second writing
// of the rules of kv.h (its tile size a parameter) and plain softmax in double; then every level
// against ref bit for bit, and rows that depend neither on their company nor on what lies behind
// the last token that they see.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/arena.h"
#include "kernels/kv_cases.h"
#include "kernels/ref/math.h"
#include <math.h>

#define CANARY 12345.678f

static const struct fg_kernels *const *levels;
static int n_levels;

static int setup(void **state)
{
    (void)state;
    levels = fg_kernels_levels(&n_levels);
    return 0;
}

// ---- Query rows, each array ending at a forbidden page.

struct query_rows {
    int64_t W;
    struct fenced q, qc, qs, qsum, pos;
    struct fg_attn_rows r;
};

static struct query_rows rows_new(int64_t n, int64_t D)
{
    struct query_rows m = {.W = fg_kv_width(D)};
    const size_t values = (size_t)(n * m.W);
    m.q = fenced_new(values * 4 + 4); // aligned as floats are and no better
    m.qc = fenced_new(2 * values);
    m.qs = fenced_new((size_t)n * 4);
    m.qsum = fenced_new((size_t)n * 4);
    m.pos = fenced_new((size_t)n * 8);
    m.r = (struct fg_attn_rows){.n = n,
                                .q = (float *)m.q.data,
                                .qc = (int8_t *)m.qc.data,
                                .qs = (float *)m.qs.data,
                                .qsum = (int32_t *)m.qsum.data,
                                .pos = (int64_t *)m.pos.data,
                                .scale = 1.0f / sqrtf((float)D)};
    return m;
}

static void rows_free(struct query_rows *m)
{
    fenced_free(&m->q);
    fenced_free(&m->qc);
    fenced_free(&m->qs);
    fenced_free(&m->qsum);
    fenced_free(&m->pos);
}

// Codes of all rows, from their q.
static void rows_codes(struct query_rows *m, int64_t D)
{
    for (int64_t i = 0; i < m->r.n; i++)
        fg_attn_query(levels[0], (int8_t *)m->qc.data + i * 2 * m->W, (float *)m->qs.data + i,
                      (int32_t *)m->qsum.data + i, m->r.q + i * m->W, D, m->r.scale);
}

// Rows [r0, r1) alone.
static struct query_rows rows_slice(const struct query_rows *m, int64_t D, int64_t r0, int64_t r1)
{
    struct query_rows s = rows_new(r1 - r0, D);
    const size_t n = (size_t)(r1 - r0), W = (size_t)m->W;
    memcpy(s.q.data, m->r.q + r0 * m->W, n * W * 4);
    memcpy(s.qc.data, m->r.qc + r0 * 2 * m->W, n * 2 * W);
    memcpy(s.qs.data, m->r.qs + r0, n * 4);
    memcpy(s.qsum.data, m->r.qsum + r0, n * 4);
    memcpy(s.pos.data, m->r.pos + r0, n * 8);
    return s;
}

// ---- Triples (m, l, o).

static struct fg_attn_acc acc_new(int64_t n, int64_t W)
{
    struct fg_attn_acc a = {.m = fg_alloc_aligned((uint64_t)n * 4),
                            .l = fg_alloc_aligned((uint64_t)n * 4),
                            .o = fg_alloc_aligned((uint64_t)(n * W) * 4)};
    assert_true(a.m && a.l && a.o);
    return a;
}

static void acc_free(struct fg_attn_acc *a)
{
    free(a->m);
    free(a->l);
    free(a->o);
}

// Rows [r0, r1) empty: l and o are NaN, which must not show.
static void acc_empty(const struct fg_attn_acc *a, int64_t r0, int64_t r1, int64_t W)
{
    for (int64_t r = r0; r < r1; r++)
        a->m[r] = -INFINITY;
    memset(a->l + r0, 0xFF, (size_t)(r1 - r0) * 4);
    memset(a->o + r0 * W, 0xFF, (size_t)((r1 - r0) * W) * 4);
}

// The rows as kv.h folds them, from tile `first` on, into `total`.
static void attend(const struct fg_kernels *kn, bool fast, const struct fg_kv_head *kv,
                   const struct fg_attn_rows *rows, int64_t first, struct fg_attn_acc *total)
{
    const int64_t W = fg_kv_width(kv->D);
    const size_t bytes = fg_attn_tile_scratch_bytes(kv->D);
    struct fenced scratch = fenced_new(bytes);
    struct fg_attn_acc segment = acc_new(rows->n, W);
    memset(scratch.data, 0xFF, bytes); // NaN
    acc_empty(total, 0, rows->n, W);
    const int64_t last = rows->pos[rows->n - 1] / FG_KV_PAGE;
    for (int64_t tile = first; tile <= last; tile++) {
        if (tile == first || tile % FG_KV_TILES == 0) acc_empty(&segment, 0, rows->n, W);
        kn->attn_tile[fast](&segment, kv, tile, rows, 0, rows->n, scratch.data);
        if (tile == last || tile % FG_KV_TILES == FG_KV_TILES - 1)
            kn->attn_combine(total, &segment, 0, rows->n, W);
    }
    acc_free(&segment);
    fenced_free(&scratch);
}

// -1, or the first row of n whose triples differ. The sign of a zero m has no effect.
static int64_t acc_differ(const struct fg_attn_acc *a, const struct fg_attn_acc *b, int64_t n,
                          int64_t W)
{
    for (int64_t r = 0; r < n; r++) {
        if (!(a->m[r] == b->m[r]) || !same_float(a->l[r], b->l[r])) return r;
        for (int64_t d = 0; d < W; d++)
            if (!same_float(a->o[r * W + d], b->o[r * W + d])) return r;
    }
    return -1;
}

// ---- Problems: tokens stored in pages full of garbage, and rows that see them.

enum content {
    RANDOM,   // a softmax that is far from flat
    DOMINANT, // one token has all the weight
    EQUAL,    // all scores equal
    EXTREME,  // every code at its limit, every weight the largest
    POLES,    // scores of 80 and -80
    SPREAD,   // scores from -80 to 80
    FAINT,    // scores down to -120, values near the smallest scale
    SMALL,    // products near and below the smallest normal number
    WIDE,     // exponents far apart
    N_CONTENTS
};
static const char *const content_names[] = {"random", "dominant", "equal", "extreme", "poles",
                                            "spread", "faint",    "small", "wide"};

struct problem {
    enum fg_kv_format format;
    enum content content;
    int64_t D, W, first, base, n, G; // first tile; position of row 0; rows; rows at one position
    uint64_t seed;
    struct pages kv;
    struct query_rows rows;
};

// K and V of a token. q: the first query row.
static void token(float *k, float *v, const struct problem *p, const float *q, int64_t pos,
                  uint64_t *seed)
{
    const enum numbers kind = p->content == SMALL  ? NUMBERS_SMALL
                              : p->content == WIDE ? NUMBERS_WIDE
                                                   : NUMBERS_UNIT;
    float squares = 0, score = 0;
    fill_floats(k, p->D, seed, kind);
    fill_floats(v, p->D, seed, kind);
    const float unit = next_number(seed, NUMBERS_UNIT);
    for (int64_t d = 0; d < p->D; d++)
        squares += q[d] * q[d];
    switch (p->content) {
    case EQUAL:
        for (int64_t d = 0; d < p->D; d++)
            k[d] = (float)(d % 5) - 1.5f;
        return;
    case EXTREME:
        for (int64_t d = 0; d < p->D; d++) {
            k[d] = p->seed & 1 ? -1 : 1;
            v[d] = d & 1 ? -1 : 1;
        }
        return;
    case DOMINANT:
        if (pos != p->first * FG_KV_PAGE + (p->base - p->first * FG_KV_PAGE) / 2) return;
        score = 60;
        break;
    case POLES: score = unit < 0 ? -80 : 80; break;
    case SPREAD: score = 80 * unit; break;
    case FAINT:
        score = -60 + 60 * unit;
        for (int64_t d = 0; d < p->D; d++)
            v[d] *= 1e-4f;
        break;
    default: return;
    }
    for (int64_t d = 0; d < p->D; d++)
        k[d] = q[d] * (score / (squares * p->rows.r.scale));
}

static void fill_query(float *q, const struct problem *p, int64_t row, const float *first,
                       uint64_t *seed)
{
    const enum numbers kind = p->content == SMALL  ? NUMBERS_SMALL
                              : p->content == WIDE ? NUMBERS_WIDE
                                                   : NUMBERS_UNIT;
    fill_floats(q, p->D, seed, kind);
    for (int64_t d = 0; d < p->D; d++) {
        if (p->content == EXTREME)
            q[d] = row & 1 ? 1 : -1;
        else if (kind == NUMBERS_UNIT)
            q[d] = row && p->content != RANDOM ? first[d] * (row & 1 ? 1 : 0.5f) + q[d] * 0.01f
                                               : q[d] * 4;
    }
    if (p->content == RANDOM && row % 7 == 5) memset(q, 0, (size_t)p->D * sizeof *q);
}

// Fills the pages with garbage, then stores the tokens from the first tile on.
static struct problem problem_new(struct problem p)
{
    uint64_t seed = p.seed * 0x9E3779B97F4A7C15u + 1;
    const int64_t shift = p.G > 1 ? (int64_t)(next_u32(&seed) % (uint64_t)p.G) : 0;
    p.W = fg_kv_width(p.D);
    p.rows = rows_new(p.n, p.D);
    float *q = (float *)p.rows.q.data;
    int64_t *pos = (int64_t *)p.rows.pos.data;
    for (int64_t i = 0; i < p.n; i++) {
        pos[i] = p.base + (i + shift) / p.G;
        fill_query(q + i * p.W, &p, i, q, &seed);
    }
    rows_codes(&p.rows, p.D);
    const int64_t last = pos[p.n - 1];
    p.kv = pages_new(p.format, p.D, last / FG_KV_PAGE + 1);
    pages_fill(&p.kv, 0xFF, 0x7E00); // NaN in every format
    for (int64_t t = p.first * FG_KV_PAGE; t <= last; t++) {
        float k[FG_KV_WIDTH_MAX], v[FG_KV_WIDTH_MAX];
        token(k, v, &p, q, t, &seed);
        assert_true(levels[0]->kv_store(&p.kv.h, t, k, v));
    }
    return p;
}

static void problem_free(struct problem *p)
{
    pages_free(&p->kv);
    rows_free(&p->rows);
}

static const char *problem_name(const struct problem *p)
{
    static char name[200];
    snprintf(name, sizeof name, "%s, %s, D %lld, positions %lld.., %lld rows by %lld, seed %llu",
             format_names[p->format], content_names[p->content], (long long)p->D,
             (long long)p->base, (long long)p->n, (long long)p->G, (unsigned long long)p->seed);
    return name;
}

static void expect_same(const struct problem *p, const char *isa, bool fast, const char *how,
                        const struct fg_attn_acc *got, const struct fg_attn_acc *want, int64_t n)
{
    const int64_t r = acc_differ(got, want, n, p->W);
    if (r < 0) return;
    int64_t d = 0;
    while (d + 1 < p->W && same_float(got->o[r * p->W + d], want->o[r * p->W + d]))
        d++;
    fail_msg("%s, %s, %s: %s: row %lld: m %a l %a o[%lld] %a, expected %a %a %a", isa,
             fast ? "fast" : "exact", how, problem_name(p), (long long)r, (double)got->m[r],
             (double)got->l[r], (long long)d, (double)got->o[r * p->W + d], (double)want->m[r],
             (double)want->l[r], (double)want->o[r * p->W + d]);
}

// ---- The rules of kv.h once more, for one row, tile by tile of any size.

struct tokens { // rows as they are read back, and as they are stored
    int64_t D, n;
    float *k, *v;
    int8_t *kc, *vc;
    uint16_t *ks, *vs;
};

static struct tokens tokens_of(const struct fg_kv_head *h, int64_t n)
{
    const size_t values = (size_t)(n * h->D);
    struct tokens x = {.D = h->D,
                       .n = n,
                       .k = malloc(values * 4),
                       .v = malloc(values * 4),
                       .kc = malloc(values * 4),
                       .vc = malloc(values * 4),
                       .ks = malloc((size_t)n * 2),
                       .vs = malloc((size_t)n * 2)};
    assert_true(x.k && x.v && x.kc && x.vc && x.ks && x.vs);
    fg_kv_read(h, 0, n, x.k, x.v);
    fg_kv_export(h, 0, n, x.kc, h->ks ? x.ks : NULL, x.vc, h->vs ? x.vs : NULL);
    return x;
}

static void tokens_free(struct tokens *x)
{
    free(x->k);
    free(x->v);
    free(x->kc);
    free(x->vc);
    free(x->ks);
    free(x->vs);
}

struct row_query {
    const float *q;
    const int8_t *hi, *lo; // digits of codes
    float qs, scale;
};

static struct row_query row_query(const struct fg_attn_rows *rows, int64_t r, int64_t W)
{
    const int8_t *hi = rows->qc + r * 2 * W;
    return (struct row_query){rows->q + r * W, hi, hi + W, rows->qs[r], rows->scale};
}

struct triple {
    float m, l, o[FG_KV_WIDTH_MAX];
};

static struct triple folded(struct triple a, struct triple b, int64_t D)
{
    if (isinf(a.m)) return b;
    if (isinf(b.m)) return a;
    const float M = fmaxf(a.m, b.m), ea = fg_exp_f32(a.m - M), eb = fg_exp_f32(b.m - M);
    a.m = M;
    a.l = fmaf(a.l, ea, b.l * eb);
    for (int64_t d = 0; d < D; d++)
        a.o[d] = fmaf(a.o[d], ea, b.o[d] * eb);
    return a;
}

// Tokens [t0, t1) as one tile; codes of keys and of values as such where k8, v8. P, if not NULL,
// receives the integer weights.
static struct triple one_tile(const struct tokens *x, const struct row_query *q, bool k8, bool v8,
                              int64_t t0, int64_t t1, int32_t *P)
{
    struct triple r = {.m = -INFINITY};
    const int64_t D = x->D, n = t1 - t0;
    float *e = calloc((size_t)n, sizeof *e), lane[16] = {0};
    assert_non_null(e);
    for (int64_t t = 0; t < n; t++) {
        int64_t A = 0;
        float chain = 0;
        for (int64_t d = 0; d < D; d++) {
            A += (int64_t)x->kc[(t0 + t) * D + d] * (255 * q->hi[d] + q->lo[d]);
            chain = fmaf(q->q[d], x->k[(t0 + t) * D + d], chain);
        }
        assert_true(A >= INT32_MIN && A <= INT32_MAX);
        e[t] = k8 ? (float)A * q->qs * fg_f16_to_f32(x->ks[t0 + t]) : chain * q->scale;
        r.m = fmaxf(r.m, e[t]);
    }
    for (int64_t t = 0; t < n; t++)
        lane[t % 16] += e[t] = fg_exp_f32(e[t] - r.m);
    for (int half = 8; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    r.l = lane[0];

    if (!v8) {
        for (int64_t d = 0; d < D; d++)
            for (int64_t t = 0; t < n; t++)
                r.o[d] = fmaf(e[t], x->v[(t0 + t) * D + d], r.o[d]);
        free(e);
        return r;
    }
    float pm = 0;
    for (int64_t t = 0; t < n; t++)
        pm = fmaxf(pm, e[t] *= fg_f16_to_f32(x->vs[t0 + t]));
    for (int64_t t = 0; t < n && pm > 0; t++) {
        e[t] = fminf(rintf(e[t] * (32767.0f / pm)), 32767.0f);
        if (P) P[t] = (int32_t)e[t];
    }
    for (int64_t d = 0; d < D && pm > 0; d++) {
        int64_t O = 0;
        for (int64_t t = 0; t < n; t++)
            O += (int64_t)e[t] * x->vc[(t0 + t) * D + d];
        assert_true(O >= INT32_MIN && O <= INT32_MAX);
        r.o[d] = (float)O * (pm / 32767.0f);
    }
    free(e);
    return r;
}

// The whole row.
static struct triple by_rules(const struct tokens *x, const struct row_query *q, bool k8, bool v8,
                              int64_t n, int64_t tile, int64_t segment)
{
    struct triple row = {.m = -INFINITY};
    for (int64_t s = 0; s < n; s += segment) {
        struct triple part = {.m = -INFINITY};
        for (int64_t t = s; t < s + segment && t < n; t += tile)
            part = folded(part, one_tile(x, q, k8, v8, t, t + tile < n ? t + tile : n, NULL), x->D);
        row = folded(row, part, x->D);
    }
    return row;
}

static void expect_values(const char *what, const float *got, const double *want, int64_t n,
                          double tolerance)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= tolerance))
            fail_msg("%s: [%lld] is %.7f, expected %.7f", what, (long long)i, (double)got[i],
                     want[i]);
}

// specs: runtime A.3. Its numbers of `fast` are for queries of one digit; the same sums in double
// with two give the others.
enum { EX_D = 8, EX_N = 22, EX_TILE = 8, EX_SEGMENT = 16, EX_TILES = 3 };
static const double example_plain[EX_D + 2] = {-.012919, -.163758, .000956,  .084320,  .590305,
                                               .209620,  -.103140, -.079742, 3.337565, 3.722974};
static const double example_exact[EX_D + 2] = {-.010909, -.163090, -.001461, .084813,  .589163,
                                               .211618,  -.100596, -.079141, 3.330540, 3.741182};
struct example {
    int32_t codes[EX_D];
    double s; // of the query
    double m[EX_TILES], l[EX_TILES];
    int32_t P[EX_TILES][EX_TILE];
    double out[EX_D + 2]; // m and l of the row last
};
static const struct example examples[] = {
    {{19, -95, 50, 95, -127, -35, -14, -25},
     .0233277139,
     {3.347923, 3.048670, .569047},
     {2.359472, 1.583196, 2.699787},
     {{16452, 32767, 3580, 13817, 273, 4999, 52, 331},
      {8, 411, 2222, 5191, 5626, 32767, 3193, 125},
      {59, 32767, 4367, 17976, 23121, 4317, 0, 0}},
     {-.013825, -.166568, .000212, .083160, .592779, .211268, -.104324, -.082861, 3.347923,
      3.700889}},
    {{4910, -24200, 12840, 24231, -32512, -9012, -3595, -6493},
     9.11238823e-05,
     {3.330551, 3.038912, .564379},
     {2.382924, 1.589262, 2.717349},
     {{16794, 32767, 3656, 13991, 277, 5096, 53, 332},
      {9, 416, 2247, 5269, 5642, 32767, 3243, 125},
      {59, 32767, 4412, 18107, 23411, 4383, 0, 0}},
     {-.010915, -.163090, -.001454, .084811, .589167, .211621, -.100595, -.079147, 3.330551,
      3.741092}},
};

static struct pages example_pages(const struct fg_kernels *kn, enum fg_kv_format format)
{
    struct pages kv = pages_new(format, EX_D, 1);
    pages_fill(&kv, 0xFF, 0x7E00);
    for (int64_t t = 0; t < EX_N; t++) {
        float k[EX_D], v[EX_D];
        golden_row(k, EX_D, "ak", t, 2);
        golden_row(v, EX_D, "av", t, 1);
        assert_true(kn->kv_store(&kv.h, t, k, v));
    }
    return kv;
}

// The row by the rules in the example's small tiles, and by the kernel. want: o / l; m; l.
static void check_example_row(const struct fg_kernels *kn, const struct pages *kv,
                              const struct query_rows *rows, bool fast, const double *want)
{
    struct tokens x = tokens_of(&kv->h, EX_N);
    const struct row_query q = row_query(&rows->r, 0, rows->W);
    const struct triple r = by_rules(&x, &q, fast, fast, EX_N, EX_TILE, EX_SEGMENT);
    float got[EX_D + 2], kernel[EX_D];
    for (int d = 0; d < EX_D; d++)
        got[d] = r.o[d] / r.l;
    got[EX_D] = r.m;
    got[EX_D + 1] = r.l;
    expect_values("the rules", got, want, EX_D + 2, 1e-5);

    struct fg_attn_acc total = acc_new(1, rows->W);
    attend(kn, fast, &kv->h, &rows->r, 0, &total);
    kn->attn_finish(kernel, &total, 0, EX_D);
    // 15 bits of weights against the largest of 22 tokens, not of 8.
    expect_values(kn->isa, kernel, want, EX_D, fast ? 3e-5 : 1e-5);
    acc_free(&total);
    tokens_free(&x);
}

static void check_example_tiles(const struct pages *kv, const struct query_rows *rows,
                                const struct example *example)
{
    struct tokens x = tokens_of(&kv->h, EX_N);
    const struct row_query q = row_query(&rows->r, 0, rows->W);
    for (int64_t i = 0; i < EX_TILES; i++) {
        int32_t P[EX_TILE] = {0};
        const int64_t t1 = (i + 1) * EX_TILE < EX_N ? (i + 1) * EX_TILE : EX_N;
        const struct triple r = one_tile(&x, &q, true, true, i * EX_TILE, t1, P);
        expect_values("m of a tile", &r.m, example->m + i, 1, 1e-5);
        expect_values("l of a tile", &r.l, example->l + i, 1, 1e-5);
        assert_memory_equal(P, example->P[i], sizeof P);
    }
    tokens_free(&x);
}

static void check_example(const struct fg_kernels *kn)
{
    struct query_rows rows = rows_new(1, EX_D);
    double value[EX_D];
    golden_values(value, EX_D, "aq", 3);
    memset(rows.q.data, 0, (size_t)rows.W * 4);
    for (int d = 0; d < EX_D; d++)
        ((float *)rows.q.data)[d] = (float)value[d];
    ((int64_t *)rows.pos.data)[0] = EX_N - 1;
    int8_t *hi = (int8_t *)rows.qc.data, *lo = hi + rows.W;
    float *qs = (float *)rows.qs.data;
    int32_t *qsum = (int32_t *)rows.qsum.data;

    struct pages plain = example_pages(kn, FG_KV_F32), kv = example_pages(kn, FG_KV_KV8);
    fg_attn_query(kn, hi, qs, qsum, rows.r.q, EX_D, rows.r.scale);
    check_example_row(kn, &plain, &rows, false, example_plain);
    check_example_row(kn, &kv, &rows, false, example_exact);
    for (int digits = 1; digits <= 2; digits++) {
        const struct example *example = &examples[digits - 1];
        if (digits == 1) { // as numbers that fit the lower one
            memset(hi, 0, 2 * (size_t)rows.W);
            *qsum = 0;
            for (int d = 0; d < EX_D; d++)
                *qsum += lo[d] = (int8_t)example->codes[d];
            *qs = (float)example->s * rows.r.scale;
        } else {
            fg_attn_query(kn, hi, qs, qsum, rows.r.q, EX_D, rows.r.scale);
            const float s = *qs / rows.r.scale;
            expect_values("scale of the query", &s, &example->s, 1, 1e-11);
            for (int d = 0; d < EX_D; d++)
                assert_int_equal(255 * hi[d] + lo[d], example->codes[d]);
        }
        check_example_tiles(&kv, &rows, example);
        check_example_row(kn, &kv, &rows, true, example->out);
    }
    pages_free(&plain);
    pages_free(&kv);
    rows_free(&rows);
}

static void test_worked_example(void **state)
{
    (void)state;
    for (int level = 0; level < n_levels; level++)
        check_example(levels[level]);
}

static const int64_t dims[] = {64, 80, 96, 128, 256, 40, 8, 33, 512};

// Every level against the rules above.
static void test_rules(void **state)
{
    (void)state;
    static const int64_t bases[] = {0, 14, 254, 255, 256, 530};
    uint64_t pick = 99;
    for (int f = 0; f < FG_KV_N_ALL; f++)
        for (int64_t i = 0; i < COUNT(dims); i++)
            for (int c = 0; c < N_CONTENTS; c++) {
                struct problem p = problem_new((struct problem){
                    .format = (enum fg_kv_format)f,
                    .content = (enum content)c,
                    .D = dims[i],
                    .base =
                        c == RANDOM && dims[i] <= 33 ? 2300 : bases[next_u32(&pick) % COUNT(bases)],
                    .n = 3,
                    .G = 2,
                    .seed = next_u32(&pick) % 100000});
                struct tokens x = tokens_of(&p.kv.h, p.rows.r.pos[p.n - 1] + 1);
                struct fg_attn_acc want = acc_new(p.n, p.W), got = acc_new(p.n, p.W);
                for (int fast = 0; fast < 2; fast++) {
                    for (int64_t r = 0; r < p.n; r++) {
                        const struct row_query q = row_query(&p.rows.r, r, p.W);
                        const struct triple t =
                            by_rules(&x, &q, fast && fg_kv_k8(p.format), fast && fg_kv_v8(p.format),
                                     p.rows.r.pos[r] + 1, FG_KV_PAGE, FG_KV_SEGMENT);
                        want.m[r] = t.m;
                        want.l[r] = t.l;
                        memset(want.o + r * p.W, 0, (size_t)p.W * 4);
                        memcpy(want.o + r * p.W, t.o, (size_t)p.D * 4);
                    }
                    for (int level = 0; level < n_levels; level++) {
                        attend(levels[level], fast, &p.kv.h, &p.rows.r, 0, &got);
                        expect_same(&p, levels[level]->isa, fast, "rules", &got, &want, p.n);
                    }
                }
                acc_free(&want);
                acc_free(&got);
                tokens_free(&x);
                problem_free(&p);
            }
}

// ---- Levels and company, over shapes at the boundaries of pages, segments and blocks.

static const int64_t bases[] = {0,   1,   7,   14,  15,  16,   17,   100,  238,  254,  255,
                                256, 257, 300, 511, 512, 2030, 2046, 2047, 2048, 2049, 2303};
static const int64_t counts[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13,
                                 15, 16, 17, 18, 24, 31, 32, 33, 36, 48, 63, 64};
static const int64_t groups[] = {1, 3, 6, 8};

static struct problem random_problem(enum fg_kv_format format, int64_t D, uint64_t *pick)
{
    struct problem p = {.format = format, .D = D};
    p.base = bases[next_u32(pick) % COUNT(bases)];
    p.n = counts[next_u32(pick) % COUNT(counts)];
    p.G = groups[next_u32(pick) % COUNT(groups)];
    p.content = (enum content)(next_u32(pick) % N_CONTENTS);
    p.seed = next_u32(pick) % 100000;
    p.first = p.base / FG_KV_PAGE > 1 ? p.base / FG_KV_PAGE - 1 : 0;
    return problem_new(p);
}

static void test_levels(void **state)
{
    (void)state;
    uint64_t pick = 4242;
    for (int f = 0; f < FG_KV_N_ALL; f++)
        for (int64_t i = 0; i < COUNT(dims); i++)
            for (int draw = 0; draw < (dims[i] > 256 ? 2 : 7); draw++) {
                struct problem p = random_problem((enum fg_kv_format)f, dims[i], &pick);
                struct fg_attn_acc want = acc_new(p.n, p.W), got = acc_new(p.n, p.W);
                struct fenced out = fenced_new((size_t)p.D * 4),
                              out_want = fenced_new((size_t)p.D * 4);
                for (int fast = 0; fast < 2; fast++) {
                    attend(levels[0], fast, &p.kv.h, &p.rows.r, p.first, &want);
                    for (int level = 1; level < n_levels; level++) {
                        attend(levels[level], fast, &p.kv.h, &p.rows.r, p.first, &got);
                        expect_same(&p, levels[level]->isa, fast, "levels", &got, &want, p.n);
                        for (int64_t r = 0; r < p.n; r++) {
                            levels[0]->attn_finish((float *)out_want.data, &want, r, p.D);
                            levels[level]->attn_finish((float *)out.data, &got, r, p.D);
                            for (int64_t d = 0; d < p.D; d++)
                                if (!same_float(((float *)out.data)[d],
                                                ((float *)out_want.data)[d]))
                                    fail_msg("%s: %s: row %lld: out[%lld]", levels[level]->isa,
                                             problem_name(&p), (long long)r, (long long)d);
                        }
                    }
                }
                fenced_free(&out);
                fenced_free(&out_want);
                acc_free(&want);
                acc_free(&got);
                problem_free(&p);
            }
}

// The rows in calls of uneven widths, each with arrays of its own and pages that hold nothing
// behind the last token of the call but garbage of several kinds.
static void check_company(const struct problem *p, const struct fg_kernels *kn, bool fast)
{
    static const int bytes[] = {0xFF, 0x7F, 0x00, 0x80};
    static const uint16_t scales[] = {0x7E00, 0x7C00, 0x0000, 0xFFFF};
    struct fg_attn_acc whole = acc_new(p->n, p->W);
    attend(kn, fast, &p->kv.h, &p->rows.r, p->first, &whole);
    const size_t values = (size_t)(p->kv.n * FG_KV_PAGE * p->D);
    void *k = malloc(values * 4), *v = malloc(values * 4);
    uint16_t *ks = malloc((size_t)p->kv.n * FG_KV_PAGE * 2);
    uint16_t *vs = malloc((size_t)p->kv.n * FG_KV_PAGE * 2);
    assert_true(k && v && ks && vs);
    struct pages part = pages_new(p->format, p->D, p->kv.n);
    uint64_t seed = p->seed + 9;
    for (int64_t r0 = 0, n; r0 < p->n; r0 += n) {
        n = 1 + next_u32(&seed) % (r0 % 3 ? 19 : 5);
        n = n < p->n - r0 ? n : p->n - r0;
        struct query_rows rows = rows_slice(&p->rows, p->D, r0, r0 + n);
        const int64_t from = p->first * FG_KV_PAGE, stored = rows.r.pos[n - 1] + 1 - from;
        const uint32_t garbage = next_u32(&seed) % 4;
        pages_fill(&part, bytes[garbage], scales[garbage]);
        fg_kv_export(&p->kv.h, from, stored, k, part.h.ks ? ks : NULL, v, part.h.vs ? vs : NULL);
        fg_kv_import(&part.h, from, stored, k, part.h.ks ? ks : NULL, v, part.h.vs ? vs : NULL);
        struct fg_attn_acc got = acc_new(n, p->W);
        attend(kn, fast, &part.h, &rows.r, p->first, &got);
        const struct fg_attn_acc want = {whole.m + r0, whole.l + r0, whole.o + r0 * p->W};
        char how[80];
        snprintf(how, sizeof how, "%lld rows from %lld alone, garbage %u", (long long)n,
                 (long long)r0, garbage);
        expect_same(p, kn->isa, fast, how, &got, &want, n);
        acc_free(&got);
        rows_free(&rows);
    }
    pages_free(&part);
    free(k);
    free(v);
    free(ks);
    free(vs);
    acc_free(&whole);
}

static void test_company(void **state)
{
    (void)state;
    uint64_t pick = 777;
    for (int f = 0; f < FG_KV_N_ALL; f++)
        for (int64_t i = 0; i < COUNT(dims) - 1; i++)
            for (int level = 0; level < n_levels; level++) {
                struct problem p = random_problem((enum fg_kv_format)f, dims[i], &pick);
                check_company(&p, levels[level], false);
                check_company(&p, levels[level], true);
                problem_free(&p);
            }
}

// ---- What a call of a tile may touch, and how it folds.

// attn_tile on rows [r0, r1) is attn_combine with the triple that it gives to empty rows; other
// rows, and rows that see nothing of the tile, keep their bits.
static void check_fold(const struct problem *p, const struct fg_kernels *kn, bool fast, int64_t r0,
                       int64_t r1)
{
    const int64_t tile = p->kv.n - 1;
    struct fg_attn_acc direct = acc_new(p->n, p->W), before = acc_new(p->n, p->W);
    struct fg_attn_acc triple = acc_new(p->n, p->W), by_hand = acc_new(p->n, p->W);
    uint64_t seed = p->seed + 3;
    for (int64_t r = 0; r < p->n; r++) {
        before.m[r] = r % 4 == 2 ? -INFINITY : 3 * next_number(&seed, NUMBERS_UNIT);
        before.l[r] = 1 + next_number(&seed, NUMBERS_UNIT);
        fill_floats(before.o + r * p->W, p->W, &seed, NUMBERS_UNIT);
    }
    struct fg_attn_acc *copies[] = {&direct, &by_hand};
    for (int i = 0; i < 2; i++) {
        memcpy(copies[i]->m, before.m, (size_t)p->n * 4);
        memcpy(copies[i]->l, before.l, (size_t)p->n * 4);
        memcpy(copies[i]->o, before.o, (size_t)(p->n * p->W) * 4);
    }
    struct fenced scratch = fenced_new(fg_attn_tile_scratch_bytes(p->D));
    memset(scratch.data, 0xFF, fg_attn_tile_scratch_bytes(p->D));
    acc_empty(&triple, 0, p->n, p->W);
    kn->attn_tile[fast](&direct, &p->kv.h, tile, &p->rows.r, r0, r1, scratch.data);
    kn->attn_tile[fast](&triple, &p->kv.h, tile, &p->rows.r, 0, p->n, scratch.data);
    int64_t first = r0; // the first that sees something
    while (first < r1 && p->rows.r.pos[first] < tile * FG_KV_PAGE)
        first++;
    kn->attn_combine(&by_hand, &triple, first, r1, p->W);
    expect_same(p, kn->isa, fast, "fold", &direct, &by_hand, p->n);
    for (int64_t r = 0; r < p->n; r++) {
        if (r >= r0 && r < r1 && p->rows.r.pos[r] >= tile * FG_KV_PAGE) continue;
        assert_memory_equal(direct.m + r, before.m + r, 4);
        assert_memory_equal(direct.l + r, before.l + r, 4);
        assert_memory_equal(direct.o + r * p->W, before.o + r * p->W, (size_t)p->W * 4);
    }
    fenced_free(&scratch);
    acc_free(&direct);
    acc_free(&before);
    acc_free(&triple);
    acc_free(&by_hand);
}

static void test_fold(void **state)
{
    (void)state;
    static const int64_t ranges[][2] = {{0, 40}, {0, 1}, {3, 20}, {17, 34}, {39, 40}, {5, 5}};
    for (int f = 0; f < FG_KV_N_ALL; f++)
        for (int64_t i = 0; i < 5; i++) {
            // Positions 236 .. 255 in the first page, 256 .. 275 in the second.
            struct problem p = problem_new((struct problem){.format = (enum fg_kv_format)f,
                                                            .content = RANDOM,
                                                            .D = dims[i],
                                                            .base = 236,
                                                            .n = 40,
                                                            .G = 1,
                                                            .seed = (uint64_t)i});
            for (int level = 0; level < n_levels; level++)
                for (int64_t j = 0; j < COUNT(ranges); j++) {
                    check_fold(&p, levels[level], false, ranges[j][0], ranges[j][1]);
                    check_fold(&p, levels[level], true, ranges[j][0], ranges[j][1]);
                }
            problem_free(&p);
        }
}

static void test_combine(void **state)
{
    (void)state;
    static const float ms[] = {-INFINITY, 0, -0.0f, 3, -200, 3.5f, 80, 1e-30f};
    for (int level = 0; level < n_levels; level++)
        for (int64_t W = 32; W <= FG_KV_WIDTH_MAX; W += 96) {
            const int64_t n = COUNT(ms) * COUNT(ms) + 2;
            struct fg_attn_acc a = acc_new(n, W), b = acc_new(n, W), want = acc_new(n, W);
            uint64_t seed = (uint64_t)W;
            for (int64_t r = 0; r < n; r++) { // rows 0 and n - 1 are outside of the call
                a.m[r] = ms[(r + 7) % COUNT(ms)];
                b.m[r] = ms[(r + 7) / COUNT(ms) % COUNT(ms)];
                a.l[r] = 2 + next_number(&seed, NUMBERS_UNIT);
                b.l[r] = 2 + next_number(&seed, NUMBERS_UNIT);
                for (int64_t d = 0; d < W; d++) {
                    a.o[r * W + d] = next_number(&seed, d % 5 ? NUMBERS_UNIT : NUMBERS_SMALL);
                    b.o[r * W + d] = next_number(&seed, d % 5 ? NUMBERS_UNIT : NUMBERS_SMALL);
                }
                if (isinf(a.m[r])) a.l[r] = a.o[r * W] = a.o[r * W + W - 1] = NAN;
                if (isinf(b.m[r]) && !isinf(a.m[r])) b.l[r] = b.o[r * W] = NAN;
                struct triple first = {.m = a.m[r], .l = a.l[r]};
                struct triple later = {.m = b.m[r], .l = b.l[r]};
                memcpy(first.o, a.o + r * W, (size_t)W * 4);
                memcpy(later.o, b.o + r * W, (size_t)W * 4);
                if (r > 0 && r < n - 1) first = folded(first, later, W);
                want.m[r] = first.m;
                want.l[r] = first.l;
                memcpy(want.o + r * W, first.o, (size_t)W * 4);
            }
            levels[level]->attn_combine(&a, &b, 1, n - 1, W);
            const int64_t r = acc_differ(&a, &want, n, W);
            if (r >= 0)
                fail_msg("%s, W %lld: row %lld: m %a l %a, expected %a %a", levels[level]->isa,
                         (long long)W, (long long)r, (double)a.m[r], (double)a.l[r],
                         (double)want.m[r], (double)want.l[r]);
            acc_free(&a);
            acc_free(&b);
            acc_free(&want);
        }
}

// ---- Queries.

static void check_query(const struct fg_kernels *kn, const float *q, int64_t D, float scale,
                        const char *what)
{
    const int64_t W = fg_kv_width(D);
    int8_t want[2 * FG_KV_WIDTH_MAX] = {0};
    struct fenced qc = fenced_new((size_t)(2 * W));
    int32_t sum = 0, got_sum = 12345;
    uint32_t largest = 0;
    for (int64_t d = 0; d < D; d++) {
        const uint32_t bits = fg_bits_of_f32(q[d]) & 0x7FFFFFFF;
        largest = bits > largest ? bits : largest;
    }
    const float mx = fg_f32_of_bits(largest);
    const float s = !isfinite(mx) ? NAN : mx < 0x1p-100f ? 0 : mx / 32512;
    for (int64_t d = 0; d < D && s > 0; d++) {
        const int code = (int)rintf(q[d] * (32512 / mx));
        want[d] = (int8_t)((code + 127 + 255 * 128) / 255 - 128); // nearest, whatever the sign
        want[W + d] = (int8_t)(code - 255 * want[d]);
        assert_true(abs(want[d]) <= 127 && abs(code - 255 * want[d]) <= 127);
        sum += code;
    }
    memset(qc.data, 0x55, (size_t)(2 * W));
    float qs = CANARY;
    fg_attn_query(kn, (int8_t *)qc.data, &qs, &got_sum, q, D, scale);
    if (!same_float(qs, s * scale) || got_sum != sum || memcmp(qc.data, want, (size_t)(2 * W)) != 0)
        fail_msg("%s, %s, D %lld: scale %a, sum %d, expected %a, %d", kn->isa, what, (long long)D,
                 (double)qs, got_sum, (double)(s * scale), sum);
    fenced_free(&qc);
}

static void test_query(void **state)
{
    (void)state;
    for (int level = 0; level < n_levels; level++)
        for (int64_t i = 0; i < COUNT(dims); i++) {
            const int64_t D = dims[i];
            const float scale = 1.0f / sqrtf((float)D);
            struct fenced mem = fenced_new((size_t)D * 4);
            float *q = (float *)mem.data;
            uint64_t seed = (uint64_t)D;
            for (int trial = 0; trial < 40; trial++) {
                fill_floats(q, D, &seed, (enum numbers)(trial % N_NUMBERS));
                check_query(levels[level], q, D, scale, "numbers");
            }
            static const float magnitudes[] = {
                0,         -0.0f, 0x1p-149f,       0x1p-126f, 0x1p-101f, 0x1.fffffep-101f,
                0x1p-100f, 1,     0x1.fffffep127f, INFINITY,  NAN,       -NAN};
            for (int64_t m = 0; m < COUNT(magnitudes); m++)
                for (int64_t at = 0; at < D; at += 1 + D / 3) {
                    for (int64_t d = 0; d < D; d++)
                        q[d] = d == at ? magnitudes[m] : m % 2 ? -0.0f : 0;
                    check_query(levels[level], q, D, scale, "one number");
                }
            for (int64_t d = 0; d < D; d++) // products halfway between integers
                q[d] = d == D - 1 ? 32512 : (float)(d * 193 % 65024 - 32512) + 0.5f;
            check_query(levels[level], q, D, scale, "halves");
            fenced_free(&mem);
        }
}

// A query that is not finite gives an output that is not, so that the call can be refused.
static void test_not_finite(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int f = 0; f < FG_KV_N_ALL; f++)
        for (int64_t i = 0; i < COUNT(bad); i++) {
            struct problem p = problem_new((struct problem){.format = (enum fg_kv_format)f,
                                                            .content = RANDOM,
                                                            .D = 80,
                                                            .base = 700,
                                                            .n = 3,
                                                            .G = 3,
                                                            .seed = (uint64_t)i});
            ((float *)p.rows.q.data)[p.W + 79] = bad[i]; // row 1
            rows_codes(&p.rows, p.D);
            for (int level = 0; level < n_levels; level++)
                for (int fast = 0; fast < 2; fast++) {
                    struct fg_attn_acc total = acc_new(p.n, p.W);
                    attend(levels[level], fast, &p.kv.h, &p.rows.r, 0, &total);
                    for (int64_t r = 0; r < p.n; r++) {
                        float out[80];
                        levels[level]->attn_finish(out, &total, r, p.D);
                        for (int64_t d = 0; d < p.D; d++)
                            if (!isfinite(out[d]) != (r == 1))
                                fail_msg("%s, %s, %s: %g in row 1 gives %g in row %lld",
                                         levels[level]->isa, fast ? "fast" : "exact",
                                         format_names[f], (double)bad[i], (double)out[d],
                                         (long long)r);
                    }
                    acc_free(&total);
                }
            problem_free(&p);
        }
}

// ---- Values without weight: scales of zero, which no row that was stored has, but files might.
static void test_no_weight(void **state)
{
    (void)state;
    for (int level = 0; level < n_levels; level++)
        for (int f = FG_KV_V8; f <= FG_KV_KV8; f++) {
            struct problem p = problem_new((struct problem){.format = (enum fg_kv_format)f,
                                                            .content = RANDOM,
                                                            .D = 96,
                                                            .base = 300,
                                                            .n = 17,
                                                            .G = 6,
                                                            .seed = 5});
            struct fg_attn_acc want = acc_new(p.n, p.W), got = acc_new(p.n, p.W);
            // The first tile weighs nothing, then both.
            for (int64_t zeros = FG_KV_PAGE; zeros <= 2 * FG_KV_PAGE; zeros += FG_KV_PAGE) {
                for (int64_t t = 0; t < zeros; t++)
                    p.kv.h.vs[t] = 0;
                attend(levels[0], true, &p.kv.h, &p.rows.r, 0, &want);
                attend(levels[level], true, &p.kv.h, &p.rows.r, 0, &got);
                expect_same(&p, levels[level]->isa, true, "no weight", &got, &want, p.n);
                for (int64_t r = 0; r < p.n; r++) {
                    float out[96];
                    bool all_zero = true;
                    levels[level]->attn_finish(out, &got, r, p.D);
                    for (int64_t d = 0; d < p.D; d++)
                        all_zero &= fg_bits_of_f32(out[d]) == 0;
                    assert_int_equal(all_zero, zeros > FG_KV_PAGE);
                }
            }
            acc_free(&want);
            acc_free(&got);
            problem_free(&p);
        }
}

// ---- Accuracy.

// out [D] of a softmax in double over tokens [0, n); returns the largest |v|.
static double in_double(double *out, const struct tokens *x, const float *q, int64_t n, float scale)
{
    double *e = malloc((size_t)n * sizeof *e), m = -INFINITY, l = 0, largest = 0;
    assert_non_null(e);
    for (int64_t t = 0; t < n; t++) {
        e[t] = 0;
        for (int64_t d = 0; d < x->D; d++)
            e[t] += (double)q[d] * x->k[t * x->D + d];
        m = fmax(m, e[t] *= scale);
    }
    for (int64_t t = 0; t < n; t++)
        l += e[t] = exp(e[t] - m);
    for (int64_t d = 0; d < x->D; d++)
        out[d] = 0;
    for (int64_t t = 0; t < n; t++)
        for (int64_t d = 0; d < x->D; d++) {
            const double v = x->v[t * x->D + d];
            out[d] += e[t] / l * v;
            largest = fmax(largest, fabs(v));
        }
    free(e);
    return largest;
}

// Exact mode against double on what is stored (specs: runtime 9.3, N2).
static void test_double(void **state)
{
    (void)state;
    static const int64_t contexts[] = {1, 2, 16, 17, 255, 256, 257, 1000, 2048, 2049, 5000};
    static const int64_t widths[] = {64, 128, 256};
    static const enum content contents[] = {RANDOM, DOMINANT, EQUAL, EXTREME, POLES, SPREAD, FAINT};
    double worst[N_CONTENTS] = {0};
    for (int64_t c = 0; c < COUNT(contexts); c++)
        for (int64_t i = 0; i < COUNT(contents); i++) {
            const enum fg_kv_format format = (enum fg_kv_format)((c + i) % FG_KV_N_ALL);
            struct problem p = problem_new((struct problem){.format = format,
                                                            .content = contents[i],
                                                            .D = widths[(c + i / 2) % 3],
                                                            .base = contexts[c] - 1,
                                                            .n = 2,
                                                            .G = 2,
                                                            .seed = (uint64_t)(c * 10 + i)});
            const int64_t n = p.rows.r.pos[1] + 1;
            struct tokens x = tokens_of(&p.kv.h, n);
            struct fg_attn_acc total = acc_new(p.n, p.W);
            for (int level = 0; level < n_levels; level++) {
                attend(levels[level], false, &p.kv.h, &p.rows.r, 0, &total);
                for (int64_t r = 0; r < p.n; r++) {
                    double want[FG_KV_WIDTH_MAX] = {0};
                    float out[FG_KV_WIDTH_MAX];
                    const double largest = in_double(want, &x, p.rows.r.q + r * p.W,
                                                     p.rows.r.pos[r] + 1, p.rows.r.scale);
                    levels[level]->attn_finish(out, &total, r, p.D);
                    double error = 0;
                    for (int64_t d = 0; d < p.D; d++)
                        error = fmax(error, fabs((double)out[d] - want[d]) / largest);
                    worst[contents[i]] = fmax(worst[contents[i]], error);
                    // A score near 80 in FP32 is off by several units of 2^-17, and so are weights
                    // of tokens whose scores are near each other but not equal.
                    if (!(error <= (contents[i] == SPREAD ? 3e-5 : 2e-6)))
                        fail_msg("%s: %s: row %lld: error %g", levels[level]->isa, problem_name(&p),
                                 (long long)r, error);
                }
            }
            acc_free(&total);
            tokens_free(&x);
            problem_free(&p);
        }
    for (int64_t i = 0; i < COUNT(contents); i++)
        print_message("exact against double, %s: %.2g of the largest value\n",
                      content_names[contents[i]], worst[contents[i]]);
}

// How far fast is from exact on the same stored rows: relative L2 of the outputs.
static void test_error_of_fast(void **state)
{
    (void)state;
    const struct fg_kernels *kn = levels[n_levels - 1];
    for (int f = FG_KV_V8; f <= FG_KV_KV8; f++) {
        double differences = 0, squares = 0;
        for (uint64_t seed = 0; seed < 8; seed++) {
            struct problem p = problem_new((struct problem){.format = (enum fg_kv_format)f,
                                                            .content = RANDOM,
                                                            .D = 256,
                                                            .base = 600,
                                                            .n = 16,
                                                            .G = 1,
                                                            .seed = seed});
            struct fg_attn_acc exact = acc_new(p.n, p.W), fast = acc_new(p.n, p.W);
            attend(kn, false, &p.kv.h, &p.rows.r, 0, &exact);
            attend(kn, true, &p.kv.h, &p.rows.r, 0, &fast);
            for (int64_t r = 0; r < p.n; r++) {
                float a[256], b[256];
                kn->attn_finish(a, &exact, r, p.D);
                kn->attn_finish(b, &fast, r, p.D);
                for (int64_t d = 0; d < p.D; d++) {
                    differences += ((double)a[d] - b[d]) * ((double)a[d] - b[d]);
                    squares += (double)a[d] * a[d];
                }
            }
            acc_free(&exact);
            acc_free(&fast);
            problem_free(&p);
        }
        const double error = sqrt(differences / squares);
        print_message("fast against exact, %s: relative L2 %.2g\n", format_names[f], error);
        assert_true(error < 2e-4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example), cmocka_unit_test(test_rules),
        cmocka_unit_test(test_levels),         cmocka_unit_test(test_company),
        cmocka_unit_test(test_fold),           cmocka_unit_test(test_combine),
        cmocka_unit_test(test_query),          cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_no_weight),      cmocka_unit_test(test_double),
        cmocka_unit_test(test_error_of_fast),
    };
    return cmocka_run_group_tests_name("kernels.attn", tests, setup, NULL);
}
