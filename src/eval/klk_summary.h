// eval/klk_summary.h: report directories (eval/klk.h), read: what a report says, and two of them
// against each other (specs: quantization 7.1, 7.2).
#ifndef FG_EVAL_KLK_SUMMARY_H
#define FG_EVAL_KLK_SUMMARY_H
#include "base/error.h"
#include "base/hash.h"
#include "base/jwrite.h"
#include "eval/klk.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_KLK_DOMAINS_MAX 1024

struct fg_klk_domain {
    char *name;
    struct fg_klk_figures f;
};

struct fg_klk_sequence {
    int64_t index, positions;
    int domain; // index in domains; -1: none
};

// Strings are "" where the report says nothing.
struct fg_klk_summary {
    char *dir;
    char *model, *plan;
    char model_digest[FG_SHA256_HEX], trace[FG_SHA256_HEX], reference[FG_SHA256_HEX];
    char numerics[8], kv_cache[8];
    char ref_numerics[8], ref_kv_cache[8];
    int64_t vocab, k; // k 0: the whole vocabulary, both models side by side
    int64_t skip_prefix, seqs;
    bool full, answers_only, control;
    uint64_t bytes; // of the model's tensors
    double seconds;
    struct fg_klk_figures all;
    struct fg_klk_domain *domains;
    int n_domains;
    struct fg_klk_sequence *sequences; // those that have scored positions
    int64_t n_sequences;
};

// Reads summary.json and sequences.jsonl and checks them. Errors: FG_EINPUT, FG_ERESOURCE; *out is
// then empty.
int fg_klk_summary_open(struct fg_klk_summary *out, const char *dir, struct fg_error *err);
void fg_klk_summary_free(struct fg_klk_summary *s); // zeroed is fine

// ---- two reports on the same positions

// b against a: the sum of b's KL over that of a's, less 1, by paired resampling of sequences.
struct fg_klk_change {
    int64_t sequences, positions;
    double mean_a, mean_b;
    struct fg_interval change;
    int64_t better, worse; // sequences where b's KL is below, above a's
};

// KL(a || b) on the teacher's partition, of FP32 log-probabilities.
struct fg_klk_direct {
    bool known; // both have q_topk_lp.npy
    struct fg_interval mean;
    double median, p99, max;
};

struct fg_klk_comparison {
    struct fg_klk_change all;
    struct fg_klk_change *domains; // [n_domains of a], the caller's to free
    struct fg_klk_direct direct;
};

// Errors: FG_EINTEGRITY where trace or reference differ, FG_EINPUT where options or the arrays do
// not fit, FG_ERESOURCE; *out is then empty.
int fg_klk_compare(struct fg_klk_comparison *out, const struct fg_klk_summary *a,
                   const struct fg_klk_summary *b, uint64_t seed, struct fg_error *err);
#endif
