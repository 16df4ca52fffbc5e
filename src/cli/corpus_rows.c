// cli/corpus_rows.c: `forge corpus rows`: rows of token ids from texts and conversations.
#include "corpus/rows_make.h"
#include "base/file.h"
#include "cli/corpus.h"
#include "cli/model_args.h"
#include "train/calib.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct rows_run {
    const struct fg_cli *cli;
    struct forge_engine *engine;
    struct fg_corpus_source sources[FG_CORPUS_SOURCES_MAX];
    char *paths[FG_CORPUS_SOURCES_MAX]; // what sources point to
    struct fg_corpus_source_facts facts[FG_CORPUS_SOURCES_MAX];
    struct fg_corpus_rows_job job;
    struct fg_rows rows, held;
    char sha256[FG_SHA256_HEX], held_sha256[FG_SHA256_HEX];
};

static bool stop(void *ctx)
{
    (void)ctx;
    return fg_signals_pending() != 0;
}

static int take_sources(struct rows_run *r, struct fg_error *err)
{
    const struct fg_opt_slot *from = fg_args_slot(&r->cli->args, "from");
    if (from->n_list == 0)
        return fg_fail(err, FG_EINPUT, "options", NULL, "--from", "FILE:N, once or more",
                       "nothing");
    if (from->n_list > FG_CORPUS_SOURCES_MAX)
        return fg_fail_range(err, "options", NULL, "--from", 1, FG_CORPUS_SOURCES_MAX,
                             from->n_list);
    for (int i = 0; i < from->n_list; i++) {
        struct fg_calib_source source;
        int rc = fg_calib_parse(&source, from->list[i], "--from", err);
        if (rc) return rc;
        char *path = fg_path_expand(source.path, r->cli->env("HOME"));
        free((char *)source.path);
        if (!path) return fg_fail_memory(err, "options", strlen(from->list[i]));
        r->paths[i] = path;
        r->sources[i] = (struct fg_corpus_source){path, source.n};
        r->job.n_sources = i + 1;
    }
    return 0;
}

static int take_options(struct rows_run *r, struct fg_error *err)
{
    const struct fg_args *args = &r->cli->args;
    r->job.sources = r->sources;
    r->job.seq = fg_args_int(args, "seq");
    r->job.holdout_every = fg_args_int(args, "holdout-every");
    r->job.split = fg_args_text(args, "split");
    r->job.seed = (uint64_t)fg_args_int(args, "seed");
    r->job.replace_invalid = fg_args_flag(args, "replace-invalid");
    r->job.stop = stop;
    if ((r->job.holdout_every > 0) != (fg_args_text(args, "holdout-out") != NULL))
        return fg_fail(err, FG_EINPUT, "options", NULL, "--holdout-every",
                       "together with --holdout-out", "one of the two");
    return take_sources(r, err);
}

static void json_source(const struct rows_run *r, struct fg_jwrite *w, int i)
{
    const struct fg_corpus_source_facts *f = &r->facts[i];
    fg_jwrite_object(w, NULL);
    fg_jwrite_str(w, "file", r->sources[i].path);
    fg_jwrite_str(w, "kind", fg_corpus_kind_name(f->kind));
    fg_jwrite_int(w, "rows", f->rows);
    fg_jwrite_int(w, "held_out", f->held);
    fg_jwrite_int(w, "pieces", f->documents);
    fg_jwrite_int(w, "tokens_read", f->tokens);
    fg_jwrite_end_object(w);
}

static int print_result(const struct rows_run *r, struct fg_error *err)
{
    const struct fg_args *args = &r->cli->args;
    struct fg_jwrite w = {0};
    if (!r->cli->json) {
        for (int i = 0; i < r->job.n_sources; i++) {
            const struct fg_corpus_source_facts *f = &r->facts[i];
            printf("%s: %s, %" PRId64 " rows", r->sources[i].path, fg_corpus_kind_name(f->kind),
                   f->rows);
            if (f->held) printf(", %" PRId64 " of them held out", f->held);
            printf("\n");
        }
        printf("%s: %" PRId64 " rows of %" PRId64 " tokens\n", fg_args_text(args, "out"), r->rows.n,
               r->rows.seq);
        if (r->held.n)
            printf("%s: %" PRId64 " rows\n", fg_args_text(args, "holdout-out"), r->held.n);
        return fg_out_flush(err);
    }
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    fg_jwrite_str(&w, "output", fg_args_text(args, "out"));
    fg_jwrite_str(&w, "sha256", r->sha256);
    fg_jwrite_int(&w, "rows", r->rows.n);
    fg_jwrite_int(&w, "seq", r->rows.seq);
    fg_jwrite_str(&w, "holdout_output", fg_args_text(args, "holdout-out"));
    fg_jwrite_str(&w, "holdout_sha256", r->held.n ? r->held_sha256 : NULL);
    fg_jwrite_int(&w, "holdout_rows", r->held.n);
    fg_jwrite_str(&w, "tokenizer_sha256", r->rows.facts.tokenizer_sha256);
    fg_jwrite_array(&w, "sources");
    for (int i = 0; i < r->job.n_sources; i++)
        json_source(r, &w, i);
    fg_jwrite_end_array(&w);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

static int make(struct rows_run *r, struct fg_error *err)
{
    const struct fg_args *args = &r->cli->args;
    const char *held_out = fg_args_text(args, "holdout-out");
    r->job.engine = r->engine;
    int rc = fg_corpus_rows_make(&r->rows, &r->held, r->facts, &r->job, err);
    if (!rc && held_out && r->held.n == 0)
        rc = fg_fail(err, FG_EINPUT, "corpus", NULL, "--holdout-every",
                     "at most the rows of a source", "%" PRId64, r->job.holdout_every);
    if (!rc) rc = fg_rows_write(fg_args_text(args, "out"), &r->rows, r->sha256, err);
    if (!rc && held_out) rc = fg_rows_write(held_out, &r->held, r->held_sha256, err);
    return rc ? rc : print_result(r, err);
}

static int run_rows(struct fg_cli *cli, struct fg_error *err)
{
    struct rows_run r = {.cli = cli};
    int rc = take_options(&r, err);
    if (!rc) {
        fg_signals_catch();
        rc = fg_cli_engine(cli, FG_CLI_TEXT, &r.engine, err);
    }
    if (!rc) rc = make(&r, err);
    int sig = fg_signals_pending();
    fg_rows_free(&r.rows);
    fg_rows_free(&r.held);
    forge_engine_close(r.engine);
    for (int i = 0; i < r.job.n_sources; i++)
        free(r.paths[i]);
    return rc == FG_EINTERRUPTED && sig ? fg_signals_exit_code(sig) : rc;
}

static const struct fg_opt options[] = {
    {.name = "from",
     .kind = FG_OPT_TEXTS,
     .value = "FILE:N",
     .group = "Rows",
     .help = "N rows from FILE, without :N all; given again: further sources, in order. .jsonl has "
             "lines with \"text\" or \"messages\", .safetensors and .npy rows, others text"},
    {.name = "out",
     .letter = 'o',
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .required = true,
     .group = "Rows",
     .help = "the rows, as safetensors"},
    {.name = "seq",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "1024",
     .min = 2,
     .max = 1 << 20,
     .group = "Rows",
     .help = "tokens per row"},
    {.name = "split",
     .kind = FG_OPT_TEXT,
     .value = "NAME",
     .def = "calib",
     .group = "Rows",
     .help = "what the file says that it is for"},
    {.name = "seed",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "0",
     .min = 0,
     .max = INT64_MAX,
     .group = "Rows",
     .help = "recorded in the file; nothing is drawn"},
    {.name = "holdout-every",
     .kind = FG_OPT_INT,
     .value = "K",
     .def_note = "none",
     .min = 2,
     .max = 1 << 20,
     .group = "Rows",
     .help = "every K-th row of a source goes to --holdout-out instead"},
    {.name = "holdout-out",
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .group = "Rows",
     .help = "the rows that are held out"},
    {.name = "replace-invalid",
     .kind = FG_OPT_FLAG,
     .group = "Rows",
     .help = "read bytes of texts that are not UTF-8 as U+FFFD"},
    {0},
};
static const struct fg_opt *const tables[] = {options, fg_opts_model, fg_opts_template, NULL};
static const char *const examples[] = {
    "forge corpus rows -m model/ --from book.txt:44 --from agents.jsonl:48 --out rows.safetensors",
    NULL};

const struct fg_command fg_cmd_corpus_rows = {
    .name = "rows",
    .group = "Make",
    .summary = "cut texts and conversations into rows of tokens",
    .about = "A text is tokenized as a whole and cut from its start. Conversations are rendered by "
             "the model's chat template; rows are taken from them in turn. Tool results are cut at "
             "6,000 characters. A last row that is not full is dropped.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_rows,
};
