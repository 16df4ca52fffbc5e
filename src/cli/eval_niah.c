// cli/eval_niah.c: `forge eval niah`: finding a fact in long prompts.
#include "cli/eval.h"
#include "base/progress.h"
#include "cli/model_args.h"
#include "eval/niah.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_MAX ((int64_t)1 << 31)
#define CELL 22  // characters of a cell of the table
#define REPLY 64 // tokens of the longest reply
#define REPLY_PER_CODE 24

// Where --lengths does not say: those of them that the context holds (specs: quantization 7.4).
static const int64_t lengths_usual[] = {8192, 16384, 32768, 65536, 131072, 196608};

struct niah {
    struct fg_cli *cli;
    struct forge_engine *engine;
    struct fg_eval_identity identity;
    struct fg_niah job;
    struct fg_niah_result result;
    struct fg_progress *bar;
    int64_t lengths[FG_EVAL_LIST_MAX];
    int depths[FG_EVAL_LIST_MAX];
    int32_t *ids; // of --text
    char ids_hex[FG_SHA256_HEX];
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
    int64_t depths[FG_EVAL_LIST_MAX] = {0};
    const char *lengths = fg_args_text(args, "lengths");
    n->job.multi = (int)fg_args_int(args, "multi");
    if (n->job.multi && fg_args_given(args, "depths"))
        return fg_fail(err, FG_EINPUT, "option", NULL, "--depths",
                       "none with --multi, whose codes are spread over the text", "%s",
                       fg_args_text(args, "depths"));
    int rc = 0;
    if (!n->job.multi)
        rc = fg_cli_eval_list(fg_args_text(args, "depths"), "--depths", 0, 100, depths,
                              &n->job.n_depths, err);
    if (rc == 0 && lengths)
        rc = fg_cli_eval_list(lengths, "--lengths", 1, LENGTH_MAX, n->lengths, &n->job.n_lengths,
                              err);
    for (int i = 0; i < n->job.n_depths; i++)
        n->depths[i] = (int)depths[i];
    return rc;
}

static void usual_lengths(struct niah *n, const struct forge_engine_info *info)
{
    int64_t holds = n->job.side.session.capacity ? n->job.side.session.capacity
                                                 : info->entries[info->n_entries - 1];
    for (size_t i = 0; i < sizeof lengths_usual / sizeof *lengths_usual; i++) {
        if (lengths_usual[i] <= holds) n->lengths[n->job.n_lengths++] = lengths_usual[i];
    }
    if (n->job.n_lengths == 0) n->lengths[n->job.n_lengths++] = holds;
}

static void make_job(struct niah *n)
{
    const struct fg_args *args = &n->cli->args;
    struct forge_engine_info info;
    forge_engine_info(n->engine, &info);
    n->job.side.engine = n->engine;
    if (fg_args_given(args, "ctx")) n->job.side.session.capacity = info.ctx;
    if (n->job.n_lengths == 0) usual_lengths(n, &info);
    n->job.lengths = n->lengths;
    n->job.depths = n->job.multi ? NULL : n->depths;
    n->job.trials = (int)fg_args_int(args, "trials");
    n->job.seed = (uint64_t)fg_args_int(args, "seed");
    n->job.reply_max = fg_args_given(args, "reply") ? fg_args_int(args, "reply") : REPLY;
    if (!fg_args_given(args, "reply") && n->job.multi * REPLY_PER_CODE > REPLY)
        n->job.reply_max = n->job.multi * REPLY_PER_CODE;
    n->job.raw = fg_args_flag(args, "raw") || !info.chat_template;
    n->job.progress = on_progress;
    n->job.ctx = n;
}

static int read_text(struct niah *n, struct fg_error *err)
{
    const struct fg_args *args = &n->cli->args;
    const char *path = fg_args_text(args, "text");
    if (!path) return 0;
    struct fg_buf text = {0};
    size_t n_ids = 0;
    int rc = fg_cli_read_text(path, fg_args_flag(args, "replace-invalid"), &text, err);
    if (rc == 0) rc = forge_tokenize(n->engine, text.data, text.len, false, &n->ids, &n_ids, err);
    fg_buf_free(&text);
    if (rc) return rc;
    n->job.text = n->ids;
    n->job.n_text = (int64_t)n_ids;
    n->job.text_name = strcmp(path, "-") ? path : "standard input";
    bool hashed = fg_sha256_hex(n->ids, n_ids * sizeof *n->ids, n->ids_hex);
    return hashed ? 0 : fg_fail_memory(err, "token ids", n_ids * sizeof *n->ids);
}

// ---- report

static void json_fact(struct fg_jwrite *w, const struct fg_niah_fact *f)
{
    fg_jwrite_object(w, NULL);
    fg_jwrite_str(w, "key", f->needle.key);
    fg_jwrite_str(w, "code", f->needle.code);
    fg_jwrite_int(w, "haystack_at", f->hay_at);
    fg_jwrite_int(w, "prompt_at", f->at);
    fg_jwrite_bool(w, "found", f->found);
    fg_jwrite_end_object(w);
}

static void json_depth(struct fg_jwrite *w, int depth)
{
    if (depth >= 0)
        fg_jwrite_int(w, "depth", depth);
    else
        fg_jwrite_str(w, "depth", "spread");
}

static void json_case(struct fg_jwrite *w, const struct fg_niah_case *c)
{
    fg_jwrite_object(w, NULL);
    fg_jwrite_int(w, "length", c->length);
    json_depth(w, c->depth);
    fg_jwrite_uint(w, "seed", c->seed);
    fg_jwrite_int(w, "prompt_tokens", c->prompt_tokens);
    fg_jwrite_str(w, "prompt_sha256", c->prompt_hex);
    fg_jwrite_int(w, "haystack_tokens", c->hay_tokens);
    fg_jwrite_array(w, "facts");
    for (int i = 0; i < c->n_facts; i++)
        json_fact(w, &c->facts[i]);
    fg_jwrite_end_array(w);
    fg_jwrite_str(w, "reply", c->reply);
    fg_jwrite_int(w, "found", c->n_found);
    fg_jwrite_bool(w, "exact", c->exact);
    fg_jwrite_bool(w, "value", c->value);
    fg_jwrite_bool(w, "format", c->format);
    fg_jwrite_num(w, "answer_logprob", c->logprob);
    fg_jwrite_int(w, "answer_tokens", c->answer_tokens);
    fg_jwrite_num(w, "prompt_seconds", c->prompt_seconds);
    fg_jwrite_num(w, "reply_seconds", c->reply_seconds);
    fg_jwrite_end_object(w);
}

static void json_cell(struct fg_jwrite *w, int64_t length, int depth,
                      const struct fg_niah_cell *cell)
{
    fg_jwrite_object(w, NULL);
    fg_jwrite_int(w, "length", length);
    json_depth(w, depth);
    fg_jwrite_int(w, "cases", cell->cases);
    fg_jwrite_int(w, "exact", cell->exact);
    fg_jwrite_int(w, "value", cell->value);
    fg_jwrite_int(w, "format", cell->format);
    fg_jwrite_int(w, "found", cell->found);
    fg_jwrite_int(w, "codes", cell->codes);
    fg_jwrite_num(w, "answer_logprob", cell->logprob);
    fg_jwrite_end_object(w);
}

static int table_rows(const struct niah *n)
{
    return n->job.multi ? 1 : n->job.n_depths;
}

static int table_depth(const struct niah *n, int row)
{
    return n->job.multi ? -1 : n->depths[row];
}

static int json_report(const struct niah *n, struct fg_error *err)
{
    const struct fg_args *args = &n->cli->args;
    const struct fg_niah_result *r = &n->result;
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", r->stopped ? "stopped" : "ok");
    fg_eval_report_head(&w, "niah");
    fg_jwrite_str(&w, "note", FG_NIAH_NOTE);
    fg_eval_report_model(&w, fg_args_text(args, "model"), &n->identity, n->engine);
    fg_eval_report_side(&w, "settings", &n->job.side);
    fg_jwrite_str(&w, "text", fg_args_text(args, "text"));
    if (n->job.text_name) {
        fg_jwrite_str(&w, "text_tokens_sha256", n->ids_hex);
        fg_jwrite_int(&w, "text_tokens", n->job.n_text);
    }
    fg_jwrite_bool(&w, "raw", n->job.raw);
    fg_jwrite_int(&w, "codes", n->job.multi ? n->job.multi : 1);
    fg_jwrite_int(&w, "reply_max", n->job.reply_max);
    fg_jwrite_int(&w, "trials", n->job.trials);
    fg_jwrite_uint(&w, "seed", n->job.seed);
    fg_jwrite_int(&w, "cases_planned", fg_niah_cases(&n->job));
    fg_jwrite_array(&w, "table");
    for (int i = 0; i < n->job.n_lengths; i++) {
        for (int d = 0; d < table_rows(n); d++) {
            struct fg_niah_cell cell = fg_niah_cell(r, n->lengths[i], table_depth(n, d));
            if (cell.cases) json_cell(&w, n->lengths[i], table_depth(n, d), &cell);
        }
    }
    fg_jwrite_end_array(&w);
    fg_jwrite_array(&w, "cases");
    for (int i = 0; i < r->n_cases; i++)
        json_case(&w, &r->cases[i]);
    fg_jwrite_end_array(&w);
    return fg_cli_eval_report(n->cli, &w, err);
}

static void print_cell(const struct niah *n, const struct fg_niah_cell *c)
{
    char text[96];
    if (n->job.multi)
        snprintf(text, sizeof text, "%d/%d %d/%d %8.3f", c->found, c->codes, c->exact, c->cases,
                 c->logprob);
    else
        snprintf(text, sizeof text, "%d/%d/%d/%d %8.3f", c->exact, c->value, c->format, c->cases,
                 c->logprob);
    printf(" %*s", CELL, c->cases ? text : "-");
}

static int print_table(const struct niah *n, struct fg_error *err)
{
    char side[96];
    printf("%s, %s\n", fg_eval_side_text(side, sizeof side, &n->job.side),
           n->job.raw ? "raw" : "chat");
    if (n->job.multi)
        printf("%d codes per prompt: those that replies hold, of all; replies that are all of them "
               "in order, of all; mean log probability of the right reply. By length.",
               n->job.multi);
    else
        printf("Replies that are the code, that hold it, that are seven digits, all; mean log "
               "probability of the code. By length and depth.");
    printf("\n" FG_NIAH_NOTE "\n\n%8s", "");
    for (int i = 0; i < n->job.n_lengths; i++)
        printf(" %*" PRId64, CELL, n->lengths[i]);
    printf("\n");
    for (int d = 0; d < table_rows(n); d++) {
        if (n->job.multi)
            printf("%8s", "spread");
        else
            printf("%7d%%", n->depths[d]);
        for (int i = 0; i < n->job.n_lengths; i++) {
            struct fg_niah_cell c = fg_niah_cell(&n->result, n->lengths[i], table_depth(n, d));
            print_cell(n, &c);
        }
        printf("\n");
    }
    return fg_out_flush(err);
}

static int evaluate(struct niah *n, struct fg_error *err)
{
    int64_t total = 0;
    for (int i = 0; i < n->job.n_lengths; i++)
        total += n->lengths[i] * table_rows(n) * n->job.trials;
    n->bar = fg_progress_new(stderr, n->cli->progress, "niah", (uint64_t)total, FG_PROGRESS_COUNT);
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
    if (rc == 0) rc = read_text(&n, err);
    if (rc == 0) make_job(&n);
    if (rc == 0) rc = fg_cli_eval_identify(cli, &n.identity, err);
    if (rc == 0) rc = evaluate(&n, err);
    int sig = fg_signals_pending();
    fg_niah_free(&n.result);
    forge_engine_close(n.engine);
    free(n.ids);
    return rc == FG_EINTERRUPTED && sig ? fg_signals_exit_code(sig) : rc;
}

static const struct fg_opt options[] = {
    {.name = "lengths",
     .kind = FG_OPT_TEXT,
     .value = "LIST",
     .def_note = "those of 8K,16K,32K,64K,128K,192K that --ctx, or else the model, holds",
     .group = "Prompts",
     .help = "tokens of prompt and reply together, as 4K,8K"},
    {.name = "depths",
     .kind = FG_OPT_TEXT,
     .value = "LIST",
     .def = "10,50,90",
     .group = "Prompts",
     .help = "where the fact stands, in percent of the haystack's tokens before it"},
    {.name = "multi",
     .kind = FG_OPT_INT,
     .value = "N",
     .def_note = "one code",
     .min = 2,
     .max = FG_NEEDLES_MAX,
     .group = "Prompts",
     .help = "codes in every prompt, spread evenly over it, all asked for in one reply"},
    {.name = "text",
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .def_note = "sentences of a small grammar",
     .group = "Prompts",
     .help = "the haystack: a text from its start, cut to the length; - is standard input"},
    {.name = "replace-invalid",
     .kind = FG_OPT_FLAG,
     .group = "Prompts",
     .help = "read bytes of --text that are not UTF-8 as U+FFFD"},
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
     .def_note = "64; with --multi 24 for every code, where that is more",
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
    "forge eval niah -m model/ --lengths 8K --kv-cache-dtype v8 --numerics fast --json",
    "forge eval niah -m model/ --lengths 16K --multi 6 --text book.txt", NULL};

const struct fg_command fg_cmd_eval_niah = {
    .name = "niah",
    .group = "Measure",
    .summary = "find a fact in long prompts",
    .about = "Prompts are a haystack with lines that give access codes, one that is asked for (or "
             "several) and three that are not, and a question. The haystack is sentences of a "
             "small grammar, the same for a seed everywhere, or a text. Each prompt starts from an "
             "empty cache. Replies are greedy, without thinking; a reply is exact when it is the "
             "code and nothing else. The probability of the right answer tells models apart that "
             "never give it. Not a RULER score. Ctrl-C ends it and reports what is done.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_niah,
};
