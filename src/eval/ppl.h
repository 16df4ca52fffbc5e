// eval/ppl.h: perplexity of a text over windows, and what another setting of the same model makes
// of the same windows (specs: quantization 7.1, 7.3, 7.6; runtime 9.3).
//
// Windows of `window` tokens start every `stride` tokens, each from an empty session. Where they
// overlap, a token is scored in the first of them, so every token is scored once, with at least
// window - stride tokens before it but for the first window. The first token of a text, and of a
// window that overlaps nothing, is not scored. A rest that is shorter than a window is left out,
// unless the whole text is.
#ifndef FG_EVAL_PPL_H
#define FG_EVAL_PPL_H
#include "base/error.h"
#include "forge/forge.h"
#include <stdbool.h>
#include <stdint.h>

// A model and how its sessions are made; capacity 0: the smallest context that holds a window; rows
// is not used.
struct fg_eval_side {
    struct forge_engine *engine;
    struct forge_session_options session;
};

struct fg_eval_ppl {
    const int32_t *ids; // [n], n >= 2
    int64_t n;
    int64_t window; // >= 2
    int64_t stride; // 1 .. window
    int64_t rows;   // per forward call, >= 1; memory holds the logits of so many
    struct fg_eval_side side;
    const struct fg_eval_side *against; // the reference, of the same vocabulary; NULL: none
    // Called between blocks with tokens that have run; other than 0 stops.
    int (*progress)(void *ctx, int64_t done, int64_t total);
    void *ctx;
};

// Natural logarithms, in FP64 over the whole vocabulary, of FP32 logits.
struct fg_eval_ppl_figures {
    int64_t tokens;          // scored
    double nll, ppl;         // mean of -ln q(token); its exponential
    double ref_nll, ref_ppl; // of the reference
    // KL(p || q) = sum p (ln p - ln q) per token: p the reference's, q the other's. Quantiles by
    // linear interpolation between order statistics.
    double kl_mean, kl_median, kl_p99, kl_max;
    double top1; // share of tokens where both have the same likeliest, lowest id among equals
};

struct fg_eval_ppl_result {
    struct fg_eval_ppl_figures all;
    struct fg_eval_ppl_figures last; // tokens of the last quarter of their window
    int64_t windows;                 // that have run whole
    int64_t tokens_run;              // rows of forward calls, of one side
    int64_t tokens_left_out;         // at the end of the text
    double seconds, ref_seconds;     // of forward calls
    bool stopped;                    // by `progress`: what is done is reported
};

// How many windows there are, and the rows that each side runs for them.
int64_t fg_eval_ppl_windows(const struct fg_eval_ppl *job, int64_t *rows_to_run);

// Errors: FG_EINPUT (ids outside the vocabulary, a window that no context holds, vocabularies that
// differ), FG_ERESOURCE, FG_EFAILED.
int fg_eval_ppl(const struct fg_eval_ppl *job, struct fg_eval_ppl_result *result,
                struct fg_error *err);

// One row: KL(p || q) of logits p, q [vocab]; *top1: both have the same likeliest. work [vocab].
double fg_eval_kl(const float *p, const float *q, int64_t vocab, double *work, bool *top1);
// -ln of the probability of `id` in a row of logits.
double fg_eval_nll(const float *logits, int64_t vocab, int32_t id);
// Of v [n], n >= 1, ascending: linear interpolation between order statistics at (n - 1) q.
double fg_eval_quantile(const double *v, int64_t n, double q);
#endif
