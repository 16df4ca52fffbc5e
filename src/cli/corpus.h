// cli/corpus.h: the subcommands of `forge corpus`.
#ifndef FG_CLI_CORPUS_H
#define FG_CLI_CORPUS_H
#include "cli/cli.h"

extern const struct fg_command fg_cmd_corpus_rows, fg_cmd_corpus_prompts, fg_cmd_corpus_generate,
    fg_cmd_corpus_pack, fg_cmd_corpus_check, fg_cmd_corpus_evalset;
#endif
