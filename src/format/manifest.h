// format/manifest.h: manifest.json of a build, version "forge1" (specs: runtime 1.2): what the
// packages are, the contexts and KV formats that they are offered with, and the arithmetic. Read
// strictly, written from the same structure. The files that it names are format/build.h's.
#ifndef FG_FORMAT_MANIFEST_H
#define FG_FORMAT_MANIFEST_H
#include "base/arena.h"
#include "base/error.h"
#include "base/kv_format.h"
#include "format/embedding.h"
#include "format/json_fields.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_MANIFEST_BYTES_MAX (4ull << 20)
#define FG_MANIFEST_DEPTH_MAX 16
#define FG_MANIFEST_LAYERS_MAX 1024
#define FG_MANIFEST_CTXS_MAX 32
#define FG_MANIFEST_CTX_MAX (1 << 20)
#define FG_MANIFEST_CTX_STEP 256
#define FG_MANIFEST_T 8
#define FG_MANIFEST_TP 64

struct fg_manifest_gdn { // all 0 in dense models
    int64_t k_heads, v_heads, dk, dv, conv;
};

struct fg_manifest_model {
    int64_t layers, hidden, intermediate, vocab;
    const bool *is_linear; // [layers]: "linear_attention", else "full_attention"
    int64_t n_heads, n_kv_heads, head_dim, rotary_dims;
    double rope_theta, rms_eps;
    bool has_gdn;
    struct fg_manifest_gdn gdn;
    const char *config_sha256; // of model/config.json
};

struct fg_manifest_kv {
    bool given; // false: the key is absent, and fp16 alone is offered
    enum fg_kv_format def;
    bool offers[FG_KV_N_FORMATS];
    bool stable_attention[FG_KV_N_FORMATS];
    bool hadamard[FG_KV_N_FORMATS]; // rotation of the cache
    bool dim_token;                 // key_layout; else "token_dim"
};

struct fg_manifest_rotation {
    bool given; // false: null, nothing is rotated
    int64_t block;
    uint64_t seed_mlp_in, seed_mlp_mid, seed_mix_in, seed_mix_out; // of layer i: base + i
    bool numpy;                                                    // signs; else "splitmix64"
};

struct fg_manifest_numerics {
    const char *attention_mode; // "stored"
    int64_t tile, segment;      // tokens
    int64_t act_block;          // columns
    double unit_s8, unit_s8b, unit_pf8;
    int64_t tile_verify, tile_prefill;
};

struct fg_manifest_chunk {
    const char *file; // relative to the manifest's directory
    int64_t first, last;
    uint64_t bytes;
    const char *sha256;
};

struct fg_manifest {
    const char *release_name, *weights_digest, *upstream_id, *upstream_revision;
    const char *export_name, *export_digest;
    const char *graph_id, *arch; // "qwen3_5", "qwen3", "qwen2", "llama"
    int64_t numerics_abi;
    struct fg_manifest_model model;
    const int64_t *taps; // ascending layer numbers
    int64_t n_taps;
    int n_ctxs, n_pctxs;
    int64_t ctxs[FG_MANIFEST_CTXS_MAX], kv_len[FG_MANIFEST_CTXS_MAX];
    int64_t pctxs[FG_MANIFEST_CTXS_MAX], pkv_len[FG_MANIFEST_CTXS_MAX];
    int64_t prefill_rows[FG_MANIFEST_CTXS_MAX]; // of pctxs
    struct fg_manifest_kv kv;
    struct fg_manifest_rotation rotation;
    struct fg_manifest_numerics numerics;
    const struct fg_manifest_chunk *chunks; // in order of layers
    int64_t n_chunks;
    struct {
        const char *file;
        uint64_t bytes;
        const char *sha256, *id;
        bool rms1p; // norm "rms1p" (1 + w), else "rms" (w)
    } head;
    struct {
        enum fg_embedding_kind kind; // dtype: f16, int8, head
        const char *file;            // "../model/NAME"; NULL where the head is the embedding
        const char *sha256;
    } embedding;

    // Of a manifest that was read: JSON pointers of keys that mean nothing to this program, the
    // first of them, for a debug line each.
    const char *ignored[FG_FIELDS_IGNORED_MAX];
    int n_ignored;
    struct fg_arena arena; // what the pointers above lead to
};

// Reads and checks manifest.json. Errors: FG_EINPUT, the field being the JSON pointer of what is
// wrong ("/chunks/2/layers") or the byte of bad syntax; FG_EUNSUPPORTED for another version, with a
// hint for the original's "coreai1"; FG_ERESOURCE. On failure *m is zeroed.
int fg_manifest_open(struct fg_manifest *m, const char *path, struct fg_error *err);
// The same for n bytes of text; `file` is its name for errors.
int fg_manifest_parse(struct fg_manifest *m, const char *text, size_t n, const char *file,
                      struct fg_error *err);
void fg_manifest_close(struct fg_manifest *m); // zeroed is fine; not for one built by hand

// Every rule of 1.2 that concerns a structure made by hand; `file` names it in errors.
int fg_manifest_check(const struct fg_manifest *m, const char *file, struct fg_error *err);
// Checks and writes atomically; equal structures give equal bytes. What follows from others is
// derived: T, TP, pend; of chunks the entries, gdn_j and att_j (from the chunk's first layer), taps
// (numbers of layers). Errors: FG_EINPUT, FG_ERESOURCE.
int fg_manifest_write(const struct fg_manifest *m, const char *path, struct fg_error *err);

// Fills kv, numerics and numerics_abi as this program makes builds: all KV formats, kv8 by default,
// its cache rotated where m->model.head_dim, which must be set, is a power of two.
void fg_manifest_defaults(struct fg_manifest *m);
#endif
