// eval/logits.c: blocks of rows through a session, into an npy stream.
#include "eval/logits.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/num.h"
#include "format/npy.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDS_BYTES_MAX ((uint64_t)1 << 31)

static bool is_separator(char c)
{
    return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

int fg_eval_parse_ids(const char *text, size_t n, const char *file, int32_t **ids, size_t *n_ids,
                      struct fg_error *err)
{
    *ids = NULL;
    *n_ids = 0;
    int32_t *list = malloc((n / 2 + 1) * sizeof *list); // a number and a separator each
    if (!list) return fg_fail_memory(err, "token ids", n / 2 * sizeof *list);
    size_t count = 0;
    for (size_t i = 0; i < n;) {
        if (is_separator(text[i])) {
            i++;
            continue;
        }
        size_t end = i;
        while (end < n && !is_separator(text[end]))
            end++;
        char word[24], field[48];
        int64_t v = -1;
        bool fits = end - i < sizeof word;
        if (fits) {
            memcpy(word, text + i, end - i);
            word[end - i] = '\0';
        }
        if (!fits || !fg_parse_i64(word, &v) || v < 0 || v > INT32_MAX) {
            snprintf(field, sizeof field, "token %zu", count);
            fg_escape(word, sizeof word, text + i, end - i);
            free(list);
            return fg_fail(err, FG_EINPUT, "token ids", file, field, "an id from 0 to 2147483647",
                           "%s", word);
        }
        list[count++] = (int32_t)v;
        i = end;
    }
    if (count == 0) {
        free(list);
        return fg_fail(err, FG_EINPUT, "token ids", file, NULL, "at least one id", "none");
    }
    *ids = list;
    *n_ids = count;
    return 0;
}

static int read_npy_ids(const char *path, int32_t **ids, size_t *n_ids, struct fg_error *err)
{
    struct fg_npy npy;
    int rc = fg_npy_open(&npy, path, err);
    if (rc) return rc;
    int32_t *list = NULL;
    if (npy.dtype != FG_NPY_I32 && npy.dtype != FG_NPY_I64) {
        rc = fg_fail(err, FG_EINPUT, "token ids", path, "dtype", "int32 or int64", "%s",
                     fg_npy_dtype_name(npy.dtype));
    } else if (npy.n == 0) {
        rc = fg_fail(err, FG_EINPUT, "token ids", path, NULL, "at least one id", "none");
    } else if (!(list = malloc(npy.n * sizeof *list))) {
        rc = fg_fail_memory(err, "token ids", npy.n * sizeof *list);
    }
    for (uint64_t i = 0; rc == 0 && i < npy.n; i++) {
        int64_t v;
        int32_t narrow;
        if (npy.dtype == FG_NPY_I64) {
            memcpy(&v, (const uint8_t *)npy.data + 8 * i, sizeof v);
        } else {
            memcpy(&narrow, (const uint8_t *)npy.data + 4 * i, sizeof narrow);
            v = narrow;
        }
        if (v < 0 || v > INT32_MAX) {
            char field[48];
            snprintf(field, sizeof field, "token %llu", (unsigned long long)i);
            rc = fg_fail_range(err, "token ids", path, field, 0, INT32_MAX, v);
        } else {
            list[i] = (int32_t)v;
        }
    }
    *n_ids = rc ? 0 : (size_t)npy.n;
    fg_npy_close(&npy);
    if (rc) free(list);
    *ids = rc ? NULL : list;
    return rc;
}

int fg_eval_read_ids(const char *path, int32_t **ids, size_t *n_ids, struct fg_error *err)
{
    static const char magic[] = "\x93NUMPY";
    struct fg_buf text = {0};
    *ids = NULL;
    *n_ids = 0;
    int rc = fg_file_read(&text, path, IDS_BYTES_MAX, err);
    if (rc) return rc;
    bool npy = text.len >= 6 && memcmp(text.data, magic, 6) == 0;
    if (npy && strcmp(path, "-") == 0) {
        rc = fg_fail(err, FG_EINPUT, "token ids", "standard input", NULL, "ids as text",
                     "an npy file");
    } else if (!npy) {
        rc = fg_eval_parse_ids(text.data ? text.data : "", text.len, path, ids, n_ids, err);
    }
    fg_buf_free(&text);
    return rc || !npy ? rc : read_npy_ids(path, ids, n_ids, err);
}

// ---- the run

struct tap {
    const char *name;
    int layer;
    uint64_t total; // rows in the file
    struct fg_npy_writer *writer;
    const char *out;
    bool open;
    int rc;
    struct fg_error *err;
};

// Rows of the tap arrive in order; its width is known with the first block.
static void on_tap(void *ctx, const char *name, int layer, int64_t pos, int64_t rows, int64_t width,
                   const float *data, int64_t stride)
{
    struct tap *t = ctx;
    (void)pos;
    if (t->rc || layer != t->layer || strcmp(name, t->name) != 0) return;
    if (!t->open) {
        uint64_t shape[2] = {t->total, (uint64_t)width};
        t->rc = fg_npy_writer_open(t->writer, t->out, FG_NPY_F32, 2, shape, t->err);
        t->open = t->rc == 0;
    }
    for (int64_t r = 0; r < rows && t->rc == 0; r++)
        t->rc =
            fg_npy_writer_add(t->writer, data + r * stride, (uint64_t)width * sizeof *data, t->err);
}

static int run_blocks(struct forge_session *s, const struct fg_eval_logits *job, int64_t vocab,
                      struct tap *tap, float *logits, struct fg_error *err)
{
    int64_t total = (int64_t)job->n;
    for (int64_t at = 0; at < total;) {
        int64_t rows = total - at < job->rows ? total - at : job->rows;
        int rc =
            forge_session_run(s, job->ids + at, rows, logits, logits ? rows : 0, NULL, NULL, err);
        if (rc == 0) rc = tap->rc;
        if (rc == 0 && logits)
            rc = fg_npy_writer_add(tap->writer, logits,
                                   (uint64_t)rows * (uint64_t)vocab * sizeof *logits, err);
        if (rc) return rc;
        at += rows;
        if (job->progress && job->progress(job->ctx, at, total) != 0)
            return fg_fail(err, FG_EINTERRUPTED, "logits", NULL, NULL, NULL,
                           "stopped after %lld of %lld positions", (long long)at, (long long)total);
    }
    if (job->tap && !tap->open) {
        char field[96];
        snprintf(field, sizeof field, "%s, layer %d", job->tap, job->tap_layer);
        return fg_fail(err, FG_EINPUT, "tap", NULL, field, "an intermediate of this model",
                       "none of that name and layer");
    }
    return 0;
}

static int check_ids(const struct forge_engine *e, const struct fg_eval_logits *job,
                     const struct forge_engine_info *info, struct fg_error *err)
{
    if (forge_context_for(e, (int64_t)job->n) == 0) {
        char expected[64];
        snprintf(expected, sizeof expected, "at most %lld, the model's positions",
                 (long long)info->entries[info->n_entries - 1]);
        return fg_fail(err, FG_EINPUT, "token ids", NULL, "count", expected, "%zu", job->n);
    }
    for (size_t i = 0; i < job->n; i++) {
        if (job->ids[i] >= 0 && job->ids[i] < info->vocab) continue;
        char field[48];
        snprintf(field, sizeof field, "token %zu", i);
        return fg_fail_range(err, "token ids", NULL, field, 0, info->vocab - 1, job->ids[i]);
    }
    return 0;
}

int fg_eval_logits(struct forge_engine *e, const struct fg_eval_logits *job, struct fg_error *err)
{
    struct forge_engine_info info;
    forge_engine_info(e, &info);
    struct forge_session_options so = {
        .capacity = job->context ? job->context : forge_context_for(e, (int64_t)job->n),
        .rows = job->rows};
    struct forge_session *s = NULL;
    struct fg_npy_writer writer = {0};
    struct tap tap = {.name = job->tap,
                      .layer = job->tap_layer,
                      .total = job->n,
                      .writer = &writer,
                      .out = job->out,
                      .err = err};
    float *logits = NULL;
    int rc = check_ids(e, job, &info, err);
    if (rc == 0) rc = forge_session_new(&s, e, &so, err);
    if (rc) goto done;
    if (job->tap) {
        forge_session_tap(s, on_tap, &tap);
    } else {
        uint64_t shape[2] = {job->n, (uint64_t)info.vocab};
        logits = calloc((size_t)job->rows * (size_t)info.vocab, sizeof *logits);
        if (!logits) {
            rc = fg_fail_memory(err, "logits", (uint64_t)job->rows * (uint64_t)info.vocab * 4);
            goto done;
        }
        rc = fg_npy_writer_open(&writer, job->out, FG_NPY_F32, 2, shape, err);
        if (rc) goto done;
    }
    rc = run_blocks(s, job, info.vocab, &tap, logits, err);
    if (rc == 0) rc = fg_npy_writer_commit(&writer, err);
done:
    fg_npy_writer_abort(&writer);
    forge_session_free(s);
    free(logits);
    return rc;
}
