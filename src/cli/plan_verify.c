// cli/plan_verify.c: `forge plan verify`: what a plan really does, beside what was predicted
// (specs: quantization 5.3).
#include "base/file.h"
#include "base/progress.h"
#include "cli/job_args.h"
#include "cli/plan_args.h"
#include "cli/plan_job.h"
#include "cli/provenance.h"
#include "eval/klk_summary.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct verify {
    struct fg_cli *cli;
    struct fg_cli_job job;
    struct fg_cli_eval_set set;
    struct fg_plan *plan;
    const char *out;        // the plan file that is written
    char *export_, *report; // directories
    struct fg_klk_summary summary;
};

static int compare(struct verify *v, struct fg_error *err)
{
    struct forge_engine_options o = fg_cli_eval_engine(&v->job);
    struct forge_engine *e = NULL;
    struct fg_eval_identity id;
    struct fg_klk_result result;
    struct fg_klk_job kl = fg_cli_eval_job(&v->job, &v->set, "plan verify");
    o.model = v->export_;
    o.model_dir = fg_dir_exists(v->job.quantize.model) ? v->job.quantize.model : NULL;
    int rc = fg_eval_identify(&id, v->export_, NULL, NULL, err);
    if (!rc) rc = fg_model_size(&kl.size, v->export_, v->job.pool, err);
    if (!rc) rc = forge_engine_open(&e, &o, err);
    kl.side = (struct fg_eval_side){.engine = e};
    kl.out = v->report;
    kl.model = v->export_;
    kl.model_digest = id.hex;
    if (!rc) rc = fg_klk_run(&kl, &result, err);
    fg_progress_end(v->job.bar, rc == 0);
    v->job.bar = NULL;
    forge_engine_close(e);
    return rc ? rc : fg_klk_summary_open(&v->summary, v->report, err);
}

// The figure into the plan, and the factor between it and the prediction.
static int note(struct verify *v, struct fg_error *err)
{
    struct fg_plan_notes n = *fg_plan_notes(v->plan);
    const struct fg_klk_figures *f = &v->summary.all;
    n.verified_kl = f->mean.value;
    n.verified_ci95[0] = f->mean.lo;
    n.verified_ci95[1] = f->mean.hi;
    n.verified_tokens = f->positions;
    n.verified_rho = NAN;
    if (n.kl > 0 && strcmp(n.unit, "kl") == 0)
        n.verified_rho = (n.rho > 0 ? n.rho : 1) * f->mean.value / n.kl;
    snprintf(n.verified_trace, sizeof n.verified_trace, "%s", v->set.set.sha256);
    fg_cli_date(n.verified_date);
    fg_plan_set_notes(v->plan, &n);
    return fg_plan_save(v->plan, v->out, err);
}

static int print_result(const struct verify *v, struct fg_error *err)
{
    const struct fg_plan_notes *n = fg_plan_notes(v->plan);
    const struct fg_klk_figures *f = &v->summary.all;
    struct fg_jwrite w = {0};
    if (!v->cli->json) {
        printf("KL %.6g [%.6g, %.6g] over %" PRId64 " positions, top-1 %.2f%%\n", f->mean.value,
               f->mean.lo, f->mean.hi, f->positions, 100 * f->top1);
        if (!isnan(n->verified_rho))
            printf("predicted %.6g with rho %.4g; rho is now %.4g\n", n->kl,
                   n->rho > 0 ? n->rho : 1, n->verified_rho);
        else
            printf("the plan predicts no KL\n");
        printf("%s\n", v->out);
        return fg_out_flush(err);
    }
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    fg_jwrite_str(&w, "output", v->out);
    fg_jwrite_str(&w, "export", v->export_);
    fg_jwrite_str(&w, "report", v->report);
    fg_jwrite_num(&w, "kl", f->mean.value);
    fg_jwrite_array(&w, "kl_ci95");
    fg_jwrite_num(&w, NULL, f->mean.lo);
    fg_jwrite_num(&w, NULL, f->mean.hi);
    fg_jwrite_end_array(&w);
    fg_jwrite_int(&w, "positions", f->positions);
    fg_jwrite_num(&w, "top1", f->top1);
    fg_jwrite_num(&w, "predicted_kl", n->kl);
    fg_jwrite_num(&w, "rho", n->verified_rho);
    fg_plan_write_whole(v->plan, &w, "plan");
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

static bool is_builtin(const char *name)
{
    bool found = false;
    for (int i = 0; fg_plan_builtin(i); i++)
        found |= strcmp(name, fg_plan_builtin(i)) == 0;
    return found;
}

// Where the plan is written: --out, else the file that it came from.
static int choose_out(struct verify *v, struct fg_error *err)
{
    const char *plan = fg_args_text(&v->cli->args, "plan");
    v->out = fg_args_text(&v->cli->args, "out");
    if (!v->out && plan && !is_builtin(plan) && fg_file_exists(plan)) v->out = plan;
    if (v->out) return 0;
    return fg_fail(err, FG_EINPUT, "options", NULL, "--out",
                   "a file for a plan that comes from none", "nothing");
}

static int verify(struct verify *v, struct fg_error *err)
{
    const char *work = fg_args_text(&v->cli->args, "work");
    v->export_ = fg_path_join(work, "export");
    v->report = fg_path_join(work, "report");
    if (!v->export_ || !v->report) return fg_fail_memory(err, "plan", strlen(work));
    int rc = fg_cli_plan(v->cli, &v->plan, err);
    if (!rc) rc = choose_out(v, err);
    if (!rc) rc = fg_cli_job_open(&v->job, v->cli, err);
    if (!rc) rc = fg_cli_eval_set_open(&v->set, &v->job, err);
    const bool dry = fg_args_flag(&v->cli->args, "dry-run");
    if (!rc && !dry) rc = fg_dir_make(work, err);
    if (!rc)
        rc = fg_cli_job_quantize(&v->job, v->plan, v->export_, false, "plan verify: quantize", err);
    if (!rc && dry) return fg_out_flush(err);
    if (!rc) rc = compare(v, err);
    if (!rc) rc = note(v, err);
    return rc ? rc : print_result(v, err);
}

static int run_verify(struct fg_cli *cli, struct fg_error *err)
{
    struct verify v = {.cli = cli};
    fg_signals_catch();
    int rc = verify(&v, err);
    const int sig = fg_signals_pending();
    fg_klk_summary_free(&v.summary);
    fg_cli_eval_set_free(&v.set);
    fg_cli_job_free(&v.job);
    fg_plan_free(v.plan);
    free(v.export_);
    free(v.report);
    return rc == FG_EINTERRUPTED && sig ? fg_signals_exit_code(sig) : rc;
}

static const struct fg_opt options[] = {
    {.name = "model",
     .letter = 'm',
     .kind = FG_OPT_PATH,
     .value = "PATH",
     .required = true,
     .group = "Verify",
     .help = "a checkpoint directory or a GGUF file"},
    {.name = "work",
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .required = true,
     .group = "Verify",
     .help = "where the quantized model goes, as DIR/export, and the report of forge eval kl, as "
             "DIR/report"},
    {.name = "out",
     .letter = 'o',
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .def_note = "the file of --plan",
     .group = "Verify",
     .help = "the plan with the figures"},
    {0},
};
static const struct fg_opt *const tables[] = {
    options,      fg_opts_plan_eval,   fg_opts_kl, fg_opts_plan, fg_opts_plan_changes,
    fg_opts_gptq, fg_opts_plan_method, NULL};
static const char *const examples[] = {
    "forge plan verify --plan plan.json -m model/ --calib calib.safetensors --work work/ "
    "--trace select.safetensors --teacher select-teacher/",
    NULL};

const struct fg_command fg_cmd_plan_verify = {
    .name = "verify",
    .group = "Make",
    .summary = "quantize by a plan and measure its KL",
    .about =
        "Writes the measured KL into the plan file, and rho, by which the next forge plan solve "
        "--from that plan multiplies its costs. Stopped with Ctrl-C, or killed, it keeps what "
        "it has; the same command goes on.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_verify,
};
