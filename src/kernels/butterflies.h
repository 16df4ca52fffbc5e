// kernels/butterflies.h: the stages of a Walsh-Hadamard transform between vector registers, for the
// rotations of every instruction set (lut.h, fg_rotate_fn). Vectors are the compiler's own types,
// which it adds and subtracts by + and -.
#ifndef FG_KERNELS_BUTTERFLIES_H
#define FG_KERNELS_BUTTERFLIES_H
#include "kernels/inline.h"

// Defines `between`: on R registers, R a constant power of two up to 16, the stages of butterflies
// (a + b, a - b) between registers 1, 2, 4 .. R / 2 apart.
#define FG_BUTTERFLIES(VEC)                                                                        \
    FG_INLINE void stage(const int R, const int h, VEC v[])                                        \
    {                                                                                              \
        FG_UNROLL                                                                                  \
        for (int i = 0; i < R / 2; i++) {                                                          \
            const int at = i / h * 2 * h + i % h;                                                  \
            VEC a = v[at], b = v[at + h];                                                          \
            v[at] = a + b;                                                                         \
            v[at + h] = a - b;                                                                     \
        }                                                                                          \
    }                                                                                              \
    FG_INLINE void between(const int R, VEC v[])                                                   \
    {                                                                                              \
        if (R > 1) stage(R, 1, v);                                                                 \
        if (R > 2) stage(R, 2, v);                                                                 \
        if (R > 4) stage(R, 4, v);                                                                 \
        if (R > 8) stage(R, 8, v);                                                                 \
    }
#endif
