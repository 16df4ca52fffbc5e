// cli/plan_args.c
#include "cli/plan_args.h"
#include <inttypes.h>

const struct fg_opt fg_opts_plan[] = {
    {.name = "plan",
     .kind = FG_OPT_TEXT,
     .value = "NAME|FILE",
     .def = "release-0.2",
     .group = "Plan",
     .help = "release-0.1, release-0.2, u48, all-v2x16, all-v2x64, all-lut4, or a JSON file"},
    {.name = "basis",
     .kind = FG_OPT_CHOICE,
     .value = "BASIS",
     .choices = "online|plain",
     .def_note = "as the plan says",
     .group = "Plan",
     .help = "rotate the weights, and activations while running (online), or not (plain)"},
    {.name = "mix-rot",
     .kind = FG_OPT_CHOICE,
     .value = "WHICH",
     .choices = "none|readers|readers+writers",
     .def_note = "as the plan says",
     .group = "Plan",
     .help =
         "rotated mixer matrices: none, readers (q, k, v, qkv, z), readers+writers (o, out too)"},
    {.name = "lr-rank",
     .kind = FG_OPT_TEXT,
     .value = "N|auto",
     .def_note = "as the plan says",
     .group = "Plan",
     .help = "rank of the low-rank factors, 0 for none, auto: 16% of the bytes, at most 64"},
    {.name = "lr-parts",
     .kind = FG_OPT_TEXT,
     .value = "LIST",
     .def_note = "as the plan says",
     .group = "Plan",
     .help = "parts with factors, of gdn, attn and mlp, or none"},
    {0},
};

static int refuse(struct fg_error *err, const char *field, const char *expected, const char *found)
{
    return fg_fail(err, FG_EINPUT, "options", NULL, field, expected, "%s", found);
}

static int change(struct fg_plan *p, const struct fg_args *args, struct fg_error *err)
{
    const char *basis = fg_args_text(args, "basis"), *mix_rot = fg_args_text(args, "mix-rot");
    const char *rank = fg_args_text(args, "lr-rank"), *lr_parts = fg_args_text(args, "lr-parts");
    enum fg_plan_basis b;
    enum fg_plan_mix_rot m;
    int64_t r;
    unsigned set;
    if (basis && fg_plan_basis_of_name(basis, &b)) fg_plan_set_basis(p, b);
    if (mix_rot && fg_plan_mix_rot_of_name(mix_rot, &m)) fg_plan_set_mix_rot(p, m);
    if (rank) {
        if (!fg_plan_rank_of_name(rank, &r))
            return refuse(err, "--lr-rank", "auto or a whole number from 0 to 1024", rank);
        fg_plan_set_lr_rank(p, r);
    }
    if (lr_parts) {
        if (!fg_plan_lr_parts_of_name(lr_parts, &set))
            return refuse(err, "--lr-parts", "a list of gdn, attn and mlp, or none", lr_parts);
        fg_plan_set_lr_parts(p, set);
    }
    return 0;
}

int fg_cli_plan(const struct fg_cli *cli, struct fg_plan **out, struct fg_error *err)
{
    const char *plan = fg_args_text(&cli->args, "plan");
    *out = NULL;
    if (!plan[0]) return refuse(err, "--plan", "the name of a plan, or a file", "an empty text");
    int rc = fg_plan_open(out, plan, err);
    if (!rc) rc = change(*out, &cli->args, err);
    if (rc) {
        fg_plan_free(*out);
        *out = NULL;
    }
    return rc;
}

void fg_cli_plan_warn(const struct fg_cli *cli, const struct fg_plan_list *list)
{
    for (int i = 0; i < list->n_narrow; i++)
        fg_out_warn(cli,
                    "matrices with inputs of width %" PRId64
                    " are not rotated: it is not a multiple of 8",
                    list->narrow_width[i]);
}
