// cli/chat.h: the state of `forge chat`, shared by its loop (chat.c) and its slash commands
// (chat_commands.c).
#ifndef FG_CLI_CHAT_H
#define FG_CLI_CHAT_H
#include "cli/cli.h"
#include "cli/lineedit.h"
#include "cli/reply.h"
#include "forge/forge.h"
#include "text/chat_log.h"

struct fg_chat {
    struct fg_cli *cli;
    struct forge_engine *engine;
    struct forge_session *session;
    struct fg_chat_log *log; // the conversation
    struct fg_lineedit *line;
    int32_t open_id, close_id; // of <think> and </think>
    uint64_t seed;
    struct fg_reply last; // the newest reply; zeroed before the first
    bool quit;
    int exit_code;        // of a signal or a closed pipe that ended the program
    bool reasoning_shown; // and not yet followed by content
    char last_byte;       // of what was printed
};

// Takes a user's message and answers it. Errors leave the conversation as it was. A reply that is
// stopped stays, as far as it came.
int fg_chat_turn(struct fg_chat *c, const char *text, size_t n, struct fg_error *err);
// Answers the conversation as it stands; its last message is a user's.
int fg_chat_answer(struct fg_chat *c, struct fg_error *err);
// Runs a line that starts with "/". Errors concern the command alone; the chat goes on.
int fg_chat_command(struct fg_chat *c, const char *line, struct fg_error *err);

// Messages up to, but without, the last one of the user; the count of all when there is none.
size_t fg_chat_before_last_user(const struct fg_chat *c);
int fg_chat_save(struct fg_chat *c, const char *path, struct fg_error *err);
int fg_chat_load(struct fg_chat *c, const char *path, struct fg_error *err);
#endif
