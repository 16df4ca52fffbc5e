// quant/knapsack.c: bounds by relaxation, then dynamic programming over what they leave open.
#include "quant/knapsack.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "knapsack"
#define STATES_MAX 65536u
#define UNIT 65536u
#define UNITS_MIN 4096 // between the smallest sum and the budget
#define BISECTIONS 200
#define WIDENINGS 256  // of a bracket, by 16
#define ROUNDING 1e-10 // of sums of costs, beside their size

// ---- relaxation

struct sums {
    uint64_t bytes;
    double ns, cost;
};

struct solver {
    const struct fg_knapsack *k;
    uint64_t *pick;       // [n_groups] positions in choices: the best so far
    uint64_t *trial;      // [n_groups]
    bool found;           // pick is within the budgets
    struct sums best;     // of pick
    double bound;         // the largest of all evaluations
    double lambda, mu;    // that gave it
    double *floor;        // [n_groups] least cost + lambda bytes + mu ns of the group
    struct level *levels; // of the exact part
    uint64_t n_levels;
    struct fg_knapsack_result *result;
    struct fg_error *err;
};

static double priced(const struct fg_choice *c, double lambda, double mu)
{
    return c->cost + lambda * (double)c->bytes + (mu > 0 ? mu * c->ns : 0);
}

static bool fits(const struct fg_knapsack *k, const struct sums *s)
{
    return s->bytes <= k->bytes_max && s->ns <= k->ns_max;
}

static struct sums sum_of(const struct fg_knapsack *k, const uint64_t *pick)
{
    struct sums s = {0};
    for (uint64_t g = 0; g < k->n_groups; g++) {
        const struct fg_choice *c = &k->choices[pick[g]];
        s.bytes += c->bytes;
        s.ns += c->ns;
        s.cost += c->cost;
    }
    return s;
}

static bool less(const struct fg_choice *a, const struct fg_choice *b, double lambda, double mu)
{
    const double x = priced(a, lambda, mu), y = priced(b, lambda, mu);
    if (x < y || x > y) return x < y;
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->ns < b->ns;
}

// The best of each group at these prices into trial, its sums returned. Keeps the bound, and the
// choice when it fits and costs least so far.
static struct sums relax(struct solver *s, double lambda, double mu)
{
    const struct fg_knapsack *k = s->k;
    double bound = -lambda * (double)k->bytes_max - (mu > 0 ? mu * k->ns_max : 0);
    for (uint64_t g = 0; g < k->n_groups; g++) {
        uint64_t at = k->first[g];
        for (uint64_t i = at + 1; i < k->first[g + 1]; i++) {
            if (less(&k->choices[i], &k->choices[at], lambda, mu)) at = i;
        }
        s->trial[g] = at;
        bound += priced(&k->choices[at], lambda, mu);
    }
    if (bound > s->bound) {
        s->bound = bound;
        s->lambda = lambda;
        s->mu = mu;
    }
    const struct sums sum = sum_of(k, s->trial);
    if (fits(k, &sum) && (!s->found || sum.cost < s->best.cost)) {
        memcpy(s->pick, s->trial, k->n_groups * sizeof *s->pick);
        s->best = sum;
        s->found = true;
    }
    return sum;
}

// The smallest lambda whose choice is within the bytes, to the last bit; sums of that choice.
static struct sums bisect_bytes(struct solver *s, double mu)
{
    const uint64_t max = s->k->bytes_max;
    double lo = 0, hi = 1e-12;
    struct sums at = relax(s, 0, mu);
    if (at.bytes <= max) return at;
    at = relax(s, hi, mu);
    for (int i = 0; i < WIDENINGS && at.bytes > max && hi < 1e280; i++) {
        lo = hi;
        hi *= 16;
        at = relax(s, hi, mu);
    }
    for (int i = 0; i < BISECTIONS; i++) {
        const double mid = lo + (hi - lo) / 2;
        if (!(mid > lo) || !(mid < hi)) break;
        const struct sums m = relax(s, mid, mu);
        if (m.bytes <= max) {
            hi = mid;
            at = m;
        } else {
            lo = mid;
        }
    }
    return at;
}

static void bisect(struct solver *s)
{
    double lo = 0, hi = 1e-12;
    struct sums at = bisect_bytes(s, 0);
    if (isinf(s->k->ns_max) || at.ns <= s->k->ns_max) return;
    at = bisect_bytes(s, hi);
    for (int i = 0; i < WIDENINGS && at.ns > s->k->ns_max && hi < 1e100; i++) {
        lo = hi;
        hi *= 16;
        at = bisect_bytes(s, hi);
    }
    for (int i = 0; i < BISECTIONS && at.ns <= s->k->ns_max; i++) {
        const double mid = lo + (hi - lo) / 2;
        if (!(mid > lo) || !(mid < hi) || hi - lo < 1e-6 * hi) break;
        if (bisect_bytes(s, mid).ns <= s->k->ns_max)
            hi = mid;
        else
            lo = mid;
    }
}

// Single changes that fit and lower the cost most, until there are none.
static void improve(struct solver *s)
{
    const struct fg_knapsack *k = s->k;
    while (s->found) {
        uint64_t group = 0, to = UINT64_MAX;
        double gain = 0;
        for (uint64_t g = 0; g < k->n_groups; g++) {
            const struct fg_choice *now = &k->choices[s->pick[g]];
            for (uint64_t i = k->first[g]; i < k->first[g + 1]; i++) {
                const struct fg_choice *c = &k->choices[i];
                const struct sums with = {s->best.bytes - now->bytes + c->bytes,
                                          s->best.ns - now->ns + c->ns, 0};
                if (now->cost - c->cost <= gain || !fits(k, &with)) continue;
                gain = now->cost - c->cost;
                group = g;
                to = i;
            }
        }
        if (to == UINT64_MAX) return;
        const uint64_t from = s->pick[group];
        s->pick[group] = to;
        const struct sums after = sum_of(k, s->pick);
        if (!fits(k, &after) || after.cost >= s->best.cost) { // by rounding alone
            s->pick[group] = from;
            return;
        }
        s->best = after;
    }
}

// ---- dynamic programming

// A partial sum over the groups so far.
struct state {
    uint64_t bytes;
    double ns, cost;
    double above; // price above the floors of its groups: the bound is higher by this
    uint32_t from, choice;
};

// Where the states of one group came from.
struct level {
    uint64_t group;
    struct origin {
        uint32_t from, choice; // state before, position in choices
    } * origins;
};

struct list {
    struct state *v;
    uint64_t n;
};

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_f64(double a, double b)
{
    return (a > b) - (a < b);
}

static int by_sums(const struct state *a, const struct state *b)
{
    int c = compare_u64(a->bytes, b->bytes);
    if (!c) c = compare_f64(a->ns, b->ns);
    if (!c) c = compare_f64(a->cost, b->cost);
    return c ? c : (int)(a->choice > b->choice) - (int)(a->choice < b->choice);
}

static int by_sums_of(const void *a, const void *b)
{
    return by_sums(a, b);
}

// States that cost least for their time, of all that have no more bytes: by ns ascending, cost
// descending. Without a budget of time one is enough.
struct stairs {
    struct {
        double ns, cost;
    } * v;
    uint64_t n;
};

// False when something with no more time and no more cost is there; else the step is added.
static bool climb(struct stairs *st, double ns, double cost)
{
    uint64_t lo = 0, hi = st->n; // first step with more ns
    while (lo < hi) {
        const uint64_t mid = lo + (hi - lo) / 2;
        if (st->v[mid].ns <= ns)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo > 0 && st->v[lo - 1].cost <= cost) return false;
    uint64_t at = lo > 0 && st->v[lo - 1].ns >= ns ? lo - 1 : lo, end = at;
    while (end < st->n && st->v[end].cost >= cost)
        end++;
    memmove(&st->v[at + 1], &st->v[end], (st->n - end) * sizeof *st->v);
    st->n -= end - at;
    st->n++;
    st->v[at].ns = ns;
    st->v[at].cost = cost;
    return true;
}

struct search {
    struct solver *s;
    double gap;                       // what a better choice may be above the bound
    uint64_t fixed_bytes, rest_bytes; // of groups with one choice left; least of the groups to come
    double fixed_ns, rest_ns;
    bool timed;
    uint64_t states_max, unit;
    struct list now, next;
    struct stairs stairs;
    bool joined; // states were
};

static bool open_choice(const struct search *d, uint64_t group, uint64_t i)
{
    const struct solver *s = d->s;
    return priced(&s->k->choices[i], s->lambda, s->mu) - s->floor[group] <= d->gap;
}

// All states with one choice of the group more, merged in order; dominated ones and those that
// cannot become the best are left out.
static void extend(struct search *d, uint64_t group)
{
    const struct solver *s = d->s;
    const struct fg_knapsack *k = s->k;
    const uint64_t first = k->first[group], n = k->first[group + 1] - first;
    uint64_t at[FG_KNAPSACK_CHOICES] = {0};
    const double ns_room = k->ns_max - d->fixed_ns - d->rest_ns;
    d->next.n = 0;
    d->stairs.n = 0;
    for (;;) {
        struct state best = {0};
        uint64_t of = UINT64_MAX;
        for (uint64_t i = 0; i < n; i++) {
            if (at[i] >= d->now.n || !open_choice(d, group, first + i)) continue;
            const struct fg_choice *c = &k->choices[first + i];
            const struct state *p = &d->now.v[at[i]];
            const struct state one = {.bytes = p->bytes + c->bytes,
                                      .ns = p->ns + c->ns,
                                      .cost = p->cost + c->cost,
                                      .above =
                                          p->above + priced(c, s->lambda, s->mu) - s->floor[group],
                                      .from = (uint32_t)at[i],
                                      .choice = (uint32_t)(first + i)};
            if (of != UINT64_MAX && by_sums(&one, &best) >= 0) continue;
            best = one;
            of = i;
        }
        if (of == UINT64_MAX) return;
        at[of]++;
        if (best.above > d->gap || best.ns > ns_room ||
            best.bytes > k->bytes_max - d->fixed_bytes - d->rest_bytes)
            continue;
        if (climb(&d->stairs, d->timed ? best.ns : 0, best.cost)) d->next.v[d->next.n++] = best;
    }
}

struct bucket {
    uint64_t bytes, ns, at;
    double cost;
};

static int by_bucket(const void *a, const void *b)
{
    const struct bucket *x = a, *y = b;
    int c = compare_u64(x->bytes, y->bytes);
    if (!c) c = compare_u64(x->ns, y->ns);
    if (!c) c = compare_f64(x->cost, y->cost);
    return c ? c : compare_u64(x->at, y->at);
}

// Joins states until there are at most states_max.
static int join(struct search *d)
{
    if (d->next.n <= d->states_max) return 0;
    struct bucket *b = malloc(d->next.n * sizeof *b);
    if (!b) return fg_fail_memory(d->s->err, WHAT, d->next.n * sizeof *b);
    double ns_unit = d->timed && d->s->k->ns_max > 0 ? d->s->k->ns_max / UNITS_MIN : INFINITY;
    uint64_t unit = d->unit;
    while (d->next.n > d->states_max) {
        const uint64_t n = d->next.n;
        for (uint64_t i = 0; i < n; i++) {
            const struct state *v = &d->next.v[i];
            b[i] = (struct bucket){v->bytes / unit, (uint64_t)(v->ns / ns_unit), i, v->cost};
        }
        qsort(b, (size_t)n, sizeof *b, by_bucket);
        d->next.n = 0;
        for (uint64_t i = 0; i < n; i++) {
            if (i > 0 && b[i].bytes == b[i - 1].bytes && b[i].ns == b[i - 1].ns) continue;
            d->now.v[d->next.n++] = d->next.v[b[i].at]; // now is done with
        }
        memcpy(d->next.v, d->now.v, d->next.n * sizeof *d->next.v);
        d->joined |= d->next.n < n;
        unit *= 2;
        ns_unit *= 2;
    }
    qsort(d->next.v, (size_t)d->next.n, sizeof *d->next.v, by_sums_of);
    free(b);
    return 0;
}

static int keep_origins(struct search *d, uint64_t group)
{
    struct level *l = &d->s->levels[d->s->n_levels++];
    l->group = group;
    l->origins = malloc((d->next.n ? d->next.n : 1) * sizeof *l->origins);
    if (!l->origins) return fg_fail_memory(d->s->err, WHAT, d->next.n * sizeof *l->origins);
    for (uint64_t i = 0; i < d->next.n; i++) {
        l->origins[i].from = d->next.v[i].from;
        l->origins[i].choice = d->next.v[i].choice;
    }
    return 0;
}

static uint64_t count_open(const struct search *d, uint64_t group)
{
    uint64_t n = 0;
    for (uint64_t i = d->s->k->first[group]; i < d->s->k->first[group + 1]; i++)
        n += open_choice(d, group, i);
    return n;
}

// Least bytes and ns of the choices that a group has left.
static struct sums least_of(const struct search *d, uint64_t group)
{
    struct sums least = {UINT64_MAX, INFINITY, 0};
    for (uint64_t i = d->s->k->first[group]; i < d->s->k->first[group + 1]; i++) {
        const struct fg_choice *c = &d->s->k->choices[i];
        if (!open_choice(d, group, i)) continue;
        if (c->bytes < least.bytes) least.bytes = c->bytes;
        if (c->ns < least.ns) least.ns = c->ns;
    }
    return least;
}

// The last list's cheapest state becomes the choice when it beats the one at hand.
static void take_best(struct search *d)
{
    struct solver *s = d->s;
    uint64_t at = UINT64_MAX;
    for (uint64_t i = 0; i < d->now.n; i++) {
        if (at == UINT64_MAX || d->now.v[i].cost < d->now.v[at].cost) at = i;
    }
    if (at == UINT64_MAX) return;
    memcpy(s->trial, s->pick, s->k->n_groups * sizeof *s->trial);
    for (uint64_t g = 0; g < s->k->n_groups; g++) {
        for (uint64_t i = s->k->first[g]; i < s->k->first[g + 1] && count_open(d, g) == 1; i++) {
            if (open_choice(d, g, i)) s->trial[g] = i;
        }
    }
    for (uint64_t l = s->n_levels; l-- > 0;) {
        const struct origin *o = &s->levels[l].origins[at];
        s->trial[s->levels[l].group] = o->choice;
        at = o->from;
    }
    const struct sums sum = sum_of(s->k, s->trial);
    if (!fits(s->k, &sum)) return; // by the rounding of times
    if (s->found &&
        (sum.cost > s->best.cost || (sum.cost >= s->best.cost && sum.bytes >= s->best.bytes)))
        return;
    memcpy(s->pick, s->trial, s->k->n_groups * sizeof *s->pick);
    s->best = sum;
    s->found = true;
}

// Room for the states of one group: every state times its choices.
static int alloc_lists(struct search *d, uint64_t choices)
{
    const uint64_t n = d->states_max * choices;
    d->now.v = malloc(n * sizeof *d->now.v);
    d->next.v = malloc(n * sizeof *d->next.v);
    d->stairs.v = malloc((d->timed ? n + 1 : 2) * sizeof *d->stairs.v);
    if (d->now.v && d->next.v && d->stairs.v) return 0;
    return fg_fail_memory(d->s->err, WHAT, n * (2 * sizeof *d->now.v + sizeof *d->stairs.v));
}

static int run_search(struct search *d)
{
    struct solver *s = d->s;
    const struct fg_knapsack *k = s->k;
    uint64_t choices = 1;
    int rc = 0;
    for (uint64_t g = 0; g < k->n_groups; g++) {
        const uint64_t n = count_open(d, g);
        const struct sums least = least_of(d, g);
        if (n > choices) choices = n;
        if (n == 1) {
            d->fixed_bytes += least.bytes;
            d->fixed_ns += least.ns;
        } else {
            d->rest_bytes += least.bytes;
            d->rest_ns += least.ns;
            s->result->n_core++;
        }
    }
    if (d->fixed_bytes > k->bytes_max || d->rest_bytes > k->bytes_max - d->fixed_bytes) return 0;
    rc = alloc_lists(d, choices);
    if (!rc) d->now.v[d->now.n++] = (struct state){0};
    for (uint64_t g = 0; g < k->n_groups && !rc; g++) {
        if (count_open(d, g) == 1) continue;
        const struct sums least = least_of(d, g);
        d->rest_bytes -= least.bytes;
        d->rest_ns = fmax(0, d->rest_ns - least.ns);
        extend(d, g);
        rc = join(d);
        if (!rc) rc = keep_origins(d, g);
        const struct list swap = d->now;
        d->now = d->next;
        d->next = swap;
        if (d->now.n > s->result->n_states) s->result->n_states = d->now.n;
    }
    if (!rc) take_best(d);
    return rc;
}

// ---- the whole

static int refuse(struct solver *s, const struct sums *least)
{
    char expected[80], found[64];
    snprintf(expected, sizeof expected, "at least %" PRIu64 " bytes", least->bytes);
    snprintf(found, sizeof found, "%" PRIu64, s->k->bytes_max);
    if (s->k->bytes_max >= least->bytes && s->k->ns_max < least->ns) {
        snprintf(expected, sizeof expected, "at least %.6g ms", least->ns / 1e6);
        snprintf(found, sizeof found, "%.6g", s->k->ns_max / 1e6);
    } else if (s->k->bytes_max >= least->bytes) {
        snprintf(expected, sizeof expected, "bytes and time that go together");
        snprintf(found, sizeof found, "%" PRIu64 " bytes with %.6g ms", s->k->bytes_max,
                 s->k->ns_max / 1e6);
    }
    return fg_fail(s->err, FG_EINPUT, "plan", NULL, "budget", expected, "%s", found);
}

static struct sums least_sums(const struct fg_knapsack *k)
{
    struct sums least = {0};
    for (uint64_t g = 0; g < k->n_groups; g++) {
        uint64_t bytes = UINT64_MAX;
        double ns = INFINITY;
        for (uint64_t i = k->first[g]; i < k->first[g + 1]; i++) {
            if (k->choices[i].bytes < bytes) bytes = k->choices[i].bytes;
            if (k->choices[i].ns < ns) ns = k->choices[i].ns;
        }
        least.bytes += bytes;
        least.ns += ns;
    }
    return least;
}

static int close_gap(struct solver *s, const struct sums *least)
{
    const struct fg_knapsack *k = s->k;
    struct search d = {.s = s,
                       .timed = !isinf(k->ns_max),
                       .states_max = k->states_max ? k->states_max : STATES_MAX,
                       .unit = k->unit ? k->unit : UNIT};
    while (!k->unit && d.unit > 1 && (k->bytes_max - least->bytes) / d.unit < UNITS_MIN)
        d.unit /= 2;
    for (uint64_t g = 0; g < k->n_groups; g++) {
        s->floor[g] = INFINITY;
        for (uint64_t i = k->first[g]; i < k->first[g + 1]; i++)
            s->floor[g] = fmin(s->floor[g], priced(&k->choices[i], s->lambda, s->mu));
    }
    double size = s->lambda * (double)k->bytes_max + (s->mu > 0 ? s->mu * k->ns_max : 0);
    for (uint64_t g = 0; g < k->n_groups; g++)
        size += fabs(s->floor[g]);
    d.gap = s->found ? s->best.cost - s->bound + ROUNDING * size : INFINITY;
    int rc = run_search(&d);
    s->result->exact = !d.joined;
    free(d.now.v);
    free(d.next.v);
    free(d.stairs.v);
    return rc;
}

int fg_knapsack_solve(uint64_t *pick, struct fg_knapsack_result *result,
                      const struct fg_knapsack *k, struct fg_error *err)
{
    struct solver s = {.k = k, .bound = -INFINITY, .result = result, .err = err, .pick = pick};
    const struct sums least = least_sums(k);
    const uint64_t n = k->n_groups ? k->n_groups : 1;
    *result = (struct fg_knapsack_result){0};
    if (least.bytes > k->bytes_max || least.ns > k->ns_max) return refuse(&s, &least);
    s.trial = malloc(n * sizeof *s.trial);
    s.floor = malloc(n * sizeof *s.floor);
    s.levels = calloc(n, sizeof *s.levels);
    int rc =
        s.trial && s.floor && s.levels
            ? 0
            : fg_fail_memory(err, WHAT, n * (sizeof *s.trial + sizeof *s.floor + sizeof *s.levels));
    if (!rc) {
        bisect(&s);
        improve(&s);
        rc = close_gap(&s, &least);
    }
    if (!rc && !s.found) rc = refuse(&s, &least);
    if (!rc) {
        for (uint64_t g = 0; g < k->n_groups; g++)
            pick[g] -= k->first[g];
        result->cost = s.best.cost;
        result->ns = s.best.ns;
        result->bytes = s.best.bytes;
        result->bound = result->exact ? s.best.cost : fmin(s.bound, s.best.cost);
        result->lambda = s.lambda;
        result->mu = s.mu;
    }
    for (uint64_t i = 0; i < s.n_levels; i++)
        free(s.levels[i].origins);
    free(s.levels);
    free(s.floor);
    free(s.trial);
    return rc;
}
