// quant/planner_impl.h: a planner's tables; shared by planner*.c.
#ifndef FG_QUANT_PLANNER_IMPL_H
#define FG_QUANT_PLANNER_IMPL_H
#include "quant/planner.h"

#define FG_PLANNER_WHAT "plan"

// One matrix in each format.
struct fg_planner_mat {
    bool free;                        // its format is to be chosen
    bool can[FG_Q_N_FORMATS];         // it fits
    uint64_t bytes[FG_Q_N_FORMATS];   // without factors
    uint64_t factors[FG_Q_N_FORMATS]; // bytes of its factors
    double error[FG_Q_N_FORMATS];     // e(m, f)
    double cost[FG_Q_N_FORMATS];      // c(m, f)
    double ns[FG_Q_N_FORMATS];        // NaN: not known
};

struct fg_planner {
    const struct fg_plan *base;
    struct fg_plan_shape shape;
    struct fg_plan_list list;    // what base resolves to
    struct fg_planner_mat *mats; // [list.n]
    unsigned allow;
    enum fg_planner_uniform uniform;
    bool count_factors, timed;
    struct fg_planner_info info;
};

// Which of FG_FREE_* a matrix belongs to.
unsigned fg_planner_kind(const struct fg_plan_mat *m);
// Bytes that the budget counts for matrix i in a format.
static inline uint64_t fg_planner_bytes(const struct fg_planner *p, uint64_t i, int f)
{
    return p->mats[i].bytes[f] + (p->count_factors ? p->mats[i].factors[f] : 0);
}
static inline bool fg_planner_allows(const struct fg_planner *p, int f)
{
    return p->allow >> f & 1;
}

// planner_cost.c: errors and costs of all matrices, and what the info says of them.
int fg_planner_fill_costs(struct fg_planner *p, const struct fg_planner_options *o,
                          struct fg_error *err);
#endif
