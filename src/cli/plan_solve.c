// cli/plan_solve.c: `forge plan solve`: the formats of least predicted damage within a budget
// (specs: quantization 5.3).
#include "base/num.h"
#include "base/progress.h"
#include "cli/plan_args.h"
#include "cli/provenance.h"
#include "model/plan_shape.h"
#include "quant/planner.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GIB 1073741824.0
#define MIB 1048576.0
#define MATCH 1000 // a match is within one part of this

struct solve {
    const struct fg_cli *cli;
    struct fg_plan *from, *match;
    struct fg_sens sens;
    struct fg_plan_notes notes; // of the plan that is made
    struct fg_planner_options o;
    struct fg_planner *planner;
    uint64_t budget, matched; // matched: what the plan of --match takes; 0: none
    double budget_ns;         // INFINITY: none
    struct fg_planner_sums before;
    struct fg_planner_result result;
    struct fg_planner_moves moves;
};

static int refuse(struct fg_error *err, const char *field, const char *expected, const char *found)
{
    return fg_fail(err, FG_EINPUT, "options", NULL, field, expected, "%s", found);
}

// ---- options

static int read_free(const char *text, unsigned *out, struct fg_error *err)
{
    static const struct {
        const char *name;
        unsigned bit;
    } kinds[] = {
        {"mlp", FG_FREE_MLP}, {"mixer", FG_FREE_MIXER}, {"kv", FG_FREE_KV}, {"head", FG_FREE_HEAD}};
    *out = 0;
    for (const char *at = text;; at++) {
        const size_t n = strcspn(at, ",");
        unsigned bit = 0;
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            if (strlen(kinds[i].name) == n && strncmp(kinds[i].name, at, n) == 0)
                bit = kinds[i].bit;
        }
        if (!bit) return refuse(err, "--free", "a list of mlp, mixer, kv and head", text);
        *out |= bit;
        at += n;
        if (!*at) return 0;
    }
}

// One of the three budgets of bytes.
static int read_budget(struct solve *s, const struct fg_plan_shape *shape, struct fg_error *err)
{
    const struct fg_args *args = &s->cli->args;
    const bool gib = fg_args_given(args, "budget-gib"), bytes = fg_args_given(args, "budget-bytes");
    const char *match = fg_args_text(args, "match");
    const int given = gib + bytes + (match != NULL);
    if (given != 1)
        return refuse(err, "--budget-gib", "one of --budget-gib, --budget-bytes and --match",
                      given > 1 ? "more than one" : "none");
    if (gib) s->budget = (uint64_t)(fg_args_number(args, "budget-gib") * GIB);
    if (bytes && (!fg_parse_bytes(fg_args_text(args, "budget-bytes"), &s->budget) || !s->budget))
        return refuse(err, "--budget-bytes", "a size as 10455577184 or 9.7G",
                      fg_args_text(args, "budget-bytes"));
    if (!match) return 0;
    struct fg_plan_list list = {0};
    int rc = fg_plan_open(&s->match, match, err);
    if (!rc) rc = fg_plan_resolve(&list, s->match, shape, err);
    s->matched = list.weight_bytes + (s->o.count_factors ? list.factor_bytes : 0);
    s->budget = s->matched + s->matched / MATCH;
    fg_plan_list_free(&list);
    return rc;
}

static int read_speed(struct solve *s, const struct fg_plan_shape *shape, struct fg_error *err)
{
    const struct fg_args *args = &s->cli->args;
    const char *speed = fg_args_text(args, "speed");
    struct fg_sens times;
    s->budget_ns = INFINITY;
    if (!speed && fg_args_given(args, "budget-ms"))
        return refuse(err, "--speed", "a table of times, for --budget-ms", "none");
    if (!speed) return 0;
    int rc = fg_cli_plan_sens(&times, &speed, 1, shape, &s->notes, err);
    if (!rc) rc = fg_sens_merge(&s->sens, &times, speed, err);
    if (fg_args_given(args, "budget-ms")) s->budget_ns = 1e6 * fg_args_number(args, "budget-ms");
    s->o.timed = true;
    fg_sens_free(&times);
    return rc;
}

// That of the line, else of the plan to begin with, when it was verified.
static double rho_of(const struct solve *s)
{
    if (fg_args_given(&s->cli->args, "rho")) return fg_args_number(&s->cli->args, "rho");
    const double verified = fg_plan_notes(s->from)->verified_rho;
    return verified > 0 ? verified : 1;
}

static int read_options(struct solve *s, const struct fg_plan_shape *shape, struct fg_error *err)
{
    const struct fg_args *args = &s->cli->args;
    const struct fg_opt_slot *files = fg_args_slot(args, "sens");
    enum fg_qformat formats[FG_Q_N_FORMATS];
    int n = 0;
    s->notes = fg_plan_no_notes();
    s->o.uniform =
        strcmp(fg_args_text(args, "uniform"), "layer") == 0 ? FG_UNIFORM_LAYER : FG_UNIFORM_MATRIX;
    s->o.count_factors = fg_args_flag(args, "factors");
    int rc = fg_cli_plan_formats(fg_args_text(args, "allow"), "--allow", formats, &n, err);
    for (int i = 0; i < n; i++)
        s->o.allow |= 1u << formats[i];
    if (!rc) rc = read_free(fg_args_text(args, "free"), &s->o.free, err);
    if (!rc) rc = fg_cli_plan_from(s->cli, &s->from, err);
    if (!rc) rc = read_budget(s, shape, err);
    if (!rc) rc = fg_cli_plan_sens(&s->sens, files->list, files->n_list, shape, &s->notes, err);
    if (!rc) rc = read_speed(s, shape, err);
    if (rc) return rc;
    s->o.base = s->from;
    s->o.sens = &s->sens;
    s->o.rho = rho_of(s);
    return 0;
}

// ---- what is printed

static const char *cost_name(const struct solve *s)
{
    static const char *const names[] = {"predicted KL", "predicted dNLL", "relative cost"};
    return names[fg_planner_info(s->planner)->unit];
}

static double share(double now, double before)
{
    return before > 0 ? 100 * (now / before - 1) : 0;
}

static void print_sums(const struct solve *s, const char *name, const struct fg_planner_sums *p)
{
    printf("%-24.24s %14" PRIu64 " %14" PRIu64 " %9.4f %16.6g", name, p->weight_bytes,
           p->factor_bytes, (double)p->bytes / GIB, p->cost);
    if (s->o.timed) printf(" %10.4f", p->ns / 1e6);
    printf("\n");
}

static void print_inputs(const struct solve *s)
{
    const struct fg_planner_info *i = fg_planner_info(s->planner);
    printf("%" PRIu64 " of %" PRIu64 " matrices are chosen; errors of %" PRIu64
           " measured in every format, of %" PRIu64 " in some, the others from ratios\n",
           i->n_free, i->n_mats, i->n_measured, i->n_scaled);
    if (i->unit != FG_PLANNER_RELATIVE)
        printf("%" PRIu64 " bands, %" PRIu64 " with losses of each layer; head %s; rho %.4g\n",
               i->n_bands, i->n_kappa, i->head_measured ? "measured" : "not measured", s->o.rho);
    else
        printf("nothing says what errors do to the model: costs are sums of relative errors\n");
}

static void print_moves(const struct solve *s)
{
    if (s->moves.n == 0) printf("\nno moves: the plan is %s\n", fg_plan_name(s->from));
    if (s->moves.n)
        printf("\n%-8s %-6s    %-6s %6s %12s %12s  %s\n", "move", "from", "to", "layers", "MiB",
               cost_name(s) + strcspn(cost_name(s), " ") + 1, "in");
    for (uint64_t i = 0; i < s->moves.n; i++) {
        const struct fg_planner_move *m = &s->moves.v[i];
        printf("%-8s %-6s -> %-6s %6" PRIu64 " %+12.2f %+12.4g  %s\n", m->what,
               fg_qformat_name(m->from), fg_qformat_name(m->to), m->n, (double)m->bytes / MIB,
               m->cost, m->layers);
    }
}

static int print_text(const struct solve *s, const char *out, struct fg_error *err)
{
    const struct fg_planner_sums *a = &s->before, *b = &s->result.sums;
    print_inputs(s);
    printf("\n%-24s %14s %14s %9s %16s%s\n", "plan", "weights", "factors", "GiB", cost_name(s),
           s->o.timed ? "  ms per row" : "");
    print_sums(s, fg_plan_name(s->from), a);
    print_sums(s, out, b);
    printf("%-24s %14" PRId64 " %14" PRId64 " %+8.2f%% %+15.1f%%\n", "change",
           (int64_t)(b->weight_bytes - a->weight_bytes),
           (int64_t)(b->factor_bytes - a->factor_bytes), share((double)b->bytes, (double)a->bytes),
           share(b->cost, a->cost));
    print_moves(s);
    printf("\n%" PRIu64 " of %" PRIu64 " bytes of the budget%s; ", b->bytes, s->budget,
           s->o.count_factors ? "" : " for weights alone");
    if (s->result.exact)
        printf("no plan costs less");
    else
        printf("no plan costs less than %.6g", s->result.bound);
    if (s->result.per_mib > 0) printf("; one MiB more saves about %.3g", s->result.per_mib);
    printf("\n");
    return fg_out_flush(err);
}

static void sums_json(const struct solve *s, struct fg_jwrite *w, const char *key,
                      const struct fg_planner_sums *p)
{
    fg_jwrite_object(w, key);
    fg_jwrite_uint(w, "weight_bytes", p->weight_bytes);
    fg_jwrite_uint(w, "factor_bytes", p->factor_bytes);
    fg_jwrite_uint(w, "bytes", p->bytes);
    fg_jwrite_num(w, "cost", p->cost);
    if (s->o.timed) fg_jwrite_num(w, "seconds", p->ns / 1e9);
    fg_jwrite_end_object(w);
}

static int print_json(const struct solve *s, const char *out, struct fg_error *err)
{
    const struct fg_planner_info *info = fg_planner_info(s->planner);
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    fg_jwrite_str(&w, "output", out);
    fg_jwrite_str(&w, "unit", fg_planner_unit_name(info->unit));
    fg_jwrite_num(&w, "rho", s->o.rho);
    fg_jwrite_uint(&w, "budget_bytes", s->budget);
    fg_jwrite_bool(&w, "factors_counted", s->o.count_factors);
    fg_jwrite_uint(&w, "matrices", info->n_mats);
    fg_jwrite_uint(&w, "chosen", info->n_free);
    fg_jwrite_uint(&w, "measured", info->n_measured);
    fg_jwrite_uint(&w, "bands", info->n_bands);
    fg_jwrite_str(&w, "from", fg_plan_name(s->from));
    sums_json(s, &w, "before", &s->before);
    sums_json(s, &w, "after", &s->result.sums);
    fg_jwrite_bool(&w, "exact", s->result.exact);
    fg_jwrite_num(&w, "bound", s->result.bound);
    fg_jwrite_num(&w, "cost_per_mib", s->result.per_mib);
    fg_jwrite_array(&w, "moves");
    for (uint64_t i = 0; i < s->moves.n; i++) {
        const struct fg_planner_move *m = &s->moves.v[i];
        fg_jwrite_object(&w, NULL);
        fg_jwrite_str(&w, "what", m->what);
        if (m->layers[0]) fg_jwrite_str(&w, "layers", m->layers);
        fg_jwrite_uint(&w, "n_layers", m->n);
        fg_jwrite_str(&w, "from", fg_qformat_name(m->from));
        fg_jwrite_str(&w, "to", fg_qformat_name(m->to));
        fg_jwrite_int(&w, "bytes", m->bytes);
        fg_jwrite_num(&w, "cost", m->cost);
        fg_jwrite_end_object(&w);
    }
    fg_jwrite_end_array(&w);
    fg_plan_write_whole(s->result.plan, &w, "plan");
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

// ---- the command

static int note(struct solve *s, struct fg_error *err)
{
    const struct fg_planner_info *info = fg_planner_info(s->planner);
    struct fg_buf command = {0};
    fg_cli_command_line(&command);
    s->notes.kl = s->result.sums.cost;
    s->notes.rho = s->o.rho;
    snprintf(s->notes.unit, sizeof s->notes.unit, "%s", fg_planner_unit_name(info->unit));
    snprintf(s->notes.command, sizeof s->notes.command, "%s", command.len ? command.data : "");
    fg_cli_date(s->notes.date);
    const bool failed = command.failed;
    fg_buf_free(&command);
    fg_plan_set_notes(s->result.plan, &s->notes);
    return failed ? fg_fail_memory(err, "plan", sizeof s->notes.command) : 0;
}

static void warn_match(const struct solve *s)
{
    const uint64_t bytes = s->result.sums.bytes;
    if (s->matched && bytes < s->matched - s->matched / MATCH)
        fg_out_warn(s->cli,
                    "the plan takes %" PRIu64 " bytes, more than 0.1%% less than the %" PRIu64
                    " to match: no choice comes closer at less damage",
                    bytes, s->matched);
}

static int solve(struct solve *s, const struct fg_plan_shape *shape, struct fg_error *err)
{
    const char *out = fg_args_text(&s->cli->args, "out");
    int rc = read_options(s, shape, err);
    if (!rc) rc = fg_planner_new(&s->planner, shape, &s->o, err);
    if (!rc) rc = fg_planner_sum(&s->before, s->planner, s->from, err);
    if (!rc) rc = fg_planner_solve(&s->result, s->planner, s->budget, s->budget_ns, out, err);
    if (!rc) rc = fg_planner_compare(&s->moves, s->planner, s->from, s->result.plan, err);
    if (!rc) rc = note(s, err);
    if (!rc && !fg_args_flag(&s->cli->args, "dry-run")) rc = fg_plan_save(s->result.plan, out, err);
    if (rc) return rc;
    warn_match(s);
    return s->cli->json ? print_json(s, out, err) : print_text(s, out, err);
}

static int run_solve(struct fg_cli *cli, struct fg_error *err)
{
    struct solve s = {.cli = cli};
    struct fg_arena arena;
    struct fg_config config;
    fg_arena_init(&arena, 0);
    int rc = fg_cli_plan_config(&config, fg_args_text(&cli->args, "model"), &arena, err);
    if (!rc) {
        const struct fg_plan_shape shape = fg_plan_shape_of(&config);
        rc = solve(&s, &shape, err);
    }
    fg_planner_moves_free(&s.moves);
    fg_planner_result_free(&s.result);
    fg_planner_free(s.planner);
    fg_sens_free(&s.sens);
    fg_plan_free(s.match);
    fg_plan_free(s.from);
    fg_arena_free(&arena);
    return rc;
}

static const struct fg_opt options[] = {
    {.name = "model",
     .letter = 'm',
     .kind = FG_OPT_PATH,
     .value = "PATH",
     .required = true,
     .group = "Solve",
     .help = "a checkpoint directory, its config.json, or a GGUF file"},
    {.name = "sens",
     .kind = FG_OPT_TEXTS,
     .value = "FILE",
     .required = true,
     .group = "Solve",
     .help = "a table of sensitivities (forge plan measure); given again: later figures win"},
    {.name = "out",
     .letter = 'o',
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .required = true,
     .group = "Solve",
     .help = "the plan to write"},
    {.name = "budget-gib",
     .kind = FG_OPT_NUMBER,
     .value = "N",
     .def_note = "none",
     .low = 0,
     .high = 1e6,
     .low_open = true,
     .group = "Budget",
     .help = "GiB that all matrices may take, the embedding apart"},
    {.name = "budget-bytes",
     .kind = FG_OPT_TEXT,
     .value = "SIZE",
     .def_note = "none",
     .group = "Budget",
     .help = "the same in bytes, or as 9.7G"},
    {.name = "match",
     .kind = FG_OPT_TEXT,
     .value = "NAME|FILE",
     .def_note = "none",
     .group = "Budget",
     .help = "the same as this plan takes, to 0.1%"},
    {.name = "factors",
     .kind = FG_OPT_FLAG,
     .def = "on",
     .listed_negative = true,
     .group = "Budget",
     .help = "bytes of low-rank factors do not count"},
    {.name = "budget-ms",
     .kind = FG_OPT_NUMBER,
     .value = "N",
     .def_note = "none",
     .low = 0,
     .high = 1e9,
     .low_open = true,
     .group = "Budget",
     .help = "milliseconds that all matrices may take for one row; needs --speed"},
    {.name = "speed",
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .group = "Budget",
     .help =
         "a table with times of every matrix in every format (forge plan measure --kind speed)"},
    {.name = "allow",
     .kind = FG_OPT_TEXT,
     .value = "LIST",
     .def = "v2x16,v2x64,lut4",
     .group = "Choice",
     .help = "formats to choose from"},
    {.name = "free",
     .kind = FG_OPT_TEXT,
     .value = "LIST",
     .def = "mlp,mixer",
     .group = "Choice",
     .help = "what is chosen: mlp, mixer (without keys and values), kv, head; the rest stays"},
    {.name = "uniform",
     .kind = FG_OPT_CHOICE,
     .value = "UNIT",
     .def = "matrix",
     .choices = "layer|matrix",
     .group = "Choice",
     .help = "layer: one format for each MLP, and for each mixer; matrix: each for itself"},
    {.name = "rho",
     .kind = FG_OPT_NUMBER,
     .value = "X",
     .def_note = "what verifying the plan of --from gave, else 1",
     .low = 0,
     .low_open = true,
     .high = 1e6,
     .group = "Choice",
     .help = "measured over predicted KL of an earlier plan"},
    {.name = "dry-run",
     .kind = FG_OPT_FLAG,
     .def = "off",
     .group = "Run",
     .help = "print what the plan would be, write nothing"},
    {0},
};
static const struct fg_opt *const tables[] = {options, fg_opts_plan_from, fg_opts_plan_changes,
                                              NULL};
static const char *const examples[] = {"forge plan solve -m model/ --sens err.json --sens "
                                       "bands.json --budget-gib 9.74 --out plan.json",
                                       "forge plan solve -m model/ --sens sens.json --match "
                                       "release-0.2 --uniform layer --out plan.json",
                                       NULL};

const struct fg_command fg_cmd_plan_solve = {
    .name = "solve",
    .group = "Make",
    .summary = "choose formats within a budget",
    .about =
        "Costs of matrices come from measured sensitivities and add up; the plan of least cost "
        "within the budget is written, with what moved. A plan is a hypothesis: verify it.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_solve,
};
