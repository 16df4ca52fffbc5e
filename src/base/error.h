// base/error.h: the one error type. A call that can fail returns 0 or one of the codes below, which
// are also the program's exit codes (specs: cli 1.4), and describes what happened in the caller's
// struct fg_error.
#ifndef FG_BASE_ERROR_H
#define FG_BASE_ERROR_H
#include <stddef.h>
#include <stdint.h>

enum {
    FG_OK = 0,
    FG_EFAILED = 1,       // the operation failed
    FG_EINPUT = 2,        // usage, or a malformed file, config or environment value
    FG_EINTEGRITY = 3,    // hash, size or identity differs from what was declared
    FG_ENETWORK = 4,      // network or hub failure
    FG_ERESOURCE = 5,     // not enough memory, disk or file handles
    FG_EBUSY = 6,         // lock held, port in use
    FG_EUNSUPPORTED = 7,  // this machine or build cannot do it
    FG_EINTERRUPTED = 130 // stopped by SIGINT after leaving a resumable state
};

// Filled by the failing call. Every string is NUL-terminated, control characters escaped, cut with
// "..." when too long. Empty strings are parts that do not apply.
struct fg_error {
    int code;
    char what[64];      // the subject in a word or two: "safetensors", "config", "tokenizer"
    char file[512];     // path of the file at fault
    char field[192];    // field, tensor, option or byte offset
    char expected[192]; // what would have been right
    char found[256];    // what was there
    char hint[256];     // a next step for the user
};

// Sets *err (NULL is fine: the code alone is returned) and returns `code`. Any string may be NULL.
// `found` is a printf format. The usual last line of a failing branch: return fg_fail(...).
int fg_fail(struct fg_error *err, int code, const char *what, const char *file, const char *field,
            const char *expected, const char *found, ...) __attribute__((format(printf, 7, 8)));

// An integer field outside [min, max]: FG_EINPUT.
int fg_fail_range(struct fg_error *err, const char *what, const char *file, const char *field,
                  int64_t min, int64_t max, int64_t found);

// errno of a system call on `file`: ENOSPC, EDQUOT, ENOMEM, EMFILE, ENFILE give FG_ERESOURCE, EIO
// gives FG_EFAILED, the others FG_EINPUT. `action` says what was tried: "open", "read", "rename".
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
#endif
