// cli/corpus_evalset.c: `forge corpus evalset`: a set of evaluation, with a model's own answers.
#include "corpus/evalset.h"
#include "base/progress.h"
#include "cli/corpus.h"
#include "cli/job_args.h"
#include "cli/model_args.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int print_result(const struct fg_cli_sampler *s, const struct fg_trace *t,
                        const struct fg_generate_result *r, const char *out, struct fg_error *err)
{
    struct fg_jwrite w = {0};
    int64_t counts[FG_ROWS_LABELS_MAX] = {0}, positions = t->total - t->n;
    for (int64_t i = 0; i < t->n; i++)
        counts[t->label[i]]++;
    if (!s->cli->json) {
        printf("%s: %" PRId64 " sequences, %" PRId64 " positions", out, t->n, positions);
        for (int i = 0; i < t->n_labels; i++)
            printf(", %" PRId64 " %s", counts[i], t->labels[i]);
        printf("\n");
        return fg_out_flush(err);
    }
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    fg_jwrite_str(&w, "output", out);
    fg_jwrite_str(&w, "set", fg_args_text(&s->cli->args, "set"));
    fg_jwrite_str(&w, "sha256", t->sha256);
    fg_jwrite_str(&w, "model_digest", s->identity.hex);
    fg_jwrite_str(&w, "tokenizer_sha256", t->facts.tokenizer_sha256);
    fg_jwrite_int(&w, "positions", positions);
    fg_jwrite_int(&w, "longest", t->longest);
    fg_jwrite_object(&w, "domains");
    for (int i = 0; i < t->n_labels; i++)
        fg_jwrite_int(&w, t->labels[i], counts[i]);
    fg_jwrite_end_object(&w);
    fg_cli_sampler_json(&w, r);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

static int run_evalset(struct fg_cli *cli, struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    const char *name = fg_args_text(args, "set"), *out = fg_args_text(args, "out");
    const char *work = fg_args_text(args, "work");
    struct fg_cli_sampler s;
    struct fg_evalset_job job = {.out = out};
    struct fg_generate_result result;
    struct fg_trace trace = {0};
    char *beside = NULL;
    if (!work && asprintf(&beside, "%s.work", out) < 0)
        return fg_fail_memory(err, "evalset", strlen(out));
    int rc = fg_cli_sampler_open(&s, cli, err);
    while (strcmp(fg_prompt_set_name(job.set), name) != 0) // one of the choices
        job.set++;
    if (!rc) {
        s.job.dir = work ? work : beside;
        s.job.max_new = fg_args_int(args, "max-new");
        job.generate = s.job;
        size_t n = job.set == FG_PROMPTS_DEV ? 64 : 128;
        s.bar = fg_progress_new(stderr, s.job.dry_run ? FG_PROGRESS_NONE : cli->progress, "evalset",
                                n, FG_PROGRESS_COUNT);
        rc = fg_evalset_make(&job, &result, &trace, err);
        fg_progress_end(s.bar, rc == 0);
        if (!rc)
            rc = s.job.dry_run ? fg_cli_sampler_dry(&s, n, &result, err)
                               : print_result(&s, &trace, &result, out, err);
    }
    fg_trace_free(&trace);
    fg_cli_sampler_close(&s);
    free(beside);
    return fg_cli_sampler_exit(rc);
}

static const struct fg_opt options[] = {
    {.name = "set",
     .kind = FG_OPT_CHOICE,
     .value = "SET",
     .required = true,
     .choices = "dev|select|held|sealed",
     .group = "Set",
     .help = "dev: 64 prompts; select, held, sealed: 128 each. All differ, and from those of "
             "forge corpus prompts"},
    {.name = "out",
     .letter = 'o',
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .required = true,
     .group = "Set",
     .help = "the trace, as safetensors"},
    {.name = "work",
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .def_note = "FILE.work",
     .group = "Set",
     .help = "where sequences are kept, for runs that are stopped"},
    {.name = "max-new",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "768",
     .min = 1,
     .max = 1 << 20,
     .group = "Set",
     .help = "longest reply, in tokens"},
    {0},
};
static const struct fg_opt *const tables[] = {options,          fg_opts_corpus_sample,
                                              fg_opts_resume,   fg_opts_model,
                                              fg_opts_memory,   fg_opts_numerics_fast,
                                              fg_opts_template, fg_opts_ctx,
                                              fg_opts_kv,       NULL};
static const char *const examples[] = {
    "forge corpus evalset -m model/ --set dev --out dev.safetensors", NULL};

const struct fg_command fg_cmd_corpus_evalset = {
    .name = "evalset",
    .group = "Make",
    .summary = "make a set of evaluation from a model's own answers",
    .about = "Prompts of code, mathematics, science, writing, agents, other languages and long "
             "reasoning, and what the model answers. The trace is what forge teacher and forge "
             "eval kl read; its labels are the domains. Stopped or killed, the same command goes "
             "on.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_evalset,
};
