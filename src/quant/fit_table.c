// quant/fit_table.c: codebooks. Samples are put into an order of their own before anything is drawn
// or summed, so that a table fitted to all of a matrix does not depend on the order of its columns.
// Sums go over tiles of a fixed size and then over the tiles in order.
#include "quant/fit_impl.h"
#include "quant/jobs.h"
#include "quant/random.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define TILE 4096
#define ENTRIES_MAX FG_FIT_ENTRIES_MAX
// From quantiles, 40 rounds leave 3.5 % of error on the table in the tails; sorted samples make a
// round cost a few binary searches.
#define SCALAR_ITERATIONS 200
#define STRATA 1024   // of sorted values, for where many levels start
#define DROP_MIN 1e-6 // of inertia between two iterations of k-means

// ---- samples

// The k-th of n strata of [0, total) starts here.
static int64_t stratum(int64_t k, int64_t n, int64_t total)
{
    __extension__ typedef __int128 i128;
    return (int64_t)((i128)k * total / n);
}

static struct fg_random stream(const struct fg_fit_options *o, const char *what)
{
    char tag[512];
    snprintf(tag, sizeof tag, "%s/%s", what, o->name);
    return fg_random_named(o->seed, tag);
}

// One place per stratum: ascending, without repetition.
static int64_t draw(struct fg_random *r, int64_t k, int64_t n, int64_t total)
{
    const int64_t at = stratum(k, n, total), end = stratum(k + 1, n, total);
    return at + (int64_t)fg_random_below(r, (uint64_t)(end - at));
}

static float col_weight(const struct fg_fit_options *o, int64_t col)
{
    return o->col_weight ? o->col_weight[col] : 1.0f;
}

static int compare(float a, float b)
{
    return (a > b) - (a < b);
}

// Rounds a table to F16; false when a value does not fit.
static bool store(uint16_t *lut, const float *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        lut[i] = fg_stored_f16(values[i]);
        if (!fg_f16_is_finite(lut[i])) return false;
    }
    return true;
}

// Moves n values, d apart, to the grid of the INT8 kernels, whose step is max / 127 of what F16
// holds.
static void to_grid(float *values, int64_t n, int64_t d)
{
    float most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(fg_f16_to_f32(fg_stored_f16(values[d * i]))));
    const float step = most / 127.0f;
    for (int64_t i = 0; i < n && step > 0 && isfinite(step); i++)
        values[d * i] = rintf(fg_f16_to_f32(fg_stored_f16(values[d * i])) / step) * step;
}

// ---- k-means over pairs

struct sample {
    float x[2], w[2], col; // the pair, weights of its components and of its column
};

static int by_value(const void *pa, const void *pb)
{
    const struct sample *a = pa, *b = pb;
    int c = compare(a->x[0], b->x[0]);
    if (!c) c = compare(a->x[1], b->x[1]);
    if (!c) c = compare(a->w[0], b->w[0]);
    if (!c) c = compare(a->w[1], b->w[1]);
    return c ? c : compare(a->col, b->col);
}

struct tile_sums {
    double member[ENTRIES_MAX][4]; // per entry: w0 * x0, w0, w1 * x1, w1
    double inertia;
    int64_t changed; // labels
};

struct kmeans {
    const struct fg_fit_options *o;
    int K;
    int64_t n, n_tiles;
    float *x[2], *w[2]; // [n] each
    float *col;         // [n]
    float *dist;        // [n] to the nearest entry, without the column's weight
    uint8_t *label;     // [n]
    struct tile_sums *tiles;
    float c[2 * ENTRIES_MAX]; // first components, then second
};

static int64_t tile_end(const struct kmeans *k, int64_t tile)
{
    return (tile + 1) * TILE < k->n ? (tile + 1) * TILE : k->n;
}

static void assign_tile(void *ctx, int64_t tile, int worker)
{
    const struct kmeans *k = ctx;
    struct tile_sums *sums = &k->tiles[tile];
    const int64_t i0 = tile * TILE, n = tile_end(k, tile) - i0;
    uint8_t found[TILE];
    (void)worker;
    k->o->kernels->nearest2(found, k->dist + i0, k->x[0] + i0, k->x[1] + i0, k->w[0] + i0,
                            k->w[1] + i0, k->c, k->K, n);
    *sums = (struct tile_sums){0};
    for (int64_t j = 0; j < n; j++) {
        const int64_t i = i0 + j;
        double *member = sums->member[found[j]];
        const double w0 = (double)k->col[i] * (double)k->w[0][i];
        const double w1 = (double)k->col[i] * (double)k->w[1][i];
        member[0] += w0 * (double)k->x[0][i];
        member[1] += w0;
        member[2] += w1 * (double)k->x[1][i];
        member[3] += w1;
        sums->inertia += (double)k->col[i] * (double)k->dist[i];
        sums->changed += found[j] != k->label[i];
        k->label[i] = found[j];
    }
}

// Entries without members, or with none of any weight, take the samples that are worst off.
static void refill(struct kmeans *k, const double member[][4])
{
    for (int e = 0; e < k->K; e++) {
        if (member[e][1] > 0 && member[e][3] > 0) continue;
        int64_t worst = 0;
        double most = 0;
        for (int64_t i = 0; i < k->n; i++) {
            const double error = (double)k->col[i] * (double)k->dist[i];
            if (error < most) continue;
            most = error;
            worst = i;
        }
        if (!(most > 0)) return;
        k->c[e] = k->x[0][worst];
        k->c[k->K + e] = k->x[1][worst];
        k->dist[worst] = 0; // for the next entry without members
    }
}

// From the entries that are there to a minimum; *inertia is that of the entries it leaves.
static void iterate(struct kmeans *k, double *inertia)
{
    for (int64_t i = 0; i < k->n; i++)
        k->label[i] = UINT8_MAX;
    double before = INFINITY;
    for (int round = 0;; round++) {
        fg_job_run(k->o->pool, k->n_tiles, assign_tile, k);
        double member[ENTRIES_MAX][4] = {{0}}, now = 0;
        int64_t changed = 0;
        for (int64_t t = 0; t < k->n_tiles; t++) {
            for (int e = 0; e < k->K; e++)
                for (int j = 0; j < 4; j++)
                    member[e][j] += k->tiles[t].member[e][j];
            now += k->tiles[t].inertia;
            changed += k->tiles[t].changed;
        }
        *inertia = now;
        if (round == k->o->iterations || !changed || before - now < DROP_MIN * before) return;
        before = now;
        for (int e = 0; e < k->K; e++) {
            if (!(member[e][1] > 0 && member[e][3] > 0)) continue;
            k->c[e] = (float)(member[e][0] / member[e][1]);
            k->c[k->K + e] = (float)(member[e][2] / member[e][3]);
        }
        refill(k, member);
    }
}

// Distances to the entry drawn last, for k-means++.
struct seeding {
    struct kmeans *k;
    float c[2];
    bool first;
};

static void seed_tile(void *ctx, int64_t tile, int worker)
{
    const struct seeding *s = ctx;
    const struct kmeans *k = s->k;
    const int64_t i0 = tile * TILE, n = tile_end(k, tile) - i0;
    uint8_t zero[TILE];
    float dist[TILE];
    (void)worker;
    k->o->kernels->nearest2(zero, dist, k->x[0] + i0, k->x[1] + i0, k->w[0] + i0, k->w[1] + i0,
                            s->c, 1, n);
    double sum = 0;
    for (int64_t j = 0; j < n; j++) {
        float *least = &k->dist[i0 + j];
        if (s->first || dist[j] < *least) *least = dist[j];
        sum += (double)k->col[i0 + j] * (double)*least;
    }
    k->tiles[tile].inertia = sum;
}

// A sample with probability proportional to col * dist, whose sums are in the tiles; -1 when all
// are 0.
static int64_t pick(const struct kmeans *k, struct fg_random *r)
{
    double total = 0;
    for (int64_t t = 0; t < k->n_tiles; t++)
        total += k->tiles[t].inertia;
    if (!(total > 0)) return -1;
    double left = fg_random_u01(r) * total;
    int64_t last = -1, t = 0;
    for (; t < k->n_tiles - 1 && left >= k->tiles[t].inertia; t++)
        left -= k->tiles[t].inertia;
    // Sums in another order may leave a rest at the end: then the last sample that has any weight.
    for (; last < 0 && t >= 0; t--) {
        for (int64_t i = t * TILE; i < tile_end(k, t); i++) {
            const double p = (double)k->col[i] * (double)k->dist[i];
            if (!(p > 0)) continue;
            last = i;
            if (left < p) return i;
            left -= p;
        }
        left = INFINITY;
    }
    return last;
}

static void seed_entries(struct kmeans *k, struct fg_random *r)
{
    for (int64_t t = 0; t < k->n_tiles; t++) {
        k->tiles[t].inertia = 0;
        for (int64_t i = t * TILE; i < tile_end(k, t); i++) {
            k->dist[i] = k->w[0][i] + k->w[1][i];
            k->tiles[t].inertia += (double)k->col[i] * (double)k->dist[i];
        }
    }
    struct seeding s = {.k = k, .first = true};
    for (int e = 0; e < k->K; e++) {
        const int64_t i = pick(k, r);
        if (i >= 0) { // else fewer distinct samples than entries: the last one again
            s.c[0] = k->x[0][i];
            s.c[1] = k->x[1][i];
        }
        k->c[e] = s.c[0];
        k->c[k->K + e] = s.c[1];
        fg_job_run(k->o->pool, k->n_tiles, seed_tile, &s);
        s.first = false;
    }
}

static int fill_samples(struct kmeans *k, const float *W, const uint16_t *scale, int64_t rows,
                        int64_t cols, struct fg_error *err)
{
    const struct fg_fit_options *o = k->o;
    struct sample *all = malloc((size_t)k->n * sizeof *all);
    if (!all) return fg_fail_memory(err, "samples", (uint64_t)k->n * sizeof *all);
    struct fg_random r = stream(o, "kmeans-sample");
    double weight = 0;
    for (int64_t i = 0; i < k->n; i++) {
        const int64_t at = draw(&r, i, k->n, rows / 2 * cols), g = at / cols, j = at % cols;
        for (int t = 0; t < 2; t++) {
            const float s = fg_f16_to_f32(scale[2 * g + t]);
            all[i].x[t] = W[(2 * g + t) * cols + j] / s;
            all[i].w[t] = fg_fit_row_weight(o, 2 * g + t, s);
        }
        all[i].col = col_weight(o, j);
        weight += (double)all[i].col;
    }
    qsort(all, (size_t)k->n, sizeof *all, by_value);
    for (int64_t i = 0; i < k->n; i++) {
        for (int t = 0; t < 2; t++) {
            k->x[t][i] = all[i].x[t];
            k->w[t][i] = all[i].w[t];
        }
        k->col[i] = weight > 0 ? all[i].col : 1.0f; // inputs that were always 0: all alike
    }
    free(all);
    return 0;
}

static int by_first(const void *pa, const void *pb)
{
    const float *a = pa, *b = pb;
    const int c = compare(a[0], b[0]);
    return c ? c : compare(a[1], b[1]);
}

// Rounded, then in ascending order of what was rounded.
static bool store_pairs(uint16_t *lut, const float *c, int K, bool int8_tables)
{
    float pairs[ENTRIES_MAX][2];
    for (int e = 0; e < K; e++)
        for (int t = 0; t < 2; t++)
            pairs[e][t] = c[K * t + e];
    for (int t = 0; int8_tables && t < 2; t++)
        to_grid(&pairs[0][t], K, 2);
    for (int e = 0; e < K; e++)
        for (int t = 0; t < 2; t++)
            pairs[e][t] = fg_f16_to_f32(fg_stored_f16(pairs[e][t]));
    qsort(pairs, (size_t)K, sizeof *pairs, by_first);
    return store(lut, &pairs[0][0], 2 * (int64_t)K);
}

static int fit_pairs(uint16_t *lut, double *inertia, int K, const float *W, const uint16_t *scale,
                     int64_t rows, int64_t cols, const struct fg_fit_options *o,
                     struct fg_error *err)
{
    const int64_t total = rows / 2 * cols, n = total < o->vectors ? total : o->vectors;
    struct kmeans k = {.o = o, .K = K, .n = n, .n_tiles = (n + TILE - 1) / TILE};
    float *floats = malloc((size_t)n * 6 * sizeof *floats);
    k.label = malloc((size_t)n);
    k.tiles = calloc((size_t)k.n_tiles, sizeof *k.tiles);
    int rc = 0;
    if (!floats || !k.label || !k.tiles) {
        rc = fg_fail_memory(err, "k-means", (uint64_t)n * 25);
        goto end;
    }
    k.x[0] = floats;
    k.x[1] = floats + n;
    k.w[0] = floats + 2 * n;
    k.w[1] = floats + 3 * n;
    k.col = floats + 4 * n;
    k.dist = floats + 5 * n;
    if ((rc = fill_samples(&k, W, scale, rows, cols, err))) goto end;

    float best[2 * ENTRIES_MAX] = {0};
    double least = INFINITY;
    for (int init = 0; init < o->inits; init++) {
        char name[32];
        snprintf(name, sizeof name, "kmeans-init-%d", init);
        struct fg_random r = stream(o, name);
        double reached;
        seed_entries(&k, &r);
        iterate(&k, &reached);
        if (init && !(reached < least)) continue;
        least = reached;
        for (int j = 0; j < 2 * K; j++)
            best[j] = k.c[j];
    }
    if (inertia) *inertia = least;
    if (!store_pairs(lut, best, K, o->int8_tables))
        rc = fg_fail(err, FG_EINPUT, "quantize", NULL, o->name, "values that F16 holds",
                     "a table value past 65504");
end:
    free(floats);
    free(k.label);
    free(k.tiles);
    return rc;
}

// ---- Lloyd over single values

struct value {
    float x, w;
};

static int by_x(const void *pa, const void *pb)
{
    const struct value *a = pa, *b = pb;
    const int c = compare(a->x, b->x);
    return c ? c : compare(a->w, b->w);
}

// First of n ascending values that lies above `limit`.
static int64_t first_above(const struct value *v, int64_t n, double limit)
{
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        if ((double)v[mid].x > limit)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

// Ends of the cells of ascending levels: cell k is [ends[k - 1], ends[k]); a value halfway belongs
// to the lower. True when an end moved.
static bool cells(int64_t *ends, const double *level, int K, const struct value *v, int64_t n)
{
    bool moved = false;
    for (int k = 0; k < K; k++) {
        const int64_t end = k + 1 < K ? first_above(v, n, (level[k] + level[k + 1]) / 2) : n;
        moved |= ends[k] != end;
        ends[k] = end;
    }
    return moved;
}

// Where Lloyd may start: levels at quantiles, which finds every value of a few distinct ones; or
// with the density of a good quantizer, the cube root of that of the values (Panter and Dite).
// Between quantiles a step d wide that is d^(2/3). 64 levels from quantiles would need thousands of
// rounds to reach the tails.
enum start { AT_QUANTILES, BY_DENSITY, N_STARTS };

static void start_levels(double *level, enum start start, int K, const struct value *v, int64_t n)
{
    double x[STRATA + 1], upto[STRATA + 1] = {0};
    for (int k = 0; k < K && start == AT_QUANTILES; k++)
        level[k] = (double)v[n * (2 * k + 1) / (2 * K)].x;
    if (start == AT_QUANTILES) return;
    for (int i = 0; i <= STRATA; i++)
        x[i] = (double)v[i < STRATA ? stratum(i, STRATA, n) : n - 1].x;
    for (int i = 0; i < STRATA; i++)
        upto[i + 1] = upto[i] + cbrt((x[i + 1] - x[i]) * (x[i + 1] - x[i]));
    for (int k = 0, i = 0; k < K; k++) {
        const double at = upto[STRATA] * (2 * k + 1) / (2 * K);
        while (i < STRATA - 1 && upto[i + 1] < at)
            i++;
        const double width = upto[i + 1] - upto[i];
        level[k] = x[i] + (width > 0 ? (at - upto[i]) / width : 0) * (x[i + 1] - x[i]);
    }
}

// Moves levels to a minimum and returns their weighted squared error. sum [n + 1]: of w and w * x
// before each value.
static double lloyd(double *level, int K, const struct value *v, int64_t n, const double (*sum)[2])
{
    int64_t ends[ENTRIES_MAX] = {0};
    for (int round = 0; cells(ends, level, K, v, n) && round < SCALAR_ITERATIONS; round++) {
        for (int k = 0; k < K; k++) {
            const int64_t begin = k ? ends[k - 1] : 0;
            const double w = sum[ends[k]][0] - sum[begin][0];
            if (!(w > 0)) continue;
            // Differences of sums lose digits where a cell has little weight: the mean lies inside.
            const double mean = (sum[ends[k]][1] - sum[begin][1]) / w;
            level[k] = fmin(fmax(mean, (double)v[begin].x), (double)v[ends[k] - 1].x);
        }
    }
    double error = 0;
    for (int k = 0; k < K; k++) {
        for (int64_t i = k ? ends[k - 1] : 0; i < ends[k]; i++) {
            const double d = (double)v[i].x - level[k];
            error += (double)v[i].w * d * d;
        }
    }
    return error;
}

static int fit_values(uint16_t *lut, double *inertia, int K, const float *W, const uint16_t *scale,
                      int64_t rows, int64_t cols, const struct fg_fit_options *o,
                      struct fg_error *err)
{
    const int64_t total = rows * cols, n = total < o->values ? total : o->values;
    struct value *v = malloc((size_t)n * sizeof *v);
    double(*sum)[2] = malloc((size_t)(n + 1) * sizeof *sum); // of w and w * x before each value
    int rc = 0;
    if (!v || !sum) {
        rc = fg_fail_memory(err, "samples", (uint64_t)n * (sizeof *v + sizeof *sum));
        goto end;
    }
    struct fg_random r = stream(o, "lloyd-sample");
    double weight = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = draw(&r, i, n, total);
        const float s = fg_f16_to_f32(scale[at / cols]);
        v[i].x = W[at] / s;
        v[i].w = col_weight(o, at % cols) * fg_fit_row_weight(o, at / cols, s);
        weight += (double)v[i].w;
    }
    qsort(v, (size_t)n, sizeof *v, by_x);
    sum[0][0] = sum[0][1] = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!(weight > 0)) v[i].w = 1;
        sum[i + 1][0] = sum[i][0] + (double)v[i].w;
        sum[i + 1][1] = sum[i][1] + (double)v[i].w * (double)v[i].x;
    }

    double least = 0;
    float values[ENTRIES_MAX];
    for (int start = 0; start < (K > 16 ? N_STARTS : 1); start++) {
        double level[ENTRIES_MAX];
        start_levels(level, (enum start)start, K, v, n);
        const double error = lloyd(level, K, v, n, sum);
        if (start && !(error < least)) continue;
        least = error;
        for (int k = 0; k < K; k++)
            values[k] = (float)level[k];
    }
    if (inertia) *inertia = least;
    if (o->int8_tables) to_grid(values, K, 1);
    if (!store(lut, values, K))
        rc = fg_fail(err, FG_EINPUT, "quantize", NULL, o->name, "values that F16 holds",
                     "a table value past 65504");
end:
    free(v);
    free(sum);
    return rc;
}

int fg_fit_table(uint16_t *lut, double *inertia, enum fg_qformat f, const float *W,
                 const uint16_t *scale, int64_t rows, int64_t cols, const struct fg_fit_options *o,
                 struct fg_error *err)
{
    const int K = fg_qformat_entries(f);
    if (fg_qformat_rows_per_index(f) == 2)
        return fit_pairs(lut, inertia, K, W, scale, rows, cols, o, err);
    return fit_values(lut, inertia, K, W, scale, rows, cols, o, err);
}
