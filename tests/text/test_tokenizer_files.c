// Tokenizer files that must be refused, each with one line that names file, field and finding, and
// the tokenizer in GGUF metadata.
#include "base/buf.h"
#include "format/gguf.h"
#include "support/gguf_build.h"
#include "support/scratch.h"
#include "support/tokenizer_build.h"
#include "text/tokenizer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct scratch scratch;

// Opens what is in the scratch folder, which must fail with FG_EINPUT and a line that holds `part`.
static void check_refused(const char *name, const char *part)
{
    struct fg_tokenizer *tok;
    struct fg_error err = {0};
    char line[1024];
    int rc = fg_tokenizer_open(&tok, scratch.dir, NULL, &err);
    fg_error_line(&err, line, sizeof line);
    if (rc != FG_EINPUT || tok) fail_msg("%s: code %d: %s", name, rc, line);
    if (!strstr(line, part)) fail_msg("%s: \"%s\" is not in \"%s\"", name, part, line);
    if (!strstr(line, ".json") || strchr(line, '\n')) fail_msg("%s: %s", name, line);
}

static void refuse(const char *name, const struct tokenizer_build *b, const char *part)
{
    struct fg_buf json = tb_json(b);
    scratch_write(&scratch, "tokenizer.json", json.data, json.len);
    fg_buf_free(&json);
    check_refused(name, part);
}

static void bad_parts(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct tokenizer_build b;
        const char *part;
    } cases[] = {
        {"type",
         {.model = "\"type\":\"Unigram\","},
         "field model.type: expected \"BPE\", found \"Unigram\""},
        {"no type", {.model = "\"unk_token\":null,"}, "model.type"},
        {"dropout",
         {.model = "\"type\":\"BPE\",\"dropout\":0.1,"},
         "field model.dropout: expected null, found 0.1"},
        {"byte_fallback",
         {.model = "\"type\":\"BPE\",\"byte_fallback\":true,"},
         "model.byte_fallback: expected false, found true"},
        {"prefix",
         {.model = "\"type\":\"BPE\",\"continuing_subword_prefix\":\"##\","},
         "continuing_subword_prefix"},
        {"suffix",
         {.model = "\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\","},
         "end_of_word_suffix"},
        {"normalizer",
         {.normalizer = "{\"type\":\"NFKC\"}"},
         "field normalizer: expected null or NFC, found {\"type\":\"NFKC\"}"},
        {"pattern", {.pre = TB_SPLIT("\\\\w+|\\\\W+")}, "\\w+|\\\\W+"},
        {"metaspace", {.pre = "{\"type\":\"Metaspace\"}"}, "found {\"type\":\"Metaspace\"}"},
        {"prefix space",
         {.pre = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}"},
         "add_prefix_space"},
        {"no pattern", {.pre = "null"}, "field pre_tokenizer"},
        {"decoder", {.decoder = "{\"type\":\"WordPiece\"}"}, "field decoder: expected ByteLevel"},
        {"post", {.post = "{\"type\":\"BertProcessing\"}"}, "field post_processor"},
        {"empty part",
         {.merges_all = "[\" b\"]"},
         "merge 0: \"b\": expected two parts, found an empty one"},
        {"empty right", {.merges_all = "[\"b \"]"}, "an empty one"},
        {"empty pair", {.merges_all = "[[\"\",\"b\"]]"}, "an empty one"},
        {"one part", {.merges_all = "[\"ab\"]"}, "merge 0: \"ab\": expected two parts"},
        {"unknown part",
         {.merges = "a b\n", .merges_all = "[\"a b\",\"a bb\"]"},
         "merge 1: \"bb\": expected parts in the vocabulary"},
        {"unknown result",
         {.merges = "a b\n", .merges_all = "[\"a b\",\"b a\"]"},
         "merge 1: \"ba\": expected a result"},
        {"pair twice",
         {.merges = "a b\n", .merges_all = "[\"a b\",\"a b\"]"},
         "the pair of merge 0 again"},
        {"merge of three", {.merges_all = "[[\"a\",\"b\",\"c\"]]"}, "JSON byte"},
        {"merge is a number", {.merges_all = "[7]"}, "expected a string"},
        {"merges no array", {.merges_all = "{}"}, "expected '['"},
        {"vocab no object", {.vocab = "[]"}, "expected '{'"},
        {"vocab empty", {.vocab = "{}"}, "a token for every byte, found none for byte 0x09"},
        {"id no number", {.vocab = "{\"a\":\"1\"}"}, "an integer from 0"},
        {"id negative", {.vocab = "{\"a\":-1}"}, "an integer from 0"},
        {"id fraction", {.vocab = "{\"a\":1.5}"}, "an integer from 0"},
        {"id 2^31",
         {.vocab = "{\"a\":2147483648}"},
         "vocabulary entry \"a\": expected an id of 0 to 2147483646, found 2147483648"},
        {"id 2^64-1",
         {.vocab = "{\"a\":18446744073709551615}"},
         "expected an id of 0 to 2147483646"},
        {"id twice",
         {.vocab = "{\"a\":5,\"b\":5}"},
         "id 5: \"b\": expected a, found a repeated id"},
        {"entry twice",
         {.vocab = "{\"a\":5,\"a\":6}"},
         "vocabulary entry \"a\": expected one id, found 6"},
        {"entry again", {.vocab = "{\"a\":5,\"a\":5}"}, "one entry for an id"},
        {"added no array", {.added = "{}"}, "field added_tokens: expected an array"},
        {"added no object", {.added = "[7]"}, "added_tokens[0]"},
        {"added no content", {.added = "[{\"id\":300}]"}, "content"},
        {"added no id", {.added = "[{\"content\":\"x!\"}]"}, "added token \"x!\": expected an id"},
        {"added id", {.added = "[{\"content\":\"x!\",\"id\":2147483648}]"}, "added_tokens[0].id"},
        {"added flag",
         {.added = "[{\"content\":\"x!\",\"id\":300,\"special\":1}]"},
         "added_tokens[0].special"},
        {"added over entry",
         {.added = "[{\"content\":\"x!\",\"id\":97}]"},
         "id 97: \"x!\": expected a, found a repeated id"},
        {"added twice",
         {.added = "[{\"content\":\"x!\",\"id\":300},{\"content\":\"y!\",\"id\":300}]"},
         "id 300: \"y!\": expected x!"},
        {"added text twice",
         {.added = "[{\"content\":\"x!\",\"id\":300,\"normalized\":true},{\"content\":\"x!\","
                   "\"id\":301,\"normalized\":true}]"},
         "added token \"x!\": expected one id, found 300 and 301"},
        {"entry elsewhere",
         {.added = "[{\"content\":\"a\",\"id\":300}]"},
         "added token \"a\": expected id 97 of the vocabulary, found 300"},
        {"template",
         {.post = "{\"type\":\"TemplateProcessing\",\"single\":[],\"special_tokens\":{}}"},
         "post_processor"},
        {"template token",
         {.post = "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}}"
                  ",{\"Sequence\":{}}],\"special_tokens\":{\"<s>\":{\"ids\":[300]}}}"},
         "post_processor: expected ids of the vocabulary, found 300"},
        {"template id",
         {.post = "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}}"
                  ",{\"Sequence\":{}}],\"special_tokens\":{}}"},
         "post_processor"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refuse(cases[i].name, &cases[i].b, cases[i].part);
}

static void missing_byte(void **state)
{
    (void)state;
    static const int refused[] = {0x20, 0x0A, 0x09, 0x0D, 0x41, 0x80,
                                  0xBF, 0xC2, 0xE2, 0xF0, 0xF3, 0xF4};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct fg_buf vocab = {0};
        char part[64];
        tb_vocab(&vocab, NULL, refused[i]);
        snprintf(part, sizeof part, "none for byte 0x%02X", (unsigned)refused[i]);
        refuse("byte", &(struct tokenizer_build){.vocab = vocab.data}, part);
        fg_buf_free(&vocab);
    }
    struct fg_buf vocab = {0};
    tb_vocab(&vocab, NULL, 4);
    refuse("unknown",
           &(struct tokenizer_build){.vocab = vocab.data,
                                     .model = "\"type\":\"BPE\",\"unk_token\":\"<unk>\","},
           "model.unk_token");
    fg_buf_free(&vocab);
}

static void bad_json(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"", "the end of the text"},
        {"[]", "expected '{'"},
        {"{}", "field model"},
        {"{\"model\":null}", "expected '{'"},
        {"{\"model\":{\"type\":\"BPE\"}}", "field model.vocab"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}", "field model.merges"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", "field pre_tokenizer"},
        {"{\"model\":{\"vocab\":{},\"vocab\":{}}}", "field vocab: expected each key once"},
        {"{\"decoder\":" TB_BYTE_LEVEL ",\"decoder\":" TB_BYTE_LEVEL "}",
         "field decoder: expected each key once"},
        {"{\"added_tokens\":[],\"added_tokens\":[]}", "field added_tokens: expected each key once"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}} x", "nothing more"},
        {"{\"x\":\"\xFF\"}", "UTF-8"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        scratch_write(&scratch, "tokenizer.json", texts[i][0], strlen(texts[i][0]));
        check_refused(texts[i][0], texts[i][1]);
    }
    struct fg_tokenizer *tok;
    remove(scratch_path(&scratch, "tokenizer.json"));
    assert_int_equal(fg_tokenizer_open(&tok, scratch.dir, NULL, NULL), FG_EINPUT);
    assert_null(tok);
}

// Cut anywhere, the file is refused.
static void truncated(void **state)
{
    (void)state;
    struct fg_buf json =
        tb_json(&(struct tokenizer_build){.merges = "a b\nab c\n", .pre = TB_QWEN2});
    size_t end = json.len;
    while (json.data[end - 1] != '}')
        end--;
    for (size_t n = 0; n < end; n++) {
        scratch_write(&scratch, "tokenizer.json", json.data, n);
        check_refused("truncated", "tokenizer");
    }
    fg_buf_free(&json);
}

static void bad_companions(void **state)
{
    (void)state;
    static const char *const configs[][2] = {
        {"[]", "an object"},
        {"{", "tokenizer_config.json"},
        {"{\"eos_token\":7}", "field eos_token: expected a string, found 7"},
        {"{\"eos_token\":\"<none>\"}",
         "field eos_token: expected a token of tokenizer.json, found \"<none>\""},
        {"{\"bos_token\":{\"content\":null}}", "field bos_token"},
        {"{\"add_bos_token\":true}", "field add_bos_token: expected a bos_token beside it"},
        {"{\"add_bos_token\":1}", "field add_bos_token"},
        {"{\"added_tokens_decoder\":[]}", "added_tokens_decoder"},
        {"{\"added_tokens_decoder\":{\"x\":{\"content\":\"y!\"}}}",
         "added_tokens_decoder: expected token ids as keys, found \"x\""},
        {"{\"added_tokens_decoder\":{\"97\":{\"content\":\"y!\"}}}", "a repeated id"},
        {"{\"added_tokens_decoder\":{\"-1\":{\"content\":\"y!\"}}}", "expected an id of 0"},
        {"{\"added_tokens_decoder\":{\"300\":7}}", "added_tokens_decoder[300]"},
    };
    static const char *const generations[][2] = {
        {"{\"eos_token_id\":\"x\"}", "field eos_token_id"},
        {"{\"eos_token_id\":[1,-1]}", "found -1"},
        {"{\"eos_token_id\":2147483648}", "found 2147483648"},
        {"{\"eos_token_id\":1.5}", "found 1.5"},
        {"nonsense", "generation_config.json"},
    };
    struct fg_buf json = tb_json(&(struct tokenizer_build){0});
    scratch_write(&scratch, "tokenizer.json", json.data, json.len);
    fg_buf_free(&json);
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        scratch_write(&scratch, "tokenizer_config.json", configs[i][0], strlen(configs[i][0]));
        check_refused(configs[i][0], configs[i][1]);
    }
    remove(scratch_path(&scratch, "tokenizer_config.json"));
    for (size_t i = 0; i < sizeof generations / sizeof generations[0]; i++) {
        scratch_write(&scratch, "generation_config.json", generations[i][0],
                      strlen(generations[i][0]));
        check_refused(generations[i][0], generations[i][1]);
    }
    remove(scratch_path(&scratch, "generation_config.json"));
}

// What is unusual and right: gaps and the largest id, a comment line, keys in another order.
static void accepted(void **state)
{
    (void)state;
    struct fg_tokenizer *tok;
    struct fg_buf vocab = {0};
    tb_vocab(&vocab, NULL, -1);
    vocab.len--;
    fg_buf_str(&vocab, ",\"ab\":2147483646,\"abc\":1000}");
    struct tokenizer_build b = {.vocab = vocab.data,
                                .merges_all = " [ \"#version: 0.2\" , \"a b\",\n[\"ab\" , \"c\"]]"};
    assert_int_equal(tb_open(&tok, &scratch, &b, NULL), 0);
    assert_int_equal(fg_tokenizer_size(tok), INT32_MAX);
    struct fg_ids ids = {0};
    assert_int_equal(fg_tokenizer_encode(tok, NULL, "ab abc", 6, 0, &ids, NULL), 0);
    assert_int_equal(ids.n, 3);
    assert_int_equal(ids.data[0], 2147483646);
    assert_int_equal(ids.data[1], ' ');
    assert_int_equal(ids.data[2], 1000);
    struct fg_buf out = {0};
    assert_int_equal(fg_tokenizer_decode(tok, ids.data, ids.n, 0, &out, NULL), 0);
    assert_string_equal(out.data, "ab abc");
    fg_buf_free(&out);
    fg_ids_free(&ids);
    fg_tokenizer_free(tok);

    struct fg_buf json = {0};
    fg_buf_printf(&json,
                  "{\"model\":{\"merges\":[],\"vocab\":%s,\"ignored\":[1,{}],\"type\":\"BPE\"},"
                  "\"decoder\":%s,\"pre_tokenizer\":%s}",
                  vocab.data, TB_BYTE_LEVEL, TB_QWEN35);
    scratch_write(&scratch, "tokenizer.json", json.data, json.len);
    assert_int_equal(fg_tokenizer_open(&tok, scratch.dir, NULL, NULL), 0);
    assert_string_equal(fg_tokenizer_kind(tok), "qwen35");
    fg_tokenizer_free(tok);
    fg_buf_free(&json);
    fg_buf_free(&vocab);
}

struct gguf_case {
    const char *name, *model, *pre;
    const char *merges[3];
    int n_types;     // 0: all; otherwise so many
    int type;        // of token 257; 0: control
    const char *bad; // token 257; NULL: "<s>"
    int64_t bos;     // -1: none
    bool add_bos;
    const char *part; // of the error; NULL: opens
};

static int open_gguf(const struct gguf_case *c, struct fg_tokenizer **tok, struct fg_error *err)
{
    struct gguf_build b;
    struct fg_buf texts = {0}, file = {0};
    const char *tokens[259];
    int32_t types[259];
    size_t at[256];
    for (unsigned i = 0; i < 256; i++) {
        at[i] = texts.len;
        tb_alphabet_char(&texts, i);
        fg_buf_add(&texts, "", 1);
        types[i] = 1;
    }
    for (unsigned i = 0; i < 256; i++)
        tokens[i] = texts.data + at[i];
    tokens[256] = "ab";
    tokens[257] = c->bad ? c->bad : "<s>";
    tokens[258] = "<t>";
    types[256] = 1;
    types[257] = c->type ? c->type : 3;
    types[258] = 4;
    uint64_t n_merges = 0;
    while (n_merges < 3 && c->merges[n_merges])
        n_merges++;
    gb_begin(&b);
    if (c->model) gb_str(&b, "tokenizer.ggml.model", c->model);
    if (c->pre) gb_str(&b, "tokenizer.ggml.pre", c->pre);
    gb_strings(&b, "tokenizer.ggml.tokens", tokens, 259);
    gb_i32s(&b, "tokenizer.ggml.token_type", types, c->n_types ? (uint64_t)c->n_types : 259);
    gb_strings(&b, "tokenizer.ggml.merges", c->merges, n_merges);
    if (c->bos >= 0) gb_u32(&b, "tokenizer.ggml.bos_token_id", (uint32_t)c->bos);
    gb_u32(&b, "tokenizer.ggml.eos_token_id", 257);
    gb_int(&b, "tokenizer.ggml.add_bos_token", FG_GGUF_BOOL, c->add_bos, 1);
    gb_end(&b, &file);
    struct fg_gguf *gguf;
    const char *path = scratch_write(&scratch, "model.gguf", file.data, file.len);
    assert_int_equal(fg_gguf_open(&gguf, path, err), 0);
    int rc = fg_tokenizer_open_gguf(tok, gguf, err);
    fg_gguf_close(gguf);
    fg_buf_free(&texts);
    fg_buf_free(&file);
    return rc;
}

static void gguf(void **state)
{
    (void)state;
    static const struct gguf_case cases[] = {
        {.name = "plain",
         .model = "gpt2",
         .pre = "qwen2",
         .merges = {"a b"},
         .bos = 257,
         .add_bos = true},
        {.name = "model",
         .model = "llama",
         .pre = "qwen2",
         .part = "tokenizer.ggml.model: expected gpt2, found llama"},
        {.name = "no model",
         .pre = "qwen2",
         .part = "tokenizer.ggml.model: expected gpt2, found nothing"},
        {.name = "pre", .model = "gpt2", .pre = "tekken", .part = "qwen35, found tekken"},
        {.name = "no pre", .model = "gpt2", .part = "tokenizer.ggml.pre"},
        {.name = "merge", .model = "gpt2", .pre = "gpt-2", .merges = {"ab"}, .part = "merge 0"},
        {.name = "cycle",
         .model = "gpt2",
         .pre = "gpt-2",
         .merges = {" ab"},
         .part = "an empty one"},
        {.name = "merge part",
         .model = "gpt2",
         .pre = "gpt-2",
         .merges = {"a bc"},
         .part = "no such token"},
        {.name = "merge twice",
         .model = "gpt2",
         .pre = "gpt-2",
         .merges = {"a b", "a b"},
         .part = "again"},
        {.name = "merge bytes",
         .model = "gpt2",
         .pre = "gpt-2",
         .merges = {"a \xFF"},
         .part = "merges[0]: expected UTF-8"},
        {.name = "types", .model = "gpt2", .pre = "gpt-2", .n_types = 258, .part = "258 for 259"},
        {.name = "type", .model = "gpt2", .pre = "gpt-2", .type = 9, .part = "token_type"},
        {.name = "twice",
         .model = "gpt2",
         .pre = "gpt-2",
         .type = 1,
         .bad = "ab",
         .part = "vocabulary entry \"ab\""},
        {.name = "token bytes",
         .model = "gpt2",
         .pre = "gpt-2",
         .bad = "\xC3",
         .part = "tokens[257]: expected UTF-8"},
        {.name = "bos", .model = "gpt2", .pre = "gpt-2", .bos = 259, .part = "bos_token_id"},
        {.name = "add_bos",
         .model = "gpt2",
         .pre = "gpt-2",
         .bos = -1,
         .add_bos = true,
         .part = "add_bos_token"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fg_tokenizer *tok;
        struct fg_error err = {0};
        char line[1024];
        int rc = open_gguf(&cases[i], &tok, &err);
        fg_error_line(&err, line, sizeof line);
        if (!cases[i].part) {
            if (rc) fail_msg("%s: %s", cases[i].name, line);
            struct fg_ids ids = {0};
            const char text[] = "ab<s>e\xCC\x81<t>";
            const int32_t want[] = {257, 256, 257, 0xC3, 0xA9, 258};
            assert_int_equal(
                fg_tokenizer_encode(tok, NULL, text, strlen(text), FG_TOK_WRAP, &ids, &err), 0);
            assert_int_equal(ids.n, 6);
            assert_memory_equal(ids.data, want, sizeof want);
            assert_true(fg_tokenizer_is_special(tok, 257));
            assert_false(fg_tokenizer_is_special(tok, 258));
            assert_true(fg_tokenizer_is_stop(tok, 257));
            fg_ids_free(&ids);
            fg_tokenizer_free(tok);
        } else if (rc != FG_EINPUT || tok || !strstr(line, cases[i].part)) {
            fail_msg("%s: code %d: \"%s\" is not in \"%s\"", cases[i].name, rc, cases[i].part,
                     line);
        }
    }
}

// What the ids stand for, by hand; a GGUF file and a tokenizer.json that agree have the same.
static void digests(void **state)
{
    (void)state;
    static const char *const last[] = {"ab", "<s>", "<t>"};
    struct gguf_case c = {.model = "gpt2", .pre = "qwen2", .merges = {"a b"}, .bos = -1};
    const struct tokenizer_build b = {.merges = "a b\n",
                                      .added =
                                          "[{\"id\":257,\"content\":\"<s>\",\"special\":true},"
                                          "{\"id\":258,\"content\":\"<t>\",\"special\":false}]"};
    struct fg_buf bytes = {0};
    char want[FG_SHA256_HEX], hex[FG_SHA256_HEX];
    for (unsigned i = 0; i < 259; i++) {
        const char byte = (char)i, *token = i < 256 ? &byte : last[i - 256];
        unsigned n = i < 256 ? 1 : (unsigned)strlen(token);
        const char head[] = {(char)i, (char)(i >> 8), 0, 0, (char)n, 0, 0, 0};
        fg_buf_add(&bytes, head, sizeof head);
        fg_buf_add(&bytes, token, n);
    }
    assert_true(fg_sha256_hex(bytes.data, bytes.len, want));
    fg_buf_free(&bytes);
    struct fg_tokenizer *tok;
    struct fg_error err = {0};
    assert_int_equal(open_gguf(&c, &tok, &err), 0);
    assert_true(fg_tokenizer_digest(tok, hex));
    assert_string_equal(hex, want);
    fg_tokenizer_free(tok);
    struct fg_buf json = tb_json(&b);
    scratch_write(&scratch, "tokenizer.json", json.data, json.len);
    fg_buf_free(&json);
    assert_int_equal(fg_tokenizer_open(&tok, scratch.dir, NULL, &err), 0);
    assert_true(fg_tokenizer_digest(tok, hex));
    assert_string_equal(hex, want);
    fg_tokenizer_free(tok);
    c.bad = "<u>";
    assert_int_equal(open_gguf(&c, &tok, &err), 0);
    assert_true(fg_tokenizer_digest(tok, hex));
    assert_string_not_equal(hex, want);
    fg_tokenizer_free(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_parts), cmocka_unit_test(missing_byte),   cmocka_unit_test(bad_json),
        cmocka_unit_test(truncated), cmocka_unit_test(bad_companions), cmocka_unit_test(accepted),
        cmocka_unit_test(gguf),      cmocka_unit_test(digests),
    };
    scratch_open(&scratch);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close(&scratch);
    return rc;
}
