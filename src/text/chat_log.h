// text/chat_log.h: a conversation that grows in C, for chat loops that have no JSON at hand. It
// owns copies of its messages and shows them in the form that fg_chat_render takes.
#ifndef FG_TEXT_CHAT_LOG_H
#define FG_TEXT_CHAT_LOG_H
#include "base/buf.h"
#include "base/error.h"
#include "base/jval.h"
#include <stdbool.h>
#include <stddef.h>

struct fg_chat_log; // opaque

struct fg_chat_log *fg_chat_log_new(void); // empty; NULL when out of memory
void fg_chat_log_free(struct fg_chat_log *log);
size_t fg_chat_log_count(const struct fg_chat_log *log); // messages

// Appends a message of n bytes of UTF-8. role: "system", "user", "assistant" or "tool". reasoning
// (n_reasoning bytes) is a reply's thinking; NULL leaves the field out. Errors: FG_ERESOURCE; the
// log is then as before.
int fg_chat_log_add(struct fg_chat_log *log, const char *role, const char *text, size_t n,
                    const char *reasoning, size_t n_reasoning, struct fg_error *err);

// Sets, replaces or (n == 0) removes the system message at the start. Errors as above.
int fg_chat_log_system(struct fg_chat_log *log, const char *text, size_t n, struct fg_error *err);

// Drops the messages from index `count` on; nothing when there are no more than that.
void fg_chat_log_cut(struct fg_chat_log *log, size_t count);

// The messages, for fg_chat_input; valid until the log changes.
struct fg_jval fg_chat_log_messages(const struct fg_chat_log *log);

// Appends the messages to *out as a JSON array. Memory that runs out is remembered there.
void fg_chat_log_json(const struct fg_chat_log *log, struct fg_buf *out);

// Replaces the conversation by the one in n bytes of JSON: an array of messages, or an object with
// "messages". Messages are system (first only), user and assistant, their content and reasoning
// text. `name` is the source in errors: FG_EINPUT (field "messages[2].role"), FG_ERESOURCE; the log
// is then as before.
int fg_chat_log_parse(struct fg_chat_log *log, const char *text, size_t n, const char *name,
                      struct fg_error *err);

enum fg_chat_choice { FG_CHAT_UNSET, FG_CHAT_ON, FG_CHAT_OFF };

// The arguments of a template that a chat loop sets; what is zero stays absent.
struct fg_chat_options {
    bool add_generation_prompt;
    enum fg_chat_choice enable_thinking, preserve_thinking;
    const char *reasoning_effort; // a C string or NULL; kept, not copied
};

#define FG_CHAT_KWARGS_MAX 4
// As the kwargs of fg_chat_input: an object over `room`, valid as long as that.
struct fg_jval fg_chat_kwargs(struct fg_jmember room[FG_CHAT_KWARGS_MAX],
                              const struct fg_chat_options *options);
#endif
