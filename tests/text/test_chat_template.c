// Chat templates against what the official ones render (tests/golden/chat_template.jsonl: Jinja2
// 3.1 in the settings of HF transformers), and what the file does not reach.
#include "base/file.h"
#include "base/hash.h"
#include "text/chat_log.h"
#include "text/chat_python.h"
#include "text/chat_rules.h"
#include "text/chat_template.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static struct fg_jdoc parse(const char *text)
{
    struct fg_jdoc doc;
    struct fg_error err;
    if (fg_jdoc_parse(&doc, text, strlen(text), "test", &err)) fail_msg("%s: %s", text, err.found);
    return doc;
}

static struct fg_chat_input input_of(const struct fg_jval *root)
{
    return (struct fg_chat_input){fg_jval_get(root, "messages"), fg_jval_get(root, "tools"),
                                  fg_jval_get(root, "kwargs")};
}

// The segments cover the text in order, without gaps or empty ones, and alternate.
static void check_segments(const struct fg_chat_segments *s, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < s->n; i++) {
        assert_int_equal(s->items[i].at, at);
        assert_true(s->items[i].n > 0);
        if (i) assert_true(s->items[i].given != s->items[i - 1].given);
        at += s->items[i].n;
    }
    assert_int_equal(at, n);
}

static bool equal(const struct fg_jval *v, const struct fg_buf *b)
{
    return v->kind == FG_JSTRING && v->n == b->len &&
           (v->n == 0 || !memcmp(v->text, b->data, v->n));
}

// One line of the golden file. Returns false, having printed why, when we differ.
static bool check_line(const char *line, size_t n, int *n_raised)
{
    struct fg_jdoc doc;
    struct fg_error err = {0};
    struct fg_buf out = {0}, plain = {0};
    struct fg_chat_segments segments = {0};
    enum fg_chat_variant variant;
    char name[64];
    if (fg_jdoc_parse(&doc, line, n, "golden", &err)) fail_msg("%s %s", err.field, err.found);
    const struct fg_jval *label = fg_jval_get(&doc.root, "name"),
                         *template = fg_jval_get(&doc.root, "template"),
                         *rendered = fg_jval_get(&doc.root, "rendered"),
                         *error = fg_jval_get(&doc.root, "error");
    snprintf(name, sizeof name, "%.*s", (int)template->n, template->text);
    assert_int_equal(fg_chat_variant_by_name(&variant, name, &err), 0);
    assert_string_equal(fg_chat_variant_name(variant), name);
    struct fg_chat_input in = input_of(&doc.root);
    int rc = fg_chat_render(&out, &segments, variant, &in, &err);
    bool ok;
    if (rendered) {
        ok = rc == 0 && equal(rendered, &out);
        if (ok) {
            check_segments(&segments, out.len);
            assert_int_equal(fg_chat_render(&plain, NULL, variant, &in, NULL), 0);
            assert_true(equal(rendered, &plain));
        }
    } else {
        ok = rc == FG_EINPUT && out.len == 0 && segments.n == 0;
        if (fg_jval_is(fg_jval_get(&doc.root, "error_type"), "raised")) {
            ok = ok && fg_jval_is(error, err.found) && err.expected[0] == '\0';
            ++*n_raised;
        } else {
            ok = ok && strstr(err.field, "tool_calls[0]") != NULL;
        }
    }
    if (!ok)
        print_error("%.*s\n  expected %.*s\n  found (%d) %s\n", (int)label->n, label->text,
                    (int)(rendered ? rendered : error)->n, (rendered ? rendered : error)->text, rc,
                    rc ? err.found : out.data);
    fg_buf_free(&out);
    fg_buf_free(&plain);
    fg_chat_segments_free(&segments);
    fg_jdoc_free(&doc);
    return ok;
}

static void test_golden(void **state)
{
    (void)state;
    struct fg_map map;
    struct fg_error err;
    int n_lines = 0, n_wrong = 0, n_raised = 0;
    assert_int_equal(fg_map_open(&map, FORGE_GOLDEN_DIR "/chat_template.jsonl", &err), 0);
    const char *at = (const char *)map.data, *end = at + map.bytes;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        n_wrong += !check_line(at, (size_t)(stop - at), &n_raised);
        n_lines++;
        at = stop + 1;
    }
    fg_map_close(&map);
    assert_int_equal(n_lines, 453);
    assert_int_equal(n_wrong, 0);
    assert_true(n_raised > 50);
}

// Renders JSON text {messages, tools, kwargs}; the result is the caller's.
static int render(struct fg_buf *out, struct fg_chat_segments *segments,
                  enum fg_chat_variant variant, const char *json, struct fg_error *err)
{
    struct fg_jdoc doc = parse(json);
    struct fg_chat_input in = input_of(&doc.root);
    int rc = fg_chat_render(out, segments, variant, &in, err);
    fg_jdoc_free(&doc);
    return rc;
}

static void expect(enum fg_chat_variant variant, const char *json, const char *text)
{
    struct fg_buf out = {0};
    struct fg_error err = {0};
    if (render(&out, NULL, variant, json, &err)) fail_msg("%s: %s", json, err.found);
    assert_string_equal(out.data ? out.data : "", text);
    fg_buf_free(&out);
}

static void expect_error(enum fg_chat_variant variant, const char *json, const char *field,
                         const char *expected, const char *found)
{
    struct fg_buf out = {0};
    struct fg_error err = {0};
    fg_buf_str(&out, "left over");
    assert_int_equal(render(&out, NULL, variant, json, &err), FG_EINPUT);
    assert_string_equal(err.field, field);
    assert_string_equal(err.expected, expected);
    assert_string_equal(err.found, found);
    assert_int_equal(out.len, 0);
    fg_buf_free(&out);
}

static void check_hash(const char *text, size_t n, size_t bytes, const char *prefix)
{
    char hex[FG_SHA256_HEX];
    fg_sha256_hex(text, n, hex);
    assert_int_equal(n, bytes);
    hex[strlen(prefix)] = '\0';
    assert_string_equal(hex, prefix);
}

// Sizes and hashes of the long literals as specs/model.md, 13.4 gives them.
static void test_literals(void **state)
{
    (void)state;
    check_hash(fg_chat_effort_xhigh, strlen(fg_chat_effort_xhigh), 207, "982cfb43");
    check_hash(fg_chat_effort_low, strlen(fg_chat_effort_low), 136, "6b391e93");
    check_hash(fg_chat_tools_head, strlen(fg_chat_tools_head), 61, "c1ac20d7");
    check_hash(fg_chat_tools_tail, strlen(fg_chat_tools_tail), 826, "f795e26d");
}

static void check_strip(const char *s, size_t n, const char *expected)
{
    size_t from, to;
    fg_chat_strip(s, n, &from, &to);
    if (to - from != strlen(expected) || memcmp(s + from, expected, to - from) != 0)
        fail_msg("strip of %zu bytes starting %02X: %zu..%zu", n, (unsigned char)s[0], from, to);
}

// Every code point below U+3100 at both ends, against the list in specs/model.md, 13.3.
static void test_strip(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 0x3100; c++) {
        bool space = (c >= 9 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
                     c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
                     c == 0x202F || c == 0x205F || c == 0x3000;
        char json[64], plain[16];
        snprintf(json, sizeof json, "[\"\\u%04xa b\\u%04x\", \"\\u%04x\"]", c, c, c);
        struct fg_jdoc doc = parse(json);
        const struct fg_jval *both = &doc.root.items[0], *alone = &doc.root.items[1];
        snprintf(plain, sizeof plain, "%.*s", (int)both->n, both->text);
        if (c == 0) { // stays, and no C string holds it
            size_t from, to;
            fg_chat_strip(both->text, both->n, &from, &to);
            assert_int_equal(to - from, 5);
        } else {
            check_strip(both->text, both->n, space ? "a b" : plain);
            snprintf(plain, sizeof plain, "%.*s", (int)alone->n, alone->text);
            check_strip(alone->text, alone->n, space ? "" : plain);
        }
        fg_jdoc_free(&doc);
    }
    check_strip("\xE2\x80\xA8\xC2\xA0 x\xE3\x80\x80\n", 11, "x"); // kinds in a row
    check_strip("\x80\x80", 2, "\x80\x80");                       // pieces of characters stay
    check_strip("\xE2\x80", 2, "\xE2\x80");
}

static void check_json(const char *text, const char *json, const char *str, bool truth)
{
    struct fg_jdoc doc = parse(text);
    struct fg_buf out = {0};
    fg_chat_json(&out, &doc.root);
    assert_string_equal(out.data, json);
    fg_buf_clear(&out);
    fg_chat_str(&out, &doc.root);
    assert_string_equal(out.data ? out.data : "", str);
    assert_int_equal(fg_chat_truth(&doc.root), truth);
    fg_buf_free(&out);
    fg_jdoc_free(&doc);
}

// Expected texts are those of CPython 3.11's json.dumps(json.loads(x), ensure_ascii=False) and
// str(json.loads(x)).
static void test_python(void **state)
{
    (void)state;
    check_json("null", "null", "None", false);
    check_json("true", "true", "True", true);
    check_json("false", "false", "False", false);
    check_json("0", "0", "0", false);
    check_json("-0", "0", "0", false);
    check_json("-0.0", "-0.0", "-0.0", false);
    check_json("0e9", "0.0", "0.0", false);
    check_json("1e-400", "0.0", "0.0", false);
    check_json("-1", "-1", "-1", true);
    check_json("123456789012345678901234567890123", "123456789012345678901234567890123",
               "123456789012345678901234567890123", true);
    check_json("1e400", "Infinity", "inf", true);
    check_json("-1e400", "-Infinity", "-inf", true);
    check_json("1.7976931348623157e308", "1.7976931348623157e+308", "1.7976931348623157e+308",
               true);
    check_json("1.7976931348623159e308", "Infinity", "inf", true);
    check_json("2.2250738585072014e-308", "2.2250738585072014e-308", "2.2250738585072014e-308",
               true);
    check_json("2.4703282292062328e-324", "5e-324", "5e-324", true);
    check_json("0.1", "0.1", "0.1", true);
    check_json("1E2", "100.0", "100.0", true);
    check_json("123456789012345680.0", "1.2345678901234568e+17", "1.2345678901234568e+17", true);
    check_json("9999999999999998.0", "9999999999999998.0", "9999999999999998.0", true);
    check_json("10000000000000000.0", "1e+16", "1e+16", true);
    check_json("0.0001234", "0.0001234", "0.0001234", true);
    check_json("0.00001234", "1.234e-05", "1.234e-05", true);
    check_json("5e-324", "5e-324", "5e-324", true);
    check_json("1.0e+100", "1e+100", "1e+100", true);
    check_json("\"\"", "\"\"", "", false);
    check_json("\"a\\u0000\\u001f\\/\\u007f\\u2028\\\"\\\\\\b\\f\\n\\r\\t\"",
               "\"a\\u0000\\u001f/\x7F\xE2\x80\xA8\\\"\\\\\\b\\f\\n\\r\\t\"", "a", true);
    check_json("[]", "[]", "[]", false);
    check_json("{}", "{}", "{}", false);
    check_json("[1,[2 , {}],\t\"<&>\"]", "[1, [2, {}], \"<&>\"]", "[1, [2, {}], \"<&>\"]", true);
    check_json("{\"b\":1,\"a\":2,\"b\":3,\"\":null}", "{\"b\": 3, \"a\": 2, \"\": null}",
               "{\"b\": 3, \"a\": 2, \"\": null}", true);
    assert_false(fg_chat_truth(NULL));
}

#define USER "\"messages\":[{\"role\":\"user\",\"content\":\"q\"}]"
#define TURN "<|im_start|>user\nq<|im_end|>\n"

// Inputs that the golden file does not hold.
static void test_details(void **state)
{
    (void)state;
    // Null is absent for tools and for kwargs as a whole, and truth decides about the prompt.
    expect(FG_CHAT_QWEN36, "{" USER ",\"tools\":null,\"kwargs\":null}", TURN);
    expect(FG_CHAT_QWEN36, "{" USER ",\"tools\":[],\"kwargs\":{\"add_generation_prompt\":\"\"}}",
           TURN);
    expect(FG_CHAT_QWEN36, "{" USER ",\"kwargs\":{\"add_generation_prompt\":1}}",
           TURN "<|im_start|>assistant\n<think>\n");
    expect(FG_CHAT_SMOLLM2, "{}", "");
    expect(FG_CHAT_SMOLLM2, "{\"kwargs\":{\"add_generation_prompt\":true}}",
           "<|im_start|>assistant\n");
    // A tool message at the very start opens no turn.
    expect(FG_CHAT_QWEN36,
           "{\"messages\":[{\"role\":\"tool\",\"content\":\"r\"},"
           "{\"role\":\"user\",\"content\":\"q\"}]}",
           "\n<tool_response>\nr\n</tool_response><|im_end|>\n" TURN);
    // The opening mark alone is no tool response.
    expect(FG_CHAT_QWEN36, "{\"messages\":[{\"role\":\"user\",\"content\":\"<tool_response>\"}]}",
           "<|im_start|>user\n<tool_response><|im_end|>\n");
    // An open without a close is text; a close without an open ends thinking from the start.
    expect(FG_CHAT_QWEN36,
           "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},"
           "{\"role\":\"assistant\",\"content\":\"<think>a\"},"
           "{\"role\":\"assistant\",\"content\":\"a</think>b</think>\\n\\n c\"}]}",
           TURN "<|im_start|>assistant\n<think>\n\n</think>\n\n<think>a<|im_end|>\n"
                "<|im_start|>assistant\n<think>\na\n</think>\n\n c<|im_end|>\n");
    // The effort's text goes into the message, whatever it is.
    expect_error(FG_CHAT_QWEN38, "{" USER ",\"kwargs\":{\"reasoning_effort\":true}}",
                 "reasoning_effort", "",
                 "Unexpected reasoning effort True. Supported types are xhigh (default), medium, "
                 "and low.");
}

static void test_errors(void **state)
{
    (void)state;
    expect_error(FG_CHAT_QWEN38, "{}", "messages", "", "No messages provided.");
    expect_error(FG_CHAT_QWEN38, "{\"messages\":{}}", "messages", "an array", "an object");
    expect_error(FG_CHAT_QWEN38, "{" USER ",\"tools\":\"f\"}", "tools", "an array", "a string");
    expect_error(FG_CHAT_QWEN38, "{" USER ",\"kwargs\":7}", "kwargs", "an object", "a number");
    // No messages come before a bad effort, and that before everything else.
    expect_error(FG_CHAT_QWEN38, "{\"messages\":[],\"kwargs\":{\"reasoning_effort\":\"x\"}}",
                 "messages", "", "No messages provided.");
    expect_error(FG_CHAT_QWEN38,
                 "{\"messages\":[{\"role\":\"system\",\"content\":7}],"
                 "\"kwargs\":{\"reasoning_effort\":\"x\"}}",
                 "reasoning_effort", "",
                 "Unexpected reasoning effort x. Supported types are xhigh (default), medium, and "
                 "low.");
    // The leading system text, then users from the end, then the query, then one by one.
    expect_error(FG_CHAT_QWEN38,
                 "{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"image\"}]},"
                 "{\"role\":\"user\",\"content\":7}]}",
                 "messages[0].content[0]", "", "System message cannot contain images.");
    expect_error(FG_CHAT_QWEN38,
                 "{\"messages\":[{\"role\":\"user\",\"content\":7},"
                 "{\"role\":\"user\",\"content\":[{\"a\":1}]}]}",
                 "messages[1].content[0]", "", "Unexpected item type in content.");
    expect_error(FG_CHAT_QWEN38, "{\"messages\":[{\"role\":\"nobody\",\"content\":7}]}", "messages",
                 "", "No user query found in messages.");
    expect_error(FG_CHAT_QWEN38,
                 "{\"messages\":[{\"role\":\"nobody\",\"content\":7},"
                 "{\"role\":\"user\",\"content\":\"q\"}]}",
                 "messages[0].content", "", "Unexpected content type.");
    expect_error(FG_CHAT_QWEN38, "{\"messages\":[7,{\"role\":\"user\"}]}", "messages[0].role", "",
                 "Unexpected message role.");
    // What the official templates fail at inside, or take for something it is not.
    expect_error(FG_CHAT_QWEN38, "{\"messages\":[{\"role\":\"user\",\"content\":[\"an image\"]}]}",
                 "messages[0].content[0]", "an object", "a string");
    expect_error(FG_CHAT_QWEN38, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"text\":1}]}]}",
                 "messages[0].content[0].text", "a string", "a number");
    expect_error(FG_CHAT_QWEN38,
                 "{\"messages\":[{\"role\":\"user\"},{\"role\":\"assistant\","
                 "\"tool_calls\":\"f\"}]}",
                 "messages[1].tool_calls", "an array", "a string");
    expect_error(FG_CHAT_QWEN38,
                 "{\"messages\":[{\"role\":\"user\"},{\"role\":\"assistant\","
                 "\"tool_calls\":[{\"name\":\"f\"},{\"function\":null,\"name\":\"f\"}]}]}",
                 "messages[1].tool_calls[1].name", "a string", "nothing");
    expect_error(FG_CHAT_SMOLLM2, "{\"messages\":[{\"role\":\"user\",\"content\":[]}]}",
                 "messages[0].content", "a string", "an array");
    expect_error(FG_CHAT_SMOLLM2, "{\"messages\":[{\"content\":\"\"}]}", "messages[0].role",
                 "a string", "nothing");
    // Long values are cut, not overrun.
    char json[2048], effort[1024];
    memset(effort, 'z', sizeof effort - 1);
    effort[sizeof effort - 1] = '\0';
    snprintf(json, sizeof json, "{" USER ",\"kwargs\":{\"reasoning_effort\":\"%s\"}}", effort);
    struct fg_buf out = {0};
    struct fg_error err = {0};
    assert_int_equal(render(&out, NULL, FG_CHAT_QWEN38, json, &err), FG_EINPUT);
    assert_memory_equal(err.found, "Unexpected reasoning effort zzz", 31);
    fg_buf_free(&out);
}

// Text of the conversation is marked as such, whatever it contains, and nothing else is.
static void test_segments(void **state)
{
    (void)state;
    static const char json[] =
        "{\"messages\":[{\"role\":\"system\",\"content\":\" @1 <|im_end|> \"},"
        "{\"role\":\"user\",\"content\":[{\"text\":\" @2\"},{\"type\":\"image\"},"
        "{\"text\":\"@3 \"}]},"
        "{\"role\":\"assistant\",\"reasoning_content\":\" @4\",\"content\":\"@5\","
        "\"tool_calls\":[{\"name\":\"@6\",\"arguments\":{\"@7\":\"@8\",\"@9\":[1]}}]},"
        "{\"role\":\"tool\",\"content\":\"@A\"}],"
        "\"tools\":[{\"@0\":1}],\"kwargs\":{\"add_generation_prompt\":true,"
        "\"add_vision_id\":true}}";
    static const char *const given[] = {
        "{\"@0\": 1}", "@1 <|im_end|>", "@2", "@3", "@4", "@5", "@6", "@7", "@8",
        "@9",          "[1]",           "@A"};
    struct fg_buf out = {0};
    struct fg_chat_segments segments = {0};
    struct fg_error err = {0};
    for (int round = 0; round < 2; round++) { // the second reuses both
        assert_int_equal(render(&out, &segments, FG_CHAT_QWEN38, json, &err), 0);
        check_segments(&segments, out.len);
        size_t n = 0;
        for (size_t i = 0; i < segments.n; i++) {
            const struct fg_chat_segment *s = &segments.items[i];
            if (s->given) {
                assert_true(n < sizeof given / sizeof given[0]);
                assert_int_equal(s->n, strlen(given[n]));
                assert_memory_equal(out.data + s->at, given[n], s->n);
                n++;
            } else {
                assert_null(memchr(out.data + s->at, '@', s->n));
            }
        }
        assert_int_equal(n, sizeof given / sizeof given[0]);
    }
    // Thinking that is split from the content, in the middle of parts.
    static const char split[] =
        "{\"messages\":[{\"role\":\"user\"},{\"role\":\"assistant\",\"content\":["
        "{\"text\":\"<think>\\n@1\"},{\"type\":\"video\"},{\"text\":\"@2\\n</think>\\n\\n@3\"}]}]}";
    static const char *const parts[] = {"@1", "@2", "@3"};
    assert_int_equal(render(&out, &segments, FG_CHAT_QWEN35, split, &err), 0);
    assert_string_equal(out.data, "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n<think>\n"
                                  "@1<|vision_start|><|video_pad|><|vision_end|>@2\n</think>\n\n"
                                  "@3<|im_end|>\n");
    check_segments(&segments, out.len);
    size_t n = 0;
    for (size_t i = 0; i < segments.n; i++) {
        if (segments.items[i].given)
            assert_memory_equal(out.data + segments.items[i].at, parts[n++], 2);
    }
    assert_int_equal(n, 3);
    fg_buf_free(&out);
    fg_chat_segments_free(&segments);
}

static void check_detect(const char *source, int expected, bool official)
{
    enum fg_chat_variant variant = FG_CHAT_VARIANTS;
    bool is_official = !official;
    struct fg_error err = {0};
    int rc = fg_chat_variant_detect(&variant, &is_official, source, strlen(source), &err);
    if (expected < 0) {
        assert_int_equal(rc, FG_EINPUT);
        for (int v = 0; v < FG_CHAT_VARIANTS; v++)
            assert_non_null(strstr(err.expected, fg_chat_variant_name((enum fg_chat_variant)v)));
        return;
    }
    assert_int_equal(rc, 0);
    assert_int_equal(variant, expected);
    assert_int_equal(is_official, official);
}

#define SMOLLM2_TEMPLATE                                                                           \
    "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI assistant " \
    "named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"

static void test_detect(void **state)
{
    (void)state;
    check_detect("{% if preserve_thinking is undefined or preserve_thinking is true %}"
                 "{{ last_query_index }}",
                 FG_CHAT_QWEN38, false);
    check_detect("{% if preserve_thinking is defined and true %}{{ last_query_index }}",
                 FG_CHAT_QWEN36, false);
    check_detect("{{ last_query_index }}{% if enable_thinking is true %}", FG_CHAT_QWEN35_NOTHINK,
                 false);
    check_detect("{{ last_query_index }}{% if enable_thinking is false %}", FG_CHAT_QWEN35, false);
    check_detect("{{ last_query_index }} return a json object with function name and arguments", -1,
                 false);
    check_detect("{{ last_query_index }} return a json object with function name, <function=x>",
                 FG_CHAT_QWEN35, false);
    check_detect(SMOLLM2_TEMPLATE, FG_CHAT_SMOLLM2, true);
    check_detect("<|im_start|> You are a helpful AI assistant named SmolLM, trained by Hugging "
                 "Face.",
                 -1, false); // the same words in another template
    check_detect("{{ '<|im_start|>' + message.role }}", -1, false);
    check_detect("[INST] {{ message }} [/INST]", -1, false);
    check_detect("", -1, false);
    enum fg_chat_variant variant;
    struct fg_error err;
    assert_int_equal(fg_chat_variant_by_name(&variant, "qwen3", &err), FG_EINPUT);
    assert_string_equal(err.found, "qwen3");
}

// The table of hashes, with one whose text is known: FIPS 180-4's "abc".
static void test_hash(void **state)
{
    (void)state;
    static const struct fg_chat_known known[] = {
        {"0000000000000000000000000000000000000000000000000000000000000000", FG_CHAT_QWEN38},
        {"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", FG_CHAT_QWEN36}};
    enum fg_chat_variant v = FG_CHAT_VARIANTS;
    assert_true(fg_chat_variant_by_hash(&v, known, 2, "abc", 3));
    assert_int_equal(v, FG_CHAT_QWEN36);
    v = FG_CHAT_VARIANTS;
    assert_true(fg_chat_variant_by_hash(&v, known, 2, "abc \r\n\t\n", 8));
    assert_int_equal(v, FG_CHAT_QWEN36);
    assert_false(fg_chat_variant_by_hash(&v, known, 2, " abc", 4));
    assert_false(fg_chat_variant_by_hash(&v, known, 2, "abc\0", 4));
    assert_false(fg_chat_variant_by_hash(&v, known, 2, "  ", 2));
    assert_false(fg_chat_variant_by_hash(&v, known, 2, "", 0));
}

static void write_file(const char *dir, const char *name, const char *text)
{
    struct fg_error err;
    char *path = fg_path_join(dir, name);
    if (fg_file_replace(path, text, strlen(text), &err)) fail_msg("%s: %s", path, err.found);
    free(path);
}

static void remove_file(const char *dir, const char *name)
{
    char *path = fg_path_join(dir, name);
    unlink(path);
    free(path);
}

static void test_load(void **state)
{
    (void)state;
    char dir[] = "/tmp/forge-chat-XXXXXX";
    static const char config[] = "tokenizer_config.json", jinja[] = "chat_template.jinja";
    enum fg_chat_variant v;
    bool official;
    struct fg_error err;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(fg_chat_template_load(&v, &official, dir, &err), FG_EINPUT);
    assert_string_equal(err.found, "neither");
    assert_non_null(strstr(err.hint, "qwen3.5-nothink"));

    write_file(dir, config, "{\"chat_template\": \"{{ last_query_index }}\"}");
    assert_int_equal(fg_chat_template_load(&v, &official, dir, &err), 0);
    assert_int_equal(v, FG_CHAT_QWEN35);
    assert_false(official);

    write_file(dir, config,
               "{\"chat_template\": [3, {\"name\": \"rag\", \"template\": \"\"}, {\"name\": "
               "\"default\", \"template\": \"preserve_thinking is defined\"}]}");
    assert_int_equal(fg_chat_template_load(&v, &official, dir, &err), 0);
    assert_int_equal(v, FG_CHAT_QWEN36);

    static const char *const bad[] = {
        "{}",
        "[]",
        "null",
        "{\"chat_template\": null}",
        "{\"chat_template\": 7}",
        "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"last_query_index\"}]}",
        "{\"chat_template\": [{\"name\": \"default\", \"template\": 7}]}",
        "{\"chat_template\": \"[INST]\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_file(dir, config, bad[i]);
        assert_int_equal(fg_chat_template_load(&v, &official, dir, &err), FG_EINPUT);
        assert_non_null(strstr(err.file, config));
        assert_string_equal(err.field, "chat_template");
    }
    write_file(dir, config, "{\"chat_template\": ");
    assert_int_equal(fg_chat_template_load(&v, &official, dir, &err), FG_EINPUT);

    write_file(dir, jinja, SMOLLM2_TEMPLATE); // counts before the other file
    assert_int_equal(fg_chat_template_load(&v, &official, dir, &err), 0);
    assert_int_equal(v, FG_CHAT_SMOLLM2);
    assert_true(official);
    write_file(dir, jinja, "");
    assert_int_equal(fg_chat_template_load(&v, &official, dir, &err), FG_EINPUT);
    assert_non_null(strstr(err.file, jinja));
    remove_file(dir, config);
    remove_file(dir, jinja);
    rmdir(dir);
}

static void expect_log(const struct fg_chat_log *log, const struct fg_chat_options *options,
                       enum fg_chat_variant variant, const char *text)
{
    struct fg_jmember room[FG_CHAT_KWARGS_MAX];
    struct fg_jval messages = fg_chat_log_messages(log), kwargs = fg_chat_kwargs(room, options);
    struct fg_chat_input in = {&messages, NULL, &kwargs};
    struct fg_buf out = {0};
    struct fg_error err = {0};
    if (fg_chat_render(&out, NULL, variant, &in, &err)) fail_msg("%s", err.found);
    assert_string_equal(out.data ? out.data : "", text);
    fg_buf_free(&out);
}

// A chat loop's conversation, through all that it does to one.
static void test_log(void **state)
{
    (void)state;
    struct fg_error err;
    struct fg_chat_log *log = fg_chat_log_new();
    struct fg_chat_options options = {.add_generation_prompt = true, .reasoning_effort = "medium"};
    assert_int_equal(fg_chat_log_count(log), 0);
    expect_log(log, &options, FG_CHAT_SMOLLM2, "<|im_start|>assistant\n");
    assert_int_equal(fg_chat_log_system(log, NULL, 0, &err), 0);
    assert_int_equal(fg_chat_log_add(log, "user", "q", 1, NULL, 0, &err), 0);
    expect_log(log, &options, FG_CHAT_QWEN38, TURN "<|im_start|>assistant\n<think>\n");
    options.enable_thinking = FG_CHAT_OFF;
    expect_log(log, &options, FG_CHAT_QWEN38,
               TURN "<|im_start|>assistant\n<think>\n\n</think>\n\n");
    assert_int_equal(fg_chat_log_add(log, "assistant", "a", 1, "r", 1, &err), 0);
    assert_int_equal(fg_chat_log_system(log, "s1", 2, &err), 0);
    assert_int_equal(fg_chat_log_system(log, "s2", 2, &err), 0);
    assert_int_equal(fg_chat_log_count(log), 3);
    assert_int_equal(fg_chat_log_add(log, "user", "", 0, NULL, 0, &err), 0);
    options = (struct fg_chat_options){.reasoning_effort = "medium"};
    expect_log(log, &options, FG_CHAT_QWEN38,
               "<|im_start|>system\ns2<|im_end|>\n" TURN
               "<|im_start|>assistant\n<think>\nr\n</think>\n\na<|im_end|>\n"
               "<|im_start|>user\n<|im_end|>\n");
    options.preserve_thinking = FG_CHAT_OFF;
    assert_int_equal(fg_chat_log_system(log, NULL, 0, &err), 0);
    expect_log(log, &options, FG_CHAT_QWEN38,
               TURN "<|im_start|>assistant\na<|im_end|>\n<|im_start|>user\n<|im_end|>\n");
    options = (struct fg_chat_options){.preserve_thinking = FG_CHAT_ON};
    expect_log(log, &options, FG_CHAT_QWEN36,
               TURN "<|im_start|>assistant\n<think>\nr\n</think>\n\na<|im_end|>\n"
                    "<|im_start|>user\n<|im_end|>\n");
    fg_chat_log_cut(log, 5);
    assert_int_equal(fg_chat_log_count(log), 3);
    fg_chat_log_cut(log, 1);
    expect_log(log, &options, FG_CHAT_QWEN36, TURN);
    for (int i = 0; i < 100; i++)
        assert_int_equal(fg_chat_log_add(log, "user", "q", 1, NULL, 0, &err), 0);
    assert_int_equal(fg_chat_log_system(log, "s", 1, &err), 0);
    assert_int_equal(fg_chat_log_count(log), 102);
    fg_chat_log_free(log);
    fg_chat_log_free(NULL);
}

// A long conversation of many parts takes time in proportion; a quadratic pass would not end here.
static void test_large(void **state)
{
    (void)state;
    enum { N = 100000 };
    struct fg_buf json = {0}, out = {0};
    struct fg_chat_segments segments = {0};
    struct fg_error err;
    fg_buf_str(&json, "{\"messages\":[{\"role\":\"user\",\"content\":[");
    for (int i = 0; i < N; i++)
        fg_buf_printf(&json, "{\"text\":\"a\"},{\"type\":\"image\"},");
    fg_buf_str(&json, "{\"text\":\"a\"}]}");
    for (int i = 0; i < N; i++)
        fg_buf_str(&json, ",{\"role\":\"user\",\"content\":\"<tool_response></tool_response>\"}");
    fg_buf_str(&json, "]}");
    assert_int_equal(render(&out, &segments, FG_CHAT_QWEN36, json.data, &err), 0);
    check_segments(&segments, out.len);
    assert_true(segments.n > 4 * (size_t)N);
    fg_buf_free(&json);
    fg_buf_free(&out);
    fg_chat_segments_free(&segments);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),   cmocka_unit_test(test_literals),
        cmocka_unit_test(test_strip),    cmocka_unit_test(test_python),
        cmocka_unit_test(test_details),  cmocka_unit_test(test_errors),
        cmocka_unit_test(test_segments), cmocka_unit_test(test_detect),
        cmocka_unit_test(test_hash),     cmocka_unit_test(test_load),
        cmocka_unit_test(test_log),      cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
