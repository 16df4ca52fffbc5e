// runtime/budget.h: does a model fit into the memory of this machine (specs: runtime 3.5, 8.3)?
// Asked before its weights are read: one that misses memory by a little streams from disk for every
// token.
#ifndef FG_RUNTIME_BUDGET_H
#define FG_RUNTIME_BUDGET_H
#include "base/error.h"
#include "base/log.h"
#include "model/config.h"
#include <stdbool.h>
#include <stdint.h>

// All in bytes.
struct fg_budget {
    uint64_t weights;   // read per token, mapped or in memory; not the embedding, of which a pass
                        // touches a row per token
    uint64_t states;    // recurrent states and convolution rows
    uint64_t kv;        // keys and values of `ctx` positions
    uint64_t scratch;   // buffers of a forward call of `rows` rows, logits included
    uint64_t reserve;   // everything else: 256 MiB
    uint64_t available; // to this process now
};

// Fills all members; the machine is asked for `available`, in which cached files count as free.
void fg_budget_make(struct fg_budget *b, const struct fg_config *cfg, uint64_t weight_bytes,
                    int64_t ctx, int64_t rows);
uint64_t fg_budget_need(const struct fg_budget *b); // sum, saturating
// FG_ERESOURCE when what is needed without any position does not fit; with allow_paging a warning.
// A context that does not fit is a warning naming the positions that do. `what` is the model.
int fg_budget_check(const struct fg_budget *b, const struct fg_config *cfg, const char *what,
                    bool allow_paging, const struct fg_log *log, struct fg_error *err);
#endif
