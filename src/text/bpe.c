#include "text/bpe.h"
#include <stdlib.h>
#include <string.h>

#define SHORT_MAX 48 // symbols: up to here scanning beats the heap

struct fg_bpe_link {
    uint32_t prev, next; // neighbouring symbols; FG_VOCAB_NONE at the ends
    uint32_t rank;       // of merging with next; FG_VOCAB_NONE: not possible, or symbol gone
    uint32_t result;
};

void fg_bpe_work_free(struct fg_bpe_work *work)
{
    free(work->symbols);
    free(work->links);
    free(work->heap);
    *work = (struct fg_bpe_work){0};
}

static int reserve(struct fg_bpe_work *work, size_t n, struct fg_error *err)
{
    if (n <= work->cap) return 0;
    size_t cap = n < 256 ? 256 : n + n / 2;
    fg_bpe_work_free(work);
    work->symbols = malloc(cap * sizeof *work->symbols);
    work->links = malloc(cap * sizeof *work->links);
    // Every merge takes one entry out and puts two in at most, and there are fewer than n merges.
    work->heap = malloc(2 * cap * sizeof *work->heap);
    if (!work->symbols || !work->links || !work->heap) {
        fg_bpe_work_free(work);
        return fg_fail_memory(err, "tokenizer", cap * 36);
    }
    work->cap = cap;
    return 0;
}

static size_t merge_short(const struct fg_vocab *v, uint32_t *s, size_t n)
{
    uint32_t rank[SHORT_MAX], result[SHORT_MAX]; // of symbol i with i + 1
    for (size_t i = 0; i + 1 < n; i++) {
        const struct fg_merge *m = fg_vocab_pair(v, s[i], s[i + 1]);
        rank[i] = m ? m->rank : FG_VOCAB_NONE;
        result[i] = m ? m->result : 0;
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++) {
            if (rank[i] < rank[best]) best = i;
        }
        if (rank[best] == FG_VOCAB_NONE) break;
        s[best] = result[best];
        size_t tail = n - best - 2; // symbols after the pair
        memmove(s + best + 1, s + best + 2, tail * sizeof *s);
        memmove(rank + best, rank + best + 1, tail * sizeof *rank);
        memmove(result + best, result + best + 1, tail * sizeof *result);
        n--;
        for (size_t i = best ? best - 1 : 0; i <= best && i + 1 < n; i++) {
            const struct fg_merge *m = fg_vocab_pair(v, s[i], s[i + 1]);
            rank[i] = m ? m->rank : FG_VOCAB_NONE;
            result[i] = m ? m->result : 0;
        }
    }
    return n;
}

static void heap_push(uint64_t *heap, size_t *n, uint64_t x)
{
    size_t i = (*n)++;
    while (i > 0 && heap[(i - 1) / 2] > x) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = x;
}

static uint64_t heap_pop(uint64_t *heap, size_t *n)
{
    uint64_t top = heap[0], x = heap[--*n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < *n; i = child) {
        if (child + 1 < *n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= x) break;
        heap[i] = heap[child];
    }
    heap[i] = x;
    return top;
}

// Looks up the pair that begins at symbol i and puts it on the heap as rank << 32 | i, so that the
// order is rank first and position second. An entry is out of date when its rank is not the link's.
static void offer(const struct fg_vocab *v, struct fg_bpe_work *w, size_t *n_heap, uint32_t i)
{
    struct fg_bpe_link *l = &w->links[i];
    const struct fg_merge *m =
        l->next == FG_VOCAB_NONE ? NULL : fg_vocab_pair(v, w->symbols[i], w->symbols[l->next]);
    l->rank = m ? m->rank : FG_VOCAB_NONE;
    if (!m) return;
    l->result = m->result;
    heap_push(w->heap, n_heap, (uint64_t)m->rank << 32 | i);
}

static size_t merge_long(const struct fg_vocab *v, struct fg_bpe_work *w, size_t n)
{
    size_t n_heap = 0;
    for (size_t i = 0; i < n; i++) {
        w->links[i].prev = i ? (uint32_t)i - 1 : FG_VOCAB_NONE;
        w->links[i].next = i + 1 < n ? (uint32_t)i + 1 : FG_VOCAB_NONE;
    }
    for (size_t i = 0; i < n; i++)
        offer(v, w, &n_heap, (uint32_t)i);
    while (n_heap) {
        uint64_t top = heap_pop(w->heap, &n_heap);
        uint32_t i = (uint32_t)top;
        struct fg_bpe_link *l = &w->links[i];
        if (l->rank != (uint32_t)(top >> 32)) continue;
        uint32_t gone = l->next;
        w->symbols[i] = l->result;
        l->next = w->links[gone].next;
        w->links[gone].rank = FG_VOCAB_NONE;
        if (l->next != FG_VOCAB_NONE) w->links[l->next].prev = i;
        offer(v, w, &n_heap, i);
        if (l->prev != FG_VOCAB_NONE) offer(v, w, &n_heap, l->prev);
    }
    size_t n_out = 0;
    for (uint32_t i = 0; i != FG_VOCAB_NONE; i = w->links[i].next)
        w->symbols[n_out++] = w->symbols[i];
    return n_out;
}

int fg_bpe_merge(const struct fg_vocab *v, struct fg_bpe_work *work, const char *bytes, size_t n,
                 size_t *n_symbols, struct fg_error *err)
{
    int rc = reserve(work, n, err);
    if (rc) return rc;
    size_t n_in = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t t = v->byte_token[(unsigned char)bytes[i]];
        if (t != FG_VOCAB_NONE) work->symbols[n_in++] = t;
    }
    if (n_in <= SHORT_MAX) {
        *n_symbols = merge_short(v, work->symbols, n_in);
    } else {
        *n_symbols = merge_long(v, work, n_in);
    }
    return 0;
}
