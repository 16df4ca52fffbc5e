// cli/eval.h: what the subcommands of `forge eval` share.
#ifndef FG_CLI_EVAL_H
#define FG_CLI_EVAL_H
#include "cli/cli.h"
#include "eval/report.h"
#include "forge/forge.h"
#include <stddef.h>
#include <stdint.h>

extern const struct fg_command fg_cmd_eval_logits, fg_cmd_eval_ppl, fg_cmd_eval_niah,
    fg_cmd_eval_kl, fg_cmd_eval_kl_compare;
extern const struct fg_opt fg_opts_eval_report[]; // --report

// Token ids as --tokens gives them: a list on the line, which is digits, commas and blanks, or a
// file. Errors as fg_eval_read_ids.
int fg_cli_eval_ids(const char *given, int32_t **ids, size_t *n, struct fg_error *err);
#define FG_EVAL_LIST_MAX 32
// "512,8K" of option `field` into out [FG_EVAL_LIST_MAX], each in [min, max]. FG_EINPUT.
int fg_cli_eval_list(const char *text, const char *field, int64_t min, int64_t max, int64_t *out,
                     int *n, struct fg_error *err);
// fg_eval_identify of --model, which signals stop.
int fg_cli_eval_identify(const struct fg_cli *cli, struct fg_eval_identity *id,
                         struct fg_error *err);
// Can the file of --report be written? To be asked before hours of work. Errors as fg_atomic_open.
int fg_cli_eval_report_check(const struct fg_cli *cli, struct fg_error *err);
// A report whose last object is still to be ended: into the file of --report, and with --json to
// stdout. Frees w.
int fg_cli_eval_report(const struct fg_cli *cli, struct fg_jwrite *w, struct fg_error *err);
#endif
