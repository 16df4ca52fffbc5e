// quant/planner.c: a planner's sizes and times, sums of plans, and the choice. Costs are
// planner_cost.c's, comparing plans planner_moves.c's.
#include "quant/planner.h"
#include "base/size.h"
#include "quant/knapsack.h"
#include "quant/planner_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *fg_planner_unit_name(enum fg_planner_unit u)
{
    static const char *const names[] = {"kl", "delta_nll", "relative"};
    return names[u];
}

unsigned fg_planner_kind(const struct fg_plan_mat *m)
{
    if (m->part == FG_PLAN_HEAD) return FG_FREE_HEAD;
    if (fg_plan_part_is_mlp(m->part)) return FG_FREE_MLP;
    return m->part == FG_PLAN_K || m->part == FG_PLAN_V ? FG_FREE_KV : FG_FREE_MIXER;
}

// ---- the tables

// Sizes of every matrix in format f: the base plan with that format wherever it fits.
static int read_sizes(struct fg_planner *p, int f, enum fg_qformat *formats, struct fg_error *err)
{
    struct fg_plan *plan = NULL;
    struct fg_plan_list list = {0};
    for (uint64_t i = 0; i < p->list.n; i++) {
        const bool can = p->list.mats[i].rows % fg_qformat_rows_per_index((enum fg_qformat)f) == 0;
        p->mats[i].can[f] = can;
        formats[i] = can ? (enum fg_qformat)f : FG_Q_LUT4;
    }
    int rc = fg_plan_reformat(&plan, p->base, &p->shape, formats, p->list.n, "sizes", err);
    if (!rc) rc = fg_plan_resolve(&list, plan, &p->shape, err);
    for (uint64_t i = 0; i < p->list.n && !rc; i++) {
        p->mats[i].bytes[f] = list.mats[i].bytes;
        p->mats[i].factors[f] = list.mats[i].factor_bytes;
    }
    fg_plan_list_free(&list);
    fg_plan_free(plan);
    return rc;
}

static int read_times(struct fg_planner *p, const struct fg_sens *sens, struct fg_error *err)
{
    for (uint64_t i = 0; i < p->list.n; i++) {
        const struct fg_plan_mat *m = &p->list.mats[i];
        const struct fg_sens_unit unit = fg_sens_unit_of(m);
        for (int f = 0; f < FG_Q_N_FORMATS; f++) {
            const struct fg_sens_row *row =
                fg_sens_find(sens, FG_SENS_NS, &unit, (enum fg_qformat)f);
            p->mats[i].ns[f] = row ? row->value : NAN;
            const bool wanted = p->mats[i].free ? fg_planner_allows(p, f) && p->mats[i].can[f]
                                                : (int)m->format == f;
            if (row || !wanted || !p->timed) continue;
            char text[FG_SENS_UNIT_TEXT];
            return fg_fail(err, FG_EINPUT, "sens", NULL, fg_sens_unit_text(text, &unit),
                           "a time (\"ns\") in every format that it may have", "none for %s",
                           fg_qformat_name((enum fg_qformat)f));
        }
    }
    return 0;
}

static int check_free(const struct fg_planner *p, struct fg_error *err)
{
    for (uint64_t i = 0; i < p->list.n; i++) {
        bool any = !p->mats[i].free;
        for (int f = 0; f < FG_Q_N_FORMATS && !any; f++)
            any = fg_planner_allows(p, f) && p->mats[i].can[f];
        if (any) continue;
        return fg_fail(err, FG_EINPUT, FG_PLANNER_WHAT, NULL, p->list.mats[i].name,
                       "an allowed format for an odd number of rows", "%" PRId64 " rows",
                       p->list.mats[i].rows);
    }
    return 0;
}

// Smallest plan, and the cheapest one of any size.
static void fill_info(struct fg_planner *p)
{
    p->info.n_mats = p->list.n;
    p->info.least_bytes = p->info.most_bytes = p->list.ab_bytes;
    for (uint64_t i = 0; i < p->list.n; i++) {
        const struct fg_planner_mat *mat = &p->mats[i];
        const int own = (int)p->list.mats[i].format;
        int least = -1, best = -1;
        p->info.n_free += mat->free;
        for (int f = 0; f < FG_Q_N_FORMATS; f++) {
            if (mat->free ? !fg_planner_allows(p, f) || !mat->can[f] : f != own) continue;
            const uint64_t bytes = fg_planner_bytes(p, i, f);
            if (least < 0 || bytes < fg_planner_bytes(p, i, least)) least = f;
            if (best < 0 || mat->cost[f] < mat->cost[best] ||
                (mat->cost[f] <= mat->cost[best] && bytes < fg_planner_bytes(p, i, best)))
                best = f;
        }
        p->info.least_bytes += fg_planner_bytes(p, i, least);
        p->info.most_bytes += fg_planner_bytes(p, i, best);
    }
}

static int fill(struct fg_planner *p, const struct fg_planner_options *o, struct fg_error *err)
{
    int rc = fg_plan_resolve(&p->list, p->base, &p->shape, err);
    if (rc) return rc;
    const uint64_t n = p->list.n ? p->list.n : 1; // there is a head
    p->mats = calloc(n, sizeof *p->mats);
    enum fg_qformat *formats = malloc(n * sizeof *formats);
    if (!p->mats || !formats) rc = fg_fail_memory(err, FG_PLANNER_WHAT, n * sizeof *p->mats);
    for (int f = 0; f < FG_Q_F32 && !rc; f++)
        rc = read_sizes(p, f, formats, err);
    free(formats);
    for (uint64_t i = 0; i < p->list.n && !rc; i++)
        p->mats[i].free = (o->free & fg_planner_kind(&p->list.mats[i])) != 0;
    if (!rc) rc = check_free(p, err);
    if (!rc) rc = fg_planner_fill_costs(p, o, err);
    if (!rc) rc = read_times(p, o->sens, err);
    if (!rc) fill_info(p);
    return rc;
}

int fg_planner_new(struct fg_planner **out, const struct fg_plan_shape *shape,
                   const struct fg_planner_options *o, struct fg_error *err)
{
    *out = NULL;
    struct fg_planner *p = calloc(1, sizeof *p);
    if (!p) return fg_fail_memory(err, FG_PLANNER_WHAT, sizeof *p);
    p->base = o->base;
    p->shape = *shape;
    p->allow = o->allow & ((1u << FG_Q_F32) - 1);
    p->uniform = o->uniform;
    p->count_factors = o->count_factors;
    p->timed = o->timed;
    int rc = fill(p, o, err);
    if (rc) {
        fg_planner_free(p);
        return rc;
    }
    *out = p;
    return 0;
}

void fg_planner_free(struct fg_planner *p)
{
    if (!p) return;
    fg_plan_list_free(&p->list);
    free(p->mats);
    free(p);
}

const struct fg_planner_info *fg_planner_info(const struct fg_planner *p)
{
    return &p->info;
}

// ---- sums

static void add_up(struct fg_planner_sums *s, const struct fg_planner *p, uint64_t i, int f)
{
    s->weight_bytes += p->mats[i].bytes[f];
    s->factor_bytes += p->mats[i].factors[f];
    s->cost += p->mats[i].cost[f];
    s->ns += p->timed ? p->mats[i].ns[f] : 0;
}

static void finish_sums(struct fg_planner_sums *s, const struct fg_planner *p)
{
    s->weight_bytes += p->list.ab_bytes;
    s->bytes = s->weight_bytes + (p->count_factors ? s->factor_bytes : 0);
}

int fg_planner_sum(struct fg_planner_sums *out, const struct fg_planner *p,
                   const struct fg_plan *plan, struct fg_error *err)
{
    struct fg_plan_list list = {0};
    *out = (struct fg_planner_sums){0};
    int rc = fg_plan_resolve(&list, plan, &p->shape, err);
    for (uint64_t i = 0; i < list.n && !rc; i++) {
        add_up(out, p, i, (int)list.mats[i].format);
        if (isnan(out->ns))
            rc = fg_fail(err, FG_EINPUT, "sens", NULL, list.mats[i].name, "a time (\"ns\")",
                         "none for %s", fg_qformat_name(list.mats[i].format));
    }
    finish_sums(out, p);
    if (!rc) { // ranks and kept small matrices as that plan has them
        out->weight_bytes = list.weight_bytes;
        out->factor_bytes = list.factor_bytes;
        out->bytes = list.weight_bytes + (p->count_factors ? list.factor_bytes : 0);
    }
    fg_plan_list_free(&list);
    return rc;
}

// ---- the choice

// Groups of matrices that get one format, as a knapsack has them.
struct groups {
    uint64_t *of; // [list.n] group of each matrix; UINT64_MAX: not free
    uint64_t n, n_choices;
    uint64_t *first; // [n + 1]
    struct fg_choice *choices;
    int *formats; // of each choice
};

static void free_groups(struct groups *g)
{
    free(g->of);
    free(g->first);
    free(g->choices);
    free(g->formats);
}

static bool together(const struct fg_planner *p, uint64_t a, uint64_t b)
{
    const struct fg_plan_mat *x = &p->list.mats[a], *y = &p->list.mats[b];
    return p->uniform == FG_UNIFORM_LAYER && x->layer == y->layer &&
           fg_planner_kind(x) == fg_planner_kind(y);
}

static void number_groups(const struct fg_planner *p, struct groups *g)
{
    for (uint64_t i = 0; i < p->list.n; i++) {
        g->of[i] = UINT64_MAX;
        if (!p->mats[i].free) continue;
        for (uint64_t j = i; j-- > 0 && p->list.mats[j].layer == p->list.mats[i].layer;) {
            if (g->of[j] != UINT64_MAX && together(p, i, j)) g->of[i] = g->of[j];
        }
        if (g->of[i] == UINT64_MAX) g->of[i] = g->n++;
    }
}

// One choice of group `group`; false when a matrix of it cannot have the format.
static bool sum_group(const struct fg_planner *p, const struct groups *g, uint64_t group, int f,
                      struct fg_choice *out)
{
    *out = (struct fg_choice){0};
    if (!fg_planner_allows(p, f)) return false;
    for (uint64_t i = 0; i < p->list.n; i++) {
        if (g->of[i] != group) continue;
        if (!p->mats[i].can[f]) return false;
        out->bytes += fg_planner_bytes(p, i, f);
        out->cost += p->mats[i].cost[f];
        out->ns += p->timed ? p->mats[i].ns[f] : 0;
    }
    return true;
}

static int make_groups(const struct fg_planner *p, struct groups *g, struct fg_error *err)
{
    const uint64_t n = p->list.n;
    *g = (struct groups){.of = malloc(n * sizeof *g->of)};
    if (!g->of) return fg_fail_memory(err, FG_PLANNER_WHAT, n * sizeof *g->of);
    number_groups(p, g);
    g->first = malloc((g->n + 1) * sizeof *g->first);
    g->choices = malloc((g->n + 1) * FG_Q_N_FORMATS * sizeof *g->choices);
    g->formats = malloc((g->n + 1) * FG_Q_N_FORMATS * sizeof *g->formats);
    if (!g->first || !g->choices || !g->formats)
        return fg_fail_memory(err, FG_PLANNER_WHAT, (g->n + 1) * FG_Q_N_FORMATS * 32);
    for (uint64_t group = 0; group < g->n; group++) {
        g->first[group] = g->n_choices;
        for (int f = 0; f < FG_Q_N_FORMATS; f++) {
            if (!sum_group(p, g, group, f, &g->choices[g->n_choices])) continue;
            g->formats[g->n_choices++] = f;
        }
        if (g->n_choices > g->first[group]) continue;
        for (uint64_t i = 0; i < n; i++) {
            if (g->of[i] == group)
                return fg_fail(err, FG_EINPUT, FG_PLANNER_WHAT, NULL, p->list.mats[i].name,
                               "an allowed format for all matrices of its layer", "none");
        }
    }
    g->first[g->n] = g->n_choices;
    return 0;
}

// What is not to be chosen, out of the budgets. False: nothing is left of them.
static bool take_fixed(const struct fg_planner *p, uint64_t *bytes, double *ns,
                       struct fg_planner_sums *fixed)
{
    for (uint64_t i = 0; i < p->list.n; i++) {
        if (!p->mats[i].free) add_up(fixed, p, i, (int)p->list.mats[i].format);
    }
    finish_sums(fixed, p);
    *ns -= fixed->ns;
    return fg_sub(bytes, *bytes, fixed->bytes) && *ns >= 0;
}

// An error of the knapsack, which does not know of what is fixed, in the numbers of the user.
static int refuse_budget(const struct fg_planner *p, uint64_t bytes, double ns,
                         struct fg_error *err)
{
    char expected[80];
    snprintf(expected, sizeof expected, "at least %" PRIu64 " bytes", p->info.least_bytes);
    if (bytes < p->info.least_bytes)
        return fg_fail(err, FG_EINPUT, FG_PLANNER_WHAT, NULL, "budget", expected, "%" PRIu64,
                       bytes);
    return fg_fail(err, FG_EINPUT, FG_PLANNER_WHAT, NULL, "budget",
                   "bytes and time that some plan keeps", "%" PRIu64 " bytes with %.6g ms", bytes,
                   ns / 1e6);
}

int fg_planner_solve(struct fg_planner_result *out, const struct fg_planner *p, uint64_t bytes,
                     double ns, const char *name, struct fg_error *err)
{
    struct groups g = {0};
    struct fg_knapsack_result r = {0};
    struct fg_planner_sums fixed = {0};
    uint64_t room = bytes;
    double ns_room = ns;
    *out = (struct fg_planner_result){0};
    if (!take_fixed(p, &room, &ns_room, &fixed)) return refuse_budget(p, bytes, ns, err);
    int rc = make_groups(p, &g, err);
    uint64_t *pick = malloc((g.n + 1) * sizeof *pick);
    enum fg_qformat *formats = malloc(p->list.n * sizeof *formats);
    if (!rc && (!pick || !formats))
        rc = fg_fail_memory(err, FG_PLANNER_WHAT, p->list.n * sizeof *formats);
    if (!rc) {
        const struct fg_knapsack k = {.choices = g.choices,
                                      .first = g.first,
                                      .n_groups = g.n,
                                      .bytes_max = room,
                                      .ns_max = p->timed ? ns_room : INFINITY};
        rc = fg_knapsack_solve(pick, &r, &k, err);
        if (rc == FG_EINPUT) rc = refuse_budget(p, bytes, ns, err);
    }
    for (uint64_t i = 0; i < p->list.n && !rc; i++) {
        const uint64_t group = g.of[i];
        formats[i] = group == UINT64_MAX ? p->list.mats[i].format
                                         : (enum fg_qformat)g.formats[g.first[group] + pick[group]];
    }
    if (!rc) rc = fg_plan_reformat(&out->plan, p->base, &p->shape, formats, p->list.n, name, err);
    if (!rc) rc = fg_planner_sum(&out->sums, p, out->plan, err);
    if (!rc) {
        out->bound = fixed.cost + r.bound;
        out->exact = r.exact;
        out->per_mib = r.lambda * (1 << 20);
    }
    free(formats);
    free(pick);
    free_groups(&g);
    if (rc) fg_planner_result_free(out);
    return rc;
}

void fg_planner_result_free(struct fg_planner_result *r)
{
    fg_plan_free(r->plan);
    *r = (struct fg_planner_result){0};
}
