// eval/klk.c: sequences through the model, and through the reference where there is no cache, block
// by block; rows are scored by the pool.
#include "eval/klk.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/job_dir.h"
#include "base/progress.h"
#include "base/size.h"
#include "eval/klk_impl.h"
#include "eval/logprob.h"
#include "eval/report.h"
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_FACTS 13

// ---- one position

double fg_klk(const float *lp, const double *lq, int64_t k, bool whole)
{
    double kl = 0, sum_p = 0, sum_q = 0;
    for (int64_t j = 0; j < k; j++) {
        double p = exp((double)lp[j]);
        sum_p += p;
        sum_q += exp(lq[j]);
        if (p > 0) kl += p * ((double)lp[j] - lq[j]);
    }
    if (whole) return kl / sum_p - log(sum_p / sum_q);
    double p_t = fmax(1 - sum_p, FG_KLK_TAIL_MIN), q_t = fmax(1 - sum_q, FG_KLK_TAIL_MIN);
    return kl + p_t * (log(p_t) - log(q_t));
}

int fg_klk_self_check(struct fg_error *err)
{
    const float lp = logf(0.7f), logits[2] = {logf(0.6f), logf(0.4f)};
    const double lq = log(0.6);
    double kl = fg_klk(&lp, &lq, 1, false), lse, nll;
    int64_t best;
    bool sane = fg_lp_row(logits, 2, &lse, &best) && best == 0;
    nll = lse - (double)logits[1];
    if (sane && fabs(kl - 0.021601) < 1e-6 && fabs(nll + log(0.4)) < 1e-6) return 0;
    return fg_fail(err, FG_EFAILED, FG_KLK_WHAT, NULL, "self-check",
                   "KL 0.021601 and NLL 0.916291 of the closed forms", "%.9f and %.9f", kl, nll);
}

// ---- rows of a block

struct block {
    const struct fg_klk_run *r;
    const float *logits, *ref; // [rows][vocab] of the scored rows
    const int32_t *next;       // the token after each
    const int32_t *ids;        // of the cache [rows][stride]
    const float *lp;           // the same
    int64_t stride;
    struct fg_klk_part *part;
    int64_t at;   // place of row 0 in part
    double *work; // [threads][k]
    bool *bad;    // [rows]
};

static bool score_cached(const struct block *b, int64_t row, int worker, double lse, int64_t best)
{
    const struct fg_klk_run *r = b->r;
    const float *x = b->logits + row * r->vocab;
    const int32_t *ids = b->ids + row * b->stride;
    double *lq = b->work + (int64_t)worker * r->k;
    int64_t at = b->at + row;
    float *q = b->part->q + at * r->k;
    for (int64_t j = 0; j < r->k; j++) {
        lq[j] = (double)x[ids[j]] - lse;
        q[j] = (float)lq[j];
    }
    b->part->kl[at] = fg_klk(b->lp + row * b->stride, lq, r->k, r->whole);
    b->part->agree[at] = best == ids[0];
    return isfinite(b->part->kl[at]) != 0;
}

static bool score_full(const struct block *b, int64_t row, double lse, int64_t best)
{
    int64_t vocab = b->r->vocab, at = b->at + row, ref_best;
    const float *q = b->logits + row * vocab, *p = b->ref + row * vocab;
    double ref_lse, kl = 0;
    if (!fg_lp_row(p, vocab, &ref_lse, &ref_best)) return false;
    for (int64_t i = 0; i < vocab; i++) {
        double lp = (double)p[i] - ref_lse, e = exp(lp);
        if (e > 0) kl += e * (lp - ((double)q[i] - lse));
    }
    b->part->kl[at] = kl;
    b->part->agree[at] = best == ref_best;
    b->part->ref_nll[at] = ref_lse - (double)p[b->next[row]];
    return isfinite(kl) && isfinite(b->part->ref_nll[at]);
}

static void score_row(void *ctx, int64_t row, int worker)
{
    const struct block *b = ctx;
    const float *x = b->logits + row * b->r->vocab;
    double lse;
    int64_t best;
    b->bad[row] = true;
    if (!fg_lp_row(x, b->r->vocab, &lse, &best)) return;
    double nll = b->part->nll[b->at + row] = lse - (double)x[b->next[row]];
    b->bad[row] =
        !(b->ref ? score_full(b, row, lse, best) : score_cached(b, row, worker, lse, best)) ||
        !isfinite(nll);
}

// ---- sequences

struct work {
    struct fg_klk_run run;
    struct forge_session *session, *ref;
    float *logits, *ref_logits; // [rows][vocab]
    int32_t *ids;               // of the cache, [rows][its k]
    float *lp, *nll;
    double *lq; // [threads][k]
    bool *bad;  // [rows]
    struct fg_klk_part part;
    int64_t done, to_do; // rows
};

struct fg_klk_range fg_klk_range(const struct fg_klk_job *job, int64_t i)
{
    struct fg_eval_seq s = fg_eval_set_at(job->set, i);
    struct fg_klk_range r = {.first = job->skip_prefix};
    if (job->answers_only && s.plen - 1 > r.first) r.first = s.plen - 1;
    if (r.first < s.length - 1) r.n = s.length - 1 - r.first;
    return r;
}

static int64_t n_sequences(const struct fg_klk_job *job)
{
    return job->seqs > 0 && job->seqs < job->set->n ? job->seqs : job->set->n;
}

int64_t fg_klk_rows(const struct fg_klk_job *job)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < n_sequences(job); i++) {
        if (fg_klk_range(job, i).n > 0) rows += fg_eval_set_at(job->set, i).length - 1;
    }
    return rows;
}

// Rows [pos, pos + n) have run and the last n_out of them are scored.
static int score_block(struct work *w, int64_t seq, const struct fg_klk_range *range, int64_t pos,
                       int64_t n, int64_t n_out, const int32_t *ids, struct fg_error *err)
{
    const struct fg_klk_job *job = w->run.job;
    int64_t from = pos + n - n_out; // the first that is scored
    struct block b = {.r = &w->run,
                      .logits = w->logits,
                      .ref = w->ref_logits,
                      .next = ids + from + 1,
                      .ids = w->ids,
                      .lp = w->lp,
                      .part = &w->part,
                      .at = from - range->first,
                      .work = w->lq,
                      .bad = w->bad};
    if (job->teacher) {
        b.stride = fg_teacher_facts(job->teacher)->k;
        int rc = fg_teacher_read(job->teacher, seq, from, n_out, w->ids, w->lp, w->nll, err);
        if (rc) return rc;
        for (int64_t j = 0; j < n_out; j++)
            w->part.ref_nll[b.at + j] = (double)w->nll[j];
    }
    fg_pool_run(job->pool, n_out, score_row, &b);
    for (int64_t j = 0; j < n_out; j++) {
        if (!w->bad[j]) continue;
        char field[80];
        snprintf(field, sizeof field, "logits of sequence %" PRId64 ", position %" PRId64, seq,
                 from + j);
        return fg_fail(err, FG_EFAILED, FG_KLK_WHAT, NULL, field, "finite numbers", "others");
    }
    return 0;
}

static int run_sequence(struct work *w, int64_t i, const struct fg_klk_range *range,
                        struct fg_error *err)
{
    const struct fg_klk_job *job = w->run.job;
    struct fg_eval_seq s = fg_eval_set_at(job->set, i);
    double start = fg_clock();
    forge_session_reset(w->session);
    if (w->ref) forge_session_reset(w->ref);
    w->part.n = range->n;
    for (int64_t pos = 0; pos < s.length - 1;) {
        int64_t n = s.length - 1 - pos < job->rows ? s.length - 1 - pos : job->rows;
        int64_t silent = range->first - pos, n_out = silent <= 0 ? n : silent < n ? n - silent : 0;
        int rc = forge_session_run(w->session, s.ids + pos, n, n_out ? w->logits : NULL, n_out,
                                   NULL, NULL, err);
        if (!rc && w->ref)
            rc = forge_session_run(w->ref, s.ids + pos, n, n_out ? w->ref_logits : NULL, n_out,
                                   NULL, NULL, err);
        if (!rc && n_out) rc = score_block(w, i, range, pos, n, n_out, s.ids, err);
        if (rc) return rc;
        pos += n;
        w->done += n;
        if (job->progress && job->progress(job->ctx, w->done, w->to_do) != 0)
            return fg_fail(err, FG_EINTERRUPTED, FG_KLK_WHAT, NULL, NULL, NULL, "stopped");
    }
    w->part.seconds = fg_clock() - start;
    return 0;
}

static int do_sequence(struct work *w, int64_t i, struct fg_error *err)
{
    struct fg_klk_range range = fg_klk_range(w->run.job, i);
    bool found = false;
    if (range.n == 0) return 0;
    w->part.n = range.n;
    int rc = fg_klk_part_load(&w->run, i, &w->part, &found, err);
    if (rc) return rc;
    if (found) {
        w->run.result->sequences_found++;
        w->done += fg_eval_set_at(w->run.job->set, i).length - 1;
        return 0;
    }
    rc = run_sequence(w, i, &range, err);
    if (!rc) rc = fg_klk_part_save(&w->run, i, &w->part, err);
    return rc ? rc : fg_klk_log(&w->run, i, &w->part, err);
}

// ---- the whole

static int check_teacher(const struct fg_klk_job *job, int64_t vocab, struct fg_error *err)
{
    const struct fg_teacher_facts *f = fg_teacher_facts(job->teacher);
    char expected[96];
    if (f->vocab != vocab) {
        snprintf(expected, sizeof expected, "%" PRId64 ", the model's", vocab);
        return fg_fail(err, FG_EINTEGRITY, "teacher", NULL, "vocab", expected, "%" PRId64,
                       f->vocab);
    }
    if (f->tokenizer[0] && job->tokenizer[0] && strcmp(f->tokenizer, job->tokenizer) != 0) {
        snprintf(expected, sizeof expected, "%.16s..., the model's tokenizer", job->tokenizer);
        return fg_fail(err, FG_EINTEGRITY, "teacher", NULL, "tokenizer_sha256", expected,
                       "%.16s...", f->tokenizer);
    }
    if (f->f16) return fg_fail(err, FG_EINPUT, "teacher", NULL, "lp", "f32, for evaluation", "f16");
    if (job->topk > f->k) return fg_fail_range(err, "teacher", NULL, "--topk", 1, f->k, job->topk);
    return fg_teacher_check_set(job->teacher, job->set, err);
}

static int check(struct fg_klk_run *r, struct fg_error *err)
{
    const struct fg_klk_job *job = r->job;
    struct forge_engine_info info, ref;
    forge_engine_info(job->side.engine, &info);
    r->vocab = info.vocab;
    r->n = n_sequences(job);
    r->k = job->teacher ? job->topk : 0;
    r->whole = r->k == r->vocab;
    if (job->teacher) {
        int rc = check_teacher(job, r->vocab, err);
        if (rc) return rc;
    } else {
        forge_engine_info(job->reference->engine, &ref);
        if (ref.vocab != info.vocab)
            return fg_fail(err, FG_EINTEGRITY, FG_KLK_WHAT, NULL, "vocabulary of the reference",
                           "the model's", "%" PRId64, ref.vocab);
    }
    for (int64_t i = 0; i < r->n; i++)
        r->total += fg_klk_range(job, i).n;
    r->result->sequences = r->n;
    r->result->positions = r->total;
    if (r->total > 0) return 0;
    return fg_fail(err, FG_EINPUT, FG_KLK_WHAT, NULL, "options", "positions to score", "none");
}

static int open_session(struct forge_session **out, const struct fg_eval_side *side,
                        const struct fg_klk_job *job, struct fg_error *err)
{
    struct forge_session_options o = side->session;
    int64_t rows = job->set->longest - 1;
    o.capacity = forge_context_for(side->engine, rows);
    if (o.capacity == 0) {
        struct forge_engine_info info;
        char expected[64];
        forge_engine_info(side->engine, &info);
        snprintf(expected, sizeof expected, "at most %" PRId64 " tokens, the model's positions",
                 info.max_positions + 1);
        return fg_fail(err, FG_EINPUT, FG_KLK_WHAT, NULL, "longest sequence", expected, "%" PRId64,
                       rows + 1);
    }
    o.rows = job->rows;
    return forge_session_new(out, side->engine, &o, err);
}

static int allocate(struct work *w, struct fg_error *err)
{
    const struct fg_klk_job *job = w->run.job;
    int64_t k = job->teacher ? fg_teacher_facts(job->teacher)->k : 0, longest = 0;
    uint64_t logits = (uint64_t)job->rows * (uint64_t)w->run.vocab * sizeof(float);
    size_t entries = (size_t)(job->rows * k);
    for (int64_t i = 0; i < w->run.n; i++) {
        struct fg_klk_range range = fg_klk_range(job, i);
        if (range.n > longest) longest = range.n;
    }
    w->logits = fg_alloc_aligned(logits);
    if (job->reference) w->ref_logits = fg_alloc_aligned(logits);
    w->ids = malloc(entries * sizeof *w->ids + 1);
    w->lp = malloc(entries * sizeof *w->lp + 1);
    w->nll = malloc((size_t)job->rows * sizeof *w->nll);
    w->lq = malloc((size_t)fg_pool_threads(job->pool) * (size_t)w->run.k * sizeof *w->lq + 1);
    w->bad = malloc((size_t)job->rows * sizeof *w->bad);
    if (!w->logits || (job->reference && !w->ref_logits) || !w->ids || !w->lp || !w->nll ||
        !w->lq || !w->bad)
        return fg_fail_memory(err, "logits", logits);
    return fg_klk_part_new(&w->part, longest, w->run.k, err);
}

// What makes this another job, as text: `facts` [N_FACTS] points into numbers and the job.
struct facts {
    struct fg_job_fact list[N_FACTS];
    char topk[24], rows[24], skip[24], seqs[24], seed[24];
};

static int take_facts(struct fg_klk_run *r, struct facts *f, struct fg_error *err)
{
    const struct fg_klk_job *job = r->job;
    struct fg_buf text = {0};
    snprintf(f->topk, sizeof f->topk, "%" PRId64, r->k);
    snprintf(f->rows, sizeof f->rows, "%" PRId64, job->rows);
    snprintf(f->skip, sizeof f->skip, "%" PRId64, job->skip_prefix);
    snprintf(f->seqs, sizeof f->seqs, "%" PRId64, r->n);
    snprintf(f->seed, sizeof f->seed, "%" PRIu64, job->seed);
    const struct fg_job_fact list[N_FACTS] = {
        {"model", job->model_digest},
        {"reference",
         job->teacher ? fg_teacher_facts(job->teacher)->sha256 : job->reference_digest},
        {"reference_numerics", job->teacher ? "" : fg_eval_numerics_name(job->reference)},
        {"reference_kv_cache", job->teacher ? "" : fg_eval_kv_name(job->reference)},
        {"trace", job->set->sha256},
        {"--numerics", fg_eval_numerics_name(&job->side)},
        {"--kv-cache-dtype", fg_eval_kv_name(&job->side)},
        {"--topk", f->topk},
        {"--rows", f->rows},
        {"--skip-prefix", f->skip},
        {"--answers-only", job->answers_only ? "on" : "off"},
        {"--seqs", f->seqs},
        {"--seed", f->seed},
    };
    memcpy(f->list, list, sizeof list);
    for (int i = 0; i < N_FACTS; i++)
        fg_buf_printf(&text, "%s %s\n", list[i].name, list[i].value);
    bool made = !text.failed && fg_sha256_hex(text.data, text.len, r->job_hex);
    fg_buf_free(&text);
    return made ? 0 : fg_fail_memory(err, FG_KLK_WHAT, 0);
}

static int do_sequences(struct work *w, struct fg_error *err)
{
    const struct fg_klk_job *job = w->run.job;
    w->to_do = fg_klk_rows(job);
    int rc = open_session(&w->session, &job->side, job, err);
    if (!rc && job->reference) rc = open_session(&w->ref, job->reference, job, err);
    for (int64_t i = 0; i < w->run.n && !rc; i++)
        rc = do_sequence(w, i, err);
    return rc ? rc : fg_klk_report(&w->run, err);
}

static int run(struct work *w, struct fg_error *err)
{
    static const char *const owned[] = {"*.npy", "sequences.jsonl", "summary.json",
                                        "part-*.safetensors", NULL};
    const struct fg_klk_job *job = w->run.job;
    struct facts facts;
    struct fg_job_dir *dir;
    char *summary = fg_path_join(job->out, "summary.json");
    int rc = summary ? take_facts(&w->run, &facts, err) : fg_fail_memory(err, FG_KLK_WHAT, 0);
    if (!rc) rc = allocate(w, err);
    const struct fg_job_dir_options o = {.what = FG_KLK_WHAT,
                                         .dir = job->out,
                                         .facts = facts.list,
                                         .n = N_FACTS,
                                         .owned = owned,
                                         .restart = job->restart};
    if (!rc) rc = fg_job_dir_open(&dir, &o, err);
    if (!rc) {
        w->run.result->finished = fg_file_exists(summary);
        if (!w->run.result->finished) rc = do_sequences(w, err);
        if (!rc) fg_klk_clean(&w->run);
        fg_job_dir_close(dir);
    }
    free(summary);
    return rc;
}

int fg_klk_run(const struct fg_klk_job *job, struct fg_klk_result *result, struct fg_error *err)
{
    assert(job->rows >= 1 && job->skip_prefix >= 0 && !job->teacher != !job->reference);
    *result = (struct fg_klk_result){0};
    struct work w = {.run = {.job = job, .result = result}};
    int rc = fg_klk_self_check(err);
    if (!rc) rc = check(&w.run, err);
    if (!rc) rc = run(&w, err);
    forge_session_free(w.session);
    forge_session_free(w.ref);
    free(w.logits);
    free(w.ref_logits);
    free(w.ids);
    free(w.lp);
    free(w.nll);
    free(w.lq);
    free(w.bad);
    fg_klk_part_free(&w.part);
    return rc;
}
