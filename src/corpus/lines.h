// corpus/lines.h: text files whose lines are JSON values, read line by line, with errors that name
// the line.
#ifndef FG_CORPUS_LINES_H
#define FG_CORPUS_LINES_H
#include "base/buf.h"
#include "base/error.h"
#include "base/jval.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FG_LINES_BYTES_MAX (4ull << 30) // of a file

struct fg_lines {
    struct fg_buf text;
    const char *what, *path; // for errors; they must stay
    size_t at;               // of the next line
    size_t number;           // of the line at hand, from 1
    bool whole;              // the line at hand ends in a newline
};
// Reads the file whole ("-": standard input). Errors: FG_EINPUT, FG_ERESOURCE.
int fg_lines_open(struct fg_lines *l, const char *what, const char *path, struct fg_error *err);
void fg_lines_close(struct fg_lines *l); // zeroed is fine
// The next line without its end; empty ones are skipped. False at the end of the file.
bool fg_lines_next(struct fg_lines *l, const char **s, size_t *n);
// Parses the line at hand, which must be an object. Errors: FG_EINPUT, FG_ERESOURCE.
int fg_lines_parse(const struct fg_lines *l, const char *s, size_t n, struct fg_jdoc *doc,
                   struct fg_error *err);
// FG_EINPUT, "line 3, FIELD".
int fg_lines_fail(const struct fg_lines *l, struct fg_error *err, const char *field,
                  const char *expected, const char *found, ...)
    __attribute__((format(printf, 5, 6)));
// "null", "a string", ...; "nothing" for NULL.
const char *fg_jval_kind(const struct fg_jval *v);
#endif
