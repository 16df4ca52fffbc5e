// corpus/evalset.c: prompts, samples, trace.
#include "corpus/evalset.h"
#include "corpus/pack.h"
#include <stdio.h>

int fg_evalset_make(const struct fg_evalset_job *job, struct fg_generate_result *result,
                    struct fg_trace *trace, struct fg_error *err)
{
    struct fg_prompts prompts;
    struct fg_pack_facts facts;
    struct fg_generate_job generate = job->generate;
    const struct fg_pack_job pack = {
        .dirs = &generate.dir, .n_dirs = 1, .split = fg_prompt_set_name(job->set)};
    *trace = (struct fg_trace){0};
    *result = (struct fg_generate_result){0};
    int rc = fg_prompts_eval(&prompts, job->set, err);
    if (rc) return rc;
    generate.prompts = &prompts;
    rc = fg_generate_run(&generate, result, err);
    fg_prompts_free(&prompts);
    if (!rc && !generate.dry_run) rc = fg_pack_trace(trace, &facts, &pack, err);
    if (rc || generate.dry_run) return rc;
    snprintf(trace->facts.source, sizeof trace->facts.source, "answers of model %.12s",
             generate.model_digest[0] ? generate.model_digest : "unknown");
    rc = fg_trace_write(job->out, trace, trace->sha256, err);
    if (rc) fg_trace_free(trace);
    return rc;
}
