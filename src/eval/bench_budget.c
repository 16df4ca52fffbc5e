// eval/bench_budget.c: what files tell of a model without reading its weights: memory, from their
// sizes and the config, and identity.
#include "eval/bench.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/machine.h"
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

static int with_config(struct fg_budget *b, const char *config, uint64_t bytes, int64_t ctx,
                       int64_t rows, struct fg_error *err)
{
    struct fg_json doc;
    struct fg_arena arena;
    struct fg_config cfg;
    int rc = fg_json_open(&doc, config, CONFIG_BYTES_MAX, err);
    if (rc) return rc;
    fg_arena_init(&arena, 0);
    rc = fg_config_parse(&cfg, &doc, &arena, err);
    if (rc == 0) fg_budget_make(b, &cfg, bytes, ctx, rows);
    fg_arena_free(&arena);
    fg_json_close(&doc);
    return rc;
}

int fg_bench_budget(struct fg_budget *b, const char *path, int64_t ctx, int64_t rows,
                    struct fg_error *err)
{
    *b = (struct fg_budget){0};
    if (!fg_dir_exists(path)) {
        struct fg_machine m;
        fg_machine_probe(&m);
        b->weights = file_bytes(path);
        b->available = fg_machine_free_bytes(&m);
        return b->weights ? 0 : fg_fail_errno(err, path, "open", ENOENT);
    }
    char *forge = fg_path_join(path, "forge"), *config = fg_path_join(path, "model/config.json");
    char *plain = fg_path_join(path, "config.json");
    int rc = forge && config && plain ? 0 : fg_fail_memory(err, "paths", strlen(path));
    uint64_t bytes = 0;
    if (rc == 0) rc = dir_bytes(&bytes, fg_dir_exists(forge) ? forge : path, err);
    if (rc == 0)
        rc = with_config(b, fg_file_exists(config) ? config : plain, bytes, ctx, rows, err);
    free(forge);
    free(config);
    free(plain);
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
