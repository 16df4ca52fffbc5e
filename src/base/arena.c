// base/arena.c: blocks of at least 64 KiB in a list, newest first.
#include "base/arena.h"
#include "base/size.h"
#include <stdlib.h>
#include <string.h>

#define ALIGN 64u
#define BLOCK_BYTES_MIN (64u * 1024u)

struct fg_arena_block {
    struct fg_arena_block *next;
    uint64_t used;  // bytes of data, a multiple of ALIGN
    uint64_t bytes; // room for data
    uint8_t *data;  // behind this header, aligned
};

void *fg_alloc_aligned(uint64_t bytes)
{
    uint64_t rounded;
    size_t size;
    if (!fg_align_up(&rounded, bytes ? bytes : 1, ALIGN) || !fg_to_size(&size, rounded))
        return NULL;
    void *p = aligned_alloc(ALIGN, size);
    if (p) memset(p, 0, size);
    return p;
}

void fg_arena_init(struct fg_arena *a, uint64_t limit_bytes)
{
    *a = (struct fg_arena){.limit_bytes = limit_bytes};
}

void *fg_arena_alloc(struct fg_arena *a, uint64_t count, uint64_t bytes)
{
    uint64_t n, total;
    if (!fg_mul(&n, count, bytes) || !fg_align_up(&n, n ? n : 1, ALIGN)) return NULL;
    if (!fg_add(&total, a->used_bytes, n) || (a->limit_bytes && total > a->limit_bytes))
        return NULL;
    struct fg_arena_block *b = a->head;
    if (!b || b->bytes - b->used < n) {
        uint64_t room = n > BLOCK_BYTES_MIN ? n : BLOCK_BYTES_MIN, all;
        if (!fg_add(&all, room, ALIGN)) return NULL; // the header takes one line
        _Static_assert(sizeof(struct fg_arena_block) <= ALIGN, "the header fits its line");
        b = fg_alloc_aligned(all);
        if (!b) return NULL;
        b->data = (uint8_t *)b + ALIGN;
        b->bytes = room;
        // A large request must not hide the room left in the current block.
        if (n > BLOCK_BYTES_MIN && a->head) {
            b->next = a->head->next;
            a->head->next = b;
        } else {
            b->next = a->head;
            a->head = b;
        }
    }
    void *p = b->data + b->used;
    b->used += n;
    a->used_bytes = total;
    return p;
}

char *fg_arena_strdup(struct fg_arena *a, const char *s, size_t n)
{
    char *p = n < SIZE_MAX ? fg_arena_alloc(a, (uint64_t)n + 1, 1) : NULL;
    if (p) {
        if (n) memcpy(p, s, n);
        p[n] = '\0';
    }
    return p;
}

void fg_arena_free(struct fg_arena *a)
{
    for (struct fg_arena_block *b = a->head, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    a->head = NULL;
    a->used_bytes = 0;
}
