// corpus/evalset.h: a set of evaluation: a model's own answers to the set's prompts, as a trace
// whose labels are the domains (specs: quantization 7.1).
#ifndef FG_CORPUS_EVALSET_H
#define FG_CORPUS_EVALSET_H
#include "corpus/generate.h"
#include "format/rows.h"

struct fg_evalset_job {
    enum fg_prompt_set set;
    struct fg_generate_job generate; // prompts are the set's own; dir: where sequences are kept
    const char *out;                 // the trace
};
// Samples what is missing in dir and writes the trace, unless it is a dry run. The same job gives
// the same bytes. Errors as
// fg_generate_run. facts of the trace: n, total; sha256 of the file.
int fg_evalset_make(const struct fg_evalset_job *job, struct fg_generate_result *result,
                    struct fg_trace *trace, struct fg_error *err);
#endif
