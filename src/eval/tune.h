// eval/tune.h: what `forge compile` measures at its end (specs: runtime 2.5): how many threads run
// this model best on this machine, and what a call of 1 to 8 rows costs. Never changes a result.
#ifndef FG_EVAL_TUNE_H
#define FG_EVAL_TUNE_H
#include "base/error.h"
#include "forge/forge.h"
#include "runtime/tuning.h"
#include <stdbool.h>

struct fg_tune {
    struct forge_engine_options engine; // of the compiled build; threads: the most to try, 0: all
    double seconds_max;                 // stop adding runs after so long; 0: 60
    bool (*stop)(void *ctx);            // asked between runs; may be NULL
    void *ctx;
};

// Fills threads and verify of *t. Medians of five runs, of fewer when time is up. Errors: those of
// opening the engine; FG_EINTERRUPTED.
int fg_tune_measure(struct fg_tuning *t, const struct fg_tune *tune, struct fg_error *err);
#endif
