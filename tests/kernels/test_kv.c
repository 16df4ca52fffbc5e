// Stored keys and values: the worked examples of the specification, the rules of quantization on
// rows at their limits, the order of bytes in a page, and files' order of rows. Every level of
// kv_store against ref, bit for bit.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "kernels/kv_cases.h"
#include <float.h>
#include <math.h>

static const int64_t dims[] = {64, 80, 96, 128, 256, 40, 8, 1, 33, 512, 7};

static const struct fg_kernels *const *levels;
static int n_levels;

static int setup(void **state)
{
    (void)state;
    levels = fg_kernels_levels(&n_levels);
    return 0;
}

// A finite number of a kind.
static float finite_number(uint64_t *seed, enum numbers kind)
{
    float x;
    do
        x = next_number(seed, kind);
    while (!isfinite(x));
    return x;
}

static void fill_finite(float *x, int64_t n, uint64_t *seed, enum numbers kind)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = finite_number(seed, kind);
}

struct golden {
    const char *name;
    double scale;
    uint16_t bits;
    int8_t first[12];
    int sum, squares, max;
};

// specs: runtime A.1
static const struct golden goldens[] = {
    {"kv.a",
     3.0,
     0x2601,
     {-101, -45, 73, -62, -66, 65, -32, 53, -88, -7, -116, -96},
     -2891,
     1469359,
     127},
    {"kv.b",
     0.01,
     0x0505,
     {-4, 47, -71, 80, -27, 27, -113, 50, -107, 42, 97, -101},
     -1028,
     1387076,
     127},
    {"kv.tiny", 1e-5, 0x0011, {-1, -3, 8, 10, 7, 7, 2, -10, -7, -2, 2, -9}, -63, 8149, 10},
    {"zeros", 0, 0x0011, {0}, 0, 0, 0},
};

static void check_golden(const struct golden *g, const int8_t *code, uint16_t scale,
                         const char *isa)
{
    int sum = 0, squares = 0, max = 0;
    for (int i = 0; i < 256; i++) {
        sum += code[i];
        squares += code[i] * code[i];
        max = abs(code[i]) > max ? abs(code[i]) : max;
    }
    if (scale != g->bits || memcmp(code, g->first, 12) != 0 || sum != g->sum ||
        squares != g->squares || max != g->max)
        fail_msg("%s, %s: scale %04x, codes %d %d %d ..., sum %d, squares %d, max %d", isa, g->name,
                 scale, code[0], code[1], code[2], sum, squares, max);
}

static void test_goldens(void **state)
{
    (void)state;
    static const float mixed[8] = {7e4f, 7e4f, 7e4f, 7e4f, 1, 1, 1, 1};
    static const int8_t mixed_codes[8] = {127, 127, 127, 127, 0, 0, 0, 0};
    int8_t kc[256], vc[256];
    uint16_t ks, vs;
    for (int level = 0; level < n_levels; level++) {
        const struct fg_kernels *kn = levels[level];
        struct pages p = pages_new(FG_KV_KV8, 256, 1), small = pages_new(FG_KV_KV8, 8, 1);
        for (int64_t i = 0; i < COUNT(goldens); i++) {
            double x[256];
            float row[256], opposite[256];
            golden_values(x, 256, goldens[i].name, goldens[i].scale);
            for (int d = 0; d < 256; d++)
                opposite[d] = -(row[d] = (float)x[d]);
            assert_true(kn->kv_store(&p.h, 77 + i, row, opposite));
            fg_kv_export(&p.h, 77 + i, 1, kc, &ks, vc, &vs);
            check_golden(&goldens[i], kc, ks, kn->isa);
            for (int d = 0; d < 256; d++)
                vc[d] = (int8_t)-vc[d];
            check_golden(&goldens[i], vc, vs, kn->isa);
        }
        assert_true(kn->kv_store(&small.h, 3, mixed, mixed));
        fg_kv_export(&small.h, 3, 1, kc, &ks, vc, &vs);
        assert_int_equal(ks, 0x6008);
        assert_int_equal(vs, 0x6008);
        assert_memory_equal(kc, mixed_codes, 8);
        assert_memory_equal(vc, mixed_codes, 8);
        pages_free(&p);
        pages_free(&small);
    }
}

// specs: runtime A.1, last line
static void test_golden_e4m3(void **state)
{
    (void)state;
    static const float pairs[][2] = {{0.0009f, 0},
                                     {0.00098f, 0.001953125f},
                                     {0.0146f, 0.013671875f},
                                     {0.0166f, 0.015625f},
                                     {19.0f, 20},
                                     {21.0f, 20},
                                     {63.9f, 64},
                                     {460, 448}};
    for (int64_t i = 0; i < COUNT(pairs); i++) {
        const float got = fg_f8e4m3_to_f32(fg_f8e4m3_of_f32(pairs[i][0]));
        if (got != pairs[i][1]) fail_msg("%g gives %g", (double)pairs[i][0], (double)got);
        assert_true(fg_f8e4m3_to_f32(fg_f8e4m3_of_f32(-pairs[i][0])) == -pairs[i][1]);
    }
}

// The nearest FP16 of finite x, saturated, by definition: units of the last place counted in
// double, whose rint rounds half to even.
static double f16_nearest(double x)
{
    int e;
    frexp(x, &e); // |x| in [2^(e-1), 2^e): 11 bits
    const double unit = ldexp(1, (e < -13 ? -13 : e) - 11), h = rint(x / unit) * unit;
    return fmin(fmax(h, -65504), 65504);
}

// One part of a row, stored and read back, against the rules in double.
static void check_rules(const char *what, const float *x, int64_t D, bool codes, bool f32,
                        const int8_t *code, uint16_t scale, const float *back)
{
    double a = 0, h[FG_KV_WIDTH_MAX];
    for (int64_t d = 0; d < D; d++) {
        h[d] = f16_nearest((double)x[d]);
        a = fmax(a, fabs(h[d]));
    }
    const float want_scale = (float)a / 127.0f > 1e-6f ? (float)a / 127.0f : 1e-6f;
    const double s = fg_f16_to_f32(scale);
    if (codes && s != f16_nearest((double)want_scale))
        fail_msg("%s: scale %a, expected %a", what, s, f16_nearest((double)want_scale));
    for (int64_t d = 0; d < D; d++) {
        const double want = f32 ? (double)x[d] : codes ? code[d] * s : h[d];
        if ((double)back[d] != want || !signbit(back[d]) != !signbit(want))
            fail_msg("%s: [%lld] %a reads back as %a, expected %a", what, (long long)d,
                     (double)x[d], (double)back[d], want);
        if (codes && code[d] != fmin(fmax(rint((double)((float)h[d] / (float)s)), -127), 127))
            fail_msg("%s: [%lld] %a has code %d at scale %a", what, (long long)d, h[d], code[d], s);
    }
}

// Rows that sit at the limits of FP16 and of scales.
static void limits_row(float *x, int64_t D, int64_t which)
{
    static const float at[][4] = {
        {65504, -65519.996f, 65520, -65536}, // saturation
        {FLT_MAX, -FLT_MAX, 1e30f, 65503},
        {0x1p-24f, -0x1p-25f, 0x1.8p-25f, 0x1.000002p-25f}, // subnormal, ties to zero
        {0x1.ff8p-15f, -0x1p-14f, 0x1.ffcp-15f, FLT_MIN},   // smallest normal
        {0, -0.0f, 0, -0.0f},
        {FLT_TRUE_MIN, -FLT_TRUE_MIN, 0x1p-30f, 0},
        {127, -0.5f, 1.5f, -2.5f},                            // codes halfway
        {1.27e-4f, -1.27e-4f, 1e-6f, 5e-7f},                  // the smallest scale
        {0x1.004p0f, -0x1.002p0f, 0x1.006p0f, 0x1.002002p0f}, // FP16 halfway
        {65504, 1, -257.9f, 258},                             // the largest scale
        {1e-4f, -2e-4f, 0x1p-24f, 6e-8f},
        {-1, -1, -1, -1},
    };
    for (int64_t d = 0; d < D; d++)
        x[d] = at[which % COUNT(at)][(d + which / COUNT(at)) % 4];
}

enum { N_LIMITS = 24 };

static void test_rules(void **state)
{
    (void)state;
    for (int f = 0; f < FG_KV_N_ALL; f++) {
        const enum fg_kv_format format = (enum fg_kv_format)f;
        for (int64_t i = 0; i < COUNT(dims); i++) {
            const int64_t D = dims[i];
            struct pages p = pages_new(format, D, 1);
            for (int64_t n = 0; n < N_LIMITS + 3 * N_NUMBERS; n++) {
                float k[FG_KV_WIDTH_MAX], v[FG_KV_WIDTH_MAX], k_back[FG_KV_WIDTH_MAX],
                    v_back[FG_KV_WIDTH_MAX];
                uint64_t seed = (uint64_t)(n * 977 + D);
                if (n < N_LIMITS) {
                    limits_row(k, D, n);
                    limits_row(v, D, n + 1);
                } else {
                    fill_finite(k, D, &seed, (enum numbers)(n % N_NUMBERS));
                    fill_finite(v, D, &seed, (enum numbers)((n + 1) % N_NUMBERS));
                }
                assert_true(levels[0]->kv_store(&p.h, 200, k, v));
                uint8_t kr[FG_KV_WIDTH_MAX * 4], vr[FG_KV_WIDTH_MAX * 4];
                uint16_t ks = 0, vs = 0;
                fg_kv_export(&p.h, 200, 1, kr, fg_kv_k8(format) ? &ks : NULL, vr,
                             fg_kv_v8(format) ? &vs : NULL);
                fg_kv_read(&p.h, 200, 1, k_back, v_back);
                char what[80];
                snprintf(what, sizeof what, "%s, D %lld, row %lld", format_names[f], (long long)D,
                         (long long)n);
                check_rules(what, k, D, fg_kv_k8(format), format == FG_KV_F32, (int8_t *)kr, ks,
                            k_back);
                check_rules(what, v, D, fg_kv_v8(format), format == FG_KV_F32, (int8_t *)vr, vs,
                            v_back);
            }
            pages_free(&p);
        }
    }
}

static void test_not_finite(void **state)
{
    (void)state;
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (int level = 0; level < n_levels; level++)
        for (int f = 0; f < FG_KV_N_ALL; f++)
            for (int64_t i = 0; i < COUNT(dims); i++) {
                const int64_t D = dims[i];
                struct pages p = pages_new((enum fg_kv_format)f, D, 1);
                float x[2][FG_KV_WIDTH_MAX];
                for (int64_t d = 0; d < D; d++)
                    x[0][d] = x[1][d] = d % 3 ? FLT_MAX : -FLT_TRUE_MIN;
                assert_true(levels[level]->kv_store(&p.h, 5, x[0], x[1]));
                for (int64_t at = 0; at < 2 * D; at++) {
                    float *x_at = &x[at / D][at % D], good = *x_at;
                    *x_at = bad[at % 4];
                    if (levels[level]->kv_store(&p.h, 5, x[0], x[1]))
                        fail_msg("%s, %s, D %lld: %g at %lld is stored", levels[level]->isa,
                                 format_names[f], (long long)D, (double)bad[at % 4], (long long)at);
                    *x_at = good;
                }
                pages_free(&p);
            }
}

// The bytes of the drawings in kv.h, written down in their order from rows as files have them.
static void test_order_of_bytes(void **state)
{
    (void)state;
    for (int f = 0; f < FG_KV_N_ALL; f++) {
        const enum fg_kv_format format = (enum fg_kv_format)f;
        for (int64_t i = 0; i < COUNT(dims); i++) {
            const int64_t D = dims[i], W = fg_kv_width(D);
            const size_t kb = (size_t)fg_kv_k_page_bytes(format, D) / (size_t)(FG_KV_PAGE * W);
            const size_t vb = (size_t)fg_kv_v_page_bytes(format, D) / (size_t)(FG_KV_PAGE * W);
            struct pages p = pages_new(format, D, 2);
            pages_fill(&p, 0xA5, 0xA5A5);
            uint64_t seed = (uint64_t)D;
            for (int64_t t = 0; t < FG_KV_PAGE; t++) {
                float k[FG_KV_WIDTH_MAX], v[FG_KV_WIDTH_MAX];
                fill_finite(k, D, &seed, NUMBERS_UNIT);
                fill_finite(v, D, &seed, NUMBERS_UNIT);
                assert_true(levels[n_levels - 1]->kv_store(&p.h, FG_KV_PAGE + t, k, v));
            }
            uint8_t *k = malloc(FG_KV_PAGE * (size_t)D * kb);
            uint8_t *v = malloc(FG_KV_PAGE * (size_t)D * vb);
            uint16_t ks[FG_KV_PAGE], vs[FG_KV_PAGE];
            assert_true(k && v);
            fg_kv_export(&p.h, FG_KV_PAGE, FG_KV_PAGE, k, fg_kv_k8(format) ? ks : NULL, v,
                         fg_kv_v8(format) ? vs : NULL);

            static const uint8_t zero[4] = {0};
            const uint8_t *at = p.h.k + fg_kv_k_page_bytes(format, D);
            const int64_t inner = fg_kv_k8(format) ? 4 : 1;
            for (int64_t block = 0; block < 16; block++)
                for (int64_t outer = 0; outer < W / inner; outer++)
                    for (int64_t lane = 0; lane < 16; lane++)
                        for (int64_t in = 0; in < inner; in++, at += kb) {
                            const int64_t d = outer * inner + in, t = block * 16 + lane;
                            uint8_t want[4];
                            memcpy(want, d < D ? k + (size_t)(t * D + d) * kb : zero, kb);
                            if (fg_kv_k8(format)) want[0] = (uint8_t)(want[0] + 128);
                            if (memcmp(at, want, kb) != 0)
                                fail_msg("%s, D %lld: key of token %lld, dim %lld", format_names[f],
                                         (long long)D, (long long)t, (long long)d);
                        }
            at = p.h.v + fg_kv_v_page_bytes(format, D);
            // [a][b][c][e]: values in INT8 [W / 32][64 quads][32 dims][4 tokens], else
            // [1][256 tokens][W][1].
            const bool v8 = fg_kv_v8(format);
            for (int64_t a = 0; a < (v8 ? W / 32 : 1); a++)
                for (int64_t b = 0; b < (v8 ? 64 : 256); b++)
                    for (int64_t c = 0; c < (v8 ? 32 : W); c++)
                        for (int64_t e = 0; e < (v8 ? 4 : 1); e++, at += vb) {
                            const int64_t d = v8 ? a * 32 + c : c, t = v8 ? b * 4 + e : b;
                            if (memcmp(at, d < D ? v + (size_t)(t * D + d) * vb : zero, vb) != 0)
                                fail_msg("%s, D %lld: value of token %lld, dim %lld",
                                         format_names[f], (long long)D, (long long)t, (long long)d);
                        }
            if (fg_kv_k8(format)) assert_memory_equal(p.h.ks + FG_KV_PAGE, ks, sizeof ks);
            if (fg_kv_v8(format)) assert_memory_equal(p.h.vs + FG_KV_PAGE, vs, sizeof vs);
            free(k);
            free(v);
            pages_free(&p);
        }
    }
}

// Rows of every kind over two pages; memory of rows that are not stored stays as it was.
static void test_levels(void **state)
{
    (void)state;
    for (int f = 0; f < FG_KV_N_ALL; f++)
        for (int64_t i = 0; i < COUNT(dims); i++) {
            const int64_t D = dims[i];
            struct pages truth = pages_new((enum fg_kv_format)f, D, 2);
            struct pages p = pages_new((enum fg_kv_format)f, D, 2);
            struct fenced k = fenced_new((size_t)D * 4), v = fenced_new((size_t)D * 4);
            for (int level = 1; level < n_levels; level++) {
                uint64_t seed = (uint64_t)(D * 31 + f + 1);
                pages_fill(&truth, 0xA5, 0xA5A5);
                pages_fill(&p, 0xA5, 0xA5A5);
                for (int64_t n = 0; n < 160; n++) {
                    const int64_t pos = next_u32(&seed) % (2 * FG_KV_PAGE);
                    if (n < N_LIMITS) {
                        limits_row((float *)k.data, D, n);
                        limits_row((float *)v.data, D, n + 3);
                    } else {
                        fill_finite((float *)k.data, D, &seed, (enum numbers)(n % N_NUMBERS));
                        fill_finite((float *)v.data, D, &seed, (enum numbers)(n / 4 % N_NUMBERS));
                    }
                    float *kr = (float *)k.data, *vr = (float *)v.data;
                    assert_true(levels[0]->kv_store(&truth.h, pos, kr, vr));
                    assert_true(levels[level]->kv_store(&p.h, pos, kr, vr));
                    const char *what = pages_differ(&p, &truth);
                    if (what)
                        fail_msg("%s, %s, D %lld, row %lld at %lld: %s", levels[level]->isa,
                                 format_names[f], (long long)D, (long long)n, (long long)pos, what);
                }
            }
            fenced_free(&k);
            fenced_free(&v);
            pages_free(&truth);
            pages_free(&p);
        }
}

// Any order of storing, and what was there before, give the same bytes; a row stored again is as
// if it had been stored once. Rows exported and imported elsewhere too.
static void test_any_order(void **state)
{
    (void)state;
    enum { N = 300, FROM = 119 };
    static float k[N][FG_KV_WIDTH_MAX], v[N][FG_KV_WIDTH_MAX];
    for (int f = 0; f < FG_KV_N_ALL; f++)
        for (int64_t i = 0; i < COUNT(dims); i++) {
            const enum fg_kv_format format = (enum fg_kv_format)f;
            const int64_t D = dims[i];
            struct pages p = pages_new(format, D, 2), other = pages_new(format, D, 2);
            struct pages copy = pages_new(format, D, 2);
            pages_fill(&p, 0xA5, 0xA5A5);
            pages_fill(&other, 0xA5, 0xA5A5);
            pages_fill(&copy, 0xA5, 0xA5A5);
            uint64_t seed = (uint64_t)D + 5;
            for (int64_t t = 0; t < N; t++) {
                fill_finite(k[t], D, &seed, NUMBERS_UNIT);
                fill_finite(v[t], D, &seed, NUMBERS_SPECIAL);
            }
            for (int64_t t = 0; t < N; t++)
                assert_true(levels[0]->kv_store(&p.h, FROM + t, k[t], v[t]));
            for (int64_t t = 0; t < N; t++) // other rows first, then these by steps of 7
                assert_true(levels[t % n_levels]->kv_store(&other.h, FROM + t, v[t], k[N - 1 - t]));
            for (int64_t t = 0; t < N; t++) {
                const int64_t at = t * 7 % N;
                assert_true(levels[t % n_levels]->kv_store(&other.h, FROM + at, k[at], v[at]));
            }
            const char *what = pages_differ(&p, &other);
            if (what)
                fail_msg("%s, D %lld: order shows in %s", format_names[f], (long long)D, what);

            uint8_t *kr = malloc((size_t)(N * D) * 4), *vr = malloc((size_t)(N * D) * 4);
            float *kf = malloc((size_t)(N * D) * 4), *vf = malloc((size_t)(N * D) * 4);
            float *kf2 = malloc((size_t)(N * D) * 4), *vf2 = malloc((size_t)(N * D) * 4);
            uint16_t ks[N], vs[N];
            assert_true(kr && vr && kf && vf && kf2 && vf2);
            uint16_t *ks_or = fg_kv_k8(format) ? ks : NULL, *vs_or = fg_kv_v8(format) ? vs : NULL;
            fg_kv_export(&p.h, FROM, N, kr, ks_or, vr, vs_or);
            fg_kv_import(&copy.h, FROM, N, kr, ks_or, vr, vs_or);
            what = pages_differ(&p, &copy);
            if (what)
                fail_msg("%s, D %lld: imported rows differ in %s", format_names[f], (long long)D,
                         what);
            fg_kv_read(&p.h, FROM, N, kf, vf);
            for (int64_t t = 0; t < N; t++) {
                fg_kv_read(&copy.h, FROM + t, 1, kf2 + t * D, NULL);
                fg_kv_read(&copy.h, FROM + t, 1, NULL, vf2 + t * D);
            }
            assert_memory_equal(kf, kf2, (size_t)(N * D) * 4);
            assert_memory_equal(vf, vf2, (size_t)(N * D) * 4);
            if (format == FG_KV_F32) assert_memory_equal(kf, kr, (size_t)(N * D) * 4);
            free(kr);
            free(vr);
            free(kf);
            free(vf);
            free(kf2);
            free(vf2);
            pages_free(&p);
            pages_free(&other);
            pages_free(&copy);
        }
}

// ---- codes against queries

// What the rounding of dim i aims at, in double: the value of x_i - e_i for which the least error
// over free dims below i is least, given the errors of those above; by elimination in I + U U^T.
static double aim(const double *u, int64_t r, int64_t i, const double *error, int64_t D, double x)
{
    const int64_t n = i + 1;
    double *m = calloc((size_t)(n * (n + 1)), sizeof *m);
    assert_non_null(m);
    for (int64_t a = 0; a < n; a++) {
        for (int64_t b = 0; b < n; b++) {
            m[a * (n + 1) + b] = a == b;
            for (int64_t j = 0; j < r; j++)
                m[a * (n + 1) + b] += u[a * r + j] * u[b * r + j];
        }
        for (int64_t f = n; f < D; f++)
            for (int64_t j = 0; j < r; j++)
                m[a * (n + 1) + n] -= u[a * r + j] * u[f * r + j] * error[f];
    }
    for (int64_t c = 0; c < n; c++) // positive definite: no pivots
        for (int64_t a = c + 1; a < n; a++) {
            const double f = m[a * (n + 1) + c] / m[c * (n + 1) + c];
            for (int64_t b = c; b <= n; b++)
                m[a * (n + 1) + b] -= f * m[c * (n + 1) + b];
        }
    const double e = m[i * (n + 1) + n] / m[i * (n + 1) + i];
    free(m);
    return x - e;
}

// sum_j (u_j . e)^2 + e . e
static double weighted(const double *u, int64_t r, const double *e, int64_t D)
{
    double sum = 0;
    for (int64_t d = 0; d < D; d++)
        sum += e[d] * e[d];
    for (int64_t j = 0; j < r; j++) {
        double dot = 0;
        for (int64_t d = 0; d < D; d++)
            dot += u[d * r + j] * e[d];
        sum += dot * dot;
    }
    return sum;
}

static void shape_case(int64_t D, int64_t n, uint64_t *seed, double *plain, double *shaped)
{
    const int64_t r = n < FG_KV_DIRECTIONS ? n : FG_KV_DIRECTIONS, pos = 37;
    struct pages p = pages_new(FG_KV_KV8, D, 1);
    float k[FG_KV_WIDTH_MAX], v[FG_KV_WIDTH_MAX], before[FG_KV_WIDTH_MAX], vb[FG_KV_WIDTH_MAX];
    float after[FG_KV_WIDTH_MAX], va[FG_KV_WIDTH_MAX],
        *q = calloc((size_t)(n * (D + 5)), sizeof *q);
    double *u = calloc((size_t)(D * r), sizeof *u), e[FG_KV_WIDTH_MAX], energy = 0;
    fill_finite(k, D, seed, NUMBERS_UNIT);
    fill_finite(v, D, seed, NUMBERS_UNIT);
    fill_finite(q, n * (D + 5), seed, NUMBERS_UNIT);
    for (int64_t j = 0; j < n; j++) // queries of a head have a direction in common
        for (int64_t d = 0; d < D; d++)
            q[j * (D + 5) + d] += (float)(d % 5);
    assert_true(levels[0]->kv_store(&p.h, pos, k, v));
    const uint16_t scale = p.h.ks[pos];
    fg_kv_read(&p.h, pos, 1, before, vb);
    fg_kv_shape_key(&p.h, pos, k, q, n, D + 5);
    fg_kv_read(&p.h, pos, 1, after, va);
    assert_int_equal(p.h.ks[pos], scale);
    assert_memory_equal(va, vb, (size_t)D * sizeof *va);
    for (int64_t d = 0; d < D; d++)
        for (int64_t j = 0; j < n; j++)
            u[d * r + j % r] += q[j * (D + 5) + d];
    for (int64_t i = 0; i < D * r; i++)
        energy += u[i] * u[i];
    for (int64_t i = 0; i < D * r; i++)
        u[i] /= sqrt((double)FG_KV_RIDGE * energy / (double)D);
    const double s = fg_f16_to_f32(scale);
    for (int64_t d = D - 1; d >= 0; d--) {
        const double x = fg_f16_to_f32(fg_f16_of_f32(k[d])), t = aim(u, r, d, e, D, x);
        const double bound = fmin(fmax(t / s, -127), 127);
        e[d] = x - after[d];
        if (fabs(after[d] / s - bound) > 0.501)
            fail_msg("D %d, %d queries, dim %d: %g, wanted %g", (int)D, (int)n, (int)d,
                     after[d] / s, t / s);
    }
    *shaped += weighted(u, r, e, D);
    for (int64_t d = 0; d < D; d++)
        e[d] = fg_f16_to_f32(fg_f16_of_f32(k[d])) - before[d];
    *plain += weighted(u, r, e, D);
    free(q);
    free(u);
    pages_free(&p);
}

static void test_shaped_keys(void **state)
{
    (void)state;
    static const int64_t widths[] = {1, 7, 8, 33, 64, 96};
    static const int64_t queries[] = {1, 3, 6, 8, 13};
    uint64_t seed = 3;
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
        for (size_t n = 0; n < sizeof queries / sizeof queries[0]; n++) {
            double plain = 0, shaped = 0;
            for (int i = 0; i < 5; i++)
                shape_case(widths[w], queries[n], &seed, &plain, &shaped);
            if (widths[w] >= 33 && !(shaped < 0.6 * plain))
                fail_msg("D %d, %d queries: %g, to nearest %g", (int)widths[w], (int)queries[n],
                         shaped, plain);
        }
}

// Queries that say nothing, and formats whose keys have no codes.
static void test_keys_left_alone(void **state)
{
    (void)state;
    enum { D = 64, N = 3 };
    static const enum fg_kv_format formats[] = {FG_KV_KV8, FG_KV_V8, FG_KV_FP16, FG_KV_F32};
    float k[D], v[D], a[D], b[D], q[N * D];
    uint64_t seed = 5;
    fill_finite(k, D, &seed, NUMBERS_UNIT);
    fill_finite(v, D, &seed, NUMBERS_UNIT);
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++)
        for (int kind = 0; kind < 4; kind++) {
            struct pages p = pages_new(formats[f], D, 1);
            fill_finite(q, N * D, &seed, NUMBERS_UNIT);
            if (kind == 0) memset(q, 0, sizeof q);
            if (kind == 1) q[70] = NAN;
            if (kind == 2) q[3] = INFINITY;
            if (kind == 3 && fg_kv_k8(formats[f])) q[0] = 1e30f;
            assert_true(levels[0]->kv_store(&p.h, 9, k, v));
            fg_kv_read(&p.h, 9, 1, a, NULL);
            fg_kv_shape_key(&p.h, 9, k, q, N, D);
            fg_kv_read(&p.h, 9, 1, b, NULL);
            assert_memory_equal(a, b, sizeof a);
            pages_free(&p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),         cmocka_unit_test(test_golden_e4m3),
        cmocka_unit_test(test_rules),           cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_order_of_bytes),  cmocka_unit_test(test_levels),
        cmocka_unit_test(test_any_order),       cmocka_unit_test(test_shaped_keys),
        cmocka_unit_test(test_keys_left_alone),
    };
    return cmocka_run_group_tests_name("kernels.kv", tests, setup, NULL);
}
