// train/quantize_impl.h: a job while it runs; shared by quantize*.c.
#ifndef FG_TRAIN_QUANTIZE_IMPL_H
#define FG_TRAIN_QUANTIZE_IMPL_H
#include "base/buf.h"
#include "base/hash.h"
#include "base/jwrite.h"
#include "format/embedding.h"
#include "format/qmat.h"
#include "format/st_file.h"
#include "quant/export.h"
#include "quant/fit.h"
#include "quant/gptq.h"
#include "train/calib.h"
#include "train/quant_source.h"
#include "train/quantize.h"
#include "train/walk.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_QUANTIZE_WHAT "quantize"
#define FG_QUANTIZE_OPTIONS_MAX 32
#define FG_QUANTIZE_EMBED_FILE "embed_tokens.safetensors"
#define FG_QUANTIZE_BLOCK 128 // columns of GPTQ between two updates of the rest

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

// What is logged of a matrix (4.7); NaN: not measured.
struct fg_quantize_log {
    bool done;
    double weight_snr_db; // of Q + A B against W
    double lr_left;       // error with factors / error without; 1 without factors
    double err_h, rel_err_h, rel_err_h_rtn, held_snr_db, damp; // GPTQ
    double seconds;
    char source_sha256[FG_SHA256_HEX];
};
struct fg_quantize_log fg_quantize_log_empty(void);

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

    // GPTQ; NULL and empty for rounding to nearest.
    struct fg_calib calib;
    struct fg_model *dense; // the source as a model, where it is a GGUF
    struct fg_walk *walk;   // while the job runs
    struct fg_gptq_factor factor;
    int64_t factor_serial; // of the site that it was made for
    double *mlp_snr_db;    // [layers]; NaN: not measured
    int64_t walked;        // layers that are behind the residual that is saved
};

// A matrix in its format with its factors.
struct fg_quantize_result {
    struct fg_fit_result fit;
    void *lr_a, *lr_b; // F16 or INT8 as planned, malloc'd; NULL without factors
    float *lr_scale;   // malloc'd; NULL without INT8 factors
    struct fg_quantize_log log;
};
// The matrix m with its factors; the arrays stay r's.
struct fg_qmat fg_quantize_view(const struct fg_plan_mat *m, const struct fg_quantize_result *r);
void fg_quantize_result_free(struct fg_quantize_result *r);

// Calls the job's progress: FG_EINTERRUPTED when it says stop. item NULL: as before.
int fg_quantize_tick(struct fg_quantize *q, const char *item, struct fg_error *err);

// One matrix while it is fitted.
struct fg_fitter {
    struct fg_quantize *q;
    const struct fg_plan_mat *m;
    struct fg_fit_options fit;
    const float *W;                  // [rows][cols], rotated
    const struct fg_walk_site *site; // what it reads; NULL: rounding to nearest
};
// quantize_fit.c: matrix m of the plan, from the source to its arrays.
int fg_quantize_fit(struct fg_quantize *q, const struct fg_plan_mat *m,
                    struct fg_quantize_result *out, struct fg_error *err);
// Its pieces: the weights, malloc'd, rotated; what the matrix reads, with the job's factor of its
// H, which matrices of one input share; options of its fit.
int fg_quantize_read(struct fg_quantize *q, const struct fg_plan_mat *m, float **W,
                     char sha256[FG_SHA256_HEX], struct fg_error *err);
int fg_quantize_site(struct fg_quantize *q, const struct fg_plan_mat *m, struct fg_walk_site *site,
                     struct fg_error *err);
struct fg_fit_options fg_quantize_fit_options(const struct fg_quantize *q,
                                              const struct fg_plan_mat *m);
// Memory that fitting takes at its peak, without the result's own.
uint64_t fg_quantize_fit_bytes(const struct fg_quantize *q, const struct fg_plan_mat *m);
// T in the matrix's format by the job's method; stats of GPTQ alone.
int fg_quantize_round(struct fg_fitter *f, const float *T, bool want_rtn, struct fg_fit_result *out,
                      struct fg_gptq_stats *stats, struct fg_error *err);
// quantize_factors.c: the format with factors fitted inside (4.3).
int fg_quantize_factors(struct fg_fitter *f, struct fg_quantize_result *out, struct fg_error *err);
// quantize_held.c: what r does to outputs on held-out rows: signal to noise, and the mean over
// tokens of the share that is lost (NULL: not wanted); NaN without such rows. And Q + A B in the
// basis of the model, malloc'd.
int fg_quantize_held(const struct fg_fitter *f, const struct fg_quantize_result *r, double *snr_db,
                     double *rel_err_t, struct fg_error *err);
int fg_quantize_unpack(struct fg_quantize *q, const struct fg_plan_mat *m,
                       const struct fg_quantize_result *r, float **W, struct fg_error *err);

// quantize_walk.c: opens what GPTQ needs besides the source, and closes it.
int fg_quantize_open_calib(struct fg_quantize *q, struct fg_error *err);
void fg_quantize_close_walk(struct fg_quantize *q);
// Starts the walk: from the embedding as it is stored, or from the residual that an earlier run
// saved.
int fg_quantize_start_walk(struct fg_quantize *q, struct fg_error *err);
// Makes sure that the walk that unit u needs is there. A head that comes first has one of its own,
// through the unquantized model.
int fg_quantize_ready_walk(struct fg_quantize *q, struct fg_quantize_unit *u, struct fg_error *err);
// Behind a head that came first: its walk ends.
void fg_quantize_end_walk(struct fg_quantize *q);
// Brings the walk to the layer of matrices that come next, and passes a finished matrix on to it.
int fg_quantize_walk_to(struct fg_quantize *q, int64_t layer, struct fg_error *err);
int fg_quantize_walk_past(struct fg_quantize *q, const struct fg_plan_mat *m,
                          const struct fg_quantize_result *r, struct fg_error *err);
// A unit that an earlier run finished in the layer that the saved residual is at the entry of:
// its matrices go past the walk. *found is false when one of them is gone.
int fg_quantize_walk_restore(struct fg_quantize *q, const struct fg_quantize_unit *u, bool *found,
                             struct fg_error *err);
// The layer's files are written: the walk leaves it, and the journal says so. more: something is
// left to be done behind it.
int fg_quantize_walk_leave(struct fg_quantize *q, int64_t layer, bool more, struct fg_error *err);
// quantize_mats.c: what tells this job's files in state/ from those of others: SHA-256 of all
// options.
int fg_quantize_job_id(const struct fg_quantize *q, char hex[FG_SHA256_HEX], struct fg_error *err);
// Finished matrices of the layer that is being worked on, as files in state/.
// load: *found is false when there is none, or it is damaged.
int fg_quantize_save_mat(const struct fg_quantize *q, const struct fg_plan_mat *m,
                         const struct fg_quantize_result *r, struct fg_error *err);
int fg_quantize_load_mat(const struct fg_quantize *q, const struct fg_plan_mat *m,
                         struct fg_quantize_result *r, bool *found, struct fg_error *err);
void fg_quantize_drop_mats(const struct fg_quantize *q, int64_t layer);

// quantize_files.c: writes the file of a unit.
int fg_quantize_write_unit(struct fg_quantize *q, struct fg_quantize_unit *u, struct fg_error *err);
// Config, tokenizer and template.
int fg_quantize_write_texts(struct fg_quantize *q, struct fg_error *err);

// quantize_embed.c: the file of an embedding in INT8.
int fg_quantize_write_embed_int8(struct fg_quantize *q, const char *path, uint64_t *bytes,
                                 struct fg_error *err);
// The head is the embedding too, and the stream starts from it: it is quantized before the layers.
bool fg_quantize_head_first(const struct fg_quantize *q);
// Whether such a head, finished, is still in state/: what the stream starts from is read there.
int fg_quantize_head_kept(const struct fg_quantize *q, bool *found, struct fg_error *err);
// The embedding as it is stored, where the stream starts from it; `given` false: from the source's.
struct fg_quantize_rows {
    bool given;
    struct fg_qmat m;
    struct fg_quantize_result head;
    struct fg_embedding_int8 int8;
};
int fg_quantize_open_rows(struct fg_quantize *q, struct fg_quantize_rows *out,
                          struct fg_error *err);
void fg_quantize_close_rows(struct fg_quantize_rows *r); // also after a failure; zeroed is fine

// quantize_state.c: the output directory.
// What an earlier run left, into units, log and info; FG_EINTEGRITY when its options differ.
int fg_quantize_load_state(struct fg_quantize *q, struct fg_error *err);
// Makes and locks the directory, removes temporary files of killed runs, and with --restart what
// they had finished.
int fg_quantize_claim(struct fg_quantize *q, struct fg_error *err);
int fg_quantize_save_state(const struct fg_quantize *q, struct fg_error *err);
// Removes the residual and the matrices of a layer: the job is finished.
void fg_quantize_drop_state(const struct fg_quantize *q);
// export.json from what the finished files hold; then drops the state.
int fg_quantize_finish(struct fg_quantize *q, struct fg_error *err);
#endif
