// eval/bench_budget.c: what files tell of a model without reading its weights: memory, from their
// sizes and the config, and identity.
#include "eval/bench.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/machine.h"
#include "format/build.h"
#include "format/manifest.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CONFIG_BYTES_MAX ((uint64_t)1 << 20)
#define SUFFIX ".safetensors"

static bool has_suffix(const char *name)
{
    size_t n = strlen(name), m = sizeof SUFFIX - 1;
    return n > m && strcmp(name + n - m, SUFFIX) == 0;
}

static uint64_t file_bytes(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 ? (uint64_t)st.st_size : 0;
}

static int dir_bytes(uint64_t *bytes, const char *dir, struct fg_error *err)
{
    *bytes = 0;
    DIR *d = opendir(dir);
    if (!d) return fg_fail_errno(err, dir, "open", errno);
    const struct dirent *e;
    while ((e = readdir(d))) {
        if (!has_suffix(e->d_name)) continue;
        char *path = fg_path_join(dir, e->d_name);
        if (path) *bytes += file_bytes(path);
        free(path);
    }
    closedir(d);
    return 0;
}

static void judge_file(struct fg_budget *b, uint64_t bytes, int64_t positions)
{
    struct fg_machine m;
    fg_machine_probe(&m);
    *b = (struct fg_budget){
        .weights = bytes,
        .reserve = FG_BUDGET_RESERVE,
        .n_entries = 1,
        .entries[0] = {.ctx = positions, .total = bytes},
    };
    fg_budget_judge(b, fg_machine_free_bytes(&m));
}

// What the manifest of a build offers, or what follows from the config of everything else.
static int find_contexts(struct fg_contexts *c, const struct fg_config *cfg, const char *forge,
                         bool fast, struct fg_error *err)
{
    struct fg_manifest m;
    char *path = fg_path_join(forge, "manifest.json");
    if (!path) return fg_fail_memory(err, "path", strlen(forge));
    int rc = 0;
    if (!fg_file_exists(path)) {
        fg_contexts_of_config(c, cfg, fast);
    } else {
        rc = fg_manifest_open(&m, path, err);
        if (rc == 0) fg_contexts_of_build(c, &m, cfg->max_positions);
        if (rc == 0) fg_manifest_close(&m);
    }
    free(path);
    return rc;
}

static int with_config(struct fg_budget *b, const struct fg_bench_asked *o, const char *config,
                       const char *forge, uint64_t bytes, int64_t *ctx, struct fg_error *err)
{
    struct fg_json doc;
    struct fg_arena arena;
    struct fg_config cfg;
    struct fg_contexts c;
    struct fg_context context;
    struct fg_budget_options bo = {
        .weight_bytes = bytes, .fast = o->fast, .rows = o->rows, .threads = o->threads};
    int rc = fg_json_open(&doc, config, CONFIG_BYTES_MAX, err);
    if (rc) return rc;
    fg_arena_init(&arena, 0);
    rc = fg_config_parse(&cfg, &doc, &arena, err);
    if (rc == 0) rc = find_contexts(&c, &cfg, forge, o->fast, err);
    if (rc == 0) rc = fg_contexts_kv(&bo.kv, &c, o->kv_cache_dtype, o->path, err);
    if (rc == 0) {
        *ctx = o->positions ? fg_contexts_holding(&c, o->positions) : c.entries[c.n - 1];
        if (*ctx == 0)
            rc = fg_fail(err, FG_EINPUT, "bench", o->path, "positions",
                         "what the model has room for", "%lld of %lld", (long long)o->positions,
                         (long long)c.rows[c.n - 1]);
    }
    if (rc == 0) rc = fg_contexts_pick(&context, &c, *ctx, o->path, err);
    if (rc == 0) {
        bo.quantized = c.of_build;
        bo.entries = context.entries;
        bo.n_entries = context.n_entries;
        fg_budget_make(b, &cfg, &bo);
    }
    fg_arena_free(&arena);
    fg_json_close(&doc);
    return rc;
}

int fg_bench_budget(struct fg_budget *b, int64_t *ctx, const struct fg_bench_asked *o,
                    struct fg_error *err)
{
    *b = (struct fg_budget){0};
    *ctx = o->positions;
    if (!fg_dir_exists(o->path)) {
        judge_file(b, file_bytes(o->path), o->positions);
        return b->weights ? 0 : fg_fail_errno(err, o->path, "open", ENOENT);
    }
    char *forge = fg_path_join(o->path, "forge"), *beside = fg_path_join(o->path, "../model");
    char *within = fg_path_join(o->path, "model");
    int rc = forge && beside && within ? 0 : fg_fail_memory(err, "paths", strlen(o->path));
    const char *dir = o->path, *build = o->path;
    // A bundle has its packages and its config in two folders; a build alone has a neighbour.
    if (rc == 0 && fg_dir_exists(forge)) {
        dir = within;
        build = forge;
    } else if (rc == 0 && fg_build_is(o->path)) {
        dir = beside;
    }
    char *config = rc == 0 ? fg_path_join(dir, "config.json") : NULL;
    uint64_t bytes = 0;
    if (rc == 0 && !config) rc = fg_fail_memory(err, "path", strlen(dir));
    if (rc == 0) rc = dir_bytes(&bytes, build, err);
    if (rc == 0) rc = with_config(b, o, config, build, bytes, ctx, err);
    free(forge);
    free(beside);
    free(within);
    free(config);
    return rc;
}

void fg_bench_digest(char out[FG_SHA256_HEX], const char *path)
{
    static const char *const places[] = {"forge/manifest.json", "manifest.json"};
    out[0] = '\0';
    for (int i = 0; i < 2 && !out[0]; i++) {
        struct fg_manifest m;
        char *file = fg_path_join(path, places[i]);
        if (file && fg_file_exists(file) && fg_manifest_open(&m, file, NULL) == 0) {
            snprintf(out, FG_SHA256_HEX, "%s", m.weights_digest);
            fg_manifest_close(&m);
        }
        free(file);
    }
}
