// train/quantize_impl.h: a job while it runs; shared by quantize*.c.
#ifndef FG_TRAIN_QUANTIZE_IMPL_H
#define FG_TRAIN_QUANTIZE_IMPL_H
#include "base/buf.h"
#include "base/hash.h"
#include "base/jwrite.h"
#include "format/qmat.h"
#include "format/st_file.h"
#include "quant/export.h"
#include "quant/fit.h"
#include "train/quant_source.h"
#include "train/quantize.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_QUANTIZE_WHAT "quantize"
#define FG_QUANTIZE_OPTIONS_MAX 16

// One file of the export, and how it comes about.
enum fg_quantize_kind { FG_UNIT_MLP, FG_UNIT_MIXER, FG_UNIT_HEAD, FG_UNIT_SMALL, FG_UNIT_EMBED };

struct fg_quantize_unit {
    enum fg_quantize_kind kind;
    char file[48];
    int64_t layer;
    uint64_t first, n;     // its matrices: [first, first + n) of the plan's list, chosen or not
    uint64_t payload;      // bytes of data, without the header
    uint64_t source_bytes; // what progress counts
    bool done;
    uint64_t bytes; // of the finished file
};

struct fg_quantize_log {
    bool done;
    double weight_snr_db, lr_left, seconds;
    char source_sha256[FG_SHA256_HEX];
};

struct fg_quantize_option {
    const char *name;
    char value[160];
};

// A small tensor to be copied.
struct fg_quantize_small {
    char canonical[96];
    bool is_mat;
};

struct fg_quantize {
    struct fg_quantize_options o;
    struct fg_quant_source source;
    struct fg_arena arena; // needs of the model
    const struct fg_export_need *needs;
    uint64_t n_needs;
    struct fg_plan *plan; // as it stands for this model
    struct fg_plan_list list;
    bool *chosen;                // [list.n]
    struct fg_quantize_log *log; // [list.n]
    struct fg_quantize_unit *units;
    uint64_t n_units;
    struct fg_quantize_small *small;
    uint64_t n_small;
    struct fg_quantize_option options[FG_QUANTIZE_OPTIONS_MAX];
    int n_options;
    struct fg_quantize_info info;
    uint64_t done_bytes, total_bytes; // of progress
    int lock;                         // file descriptor, -1: none
    char digest[FG_SHA256_HEX], head_digest[FG_SHA256_HEX];
};

// A matrix in its format with its factors.
struct fg_quantize_result {
    struct fg_fit_result fit;
    uint16_t *lr_a, *lr_b; // malloc'd, NULL without factors
    double weight_snr_db, lr_left;
    char source_sha256[FG_SHA256_HEX];
};
void fg_quantize_result_free(struct fg_quantize_result *r);

// Calls the job's progress: FG_EINTERRUPTED when it says stop. item NULL: as before.
int fg_quantize_tick(struct fg_quantize *q, const char *item, struct fg_error *err);

// quantize_fit.c: matrix m of the plan, from the source to its arrays.
int fg_quantize_fit(struct fg_quantize *q, const struct fg_plan_mat *m,
                    struct fg_quantize_result *out, struct fg_error *err);
// Memory that fitting takes at its peak, without the result's own.
uint64_t fg_quantize_fit_bytes(const struct fg_plan_mat *m);

// quantize_files.c: writes the file of a unit.
int fg_quantize_write_unit(struct fg_quantize *q, struct fg_quantize_unit *u, struct fg_error *err);
// Config, tokenizer and template.
int fg_quantize_write_texts(struct fg_quantize *q, struct fg_error *err);

// quantize_state.c: the output directory.
// What an earlier run left, into units, log and info; FG_EINTEGRITY when its options differ.
int fg_quantize_load_state(struct fg_quantize *q, struct fg_error *err);
// Makes and locks the directory, removes temporary files of killed runs, and with --restart what
// they had finished.
int fg_quantize_claim(struct fg_quantize *q, struct fg_error *err);
int fg_quantize_save_state(const struct fg_quantize *q, struct fg_error *err);
// export.json from what the finished files hold.
int fg_quantize_finish(struct fg_quantize *q, struct fg_error *err);
#endif
