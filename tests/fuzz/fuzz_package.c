// Fuzz target: a package file. What opens is read to the last byte, and written again from its set:
// that opens too, and holds the same.
#include "base/error.h"
#include "format/package.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[64], path[128], again[128];

static void remove_all(void)
{
    unlink(path);
    unlink(again);
    rmdir(dir);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    snprintf(dir, sizeof dir, "%s/forge-fuzz-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(dir)) abort();
    snprintf(path, sizeof path, "%s/package", dir);
    snprintf(again, sizeof again, "%s/again", dir);
    atexit(remove_all);
    return 0;
}

static void write_again(const struct fg_package *p)
{
    const struct fg_package_info *info = fg_package_info(p);
    const struct fg_qset *set = fg_package_set(p);
    struct fg_package_spec spec = {.kind = info->kind,
                                   .layer_first = info->layer_first,
                                   .layer_last = info->layer_last,
                                   .weights_digest = info->weights_digest,
                                   .export_digest = info->export_digest,
                                   .id = info->id,
                                   .set = set};
    struct fg_package *q;
    struct fg_st_written w;
    uint64_t bytes;
    if (fg_package_write(again, &spec, &w, NULL)) abort();
    if (fg_package_bytes(&spec, &bytes, NULL) || bytes != w.bytes) abort();
    if (fg_package_open(&q, again, NULL)) abort();
    const struct fg_qset *same = fg_package_set(q);
    if (same->n_mats != set->n_mats || same->n_small != set->n_small ||
        same->n_rots != set->n_rots) {
        abort();
    }
    for (uint64_t i = 0; i < set->n_mats; i++) {
        if (strcmp(set->mats[i].name, same->mats[i].name) != 0) abort();
        if (fg_qset_find_mat(set, set->mats[i].name) != &set->mats[i]) abort();
    }
    for (uint64_t i = 0; i < set->n_small; i++) {
        if (set->small[i].bytes != same->small[i].bytes ||
            memcmp(set->small[i].data, same->small[i].data, set->small[i].bytes) != 0) {
            abort();
        }
    }
    fg_package_close(q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fg_package *p;
    struct fg_error err = {0};
    FILE *f = fopen(path, "wb");
    if (!f || (n && fwrite(data, 1, n, f) != n) || fclose(f) != 0) abort();
    int rc = fg_package_open(&p, path, &err);
    if (rc) {
        if (p || err.code != rc || !err.file[0]) abort();
        return 0;
    }
    unsigned sum = fg_package_verify(p, &err) ? 1 : 0;
    const struct fg_st_file *file = fg_package_file(p);
    for (uint64_t i = 0; i < fg_st_file_count(file); i++) {
        const struct fg_st_tensor *t = fg_st_file_at(file, i);
        for (uint64_t k = 0; k < t->bytes; k++) {
            sum += t->data[k];
        }
    }
    write_again(p);
    fg_package_close(p);
    return sum == 0x7FFFFFFFu; // keeps the reads
}
