// text/chat_python.h: what the templates borrow from Python: str.strip, json.dumps, str() and truth
// (specs/model.md, 13.3). Internal to chat_*.c and its tests, but for fg_chat_json.
#ifndef FG_TEXT_CHAT_PYTHON_H
#define FG_TEXT_CHAT_PYTHON_H
#include "base/buf.h"
#include "base/jval.h"
#include <stdbool.h>
#include <stddef.h>

// str.strip(): the bytes [*from, *to) of s without the white space of Unicode at both ends
// (U+0009-000D, 001C-0020, 0085, 00A0, 1680, 2000-200A, 2028, 2029, 202F, 205F, 3000). An empty
// result has *from == *to.
void fg_chat_strip(const char *s, size_t n, size_t *from, size_t *to);

// json.dumps(v, ensure_ascii=False) appended to b. Recursive: values built in C must not nest
// deeper than parsed ones (FG_JVAL_DEPTH_MAX).
void fg_chat_json(struct fg_buf *b, const struct fg_jval *v);

// str(v) appended to b: strings as they are, None, True, False, numbers as repr. Arrays and objects
// as JSON: no template prints one through str().
void fg_chat_str(struct fg_buf *b, const struct fg_jval *v);

// bool(v): NULL, null, false, zero and what is empty are false. A number for which memory is out
// counts as true.
bool fg_chat_truth(const struct fg_jval *v);
#endif
