// text/chat_template.c: which template a checkpoint has. Rendering is chat_render.c's.
#include "text/chat_template.h"
#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "text/chat_rules.h"
#include <stdlib.h>

// Official ones have under 9 kB; tokenizer_config.json can carry a large table of added tokens.
#define TEMPLATE_BYTES_MAX (1u << 20)
#define CONFIG_BYTES_MAX (64u << 20)

#define NAMES "qwen3.8, qwen3.6, qwen3.5, qwen3.5-nothink, smollm2"
static const char HINT[] = "choose one of " NAMES " with --chat-template";

// specs/model.md, 13.1.
static const struct fg_chat_known KNOWN[] = {
    {"c3cf9e34abf4f9e36c2d72165aa9c132d3e2a725b6c2586aaa3a8af9d7a81041", FG_CHAT_QWEN38},
    {"e84f32a23fdda27689f868aa4a1a5621f41133e51a48d7f3efcbea2839574259", FG_CHAT_QWEN36},
    {"a4aee8afcf2e0711942cf848899be66016f8d14a889ff9ede07bca099c28f715", FG_CHAT_QWEN35},
    {"273d8e0e683b885071fb17e08d71e5f2a5ddfb5309756181681de4f5a1822d80", FG_CHAT_QWEN35_NOTHINK},
};

const char *fg_chat_variant_name(enum fg_chat_variant variant)
{
    return fg_chat_rules[variant].name;
}

int fg_chat_variant_by_name(enum fg_chat_variant *out, const char *name, struct fg_error *err)
{
    for (int v = 0; v < FG_CHAT_VARIANTS; v++) {
        if (strcmp(name, fg_chat_rules[v].name) == 0) {
            *out = (enum fg_chat_variant)v;
            return 0;
        }
    }
    return fg_fail(err, FG_EINPUT, "chat template", NULL, "name", "one of " NAMES, "%s", name);
}

bool fg_chat_variant_by_hash(enum fg_chat_variant *out, const struct fg_chat_known *known,
                             size_t n_known, const char *source, size_t n)
{
    size_t bare = n;
    while (bare > 0 && strchr(" \t\n\v\f\r", source[bare - 1]) && source[bare - 1] != '\0')
        bare--;
    for (int pass = 0; pass < (bare == n ? 1 : 2); pass++) {
        char hex[FG_SHA256_HEX];
        fg_sha256_hex(source, pass == 0 ? n : bare, hex);
        for (size_t i = 0; i < n_known; i++) {
            if (strcmp(hex, known[i].sha256) == 0) {
                *out = known[i].variant;
                return true;
            }
        }
    }
    return false;
}

static bool has(const char *source, size_t n, const char *mark)
{
    return memmem(source, n, mark, strlen(mark)) != NULL;
}

// The newest mark decides, since each version of the family kept the marks of the older ones.
static bool by_marks(enum fg_chat_variant *out, const char *source, size_t n)
{
    if (has(source, n, "preserve_thinking is undefined")) {
        *out = FG_CHAT_QWEN38;
    } else if (has(source, n, "preserve_thinking is defined")) {
        *out = FG_CHAT_QWEN36;
    } else if (has(source, n, "last_query_index")) {
        // Qwen3 (2025) counts queries under the same name, but calls tools in JSON.
        if (has(source, n, "return a json object with function name") &&
            !has(source, n, "<function="))
            return false;
        *out = has(source, n, "enable_thinking is true") ? FG_CHAT_QWEN35_NOTHINK : FG_CHAT_QWEN35;
    } else {
        return false;
    }
    return true;
}

// SmolLM2's default system text as a whole turn; SmolLM3 has the sentence, but not the turn.
static bool is_smollm2(const char *source, size_t n)
{
    const char *text = source;
    size_t length = strlen(fg_chat_smollm2_system), left = n;
    static const char END[] = "<|im_end|>";
    if (!has(source, n, "<|im_start|>")) return false;
    while ((text = memmem(text, left, fg_chat_smollm2_system, length))) {
        text += length;
        left = n - (size_t)(text - source);
        if (left >= strlen(END) && memcmp(text, END, strlen(END)) == 0) return true;
    }
    return false;
}

int fg_chat_variant_detect(enum fg_chat_variant *out, bool *official, const char *source, size_t n,
                           struct fg_error *err)
{
    *official = true;
    if (n > 0 && fg_chat_variant_by_hash(out, KNOWN, FG_COUNT(KNOWN), source, n)) return 0;
    if (n > 0 && is_smollm2(source, n)) {
        *out = FG_CHAT_SMOLLM2;
        return 0;
    }
    *official = false;
    if (n > 0 && by_marks(out, source, n)) return 0;
    char hex[FG_SHA256_HEX];
    fg_sha256_hex(source, n, hex);
    fg_fail(err, FG_EINPUT, "chat template", NULL, NULL, "the template of one of " NAMES,
            "another one, %zu bytes, SHA-256 %.12s...", n, hex);
    fg_error_hint(err, "--chat-template NAME uses one of them all the same");
    return FG_EINPUT;
}

// Detection in the text of a file: the error names it.
static int detect_in(enum fg_chat_variant *out, bool *official, const char *source, size_t n,
                     const char *path, const char *field, struct fg_error *err)
{
    struct fg_error e;
    int rc = fg_chat_variant_detect(out, official, source, n, &e);
    if (rc) {
        fg_fail(err, rc, e.what, path, field, e.expected, "%s", e.found);
        fg_error_hint(err, "%s", e.hint);
    }
    return rc;
}

// The template of a "chat_template" list that is named "default". NULL when there is none.
static struct json_object *default_of(struct json_object *list)
{
    size_t n = json_object_array_length(list);
    for (size_t i = 0; i < n; i++) {
        struct json_object *entry = json_object_array_get_idx(list, i), *name, *source;
        if (json_object_is_type(entry, json_type_object) &&
            json_object_object_get_ex(entry, "name", &name) &&
            json_object_is_type(name, json_type_string) &&
            strcmp(json_object_get_string(name), "default") == 0 &&
            json_object_object_get_ex(entry, "template", &source) &&
            json_object_is_type(source, json_type_string))
            return source;
    }
    return NULL;
}

static int load_config(enum fg_chat_variant *out, bool *official, const char *path,
                       struct fg_error *err)
{
    static const char FIELD[] = "chat_template";
    struct fg_json doc = {0};
    struct json_object *source = NULL;
    int rc = fg_json_open(&doc, path, CONFIG_BYTES_MAX, err);
    if (rc) return rc;
    if (fg_json_has(doc.root, FIELD)) json_object_object_get_ex(doc.root, FIELD, &source);
    if (json_object_is_type(source, json_type_array)) source = default_of(source);
    if (json_object_is_type(source, json_type_string)) {
        rc = detect_in(out, official, json_object_get_string(source),
                       (size_t)json_object_get_string_len(source), path, FIELD, err);
    } else {
        rc = fg_fail(err, FG_EINPUT, "chat template", path, FIELD,
                     "a template, or a list of templates with one named \"default\"", "%s",
                     fg_json_has(doc.root, FIELD) ? "neither" : "nothing");
        fg_error_hint(err, "%s", HINT);
    }
    fg_json_close(&doc);
    return rc;
}

int fg_chat_template_load(enum fg_chat_variant *out, bool *official, const char *dir,
                          struct fg_error *err)
{
    char *jinja = fg_path_join(dir, "chat_template.jinja");
    char *config = fg_path_join(dir, "tokenizer_config.json");
    struct fg_buf source = {0};
    int rc;
    if (!jinja || !config) {
        rc = fg_fail_memory(err, "chat template", strlen(dir));
    } else if (fg_path_taken(jinja)) {
        rc = fg_file_load(&source, jinja, TEMPLATE_BYTES_MAX, err);
        if (!rc)
            rc = detect_in(out, official, source.data ? source.data : "", source.len, jinja, NULL,
                           err);
    } else if (fg_path_taken(config)) {
        rc = load_config(out, official, config, err);
    } else {
        rc = fg_fail(err, FG_EINPUT, "chat template", dir, NULL,
                     "chat_template.jinja or tokenizer_config.json", "neither");
        fg_error_hint(err, "%s", HINT);
    }
    fg_buf_free(&source);
    free(jinja);
    free(config);
    return rc;
}
