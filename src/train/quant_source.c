// train/quant_source.c
#include "train/quant_source.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "format/gguf.h"
#include "model/import.h"
#include "model/model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WHAT "quantize"
#define TEXT_BYTES_MAX (256ull << 20)
#define HASHED_BYTES (64ull << 20) // holds all metadata of a GGUF

enum fg_st_dtype fg_quant_st_dtype(enum fg_dtype t)
{
    return t == FG_F32 ? FG_ST_F32 : t == FG_F16 ? FG_ST_F16 : FG_ST_BF16;
}

static bool dtype_of(enum fg_st_dtype t, enum fg_dtype *out)
{
    for (int i = 0; i <= FG_BF16; i++) {
        if (fg_quant_st_dtype((enum fg_dtype)i) != t) continue;
        *out = (enum fg_dtype)i;
        return true;
    }
    return false;
}

// The start of a GGUF, its size and its end.
static void digest_gguf(struct fg_quant_source *s)
{
    uint64_t bytes;
    const uint8_t *data = fg_gguf_bytes(fg_import_gguf(s->import), &bytes);
    struct fg_sha256 *h = fg_sha256_new();
    if (!h) return; // an empty digest equals only itself
    uint64_t edge = bytes < HASHED_BYTES ? bytes : HASHED_BYTES;
    fg_sha256_add(h, &bytes, sizeof bytes);
    fg_sha256_add(h, data, edge);
    fg_sha256_add(h, data + (bytes - edge), edge);
    fg_sha256_end(h, s->digest);
}

static int open_gguf(struct fg_quant_source *s, const struct fg_log *log, struct fg_error *err)
{
    struct fg_buf text = {0};
    struct fg_json doc = {0};
    int rc = fg_import_open(&s->import, s->path, err);
    if (rc) return rc;
    for (uint64_t i = 0; i < fg_import_n_warnings(s->import); i++)
        fg_log_warn(log, "%s", fg_import_warning(s->import, i));
    rc = fg_import_config(s->import, NULL, &text, err);
    if (!rc) rc = fg_json_parse(&doc, text.data, text.len, s->path, err);
    if (!rc) rc = fg_config_parse(&s->parsed, &doc, &s->arena, err);
    fg_json_close(&doc);
    fg_buf_free(&text);
    if (rc) return rc;
    s->config = &s->parsed;
    digest_gguf(s);
    return 0;
}

static bool find_hf(const struct fg_quant_source *s, const char *name, struct fg_quant_tensor *out)
{
    *out = (struct fg_quant_tensor){0};
    if (s->gguf) {
        const struct fg_import_tensor *t = fg_import_find(s->import, name);
        if (!t) return false;
        *out = (struct fg_quant_tensor){.name = t->name,
                                        .dtype = t->dtype,
                                        .rank = t->rank,
                                        .rows = t->rows,
                                        .cols = t->cols,
                                        .imp = t,
                                        .file = s->path};
        memcpy(out->shape, t->shape, sizeof t->shape);
        return true;
    }
    const struct fg_st_tensor *t = fg_checkpoint_find(s->model->checkpoint, name);
    if (!t || !dtype_of(t->dtype, &out->dtype)) return false;
    out->name = t->name;
    out->rank = t->rank;
    memcpy(out->shape, t->shape, sizeof t->shape);
    out->cols = t->rank > 0 ? t->shape[t->rank - 1] : 1;
    out->rows = 1;
    for (int i = 0; i + 1 < t->rank; i++)
        out->rows *= t->shape[i]; // the product with cols was checked on opening
    out->data = t->data;
    out->file = t->file;
    return true;
}

int fg_quant_source_open(struct fg_quant_source *s, const char *path, const struct fg_log *log,
                         struct fg_error *err)
{
    static const char *const prefixes[] = {"model.language_model.", "model.",
                                           "language_model.model.", ""};
    char name[96];
    struct fg_quant_tensor t;
    *s = (struct fg_quant_source){.path = path, .gguf = fg_file_exists(path)};
    fg_arena_init(&s->arena, 0);
    int rc;
    if (s->gguf) {
        rc = open_gguf(s, log, err);
    } else {
        rc = fg_model_open(&s->model, path, false, log, err);
        if (!rc && !s->model->checkpoint) {
            rc = fg_fail(err, FG_EINPUT, WHAT, path, NULL, "unquantized weights", "quantized ones");
        } else if (!rc) {
            s->config = &s->model->config;
            snprintf(s->digest, sizeof s->digest, "%s", s->model->digest);
        }
    }
    for (size_t i = 0; i < FG_COUNT(prefixes) && !rc && !s->prefix; i++) {
        snprintf(name, sizeof name, "%sembed_tokens.weight", prefixes[i]);
        if (find_hf(s, name, &t)) s->prefix = prefixes[i];
    }
    if (!rc && !s->prefix)
        rc = fg_fail(err, FG_EINPUT, WHAT, path, "embed_tokens.weight", "an embedding", "none");
    if (rc) fg_quant_source_close(s);
    return rc;
}

void fg_quant_source_close(struct fg_quant_source *s)
{
    fg_model_close(s->model);
    fg_import_close(s->import);
    fg_arena_free(&s->arena);
    *s = (struct fg_quant_source){0};
}

int fg_quant_source_find(const struct fg_quant_source *s, const char *name, bool is_mat,
                         struct fg_quant_tensor *out, struct fg_error *err)
{
    char hf[256];
    bool head = is_mat && strcmp(name, "lm_head") == 0;
    if (head && !s->config->tied) {
        if (find_hf(s, "lm_head.weight", out) || find_hf(s, "language_model.lm_head.weight", out))
            return 0;
    }
    if (head && s->config->tied) name = "embed_tokens";
    snprintf(hf, sizeof hf, "%s%s%s", s->prefix, name, is_mat ? ".weight" : "");
    if (find_hf(s, hf, out)) return 0;
    return fg_fail(err, FG_EINPUT, WHAT, s->path, hf, "a tensor of the model", "no such tensor");
}

int fg_quant_source_read(const struct fg_quant_source *s, const struct fg_quant_tensor *t,
                         uint64_t r0, uint64_t r1, void *dst, struct fg_error *err)
{
    if (t->imp) return fg_import_read(s->import, t->imp, r0, r1, t->dtype, dst, err);
    uint64_t row_bytes = t->cols * fg_dtype_bytes(t->dtype);
    memcpy(dst, t->data + r0 * row_bytes, (r1 - r0) * row_bytes);
    return 0;
}

void fg_quant_source_release(const struct fg_quant_source *s, const struct fg_quant_tensor *t,
                             uint64_t r0, uint64_t r1)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uint64_t bytes = 0, row_bytes = t->cols * fg_dtype_bytes(t->dtype);
    const uint8_t *from = t->data ? t->data + r0 * row_bytes : NULL;
    if (from)
        bytes = (r1 - r0) * row_bytes;
    else
        from = fg_gguf_bytes(fg_import_gguf(s->import), &bytes);
    // Clean pages of a private file map: whoever needs them again reads them again.
    uint64_t before = (uintptr_t)from % page;
    madvise((void *)(from - before), before + bytes, MADV_DONTNEED);
}

// ---- texts

static const char *const checkpoint_texts[] = {FG_QUANT_CONFIG_NAME,
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

const char *fg_quant_text_name(int i)
{
    return i >= 0 && (size_t)i < FG_COUNT(checkpoint_texts) ? checkpoint_texts[i] : NULL;
}

static int config_of(const struct fg_import *imp, struct fg_buf *out, struct fg_error *err)
{
    return fg_import_config(imp, NULL, out, err);
}

static const struct {
    const char *name;
    int (*make)(const struct fg_import *imp, struct fg_buf *out, struct fg_error *err);
} gguf_texts[] = {
    {FG_QUANT_CONFIG_NAME, config_of},
    {"tokenizer.json", fg_import_tokenizer},
    {"tokenizer_config.json", fg_import_tokenizer_config},
    {"generation_config.json", fg_import_generation_config},
    {"chat_template.jinja", fg_import_chat_template},
};

bool fg_quant_source_text(const struct fg_quant_source *s, int i, const char **name,
                          struct fg_buf *out, const struct fg_log *log, int *rc,
                          struct fg_error *err)
{
    size_t n = s->gguf ? FG_COUNT(gguf_texts) : FG_COUNT(checkpoint_texts);
    *rc = 0;
    fg_buf_clear(out);
    if (i < 0 || (size_t)i >= n) return false;
    if (s->gguf) {
        struct fg_error mine = {0};
        *name = gguf_texts[i].name;
        *rc = gguf_texts[i].make(s->import, out, &mine);
        if (*rc == FG_EINPUT && i > 0) { // weights are worth having without a tokenizer
            char line[1024];
            fg_log_warn(log, "%s is left out: %s", *name, fg_error_line(&mine, line, sizeof line));
            *rc = 0;
        } else if (*rc) {
            *err = mine;
        }
        return true;
    }
    *name = checkpoint_texts[i];
    char *path = fg_path_join(s->path, *name);
    if (!path)
        *rc = fg_fail_memory(err, WHAT, 0);
    else if (fg_path_taken(path))
        *rc = fg_file_load(out, path, TEXT_BYTES_MAX, err);
    free(path);
    return true;
}
