// corpus/phrase.c: slots and what they are bound to.
#include "corpus/phrase.h"
#include <inttypes.h>
#include <string.h>

static const struct fg_phrase_list *find_list(const struct fg_phrase *p, const char *name, size_t n)
{
    for (const struct fg_phrase_list *const *scope = p->scopes; *scope; scope++) {
        for (const struct fg_phrase_list *l = *scope; l->name; l++) {
            if (strncmp(l->name, name, n) == 0 && l->name[n] == '\0') return l;
        }
    }
    return NULL;
}

const char *fg_phrase_pick(struct fg_phrase *p, const char *list)
{
    const struct fg_phrase_list *l = find_list(p, list, strlen(list));
    if (!l) p->failed = true;
    return l ? l->item[fg_random_below(p->random, l->n)] : NULL;
}

// The binding of a slot's text; -1: none yet.
static int find_bound(const struct fg_phrase *p, const char *slot, size_t n)
{
    for (int i = 0; i < p->n_bound; i++) {
        if (p->bound[i].n == n && memcmp(p->bound[i].slot, slot, n) == 0) return i;
    }
    return -1;
}

static int bind(struct fg_phrase *p, const char *slot, size_t n)
{
    if (p->n_bound == FG_PHRASE_BOUND_MAX) {
        p->failed = true;
        return -1;
    }
    p->bound[p->n_bound].slot = slot;
    p->bound[p->n_bound].n = n;
    p->bound[p->n_bound].list = NULL;
    return p->n_bound++;
}

static bool is_taken(const struct fg_phrase *p, const struct fg_phrase_list *l, size_t pick)
{
    for (int i = 0; i < p->n_bound; i++) {
        if (p->bound[i].list == l && p->bound[i].pick == pick) return true;
    }
    return false;
}

// An item that no other slot of the list has: the k-th of those left.
static bool pick_free(struct fg_phrase *p, const struct fg_phrase_list *l, size_t *pick)
{
    size_t left = 0;
    for (size_t i = 0; i < l->n; i++)
        left += !is_taken(p, l, i);
    if (left == 0) return false;
    uint64_t k = fg_random_below(p->random, left);
    for (size_t i = 0; i < l->n; i++) {
        if (is_taken(p, l, i)) continue;
        if (k-- == 0) *pick = i;
    }
    return true;
}

static void expand(struct fg_phrase *p, struct fg_buf *out, const char *text, size_t n, int depth);

static void put_list(struct fg_phrase *p, struct fg_buf *out, const char *slot, size_t n, int depth)
{
    bool fresh = n > 1 && slot[0] == '*';
    slot += fresh;
    n -= fresh;
    bool upper = n > 2 && slot[0] == 'A' && slot[1] == ':';
    slot += upper ? 2 : 0;
    n -= upper ? 2 : 0;
    const char *mark = memchr(slot, '#', n), *item = NULL;
    int i = fresh ? -1 : find_bound(p, slot, n);
    if (fresh) {
        const struct fg_phrase_list *l = find_list(p, slot, n);
        if (l) item = l->item[fg_random_below(p->random, l->n)];
        p->failed = p->failed || !l;
        if (!l) return;
    } else if (i < 0) {
        const struct fg_phrase_list *l = find_list(p, slot, mark ? (size_t)(mark - slot) : n);
        size_t pick = 0;
        if (!l || !pick_free(p, l, &pick) || (i = bind(p, slot, n)) < 0) {
            p->failed = true;
            return;
        }
        p->bound[i].list = l;
        p->bound[i].pick = pick;
    }
    if (!item) item = p->bound[i].list->item[p->bound[i].pick];
    size_t at = out->len;
    expand(p, out, item, strlen(item), depth + 1);
    if (upper && out->len > at && out->data[at] >= 'a' && out->data[at] <= 'z')
        out->data[at] = (char)(out->data[at] - 'a' + 'A');
}

static void put_chars(struct fg_random *r, struct fg_buf *out, const char *alphabet, int64_t n)
{
    size_t size = strlen(alphabet);
    for (int64_t i = 0; i < n; i++)
        fg_buf_char(out, alphabet[fg_random_below(r, size)]);
}

static void put_uuid(struct fg_random *r, struct fg_buf *out)
{
    static const char hex[] = "0123456789abcdef";
    put_chars(r, out, hex, 8);
    fg_buf_char(out, '-');
    put_chars(r, out, hex, 4);
    fg_buf_str(out, "-4");
    put_chars(r, out, hex, 3);
    fg_buf_char(out, '-');
    put_chars(r, out, "89ab", 1);
    put_chars(r, out, hex, 3);
    fg_buf_char(out, '-');
    put_chars(r, out, hex, 12);
}

// The whole number at s[*at, n), which is moved behind it and the colon that follows.
static int64_t number_at(const char *s, size_t n, size_t *at)
{
    int64_t v = 0;
    while (*at < n && s[*at] >= '0' && s[*at] <= '9')
        v = v * 10 + (s[(*at)++] - '0');
    if (*at < n && s[*at] == ':') ++*at;
    return v;
}

// A drawn text; false when the slot asks for none. n ends before the '#'.
static bool put_drawn(struct fg_random *r, struct fg_buf *out, const char *slot, size_t n)
{
    static const struct {
        const char *name, *alphabet;
    } kinds[] = {
        {"hex:", "0123456789abcdef"},
        {"digits:", "0123456789"},
        {"b64:", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"},
    };
    if (n == 4 && memcmp(slot, "uuid", 4) == 0) {
        put_uuid(r, out);
        return true;
    }
    if (n > 2 && memcmp(slot, "n:", 2) == 0) {
        size_t at = 2;
        int64_t low = number_at(slot, n, &at), high = number_at(slot, n, &at);
        int64_t drawn = low + (int64_t)fg_random_below(r, (uint64_t)(high - low + 1));
        fg_buf_printf(out, "%" PRId64, drawn);
        return true;
    }
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        size_t at = strlen(kinds[k].name);
        if (n <= at || memcmp(slot, kinds[k].name, at) != 0) continue;
        put_chars(r, out, kinds[k].alphabet, number_at(slot, n, &at));
        return true;
    }
    return false;
}

static void put_slot(struct fg_phrase *p, struct fg_buf *out, const char *slot, size_t n, int depth)
{
    const char *mark = memchr(slot, '#', n);
    int i = mark ? find_bound(p, slot, n) : -1;
    struct fg_random r = fg_random_seeded(i >= 0 ? p->bound[i].seed : fg_random_next(p->random)),
                     again = r;
    if (i >= 0 && p->bound[i].list) {
        put_list(p, out, slot, n, depth);
        return;
    }
    if (!put_drawn(&r, out, slot, mark ? (size_t)(mark - slot) : n)) {
        put_list(p, out, slot, n, depth);
        return;
    }
    if (mark && i < 0 && (i = bind(p, slot, n)) >= 0) p->bound[i].seed = again.state;
}

static void expand(struct fg_phrase *p, struct fg_buf *out, const char *text, size_t n, int depth)
{
    const char *end = text + n;
    if (depth > FG_PHRASE_DEPTH_MAX) {
        p->failed = true;
        return;
    }
    while (text < end) {
        const char *open = memmem(text, (size_t)(end - text), "@{", 2);
        const char *close = open ? memchr(open, '}', (size_t)(end - open)) : NULL;
        if (!close) break;
        fg_buf_add(out, text, (size_t)(open - text));
        put_slot(p, out, open + 2, (size_t)(close - open - 2), depth);
        text = close + 1;
    }
    fg_buf_add(out, text, (size_t)(end - text));
}

void fg_phrase_put(struct fg_phrase *p, struct fg_buf *out, const char *text)
{
    expand(p, out, text, strlen(text), 0);
}
