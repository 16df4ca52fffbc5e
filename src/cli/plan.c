// cli/plan.c: `forge plan`: what a quantization plan means for a model (specs: quantization 1.4,
// 5.1).
#include "base/buf.h"
#include "cli/cli.h"
#include "cli/plan_args.h"
#include "model/plan_shape.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// ---- layers of one kind

// MLPs or mixers whose matrices are alike.
struct kind {
    const char *name;
    const struct fg_plan_mat *mats;
    uint64_t n;           // matrices
    struct fg_buf layers; // "0-2, 4"
    int64_t last;         // layer that was added last
    bool open_range;      // its text ends in "A" of a range "A-last"
    uint64_t n_layers, bytes, factor_bytes;
};

static bool alike(const struct fg_plan_mat *a, const struct fg_plan_mat *b, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (a[i].part != b[i].part || a[i].format != b[i].format || a[i].rank != b[i].rank ||
            a[i].lr_dtype != b[i].lr_dtype || a[i].block != b[i].block || a[i].rows != b[i].rows ||
            a[i].cols != b[i].cols)
            return false;
    }
    return true;
}

static void close_range(struct kind *k)
{
    if (k->open_range) fg_buf_printf(&k->layers, "-%" PRId64, k->last);
    k->open_range = false;
}

static void add_layer(struct kind *k, int64_t layer)
{
    if (k->n_layers > 0 && layer == k->last + 1) {
        k->open_range = true;
    } else {
        close_range(k);
        fg_buf_printf(&k->layers, "%s%" PRId64, k->n_layers ? "," : "", layer);
    }
    k->last = layer;
    k->n_layers++;
}

static const char *kind_name(const struct fg_plan_mat *m)
{
    if (m->part == FG_PLAN_HEAD) return "head";
    if (fg_plan_part_is_mlp(m->part)) return "MLP";
    return m->part <= FG_PLAN_OUT ? "DeltaNet" : "attention";
}

// Groups of the list, in order of their first layer; *n of them, malloc'd.
static struct kind *group(const struct fg_plan_list *l, size_t *n)
{
    struct kind *kinds = calloc(l->n, sizeof *kinds);
    *n = 0;
    for (uint64_t i = 0, len; kinds && i < l->n; i += len) {
        const struct fg_plan_mat *m = &l->mats[i];
        for (len = 1; i + len < l->n && m[len].layer == m->layer &&
                      fg_plan_part_is_mlp(m[len].part) == fg_plan_part_is_mlp(m->part);)
            len++;
        struct kind *k = kinds;
        while (k < kinds + *n && (k->n != len || !alike(k->mats, m, len)))
            k++;
        if (k == kinds + *n) {
            *k = (struct kind){.name = kind_name(m), .mats = m, .n = len};
            for (uint64_t j = 0; j < len; j++) {
                k->bytes += m[j].bytes;
                k->factor_bytes += m[j].factor_bytes;
            }
            ++*n;
        }
        add_layer(k, m->layer);
    }
    for (size_t i = 0; i < *n; i++)
        close_range(&kinds[i]);
    return kinds;
}

static void free_kinds(struct kind *kinds, size_t n)
{
    for (size_t i = 0; kinds && i < n; i++)
        fg_buf_free(&kinds[i].layers);
    free(kinds);
}

// ---- output

static void mat_json(struct fg_jwrite *w, const struct fg_plan_mat *m, bool in_layer)
{
    fg_jwrite_object(w, NULL);
    fg_jwrite_str(w, "name", in_layer ? fg_plan_part_name(m->part) : m->name);
    fg_jwrite_int(w, "rows", m->rows);
    fg_jwrite_int(w, "cols", m->cols);
    fg_jwrite_str(w, "format", fg_qformat_name(m->format));
    fg_jwrite_str(w, "basis", m->site ? "online" : "plain");
    if (m->site) {
        fg_jwrite_str(w, "site", m->site);
        fg_jwrite_int(w, "block", m->block);
        if (!in_layer) fg_jwrite_uint(w, "seed", m->seed);
    }
    fg_jwrite_int(w, "lr_rank", m->rank);
    if (m->lr_dtype != FG_LR_F16) fg_jwrite_str(w, "lr_dtype", fg_lr_dtype_name(m->lr_dtype));
    fg_jwrite_uint(w, "bytes", m->bytes);
    fg_jwrite_uint(w, "factor_bytes", m->factor_bytes);
    fg_jwrite_end_object(w);
}

static void totals_json(struct fg_jwrite *w, const struct fg_plan *p, const struct fg_plan_list *l)
{
    fg_jwrite_str(w, "status", "ok");
    fg_jwrite_str(w, "plan", fg_plan_name(p));
    fg_jwrite_uint(w, "matrices", l->n);
    fg_jwrite_uint(w, "weights", l->weights);
    fg_jwrite_uint(w, "weight_bytes", l->weight_bytes);
    fg_jwrite_uint(w, "factor_bytes", l->factor_bytes);
    fg_jwrite_uint(w, "total_bytes", l->weight_bytes + l->factor_bytes);
    fg_jwrite_uint(w, "ab_bytes", l->ab_bytes);
    fg_jwrite_str(w, "embed", fg_plan_embed_name(l->embed));
    fg_jwrite_uint(w, "embed_bytes", l->embed_bytes);
    fg_jwrite_num(w, "bits_per_weight", 8 * (double)l->weight_bytes / (double)l->weights);
}

static int size_json(const struct fg_plan *p, const struct fg_plan_list *l,
                     const struct kind *kinds, size_t n, struct fg_error *err)
{
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    totals_json(&w, p, l);
    fg_jwrite_array(&w, "kinds");
    for (size_t i = 0; i < n; i++) {
        const struct kind *k = &kinds[i];
        fg_jwrite_object(&w, NULL);
        fg_jwrite_str(&w, "kind", k->name);
        if (k->mats->layer >= 0) fg_jwrite_str(&w, "layers", k->layers.data);
        fg_jwrite_uint(&w, "n_layers", k->n_layers);
        fg_jwrite_uint(&w, "bytes", k->bytes);
        fg_jwrite_uint(&w, "factor_bytes", k->factor_bytes);
        fg_jwrite_array(&w, "matrices");
        for (uint64_t j = 0; j < k->n; j++)
            mat_json(&w, &k->mats[j], true);
        fg_jwrite_end_array(&w);
        fg_jwrite_end_object(&w);
    }
    fg_jwrite_end_array(&w);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

static void total_line(const char *name, uint64_t bytes)
{
    printf("%-28s %16" PRIu64 "  %8.4f GiB\n", name, bytes, (double)bytes / (1u << 30));
}

static int size_text(const struct fg_plan_list *l, const struct kind *kinds, size_t n,
                     struct fg_error *err)
{
    printf("%-10s %6s %14s %12s  %s\n", "kind", "layers", "bytes each", "factors", "matrices");
    for (size_t i = 0; i < n; i++) {
        const struct kind *k = &kinds[i];
        printf("%-10s %6" PRIu64 " %14" PRIu64 " %12" PRIu64 " ", k->name, k->n_layers, k->bytes,
               k->factor_bytes);
        for (uint64_t j = 0; j < k->n; j++)
            printf(" %s %s %" PRIu64, fg_plan_part_name(k->mats[j].part),
                   fg_qformat_name(k->mats[j].format), k->mats[j].bytes);
        if (k->mats->layer >= 0) printf("  in %s", k->layers.data);
        printf("\n");
    }
    if (l->ab_bytes) total_line("in_proj_a, in_proj_b (BF16)", l->ab_bytes);
    total_line("weights, without embedding", l->weight_bytes);
    total_line("factors", l->factor_bytes);
    total_line("weights and factors", l->weight_bytes + l->factor_bytes);
    if (l->embed == FG_PLAN_EMBED_HEAD)
        printf("embedding                    is the head\n");
    else
        total_line(l->embed == FG_PLAN_EMBED_INT8 ? "embedding (INT8)" : "embedding (F16)",
                   l->embed_bytes);
    printf("%.3f bits per weight over %" PRIu64 " weights\n",
           8 * (double)l->weight_bytes / (double)l->weights, l->weights);
    return fg_out_flush(err);
}

static int print_size(const struct fg_cli *cli, const struct fg_plan *p,
                      const struct fg_plan_list *l, struct fg_error *err)
{
    size_t n;
    struct kind *kinds = group(l, &n);
    int rc = kinds ? 0 : fg_fail_memory(err, "plan", l->n * sizeof *kinds);
    for (size_t i = 0; i < n && !rc; i++) {
        if (kinds[i].layers.failed) rc = fg_fail_memory(err, "plan", kinds[i].layers.len);
    }
    if (!rc) rc = cli->json ? size_json(p, l, kinds, n, err) : size_text(l, kinds, n, err);
    free_kinds(kinds, n);
    return rc;
}

static int print_list(const struct fg_cli *cli, const struct fg_plan *p,
                      const struct fg_plan_list *l, struct fg_error *err)
{
    struct fg_jwrite w = {0};
    if (!cli->json) {
        printf("%-36s %15s %-6s %-8s %6s %6s %4s %12s %10s\n", "matrix", "shape", "format", "site",
               "block", "seed", "rank", "bytes", "factors");
        for (uint64_t i = 0; i < l->n; i++) {
            const struct fg_plan_mat *m = &l->mats[i];
            printf("%-36s %7" PRId64 " %7" PRId64 " %-6s %-8s %6" PRId64 " %6" PRIu64 " %4" PRId64
                   " %12" PRIu64 " %10" PRIu64 "\n",
                   m->name, m->rows, m->cols, fg_qformat_name(m->format),
                   m->site ? m->site : "plain", m->block, m->seed, m->rank, m->bytes,
                   m->factor_bytes);
        }
        const struct fg_plan_mat *head = &l->mats[l->n - 1];
        printf("%-36s %7" PRId64 " %7" PRId64 " %-6s %-8s %6d %6d %4d %12" PRIu64 " %10d\n",
               "embed_tokens", head->rows, head->cols, fg_plan_embed_name(l->embed), "plain", 0, 0,
               0, l->embed_bytes, 0);
        return fg_out_flush(err);
    }
    fg_jwrite_object(&w, NULL);
    totals_json(&w, p, l);
    fg_jwrite_array(&w, "list");
    for (uint64_t i = 0; i < l->n; i++)
        mat_json(&w, &l->mats[i], false);
    fg_jwrite_end_array(&w);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

// ---- commands

typedef int (*print_fn)(const struct fg_cli *cli, const struct fg_plan *p,
                        const struct fg_plan_list *l, struct fg_error *err);

static int with_model(const struct fg_cli *cli, const struct fg_plan *p, print_fn print,
                      struct fg_error *err)
{
    struct fg_arena arena;
    struct fg_config config;
    struct fg_plan_list list = {0};
    fg_arena_init(&arena, 0);
    int rc = fg_cli_plan_config(&config, fg_args_text(&cli->args, "model"), &arena, err);
    if (!rc) {
        struct fg_plan_shape shape = fg_plan_shape_of(&config);
        rc = fg_plan_resolve(&list, p, &shape, err);
    }
    if (!rc) {
        fg_cli_plan_warn(cli, &list);
        rc = print(cli, p, &list, err);
    }
    fg_plan_list_free(&list);
    fg_arena_free(&arena);
    return rc;
}

static int run_size(struct fg_cli *cli, struct fg_error *err)
{
    struct fg_plan *p = NULL;
    int rc = fg_cli_plan(cli, &p, err);
    if (!rc) rc = with_model(cli, p, print_size, err);
    fg_plan_free(p);
    return rc;
}

static int run_show(struct fg_cli *cli, struct fg_error *err)
{
    struct fg_plan *p = NULL;
    struct fg_jwrite w = {0};
    int rc = fg_cli_plan(cli, &p, err);
    if (!rc && fg_args_text(&cli->args, "model")) {
        rc = with_model(cli, p, print_list, err);
    } else if (!rc) {
        fg_plan_write_whole(p, &w, NULL);
        rc = fg_out_json(&w, err);
    }
    fg_plan_free(p);
    return rc;
}

#define MODEL_HELP "a checkpoint directory, its config.json, or a GGUF file"

static const struct fg_opt size_options[] = {
    {.name = "model",
     .letter = 'm',
     .kind = FG_OPT_PATH,
     .value = "PATH",
     .required = true,
     .group = "Plan",
     .help = MODEL_HELP},
    {0},
};
static const struct fg_opt show_options[] = {
    {.name = "model",
     .letter = 'm',
     .kind = FG_OPT_PATH,
     .value = "PATH",
     .def_note = "the plan itself is printed",
     .group = "Plan",
     .help = MODEL_HELP},
    {0},
};
static const struct fg_opt *const size_tables[] = {size_options, fg_opts_plan, fg_opts_plan_changes,
                                                   NULL};
static const struct fg_opt *const show_tables[] = {show_options, fg_opts_plan, fg_opts_plan_changes,
                                                   NULL};
static const char *const size_examples[] = {"forge plan size --model model/config.json",
                                            "forge plan size --plan plan.json -m model/ --json",
                                            NULL};
static const char *const show_examples[] = {"forge plan show --plan u48",
                                            "forge plan show --plan all-lut4 -m model/", NULL};

static const struct fg_command cmd_size = {
    .name = "size",
    .group = "Make",
    .summary = "count the bytes of a model under a plan",
    .about = "Exact bytes of the quantized matrices, the low-rank factors and the embedding, and "
             "of each kind of layer.",
    .args = "",
    .opts = size_tables,
    .examples = size_examples,
    .run = run_size,
};
static const struct fg_command cmd_show = {
    .name = "show",
    .group = "Make",
    .summary = "list what each matrix becomes, or print the plan as JSON",
    .about = "With --model one line for each matrix: format, rotation, rank of its factors, bytes. "
             "Without, the plan itself, as a plan file has it.",
    .args = "",
    .opts = show_tables,
    .examples = show_examples,
    .run = run_show,
};
static const struct fg_command *const subcommands[] = {
    &cmd_size, &cmd_show, &fg_cmd_plan_measure, &fg_cmd_plan_solve, &fg_cmd_plan_verify, NULL};

const struct fg_command fg_cmd_plan = {
    .name = "plan",
    .group = "Make",
    .summary = "look at quantization plans, and make them",
    .args = "",
    .subs = subcommands,
};
