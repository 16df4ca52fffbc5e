// runtime/cache.c: the files under <state>/builds.
#include "runtime/cache.h"
#include "base/file.h"
#include "runtime/compile_impl.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES_MAX 100000

const char *fg_cache_kind_name(enum fg_cache_kind kind)
{
    static const char *const names[] = {"tiles", "plan", "tuning", "hashes", "leftover"};
    return names[kind];
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

// False for files that are none of ours.
static bool kind_of(enum fg_cache_kind *kind, enum fg_cache_kind folder, const char *name)
{
    const char *end = folder == FG_CACHE_TILES ? ".fgt" : ".json";
    *kind = FG_CACHE_LEFTOVER;
    if (fg_store_is_temp(name, end)) return true;
    if (name[0] == '.') return false;
    if (ends_in(name, ".lock"))
        return folder == FG_CACHE_HASHES ? strcmp(name, FG_STORE_LOCK) == 0
                                         : ends_in(name, ".fgt.lock");
    *kind = folder;
    return folder == FG_CACHE_HASHES ? strcmp(name, "hashes.json") == 0 : ends_in(name, end);
}

// The name whose lock guards a leftover of a tile file: ".NAME.xxxxxxxx" or "NAME.lock". malloc'd
// path of NAME; NULL when out of memory.
static char *guarded_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    int dir = (int)(slash - path) + 1, n = (int)strlen(slash + 1);
    bool temp = slash[1] == '.';
    char *out;
    int r = temp ? asprintf(&out, "%.*s%.*s", dir, path, n - 10, slash + 2)
                 : asprintf(&out, "%.*s%.*s", dir, path, n - 5, slash + 1);
    return r < 0 ? NULL : out;
}

static bool is_locked(const char *path, int how)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    bool locked = flock(fd, how | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return locked;
}

// Tile files and what is left of their making have a lock each, the other files one in common.
static bool has_own_lock(const struct fg_cache_entry *e)
{
    return e->kind == FG_CACHE_TILES ||
           (e->kind == FG_CACHE_LEFTOVER && strstr(strrchr(e->path, '/'), ".fgt"));
}

static bool in_use(const struct fg_cache_entry *e)
{
    if (e->kind == FG_CACHE_TILES) return is_locked(e->path, LOCK_EX);
    if (!has_own_lock(e)) return false;
    char *name = guarded_path(e->path), *lock = NULL;
    bool used = name && asprintf(&lock, "%s.lock", name) >= 0 && is_locked(lock, LOCK_SH);
    free(lock);
    free(name);
    return used;
}

static bool grow(struct fg_cache *c, uint64_t *cap)
{
    if (c->n < *cap) return true;
    uint64_t more = *cap ? 2 * *cap : 64;
    struct fg_cache_entry *list = realloc(c->entries, (size_t)more * sizeof *list);
    if (!list) return false;
    c->entries = list;
    *cap = more;
    return true;
}

static int add(struct fg_cache *c, uint64_t *cap, enum fg_cache_kind kind, const char *dir,
               const char *name, struct fg_error *err)
{
    char *path = fg_path_join(dir, name);
    struct stat st;
    int rc = 0;
    if (!path || !grow(c, cap)) {
        rc = fg_fail_memory(err, "cache", strlen(dir));
    } else if (lstat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        size_t n = kind == FG_CACHE_LEFTOVER ? strlen(name) : strcspn(name, "-.");
        struct fg_cache_entry e = {.kind = kind,
                                   .path = fg_arena_strdup(&c->arena, path, strlen(path)),
                                   .key = fg_arena_strdup(&c->arena, name, n),
                                   .bytes = (uint64_t)st.st_size,
                                   .used_s = (int64_t)st.st_mtim.tv_sec};
        if (e.path && e.key) {
            e.in_use = in_use(&e);
            c->bytes += e.bytes;
            c->entries[c->n++] = e;
        } else {
            rc = fg_fail_memory(err, "cache", strlen(path));
        }
    }
    free(path);
    return rc;
}

static int scan(struct fg_cache *c, uint64_t *cap, const char *dir, enum fg_cache_kind folder,
                struct fg_error *err)
{
    DIR *d = opendir(dir);
    if (!d) return errno == ENOENT ? 0 : fg_fail_errno(err, dir, "open", errno);
    int rc = 0;
    for (struct dirent *e; rc == 0 && (e = readdir(d));) {
        enum fg_cache_kind kind;
        if (!kind_of(&kind, folder, e->d_name)) continue;
        if (c->n == ENTRIES_MAX)
            rc = fg_fail_range(err, "cache", dir, "files", 0, ENTRIES_MAX, ENTRIES_MAX + 1);
        else
            rc = add(c, cap, kind, dir, e->d_name, err);
    }
    closedir(d);
    return rc;
}

static int by_kind(const void *a, const void *b)
{
    const struct fg_cache_entry *x = a, *y = b;
    return x->kind != y->kind ? (int)x->kind - (int)y->kind : strcmp(x->path, y->path);
}

int fg_cache_open(struct fg_cache *c, const char *state_dir, struct fg_error *err)
{
    struct fg_store s;
    uint64_t cap = 0;
    *c = (struct fg_cache){0};
    fg_arena_init(&c->arena, 0);
    int rc = fg_store_init(&s, state_dir, err);
    if (rc == 0) rc = scan(c, &cap, s.tiles, FG_CACHE_TILES, err);
    if (rc == 0) rc = scan(c, &cap, s.plans, FG_CACHE_PLAN, err);
    if (rc == 0) rc = scan(c, &cap, s.tuning, FG_CACHE_TUNING, err);
    if (rc == 0) rc = scan(c, &cap, s.root, FG_CACHE_HASHES, err);
    fg_store_free(&s);
    if (rc) {
        fg_cache_close(c);
        return rc;
    }
    if (c->n) qsort(c->entries, (size_t)c->n, sizeof *c->entries, by_kind);
    return 0;
}

void fg_cache_close(struct fg_cache *c)
{
    free(c->entries);
    fg_arena_free(&c->arena);
    *c = (struct fg_cache){0};
}

static int remove_file(const char *path, struct fg_error *err)
{
    if (unlink(path) == 0 || errno == ENOENT) return 0;
    return fg_fail(err, FG_EFAILED, "cache", path, NULL, "a file that can be removed", "%s",
                   strerror(errno));
}

// A tile file that nobody maps; who opens it now waits for the exclusive lock and then finds a file
// without a name.
static int remove_tiles(const char *path, bool *kept, struct fg_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno == ENOENT ? 0 : remove_file(path, err);
    *kept = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    int rc = *kept ? 0 : remove_file(path, err);
    close(fd);
    return rc;
}

// Files of tiles: under the lock of the one who writes them.
static int remove_guarded(const struct fg_cache_entry *e, bool *kept, struct fg_error *err)
{
    struct fg_store_lock lock;
    long pid;
    bool tiles = e->kind == FG_CACHE_TILES;
    char *name = tiles ? strdup(e->path) : guarded_path(e->path);
    if (!name) return fg_fail_memory(err, "cache", strlen(e->path));
    int rc = fg_store_lock(&lock, name, &pid, err);
    free(name);
    if (rc == FG_EBUSY) {
        *kept = true;
        return 0;
    }
    if (rc) return rc;
    if (tiles)
        rc = remove_tiles(e->path, kept, err);
    else if (strcmp(e->path, lock.path) != 0) // the lock goes when it is released
        rc = remove_file(e->path, err);
    fg_store_unlock(&lock);
    return rc;
}

int fg_cache_remove(const char *state_dir, const struct fg_cache_entry *e, bool *kept,
                    struct fg_error *err)
{
    struct fg_store s;
    struct fg_store_lock lock;
    *kept = false;
    if (has_own_lock(e)) return remove_guarded(e, kept, err);
    int rc = fg_store_init(&s, state_dir, err);
    if (rc) return rc;
    rc = fg_store_lock_small(&s, &lock, err);
    if (rc == 0) {
        if (strcmp(e->path, lock.path) != 0) rc = remove_file(e->path, err);
        fg_store_unlock(&lock);
    }
    fg_store_free(&s);
    return rc;
}

static int check_tiles(const struct fg_cache_entry *e, struct fg_pool *pool, struct fg_error *err)
{
    struct fg_tilefile *t;
    struct fg_tilefile_expect expect = {.memory = FG_TILEFILE_MAP};
    int rc = fg_tilefile_open(&t, e->path, &expect, FG_TILEFILE_BLOCKS, pool, err);
    if (rc) return rc;
    if (strncmp(fg_tilefile_sha256(t), e->key, strlen(e->key)) != 0)
        rc = fg_fail(err, FG_EINTEGRITY, "tile file", e->path, "sha256", e->key, "%s",
                     fg_tilefile_sha256(t));
    fg_tilefile_close(t);
    return rc;
}

int fg_cache_check(const struct fg_cache_entry *e, struct fg_pool *pool, struct fg_error *err)
{
    struct fg_compile_plan_doc doc;
    struct fg_tuning t;
    int rc;
    switch (e->kind) {
    case FG_CACHE_TILES: return check_tiles(e, pool, err);
    case FG_CACHE_TUNING: return fg_tuning_read(&t, e->path, e->key, err);
    case FG_CACHE_PLAN:
        rc = fg_compile_plan_open(&doc, e->path, err);
        if (rc == 0 && strcmp(doc.plan.key, e->key) != 0)
            rc = fg_fail(err, FG_EINTEGRITY, "plan", e->path, "key", e->key, "%s", doc.plan.key);
        fg_compile_plan_close(&doc);
        return rc;
    default: return 0;
    }
}
