// Fuzz target: a tile file. The header's CRC is made right first (first byte even), so that the
// checks behind it are reached. Whatever opens is read to the last byte that it hands out.
#include "base/crc32c.h"
#include "quant/tilefile.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096
#define AT_CRC 92

static char path[64];

static void remove_file(void)
{
    unlink(path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    snprintf(path, sizeof path, "%s/forge-fuzz-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    int fd = mkstemp(path);
    if (fd < 0) abort();
    close(fd);
    atexit(remove_file);
    return 0;
}

// The CRC covers what comes before the first section, which the table's first row names.
static void sign(uint8_t *file, size_t n)
{
    if (n < PAGE + 64) return;
    uint64_t head = 0;
    for (int i = 7; i >= 0; i--)
        head = head << 8 | file[PAGE + 24 + i];
    if (head > n || head < PAGE) return;
    memset(file + AT_CRC, 0, 4);
    uint32_t crc = fg_crc32c(0, file, head);
    for (int i = 0; i < 4; i++)
        file[AT_CRC + i] = (uint8_t)(crc >> 8 * i);
}

static unsigned sum_of(const void *data, uint64_t n)
{
    const uint8_t *p = data;
    unsigned sum = 0;
    for (uint64_t i = 0; p && i < n; i++)
        sum += p[i];
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const names[] = {"a", "b", "c"};
    if (n == 0) return 0;
    uint8_t *file = malloc(n);
    if (!file) abort();
    memcpy(file, data + 1, n - 1);
    if (!(data[0] & 1)) sign(file, n - 1);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(file, 1, n - 1, f) != n - 1 || fclose(f) != 0) abort();
    free(file);
    struct fg_tilefile *t;
    struct fg_tilefile_expect x = {.memory = data[0] & 2 ? FG_TILEFILE_COPY : FG_TILEFILE_MAP};
    enum fg_tilefile_verify verify = data[0] & 4 ? FG_TILEFILE_BLOCKS : FG_TILEFILE_HEADER;
    if (fg_tilefile_open(&t, path, &x, verify, NULL, NULL)) return 0;
    unsigned sum = 0;
    for (int i = 0; i < 3; i++) {
        struct fg_lut l;
        if (!fg_tilefile_lut(t, names[i], &l)) continue;
        struct fg_tilefile_mat m = {
            .layout = l.layout, .n_out = l.n_out, .n_in = l.n_in, .rank = l.rank};
        if (l.lr_scale) m.lr_dtype = FG_LR_I8;
        const void *const parts[] = {l.tiles, l.table, l.table_u8, l.scale, l.scale_ts,
                                     l.lr_a,  l.lr_b,  l.lr_a,     l.lr_b,  l.lr_scale};
        for (int k = 0; k < FG_TILE_LR_SCALE; k++)
            sum += sum_of(parts[k], fg_tilefile_section_bytes(&m, (enum fg_tile_kind)(k + 1)));
    }
    fg_tilefile_close(t);
    return sum == 0x7FFFFFFFu; // keeps the reads
}
