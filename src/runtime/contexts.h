// runtime/contexts.h: which contexts and which formats of keys and values a model offers, and what
// of them a session gets (specs: runtime 1.2, 3.1, 4.4; cli 1.7). A build's manifest says so; of
// everything else the ladder and all formats are offered. Known before weights are read.
#ifndef FG_RUNTIME_CONTEXTS_H
#define FG_RUNTIME_CONTEXTS_H
#include "base/error.h"
#include "base/kv_format.h"
#include "format/manifest.h"
#include "model/config.h"
#include "runtime/session.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_CONTEXT_DEFAULT 16384

struct fg_contexts {
    bool of_build; // only its entries can be chosen; else any context up to max_positions
    int64_t max_positions;
    int n;                                   // at least 1
    int64_t entries[FG_SESSION_ENTRIES_MAX]; // ascending: what a context is chosen by
    int64_t rows[FG_SESSION_ENTRIES_MAX];    // positions that each holds
    bool offers[FG_KV_N_ALL];
    bool rotated[FG_KV_N_ALL];
    enum fg_kv_format kv; // where none is named
};

// The manifest's entries and formats, its default and its rotations; f32, the reference, too.
void fg_contexts_of_build(struct fg_contexts *c, const struct fg_manifest *m,
                          int64_t max_positions);
// The ladder up to the config's positions and all formats; f32 for exact numerics, kv8 for fast
// ones, its rows rotated where the head's width allows it.
void fg_contexts_of_config(struct fg_contexts *c, const struct fg_config *cfg, bool fast);

// What a session of context `ctx` has.
struct fg_context {
    int64_t entry;                           // what it is called
    int64_t capacity;                        // positions
    int64_t entries[FG_SESSION_ENTRIES_MAX]; // the ladder in positions, ascending, up to capacity
    int n_entries;
};
// ctx 0: 16384, or the largest entry below it, else the smallest. FG_EINPUT (field "ctx"): not an
// entry of the build, which are listed, or more than the model has; `file` names the model.
int fg_contexts_pick(struct fg_context *out, const struct fg_contexts *c, int64_t ctx,
                     const char *file, struct fg_error *err);
// The smallest context with room for `rows` positions; 0: none has.
int64_t fg_contexts_holding(const struct fg_contexts *c, int64_t rows);
// The format of that name; NULL or "auto": the default. FG_EINPUT (field "kv_cache_dtype").
int fg_contexts_kv(enum fg_kv_format *out, const struct fg_contexts *c, const char *name,
                   const char *file, struct fg_error *err);

// "8192, 16384" into out, cut where it is full; returns out.
char *fg_contexts_list(const struct fg_contexts *c, char *out, size_t cap);
#endif
