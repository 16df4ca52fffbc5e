// Fuzz target: a safetensors file (first byte even) or the index of a sharded checkpoint (odd)
// whose one good shard is x.safetensors. Reads every byte that the reader hands out.
#include "base/error.h"
#include "format/safetensors.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char shard[] = "\x42\0\0\0\0\0\0\0"
                            "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}"
                            "             ab";

static char dir[64], index_path[128], file_path[128];

static void write_all(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0) abort();
}

static void remove_all(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/x.safetensors", dir);
    unlink(path);
    unlink(index_path);
    unlink(file_path);
    rmdir(dir);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    char path[128];
    snprintf(dir, sizeof dir, "%s/forge-fuzz-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(dir)) abort();
    snprintf(index_path, sizeof index_path, "%s/model.safetensors.index.json", dir);
    snprintf(file_path, sizeof file_path, "%s/fuzz.safetensors", dir);
    snprintf(path, sizeof path, "%s/x.safetensors", dir);
    write_all(path, shard, sizeof shard - 1);
    atexit(remove_all);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    bool index = data[0] & 1;
    struct fg_checkpoint *c;
    struct fg_error err;
    write_all(index ? index_path : file_path, data + 1, n - 1);
    if (fg_checkpoint_open(&c, index ? dir : file_path, &err)) return 0;
    unsigned sum = 0;
    for (uint64_t i = 0; i < fg_checkpoint_count(c); i++) {
        const struct fg_st_tensor *t = fg_checkpoint_at(c, i);
        for (uint64_t k = 0; k < t->bytes; k++) {
            sum += t->data[k];
        }
        if (fg_checkpoint_find(c, t->name) != t) abort();
    }
    for (uint64_t i = 0; i < fg_checkpoint_n_metadata(c); i++) {
        const char *key, *value;
        fg_checkpoint_metadata(c, i, &key, &value);
        sum += (unsigned)(strlen(key) + strlen(value));
    }
    for (uint64_t i = 0; i < fg_checkpoint_n_warnings(c); i++) {
        sum += (unsigned)strlen(fg_checkpoint_warning(c, i));
    }
    fg_checkpoint_close(c);
    return sum == 0x7FFFFFFFu; // keeps the reads
}
