// cli/plan_args.c
#include "cli/plan_args.h"
#include "base/file.h"
#include "base/json.h"
#include "model/import.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_BYTES_MAX (16u << 20)

#define PLAN_HELP                                                                                  \
    "release-0.1, release-0.2, u48, all-v2x16, all-v2x64, all-lut4, all-lut6, or a JSON file"

const struct fg_opt fg_opts_plan[] = {
    {.name = "plan",
     .kind = FG_OPT_TEXT,
     .value = "NAME|FILE",
     .def = "release-0.2",
     .group = "Plan",
     .help = PLAN_HELP},
    {0},
};

const struct fg_opt fg_opts_plan_from[] = {
    {.name = "from",
     .kind = FG_OPT_TEXT,
     .value = "NAME|FILE",
     .def = "release-0.2",
     .group = "Plan",
     .help = "what is compared with, and where rotations, factors and the formats that are not "
             "chosen come from: " PLAN_HELP},
    {0},
};

const struct fg_opt fg_opts_plan_changes[] = {
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
    {.name = "lr-dtype",
     .kind = FG_OPT_CHOICE,
     .value = "TYPE",
     .choices = "f16|i8",
     .def_note = "as the plan says",
     .group = "Plan",
     .help = "numbers of the factors: f16, or i8 with a scale per component, half the bytes"},
    {.name = "embed",
     .kind = FG_OPT_CHOICE,
     .value = "FORMAT",
     .choices = "f16|int8|head",
     .def_note = "as the plan says",
     .group = "Plan",
     .help = "the embedding: f16; int8, with a scale per row; head: no matrix of its own but the "
             "quantized head, where the model ties the two"},
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
    const char *lr_dtype = fg_args_text(args, "lr-dtype");
    enum fg_plan_basis b;
    enum fg_plan_mix_rot m;
    enum fg_lr_dtype t;
    int64_t r;
    unsigned set;
    const char *embed = fg_args_text(args, "embed");
    enum fg_plan_embed e;
    if (embed && fg_plan_embed_of_name(embed, &e)) fg_plan_set_embed(p, e);
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
    if (lr_dtype && fg_lr_dtype_of_name(lr_dtype, &t)) fg_plan_set_lr_dtype(p, t);
    return 0;
}

static int open_named(const struct fg_cli *cli, const char *option, struct fg_plan **out,
                      struct fg_error *err)
{
    const char *plan = fg_args_text(&cli->args, option);
    char field[16];
    snprintf(field, sizeof field, "--%s", option);
    *out = NULL;
    if (!plan[0]) return refuse(err, field, "the name of a plan, or a file", "an empty text");
    int rc = fg_plan_open(out, plan, err);
    if (!rc) rc = change(*out, &cli->args, err);
    if (rc) {
        fg_plan_free(*out);
        *out = NULL;
    }
    return rc;
}

int fg_cli_plan(const struct fg_cli *cli, struct fg_plan **out, struct fg_error *err)
{
    return open_named(cli, "plan", out, err);
}

int fg_cli_plan_from(const struct fg_cli *cli, struct fg_plan **out, struct fg_error *err)
{
    return open_named(cli, "from", out, err);
}

void fg_cli_plan_warn(const struct fg_cli *cli, const struct fg_plan_list *list)
{
    for (int i = 0; i < list->n_narrow; i++)
        fg_out_warn(cli,
                    "matrices with inputs of width %" PRId64
                    " are not rotated: it is not a multiple of 8",
                    list->narrow_width[i]);
}

// ---- the model's config

static bool is_gguf(const char *path)
{
    struct fg_map map;
    if (!fg_file_exists(path) || fg_map_open(&map, path, NULL)) return false;
    bool gguf = fg_map_holds(&map, 0, 4) && memcmp(map.data, "GGUF", 4) == 0;
    fg_map_close(&map);
    return gguf;
}

static int config_of_gguf(struct fg_json *doc, const char *path, struct fg_error *err)
{
    struct fg_import *imp = NULL;
    struct fg_buf text = {0};
    int rc = fg_import_open(&imp, path, err);
    if (!rc) rc = fg_import_config(imp, NULL, &text, err);
    if (!rc) rc = fg_json_parse(doc, text.data, text.len, path, err);
    fg_buf_free(&text);
    fg_import_close(imp);
    return rc;
}

int fg_cli_plan_config(struct fg_config *config, const char *path, struct fg_arena *arena,
                       struct fg_error *err)
{
    struct fg_json doc = {0};
    int rc;
    if (is_gguf(path)) {
        rc = config_of_gguf(&doc, path, err);
    } else if (fg_dir_exists(path)) {
        char *file = fg_path_join(path, "config.json");
        rc = file ? fg_json_open(&doc, file, CONFIG_BYTES_MAX, err)
                  : fg_fail_memory(err, "plan", strlen(path));
        free(file);
    } else {
        rc = fg_json_open(&doc, path, CONFIG_BYTES_MAX, err);
    }
    if (!rc) rc = fg_config_parse(config, &doc, arena, err);
    fg_json_close(&doc);
    return rc;
}

// ---- lists and tables

int fg_cli_plan_formats(const char *text, const char *field, enum fg_qformat out[FG_Q_N_FORMATS],
                        int *n, struct fg_error *err)
{
    static const char expected[] = "a list of v2x16, v2x64, lut4, lut6, int8, bf16 and f16";
    *n = 0;
    for (const char *at = text;; at++) {
        const size_t len = strcspn(at, ",");
        char word[32];
        enum fg_qformat f;
        snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word - 1), at);
        if (!fg_qformat_of_name(word, &f) || f == FG_Q_F32)
            return refuse(err, field, expected, word);
        bool found = false;
        for (int i = 0; i < *n; i++)
            found |= out[i] == f;
        if (!found) out[(*n)++] = f;
        at += len;
        if (!*at) return 0;
    }
}

int fg_cli_plan_sens(struct fg_sens *out, const char *const *paths, int n,
                     const struct fg_plan_shape *shape, struct fg_plan_notes *notes,
                     struct fg_error *err)
{
    int rc = 0;
    *out = (struct fg_sens){0};
    for (int i = 0; i < n && !rc; i++) {
        struct fg_sens one;
        rc = fg_sens_open(&one, paths[i], err);
        if (!rc) rc = fg_sens_check(&one, shape, paths[i], err);
        if (!rc) rc = fg_sens_merge(out, &one, paths[i], err);
        if (!rc && notes && notes->n_inputs < FG_PLAN_INPUTS_MAX) {
            const char *slash = strrchr(paths[i], '/');
            snprintf(notes->inputs[notes->n_inputs++], sizeof notes->inputs[0], "%.60s %s",
                     slash ? slash + 1 : paths[i], one.sha256);
        }
        fg_sens_free(&one);
    }
    if (rc) fg_sens_free(out);
    return rc;
}
