// runtime/compile_text.c: durations, amounts and the lines made of them.
#include "runtime/compile_text.h"
#include <inttypes.h>
#include <stdio.h>

// "37s", "8m37s", "2h11m"
static char *duration(char *out, size_t cap, double seconds)
{
    int64_t s = seconds > 0 ? (int64_t)(seconds + 0.5) : 0;
    if (s < 60)
        snprintf(out, cap, "%" PRId64 "s", s);
    else if (s < 3600)
        snprintf(out, cap, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
    else
        snprintf(out, cap, "%" PRId64 "h%02" PRId64 "m", s / 3600, s % 3600 / 60);
    return out;
}

// Decimal, as disks are sold: "10.5 GB".
static char *amount(char *out, size_t cap, uint64_t bytes)
{
    double b = (double)bytes;
    if (b < 1e6)
        snprintf(out, cap, "%.0f kB", b / 1e3);
    else if (b < 1e9)
        snprintf(out, cap, "%.0f MB", b / 1e6);
    else if (b < 1e11)
        snprintf(out, cap, "%.1f GB", b / 1e9);
    else
        snprintf(out, cap, "%.0f GB", b / 1e9);
    return out;
}

static char *entries(char *out, size_t cap, const struct fg_compile_plan *p)
{
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < p->n_entries && n < cap; i++) {
        int64_t ctx = p->entries[i].ctx;
        bool k = ctx % 1024 == 0;
        n += (size_t)snprintf(out + n, cap - n, "%s%" PRId64 "%s", i ? " " : "",
                              k ? ctx / 1024 : ctx, k ? "K" : "");
    }
    return out;
}

static void plan_line(char *out, size_t cap, const struct fg_compile_event *e)
{
    char list[256], to_write[32], free_bytes[32];
    entries(list, sizeof list, e->plan);
    if (e->missing == 0) { // of a dry run; else the last line says it
        snprintf(out, cap, "%" PRIu64 " packages ready for %s; nothing to write", e->packages,
                 e->isa);
        return;
    }
    snprintf(out, cap,
             "%" PRIu64 " of %" PRIu64 " packages to specialize for %s, numerics %s, "
             "tile abi %" PRId64 "; entries %s; %s to write, %s free",
             e->missing, e->packages, e->isa, e->numerics, e->plan->tile_abi, list,
             amount(to_write, sizeof to_write, e->bytes),
             amount(free_bytes, sizeof free_bytes, e->free_bytes));
}

void fg_compile_line(char *out, size_t cap, const struct fg_compile_event *e)
{
    char time[32], left[32], expected[32];
    const char *name = e->name ? e->name : "";
    duration(time, sizeof time, e->seconds);
    duration(left, sizeof left, e->left_s);
    duration(expected, sizeof expected, e->expected_s);
    switch (e->kind) {
    case FG_COMPILE_PLAN: plan_line(out, cap, e); break;
    case FG_COMPILE_ESTIMATE:
        snprintf(out, cap,
                 "estimated %s in total; safe to stop at any time: finished packages are "
                 "kept",
                 expected);
        break;
    case FG_COMPILE_PACKAGE:
        snprintf(out, cap, "compiling %s (%" PRIu64 "/%" PRIu64 "): expected %s, total left %s",
                 name, e->index, e->missing, expected, left);
        break;
    case FG_COMPILE_HEARTBEAT:
        snprintf(out, cap,
                 "%s (%" PRIu64 "/%" PRIu64 "): %s so far (expected %s); %s left in "
                 "total",
                 name, e->index, e->missing, time, expected, left);
        break;
    case FG_COMPILE_PACKAGE_DONE:
        snprintf(out, cap, "compiled %s in %s (%" PRIu64 "/%" PRIu64 " done); %s left", name, time,
                 e->index, e->missing, left);
        break;
    case FG_COMPILE_PURGED: snprintf(out, cap, "%s: damaged, made again: %s", name, e->text); break;
    case FG_COMPILE_CHANGED:
        snprintf(out, cap, "%s changed while it was read; once more", name);
        break;
    case FG_COMPILE_LOWER: snprintf(out, cap, "%s; using %s", e->text, e->isa); break;
    case FG_COMPILE_WAITING:
        snprintf(out, cap, "waiting for process %ld, which makes %s: %s so far", e->pid, name,
                 time);
        break;
    case FG_COMPILE_HASHING:
        snprintf(out, cap, "hashing %" PRIu64 " packages, %s", e->packages,
                 amount(left, sizeof left, e->bytes));
        break;
    case FG_COMPILE_TUNING: snprintf(out, cap, "measuring this machine"); break;
    case FG_COMPILE_DONE:
        if (e->missing)
            snprintf(out, cap, "done in %s: %" PRIu64 " packages ready for %s", time, e->packages,
                     e->isa);
        else
            snprintf(out, cap, "%" PRIu64 " packages ready for %s", e->packages, e->isa);
        break;
    }
}
