// Fuzz target: a report directory of forge eval kl: summary.json, a NUL, sequences.jsonl. What
// opens adds up.
#include "eval/klk_summary.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[64], paths[2][96];

static void remove_files(void)
{
    unlink(paths[0]);
    unlink(paths[1]);
    rmdir(dir);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    snprintf(dir, sizeof dir, "%s/forge-fuzz-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(dir)) abort();
    snprintf(paths[0], sizeof paths[0], "%s/summary.json", dir);
    snprintf(paths[1], sizeof paths[1], "%s/sequences.jsonl", dir);
    atexit(remove_files);
    return 0;
}

static void put(const char *path, const uint8_t *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *cut = n ? memchr(data, 0, n) : NULL;
    size_t first = cut ? (size_t)(cut - data) : n;
    struct fg_klk_summary s;
    struct fg_klk_comparison c;
    int64_t positions = 0;
    put(paths[0], data, first);
    put(paths[1], data + first + (cut != NULL), n - first - (cut != NULL));
    if (fg_klk_summary_open(&s, dir, NULL)) return 0;
    for (int64_t i = 0; i < s.n_sequences; i++) {
        if (s.sequences[i].domain >= s.n_domains) abort();
        positions += s.sequences[i].positions;
    }
    if (positions != s.all.positions) abort();
    if (!fg_klk_compare(&c, &s, &s, 0, NULL)) abort(); // there are no arrays
    fg_klk_summary_free(&s);
    return 0;
}
