// quant/gptq_refine.c: coordinate descent on tr(E H E^T) over the indices, E = W - Q. With G = E H,
// the error as a function of one column of Q alone is least at
//
//   q_j + G_j / H_jj
//
// and rises with the square of the distance from there times H_jj: the best entry is the nearest to
// it, in the metric of the squares of the scales. Columns are treated in the order of the pass, in
// blocks of 128: within a block G is kept up to date by the block's own rows of H; what the block
// changed goes into all of G by one product.
//
// Indices that GPTQ left are a minimum already in most directions; to leave them, the first sweeps
// work on H + ridge * I with a ridge that is halved from sweep to sweep, and the last on H itself.
// The unit is what an error costs after feedback, 1 / U_ii^2, as a harmonic mean over the columns:
// mean(diag H) is many times as much where a few directions have all the energy. On matrices of
// SmolLM2, six sweeps so take another 1 to 3 % of the error of held-out rows beyond what they do
// without a ridge.
#include "quant/gptq_impl.h"
#include "quant/big.h"
#include "quant/jobs.h"
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK FG_LANES // columns; as many as lanes, so that rows of H fit where E was
#define TILE 512       // of H, to start G
// G is FP32. An index changes only where that takes a thousandth of the column's own error: far
// above the rounding of G, so that no change raises the error.
#define KEEPS 0.999f
#define RIDGE_MOST 2.0           // units
#define RIDGE_LEAST (1.0 / 16.0) // below that, none

struct refining {
    const struct fg_gptq_job *job;
    const double *H;
    const int32_t *perm;
    const uint8_t *dead;
    int sweeps;
    double unit;      // of the ridge
    uint8_t *scratch; // of all threads
    int64_t scratch_bytes;
};

// One thread's; panels and codes have their columns in natural order.
struct scratch {
    float *e;     // [panels][cols][FG_LANES] E; when G is there, rows of H: [BLOCK][cols]
    float *g;     // [panels][cols][FG_LANES] G = E H
    float *tile;  // [TILE][TILE] of H
    float *h;     // [BLOCK][BLOCK] of H: the block's columns
    float *gb;    // [BLOCK][FG_LANES] of G: the block's columns
    float *delta; // [BLOCK][FG_LANES] what was added to Q
    float *x, *target, *dist;
    uint8_t *code;          // [FG_LANES]
    struct fg_lanes *lanes; // [panels]
    bool *at_rest;          // [panels] the last sweep moved nothing
    bool *any;              // [panels] this sweep moved something
    uint8_t *codes;         // [panels][cols][FG_LANES / d]
    uint8_t *row;           // [cols]
};

static int64_t n_floats(const struct fg_gptq_job *job)
{
    return 2 * job->panels * job->cols * FG_LANES + TILE * TILE + BLOCK * BLOCK +
           2 * BLOCK * FG_LANES + 3 * FG_LANES;
}

static int64_t scratch_bytes(const struct fg_gptq_job *job)
{
    const int64_t bytes = n_floats(job) * (int64_t)sizeof(float) +
                          job->panels * (int64_t)(sizeof(struct fg_lanes) + 2 * sizeof(bool)) +
                          job->panels * job->cols * FG_LANES + job->cols + FG_LANES;
    return (bytes + 63) / 64 * 64;
}

static struct scratch split(const struct refining *r, int worker)
{
    const struct fg_gptq_job *job = r->job;
    const int64_t panels = job->panels * job->cols * FG_LANES;
    struct scratch s;
    s.e = (float *)(void *)(r->scratch + worker * r->scratch_bytes);
    s.g = s.e + panels;
    s.tile = s.g + panels;
    s.h = s.tile + TILE * TILE;
    s.gb = s.h + BLOCK * BLOCK;
    s.delta = s.gb + BLOCK * FG_LANES;
    s.x = s.delta + BLOCK * FG_LANES;
    s.target = s.x + FG_LANES;
    s.dist = s.target + FG_LANES;
    s.lanes = (struct fg_lanes *)(void *)(s.dist + FG_LANES);
    s.at_rest = (bool *)(s.lanes + job->panels);
    s.any = s.at_rest + job->panels;
    s.code = (uint8_t *)(s.any + job->panels);
    s.codes = s.code + FG_LANES;
    s.row = s.codes + panels;
    return s;
}

// s->e = W - Q.
static void load_errors(const struct refining *r, const struct scratch *s, int64_t panels)
{
    const struct fg_gptq_job *job = r->job;
    const int n = FG_LANES / fg_qformat_rows_per_index(job->rounder.format);
    for (int64_t p = 0; p < panels; p++) {
        float *e = s->e + p * job->cols * FG_LANES;
        const uint8_t *codes = s->codes + p * job->cols * FG_LANES;
        fg_lanes_load(e, job, &s->lanes[p], NULL);
        for (int64_t j = 0; j < job->cols; j++)
            for (int k = 0; k < FG_LANES; k++)
                e[j * FG_LANES + k] -= s->lanes[p].scale[k] *
                                       fg_rounder_value(&job->rounder, k / n, codes[j * n + k % n]);
    }
}

// g += more * e.
static void add_ridge(const struct refining *r, const struct scratch *s, int64_t panels, float more)
{
    for (int64_t i = 0; i < panels * r->job->cols * FG_LANES; i++)
        s->g[i] += more * s->e[i];
}

// Of the i-th sweep: twice the unit at most, halved from sweep to sweep, none in the last. Few
// sweeps start lower, so that the last before it has a quarter of the unit.
static float ridge_of(const struct refining *r, int i)
{
    if (i == r->sweeps - 1) return 0;
    const double first = fmin(RIDGE_MOST, ldexp(1, r->sweeps - 4)), ridge = ldexp(first, -i);
    return ridge < RIDGE_LEAST ? 0 : (float)(ridge * r->unit);
}

// g = e H of `panels` panels, in tiles of H on and above the diagonal, which serve twice.
static void start_g(const struct refining *r, const struct scratch *s, int64_t panels)
{
    const int64_t n = r->job->cols, panel = n * FG_LANES;
    memset(s->g, 0, (size_t)(panels * panel) * sizeof *s->g);
    for (int64_t i0 = 0; i0 < n; i0 += TILE) {
        const int64_t ni = n - i0 < TILE ? n - i0 : TILE;
        for (int64_t j0 = i0; j0 < n; j0 += TILE) {
            const int64_t nj = n - j0 < TILE ? n - j0 : TILE;
            for (int64_t i = 0; i < ni; i++)
                for (int64_t j = 0; j < nj; j++)
                    s->tile[i * TILE + j] = (float)r->H[(i0 + i) * n + j0 + j];
            for (int64_t k = 0; k < panels; k++) {
                const float *e = s->e + k * panel;
                float *g = s->g + k * panel;
                cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)ni, FG_LANES, (int)nj,
                            1.0f, s->tile, TILE, e + j0 * FG_LANES, FG_LANES, 1.0f,
                            g + i0 * FG_LANES, FG_LANES);
                if (j0 > i0)
                    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)nj, FG_LANES, (int)ni,
                                1.0f, s->tile, TILE, e + i0 * FG_LANES, FG_LANES, 1.0f,
                                g + j0 * FG_LANES, FG_LANES);
            }
        }
    }
}

// The best codes of one column, diagonal element h of H, given its G: codes, and delta = what they
// add to Q. Returns whether there is anything.
static bool refine_column(const struct fg_gptq_job *job, const struct scratch *s,
                          const struct fg_lanes *l, uint8_t *codes, const float *g, float h,
                          float *delta)
{
    const struct fg_rounder *r = &job->rounder;
    const int d = fg_qformat_rows_per_index(r->format), n = FG_LANES / d;
    bool any = false;
    for (int t = 0; t < d; t++)
        for (int i = 0; i < n; i++)
            s->target[t * n + i] = fg_rounder_value(r, t, codes[i]);
    for (int k = 0; k < FG_LANES; k++) {
        s->x[k] = s->target[k] += g[k] / (h * l->scale[k]);
        delta[k] = 0;
    }
    fg_lanes_round(s->code, s->x, job, l, s->dist);
    for (int i = 0; i < l->n_codes; i++) {
        if (s->code[i] == codes[i]) continue;
        float now = 0, then = 0;
        for (int t = 0; t < d; t++) {
            const int k = t * n + i;
            const float a = s->target[k] - fg_rounder_value(r, t, codes[i]),
                        b = s->target[k] - s->x[k];
            now += l->weight[k] * a * a;
            then += l->weight[k] * b * b;
        }
        if (!(then < KEEPS * now)) continue;
        for (int t = 0; t < d; t++) {
            const int k = t * n + i;
            delta[k] = l->scale[k] * s->x[k] - l->scale[k] * fg_rounder_value(r, t, codes[i]);
        }
        codes[i] = s->code[i];
        any = true;
    }
    return any;
}

// Columns perm[c0 .. c0 + nc) of a panel; s->e holds their rows of H. Returns whether any index
// changed; G is then up to date.
static bool refine_block(const struct refining *r, const struct scratch *s, float *g,
                         uint8_t *codes, const struct fg_lanes *l, int64_t c0, int64_t nc)
{
    const struct fg_gptq_job *job = r->job;
    const int n_codes = FG_LANES / fg_qformat_rows_per_index(job->rounder.format);
    const int32_t *perm = r->perm + c0;
    bool any = false;
    for (int64_t i = 0; i < nc; i++)
        memcpy(s->gb + i * FG_LANES, g + perm[i] * FG_LANES, FG_LANES * sizeof *g);
    for (int64_t s0 = 0; s0 < nc; s0 += FG_GPTQ_SUB) {
        const int64_t s1 = s0 + FG_GPTQ_SUB < nc ? s0 + FG_GPTQ_SUB : nc;
        bool some = false;
        for (int64_t i = s0; i < s1; i++) {
            float *delta = s->delta + i * FG_LANES;
            const float *h = s->h + i * BLOCK;
            if (r->dead[perm[i]]) { // nothing depends on it
                memset(delta, 0, FG_LANES * sizeof *delta);
                continue;
            }
            if (!refine_column(job, s, l, codes + perm[i] * n_codes, s->gb + i * FG_LANES, h[i],
                               delta))
                continue;
            some = true;
            for (int64_t j = i + 1; j < s1; j++)
                fg_lanes_subtract(s->gb + j * FG_LANES, h[j], delta);
        }
        any |= some;
        if (some && s1 < nc)
            cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)(nc - s1), FG_LANES,
                        (int)(s1 - s0), -1.0f, s->h + s0 * BLOCK + s1, BLOCK,
                        s->delta + s0 * FG_LANES, FG_LANES, 1.0f, s->gb + s1 * FG_LANES, FG_LANES);
    }
    if (any)
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)job->cols, FG_LANES, (int)nc,
                    -1.0f, s->e, (int)job->cols, s->delta, FG_LANES, 1.0f, g, FG_LANES);
    return any;
}

// One sweep over all columns of the panels that still move. Returns whether any did.
static bool sweep(const struct refining *r, const struct scratch *s, int64_t panels, float ridge)
{
    const int64_t n = r->job->cols, panel = n * FG_LANES;
    bool moves = false;
    memset(s->any, 0, (size_t)panels * sizeof *s->any);
    for (int64_t c0 = 0; c0 < n; c0 += BLOCK) {
        const int64_t nc = n - c0 < BLOCK ? n - c0 : BLOCK;
        for (int64_t i = 0; i < nc; i++) {
            const double *row = r->H + r->perm[c0 + i] * n;
            for (int64_t j = 0; j < n; j++)
                s->e[i * n + j] = (float)row[j];
            s->e[i * n + r->perm[c0 + i]] += ridge;
            for (int64_t j = 0; j < nc; j++)
                s->h[i * BLOCK + j] = s->e[i * n + r->perm[c0 + j]];
        }
        for (int64_t k = 0; k < panels; k++)
            if (!s->at_rest[k])
                s->any[k] |= refine_block(r, s, s->g + k * panel, s->codes + k * panel,
                                          &s->lanes[k], c0, nc);
    }
    for (int64_t k = 0; k < panels; k++) {
        s->at_rest[k] = !s->any[k];
        moves |= s->any[k];
    }
    return moves;
}

static void refine_item(void *ctx, int64_t item, int worker)
{
    const struct refining *r = ctx;
    const struct fg_gptq_job *job = r->job;
    const struct scratch s = split(r, worker);
    const int64_t first = item * job->panels, left = fg_gptq_panels(job) - first,
                  n = left < job->panels ? left : job->panels, panel = job->cols * FG_LANES;
    for (int64_t k = 0; k < n; k++) {
        fg_lanes_start(&s.lanes[k], job, first + k, true);
        fg_lanes_load_codes(s.codes + k * panel, job, &s.lanes[k], s.row);
        s.at_rest[k] = false;
    }
    load_errors(r, &s, n);
    start_g(r, &s, n);
    float ridge = 0;
    for (int i = 0; i < r->sweeps; i++) {
        const float next = ridge_of(r, i);
        if (next != ridge) {
            if (i) load_errors(r, &s, n);
            add_ridge(r, &s, n, next - ridge);
            memset(s.at_rest, 0, (size_t)n * sizeof *s.at_rest);
        }
        ridge = next;
        if (!sweep(r, &s, n, ridge) && ridge == 0) break;
    }
    for (int64_t k = 0; k < n; k++)
        fg_lanes_store_codes(s.codes + k * panel, job, &s.lanes[k], s.row);
}

int fg_gptq_refine(const struct fg_gptq_job *job, const struct fg_hessian *h,
                   const struct fg_gptq_factor *factor, int sweeps, struct fg_error *err)
{
    struct refining r = {.job = job, .H = h->H, .sweeps = sweeps};
    double sum = 0;
    for (int64_t i = 0; i < job->cols; i++) {
        const double u = (double)factor->U[i * job->cols + i];
        sum += factor->dead[factor->perm[i]] ? 0 : u * u;
    }
    r.perm = factor->perm;
    r.dead = factor->dead;
    r.unit = sum > 0 ? (double)(job->cols - factor->n_dead) / sum : 0;
    r.scratch_bytes = scratch_bytes(job);
    const uint64_t bytes = (uint64_t)(r.scratch_bytes * fg_job_threads(job->fit->pool));
    r.scratch = fg_big_alloc(bytes);
    if (!r.scratch) return fg_fail_memory(err, "refinement", bytes);
    openblas_set_num_threads(1);
    fg_job_run(job->fit->pool, fg_gptq_items(job), refine_item, &r);
    free(r.scratch);
    return 0;
}
