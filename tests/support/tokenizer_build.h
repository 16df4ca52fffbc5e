// tests/support/tokenizer_build.h: small tokenizers. The vocabulary is the byte alphabet, byte b
// with id b, then the results of the merges from id 256 on, in order.
#ifndef FG_TESTS_TOKENIZER_BUILD_H
#define FG_TESTS_TOKENIZER_BUILD_H
#include "base/buf.h"
#include "support/scratch.h"
#include "text/tokenizer.h"
#include "text/unicode.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TB_BYTE_LEVEL                                                                              \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}"
#define TB_SPLIT(regex)                                                                            \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"        \
    "\"" regex "\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\","          \
    "\"add_prefix_space\":false,\"trim_offsets\":false,\"use_regex\":false}]}"
#define TB_QWEN2                                                                                   \
    TB_SPLIT("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| "     \
             "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+")
#define TB_QWEN35                                                                                  \
    TB_SPLIT("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\p{M}]+|"     \
             "\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|"      \
             "\\\\s+(?!\\\\S)|\\\\s+")
#define TB_LLAMA3                                                                                  \
    TB_SPLIT("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|"               \
             "\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|"         \
             "\\\\s+(?!\\\\S)|\\\\s+")
#define TB_SMOLLM2                                                                                 \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true},"  \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}" \
    "]}"

// JSON texts; NULL leaves a field at the default that is named.
struct tokenizer_build {
    const char *merges;     // "a b" lines with a newline after each; NULL: none
    bool pairs;             // merges as arrays of two
    const char *vocab;      // the whole object; NULL: as above
    const char *merges_all; // the whole array; NULL: of `merges`
    const char *added;      // array; NULL: []
    const char *pre;        // NULL: TB_BYTE_LEVEL
    const char *normalizer; // NULL: null
    const char *decoder;    // NULL: ByteLevel
    const char *post;       // NULL: null
    const char *model;      // further fields of "model", each with a comma behind it
};

static inline void tb_alphabet_char(struct fg_buf *out, unsigned b)
{
    bool same = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174);
    unsigned c = b, k = 0;
    for (unsigned i = 0; !same && i < b; i++)
        k += !((i >= 33 && i <= 126) || (i >= 161 && i <= 172) || (i >= 174));
    if (!same) c = 256 + k;
    char utf8[4];
    fg_buf_add(out, utf8, fg_utf8_put(utf8, c));
}

// {"!":33,...}; leaves out the token of byte `without` (-1: none).
static inline void tb_vocab(struct fg_buf *out, const char *merges, int without)
{
    struct fg_buf s = {0};
    fg_buf_str(out, "{");
    for (unsigned b = 0; b < 256; b++) {
        if ((int)b == without) continue;
        fg_buf_clear(&s);
        tb_alphabet_char(&s, b);
        fg_buf_json_str(out, s.data, s.len);
        fg_buf_printf(out, ":%u,", b);
    }
    unsigned id = 256;
    for (const char *m = merges; m && *m; id++) {
        size_t n = strcspn(m, "\n"), part = strcspn(m, " ");
        fg_buf_clear(&s);
        fg_buf_add(&s, m, part);
        fg_buf_add(&s, m + part + 1, n - part - 1);
        fg_buf_json_str(out, s.data, s.len);
        fg_buf_printf(out, ":%u,", id);
        m += n + 1;
    }
    out->data[out->len - 1] = '}';
    fg_buf_free(&s);
}

static inline void tb_merges(struct fg_buf *out, const char *merges, bool pairs)
{
    const char *comma = "";
    fg_buf_str(out, "[");
    for (const char *m = merges; m && *m; comma = ",") {
        size_t n = strcspn(m, "\n"), part = strcspn(m, " ");
        fg_buf_str(out, comma);
        if (pairs) {
            fg_buf_str(out, "[");
            fg_buf_json_str(out, m, part);
            fg_buf_str(out, ",");
            fg_buf_json_str(out, m + part + 1, n - part - 1);
            fg_buf_str(out, "]");
        } else {
            fg_buf_json_str(out, m, n);
        }
        m += n + 1;
    }
    fg_buf_str(out, "]");
}

// Text of a tokenizer.json; free with fg_buf_free.
static inline struct fg_buf tb_json(const struct tokenizer_build *b)
{
    struct fg_buf out = {0};
    fg_buf_printf(&out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n");
    fg_buf_printf(&out, "\"added_tokens\":%s,\n", b->added ? b->added : "[]");
    fg_buf_printf(&out, "\"normalizer\":%s,\n", b->normalizer ? b->normalizer : "null");
    fg_buf_printf(&out, "\"pre_tokenizer\":%s,\n", b->pre ? b->pre : TB_BYTE_LEVEL);
    fg_buf_printf(&out, "\"post_processor\":%s,\n", b->post ? b->post : "null");
    fg_buf_printf(&out, "\"decoder\":%s,\n", b->decoder ? b->decoder : TB_BYTE_LEVEL);
    fg_buf_printf(&out, "\"model\":{%s", b->model ? b->model : "\"type\":\"BPE\",");
    fg_buf_str(&out, "\"vocab\":");
    if (b->vocab) {
        fg_buf_str(&out, b->vocab);
    } else {
        tb_vocab(&out, b->merges, -1);
    }
    fg_buf_str(&out, ",\n\"merges\":");
    if (b->merges_all) {
        fg_buf_str(&out, b->merges_all);
    } else {
        tb_merges(&out, b->merges, b->pairs);
    }
    fg_buf_str(&out, "}}\n");
    return out;
}

// Writes tokenizer.json to the scratch folder and opens it.
static inline int tb_open(struct fg_tokenizer **tok, struct scratch *scratch,
                          const struct tokenizer_build *b, struct fg_error *err)
{
    struct fg_buf json = tb_json(b);
    scratch_write(scratch, "tokenizer.json", json.data, json.len);
    fg_buf_free(&json);
    return fg_tokenizer_open(tok, scratch->dir, NULL, err);
}
#endif
