// tests/support/scratch.h: a scratch folder per test program, and small files in it.
#ifndef FG_TESTS_SCRATCH_H
#define FG_TESTS_SCRATCH_H
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct scratch {
    char dir[256];
    char path[512]; // of the last scratch_path
};

static inline void scratch_open(struct scratch *s)
{
    const char *base = getenv("TMPDIR");
    snprintf(s->dir, sizeof s->dir, "%s/forge-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(s->dir)) {
        perror(s->dir);
        exit(1);
    }
}

static inline int scratch_remove_one(const char *path, const struct stat *st, int kind,
                                     struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static inline void scratch_close(struct scratch *s)
{
    nftw(s->dir, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

// "dir/name", valid until the next call.
static inline const char *scratch_path(struct scratch *s, const char *name)
{
    snprintf(s->path, sizeof s->path, "%s/%s", s->dir, name);
    return s->path;
}

// Writes n bytes to dir/name and returns its path.
static inline const char *scratch_write(struct scratch *s, const char *name, const void *data,
                                        size_t n)
{
    FILE *f = fopen(scratch_path(s, name), "wb");
    if (!f || (n && fwrite(data, 1, n, f) != n) || fclose(f) != 0) {
        perror(s->path);
        exit(1);
    }
    return s->path;
}
#endif
