// eval/ppl.c: windows through one session or two, block by block; scores per token.
#include "eval/ppl.h"
#include "base/progress.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- rows of logits

// ln sum exp of a row and where its largest entry is; exps (NULL: unwanted) receives exp(x - max).
static double log_sum(const float *x, int64_t vocab, int64_t *best, double *exps)
{
    int64_t at = 0;
    for (int64_t i = 1; i < vocab; i++)
        at = x[i] > x[at] ? i : at;
    double max = (double)x[at], sum = 0;
    for (int64_t i = 0; i < vocab; i++) {
        double e = exp((double)x[i] - max);
        if (exps) exps[i] = e;
        sum += e;
    }
    *best = at;
    return max + log(sum);
}

double fg_eval_kl(const float *p, const float *q, int64_t vocab, double *work, bool *top1)
{
    int64_t best_p, best_q;
    double ln_p = log_sum(p, vocab, &best_p, work), ln_q = log_sum(q, vocab, &best_q, NULL);
    double inverse = exp((double)p[best_p] - ln_p), kl = 0; // 1 / sum
    for (int64_t i = 0; i < vocab; i++) {
        if (work[i] > 0) // what has no probability adds nothing, whatever q says
            kl += work[i] * inverse * (((double)p[i] - ln_p) - ((double)q[i] - ln_q));
    }
    *top1 = best_p == best_q;
    return kl;
}

double fg_eval_nll(const float *logits, int64_t vocab, int32_t id)
{
    int64_t best;
    return log_sum(logits, vocab, &best, NULL) - (double)logits[id];
}

double fg_eval_quantile(const double *v, int64_t n, double q)
{
    double at = (double)(n - 1) * q;
    int64_t below = (int64_t)at;
    if (below >= n - 1) return v[n - 1];
    return v[below] + (v[below + 1] - v[below]) * (at - (double)below);
}

// ---- scores

struct score {
    double nll, ref_nll, kl;
    bool top1, last; // last: in the last quarter of its window
};

struct run {
    const struct fg_eval_ppl *job;
    int64_t vocab;
    struct forge_session *session, *ref;
    float *logits, *ref_logits; // [rows][vocab]
    double *work;               // [vocab]
    struct score *scores;
    int64_t n_scores;
    int64_t done, total; // rows run
    struct fg_eval_ppl_result *result;
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Figures of all scores, or of those in the last quarters. `kl` has room for all.
static void summarize(struct fg_eval_ppl_figures *f, const struct run *r, bool last, double *kl)
{
    *f = (struct fg_eval_ppl_figures){0};
    int64_t same = 0;
    double sum = 0;
    for (int64_t i = 0; i < r->n_scores; i++) {
        const struct score *s = &r->scores[i];
        if (last && !s->last) continue;
        kl[f->tokens++] = s->kl;
        f->nll += s->nll;
        f->ref_nll += s->ref_nll;
        sum += s->kl;
        same += s->top1;
    }
    if (f->tokens == 0) return;
    double n = (double)f->tokens;
    f->nll /= n;
    f->ref_nll /= n;
    f->ppl = exp(f->nll);
    f->ref_ppl = exp(f->ref_nll);
    f->kl_mean = sum / n;
    f->top1 = (double)same / n;
    qsort(kl, (size_t)f->tokens, sizeof *kl, ascending);
    f->kl_median = fg_eval_quantile(kl, f->tokens, 0.5);
    f->kl_p99 = fg_eval_quantile(kl, f->tokens, 0.99);
    f->kl_max = kl[f->tokens - 1];
}

static void score_row(struct run *r, int64_t row, int32_t target, bool last)
{
    const float *q = r->logits + row * r->vocab;
    struct score *s = &r->scores[r->n_scores++];
    *s = (struct score){.nll = fg_eval_nll(q, r->vocab, target), .last = last};
    if (!r->ref) return;
    const float *p = r->ref_logits + row * r->vocab;
    s->ref_nll = fg_eval_nll(p, r->vocab, target);
    s->kl = fg_eval_kl(p, q, r->vocab, r->work, &s->top1);
}

// ---- windows

struct window {
    int64_t start, end; // tokens
    int64_t scored;     // the first that is
    int64_t last;       // from here on: the last quarter
};

static int64_t windows(const struct fg_eval_ppl *job)
{
    return job->n <= job->window ? 1 : (job->n - job->window) / job->stride + 1;
}

static struct window window_at(const struct fg_eval_ppl *job, int64_t i)
{
    struct window w = {.start = i * job->stride};
    int64_t size = job->n < job->window ? job->n : job->window;
    w.end = w.start + size;
    int64_t before = i == 0 ? 0 : w.end - job->stride; // where the window before ended
    w.scored = before > w.start + 1 ? before : w.start + 1;
    w.last = w.start + (size * 3 + 3) / 4;
    return w;
}

int64_t fg_eval_ppl_windows(const struct fg_eval_ppl *job, int64_t *rows_to_run)
{
    int64_t n = windows(job);
    struct window w = window_at(job, 0);
    *rows_to_run =
        n * (w.end - w.start - 1); // a window's last token predicts nothing that is in it
    return n;
}

static int run_rows(struct forge_session *s, const int32_t *ids, int64_t n, float *logits,
                    int64_t n_out, double *seconds, struct fg_error *err)
{
    double start = fg_clock();
    int rc = forge_session_run(s, ids, n, n_out ? logits : NULL, n_out, NULL, NULL, err);
    *seconds += fg_clock() - start;
    return rc;
}

static int run_window(struct run *r, const struct window *w, struct fg_error *err)
{
    const struct fg_eval_ppl *job = r->job;
    forge_session_reset(r->session);
    if (r->ref) forge_session_reset(r->ref);
    for (int64_t at = w->start; at < w->end - 1;) {
        int64_t n = w->end - 1 - at < job->rows ? w->end - 1 - at : job->rows;
        // Row i predicts token i + 1.
        int64_t silent = w->scored - 1 - at, n_out = silent <= 0 ? n : silent < n ? n - silent : 0;
        int rc = run_rows(r->session, job->ids + at, n, r->logits, n_out, &r->result->seconds, err);
        if (rc == 0 && r->ref)
            rc = run_rows(r->ref, job->ids + at, n, r->ref_logits, n_out, &r->result->ref_seconds,
                          err);
        if (rc) return rc;
        at += n;
        for (int64_t i = 0; i < n_out; i++) {
            int64_t target = at - n_out + i + 1;
            score_row(r, i, job->ids[target], target >= w->last);
        }
        r->done += n;
        if (job->progress && job->progress(job->ctx, r->done, r->total) != 0) {
            r->result->stopped = true;
            if (at < w->end - 1) return 0;
        }
    }
    r->result->windows++;
    return 0;
}

static int open_session(struct forge_session **out, const struct fg_eval_side *side,
                        const struct fg_eval_ppl *job, struct fg_error *err)
{
    struct forge_session_options o = side->session;
    int64_t rows = job->n < job->window ? job->n : job->window;
    if (o.capacity == 0) o.capacity = forge_context_for(side->engine, rows);
    if (o.capacity == 0) {
        struct forge_engine_info info;
        char expected[64];
        forge_engine_info(side->engine, &info);
        snprintf(expected, sizeof expected, "at most %lld, the model's positions",
                 (long long)info.max_positions);
        return fg_fail(err, FG_EINPUT, "perplexity", NULL, "window", expected, "%lld",
                       (long long)rows);
    }
    o.rows = job->rows;
    return forge_session_new(out, side->engine, &o, err);
}

static int check(const struct fg_eval_ppl *job, int64_t *vocab, struct fg_error *err)
{
    struct forge_engine_info info, ref;
    forge_engine_info(job->side.engine, &info);
    *vocab = info.vocab;
    if (job->against) {
        forge_engine_info(job->against->engine, &ref);
        if (ref.vocab != info.vocab)
            return fg_fail_range(err, "perplexity", NULL, "vocabulary of the reference", info.vocab,
                                 info.vocab, ref.vocab);
    }
    if (job->n < 2)
        return fg_fail(err, FG_EINPUT, "perplexity", NULL, "text", "at least 2 tokens", "%lld",
                       (long long)job->n);
    for (int64_t i = 0; i < job->n; i++) {
        if (job->ids[i] >= 0 && job->ids[i] < info.vocab) continue;
        char field[48];
        snprintf(field, sizeof field, "token %lld", (long long)i);
        return fg_fail_range(err, "token ids", NULL, field, 0, info.vocab - 1, job->ids[i]);
    }
    return 0;
}

int fg_eval_ppl(const struct fg_eval_ppl *job, struct fg_eval_ppl_result *result,
                struct fg_error *err)
{
    assert(job->window >= 2 && job->stride >= 1 && job->stride <= job->window && job->rows >= 1);
    *result = (struct fg_eval_ppl_result){0};
    struct run r = {.job = job, .result = result};
    int rc = check(job, &r.vocab, err);
    if (rc) return rc;
    int64_t n_windows = fg_eval_ppl_windows(job, &r.total);
    double *kl = calloc((size_t)job->n, sizeof *kl);
    size_t row_bytes = (size_t)r.vocab * sizeof(float);
    r.scores = calloc((size_t)job->n, sizeof *r.scores);
    r.logits = calloc((size_t)job->rows, row_bytes);
    r.ref_logits = job->against ? calloc((size_t)job->rows, row_bytes) : NULL;
    r.work = calloc((size_t)r.vocab, sizeof *r.work);
    if (!kl || !r.scores || !r.logits || !r.work || (job->against && !r.ref_logits))
        rc = fg_fail_memory(err, "logits", (uint64_t)job->rows * row_bytes);
    if (rc == 0) rc = open_session(&r.session, &job->side, job, err);
    if (rc == 0 && job->against) rc = open_session(&r.ref, job->against, job, err);
    for (int64_t i = 0; i < n_windows && rc == 0 && !result->stopped; i++) {
        struct window w = window_at(job, i);
        rc = run_window(&r, &w, err);
    }
    if (rc == 0) {
        struct window w = window_at(job, n_windows - 1);
        result->tokens_left_out = job->n - w.end;
        result->tokens_run = r.done;
        summarize(&result->all, &r, false, kl);
        summarize(&result->last, &r, true, kl);
    }
    forge_session_free(r.session);
    forge_session_free(r.ref);
    free(kl);
    free(r.scores);
    free(r.logits);
    free(r.ref_logits);
    free(r.work);
    return rc;
}
