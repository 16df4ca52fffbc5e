// cli/eval_niah.c: `forge eval niah`: finding a fact in long prompts.
#include "cli/eval.h"
#include "base/progress.h"
#include "cli/model_args.h"
#include "eval/niah.h"
#include <inttypes.h>
#include <string.h>

#define LENGTH_MAX ((int64_t)1 << 31)
#define CELL 18 // characters of a cell of the table

struct niah {
    struct fg_cli *cli;
    struct forge_engine *engine;
    struct fg_eval_identity identity;
    struct fg_niah job;
    struct fg_niah_result result;
    struct fg_progress *bar;
    int64_t lengths[FG_EVAL_LIST_MAX];
    int depths[FG_EVAL_LIST_MAX];
};

static int on_progress(void *ctx, int64_t done, int64_t total)
{
    struct niah *n = ctx;
    (void)total;
    fg_progress_set(n->bar, (uint64_t)done, NULL);
    return fg_signals_pending() != 0;
}

// Before the model is opened: what the options say alone.
static int take_lists(struct niah *n, struct fg_error *err)
{
    const struct fg_args *args = &n->cli->args;
    int64_t depths[FG_EVAL_LIST_MAX];
    const char *lengths = fg_args_text(args, "lengths");
    int rc = fg_cli_eval_list(fg_args_text(args, "depths"), "--depths", 0, 100, depths,
                              &n->job.n_depths, err);
    if (rc == 0 && lengths)
        rc = fg_cli_eval_list(lengths, "--lengths", 1, LENGTH_MAX, n->lengths, &n->job.n_lengths,
                              err);
    for (int i = 0; i < n->job.n_depths; i++)
        n->depths[i] = (int)depths[i];
    return rc;
}

static void make_job(struct niah *n)
{
    const struct fg_args *args = &n->cli->args;
    struct forge_engine_info info;
    forge_engine_info(n->engine, &info);
    n->job.side.engine = n->engine;
    if (fg_args_given(args, "ctx")) n->job.side.session.capacity = info.ctx;
    if (n->job.n_lengths == 0) { // the contexts up to the one that sessions have
        for (int i = 0; i < info.n_entries && info.entries[i] < info.ctx &&
                        n->job.n_lengths < FG_EVAL_LIST_MAX - 1;
             i++)
            n->lengths[n->job.n_lengths++] = info.entries[i];
        n->lengths[n->job.n_lengths++] = info.ctx;
    }
    n->job.lengths = n->lengths;
    n->job.depths = n->depths;
    n->job.trials = (int)fg_args_int(args, "trials");
    n->job.seed = (uint64_t)fg_args_int(args, "seed");
    n->job.reply_max = fg_args_int(args, "reply");
    n->job.raw = fg_args_flag(args, "raw") || !info.chat_template;
    n->job.progress = on_progress;
    n->job.ctx = n;
}

// ---- report

static void json_case(struct fg_jwrite *w, const struct fg_niah_case *c)
{
    fg_jwrite_object(w, NULL);
    fg_jwrite_int(w, "length", c->length);
    fg_jwrite_int(w, "depth", c->depth);
    fg_jwrite_uint(w, "seed", c->seed);
    fg_jwrite_str(w, "key", c->needle.key);
    fg_jwrite_str(w, "code", c->needle.code);
    fg_jwrite_int(w, "prompt_tokens", c->prompt_tokens);
    fg_jwrite_int(w, "needle_at", c->needle_at);
    fg_jwrite_str(w, "reply", c->reply);
    fg_jwrite_bool(w, "exact", c->exact);
    fg_jwrite_bool(w, "value", c->value);
    fg_jwrite_bool(w, "format", c->format);
    fg_jwrite_num(w, "answer_logprob", c->logprob);
    fg_jwrite_int(w, "answer_tokens", c->answer_tokens);
    fg_jwrite_num(w, "prompt_seconds", c->prompt_seconds);
    fg_jwrite_num(w, "reply_seconds", c->reply_seconds);
    fg_jwrite_end_object(w);
}

static int json_report(const struct niah *n, struct fg_error *err)
{
    const struct fg_niah_result *r = &n->result;
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", r->stopped ? "stopped" : "ok");
    fg_eval_report_head(&w, "niah");
    fg_eval_report_model(&w, fg_args_text(&n->cli->args, "model"), &n->identity, n->engine);
    fg_eval_report_side(&w, "settings", &n->job.side);
    fg_jwrite_bool(&w, "raw", n->job.raw);
    fg_jwrite_int(&w, "reply_max", n->job.reply_max);
    fg_jwrite_int(&w, "trials", n->job.trials);
    fg_jwrite_uint(&w, "seed", n->job.seed);
    fg_jwrite_array(&w, "table");
    for (int i = 0; i < n->job.n_lengths; i++) {
        for (int d = 0; d < n->job.n_depths; d++) {
            struct fg_niah_cell cell = fg_niah_cell(r, n->lengths[i], n->depths[d]);
            if (cell.cases == 0) continue;
            fg_jwrite_object(&w, NULL);
            fg_jwrite_int(&w, "length", n->lengths[i]);
            fg_jwrite_int(&w, "depth", n->depths[d]);
            fg_jwrite_int(&w, "cases", cell.cases);
            fg_jwrite_int(&w, "exact", cell.exact);
            fg_jwrite_int(&w, "value", cell.value);
            fg_jwrite_num(&w, "answer_logprob", cell.logprob);
            fg_jwrite_end_object(&w);
        }
    }
    fg_jwrite_end_array(&w);
    fg_jwrite_array(&w, "cases");
    for (int i = 0; i < r->n_cases; i++)
        json_case(&w, &r->cases[i]);
    fg_jwrite_end_array(&w);
    return fg_cli_eval_report(n->cli, &w, err);
}

static int print_table(const struct niah *n, struct fg_error *err)
{
    char side[96], text[64];
    const struct fg_niah_result *r = &n->result;
    printf("%s, %s\n", fg_eval_side_text(side, sizeof side, &n->job.side),
           n->job.raw ? "raw" : "chat");
    printf("Replies that are the code, that hold it, all; mean log probability of the code. By "
           "length and depth. Not a RULER score.\n\n%8s",
           "");
    for (int i = 0; i < n->job.n_lengths; i++)
        printf(" %*" PRId64, CELL, n->lengths[i]);
    printf("\n");
    for (int d = 0; d < n->job.n_depths; d++) {
        printf("%7d%%", n->depths[d]);
        for (int i = 0; i < n->job.n_lengths; i++) {
            struct fg_niah_cell c = fg_niah_cell(r, n->lengths[i], n->depths[d]);
            snprintf(text, sizeof text, "%d/%d/%d %8.3f", c.exact, c.value, c.cases, c.logprob);
            printf(" %*s", CELL, c.cases ? text : "-");
        }
        printf("\n");
    }
    return fg_out_flush(err);
}

static int evaluate(struct niah *n, struct fg_error *err)
{
    int64_t total = 0;
    for (int i = 0; i < n->job.n_lengths; i++)
        total += n->lengths[i] * n->job.n_depths * n->job.trials;
    n->bar = fg_progress_new(stderr, !n->cli->progress, "niah", (uint64_t)total, FG_PROGRESS_COUNT);
    int rc = fg_niah_run(&n->job, &n->result, err);
    fg_progress_end(n->bar, rc == 0 && !n->result.stopped);
    n->bar = NULL;
    if (rc == 0 && !n->cli->json) rc = print_table(n, err);
    if (rc == 0) rc = json_report(n, err);
    int sig = fg_signals_pending();
    return rc == 0 && n->result.stopped && sig ? fg_signals_exit_code(sig) : rc;
}

static int run_niah(struct fg_cli *cli, struct fg_error *err)
{
    struct niah n = {.cli = cli};
    int rc = take_lists(&n, err);
    if (rc == 0) rc = fg_cli_eval_report_check(cli, err);
    if (rc) return rc;
    fg_signals_catch();
    rc = fg_cli_engine(cli, FG_CLI_ALL, &n.engine, err);
    if (rc == 0) make_job(&n);
    if (rc == 0) rc = fg_cli_eval_identify(cli, &n.identity, err);
    if (rc == 0) rc = evaluate(&n, err);
    int sig = fg_signals_pending();
    fg_niah_free(&n.result);
    forge_engine_close(n.engine);
    return rc == FG_EINTERRUPTED && sig ? fg_signals_exit_code(sig) : rc;
}

static const struct fg_opt options[] = {
    {.name = "lengths",
     .kind = FG_OPT_TEXT,
     .value = "LIST",
     .def_note = "the contexts up to --ctx",
     .group = "Prompts",
     .help = "tokens of prompt and reply together, as 4K,8K"},
    {.name = "depths",
     .kind = FG_OPT_TEXT,
     .value = "LIST",
     .def = "10,50,90",
     .group = "Prompts",
     .help = "where the fact stands, in percent of the text before it"},
    {.name = "trials",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "3",
     .min = 1,
     .max = 1000,
     .group = "Prompts",
     .help = "texts per length and depth, of seeds that follow each other"},
    {.name = "seed",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "1",
     .min = 0,
     .max = INT64_MAX - 1000,
     .group = "Prompts",
     .help = "of the first text"},
    {.name = "reply",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "64",
     .min = 1,
     .max = 4096,
     .group = "Prompts",
     .help = "longest reply, in tokens"},
    {.name = "raw",
     .kind = FG_OPT_FLAG,
     .group = "Prompts",
     .help = "no chat template, as with models that have none: the model continues a sentence"},
    {0},
};
static const struct fg_opt *const tables[] = {options,
                                              fg_opts_eval_report,
                                              fg_opts_model,
                                              fg_opts_memory,
                                              fg_opts_numerics_exact,
                                              fg_opts_template,
                                              fg_opts_ctx,
                                              fg_opts_kv,
                                              NULL};
static const char *const examples[] = {
    "forge eval niah -m model/ --lengths 4K,8K",
    "forge eval niah -m model/ --lengths 8K --kv-cache-dtype v8 --numerics fast --json", NULL};

const struct fg_command fg_cmd_eval_niah = {
    .name = "niah",
    .group = "Measure",
    .summary = "find a fact in long prompts",
    .about = "Prompts are sentences of a small grammar, the same for a seed everywhere, with one "
             "access code that is asked for and three that are not. Replies are greedy, without "
             "thinking; a reply is exact when it is the code and nothing else. The probability of "
             "the right answer tells models apart that never give it. Ctrl-C ends it and reports "
             "what is done.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_niah,
};
