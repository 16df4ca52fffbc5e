// Fuzz target: one file of a quantized export, beside a good first layer; the first byte says
// which. What opens is read to the end: indices, dequantized rows, digest.
#include "base/error.h"
#include "bundle/digest.h"
#include "quant/dequant.h"
#include "quant/export.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char layer[] = "\x24\0\0\0\0\0\0\0{\"__metadata__\":{\"basis\":\"plain\"}}  ";

static const char *const names[] = {"layer_01.safetensors",     "layer_01_mixer.safetensors",
                                    "lm_head.safetensors",      "small.safetensors",
                                    "embed_tokens.safetensors", "export.json"};
#define N_NAMES (sizeof names / sizeof names[0])

static char dir[64];

static void in_dir(char path[128], const char *name)
{
    snprintf(path, 128, "%s/%s", dir, name);
}

static void write_all(const char *name, const void *data, size_t n)
{
    char path[128];
    in_dir(path, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0) abort();
}

static void remove_one(const char *name)
{
    char path[128];
    in_dir(path, name);
    unlink(path);
}

static void remove_all(void)
{
    remove_one("layer_00.safetensors");
    for (size_t i = 0; i < N_NAMES; i++)
        remove_one(names[i]);
    rmdir(dir);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    snprintf(dir, sizeof dir, "%s/forge-fuzz-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(dir)) abort();
    write_all("layer_00.safetensors", layer, sizeof layer - 1);
    atexit(remove_all);
    return 0;
}

// An embedding of its own; a head that is one is among the matrices.
static void read_embedding(const struct fg_export *e)
{
    const struct fg_export_embedding *em = fg_export_embedding(e);
    if (em->kind == FG_EMBEDDING_HEAD && !fg_qset_find_mat(fg_export_set(e), "lm_head")) abort();
    if (em->kind != FG_EMBEDDING_INT8) return;
    const struct fg_qmat m = {.format = FG_Q_INT8,
                              .rows = em->vocab,
                              .cols = em->hidden,
                              .codes = em->data,
                              .scale = em->scale};
    float *row = malloc((size_t)m.cols * sizeof *row);
    if (!row) abort();
    fg_qmat_dequantize(row, &m, 0, 1);
    fg_qmat_dequantize(row, &m, m.rows - 1, m.rows);
    free(row);
}

static void read_all(const struct fg_export *e)
{
    const struct fg_qset *s = fg_export_set(e);
    const struct fg_digest_options o = {0};
    struct fg_digest d;
    struct fg_error err;
    for (uint64_t i = 0; i < s->n_mats; i++) {
        const struct fg_qmat *m = &s->mats[i].m;
        if (m->site && (m->block < 8 || m->cols % m->block != 0)) abort();
        if (fg_export_check_codes(&s->mats[i], &err)) continue;
        float *row = malloc((size_t)m->cols * sizeof *row);
        if (!row) abort();
        fg_qmat_dequantize(row, m, m->rows - 1, m->rows);
        free(row);
        if (!m->rank) continue;
        float *b = malloc((size_t)(m->rank * m->cols) * sizeof *b);
        if (!b) abort();
        fg_qmat_lr_b(b, m);
        for (int64_t k = 0; k < m->rank; k++)
            b[0] += fg_qmat_lr_a(m, m->rows - 1, k);
        free(b);
    }
    if (fg_digest_sets(&d, &s, 1, &o, &err) == 0) fg_digest_free(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    const char *name = names[data[0] % N_NAMES];
    const struct fg_export_options o = {.allow_missing = true};
    struct fg_export *e;
    struct fg_error err;
    write_all(name, data + 1, n - 1);
    if (fg_export_open(&e, dir, &o, &err) == 0) {
        read_all(e);
        read_embedding(e);
        fg_export_close(e);
    }
    remove_one(name);
    return 0;
}
