// runtime/compile_store.c: files under <state>/builds.
#include "base/file.h"
#include "base/json.h"
#include "base/jwrite.h"
#include "base/progress.h"
#include "runtime/compile_impl.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HASHES_BYTES_MAX (8u << 20)
#define HASHES_MAX 16384
#define UNSURE_S 2 // a file that changed this recently may change again within one mtime

// ---- names

int fg_store_init(struct fg_store *s, const char *state_dir, struct fg_error *err)
{
    *s = (struct fg_store){.root = fg_path_join(state_dir, "builds")};
    if (s->root) {
        s->tiles = fg_path_join(s->root, "tiles");
        s->plans = fg_path_join(s->root, "plans");
        s->tuning = fg_path_join(s->root, "tuning");
        s->hashes = fg_path_join(s->root, "hashes.json");
    }
    if (s->root && s->tiles && s->plans && s->tuning && s->hashes) return 0;
    fg_store_free(s);
    return fg_fail_memory(err, "state directory", strlen(state_dir));
}

int fg_store_make(const struct fg_store *s, struct fg_error *err)
{
    int rc = fg_dir_make(s->tiles, err);
    if (rc == 0) rc = fg_dir_make(s->plans, err);
    if (rc == 0) rc = fg_dir_make(s->tuning, err);
    return rc;
}

void fg_store_free(struct fg_store *s)
{
    free(s->root);
    free(s->tiles);
    free(s->plans);
    free(s->tuning);
    free(s->hashes);
    *s = (struct fg_store){0};
}

void fg_store_tile_name(char name[FG_STORE_NAME_MAX], const char *package_sha256)
{
    snprintf(name, FG_STORE_NAME_MAX, "%.24s-" FG_TILE_LAYOUT "-a%d.fgt", package_sha256,
             FG_TILE_ABI);
}

// ---- locks

static long owner_of(int fd)
{
    char text[32] = "";
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    long pid = n > 0 ? strtol(text, NULL, 10) : 0;
    return pid > 0 ? pid : 0;
}

// True when the file of that name is the one that is open: its last owner removes it.
static bool is_current(int fd, const char *path)
{
    struct stat mine, named;
    return fstat(fd, &mine) == 0 && stat(path, &named) == 0 && mine.st_ino == named.st_ino &&
           mine.st_dev == named.st_dev;
}

static int take_lock(struct fg_store_lock *l, char *path, bool wait, long *pid,
                     struct fg_error *err)
{
    *l = (struct fg_store_lock){.fd = -1};
    *pid = 0;
    for (;;) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
        if (fd < 0 && errno == EINTR) continue;
        if (fd < 0) return fg_fail_errno(err, path, "open", errno);
        int e;
        do
            e = flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB)) != 0 ? errno : 0;
        while (e == EINTR);
        if (e == EWOULDBLOCK) {
            *pid = owner_of(fd);
            close(fd);
            char owner[48] = "another process has it";
            if (*pid) snprintf(owner, sizeof owner, "process %ld has it", *pid);
            return fg_fail(err, FG_EBUSY, "compile", path, "lock", "nobody else's", "%s", owner);
        }
        if (e) { // a file system without locks
            close(fd);
            return fg_fail_errno(err, path, "lock", e);
        }
        if (is_current(fd, path)) {
            char text[32];
            int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
            bool told = ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) == n;
            (void)told; // the number is for people; the lock holds without it
            l->fd = fd;
            l->path = path;
            return 0;
        }
        close(fd);
    }
}

int fg_store_lock(struct fg_store_lock *l, const char *path, long *pid, struct fg_error *err)
{
    char *name;
    *l = (struct fg_store_lock){.fd = -1};
    if (asprintf(&name, "%s.lock", path) < 0) return fg_fail_memory(err, "lock", strlen(path));
    int rc = take_lock(l, name, false, pid, err);
    if (rc) free(name);
    return rc;
}

int fg_store_lock_small(const struct fg_store *s, struct fg_store_lock *l, struct fg_error *err)
{
    long pid;
    *l = (struct fg_store_lock){.fd = -1};
    char *name = fg_path_join(s->root, FG_STORE_LOCK);
    if (!name) return fg_fail_memory(err, "lock", strlen(s->root));
    int rc = take_lock(l, name, true, &pid, err);
    if (rc) free(name);
    return rc;
}

void fg_store_unlock(struct fg_store_lock *l)
{
    if (l->fd >= 0) {
        unlink(l->path);
        close(l->fd);
    }
    free(l->path);
    *l = (struct fg_store_lock){.fd = -1};
}

// ---- leftovers

bool fg_store_is_temp(const char *name, const char *suffix)
{
    size_t n = strlen(name), end = strlen(suffix);
    if (name[0] != '.' || n < 10 + end || name[n - 9] != '.') return false;
    return strspn(name + n - 8, "0123456789abcdef") == 8 &&
           strncmp(name + n - 9 - end, suffix, end) == 0;
}

void fg_store_sweep(const char *dir, const char *name)
{
    DIR *d = opendir(dir);
    if (!d) return;
    size_t n = name ? strlen(name) : 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (!fg_store_is_temp(e->d_name, name ? name : ".json")) continue;
        if (name && (strlen(e->d_name) != n + 10 || strncmp(e->d_name + 1, name, n) != 0)) continue;
        unlinkat(dirfd(d), e->d_name, 0);
    }
    closedir(d);
}

// ---- hashes

struct fg_hash_entry {
    char id[96]; // "dev:inode:size:mtime in ns"
    char sha256[FG_SHA256_HEX];
};

// False when the file can't be named for certain.
static bool identify(char id[96], const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return false;
    snprintf(id, 96, "%ju:%ju:%jd:%jd%09ld", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino,
             (intmax_t)st.st_size, (intmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    return true;
}

static void put(struct fg_hashes *h, const char *id, const char *sha256)
{
    for (uint64_t i = 0; i < h->n; i++)
        if (strcmp(h->list[i].id, id) == 0) {
            snprintf(h->list[i].sha256, sizeof h->list[i].sha256, "%s", sha256);
            return;
        }
    if (h->n == HASHES_MAX) // the oldest goes
        memmove(h->list, h->list + 1, (size_t)--h->n * sizeof *h->list);
    if (h->n == h->cap) {
        uint64_t cap = h->cap ? 2 * h->cap : 64;
        struct fg_hash_entry *list = realloc(h->list, (size_t)cap * sizeof *list);
        if (!list) return; // then it is hashed again next time
        h->list = list;
        h->cap = cap;
    }
    struct fg_hash_entry *e = &h->list[h->n++];
    snprintf(e->id, sizeof e->id, "%s", id);
    snprintf(e->sha256, sizeof e->sha256, "%s", sha256);
}

void fg_hashes_load(struct fg_hashes *h, const char *path)
{
    struct fg_json doc;
    struct json_object *files = NULL;
    *h = (struct fg_hashes){0};
    if (!fg_file_exists(path) || fg_json_open(&doc, path, HASHES_BYTES_MAX, NULL) != 0) return;
    if (fg_json_obj(&doc, doc.root, "", "files", &files, NULL) == 0 && files) {
        json_object_object_foreach(files, id, value)
        {
            const char *sha =
                json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
            bool sound = strlen(id) < 96 && strlen(sha) == 64 &&
                         strspn(id, "0123456789:-") == strlen(id) &&
                         strspn(sha, "0123456789abcdef") == 64;
            if (sound) put(h, id, sha);
        }
    }
    fg_json_close(&doc);
}

void fg_hashes_free(struct fg_hashes *h)
{
    free(h->list);
    *h = (struct fg_hashes){0};
}

const char *fg_hashes_find(const struct fg_hashes *h, const char *path)
{
    char id[96];
    if (!identify(id, path)) return NULL;
    for (uint64_t i = 0; i < h->n; i++)
        if (strcmp(h->list[i].id, id) == 0) return h->list[i].sha256;
    return NULL;
}

void fg_hashes_put(struct fg_hashes *h, const char *path, const char sha256[FG_SHA256_HEX])
{
    char id[96];
    struct stat st;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (stat(path, &st) != 0 || llabs((long long)(now.tv_sec - st.st_mtim.tv_sec)) <= UNSURE_S)
        return;
    if (!identify(id, path)) return;
    put(h, id, sha256);
    h->changed = true;
}

int fg_hashes_save(struct fg_hashes *h, const char *path, struct fg_error *err)
{
    struct fg_hashes all;
    struct fg_jwrite w = {0};
    fg_hashes_load(&all, path);
    for (uint64_t i = 0; i < h->n; i++)
        put(&all, h->list[i].id, h->list[i].sha256);
    fg_jwrite_object(&w, NULL);
    fg_jwrite_object(&w, "files");
    for (uint64_t i = 0; i < all.n; i++)
        fg_jwrite_str(&w, all.list[i].id, all.list[i].sha256);
    fg_jwrite_end_object(&w);
    fg_jwrite_end_object(&w);
    fg_buf_char(&w.buf, '\n');
    int rc = w.buf.failed ? fg_fail_memory(err, "hashes", w.buf.len)
                          : fg_file_replace(path, w.buf.data, w.buf.len, err);
    fg_jwrite_free(&w);
    fg_hashes_free(&all);
    return rc;
}

// ---- ticking

void fg_compile_say(const struct fg_compile_job *j, enum fg_compile_event_kind kind)
{
    if (!j->o->event) return;
    struct fg_compile_event e = j->event;
    e.kind = kind;
    j->o->event(j->o->ctx_event, &e);
}

int fg_compile_tick(struct fg_compile_job *j, struct fg_error *err)
{
    if (j->o->stop && j->o->stop(j->o->ctx_event))
        return fg_fail(err, FG_EINTERRUPTED, "compile", NULL, NULL, NULL, "stopped");
    double now = fg_clock();
    if (now - j->beat >= j->heartbeat_s && j->event.name) {
        j->beat = now;
        j->event.seconds = now - j->began;
        j->event.expected_s = j->expected_s;
        double left = j->left_s - j->event.seconds; // of this package and the others
        double others = j->left_s - j->expected_s;
        j->event.left_s = left > others ? left : others;
        fg_compile_say(j, FG_COMPILE_HEARTBEAT);
    }
    return 0;
}

void fg_compile_nap(void)
{
    struct timespec t = {.tv_nsec = 5000000};
    nanosleep(&t, NULL);
}
