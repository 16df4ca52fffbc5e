// corpus/check.c: contamination.
#include "corpus/check.h"
#include "corpus/grams.h"
#include "corpus/marks.h"
#include "corpus/prompts.h"
#include "format/rows.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "check"

void fg_check_free(struct fg_check_result *r)
{
    for (size_t i = 0; i < r->n_pairs; i++) {
        free(r->pair[i].id);
        free(r->pair[i].other);
    }
    free(r->pair);
    free(r->trace);
    *r = (struct fg_check_result){0};
}

static int stopped(const struct fg_check_job *job, struct fg_error *err)
{
    if (!job->stop || !job->stop(job->ctx)) return 0;
    return fg_fail(err, FG_EINTERRUPTED, WHAT, NULL, NULL, NULL, "stopped");
}

// ---- prompts

// Evaluation prompts: their runs of words, and what they are called.
struct against {
    struct fg_gram_index runs;
    char **names; // [runs.n_sets]
    size_t n, cap;
};

static void free_against(struct against *a)
{
    fg_gram_index_free(&a->runs);
    for (size_t i = 0; i < a->n; i++)
        free(a->names[i]);
    free(a->names);
}

static bool grams_of(struct fg_grams *out, const char *text, int order)
{
    struct fg_words words = {0};
    bool fits = fg_words_add(&words, text, strlen(text)) && fg_grams_of(out, &words, order);
    fg_words_free(&words);
    return fits;
}

static bool add_name(struct against *a, const char *id, const char *file)
{
    if (a->n == a->cap) {
        size_t cap = a->cap ? a->cap * 2 : 512;
        char **names = realloc(a->names, cap * sizeof *names);
        if (!names) return false;
        a->names = names;
        a->cap = cap;
    }
    char *name = NULL;
    if (file) {
        if (asprintf(&name, "%s of %s", id, file) < 0) return false;
    } else {
        name = strdup(id);
    }
    if (!name) return false;
    a->names[a->n++] = name;
    return true;
}

static int add_against(struct against *a, const struct fg_prompts *p, const char *file,
                       struct fg_error *err)
{
    for (size_t i = 0; i < p->n; i++) {
        struct fg_grams runs = {0};
        bool fits = grams_of(&runs, p->item[i].said, FG_PROMPTS_RUN_ORDER) &&
                    fg_gram_index_add(&a->runs, &runs) && add_name(a, p->item[i].id, file);
        fg_grams_free(&runs);
        if (!fits) return fg_fail_memory(err, WHAT, p->n);
    }
    return 0;
}

static int open_against(struct against *a, const struct fg_check_job *job, struct fg_error *err)
{
    struct fg_prompts p;
    int rc = 0;
    for (int set = 0; set < FG_PROMPTS_TRAIN && !rc; set++) {
        rc = fg_prompts_eval(&p, (enum fg_prompt_set)set, err);
        if (rc) return rc;
        rc = add_against(a, &p, NULL, err);
        fg_prompts_free(&p);
    }
    for (int i = 0; i < job->n_against && !rc; i++) {
        rc = fg_prompts_read(&p, job->against[i], err);
        if (rc) return rc;
        rc = add_against(a, &p, job->against[i], err);
        fg_prompts_free(&p);
    }
    return rc;
}

static int add_pair(struct fg_check_result *r, const char *id, const char *other, double likeness,
                    struct fg_error *err)
{
    struct fg_check_pair *pair = realloc(r->pair, (r->n_pairs + 1) * sizeof *pair);
    if (!pair) return fg_fail_memory(err, WHAT, (r->n_pairs + 1) * sizeof *pair);
    r->pair = pair;
    pair[r->n_pairs] = (struct fg_check_pair){strdup(id), strdup(other), likeness};
    r->n_pairs++;
    if (pair[r->n_pairs - 1].id && pair[r->n_pairs - 1].other) return 0;
    return fg_fail_memory(err, WHAT, strlen(id));
}

// A prompt against evaluation, then against the prompts before it.
static int check_prompt(struct fg_check_result *r, const struct against *a,
                        struct fg_gram_index *before, const struct fg_prompts *p, size_t i,
                        char *const *ids, struct fg_error *err)
{
    struct fg_grams runs = {0}, alike = {0};
    int64_t other = -1;
    double likeness = 0;
    int rc = 0;
    bool fits = grams_of(&runs, p->item[i].said, FG_PROMPTS_RUN_ORDER) &&
                grams_of(&alike, p->item[i].said, FG_PROMPTS_LIKE_ORDER);
    if (fits && (other = fg_gram_index_first(&a->runs, &runs)) >= 0)
        rc = add_pair(r, p->item[i].id, a->names[other], 0, err);
    if (fits && !rc) rc = fg_gram_index_like(before, &alike, &other, &likeness, err);
    if (fits && !rc && other >= 0 && likeness >= FG_PROMPTS_LIKENESS)
        rc = add_pair(r, p->item[i].id, ids[other], likeness, err);
    if (fits && !rc) fits = fg_gram_index_add(before, &alike);
    fg_grams_free(&runs);
    fg_grams_free(&alike);
    return !fits && !rc ? fg_fail_memory(err, WHAT, p->n) : rc;
}

static int check_prompts(struct fg_check_result *r, const struct fg_check_job *job,
                         struct fg_error *err)
{
    struct against a = {0};
    struct fg_gram_index before = {0};
    char **ids = NULL;
    int rc = open_against(&a, job, err);
    r->n_against = a.n;
    for (int f = 0; f < job->n_prompts && !rc; f++) {
        struct fg_prompts p;
        rc = fg_prompts_read(&p, job->prompts[f], err);
        if (rc) break;
        char **more = realloc(ids, (r->n_prompts + p.n) * sizeof *ids);
        if (!more) rc = fg_fail_memory(err, WHAT, (r->n_prompts + p.n) * sizeof *ids);
        if (more) {
            ids = more;
            memset(ids + r->n_prompts, 0, p.n * sizeof *ids);
        }
        for (size_t i = 0; i < p.n && !rc; i++) {
            rc = stopped(job, err);
            if (!rc && !(ids[r->n_prompts] = strdup(p.item[i].id)))
                rc = fg_fail_memory(err, WHAT, p.n);
            if (rc) break;
            r->n_prompts++;
            rc = check_prompt(r, &a, &before, &p, i, ids, err);
        }
        fg_prompts_free(&p);
    }
    for (size_t i = 0; ids && i < r->n_prompts; i++)
        free(ids[i]);
    free(ids);
    fg_gram_index_free(&before);
    free_against(&a);
    return rc;
}

// ---- rows and traces

// Calls `visit` with the hash of every run of FG_CHECK_WINDOW ids that holds no template token.
static int each_run(struct fg_marks *m, const int32_t *ids, int64_t n,
                    bool (*visit)(void *ctx, uint64_t hash), void *ctx, struct fg_error *err)
{
    int64_t clean = 0;
    for (int64_t i = 0; i < n; i++) {
        bool mark;
        int rc = fg_marks_ask(m, ids[i], &mark, err);
        if (rc) return rc;
        clean = mark ? 0 : clean + 1;
        if (clean < FG_CHECK_WINDOW) continue;
        uint64_t hash = fg_gram_ids(ids + i + 1 - FG_CHECK_WINDOW, FG_CHECK_WINDOW);
        if (fg_marks_has(m, hash)) continue;
        if (!visit(ctx, hash)) return fg_fail_memory(err, WHAT, (uint64_t)n);
    }
    return 0;
}

static bool keep(void *ctx, uint64_t hash)
{
    return fg_gram_set_add(ctx, hash);
}

struct count {
    const struct fg_gram_set *rows;
    struct fg_check_trace *trace;
};

static bool compare(void *ctx, uint64_t hash)
{
    struct count *c = ctx;
    c->trace->windows++;
    c->trace->present += fg_gram_set_has(c->rows, hash);
    return true;
}

static int read_rows(struct fg_check_result *r, const struct fg_check_job *job,
                     struct fg_marks *marks, const char *tokenizer, struct fg_gram_set *runs,
                     struct fg_error *err)
{
    int rc = 0;
    for (int f = 0; f < job->n_rows && !rc; f++) {
        struct fg_rows rows;
        rc = fg_rows_open(&rows, job->rows[f], 0, 0, tokenizer, err);
        if (rc) return rc;
        for (int64_t i = 0; i < rows.n && !rc; i++) {
            rc = stopped(job, err);
            if (!rc) rc = each_run(marks, rows.ids + i * rows.seq, rows.seq, keep, runs, err);
        }
        r->rows += rows.n;
        r->row_tokens += rows.n * rows.seq;
        fg_rows_free(&rows);
    }
    return rc;
}

static int check_trace(struct fg_check_trace *t, const struct fg_check_job *job,
                       struct fg_marks *marks, const char *tokenizer,
                       const struct fg_gram_set *runs, struct fg_error *err)
{
    struct fg_trace trace;
    struct count c = {runs, t};
    int rc = fg_trace_open(&trace, t->path, 0, tokenizer, err);
    if (rc) return rc;
    for (int64_t i = 0; i < trace.n && !rc; i++) {
        rc = stopped(job, err);
        if (!rc)
            rc = each_run(marks, trace.ids + trace.starts[i], trace.lengths[i], compare, &c, err);
    }
    fg_trace_free(&trace);
    t->share = t->windows ? (double)t->present / (double)t->windows : 0;
    t->good = t->share <= job->share_max;
    return rc;
}

static int check_rows(struct fg_check_result *r, const struct fg_check_job *job,
                      struct fg_error *err)
{
    struct fg_marks marks = {0};
    struct fg_gram_set runs = {0};
    char tokenizer[65];
    r->trace = calloc((size_t)job->n_traces, sizeof *r->trace);
    if (!r->trace) return fg_fail_memory(err, WHAT, (uint64_t)job->n_traces * sizeof *r->trace);
    int rc = forge_tokenizer_digest(job->engine, tokenizer, err);
    if (!rc) rc = fg_marks_open(&marks, job->engine, FG_CHECK_WINDOW, err);
    if (!rc) rc = read_rows(r, job, &marks, tokenizer, &runs, err);
    for (int i = 0; i < job->n_traces && !rc; i++) {
        r->trace[i].path = job->traces[i];
        rc = check_trace(&r->trace[i], job, &marks, tokenizer, &runs, err);
        r->n_traces++;
    }
    fg_gram_set_free(&runs);
    fg_marks_close(&marks);
    return rc;
}

int fg_check_run(const struct fg_check_job *job, struct fg_check_result *r, struct fg_error *err)
{
    *r = (struct fg_check_result){0};
    int rc = job->n_prompts > 0 ? check_prompts(r, job, err) : 0;
    if (!rc && job->n_traces > 0) rc = check_rows(r, job, err);
    if (rc) {
        fg_check_free(r);
        return rc;
    }
    r->good = r->n_pairs == 0;
    for (int i = 0; i < r->n_traces; i++)
        r->good = r->good && r->trace[i].good;
    return 0;
}
