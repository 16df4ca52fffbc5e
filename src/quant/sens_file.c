// quant/sens_file.c: sensitivity tables from JSON and as JSON.
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/jwrite.h"
#include "quant/sens.h"
#include "quant/sens_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SCHEMA "forge.sens/1"
#define FILE_BYTES_MAX (64ull << 20)
#define METRICS "rel_err_h, err_h, kl, delta_nll, fisher_kl or ns"
#define UNITS "3.gate, 3.mlp, 3.mixer, mlp:0-7, mixer:0-7 or head"

struct parser {
    struct fg_json doc;
    struct fg_sens *out;
    struct fg_error *err;
    char where[32]; // "rows[12]."
};

// expected in the words of a table, found from the file: escaped.
static int refuse(const struct parser *p, const char *where, const char *name, const char *expected,
                  const char *found)
{
    char field[160], text[96], key[96];
    fg_escape(text, sizeof text, found, strlen(found));
    fg_escape(key, sizeof key, name, strlen(name));
    snprintf(field, sizeof field, "%s%s", where, key);
    return fg_fail(p->err, FG_EINPUT, FG_SENS_WHAT, p->doc.file, field, expected, "%s", text);
}

static int check_keys(const struct parser *p, struct json_object *obj, const char *where,
                      const char *const *known, const char *expected)
{
    json_object_object_foreach(obj, key, v)
    {
        bool found = false;
        (void)v;
        for (const char *const *k = known; *k && !found; k++)
            found = strcmp(*k, key) == 0;
        if (!found) return refuse(p, where, key, expected, "unknown key");
    }
    return 0;
}

// 64 lower-case hexadecimal digits, or nothing.
static int read_sha256(const struct parser *p, struct json_object *obj, const char *where,
                       const char *key, char out[FG_SHA256_HEX])
{
    const char *text = "";
    int rc = fg_json_str(&p->doc, obj, where, key, "", &text, NULL, p->err);
    if (rc || !text[0]) return rc;
    if (strlen(text) != 64 || strspn(text, "0123456789abcdef") != 64)
        return refuse(p, where, key, "64 hexadecimal digits", text);
    memcpy(out, text, 65);
    return 0;
}

static int read_model(const struct parser *p, struct json_object *obj)
{
    static const char *const known[] = {"architecture", "layers", "hidden", "intermediate",
                                        "vocab",        "digest", NULL};
    static const char where[] = "model.";
    struct fg_sens *s = p->out;
    const char *arch = "";
    int rc =
        check_keys(p, obj, where, known, "architecture layers hidden intermediate vocab digest");
    if (!rc) rc = fg_json_str(&p->doc, obj, where, "architecture", "", &arch, NULL, p->err);
    if (!rc && strlen(arch) >= sizeof s->architecture)
        rc = refuse(p, where, "architecture", "the name of an architecture", arch);
    if (!rc) snprintf(s->architecture, sizeof s->architecture, "%s", arch);
    const struct {
        const char *key;
        int64_t max, *out;
    } extents[] = {{"layers", FG_SENS_LAYERS_MAX, &s->layers},
                   {"hidden", INT32_MAX, &s->hidden},
                   {"intermediate", INT32_MAX, &s->intermediate},
                   {"vocab", INT32_MAX, &s->vocab}};
    for (size_t i = 0; i < sizeof extents / sizeof extents[0] && !rc; i++)
        rc = fg_json_i64(&p->doc, obj, where, extents[i].key, 0, 0, extents[i].max, extents[i].out,
                         NULL, p->err);
    return rc ? rc : read_sha256(p, obj, where, "digest", s->digest);
}

static int read_ci95(const struct parser *p, struct json_object *obj, double out[2])
{
    static const char expected[] = "two numbers, the lower first";
    struct json_object *list = NULL;
    int rc = fg_json_arr(&p->doc, obj, p->where, "ci95", &list, p->err);
    out[0] = out[1] = NAN;
    if (rc || !list) return rc;
    bool ok = json_object_array_length(list) == 2;
    for (size_t i = 0; i < 2 && ok; i++) {
        struct json_object *v = json_object_array_get_idx(list, i);
        ok = json_object_is_type(v, json_type_double) || json_object_is_type(v, json_type_int);
        if (ok) out[i] = json_object_get_double(v);
        ok = ok && isfinite(out[i]);
    }
    if (ok && out[0] <= out[1]) return 0;
    out[0] = out[1] = NAN;
    return refuse(p, p->where, "ci95", expected, json_object_to_json_string(list));
}

static bool metric_of_name(const char *name, enum fg_sens_metric *out)
{
    for (int m = 0; m < FG_SENS_N_METRICS; m++) {
        if (strcmp(name, fg_sens_metric_name((enum fg_sens_metric)m)) != 0) continue;
        *out = (enum fg_sens_metric)m;
        return true;
    }
    return false;
}

// What goes together: figures of single matrices are of matrices; only a difference is negative.
static int check_row(const struct parser *p, const struct fg_sens_row *row)
{
    char text[32];
    const bool of_unit = row->metric == FG_SENS_KL || row->metric == FG_SENS_DELTA_NLL;
    if (!of_unit && row->unit.scope != FG_SENS_MATRIX) {
        char unit[FG_SENS_UNIT_TEXT];
        return refuse(p, p->where, "unit", "one matrix, as the metric is of matrices",
                      fg_sens_unit_text(unit, &row->unit));
    }
    if (row->value >= 0 || row->metric == FG_SENS_DELTA_NLL) return 0;
    snprintf(text, sizeof text, "%g", row->value);
    return refuse(p, p->where, "value", "0 or more", text);
}

static int read_row(const struct parser *p, struct json_object *obj)
{
    static const char *const known[] = {"unit", "format", "metric",       "value",
                                        "ci95", "tokens", "trace_sha256", NULL};
    struct fg_sens_row row = {.order = 0};
    const char *unit = "", *format = "", *metric = "";
    bool given = false;
    int rc =
        check_keys(p, obj, p->where, known, "unit format metric value ci95 tokens trace_sha256");
    if (!rc) rc = fg_json_str(&p->doc, obj, p->where, "unit", "", &unit, NULL, p->err);
    if (!rc && !fg_sens_unit_parse(&row.unit, unit)) rc = refuse(p, p->where, "unit", UNITS, unit);
    if (!rc) rc = fg_json_str(&p->doc, obj, p->where, "format", "", &format, NULL, p->err);
    if (!rc && (!fg_qformat_of_name(format, &row.format) || row.format == FG_Q_F32))
        rc = refuse(p, p->where, "format", "v2x16, v2x64, lut4, lut6, int8, bf16 or f16", format);
    if (!rc) rc = fg_json_str(&p->doc, obj, p->where, "metric", "", &metric, NULL, p->err);
    if (!rc && !metric_of_name(metric, &row.metric))
        rc = refuse(p, p->where, "metric", METRICS, metric);
    if (!rc) rc = fg_json_f64(&p->doc, obj, p->where, "value", 0, &row.value, &given, p->err);
    if (!rc && !given) rc = refuse(p, p->where, "value", "a number", "nothing");
    if (!rc) rc = read_ci95(p, obj, row.ci95);
    if (!rc)
        rc = fg_json_i64(&p->doc, obj, p->where, "tokens", 0, 0, INT64_MAX - 1, &row.tokens, NULL,
                         p->err);
    if (!rc) rc = read_sha256(p, obj, p->where, "trace_sha256", row.trace_sha256);
    if (!rc) rc = check_row(p, &row);
    return rc ? rc : fg_sens_add(p->out, &row, p->err);
}

static int read_rows(struct parser *p, struct json_object *list)
{
    char found[32];
    const size_t n = json_object_array_length(list);
    if (n > FG_SENS_ROWS_MAX) {
        snprintf(found, sizeof found, "%zu", n);
        return refuse(p, "", "rows", "at most 262144 rows", found);
    }
    for (size_t i = 0; i < n; i++) {
        struct json_object *row = json_object_array_get_idx(list, i);
        snprintf(p->where, sizeof p->where, "rows[%zu].", i);
        if (!json_object_is_type(row, json_type_object)) {
            snprintf(found, sizeof found, "rows[%zu]", i);
            return refuse(p, "", found, "an object",
                          row ? json_type_to_name(json_object_get_type(row)) : "null");
        }
        int rc = read_row(p, row);
        if (rc) return rc;
    }
    return 0;
}

static int read_root(struct parser *p)
{
    static const char *const known[] = {"schema", "model", "rows", "provenance", NULL};
    struct json_object *root = p->doc.root, *model = NULL, *rows = NULL;
    const char *schema = "";
    if (!root || !json_object_is_type(root, json_type_object))
        return fg_fail(p->err, FG_EINPUT, FG_SENS_WHAT, p->doc.file, NULL, "a JSON object", "%s",
                       root ? json_type_to_name(json_object_get_type(root)) : "null");
    int rc = fg_json_str(&p->doc, root, "", "schema", "", &schema, NULL, p->err);
    if (!rc && strcmp(schema, SCHEMA) != 0)
        rc = refuse(p, "", "schema", SCHEMA, schema[0] ? schema : "nothing");
    if (!rc) rc = check_keys(p, root, "", known, "schema model rows provenance");
    if (!rc) rc = fg_json_obj(&p->doc, root, "", "model", &model, p->err);
    if (!rc) rc = fg_json_arr(&p->doc, root, "", "rows", &rows, p->err);
    if (!rc && model) rc = read_model(p, model);
    if (!rc && !rows) rc = refuse(p, "", "rows", "a list", "nothing");
    return rc ? rc : read_rows(p, rows);
}

int fg_sens_parse(struct fg_sens *out, const char *text, size_t n, const char *file,
                  struct fg_error *err)
{
    struct parser p = {.out = out, .err = err};
    *out = (struct fg_sens){0};
    int rc = fg_json_parse(&p.doc, text, n, file, err);
    if (!rc) rc = read_root(&p);
    if (!rc && !fg_sha256_hex(text, n, out->sha256)) rc = fg_fail_memory(err, FG_SENS_WHAT, n);
    fg_json_close(&p.doc);
    if (rc)
        fg_sens_free(out);
    else
        fg_sens_sort(out);
    return rc;
}

int fg_sens_open(struct fg_sens *out, const char *path, struct fg_error *err)
{
    struct fg_buf text = {0};
    *out = (struct fg_sens){0};
    int rc = fg_file_read(&text, path, FILE_BYTES_MAX, err);
    if (!rc) rc = fg_sens_parse(out, text.len ? text.data : "", text.len, path, err);
    fg_buf_free(&text);
    return rc;
}

// ---- writing

static void write_model(const struct fg_sens *s, struct fg_jwrite *w)
{
    if (!s->architecture[0] && !s->layers && !s->hidden && !s->intermediate && !s->vocab &&
        !s->digest[0])
        return;
    fg_jwrite_object(w, "model");
    if (s->architecture[0]) fg_jwrite_str(w, "architecture", s->architecture);
    if (s->layers) fg_jwrite_int(w, "layers", s->layers);
    if (s->hidden) fg_jwrite_int(w, "hidden", s->hidden);
    if (s->intermediate) fg_jwrite_int(w, "intermediate", s->intermediate);
    if (s->vocab) fg_jwrite_int(w, "vocab", s->vocab);
    if (s->digest[0]) fg_jwrite_str(w, "digest", s->digest);
    fg_jwrite_end_object(w);
}

static void write_row(const struct fg_sens_row *row, struct fg_jwrite *w)
{
    char unit[FG_SENS_UNIT_TEXT];
    fg_jwrite_object(w, NULL);
    fg_jwrite_str(w, "unit", fg_sens_unit_text(unit, &row->unit));
    fg_jwrite_str(w, "format", fg_qformat_name(row->format));
    fg_jwrite_str(w, "metric", fg_sens_metric_name(row->metric));
    fg_jwrite_num(w, "value", row->value);
    if (!isnan(row->ci95[0])) {
        fg_jwrite_array(w, "ci95");
        fg_jwrite_num(w, NULL, row->ci95[0]);
        fg_jwrite_num(w, NULL, row->ci95[1]);
        fg_jwrite_end_array(w);
    }
    if (row->tokens) fg_jwrite_int(w, "tokens", row->tokens);
    if (row->trace_sha256[0]) fg_jwrite_str(w, "trace_sha256", row->trace_sha256);
    fg_jwrite_end_object(w);
}

int fg_sens_write(const struct fg_sens *s, const char *path, const char *command, const char *date,
                  struct fg_error *err)
{
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "schema", SCHEMA);
    write_model(s, &w);
    fg_jwrite_array(&w, "rows");
    for (uint64_t i = 0; i < s->n; i++)
        write_row(&s->rows[i], &w);
    fg_jwrite_end_array(&w);
    if (command || date) {
        fg_jwrite_object(&w, "provenance");
        if (command) fg_jwrite_str(&w, "command", command);
        if (date) fg_jwrite_str(&w, "date", date);
        fg_jwrite_end_object(&w);
    }
    fg_jwrite_end_object(&w);
    fg_buf_char(&w.buf, '\n');
    int rc = w.buf.failed ? fg_fail_memory(err, FG_SENS_WHAT, w.buf.len)
                          : fg_file_replace(path, w.buf.data, w.buf.len, err);
    fg_jwrite_free(&w);
    return rc;
}
