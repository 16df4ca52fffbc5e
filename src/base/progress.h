// base/progress.h: progress of a long job on stderr (specs: cli 1.5, quantization 8). On a terminal
// a bar with rate and time left, at most ten redraws a second, cleared at the end; elsewhere a line
// every 10 s or 5 %, whichever is later. For programs, JSON: an object on a line of its own, at
// most one a second and one at the end,
//     {"stage": NAME, "item": TEXT or null, "done": N, "total": N or null, "unit": "bytes" or
//      "count", "seconds": X, "eta_s": X or null, "ended": null, "done" or "stopped"}
#ifndef FG_BASE_PROGRESS_H
#define FG_BASE_PROGRESS_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct fg_progress; // opaque

enum fg_progress_mode {
    FG_PROGRESS_AUTO,  // a bar on a terminal, lines elsewhere
    FG_PROGRESS_PLAIN, // lines
    FG_PROGRESS_JSON,
    FG_PROGRESS_NONE
};
enum fg_progress_unit { FG_PROGRESS_COUNT, FG_PROGRESS_BYTES };

// total 0: unknown. out NULL or FG_PROGRESS_NONE: a silent object. `name` is copied. Never fails:
// NULL means out of memory, and every function below takes NULL.
struct fg_progress *fg_progress_new(FILE *out, enum fg_progress_mode mode, const char *name,
                                    uint64_t total, enum fg_progress_unit unit);
void fg_progress_set(struct fg_progress *p, uint64_t done,
                     const char *item); // item: what is worked on, or NULL
// Clears the bar, prints one summary line (none when silent, or when a job failed before
// anything was done), frees p.
void fg_progress_end(struct fg_progress *p, bool ok);

// Seconds on the monotonic clock.
double fg_clock(void);
// "3.2 s", "1 min 05 s", "2 h 11 min" into out; returns out.
char *fg_format_seconds(char *out, size_t cap, double seconds);
// "512 B", "1.50 MiB" into out; returns out.
char *fg_format_bytes(char *out, size_t cap, uint64_t bytes);
#endif
