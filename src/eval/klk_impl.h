// eval/klk_impl.h: finished sequences and what becomes of them; shared by klk.c, which makes them,
// and klk_report.c.
#ifndef FG_EVAL_KLK_IMPL_H
#define FG_EVAL_KLK_IMPL_H
#include "base/error.h"
#include "base/hash.h"
#include "eval/klk.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define FG_KLK_WHAT "eval kl"

// The positions of one sequence.
struct fg_klk_part {
    int64_t n;       // scored positions
    double *kl;      // [n]
    double *nll;     // [n]
    double *ref_nll; // [n]
    uint8_t *agree;  // [n]
    float *q;        // [n][k]; NULL without teacher
    double seconds;  // that it took
};

struct fg_klk_run {
    const struct fg_klk_job *job;
    struct fg_klk_result *result;
    int64_t n;     // sequences
    int64_t total; // scored positions of all
    int64_t k;     // 0 without teacher
    int64_t vocab;
    bool whole; // the k tokens are the vocabulary
    char job_hex[FG_SHA256_HEX];
};

// Room for the longest sequence; free with fg_klk_part_free.
int fg_klk_part_new(struct fg_klk_part *p, int64_t n_max, int64_t k, struct fg_error *err);
void fg_klk_part_free(struct fg_klk_part *p);

// Keeps a finished sequence, or finds one of an earlier run: *found only when it is whole and of
// this job.
int fg_klk_part_save(const struct fg_klk_run *r, int64_t i, const struct fg_klk_part *p,
                     struct fg_error *err);
int fg_klk_part_load(const struct fg_klk_run *r, int64_t i, struct fg_klk_part *p, bool *found,
                     struct fg_error *err);
// The line of sequences.jsonl of sequence i, at the end of the file; `p` has n of it.
int fg_klk_log(const struct fg_klk_run *r, int64_t i, const struct fg_klk_part *p,
               struct fg_error *err);
// All sequences are kept: the files of the report, then the parts go.
int fg_klk_report(const struct fg_klk_run *r, struct fg_error *err);
// Removes what a finished run keeps no more.
void fg_klk_clean(const struct fg_klk_run *r);
#endif
