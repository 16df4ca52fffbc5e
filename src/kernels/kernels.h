// kernels/kernels.h: the whole interface of the compute kernels, and the written order of every
// operation.
//
// A kernel is a pure function of pointers, sizes and strides: no allocation, lock, log,
// environment, thread or global. Each is written first in ref/ (plain C, the truth); avx2/ and
// avx512/ give the same bits. Threads are in parallel.h alone. FP32 everywhere unless said; arrays
// need only the alignment of their element type, weights not even that (they are mapped from files
// at any byte). No aliasing unless said. All translation units: -ffp-contract=off, never
// -ffast-math.
//
// ORDERS OF SUMMATION. fma(a, b, c) is one rounding of a*b + c.
//   dot(w, x, n): 16 lanes at zero; for k = 0 .. n-1: lane[k mod 16] = fma(w[k], x[k], lane[k mod
//   16]); then
//       tree(lane): lane[j] += lane[j+8] (j < 8), then +4, +2, +1; the result is lane[0].
//   dot2(w, x, n), BF16 times BF16 as AVX512-BF16's VDPBF16PS does it: 16 lanes at zero; pair p =
//   (2p, 2p+1) goes to lane
//       p mod 16: first lane = fma(w[2p+1], x[2p+1], lane), then lane = fma(w[2p], x[2p], lane),
//       each with subnormal inputs read as zero and subnormal results (after rounding to 24 bits)
//       flushed to zero of their sign; an odd last element pairs with zeros; then the tree, without
//       flushing.
//   sum(x, n) and sumsq(x, n): as dot, with lane += x[k] and lane = fma(x[k], x[k], lane).
//   max: order does not matter (no NaN in, or the result is unspecified).
// Where a result is NaN, its sign and payload are unspecified.
// exp, sigmoid, SiLU, softplus: our own polynomials in FP32 with one written sequence of operations
// (ref/math.h), used by all.
#ifndef FG_KERNELS_KERNELS_H
#define FG_KERNELS_KERNELS_H
#include "base/error.h"
#include "kernels/gdn.h"
#include "kernels/kv.h"
#include "kernels/lut.h"
#include <stdbool.h>
#include <stdint.h>

// FG_INT8: whole numbers without a scale, of low-rank factors; tensors of checkpoints have the
// other types.
enum fg_dtype { FG_F32, FG_F16, FG_BF16, FG_INT8, FG_N_DTYPES };

static inline uint64_t fg_dtype_bytes(enum fg_dtype t)
{
    return t == FG_F32 ? 4 : t == FG_INT8 ? 1 : 2;
}

// y[t * ldy + r] = dot(w row r, x row t) for r in [r0, r1), t in [0, T).
//   w [n_out][n] of the kernel's weight type, row-major, no padding, any alignment.  x [T] rows of
//   n, stride ldx >= n. scratch: fg_gemm_scratch_bytes(n, T) of the caller's, 64-byte aligned, one
//   per thread.
typedef void (*fg_gemm_fn)(float *y, int64_t ldy, const void *w, int64_t n, int64_t r0, int64_t r1,
                           const float *x, int64_t ldx, int64_t T, void *scratch);
// The same with dot2: x is BF16 (as fg_kernels.to_bf16 rounds it), w is BF16.
typedef void (*fg_gemm_bf16_fn)(float *y, int64_t ldy, const void *w, int64_t n, int64_t r0,
                                int64_t r1, const uint16_t *x, int64_t ldx, int64_t T,
                                void *scratch);

struct fg_kernels {
    const char
        *isa; // "ref", "avx2", "avx2vnni", "avx512", "avx512vnni", "avx512bf16", "amx", "neon"

    fg_gemm_fn gemm[FG_N_DTYPES];   // exact: weights widened to FP32, FP32 activations, dot
    fg_gemm_bf16_fn gemm_bf16_bf16; // fast: dot2

    // dst[i] = src[i] rounded to BF16 (ties to even; NaN quiet).
    void (*to_bf16)(uint16_t *dst, const float *src, int64_t n);
    // dst[i] = element of a row of type `t`, widened. src at any alignment. (Embedding rows.)
    void (*widen)(float *dst, const void *src, enum fg_dtype t, int64_t n);

    // y = x * s * w with s = 1 / sqrt(sumsq(x, n) / n + eps); products in that order: (x*s)*w. y
    // may be x.
    void (*rms_norm)(float *y, const float *x, const float *w, int64_t n, float eps);
    // y = ((x * s) * w) * silu(z), s as above (DeltaNet's gated norm). y may be x.
    void (*rms_norm_gated)(float *y, const float *x, const float *w, const float *z, int64_t n,
                           float eps);
    // y = (x * (1 / sqrt(sumsq(x, n) + eps))) * scale. y may be x.
    void (*l2_norm)(float *y, const float *x, int64_t n, float eps, float scale);

    void (*add)(float *y, const float *x, int64_t n); // y += x
    void (*silu_mul)(float *y, const float *gate, const float *up,
                     int64_t n); // y = silu(gate) * up; y may be either
    void (*sigmoid_mul)(float *y, const float *x, const float *gate,
                        int64_t n); // y = x * sigmoid(gate); y may be x
    // NeoX halves over x[0, rot): x'[i] = x[i]*c[i] - x[i+h]*s[i]; x'[i+h] = x[i+h]*c[i] +
    // x[i]*s[i]; h = rot/2. Each as one product and one fma: fma(-x[i+h], s[i], x[i]*c[i]) and
    // fma(x[i], s[i], x[i+h]*c[i]).
    void (*rope)(float *x, const float *c, const float *s, int64_t rot);

    // Depthwise causal convolution, then SiLU, channels [c0, c1) of C, T rows (specs: model 4 step
    // 2).
    //   w [C][K] FP32, 1 <= K <= 8.  u [T] rows of C, stride ldu.  hist [(K-1)][C]: rows before row
    //   0, oldest first; not changed. y[t*ldy + c] = silu(acc), acc = 0; for j = 0 .. K-1: acc =
    //   fma(w[c][j], row(t-K+1+j)[c], acc). y must not alias u.
    void (*conv_silu)(float *y, int64_t ldy, const float *u, int64_t ldu, const float *hist,
                      const float *w, int64_t C, int64_t c0, int64_t c1, int K, int64_t T);

    // alpha[i] = exp(-exp(A_log[i]) * softplus(a[i] + dt_bias[i])), beta[i] = sigmoid(b[i]);
    // neg_exp_A = -exp(A_log), made once at load. softplus(x) = max(x, 0) + log1p(exp(-|x|)).
    void (*deltanet_gates)(float *alpha, float *beta, const float *a, const float *b,
                           const float *neg_exp_A, const float *dt_bias, int64_t n);

    // Largest value's index, the lowest among equals; NaN counts as -infinity; n >= 1.
    int64_t (*argmax)(const float *x, int64_t n);

    // Quantized weights and their activations: lut.h.
    fg_lut_gemm_fn lut_gemm[FG_N_LAYOUTS];
    fg_lut_decode_fn lut_decode[FG_N_LAYOUTS];
    fg_rotate_fn rotate;
    fg_quantize_fn quantize;
    fg_quantize2_fn quantize2;
    fg_sum_exp_fn sum_exp;

    // Keys and values as they are stored, and attention over them: kv.h. attn_tile[1] is `fast`.
    fg_kv_store_fn kv_store;
    fg_attn_tile_fn attn_tile[2];
    fg_attn_combine_fn attn_combine;
    fg_attn_finish_fn attn_finish;
    // DeltaNet: gdn.h.
    fg_gdn_fn gdn;

    // Fitting of codebooks of two-component vectors (specs: quantization 3.3). For i in [0, n) and
    // entries e in [0, K), K <= 64: distance d(e) = w0[i]*a*a + w1[i]*b*b with a = x0[i] - c[e] and
    // b = x1[i] - c[K + e], products from the left, each operation rounded alone. dist[i] = the
    // least d(e), idx[i] = the lowest e that has it. No NaN in.
    void (*nearest2)(uint8_t *idx, float *dist, const float *x0, const float *x1, const float *w0,
                     const float *w1, const float *c, int K, int64_t n);
};

uint64_t fg_gemm_scratch_bytes(int64_t n, int64_t T);

// Levels from "ref" upward that this build has and this machine can run (CPUID and XCR0; avx512bf16
// also passes a check of the instruction against dot2). *n receives the count; the last is the
// best. Static, never freed.
const struct fg_kernels *const *fg_kernels_levels(int *n);
// The named level; NULL or "" gives the best. FG_EINPUT for an unknown name, FG_EUNSUPPORTED for
// one that can't run here.
int fg_kernels_get(const struct fg_kernels **out, const char *isa, struct fg_error *err);
#endif
