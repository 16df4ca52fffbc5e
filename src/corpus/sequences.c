// corpus/sequences.c: generated sequences as lines.
#include "corpus/sequences.h"
#include "base/file.h"
#include "base/json.h"
#include "base/num.h"
#include "corpus/lines.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "sequences"
#define NAME_MAX_BYTES 128
#define ABOUT_BYTES_MAX (1 << 20)

void fg_sequences_free(struct fg_sequences *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->item[i].id);
        free(s->item[i].kind);
        free(s->item[i].ids);
    }
    free(s->item);
    *s = (struct fg_sequences){0};
}

bool fg_sequences_add(struct fg_sequences *s, const char *id, const char *kind, const char *finish,
                      const int32_t *ids, int64_t n_prompt, int64_t n)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 64;
        struct fg_sequence *item = realloc(s->item, cap * sizeof *item);
        if (!item) return false;
        s->item = item;
        s->cap = cap;
    }
    struct fg_sequence q = {.id = strdup(id),
                            .kind = strdup(kind),
                            .ids = n > 0 ? malloc((size_t)n * sizeof *ids) : NULL,
                            .n_prompt = n_prompt,
                            .n = n};
    if (!q.id || !q.kind || !q.ids) {
        free(q.id);
        free(q.kind);
        free(q.ids);
        return false;
    }
    snprintf(q.finish, sizeof q.finish, "%s", finish);
    memcpy(q.ids, ids, (size_t)n * sizeof *ids);
    s->item[s->n++] = q;
    return true;
}

static void put_ids(struct fg_buf *out, const char *key, const int32_t *ids, int64_t n)
{
    fg_buf_printf(out, ", \"%s\": [", key);
    for (int64_t i = 0; i < n; i++)
        fg_buf_printf(out, i ? ", %" PRId32 : "%" PRId32, ids[i]);
    fg_buf_char(out, ']');
}

void fg_sequence_line(struct fg_buf *out, const struct fg_sequence *s)
{
    fg_buf_str(out, "{\"id\": ");
    fg_buf_json_str(out, s->id, strlen(s->id));
    fg_buf_str(out, ", \"kind\": ");
    fg_buf_json_str(out, s->kind, strlen(s->kind));
    fg_buf_printf(out, ", \"finish\": \"%s\"", s->finish);
    put_ids(out, "prompt", s->ids, s->n_prompt);
    put_ids(out, "reply", s->ids + s->n_prompt, s->n - s->n_prompt);
    fg_buf_str(out, "}\n");
}

// ---- reading

static int take_name(const struct fg_lines *l, const struct fg_jval *line, const char *key,
                     size_t min, char out[NAME_MAX_BYTES + 1], struct fg_error *err)
{
    const struct fg_jval *v = fg_jval_get(line, key);
    if (!v || v->kind != FG_JSTRING || v->n < min || v->n > NAME_MAX_BYTES ||
        memchr(v->text, 0, v->n))
        return fg_lines_fail(l, err, key, "a name of at most 128 bytes", "%s", fg_jval_kind(v));
    memcpy(out, v->text, v->n);
    out[v->n] = '\0';
    return 0;
}

static int take_ids(const struct fg_lines *l, const struct fg_jval *line, const char *key,
                    int32_t *ids, size_t *n, struct fg_error *err)
{
    const struct fg_jval *v = fg_jval_get(line, key);
    for (size_t i = 0; i < v->n; i++) {
        const struct fg_jval *item = &v->items[i];
        char text[16];
        int64_t id = -1;
        bool good = item->kind == FG_JNUMBER && item->n < sizeof text;
        if (good) {
            memcpy(text, item->text, item->n);
            text[item->n] = '\0';
            good = fg_parse_i64(text, &id) && id >= 0 && id <= INT32_MAX;
        }
        if (!good) return fg_lines_fail(l, err, key, "token ids", "item %zu is none", i);
        ids[(*n)++] = (int32_t)id;
    }
    return 0;
}

static int count_ids(const struct fg_lines *l, const struct fg_jval *line, const char *key,
                     size_t *n, struct fg_error *err)
{
    const struct fg_jval *v = fg_jval_get(line, key);
    *n = v && v->kind == FG_JARRAY ? v->n : 0;
    if (*n >= 1 && *n <= FG_SEQUENCE_TOKENS_MAX) return 0;
    return fg_lines_fail(l, err, key, "1 to 16777216 token ids", "%s",
                         v && v->kind == FG_JARRAY ? "another number" : fg_jval_kind(v));
}

static int take_line(struct fg_sequences *out, const struct fg_lines *l, const char *text, size_t n,
                     struct fg_error *err)
{
    char id[NAME_MAX_BYTES + 1], kind[NAME_MAX_BYTES + 1], finish[NAME_MAX_BYTES + 1];
    struct fg_jdoc doc;
    size_t n_prompt = 0, n_reply = 0, got = 0;
    int32_t *ids = NULL;
    int rc = fg_lines_parse(l, text, n, &doc, err);
    if (rc) return rc;
    rc = take_name(l, &doc.root, "id", 1, id, err);
    if (!rc) rc = take_name(l, &doc.root, "kind", 0, kind, err);
    if (!rc) rc = take_name(l, &doc.root, "finish", 1, finish, err);
    if (!rc && strcmp(finish, "stop") != 0 && strcmp(finish, "length") != 0 &&
        strcmp(finish, "context") != 0)
        rc = fg_lines_fail(l, err, "finish", "stop, length or context", "another word");
    if (!rc) rc = count_ids(l, &doc.root, "prompt", &n_prompt, err);
    if (!rc) rc = count_ids(l, &doc.root, "reply", &n_reply, err);
    if (!rc && !(ids = calloc(n_prompt + n_reply + 1, sizeof *ids)))
        rc = fg_fail_memory(err, WHAT, (n_prompt + n_reply) * sizeof *ids);
    if (!rc) rc = take_ids(l, &doc.root, "prompt", ids, &got, err);
    if (!rc) rc = take_ids(l, &doc.root, "reply", ids, &got, err);
    if (!rc && !fg_sequences_add(out, id, kind, finish, ids, (int64_t)n_prompt, (int64_t)got))
        rc = fg_fail_memory(err, WHAT, got * sizeof *ids);
    free(ids);
    fg_jdoc_free(&doc);
    return rc;
}

int fg_sequences_read(struct fg_sequences *out, uint64_t *whole_bytes, const char *path,
                      struct fg_error *err)
{
    struct fg_lines l;
    const char *text;
    size_t n;
    *out = (struct fg_sequences){0};
    *whole_bytes = 0;
    int rc = fg_lines_open(&l, WHAT, path, err);
    while (!rc && fg_lines_next(&l, &text, &n) && l.whole) {
        rc = take_line(out, &l, text, n, err);
        *whole_bytes = l.at;
    }
    fg_lines_close(&l);
    if (rc) fg_sequences_free(out);
    return rc;
}

// ---- generate.json

static int take_hex(const struct fg_json *doc, const char *key, char out[FG_SHA256_HEX],
                    struct fg_error *err)
{
    const char *v;
    size_t n = 0;
    int rc = fg_json_str(doc, doc->root, "", key, "", &v, &n, err);
    if (rc) return rc;
    if (n != 0 && (n != FG_SHA256_HEX - 1 || strspn(v, "0123456789abcdef") != n))
        return fg_fail(err, FG_EINPUT, WHAT, doc->file, key, "64 hexadecimal digits", "%zu bytes",
                       n);
    memcpy(out, v, n);
    out[n] = '\0';
    return 0;
}

int fg_sequences_about(struct fg_sequences_about *out, const char *dir, struct fg_error *err)
{
    struct fg_json doc = {0};
    const char *schema = "", *seed = "";
    char *path = fg_path_join(dir, FG_SEQUENCES_ABOUT);
    *out = (struct fg_sequences_about){0};
    if (!path) return fg_fail_memory(err, WHAT, strlen(dir));
    int rc = fg_json_open(&doc, path, ABOUT_BYTES_MAX, err);
    if (!rc) rc = fg_json_str(&doc, doc.root, "", "schema", "", &schema, NULL, err);
    if (!rc && strcmp(schema, FG_SEQUENCES_SCHEMA) != 0) {
        char found[64];
        fg_escape(found, sizeof found, schema, strlen(schema));
        rc = fg_fail(err, FG_EINPUT, WHAT, path, "schema", FG_SEQUENCES_SCHEMA, "\"%s\"", found);
    }
    if (!rc) rc = fg_json_bool(&doc, doc.root, "", "complete", false, &out->complete, NULL, err);
    if (!rc) rc = take_hex(&doc, "tokenizer_sha256", out->tokenizer_sha256, err);
    if (!rc) rc = take_hex(&doc, "model_digest", out->model_digest, err);
    if (!rc) rc = take_hex(&doc, "prompts_sha256", out->prompts_sha256, err);
    if (!rc)
        rc = fg_json_i64(&doc, doc.root, "", "prompts", 0, 0, INT64_MAX, &out->prompts, NULL, err);
    if (!rc) rc = fg_json_str(&doc, doc.root, "", "seed", "0", &seed, NULL, err);
    if (!rc && !fg_parse_u64(seed, &out->seed))
        rc = fg_fail(err, FG_EINPUT, WHAT, path, "seed", "a number below 2^64", "another text");
    fg_json_close(&doc);
    free(path);
    return rc;
}
