// cli/import.c: `forge import`: a GGUF file becomes a checkpoint directory (specs: cli 13).
#include "cli/cli.h"
#include "base/progress.h"
#include "model/import.h"
#include <stdlib.h>
#include <string.h>

static bool on_progress(void *ctx, uint64_t done, uint64_t total, const char *tensor)
{
    struct fg_progress **bar = ctx;
    (void)total;
    fg_progress_set(*bar, done, tensor);
    return fg_signals_pending() == 0;
}

static uint64_t output_bytes(const struct fg_import *imp, enum fg_import_dtype dtype)
{
    uint64_t total = 0;
    for (uint64_t i = 0; i < fg_import_count(imp); i++) {
        const struct fg_import_tensor *t = fg_import_at(imp, i);
        uint64_t each = dtype == FG_IMPORT_KEEP  ? fg_dtype_bytes(t->dtype)
                        : dtype == FG_IMPORT_F32 ? 4
                                                 : 2;
        total += t->rows * t->cols * each;
    }
    return total;
}

static int print_result(const struct fg_cli *cli, const struct fg_import *imp, const char *dir,
                        uint64_t bytes, double seconds, struct fg_error *err)
{
    if (!cli->json) {
        printf("%s\n", dir);
        return fg_out_flush(err);
    }
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    fg_jwrite_str(&w, "input", cli->args.rest[0]);
    fg_jwrite_str(&w, "output", dir);
    fg_jwrite_str(&w, "dtype", fg_args_text(&cli->args, "dtype"));
    fg_jwrite_uint(&w, "tensors", fg_import_count(imp));
    fg_jwrite_uint(&w, "bytes", bytes);
    fg_jwrite_num(&w, "seconds", seconds);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

static int run_import(struct fg_cli *cli, struct fg_error *err)
{
    const char *dir = fg_args_text(&cli->args, "output");
    struct fg_import_options o = {.progress = on_progress};
    struct fg_import *imp = NULL;
    fg_import_dtype_of_name(fg_args_text(&cli->args, "dtype"), &o.dtype);
    int rc = fg_import_open(&imp, cli->args.rest[0], err);
    if (rc) return rc;
    for (uint64_t i = 0; i < fg_import_n_warnings(imp); i++)
        fg_out_warn(cli, "%s", fg_import_warning(imp, i));

    fg_signals_catch();
    double start = fg_clock();
    uint64_t bytes = output_bytes(imp, o.dtype);
    struct fg_progress *bar =
        fg_progress_new(stderr, cli->progress, "import", bytes, FG_PROGRESS_BYTES);
    o.ctx = &bar;
    rc = fg_import_write(imp, dir, &o, err);
    fg_progress_end(bar, rc == 0);
    int sig = fg_signals_pending();
    if (rc == 0) rc = print_result(cli, imp, dir, bytes, fg_clock() - start, err);
    if (rc == FG_EINTERRUPTED && sig) rc = fg_signals_exit_code(sig);
    fg_import_close(imp);
    return rc;
}

static const struct fg_opt options[] = {
    {.name = "output",
     .letter = 'o',
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .required = true,
     .group = "Import",
     .help = "the checkpoint directory to write, new or empty"},
    {.name = "dtype",
     .kind = FG_OPT_CHOICE,
     .value = "TYPE",
     .def = "keep",
     .choices = "keep|bf16|f16|f32",
     .group = "Import",
     .help = "keep (exact: quantized tensors become F32), bf16, f16 or f32"},
    {0},
};
static const struct fg_opt *const tables[] = {options, NULL};
static const char *const examples[] = {"forge import model.gguf --output model/ --dtype bf16",
                                       NULL};

const struct fg_command fg_cmd_import = {
    .name = "import",
    .group = "Make",
    .summary = "turn a GGUF file into a checkpoint directory",
    .about = "Writes config.json, safetensors, tokenizer and chat template. Stopped with Ctrl-C it "
             "leaves no checkpoint; the same command starts again.",
    .args = "FILE.gguf",
    .args_min = 1,
    .args_max = 1,
    .opts = tables,
    .examples = examples,
    .run = run_import,
};
