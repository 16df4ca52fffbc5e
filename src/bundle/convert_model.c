// bundle/convert_model.c: the model directory of a bundle: config, tokenizer files, embedding.
#include "base/buf.h"
#include "base/file.h"
#include "base/num.h"
#include "base/size.h"
#include "bundle/convert_impl.h"
#include "forge/forge.h"
#include "format/npy.h"
#include "quant/dequant.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COPY_BYTES_MAX (256ull << 20)
#define STEP_BYTES (4ull << 20) // of the embedding between two looks at the signals

// What model/ may hold (specs: cli 4). The first must be there; a runtime that talks needs those up
// to N_WANTED.
static const char *const names[] = {"config.json",
                                    "tokenizer.json",
                                    "tokenizer_config.json",
                                    "special_tokens_map.json",
                                    "generation_config.json",
                                    "chat_template.jinja",
                                    "chat_template.json",
                                    "vocab.json",
                                    "merges.txt",
                                    "tokenizer.model",
                                    "added_tokens.json"};
#define N_WANTED 3

// dir/name in the job's arena when it is there.
static const char *in_dir(struct fg_convert_job *j, const char *dir, const char *name)
{
    char *path = dir ? fg_path_join(dir, name) : NULL;
    const char *found =
        path && fg_file_exists(path) ? fg_arena_strdup(&j->arena, path, strlen(path)) : NULL;
    free(path);
    return found;
}

int fg_convert_list_model(struct fg_convert_job *j)
{
    const struct fg_export_facts *facts = fg_export_facts(j->export);
    const struct fg_export_embedding *em = fg_export_embedding(j->export);
    for (size_t i = 0; i < FG_COUNT(names); i++) {
        const char *from = in_dir(j, facts->dir, names[i]);
        if (!from) from = in_dir(j, j->o->model_dir, names[i]);
        if (!from) {
            if (i < N_WANTED)
                fg_log_warn(j->o->log, "%s: no %s: the bundle will not talk", facts->dir, names[i]);
            continue;
        }
        struct fg_map map;
        int rc = fg_map_open(&map, from, j->err);
        if (rc) return rc;
        struct fg_convert_file *f = fg_convert_add_file(j, "model", names[i]);
        uint64_t bytes = map.bytes;
        fg_map_close(&map);
        if (!f) return FG_ERESOURCE;
        f->source = from;
        f->bytes = bytes;
    }
    if (em->kind == FG_EMBEDDING_HEAD) {
        if (j->config->tied) return 0;
        return fg_fail(j->err, FG_EINPUT, FG_CONVERT_WHAT, em->file, "embed",
                       "an embedding of its own: the config does not tie it to the head", "head");
    }
    if (!em->data) {
        int rc = fg_fail(j->err, FG_EINPUT, FG_CONVERT_WHAT, facts->dir, "embedding",
                         "embed_tokens.safetensors, or a model that has it", "none");
        fg_error_hint(j->err, "give the checkpoint with --model");
        return rc;
    }
    struct fg_convert_file *f = fg_convert_add_file(j, "model", fg_convert_embedding_file(j));
    if (!f) return FG_ERESOURCE;
    const uint64_t vocab = (uint64_t)em->vocab, n = vocab * (uint64_t)em->hidden;
    f->first = -2;
    f->bytes = em->kind == FG_EMBEDDING_INT8 ? n + 2 * vocab : 2 * n; // and a header
    return 0;
}

const char *fg_convert_embedding_file(const struct fg_convert_job *j)
{
    switch (fg_export_embedding(j->export)->kind) {
    case FG_EMBEDDING_HEAD: return NULL;
    case FG_EMBEDDING_INT8: return FG_CONVERT_EMBEDDING_INT8;
    default: return FG_CONVERT_EMBEDDING;
    }
}

int fg_convert_copy(struct fg_convert_job *j, struct fg_convert_file *f)
{
    struct fg_buf text = {0};
    int rc = fg_file_load(&text, f->source, COPY_BYTES_MAX, j->err);
    if (!rc) rc = fg_file_replace(f->path, text.data, text.len, j->err);
    fg_buf_free(&text);
    return rc;
}

static float wide(const struct fg_export_embedding *em, uint64_t i)
{
    if (em->dtype == FG_ST_F32) {
        float v;
        memcpy(&v, (const uint8_t *)em->data + i * sizeof v, sizeof v);
        return v;
    }
    uint16_t h = fg_le16_at(em->data, (int64_t)i);
    return em->dtype == FG_ST_F16 ? fg_f16_to_f32(h) : fg_bf16_to_f32(h);
}

// Elements [at, at + n) as F16; those that it does not hold are an error.
static int narrow(const struct fg_convert_job *j, const struct fg_export_embedding *em, uint64_t at,
                  uint64_t n, uint16_t *out)
{
    for (uint64_t i = 0; i < n; i++) {
        float v = wide(em, at + i);
        out[i] = fg_f16_of_f32(v);
        if (isfinite(fg_f16_to_f32(out[i]))) continue;
        char field[64];
        const uint64_t hidden = (uint64_t)em->hidden;
        snprintf(field, sizeof field, "embedding[%" PRIu64 ", %" PRIu64 "]", (at + i) / hidden,
                 (at + i) % hidden);
        return fg_fail(j->err, FG_EINPUT, FG_CONVERT_WHAT, em->file, field,
                       "a number that F16 holds", "%g", (double)v);
    }
    return 0;
}

static int add_codes(struct fg_convert_job *j, const struct fg_export_embedding *em,
                     struct fg_st_stream *s)
{
    const int8_t *codes = em->data;
    const uint64_t n = (uint64_t)em->vocab * (uint64_t)em->hidden;
    for (uint64_t at = 0; at < n; at += STEP_BYTES) {
        const uint64_t some = n - at < STEP_BYTES ? n - at : STEP_BYTES;
        const int8_t *bad = memchr(codes + at, 0x80, some);
        char field[64];
        int rc = fg_convert_tick(j, at);
        if (rc) return rc;
        if (bad) {
            snprintf(field, sizeof field, FG_EMBEDDING_CODES "[%" PRIu64 "]",
                     (uint64_t)(bad - codes));
            return fg_fail(j->err, FG_EINPUT, FG_CONVERT_WHAT, em->file, field, "-127 to 127",
                           "-128");
        }
        rc = fg_st_stream_add(s, codes + at, some, j->err);
        if (rc) return rc;
        fg_map_release(codes + at, some);
    }
    return fg_st_stream_add(s, em->scale, 2 * (uint64_t)em->vocab, j->err);
}

static int write_int8(struct fg_convert_job *j, const struct fg_convert_file *f)
{
    const struct fg_export_embedding *em = fg_export_embedding(j->export);
    struct fg_st_stream *s = NULL;
    int rc = fg_embedding_int8_stream(&s, f->path, (uint64_t)em->vocab, (uint64_t)em->hidden,
                                      forge_version(), j->err);
    if (rc) return rc;
    rc = add_codes(j, em, s);
    if (!rc) return fg_st_stream_commit(s, NULL, j->err);
    fg_st_stream_abort(s);
    return rc;
}

int fg_convert_embedding(struct fg_convert_job *j, struct fg_convert_file *f)
{
    const struct fg_export_embedding *em = fg_export_embedding(j->export);
    if (em->kind == FG_EMBEDDING_INT8) return write_int8(j, f);
    const uint64_t shape[2] = {(uint64_t)em->vocab, (uint64_t)em->hidden};
    const uint64_t n = shape[0] * shape[1], step = STEP_BYTES / sizeof(uint16_t);
    const uint64_t element = em->dtype == FG_ST_F32 ? sizeof(float) : sizeof(uint16_t);
    struct fg_npy_writer w;
    uint16_t *rows = malloc(STEP_BYTES);
    if (!rows) return fg_fail_memory(j->err, FG_CONVERT_WHAT, STEP_BYTES);
    int rc = fg_npy_writer_open(&w, f->path, FG_NPY_F16, 2, shape, j->err);
    bool open = rc == 0;
    for (uint64_t at = 0; at < n && !rc; at += step) {
        uint64_t some = n - at < step ? n - at : step;
        rc = fg_convert_tick(j, at * sizeof(uint16_t));
        if (!rc) rc = narrow(j, em, at, some, rows);
        if (!rc) rc = fg_npy_writer_add(&w, rows, some * sizeof(uint16_t), j->err);
        fg_map_release((const uint8_t *)em->data + at * element, some * element);
    }
    if (!rc)
        rc = fg_npy_writer_commit(&w, j->err);
    else if (open)
        fg_npy_writer_abort(&w);
    free(rows);
    return rc;
}
