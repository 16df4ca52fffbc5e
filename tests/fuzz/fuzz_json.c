// Arbitrary bytes through both JSON readers, which must agree on what is JSON, and through every
// typed access.
#include "base/json.h"
#include "base/jval.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static void check(bool holds)
{
    if (!holds) abort();
}

static void check_error(int rc, const struct fg_error *err)
{
    if (rc) check(err->code == rc && err->file[0] && err->field[0] && err->expected[0]);
}

static void visit(const struct fg_json *doc, struct json_object *object)
{
    json_object_object_foreach(object, key, value)
    {
        struct fg_error err;
        int64_t i;
        double f;
        bool b, given;
        const char *s;
        size_t n;
        struct json_object *sub;
        int rc = fg_json_i64(doc, object, "in.", key, 1, -1000, INT64_MAX, &i, &given, &err);
        check(given == (rc == 0 && value));
        check(rc != 0 || i >= -1000);
        check_error(rc, &err);
        rc = fg_json_f64(doc, object, "in.", key, 1, &f, NULL, &err);
        check(rc != 0 || isfinite(f));
        check_error(rc, &err);
        check_error(fg_json_bool(doc, object, "in.", key, true, &b, NULL, &err), &err);
        rc = fg_json_str(doc, object, "in.", key, "", &s, &n, &err);
        check(rc != 0 || s[n] == '\0');
        check_error(rc, &err);
        check_error(fg_json_arr(doc, object, "in.", key, &sub, &err), &err);
        rc = fg_json_obj(doc, object, "in.", key, &sub, &err);
        check_error(rc, &err);
        if (rc == 0 && sub) visit(doc, sub);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *text = (const char *)data;
    struct fg_json doc;
    struct fg_jdoc values;
    struct fg_error err;
    int rc = fg_json_parse(&doc, text, n, "fuzz", &err);
    int rc_values = fg_jdoc_parse(&values, text, n, "fuzz", NULL);
    check(rc == 0 || rc == FG_EINPUT);
    check_error(rc, &err);
    check(rc != 0 || rc_values == 0);
    if (rc_values == 0 && rc != 0) check(strstr(err.expected, "levels of nesting") != NULL);
    if (rc == 0 && json_object_is_type(doc.root, json_type_object)) visit(&doc, doc.root);
    fg_json_close(&doc);
    fg_jdoc_free(&values);
    return 0;
}
