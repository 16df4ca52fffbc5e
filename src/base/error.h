// base/error.h: filling the one error type, forge/error.h's struct fg_error.
#ifndef FG_BASE_ERROR_H
#define FG_BASE_ERROR_H
#include "forge/error.h"
#include <stddef.h>
#include <stdint.h>

// Sets *err (NULL is fine: the code alone is returned) and returns `code`. Any string may be NULL.
// `found` is a printf format. The usual last line of a failing branch: return fg_fail(...).
int fg_fail(struct fg_error *err, int code, const char *what, const char *file, const char *field,
            const char *expected, const char *found, ...) __attribute__((format(printf, 7, 8)));

// An integer field outside [min, max]: FG_EINPUT.
int fg_fail_range(struct fg_error *err, const char *what, const char *file, const char *field,
                  int64_t min, int64_t max, int64_t found);

// errno of a system call on `file`: ENOSPC, EDQUOT, EFBIG, EROFS, ENOMEM, EMFILE, ENFILE give
// FG_ERESOURCE, EIO gives FG_EFAILED, the others FG_EINPUT. `action` says what was tried: "open",
// "read", "rename".
int fg_fail_errno(struct fg_error *err, const char *file, const char *action, int errnum);

// malloc or mmap of `bytes` for `what` failed: FG_ERESOURCE.
int fg_fail_memory(struct fg_error *err, const char *what, uint64_t bytes);

// Adds a next step for the user to an error that is already set. printf format.
void fg_error_hint(struct fg_error *err, const char *hint, ...)
    __attribute__((format(printf, 2, 3)));

// "WHAT: file F, field X: expected E, found G" into out (cut to cap); absent parts are left out.
// Returns out.
char *fg_error_line(const struct fg_error *err, char *out, size_t cap);

// Copies src (n bytes, need not be NUL-terminated, may be any bytes) to dst, escaping control
// characters as \n, \t, \xNN and keeping valid UTF-8; cut with "..." to fit cap. Always
// NUL-terminates. Returns dst.
char *fg_escape(char *dst, size_t cap, const char *src, size_t n);

#ifdef __clang_analyzer__ // sees one file at a time, and here that no failure returns 0
#define fg_fail(err, code, ...) ((void)fg_fail(err, code, __VA_ARGS__), (code))
#define fg_fail_range(...) ((void)fg_fail_range(__VA_ARGS__), FG_EINPUT)
#define fg_fail_errno(...) ((void)fg_fail_errno(__VA_ARGS__), FG_EINPUT)
#define fg_fail_memory(...) ((void)fg_fail_memory(__VA_ARGS__), FG_ERESOURCE)
#endif
#endif
