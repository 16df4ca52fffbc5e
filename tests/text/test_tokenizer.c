// Encoding and decoding over vocabularies built here (support/tokenizer_build.h): byte b has id b,
// results of merges follow from 256 on. Real vocabularies: tests/models/tokenizer_check.py.
#include "text/tokenizer.h"
#include "base/buf.h"
#include "support/scratch.h"
#include "support/tokenizer_build.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

static struct scratch scratch;

static struct fg_tokenizer *open_built(const struct tokenizer_build *b)
{
    struct fg_tokenizer *tok;
    struct fg_error err = {0};
    if (tb_open(&tok, &scratch, b, &err)) {
        char line[1024];
        fail_msg("%s", fg_error_line(&err, line, sizeof line));
    }
    return tok;
}

static void check_ids(const struct fg_tokenizer *tok, const char *text, size_t n, unsigned flags,
                      const int32_t *want, size_t n_want)
{
    struct fg_ids ids = {0};
    assert_int_equal(fg_tokenizer_encode(tok, NULL, text, n, flags, &ids, NULL), 0);
    bool same = ids.n == n_want && (n_want == 0 || !memcmp(ids.data, want, n_want * sizeof *want));
    if (!same) {
        struct fg_buf line = {0};
        fg_buf_json_str(&line, text, n);
        fg_buf_str(&line, " gives");
        for (size_t i = 0; i < ids.n; i++)
            fg_buf_printf(&line, " %d", ids.data[i]);
        fg_buf_str(&line, " for");
        for (size_t i = 0; i < n_want; i++)
            fg_buf_printf(&line, " %d", want[i]);
        fail_msg("%s", line.data);
    }
    fg_ids_free(&ids);
}

#define IDS(...)                                                                                   \
    (const int32_t[]){__VA_ARGS__}, sizeof(const int32_t[]){__VA_ARGS__} / sizeof(int32_t)
#define CHECK(tok, text, flags, ...)                                                               \
    check_ids((tok), (text), sizeof(text) - 1, (flags), IDS(__VA_ARGS__))

static void merge_order(void **state)
{
    (void)state;
    // 256 bc, 257 ab, 258 abc, 259 aa, 260 aaaa, 261 Gx ("G" stands for the space's character)
    struct tokenizer_build b = {.merges = "b c\na b\na bc\na a\naa aa\n\xC4\xA0 x\n"};
    for (int pairs = 0; pairs < 2; pairs++) {
        b.pairs = pairs;
        struct fg_tokenizer *tok = open_built(&b);
        CHECK(tok, "abc", 0, 258);             // bc first, then a + bc
        CHECK(tok, "ab", 0, 257);              //
        CHECK(tok, "abab", 0, 257, 257);       //
        CHECK(tok, "aaa", 0, 259, 'a');        // leftmost first
        CHECK(tok, "aaaaa", 0, 260, 'a');      //
        CHECK(tok, "aab", 0, 'a', 257);        // ab (rank 1) before aa (rank 3)
        CHECK(tok, "x x", 0, 'x', 261);        // spaces lead words
        CHECK(tok, "a b", 0, 'a', ' ', 'b');   // no merge across pieces
        CHECK(tok, "\n", 0, '\n');             //
        CHECK(tok, "\xC3\xA9", 0, 0xC3, 0xA9); //
        check_ids(tok, "", 0, 0, NULL, 0);
        check_ids(tok, "a\0b", 3, 0, IDS('a', 0, 'b'));
        assert_int_equal(fg_tokenizer_size(tok), 262);
        assert_string_equal(fg_tokenizer_kind(tok), "gpt2");
        fg_tokenizer_free(tok);
    }
}

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

struct naive {
    struct {
        int32_t left, right;
    } pairs[256];
    int n;
};

// The definition of BPE, in quadratic time.
static size_t naive_merge(const struct naive *m, int32_t *s, size_t n)
{
    for (;;) {
        int best = m->n;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            for (int r = 0; r < best; r++) {
                if (m->pairs[r].left == s[i] && m->pairs[r].right == s[i + 1]) {
                    best = r;
                    at = i;
                }
            }
        }
        if (best == m->n) return n;
        s[at] = 256 + best;
        memmove(s + at + 1, s + at + 2, (n - at - 2) * sizeof *s);
        n--;
    }
}

// Random merges over three letters, short and long words: both ways of merging against the naive.
static void random_merges(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t rng = seed;
        struct naive m = {0};
        char strings[3 + 60][64] = {"a", "b", "c"};
        int32_t ids[3 + 60] = {'a', 'b', 'c'};
        int n_strings = 3;
        struct fg_buf merges = {0};
        while (m.n < 60) {
            int l = (int)(next_random(&rng) % (uint64_t)n_strings);
            int r = (int)(next_random(&rng) % (uint64_t)n_strings);
            char joined[128];
            snprintf(joined, sizeof joined, "%s%s", strings[l], strings[r]);
            bool known = strlen(joined) > 40;
            for (int i = 0; i < n_strings; i++)
                known |= strcmp(strings[i], joined) == 0;
            if (known) continue;
            fg_buf_printf(&merges, "%s %s\n", strings[l], strings[r]);
            m.pairs[m.n].left = ids[l];
            m.pairs[m.n].right = ids[r];
            snprintf(strings[n_strings], sizeof strings[0], "%.40s", joined);
            ids[n_strings++] = 256 + m.n++;
        }
        struct fg_tokenizer *tok = open_built(&(struct tokenizer_build){.merges = merges.data});
        fg_buf_free(&merges);
        struct fg_tok_work *work;
        assert_int_equal(fg_tok_work_new(&work, tok, NULL), 0);
        for (int round = 0; round < 400; round++) {
            char text[301];
            int32_t want[300];
            size_t n = 1 + next_random(&rng) % (round % 8 ? 60 : 300);
            for (size_t i = 0; i < n; i++)
                want[i] = text[i] = "abc"[next_random(&rng) % 3];
            size_t n_want = naive_merge(&m, want, n);
            struct fg_ids got = {0};
            assert_int_equal(fg_tokenizer_encode(tok, work, text, n, 0, &got, NULL), 0);
            if (got.n != n_want || memcmp(got.data, want, n_want * sizeof *want) != 0) {
                fail_msg("seed %d, round %d: \"%.*s\"", (int)seed, round, (int)n, text);
            }
            fg_ids_free(&got);
        }
        fg_tok_work_free(work);
        fg_tokenizer_free(tok);
    }
}

// A workspace, and its cache of pieces, changes nothing.
static void workspace(void **state)
{
    (void)state;
    struct fg_tokenizer *tok =
        open_built(&(struct tokenizer_build){.merges = "a b\nab c\nx y\n", .pre = TB_QWEN2});
    struct fg_tok_work *work;
    assert_int_equal(fg_tok_work_new(&work, tok, NULL), 0);
    struct fg_ids ids = {0}, fresh = {0};
    uint64_t rng = 3;
    for (int round = 0; round < 3000; round++) {
        char text[80];
        size_t n = 1 + next_random(&rng) % 79;
        for (size_t i = 0; i < n; i++)
            text[i] = "abcxy 1\n'=s"[next_random(&rng) % 11];
        ids.n = fresh.n = 0;
        assert_int_equal(fg_tokenizer_encode(tok, work, text, n, 0, &ids, NULL), 0);
        assert_int_equal(fg_tokenizer_encode(tok, NULL, text, n, 0, &fresh, NULL), 0);
        assert_int_equal(ids.n, fresh.n);
        assert_memory_equal(ids.data, fresh.data, ids.n * sizeof *ids.data);
    }
    // Ids are appended.
    ids.n = 0;
    assert_int_equal(fg_tokenizer_encode(tok, work, "abc", 3, 0, &ids, NULL), 0);
    assert_int_equal(fg_tokenizer_encode(tok, work, "xy", 2, 0, &ids, NULL), 0);
    assert_int_equal(ids.n, 2);
    assert_int_equal(ids.data[0], 257);
    assert_int_equal(ids.data[1], 258);
    fg_ids_free(&ids);
    fg_ids_free(&fresh);
    fg_tok_work_free(work);
    fg_tokenizer_free(tok);
}

#define ADDED(id, text, flags) "{\"id\":" #id ",\"content\":\"" text "\"," flags "}"
#define EXACT "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false"
#define SPECIAL(id, text) ADDED(id, text, EXACT ",\"special\":true")
#define USUAL(id, text) ADDED(id, text, EXACT ",\"special\":false")

static void added_tokens(void **state)
{
    (void)state;
    struct tokenizer_build b = {
        .merges = "< |\n",
        .pre = TB_QWEN2,
        .normalizer = "{\"type\":\"NFC\"}",
        // clang-format off
        .added = "[" SPECIAL(300, "<|end|>") "," SPECIAL(301, "<|end|>x") ","
                 USUAL(302, "<t>") "," SPECIAL(303, "\\u00e9\\u00e9") ","
                 USUAL(256, "<|") "," SPECIAL(304, "") "]"
        // clang-format on
    };
    struct fg_tokenizer *tok = open_built(&b);
    CHECK(tok, "a<|end|>b", 0, 'a', 300, 'b');
    CHECK(tok, "<|end|><|end|>x<t>", 0, 300, 301, 302); // longest
    CHECK(tok, "<|<|end|>", 0, 256, 300);               // leftmost
    CHECK(tok, "<|end", 0, 256, 'e', 'n', 'd');
    CHECK(tok, "<|END|>", 0, 256, 'E', 'N', 'D', '|', '>'); // case counts
    CHECK(tok, "<t", 0, '<', 't');
    // Found in the raw text, before NFC: the composed letter is a token, the decomposed one is not.
    CHECK(tok, "\xC3\xA9\xC3\xA9", 0, 303);
    CHECK(tok,
          "\xC3\xA9"
          "e\xCC\x81",
          0, 0xC3, 0xA9, 0xC3, 0xA9);
    // NFC does not cross an added token, and a mark behind one stays.
    CHECK(tok, "e<t>\xCC\x81", 0, 'e', 302, 0xCC, 0x81);
    // Plain text: none is found, special or not.
    CHECK(tok, "<t>", FG_TOK_PLAIN, '<', 't', '>');
    CHECK(tok, "<|end|>", FG_TOK_PLAIN, 256, 'e', 'n', 'd', '|', '>');
    CHECK(tok, "\xC3\xA9\xC3\xA9", FG_TOK_PLAIN, 0xC3, 0xA9, 0xC3, 0xA9);

    assert_int_equal(fg_tokenizer_find_added(tok, "<|end|>", 7), 300);
    assert_int_equal(fg_tokenizer_find_added(tok, "<|end|>", 6), -1);
    assert_int_equal(fg_tokenizer_find_added(tok, "", 0), -1);
    assert_true(fg_tokenizer_is_special(tok, 300));
    assert_false(fg_tokenizer_is_special(tok, 302));
    assert_true(fg_tokenizer_is_added(tok, 302));
    assert_true(fg_tokenizer_is_added(tok, 256));
    assert_false(fg_tokenizer_is_added(tok, 'a'));
    assert_int_equal(fg_tokenizer_size(tok), 304);
    const char *bytes;
    size_t n;
    assert_true(fg_tokenizer_token(tok, 303, &bytes, &n));
    assert_int_equal(n, 4); // its literal text, not the bytes that the characters stand for
    assert_false(fg_tokenizer_token(tok, 299, &bytes, &n)); // a gap
    assert_false(fg_tokenizer_token(tok, 304, &bytes, &n));
    assert_false(fg_tokenizer_token(tok, -1, &bytes, &n));
    fg_tokenizer_free(tok);
}

static void added_flags(void **state)
{
    (void)state;
    struct tokenizer_build b = {
        .normalizer = "{\"type\":\"NFC\"}",
        // clang-format off
        .added = "[" ADDED(300, "<l>", "\"lstrip\":true,\"special\":true") ","
                 ADDED(301, "<r>", "\"rstrip\":true,\"special\":true") ","
                 ADDED(302, "word", "\"single_word\":true,\"normalized\":false,\"special\":true") ","
                 ADDED(303, "\\u00e9t\\u00e9", "\"normalized\":true,\"special\":false") "]"
        // clang-format on
    };
    struct fg_tokenizer *tok = open_built(&b);
    CHECK(tok, "a \xC2\xA0\n<l> b", 0, 'a', 300, ' ', 'b');
    CHECK(tok, "a <r> \xE3\x80\x80 b", 0, 'a', ' ', 301, 'b');
    CHECK(tok, "<r>  <l>", 0, 301, 300); // the space is taken once
    CHECK(tok, "<l><r>", 0, 300, 301);
    CHECK(tok, "a word.", 0, 'a', ' ', 302, '.');
    CHECK(tok, "words", 0, 'w', 'o', 'r', 'd', 's');
    CHECK(tok, "1word", 0, '1', 'w', 'o', 'r', 'd');
    CHECK(tok, "\xC3\xA9word", 0, 0xC3, 0xA9, 'w', 'o', 'r', 'd');
    CHECK(tok, "word", 0, 302);
    // Found in the normalized text.
    CHECK(tok, "\xC3\xA9t\xC3\xA9", 0, 303);
    CHECK(tok, "e\xCC\x81te\xCC\x81", 0, 303);
    CHECK(tok, "e\xCC\x81te\xCC\x81", FG_TOK_PLAIN, 0xC3, 0xA9, 't', 0xC3, 0xA9);
    fg_tokenizer_free(tok);
}

static void ignore_merges(void **state)
{
    (void)state;
    // "abc" is an entry that no merge of these makes: a b, then ab + c is missing.
    struct fg_buf vocab = {0};
    tb_vocab(&vocab, "a b\nab c\n", -1);
    struct tokenizer_build b = {.vocab = vocab.data, .merges_all = "[\"a b\"]", .pre = TB_LLAMA3};
    struct fg_tokenizer *tok = open_built(&b);
    CHECK(tok, "abc", 0, 256, 'c');
    fg_tokenizer_free(tok);
    b.model = "\"type\":\"BPE\",\"ignore_merges\":true,";
    tok = open_built(&b);
    CHECK(tok, "abc", 0, 257);
    CHECK(tok, "abcd", 0, 256, 'c', 'd');
    CHECK(tok, "1234", 0, '1', '2', '3', '4');
    assert_string_equal(fg_tokenizer_kind(tok), "llama3");
    fg_tokenizer_free(tok);
    fg_buf_free(&vocab);
}

static void merges_with_space_like(void **state)
{
    (void)state;
    // The byte alphabet has U+00A0 nowhere, but tokens outside of it may; split at the first space.
    struct fg_buf vocab = {0};
    tb_vocab(&vocab, NULL, -1);
    vocab.len--;
    fg_buf_str(&vocab, ",\"x\xC2\xA0\":256,\"x\xC2\xA0y\":257,\"z\xC2\xA0\":258,\"z\":259}");
    vocab.data[vocab.len] = '\0';
    // "z" is there already as byte 122.
    char *twice = strstr(vocab.data, ",\"z\":259");
    memcpy(twice, "}", 2);
    struct tokenizer_build b = {.vocab = vocab.data, .merges_all = "[\"x\xC2\xA0 y\"]"};
    struct fg_tokenizer *tok = open_built(&b);
    const char *bytes;
    size_t n;
    assert_true(fg_tokenizer_token(tok, 257, &bytes, &n));
    assert_int_equal(n, 4);
    assert_memory_equal(bytes, "x\xC2\xA0y", 4); // its own UTF-8
    fg_tokenizer_free(tok);
    fg_buf_free(&vocab);
}

#define FFFD 0xEF, 0xBF, 0xBD

static void invalid_utf8(void **state)
{
    (void)state;
    struct fg_tokenizer *tok = open_built(
        &(struct tokenizer_build){.merges = "a b\n", .added = "[" USUAL(300, "<t>") "]"});
    CHECK(tok,
          "ab\xFF"
          "ab",
          0, 256, FFFD, 256);
    CHECK(tok, "\xE2\x82", 0, FFFD);
    CHECK(tok, "\xED\xA0\x80", 0, FFFD, FFFD, FFFD);
    CHECK(tok, "\xE2\x82<t>", 0, FFFD, 300);
    // Raw: the bytes themselves, each invalid stretch for itself.
    CHECK(tok,
          "ab\xFF"
          "ab",
          FG_TOK_RAW, 256, 0xFF, 256);
    CHECK(tok, "\xE2\x82<t>", FG_TOK_RAW, 0xE2, 0x82, 300);
    CHECK(tok, "\xE2\x82<t>", FG_TOK_RAW | FG_TOK_PLAIN, 0xE2, 0x82, '<', 't', '>');
    CHECK(tok, "\xC3\xA9\xC0\xAF", FG_TOK_RAW, 0xC3, 0xA9, 0xC0, 0xAF);
    check_ids(tok, "", 0, FG_TOK_RAW, NULL, 0);
    fg_tokenizer_free(tok);
}

static void check_decode(const struct fg_tokenizer *tok, const int32_t *ids, size_t n,
                         unsigned flags, const char *want)
{
    struct fg_buf out = {0};
    fg_buf_str(&out, "before ");
    assert_int_equal(fg_tokenizer_decode(tok, ids, n, flags, &out, NULL), 0);
    assert_string_equal(out.data + 7, want);
    fg_buf_free(&out);
}

#define DECODES(tok, want, flags, ...) check_decode((tok), IDS(__VA_ARGS__), (flags), (want))

static void decoding(void **state)
{
    (void)state;
    struct fg_tokenizer *tok = open_built(&(struct tokenizer_build){
        .merges = "a b\n\xC3\x83 \xC2\xA9\n", // 257: the two bytes of e acute
        .added =
            "[" SPECIAL(300, "<s>") "," USUAL(301, "<t>") "," SPECIAL(302, "\\u0120\\u0120") "]"});
    DECODES(tok, "ab\xC3\xA9", 0, 256, 257);
    DECODES(tok, "\xE2\x82\xAC", 0, 0xE2, 0x82, 0xAC);
    DECODES(tok, "\xEF\xBF\xBD", 0, 0xE2, 0x82);
    DECODES(tok, "\xEF\xBF\xBD(", 0, 0xE2, 0x82, '(');
    DECODES(tok, "\xEF\xBF\xBD\xEF\xBF\xBD", 0, 0xE2, 0xE2);
    DECODES(tok, "\xEF\xBF\xBD\xC3\xA9", 0, 0xF0, 257);
    DECODES(tok, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", 0, 0xED, 0xA0, 0x80);
    DECODES(tok, "x<s>y<t>", 0, 'x', 300, 'y', 301);
    DECODES(tok, "xy<t>", FG_TOK_SKIP_SPECIAL, 'x', 300, 'y', 301);
    DECODES(tok, "\xEF\xBF\xBD<s>\xEF\xBF\xBD", 0, 0xE2, 0x82, 300, 0xAC);
    DECODES(tok, "\xE2\x82\xAC", FG_TOK_SKIP_SPECIAL, 0xE2, 0x82, 300, 0xAC);
    DECODES(tok, "\xC4\xA0\xC4\xA0", 0, 302); // an added token's text is literal
    // Ids without a token.
    struct fg_buf out = {0};
    struct fg_error err = {0};
    int32_t bad[] = {'a', 299};
    assert_int_equal(fg_tokenizer_decode(tok, bad, 2, 0, &out, &err), FG_EINPUT);
    assert_int_equal(out.len, 0);
    assert_string_equal(err.found, "299");
    bad[1] = -1;
    assert_int_equal(fg_tokenizer_decode(tok, bad, 2, 0, &out, &err), FG_EINPUT);
    fg_buf_free(&out);
    fg_tokenizer_free(tok);
}

static bool is_valid(const char *s, size_t n)
{
    struct fg_buf out = {0};
    bool repaired = fg_utf8_repair(&out, s, n);
    fg_buf_free(&out);
    return !repaired;
}

// Random ids, valid or not: whatever the stream has given out at any point is complete, and all of
// it is what decoding at once gives.
static void streaming(void **state)
{
    (void)state;
    struct fg_tokenizer *tok = open_built(&(struct tokenizer_build){
        .merges = "\xC3\xB0 \xC5\x81\n\xC3\xA2 \xC4\xA4\n", // F0 9F, E2 82
        .added = "[" SPECIAL(300, "<s>") "]"});
    static const int32_t some[] = {'a',  0xF0, 0x9F, 0x98, 0x80, 0xE2, 0x82, 0xAC, 0xC3, 0xA9,
                                   0xED, 0xA0, 0xF4, 0x90, 0xFF, 256,  257,  300,  ' '};
    uint64_t rng = 11;
    for (int round = 0; round < 20000; round++) {
        int32_t ids[12];
        size_t n = 1 + next_random(&rng) % 12;
        for (size_t i = 0; i < n; i++)
            ids[i] = some[next_random(&rng) % (sizeof some / sizeof some[0])];
        unsigned flags = round % 2 ? FG_TOK_SKIP_SPECIAL : 0;
        struct fg_buf whole = {0}, stream = {0};
        struct fg_tok_stream s;
        assert_int_equal(fg_tokenizer_decode(tok, ids, n, flags, &whole, NULL), 0);
        fg_tok_stream_init(&s, tok, flags);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(fg_tok_stream_push(&s, ids[i], &stream, NULL), 0);
            if (stream.len && !is_valid(stream.data, stream.len)) fail_msg("round %d", round);
            // A fork that is flushed here gives the decoding of the first ids.
            struct fg_tok_stream fork = s;
            struct fg_buf a = {0}, b = {0};
            fg_buf_add(&a, stream.data ? stream.data : "", stream.len);
            assert_int_equal(fg_tok_stream_flush(&fork, &a, NULL), 0);
            assert_int_equal(fg_tokenizer_decode(tok, ids, i + 1, flags, &b, NULL), 0);
            assert_int_equal(a.len, b.len);
            if (a.len) assert_memory_equal(a.data, b.data, a.len);
            fg_buf_free(&a);
            fg_buf_free(&b);
        }
        assert_int_equal(fg_tok_stream_flush(&s, &stream, NULL), 0);
        assert_int_equal(whole.len, stream.len);
        if (whole.len) assert_memory_equal(whole.data, stream.data, whole.len);
        fg_buf_free(&whole);
        fg_buf_free(&stream);
    }
    fg_tokenizer_free(tok);
}

// A megabyte in one piece, and in very many: a quadratic step anywhere would take minutes.
static void long_texts(void **state)
{
    (void)state;
    static const char *const pre[] = {TB_QWEN2, TB_QWEN35, TB_BYTE_LEVEL, TB_SMOLLM2, TB_LLAMA3};
    static const char *const units[] = {
        "a", " ", "7", "=", "\n", "ab1=", "x ", "<t>", "\xCC\x81", "\xC3\xA9", "e\xCC\x81", "<"};
    enum { BYTES = 1 << 20 };
    char *text = malloc(BYTES);
    assert_non_null(text);
    for (size_t p = 0; p < sizeof pre / sizeof pre[0]; p++) {
        struct fg_tokenizer *tok = open_built(
            &(struct tokenizer_build){.merges = "a a\naa aa\naaaa aaaa\n= =\n\xC4\xA0 "
                                                "\xC4\xA0\n\xC4\xA0\xC4\xA0 \xC4\xA0\xC4\xA0\n",
                                      .pre = pre[p],
                                      .normalizer = "{\"type\":\"NFC\"}",
                                      .added = "[" SPECIAL(300, "<t>") "]"});
        for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
            size_t n_unit = strlen(units[u]), n = BYTES / n_unit * n_unit;
            for (size_t i = 0; i < n; i += n_unit)
                memcpy(text + i, units[u], n_unit);
            struct fg_ids ids = {0};
            struct fg_buf back = {0};
            clock_t began = clock();
            assert_int_equal(fg_tokenizer_encode(tok, NULL, text, n, 0, &ids, NULL), 0);
            assert_int_equal(fg_tokenizer_decode(tok, ids.data, ids.n, 0, &back, NULL), 0);
            double s = (double)(clock() - began) / CLOCKS_PER_SEC;
            if (s > 20) fail_msg("%s, unit %zu: %.1f s", fg_tokenizer_kind(tok), u, s);
            if (strcmp(units[u], "e\xCC\x81") == 0) {
                assert_int_equal(back.len, n / 3 * 2); // composed
            } else {
                assert_int_equal(back.len, n);
                assert_memory_equal(back.data, text, n);
            }
            fg_ids_free(&ids);
            fg_buf_free(&back);
        }
        fg_tokenizer_free(tok);
    }
    free(text);
}

static void companions(void **state)
{
    (void)state;
    struct tokenizer_build b = {.added = "[" SPECIAL(300, "<s>") "," SPECIAL(301, "<e>") "]"};
    const char *config =
        "{\"bos_token\":null,\"eos_token\":\"<e>\",\"pad_token\":{\"content\":\"<s>\"},"
        "\"add_bos_token\":false,\"added_tokens_decoder\":{\"301\":{\"content\":"
        "\"<e>\"},\"305\":{\"content\":\"<new>\",\"special\":true}}}";
    const char *generation = "{\"eos_token_id\":[305,301,7]}";
    scratch_write(&scratch, "tokenizer_config.json", config, strlen(config));
    scratch_write(&scratch, "generation_config.json", generation, strlen(generation));
    struct fg_tokenizer *tok = open_built(&b);
    assert_int_equal(fg_tokenizer_eos(tok), 301);
    assert_int_equal(fg_tokenizer_pad(tok), 300);
    assert_int_equal(fg_tokenizer_bos(tok), -1);
    const int32_t *stop;
    assert_int_equal(fg_tokenizer_stop_ids(tok, &stop), 3);
    assert_int_equal(stop[0], 7);
    assert_int_equal(stop[1], 301);
    assert_int_equal(stop[2], 305);
    assert_true(fg_tokenizer_is_stop(tok, 305));
    assert_false(fg_tokenizer_is_stop(tok, 300));
    CHECK(tok, "a<new>", 0, 'a', 305);
    CHECK(tok, "a", FG_TOK_WRAP, 'a');
    fg_tokenizer_free(tok);

    config = "{\"bos_token\":\"<s>\",\"eos_token\":\"<e>\",\"add_bos_token\":true}";
    generation = "{\"eos_token_id\":300}";
    scratch_write(&scratch, "tokenizer_config.json", config, strlen(config));
    scratch_write(&scratch, "generation_config.json", generation, strlen(generation));
    tok = open_built(&b);
    assert_int_equal(fg_tokenizer_stop_ids(tok, &stop), 2);
    CHECK(tok, "a", FG_TOK_WRAP, 300, 'a');
    CHECK(tok, "a", 0, 'a');
    fg_tokenizer_free(tok);

    // A template says what stands around a text; add_bos_token does not add to it.
    b.post =
        "{\"type\":\"Sequence\",\"processors\":[" TB_BYTE_LEVEL
        ",{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\","
        "\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":"
        "\"<e>\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\","
        "\"ids\":[300],\"tokens\":[\"<s>\"]},\"<e>\":{\"id\":\"<e>\",\"ids\":[301],"
        "\"tokens\":[\"<e>\"]}}}]}";
    tok = open_built(&b);
    CHECK(tok, "a", FG_TOK_WRAP, 300, 'a', 301);
    fg_tokenizer_free(tok);
    remove(scratch_path(&scratch, "tokenizer_config.json"));
    remove(scratch_path(&scratch, "generation_config.json"));
}

// Vocabularies may lack control characters: left out, or the unknown token where one is named.
static void missing_bytes(void **state)
{
    (void)state;
    struct fg_buf vocab = {0};
    tb_vocab(&vocab, "a b\n", 4);
    struct tokenizer_build b = {.vocab = vocab.data, .merges_all = "[\"a b\"]"};
    struct fg_tokenizer *tok = open_built(&b);
    CHECK(tok, "x\x04y", 0, 'x', 'y');
    check_ids(tok, "\x04", 1, 0, NULL, 0);
    fg_tokenizer_free(tok);
    b.model = "\"type\":\"BPE\",\"unk_token\":\"!\",";
    tok = open_built(&b);
    CHECK(tok, "x\x04y", 0, 'x', '!', 'y');
    fg_tokenizer_free(tok);
    fg_buf_free(&vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merge_order),
        cmocka_unit_test(random_merges),
        cmocka_unit_test(workspace),
        cmocka_unit_test(added_tokens),
        cmocka_unit_test(added_flags),
        cmocka_unit_test(ignore_merges),
        cmocka_unit_test(merges_with_space_like),
        cmocka_unit_test(invalid_utf8),
        cmocka_unit_test(decoding),
        cmocka_unit_test(streaming),
        cmocka_unit_test(long_texts),
        cmocka_unit_test(companions),
        cmocka_unit_test(missing_bytes),
    };
    scratch_open(&scratch);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close(&scratch);
    return rc;
}
