// eval/bench.h: measurements of speed beside the ceilings of the machine (specs: cli 15, runtime
// 7.7). A figure is taken in runs; the ceilings are measured before the first run and after every
// one, so each run has its own two neighbours, and its shares are of their mean. What is reported
// is the median over the runs.
#ifndef FG_EVAL_BENCH_H
#define FG_EVAL_BENCH_H
#include "base/error.h"
#include "base/hash.h"
#include "base/jwrite.h"
#include "eval/roof.h"
#include "forge/forge.h"
#include "kernels/kernels.h"
#include "runtime/budget.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define FG_BENCH_NAME 48
#define FG_BENCH_CHANGED 0.1 // ceilings that move by more than this share are marked

struct fg_bench_stat {
    double median, min, max, p90;
};
// Of v [n], n >= 1, which is sorted in place. p90 by nearest rank.
struct fg_bench_stat fg_bench_stat_of(double *v, int n);

// One line of a report.
struct fg_bench_figure {
    char name[FG_BENCH_NAME]; // "rows", "p6", "attention", ...
    int64_t rows;             // rows of a call; of a kernel: T. 0: does not apply
    int64_t ctx;              // positions before it; of a kernel: columns. 0: does not apply
    int64_t tokens;           // of one call; 0: does not apply
    int runs;
    struct fg_bench_stat seconds; // of one call (a kernel's call, a forward call, one token)
    double bytes;                 // weights and cache read per call; 0: does not apply
    double mac[FG_ROOF_N_KINDS];  // multiply-adds per call by the ceiling that bounds them; 0: none
    double read_share;            // of the read ceiling; 0: does not apply
    double share[FG_ROOF_N_KINDS]; // of the compute ceilings
    double ratio;                  // to the first figure of its group (1 row); 0: does not apply
    double baseline_ratio;         // seconds of the baseline over ours: above 1 is faster; 0: none
    struct fg_roofs roofs;         // medians over the runs
    bool memory_changed, clock_changed; // a ceiling moved by more than FG_BENCH_CHANGED
};

// Memory of a process whose conversation has a context.
struct fg_bench_memory {
    int64_t ctx;
    uint64_t table; // what the budget says
    uint64_t rss;   // measured, less what the process had before the model was opened
};

struct fg_bench_report {
    const char *command; // "rows", ...
    const char *model, *shape, *isa, *numerics;
    const char *kv;             // format of keys and values; NULL: does not apply
    const char *history;        // "made up" or "prompt": positions before what is timed; NULL: none
    char digest[FG_SHA256_HEX]; // of the weights; "" when unknown
    int threads, runs, warmup;
    uint64_t seed;
    double load_average; // at the start, of one minute
    bool busy;           // more than 0.5 per core
    uint64_t parameters, weight_bytes, token_bytes, budget_bytes, free_bytes;
    uint64_t rss_before, rss_after; // before loading, at the end
    double load_seconds;            // of the engine; 0: none
    double kept_share;              // contention: of the one-thread rate; 0: not measured
    struct fg_bench_figure *figures;
    int n_figures, cap_figures;
    struct fg_bench_memory memory[FG_SESSION_ENTRIES_MAX];
    int n_memory;
};
void fg_bench_report_free(struct fg_bench_report *r); // zeroed is fine
// Tokens per second of the median; 0 where a figure covers none.
double fg_bench_token_rate(const struct fg_bench_figure *f);
// Adds a zeroed figure; NULL when out of memory. Earlier pointers become invalid.
struct fg_bench_figure *fg_bench_add(struct fg_bench_report *r, const char *name);

// Reads the load average and the memory of this process into the report.
void fg_bench_begin(struct fg_bench_report *r);
uint64_t fg_bench_rss(void);

// A report as one JSON object, as a table for people, as lines of comma-separated values.
void fg_bench_json(const struct fg_bench_report *r, struct fg_jwrite *w);
void fg_bench_table(const struct fg_bench_report *r, FILE *out);
void fg_bench_csv(const struct fg_bench_report *r, FILE *out);
// Fills baseline_ratio from an earlier report (the JSON) where command, name, rows and ctx agree.
// Errors: FG_EINPUT (not such a file).
int fg_bench_baseline(struct fg_bench_report *r, const char *path, struct fg_error *err);

// What measures. `stop` is asked between runs; other than 0 ends with FG_EINTERRUPTED.
struct fg_bench {
    struct fg_bench_report *report;
    struct fg_roof_meter *meter;
    double roof_seconds; // of each ceiling, each time
    int runs, warmup;
    int (*stop)(void *ctx);
    void (*say)(void *ctx, const char *what); // what is measured now; may be NULL
    void *ctx;
};

// One measured thing: prepare (may be NULL) is not timed, run is; run covers `calls` >= 1 calls.
struct fg_bench_work {
    int (*prepare)(void *ctx, struct fg_error *err);
    int (*run)(void *ctx, struct fg_error *err);
    void *ctx;
    int64_t calls;
};
// Warms up, runs, fills seconds, shares and ceilings of the figure; bytes and mac are the caller's
// and set before. Errors: those of work; FG_ERESOURCE; FG_EINTERRUPTED.
int fg_bench_measure(struct fg_bench *b, const struct fg_bench_work *work,
                     struct fg_bench_figure *figure, struct fg_error *err);

// ---- bench_budget.c

// What will be run.
struct fg_bench_asked {
    const char *path;  // bundle, build, checkpoint directory or file
    int64_t positions; // that sessions will have; 0: as many as the model's largest context
    int64_t rows;      // of a forward call
    const char *kv_cache_dtype; // NULL: the default
    bool fast;
    int threads;
};
// What that needs, context by context up to the smallest with room for the positions, which *ctx
// receives; without reading weights. Of files only the size is known. Errors: FG_EINPUT,
// FG_ERESOURCE.
int fg_bench_budget(struct fg_budget *b, int64_t *ctx, const struct fg_bench_asked *o,
                    struct fg_error *err);

// The weights digest that the manifest of a bundle or build declares; "" for everything else.
void fg_bench_digest(char out[FG_SHA256_HEX], const char *path);

// ---- bench_model.c: whole models through the public API

struct fg_bench_model {
    struct forge_engine *engine;
    const int64_t *sizes; // rows per call; lengths of prompts; positions before decoding
    int n_sizes;
    int64_t ctx;        // rows, prefill: positions before each call
    bool real_history;  // those positions come from a prompt that is run; else they are made up
    int64_t tokens;     // decode: per run
    int64_t block_rows; // rows per forward call of prompts; 0: the engine's
    bool last_only;     // rows: logits of the last row alone, as in prefill; else of every row up
                        // to FG_BENCH_VERIFY_MAX
};
#define FG_BENCH_VERIFY_MAX 16

int fg_bench_rows(struct fg_bench *b, const struct fg_bench_model *m, struct fg_error *err);
int fg_bench_prefill(struct fg_bench *b, const struct fg_bench_model *m, struct fg_error *err);
int fg_bench_decode(struct fg_bench *b, const struct fg_bench_model *m, struct fg_error *err);
// Positions that a session of one of them has at most: sizes, calls and rows of `b` and `m`.
int64_t fg_bench_rows_positions(const struct fg_bench *b, const struct fg_bench_model *m);
int64_t fg_bench_prefill_positions(const struct fg_bench_model *m);
int64_t fg_bench_decode_positions(const struct fg_bench *b, const struct fg_bench_model *m);
// A conversation of made-up history that nearly fills each of report->memory[].ctx, one after the
// other; fills their rss. Errors: those of sessions.
int fg_bench_memory(struct fg_bench *b, const struct fg_bench_model *m, struct fg_error *err);
// One row per call: `one` (one thread) alone, then `all` beside a foreign thread that is always
// busy, in turn. Fills report->kept_share: median of the pairs' ratios.
int fg_bench_contention(struct fg_bench *b, const struct fg_bench_model *one,
                        struct forge_engine *all, struct fg_error *err);

// ---- bench_kernels.c: kernels on their own, with the shapes of the 27B model

// Every layout of quantized products by rows, their decoding, rotation, quantization, dense
// products, attention, DeltaNet. `bytes` of weights per matrix should be larger than the caches.
int fg_bench_kernels(struct fg_bench *b, const struct fg_kernels *k, int n_threads, uint64_t bytes,
                     struct fg_error *err);
#endif
