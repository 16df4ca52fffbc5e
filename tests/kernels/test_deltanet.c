// conv_silu, gdn over rows that are committed, deltanet_gates: the worked example of the
// specification, oracles in double (token by token and chunked), then every level against ref bit
// for bit and splits of the rows.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "kernels/kernels.h"
#include "kernels/numbers.h"
#include "base/arena.h"
#include <math.h>
#include <string.h>

#define CANARY 12345.678f

// specs: model 4.3
static void test_worked_example(void **state)
{
    (void)state;
    static const float q_in[3][2] = {{1, 2}, {0, 1}, {-1, 1}};
    static const float k_in[3][2] = {{2, 1}, {1, -1}, {0.5f, 0.5f}};
    static const float v[3][3] = {{1, -1, 2}, {0.5f, 0, -1}, {2, 1, 0}};
    static const float g[3] = {-0.1f, -0.7f, 0}, beta[3] = {0.5f, 0.25f, 0.9f};
    static const double o_want[3][3] = {{0.282842656, -0.282842656, 0.565685312},
                                        {0.025831648, -0.088331602, 0.301663109},
                                        {-0.130028239, 0.041639936, 0.093496735}};
    static const double S_want[2][3] = {{1.419475481, 0.578099245, -0.060184207},
                                        {1.159418937, 0.661379137, 0.126809310}};
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    for (int level = 0; level < n_levels; level++) {
        const struct fg_kernels *kernels = levels[level];
        float q[3][2], k[3][2], alpha[3], o[3][3];
        _Alignas(64) float S[2][3] = {{0}};
        void *scratch = fg_alloc_aligned(fg_gdn_scratch_bytes(2, 3));
        for (int t = 0; t < 3; t++) {
            kernels->l2_norm(q[t], q_in[t], 2, 1e-6f, 1.0f / sqrtf(2.0f));
            kernels->l2_norm(k[t], k_in[t], 2, 1e-6f, 1.0f);
            alpha[t] = expf(g[t]);
        }
        const struct fg_gdn_rows rows = {q[0], k[0], v[0], alpha, beta, 2, 2, 3, 1, 3};
        kernels->gdn(S[0], S[0], 2, 3, &(struct fg_gdn_pending){.n = 0}, &rows, o[0], 3, NULL, 0,
                     scratch);
        free(scratch);
        for (int t = 0; t < 3; t++)
            for (int j = 0; j < 3; j++)
                if (!(fabs(o[t][j] - o_want[t][j]) <= 1e-6))
                    fail_msg("%s: o[%d][%d] is %.9f, expected %.9f", kernels->isa, t, j,
                             (double)o[t][j], o_want[t][j]);
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 3; j++)
                if (!(fabs(S[i][j] - S_want[i][j]) <= 1e-6))
                    fail_msg("%s: S[%d][%d] is %.9f, expected %.9f", kernels->isa, i, j,
                             (double)S[i][j], S_want[i][j]);
    }
}

// A head: inputs as a model would give them (q and k normalized, decays in (0, 1)).
struct head {
    int64_t dk, dv, T, ldq, ldk, ldv, ldo, ldab;
    uint64_t seed;
    float *S0, *S, *S_truth, *q, *k, *v, *o, *o_truth, *alpha, *beta, *scratch;
};

static float *floats_new(int64_t n)
{
    float *p = fg_alloc_aligned((uint64_t)n * sizeof *p);
    assert_non_null(p);
    return p;
}

static void unit_row(float *x, int64_t n, float scale)
{
    double squares = 1e-6;
    for (int64_t i = 0; i < n; i++)
        squares += (double)x[i] * x[i];
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(x[i] / sqrt(squares)) * scale;
}

static struct head head_new(int64_t dk, int64_t dv, int64_t T, uint64_t seed, enum numbers kind)
{
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
    struct head h = {.dk = dk, .dv = dv, .T = T, .seed = seed};
    h.ldq = dk + (int64_t)(next_u32(&state) % 3) * 5;
    h.ldk = dk + (int64_t)(next_u32(&state) % 3) * 3;
    h.ldv = dv + (int64_t)(next_u32(&state) % 3) * 7;
    h.ldo = dv + (int64_t)(next_u32(&state) % 3) * 5;
    h.ldab = 1 + (int64_t)(next_u32(&state) % 3);
    h.S0 = floats_new(dk * dv);
    h.S = floats_new(dk * dv);
    h.S_truth = floats_new(dk * dv);
    h.q = floats_new(T * h.ldq);
    h.k = floats_new(T * h.ldk);
    h.v = floats_new(T * h.ldv);
    h.o = floats_new(T * h.ldo);
    h.o_truth = floats_new(T * h.ldo);
    h.alpha = floats_new(T * h.ldab);
    h.beta = floats_new(T * h.ldab);
    h.scratch = floats_new((int64_t)(fg_gdn_scratch_bytes(dk, dv) / sizeof(float)));
    fill_floats(h.S0, dk * dv, &state, kind);
    fill_floats(h.q, T * h.ldq, &state, kind);
    fill_floats(h.k, T * h.ldk, &state, kind);
    fill_floats(h.v, T * h.ldv, &state, kind);
    for (int64_t t = 0; t < T; t++) {
        if (kind == NUMBERS_UNIT) {
            unit_row(h.q + t * h.ldq, dk, 1.0f / sqrtf((float)dk));
            unit_row(h.k + t * h.ldk, dk, 1.0f);
        }
        h.alpha[t * h.ldab] = (float)(next_u32(&state) % 1000 + 1) / 1000.0f;
        h.beta[t * h.ldab] = (float)(next_u32(&state) % 1000) / 1000.0f;
    }
    for (int64_t i = 0; i < T * h.ldo; i++)
        h.o[i] = h.o_truth[i] = CANARY;
    return h;
}

static void head_free(struct head *h)
{
    float *all[] = {h->S0, h->S,       h->S_truth, h->q,    h->k,      h->v,
                    h->o,  h->o_truth, h->alpha,   h->beta, h->scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void run(const struct head *h, const struct fg_kernels *k, float *S, float *o, int64_t t0,
                int64_t t1)
{
    const struct fg_gdn_rows rows = {.q = h->q + t0 * h->ldq,
                                     .k = h->k + t0 * h->ldk,
                                     .v = h->v + t0 * h->ldv,
                                     .g = h->alpha + t0 * h->ldab,
                                     .beta = h->beta + t0 * h->ldab,
                                     .ldq = h->ldq,
                                     .ldk = h->ldk,
                                     .ldv = h->ldv,
                                     .ldg = h->ldab,
                                     .T = t1 - t0};
    k->gdn(S, S, h->dk, h->dv, &(struct fg_gdn_pending){.n = 0}, &rows, o + t0 * h->ldo, h->ldo,
           NULL, 0, h->scratch);
}

// Token by token in double, two passes over S (specs: model 4.1). S [dk][dv] and o [T][dv].
static void recurrent(const struct head *h, double *S, double *o)
{
    for (int64_t i = 0; i < h->dk * h->dv; i++)
        S[i] = h->S0[i];
    for (int64_t t = 0; t < h->T; t++) {
        const float *q = h->q + t * h->ldq, *k = h->k + t * h->ldk, *v = h->v + t * h->ldv;
        for (int64_t i = 0; i < h->dk * h->dv; i++)
            S[i] *= h->alpha[t * h->ldab];
        for (int64_t j = 0; j < h->dv; j++) {
            double m = 0, out = 0;
            for (int64_t i = 0; i < h->dk; i++)
                m += S[i * h->dv + j] * k[i];
            double d = h->beta[t * h->ldab] * (v[j] - m);
            for (int64_t i = 0; i < h->dk; i++) {
                S[i * h->dv + j] += k[i] * d;
                out += S[i * h->dv + j] * q[i];
            }
            o[t * h->dv + j] = out;
        }
    }
}

// The chunked form (specs: model 4.2) in double, chunks of at most 64 rows.
static void chunked(const struct head *h, double *S, double *o)
{
    enum { CHUNK = 64 };
    int64_t dk = h->dk, dv = h->dv;
    double *X = malloc(sizeof(double) * CHUNK * (size_t)(dk + dv));
    assert_non_null(X);
    for (int64_t i = 0; i < dk * dv; i++)
        S[i] = h->S0[i];
    for (int64_t t0 = 0; t0 < h->T; t0 += CHUNK) {
        int64_t n = h->T - t0 < CHUNK ? h->T - t0 : CHUNK;
        double G[CHUNK], *U = X, *W = X + CHUNK * dv; // U [n][dv], W [n][dk]
        for (int64_t t = 0; t < n; t++)
            G[t] = (t ? G[t - 1] : 0) + log((double)h->alpha[(t0 + t) * h->ldab]);
        // (I + A) U = diag(beta) V and (I + A) W = diag(beta exp(G)) K, from the first row down.
        for (int64_t t = 0; t < n; t++) {
            const float *k = h->k + (t0 + t) * h->ldk, *v = h->v + (t0 + t) * h->ldv;
            double beta = h->beta[(t0 + t) * h->ldab];
            for (int64_t j = 0; j < dv; j++)
                U[t * dv + j] = beta * v[j];
            for (int64_t i = 0; i < dk; i++)
                W[t * dk + i] = beta * exp(G[t]) * k[i];
            for (int64_t s = 0; s < t; s++) {
                double kk = 0;
                for (int64_t i = 0; i < dk; i++)
                    kk += (double)k[i] * h->k[(t0 + s) * h->ldk + i];
                double a = beta * kk * exp(G[t] - G[s]);
                for (int64_t j = 0; j < dv; j++)
                    U[t * dv + j] -= a * U[s * dv + j];
                for (int64_t i = 0; i < dk; i++)
                    W[t * dk + i] -= a * W[s * dk + i];
            }
        }
        for (int64_t t = 0; t < n; t++) // U becomes X = U - W S
            for (int64_t i = 0; i < dk; i++)
                for (int64_t j = 0; j < dv; j++)
                    U[t * dv + j] -= W[t * dk + i] * S[i * dv + j];
        for (int64_t t = 0; t < n; t++) {
            const float *q = h->q + (t0 + t) * h->ldq;
            double *ot = o + (t0 + t) * dv;
            for (int64_t j = 0; j < dv; j++)
                ot[j] = 0;
            for (int64_t i = 0; i < dk; i++)
                for (int64_t j = 0; j < dv; j++)
                    ot[j] += exp(G[t]) * q[i] * S[i * dv + j];
            for (int64_t s = 0; s <= t; s++) {
                double qk = 0;
                for (int64_t i = 0; i < dk; i++)
                    qk += (double)q[i] * h->k[(t0 + s) * h->ldk + i];
                for (int64_t j = 0; j < dv; j++)
                    ot[j] += qk * exp(G[t] - G[s]) * U[s * dv + j];
            }
        }
        for (int64_t i = 0; i < dk; i++) {
            for (int64_t j = 0; j < dv; j++) {
                double s = exp(G[n - 1]) * S[i * dv + j];
                for (int64_t t = 0; t < n; t++)
                    s += exp(G[n - 1] - G[t]) * h->k[(t0 + t) * h->ldk + i] * U[t * dv + j];
                S[i * dv + j] = s;
            }
        }
    }
    free(X);
}

static double largest_difference(const double *a, const double *b, int64_t n)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(a[i] - b[i]) <= worst)) worst = fabs(a[i] - b[i]);
    return worst;
}

static const int64_t shapes[][3] = { // dk, dv, T
    {16, 16, 1},   {16, 16, 130},  {24, 16, 9},  {16, 24, 65}, {32, 64, 20}, {64, 32, 33},
    {128, 128, 3}, {128, 128, 70}, {64, 7, 12},  {24, 33, 40}, {5, 3, 8},    {128, 67, 6},
    {17, 112, 5},  {64, 1, 4},     {128, 64, 2}, {1, 80, 7}};
#define N_SHAPES (sizeof shapes / sizeof *shapes)

static void test_against_double(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *ref = fg_kernels_levels(&n_levels)[0];
    double worst = 0, worst_forms = 0;
    for (size_t s = 0; s < N_SHAPES; s++) {
        struct head h = head_new(shapes[s][0], shapes[s][1], shapes[s][2], s + 1, NUMBERS_UNIT);
        size_t nS = (size_t)(h.dk * h.dv), no = (size_t)(h.T * h.dv);
        double *S = malloc(sizeof(double) * 2 * (nS + no));
        assert_non_null(S);
        double *S2 = S + nS, *o = S2 + nS, *o2 = o + no;
        recurrent(&h, S, o);
        chunked(&h, S2, o2);
        double forms =
            fmax(largest_difference(S, S2, (int64_t)nS), largest_difference(o, o2, (int64_t)no));
        worst_forms = fmax(worst_forms, forms);
        if (!(forms <= 1e-12))
            fail_msg("dk %lld, dv %lld, T %lld: recurrent and chunked form differ by %g",
                     (long long)h.dk, (long long)h.dv, (long long)h.T, forms);

        memcpy(h.S, h.S0, nS * sizeof *h.S);
        run(&h, ref, h.S, h.o, 0, h.T);
        for (int64_t i = 0; i < (int64_t)nS; i++)
            S2[i] = h.S[i];
        for (int64_t t = 0; t < h.T; t++)
            for (int64_t j = 0; j < h.dv; j++)
                o2[t * h.dv + j] = h.o[t * h.ldo + j];
        double e =
            fmax(largest_difference(S, S2, (int64_t)nS), largest_difference(o, o2, (int64_t)no));
        worst = fmax(worst, e);
        if (!(e <= 5e-7))
            fail_msg("ref, dk %lld, dv %lld, T %lld: error %g against double", (long long)h.dk,
                     (long long)h.dv, (long long)h.T, e);
        free(S);
        head_free(&h);
    }
    print_message("FP32 against FP64: %.2g; recurrent against chunked in FP64: %.2g\n", worst,
                  worst_forms);
}

static void expect_truth(const struct head *h, const char *isa, const char *how, enum numbers kind)
{
    const char *what = "S";
    int64_t n = h->dk * h->dv;
    const float *got = h->S, *want = h->S_truth;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < n; i++)
            if (!same_float(got[i], want[i]))
                fail_msg("%s, %s: dk %lld, dv %lld, T %lld, seed %llu, kind %d: %s[%lld] is %a, "
                         "expected %a",
                         isa, how, (long long)h->dk, (long long)h->dv, (long long)h->T,
                         (unsigned long long)h->seed, (int)kind, what, (long long)i, (double)got[i],
                         (double)want[i]);
        what = "o";
        n = h->T * h->ldo;
        got = h->o;
        want = h->o_truth;
    }
}

static void test_levels(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    for (size_t s = 0; s < N_SHAPES * N_NUMBERS; s++) {
        const int64_t *shape = shapes[s / N_NUMBERS];
        enum numbers kind = s % N_NUMBERS;
        struct head h = head_new(shape[0], shape[1], shape[2], s + 1, kind);
        size_t S_bytes = (size_t)(h.dk * h.dv) * sizeof(float);
        memcpy(h.S_truth, h.S0, S_bytes);
        run(&h, levels[0], h.S_truth, h.o_truth, 0, h.T);
        for (int level = 0; level < n_levels; level++) {
            memcpy(h.S, h.S0, S_bytes);
            run(&h, levels[level], h.S, h.o, 0, h.T);
            expect_truth(&h, levels[level]->isa, "whole call", kind);

            uint64_t pick = s + 3;
            memcpy(h.S, h.S0, S_bytes);
            for (int64_t t = 0, n; t < h.T; t += n) {
                n = 1 + next_u32(&pick) % 9;
                if (n > h.T - t) n = h.T - t;
                run(&h, levels[level], h.S, h.o, t, t + n);
            }
            expect_truth(&h, levels[level]->isa, "split calls", kind);
            run(&h, levels[level], h.S, h.o, 0, 0); // no rows: nothing changes
            expect_truth(&h, levels[level]->isa, "no rows", kind);
        }
        head_free(&h);
    }
}

static void test_gates(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    for (int level = 0; level < n_levels; level++) {
        for (int64_t n = 1; n <= 50; n++) {
            uint64_t seed = (uint64_t)n;
            float a[50], b[50], A[50], dt[50], alpha[50], beta[50];
            for (int64_t i = 0; i < n; i++) {
                a[i] = 20 * next_number(&seed, NUMBERS_UNIT);
                b[i] = 20 * next_number(&seed, NUMBERS_UNIT);
                A[i] = -expf(3 * next_number(&seed, NUMBERS_UNIT));
                dt[i] = 4 * next_number(&seed, NUMBERS_UNIT);
            }
            levels[level]->deltanet_gates(alpha, beta, a, b, A, dt, n);
            for (int64_t i = 0; i < n; i++) {
                double x = (double)a[i] + dt[i], g = A[i] * (fmax(x, 0) + log1p(exp(-fabs(x))));
                double want = exp(g), want_beta = 1 / (1 + exp(-(double)b[i]));
                // an error of 2 ulp in g is one of 2 ulp * |g| in exp(g)
                double allowed = (fabs(g) * 4 + 4) * 6e-8 * want + 1e-45;
                if (!(fabs(alpha[i] - want) <= allowed &&
                      fabs(beta[i] - want_beta) <= 3e-7 * want_beta))
                    fail_msg("%s, n %lld, i %lld: alpha %.9g (%.9g), beta %.9g (%.9g)",
                             levels[level]->isa, (long long)n, (long long)i, (double)alpha[i], want,
                             (double)beta[i], want_beta);
            }
        }
    }
}

// Channels [c0, c1) of C, T rows from row t0 of u; the history is what stands before.
static void convolve(const struct fg_kernels *k, float *y, const float *u, const float *w,
                     int64_t C, int64_t c0, int64_t c1, int K, int64_t t0, int64_t t1)
{
    k->conv_silu(y + t0 * (C + 3), C + 3, u + (t0 + K - 1) * C, C, u + t0 * C, w, C, c0, c1, K,
                 t1 - t0);
}

static void test_conv(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    static const int64_t channels[] = {1, 7, 16, 33, 64, 100, 160};
    for (size_t s = 0; s < 7 * 7; s++) {
        int64_t C = channels[s / 7], T = 1 + (int64_t)(s * 5 % 12);
        int K = 2 + (int)(s % 7);
        uint64_t seed = s + 1;
        enum numbers kind = s % N_NUMBERS;
        // u begins with K - 1 rows of history.
        float *u = floats_new((T + K - 1) * C), *w = floats_new(C * K);
        float *y = floats_new(T * (C + 3)), *want = floats_new(T * (C + 3));
        fill_floats(u, (T + K - 1) * C, &seed, kind);
        fill_floats(w, C * K, &seed, NUMBERS_UNIT);
        for (int64_t i = 0; i < T * (C + 3); i++)
            y[i] = want[i] = CANARY;
        convolve(levels[0], want, u, w, C, 0, C, K, 0, T);
        for (int64_t t = 0; t < T && kind == NUMBERS_UNIT; t++) {
            for (int64_t c = 0; c < C; c++) {
                double acc = 0, got = want[t * (C + 3) + c];
                for (int j = 0; j < K; j++)
                    acc += (double)w[c * K + j] * u[(t + j) * C + c];
                acc /= 1 + exp(-acc);
                if (!(fabs(got - acc) <= 1e-6))
                    fail_msg("ref, C %lld, K %d: y[%lld][%lld] is %.9g, expected %.9g",
                             (long long)C, K, (long long)t, (long long)c, got, acc);
            }
        }
        for (int level = 0; level < n_levels; level++) {
            for (int64_t i = 0; i < T * (C + 3); i++)
                y[i] = CANARY;
            int64_t c_cut = next_u32(&seed) % (C + 1), t_cut = next_u32(&seed) % (T + 1);
            convolve(levels[level], y, u, w, C, 0, c_cut, K, 0, T);
            convolve(levels[level], y, u, w, C, c_cut, C, K, 0, t_cut);
            convolve(levels[level], y, u, w, C, c_cut, C, K, t_cut, T);
            for (int64_t i = 0; i < T * (C + 3); i++)
                if (!same_float(y[i], want[i]))
                    fail_msg("%s, C %lld (cut %lld), T %lld (cut %lld), K %d, kind %d: y[%lld] is "
                             "%a, ref has %a",
                             levels[level]->isa, (long long)C, (long long)c_cut, (long long)T,
                             (long long)t_cut, K, (int)kind, (long long)i, (double)y[i],
                             (double)want[i]);
        }
        free(u);
        free(w);
        free(y);
        free(want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example), cmocka_unit_test(test_against_double),
        cmocka_unit_test(test_levels),         cmocka_unit_test(test_gates),
        cmocka_unit_test(test_conv),
    };
    return cmocka_run_group_tests_name("kernels.deltanet", tests, NULL, NULL);
}
