// eval/klk_summary.c: summary.json and sequences.jsonl as whoever wrote them left them: checked.
#include "eval/klk_summary.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "report"
#define SUMMARY_BYTES_MAX (16u << 20)
#define LINES_BYTES_MAX (256u << 20)
#define POSITIONS_MAX ((int64_t)1 << 40)

static int text(const struct fg_json *doc, const char *key, char **out, struct fg_error *err)
{
    const char *s;
    int rc = fg_json_str(doc, doc->root, "", key, "", &s, NULL, err);
    if (!rc && !(*out = strdup(s))) rc = fg_fail_memory(err, WHAT, strlen(s));
    return rc;
}

static int word(const struct fg_json *doc, const char *key, char *out, size_t cap,
                struct fg_error *err)
{
    const char *s;
    int rc = fg_json_str(doc, doc->root, "", key, "", &s, NULL, err);
    if (!rc) fg_escape(out, cap, s, strlen(s));
    return rc;
}

static int digest(const struct fg_json *doc, const char *key, char out[FG_SHA256_HEX],
                  struct fg_error *err)
{
    const char *s;
    char found[80];
    int rc = fg_json_str(doc, doc->root, "", key, "", &s, NULL, err);
    if (rc) return rc;
    size_t n = strlen(s);
    if (n == FG_SHA256_HEX - 1 && strspn(s, "0123456789abcdef") == n) {
        memcpy(out, s, n + 1);
        return 0;
    }
    return fg_fail(err, FG_EINPUT, WHAT, doc->file, key, "64 hexadecimal digits", "%s",
                   n ? fg_escape(found, sizeof found, s, n) : "nothing");
}

static int number(const struct fg_json *doc, struct json_object *obj, const char *where,
                  const char *key, double *out, struct fg_error *err)
{
    bool given = false;
    char field[96];
    int rc = fg_json_f64(doc, obj, where, key, 0, out, &given, err);
    if (rc || given) return rc;
    snprintf(field, sizeof field, "%s%s", where, key);
    return fg_fail(err, FG_EINPUT, WHAT, doc->file, field, "a number", "nothing");
}

static int count(const struct fg_json *doc, struct json_object *obj, const char *where,
                 const char *key, int64_t min, int64_t *out, struct fg_error *err)
{
    bool given = false;
    char field[96];
    int rc = fg_json_i64(doc, obj, where, key, 0, min, POSITIONS_MAX, out, &given, err);
    if (rc || given) return rc;
    snprintf(field, sizeof field, "%s%s", where, key);
    return fg_fail(err, FG_EINPUT, WHAT, doc->file, field, "a number", "nothing");
}

static int figures(const struct fg_json *doc, struct json_object *obj, const char *where,
                   struct fg_klk_figures *f, struct fg_error *err)
{
    struct json_object *ci = NULL;
    int rc = count(doc, obj, where, "sequences", 1, &f->sequences, err);
    if (!rc) rc = count(doc, obj, where, "positions", 1, &f->positions, err);
    if (!rc) rc = number(doc, obj, where, "mean_kl", &f->mean.value, err);
    if (!rc) rc = number(doc, obj, where, "median_kl", &f->median, err);
    if (!rc) rc = number(doc, obj, where, "p95_kl", &f->p95, err);
    if (!rc) rc = number(doc, obj, where, "p99_kl", &f->p99, err);
    if (!rc) rc = number(doc, obj, where, "max_kl", &f->max, err);
    if (!rc) rc = number(doc, obj, where, "top1", &f->top1, err);
    // What was too large to be written is null.
    if (!rc) rc = fg_json_f64(doc, obj, where, "ppl", INFINITY, &f->ppl, NULL, err);
    if (!rc) rc = fg_json_f64(doc, obj, where, "ref_ppl", INFINITY, &f->ref_ppl, NULL, err);
    if (!rc) rc = fg_json_arr(doc, obj, where, "mean_kl_ci95", &ci, err);
    if (!rc && (!ci || json_object_array_length(ci) != 2))
        rc = fg_fail(err, FG_EINPUT, WHAT, doc->file, "mean_kl_ci95", "two numbers", "others");
    if (!rc) {
        f->mean.lo = json_object_get_double(json_object_array_get_idx(ci, 0));
        f->mean.hi = json_object_get_double(json_object_array_get_idx(ci, 1));
    }
    return rc;
}

static int read_domains(struct fg_klk_summary *s, const struct fg_json *doc, struct fg_error *err)
{
    struct json_object *all = NULL;
    int rc = fg_json_obj(doc, doc->root, "", "domains", &all, err);
    int n = !rc && all ? json_object_object_length(all) : 0;
    if (rc || n == 0) return rc;
    if (n > FG_KLK_DOMAINS_MAX)
        return fg_fail_range(err, WHAT, doc->file, "domains", 0, FG_KLK_DOMAINS_MAX, n);
    s->domains = calloc((size_t)n, sizeof *s->domains);
    if (!s->domains) return fg_fail_memory(err, WHAT, (uint64_t)n * sizeof *s->domains);
    struct json_object_iterator it = json_object_iter_begin(all), end = json_object_iter_end(all);
    for (; !rc && !json_object_iter_equal(&it, &end); json_object_iter_next(&it)) {
        struct fg_klk_domain *d = &s->domains[s->n_domains++];
        const char *name = json_object_iter_peek_name(&it);
        char where[64];
        snprintf(where, sizeof where, "domains.%.40s.", name);
        d->name = strdup(name);
        rc = d->name ? figures(doc, json_object_iter_peek_value(&it), where, &d->f, err)
                     : fg_fail_memory(err, WHAT, strlen(name));
    }
    return rc;
}

static int read_options(struct fg_klk_summary *s, const struct fg_json *doc, struct fg_error *err)
{
    struct json_object *o = NULL;
    const char *where = "options.";
    int rc = fg_json_obj(doc, doc->root, "", "options", &o, err);
    if (!rc) rc = count(doc, o, where, "topk", 0, &s->k, err);
    if (!rc) rc = fg_json_bool(doc, o, where, "full", false, &s->full, NULL, err);
    if (!rc) rc = count(doc, o, where, "skip_prefix", 0, &s->skip_prefix, err);
    if (!rc) rc = fg_json_bool(doc, o, where, "answers_only", false, &s->answers_only, NULL, err);
    if (!rc) rc = count(doc, o, where, "seqs", 1, &s->seqs, err);
    return rc;
}

static int read_summary(struct fg_klk_summary *s, const struct fg_json *doc, struct fg_error *err)
{
    struct json_object *size = NULL;
    const char *kind = "";
    int64_t bytes = 0;
    int rc = fg_json_str(doc, doc->root, "", "kind", "", &kind, NULL, err);
    if (!rc && strcmp(kind, "kl") != 0)
        rc = fg_fail(err, FG_EINPUT, WHAT, doc->file, "kind", "kl", "another");
    if (!rc) rc = text(doc, "model", &s->model, err);
    if (!rc) rc = text(doc, "plan", &s->plan, err);
    if (!rc) rc = digest(doc, "model_digest", s->model_digest, err);
    if (!rc) rc = digest(doc, "trace_sha256", s->trace, err);
    if (!rc) rc = digest(doc, "reference_sha256", s->reference, err);
    if (!rc) rc = word(doc, "numerics", s->numerics, sizeof s->numerics, err);
    if (!rc) rc = word(doc, "kv_cache", s->kv_cache, sizeof s->kv_cache, err);
    if (!rc) rc = word(doc, "reference_numerics", s->ref_numerics, sizeof s->ref_numerics, err);
    if (!rc) rc = word(doc, "reference_kv_cache", s->ref_kv_cache, sizeof s->ref_kv_cache, err);
    if (!rc) rc = count(doc, doc->root, "", "vocab", 1, &s->vocab, err);
    if (!rc) rc = read_options(s, doc, err);
    if (!rc) rc = fg_json_bool(doc, doc->root, "", "control", false, &s->control, NULL, err);
    if (!rc) rc = fg_json_obj(doc, doc->root, "", "size_bytes", &size, err);
    if (!rc)
        rc = fg_json_i64(doc, size, "size_bytes.", "total", 0, 0, INT64_MAX, &bytes, NULL, err);
    s->bytes = (uint64_t)bytes;
    if (!rc) rc = fg_json_f64(doc, doc->root, "", "seconds", 0, &s->seconds, NULL, err);
    if (!rc) rc = figures(doc, doc->root, "", &s->all, err);
    return rc ? rc : read_domains(s, doc, err);
}

// ---- sequences.jsonl

static int domain_of(const struct fg_klk_summary *s, const char *label)
{
    for (int i = 0; i < s->n_domains; i++) {
        const char *name = s->domains[i].name;
        if (name && strcmp(name, label) == 0) return i;
    }
    return -1;
}

static int read_line(struct fg_klk_summary *s, const char *line, size_t n, const char *path,
                     struct fg_error *err)
{
    struct fg_klk_sequence *q = &s->sequences[s->n_sequences];
    struct fg_json doc;
    const char *label = NULL;
    int64_t least = s->n_sequences ? q[-1].index + 1 : 0;
    int rc = fg_json_parse(&doc, line, n, path, err);
    if (rc) return rc;
    rc = count(&doc, doc.root, "", "index", least, &q->index, err);
    if (!rc) rc = count(&doc, doc.root, "", "positions", 1, &q->positions, err);
    if (!rc) rc = fg_json_str(&doc, doc.root, "", "label", NULL, &label, NULL, err);
    q->domain = !rc && label ? domain_of(s, label) : -1;
    fg_json_close(&doc);
    s->n_sequences++;
    return rc;
}

static int read_lines(struct fg_klk_summary *s, const char *path, struct fg_error *err)
{
    struct fg_buf b = {0};
    int64_t positions = 0;
    int rc = fg_file_load(&b, path, LINES_BYTES_MAX, err);
    if (rc) return rc;
    s->sequences = calloc((size_t)s->all.sequences, sizeof *s->sequences);
    if (!s->sequences)
        rc = fg_fail_memory(err, WHAT, (uint64_t)s->all.sequences * sizeof *s->sequences);
    for (size_t at = 0; at < b.len && !rc;) {
        const char *end = memchr(b.data + at, '\n', b.len - at);
        size_t n = end ? (size_t)(end - b.data) - at : b.len - at;
        if (s->n_sequences == s->all.sequences)
            rc = fg_fail(err, FG_EINPUT, WHAT, path, "lines", "as many as sequences", "more");
        if (!rc) rc = read_line(s, b.data + at, n, path, err);
        if (!rc) positions += s->sequences[s->n_sequences - 1].positions;
        if (!rc && positions > s->all.positions) break;
        at += n + 1;
    }
    fg_buf_free(&b);
    if (rc || (s->n_sequences == s->all.sequences && positions == s->all.positions)) return rc;
    char expected[80];
    snprintf(expected, sizeof expected, "%" PRId64 " sequences with %" PRId64 " positions",
             s->all.sequences, s->all.positions);
    return fg_fail(err, FG_EINPUT, WHAT, path, "lines", expected, "%" PRId64 " with %" PRId64,
                   s->n_sequences, positions);
}

int fg_klk_summary_open(struct fg_klk_summary *out, const char *dir, struct fg_error *err)
{
    struct fg_json doc = {0};
    *out = (struct fg_klk_summary){.dir = strdup(dir)};
    char *summary = fg_path_join(dir, "summary.json"),
         *lines = fg_path_join(dir, "sequences.jsonl");
    int rc = out->dir && summary && lines ? 0 : fg_fail_memory(err, WHAT, strlen(dir));
    if (!rc && fg_dir_exists(dir) && !fg_path_taken(summary)) {
        rc = fg_fail(err, FG_EINPUT, WHAT, summary, NULL, "a finished report", "no such file");
        fg_error_hint(err, "forge eval kl --out makes it, or goes on with one that was stopped");
    }
    if (!rc) rc = fg_json_open(&doc, summary, SUMMARY_BYTES_MAX, err);
    if (!rc) rc = read_summary(out, &doc, err);
    if (!rc && out->all.sequences > INT32_MAX)
        rc = fg_fail_range(err, WHAT, summary, "sequences", 1, INT32_MAX, out->all.sequences);
    fg_json_close(&doc);
    if (!rc) rc = read_lines(out, lines, err);
    free(summary);
    free(lines);
    if (rc) fg_klk_summary_free(out);
    return rc;
}

void fg_klk_summary_free(struct fg_klk_summary *s)
{
    for (int i = 0; i < s->n_domains; i++)
        free(s->domains[i].name);
    free(s->domains);
    free(s->sequences);
    free(s->dir);
    free(s->model);
    free(s->plan);
    *s = (struct fg_klk_summary){0};
}
