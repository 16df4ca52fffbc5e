// quant/tilefile.h: tile files (specs: runtime 2.4), what `forge compile` makes of a package: its
// quantized matrices in the kernels' order, mapped and used in place. Kept matrices, small tensors
// and signs stay in the package. Which tile files there should be is runtime/compile.h's.
//
// LAYOUT of the file, little-endian:
//   0     magic "FGTILE1\0", u32 version, u32 tile ABI, char isa[16], char layout[16],
//         u8 sha256[32] of the package, u64 file size, u32 sections, u32 CRC-32C of everything
//         before the first section (this field as 0); zeros up to 4096
//   4096  section table, 64 bytes each: u64 FNV-1a of the matrix's name, u32 kind, u32 rows,
//         u32 cols, u32 enum fg_layout, u64 offset, u64 bytes, u32 CRC block bytes, u32 0,
//         u64 offset of its CRC-32C values (u32 per block), u64 0
//   ...   the CRC-32C values of all sections, then the sections
// Sections begin at multiples of 4096, in the order of the table, zeros between them. A matrix has
// its sections side by side with kinds ascending; names are met in any order, each once.
#ifndef FG_QUANT_TILEFILE_H
#define FG_QUANT_TILEFILE_H
#include "base/error.h"
#include "base/hash.h"
#include "base/thread.h"
#include "format/qmat.h"
#include "kernels/lut.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_TILE_ABI 1        // rises when the bytes of a section mean something else
#define FG_TILE_LAYOUT "p16" // lut.h's layout: 16 lanes, for every instruction set
#define FG_TILE_ISA "all"    // hence
#define FG_TILE_CRC_BLOCK 8388608u
#define FG_TILE_MATS_MAX 16384 // matrices of a file
#define FG_TILE_RANK_MAX 65536

enum fg_tile_kind {
    FG_TILE_TILES = 1, // fg_layout_groups * fg_layout_group_bytes; rows, cols = n_out, n_in
    FG_TILE_TABLE,     // FP32 [2][64]; not for FG_I8
    FG_TILE_TABLE_U8,  // u8 [2][64]; not for FG_I8
    FG_TILE_SCALE,     // FP32 [groups * rows of a group]
    FG_TILE_SCALE_TS,  // FP32, the same
    FG_TILE_LR_A,      // F16 [n_out][rank]; only with factors in F16, as the next
    FG_TILE_LR_B,      // F16 [rank][n_in]
    FG_TILE_LR_A8,     // INT8 [n_out][rank]; only with factors in INT8, as the next two
    FG_TILE_LR_B8,     // INT8 [rank][n_in]
    FG_TILE_LR_SCALE   // FP32 [rank]
};

// ---- writing

struct fg_tilefile_mat {
    const char *name; // canonical
    enum fg_layout layout;
    int64_t n_out, n_in, rank;
    enum fg_lr_dtype lr_dtype;
};

// Bytes of section `kind` of a matrix; 0 when it has none.
uint64_t fg_tilefile_section_bytes(const struct fg_tilefile_mat *m, enum fg_tile_kind kind);
// Bytes of a whole file. 0 when they do not fit 64 bits.
uint64_t fg_tilefile_bytes(const struct fg_tilefile_mat *mats, uint64_t n);

struct fg_tilefile_writer; // opaque

// Begins a file under a temporary name beside `path` (struct fg_atomic). sha256: of the package, 64
// hex digits. Errors: FG_EINPUT (sizes outside u32, two names of one hash, too many matrices),
// those of fg_atomic_open; *out is then NULL.
int fg_tilefile_create(struct fg_tilefile_writer **out, const char *path, const char *sha256,
                       const struct fg_tilefile_mat *mats, uint64_t n, struct fg_error *err);
// The bytes of all sections one after the other, in pieces of any size; the space between them is
// the writer's.
int fg_tilefile_write(struct fg_tilefile_writer *w, const void *data, uint64_t n,
                      struct fg_error *err);
// Writes the header, syncs and gives the file its name; frees w. FG_EFAILED when sections are not
// full.
int fg_tilefile_commit(struct fg_tilefile_writer *w, struct fg_error *err);
void fg_tilefile_abort(struct fg_tilefile_writer *w); // removes what there is; NULL is fine

// ---- reading

enum fg_tilefile_verify {
    FG_TILEFILE_BLOCKS, // every CRC, the zeros between sections, finite tables and scales; the file
                        // is then in memory as well
    FG_TILEFILE_HEADER  // header, table and bounds alone
};

enum fg_tilefile_memory {
    FG_TILEFILE_AUTO, // copy from network and removable file systems, whose pages may not arrive
    FG_TILEFILE_MAP,  // map the file: processes share it, and the page cache keeps it
    FG_TILEFILE_COPY  // into anonymous memory with huge pages
};

struct fg_tilefile_expect {
    const char *sha256; // of the package, 64 hex digits; NULL: any
    uint32_t abi;       // 0: FG_TILE_ABI
    const char *layout; // NULL: FG_TILE_LAYOUT
    enum fg_tilefile_memory memory;
};

struct fg_tilefile; // opaque, immutable

// Opens `path`; holds a shared flock while open, which keeps `forge cache clear` away. pool (NULL:
// the caller alone) shares the work of reading and checking. Errors: FG_EINTEGRITY for everything
// that is wrong in the file, with the block in `field` (damaged: worth making again), FG_EINPUT
// when it can't be opened, FG_ERESOURCE; *out is then NULL.
int fg_tilefile_open(struct fg_tilefile **out, const char *path,
                     const struct fg_tilefile_expect *expect, enum fg_tilefile_verify verify,
                     struct fg_pool *pool, struct fg_error *err);
void fg_tilefile_close(struct fg_tilefile *t); // NULL is fine

// The matrix of that canonical name, its pointers into the file. False when it has none.
bool fg_tilefile_lut(const struct fg_tilefile *t, const char *name, struct fg_lut *out);

const char *fg_tilefile_path(const struct fg_tilefile *t);
const char *fg_tilefile_sha256(const struct fg_tilefile *t); // of the package
uint64_t fg_tilefile_size(const struct fg_tilefile *t);      // bytes of the file
uint64_t fg_tilefile_n_mats(const struct fg_tilefile *t);
bool fg_tilefile_is_copy(const struct fg_tilefile *t); // in anonymous memory
// Locks its memory (mlock). FG_ERESOURCE with the bytes needed when the limit is too small.
int fg_tilefile_lock(const struct fg_tilefile *t, struct fg_error *err);
#endif
