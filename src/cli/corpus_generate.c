// cli/corpus_generate.c: `forge corpus generate`: a model's answers to prompts; and what the
// sampling subcommands share.
#include "base/progress.h"
#include "cli/corpus.h"
#include "cli/job_args.h"
#include "cli/model_args.h"
#include "corpus/batch.h"
#include <inttypes.h>
#include <string.h>

static int on_progress(void *ctx, size_t done, const char *id, int64_t tokens)
{
    struct fg_cli_sampler *s = ctx;
    char item[FG_PROMPT_ID_MAX + 32];
    snprintf(item, sizeof item, "%s, %" PRId64 " tokens", id, tokens);
    fg_progress_set(s->bar, done, item);
    return fg_signals_pending() != 0;
}

int fg_cli_sampler_open(struct fg_cli_sampler *s, struct fg_cli *cli, struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    struct forge_engine_info info;
    *s = (struct fg_cli_sampler){.cli = cli};
    fg_signals_catch();
    int rc = fg_cli_engine(cli, FG_CLI_ALL, &s->engine, err);
    if (!rc) rc = fg_cli_eval_identify(cli, &s->identity, err);
    if (rc) return rc;
    forge_engine_info(s->engine, &info);
    int64_t top_k = fg_args_int(args, "top-k");
    double top_p = fg_args_number(args, "top-p");
    s->job = (struct fg_generate_job){
        .engine = s->engine,
        .restart = fg_cli_restart(args),
        .dry_run = fg_args_flag(args, "dry-run"),
        .seed = (uint64_t)fg_args_int(args, "seed"),
        .sampling = {.temperature = fg_args_number(args, "temperature"),
                     .top_p = top_p,
                     .top_k = (int32_t)top_k},
        .think = fg_args_flag(args, "think"),
        .raw = fg_args_flag(args, "raw") || !info.chat_template,
        .at_once = (int)fg_args_int(args, "batch"),
        .model_digest = s->identity.hex,
        .progress = on_progress,
        .ctx = s,
    };
    if (!info.chat_template && !fg_args_flag(args, "raw"))
        fg_out_warn(cli, "the model has no chat template: prompts are plain text, as with --raw");
    return 0;
}

void fg_cli_sampler_close(struct fg_cli_sampler *s)
{
    forge_engine_close(s->engine);
}

int fg_cli_sampler_exit(int rc)
{
    int sig = fg_signals_pending();
    return rc == FG_EINTERRUPTED && sig ? fg_signals_exit_code(sig) : rc;
}

int fg_cli_sampler_dry(const struct fg_cli_sampler *s, size_t prompts,
                       const struct fg_generate_result *r, struct fg_error *err)
{
    int64_t replies = (int64_t)prompts * s->job.max_new;
    struct fg_jwrite w = {0};
    if (!s->cli->json) {
        printf("%zu prompts of %" PRId64 " tokens, at most %" PRId64 " tokens of replies\n",
               prompts, r->prompt_tokens, replies);
        return fg_out_flush(err);
    }
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    fg_jwrite_bool(&w, "dry_run", true);
    fg_jwrite_uint(&w, "prompts", prompts);
    fg_jwrite_int(&w, "prompt_tokens", r->prompt_tokens);
    fg_jwrite_int(&w, "reply_tokens_max", replies);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

void fg_cli_sampler_json(struct fg_jwrite *w, const struct fg_generate_result *r)
{
    fg_jwrite_uint(w, "sequences", r->found + r->made);
    fg_jwrite_uint(w, "sequences_found", r->found);
    fg_jwrite_uint(w, "ended", r->ended);
    fg_jwrite_int(w, "prompt_tokens", r->prompt_tokens);
    fg_jwrite_int(w, "reply_tokens", r->reply_tokens);
    fg_jwrite_num(w, "seconds", r->seconds);
    fg_jwrite_num(w, "tokens_per_second", r->seconds > 0 ? (double)r->made_tokens / r->seconds : 0);
}

static int print_result(const struct fg_cli_sampler *s, const struct fg_generate_result *r,
                        struct fg_error *err)
{
    struct fg_jwrite w = {0};
    char time[32];
    if (!s->cli->json) {
        printf("%s: %zu sequences, %" PRId64 " tokens of prompts, %" PRId64
               " of replies, %zu of them ended\n",
               s->job.dir, r->found + r->made, r->prompt_tokens, r->reply_tokens, r->ended);
        if (r->made && r->seconds > 0)
            printf("%zu made in %s, %.1f tokens per second\n", r->made,
                   fg_format_seconds(time, sizeof time, r->seconds),
                   (double)r->made_tokens / r->seconds);
        return fg_out_flush(err);
    }
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    fg_jwrite_str(&w, "output", s->job.dir);
    fg_jwrite_str(&w, "model_digest", s->identity.hex);
    fg_cli_sampler_json(&w, r);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

static int run_generate(struct fg_cli *cli, struct fg_error *err)
{
    struct fg_prompts prompts;
    struct fg_cli_sampler s;
    struct fg_generate_result result;
    int rc = fg_prompts_read(&prompts, fg_args_text(&cli->args, "prompts"), err);
    if (rc) return rc;
    rc = fg_cli_sampler_open(&s, cli, err);
    if (!rc) {
        s.job.prompts = &prompts;
        s.job.dir = fg_args_text(&cli->args, "out");
        s.job.max_new = fg_args_int(&cli->args, "max-new");
        s.bar = fg_progress_new(stderr, s.job.dry_run ? FG_PROGRESS_NONE : cli->progress,
                                "generate", prompts.n, FG_PROGRESS_COUNT);
        rc = fg_generate_run(&s.job, &result, err);
        fg_progress_end(s.bar, rc == 0);
        if (!rc)
            rc = s.job.dry_run ? fg_cli_sampler_dry(&s, prompts.n, &result, err)
                               : print_result(&s, &result, err);
    }
    fg_cli_sampler_close(&s);
    fg_prompts_free(&prompts);
    return fg_cli_sampler_exit(rc);
}

const struct fg_opt fg_opts_corpus_sample[] = {
    {.name = "temperature",
     .kind = FG_OPT_NUMBER,
     .value = "X",
     .def = "0.6",
     .low = 0,
     .high = 2,
     .group = "Sampling",
     .help = "how freely tokens are drawn; 0 takes the likeliest"},
    {.name = "top-p",
     .kind = FG_OPT_NUMBER,
     .value = "X",
     .def = "0.95",
     .low = 0,
     .low_open = true,
     .high = 1,
     .group = "Sampling",
     .help = "keep the likeliest tokens up to this sum"},
    {.name = "top-k",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "20",
     .min = 0,
     .max = INT32_MAX,
     .group = "Sampling",
     .help = "keep this many of the likeliest tokens; 0: all"},
    {.name = "seed",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "0",
     .min = 0,
     .max = INT64_MAX,
     .group = "Sampling",
     .help = "with the id of a prompt it makes the random numbers of its reply"},
    {.name = "think",
     .kind = FG_OPT_FLAG,
     .def = "on",
     .listed_negative = true,
     .group = "Sampling",
     .help = "replies without thinking, where the template can tell"},
    {.name = "raw",
     .kind = FG_OPT_FLAG,
     .group = "Sampling",
     .help = "prompts as plain text, for base models; without a template it is so anyway"},
    {.name = "batch",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "4",
     .min = 1,
     .max = FG_BATCH_MAX,
     .group = "Run",
     .help = "replies made at the same time, each with a context of its own; they do not depend on "
             "it"},
    {.name = "dry-run",
     .kind = FG_OPT_FLAG,
     .def = "off",
     .group = "Run",
     .help = "check the prompts, count their tokens, sample and write nothing"},
    {0},
};

static const struct fg_opt options[] = {
    {.name = "prompts",
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .required = true,
     .group = "Generate",
     .help = "prompts as forge corpus prompts writes them: lines with id, kind, messages, tools"},
    {.name = "out",
     .letter = 'o',
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .required = true,
     .group = "Generate",
     .help = "where the sequences go: new, empty, or of the same command"},
    {.name = "max-new",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "1792",
     .min = 1,
     .max = 1 << 20,
     .group = "Generate",
     .help = "longest reply, in tokens"},
    {0},
};
static const struct fg_opt *const tables[] = {options,          fg_opts_corpus_sample,
                                              fg_opts_resume,   fg_opts_model,
                                              fg_opts_memory,   fg_opts_numerics_fast,
                                              fg_opts_template, fg_opts_ctx,
                                              fg_opts_kv,       NULL};
static const char *const examples[] = {
    "forge corpus generate -m model/ --prompts prompts.jsonl --out samples/", NULL};

const struct fg_command fg_cmd_corpus_generate = {
    .name = "generate",
    .group = "Make",
    .summary = "sample a model on prompts",
    .about = "Each reply is kept as soon as it is whole. Stopped with Ctrl-C, or killed, the same "
             "command goes on, to the same bytes as if nothing had happened.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_generate,
};
