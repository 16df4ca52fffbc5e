// Fuzz target: a teacher cache: its index (first byte even), or a shard of one of four shapes,
// whose hash is not looked at. Whatever opens is read to the end.
#include "eval/teacher_impl.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[64], path[96];

static void remove_files(void)
{
    unlink(path);
    rmdir(dir);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    snprintf(dir, sizeof dir, "%s/forge-fuzz-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(dir)) abort();
    snprintf(path, sizeof path, "%s/index.json", dir);
    atexit(remove_files);
    return 0;
}

static void read_index(void)
{
    struct fg_teacher *t;
    if (fg_teacher_open(&t, dir, NULL)) return;
    const struct fg_teacher_facts *f = fg_teacher_facts(t);
    int64_t n;
    // There are no shards: looking for them must end in an error.
    if (!fg_teacher_positions(t, 0, &n, NULL) || !fg_teacher_positions(t, f->n - 1, &n, NULL))
        abort();
    fg_teacher_close(t);
}

static void read_shard(unsigned kind)
{
    const struct fg_teacher_shape shape = {
        .rows = kind & 1, .f16 = kind & 2, .k = 3, .vocab = 8, .seq = 4, .n = 2, .positions = 6};
    struct fg_teacher_shard s;
    if (fg_teacher_shard_open(&s, path, &shape, NULL)) return;
    int32_t id;
    for (int64_t i = 0; i < 18; i++) {
        memcpy(&id, s.ids->data + 4 * i, sizeof id);
        if (id < 0 || id >= 8) abort();
    }
    if (s.starts[0] != 0 || s.starts[2] != 6) abort();
    fg_teacher_shard_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data + 1, 1, n - 1, f) != n - 1 || fclose(f) != 0) abort();
    if (data[0] & 1) {
        read_shard(data[0] >> 1);
    } else {
        read_index();
    }
    return 0;
}
