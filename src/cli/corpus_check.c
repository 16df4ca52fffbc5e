// cli/corpus_check.c: `forge corpus check`: is training apart from evaluation?
#include "corpus/check.h"
#include "cli/corpus.h"
#include "cli/model_args.h"
#include <inttypes.h>
#include <string.h>

static bool stop(void *ctx)
{
    (void)ctx;
    return fg_signals_pending() != 0;
}

static int take_options(struct fg_check_job *job, const struct fg_args *args, struct fg_error *err)
{
    const struct fg_opt_slot *prompts = fg_args_slot(args, "prompts");
    const struct fg_opt_slot *against = fg_args_slot(args, "against");
    const struct fg_opt_slot *rows = fg_args_slot(args, "rows");
    const struct fg_opt_slot *traces = fg_args_slot(args, "trace");
    *job = (struct fg_check_job){
        .prompts = prompts->list,
        .n_prompts = prompts->n_list,
        .against = against->list,
        .n_against = against->n_list,
        .rows = rows->list,
        .n_rows = rows->n_list,
        .traces = traces->list,
        .n_traces = traces->n_list,
        .share_max = fg_args_number(args, "share") / 100,
        .stop = stop,
    };
    if (job->n_prompts + job->n_rows + job->n_traces == 0)
        return fg_fail(err, FG_EINPUT, "options", NULL, "--prompts",
                       "--prompts, or --rows and --trace", "nothing to check");
    if (job->n_against > 0 && job->n_prompts == 0)
        return fg_fail(err, FG_EINPUT, "options", NULL, "--against", "together with --prompts",
                       "alone");
    if ((job->n_rows > 0) != (job->n_traces > 0))
        return fg_fail(err, FG_EINPUT, "options", NULL, "--rows", "together with --trace",
                       "one of the two");
    if (job->n_rows > 0 && !fg_args_text(args, "model"))
        return fg_fail(err, FG_EINPUT, "options", NULL, "--model",
                       "the model whose tokens rows and traces hold", "none");
    return 0;
}

static void print_pair(const struct fg_check_pair *p)
{
    if (p->likeness > 0)
        printf("%s: near duplicate of %s (%.2f)\n", p->id, p->other, p->likeness);
    else
        printf("%s: shares 8 words with %s\n", p->id, p->other);
}

static int print_result(const struct fg_cli *cli, const struct fg_check_job *job,
                        const struct fg_check_result *r, struct fg_error *err)
{
    struct fg_jwrite w = {0};
    if (!cli->json) {
        for (size_t i = 0; i < r->n_pairs; i++)
            print_pair(&r->pair[i]);
        if (job->n_prompts > 0)
            printf("%zu prompts against %zu of evaluation: %zu violations\n", r->n_prompts,
                   r->n_against, r->n_pairs);
        for (int i = 0; i < r->n_traces; i++) {
            const struct fg_check_trace *t = &r->trace[i];
            printf("%s: %" PRId64 " of %" PRId64
                   " runs of %d tokens stand in the rows, %.3f %%%s\n",
                   t->path, t->present, t->windows, FG_CHECK_WINDOW, 100 * t->share,
                   t->good ? "" : ": too many");
        }
        return fg_out_flush(err);
    }
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", r->good ? "ok" : "failed");
    fg_jwrite_uint(&w, "prompts", r->n_prompts);
    fg_jwrite_uint(&w, "evaluation_prompts", r->n_against);
    fg_jwrite_array(&w, "violations");
    for (size_t i = 0; i < r->n_pairs; i++) {
        fg_jwrite_object(&w, NULL);
        fg_jwrite_str(&w, "rule", r->pair[i].likeness > 0 ? "near_duplicate" : "shared_words");
        fg_jwrite_str(&w, "id", r->pair[i].id);
        fg_jwrite_str(&w, "other", r->pair[i].other);
        if (r->pair[i].likeness > 0) fg_jwrite_num(&w, "likeness", r->pair[i].likeness);
        fg_jwrite_end_object(&w);
    }
    fg_jwrite_end_array(&w);
    fg_jwrite_int(&w, "rows", r->rows);
    fg_jwrite_int(&w, "row_tokens", r->row_tokens);
    fg_jwrite_num(&w, "share_max", job->share_max);
    fg_jwrite_array(&w, "traces");
    for (int i = 0; i < r->n_traces; i++) {
        fg_jwrite_object(&w, NULL);
        fg_jwrite_str(&w, "file", r->trace[i].path);
        fg_jwrite_int(&w, "runs", r->trace[i].windows);
        fg_jwrite_int(&w, "present", r->trace[i].present);
        fg_jwrite_num(&w, "share", r->trace[i].share);
        fg_jwrite_bool(&w, "good", r->trace[i].good);
        fg_jwrite_end_object(&w);
    }
    fg_jwrite_end_array(&w);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

static int run_check(struct fg_cli *cli, struct fg_error *err)
{
    struct fg_check_job job;
    struct fg_check_result result = {0};
    struct forge_engine *engine = NULL;
    int rc = take_options(&job, &cli->args, err);
    if (rc) return rc;
    fg_signals_catch();
    if (job.n_rows > 0) rc = fg_cli_engine(cli, FG_CLI_TEXT, &engine, err);
    job.engine = engine;
    if (!rc) rc = fg_check_run(&job, &result, err);
    if (!rc) rc = print_result(cli, &job, &result, err);
    if (!rc && !result.good) rc = FG_EFAILED; // said all there is to say
    int sig = fg_signals_pending();
    fg_check_free(&result);
    forge_engine_close(engine);
    return rc == FG_EINTERRUPTED && sig ? fg_signals_exit_code(sig) : rc;
}

static const struct fg_opt options[] = {
    {.name = "prompts",
     .kind = FG_OPT_TEXTS,
     .value = "FILE",
     .group = "Check",
     .help = "prompts of training; may be given again"},
    {.name = "against",
     .kind = FG_OPT_TEXTS,
     .value = "FILE",
     .group = "Check",
     .help = "prompts of evaluation, besides those of forge corpus evalset; may be given again"},
    {.name = "rows",
     .kind = FG_OPT_TEXTS,
     .value = "FILE",
     .group = "Check",
     .help = "rows of training; may be given again"},
    {.name = "trace",
     .kind = FG_OPT_TEXTS,
     .value = "FILE",
     .group = "Check",
     .help = "traces of evaluation; may be given again"},
    {.name = "share",
     .kind = FG_OPT_NUMBER,
     .value = "X",
     .def = "0.5",
     .low = 0,
     .high = 100,
     .group = "Check",
     .help = "percent of a trace's runs of 13 tokens that the rows may have"},
    {.name = "model",
     .letter = 'm',
     .kind = FG_OPT_PATH,
     .value = "PATH",
     .group = "Check",
     .help = "whose tokens and template rows and traces have"},
    {.name = "strict",
     .kind = FG_OPT_FLAG,
     .group = "Check",
     .help = "unknown tensors of the model are an error"},
    {0},
};
static const struct fg_opt *const tables[] = {options, fg_opts_template, NULL};
static const char *const examples[] = {
    "forge corpus check --prompts prompts.jsonl",
    "forge corpus check -m model/ --rows train.safetensors --trace dev.safetensors", NULL};

const struct fg_command fg_cmd_corpus_check = {
    .name = "check",
    .group = "Make",
    .summary = "check that training and evaluation are apart",
    .about = "Prompts: none may share eight words in a row with a prompt of evaluation, nor be a "
             "near duplicate of an earlier one. Rows: of a trace's runs of 13 tokens, those of the "
             "chat template left out, at most --share percent may stand in them. Exit code 1 when "
             "a rule is broken.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_check,
};
