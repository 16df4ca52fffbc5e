// Fuzz target: a GGUF file, read as a container (metadata, every tensor decoded) and as a model to
// import (texts, every tensor's rows).
#include "base/buf.h"
#include "format/gguf.h"
#include "format/gguf_dequant.h"
#include "model/import.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WEIGHTS_MAX 65536 // per tensor: F32 of a fuzzed file is small, and so stays the time

static char path[64];
static int fd;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    fd = memfd_create("fuzz.gguf", MFD_CLOEXEC);
    if (fd < 0) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return 0;
}

static void read_values(const struct fg_gguf *g)
{
    struct fg_error err;
    for (uint64_t i = 0; i < fg_gguf_n_kvs(g); i++) {
        const struct fg_gguf_kv *kv = fg_gguf_kv_at(g, i);
        struct fg_gguf_str s, *strings;
        int64_t v, *list;
        uint64_t n;
        double d;
        bool flag;
        fg_gguf_i64(g, kv->key, 0, INT64_MIN, INT64_MAX, &v, NULL, &err);
        fg_gguf_f64(g, kv->key, 0, &d, NULL, &err);
        fg_gguf_bool(g, kv->key, false, &flag, NULL, &err);
        fg_gguf_string(g, kv->key, &s, &err);
        fg_gguf_strings(g, kv->key, &strings, &n, &err);
        free(strings);
        fg_gguf_i64s(g, kv->key, INT64_MIN, INT64_MAX, &list, &n, &err);
        free(list);
        bool number = kv->element != FG_GGUF_STRING && kv->element != FG_GGUF_ARRAY;
        for (uint64_t k = 0; number && k < kv->n; k++) {
            fg_gguf_kv_number(kv, k);
        }
    }
}

static void decode(const struct fg_gguf *g)
{
    for (uint64_t i = 0; i < fg_gguf_n_tensors(g); i++) {
        const struct fg_gguf_tensor *t = fg_gguf_tensor_at(g, i);
        if (!fg_gguf_can_dequant(t->type) || t->n > WEIGHTS_MAX) continue;
        float *row = malloc((t->n ? t->n : 1) * sizeof *row);
        if (!row) abort();
        fg_gguf_dequant_row(t->type, t->data, row, t->n);
        free(row);
    }
}

static void import(void)
{
    struct fg_import *imp;
    struct fg_error err;
    struct fg_buf text = {0};
    if (fg_import_open(&imp, path, &err)) return;
    fg_import_config(imp, NULL, &text, &err);
    fg_import_tokenizer(imp, &text, &err);
    fg_import_tokenizer_config(imp, &text, &err);
    fg_import_generation_config(imp, &text, &err);
    fg_import_chat_template(imp, &text, &err);
    fg_buf_free(&text);
    for (uint64_t i = 0; i < fg_import_count(imp); i++) {
        const struct fg_import_tensor *t = fg_import_at(imp, i);
        if (t->rows * t->cols > WEIGHTS_MAX) continue;
        void *data = malloc(t->rows * t->cols * 4);
        if (!data) abort();
        for (int dtype = 0; dtype <= FG_BF16; dtype++) {
            fg_import_read(imp, t, 0, t->rows, (enum fg_dtype)dtype, data, &err);
        }
        free(data);
    }
    fg_import_close(imp);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fg_gguf *g;
    struct fg_error err;
    if (ftruncate(fd, 0) || ftruncate(fd, (off_t)n) || pwrite(fd, data, n, 0) != (ssize_t)n)
        abort();
    if (fg_gguf_open(&g, path, &err)) return 0;
    read_values(g);
    decode(g);
    fg_gguf_close(g);
    import();
    return 0;
}
