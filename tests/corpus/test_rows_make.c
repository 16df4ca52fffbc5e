// Rows from texts, documents, conversations and rows, against tokens that are put together here.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/error.h"
#include "base/size.h"
#include "corpus/rows_make.h"
#include "support/scratch.h"

static struct scratch tmp;
static struct fg_error err;
static struct forge_engine *engine;

static void open_engine(struct forge_engine **e, const char *model, const char *chat)
{
    char path[512], line[1024];
    snprintf(path, sizeof path, "%s/models/%s", FORGE_GOLDEN_DIR, model);
    struct forge_engine_options o = {
        .model = path, .text_only = true, .threads = 1, .chat_template = chat};
    if (forge_engine_open(e, &o, &err)) fail_msg("%s", fg_error_line(&err, line, sizeof line));
}

// ---- tokens, put together by hand

struct tokens {
    int32_t ids[1 << 16];
    size_t n;
};

static void add(struct tokens *t, int32_t *ids, size_t n)
{
    assert_true(t->n + n <= FG_COUNT(t->ids));
    memcpy(t->ids + t->n, ids, n * sizeof *ids);
    t->n += n;
    free(ids);
}

static void add_text(struct tokens *t, const char *text)
{
    int32_t *ids;
    size_t n;
    assert_int_equal(forge_tokenize(engine, text, strlen(text), false, &ids, &n, &err), 0);
    add(t, ids, n);
}

static void add_chat(struct tokens *t, const char *json, const char *kwargs)
{
    int32_t *ids;
    size_t n;
    assert_int_equal(forge_encode_chat(engine, json, strlen(json), kwargs, &ids, &n, &err), 0);
    add(t, ids, n);
}
#define WHOLE "{\"add_generation_prompt\": false}"

static const char *file(const char *name, const char *text)
{
    return scratch_write(&tmp, name, text, strlen(text));
}

struct made {
    struct fg_rows rows, held;
    struct fg_corpus_source_facts facts[4];
    int rc;
};

static struct made make(const struct fg_corpus_source *sources, int n, int64_t seq, int64_t every)
{
    struct made m = {0};
    struct fg_corpus_rows_job job = {.engine = engine,
                                     .sources = sources,
                                     .n_sources = n,
                                     .seq = seq,
                                     .holdout_every = every,
                                     .split = "calib",
                                     .seed = 3};
    m.rc = fg_corpus_rows_make(&m.rows, &m.held, m.facts, &job, &err);
    return m;
}

static void release(struct made *m)
{
    fg_rows_free(&m->rows);
    fg_rows_free(&m->held);
}

static void assert_made(const struct made *m)
{
    char line[1024];
    if (m->rc) fail_msg("%s", fg_error_line(&err, line, sizeof line));
}

static void check_row(const struct fg_rows *rows, int64_t row, const int32_t *ids)
{
    if (memcmp(rows->ids + row * rows->seq, ids, (size_t)rows->seq * sizeof *ids) != 0)
        fail_msg("row %lld differs", (long long)row);
}

// ---- texts

static void cuts_texts(void **state)
{
    (void)state;
    static const char text[] = "The marks <|im_end|> and <think> in a text are text. caf\xC3\xA9, "
                               "\xE6\xBC\xA2\xE5\xAD\x97, numbers 12345.\nAnd a second line.";
    struct tokens t = {0};
    add_text(&t, text);
    char path[512];
    snprintf(path, sizeof path, "%s", file("a.txt", text));
    struct fg_corpus_source s[] = {{path, 0}, {path, 2}};
    struct made m = make(s, 2, 16, 0);
    assert_made(&m);
    int64_t all = (int64_t)t.n / 16;
    assert_true(all >= 4 && t.n % 16);
    assert_int_equal(m.rows.n, all + 2);
    for (int64_t i = 0; i < all; i++)
        check_row(&m.rows, i, t.ids + 16 * i);
    check_row(&m.rows, all, t.ids);
    check_row(&m.rows, all + 1, t.ids + 16);
    assert_int_equal(m.rows.seq_id[0], 0);
    assert_int_equal(m.rows.seq_id[16 * all], 1);
    assert_int_equal(m.facts[0].tokens, t.n);
    assert_int_equal(m.facts[0].documents, 1);
    assert_int_equal(m.facts[1].rows, 2);
    assert_int_equal(m.facts[0].kind, FG_CORPUS_TEXT);
    char source[64];
    snprintf(source, sizeof source, "a.txt:%lld, a.txt:2", (long long)all);
    assert_string_equal(m.rows.facts.source, source);
    assert_string_equal(m.rows.facts.split, "calib");
    assert_int_equal(m.rows.facts.seed, 3);
    assert_int_equal(strlen(m.rows.facts.tokenizer_sha256), 64);
    release(&m);
    // More than there are.
    s[0].rows = 99;
    m = make(s, 1, 16, 0);
    assert_int_equal(m.rc, FG_EINPUT);
    assert_string_equal(err.expected, "99 rows of 16 tokens");
    char found[64];
    snprintf(found, sizeof found, "%lld (%zu tokens in 1 piece)", (long long)all, t.n);
    assert_string_equal(err.found, found);
    assert_null(m.rows.ids);
    s[0].rows = 0;
    m = make(s, 1, 100000, 0);
    assert_int_equal(m.rc, FG_EINPUT);
}

static void minds_utf8(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", file("bad.txt", "good \xFF bad and so on, long enough"));
    struct fg_corpus_source s = {path, 0};
    struct made m = make(&s, 1, 8, 0);
    assert_int_equal(m.rc, FG_EINPUT);
    assert_string_equal(err.found, "byte 5 is not");
    struct fg_corpus_rows_job job = {.engine = engine,
                                     .sources = &s,
                                     .n_sources = 1,
                                     .seq = 8,
                                     .split = "x",
                                     .replace_invalid = true};
    struct tokens t = {0};
    add_text(&t, "good \xEF\xBF\xBD bad and so on, long enough");
    assert_int_equal(fg_corpus_rows_make(&m.rows, NULL, m.facts, &job, &err), 0);
    check_row(&m.rows, 0, t.ids);
    release(&m);
}

static void joins_documents(void **state)
{
    (void)state;
    struct tokens t = {0};
    add_text(&t, "one document");
    size_t second = t.n;
    add_text(&t, "a second one \xE2\x82\xAC");
    size_t third = t.n;
    add_text(&t, "and the third, which is long enough for one more row of tokens");
    char path[512];
    snprintf(path, sizeof path, "%s",
             file("d.jsonl",
                  "{\"text\": \"one document\"}\n\n{\"id\": 1, \"text\": \"a second one "
                  "\\u20ac\"}\r\n{\"text\": \"and the third, which is long enough for one "
                  "more row of tokens\"}"));
    struct fg_corpus_source s = {path, 0};
    struct made m = make(&s, 1, 10, 0);
    assert_made(&m);
    assert_int_equal(m.rows.n, t.n / 10);
    for (int64_t i = 0; i < m.rows.n; i++)
        check_row(&m.rows, i, t.ids + 10 * i);
    for (size_t i = 0; i < (size_t)m.rows.n * 10; i++)
        assert_int_equal(m.rows.seq_id[i], (i >= second) + (i >= third));
    assert_int_equal(m.facts[0].documents, 3);
    assert_int_equal(m.facts[0].kind, FG_CORPUS_DOCUMENTS);
    release(&m);
    // It reads no further than it needs: the last line is not even JSON.
    snprintf(path, sizeof path, "%s",
             file("d.jsonl", "{\"text\": \"these are more than ten tokens in one line\"}\n{"));
    s.rows = 1;
    m = make(&s, 1, 10, 0);
    assert_made(&m);
    release(&m);
    s.rows = 9;
    m = make(&s, 1, 10, 0);
    assert_int_equal(m.rc, FG_EINPUT);
    assert_non_null(strstr(err.file, "line 2"));
}

// ---- conversations

#define Q(n) "{\"role\": \"user\", \"content\": \"question " n " with some words to fill it\"}"
#define A(n) "{\"role\": \"assistant\", \"content\": \"answer " n ", not short either, as it is\"}"

static void takes_chats_in_turn(void **state)
{
    (void)state;
    static const char *const chats[] = {
        "{\"messages\": [" Q("one") ", " A("one") ", " Q("two") ", " A("two") "]}",
        "{\"messages\": [" Q("three") ", " A("three") "]}",
        "{\"messages\": [" Q("four") ", " A("four") ", " Q("five") "]}"};
    struct tokens t[3] = {0};
    struct fg_buf text = {0};
    for (int i = 0; i < 3; i++) {
        add_chat(&t[i], chats[i], WHOLE);
        fg_buf_printf(&text, "%s\n", chats[i]);
    }
    char path[512];
    snprintf(path, sizeof path, "%s", file("c.jsonl", text.data));
    fg_buf_free(&text);
    struct fg_corpus_source s = {path, 0};
    const int64_t seq = 48;
    struct made m = make(&s, 1, seq, 0);
    assert_made(&m);
    assert_int_equal(m.facts[0].kind, FG_CORPUS_CHATS);
    int64_t row = 0;
    for (int64_t pass = 0; pass < 20; pass++) {
        for (int i = 0; i < 3; i++) {
            if ((pass + 1) * seq > (int64_t)t[i].n) continue;
            check_row(&m.rows, row, t[i].ids + pass * seq);
            assert_int_equal(m.rows.seq_id[row * seq], i);
            row++;
        }
    }
    assert_int_equal(m.rows.n, row);
    assert_true(row >= 6);
    release(&m);
    // With two rows asked for it takes the first of the first two.
    s.rows = 2;
    m = make(&s, 1, seq, 0);
    assert_made(&m);
    check_row(&m.rows, 1, t[1].ids);
    release(&m);
    // Longer than the first conversation: it goes on into the second.
    int64_t longer = (int64_t)t[0].n + 10;
    s.rows = 1;
    m = make(&s, 1, longer, 0);
    assert_made(&m);
    assert_memory_equal(m.rows.ids, t[0].ids, t[0].n * sizeof *t[0].ids);
    assert_memory_equal(m.rows.ids + t[0].n, t[1].ids, 10 * sizeof *t[1].ids);
    assert_int_equal(m.rows.seq_id[t[0].n], 1);
    release(&m);
}

static void keeps_thinking(void **state)
{
    (void)state;
    static const char system_text[] = "{\"role\": \"system\", \"content\": \"be good\"}";
    static const char one[] =
        Q("one") ", {\"role\": \"assistant\", \"reasoning_content\": \"first thought\", "
                 "\"content\": \"a\"}";
    static const char two[] =
        Q("two") ", {\"role\": \"assistant\", \"reasoning_content\": \"second thought\", "
                 "\"content\": \"b\"}, {\"role\": \"tool\", \"content\": \"r\"}";
    static const char tools[] = "\"tools\": [{\"name\": \"x\"}]";
    struct tokens want = {0};
    char json[2048], path[512];
    snprintf(json, sizeof json, "{\"messages\": [%s, %s], %s}", system_text, one, tools);
    add_chat(&want, json, WHOLE);
    snprintf(json, sizeof json, "{\"messages\": [%s]}", two);
    // Medium effort is what puts no system turn of the template's own in front.
    add_chat(&want, json, "{\"add_generation_prompt\": false, \"reasoning_effort\": \"medium\"}");
    snprintf(json, sizeof json, "{\"messages\": [%s, %s, %s], %s}", system_text, one, two, tools);
    snprintf(path, sizeof path, "%s", file("t.jsonl", json));
    struct fg_corpus_source s = {path, 0};
    struct made m = make(&s, 1, (int64_t)want.n, 0);
    assert_made(&m);
    assert_int_equal(m.rows.n, 1);
    check_row(&m.rows, 0, want.ids);
    char *text;
    size_t n;
    assert_int_equal(forge_detokenize(engine, m.rows.ids, want.n, false, &text, &n, &err), 0);
    assert_non_null(strstr(text, "first thought"));
    assert_non_null(strstr(text, "second thought"));
    assert_null(strstr(strstr(text, "be good") + 1, "be good"));
    free(text);
    release(&m);
    // Without thinking before the last question it is rendered as one, as the server does it.
    snprintf(json, sizeof json, "{\"messages\": [%s, %s, %s, %s]}", system_text, Q("zero"), A("z"),
             two);
    struct tokens whole = {0};
    add_chat(&whole, json, WHOLE);
    snprintf(path, sizeof path, "%s", file("t.jsonl", json));
    m = make(&s, 1, (int64_t)whole.n, 0);
    assert_made(&m);
    check_row(&m.rows, 0, whole.ids);
    release(&m);
}

static void cuts_tool_results(void **state)
{
    (void)state;
    struct fg_buf result = {0}, json = {0}, cut = {0};
    for (int i = 0; i < 7000; i++) // two bytes each
        fg_buf_str(&result, i < FG_CORPUS_TOOL_CHARS ? "\xC3\xA9" : "\xC3\xBC");
    fg_buf_printf(&json, "{\"messages\": [" Q("a") ", {\"role\": \"tool\", \"content\": \"%s\"}]}",
                  result.data);
    result.data[2 * FG_CORPUS_TOOL_CHARS] = '\0';
    fg_buf_printf(&cut, "{\"messages\": [" Q("a") ", {\"role\": \"tool\", \"content\": \"%s\"}]}",
                  result.data);
    struct tokens want = {0};
    add_chat(&want, cut.data, WHOLE);
    char path[512];
    snprintf(path, sizeof path, "%s", file("r.jsonl", json.data));
    struct fg_corpus_source s = {path, 0};
    struct made m = make(&s, 1, (int64_t)want.n, 0);
    assert_made(&m);
    assert_int_equal(m.facts[0].tokens, want.n);
    check_row(&m.rows, 0, want.ids);
    release(&m);
    // The same in parts, of which the first stays whole. A user may say as much as he likes.
    fg_buf_clear(&json);
    fg_buf_printf(
        &json,
        "{\"messages\": [{\"role\": \"user\", \"content\": \"%s%s\"}, {\"role\": \"tool\", "
        "\"content\": [{\"type\": \"text\", \"text\": \"%s\"}, {\"type\": \"text\", "
        "\"text\": \"gone\"}]}]}",
        result.data, "yz", result.data);
    snprintf(path, sizeof path, "%s", file("r.jsonl", json.data));
    m = make(&s, 1, 64, 0);
    assert_made(&m);
    char *text;
    size_t n;
    assert_int_equal(
        forge_detokenize(engine, m.rows.ids, (size_t)(m.rows.n * 64), false, &text, &n, &err), 0);
    assert_non_null(strstr(text, "\xC3\xA9yz"));
    assert_null(strstr(text, "gone"));
    free(text);
    release(&m);
    fg_buf_free(&result);
    fg_buf_free(&json);
    fg_buf_free(&cut);
}

// ---- rows, hold-out, errors

static void takes_rows(void **state)
{
    (void)state;
    int32_t ids[5 * 4], seq_id[5 * 4];
    for (int i = 0; i < 20; i++) {
        ids[i] = i * 7;
        seq_id[i] = i < 7 ? 0 : i < 9 ? -1 : 1;
    }
    struct fg_rows rows = {.n = 5, .seq = 4, .ids = ids, .seq_id = seq_id};
    char path[512], text[512];
    snprintf(path, sizeof path, "%s/r.safetensors", tmp.dir);
    assert_int_equal(fg_rows_write(path, &rows, NULL, &err), 0);
    snprintf(text, sizeof text, "%s", file("t.txt", "abcdefgh and more text"));
    struct fg_corpus_source s[] = {{text, 1}, {path, 4}, {text, 1}};
    struct made m = make(s, 3, 4, 2);
    assert_made(&m);
    assert_int_equal(m.facts[1].kind, FG_CORPUS_ROWS);
    assert_int_equal(m.rows.n, 4); // text, rows 0 and 2, text
    assert_int_equal(m.held.n, 2); // rows 1 and 3
    check_row(&m.rows, 1, ids);
    check_row(&m.rows, 2, ids + 8);
    check_row(&m.held, 0, ids + 4);
    check_row(&m.held, 1, ids + 12);
    assert_int_equal(m.rows.seq_id[4], 1);  // after the text's
    assert_int_equal(m.rows.seq_id[8], -1); // none stays none
    assert_int_equal(m.rows.seq_id[9], 2);
    assert_int_equal(m.rows.seq_id[12], 3);
    assert_string_equal(m.held.facts.split, "calib-holdout");
    assert_string_equal(m.rows.facts.source, "t.txt:1, r.safetensors:2, t.txt:1");
    assert_string_equal(m.held.facts.source, "t.txt:0, r.safetensors:2, t.txt:0");
    release(&m);
    uint8_t mask[20] = {0};
    rows.mask = mask;
    assert_int_equal(fg_rows_write(path, &rows, NULL, &err), 0);
    m = make(s, 3, 4, 0);
    assert_int_equal(m.rc, FG_EINPUT);
    assert_string_equal(err.field, "mask");
    rows.mask = NULL;
    assert_int_equal(fg_rows_write(path, &rows, NULL, &err), 0);
    s[1].rows = 6;
    m = make(s, 3, 4, 0);
    assert_int_equal(m.rc, FG_EINPUT);
    m = make(s + 1, 1, 5, 0); // another length
    assert_int_equal(m.rc, FG_EINPUT);
    strcpy(rows.facts.tokenizer_sha256,
           "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
    assert_int_equal(fg_rows_write(path, &rows, NULL, &err), 0);
    s[1].rows = 2;
    m = make(s, 3, 4, 0);
    assert_int_equal(m.rc, FG_EINPUT);
    assert_string_equal(err.field, "tokenizer_sha256");
}

static bool stop_at_once(void *ctx)
{
    int *left = ctx;
    return (*left)-- == 0;
}

static void refuses_bad_lines(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field;
    } bad[] = {
        {"{\"x\": 1}", "line 1, value"},
        {"{\"text\": \"a\", \"messages\": []}", "line 1, value"},
        {"{\"text\": \"a\"}\n{\"messages\": [" Q("a") "]}", "line 2, value"},
        {"{\"messages\": [" Q("a") "]}\n{\"text\": \"a\"}", "line 2, value"},
        {"{\"text\": 3}", "line 1, text"},
        {"{\"messages\": {}}", "line 1, messages"},
        {"{\"messages\": []}", "line 1, messages"},
        {"{\"messages\": [" Q("a") "]}\n{\"messages\": [{\"role\": \"user\", \"content\": 3}]}",
         "line 2, messages[0].content"},
        {"{\"messages\": [" A("a") "]}", "line 1, messages"},
    };
    char path[512];
    snprintf(path, sizeof path, "%s", scratch_path(&tmp, "b.jsonl"));
    struct fg_corpus_source s = {path, 0};
    for (size_t i = 0; i < FG_COUNT(bad); i++) {
        file("b.jsonl", bad[i].text);
        struct made m = make(&s, 1, 4, 0);
        assert_int_equal(m.rc, FG_EINPUT);
        if (strcmp(err.field, bad[i].field) != 0) fail_msg("%s: %s", bad[i].text, err.field);
        assert_string_equal(err.file, path);
        assert_null(m.rows.ids);
    }
    file("b.jsonl", "");
    struct made m = make(&s, 1, 4, 0);
    assert_int_equal(m.rc, FG_EINPUT);
    s.path = "/nowhere/a.txt";
    m = make(&s, 1, 4, 0);
    assert_int_equal(m.rc, FG_EINPUT);
    // Stopped between lines.
    int left = 2;
    s.path = path;
    file("b.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n{\"text\": \"c\"}\n");
    struct fg_corpus_rows_job job = {.engine = engine,
                                     .sources = &s,
                                     .n_sources = 1,
                                     .seq = 2,
                                     .split = "",
                                     .stop = stop_at_once,
                                     .ctx = &left};
    assert_int_equal(fg_corpus_rows_make(&m.rows, NULL, m.facts, &job, &err), FG_EINTERRUPTED);
    assert_null(m.rows.ids);
}

// A template that speaks in a system turn of its own, and one that lets no part of a list in.
static void other_templates(void **state)
{
    (void)state;
    struct forge_engine *was = engine, *effort;
    open_engine(&effort, "chat-tiny", "qwen3.8");
    engine = effort;
    static const char one[] = Q("one") ", {\"role\": \"assistant\", \"reasoning_content\": \"t1\", "
                                       "\"content\": \"a\"}";
    static const char two[] = Q("two") ", {\"role\": \"assistant\", \"reasoning_content\": \"t2\", "
                                       "\"content\": \"b\"}";
    char json[2048], path[512];
    snprintf(json, sizeof json, "{\"messages\": [%s, %s]}", one, two);
    snprintf(path, sizeof path, "%s", file("e.jsonl", json));
    struct fg_corpus_source s = {path, 0};
    struct made m = make(&s, 1, 16, 0);
    assert_made(&m);
    char *text;
    size_t n;
    assert_int_equal(
        forge_detokenize(engine, m.rows.ids, (size_t)(m.rows.n * 16), false, &text, &n, &err), 0);
    const char *first = strstr(text, "<|im_start|>system");
    assert_non_null(first);
    assert_null(strstr(first + 1, "<|im_start|>system")); // the second turn has none
    free(text);
    release(&m);
    forge_engine_close(effort);
    engine = was;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_texts),      cmocka_unit_test(minds_utf8),
        cmocka_unit_test(joins_documents), cmocka_unit_test(takes_chats_in_turn),
        cmocka_unit_test(keeps_thinking),  cmocka_unit_test(cuts_tool_results),
        cmocka_unit_test(takes_rows),      cmocka_unit_test(refuses_bad_lines),
        cmocka_unit_test(other_templates),
    };
    scratch_open(&tmp);
    open_engine(&engine, "chat-tiny", NULL);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    forge_engine_close(engine);
    scratch_close(&tmp);
    return failed;
}
