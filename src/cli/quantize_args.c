// cli/quantize_args.c
#include "cli/quantize_args.h"
#include <stdlib.h>
#include <string.h>

const struct fg_opt fg_opts_gptq[] = {
    {.name = "calib",
     .kind = FG_OPT_TEXTS,
     .value = "FILE[:N]",
     .group = "Calibration",
     .help = "row files (forge corpus rows), the first N rows of each; repeatable"},
    {.name = "text",
     .kind = FG_OPT_TEXTS,
     .value = "FILE[:N]",
     .group = "Calibration",
     .help =
         "texts, tokenized from their start and cut into N rows; repeatable, after the row files"},
    {.name = "ncal",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "128",
     .min = 1,
     .max = 1 << 20,
     .group = "Calibration",
     .help = "rows in all, at most"},
    {.name = "seq",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "1024",
     .min = 2,
     .max = 1 << 20,
     .group = "Calibration",
     .help = "tokens per row"},
    {.name = "holdout",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "4",
     .min = 0,
     .max = 1024,
     .group = "Calibration",
     .help = "of these, rows that only measure: the last of each source in turn"},
    {.name = "batch",
     .kind = FG_OPT_INT,
     .value = "N",
     .def_note = "about 1024 tokens",
     .min = 1,
     .max = 64,
     .group = "Calibration",
     .help = "rows per forward call: memory and speed, not results"},
    {.name = "state-dtype",
     .kind = FG_OPT_CHOICE,
     .value = "TYPE",
     .def = "f32",
     .choices = "f32|bf16",
     .group = "Calibration",
     .help = "of the rows' residual between layers: f32, or bf16, which halves its memory"},
    {.name = "damp",
     .kind = FG_OPT_NUMBER,
     .value = "X",
     .def = "0.01",
     .low = 0,
     .high = 10,
     .group = "Fit",
     .help = "damping of H, as a share of its mean diagonal"},
    {.name = "order",
     .kind = FG_OPT_CHOICE,
     .value = "ORDER",
     .def = "act",
     .choices = "act|none",
     .group = "Fit",
     .help = "columns by activation energy (act), or as they stand (none)"},
    {.name = "refine",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "3",
     .min = 0,
     .max = 100,
     .group = "Fit",
     .help = "sweeps over the indices after the pass, each lowers the error of the outputs"},
    {.name = "aw",
     .kind = FG_OPT_CHOICE,
     .value = "0|1",
     .def = "1",
     .choices = "0|1",
     .group = "Fit",
     .help = "1: columns weigh their activation energy when tables are fitted; 0: all the same"},
    {.name = "row-weight",
     .kind = FG_OPT_CHOICE,
     .value = "0|1",
     .def = "1",
     .choices = "0|1",
     .group = "Fit",
     .help = "1: errors count in the original scale of their row; 0: in the normalized one"},
    {.name = "lr-iters",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "2",
     .min = 1,
     .max = 100,
     .group = "Fit",
     .help = "rounds of fitting the factors and rounding the rest; the best one is kept"},
    {.name = "lr-fit",
     .kind = FG_OPT_CHOICE,
     .value = "FIT",
     .def = "plain",
     .choices = "plain|diag|full",
     .group = "Fit",
     .help =
         "error that factors make least: of weights (plain), of weights times activation energy "
         "(diag), of outputs (full)"},
    {.name = "lr-split",
     .kind = FG_OPT_CHOICE,
     .value = "SPLIT",
     .def = "a",
     .choices = "a|balanced",
     .group = "Fit",
     .help = "singular values in the first factor (a), or their roots in both (balanced)"},
    {.name = "kmeans-seed",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "1",
     .min = 0,
     .max = INT64_MAX,
     .group = "Fit",
     .help = "seed of the random choices"},
    {0},
};

static bool is(const struct fg_args *args, const char *name, const char *value)
{
    return strcmp(fg_args_text(args, name), value) == 0;
}

static int add_sources(const struct fg_args *args, const char *name, bool text,
                       struct fg_cli_gptq *own, struct fg_error *err)
{
    const struct fg_opt_slot *slot = fg_args_slot(args, name);
    char field[16];
    snprintf(field, sizeof field, "--%s", name);
    for (int i = 0; i < slot->n_list; i++) {
        if (own->n_sources == FG_CALIB_SOURCES_MAX)
            return fg_fail_range(err, "options", NULL, field, 1, FG_CALIB_SOURCES_MAX,
                                 own->n_sources + 1);
        struct fg_calib_source *s = &own->sources[own->n_sources];
        int rc = fg_calib_parse(s, slot->list[i], field, err);
        if (rc) return rc;
        s->text = text;
        own->n_sources++;
    }
    return 0;
}

int fg_cli_gptq(const struct fg_cli *cli, struct fg_quantize_options *o, struct fg_cli_gptq *own,
                struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    *own = (struct fg_cli_gptq){0};
    o->row_weight = is(args, "row-weight", "1");
    o->aw = is(args, "aw", "1");
    o->lr_iters = (int)fg_args_int(args, "lr-iters");
    o->lr_fit = is(args, "lr-fit", "plain")  ? FG_LOWRANK_PLAIN
                : is(args, "lr-fit", "diag") ? FG_LOWRANK_DIAG
                                             : FG_LOWRANK_FULL;
    o->lr_balanced = is(args, "lr-split", "balanced");
    o->kmeans_seed = (uint64_t)fg_args_int(args, "kmeans-seed");
    o->calib_rows = fg_args_int(args, "ncal");
    o->seq = fg_args_int(args, "seq");
    o->holdout = fg_args_int(args, "holdout");
    o->batch = fg_args_given(args, "batch") ? fg_args_int(args, "batch") : 0;
    o->damp = fg_args_number(args, "damp");
    o->order = is(args, "order", "act") ? FG_GPTQ_ORDER_ACT : FG_GPTQ_ORDER_NONE;
    o->refine = (int)fg_args_int(args, "refine");
    o->bf16_state = is(args, "state-dtype", "bf16");
    int rc = add_sources(args, "calib", false, own, err);
    if (!rc) rc = add_sources(args, "text", true, own, err);
    o->calib = own->sources;
    o->n_calib = own->n_sources;
    return rc;
}

void fg_cli_gptq_free(struct fg_cli_gptq *own)
{
    for (int i = 0; i < own->n_sources; i++)
        free(own->sources[i].path);
    *own = (struct fg_cli_gptq){0};
}
