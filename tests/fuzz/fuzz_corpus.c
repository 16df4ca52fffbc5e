// Fuzz target: files of prompts (first byte even) and of generated sequences (odd). What is read is
// written and read back the same.
#include "base/buf.h"
#include "base/error.h"
#include "corpus/prompts.h"
#include "corpus/sequences.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static void write_file(const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || (n && fwrite(data, 1, n, f) != n) || fclose(f) != 0) abort();
}

static void expect(bool holds)
{
    if (!holds) abort();
}

static void check_prompts(void)
{
    struct fg_prompts a, b;
    if (fg_prompts_read(&a, path, NULL)) return;
    expect(fg_prompts_write(path, &a, NULL) == 0);
    expect(fg_prompts_read(&b, path, NULL) == 0);
    expect(a.n == b.n && a.n > 0);
    for (size_t i = 0; i < a.n; i++) {
        expect(strcmp(a.item[i].id, b.item[i].id) == 0);
        expect(strcmp(a.item[i].kind, b.item[i].kind) == 0);
        expect(strcmp(a.item[i].said, b.item[i].said) == 0);
    }
    fg_prompts_free(&a);
    fg_prompts_free(&b);
}

static void check_sequences(size_t n)
{
    struct fg_sequences a, b;
    struct fg_buf text = {0};
    uint64_t bytes;
    if (fg_sequences_read(&a, &bytes, path, NULL)) return;
    expect(bytes <= n);
    for (size_t i = 0; i < a.n; i++) {
        expect(a.item[i].n_prompt >= 1 && a.item[i].n > a.item[i].n_prompt);
        fg_sequence_line(&text, &a.item[i]);
    }
    write_file(text.data, text.len);
    expect(fg_sequences_read(&b, &bytes, path, NULL) == 0);
    expect(a.n == b.n && bytes == text.len);
    for (size_t i = 0; i < a.n; i++) {
        const struct fg_sequence *x = &a.item[i], *y = &b.item[i];
        expect(x->n == y->n && x->n_prompt == y->n_prompt);
        expect(memcmp(x->ids, y->ids, (size_t)x->n * sizeof *x->ids) == 0);
    }
    fg_buf_free(&text);
    fg_sequences_free(&a);
    fg_sequences_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    write_file(data + 1, n - 1);
    if (data[0] & 1)
        check_sequences(n - 1);
    else
        check_prompts();
    return 0;
}
