// kernels/levels.h: how a struct fg_kernels is put together, for dispatch.c alone. Each instruction
// set has functions that set the members they implement and leave the others as they are, so a
// level is ref overwritten upward.
//   dense   gemm*.c, convert.c: gemm, gemm_bf16_bf16, to_bf16, widen
//   lut     lut_gemm, lut_decode
//   act     rotate, quantize, quantize2, sum_exp
//   fit     nearest2
//   attn    kv_store, attn_*
//   gdn     gdn
//   vector  everything else in struct fg_kernels
#ifndef FG_KERNELS_LEVELS_H
#define FG_KERNELS_LEVELS_H
#include "kernels/kernels.h"

void fg_fill_dense_ref(struct fg_kernels *k);
void fg_fill_vector_ref(struct fg_kernels *k);
void fg_fill_lut_ref(struct fg_kernels *k);
void fg_fill_act_ref(struct fg_kernels *k);
void fg_fill_fit_ref(struct fg_kernels *k);
void fg_fill_attn_ref(struct fg_kernels *k);
void fg_fill_gdn_ref(struct fg_kernels *k);

#if defined(__x86_64__) && !defined(FORGE_REF_ONLY)
void fg_fill_dense_avx2(struct fg_kernels *k);
void fg_fill_vector_avx2(struct fg_kernels *k);
void fg_fill_dense_avx512(struct fg_kernels *k);
void fg_fill_vector_avx512(struct fg_kernels *k);
void fg_fill_dense_avx512bf16(struct fg_kernels *k); // gemm_bf16_bf16 by VDPBF16PS
void fg_fill_lut_avx2(struct fg_kernels *k);
void fg_fill_act_avx2(struct fg_kernels *k);
void fg_fill_fit_avx2(struct fg_kernels *k);
void fg_fill_attn_avx2(struct fg_kernels *k);
void fg_fill_gdn_avx2(struct fg_kernels *k);
void fg_fill_lut_avx2vnni(struct fg_kernels *k); // AVX-VNNI
void fg_fill_lut_avx512(struct fg_kernels *k);   // lut_decode alone
void fg_fill_act_avx512(struct fg_kernels *k);
void fg_fill_fit_avx512(struct fg_kernels *k);
void fg_fill_attn_avx512(struct fg_kernels *k);
void fg_fill_gdn_avx512(struct fg_kernels *k);
void fg_fill_attn_avx512vnni(struct fg_kernels *k); // INT8 parts of attn_tile
void fg_fill_lut_avx512vnni(struct fg_kernels *k);  // VBMI and VNNI
void fg_fill_lut_amx(struct fg_kernels *k);         // AMX-INT8, over avx512vnni's for few rows
void fg_fill_attn_amx(struct fg_kernels *k);        // the same for INT8 parts of attn_tile
#elif defined(__aarch64__) && !defined(FORGE_REF_ONLY)
void fg_fill_lut_neon(struct fg_kernels *k); // dot product instructions
void fg_fill_act_neon(struct fg_kernels *k);
void fg_fill_attn_neon(struct fg_kernels *k);
#endif
#endif
