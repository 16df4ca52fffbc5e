// kernels/gdn.h: the recurrence of Gated DeltaNet for calls that commit their rows and calls that
// only try them (specs: model 4.1, runtime 6).
//
// One value head, S [dk][dv] FP32. A row with key k, query q, value v, decay g and rate beta:
//   m[j] = sum_i S[i][j] * k[i] and p[j] = sum_i S[i][j] * q[i], i ascending by fma from zero;
//   kq = dot(k, q, dk);  d[j] = beta * fma(-g, m[j], v[j]);  o[j] = fma(kq, d[j], g * p[j]);
//   S[i][j] = fma(k[i], d[j], g * S[i][j]).
// A row that was tried before leaves k, d and g; applying it is the last line alone, with the same
// operations, so the state has the same bits as if the row had just run.
#ifndef FG_KERNELS_GDN_H
#define FG_KERNELS_GDN_H
#include <stdint.h>

// Rows that were tried and accepted, in order; element t of each at t * ld.
struct fg_gdn_pending {
    const float *k; // [dk]
    const float *d; // [dv]
    const float *g; // one
    int64_t ldk, ldd, ldg, n;
};

// Rows of a call.
struct fg_gdn_rows {
    const float *q, *k; // [dk], normalized and scaled
    const float *v;     // [dv]
    const float *g, *beta;
    int64_t ldq, ldk, ldv, ldg; // ldg also of beta
    int64_t T;                  // 0: only what is pending is applied
};

// Applies `pending` to S, then runs the rows, o row t at o + t * ldo.
//   d NULL: the rows are committed: S_out is the state after them. S_out may be S.
//   else the rows are tried: row t's d goes to d + t * ldd, and S_out, unless NULL, is the state
//   after `pending` alone. S_out may be S.
// scratch: fg_gdn_scratch_bytes(dk, dv), 64-byte aligned. S, S_out 64-byte aligned, nothing else
// is.
typedef void (*fg_gdn_fn)(const float *S, float *S_out, int64_t dk, int64_t dv,
                          const struct fg_gdn_pending *pending, const struct fg_gdn_rows *rows,
                          float *o, int64_t ldo, float *d, int64_t ldd, float *scratch);
uint64_t fg_gdn_scratch_bytes(int64_t dk, int64_t dv);
#endif
