// JSON values: what is kept, what is refused and where, and hostile shapes.
#include "base/buf.h"
#include "base/jval.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct fg_jdoc parse(const char *text, size_t n)
{
    struct fg_jdoc doc;
    struct fg_error err;
    if (fg_jdoc_parse(&doc, text, n, "test", &err))
        fail_msg("%.*s: %s: expected %s, found %s", (int)n, text, err.field, err.expected,
                 err.found);
    return doc;
}

static void check_text(const struct fg_jval *v, enum fg_jkind kind, const char *s, size_t n)
{
    assert_non_null(v);
    assert_int_equal(v->kind, kind);
    assert_int_equal(v->n, n);
    if (n) assert_memory_equal(v->text, s, n);
}

static void test_values(void **state)
{
    (void)state;
    static const char text[] =
        " {\"s\" : \"a\\u0000\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20AC\\ud83d\\ude42\xC3\xA9\","
        "\"n\":[-0,1.50,1E+5,123456789012345678901234567890],\r\n\t"
        "\"k\\u0000y\":true,\"\":false,\"z\":null,\"e\":[],\"o\":{}} \n";
    struct fg_jdoc doc = parse(text, sizeof text - 1);
    const struct fg_jval *r = &doc.root, *n = fg_jval_get(r, "n");
    assert_int_equal(r->kind, FG_JOBJECT);
    assert_int_equal(r->n, 7);
    check_text(fg_jval_get(r, "s"), FG_JSTRING,
               "a\0\"\\/\b\f\n\r\t\xC3\xA9\xE2\x82\xAC\xF0\x9F\x99\x82\xC3\xA9", 21);
    assert_int_equal(n->kind, FG_JARRAY);
    assert_int_equal(n->n, 4);
    check_text(&n->items[0], FG_JNUMBER, "-0", 2);
    check_text(&n->items[1], FG_JNUMBER, "1.50", 4);
    check_text(&n->items[2], FG_JNUMBER, "1E+5", 4);
    check_text(&n->items[3], FG_JNUMBER, "123456789012345678901234567890", 30);
    assert_int_equal(r->members[2].key_n, 3);
    assert_memory_equal(r->members[2].key, "k\0y", 3);
    assert_true(r->members[2].value.truth);
    assert_null(fg_jval_get(r, "k"));
    assert_int_equal(fg_jval_get(r, "")->kind, FG_JBOOL);
    assert_int_equal(fg_jval_get(r, "z")->kind, FG_JNULL);
    assert_int_equal(fg_jval_get(r, "e")->n, 0);
    assert_int_equal(fg_jval_get(r, "o")->kind, FG_JOBJECT);
    assert_null(fg_jval_get(n, "s"));
    assert_null(fg_jval_get(NULL, "s"));
    assert_false(fg_jval_is(NULL, ""));
    assert_false(fg_jval_is(n, ""));
    assert_true(fg_jval_is(&(struct fg_jval){.kind = FG_JSTRING}, ""));
    fg_jdoc_free(&doc);
    fg_jdoc_free(&doc);
}

static void test_surrogates(void **state)
{
    (void)state;
    static const struct {
        const char *text, *value;
    } cases[] = {
        {"\"\\ud800\"", "\xEF\xBF\xBD"},
        {"\"\\udc00x\"", "\xEF\xBF\xBDx"},
        {"\"\\ud800\\n\"", "\xEF\xBF\xBD\n"},
        {"\"\\ud83d\\ud83d\\ude42\"", "\xEF\xBF\xBD\xF0\x9F\x99\x82"},
        {"\"\\udbff\\udfff\"", "\xF4\x8F\xBF\xBF"},
        {"\"\\ude42\\ud83d\"", "\xEF\xBF\xBD\xEF\xBF\xBD"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fg_jdoc doc = parse(cases[i].text, strlen(cases[i].text));
        check_text(&doc.root, FG_JSTRING, cases[i].value, strlen(cases[i].value));
        fg_jdoc_free(&doc);
    }
}

// First place, last value, for few and for many keys.
static void test_repeated_keys(void **state)
{
    (void)state;
    static const char few[] = "{\"a\":1,\"b\":2,\"a\":3,\"\":4,\"a\":5,\"\":6}";
    struct fg_jdoc doc = parse(few, sizeof few - 1);
    assert_int_equal(doc.root.n, 3);
    check_text(&doc.root.members[0].value, FG_JNUMBER, "5", 1);
    check_text(&doc.root.members[1].value, FG_JNUMBER, "2", 1);
    check_text(&doc.root.members[2].value, FG_JNUMBER, "6", 1);
    fg_jdoc_free(&doc);

    enum { N = 200000 }; // where comparing each with each would not end
    struct fg_buf text = {0};
    fg_buf_char(&text, '{');
    for (int i = 0; i < 2 * N; i++)
        fg_buf_printf(&text, "%s\"k%d\":%d", i ? "," : "", (int)((int64_t)i * 7919 % N), i);
    fg_buf_char(&text, '}');
    doc = parse(text.data, text.len);
    assert_int_equal(doc.root.n, N);
    for (int i = 0; i < N; i += 997) {
        char key[16], value[16];
        snprintf(key, sizeof key, "k%d", (int)((int64_t)i * 7919 % N));
        snprintf(value, sizeof value, "%d", i + N);
        assert_int_equal(doc.root.members[i].key_n, strlen(key));
        assert_memory_equal(doc.root.members[i].key, key, strlen(key));
        check_text(&doc.root.members[i].value, FG_JNUMBER, value, strlen(value));
    }
    fg_jdoc_free(&doc);
    fg_buf_free(&text);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *where, *found;
    } cases[] = {
        {"", "1:1", "the end of the text"},
        {" \n ", "2:2", "the end of the text"},
        {"nul", "1:1", "n"},
        {"nulla", "1:5", "a"},
        {"NaN", "1:1", "N"},
        {"Infinity", "1:1", "I"},
        {"-Infinity", "1:2", "I"},
        {"'a'", "1:1", "'"},
        {"+1", "1:1", "+"},
        {"01", "1:2", "1"},
        {"-", "1:2", "the end of the text"},
        {".5", "1:1", "."},
        {"1.", "1:3", "the end of the text"},
        {"1e", "1:3", "the end of the text"},
        {"1e+x", "1:4", "x"},
        {"1 2", "1:3", "2"},
        {"[1,]", "1:4", "]"},
        {"[1 2]", "1:4", "2"},
        {"[", "1:2", "the end of the text"},
        {"[1", "1:3", "the end of the text"},
        {"{\"a\":1,}", "1:8", "}"},
        {"{a:1}", "1:2", "a"},
        {"{\"a\" 1}", "1:6", "1"},
        {"{\"a\":}", "1:6", "}"},
        {"{\"a\":1", "1:7", "the end of the text"},
        {"[1}", "1:3", "}"},
        {"// c\n1", "1:1", "/"},
        {"\"a", "1:3", "the end of the text"},
        {"\"a\nb\"", "1:3", "\\n"},
        {"[\n\"\t\"]", "2:2", "\\t"},
        {"\"\\x\"", "1:3", "x"},
        {"\"\\", "1:3", "the end of the text"},
        {"\"\\u12g4\"", "1:2", "\\"},
        {"\"\\u12", "1:2", "\\"},
        {"\"\xC0\x80\"", "1:2", "byte 0xC0"},
        {"\"\xED\xA0\x80\"", "1:2", "byte 0xED"},
        {"\"\xF4\x90\x80\x80\"", "1:2", "byte 0xF4"},
        {"\"\xE2\x82", "1:2", "byte 0xE2"},
        {"\xEF\xBB\xBF[]", "1:1", "\xEF\xBB\xBF"},
        {"[1]\xFF", "1:4", "byte 0xFF"},
        {"\xC3\xA9", "1:1", "\xC3\xA9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fg_jdoc doc;
        struct fg_error err;
        if (!fg_jdoc_parse(&doc, cases[i].text, strlen(cases[i].text), "src", &err))
            fail_msg("accepted: %s", cases[i].text);
        assert_int_equal(err.code, FG_EINPUT);
        assert_string_equal(err.file, "src");
        assert_true(err.expected[0]);
        if (strcmp(err.field, cases[i].where) || strcmp(err.found, cases[i].found))
            fail_msg("%s: %s %s", cases[i].text, err.field, err.found);
        assert_int_equal(doc.root.kind, FG_JNULL);
    }
    // A NUL is not an end, wherever it stands.
    static const char nul[] = "[1,\0 2]", after[] = "1\0", inside[] = "\"a\0b\"";
    struct fg_jdoc doc;
    assert_int_equal(fg_jdoc_parse(&doc, nul, sizeof nul - 1, "src", NULL), FG_EINPUT);
    assert_int_equal(fg_jdoc_parse(&doc, after, sizeof after - 1, "src", NULL), FG_EINPUT);
    assert_int_equal(fg_jdoc_parse(&doc, inside, sizeof inside - 1, "src", NULL), FG_EINPUT);
}

// Every cut of a text that holds every construct is refused, never read past its end.
static void test_truncation(void **state)
{
    (void)state;
    static const char text[] = "{\"a\\u00e9\\ud83d\\ude42\xE2\x82\xAC\": [-1.5e+10, true, false, "
                               "null, {}, [], \"\\n\"], \"b\": {\"a\": \"\"}}";
    for (size_t n = 0; n < sizeof text - 1; n++) {
        struct fg_jdoc doc;
        char *cut = malloc(n ? n : 1); // exact, so that a sanitizer sees a read past it
        memcpy(cut, text, n);
        assert_int_equal(fg_jdoc_parse(&doc, cut, n, "src", NULL), FG_EINPUT);
        free(cut);
    }
    struct fg_jdoc doc = parse(text, sizeof text - 1);
    fg_jdoc_free(&doc);
}

static void test_depth(void **state)
{
    (void)state;
    char text[1000];
    for (int depth = FG_JVAL_DEPTH_MAX; depth <= FG_JVAL_DEPTH_MAX + 1; depth++) {
        struct fg_jdoc doc;
        struct fg_error err;
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        int rc = fg_jdoc_parse(&doc, text, 2 * (size_t)depth, "src", &err);
        assert_int_equal(rc, depth > FG_JVAL_DEPTH_MAX ? FG_EINPUT : 0);
        if (rc)
            assert_string_equal(err.field, "1:129");
        else
            fg_jdoc_free(&doc);
    }
    size_t n = 10u << 20; // far past any stack, if it were followed down
    char *deep = malloc(n);
    struct fg_jdoc doc;
    memset(deep, '[', n);
    assert_int_equal(fg_jdoc_parse(&doc, deep, n, "src", NULL), FG_EINPUT);
    free(deep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),        cmocka_unit_test(test_surrogates),
        cmocka_unit_test(test_repeated_keys), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_truncation),    cmocka_unit_test(test_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
