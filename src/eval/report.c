// eval/report.c: identities and settings for reports.
#include "eval/report.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/machine.h"
#include "eval/bench.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

static int is_model_file(const struct dirent *e)
{
    return strcmp(e->d_name, "config.json") == 0 || ends_with(e->d_name, ".safetensors") ||
           ends_with(e->d_name, ".gguf");
}

static int add_file(struct fg_buf *lines, const char *path, const char *name, struct fg_error *err)
{
    char hex[FG_SHA256_HEX];
    int rc = fg_sha256_file(path, hex, err);
    if (rc == 0) fg_buf_printf(lines, "%s %s\n", name, hex);
    return rc;
}

static int add_dir(struct fg_buf *lines, const char *dir, bool (*stop)(void *ctx), void *ctx,
                   struct fg_error *err)
{
    struct dirent **list;
    int n = scandir(dir, &list, is_model_file, alphasort), rc = 0;
    if (n < 0) return fg_fail_errno(err, dir, "open", errno);
    for (int i = 0; i < n; i++) {
        char *path = fg_path_join(dir, list[i]->d_name);
        if (rc == 0 && stop && stop(ctx))
            rc = fg_fail(err, FG_EINTERRUPTED, "digest", dir, NULL, NULL, "stopped");
        if (rc == 0 && !path) rc = fg_fail_memory(err, "path", strlen(dir));
        if (rc == 0) rc = add_file(lines, path, list[i]->d_name, err);
        free(path);
        free(list[i]);
    }
    free(list);
    if (rc == 0 && n == 0)
        rc = fg_fail(err, FG_EINPUT, "digest", dir, NULL, "files of a model", "none");
    return rc;
}

int fg_eval_identify(struct fg_eval_identity *id, const char *path, bool (*stop)(void *ctx),
                     void *ctx, struct fg_error *err)
{
    *id = (struct fg_eval_identity){0};
    fg_bench_digest(id->hex, path);
    id->declared = id->hex[0] != '\0';
    if (id->declared) return 0;
    struct fg_buf lines = {0};
    int rc;
    if (fg_dir_exists(path)) {
        rc = add_dir(&lines, path, stop, ctx, err);
    } else {
        const char *slash = strrchr(path, '/');
        rc = add_file(&lines, path, slash ? slash + 1 : path, err);
    }
    if (rc == 0 && (lines.failed || !fg_sha256_hex(lines.data, lines.len, id->hex)))
        rc = fg_fail_memory(err, "digest", lines.len);
    fg_buf_free(&lines);
    return rc;
}

void fg_eval_report_head(struct fg_jwrite *w, const char *kind)
{
    struct fg_machine m;
    fg_machine_probe(&m);
    time_t now = time(NULL);
    struct tm utc;
    char date[32] = "";
    if (gmtime_r(&now, &utc)) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    fg_jwrite_str(w, "schema", "forge.eval/1");
    fg_jwrite_str(w, "kind", kind);
    fg_jwrite_str(w, "version", forge_version());
    fg_jwrite_str(w, "commit", forge_commit());
    fg_jwrite_str(w, "date", date);
    fg_jwrite_object(w, "machine");
    fg_jwrite_str(w, "cpu", m.cpu);
    fg_jwrite_int(w, "cores", m.cores);
    fg_jwrite_int(w, "threads", m.threads);
    fg_jwrite_uint(w, "ram_bytes", m.ram_bytes);
    fg_jwrite_str(w, "kernel", m.kernel);
    fg_jwrite_end_object(w);
}

void fg_eval_report_model(struct fg_jwrite *w, const char *path, const struct fg_eval_identity *id,
                          const struct forge_engine *e)
{
    struct forge_engine_info info;
    forge_engine_info(e, &info);
    fg_jwrite_str(w, "model", path);
    fg_jwrite_str(w, id->declared ? "weights_digest" : "files_sha256", id->hex);
    fg_jwrite_str(w, "family", info.family);
    fg_jwrite_int(w, "vocab", info.vocab);
    fg_jwrite_str(w, "isa", info.isa);
    fg_jwrite_int(w, "threads", info.threads);
}

const char *fg_eval_attention_name(enum forge_attention a)
{
    static const char *const names[] = {"stored", "seed", "c2t"};
    return names[a];
}

const char *fg_eval_kv_name(const struct fg_eval_side *side)
{
    struct forge_engine_info info;
    const char *named = side->session.kv_cache_dtype;
    if (named && strcmp(named, "auto") != 0) return named;
    forge_engine_info(side->engine, &info);
    return info.kv_cache_dtype;
}

const char *fg_eval_numerics_name(const struct fg_eval_side *side)
{
    struct forge_engine_info info;
    forge_engine_info(side->engine, &info);
    return info.numerics == FORGE_EXACT ? "exact" : "fast";
}

void fg_eval_report_side(struct fg_jwrite *w, const char *key, const struct fg_eval_side *side)
{
    fg_jwrite_object(w, key);
    fg_jwrite_str(w, "numerics", fg_eval_numerics_name(side));
    fg_jwrite_str(w, "kv_cache_dtype", fg_eval_kv_name(side));
    fg_jwrite_bool(w, "plain_kv", side->session.plain_kv);
    fg_jwrite_str(w, "attention", fg_eval_attention_name(side->session.attention));
    fg_jwrite_end_object(w);
}

char *fg_eval_side_text(char *out, uint64_t cap, const struct fg_eval_side *side)
{
    snprintf(out, cap, "%s numerics, %s%s, attention %s", fg_eval_numerics_name(side),
             fg_eval_kv_name(side), side->session.plain_kv ? " not rotated" : "",
             fg_eval_attention_name(side->session.attention));
    return out;
}
