// quant/knapsack.h: one choice from each of some groups, at the least cost within a budget of bytes
// and, where wanted, one of time (specs: quantization 5.3; multiple-choice knapsack).
#ifndef FG_QUANT_KNAPSACK_H
#define FG_QUANT_KNAPSACK_H
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_KNAPSACK_CHOICES 16 // in a group

struct fg_choice {
    uint64_t bytes;
    double ns;   // >= 0
    double cost; // any finite number
};

struct fg_knapsack {
    const struct fg_choice *choices; // group after group
    const uint64_t *first;           // [n_groups + 1]: group g has [first[g], first[g + 1]), 1 to
                                     // FG_KNAPSACK_CHOICES; below 2^32 choices in all
    uint64_t n_groups;
    uint64_t bytes_max;  // of the sum; sums of everything stay below 2^63
    double ns_max;       // of the sum; INFINITY: no budget of time
    uint64_t states_max; // partial sums kept at once, 16 or more; 0: 65536
    uint64_t unit;       // below; a power of two; 0: 64 KiB, or less
};

struct fg_knapsack_result {
    double cost, ns;
    uint64_t bytes;
    double bound;              // no choice within the budgets costs less than this, up to rounding
    bool exact;                // the choice is one of least cost
    double lambda;             // cost per byte at the budget
    double mu;                 // cost per ns
    uint64_t n_core, n_states; // groups left to the exact part; most partial sums at once
};

// Lagrangian relaxation first: bisection on lambda (around it, on mu) for the choices that minimize
// cost + lambda bytes + mu ns in each group, then single changes while they help. What the bound
// proves out of reach is dropped; the rest of the gap is closed by dynamic programming over partial
// sums, exact to the byte, of which dominated ones are dropped too.
// When more than states_max are left, sums that agree in whole units of bytes (and, with a budget
// of time, in ns_max / 4096) are joined, the cheapest stays, and `exact` is false. The unit is 64
// KiB: the sizes of large matrices in formats of 2, 3 and 4 bits differ by multiples of it. It is
// halved while the budget leaves less than 4096 of them above the smallest sum, and doubled while
// joining leaves too many.
// pick [n_groups] receives positions within each group. Among equals fewer bytes win, then the
// earlier choice. Errors: FG_EINPUT (field "budget": no choice found within it), FG_ERESOURCE.
int fg_knapsack_solve(uint64_t *pick, struct fg_knapsack_result *result,
                      const struct fg_knapsack *k, struct fg_error *err);
#endif
