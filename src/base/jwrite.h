// base/jwrite.h: JSON text written value by value, commas and escapes in place. For results whose
// shape is known in C; values that came in as JSON go through base/jval.h.
#ifndef FG_BASE_JWRITE_H
#define FG_BASE_JWRITE_H
#include "base/buf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Zeroed is an empty text. Running out of memory is remembered in buf.failed.
struct fg_jwrite {
    struct fg_buf buf;
    bool comma; // the next value needs one before it
};
void fg_jwrite_free(struct fg_jwrite *w); // and resets it to empty

// Inside an object every value has a key; in an array, and at the top, key is NULL.
void fg_jwrite_object(struct fg_jwrite *w, const char *key); // "{"
void fg_jwrite_array(struct fg_jwrite *w, const char *key);  // "["
void fg_jwrite_end_object(struct fg_jwrite *w);
void fg_jwrite_end_array(struct fg_jwrite *w);

// A string of n bytes; invalid UTF-8 becomes U+FFFD. NULL writes null.
void fg_jwrite_text(struct fg_jwrite *w, const char *key, const char *s, size_t n);
void fg_jwrite_str(struct fg_jwrite *w, const char *key, const char *s); // a C string or NULL
void fg_jwrite_int(struct fg_jwrite *w, const char *key, int64_t v);
void fg_jwrite_uint(struct fg_jwrite *w, const char *key, uint64_t v);
void fg_jwrite_num(struct fg_jwrite *w, const char *key, double v); // null when not finite
void fg_jwrite_bool(struct fg_jwrite *w, const char *key, bool v);
void fg_jwrite_null(struct fg_jwrite *w, const char *key);
#endif
