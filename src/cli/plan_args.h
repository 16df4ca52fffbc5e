// cli/plan_args.h: the options by which commands name a quantization plan, and what they turn into.
#ifndef FG_CLI_PLAN_ARGS_H
#define FG_CLI_PLAN_ARGS_H
#include "base/arena.h"
#include "cli/cli.h"
#include "model/config.h"
#include "quant/plan.h"
#include "quant/sens.h"

extern const struct fg_command fg_cmd_plan_measure, fg_cmd_plan_solve, fg_cmd_plan_verify;

extern const struct fg_opt fg_opts_plan[];      // --plan
extern const struct fg_opt fg_opts_plan_from[]; // --from
// --basis, --mix-rot, --lr-rank, --lr-parts, --embed
extern const struct fg_opt fg_opts_plan_changes[];

// The plan of --plan, of --from, with the changes that the line asks for. Errors as fg_plan_open.
int fg_cli_plan(const struct fg_cli *cli, struct fg_plan **out, struct fg_error *err);
int fg_cli_plan_from(const struct fg_cli *cli, struct fg_plan **out, struct fg_error *err);
// A warning for each input width that is too odd to be rotated.
void fg_cli_plan_warn(const struct fg_cli *cli, const struct fg_plan_list *list);

// The config of a checkpoint directory, a config.json, or a GGUF file; what it leads to is in
// `arena`. Errors: FG_EINPUT, FG_ERESOURCE.
int fg_cli_plan_config(struct fg_config *config, const char *path, struct fg_arena *arena,
                       struct fg_error *err);

// "v2x16,lut4" of option `field` into out, in the order given, each once. F32 is no plan's format.
// FG_EINPUT.
int fg_cli_plan_formats(const char *text, const char *field, enum fg_qformat out[FG_Q_N_FORMATS],
                        int *n, struct fg_error *err);

// Tables of sensitivity, merged in order and checked against the model. With `notes`, which may be
// NULL, each file is noted as an input. Errors as fg_sens_open, fg_sens_merge, fg_sens_check.
int fg_cli_plan_sens(struct fg_sens *out, const char *const *paths, int n,
                     const struct fg_plan_shape *shape, struct fg_plan_notes *notes,
                     struct fg_error *err);
#endif
