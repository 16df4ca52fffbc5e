// cli/eval_kl_compare.c: `forge eval kl compare`: two reports on the same positions (specs:
// quantization 7.1, 7.2).
#include "cli/eval.h"
#include "eval/klk_summary.h"
#include "eval/teacher.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct compare {
    struct fg_cli *cli;
    struct fg_klk_summary a, b;
    struct fg_klk_comparison c;
};

// Is the interval on one side of 0?
static const char *verdict(const struct fg_interval *change)
{
    return change->hi < 0 ? "better" : change->lo > 0 ? "worse" : "undecided";
}

static void print_change(const char *what, const struct fg_klk_change *c)
{
    if (c->sequences == 0) return;
    printf("%-16.16s %5" PRId64 " %9" PRId64
           " %10.6f %10.6f %+9.4g%% [%+9.4g%%, %+9.4g%%] %6" PRId64 " %6" PRId64 "  %s\n",
           what, c->sequences, c->positions, c->mean_a, c->mean_b, 100 * c->change.value,
           100 * c->change.lo, 100 * c->change.hi, c->better, c->worse, verdict(&c->change));
}

static int print_table(const struct compare *p, struct fg_error *err)
{
    const struct fg_klk_direct *d = &p->c.direct;
    printf("a  %s: %s, %s numerics, %s\nb  %s: %s, %s numerics, %s\n\n", p->a.dir, p->a.model,
           p->a.numerics, p->a.kv_cache, p->b.dir, p->b.model, p->b.numerics, p->b.kv_cache);
    printf("%-16s %5s %9s %10s %10s %10s %-24s %6s %6s\n", "", "seqs", "positions", "KL of a",
           "KL of b", "change", " 95 % interval", "better", "worse");
    print_change("all", &p->c.all);
    for (int i = 0; i < p->a.n_domains; i++)
        print_change(p->a.domains[i].name, &p->c.domains[i]);
    if (d->known)
        printf("\nKL(a || b): mean %.6f [%.6f, %.6f], median %.3e, p99 %.3e, max %.3e\n",
               d->mean.value, d->mean.lo, d->mean.hi, d->median, d->p99, d->max);
    return fg_out_flush(err);
}

static void json_change(struct fg_jwrite *w, const char *key, const struct fg_klk_change *c)
{
    if (c->sequences == 0) return;
    fg_jwrite_object(w, key);
    fg_jwrite_int(w, "sequences", c->sequences);
    fg_jwrite_int(w, "positions", c->positions);
    fg_jwrite_num(w, "mean_kl_a", c->mean_a);
    fg_jwrite_num(w, "mean_kl_b", c->mean_b);
    fg_jwrite_num(w, "change", c->change.value);
    fg_jwrite_array(w, "change_ci95");
    fg_jwrite_num(w, NULL, c->change.lo);
    fg_jwrite_num(w, NULL, c->change.hi);
    fg_jwrite_end_array(w);
    fg_jwrite_int(w, "better", c->better);
    fg_jwrite_int(w, "worse", c->worse);
    fg_jwrite_str(w, "verdict", verdict(&c->change));
    fg_jwrite_end_object(w);
}

static void json_side(struct fg_jwrite *w, const char *key, const struct fg_klk_summary *s)
{
    fg_jwrite_object(w, key);
    fg_jwrite_str(w, "report", s->dir);
    fg_jwrite_str(w, "model", s->model);
    fg_jwrite_str(w, "model_digest", s->model_digest);
    fg_jwrite_str(w, "numerics", s->numerics);
    fg_jwrite_str(w, "kv_cache", s->kv_cache);
    fg_jwrite_uint(w, "size_bytes", s->bytes);
    fg_jwrite_num(w, "mean_kl", s->all.mean.value);
    fg_jwrite_end_object(w);
}

static int json_report(const struct compare *p, uint64_t seed, struct fg_error *err)
{
    const struct fg_klk_direct *d = &p->c.direct;
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    fg_eval_report_head(&w, "kl_compare");
    json_side(&w, "a", &p->a);
    json_side(&w, "b", &p->b);
    fg_jwrite_str(&w, "trace_sha256", p->a.trace);
    fg_jwrite_str(&w, "reference_sha256", p->a.reference);
    fg_jwrite_int(&w, "topk", p->a.k);
    fg_jwrite_int(&w, "resamples", FG_BOOTSTRAP_RESAMPLES);
    fg_jwrite_uint(&w, "seed", seed);
    json_change(&w, "all", &p->c.all);
    fg_jwrite_object(&w, "domains");
    for (int i = 0; i < p->a.n_domains; i++)
        json_change(&w, p->a.domains[i].name, &p->c.domains[i]);
    fg_jwrite_end_object(&w);
    if (d->known) {
        fg_jwrite_object(&w, "direct");
        fg_jwrite_num(&w, "mean_kl", d->mean.value);
        fg_jwrite_array(&w, "mean_kl_ci95");
        fg_jwrite_num(&w, NULL, d->mean.lo);
        fg_jwrite_num(&w, NULL, d->mean.hi);
        fg_jwrite_end_array(&w);
        fg_jwrite_num(&w, "median_kl", d->median);
        fg_jwrite_num(&w, "p99_kl", d->p99);
        fg_jwrite_num(&w, "max_kl", d->max);
        fg_jwrite_end_object(&w);
    }
    return fg_cli_eval_report(p->cli, &w, err);
}

// The two directories, as arguments or as options.
static int take_dirs(const struct fg_args *args, const char *dirs[2], struct fg_error *err)
{
    static const char *const names[] = {"a", "b"};
    for (int i = 0; i < 2; i++) {
        const char *given = fg_args_text(args, names[i]);
        dirs[i] = given ? given : i < args->n_rest ? args->rest[i] : NULL;
        if (!dirs[i] || (given && args->n_rest))
            return fg_fail(err, FG_EINPUT, "arguments", NULL, NULL,
                           "two report directories, or --a and --b", "%s",
                           given ? "both"
                           : i   ? "one"
                                 : "none");
    }
    return 0;
}

// The reports are of this cache.
static int check_teacher(const struct compare *p, const char *dir, struct fg_error *err)
{
    struct fg_teacher *t;
    int rc = fg_teacher_open(&t, dir, err);
    if (rc) return rc;
    const char *is = fg_teacher_facts(t)->sha256;
    if (strcmp(is, p->a.reference) != 0)
        rc = fg_fail(err, FG_EINTEGRITY, "compare", p->a.dir, "reference_sha256", is, "%s",
                     p->a.reference);
    fg_teacher_close(t);
    return rc;
}

static int run_compare(struct fg_cli *cli, struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    const char *teacher = fg_args_text(args, "teacher"), *dirs[2] = {NULL, NULL};
    uint64_t seed = (uint64_t)fg_args_int(args, "seed");
    struct compare p = {.cli = cli};
    int rc = take_dirs(args, dirs, err);
    if (!rc) rc = fg_cli_eval_report_check(cli, err);
    if (!rc) rc = fg_klk_summary_open(&p.a, dirs[0], err);
    if (!rc) rc = fg_klk_summary_open(&p.b, dirs[1], err);
    if (!rc && teacher) rc = check_teacher(&p, teacher, err);
    if (!rc) rc = fg_klk_compare(&p.c, &p.a, &p.b, seed, err);
    if (!rc && !cli->json) rc = print_table(&p, err);
    if (!rc) rc = json_report(&p, seed, err);
    fg_klk_summary_free(&p.a);
    fg_klk_summary_free(&p.b);
    free(p.c.domains);
    return rc;
}

static const struct fg_opt options[] = {
    {.name = "a",
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .group = "Comparison",
     .help = "the first report, instead of an argument"},
    {.name = "b", .kind = FG_OPT_PATH, .value = "DIR", .group = "Comparison", .help = "the second"},
    {.name = "teacher",
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .group = "Comparison",
     .help = "make sure that both are against this cache"},
    {.name = "seed",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "0",
     .min = 0,
     .max = INT64_MAX,
     .group = "Comparison",
     .help = "seed of the intervals"},
    {0},
};
static const struct fg_opt *const tables[] = {options, fg_opts_eval_report, NULL};
static const char *const examples[] = {"forge eval kl compare report-a/ report-b/",
                                       "forge eval kl compare --a report-a/ --b report-b/ --json",
                                       NULL};

const struct fg_command fg_cmd_eval_kl_compare = {
    .name = "compare",
    .group = "Measure",
    .summary = "two reports on the same positions against each other",
    .about = "The change of the mean KL from a to b, with a 95 % interval from resampling whole "
             "sequences, the same for both; b is called better or worse only where the interval "
             "excludes 0. KL(a || b) is on the teacher's tokens and the rest.",
    .args = "[A_DIR B_DIR]",
    .args_max = 2,
    .opts = tables,
    .examples = examples,
    .run = run_compare,
};
