// quant/planner_cost.c: from measured sensitivities to the cost of each matrix in each format
// (planner.h has the formula).
#include "base/size.h"
#include "quant/planner_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KAPPA_MIN 1e-4
#define ERROR_MIN 1e-12 // of formats that lose something

// Errors beside that of v2x16 (planner.h).
static const double ratios[FG_Q_N_FORMATS] = {[FG_Q_V2X16] = 1,
                                              [FG_Q_V2X64] = 0.24,
                                              [FG_Q_LUT4] = 0.08,
                                              [FG_Q_LUT6] = 0.007,
                                              [FG_Q_INT8] = 0.0006};

static bool loses(int f)
{
    return ratios[f] > 0;
}

// ---- errors

// The metric of errors of a matrix: of tokens where every format has it that was measured at all.
static enum fg_sens_metric error_metric(const struct fg_sens *sens, const struct fg_sens_unit *unit)
{
    for (int f = 0; f < FG_Q_N_FORMATS; f++) {
        if (fg_sens_find(sens, FG_SENS_REL_ERR, unit, (enum fg_qformat)f) &&
            !fg_sens_find(sens, FG_SENS_TOKEN_ERR, unit, (enum fg_qformat)f))
            return FG_SENS_REL_ERR;
    }
    return FG_SENS_TOKEN_ERR;
}

// Measured errors into e; NaN: not measured.
static void read_errors(struct fg_planner *p, const struct fg_sens *sens)
{
    for (uint64_t i = 0; i < p->list.n; i++) {
        const struct fg_sens_unit unit = fg_sens_unit_of(&p->list.mats[i]);
        const enum fg_sens_metric metric = error_metric(sens, &unit);
        for (int f = 0; f < FG_Q_N_FORMATS; f++) {
            const struct fg_sens_row *row = fg_sens_find(sens, metric, &unit, (enum fg_qformat)f);
            p->mats[i].error[f] = !loses(f) ? 0 : row ? fmax(row->value, ERROR_MIN) : NAN;
        }
    }
}

// The measured format whose ratio is nearest to that of f; -1: none.
static int nearest(const double e[FG_Q_N_FORMATS], int f)
{
    int best = -1;
    double distance = INFINITY;
    for (int g = 0; g < FG_Q_N_FORMATS; g++) {
        if (!loses(g) || isnan(e[g])) continue;
        const double d = fabs(log(ratios[g] / ratios[f]));
        if (d < distance) {
            distance = d;
            best = g;
        }
    }
    return best;
}

static void count_errors(struct fg_planner *p)
{
    for (uint64_t i = 0; i < p->list.n; i++) {
        int measured = 0, wanted = 0;
        for (int f = 0; f < FG_Q_N_FORMATS; f++) {
            if (!fg_planner_allows(p, f) || !loses(f) || !p->mats[i].can[f]) continue;
            wanted++;
            measured += !isnan(p->mats[i].error[f]);
        }
        if (!p->mats[i].free) continue;
        if (measured == wanted)
            p->info.n_measured++;
        else if (measured > 0)
            p->info.n_scaled++;
    }
}

// Mean of e(., v2x16) over matrices of one part, or of all (part < 0), of which something was
// measured; 0: of none.
static double mean_error(const struct fg_planner *p, int part)
{
    double sum = 0;
    uint64_t n = 0;
    for (uint64_t i = 0; i < p->list.n; i++) {
        if (part >= 0 && (int)p->list.mats[i].part != part) continue;
        if (isnan(p->mats[i].error[FG_Q_V2X16])) continue;
        sum += p->mats[i].error[FG_Q_V2X16];
        n++;
    }
    return n ? sum / (double)n : 0;
}

static void fill_errors(struct fg_planner *p)
{
    double means[FG_PLAN_N_PARTS];
    for (uint64_t i = 0; i < p->list.n; i++) {
        double measured[FG_Q_N_FORMATS], *e = p->mats[i].error;
        memcpy(measured, e, sizeof measured);
        for (int f = 0; f < FG_Q_N_FORMATS; f++) {
            const int g = isnan(e[f]) ? nearest(measured, f) : -1;
            if (g >= 0) e[f] = measured[g] * ratios[f] / ratios[g];
        }
    }
    const double all = mean_error(p, -1);
    for (int part = 0; part < FG_PLAN_N_PARTS; part++) {
        means[part] = mean_error(p, part);
        if (means[part] <= 0) means[part] = all > 0 ? all : 1;
    }
    for (uint64_t i = 0; i < p->list.n; i++) {
        double *e = p->mats[i].error;
        for (int f = 0; f < FG_Q_N_FORMATS; f++) {
            if (isnan(e[f])) e[f] = means[p->list.mats[i].part] * ratios[f];
        }
    }
}

// ---- bands

// MLPs or mixers of some layers that have one KL; or the head.
struct band {
    bool head, mixer;
    int64_t first, last;
    double kl[FG_Q_N_FORMATS]; // NaN: not measured
    int kappa_format;          // of its delta NLLs; -1: none, all kappas are 1
};

struct bands {
    struct band *v;
    uint64_t n, cap;
};

static bool holds(const struct band *b, const struct fg_plan_mat *m)
{
    if (m->layer < 0 || b->head) return m->layer < 0 && b->head;
    return b->mixer != fg_plan_part_is_mlp(m->part) && m->layer >= b->first && m->layer <= b->last;
}

static struct band *add_band(struct bands *bs, const struct fg_sens_unit *u)
{
    if (bs->n == bs->cap) {
        const uint64_t cap = bs->cap ? 2 * bs->cap : 64;
        struct band *grown = realloc(bs->v, cap * sizeof *grown);
        if (!grown) return NULL;
        bs->v = grown;
        bs->cap = cap;
    }
    struct band *b = &bs->v[bs->n++];
    *b = (struct band){.head = u->first < 0,
                       .mixer = u->mixer,
                       .first = u->first,
                       .last = u->last,
                       .kappa_format = -1};
    for (int f = 0; f < FG_Q_N_FORMATS; f++)
        b->kl[f] = NAN;
    return b;
}

static int refuse_sens(struct fg_error *err, const char *field, const char *expected,
                       const char *found)
{
    return fg_fail(err, FG_EINPUT, "sens", NULL, field, expected, "%s", found);
}

// The band of a unit, made when it is new; NULL with *rc set when it overlaps another.
static struct band *band_of(struct bands *bs, const struct fg_sens_unit *u, int *rc,
                            struct fg_error *err)
{
    for (uint64_t i = 0; i < bs->n; i++) {
        struct band *b = &bs->v[i];
        if (b->head != (u->first < 0) || (!b->head && b->mixer != u->mixer)) continue;
        if (b->first == u->first && b->last == u->last) return b;
        if (u->first > b->last || u->last < b->first) continue;
        char unit[FG_SENS_UNIT_TEXT], other[64];
        snprintf(other, sizeof other, "%s:%" PRId64 "-%" PRId64, b->mixer ? "mixer" : "mlp",
                 b->first, b->last);
        *rc = fg_fail(err, FG_EINPUT, "sens", NULL, fg_sens_unit_text(unit, u),
                      "bands that do not overlap", "layers that %s has too", other);
        return NULL;
    }
    struct band *b = add_band(bs, u);
    if (!b) *rc = fg_fail_memory(err, FG_PLANNER_WHAT, bs->cap * sizeof *b);
    return b;
}

// Bands from the rows "kl", all of one trace.
static int read_bands(struct fg_planner *p, const struct fg_sens *sens, struct bands *bs,
                      struct fg_error *err)
{
    int rc = 0;
    for (uint64_t i = 0; i < sens->n; i++) {
        const struct fg_sens_row *row = &sens->rows[i];
        if (row->metric != FG_SENS_KL) continue;
        if (row->unit.scope == FG_SENS_MATRIX && row->unit.first >= 0) continue;
        struct band *b = band_of(bs, &row->unit, &rc, err);
        if (!b) return rc;
        b->kl[row->format] = row->value;
        if (!p->info.trace[0]) memcpy(p->info.trace, row->trace_sha256, sizeof p->info.trace);
        if (row->trace_sha256[0] && strcmp(row->trace_sha256, p->info.trace) != 0) {
            char unit[FG_SENS_UNIT_TEXT];
            fg_sens_unit_text(unit, &row->unit);
            return refuse_sens(err, unit, "a KL on the same trace as the others", "another trace");
        }
    }
    return 0;
}

// Delta NLL of a layer's MLP or mixer; NaN: not measured.
static double delta_nll(const struct fg_sens *sens, bool mixer, int64_t layer, int f)
{
    const struct fg_sens_unit unit = {
        .scope = FG_SENS_PART, .first = layer, .last = layer, .mixer = mixer};
    const struct fg_sens_row *row =
        fg_sens_find(sens, FG_SENS_DELTA_NLL, &unit, (enum fg_qformat)f);
    return row ? row->value : NAN;
}

// The coarsest format in which all of the layers were measured; -1: none.
static int kappa_format(const struct fg_sens *sens, bool mixer, int64_t first, int64_t last)
{
    int best = -1;
    for (int f = 0; f < FG_Q_N_FORMATS; f++) {
        if (!loses(f) || (best >= 0 && ratios[f] <= ratios[best])) continue;
        bool all = true;
        for (int64_t i = first; i <= last && all; i++)
            all = !isnan(delta_nll(sens, mixer, i, f));
        if (all) best = f;
    }
    return best;
}

static double kappa_of(const struct fg_sens *sens, const struct band *b, int64_t layer)
{
    if (b->head || b->kappa_format < 0) return 1;
    return fmax(delta_nll(sens, b->mixer, layer, b->kappa_format), KAPPA_MIN);
}

// A band for each layer of the kind, with its kappa as KL. False: memory is out.
static bool bands_of_layers(struct fg_planner *p, const struct fg_sens *sens, bool mixer, int f,
                            struct bands *bs)
{
    for (int64_t i = 0; i < p->shape.n_layers; i++) {
        const struct fg_sens_unit unit = {
            .scope = FG_SENS_PART, .first = i, .last = i, .mixer = mixer};
        struct band *b = add_band(bs, &unit);
        if (!b) return false;
        b->kl[f] = fmax(delta_nll(sens, mixer, i, f), KAPPA_MIN);
    }
    return true;
}

// ---- costs

// e(m, f0) as the band was measured: k and v in the plan's format.
static double error_in_band(const struct fg_planner *p, uint64_t i, int f0)
{
    const struct fg_plan_mat *m = &p->list.mats[i];
    const bool kv = m->part == FG_PLAN_K || m->part == FG_PLAN_V;
    if (kv) return p->mats[i].error[m->format];
    return p->mats[i].error[p->mats[i].can[f0] ? f0 : (int)m->format];
}

// The sum below the line of c(m, f).
static double band_error(const struct fg_planner *p, const struct fg_sens *sens,
                         const struct band *b, int f0)
{
    double sum = 0;
    for (uint64_t i = 0; i < p->list.n; i++) {
        if (holds(b, &p->list.mats[i]))
            sum += kappa_of(sens, b, p->list.mats[i].layer) * error_in_band(p, i, f0);
    }
    return sum;
}

static void cost_of_band(struct fg_planner *p, const struct fg_sens *sens, const struct band *b,
                         double rho)
{
    double per_error[FG_Q_N_FORMATS]; // KL_band / sum, by f0
    int most = -1;
    for (int f = 0; f < FG_Q_N_FORMATS; f++) {
        if (isnan(b->kl[f])) continue;
        const double sum = band_error(p, sens, b, f);
        per_error[f] = sum > 0 ? b->kl[f] / sum : 0;
        if (most < 0 || b->kl[f] > b->kl[most]) most = f;
    }
    if (most < 0) return;
    for (uint64_t i = 0; i < p->list.n; i++) {
        const struct fg_plan_mat *m = &p->list.mats[i];
        struct fg_planner_mat *mat = &p->mats[i];
        if (!holds(b, m)) continue;
        const double kappa = kappa_of(sens, b, m->layer);
        for (int f = 0; f < FG_Q_N_FORMATS; f++) {
            const int f0 = isnan(b->kl[f]) ? most : f;
            mat->cost[f] = per_error[f0] * kappa * mat->error[f] * rho;
        }
    }
}

// Every free matrix has a cost, or none of its kind has.
static int check_cover(const struct fg_planner *p, const struct bands *bs, struct fg_error *err)
{
    for (uint64_t i = 0; i < p->list.n; i++) {
        const struct fg_plan_mat *m = &p->list.mats[i];
        bool covered = false;
        for (uint64_t b = 0; b < bs->n && !covered; b++)
            covered = holds(&bs->v[b], m);
        if (covered || !p->mats[i].free) continue;
        char unit[FG_SENS_UNIT_TEXT];
        const struct fg_sens_unit u = {.scope = m->layer < 0 ? FG_SENS_MATRIX : FG_SENS_PART,
                                       .first = m->layer,
                                       .last = m->layer,
                                       .mixer = !fg_plan_part_is_mlp(m->part)};
        int rc = refuse_sens(err, fg_sens_unit_text(unit, &u), "a KL of a band that holds it",
                             "none, and others have one");
        fg_error_hint(err, "measure it with forge plan measure --kind band");
        return rc;
    }
    return 0;
}

static void relative_costs(struct fg_planner *p, double rho)
{
    for (uint64_t i = 0; i < p->list.n; i++) {
        for (int f = 0; f < FG_Q_N_FORMATS; f++)
            p->mats[i].cost[f] = p->mats[i].error[f] * rho;
    }
}

// Which kinds of matrices are to be chosen.
static unsigned free_kinds(const struct fg_planner *p)
{
    unsigned kinds = 0;
    for (uint64_t i = 0; i < p->list.n; i++) {
        if (p->mats[i].free) kinds |= fg_planner_kind(&p->list.mats[i]);
    }
    return kinds;
}

// Bands from delta NLLs, where every layer of every kind that is free has one in one format.
static int layer_bands(struct fg_planner *p, const struct fg_sens *sens, struct bands *bs,
                       struct fg_error *err)
{
    const unsigned kinds = free_kinds(p);
    const int64_t last = p->shape.n_layers - 1;
    const int mlp = kappa_format(sens, false, 0, last), mixer = kappa_format(sens, true, 0, last);
    if ((kinds & FG_FREE_MLP && mlp < 0) || (kinds & (FG_FREE_MIXER | FG_FREE_KV) && mixer < 0) ||
        kinds & FG_FREE_HEAD || (mlp < 0 && mixer < 0))
        return 0;
    if ((mlp >= 0 && !bands_of_layers(p, sens, false, mlp, bs)) ||
        (mixer >= 0 && !bands_of_layers(p, sens, true, mixer, bs)))
        return fg_fail_memory(err, FG_PLANNER_WHAT, bs->cap * sizeof *bs->v);
    return 0;
}

static void describe_bands(struct fg_planner *p, const struct bands *bs)
{
    for (uint64_t i = 0; i < bs->n; i++) {
        const struct band *b = &bs->v[i];
        if (b->head) {
            p->info.head_measured = true;
            continue;
        }
        p->info.kinds_measured[b->mixer] = true;
        p->info.n_bands++;
        p->info.n_kappa += b->kappa_format >= 0;
    }
}

int fg_planner_fill_costs(struct fg_planner *p, const struct fg_planner_options *o,
                          struct fg_error *err)
{
    struct bands bs = {0};
    read_errors(p, o->sens);
    count_errors(p);
    fill_errors(p);
    int rc = read_bands(p, o->sens, &bs, err);
    bool layers = false;
    for (uint64_t i = 0; i < bs.n; i++)
        layers |= !bs.v[i].head;
    p->info.unit = FG_PLANNER_KL;
    if (!rc && !layers) {
        p->info.unit = FG_PLANNER_NLL;
        rc = layer_bands(p, o->sens, &bs, err);
        layers = bs.n > 0 && !bs.v[bs.n - 1].head;
    } else if (!rc) {
        for (uint64_t i = 0; i < bs.n; i++)
            bs.v[i].kappa_format =
                kappa_format(o->sens, bs.v[i].mixer, bs.v[i].first, bs.v[i].last);
    }
    if (!rc && layers) {
        rc = check_cover(p, &bs, err);
        for (uint64_t i = 0; i < bs.n && !rc; i++)
            cost_of_band(p, o->sens, &bs.v[i], o->rho);
        describe_bands(p, &bs);
    } else if (!rc) {
        p->info.unit = FG_PLANNER_RELATIVE;
        relative_costs(p, o->rho);
    }
    free(bs.v);
    return rc;
}
