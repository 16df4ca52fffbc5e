// cli/eval_logits.c: `forge eval logits`: the logits of every position.
#include "cli/eval.h"
#include "base/progress.h"
#include "cli/model_args.h"
#include "eval/logits.h"
#include <stdlib.h>
#include <string.h>

static int on_progress(void *ctx, int64_t done, int64_t total)
{
    (void)total;
    fg_progress_set(ctx, (uint64_t)done, NULL);
    return fg_signals_pending() != 0;
}

static int print_result(const struct fg_cli *cli, const struct fg_eval_logits *job,
                        struct forge_engine *e, double seconds, struct fg_error *err)
{
    struct forge_engine_info info;
    forge_engine_info(e, &info);
    const char *numerics = info.numerics == FORGE_EXACT ? "exact" : "fast";
    if (!cli->json) {
        char time[32];
        fg_log_info(&cli->log, "%s: %zu rows in %s, %s, %s kernels", job->out, job->n,
                    fg_format_seconds(time, sizeof time, seconds), numerics, info.isa);
        return 0;
    }
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    fg_jwrite_str(&w, "out", job->out);
    fg_jwrite_str(&w, "tap", job->tap);
    fg_jwrite_uint(&w, "tokens", job->n);
    fg_jwrite_int(&w, "vocab", info.vocab);
    fg_jwrite_int(&w, "rows", job->rows);
    fg_jwrite_str(&w, "numerics", numerics);
    fg_jwrite_str(&w, "kv_cache_dtype", info.kv_cache_dtype);
    fg_jwrite_str(&w, "isa", info.isa);
    fg_jwrite_int(&w, "threads", info.threads);
    fg_jwrite_num(&w, "seconds", seconds);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

static int run_logits(struct fg_cli *cli, struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    struct forge_engine *e = NULL;
    int32_t *ids = NULL;
    struct fg_eval_logits job = {
        .rows = strtol(fg_args_text(args, "rows"), NULL, 10), // one of the table's choices
        .context = fg_args_int(args, "ctx"),
        .out = fg_args_text(args, "out"),
        .tap = fg_args_text(args, "tap"),
        .tap_layer = (int)fg_args_int(args, "tap-layer"),
        .progress = on_progress,
    };
    int rc = fg_cli_eval_ids(fg_args_text(args, "tokens"), &ids, &job.n, err);
    job.ids = ids;
    if (rc == 0) rc = fg_cli_engine(cli, FG_CLI_WEIGHTS, &e, err);
    if (rc == 0) {
        fg_signals_catch();
        double start = fg_clock();
        struct fg_progress *bar =
            fg_progress_new(stderr, cli->progress, "logits", job.n, FG_PROGRESS_COUNT);
        job.ctx = bar;
        rc = fg_eval_logits(e, &job, err);
        fg_progress_end(bar, rc == 0);
        int sig = fg_signals_pending();
        if (rc == 0) rc = print_result(cli, &job, e, fg_clock() - start, err);
        if (rc == FG_EINTERRUPTED && sig) rc = fg_signals_exit_code(sig);
    }
    forge_engine_close(e);
    free(ids);
    return rc;
}

static const struct fg_opt options[] = {
    {.name = "tokens",
     .kind = FG_OPT_TEXT,
     .value = "LIST|FILE",
     .required = true,
     .group = "Logits",
     .help = "token ids as 1,2,3, or a file of them: npy of int32 or int64, or text"},
    {.name = "out",
     .letter = 'o',
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .required = true,
     .group = "Logits",
     .help = "the npy file to write"},
    {.name = "rows",
     .kind = FG_OPT_CHOICE,
     .value = "N",
     .def = "64",
     .choices = "1|4|8|64",
     .group = "Logits",
     .help = "rows per forward call: 1, 4, 8 or 64; results do not depend on it"},
    {.name = "tap",
     .kind = FG_OPT_TEXT,
     .value = "NAME",
     .group = "Logits",
     .help = "write this intermediate instead, as attn_norm or layer_out"},
    {.name = "tap-layer",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "-1",
     .min = -1,
     .max = 1023,
     .group = "Logits",
     .help = "layer of --tap; -1 for what belongs to no layer"},
    {0},
};
static const struct fg_opt *const tables[] = {
    options, fg_opts_model, fg_opts_memory, fg_opts_numerics_exact, fg_opts_ctx, fg_opts_kv, NULL};
static const char *const examples[] = {
    "forge eval logits -m model/ --tokens 1,2,3 --out logits.npy", NULL};

const struct fg_command fg_cmd_eval_logits = {
    .name = "logits",
    .group = "Measure",
    .summary = "write the logits of every position",
    .about = "Writes float32 [tokens][vocabulary] as an npy file.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_logits,
};
