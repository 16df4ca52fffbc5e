// eval/klk_unit.c
#include "eval/klk_unit.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "eval/klk_summary.h"
#include "eval/report.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WHAT "sensitivity"
#define LINES_BYTES_MAX (256u << 20)

// ---- the mixed model

// Name of the file of layer i, or of the head.
static void file_name(char out[64], const struct fg_sens_unit *u, int64_t i)
{
    if (u->first < 0)
        snprintf(out, 64, "lm_head.safetensors");
    else
        snprintf(out, 64, "layer_%02" PRId64 "%s.safetensors", i, u->mixer ? "_mixer" : "");
}

bool fg_klk_unit_there(const char *export_dir, const struct fg_sens_unit *unit)
{
    bool there = true;
    for (int64_t i = unit->first; i <= unit->last && there; i++) {
        char name[64];
        file_name(name, unit, i);
        char *path = fg_path_join(export_dir, name);
        there = path && fg_file_exists(path);
        free(path);
    }
    return there;
}

static int link_file(const char *from_dir, const char *to_dir, const char *name,
                     struct fg_error *err)
{
    char *from = fg_path_join(from_dir, name), *to = fg_path_join(to_dir, name);
    int rc = from && to ? 0 : fg_fail_memory(err, WHAT, strlen(name));
    if (!rc && !fg_file_exists(from))
        rc = fg_fail(err, FG_EINPUT, WHAT, from, NULL, "a file of the export", "no such file");
    if (!rc) {
        unlink(to); // of an earlier run, perhaps of another export
        if (symlink(from, to)) rc = fg_fail_errno(err, to, "link", errno);
    }
    free(from);
    free(to);
    return rc;
}

// DIR/model: links, and the file that makes an export of them.
static int link_unit(const struct fg_klk_unit_job *job, const char *dir, struct fg_error *err)
{
    char *from = realpath(job->export_dir, NULL), *json = fg_path_join(dir, "export.json");
    int rc = from ? 0 : fg_fail_errno(err, job->export_dir, "open", errno);
    if (!rc && !json) rc = fg_fail_memory(err, WHAT, strlen(dir));
    if (!rc) rc = fg_dir_make(dir, err);
    for (int64_t i = job->unit.first; i <= job->unit.last && !rc; i++) {
        char name[64];
        file_name(name, &job->unit, i);
        rc = link_file(from, dir, name, err);
    }
    static const char text[] = "{\"schema\": \"forge.export/1\"}\n";
    if (!rc) rc = fg_file_replace(json, text, sizeof text - 1, err);
    free(from);
    free(json);
    return rc;
}

// Of the unit's files and the checkpoint's.
static int identify(const struct fg_klk_unit_job *job, const char *dir, char hex[FG_SHA256_HEX],
                    struct fg_error *err)
{
    struct fg_eval_identity id;
    char text[2 * FG_SHA256_HEX + 1];
    int rc = fg_eval_identify(&id, dir, NULL, NULL, err);
    if (rc) return rc;
    const int n = snprintf(text, sizeof text, "%s\n%s\n", job->model_digest, id.hex);
    return fg_sha256_hex(text, (uint64_t)n, hex) ? 0 : fg_fail_memory(err, WHAT, sizeof text);
}

// ---- the figures

// One line of sequences.jsonl: the sum of the differences of NLLs, and the positions.
static int read_line(const char *line, size_t n, const char *path, double *num, double *den,
                     struct fg_error *err)
{
    struct fg_json doc;
    int64_t positions = 0;
    double ppl = 0, ref = 0;
    int rc = fg_json_parse(&doc, line, n, path, err);
    if (rc) return rc;
    rc = fg_json_i64(&doc, doc.root, "", "positions", 0, 1, INT64_MAX - 1, &positions, NULL, err);
    if (!rc) rc = fg_json_f64(&doc, doc.root, "", "ppl", 0, &ppl, NULL, err);
    if (!rc) rc = fg_json_f64(&doc, doc.root, "", "ref_ppl", 0, &ref, NULL, err);
    fg_json_close(&doc);
    if (!rc && !(ppl > 0 && ref > 0))
        rc = fg_fail(err, FG_EINPUT, WHAT, path, "ppl", "numbers above 0", "others");
    *den = (double)positions;
    *num = *den * (log(ppl) - log(ref));
    return rc;
}

static int read_nlls(const char *report, int64_t sequences, double *num, double *den,
                     struct fg_error *err)
{
    struct fg_buf b = {0};
    char *path = fg_path_join(report, "sequences.jsonl");
    int64_t found = 0;
    int rc = path ? fg_file_load(&b, path, LINES_BYTES_MAX, err)
                  : fg_fail_memory(err, WHAT, strlen(report));
    for (size_t at = 0; at < b.len && found < sequences && !rc; found++) {
        const char *end = memchr(b.data + at, '\n', b.len - at);
        const size_t n = end ? (size_t)(end - b.data) - at : b.len - at;
        rc = read_line(b.data + at, n, path, &num[found], &den[found], err);
        at += n + 1;
    }
    if (!rc && found < sequences)
        rc = fg_fail(err, FG_EINPUT, WHAT, path, "lines", "one for each sequence", "fewer");
    fg_buf_free(&b);
    free(path);
    return rc;
}

static int read_report(struct fg_klk_unit_result *out, const char *report, uint64_t seed,
                       struct fg_error *err)
{
    struct fg_klk_summary s;
    int rc = fg_klk_summary_open(&s, report, err);
    if (rc) return rc;
    const size_t n = (size_t)s.n_sequences;
    double *num = malloc(n * sizeof *num), *den = malloc(n * sizeof *den);
    out->kl = s.all.mean;
    out->positions = s.all.positions;
    if (!num || !den) rc = fg_fail_memory(err, WHAT, 2 * n * sizeof *num);
    if (!rc) rc = read_nlls(report, s.n_sequences, num, den, err);
    if (!rc)
        rc = fg_bootstrap(&out->delta_nll, num, den, s.n_sequences, FG_BOOTSTRAP_RESAMPLES, seed,
                          err);
    free(num);
    free(den);
    fg_klk_summary_free(&s);
    return rc;
}

// What takes most of a report and is needed no more.
static void drop_log_probabilities(const char *report)
{
    char *path = fg_path_join(report, "q_topk_lp.npy");
    if (path) unlink(path);
    free(path);
}

// ---- the whole

static int check_teacher(const struct fg_klk_unit_job *job, struct fg_error *err)
{
    const struct fg_teacher_facts *f = fg_teacher_facts(job->kl.teacher);
    char expected[96];
    if (strcmp(f->model, job->model_digest) == 0) return 0;
    snprintf(expected, sizeof expected, "%.16s..., the model's", job->model_digest);
    return fg_fail(err, FG_EINTEGRITY, "teacher", NULL, "model", expected, "%.16s...", f->model);
}

static int measure(const struct fg_klk_unit_job *job, const char *model, const char *report,
                   struct fg_error *err)
{
    struct forge_engine_options o = job->engine;
    struct forge_engine *e = NULL;
    struct fg_klk_job kl = job->kl;
    struct fg_klk_result result;
    char digest[FG_SHA256_HEX], tokenizer[FG_SHA256_HEX];
    o.model = model;
    o.model_dir = job->model;
    o.fill = true;
    int rc = identify(job, model, digest, err);
    if (!rc) rc = forge_engine_open(&e, &o, err);
    if (!rc) rc = forge_tokenizer_digest(e, tokenizer, err);
    kl.side = (struct fg_eval_side){.engine = e};
    kl.out = report;
    kl.model = model;
    kl.model_digest = digest;
    kl.tokenizer = tokenizer;
    if (!rc) rc = fg_klk_run(&kl, &result, err);
    forge_engine_close(e);
    return rc;
}

int fg_klk_unit(struct fg_klk_unit_result *out, const struct fg_klk_unit_job *job,
                struct fg_error *err)
{
    char *model = fg_path_join(job->dir, "model"), *report = fg_path_join(job->dir, "report");
    int rc = model && report ? 0 : fg_fail_memory(err, WHAT, strlen(job->dir));
    if (!rc) rc = check_teacher(job, err);
    if (!rc && !fg_dir_exists(job->model))
        rc = fg_fail(err, FG_EINPUT, WHAT, job->model, NULL, "a checkpoint directory",
                     "no directory");
    if (!rc) rc = link_unit(job, model, err);
    if (!rc) rc = measure(job, model, report, err);
    if (!rc) rc = read_report(out, report, job->kl.seed, err);
    if (!rc) drop_log_probabilities(report);
    free(model);
    free(report);
    return rc;
}
