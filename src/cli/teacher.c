// cli/teacher.c: `forge teacher`: what a model makes of rows or traces, kept for training and
// evaluation (specs: quantization 6.4, 8).
#include "eval/teacher.h"
#include "base/progress.h"
#include "base/thread.h"
#include "cli/eval.h"
#include "cli/job_args.h"
#include "cli/model_args.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 64 // rows per forward call

struct teacher {
    struct fg_cli *cli;
    struct forge_engine *engine;
    struct fg_eval_set set;
    struct fg_eval_identity identity;
    char tokenizer[FG_SHA256_HEX];
    struct fg_teacher_job job;
    struct fg_teacher_result result;
    struct fg_progress *bar;
};

static int on_progress(void *ctx, int64_t done, int64_t total)
{
    struct teacher *t = ctx;
    (void)total;
    fg_progress_set(t->bar, (uint64_t)done, NULL);
    return fg_signals_pending() != 0;
}

static int open_set(struct teacher *t, struct fg_error *err)
{
    const struct fg_opt_slot *rows = fg_args_slot(&t->cli->args, "rows");
    const char *trace = fg_args_text(&t->cli->args, "trace");
    struct forge_engine_info info;
    if ((rows->n_list > 0) == (trace != NULL))
        return fg_fail(err, FG_EINPUT, "option", NULL, "--rows", "one of --rows and --trace", "%s",
                       trace ? "both" : "none");
    forge_engine_info(t->engine, &info);
    int rc = forge_tokenizer_digest(t->engine, t->tokenizer, err);
    if (rc) return rc;
    return fg_eval_set_open(&t->set, trace ? &trace : rows->list, trace ? 1 : rows->n_list,
                            info.vocab, t->tokenizer, err);
}

static int print_result(const struct teacher *t, struct fg_error *err)
{
    const struct fg_teacher_result *r = &t->result;
    struct fg_jwrite w = {0};
    char bytes[32], time[32];
    if (!t->cli->json) {
        printf("%s: %" PRId64 " positions of %" PRId64 " sequences, the best %" PRId64
               " of each, %" PRId64 " shards, %s\n",
               t->job.out, r->positions, t->set.n, r->k, r->shards,
               fg_format_bytes(bytes, sizeof bytes, r->bytes));
        if (r->shards_found < r->shards)
            printf("%s, ppl %.4f\n", fg_format_seconds(time, sizeof time, r->seconds), exp(r->nll));
        return fg_out_flush(err);
    }
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    fg_jwrite_str(&w, "output", t->job.out);
    fg_jwrite_str(&w, "reference_sha256", r->sha256);
    fg_jwrite_str(&w, "model_digest", t->job.model);
    fg_jwrite_str(&w, "rows_sha256", t->set.sha256);
    fg_jwrite_int(&w, "sequences", t->set.n);
    fg_jwrite_int(&w, "positions", r->positions);
    fg_jwrite_int(&w, "k", r->k);
    fg_jwrite_int(&w, "shards", r->shards);
    fg_jwrite_int(&w, "shards_found", r->shards_found);
    fg_jwrite_uint(&w, "bytes", r->bytes);
    fg_jwrite_num(&w, "seconds", r->seconds);
    fg_jwrite_num(&w, "run_seconds", r->run_seconds);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

static int make(struct teacher *t, struct fg_error *err)
{
    const struct fg_args *args = &t->cli->args;
    t->job = (struct fg_teacher_job){
        .side = {.engine = t->engine},
        .set = &t->set,
        .rows = !fg_args_text(args, "trace"),
        .k = fg_args_int(args, "topk"),
        .f16 = strcmp(fg_args_text(args, "lp"), "f16") == 0,
        .block = BLOCK,
        .out = fg_args_text(args, "out"),
        .restart = fg_cli_restart(args),
        .model = t->identity.hex,
        .tokenizer = t->tokenizer,
        .progress = on_progress,
        .ctx = t,
    };
    int threads = t->cli->threads ? t->cli->threads : fg_threads_default();
    int rc = fg_pool_new(&t->job.pool, threads, err);
    if (rc) return rc;
    t->bar = fg_progress_new(stderr, t->cli->progress, "teacher", (uint64_t)t->set.positions,
                             FG_PROGRESS_COUNT);
    rc = fg_teacher_make(&t->job, &t->result, err);
    fg_progress_end(t->bar, rc == 0);
    fg_pool_free(t->job.pool);
    return rc ? rc : print_result(t, err);
}

static int run_teacher(struct fg_cli *cli, struct fg_error *err)
{
    struct teacher t = {.cli = cli};
    fg_signals_catch();
    int rc = fg_cli_engine(cli, FG_CLI_ALL, &t.engine, err);
    if (!rc) rc = open_set(&t, err);
    if (!rc) rc = fg_cli_eval_identify(cli, &t.identity, err);
    if (!rc) rc = make(&t, err);
    int sig = fg_signals_pending();
    forge_engine_close(t.engine);
    fg_eval_set_free(&t.set);
    return rc == FG_EINTERRUPTED && sig ? fg_signals_exit_code(sig) : rc;
}

static const struct fg_opt options[] = {
    {.name = "rows",
     .kind = FG_OPT_TEXTS,
     .value = "FILE",
     .group = "Teacher",
     .help = "rows of one length, for training; given again: further files of the same length"},
    {.name = "trace",
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .group = "Teacher",
     .help = "sequences of any length instead, for evaluation"},
    {.name = "out",
     .letter = 'o',
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .required = true,
     .group = "Teacher",
     .help = "the cache to write: new, empty, or of the same command"},
    {.name = "topk",
     .kind = FG_OPT_INT,
     .value = "K",
     .def = "256",
     .min = 1,
     .max = FG_TEACHER_K_MAX,
     .group = "Teacher",
     .help = "tokens kept per position; 512 for evaluation"},
    {.name = "lp",
     .kind = FG_OPT_CHOICE,
     .value = "TYPE",
     .def = "f32",
     .choices = "f32|f16",
     .group = "Teacher",
     .help = "log-probabilities in f32, or in f16, for training alone"},
    {0},
};
static const struct fg_opt *const tables[] = {
    options, fg_opts_resume, fg_opts_model, fg_opts_memory, fg_opts_numerics_exact, fg_opts_kv,
    NULL};
static const char *const examples[] = {
    "forge teacher -m model/ --rows train.safetensors --out teacher/",
    "forge teacher -m model/ --trace dev.safetensors --topk 512 --out dev-teacher/", NULL};

const struct fg_command fg_cmd_teacher = {
    .name = "teacher",
    .group = "Make",
    .summary = "keep what a model says about rows or traces",
    .about = "For every position the likeliest tokens and their log-probabilities, and the "
             "log-probability of the token that comes. Stopped with Ctrl-C, or killed, it keeps "
             "the finished shards; the same command goes on. The bytes do not depend on threads or "
             "interruptions.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_teacher,
};
