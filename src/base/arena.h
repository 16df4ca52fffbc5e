// base/arena.h: memory that is released as a whole. Growing arenas for parsed files, fixed ones for
// a session's buffers. Not thread-safe.
#ifndef FG_BASE_ARENA_H
#define FG_BASE_ARENA_H
#include <stddef.h>
#include <stdint.h>

struct fg_arena {
    struct fg_arena_block *head; // newest block
    uint64_t used_bytes;         // handed out since the last release
    uint64_t limit_bytes;        // 0: none
};

// An empty arena; allocates nothing. limit_bytes 0: no limit.
void fg_arena_init(struct fg_arena *a, uint64_t limit_bytes);

// count * bytes of zeroed memory, aligned to 64 bytes. NULL when the product overflows, the limit
// is passed or memory is out. A count of 0 gives a valid pointer to nothing.
void *fg_arena_alloc(struct fg_arena *a, uint64_t count, uint64_t bytes);

// A NUL-terminated copy of n bytes. NULL when memory is out.
char *fg_arena_strdup(struct fg_arena *a, const char *s, size_t n);

// Frees everything; the arena is empty and usable again.
void fg_arena_free(struct fg_arena *a);

// 64-byte aligned, zeroed memory of the caller's (release with free). NULL when out of memory;
// bytes 0 is allowed.
void *fg_alloc_aligned(uint64_t bytes);
#endif
