// cli/bench.c: `forge bench`: speed beside the ceilings of this machine (specs: cli 15). What is
// measured and how is eval/bench.h's; here the line becomes a job, and its report is printed.
#include "cli/cli.h"
#include "base/file.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/thread.h"
#include "bundle/synth.h"
#include "cli/model_args.h"
#include "eval/bench.h"
#include <stdlib.h>
#include <string.h>

#define SIZES_MAX 32
#define CTX_MAX ((int64_t)1 << 20)
#define METER_BYTES ((uint64_t)1 << 30)
#define METER_SECONDS 0.1
#define QUICK_BYTES ((uint64_t)1 << 20)
#define QUICK_SECONDS 0.001
#define KERNEL_BYTES ((uint64_t)256 << 20)
#define ROWS 512 // of a forward call, as sessions have them

struct bench_job {
    struct fg_cli *cli;
    struct fg_bench bench;
    struct fg_bench_report report;
    struct forge_engine *engine, *second; // second: contention
    char *made;                           // directory of a synthetic bundle
    char *state_dir;                      // where builds are kept compiled
    const char *path;                     // of the model
    int64_t sizes[SIZES_MAX];
    int n_sizes;
    int64_t ctx; // context of the engine
    const struct measure *what;
};

struct measure {
    const char *name;
    const char *list;         // option that holds the sizes; NULL: none
    const char *list_default; // NULL: no sizes then
    bool needs_model;
    bool from_zero; // sizes may be 0
    bool memory;    // what is measured is memory: no ceilings, and nothing of ours in between
    // Positions that its sessions have; NULL: one.
    int64_t (*positions)(const struct fg_bench *b, const struct fg_bench_model *m);
    int (*run)(struct bench_job *j, struct fg_error *err);
};

static int on_stop(void *ctx)
{
    (void)ctx;
    return fg_signals_pending();
}

static void on_say(void *ctx, const char *what)
{
    const struct bench_job *j = ctx;
    fg_log_info(&j->cli->log, "%s", what);
}

// ---- lists

// "1,2,8" or "512,8K" into sizes, each in [min, max].
static int parse_sizes(struct bench_job *j, const char *text, const char *field, int64_t min,
                       int64_t max, struct fg_error *err)
{
    struct fg_opt one = {.name = field, .kind = FG_OPT_CONTEXT, .min = min, .max = max};
    j->n_sizes = 0;
    for (const char *at = text;; at++) {
        size_t n = strcspn(at, ",");
        char word[32];
        snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), at);
        if (j->n_sizes == SIZES_MAX)
            return fg_fail(err, FG_EINPUT, "option", NULL, field, "at most 32 numbers", "more");
        struct fg_opt_slot slot = {.opt = &one};
        int rc = fg_opt_parse(&slot, word, NULL, "option", field, err);
        if (rc) return rc;
        j->sizes[j->n_sizes++] = slot.i;
        at += n;
        if (!*at) return 0;
    }
}

static int take_sizes(struct bench_job *j, struct fg_error *err)
{
    const char *list = j->what->list;
    if (!list) return 0;
    const char *text = fg_args_text(&j->cli->args, list);
    char field[24];
    snprintf(field, sizeof field, "--%s", list);
    int64_t max = strcmp(list, "rows") == 0 ? 4096 : CTX_MAX;
    if (!text) text = j->what->list_default;
    return text ? parse_sizes(j, text, field, j->what->from_zero ? 0 : 1, max, err) : 0;
}

// ---- the model

struct synth_bar {
    const struct fg_cli *cli;
    const char *shape;
    struct fg_progress *bar; // made when there is something to do
};

static int on_synth(void *ctx, uint64_t done, uint64_t total, const char *item)
{
    struct synth_bar *b = ctx;
    if (!b->bar)
        b->bar = fg_progress_new(stderr, b->cli->progress, b->shape, total, FG_PROGRESS_BYTES);
    fg_progress_set(b->bar, done, item);
    return fg_signals_pending();
}

static int make_shape(struct bench_job *j, struct fg_error *err)
{
    struct fg_cli *cli = j->cli;
    const struct fg_args *args = &cli->args;
    const char *shape = fg_args_text(args, "shape"), *dir = fg_args_text(args, "dir");
    int rc = 0;
    if (!dir) {
        char *state, name[96];
        rc = fg_cli_state_dir(cli, true, &state, err);
        if (rc) return rc;
        snprintf(name, sizeof name, "bench/%s", shape);
        j->made = fg_path_join(state, name);
        free(state);
        if (!j->made) return fg_fail_memory(err, "path", sizeof name);
        dir = j->made;
    }
    struct fg_pool *pool;
    rc = fg_pool_new(&pool, cli->threads ? cli->threads : fg_threads_default(), err);
    if (rc) return rc;
    struct synth_bar bar = {cli, shape, NULL};
    struct fg_synth_options o = {.shape = shape,
                                 .dir = dir,
                                 .seed = (uint64_t)fg_args_int(args, "seed"),
                                 .pool = pool,
                                 .progress = on_synth,
                                 .ctx = &bar};
    rc = fg_synth_write(&o, NULL, err);
    fg_progress_end(bar.bar, rc == 0);
    fg_pool_free(pool);
    j->path = dir;
    j->report.shape = shape;
    j->report.seed = o.seed;
    return rc;
}

static int find_model(struct bench_job *j, struct fg_error *err)
{
    const struct fg_args *args = &j->cli->args;
    int rc = fg_args_exclusive(args, "model", "bundle", err);
    if (rc == 0) rc = fg_args_exclusive(args, "model", "shape", err);
    if (rc == 0) rc = fg_args_exclusive(args, "bundle", "shape", err);
    if (rc) return rc;
    if (fg_args_text(args, "shape")) return make_shape(j, err);
    j->path = fg_args_text(args, "model");
    if (!j->path) j->path = fg_args_text(args, "bundle");
    if (j->path || !j->what->needs_model) return 0;
    rc = fg_fail(err, FG_EINPUT, "option", NULL, "--model, --bundle or --shape", "a model",
                 "nothing");
    fg_error_hint(err, "forge bench --shape qwen3.8-27b writes a synthetic one of 13 GB");
    return rc;
}

static void on_line(void *ctx, const char *line)
{
    (void)ctx;
    fprintf(stderr, "%s\n", line);
}

static struct forge_engine_options engine_options(const struct bench_job *j, int threads)
{
    const struct fg_args *args = &j->cli->args;
    return (struct forge_engine_options){
        .model = j->path,
        .threads = threads,
        .isa = j->cli->isa,
        .numerics = strcmp(fg_args_text(args, "numerics"), "exact") == 0 ? FORGE_EXACT : FORGE_FAST,
        .model_only = true,
        .state_dir = j->state_dir,
        .compile_line = fg_args_flag(args, "quiet") ? NULL : on_line,
        .ctx = j->ctx,
        .kv_cache_dtype = fg_args_text(args, "kv-cache-dtype"),
        .copy_weights = strcmp(fg_args_text(args, "weights"), "copy") == 0,
        .allow_paging = fg_args_flag(args, "allow-paging"),
    };
}

static struct fg_bench_model model_of(const struct bench_job *j)
{
    const struct fg_args *args = &j->cli->args;
    return (struct fg_bench_model){
        .engine = j->engine,
        .sizes = j->sizes,
        .n_sizes = j->n_sizes,
        .ctx = fg_args_int(args, "at"),
        .real_history = strcmp(fg_args_text(args, "history"), "prompt") == 0,
        .tokens = fg_args_int(args, "tokens"),
        .block_rows = fg_args_int(args, "block"),
        .last_only = strcmp(fg_args_text(args, "logits"), "last") == 0,
    };
}

// ---- memory, before anything large is touched

static uint64_t meter_bytes(const struct bench_job *j)
{
    if (j->what->memory) return 0;
    return fg_args_flag(&j->cli->args, "quick") ? QUICK_BYTES : METER_BYTES;
}

static int64_t largest_size(const struct bench_job *j)
{
    int64_t most = 0;
    for (int i = 0; i < j->n_sizes; i++)
        most = j->sizes[i] > most ? j->sizes[i] : most;
    return most;
}

// Positions that the sessions of the job will have; 0: what the model's largest context has.
static int64_t positions_of(const struct bench_job *j)
{
    const struct fg_bench_model m = model_of(j);
    if (j->what->memory) return largest_size(j);
    return j->what->positions ? j->what->positions(&j->bench, &m) : 1;
}

static int ask_budget(struct bench_job *j, int64_t positions, struct fg_budget *b, int64_t *ctx,
                      struct fg_error *err)
{
    const struct fg_args *args = &j->cli->args;
    const struct fg_bench_asked asked = {.path = j->path,
                                         .positions = positions,
                                         .rows = ROWS,
                                         .kv_cache_dtype = fg_args_text(args, "kv-cache-dtype"),
                                         .fast =
                                             strcmp(fg_args_text(args, "numerics"), "fast") == 0,
                                         .threads = j->report.threads};
    int rc = fg_bench_budget(b, ctx, &asked, err);
    if (rc == FG_EINPUT) fg_cli_name_option(err);
    return rc;
}

// memory: the contexts that were named, or all that fit, with what the table says of them. *b and
// the engine's context are those of the largest.
static int list_contexts(struct bench_job *j, struct fg_budget *b, struct fg_error *err)
{
    struct fg_bench_report *r = &j->report;
    const int fits = fg_budget_largest(b);
    int64_t most = 0;
    for (int i = 0; i <= fits && j->n_sizes == 0; i++)
        r->memory[r->n_memory++] =
            (struct fg_bench_memory){.ctx = b->entries[i].ctx, .table = b->entries[i].total};
    for (int i = 0; i < j->n_sizes; i++) {
        struct fg_bench_memory *m = &r->memory[r->n_memory++];
        int rc = ask_budget(j, j->sizes[i], b, &m->ctx, err);
        if (rc) return rc;
        m->table = b->entries[b->n_entries - 1].total;
    }
    for (int i = 0; i < r->n_memory; i++)
        most = r->memory[i].ctx > most ? r->memory[i].ctx : most;
    return most ? ask_budget(j, most, b, &j->ctx, err) : 0;
}

static int tell_memory(struct bench_job *j, struct fg_error *err)
{
    struct fg_bench_report *r = &j->report;
    struct fg_budget budget;
    int rc = ask_budget(j, positions_of(j), &budget, &j->ctx, err);
    if (rc == 0 && j->what->memory) rc = list_contexts(j, &budget, err);
    if (rc) return rc;
    r->budget_bytes = fg_budget_need(&budget, budget.n_entries - 1) + meter_bytes(j);
    r->free_bytes = budget.available;
    char need[32], have[32], rss[32], weights[32];
    fg_format_bytes(need, sizeof need, r->budget_bytes);
    fg_format_bytes(have, sizeof have, r->free_bytes);
    if (!fg_args_flag(&j->cli->args, "quiet"))
        fprintf(stderr, "[bench] budget %s (weights %s), %s free, RSS %s\n", need,
                fg_format_bytes(weights, sizeof weights, budget.weights), have,
                fg_format_bytes(rss, sizeof rss, r->rss_before));
    if (r->budget_bytes <= r->free_bytes || fg_args_flag(&j->cli->args, "allow-paging")) return 0;
    rc = fg_fail(err, FG_ERESOURCE, "memory", j->path, NULL, have, "a need of %s", need);
    fg_error_hint(err, "--allow-paging runs it all the same, from disk");
    return rc;
}

static int open_engine(struct bench_job *j, struct fg_error *err)
{
    int rc = tell_memory(j, err);
    if (rc == 0) rc = fg_cli_state_dir(j->cli, true, &j->state_dir, err);
    if (rc) return rc;
    struct forge_engine_options o = engine_options(j, j->cli->threads);
    rc = fg_cli_open(&j->engine, &o, err);
    if (rc) return rc;
    struct forge_engine_info info;
    forge_engine_info(j->engine, &info);
    struct fg_bench_report *r = &j->report;
    r->isa = info.isa;
    r->threads = info.threads;
    r->numerics = info.numerics == FORGE_EXACT ? "exact" : "fast";
    r->kv = info.kv_cache_dtype;
    r->parameters = info.parameters;
    r->weight_bytes = info.weight_bytes;
    r->token_bytes = info.token_bytes;
    r->load_seconds = info.load_seconds;
    fg_bench_digest(r->digest, j->path);
    return 0;
}

// ---- measurements

static int run_rows(struct bench_job *j, struct fg_error *err)
{
    struct fg_bench_model m = model_of(j);
    return fg_bench_rows(&j->bench, &m, err);
}

static int run_prefill(struct bench_job *j, struct fg_error *err)
{
    struct fg_bench_model m = model_of(j);
    return fg_bench_prefill(&j->bench, &m, err);
}

static int run_decode(struct bench_job *j, struct fg_error *err)
{
    struct fg_bench_model m = model_of(j);
    return fg_bench_decode(&j->bench, &m, err);
}

static int run_memory(struct bench_job *j, struct fg_error *err)
{
    struct fg_bench_model m = model_of(j);
    return fg_bench_memory(&j->bench, &m, err);
}

static int run_contention(struct bench_job *j, struct fg_error *err)
{
    struct forge_engine_options o = engine_options(j, 1);
    int rc = forge_engine_open(&j->second, &o, err);
    struct fg_bench_model one = model_of(j);
    one.engine = j->second;
    return rc ? rc : fg_bench_contention(&j->bench, &one, j->engine, err);
}

static int close_again(void *ctx, struct fg_error *err)
{
    (void)err;
    struct bench_job *j = ctx;
    forge_engine_close(j->engine);
    j->engine = NULL;
    return 0;
}

static int open_again(void *ctx, struct fg_error *err)
{
    struct bench_job *j = ctx;
    struct forge_engine_options o = engine_options(j, j->cli->threads);
    return forge_engine_open(&j->engine, &o, err);
}

static int run_load(struct bench_job *j, struct fg_error *err)
{
    struct fg_bench_figure *f = fg_bench_add(&j->report, "load");
    if (!f) return fg_fail_memory(err, "report", sizeof *f);
    f->bytes = (double)j->report.weight_bytes;
    struct fg_bench_work work = {close_again, open_again, j, 1};
    return fg_bench_measure(&j->bench, &work, f, err);
}

static int run_kernels(struct bench_job *j, struct fg_error *err)
{
    const struct fg_kernels *k;
    int rc = fg_kernels_get(&k, j->cli->isa, err);
    bool quick = fg_args_flag(&j->cli->args, "quick");
    return rc ? rc
              : fg_bench_kernels(&j->bench, k, j->report.threads,
                                 quick ? QUICK_BYTES : KERNEL_BYTES, err);
}

static int64_t prefill_positions(const struct fg_bench *b, const struct fg_bench_model *m)
{
    (void)b;
    return fg_bench_prefill_positions(m);
}

static const struct measure measures[] = {
    {.name = "rows",
     .list = "rows",
     .list_default = "1,2,3,4,6,8,16,32,64",
     .needs_model = true,
     .positions = fg_bench_rows_positions,
     .run = run_rows},
    {.name = "prefill",
     .list = "ctx",
     .list_default = "512",
     .needs_model = true,
     .positions = prefill_positions,
     .run = run_prefill},
    {.name = "decode",
     .list = "ctx",
     .list_default = "0",
     .needs_model = true,
     .from_zero = true,
     .positions = fg_bench_decode_positions,
     .run = run_decode},
    {.name = "load", .needs_model = true, .run = run_load},
    {.name = "memory", .list = "ctx", .needs_model = true, .memory = true, .run = run_memory},
    {.name = "contention",
     .list = "ctx",
     .list_default = "0",
     .needs_model = true,
     .from_zero = true,
     .positions = fg_bench_decode_positions,
     .run = run_contention},
    {.name = "kernels", .run = run_kernels},
};

static int find_measure(struct bench_job *j, struct fg_error *err)
{
    const struct fg_args *args = &j->cli->args;
    const char *name = args->n_rest ? args->rest[0] : "rows";
    if (fg_args_flag(args, "contention")) name = "contention";
    for (size_t i = 0; i < sizeof measures / sizeof measures[0]; i++) {
        if (strcmp(measures[i].name, name) == 0) {
            j->what = &measures[i];
            return 0;
        }
    }
    char found[64];
    return fg_fail(err, FG_EINPUT, "arguments", NULL, NULL,
                   "kernels, rows, prefill, decode, memory, load or contention", "%s",
                   fg_escape(found, sizeof found, name, strlen(name)));
}

// ---- the whole

static int print_report(struct bench_job *j, struct fg_error *err)
{
    const struct fg_bench_report *r = &j->report;
    if (j->cli->json) {
        struct fg_jwrite w = {0};
        fg_bench_json(r, &w);
        return fg_out_json(&w, err);
    }
    if (fg_args_flag(&j->cli->args, "csv"))
        fg_bench_csv(r, stdout);
    else
        fg_bench_table(r, stdout);
    return fg_out_flush(err);
}

static int print_made(struct bench_job *j, struct fg_error *err)
{
    if (!j->cli->json) {
        printf("%s\n", j->path);
        return fg_out_flush(err);
    }
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    fg_jwrite_str(&w, "shape", j->report.shape);
    fg_jwrite_str(&w, "bundle", j->path);
    fg_jwrite_uint(&w, "seed", j->report.seed);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

static int measure(struct bench_job *j, struct fg_error *err)
{
    const struct fg_args *args = &j->cli->args;
    struct fg_bench_report *r = &j->report;
    bool quick = fg_args_flag(args, "quick");
    const struct fg_kernels *k;
    int rc = fg_kernels_get(&k, j->cli->isa, err);
    if (rc) return rc;
    r->isa = k->isa;
    r->threads = j->cli->threads ? j->cli->threads : fg_threads_default();
    r->numerics = fg_args_text(args, "numerics");
    r->command = j->what->name;
    r->model = j->path;
    r->runs = j->bench.runs = (int)fg_args_int(args, "runs");
    r->warmup = j->bench.warmup = (int)fg_args_int(args, "warmup");
    fg_bench_begin(r);
    if (j->what->needs_model) rc = open_engine(j, err);
    if (rc) return rc;
    bool before = j->what->from_zero ? largest_size(j) > 0 : fg_args_int(args, "at") > 0;
    if (j->what->positions && before)
        r->history = model_of(j).real_history ? "from a prompt" : "made up";
    j->bench.report = r;
    j->bench.roof_seconds = quick ? QUICK_SECONDS : METER_SECONDS;
    j->bench.stop = on_stop;
    j->bench.say = on_say;
    j->bench.ctx = j;
    if (!j->what->memory)
        rc = fg_roof_meter_new(&j->bench.meter, r->threads, r->isa, meter_bytes(j), err);
    if (rc == 0) rc = j->what->run(j, err);
    r->rss_after = fg_bench_rss();
    const char *baseline = fg_args_text(args, "baseline");
    if (rc == 0 && baseline) rc = fg_bench_baseline(r, baseline, err);
    return rc ? rc : print_report(j, err);
}

static int run_bench(struct fg_cli *cli, struct fg_error *err)
{
    struct bench_job j = {.cli = cli};
    int rc = find_measure(&j, err);
    if (rc == 0) rc = take_sizes(&j, err);
    if (rc) return rc;
    fg_signals_catch();
    rc = find_model(&j, err);
    bool only_make = fg_args_text(&cli->args, "shape") && !fg_args_flag(&cli->args, "run");
    if (rc == 0) rc = only_make ? print_made(&j, err) : measure(&j, err);
    int sig = fg_signals_pending();
    forge_engine_close(j.engine);
    forge_engine_close(j.second);
    fg_roof_meter_free(j.bench.meter);
    fg_bench_report_free(&j.report);
    free(j.made);
    free(j.state_dir);
    return rc == FG_EINTERRUPTED && sig ? fg_signals_exit_code(sig) : rc;
}

static const struct fg_opt options[] = {
    {.name = "model",
     .letter = 'm',
     .kind = FG_OPT_PATH,
     .value = "PATH",
     .group = "Model",
     .help = "a checkpoint directory or a GGUF file"},
    {.name = "bundle",
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .group = "Model",
     .help = "a bundle of packages"},
    {.name = "shape",
     .kind = FG_OPT_CHOICE,
     .value = "NAME",
     .choices = "qwen3.8-27b|tiny-hybrid",
     .group = "Model",
     .help = "a bundle of random weights in this shape, written once: qwen3.8-27b (13 GB on disk) "
             "or tiny-hybrid"},
    {.name = "dir",
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .def_note = "bench/NAME in the state directory",
     .group = "Model",
     .help = "where the bundle of --shape is or goes"},
    {.name = "seed",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "0",
     .min = 0,
     .max = INT64_MAX,
     .group = "Model",
     .help = "of the random weights"},
    {.name = "run",
     .kind = FG_OPT_FLAG,
     .def = "on",
     .listed_negative = true,
     .group = "Model",
     .help = "write the bundle of --shape and stop"},
    {.name = "rows",
     .kind = FG_OPT_TEXT,
     .value = "LIST",
     .def_note = "1,2,3,4,6,8,16,32,64",
     .group = "Measurement",
     .help = "rows: rows per call"},
    {.name = "at",
     .kind = FG_OPT_CONTEXT,
     .value = "N",
     .def = "0",
     .min = 0,
     .max = CTX_MAX,
     .group = "Measurement",
     .help = "rows, prefill: positions before each call"},
    {.name = "history",
     .kind = FG_OPT_CHOICE,
     .value = "HOW",
     .def = "made-up",
     .choices = "made-up|prompt",
     .group = "Measurement",
     .help =
         "positions before what is timed: made-up keys, values and states, or those of a prompt "
         "that is run; speed is the same"},
    {.name = "logits",
     .kind = FG_OPT_CHOICE,
     .value = "WHICH",
     .def = "all",
     .choices = "all|last",
     .group = "Measurement",
     .help = "rows: logits of all rows (of calls up to 16) or, as in a prompt, of the last"},
    {.name = "ctx",
     .kind = FG_OPT_TEXT,
     .value = "LIST",
     .def_note = "512 for prefill, 0 for decode, for memory all that fit",
     .group = "Measurement",
     .help = "prefill: lengths of prompts; decode, contention: positions before it; memory: "
             "contexts; as 512,8K"},
    {.name = "tokens",
     .letter = 'n',
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "16",
     .min = 1,
     .max = 1000000,
     .group = "Measurement",
     .help = "decode, contention: tokens per run"},
    {.name = "block",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "0",
     .min = 0,
     .max = 4096,
     .group = "Measurement",
     .help = "prefill: rows per forward call; 0 for the engine's own"},
    {.name = "contention",
     .kind = FG_OPT_FLAG,
     .group = "Measurement",
     .help = "decode beside a foreign busy thread: how much of the one-thread rate is kept"},
    {.name = "runs",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "5",
     .min = 1,
     .max = 10000,
     .group = "Measurement",
     .help = "of each figure; the median counts"},
    {.name = "warmup",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "1",
     .min = 0,
     .max = 1000,
     .group = "Measurement",
     .help = "runs before those"},
    {.name = "quick",
     .kind = FG_OPT_FLAG,
     .group = "Measurement",
     .help = "small buffers and short ceilings: to see that it works, not how fast"},
    {.name = "csv",
     .kind = FG_OPT_FLAG,
     .group = "Result",
     .help = "comma-separated values in place of the table"},
    {.name = "baseline",
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .group = "Result",
     .help = "an earlier result of --json; its times over ours become a column"},
    {0},
};
static const struct fg_opt *const tables[] = {options, fg_opts_memory, fg_opts_numerics_fast,
                                              fg_opts_kv, NULL};
static const char *const examples[] = {
    "forge bench kernels",
    "forge bench --shape qwen3.8-27b",
    "forge bench decode --bundle DIR --ctx 1K,64K --tokens 32 --json",
    "forge bench memory --bundle DIR --ctx 8K,64K",
    NULL,
};

const struct fg_command fg_cmd_bench = {
    .name = "bench",
    .group = "Measure",
    .summary = "measure speed beside the ceilings of this machine",
    .about =
        "WHAT is rows (calls of 1 to 64 rows; the default), prefill, decode, memory (of the "
        "process "
        "beside the budget, context by context), load (time to ready), contention, or kernels, "
        "which needs no model. Decoding at a context stands behind made-up keys, values and states "
        "(--history prompt runs a prompt instead). The rate of reading memory and of "
        "multiply-adds is measured before and after every run; shares are of their mean, and the "
        "median over the runs is what counts. A line is marked when the ceilings moved by more "
        "than 10 %. In the table, read is the share of reading, f32, i8 and amx those of "
        "multiply-adds in FP32, in INT8 on vectors and in INT8 on AMX; ratio is time beside the "
        "first line.",
    .args = "[WHAT]",
    .args_max = 1,
    .opts = tables,
    .examples = examples,
    .run = run_bench,
};
