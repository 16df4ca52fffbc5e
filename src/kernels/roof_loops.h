// kernels/roof_loops.h: where the loops of kernels/roof.h come from, for roof.c alone.
#ifndef FG_KERNELS_ROOF_LOOPS_H
#define FG_KERNELS_ROOF_LOOPS_H
#include <stdint.h>

#define FG_ROOF_ROUNDS 4000

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
