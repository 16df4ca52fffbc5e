// cli/cache.c: `forge cache list|clear|verify|path`: what `forge compile` keeps (specs: cli 17).
#include "base/file.h"
#include "base/progress.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "runtime/cache.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// ---- shared

static int open_cache(const struct fg_cli *cli, char **state, struct fg_cache *c,
                      struct fg_error *err)
{
    int rc = fg_cli_state_dir(cli, false, state, err);
    if (rc) return rc;
    rc = fg_cache_open(c, *state, err);
    if (rc) {
        free(*state);
        *state = NULL;
    }
    return rc;
}

static void entry_json(struct fg_jwrite *w, const struct fg_cache_entry *e)
{
    fg_jwrite_object(w, NULL);
    fg_jwrite_str(w, "kind", fg_cache_kind_name(e->kind));
    fg_jwrite_str(w, "path", e->path);
    fg_jwrite_str(w, "key", e->key);
    fg_jwrite_uint(w, "bytes", e->bytes);
    fg_jwrite_int(w, "last_used_unix_seconds", e->used_s);
    fg_jwrite_bool(w, "in_use", e->in_use);
}

// "4 minutes ago"
static char *ago(char *out, size_t cap, int64_t used_s)
{
    char text[32];
    double seconds = difftime(time(NULL), (time_t)used_s);
    if (seconds < 1)
        snprintf(out, cap, "now");
    else if (seconds < 86400)
        snprintf(out, cap, "%s ago", fg_format_seconds(text, sizeof text, seconds));
    else
        snprintf(out, cap, "%.0f days ago", seconds / 86400);
    return out;
}

// ---- list

static int run_list(struct fg_cli *cli, struct fg_error *err)
{
    struct fg_cache c;
    struct fg_jwrite w = {0};
    char *state, bytes[32], when[48];
    int rc = open_cache(cli, &state, &c, err);
    if (rc) return rc;
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    fg_jwrite_uint(&w, "bytes", c.bytes);
    fg_jwrite_array(&w, "entries");
    for (uint64_t i = 0; i < c.n; i++) {
        const struct fg_cache_entry *e = &c.entries[i];
        if (cli->json) {
            entry_json(&w, e);
            fg_jwrite_end_object(&w);
            continue;
        }
        printf("%-8s %10s  %-24.24s  %s%s\n", fg_cache_kind_name(e->kind),
               fg_format_bytes(bytes, sizeof bytes, e->bytes), e->key,
               ago(when, sizeof when, e->used_s), e->in_use ? "  in use" : "");
    }
    fg_jwrite_end_array(&w);
    fg_jwrite_end_object(&w);
    if (cli->json) {
        rc = fg_out_json(&w, err);
    } else {
        printf("%" PRIu64 " files, %s\n", c.n, fg_format_bytes(bytes, sizeof bytes, c.bytes));
        fg_jwrite_free(&w);
        rc = fg_out_flush(err);
    }
    fg_cache_close(&c);
    free(state);
    return rc;
}

// ---- clear

// True when a person at the terminal says yes.
static bool confirm(const struct fg_cache *c)
{
    char bytes[32], answer[16] = "";
    fprintf(stderr, "remove %" PRIu64 " files, %s? [y/N] ", c->n,
            fg_format_bytes(bytes, sizeof bytes, c->bytes));
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static int clear(struct fg_cli *cli, const char *state, struct fg_cache *c, struct fg_error *err)
{
    bool dry = fg_args_flag(&cli->args, "dry-run");
    struct fg_jwrite w = {0};
    char bytes[32];
    uint64_t n = 0, freed = 0, kept = 0;
    int rc = 0;
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", "ok");
    fg_jwrite_bool(&w, "dry_run", dry);
    fg_jwrite_array(&w, "entries");
    for (uint64_t i = 0; i < c->n && rc == 0; i++) {
        const struct fg_cache_entry *e = &c->entries[i];
        bool keep = e->in_use;
        if (!dry) rc = fg_cache_remove(state, e, &keep, err);
        if (rc) break;
        kept += keep;
        n += !keep;
        freed += keep ? 0 : e->bytes;
        entry_json(&w, e);
        fg_jwrite_bool(&w, "removed", !keep && !dry);
        fg_jwrite_end_object(&w);
        if (!cli->json && (dry || keep))
            printf("%s %s\n", keep ? "in use, kept:" : "would remove", e->path);
    }
    fg_jwrite_end_array(&w);
    fg_jwrite_uint(&w, "removed", dry ? 0 : n);
    fg_jwrite_uint(&w, "bytes", freed);
    fg_jwrite_uint(&w, "kept", kept);
    fg_jwrite_end_object(&w);
    if (rc == 0 && cli->json) return fg_out_json(&w, err);
    fg_jwrite_free(&w);
    if (rc) return rc;
    printf("%s%" PRIu64 " files, %s\n", dry ? "would remove " : "removed ", n,
           fg_format_bytes(bytes, sizeof bytes, freed));
    return fg_out_flush(err);
}

static int run_clear(struct fg_cli *cli, struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    struct fg_cache c;
    char *state;
    if (!fg_args_flag(args, "builds") && !fg_args_flag(args, "all"))
        return fg_fail(err, FG_EINPUT, "options", NULL, NULL, "--builds or --all", "neither");
    int rc = open_cache(cli, &state, &c, err);
    if (rc) return rc;
    if (fg_args_given(args, "older")) {
        int64_t before = (int64_t)time(NULL) - fg_args_int(args, "older") * 86400;
        uint64_t n = 0;
        c.bytes = 0;
        for (uint64_t i = 0; i < c.n; i++)
            if (c.entries[i].used_s < before) {
                c.bytes += c.entries[i].bytes;
                c.entries[n++] = c.entries[i];
            }
        c.n = n;
    }
    bool ask = c.n && !fg_args_flag(args, "yes") && !fg_args_flag(args, "dry-run") && !cli->json &&
               isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    if (ask && !confirm(&c))
        rc = fg_fail(err, FG_EFAILED, "cache", NULL, NULL, NULL, "left as it is");
    else
        rc = clear(cli, state, &c, err);
    fg_cache_close(&c);
    free(state);
    return rc;
}

// ---- verify

static int run_verify(struct fg_cli *cli, struct fg_error *err)
{
    struct fg_cache c;
    struct fg_pool *pool = NULL;
    struct fg_jwrite w = {0};
    struct fg_error first = {0};
    char *state;
    uint64_t bad = 0;
    int rc = open_cache(cli, &state, &c, err);
    if (rc) return rc;
    rc = fg_pool_new(&pool, cli->threads ? cli->threads : fg_threads_default(), err);
    fg_jwrite_object(&w, NULL);
    fg_jwrite_array(&w, "entries");
    for (uint64_t i = 0; i < c.n && rc == 0; i++) {
        const struct fg_cache_entry *e = &c.entries[i];
        struct fg_error inner = {0};
        char line[1024];
        int found = fg_cache_check(e, pool, &inner);
        if (found && !bad++) first = inner;
        fg_error_line(&inner, line, sizeof line);
        entry_json(&w, e);
        fg_jwrite_bool(&w, "sound", found == 0);
        fg_jwrite_str(&w, "error", found ? line : NULL);
        fg_jwrite_end_object(&w);
        if (!cli->json) printf("%-7s %s\n", found ? "DAMAGED" : "ok", e->path);
    }
    fg_jwrite_end_array(&w);
    fg_jwrite_uint(&w, "damaged", bad);
    fg_jwrite_str(&w, "status", bad ? "damaged" : "ok");
    fg_jwrite_end_object(&w);
    if (rc == 0 && cli->json) {
        rc = fg_out_json(&w, err);
        if (rc == 0 && bad) rc = FG_EINTEGRITY; // the object has said it
    } else {
        fg_jwrite_free(&w);
        if (rc == 0) rc = fg_out_flush(err);
        if (rc == 0 && bad) {
            *err = first;
            rc = err->code = FG_EINTEGRITY;
            fg_error_hint(err, "forge compile makes damaged files anew");
        }
    }
    fg_pool_free(pool);
    fg_cache_close(&c);
    free(state);
    return rc;
}

// ---- path

static int run_path(struct fg_cli *cli, struct fg_error *err)
{
    char *state;
    int rc = fg_cli_state_dir(cli, false, &state, err);
    if (rc) return rc;
    char *path = fg_path_join(state, "builds");
    free(state);
    if (!path) return fg_fail_memory(err, "cache", 1);
    if (cli->json) {
        struct fg_jwrite w = {0};
        fg_jwrite_object(&w, NULL);
        fg_jwrite_str(&w, "status", "ok");
        fg_jwrite_str(&w, "builds", path);
        fg_jwrite_end_object(&w);
        rc = fg_out_json(&w, err);
    } else {
        printf("%s\n", path);
        rc = fg_out_flush(err);
    }
    free(path);
    return rc;
}

// ---- tables

static const struct fg_opt clear_options[] = {
    {.name = "builds",
     .kind = FG_OPT_FLAG,
     .group = "Clear",
     .help = "specialized builds: tile files, plans, measurements"},
    {.name = "all", .kind = FG_OPT_FLAG, .group = "Clear", .help = "everything"},
    {.name = "older",
     .kind = FG_OPT_INT,
     .value = "DAYS",
     .group = "Clear",
     .min = 0,
     .max = 36500,
     .help = "only what was not used for so many days"},
    {.name = "dry-run",
     .kind = FG_OPT_FLAG,
     .group = "Clear",
     .help = "say what would be removed, and remove nothing"},
    {.name = "yes", .letter = 'y', .kind = FG_OPT_FLAG, .group = "Clear", .help = "do not ask"},
    {0},
};
static const struct fg_opt *const clear_tables[] = {clear_options, NULL};

static const struct fg_command cmd_list = {
    .name = "list",
    .group = "Cache",
    .summary = "what is kept: kind, size, key, last use",
    .args = "",
    .run = run_list,
};
static const struct fg_command cmd_clear = {
    .name = "clear",
    .group = "Cache",
    .summary = "remove what is kept",
    .about = "What a running process uses stays. The packages themselves are never touched.",
    .args = "",
    .opts = clear_tables,
    .run = run_clear,
};
static const struct fg_command cmd_verify = {
    .name = "verify",
    .group = "Cache",
    .summary = "check all checksums of what is kept",
    .args = "",
    .run = run_verify,
};
static const struct fg_command cmd_path = {
    .name = "path",
    .group = "Cache",
    .summary = "print where it is kept",
    .args = "",
    .run = run_path,
};
static const struct fg_command *const subcommands[] = {&cmd_list, &cmd_clear, &cmd_verify,
                                                       &cmd_path, NULL};

const struct fg_command fg_cmd_cache = {
    .name = "cache",
    .group = "Machine",
    .summary = "list, clear or verify what forge compile keeps",
    .args = "",
    .subs = subcommands,
};
