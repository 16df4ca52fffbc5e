// text/chat_write.c: appending to prompt text with its list of stretches.
#include "text/chat_write.h"
#include <stdlib.h>

void fg_chat_segments_free(struct fg_chat_segments *segments)
{
    free(segments->items);
    *segments = (struct fg_chat_segments){0};
}

void fg_chat_cover(struct fg_chat_writer *w, bool given)
{
    struct fg_chat_segments *list = w->segments;
    if (!list || w->bytes->failed) return;
    struct fg_chat_segment *last = list->n ? &list->items[list->n - 1] : NULL;
    size_t covered = last ? last->at + last->n : 0, more = w->bytes->len - covered;
    if (more == 0) return;
    if (last && last->given == given) {
        last->n += more;
        return;
    }
    if (!list->items || list->n == list->cap) {
        size_t cap = list->cap ? list->cap + list->cap / 2 : 16;
        struct fg_chat_segment *grown = realloc(list->items, cap * sizeof *grown);
        if (!grown) {
            w->bytes->failed = true;
            return;
        }
        list->items = grown;
        list->cap = cap;
    }
    list->items[list->n++] = (struct fg_chat_segment){covered, more, given};
}

void fg_chat_mark(struct fg_chat_writer *w, const char *s)
{
    fg_buf_str(w->bytes, s);
    fg_chat_cover(w, false);
}

void fg_chat_given(struct fg_chat_writer *w, const char *s, size_t n)
{
    fg_buf_add(w->bytes, s, n);
    fg_chat_cover(w, true);
}

void fg_chat_copy(struct fg_chat_writer *w, const struct fg_chat_writer *src, size_t from,
                  size_t to)
{
    if (from == to) return;
    for (size_t i = 0; i < src->segments->n; i++) {
        const struct fg_chat_segment *s = &src->segments->items[i];
        size_t a = s->at > from ? s->at : from, b = s->at + s->n < to ? s->at + s->n : to;
        if (a >= b) continue;
        fg_buf_add(w->bytes, src->bytes->data + a, b - a);
        fg_chat_cover(w, s->given);
    }
}
