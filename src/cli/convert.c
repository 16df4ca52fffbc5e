// cli/convert.c: `forge convert`: a quantized export becomes a bundle (specs: cli 13).
#include "base/file.h"
#include "base/progress.h"
#include "bundle/convert.h"
#include "bundle/source.h"
#include "cli/cli.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CTX_MAX (1 << 20)
#define LIST_BYTES_MAX 1024

struct bar {
    const struct fg_cli *cli;
    struct fg_progress *progress;
};

static bool on_progress(void *ctx, uint64_t done, uint64_t total, const char *item)
{
    struct bar *bar = ctx;
    if (!bar->progress)
        bar->progress =
            fg_progress_new(stderr, bar->cli->progress, "convert", total, FG_PROGRESS_BYTES);
    fg_progress_set(bar->progress, done, item);
    return fg_signals_pending() == 0;
}

// "8K,16K" into out; *n entries.
static int parse_contexts(const char *option, const char *text, int64_t *out, int *n,
                          struct fg_error *err)
{
    static const struct fg_opt context = {
        .kind = FG_OPT_CONTEXT, .min = 256, .max = CTX_MAX, .help = ""};
    char copy[LIST_BYTES_MAX], *rest = NULL;
    *n = 0;
    if (strlen(text) >= sizeof copy)
        return fg_fail(err, FG_EINPUT, "option", NULL, option, "a short list", "a longer one");
    memcpy(copy, text, strlen(text) + 1);
    for (char *part = strtok_r(copy, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
        struct fg_opt_slot slot = {.opt = &context};
        if (*n == FG_CONVERT_CTXS_MAX)
            return fg_fail(err, FG_EINPUT, "option", NULL, option, "at most 32 entries", "more");
        int rc = fg_opt_parse(&slot, part, NULL, "option", option, err);
        if (rc) return rc;
        out[(*n)++] = slot.i;
    }
    if (*n > 0) return 0;
    return fg_fail(err, FG_EINPUT, "option", NULL, option, "contexts, as 8K,16K", "none");
}

static int kv_of_name(const char *name)
{
    if (strcmp(name, "fp16") == 0) return FG_CONVERT_KV_FP16;
    if (strcmp(name, "v8") == 0) return FG_CONVERT_KV_V8;
    if (strcmp(name, "kv8") == 0) return FG_CONVERT_KV_KV8;
    return FG_CONVERT_KV_FP16 | FG_CONVERT_KV_V8 | FG_CONVERT_KV_KV8;
}

static int read_options(const struct fg_cli *cli, struct fg_convert_options *o,
                        struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    const char *ctx = fg_args_text(args, "ctx"), *pctx = fg_args_text(args, "pctx");
    const char *def = fg_args_text(args, "kv-cache-default");
    o->model_dir = fg_args_text(args, "model");
    o->upstream_id = fg_args_text(args, "upstream-id");
    o->upstream_revision = fg_args_text(args, "upstream-revision");
    o->kv = kv_of_name(fg_args_text(args, "kv-cache-dtype"));
    o->kv_default = def ? kv_of_name(def) : 0;
    o->dry_run = fg_args_flag(args, "dry-run");
    o->log = &cli->log;
    int rc = ctx ? parse_contexts("--ctx", ctx, o->ctxs, &o->n_ctxs, err) : 0;
    if (!rc && pctx && strcmp(pctx, "none") == 0)
        o->n_pctxs = -1;
    else if (!rc && pctx)
        rc = parse_contexts("--pctx", pctx, o->pctxs, &o->n_pctxs, err);
    return rc;
}

static int print_result(const struct fg_cli *cli, const struct fg_convert_result *r, bool dry_run,
                        double seconds, struct fg_error *err)
{
    if (!cli->json) {
        char bytes[32];
        if (dry_run)
            printf("%s: %" PRIu64 " files, %s\n", r->dir, r->n_files,
                   fg_format_bytes(bytes, sizeof bytes, r->bytes));
        else
            printf("%s\n", r->dir);
        return fg_out_flush(err);
    }
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", dry_run ? "planned" : "ok");
    fg_jwrite_str(&w, "export", fg_args_text(&cli->args, "export"));
    fg_jwrite_str(&w, "bundle", r->dir);
    fg_jwrite_str(&w, "build", r->build);
    fg_jwrite_str(&w, "digest", dry_run ? NULL : r->digest);
    fg_jwrite_str(&w, "head_digest", dry_run ? NULL : r->head);
    fg_jwrite_uint(&w, "files", r->n_files);
    fg_jwrite_uint(&w, "kept_files", r->n_kept);
    fg_jwrite_uint(&w, "bytes", r->bytes);
    fg_jwrite_num(&w, "seconds", seconds);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

// An export that lacks files because forge quantize has not come to its end.
static bool unfinished(const char *dir)
{
    char *done = fg_path_join(dir, "export.json"),
         *state = fg_path_join(dir, "state/progress.json");
    bool is = done && state && !fg_path_taken(done) && fg_path_taken(state);
    free(done);
    free(state);
    return is;
}

static int run_convert(struct fg_cli *cli, struct fg_error *err)
{
    struct bar bar = {.cli = cli};
    struct fg_convert_options o = {.progress = on_progress, .ctx = &bar};
    struct fg_convert_result r = {0};
    int rc = read_options(cli, &o, err);
    if (!rc) rc = fg_pool_new(&o.pool, cli->threads ? cli->threads : fg_threads_default(), err);
    if (rc) return rc;
    fg_signals_catch();
    fg_signals_guard_maps();
    double start = fg_clock();
    rc = fg_convert(&r, fg_args_text(&cli->args, "export"), fg_args_text(&cli->args, "output"), &o,
                    err);
    fg_progress_end(bar.progress, rc == 0);
    if (rc == FG_EINPUT && unfinished(fg_args_text(&cli->args, "export")))
        fg_error_hint(err, "forge quantize has not finished this export; its command goes on");
    int sig = fg_signals_pending();
    if (!rc) rc = print_result(cli, &r, o.dry_run, fg_clock() - start, err);
    if (rc == FG_EINTERRUPTED && sig) rc = fg_signals_exit_code(sig);
    fg_convert_result_free(&r);
    fg_pool_free(o.pool);
    return rc;
}

static const struct fg_opt options[] = {
    {.name = "export",
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .required = true,
     .group = "Convert",
     .help = "the quantized export, Forge's or the original's"},
    {.name = "model",
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .def_note = "the export has them",
     .group = "Convert",
     .help = "checkpoint with what the export lacks: norms, embedding, config, tokenizer"},
    {.name = "output",
     .letter = 'o',
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .required = true,
     .group = "Convert",
     .help = "where the bundle goes, as a directory named like the export"},
    {.name = "ctx",
     .kind = FG_OPT_TEXT,
     .value = "LIST",
     .def_note = "8K,16K,32K,64K,96K,128K,192K, as far as the model goes",
     .group = "Convert",
     .help = "context entries, multiples of 256"},
    {.name = "pctx",
     .kind = FG_OPT_TEXT,
     .value = "LIST",
     .def_note = "all of --ctx",
     .group = "Convert",
     .help = "entries that prefill in blocks, or none"},
    {.name = "kv-cache-dtype",
     .kind = FG_OPT_CHOICE,
     .value = "TYPE",
     .def = "both",
     .choices = "fp16|v8|kv8|both",
     .group = "Convert",
     .help =
         "key-value cache to offer: fp16, v8 (fp16 keys, INT8 values), kv8 (INT8), or both: all"},
    {.name = "kv-cache-default",
     .kind = FG_OPT_CHOICE,
     .value = "TYPE",
     .def_note = "kv8, v8 or fp16, the first that is offered",
     .choices = "fp16|v8|kv8",
     .group = "Convert",
     .help = "what is used unless another is asked for: fp16, v8 or kv8"},
    {.name = "upstream-id",
     .kind = FG_OPT_TEXT,
     .value = "ID",
     .group = "Convert",
     .help = "where the model comes from, for the manifest"},
    {.name = "upstream-revision",
     .kind = FG_OPT_TEXT,
     .value = "REV",
     .group = "Convert",
     .help = "which state of it"},
    {.name = "dry-run",
     .kind = FG_OPT_FLAG,
     .group = "Convert",
     .help = "check everything, say what would be written, write nothing"},
    {0},
};
static const struct fg_opt *const tables[] = {options, NULL};
static const char *const examples[] = {
    "forge convert --export q/mix25 --output bundles",
    "forge convert --export published --model checkpoint --output bundles --ctx 8K,16K", NULL};

const struct fg_command fg_cmd_convert = {
    .name = "convert",
    .group = "Make",
    .summary = "turn a quantized export into a bundle",
    .about = "Writes OUTPUT/NAME with model/ (config, tokenizer, embedding) and forge/ (packages, "
             "manifest). Stopped with Ctrl-C it keeps finished files; the same command continues.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_convert,
};
