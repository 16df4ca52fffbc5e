// cli/job_args.h: options that long jobs share, and what they turn into.
#ifndef FG_CLI_JOB_ARGS_H
#define FG_CLI_JOB_ARGS_H
#include "cli/cli.h"
#include <stdbool.h>

extern const struct fg_opt fg_opts_resume[]; // --no-resume, --restart
extern const struct fg_opt fg_opts_kl[];     // --topk, --skip-prefix, --seqs, --rows

// Does the line ask to drop what an earlier run finished? Of commands with fg_opts_resume.
bool fg_cli_restart(const struct fg_args *args);
#endif
