// quant/plan_notes.c: what a plan file says about itself: the members "estimate" and "provenance".
#include "base/size.h"
#include "quant/plan_impl.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

struct fg_plan_notes fg_plan_no_notes(void)
{
    return (struct fg_plan_notes){.kl = NAN,
                                  .rho = NAN,
                                  .verified_kl = NAN,
                                  .verified_ci95 = {NAN, NAN},
                                  .verified_rho = NAN};
}

const struct fg_plan_notes *fg_plan_notes(const struct fg_plan *p)
{
    return &p->notes;
}

void fg_plan_set_notes(struct fg_plan *p, const struct fg_plan_notes *notes)
{
    p->notes = *notes;
}

// ---- reading

struct reader {
    const struct fg_json *doc;
    struct json_object *obj;
    const char *where; // "estimate."
    struct fg_error *err;
    int rc; // first error
};

// The member `key` of `from`, its fields as WHERE.
static struct reader member(const struct reader *from, const char *key, const char *where)
{
    struct reader r = *from;
    r.where = where;
    r.obj = NULL;
    if (!r.rc) r.rc = fg_json_obj(r.doc, from->obj, from->where, key, &r.obj, r.err);
    return r;
}

static void number(struct reader *r, const char *key, double *out)
{
    if (!r->rc) r->rc = fg_json_f64(r->doc, r->obj, r->where, key, *out, out, NULL, r->err);
}

// Cut to fit.
static void text(struct reader *r, const char *key, char *out, size_t cap)
{
    const char *s = "";
    if (!r->rc) r->rc = fg_json_str(r->doc, r->obj, r->where, key, "", &s, NULL, r->err);
    if (!r->rc) snprintf(out, cap, "%s", s);
}

static void refuse(struct reader *r, const char *key, const char *expected)
{
    char field[64];
    snprintf(field, sizeof field, "%s%s", r->where, key);
    if (!r->rc)
        r->rc = fg_fail(r->err, FG_EINPUT, FG_PLAN_WHAT, r->doc->file, field, expected,
                        "something else");
}

static bool is_number(struct json_object *v)
{
    return json_object_is_type(v, json_type_double) || json_object_is_type(v, json_type_int);
}

static void interval(struct reader *r, const char *key, double out[2])
{
    struct json_object *list = NULL;
    if (!r->rc) r->rc = fg_json_arr(r->doc, r->obj, r->where, key, &list, r->err);
    if (r->rc || !list) return;
    bool ok = json_object_array_length(list) == 2;
    for (size_t i = 0; i < 2 && ok; i++) {
        ok = is_number(json_object_array_get_idx(list, i));
        if (ok) out[i] = json_object_get_double(json_object_array_get_idx(list, i));
    }
    if (!ok || !isfinite(out[0]) || !isfinite(out[1])) refuse(r, key, "two numbers");
}

static void read_inputs(struct reader *r, struct fg_plan_notes *n)
{
    struct json_object *list = NULL;
    if (!r->rc) r->rc = fg_json_arr(r->doc, r->obj, r->where, "inputs", &list, r->err);
    for (size_t i = 0; !r->rc && list && i < json_object_array_length(list); i++) {
        struct json_object *v = json_object_array_get_idx(list, i);
        if (!json_object_is_type(v, json_type_string)) {
            refuse(r, "inputs", "a list of texts");
        } else if (n->n_inputs < FG_PLAN_INPUTS_MAX) {
            snprintf(n->inputs[n->n_inputs++], sizeof n->inputs[0], "%s",
                     json_object_get_string(v));
        }
    }
}

int fg_plan_read_notes(struct fg_plan_notes *out, const struct fg_json *doc, struct fg_error *err)
{
    const struct reader root = {.doc = doc, .obj = doc->root, .where = "", .err = err};
    struct fg_plan_notes n = fg_plan_no_notes();
    struct reader e = member(&root, "estimate", "estimate.");
    number(&e, "kl", &n.kl);
    number(&e, "rho", &n.rho);
    text(&e, "unit", n.unit, sizeof n.unit);
    read_inputs(&e, &n);
    struct reader v = member(&e, "verified", "estimate.verified.");
    number(&v, "kl", &n.verified_kl);
    interval(&v, "ci95", n.verified_ci95);
    number(&v, "rho", &n.verified_rho);
    if (!v.rc)
        v.rc = fg_json_i64(doc, v.obj, v.where, "tokens", 0, 0, INT64_MAX - 1, &n.verified_tokens,
                           NULL, err);
    text(&v, "trace_sha256", n.verified_trace, sizeof n.verified_trace);
    text(&v, "date", n.verified_date, sizeof n.verified_date);
    if (v.rc) return v.rc;
    struct reader p = member(&root, "provenance", "provenance.");
    text(&p, "command", n.command, sizeof n.command);
    text(&p, "date", n.date, sizeof n.date);
    if (!p.rc) *out = n;
    return p.rc;
}

// ---- writing

static void put_number(struct fg_jwrite *w, const char *key, double v)
{
    if (!isnan(v)) fg_jwrite_num(w, key, v);
}

static void put_text(struct fg_jwrite *w, const char *key, const char *s)
{
    if (s[0]) fg_jwrite_str(w, key, s);
}

static void write_verified(const struct fg_plan_notes *n, struct fg_jwrite *w)
{
    fg_jwrite_object(w, "verified");
    fg_jwrite_num(w, "kl", n->verified_kl);
    if (!isnan(n->verified_ci95[0])) {
        fg_jwrite_array(w, "ci95");
        fg_jwrite_num(w, NULL, n->verified_ci95[0]);
        fg_jwrite_num(w, NULL, n->verified_ci95[1]);
        fg_jwrite_end_array(w);
    }
    put_number(w, "rho", n->verified_rho);
    if (n->verified_tokens) fg_jwrite_int(w, "tokens", n->verified_tokens);
    put_text(w, "trace_sha256", n->verified_trace);
    put_text(w, "date", n->verified_date);
    fg_jwrite_end_object(w);
}

void fg_plan_write_notes(const struct fg_plan_notes *n, struct fg_jwrite *w)
{
    if (!isnan(n->kl) || !isnan(n->verified_kl) || n->n_inputs) {
        fg_jwrite_object(w, "estimate");
        put_number(w, "kl", n->kl);
        put_text(w, "unit", n->unit);
        put_number(w, "rho", n->rho);
        if (n->n_inputs) fg_jwrite_array(w, "inputs");
        for (int i = 0; i < n->n_inputs; i++)
            fg_jwrite_str(w, NULL, n->inputs[i]);
        if (n->n_inputs) fg_jwrite_end_array(w);
        if (!isnan(n->verified_kl)) write_verified(n, w);
        fg_jwrite_end_object(w);
    }
    if (n->command[0] || n->date[0]) {
        fg_jwrite_object(w, "provenance");
        put_text(w, "command", n->command);
        put_text(w, "date", n->date);
        fg_jwrite_end_object(w);
    }
}
