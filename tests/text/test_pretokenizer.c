// Pre-tokenizers against the pieces of the reference (tests/golden/pretokenizer.jsonl: the Hugging
// Face library, Unicode 16), and the ASCII matcher against PCRE2.
#include "text/pretokenizer.h"
#include "base/file.h"
#include "base/jval.h"
#include "base/buf.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct fg_pretok *pretok[FG_PRETOK_COUNT];
static struct fg_pretok_work *work[FG_PRETOK_COUNT];

static int set_up(void **state)
{
    (void)state;
    for (int k = 0; k < FG_PRETOK_COUNT; k++) {
        if (fg_pretok_new(&pretok[k], (enum fg_pretok_kind)k, NULL)) return 1;
        if (fg_pretok_work_new(&work[k], pretok[k], NULL)) return 1;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int k = 0; k < FG_PRETOK_COUNT; k++) {
        fg_pretok_work_free(work[k]);
        fg_pretok_free(pretok[k]);
    }
    return 0;
}

static void check_pieces(enum fg_pretok_kind kind, const char *name, const char *text, size_t n,
                         const struct fg_jval *pieces)
{
    size_t at = 0, end, i = 0;
    for (; at < n; at = end, i++) {
        assert_int_equal(fg_pretok_next(pretok[kind], work[kind], text, n, at, &end, NULL), 0);
        if (i >= pieces->n || pieces->items[i].n != end - at ||
            memcmp(pieces->items[i].text, text + at, end - at) != 0) {
            fail_msg("%s, %s: piece %zu is \"%.*s\"", name, fg_pretok_name(kind), i,
                     (int)(end - at), text + at);
        }
    }
    if (i != pieces->n) fail_msg("%s, %s: %zu pieces", name, fg_pretok_name(kind), i);
}

static void golden(void **state)
{
    (void)state;
    struct fg_buf file = {0};
    const char *path = FORGE_GOLDEN_DIR "/pretokenizer.jsonl";
    assert_int_equal(fg_file_read(&file, path, 1 << 20, NULL), 0);
    int n_checked = 0;
    for (char *line = file.data; *line;) {
        size_t n = strcspn(line, "\n");
        struct fg_jdoc doc;
        assert_int_equal(fg_jdoc_parse(&doc, line, n, path, NULL), 0);
        const struct fg_jval *text = fg_jval_get(&doc.root, "text");
        const struct fg_jval *pieces = fg_jval_get(&doc.root, "pieces");
        char name[64];
        const struct fg_jval *title = fg_jval_get(&doc.root, "name");
        snprintf(name, sizeof name, "%.*s", (int)title->n, title->text);
        for (int k = 0; k < FG_PRETOK_COUNT; k++) {
            const struct fg_jval *want =
                fg_jval_get(pieces, fg_pretok_name((enum fg_pretok_kind)k));
            if (!want) continue;
            check_pieces((enum fg_pretok_kind)k, name, text->text, text->n, want);
            n_checked++;
        }
        fg_jdoc_free(&doc);
        line += n + (line[n] == '\n');
    }
    fg_buf_free(&file);
    assert_int_equal(n_checked, 340);
}

// Cuts text with and without the ASCII matcher.
static void compare(enum fg_pretok_kind kind, const char *text, size_t n)
{
    for (size_t at = 0, end, want; at < n; at = end) {
        assert_int_equal(fg_pretok_next(pretok[kind], work[kind], text, n, at, &end, NULL), 0);
        assert_int_equal(fg_pretok_next_regex(pretok[kind], work[kind], text, n, at, &want, NULL),
                         0);
        if (end == want) continue;
        char shown[128];
        fg_escape(shown, sizeof shown, text, n);
        fail_msg("%s: \"%s\": piece at %zu ends at %zu, in PCRE2 at %zu", fg_pretok_name(kind),
                 shown, at, end, want);
    }
}

// Every string of up to five characters that the matcher tells apart.
static void ascii_exhaustive(void **state)
{
    (void)state;
    static const char *const alphabet[] = {"a",  "S",  "l",  "e", "'",        "7",       " ",
                                           "\t", "\n", "\r", "!", "\xC3\xA9", "\xC2\xA0"};
    enum { N = sizeof alphabet / sizeof alphabet[0] };
    for (int k = 0; k < FG_PRETOK_COUNT; k++) {
        for (int code = 0; code < N * N * N * N * N; code++) {
            char text[16] = "";
            for (int c = code, i = 0; i < 5; i++, c /= N)
                strcat(text, alphabet[c % N]);
            compare((enum fg_pretok_kind)k, text, strlen(text));
        }
    }
}

static void ascii_every_pair(void **state)
{
    (void)state;
    for (int k = 0; k < FG_PRETOK_COUNT; k++) {
        for (int a = 0; a < 128; a++) {
            for (int b = 0; b < 128; b++) {
                char text[4] = {(char)a, (char)b, 'x', (char)a};
                for (size_t n = 1; n <= 4; n++)
                    compare((enum fg_pretok_kind)k, text, n);
            }
        }
    }
}

static void ascii_random(void **state)
{
    (void)state;
    static const char *const parts[] = {"word",
                                        "'ll",
                                        "'RE",
                                        "'\xC5\xBF",
                                        "12",
                                        "  ",
                                        " ",
                                        "\n",
                                        "\r\n",
                                        "\t",
                                        "+=",
                                        "'",
                                        "-",
                                        "x",
                                        "\xE4\xB8\xAD",
                                        "\xCC\x81",
                                        "\xE3\x80\x80",
                                        "\xC2\xBD",
                                        "\xEF\xBC\x8C",
                                        "\v",
                                        "\x1c",
                                        "\x7f"};
    uint64_t seed = 7;
    for (int round = 0; round < 40000; round++) {
        char text[128] = "";
        for (int i = 0; i < 20; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            strcat(text, parts[(seed >> 33) % (sizeof parts / sizeof parts[0])]);
        }
        for (int k = 0; k < FG_PRETOK_COUNT; k++)
            compare((enum fg_pretok_kind)k, text, strlen(text));
    }
}

// Pieces of four million characters: neither the stack of the JIT nor a limit may stop them.
static void long_runs(void **state)
{
    (void)state;
    static const char *const units[] = {" ",        "a",        "=",           "\n",
                                        "\xC3\xA9", "\xC2\xA0", "\xE2\x80\xA6"};
    enum { BYTES = 4 << 20 };
    char *text = malloc(BYTES);
    assert_non_null(text);
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
        size_t n_unit = strlen(units[u]), n = BYTES / n_unit * n_unit;
        for (size_t i = 0; i < n; i += n_unit)
            memcpy(text + i, units[u], n_unit);
        for (int k = 0; k < FG_PRETOK_COUNT; k++) {
            size_t end = 0;
            assert_int_equal(fg_pretok_next(pretok[k], work[k], text, n, 0, &end, NULL), 0);
            if (end != n)
                fail_msg("%s: unit %zu ends at %zu", fg_pretok_name((enum fg_pretok_kind)k), u,
                         end);
            assert_int_equal(fg_pretok_next_regex(pretok[k], work[k], text, n, 0, &end, NULL), 0);
            assert_int_equal(end, n);
        }
    }
    free(text);
}

static void regex_of_files(void **state)
{
    (void)state;
    enum fg_pretok_kind kind;
    const char *gpt2 =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    assert_true(fg_pretok_of_regex(gpt2, strlen(gpt2), &kind));
    assert_int_equal(kind, FG_PRETOK_GPT2);
    assert_false(fg_pretok_of_regex(gpt2, strlen(gpt2) - 1, &kind));
    assert_false(fg_pretok_of_regex("", 0, &kind));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),           cmocka_unit_test(ascii_exhaustive),
        cmocka_unit_test(ascii_every_pair), cmocka_unit_test(ascii_random),
        cmocka_unit_test(long_runs),        cmocka_unit_test(regex_of_files),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
