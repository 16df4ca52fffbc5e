// base/jval.h: JSON values that keep what was written: the text of numbers, the order of keys,
// U+0000 in strings and keys. For JSON that is printed again, such as the tool schemas and
// arguments of a conversation; json-c (base/json.h, for config files) saturates integers outside
// 64 bits and cuts keys at U+0000.
#ifndef FG_BASE_JVAL_H
#define FG_BASE_JVAL_H
#include "base/arena.h"
#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define FG_JVAL_DEPTH_MAX 128 // nesting of arrays and objects

enum fg_jkind { FG_JNULL, FG_JBOOL, FG_JNUMBER, FG_JSTRING, FG_JARRAY, FG_JOBJECT };

struct fg_jmember;

// A value. What it points to belongs to the document that it was parsed from, or to whoever built
// it; values are copied freely.
struct fg_jval {
    enum fg_jkind kind;
    bool truth; // FG_JBOOL
    size_t n;   // bytes of text, number of items, number of members
    union {
        const char *text; // FG_JNUMBER: as written; FG_JSTRING: UTF-8, any byte, no NUL at the end
        const struct fg_jval *items;      // FG_JARRAY
        const struct fg_jmember *members; // FG_JOBJECT: keys in input order, each once
    };
};

struct fg_jmember {
    const char *key; // UTF-8, no NUL at the end
    size_t key_n;    // bytes
    struct fg_jval value;
};

struct fg_jdoc {
    struct fg_jval root;
    struct fg_arena arena; // everything that root points to
};

// Parses n bytes as one JSON value (RFC 8259) with nothing but white space around it. A key that
// repeats keeps its first place and its last value. A lone surrogate escape becomes U+FFFD.
// Memory: below 64 times n at its peak. Errors: FG_EINPUT with source name and line:column for bad
// syntax, invalid UTF-8, raw control characters in strings, depth past FG_JVAL_DEPTH_MAX;
// FG_ERESOURCE. On failure *doc is empty.
int fg_jdoc_parse(struct fg_jdoc *doc, const char *text, size_t n, const char *name,
                  struct fg_error *err);
void fg_jdoc_free(struct fg_jdoc *doc); // zeroed is fine

// The value of a key, NULL when absent. Anything but an object has no keys; NULL may be asked too.
// Linear in the number of members.
const struct fg_jval *fg_jval_get(const struct fg_jval *object, const char *key);

// True when v is the string s; false for NULL and for other kinds.
bool fg_jval_is(const struct fg_jval *v, const char *s);

// Values built in C; the pointers are kept, not copied, and may be NULL when n is 0.
static inline struct fg_jval fg_jval_bool(bool truth)
{
    return (struct fg_jval){.kind = FG_JBOOL, .truth = truth};
}
static inline struct fg_jval fg_jval_string(const char *text, size_t n)
{
    return (struct fg_jval){.kind = FG_JSTRING, .n = n, .text = n ? text : ""};
}
static inline struct fg_jval fg_jval_array(const struct fg_jval *items, size_t n)
{
    return (struct fg_jval){.kind = FG_JARRAY, .n = n, .items = items};
}
static inline struct fg_jval fg_jval_object(const struct fg_jmember *members, size_t n)
{
    return (struct fg_jval){.kind = FG_JOBJECT, .n = n, .members = members};
}
static inline struct fg_jmember fg_jmember_of(const char *key, struct fg_jval value)
{
    return (struct fg_jmember){.key = key, .key_n = strlen(key), .value = value};
}
#endif
