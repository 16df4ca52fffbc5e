// The arithmetic of the original's attention: the golden of the specs, FP64 sums, what the rows of
// a call see of each other.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/arena.h"
#include "base/num.h"
#include "model/attention_reference.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POS_MAX 600
#define ROWS_MAX 20
#define WIDTH_MAX 80

// Values by name, as the specs' goldens have them (runtime, appendix A).
static void named_values(double *out, int64_t n, double scale, const char *fmt, int64_t t)
{
    char name[32];
    snprintf(name, sizeof name, fmt, (long long)t);
    uint32_t state = 2166136261u;
    for (const char *c = name; *c; c++)
        state = (state ^ (uint8_t)*c) * 16777619u;
    for (int64_t i = 0; i < n; i++) {
        state = 1664525u * state + 1013904223u;
        out[i] = scale * (2.0 * (state >> 8) / 16777216.0 - 1);
    }
}

static float half(float x)
{
    return fg_f16_to_f32(fg_f16_of_f32(x));
}

// A conversation's keys and values in one format, filled row by row.
struct cache {
    struct fg_kv_head head;
    int64_t D;
    int8_t kc[POS_MAX][WIDTH_MAX], vc[POS_MAX][WIDTH_MAX];
    float ks[POS_MAX], vs[POS_MAX];
    double k[POS_MAX][WIDTH_MAX], v[POS_MAX][WIDTH_MAX]; // as read back
};

static struct cache *cache_new(enum fg_kv_format format, int64_t D)
{
    int64_t pages = (POS_MAX + FG_KV_PAGE - 1) / FG_KV_PAGE;
    struct cache *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->D = D;
    c->head = (struct fg_kv_head){
        .format = format,
        .D = D,
        .k = fg_alloc_aligned((uint64_t)(pages * fg_kv_k_page_bytes(format, D))),
        .v = fg_alloc_aligned((uint64_t)(pages * fg_kv_v_page_bytes(format, D))),
        .ks = fg_kv_k8(format) ? fg_alloc_aligned((uint64_t)pages * FG_KV_PAGE * 2) : NULL,
        .vs = fg_kv_v8(format) ? fg_alloc_aligned((uint64_t)pages * FG_KV_PAGE * 2) : NULL};
    assert_true(c->head.k && c->head.v);
    return c;
}

static void cache_free(struct cache *c)
{
    free(c->head.k);
    free(c->head.v);
    free(c->head.ks);
    free(c->head.vs);
    free(c);
}

// The stored form of a part, written to where fg_kv_import takes it from.
static void stored_form(const float *x, int64_t D, enum fg_kv_format format, bool codes, void *out,
                        uint16_t *scale, int8_t *code_row, float *s_out, double *back)
{
    float max = 0;
    for (int64_t d = 0; d < D; d++)
        max = fmaxf(max, fabsf(half(x[d])));
    *scale = fg_f16_of_f32(fmaxf(max / 127, 1e-6f));
    float s = *s_out = fg_f16_to_f32(*scale);
    for (int64_t d = 0; d < D; d++) {
        if (codes) {
            float c = fmaxf(-127, fminf(127, rintf(half(x[d]) / s)));
            code_row[d] = ((int8_t *)out)[d] = (int8_t)c;
            back[d] = (double)(c * s);
        } else if (format == FG_KV_F32) {
            ((float *)out)[d] = x[d];
            back[d] = (double)x[d];
        } else {
            ((uint16_t *)out)[d] = fg_f16_of_f32(x[d]);
            back[d] = (double)half(x[d]);
        }
    }
}

static void cache_put(struct cache *c, int64_t pos, const float *k, const float *v)
{
    enum fg_kv_format f = c->head.format;
    float k_out[WIDTH_MAX], v_out[WIDTH_MAX];
    uint16_t ks, vs;
    stored_form(k, c->D, f, fg_kv_k8(f), k_out, &ks, c->kc[pos], &c->ks[pos], c->k[pos]);
    stored_form(v, c->D, f, fg_kv_v8(f), v_out, &vs, c->vc[pos], &c->vs[pos], c->v[pos]);
    fg_kv_import(&c->head, pos, 1, k_out, fg_kv_k8(f) ? &ks : NULL, v_out,
                 fg_kv_v8(f) ? &vs : NULL);
}

static void run(float *o, const float *q, const float *k, const float *v, const struct cache *c,
                int64_t pos, int64_t T, int64_t G, enum fg_attention mode,
                const struct fg_c2t_units *u)
{
    void *scratch = fg_alloc_aligned(fg_attention_reference_scratch_bytes(c->D, T, G, u));
    assert_non_null(scratch);
    fg_attention_reference(o, G * c->D, q, G * c->D, k, c->D, v, c->D, &c->head, pos, T, G, mode, u,
                           scratch);
    free(scratch);
}

static struct fg_c2t_units with_tiles(int64_t verify, int64_t prefill)
{
    struct fg_c2t_units u = fg_c2t_units_default();
    u.tile_verify = verify;
    u.tile_prefill = prefill;
    return u;
}

static void the_golden_of_the_specs(void **state)
{
    (void)state;
    static const double expected[8] = {.004900, -.140742, -.001062, .083633,
                                       .578889, .215601,  -.083351, -.048106};
    struct cache *c = cache_new(FG_KV_V8, 8);
    float k[22][8], v[22][8], q[2][8];
    double row[8];
    for (int64_t t = 0; t < 22; t++) {
        named_values(row, 8, 2, "ak.%lld", t);
        for (int d = 0; d < 8; d++)
            k[t][d] = (float)row[d];
        named_values(row, 8, 1, "av.%lld", t);
        for (int d = 0; d < 8; d++)
            v[t][d] = (float)row[d];
        if (t < 20) cache_put(c, t, k[t], v[t]);
    }
    named_values(row, 8, 3, "aq", 0);
    for (int d = 0; d < 8; d++) {
        q[0][d] = -1;
        q[1][d] = (float)row[d];
    }
    struct fg_c2t_units u = with_tiles(8, 4096);
    float o[2][8];
    run(o[0], q[0], k[20], v[20], c, 20, 2, 1, FG_ATTENTION_C2T, &u);
    for (int d = 0; d < 8; d++)
        assert_true(fabs((double)o[1][d] - expected[d]) < 1e-5);
    // In tiles of another size the probabilities round elsewhere.
    u = with_tiles(20, 4096);
    run(o[0], q[0], k[20], v[20], c, 20, 2, 1, FG_ATTENTION_C2T, &u);
    double moved = 0;
    for (int d = 0; d < 8; d++)
        moved = fmax(moved, fabs((double)o[1][d] - expected[d]));
    assert_true(moved > 1e-4 && moved < 0.1);
    cache_free(c);
}

static double fp8(double p, double unit)
{
    return (double)fg_f8e4m3_to_f32(fg_f8e4m3_of_f32((float)(p / unit))) * unit;
}

static double clamped_step(double s, double u)
{
    double x = rint(s / u);
    return u * (x < -128 ? -128 : x > 127 ? 127 : x);
}

// One head's row in double, written as the specs have it: every tile against the whole's maximum.
static void truth(double *o, const float *q, const float *k, const float *v, const struct cache *c,
                  int64_t pos, int64_t row, int64_t tile, bool c2t, const struct fg_c2t_units *u)
{
    int64_t D = c->D;
    bool k8 = c2t && fg_kv_k8(c->head.format), v8 = c2t && fg_kv_v8(c->head.format);
    double *s = calloc((size_t)(pos + row + 1), sizeof *s), m = -INFINITY, den = 0;
    for (int64_t t = 0; t <= pos + row; t++) {
        for (int64_t d = 0; d < D; d++) {
            double kd = t >= pos ? (double)half(k[(t - pos) * D + d])
                        : k8     ? c->kc[t][d] / 128.0
                                 : c->k[t][d];
            s[t] += (double)q[d] * kd;
        }
        s[t] /= sqrt((double)D);
        if (k8 && t < pos) s[t] *= (double)c->ks[t] * 128;
        if (c2t && t < pos) s[t] = clamped_step(s[t], (double)u->s8b);
        m = fmax(m, s[t]);
    }
    memset(o, 0, (size_t)D * sizeof *o);
    for (int64_t j = 0; j < pos; j += tile) {
        int64_t end = j + tile < pos ? j + tile : pos;
        double mj = -INFINITY, vm = 1e-4;
        for (int64_t t = j; t < end; t++) {
            mj = fmax(mj, s[t]);
            vm = fmax(vm, (double)c->vs[t] * 128);
        }
        for (int64_t t = j; t < end; t++) {
            double e = exp(s[t] - mj), w = exp(mj - m);
            if (c2t) e = fp8(e, (double)u->pf8);
            den += e * w;
            double p = v8 ? fp8(e * ((double)c->vs[t] * 128 / vm), (double)u->pf8) * vm : e;
            for (int64_t d = 0; d < D; d++)
                o[d] += p * w * (v8 ? c->vc[t][d] / 128.0 : c->v[t][d]);
        }
    }
    for (int64_t t = pos; t <= pos + row; t++) {
        den += exp(s[t] - m);
        for (int64_t d = 0; d < D; d++)
            o[d] += exp(s[t] - m) * (double)half(v[(t - pos) * D + d]);
    }
    for (int64_t d = 0; d < D; d++)
        o[d] /= den;
    free(s);
}

static uint32_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

// Multiples of 1/8 below `scale`: sums of products are the same in float and double, so steps of
// scores fall alike.
static void fill(float *x, int64_t n, float scale, uint64_t *seed)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = scale * (float)((int)(next(seed) % 17) - 8) / 8;
}

struct problem {
    struct cache *cache;
    int64_t pos, T, G;
    float *q, *k, *v, *o;
};

static struct problem problem_new(enum fg_kv_format f, int64_t D, int64_t pos, int64_t T, int64_t G)
{
    struct problem p = {cache_new(f, D), pos, T, G, NULL, NULL, NULL, NULL};
    uint64_t seed = (uint64_t)(f * 1000 + D * 31 + pos * 7 + T);
    p.q = malloc((size_t)(T * G * D) * sizeof *p.q);
    p.o = malloc((size_t)(T * G * D) * sizeof *p.o);
    p.k = malloc((size_t)(T * D) * sizeof *p.k);
    p.v = malloc((size_t)(T * D) * sizeof *p.v);
    assert_true(p.q && p.k && p.v && p.o);
    fill(p.q, T * G * D, 4, &seed);
    fill(p.k, T * D, 2, &seed);
    fill(p.v, T * D, 1, &seed);
    float k[WIDTH_MAX], v[WIDTH_MAX];
    for (int64_t t = 0; t < pos; t++) {
        fill(k, D, 2, &seed);
        fill(v, D, t % 7 == 3 ? 4 : 0.5f, &seed);
        cache_put(p.cache, t, k, v);
    }
    return p;
}

static void problem_free(struct problem *p)
{
    cache_free(p->cache);
    free(p->q);
    free(p->k);
    free(p->v);
    free(p->o);
}

static double distance(const struct problem *p, bool c2t, const struct fg_c2t_units *u)
{
    int64_t D = p->cache->D, tile = p->T <= 8 ? u->tile_verify : u->tile_prefill;
    double o[WIDTH_MAX], worst = 0;
    for (int64_t r = 0; r < p->T * p->G; r++) {
        truth(o, p->q + r * D, p->k, p->v, p->cache, p->pos, r / p->G, tile, c2t, u);
        for (int64_t d = 0; d < D; d++)
            worst = fmax(worst, fabs((double)p->o[r * D + d] - o[d]));
    }
    return worst;
}

static void run_problem(struct problem *p, enum fg_attention mode, const struct fg_c2t_units *u)
{
    run(p->o, p->q, p->k, p->v, p->cache, p->pos, p->T, p->G, mode, u);
}

static const struct {
    int64_t D, pos, T, G, tile_verify, tile_prefill;
} shapes[] = {
    {8, 0, 1, 1, 8, 16},         {8, 1, 8, 3, 8, 16},         {16, 37, 9, 2, 8, 16},
    {16, 256, 1, 1, 2048, 4096}, {16, 257, 8, 2, 100, 300},   {40, 600, 20, 3, 64, 128},
    {64, 513, 20, 2, 7, 13},     {80, 599, 3, 4, 2048, 4096},
};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

// Values reach 4, rows of most formats far less: bounds are of the largest value.
static void against_double(enum fg_attention mode, double bound)
{
    for (size_t i = 0; i < N_SHAPES; i++) {
        for (int f = 0; f < FG_KV_N_ALL; f++) {
            struct problem p = problem_new((enum fg_kv_format)f, shapes[i].D, shapes[i].pos,
                                           shapes[i].T, shapes[i].G);
            struct fg_c2t_units u = with_tiles(shapes[i].tile_verify, shapes[i].tile_prefill);
            run_problem(&p, mode, &u);
            double off = distance(&p, mode == FG_ATTENTION_C2T, &u) / 4;
            if (!(off < bound))
                fail_msg("shape %zu, format %s: %g", i, fg_kv_format_name((enum fg_kv_format)f),
                         off);
            problem_free(&p);
        }
    }
}

static void seed_is_softmax(void **state)
{
    (void)state;
    against_double(FG_ATTENTION_SEED, 2e-6);
}

// A probability on the edge between two FP8 numbers may fall either way.
static void c2t_takes_its_steps(void **state)
{
    (void)state;
    against_double(FG_ATTENTION_C2T, 2e-4);
}

static void c2t_is_near_seed_and_not_it(void **state)
{
    (void)state;
    struct problem p = problem_new(FG_KV_KV8, 64, 500, 8, 2);
    struct fg_c2t_units u = with_tiles(128, 256);
    run_problem(&p, FG_ATTENTION_C2T, &u);
    double off = distance(&p, false, &u);
    assert_true(off > 1e-4 && off < 0.5);
    problem_free(&p);
}

static void rows_see_nothing_of_what_follows(void **state)
{
    (void)state;
    for (int mode = FG_ATTENTION_SEED; mode <= FG_ATTENTION_C2T; mode++) {
        struct problem p = problem_new(FG_KV_V8, 16, 70, 20, 2);
        struct fg_c2t_units u = with_tiles(8, 16);
        int64_t D = 16, row = p.G * D;
        run_problem(&p, (enum fg_attention)mode, &u);
        float before[ROWS_MAX * 2 * 16];
        memcpy(before, p.o, sizeof before);
        for (int64_t i = 0; i < D; i++)
            p.k[12 * D + i] = p.v[12 * D + i] = 100;
        run_problem(&p, (enum fg_attention)mode, &u);
        assert_memory_equal(before, p.o, (size_t)(12 * row) * sizeof(float));
        assert_memory_not_equal(before + 12 * row, p.o + 12 * row, (size_t)row * sizeof(float));
        problem_free(&p);
    }
}

// Where the history is stored as the call's own rows are seen, the split into calls does not show.
static void a_history_in_fp16_is_like_the_calls_own_rows(void **state)
{
    (void)state;
    struct problem p = problem_new(FG_KV_FP16, 16, 40, 12, 2);
    struct fg_c2t_units u = with_tiles(8, 16);
    int64_t D = 16;
    run_problem(&p, FG_ATTENTION_SEED, &u);
    for (int64_t t = 0; t < p.T; t++) {
        float o[2 * 16];
        run(o, p.q + t * 2 * D, p.k + t * D, p.v + t * D, p.cache, p.pos + t, 1, 2,
            FG_ATTENTION_SEED, &u);
        for (int64_t i = 0; i < 2 * D; i++)
            assert_true(fabsf(o[i] - p.o[t * 2 * D + i]) < 4e-6f);
        cache_put(p.cache, p.pos + t, p.k + t * D, p.v + t * D);
    }
    problem_free(&p);
}

static void the_calls_own_rows_are_rounded(void **state)
{
    (void)state;
    struct problem p = problem_new(FG_KV_KV8, 16, 40, 5, 2);
    struct fg_c2t_units u = with_tiles(8, 16);
    int64_t n = p.T * 16, n_o = n * p.G;
    float rounded[5 * 2 * 16];
    run_problem(&p, FG_ATTENTION_SEED, &u);
    memcpy(rounded, p.o, sizeof rounded);
    for (int64_t i = 0; i < n; i++) { // less than half a step of FP16
        p.k[i] *= 1.0001f;
        p.v[i] *= 1.0001f;
    }
    run_problem(&p, FG_ATTENTION_SEED, &u);
    assert_memory_equal(rounded, p.o, (size_t)n_o * sizeof(float));
    for (int64_t i = 0; i < n; i++)
        p.v[i] *= 1.01f;
    run_problem(&p, FG_ATTENTION_SEED, &u);
    assert_memory_not_equal(rounded, p.o, (size_t)n_o * sizeof(float));
    problem_free(&p);
}

// Scores are stepped twice where keys have no scale, and only after it where they have one.
static void both_steps_have_their_unit(void **state)
{
    (void)state;
    static const enum fg_kv_format formats[] = {FG_KV_V8, FG_KV_KV8};
    for (int f = 0; f < 2; f++) {
        struct problem p = problem_new(formats[f], 16, 60, 4, 1);
        struct fg_c2t_units u = with_tiles(8, 16);
        float before[4 * 16];
        run_problem(&p, FG_ATTENTION_C2T, &u);
        memcpy(before, p.o, sizeof before);
        u.s8 = 2;
        run_problem(&p, FG_ATTENTION_C2T, &u);
        if (formats[f] == FG_KV_KV8) {
            assert_memory_equal(before, p.o, sizeof before);
        } else {
            assert_memory_not_equal(before, p.o, sizeof before);
        }
        problem_free(&p);
    }
}

// One token takes all of the sum, whichever way scores and sums could overflow.
static void scores_far_apart(void **state)
{
    (void)state;
    for (int mode = FG_ATTENTION_SEED; mode <= FG_ATTENTION_C2T; mode++) {
        struct problem p = problem_new(FG_KV_V8, 16, 50, 2, 1);
        struct fg_c2t_units u = with_tiles(8, 16);
        float far[16], value[16];
        for (int d = 0; d < 16; d++) {
            far[d] = p.q[d] * 1000;
            value[d] = (float)d;
        }
        cache_put(p.cache, 20, far, value);
        run_problem(&p, (enum fg_attention)mode, &u);
        // The clamp of c2t leaves the largest score at 31.75.
        for (int d = 0; d < 16; d++)
            assert_true(fabsf(p.o[d] - value[d]) < (mode == FG_ATTENTION_SEED ? 0.06f : 0.5f));
        problem_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_golden_of_the_specs),
        cmocka_unit_test(seed_is_softmax),
        cmocka_unit_test(c2t_takes_its_steps),
        cmocka_unit_test(c2t_is_near_seed_and_not_it),
        cmocka_unit_test(rows_see_nothing_of_what_follows),
        cmocka_unit_test(a_history_in_fp16_is_like_the_calls_own_rows),
        cmocka_unit_test(the_calls_own_rows_are_rounded),
        cmocka_unit_test(both_steps_have_their_unit),
        cmocka_unit_test(scores_far_apart),
    };
    return cmocka_run_group_tests_name("attention_reference", tests, NULL, NULL);
}
