// kernels/roof_loops.h: where the loops of kernels/roof.h come from, for roof.c alone.
#ifndef FG_KERNELS_ROOF_LOOPS_H
#define FG_KERNELS_ROOF_LOOPS_H
#include <stdint.h>

#define FG_ROOF_ROUNDS 4000

// Defines a loop of N independent chains acc = STEP(acc, a, b) of vectors VEC, a and b of type OP
// in registers of kind REG, each step worth LANES multiply-adds; FIRST is a chain's start,
// LAST(acc) an int of the sums that the chains become by ADD. The empty asm keeps the compiler from
// seeing that the operands do not change.
#define FG_ROOF_CHAINS(NAME, VEC, OP, N, REG, A, B, FIRST, STEP, ADD, LAST, LANES)                 \
    uint64_t NAME(uint32_t *sink)                                                                  \
    {                                                                                              \
        VEC acc[(N)];                                                                              \
        OP a = (A), b = (B);                                                                       \
        for (int i = 0; i < (N); i++)                                                              \
            acc[i] = (FIRST);                                                                      \
        for (int r = 0; r < FG_ROOF_ROUNDS; r++) {                                                 \
            __asm__ volatile("" : "+" REG(a), "+" REG(b));                                         \
            _Pragma("GCC unroll 24") for (int i = 0; i < (N); i++) acc[i] = STEP(acc[i], a, b);    \
        }                                                                                          \
        for (int i = 1; i < (N); i++)                                                              \
            acc[0] = ADD(acc[0], acc[i]);                                                          \
        *sink += (uint32_t)LAST(acc[0]);                                                           \
        return (uint64_t)FG_ROOF_ROUNDS * (N) * (LANES);                                           \
    }

#if defined(__x86_64__) && !defined(FORGE_REF_ONLY)
uint64_t fg_roof_f32_avx2(uint32_t *sink);
uint64_t fg_roof_i8_avx2(uint32_t *sink);
uint64_t fg_roof_i8_avx2vnni(uint32_t *sink);
uint64_t fg_roof_f32_avx512(uint32_t *sink);
uint64_t fg_roof_i8_avx512vnni(uint32_t *sink);
uint64_t fg_roof_amx(uint32_t *sink);
#elif defined(__aarch64__) && !defined(FORGE_REF_ONLY)
uint64_t fg_roof_f32_neon(uint32_t *sink);
uint64_t fg_roof_i8_neon(uint32_t *sink);
#endif
#endif
