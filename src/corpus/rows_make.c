// corpus/rows_make.c: cutting sources into rows.
#include "corpus/rows_make.h"
#include "base/buf.h"
#include "corpus/source.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "corpus"
#define NAME_MAX_SHOWN 64 // bytes of a source's name in metadata

const char *fg_corpus_kind_name(enum fg_corpus_kind kind)
{
    static const char *const names[] = {"text", "documents", "chats", "rows"};
    return names[kind];
}

// Rows that grow.
struct out {
    struct fg_ids ids, seq;
    int64_t n;
};

static bool put_row(struct out *o, const struct fg_source_unit *u, int64_t row, int64_t seq)
{
    const int32_t *ids = u->ids.data + row * seq, *of = u->seq.data + row * seq;
    o->n++;
    return fg_ids_add(&o->ids, ids, (size_t)seq) && fg_ids_add(&o->seq, of, (size_t)seq);
}

static void free_out(struct out *o)
{
    fg_ids_free(&o->ids);
    fg_ids_free(&o->seq);
}

static int64_t rows_of(const struct fg_source *s, size_t unit)
{
    return (int64_t)s->unit[unit].ids.n / s->job->seq;
}

// The source's next row goes to the rows or to those held out.
static bool take(struct fg_source *s, struct out *rows, struct out *held, size_t unit, int64_t row)
{
    int64_t every = s->job->holdout_every;
    bool hold = every > 0 && (s->facts.rows + 1) % every == 0;
    s->facts.rows++;
    s->facts.held += hold;
    return put_row(hold ? held : rows, &s->unit[unit], row, s->job->seq);
}

static int cut(struct fg_source *s, struct out *rows, struct out *held, struct fg_error *err)
{
    int64_t all = 0, most = 0;
    for (size_t i = 0; i < s->n; i++) {
        all += rows_of(s, i);
        if (rows_of(s, i) > most) most = rows_of(s, i);
    }
    int64_t want = s->rows > 0 ? s->rows : all;
    if (all < want || all == 0) {
        char expected[96];
        snprintf(expected, sizeof expected, "%" PRId64 " rows of %" PRId64 " tokens",
                 want > 0 ? want : 1, s->job->seq);
        return fg_fail(err, FG_EINPUT, WHAT, s->path, "rows", expected,
                       "%" PRId64 " (%" PRId64 " tokens in %" PRId64 " %s)", all, s->facts.tokens,
                       s->facts.documents, s->facts.documents == 1 ? "piece" : "pieces");
    }
    bool fits = true;
    // In turn: row 0 of every unit, row 1, ...; else all rows of a unit before the next.
    for (int64_t pass = 0; s->turns && pass < most; pass++) {
        for (size_t i = 0; i < s->n && s->facts.rows < want && fits; i++) {
            if (pass < rows_of(s, i)) fits = take(s, rows, held, i, pass);
        }
    }
    for (size_t i = 0; !s->turns && i < s->n; i++) {
        for (int64_t row = 0; row < rows_of(s, i) && s->facts.rows < want && fits; row++)
            fits = take(s, rows, held, i, row);
    }
    return fits ? 0 : fg_fail_memory(err, WHAT, rows->ids.n * sizeof *rows->ids.data);
}

// "wiki.txt:44, chat.jsonl:36": names without folders, and rows.
static void describe(char *out, size_t cap, const struct fg_corpus_rows_job *job,
                     const struct fg_corpus_source_facts *facts, bool held)
{
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < job->n_sources; i++) {
        char name[NAME_MAX_SHOWN + 8], part[NAME_MAX_SHOWN + 40];
        const char *path = job->sources[i].path, *slash = strrchr(path, '/');
        int64_t n = held ? facts[i].held : facts[i].rows - facts[i].held;
        fg_escape(name, sizeof name, slash ? slash + 1 : path, strlen(slash ? slash + 1 : path));
        size_t len = (size_t)snprintf(part, sizeof part, "%s%s:%" PRId64, i ? ", " : "", name, n);
        if (at + len + 8 > cap) {
            snprintf(out + at, cap - at, ", ...");
            return;
        }
        memcpy(out + at, part, len + 1);
        at += len;
    }
}

// Gives the arrays to *rows; none of them: an empty one.
static void give(struct fg_rows *rows, struct out *o, const struct fg_corpus_rows_job *job,
                 const struct fg_corpus_source_facts *facts, const char *tokenizer, bool held)
{
    rows->n = o->n;
    rows->seq = job->seq;
    rows->ids = o->ids.data;
    rows->seq_id = o->seq.data;
    o->ids.data = o->seq.data = NULL;
    rows->facts.seed = job->seed;
    memcpy(rows->facts.tokenizer_sha256, tokenizer, FG_SHA256_HEX);
    snprintf(rows->facts.split, sizeof rows->facts.split, "%.20s%s", job->split,
             held ? "-holdout" : "");
    describe(rows->facts.source, sizeof rows->facts.source, job, facts, held);
}

int fg_corpus_rows_make(struct fg_rows *rows, struct fg_rows *held,
                        struct fg_corpus_source_facts *facts, const struct fg_corpus_rows_job *job,
                        struct fg_error *err)
{
    char tokenizer[FG_SHA256_HEX];
    struct out kept = {0}, apart = {0};
    int32_t next_seq = 0;
    *rows = (struct fg_rows){0};
    if (held) *held = (struct fg_rows){0};
    int rc = forge_tokenizer_digest(job->engine, tokenizer, err);
    for (int i = 0; i < job->n_sources && !rc; i++) {
        struct fg_source s = {.job = job,
                              .path = job->sources[i].path,
                              .rows = job->sources[i].rows,
                              .next_seq = next_seq};
        if (job->stop && job->stop(job->ctx))
            rc = fg_fail(err, FG_EINTERRUPTED, WHAT, NULL, NULL, NULL, "stopped");
        if (!rc) rc = fg_source_read(&s, err);
        if (!rc) rc = cut(&s, &kept, &apart, err);
        facts[i] = s.facts;
        next_seq = s.next_seq;
        fg_source_free(&s);
    }
    if (!rc) {
        give(rows, &kept, job, facts, tokenizer, false);
        if (held && job->holdout_every) give(held, &apart, job, facts, tokenizer, true);
    }
    free_out(&kept);
    free_out(&apart);
    return rc;
}
