// Fuzz target: rows and traces, from safetensors or NumPy's files. What opens keeps the promises of
// the header, and is written and read back the same.
#include "base/error.h"
#include "format/rows.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VOCAB 1000

static char path[64], copy[80];

static void remove_files(void)
{
    unlink(path);
    unlink(copy);
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
    snprintf(copy, sizeof copy, "%s.copy", path);
    atexit(remove_files);
    return 0;
}

static void expect(bool holds)
{
    if (!holds) abort();
}

static void check_rows(void)
{
    struct fg_rows a, b;
    if (fg_rows_open(&a, path, VOCAB, 0, NULL, NULL)) return;
    uint64_t n = (uint64_t)(a.n * a.seq);
    for (uint64_t i = 0; i < n; i++)
        expect(a.ids[i] >= 0 && a.ids[i] < VOCAB);
    expect(fg_rows_write(copy, &a, NULL, NULL) == 0);
    expect(fg_rows_open(&b, copy, VOCAB, a.seq, NULL, NULL) == 0);
    expect(b.n == a.n && memcmp(a.ids, b.ids, n * sizeof *a.ids) == 0);
    expect(!a.mask == !b.mask && (!a.mask || memcmp(a.mask, b.mask, n) == 0));
    expect(!a.seq_id == !b.seq_id &&
           (!a.seq_id || memcmp(a.seq_id, b.seq_id, n * sizeof *a.ids) == 0));
    fg_rows_free(&a);
    fg_rows_free(&b);
}

static void check_trace(void)
{
    struct fg_trace a, b;
    if (fg_trace_open(&a, path, VOCAB, NULL, NULL)) return;
    int64_t at = 0;
    for (int64_t i = 0; i < a.n; at += a.lengths[i++]) {
        expect(a.starts[i] == at && a.lengths[i] >= 2 && a.lengths[i] <= a.longest);
        expect(a.plens[i] >= 0 && a.plens[i] <= a.lengths[i]);
        expect(!a.label || a.label[i] < a.n_labels);
    }
    expect(at == a.total);
    for (int64_t i = 0; i < a.total; i++)
        expect(a.ids[i] >= 0 && a.ids[i] < VOCAB);
    expect(fg_trace_write(copy, &a, NULL, NULL) == 0);
    expect(fg_trace_open(&b, copy, VOCAB, NULL, NULL) == 0);
    expect(b.n == a.n && b.total == a.total && b.n_labels == a.n_labels);
    expect(memcmp(a.ids, b.ids, (uint64_t)a.total * sizeof *a.ids) == 0);
    fg_trace_free(&a);
    fg_trace_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0) abort();
    check_rows();
    check_trace();
    return 0;
}
