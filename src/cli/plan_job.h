// cli/plan_job.h: what `forge plan measure` and `forge plan verify` share: jobs of quantization,
// and the trace with its teacher that models are compared on.
#ifndef FG_CLI_PLAN_JOB_H
#define FG_CLI_PLAN_JOB_H
#include "cli/cli.h"
#include "cli/quantize_args.h"
#include "eval/klk.h"
#include "eval/report.h"
#include "forge/forge.h"
#include "train/quantize.h"
#include <stdbool.h>

extern const struct fg_opt fg_opts_plan_eval[];   // --trace, --teacher
extern const struct fg_opt fg_opts_plan_method[]; // --method, --memory, --restart, --dry-run

// Threads, kernels and what the lists of options own.
struct fg_cli_job {
    struct fg_cli *cli;
    struct fg_quantize_options quantize; // all but plan, output, progress
    struct fg_cli_gptq own;
    struct fg_pool *pool;
    struct fg_progress *bar; // of the work at hand
};
// Fills it from the options; free in every case. Errors: FG_EINPUT, FG_ERESOURCE.
int fg_cli_job_open(struct fg_cli_job *j, struct fg_cli *cli, struct fg_error *err);
void fg_cli_job_free(struct fg_cli_job *j);

// Quantizes by `plan` into `out`, or goes on with it; a bar called `name`. source_stream: see
// train/quantize.h. With --dry-run a line says what it would do, and nothing is done. Errors: those
// of fg_quantize_open, _check and _run.
int fg_cli_job_quantize(struct fg_cli_job *j, const struct fg_plan *plan, const char *out,
                        bool source_stream, const char *name, struct fg_error *err);

// The trace, its teacher, and who is compared.
struct fg_cli_eval_set {
    struct fg_eval_set set;
    struct fg_teacher *teacher;
    struct fg_eval_identity model; // --model
    char tokenizer[FG_SHA256_HEX];
    struct fg_buf command;
};
// Opens --trace and --teacher for the model of --model, whose files are hashed. Errors: FG_EINPUT
// (one of them is not given), those of fg_teacher_open, fg_eval_set_open, fg_eval_identify. Free in
// every case.
int fg_cli_eval_set_open(struct fg_cli_eval_set *s, const struct fg_cli_job *j,
                         struct fg_error *err);
void fg_cli_eval_set_free(struct fg_cli_eval_set *s);
// The members of a comparison that these options are about, a bar called `name` included; end it
// with fg_progress_end(j->bar, ok).
struct fg_klk_job fg_cli_eval_job(struct fg_cli_job *j, struct fg_cli_eval_set *s,
                                  const char *name);
// How models are opened to be compared: threads, kernels, exact numerics.
struct forge_engine_options fg_cli_eval_engine(const struct fg_cli_job *j);
#endif
