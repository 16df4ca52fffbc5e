// cli/compile.c: `forge compile`: a build specialized for this machine (specs: cli 8, runtime 2.3).
// The lines say what happens; what happens is runtime/compile.c's.
#include "base/file.h"
#include "base/progress.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "eval/tune.h"
#include "runtime/compile_text.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// ---- events as JSON, one object per line

static const char *event_name(enum fg_compile_event_kind kind)
{
    switch (kind) {
    case FG_COMPILE_PLAN: return "plan";
    case FG_COMPILE_ESTIMATE: return "estimate";
    case FG_COMPILE_PACKAGE: return "compiling";
    case FG_COMPILE_HEARTBEAT: return "heartbeat";
    case FG_COMPILE_PACKAGE_DONE: return "compiled";
    case FG_COMPILE_PURGED: return "purged";
    case FG_COMPILE_CHANGED: return "changed";
    case FG_COMPILE_LOWER: return "lower_isa";
    case FG_COMPILE_WAITING: return "waiting";
    case FG_COMPILE_HASHING: return "hashing";
    case FG_COMPILE_TUNING: return "tuning";
    case FG_COMPILE_DONE: return "done";
    }
    return "";
}

static void entries_json(struct fg_jwrite *w, const struct fg_compile_plan *p)
{
    fg_jwrite_array(w, "entries");
    for (int i = 0; i < p->n_entries; i++) {
        fg_jwrite_object(w, NULL);
        fg_jwrite_int(w, "ctx", p->entries[i].ctx);
        fg_jwrite_int(w, "prefill_rows", p->entries[i].prefill_rows);
        fg_jwrite_uint(w, "scratch_bytes", p->entries[i].scratch_bytes);
        fg_jwrite_end_object(w);
    }
    fg_jwrite_end_array(w);
}

// What holds for the whole run, then what each kind fills.
static void event_fields(struct fg_jwrite *w, const struct fg_compile_event *e)
{
    fg_jwrite_str(w, "isa", e->isa);
    fg_jwrite_str(w, "numerics", e->numerics);
    fg_jwrite_uint(w, "packages", e->packages);
    fg_jwrite_uint(w, e->kind == FG_COMPILE_DONE ? "compiled" : "missing", e->missing);
    if (e->name) fg_jwrite_str(w, "name", e->name);
    if (e->text) fg_jwrite_str(w, "text", e->text);
    if (e->index) fg_jwrite_uint(w, "index", e->index);
    switch (e->kind) {
    case FG_COMPILE_PLAN:
        fg_jwrite_uint(w, "bytes", e->bytes);
        fg_jwrite_uint(w, "free_bytes", e->free_bytes);
        fg_jwrite_str(w, "key", e->plan->key);
        entries_json(w, e->plan);
        break;
    case FG_COMPILE_ESTIMATE: fg_jwrite_num(w, "expected_seconds", e->expected_s); break;
    case FG_COMPILE_PACKAGE:
        fg_jwrite_num(w, "expected_seconds", e->expected_s);
        fg_jwrite_num(w, "left_seconds", e->left_s);
        break;
    case FG_COMPILE_HEARTBEAT:
        fg_jwrite_num(w, "seconds", e->seconds);
        fg_jwrite_num(w, "expected_seconds", e->expected_s);
        fg_jwrite_num(w, "left_seconds", e->left_s);
        break;
    case FG_COMPILE_PACKAGE_DONE:
        fg_jwrite_num(w, "seconds", e->seconds);
        fg_jwrite_num(w, "left_seconds", e->left_s);
        break;
    case FG_COMPILE_WAITING:
        fg_jwrite_num(w, "seconds", e->seconds);
        fg_jwrite_int(w, "pid", e->pid);
        break;
    case FG_COMPILE_HASHING: fg_jwrite_uint(w, "bytes", e->bytes); break;
    case FG_COMPILE_DONE: fg_jwrite_num(w, "seconds", e->seconds); break;
    default: break;
    }
}

static void print_json(const struct fg_compile_event *e)
{
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "event", event_name(e->kind));
    event_fields(&w, e);
    fg_jwrite_end_object(&w);
    if (!w.buf.failed) fprintf(stderr, "%s\n", w.buf.data);
    fg_jwrite_free(&w);
}

static void print_line(const struct fg_compile_event *e)
{
    char line[FG_COMPILE_LINE];
    fg_compile_line(line, sizeof line, e);
    fprintf(stderr, "[compile] %s\n", line);
}

// ---- the job

struct job {
    const struct fg_cli *cli;
    struct fg_compile_event last; // of FG_COMPILE_PLAN and DONE, for the result
    uint64_t bytes;               // to write
    struct fg_tune tune;
};

static void on_event(void *ctx, const struct fg_compile_event *e)
{
    struct job *j = ctx;
    if (e->kind == FG_COMPILE_PLAN) j->bytes = e->bytes;
    if (e->kind == FG_COMPILE_PLAN || e->kind == FG_COMPILE_DONE) {
        j->last = *e;
        j->last.plan = NULL; // lasts no longer than the call
    }
    if (j->cli->log.level == FG_LOG_ERROR) return; // -q
    if (j->cli->json)
        print_json(e);
    else
        print_line(e);
}

static bool on_stop(void *ctx)
{
    (void)ctx;
    return fg_signals_pending() != 0;
}

static bool stop_tuning(void *ctx)
{
    return on_stop(ctx);
}

// The build is whole now; the engine maps what was made.
static int measure(void *ctx, const struct fg_compiled *c, struct fg_tuning *out,
                   struct fg_error *err)
{
    const struct job *j = ctx;
    (void)c;
    return fg_tune_measure(out, &j->tune, err);
}

static int heartbeat(const struct fg_cli *cli, double *seconds, struct fg_error *err)
{
    static const char name[] = "FORGE_COMPILE_HEARTBEAT_S";
    static const struct fg_opt opt = {
        .name = name, .kind = FG_OPT_NUMBER, .low = 0.001, .high = 86400};
    struct fg_opt_slot slot = {.opt = &opt};
    const char *text = cli->env(name);
    if (!text) return 0;
    int rc = fg_opt_parse(&slot, text, NULL, "environment", name, err);
    *seconds = slot.number;
    return rc;
}

static int print_result(const struct fg_cli *cli, const struct job *j, const struct fg_compiled *c,
                        struct fg_error *err)
{
    if (!cli->json) return 0;
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    fg_jwrite_bool(&w, "dry_run", c == NULL);
    fg_jwrite_str(&w, "isa", j->last.isa);
    fg_jwrite_str(&w, "numerics", j->last.numerics);
    fg_jwrite_uint(&w, "packages", j->last.packages);
    fg_jwrite_uint(&w, c ? "compiled" : "missing", j->last.missing);
    fg_jwrite_uint(&w, "bytes", c ? fg_compiled_bytes(c) : j->bytes);
    if (c) {
        const struct fg_compile_plan *p = fg_compiled_plan(c);
        fg_jwrite_num(&w, "seconds", j->last.seconds);
        fg_jwrite_str(&w, "key", p->key);
        fg_jwrite_int(&w, "tile_abi", p->tile_abi);
        entries_json(&w, p);
        fg_jwrite_array(&w, "tiles");
        for (uint64_t i = 0; i < fg_compiled_count(c); i++)
            fg_jwrite_str(&w, NULL, fg_tilefile_path(fg_compiled_tiles(c, i)));
        fg_jwrite_end_array(&w);
    }
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

static int run_compile(struct fg_cli *cli, struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    struct job j = {.cli = cli};
    struct fg_compiled *c = NULL;
    struct fg_compile_options o = {
        .build_dir = fg_args_text(args, "build"),
        .isa = cli->isa,
        .numerics = fg_args_text(args, "numerics"),
        .ctx = fg_args_given(args, "ctx") ? fg_args_int(args, "ctx") : 0,
        .threads = cli->threads,
        .force = fg_args_flag(args, "force"),
        .dry_run = fg_args_flag(args, "dry-run"),
        .event = on_event,
        .stop = on_stop,
        .measure = fg_args_flag(args, "tune") ? measure : NULL,
        .ctx_event = &j,
    };
    int jobs = fg_args_given(args, "jobs") ? (int)fg_args_int(args, "jobs")
               : cli->threads              ? cli->threads
                                           : fg_threads_default();
    char *state = NULL;
    int rc = heartbeat(cli, &o.heartbeat_s, err);
    if (rc == 0) rc = fg_cli_state_dir(cli, !o.dry_run, &state, err);
    if (rc == 0) rc = fg_pool_new(&o.pool, jobs, err);
    if (rc == 0) {
        o.state_dir = state;
        j.tune = (struct fg_tune){
            .engine = {.model = o.build_dir,
                       .state_dir = state,
                       .isa = cli->isa,
                       .threads = cli->threads,
                       .numerics = strcmp(o.numerics, "exact") == 0 ? FORGE_EXACT : FORGE_FAST},
            .stop = stop_tuning,
        };
        fg_signals_catch();
        rc = fg_compile(&c, &o, err);
    }
    int sig = fg_signals_pending();
    if (rc == 0) rc = print_result(cli, &j, c, err);
    if (rc == FG_EINTERRUPTED && sig) {
        fg_error_hint(err, "finished packages are kept; the same command continues");
        rc = fg_signals_exit_code(sig);
    }
    fg_compiled_close(c);
    fg_pool_free(o.pool);
    free(state);
    return rc;
}

static const struct fg_opt options[] = {
    {.name = "build",
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .required = true,
     .env = "FORGE_BUNDLE",
     .group = "Compile",
     .help = "the packages: a directory with manifest.json, or a bundle"},
    {.name = "ctx",
     .kind = FG_OPT_CONTEXT,
     .value = "N",
     .def_note = "16K, or the largest entry below it",
     .min = 1,
     .max = INT32_MAX,
     .group = "Compile",
     .help = "context entries up to N, which must be one of the manifest"},
    {.name = "numerics",
     .kind = FG_OPT_CHOICE,
     .value = "MODE",
     .def = "fast",
     .choices = "fast|exact",
     .group = "Compile",
     .help = "fast or exact arithmetic; tile files are the same"},
    {.name = "jobs",
     .kind = FG_OPT_INT,
     .value = "N",
     .def_note = "as --threads",
     .min = 1,
     .max = 1024,
     .group = "Compile",
     .help = "threads that compile"},
    {.name = "force",
     .kind = FG_OPT_FLAG,
     .group = "Compile",
     .help = "make everything again that this machine has of the build"},
    {.name = "tune",
     .kind = FG_OPT_FLAG,
     .def = "on",
     .listed_negative = true,
     .group = "Compile",
     .help = "do not measure threads and the cost of rows at the end, a minute at most"},
    {.name = "dry-run",
     .kind = FG_OPT_FLAG,
     .group = "Compile",
     .help = "say what is missing and what it takes, and write nothing"},
    {0},
};
static const struct fg_opt *const tables[] = {options, NULL};
static const char *const examples[] = {
    "forge compile --build ~/Models/my-27b --ctx 64K",
    "forge compile --build ~/Models/my-27b/forge --dry-run --json",
    NULL,
};

const struct fg_command fg_cmd_compile = {
    .name = "compile",
    .group = "Machine",
    .summary = "specialize a build for this machine",
    .about = "Repacks the weights once in the order in which the kernels read them. Stopped at any "
             "time it keeps finished packages, and the same command continues. What it makes is "
             "under the state directory; forge cache lists it. The packages are never changed.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_compile,
};
