// corpus/source_lines.c: documents and conversations, one per line.
#include "base/arena.h"
#include "corpus/lines.h"
#include "corpus/source.h"
#include "text/chat_python.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "corpus"

// What a conversation is without its generation prompt. Past the first turn no template may put a
// system turn of its own in front: with medium effort there is none.
static const char first_kwargs[] = "{\"add_generation_prompt\": false}";
static const char later_kwargs[] =
    "{\"add_generation_prompt\": false, \"reasoning_effort\": \"medium\"}";

struct lines {
    struct fg_source *s;
    struct fg_lines *l;
    struct fg_arena *arena; // of the line at hand
    struct fg_error *err;
};

static int out_of_memory(const struct lines *x, size_t n)
{
    return fg_fail_memory(x->err, WHAT, n);
}

// ---- tool results

// Bytes of the first `max` characters of s[0, n), valid UTF-8; *left gets what remains of max.
static size_t cut_at(const char *s, size_t n, size_t max, size_t *left)
{
    size_t at = 0;
    for (; at < n && max > 0; max--) {
        at++;
        while (at < n && ((unsigned char)s[at] & 0xC0) == 0x80)
            at++;
    }
    *left = max;
    return at;
}

// Shortens the content of a tool's message: a string, or parts with text. `m` is a copy whose
// members and parts may be written.
static bool cut_content(struct lines *x, struct fg_jval *content)
{
    size_t left = FG_CORPUS_TOOL_CHARS;
    if (content->kind == FG_JSTRING) content->n = cut_at(content->text, content->n, left, &left);
    if (content->kind != FG_JARRAY) return true;
    struct fg_jval *parts = fg_arena_alloc(x->arena, content->n, sizeof *parts);
    if (!parts) return false;
    for (size_t i = 0; i < content->n; i++) {
        parts[i] = content->items[i];
        if (parts[i].kind != FG_JOBJECT) continue;
        struct fg_jmember *members = fg_arena_alloc(x->arena, parts[i].n, sizeof *members);
        if (!members) return false;
        for (size_t k = 0; k < parts[i].n; k++) {
            members[k] = parts[i].members[k];
            bool text = members[k].key_n == 4 && memcmp(members[k].key, "text", 4) == 0;
            if (text && members[k].value.kind == FG_JSTRING)
                members[k].value.n = cut_at(members[k].value.text, members[k].value.n, left, &left);
        }
        parts[i].members = members;
    }
    content->items = parts;
    return true;
}

static bool cut_tool_results(struct lines *x, struct fg_jval *messages)
{
    struct fg_jval *items = fg_arena_alloc(x->arena, messages->n, sizeof *items);
    if (!items) return false;
    for (size_t i = 0; i < messages->n; i++) {
        items[i] = messages->items[i];
        if (!fg_jval_is(fg_jval_get(&items[i], "role"), "tool")) continue;
        struct fg_jmember *members = fg_arena_alloc(x->arena, items[i].n, sizeof *members);
        if (!members) return false;
        for (size_t k = 0; k < items[i].n; k++) {
            members[k] = items[i].members[k];
            bool content = members[k].key_n == 7 && memcmp(members[k].key, "content", 7) == 0;
            if (content && !cut_content(x, &members[k].value)) return false;
        }
        items[i].members = members;
    }
    messages->items = items;
    return true;
}

// ---- conversations

static bool has_thinking(const struct fg_jval *message)
{
    const struct fg_jval *own = fg_jval_get(message, "reasoning_content");
    const struct fg_jval *content = fg_jval_get(message, "content");
    if (own && own->kind == FG_JSTRING && own->n > 0) return true;
    return content && content->kind == FG_JSTRING &&
           memmem(content->text, content->n, "</think>", 8) != NULL;
}

static bool is_user(const struct fg_jval *message)
{
    return fg_jval_is(fg_jval_get(message, "role"), "user");
}

// Whether a template would drop thinking: some reply before the last user turn has it.
static bool needs_turns(const struct fg_jval *messages)
{
    bool thinking = false;
    for (size_t i = 0; i < messages->n; i++) {
        if (is_user(&messages->items[i]) && thinking) return true;
        thinking = thinking || has_thinking(&messages->items[i]);
    }
    return false;
}

// Renders messages [from, to) and appends their tokens to *ids.
static int encode(struct lines *x, const struct fg_jval *line, const struct fg_jval *messages,
                  size_t from, size_t to, struct fg_ids *ids)
{
    const struct fg_jval *tools = from == 0 ? fg_jval_get(line, "tools") : NULL;
    const struct fg_jval *kwargs = fg_jval_get(line, "chat_template_kwargs");
    struct fg_jval part = fg_jval_array(messages->items + from, to - from);
    struct fg_jmember members[3];
    size_t n = 0, n_ids = 0;
    int32_t *new_ids = NULL;
    members[n++] = fg_jmember_of("messages", part);
    if (tools) members[n++] = fg_jmember_of("tools", *tools);
    if (kwargs) members[n++] = fg_jmember_of("chat_template_kwargs", *kwargs);
    struct fg_jval object = fg_jval_object(members, n);
    struct fg_buf json = {0};
    fg_chat_json(&json, &object);
    int rc = json.failed ? out_of_memory(x, json.len)
                         : forge_encode_chat(x->s->job->engine, json.data, json.len,
                                             from == 0 ? first_kwargs : later_kwargs, &new_ids,
                                             &n_ids, x->err);
    fg_buf_free(&json);
    if (rc == FG_EINPUT && x->err) { // the conversation came from here
        char field[160];
        snprintf(field, sizeof field, "line %zu, %.100s", x->l->number, x->err->field);
        fg_escape(x->err->field, sizeof x->err->field, field, strlen(field));
        fg_escape(x->err->file, sizeof x->err->file, x->l->path, strlen(x->l->path));
    }
    if (!rc && !fg_ids_add(ids, new_ids, n_ids)) rc = out_of_memory(x, n_ids);
    free(new_ids);
    return rc;
}

static int read_chat(struct lines *x, const struct fg_jval *line, struct fg_ids *ids)
{
    const struct fg_jval *given = fg_jval_get(line, "messages");
    if (given->kind != FG_JARRAY || given->n == 0)
        return fg_lines_fail(x->l, x->err, "messages", "an array of messages", "%s",
                             given->kind == FG_JARRAY ? "an empty one" : fg_jval_kind(given));
    struct fg_jval messages = *given;
    if (!cut_tool_results(x, &messages)) return out_of_memory(x, messages.n);
    size_t from = 0;
    bool turns = needs_turns(&messages), user_seen = false;
    int rc = 0;
    for (size_t i = 0; i < messages.n && !rc; i++) {
        bool user = is_user(&messages.items[i]);
        if (turns && user && user_seen) {
            rc = encode(x, line, &messages, from, i, ids);
            from = i;
        }
        user_seen = user_seen || user;
    }
    return rc ? rc : encode(x, line, &messages, from, messages.n, ids);
}

static int read_document(struct lines *x, const struct fg_jval *line, struct fg_ids *ids)
{
    const struct fg_jval *text = fg_jval_get(line, "text");
    size_t n = 0;
    int32_t *new_ids = NULL;
    if (text->kind != FG_JSTRING)
        return fg_lines_fail(x->l, x->err, "text", "a string", "%s", fg_jval_kind(text));
    int rc = forge_tokenize(x->s->job->engine, text->text, text->n, false, &new_ids, &n, x->err);
    if (!rc && !fg_ids_add(ids, new_ids, n)) rc = out_of_memory(x, n);
    free(new_ids);
    return rc;
}

// ---- lines

static int read_line(struct lines *x, const struct fg_jval *line, struct fg_source_unit **unit)
{
    struct fg_source *s = x->s;
    bool chat = fg_jval_get(line, "messages") != NULL, text = fg_jval_get(line, "text") != NULL;
    struct fg_ids ids = {0};
    if (s->facts.documents == 0) {
        s->facts.kind = chat ? FG_CORPUS_CHATS : FG_CORPUS_DOCUMENTS;
        s->turns = chat;
    }
    if (chat == text)
        return fg_lines_fail(x->l, x->err, "value", "\"messages\" or \"text\"",
                             chat ? "both" : "neither");
    if (chat != s->turns)
        return fg_lines_fail(x->l, x->err, "value", "what the lines before it have", "%s",
                             chat ? "\"messages\"" : "\"text\"");
    int rc = chat ? read_chat(x, line, &ids) : read_document(x, line, &ids);
    if (!rc && (!*unit || (chat && (int64_t)(*unit)->ids.n >= s->job->seq)))
        *unit = fg_source_unit_new(s);
    if (!rc && (!*unit || !fg_source_append(s, *unit, ids.data, ids.n)))
        rc = out_of_memory(x, ids.n);
    fg_ids_free(&ids);
    return rc;
}

int fg_source_read_lines(struct fg_source *s, struct fg_error *err)
{
    struct fg_lines l;
    struct fg_source_unit *unit = NULL;
    const char *text;
    size_t n;
    int rc = fg_lines_open(&l, WHAT, s->path, err);
    while (!rc && !fg_source_enough(s) && fg_lines_next(&l, &text, &n)) {
        struct fg_jdoc doc;
        if (s->job->stop && s->job->stop(s->job->ctx)) {
            rc = fg_fail(err, FG_EINTERRUPTED, WHAT, s->path, NULL, NULL, "stopped");
            break;
        }
        rc = fg_lines_parse(&l, text, n, &doc, err);
        if (rc) break;
        struct lines x = {.s = s, .l = &l, .arena = &doc.arena, .err = err};
        rc = read_line(&x, &doc.root, &unit);
        fg_jdoc_free(&doc);
    }
    fg_lines_close(&l);
    return rc;
}
