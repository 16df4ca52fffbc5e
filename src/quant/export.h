// quant/export.h: quantized exports, read (specs: quantization 1.2, 1.3, appendix A). Two layouts
// are known by their content: Forge's own, and the original's (a byte per index, signs of NumPy's
// generator made from the seeds, factors in the basis of the unrotated weights, small tensors,
// embedding and config elsewhere). Both give one struct fg_qset. Writing exports is not here.
//
// A directory holds layer_NN.safetensors (MLP), layer_NN_mixer.safetensors, lm_head.safetensors;
// Forge's own also small.safetensors, embed_tokens.safetensors, config.json and export.json. An
// embedding in INT8 is as format/embedding.h says; where lm_head.safetensors has the metadata
// embed = head, the head is the embedding too, and there is no file of its own.
#ifndef FG_QUANT_EXPORT_H
#define FG_QUANT_EXPORT_H
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "format/embedding.h"
#include "format/qset.h"
#include "kernels/kernels.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_export; // opaque

enum fg_signs { FG_SIGNS_NONE, FG_SIGNS_SPLITMIX64, FG_SIGNS_NUMPY };
// "none", "splitmix64", "numpy-pcg64".
const char *fg_signs_name(enum fg_signs s);

// A tensor that the model has, by canonical name (format/qset.h); model/needs.h makes the list of a
// config.
struct fg_export_need {
    const char *name;
    bool is_mat;
    int rank;
    uint64_t shape[FG_ST_RANK_MAX];
};

// Zeroed is fine.
struct fg_export_options {
    // Where small tensors, embedding and config.json come from when the export has none: a
    // checkpoint, or a bundle's model directory for the embedding and config. NULL: nowhere.
    const char *model_dir;
    // With needs the export must hold these and nothing else (other tensors of model_dir are left
    // alone); without, it is only checked to agree with itself.
    const struct fg_export_need *needs;
    uint64_t n_needs;
    bool allow_missing; // needs that are nowhere are left out: for inspection
    bool fill; // matrices that the export does not have are model_dir's, as they are there; with
               // needs. A tied head is the embedding
    const struct fg_kernels *kernels; // rotates imported factors; NULL: the best level
    struct fg_pool *pool;             // NULL: one thread
    const struct fg_log *log;
};

// Opens, maps and checks everything but the values of indices and codes: names, dtypes, shapes;
// tables, scales and factors finite, scales positive; pad bits zero; sign bitmaps those of their
// seeds. Factors of the original are multiplied by the rotation here and held in memory (0.16 GB
// for the 27B). Errors: FG_EINPUT naming file and tensor or metadata key, FG_ERESOURCE; *out is
// then NULL.
int fg_export_open(struct fg_export **out, const char *dir, const struct fg_export_options *o,
                   struct fg_error *err);
void fg_export_close(struct fg_export *e); // NULL is fine; ends every pointer handed out

// True when `dir` looks like an export: it has layer_00.safetensors or export.json.
bool fg_export_is(const char *dir);

// Matrices, small tensors, rotations.
const struct fg_qset *fg_export_set(const struct fg_export *e);

// Checks what opening leaves: every index below the table's size, every INT8 code above -128. Reads
// the whole matrix. FG_EINPUT naming file, tensor and place.
int fg_export_check_codes(const struct fg_qset_mat *mat, struct fg_error *err);

struct fg_export_embedding {
    enum fg_embedding_kind kind;
    const void *data;       // [vocab][hidden], row-major, any alignment; NULL of none and of HEAD
    enum fg_st_dtype dtype; // F16, BF16 or F32; I8 of INT8
    const void *scale;      // of INT8: [vocab] F16, any alignment
    int64_t vocab, hidden;  // of HEAD: the head's
    const char *file;
};
const struct fg_export_embedding *fg_export_embedding(const struct fg_export *e);

// The sites in the order of seed_base below.
#define FG_EXPORT_SITES 4
extern const char *const fg_export_sites[FG_EXPORT_SITES]; // mlp_in, mlp_mid, mix_in, mix_out

// What an export says about itself. Strings belong to the export; NULL: not said.
struct fg_export_facts {
    const char *dir;
    const char *name; // last component of the directory
    bool original;    // in the original's layout
    enum fg_signs signs;
    int64_t n_layers;
    const char *config;      // path of config.json; NULL: none found
    const char *json;        // text of export.json
    const char *plan;        // its member "plan" as JSON text, or a string's content
    const char *digest;      // its member "digest"
    const char *head_digest; // its member "head_digest"
    const char *forge;       // version that wrote it
    uint64_t n_files;        // of the export itself
    uint64_t bytes;          // of those
    // Seed of layer i = seed_base[site] + i in every rotated layer; false: some other rule.
    bool seeds_regular;
    int64_t seed_base[FG_EXPORT_SITES]; // -1: the site is rotated nowhere
    int64_t block;                      // largest of all sites; 0: nothing is rotated
};
const struct fg_export_facts *fg_export_facts(const struct fg_export *e);
#endif
