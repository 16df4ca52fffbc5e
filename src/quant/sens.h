// quant/sens.h: what quantizing parts of a model does to it, as measured: files "forge.sens/1"
// (specs: quantization 5.2), read, written and merged. Measuring is train/'s and eval/'s, what a
// plan is made of them planner.h's.
//
//   { "schema": "forge.sens/1",
//     "model": {"architecture", "layers", "hidden", "intermediate", "vocab", "digest"},
//     "rows": [{"unit": "3.gate", "format": "v2x64", "metric": "rel_err_h", "value": 0.012,
//               "ci95": [0.011, 0.013], "tokens": 131072, "trace_sha256": "..."}, ...],
//     "provenance": {"command", "date"} }
//
// Of the model everything may be missing, of a row ci95, tokens and trace_sha256.
#ifndef FG_QUANT_SENS_H
#define FG_QUANT_SENS_H
#include "base/error.h"
#include "base/hash.h"
#include "format/qmat.h"
#include "quant/plan.h"
#include <stdbool.h>
#include <stdint.h>

enum fg_sens_metric {
    FG_SENS_REL_ERR,   // "rel_err_h": tr(E H E^T) / tr(W H W^T) of a matrix
    FG_SENS_TOKEN_ERR, // "rel_err_t": mean over held-out tokens of |E x|^2 / |W x|^2
    FG_SENS_ERR,       // "err_h": tr(E H E^T), H the mean over tokens
    FG_SENS_KL,        // "kl": nats per token, only the unit quantized
    FG_SENS_DELTA_NLL, // "delta_nll": nats per token, only the unit quantized; may be negative
    FG_SENS_FISHER,    // "fisher_kl": predicted from gradients (10.2); kept, used by nothing yet
    FG_SENS_NS,        // "ns": time of y = W x for one row of x on the machine that measured
    FG_SENS_N_METRICS
};

// What a row is about: a matrix "3.gate" or "head", the MLP or mixer of a layer "3.mlp", "3.mixer",
// or those of a range of layers "mlp:0-7", "mixer:24-31".
enum fg_sens_scope { FG_SENS_MATRIX, FG_SENS_PART, FG_SENS_BAND };

struct fg_sens_unit {
    enum fg_sens_scope scope;
    int64_t first, last;    // layers; both -1: the head
    enum fg_plan_part part; // of a matrix
    bool mixer;             // of parts and bands: else MLP
};
#define FG_SENS_UNIT_TEXT 48

struct fg_sens_row {
    struct fg_sens_unit unit;
    enum fg_qformat format; // that the unit had. Of bands and parts: all but k and v, which have
                            // the plan's format for them
    enum fg_sens_metric metric;
    double value;
    double ci95[2];                   // NaN: not said
    int64_t tokens;                   // behind the value; 0: not said
    char trace_sha256[FG_SHA256_HEX]; // of what was evaluated; "": not said
    uint64_t order;                   // of adding
};

// Zeroed is empty. Free with fg_sens_free.
struct fg_sens {
    char architecture[32]; // "": not said
    int64_t layers, hidden, intermediate, vocab;
    char digest[FG_SHA256_HEX]; // of the weights that were measured
    struct fg_sens_row *rows;   // after fg_sens_sort: by metric, unit, format, each once
    uint64_t n, cap;
    char sha256[FG_SHA256_HEX]; // of the file that was read
};

const char *fg_sens_metric_name(enum fg_sens_metric m);
// The text of a unit into out; returns out. fg_sens_unit_parse reads what this writes and nothing
// else.
char *fg_sens_unit_text(char out[FG_SENS_UNIT_TEXT], const struct fg_sens_unit *u);
bool fg_sens_unit_parse(struct fg_sens_unit *out, const char *text);
// The unit of one matrix of a plan's list.
struct fg_sens_unit fg_sens_unit_of(const struct fg_plan_mat *m);

// A sorted table from a file, or from its text. Errors: FG_EINPUT naming "rows[12].unit" and what
// was expected; FG_ERESOURCE. *out is then empty.
int fg_sens_open(struct fg_sens *out, const char *path, struct fg_error *err);
int fg_sens_parse(struct fg_sens *out, const char *text, size_t n, const char *file,
                  struct fg_error *err);
void fg_sens_free(struct fg_sens *s);

// Appends a row; of rows about the same unit, format and metric the last one stays. fg_sens_sort
// afterwards. Errors: FG_ERESOURCE.
int fg_sens_add(struct fg_sens *s, const struct fg_sens_row *row, struct fg_error *err);
void fg_sens_sort(struct fg_sens *s);
// Adds all rows of `from`, whose model must be that of `into` as far as both say. Sorted
// afterwards. Errors: FG_EINPUT (file: `name`, that of `from`), FG_ERESOURCE.
int fg_sens_merge(struct fg_sens *into, const struct fg_sens *from, const char *name,
                  struct fg_error *err);
// Says which model the table is of.
void fg_sens_set_model(struct fg_sens *s, const struct fg_plan_shape *shape);
// The table is of this model: extents as far as it says them, units that there are. Errors:
// FG_EINPUT; `name` is the file for errors.
int fg_sens_check(const struct fg_sens *s, const struct fg_plan_shape *shape, const char *name,
                  struct fg_error *err);

// The row of a sorted table; NULL: not measured.
const struct fg_sens_row *fg_sens_find(const struct fg_sens *s, enum fg_sens_metric metric,
                                       const struct fg_sens_unit *unit, enum fg_qformat format);

// A sorted table to a file, whole or not at all. command and date may be NULL. Errors: those of
// writing, FG_ERESOURCE.
int fg_sens_write(const struct fg_sens *s, const char *path, const char *command, const char *date,
                  struct fg_error *err);
#endif
