// base/buf.h: a byte buffer that grows. Appending remembers a failure, so a series of appends is
// checked once at the end.
#ifndef FG_BASE_BUF_H
#define FG_BASE_BUF_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fg_buf {
    char *data;  // NUL-terminated after every append (the NUL is not counted); NULL while empty
    size_t len;  // bytes
    size_t cap;  // bytes
    bool failed; // an append ran out of memory; data holds what came before
};

void fg_buf_free(struct fg_buf *b);                            // and resets it to empty
void fg_buf_clear(struct fg_buf *b);                           // len = 0, keeps memory
bool fg_buf_reserve(struct fg_buf *b, size_t more);            // room for `more` bytes beyond len
void fg_buf_add(struct fg_buf *b, const void *data, size_t n); // n bytes
void fg_buf_str(struct fg_buf *b, const char *s);              // a C string
void fg_buf_char(struct fg_buf *b, char c);                    // one byte
void fg_buf_printf(struct fg_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// s as a JSON string with quotes; invalid UTF-8 becomes U+FFFD; escapes as
// json.dumps(ensure_ascii=False) does.
void fg_buf_json_str(struct fg_buf *b, const char *s, size_t n);
#endif
