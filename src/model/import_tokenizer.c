// model/import_tokenizer.c: tokenizer.json and its companions from GGUF metadata (sections 11.7,
// 12.4), in the form that HF's tokenizers library reads.
#include "base/size.h"
#include "format/json_scan.h"
#include "model/import_impl.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum token_type { TOKEN_NORMAL = 1, TOKEN_UNKNOWN, TOKEN_CONTROL, TOKEN_USER, TOKEN_UNUSED };

// Letters, marks and digits of the two Qwen patterns differ (12.4).
#define QWEN_PATTERN(letter, mark)                                                                 \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?" letter "+|\\p{N}| ?[^\\s\\p{L}" mark     \
    "\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct kind {
    const char *pre;     // tokenizer.ggml.pre
    const char *pattern; // NULL: ByteLevel's own, which is GPT-2's
    bool digits;         // isolate every digit first
} kinds[] = {
    {"gpt2", NULL, false},
    {"gpt-2", NULL, false},
    {"smollm", NULL, true},
    {"qwen2", QWEN_PATTERN("\\p{L}", ""), false},
    {"qwen35", QWEN_PATTERN("[\\p{L}\\p{M}]", "\\p{M}"), false},
};

// The vocabulary of the metadata, checked.
struct vocab {
    const struct kind *kind;
    struct fg_gguf_str *tokens;
    uint64_t n;
    int64_t *types; // NULL: all normal
};

static int fail_key(const struct fg_import *imp, const char *key, uint64_t i, const char *expected,
                    struct fg_gguf_str found, struct fg_error *err)
{
    char field[96], text[96];
    if (i == UINT64_MAX) {
        snprintf(field, sizeof field, "%s", key);
    } else {
        snprintf(field, sizeof field, "%s[%" PRIu64 "]", key, i);
    }
    if (!found.s)
        return fg_fail(err, FG_EINPUT, FG_IMPORT_WHAT, imp->path, field, expected, "nothing");
    fg_escape(text, sizeof text, found.s, (size_t)found.n);
    return fg_fail(err, FG_EINPUT, FG_IMPORT_WHAT, imp->path, field, expected, "\"%s\"", text);
}

static int find_kind(const struct fg_import *imp, const struct kind **out, struct fg_error *err)
{
    static const char model_key[] = "tokenizer.ggml.model", pre_key[] = "tokenizer.ggml.pre";
    struct fg_gguf_str model, pre;
    int rc = fg_gguf_string(imp->gguf, model_key, &model, err);
    if (!rc) rc = fg_gguf_string(imp->gguf, pre_key, &pre, err);
    if (rc) return rc;
    if (!model.s || model.n != 4 || memcmp(model.s, "gpt2", 4) != 0) {
        return fail_key(imp, model_key, UINT64_MAX, "gpt2 (byte-level BPE)", model, err);
    }
    for (size_t i = 0; i < FG_COUNT(kinds) && pre.s; i++) {
        if (pre.n == strlen(kinds[i].pre) && memcmp(pre.s, kinds[i].pre, pre.n) == 0) {
            *out = &kinds[i];
            return 0;
        }
    }
    return fail_key(imp, pre_key, UINT64_MAX, "gpt2, gpt-2, smollm, qwen2 or qwen35", pre, err);
}

static void vocab_free(struct vocab *v)
{
    free(v->tokens);
    free(v->types);
}

static int vocab_read(struct vocab *v, const struct fg_import *imp, struct fg_error *err)
{
    static const char key[] = "tokenizer.ggml.tokens";
    uint64_t n_types;
    *v = (struct vocab){0};
    int rc = find_kind(imp, &v->kind, err);
    if (!rc) rc = fg_gguf_strings(imp->gguf, key, &v->tokens, &v->n, err);
    if (!rc)
        rc = fg_gguf_i64s(imp->gguf, "tokenizer.ggml.token_type", 1, 6, &v->types, &n_types, err);
    if (rc) return rc;
    if (v->n < 1 || v->n > (uint64_t)imp->params.vocab) {
        return fg_fail_range(err, FG_IMPORT_WHAT, imp->path, key, 1, imp->params.vocab,
                             (int64_t)v->n);
    }
    if (v->types && n_types != v->n) {
        return fg_fail_range(err, FG_IMPORT_WHAT, imp->path, "tokenizer.ggml.token_type",
                             (int64_t)v->n, (int64_t)v->n, (int64_t)n_types);
    }
    for (uint64_t i = 0; i < v->n; i++) {
        struct fg_gguf_str s = v->tokens[i];
        if (fg_utf8_valid_bytes(s.s, (size_t)s.n) != s.n) {
            return fail_key(imp, key, i, "UTF-8", s, err);
        }
    }
    return 0;
}

static int type_of(const struct vocab *v, uint64_t i)
{
    return v->types ? (int)v->types[i] : TOKEN_NORMAL;
}

static bool is_added(int type)
{
    return type == TOKEN_UNKNOWN || type == TOKEN_CONTROL || type == TOKEN_USER;
}

static void write_added(struct fg_jwrite *w, const struct vocab *v)
{
    fg_jwrite_array(w, "added_tokens");
    for (uint64_t i = 0; i < v->n; i++) {
        int type = type_of(v, i);
        if (!is_added(type)) continue;
        fg_jwrite_object(w, NULL);
        fg_jwrite_uint(w, "id", i);
        fg_jwrite_text(w, "content", v->tokens[i].s, (size_t)v->tokens[i].n);
        fg_jwrite_bool(w, "single_word", false);
        fg_jwrite_bool(w, "lstrip", false);
        fg_jwrite_bool(w, "rstrip", false);
        fg_jwrite_bool(w, "normalized", false);
        fg_jwrite_bool(w, "special", type != TOKEN_USER);
        fg_jwrite_end_object(w);
    }
    fg_jwrite_end_array(w);
}

// One ByteLevel step: pre-tokenizer, post-processor or decoder.
static void write_byte_level(struct fg_jwrite *w, const char *key, bool trim, bool use_regex)
{
    fg_jwrite_object(w, key);
    fg_jwrite_str(w, "type", "ByteLevel");
    fg_jwrite_bool(w, "add_prefix_space", false);
    fg_jwrite_bool(w, "trim_offsets", trim);
    fg_jwrite_bool(w, "use_regex", use_regex);
    fg_jwrite_end_object(w);
}

static void write_pre_tokenizer(struct fg_jwrite *w, const struct kind *kind)
{
    static const char key[] = "pre_tokenizer";
    if (!kind->pattern && !kind->digits) {
        write_byte_level(w, key, true, true);
        return;
    }
    fg_jwrite_object(w, key);
    fg_jwrite_str(w, "type", "Sequence");
    fg_jwrite_array(w, "pretokenizers");
    fg_jwrite_object(w, NULL);
    if (kind->digits) {
        fg_jwrite_str(w, "type", "Digits");
        fg_jwrite_bool(w, "individual_digits", true);
    } else {
        fg_jwrite_str(w, "type", "Split");
        fg_jwrite_object(w, "pattern");
        fg_jwrite_str(w, "Regex", kind->pattern);
        fg_jwrite_end_object(w);
        fg_jwrite_str(w, "behavior", "Isolated");
        fg_jwrite_bool(w, "invert", false);
    }
    fg_jwrite_end_object(w);
    write_byte_level(w, NULL, kind->digits, kind->digits);
    fg_jwrite_end_array(w);
    fg_jwrite_end_object(w);
}

struct sorted {
    struct fg_gguf_str s;
    uint64_t id;
};

static int by_text(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;
    uint64_t n = x->s.n < y->s.n ? x->s.n : y->s.n;
    int c = n ? memcmp(x->s.s, y->s.s, (size_t)n) : 0;
    return c ? c : (x->s.n > y->s.n) - (x->s.n < y->s.n);
}

// Two ids with one text would become one JSON key.
static int check_unique(const struct fg_import *imp, const struct vocab *v, struct fg_error *err)
{
    struct sorted *list = malloc(v->n * sizeof *list);
    if (!list) return fg_fail_memory(err, FG_IMPORT_WHAT, v->n * sizeof *list);
    uint64_t n = 0;
    for (uint64_t i = 0; i < v->n; i++) {
        if (type_of(v, i) != TOKEN_UNUSED) list[n++] = (struct sorted){v->tokens[i], i};
    }
    if (n > 1) qsort(list, n, sizeof *list, by_text);
    int rc = 0;
    for (uint64_t i = 1; i < n && !rc; i++) {
        if (by_text(&list[i - 1], &list[i]) == 0) {
            rc = fail_key(imp, "tokenizer.ggml.tokens", list[i].id, "a text of its own", list[i].s,
                          err);
        }
    }
    free(list);
    return rc;
}

// Unused tokens are padding rows of the embedding: they have no text that could be produced.
static void write_vocab(struct fg_jwrite *w, const struct vocab *v)
{
    fg_jwrite_object(w, "vocab");
    for (uint64_t i = 0; i < v->n; i++) {
        if (type_of(v, i) == TOKEN_UNUSED) continue;
        if (w->comma) fg_buf_str(&w->buf, ",\n");
        fg_buf_json_str(&w->buf, v->tokens[i].s, (size_t)v->tokens[i].n);
        fg_buf_printf(&w->buf, ": %" PRIu64, i);
        w->comma = true;
    }
    fg_jwrite_end_object(w);
}

// As pairs, because a part may hold white space other than the space between them.
static int write_merges(struct fg_jwrite *w, const struct fg_import *imp, struct fg_error *err)
{
    static const char key[] = "tokenizer.ggml.merges";
    struct fg_gguf_str *merges;
    uint64_t n;
    int rc = fg_gguf_strings(imp->gguf, key, &merges, &n, err);
    if (rc) return rc;
    fg_jwrite_array(w, "merges");
    for (uint64_t i = 0; i < n && !rc; i++) {
        struct fg_gguf_str m = merges[i];
        const char *space = m.n ? memchr(m.s, ' ', (size_t)m.n) : NULL;
        if (!space || space == m.s || space + 1 == m.s + m.n ||
            fg_utf8_valid_bytes(m.s, (size_t)m.n) != m.n) {
            rc = fail_key(imp, key, i, "two parts with a space between them", m, err);
            break;
        }
        size_t left = (size_t)(space - m.s);
        fg_buf_str(&w->buf, i ? ",\n[" : "\n[");
        fg_buf_json_str(&w->buf, m.s, left);
        fg_buf_char(&w->buf, ',');
        fg_buf_json_str(&w->buf, space + 1, (size_t)m.n - left - 1);
        fg_buf_char(&w->buf, ']');
    }
    fg_jwrite_end_array(w);
    free(merges);
    return rc;
}

int fg_import_tokenizer(const struct fg_import *imp, struct fg_buf *out, struct fg_error *err)
{
    struct fg_jwrite w = {0};
    struct vocab v;
    int rc = vocab_read(&v, imp, err);
    if (!rc) rc = check_unique(imp, &v, err);
    if (rc) goto done;

    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "version", "1.0");
    fg_jwrite_null(&w, "truncation");
    fg_jwrite_null(&w, "padding");
    write_added(&w, &v);
    if (v.kind->pattern) { // of Qwen: NFC, which the metadata do not record
        fg_jwrite_object(&w, "normalizer");
        fg_jwrite_str(&w, "type", "NFC");
        fg_jwrite_end_object(&w);
    } else {
        fg_jwrite_null(&w, "normalizer");
    }
    write_pre_tokenizer(&w, v.kind);
    write_byte_level(&w, "post_processor", false, false);
    write_byte_level(&w, "decoder", true, true);
    fg_jwrite_object(&w, "model");
    fg_jwrite_str(&w, "type", "BPE");
    fg_jwrite_null(&w, "dropout");
    fg_jwrite_null(&w, "unk_token");
    fg_jwrite_str(&w, "continuing_subword_prefix", "");
    fg_jwrite_str(&w, "end_of_word_suffix", "");
    fg_jwrite_bool(&w, "fuse_unk", false);
    fg_jwrite_bool(&w, "byte_fallback", false);
    fg_jwrite_bool(&w, "ignore_merges", false);
    write_vocab(&w, &v);
    rc = write_merges(&w, imp, err);
    fg_jwrite_end_object(&w);
done:
    vocab_free(&v);
    return fg_import_hand_over(&w, rc, out, err);
}

static int write_token(struct fg_jwrite *w, const struct fg_import *imp, const struct vocab *v,
                       const char *name, const char *key, struct fg_error *err)
{
    int64_t id;
    bool given;
    int rc = fg_gguf_i64(imp->gguf, key, 0, 0, (int64_t)v->n - 1, &id, &given, err);
    if (!rc && given) fg_jwrite_text(w, name, v->tokens[id].s, (size_t)v->tokens[id].n);
    return rc;
}

int fg_import_tokenizer_config(const struct fg_import *imp, struct fg_buf *out,
                               struct fg_error *err)
{
    struct fg_jwrite w = {0};
    struct vocab v;
    bool bos = false, eos = false;
    int rc = vocab_read(&v, imp, err);
    if (!rc) rc = fg_gguf_bool(imp->gguf, "tokenizer.ggml.add_bos_token", false, &bos, NULL, err);
    if (!rc) rc = fg_gguf_bool(imp->gguf, "tokenizer.ggml.add_eos_token", false, &eos, NULL, err);
    fg_jwrite_object(&w, NULL);
    fg_jwrite_bool(&w, "add_bos_token", bos);
    fg_jwrite_bool(&w, "add_eos_token", eos);
    fg_jwrite_bool(&w, "add_prefix_space", false);
    static const struct {
        const char *name, *key;
    } tokens[] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                  {"eos_token", "tokenizer.ggml.eos_token_id"},
                  {"pad_token", "tokenizer.ggml.padding_token_id"},
                  {"unk_token", "tokenizer.ggml.unknown_token_id"}};
    for (size_t i = 0; i < FG_COUNT(tokens) && !rc; i++) {
        rc = write_token(&w, imp, &v, tokens[i].name, tokens[i].key, err);
    }
    fg_jwrite_bool(&w, "clean_up_tokenization_spaces", false);
    fg_jwrite_int(&w, "model_max_length", imp->params.max_positions);
    fg_jwrite_str(&w, "tokenizer_class", "PreTrainedTokenizerFast");
    vocab_free(&v);
    return fg_import_hand_over(&w, rc, out, err);
}

int fg_import_chat_template(const struct fg_import *imp, struct fg_buf *out, struct fg_error *err)
{
    static const char key[] = "tokenizer.chat_template";
    struct fg_gguf_str s;
    fg_buf_free(out);
    int rc = fg_gguf_string(imp->gguf, key, &s, err);
    if (rc || !s.s) return rc;
    if (fg_utf8_valid_bytes(s.s, (size_t)s.n) != s.n) {
        return fail_key(imp, key, UINT64_MAX, "UTF-8", s, err);
    }
    fg_buf_add(out, s.s, (size_t)s.n);
    if (!out->failed) return 0;
    fg_buf_free(out);
    return fg_fail_memory(err, FG_IMPORT_WHAT, s.n);
}
