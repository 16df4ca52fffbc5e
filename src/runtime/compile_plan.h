// runtime/compile_plan.h: the plan of a build on this machine (specs: runtime 2.1, 2.2): which
// packages and tile files, which context entries, how many prefill rows and how much scratch. A
// function of what its key names, so deriving twice gives the same bytes.
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
    int64_t prefill_rows; // rows of a prefill call
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
    int64_t rows_floor; // prefill rows that this kind of machine wants; an option of the key
    const struct fg_compile_plan_package *packages;
    const struct fg_compile_plan_mat *mats;
    uint64_t n_packages, n_mats;
    struct fg_compile_plan_entry entries[FG_COMPILE_PLAN_ENTRIES_MAX];
    int n_entries;
};

// SHA-256 over, each ended by NUL: "forge-plan-1", package hashes, manifest hash, ISA level,
// numerics, tile ABI, engine ABI, entries, options (specs: runtime 2.1; the level names its
// features). False when out of memory.
bool fg_compile_plan_key(const struct fg_compile_plan *p, char key[FG_SHA256_HEX]);

// JSON text, ended by a newline. FG_ERESOURCE.
int fg_compile_plan_write(const struct fg_compile_plan *p, struct fg_buf *out,
                          struct fg_error *err);

struct fg_compile_plan_doc {
    struct fg_compile_plan plan;
    struct fg_arena arena;
};
// Hostile input: limits, types, order of entries, and that the key is the key of the content.
// Errors: FG_EINPUT, FG_EINTEGRITY (key), FG_ERESOURCE; *doc is then empty.
int fg_compile_plan_parse(struct fg_compile_plan_doc *doc, const char *text, size_t n,
                          const char *name, struct fg_error *err);
int fg_compile_plan_open(struct fg_compile_plan_doc *doc, const char *path, struct fg_error *err);
void fg_compile_plan_close(struct fg_compile_plan_doc *doc); // zeroed is fine

// Widths that scratch depends on; model.h's and manifest.h's numbers.
struct fg_compile_plan_shape {
    int64_t hidden, intermediate, vocab;
    int64_t mixer_widths;      // of the widest mixer: projections and output, summed
    int64_t n_heads, head_dim; // of attention
    int64_t prefill_rows, weights, weight_bytes; // manifest's rows; quantized weights and bytes
};
// Scratch bytes of an entry with `rows` prefill rows (specs: runtime 2.2).
uint64_t fg_compile_plan_scratch(const struct fg_compile_plan_shape *s, int64_t ctx, int64_t rows);
// Smallest of 32, 64 .. 512 rows at which reading the weights costs at most a quarter of computing
// with them, by the nominal rates of a level and a number of threads.
int64_t fg_compile_plan_rows(const struct fg_compile_plan_shape *s, const char *isa, int threads);
#endif
