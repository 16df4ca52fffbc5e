// kernels/roof.h: multiply-adds on registers alone: what a thread of this machine can compute at
// most with the instructions of a level. Measured, not part of any result.
#ifndef FG_KERNELS_ROOF_H
#define FG_KERNELS_ROOF_H
#include <stdint.h>

enum fg_roof_kind {
    FG_ROOF_F32, // FP32 FMA
    FG_ROOF_I8,  // INT8 dot products of the vector unit: vpdpbusd, vpmaddubsw and what it needs,
                 // sdot
    FG_ROOF_AMX, // TDPBUSD
    FG_ROOF_N_KINDS
};

// Runs a few thousand rounds of independent chains, about 0.1 ms; returns the multiply-adds done.
// *sink takes a value that depends on all of them.
typedef uint64_t (*fg_roof_fn)(uint32_t *sink);

struct fg_roof_loops {
    fg_roof_fn run[FG_ROOF_N_KINDS]; // NULL where the level has no such instruction
};

// The loops of a level (fg_kernels.isa) that this machine can run; all NULL for other names.
void fg_roof_loops(struct fg_roof_loops *loops, const char *isa);
#endif
