// cli/quantize_args.h: the options of calibration and GPTQ that commands share, and what they turn
// into.
#ifndef FG_CLI_QUANTIZE_ARGS_H
#define FG_CLI_QUANTIZE_ARGS_H
#include "cli/cli.h"
#include "train/quantize.h"

// --calib, --text, --ncal, --seq, --batch, --holdout, --aw, --row-weight, --damp, --order,
// --refine,
// --lr-iters, --lr-fit, --lr-split, --kmeans-seed, --state-dtype
extern const struct fg_opt fg_opts_gptq[];

// What the options own; free in every case.
struct fg_cli_gptq {
    struct fg_calib_source sources[FG_CALIB_SOURCES_MAX];
    int n_sources;
};
// Fills the members of o that these options are about. Errors: FG_EINPUT, FG_ERESOURCE.
int fg_cli_gptq(const struct fg_cli *cli, struct fg_quantize_options *o, struct fg_cli_gptq *own,
                struct fg_error *err);
void fg_cli_gptq_free(struct fg_cli_gptq *own);
#endif
