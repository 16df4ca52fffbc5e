// kernels/levels.h: how a struct fg_kernels is put together, for dispatch.c alone. Each instruction
// set has functions that set the members they implement and leave the others as they are, so a
// level is ref overwritten upward.
//   dense   gemm*.c, convert.c: gemm, gemm_bf16_bf16, to_bf16, widen
//   vector  everything else in struct fg_kernels
#ifndef FG_KERNELS_LEVELS_H
#define FG_KERNELS_LEVELS_H
#include "kernels/kernels.h"

void fg_fill_dense_ref(struct fg_kernels *k);
void fg_fill_vector_ref(struct fg_kernels *k);

#if defined(__x86_64__) && !defined(FORGE_REF_ONLY)
void fg_fill_dense_avx2(struct fg_kernels *k);
void fg_fill_vector_avx2(struct fg_kernels *k);
void fg_fill_dense_avx512(struct fg_kernels *k);
void fg_fill_vector_avx512(struct fg_kernels *k);
void fg_fill_dense_avx512bf16(struct fg_kernels *k); // gemm_bf16_bf16 by VDPBF16PS
#endif
#endif
