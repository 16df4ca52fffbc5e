// format/json_scan.h: a pull reader over JSON text of a known shape, for headers where a repeated
// key is an error (json-c merges repeated keys) and where a document tree would cost more than the
// data. Strict RFC 8259. Configuration files are read through base/json.h.
#ifndef FG_FORMAT_JSON_SCAN_H
#define FG_FORMAT_JSON_SCAN_H
#include "base/buf.h"
#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FG_SCAN_DEPTH_MAX 64

// The text must stay in place while it is scanned. `what` and `file` name the source in errors.
struct fg_scan {
    const char *text;
    size_t at, n; // next byte, bytes in all
    const char *what, *file;
};

// Starts at the first byte of n bytes. FG_EINPUT with the offset when they are not UTF-8.
int fg_scan_begin(struct fg_scan *s, const char *text, size_t n, const char *what, const char *file,
                  struct fg_error *err);
// Only white space may be left.
int fg_scan_end(struct fg_scan *s, struct fg_error *err);

// The next byte that is not white space, '\0' at the end. Consumes the white space only.
char fg_scan_peek(struct fg_scan *s);
// Consumes the punctuation c; FG_EINPUT when something else stands there.
int fg_scan_char(struct fg_scan *s, char c, struct fg_error *err);

// Steps through an object or array: call after the opening bracket has been consumed and after each
// element. *more tells whether another element follows; the comma, or the closing bracket `close`,
// is consumed. `first` starts as true and is kept by the caller.
int fg_scan_next(struct fg_scan *s, char close, bool *first, bool *more, struct fg_error *err);

// A string, unescaped to UTF-8, replacing out's content. U+0000 and lone surrogates are refused, so
// out->data is a C string.
int fg_scan_string(struct fg_scan *s, struct fg_buf *out, struct fg_error *err);
// A string and the colon after it.
int fg_scan_key(struct fg_scan *s, struct fg_buf *out, struct fg_error *err);
// A non-negative integer without fraction or exponent, up to 2^64 - 1.
int fg_scan_u64(struct fg_scan *s, uint64_t *out, struct fg_error *err);
// Any JSON number, as the nearest double; one past the largest double is refused.
int fg_scan_f64(struct fg_scan *s, double *out, struct fg_error *err);
int fg_scan_bool(struct fg_scan *s, bool *out, struct fg_error *err);
// Consumes a null where one stands.
int fg_scan_null(struct fg_scan *s, bool *was_null, struct fg_error *err);
// Any value, checked for syntax and depth.
int fg_scan_skip(struct fg_scan *s, struct fg_error *err);
// The same for a value of at most `levels` nested arrays and objects, up to FG_SCAN_DEPTH_MAX.
int fg_scan_skip_within(struct fg_scan *s, int levels, struct fg_error *err);

// How many of the n bytes come before the first that is not UTF-8; n when all are.
size_t fg_utf8_valid_bytes(const char *s, size_t n);
#endif
