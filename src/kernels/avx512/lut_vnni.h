// kernels/avx512/lut_vnni.h: members of struct fg_kernels that AMX takes for few rows.
#ifndef FG_KERNELS_AVX512_LUT_VNNI_H
#define FG_KERNELS_AVX512_LUT_VNNI_H
#include "kernels/lut.h"

void fg_lut_gemm_p6_avx512vnni(float *y, int64_t ldy, const struct fg_lut *w, int64_t g0,
                               int64_t g1, const struct fg_act *x, int64_t t0, int64_t t1,
                               void *scratch);
void fg_lut_gemm_p4x2_avx512vnni(float *y, int64_t ldy, const struct fg_lut *w, int64_t g0,
                                 int64_t g1, const struct fg_act *x, int64_t t0, int64_t t1,
                                 void *scratch);
void fg_lut_gemm_p4_avx512vnni(float *y, int64_t ldy, const struct fg_lut *w, int64_t g0,
                               int64_t g1, const struct fg_act *x, int64_t t0, int64_t t1,
                               void *scratch);
void fg_lut_gemm_i8_avx512vnni(float *y, int64_t ldy, const struct fg_lut *w, int64_t g0,
                               int64_t g1, const struct fg_act *x, int64_t t0, int64_t t1,
                               void *scratch);
void fg_lut_gemm_p6x1_avx512vnni(float *y, int64_t ldy, const struct fg_lut *w, int64_t g0,
                                 int64_t g1, const struct fg_act *x, int64_t t0, int64_t t1,
                                 void *scratch);
#endif
