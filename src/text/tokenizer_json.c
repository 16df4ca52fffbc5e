// Loader of tokenizer.json with tokenizer_config.json and generation_config.json (specs:
// model 12.1, 12.2). The vocabulary and the merges, a quarter of a million entries each, are read
// where they stand; the small parts go through json-c.
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/num.h"
#include "format/json_scan.h"
#include "text/tokenizer_parts.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "tokenizer"
#define FILE_BYTES_MAX (512u << 20)
#define CONFIG_BYTES_MAX (16u << 20)
#define FOUND_MAX 160 // of a JSON value in an error

struct loader {
    struct fg_tokenizer *tok;
    struct fg_scan scan;                  // over tokenizer.json
    struct fg_buf key, value;             // strings of the scan
    struct fg_json config;                // tokenizer_config.json; root NULL when there is none
    size_t vocab_at, merges_at, added_at; // offsets of the values in tokenizer.json; 0: absent
    const struct fg_log *log;
    struct fg_error *err;
};

// A field of the small JSON parts that is not as it must be; shows it as JSON text.
static int fail_value(const struct loader *l, const char *file, const char *field,
                      const char *expected, struct json_object *found)
{
    char text[FOUND_MAX];
    const char *json = json_object_to_json_string_ext(found, JSON_C_TO_STRING_PLAIN |
                                                                 JSON_C_TO_STRING_NOSLASHESCAPE);
    fg_escape(text, sizeof text, json, strlen(json));
    return fg_fail(l->err, FG_EINPUT, WHAT, file, field, expected, "%s", text);
}

static bool is_type(struct json_object *obj, const char *type)
{
    struct json_object *t = NULL;
    return json_object_is_type(obj, json_type_object) &&
           json_object_object_get_ex(obj, "type", &t) && json_object_is_type(t, json_type_string) &&
           strcmp(json_object_get_string(t), type) == 0;
}

// Skips the value at the scan and parses it with json-c.
static int parse_part(struct loader *l, struct fg_json *doc)
{
    fg_scan_peek(&l->scan);
    size_t begin = l->scan.at;
    int rc = fg_scan_skip(&l->scan, l->err);
    if (rc) return rc;
    return fg_json_parse(doc, l->scan.text + begin, l->scan.at - begin, l->scan.file, l->err);
}

static int load_normalizer(struct loader *l)
{
    struct fg_json doc = {0};
    int rc = parse_part(l, &doc);
    if (rc) return rc;
    if (is_type(doc.root, "NFC")) {
        l->tok->nfc = true;
    } else if (doc.root) {
        rc = fail_value(l, doc.file, "normalizer", "null or NFC", doc.root);
    }
    fg_json_close(&doc);
    return rc;
}

static bool bool_of(struct json_object *obj, const char *key, bool def)
{
    struct json_object *v = NULL;
    if (!json_object_object_get_ex(obj, key, &v) || !json_object_is_type(v, json_type_boolean)) {
        return def;
    }
    return json_object_get_boolean(v);
}

static bool is_byte_level(struct json_object *obj, bool use_regex)
{
    return is_type(obj, "ByteLevel") && !bool_of(obj, "add_prefix_space", true) &&
           bool_of(obj, "use_regex", true) == use_regex;
}

// The kind of a pre-tokenizer. False when it is none that is built in.
static bool kind_of(struct json_object *pre, enum fg_pretok_kind *kind)
{
    if (is_byte_level(pre, true)) {
        *kind = FG_PRETOK_GPT2;
        return true;
    }
    struct json_object *list = NULL, *pattern = NULL, *regex = NULL, *behavior = NULL;
    if (!is_type(pre, "Sequence") || !json_object_object_get_ex(pre, "pretokenizers", &list) ||
        !json_object_is_type(list, json_type_array) || json_object_array_length(list) != 2) {
        return false;
    }
    struct json_object *first = json_object_array_get_idx(list, 0);
    struct json_object *second = json_object_array_get_idx(list, 1);
    if (is_type(first, "Digits") && bool_of(first, "individual_digits", false)) {
        *kind = FG_PRETOK_SMOLLM2;
        return is_byte_level(second, true);
    }
    if (!is_type(first, "Split") || !is_byte_level(second, false) ||
        bool_of(first, "invert", false) ||
        !json_object_object_get_ex(first, "behavior", &behavior) ||
        !json_object_is_type(behavior, json_type_string) ||
        strcmp(json_object_get_string(behavior), "Isolated") != 0 ||
        !json_object_object_get_ex(first, "pattern", &pattern) ||
        !json_object_is_type(pattern, json_type_object) ||
        !json_object_object_get_ex(pattern, "Regex", &regex) ||
        !json_object_is_type(regex, json_type_string)) {
        return false;
    }
    return fg_pretok_of_regex(json_object_get_string(regex),
                              (size_t)json_object_get_string_len(regex), kind);
}

static int load_pre_tokenizer(struct loader *l)
{
    struct fg_json doc = {0};
    int rc = parse_part(l, &doc);
    if (rc) return rc;
    if (!kind_of(doc.root, &l->tok->kind)) {
        rc = fail_value(l, doc.file, "pre_tokenizer",
                        "the pattern of Qwen2, Qwen3.5, GPT-2, SmolLM2 or Llama 3", doc.root);
    }
    fg_json_close(&doc);
    return rc;
}

static int load_decoder(struct loader *l)
{
    struct fg_json doc = {0};
    int rc = parse_part(l, &doc);
    if (rc) return rc;
    if (!is_type(doc.root, "ByteLevel")) {
        rc = fail_value(l, doc.file, "decoder", "ByteLevel", doc.root);
    }
    fg_json_close(&doc);
    return rc;
}

// The ids of a {"SpecialToken": {"id": NAME}} of a template; special_tokens maps names to ids.
static bool wrap_add(struct fg_wrap *wrap, struct json_object *name, struct json_object *tokens)
{
    struct json_object *entry = NULL, *ids = NULL;
    if (!json_object_is_type(name, json_type_string) ||
        !json_object_object_get_ex(tokens, json_object_get_string(name), &entry) ||
        !json_object_is_type(entry, json_type_object) ||
        !json_object_object_get_ex(entry, "ids", &ids) ||
        !json_object_is_type(ids, json_type_array)) {
        return false;
    }
    for (size_t i = 0; i < json_object_array_length(ids); i++) {
        struct json_object *id = json_object_array_get_idx(ids, i);
        int64_t v = json_object_is_type(id, json_type_int) ? json_object_get_int64(id) : -1;
        if (v < 0 || v > FG_TOKEN_ID_MAX || wrap->n == FG_WRAP_MAX) return false;
        wrap->ids[wrap->n++] = (int32_t)v;
    }
    return true;
}

// A TemplateProcessing: what its template for one text puts before and after the text.
static bool read_template(struct fg_tokenizer *tok, struct json_object *post)
{
    struct json_object *single = NULL, *tokens = NULL;
    if (!json_object_object_get_ex(post, "single", &single) ||
        !json_object_is_type(single, json_type_array) ||
        !json_object_object_get_ex(post, "special_tokens", &tokens) ||
        !json_object_is_type(tokens, json_type_object)) {
        return false;
    }
    bool text_seen = false;
    for (size_t i = 0; i < json_object_array_length(single); i++) {
        struct json_object *item = json_object_array_get_idx(single, i), *part = NULL, *id = NULL;
        if (!json_object_is_type(item, json_type_object)) return false;
        if (json_object_object_get_ex(item, "Sequence", &part)) {
            if (text_seen) return false;
            text_seen = true;
            continue;
        }
        if (!json_object_object_get_ex(item, "SpecialToken", &part) ||
            !json_object_is_type(part, json_type_object) ||
            !json_object_object_get_ex(part, "id", &id) ||
            !wrap_add(text_seen ? &tok->after : &tok->before, id, tokens)) {
            return false;
        }
    }
    return text_seen;
}

static bool read_post_processor(struct fg_tokenizer *tok, struct json_object *post)
{
    if (!post || is_type(post, "ByteLevel")) return true;
    if (is_type(post, "TemplateProcessing")) return read_template(tok, post);
    struct json_object *list = NULL;
    if (!is_type(post, "Sequence") || !json_object_object_get_ex(post, "processors", &list) ||
        !json_object_is_type(list, json_type_array)) {
        return false;
    }
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *item = json_object_array_get_idx(list, i);
        bool known = is_type(item, "ByteLevel") ||
                     (is_type(item, "TemplateProcessing") && read_template(tok, item));
        if (!known) return false;
    }
    return true;
}

static int load_post_processor(struct loader *l)
{
    struct fg_json doc = {0};
    int rc = parse_part(l, &doc);
    if (rc) return rc;
    if (!read_post_processor(l->tok, doc.root)) {
        rc = fail_value(l, doc.file, "post_processor", "null, ByteLevel or TemplateProcessing",
                        doc.root);
    }
    fg_json_close(&doc);
    return rc;
}

// One object that describes an added token, of tokenizer.json or of added_tokens_decoder.
static int load_added(struct loader *l, const struct fg_json *doc, struct json_object *obj,
                      int64_t id, const char *where)
{
    static const struct {
        const char *key;
        unsigned flag;
    } flags[] = {{"special", FG_ADDED_SPECIAL},
                 {"normalized", FG_ADDED_NORMALIZED},
                 {"lstrip", FG_ADDED_LSTRIP},
                 {"rstrip", FG_ADDED_RSTRIP},
                 {"single_word", FG_ADDED_SINGLE_WORD}};
    if (!json_object_is_type(obj, json_type_object)) {
        return fail_value(l, doc->file, where, "an object", obj);
    }
    const char *content = NULL;
    size_t n = 0;
    int rc = fg_json_str(doc, obj, where, "content", NULL, &content, &n, l->err);
    if (rc) return rc;
    if (!content) return fail_value(l, doc->file, where, "an object with \"content\"", obj);
    bool special = false;
    unsigned set = 0;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        // A token is looked for in normalized text unless it is special or says otherwise.
        bool def = flags[i].flag == FG_ADDED_NORMALIZED && !special, on;
        rc = fg_json_bool(doc, obj, where, flags[i].key, def, &on, NULL, l->err);
        if (rc) return rc;
        if (on) set |= flags[i].flag;
        if (flags[i].flag == FG_ADDED_SPECIAL) special = on;
    }
    return fg_vocab_add_added(&l->tok->vocab, content, n, id, set, l->err);
}

static int load_added_tokens(struct loader *l)
{
    struct fg_json doc = {0};
    l->scan.at = l->added_at;
    int rc = parse_part(l, &doc);
    if (rc) return rc;
    if (doc.root && !json_object_is_type(doc.root, json_type_array)) {
        rc = fail_value(l, doc.file, "added_tokens", "an array", doc.root);
    }
    size_t n = doc.root && !rc ? json_object_array_length(doc.root) : 0;
    for (size_t i = 0; i < n && !rc; i++) {
        struct json_object *obj = json_object_array_get_idx(doc.root, i);
        char where[48];
        int64_t id = -1;
        snprintf(where, sizeof where, "added_tokens[%zu].", i);
        if (json_object_is_type(obj, json_type_object)) {
            rc = fg_json_i64(&doc, obj, where, "id", -1, 0, FG_TOKEN_ID_MAX, &id, NULL, l->err);
        }
        if (!rc) rc = load_added(l, &doc, obj, id, where);
    }
    fg_json_close(&doc);
    return rc;
}

// added_tokens_decoder of tokenizer_config.json: {"id": {token}}.
static int load_added_decoder(struct loader *l)
{
    struct json_object *map = NULL;
    if (!l->config.root) return 0;
    int rc = fg_json_obj(&l->config, l->config.root, "", "added_tokens_decoder", &map, l->err);
    if (rc || !map) return rc;
    json_object_object_foreach(map, key, obj)
    {
        char where[96], name[48];
        int64_t id;
        fg_escape(name, sizeof name, key, strlen(key));
        snprintf(where, sizeof where, "added_tokens_decoder[%s].", name);
        if (!fg_parse_i64(key, &id)) {
            return fg_fail(l->err, FG_EINPUT, WHAT, l->config.file, "added_tokens_decoder",
                           "token ids as keys", "\"%s\"", name);
        }
        if ((rc = load_added(l, &l->config, obj, id, where))) return rc;
    }
    return 0;
}

static int load_vocab(struct loader *l)
{
    struct fg_scan *s = &l->scan;
    s->at = l->vocab_at;
    int rc = fg_scan_char(s, '{', l->err);
    bool first = true, more = false;
    while (!rc && (rc = fg_scan_next(s, '}', &first, &more, l->err)) == 0 && more) {
        uint64_t id = 0;
        rc = fg_scan_key(s, &l->key, l->err);
        if (!rc) rc = fg_scan_u64(s, &id, l->err);
        if (id > INT64_MAX) id = INT64_MAX;
        if (!rc) rc = fg_vocab_add(&l->tok->vocab, l->key.data, l->key.len, (int64_t)id, l->err);
    }
    return rc;
}

// An upper bound of the number of merges: elements that are arrays have a bracket each, elements
// that are strings a comma between them.
static uint64_t count_merges(struct loader *l, size_t begin, size_t end)
{
    const char *s = l->scan.text;
    size_t at = begin + 1;
    while (at < end && strchr(" \t\r\n", s[at]))
        at++;
    char mark = at < end && s[at] == '[' ? '[' : ',';
    uint64_t n = 1;
    for (; at < end; at++)
        n += s[at] == mark;
    return n;
}

static int load_merge(struct loader *l)
{
    struct fg_scan *s = &l->scan;
    struct fg_vocab *v = &l->tok->vocab;
    int rc;
    if (fg_scan_peek(s) != '[') {
        if ((rc = fg_scan_string(s, &l->key, l->err))) return rc;
        bool comment = v->n_merges + v->n_pending == 0 && l->key.len >= 8 &&
                       !memcmp(l->key.data, "#version", 8);
        return comment ? 0 : fg_vocab_merge_line(v, l->key.data, l->key.len, l->err);
    }
    rc = fg_scan_char(s, '[', l->err);
    if (!rc) rc = fg_scan_string(s, &l->key, l->err);
    if (!rc) rc = fg_scan_char(s, ',', l->err);
    if (!rc) rc = fg_scan_string(s, &l->value, l->err);
    if (!rc) rc = fg_scan_char(s, ']', l->err);
    if (rc) return rc;
    return fg_vocab_merge(v, l->key.data, l->key.len, l->value.data, l->value.len, l->err);
}

static int load_merges(struct loader *l)
{
    struct fg_scan *s = &l->scan;
    s->at = l->merges_at;
    int rc = fg_scan_char(s, '[', l->err);
    bool first = true, more = false;
    while (!rc && (rc = fg_scan_next(s, ']', &first, &more, l->err)) == 0 && more)
        rc = load_merge(l);
    return rc ? rc : fg_vocab_merges_end(&l->tok->vocab, l->err);
}

// Fields of "model" that must have one value, or be absent.
static int check_model_field(struct loader *l, const char *key)
{
    static const struct {
        const char *key, *values; // values: JSON texts, each in |bars|
    } fixed[] = {{"type", "|\"BPE\"|"},
                 {"dropout", "|null|"},
                 {"byte_fallback", "|false|"},
                 {"continuing_subword_prefix", "|null|\"\"|"},
                 {"end_of_word_suffix", "|null|\"\"|"}};
    char field[64], text[48];
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        if (strcmp(key, fixed[i].key) != 0) continue;
        struct fg_json doc = {0};
        int rc = parse_part(l, &doc);
        if (rc) return rc;
        snprintf(field, sizeof field, "model.%s", key);
        snprintf(text, sizeof text, "|%.40s|",
                 json_object_to_json_string_ext(doc.root, JSON_C_TO_STRING_PLAIN));
        if (!strstr(fixed[i].values, text)) {
            snprintf(text, sizeof text, "%s", fixed[i].values + 1);
            for (char *c = text; (c = strchr(c, '|'));)
                *c = c[1] ? ' ' : '\0';
            rc = fail_value(l, doc.file, field, text, doc.root);
        }
        fg_json_close(&doc);
        return rc;
    }
    return fg_scan_skip(&l->scan, l->err);
}

struct model_fields {
    bool type, ignore_merges;
    uint64_t n_merges;
    char unknown[128]; // unk_token, "" for none
};

static int load_model_field(struct loader *l, const char *key, struct model_fields *m)
{
    struct fg_scan *s = &l->scan;
    fg_scan_peek(s);
    size_t begin = s->at;
    int rc = 0;
    if ((strcmp(key, "vocab") == 0 && l->vocab_at) ||
        (strcmp(key, "merges") == 0 && l->merges_at)) {
        return fg_fail(l->err, FG_EINPUT, WHAT, s->file, key, "each key once", "the key again");
    }
    if (strcmp(key, "vocab") == 0) {
        l->vocab_at = begin;
        return fg_scan_skip(s, l->err);
    }
    if (strcmp(key, "merges") == 0) {
        l->merges_at = begin;
        rc = fg_scan_skip(s, l->err);
        m->n_merges = count_merges(l, begin, s->at);
        return rc;
    }
    if (strcmp(key, "ignore_merges") == 0) {
        rc = fg_scan_skip(s, l->err);
        m->ignore_merges = s->at - begin == 4 && !memcmp(s->text + begin, "true", 4);
        return rc;
    }
    if (strcmp(key, "unk_token") == 0 && fg_scan_peek(s) == '"') {
        rc = fg_scan_string(s, &l->value, l->err);
        if (!rc) snprintf(m->unknown, sizeof m->unknown, "%s", l->value.data);
        return rc;
    }
    m->type |= strcmp(key, "type") == 0;
    return check_model_field(l, key);
}

static int fail_missing(const struct loader *l, const char *field, const char *expected)
{
    return fg_fail(l->err, FG_EINPUT, WHAT, l->scan.file, field, expected, "nothing");
}

static int scan_model(struct loader *l, struct model_fields *m)
{
    struct fg_scan *s = &l->scan;
    int rc = fg_scan_char(s, '{', l->err);
    bool first = true, more = false;
    while (!rc && (rc = fg_scan_next(s, '}', &first, &more, l->err)) == 0 && more) {
        rc = fg_scan_key(s, &l->key, l->err);
        if (!rc) rc = load_model_field(l, l->key.data, m);
    }
    if (rc) return rc;
    if (!m->type) return fail_missing(l, "model.type", "\"BPE\"");
    if (!l->vocab_at) return fail_missing(l, "model.vocab", "an object");
    if (!l->merges_at) return fail_missing(l, "model.merges", "an array");
    return 0;
}

// Walks the top level once: small parts are read, big ones noted.
static int scan_file(struct loader *l, struct model_fields *m)
{
    static const struct {
        const char *key;
        int (*load)(struct loader *);
    } parts[] = {{"normalizer", load_normalizer},
                 {"pre_tokenizer", load_pre_tokenizer},
                 {"decoder", load_decoder},
                 {"post_processor", load_post_processor}};
    enum { N_PARTS = sizeof parts / sizeof parts[0] };
    unsigned seen = 0;
    struct fg_scan *s = &l->scan;
    int rc = fg_scan_char(s, '{', l->err);
    bool first = true, more = false;
    while (!rc && (rc = fg_scan_next(s, '}', &first, &more, l->err)) == 0 && more) {
        if ((rc = fg_scan_key(s, &l->key, l->err))) return rc;
        size_t i = 0;
        while (i < N_PARTS && strcmp(l->key.data, parts[i].key) != 0)
            i++;
        bool model = strcmp(l->key.data, "model") == 0;
        bool added = strcmp(l->key.data, "added_tokens") == 0;
        if ((i < N_PARTS && seen >> i & 1) || (model && l->vocab_at) || (added && l->added_at)) {
            return fg_fail(l->err, FG_EINPUT, WHAT, s->file, l->key.data, "each key once",
                           "the key again");
        }
        if (i < N_PARTS) {
            seen |= 1u << i;
            rc = parts[i].load(l);
        } else if (model) {
            rc = scan_model(l, m);
        } else {
            if (added) l->added_at = s->at;
            rc = fg_scan_skip(s, l->err);
        }
    }
    if (!rc) rc = fg_scan_end(s, l->err);
    if (rc) return rc;
    if (!l->vocab_at) return fail_missing(l, "model", "a BPE model");
    if (!(seen >> 1 & 1)) return fail_missing(l, "pre_tokenizer", "one");
    if (!(seen >> 2 & 1)) return fail_missing(l, "decoder", "ByteLevel");
    return 0;
}

// Id of the token whose text, or whose entry in the vocabulary, is s; -1.
static int32_t find_token(struct fg_tokenizer *tok, const char *s, size_t n)
{
    struct fg_vocab *v = &tok->vocab;
    for (uint32_t i = 0; i < v->n_added; i++) {
        if (v->added[i].n_bytes == n && !memcmp(v->blob.data + v->added[i].at, s, n)) {
            return v->tokens[v->added[i].token].id;
        }
    }
    struct fg_buf bytes = {0};
    bool literal = !fg_vocab_undo_alphabet(&bytes, s, n);
    uint32_t i =
        bytes.failed || !n ? FG_VOCAB_NONE : fg_vocab_find(v, bytes.data, bytes.len, literal);
    fg_buf_free(&bytes);
    return i == FG_VOCAB_NONE ? -1 : v->tokens[i].id;
}

static int load_unknown(struct loader *l, const struct model_fields *m)
{
    struct fg_vocab *v = &l->tok->vocab;
    if (!v->n_bytes_missing) return 0;
    fg_log_debug(l->log, "%s: %" PRIu32 " bytes without a token", l->scan.file, v->n_bytes_missing);
    if (!m->unknown[0]) return 0;
    int32_t id = find_token(l->tok, m->unknown, strlen(m->unknown));
    if (id < 0) {
        return fg_fail(l->err, FG_EINPUT, WHAT, l->scan.file, "model.unk_token",
                       "a token of the vocabulary", "%s", m->unknown);
    }
    fg_vocab_set_unknown(v, fg_vocab_index(v, id));
    return 0;
}

// bos_token and its like: a string, or an object with "content". Absent, or of no token: -1.
static int load_named_token(struct loader *l, const char *key, int32_t *id)
{
    struct json_object *v = NULL;
    struct json_object *root = l->config.root;
    if (!json_object_object_get_ex(root, key, &v) || !v) return 0;
    struct json_object *content = v;
    if (json_object_is_type(v, json_type_object)) json_object_object_get_ex(v, "content", &content);
    if (!json_object_is_type(content, json_type_string)) {
        return fail_value(l, l->config.file, key, "a string", v);
    }
    *id = find_token(l->tok, json_object_get_string(content),
                     (size_t)json_object_get_string_len(content));
    if (*id < 0) return fail_value(l, l->config.file, key, "a token of tokenizer.json", v);
    return 0;
}

static int load_config(struct loader *l)
{
    struct fg_tokenizer *tok = l->tok;
    if (!l->config.root) return 0;
    int rc = load_named_token(l, "eos_token", &tok->eos);
    if (!rc) rc = load_named_token(l, "bos_token", &tok->bos);
    if (!rc) rc = load_named_token(l, "pad_token", &tok->pad);
    static const char *const keys[2] = {"add_bos_token", "add_eos_token"};
    for (int i = 0; i < 2 && !rc; i++) {
        struct fg_wrap *wrap = i ? &tok->after : &tok->before;
        int32_t id = i ? tok->eos : tok->bos;
        bool on;
        rc = fg_json_bool(&l->config, l->config.root, "", keys[i], false, &on, NULL, l->err);
        if (rc || !on || wrap->n) continue; // a template says the same, and is newer
        if (id < 0) {
            return fg_fail(l->err, FG_EINPUT, WHAT, l->config.file, keys[i],
                           i ? "an eos_token beside it" : "a bos_token beside it", "true");
        }
        wrap->ids[wrap->n++] = id;
    }
    return rc;
}

// The ids of a template must be tokens.
static int check_wrap(const struct loader *l, const struct fg_wrap *wrap)
{
    for (size_t i = 0; i < wrap->n; i++) {
        if (fg_vocab_index(&l->tok->vocab, wrap->ids[i]) != FG_VOCAB_NONE) continue;
        return fg_fail(l->err, FG_EINPUT, WHAT, l->scan.file, "post_processor",
                       "ids of the vocabulary", "%" PRId32, wrap->ids[i]);
    }
    return 0;
}

static int load_stop_ids(struct loader *l, const char *dir)
{
    char *path = fg_path_join(dir, "generation_config.json");
    if (!path) return fg_fail_memory(l->err, WHAT, 0);
    struct fg_json doc = {0};
    struct json_object *v = NULL;
    int rc = fg_path_taken(path) ? fg_json_open(&doc, path, CONFIG_BYTES_MAX, l->err) : 0;
    if (!rc && json_object_is_type(doc.root, json_type_object)) {
        json_object_object_get_ex(doc.root, "eos_token_id", &v);
    }
    bool list = json_object_is_type(v, json_type_array);
    size_t n = list ? json_object_array_length(v) : v ? 1 : 0;
    for (size_t i = 0; i < n && !rc; i++) {
        struct json_object *item = list ? json_object_array_get_idx(v, i) : v;
        int64_t id = json_object_is_type(item, json_type_int) ? json_object_get_int64(item) : -1;
        int32_t id32 = (int32_t)id;
        if (id < 0 || id > FG_TOKEN_ID_MAX) {
            rc = fail_value(l, doc.file, "eos_token_id", "a token id or a list of them", item);
        } else if (!fg_ids_add(&l->tok->stop, &id32, 1)) {
            rc = fg_fail_memory(l->err, WHAT, n * sizeof id32);
        }
    }
    fg_json_close(&doc);
    free(path);
    return rc;
}

static int load_tokens(struct loader *l, const struct model_fields *m)
{
    struct fg_vocab *v = &l->tok->vocab;
    int rc = load_vocab(l);
    if (!rc && l->added_at) rc = load_added_tokens(l);
    if (!rc) rc = load_added_decoder(l);
    if (!rc) rc = fg_vocab_seal(v, m->n_merges, l->err);
    if (!rc) rc = load_merges(l);
    if (!rc) rc = load_unknown(l, m);
    return rc;
}

static int load_dir(struct loader *l, const char *dir)
{
    char *path = fg_path_join(dir, "tokenizer.json");
    char *config = fg_path_join(dir, "tokenizer_config.json");
    struct fg_map map = {0};
    struct model_fields m = {0};
    int rc = path && config ? 0 : fg_fail_memory(l->err, WHAT, 0);
    if (!rc) rc = fg_map_open(&map, path, l->err);
    if (!rc && map.bytes > FILE_BYTES_MAX) {
        rc = fg_fail_range(l->err, WHAT, path, "size in bytes", 0, FILE_BYTES_MAX,
                           (int64_t)map.bytes);
    }
    if (!rc && fg_path_taken(config)) {
        rc = fg_json_open(&l->config, config, CONFIG_BYTES_MAX, l->err);
        if (!rc && !json_object_is_type(l->config.root, json_type_object)) {
            rc = fail_value(l, config, NULL, "an object", l->config.root);
        }
    }
    l->tok->vocab.file = path;
    if (!rc) {
        rc = fg_scan_begin(&l->scan, map.data ? (const char *)map.data : "", (size_t)map.bytes,
                           WHAT, path, l->err);
    }
    if (!rc) rc = scan_file(l, &m);
    if (!rc) rc = load_tokens(l, &m);
    l->tok->ignore_merges = m.ignore_merges;
    if (!rc) rc = check_wrap(l, &l->tok->before);
    if (!rc) rc = check_wrap(l, &l->tok->after);
    if (!rc) rc = load_config(l);
    if (!rc) rc = load_stop_ids(l, dir);
    if (!rc) rc = fg_tokenizer_finish(l->tok, l->err);
    l->tok->vocab.file = NULL;
    fg_map_close(&map);
    free(path);
    free(config);
    return rc;
}

int fg_tokenizer_open(struct fg_tokenizer **out, const char *dir, const struct fg_log *log,
                      struct fg_error *err)
{
    *out = NULL;
    struct loader l = {.tok = fg_tokenizer_empty(), .log = log, .err = err};
    if (!l.tok) return fg_fail_memory(err, WHAT, 0);
    int rc = load_dir(&l, dir);
    fg_json_close(&l.config);
    fg_buf_free(&l.key);
    fg_buf_free(&l.value);
    if (rc) {
        fg_tokenizer_free(l.tok);
        return rc;
    }
    *out = l.tok;
    return 0;
}
