// corpus/source.c: sources that are texts and rows. Lines are in source_lines.c.
#include "corpus/source.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/utf8.h"
#include "corpus/lines.h"
#include "format/rows.h"
#include "text/unicode.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "corpus"

void fg_source_free(struct fg_source *s)
{
    for (size_t i = 0; i < s->n; i++) {
        fg_ids_free(&s->unit[i].ids);
        fg_ids_free(&s->unit[i].seq);
    }
    free(s->unit);
    s->unit = NULL;
    s->n = s->cap = 0;
}

struct fg_source_unit *fg_source_unit_new(struct fg_source *s)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 16;
        struct fg_source_unit *unit = realloc(s->unit, cap * sizeof *unit);
        if (!unit) return NULL;
        s->unit = unit;
        s->cap = cap;
    }
    s->unit[s->n] = (struct fg_source_unit){0};
    return &s->unit[s->n++];
}

bool fg_source_append(struct fg_source *s, struct fg_source_unit *u, const int32_t *ids, size_t n)
{
    int32_t seq = s->next_seq;
    if (!fg_ids_add(&u->ids, ids, n)) return false;
    for (size_t i = 0; i < n; i++) {
        if (!fg_ids_add(&u->seq, &seq, 1)) return false;
    }
    s->next_seq++;
    s->facts.documents++;
    s->facts.tokens += (int64_t)n;
    return true;
}

bool fg_source_enough(const struct fg_source *s)
{
    int64_t rows = 0, seq = s->job->seq;
    for (size_t i = 0; i < s->n; i++)
        rows += (int64_t)s->unit[i].ids.n / seq;
    // In turn: every row may be the first of its unit.
    if (s->turns) rows = (int64_t)s->n - (s->n && (int64_t)s->unit[s->n - 1].ids.n < seq);
    return s->rows > 0 && rows >= s->rows;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

// ---- a text

static int check_utf8(const struct fg_source *s, struct fg_buf *text, struct fg_error *err)
{
    struct fg_buf repaired = {0};
    bool valid = true;
    size_t at = 0;
    while (at < text->len && valid) {
        size_t step =
            fg_utf8_step((const unsigned char *)text->data + at, text->len - at, &valid, NULL);
        at += valid ? step : 0;
    }
    if (valid) return 0;
    if (!s->job->replace_invalid) {
        int rc = fg_fail(err, FG_EINPUT, WHAT, s->path, "text", "UTF-8", "byte %zu is not", at);
        fg_error_hint(err, "--replace-invalid reads such bytes as U+FFFD");
        return rc;
    }
    fg_utf8_repair(&repaired, text->data, text->len);
    fg_buf_free(text);
    *text = repaired;
    return repaired.failed ? fg_fail_memory(err, WHAT, at) : 0;
}

static int read_text(struct fg_source *s, struct fg_error *err)
{
    struct fg_buf text = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    s->facts.kind = FG_CORPUS_TEXT;
    int rc = fg_file_read(&text, s->path, FG_LINES_BYTES_MAX, err);
    if (!rc) rc = check_utf8(s, &text, err);
    if (!rc)
        rc = forge_tokenize(s->job->engine, text.data ? text.data : "", text.len, false, &ids, &n,
                            err);
    if (!rc) {
        struct fg_source_unit *u = fg_source_unit_new(s);
        if (!u || !fg_source_append(s, u, ids, n)) rc = fg_fail_memory(err, WHAT, n * sizeof *ids);
    }
    free(ids);
    fg_buf_free(&text);
    return rc;
}

// ---- rows

static int append_rows(struct fg_source *s, const struct fg_rows *rows, struct fg_error *err)
{
    struct fg_source_unit *u = fg_source_unit_new(s);
    int64_t n = rows->n;
    if (s->rows > 0 && s->rows < n) n = s->rows;
    size_t total = (size_t)(n * rows->seq);
    int32_t last = 0;
    bool fits = u && fg_ids_add(&u->ids, rows->ids, total);
    for (size_t i = 0; i < total && fits; i++) {
        int32_t of = rows->seq_id ? rows->seq_id[i] : 0;
        if (of >= 0 && of > INT32_MAX - 1 - s->next_seq)
            return fg_fail(err, FG_EINPUT, WHAT, s->path, "seq_id", "fewer sequences", "%" PRId32,
                           of);
        if (of > last) last = of;
        int32_t number = of < 0 ? -1 : of + s->next_seq;
        fits = fg_ids_add(&u->seq, &number, 1);
    }
    if (!fits) return fg_fail_memory(err, WHAT, total * sizeof *rows->ids);
    s->next_seq += last + 1;
    s->facts.documents += last + 1;
    s->facts.tokens += (int64_t)total;
    return 0;
}

static int read_rows(struct fg_source *s, struct fg_error *err)
{
    struct fg_rows rows;
    char tokenizer[FG_SHA256_HEX];
    s->facts.kind = FG_CORPUS_ROWS;
    int rc = forge_tokenizer_digest(s->job->engine, tokenizer, err);
    if (!rc) rc = fg_rows_open(&rows, s->path, 0, s->job->seq, tokenizer, err);
    if (rc) return rc;
    rc = rows.mask ? fg_fail(err, FG_EINPUT, WHAT, s->path, "mask",
                             "rows whose positions all count", "a mask")
                   : append_rows(s, &rows, err);
    fg_rows_free(&rows);
    return rc;
}

int fg_source_read(struct fg_source *s, struct fg_error *err)
{
    if (ends_with(s->path, ".jsonl")) return fg_source_read_lines(s, err);
    if (ends_with(s->path, ".safetensors") || ends_with(s->path, ".npy")) return read_rows(s, err);
    return read_text(s, err);
}
