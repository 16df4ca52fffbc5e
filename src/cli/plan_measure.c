// cli/plan_measure.c: `forge plan measure`: tables of sensitivity (specs: quantization 5.2). Each
// figure is written when it is known; the same command goes on.
#include "base/file.h"
#include "base/num.h"
#include "base/progress.h"
#include "cli/job_args.h"
#include "cli/plan_args.h"
#include "cli/plan_job.h"
#include "cli/provenance.h"
#include "eval/klk_unit.h"
#include "eval/matrix_ns.h"
#include "model/plan_shape.h"
#include "train/sensitivity.h"
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAVE_SECONDS 10 // between two writes of figures that are quick to get

struct measure {
    struct fg_cli *cli;
    struct fg_cli_job job;
    struct fg_plan_shape shape;
    struct fg_plan *base;
    struct fg_plan_list list; // of base
    struct fg_sens sens;      // of the file, and what was measured since
    struct fg_sens known;     // of the file when the run began; of err alone
    struct fg_buf command;
    const char *out, *work, *only;
    enum fg_qformat formats[FG_Q_N_FORMATS];
    int n_formats;
    const char *exports[FG_Q_N_FORMATS]; // given ones
    uint64_t added;
    uint64_t wanted; // figures to be measured, with --dry-run
    double saved;    // when
};

static int refuse(struct fg_error *err, const char *field, const char *expected, const char *found)
{
    return fg_fail(err, FG_EINPUT, "options", NULL, field, expected, "%s", found);
}

// ---- the table

static int save(struct measure *m, struct fg_error *err)
{
    char date[FG_CLI_DATE];
    fg_sens_sort(&m->sens);
    m->saved = fg_clock();
    return fg_sens_write(&m->sens, m->out, m->command.len ? m->command.data : NULL,
                         fg_cli_date(date), err);
}

static int add(struct measure *m, const struct fg_sens_unit *unit, enum fg_qformat f,
               enum fg_sens_metric metric, double value, const struct fg_interval *ci,
               int64_t tokens, const char *trace, struct fg_error *err)
{
    struct fg_sens_row row = {.unit = *unit,
                              .format = f,
                              .metric = metric,
                              .value = value,
                              .ci95 = {ci ? ci->lo : NAN, ci ? ci->hi : NAN},
                              .tokens = tokens};
    if (trace) snprintf(row.trace_sha256, sizeof row.trace_sha256, "%s", trace);
    if (!isfinite(value)) return 0;
    m->added++;
    return fg_sens_add(&m->sens, &row, err);
}

static bool restart(const struct measure *m)
{
    return fg_args_flag(&m->cli->args, "restart");
}

// What an earlier run wrote, when it is of this model.
static int open_table(struct measure *m, struct fg_error *err)
{
    int rc = 0;
    if (fg_path_taken(m->out)) rc = fg_sens_open(&m->sens, m->out, err);
    if (!rc) rc = fg_sens_check(&m->sens, &m->shape, m->out, err);
    if (!rc) fg_sens_set_model(&m->sens, &m->shape);
    return rc;
}

static bool dry(const struct measure *m)
{
    return fg_args_flag(&m->cli->args, "dry-run");
}

static bool matches(const struct measure *m, const struct fg_sens_unit *unit)
{
    char text[FG_SENS_UNIT_TEXT];
    return !m->only || fnmatch(m->only, fg_sens_unit_text(text, unit), 0) == 0;
}

// ---- errors of matrices

static bool error_known(void *ctx, const struct fg_plan_mat *mat, enum fg_qformat f)
{
    const struct measure *m = ctx;
    const struct fg_sens_unit unit = fg_sens_unit_of(mat);
    const bool held = fg_args_int(&m->cli->args, "holdout") > 0;
    return !restart(m) && fg_sens_find(&m->known, FG_SENS_REL_ERR, &unit, f) &&
           (!held || fg_sens_find(&m->known, FG_SENS_TOKEN_ERR, &unit, f));
}

// Figures of two sets of rows would not go together.
static int check_calibration(const struct measure *m, const char *sha256, struct fg_error *err)
{
    for (uint64_t i = 0; i < m->known.n && !restart(m); i++) {
        const struct fg_sens_row *row = &m->known.rows[i];
        char expected[96];
        if (row->metric != FG_SENS_REL_ERR || strcmp(row->trace_sha256, sha256) == 0) continue;
        snprintf(expected, sizeof expected, "errors on these rows, %.16s...", sha256);
        int rc = fg_fail(err, FG_EINTEGRITY, "sens", m->out, "trace_sha256", expected, "%.16s...",
                         row->trace_sha256);
        fg_error_hint(err, "--restart measures all again, or give another file to --out");
        return rc;
    }
    return 0;
}

static int on_error_figure(void *ctx, const struct fg_sensitivity_result *r, struct fg_error *err)
{
    struct measure *m = ctx;
    const struct fg_sens_unit unit = fg_sens_unit_of(r->mat);
    int rc = m->added == 0 ? check_calibration(m, r->calib_sha256, err) : 0;
    if (!rc)
        rc = add(m, &unit, r->format, FG_SENS_REL_ERR, r->rel_err_h, NULL, r->tokens,
                 r->calib_sha256, err);
    if (!rc)
        rc = add(m, &unit, r->format, FG_SENS_TOKEN_ERR, r->rel_err_t, NULL, r->tokens,
                 r->calib_sha256, err);
    if (!rc)
        rc = add(m, &unit, r->format, FG_SENS_ERR, r->err_h, NULL, r->tokens, r->calib_sha256, err);
    if (!rc && fg_clock() - m->saved > SAVE_SECONDS) rc = save(m, err);
    return rc;
}

static bool on_progress(void *ctx, uint64_t done, uint64_t total, const char *item)
{
    struct measure *m = ctx;
    if (!m->job.bar)
        m->job.bar =
            fg_progress_new(stderr, m->cli->progress, "plan measure", total, FG_PROGRESS_BYTES);
    fg_progress_set(m->job.bar, done, item);
    return fg_signals_pending() == 0;
}

// What a run would measure, once its inputs are checked.
static int count_errors(struct measure *m, const struct fg_quantize_options *o,
                        struct fg_error *err)
{
    struct fg_quantize *q = NULL;
    int rc = fg_quantize_open(&q, o, err);
    fg_quantize_free(q);
    for (uint64_t i = 0; i < m->list.n && !rc; i++) {
        const struct fg_plan_mat *mat = &m->list.mats[i];
        const struct fg_sens_unit unit = fg_sens_unit_of(mat);
        for (int k = 0; k < m->n_formats; k++) {
            const enum fg_qformat f = m->formats[k];
            const bool can = mat->rows % fg_qformat_rows_per_index(f) == 0;
            if (can && matches(m, &unit) && !error_known(m, mat, f))
                m->wanted += fg_args_int(&m->cli->args, "holdout") > 0 ? 3 : 2;
        }
    }
    return rc;
}

static int measure_errors(struct measure *m, struct fg_error *err)
{
    struct fg_sensitivity_options o = {.quantize = m->job.quantize,
                                       .formats = m->formats,
                                       .n_formats = m->n_formats,
                                       .known = error_known,
                                       .result = on_error_figure,
                                       .ctx = m};
    o.quantize.method = FG_QUANTIZE_GPTQ;
    o.quantize.plan = m->base;
    o.quantize.only = m->only;
    o.quantize.progress = on_progress;
    o.quantize.ctx = m;
    for (int i = 0; i < m->n_formats; i++) {
        if (fg_qformat_is_kept(m->formats[i]))
            return refuse(err, "--formats", "formats that lose something",
                          fg_qformat_name(m->formats[i]));
    }
    int rc = fg_sens_merge(&m->known, &m->sens, m->out, err);
    if (rc || dry(m)) return rc ? rc : count_errors(m, &o.quantize, err);
    rc = fg_sensitivity_run(&o, err);
    fg_progress_end(m->job.bar, rc == 0);
    m->job.bar = NULL;
    return rc;
}

// ---- parts of the model, one at a time

// The whole model in one format, k and v in the plan's own, as planner.h has it.
static int quantize_format(struct measure *m, enum fg_qformat f, const char *out,
                           struct fg_error *err)
{
    enum fg_qformat *formats = malloc(m->list.n * sizeof *formats);
    struct fg_plan *plan = NULL;
    char name[64];
    int rc = formats ? 0 : fg_fail_memory(err, "plan", m->list.n * sizeof *formats);
    for (uint64_t i = 0; i < m->list.n && !rc; i++) {
        const struct fg_plan_mat *mat = &m->list.mats[i];
        const bool kv = mat->part == FG_PLAN_K || mat->part == FG_PLAN_V;
        const bool can = mat->rows % fg_qformat_rows_per_index(f) == 0;
        formats[i] = kv || !can ? mat->format : f;
    }
    snprintf(name, sizeof name, "all %s", fg_qformat_name(f));
    if (!rc) rc = fg_plan_reformat(&plan, m->base, &m->shape, formats, m->list.n, name, err);
    snprintf(name, sizeof name, "plan measure: quantize to %s", fg_qformat_name(f));
    if (!rc) rc = fg_cli_job_quantize(&m->job, plan, out, true, name, err);
    fg_plan_free(plan);
    free(formats);
    return rc;
}

// The export that has the unit in format f: a given one, one of an earlier run, or made now. The
// caller frees *out.
static int export_of(struct measure *m, enum fg_qformat f, char **out, struct fg_error *err)
{
    *out = m->exports[f] ? strdup(m->exports[f]) : fg_path_join(m->work, fg_qformat_name(f));
    if (!*out) return fg_fail_memory(err, "plan", 64);
    char *json = fg_path_join(*out, "export.json");
    const bool there = json && fg_file_exists(json) && !restart(m);
    free(json);
    return m->exports[f] || there ? 0 : quantize_format(m, f, *out, err);
}

// Format that the unit really has in the export of format f.
static enum fg_qformat format_in(const struct measure *m, const struct fg_sens_unit *unit,
                                 enum fg_qformat f)
{
    const struct fg_plan_mat *head = &m->list.mats[m->list.n - 1];
    return unit->first < 0 && head->rows % fg_qformat_rows_per_index(f) ? head->format : f;
}

static int measure_unit(struct measure *m, struct fg_cli_eval_set *s, const struct fg_sens_unit *u,
                        enum fg_qformat f, enum fg_sens_metric metric, const char *export_dir,
                        struct fg_error *err)
{
    char unit[FG_SENS_UNIT_TEXT], name[128], *dir = NULL;
    const enum fg_qformat has = format_in(m, u, f);
    const struct fg_sens_row *row = fg_sens_find(&m->sens, metric, u, has);
    if (row && !restart(m) && strcmp(row->trace_sha256, s->set.sha256) == 0) return 0;
    if (dry(m)) {
        m->wanted++;
        return 0;
    }
    fg_sens_unit_text(unit, u);
    snprintf(name, sizeof name, "%s-%s", unit, fg_qformat_name(has));
    dir = fg_path_join(m->work, name);
    if (!dir) return fg_fail_memory(err, "plan", sizeof name);
    snprintf(name, sizeof name, "plan measure: %s in %s", unit, fg_qformat_name(has));
    struct fg_klk_unit_result r;
    const struct fg_klk_unit_job job = {.model = m->job.quantize.model,
                                        .model_digest = s->model.hex,
                                        .export_dir = export_dir,
                                        .unit = *u,
                                        .dir = dir,
                                        .engine = fg_cli_eval_engine(&m->job),
                                        .kl = fg_cli_eval_job(&m->job, s, name)};
    int rc = fg_klk_unit(&r, &job, err);
    fg_progress_end(m->job.bar, rc == 0);
    m->job.bar = NULL;
    const struct fg_interval *i = metric == FG_SENS_KL ? &r.kl : &r.delta_nll;
    if (!rc) rc = add(m, u, has, metric, i->value, i, r.positions, s->set.sha256, err);
    if (!rc) rc = save(m, err);
    free(dir);
    return rc;
}

// Bands of MLPs and of mixers and the head, or all of one layer each.
static int measure_units(struct measure *m, struct fg_cli_eval_set *s, bool bands,
                         enum fg_qformat f, const char *export_dir, struct fg_error *err)
{
    const int64_t width = bands ? fg_args_int(&m->cli->args, "band-layers") : 1;
    const enum fg_sens_metric metric = bands ? FG_SENS_KL : FG_SENS_DELTA_NLL;
    int rc = 0;
    for (int mixer = 0; mixer < 2; mixer++) {
        for (int64_t i = 0; i < m->shape.n_layers && !rc; i += width) {
            const int64_t last = i + width < m->shape.n_layers ? i + width : m->shape.n_layers;
            const struct fg_sens_unit u = {.scope = bands ? FG_SENS_BAND : FG_SENS_PART,
                                           .first = i,
                                           .last = last - 1,
                                           .mixer = mixer};
            if (matches(m, &u)) rc = measure_unit(m, s, &u, f, metric, export_dir, err);
        }
    }
    const struct fg_sens_unit head = fg_sens_unit_of(&m->list.mats[m->list.n - 1]);
    if (!rc && bands && matches(m, &head))
        rc = measure_unit(m, s, &head, f, metric, export_dir, err);
    return rc;
}

static int measure_parts(struct measure *m, bool bands, struct fg_error *err)
{
    struct fg_cli_eval_set s;
    if (!m->work) return refuse(err, "--work", "a directory for exports and reports", "nothing");
    int rc = fg_cli_eval_set_open(&s, &m->job, err);
    for (int i = 0; i < m->n_formats && !rc; i++) {
        char *dir = NULL;
        rc = export_of(m, m->formats[i], &dir, err);
        if (!rc) rc = measure_units(m, &s, bands, m->formats[i], dir, err);
        free(dir);
    }
    fg_cli_eval_set_free(&s);
    return rc;
}

// ---- times of matrices

// Times of the shapes that were measured; equal matrices share one.
struct times {
    struct {
        int64_t rows, cols;
        double ns[FG_Q_N_FORMATS]; // 0: not yet
    } v[32];
    int n;
};

static double *time_of(struct times *t, const struct fg_plan_mat *mat, enum fg_qformat f)
{
    const int max = (int)(sizeof t->v / sizeof t->v[0]);
    for (int i = 0; i < t->n; i++) {
        if (t->v[i].rows == mat->rows && t->v[i].cols == mat->cols) return &t->v[i].ns[f];
    }
    const int at = t->n < max ? t->n++ : max - 1; // more shapes than there are: the last is dropped
    memset(&t->v[at], 0, sizeof t->v[at]);
    t->v[at].rows = mat->rows;
    t->v[at].cols = mat->cols;
    return &t->v[at].ns[f];
}

static int measure_time(struct measure *m, struct times *t, const struct fg_plan_mat *mat,
                        enum fg_qformat f, struct fg_error *err)
{
    const struct fg_sens_unit unit = fg_sens_unit_of(mat);
    if (mat->rows % fg_qformat_rows_per_index(f) || !matches(m, &unit)) return 0;
    if (dry(m)) {
        m->wanted++;
        return 0;
    }
    if (fg_signals_pending())
        return fg_fail(err, FG_EINTERRUPTED, "plan", NULL, NULL, NULL, "stopped");
    double *ns = time_of(t, mat, f);
    int rc = 0;
    if (*ns <= 0)
        rc = fg_matrix_ns(ns, f, mat->rows, mat->cols, m->job.quantize.kernels, m->job.pool, err);
    return rc ? rc : add(m, &unit, f, FG_SENS_NS, *ns, NULL, 0, NULL, err);
}

static int measure_times(struct measure *m, struct fg_error *err)
{
    struct times t = {.n = 0};
    int rc = 0;
    m->job.bar =
        fg_progress_new(stderr, m->cli->progress, "plan measure", m->list.n, FG_PROGRESS_COUNT);
    for (uint64_t i = 0; i < m->list.n && !rc; i++) {
        fg_progress_set(m->job.bar, i, m->list.mats[i].name);
        for (int k = 0; k < m->n_formats && !rc; k++)
            rc = measure_time(m, &t, &m->list.mats[i], m->formats[k], err);
    }
    fg_progress_end(m->job.bar, rc == 0);
    m->job.bar = NULL;
    return rc;
}

// ---- the command

// "v2x16=DIR"
static int read_exports(struct measure *m, struct fg_error *err)
{
    const struct fg_opt_slot *slot = fg_args_slot(&m->cli->args, "export");
    for (int i = 0; i < slot->n_list; i++) {
        char name[32];
        const char *text = slot->list[i], *eq = strchr(text, '=');
        const size_t n = eq ? (size_t)(eq - text) : 0;
        enum fg_qformat f;
        snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), text);
        if (!eq || !eq[1] || !fg_qformat_of_name(name, &f) || f == FG_Q_F32)
            return refuse(err, "--export", "FORMAT=DIR, as v2x16=export/", text);
        m->exports[f] = eq + 1;
    }
    return 0;
}

static int prepare(struct measure *m, struct fg_error *err)
{
    const struct fg_args *args = &m->cli->args;
    const char *kind = fg_args_text(args, "kind"), *formats = fg_args_text(args, "formats");
    if (!formats)
        formats = strcmp(kind, "err") == 0     ? "v2x16,v2x64,lut4,lut6,int8"
                  : strcmp(kind, "speed") == 0 ? "v2x16,v2x64,lut4,lut6,int8"
                                               : "v2x16";
    int rc = fg_cli_plan_formats(formats, "--formats", m->formats, &m->n_formats, err);
    if (!rc) rc = read_exports(m, err);
    if (!rc) rc = fg_cli_plan(m->cli, &m->base, err);
    if (!rc) rc = fg_plan_resolve(&m->list, m->base, &m->shape, err);
    if (!rc) rc = open_table(m, err);
    if (!rc) rc = fg_cli_job_open(&m->job, m->cli, err);
    fg_cli_command_line(&m->command);
    return rc;
}

static int print_result(const struct measure *m, struct fg_error *err)
{
    const char *kind = fg_args_text(&m->cli->args, "kind");
    struct fg_jwrite w = {0};
    if (!m->cli->json && dry(m)) {
        printf("%s: %" PRIu64 " figures, %" PRIu64 " to be measured\n", m->out, m->sens.n,
               m->wanted);
        return fg_out_flush(err);
    }
    if (!m->cli->json) {
        printf("%s: %" PRIu64 " figures, %" PRIu64 " of them new\n", m->out, m->sens.n, m->added);
        return fg_out_flush(err);
    }
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    fg_jwrite_str(&w, "output", m->out);
    fg_jwrite_str(&w, "kind", kind);
    fg_jwrite_uint(&w, "figures", m->sens.n);
    fg_jwrite_uint(&w, "new", m->added);
    if (dry(m)) fg_jwrite_uint(&w, "to_measure", m->wanted);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

static int measure(struct measure *m, struct fg_error *err)
{
    const char *kind = fg_args_text(&m->cli->args, "kind");
    int rc = prepare(m, err);
    if (rc) return rc;
    m->saved = fg_clock();
    if (strcmp(kind, "err") == 0)
        rc = measure_errors(m, err);
    else if (strcmp(kind, "speed") == 0)
        rc = measure_times(m, err);
    else
        rc = measure_parts(m, strcmp(kind, "band") == 0, err);
    const int saved = m->added > 0 ? save(m, rc ? NULL : err) : 0; // what was measured stays
    if (!rc) rc = saved;
    return rc ? rc : print_result(m, err);
}

static int run_measure(struct fg_cli *cli, struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    struct measure m = {.cli = cli,
                        .out = fg_args_text(args, "out"),
                        .work = fg_args_text(args, "work"),
                        .only = fg_args_text(args, "only")};
    struct fg_arena arena;
    struct fg_config config;
    fg_arena_init(&arena, 0);
    fg_signals_catch();
    int rc = fg_cli_plan_config(&config, fg_args_text(args, "model"), &arena, err);
    if (!rc) {
        m.shape = fg_plan_shape_of(&config);
        rc = measure(&m, err);
    }
    const int sig = fg_signals_pending();
    fg_cli_job_free(&m.job);
    fg_sens_free(&m.sens);
    fg_sens_free(&m.known);
    fg_plan_list_free(&m.list);
    fg_plan_free(m.base);
    fg_buf_free(&m.command);
    fg_arena_free(&arena);
    return rc == FG_EINTERRUPTED && sig ? fg_signals_exit_code(sig) : rc;
}

static const struct fg_opt options[] = {
    {.name = "kind",
     .kind = FG_OPT_CHOICE,
     .value = "KIND",
     .required = true,
     .choices = "err|band|layer|speed",
     .group = "Measure",
     .help =
         "err: error of each matrix in each format, on calibration rows; band: KL with only the "
         "MLPs or mixers of some layers quantized, and with only the head; layer: loss with "
         "only one MLP or mixer quantized; speed: time of each matrix in each format"},
    {.name = "model",
     .letter = 'm',
     .kind = FG_OPT_PATH,
     .value = "PATH",
     .required = true,
     .group = "Measure",
     .help = "a checkpoint directory; for err also a GGUF file"},
    {.name = "out",
     .letter = 'o',
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .required = true,
     .group = "Measure",
     .help = "the table to write; what is in it already stays, and is not measured again"},
    {.name = "formats",
     .kind = FG_OPT_TEXT,
     .value = "LIST",
     .def_note = "v2x16,v2x64,lut4,lut6,int8; for band and layer v2x16",
     .group = "Measure",
     .help = "formats to measure"},
    {.name = "only",
     .kind = FG_OPT_TEXT,
     .value = "PATTERN",
     .def_note = "all",
     .group = "Measure",
     .help = "these alone, as \"*.down\", \"mixer:*\", \"3.mlp\", \"head\""},
    {.name = "band-layers",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "8",
     .min = 1,
     .max = 1024,
     .group = "Measure",
     .help = "layers of a band"},
    {.name = "work",
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .group = "Measure",
     .help = "where band and layer keep the quantized model of each format, and reports"},
    {.name = "export",
     .kind = FG_OPT_TEXTS,
     .value = "FORMAT=DIR",
     .def_note = "made in --work",
     .group = "Measure",
     .help = "the model quantized to a format, keys and values as the plan has them"},
    {0},
};
static const struct fg_opt *const tables[] = {
    options,      fg_opts_plan_eval,   fg_opts_kl, fg_opts_plan, fg_opts_plan_changes,
    fg_opts_gptq, fg_opts_plan_method, NULL};
static const char *const examples[] = {
    "forge plan measure --kind err -m model/ --calib calib.safetensors --out sens.json",
    "forge plan measure --kind band -m model/ --calib calib.safetensors --work work/ "
    "--trace select.safetensors --teacher select-teacher/ --out sens.json",
    NULL};

const struct fg_command fg_cmd_plan_measure = {
    .name = "measure",
    .group = "Make",
    .summary = "measure what quantizing parts of a model does",
    .about = "Figures for forge plan solve. For band and layer the model is quantized once per "
             "format, each matrix on what it reads in the unquantized model; then only one part at "
             "a time comes from there, the rest from the checkpoint. Stopped with Ctrl-C, or "
             "killed, it keeps what it has; the same command goes on.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_measure,
};
