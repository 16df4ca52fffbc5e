// JSON with limits: what parses, what is refused and where, typed access.
#include "base/json.h"
#include "support/scratch.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// Parses from a heap block of exactly n bytes, so that a read past the end is seen.
static int parse(struct fg_json *doc, const char *text, size_t n, struct fg_error *err)
{
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    if (n) memcpy(copy, text, n);
    int rc = fg_json_parse(doc, copy, n, "t.json", err);
    free(copy);
    return rc;
}

static struct fg_json parsed(const char *text)
{
    struct fg_json doc;
    struct fg_error err;
    char line[2048];
    if (parse(&doc, text, strlen(text), &err))
        fail_msg("%s: %s", text, fg_error_line(&err, line, sizeof line));
    return doc;
}

static void test_accepted(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        // text, and what json-c prints for it
        {"5", "5"},
        {"-5", "-5"},
        {" \t\r\n0 \n", "0"},
        {"1.5", "1.5"},
        {"-0.5e-3", "-0.5e-3"},
        {"1E+5", "1E+5"},
        {"[1e-05,0.0,-0,10e00]", "[1e-05,0.0,0,10e00]"},
        {"true", "true"},
        {"false", "false"},
        {"null", "null"},
        {"\"\"", "\"\""},
        {"\"x\"", "\"x\""},
        {"[]", "[]"},
        {"{}", "{}"},
        {"[1,[2,{\"a\":[]}],null]", "[1,[2,{\"a\":[]}],null]"},
        {"{\"b\":1,\"a\":2,\"b\":3}", "{\"b\":3,\"a\":2}"}, // first place, last value
        {"\"\\u00e9\\n\\\"\\\\\\/\\ud83d\\ude00\"", "\"\xC3\xA9\\n\\\"\\\\/\xF0\x9F\x98\x80\""},
        {"\"NaN Infinity 1. -01 [[[\"", "\"NaN Infinity 1. -01 [[[\""}, // in a string: text
        {"\"\\\\\"", "\"\\\\\""},
        {"\"\\\\\\\"N\"", "\"\\\\\\\"N\""},
        {"{\"a\\\"N\":1}", "{\"a\\\"N\":1}"},
        {"\"\x7F\xC2\x80\xF4\x8F\xBF\xBF\"", "\"\x7F\xC2\x80\xF4\x8F\xBF\xBF\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fg_json doc = parsed(cases[i][0]);
        assert_string_equal(
            json_object_to_json_string_ext(doc.root, JSON_C_TO_STRING_NOSLASHESCAPE), cases[i][1]);
        assert_string_equal(doc.file, "t.json");
        fg_json_close(&doc);
        fg_json_close(&doc); // twice is fine
    }
}

static void test_refused_with_place(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n; // 0: strlen
        const char *place;
    } cases[] = {
        {"", 0, "line 1:1"},
        {"  \n ", 0, "line 2:2"},
        {"[1", 0, "line 1:3"},
        {"\"abc", 0, "line 1:5"},
        {"{\"a\"", 0, "line 1:5"},
        {"nul", 0, "line 1:4"},
        {"-", 0, "line 1:1"},
        {"1e", 0, "line 1:1"},
        {"[1]\n\n  x", 0, "line 3:3"},
        {"[1]]", 0, "line 1:4"},
        {"1 2", 0, "line 1:3"},
        {"{} \xC3\xA9", 0, "line 1:4"},
        {"[1,\n2,\n!]", 0, "line 3:1"},
        {"[NaN]", 0, "line 1:2"},
        {"NaN", 0, "line 1:1"},
        {"Infinity", 0, "line 1:1"},
        {"{\"a\":\n -Infinity}", 0, "line 2:2"},
        {"// c\n1", 0, "line 1:1"},
        {"[1 /* c */]", 0, NULL},
        {"['a']", 0, "line 1:2"},
        {"[1,]", 0, NULL},
        {"{\"a\":1,}", 0, NULL},
        {"{a:1}", 0, "line 1:2"},
        {"{1:1}", 0, NULL},
        {"[01]", 0, NULL},
        {"01", 0, NULL},
        {"-01", 0, "line 1:1"},
        {"1.", 0, "line 1:1"},
        {"[1.e5]", 0, "line 1:2"},
        {"00", 0, "line 1:1"},
        {"[0,-00]", 0, "line 1:4"},
        {".5", 0, NULL},
        {"+1", 0, NULL},
        {"1e5e5", 0, NULL},
        {"0x10", 0, NULL},
        {"TRUE", 0, NULL},
        {"[tru]", 0, NULL},
        {"\"\\x\"", 0, NULL},
        {"\"\\u12g4\"", 0, NULL},
        {"\"a\nb\"", 0, "line 1:3"},
        {"\"a\tb\"", 0, "line 1:3"},
        {"\"a\0b\"", 5, "line 1:3"},
        {"1\0", 2, "line 1:2"},
        {"\0", 1, "line 1:1"},
        {"\v1", 0, "line 1:1"},
        {"\xEF\xBB\xBF{}", 0, NULL}, // a byte order mark is no white space
        {"\"\xFF\"", 0, "line 1:2"},
        {"\"\xC0\x80\"", 0, "line 1:2"},
        {"\"\xED\xA0\x80\"", 0, "line 1:2"},
        {"\"\xF4\x90\x80\x80\"", 0, "line 1:2"},
        {"\"\xE2\x82\"", 0, "line 1:2"},
        {"\"\xE2\x82", 0, "line 1:2"},
        {"{\"\xFF\":1}", 0, "line 1:3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fg_json doc;
        struct fg_error err;
        size_t n = cases[i].n ? cases[i].n : strlen(cases[i].text);
        memset(&doc, 0xFF, sizeof doc);
        int rc = parse(&doc, cases[i].text, n, &err);
        if (rc != FG_EINPUT) fail_msg("case %zu, %s: rc %d", i, cases[i].text, rc);
        assert_null(doc.root);
        assert_null(doc.file);
        assert_string_equal(err.what, "json");
        assert_string_equal(err.file, "t.json");
        if (cases[i].place && strcmp(err.field, cases[i].place) != 0)
            fail_msg("case %zu, %s: %s, not %s", i, cases[i].text, err.field, cases[i].place);
        assert_memory_equal(err.field, "line ", 5);
        assert_true(err.expected[0] && err.found[0]);
    }
}

// Every prefix of a document that needs its end is refused, with no read past it.
static void test_every_truncation(void **state)
{
    (void)state;
    const char text[] =
        "{\"a\": [1, -2.5e3, \"\\u00e9\xC3\xA9\\\\\", true, null], \"b\": {\"c\": {}}}";
    for (size_t n = 0; n < sizeof text - 1; n++) {
        struct fg_json doc;
        struct fg_error err;
        if (parse(&doc, text, n, &err) != FG_EINPUT) fail_msg("%.*s parses", (int)n, text);
    }
    struct fg_json doc = parsed(text);
    fg_json_close(&doc);
}

static void test_depth(void **state)
{
    (void)state;
    static const char *const open[] = {"[", "{\"k\":"}, *const inner[] = {"1", ""};
    for (int kind = 0; kind < 2; kind++) {
        for (int full = 0; full < 2; full++) {
            for (int depth = FG_JSON_DEPTH_MAX - 1; depth <= FG_JSON_DEPTH_MAX + 1; depth++) {
                char text[1024] = "";
                for (int i = 0; i < depth - 1; i++)
                    strcat(text, open[kind]);
                strcat(text, kind ? (full ? "{\"k\":" : "{") : "[");
                if (full) strcat(text, inner[0]);
                for (int i = 0; i < depth; i++)
                    strcat(text, kind ? "}" : "]");
                struct fg_json doc;
                struct fg_error err;
                int rc = parse(&doc, text, strlen(text), &err);
                if (rc != (depth > FG_JSON_DEPTH_MAX ? FG_EINPUT : 0))
                    fail_msg("kind %d, depth %d, full %d: rc %d, %s", kind, depth, full, rc,
                             err.found);
                fg_json_close(&doc);
            }
        }
    }
    // Depth is what is open, not what was.
    char wide[4 * 200 + 8] = "[";
    for (int i = 0; i < 200; i++)
        strcat(wide, i ? ",[]" : "[]");
    strcat(wide, "]");
    struct fg_json doc = parsed(wide);
    fg_json_close(&doc);
    // A bomb of brackets ends early and without recursion.
    size_t n = 1 << 20;
    char *bomb = malloc(n);
    struct fg_error err;
    assert_non_null(bomb);
    memset(bomb, '[', n);
    assert_int_equal(parse(&doc, bomb, n, &err), FG_EINPUT);
    assert_string_equal(err.field, "line 1:65");
    free(bomb);
}

static void test_nul_in_strings(void **state)
{
    (void)state;
    struct fg_json doc = parsed("{\"s\":\"a\\u0000b\"}");
    struct fg_error err;
    const char *s;
    size_t n;
    assert_int_equal(fg_json_str(&doc, doc.root, "", "s", NULL, &s, &n, &err), 0);
    assert_int_equal(n, 3);
    assert_memory_equal(s, "a\0b", 4);
    fg_json_close(&doc);
}

static void test_integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t min, max;
        int rc;
        int64_t value;
    } cases[] = {
        {"5", 0, 10, 0, 5},
        {"0", 0, 10, 0, 0},
        {"10", 0, 10, 0, 10},
        {"11", 0, 10, FG_EINPUT, 0},
        {"-1", 0, 10, FG_EINPUT, 0},
        {"5.0", 0, 10, 0, 5},
        {"5e0", 0, 10, 0, 5},
        {"-0.0", 0, 10, 0, 0},
        {"5.5", 0, 10, FG_EINPUT, 0},
        {"1e-9", 0, 10, FG_EINPUT, 0},
        {"1e400", 0, INT64_MAX, FG_EINPUT, 0},
        {"1e19", 0, INT64_MAX, FG_EINPUT, 0},
        {"9007199254740992.0", 0, INT64_MAX, 0, 1ll << 53},
        {"9007199254740994.0", 0, INT64_MAX, FG_EINPUT, 0}, // doubles stop being exact
        {"9223372036854775807", INT64_MIN, INT64_MAX, 0, INT64_MAX},
        {"9223372036854775808", INT64_MIN, INT64_MAX, FG_EINPUT, 0},
        {"18446744073709551616", INT64_MIN, INT64_MAX, FG_EINPUT, 0},
        {"99999999999999999999999999", INT64_MIN, INT64_MAX, FG_EINPUT, 0},
        {"-9223372036854775807", INT64_MIN, INT64_MAX, 0, -INT64_MAX},
        {"-9223372036854775809", INT64_MIN, INT64_MAX, FG_EINPUT, 0},
        {"\"5\"", 0, 10, FG_EINPUT, 0},
        {"true", 0, 10, FG_EINPUT, 0},
        {"[5]", 0, 10, FG_EINPUT, 0},
        {"{}", 0, 10, FG_EINPUT, 0},
        {"null", 0, 10, 0, 77},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"n\":%s}", cases[i].text);
        struct fg_json doc = parsed(text);
        struct fg_error err;
        int64_t out;
        bool given;
        int rc = fg_json_i64(&doc, doc.root, "text_config.", "n", 77, cases[i].min, cases[i].max,
                             &out, &given, &err);
        if (rc != cases[i].rc || (!rc && out != cases[i].value))
            fail_msg("%s in %" PRId64 "..%" PRId64 ": rc %d, %" PRId64, cases[i].text, cases[i].min,
                     cases[i].max, rc, out);
        if (!rc) assert_int_equal(given, strcmp(cases[i].text, "null") != 0);
        if (rc) {
            assert_string_equal(err.file, "t.json");
            assert_string_equal(err.field, "text_config.n");
            assert_true(err.expected[0] && err.found[0]);
        }
        fg_json_close(&doc);
    }
}

static void test_other_types(void **state)
{
    (void)state;
    struct fg_json doc = parsed("{\"i\":3,\"f\":-2.5e3,\"big\":1e999,\"t\":true,\"s\":\"x\\u00e9\","
                                "\"o\":{\"k\":1},\"a\":[1,2],\"z\":null}");
    struct json_object *o = doc.root, *sub;
    struct fg_error err;
    double f;
    bool b, given;
    const char *s;
    size_t n;

    assert_int_equal(fg_json_f64(&doc, o, "", "i", 0, &f, &given, &err), 0);
    assert_true(f == 3 && given);
    assert_int_equal(fg_json_f64(&doc, o, "", "f", 0, &f, NULL, &err), 0);
    assert_true(f == -2500);
    assert_int_equal(fg_json_f64(&doc, o, "", "none", 0.5, &f, &given, &err), 0);
    assert_true(f == 0.5 && !given);
    assert_int_equal(fg_json_f64(&doc, o, "", "big", 0, &f, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_json_f64(&doc, o, "", "s", 0, &f, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_json_f64(&doc, o, "", "t", 0, &f, NULL, &err), FG_EINPUT);

    assert_int_equal(fg_json_bool(&doc, o, "", "t", false, &b, &given, &err), 0);
    assert_true(b && given);
    assert_int_equal(fg_json_bool(&doc, o, "", "z", true, &b, &given, &err), 0);
    assert_true(b && !given);
    assert_int_equal(fg_json_bool(&doc, o, "", "i", false, &b, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_json_bool(&doc, o, "", "s", false, &b, NULL, &err), FG_EINPUT);

    assert_int_equal(fg_json_str(&doc, o, "", "s", NULL, &s, &n, &err), 0);
    assert_string_equal(s, "x\xC3\xA9");
    assert_int_equal(n, 3);
    assert_int_equal(fg_json_str(&doc, o, "", "none", "def", &s, &n, &err), 0);
    assert_string_equal(s, "def");
    assert_int_equal(n, 3);
    assert_int_equal(fg_json_str(&doc, o, "", "none", NULL, &s, NULL, &err), 0);
    assert_null(s);
    assert_int_equal(fg_json_str(&doc, o, "", "i", NULL, &s, &n, &err), FG_EINPUT);
    assert_string_equal(err.found, "3");

    assert_int_equal(fg_json_obj(&doc, o, "", "o", &sub, &err), 0);
    assert_true(fg_json_has(sub, "k"));
    assert_int_equal(fg_json_obj(&doc, o, "", "z", &sub, &err), 0);
    assert_null(sub);
    assert_int_equal(fg_json_obj(&doc, o, "", "a", &sub, &err), FG_EINPUT);
    assert_int_equal(fg_json_arr(&doc, o, "", "a", &sub, &err), 0);
    assert_int_equal(json_object_array_length(sub), 2);
    assert_int_equal(fg_json_arr(&doc, o, "", "none", &sub, &err), 0);
    assert_null(sub);
    assert_int_equal(fg_json_arr(&doc, o, "", "o", &sub, &err), FG_EINPUT);

    assert_true(fg_json_has(o, "i"));
    assert_false(fg_json_has(o, "z"));
    assert_false(fg_json_has(o, "none"));
    // What is no object has no fields.
    assert_int_equal(fg_json_arr(&doc, o, "", "a", &sub, &err), 0);
    assert_false(fg_json_has(sub, "i"));
    assert_false(fg_json_has(NULL, "i"));
    assert_int_equal(fg_json_f64(&doc, NULL, "", "i", 9, &f, NULL, &err), 0);
    assert_true(f == 9);
    fg_json_close(&doc);
}

static void test_files(void **state)
{
    (void)state;
    struct scratch s;
    struct fg_json doc;
    struct fg_error err;
    scratch_open(&s);
    assert_int_equal(fg_json_open(&doc, scratch_write(&s, "a.json", "{\"a\":1}", 7), 7, &err), 0);
    assert_string_equal(doc.file, s.path);
    fg_json_close(&doc);
    assert_int_equal(fg_json_open(&doc, s.path, 6, &err), FG_EINPUT);
    assert_null(doc.root);
    assert_int_equal(fg_json_open(&doc, scratch_write(&s, "b.json", "", 0), 100, &err), FG_EINPUT);
    assert_int_equal(fg_json_open(&doc, scratch_path(&s, "none"), 100, &err), FG_EINPUT);
    assert_int_equal(fg_json_open(&doc, s.dir, 100, &err), FG_EINPUT);
    scratch_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),         cmocka_unit_test(test_refused_with_place),
        cmocka_unit_test(test_every_truncation), cmocka_unit_test(test_depth),
        cmocka_unit_test(test_nul_in_strings),   cmocka_unit_test(test_integers),
        cmocka_unit_test(test_other_types),      cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
