// eval/klk_report.c: finished sequences become arrays, lines and a summary.
#include "base/buf.h"
#include "base/file.h"
#include "base/jwrite.h"
#include "base/machine.h"
#include "eval/bootstrap.h"
#include "eval/klk_impl.h"
#include "eval/report.h"
#include "format/npy.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CONTROL_MAX 1e-9

// What a sequence adds up to.
struct sums {
    int64_t n, same;
    double kl, nll, ref_nll, seconds;
};

struct gather {
    const struct fg_klk_run *r;
    double *kl, *nll;  // [total]
    uint8_t *agree;    // [total]
    struct sums *sums; // [n]
    double *sorted;    // [total]
    double *num, *den; // [n]
};

static struct sums sums_of(const struct fg_klk_part *p)
{
    struct sums s = {.n = p->n, .seconds = p->seconds};
    for (int64_t j = 0; j < p->n; j++) {
        s.kl += p->kl[j];
        s.nll += p->nll[j];
        s.ref_nll += p->ref_nll[j];
        s.same += p->agree[j];
    }
    return s;
}

static void line_json(const struct fg_klk_run *r, int64_t i, const struct sums *s,
                      struct fg_jwrite *w)
{
    struct fg_eval_seq seq = fg_eval_set_at(r->job->set, i);
    double n = (double)s->n;
    fg_jwrite_object(w, NULL);
    fg_jwrite_int(w, "index", i);
    if (seq.label) fg_jwrite_str(w, "label", seq.label);
    fg_jwrite_int(w, "tokens", seq.length);
    fg_jwrite_int(w, "positions", s->n);
    fg_jwrite_num(w, "mean_kl", s->kl / n);
    fg_jwrite_num(w, "top1", (double)s->same / n);
    fg_jwrite_num(w, "ppl", exp(s->nll / n));
    fg_jwrite_num(w, "ref_ppl", exp(s->ref_nll / n));
    fg_jwrite_num(w, "seconds", s->seconds);
    fg_jwrite_end_object(w);
    fg_buf_char(&w->buf, '\n');
    w->comma = false;
}

// A path in the report directory; the caller's to free.
static int join(const struct fg_klk_run *r, const char *name, char **path, struct fg_error *err)
{
    *path = fg_path_join(r->job->out, name);
    return *path ? 0 : fg_fail_memory(err, FG_KLK_WHAT, strlen(r->job->out));
}

int fg_klk_log(const struct fg_klk_run *r, int64_t i, const struct fg_klk_part *p,
               struct fg_error *err)
{
    struct fg_jwrite w = {0};
    struct sums s = sums_of(p);
    char *path;
    line_json(r, i, &s, &w);
    int rc = join(r, "sequences.jsonl", &path, err);
    if (rc) {
        fg_jwrite_free(&w);
        return rc;
    }
    FILE *f = fopen(path, "ae");
    bool written = f && !w.buf.failed && fwrite(w.buf.data, 1, w.buf.len, f) == w.buf.len;
    if (f) written = fclose(f) == 0 && written;
    if (!written) rc = fg_fail_errno(err, path, "write", errno);
    free(path);
    fg_jwrite_free(&w);
    return rc;
}

// ---- figures

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool has_label(const struct fg_klk_run *r, int64_t i, const char *label)
{
    const char *is = fg_eval_set_at(r->job->set, i).label;
    return !label || (is && strcmp(is, label) == 0);
}

// Of the sequences with this label, NULL: of all. There is at least one position.
static int take_figures(struct gather *g, const char *label, struct fg_klk_figures *f,
                        struct fg_error *err)
{
    int64_t at = 0, same = 0;
    double nll = 0, ref_nll = 0;
    *f = (struct fg_klk_figures){0};
    for (int64_t i = 0; i < g->r->n; at += g->sums[i++].n) {
        const struct sums *s = &g->sums[i];
        if (s->n == 0 || !has_label(g->r, i, label)) continue;
        memcpy(g->sorted + f->positions, g->kl + at, (size_t)s->n * sizeof *g->kl);
        g->num[f->sequences] = s->kl;
        g->den[f->sequences++] = (double)s->n;
        f->positions += s->n;
        nll += s->nll;
        ref_nll += s->ref_nll;
        same += s->same;
    }
    double n = (double)f->positions;
    f->ppl = exp(nll / n);
    f->ref_ppl = exp(ref_nll / n);
    f->top1 = (double)same / n;
    qsort(g->sorted, (size_t)f->positions, sizeof *g->sorted, ascending);
    f->median = fg_eval_quantile(g->sorted, f->positions, 0.5);
    f->p95 = fg_eval_quantile(g->sorted, f->positions, 0.95);
    f->p99 = fg_eval_quantile(g->sorted, f->positions, 0.99);
    f->max = g->sorted[f->positions - 1];
    return fg_bootstrap(&f->mean, g->num, g->den, f->sequences, FG_BOOTSTRAP_RESAMPLES,
                        g->r->job->seed, err);
}

static void figures_json(struct fg_jwrite *w, const struct fg_klk_figures *f)
{
    fg_jwrite_int(w, "sequences", f->sequences);
    fg_jwrite_int(w, "positions", f->positions);
    fg_jwrite_num(w, "mean_kl", f->mean.value);
    fg_jwrite_array(w, "mean_kl_ci95");
    fg_jwrite_num(w, NULL, f->mean.lo);
    fg_jwrite_num(w, NULL, f->mean.hi);
    fg_jwrite_end_array(w);
    fg_jwrite_num(w, "median_kl", f->median);
    fg_jwrite_num(w, "p95_kl", f->p95);
    fg_jwrite_num(w, "p99_kl", f->p99);
    fg_jwrite_num(w, "max_kl", f->max);
    fg_jwrite_num(w, "top1", f->top1);
    fg_jwrite_num(w, "ppl", f->ppl);
    fg_jwrite_num(w, "ref_ppl", f->ref_ppl);
}

// Every label that a scored sequence has, in order of appearance.
static int domains_json(struct gather *g, struct fg_jwrite *w, struct fg_error *err)
{
    const struct fg_eval_set *set = g->r->job->set;
    int rc = 0;
    fg_jwrite_object(w, "domains");
    for (int64_t i = 0; i < g->r->n && !rc; i++) {
        const char *label = fg_eval_set_at(set, i).label;
        bool first = label && g->sums[i].n > 0;
        for (int64_t j = 0; j < i && first; j++)
            first = g->sums[j].n == 0 || !has_label(g->r, j, label);
        if (!first) continue;
        struct fg_klk_figures f;
        rc = take_figures(g, label, &f, err);
        fg_jwrite_object(w, label);
        figures_json(w, &f);
        fg_jwrite_end_object(w);
    }
    fg_jwrite_end_object(w);
    return rc;
}

// ---- the summary

static void options_json(const struct fg_klk_run *r, struct fg_jwrite *w)
{
    const struct fg_klk_job *job = r->job;
    fg_jwrite_object(w, "options");
    fg_jwrite_int(w, "topk", r->k);
    fg_jwrite_bool(w, "full", !job->teacher);
    fg_jwrite_int(w, "skip_prefix", job->skip_prefix);
    fg_jwrite_bool(w, "answers_only", job->answers_only);
    fg_jwrite_int(w, "seqs", r->n);
    fg_jwrite_end_object(w);
}

static void names_json(const struct fg_klk_run *r, struct fg_jwrite *w)
{
    const struct fg_klk_job *job = r->job;
    struct forge_engine_info info;
    char backend[48];
    forge_engine_info(job->side.engine, &info);
    snprintf(backend, sizeof backend, "cpu/%s", info.isa);
    fg_jwrite_str(w, "forge", forge_version());
    fg_jwrite_str(w, "command", job->command);
    fg_jwrite_str(w, "model", job->model);
    fg_jwrite_str(w, "model_digest", job->model_digest);
    fg_jwrite_str(w, "family", info.family);
    fg_jwrite_str(w, "plan", job->size.plan[0] ? job->size.plan : NULL);
    fg_jwrite_str(w, "numerics", fg_eval_numerics_name(&job->side));
    fg_jwrite_str(w, "kv_cache", fg_eval_kv_name(&job->side));
    fg_jwrite_str(w, "backend", backend);
    fg_jwrite_int(w, "threads", info.threads);
    fg_jwrite_str(w, "tokenizer_sha256", job->tokenizer);
    fg_jwrite_int(w, "vocab", r->vocab);
    fg_jwrite_str(w, "trace_sha256", job->set->sha256);
    if (job->teacher) {
        const struct fg_teacher_facts *f = fg_teacher_facts(job->teacher);
        fg_jwrite_str(w, "reference_sha256", f->sha256);
        fg_jwrite_str(w, "reference_model_digest", f->model);
        fg_jwrite_str(w, "reference_numerics", f->numerics);
        fg_jwrite_str(w, "reference_kv_cache", f->kv_cache);
    } else {
        fg_jwrite_str(w, "reference_model", job->reference_model);
        fg_jwrite_str(w, "reference_sha256", job->reference_digest);
        fg_jwrite_str(w, "reference_model_digest", job->reference_digest);
        fg_jwrite_str(w, "reference_numerics", fg_eval_numerics_name(job->reference));
        fg_jwrite_str(w, "reference_kv_cache", fg_eval_kv_name(job->reference));
    }
}

static void size_json(const struct fg_model_size *s, struct fg_jwrite *w)
{
    fg_jwrite_object(w, "size_bytes");
    fg_jwrite_uint(w, "weights", s->weights);
    fg_jwrite_uint(w, "factors", s->factors);
    fg_jwrite_uint(w, "embed", s->embed);
    fg_jwrite_uint(w, "small", s->small);
    fg_jwrite_uint(w, "total", s->total);
    fg_jwrite_end_object(w);
}

static int summary_json(struct gather *g, const struct fg_klk_figures *all, bool control,
                        struct fg_jwrite *w, struct fg_error *err)
{
    const struct fg_klk_run *r = g->r;
    double seconds = 0;
    for (int64_t i = 0; i < r->n; i++)
        seconds += g->sums[i].seconds;
    fg_jwrite_object(w, NULL);
    fg_jwrite_str(w, "status", "ok");
    fg_eval_report_head(w, "kl");
    names_json(r, w);
    fg_jwrite_int(w, "topk", r->k);
    options_json(r, w);
    fg_jwrite_bool(w, "control", control);
    figures_json(w, all);
    int rc = domains_json(g, w, err);
    fg_jwrite_object(w, "bootstrap");
    fg_jwrite_int(w, "resamples", FG_BOOTSTRAP_RESAMPLES);
    fg_jwrite_uint(w, "seed", r->job->seed);
    fg_jwrite_end_object(w);
    size_json(&r->job->size, w);
    fg_jwrite_int(w, "rows", r->job->rows);
    fg_jwrite_num(w, "seconds", seconds);
    fg_jwrite_end_object(w);
    fg_buf_char(&w->buf, '\n');
    if (!rc && w->buf.failed) rc = fg_fail_memory(err, FG_KLK_WHAT, w->buf.len);
    return rc;
}

// ---- files

static int allocate(struct gather *g, struct fg_error *err)
{
    size_t total = (size_t)g->r->total, n = (size_t)g->r->n;
    g->kl = malloc(total * sizeof *g->kl);
    g->nll = malloc(total * sizeof *g->nll);
    g->sorted = malloc(total * sizeof *g->sorted);
    g->agree = malloc(total);
    g->sums = calloc(n, sizeof *g->sums);
    g->num = malloc(n * sizeof *g->num);
    g->den = malloc(n * sizeof *g->den);
    if (g->kl && g->nll && g->sorted && g->agree && g->sums && g->num && g->den) return 0;
    return fg_fail_memory(err, FG_KLK_WHAT, total * 25 + n * 56);
}

// All parts in order, the model's log-probabilities into their file at once.
static int collect(struct gather *g, struct fg_klk_part *p, struct fg_npy_writer *q,
                   struct fg_error *err)
{
    const struct fg_klk_run *r = g->r;
    int64_t at = 0;
    for (int64_t i = 0; i < r->n; at += g->sums[i++].n) {
        bool found;
        p->n = fg_klk_range(r->job, i).n;
        if (p->n == 0) continue;
        int rc = fg_klk_part_load(r, i, p, &found, err);
        if (!rc && !found)
            rc = fg_fail(err, FG_EFAILED, FG_KLK_WHAT, r->job->out, "state",
                         "the finished sequences", "sequence %" PRId64 " is gone", i);
        if (!rc && r->k)
            rc = fg_npy_writer_add(q, p->q, (uint64_t)(p->n * r->k) * sizeof *p->q, err);
        if (rc) return rc;
        size_t n = (size_t)p->n;
        memcpy(g->kl + at, p->kl, n * sizeof *p->kl);
        memcpy(g->nll + at, p->nll, n * sizeof *p->nll);
        memcpy(g->agree + at, p->agree, n);
        g->sums[i] = sums_of(p);
    }
    return 0;
}

static int write_array(const struct fg_klk_run *r, const char *name, enum fg_npy_dtype dtype,
                       const void *data, struct fg_error *err)
{
    char *path;
    const uint64_t shape[] = {(uint64_t)r->total};
    int rc = join(r, name, &path, err);
    if (!rc) rc = fg_npy_write(path, dtype, 1, shape, data, err);
    free(path);
    return rc;
}

static int write_text(const struct fg_klk_run *r, const char *name, struct fg_jwrite *w,
                      struct fg_error *err)
{
    char *path;
    int rc = join(r, name, &path, err);
    if (!rc && w->buf.failed) rc = fg_fail_memory(err, FG_KLK_WHAT, w->buf.len);
    if (!rc) rc = fg_file_replace(path, w->buf.data, w->buf.len, err);
    free(path);
    return rc;
}

static int write_lines(const struct gather *g, struct fg_error *err)
{
    struct fg_jwrite w = {0};
    for (int64_t i = 0; i < g->r->n; i++) {
        if (g->sums[i].n) line_json(g->r, i, &g->sums[i], &w);
    }
    int rc = write_text(g->r, "sequences.jsonl", &w, err);
    fg_jwrite_free(&w);
    return rc;
}

// The model is the teacher's own, and runs as it did.
static bool is_control(const struct fg_klk_run *r)
{
    const struct fg_klk_job *job = r->job;
    const struct fg_teacher_facts *f = job->teacher ? fg_teacher_facts(job->teacher) : NULL;
    return f && strcmp(f->model, job->model_digest) == 0 &&
           strcmp(f->numerics, fg_eval_numerics_name(&job->side)) == 0 &&
           strcmp(f->kv_cache, fg_eval_kv_name(&job->side)) == 0 && !job->side.session.plain_kv &&
           job->side.session.attention == FORGE_ATTENTION_STORED;
}

static int check_control(const struct fg_klk_figures *f, struct fg_error *err)
{
    if (fabs(f->mean.value) < CONTROL_MAX && f->top1 == 1) return 0;
    return fg_fail(err, FG_EFAILED, FG_KLK_WHAT, NULL, "control",
                   "a model that agrees with its own cache: |mean KL| < 1e-9, top-1 1",
                   "%.3e, %.6f", f->mean.value, f->top1);
}

static int write_all(struct gather *g, struct fg_error *err)
{
    const struct fg_klk_run *r = g->r;
    struct fg_klk_figures all;
    struct fg_jwrite w = {0};
    bool control = is_control(r);
    int rc = take_figures(g, NULL, &all, err);
    if (!rc && control) rc = check_control(&all, err);
    if (!rc) rc = write_array(r, "kl.npy", FG_NPY_F64, g->kl, err);
    if (!rc) rc = write_array(r, "agreement.npy", FG_NPY_U8, g->agree, err);
    if (!rc) rc = write_array(r, "nll.npy", FG_NPY_F64, g->nll, err);
    if (!rc) rc = write_lines(g, err);
    if (!rc) rc = summary_json(g, &all, control, &w, err);
    if (!rc) rc = write_text(r, "summary.json", &w, err);
    fg_jwrite_free(&w);
    return rc;
}

int fg_klk_report(const struct fg_klk_run *r, struct fg_error *err)
{
    struct gather g = {.r = r};
    struct fg_klk_part part = {0};
    struct fg_npy_writer q = {0};
    int64_t longest = 0;
    char *path;
    for (int64_t i = 0; i < r->n; i++) {
        struct fg_klk_range range = fg_klk_range(r->job, i);
        if (range.n > longest) longest = range.n;
    }
    const uint64_t shape[] = {(uint64_t)r->total, (uint64_t)r->k};
    int rc = join(r, "q_topk_lp.npy", &path, err);
    if (!rc) rc = allocate(&g, err);
    if (!rc) rc = fg_klk_part_new(&part, longest, r->k, err);
    if (!rc && r->k) rc = fg_npy_writer_open(&q, path, FG_NPY_F32, 2, shape, err);
    if (!rc) rc = collect(&g, &part, &q, err);
    if (!rc && r->k) rc = fg_npy_writer_commit(&q, err);
    if (!rc) rc = write_all(&g, err);
    fg_npy_writer_abort(&q);
    fg_klk_part_free(&part);
    free(path);
    free(g.kl);
    free(g.nll);
    free(g.sorted);
    free(g.agree);
    free(g.sums);
    free(g.num);
    free(g.den);
    return rc;
}
