// corpus/prompts.c: lists of prompts and their files.
#include "corpus/prompts.h"
#include "base/buf.h"
#include "base/file.h"
#include "corpus/lines.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "prompts"

const char *fg_prompt_set_name(enum fg_prompt_set set)
{
    static const char *const names[] = {"dev", "select", "held", "sealed", "train"};
    return names[set];
}

static void free_prompt(struct fg_prompt *p)
{
    free(p->id);
    free(p->kind);
    free(p->json);
    free(p->said);
}

void fg_prompts_free(struct fg_prompts *p)
{
    for (size_t i = 0; i < p->n; i++)
        free_prompt(&p->item[i]);
    free(p->item);
    *p = (struct fg_prompts){0};
}

bool fg_prompts_add(struct fg_prompts *p, const char *id, const char *kind, const char *json,
                    const char *said)
{
    if (p->n == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 64;
        struct fg_prompt *item = realloc(p->item, cap * sizeof *item);
        if (!item) return false;
        p->item = item;
        p->cap = cap;
    }
    struct fg_prompt q = {strdup(id), strdup(kind), strdup(json), strdup(said)};
    if (!q.id || !q.kind || !q.json || !q.said) {
        free_prompt(&q);
        return false;
    }
    p->item[p->n++] = q;
    return true;
}

// ---- reading

// A string of `min` to `max` bytes without control characters.
static int take_name(const struct fg_lines *l, const struct fg_jval *line, const char *key,
                     size_t min, size_t max, char *out, struct fg_error *err)
{
    const struct fg_jval *v = fg_jval_get(line, key);
    char expected[64];
    out[0] = '\0';
    if (!v && min == 0) return 0;
    bool text = v && v->kind == FG_JSTRING, good = text && v->n >= min && v->n <= max;
    for (size_t i = 0; good && i < v->n; i++)
        good = (unsigned char)v->text[i] >= 0x20 && v->text[i] != 0x7F;
    if (good) {
        memcpy(out, v->text, v->n);
        out[v->n] = '\0';
        return 0;
    }
    snprintf(expected, sizeof expected, "a name of %zu to %zu bytes", min, max);
    return fg_lines_fail(l, err, key, expected, "%s",
                         text ? "another length, or control characters" : fg_jval_kind(v));
}

static void add_said(struct fg_buf *said, const struct fg_jval *content)
{
    if (!content) return;
    if (content->kind == FG_JSTRING) {
        if (said->len) fg_buf_char(said, '\n');
        for (size_t i = 0; i < content->n; i++) // a text of C strings has no NUL
            fg_buf_char(said, content->text[i] ? content->text[i] : ' ');
    }
    for (size_t i = 0; content->kind == FG_JARRAY && i < content->n; i++)
        add_said(said, fg_jval_get(&content->items[i], "text"));
}

static int take_line(const struct fg_lines *l, struct fg_prompts *out, const char *text, size_t n,
                     struct fg_error *err)
{
    char id[FG_PROMPT_ID_MAX + 1], kind[FG_PROMPT_KIND_MAX + 1];
    struct fg_jdoc doc;
    struct fg_buf said = {0}, line = {0};
    int rc = fg_lines_parse(l, text, n, &doc, err);
    if (rc) return rc;
    const struct fg_jval *messages = fg_jval_get(&doc.root, "messages");
    rc = take_name(l, &doc.root, "id", 1, FG_PROMPT_ID_MAX, id, err);
    if (!rc) rc = take_name(l, &doc.root, "kind", 0, FG_PROMPT_KIND_MAX, kind, err);
    if (!rc && (!messages || messages->kind != FG_JARRAY || messages->n == 0))
        rc = fg_lines_fail(l, err, "messages", "an array of messages", "%s",
                           messages && messages->kind == FG_JARRAY ? "an empty one"
                                                                   : fg_jval_kind(messages));
    for (size_t i = 0; !rc && messages && i < messages->n; i++) {
        const struct fg_jval *m = &messages->items[i];
        if (m->kind != FG_JOBJECT)
            rc = fg_lines_fail(l, err, "messages", "objects", "%s", fg_jval_kind(m));
        if (fg_jval_is(fg_jval_get(m, "role"), "user")) add_said(&said, fg_jval_get(m, "content"));
    }
    fg_buf_add(&line, text, n);
    if (!rc && (line.failed || said.failed ||
                !fg_prompts_add(out, id, kind, line.data, said.data ? said.data : "")))
        rc = fg_fail_memory(err, WHAT, n);
    fg_buf_free(&line);
    fg_buf_free(&said);
    fg_jdoc_free(&doc);
    return rc;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_ids(const struct fg_prompts *p, const char *path, struct fg_error *err)
{
    const char **ids = malloc(p->n * sizeof *ids);
    if (!ids) return fg_fail_memory(err, WHAT, p->n * sizeof *ids);
    for (size_t i = 0; i < p->n; i++)
        ids[i] = p->item[i].id;
    qsort(ids, p->n, sizeof *ids, by_id);
    int rc = 0;
    for (size_t i = 1; i < p->n && !rc; i++) {
        if (strcmp(ids[i], ids[i - 1]) == 0)
            rc = fg_fail(err, FG_EINPUT, WHAT, path, "id", "each id once", "%s twice", ids[i]);
    }
    free(ids);
    return rc;
}

int fg_prompts_read(struct fg_prompts *out, const char *path, struct fg_error *err)
{
    struct fg_lines l;
    const char *text;
    size_t n;
    *out = (struct fg_prompts){0};
    int rc = fg_lines_open(&l, WHAT, path, err);
    while (!rc && fg_lines_next(&l, &text, &n)) {
        rc = out->n < FG_PROMPTS_MAX ? take_line(&l, out, text, n, err)
                                     : fg_lines_fail(&l, err, "prompts", "at most 1000000", "more");
    }
    if (!rc && out->n == 0)
        rc = fg_fail(err, FG_EINPUT, WHAT, l.path, "lines", "at least one prompt", "none");
    if (!rc) rc = check_ids(out, l.path, err);
    fg_lines_close(&l);
    if (rc) fg_prompts_free(out);
    return rc;
}

// ---- writing

static bool file_text(const struct fg_prompts *p, struct fg_buf *out)
{
    for (size_t i = 0; i < p->n; i++) {
        fg_buf_str(out, p->item[i].json);
        fg_buf_char(out, '\n');
    }
    return !out->failed;
}

int fg_prompts_write(const char *path, const struct fg_prompts *p, struct fg_error *err)
{
    struct fg_buf text = {0};
    int rc = file_text(p, &text) ? fg_file_replace(path, text.data, text.len, err)
                                 : fg_fail_memory(err, WHAT, text.len);
    fg_buf_free(&text);
    return rc;
}

bool fg_prompts_digest(const struct fg_prompts *p, char hex[FG_SHA256_HEX])
{
    struct fg_buf text = {0};
    bool done = file_text(p, &text) && fg_sha256_hex(text.data, text.len, hex);
    fg_buf_free(&text);
    return done;
}
