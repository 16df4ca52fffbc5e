// cli/quantize.c: `forge quantize`: a checkpoint becomes a quantized export (specs: cli 13,
// quantization 8).
#include "train/quantize.h"
#include "base/machine.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "cli/job_args.h"
#include "cli/plan_args.h"
#include "cli/quantize_args.h"
#include "kernels/kernels.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool on_progress(void *ctx, uint64_t done, uint64_t total, const char *item)
{
    struct fg_progress **bar = ctx;
    (void)total;
    fg_progress_set(*bar, done, item);
    return fg_signals_pending() == 0;
}

// "3" or "0-11"; the job checks it against the model.
static int parse_layers(const char *text, struct fg_quantize_options *o, struct fg_error *err)
{
    char first[32];
    const char *dash = text ? strchr(text, '-') : NULL;
    o->layer_first = o->layer_last = -1;
    if (!text) return 0;
    size_t n = dash ? (size_t)(dash - text) : strlen(text);
    snprintf(first, sizeof first, "%.*s", (int)(n < sizeof first ? n : sizeof first - 1), text);
    if (fg_parse_i64(first, &o->layer_first) && o->layer_first >= 0 &&
        fg_parse_i64(dash ? dash + 1 : first, &o->layer_last) && o->layer_last >= 0)
        return 0;
    return fg_fail(err, FG_EINPUT, "options", NULL, "--layers", "a layer, or a range as 0-11", "%s",
                   text);
}

static int parse_memory(const char *text, uint64_t *out, struct fg_error *err)
{
    *out = 0;
    if (!text || (fg_parse_bytes(text, out) && *out > 0)) return 0;
    return fg_fail(err, FG_EINPUT, "options", NULL, "--memory", "a size as 8G", "%s", text);
}

// The two spellings of the output.
static int output_of(const struct fg_args *args, const char **out, struct fg_error *err)
{
    const char *one = fg_args_text(args, "output"), *other = fg_args_text(args, "out");
    *out = one ? one : other;
    if (one && other)
        return fg_fail(err, FG_EINPUT, "options", NULL, "--out", "one of --output and --out",
                       "both");
    if (!*out)
        return fg_fail(err, FG_EINPUT, "options", NULL, "--output", "a directory", "nothing");
    return 0;
}

static void announce(const struct fg_cli *cli, const struct fg_plan *plan,
                     const struct fg_quantize_options *o, const struct fg_quantize_info *i)
{
    char a[32], b[32], c[32], d[32];
    struct fg_machine machine;
    fg_cli_plan_warn(cli, i->list);
    if (cli->log.level < FG_LOG_WARN) return;
    fg_machine_probe(&machine);
    fprintf(stderr, "plan %s: %" PRIu64 " matrices, %s, factors %s, embedding %s\n",
            fg_plan_name(plan), i->n_mats, fg_format_bytes(a, sizeof a, i->weight_bytes),
            fg_format_bytes(b, sizeof b, i->factor_bytes),
            fg_format_bytes(c, sizeof c, i->embed_bytes));
    fprintf(stderr, "memory: %s at most, %s free; disk: %s, %s free\n",
            fg_format_bytes(a, sizeof a, i->peak_bytes),
            fg_format_bytes(b, sizeof b,
                            o->memory_limit ? o->memory_limit : fg_machine_free_bytes(&machine)),
            fg_format_bytes(c, sizeof c, i->disk_bytes),
            fg_format_bytes(d, sizeof d, fg_disk_free_bytes(o->output)));
    if (o->method == FG_QUANTIZE_GPTQ) {
        fprintf(stderr,
                "calibration: %" PRId64 " rows of %" PRId64 " tokens, %" PRId64
                " of them held out\n",
                i->calib_rows, o->seq, i->held_rows);
        if (i->calib_tokens < i->widest)
            fg_log_warn(&cli->log,
                        "%" PRId64 " calibration tokens are fewer than the %" PRId64
                        " columns of the widest matrix: its H has no full rank before damping",
                        i->calib_tokens, i->widest);
    }
    if (i->n_done > 0)
        fprintf(stderr, "%" PRIu64 " of %" PRIu64 " files are finished%s\n", i->n_done, i->n_files,
                i->finished ? ": nothing is left to do" : "");
}

static void info_json(struct fg_jwrite *w, const struct fg_plan *plan,
                      const struct fg_quantize_options *o, const struct fg_quantize_info *i)
{
    fg_jwrite_str(w, "model", o->model);
    fg_jwrite_str(w, "output", o->output);
    fg_jwrite_str(w, "method", o->method == FG_QUANTIZE_GPTQ ? "gptq" : "rtn");
    if (o->method == FG_QUANTIZE_GPTQ) {
        fg_jwrite_int(w, "calib_rows", i->calib_rows);
        fg_jwrite_int(w, "calib_tokens", i->calib_tokens);
        fg_jwrite_int(w, "held_rows", i->held_rows);
    }
    fg_jwrite_str(w, "plan_name", fg_plan_name(plan));
    fg_jwrite_uint(w, "matrices", i->n_mats);
    fg_jwrite_uint(w, "files", i->n_files);
    fg_jwrite_uint(w, "weights", i->source_weights);
    fg_jwrite_uint(w, "weight_bytes", i->weight_bytes);
    fg_jwrite_uint(w, "factor_bytes", i->factor_bytes);
    fg_jwrite_uint(w, "embed_bytes", i->embed_bytes);
    fg_jwrite_uint(w, "memory_bytes", i->peak_bytes);
    fg_jwrite_uint(w, "disk_bytes", i->disk_bytes);
    fg_jwrite_bool(w, "whole", i->whole);
}

static int print_dry_run(const struct fg_cli *cli, const struct fg_plan *plan,
                         const struct fg_quantize_options *o, const struct fg_quantize_info *i,
                         struct fg_error *err)
{
    struct fg_jwrite w = {0};
    if (!cli->json) return 0; // announced on stderr
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    fg_jwrite_bool(&w, "dry_run", true);
    info_json(&w, plan, o, i);
    fg_plan_write(plan, &w, "plan");
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

static int print_result(const struct fg_cli *cli, const struct fg_plan *plan,
                        const struct fg_quantize_options *o, const struct fg_quantize_info *i,
                        struct fg_error *err)
{
    struct fg_jwrite w = {0};
    if (!cli->json) {
        printf("%s\n", o->output);
        return fg_out_flush(err);
    }
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    info_json(&w, plan, o, i);
    fg_jwrite_num(&w, "seconds", i->seconds);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

static int run_job(const struct fg_cli *cli, const struct fg_plan *plan,
                   struct fg_quantize_options *o, struct fg_error *err)
{
    const char *report = fg_args_text(&cli->args, "report");
    struct fg_progress *bar = NULL;
    struct fg_quantize *q = NULL;
    o->progress = on_progress;
    o->ctx = &bar;
    int rc = fg_quantize_open(&q, o, err);
    if (rc) return rc;
    const struct fg_quantize_info *info = fg_quantize_info(q);
    announce(cli, plan, o, info);
    rc = fg_quantize_check(q, err);
    if (!rc && fg_args_flag(&cli->args, "dry-run")) {
        rc = print_dry_run(cli, plan, o, info, err);
        fg_quantize_free(q);
        return rc;
    }
    if (!rc) {
        fg_signals_catch();
        bar = fg_progress_new(stderr, info->finished ? FG_PROGRESS_NONE : cli->progress, "quantize",
                              info->source_bytes, FG_PROGRESS_BYTES);
        rc = fg_quantize_run(q, err);
        fg_progress_end(bar, rc == 0);
        bar = NULL;
    }
    int sig = fg_signals_pending();
    if (!rc && report) rc = fg_quantize_report(q, report, err);
    if (!rc) rc = print_result(cli, plan, o, info, err);
    if (rc == FG_EINTERRUPTED && sig) rc = fg_signals_exit_code(sig);
    fg_quantize_free(q);
    return rc;
}

static int run_quantize(struct fg_cli *cli, struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    struct fg_plan *plan = NULL;
    struct fg_quantize_options o = {
        .method =
            strcmp(fg_args_text(args, "method"), "rtn") == 0 ? FG_QUANTIZE_RTN : FG_QUANTIZE_GPTQ,
        .model = fg_args_text(args, "model"),
        .only = fg_args_text(args, "only"),
        .unpacked = fg_args_flag(args, "unpacked"),
        .restart = fg_cli_restart(args),
        .log = &cli->log,
    };
    struct fg_cli_gptq own = {0};
    int rc = output_of(args, &o.output, err);
    if (!rc) rc = fg_cli_gptq(cli, &o, &own, err);
    if (!rc) rc = parse_layers(fg_args_text(args, "layers"), &o, err);
    if (!rc) rc = parse_memory(fg_args_text(args, "memory"), &o.memory_limit, err);
    if (!rc) rc = fg_cli_plan(cli, &plan, err);
    o.plan = plan;
    if (!rc) rc = fg_kernels_get(&o.kernels, cli->isa, err);
    if (!rc) rc = fg_pool_new(&o.pool, cli->threads ? cli->threads : fg_threads_default(), err);
    if (!rc) rc = run_job(cli, plan, &o, err);
    fg_pool_free(o.pool);
    fg_plan_free(plan);
    fg_cli_gptq_free(&own);
    return rc;
}

static const struct fg_opt options[] = {
    {.name = "model",
     .letter = 'm',
     .kind = FG_OPT_PATH,
     .value = "PATH",
     .required = true,
     .group = "Quantize",
     .help = "a checkpoint directory or a GGUF file"},
    {.name = "output",
     .letter = 'o',
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .group = "Quantize",
     .help = "the export to write: new, empty, or of the same command (required)"},
    {.name = "out",
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .group = "Quantize",
     .help = "the same as --output"},
    {.name = "method",
     .kind = FG_OPT_CHOICE,
     .value = "METHOD",
     .def = "gptq",
     .choices = "gptq|rtn",
     .group = "Quantize",
     .help = "gptq: errors are fed back over columns, on calibration rows; rtn: round to nearest, "
             "without data"},
    {.name = "layers",
     .kind = FG_OPT_TEXT,
     .value = "A-B",
     .def_note = "all, and the head",
     .group = "Quantize",
     .help = "these layers alone; the export is then incomplete"},
    {.name = "only",
     .kind = FG_OPT_TEXT,
     .value = "PATTERN",
     .def_note = "all",
     .group = "Quantize",
     .help = "these matrices alone, as \"*.down\", \"3.gate\", \"head\"; incomplete too"},
    {.name = "unpacked",
     .kind = FG_OPT_FLAG,
     .def = "off",
     .group = "Quantize",
     .help = "write one byte per index"},
    {.name = "report",
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .group = "Quantize",
     .help = "write a JSON report with the error of each matrix and times"},
    {.name = "memory",
     .kind = FG_OPT_TEXT,
     .value = "SIZE",
     .def_note = "what is free",
     .group = "Run",
     .help = "refuse to start when the job needs more"},
    {.name = "dry-run",
     .kind = FG_OPT_FLAG,
     .def = "off",
     .group = "Run",
     .help = "check the inputs, print plan, sizes and memory, write nothing"},
    {0},
};
static const struct fg_opt *const tables[] = {options,      fg_opts_plan,   fg_opts_plan_changes,
                                              fg_opts_gptq, fg_opts_resume, NULL};
static const char *const examples[] = {
    "forge quantize -m model/ -o export/ --calib rows.safetensors:96 --text notes.txt:32",
    "forge quantize -m model/ -o export/ --method rtn",
    "forge quantize -m model.gguf -o export/ --plan all-lut4 --lr-rank 0 --text notes.txt", NULL};

const struct fg_command fg_cmd_quantize = {
    .name = "quantize",
    .group = "Make",
    .summary = "turn a checkpoint into a quantized export",
    .about =
        "Works on one matrix at a time, layer by layer, with calibration rows that pass through "
        "what is quantized so far. Stopped with Ctrl-C, or killed, it keeps finished "
        "matrices; the same command goes on. The bytes do not depend on threads or "
        "interruptions.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_quantize,
};
