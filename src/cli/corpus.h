// cli/corpus.h: the subcommands of `forge corpus`, and what those that sample share.
#ifndef FG_CLI_CORPUS_H
#define FG_CLI_CORPUS_H
#include "cli/cli.h"
#include "cli/eval.h"
#include "corpus/generate.h"

extern const struct fg_command fg_cmd_corpus_rows, fg_cmd_corpus_prompts, fg_cmd_corpus_generate,
    fg_cmd_corpus_pack, fg_cmd_corpus_check, fg_cmd_corpus_evalset;

extern const struct fg_opt fg_opts_corpus_sample[]; // --temperature ... --seed, --think, --raw, ...

struct fg_progress;

// A sampling run of the program: engine, identity of the model, progress, signals.
struct fg_cli_sampler {
    struct fg_cli *cli;
    struct forge_engine *engine;
    struct fg_eval_identity identity;
    struct fg_progress *bar;
    struct fg_generate_job job; // all but prompts, dir and max_new
};
// Opens the model that --model names and fills the job. From here on signals stop it.
int fg_cli_sampler_open(struct fg_cli_sampler *s, struct fg_cli *cli, struct fg_error *err);
void fg_cli_sampler_close(struct fg_cli_sampler *s);
// The program's exit code for rc: that of the signal that stopped the run.
int fg_cli_sampler_exit(int rc);
// What a dry run found, printed.
int fg_cli_sampler_dry(const struct fg_cli_sampler *s, size_t prompts,
                       const struct fg_generate_result *r, struct fg_error *err);
// Members of a report: counts and times of a run.
void fg_cli_sampler_json(struct fg_jwrite *w, const struct fg_generate_result *r);
#endif
