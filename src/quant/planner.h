// quant/planner.h: which format each matrix should have, from measured sensitivities and a budget
// (specs: quantization 5.3). Costs come from planner_cost.c, the choice from knapsack.h; files and
// measuring are others'.
//
// COST of matrix m in format f, in nats per token, additive over matrices:
//
//     c(m, f) = KL_band . kappa_m e(m, f) / sum over the band of kappa_m' e(m', f0) . rho
//
//   KL_band   "kl" of the band that holds m, at format f0. When a band was measured in several
//             formats, f itself is f0 where it is one of them, else the one with the largest KL.
//             k and v of a mixer band count in the plan's own format for them, as they were
//             measured. A "kl" row of a layer's MLP or mixer is a band of one layer, one of the
//             head ("head") is the head's; those of other single matrices are not used.
//   kappa     "delta_nll" of the layer's MLP or mixer, at least 1e-4, when all layers of the band
//             were measured in one format; else 1.
//   e         "rel_err_t" where every measured format of a matrix has it, else "rel_err_h": in a
//             few matrices the inputs of one token (the sink of attention) are nearly all of H,
//             and by rel_err_h any format would do for them. A format that was not measured is
//             scaled from the nearest one that was, by 1 : 0.24 : 0.08 : 0.007 : 0.0006 for v2x16 :
//             v2x64 : lut4 : lut6 : int8; a matrix of which nothing was measured has the mean of
//             its part in other layers, else of all. Kept formats cost nothing. (v2x64, lut4: GPTQ
//             on the 27B's MLPs, 1.4. int8: a step of max|w| / 127 over rows of 576 to 17408
//             Gaussian values beside 3.5's error of v2x16: 0.0005 to 0.0008. GPTQ on all 211
//             matrices of SmolLM2-135M, medians: 1 : 0.258 : 0.082 : 0.00049.)
//   rho       realized over predicted KL of the last verified plan; 1 at first.
//
// Without "kl" rows of bands, each layer's MLP and mixer is a band whose KL is its kappa, where
// every layer has one. With neither, c = e: plans can be compared, but the figure is no KL.
#ifndef FG_QUANT_PLANNER_H
#define FG_QUANT_PLANNER_H
#include "base/error.h"
#include "quant/plan.h"
#include "quant/sens.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_planner; // opaque

enum { FG_FREE_MLP = 1, FG_FREE_MIXER = 2, FG_FREE_KV = 4, FG_FREE_HEAD = 8 };
enum fg_planner_uniform {
    FG_UNIFORM_MATRIX, // each matrix for itself
    FG_UNIFORM_LAYER   // one format per MLP, and per mixer apart from k and v
};

struct fg_planner_options {
    const struct fg_plan *base; // rotations, factors, and formats of what is not free
    const struct fg_sens *sens; // sorted, checked against the model
    unsigned allow;             // set of 1 << enum fg_qformat that free matrices may have
    unsigned free;              // set of FG_FREE_*: MLPs, mixers without k and v, k and v, head
    enum fg_planner_uniform uniform;
    bool count_factors; // bytes are of weights and factors; else of weights alone
    double rho;
    bool timed; // rows "ns" of sens give times, of every matrix in every format that it may have
};

enum fg_planner_unit { FG_PLANNER_KL, FG_PLANNER_NLL, FG_PLANNER_RELATIVE };
const char *fg_planner_unit_name(enum fg_planner_unit u); // "kl", "delta_nll", "relative"

struct fg_planner_info {
    enum fg_planner_unit unit; // of costs
    uint64_t n_mats, n_free;
    uint64_t n_measured; // free matrices with an error of their own in every allowed format
    uint64_t n_scaled;   // with some of them
    uint64_t n_bands;    // with a KL of their own
    uint64_t n_kappa;    // with a delta NLL for each of their layers
    bool head_measured;
    bool kinds_measured[2];    // MLPs, mixers have costs
    char trace[FG_SHA256_HEX]; // that the KLs are of; "": not said
    uint64_t least_bytes;      // smallest plan: no budget below this can be kept
    uint64_t most_bytes;       // of the plan with the least cost at any size
};

// The costs of every matrix in every format. Options are not kept but for `base`, which must
// outlive the planner, as must the arrays of `shape`. Errors: FG_EINPUT (a plan that the model
// cannot have, a free matrix that no allowed format fits, KLs of different traces or of overlapping
// bands, free layers without KL where others have one, times that are missing), FG_ERESOURCE.
int fg_planner_new(struct fg_planner **out, const struct fg_plan_shape *shape,
                   const struct fg_planner_options *o, struct fg_error *err);
void fg_planner_free(struct fg_planner *p); // NULL is fine
const struct fg_planner_info *fg_planner_info(const struct fg_planner *p);

// What a plan comes to.
struct fg_planner_sums {
    uint64_t weight_bytes, factor_bytes; // as struct fg_plan_list has them
    uint64_t bytes;                      // that the budget counts
    double cost;                         // predicted KL where that is the unit
    double ns;                           // of all matrices, one row; 0 without times
};
// Of the planner's own base, or of any plan for the model (formats alone decide). Errors: as
// fg_plan_resolve; FG_EINPUT for a format that no time is known of.
int fg_planner_sum(struct fg_planner_sums *out, const struct fg_planner *p,
                   const struct fg_plan *plan, struct fg_error *err);

struct fg_planner_result {
    struct fg_plan *plan; // without notes
    struct fg_planner_sums sums;
    double bound;   // no plan within the budgets has a smaller cost
    bool exact;     // none has
    double per_mib; // what one MiB more would save, about
};

// The cheapest plan of at most `bytes` and, when that is finite, at most `ns`. `name` is the
// plan's. Free *out with fg_planner_result_free. Errors: FG_EINPUT (field "budget", with the
// least), FG_ERESOURCE.
int fg_planner_solve(struct fg_planner_result *out, const struct fg_planner *p, uint64_t bytes,
                     double ns, const char *name, struct fg_error *err);
void fg_planner_result_free(struct fg_planner_result *r);

// Matrices that two plans give different formats, as a person would say it: whole MLPs and mixers
// where their matrices agree, layers as ranges. In order of the first layer.
struct fg_planner_move {
    char what[16]; // "mlp", "mixer", "gate", ... "head"
    char *layers;  // "0-23, 40"; "" for the head
    uint64_t n;    // layers
    enum fg_qformat from, to;
    int64_t bytes; // of the change, as the budget counts
    double cost;   // of the change
};
struct fg_planner_moves {
    struct fg_planner_move *v;
    uint64_t n;
};
// From `a` to `b`. Free with fg_planner_moves_free. Errors: as fg_planner_sum.
int fg_planner_compare(struct fg_planner_moves *out, const struct fg_planner *p,
                       const struct fg_plan *a, const struct fg_plan *b, struct fg_error *err);
void fg_planner_moves_free(struct fg_planner_moves *m); // zeroed is fine
#endif
