// quant/sens.c: the table in memory: units, rows, merging, looking up. Files are sens_file.c's.
#include "quant/sens.h"
#include "base/size.h"
#include "quant/sens_impl.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const metric_names[FG_SENS_N_METRICS] = {
    [FG_SENS_REL_ERR] = "rel_err_h",
    [FG_SENS_TOKEN_ERR] = "rel_err_t",
    [FG_SENS_ERR] = "err_h",
    [FG_SENS_KL] = "kl",
    [FG_SENS_DELTA_NLL] = "delta_nll",
    [FG_SENS_FISHER] = "fisher_kl",
    [FG_SENS_NS] = "ns",
};

const char *fg_sens_metric_name(enum fg_sens_metric m)
{
    return metric_names[m];
}

// ---- units

static const char *part_text(bool mixer)
{
    return mixer ? "mixer" : "mlp";
}

char *fg_sens_unit_text(char out[FG_SENS_UNIT_TEXT], const struct fg_sens_unit *u)
{
    if (u->first < 0)
        snprintf(out, FG_SENS_UNIT_TEXT, "head");
    else if (u->scope == FG_SENS_MATRIX)
        snprintf(out, FG_SENS_UNIT_TEXT, "%" PRId64 ".%s", u->first, fg_plan_part_name(u->part));
    else if (u->scope == FG_SENS_PART)
        snprintf(out, FG_SENS_UNIT_TEXT, "%" PRId64 ".%s", u->first, part_text(u->mixer));
    else
        snprintf(out, FG_SENS_UNIT_TEXT, "%s:%" PRId64 "-%" PRId64, part_text(u->mixer), u->first,
                 u->last);
    return out;
}

// A layer's number as it is written; *s moves behind it.
static bool layer_of(const char **s, int64_t *layer)
{
    const char *at = *s;
    int64_t n = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        n = 10 * n + (*at - '0');
        if (n >= FG_SENS_LAYERS_MAX) return false;
    }
    if (at == *s || (**s == '0' && at != *s + 1)) return false;
    *s = at;
    *layer = n;
    return true;
}

static bool band_of(struct fg_sens_unit *u, const char *s)
{
    u->scope = FG_SENS_BAND;
    return layer_of(&s, &u->first) && *s++ == '-' && layer_of(&s, &u->last) && *s == '\0' &&
           u->first <= u->last;
}

bool fg_sens_unit_parse(struct fg_sens_unit *out, const char *text)
{
    struct fg_sens_unit u = {.scope = FG_SENS_MATRIX};
    *out = u;
    if (strcmp(text, "head") == 0) {
        *out = (struct fg_sens_unit){FG_SENS_MATRIX, -1, -1, FG_PLAN_HEAD, false};
        return true;
    }
    for (int mixer = 0; mixer < 2; mixer++) {
        const char *name = part_text(mixer);
        size_t n = strlen(name);
        if (strncmp(text, name, n) != 0 || text[n] != ':') continue;
        u.mixer = mixer;
        if (!band_of(&u, text + n + 1)) return false;
        *out = u;
        return true;
    }
    if (!layer_of(&text, &u.first) || *text++ != '.') return false;
    u.last = u.first;
    for (int p = 0; p < FG_PLAN_HEAD; p++) {
        if (strcmp(text, fg_plan_part_name((enum fg_plan_part)p)) != 0) continue;
        u.part = (enum fg_plan_part)p;
        u.mixer = !fg_plan_part_is_mlp(u.part);
        *out = u;
        return true;
    }
    u.scope = FG_SENS_PART;
    u.mixer = strcmp(text, "mixer") == 0;
    if (strcmp(text, part_text(u.mixer)) != 0) return false;
    *out = u;
    return true;
}

struct fg_sens_unit fg_sens_unit_of(const struct fg_plan_mat *m)
{
    return (struct fg_sens_unit){.scope = FG_SENS_MATRIX,
                                 .first = m->layer,
                                 .last = m->layer,
                                 .part = m->part,
                                 .mixer = m->layer >= 0 && !fg_plan_part_is_mlp(m->part)};
}

// ---- rows

void fg_sens_free(struct fg_sens *s)
{
    free(s->rows);
    *s = (struct fg_sens){0};
}

int fg_sens_add(struct fg_sens *s, const struct fg_sens_row *row, struct fg_error *err)
{
    if (s->n == s->cap) {
        const uint64_t cap = s->cap ? 2 * s->cap : 256;
        struct fg_sens_row *grown =
            cap <= FG_SENS_ROWS_MAX ? realloc(s->rows, cap * sizeof *grown) : NULL;
        if (!grown) return fg_fail_memory(err, FG_SENS_WHAT, cap * sizeof *grown);
        s->rows = grown;
        s->cap = cap;
    }
    s->rows[s->n] = *row;
    s->rows[s->n].order = s->n;
    s->n++;
    return 0;
}

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_key(const struct fg_sens_row *a, const struct fg_sens_row *b)
{
    const struct fg_sens_unit *u = &a->unit, *v = &b->unit;
    int c = compare(a->metric, b->metric);
    if (!c) c = compare(u->scope, v->scope);
    if (!c) c = compare(u->first, v->first);
    if (!c) c = compare(u->last, v->last);
    if (!c) c = compare(u->mixer, v->mixer);
    if (!c && u->scope == FG_SENS_MATRIX) c = compare(u->part, v->part);
    return c ? c : compare(a->format, b->format);
}

static int by_key_and_order(const void *a, const void *b)
{
    const struct fg_sens_row *x = a, *y = b;
    const int c = by_key(x, y);
    return c ? c : (x->order > y->order) - (x->order < y->order);
}

void fg_sens_sort(struct fg_sens *s)
{
    uint64_t n = 0;
    if (s->n) qsort(s->rows, (size_t)s->n, sizeof *s->rows, by_key_and_order);
    for (uint64_t i = 0; i < s->n; i++) {
        if (n > 0 && by_key(&s->rows[n - 1], &s->rows[i]) == 0) n--;
        s->rows[n++] = s->rows[i];
    }
    s->n = n;
    for (uint64_t i = 0; i < n; i++)
        s->rows[i].order = i;
}

const struct fg_sens_row *fg_sens_find(const struct fg_sens *s, enum fg_sens_metric metric,
                                       const struct fg_sens_unit *unit, enum fg_qformat format)
{
    const struct fg_sens_row key = {.unit = *unit, .format = format, .metric = metric};
    uint64_t lo = 0, hi = s->n;
    while (lo < hi) {
        const uint64_t mid = lo + (hi - lo) / 2;
        const int c = by_key(&s->rows[mid], &key);
        if (c == 0) return &s->rows[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

// ---- models

static int refuse(struct fg_error *err, const char *file, const char *field, const char *expected,
                  const char *found)
{
    return fg_fail(err, FG_EINPUT, FG_SENS_WHAT, file, field, expected, "%s", found);
}

// A number that both say must be the same; 0: not said.
static int same_number(int64_t *into, int64_t from, const char *field, const char *file,
                       struct fg_error *err)
{
    char expected[48], found[32];
    if (!*into) *into = from;
    if (!from || from == *into) return 0;
    snprintf(expected, sizeof expected, "%" PRId64 ", as before", *into);
    snprintf(found, sizeof found, "%" PRId64, from);
    return refuse(err, file, field, expected, found);
}

static int same_text(char *into, size_t cap, const char *from, const char *field, const char *file,
                     struct fg_error *err)
{
    char expected[128];
    if (!into[0]) snprintf(into, cap, "%s", from);
    if (!from[0] || strcmp(into, from) == 0) return 0;
    snprintf(expected, sizeof expected, "%s, as before", into);
    return refuse(err, file, field, expected, from);
}

static int same_model(struct fg_sens *into, const struct fg_sens *from, const char *file,
                      struct fg_error *err)
{
    int rc = same_text(into->architecture, sizeof into->architecture, from->architecture,
                       "model.architecture", file, err);
    if (!rc) rc = same_number(&into->layers, from->layers, "model.layers", file, err);
    if (!rc) rc = same_number(&into->hidden, from->hidden, "model.hidden", file, err);
    if (!rc)
        rc = same_number(&into->intermediate, from->intermediate, "model.intermediate", file, err);
    if (!rc) rc = same_number(&into->vocab, from->vocab, "model.vocab", file, err);
    if (!rc)
        rc = same_text(into->digest, sizeof into->digest, from->digest, "model.digest", file, err);
    return rc;
}

int fg_sens_merge(struct fg_sens *into, const struct fg_sens *from, const char *name,
                  struct fg_error *err)
{
    int rc = same_model(into, from, name, err);
    for (uint64_t i = 0; i < from->n && !rc; i++)
        rc = fg_sens_add(into, &from->rows[i], err);
    fg_sens_sort(into);
    return rc;
}

void fg_sens_set_model(struct fg_sens *s, const struct fg_plan_shape *shape)
{
    snprintf(s->architecture, sizeof s->architecture, "%s", shape->architecture);
    s->layers = shape->n_layers;
    s->hidden = shape->hidden;
    s->intermediate = shape->intermediate;
    s->vocab = shape->vocab;
}

static bool has_unit(const struct fg_plan_shape *shape, const struct fg_sens_unit *u)
{
    if (u->first < 0) return true;
    if (u->last >= shape->n_layers) return false;
    if (u->scope != FG_SENS_MATRIX || !u->mixer) return true;
    const bool linear_part = u->part >= FG_PLAN_QKV && u->part <= FG_PLAN_OUT;
    return shape->is_linear[u->first] == linear_part;
}

int fg_sens_check(const struct fg_sens *s, const struct fg_plan_shape *shape, const char *name,
                  struct fg_error *err)
{
    struct fg_sens model = {0};
    fg_sens_set_model(&model, shape);
    int rc = same_model(&model, s, name, err);
    if (rc) fg_error_hint(err, "the figures are of another model");
    for (uint64_t i = 0; i < s->n && !rc; i++) {
        char unit[FG_SENS_UNIT_TEXT];
        if (!has_unit(shape, &s->rows[i].unit))
            rc = refuse(err, name, fg_sens_unit_text(unit, &s->rows[i].unit), "a part of the model",
                        "no such part");
    }
    return rc;
}
