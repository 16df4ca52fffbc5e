// cli/eval.c: `forge eval`: measurements of a model (specs: cli 14).
#include "cli/eval.h"

static const struct fg_command *const subcommands[] = {&fg_cmd_eval_kl, &fg_cmd_eval_logits,
                                                       &fg_cmd_eval_ppl, &fg_cmd_eval_niah, NULL};

const struct fg_command fg_cmd_eval = {
    .name = "eval",
    .group = "Measure",
    .summary = "measure what a model computes",
    .args = "",
    .subs = subcommands,
};
