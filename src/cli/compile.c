// cli/compile.c: `forge compile`: a build specialized for this machine (specs: cli 8, runtime 2.3).
// The lines say what happens; what happens is runtime/compile.c's.
#include "base/file.h"
#include "base/progress.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "runtime/compile.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// ---- lines

// "37s", "8m37s", "2h11m"
static char *duration(char *out, size_t cap, double seconds)
{
    int64_t s = seconds > 0 ? (int64_t)(seconds + 0.5) : 0;
    if (s < 60)
        snprintf(out, cap, "%" PRId64 "s", s);
    else if (s < 3600)
        snprintf(out, cap, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
    else
        snprintf(out, cap, "%" PRId64 "h%02" PRId64 "m", s / 3600, s % 3600 / 60);
    return out;
}

// Decimal, as disks are sold: "10.5 GB".
static char *amount(char *out, size_t cap, uint64_t bytes)
{
    double b = (double)bytes;
    if (b < 1e6)
        snprintf(out, cap, "%.0f kB", b / 1e3);
    else if (b < 1e9)
        snprintf(out, cap, "%.0f MB", b / 1e6);
    else if (b < 1e11)
        snprintf(out, cap, "%.1f GB", b / 1e9);
    else
        snprintf(out, cap, "%.0f GB", b / 1e9);
    return out;
}

static char *entries(char *out, size_t cap, const struct fg_compile_plan *p)
{
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < p->n_entries && n < cap; i++) {
        int64_t ctx = p->entries[i].ctx;
        bool k = ctx % 1024 == 0;
        n += (size_t)snprintf(out + n, cap - n, "%s%" PRId64 "%s", i ? " " : "",
                              k ? ctx / 1024 : ctx, k ? "K" : "");
    }
    return out;
}

static void print_plan(const struct fg_compile_event *e)
{
    char list[256], to_write[32], free_bytes[32];
    entries(list, sizeof list, e->plan);
    if (e->missing == 0) { // of a dry run; else the last line says it
        fprintf(stderr, "[compile] %" PRIu64 " packages ready for %s; nothing to write\n",
                e->packages, e->isa);
        return;
    }
    fprintf(stderr,
            "[compile] %" PRIu64 " of %" PRIu64 " packages to specialize for %s, numerics %s, "
            "tile abi %" PRId64 "; entries %s; %s to write, %s free\n",
            e->missing, e->packages, e->isa, e->numerics, e->plan->tile_abi, list,
            amount(to_write, sizeof to_write, e->bytes),
            amount(free_bytes, sizeof free_bytes, e->free_bytes));
}

static void print_line(const struct fg_compile_event *e)
{
    char time[32], left[32], expected[32];
    const char *name = e->name ? e->name : "";
    duration(time, sizeof time, e->seconds);
    duration(left, sizeof left, e->left_s);
    duration(expected, sizeof expected, e->expected_s);
    switch (e->kind) {
    case FG_COMPILE_PLAN: print_plan(e); break;
    case FG_COMPILE_ESTIMATE:
        fprintf(stderr,
                "[compile] estimated %s in total; safe to stop at any time: finished packages are "
                "kept\n",
                expected);
        break;
    case FG_COMPILE_PACKAGE:
        fprintf(stderr,
                "[compile] compiling %s (%" PRIu64 "/%" PRIu64 "): expected %s, total left %s\n",
                name, e->index, e->missing, expected, left);
        break;
    case FG_COMPILE_HEARTBEAT:
        fprintf(stderr,
                "[compile] %s (%" PRIu64 "/%" PRIu64 "): %s so far (expected %s); %s left in "
                "total\n",
                name, e->index, e->missing, time, expected, left);
        break;
    case FG_COMPILE_PACKAGE_DONE:
        fprintf(stderr, "[compile] compiled %s in %s (%" PRIu64 "/%" PRIu64 " done); %s left\n",
                name, time, e->index, e->missing, left);
        break;
    case FG_COMPILE_PURGED:
        fprintf(stderr, "[compile] %s: damaged, made again: %s\n", name, e->text);
        break;
    case FG_COMPILE_CHANGED:
        fprintf(stderr, "[compile] %s changed while it was read; once more\n", name);
        break;
    case FG_COMPILE_LOWER: fprintf(stderr, "[compile] %s; using %s\n", e->text, e->isa); break;
    case FG_COMPILE_WAITING:
        fprintf(stderr, "[compile] waiting for process %ld, which makes %s: %s so far\n", e->pid,
                name, time);
        break;
    case FG_COMPILE_HASHING:
        fprintf(stderr, "[compile] hashing %" PRIu64 " packages, %s\n", e->packages,
                amount(left, sizeof left, e->bytes));
        break;
    case FG_COMPILE_TUNING: fprintf(stderr, "[compile] measuring this machine\n"); break;
    case FG_COMPILE_DONE:
        if (e->missing)
            fprintf(stderr, "[compile] done in %s: %" PRIu64 " packages ready for %s\n", time,
                    e->packages, e->isa);
        else
            fprintf(stderr, "[compile] %" PRIu64 " packages ready for %s\n", e->packages, e->isa);
        break;
    }
}

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

// ---- the job

struct job {
    const struct fg_cli *cli;
    struct fg_compile_event last; // of FG_COMPILE_PLAN and DONE, for the result
    uint64_t bytes;               // to write
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
