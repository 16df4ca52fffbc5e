// format/json_fields.h: objects of known shape read by tables of fields, over the pull reader, with
// the JSON pointer (RFC 6901) of the value at hand in every error.
#ifndef FG_FORMAT_JSON_FIELDS_H
#define FG_FORMAT_JSON_FIELDS_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "format/json_scan.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FG_POINTER_BYTES 192    // longer pointers are cut
#define FG_FIELDS_INTS_MAX 1024 // elements of an array of numbers
#define FG_FIELDS_IGNORED_MAX 16

struct fg_fields {
    struct fg_scan s;
    struct fg_arena *arena; // of the caller's: texts and arrays
    struct fg_error *err;
    struct fg_buf text;             // scratch: the last key or string
    char pointer[FG_POINTER_BYTES]; // of the value at hand; on failure of the value at fault
    size_t pointer_n;
    int depth, depth_max;                       // nesting of arrays and objects
    void *ctx;                                  // the caller's
    const char *ignored[FG_FIELDS_IGNORED_MAX]; // pointers of the first keys that are in no table
    int n_ignored;
};

enum fg_field_kind {
    FG_FIELD_CUSTOM,     // read()
    FG_FIELD_TEXT,       // const char *
    FG_FIELD_MAYBE_TEXT, // the same; null gives NULL
    FG_FIELD_INTEGER,    // int64_t in [min, max]
    FG_FIELD_U64,        // uint64_t
    FG_FIELD_REAL,       // double
    FG_FIELD_SAME        // the text `is` and nothing else
};

#define FG_FIELD_NOWHERE SIZE_MAX // `at` of a number that is checked and not kept

struct fg_field {
    const char *key;
    enum fg_field_kind kind;
    bool optional;
    size_t at; // in the structure that the table is for
    int64_t min, max;
    const char *is;
    int (*read)(struct fg_fields *r, void *base);
};

// Every function below returns 0 or a code, FG_EINPUT or FG_ERESOURCE, with r->err filled.

// Steps into a member or an element; the result goes to fg_fields_pop once it has been read.
size_t fg_fields_push(struct fg_fields *r, const char *key);
size_t fg_fields_push_index(struct fg_fields *r, int64_t i);
void fg_fields_pop(struct fg_fields *r, size_t before);

// FG_EINPUT at the value at hand.
int fg_fields_fail(const struct fg_fields *r, const char *expected, const char *found);
// Passes on a result of json_scan.h, with the pointer put before the byte in an error.
int fg_fields_here(const struct fg_fields *r, int rc);

// Consumes an opening bracket; fg_fields_leave after its closing one has been consumed.
int fg_fields_enter(struct fg_fields *r, char open);
void fg_fields_leave(struct fg_fields *r);

int fg_fields_text(struct fg_fields *r, const char **out); // a string, copied
int fg_fields_int(struct fg_fields *r, int64_t min, int64_t max, int64_t *out);
// An array of at most FG_FIELDS_INTS_MAX numbers from 0, copied.
int fg_fields_ints(struct fg_fields *r, const int64_t **out, int64_t *n);
// An object with each of the n <= 32 fields at most once and those that are not optional exactly
// once, into the structure at base. Other keys are refused when strict, else skipped and noted.
int fg_fields_object(struct fg_fields *r, const struct fg_field *fields, size_t n, bool strict,
                     void *base);
#endif
