// base/json.h: JSON files through json-c with limits, and typed access that reports file and field.
// Values belong to the document; keep it while they are used. json-c keeps key order (a repeated
// key keeps its first place and last value) but cuts keys at U+0000 and saturates integers outside
// 64 bits; base/jval.h keeps what was written.
#ifndef FG_BASE_JSON_H
#define FG_BASE_JSON_H
#include "base/error.h"
#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#define FG_JSON_DEPTH_MAX 64 // nesting of arrays and objects

struct fg_json {
    struct json_object *root; // any JSON value; NULL for the literal null
    char *file;               // name for errors
};

// Parses n bytes of UTF-8 as one JSON value with nothing after it but white space. Refused with
// FG_EINPUT and "line L:C" (C in bytes): syntax errors, depth past FG_JSON_DEPTH_MAX, invalid
// UTF-8, raw control characters, NaN or Infinity literals, comments. `file` names the source. On
// failure *doc is empty.
int fg_json_parse(struct fg_json *doc, const char *text, size_t n, const char *file,
                  struct fg_error *err);
// Reads and parses a file of at most max_bytes.
int fg_json_open(struct fg_json *doc, const char *path, uint64_t max_bytes, struct fg_error *err);
void fg_json_close(struct fg_json *doc); // zeroed is fine

// Fields of `obj` (an object of doc). `where` prefixes the field name in errors ("text_config."),
// may be "". A field that is absent or null leaves *out at the default and returns 0; *given (may
// be NULL) tells. Wrong types and values outside the range: FG_EINPUT. Integers written as 5.0 are
// accepted as 5, 5.5 is not, nor is INT64_MIN, which stands for whatever is smaller. Strings live
// in the document; *n may be NULL. An `obj` of NULL or of another type has no fields.
int fg_json_i64(const struct fg_json *doc, struct json_object *obj, const char *where,
                const char *key, int64_t def, int64_t min, int64_t max, int64_t *out, bool *given,
                struct fg_error *err);
int fg_json_f64(const struct fg_json *doc, struct json_object *obj, const char *where,
                const char *key, double def, double *out, bool *given,
                struct fg_error *err); // finite only
int fg_json_bool(const struct fg_json *doc, struct json_object *obj, const char *where,
                 const char *key, bool def, bool *out, bool *given, struct fg_error *err);
int fg_json_str(const struct fg_json *doc, struct json_object *obj, const char *where,
                const char *key, const char *def, const char **out, size_t *n,
                struct fg_error *err);
// *out = NULL when absent or null.
int fg_json_obj(const struct fg_json *doc, struct json_object *obj, const char *where,
                const char *key, struct json_object **out, struct fg_error *err);
int fg_json_arr(const struct fg_json *doc, struct json_object *obj, const char *where,
                const char *key, struct json_object **out, struct fg_error *err);
// True when obj has the key with a value other than null.
bool fg_json_has(struct json_object *obj, const char *key);
#endif
