// runtime/compile_plan.h: the plan of a build on this machine (specs: runtime 2.1, 2.2): which
// packages and tile files, which context entries, how many prefill rows and how much scratch. A
// function of what its key names, so deriving twice gives the same bytes. (Plans of quantization
// are quant/plan.h's.)
#ifndef FG_RUNTIME_COMPILE_PLAN_H
#define FG_RUNTIME_COMPILE_PLAN_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FG_ENGINE_ABI 1 // rises when a plan means something else
#define FG_COMPILE_PLAN_ENTRIES_MAX 32
#define FG_COMPILE_PLAN_PACKAGES_MAX 4096
#define FG_COMPILE_PLAN_MATS_MAX 65536
#define FG_COMPILE_PLAN_BYTES_MAX (32u << 20) // of the JSON file

struct fg_compile_plan_entry {
    int64_t ctx;          // positions
    int64_t prefill_rows; // rows of a prefill call; results do not depend on it
    uint64_t scratch_bytes;
};

struct fg_compile_plan_package {
    const char *file;   // as in the manifest
    const char *sha256; // 64 hex digits
    const char *tiles;  // name of the tile file in builds/tiles
    uint64_t tile_bytes;
};

struct fg_compile_plan_mat {
    const char *name, *format, *layout; // "layers.0.mlp.up_proj", "v2x64", "p6"
};

// Strings belong to whoever made the plan: struct fg_compile_plan_doc for parsed ones.
struct fg_compile_plan {
    char key[FG_SHA256_HEX];
    const char *manifest_sha256, *isa, *numerics, *layout;
    int64_t tile_abi, engine_abi;
    int64_t rows_floor; // prefill rows that this kind of machine wants: an option of the key
    const struct fg_compile_plan_package *packages; // in manifest order, the head last
    const struct fg_compile_plan_mat *mats;         // quantized ones, by name
    uint64_t n_packages, n_mats;
    struct fg_compile_plan_entry entries[FG_COMPILE_PLAN_ENTRIES_MAX]; // ascending
    int n_entries;
};

// Sets p->key: SHA-256 over, each ended by NUL: "forge-plan-1", package hashes, manifest hash, ISA
// level, features of the level in order of the alphabet, numerics, tile ABI, engine ABI, entries,
// options (specs: runtime 2.1). False when out of memory.
bool fg_compile_plan_set_key(struct fg_compile_plan *p);

// JSON text, ended by a newline. FG_ERESOURCE.
int fg_compile_plan_write(const struct fg_compile_plan *p, struct fg_buf *out,
                          struct fg_error *err);

struct fg_compile_plan_doc {
    struct fg_compile_plan plan;
    struct fg_arena arena;
};
// Hostile input: limits, types, order of entries, names that could leave the folder, and that the
// key is the key of the content. Errors: FG_EINPUT, FG_EINTEGRITY (key), FG_ERESOURCE; *doc is then
// empty.
int fg_compile_plan_parse(struct fg_compile_plan_doc *doc, const char *text, size_t n,
                          const char *name, struct fg_error *err);
int fg_compile_plan_open(struct fg_compile_plan_doc *doc, const char *path, struct fg_error *err);
void fg_compile_plan_close(struct fg_compile_plan_doc *doc); // zeroed is fine

// What scratch and prefill rows depend on.
struct fg_compile_plan_shape {
    int64_t hidden, intermediate, vocab;
    int64_t mixer_width;            // of the widest mixer: projections and what leaves it, summed
    int64_t n_heads, head_dim;      // of attention
    int64_t segment;                // tokens of a partial result of attention
    uint64_t weights, weight_bytes; // quantized weights: elements and bytes
};

// Scratch bytes of an entry with R = `rows` prefill rows (specs: runtime 2.2): residual and branch
// 8RH, widest activation twice 8RF, its INT8 form RF, mixer 4R * width, attention's accumulators
// 4R * heads * (D + 2), logits of 8 rows 32V, their partial results 32 * heads * (D + 2) *
// segments.
uint64_t fg_compile_plan_scratch(const struct fg_compile_plan_shape *s, int64_t ctx, int64_t rows);

// The smallest of 32, 64 .. 512 rows at which reading the weights once takes at most a quarter of
// the time of computing with them, by nominal rates of a level and a number of threads.
int64_t fg_compile_plan_rows(const struct fg_compile_plan_shape *s, const char *isa, int threads);
#endif
