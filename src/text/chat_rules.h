// text/chat_rules.h: what differs between the templates, as data (specs/model.md, 13.4 and 13.5),
// and the literals that they write. Internal to chat_*.c and its tests.
#ifndef FG_TEXT_CHAT_RULES_H
#define FG_TEXT_CHAT_RULES_H
#include "base/hash.h"
#include "text/chat_template.h"

// Whether replies before the last user query show their thinking.
enum fg_chat_past {
    FG_CHAT_PAST_KEPT,    // unless preserve_thinking is given and not true
    FG_CHAT_PAST_DROPPED, // unless preserve_thinking is true
    FG_CHAT_PAST_NEVER
};

struct fg_chat_rules {
    const char *name;
    bool chatml;            // plain ChatML: no field below applies
    bool reasoning_effort;  // writes an instruction by reasoning_effort
    bool empty_system_turn; // a system message without text still makes a turn
    bool split_thinking;    // without reasoning_content, thinking is looked for in the content
    bool python_values;     // scalar tool arguments print as Python's str(), not as JSON
    bool empty_arguments;   // the empty string is accepted for "no arguments"
    bool thinks_by_default; // with no enable_thinking, the reply starts in an open think block
    enum fg_chat_past past_thinking;
};

extern const struct fg_chat_rules fg_chat_rules[FG_CHAT_VARIANTS];

extern const char fg_chat_effort_xhigh[], fg_chat_effort_low[];
extern const char fg_chat_tools_head[], fg_chat_tools_tail[];
extern const char fg_chat_smollm2_system[];

// A published template by the SHA-256 of its source.
struct fg_chat_known {
    char sha256[FG_SHA256_HEX];
    enum fg_chat_variant variant;
};

// Looks the source up in `known`, as it is and without trailing white space.
bool fg_chat_variant_by_hash(enum fg_chat_variant *out, const struct fg_chat_known *known,
                             size_t n_known, const char *source, size_t n);
#endif
