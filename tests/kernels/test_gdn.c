// The recurrence of Gated DeltaNet with committed and tried rows: the worked example of the
// specification and oracles in double (row by row and in chunks), then every level against ref bit
// for bit, and any way of trying, applying and committing against rows that run one at a time.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/arena.h"
#include "kernels/kv_cases.h"
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

// ---- In double.

// Inputs of a head as doubles: q, k [T][dk], v [T][dv], g, beta [T], S [dk][dv] before the rows.
struct exact {
    int64_t dk, dv, T;
    double *q, *k, *v, *g, *beta, *S;
};

static double *doubles_new(int64_t n)
{
    double *p = calloc((size_t)n + 1, sizeof *p);
    assert_non_null(p);
    return p;
}

static struct exact exact_new(int64_t dk, int64_t dv, int64_t T)
{
    return (struct exact){.dk = dk,
                          .dv = dv,
                          .T = T,
                          .q = doubles_new(T * dk),
                          .k = doubles_new(T * dk),
                          .v = doubles_new(T * dv),
                          .g = doubles_new(T),
                          .beta = doubles_new(T),
                          .S = doubles_new(dk * dv)};
}

static void exact_free(struct exact *x)
{
    double *all[] = {x->q, x->k, x->v, x->g, x->beta, x->S};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void unit(double *x, int64_t n, double scale)
{
    double squares = 1e-6;
    for (int64_t i = 0; i < n; i++)
        squares += x[i] * x[i];
    for (int64_t i = 0; i < n; i++)
        x[i] *= scale / sqrt(squares);
}

// Inputs as a model gives them.
static struct exact exact_random(int64_t dk, int64_t dv, int64_t T, uint64_t seed)
{
    struct exact x = exact_new(dk, dv, T);
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
    for (int64_t i = 0; i < T * dk; i++) {
        x.q[i] = next_number(&state, NUMBERS_UNIT);
        x.k[i] = next_number(&state, NUMBERS_UNIT);
    }
    for (int64_t i = 0; i < T * dv; i++)
        x.v[i] = next_number(&state, NUMBERS_UNIT);
    for (int64_t i = 0; i < dk * dv; i++)
        x.S[i] = 0.3 * next_number(&state, NUMBERS_UNIT);
    for (int64_t t = 0; t < T; t++) {
        unit(x.q + t * dk, dk, 1 / sqrt((double)dk));
        unit(x.k + t * dk, dk, 1);
        // Decays from one that forgets little to one that forgets almost everything.
        x.g[t] = exp(-pow(10, 2 * next_number(&state, NUMBERS_UNIT) - 1.5));
        x.beta[t] = 0.5 + 0.5 * next_number(&state, NUMBERS_UNIT);
    }
    return x;
}

// One row of the textbook form (specs: model 4.1): decay, read, write, query; d and o may be NULL.
static void step(double *S, const struct exact *x, int64_t t, double *d, double *o)
{
    const double *k = x->k + t * x->dk, *q = x->q + t * x->dk;
    for (int64_t i = 0; i < x->dk * x->dv; i++)
        S[i] *= x->g[t];
    for (int64_t j = 0; j < x->dv; j++) {
        double m = 0, out = 0;
        for (int64_t i = 0; i < x->dk; i++)
            m += S[i * x->dv + j] * k[i];
        const double dj = x->beta[t] * (x->v[t * x->dv + j] - m);
        for (int64_t i = 0; i < x->dk; i++) {
            S[i * x->dv + j] += k[i] * dj;
            out += S[i * x->dv + j] * q[i];
        }
        if (d) d[j] = dj;
        if (o) o[j] = out;
    }
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

// The chunk of all rows (specs: runtime 6.3).
struct chunk {
    double *cum;        // [T]
    double *u, *wk, *k; // [T][dv], [T][dk]; k is the input's
    double *vn, *o;     // [T][dv]
};

// x = (I + N)^-1 b, columns of b: rows from the first down, or for T a power of two the product
// (I - N)(I + N^2)(I + N^4)...
static void solve(double *x, const double *N, const double *b, int64_t T, int64_t columns,
                  bool product)
{
    memcpy(x, b, (size_t)(T * columns) * sizeof *x);
    if (!product) {
        for (int64_t i = 0; i < T; i++)
            for (int64_t s = 0; s < i; s++)
                for (int64_t c = 0; c < columns; c++)
                    x[i * columns + c] -= N[i * T + s] * x[s * columns + c];
        return;
    }
    double *power = doubles_new(T * T), *square = doubles_new(T * T), *y = doubles_new(T * columns);
    memcpy(power, N, (size_t)(T * T) * sizeof *power);
    for (int64_t exponent = 1; exponent < T; exponent *= 2) { // factors commute: powers of N
        for (int64_t i = 0; i < T; i++)
            for (int64_t c = 0; c < columns; c++) {
                double sum = 0;
                for (int64_t s = 0; s < T; s++)
                    sum += power[i * T + s] * x[s * columns + c];
                y[i * columns + c] = x[i * columns + c] + (exponent == 1 ? -sum : sum);
            }
        memcpy(x, y, (size_t)(T * columns) * sizeof *x);
        for (int64_t i = 0; i < T; i++)
            for (int64_t j = 0; j < T; j++) {
                square[i * T + j] = 0;
                for (int64_t s = 0; s < T; s++)
                    square[i * T + j] += power[i * T + s] * power[s * T + j];
            }
        memcpy(power, square, (size_t)(T * T) * sizeof *power);
    }
    free(power);
    free(square);
    free(y);
}

static struct chunk chunk_new(const struct exact *x, bool product)
{
    const int64_t T = x->T, dk = x->dk, dv = x->dv;
    struct chunk c = {.cum = doubles_new(T),
                      .u = doubles_new(T * dv),
                      .wk = doubles_new(T * dk),
                      .k = x->k,
                      .vn = doubles_new(T * dv),
                      .o = doubles_new(T * dv)};
    double *N = doubles_new(T * T), *bv = doubles_new(T * dv), *bk = doubles_new(T * dk);
    for (int64_t t = 0; t < T; t++) {
        c.cum[t] = (t ? c.cum[t - 1] : 0) + log(x->g[t]);
        for (int64_t j = 0; j < dv; j++)
            bv[t * dv + j] = x->beta[t] * x->v[t * dv + j];
        for (int64_t i = 0; i < dk; i++)
            bk[t * dk + i] = x->beta[t] * x->k[t * dk + i] * exp(c.cum[t]);
        for (int64_t s = 0; s < t; s++)
            N[t * T + s] =
                x->beta[t] * dot(x->k + t * dk, x->k + s * dk, dk) * exp(c.cum[t] - c.cum[s]);
    }
    solve(c.u, N, bv, T, dv, product);
    solve(c.wk, N, bk, T, dk, product);
    for (int64_t t = 0; t < T; t++)
        for (int64_t j = 0; j < dv; j++) {
            double wS = 0, qS = 0;
            for (int64_t i = 0; i < dk; i++) {
                wS += c.wk[t * dk + i] * x->S[i * dv + j];
                qS += x->q[t * dk + i] * x->S[i * dv + j];
            }
            c.vn[t * dv + j] = c.u[t * dv + j] - wS;
            c.o[t * dv + j] = exp(c.cum[t]) * qS;
        }
    for (int64_t t = 0; t < T; t++)
        for (int64_t s = 0; s <= t; s++) {
            const double qk = dot(x->q + t * dk, x->k + s * dk, dk) * exp(c.cum[t] - c.cum[s]);
            for (int64_t j = 0; j < dv; j++)
                c.o[t * dv + j] += qk * c.vn[s * dv + j];
        }
    free(N);
    free(bv);
    free(bk);
    return c;
}

static void chunk_free(struct chunk *c)
{
    double *all[] = {c->cum, c->u, c->wk, c->vn, c->o};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

// The state after the first n rows of the chunk.
static void chunk_commit(double *S, const struct exact *x, const struct chunk *c, int64_t n)
{
    const double decay = n > 0 ? exp(c->cum[n - 1]) : 1;
    for (int64_t i = 0; i < x->dk * x->dv; i++)
        S[i] = decay * x->S[i];
    for (int64_t t = 0; t < n; t++) {
        const double w = exp(fmin(c->cum[n - 1] - c->cum[t], 0));
        for (int64_t j = 0; j < x->dv; j++) {
            double wS = 0;
            for (int64_t i = 0; i < x->dk; i++)
                wS += c->wk[t * x->dk + i] * x->S[i * x->dv + j];
            const double d = w * (c->u[t * x->dv + j] - wS);
            for (int64_t i = 0; i < x->dk; i++)
                S[i * x->dv + j] += c->k[t * x->dk + i] * d;
        }
    }
}

// Largest difference relative to the largest of the truth.
static double difference(const double *a, const double *truth, int64_t n)
{
    double d = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        d = fmax(d, fabs(a[i] - truth[i]));
        largest = fmax(largest, fabs(truth[i]));
    }
    return largest > 0 ? d / largest : d;
}

static void test_chunks(void **state)
{
    (void)state;
    static const int64_t counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 64};
    double worst = 0;
    for (int64_t c = 0; c < COUNT(counts); c++)
        for (int product = 0; product < 2; product++) {
            const int64_t T = counts[c], dk = 32, dv = 24;
            struct exact x = exact_random(dk, dv, T, (uint64_t)T);
            struct chunk chunk = chunk_new(&x, product);
            double *S = doubles_new(dk * dv), *S_chunk = doubles_new(dk * dv);
            double *d = doubles_new(dv), *o = doubles_new(dv);
            memcpy(S, x.S, (size_t)(dk * dv) * sizeof *S);
            for (int64_t t = 0; t <= T; t++) {
                chunk_commit(S_chunk, &x, &chunk, t);
                double e = difference(S_chunk, S, dk * dv);
                if (t < T) {
                    step(S, &x, t, d, o);
                    e = fmax(e, difference(chunk.vn + t * dv, d, dv));
                    e = fmax(e, difference(chunk.o + t * dv, o, dv));
                }
                worst = fmax(worst, e);
                if (!(e <= 1e-13))
                    fail_msg("%lld rows, %s: %g after row %lld", (long long)T,
                             product ? "product" : "substitution", e, (long long)t);
            }
            free(S);
            free(S_chunk);
            free(d);
            free(o);
            chunk_free(&chunk);
            exact_free(&x);
        }
    print_message("chunks against rows, in double: %.2g\n", worst);
}

// ---- A head in FP32 with strides, canaries between its rows, and results of a call.

struct head {
    int64_t dk, dv, T, ldq, ldk, ldv, ldg, ldo, ldd;
    uint64_t seed;
    float *S, *q, *k, *v, *g, *beta;
};

static float *floats_new(int64_t n)
{
    float *p = fg_alloc_aligned((uint64_t)n * sizeof *p);
    assert_non_null(p);
    return p;
}

static struct head head_new(int64_t dk, int64_t dv, int64_t T, uint64_t seed)
{
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
    struct head h = {.dk = dk, .dv = dv, .T = T, .seed = seed};
    h.ldq = dk + (int64_t)(next_u32(&state) % 3) * 5;
    h.ldk = dk + (int64_t)(next_u32(&state) % 3) * 3;
    h.ldv = dv + (int64_t)(next_u32(&state) % 3) * 7;
    h.ldo = dv + (int64_t)(next_u32(&state) % 3) * 5;
    h.ldd = dv + (int64_t)(next_u32(&state) % 3) * 9;
    h.ldg = 1 + (int64_t)(next_u32(&state) % 3);
    h.S = floats_new(dk * dv);
    h.q = floats_new(T * h.ldq);
    h.k = floats_new(T * h.ldk);
    h.v = floats_new(T * h.ldv);
    h.g = floats_new(T * h.ldg);
    h.beta = floats_new(T * h.ldg);
    return h;
}

static void head_free(struct head *h)
{
    float *all[] = {h->S, h->q, h->k, h->v, h->g, h->beta};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static struct head head_of_exact(const struct exact *x)
{
    struct head h = head_new(x->dk, x->dv, x->T, 1);
    for (int64_t i = 0; i < x->dk * x->dv; i++)
        h.S[i] = (float)x->S[i];
    for (int64_t t = 0; t < x->T; t++) {
        for (int64_t i = 0; i < x->dk; i++) {
            h.q[t * h.ldq + i] = (float)x->q[t * x->dk + i];
            h.k[t * h.ldk + i] = (float)x->k[t * x->dk + i];
        }
        for (int64_t j = 0; j < x->dv; j++)
            h.v[t * h.ldv + j] = (float)x->v[t * x->dv + j];
        h.g[t * h.ldg] = (float)x->g[t];
        h.beta[t * h.ldg] = (float)x->beta[t];
    }
    return h;
}

static struct head head_random(int64_t dk, int64_t dv, int64_t T, uint64_t seed, enum numbers kind)
{
    if (kind == NUMBERS_UNIT) {
        struct exact x = exact_random(dk, dv, T, seed);
        struct head h = head_of_exact(&x);
        h.seed = seed;
        exact_free(&x);
        return h;
    }
    struct head h = head_new(dk, dv, T, seed);
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 7;
    fill_floats(h.S, dk * dv, &state, kind);
    fill_floats(h.q, T * h.ldq, &state, kind);
    fill_floats(h.k, T * h.ldk, &state, kind);
    fill_floats(h.v, T * h.ldv, &state, kind);
    for (int64_t t = 0; t < T; t++) {
        h.g[t * h.ldg] = (float)(next_u32(&state) % 1001) / 1000.0f;
        h.beta[t * h.ldg] = (float)(next_u32(&state) % 1001) / 1000.0f;
    }
    return h;
}

struct result {
    float *S, *o, *d;
};

static struct result result_new(const struct head *h)
{
    struct result r = {floats_new(h->dk * h->dv), floats_new(h->T * h->ldo),
                       floats_new(h->T * h->ldd)};
    for (int64_t i = 0; i < h->dk * h->dv; i++)
        r.S[i] = CANARY;
    for (int64_t i = 0; i < h->T * h->ldo; i++)
        r.o[i] = CANARY;
    for (int64_t i = 0; i < h->T * h->ldd; i++)
        r.d[i] = CANARY;
    return r;
}

static void result_free(struct result *r)
{
    free(r->S);
    free(r->o);
    free(r->d);
}

// Rows [p0, p1) are pending with what `tried` has of them, rows [t0, t1) run.
static void run(const struct fg_kernels *kn, const struct head *h, const float *S, float *S_out,
                const float *tried, int64_t p0, int64_t p1, int64_t t0, int64_t t1, float *o,
                float *d)
{
    const struct fg_gdn_pending pending = {.k = h->k + p0 * h->ldk,
                                           .d = tried ? tried + p0 * h->ldd : NULL,
                                           .g = h->g + p0 * h->ldg,
                                           .ldk = h->ldk,
                                           .ldd = h->ldd,
                                           .ldg = h->ldg,
                                           .n = p1 - p0};
    const struct fg_gdn_rows rows = {.q = h->q + t0 * h->ldq,
                                     .k = h->k + t0 * h->ldk,
                                     .v = h->v + t0 * h->ldv,
                                     .g = h->g + t0 * h->ldg,
                                     .beta = h->beta + t0 * h->ldg,
                                     .ldq = h->ldq,
                                     .ldk = h->ldk,
                                     .ldv = h->ldv,
                                     .ldg = h->ldg,
                                     .T = t1 - t0};
    const size_t bytes = (fg_gdn_scratch_bytes(h->dk, h->dv) + 63) / 64 * 64;
    struct fenced scratch = fenced_new(bytes);
    memset(scratch.data, 0xFF, bytes); // NaN
    kn->gdn(S, S_out, h->dk, h->dv, &pending, &rows, o + t0 * h->ldo, h->ldo,
            d ? d + t0 * h->ldd : NULL, h->ldd, (float *)scratch.data);
    fenced_free(&scratch);
}

static void expect_same(const struct head *h, const char *isa, const char *what, const float *got,
                        const float *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!same_float(got[i], want[i]))
            fail_msg("%s: %s, dk %lld, dv %lld, %lld rows, seed %llu: [%lld] is %a, expected %a",
                     isa, what, (long long)h->dk, (long long)h->dv, (long long)h->T,
                     (unsigned long long)h->seed, (long long)i, (double)got[i], (double)want[i]);
}

static void expect_result(const struct head *h, const char *isa, const char *what,
                          const struct result *got, const struct result *want)
{
    char name[120];
    snprintf(name, sizeof name, "%s: S", what);
    expect_same(h, isa, name, got->S, want->S, h->dk * h->dv);
    snprintf(name, sizeof name, "%s: o", what);
    expect_same(h, isa, name, got->o, want->o, h->T * h->ldo);
    snprintf(name, sizeof name, "%s: d", what);
    expect_same(h, isa, name, got->d, want->d, h->T * h->ldd);
}

// ---- The worked example, in double and in FP32.

static void expect_values(const char *what, const double *got, const double *want, int64_t n,
                          double tolerance)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= tolerance))
            fail_msg("%s: [%lld] is %.8f, expected %.8f", what, (long long)i, got[i], want[i]);
}

static void expect_floats(const char *what, const float *got, const double *want)
{
    const double row[4] = {got[0], got[1], got[2], got[3]};
    expect_values(what, row, want, 4, 1e-5);
}

// specs: runtime A.2
static const double beta_want[] = {.2647129, .7273913, .3245282};
static const double log_g_want[] = {-.2313039, -.2277743, -.3049519};
static const double o_want[][4] = {{.0473653, .1164889, .0211304, -.0462395},
                                   {-.0146111, -.0562631, .1261738, -.1148390},
                                   {.0010866, -.0364932, .0457886, -.0840601}};
static const double d7_want[] = {.4113497, .0917164, .3245462, -.2866837};
static const double S8_row0[] = {-.2456720, -.1172771, -.1440254, .1422316};
static const double S8_row3[] = {.0218485, -.1995159, .4799728, -.4753619};
static const double S16_row2[] = {.1865607, -.0452012, .2956297, -.1764166};
static const double cum7_want[] = {-1.9132432};
static const double u7_want[] = {.4029387, .1044522, .3228784, -.3004875};
static const double wk7_want[] = {-.0533242, -.0219630, .0026319, .0277156};

static struct exact worked_example(void)
{
    struct exact x = exact_new(4, 4, 16);
    double log_g[16], beta[16];
    golden_values(beta, 16, "beta", 2);
    golden_values(log_g, 16, "g", 0.5);
    for (int t = 0; t < 16; t++) {
        char name[16];
        snprintf(name, sizeof name, "q.%d", t);
        golden_values(x.q + t * 4, 4, name, 1);
        snprintf(name, sizeof name, "k.%d", t);
        golden_values(x.k + t * 4, 4, name, 1);
        snprintf(name, sizeof name, "v.%d", t);
        golden_values(x.v + t * 4, 4, name, 1);
        unit(x.q + t * 4, 4, 0.5);
        unit(x.k + t * 4, 4, 1);
        x.beta[t] = 1 / (1 + exp(-beta[t]));
        x.g[t] = exp(-fabs(log_g[t]));
    }
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "s.%d", i);
        golden_values(x.S + i * 4, 4, name, 0.3);
    }
    return x;
}

static void test_worked_example(void **state)
{
    (void)state;
    struct exact x = worked_example();
    double S[16], d[4] = {0}, o[4] = {0};
    for (int t = 0; t < 3; t++) {
        const double log_g = log(x.g[t]);
        expect_values("beta", x.beta + t, beta_want + t, 1, 1e-6);
        expect_values("log g", &log_g, log_g_want + t, 1, 1e-6);
    }
    memcpy(S, x.S, sizeof S);
    for (int t = 0; t < 16; t++) {
        step(S, &x, t, d, o);
        if (t == 0) expect_values("o 0", o, o_want[0], 4, 1e-6);
        if (t == 7) {
            expect_values("o 7", o, o_want[1], 4, 1e-6);
            expect_values("d 7", d, d7_want, 4, 1e-6);
            expect_values("S after 8 rows, row 0", S, S8_row0, 4, 1e-6);
            expect_values("S after 8 rows, row 3", S + 12, S8_row3, 4, 1e-6);
        }
        if (t == 15) {
            expect_values("o 15", o, o_want[2], 4, 1e-6);
            expect_values("S after 16 rows, row 2", S + 8, S16_row2, 4, 1e-6);
        }
    }
    x.T = 8;
    for (int product = 0; product < 2; product++) {
        struct chunk c = chunk_new(&x, product);
        expect_values("cum 7", c.cum + 7, cum7_want, 1, 1e-6);
        expect_values("u 7", c.u + 28, u7_want, 4, 1e-6);
        expect_values("wk 7", c.wk + 28, wk7_want, 4, 1e-6);
        expect_values("vn 7", c.vn + 28, d7_want, 4, 1e-6);
        memcpy(S, x.S, sizeof S);
        for (int t = 0; t <= 8; t++) {
            double S_chunk[16];
            chunk_commit(S_chunk, &x, &c, t);
            expect_values("commit of a chunk", S_chunk, S, 16, 5e-16);
            if (t < 8) step(S, &x, t, d, o);
        }
        chunk_free(&c);
    }

    x.T = 16;
    struct head h = head_of_exact(&x);
    for (int level = 0; level < n_levels; level++) {
        struct result r = result_new(&h);
        const struct fg_kernels *kn = levels[level];
        run(kn, &h, h.S, NULL, NULL, 0, 0, 0, 8, r.o, r.d); // tried,
        run(kn, &h, h.S, r.S, r.d, 0, 8, 8, 8, r.o, NULL);  // applied,
        expect_floats("S after 8 rows, row 0", r.S, S8_row0);
        expect_floats("S after 8 rows, row 3", r.S + 12, S8_row3);
        run(kn, &h, r.S, r.S, NULL, 0, 0, 8, 16, r.o, NULL); // committed
        expect_floats("o 0", r.o, o_want[0]);
        expect_floats("o 7", r.o + 7 * h.ldo, o_want[1]);
        expect_floats("o 15", r.o + 15 * h.ldo, o_want[2]);
        expect_floats("d 7", r.d + 7 * h.ldd, d7_want);
        expect_floats("S after 16 rows, row 2", r.S + 8, S16_row2);
        result_free(&r);
    }
    head_free(&h);
    exact_free(&x);
}

// ---- Bits.

static const int64_t sizes[] = {4, 16, 40, 64, 128, 96, 5, 1, 24, 33};

// The formulas of gdn.h once more, element by element.
static void by_rules(const struct head *h, struct result *r)
{
    const int64_t dk = h->dk, dv = h->dv;
    memcpy(r->S, h->S, (size_t)(dk * dv) * 4);
    for (int64_t t = 0; t < h->T; t++) {
        const float *q = h->q + t * h->ldq, *k = h->k + t * h->ldk;
        const float g = h->g[t * h->ldg], beta = h->beta[t * h->ldg];
        float lane[16] = {0};
        for (int64_t i = 0; i < dk; i++)
            lane[i % 16] = fmaf(k[i], q[i], lane[i % 16]);
        for (int half = 8; half > 0; half /= 2)
            for (int j = 0; j < half; j++)
                lane[j] += lane[j + half];
        for (int64_t j = 0; j < dv; j++) {
            float *S = r->S + j, m = 0, p = 0;
            for (int64_t i = 0; i < dk; i++) {
                m = fmaf(S[i * dv], k[i], m);
                p = fmaf(S[i * dv], q[i], p);
            }
            const float d = beta * fmaf(-g, m, h->v[t * h->ldv + j]);
            r->d[t * h->ldd + j] = d;
            r->o[t * h->ldo + j] = fmaf(lane[0], d, g * p);
            for (int64_t i = 0; i < dk; i++)
                S[i * dv] = fmaf(k[i], d, g * S[i * dv]);
        }
    }
}

static void test_rules(void **state)
{
    (void)state;
    for (int64_t a = 0; a < COUNT(sizes); a++)
        for (int kind = 0; kind < N_NUMBERS; kind++) {
            const int64_t dv = sizes[(a * 7 + kind) % COUNT(sizes)];
            struct head h = head_random(sizes[a], dv, 5, (uint64_t)a + 50, (enum numbers)kind);
            struct result want = result_new(&h);
            by_rules(&h, &want);
            for (int level = 0; level < n_levels; level++) {
                struct result got = result_new(&h);
                run(levels[level], &h, h.S, NULL, NULL, 0, 0, 0, h.T, got.o, got.d);
                run(levels[level], &h, h.S, got.S, got.d, 0, h.T, h.T, h.T, got.o, NULL);
                expect_result(&h, levels[level]->isa, "rules", &got, &want);
                result_free(&got);
            }
            result_free(&want);
            head_free(&h);
        }
}

// Rows before `pending` are not used; then pending ones, then T: committed and tried, S_out
// separate, S_out = S and none.
static void check_levels(int64_t dk, int64_t dv, int64_t pending, int64_t T, uint64_t seed)
{
    struct head h = head_random(dk, dv, pending + T, seed, (enum numbers)(seed % N_NUMBERS));
    const size_t S_bytes = (size_t)(dk * dv) * 4;
    struct result tried = result_new(&h);
    run(levels[0], &h, h.S, NULL, NULL, 0, 0, 0, pending + T, tried.o, tried.d);
    struct result committed = result_new(&h), again = result_new(&h);
    run(levels[0], &h, h.S, committed.S, tried.d, 0, pending, pending, pending + T, committed.o,
        NULL);
    run(levels[0], &h, h.S, again.S, tried.d, 0, pending, pending, pending + T, again.o, again.d);
    float *S = floats_new(dk * dv);
    for (int level = 0; level < n_levels; level++) {
        const struct fg_kernels *kn = levels[level];
        for (int in_place = 0; in_place < 2; in_place++) {
            struct result got = result_new(&h);
            memcpy(in_place ? got.S : S, h.S, S_bytes);
            run(kn, &h, in_place ? got.S : S, got.S, tried.d, 0, pending, pending, pending + T,
                got.o, NULL);
            expect_result(&h, kn->isa, in_place ? "committed in place" : "committed", &got,
                          &committed);
            if (!in_place) expect_same(&h, kn->isa, "S given", S, h.S, dk * dv);
            result_free(&got);

            got = result_new(&h);
            memcpy(in_place ? got.S : S, h.S, S_bytes);
            run(kn, &h, in_place ? got.S : S, got.S, tried.d, 0, pending, pending, pending + T,
                got.o, got.d);
            expect_result(&h, kn->isa, in_place ? "tried in place" : "tried", &got, &again);
            if (!in_place) expect_same(&h, kn->isa, "S given", S, h.S, dk * dv);
            result_free(&got);
        }
        struct result got = result_new(&h);
        memcpy(S, h.S, S_bytes);
        run(kn, &h, S, NULL, NULL, 0, 0, 0, pending + T, got.o, got.d);
        expect_result(&h, kn->isa, "tried without S_out", &got, &tried);
        expect_same(&h, kn->isa, "S given", S, h.S, dk * dv);
        result_free(&got);

        got = result_new(&h);
        memcpy(got.S, again.S, S_bytes); // which is not written
        run(kn, &h, S, NULL, tried.d, 0, pending, pending, pending + T, got.o, got.d);
        expect_result(&h, kn->isa, "tried behind pending rows, without S_out", &got, &again);
        expect_same(&h, kn->isa, "S given", S, h.S, dk * dv);
        result_free(&got);
    }
    free(S);
    result_free(&tried);
    result_free(&committed);
    result_free(&again);
    head_free(&h);
}

static void test_levels(void **state)
{
    (void)state;
    uint64_t pick = 31;
    for (int64_t a = 0; a < COUNT(sizes); a++)
        for (int64_t b = 0; b < COUNT(sizes); b++)
            for (int draw = 0; draw < (sizes[a] * sizes[b] > 8000 ? 2 : 4); draw++) {
                const int64_t T = next_u32(&pick) % 21, pending = next_u32(&pick) % 17;
                check_levels(sizes[a], sizes[b], draw ? pending : 0, T, next_u32(&pick) % 100000);
            }
    for (int64_t T = 0; T <= 20; T++)
        check_levels(32, 48, 16 - T % 17, T, (uint64_t)T * N_NUMBERS);
}

// Rows tried together and then applied for every number of them, rows committed in any split, and
// mixtures of both: all as rows that run one at a time.
static void check_ways(const struct fg_kernels *kn, int64_t dk, int64_t dv, uint64_t seed,
                       enum numbers kind)
{
    enum { T = 16 };
    struct head h = head_random(dk, dv, T, seed, kind);
    struct result truth = result_new(&h), tried = result_new(&h), got = result_new(&h);
    float *after[T + 1]; // states
    for (int64_t t = 0; t <= T; t++) {
        after[t] = floats_new(dk * dv);
        memcpy(after[t], t ? after[t - 1] : h.S, (size_t)(dk * dv) * 4);
        if (t) run(kn, &h, after[t], after[t], NULL, 0, 0, t - 1, t, truth.o, NULL);
    }
    run(kn, &h, h.S, NULL, NULL, 0, 0, 0, T, tried.o, tried.d);
    expect_same(&h, kn->isa, "o of tried rows", tried.o, truth.o, T * h.ldo);
    for (int64_t n = 0; n <= T; n++) {
        run(kn, &h, h.S, got.S, tried.d, 0, n, n, n, got.o, NULL);
        expect_same(&h, kn->isa, "S applied alone", got.S, after[n], dk * dv);
        // The first n accepted, then all others tried: the state is that after n rows.
        run(kn, &h, h.S, got.S, tried.d, 0, n, n, T, got.o, got.d);
        expect_same(&h, kn->isa, "S applied and others tried", got.S, after[n], dk * dv);
        expect_same(&h, kn->isa, "o of the others", got.o + n * h.ldo, truth.o + n * h.ldo,
                    (T - n) * h.ldo);
        expect_same(&h, kn->isa, "d of the others", got.d + n * h.ldd, tried.d + n * h.ldd,
                    (T - n) * h.ldd);
        run(kn, &h, h.S, got.S, tried.d, 0, n, n, T, got.o, NULL);
        expect_same(&h, kn->isa, "S applied and others committed", got.S, after[T], dk * dv);
        // Two calls that commit.
        run(kn, &h, h.S, got.S, NULL, 0, 0, 0, n, got.o, NULL);
        run(kn, &h, got.S, got.S, NULL, 0, 0, n, T, got.o, NULL);
        expect_same(&h, kn->isa, "S of two calls", got.S, after[T], dk * dv);
        expect_same(&h, kn->isa, "o of two calls", got.o, truth.o, T * h.ldo);
    }
    for (int64_t t = 0; t <= T; t++)
        free(after[t]);
    result_free(&truth);
    result_free(&tried);
    result_free(&got);
    head_free(&h);
}

static void test_ways(void **state)
{
    (void)state;
    for (int level = 0; level < n_levels; level++)
        for (int64_t a = 0; a < COUNT(sizes); a++) {
            const int64_t dv = sizes[(a * 3 + 1) % COUNT(sizes)];
            check_ways(levels[level], sizes[a], dv, (uint64_t)a + 1,
                       (enum numbers)((a + level) % N_NUMBERS));
        }
}

// ---- Drift (specs: runtime 9.2, R3): against double on the same FP32 inputs.

static double frobenius(const float *S, const double *truth, int64_t n)
{
    double d = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        d += (S[i] - truth[i]) * (S[i] - truth[i]);
        squares += truth[i] * truth[i];
    }
    return sqrt(d / squares);
}

static void test_drift(void **state)
{
    (void)state;
    enum { DK = 128, DV = 32, BLOCK = 8, STEPS = 10000 };
    const struct fg_kernels *kn = levels[n_levels - 1];
    struct exact x = exact_random(DK, DV, 64, 3); // rows again and again
    struct head h = head_of_exact(&x);
    for (int64_t i = 0; i < DK * DV; i++)
        x.S[i] = h.S[i];
    for (int64_t t = 0; t < x.T; t++) {
        for (int64_t i = 0; i < DK; i++) {
            x.q[t * DK + i] = h.q[t * h.ldq + i];
            x.k[t * DK + i] = h.k[t * h.ldk + i];
        }
        for (int64_t j = 0; j < DV; j++)
            x.v[t * DV + j] = h.v[t * h.ldv + j];
        // Decays near one: the state remembers thousands of rows, and so its errors.
        h.g[t * h.ldg] = 1 - 1e-4f * (float)(t % 8);
        x.g[t] = h.g[t * h.ldg];
        x.beta[t] = h.beta[t * h.ldg];
    }
    struct result r = result_new(&h);
    double *S = doubles_new(DK * DV);
    memcpy(S, x.S, DK * DV * sizeof *S);
    memcpy(r.S, h.S, DK * DV * sizeof *r.S);
    double first = 0;
    for (int64_t t = 0; t < STEPS; t += BLOCK) {
        const int64_t t0 = t % x.T;
        // Tried and applied, and committed, in turn.
        if (t / BLOCK % 2) {
            run(kn, &h, r.S, r.S, NULL, 0, 0, t0, t0 + BLOCK, r.o, r.d);
            run(kn, &h, r.S, r.S, r.d, t0, t0 + BLOCK, t0, t0, r.o, NULL);
        } else {
            run(kn, &h, r.S, r.S, NULL, 0, 0, t0, t0 + BLOCK, r.o, NULL);
        }
        for (int64_t i = 0; i < BLOCK; i++)
            step(S, &x, t0 + i, NULL, NULL);
        if (t == 0) first = frobenius(r.S, S, DK * DV);
    }
    const double last = frobenius(r.S, S, DK * DV);
    print_message("S in FP32 against double: %.2g after %d rows, %.2g after %d\n", first, BLOCK,
                  last, STEPS);
    assert_true(first < 1e-6);
    assert_true(last < 1e-5);
    free(S);
    result_free(&r);
    head_free(&h);
    exact_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example), cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_rules),          cmocka_unit_test(test_levels),
        cmocka_unit_test(test_ways),           cmocka_unit_test(test_drift),
    };
    return cmocka_run_group_tests_name("kernels.gdn", tests, setup, NULL);
}
