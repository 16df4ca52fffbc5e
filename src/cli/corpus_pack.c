// cli/corpus_pack.c: `forge corpus pack`: generated sequences as rows or as a trace.
#include "corpus/pack.h"
#include "base/file.h"
#include "cli/corpus.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DIRS_MAX 64

struct pack_run {
    const struct fg_cli *cli;
    char *dirs[DIRS_MAX];
    struct fg_pack_job job;
    struct fg_pack_facts facts;
    struct fg_rows rows, held;
    struct fg_trace trace;
    char sha256[FG_SHA256_HEX], held_sha256[FG_SHA256_HEX];
};

static int take_options(struct pack_run *p, struct fg_error *err)
{
    const struct fg_args *args = &p->cli->args;
    const struct fg_opt_slot *from = fg_args_slot(args, "from");
    const char *trace = fg_args_text(args, "trace"), *out = fg_args_text(args, "out");
    const char *held = fg_args_text(args, "holdout-out");
    if (from->n_list < 1 || from->n_list > DIRS_MAX)
        return fg_fail(err, FG_EINPUT, "options", NULL, "--from", "1 to 64 directories", "%d",
                       from->n_list);
    if (!trace == !out)
        return fg_fail(err, FG_EINPUT, "options", NULL, "--out", "one of --out and --trace", "%s",
                       trace ? "both" : "none");
    p->job.holdout = fg_args_number(args, "holdout");
    if (out && (p->job.holdout > 0) != (held != NULL))
        return fg_fail(err, FG_EINPUT, "options", NULL, "--holdout-out",
                       "a file for held-out rows, or --holdout 0", "%s", held ? "both" : "neither");
    for (int i = 0; i < from->n_list; i++) {
        p->dirs[i] = fg_path_expand(from->list[i], p->cli->env("HOME"));
        if (!p->dirs[i]) return fg_fail_memory(err, "options", strlen(from->list[i]));
        p->job.n_dirs = i + 1;
    }
    p->job.dirs = (const char *const *)p->dirs;
    p->job.seq = fg_args_int(args, "seq");
    p->job.partial = fg_args_flag(args, "partial");
    p->job.split = fg_args_text(args, "split");
    if (!p->job.split) p->job.split = trace ? "select" : "train";
    return 0;
}

static int print_result(const struct pack_run *p, struct fg_error *err)
{
    const struct fg_args *args = &p->cli->args;
    const char *trace = fg_args_text(args, "trace"), *held = fg_args_text(args, "holdout-out");
    const char *out = trace ? trace : fg_args_text(args, "out");
    struct fg_jwrite w = {0};
    if (!p->cli->json) {
        if (trace)
            printf("%s: %" PRId64 " sequences, %" PRId64 " tokens\n", out, p->trace.n,
                   p->trace.total);
        else
            printf("%s: %" PRId64 " rows of %" PRId64 " tokens from %" PRId64 " sequences\n", out,
                   p->rows.n, p->rows.seq, p->facts.sequences - p->facts.held);
        if (held && !trace)
            printf("%s: %" PRId64 " rows from %" PRId64 " sequences\n", held, p->held.n,
                   p->facts.held);
        return fg_out_flush(err);
    }
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    fg_jwrite_str(&w, "output", out);
    fg_jwrite_str(&w, "sha256", p->sha256);
    fg_jwrite_int(&w, "sequences", p->facts.sequences);
    fg_jwrite_int(&w, "tokens", p->facts.tokens);
    if (!trace) {
        fg_jwrite_int(&w, "rows", p->rows.n);
        fg_jwrite_int(&w, "seq", p->rows.seq);
        fg_jwrite_str(&w, "holdout_output", held);
        fg_jwrite_str(&w, "holdout_sha256", held ? p->held_sha256 : NULL);
        fg_jwrite_int(&w, "holdout_sequences", p->facts.held);
        fg_jwrite_int(&w, "holdout_rows", p->held.n);
    }
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

static int make(struct pack_run *p, struct fg_error *err)
{
    const struct fg_args *args = &p->cli->args;
    const char *trace = fg_args_text(args, "trace"), *held = fg_args_text(args, "holdout-out");
    int rc;
    if (trace) {
        rc = fg_pack_trace(&p->trace, &p->facts, &p->job, err);
        return rc ? rc : fg_trace_write(trace, &p->trace, p->sha256, err);
    }
    rc = fg_pack_rows(&p->rows, &p->held, &p->facts, &p->job, err);
    if (!rc && held && p->held.n == 0) {
        char expected[64];
        snprintf(expected, sizeof expected, "held-out sequences of %" PRId64 " tokens", p->job.seq);
        rc = fg_fail(err, FG_EINPUT, "pack", NULL, "--holdout", expected,
                     "%" PRId64 " of %" PRId64 " sequences, no full row", p->facts.held,
                     p->facts.sequences);
        fg_error_hint(err, "a larger --holdout, or --holdout 0");
    }
    if (!rc) rc = fg_rows_write(fg_args_text(args, "out"), &p->rows, p->sha256, err);
    if (!rc && held) rc = fg_rows_write(held, &p->held, p->held_sha256, err);
    return rc;
}

static int run_pack(struct fg_cli *cli, struct fg_error *err)
{
    struct pack_run p = {.cli = cli};
    int rc = take_options(&p, err);
    if (!rc) rc = make(&p, err);
    if (!rc) rc = print_result(&p, err);
    fg_rows_free(&p.rows);
    fg_rows_free(&p.held);
    fg_trace_free(&p.trace);
    for (int i = 0; i < p.job.n_dirs; i++)
        free(p.dirs[i]);
    return rc;
}

static const struct fg_opt options[] = {
    {.name = "from",
     .kind = FG_OPT_TEXTS,
     .value = "DIR",
     .group = "Pack",
     .help = "what forge corpus generate made; given again: further directories, in order"},
    {.name = "out",
     .letter = 'o',
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .group = "Pack",
     .help = "the rows, as safetensors"},
    {.name = "holdout-out",
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .group = "Pack",
     .help = "the rows of sequences that are held out"},
    {.name = "trace",
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .group = "Pack",
     .help = "write all sequences as a trace instead, with their kinds as labels"},
    {.name = "seq",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "1024",
     .min = 2,
     .max = 1 << 20,
     .group = "Pack",
     .help = "tokens per row"},
    {.name = "holdout",
     .kind = FG_OPT_NUMBER,
     .value = "X",
     .def = "0.05",
     .low = 0,
     .high = 0.9,
     .group = "Pack",
     .help = "share of the sequences that are held out, by a hash of their prompts"},
    {.name = "split",
     .kind = FG_OPT_TEXT,
     .value = "NAME",
     .def_note = "train, of a trace select",
     .group = "Pack",
     .help = "what the file says that it is for"},
    {.name = "partial",
     .kind = FG_OPT_FLAG,
     .group = "Pack",
     .help = "take what there is of a run that has not finished"},
    {0},
};
static const struct fg_opt *const tables[] = {options, NULL};
static const char *const examples[] = {
    "forge corpus pack --from samples/ --out train.safetensors --holdout-out valid.safetensors",
    "forge corpus pack --from samples/ --trace select.safetensors", NULL};

const struct fg_command fg_cmd_corpus_pack = {
    .name = "pack",
    .group = "Make",
    .summary = "pack generated sequences into rows, or into a trace",
    .about = "Sequences follow each other in rows. Those that are held out are packed apart, so no "
             "sequence is in both files. A last row that is not full is dropped.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_pack,
};
