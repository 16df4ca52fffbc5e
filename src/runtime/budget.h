// runtime/budget.h: what a model and a conversation take of this machine's memory, context by
// context (specs: runtime 3.5, 8.3). Asked before weights are read: a model that misses memory by a
// little streams from disk for every token. Growing asks again (runtime/session.h).
#ifndef FG_RUNTIME_BUDGET_H
#define FG_RUNTIME_BUDGET_H
#include "base/error.h"
#include "base/kv_format.h"
#include "base/log.h"
#include "model/config.h"
#include "runtime/contexts.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_BUDGET_RESERVE (256ull << 20) // stays free: tokenizer, files, other programs

struct fg_budget_options {
    uint64_t weight_bytes; // read per token, mapped or in memory; not the embedding, of which a
                           // pass touches a row per token
    bool quantized;        // some of them are
    bool fast;             // numerics
    enum fg_kv_format kv;
    const int64_t *entries; // contexts in positions, ascending
    int n_entries;          // 1 .. FG_SESSION_ENTRIES_MAX
    int64_t rows;           // of a forward call
    int64_t verify_rows;    // 0: FG_SESSION_VERIFY
    int threads;
};

enum fg_budget_verdict { FG_BUDGET_FITS, FG_BUDGET_TIGHT, FG_BUDGET_NO };
const char *fg_budget_verdict_name(enum fg_budget_verdict v); // "fits", "tight", "does not fit"

// All sizes in bytes.
struct fg_budget_entry {
    int64_t ctx;
    uint64_t kv;      // keys and values
    uint64_t scratch; // buffers of calls over so many positions
    uint64_t total;   // with weights and states: what the process has then
    enum fg_budget_verdict verdict;
};

struct fg_budget {
    uint64_t weights;
    uint64_t states;    // recurrent states and convolution rows, two of each; rows that were tried
    uint64_t reserve;   // FG_BUDGET_RESERVE
    uint64_t available; // to this process now; cached files count as free
    uint64_t kv_position;
    enum fg_kv_format kv;
    struct fg_budget_entry entries[FG_SESSION_ENTRIES_MAX];
    int n_entries;
};

// Fills all members; the machine is asked for `available`.
void fg_budget_make(struct fg_budget *b, const struct fg_config *cfg,
                    const struct fg_budget_options *o);
// The verdicts for another `available`: total and reserve must fit; more than 85 % is tight.
void fg_budget_judge(struct fg_budget *b, uint64_t available);
// total + reserve of an entry, saturating.
uint64_t fg_budget_need(const struct fg_budget *b, int entry);

// Index of the largest entry that fits or is tight; -1: none.
int fg_budget_largest(const struct fg_budget *b);
// FG_ERESOURCE, after the table as lines of `log` at warn, when not even the smallest entry fits;
// with allow_paging a warning. A largest entry that does not fit is a warning naming the largest
// that does. `what` is the model.
int fg_budget_check(const struct fg_budget *b, const char *what, bool allow_paging,
                    const struct fg_log *log, struct fg_error *err);

// One line of the table, as "context 8192: weights 9.7 GiB + KV 258 MiB + states 357 MiB + scratch
// 40.0 MiB = 10.4 GiB: fits" into out; returns out.
char *fg_budget_line(const struct fg_budget *b, int entry, char *out, size_t cap);

// Bytes of keys and values of one position, over all layers.
uint64_t fg_budget_kv_position(const struct fg_config *cfg, enum fg_kv_format kv);
// Buffers of a forward pass (model/graph.h) of up to `rows` rows over `capacity` positions.
uint64_t fg_budget_workspace_bytes(const struct fg_config *cfg, const struct fg_budget_options *o,
                                   int64_t capacity);
#endif
