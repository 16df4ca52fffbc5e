#include "eval/model_size.h"
#include "base/json.h"
#include "bundle/source.h"
#include "eval/tensors.h"
#include "format/build.h"
#include "quant/export.h"
#include <string.h>

static uint64_t bytes_of(enum fg_st_dtype dtype, int64_t rows, int64_t cols)
{
    return (uint64_t)rows * (uint64_t)cols * fg_st_dtype_bytes(dtype);
}

// The plan as export.json has it: a name, or an object with or without one; its digest is among the
// options. What can't be read stays unknown: the export as such has been checked.
static void plan_name(struct fg_model_size *s, const char *json)
{
    struct fg_json doc;
    struct json_object *options = NULL, *plan = NULL;
    const char *name = "";
    if (!json || fg_json_parse(&doc, json, strlen(json), "export.json", NULL)) return;
    if (fg_json_obj(&doc, doc.root, "", "plan", &plan, NULL))
        fg_json_str(&doc, doc.root, "", "plan", "", &name, NULL, NULL);
    if (plan) fg_json_str(&doc, plan, "", "name", "", &name, NULL, NULL);
    if (!name[0] && !fg_json_obj(&doc, doc.root, "", "options", &options, NULL))
        fg_json_str(&doc, options, "", "plan", "", &name, NULL, NULL);
    fg_escape(s->plan, sizeof s->plan, name, strlen(name));
    fg_json_close(&doc);
}

static void add_set(struct fg_model_size *s, const struct fg_qset *set)
{
    for (uint64_t i = 0; i < set->n_mats; i++) {
        const struct fg_qmat *m = &set->mats[i].m;
        const uint64_t rows = (uint64_t)m->rows, cols = (uint64_t)m->cols;
        uint64_t bytes = 0, factors = 0;
        fg_qformat_bytes(m->format, rows, cols, &bytes);
        fg_lr_bytes(m->lr_dtype, rows, cols, (uint64_t)m->rank, &factors);
        s->weights += bytes;
        s->factors += factors;
    }
    for (uint64_t i = 0; i < set->n_small; i++)
        s->small += set->small[i].bytes;
}

static int of_source(struct fg_model_size *s, const char *path, struct fg_pool *pool,
                     struct fg_error *err)
{
    struct fg_source *source;
    const struct fg_source_options o = {.pool = pool};
    int rc = fg_source_open(&source, path, &o, err);
    if (rc) return rc;
    const struct fg_export *e = fg_source_export(source);
    const struct fg_build *b = fg_source_build(source);
    add_set(s, fg_source_set(source));
    if (e) {
        const struct fg_export_embedding *t = fg_export_embedding(e);
        if (t->data) s->embed = bytes_of(t->dtype, t->vocab, t->hidden);
        if (t->kind == FG_EMBEDDING_INT8) s->embed += 2 * (uint64_t)t->vocab;
        plan_name(s, fg_export_facts(e)->json);
    } else if (b) {
        const struct fg_build_embedding *t = fg_build_embedding(b);
        if (t->kind == FG_EMBEDDING_DENSE) s->embed = bytes_of(FG_ST_F16, t->vocab, t->hidden);
        if (t->kind == FG_EMBEDDING_INT8)
            s->embed = bytes_of(FG_ST_I8, t->vocab, t->hidden) + 2 * (uint64_t)t->vocab;
    }
    fg_source_close(source);
    return 0;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static int of_tensors(struct fg_model_size *s, const char *path, struct fg_error *err)
{
    struct fg_tensors *t;
    int rc = fg_tensors_open(&t, path, err);
    if (rc) return rc;
    for (uint64_t i = 0; i < fg_tensors_count(t); i++) {
        struct fg_tensor_view v = fg_tensors_at(t, i);
        bool embed =
            strcmp(v.name, "token_embd.weight") == 0 || ends_with(v.name, "embed_tokens.weight");
        *(embed ? &s->embed : &s->weights) += v.bytes;
    }
    fg_tensors_close(t);
    return 0;
}

int fg_model_size(struct fg_model_size *out, const char *path, struct fg_pool *pool,
                  struct fg_error *err)
{
    *out = (struct fg_model_size){0};
    int rc = fg_source_kind(path) == FG_SOURCE_NONE ? of_tensors(out, path, err)
                                                    : of_source(out, path, pool, err);
    out->total = out->weights + out->factors + out->embed + out->small;
    return rc;
}
