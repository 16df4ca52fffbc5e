// eval/teacher.h: what a model makes of sequences, kept for training and evaluation: the K
// likeliest tokens of every position with their log-probabilities (specs: quantization 6.4). The
// tail is not stored: p_tail = max(1 - sum of exp(lp), 1e-12).
//
//   DIR/index.json                 identities, sizes, shards with their SHA-256; the last to appear
//   DIR/teacher-NNNNN.safetensors  of rows (sequences of one length), 64 in a shard:
//                                    ids I32 [R][seq - 1][K], lp F32 or F16 [R][seq - 1][K],
//                                    nll F32 [R][seq - 1]
//                                  of traces: as many whole sequences as have 8,192 positions, at
//                                  least one, behind each other:
//                                    ids [P][K], lp [P][K], nll [P], lengths I32 [n] in tokens
//   DIR/state/job.json, .forge     of the run (base/job_dir.h)
// Position t of a sequence is what the model says after tokens 0..t about token t + 1, each
// sequence from an empty state. lp is the log-softmax of FP32 logits, in FP64, rounded; by
// descending logit, the lower id first among equals. nll is -ln p of the token that comes.
#ifndef FG_EVAL_TEACHER_H
#define FG_EVAL_TEACHER_H
#include "base/error.h"
#include "base/hash.h"
#include "base/thread.h"
#include "eval/ppl.h"
#include "eval/sequences.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_TEACHER_SCHEMA "forge.teacher/1"
#define FG_TEACHER_ROWS 64        // rows in a shard
#define FG_TEACHER_POSITIONS 8192 // of a shard of traces, but for a longer sequence
#define FG_TEACHER_K_MAX 65536

// ---- making

struct fg_teacher_job {
    struct fg_eval_side side; // the model; capacity and rows are not used
    const struct fg_eval_set *set;
    bool rows;             // shards of rows; all sequences have one length
    int64_t k;             // 1 .. FG_TEACHER_K_MAX; a smaller vocabulary is taken whole
    bool f16;              // lp in FP16, for training alone
    int64_t block;         // rows per forward call, >= 1; results do not depend on it
    const char *out;       // directory
    bool restart;          // drop what an earlier run left
    const char *model;     // digest of the model's files or weights
    const char *tokenizer; // forge_tokenizer_digest; "": unknown
    struct fg_pool *pool;
    // Called between blocks with positions that are done; other than 0 stops.
    int (*progress)(void *ctx, int64_t done, int64_t total);
    void *ctx;
};

struct fg_teacher_result {
    int64_t shards, shards_found; // found: finished by an earlier run
    int64_t positions;            // of all
    int64_t k;
    uint64_t bytes;              // of the shards
    double seconds, run_seconds; // of this run; of its forward calls
    double nll;                  // mean of this run's positions; 0 when there are none
    char sha256[FG_SHA256_HEX];  // of index.json: identifies the cache
};

// Makes the cache, or what an earlier run left of it; the bytes depend neither on threads nor on
// interruptions. Errors: FG_EINPUT (sequences of different lengths as rows, a model without room
// for the longest, the directory), FG_EBUSY, FG_EINTEGRITY (the directory is of another job),
// FG_EFAILED (logits that are not finite), FG_ERESOURCE, FG_EINTERRUPTED: finished shards stay.
int fg_teacher_make(const struct fg_teacher_job *job, struct fg_teacher_result *result,
                    struct fg_error *err);

// ---- reading

struct fg_teacher; // opaque

struct fg_teacher_facts {
    bool rows;
    bool f16;
    int64_t k, vocab;
    int64_t seq; // of rows; 0
    int64_t n;   // sequences
    int64_t positions;
    int64_t n_shards;
    char model[FG_SHA256_HEX];
    char tokenizer[FG_SHA256_HEX];   // "": unknown
    char rows_sha256[FG_SHA256_HEX]; // fg_eval_set.sha256
    char sha256[FG_SHA256_HEX];      // of index.json
    char numerics[8], kv_cache[8];   // that it was made with
};

// Opens the index and checks it. Errors: FG_EINPUT, FG_ERESOURCE; *out is then NULL.
int fg_teacher_open(struct fg_teacher **out, const char *dir, struct fg_error *err);
void fg_teacher_close(struct fg_teacher *t); // NULL is fine
const struct fg_teacher_facts *fg_teacher_facts(const struct fg_teacher *t);
// Is the cache of these sequences? FG_EINTEGRITY with both digests.
int fg_teacher_check_set(const struct fg_teacher *t, const struct fg_eval_set *set,
                         struct fg_error *err);

// Positions [from, from + n) of sequence i: ids and lp [n][k], nll [n]; each may be NULL. The shard
// is checked whole when it is first needed: size, SHA-256, shapes, ids in the vocabulary and each
// once per position, lp finite, descending and together at most 1, nll finite. Requires 0 <= i < n
// of the facts and positions that the sequence has. Errors: FG_EINPUT, FG_EINTEGRITY, FG_ERESOURCE.
int fg_teacher_read(struct fg_teacher *t, int64_t i, int64_t from, int64_t n, int32_t *ids,
                    float *lp, float *nll, struct fg_error *err);
// Positions of sequence i. Errors as fg_teacher_read: shards of traces tell it themselves.
int fg_teacher_positions(struct fg_teacher *t, int64_t i, int64_t *n, struct fg_error *err);
#endif
