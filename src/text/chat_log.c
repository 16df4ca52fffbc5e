// text/chat_log.c: messages in growing arrays.
#include "text/chat_log.h"
#include "text/chat_python.h"
#include <stdio.h>
#include <stdlib.h>

// One message: the members of its object and, behind them, the bytes that they point to.
struct message {
    struct fg_jmember members[3];
    char bytes[];
};

struct fg_chat_log {
    struct fg_jval *items; // objects over the members of messages[i]
    struct message **messages;
    size_t n, cap;
};

struct fg_chat_log *fg_chat_log_new(void)
{
    return calloc(1, sizeof(struct fg_chat_log));
}

void fg_chat_log_free(struct fg_chat_log *log)
{
    if (!log) return;
    fg_chat_log_cut(log, 0);
    free(log->items);
    free(log->messages);
    free(log);
}

size_t fg_chat_log_count(const struct fg_chat_log *log)
{
    return log->n;
}

static char *copy(char **at, const char *text, size_t n)
{
    char *to = *at;
    if (n) memcpy(to, text, n);
    *at += n;
    return to;
}

static struct message *message_new(const char *role, const char *text, size_t n,
                                   const char *reasoning, size_t n_reasoning, struct fg_jval *item)
{
    size_t n_role = strlen(role), n_members = 2;
    struct message *m = malloc(sizeof *m + n_role + n + n_reasoning);
    if (!m) return NULL;
    char *at = m->bytes;
    m->members[0] = fg_jmember_of("role", fg_jval_string(copy(&at, role, n_role), n_role));
    m->members[1] = fg_jmember_of("content", fg_jval_string(copy(&at, text, n), n));
    if (reasoning)
        m->members[n_members++] = fg_jmember_of(
            "reasoning_content", fg_jval_string(copy(&at, reasoning, n_reasoning), n_reasoning));
    *item = fg_jval_object(m->members, n_members);
    return m;
}

static bool reserve(struct fg_chat_log *log)
{
    if (log->n < log->cap) return true;
    size_t cap = log->cap ? 2 * log->cap : 16;
    struct fg_jval *items = realloc(log->items, cap * sizeof *items);
    if (items) log->items = items;
    struct message **messages = realloc(log->messages, cap * sizeof *messages);
    if (messages) log->messages = messages;
    if (!items || !messages) return false; // either may be larger than cap says: harmless
    log->cap = cap;
    return true;
}

int fg_chat_log_add(struct fg_chat_log *log, const char *role, const char *text, size_t n,
                    const char *reasoning, size_t n_reasoning, struct fg_error *err)
{
    struct fg_jval item;
    struct message *m =
        reserve(log) ? message_new(role, text, n, reasoning, n_reasoning, &item) : NULL;
    if (!m) return fg_fail_memory(err, "conversation", n);
    log->items[log->n] = item;
    log->messages[log->n++] = m;
    return 0;
}

static bool starts_with_system(const struct fg_chat_log *log)
{
    return log->n > 0 && fg_jval_is(&log->messages[0]->members[0].value, "system");
}

int fg_chat_log_system(struct fg_chat_log *log, const char *text, size_t n, struct fg_error *err)
{
    bool has = starts_with_system(log);
    struct message *m = NULL;
    struct fg_jval item = {0};
    if (n > 0 && (!reserve(log) || !(m = message_new("system", text, n, NULL, 0, &item))))
        return fg_fail_memory(err, "conversation", n);
    size_t rest = log->n - has, to = m ? 1 : 0;
    if (has) free(log->messages[0]);
    if (rest) {
        memmove(log->items + to, log->items + has, rest * sizeof *log->items);
        memmove(log->messages + to, log->messages + has, rest * sizeof *log->messages);
    }
    if (m) {
        log->items[0] = item;
        log->messages[0] = m;
    }
    log->n = rest + to;
    return 0;
}

void fg_chat_log_cut(struct fg_chat_log *log, size_t count)
{
    while (log->n > count)
        free(log->messages[--log->n]);
}

struct fg_jval fg_chat_log_messages(const struct fg_chat_log *log)
{
    return fg_jval_array(log->items, log->n);
}

void fg_chat_log_json(const struct fg_chat_log *log, struct fg_buf *out)
{
    struct fg_jval messages = fg_chat_log_messages(log);
    fg_chat_json(out, &messages);
}

// A member that must be text, or with `optional` absent or null: *out is then NULL.
static int take_text(const struct fg_jval *message, size_t i, const char *key, bool optional,
                     const char *name, const struct fg_jval **out, struct fg_error *err)
{
    const struct fg_jval *v = fg_jval_get(message, key);
    *out = NULL;
    if (optional && (!v || v->kind == FG_JNULL)) return 0;
    char field[64];
    snprintf(field, sizeof field, "messages[%zu].%s", i, key);
    if (!v || v->kind != FG_JSTRING)
        return fg_fail(err, FG_EINPUT, "conversation", name, field, "a text", "%s",
                       v ? "another value" : "nothing");
    *out = v;
    return 0;
}

static int take_message(struct fg_chat_log *log, const struct fg_jval *message, size_t i,
                        const char *name, struct fg_error *err)
{
    static const char *const roles[] = {"user", "assistant", "system"};
    const struct fg_jval *role, *content, *reasoning;
    int rc = take_text(message, i, "role", false, name, &role, err);
    if (rc == 0) rc = take_text(message, i, "content", false, name, &content, err);
    if (rc == 0) rc = take_text(message, i, "reasoning_content", true, name, &reasoning, err);
    if (rc) return rc;
    for (size_t r = 0; r < (i == 0 ? 3u : 2u); r++) {
        if (fg_jval_is(role, roles[r]))
            return fg_chat_log_add(log, roles[r], content->text, content->n,
                                   reasoning ? reasoning->text : NULL, reasoning ? reasoning->n : 0,
                                   err);
    }
    char field[64], found[64];
    snprintf(field, sizeof field, "messages[%zu].role", i);
    return fg_fail(err, FG_EINPUT, "conversation", name, field,
                   i == 0 ? "user, assistant or system" : "user or assistant", "%s",
                   fg_escape(found, sizeof found, role->text, role->n));
}

int fg_chat_log_parse(struct fg_chat_log *log, const char *text, size_t n, const char *name,
                      struct fg_error *err)
{
    struct fg_jdoc doc;
    struct fg_chat_log fresh = {0};
    int rc = fg_jdoc_parse(&doc, text, n, name, err);
    if (rc) return rc;
    const struct fg_jval *messages =
        doc.root.kind == FG_JARRAY ? &doc.root : fg_jval_get(&doc.root, "messages");
    if (!messages || messages->kind != FG_JARRAY)
        rc = fg_fail(err, FG_EINPUT, "conversation", name, "messages", "an array", "%s",
                     messages ? "another value" : "nothing");
    for (size_t i = 0; rc == 0 && i < messages->n; i++)
        rc = take_message(&fresh, &messages->items[i], i, name, err);
    if (rc == 0) {
        struct fg_chat_log old = *log;
        *log = fresh;
        fresh = old;
    }
    fg_chat_log_cut(&fresh, 0);
    free(fresh.items);
    free(fresh.messages);
    fg_jdoc_free(&doc);
    return rc;
}

struct fg_jval fg_chat_kwargs(struct fg_jmember room[FG_CHAT_KWARGS_MAX],
                              const struct fg_chat_options *options)
{
    size_t n = 0;
    if (options->add_generation_prompt)
        room[n++] = fg_jmember_of("add_generation_prompt", fg_jval_bool(true));
    if (options->enable_thinking != FG_CHAT_UNSET)
        room[n++] =
            fg_jmember_of("enable_thinking", fg_jval_bool(options->enable_thinking == FG_CHAT_ON));
    if (options->preserve_thinking != FG_CHAT_UNSET)
        room[n++] = fg_jmember_of("preserve_thinking",
                                  fg_jval_bool(options->preserve_thinking == FG_CHAT_ON));
    if (options->reasoning_effort)
        room[n++] =
            fg_jmember_of("reasoning_effort", fg_jval_string(options->reasoning_effort,
                                                             strlen(options->reasoning_effort)));
    return fg_jval_object(room, n);
}
