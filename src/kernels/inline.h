// kernels/inline.h: how kernels ask the compiler to keep sums in registers.
#ifndef FG_KERNELS_INLINE_H
#define FG_KERNELS_INLINE_H

// A function whose constant arguments become constants of its body.
#define FG_INLINE static inline __attribute__((always_inline))

// Before a loop of a constant number of rounds: no loop remains, and arrays that it indexes become
// registers.
#if defined(__clang__)
#define FG_UNROLL _Pragma("unroll")
#else
#define FG_UNROLL _Pragma("GCC unroll 32")
#endif
#endif
