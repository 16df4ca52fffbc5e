// Prompts from templates: shares, differences, what evaluation prompts they must not meet, the same
// from the same seed; files of prompts, good and bad.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/file.h"
#include "base/jval.h"
#include "base/size.h"
#include "corpus/grams.h"
#include "corpus/phrase.h"
#include "corpus/prompts.h"
#include "support/scratch.h"

static struct scratch tmp;
static struct fg_error err;

static struct fg_prompts train(uint64_t seed, size_t n)
{
    struct fg_prompts p;
    char line[1024];
    if (fg_prompts_train(&p, seed, n, &err)) fail_msg("%s", fg_error_line(&err, line, sizeof line));
    assert_int_equal(p.n, n);
    return p;
}

static size_t count(const struct fg_prompts *p, const char *kind)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        n += strcmp(p->item[i].kind, kind) == 0;
    return n;
}

static struct fg_grams grams(const char *text, int order)
{
    struct fg_words w = {0};
    struct fg_grams g;
    assert_true(fg_words_add(&w, text, strlen(text)));
    assert_true(fg_grams_of(&g, &w, order));
    fg_words_free(&w);
    return g;
}

// Pair by pair, without the index that the maker uses.
static void check_apart(const struct fg_prompts *p)
{
    struct fg_grams *g = malloc(p->n * sizeof *g);
    assert_non_null(g);
    for (size_t i = 0; i < p->n; i++) {
        g[i] = grams(p->item[i].said, FG_PROMPTS_LIKE_ORDER);
        for (size_t k = 0; k < i; k++) {
            if (fg_grams_jaccard(&g[i], &g[k]) >= FG_PROMPTS_LIKENESS)
                fail_msg("near duplicates: \"%s\" and \"%s\"", p->item[i].said, p->item[k].said);
            assert_string_not_equal(p->item[i].id, p->item[k].id);
        }
    }
    for (size_t i = 0; i < p->n; i++)
        fg_grams_free(&g[i]);
    free(g);
}

static void check_no_shared_run(const struct fg_prompts *a, const struct fg_prompts *b)
{
    struct fg_gram_index x = {0};
    for (size_t i = 0; i < a->n; i++) {
        struct fg_grams g = grams(a->item[i].said, FG_PROMPTS_RUN_ORDER);
        assert_true(fg_gram_index_add(&x, &g));
        fg_grams_free(&g);
    }
    for (size_t i = 0; i < b->n; i++) {
        struct fg_grams g = grams(b->item[i].said, FG_PROMPTS_RUN_ORDER);
        int64_t other = fg_gram_index_first(&x, &g);
        if (other >= 0)
            fail_msg("eight words shared: \"%s\" and \"%s\"", b->item[i].said, a->item[other].said);
        fg_grams_free(&g);
    }
    fg_gram_index_free(&x);
}

// Every line is what a chat template takes, and nothing of a template is left in it.
static void check_lines(const struct fg_prompts *p)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct fg_prompt *q = &p->item[i];
        struct fg_jdoc doc;
        assert_int_equal(fg_jdoc_parse(&doc, q->json, strlen(q->json), q->id, &err), 0);
        assert_true(fg_jval_is(fg_jval_get(&doc.root, "id"), q->id));
        assert_true(fg_jval_is(fg_jval_get(&doc.root, "kind"), q->kind));
        const struct fg_jval *messages = fg_jval_get(&doc.root, "messages");
        const struct fg_jval *tools = fg_jval_get(&doc.root, "tools");
        assert_true(messages->n >= 1);
        assert_int_equal(tools != NULL, strcmp(q->kind, "agentic") == 0);
        if (tools) {
            assert_true(tools->n >= 3);
            assert_true(fg_jval_is(fg_jval_get(&messages->items[0], "role"), "system"));
        }
        assert_null(strstr(q->json, "@{"));
        assert_true(strlen(q->said) >= 8);
        assert_null(strchr(q->json, '\n'));
        fg_jdoc_free(&doc);
    }
}

static void makes_training_prompts(void **state)
{
    (void)state;
    struct fg_prompts p = train(7, 560), again = train(7, 560), fewer = train(7, 100),
                      other = train(8, 560);
    assert_int_equal(count(&p, "code"), 168);
    assert_int_equal(count(&p, "agentic"), 112);
    assert_int_equal(count(&p, "multilingual"), 112);
    assert_int_equal(count(&p, "math"), 84);
    assert_int_equal(count(&p, "rare"), 84);
    check_apart(&p);
    check_lines(&p);
    size_t differ = 0;
    for (size_t i = 0; i < p.n; i++) {
        assert_string_equal(p.item[i].json, again.item[i].json);
        differ += strcmp(p.item[i].said, other.item[i].said) != 0;
        if (i < fewer.n) assert_string_equal(p.item[i].json, fewer.item[i].json);
    }
    assert_true(differ > 550);
    fg_prompts_free(&p);
    fg_prompts_free(&again);
    fg_prompts_free(&fewer);
    fg_prompts_free(&other);
}

static void makes_thousands(void **state)
{
    (void)state;
    struct fg_prompts p = train(1, 4000);
    check_lines(&p);
    fg_prompts_free(&p);
}

// Scripts that letters of the multilingual prompts are from, by ranges.
static void speaks_many_languages(void **state)
{
    (void)state;
    static const struct {
        const char *name, *from, *to;
    } scripts[] = {{"Greek", "Α", "ω"},  {"Cyrillic", "А", "я"},   {"Hebrew", "א", "ת"},
                   {"Arabic", "ا", "ي"}, {"Devanagari", "अ", "ह"}, {"Thai", "ก", "ฮ"},
                   {"kana", "ぁ", "ん"}, {"Han", "一", "龥"},      {"Hangul", "가", "힣"}};
    struct fg_prompts p = train(7, 560);
    for (size_t s = 0; s < FG_COUNT(scripts); s++) {
        size_t n = strlen(scripts[s].from), found = 0;
        for (size_t i = 0; i < p.n; i++) {
            const char *text = p.item[i].said;
            bool has = false;
            for (size_t k = 0; k + n <= strlen(text); k++)
                has = has || (memcmp(text + k, scripts[s].from, n) >= 0 &&
                              memcmp(text + k, scripts[s].to, n) <= 0);
            found += has && strcmp(p.item[i].kind, "multilingual") == 0;
        }
        if (found < 3) fail_msg("%zu prompts in %s", found, scripts[s].name);
    }
    fg_prompts_free(&p);
}

static void keeps_evaluation_apart(void **state)
{
    (void)state;
    static const char *const domains[] = {"code",    "math",         "science",  "writing",
                                          "agentic", "multilingual", "reasoning"};
    static const size_t counts[] = {16, 12, 12, 10, 4, 6, 4};
    struct fg_prompts sets[4], prompts = train(7, 1500);
    for (int s = 0; s < 4; s++) {
        assert_int_equal(fg_prompts_eval(&sets[s], (enum fg_prompt_set)s, &err), 0);
        assert_int_equal(sets[s].n, s ? 128 : 64);
        for (size_t k = 0; k < FG_COUNT(domains); k++)
            assert_int_equal(count(&sets[s], domains[k]), counts[k] * (s ? 2 : 1));
        check_apart(&sets[s]);
        check_lines(&sets[s]);
        check_no_shared_run(&sets[s], &prompts);
        for (int before = 0; before < s; before++)
            check_no_shared_run(&sets[before], &sets[s]);
    }
    for (int s = 0; s < 4; s++)
        fg_prompts_free(&sets[s]);
    fg_prompts_free(&prompts);
}

static void files_read_back(void **state)
{
    (void)state;
    struct fg_prompts p = train(7, 60), back;
    char path[512], sha[FG_SHA256_HEX], file[FG_SHA256_HEX];
    snprintf(path, sizeof path, "%s", scratch_path(&tmp, "p.jsonl"));
    assert_int_equal(fg_prompts_write(path, &p, &err), 0);
    assert_int_equal(fg_prompts_read(&back, path, &err), 0);
    assert_int_equal(back.n, p.n);
    for (size_t i = 0; i < p.n; i++) {
        assert_string_equal(back.item[i].id, p.item[i].id);
        assert_string_equal(back.item[i].kind, p.item[i].kind);
        assert_string_equal(back.item[i].json, p.item[i].json);
        assert_string_equal(back.item[i].said, p.item[i].said);
    }
    assert_true(fg_prompts_digest(&back, sha));
    assert_int_equal(fg_sha256_file(path, file, &err), 0);
    assert_string_equal(sha, file);
    fg_prompts_free(&p);
    fg_prompts_free(&back);
    fg_prompts_free(&back);
}

static void reads_foreign_files(void **state)
{
    (void)state;
    struct fg_prompts p;
    static const char good[] =
        "\n{\"id\": \"a\", \"messages\": [{\"role\": \"system\", \"content\": \"no\"}, {\"role\": "
        "\"user\", \"content\": \"one\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", "
        "\"text\": \"two\\u0000x\"}, {\"type\": \"image\"}]}], \"more\": 1}\r\n\n"
        "{\"kind\": \"k\", \"id\": \"b\", \"messages\": [{}]}";
    assert_int_equal(fg_prompts_read(&p, scratch_write(&tmp, "g", good, sizeof good - 1), &err), 0);
    assert_int_equal(p.n, 2);
    assert_string_equal(p.item[0].said, "one\ntwo x");
    assert_string_equal(p.item[0].kind, "");
    assert_string_equal(p.item[1].kind, "k");
    assert_string_equal(p.item[1].said, "");
    fg_prompts_free(&p);
    static const struct {
        const char *text, *field;
    } bad[] = {
        {"", "lines"},
        {"\n\n", "lines"},
        {"[]\n", "line 1, value"},
        {"{\"messages\": [{}]}", "line 1, id"},
        {"{\"id\": 3, \"messages\": [{}]}", "line 1, id"},
        {"{\"id\": \"\", \"messages\": [{}]}", "line 1, id"},
        {"{\"id\": \"a\\nb\", \"messages\": [{}]}", "line 1, id"},
        {"{\"id\": \"a\", \"kind\": \"0123456789012345678901234567890123\", \"messages\": [{}]}",
         "line 1, kind"},
        {"{\"id\": \"a\", \"messages\": [{}]}\n{\"id\": \"b\"}", "line 2, messages"},
        {"{\"id\": \"a\", \"messages\": []}", "line 1, messages"},
        {"{\"id\": \"a\", \"messages\": [3]}", "line 1, messages"},
        {"{\"id\": \"a\", \"messages\": [{}]}\n{\"id\": \"a\", \"messages\": [{}]}", "id"},
    };
    for (size_t i = 0; i < FG_COUNT(bad); i++) {
        const char *path = scratch_write(&tmp, "b", bad[i].text, strlen(bad[i].text));
        assert_int_equal(fg_prompts_read(&p, path, &err), FG_EINPUT);
        assert_string_equal(err.field, bad[i].field);
        assert_null(p.item);
    }
    const char *cut = scratch_write(&tmp, "b", "{\"id\": \"a\", ", 12);
    assert_int_equal(fg_prompts_read(&p, cut, &err), FG_EINPUT);
    assert_int_equal(fg_prompts_read(&p, "/nowhere/p.jsonl", &err), FG_EINPUT);
}

static void fills_slots(void **state)
{
    (void)state;
    static const char *const a[] = {"x", "y", "z"}, *const b[] = {"<@{a}@{a#2}>"},
                             *const c[] = {"@{c}"};
    const struct fg_phrase_list lists[] = {
        FG_PHRASE_LIST(a), FG_PHRASE_LIST(b), FG_PHRASE_LIST(c), {0}};
    const struct fg_phrase_list *const scopes[] = {lists, NULL};
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct fg_random r = fg_random_seeded(seed);
        struct fg_phrase p = {.random = &r, .scopes = scopes};
        struct fg_buf out = {0};
        fg_phrase_put(&p, &out,
                      "@{a}@{a}@{a#2}@{a#3}@{b}@{A:a}|@{n:3:5#q}@{n:3:5#q}|@{hex:4}|@{n:0:0}{}@");
        assert_false(p.failed || out.failed);
        const char *s = out.data;
        assert_true(s[0] == s[1] && s[2] != s[0] && s[3] != s[0] && s[3] != s[2]);
        assert_true(s[4] == '<' && s[5] == s[0] && s[6] == s[2] && s[7] == '>');
        assert_true(s[8] == s[0] - 'a' + 'A' && s[9] == '|');
        assert_true(s[10] == s[11] && s[10] >= '3' && s[10] <= '5' && s[12] == '|');
        assert_int_equal(strspn(s + 13, "0123456789abcdef"), 4);
        assert_string_equal(s + 17, "|0{}@");
        fg_buf_free(&out);
    }
    static const char *const wrong[] = {"@{nothing}", "@{a}@{a#2}@{a#3}@{a#4}", "@{c}"};
    for (size_t i = 0; i < FG_COUNT(wrong); i++) {
        struct fg_random r = fg_random_seeded(1);
        struct fg_phrase p = {.random = &r, .scopes = scopes};
        struct fg_buf out = {0};
        fg_phrase_put(&p, &out, wrong[i]);
        assert_true(p.failed);
        fg_buf_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makes_training_prompts),
        cmocka_unit_test(makes_thousands),
        cmocka_unit_test(speaks_many_languages),
        cmocka_unit_test(keeps_evaluation_apart),
        cmocka_unit_test(files_read_back),
        cmocka_unit_test(reads_foreign_files),
        cmocka_unit_test(fills_slots),
    };
    scratch_open(&tmp);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close(&tmp);
    return failed;
}
