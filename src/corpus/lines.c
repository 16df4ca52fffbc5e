// corpus/lines.c: lines of JSON.
#include "corpus/lines.h"
#include "base/file.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int fg_lines_open(struct fg_lines *l, const char *what, const char *path, struct fg_error *err)
{
    *l = (struct fg_lines){.what = what, .path = strcmp(path, "-") ? path : "standard input"};
    return fg_file_read(&l->text, path, FG_LINES_BYTES_MAX, err);
}

void fg_lines_close(struct fg_lines *l)
{
    fg_buf_free(&l->text);
}

bool fg_lines_next(struct fg_lines *l, const char **s, size_t *n)
{
    while (l->at < l->text.len) {
        const char *from = l->text.data + l->at;
        const char *stop = memchr(from, '\n', l->text.len - l->at);
        *s = from;
        *n = stop ? (size_t)(stop - from) : l->text.len - l->at;
        l->at += *n + (stop != NULL);
        l->number++;
        l->whole = stop != NULL;
        if (*n > 0 && from[*n - 1] == '\r') --*n;
        if (*n > 0) return true;
    }
    return false;
}

int fg_lines_parse(const struct fg_lines *l, const char *s, size_t n, struct fg_jdoc *doc,
                   struct fg_error *err)
{
    char name[600];
    snprintf(name, sizeof name, "%s, line %zu", l->path, l->number);
    int rc = fg_jdoc_parse(doc, s, n, name, err);
    if (rc || doc->root.kind == FG_JOBJECT) return rc;
    rc = fg_lines_fail(l, err, "value", "an object", "%s", fg_jval_kind(&doc->root));
    fg_jdoc_free(doc);
    return rc;
}

int fg_lines_fail(const struct fg_lines *l, struct fg_error *err, const char *field,
                  const char *expected, const char *found, ...)
{
    char name[160], text[256];
    va_list args;
    va_start(args, found);
    vsnprintf(text, sizeof text, found, args);
    va_end(args);
    snprintf(name, sizeof name, "line %zu, %s", l->number, field);
    return fg_fail(err, FG_EINPUT, l->what, l->path, name, expected, "%s", text);
}

const char *fg_jval_kind(const struct fg_jval *v)
{
    static const char *const names[] = {"null",     "a boolean", "a number",
                                        "a string", "an array",  "an object"};
    return v ? names[v->kind] : "nothing";
}
