// text/think.h: splits a reply, as it arrives, into reasoning and content (specs: server 5.5, 5.2).
// The marks are the tokens <think> and </think>, known by their ids: the same characters spelled
// with other tokens are text.
#ifndef FG_TEXT_THINK_H
#define FG_TEXT_THINK_H
#include "base/buf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fg_think {
    int32_t open_id, close_id; // -1: the vocabulary has no such token
    bool inside;               // in the reasoning
    bool text_seen;            // something other than blanks came since the last mark
    bool open_due, close_due;  // the mark was drawn; its characters are in, or about to be
    struct fg_buf held;        // what may still turn out to be a mark or a blank edge
};

// inside: the prompt ends in an open think block.
void fg_think_init(struct fg_think *t, int32_t open_id, int32_t close_id, bool inside);
void fg_think_free(struct fg_think *t);

// Takes a token and the text that became final with it (id -1: text without a token), and appends
// what is settled to *reasoning and *content. Reasoning loses leading newlines and trailing white
// space, content leading newlines; white space at the end of content is held until something
// follows. Memory that runs out is remembered in the buffers.
void fg_think_push(struct fg_think *t, int32_t id, const char *text, size_t n,
                   struct fg_buf *reasoning, struct fg_buf *content);
// The reply is over. Held white space of content is delivered when it was `cut` (token limit, stop
// string), dropped when the model ended its turn.
void fg_think_end(struct fg_think *t, bool cut, struct fg_buf *reasoning, struct fg_buf *content);
#endif
