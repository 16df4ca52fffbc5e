// cli/plan_args.h: the options by which commands name a quantization plan, and what they turn into.
#ifndef FG_CLI_PLAN_ARGS_H
#define FG_CLI_PLAN_ARGS_H
#include "cli/cli.h"
#include "quant/plan.h"

extern const struct fg_opt fg_opts_plan[]; // --plan, --basis, --mix-rot, --lr-rank, --lr-parts

// The plan with the changes that the line asks for. Errors as fg_plan_open.
int fg_cli_plan(const struct fg_cli *cli, struct fg_plan **out, struct fg_error *err);
// A warning for each input width that is too odd to be rotated.
void fg_cli_plan_warn(const struct fg_cli *cli, const struct fg_plan_list *list);
#endif
