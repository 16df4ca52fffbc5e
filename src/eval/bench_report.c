// eval/bench_report.c: a report as JSON, as a table, as comma-separated values, and its comparison
// with an earlier one.
#include "eval/bench.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/num.h"
#include "base/progress.h"
#include <string.h>
#include <unistd.h>

#define BUSY_PER_CORE 0.5
#define BASELINE_BYTES_MAX ((uint64_t)64 << 20)

static const char *const mac_names[FG_ROOF_N_KINDS] = {"f32", "i8", "amx"};

// A number after `skip` fields of a one-line file of /proc; 0 when it can't be read.
static double proc_number(const char *path, const char *format)
{
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    char line[128], word[64];
    double v = 0;
    if (fgets(line, sizeof line, f) && sscanf(line, format, word) == 1 && !fg_parse_f64(word, &v))
        v = 0;
    fclose(f);
    return v;
}

uint64_t fg_bench_rss(void)
{
    long page = sysconf(_SC_PAGESIZE);
    return (uint64_t)proc_number("/proc/self/statm", "%*s %63s") * (uint64_t)(page > 0 ? page : 0);
}

void fg_bench_begin(struct fg_bench_report *r)
{
    struct fg_machine m;
    fg_machine_probe(&m);
    r->load_average = proc_number("/proc/loadavg", "%63s");
    r->busy = r->load_average > BUSY_PER_CORE * (m.allowed > 0 ? m.allowed : 1);
    r->rss_before = fg_bench_rss();
    r->free_bytes = fg_machine_free_bytes(&m);
}

// ---- JSON

static void write_roofs(const struct fg_roofs *r, struct fg_jwrite *w)
{
    fg_jwrite_object(w, "ceilings");
    fg_jwrite_num(w, "read_bytes_per_second", r->read);
    for (int i = 0; i < FG_ROOF_N_KINDS; i++) {
        char key[48];
        snprintf(key, sizeof key, "%s_macs_per_second", mac_names[i]);
        if (r->mac[i] > 0) fg_jwrite_num(w, key, r->mac[i]);
    }
    fg_jwrite_end_object(w);
}

static void write_figure(const struct fg_bench_figure *f, struct fg_jwrite *w)
{
    fg_jwrite_object(w, NULL);
    fg_jwrite_str(w, "name", f->name);
    fg_jwrite_int(w, "rows", f->rows);
    fg_jwrite_int(w, "ctx", f->ctx);
    fg_jwrite_int(w, "tokens", f->tokens);
    fg_jwrite_int(w, "runs", f->runs);
    fg_jwrite_object(w, "seconds");
    fg_jwrite_num(w, "median", f->seconds.median);
    fg_jwrite_num(w, "min", f->seconds.min);
    fg_jwrite_num(w, "max", f->seconds.max);
    fg_jwrite_num(w, "p90", f->seconds.p90);
    fg_jwrite_end_object(w);
    if (f->tokens) fg_jwrite_num(w, "tokens_per_second", fg_bench_token_rate(f));
    if (f->bytes > 0) {
        fg_jwrite_num(w, "bytes", f->bytes);
        fg_jwrite_num(w, "bytes_per_second", f->bytes / f->seconds.median);
        fg_jwrite_num(w, "read_share", f->read_share);
    }
    for (int i = 0; i < FG_ROOF_N_KINDS; i++) {
        if (f->mac[i] <= 0) continue;
        char key[48];
        snprintf(key, sizeof key, "%s_macs", mac_names[i]);
        fg_jwrite_num(w, key, f->mac[i]);
        snprintf(key, sizeof key, "%s_share", mac_names[i]);
        if (f->roofs.mac[i] > 0) fg_jwrite_num(w, key, f->share[i]);
    }
    if (f->ratio > 0) fg_jwrite_num(w, "ratio", f->ratio);
    if (f->baseline_ratio > 0) fg_jwrite_num(w, "baseline_ratio", f->baseline_ratio);
    write_roofs(&f->roofs, w);
    fg_jwrite_bool(w, "memory_changed", f->memory_changed);
    fg_jwrite_bool(w, "clock_changed", f->clock_changed);
    fg_jwrite_end_object(w);
}

// Measured beside what the table says, of the table.
static double memory_difference(const struct fg_bench_memory *m)
{
    return m->table ? ((double)m->rss - (double)m->table) / (double)m->table : 0;
}

static void write_contexts(const struct fg_bench_report *r, struct fg_jwrite *w)
{
    fg_jwrite_array(w, "contexts");
    for (int i = 0; i < r->n_memory; i++) {
        const struct fg_bench_memory *m = &r->memory[i];
        fg_jwrite_object(w, NULL);
        fg_jwrite_int(w, "ctx", m->ctx);
        fg_jwrite_uint(w, "table_bytes", m->table);
        fg_jwrite_uint(w, "rss_bytes", m->rss);
        fg_jwrite_num(w, "difference", memory_difference(m));
        fg_jwrite_end_object(w);
    }
    fg_jwrite_end_array(w);
}

void fg_bench_json(const struct fg_bench_report *r, struct fg_jwrite *w)
{
    struct fg_machine m;
    fg_machine_probe(&m);
    fg_jwrite_object(w, NULL);
    fg_jwrite_str(w, "status", "ok");
    fg_jwrite_str(w, "command", r->command);
    fg_jwrite_str(w, "version", forge_version());
    fg_jwrite_str(w, "commit", forge_commit());
    fg_jwrite_object(w, "machine");
    fg_jwrite_str(w, "cpu", m.cpu);
    fg_jwrite_int(w, "cores", m.cores);
    fg_jwrite_int(w, "threads", m.threads);
    fg_jwrite_uint(w, "ram_bytes", m.ram_bytes);
    fg_jwrite_str(w, "kernel", m.kernel);
    fg_jwrite_num(w, "load_average", r->load_average);
    fg_jwrite_bool(w, "busy", r->busy);
    fg_jwrite_end_object(w);
    fg_jwrite_str(w, "model", r->model);
    fg_jwrite_str(w, "shape", r->shape);
    fg_jwrite_str(w, "weights_digest", r->digest[0] ? r->digest : NULL);
    fg_jwrite_str(w, "isa", r->isa);
    fg_jwrite_str(w, "numerics", r->numerics);
    fg_jwrite_str(w, "kv_cache_dtype", r->kv);
    fg_jwrite_str(w, "history", r->history);
    fg_jwrite_int(w, "threads", r->threads);
    fg_jwrite_int(w, "runs", r->runs);
    fg_jwrite_int(w, "warmup", r->warmup);
    fg_jwrite_uint(w, "seed", r->seed);
    if (r->weight_bytes) {
        fg_jwrite_uint(w, "parameters", r->parameters);
        fg_jwrite_uint(w, "weight_bytes", r->weight_bytes);
        fg_jwrite_uint(w, "token_bytes", r->token_bytes);
        fg_jwrite_num(w, "load_seconds", r->load_seconds);
    }
    fg_jwrite_object(w, "memory");
    fg_jwrite_uint(w, "budget_bytes", r->budget_bytes);
    fg_jwrite_uint(w, "free_bytes", r->free_bytes);
    fg_jwrite_uint(w, "rss_before_bytes", r->rss_before);
    fg_jwrite_uint(w, "rss_after_bytes", r->rss_after);
    fg_jwrite_end_object(w);
    if (r->kept_share > 0) fg_jwrite_num(w, "kept_share", r->kept_share);
    if (r->n_memory) write_contexts(r, w);
    fg_jwrite_array(w, "figures");
    for (int i = 0; i < r->n_figures; i++)
        write_figure(&r->figures[i], w);
    fg_jwrite_end_array(w);
    fg_jwrite_end_object(w);
}

// ---- text

double fg_bench_token_rate(const struct fg_bench_figure *f)
{
    return f->seconds.median > 0 ? (double)f->tokens / f->seconds.median : 0;
}

static void share_text(char out[16], double share)
{
    if (share > 0)
        snprintf(out, 16, "%.0f %%", 100 * share);
    else
        snprintf(out, 16, "-");
}

static void number_text(char out[16], double v)
{
    if (v > 0)
        snprintf(out, 16, "%.2f", v);
    else
        snprintf(out, 16, "-");
}

static bool any(const struct fg_bench_report *r, double (*get)(const struct fg_bench_figure *))
{
    for (int i = 0; i < r->n_figures; i++) {
        if (get(&r->figures[i]) > 0) return true;
    }
    return false;
}

static double get_ratio(const struct fg_bench_figure *f)
{
    return f->ratio;
}

static double get_baseline(const struct fg_bench_figure *f)
{
    return f->baseline_ratio;
}

static void memory_table(const struct fg_bench_report *r, FILE *out)
{
    char table[32], rss[32];
    fprintf(out, "%9s %12s %12s %10s\n", "context", "table", "measured", "difference");
    for (int i = 0; i < r->n_memory; i++) {
        const struct fg_bench_memory *m = &r->memory[i];
        fprintf(out, "%9lld %12s %12s %+8.1f %%\n", (long long)m->ctx,
                fg_format_bytes(table, sizeof table, m->table),
                fg_format_bytes(rss, sizeof rss, m->rss), 100 * memory_difference(m));
    }
}

void fg_bench_table(const struct fg_bench_report *r, FILE *out)
{
    if (r->n_memory) {
        memory_table(r, out);
        return;
    }
    bool ratio = any(r, get_ratio), baseline = any(r, get_baseline);
    bool marked = false;
    fprintf(out, "%-20s %5s %7s %11s %11s %11s %11s", "what", "rows", "ctx", "ms", "min", "max",
            "p90");
    if (ratio) fprintf(out, " %7s", "ratio");
    fprintf(out, " %8s %7s %7s %8s %7s %7s %7s", "tok/s", "GB/s", "read", "GMAC/s", "f32", "i8",
            "amx");
    fprintf(out, "%s\n", baseline ? "  before" : "");
    for (int i = 0; i < r->n_figures; i++) {
        const struct fg_bench_figure *f = &r->figures[i];
        double mac = 0;
        for (int kind = 0; kind < FG_ROOF_N_KINDS; kind++)
            mac = f->mac[kind] > mac ? f->mac[kind] : mac;
        fprintf(out, "%-20s %5lld %7lld %11.3f %11.3f %11.3f %11.3f", f->name, (long long)f->rows,
                (long long)f->ctx, 1e3 * f->seconds.median, 1e3 * f->seconds.min,
                1e3 * f->seconds.max, 1e3 * f->seconds.p90);
        char share[16], number[16];
        number_text(number, f->ratio);
        if (ratio) fprintf(out, " %7s", number);
        number_text(number, fg_bench_token_rate(f));
        fprintf(out, " %8s", number);
        number_text(number, f->bytes / f->seconds.median * 1e-9);
        share_text(share, f->read_share);
        fprintf(out, " %7s %7s", number, share);
        number_text(number, mac / f->seconds.median * 1e-9);
        fprintf(out, " %8s", number);
        for (int kind = 0; kind < FG_ROOF_N_KINDS; kind++) {
            share_text(share, f->share[kind]);
            fprintf(out, " %7s", share);
        }
        if (baseline && f->baseline_ratio > 0) fprintf(out, " %6.2fx", f->baseline_ratio);
        if (f->memory_changed) fputs(" m", out);
        if (f->clock_changed) fputs(" c", out);
        marked |= f->memory_changed || f->clock_changed;
        fputc('\n', out);
    }
    if (marked)
        fprintf(out, "m, c: the ceiling of memory, of compute moved by more than %.0f %%\n",
                100 * FG_BENCH_CHANGED);
    if (r->history)
        fprintf(out, "keys and values in %s; positions before what is timed: %s\n", r->kv,
                r->history);
    if (r->busy)
        fprintf(out, "the machine was busy at the start: load average %.2f\n", r->load_average);
    if (r->kept_share > 0)
        fprintf(out, "beside a busy thread %.0f %% of the one-thread rate is kept\n",
                100 * r->kept_share);
}

void fg_bench_csv(const struct fg_bench_report *r, FILE *out)
{
    if (r->n_memory) {
        fputs("ctx,table_bytes,rss_bytes,difference\n", out);
        for (int i = 0; i < r->n_memory; i++)
            fprintf(out, "%lld,%llu,%llu,%.6g\n", (long long)r->memory[i].ctx,
                    (unsigned long long)r->memory[i].table, (unsigned long long)r->memory[i].rss,
                    memory_difference(&r->memory[i]));
        return;
    }
    fputs("name,rows,ctx,tokens,runs,seconds_median,seconds_min,seconds_max,seconds_p90,ratio,"
          "bytes,read_share,f32_macs,f32_share,i8_macs,i8_share,amx_macs,amx_share,"
          "read_ceiling,f32_ceiling,i8_ceiling,amx_ceiling,baseline_ratio,memory_changed,"
          "clock_changed\n",
          out);
    for (int i = 0; i < r->n_figures; i++) {
        const struct fg_bench_figure *f = &r->figures[i];
        fprintf(out, "%s,%lld,%lld,%lld,%d,%.9g,%.9g,%.9g,%.9g,%.6g,%.9g,%.6g", f->name,
                (long long)f->rows, (long long)f->ctx, (long long)f->tokens, f->runs,
                f->seconds.median, f->seconds.min, f->seconds.max, f->seconds.p90, f->ratio,
                f->bytes, f->read_share);
        for (int kind = 0; kind < FG_ROOF_N_KINDS; kind++)
            fprintf(out, ",%.9g,%.6g", f->mac[kind], f->share[kind]);
        fprintf(out, ",%.6g", f->roofs.read);
        for (int kind = 0; kind < FG_ROOF_N_KINDS; kind++)
            fprintf(out, ",%.6g", f->roofs.mac[kind]);
        fprintf(out, ",%.6g,%d,%d\n", f->baseline_ratio, f->memory_changed, f->clock_changed);
    }
}

// ---- baseline

static int baseline_figure(struct fg_bench_report *r, const struct fg_json *doc,
                           struct json_object *o, struct fg_error *err)
{
    const char *name;
    int64_t rows, ctx;
    double median = 0;
    struct json_object *seconds;
    int rc = fg_json_str(doc, o, "figures[].", "name", "", &name, NULL, err);
    if (rc == 0) rc = fg_json_i64(doc, o, "figures[].", "rows", 0, 0, INT64_MAX, &rows, NULL, err);
    if (rc == 0) rc = fg_json_i64(doc, o, "figures[].", "ctx", 0, 0, INT64_MAX, &ctx, NULL, err);
    if (rc == 0) rc = fg_json_obj(doc, o, "figures[].", "seconds", &seconds, err);
    if (rc == 0)
        rc = fg_json_f64(doc, seconds, "figures[].seconds.", "median", 0, &median, NULL, err);
    for (int i = 0; i < r->n_figures && rc == 0 && median > 0; i++) {
        struct fg_bench_figure *f = &r->figures[i];
        if (strcmp(f->name, name) == 0 && f->rows == rows && f->ctx == ctx)
            f->baseline_ratio = median / f->seconds.median;
    }
    return rc;
}

int fg_bench_baseline(struct fg_bench_report *r, const char *path, struct fg_error *err)
{
    struct fg_json doc;
    int rc = fg_json_open(&doc, path, BASELINE_BYTES_MAX, err);
    if (rc) return rc;
    const char *command = "";
    struct json_object *figures = NULL;
    rc = fg_json_str(&doc, doc.root, "", "command", "", &command, NULL, err);
    if (rc == 0 && strcmp(command, r->command) != 0)
        rc = fg_fail(err, FG_EINPUT, "baseline", path, "command", r->command, "%s",
                     command[0] ? command : "nothing");
    if (rc == 0) rc = fg_json_arr(&doc, doc.root, "", "figures", &figures, err);
    if (rc == 0 && !figures)
        rc = fg_fail(err, FG_EINPUT, "baseline", path, "figures", "an array", "nothing");
    size_t n = rc == 0 ? json_object_array_length(figures) : 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = baseline_figure(r, &doc, json_object_array_get_idx(figures, i), err);
    fg_json_close(&doc);
    return rc;
}
