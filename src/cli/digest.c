// cli/digest.c: `forge digest`: the identity of weights, whatever they are packed in (specs: cli
// 16, quantization 6.9).
#include "base/buf.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/size.h"
#include "bundle/digest.h"
#include "bundle/source.h"
#include "cli/cli.h"
#include "format/safetensors.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_BYTES_MAX (64ull << 20)

struct job {
    struct fg_cli *cli;
    const char *path;
    const char *kind;
    struct fg_source *source;         // quantized weights, or
    struct fg_checkpoint *checkpoint; // a checkpoint, whose tensors are all small ones
    struct fg_qset set;
    struct fg_qset_small *small;
    struct fg_progress *bar;
};

static bool on_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct job *job = ctx;
    if (!job->bar)
        job->bar = fg_progress_new(stderr, job->cli->progress, "digest", total, FG_PROGRESS_BYTES);
    fg_progress_set(job->bar, done, NULL);
    return fg_signals_pending() == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct fg_qset_small *)a)->name, ((const struct fg_qset_small *)b)->name);
}

// A checkpoint as a set: its tensors under their own names.
static int open_checkpoint(struct job *job, struct fg_error *err)
{
    int rc = fg_checkpoint_open(&job->checkpoint, job->path, err);
    if (rc) return rc;
    uint64_t n = fg_checkpoint_count(job->checkpoint);
    job->small = calloc(n + 1, sizeof *job->small);
    if (!job->small) return fg_fail_memory(err, "digest", n * sizeof *job->small);
    for (uint64_t i = 0; i < n; i++) {
        const struct fg_st_tensor *t = fg_checkpoint_at(job->checkpoint, i);
        job->small[i] = (struct fg_qset_small){.name = t->name,
                                               .dtype = t->dtype,
                                               .rank = t->rank,
                                               .data = t->data,
                                               .bytes = t->bytes,
                                               .file = t->file};
        memcpy(job->small[i].shape, t->shape, sizeof t->shape);
    }
    qsort(job->small, (size_t)n, sizeof *job->small, by_name);
    job->set = (struct fg_qset){.small = job->small, .n_small = n};
    job->kind = "checkpoint";
    return 0;
}

static int open_source(struct job *job, const char *model, struct fg_pool *pool,
                       struct fg_error *err)
{
    static const char *const kinds[] = {"", "export", "build", "package"};
    const struct fg_source_options o = {.model_dir = model, .pool = pool, .log = &job->cli->log};
    int rc = fg_source_open(&job->source, job->path, &o, err);
    if (rc) return rc;
    job->set = *fg_source_set(job->source);
    job->kind = kinds[fg_source_kind_of(job->source)];
    if (fg_source_kind_of(job->source) == FG_SOURCE_EXPORT && job->set.n_small == 0)
        fg_log_warn(&job->cli->log,
                    "%s has no small tensors: without --model this is the digest of the rest",
                    job->path);
    return 0;
}

// The one place that the options name; an export may come with a model.
static int choose(struct job *job, const char **model, struct fg_error *err)
{
    static const char *const names[] = {"bundle", "export", "build", "drafter"};
    const struct fg_args *args = &job->cli->args;
    int given = args->n_rest;
    *model = fg_args_text(args, "model");
    job->path = args->n_rest ? args->rest[0] : NULL;
    for (size_t i = 0; i < FG_COUNT(names); i++) {
        if (!fg_args_text(args, names[i])) continue;
        job->path = fg_args_text(args, names[i]);
        given++;
    }
    if (given == 1 || (given == 0 && *model)) return 0;
    return fg_fail(err, FG_EINPUT, "option", NULL, NULL,
                   "one of PATH, --bundle, --export, --build, --drafter and --model", "%s",
                   given ? "several" : "none");
}

static void print_difference(void *ctx, const char *name, const char *what)
{
    struct fg_jwrite *w = ctx;
    if (!w) {
        printf("%s %s\n", what, name);
        return;
    }
    fg_jwrite_object(w, NULL);
    fg_jwrite_str(w, "name", name);
    fg_jwrite_str(w, "what", what);
    fg_jwrite_end_object(w);
}

static void json_lines(struct fg_jwrite *w, const struct fg_digest *d)
{
    fg_jwrite_array(w, "list");
    for (const char *line = d->lines; *line;) {
        size_t n = strcspn(line, "\n");
        fg_jwrite_text(w, NULL, line, n);
        line += n + (line[n] == '\n');
    }
    fg_jwrite_end_array(w);
}

// Prints the digest, and what --check finds. Returns the exit code.
static int report(struct job *job, const struct fg_digest *d, const struct fg_buf *check,
                  struct fg_error *err)
{
    const struct fg_args *args = &job->cli->args;
    const char *file = fg_args_text(args, "check");
    uint64_t n_differ = 0;
    int rc = 0;
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "path", job->path);
    fg_jwrite_str(&w, "kind", job->kind);
    fg_jwrite_str(&w, "digest", d->hex);
    fg_jwrite_str(&w, "head_digest", job->source ? d->head : NULL);
    fg_jwrite_uint(&w, "arrays", d->n_lines);
    if (fg_args_flag(args, "list")) json_lines(&w, d);
    if (file) {
        if (job->cli->json) fg_jwrite_array(&w, "differences");
        rc = fg_digest_compare(d, check->data ? check->data : "", check->len, file,
                               print_difference, job->cli->json ? &w : NULL, &n_differ, err);
        if (job->cli->json) fg_jwrite_end_array(&w);
    } else if (!job->cli->json) {
        if (fg_args_flag(args, "list") && d->n_lines) printf("%s\n", d->lines);
        printf("%s\n", d->hex);
    }
    fg_jwrite_end_object(&w);
    if (!rc && job->cli->json) rc = fg_out_json(&w, err);
    if (!rc && !job->cli->json) rc = fg_out_flush(err);
    fg_jwrite_free(&w);
    return rc ? rc : n_differ ? FG_EFAILED : 0;
}

static int check_expected(const struct job *job, const struct fg_digest *d, struct fg_error *err)
{
    const char *expect = fg_args_text(&job->cli->args, "expect");
    if (!expect) return 0;
    if (strlen(expect) != 64 || strspn(expect, "0123456789abcdef") != 64)
        return fg_fail(err, FG_EINPUT, "option", NULL, "--expect",
                       "64 lower-case hexadecimal digits", "%s", expect);
    if (strcmp(expect, d->hex) == 0) return 0;
    return fg_fail(err, FG_EINTEGRITY, "digest", job->path, NULL, expect, "%s", d->hex);
}

static int run_digest(struct fg_cli *cli, struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    struct job job = {.cli = cli};
    struct fg_digest d = {0};
    struct fg_buf check = {0};
    struct fg_pool *pool = NULL;
    const char *model, *file = fg_args_text(args, "check");
    int rc = choose(&job, &model, err);
    if (!rc && file) rc = fg_file_read(&check, file, CHECK_BYTES_MAX, err);
    if (!rc) rc = fg_pool_new(&pool, cli->threads ? cli->threads : fg_threads_default(), err);
    fg_signals_catch();
    fg_signals_guard_maps();
    if (!rc && !job.path) {
        job.path = model;
        rc = open_checkpoint(&job, err);
    } else if (!rc) {
        rc = open_source(&job, model, pool, err);
    }
    if (!rc) {
        const struct fg_qset *set = &job.set;
        const struct fg_digest_options o = {
            .pool = pool, .progress = on_progress, .progress_ctx = &job, .release = true};
        rc = fg_digest_sets(&d, &set, 1, &o, err);
        fg_progress_end(job.bar, rc == 0);
    }
    if (!rc) rc = check_expected(&job, &d, err);
    if (!rc) rc = report(&job, &d, &check, err);
    if (rc == FG_EINTERRUPTED && fg_signals_pending())
        rc = fg_signals_exit_code(fg_signals_pending());
    fg_digest_free(&d);
    fg_buf_free(&check);
    fg_source_close(job.source);
    fg_checkpoint_close(job.checkpoint);
    free(job.small);
    fg_pool_free(pool);
    return rc;
}

static const struct fg_opt options[] = {
    {.name = "bundle",
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .group = "Digest",
     .help = "a bundle: the packages of its build"},
    {.name = "export",
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .group = "Digest",
     .help = "a quantized export; --model names what supplies its small tensors if it has none"},
    {.name = "build",
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .group = "Digest",
     .help = "a directory with manifest.json"},
    {.name = "drafter",
     .kind = FG_OPT_PATH,
     .value = "PATH",
     .group = "Digest",
     .help = "a drafter package"},
    {.name = "model",
     .kind = FG_OPT_PATH,
     .value = "PATH",
     .group = "Digest",
     .help = "alone: a checkpoint"},
    {.name = "expect",
     .kind = FG_OPT_TEXT,
     .value = "HEX",
     .group = "Digest",
     .help = "fail with exit code 3 when the digest is another"},
    {.name = "list", .kind = FG_OPT_FLAG, .group = "Digest", .help = "one line per array as well"},
    {.name = "check",
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .group = "Digest",
     .help = "compare with a list made by --list: print what differs, exit 1 if anything does"},
    {0},
};
static const struct fg_opt *const tables[] = {options, NULL};
static const char *const examples[] = {
    "forge digest --export q/mix25", "forge digest bundles/mix25 --list > mix25.digest",
    "forge digest --build bundles/mix25/forge --check mix25.digest", NULL};

const struct fg_command fg_cmd_digest = {
    .name = "digest",
    .group = "Machine",
    .summary = "identify weights independently of how they are packed",
    .about = "An export, the packages made of it and their compiled form have the same digest.",
    .args = "[PATH]",
    .args_min = 0,
    .args_max = 1,
    .opts = tables,
    .examples = examples,
    .run = run_digest,
};
