// bundle/source.c: opening whatever holds quantized weights.
#include "bundle/source.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "format/build.h"
#include "format/package.h"
#include "model/needs.h"
#include "quant/export.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WHAT "weights"
#define CONFIG_BYTES_MAX ((uint64_t)16 << 20)
#define SNIFF_BYTES 65536 // of a file's start; the metadata come first in packages

struct fg_source {
    enum fg_source_kind kind;
    struct fg_arena arena; // of config and needs
    struct fg_export *export;
    struct fg_build *build;
    struct fg_package *package;
    bool has_config;
    struct fg_config config;
    const struct fg_qset *set;
    char *path;
};

// True when the safetensors file says that it is a package.
static bool is_package(const char *path)
{
    char text[SNIFF_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : -1;
    if (fd >= 0) close(fd);
    if (n < 10 || text[8] != '{') return false;
    return memmem(text, (size_t)n, "\"forge.format\"", strlen("\"forge.format\"")) != NULL;
}

static bool dir_has(const char *dir, const char *name)
{
    char *path = fg_path_join(dir, name);
    bool has = path && fg_file_exists(path);
    free(path);
    return has;
}

enum fg_source_kind fg_source_kind(const char *path)
{
    if (!fg_dir_exists(path)) return is_package(path) ? FG_SOURCE_PACKAGE : FG_SOURCE_NONE;
    if (fg_export_is(path) || dir_has(path, "lm_head.safetensors")) return FG_SOURCE_EXPORT;
    return fg_build_is(path) ? FG_SOURCE_BUILD : FG_SOURCE_NONE;
}

// Reads dir/config.json when it is there.
static int read_config(struct fg_source *s, const char *dir, struct fg_error *err)
{
    if (!dir || s->has_config || !dir_has(dir, "config.json")) return 0;
    char *path = fg_path_join(dir, "config.json");
    if (!path) return fg_fail_memory(err, WHAT, strlen(dir));
    struct fg_json doc = {0};
    int rc = fg_json_open(&doc, path, CONFIG_BYTES_MAX, err);
    if (!rc) rc = fg_config_parse(&s->config, &doc, &s->arena, err);
    s->has_config = rc == 0;
    fg_json_close(&doc);
    free(path);
    return rc;
}

static int open_export(struct fg_source *s, const char *path, const struct fg_source_options *o,
                       struct fg_error *err)
{
    struct fg_export_options options = {
        .model_dir = o->model_dir, .allow_missing = o->partial, .pool = o->pool, .log = o->log};
    struct fg_export_need *needs = NULL;
    // Of a directory that is not there nothing would be taken, and nothing said.
    if (o->model_dir && !fg_dir_exists(o->model_dir))
        return fg_fail(err, FG_EINPUT, WHAT, o->model_dir, NULL, "a directory",
                       fg_path_taken(o->model_dir) ? "something else" : "no such directory");
    int rc = read_config(s, path, err);
    if (!rc) rc = read_config(s, o->model_dir, err);
    if (!rc && s->has_config)
        rc = fg_model_needs(&needs, &options.n_needs, &s->config, &s->arena, err);
    options.needs = needs;
    if (!rc) rc = fg_export_open(&s->export, path, &options, err);
    if (!rc) s->set = fg_export_set(s->export);
    return rc;
}

static int open_build(struct fg_source *s, const char *path, struct fg_error *err)
{
    int rc = fg_build_open(&s->build, path, false, err);
    if (rc) return rc;
    s->set = fg_build_set(s->build);
    return read_config(s, fg_build_model_dir(s->build), err);
}

int fg_source_open(struct fg_source **out, const char *path, const struct fg_source_options *o,
                   struct fg_error *err)
{
    static const struct fg_source_options none;
    struct fg_source *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s) return fg_fail_memory(err, WHAT, sizeof *s);
    if (!o) o = &none;
    fg_arena_init(&s->arena, 0);
    s->kind = fg_source_kind(path);
    int rc = 0;
    switch (s->kind) {
    case FG_SOURCE_EXPORT: rc = open_export(s, path, o, err); break;
    case FG_SOURCE_BUILD: rc = open_build(s, path, err); break;
    case FG_SOURCE_PACKAGE:
        rc = fg_package_open(&s->package, path, err);
        if (!rc) s->set = fg_package_set(s->package);
        break;
    case FG_SOURCE_NONE:
        rc = fg_fail(err, FG_EINPUT, WHAT, path, NULL,
                     "a quantized export, a build with manifest.json, a bundle or a package",
                     fg_path_taken(path) ? "something else" : "no such file or directory");
        break;
    }
    s->path = strdup(s->build ? fg_build_dir(s->build) : path);
    if (!rc && !s->path) rc = fg_fail_memory(err, WHAT, strlen(path));
    if (rc) {
        fg_source_close(s);
        return rc;
    }
    *out = s;
    return 0;
}

void fg_source_close(struct fg_source *s)
{
    if (!s) return;
    fg_export_close(s->export);
    fg_build_close(s->build);
    fg_package_close(s->package);
    fg_arena_free(&s->arena);
    free(s->path);
    free(s);
}

enum fg_source_kind fg_source_kind_of(const struct fg_source *s)
{
    return s->kind;
}

const struct fg_qset *fg_source_set(const struct fg_source *s)
{
    return s->set;
}

const struct fg_export *fg_source_export(const struct fg_source *s)
{
    return s->export;
}

const struct fg_build *fg_source_build(const struct fg_source *s)
{
    return s->build;
}

const struct fg_package *fg_source_package(const struct fg_source *s)
{
    return s->package;
}

const struct fg_config *fg_source_config(const struct fg_source *s)
{
    return s->has_config ? &s->config : NULL;
}

const char *fg_source_path(const struct fg_source *s)
{
    return s->path;
}
