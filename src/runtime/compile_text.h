// runtime/compile_text.h: what a compilation says to people (specs: runtime 2.3), line by line,
// without the prefix "[compile] ".
#ifndef FG_RUNTIME_COMPILE_TEXT_H
#define FG_RUNTIME_COMPILE_TEXT_H
#include "runtime/compile.h"
#include <stddef.h>

#define FG_COMPILE_LINE 512 // bytes that every line fits

void fg_compile_line(char *out, size_t cap, const struct fg_compile_event *event);
#endif
