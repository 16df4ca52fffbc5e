// base/file.c: maps, whole-file reads, paths, atomic replacement.
#include "base/file.h"
#include "base/buf.h"
#include "base/size.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_retry(const char *path, int flags, mode_t mode)
{
    int fd;
    do
        fd = open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

// A regular file to read. *out is the caller's to close.
static int open_regular(int *out, struct stat *st, const char *path, struct fg_error *err)
{
    int rc = 0;
    // A FIFO would block the open; O_NONBLOCK changes nothing for regular files.
    int fd = open_retry(path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0) return fg_fail_errno(err, path, "open", errno);
    if (fstat(fd, st) != 0) {
        rc = fg_fail_errno(err, path, "stat", errno);
    } else if (!S_ISREG(st->st_mode)) {
        rc = fg_fail(err, FG_EINPUT, "open", path, NULL, "a regular file", "%s",
                     S_ISDIR(st->st_mode) ? "a directory" : "a special file");
    }
    if (rc) {
        close(fd);
        return rc;
    }
    *out = fd;
    return 0;
}

int fg_map_open(struct fg_map *map, const char *path, struct fg_error *err)
{
    struct stat st;
    int fd;
    *map = (struct fg_map){0};
    int rc = open_regular(&fd, &st, path, err);
    if (rc) return rc;
    map->bytes = (uint64_t)st.st_size;
    if (map->bytes > 0) {
        size_t size;
        if (!fg_to_size(&size, map->bytes)) {
            rc = fg_fail_memory(err, "map", map->bytes);
            goto fail;
        }
        void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            rc = fg_fail_errno(err, path, "map", errno);
            goto fail;
        }
        map->data = p;
    }
    map->path = strdup(path);
    if (!map->path) {
        rc = fg_fail_memory(err, "map", strlen(path));
        goto fail;
    }
    close(fd);
    return 0;
fail:
    close(fd);
    fg_map_close(map);
    return rc;
}

void fg_map_close(struct fg_map *map)
{
    if (map->data) munmap((void *)map->data, (size_t)map->bytes);
    free(map->path);
    *map = (struct fg_map){0};
}

bool fg_map_holds(const struct fg_map *map, uint64_t at, uint64_t n)
{
    return at <= map->bytes && n <= map->bytes - at;
}

static int outside(const struct fg_map *map, uint64_t at, uint64_t n, struct fg_error *err)
{
    char field[48], expected[64];
    snprintf(field, sizeof field, "offset %" PRIu64, at);
    snprintf(expected, sizeof expected, "%" PRIu64 " more bytes", n);
    return fg_fail(err, FG_EINPUT, "read", map->path, field, expected,
                   "the end of the file at %" PRIu64, map->bytes);
}

int fg_map_le32(const struct fg_map *map, uint64_t at, uint32_t *out, struct fg_error *err)
{
    if (!fg_map_holds(map, at, 4)) return outside(map, at, 4, err);
    const uint8_t *p = map->data + at;
    *out = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    return 0;
}

int fg_map_le64(const struct fg_map *map, uint64_t at, uint64_t *out, struct fg_error *err)
{
    if (!fg_map_holds(map, at, 8)) return outside(map, at, 8, err);
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | map->data[at + (uint64_t)i];
    *out = v;
    return 0;
}

void fg_map_prefetch(const struct fg_map *map, uint64_t at, uint64_t n)
{
    if (n == 0 || !fg_map_holds(map, at, n)) return;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = at & ~(page - 1);
    madvise((void *)(map->data + begin), (size_t)(at + n - begin), MADV_WILLNEED);
}

void fg_map_release(const void *data, uint64_t n)
{
    long size = sysconf(_SC_PAGESIZE);
    if (size <= 0) return;
    uint64_t page = (uint64_t)size, skip = (page - (uintptr_t)data % page) % page;
    if (n < skip + page) return;
    madvise((uint8_t *)data + skip, (size_t)((n - skip) / page * page), MADV_DONTNEED);
}

// Everything up to the end of fd.
static int read_all(struct fg_buf *out, int fd, const char *name, uint64_t max_bytes,
                    struct fg_error *err)
{
    int rc = 0;
    for (;;) {
        if (!fg_buf_reserve(out, 64 * 1024)) {
            rc = fg_fail_memory(err, "read", out->len);
            break;
        }
        ssize_t n = read(fd, out->data + out->len, out->cap - out->len - 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            rc = fg_fail_errno(err, name, "read", errno);
            break;
        }
        out->len += (size_t)n;
        out->data[out->len] = '\0';
        if (out->len > max_bytes) {
            char expected[48];
            snprintf(expected, sizeof expected, "at most %" PRIu64 " bytes", max_bytes);
            rc = fg_fail(err, FG_EINPUT, "read", name, NULL, expected, "more");
            break;
        }
        if (n == 0) break;
    }
    if (rc) fg_buf_free(out);
    return rc;
}

int fg_file_read(struct fg_buf *out, const char *path, uint64_t max_bytes, struct fg_error *err)
{
    fg_buf_clear(out);
    if (strcmp(path, "-") == 0)
        return read_all(out, STDIN_FILENO, "standard input", max_bytes, err);
    int fd = open_retry(path, O_RDONLY, 0);
    if (fd < 0) return fg_fail_errno(err, path, "open", errno);
    int rc = read_all(out, fd, path, max_bytes, err);
    close(fd);
    return rc;
}

int fg_file_load(struct fg_buf *out, const char *path, uint64_t max_bytes, struct fg_error *err)
{
    struct stat st;
    int fd;
    fg_buf_clear(out);
    int rc = open_regular(&fd, &st, path, err);
    if (rc) return rc;
    rc = read_all(out, fd, path, max_bytes, err);
    close(fd);
    return rc;
}

bool fg_file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool fg_dir_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool fg_path_taken(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

int fg_dir_make(const char *path, struct fg_error *err)
{
    if (!path[0]) return fg_fail_errno(err, path, "mkdir", ENOENT);
    char *copy = strdup(path);
    if (!copy) return fg_fail_memory(err, "mkdir", strlen(path));
    int rc = 0;
    for (char *p = copy + 1;; p++) {
        if (*p != '/' && *p != '\0') continue;
        char c = *p;
        *p = '\0';
        int e = mkdir(copy, 0777) != 0 ? errno : 0;
        if (e && !fg_dir_exists(copy)) { // an existing folder may answer EROFS or EACCES too
            rc = fg_fail_errno(err, copy, "mkdir", e == EEXIST ? ENOTDIR : e);
            break;
        }
        *p = c;
        if (c == '\0') break;
    }
    free(copy);
    return rc;
}

char *fg_path_join(const char *dir, const char *name)
{
    size_t n = strlen(dir);
    char *out = malloc(n + strlen(name) + 2);
    if (out) sprintf(out, "%s%s%s", dir, n && dir[n - 1] != '/' ? "/" : "", name);
    return out;
}

char *fg_path_expand(const char *path, const char *home)
{
    if (path[0] != '~') return strdup(path);
    const char *rest = strchr(path, '/');
    if (!rest) rest = path + strlen(path);
    size_t user_len = (size_t)(rest - path) - 1;
    char user[256], buf[4096];
    struct passwd pw, *found = NULL;
    if (user_len == 0 && !home) {
        getpwuid_r(getuid(), &pw, buf, sizeof buf, &found);
    } else if (user_len > 0 && user_len < sizeof user) {
        memcpy(user, path + 1, user_len);
        user[user_len] = '\0';
        getpwnam_r(user, &pw, buf, sizeof buf, &found);
    }
    const char *dir = found ? found->pw_dir : user_len == 0 ? home : NULL;
    if (!dir) return strdup(path);
    char *out = malloc(strlen(dir) + strlen(rest) + 1);
    if (out) sprintf(out, "%s%s", dir, rest);
    return out;
}

// Creates a file of a new name beside path, with the mode that the umask gives; f->temp is its
// name. Returns 0 or errno.
static int create_temp(struct fg_atomic *f)
{
    const char *slash = strrchr(f->path, '/');
    int dir_len = slash ? (int)(slash - f->path) + 1 : 0;
    for (int tries = 0; tries < 100; tries++) {
        uint32_t r;
        if (getrandom(&r, sizeof r, 0) != (ssize_t)sizeof r) return errno;
        char *temp;
        // A long name is cut, so that the longer one still fits a directory entry.
        if (asprintf(&temp, "%.*s.%.200s.%08" PRIx32, dir_len, f->path, f->path + dir_len, r) < 0)
            return ENOMEM;
        f->fd = open_retry(temp, O_WRONLY | O_CREAT | O_EXCL, 0666);
        if (f->fd >= 0) {
            f->temp = temp;
            return 0;
        }
        int e = errno;
        free(temp);
        if (e != EEXIST) return e;
    }
    return EEXIST;
}

int fg_atomic_open(struct fg_atomic *f, const char *path, struct fg_error *err)
{
    struct stat st;
    *f = (struct fg_atomic){.fd = -1};
    if (!path[0]) return fg_fail_errno(err, path, "create", ENOENT);
    bool replaces = stat(path, &st) == 0;
    // A rename would put a file where /dev/null was.
    if (replaces && !S_ISREG(st.st_mode))
        return fg_fail(err, FG_EINPUT, "write", path, NULL, "a regular file or a new name", "%s",
                       S_ISDIR(st.st_mode) ? "a directory" : "a special file");
    f->path = strdup(path);
    if (!f->path) return fg_fail_memory(err, "write", strlen(path));
    int e = create_temp(f);
    if (e) {
        fg_atomic_abort(f);
        return fg_fail_errno(err, path, "create", e);
    }
    if (replaces && fchmod(f->fd, st.st_mode & 07777) != 0) {
        e = errno;
        fg_atomic_abort(f);
        return fg_fail_errno(err, path, "chmod", e);
    }
    return 0;
}

int fg_atomic_write(struct fg_atomic *f, const void *data, uint64_t n, struct fg_error *err)
{
    const uint8_t *p = data;
    while (n > 0) {
        size_t step = n > (1u << 30) ? (1u << 30) : (size_t)n;
        ssize_t wrote = write(f->fd, p, step);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return fg_fail_errno(err, f->path, "write", errno);
        p += wrote;
        n -= (uint64_t)wrote;
        f->bytes += (uint64_t)wrote;
    }
    return 0;
}

int fg_atomic_write_at(struct fg_atomic *f, uint64_t at, const void *data, uint64_t n,
                       struct fg_error *err)
{
    const uint8_t *p = data;
    assert(at <= f->bytes && n <= f->bytes - at);
    while (n > 0) {
        size_t step = n > (1u << 30) ? (1u << 30) : (size_t)n;
        ssize_t wrote = pwrite(f->fd, p, step, (off_t)at);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return fg_fail_errno(err, f->path, "write", errno);
        p += wrote;
        at += (uint64_t)wrote;
        n -= (uint64_t)wrote;
    }
    return 0;
}

static int sync_dir_of(const char *path)
{
    char *dir = strdup(path);
    if (!dir) return ENOMEM;
    char *slash = strrchr(dir, '/');
    if (slash) slash[slash == dir ? 1 : 0] = '\0';
    int e = 0, fd = open_retry(slash ? dir : ".", O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) {
        e = errno == EACCES ? 0 : errno; // a directory that may be written but not listed
    } else {
        if (fsync(fd) != 0 && errno != EINVAL)
            e = errno; // some file systems can't sync a directory
        close(fd);
    }
    free(dir);
    return e;
}

int fg_atomic_commit(struct fg_atomic *f, struct fg_error *err)
{
    int rc = 0, fd = f->fd;
    f->fd = -1;
    int sync_failed = fsync(fd), sync_errno = errno;
    int close_failed = close(fd), close_errno = errno;
    if (sync_failed)
        rc = fg_fail_errno(err, f->path, "sync", sync_errno);
    else if (close_failed)
        rc = fg_fail_errno(err, f->path, "close", close_errno);
    else if (rename(f->temp, f->path) != 0)
        rc = fg_fail_errno(err, f->path, "rename", errno);
    if (rc == 0) {
        free(f->temp);
        f->temp = NULL; // it is the file now: abort must not unlink it
        int e = sync_dir_of(f->path);
        if (e) rc = fg_fail_errno(err, f->path, "sync directory", e);
    }
    fg_atomic_abort(f);
    return rc;
}

void fg_atomic_abort(struct fg_atomic *f)
{
    if (f->temp) {
        if (f->fd >= 0) close(f->fd);
        unlink(f->temp);
    }
    free(f->temp);
    free(f->path);
    *f = (struct fg_atomic){.fd = -1};
}

int fg_file_replace(const char *path, const void *data, uint64_t n, struct fg_error *err)
{
    struct fg_atomic f;
    int rc = fg_atomic_open(&f, path, err);
    if (rc) return rc;
    rc = fg_atomic_write(&f, data, n, err);
    if (rc) {
        fg_atomic_abort(&f);
        return rc;
    }
    return fg_atomic_commit(&f, err);
}
