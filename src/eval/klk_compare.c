// eval/klk_compare.c: two reports on the same positions against each other.
#include "base/file.h"
#include "eval/klk_summary.h"
#include "format/npy.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "compare"

// ---- the same metric?

static int differ(int code, const struct fg_klk_summary *a, const struct fg_klk_summary *b,
                  const char *field, const char *in_a, const char *in_b, struct fg_error *err)
{
    char expected[120];
    snprintf(expected, sizeof expected, "%.80s as the first report has it", in_a);
    int rc = fg_fail(err, code, WHAT, b->dir, field, expected, "%.80s", in_b);
    fg_error_hint(err,
                  "values under different options or references are different metrics; the "
                  "first report is %.120s",
                  a->dir);
    return rc;
}

static int same_digest(const struct fg_klk_summary *a, const struct fg_klk_summary *b,
                       const char *field, const char *in_a, const char *in_b, struct fg_error *err)
{
    return strcmp(in_a, in_b) == 0 ? 0 : differ(FG_EINTEGRITY, a, b, field, in_a, in_b, err);
}

static int same_number(const struct fg_klk_summary *a, const struct fg_klk_summary *b,
                       const char *field, int64_t in_a, int64_t in_b, struct fg_error *err)
{
    char x[24], y[24];
    if (in_a == in_b) return 0;
    snprintf(x, sizeof x, "%" PRId64, in_a);
    snprintf(y, sizeof y, "%" PRId64, in_b);
    return differ(FG_EINPUT, a, b, field, x, y, err);
}

static int check_same(const struct fg_klk_summary *a, const struct fg_klk_summary *b,
                      struct fg_error *err)
{
    int rc = same_digest(a, b, "trace_sha256", a->trace, b->trace, err);
    if (!rc) rc = same_digest(a, b, "reference_sha256", a->reference, b->reference, err);
    if (!rc) rc = same_digest(a, b, "reference_numerics", a->ref_numerics, b->ref_numerics, err);
    if (!rc) rc = same_digest(a, b, "reference_kv_cache", a->ref_kv_cache, b->ref_kv_cache, err);
    if (!rc) rc = same_number(a, b, "options.full", a->full, b->full, err);
    if (!rc) rc = same_number(a, b, "options.topk", a->k, b->k, err);
    if (!rc) rc = same_number(a, b, "options.skip_prefix", a->skip_prefix, b->skip_prefix, err);
    if (!rc) rc = same_number(a, b, "options.answers_only", a->answers_only, b->answers_only, err);
    if (!rc) rc = same_number(a, b, "options.seqs", a->seqs, b->seqs, err);
    if (!rc) rc = same_number(a, b, "vocab", a->vocab, b->vocab, err);
    if (!rc) rc = same_number(a, b, "sequences", a->n_sequences, b->n_sequences, err);
    for (int64_t i = 0; i < a->n_sequences && !rc; i++) {
        const struct fg_klk_sequence *x = &a->sequences[i], *y = &b->sequences[i];
        rc = same_number(a, b, "index of a sequence", x->index, y->index, err);
        if (!rc) rc = same_number(a, b, "positions of a sequence", x->positions, y->positions, err);
    }
    return rc;
}

// ---- arrays

static int open_array(struct fg_npy *npy, const struct fg_klk_summary *s, const char *name,
                      enum fg_npy_dtype dtype, int rank, int64_t width, struct fg_error *err)
{
    char *path = fg_path_join(s->dir, name), expected[80];
    if (!path) return fg_fail_memory(err, WHAT, strlen(s->dir));
    int rc = fg_npy_open(npy, path, err);
    if (!rc &&
        (npy->dtype != dtype || npy->rank != rank || npy->shape[0] != (uint64_t)s->all.positions ||
         (rank == 2 && npy->shape[1] != (uint64_t)width))) {
        snprintf(expected, sizeof expected, "%s of %" PRId64 " positions", fg_npy_dtype_name(dtype),
                 s->all.positions);
        rc = fg_fail(err, FG_EINPUT, WHAT, path, "shape", expected, "%s of %" PRIu64,
                     fg_npy_dtype_name(npy->dtype), npy->shape[0]);
        fg_npy_close(npy);
    }
    free(path);
    return rc;
}

// Sums of KL per sequence [n_sequences].
static int sums_of(const struct fg_klk_summary *s, double *sums, struct fg_error *err)
{
    struct fg_npy npy;
    int rc = open_array(&npy, s, "kl.npy", FG_NPY_F64, 1, 0, err);
    if (rc) return rc;
    const uint8_t *at = npy.data;
    for (int64_t i = 0; i < s->n_sequences && !rc; i++) {
        sums[i] = 0;
        for (int64_t j = 0; j < s->sequences[i].positions; j++, at += sizeof(double)) {
            double kl;
            memcpy(&kl, at, sizeof kl);
            sums[i] += kl;
        }
        if (!isfinite(sums[i]))
            rc = fg_fail(err, FG_EINPUT, WHAT, npy.map.path, NULL, "finite numbers",
                         "others in sequence %" PRId64, s->sequences[i].index);
    }
    fg_npy_close(&npy);
    return rc;
}

// ---- the change

struct pair {
    const struct fg_klk_summary *a, *b;
    double *sum_a, *sum_b; // [n_sequences]
    double *x, *y;         // the same, of a domain
    uint64_t seed;
};

// Of the sequences of a domain, -1: of all.
static int take_change(const struct pair *p, int domain, struct fg_klk_change *c,
                       struct fg_error *err)
{
    double total_a = 0, total_b = 0;
    *c = (struct fg_klk_change){0};
    for (int64_t i = 0; i < p->a->n_sequences; i++) {
        if (domain >= 0 && p->a->sequences[i].domain != domain) continue;
        p->x[c->sequences] = p->sum_a[i];
        p->y[c->sequences++] = p->sum_b[i];
        c->positions += p->a->sequences[i].positions;
        c->better += p->sum_b[i] < p->sum_a[i];
        c->worse += p->sum_b[i] > p->sum_a[i];
        total_a += p->sum_a[i];
        total_b += p->sum_b[i];
    }
    if (c->sequences == 0) return 0;
    c->mean_a = total_a / (double)c->positions;
    c->mean_b = total_b / (double)c->positions;
    int rc =
        fg_bootstrap(&c->change, p->y, p->x, c->sequences, FG_BOOTSTRAP_RESAMPLES, p->seed, err);
    c->change.value -= 1;
    c->change.lo -= 1;
    c->change.hi -= 1;
    return rc;
}

// ---- a against b directly

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct direct {
    struct fg_npy a, b;
    float *lp;
    double *lq;
    double *kl;        // [positions]
    double *sums, *ns; // [n_sequences]
};

static int all_kls(const struct pair *p, struct direct *d, struct fg_error *err)
{
    int64_t k = p->a->k, at = 0;
    bool whole = k == p->a->vocab;
    for (int64_t i = 0; i < p->a->n_sequences; i++) {
        d->sums[i] = 0;
        d->ns[i] = (double)p->a->sequences[i].positions;
        for (int64_t j = 0; j < p->a->sequences[i].positions; j++, at++) {
            const uint8_t *y = (const uint8_t *)d->b.data + at * k * 4;
            memcpy(d->lp, (const uint8_t *)d->a.data + at * k * 4, (size_t)k * sizeof *d->lp);
            for (int64_t v = 0; v < k; v++) {
                float lq;
                memcpy(&lq, y + 4 * v, sizeof lq);
                d->lq[v] = (double)lq;
            }
            d->kl[at] = fg_klk(d->lp, d->lq, k, whole);
            d->sums[i] += d->kl[at];
        }
        if (!isfinite(d->sums[i]))
            return fg_fail(err, FG_EINPUT, WHAT, d->a.map.path, NULL, "log-probabilities",
                           "others in sequence %" PRId64, p->a->sequences[i].index);
    }
    return 0;
}

static int take_direct(const struct pair *p, struct fg_klk_direct *out, struct fg_error *err)
{
    struct direct d = {0};
    size_t n = (size_t)p->a->all.positions, k = (size_t)p->a->k;
    *out = (struct fg_klk_direct){0};
    if (p->a->full) return 0;
    int rc = open_array(&d.a, p->a, "q_topk_lp.npy", FG_NPY_F32, 2, p->a->k, err);
    if (!rc) rc = open_array(&d.b, p->b, "q_topk_lp.npy", FG_NPY_F32, 2, p->a->k, err);
    d.lp = malloc(k * sizeof *d.lp);
    d.lq = malloc(k * sizeof *d.lq);
    d.kl = rc ? NULL : malloc(n * sizeof *d.kl);
    d.sums = malloc((size_t)p->a->n_sequences * sizeof *d.sums);
    d.ns = malloc((size_t)p->a->n_sequences * sizeof *d.ns);
    if (!rc && (!d.lp || !d.lq || !d.kl || !d.sums || !d.ns))
        rc = fg_fail_memory(err, WHAT, n * sizeof *d.kl);
    if (!rc) rc = all_kls(p, &d, err);
    if (!rc)
        rc = fg_bootstrap(&out->mean, d.sums, d.ns, p->a->n_sequences, FG_BOOTSTRAP_RESAMPLES,
                          p->seed, err);
    if (!rc) {
        qsort(d.kl, n, sizeof *d.kl, ascending);
        out->median = fg_eval_quantile(d.kl, (int64_t)n, 0.5);
        out->p99 = fg_eval_quantile(d.kl, (int64_t)n, 0.99);
        out->max = d.kl[n - 1];
        out->known = true;
    }
    fg_npy_close(&d.a);
    fg_npy_close(&d.b);
    free(d.lp);
    free(d.lq);
    free(d.kl);
    free(d.sums);
    free(d.ns);
    return rc;
}

int fg_klk_compare(struct fg_klk_comparison *out, const struct fg_klk_summary *a,
                   const struct fg_klk_summary *b, uint64_t seed, struct fg_error *err)
{
    size_t n = (size_t)a->n_sequences;
    struct pair p = {.a = a, .b = b, .seed = seed};
    *out = (struct fg_klk_comparison){0};
    int rc = check_same(a, b, err);
    if (rc) return rc;
    p.sum_a = malloc(n * sizeof *p.sum_a);
    p.sum_b = malloc(n * sizeof *p.sum_b);
    p.x = malloc(n * sizeof *p.x);
    p.y = malloc(n * sizeof *p.y);
    out->domains = calloc((size_t)a->n_domains + 1, sizeof *out->domains);
    if (!p.sum_a || !p.sum_b || !p.x || !p.y || !out->domains)
        rc = fg_fail_memory(err, WHAT, n * 32);
    if (!rc) rc = sums_of(a, p.sum_a, err);
    if (!rc) rc = sums_of(b, p.sum_b, err);
    if (!rc) rc = take_change(&p, -1, &out->all, err);
    for (int i = 0; i < a->n_domains && !rc; i++)
        rc = take_change(&p, i, &out->domains[i], err);
    if (!rc) rc = take_direct(&p, &out->direct, err);
    free(p.sum_a);
    free(p.sum_b);
    free(p.x);
    free(p.y);
    if (rc) {
        free(out->domains);
        *out = (struct fg_klk_comparison){0};
    }
    return rc;
}
