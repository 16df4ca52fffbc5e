// cli/corpus_prompts.c: `forge corpus prompts`: prompts from Forge's own templates.
#include "corpus/prompts.h"
#include "cli/corpus.h"
#include <string.h>

#define KINDS_MAX 16

struct count {
    const char *kind;
    size_t n;
};

static int count_kinds(const struct fg_prompts *p, struct count counts[KINDS_MAX])
{
    int n = 0;
    for (size_t i = 0; i < p->n; i++) {
        int k = 0;
        while (k < n && strcmp(counts[k].kind, p->item[i].kind) != 0)
            k++;
        if (k == KINDS_MAX) continue;
        if (k == n) counts[n++] = (struct count){p->item[i].kind, 0};
        counts[k].n++;
    }
    return n;
}

static int print_result(const struct fg_cli *cli, const struct fg_prompts *p, const char *out,
                        const char *set, struct fg_error *err)
{
    struct count counts[KINDS_MAX];
    struct fg_jwrite w = {0};
    char sha[FG_SHA256_HEX];
    int n = count_kinds(p, counts);
    if (!cli->json) {
        printf("%s: %zu prompts", out, p->n);
        for (int i = 0; i < n; i++)
            printf(", %zu %s", counts[i].n, counts[i].kind);
        printf("\n");
        return fg_out_flush(err);
    }
    if (!fg_prompts_digest(p, sha)) return fg_fail_memory(err, "prompts", p->n);
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    fg_jwrite_str(&w, "output", out);
    fg_jwrite_str(&w, "set", set);
    fg_jwrite_uint(&w, "prompts", p->n);
    fg_jwrite_object(&w, "kinds");
    for (int i = 0; i < n; i++)
        fg_jwrite_uint(&w, counts[i].kind, counts[i].n);
    fg_jwrite_end_object(&w);
    fg_jwrite_str(&w, "sha256", sha);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

static int run_prompts(struct fg_cli *cli, struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    const char *name = fg_args_text(args, "set"), *out = fg_args_text(args, "out");
    struct fg_prompts prompts;
    enum fg_prompt_set set = FG_PROMPTS_DEV;
    while (strcmp(fg_prompt_set_name(set), name) != 0) // one of the choices
        set++;
    int rc = 0;
    if (set == FG_PROMPTS_TRAIN) {
        rc = fg_prompts_train(&prompts, (uint64_t)fg_args_int(args, "seed"),
                              (size_t)fg_args_int(args, "n"), err);
    } else if (fg_args_given(args, "seed") || fg_args_given(args, "n")) {
        return fg_fail(err, FG_EINPUT, "options", NULL, fg_args_given(args, "n") ? "--n" : "--seed",
                       "none with --set: evaluation sets are fixed", "one");
    } else {
        rc = fg_prompts_eval(&prompts, set, err);
    }
    if (rc) return rc;
    rc = fg_prompts_write(out, &prompts, err);
    if (!rc) rc = print_result(cli, &prompts, out, name, err);
    fg_prompts_free(&prompts);
    return rc;
}

static const struct fg_opt options[] = {
    {.name = "out",
     .letter = 'o',
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .required = true,
     .group = "Prompts",
     .help = "where the prompts go, one JSON object per line"},
    {.name = "n",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "560",
     .min = 1,
     .max = FG_PROMPTS_MAX,
     .group = "Prompts",
     .help = "how many prompts"},
    {.name = "seed",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "7",
     .min = 0,
     .max = INT64_MAX,
     .group = "Prompts",
     .help = "the same seed gives the same prompts; fewer are the first of more"},
    {.name = "set",
     .kind = FG_OPT_CHOICE,
     .value = "SET",
     .def = "train",
     .choices = "train|dev|select|held|sealed",
     .group = "Prompts",
     .help = "for training, or those of an evaluation set: dev (64), select, held, sealed (128)"},
    {0},
};
static const struct fg_opt *const tables[] = {options, NULL};
static const char *const examples[] = {"forge corpus prompts --n 560 --out prompts.jsonl",
                                       "forge corpus prompts --set dev --out dev.jsonl", NULL};

const struct fg_command fg_cmd_corpus_prompts = {
    .name = "prompts",
    .group = "Make",
    .summary = "write prompts to sample a model on",
    .about = "Code in 30 languages, agents with tools, 22 human languages, mathematics, rare "
             "tokens: 30, 20, 20, 15 and 15 percent. No two are near duplicates, and none shares "
             "eight words in a row with a prompt of an evaluation set.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_prompts,
};
