// text/chat_render.c: what the official templates do, in their order (specs/model.md, 13.3-13.5).
// Differences between the variants are data in chat_rules.c; the steps below carry the numbers of
// 13.4.
#include "text/chat_python.h"
#include "text/chat_rules.h"
#include "text/chat_write.h"
#include <stdio.h>
#include <string.h>

#define B "<|im_start|>"
#define E "<|im_end|>"

// A stretch of bytes: [from, to) of a buffer.
struct range {
    size_t from, to;
};

struct render {
    const struct fg_chat_rules *rules;
    const struct fg_jval *messages; // an array, or NULL for none
    const struct fg_jval *tools;    // a non-empty array, or NULL
    const struct fg_jval *kwargs;
    struct fg_chat_writer out;
    struct fg_chat_writer content; // text of the message at hand, before trimming
    struct range text;             // and where it is after trimming
    bool vision_ids;
    size_t n_images, n_videos;
    struct fg_error *err;
};

static size_t n_messages(const struct render *r)
{
    return r->messages ? r->messages->n : 0;
}

static const struct fg_jval *kwarg(const struct render *r, const char *key)
{
    return fg_jval_get(r->kwargs, key);
}

static bool is_true(const struct fg_jval *v)
{
    return v && v->kind == FG_JBOOL && v->truth;
}

static bool is_false(const struct fg_jval *v)
{
    return v && v->kind == FG_JBOOL && !v->truth;
}

static bool has_role(const struct fg_jval *message, const char *role)
{
    return fg_jval_is(fg_jval_get(message, "role"), role);
}

// An error that the official template raises: its message, alone.
static int raise_error(const struct render *r, const char *field, const char *message)
{
    return fg_fail(r->err, FG_EINPUT, "chat template", NULL, field, NULL, "%s", message);
}

static int raise_at(const struct render *r, size_t message, const char *key, const char *text)
{
    char field[64];
    snprintf(field, sizeof field, "messages[%zu].%s", message, key);
    return raise_error(r, field, text);
}

static const char *kind_name(const struct fg_jval *v)
{
    static const char *const names[] = {"null",     "a boolean", "a number",
                                        "a string", "an array",  "an object"};
    return v ? names[v->kind] : "nothing";
}

// An input that the official template stumbles over in ways of its own, or that we refuse.
static int wrong_kind(const struct render *r, const char *field, const char *expected,
                      const struct fg_jval *found)
{
    return fg_fail(r->err, FG_EINPUT, "chat template", NULL, field, expected, "%s",
                   kind_name(found));
}

// ---- text of a message (13.3) ----

static void put_vision(struct render *r, const char *label, size_t *count, const char *marks)
{
    ++*count;
    if (r->vision_ids) {
        fg_buf_printf(r->content.bytes, "%s %zu: ", label, *count);
        fg_chat_cover(&r->content, false);
    }
    fg_chat_mark(&r->content, marks);
}

static int put_part(struct render *r, size_t message, size_t index, const struct fg_jval *part,
                    bool leading_system)
{
    char key[48], field[96];
    snprintf(key, sizeof key, "content[%zu]", index);
    const struct fg_jval *type = fg_jval_get(part, "type"), *text;
    if (part->kind != FG_JOBJECT) {
        snprintf(field, sizeof field, "messages[%zu].%s", message, key);
        return wrong_kind(r, field, "an object", part);
    }
    if (fg_jval_get(part, "image") || fg_jval_get(part, "image_url") || fg_jval_is(type, "image")) {
        if (leading_system)
            return raise_at(r, message, key, "System message cannot contain images.");
        put_vision(r, "Picture", &r->n_images, "<|vision_start|><|image_pad|><|vision_end|>");
    } else if (fg_jval_get(part, "video") || fg_jval_is(type, "video")) {
        if (leading_system)
            return raise_at(r, message, key, "System message cannot contain videos.");
        put_vision(r, "Video", &r->n_videos, "<|vision_start|><|video_pad|><|vision_end|>");
    } else if ((text = fg_jval_get(part, "text"))) {
        if (text->kind != FG_JSTRING) {
            snprintf(field, sizeof field, "messages[%zu].%s.text", message, key);
            return wrong_kind(r, field, "a string", text);
        }
        fg_chat_given(&r->content, text->text, text->n);
    } else {
        return raise_at(r, message, key, "Unexpected item type in content.");
    }
    return 0;
}

// Puts text(content) of a message in r->content and its trimmed range in r->text.
static int read_content(struct render *r, size_t message, bool leading_system)
{
    const struct fg_jval *content = fg_jval_get(&r->messages->items[message], "content");
    fg_buf_clear(r->content.bytes);
    r->content.segments->n = 0;
    r->text = (struct range){0, 0};
    if (!content || content->kind == FG_JNULL) return 0;
    if (content->kind == FG_JSTRING) {
        fg_chat_given(&r->content, content->text, content->n);
    } else if (content->kind == FG_JARRAY) {
        for (size_t i = 0; i < content->n; i++) {
            int rc = put_part(r, message, i, &content->items[i], leading_system);
            if (rc) return rc;
        }
    } else {
        return raise_at(r, message, "content", "Unexpected content type.");
    }
    const struct fg_buf *b = r->content.bytes;
    if (b->failed) return fg_fail_memory(r->err, "chat template", b->len);
    if (b->len) fg_chat_strip(b->data, b->len, &r->text.from, &r->text.to);
    return 0;
}

static void put_text(struct render *r)
{
    fg_chat_copy(&r->out, &r->content, r->text.from, r->text.to);
}

// ---- step 2: the instruction ----

static int find_instruction(const struct render *r, const char **instruction)
{
    static const char HEAD[] = "Unexpected reasoning effort ",
                      TAIL[] = ". Supported types are xhigh (default), medium, and low.";
    const struct fg_jval *thinking = kwarg(r, "enable_thinking"),
                         *effort = kwarg(r, "reasoning_effort");
    *instruction = "";
    if (!r->rules->reasoning_effort || (thinking && !is_true(thinking))) return 0;
    if (!effort || fg_jval_is(effort, "xhigh")) {
        *instruction = fg_chat_effort_xhigh;
    } else if (fg_jval_is(effort, "low")) {
        *instruction = fg_chat_effort_low;
    } else if (!fg_jval_is(effort, "medium")) {
        struct fg_buf message = {0};
        fg_buf_str(&message, HEAD);
        fg_chat_str(&message, effort);
        fg_buf_str(&message, TAIL);
        int rc = message.failed ? fg_fail_memory(r->err, "chat template", effort->n)
                                : raise_error(r, "reasoning_effort", message.data);
        fg_buf_free(&message);
        return rc;
    }
    return 0;
}

// ---- step 3: the system turn ----

static int put_system(struct render *r, const char *instruction)
{
    struct fg_chat_writer *w = &r->out;
    bool system = has_role(&r->messages->items[0], "system");
    r->text = (struct range){0, 0};
    if (system) {
        int rc = read_content(r, 0, true);
        if (rc) return rc;
    }
    bool text = r->text.from < r->text.to;
    if (r->tools) {
        fg_chat_mark(w, B "system\n");
        fg_chat_mark(w, instruction);
        if (*instruction) fg_chat_mark(w, "\n\n");
        fg_chat_mark(w, fg_chat_tools_head);
        for (size_t i = 0; i < r->tools->n; i++) {
            fg_chat_mark(w, "\n");
            fg_chat_json(w->bytes, &r->tools->items[i]);
            fg_chat_cover(w, true);
        }
        fg_chat_mark(w, fg_chat_tools_tail);
        if (text) fg_chat_mark(w, "\n\n");
        put_text(r);
        fg_chat_mark(w, E "\n");
    } else if (text || *instruction || (system && r->rules->empty_system_turn)) {
        fg_chat_mark(w, B "system\n");
        fg_chat_mark(w, instruction);
        if (text && *instruction) fg_chat_mark(w, "\n\n");
        put_text(r);
        fg_chat_mark(w, E "\n");
    }
    return 0;
}

// ---- step 4: the last query ----

static bool is_tool_response(const char *s, size_t n)
{
    static const char OPEN[] = "<tool_response>", CLOSE[] = "</tool_response>";
    size_t n_open = sizeof OPEN - 1, n_close = sizeof CLOSE - 1;
    return n >= n_open && memcmp(s, OPEN, n_open) == 0 && n >= n_close &&
           memcmp(s + n - n_close, CLOSE, n_close) == 0;
}

static int find_query(struct render *r, size_t *query)
{
    for (size_t i = n_messages(r); i-- > 0;) {
        if (!has_role(&r->messages->items[i], "user")) continue;
        int rc = read_content(r, i, false);
        if (rc) return rc;
        const char *data = r->content.bytes->data;
        size_t n = r->text.to - r->text.from;
        if (n == 0 || !is_tool_response(data + r->text.from, n)) {
            *query = i;
            return 0;
        }
    }
    return raise_error(r, "messages", "No user query found in messages.");
}

// ---- step 5: assistant messages ----

static const char *find_last(const char *s, size_t n, const char *mark)
{
    size_t n_mark = strlen(mark);
    for (const char *at = n < n_mark ? s : s + n - n_mark + 1; at > s;) {
        if (memcmp(--at, mark, n_mark) == 0) return at;
    }
    return NULL;
}

// Takes the thinking out of the content of a reply (13.5, "split the content"): what stands before
// the first close, after the last open there, becomes *thinking, untrimmed, and r->text becomes
// what follows the last close. That text is not trimmed at its start again.
static void split_thinking(struct render *r, struct range *thinking)
{
    static const char OPEN[] = "<think>", CLOSE[] = "</think>";
    size_t n = r->text.to - r->text.from;
    *thinking = (struct range){0, 0};
    if (n == 0) return;
    const char *data = r->content.bytes->data, *s = data + r->text.from;
    const char *close = memmem(s, n, CLOSE, sizeof CLOSE - 1);
    if (!close) return;
    const char *open = find_last(s, (size_t)(close - s), OPEN);
    const char *from = open ? open + sizeof OPEN - 1 : s;
    *thinking = (struct range){(size_t)(from - data), (size_t)(close - data)};

    close = find_last(s, n, CLOSE);
    r->text.from = (size_t)(close - data) + sizeof CLOSE - 1;
    while (r->text.from < r->text.to && data[r->text.from] == '\n')
        r->text.from++;
}

static void put_think_open(struct render *r)
{
    fg_chat_mark(&r->out, B "assistant\n<think>\n");
}

// B assistant, think block, text. The thinking is the message's own, else split from its content.
static void put_reply(struct render *r, size_t index, size_t query)
{
    const struct fg_jval *reasoning = fg_jval_get(&r->messages->items[index], "reasoning_content"),
                         *preserve = kwarg(r, "preserve_thinking");
    bool own = reasoning && reasoning->kind == FG_JSTRING;
    struct range thinking = {0, 0};
    if (!own && r->rules->split_thinking) split_thinking(r, &thinking);

    bool shown = index > query;
    if (r->rules->past_thinking == FG_CHAT_PAST_KEPT) shown |= !preserve || is_true(preserve);
    if (r->rules->past_thinking == FG_CHAT_PAST_DROPPED) shown |= is_true(preserve);
    if (!shown) {
        fg_chat_mark(&r->out, B "assistant\n");
        put_text(r);
        return;
    }
    put_think_open(r);
    size_t from, to;
    if (own) {
        fg_chat_strip(reasoning->text, reasoning->n, &from, &to);
        fg_chat_given(&r->out, reasoning->text + from, to - from);
    } else if (thinking.from < thinking.to) {
        fg_chat_strip(r->content.bytes->data + thinking.from, thinking.to - thinking.from, &from,
                      &to);
        fg_chat_copy(&r->out, &r->content, thinking.from + from, thinking.from + to);
    }
    fg_chat_mark(&r->out, "\n</think>\n\n");
    put_text(r);
}

static void put_argument(struct render *r, const struct fg_jmember *argument)
{
    struct fg_chat_writer *w = &r->out;
    const struct fg_jval *v = &argument->value;
    fg_chat_mark(w, "<parameter=");
    fg_chat_given(w, argument->key, argument->key_n);
    fg_chat_mark(w, ">\n");
    if (v->kind == FG_JSTRING || r->rules->python_values)
        fg_chat_str(w->bytes, v);
    else
        fg_chat_json(w->bytes, v);
    fg_chat_cover(w, true);
    fg_chat_mark(w, "\n</parameter>\n");
}

static int put_tool_call(struct render *r, size_t message, size_t index, const struct fg_jval *call)
{
    struct fg_chat_writer *w = &r->out;
    char field[96];
    const struct fg_jval *function = fg_jval_get(call, "function");
    if (function) call = function;
    const struct fg_jval *name = fg_jval_get(call, "name"),
                         *arguments = fg_jval_get(call, "arguments");
    if (!name || name->kind != FG_JSTRING) {
        snprintf(field, sizeof field, "messages[%zu].tool_calls[%zu].name", message, index);
        return wrong_kind(r, field, "a string", name);
    }
    bool none = !arguments || (r->rules->empty_arguments && fg_jval_is(arguments, ""));
    if (!none && arguments->kind != FG_JOBJECT) {
        snprintf(field, sizeof field, "messages[%zu].tool_calls[%zu].arguments", message, index);
        return wrong_kind(r, field, "an object", arguments);
    }
    fg_chat_mark(w, "<tool_call>\n<function=");
    fg_chat_given(w, name->text, name->n);
    fg_chat_mark(w, ">\n");
    for (size_t i = 0; !none && i < arguments->n; i++)
        put_argument(r, &arguments->members[i]);
    fg_chat_mark(w, "</function>\n</tool_call>");
    return 0;
}

static int put_tool_calls(struct render *r, size_t message)
{
    const struct fg_jval *calls = fg_jval_get(&r->messages->items[message], "tool_calls");
    char field[64];
    if (!calls) return 0;
    if (calls->kind == FG_JSTRING && calls->n > 0) { // the template would go through its letters
        snprintf(field, sizeof field, "messages[%zu].tool_calls", message);
        return wrong_kind(r, field, "an array", calls);
    }
    if (calls->kind != FG_JARRAY) return 0;
    for (size_t i = 0; i < calls->n; i++) {
        if (i > 0)
            fg_chat_mark(&r->out, "\n");
        else if (r->text.from < r->text.to)
            fg_chat_mark(&r->out, "\n\n");
        int rc = put_tool_call(r, message, i, &calls->items[i]);
        if (rc) return rc;
    }
    return 0;
}

// ---- step 5: every message ----

static int put_message(struct render *r, size_t i, size_t query)
{
    struct fg_chat_writer *w = &r->out;
    const struct fg_jval *items = r->messages->items, *m = &items[i];
    int rc = read_content(r, i, false);
    if (rc) return rc;
    if (has_role(m, "system")) {
        if (i > 0) return raise_at(r, i, "role", "System message must be at the beginning.");
        return 0; // step 3 wrote it
    }
    if (has_role(m, "user")) {
        fg_chat_mark(w, B "user\n");
        put_text(r);
        fg_chat_mark(w, E "\n");
    } else if (has_role(m, "assistant")) {
        put_reply(r, i, query);
        if ((rc = put_tool_calls(r, i))) return rc;
        fg_chat_mark(w, E "\n");
    } else if (has_role(m, "tool")) { // a run of them is one user turn
        if (i > 0 && !has_role(&items[i - 1], "tool")) fg_chat_mark(w, B "user");
        fg_chat_mark(w, "\n<tool_response>\n");
        put_text(r);
        fg_chat_mark(w, "\n</tool_response>");
        if (i + 1 == n_messages(r) || !has_role(&items[i + 1], "tool")) fg_chat_mark(w, E "\n");
    } else {
        return raise_at(r, i, "role", "Unexpected message role.");
    }
    return 0;
}

// ---- step 6: the start of the reply ----

static void put_generation_prompt(struct render *r)
{
    const struct fg_jval *thinking = kwarg(r, "enable_thinking");
    bool think = r->rules->thinks_by_default ? !is_false(thinking) : is_true(thinking);
    put_think_open(r);
    if (!think) fg_chat_mark(&r->out, "\n</think>\n\n");
}

static int render_qwen(struct render *r)
{
    const char *instruction;
    size_t query = 0;
    int rc;
    if (n_messages(r) == 0) return raise_error(r, "messages", "No messages provided.");
    if ((rc = find_instruction(r, &instruction)) || (rc = put_system(r, instruction)) ||
        (rc = find_query(r, &query)))
        return rc;
    r->n_images = r->n_videos = 0; // the looks ahead do not count
    for (size_t i = 0; i < n_messages(r); i++) {
        if ((rc = put_message(r, i, query))) return rc;
    }
    if (fg_chat_truth(kwarg(r, "add_generation_prompt"))) put_generation_prompt(r);
    return 0;
}

static int render_chatml(struct render *r)
{
    struct fg_chat_writer *w = &r->out;
    char field[64];
    if (n_messages(r) > 0 && !has_role(&r->messages->items[0], "system")) {
        fg_chat_mark(w, B "system\n");
        fg_chat_mark(w, fg_chat_smollm2_system);
        fg_chat_mark(w, E "\n");
    }
    for (size_t i = 0; i < n_messages(r); i++) {
        static const char *const keys[] = {"role", "content"};
        const struct fg_jval *values[2];
        for (int k = 0; k < 2; k++) {
            values[k] = fg_jval_get(&r->messages->items[i], keys[k]);
            if (values[k] && values[k]->kind == FG_JSTRING) continue;
            snprintf(field, sizeof field, "messages[%zu].%s", i, keys[k]);
            return wrong_kind(r, field, "a string", values[k]);
        }
        fg_chat_mark(w, B);
        fg_chat_given(w, values[0]->text, values[0]->n);
        fg_chat_mark(w, "\n");
        fg_chat_given(w, values[1]->text, values[1]->n);
        fg_chat_mark(w, E "\n");
    }
    if (fg_chat_truth(kwarg(r, "add_generation_prompt"))) fg_chat_mark(w, B "assistant\n");
    return 0;
}

// NULL for absent and null; another kind than `kind` is an error.
static int take(const struct render *r, const struct fg_jval **out, const struct fg_jval *v,
                enum fg_jkind kind, const char *field, const char *expected)
{
    *out = v && v->kind == kind ? v : NULL;
    if (*out || !v || v->kind == FG_JNULL) return 0;
    return wrong_kind(r, field, expected, v);
}

int fg_chat_render(struct fg_buf *out, struct fg_chat_segments *segments,
                   enum fg_chat_variant variant, const struct fg_chat_input *input,
                   struct fg_error *err)
{
    struct fg_buf content = {0};
    struct fg_chat_segments content_segments = {0};
    struct render r = {.rules = &fg_chat_rules[variant],
                       .out = {out, segments},
                       .content = {&content, &content_segments},
                       .err = err};
    fg_buf_clear(out);
    if (segments) segments->n = 0;
    int rc;
    if ((rc = take(&r, &r.messages, input->messages, FG_JARRAY, "messages", "an array")) ||
        (rc = take(&r, &r.kwargs, input->kwargs, FG_JOBJECT, "kwargs", "an object")))
        goto done;
    // The templates ignore what is no list; only a string's letters would pass as tools.
    if (input->tools && input->tools->kind == FG_JSTRING && input->tools->n > 0) {
        rc = wrong_kind(&r, "tools", "an array", input->tools);
        goto done;
    }
    if (input->tools && input->tools->kind == FG_JARRAY && input->tools->n > 0)
        r.tools = input->tools;
    r.vision_ids = fg_chat_truth(kwarg(&r, "add_vision_id"));
    rc = r.rules->chatml ? render_chatml(&r) : render_qwen(&r);
    if (!rc && out->failed) rc = fg_fail_memory(err, "chat template", out->len);
done:
    fg_buf_free(&content);
    fg_chat_segments_free(&content_segments);
    if (rc) {
        fg_buf_clear(out);
        if (segments) segments->n = 0;
    }
    return rc;
}
