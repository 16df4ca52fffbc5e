// Loader of the tokenizer in the metadata of a GGUF file (specs: model 11.7).
#include "format/gguf.h"
#include "format/json_scan.h"
#include "text/tokenizer_parts.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "tokenizer"

static const char *const tokens_key = "tokenizer.ggml.tokens";

static bool is(struct fg_gguf_str s, const char *text)
{
    return s.s && s.n == strlen(text) && memcmp(s.s, text, s.n) == 0;
}

static int fail_string(const struct fg_gguf *g, const char *key, const char *expected,
                       struct fg_gguf_str found, struct fg_error *err)
{
    char text[128];
    fg_escape(text, sizeof text, found.s ? found.s : "nothing", found.s ? (size_t)found.n : 7);
    return fg_fail(err, FG_EINPUT, WHAT, fg_gguf_path(g), key, expected, "%s", text);
}

static int load_kind(struct fg_tokenizer *tok, const struct fg_gguf *g, struct fg_error *err)
{
    static const struct {
        const char *pre;
        enum fg_pretok_kind kind;
        bool nfc; // not recorded in the file
    } known[] = {{"gpt-2", FG_PRETOK_GPT2, false},
                 {"gpt2", FG_PRETOK_GPT2, false},
                 {"smollm", FG_PRETOK_SMOLLM2, false},
                 {"qwen2", FG_PRETOK_QWEN2, true},
                 {"qwen35", FG_PRETOK_QWEN35, true}};
    struct fg_gguf_str model, pre;
    int rc = fg_gguf_string(g, "tokenizer.ggml.model", &model, err);
    if (!rc) rc = fg_gguf_string(g, "tokenizer.ggml.pre", &pre, err);
    if (rc) return rc;
    if (!is(model, "gpt2")) return fail_string(g, "tokenizer.ggml.model", "gpt2", model, err);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (!is(pre, known[i].pre)) continue;
        tok->kind = known[i].kind;
        tok->nfc = known[i].nfc;
        return 0;
    }
    return fail_string(g, "tokenizer.ggml.pre", "gpt-2, smollm, qwen2 or qwen35", pre, err);
}

static int check_string(const struct fg_gguf *g, const char *key, uint64_t i, struct fg_gguf_str s,
                        struct fg_error *err)
{
    if (s.n < INT32_MAX && fg_utf8_valid_bytes(s.s, (size_t)s.n) == s.n) return 0;
    char field[64];
    snprintf(field, sizeof field, "%s[%" PRIu64 "]", key, i);
    return fail_string(g, field, "UTF-8", s, err);
}

enum { TYPE_CONTROL = 3, TYPE_USER_DEFINED = 4 };

static int load_tokens(struct fg_tokenizer *tok, const struct fg_gguf *g, uint64_t n_merges,
                       struct fg_error *err)
{
    struct fg_gguf_str *tokens = NULL;
    int64_t *types = NULL;
    uint64_t n = 0, n_types = 0;
    int rc = fg_gguf_strings(g, tokens_key, &tokens, &n, err);
    if (!rc) rc = fg_gguf_i64s(g, "tokenizer.ggml.token_type", 0, 6, &types, &n_types, err);
    if (!rc && types && n_types != n) {
        rc = fg_fail(err, FG_EINPUT, WHAT, fg_gguf_path(g), "tokenizer.ggml.token_type",
                     "one for each token", "%" PRIu64 " for %" PRIu64, n_types, n);
    }
    for (uint64_t i = 0; i < n && !rc; i++) {
        struct fg_gguf_str s = tokens[i];
        int64_t type = types ? types[i] : 1;
        rc = check_string(g, tokens_key, i, s, err);
        if (rc) break;
        if (type == TYPE_CONTROL || type == TYPE_USER_DEFINED) {
            unsigned flags = type == TYPE_CONTROL ? FG_ADDED_SPECIAL : 0;
            rc = fg_vocab_add_added(&tok->vocab, s.s, (size_t)s.n, (int64_t)i, flags, err);
        } else {
            rc = fg_vocab_add(&tok->vocab, s.s, (size_t)s.n, (int64_t)i, err);
        }
    }
    free(tokens);
    free(types);
    return rc ? rc : fg_vocab_seal(&tok->vocab, n_merges, err);
}

static int load_merges(struct fg_tokenizer *tok, const struct fg_gguf *g,
                       const struct fg_gguf_str *merges, uint64_t n, struct fg_error *err)
{
    for (uint64_t i = 0; i < n; i++) {
        int rc = check_string(g, "tokenizer.ggml.merges", i, merges[i], err);
        if (!rc) rc = fg_vocab_merge_line(&tok->vocab, merges[i].s, (size_t)merges[i].n, err);
        if (rc) return rc;
    }
    return fg_vocab_merges_end(&tok->vocab, err);
}

static int load_id(const struct fg_tokenizer *tok, const struct fg_gguf *g, const char *key,
                   int32_t *id, struct fg_error *err)
{
    int64_t v;
    int rc = fg_gguf_i64(g, key, -1, 0, fg_tokenizer_size(tok) - 1, &v, NULL, err);
    if (!rc) *id = (int32_t)v;
    return rc;
}

static int load_wrap(const struct fg_gguf *g, const char *key, int32_t id, struct fg_wrap *wrap,
                     struct fg_error *err)
{
    bool on;
    int rc = fg_gguf_bool(g, key, false, &on, NULL, err);
    if (rc || !on) return rc;
    if (id < 0) {
        return fg_fail(err, FG_EINPUT, WHAT, fg_gguf_path(g), key, "the id of the token beside it",
                       "true");
    }
    wrap->ids[wrap->n++] = id;
    return 0;
}

static int load(struct fg_tokenizer *tok, const struct fg_gguf *g, struct fg_error *err)
{
    struct fg_gguf_str *merges = NULL;
    uint64_t n_merges = 0;
    tok->vocab.file = fg_gguf_path(g);
    int rc = load_kind(tok, g, err);
    if (!rc) rc = fg_gguf_strings(g, "tokenizer.ggml.merges", &merges, &n_merges, err);
    if (!rc) rc = load_tokens(tok, g, n_merges, err);
    if (!rc) rc = load_merges(tok, g, merges, n_merges, err);
    free(merges);
    if (!rc) rc = load_id(tok, g, "tokenizer.ggml.bos_token_id", &tok->bos, err);
    if (!rc) rc = load_id(tok, g, "tokenizer.ggml.eos_token_id", &tok->eos, err);
    if (!rc) rc = load_id(tok, g, "tokenizer.ggml.padding_token_id", &tok->pad, err);
    if (!rc) rc = load_wrap(g, "tokenizer.ggml.add_bos_token", tok->bos, &tok->before, err);
    if (!rc) rc = load_wrap(g, "tokenizer.ggml.add_eos_token", tok->eos, &tok->after, err);
    if (!rc) rc = fg_tokenizer_finish(tok, err);
    tok->vocab.file = NULL;
    return rc;
}

int fg_tokenizer_open_gguf(struct fg_tokenizer **out, const struct fg_gguf *gguf,
                           struct fg_error *err)
{
    *out = NULL;
    struct fg_tokenizer *tok = fg_tokenizer_empty();
    if (!tok) return fg_fail_memory(err, WHAT, 0);
    int rc = load(tok, gguf, err);
    if (rc) {
        fg_tokenizer_free(tok);
        return rc;
    }
    *out = tok;
    return 0;
}
