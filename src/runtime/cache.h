// runtime/cache.h: what `forge compile` keeps under <state>/builds, listed, checked and cleared
// (specs: cli 17). Making it is compile.h's.
#ifndef FG_RUNTIME_CACHE_H
#define FG_RUNTIME_CACHE_H
#include "base/arena.h"
#include "base/error.h"
#include "base/thread.h"
#include <stdbool.h>
#include <stdint.h>

enum fg_cache_kind {
    FG_CACHE_TILES, // a package's tile file
    FG_CACHE_PLAN,
    FG_CACHE_TUNING,
    FG_CACHE_HASHES,
    FG_CACHE_LEFTOVER // temporary and lock files of processes that were killed
};
const char *fg_cache_kind_name(enum fg_cache_kind kind); // "tiles", "plan", "tuning", ...

struct fg_cache_entry {
    enum fg_cache_kind kind;
    const char *path;
    const char *key; // file name up to its first "-" or "."; of a leftover: its whole name
    uint64_t bytes;
    int64_t used_s; // last use, seconds since 1970
    bool in_use;    // mapped by a running process, or being written
};

struct fg_cache {
    struct fg_cache_entry *entries; // by kind, then path
    uint64_t n, bytes;
    struct fg_arena arena;
};

// Errors: FG_EINPUT (a folder that can't be read), FG_ERESOURCE; *c is then empty. No folder at all
// is an empty cache.
int fg_cache_open(struct fg_cache *c, const char *state_dir, struct fg_error *err);
void fg_cache_close(struct fg_cache *c); // zeroed is fine

// Removes an entry. *kept: a process uses it, and it stays. Errors: FG_EFAILED (can't be removed).
int fg_cache_remove(const char *state_dir, const struct fg_cache_entry *e, bool *kept,
                    struct fg_error *err);

// Checks an entry's content: all of a tile file's checksums, a plan's and a tuning's form; others
// pass. Errors: FG_EINPUT or FG_EINTEGRITY with what is wrong, FG_ERESOURCE.
int fg_cache_check(const struct fg_cache_entry *e, struct fg_pool *pool, struct fg_error *err);
#endif
