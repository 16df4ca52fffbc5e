// kernels/avx512/vector.h: the AVX-512 (F, BW, DQ, VL) versions of everything but the matrix
// products; see kernels.h for what each does.
#ifndef FG_KERNELS_AVX512_VECTOR_H
#define FG_KERNELS_AVX512_VECTOR_H
#include <stdint.h>

void fg_rms_norm_avx512(float *y, const float *x, const float *w, int64_t n, float eps);
void fg_rms_norm_gated_avx512(float *y, const float *x, const float *w, const float *z, int64_t n,
                              float eps);
void fg_l2_norm_avx512(float *y, const float *x, int64_t n, float eps, float scale);

void fg_add_avx512(float *y, const float *x, int64_t n);
void fg_silu_mul_avx512(float *y, const float *gate, const float *up, int64_t n);
void fg_sigmoid_mul_avx512(float *y, const float *x, const float *gate, int64_t n);
void fg_rope_avx512(float *x, const float *c, const float *s, int64_t rot);
int64_t fg_argmax_avx512(const float *x, int64_t n);

void fg_conv_silu_avx512(float *y, int64_t ldy, const float *u, int64_t ldu, const float *hist,
                         const float *w, int64_t C, int64_t c0, int64_t c1, int K, int64_t T);
void fg_deltanet_gates_avx512(float *alpha, float *beta, const float *a, const float *b,
                              const float *neg_exp_A, const float *dt_bias, int64_t n);
#endif
