// base/job_dir.h: the output directory of a long job (specs: cli 1.6, quantization 8): new, empty,
// or of the same job; one run at a time; what an earlier run finished stays. Which files are whole
// is the job's to know: each has its final name only when it is (base/file.h), or says so inside.
//
//   DIR/.forge/lock     held by the run at work
//   DIR/state/job.json  what makes the job another one: options and identities of inputs
#ifndef FG_BASE_JOB_DIR_H
#define FG_BASE_JOB_DIR_H
#include "base/error.h"
#include <stdbool.h>

struct fg_job_fact {
    const char *name; // of an option, as "--topk", or of an input, as "trace"
    const char *value;
};

struct fg_job_dir_options {
    const char *what; // the kind of job, also in errors: "teacher"
    const char *dir;
    const struct fg_job_fact *facts; // [n]
    int n;
    // Globs of the files in dir and in dir/state that the job writes, NULL at the end: what restart
    // removes, and whose temporary files of killed runs are removed.
    const char *const *owned;
    bool restart; // drop what an earlier run of the same kind left
};

struct fg_job_dir; // opaque

// Makes the directory where it is missing, takes the lock, and compares the facts of the run that
// it holds. Errors: FG_EINPUT (other content, a job of another kind), FG_EBUSY, FG_EINTEGRITY (the
// first fact that differs, with both values), FG_ERESOURCE; *out is then NULL.
int fg_job_dir_open(struct fg_job_dir **out, const struct fg_job_dir_options *o,
                    struct fg_error *err);
void fg_job_dir_close(struct fg_job_dir *d); // lets the lock go; NULL is fine
#endif
