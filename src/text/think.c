// text/think.c: reasoning and content of a reply.
#include "text/think.h"
#include <string.h>

static const char open_mark[] = "<think>", close_mark[] = "</think>";

void fg_think_init(struct fg_think *t, int32_t open_id, int32_t close_id, bool inside)
{
    *t = (struct fg_think){.open_id = open_id, .close_id = close_id, .inside = inside};
}

void fg_think_free(struct fg_think *t)
{
    fg_buf_free(&t->held);
}

static void drop_front(struct fg_buf *b, size_t n)
{
    if (n == 0) return;
    memmove(b->data, b->data + n, b->len - n + 1);
    b->len -= n;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Hands out the first n held bytes, without leading newlines, and keeps white space at their end
// back. all: white space too.
static void deliver(struct fg_think *t, size_t n, bool all, struct fg_buf *out)
{
    size_t skip = 0;
    while (!t->text_seen && skip < n && (t->held.data[skip] == '\n' || t->held.data[skip] == '\r'))
        skip++;
    drop_front(&t->held, skip);
    n -= skip;
    size_t end = n;
    while (!all && end > 0 && is_blank(t->held.data[end - 1]))
        end--;
    if (end == 0) return;
    t->text_seen = true;
    fg_buf_add(out, t->held.data, end);
    drop_front(&t->held, end);
}

// Where the mark stands in what is held; held.len when it is not there.
static size_t find(const struct fg_buf *held, const char *mark)
{
    const char *at = held->len ? memmem(held->data, held->len, mark, strlen(mark)) : NULL;
    return at ? (size_t)(at - held->data) : held->len;
}

void fg_think_push(struct fg_think *t, int32_t id, const char *text, size_t n,
                   struct fg_buf *reasoning, struct fg_buf *content)
{
    if (n) fg_buf_add(&t->held, text, n);
    if (t->held.failed) content->failed = true;
    if (id >= 0 && t->inside && id == t->close_id) t->close_due = true;
    // Only as the first thing of a reply does an opening mark open anything.
    if (id >= 0 && !t->inside && !t->text_seen && id == t->open_id) t->open_due = true;

    if (t->open_due) {
        size_t at = find(&t->held, open_mark);
        if (at == t->held.len) return; // held up by a possible stop string
        drop_front(&t->held, at + sizeof open_mark - 1);
        t->open_due = false;
        t->inside = true;
    }
    if (t->close_due) {
        size_t at = find(&t->held, close_mark);
        if (at == t->held.len) return;
        deliver(t, at, false, reasoning);
        drop_front(&t->held, find(&t->held, close_mark) + sizeof close_mark - 1); // blanks as well
        t->close_due = false;
        t->inside = false;
        t->text_seen = false;
    }
    deliver(t, t->held.len, false, t->inside ? reasoning : content);
}

void fg_think_end(struct fg_think *t, bool cut, struct fg_buf *reasoning, struct fg_buf *content)
{
    if (t->held.len) deliver(t, t->held.len, cut && !t->inside, t->inside ? reasoning : content);
    fg_buf_clear(&t->held);
}
