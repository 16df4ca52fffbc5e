// kernels/avx2/gemm_dot2.h: fg_gemm_bf16_fn without AVX512-BF16.
#ifndef FG_KERNELS_AVX2_GEMM_DOT2_H
#define FG_KERNELS_AVX2_GEMM_DOT2_H
#include <stdint.h>

void fg_gemm_bf16_bf16_avx2(float *y, int64_t ldy, const void *w, int64_t n, int64_t r0, int64_t r1,
                            const uint16_t *x, int64_t ldx, int64_t T, void *scratch);
#endif
