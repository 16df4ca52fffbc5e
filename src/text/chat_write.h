// text/chat_write.h: prompt text that remembers which stretches the conversation gave. Internal to
// chat_*.c.
#ifndef FG_TEXT_CHAT_WRITE_H
#define FG_TEXT_CHAT_WRITE_H
#include "text/chat_template.h"

// Running out of memory sets bytes->failed, for the segments too, and is checked once at the end.
struct fg_chat_writer {
    struct fg_buf *bytes;
    struct fg_chat_segments *segments; // NULL: not kept
};

// Makes everything that was appended to w->bytes since the last call one stretch of the given kind.
void fg_chat_cover(struct fg_chat_writer *w, bool given);

void fg_chat_mark(struct fg_chat_writer *w, const char *s);            // the template's own text
void fg_chat_given(struct fg_chat_writer *w, const char *s, size_t n); // the conversation's

// Appends bytes [from, to) of src, which keeps its stretches.
void fg_chat_copy(struct fg_chat_writer *w, const struct fg_chat_writer *src, size_t from,
                  size_t to);
#endif
