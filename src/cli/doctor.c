// cli/doctor.c: `forge doctor`: what this machine offers, what is missing, and whether a model fits
// (specs: cli 3).
#include "cli/cli.h"
#include "base/file.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/progress.h"
#include "cli/model_args.h"
#include "eval/bandwidth.h"
#include "forge/forge.h"
#include "format/build.h"
#include "model/model.h"
#include "runtime/budget.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define GIB ((uint64_t)1 << 30)
#define FINDINGS_MAX 64
#define CONFIG_BYTES_MAX (16u << 20)
#define CTX_MAX ((int64_t)1 << 31)
#define ROWS 512 // of a forward call, as sessions have them
#define MEASURE_BYTES_MIN (GIB / 2)
#define MEASURE_SECONDS 1.0

enum level { OK, WARN, FAIL };
static const char *const level_names[] = {"ok", "warn", "FAIL"};

struct finding {
    enum level level;
    const char *code;
    char message[320];
    char hint[160];
    int exit_code; // of a FAIL under --strict
};

// The model that was asked about. Of a build nothing but headers and config is read.
struct subject {
    const char *path; // NULL: none was
    struct fg_model *model;
    struct fg_build *build; // one of the two
    const struct fg_config *config;
    struct fg_config of_build; // where config points then
    struct fg_arena arena;
    uint64_t weights; // read per token
    struct fg_contexts contexts;
    struct fg_budget budget;
};

struct doctor {
    struct fg_cli *cli;
    struct fg_machine machine;
    struct finding findings[FINDINGS_MAX];
    int n_findings;
    double bandwidth; // bytes per second; 0: not measured
    const char *isa;
    char *state_dir;
    const char *temp_dir;
    struct subject subject;
};

__attribute__((format(printf, 4, 5))) static struct finding *
say(struct doctor *d, enum level level, const char *code, const char *fmt, ...)
{
    struct finding *f = &d->findings[d->n_findings];
    if (d->n_findings < FINDINGS_MAX - 1) d->n_findings++;
    *f = (struct finding){.level = level, .code = code, .exit_code = FG_EUNSUPPORTED};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->message, sizeof f->message, fmt, ap);
    va_end(ap);
    return f;
}

static void hint(struct finding *f, const char *text)
{
    snprintf(f->hint, sizeof f->hint, "%s", text);
}

static void look_at_system(struct doctor *d)
{
    const struct fg_machine *m = &d->machine;
    say(d, OK, "os", "%s, %s, %s, %s", m->os[0] ? m->os : "unknown distribution", m->kernel,
        m->arch, m->libc);
}

static void look_at_cpu(struct doctor *d)
{
    const struct fg_machine *m = &d->machine;
    say(d, OK, "cpu", "%s: %d socket%s, %d cores, %d threads, %d allowed",
        m->cpu[0] ? m->cpu : "unknown processor", m->sockets, m->sockets == 1 ? "" : "s", m->cores,
        m->threads, m->allowed);
    if (m->cgroup_cpus > 0) {
        struct finding *f = say(d, m->cgroup_cpus < 1 ? WARN : OK, "cpu_limit",
                                "a control group grants %.2f CPUs", m->cgroup_cpus);
        if (f->level == WARN) hint(f, "raise the CPU quota of the container");
    }
    int threads = d->cli->threads ? d->cli->threads : forge_threads_default();
    say(d, OK, "threads", "%d used for computing", threads);

    char flags[256] = "";
    size_t at = 0;
    for (int i = 0; i < FG_CPU_FEATURES; i++) {
        if (m->feature[i])
            at += (size_t)snprintf(flags + at, sizeof flags - at, " %s", fg_cpu_feature_name(i));
    }
    bool best = strcmp(d->isa, forge_isa_name(forge_isa_count() - 1)) == 0;
    bool slow = strcmp(d->isa, "ref") == 0;
    struct finding *f =
        say(d, best && !slow ? OK : WARN, "isa", "kernels %s%s; the CPU has%s", d->isa,
            best ? "" : " (forced by FORGE_ISA)", at ? flags : " none of the flags in use");
    if (!best) {
        hint(f, "unset FORGE_ISA to use the fastest kernels");
    } else if (slow) {
        hint(f, "without AVX2 everything runs on plain C kernels: correct, but slow");
    }
}

static void look_at_caches(struct doctor *d)
{
    const struct fg_machine *m = &d->machine;
    char text[160] = "", size[32];
    size_t at = 0;
    for (int i = 0; i < m->n_caches && at < sizeof text; i++) {
        const char *kind = m->caches[i].kind == 'd' ? "d" : m->caches[i].kind == 'i' ? "i" : "";
        at += (size_t)snprintf(text + at, sizeof text - at, "%sL%d%s %s", i ? ", " : "",
                               m->caches[i].level, kind,
                               fg_format_bytes(size, sizeof size, m->caches[i].bytes));
    }
    say(d, OK, "caches", "%s", text[0] ? text : "unknown");
    struct finding *f = say(d, m->numa_nodes > 1 ? WARN : OK, "numa", "%d memory node%s",
                            m->numa_nodes, m->numa_nodes == 1 ? "" : "s");
    if (m->numa_nodes > 1)
        hint(f, "run under `numactl --interleave=all` so that all nodes serve the weights");
}

static void look_at_memory(struct doctor *d)
{
    const struct fg_machine *m = &d->machine;
    char a[32], b[32];
    uint64_t free_bytes = fg_machine_free_bytes(m);
    struct finding *f = say(d,
                            free_bytes < GIB       ? FAIL
                            : free_bytes < 4 * GIB ? WARN
                                                   : OK,
                            "memory", "%s, %s free", fg_format_bytes(a, sizeof a, m->ram_bytes),
                            fg_format_bytes(b, sizeof b, free_bytes));
    f->exit_code = FG_ERESOURCE;
    if (f->level != OK) hint(f, "close other programs, or use a smaller model");
    if (m->cgroup_bytes)
        say(d, OK, "memory_limit", "a control group grants %s, %s in use",
            fg_format_bytes(a, sizeof a, m->cgroup_bytes),
            fg_format_bytes(b, sizeof b, m->cgroup_used_bytes));
    say(d, OK, "swap", "%s, %s free", fg_format_bytes(a, sizeof a, m->swap_bytes),
        fg_format_bytes(b, sizeof b, m->swap_free_bytes));
    bool never = strcmp(m->transparent_huge_pages, "never") == 0;
    f = say(d, never ? WARN : OK, "huge_pages",
            "transparent huge pages %s, %" PRIu64 " reserved pages of %s free",
            m->transparent_huge_pages[0] ? m->transparent_huge_pages : "unknown",
            m->huge_pages_free, fg_format_bytes(a, sizeof a, m->huge_page_bytes));
    if (never) hint(f, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)");
    say(d, OK, "memlock", "%s",
        m->memlock_bytes == UINT64_MAX ? "no limit on locked memory"
                                       : fg_format_bytes(a, sizeof a, m->memlock_bytes));
    f = say(d,
            m->open_files < 64    ? FAIL
            : m->open_files < 256 ? WARN
                                  : OK,
            "open_files", "at most %" PRIu64 " open files", m->open_files);
    f->exit_code = FG_ERESOURCE;
    if (f->level != OK) hint(f, "raise the limit with `ulimit -n`");
}

static int measure(struct doctor *d, struct fg_error *err)
{
    if (!fg_args_flag(&d->cli->args, "measure")) return 0;
    uint64_t bytes = MEASURE_BYTES_MIN, quarter = fg_machine_free_bytes(&d->machine) / 4;
    for (int i = 0; i < d->machine.n_caches; i++) {
        if (2 * d->machine.caches[i].bytes > bytes) bytes = 2 * d->machine.caches[i].bytes;
    }
    if (bytes > quarter) bytes = quarter;
    int threads = d->cli->threads ? d->cli->threads : forge_threads_default();
    int rc = fg_bandwidth_read(bytes, threads, MEASURE_SECONDS, &d->bandwidth, err);
    if (rc) return rc;
    char size[32];
    say(d, OK, "bandwidth", "%.1f GB/s read by %d thread%s from %s", d->bandwidth / 1e9, threads,
        threads == 1 ? "" : "s", fg_format_bytes(size, sizeof size, bytes));
    return 0;
}

static void look_at_disk(struct doctor *d)
{
    char size[32];
    const char *paths[] = {d->state_dir, d->temp_dir}, *codes[] = {"state_disk", "temp_disk"};
    for (int i = 0; i < 2; i++) {
        uint64_t bytes = fg_disk_free_bytes(paths[i]);
        struct finding *f = say(d, bytes < GIB ? WARN : OK, codes[i], "%s free for %s",
                                fg_format_bytes(size, sizeof size, bytes), paths[i]);
        if (f->level != OK) hint(f, "free some disk space");
    }
}

// What Forge reads, and what steers the libraries below it. Of a secret only its presence is told.
static const struct {
    const char *name;
    bool secret;
} variables[] = {
    {"FORGE_THREADS", false}, {"FORGE_ISA", false},
    {"FORGE_STATE", false},   {"ANEMLL_FORGE_STATE", false},
    {"HOME", false},          {"TMPDIR", false},
    {"NO_COLOR", false},      {"LC_ALL", false},
    {"HF_TOKEN", true},       {"HUGGING_FACE_HUB_TOKEN", true},
};
#define N_VARIABLES (sizeof variables / sizeof variables[0])

static const char *variable_text(const struct doctor *d, size_t i, char *out, size_t cap)
{
    const char *v = d->cli->env(variables[i].name);
    if (!v || !variables[i].secret) return v ? fg_escape(out, cap, v, strlen(v)) : NULL;
    snprintf(out, cap, "set");
    return out;
}

static void look_at_environment(struct doctor *d)
{
    char text[256] = "", value[128];
    size_t at = 0;
    for (size_t i = 0; i < N_VARIABLES; i++) {
        const char *v = variable_text(d, i, value, sizeof value);
        if (v && at < sizeof text)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s=%s", at ? " " : "",
                                   variables[i].name, v);
    }
    say(d, OK, "environment", "%s", at ? text : "nothing set that matters");
}

// ---- the model

static int open_build(struct subject *m, struct fg_error *err)
{
    struct fg_json doc = {0};
    int rc = fg_build_open(&m->build, m->path, false, err);
    if (rc) return rc;
    for (uint64_t i = 0; i < fg_build_n_packages(m->build); i++)
        m->weights += fg_package_info(fg_build_package(m->build, i))->bytes;
    char *path = fg_path_join(fg_build_model_dir(m->build), "config.json");
    if (!path) return fg_fail_memory(err, "config", strlen(m->path));
    rc = fg_json_open(&doc, path, CONFIG_BYTES_MAX, err);
    if (rc == 0) rc = fg_config_parse(&m->of_build, &doc, &m->arena, err);
    fg_json_close(&doc);
    free(path);
    if (rc) return rc;
    m->config = &m->of_build;
    fg_contexts_of_build(&m->contexts, fg_build_manifest(m->build), m->config->max_positions);
    return 0;
}

static int open_model(struct doctor *d, struct fg_error *err)
{
    struct subject *m = &d->subject;
    if (fg_build_is(m->path)) return open_build(m, err);
    int rc = fg_model_open(&m->model, m->path, false, &d->cli->log, err);
    if (rc) return rc;
    m->config = &m->model->config;
    m->weights = m->model->token_bytes;
    fg_contexts_of_config(&m->contexts, m->config, true);
    return 0;
}

// Budgets of the contexts up to --ctx; without it, of all.
static int make_budget(struct doctor *d, struct fg_error *err)
{
    struct subject *m = &d->subject;
    const struct fg_args *args = &d->cli->args;
    const int64_t largest = m->contexts.entries[m->contexts.n - 1],
                  asked = fg_args_int(args, "ctx");
    struct fg_context context;
    enum fg_kv_format kv;
    int rc = fg_contexts_pick(&context, &m->contexts, asked ? asked : largest, m->path, err);
    if (rc == 0)
        rc = fg_contexts_kv(&kv, &m->contexts, fg_args_text(args, "kv-cache-dtype"), m->path, err);
    if (rc) {
        fg_cli_name_option(err);
        return rc;
    }
    const struct fg_budget_options o = {.weight_bytes = m->weights,
                                        .quantized = m->build || m->model->quantized,
                                        .fast = true,
                                        .kv = kv,
                                        .entries = context.entries,
                                        .n_entries = context.n_entries,
                                        .rows = ROWS,
                                        .threads = d->cli->threads ? d->cli->threads
                                                                   : forge_threads_default()};
    fg_budget_make(&m->budget, m->config, &o);
    fg_budget_judge(&m->budget, fg_machine_free_bytes(&d->machine));
    return 0;
}

static int look_at_model(struct doctor *d, struct fg_error *err)
{
    struct subject *m = &d->subject;
    const struct fg_args *args = &d->cli->args;
    int rc = fg_args_exclusive(args, "model", "bundle", err);
    if (rc) return rc;
    m->path = fg_args_text(args, "model");
    if (!m->path) m->path = fg_args_text(args, "bundle");
    if (!m->path && fg_args_given(args, "ctx"))
        return fg_fail(err, FG_EINPUT, "option", NULL, "--ctx", "--model or --bundle with it",
                       "neither");
    if (!m->path) return 0;
    rc = open_model(d, err);
    if (rc == 0) rc = make_budget(d, err);
    if (rc) return rc;
    const struct fg_budget *b = &m->budget;
    const char *release = m->build ? fg_build_manifest(m->build)->release_name : NULL;
    char weights[32], total[32], have[32];
    say(d, OK, "model", "%s: %s%s%s, %.4g million parameters, %s of weights", m->path,
        fg_family_name(m->config->family), release ? ", release " : "", release ? release : "",
        (double)fg_config_parameters(m->config) / 1e6,
        fg_format_bytes(weights, sizeof weights, m->weights));
    static const enum level levels[] = {
        [FG_BUDGET_FITS] = OK, [FG_BUDGET_TIGHT] = WARN, [FG_BUDGET_NO] = FAIL};
    for (int i = 0; i < b->n_entries; i++) {
        const struct fg_budget_entry *e = &b->entries[i];
        struct finding *f = say(
            d, levels[e->verdict], "model_memory", "context %" PRId64 ": %s of %s free: %s", e->ctx,
            fg_format_bytes(total, sizeof total, fg_budget_need(b, i)),
            fg_format_bytes(have, sizeof have, b->available), fg_budget_verdict_name(e->verdict));
        f->exit_code = FG_ERESOURCE;
        if (f->level != OK) hint(f, "a smaller --ctx or a smaller model needs less");
    }
    return 0;
}

// Memory by context (specs: runtime 3.5).
static void print_table(const struct doctor *d)
{
    const struct fg_budget *b = &d->subject.budget;
    char weights[32], kv[32], states[32], scratch[32], total[32];
    if (!d->subject.path) return;
    printf("\nmemory by context, keys and values in %s: %" PRIu64 " bytes per position\n",
           fg_kv_format_name(b->kv), b->kv_position);
    printf("%9s %11s %11s %11s %11s %11s\n", "context", "weights", "KV", "states", "scratch",
           "total");
    for (int i = 0; i < b->n_entries; i++) {
        const struct fg_budget_entry *e = &b->entries[i];
        printf("%9" PRId64 " %11s %11s %11s %11s %11s  %s\n", e->ctx,
               fg_format_bytes(weights, sizeof weights, b->weights),
               fg_format_bytes(kv, sizeof kv, e->kv),
               fg_format_bytes(states, sizeof states, b->states),
               fg_format_bytes(scratch, sizeof scratch, e->scratch),
               fg_format_bytes(total, sizeof total, e->total), fg_budget_verdict_name(e->verdict));
    }
    printf("a context fits when its total leaves %s free\n",
           fg_format_bytes(total, sizeof total, b->reserve));
}

static int print_text(const struct doctor *d, struct fg_error *err)
{
    static const char *const colors[] = {"\033[32m", "\033[33m", "\033[31m"};
    for (int i = 0; i < d->n_findings; i++) {
        const struct finding *f = &d->findings[i];
        bool color = d->cli->color_out;
        printf("%s%-4s%s  %-13s %s\n", color ? colors[f->level] : "", level_names[f->level],
               color ? "\033[0m" : "", f->code, f->message);
        if (f->hint[0]) printf("      %-13s hint: %s\n", "", f->hint);
    }
    print_table(d);
    return fg_out_flush(err);
}

// A rate that is 0 when there is none.
static void json_rate(struct fg_jwrite *w, const char *key, double v)
{
    if (v > 0) {
        fg_jwrite_num(w, key, v);
    } else {
        fg_jwrite_null(w, key);
    }
}

static void json_machine(struct fg_jwrite *w, const struct doctor *d)
{
    const struct fg_machine *m = &d->machine;
    fg_jwrite_object(w, "platform");
    fg_jwrite_str(w, "os", m->os);
    fg_jwrite_str(w, "kernel", m->kernel);
    fg_jwrite_str(w, "architecture", m->arch);
    fg_jwrite_str(w, "libc", m->libc);
    fg_jwrite_end_object(w);

    fg_jwrite_object(w, "cpu");
    fg_jwrite_str(w, "model", m->cpu);
    fg_jwrite_int(w, "sockets", m->sockets);
    fg_jwrite_int(w, "cores", m->cores);
    fg_jwrite_int(w, "threads", m->threads);
    fg_jwrite_int(w, "threads_allowed", m->allowed);
    fg_jwrite_int(w, "threads_used", d->cli->threads ? d->cli->threads : forge_threads_default());
    json_rate(w, "cgroup_cpus", m->cgroup_cpus);
    fg_jwrite_array(w, "flags");
    for (int i = 0; i < FG_CPU_FEATURES; i++) {
        if (m->feature[i]) fg_jwrite_str(w, NULL, fg_cpu_feature_name(i));
    }
    fg_jwrite_end_array(w);
    fg_jwrite_str(w, "isa", d->isa);
    fg_jwrite_array(w, "isa_usable");
    for (int i = 0; i < forge_isa_count(); i++)
        fg_jwrite_str(w, NULL, forge_isa_name(i));
    fg_jwrite_end_array(w);
    fg_jwrite_array(w, "caches");
    for (int i = 0; i < m->n_caches; i++) {
        char kind[2] = {m->caches[i].kind, '\0'};
        fg_jwrite_object(w, NULL);
        fg_jwrite_int(w, "level", m->caches[i].level);
        fg_jwrite_str(w, "kind", kind[0] == 'd' ? "data" : kind[0] == 'i' ? "code" : "unified");
        fg_jwrite_uint(w, "bytes", m->caches[i].bytes);
        fg_jwrite_end_object(w);
    }
    fg_jwrite_end_array(w);
    fg_jwrite_int(w, "numa_nodes", m->numa_nodes);
    fg_jwrite_end_object(w);
}

// A limit that may be absent.
static void json_limit(struct fg_jwrite *w, const char *key, uint64_t v, uint64_t none)
{
    if (v == none) {
        fg_jwrite_null(w, key);
    } else {
        fg_jwrite_uint(w, key, v);
    }
}

static void json_memory(struct fg_jwrite *w, const struct doctor *d)
{
    const struct fg_machine *m = &d->machine;
    fg_jwrite_object(w, "memory");
    fg_jwrite_uint(w, "total_bytes", m->ram_bytes);
    fg_jwrite_uint(w, "available_bytes", m->available_bytes);
    fg_jwrite_uint(w, "free_bytes", fg_machine_free_bytes(m));
    json_limit(w, "cgroup_bytes", m->cgroup_bytes, 0);
    fg_jwrite_uint(w, "swap_bytes", m->swap_bytes);
    fg_jwrite_uint(w, "swap_free_bytes", m->swap_free_bytes);
    fg_jwrite_str(w, "transparent_huge_pages", m->transparent_huge_pages);
    fg_jwrite_uint(w, "huge_page_bytes", m->huge_page_bytes);
    fg_jwrite_uint(w, "huge_pages_free", m->huge_pages_free);
    json_limit(w, "memlock_bytes", m->memlock_bytes, UINT64_MAX);
    json_limit(w, "open_files", m->open_files, UINT64_MAX);
    json_rate(w, "read_bytes_per_second", d->bandwidth);
    fg_jwrite_end_object(w);

    fg_jwrite_object(w, "disk");
    fg_jwrite_str(w, "state", d->state_dir);
    fg_jwrite_uint(w, "state_free_bytes", fg_disk_free_bytes(d->state_dir));
    fg_jwrite_str(w, "temp", d->temp_dir);
    fg_jwrite_uint(w, "temp_free_bytes", fg_disk_free_bytes(d->temp_dir));
    fg_jwrite_end_object(w);
}

static void json_model(struct fg_jwrite *w, const struct doctor *d)
{
    const struct subject *m = &d->subject;
    if (!m->path) {
        fg_jwrite_null(w, "model");
        return;
    }
    const struct fg_config *c = m->config;
    const struct fg_budget *b = &m->budget;
    fg_jwrite_object(w, "model");
    fg_jwrite_str(w, "path", m->path);
    fg_jwrite_str(w, "family", fg_family_name(c->family));
    fg_jwrite_uint(w, "parameters", fg_config_parameters(c));
    fg_jwrite_uint(w, "weight_bytes", b->weights);
    fg_jwrite_uint(w, "state_bytes", b->states);
    fg_jwrite_str(w, "kv_cache_dtype", fg_kv_format_name(b->kv));
    fg_jwrite_uint(w, "kv_bytes_per_position", b->kv_position);
    fg_jwrite_uint(w, "reserve_bytes", b->reserve);
    fg_jwrite_uint(w, "available_bytes", b->available);
    fg_jwrite_array(w, "contexts");
    for (int i = 0; i < b->n_entries; i++) {
        const struct fg_budget_entry *e = &b->entries[i];
        fg_jwrite_object(w, NULL);
        fg_jwrite_int(w, "positions", e->ctx);
        fg_jwrite_uint(w, "kv_bytes", e->kv);
        fg_jwrite_uint(w, "scratch_bytes", e->scratch);
        fg_jwrite_uint(w, "bytes", e->total);
        fg_jwrite_str(w, "verdict", fg_budget_verdict_name(e->verdict));
        fg_jwrite_end_object(w);
    }
    fg_jwrite_end_array(w);
    fg_jwrite_end_object(w);
}

// What a build says of itself.
static void json_bundle(struct fg_jwrite *w, const struct doctor *d)
{
    const struct subject *m = &d->subject;
    if (!m->build) {
        fg_jwrite_null(w, "bundle");
        return;
    }
    const struct fg_manifest *manifest = fg_build_manifest(m->build);
    fg_jwrite_object(w, "bundle");
    fg_jwrite_str(w, "build", fg_build_dir(m->build));
    fg_jwrite_str(w, "release", manifest->release_name);
    fg_jwrite_str(w, "weights_digest", manifest->weights_digest);
    fg_jwrite_array(w, "contexts");
    for (int i = 0; i < m->contexts.n; i++)
        fg_jwrite_int(w, NULL, m->contexts.entries[i]);
    fg_jwrite_end_array(w);
    fg_jwrite_array(w, "kv_cache_dtypes");
    for (int f = 0; f < FG_KV_N_FORMATS; f++) {
        if (m->contexts.offers[f]) fg_jwrite_str(w, NULL, fg_kv_format_name((enum fg_kv_format)f));
    }
    fg_jwrite_end_array(w);
    fg_jwrite_end_object(w);
}

static int print_json(const struct doctor *d, struct fg_error *err)
{
    struct fg_jwrite w = {0};
    char value[1024];
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "version", forge_version());
    json_machine(&w, d);
    json_memory(&w, d);
    fg_jwrite_null(&w, "gpu"); // not compiled in
    fg_jwrite_null(&w, "mpi");
    fg_version_libraries(&w);
    fg_jwrite_object(&w, "environment");
    for (size_t i = 0; i < N_VARIABLES; i++) {
        const char *v = variable_text(d, i, value, sizeof value);
        if (v) fg_jwrite_str(&w, variables[i].name, v);
    }
    fg_jwrite_end_object(&w);
    json_bundle(&w, d);
    json_model(&w, d);
    fg_jwrite_array(&w, "findings");
    for (int i = 0; i < d->n_findings; i++) {
        const struct finding *f = &d->findings[i];
        fg_jwrite_object(&w, NULL);
        fg_jwrite_str(&w, "level", level_names[f->level]);
        fg_jwrite_str(&w, "code", f->code);
        fg_jwrite_str(&w, "message", f->message);
        fg_jwrite_str(&w, "hint", f->hint[0] ? f->hint : NULL);
        fg_jwrite_end_object(&w);
    }
    fg_jwrite_end_array(&w);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

static int strict_code(const struct doctor *d)
{
    for (int i = 0; i < d->n_findings; i++) {
        if (d->findings[i].level == FAIL) return d->findings[i].exit_code;
    }
    return 0;
}

static int run_doctor(struct fg_cli *cli, struct fg_error *err)
{
    struct doctor *d = calloc(1, sizeof *d);
    if (!d) return fg_fail_memory(err, "doctor", sizeof *d);
    d->cli = cli;
    fg_arena_init(&d->subject.arena, 0);
    d->isa = cli->isa ? cli->isa : forge_isa_name(forge_isa_count() - 1);
    d->temp_dir = cli->env("TMPDIR");
    if (!d->temp_dir || !d->temp_dir[0]) d->temp_dir = "/tmp";
    fg_machine_probe(&d->machine);
    int rc = fg_cli_state_dir(cli, false, &d->state_dir, err);
    if (rc) goto done;
    look_at_system(d);
    look_at_cpu(d);
    look_at_caches(d);
    look_at_memory(d);
    if ((rc = measure(d, err))) goto done;
    look_at_disk(d);
    look_at_environment(d);
    if ((rc = look_at_model(d, err))) goto done;
    rc = cli->json ? print_json(d, err) : print_text(d, err);
    if (rc == 0 && fg_args_flag(&cli->args, "strict")) rc = strict_code(d);
done:
    fg_model_close(d->subject.model);
    fg_build_close(d->subject.build);
    fg_arena_free(&d->subject.arena);
    free(d->state_dir);
    free(d);
    return rc;
}

static const struct fg_opt options[] = {
    {.name = "model",
     .kind = FG_OPT_PATH,
     .value = "PATH",
     .group = "Doctor",
     .help = "also say whether this model fits, context by context"},
    {.name = "bundle",
     .kind = FG_OPT_PATH,
     .value = "DIR",
     .group = "Doctor",
     .help = "the same for a bundle of packages"},
    {.name = "ctx",
     .kind = FG_OPT_CONTEXT,
     .value = "N",
     .def_note = "all",
     .min = 1,
     .max = CTX_MAX,
     .group = "Doctor",
     .help = "the largest context of the table, as 16384 or 16K"},
    {.name = "measure",
     .kind = FG_OPT_FLAG,
     .listed_negative = true,
     .def = "on",
     .group = "Doctor",
     .help = "skip the measurement of memory bandwidth, which takes a second"},
    {.name = "strict",
     .kind = FG_OPT_FLAG,
     .group = "Doctor",
     .help = "exit with 5 (memory) or 7 (machine) when a line says FAIL"},
    {0},
};
static const struct fg_opt *const tables[] = {options, fg_opts_kv, NULL};
static const char *const examples[] = {"forge doctor", "forge doctor --bundle DIR --ctx 64K",
                                       "forge doctor --model model.gguf --json", NULL};

const struct fg_command fg_cmd_doctor = {
    .name = "doctor",
    .group = "Machine",
    .summary = "say what this machine offers and whether a model fits",
    .about = "Reads what the system tells about itself; writes nothing.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_doctor,
};
