// kernels/inline.h: how kernels ask the compiler to keep sums in registers.
#ifndef FG_KERNELS_INLINE_H
#define FG_KERNELS_INLINE_H

// A function whose constant arguments become constants of its body.
#define FG_INLINE static inline __attribute__((always_inline))

// Before a loop of a constant number of rounds: no loop remains, and arrays that it indexes become
// registers. FG_UNROLL_FULL where clang leaves rounds of nested loops with FG_UNROLL.
#if defined(__clang__)
#define FG_UNROLL _Pragma("unroll")
#define FG_UNROLL_FULL _Pragma("clang loop unroll(full)")
#else
#define FG_UNROLL _Pragma("GCC unroll 32")
#define FG_UNROLL_FULL FG_UNROLL
#endif
#endif
