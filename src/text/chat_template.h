// text/chat_template.h: conversations as the prompt text that a model was trained on
// (specs/model.md, 13). A checkpoint's template is a program in Jinja; we recognize the official
// ones and implement what they do. Tokenizing the text is tokenizer.h's job, parsing a model's tool
// calls the server's.
#ifndef FG_TEXT_CHAT_TEMPLATE_H
#define FG_TEXT_CHAT_TEMPLATE_H
#include "base/buf.h"
#include "base/error.h"
#include "base/jval.h"
#include <stdbool.h>
#include <stddef.h>

enum fg_chat_variant {
    FG_CHAT_QWEN38,
    FG_CHAT_QWEN36,
    FG_CHAT_QWEN35,
    FG_CHAT_QWEN35_NOTHINK, // 3.5's with thinking off unless asked for
    FG_CHAT_SMOLLM2,        // ChatML with SmolLM2's default system text
    FG_CHAT_VARIANTS
};

// "qwen3.8", "qwen3.6", "qwen3.5", "qwen3.5-nothink", "smollm2".
const char *fg_chat_variant_name(enum fg_chat_variant variant);
// The other way round. FG_EINPUT, listing the names, when there is none.
int fg_chat_variant_by_name(enum fg_chat_variant *out, const char *name, struct fg_error *err);

// Which variant the template source of n bytes is: by SHA-256 (as it is, then without trailing
// white space), then by marks in it. *official is false when marks alone decided, that is when the
// text differs from the published one; the caller warns once. FG_EINPUT, listing the supported
// names, when nothing matches.
int fg_chat_variant_detect(enum fg_chat_variant *out, bool *official, const char *source, size_t n,
                           struct fg_error *err);

// The same for a checkpoint directory: its chat_template.jinja, else "chat_template" in its
// tokenizer_config.json (a string, or a list of {name, template} whose "default" counts).
// FG_EINPUT when the directory has neither or the template is not a supported one.
int fg_chat_template_load(enum fg_chat_variant *out, bool *official, const char *dir,
                          struct fg_error *err);

// What is rendered. Pointers may be NULL: absent.
//   messages  array of {role, content, reasoning_content, tool_calls}
//   tools     array of tool objects, printed as they are; null, empty and an object mean none
//   kwargs    object: add_generation_prompt, enable_thinking, preserve_thinking,
//             reasoning_effort, add_vision_id; others are ignored. A key with null is not the same
//             as no key.
// JSON text comes in through fg_jdoc_parse, conversations in C through chat_log.h.
struct fg_chat_input {
    const struct fg_jval *messages, *tools, *kwargs;
};

// A stretch of the rendered text: written by the template, or given by the conversation (message
// and reasoning text, tool schemas, names and arguments). Special tokens are marks only in the
// former; a tokenizer that recognizes none inside `given` stretches lets no message end its own
// turn.
struct fg_chat_segment {
    size_t at, n; // bytes
    bool given;
};

// In order, without gaps, covering the whole text; neighbours differ in `given`; none is empty.
struct fg_chat_segments {
    struct fg_chat_segment *items;
    size_t n, cap;
};
void fg_chat_segments_free(struct fg_chat_segments *segments); // and resets it to empty

// Renders into *out (what it held is replaced) and, unless NULL, *segments. On failure both are
// empty. Errors: FG_ERESOURCE; FG_EINPUT with err->field naming the message
// ("messages[2].content"). Where the official template raises an error itself, err->found is its
// message exactly (control characters escaped, cut at 255 bytes) and err->expected is empty, in the
// official order of checks.
int fg_chat_render(struct fg_buf *out, struct fg_chat_segments *segments,
                   enum fg_chat_variant variant, const struct fg_chat_input *input,
                   struct fg_error *err);
#endif
