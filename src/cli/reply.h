// cli/reply.h: one reply of a model, as `generate` and `chat` show it: drawn, split into reasoning
// and content, handed to the terminal while it comes, stopped by signals.
#ifndef FG_CLI_REPLY_H
#define FG_CLI_REPLY_H
#include "base/buf.h"
#include "cli/cli.h"
#include "forge/forge.h"

// Text that became final; n > 0. Returning other than 0 stops the reply.
typedef int (*fg_reply_text_fn)(void *ctx, bool reasoning, const char *text, size_t n);

struct fg_reply_options {
    struct forge_sampling sampling;
    int64_t max_tokens;
    bool ignore_stop_tokens;
    const char *const *stop;
    size_t n_stop;
    int logprobs;              // -1: none; else how many alternatives per token
    bool split;                // reasoning apart from content; else all is content, as it is
    bool in_think;             // the prompt ends in an open think block
    int32_t open_id, close_id; // of <think> and </think>; -1: none
    fg_reply_text_fn on_text;  // NULL is fine
    void *ctx;
};

// One drawn token with its log probability and those of the likeliest.
struct fg_reply_token {
    int32_t id;
    double logprob;
    int32_t *top_ids; // [logprobs]
    double *top_logprobs;
};

struct fg_reply {
    struct fg_buf reasoning, content;
    struct fg_reply_token *tokens; // without the stop token
    size_t n_tokens, cap_tokens;
    size_t reasoning_tokens; // of these
    struct forge_generate_result result;
    int signal; // that stopped it, or 0
};

// Continues the prompt ids[0, n). A signal or the caller's on_text ends it early: that is no error,
// signal and result tell. On failure *r holds what came before. Free *r in every case. Errors: as
// forge_generate; FG_ERESOURCE.
int fg_reply_run(struct fg_reply *r, const struct fg_cli *cli, struct forge_session *s,
                 const struct forge_engine *e, const int32_t *ids, size_t n,
                 const struct fg_reply_options *o, struct fg_error *err);
void fg_reply_free(struct fg_reply *r); // zeroed is fine

// Tokens per second of the reply; 0 when there is no time to divide by.
double fg_reply_rate(const struct fg_reply *r);
double fg_reply_prompt_rate(const struct fg_reply *r); // of the part of the prompt that was run

// True when the prompt text ends in an open think block, as templates with thinking on leave it.
bool fg_reply_starts_inside(const char *prompt, size_t n);
#endif
