// corpus/pack.c: sequences into rows and traces.
#include "corpus/pack.h"
#include "base/file.h"
#include "base/hash.h"
#include "text/tokenizer.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "pack"

struct all {
    struct fg_sequences sequences;
    char tokenizer[FG_SHA256_HEX];
    uint64_t seed;
};

static int read_dir(struct all *all, const char *dir, bool partial, bool first,
                    struct fg_error *err)
{
    struct fg_sequences_about about;
    struct fg_sequences s = {0};
    uint64_t bytes;
    int rc = fg_sequences_about(&about, dir, err);
    if (rc) return rc;
    if (!about.complete && !partial) {
        rc = fg_fail(err, FG_EINPUT, WHAT, dir, "complete", "a run that has finished",
                     "one under way");
        fg_error_hint(err, "--partial takes what there is");
        return rc;
    }
    if (first) {
        memcpy(all->tokenizer, about.tokenizer_sha256, sizeof all->tokenizer);
        all->seed = about.seed;
    } else if (strcmp(all->tokenizer, about.tokenizer_sha256) != 0) {
        return fg_fail(err, FG_EINPUT, WHAT, dir, "tokenizer_sha256", all->tokenizer, "%s",
                       about.tokenizer_sha256);
    }
    char *path = fg_path_join(dir, FG_SEQUENCES_FILE);
    if (!path) return fg_fail_memory(err, WHAT, strlen(dir));
    rc = fg_sequences_read(&s, &bytes, path, err);
    if (!rc && about.complete && (int64_t)s.n != about.prompts)
        rc = fg_fail(err, FG_EINPUT, WHAT, path, "lines", "as many as prompts", "%zu of %" PRId64,
                     s.n, about.prompts);
    free(path);
    for (size_t i = 0; i < s.n && !rc; i++) {
        const struct fg_sequence *q = &s.item[i];
        if (!fg_sequences_add(&all->sequences, q->id, q->kind, q->finish, q->ids, q->n_prompt,
                              q->n))
            rc = fg_fail_memory(err, WHAT, (uint64_t)q->n * sizeof *q->ids);
    }
    fg_sequences_free(&s);
    return rc;
}

static int read_all(struct all *all, const struct fg_pack_job *job, struct fg_error *err)
{
    int rc = 0;
    *all = (struct all){0};
    for (int i = 0; i < job->n_dirs && !rc; i++)
        rc = read_dir(all, job->dirs[i], job->partial, i == 0, err);
    if (!rc && all->sequences.n == 0)
        rc = fg_fail(err, FG_EINPUT, WHAT, job->n_dirs ? job->dirs[0] : NULL, "sequences",
                     "at least one", "none");
    return rc;
}

bool fg_pack_is_held(const int32_t *prompt, int64_t n, double share)
{
    uint8_t digest[FG_SHA256_BYTES];
    struct fg_sha256 *h = fg_sha256_new();
    if (!h) return false;
    fg_sha256_add(h, prompt, (uint64_t)n * sizeof *prompt);
    fg_sha256_end_bytes(h, digest);
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v = v << 8 | digest[i];
    return (double)(v >> 11) * 0x1p-53 < share;
}

static void describe(struct fg_rows_facts *facts, const struct all *all,
                     const struct fg_pack_job *job, bool held)
{
    const char *slash = strrchr(job->dirs[0], '/');
    memcpy(facts->tokenizer_sha256, all->tokenizer, FG_SHA256_HEX);
    facts->seed = all->seed;
    snprintf(facts->split, sizeof facts->split, "%.20s%s", job->split, held ? "-holdout" : "");
    snprintf(facts->source, sizeof facts->source, "%.200s%s: %zu sequences",
             slash && slash[1] ? slash + 1 : job->dirs[0], job->n_dirs > 1 ? ", ..." : "",
             all->sequences.n);
}

// ---- rows

struct part {
    struct fg_ids ids, seq;
};

static bool put(struct part *p, const struct fg_sequence *s, int32_t number)
{
    bool fits = fg_ids_add(&p->ids, s->ids, (size_t)s->n);
    for (int64_t i = 0; i < s->n && fits; i++)
        fits = fg_ids_add(&p->seq, &number, 1);
    return fits;
}

static void give(struct fg_rows *rows, struct part *p, int64_t seq)
{
    rows->n = (int64_t)p->ids.n / seq;
    rows->seq = seq;
    if (rows->n == 0) return;
    rows->ids = p->ids.data;
    rows->seq_id = p->seq.data;
    *p = (struct part){0};
}

int fg_pack_rows(struct fg_rows *rows, struct fg_rows *held, struct fg_pack_facts *facts,
                 const struct fg_pack_job *job, struct fg_error *err)
{
    struct all all;
    struct part parts[2] = {0};
    *rows = *held = (struct fg_rows){0};
    *facts = (struct fg_pack_facts){0};
    int rc = read_all(&all, job, err);
    for (size_t i = 0; i < all.sequences.n && !rc; i++) {
        const struct fg_sequence *s = &all.sequences.item[i];
        bool apart = fg_pack_is_held(s->ids, s->n_prompt, job->holdout);
        facts->sequences++;
        facts->held += apart;
        facts->tokens += s->n;
        if (!put(&parts[apart], s, (int32_t)i))
            rc = fg_fail_memory(err, WHAT, (uint64_t)s->n * sizeof *s->ids);
    }
    if (!rc && (int64_t)parts[0].ids.n < job->seq) {
        char expected[64];
        snprintf(expected, sizeof expected, "%" PRId64 " for a row", job->seq);
        rc = fg_fail(err, FG_EINPUT, WHAT, job->dirs[0], "tokens", expected, "%zu", parts[0].ids.n);
    }
    if (!rc) {
        give(rows, &parts[0], job->seq);
        give(held, &parts[1], job->seq);
        describe(&rows->facts, &all, job, false);
        describe(&held->facts, &all, job, true);
    }
    for (int i = 0; i < 2; i++) {
        fg_ids_free(&parts[i].ids);
        fg_ids_free(&parts[i].seq);
    }
    fg_sequences_free(&all.sequences);
    return rc;
}

// ---- traces

static int label_of(struct fg_trace *t, const struct fg_sequence *s, uint8_t *out,
                    struct fg_error *err)
{
    int i = 0;
    if (!s->kind[0] || strlen(s->kind) >= sizeof t->labels[0])
        return fg_fail(err, FG_EINPUT, WHAT, NULL, s->id, "a kind of 1 to 31 bytes", "%zu",
                       strlen(s->kind));
    while (i < t->n_labels && strcmp(t->labels[i], s->kind) != 0)
        i++;
    if (i == FG_ROWS_LABELS_MAX)
        return fg_fail(err, FG_EINPUT, WHAT, NULL, s->id, "at most 64 kinds", "one more");
    if (i == t->n_labels) {
        memcpy(t->labels[i], s->kind, strlen(s->kind) + 1);
        t->n_labels++;
    }
    *out = (uint8_t)i;
    return 0;
}

static int fill(struct fg_trace *t, const struct fg_sequences *s, struct fg_error *err)
{
    uint64_t total = 0;
    for (size_t i = 0; i < s->n; i++)
        total += (uint64_t)s->item[i].n; // each below 2^25
    t->n = (int64_t)s->n;
    t->total = (int64_t)total;
    t->ids = malloc(total * sizeof *t->ids);
    t->lengths = malloc(s->n * sizeof *t->lengths);
    t->plens = malloc(s->n * sizeof *t->plens);
    t->starts = malloc(s->n * sizeof *t->starts);
    t->label = malloc(s->n);
    if (!t->ids || !t->lengths || !t->plens || !t->starts || !t->label)
        return fg_fail_memory(err, WHAT, total * sizeof *t->ids);
    int64_t at = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct fg_sequence *q = &s->item[i];
        int rc = label_of(t, q, &t->label[i], err);
        if (rc) return rc;
        memcpy(t->ids + at, q->ids, (size_t)q->n * sizeof *t->ids);
        t->lengths[i] = (int32_t)q->n;
        t->plens[i] = (int32_t)q->n_prompt;
        t->starts[i] = at;
        at += q->n;
        if (q->n > t->longest) t->longest = q->n;
    }
    return 0;
}

int fg_pack_trace(struct fg_trace *trace, struct fg_pack_facts *facts,
                  const struct fg_pack_job *job, struct fg_error *err)
{
    struct all all;
    *trace = (struct fg_trace){0};
    *facts = (struct fg_pack_facts){0};
    int rc = read_all(&all, job, err);
    if (!rc) rc = fill(trace, &all.sequences, err);
    if (!rc) {
        describe(&trace->facts, &all, job, false);
        facts->sequences = trace->n;
        facts->tokens = trace->total;
    } else {
        fg_trace_free(trace);
    }
    fg_sequences_free(&all.sequences);
    return rc;
}
