// eval/klk_unit.h: what quantizing one part of a model alone does (specs: quantization 5.2, kinds
// `band` and `layer`): the part from an export, everything else from the checkpoint, against a
// reference on given sequences.
#ifndef FG_EVAL_KLK_UNIT_H
#define FG_EVAL_KLK_UNIT_H
#include "base/error.h"
#include "base/hash.h"
#include "eval/klk.h"
#include "forge/forge.h"
#include "quant/sens.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_klk_unit_job {
    const char *model;        // checkpoint directory
    const char *model_digest; // fg_eval_identify of it
    const char *export_dir;   // has the unit in the format that is measured
    struct fg_sens_unit unit; // a part, a band or the head
    // Of this measurement: links to the export's files in DIR/model, the report (eval/klk.h) in
    // DIR/report, without the log-probabilities of single tokens once it is whole.
    const char *dir;
    struct forge_engine_options engine; // model, model_dir and fill are set here
    // set, teacher, topk, rows, skip_prefix, seed, restart, pool, command, progress; the rest is
    // set here.
    struct fg_klk_job kl;
};

struct fg_klk_unit_result {
    struct fg_interval kl;        // nats per position
    struct fg_interval delta_nll; // of the model's NLL over the teacher's
    int64_t positions;
};

// The teacher's cache must be of this model. Errors: FG_EINPUT (an export without the unit, a model
// that is no checkpoint directory), FG_EINTEGRITY (a cache of another model), those of fg_klk_run
// and of opening models; FG_EINTERRUPTED: finished sequences stay.
int fg_klk_unit(struct fg_klk_unit_result *out, const struct fg_klk_unit_job *job,
                struct fg_error *err);
// Has the export the files of the unit?
bool fg_klk_unit_there(const char *export_dir, const struct fg_sens_unit *unit);
#endif
