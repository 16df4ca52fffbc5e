// kernels/attn_scratch.h: how attention's scratch is laid out, for the vector versions, and hence
// its size. They take up to FG_ATTN_ROWS query rows at a time through all tiles, so that a K/V tile
// comes from memory once for all of them, and blocks of FG_ATTN_BLOCK (then 4, 2, 1) of those
// through one tile in registers.
//
//     q    [FG_ATTN_ROWS / FG_ATTN_BLOCK][stride / 16][FG_ATTN_BLOCK][16]   query rows, interleaved
//     acc  [FG_ATTN_ROWS][stride]   unnormalized output, stride = D rounded up to 16
//     m, l [FG_ATTN_ROWS]           running maximum and sum
//     e    [FG_ATTN_TILE * FG_ATTN_BLOCK]   scores of one block, then their exponentials
#ifndef FG_KERNELS_ATTN_SCRATCH_H
#define FG_KERNELS_ATTN_SCRATCH_H
#include "kernels/kernels.h"

#define FG_ATTN_ROWS 64
#define FG_ATTN_BLOCK 8

struct fg_attn_scratch {
    float *q, *acc, *m, *l, *e; // each 64-byte aligned
    int64_t stride;             // floats from one row of acc to the next
};

static inline struct fg_attn_scratch fg_attn_scratch(void *scratch, int64_t D)
{
    struct fg_attn_scratch s = {.q = scratch, .stride = (D + 15) / 16 * 16};
    s.acc = s.q + FG_ATTN_ROWS * s.stride;
    s.m = s.acc + FG_ATTN_ROWS * s.stride;
    s.l = s.m + FG_ATTN_ROWS;
    s.e = s.l + FG_ATTN_ROWS;
    return s;
}

// Where lanes 16 * i .. 16 * i + 15 of query row r (of FG_ATTN_ROWS) are: this + i * 16 * BLOCK.
static inline float *fg_attn_q_row(const struct fg_attn_scratch *s, int64_t r)
{
    return s->q + r / FG_ATTN_BLOCK * FG_ATTN_BLOCK * s->stride + r % FG_ATTN_BLOCK * 16;
}
#endif
