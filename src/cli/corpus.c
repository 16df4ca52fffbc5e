// cli/corpus.c: `forge corpus`: what quantization, training and evaluation read (specs:
// quantization 6.1-6.3, 7.1).
#include "cli/corpus.h"

static const struct fg_command *const subcommands[] = {&fg_cmd_corpus_rows,
                                                       &fg_cmd_corpus_prompts,
                                                       &fg_cmd_corpus_generate,
                                                       &fg_cmd_corpus_pack,
                                                       &fg_cmd_corpus_check,
                                                       &fg_cmd_corpus_evalset,
                                                       NULL};

const struct fg_command fg_cmd_corpus = {
    .name = "corpus",
    .group = "Make",
    .summary = "make the texts that models are calibrated, trained and measured on",
    .args = "",
    .subs = subcommands,
};
