// Costs by hand, bytes to the last one, plans that come back from their files, the step that the
// original's planner took, and what is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "model/plan_shape.h"
#include "quant/planner.h"
#include "quant/random.h"
#include "support/scratch.h"
#include <inttypes.h>
#include <math.h>

static struct fg_arena arena;
static struct fg_config config27;

static const bool kinds[] = {true, true, false, true};
static const struct fg_plan_shape small = {
    .architecture = "qwen3_5",
    .n_layers = 4,
    .hidden = 576,
    .intermediate = 1536,
    .vocab = 1001,
    .is_linear = kinds,
    .q_rows = 640,
    .kv_rows = 64,
    .o_cols = 320,
    .qkv_rows = 256,
    .z_rows = 128,
    .ab_rows = 4,
};

#define ALL3 (1u << FG_Q_V2X16 | 1u << FG_Q_V2X64 | 1u << FG_Q_LUT4)

static struct fg_plan *open_plan(const char *name)
{
    struct fg_plan *p = NULL;
    struct fg_error err = {0};
    if (fg_plan_open(&p, name, &err)) fail_msg("%s: %s", name, err.found);
    return p;
}

static struct fg_plan *parse_plan(const char *text)
{
    struct fg_plan *p = NULL;
    struct fg_error err = {0};
    if (fg_plan_parse(&p, text, strlen(text), "p.json", &err))
        fail_msg("%s: %s: %s", text, err.field, err.found);
    return p;
}

static void add(struct fg_sens *s, const char *unit, enum fg_qformat f, enum fg_sens_metric metric,
                double value)
{
    struct fg_sens_row row = {.format = f, .metric = metric, .value = value, .ci95 = {NAN, NAN}};
    struct fg_error err = {0};
    if (!fg_sens_unit_parse(&row.unit, unit)) fail_msg("%s", unit);
    assert_int_equal(fg_sens_add(s, &row, &err), 0);
}

static void addf(struct fg_sens *s, enum fg_qformat f, enum fg_sens_metric metric, double value,
                 const char *unit, ...)
{
    char text[64];
    va_list ap;
    va_start(ap, unit);
    vsnprintf(text, sizeof text, unit, ap);
    va_end(ap);
    add(s, text, f, metric, value);
}

struct bench {
    struct fg_plan *base;
    struct fg_sens sens;
    struct fg_planner_options o;
    struct fg_planner *p;
};

static struct bench bench_of(const char *plan)
{
    struct bench b = {.base = open_plan(plan)};
    b.o = (struct fg_planner_options){
        .allow = ALL3, .free = FG_FREE_MLP | FG_FREE_MIXER, .count_factors = true, .rho = 1};
    return b;
}

static int try_open(struct bench *b, const struct fg_plan_shape *shape, struct fg_error *err)
{
    fg_sens_sort(&b->sens);
    b->o.base = b->base;
    b->o.sens = &b->sens;
    fg_planner_free(b->p);
    return fg_planner_new(&b->p, shape, &b->o, err);
}

static void open_bench(struct bench *b, const struct fg_plan_shape *shape)
{
    struct fg_error err = {0};
    if (try_open(b, shape, &err))
        fail_msg("%s: expected %s, found %s", err.field, err.expected, err.found);
}

static void close_bench(struct bench *b)
{
    fg_planner_free(b->p);
    fg_plan_free(b->base);
    fg_sens_free(&b->sens);
}

static struct fg_planner_sums sum(const struct fg_planner *p, const struct fg_plan *plan)
{
    struct fg_planner_sums s;
    struct fg_error err = {0};
    if (fg_planner_sum(&s, p, plan, &err)) fail_msg("%s: %s", err.field, err.found);
    return s;
}

// What one plan costs that is given as text.
static double cost(const struct fg_planner *p, const char *text)
{
    struct fg_plan *plan = parse_plan(text);
    const double c = sum(p, plan).cost;
    fg_plan_free(plan);
    return c;
}

static struct fg_planner_result solve(const struct fg_planner *p, uint64_t bytes)
{
    struct fg_planner_result r;
    struct fg_error err = {0};
    if (fg_planner_solve(&r, p, bytes, INFINITY, "solved", &err))
        fail_msg("%s: expected %s, found %s", err.field, err.expected, err.found);
    return r;
}

static struct fg_plan_list resolve(const struct fg_plan *p, const struct fg_plan_shape *s)
{
    struct fg_plan_list l;
    struct fg_error err = {0};
    if (fg_plan_resolve(&l, p, s, &err))
        fail_msg("%s: expected %s, found %s", err.field, err.expected, err.found);
    return l;
}

static void near(double a, double b)
{
    if (fabs(a - b) > 1e-12 * (1 + fabs(b))) fail_msg("%.17g instead of %.17g", a, b);
}

// ---- costs

#define PLAN(mlp, mixer, rest)                                                                     \
    "{\"schema\": \"forge.plan/1\", \"defaults\": {\"mlp\": \"" mlp "\", \"mixer\": \"" mixer      \
    "\", \"kv\": \"int8\", \"head\": \"lut4\"}, \"overrides\": {" rest "}}"

static void nothing_measured_gives_ratios(void **state)
{
    struct bench b = bench_of("release-0.2");
    (void)state;
    open_bench(&b, &small);
    const struct fg_planner_info *info = fg_planner_info(b.p);
    assert_int_equal(info->unit, FG_PLANNER_RELATIVE);
    assert_int_equal(info->n_mats, 4 * 3 + 3 * 3 + 4 + 1);
    assert_int_equal(info->n_free, 4 * 3 + 3 * 3 + 2);
    assert_int_equal(info->n_measured, 0);
    // 12 in MLPs, 11 in mixers, k and v at int8, the head at lut4.
    near(cost(b.p, PLAN("v2x16", "v2x16", "")), 23 + 2 * 0.0006 + 0.08);
    near(cost(b.p, PLAN("v2x64", "lut4", "")), 12 * 0.24 + 11 * 0.08 + 2 * 0.0006 + 0.08);
    near(cost(b.p, PLAN("bf16", "f16", "")), 2 * 0.0006 + 0.08);
    b.o.rho = 0.5;
    open_bench(&b, &small);
    near(cost(b.p, PLAN("v2x16", "v2x16", "")), (23 + 2 * 0.0006 + 0.08) / 2);
    close_bench(&b);
}

// Errors per token take the place of those by H where a matrix has them in every measured format.
static void errors_per_token(void **state)
{
    struct bench b = bench_of("release-0.2");
    (void)state;
    add(&b.sens, "0.down", FG_Q_V2X16, FG_SENS_REL_ERR, 1e-5); // one token is all of H
    add(&b.sens, "0.down", FG_Q_V2X64, FG_SENS_REL_ERR, 3e-6);
    add(&b.sens, "0.down", FG_Q_V2X16, FG_SENS_TOKEN_ERR, 0.03);
    open_bench(&b, &small);
    const double by_h = cost(b.p, PLAN("v2x16", "lut4", "")),
                 finer = cost(b.p, PLAN("v2x16", "lut4", "\"0.down\": \"v2x64\""));
    near(by_h - finer, 1e-5 - 3e-6);
    add(&b.sens, "0.down", FG_Q_V2X64, FG_SENS_TOKEN_ERR, 0.008);
    open_bench(&b, &small);
    near(cost(b.p, PLAN("v2x16", "lut4", "")) -
             cost(b.p, PLAN("v2x16", "lut4", "\"0.down\": \"v2x64\"")),
         0.03 - 0.008);
    close_bench(&b);
}

// c(m, f) = KL_band kappa e(m, f) / sum of kappa e(m', f0), written out.
static void costs_are_the_formula(void **state)
{
    struct bench b = bench_of("release-0.2");
    (void)state;
    add(&b.sens, "mlp:0-1", FG_Q_V2X16, FG_SENS_KL, 0.6);
    add(&b.sens, "mlp:2-3", FG_Q_V2X16, FG_SENS_KL, 0.3);
    add(&b.sens, "mixer:0-3", FG_Q_V2X16, FG_SENS_KL, 0.2);
    add(&b.sens, "head", FG_Q_LUT4, FG_SENS_KL, 0.01);
    for (int i = 0; i < 4; i++) { // the mixers have no delta NLL: kappa 1
        addf(&b.sens, FG_Q_V2X16, FG_SENS_DELTA_NLL, i == 0 ? -1 : 0.1 * i, "%d.mlp", i);
        addf(&b.sens, FG_Q_V2X16, FG_SENS_REL_ERR, 0.05, "%d.gate", i);
        addf(&b.sens, FG_Q_V2X64, FG_SENS_REL_ERR, 0.01, "%d.gate", i);
        addf(&b.sens, FG_Q_V2X16, FG_SENS_REL_ERR, 0.04, "%d.up", i);
        addf(&b.sens, FG_Q_V2X16, FG_SENS_REL_ERR, i == 3 ? 0.12 : 0.08, "%d.down", i);
    }
    open_bench(&b, &small);
    const struct fg_planner_info *info = fg_planner_info(b.p);
    assert_int_equal(info->unit, FG_PLANNER_KL);
    assert_int_equal(info->n_bands, 3);
    assert_int_equal(info->n_kappa, 2);
    assert_true(info->head_measured);
    // Everything as it was measured: the bands' own KLs, and the head's.
    near(cost(b.p, PLAN("v2x16", "v2x16", "")), 0.6 + 0.3 + 0.2 + 0.01);
    const double rest = 0.2 + 0.01, k0 = 1e-4, k1 = 0.1, k2 = 0.2, k3 = 0.3;
    const double sum0 = (k0 + k1) * 0.17, sum1 = k2 * 0.17 + k3 * 0.21;
    // One matrix: measured at v2x64; scaled from v2x16; lut4 from the nearer v2x64.
    near(cost(b.p, PLAN("v2x16", "v2x16", "\"1.gate\": \"v2x64\"")),
         0.6 * (1 - k1 * 0.04 / sum0) + 0.3 + rest);
    near(cost(b.p, PLAN("v2x16", "v2x16", "\"3.down\": \"v2x64\"")),
         0.6 + 0.3 * (1 - k3 * 0.12 * 0.76 / sum1) + rest);
    near(cost(b.p, PLAN("v2x16", "v2x16", "\"2.gate\": \"lut4\"")),
         0.6 + 0.3 * (1 - k2 * (0.05 - 0.01 * 0.08 / 0.24) / sum1) + rest);
    near(cost(b.p, PLAN("v2x16", "v2x16", "\"0.mlp\": \"bf16\"")),
         0.6 * (1 - k0 / (k0 + k1)) + 0.3 + rest);
    near(cost(b.p, PLAN("v2x16", "v2x16", "\"head\": \"bf16\"")), 0.6 + 0.3 + 0.2);
    // Mixers: nothing measured, so the mean of all, by the ratios; k and v at int8 in the sum.
    const double per = 0.2 / (11 + 2 * 0.0006);
    near(cost(b.p, PLAN("v2x16", "v2x16", "\"2.q\": \"v2x64\"")), 1.11 - 0.76 * per);
    near(cost(b.p, PLAN("v2x16", "v2x16", "\"2.k\": \"lut4\"")), 1.11 + (0.08 - 0.0006) * per);
    close_bench(&b);
}

static void a_band_measured_twice_costs_what_was_measured(void **state)
{
    struct bench b = bench_of("release-0.2");
    (void)state;
    add(&b.sens, "mlp:0-3", FG_Q_V2X16, FG_SENS_KL, 0.6);
    add(&b.sens, "mlp:0-3", FG_Q_V2X64, FG_SENS_KL, 0.1);
    add(&b.sens, "mixer:0-3", FG_Q_V2X64, FG_SENS_KL, 0.05);
    open_bench(&b, &small);
    near(cost(b.p, PLAN("v2x16", "v2x64", "")), 0.65);
    near(cost(b.p, PLAN("v2x64", "v2x64", "")), 0.15);
    near(cost(b.p, PLAN("lut4", "v2x64", "")), 0.6 * 0.08 + 0.05); // from the largest
    close_bench(&b);
}

// Without bands the layers' own losses stand in, when all are there.
static void losses_of_layers_alone(void **state)
{
    struct bench b = bench_of("release-0.2");
    (void)state;
    for (int i = 0; i < 4; i++) {
        addf(&b.sens, FG_Q_V2X16, FG_SENS_DELTA_NLL, 0.01 * (i + 1), "%d.mlp", i);
        if (i < 3) addf(&b.sens, FG_Q_V2X16, FG_SENS_DELTA_NLL, 0.001, "%d.mixer", i);
    }
    open_bench(&b, &small);
    assert_int_equal(fg_planner_info(b.p)->unit, FG_PLANNER_RELATIVE); // a mixer is missing
    add(&b.sens, "3.mixer", FG_Q_V2X16, FG_SENS_DELTA_NLL, -0.001);
    open_bench(&b, &small);
    assert_int_equal(fg_planner_info(b.p)->unit, FG_PLANNER_NLL);
    near(cost(b.p, PLAN("v2x16", "v2x16", "")), 0.1 + 0.003 + 1e-4);
    near(cost(b.p, PLAN("v2x64", "v2x16", "")), 0.1 * 0.24 + 0.003 + 1e-4);
    close_bench(&b);
}

// ---- plans

static void random_sens(struct fg_sens *s, const struct fg_plan_shape *shape, uint64_t seed)
{
    static const char *const mlp[] = {"gate", "up", "down"};
    struct fg_random r = fg_random_seeded(seed);
    for (int64_t i = 0; i < shape->n_layers; i++) {
        for (int k = 0; k < 3; k++) {
            const double e = 0.02 + 0.1 * fg_random_u01(&r);
            addf(s, FG_Q_V2X16, FG_SENS_REL_ERR, e, "%" PRId64 ".%s", i, mlp[k]);
            addf(s, FG_Q_LUT4, FG_SENS_REL_ERR, e * 0.08 * (0.8 + 0.4 * fg_random_u01(&r)),
                 "%" PRId64 ".%s", i, mlp[k]);
        }
    }
    for (int64_t i = 0; i < shape->n_layers; i += 2) {
        const int64_t last = i + 1 < shape->n_layers ? i + 1 : i;
        addf(s, FG_Q_V2X16, FG_SENS_KL, 0.1 * fg_random_u01(&r), "mlp:%" PRId64 "-%" PRId64, i,
             last);
        addf(s, FG_Q_V2X16, FG_SENS_KL, 0.05 * fg_random_u01(&r), "mixer:%" PRId64 "-%" PRId64, i,
             last);
    }
}

// The plan written, read and resolved again is the same list, with the same bytes.
static void comes_back(const struct fg_plan *plan, const struct fg_plan_shape *shape)
{
    struct fg_jwrite w = {0}, again = {0};
    fg_plan_write_whole(plan, &w, NULL);
    struct fg_plan *read = parse_plan(w.buf.data);
    fg_plan_write_whole(read, &again, NULL);
    assert_string_equal(w.buf.data, again.buf.data);
    struct fg_plan_list a = resolve(plan, shape), b = resolve(read, shape);
    assert_int_equal(a.n, b.n);
    assert_int_equal(a.weight_bytes, b.weight_bytes);
    assert_int_equal(a.factor_bytes, b.factor_bytes);
    for (uint64_t i = 0; i < a.n; i++) {
        assert_int_equal(a.mats[i].format, b.mats[i].format);
        assert_int_equal(a.mats[i].rank, b.mats[i].rank);
        assert_int_equal(a.mats[i].seed, b.mats[i].seed);
    }
    fg_plan_list_free(&a);
    fg_plan_list_free(&b);
    fg_plan_free(read);
    fg_jwrite_free(&w);
    fg_jwrite_free(&again);
}

static void any_formats_become_a_plan(void **state)
{
    struct fg_plan *base = parse_plan(
        PLAN("v2x64", "lut4", "\"1.basis\": \"plain\", \"2.lr_rank\": 8, \"0.mlp\": \"v2x16\""));
    struct fg_error err = {0};
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct fg_random r = fg_random_seeded(seed);
        struct fg_plan_list l = resolve(base, &small);
        enum fg_qformat formats[64];
        const uint64_t kinds_of = 1 + fg_random_below(&r, 5);
        for (uint64_t i = 0; i < l.n; i++) {
            formats[i] = (enum fg_qformat)fg_random_below(&r, kinds_of);
            if (l.mats[i].rows % 2) formats[i] = FG_Q_LUT4;
        }
        struct fg_plan *plan = NULL;
        assert_int_equal(fg_plan_reformat(&plan, base, &small, formats, l.n, "any", &err), 0);
        struct fg_plan_list m = resolve(plan, &small);
        for (uint64_t i = 0; i < l.n; i++) {
            assert_int_equal(m.mats[i].format, formats[i]);
            if (m.mats[i].layer == 1) assert_null(m.mats[i].site);
            if (m.mats[i].layer == 2 && m.mats[i].part == FG_PLAN_Q && formats[i] != FG_Q_BF16)
                assert_int_equal(m.mats[i].rank, 8);
        }
        comes_back(plan, &small);
        fg_plan_list_free(&l);
        fg_plan_list_free(&m);
        fg_plan_free(plan);
    }
    fg_plan_free(base);
}

static void plans_are_within_the_budget_and_better_with_more(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct bench b = bench_of("release-0.2");
        random_sens(&b.sens, &small, seed);
        b.o.uniform = seed % 2 ? FG_UNIFORM_LAYER : FG_UNIFORM_MATRIX;
        b.o.count_factors = seed % 3 != 0;
        if (seed >= 4) b.o.free |= FG_FREE_KV;
        open_bench(&b, &small);
        const struct fg_planner_info *info = fg_planner_info(b.p);
        double before = INFINITY;
        for (int i = 0; i <= 20; i++) {
            const uint64_t budget =
                info->least_bytes + (info->most_bytes - info->least_bytes) * (uint64_t)i / 20;
            struct fg_planner_result r = solve(b.p, budget);
            struct fg_plan_list l = resolve(r.plan, &small);
            assert_int_equal(r.sums.weight_bytes, l.weight_bytes);
            assert_int_equal(r.sums.factor_bytes, l.factor_bytes);
            assert_int_equal(r.sums.bytes,
                             l.weight_bytes + (b.o.count_factors ? l.factor_bytes : 0));
            assert_true(r.sums.bytes <= budget);
            if (i == 0) assert_int_equal(r.sums.bytes, budget);
            if (i == 20) assert_int_equal(r.sums.bytes, budget);
            assert_true(r.exact && r.sums.cost <= before * (1 + 1e-12));
            assert_true(fabs(r.bound - r.sums.cost) <= 1e-9 * r.sums.cost);
            before = r.sums.cost;
            for (uint64_t k = 0; k < l.n; k++) {
                const struct fg_plan_mat *m = &l.mats[k];
                const bool kv = m->part == FG_PLAN_K || m->part == FG_PLAN_V;
                if (m->part == FG_PLAN_HEAD) assert_int_equal(m->format, FG_Q_LUT4);
                if (kv && seed < 4) assert_int_equal(m->format, FG_Q_INT8);
                if (b.o.uniform == FG_UNIFORM_LAYER && k > 0 && m[-1].layer == m->layer &&
                    fg_plan_part_is_mlp(m->part) == fg_plan_part_is_mlp(m[-1].part) && !kv &&
                    m[-1].part != FG_PLAN_V)
                    assert_int_equal(m->format, m[-1].format);
            }
            comes_back(r.plan, &small);
            fg_plan_list_free(&l);
            fg_planner_result_free(&r);
        }
        close_bench(&b);
    }
}

static void a_model_of_27b_is_planned_to_the_byte(void **state)
{
    struct fg_plan_shape s = fg_plan_shape_of(&config27);
    struct bench b = bench_of("release-0.2");
    (void)state;
    random_sens(&b.sens, &s, 11);
    open_bench(&b, &s);
    const struct fg_planner_sums base = sum(b.p, b.base);
    assert_int_equal(base.weight_bytes, 10138907232);
    assert_int_equal(base.factor_bytes, 316669952);
    struct fg_planner_result r = solve(b.p, base.bytes);
    assert_true(r.exact && r.sums.cost < base.cost && r.sums.bytes <= base.bytes);
    assert_true(base.bytes - r.sums.bytes < 60 * 65536); // the smallest step of a matrix
    comes_back(r.plan, &s);
    fg_planner_result_free(&r);
    close_bench(&b);
}

static void the_budget_of_time_holds_too(void **state)
{
    struct bench b = bench_of("release-0.2");
    struct fg_error err = {0};
    (void)state;
    random_sens(&b.sens, &small, 1);
    b.o.timed = true;
    assert_int_equal(try_open(&b, &small, &err), FG_EINPUT);
    assert_string_equal(err.field, "0.gate");
    struct fg_plan_list l = resolve(b.base, &small);
    for (uint64_t i = 0; i < l.n; i++) {
        const struct fg_sens_unit u = fg_sens_unit_of(&l.mats[i]);
        char unit[FG_SENS_UNIT_TEXT];
        fg_sens_unit_text(unit, &u);
        for (int f = 0; f <= FG_Q_INT8; f++) { // four bits are faster than three
            const double speed = f == FG_Q_V2X64 ? 1 : f == FG_Q_INT8 ? 2 : 1.6;
            add(&b.sens, unit, (enum fg_qformat)f, FG_SENS_NS,
                (double)(l.mats[i].rows * l.mats[i].cols) * (2 + f) / 8 / speed);
        }
    }
    fg_plan_list_free(&l);
    open_bench(&b, &small);
    const uint64_t budget = fg_planner_info(b.p)->least_bytes * 5 / 4;
    struct fg_planner_result slow, fast;
    assert_int_equal(fg_planner_solve(&slow, b.p, budget, INFINITY, "s", &err), 0);
    assert_int_equal(fg_planner_solve(&fast, b.p, budget, slow.sums.ns * 0.9, "f", &err), 0);
    assert_true(fast.sums.ns <= slow.sums.ns * 0.9 && fast.sums.bytes <= budget);
    assert_true(fast.sums.cost > slow.sums.cost);
    assert_true(fast.exact && slow.exact);
    struct fg_planner_result none;
    assert_int_equal(fg_planner_solve(&none, b.p, budget, slow.sums.ns * 0.1, "n", &err),
                     FG_EINPUT);
    assert_string_equal(err.field, "budget");
    assert_null(none.plan);
    fg_planner_result_free(&slow);
    fg_planner_result_free(&fast);
    close_bench(&b);
}

// ---- the original's step (specs 5.3)

// 64 layers of the 27B, MLPs at 2 and 4 bits, all mixers at 4. With the known KLs of MLP bands at
// two bits and mixers whose damage grows in the same way, the planner gives the mixers of layers 0
// to 23 two bits and buys four for MLPs with them; the predicted KL falls by about the 5 % that it
// fell by (0.1952 to 0.1852), at equal size.
static void the_historic_step(void **state)
{
    static const double mlp[] = {0.0077, 0.0079, 0.0188, 0.0448, 0.0541, 0.0577, 0.0519, 0.0693};
    static const double mixer[] = {0.017, 0.019, 0.020, 0.030, 0.035, 0.040, 0.045, 0.050};
    struct fg_plan_shape s = fg_plan_shape_of(&config27);
    struct fg_error err = {0};
    struct fg_buf text = {0};
    (void)state;
    // Before: the four bits that fit are in the MLPs that gain most.
    fg_buf_str(&text, "{\"schema\": \"forge.plan/1\", \"defaults\": {\"mlp\": \"v2x16\", "
                      "\"mixer\": \"lut4\", \"lr_rank\": 64}, \"overrides\": {");
    for (int i = 0; i < 12; i++)
        fg_buf_printf(&text, "%s\"%d.mlp\": \"lut4\"", i ? ", " : "", i < 4 ? 40 + i : 52 + i);
    fg_buf_str(&text, "}}");
    struct bench b = {.base = parse_plan(text.data)};
    b.o = (struct fg_planner_options){.allow = 1u << FG_Q_V2X16 | 1u << FG_Q_LUT4,
                                      .free = FG_FREE_MLP | FG_FREE_MIXER,
                                      .uniform = FG_UNIFORM_LAYER,
                                      .count_factors = true,
                                      .rho = 1};
    for (int i = 0; i < 8; i++) {
        addf(&b.sens, FG_Q_V2X16, FG_SENS_KL, mlp[i], "mlp:%d-%d", 8 * i, 8 * i + 7);
        addf(&b.sens, FG_Q_V2X16, FG_SENS_KL, mixer[i], "mixer:%d-%d", 8 * i, 8 * i + 7);
    }
    open_bench(&b, &s);
    const struct fg_planner_sums before = sum(b.p, b.base);
    struct fg_planner_result r = solve(b.p, before.bytes + before.bytes / 1000);
    struct fg_plan_list l = resolve(r.plan, &s);
    for (uint64_t i = 0; i < l.n; i++) {
        const struct fg_plan_mat *m = &l.mats[i];
        if (m->layer < 0 || fg_plan_part_is_mlp(m->part) || m->part == FG_PLAN_K ||
            m->part == FG_PLAN_V)
            continue;
        if (m->format != (m->layer < 24 ? FG_Q_V2X16 : FG_Q_LUT4))
            fail_msg("layer %d has its mixer at %s", (int)m->layer, fg_qformat_name(m->format));
    }
    struct fg_planner_moves moves;
    assert_int_equal(fg_planner_compare(&moves, b.p, b.base, r.plan, &err), 0);
    int64_t bytes = 0;
    double kl = 0;
    for (uint64_t i = 0; i < moves.n; i++) {
        const struct fg_planner_move *m = &moves.v[i];
        bytes += m->bytes;
        kl += m->cost;
        if (strcmp(m->what, "mixer") != 0) continue;
        assert_string_equal(m->layers, "0-23");
        assert_int_equal(m->from, FG_Q_LUT4);
        assert_int_equal(m->to, FG_Q_V2X16);
        assert_true(m->cost > 0 && m->bytes < 0);
    }
    assert_int_equal(bytes, (int64_t)r.sums.bytes - (int64_t)before.bytes);
    near(kl, r.sums.cost - before.cost);
    assert_true(r.sums.cost < 0.96 * before.cost && r.sums.cost > 0.93 * before.cost);
    fg_planner_moves_free(&moves);
    fg_plan_list_free(&l);
    fg_planner_result_free(&r);
    fg_buf_free(&text);
    close_bench(&b);
}

// ---- moves

static void moves_are_said_shortly(void **state)
{
    struct bench b = bench_of("release-0.2");
    struct fg_error err = {0};
    struct fg_planner_moves m;
    (void)state;
    open_bench(&b, &small);
    struct fg_plan *a = parse_plan(PLAN("v2x64", "lut4", ""));
    struct fg_plan *c = parse_plan(PLAN(
        "v2x64", "lut4",
        "\"0.mlp\": \"lut4\", \"1.mlp\": \"lut4\", \"3.mlp\": \"lut4\", \"2.down\": \"v2x16\","
        "\"2.mixer\": \"v2x64\", \"3.qkv\": \"v2x16\", \"2.v\": \"lut4\", \"head\": \"int8\""));
    assert_int_equal(fg_planner_compare(&m, b.p, a, c, &err), 0);
    static const struct {
        const char *what, *layers;
        enum fg_qformat from, to;
    } want[] = {{"mlp", "0-1, 3", FG_Q_V2X64, FG_Q_LUT4}, {"down", "2", FG_Q_V2X64, FG_Q_V2X16},
                {"mixer", "2", FG_Q_LUT4, FG_Q_V2X64},    {"v", "2", FG_Q_INT8, FG_Q_LUT4},
                {"qkv", "3", FG_Q_LUT4, FG_Q_V2X16},      {"head", "", FG_Q_LUT4, FG_Q_INT8}};
    assert_int_equal(m.n, 6);
    int64_t bytes = 0;
    for (uint64_t i = 0; i < 6; i++) {
        assert_string_equal(m.v[i].what, want[i].what);
        assert_string_equal(m.v[i].layers, want[i].layers);
        assert_int_equal(m.v[i].from, want[i].from);
        assert_int_equal(m.v[i].to, want[i].to);
        bytes += m.v[i].bytes;
    }
    assert_int_equal(m.v[0].n, 3);
    assert_int_equal(bytes, (int64_t)sum(b.p, c).bytes - (int64_t)sum(b.p, a).bytes);
    fg_planner_moves_free(&m);
    assert_int_equal(fg_planner_compare(&m, b.p, c, c, &err), 0);
    assert_int_equal(m.n, 0);
    fg_planner_moves_free(&m);
    fg_plan_free(a);
    fg_plan_free(c);
    close_bench(&b);
}

// ---- refusals

static void refused(struct bench *b, const struct fg_plan_shape *shape, const char *field)
{
    struct fg_error err = {0};
    assert_int_equal(try_open(b, shape, &err), FG_EINPUT);
    assert_string_equal(err.field, field);
    assert_null(b->p);
    close_bench(b);
}

static void what_does_not_go_together(void **state)
{
    (void)state;
    struct bench b = bench_of("release-0.2"); // bands that overlap
    add(&b.sens, "mlp:0-1", FG_Q_V2X16, FG_SENS_KL, 0.1);
    add(&b.sens, "mlp:1-3", FG_Q_V2X64, FG_SENS_KL, 0.1);
    refused(&b, &small, "mlp:1-3");
    b = bench_of("release-0.2"); // a layer in none
    add(&b.sens, "mlp:0-3", FG_Q_V2X16, FG_SENS_KL, 0.1);
    add(&b.sens, "mixer:0-1", FG_Q_V2X16, FG_SENS_KL, 0.1);
    add(&b.sens, "mixer:3-3", FG_Q_V2X16, FG_SENS_KL, 0.1);
    refused(&b, &small, "2.mixer");
    b = bench_of("release-0.2"); // mixers that nothing is known of
    add(&b.sens, "mlp:0-3", FG_Q_V2X16, FG_SENS_KL, 0.1);
    refused(&b, &small, "0.mixer");
    b = bench_of("release-0.2"); // which is fine where they are not to be chosen
    add(&b.sens, "mlp:0-3", FG_Q_V2X16, FG_SENS_KL, 0.1);
    b.o.free = FG_FREE_MLP;
    open_bench(&b, &small);
    near(cost(b.p, PLAN("v2x16", "v2x16", "")), 0.1);
    assert_false(fg_planner_info(b.p)->kinds_measured[1]);
    close_bench(&b);
    b = bench_of("release-0.2"); // a free head without KL
    add(&b.sens, "mlp:0-3", FG_Q_V2X16, FG_SENS_KL, 0.1);
    add(&b.sens, "mixer:0-3", FG_Q_V2X16, FG_SENS_KL, 0.1);
    b.o.free |= FG_FREE_HEAD;
    refused(&b, &small, "head");
    b = bench_of("release-0.2"); // two traces
    add(&b.sens, "mlp:0-3", FG_Q_V2X16, FG_SENS_KL, 0.1);
    add(&b.sens, "mixer:0-3", FG_Q_V2X16, FG_SENS_KL, 0.1);
    memset(b.sens.rows[0].trace_sha256, 'a', 64);
    memset(b.sens.rows[1].trace_sha256, 'b', 64);
    refused(&b, &small, "mixer:0-3");
    b = bench_of("release-0.2"); // 1001 rows in pairs
    b.o.free = FG_FREE_HEAD;
    b.o.allow = 1u << FG_Q_V2X16 | 1u << FG_Q_V2X64;
    refused(&b, &small, "lm_head");
    b = bench_of("release-0.1"); // a plan of another model
    refused(&b, &small, "model.layers");
}

static void budgets_that_nothing_keeps(void **state)
{
    struct bench b = bench_of("release-0.2");
    struct fg_planner_result r;
    struct fg_error err = {0};
    char expected[64];
    (void)state;
    open_bench(&b, &small);
    const uint64_t least = fg_planner_info(b.p)->least_bytes;
    snprintf(expected, sizeof expected, "at least %" PRIu64 " bytes", least);
    for (int i = 0; i < 3; i++) { // what is fixed alone is more, too
        const uint64_t budget = i == 0 ? least - 1 : i == 1 ? 1000 : 0;
        assert_int_equal(fg_planner_solve(&r, b.p, budget, INFINITY, "x", &err), FG_EINPUT);
        assert_string_equal(err.field, "budget");
        assert_string_equal(err.expected, expected);
        assert_null(r.plan);
    }
    r = solve(b.p, least);
    assert_int_equal(r.sums.bytes, least);
    fg_planner_result_free(&r);
    close_bench(&b);
}

// ---- notes

static void notes_are_kept(void **state)
{
    struct scratch dir;
    struct fg_error err = {0};
    struct fg_plan *p = open_plan("all-lut4"), *read = NULL;
    struct fg_plan_notes n = fg_plan_no_notes();
    struct fg_jwrite w = {0};
    (void)state;
    scratch_open(&dir);
    assert_int_equal(fg_plan_save(p, scratch_path(&dir, "bare.json"), &err), 0);
    assert_int_equal(fg_plan_open(&read, scratch_path(&dir, "bare.json"), &err), 0);
    assert_true(isnan(fg_plan_notes(read)->kl) && fg_plan_notes(read)->n_inputs == 0);
    fg_plan_free(read);
    n.kl = 0.05;
    n.rho = 0.75;
    n.verified_kl = 0.04;
    n.verified_ci95[0] = 0.03;
    n.verified_ci95[1] = 0.05;
    n.verified_rho = 0.6;
    n.verified_tokens = 40023;
    n.n_inputs = 2;
    strcpy(n.unit, "kl");
    strcpy(n.inputs[0], "sens.json 0123");
    strcpy(n.inputs[1], "b \"quoted\"");
    strcpy(n.command, "forge plan solve");
    strcpy(n.date, "2026-01-01T00:00:00Z");
    fg_plan_set_notes(p, &n);
    assert_int_equal(fg_plan_save(p, scratch_path(&dir, "p.json"), &err), 0);
    assert_int_equal(fg_plan_open(&read, scratch_path(&dir, "p.json"), &err), 0);
    const struct fg_plan_notes *m = fg_plan_notes(read);
    assert_true(m->kl == 0.05 && m->rho == 0.75 && m->verified_kl == 0.04);
    assert_true(m->verified_ci95[0] == 0.03 && m->verified_rho == 0.6);
    assert_int_equal(m->verified_tokens, 40023);
    assert_int_equal(m->n_inputs, 2);
    assert_string_equal(m->inputs[1], "b \"quoted\"");
    assert_string_equal(m->command, "forge plan solve");
    assert_string_equal(m->date, "2026-01-01T00:00:00Z");
    fg_plan_write(read, &w, NULL); // what a plan means has no notes in it
    assert_null(strstr(w.buf.data, "estimate"));
    assert_null(strstr(w.buf.data, "provenance"));
    fg_jwrite_free(&w);
    fg_plan_free(read);
    fg_plan_free(p);
    scratch_close(&dir);
}

static void notes_of_other_types_are_refused(void **state)
{
    static const struct {
        const char *text, *field;
    } bad[] = {{"\"estimate\": 1", "estimate"},
               {"\"estimate\": {\"kl\": \"x\"}", "estimate.kl"},
               {"\"estimate\": {\"kl\": 1e999}", "estimate.kl"},
               {"\"estimate\": {\"inputs\": {}}", "estimate.inputs"},
               {"\"estimate\": {\"inputs\": [1]}", "estimate.inputs"},
               {"\"estimate\": {\"verified\": []}", "estimate.verified"},
               {"\"estimate\": {\"verified\": {\"ci95\": [1]}}", "estimate.verified.ci95"},
               {"\"estimate\": {\"verified\": {\"tokens\": -1}}", "estimate.verified.tokens"},
               {"\"provenance\": []", "provenance"},
               {"\"provenance\": {\"date\": 5}", "provenance.date"}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct fg_plan *p = NULL;
        struct fg_error err = {0};
        char text[256];
        snprintf(text, sizeof text, "{\"schema\": \"forge.plan/1\", %s}", bad[i].text);
        assert_int_equal(fg_plan_parse(&p, text, strlen(text), "p.json", &err), FG_EINPUT);
        assert_string_equal(err.field, bad[i].field);
        assert_null(p);
    }
}

static int set_up(void **state)
{
    struct fg_json doc = {0};
    struct fg_error err = {0};
    (void)state;
    fg_arena_init(&arena, 0);
    int rc = fg_json_open(&doc, FORGE_GOLDEN_DIR "/configs/qwen3.8-27b.json", 1 << 20, &err);
    if (!rc) rc = fg_config_parse(&config27, &doc, &arena, &err);
    fg_json_close(&doc);
    return rc;
}

static int tear_down(void **state)
{
    (void)state;
    fg_arena_free(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_measured_gives_ratios),
        cmocka_unit_test(errors_per_token),
        cmocka_unit_test(costs_are_the_formula),
        cmocka_unit_test(a_band_measured_twice_costs_what_was_measured),
        cmocka_unit_test(losses_of_layers_alone),
        cmocka_unit_test(any_formats_become_a_plan),
        cmocka_unit_test(plans_are_within_the_budget_and_better_with_more),
        cmocka_unit_test(a_model_of_27b_is_planned_to_the_byte),
        cmocka_unit_test(the_budget_of_time_holds_too),
        cmocka_unit_test(the_historic_step),
        cmocka_unit_test(moves_are_said_shortly),
        cmocka_unit_test(what_does_not_go_together),
        cmocka_unit_test(budgets_that_nothing_keeps),
        cmocka_unit_test(notes_are_kept),
        cmocka_unit_test(notes_of_other_types_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
