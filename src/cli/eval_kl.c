// cli/eval_kl.c: `forge eval kl`: how far a model is from a reference (specs: quantization 7).
#include "base/buf.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/thread.h"
#include "cli/eval.h"
#include "cli/job_args.h"
#include "cli/model_args.h"
#include "cli/provenance.h"
#include "eval/klk_summary.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define EXECUTION_MAX 1e-3 // nats: `fast` above it is no default (7.6)

// A side that is opened as the measurement needs it.
struct setting {
    char *model;
    const char *numerics; // "fast", "exact"
    const char *kv;       // as --kv-cache-dtype
};

struct kl {
    struct fg_cli *cli;
    struct setting student; // copies: opening a side sets the options anew
    char *reference;        // NULL: none
    const char *out;
    struct fg_teacher *teacher;
    struct fg_eval_set set;
    struct fg_eval_identity identity, ref_identity;
    char tokenizer[FG_SHA256_HEX];
    struct fg_model_size size;
    struct fg_buf command;
    struct fg_pool *pool;
    struct fg_progress *bar;
};

static int on_progress(void *ctx, int64_t done, int64_t total)
{
    struct kl *k = ctx;
    (void)total;
    fg_progress_set(k->bar, (uint64_t)done, NULL);
    return fg_signals_pending() != 0;
}

static bool stop(void *ctx)
{
    (void)ctx;
    return fg_signals_pending() != 0;
}

// ---- what is compared

static int check_options(const struct kl *k, struct fg_error *err)
{
    const struct fg_args *args = &k->cli->args;
    bool teacher = fg_args_given(args, "teacher"), full = fg_args_flag(args, "full");
    if (full && teacher)
        return fg_fail(err, FG_EINPUT, "option", NULL, "--full", "--reference, no --teacher",
                       "both");
    if (teacher == (k->reference != NULL))
        return fg_fail(err, FG_EINPUT, "option", NULL, "--teacher",
                       "a cache, or --reference with a model", "%s", teacher ? "both" : "none");
    if (full && !k->reference)
        return fg_fail(err, FG_EINPUT, "option", NULL, "--full", "--reference with a model",
                       "none");
    if (!teacher && fg_args_given(args, "topk"))
        return fg_fail(err, FG_EINPUT, "option", NULL, "--topk", "--teacher with it", "none");
    return 0;
}

static int open_side(struct kl *k, const struct setting *s, struct forge_engine **out,
                     struct fg_error *err)
{
    struct fg_args *args = &k->cli->args;
    int rc = fg_args_set(args, "model", s->model, "option", err);
    if (!rc) rc = fg_args_set(args, "numerics", s->numerics, "option", err);
    if (!rc) rc = fg_args_set(args, "kv-cache-dtype", s->kv, "option", err);
    return rc ? rc : fg_cli_engine(k->cli, FG_CLI_ALL, out, err);
}

// What needs an engine once: tokenizer, sequences.
static int take_set(struct kl *k, struct forge_engine *e, struct fg_error *err)
{
    const struct fg_opt_slot *trace = fg_args_slot(&k->cli->args, "trace");
    struct forge_engine_info info;
    if (k->set.n) return 0;
    forge_engine_info(e, &info);
    int rc = forge_tokenizer_digest(e, k->tokenizer, err);
    if (rc) return rc;
    return fg_eval_set_open(&k->set, trace->list, trace->n_list, info.vocab, k->tokenizer, err);
}

// ---- one measurement

struct measure {
    const char *name; // for progress
    char *out;
    struct forge_engine *engine, *ref; // ref NULL: the teacher's cache
    const char *kv, *ref_kv;           // of their sessions
    const char *ref_model, *ref_digest;
};

static int measure(struct kl *k, const struct measure *m, struct fg_error *err)
{
    const struct fg_args *args = &k->cli->args;
    const struct fg_eval_side ref = {.engine = m->ref, .session = {.kv_cache_dtype = m->ref_kv}};
    struct fg_klk_result result;
    struct fg_klk_job job = {
        .set = &k->set,
        .side = {.engine = m->engine, .session = {.kv_cache_dtype = m->kv}},
        .teacher = m->ref ? NULL : k->teacher,
        .reference = m->ref ? &ref : NULL,
        .rows = fg_args_int(args, "rows"),
        .skip_prefix = fg_args_int(args, "skip-prefix"),
        .answers_only = fg_args_flag(args, "answers-only"),
        .seqs = fg_args_int(args, "seqs"),
        .seed = (uint64_t)fg_args_int(args, "seed"),
        .out = m->out,
        .restart = fg_cli_restart(args),
        .model = k->student.model,
        .model_digest = k->identity.hex,
        .tokenizer = k->tokenizer,
        .reference_model = m->ref_model,
        .reference_digest = m->ref_digest,
        .command = k->command.data,
        .size = k->size,
        .pool = k->pool,
        .progress = on_progress,
        .ctx = k,
    };
    if (job.teacher) {
        job.topk = fg_teacher_facts(k->teacher)->k;
        if (fg_args_given(args, "topk")) job.topk = fg_args_int(args, "topk");
    }
    k->bar = fg_progress_new(stderr, k->cli->progress, m->name, (uint64_t)fg_klk_rows(&job),
                             FG_PROGRESS_COUNT);
    int rc = fg_klk_run(&job, &result, err);
    fg_progress_end(k->bar, rc == 0);
    k->bar = NULL;
    if (rc == FG_EINTEGRITY && err && !err->file[0] && strcmp(err->what, "teacher") == 0)
        snprintf(err->file, sizeof err->file, "%s", fg_args_text(args, "teacher"));
    return rc;
}

// ---- results

static void print_figures(const char *what, const struct fg_klk_figures *f)
{
    printf("%-16.16s %5" PRId64 " %9" PRId64 " %9.5f [%8.5f, %8.5f] %9.2e %9.2e %9.2e %9.2e "
           "%7.2f%% %9.4f %9.4f\n",
           what, f->sequences, f->positions, f->mean.value, f->mean.lo, f->mean.hi, f->median,
           f->p95, f->p99, f->max, 100 * f->top1, f->ppl, f->ref_ppl);
}

static void print_head(void)
{
    printf("\n%-16s %5s %9s %9s %-20s %9s %9s %9s %9s %8s %9s %9s\n", "", "seqs", "positions",
           "mean KL", " 95 % interval", "median", "p95", "p99", "max", "top-1", "ppl", "ref ppl");
}

static int print_summary(const struct kl *k, struct fg_error *err)
{
    struct fg_klk_summary s;
    char bytes[32], time[32], metric[32] = "KL, whole vocabulary";
    int rc = fg_klk_summary_open(&s, k->out, err);
    if (rc) return rc;
    if (!s.full) snprintf(metric, sizeof metric, "KL-%" PRId64, s.k);
    printf("%s%s%.12s, %s: %s numerics, %s\n", s.model, s.plan[0] ? ", plan " : "", s.plan,
           fg_format_bytes(bytes, sizeof bytes, s.bytes), s.numerics, s.kv_cache);
    printf("%s against %s, %s numerics, %s%s", metric,
           k->reference ? k->reference : fg_args_text(&k->cli->args, "teacher"), s.ref_numerics,
           s.ref_kv_cache, s.control ? "; control" : "");
    if (s.skip_prefix) printf("; without the first %" PRId64 " positions", s.skip_prefix);
    printf("%s\n", s.answers_only ? "; answers only" : "");
    print_head();
    print_figures("all", &s.all);
    for (int i = 0; i < s.n_domains; i++)
        print_figures(s.domains[i].name, &s.domains[i].f);
    printf("\nreport: %s, %s\n", k->out, fg_format_seconds(time, sizeof time, s.seconds));
    fg_klk_summary_free(&s);
    return fg_out_flush(err);
}

static int print_json(const struct kl *k, struct fg_error *err)
{
    struct fg_buf text = {0};
    char *path = fg_path_join(k->out, "summary.json");
    int rc = path ? fg_file_load(&text, path, 1u << 24, err) : fg_fail_memory(err, "report", 0);
    if (!rc) fwrite(text.data, 1, text.len, stdout);
    fg_buf_free(&text);
    free(path);
    return rc ? rc : fg_out_flush(err);
}

static int run_one(struct kl *k, struct fg_error *err)
{
    const struct setting ref = {.model = k->reference, .numerics = "exact", .kv = "auto"};
    char *out = strdup(k->out);
    struct measure m = {.name = "eval kl",
                        .out = out,
                        .ref_model = k->reference,
                        .ref_digest = k->ref_identity.hex};
    int rc = out ? open_side(k, &k->student, &m.engine, err) : fg_fail_memory(err, "report", 0);
    if (!rc && k->reference) rc = open_side(k, &ref, &m.ref, err);
    if (!rc) rc = take_set(k, m.engine, err);
    if (!rc) rc = measure(k, &m, err);
    forge_engine_close(m.engine);
    forge_engine_close(m.ref);
    free(out);
    if (rc) return rc;
    return k->cli->json ? print_json(k, err) : print_summary(k, err);
}

// ---- three errors, kept apart

static const struct cell {
    const char *name;
    const char *numerics, *kv, *ref_numerics, *ref_kv; // ref NULL: the teacher or the reference
} cells[] = {
    {"quantization", "exact", NULL, NULL, NULL},
    {"cache", "exact", "kv8", "exact", "fp16"},
    {"execution", "fast", "fp16", "exact", "fp16"},
};
#define N_CELLS ((int)(sizeof cells / sizeof cells[0]))

static int run_cell(struct kl *k, const struct cell *c, struct forge_engine *exact,
                    struct forge_engine *other, char *out, struct fg_error *err)
{
    bool self = c->ref_numerics != NULL, fast = strcmp(c->numerics, "fast") == 0;
    struct forge_engine_info info;
    forge_engine_info(exact, &info);
    const struct measure m = {.name = c->name,
                              .out = out,
                              .engine = fast ? other : exact,
                              .ref = self           ? exact
                                     : k->reference ? other
                                                    : NULL,
                              // What a build stores by default would add the error of the cache.
                              .kv = !c->kv && info.of_build ? "fp16" : c->kv,
                              .ref_kv = c->ref_kv,
                              .ref_model = self ? k->student.model : k->reference,
                              .ref_digest = self ? k->identity.hex : k->ref_identity.hex};
    return measure(k, &m, err);
}

static int matrix_result(const struct kl *k, const struct fg_klk_summary *s, struct fg_error *err)
{
    struct fg_jwrite w = {0};
    char *path = fg_path_join(k->out, "matrix.json");
    if (!path) return fg_fail_memory(err, "report", 0);
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    fg_eval_report_head(&w, "kl_matrix");
    fg_jwrite_str(&w, "model", k->student.model);
    fg_jwrite_str(&w, "model_digest", k->identity.hex);
    fg_jwrite_str(&w, "command", k->command.data);
    for (int i = 0; i < N_CELLS; i++) {
        const struct fg_klk_figures *f = &s[i].all;
        fg_jwrite_object(&w, cells[i].name);
        fg_jwrite_str(&w, "numerics", s[i].numerics);
        fg_jwrite_str(&w, "kv_cache", s[i].kv_cache);
        fg_jwrite_str(&w, "reference_numerics", s[i].ref_numerics);
        fg_jwrite_str(&w, "reference_kv_cache", s[i].ref_kv_cache);
        fg_jwrite_str(&w, "reference_sha256", s[i].reference);
        fg_jwrite_int(&w, "topk", s[i].k);
        fg_jwrite_int(&w, "positions", f->positions);
        fg_jwrite_num(&w, "mean_kl", f->mean.value);
        fg_jwrite_array(&w, "mean_kl_ci95");
        fg_jwrite_num(&w, NULL, f->mean.lo);
        fg_jwrite_num(&w, NULL, f->mean.hi);
        fg_jwrite_end_array(&w);
        fg_jwrite_num(&w, "median_kl", f->median);
        fg_jwrite_num(&w, "p99_kl", f->p99);
        fg_jwrite_num(&w, "top1", f->top1);
        fg_jwrite_end_object(&w);
    }
    fg_jwrite_num(&w, "execution_bound", EXECUTION_MAX);
    fg_jwrite_bool(&w, "execution_ok", s[2].all.mean.value < EXECUTION_MAX);
    fg_jwrite_end_object(&w);
    fg_buf_char(&w.buf, '\n');
    int rc = w.buf.failed ? fg_fail_memory(err, "report", w.buf.len)
                          : fg_file_replace(path, w.buf.data, w.buf.len, err);
    if (!rc && k->cli->json) {
        fwrite(w.buf.data, 1, w.buf.len, stdout);
        rc = fg_out_flush(err);
    }
    free(path);
    fg_jwrite_free(&w);
    return rc;
}

static int print_matrix(const struct kl *k, const struct fg_klk_summary *s, struct fg_error *err)
{
    char side[64], ref[64];
    printf("%-13s %-13s %-24s %9s %-20s %9s %9s %8s\n", "error", "model", "against", "mean KL",
           " 95 % interval", "median", "p99", "top-1");
    for (int i = 0; i < N_CELLS; i++) {
        const struct fg_klk_figures *f = &s[i].all;
        snprintf(side, sizeof side, "%s, %s", s[i].numerics, s[i].kv_cache);
        snprintf(ref, sizeof ref, "%s%s, %s",
                 cells[i].ref_numerics ? ""
                 : k->reference        ? "reference "
                                       : "teacher ",
                 s[i].ref_numerics, s[i].ref_kv_cache);
        printf("%-13s %-13s %-24s %9.3e [%8.2e, %8.2e] %9.2e %9.2e %7.2f%%\n", cells[i].name, side,
               ref, f->mean.value, f->mean.lo, f->mean.hi, f->median, f->p99, 100 * f->top1);
    }
    printf("\nexecution is %s %g nats\n",
           s[2].all.mean.value < EXECUTION_MAX ? "below" : "NOT below", EXECUTION_MAX);
    return fg_out_flush(err);
}

static int run_matrix(struct kl *k, struct fg_error *err)
{
    const struct setting exact = {k->student.model, "exact", "auto"},
                         fast = {k->student.model, "fast", "auto"},
                         ref = {k->reference, "exact", "auto"};
    struct forge_engine *e = NULL, *other = NULL;
    struct fg_klk_summary s[N_CELLS] = {0};
    int rc = open_side(k, &exact, &e, err);
    if (!rc) rc = take_set(k, e, err);
    if (!rc && k->reference) rc = open_side(k, &ref, &other, err);
    for (int i = 0; i < N_CELLS && !rc; i++) {
        if (i > 0 && other) { // at most two models in memory
            forge_engine_close(other);
            other = NULL;
        }
        if (strcmp(cells[i].numerics, "fast") == 0) rc = open_side(k, &fast, &other, err);
        char *out = fg_path_join(k->out, cells[i].name);
        if (!rc && !out) rc = fg_fail_memory(err, "report", 0);
        if (!rc) rc = run_cell(k, &cells[i], e, other, out, err);
        if (!rc) rc = fg_klk_summary_open(&s[i], out, err);
        free(out);
    }
    if (!rc && !k->cli->json) rc = print_matrix(k, s, err);
    if (!rc) rc = matrix_result(k, s, err);
    for (int i = 0; i < N_CELLS; i++)
        fg_klk_summary_free(&s[i]);
    forge_engine_close(e);
    forge_engine_close(other);
    return rc;
}

// ---- the command

static int prepare(struct kl *k, struct fg_error *err)
{
    const char *teacher = fg_args_text(&k->cli->args, "teacher");
    int threads = k->cli->threads ? k->cli->threads : fg_threads_default();
    int rc = fg_pool_new(&k->pool, threads, err);
    if (!rc && teacher) rc = fg_teacher_open(&k->teacher, teacher, err);
    if (!rc) rc = fg_klk_self_check(err);
    if (!rc) rc = fg_eval_identify(&k->identity, k->student.model, stop, NULL, err);
    if (!rc && k->reference) rc = fg_eval_identify(&k->ref_identity, k->reference, stop, NULL, err);
    if (!rc) rc = fg_model_size(&k->size, k->student.model, k->pool, err);
    fg_cli_command_line(&k->command);
    return rc;
}

static int run_kl(struct fg_cli *cli, struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    const char *reference = fg_args_text(args, "reference");
    struct kl k = {.cli = cli,
                   .student = {strdup(fg_args_text(args, "model")), fg_args_text(args, "numerics"),
                               fg_args_text(args, "kv-cache-dtype")},
                   .reference = reference ? strdup(reference) : NULL,
                   .out = fg_args_text(args, "out")};
    bool matrix = fg_args_flag(args, "matrix");
    int rc = k.student.model && (k.reference || !reference) ? check_options(&k, err)
                                                            : fg_fail_memory(err, "option", 0);
    fg_signals_catch();
    if (!rc) rc = prepare(&k, err);
    if (!rc) rc = matrix ? run_matrix(&k, err) : run_one(&k, err);
    int sig = fg_signals_pending();
    fg_teacher_close(k.teacher);
    fg_eval_set_free(&k.set);
    fg_pool_free(k.pool);
    fg_buf_free(&k.command);
    free(k.student.model);
    free(k.reference);
    return rc == FG_EINTERRUPTED && sig ? fg_signals_exit_code(sig) : rc;
}

static const struct fg_opt options[] = {
    {.name = "trace",
     .kind = FG_OPT_TEXTS,
     .value = "FILE",
     .required = true,
     .group = "Comparison",
     .help = "the sequences: a trace, or rows; given again: further files, in the order that the "
             "teacher had"},
    {.name = "teacher",
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .group = "Comparison",
     .help = "the reference as forge teacher keeps it, made from the same files"},
    {.name = "reference",
     .kind = FG_OPT_PATH,
     .value = "PATH",
     .group = "Comparison",
     .help = "a model as the reference instead, in exact numerics beside the other: KL over the "
             "whole vocabulary"},
    {.name = "full",
     .kind = FG_OPT_FLAG,
     .group = "Comparison",
     .help = "KL over the whole vocabulary; needs --reference, which implies it"},
    {.name = "answers-only",
     .kind = FG_OPT_FLAG,
     .group = "Comparison",
     .help = "score only what comes after the prompt"},
    {.name = "matrix",
     .kind = FG_OPT_FLAG,
     .group = "Comparison",
     .help = "three errors apart: quantization (exact against the reference), cache (kv8 against "
             "fp16), execution (fast against exact)"},
    {.name = "out",
     .letter = 'o',
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .required = true,
     .group = "Run",
     .help = "the report to write: new, empty, or of the same command"},
    {.name = "seed",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "0",
     .min = 0,
     .max = INT64_MAX,
     .group = "Run",
     .help = "seed of the intervals"},
    {0},
};
static const struct fg_opt *const tables[] = {
    options,    fg_opts_kl, fg_opts_resume, fg_opts_model, fg_opts_memory, fg_opts_numerics_exact,
    fg_opts_kv, NULL};
static const struct fg_command *const subcommands[] = {&fg_cmd_eval_kl_compare, NULL};
static const char *const examples[] = {
    "forge eval kl -m export/ --teacher dev-teacher/ --trace dev.safetensors --out report/",
    "forge eval kl -m export/ --reference model/ --full --trace dev.safetensors --out report/",
    "forge eval kl -m export/ --teacher dev-teacher/ --trace dev.safetensors --matrix -o matrix/",
    "forge eval kl compare report-a/ report-b/", NULL};

const struct fg_command fg_cmd_eval_kl = {
    .name = "kl",
    .group = "Measure",
    .summary = "how far a model is from a reference, position by position",
    .about = "KL of the reference from the model in nats: mean with its interval, quantiles, "
             "agreement of the likeliest token, perplexities; for each domain of the trace too. "
             "Stopped with Ctrl-C, or killed, it keeps the finished sequences; the same command "
             "goes on. A model against its own cache is the control, and must be 0.",
    .args = "",
    .opts = tables,
    .subs = subcommands,
    .examples = examples,
    .run = run_kl,
};
