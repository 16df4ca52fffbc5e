// train/calib.c
#include "train/calib.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/num.h"
#include "base/size.h"
#include "format/gguf.h"
#include "format/rows.h"
#include "model/import.h"
#include "text/tokenizer.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "calibration"
#define TEXT_BYTES_MAX (1ull << 30)

int fg_calib_parse(struct fg_calib_source *source, const char *text, const char *field,
                   struct fg_error *err)
{
    const char *colon = strrchr(text, ':');
    size_t n = strlen(text);
    *source = (struct fg_calib_source){0};
    if (colon && colon[1] && strspn(colon + 1, "0123456789") == strlen(colon + 1)) {
        n = (size_t)(colon - text);
        if (!fg_parse_i64(colon + 1, &source->n) || source->n < 1) n = 0;
    }
    if (n == 0)
        return fg_fail(err, FG_EINPUT, "options", NULL, field, "FILE or FILE:ROWS, ROWS at least 1",
                       "%s", text);
    source->path = strndup(text, n);
    return source->path ? 0 : fg_fail_memory(err, WHAT, n);
}

// ---- sources

struct gather {
    const struct fg_calib_options *o;
    struct fg_calib *c;
    int64_t cap;                          // rows that ids has room for
    int64_t first[FG_CALIB_SOURCES_MAX];  // of each source
    int64_t n_rows[FG_CALIB_SOURCES_MAX]; // taken of it
    struct fg_tokenizer *tok;
};

static int64_t wanted(const struct gather *g, const struct fg_calib_source *s, int64_t there)
{
    int64_t n = s->n ? s->n : there;
    const int64_t left = g->o->rows ? g->o->rows - g->c->n : INT64_MAX;
    return n < left ? n : left;
}

static int refuse_few(const struct fg_calib_source *s, int64_t seq, int64_t there,
                      struct fg_error *err)
{
    char expected[96];
    snprintf(expected, sizeof expected, "%" PRId64 " rows of %" PRId64 " tokens",
             s->n ? s->n : (int64_t)1, seq);
    return fg_fail(err, FG_EINPUT, WHAT, s->path, "rows", expected, "%" PRId64, there);
}

static int take(struct gather *g, const int32_t *ids, int64_t n, struct fg_error *err)
{
    struct fg_calib *c = g->c;
    uint64_t bytes;
    if (c->n + n > g->cap) {
        const int64_t cap = c->n + n;
        if (!fg_mul(&bytes, (uint64_t)cap, (uint64_t)c->seq * sizeof *ids))
            return fg_fail_memory(err, WHAT, UINT64_MAX);
        int32_t *more = realloc(c->ids, bytes);
        if (!more) return fg_fail_memory(err, WHAT, bytes);
        c->ids = more;
        g->cap = cap;
    }
    memcpy(c->ids + c->n * c->seq, ids, (size_t)(n * c->seq) * sizeof *ids);
    c->n += n;
    return 0;
}

static int add_rows(struct gather *g, const struct fg_calib_source *s, struct fg_error *err)
{
    struct fg_rows rows;
    int rc = fg_rows_open(&rows, s->path, g->o->vocab, g->o->seq, NULL, err);
    if (rc) return rc;
    if (rows.n < (s->n ? s->n : 1)) rc = refuse_few(s, g->o->seq, rows.n, err);
    if (!rc) rc = take(g, rows.ids, wanted(g, s, rows.n), err);
    fg_rows_free(&rows);
    return rc;
}

static int open_tokenizer(struct gather *g, struct fg_error *err)
{
    struct fg_import *imp = NULL;
    if (g->tok) return 0;
    if (!fg_file_exists(g->o->model))
        return fg_tokenizer_open(&g->tok, g->o->model, g->o->log, err);
    int rc = fg_import_open(&imp, g->o->model, err);
    if (!rc) rc = fg_tokenizer_open_gguf(&g->tok, fg_import_gguf(imp), err);
    fg_import_close(imp);
    return rc;
}

static int add_text(struct gather *g, const struct fg_calib_source *s, struct fg_error *err)
{
    struct fg_buf text = {0};
    struct fg_ids ids = {0};
    int rc = open_tokenizer(g, err);
    if (!rc) rc = fg_file_read(&text, s->path, TEXT_BYTES_MAX, err);
    if (!rc) rc = fg_tokenizer_encode(g->tok, NULL, text.data, text.len, FG_TOK_PLAIN, &ids, err);
    const int64_t there = (int64_t)ids.n / g->o->seq;
    if (!rc && there < (s->n ? s->n : 1)) rc = refuse_few(s, g->o->seq, there, err);
    for (size_t i = 0; i < ids.n && !rc; i++) {
        if (ids.data[i] >= 0 && ids.data[i] < g->o->vocab) continue;
        rc = fg_fail(err, FG_EINPUT, WHAT, s->path, "tokens", "ids in the model's vocabulary", "%d",
                     ids.data[i]);
    }
    if (!rc) rc = take(g, ids.data, wanted(g, s, there), err);
    fg_ids_free(&ids);
    fg_buf_free(&text);
    return rc;
}

// ---- the set

static int hold_out(struct gather *g, struct fg_error *err)
{
    struct fg_calib *c = g->c;
    const struct fg_calib_options *o = g->o;
    int64_t used[FG_CALIB_SOURCES_MAX] = {0};
    c->held = calloc((uint64_t)c->n + 1, 1);
    if (!c->held) return fg_fail_memory(err, WHAT, (uint64_t)c->n);
    if (c->n <= o->holdout) {
        char expected[64];
        snprintf(expected, sizeof expected, "more rows than the %" PRId64 " held out", o->holdout);
        return fg_fail(err, FG_EINPUT, WHAT, NULL, "rows", expected, "%" PRId64, c->n);
    }
    for (int i = 0; c->n_held < o->holdout; i = (i + 1) % o->n_sources) {
        if (used[i] == g->n_rows[i]) continue;
        used[i]++;
        c->held[g->first[i] + g->n_rows[i] - used[i]] = 1;
        c->n_held++;
    }
    c->tokens = (c->n - c->n_held) * c->seq;
    return 0;
}

static int digest(struct fg_calib *c, struct fg_error *err)
{
    const int64_t extents[2] = {c->n, c->seq};
    struct fg_sha256 *h = fg_sha256_new();
    if (!h) return fg_fail_memory(err, WHAT, 0);
    fg_sha256_add(h, extents, sizeof extents);
    fg_sha256_add(h, c->ids, (uint64_t)(c->n * c->seq) * sizeof *c->ids);
    fg_sha256_add(h, c->held, (uint64_t)c->n);
    fg_sha256_end(h, c->sha256);
    return 0;
}

int fg_calib_open(struct fg_calib *out, const struct fg_calib_options *o, struct fg_error *err)
{
    struct gather g = {.o = o, .c = out};
    int rc = 0;
    *out = (struct fg_calib){.seq = o->seq};
    if (o->n_sources < 1 || o->n_sources > FG_CALIB_SOURCES_MAX)
        return fg_fail_range(err, WHAT, NULL, "sources", 1, FG_CALIB_SOURCES_MAX, o->n_sources);
    for (int i = 0; i < o->n_sources && !rc; i++) {
        const struct fg_calib_source *s = &o->sources[i];
        g.first[i] = out->n;
        if (!o->rows || out->n < o->rows)
            rc = s->text ? add_text(&g, s, err) : add_rows(&g, s, err);
        g.n_rows[i] = out->n - g.first[i];
    }
    fg_tokenizer_free(g.tok);
    if (!rc) rc = hold_out(&g, err);
    if (!rc) rc = digest(out, err);
    if (rc) fg_calib_free(out);
    return rc;
}

void fg_calib_free(struct fg_calib *c)
{
    free(c->ids);
    free(c->held);
    *c = (struct fg_calib){0};
}
