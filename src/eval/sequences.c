#include "eval/sequences.h"
#include "base/buf.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int open_file(struct fg_trace *t, const char *path, int64_t vocab, const char *tokenizer,
                     struct fg_error *err)
{
    int rc = fg_trace_open(t, path, vocab, NULL, err);
    const char *made = t->facts.tokenizer_sha256;
    if (rc || !made[0] || !tokenizer[0] || strcmp(made, tokenizer) == 0) return rc;
    char expected[96];
    snprintf(expected, sizeof expected, "%.16s..., the model's tokenizer", tokenizer);
    rc = fg_fail(err, FG_EINTEGRITY, "trace", path, "tokenizer_sha256", expected, "%.16s...", made);
    fg_trace_free(t);
    return rc;
}

static int digest(struct fg_eval_set *set, struct fg_error *err)
{
    struct fg_buf lines = {0};
    if (set->n_files == 1) {
        memcpy(set->sha256, set->files[0].sha256, sizeof set->sha256);
        return 0;
    }
    for (int i = 0; i < set->n_files; i++)
        fg_buf_printf(&lines, "%s\n", set->files[i].sha256);
    bool made = !lines.failed && fg_sha256_hex(lines.data, lines.len, set->sha256);
    uint64_t bytes = lines.len;
    fg_buf_free(&lines);
    return made ? 0 : fg_fail_memory(err, "trace", bytes);
}

int fg_eval_set_open(struct fg_eval_set *set, const char *const *paths, int n, int64_t vocab,
                     const char *tokenizer, struct fg_error *err)
{
    *set = (struct fg_eval_set){.files = calloc((size_t)n, sizeof *set->files)};
    int rc = set->files ? 0 : fg_fail_memory(err, "trace", (uint64_t)n * sizeof *set->files);
    for (int f = 0; f < n && !rc; f++) {
        struct fg_trace *t = &set->files[f];
        rc = open_file(t, paths[f], vocab, tokenizer, err);
        if (rc) break;
        set->n_files++;
        set->n += t->n;
        set->positions += t->total - t->n;
        if (t->longest > set->longest) set->longest = t->longest;
        for (int64_t i = 0; i < t->n; i++) {
            if (set->shortest == 0 || t->lengths[i] < set->shortest) set->shortest = t->lengths[i];
        }
    }
    if (!rc) rc = digest(set, err);
    if (rc) fg_eval_set_free(set);
    return rc;
}

void fg_eval_set_free(struct fg_eval_set *set)
{
    for (int f = 0; f < set->n_files; f++)
        fg_trace_free(&set->files[f]);
    free(set->files);
    *set = (struct fg_eval_set){0};
}

struct fg_eval_seq fg_eval_set_at(const struct fg_eval_set *set, int64_t i)
{
    const struct fg_trace *t = set->files;
    for (; i >= t->n; t++)
        i -= t->n;
    return (struct fg_eval_seq){.ids = t->ids + t->starts[i],
                                .length = t->lengths[i],
                                .plen = t->plens[i],
                                .label = t->label ? t->labels[t->label[i]] : NULL};
}
