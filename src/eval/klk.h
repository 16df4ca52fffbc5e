// eval/klk.h: how far a model is from a reference on given sequences: KL on the partition that a
// teacher cache has (its K tokens and the rest), or over the whole vocabulary with both models side
// by side (specs: quantization 6.5, 7.1, 7.5). What it finds is a report directory:
//
//   DIR/kl.npy         f8 [n]     every scored position, sequence after sequence
//   DIR/agreement.npy  u1 [n]     the model's likeliest token (lowest id) is the reference's
//   DIR/nll.npy        f8 [n]     -ln q of the token that comes
//   DIR/q_topk_lp.npy  f4 [n][K]  ln q of the cache's tokens; not for the whole vocabulary
//   DIR/sequences.jsonl           a line per finished sequence
//   DIR/summary.json              the figures, and what was compared with what; the last to appear
//   DIR/state/, .forge/           finished sequences of a run that is not, the job (base/job_dir.h)
#ifndef FG_EVAL_KLK_H
#define FG_EVAL_KLK_H
#include "base/error.h"
#include "base/thread.h"
#include "eval/bootstrap.h"
#include "eval/model_size.h"
#include "eval/ppl.h"
#include "eval/sequences.h"
#include "eval/teacher.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_KLK_TAIL_MIN 1e-12 // floor of both tails

// KL = sum over the k tokens of p (ln p - ln q) + p_t (ln p_t - ln q_t), p_t and q_t what is left
// to 1, at least FG_KLK_TAIL_MIN; all sums FP64, in the order of the tokens.
//   lp [k]  ln p;  lq [k]  ln q.  whole: the k tokens are the vocabulary: there is no rest, and
//   what
//           rounding took from the sums of p and q goes back to all.
double fg_klk(const float *lp, const double *lq, int64_t k, bool whole);
// The closed forms of 7.1. FG_EFAILED: this build computes something else.
int fg_klk_self_check(struct fg_error *err);

// The first scored position of a sequence and how many there are from there on, perhaps none.
struct fg_klk_range {
    int64_t first, n;
};

struct fg_klk_job {
    const struct fg_eval_set *set;
    struct fg_eval_side side;             // the model; capacity and rows are not used
    struct fg_teacher *teacher;           // of `set`, lp F32; or
    const struct fg_eval_side *reference; // of the same vocabulary
    int64_t topk;        // entries of the cache that are used, 1 .. its k; not used without one
    int64_t rows;        // per forward call, >= 1; results do not depend on it
    int64_t skip_prefix; // first positions of each sequence that are not scored
    bool answers_only;   // only what comes after the prompt is scored: positions >= plen - 1
    int64_t seqs;        // the first of the sequences; 0: all
    uint64_t seed;       // of the bootstrap
    const char *out;
    bool restart; // drop what an earlier run left
    // What the report says: paths, digests ("" or NULL: unknown), command line.
    const char *model, *model_digest, *tokenizer;
    const char *reference_model, *reference_digest; // without teacher
    const char *command;
    struct fg_model_size size;
    struct fg_pool *pool;
    // Called between blocks with positions that have run; other than 0 stops.
    int (*progress)(void *ctx, int64_t done, int64_t total);
    void *ctx;
};

// Of all scored positions, or of those of one domain.
struct fg_klk_figures {
    int64_t sequences, positions;
    struct fg_interval mean; // KL per position, 95 %
    double median, p95, p99, max;
    double top1; // share of positions with the same likeliest token
    double ppl, ref_ppl;
};

struct fg_klk_result {
    int64_t sequences, sequences_found; // found: finished by an earlier run
    int64_t positions;                  // scored
    bool finished;                      // summary.json was there: nothing was done
};

struct fg_klk_range fg_klk_range(const struct fg_klk_job *job, int64_t i);
// What progress counts to.
int64_t fg_klk_rows(const struct fg_klk_job *job);

// Does the work, or what an earlier run left of it; after kill -9 too, the arrays are the same
// bytes. Where the model is the teacher's own and runs as it did, this is the control: mean KL at
// 1e-9 or above, or an argmax that differs, is FG_EFAILED and no report. Other errors: FG_EINPUT
// (no position is scored, a cache in FP16, a model without room for the longest sequence, the
// directory), FG_EINTEGRITY (vocabulary, sequences or tokenizer of the teacher, a damaged shard,
// the directory is of another job), FG_EBUSY, FG_EFAILED (logits that are not finite),
// FG_ERESOURCE, FG_EINTERRUPTED: finished sequences stay.
int fg_klk_run(const struct fg_klk_job *job, struct fg_klk_result *result, struct fg_error *err);
#endif
