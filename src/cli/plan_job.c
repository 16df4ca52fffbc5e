// cli/plan_job.c
#include "cli/plan_job.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/thread.h"
#include "cli/plan_args.h"
#include "cli/provenance.h"
#include "kernels/kernels.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const struct fg_opt fg_opts_plan_method[] = {
    {.name = "method",
     .kind = FG_OPT_CHOICE,
     .value = "METHOD",
     .def = "gptq",
     .choices = "gptq|rtn",
     .group = "Quantize",
     .help = "gptq: errors are fed back over columns, on calibration rows; rtn: round to nearest, "
             "without data"},
    {.name = "memory",
     .kind = FG_OPT_TEXT,
     .value = "SIZE",
     .def_note = "what is free",
     .group = "Run",
     .help = "refuse to quantize when that needs more"},
    {.name = "restart",
     .kind = FG_OPT_FLAG,
     .def = "off",
     .group = "Run",
     .help = "begin again with what an earlier run finished"},
    {.name = "dry-run",
     .kind = FG_OPT_FLAG,
     .def = "off",
     .group = "Run",
     .help = "check the inputs, say what is to be done, write nothing"},
    {0},
};

const struct fg_opt fg_opts_plan_eval[] = {
    {.name = "trace",
     .kind = FG_OPT_TEXTS,
     .value = "FILE",
     .group = "Comparison",
     .help = "the sequences to compare on; given again: further files, in the order that the "
             "teacher had"},
    {.name = "teacher",
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .group = "Comparison",
     .help = "what the model itself says there, as forge teacher keeps it"},
    {0},
};

int fg_cli_job_open(struct fg_cli_job *j, struct fg_cli *cli, struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    const char *memory = fg_args_text(args, "memory");
    *j = (struct fg_cli_job){.cli = cli};
    struct fg_quantize_options *o = &j->quantize;
    *o = (struct fg_quantize_options){
        .method =
            strcmp(fg_args_text(args, "method"), "rtn") == 0 ? FG_QUANTIZE_RTN : FG_QUANTIZE_GPTQ,
        .model = fg_args_text(args, "model"),
        .layer_first = -1,
        .layer_last = -1,
        .restart = fg_args_flag(args, "restart"),
        .log = &cli->log,
    };
    if (memory && (!fg_parse_bytes(memory, &o->memory_limit) || o->memory_limit == 0))
        return fg_fail(err, FG_EINPUT, "options", NULL, "--memory", "a size as 8G", "%s", memory);
    int rc = fg_cli_gptq(cli, o, &j->own, err);
    if (!rc) rc = fg_kernels_get(&o->kernels, cli->isa, err);
    if (!rc) rc = fg_pool_new(&j->pool, cli->threads ? cli->threads : fg_threads_default(), err);
    o->pool = j->pool;
    return rc;
}

void fg_cli_job_free(struct fg_cli_job *j)
{
    fg_pool_free(j->pool);
    fg_cli_gptq_free(&j->own);
    *j = (struct fg_cli_job){0};
}

static bool on_quantize(void *ctx, uint64_t done, uint64_t total, const char *item)
{
    struct fg_cli_job *j = ctx;
    (void)total;
    fg_progress_set(j->bar, done, item);
    return fg_signals_pending() == 0;
}

static void announce(const struct fg_cli_job *j, const struct fg_quantize_info *i, const char *out)
{
    char weights[32], memory[32], disk[32];
    if (j->cli->log.level < FG_LOG_WARN) return;
    fprintf(stderr,
            "quantize to %s: %" PRIu64 " matrices, %s; memory %s at most; disk %s; %" PRIu64
            " of %" PRIu64 " files are finished\n",
            out, i->n_mats,
            fg_format_bytes(weights, sizeof weights, i->weight_bytes + i->factor_bytes),
            fg_format_bytes(memory, sizeof memory, i->peak_bytes),
            fg_format_bytes(disk, sizeof disk, i->disk_bytes), i->n_done, i->n_files);
}

int fg_cli_job_quantize(struct fg_cli_job *j, const struct fg_plan *plan, const char *out,
                        bool source_stream, const char *name, struct fg_error *err)
{
    struct fg_quantize_options o = j->quantize;
    struct fg_quantize *q = NULL;
    o.plan = plan;
    o.output = out;
    o.source_stream = source_stream;
    o.progress = on_quantize;
    o.ctx = j;
    int rc = fg_quantize_open(&q, &o, err);
    if (rc) return rc;
    const struct fg_quantize_info *info = fg_quantize_info(q);
    if (fg_args_flag(&j->cli->args, "dry-run")) {
        announce(j, info, out);
        rc = fg_quantize_check(q, err);
    } else if (!info->finished || o.restart) {
        fg_cli_plan_warn(j->cli, info->list);
        rc = fg_quantize_check(q, err);
        j->bar =
            fg_progress_new(stderr, j->cli->progress, name, info->source_bytes, FG_PROGRESS_BYTES);
        if (!rc) rc = fg_quantize_run(q, err);
        fg_progress_end(j->bar, rc == 0);
        j->bar = NULL;
    }
    fg_quantize_free(q);
    return rc;
}

// ---- comparing

static bool stop(void *ctx)
{
    (void)ctx;
    return fg_signals_pending() != 0;
}

// Tokenizer and vocabulary of the model, without its weights.
static int open_text(struct fg_cli_eval_set *s, const struct fg_cli_job *j, int64_t *vocab,
                     struct fg_error *err)
{
    const struct forge_engine_options o = {.model = j->quantize.model, .text_only = true};
    struct forge_engine *e = NULL;
    int rc = forge_engine_open(&e, &o, err);
    if (!rc) rc = forge_tokenizer_digest(e, s->tokenizer, err);
    *vocab = fg_teacher_facts(s->teacher)->vocab;
    forge_engine_close(e);
    return rc;
}

int fg_cli_eval_set_open(struct fg_cli_eval_set *s, const struct fg_cli_job *j,
                         struct fg_error *err)
{
    const struct fg_args *args = &j->cli->args;
    const struct fg_opt_slot *trace = fg_args_slot(args, "trace");
    const char *teacher = fg_args_text(args, "teacher");
    int64_t vocab = 0;
    *s = (struct fg_cli_eval_set){0};
    if (trace->n_list == 0 || !teacher)
        return fg_fail(err, FG_EINPUT, "options", NULL, teacher ? "--trace" : "--teacher",
                       teacher ? "a trace to compare on" : "what the model says on the trace",
                       "nothing");
    int rc = fg_teacher_open(&s->teacher, teacher, err);
    if (!rc) rc = fg_klk_self_check(err);
    if (!rc) rc = open_text(s, j, &vocab, err);
    if (!rc) rc = fg_eval_set_open(&s->set, trace->list, trace->n_list, vocab, s->tokenizer, err);
    if (!rc) rc = fg_teacher_check_set(s->teacher, &s->set, err);
    if (!rc) rc = fg_eval_identify(&s->model, j->quantize.model, stop, NULL, err);
    fg_cli_command_line(&s->command);
    if (rc == FG_EINTEGRITY && err && !err->file[0] && strcmp(err->what, "teacher") == 0)
        snprintf(err->file, sizeof err->file, "%s", teacher);
    return rc;
}

void fg_cli_eval_set_free(struct fg_cli_eval_set *s)
{
    fg_teacher_close(s->teacher);
    fg_eval_set_free(&s->set);
    fg_buf_free(&s->command);
    *s = (struct fg_cli_eval_set){0};
}

static int on_eval(void *ctx, int64_t done, int64_t total)
{
    struct fg_cli_job *j = ctx;
    (void)total;
    fg_progress_set(j->bar, (uint64_t)done, NULL);
    return fg_signals_pending() != 0;
}

struct fg_klk_job fg_cli_eval_job(struct fg_cli_job *j, struct fg_cli_eval_set *s, const char *name)
{
    const struct fg_args *args = &j->cli->args;
    struct fg_klk_job job = {.set = &s->set,
                             .teacher = s->teacher,
                             .topk = fg_args_given(args, "topk") ? fg_args_int(args, "topk")
                                                                 : fg_teacher_facts(s->teacher)->k,
                             .rows = fg_args_int(args, "rows"),
                             .skip_prefix = fg_args_int(args, "skip-prefix"),
                             .seqs = fg_args_int(args, "seqs"),
                             .restart = fg_args_flag(args, "restart"),
                             .tokenizer = s->tokenizer,
                             .command = s->command.len ? s->command.data : NULL,
                             .pool = j->pool,
                             .progress = on_eval,
                             .ctx = j};
    j->bar = fg_progress_new(stderr, j->cli->progress, name, (uint64_t)fg_klk_rows(&job),
                             FG_PROGRESS_COUNT);
    return job;
}

static void forward_line(void *ctx, enum forge_log_level level, const char *line)
{
    const struct fg_cli *cli = ctx;
    cli->log.sink(cli->log.ctx, (enum fg_log_level)level, line);
}

struct forge_engine_options fg_cli_eval_engine(const struct fg_cli_job *j)
{
    const struct fg_log *log = &j->cli->log;
    // What is warned of at every opening, such as a chat template, plays no part here.
    const enum fg_log_level level = log->level == FG_LOG_WARN ? FG_LOG_ERROR : log->level;
    return (struct forge_engine_options){.threads = j->cli->threads,
                                         .isa = j->cli->isa,
                                         .numerics = FORGE_EXACT,
                                         .log_level = (enum forge_log_level)level,
                                         .log = log->sink ? forward_line : NULL,
                                         .log_ctx = j->cli};
}
